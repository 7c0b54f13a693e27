# Sessions that are bound to a key of the client (RFC 9449): a proof binds what a login
# issues, and from then on each token of the session is worth nothing without one by the
# same key; presenting it does its owner no harm.  (What a proof has to be:
# jose/test/check_proof.c.)

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;

my $t = Platform::Test->new;
my $face = client_of($t);
my $identity = $t->identity_face(
    PLATFORM_PUBLIC_ORIGINS            => "https://api.example.com\thttp://127.0.0.1:$face",
    PLATFORM_AUTH_FACTOR_KEYS          => 'one=' . 'QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=',
    PLATFORM_AUTH_MAX_FAILURES         => 3,
    PLATFORM_AUTH_REFRESH_REUSE        => 'revoke',
    PLATFORM_AUTH_REFRESH_RETRY_WINDOW => '30s');
my %keys = map { $_ => jwt_key('client', alg => $_) } qw(ES256 EdDSA RS256);
my ($key, $thief) = ($keys{ES256}, jwt_key('thief', alg => 'ES256'));

# The header with a proof of a POST to /api/auth/PATH; o: as dpop_proof has them, and
# method.
sub proof ($path, $by = $key, %o) {
    return (DPoP => dpop_proof($by, delete $o{method} // 'POST',
        "http://127.0.0.1:$face/api/auth/$path", %o));
}

# A call with a bound access token and its proof.
sub bound ($method, $path, $token, %o) {
    return http($face, $method => "/api/auth/$path", %o, headers =>
        [ Authorization => "DPoP $token", proof($path, $key, method => $method, token => $token) ]);
}

sub is_refused ($res, $code, $name) {
    my $challenge = $res->header('WWW-Authenticate') // '';
    return is_deeply [ $res->status, $res->code, cookies($res), $challenge =~
        /\ADPoP error="invalid_dpop_proof", algs="ES256 EdDSA Ed25519 RS256 RS384 RS512 PS256"\z/ ],
        [ 401, "AUTH_PROOF_$code", 0, 1 ], $name;
}

sub opened (%o) { return logged_in('several', headers => [ proof('login') ], %o) }

sub is_alive ($session, $name) {
    my $res = refresh($session, headers => [ proof('refresh') ]);
    $session->{refreshToken} = $res->json->{refreshToken} if $res->status == 200;
    return is $res->status, 200, "$name: the session lives";
}

