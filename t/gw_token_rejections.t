# What the guard says of each token: whether it passes, or else its status,
# code, challenge, and reason in the log.  Every case is one change to a token
# that passes.

use JSON::PP ();
use Platform::Test;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $other = jwt_key('b');
my $weak = jwt_key('weak', bits => 1024);
$t->issuer(body => jwks($key, $weak));
my $upstream = $t->echo_upstream;

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
platform_gateway_access branch;
location / { %%TO_upstream%% }
location /audience { platform_gateway_audience mobile web; %%TO_upstream%% }
location /bound { platform_gateway_allow_confirmation on; %%TO_upstream%% }
location /exact { platform_gateway_leeway 0; %%TO_upstream%% }
location /short { platform_gateway_token_max_size 100; %%TO_upstream%% }
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

# With that header; with that payload, or the claims of a good token; signed so.
sub header { return jwt_sign(header => {@_}, key => $key, payload => jwt_claims('branch')) }

sub payload { return jwt_sign(key => $key, payload => $_[0]) }

# With the raw text as that claim.
sub raw ($name, $text) {
    my $claims = jwt_claims('branch');
    delete $claims->{$name};
    return payload(JSON::PP->new->canonical->encode($claims) =~ s/\}$/,"$name":$text}/r);
}

sub passes ($name, $res) {
    is_deeply [ $res->status, $res->header('WWW-Authenticate') ], [ 200, undef ], "$name: passes";
}

my %CODE = (token_missing => 'GATEWAY_TOKEN_MISSING', token_expired => 'GATEWAY_TOKEN_EXPIRED');
my $REALM = 'Bearer realm="platform"';

