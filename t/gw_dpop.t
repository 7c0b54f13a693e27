# Tokens that are bound to a key (DPoP, RFC 9449): accepted with a proof by that key,
# for this very request, once; whatever location, door or variable asks.

use Digest::SHA qw(sha256);
use IO::Socket::INET;
use IPC::Open2 qw(open2);
use Platform::Test;
use Platform::Test::Clock;
use Platform::Test::Metrics;

my ($t, $key, $issuer) = Platform::Test->gateway;
my ($own, $thief) = map { jwt_key($_, alg => 'ES256') } qw(own thief);
my ($quick, $next) = (jwt_key('quick', alg => 'EdDSA'), jwt_key('n'));
my $API = 'https://api.test';

$t->allow(qr/exited on signal 9/);
$t->http_server(accel => sub { return [ 200, [ 'X-Accel-Redirect' => '/api/accel' ], '' ] });
$t->write_file('www/ssi/page.html', '<!--# include virtual="/api/one" --><!--# include virtual="/api/two" -->');
$t->set(WORKERS => 4, PROOF => 'zone=proofs:256k');
my $SERVER = <<'SERVER';
listen 127.0.0.1:%%PORT_h2%% http2;
server_name gateway.test;
root %%DIR%%/www;
platform_gateway_access account;
platform_gateway_proof_origin HTTPS://API.test:443 http://[::1]:81 http://127.0.0.1:%%PORT_gateway%%;
platform_gateway_cors_origins https://app.test;
add_header X-Worker $pid always;
pass /api:
    pass /api/same: platform_gateway_route same;
    pass /api/again: platform_gateway_proof_origin https://again.test https://api.test;
pass /many: access_log off;
pass /branch: platform_gateway_access branch;
pass /require: platform_gateway_bound require;
    pass /require/not: platform_gateway_bound accept;
pass /off: platform_gateway_proof_origin off;
pass /trust: platform_gateway_proof_origin off; platform_gateway_allow_confirmation on;
pass /sources: platform_gateway_token_from cookie=at subprotocol;
pass /plain: platform_gateway_forward_authorization off;
pass /forward: platform_gateway_forward_proof on;
pass /public: platform_gateway_access public;
pass /shadow: platform_gateway_shadow on;
pass /any: satisfy any; allow all;
pass /early: set $early $platform_account_id; add_header X-Account "$early" always;
pass /limited: limit_req zone=slow burst=99; add_header X-Account "$platform_account_id" always;
pass /left: platform_gateway_access branch; error_page 403 = /api/left;
pass /left/other: platform_gateway_access branch; error_page 403 = /api/again;
pass /down to nobody: error_page 502 = /api/down;
pass /public/down to nobody: platform_gateway_access public; error_page 502 = /api/down;
pass /accel to accel: platform_gateway_access public;
location /try { platform_gateway_access public; try_files /nothing @api; }
pass @api:
location /rewritten { platform_gateway_access public; rewrite ^ /api/rewritten last; }
pass /asks: auth_request /api/verdict;
location /ssi/ { ssi on; }
location = /judge { platform_gateway_access public; platform_gateway_forward_auth forwarded;
    allow 127.0.0.1; deny all; }
location = /explain { platform_gateway_access public; platform_gateway_explain; allow 127.0.0.1;
    deny all; }
location = /metrics { platform_gateway_access public; platform_gateway_metrics; }
SERVER
my $HTTP = <<'HTTP';
platform_gateway_proof %%PROOF%%;
platform_gateway_key_cooldown 1s;
platform_gateway_key_hard_age 2d;
keepalive_requests 10000;
limit_req_zone $platform_account_id zone=slow:1m rate=99r/s;
server {
    listen 127.0.0.1:%%PORT_asks%%;
    location / { platform_gateway on; platform_gateway_access public;
        platform_gateway_forward_auth request gateway.test; allow 127.0.0.1; deny all; }
}
HTTP

sub configure (%set) {
    $t->set(%set);
    return $t->gateway_conf($SERVER, http => $HTTP, main => 'worker_processes %%WORKERS%%;');
}

my $clock = Platform::Test::Clock->new($t, configure());
my $port = $t->start_gateway;

sub now () { return int $clock->now }

# A token that is bound to a key.
sub bound ($by = $own, %claims) {
    return jwt_token(account => $key, cnf => { jkt => $by->jkt }, exp => now() + 72000, %claims);
}

# A proof of a token; by => another key.
sub proof ($method, $url, $token, %o) {
    my $by = delete $o{by} // $own;
    return dpop_proof($by, $method, $url =~ m{^/} ? "$API$url" : $url, token => $token, %o);
}

