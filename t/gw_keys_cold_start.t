# A gateway that starts before its issuer: 503 with Retry-After at once, good
# within a cooldown of the issuer's return, and one fetch for everybody.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Keys;
use IO::Select;
use Test::More;
use Time::HiRes qw(time);

my $COOLDOWN = 10;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $issuer = $t->issuer(body => jwks($key));
my $port = $t->port('gateway');

my $nginx = keys_gateway($t, keys => <<"KEYS");
platform_gateway_key_cooldown ${COOLDOWN}s;
platform_gateway_key_soft_age 60s;
KEYS

# The issuer is down.

$issuer->down;
$t->start_nginx;
ok $nginx->wait_log(qr/key set not fetched: status 502/), 'the log says why';

my $began = time;
my $res = keys_get($t, $key);
is $res->status, 503, 'no keys yet';
is $res->code, 'GATEWAY_KEYS_UNAVAILABLE', 'and the code says so';
like $res->header('Retry-After'), qr/^(?:[1-9]|10)$/, 'Retry-After within a cooldown';
is http_get($port, '/readyz')->status, 503, 'not ready';
is http_get($port, '/')->status, 200, 'a public route needs no keys';
is http_get($port, '/branch')->status, 401, 'no token is still 401';
cmp_ok time - $began, '<', $COOLDOWN / 2, 'none of them waited';

# It comes back.

$issuer->up;
$began = time;
ok eventually(sub { http_get($port, '/readyz')->status == 200 }),
    'ready again';
cmp_ok time - $began, '<', 2 * $COOLDOWN, 'one cooldown later, not two';
is keys_get($t, $key)->status, 200, 'and the token is good';
is $issuer->count, 1, 'one fetch did';
$t->stop($nginx);

# 200 requests at once while the first fetch is on its way.

$issuer->forget;
$issuer->set(delay => 0.7);
$t->start_nginx;
my $bytes = http_request_bytes(GET => '/branch',
    token => jwt_token('branch', $key));
my @all = http_parallel([ map { [ $port, $bytes ] } 1 .. 200 ]);
is scalar(grep { $_ && $_->status == 200 } @all), 200,
    'all of 200 concurrent requests pass';
is $issuer->count, 1, 'after one fetch';

# More than may wait: those are told to come again, and no sooner are the others
# answered.

$t->stop($nginx);
keys_gateway($t, main => 'worker_processes 1;',
    keys => <<'KEYS');
platform_gateway_key_waiters 10;
platform_gateway_key_cooldown 20s;
KEYS
$issuer->forget;
$issuer->set(delay => 0, hold => 1);
$t->start_nginx;
ok eventually(sub { $issuer->count }), 'a fetch is on its way';
my @asking = map { Platform::Test::Http->new(port => $port) } 1 .. 50;
$_->send($bytes) for @asking;
my $readable = IO::Select->new(map { $_->{fh} } @asking);
ok eventually(sub { 40 == (my @told = $readable->can_read(0)) }),
    'forty have an answer before it ends';
$issuer->set(hold => 0);
@all = map { $_->read_response } @asking;
is scalar(grep { $_->status == 200 } @all), 10, 'as many wait as may';
is scalar(grep { $_->status == 503 && $_->header('Retry-After') } @all), 40,
    'the others get 503 and Retry-After';
is $issuer->count, 1, 'after one fetch';

# Longer than a request may wait.

$t->stop($nginx);
keys_gateway($t, keys => <<'KEYS');
platform_gateway_key_wait 300ms;
platform_gateway_key_cooldown 50s;
KEYS
$issuer->set(hold => 1);
my $failed = keys_failures($t);
$t->start_nginx;
is keys_get($t, $key)->status, 503, 'the wait is bounded';
is scalar(keys_failures($t)), $failed, 'by platform_gateway_key_wait';
$issuer->set(hold => 0);
ok eventually(sub { keys_get($t, $key)->status == 200 }),
    'and the fetch went on without it';

$t->done;
