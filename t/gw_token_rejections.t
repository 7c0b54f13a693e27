# What the guard says of each bad token: status, code, challenge, and reason
# in the log.  Every case is one change to a token that passes.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use JSON::PP ();
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $other = jwt_key('b');
my $weak = jwt_key('weak', bits => 1024);
$t->issuer(body => jwks($key, $weak));
my $upstream = $t->echo_upstream;

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
platform_gateway_access branch;
location / {
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /audience {
    platform_gateway_audience mobile web;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /bound {
    platform_gateway_allow_confirmation on;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /exact {
    platform_gateway_leeway 0;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /short {
    platform_gateway_token_max_size 100;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
SERVER
platform_gateway_issuer http://issuer.test http://second.test
    https://identity.example.com;
platform_gateway_key_wait 200ms;
platform_gateway_key_cooldown 250s;
HTTP
my $port = $t->start_gateway;


# The clock of now, not of when a test of many seconds began.
sub now { return CORE::time }

sub token { return jwt_token(branch => $key, @_) }

sub passes {
    my ($name, $token, $path) = @_;

    my $res = http_get($port, $path // '/', token => $token);
    is $res->status, 200, "$name: passes";
    is $res->header('WWW-Authenticate'), undef, "$name: no challenge";
    return;
}

sub refused {
    my ($name, $token, %o) = @_;

    my $asked = $upstream->count;
    my $code = $o{code} // 'GATEWAY_TOKEN_INVALID';
    my $reason = $o{reason} // die "$name: which reason?\n";
    my $res = http_get($port, $o{path} // '/',
        $o{headers} ? (headers => $o{headers}) : (token => $token));
    is $res->status, 401, "$name: 401";
    is $res->code, $code, "$name: code";
    if ($code eq 'GATEWAY_TOKEN_MISSING') {
        is $res->header('WWW-Authenticate'), 'Bearer realm="platform"',
            "$name: challenge";
    }
    else {
        like $res->header('WWW-Authenticate'),
            qr/^Bearer realm="platform", error="invalid_token", error_description="[\x20\x21\x23-\x5b\x5d-\x7e]+"$/,
            "$name: challenge";
    }
    is $res->header('Content-Type'), 'application/problem+json',
        "$name: type";
    like $res->json->{detail}, qr/\b(?:token|key id)\b/,
        "$name: detail says what is wrong";
    unlike $res->body, qr/\Q$token/, "$name: no echo"
        if defined $token && length $token > 10;
    my $line = $t->logged($res);
    like $line->{reason}, ref $reason ? $reason : qr/^$reason$/,
        "$name: reason";
    is $line->{decision}, 'deny', "$name: decision";
    is $upstream->count, $asked, "$name: upstream not asked";
    return;
}

# Finding the token.

my $good = token();
passes('control', $good);
for my $scheme ('bearer', 'BEARER', 'BeArEr', 'Bearer ', 'Bearer   ') {
    my $res = http_get($port, '/',
        headers => [ Authorization => "$scheme $good" ]);
    is $res->status, 200, "scheme '$scheme'";
}
refused('no token at all', undef, headers => [],
    code => 'GATEWAY_TOKEN_MISSING', reason => 'token_missing');
refused("scheme $_", undef, headers => [ Authorization => "$_ $good" ],
    code => 'GATEWAY_TOKEN_MISSING', reason => 'token_missing')
    for qw(Basic Token Bearerx DPoP);
refused('the token as a scheme', undef, headers => [ Authorization => $good ],
    code => 'GATEWAY_TOKEN_MISSING', reason => 'token_missing');
refused('an empty header', undef, headers => [ Authorization => '' ],
    code => 'GATEWAY_TOKEN_MISSING', reason => 'token_missing');
refused('Bearer and nothing', undef, headers => [ Authorization => 'Bearer' ],
    reason => 'token_shape');
refused('two tokens in one line', undef,
    headers => [ Authorization => "Bearer $good $good" ],
    reason => 'token_shape');
refused('two tokens and a comma', undef,
    headers => [ Authorization => "Bearer $good, Bearer $good" ],
    reason => 'token_shape');
is http_get($port, '/', headers => [ Authorization => "Bearer $good",
    Authorization => "Bearer $good" ])->status, 400,
    "two lines: nginx's own 400";
refused('a token in the query', undef, headers => [],
    path => "/?access_token=$good",
    code => 'GATEWAY_TOKEN_MISSING', reason => 'token_missing');
refused('a token in a cookie', undef,
    headers => [ Cookie => "access_token=$good" ],
    code => 'GATEWAY_TOKEN_MISSING', reason => 'token_missing');

# Shape.

refused('not a token', 'abc',
    reason => 'token_shape');
refused('two parts', 'a.b',
    reason => 'token_shape');
refused('empty parts', '..',
    reason => 'token_shape');
refused('four parts', "$good.a",
    reason => 'token_shape');
refused('padding', "$good=",
    reason => 'token_signature');
refused('a byte that is not ASCII', "$good\xff",
    reason => 'token_signature');
refused('a byte outside the alphabet', $good =~ s/.$/+/r,
    reason => 'token_signature');
refused('over the limit of the location', $good, path => '/short',
    reason => 'token_size');

# Sizes: 16 KiB is the limit, and nginx carries it.

my $fill = 0;
my $large;
while (1) {
    my $next = token(roles => [ 'r' x $fill ]);
    last if length $next > 16384;
    $large = $next;
    my $left = 16384 - length $next;
    last if $left < 4;
    $fill += int($left * 3 / 4) || 1;
}
cmp_ok length $large, '>', 16370, 'a token just under 16 KiB';
passes('just under 16 KiB', $large);
refused('just over 16 KiB', token(roles => [ 'r' x ($fill + 30) ]),
    reason => 'token_size');

# Header.

refused('alg none', jwt_sign(header => { alg => 'none', kid => 'a' },
    payload => jwt_claims('branch')) . 'x',
    reason => 'token_alg');
refused('HS256 with our public key', jwt_sign(header => { kid => 'a' },
    secret => $key->public_pem, payload => jwt_claims('branch')),
    reason => 'token_alg');
refused('RS512', jwt_sign(header => { alg => 'RS512' }, key => $key,
    hash => 'SHA512', payload => jwt_claims('branch')),
    reason => 'token_alg');
refused('typ JWE', jwt_sign(header => { typ => 'JWE' }, key => $key,
    payload => jwt_claims('branch')),
    reason => 'token_typ');
passes("typ $_", jwt_sign(header => { typ => $_ }, key => $key,
    payload => jwt_claims('branch')))
    for qw(JWT jwt at+jwt application/jwt application/at+jwt Application/AT+JWT);
refused("typ $_", jwt_sign(header => { typ => $_ }, key => $key,
    payload => jwt_claims('branch')), reason => 'token_typ')
    for 'application/dpop+jwt', 'text/jwt', 'application/jwt;v=1';
passes('no typ', jwt_sign(header => { typ => undef }, key => $key,
    payload => jwt_claims('branch')));
refused('crit', jwt_sign(header => { crit => ['b64'], b64 => JSON::PP::true },
    key => $key, payload => jwt_claims('branch')),
    reason => 'token_crit');
refused('no kid', jwt_sign(header => { kid => undef }, key => $key,
    payload => jwt_claims('branch')),
    reason => 'token_kid');
refused('a jwk of its own', jwt_sign(key => $other->as('a'),
    header => { jwk => $other->jwk }, payload => jwt_claims('branch')),
    reason => 'token_signature');
my $jku = sprintf 'http://127.0.0.1:%d/', $t->port('upstream');
refused('a jku of its own', jwt_sign(key => $other->as('a'),
    header => { jku => $jku, x5u => $jku }, payload => jwt_claims('branch')),
    reason => 'token_signature');
refused('a header that is no object', jwt_sign(header => '[]', key => $key,
    payload => jwt_claims('branch')),
    reason => 'token_header');

# Signature.

refused("signature bit $_", jwt_tamper($good, 2, $_),
    reason => 'token_signature') for 0, 1000, -1;
refused('payload bit', jwt_tamper($good, 1, 150),
    reason => 'token_claims');
refused('header bit', jwt_tamper($good, 0, 20),
    reason => 'token_alg');
refused("another's signature",
    jwt_sign(key => $other->as('a'), payload => jwt_claims('branch')),
    reason => 'token_signature');

# A weak key is not in the set, though the issuer lists it.

refused('a key of 1024 bits', jwt_sign(key => $weak,
    payload => jwt_claims('branch', iat => now() - 600)),
    reason => 'kid_unknown');

# Time.

passes('expired within the leeway', token(iat => now() - 900, exp => now() - 20));
refused('expired', token(iat => now() - 900, exp => now() - 31),
    code => 'GATEWAY_TOKEN_EXPIRED', reason => 'token_expired');
passes('no leeway, not expired', token(exp => now() + 60), '/exact');
refused('no leeway, expired', token(iat => now() - 900, exp => now() - 1),
    path => '/exact', code => 'GATEWAY_TOKEN_EXPIRED',
    reason => 'token_expired');
passes('issued a little ahead', token(iat => now() + 20));
refused('issued in the future', token(iat => now() + 120),
    reason => 'token_not_yet');
refused('not valid yet', token(nbf => now() + 120),
    reason => 'token_not_yet');
passes('nbf in the past', token(nbf => now() - 120));
refused('no exp', token(exp => undef),
    reason => 'token_claims');
refused('exp as a string', token(exp => '9999999999'),
    reason => 'token_claims');
passes('exp as a fraction', jwt_sign(key => $key,
    payload => encode(exp => '9999999999.5')));
refused('a fraction of a second too late', jwt_sign(key => $key,
    payload => encode(exp => now() . '.9')), path => '/exact',
    code => 'GATEWAY_TOKEN_EXPIRED', reason => 'token_expired');
passes('iat and nbf as fractions', jwt_sign(key => $key,
    payload => encode(iat => (now() - 100) . '.5,"nbf":' . (now() - 100) . '.25')));
refused('nbf as a fraction', jwt_sign(key => $key,
    payload => encode(nbf => (now() + 120) . '.5')), reason => 'token_not_yet');
refused('exp beyond 64 bits', jwt_sign(key => $key,
    payload => encode(exp => '99999999999999999999')),
    reason => 'token_claims');
refused("exp as $_", jwt_sign(key => $key, payload => encode(exp => $_)),
    reason => 'token_claims') for '1e400', '1e99999999999', '-1e400';
refused("exp as $_", jwt_sign(key => $key, payload => encode(exp => $_)),
    reason => 'token_json') for 'NaN', 'Infinity', '1e';
passes('exp in exponent form', jwt_sign(key => $key,
    payload => encode(exp => '1e11')));
passes('exp as an integer (control)', jwt_sign(key => $key,
    payload => encode(exp => '9999999999')));
refused('a negative exp', jwt_sign(key => $key,
    payload => encode(exp => '-1')), code => 'GATEWAY_TOKEN_EXPIRED',
    reason => 'token_expired');

sub encode {
    my ($name, $raw) = @_;

    my $claims = jwt_claims('branch');
    delete $claims->{$name};
    my $text = JSON::PP->new->canonical->encode($claims);
    return $text =~ s/\}$/,"$name":$raw}/r;
}

# Issuer and audience.

passes('the second issuer', token(iss => 'http://second.test'));
refused('another issuer', token(iss => 'http://issuer.test/'),
    reason => 'token_issuer');
refused('an expired one of another issuer',
    token(iss => 'x', iat => now() - 900, exp => now() - 600),
    reason => 'token_issuer');
refused('no issuer', token(iss => undef),
    reason => 'token_claims');
passes('any audience where none is demanded', token(aud => 'desk'));
refused('an audience of a wrong type where none is demanded', token(aud => $_),
    reason => 'token_claims') for 7, { a => 'web' }, [ 'web', 7 ], '';
passes('no audience in the list where none is demanded', token(aud => []));
passes('one audience', token(aud => 'web'), '/audience');
passes('one of several', token(aud => [ 'desk', 'mobile' ]), '/audience');
refused('no audience', token(), path => '/audience',
    reason => 'token_audience');
refused('another audience', token(aud => 'desk'), path => '/audience',
    reason => 'token_audience');
refused('no audience of the list', token(aud => [ 'desk', 'we' ]),
    path => '/audience',
    reason => 'token_audience');

refused('an audience of a wrong type', token(aud => [ 'web', 7 ]),
    path => '/audience', reason => 'token_claims');

# A token that is bound to a key.

for my $cnf ({ jkt => 'x' }, { 'x5t#S256' => 'x' }, {}, 'x') {
    my $bound = token(cnf => $cnf);
    refused('a bound token', $bound, reason => 'token_bound');
    passes('where that is allowed', $bound, '/bound');
    refused('and still where it is not', $bound, reason => 'token_bound');
}
passes('a token without cnf where that is allowed', token(), '/bound');

# docs/directives.md, what a token has to say: the example passes, the table has
# each of its claims, and each is needed.

my ($page) = $t->root . '/docs/directives.md';
open my $fh, '<', $page or die "$page: $!\n";
my ($told) = do { local $/; <$fh> }
    =~ /^### What a token has to say\n(.*?)^### /ms;
my ($example, $rows) = $told =~ /^```json\n(.*?)^```\n(.*)/ms;
$example = JSON::PP::decode_json($example);
passes('the example', jwt_sign(key => $key,
    payload => { %$example, iat => now(), exp => now() + 900 }));
is_deeply [ sort map { /`(\w+)`/g } $rows =~ /^\| (`.*?) \|/mg ],
    [ sort keys %$example ], 'the table has each claim';

# Claims of the kind.

for my $claim (sort keys %$example) {
    refused("without $claim", token($claim => undef),
        reason => qr/^token_(?:claims|kind)$/);
    refused("$claim is a number", token($claim => 7),
        reason => qr/^token_(?:claims|kind)$/) if $claim !~ /^(?:iat|exp)$/;
}
refused('an empty account', token(account_id => '', sub => ''),
    reason => 'token_claims');
refused('sub of another', token(sub => uuid(9)),
    reason => 'token_claims');
refused('a number among the roles', token(roles => [ 'a', 1 ]),
    reason => 'token_claims');
passes('no roles at all', token(roles => []));
refused('claims that are no object', jwt_sign(key => $key, payload => '[]'),
    reason => 'token_claims');
refused('claims that are no JSON', jwt_sign(key => $key, payload => '{'),
    reason => 'token_json');
refused('bytes after the claims', jwt_sign(key => $key,
    payload => JSON::PP::encode_json(jwt_claims('branch')) . 'x'),
    reason => 'token_json');
refused('a claim twice', jwt_sign(key => $key, payload =>
    encode(roles => '["a"],"roles":["b"]')),
    reason => 'token_json');
refused('a NUL in a claim', token(roles => ["a\0b"]),
    reason => 'token_json');

# An unknown key: 401 where the token is older than what we know, and 503
# while it may be newer.

refused('an old token of an unknown key',
    jwt_sign(key => $other, payload => jwt_claims('branch', iat => now() - 600)),
    reason => 'kid_unknown');
my $res = http_get($port, '/',
    token => jwt_token(branch => $other, iat => now() + 20));
is $res->status, 503, 'a new token of an unknown key';
is $res->code, 'GATEWAY_KEYS_UNAVAILABLE', 'its code';
like $res->header('Retry-After'), qr/^[1-9]\d*$/, 'its Retry-After';
is $res->header('WWW-Authenticate'), undef, 'its challenge: none';

passes('control, at the end', token());

$t->done;
