# The gateway's clock is wrong for a while: what died by it and has not died is
# known again when it is right, since tokens are alive again then.

use Platform::Test;
use Platform::Test::Clock;
use Platform::Test::Revocations;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my ($ended, $goes_on, $later) = map { uuid($_) } 1 .. 3;
my @all = (revoked_id($ended));
my $feed = revocations_feed($t, all => \@all);

# A zone so large that 4,096 slots a fetch would not sweep it in 15 s.
my @SET = (set => 'zone=revocations:16m uri=/_revocations interval=200ms');
my $nginx = revocations_conf($t, $key, @SET);
my $clock = Platform::Test::Clock->new($t, $nginx);
my %token = map { $_ => jwt_token('branch', $key, session_id => $_) } $ended, $goes_on, $later;

sub seen ($session) {
    my $res = http_get($t->port('gateway'), '/branch', token => $token{$session});
    return $t->logged($res)->{reason};
}

sub comes ($session, $reason, $name) {
    return ok eventually(sub { seen($session) eq $reason }), $name;
}

sub forgets ($name) {
    return ok eventually(sub { revocations_metrics($t)->{'revocation_entries'} == 0 }, 15), $name;
}

sub ready { return http_get($t->port('gateway'), '/readyz')->status }

$t->start_nginx;
comes($ended, 'session_revoked', 'control: one ended');
is seen($goes_on), 'verified', 'control: one goes on';

# An hour ahead, all that is known dies with the tokens; what comes is dead.

$clock->ahead(3600);
comes($goes_on, 'token_expired', 'the clock goes ahead');
forgets('and nothing is known any more');
push @all, revoked_id($later);
my $count = $feed->count;
$feed->set(all => \@all);
ok eventually(sub { $feed->count > $count + 2 }), 'one more ends';
forgets('control: dead');

# What is missing is missing until all was read again: it is not ready.

is ready(), 200, 'control: ready';
$feed->down;
$clock->ahead(0);
comes($goes_on, 'verified', 'it is set right');
is ready(), 503, 'not ready';
$feed->up;
ok eventually(sub { ready() == 200 }), 'until all was read';
comes($_, 'session_revoked', 'what ended is known again') for $ended, $later;
is seen($goes_on), 'verified', 'and nothing else';
is revocations_metrics($t)->{'revocation_lag_seconds_count{}'}, 0, 'which tells nothing of the lag';

# Under "refuse" nobody is let in before that, from the first moment.

$clock->ahead(3600);
revocations_conf($t, $key, stale => 'refuse after=30s', @SET);
$t->reload or die;
forgets('ahead again');
$feed->down;
$clock->ahead(0);
my %reasons;
ok eventually(sub { $reasons{ my $reason = seen($ended) } = 1; $reason ne 'token_expired' }),
    'and back';
is seen($ended), 'revocations_stale', 'what ended' for 1 .. 5;
is_deeply [ grep { !/token_expired|stale/ } keys %reasons ], [], 'at once';
$feed->up;
comes($goes_on, 'verified', 'until all was read');
is seen($ended), 'session_revoked', 'which names it';

# Once, not again and again.

sub whole { return scalar grep { $_->{uri} eq '/internal/revocations' } $feed->requests }
my $was = whole();
$count = $feed->count;
ok eventually(sub { $feed->count > $count + 5 }), 'it is asked as before';
is whole(), $was, 'for what is new';

$t->done;
