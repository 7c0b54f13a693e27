# Methods: a known path with a wrong one is 405 with Allow, before the guard
# looks at any token, before limits, and without a word to the upstream.  And
# OPTIONS is answered by the gateway, with the CORS rules of the location, unless
# nginx itself answers before: a body too large, a missing slash, an internal
# location, a "return" of the server.

use Platform::Test;

my ($t, $key, undef, $upstream) = Platform::Test->gateway;
$t->write_file('file', 'a file');

# A location is known by an origin of its own: <name>.
my $OWN = <<'SERVER' =~ s{<([a-z-]+)>}{platform_gateway_cors_origins https://$1.test;}gr;
pass /slash/: <slash> platform_gateway_route slash;
pass = /exact: <exact> platform_gateway_methods POST;
pass /internal: <internal> internal;
SERVER

$t->gateway_conf($OWN . <<'SERVER', http => <<'HTTP');
listen 127.0.0.1:%%PORT_h2%% http2;
platform_gateway_access branch;
platform_gateway_cors_origins https://server.test;
client_max_body_size 10;
rewrite ^/rewritten/(.*) /$1;
pass /limited: limit_req zone=name;
pass /denied: deny all;
pass /except: limit_except GET { deny all; }
location /returns { platform_gateway_allow_return on; return 204; }
pass /off/: platform_gateway off; client_max_body_size 0;
SERVER
limit_req_zone $server_name zone=name:1m rate=1r/m;
limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;
limit_req_status 429;

# A server that sends everybody elsewhere.
server {
    listen 127.0.0.1:%%PORT_return%%;
    platform_gateway on;
    platform_gateway_access public;
    platform_gateway_cors_origins https://server.test;
    return 301 https://elsewhere.test$request_uri;
}

# Switched on in one location alone.
server {
    listen 127.0.0.1:%%PORT_mixed%%;
    client_max_body_size 10;
    pass /: client_max_body_size 0;
    pass /on/: platform_gateway on; platform_gateway_access public;
        platform_gateway_cors_origins https://on.test;
}
server { listen 127.0.0.1:%%PORT_bare%%; platform_gateway on; }
server {
    listen 127.0.0.1:%%PORT_methods%%;
    platform_gateway on;
    platform_gateway_access public;
    pass /get: platform_gateway_methods GET;
    pass /small: platform_gateway_methods GET; client_max_body_size 10;
    pass /limit: platform_gateway_access branch; platform_gateway_methods POST; limit_req zone=one;
    pass /many: platform_gateway_methods PUT PATCH DELETE GET;
        location /many/inner { %%TO_upstream%% }
    location /any { %%TO_upstream%% }
    location = /health { platform_gateway_methods GET HEAD; platform_gateway_health; }
    location = /ready/plain { platform_gateway_ready; }
    location = /ready/shadow { platform_gateway_shadow on; platform_gateway_ready; }
    location = /metrics { platform_gateway_metrics; }
    location = /file { alias %%DIR%%/file; }
    location = /file/paged { error_page 405 /page; alias %%DIR%%/file; }
    location = /gif { empty_gif; }
    pass = /intercepted: proxy_intercept_errors on; error_page 405 /page;
    pass = /paged: platform_gateway_methods POST; error_page 405 /page;
    location = /page { platform_gateway_methods GET PUT; alias %%DIR%%/file; }
    location /nowhere { platform_gateway_route_not_found; }
}
HTTP
my $port = $t->start_gateway;

sub preflight ($at, $path, $origin, @o) {
    return http($at, OPTIONS => $path, @o, headers => [ Origin => $origin,
        'Access-Control-Request-Method' => 'POST' ]);
}

# An allowed preflight is 204, for that origin; the server's own is not allowed
# where a location has its own list, so the location was found.
my @large = (body => 'x' x 11);
my ($SERVER, $SLASH) = map {"https://$_.test"} qw(server slash);
for my $case ([ 'a prefix', $port, '/slash/a', $SLASH, body => 'x' ],
    [ 'arguments', $port, '/slash/?a=1', $SLASH ], [ 'no such path', $port, '/none', $SERVER ],
    [ 'a limit', $port, '/limited', $SERVER ], [ 'again', $port, '/limited', $SERVER ],
    [ 'deny all', $port, '/denied', $SERVER ], [ 'limit_except', $port, '/except', $SERVER ],
    [ 'return', $port, '/returns', $SERVER ],
    [ 'on in one location', $t->port('mixed'), '/on/a', 'https://on.test' ])
{
    my ($name, $at, $path, $origin, @o) = @$case;
    my $res = preflight($at, $path, $origin, @o);
    is_deeply [ $res->status, $res->body, map { $res->header($_) }
        'Access-Control-Allow-Origin', 'Location' ], [ 204, '', $origin, undef ],
        "$name: preflight is allowed, and goes nowhere else";
    is_problem(preflight($at, $path, 'https://other.test', @o), 403,
        'GATEWAY_ORIGIN_NOT_ALLOWED', "$name, another origin");
    my $plain = http($at, OPTIONS => $path, @o);
    like $plain->status . $plain->header('Allow'), qr/^204.*\bOPTIONS$/, "$name: plain OPTIONS";
}

# What nginx itself answers is the same for OPTIONS as for other methods.

for my $case ([ 'a body too large', 413, $port, '/slash/a', @large ],
    [ 'no such path, a body too large', 413, $port, '/none', @large ],
    [ 'no slash', 301, $port, '/slash' ], [ 'internal', 404, $port, '/internal' ],
    [ 'return of the server', 301, $t->port('return'), '/a' ])
{
    my ($name, $status, $at, $path, @o) = @$case;
    is_deeply [ map { $_->status } preflight($at, $path, $SERVER, @o),
        http($at, OPTIONS => $path, @o), http_post($at, $path, @o) ], [ ($status) x 3 ],
        "$name: $status, for OPTIONS and for others";
}

is preflight($port, $_, 'https://exact.test')->status, 204, "$_: the location's own origins"
    for '/exact', '/rewritten/exact', '//slash/../%65xact';
is http($port, OPTIONS => '/exact')->header('Allow'), 'POST, OPTIONS', q(Allow is the location's);

# Where the gateway is off, OPTIONS is nobody's business; and what nginx says to
# other methods stays.

$upstream->forget;
for my $case ([ $port, '/off/' ], [ $t->port('mixed'), '/x' ]) {
    my $res = preflight(@$case, $SERVER, @large);
    is_deeply [ $res->status, @{ $res->json }{qw(method body)} ], [ 200, 'OPTIONS', $large[1] ],
        "off: $case->[1] is passed on";
}
is http($port, OPTIONS => '/off')->status, 301, 'off: no slash (control)';
is $upstream->count, 2, 'nothing else reached an upstream';
is_problem(http($port, OPTIONS => '/slash/', @large), 413, 'GATEWAY_REQUEST_TOO_LARGE',
    'a body too large');
is_problem(http($port, OPTIONS => '/internal'), 404, 'GATEWAY_ROUTE_NOT_FOUND', 'internal');

# The body is thrown away, and the connection goes on; as after a 405.

sub goes_on ($at, $method, $path, $status, $next, @bodies) {
    my $c = Platform::Test::Http->new(port => $at);
    for my $body (@bodies) {
        is $c->request($method => $path, body => $body)->status, $status,
            "$method, a body of " . length $body;
        is $c->request(@$next)->status, $method eq 'PUT' ? 200 : 204, 'next on the connection';
    }
    my $res = $c->request($method => $path,
        headers => [ Expect => '100-continue', 'Content-Length' => 5 ]);
    is_deeply [ $res->status, $res->interim ], [$status], 'Expect: 100-continue is not continued';
}
goes_on($port, OPTIONS => '/slash/', 204, [ OPTIONS => '/none' ], 'x' x 9);
goes_on($t->port('methods'), OPTIONS => '/get', 204, [ OPTIONS => '/get' ], 'x' x 300_000);
goes_on($t->port('methods'), PUT => '/get', 405, [ GET => '/get' ], 'x' x 11, 'x' x 300_000);

for my $path ('/slash/', '/none') {
    my $url = 'http://127.0.0.1:' . $t->port('h2') . $path;
    like `curl -s -i -m 10 --http2-prior-knowledge -X OPTIONS $url`,
        qr{\AHTTP/2 204 .*^allow: }ims, "HTTP/2: $path";
}

my ($line) = grep { $_->{path} eq '/slash/a' && $_->{status} == 204 } $t->nginx->access_lines;
is_deeply [ @$line{qw(routeId access decision reason)} ], [qw(slash branch allow preflight)],
    'the log knows the location, and why';

# Methods, of another server: [path, Allow], of which others are refused.  Where
# none are listed, Allow is what the location does all the same.

$port = $t->port('methods');
my $good = jwt_token(branch => $key);
my ($READ, $ALL) = ('GET, HEAD, OPTIONS', 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS');
for my $case ([ '/get', $READ ], (map { [ $_, 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS' ] }
    '/many', '/many/inner'), map { [ $_, $READ ] } qw(/health /ready/plain /ready/shadow
    /metrics /file))
{
    my ($path, $allow) = @$case;
    for my $method (qw(GET HEAD POST PUT DELETE BREW)) {
        my $res = http($port, $method, $path, body => '');
        my @want = $allow =~ /\b$method\b/ ? (200)
            : (405, $allow, $method eq 'HEAD' ? '' : 'METHOD_NOT_ALLOWED');
        is_deeply [ $res->status, @want == 1 ? () : ($res->header_all('Allow'), $res->code) ],
            \@want, "$method $path: @want";
    }
    my $options = http($port, OPTIONS => $path);
    is_deeply [ $options->status, $options->header_all('Allow') ], [ 204, $allow ],
        "OPTIONS $path";
}
is_deeply [ map { "$_->{method} $_->{uri}" } grep { $_->{method} =~ /BREW|POST/
    || $_->{uri} eq '/get' && $_->{method} !~ /GET|HEAD/ } $upstream->requests ], [],
    'no refused method reached the upstream';
is http($port, $_, '/any', body => '')->status, 200, "$_ where nothing is said"
    for qw(GET HEAD POST DELETE BREW);
is http($_->[0], OPTIONS => $_->[1])->header('Allow'), $_->[2], "Allow of $_->[1]"
    for [ $port, '/any', $ALL ], [ $port, '/nowhere', 'OPTIONS' ],
    [ $t->port('bare'), '/unmatched', 'OPTIONS' ];
is http_post($port, '/gif')->header('Allow'), $READ, "another module's 405";

# An operator's page does not speak of its own location.

my %paged = ('GET /paged' => 'POST, OPTIONS', 'PUT /paged' => 'POST, OPTIONS',
    'POST /file/paged' => $READ, 'GET /intercepted?status=405' => 'OPTIONS');
for my $ask (sort keys %paged) {
    my $page = http($port, (split / /, $ask), body => '');
    is_deeply [ $page->status, $page->header_all('Allow') ], [ 405, $paged{$ask} ],
        "$ask: a page of the operator";
}

# Before the guard, before limits and before the size of a body.

is_problem(http_get($port, '/limit', token => $_), 405, 'METHOD_NOT_ALLOWED',
    'before the token, and the limit') for undef, 'abc', jwt_tamper($good, 2, 9);
is_deeply [ map { http_post($port, '/limit', body => '', token => $_)->status } undef, $good ],
    [ 401, 429 ], 'control: guard and limit answer the right method';
is_problem(http_post($port, '/small', @large), 405, 'METHOD_NOT_ALLOWED', 'before the size');
is_problem(http_get($port, '/small', @large), 413, 'GATEWAY_REQUEST_TOO_LARGE',
    'control: with the right method');

$t->done;