# With a proof, or several; scheme => Bearer.
sub ask ($path, $token, $proof = undef, %o) {
    return http($port, $o{method} // 'GET', $path, headers => [
        defined $token ? (Authorization => ($o{scheme} // 'DPoP') . " $token") : (),
        (map { (DPoP => $_) } ref $proof ? @$proof : $proof // ()), @{ $o{headers} // [] } ],
        host => $o{host});
}

# With a new proof of that request.
sub fresh ($path, $token, %o) {
    return ask($path, $token, proof($o{method} // 'GET', $path =~ s/[?].*//r, $token), %o);
}

sub reason ($res) { return join ' ', $res->status, $t->logged($res)->{reason} }

# Proofs from before the zone was made are refused: it may follow another one.
my ($token, $stolen, $plain) = (bound(), bound($thief), jwt_token(account => $key, exp => now() + 72000));
my $early = proof(GET => '/api', $token, payload => { iat => now() - 30 });
ok eventually(sub { fresh('/api', $token)->status == 200 }), 'a bound token with its proof';
my $res = ask('/api', $token, $early);
is reason($res), '401 proof_invalid', 'a proof from before the start';
like $res->json->{detail}, qr/older than what is remembered/, 'and why';
$clock->pass(200);

# -- one request: [name, reason, path, token, proof, ...]

# A proof whose header and signature are made otherwise: jwt_sign()'s key, secret, header.
sub made (%o) {
    my %jwk = (%{ $own->jwk(use => undef, alg => undef, kid => undef) }, %{ delete $o{jwk} // {} });
    return jwt_sign(%o, header => { typ => 'dpop+jwt', kid => undef, jwk => \%jwk, %{ $o{header} // {} } },
        payload => { jti => uuid(), htm => 'GET', htu => "$API/api", iat => now(), ath => b64url(sha256($token)) });
}
my $public = $own->jwk;

my ($BEARER, $cross) = ([ scheme => 'Bearer' ], proof(GET => '/api', $token));
for my $case (
    [ 'a proof', '200 verified', '/api', $token, proof(GET => '/api', $token) ],
    [ 'the query is no part of htu', '200 verified', '/api?a=1', $token, proof(GET => '/api', $token) ],
    [ 'nor that of htu', '200 verified', '/api?a=1', $token, proof(GET => '/api?b=2#x', $token) ],
    [ 'an origin in another form', '200 verified', '/api', $token, proof(GET => 'HTTPS://Api.TEST:443/api', $token) ],
    [ 'the other origin', '200 verified', '/api', $token, proof(GET => 'http://[::1]:81/api', $token) ],
    [ 'escapes as they were sent', '200 verified', '/api/a%2Fb/%C3%A4', $token,
        proof(GET => '/api/a%2Fb/%C3%A4', $token) ],
    [ 'a scheme in lower case', '200 verified', '/api', $token, proof(GET => '/api', $token), scheme => 'dpop' ],
    [ 'an unbound token as Bearer', '200 verified', '/api', $plain, undef, @$BEARER ],
    [ 'with a proof that nobody asked for', '200 verified', '/api', $plain, 'x', @$BEARER ],
    [ 'the one of its own key', '200 verified', '/api', $stolen, proof(GET => '/api', $stolen, by => $thief) ],
    [ 'without a proof', '401 proof_missing', '/api', $token ],
    [ 'two proofs', '401 proof_missing', '/api', $token, [ map { proof(GET => '/api', $token) } 1, 2 ] ],
    [ 'an empty one', '401 proof_invalid', '/api', $token, '' ],
    [ 'two in one', '401 proof_invalid', '/api', $token, join(', ', map { proof(GET => '/api', $token) } 1, 2), detail => 'shape' ],
    [ 'one and a comma', '401 proof_invalid', '/api', $token, proof(GET => '/api', $token) . ',', detail => 'signature' ],
    [ 'one in quotes', '401 proof_invalid', '/api', $token, '"' . proof(GET => '/api', $token) . '"', detail => 'header' ],
    (map { [ "htu $_", '401 proof_invalid', '/api', $token, proof(GET => $_, $token), detail => 'htu' ] }
        map({ "https://$_/api" } 'u@api.test', 'api.test.', 'api.test:444', 'api.test:0443', 'api.test:443:443',
            'api.test.evil.test', 'api.test:443@evil.test', 'api.test\\evil.test', 'evil.test/@api.test'),
        map({ "https://api.test$_" } '//api', '/./api', '/x/../api', '/API', '/api/', '/api;x', '/api%00', '/api%2f', '\\api'),
        'http://api.test/api', 'https:/api.test/api', 'https:api.test/api', 'http://[::1]/api',
        'http://[0:0:0:0:0:0:0:1]:81/api', ' https://api.test/api', 'https://api.test/api '),
    [ 'htu with escapes of letters', '200 verified', '/api', $token, proof(GET => 'https://api.test/%61pi', $token) ],
    [ 'and of the request', '200 verified', '/%61pi', $token, proof(GET => '/api', $token) ],
    [ 'another path', '401 proof_invalid', '/api/x', $token, $cross, detail => 'htu' ],
    [ 'the same, decoded', '401 proof_invalid', '/api/a/b', $token, proof(GET => '/api/a%2Fb', $token), detail => 'htu' ],
    [ 'another method', '401 proof_invalid', '/api', $token, $cross, method => 'POST', detail => 'htm' ],
    [ 'the method in lower case', '401 proof_invalid', '/api', $token, proof(get => '/api', $token), detail => 'htm' ],
    (map { [ "htu: $_", '401 proof_invalid', '/api', $token, proof(GET => $_, $token), detail => 'htu' ] }
        'http://api.test/api', 'https://api.test:8443/api', 'https://api.test.evil/api', 'https://elsewhere.test/api',
        'http://[::1]/api', "https://127.0.0.1:$port/api", 'http://127.0.0.1/api'),
    [ 'Host is not believed', '401 proof_invalid', '/api', $token, proof(GET => 'https://evil.test/api', $token),
        host => 'evil.test', headers => [ 'X-Forwarded-Host' => 'evil.test', 'X-Forwarded-Proto' => 'https' ],
        detail => 'htu' ],
    [ 'whatever Host says', '200 verified', '/api', $token, proof(GET => '/api', $token), host => 'evil.test' ],
    [ 'the key of another token', '401 proof_invalid', '/api', $token, proof(GET => '/api', $token, by => $thief),
        detail => 'key' ],
    [ 'the proof of another token', '401 proof_invalid', '/api', $token, proof(GET => '/api', $plain), detail => 'ath' ],
    [ 'no ath', '401 proof_invalid', '/api', $token, dpop_proof($own, GET => "$API/api"), detail => 'ath' ],
    [ 'control: made here', '200 verified', '/api', $token, made(key => $own) ],
    [ 'alg none', '401 proof_invalid', '/api', $token, made(header => { alg => 'none' }) ],
    [ 'none, and some signature', '401 proof_invalid', '/api', $token, made(header => { alg => 'none' }, key => $own),
        detail => 'alg' ],
    (map { [ "HS256 with the public key, $_->[0]", '401 proof_invalid', '/api', $token, made(secret => $_->[1]), detail => 'alg' ],
        [ "the same, said to be ES256: $_->[0]", '401 proof_invalid', '/api', $token,
            made(secret => $_->[1], header => { alg => 'ES256' }), detail => 'signature' ] }
        [ PEM => $own->pk->export_key_pem('public') ], [ DER => $own->pk->export_key_der('public') ],
        [ point => $own->pk->export_key_raw('public') ], [ JWK => qq({"crv":"P-256","kty":"EC","x":"$public->{x}","y":"$public->{y}"}) ]),
    [ 'HS256 with a key of its own', '401 proof_invalid', '/api', $token, made(secret => 'k', jwk => { kty => 'oct', k => 'aw' }),
        detail => 'alg' ],
    (map { [ "the private member $_", '401 proof_invalid', '/api', $token, made(key => $own, jwk => { $_ => 'AA' }),
        detail => 'jwk' ] } qw(d p q dp dq qi k)),
    [ 'an access token as the proof', '401 proof_invalid', '/api', $token, $token, detail => 'typ' ],
    [ 'a proof as the access token', '401 token_typ', '/api', $cross, $cross ],
    [ 'as Bearer', '401 token_typ', '/api', $cross, undef, @$BEARER ],
    [ 'a signature by another', '401 proof_invalid', '/api', $token, jwt_tamper(proof(GET => '/api', $token), 2),
        detail => 'signature' ],
    [ 'iat at the end of the window', '200 verified', '/api', $token,
        sub { proof(GET => '/api', $token, payload => { iat => now() - 57 }) } ],
    [ 'and beyond it', '401 proof_invalid', '/api', $token, sub { proof(GET => '/api', $token, payload => { iat => now() - 62 }) } ],
    [ 'ahead within it', '200 verified', '/api', $token,
        sub { proof(GET => '/api', $token, payload => { iat => now() + 57 }) } ],
    [ 'ahead beyond it', '401 proof_invalid', '/api', $token, sub { proof(GET => '/api', $token, payload => { iat => now() + 80 }) } ],
    [ 'a bound token as Bearer', '401 token_bound', '/api', $token, undef, @$BEARER ],
    [ 'with its proof', '401 token_bound', '/api', $token, proof(GET => '/api', $token), @$BEARER ],
    [ 'an unbound token as DPoP', '401 token_unbound', '/api', $plain, proof(GET => '/api', $plain) ],
    [ 'no token', '401 token_missing', '/api', undef, proof(GET => '/api', $token) ],
    [ 'nothing behind the scheme', '401 token_shape', '/api', '' ],
    [ 'a bound one that has expired', '401 token_expired', '/api', bound($own, exp => now() - 60), $cross ],
    (map { [ "cnf: $_->[0]", '401 token_bound', '/api', bound($own, cnf => $_->[1]), $cross ] }
        [ 'another member', { 'x5t#S256' => $own->jkt } ], [ 'both', { jkt => $own->jkt, 'x5t#S256' => $own->jkt } ],
        [ 'short', { jkt => 'x' } ], [ 'a number', { jkt => 1 } ], [ 'a string', $own->jkt ], [ 'empty', {} ]),
    [ 'where it is required', '200 verified', '/require', $token, proof(GET => '/require', $token) ],
    [ 'an unbound one there', '401 token_unbound', '/require', $plain, undef, @$BEARER ],
    [ 'and where it is not', '200 verified', '/require/not', $plain, undef, @$BEARER ],
    [ 'no proofs are checked', '401 token_missing', '/off', $token, proof(GET => '/off', $token) ],
    [ 'nor bound ones taken', '401 token_bound', '/off', $token, undef, @$BEARER ],
    [ 'something else checks', '200 verified', '/trust', $token, undef, @$BEARER ],
    [ 'for another context', '403 context_forbidden', '/branch', $token, proof(GET => '/branch', $token) ],
    [ 'in a cookie', '401 token_bound', '/sources', undef, proof(GET => '/sources', $token),
        headers => [ Cookie => "at=$token" ] ],
    [ 'an unbound one there', '200 verified', '/sources', undef, undef, headers => [ Cookie => "at=$plain" ] ],
    [ 'in a subprotocol', '401 token_bound', '/sources', undef, proof(GET => '/sources', $token),
        headers => [ 'Sec-WebSocket-Protocol' => "bearer.$token" ] ],
    [ 'an unbound one there', '200 verified', '/sources', undef, undef,
        headers => [ 'Sec-WebSocket-Protocol' => "bearer.$plain" ] ],
    [ 'the same in both', '200 verified', '/sources', $token, proof(GET => '/sources', $token),
        headers => [ Cookie => "at=$token" ] ],
    (map { [ "in a $_->[0], without a proof", '401 token_bound', '/sources', undef, undef, headers => $_->[1] ] }
        [ cookie => [ Cookie => "at=$token" ] ], [ subprotocol => [ 'Sec-WebSocket-Protocol' => "bearer.$token" ] ],
        [ 'handshake' => [ 'Sec-WebSocket-Protocol' => "bearer.$token", Upgrade => 'websocket', Connection => 'Upgrade' ] ]),
    [ 'a subprotocol by another name', '401 token_missing', '/sources', undef, proof(GET => '/sources', $token),
        headers => [ 'Sec-WebSocket-Protocol' => "dpop.$token" ] ],
    (map { my ($what, $want, @cookies) = @$_; map { [ "$what, $_->[0]", $want, '/sources', undef,
        proof(GET => '/sources', $token), headers => $_->[1] ] } [ 'in one line', [ Cookie => join '; ', @cookies ] ],
        [ 'in two', [ map { (Cookie => $_) } @cookies ] ] }
        [ 'the same cookie twice', '401 token_bound', ("at=$token") x 2 ], [ 'an unbound one twice', '200 verified', ("at=$plain") x 2 ],
        [ 'one of each', '400 token_conflict', "at=$token", "at=$plain" ], [ 'the other first', '400 token_conflict', "at=$plain", "at=$token" ],
        [ 'another name', '200 verified', "tt=$token", "at=$plain" ]),
    (map { [ "with a proof, and $_->[0]", $_->[1], '/sources', $_->[3] // $token, proof(GET => '/sources', $token), headers => $_->[2] ] }
        [ 'an unbound token in a cookie', '400 token_conflict', [ Cookie => "at=$plain" ] ],
        [ 'in a subprotocol', '400 token_conflict', [ 'Sec-WebSocket-Protocol' => "bearer.$plain" ] ],
        [ 'the same token there', '200 verified', [ 'Sec-WebSocket-Protocol' => "bearer.$token" ] ],
        [ 'a bound one there, of another key', '400 token_conflict', [ 'Sec-WebSocket-Protocol' => "bearer.$stolen" ] ],
        [ 'the unbound token in both', '401 token_unbound', [ Cookie => "at=$plain" ], $plain ]),
    [ 'as Bearer, the same in a cookie', '401 token_bound', '/sources', $token, proof(GET => '/sources', $token), @$BEARER,
        headers => [ Cookie => "at=$token" ] ],
    [ 'a handshake', '200 verified', '/api', $token, proof(GET => '/api', $token),
        headers => [ Upgrade => 'websocket', Connection => 'Upgrade' ] ],
    [ 'POST', '200 verified', '/api', $token, proof(POST => '/api', $token), method => 'POST' ],
    [ 'a method that nginx does not know', '200 verified', '/api', $token, proof(BREW => '/api', $token), method => 'BREW' ],
) {
    my ($name, $want, $path, $tok, $proof, %o) = @$case;
    $res = ask($path, $tok, ref $proof eq 'CODE' ? $proof->() : $proof, %o);
    is reason($res), $want, "$path, $name: $want";
    is $res->json->{detail}, "the proof of possession is not valid: $o{detail}", "$name: and why" if $o{detail};
    is_deeply [ header_values($res->json, 'X-Account-Id') ], [ uuid(1) ], "$name: as whom" if $want =~ /^200/;
}
is http($port, GET => '/api', headers => [ map { (Authorization => "DPoP $_") } $token, $stolen ])->status, 400,
    'two Authorization headers';
is reason(ask('/api', $token, $cross)), '200 verified', 'control: what was refused elsewhere was not used up';

is_deeply [ grep { $_ ne '401 token_bound' } map { reason(ask('/off', $token, undef, @$BEARER)) } 1 .. 20 ], [],
    'nor where no proofs are checked, by any worker that has verified it';

# -- challenges and codes

my $ALGS = 'algs="ES256 EdDSA Ed25519 RS256 RS384 RS512 PS256"';
my ($B, $D) = ('Bearer realm="platform"', qq(DPoP realm="platform", $ALGS));
sub error ($error, $text) { return qq(, error="$error", error_description="$text") }
my $WRONG = error('invalid_dpop_proof', 'the proof of possession is not valid: htu');
my $UNBOUND = error('invalid_token', 'the token is not bound to a key');
for my $case (
    [ 'no token', "$B, $D", 'GATEWAY_TOKEN_MISSING', '/api' ],
    [ 'no token, required', $D, 'GATEWAY_TOKEN_MISSING', '/require' ],
    [ 'no proofs are checked', $B, 'GATEWAY_TOKEN_MISSING', '/off' ],
    [ 'no proof', "$B, $D" . error('invalid_dpop_proof', 'the token needs one DPoP header with a proof'),
        'GATEWAY_PROOF_REQUIRED', '/api', $token ],
    [ 'a wrong proof', "$B, $D$WRONG", 'GATEWAY_PROOF_INVALID', '/api/y', $token, $cross ],
    [ 'a wrong proof, required', "$D$WRONG", 'GATEWAY_PROOF_INVALID', '/require', $token, $cross ],
    [ 'a used proof', "$B, $D" . error('invalid_dpop_proof', 'the proof was used before'),
        'GATEWAY_PROOF_INVALID', '/api', $token, $cross ],
    [ 'a bound token as Bearer', $B . error('invalid_token', 'the token is bound to a key, a bearer may not use it')
        . ", $D", 'GATEWAY_TOKEN_INVALID', '/api', $token, undef, @$BEARER ],
    [ 'an unbound token', "$B, $D$UNBOUND", 'GATEWAY_TOKEN_INVALID', '/api', $plain, $cross ],
    [ 'an unbound token, required', "$D$UNBOUND", 'GATEWAY_TOKEN_INVALID', '/require', $plain, undef, @$BEARER ],
) {
    my ($name, $challenge, $code, $path, $tok, $proof, %o) = @$case;
    $res = ask($path, $tok, $proof, %o);
    is_problem($res, 401, $code, "$name: $code");
    is_deeply [ $res->header_all('WWW-Authenticate') ], [$challenge], "$name: the challenge";
}
like fresh('/branch', $token)->header('WWW-Authenticate'),
    qr/^Bearer realm="platform", DPoP .* error="insufficient_scope", scope="BRANCH"$/, 'a 403 by the scheme of its request';

# -- a proof is used once a request, however many locations and variables ask

my $ECHO = qr/"X-Account-Id","\Q@{[ uuid(1) ]}"/;
for my $case (
    [ 'a location of the same rules', '/left', 'GET' ], [ 'one with other origins', '/left/other', 'GET' ],
    [ 'a page that nginx asks for by GET', '/down', 'POST' ], [ 'from a public location', '/public/down', 'POST' ],
    [ 'X-Accel-Redirect', '/accel', 'GET' ], [ 'a named location', '/try', 'GET' ], [ 'rewrite', '/rewritten', 'GET' ],
    [ 'auth_request', '/asks', 'GET' ], [ 'parts of a page', '/ssi/page.html', 'GET' ],
    [ 'a variable that is read first', '/early', 'GET' ], [ 'a limit by the account', '/limited', 'GET' ],
    [ 'shadow mode', '/shadow', 'GET' ], [ 'satisfy any', '/any', 'GET' ],
) {
    my ($name, $path, $method) = @$case;
    my $proof = proof($method => $path, $token);
    $res = ask($path, $token, $proof, method => $method);
    is $res->status, 200, "$name: 200";
    like $res->body, $ECHO, "$name: as whom";
    is $res->header('X-Account'), uuid(1), "$name: the variable" if $path =~ /early|limited/;
    $res = ask($path, $token, $proof, method => $method);
    is_deeply [ @{ $t->logged($res) }{qw(decision reason)} ], $path eq '/any' ? [ 'allow', 'satisfied' ]
        : [ $path eq '/shadow' ? 'shadow' : 'deny', 'proof_replayed' ], "$name: not twice";
    unlike $res->body, $ECHO, "$name: as nobody";
    ok !length($res->header('X-Account') // ''), "$name: nor in the variable";
}

# A key that has to be fetched first: the guard runs again.
$issuer->set(body => jwks($key, $next));
$clock->pass(30);
my $later = jwt_token(account => $next, cnf => { jkt => $own->jkt });
is reason(fresh('/early', $later)), '200 verified', 'a key that has to be fetched';
is reason(fresh('/api', $later)), '200 verified', 'and that is known';

# -- other doors

sub judge ($proof, $method, $uri, @more) {
    return ask('/judge', $token, $proof, headers => [ 'X-Forwarded-Method' => $method, 'X-Forwarded-Uri' => $uri, @more ]);
}
my $described = proof(POST => '/api/x', $token);
is judge($described, POST => '/api/x?y')->status, 204, 'forward-auth: the method and path that are asked about';
is reason(judge($described, POST => '/api/x?y')), '401 proof_replayed', '... once';
is reason(judge(proof(GET => '/judge', $token), POST => '/api/x')), '401 proof_invalid', '... not those of the question';
is reason(judge(proof(POST => 'https://evil.test/api/x', $token), POST => '/api/x', 'X-Forwarded-Host' => 'evil.test',
    'X-Forwarded-Proto' => 'https')), '401 proof_invalid', '... nor what it says of the host';
# Envoy, by a stand-in that sends what the example lists.
my ($passed) = $t->read_file($t->root . '/examples/forward-auth/envoy.yaml') =~ /allowed_headers:(.*?)http_service:/s;
sub envoy ($method, $path, %headers) {
    return http($t->port('asks'), $method, $path, headers => [ Authorization => "DPoP $token",
        map { ($_ => $headers{$_}) } grep { $passed =~ /exact: \Q$_\E\n/ } sort keys %headers ])->status;
}
my ($envoy, $other) = map { proof(PUT => '/api/x', $token) } 1, 2;
is envoy(PUT => '/api/x?y', dpop => $envoy), 200, 'Envoy: a proof of its own request';
is envoy(PUT => '/api/x', dpop => $envoy), 401, '... once';
is envoy(PUT => '/api/x'), 401, '... and not without';
is envoy(PUT => '/api/x', dpop => "$other,$other"), 401, '... two, as Envoy joins them';
is envoy(GET => '/api/x', dpop => $other), 401, '... nor of another method';
is envoy(PUT => '/api/x', dpop => $other), 200, '... control: it was not used up';
SKIP: {
    skip 'needs haproxy', 3 if !Platform::Test::Env::find('haproxy');
    my ($front, $up) = map { $t->port($_) } qw(front upstream);
    my $own = $t->root . '/examples/forward-auth';
    $t->write_file('haproxy.cfg', $t->read_file("$own/haproxy.cfg") =~ s{/etc/haproxy/}{$own/}r
        =~ s/\b8090\b/$port/r =~ s/\b8082\b/$up/r =~ s/\b8092\b/$front/r);
    local $ENV{PATH} = "$ENV{PATH}:/usr/sbin:/sbin";
    $t->process('haproxy', cmd => [ 'haproxy', '-f', $t->dir . "/haproxy.cfg" ], ok_status => ['any']);
    sub through ($front, $proof) {
        return http($front, POST => '/api/front', body => '', headers => [ Authorization => "DPoP $token",
            DPoP => $proof ]);
    }
    my $proof = proof(POST => '/api/front', $token);
    ok eventually(sub { eval { http($front, GET => '/api')->status } // 0 }), 'HAProxy asks';
    $res = through($front, $proof);
    is_deeply [ $res->status, scalar header_values($res->json, 'X-Account-Id') ], [ 200, 1 ], '... with the proof';
    is through($front, $proof)->status, 401, '... once';
}
my $h2 = 'http://127.0.0.1:' . $t->port('h2');
my $over2 = proof(POST => '/api/h2', $token);
is qx{curl -s -m 60 -o /dev/null -w '%{http_code}' --http2-prior-knowledge -X POST -H 'Authorization: DPoP $token' \\
    -H 'DPoP: $over2' $h2/api/h2?q}, $_, "HTTP/2: $_" for 200, 401;

# -- at once, on connections of other tokens, and at two doors

# Sends before it reads; the statuses of all answers.
sub statuses (@texts) {
    my @to = map { IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die "connect: $!\n" } @texts;
    print { $to[$_] } $texts[$_] for 0 .. $#to;
    local $/;
    return map { (readline($_) // '') =~ m{HTTP/1\.1 (\d+)}g } @to;
}
sub text ($path, @headers) { return join "\r\n", "GET $path HTTP/1.1", 'Host: x', @headers, '', '' }
for my $n (1 .. 5) {
    my $text = text('/api', "Authorization: DPoP $token", 'DPoP: ' . proof(GET => '/api', $token), 'Connection: close');
    is_deeply [ sort(statuses(($text) x 12)) ], [ 200, (401) x 11 ], "one proof twelve times at once: $n";
}
my $single = 'DPoP: ' . proof(GET => '/api', $token);
is_deeply [ statuses(join '', map { text('/api', @$_) } [ "Authorization: DPoP $token", $single ],
    [ "Authorization: DPoP $token", $single ], [ "Authorization: Bearer $plain" ], [ "Authorization: DPoP $token" ],
    [$single], [ "Authorization: DPoP $token", 'DPoP: ' . proof(GET => '/api', $token) ],
    [ "Authorization: Bearer $token", 'Connection: close' ]) ], [ 200, 401, 200, 401, 401, 200, 401 ],
    'each request of a connection for itself';
$single = proof(GET => '/api', $token);
is_deeply [ judge($single, GET => '/api')->status, reason(ask('/api', $token, $single)) ], [ 204, '401 proof_replayed' ],
    'what another proxy has asked about is used up here';

# -- explained without being used up

sub explained (%question) {
    my $said = http_post($port, '/explain', json => { path => '/api', token => "DPoP $token", %question })->json;
    my ($check) = grep { $_->{check} eq 'proof' } @{ $said->{checks} };
    return join ' ', $said->{reason}, $check->{result}, $check->{detail} // ();
}
my $told = proof(GET => '/api', $token);
my $NO = 'the proof of possession is not valid';
for my $case (
    [ 'verified passed', proof => $told ], [ 'verified passed', proof => $told ],
    [ 'verified passed', proof => $told, token => $token ], [ 'verified passed', token => $plain ],
    [ 'proof_missing failed the token needs one DPoP header with a proof' ],
    [ 'proof_missing failed the token needs one DPoP header with a proof', token => $token, proof => undef ],
    [ "proof_invalid failed $NO: htm", proof => $told, method => 'PUT' ],
    [ "proof_invalid failed $NO: htu", proof => $told, path => '/api/x' ],
    [ 'proof_invalid failed the proof is too old or from the future', proof => $told, at => now() + 100 ],
    [ 'token_bound failed the token is bound to a key, a bearer may not use it', token => "Bearer $token", proof => $told ],
    [ 'token_unbound failed the token is not bound to a key', token => "DPoP $plain", proof => $told ],
    [ 'token_missing skipped', path => '/off', proof => $told ],
) {
    my ($want, %question) = @$case;
    is explained(%question), $want, "explained: $want";
}
is reason(ask('/api', $token, $told)), '200 verified', 'it can still be used';
is explained(proof => $told), 'verified passed', 'an explanation does not say whether it was';

# -- what goes upstream, and what a page may do

for my $case ([ '/api', 1 ], [ '/plain', 0 ], [ '/forward', 1, 1 ], [ '/shadow', 1 ], [ '/any', 1 ],
    [ '/public', 1, 1 ], [ '/trust', 1, 1, @$BEARER ])
{
    my ($path, $authorization, $proved, %o) = @$case;
    my $proof = proof(GET => $path, $token);
    for my $n (1, 2) {
        $res = ask($path, $token, $proof, %o);
        next if $res->status != 200;
        is_deeply [ map { scalar header_values($res->json, $_) } qw(Authorization DPoP) ],
            [ $authorization, $proved // 0 ], "$path: upstream, asked $n times";
    }
}
$res = http($port, OPTIONS => '/api', headers => [ Origin => 'https://app.test', 'Access-Control-Request-Method' => 'GET',
    'Access-Control-Request-Headers' => 'authorization, dpop' ]);
is $res->status, 204, 'a page may send a proof';
like ask('/api', $token, undef, headers => [ Origin => 'https://app.test' ])->header('Access-Control-Expose-Headers'),
    qr/WWW-Authenticate.*DPoP-Nonce, Date/, 'and read why it is refused';

# -- once: for other workers, after a reload, after kill -9

my $used = proof(GET => '/api', $token);
my $first = ask('/api', $token, $used);
is $first->status, 200, 'a proof for four workers';
my %by;
ok eventually(sub {
    my $again = ask('/api', $token, $used);
    push @{ $by{ $again->status } }, $again->header('X-Worker');
    return 2 <= keys %{ { map { $_ => 1 } grep { $_ ne $first->header('X-Worker') } @{ $by{401} } } };
}), 'two other workers saw it again';
is_deeply [ keys %by ], [401], 'each refused it';
ok $t->reload, 'a reload';
is reason(ask('/api', $token, $used)), '401 proof_replayed', 'not after a reload';
is reason(fresh('/api', $token)), '200 verified', 'control: a new one';
my $last = ask('/api', $token, my $lasting = proof(GET => '/api', $token));
kill KILL => $last->header('X-Worker');
ok eventually(sub { !grep { $_ == $last->header('X-Worker') } $t->nginx->workers }), 'its worker is killed';
is reason(ask('/api', $token, $_)), '401 proof_replayed', 'not after kill -9' for $used, $lasting;
ok eventually(sub { fresh('/api', $token)->status == 200 }), 'control: a new one';
configure(PROOF => 'zone=proofs:256k window=120s');
ok $t->reload, 'a longer window';
is reason(ask('/api', $token, $_)), '401 proof_replayed', 'not after that' for $used, $lasting;
ok eventually(sub { ask('/api', $token, proof(GET => '/api', $token, payload => { iat => now() - 110 }))->status == 200 }),
    'an older one, by the new workers';

# -- a full zone refuses, and forgets nothing; only good proofs fill it

configure(PROOF => 'zone=small:32k window=300s', WORKERS => 2);
ok $t->reload, 'another, small zone';
sub metric ($name) { return metrics_scrape($port, '/metrics')->{"platform_gateway_$name"} }
ok eventually(sub { fresh('/api', $token)->status == 200 }), 'proofs of a later second';
my $max = metric('proof_entries_max');
cmp_ok $max, '>', 500, "it has room for $max";
my $had = metric('proof_entries');
ask('/api', @$_) for ([ $token, proof(GET => '/api', $token, by => $thief) ], [ $plain, proof(GET => '/api', $plain) ],
    [ $token, proof(PUT => '/api', $token) ], [ bound($own, exp => now() - 60), proof(GET => '/api', $token) ],
    [ jwt_token(account => $thief->as('a', 'ES256'), cnf => { jkt => $own->jkt }), proof(GET => '/api', $token) ]) x 9;
is metric('proof_entries'), $had, 'none but good proofs fill it';

# So many proofs of a token that is bound to the quick key.
my $many = bound($quick);
my $pem = $t->write_file('quick.pem', $quick->private_pem);
my $node = Platform::Test::Env::node();
sub make ($count) {
    return map { proof(GET => '/many', $many, by => $quick) } 1 .. $count if !$node;
    my @cmd = ($node, $t->root . '/t/node/proofs.mjs', $pem, int $count, GET => "$API/many", now(), $many);
    return split /\n/, qx{@cmd};
}

# Sends proofs over one connection: { reason => [proofs] }.
sub send_all (@proofs) {
    my $client = Platform::Test::Http->new(port => $port);
    my %told;
    for (@proofs) {
        my $res = $client->request(GET => '/many', headers => [ Authorization => "DPoP $many", DPoP => $_ ]);
        push @{ $told{ $res->status == 200 ? 'verified' : $res->json->{detail} } }, $_;
    }
    $client->close;
    return \%told;
}

my ($FULL, $USED) = ('no further proof can be remembered', 'the proof was used before');
my $sent = send_all(make(1.7 * $max));
my @good = @{ $sent->{verified} };
is_deeply [ sort keys %$sent ], [ sort $FULL, 'verified' ], 'more than it has room for';
cmp_ok @good, '>=', $max, 'as many as it says are accepted: ' . @good;
is_deeply [ map { scalar @$_ } @{ send_all(@good) }{$USED} ], [ scalar @good ], 'each of them is known';
$res = ask('/api', $many, proof(GET => '/api', $many, by => $quick));
SKIP: {
    skip 'one found room', 3 if $res->status == 200;
    is_problem($res, 503, 'GATEWAY_PROOF_STORE_FULL', 'a full zone');
    is $res->header('Retry-After'), 1, 'try again';
    is $t->logged($res)->{reason}, 'proof_store_full', 'logged';
}
is reason(ask('/api', $plain, undef, @$BEARER)), '200 verified', 'other tokens pass';
my $counted = metrics_scrape($port, '/metrics');
cmp_ok $counted->{qq(platform_gateway_refusals_total{reason="$_",decision="deny"})}, '>', 1, "counted: $_"
    for qw(proof_store_full proof_replayed proof_invalid proof_missing token_unbound token_bound);
$clock->pass(302);
is metric('proof_entries'), 0, 'when their time is over they count no more';

# A clock that is set back: what was overwritten meanwhile is still not accepted.
my $over = send_all(make(1.4 * $max));
cmp_ok scalar @{ $over->{verified} }, '>=', $max, 'others take their place';
$clock->ahead(-302);
ok eventually(sub { ask('/api', $plain, undef, @$BEARER)->status == 200 }), 'the clock is set back';
my $again = send_all(@good);
is_deeply [ grep { !/^(?:\Q$USED\E|the proof is older than what is remembered)$/ } keys %$again ], [],
    'none of the first is accepted again';
cmp_ok scalar @{ $again->{'the proof is older than what is remembered'} // [] }, '>', $max / 2,
    'though most were overwritten';
$clock->ahead(0);
$clock->pass(610);
ok eventually(sub { fresh('/api', $token)->status == 200 }), 'new ones are, later';

# A clock that is an hour ahead and set right; also where the gateway began meanwhile.
sub at_noon { return proof(GET => '/api', $token, payload => { iat => now() + 3600 }) }
for my $zone (qw(small ahead)) {
    $clock->ahead(3600);
    configure(PROOF => "zone=$zone:32k", WORKERS => 2);
    ok $t->reload, "$zone: an hour ahead";
    my $noon;
    ok eventually(sub { ask('/api', $token, $noon = at_noon())->status == 200 }), "$zone: proofs of that hour";
    $clock->ahead(0);
    my $morning;
    ok eventually(sub { ask('/api', $token, $morning = proof(GET => '/api', $token))->status == 200 }),
        "$zone: of this hour, as soon as the clock is right";
    is reason(ask('/api', $token, $morning)), '401 proof_replayed', "$zone: once";
    $clock->pass(3600);
    ok eventually(sub { fresh('/api', $token)->status == 200 }), "$zone: an hour later";
    is reason(ask('/api', $token, $noon)), '401 proof_replayed', "$zone: not once more";
}

# A clock that was ahead for long: proofs wait until it shows that time again.
send_all(make(1.5 * $max));
$clock->pass(100);
send_all(make(1.5 * $max));
$clock->ahead(-300);
my $OLD = 'the proof is older than what is remembered';
ok eventually(sub { ask('/api', $token, proof(GET => '/api', $token, payload => { iat => now() - 300 }))->body
    =~ /$OLD/ }), 'set back by five minutes';
my @lines = grep {/clock was set back/} split /\n/, $t->nginx->error_log;
is scalar @lines, 1, 'one line says so';
like $lines[0], qr/they are refused for [12]\d\d s; a restart ends that/, 'and how long that takes';
$clock->ahead(0);
ok eventually(sub { fresh('/api', $token)->status == 200 }), 'set right';

# -- a nonce of the gateway's

# In the middle of a slice, so that none ends while this runs.
configure(PROOF => 'zone=nonces:256k nonce=on window=200s', WORKERS => 2);
$clock->pass(300 - now() % 200);
ok $t->reload, 'with nonces';
sub with_nonce ($nonce) { return ask('/api', $token, proof(GET => '/api', $token, payload => { nonce => $nonce })) }
ok eventually(sub { with_nonce(with_nonce('x')->header('DPoP-Nonce'))->status == 200 }), 'a proof with the nonce';
$res = fresh('/api', $token);
is_problem($res, 401, 'GATEWAY_PROOF_INVALID', 'none');
is $t->logged($res)->{reason}, 'proof_nonce', 'none: logged';
is $res->header('WWW-Authenticate'), "$B, $D" . error('use_dpop_nonce', 'the proof needs the nonce of DPoP-Nonce'),
    'none: the challenge';
my $nonce = $res->header('DPoP-Nonce');
like $nonce, qr/\A[\w-]{22}\z/, 'none: the nonce to use';
my $marked = proof(GET => '/api', $token, payload => { nonce => $nonce });
$res = ask('/api', $token, $marked);
is_deeply [ $res->status, $res->header_all('DPoP-Nonce') ], [ 200, $nonce ], 'with it: accepted, and told again';
is reason(ask('/api', $token, $marked)), '401 proof_replayed', 'once';
is reason(with_nonce($_)), '401 proof_nonce', "another one: '$_'"
    for $nonce . 'x', substr($nonce, 1) . 'A', lc $nonce eq $nonce ? uc $nonce : lc $nonce;
SKIP: {
    skip 'needs node', 2 if !$node;
    my $pid = open2(my $from, my $to, $node, $t->root . '/t/node/dpop_clients.mjs', "http://127.0.0.1:$port/api/x?y=1",
        now() - time);
    $to->autoflush(1);
    for my $case ([ oauth4webapi => 'nonce 200 200' ], [ 'openid-client' => '200 200' ]) {
        chomp(my $theirs = <$from> // '');
        say {$to} jwt_token(account => $key, cnf => { jkt => $theirs }, exp => now() + 600);
        chomp(my $told = <$from> // '');
        is $told, $case->[1], "a client that exists: $case->[0]";
    }
    waitpid $pid, 0;
}
is explained(proof => proof(GET => '/api', $token)), 'proof_nonce failed the proof needs the nonce of DPoP-Nonce',
    'explained: none';
is explained(proof => proof(GET => '/api', $token, payload => { nonce => $nonce })), 'verified passed', 'explained: the nonce';
is http_get($port, '/api', token => $plain)->header('DPoP-Nonce'), undef, 'other tokens are told none';
is_deeply [ map { with_nonce($nonce)->status } 1 .. 12 ], [ (200) x 12 ], 'by each worker';
ok $t->reload, 'a reload';
is with_nonce($nonce)->status, 200, 'it is still good';
$clock->pass(200);
ok eventually(sub { (my $now = with_nonce($nonce)->header('DPoP-Nonce')) ne $nonce }), 'another slice, another nonce';
is with_nonce($nonce)->status, 200, 'the one before is still good';
$clock->pass(200);
is reason(with_nonce($nonce)), '401 proof_nonce', 'not for another slice';
is with_nonce(with_nonce($nonce)->header('DPoP-Nonce'))->status, 200, 'control: the present one';
# A clock that is ahead, and a new zone, which knows of no proof.
my $ahead = proof(GET => '/api', $token, payload => { iat => now() + 60, nonce => with_nonce($nonce)->header('DPoP-Nonce') });
is ask('/api', $token, $ahead)->status, 200, 'a proof of later';
configure(PROOF => 'zone=others:256k nonce=on window=200s', WORKERS => 2);
ok $t->reload, 'another zone';
ok eventually(sub { with_nonce(with_nonce('x')->header('DPoP-Nonce'))->status == 200 }), 'it takes proofs';
is reason(ask('/api', $token, $ahead)), '401 proof_nonce', 'but none with a nonce of the other';

# -- as the page shows it: docs/bound-tokens.md

my $page = $t->read_file($t->root . '/docs/bound-tokens.md');
my ($zone, $origin, $require) = $page =~ /^## Switch it on\n(.*?)^## /ms && $1 =~ /^```nginx\n(.*?)^```\n/msg;
my ($promised) = map {s/\s+/ /gr} $page =~ /^```text\nWWW-Authenticate: (.*?)\n```\n/ms;
my ($up, $at) = ($t->port('upstream'), $t->port('shown'));
my $pass = "platform_gateway_access token; proxy_pass http://127.0.0.1:$up;";
my $shown = <<"HTTP";
%%GLOBALS%%
events { }
http {
    %%GLOBALS_HTTP%% large_client_header_buffers 2 24k;
    platform_gateway_issuer $Platform::Test::Jwt::ISSUER; platform_gateway_key_file keys.json; $zone
    server {
        listen 127.0.0.1:$at; platform_gateway on; $origin
        location /orders/ { $pass }
        location /payouts/ { $require $pass }
    }
}
HTTP
$t->write_file('keys.json', jwks($key));
my $doc = $t->nginx_conf($shown, 'shown');
$doc->start;
sub as_shown ($path, $token, @headers) { return http_get($at, $path, headers => [ Authorization => $token, @headers ]) }
sub for_page ($path) { return (DPoP => proof(GET => "https://api.example.com$path", $token)) }
$Platform::Test::Jwt::AHEAD = 0;
($token, $plain) = (bound(), jwt_token(account => $key));
for my $path ('/orders/7', '/payouts/7') {
    ok eventually(sub { as_shown($path, "DPoP $token", for_page($path))->status == 200 }), "the page: $path";
    is as_shown($path, "Bearer $plain")->status, $path =~ /orders/ ? 200 : 401, "the page: $path as Bearer";
}
is as_shown('/orders/7', "DPoP $token")->header('WWW-Authenticate'), $promised, 'the page: the challenge';
$doc->stop;

# -- what nginx -t refuses

my $ISSUER = "platform_gateway_issuer a; platform_gateway_key_file keys.json;";
for my $case (
    [ 'zone=a:32k' ], [ 'zone=a:1m window=5s nonce=on' ], [ 'nonce=off window=5m zone=a:1m' ],
    (map { [ $_, qr/invalid parameter "\Q$_\E": say "zone=NAME:SIZE"/ ] }
        qw(window=4s window=301s window= window=x nonce=maybe nonce= size=1m off)),
    [ 'zone=a', qr/invalid zone "a": it is NAME:SIZE, like "proofs:8m", of at least 32k/ ],
    [ 'zone=a:16k', qr/invalid zone "a:16k"/ ], [ 'window=9s', qr/"platform_gateway_proof" directive needs "zone=NAME:SIZE"/ ],
    [ 'zone=a:1m; platform_gateway_proof zone=b:1m', qr/is duplicate/ ],
    [ 'zone=platform_gateway:10m', qr/zone "platform_gateway" of "platform_gateway_proof" is also another zone/ ],
) {
    my ($value, $said) = @$case;
    my ($ok, $why) = $t->location_test(http => "$ISSUER platform_gateway_proof $value;",
        location => 'platform_gateway on; platform_gateway_access account; empty_gif;');
    $said ? like($why, $said, "refused: $value") : ok($ok, "taken: $value") || diag $why;
}
my $O = 'platform_gateway_proof_origin';
for my $case (
    [ "$O https://a.test http://b:8080 http://[::1];" ], [ "$O off;" ], [ "$O https://a.test; platform_gateway_bound require;" ],
    (map { [ "$O $_;", qr/invalid origin "\Q$_\E" in "$O"/ ] } qw(a.test ftp://a.test https:// https://a/ https://a:0
        https://*.a.test https://a.test/x off:// https://a..b), 'https://a:65536'),
    [ "$O https://a off;", qr/invalid origin "off"/ ], [ "$O off; $O https://a;", qr/is duplicate/ ],
    [ "$O https://a; platform_gateway_allow_confirmation on;", qr/checks proofs .* leave one out/ ],
    [ 'platform_gateway_bound require;', qr/requires bound tokens, and accepts none/ ],
    [ 'platform_gateway_bound maybe;', qr/invalid value "maybe"/ ],
    [ "$O https://a;", qr/has "$O", and no proof is checked: add "platform_gateway_proof"/, http => '' ],
    [ "$O https://a; platform_gateway_access public;", undef, http => '', level => '' ],
    [ 'platform_gateway off; platform_gateway_bound require;', undef, on => '', level => '' ],
    [ 'platform_gateway_bound require;', qr/has "platform_gateway_bound", but the gateway is not on/, on => '', level => '' ],
) {
    my ($lines, $said, %o) = @$case;
    my ($ok, $why) = $t->location_test(http => $ISSUER . ($o{http} // 'platform_gateway_proof zone=a:1m;'),
        location => ($o{on} // 'platform_gateway on;') . ($o{level} // 'platform_gateway_access account;')
            . "$lines empty_gif;");
    $said ? like($why, $said, "refused: $lines") : ok($ok, "taken: $lines") || diag $why;
}

$t->done;
