# Rotation without a failed request: the new key is published one soft age
# before its first use, the old one withdrawn after its last.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Keys;
use Test::More;
use Time::HiRes qw(sleep time);

my $SOFT = 2;

my $t = Platform::Test->new;
my ($old, $new) = map { jwt_key($_) } qw(a b);
my $issuer = $t->issuer(body => jwks($old));

keys_gateway($t, main => 'worker_processes 4;', keys => <<"KEYS");
platform_gateway_key_soft_age ${SOFT}s;
platform_gateway_key_cooldown 1s;
KEYS
$t->start_nginx;
ok eventually(sub { keys_get($t, $old)->status == 200 }), 'the old key works';

# A client that always has a token of the key in use, and never fails: for so
# long, and ten times eight requests at least.

my %status;
sub load {
    my ($key, $seconds) = @_;

    my $bytes = http_request_bytes(GET => '/branch',
        token => jwt_token('branch', $key));
    my $until = time + $seconds * $t->scale;
    for (my $n = 0; $n < 10 || time < $until; $n++) {
        $status{ $_ ? $_->status : 'none' }++
            for http_parallel([ map { [ $t->port('gateway'), $bytes ] }
                    1 .. 8 ]);
    }
    return;
}

load($old, 0.5);
$issuer->set(body => jwks($old, $new));
load($old, $SOFT);
load($new, 1);
load($old, 0.2);
$issuer->set(body => jwks($new));
load($new, $SOFT + 1);
is_deeply [ keys %status ], [200], 'every request of a rotation passes'
    or diag explain \%status;
ok eventually(sub { keys_get($t, $old, iat => past())->status == 401 }),
    'the old key is refused now';

# A key that is used as soon as it is published: the token brings the fetch.

keys_gateway($t, keys => <<'KEYS');
platform_gateway_key_soft_age 60s;
platform_gateway_key_cooldown 1s;
KEYS
ok $t->reload, 'reload with a long soft age';
sleep 2.5;    # the reload's own fetch, and its cooldown
my $third = jwt_key('c');
$issuer->set(body => jwks($new, $third));
is keys_get($t, $third)->status, 200,
    'a key unknown until now is fetched for its first token';
is keys_get($t, $new)->status, 200, 'beside the known one';

$t->done;
