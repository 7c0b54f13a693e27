# A slow issuer holds up nobody who has a known key, nor any connection; a
# client that goes away ends no fetch.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Keys;
use Test::More;
use Time::HiRes qw(sleep);

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
    return eventually(sub { $issuer->count > $count });
}

# What $code returns while one and the same fetch hangs; with another fetch if
# that one has failed before it was done.
sub meanwhile {
    my ($code) = @_;

    my $got = 'no fetch lasted so long';
    eventually(sub {
        $issuer->set(hold => 1);
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

# Known keys, while a fetch by age hangs.

is meanwhile(sub {
    return join ' ', map { keys_get($t, $key)->status } 1 .. 20;
}), join(' ', (200) x 20), 'requests with a known key pass without a wait';

# One kept connection, while a fetch hangs that it waits for.

is meanwhile(sub {
    my $c = Platform::Test::Http->new(port => $port);
    return join ' ', map { $c->request(GET => '/branch', token => $_)->status }
        jwt_token('branch', $key),
        jwt_token('branch', $new, iat => past()),
        jwt_token('branch', $key);
}), '200 401 200',
    'a known key, an unknown one after its wait, and again a known one';

# Clients that reset, or half close, while they wait for the fetch.

$issuer->set(hold => 1, body => jwks($key, $new));
ok fetching(), 'the next fetch';
my $bytes = http_request_bytes(GET => '/branch',
    token => jwt_token('branch', $new));
my @gone = map { Platform::Test::Http->new(port => $port) } 1 .. 20;
$_->send($bytes) for @gone;
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
