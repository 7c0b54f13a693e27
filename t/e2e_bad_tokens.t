# Tokens that are not what they seem are refused with a challenge; beside each
# the untouched token passes.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $s = $t->full_stack(echo => 1);

my $key = jwt_key('identity');
my $issuer = $s->{env}{PLATFORM_JWT_ISSUER};
my $good = $s->login('one')->json->{accessToken};
my ($header, $claims) = jwt_decode($good);

# Claims as identity issued them, changed.
sub forged {
    my ($head, $change, %o) = @_;

    my %payload = (%$claims, %$change);
    delete $payload{$_} for grep { !defined $payload{$_} } keys %payload;
    return jwt_sign(header => { %$header, %$head }, payload => \%payload,
        (%o ? %o : (key => $key)));
}

my $b64 = qr/[A-Za-z0-9_-]/;
my ($h, $p, $sig) = split /\./, $good;
my $other = jwt_key('other');

my @bad = (
    [ 'a flipped signature bit', jwt_tamper($good, 2, 100) ],
    [ 'the last signature bit flipped', jwt_tamper($good, 2, -1) ],
    [ 'a flipped payload bit', jwt_tamper($good, 1, 100) ],
    [ 'a flipped header bit', jwt_tamper($good, 0, 13) ],
    [ 'another issuer', forged({}, { iss => 'http://elsewhere.test' }) ],
    [ 'an issuer with a slash more', forged({}, { iss => "$issuer/" }) ],
    [ 'no issuer', forged({}, { iss => undef }) ],
    [ 'no expiry', forged({}, { exp => undef }) ],
    [ 'an expiry as a string', forged({}, { exp => '9999999999' }) ],
    [ 'issued in the future', forged({}, { iat => time + 600,
        exp => time + 1200 }) ],
    [ 'alg none, no signature',
        jwt_sign(header => { %$header, alg => 'none' }, payload => $claims) ],
    [ 'alg none, the old signature',
        join '.', b64url('{"alg":"none","typ":"JWT"}'), $p, $sig ],
    [ 'alg NONE',
        jwt_sign(header => { %$header, alg => 'NONE' }, payload => $claims) ],
    [ 'the signature cut off', "$h.$p." ],
    [ 'two parts', "$h.$p" ],
    [ 'four parts', "$good.x" ],
    [ 'HS256 keyed with our public key in PEM',
        forged({ alg => 'HS256' }, {}, secret => $key->public_pem) ],
    [ 'HS256 keyed with our public key in DER',
        forged({ alg => 'HS256' }, {},
            secret => $key->rsa->export_key_der('public_x509')) ],
    [ 'HS256 keyed with our modulus',
        forged({ alg => 'HS256' }, {}, secret => $key->jwk->{n}) ],
    [ 'HS256 keyed with nothing',
        forged({ alg => 'HS256' }, {}, secret => '') ],
    [ 'RS512', jwt_sign(header => { %$header, alg => 'RS512' },
        payload => $claims, key => $key, hash => 'SHA512') ],
    [ 'PS256', jwt_sign(header => { %$header, alg => 'PS256' },
        payload => $claims, key => $key, padding => 'pss') ],
    [ 'another key under our kid',
        jwt_sign(header => $header, payload => $claims, key => $other) ],
    [ 'another key that brings itself along as jwk',
        jwt_sign(header => { %$header, jwk => $other->jwk },
            payload => $claims, key => $other) ],
    [ 'a kid nobody knows, older than the key set',
        jwt_sign(header => { %$header, kid => 'nobody' }, key => $other,
            payload => { %$claims, iat => time - 60 }) ],
    [ 'a critical extension',
        jwt_sign(header => { %$header, crit => ['x'], x => 1 },
            payload => $claims, key => $key) ],
    [ 'no account', forged({}, { account_id => undef }) ],
    [ 'a list for an account', forged({}, { account_id => ['x'] }) ],
    [ 'roles that are no list', forged({}, { roles => 'admin' }) ],
    [ 'a duplicate claim', jwt_sign(header => $header, key => $key,
        payload => '{"token_scope":"BRANCH",'
            . substr(JSON::PP::encode_json($claims), 1)) ],
    [ 'not a token', 'abc' ],
    [ 'padding', "$good=" ],
);

my $path = '/api/workspaces/current-context';

for my $case (@bad) {
    my ($name, $token) = @$case;

    my $res = $s->current_context($token);
    is $res->status, 401, "$name: 401";
    is $res->code, 'GATEWAY_TOKEN_INVALID', "$name: code";
    like $res->header('WWW-Authenticate') // '',
        qr/^Bearer realm="platform", error="invalid_token"/,
        "$name: challenge";
    is $s->current_context($good)->status, 200, "$name: control";
}