sub jkt_of ($token) { return (claims($token)->{cnf} // {})->{jkt} }

# -- a login

for my $alg (sort keys %keys) {
    my $s = logged_in('several', headers => [ proof('login', $keys{$alg}) ]);
    my $jkt = $keys{$alg}->jkt;
    is_deeply [ $s->{tokenType}, (map { jkt_of($s->{$_}) } qw(refreshToken accountAccessToken)),
        row($s, 'key_thumbprint') ], [ 'DPoP', ($jkt) x 3 ], "$alg: binds both tokens and the row";
}
my $free = logged_in('several');
is_deeply [ $free->{tokenType}, (map { claims($free->{$_})->{cnf} }
    qw(refreshToken accountAccessToken)), row($free, 'key_thumbprint') ],
    [ 'Bearer', undef, undef, '' ], 'without a proof nothing is bound';

my ($good) = (proof('login'))[1];
my %jwk = (crv => 'P-256', kty => 'EC', %{ $key->jwk(use => undef, alg => undef, kid => undef) });
my %wrong = (
    'none at all'       => [ DPoP => 'x' ],
    'empty'             => [ DPoP => '' ],
    'a token'           => [ DPoP => $free->{refreshToken} ],
    'two'               => [ proof('login'), proof('login') ],
    'of another path'   => [ proof('refresh') ],
    'of another method' => [ proof('login', $key, method => 'GET') ],
    'of another host'   => [ proof('login', $key, payload => { htu => 'http://evil.test/api/auth/login' }) ],
    'of the past'       => [ proof('login', $key, payload => { iat => time - 120 }) ],
    'of the future'     => [ proof('login', $key, payload => { iat => time + 120 }) ],
    'without jti'       => [ proof('login', $key, payload => { jti => undef }) ],
    'of another type'   => [ proof('login', $key, header => { typ => 'JWT' }) ],
    'unsigned'          => [ proof('login', $key, header => { alg => 'none' }) ],
    'with a private key' => [ proof('login', $key, header => { jwk => { %jwk, d => 'AA' } }) ],
    'by another key'    => [ proof('login', $thief, header => { jwk => \%jwk }) ],
    'with two faults'   => [ proof('login', $key, header => { crit => ['exp'], typ => 'x' }) ],
    'changed'           => [ DPoP => jwt_tamper($good, 2, -9) ],
);
for my $what (sort keys %wrong) {
    is_refused(login('several', headers => $wrong{$what}), 'INVALID', "a proof $what");
    is_refused(login('several', credential => 'wrong', headers => $wrong{$what}), 'INVALID',
        "a proof $what: before the credential");
}
is_refused(login('several', headers => [ DPoP => (proof('login', $key,
    payload => { htu => 'http://evil.test/api/auth/login' }))[1] ], host => 'evil.test'), 'INVALID',
    'of the host that Host names');
is login('several', headers => [ DPoP => $good ])->status, 200, 'no failure was counted';
is login('several', headers => [ DPoP => (proof('login', $key,
    payload => { htu => 'https://API.example.com:443/api/auth/login?x#y' }))[1] ])->status, 200,
    'at another origin of the installation';
is login('several', headers => [ proof('login', $key, payload => { iat => time - 50 }) ])->status,
    200, 'within the window';

# -- a refresh

my $s = opened();
my $jti = row($s, 'jti');
is_refused(refresh($s), 'REQUIRED', 'a refresh without a proof');
is_refused(refresh($s, headers => [ proof('refresh', $thief) ]), 'INVALID', 'by another key');
is_refused(refresh($s, headers => [ proof('login') ]), 'INVALID', 'of another path');
is_refused(refresh($s, headers => [ (proof('refresh')) x 2 ]), 'INVALID', 'twice');
is_refused(http_post($face, '/api/auth/refresh', body => '', headers => [ @$_,
    Cookie => "$Platform::Test::Client::COOKIE=$s->{refreshToken}" ]), @$_ ? 'INVALID' : 'REQUIRED',
    'by the cookie, which is not cleared') for [], [ proof('refresh', $thief) ];
is row($s, 'jti'), $jti, 'nothing was replaced';
my $res = refresh($s, headers => [ proof('refresh') ], more => { includeAccountToken => \1 });
is_deeply [ $res->status, $res->json->{tokenType}, map { jkt_of($res->json->{$_}) }
    qw(refreshToken accountAccessToken) ], [ 200, 'DPoP', ($key->jkt) x 2 ], 'by its key';

# The answer was lost.
my $again = refresh($s, headers => [ proof('refresh') ]);
is_deeply [ $again->status, claims($again->json)->{jti}, jkt_of($again->json->{refreshToken}) ],
    [ 200, claims($res->json)->{jti}, $key->jkt ], 'sent again: the same successor';

# Used, and long ago: reuse ends a session.
my $next = $res->json;
$next = refresh($next, headers => [ proof('refresh') ])->json;
$t->postgres->sql("update rotated_tokens set rotated_at = now() - interval '1 hour'");
my $stolen = $t->postgres->sql("select jti from rotated_tokens limit 1");
my $used = jwt_sign(key => jwt_key('identity'), header => { typ => 'refresh+jwt' }, payload =>
    { %{ claims($s) }, iat => time - 3600, exp => time + 3600 });
is_refused(refresh($used), 'REQUIRED', 'a used token without a proof');
is_refused(refresh($used, headers => [ proof('refresh', $thief) ]), 'INVALID',
    'with a proof by another key');
is_alive($next, 'used by a thief');
is refresh($used, headers => [ proof('refresh') ])->code, 'AUTH_REFRESH_TOKEN_STALE',
    'by its own key it is reuse';
is refresh($next, headers => [ proof('refresh') ])->code, 'AUTH_SESSION_NOT_ACTIVE',
    'which ends the session';

# -- a session that is not bound

$res = refresh($free, headers => [ proof('refresh', $thief) ]);
is_deeply [ $res->status, $res->json->{tokenType}, jkt_of($res->json->{refreshToken}) ],
    [ 200, 'Bearer', undef ], 'cannot be bound by who refreshes it';
$free = $res->json;
my $token = $free->{accountAccessToken};
is bound(GET => 'me', $token)->code, 'AUTH_ACCESS_TOKEN_REQUIRED', 'not with the scheme DPoP';
is http($face, GET => '/api/auth/me', token => $token)->status, 200, 'as Bearer';

# -- access tokens of a bound session

$s = opened();
$token = $s->{accountAccessToken};
sub select_with ($headers, $scheme = 'DPoP') {
    return call('select-branch', { branchId => branch(31) },
        headers => [ Authorization => "$scheme $token", @$headers ]);
}
my @ath = (token => $token);
is_refused(select_with([ proof('select-branch', $key, @ath) ], 'Bearer'), 'REQUIRED', 'as Bearer');
is_refused(select_with([]), 'REQUIRED', 'without a proof');
is_refused(select_with([ proof('select-branch') ]), 'INVALID', 'a proof without ath');
is_refused(select_with([ proof('select-branch', $key, token => $free->{accountAccessToken}) ]),
    'INVALID', 'a proof of another token');
is_refused(select_with([ proof('select-branch', $thief, @ath) ]), 'INVALID', 'by another key');
$res = select_with([ proof('select-branch', $key, @ath) ]);
is_deeply [ $res->status, $res->json->{tokenType}, jkt_of($res->json->{accessToken}) ],
    [ 200, 'DPoP', $key->jkt ], 'by its key';
my $branch = $res->json->{accessToken};

my @calls = ([ GET => 'me' ], [ GET => 'sessions' ], [ GET => 'factors' ],
    [ POST => 'step-up', { type => 'credential', credential => $Platform::Test::Client::CREDENTIAL } ],
    [ POST => 'change-credential', { credential => $Platform::Test::Client::CREDENTIAL,
        newCredential => $Platform::Test::Client::CREDENTIAL } ],
    [ POST => 'logout-others' ]);
for my $call (@calls) {
    my ($method, $path, $json) = @$call;
    my @body = $json ? (json => $json) : $method eq 'POST' ? (body => '') : ();
    for my $with ([], [ proof($path, $thief, method => $method, token => $branch) ]) {
        is_refused(http($face, $method => "/api/auth/$path", @body,
            headers => [ Authorization => "DPoP $branch", @$with ]),
            @$with ? 'INVALID' : 'REQUIRED', "$path " . (@$with ? 'by another key' : 'without'));
    }
    is_refused(http($face, $method => "/api/auth/$path", @body, token => $branch), 'REQUIRED',
        "$path as Bearer");
    my $res = bound($method, $path, $branch, @body);
    is $res->status, 200, "$path by its key" or diag $res->body;
    is jkt_of($res->json->{accessToken}), $key->jkt, 'a step-up keeps the key' if $path eq 'step-up';
}
$free = logged_in('several');
my $listed = { session_of($s) => JSON::PP::true(), session_of($free) => JSON::PP::false() };
is_deeply { map { $_->{sessionId} => $_->{bound} }
    @{ bound(GET => 'sessions', $branch)->json->{sessions} } }, $listed,
    'the list tells which are bound';
my $commands = Platform::Test::Commands->new(test => $t, env => { PLATFORM_LOG_LEVEL => 'error' });
is_deeply { map { $_->{sessionId} => $_->{bound} }
    @{ $commands->done(qw(account sessions several@demo.test)) } }, $listed,
    'so does the command';
my $table = ($commands->run(qw(account sessions several@demo.test)))[1];
my $column = index $table, '  bound  ';
is_deeply { map { /\A(\S{36}) / ? ($1 => substr $_, $column + 2, 5) : () } split /\n/, $table },
    { session_of($s) => 'yes  ', session_of($free) => 'no   ' }, 'also as a table';

# -- logout

my $cookie = "$Platform::Test::Client::COOKIE=$s->{refreshToken}";
is_refused(logout($s), 'REQUIRED', 'a logout without a proof');
is_refused(logout($s, headers => [ proof('logout', $thief) ]), 'INVALID', 'by another key');
is_refused(logout(undef, headers => [ Cookie => $cookie ]), 'REQUIRED', 'by the cookie');
is_refused(http($face, POST => '/api/auth/logout', body => '', token => $branch), 'REQUIRED',
    'by the access token');
is_alive($s, 'logouts by a thief');
my $planted = logged_in('several', headers => [ proof('login', $thief) ]);
is_refused(logout($s, headers => [ proof('logout', $thief), Cookie => $cookie ]), 'INVALID',
    'by another key, token and cookie');
is http($face, POST => '/api/auth/logout', json => { refreshToken => $s->{refreshToken} },
    headers => [ proof('logout', $key), Cookie =>
        "$Platform::Test::Client::COOKIE=$planted->{refreshToken}" ])->status, 200,
    'by its key, beside a cookie that is bound to another';
is refresh($planted, headers => [ proof('refresh', $thief) ])->status, 200, 'whose session lives';
is refresh($s, headers => [ proof('refresh') ])->code, 'AUTH_SESSION_NOT_ACTIVE', 'it has ended';

# Cookies alone: one of another key is passed over, wherever it is.
sub with_cookies ($proof, @of) {
    return logout(undef, headers => [ @$proof, Cookie => join '; ',
        map { "$Platform::Test::Client::COOKIE=$_->{refreshToken}" } @of ]);
}
$planted = logged_in('several', headers => [ proof('login', $thief) ]);
for my $case ([ 'first', 0, 1 ], [ 'last', 1, 0 ]) {
    my ($name, @order) = @$case;
    for ([ 'bound', opened(), [ proof('logout') ] ], [ 'not bound', logged_in('several'), [] ]) {
        my ($kind, $own, $proof) = @$_;
        my $own_proof = $kind eq 'bound' ? [ proof('refresh') ] : [];
        my @of = ($planted, $own)[@order];
        is_refused(with_cookies([ proof('logout', $key, payload => { iat => time - 120 }) ], @of),
            'INVALID', "$kind, a cookie of another key $name: a wrong proof");
        is with_cookies($proof, @of)->status, 200, "$kind, a cookie of another key $name";
        is refresh($own, headers => $own_proof)->code, 'AUTH_SESSION_NOT_ACTIVE', 'its own has ended';
    }
}
is_refused(with_cookies([ proof('logout') ], $planted), 'INVALID', 'one of another key alone');
is_refused(with_cookies([], $planted), 'REQUIRED', 'or without a proof');
is refresh($planted, headers => [ proof('refresh', $thief) ])->status, 200, 'the other session lives';

$s = opened();
$branch = $s->{accountAccessToken};
is bound(POST => 'logout', $branch, json => { refreshToken => $s->{refreshToken} })->status, 200,
    'by its key';
is refresh($s, headers => [ proof('refresh') ])->code, 'AUTH_SESSION_NOT_ACTIVE', 'it has ended';
is logout($free)->status, 200, 'a session that is not bound, without a proof';

# -- a second factor (passkeys: browser_passkeys.t)

my $first = logged_in('one', headers => [ proof('login') ])->{accessToken};
my $app = bound(POST => 'factors', $first, json => { type => 'totp' })->json;
my @codes = @{ bound(POST => "factors/$app->{factorId}/confirm", $first,
    json => { code => totp($app->{secret}) })->json->{recoveryCodes} };
sub verified ($asked, @headers) {
    return call('verify-factor', { factorToken => $asked->{factorToken}, type => 'recovery',
        code => $codes[0] }, headers => \@headers);
}
my $asked = login('one')->json;
is_refused(verified($asked, proof('login')), 'INVALID', 'a factor with a proof of the login');
is_refused(verified($asked, (proof('verify-factor')) x 2), 'INVALID', 'with two');
$res = verified($asked, proof('verify-factor'));
is_deeply [ $res->status, $res->json->{tokenType}, map { jkt_of($res->json->{$_}) }
    qw(refreshToken accessToken) ], [ 200, 'DPoP', ($key->jkt) x 2 ],
    'with its own: that binds, and no code was used before';
shift @codes;
is verified(login('one', headers => [ proof('login') ])->json)->json->{tokenType}, 'Bearer',
    'without a proof nothing is bound, whatever the login had';
shift @codes;

# -- programs

my $id = $commands->done(qw(client add holder --allow people:read))->{accountId};
my $secret = $commands->done(qw(client secret add holder))->{secret};
sub token_for (@headers) {
    return http_post($face, '/api/auth/token', headers => [
        'Content-Type' => 'application/x-www-form-urlencoded', @headers ],
        body => "grant_type=client_credentials&client_id=$id&client_secret=$secret");
}
$res = token_for(proof('token'));
is_deeply [ @{ $res->json }{qw(token_type)}, jkt_of($res->json->{access_token}) ],
    [ 'DPoP', $key->jkt ], 'a program binds its token';
my $url = "http://127.0.0.1:$face/api/system/accounts";
my $system = $res->json->{access_token};
is_deeply [ map { http_get($face, '/api/system/accounts', headers => [
        Authorization => "DPoP $system", @$_ ])->status } [],
    [ DPoP => dpop_proof($key, 'GET', $url, token => $system) ] ], [ 401, 200 ],
    'and needs the key to use it';
$url .= "/$planted->{accountId}/sessions";
$free = logged_in('several');
my %bound = map { $_->{sessionId} => $_->{bound} } @{ http_get($face, $url =~ m{(/api/.*)},
    headers => [ Authorization => "DPoP $system",
        DPoP => dpop_proof($key, 'GET', $url, token => $system) ])->json->{sessions} };
is_deeply [ @bound{ map { session_of($_) } $planted, $free } ],
    [ JSON::PP::true(), JSON::PP::false() ],
    'its list tells which sessions are bound';
is_deeply [ map { ($_->status, $_->json->{error}, $_->code) } token_for(proof('login')) ],
    [ 400, 'invalid_dpop_proof', 'AUTH_PROOF_INVALID' ], 'a wrong proof';
is token_for()->json->{token_type}, 'Bearer', 'without a proof';

# -- the settings

$s = opened();
$free = logged_in('several');
restart($identity, AUTH_DPOP => 'require');
is_refused(login('several'), 'REQUIRED', 'require: a login without a proof');
$asked = login('one', headers => [ proof('login') ])->json;
is_refused(verified($asked), 'REQUIRED', 'require: a factor without a proof');
is verified($asked, proof('verify-factor'))->status, 200, 'require: with a proof';
is_alive($s, 'require');
is refresh($free)->code, 'AUTH_REFRESH_TOKEN_INVALID', 'require: a session that is not bound';
is http($face, GET => '/api/auth/me', token => $free->{accountAccessToken})->status, 401,
    'require: its access token';
is token_for()->json->{token_type}, 'Bearer', 'require: programs may';
for my $case ([ 'off', AUTH_DPOP => 'off' ],
    [ 'without origins', AUTH_DPOP => undef, PUBLIC_ORIGINS => undef ])
{
    my ($name, %env) = @$case;
    restart($identity, %env);
    is login('several', headers => [ DPoP => 'x' ])->json->{tokenType}, 'Bearer',
        "$name: the header has no meaning";
    is refresh($s, headers => [ proof('refresh') ])->code, 'AUTH_REFRESH_TOKEN_INVALID',
        "$name: bound tokens are refused";
    is bound(GET => 'me', $s->{accountAccessToken})->status, 401, "$name: access tokens too";
    is http($face, GET => '/api/auth/me', token => $s->{accountAccessToken})->status, 401,
        "$name: also as Bearer";
    is http($face, GET => '/api/auth/me', token => $free->{accountAccessToken})->status, 200,
        "$name: others are good";
    is_refused(logout($s), 'REQUIRED', "$name: a logout without a proof is not a success");
    is_refused(http($face, POST => '/api/auth/logout', body => '',
        headers => [ Authorization => "DPoP $s->{accountAccessToken}" ]), 'REQUIRED',
        "$name: nor with the access token");
    is_refused(logout($s, headers => [ proof('logout', $thief) ]), 'INVALID', "$name: by another key");
}
is_refused(logout($s, headers => [ proof('logout') ]), 'INVALID', 'no origin: no proof is good');
restart($identity, PUBLIC_ORIGINS => "http://127.0.0.1:$face");
is_alive($s, 'logouts without success');
restart($identity, AUTH_DPOP => 'off');
is with_cookies([ proof('logout') ], $s)->status, 200, 'off: a logout by its key';
restart($identity, AUTH_DPOP => 'accept');
is refresh($s, headers => [ proof('refresh') ])->code, 'AUTH_SESSION_NOT_ACTIVE', 'has ended the session';

$t->done;