# One that is refused: all of the answer, and of what is logged.
sub refused ($name, $reason, $token, $res) {
    my $line = $t->logged($res);
    like $line->{reason}, qr/^(?:$reason)$/, "$name: reason";
    is $line->{decision}, 'deny', "$name: decision";
    is_problem($res, 401, $CODE{$reason} // 'GATEWAY_TOKEN_INVALID', $name);
    like $res->header('WWW-Authenticate'), $reason eq 'token_missing' ? qr/\A$REALM\z/
        : qr/\A$REALM, error="invalid_token", error_description="[\x20\x21\x23-\x5b\x5d-\x7e]+"\z/,
        "$name: challenge";
    like $res->json->{detail}, qr/\b(?:token|key id)\b/, "$name: detail says what is wrong";
    unlike $res->raw_head . $res->body, qr/\Q$token/, "$name: no echo" if length $token > 10;
}

# [name, reason (PASS: none), token, or what is sent instead: headers, path].
sub judged {
    for my $case (@_) {
        my ($name, $reason, $token, %o) = @$case;

        my $asked = $upstream->count;
        my $res = http_get($port, $o{path} // '/',
            $o{headers} ? (headers => $o{headers}) : (token => $token));
        is $upstream->count - $asked, $reason eq 'PASS' ? 1 : 0, "$name: upstream";
        $reason eq 'PASS' ? passes($name, $res) : refused($name, $reason, $token // '', $res);
    }
}

sub authorization { return (undef, headers => [ Authorization => $_[0] ]) }

# Finding the token.

my $good = token();
judged(
    [ 'control', PASS => $good ],
    (map { [ "scheme '$_'", PASS => authorization("$_ $good") ] }
        'bearer', 'BEARER', 'BeArEr', 'Bearer ', 'Bearer   '),
    [ 'no token at all', token_missing => undef, headers => [] ],
    (map { [ "scheme $_", token_missing => authorization("$_ $good") ] }
        qw(Basic Token Bearerx DPoP)),
    [ 'the token as a scheme', token_missing => authorization($good) ],
    [ 'an empty header', token_missing => authorization('') ],
    [ 'Bearer and nothing', token_shape => authorization('Bearer') ],
    [ 'two tokens in one line', token_shape => authorization("Bearer $good $good") ],
    [ 'two tokens and a comma', token_shape => authorization("Bearer $good, Bearer $good") ],
    [ 'a token in the query', token_missing => undef, headers => [],
        path => "/?access_token=$good" ],
    [ 'a token in a cookie', token_missing => undef,
        headers => [ Cookie => "access_token=$good" ] ],
);
is http_get($port, '/', headers => [ (Authorization => "Bearer $good") x 2 ])->status, 400,
    "two lines: nginx's own 400";

# Sizes: 16 KiB is the limit, and nginx carries it.

my $fill = 12_000 - 3 * length($good) / 4;
$fill++ until length token(roles => [ 'r' x ($fill + 1) ]) > 16384;
my $large = token(roles => [ 'r' x $fill ]);
cmp_ok length $large, '>', 16380, 'a token just under 16 KiB';
judged(
    [ 'just under 16 KiB', PASS => $large ],
    [ 'just over 16 KiB', token_size => token(roles => [ 'r' x ($fill + 1) ]) ],
);
$upstream->forget;

# Shape, header, signature.

my $jku = sprintf 'http://127.0.0.1:%d/', $t->port('upstream');
my @claims = (payload => jwt_claims('branch'));
judged(
    [ 'not a token', token_shape => 'abc' ],
    [ 'two parts', token_shape => 'a.b' ],
    [ 'empty parts', token_shape => '..' ],
    [ 'four parts', token_shape => "$good.a" ],
    [ 'padding', token_signature => "$good=" ],
    [ 'a byte that is not ASCII', token_signature => "$good\xff" ],
    [ 'a byte outside the alphabet', token_signature => $good =~ s/.$/+/r ],
    [ 'over the limit of the location', token_size => $good, path => '/short' ],
    [ 'alg none', token_alg => jwt_sign(header => { alg => 'none', kid => 'a' }, @claims) . 'x' ],
    [ 'HS256 with our public key', token_alg => jwt_sign(header => { kid => 'a' },
        secret => $key->public_pem, @claims) ],
    [ 'RS512', token_alg => jwt_sign(header => { alg => 'RS512' }, key => $key,
        hash => 'SHA512', @claims) ],
    [ 'typ JWE', token_typ => header(typ => 'JWE') ],
    (map { [ "typ $_", PASS => header(typ => $_) ] }
        qw(JWT jwt at+jwt application/jwt application/at+jwt Application/AT+JWT)),
    (map { [ "typ $_", token_typ => header(typ => $_) ] }
        'application/dpop+jwt', 'text/jwt', 'application/jwt;v=1'),
    [ 'no typ', PASS => header(typ => undef) ],
    [ 'crit', token_crit => header(crit => ['b64'], b64 => JSON::PP::true) ],
    [ 'no kid', token_kid => header(kid => undef) ],
    [ 'a jwk of its own', token_signature => jwt_sign(key => $other->as('a'),
        header => { jwk => $other->jwk }, @claims) ],
    [ 'a jku of its own', token_signature => jwt_sign(key => $other->as('a'),
        header => { jku => $jku, x5u => $jku }, @claims) ],
    [ 'a header that is no object', token_header => jwt_sign(header => '[]', key => $key,
        @claims) ],
    (map { [ "signature bit $_", token_signature => jwt_tamper($good, 2, $_) ] } 0, 1000, -1),
    [ 'payload bit', token_claims => jwt_tamper($good, 1, 150) ],
    [ 'header bit', token_alg => jwt_tamper($good, 0, 20) ],
    [ "another's signature", token_signature => jwt_token(branch => $other->as('a')) ],
    [ 'a weak key, which the issuer lists', kid_unknown => jwt_token(branch => $weak,
        iat => now() - 600) ],
);

# Time.

my $ago = now() - 900;
judged(
    [ 'expired within the leeway', PASS => token(iat => $ago, exp => now() - 20) ],
    [ 'expired', token_expired => token(iat => $ago, exp => now() - 31) ],
    [ 'no leeway, not expired', PASS => token(exp => now() + 60), path => '/exact' ],
    [ 'no leeway, expired', token_expired => token(iat => $ago, exp => now() - 1),
        path => '/exact' ],
    [ 'a fraction of a second too late', token_expired => raw(exp => now() . '.9'),
        path => '/exact' ],
    [ 'issued a little ahead', PASS => token(iat => now() + 20) ],
    [ 'issued in the future', token_not_yet => token(iat => now() + 120) ],
    [ 'not valid yet', token_not_yet => token(nbf => now() + 120) ],
    [ 'nbf in the past', PASS => token(nbf => now() - 120) ],
    [ 'no exp', token_claims => token(exp => undef) ],
    [ 'exp as a string', token_claims => token(exp => '9999999999') ],
    (map { [ "exp $_", PASS => raw(exp => $_) ] } qw(9999999999 9999999999.5 1e11)),
    (map { [ "exp $_", token_claims => raw(exp => $_) ] }
        qw(99999999999999999999 1e400 1e99999999999 -1e400)),
    (map { [ "exp $_", token_json => raw(exp => $_) ] } qw(NaN Infinity 1e)),
    [ 'a negative exp', token_expired => raw(exp => '-1') ],
    [ 'iat and nbf as fractions', PASS => raw(iat => "$ago.5,\"nbf\":$ago.25") ],
    [ 'nbf as a fraction', token_not_yet => raw(nbf => (now() + 120) . '.5') ],
);

# Issuer, audience, and a key that the token is bound to.

judged(
    [ 'the second issuer', PASS => token(iss => 'http://second.test') ],
    [ 'another issuer', token_issuer => token(iss => 'http://issuer.test/') ],
    [ 'an expired one of another issuer', token_issuer => token(iss => 'x', iat => $ago,
        exp => now() - 600) ],
    [ 'no issuer', token_claims => token(iss => undef) ],
    [ 'any audience where none is demanded', PASS => token(aud => 'desk') ],
    [ 'no audience in the list where none is demanded', PASS => token(aud => []) ],
    (map { [ 'an audience of a wrong type where none is demanded',
        token_claims => token(aud => $_) ] } 7, { a => 'web' }, [ 'web', 7 ], ''),
    (map { [ $_->[0], $_->[1], $_->[2], path => '/audience' ] }
        [ 'one audience', PASS => token(aud => 'web') ],
        [ 'one of several', PASS => token(aud => [ 'desk', 'mobile' ]) ],
        [ 'no audience', token_audience => token() ],
        [ 'another audience', token_audience => token(aud => 'desk') ],
        [ 'no audience of the list', token_audience => token(aud => [ 'desk', 'we' ]) ],
        [ 'an audience of a wrong type', token_claims => token(aud => [ 'web', 7 ]) ]),
    (map { [ 'a bound token', token_bound => $_ ],
        [ 'where that is allowed', PASS => $_, path => '/bound' ],
        [ 'and still where it is not', token_bound => $_ ] }
        map { token(cnf => $_) } { jkt => 'x' }, { 'x5t#S256' => 'x' }, {}, 'x'),
    [ 'a token without cnf where that is allowed', PASS => token(), path => '/bound' ],
);

# docs/directives.md, what a token has to say: the example passes, the table has
# each of its claims, and each is needed.

open my $fh, '<', $t->root . '/docs/directives.md' or die "docs/directives.md: $!\n";
my ($told) = do { local $/; <$fh> } =~ /^### What a token has to say\n(.*?)^### /ms;
my ($example, $rows) = $told =~ /^```json\n(.*?)^```\n(.*)/ms;
$example = JSON::PP::decode_json($example);
is_deeply [ sort map { /`(\w+)`/g } $rows =~ /^\| (`.*?) \|/mg ],
    [ sort keys %$example ], 'the table has each claim';
my $CLAIM = 'token_claims|token_kind';
judged(
    [ 'the example', PASS => payload({ %$example, iat => now(), exp => now() + 900 }) ],
    (map { [ "without $_", $CLAIM => token($_ => undef) ] } sort keys %$example),
    (map { [ "$_ is a number", $CLAIM => token($_ => 7) ] }
        grep { !/^(?:iat|exp)$/ } sort keys %$example),
    [ 'an empty account', token_claims => token(account_id => '', sub => '') ],
    [ 'sub of another', token_claims => token(sub => uuid(9)) ],
    [ 'a number among the roles', token_claims => token(roles => [ 'a', 1 ]) ],
    [ 'no roles at all', PASS => token(roles => []) ],
    [ 'claims that are no object', token_claims => payload('[]') ],
    [ 'claims that are no JSON', token_json => payload('{') ],
    [ 'bytes after the claims', token_json =>
        payload(JSON::PP::encode_json(jwt_claims('branch')) . 'x') ],
    [ 'a claim twice', token_json => raw(roles => '["a"],"roles":["b"]') ],
    [ 'a NUL in a claim', token_json => token(roles => ["a\0b"]) ],
);

# An unknown key: 401 where the token is older than what we know, and 503
# while it may be newer.

judged([ 'an old token of an unknown key', kid_unknown => jwt_token(branch => $other,
    iat => now() - 600) ]);
my $res = http_get($port, '/', token => jwt_token(branch => $other, iat => now() + 20));
is_problem($res, 503, 'GATEWAY_KEYS_UNAVAILABLE', 'a new token of an unknown key');
like $res->header('Retry-After'), qr/^[1-9]\d*$/, 'its Retry-After';
is $res->header('WWW-Authenticate'), undef, 'its challenge: none';
judged([ 'control, at the end', PASS => token() ]);

$t->done;
