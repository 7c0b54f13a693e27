# A slow issuer holds up nobody who has a known key, nor any connection; a
# client that goes away ends no fetch.

use Platform::Test;
use Platform::Test::Keys;

my $t = Platform::Test->new;
my ($key, $new) = map { jwt_key($_) } qw(a b);
my $issuer = $t->issuer(body => jwks($key));

my $nginx = keys_begin($t, soft_age => '1s', wait => '1s');
ok eventually(sub { keys_get($t, $key)->status == 200 }), 'a key set is there';
my @workers = sort $nginx->workers;

sub fetching {
    my $count = $issuer->count;
    $issuer->set(hold => 1, @_);
    return eventually(sub { $issuer->count > $count });
}

# What $code returns while one and the same fetch hangs; with
# another fetch if that one has failed before it was done.
sub hanging ($code) {
    my $got = 'no fetch lasted so long';
    eventually(sub {
        fetching();
        my ($count, $failed) = ($issuer->count, scalar keys_failures($t));
        my $said = $code->();
        my $same = $issuer->count == $count && keys_failures($t) == $failed;
        $got = $said if $same;
        $issuer->set(hold => 0);
        return $same;
    });
    return $got;
}

is hanging(sub { return join ' ', map { keys_get($t, $key)->status } 1 .. 20 }),
    join(' ', (200) x 20), 'requests with a known key pass without a wait';
is hanging(sub {
    my ($c, $token) = (Platform::Test::Http->new(port => $t->port('gateway')),
        jwt_token('branch', $key));
    return join ' ', map { $c->request(GET => '/branch', token => $_)->status }
        $token, jwt_token('branch', $new, iat => past()), $token;
}), '200 401 200',
    'on one connection a known key, an unknown one after its wait, a known one';

# Clients that reset, or close, while they wait for the fetch.

ok fetching(body => jwks($key, $new)), 'the next fetch';
my @gone = map { keys_send($t, $new) } 1 .. 20;
sleep 0.1;
$_->reset for splice @gone, 0, 10;
$_->close for @gone;
$issuer->set(hold => 0);
ok eventually(sub { keys_get($t, $new)->status == 200 }),
    'the fetch goes on and brings the new key';
is_deeply [ sort $nginx->workers ], \@workers, 'by the same workers';

# Slower than a fetch may be: the old set serves on.

my $said = length $nginx->error_log;
$issuer->set(hold => 1, body => jwks($key));
ok eventually(sub {
    substr($nginx->error_log, $said) =~ /key set not refreshed: timed out/
}), 'timed out';
is keys_get($t, $new)->status, 200, 'the set that we have serves';
$issuer->set(hold => 0);
ok eventually(sub { keys_get($t, $new, iat => past())->status == 401 }),
    'until the issuer answers again';

$t->done;
