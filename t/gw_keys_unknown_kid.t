# Tokens with unknown key ids cause one fetch a cooldown, however many come.
# What a fetch that began after them did not bring is not there; only while none
# may be made a token that says it is new gets 503, for a reason of its own.

use Platform::Test;
use Platform::Test::Keys;
use Platform::Test::Metrics;
use Time::HiRes qw(time);

my $COOLDOWN = 4;

my ($t, $issuer, $key, $new) = keys_test(qw(a b));
my $port = $t->port('gateway');

keys_begin($t, main => 'worker_processes 4;', cooldown => "${COOLDOWN}s");
keys_until($t, 'a key set is there', 200, $key);
my $began = time;

# A signature is never looked at for a key that is not there.

my (undef, $payload, $signature) = split /\./, jwt_token('branch', $key, iat => past());
sub unknown {
    return http_request_bytes(GET => '/branch', token => join '.',
        b64url(sprintf '{"alg":"RS256","typ":"JWT","kid":"%s"}', uuid()),
        $payload, $signature);
}

my %seen;
for (1 .. 3) {
    $seen{ $_->status . ' ' . $_->json->{detail} }++
        for http_parallel([ map { [ $port, unknown() ] } 1 .. 100 ]);
    is keys_get($t, $key)->status, 200, 'a known key passes beside them';
}
my $allowed = 1 + int((time - $began) / $COOLDOWN) + 1;
is_deeply \%seen, { '401 the token was signed by an unknown key' => 300 },
    '300 random key ids: all refused' or diag explain \%seen;
cmp_ok $issuer->count, '<=', $allowed, "with at most $allowed fetches";

# What comes within the cooldown of a fetch: with another fetch, once more.

sub fresh { return (iat => CORE::time() + 25) }    # newer than any fetch

my ($first, $second, $older);
eventually(sub {
    eventually(sub {
        my $before = $issuer->count;
        $first = keys_get($t, $new, fresh());
        $issuer->count > $before;
    });
    my $fetched = $issuer->count;
    $second = keys_get($t, $new, fresh());
    $older = keys_get($t, $key->as('new'), iat => past());
    $issuer->count == $fetched;
});
is_problem $first, 401, 'GATEWAY_TOKEN_INVALID',
    'a kid that the fetch for its token did not bring, however new that is';
is_problem $second, 503, 'GATEWAY_KEYS_UNAVAILABLE',
    'one within the cooldown is not called invalid';
like $second->header('Retry-After'), qr/^[1-$COOLDOWN]$/, 'it is told when to come again';
is $older->status, 401, 'a token older than the last fetch is invalid';
ok eventually(sub {
    my $sample = metrics_scrape($t->port('metrics'), '/');
    my ($pending, $unavailable) = map { $sample->{
        qq(platform_gateway_refusals_total{reason="$_",decision="deny"}) } }
        qw(kid_pending keys_unavailable);
    $pending >= 1 && $unavailable == 0;
}), 'and what says that there are no keys at all says nothing';

# While the issuer is down a fetch says nothing of a key.

$issuer->down;
my $failed = keys_failures($t);
my $res;
ok eventually(sub {
    $res = keys_get($t, $new, fresh());
    keys_failures($t) > $failed;
}), 'a fetch fails';
is $res->status, 503, 'for a new token';
is keys_get($t, $new, iat => past())->status, 401, 'and for an old one';
$issuer->up;

# A fetch that began before the token came does not decide: there is time for
# another one, which brings the key.

keys_begin($t);
keys_until($t, 'an issuer', 200, $key);
$issuer->set(hold => 1);
my @old = keys_refetch($t, $issuer);
$began = time;
my $before = $issuer->count;
$issuer->set(body => jwks($key, $new));
my @c = ((pop @old), keys_send($t, $new), keys_send($t, $new->as('d'), fresh()));
keys_passed(1.1, $began);    # the cooldown
$issuer->set(hold => 0);
is_deeply [ map { $_->read_response->status } @c ], [ 401, 200, 401 ],
    'a key that was published meanwhile is found, others are not';
is $issuer->count, $before + 1, 'by one fetch more';

# The same with no time for another: not even then is it called invalid.

$issuer->set(body => jwks($key));
keys_hold($issuer, sub { keys_begin($t, cooldown => '60s') });
$before = $issuer->count;
@c = (keys_send($t, $new, iat => CORE::time() + 2), keys_send($t, $new, iat => past()),
    keys_send($t, $key));
$issuer->set(hold => 0);
is_deeply [ map { $_->read_response->status } @c ], [ 503, 401, 200 ],
    'a token that was issued while it ran may have a newer key';
is $issuer->count, $before, 'no other fetch was permitted';

# One from the future is refused for that, key or no key, and fetches nothing.

keys_begin($t);
keys_until($t, 'one key', 200, $key);
my @future = (iat => CORE::time() + 3600);
keys_passed(1.1, time);    # the cooldown
$before = $issuer->count;
$res = keys_get($t, $key->as('new'), @future);
is_problem $res, 401, 'GATEWAY_TOKEN_INVALID', 'an unknown key and a future iat';
like $res->json->{detail}, qr/not valid yet|future/, 'is not valid yet';
keys_are($t, 'as with a known key, which works at present', [ 401, $key, @future ], [ 200, $key ]);
is $issuer->count, $before, 'and no fetch was made for it';

$issuer->set(body => jwks($key, $new));
keys_until($t, 'a key unknown until now is fetched for its first token', 200, $new);

$t->done;
