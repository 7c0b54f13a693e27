# Who waits for a fetch, and who does not.  A gateway that starts before its
# issuer: 503 with Retry-After at once, good within a cooldown of the issuer's
# return, and one fetch for everybody.  A slow issuer holds up nobody who has a
# known key, nor any connection; a client that goes away ends no fetch.

use Platform::Test;
use Platform::Test::Keys;
use IO::Select;
use Time::HiRes qw(time);

my ($t, $issuer, $key, $new) = keys_test(qw(a b));
my $port = $t->port('gateway');

$issuer->down;
my $nginx = keys_begin($t, cooldown => '3s');
ok $nginx->wait_log(qr/key set not fetched: status 502/), 'the log says why';

my $began = time;
my $res = keys_get($t, $key);
is_problem $res, 503, 'GATEWAY_KEYS_UNAVAILABLE', 'no keys yet';
like $res->header('Retry-After'), qr/^[1-3]$/, 'Retry-After within a cooldown';
is_deeply [ map { http_get($port, $_)->status } qw(/readyz / /branch) ], [ 503, 200, 401 ],
    'not ready; a public route needs no keys, no token is still 401';
cmp_ok time - $began, '<', 15, 'none of them waited as long as they might';

$issuer->up;
$began = time;
ok eventually(sub { http_get($port, '/readyz')->status == 200 }), 'it comes back: ready again';
cmp_ok time - $began, '<', 30, 'by the cooldown, not the soft age';
is keys_get($t, $key)->status, 200, 'and the token is good';
is $issuer->count, 1, 'one fetch did';

sub hold (%o) {
    $issuer->forget;
    keys_hold($issuer, sub { $nginx = keys_begin($t, %o) });
}

hold(cooldown => '20s');
my @asking = map { keys_send($t, $key) } 1 .. 200;
$issuer->set(hold => 0);
is scalar(grep { $_->read_response->status == 200 } @asking), 200,
    'all of 200 concurrent requests pass';
is $issuer->count, 1, 'after one fetch';

# More than may wait: those are told to come again, and no sooner are the others
# answered.

hold(main => 'worker_processes 1;', cooldown => '20s', waiters => 10);
@asking = map { keys_send($t, $key) } 1 .. 50;
my $readable = IO::Select->new(map { $_->{fh} } @asking);
ok eventually(sub { 40 == (my @told = $readable->can_read(0)) }),
    'forty have an answer before it ends';
$issuer->set(hold => 0);
my %seen;
$seen{ join ' ', $_->status, $_->header('Retry-After') ? 'later' : () }++
    for map { $_->read_response } @asking;
is_deeply \%seen, { 200 => 10, '503 later' => 40 },
    'as many wait as may, the others get 503 and Retry-After';
is $issuer->count, 1, 'after one fetch';

my $failed = keys_failures($t);
hold(wait => '300ms', cooldown => '50s');
is keys_get($t, $key)->status, 503, 'the wait is bounded';
is scalar(keys_failures($t)), $failed, 'by platform_gateway_key_wait';
$issuer->set(hold => 0);
keys_until($t, 'and the fetch went on without it', 200, $key);

# What $code returns while one and the same fetch hangs; with another fetch if
# that one has failed before it was done.

$nginx = keys_begin($t, soft_age => '1s', wait => '1s');
keys_until($t, 'a set that has to be fetched soon again', 200, $key);
my @workers = sort $nginx->workers;

sub hanging ($code) {
    my $got = 'no fetch lasted so long';
    eventually(sub {
        keys_hold($issuer);
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
    my ($c, $token) = (Platform::Test::Http->new(port => $port), jwt_token('branch', $key));
    return join ' ', map { $c->request(GET => '/branch', token => $_)->status }
        $token, jwt_token('branch', $new, iat => past()), $token;
}), '200 401 200',
    'on one connection a known key, an unknown one after its wait, a known one';

$issuer->set(body => jwks($key, $new));
keys_hold($issuer);
my @gone = map { keys_send($t, $new) } 1 .. 20;
sleep 0.1;
$_->reset for splice @gone, 0, 10;
$_->close for @gone;
$issuer->set(hold => 0);
keys_until($t, 'the fetch goes on and brings the new key', 200, $new);
is_deeply [ sort $nginx->workers ], \@workers, 'by the same workers';

my $said = length $nginx->error_log;
$issuer->set(hold => 1, body => jwks($key));
ok eventually(sub {
    substr($nginx->error_log, $said) =~ /key set not refreshed: timed out/
}), 'timed out';
is keys_get($t, $new)->status, 200, 'the set that we have serves';
$issuer->set(hold => 0);
keys_until($t, 'until the issuer answers again', 401, $new, iat => past());

$t->done;
