# Where a token may come from: Authorization, and where the location says so a cookie
# or a subprotocol of a WebSocket.  A page of elsewhere cannot use the cookie; what
# carries the token does not go upstream.

use MIME::Base64 qw(encode_base64);
use Platform::Test;

my ($t, $key, $issuer, $upstream) = Platform::Test->gateway;
my $port = $t->port('gateway');

$t->http_server(accel => sub { return [ 200, [ 'X-Accel-Redirect' => '/both/x' ], '' ] });
$t->echo_fastcgi;
my $judge = $t->http_server(judge => sub { return [ 204, [], '' ] });
$t->write_file('users', "ann:{PLAIN}secret\n");
my ($doc) = $t->read_file($t->root . '/docs/directives.md')
    =~ /^### platform_gateway_token_from\n.*?^```nginx\n(.*?)^```\n/ms;
$t->set(COOKIE => 'platform_gateway_token_from cookie=at;',
    BOTH => 'platform_gateway_token_from subprotocol cookie=at; platform_gateway_methods GET POST;',
    PAGE => 'error_page 401 403 405 429 502 = @page;',
    ANY => "satisfy any; auth_basic area; auth_basic_user_file @{[ $t->dir ]}/users;",
    DOC => $doc =~ s/127[.]0[.]0[.]1:9000/127.0.0.1:@{[ $t->port('upstream') ]}/r);
$t->gateway_conf(<<'SERVER', http => <<'HTTP');
listen 127.0.0.1:%%PORT_h2%% http2;
listen 127.0.0.1:%%PORT_tls%% ssl;
ssl_certificate %%DIR%%/cert.pem;
ssl_certificate_key %%DIR%%/key.pem;
root %%DIR%%/www;
platform_gateway_access branch;
platform_gateway_forward_authorization off;
pass /none:
pass /cookie: %%COOKIE%% platform_gateway_cors_origins https://app.test https://*.app.test;
    pass /cookie/off: platform_gateway_token_from off;
    pass /cookie/forward: platform_gateway_forward_authorization on;
pass /protocol: platform_gateway_token_from subprotocol;
    pass /protocol/forward: platform_gateway_forward_authorization on;
pass /both: platform_gateway_token_from subprotocol=jwt- cookie=__Host-at;
pass /shadow: platform_gateway_shadow on; %%COOKIE%%
pass /public: platform_gateway_access public; platform_gateway_token_from subprotocol cookie=at;
pass /any: satisfy any; allow 127.0.0.1; deny all;
    platform_gateway_token_from subprotocol cookie=at;
pass /any/basic: %%ANY%%
pass /any/forward: %%ANY%% platform_gateway_forward_authorization on;
pass /any/level: satisfy any; allow 127.0.0.1; deny all;
pass /any/asks: satisfy any; auth_request /judge; %%BOTH%%
pass = /judge to judge: internal; platform_gateway_access public;
pass /left: %%BOTH%% %%PAGE%%
pass /left/limited: %%BOTH%% %%PAGE%% limit_req zone=once; limit_req_status 429;
pass /left/return: %%BOTH%% %%PAGE%% platform_gateway_allow_return on; return 403;
pass /left/down to nobody: %%BOTH%% %%PAGE%%
pass /left/kept: %%BOTH%% error_page 403 = @kept;
pass /left/off: %%BOTH%% error_page 403 = @off;
pass @page: platform_gateway_access public;
pass @kept: platform_gateway_access public; platform_gateway_forward_authorization on;
pass @off: platform_gateway off;
pass /page: %%COOKIE%% error_page 403 =200 /public;
location /led { %%COOKIE%% try_files /nothing @named; }
pass @named: add_header X-Account $platform_account_id;
pass /accel to accel: platform_gateway_access public;
pass /asks: platform_gateway_access public; auth_request /verdict;
pass = /verdict: internal; %%COOKIE%%
location /again { platform_gateway_access public; fastcgi_pass 127.0.0.1:1;
    error_page 502 = /fastcgi; }