# A kid that may have been published since the last fetch is not refused for
# good while no other can be made: the first of these has one made, or cannot.

my $new;
eventually(sub {
    $new = $s->current_context(jwt_sign(header => { %$header, kid => 'new' },
        key => $other,
        payload => { %$claims, iat => time + 5, exp => time + 900 }));
    return $new->status == 503;
});
is_problem($new, 503, 'GATEWAY_KEYS_UNAVAILABLE',
    'a kid nobody knows, newer than the key set');
like $new->header('Retry-After') // '', qr/^[1-9]\d*$/, 'with Retry-After';

# Expired is told apart, so that a client knows to refresh.

for my $exp (time - 3600, time - 31) {
    my $res = $s->current_context(
        forged({}, { iat => $exp - 900, exp => $exp }));
    is $res->status, 401, 'expired: 401';
    is $res->code, 'GATEWAY_TOKEN_EXPIRED', 'expired: code';
    like $res->header('WWW-Authenticate') // '',
        qr/^Bearer realm="platform", error="invalid_token"/,
        'expired: challenge';
}
is $s->current_context(forged({}, { exp => time - 10 }))->status, 200,
    'control: within the leeway';

# No token, and schemes that are no bearer.

for my $headers ([], [ Authorization => 'Basic YTpi' ],
    [ Authorization => 'Bearer' ], [ Authorization => '' ])
{
    my $res = http_get($s->gateway, $path, headers => $headers);
    is $res->status, 401, "'@$headers': 401";
    like $res->header('WWW-Authenticate') // '', qr/^Bearer realm="platform"/,
        "'@$headers': challenge";
}
my $res = http_get($s->gateway, $path);
is $res->code, 'GATEWAY_TOKEN_MISSING', 'no token: code';
is $res->header('WWW-Authenticate'), 'Bearer realm="platform"',
    'no token: a challenge without an error';
is http_get($s->gateway, $path,
    headers => [ Authorization => "bearer $good" ])->status, 200,
    'control: the scheme in any case';

# Tokens of another kind.

my $several = $s->login('several')->json;
for my $case ([ 'an account token', $several->{accountAccessToken}, 403 ],
    [ 'a refresh token', $several->{refreshToken} ],
    [ 'an account token that says BRANCH',
        forged({}, { token_type => 'account' }) ],
    [ 'a branch token that says ACCOUNT',
        forged({}, { token_scope => 'ACCOUNT' }) ])
{
    my ($name, $token, $status) = @$case;
    $res = $s->current_context($token);
    like $res->status, $status ? qr/^$status$/ : qr/^40[13]$/,
        "$name: refused with $res->{status}";
    like $res->header('WWW-Authenticate') // '', qr/error="/,
        "$name: challenge";
}

# In other places than the header.

$res = http_get($s->gateway, "$path?access_token=$good");
is $res->status, 401, 'a token in the query is not seen';
$res = http_get($s->gateway, $path, cookie => "access_token=$good");
is $res->status, 401, 'nor one in a cookie';
$res = http_get($s->gateway, $path, token => $good,
    headers => [ Authorization => "Bearer $good" ]);
is $res->status, 400, 'two Authorization headers: 400';
$res = http_get($s->gateway, $path, token => 'a' x 17000);
is $res->status, 401, 'a token over 16 KiB: 401';

# HTTP/0.9.

like http_raw($s->gateway, "GET /\r\n"), qr/^HTTP\/1\.1 400 |"status":400/,
    'GET / with no version: 400';
like http_raw($s->gateway, "GET $path\r\n"),
    qr/^HTTP\/1\.1 400 |"status":400/, 'also on a guarded path';
like http_raw($s->gateway,
    "GET $path HTTP/1.0\r\nAuthorization: Bearer $good\r\n\r\n"),
    qr/^HTTP\/1\.1 200 /, 'control: HTTP/1.0 passes';

is scalar(grep { $_->{uri} !~ /^\Q$path\E$/ } $s->upstream->requests), 0,
    'downstream saw good requests alone';

# What identity itself refuses comes through with its own challenge, for which
# no browser asks its user.

for my $port ($s->face, $s->gateway) {
    my $by = $port == $s->face ? 'face' : 'gateway';
    my %refused = (
        login   => http_post($port, '/api/auth/login', json => {
            account => 'one@demo.test', credential => 'wrong' }),
        refresh => http_post($port, '/api/auth/refresh', body => ''),
    );
    for my $name (sort keys %refused) {
        is $refused{$name}->status, 401, "$name at the $by: 401";
        is_deeply [ $refused{$name}->header_all('WWW-Authenticate') ],
            ['Login realm="platform"'], "$name at the $by: its challenge";
    }
}

$t->done;
