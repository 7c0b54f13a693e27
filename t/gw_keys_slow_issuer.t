# A slow issuer holds up nobody who has a known key, nor any connection; a
# client that goes away ends no fetch.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Keys;
use Test::More;
use Time::HiRes qw(sleep time);

my $t = Platform::Test->new;
my ($key, $new) = map { jwt_key($_) } qw(a b);
my $issuer = $t->issuer(body => jwks($key));
my $port = $t->port('gateway');

my $nginx = keys_gateway($t, main => 'worker_processes 2;', keys => <<'KEYS');
platform_gateway_key_soft_age 2s;
platform_gateway_key_cooldown 1s;
platform_gateway_key_wait 1s;
KEYS
$t->start_nginx;
ok eventually(sub { keys_get($t, $key)->status == 200 }), 'a key set is there';
my @workers = sort $nginx->workers;

# Whether the issuer has a request that it has not answered yet.
sub fetching {
    my $count = $issuer->count;
    return eventually(sub { $issuer->count > $count }, 10);
}

sub slowest(&) {
    my ($code) = @_;

    my $began = time;
    $code->();
    return time - $began;
}

my $limit = 0.5 * $t->scale;

# Known keys, while a fetch by age hangs.

$issuer->set(delay => 3);
ok fetching(), 'a fetch by age is on its way';
my $until = time + 2;
my ($worst, $bad, $n) = (0, 0, 0);
while (time < $until) {
    my $took = slowest { $bad++ if keys_get($t, $key)->status != 200 };
    $worst = $took if $took > $worst;
    $n++;
}
is $bad, 0, "$n requests with a known key pass";
cmp_ok $worst, '<', $limit, sprintf 'none waits (%.3f s at most)', $worst;

# One kept connection, while a fetch that it caused hangs.

ok fetching(), 'the next fetch';
my $c = Platform::Test::Http->new(port => $port);
my %known = (token => jwt_token('branch', $key));
is $c->request(GET => '/branch', %known)->status, 200, 'a known key';
my $res;
my $took = slowest {
    $res = $c->request(GET => '/branch',
        token => jwt_token('branch', $new, iat => past()));
};
is $res->status, 401, 'an unknown one';
cmp_ok $took, '<', 1.5 * $t->scale, 'is decided after the wait at most';
$took = slowest { $res = $c->request(GET => '/branch', %known) };
is $res->status, 200, 'the next request on the connection';
cmp_ok $took, '<', $limit, 'does not wait';

# Clients that reset, or half close, while they wait for the fetch.

$issuer->set(body => jwks($key, $new));
ok fetching(), 'the next fetch';
my $bytes = http_request_bytes(GET => '/branch',
    token => jwt_token('branch', $new));
my @gone = map { Platform::Test::Http->new(port => $port) } 1 .. 20;
$_->send($bytes) for @gone;
sleep 0.1;
$_->reset for splice @gone, 0, 10;
$_->close for @gone;
ok eventually(sub { keys_get($t, $new)->status == 200 }, 10),
    'the fetch goes on and brings the new key';
is_deeply [ sort $nginx->workers ], \@workers, 'by the same workers';

# Slower than a fetch may be: the old set serves on.

$issuer->set(delay => 6, body => jwks($key));
ok $nginx->wait_log(qr/key set not refreshed: timed out/, 20), 'timed out';
is keys_get($t, $new)->status, 200, 'the set that we have serves';
$issuer->set(delay => 0);
ok eventually(sub { keys_get($t, $new, iat => past())->status == 401 }, 20),
    'until the issuer answers again';
sleep 1.5;    # the last slow answer

$t->done;
