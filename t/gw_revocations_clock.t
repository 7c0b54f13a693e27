# The gateway's clock is wrong for a while: what died by it and has not died is
# known again when it is right, since tokens are alive again then.

use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Clock;
use Platform::Test::Revocations;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my ($ended, $goes_on, $later) = map { uuid($_) } 1 .. 3;
my @all = (revoked_id($ended));
my $feed = revocations_feed($t, all => \@all);
# A zone so large that 4,096 slots a fetch would not sweep it in 15 s.
my $nginx = revocations_conf($t, $key,
    set => 'zone=revocations:16m uri=/_revocations interval=500ms');
my $clock = Platform::Test::Clock->new($t, $nginx);
my %token = map { $_ => jwt_token('branch', $key, session_id => $_) }
    $ended, $goes_on, $later;

sub seen {
    my ($session) = @_;

    my $res = http_get($t->port('gateway'), '/branch', token => $token{$session});
    return $t->logged($res)->{reason};
}

sub entries { return revocations_metrics($t)->{'revocation_entries'} }

$t->start_nginx;
ok eventually(sub { seen($ended) eq 'session_revoked' }), 'control: one ended';
is seen($goes_on), 'verified', 'control: one goes on';

# An hour ahead, all that is known dies with the tokens; what comes is dead.

$clock->ahead(3600);
ok eventually(sub { seen($goes_on) eq 'token_expired' }), 'the clock goes ahead';
ok eventually(sub { entries() == 0 }, 15), 'and nothing is known any more';
push @all, revoked_id($later);
my $count = $feed->count;
$feed->set(all => \@all);
ok eventually(sub { $feed->count > $count + 2 }), 'one more ends';
ok eventually(sub { entries() == 0 }), 'control: dead';

# What is missing is missing until all was read again: it is not ready.

sub ready { return http_get($t->port('gateway'), '/readyz')->status }
is ready(), 200, 'control: ready';
$feed->down;
$clock->ahead(0);
ok eventually(sub { seen($goes_on) eq 'verified' }), 'it is set right';
is ready(), 503, 'not ready';
$feed->up;
ok eventually(sub { ready() == 200 }), 'until all was read';
for my $session ($ended, $later) {
    ok eventually(sub { seen($session) eq 'session_revoked' }), 'what ended is known again';
}
is seen($goes_on), 'verified', 'and nothing else';
is revocations_metrics($t)->{'revocation_lag_seconds_count{}'}, 0, 'which tells nothing of the lag';

# Under "refuse" nobody is let in before that, from the first moment.

$clock->ahead(3600);
revocations_conf($t, $key, stale => 'refuse after=30s',
    set => 'zone=revocations:16m uri=/_revocations interval=500ms');
$t->reload or die;
ok eventually(sub { entries() == 0 }), 'ahead again';
$feed->down;
$clock->ahead(0);
my %reasons;
ok eventually(sub {
    my $reason = seen($ended);
    $reasons{$reason} = 1;
    $reason ne 'token_expired';
}), 'and back';
is seen($ended), 'revocations_stale', 'what ended' for 1 .. 5;
is_deeply [ grep { !/token_expired|stale/ } keys %reasons ], [], 'at once';
$feed->up;
ok eventually(sub { seen($goes_on) eq 'verified' }), 'until all was read';
is seen($ended), 'session_revoked', 'which names it';

# Once, not again and again.

my $asked = sub {
    my $all = () = grep { $_->{uri} eq '/internal/revocations' }
        $feed->requests;
    return $all;
};
my $was = $asked->();
$count = $feed->count;
ok eventually(sub { $feed->count > $count + 5 }), 'it is asked as before';
is $asked->(), $was, 'for what is new';

$t->done;
