# What the guard says of each token: whether it passes, or else its status,
# code, challenge, and reason in the log.  Every case is one change to a token
# that passes; check_policy, check_jws and check_jwt have the values of each.

use JSON::PP ();
use Platform::Test;

my ($t, $key, $issuer, $upstream) = Platform::Test->gateway;
my ($other, $weak) = (jwt_key('b'), jwt_key('weak', bits => 1024));
$issuer->set(body => jwks($key, $weak));

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
platform_gateway_access branch;
location / { %%TO_upstream%% }
pass /audience: platform_gateway_audience mobile web;
pass /bound: platform_gateway_allow_confirmation on;
pass /exact: platform_gateway_leeway 0;
pass /short: platform_gateway_token_max_size 100;
SERVER
platform_gateway_issuer http://issuer.test http://second.test https://identity.example.com;
platform_gateway_key_wait 200ms;
platform_gateway_key_cooldown 250s;
HTTP
my $port = $t->start_gateway;

# The clock of now, not of when a test of many seconds began.
sub now { return CORE::time }

sub token { return jwt_token(branch => $key, @_) }

# With that header; with that payload.
sub header { return jwt_sign(header => {@_}, key => $key, payload => jwt_claims('branch')) }

sub payload ($payload) { return jwt_sign(key => $key, payload => $payload) }

my %CODE = (token_missing => 'GATEWAY_TOKEN_MISSING', token_expired => 'GATEWAY_TOKEN_EXPIRED');
my $REALM = 'Bearer realm="platform"';
my $TEXT = qr/[\x20\x21\x23-\x5b\x5d-\x7e]+/;