location /fastcgi { %%COOKIE%% fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%; }
pass /early: %%COOKIE%% set $early $platform_account_id; add_header X-Account $early;
pass /limited: %%COOKIE%% limit_req zone=slow burst=99; add_header X-Account $platform_account_id;
%%DOC%%
location /ssi/ { platform_gateway_access public; ssi on; }
location = /metrics { platform_gateway_access public; platform_gateway_metrics; }
SERVER
limit_req_zone $platform_account_id zone=slow:1m rate=99r/s;
limit_req_zone $uri zone=once:1m rate=1r/m;
HTTP
my $dir = $t->dir;
system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    . " -keyout $dir/key.pem -out $dir/cert.pem 2>/dev/null") == 0 or die "openssl req failed\n";
$t->write_file("www/ssi/$_->[0].html", qq(<!--# include virtual="$_->[1]" -->))
    for [ page => '/cookie/part' ], [ left => '/left/part' ];
$t->start_gateway;

my ($token, $other, $asked) = map { jwt_token(branch => $key, account_id => $_, sub => $_) }
    map { uuid($_) } 1 .. 3;
my $account = jwt_token(account => $key);
my @AT = (Cookie => "at=$token");
my ($APP, $EVIL) = map { [ Origin => "https://$_" ] } 'app.test', 'evil.test';
my @WS = (Upgrade => 'websocket');
my $WSP = 'Sec-WebSocket-Protocol';

sub ask ($path, @headers) {
    my %o = @headers && ref $headers[-1] ? %{ pop @headers } : ();
    return http($port, delete $o{method} // 'GET', $path, headers => \@headers, %o);
}

# What of them the upstream was sent, by name.
sub sent ($res, @names) {
    my $h = $res->json->{headers};
    return [ map { my $name = lc; map { $_->[1] } grep { lc $_->[0] eq $name } @$h } @names ];
}

# Whose token it is that is found, or why none is: [name, path, headers, status, code].

my $MISSING = 'GATEWAY_TOKEN_MISSING';
for (
    [ 'no source but Authorization', '/none', \@AT, 401, $MISSING ],
    [ 'the same of a subprotocol', '/none', [ $WSP => "bearer.$token" ], 401, $MISSING ],
    [ 'Authorization', '/cookie', [ Authorization => "Bearer $token" ], 200 ],
    [ 'no token', '/cookie', [], 401, $MISSING ],
    [ 'the cookie', '/cookie', \@AT, 200 ],
    [ 'among others', '/cookie', [ Cookie => "a=b;at=$token; c=\"d\"" ], 200 ],
    [ 'in quotes', '/cookie', [ Cookie => qq(at="$token") ], 200 ],
    [ 'of several headers', '/cookie', [ Cookie => 'a=b', @AT ], 200 ],
    [ 'twice the same', '/cookie', [ Cookie => "at=$token; at=$token", @AT ], 200 ],
    [ 'an empty one beside', '/cookie', [ Cookie => "at=; at=$token; at=\"\"" ], 200 ],
    [ 'an empty one', '/cookie', [ Cookie => 'at=' ], 401, $MISSING ],
    [ 'another name', '/cookie', [ Cookie => "xat=$token; AT=$token; at2=$token" ], 401, $MISSING ],
    [ 'the value of another', '/cookie', [ Cookie => "x=at=$token" ], 401, $MISSING ],
    [ 'not a token', '/cookie', [ Cookie => 'at=x' ], 401, 'GATEWAY_TOKEN_INVALID' ],
    [ 'for another context', '/cookie', [ Cookie => "at=$account" ], 403,
        'GATEWAY_CONTEXT_FORBIDDEN' ],
    [ 'a cookie beside another scheme', '/cookie', [ @AT, Authorization => 'Basic eDp5' ], 200 ],
    [ 'beside Bearer without a token', '/cookie', [ @AT, Authorization => 'Bearer ' ], 401,
        'GATEWAY_TOKEN_INVALID' ],
    [ 'a header of that kind without it', '/cookie', [ $WSP => "bearer.$token" ], 401, $MISSING ],
    [ 'switched off', '/cookie/off', \@AT, 401, $MISSING ],
    [ 'in a query', "/cookie?at=$asked&access_token=$asked", [], 401, $MISSING ],
    [ 'the subprotocol', '/protocol', [ @WS, $WSP => "app, bearer.$token" ], 200 ],
    [ 'of a page of elsewhere', '/protocol', [ @WS, @$EVIL, $WSP => "bearer.$token,app" ], 200 ],
    [ 'of several headers', '/protocol', [ $WSP => 'app', $WSP => "bearer.$token" ], 200 ],
    [ 'another prefix', '/protocol', [ $WSP => "Bearer.$token, jwt-$token" ], 401, $MISSING ],
    [ 'nothing after it', '/protocol', [ $WSP => 'bearer., app' ], 401, $MISSING ],
    [ 'its own prefix', '/both', [ $WSP => "jwt-$token" ], 200 ],
    [ 'all three, the same', '/both', [ Authorization => "Bearer $token",
        Cookie => "__Host-at=$token", $WSP => "jwt-$token" ], 200 ],
    [ 'as the page shows it', '/app/x', [ Cookie => "__Host-access=$token" ], 200 ],
    (map { [ "two that differ: $_->[0]", '/both', $_->[1], 400, 'GATEWAY_BAD_REQUEST' ] }
        [ 'cookies', [ Cookie => "__Host-at=$token; __Host-at=$other" ] ],
        [ 'cookies of two headers', [ map { (Cookie => "__Host-at=$_") } $token, $other ] ],
        [ 'one is none', [ Cookie => "__Host-at=$token; __Host-at=x" ] ],
        [ 'a cookie and Authorization', [ Authorization => "Bearer $token",
            Cookie => "__Host-at=$other" ] ],
        [ 'a subprotocol and Authorization', [ Authorization => "Bearer $token",
            $WSP => "jwt-$other" ] ],
        [ 'a subprotocol and a cookie', [ Cookie => "__Host-at=$other", $WSP => "jwt-$token" ] ],
        [ 'subprotocols', [ $WSP => "jwt-$other, jwt-$token" ] ]),
) {
    my ($name, $path, $headers, $status, $code) = @$_;
    my $res = ask($path, @$headers);
    $code ? is_problem($res, $status, $code, "$path: $name") : is $res->status, $status,
        "$path: $name";
    is_deeply sent($res, 'X-Account-Id'), [ uuid(1) ], 'its subject' if $status == 200;
}
my $conflict = ask('/both', Authorization => "Bearer $token", Cookie => "__Host-at=$other");
is $t->logged($conflict)->{reason}, 'token_conflict', 'the log says that two differ';
like $conflict->header('WWW-Authenticate'), qr/error="invalid_request"/, 'and the challenge';
like http_get($port, '/metrics')->body,
    qr/refusals_total\{reason="token_conflict",decision="deny"\} 8\n/, 'and the metrics';
is_deeply [ map { ask('/cookie', Cookie => "at=$_")->status } $token, $other ], [ 200, 200 ],
    'cached: each is its own';

# Which page may use the cookie: [name, method, headers, status], then that it may
# with Authorization whatever it is.

my @SITE = ('Sec-Fetch-Site');
for (
    [ 'GET', GET => $EVIL, 200 ],
    [ 'HEAD', HEAD => $EVIL, 200 ],
    [ 'an allowed origin', POST => $APP, 200 ],
    [ 'by a pattern', POST => [ Origin => 'https://x.app.test' ], 200 ],
    [ 'another origin', POST => $EVIL, 403 ],
    [ 'PUT', PUT => $EVIL, 403 ],
    [ 'DELETE', DELETE => $EVIL, 403 ],
    [ 'a method that nginx does not know', BREW => $EVIL, 403 ],
    [ 'no origin', POST => [], 403 ],
    [ 'a null one', POST => [ Origin => 'null' ], 403 ],
    [ 'two', POST => [ @$APP, @$APP ], 403 ],
    [ 'its own', POST => [ Origin => 'http://own.test:81' ], 200, host => 'own.test:81' ],
    [ 'its own by https', POST => [ Origin => 'https://own.test' ], 200, host => 'own.test' ],
    [ 'another port', POST => [ Origin => 'http://own.test' ], 403, host => 'own.test:81' ],
    [ 'another scheme', POST => [ Origin => 'ftp://own.test' ], 403, host => 'own.test' ],
    [ 'only its end', POST => [ Origin => 'https://x.own.test' ], 403, host => 'own.test' ],
    [ 'only its beginning', POST => [ Origin => 'https://own.test.x' ], 403, host => 'own.test' ],
    [ 'no host', POST => [ Origin => 'https://' ], 403, host => 'own.test' ],
    [ 'same-origin', POST => [ @SITE, 'same-origin' ], 200 ],
    [ 'same-origin of a null one', POST => [ @SITE, 'same-origin', Origin => 'null' ], 200 ],
    [ 'same-site', POST => [ @SITE, 'same-site' ], 403 ],
    [ 'none', POST => [ @SITE, 'none' ], 403 ],
    [ 'said twice', POST => [ (@SITE, 'same-origin') x 2 ], 403 ],
    [ 'an upgrade of an allowed origin', GET => [ @WS, @$APP ], 200 ],
    [ 'an upgrade of another', GET => [ @WS, @$EVIL ], 403 ],
    [ 'an upgrade without', GET => [@WS], 403 ],
) {
    my ($name, $method, $headers, $status) = @$_;
    my %o = (method => $method, @$_[ 4 .. $#$_ ]);
    my $res = ask('/cookie', @AT, @$headers, \%o);
    is $res->status, $status, "cookie, $method: $name";
    next if $status == 200;
    is_problem($res, 403, 'GATEWAY_ORIGIN_NOT_ALLOWED', $name);
    is ask('/cookie', Authorization => "Bearer $token", $_ ? @AT : (), @$headers, \%o)->status,
        200, "with Authorization: $name" for 0, 1;
}

# Where TLS ends here, a page without it is another one.

my $tls = 'localhost:' . $t->port('tls');
is qx{curl -sk -m 60 -o $dir/answer -w '%{http_code}' -X POST -H 'Cookie: at=$token' \\
    -H 'Origin: $_->[0]://$tls' https://$tls/cookie}, $_->[1], "over TLS: $_->[0]"
    for [ https => 200 ], [ http => 403 ];

# CORS: a page of the allowed origin reads the answer, credentials and all.

my $res = ask('/cookie', @AT, @$APP, { method => 'POST' });
is_deeply [ map { $res->header("Access-Control-Allow-$_") } qw(Origin Credentials) ],
    [ $APP->[1], 'true' ], 'an allowed origin reads the answer';
$res = ask('/cookie', @$APP, 'Access-Control-Request-Method' => 'PUT', { method => 'OPTIONS' });
is_deeply [ $res->status, map { $res->header("Access-Control-Allow-$_") } qw(Origin Credentials) ],
    [ 204, $APP->[1], 'true' ], 'its preflight needs no cookie';
$res = ask('/cookie', @AT, @$EVIL, { method => 'POST' });
is_deeply [ grep {/^Access-Control/i} map { $_->[0] } $res->headers ], [],
    'another origin does not even read the refusal';

# What goes upstream: [path, headers, Cookie, Sec-WebSocket-Protocol].

my @SECRET = ('Cookie', $WSP, 'Authorization');
for (
    [ '/cookie', \@AT ],
    [ '/cookie', [ Cookie => "a=1; at=$token;b=\"2\"; at=$token" ], 'a=1; b="2"' ],
    [ '/cookie', [ Cookie => 'a=1;b=2', @AT, Cookie => 'c=3;  d' ], 'a=1;b=2', 'c=3;  d' ],
    [ '/cookie', [ Cookie => 'at=; a=1', Authorization => "Bearer $token" ], 'a=1' ],
    [ '/cookie', [ @AT, $WSP => "app, bearer.$token" ], "app, bearer.$token" ],
    [ '/cookie/forward', [ Cookie => "a=1;at=$token" ], "a=1;at=$token" ],
    [ '/protocol', [ $WSP => "bearer.$token" ] ],
    [ '/protocol', [ $WSP => "app,bearer.$token ,bearer.,v2" ], 'app, v2' ],
    [ '/protocol', [ $WSP => 'a,b', $WSP => "bearer.$token", $WSP => 'c' ], 'a,b', 'c' ],
    [ '/protocol/forward', [ $WSP => "bearer.$token, app", @AT ], $AT[1], 'app' ],
    [ '/both', [ Cookie => "x=1; __Host-at=$token", $WSP => "jwt-$token,a,b",
        Authorization => "Bearer $token" ], 'x=1', 'a, b' ],
    [ '/public', [ Cookie => "at=$other; x=1", $WSP => "bearer.$token, a" ], 'x=1', 'a' ],
    [ '/any', [ Cookie => 'at=bad; x=1', $WSP => 'bearer.bad, a' ], 'x=1', 'a' ],
    [ '/shadow', [ Cookie => "at=bad; x=1" ], 'x=1' ],
    [ '/accel', [ Cookie => "__Host-at=$token; x=1", $WSP => "jwt-$token, a" ], 'x=1', 'a' ],
) {
    my ($path, $headers, @upstream) = @$_;
    $res = ask($path, @$headers);
    is_deeply [ $res->status, @{ sent($res, @SECRET) } ], [ 200, @upstream ],
        "$path: upstream: " . (join ' | ', @upstream) =~ s/\S{99,}/TOKEN/gr;
}

# From 1.23 nginx links headers of one name before it asks by FastCGI.  What another
# location takes out is not linked any more: make matrix has such an nginx.

for my $path (qw(/fastcgi /again)) {
    is_deeply [ map { $_->[1] } grep { $_->[0] eq 'HTTP_COOKIE' }
        @{ ask($path, Cookie => 'a=1', @AT)->json->{params} } ], ['a=1'], "$path: without the token";
}

# What is sent upstream though the guard did not let it in: [reason, path, headers, what of
# them comes].

my @LEFT = map { [ Cookie => "at=$_; x=1", $WSP => "bearer.$_, a" ] } $token, $account, 'bad';
my ($good, $level, $bad) = @LEFT;
my ($basic, $bearer) = map { [ Authorization => $_ ] }
    'Basic ' . encode_base64('ann:secret', ''), "Bearer $account";
for (
    [ 'verified', '/left', $good, 'x=1', 'a' ],
    [ 'public', '/left/down', $good, 'x=1', 'a' ],
    [ 'context_forbidden', '/left', [ @$level, @$bearer ], 'x=1', 'a' ],
    [ 'context_forbidden', '/left/kept', [ @$level, @$bearer ], 'x=1', 'a', $bearer->[1] ],
    [ 'token_shape', '/left', $bad, 'x=1', 'a' ],
    [ 'method_forbidden', '/left', [ @$good, { method => 'PUT' } ], 'x=1', 'a' ],
    [ 'verified', '/left/limited', $good, 'x=1', 'a' ],
    [ 'public', '/left/limited', $good, 'x=1', 'a' ],
    [ 'public', '/left/return', $good, 'x=1', 'a' ],
    [ 'satisfied', '/any/basic', [ @$basic, Cookie => 'x=1' ], 'x=1' ],
    [ 'satisfied', '/any/forward', $basic, $basic->[1] ],
    [ 'satisfied', '/any/level', [ @$bearer, Cookie => 'x=1' ], 'x=1' ],
    [ 'verified', '/any/level', [ Authorization => "Bearer $token", Cookie => 'x=1' ], 'x=1' ],
    [ 'satisfied', '/any/asks', $bad, 'x=1', 'a' ],
) {
    my ($reason, $path, $headers, @upstream) = @$_;
    $res = ask($path, @$headers);
    is_deeply [ $res->status, $t->logged($res)->{reason}, @{ sent($res, @SECRET) } ],
        [ 200, $reason, @upstream ], "$path, $reason: upstream";
}
$res = ask('/left/off', @$good, @$EVIL, 'Access-Control-Request-Method' => 'PUT',
    { method => 'OPTIONS' });
is_deeply [ $res->status, @{ sent($res, @SECRET) } ], [ 200, 'x=1', 'a' ], 'a preflight: the page';
is_deeply [ header_values(($judge->requests)[0], $_) ], $_ eq 'Cookie' ? ['x=1'] : ['a'],
    "auth_request: who is asked gets no token in $_" for 'Cookie', $WSP;
$res = ask('/ssi/left.html', @$level);
like $res->body, qr/"Cookie","x=1".*"\Q$WSP\E","a"/i, 'a part that is refused: its page comes';
unlike $res->body, qr/\Q$account/, 'without the token';

# Other ways to a guarded location, and what asks the guard before ACCESS.

is_deeply [ map { ask('/early', @$_)->header('X-Account') } \@AT, [ Cookie => "at=$other" ] ],
    [ uuid(1), uuid(2) ], 'a variable that is read first names the subject';
is ask('/limited', @AT)->header('X-Account'), uuid(1), 'so does a limit';
$res = ask('/early', @AT, @$EVIL, { method => 'POST' });
is_deeply [ $res->status, $t->logged($res)->{accountId} ], [ 403, undef ],
    'but not of a page of elsewhere';
$res = ask('/shadow', @AT, @$EVIL, { method => 'POST' });
is_deeply [ $res->status, sent($res, 'X-Account-Id'), @{ $t->logged($res) }{qw(decision reason)} ],
    [ 200, [], 'shadow', 'origin_forbidden' ], 'shadow mode says so';
$res = ask('/page', @AT, @$EVIL, { method => 'POST' });
is_deeply [ $res->status, sent($res, 'X-Account-Id', 'Cookie') ], [ 200, [] ],
    'a page of the refusal is nobody\'s, and has no token';
$res = ask('/led', @AT);
is_deeply [ $res->status, $t->logged($res)->{reason} ], [ 401, 'token_missing' ],
    'a location that a request is led to decides by its own sources';
like ask('/ssi/page.html', @AT)->body, qr/"X-Account-Id","\Q@{[ uuid(1) ]}"/, 'a part of a page';
unlike ask('/ssi/page.html', @AT, @WS, @$EVIL)->body, qr/X-Account-Id/,
    'not of one that is asked for from elsewhere';
is_deeply [ map { ask('/asks', @AT, @$_, { method => 'POST' })->status } $APP,
    [ @SITE, 'same-origin' ] ],
    [ 403, 200 ], 'auth_request asks for the method of the request';

# HTTP/2 splits a Cookie into crumbs.

my $h2 = 'http://127.0.0.1:' . $t->port('h2');
my $body = qx{curl -s -m 60 --http2-prior-knowledge -H 'Cookie: a=1' -H 'Cookie: at=$token' \\
    -H 'Cookie: b=2' $h2/cookie};
like $body, qr/"X-Account-Id","\Q@{[ uuid(1) ]}"/, 'HTTP/2: crumbs';
like $body, qr/"Cookie","a=1; b=2"/i, 'one is gone';

ok $t->read_file($_) !~ /\Q$token\E|\Q$other\E/, "no token in $_"
    for map { s{.*/}{}r } glob $t->dir . '/*.log';

for (
    [ undef, 'cookie=a' ], [ undef, 'subprotocol' ], [ undef, 'subprotocol=x cookie=__Host-x' ],
    [ undef, 'off' ], map { [ qr/takes "cookie=NAME" and "subprotocol=PREFIX", each once/, $_ ] }
    'cookie', 'cookie=', 'cookie=a=b', 'cookie=a cookie=b', 'subprotocol=', 'subprotocol=a,b',
    'subprotocol subprotocol', 'query=a', 'off cookie=a', q('cookie=a b'),
) {
    my ($ok, $why) = $t->location_test(location => "platform_gateway_token_from $_->[1];");
    $_->[0] ? like($why, $_->[0], "refused: $_->[1]") : ok($ok, $_->[1]) || diag $why;
}

$t->done;
