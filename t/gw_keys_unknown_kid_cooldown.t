# Tokens with unknown key ids cause one fetch a cooldown, however many come.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Keys;
use Test::More;
use Time::HiRes qw(sleep time);

my $COOLDOWN = 2;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $issuer = $t->issuer(body => jwks($key));
my $port = $t->port('gateway');

keys_gateway($t, main => 'worker_processes 4;', keys => <<"KEYS");
platform_gateway_key_cooldown ${COOLDOWN}s;
platform_gateway_key_soft_age 60s;
KEYS
$t->start_nginx;
ok eventually(sub { keys_get($t, $key)->status == 200 }), 'a key set is there';
my $began = time;

# A signature is never looked at for a key that is not there.

my (undef, $payload, $signature) = split /\./,
    jwt_token('branch', $key, iat => past());
sub unknown {
    return http_request_bytes(GET => '/branch', token => join '.',
        b64url(sprintf '{"alg":"RS256","typ":"JWT","kid":"%s"}', uuid()),
        $payload, $signature);
}

my %seen;
for (1 .. 10) {
    $seen{ $_->status . ' ' . $_->json->{detail} }++
        for http_parallel([ map { [ $port, unknown() ] } 1 .. 100 ]);
    is keys_get($t, $key)->status, 200, 'a known key passes beside them';
}
my $allowed = 1 + int((time - $began) / $COOLDOWN) + 1;
is_deeply \%seen, { '401 the token was signed by an unknown key' => 1000 },
    '1,000 random key ids: all refused' or diag explain \%seen;
cmp_ok $issuer->count, '<=', $allowed, "with at most $allowed fetches";

# One cooldown later a single request is enough for one.

sleep $COOLDOWN + 0.2;
my $before = $issuer->count;
is http_get($port, '/branch', token => jwt_token('branch', $key->as('new'),
        iat => CORE::time() + 1))    # the second may end before the fetch
    ->status, 503, 'a token newer than the last fetch is not called invalid';
is $issuer->count, $before + 1, 'it caused one fetch';
my $res = http_get($port, '/branch',
    token => jwt_token('branch', $key->as('new')));
is $res->status, 503, 'nor is one within the cooldown';
like $res->header('Retry-After'), qr/^[12]$/, 'it is told when to come again';
is $issuer->count, $before + 1, 'and causes none';
sleep 1.1;
is http_get($port, '/branch',
    token => jwt_token('branch', $key->as('new'), iat => past()))->status,
    401, 'a token older than the last fetch is invalid';

# One from the future is refused for that, key or no key, and fetches nothing.

$before = $issuer->count;
sleep 1.1;
$res = http_get($port, '/branch', token => jwt_token('branch',
        $key->as('new'), iat => CORE::time() + 3600));
is_problem $res, 401, 'GATEWAY_TOKEN_INVALID', 'an unknown key and a future iat';
like $res->json->{detail}, qr/not valid yet|future/, 'is not valid yet';
is keys_get($t, $key, iat => CORE::time() + 3600)->status, 401,
    'as with a known key';
is keys_get($t, $key)->status, 200, 'which works at present';
is $issuer->count, $before, 'and no fetch was made for it';

$t->done;
