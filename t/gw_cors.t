# CORS: preflights are answered by the gateway alone, every response to an
# allowed origin says so, and no other origin learns anything.  Which origins,
# methods and headers those are, check_cors.c shows.

use Platform::Test;

my $t = Platform::Test->new;
my $key = jwt_key('a');
$t->issuer(body => jwks($key));
my $upstream = $t->echo_upstream;

# What an upstream may say about CORS by itself.
my $app = $t->http_server('app', sub ($request, @) {
    my ($vary) = $request->{uri} =~ /[?&]vary=([^&]*)/;
    my @vary = map { (Vary => $_ =~ s/\+/ /gr) } split /;/, $vary // '';
    return [ 200, [ 'Access-Control-Allow-Origin' => '*',
        'access-control-expose-headers' => 'X-Secret',
        'ACCESS-CONTROL-ALLOW-METHODS' => 'BREW', @vary ], 'app' ];
});

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
platform_gateway_cors_origins https://app.example.com
    http://127.0.0.1:3000 HTTPS://Upper.Example.COM:443;
platform_gateway_cors_origins https://*.wild.example:8443
    http://[::1]:5000;
location / { platform_gateway_access public; platform_gateway_route_not_found; }
pass /public: platform_gateway_access public;
pass /branch: platform_gateway_access branch; platform_gateway_methods GET POST;
pass /app to app: platform_gateway_access public;
pass /down to nobody: platform_gateway_access public;
pass /limited: platform_gateway_access public; limit_req zone=one;
location /own {
    platform_gateway_access public;
    platform_gateway_cors_origins https://own.example.com;
    platform_gateway_cors_methods GET PURGE;
    platform_gateway_cors_headers X-One X-Two;
    platform_gateway_cors_max_age 1h;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /more {
    platform_gateway_access public;
    platform_gateway_cors_methods default PURGE;
    platform_gateway_cors_headers X-Api-Key default;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
pass /off to app: platform_gateway_access public; platform_gateway_cors_origins off;
SERVER
limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;
limit_req_status 429;
HTTP
my $port = $t->start_gateway;

my $ORIGIN = 'https://app.example.com';
my $VARY3 = 'Origin, Access-Control-Request-Method, ' . 'Access-Control-Request-Headers';

sub preflight ($path, $origin = undef, $method = undef, @more) {
    return http($port, 'OPTIONS', $path, headers => [
        (defined $origin ? (Origin => $origin) : ()),
        'Access-Control-Request-Method' => $method // 'GET', @more ]);
}

sub cors ($res) {
    return { map { lc($_->[0]) =~ s/^access-control-//r => $_->[1] }
        grep { $_->[0] =~ /^access-control-/i } $res->headers };
}

my %ANSWER = (
    'allow-origin'      => $ORIGIN,
    'allow-credentials' => 'true',
    'allow-methods'     => 'GET, HEAD, POST, PUT, PATCH, DELETE',
    'allow-headers'     => 'Authorization, Content-Type, X-Request-Id, '
        . 'X-Correlation-Id, traceparent, tracestate, Idempotency-Key, '
        . 'If-None-Match',
    'max-age'           => '600',
);
my %EXPOSED = (
    'allow-origin'      => $ORIGIN,
    'allow-credentials' => 'true',
    'expose-headers'    => 'X-Request-Id, X-Correlation-Id, Retry-After, '
        . 'WWW-Authenticate, ETag',
);

# Preflights that are allowed: known, guarded, unknown and limited paths.

my $HEADERS = 'Access-Control-Request-Headers';
for my $path ('/public', '/branch', '/nothing', '/limited', '/limited', '/') {
    my $res = preflight($path, $ORIGIN, 'POST', $HEADERS => 'authorization, content-type');
    is $res->status, 204, "preflight $path";
    is $res->body, '', "preflight $path: no body";
    is_deeply cors($res), \%ANSWER, "preflight $path: the whole answer";
    is_deeply [ $res->header_all('Vary') ], [$VARY3], "preflight $path: Vary of three parts";
    is scalar(my @id = $res->header_all('X-Request-Id')), 1, "preflight $path: an id";
}
is_deeply cors(preflight('/own', 'https://own.example.com', 'PURGE', $HEADERS => 'x-two')),
    { 'allow-origin' => 'https://own.example.com', 'allow-credentials' => 'true',
    'allow-methods' => 'GET, PURGE', 'allow-headers' => 'X-One, X-Two', 'max-age' => 3600 },
    'a location with rules of its own';
is_deeply cors(preflight('/more', $ORIGIN, 'PURGE', $HEADERS => 'x-api-key, if-none-match')),
    { %ANSWER, 'allow-methods' => "$ANSWER{'allow-methods'}, PURGE",
    'allow-headers' => "X-Api-Key, $ANSWER{'allow-headers'}" },
    'a location that adds to the defaults';
for my $origin (qw(http://127.0.0.1:3000 https://upper.example.com http://[::1]:5000
    https://a.wild.example:8443)) {
    is preflight('/public', $origin)->status, 204, "preflight of $origin";
    my $res = http_get($port, '/public', headers => [ Origin => $origin ]);
    is cors($res)->{'allow-origin'}, $origin, 'and it may read';
}
is preflight('/public', $ORIGIN, 'PUT', $HEADERS => 'X-REQUEST-ID', $HEADERS => 'Content-Type')
    ->status, 204, 'header names on two lines';

# Preflights that are not.

for my $case (
    [ 'another origin', '/public', 'https://evil.example' ],
    [ 'on an unknown path', '/nothing', 'https://evil.example' ],
    [ 'null', '/public', 'null' ], [ 'an empty origin', '/public', '' ],
    [ 'two origins', '/public', $ORIGIN, 'POST', Origin => $ORIGIN ],
    [ 'another origin and method', '/public', 'https://evil.example', 'TRACE' ],
    [ 'an origin of the server, not of here', '/own', $ORIGIN ],
    [ 'where CORS is off', '/off', $ORIGIN ],
) {
    my ($name, @asked) = @$case;
    my $res = preflight(@asked);
    is_problem($res, 403, 'GATEWAY_ORIGIN_NOT_ALLOWED', $name);
    is_deeply cors($res), {}, "$name: no CORS headers";
    is $t->logged($res)->{reason}, 'origin_forbidden', "$name: reason";
}

# The origin is allowed, but not what it asks for: it can read which.

for my $case (
    [ 'method PURGE', '/public', $ORIGIN, 'PURGE' ],
    [ 'method', '/public', $ORIGIN, "GET\"\xc3" ],
    [ 'method', '/public', $ORIGIN, 'POST', 'Access-Control-Request-Method' => 'POST' ],
    [ 'header x-account-id', '/public', $ORIGIN, 'POST', $HEADERS => 'x-account-id, x-other' ],
    [ 'header X-Other', '/nothing', $ORIGIN, 'POST', $HEADERS => 'content-type',
        $HEADERS => 'X-Other' ],
    [ 'method BREW', '/branch', $ORIGIN, 'BREW', $HEADERS => 'x-other' ],
) {
    my ($name, @asked) = @$case;
    my $res = preflight(@asked);
    is_problem($res, 403, 'GATEWAY_PREFLIGHT_NOT_ALLOWED', $name);
    is $res->json->{detail}, "the $name is not allowed for other origins", "$name: says which";
    is_deeply cors($res), \%ANSWER, "$name: CORS headers of the origin";
    is_deeply [ $res->header_all('Vary') ], [$VARY3], "$name: Vary";
    is $t->logged($res)->{reason}, 'preflight_' . $name =~ s/ .*//r . '_forbidden',
        "$name: reason";
}

# Plain OPTIONS (gw_options.t has more): [path, Allow].

for my $case ([ '/branch', 'GET, HEAD, POST, OPTIONS' ], [ '/nothing', 'OPTIONS' ],
    [ '/own', 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS' ]) {
    my $res = http($port, 'OPTIONS', $case->[0]);
    is $res->status, 204, "plain OPTIONS $case->[0]";
    is $res->header('Allow'), $case->[1], 'with what the location allows';
    is_deeply cors($res), {}, 'and no CORS headers';
}
my $plain = http($port, 'OPTIONS', '/public', headers => [ Origin => $ORIGIN ]);
is $plain->status, 204, 'OPTIONS with an origin and nothing asked';
is_deeply cors($plain), \%EXPOSED, 'is like any other request';
is http($port, 'OPTIONS', '/public', version => '1.0')->status, 204, 'OPTIONS by HTTP/1.0';
is scalar(grep { $_->{method} eq 'OPTIONS' } $upstream->requests, $app->requests), 0,
    'no OPTIONS reached an upstream';

# Every other response to an allowed origin, errors included.

my $expired = jwt_token(branch => $key, exp => time - 600, iat => time - 1200);
my %other = (
    200 => [ GET => '/public' ],
    401 => [ GET => '/branch' ],
    '401 expired' => [ GET => '/branch', token => $expired ],
    403 => [ GET => '/branch', token => jwt_token(account => $key) ],
    404 => [ GET => '/nothing' ],
    405 => [ DELETE => '/branch' ],
    502 => [ GET => '/down' ],
    418 => [ GET => '/public?status=418' ],
    413 => [ POST => '/public', body => 'x' x (1024 * 1024 + 1) ],
);
for my $name (sort keys %other) {
    my ($status) = $name =~ /^(\d+)/;
    my ($method, $path, %o) = @{ $other{$name} };
    my $res = http($port, $method, $path, %o, headers => [ Origin => $ORIGIN ]);
    is $res->status, $status, "with the origin: $name";
    is_deeply cors($res), \%EXPOSED, "$name: CORS headers";
    is_deeply [ $res->header_all('Vary') ], ['Origin'], "$name: Vary";
    $res = http($port, $method, $path, %o, headers => [ Origin => 'https://evil.example' ]);
    is $res->status, $status, "with another origin: $name";
    is_deeply cors($res), {}, "$name: no CORS headers";
    is $res->header('Vary'), 'Origin', "$name: Vary all the same";
}
my @limited = map { http_get($port, '/limited', headers => [ Origin => $ORIGIN ]) } 1 .. 2;
is $limited[1]->status, 429, 'with the origin: 429';
is_deeply cors($limited[1]), \%EXPOSED, '429: CORS headers';
my $bad = http_raw($port, "GET / HTTP/1.1\r\nHost: a\r\nOrigin: $ORIGIN\r\nHost: b\r\n\r\n");
like $bad, qr/^HTTP\/1\.1 400 .*^Access-Control-Allow-Origin: \Q$ORIGIN\E\r$/ms,
    'a bad request whose origin was read';

# An upstream's own CORS headers, and its Vary.

for my $origin ($ORIGIN, 'https://evil.example', undef) {
    my $name = $origin // 'no origin';
    my $res = http_get($port, '/app', headers => [ $origin ? (Origin => $origin) : () ]);
    is $res->body, 'app', "$name: an upstream with its own mind";
    is_deeply cors($res), ($origin // '') eq $ORIGIN ? \%EXPOSED : {}, "$name: is not heard";
}
is_deeply cors(http_get($port, '/off', headers => [ Origin => $ORIGIN ])), {},
    'nor where CORS is off';
is http_get($port, '/off')->header('Vary'), undef, 'no Vary where it is off';

my %vary = (
    'Accept,+Cookie' => ['Accept, Cookie, Origin'],
    'origin'         => ['origin'],
    'Accept;Cookie'  => [ 'Accept', 'Cookie, Origin' ],
);
for my $given (sort keys %vary) {
    my $res = http_get($port, "/app?vary=$given", headers => [ Origin => $ORIGIN ]);
    is_deeply [ $res->header_all('Vary') ], $vary{$given}, "Vary: $given";
}

$t->done;