# [name, reason (PASS: none), token, or what is sent instead: headers, path]: the
# whole answer, what is logged, and whether the upstream was asked.
sub judged {
    for my $case (@_) {
        my ($name, $reason, $token, %o) = @$case;

        my $asked = $upstream->count;
        my $res = http_get($port, $o{path} // '/',
            $o{headers} ? (headers => $o{headers}) : (token => $token));
        $asked = $upstream->count - $asked;
        if ($reason eq 'PASS') {
            is_deeply [ $res->status, $res->header('WWW-Authenticate'), $asked ],
                [ 200, undef, 1 ], "$name: passes";
            next;
        }
        is_problem($res, 401, $CODE{$reason} // 'GATEWAY_TOKEN_INVALID', $name);
        is_deeply [ @{ $t->logged($res) }{qw(decision reason)}, $asked ],
            [ 'deny', $reason, 0 ], "$name: logged, and the upstream not asked";
        like $res->header('WWW-Authenticate'), $reason eq 'token_missing' ? qr/\A$REALM\z/
            : qr/\A$REALM, error="invalid_token", error_description="$TEXT"\z/,
            "$name: challenge";
        like $res->json->{detail}, qr/\b(?:token|key id)\b/, "$name: detail says what is wrong";
        unlike $res->raw_head . $res->body, qr/\Q$token/, "$name: no echo"
            if length($token // '') > 10;
    }
}

sub authorization ($value) { return (undef, headers => [ Authorization => $value ]) }

my $good = token();
judged(
    [ 'control', PASS => $good ],
    [ 'no token at all', token_missing => undef ],
    [ 'Bearer and nothing', token_shape => authorization('Bearer') ],
    [ 'a token in the query', token_missing => undef, path => "/?access_token=$good" ],
    [ 'a token in a cookie', token_missing => undef, headers => [ Cookie => "access=$good" ] ],
);
is http_get($port, '/', headers => [ (Authorization => "Bearer $good") x 2 ])->status, 400,
    "two lines: nginx's own 400";

# Sizes: 16 KiB is the limit, and nginx carries it.

my $fill = 9000;
$fill += int((16_380 - length token(roles => [ 'r' x $fill ])) * 3 / 4);
$fill++ until length token(roles => [ 'r' x ($fill + 1) ]) > 16384;
my $large = token(roles => [ 'r' x $fill ]);
cmp_ok length $large, '>', 16380, 'a token just under 16 KiB';
judged(
    [ 'just under 16 KiB', PASS => $large ],
    [ 'just over 16 KiB', token_size => token(roles => [ 'r' x ($fill + 1) ]) ],
    [ 'over the limit of the location', token_size => $good, path => '/short' ],
);

my $jku = sprintf 'http://127.0.0.1:%d/', $t->port('upstream');
my @claims = (payload => jwt_claims('branch'));
judged(
    [ 'not a token', token_shape => 'abc' ],
    [ 'five parts', token_shape => "$good.e30.e30" ],
    [ 'a byte that is not ASCII', token_signature => "$good\xff" ],
    [ 'alg none', token_alg => jwt_sign(header => { alg => 'none', kid => 'a' }, @claims) . 'x' ],
    [ 'crit', token_crit => header(crit => ['b64'], b64 => JSON::PP::true) ],
    [ 'no kid', token_kid => header(kid => undef) ],
    [ 'keys of its own', token_signature => jwt_sign(key => $other->as('a'),
        header => { jwk => $other->jwk, jku => $jku, x5u => $jku }, @claims) ],
    [ 'the last bit of the signature', token_signature => jwt_tamper($good, 2, -1) ],
    [ 'a weak key, which the issuer lists', kid_unknown => jwt_token(branch => $weak,
        iat => now() - 600) ],
);

my $ago = now() - 900;
judged(
    [ 'expired within the leeway', PASS => token(iat => $ago, exp => now() - 20) ],
    [ 'expired', token_expired => token(iat => $ago, exp => now() - 31) ],
    [ 'no leeway, not expired', PASS => token(exp => now() + 60), path => '/exact' ],
    [ 'no leeway, expired', token_expired => token(iat => $ago, exp => now() - 1),
        path => '/exact' ],
    [ 'issued in the future', token_not_yet => token(iat => now() + 120) ],
    [ 'not valid yet', token_not_yet => token(nbf => now() + 120) ],
);

judged(
    [ 'the second issuer', PASS => token(iss => 'http://second.test') ],
    [ 'another issuer', token_issuer => token(iss => 'http://issuer.test/') ],
    [ 'any audience where none is demanded', PASS => token(aud => 'desk') ],
    [ 'one of several', PASS => token(aud => [ 'desk', 'mobile' ]), path => '/audience' ],
    [ 'no audience', token_audience => token(), path => '/audience' ],
    [ 'none of the list', token_audience => token(aud => [ 'desk', 'we' ]), path => '/audience' ],
    (map { [ 'a bound token', token_bound => $_ ],
        [ 'where that is allowed', PASS => $_, path => '/bound' ],
        [ 'and still where it is not', token_bound => $_ ] } token(cnf => { jkt => 'x' })),
);

# docs/directives.md, what a token has to say: the example passes, the table has
# each of its claims, and each is needed.

my ($told) = $t->read_file($t->root . '/docs/directives.md')
    =~ /^### What a token has to say\n(.*?)^### /ms;
my ($example, $rows) = $told =~ /^```json\n(.*?)^```\n(.*)/ms;
$example = JSON::PP::decode_json($example);
is_deeply [ sort map { /`(\w+)`/g } $rows =~ /^\| (`.*?) \|/mg ],
    [ sort keys %$example ], 'the table has each claim';
judged(
    [ 'the example', PASS => payload({ %$example, iat => now(), exp => now() + 900 }) ],
    (map { [ "without $_", /token_(?:type|scope)/ ? 'token_kind' : 'token_claims',
        token($_ => undef) ] } sort keys %$example),
    [ 'sub of another', token_claims => token(sub => uuid(9)) ],
    [ 'a claim twice', token_json => payload(JSON::PP::encode_json(jwt_claims('branch'))
        =~ s/\}$/,"roles":["b"]}/r) ],
);

# An unknown key: 401 where the token is older than what we know, and 503
# while it may be newer.

judged([ 'an old token of an unknown key', kid_unknown => jwt_token(branch => $other,
    iat => now() - 600) ]);
my $res = http_get($port, '/', token => jwt_token(branch => $other, iat => now() + 20));
is_problem($res, 503, 'GATEWAY_KEYS_UNAVAILABLE', 'a new token of an unknown key');
like $res->header('Retry-After'), qr/^[1-9]\d*$/, 'its Retry-After';
judged([ 'control, at the end', PASS => token() ]);

$t->done;
