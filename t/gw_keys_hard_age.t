# While the issuer is down the last good set serves, up to the hard age.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Keys;
use Test::More;
use Time::HiRes qw(sleep time);

my ($COOLDOWN, $SOFT, $HARD) = (1, 4, 12);

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $issuer = $t->issuer(body => jwks($key));
my $port = $t->port('gateway');

my $nginx = keys_gateway($t, source => <<'SERVER', keys => <<"KEYS");
platform_gateway_key_location /_keys;
location /held {
    platform_gateway_access branch;
    set $account $platform_account_id;
    limit_req zone=held burst=10;
    empty_gif;
}
SERVER
limit_req_zone \$platform_account_id zone=held:1m rate=4r/m;
platform_gateway_key_cooldown ${COOLDOWN}s;
platform_gateway_key_soft_age ${SOFT}s;
platform_gateway_key_hard_age ${HARD}s;
KEYS
$t->start_nginx;
ok eventually(sub { keys_get($t, $key)->status == 200 }), 'a key set is there';

my $down = time;
$issuer->down;

# Two of them: the second is held for fifteen seconds.
my $bytes = http_request_bytes(GET => '/held',
    token => jwt_token(branch => $key));
is +(http_parallel([ [ $port, $bytes ] ]))[0]->status, 200, 'a limit lets one go';
my $held = Platform::Test::Http->new(port => $port);
$held->send($bytes);

# The set was good up to a soft age, and a second for the fetch, before.
my $failed = 0;
while (1) {
    my $status = keys_get($t, $key)->status;
    last if time > $down + $HARD - $SOFT - 1;
    $failed++ if $status != 200;
    sleep 0.05;
}
is $failed, 0, 'no request fails before the hard age';
ok eventually(sub { keys_failures($t) >= 1 }), 'failures are logged';
my $lines = keys_failures($t);
cmp_ok $lines, '<=', (time - $down) / $COOLDOWN + 1, 'once a cooldown';
like +(keys_failures($t))[0], qr/last good one is \d+s old, and kept/,
    'with the age of what serves';

ok eventually(sub { keys_get($t, $key)->status == 503 }),
    'past the hard age the set is unusable';
cmp_ok time - $down, '<', $HARD + $SOFT, 'at the hard age';
is $held->read_response->status, 503,
    'nor for a request that a limit held so long';
my $res = keys_get($t, $key);
is $res->code, 'GATEWAY_KEYS_UNAVAILABLE', 'the answer says so';
ok $res->header('Retry-After'), 'with Retry-After';
is http_get($port, '/readyz')->status, 503, 'not ready any more';
ok $nginx->wait_log(qr/which is past the hard age/), 'and the log says so';

# The same set again, and a request that came while there was none: what was
# found out without keys is not what it is decided by.

$issuer->set(hold => 1);
my $count = $issuer->count;
$issuer->up;
my $up = time;
ok eventually(sub { $issuer->count > $count }), 'a fetch under way';
my @parked = map { Platform::Test::Http->new(port => $port) } 1 .. 4;
$_->send(http_request_bytes(GET => '/branch',
    token => jwt_token(branch => $key))) for @parked;
is http_get($port, '/readyz')->status, 503, 'not ready yet' for @parked;
$issuer->set(hold => 0);
is $_->read_response->status, 200, 'lets in who waited for it' for @parked;
ok eventually(sub { keys_get($t, $key)->status == 200 }), 'good again';
cmp_ok time - $up, '<', $SOFT,
    'a cooldown after the last failure, not a soft age';
is http_get($port, '/readyz')->status, 200, 'and ready';

$t->done;
