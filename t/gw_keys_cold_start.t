# A gateway that starts before its issuer: 503 with Retry-After at once, good
# within a cooldown of the issuer's return, and one fetch for everybody.

use Platform::Test;
use Platform::Test::Keys;
use IO::Select;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $issuer = $t->issuer(body => jwks($key));
my $port = $t->port('gateway');

# The issuer is down.

$issuer->down;
my $nginx = keys_begin($t, cooldown => '3s');
ok $nginx->wait_log(qr/key set not fetched: status 502/), 'the log says why';

my $began = time;
my $res = keys_get($t, $key);
is_problem $res, 503, 'GATEWAY_KEYS_UNAVAILABLE', 'no keys yet';
like $res->header('Retry-After'), qr/^[1-3]$/, 'Retry-After within a cooldown';
is http_get($port, '/readyz')->status, 503, 'not ready';
is http_get($port, '/')->status, 200, 'a public route needs no keys';
is http_get($port, '/branch')->status, 401, 'no token is still 401';
cmp_ok time - $began, '<', 15, 'none of them waited as long as they might';

# It comes back.

$issuer->up;
$began = time;
ok eventually(sub { http_get($port, '/readyz')->status == 200 }), 'ready again';
cmp_ok time - $began, '<', 30, 'by the cooldown, not the soft age';
is keys_get($t, $key)->status, 200, 'and the token is good';
is $issuer->count, 1, 'one fetch did';

# 200 requests at once while the first fetch is on its way.

sub hold (%o) {
    $issuer->forget;
    $issuer->set(hold => 1);
    keys_begin($t, %o);
    ok eventually(sub { $issuer->count }), 'a fetch is on its way';
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
my @all = map { $_->read_response } @asking;
is scalar(grep { $_->status == 200 } @all), 10, 'as many wait as may';
is scalar(grep { $_->status == 503 && $_->header('Retry-After') } @all), 40,
    'the others get 503 and Retry-After';
is $issuer->count, 1, 'after one fetch';

# Longer than a request may wait.

my $failed = keys_failures($t);
hold(wait => '300ms', cooldown => '50s');
is keys_get($t, $key)->status, 503, 'the wait is bounded';
is scalar(keys_failures($t)), $failed, 'by platform_gateway_key_wait';
$issuer->set(hold => 0);
ok eventually(sub { keys_get($t, $key)->status == 200 }), 'and the fetch went on without it';

$t->done;
