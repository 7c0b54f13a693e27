# CORS: preflights are answered by the gateway alone, every response to an
# allowed origin says so, and no other origin learns anything.  Which origins,
# methods and headers those are, check_cors.c shows.

use Platform::Test;

my ($t, $key, undef, $upstream) = Platform::Test->gateway;

# What an upstream may say about CORS by itself.
my $app = $t->http_server('app', sub ($request, @) {
    my ($vary) = $request->{uri} =~ /[?&]vary=([^&]*)/;
    return [ 200, [ 'Access-Control-Allow-Origin' => '*', 'access-control-expose-headers' => 'X',
        'ACCESS-CONTROL-ALLOW-METHODS' => 'BREW', map { (Vary => $_) } split /;/, $vary // '' ],
        'app' ];
});

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
platform_gateway_cors_origins https://app.example.com HTTPS://Upper.Example.COM:443;
platform_gateway_cors_origins https://*.wild.example:8443;
location / { platform_gateway_access public; platform_gateway_route_not_found; }
pass /public: platform_gateway_access public;
pass /branch: platform_gateway_access branch; platform_gateway_methods GET POST;
pass /app to app: platform_gateway_access public;
pass /down to nobody: platform_gateway_access public;
pass /limited: platform_gateway_access public; limit_req zone=one;
pass /own: platform_gateway_access public;
    platform_gateway_cors_origins https://own.example.com;
    platform_gateway_cors_methods GET PURGE;
    platform_gateway_cors_headers X-One X-Two;
    platform_gateway_cors_max_age 1h;
pass /more: platform_gateway_access public;
    platform_gateway_cors_methods default PURGE;
    platform_gateway_cors_headers X-Api-Key default;
    platform_gateway_cors_expose_headers default Mcp-Session-Id grpc-status;
pass /exposes to app: platform_gateway_access public;
    platform_gateway_cors_expose_headers Mcp-Session-Id X-Two;
pass /strict: platform_gateway_access branch; platform_gateway_strict_origin on;
    pass /strict/public: platform_gateway_access public;
    pass /strict/none: platform_gateway_cors_origins off;
    pass /strict/shadow: platform_gateway_shadow on;
    pass /strict/off: platform_gateway_strict_origin off;
pass /asks: platform_gateway_access public; auth_request /strict;
location = /judge { platform_gateway_access public; platform_gateway_forward_auth forwarded;
    allow 127.0.0.1; deny all; }
pass /off to app: platform_gateway_access public; platform_gateway_cors_origins off;
SERVER
limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;
limit_req_status 429;
HTTP
my $port = $t->start_gateway;

my $ORIGIN = 'https://app.example.com';
my $HEADERS = 'Access-Control-Request-Headers';

sub preflight ($path, $origin, $method = 'GET', @more) {
    return http($port, 'OPTIONS', $path, headers => [ Origin => $origin,
        'Access-Control-Request-Method' => $method, @more ]);
}

# What is said of CORS: { name => value, vary => [each line] }
sub cors ($res) {
    return { vary => [ $res->header_all('Vary') ],
        map { lc($_->[0]) =~ s/^access-control-//r => $_->[1] }
        grep { $_->[0] =~ /^access-control-/i } $res->headers };
}

my %ALLOWED = ('allow-origin' => $ORIGIN, 'allow-credentials' => 'true');
my %ANSWER = (
    %ALLOWED,
    'allow-methods' => 'GET, HEAD, POST, PUT, PATCH, DELETE',
    'allow-headers' => 'Authorization, Content-Type, X-Request-Id, X-Correlation-Id, '
        . 'traceparent, tracestate, Idempotency-Key, If-None-Match, DPoP',
    'max-age' => '600',
    vary => ["Origin, Access-Control-Request-Method, $HEADERS"],
);
my %EXPOSED = (%ALLOWED, vary => ['Origin'],
    'expose-headers' => 'X-Request-Id, X-Correlation-Id, Retry-After, WWW-Authenticate, ETag, DPoP-Nonce, Date');
my %REFUSED = (vary => ['Origin']);

# Preflights that are allowed: [path, origin, method, headers, what differs].

my @USUAL = ($ORIGIN, 'POST', 'authorization, content-type');
for my $case (map({ [ $_, @USUAL ] } qw(/public /branch /nothing /limited /limited /)),
    map({ [ '/public', $_, 'GET', '' ] } 'https://upper.example.com',
        'https://a.wild.example:8443'),
    [ '/own', 'https://own.example.com', 'PURGE', 'x-two', 'allow-methods' => 'GET, PURGE',
        'allow-headers' => 'X-One, X-Two', 'max-age' => 3600 ],
    [ '/more', $ORIGIN, 'PURGE', 'x-api-key, if-none-match',
        'allow-methods' => "$ANSWER{'allow-methods'}, PURGE",
        'allow-headers' => "X-Api-Key, $ANSWER{'allow-headers'}" ],
) {
    my ($path, $origin, $method, $headers, %differs) = @$case;
    my $res = preflight($path, $origin, $method, $HEADERS => $headers);
    is_deeply [ $res->status, $res->body, cors($res), scalar $res->header_all('X-Request-Id') ],
        [ 204, '', { %ANSWER, 'allow-origin' => $origin, %differs }, 1 ], "$path of $origin";
}
is preflight('/public', $ORIGIN, 'PUT', $HEADERS => 'X-REQUEST-ID', $HEADERS => 'Content-Type')
    ->status, 204, 'header names on two lines';

my $EVIL = 'https://evil.example';
for my $case (
    [ 'another origin', '/public', $EVIL ], [ 'an empty origin', '/nothing', '' ],
    [ 'two origins', '/public', $ORIGIN, 'POST', Origin => $ORIGIN ],
    [ 'another origin and method', '/nothing', $EVIL, 'TRACE' ],
    [ 'an origin of the server, not of here', '/own', $ORIGIN ],
    [ 'where CORS is off', '/off', $ORIGIN ],
) {
    my ($name, @asked) = @$case;
    my $res = preflight(@asked);
    is_problem($res, 403, 'GATEWAY_ORIGIN_NOT_ALLOWED', $name);
    is_deeply [ $t->logged($res)->{reason}, grep {/^access-control-/i} map { $_->[0] }
        $res->headers ], ['origin_forbidden'], "$name: reason, and no CORS headers";
}

# The origin is allowed, but not what it asks for: it can read which.

for my $case (
    [ 'method PURGE', '/public', 'PURGE' ],
    [ 'method', '/public', "GET\"\xc3" ],
    [ 'method', '/public', 'POST', 'Access-Control-Request-Method' => 'POST' ],
    [ 'header X-Other', '/nothing', 'POST', $HEADERS => 'content-type', $HEADERS => 'X-Other' ],
    [ 'method BREW', '/branch', 'BREW', $HEADERS => 'x-other' ],
) {
    my ($name, $path, @asked) = @$case;
    my $res = preflight($path, $ORIGIN, @asked);
    is_problem($res, 403, 'GATEWAY_PREFLIGHT_NOT_ALLOWED', $name);
    is_deeply [ $res->json->{detail}, cors($res), $t->logged($res)->{reason} ],
        [ "the $name is not allowed for other origins", \%ANSWER,
        'preflight_' . $name =~ s/ .*//r . '_forbidden' ], "$name: says which";
}

for my $said ([ \%EXPOSED, headers => [ Origin => $ORIGIN ] ], [ \%REFUSED, version => '1.0' ]) {
    my ($want, @o) = @$said;
    my $res = http($port, 'OPTIONS', '/public', @o);
    is_deeply [ $res->status, cors($res) ], [ 204, $want ], 'OPTIONS that asks nothing, ' . $o[0];
}
is scalar(grep { $_->{method} eq 'OPTIONS' } $upstream->requests, $app->requests), 0,
    'no OPTIONS reached an upstream';

# Every other response to an allowed origin, errors included.

for my $case (
    [ 200, GET => '/public' ], [ 401, GET => '/branch' ],
    [ 403, GET => '/branch', token => jwt_token(account => $key) ],
    [ 404, GET => '/nothing' ], [ 405, DELETE => '/branch' ], [ 502, GET => '/down' ],
    [ 418, GET => '/public?status=418' ], [ 413, POST => '/public', body => 'x' x 1048577 ],
    [ 200, GET => '/limited' ], [ 429, GET => '/limited' ],
) {
    my ($status, @asked) = @$case;
    for my $said ([ $ORIGIN, \%EXPOSED ], $asked[1] eq '/limited' ? () : [ $EVIL, \%REFUSED ]) {
        my $res = http($port, @asked, headers => [ Origin => $said->[0] ]);
        is_deeply [ $res->status, cors($res) ], [ $status, $said->[1] ],
            "$status of $asked[1] for $said->[0]";
    }
}
is cors(http_get($port, '/more', headers => [ Origin => $ORIGIN ]))->{'expose-headers'},
    "$EXPOSED{'expose-headers'}, Mcp-Session-Id, grpc-status", 'the default list, and two more';
is_deeply cors(http_get($port, '/public', headers => [ map { (Origin => $ORIGIN) } 1, 2 ])),
    \%REFUSED, 'an allowed origin, sent twice';
my $bad = http_raw($port, "GET / HTTP/1.1\r\nHost: a\r\nOrigin: $ORIGIN\r\nHost: b\r\n\r\n");
like $bad, qr/^HTTP\/1\.1 400 .*^Access-Control-Allow-Origin: \Q$ORIGIN\E\r$/ms,
    'a bad request whose origin was read';

# platform_gateway_strict_origin: [name, path, origins, token, status].

my $token = jwt_token(branch => $key);
for my $case (
    [ 'a program', '/strict', [], $token, 200 ],
    [ 'a page that is listed', '/strict', [$ORIGIN], $token, 200 ],
    [ 'another', '/strict', [$EVIL], $token, 403 ],
    [ 'another, without a token', '/strict', [$EVIL], undef, 403 ],
    [ 'one that is listed, without a token', '/strict', [$ORIGIN], undef, 401 ],
    [ 'one whose name leads here', '/strict', ['http://evil.example'], $token, 403 ],
    [ 'one without an origin', '/strict', ['null'], $token, 403 ],
    [ 'an empty origin', '/strict', [''], $token, 403 ],
    [ 'two origins', '/strict', [ $ORIGIN, $ORIGIN ], $token, 403 ],
    [ 'where everybody may', '/strict/public', [$EVIL], undef, 403 ],
    [ 'where everybody may, a listed one', '/strict/public', [$ORIGIN], undef, 200 ],
    [ 'where none is listed', '/strict/none', [$ORIGIN], $token, 403 ],
    [ 'where none is listed, a program', '/strict/none', [], $token, 200 ],
    [ 'in shadow mode', '/strict/shadow', [$EVIL], $token, 200 ],
    [ 'where it is off', '/strict/off', [$EVIL], $token, 200 ],
    [ 'where it is not on', '/branch', [$EVIL], $token, 200 ],
    [ 'for auth_request', '/asks', [$EVIL], $token, 403 ],
    [ 'for auth_request, a listed one', '/asks', [$ORIGIN], $token, 200 ],
    [ 'judged', '/judge', [$EVIL], $token, 403 ],
    [ 'judged, a listed one', '/judge', [$ORIGIN], $token, 204 ],
) {
    my ($name, $path, $origins, $with, $status) = @$case;
    my $res = http_get($port, $path, token => $with, host => 'evil.example', headers => [ map({ (Origin => $_) } @$origins),
        $path eq '/judge' ? ('X-Forwarded-Method' => 'GET', 'X-Forwarded-Uri' => '/strict') : () ]);
    $status == 403 && $path ne '/asks' ? is_problem($res, 403, 'GATEWAY_ORIGIN_NOT_ALLOWED', "strict, $name")
        : is $res->status, $status, "strict, $name: $status";
    is_deeply [ @{ $t->logged($res) }{qw(decision reason)} ],
        [ $path =~ /shadow/ ? 'shadow' : 'deny', 'origin_forbidden' ], 'the log has the reason'
        if $status == 403 && $path ne '/asks' || $path =~ /shadow/;
}

# An upstream's own CORS headers are not heard; its Vary stays.

for my $case (
    [ '/app', $ORIGIN, %EXPOSED ], [ '/app', $EVIL, %REFUSED ], [ '/app', undef, %REFUSED ],
    [ '/exposes', $ORIGIN, %EXPOSED, 'expose-headers' => 'Mcp-Session-Id, X-Two' ],
    [ '/exposes', $EVIL, %REFUSED ],
    [ '/off', $ORIGIN, vary => [] ],
    [ '/app?vary=Accept;Cookie', $ORIGIN, %EXPOSED, vary => [qw(Accept Cookie Origin)] ],
    [ '/app?vary=origin', $ORIGIN, %EXPOSED, vary => [qw(origin Origin)] ],
) {
    my ($path, $origin, %want) = @$case;
    my $res = http_get($port, $path, headers => [ map { (Origin => $_) } $origin // () ]);
    is_deeply [ $res->body, cors($res) ], [ 'app', \%want ],
        "$path: an upstream with its own mind, " . ($origin // 'no origin');
}

$t->done;
