# Tokens with unknown key ids cause one fetch a cooldown, however many come.
# What a fetch that began after them did not bring is not there; only while none
# may be made a token that says it is new gets 503, for a reason of its own.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Keys;
use Platform::Test::Metrics;
use Test::More;
use Time::HiRes qw(sleep time);

my $COOLDOWN = 6;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $issuer = $t->issuer(body => jwks($key));
my $port = $t->port('gateway');

sub configure {
    my ($cooldown, $more) = @_;

    return keys_gateway($t, main => 'worker_processes 4;', keys => <<"KEYS");
platform_gateway_key_cooldown ${cooldown}s;
platform_gateway_key_soft_age 60s;
@{[ $more // '' ]}
server {
    listen 127.0.0.1:@{[ $t->port('metrics') ]};
    location / { platform_gateway_metrics; }
}
KEYS
}

my $nginx = configure($COOLDOWN);
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

my $new = jwt_key('b');
sub fresh { return (iat => CORE::time() + 25) }    # newer than any fetch
sleep $COOLDOWN + 0.2;
my $before = $issuer->count;
is_problem keys_get($t, $new, fresh()), 401, 'GATEWAY_TOKEN_INVALID',
    'a kid that the fetch for its token did not bring, however new that is';
is $issuer->count, $before + 1, 'it caused one fetch';
my $res = keys_get($t, $new, fresh());
is_problem $res, 503, 'GATEWAY_KEYS_UNAVAILABLE',
    'one within the cooldown is not called invalid';
like $res->header('Retry-After'), qr/^[1-6]$/, 'it is told when to come again';
is $issuer->count, $before + 1, 'and causes none';
sub refusals {
    my $sample = metrics_scrape($t->port('metrics'), '/');
    return join ' ', map { "$_ " . $sample->{
        qq(platform_gateway_refusals_total{reason="$_",decision="deny"}) } } @_;
}
my $counted = 'kid_pending 1 keys_unavailable 0';
ok eventually(sub { refusals(qw(kid_pending keys_unavailable)) eq $counted }),
    'and what says that there are no keys at all says nothing';
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

# While the issuer is down a fetch says nothing of a key.

$issuer->down;
sleep $COOLDOWN;
is keys_get($t, $new, fresh())->status, 503, 'a fetch that failed: new';
is keys_get($t, $new, iat => past())->status, 401, 'and old';
$issuer->up;
sleep $COOLDOWN;

# A fetch that began before the token came does not decide: there is time for
# another one, which brings the key.

sub send_token {
    my ($signed, %claims) = @_;

    my $c = Platform::Test::Http->new(port => $port);
    $c->send(http_request_bytes(GET => '/branch',
        token => jwt_token('branch', $signed, %claims)));
    return $c;
}

$t->stop($nginx);
configure(1, 'platform_gateway_key_wait 20s;');
$t->start_nginx;
ok eventually(sub { keys_get($t, $key)->status == 200 }), 'an issuer';
sleep 1.1;    # the cooldown
$issuer->set(hold => 1);
$before = $issuer->count;
my @c = send_token($new->as('c'), iat => past());
ok eventually(sub { $issuer->count == $before + 1 }), 'is slow to answer';
$issuer->set(body => jwks($key, $new));
push @c, send_token($new), send_token($new->as('d'), fresh());
sleep 1.1;    # the cooldown
$issuer->set(hold => 0);
is_deeply [ map { $_->read_response->status } @c ], [ 401, 200, 401 ],
    'a key that was published meanwhile is found, others are not';
is $issuer->count, $before + 2, 'by one fetch more';

# The same with no time for another: not even then is it called invalid.

$t->stop($nginx);
configure(60, 'platform_gateway_key_wait 20s;');
$before = $issuer->count;
$issuer->set(hold => 1, body => jwks($key));
$t->start_nginx;
ok eventually(sub { $issuer->count == $before + 1 }), 'a slow first fetch';
sleep 1.2;    # a later second
@c = (send_token($new), send_token($new, iat => past()), send_token($key));
$issuer->set(hold => 0);
is_deeply [ map { $_->read_response->status } @c ], [ 503, 401, 200 ],
    'a token that was issued while it ran may have a newer key';
is $issuer->count, $before + 1, 'no other fetch was permitted';

$t->done;
