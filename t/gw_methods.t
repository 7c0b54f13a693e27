# Methods: a known path with a wrong one is 405 with Allow, before the guard
# looks at any token, before limits, and without a word to the upstream.  And
# OPTIONS is answered by the gateway whatever nginx itself would say to the
# path: a body too large, a missing slash, an internal location, a "return" of
# the server; with the CORS rules of the location that would have served it.

use Platform::Test;

my $t = Platform::Test->new;
my $key = jwt_key('a');
$t->issuer(body => jwks($key));
my $upstream = $t->echo_upstream;
$t->write_file('file', 'a file');

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
listen 127.0.0.1:%%PORT_h2%% http2;
platform_gateway_access branch;
platform_gateway_cors_origins https://server.test;
client_max_body_size 10;
rewrite ^/rewritten/(.*) /$1;
location /slash/ {
    platform_gateway_cors_origins https://slash.test;
    platform_gateway_route slash;
    %%TO_upstream%%
}
location = /exact {
    platform_gateway_cors_origins https://exact.test;
    platform_gateway_methods POST;
    %%TO_upstream%%
}
location /exact/ { platform_gateway_cors_origins https://below.test; %%TO_upstream%% }
location /prefix {
    platform_gateway_cors_origins https://prefix.test;
    %%TO_upstream%%
    location /prefix/nested {
        platform_gateway_cors_origins https://nested.test;
        %%TO_upstream%%
        location ~ \.deep$ { platform_gateway_cors_origins https://deep.test; %%TO_upstream%% }
    }
}
location ^~ /prefix/noregex/ { platform_gateway_cors_origins https://noregex.test; %%TO_upstream%% }
location ~ ^/regex/(?<name>[a-z]+)\.x$ {
    platform_gateway_cors_origins https://regex.test;
    %%TO_upstream%%
}
location ~ \.x$ { platform_gateway_cors_origins https://other-regex.test; %%TO_upstream%% }
location /internal {
    internal;
    platform_gateway_cors_origins https://internal.test;
    %%TO_upstream%%
}
location /limited { limit_req zone=name; %%TO_upstream%% }
location /denied { deny all; %%TO_upstream%% }
location /except {
    limit_except GET { deny all; }
    %%TO_upstream%%
}
location /returns { platform_gateway_allow_return on; return 204; }
location /off/ { platform_gateway off; client_max_body_size 0; %%TO_upstream%% }
SERVER
limit_req_zone $server_name zone=name:1m rate=1r/m;
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
    location / { client_max_body_size 0; %%TO_upstream%% }
    location /on/ {
        platform_gateway on;
        platform_gateway_access public;
        platform_gateway_cors_origins https://on.test;
        %%TO_upstream%%
    }
}
limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;

server {
    listen 127.0.0.1:%%PORT_methods%%;
    platform_gateway on;
    location /get { platform_gateway_access public; platform_gateway_methods GET; %%TO_upstream%% }
    location /post {
        platform_gateway_access branch;
        platform_gateway_methods POST;
        limit_req zone=one burst=100 nodelay;
        %%TO_upstream%%
    }
    location /limited {
        platform_gateway_access branch;
        platform_gateway_methods POST;
        limit_req zone=one;
        %%TO_upstream%%
    }
    location /many {
        platform_gateway_access branch;
        platform_gateway_methods PUT PATCH DELETE GET;
        %%TO_upstream%%
        location /many/inner { %%TO_upstream%% }
    }
    location /any { platform_gateway_access branch; %%TO_upstream%% }
    location /small {
        platform_gateway_access public;
        platform_gateway_methods GET;
        client_max_body_size 10;
        %%TO_upstream%%
    }
    location = /health {
        platform_gateway_access public;
        platform_gateway_methods GET HEAD;
        platform_gateway_health;
    }
    location = /health/plain { platform_gateway_access public; platform_gateway_health; }
    location = /ready/plain { platform_gateway_access public; platform_gateway_ready; }
    location = /ready/shadow {
        platform_gateway_access public;
        platform_gateway_shadow on;
        platform_gateway_ready;
    }
    location = /metrics { platform_gateway_access public; platform_gateway_metrics; }
    location = /file { platform_gateway_access public; alias %%DIR%%/file; }
    location = /file/paged {
        platform_gateway_access public;
        error_page 405 /page;
        alias %%DIR%%/file;
    }
    location = /gif { platform_gateway_access public; empty_gif; }
    location = /intercepted {
        platform_gateway_access public;
        proxy_intercept_errors on;
        error_page 405 /page;
        proxy_pass http://127.0.0.1:%%PORT_upstream%%/?status=405;
    }
    location = /paged {
        platform_gateway_access public;
        platform_gateway_methods POST;
        error_page 405 /page;
        %%TO_upstream%%
    }
    location = /page {
        platform_gateway_access public;
        platform_gateway_methods GET PUT;
        alias %%DIR%%/file;
    }
    location /nowhere { platform_gateway_access public; platform_gateway_route_not_found; }
}
HTTP
my $port = $t->start_gateway;

sub preflight ($at, $path, $origin, @o) {
    return http($at, OPTIONS => $path, @o, headers => [ Origin => $origin,
        'Access-Control-Request-Method' => 'POST' ]);
}

# An allowed preflight is 204, for that origin; the server's own is not allowed
# where a location has its own list, so the location was found.
sub answered ($name, $at, $path, $origin, @o) {
    my $res = preflight($at, $path, $origin, @o);
    is $res->status, 204, "$name: preflight";
    is $res->header('Access-Control-Allow-Origin'), $origin, "$name: allowed";
    is $res->header('Location'), undef, "$name: goes nowhere else";
    is $res->body, '', "$name: no body";
    is_problem(preflight($at, $path, 'https://other.test', @o), 403,
        'GATEWAY_ORIGIN_NOT_ALLOWED', "$name, another origin");
    my $plain = http($at, OPTIONS => $path, @o);
    is $plain->status, 204, "$name: plain OPTIONS";
    like $plain->header('Allow'), qr/\bOPTIONS$/, "$name: Allow";
}

my @large = (body => 'x' x 11);

my ($SERVER, $SLASH) = map {"https://$_.test"} qw(server slash);
answered(@$_) for [ 'a body too large', $port, '/slash/a', $SLASH, @large ],
    [ 'no slash', $port, '/slash', $SLASH ], [ 'arguments', $port, '/slash?a=1', $SLASH ],
    [ 'no slash, a body too large', $port, '/slash', $SLASH, @large ],
    [ 'internal', $port, '/internal', $SERVER ], [ 'no such path', $port, '/none', $SERVER ],
    [ 'no such path, a body too large', $port, '/none', $SERVER, @large ],
    [ 'a limit', $port, '/limited', $SERVER ], [ 'again', $port, '/limited', $SERVER ],
    [ 'deny all', $port, '/denied', $SERVER ], [ 'limit_except', $port, '/except', $SERVER ],
    [ 'return', $port, '/returns', $SERVER ],
    [ 'return of the server', $t->port('return'), '/a', $SERVER ],
    [ 'on in one location', $t->port('mixed'), '/on/a', 'https://on.test', @large ],
    [ 'on in one location, no slash', $t->port('mixed'), '/on', 'https://on.test' ];

# The location is the one that nginx would choose.

my %location = qw(
    /exact exact                /exact/ below           /exactly server
    /prefix prefix              /prefixed prefix        /prefix/a prefix
    /prefix/nested nested       /prefix/nested/a nested /prefix/nested/a.deep deep
    /prefix/a.x other-regex     /prefix/noregex/a.x noregex
    /regex/abc.x regex          /regex/ABC.x other-regex
    /rewritten/exact exact      /rewritten/slash slash
    //prefix/../exact exact     /%65xact exact
);
for my $path (sort keys %location) {
    my $res = preflight($port, $path, "https://$location{$path}.test");
    is $res->status, 204, "$path: $location{$path}";
}
my $res = http($port, OPTIONS => '/exact', @large);
is $res->header('Allow'), 'POST, OPTIONS', 'Allow is the location\'s';

# Where the gateway is off, OPTIONS is nobody's business.

$upstream->forget;
for my $case ([ $port, '/off/' ], [ $t->port('mixed'), '/x' ]) {
    $res = preflight(@$case, 'https://server.test', @large);
    is $res->status, 200, "off: $case->[1]";
    is $res->json->{method}, 'OPTIONS', 'and is passed on';
    is $res->json->{body}, $large[1], 'with its body';
}
is http($port, OPTIONS => '/off')->status, 301, 'off: no slash (control)';
is $upstream->count, 2, 'nothing else reached an upstream';

# What nginx says to other methods stays.

is http_get($port, '/slash')->status, 301, 'control: no slash';
is_problem(http_post($port, '/slash/', @large), 413,
    'GATEWAY_REQUEST_TOO_LARGE', 'control: a body too large');
is_problem(http_get($port, '/internal'), 404, 'GATEWAY_ROUTE_NOT_FOUND', 'control: internal');
is http_get($t->port('return'), '/a')->status, 301, 'control: return of the server';

# The body is thrown away, and the connection goes on.

my $c = Platform::Test::Http->new(port => $port);
for my $body ('x' x 11, 'x' x 300_000) {
    $res = $c->request(OPTIONS => '/slash', body => $body);
    is $res->status, 204, 'a body of ' . length $body;
    is $c->request(OPTIONS => '/none')->status, 204, 'next on the connection';
}
$res = $c->request(OPTIONS => '/slash/',
    headers => [ Expect => '100-continue', 'Content-Length' => 5 ]);
is $res->status, 204, 'Expect: 100-continue';
is scalar(@{ $res->{interim} }), 0, 'is not continued';
$c->close;

# HTTP/2.

for my $path ('/slash', '/slash/', '/none', '/internal') {
    my $url = 'http://127.0.0.1:' . $t->port('h2') . $path;
    my $raw = `curl -s -i -m 10 --http2-prior-knowledge -X OPTIONS $url`;
    like $raw, qr{\AHTTP/2 204 .*^allow: }ims, "HTTP/2: $path";
}

# The log knows the location, and why.

my ($line) = grep { $_->{path} eq '/slash' && $_->{status} == 204 }
    $t->nginx->access_lines;
is $line->{routeId}, 'slash', 'log: route';
is $line->{access}, 'branch', 'log: access';
is $line->{decision}, 'allow', 'log: decision';
is $line->{reason}, 'preflight', 'log: reason';

# Methods, of another server.

$port = $t->port('methods');
my $good = jwt_token(branch => $key);
$upstream->forget;

sub allows ($path, $allow, @methods) {
    my %ok = map { $_ => 1 } @methods;
    for my $method (qw(GET HEAD POST PUT PATCH DELETE PROPFIND BREW)) {
        my $res = http($port, $method, $path, token => $good, body => '');
        if ($ok{$method}) {
            is $res->status, 200, "$method $path";
            next;
        }
        is $res->status, 405, "$method $path: 405";
        is_deeply [ $res->header_all('Allow') ], [$allow], "$method $path: Allow";
        is $res->code, $method eq 'HEAD' ? '' : 'METHOD_NOT_ALLOWED', "$method $path: code";
    }
    my $options = http($port, 'OPTIONS', $path);
    is $options->status, 204, "OPTIONS $path";
    is $options->header('Allow'), $allow, "OPTIONS $path: Allow";
}

allows('/get', 'GET, HEAD, OPTIONS', qw(GET HEAD));
allows('/post', 'POST, OPTIONS', qw(POST));
allows('/many', 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS', qw(GET HEAD PUT PATCH DELETE));
allows('/many/inner', 'GET, HEAD, PUT, PATCH, DELETE, OPTIONS', qw(GET HEAD PUT PATCH DELETE));
allows('/health', 'GET, HEAD, OPTIONS', qw(GET HEAD));
is http($port, $_, '/any', token => $good, body => '')->status, 200,
    "$_ where nothing is said" for qw(GET HEAD POST DELETE BREW);

# Where no methods are listed, Allow is what the location does all the same.

allows($_, 'GET, HEAD, OPTIONS', qw(GET HEAD))
    for qw(/health/plain /ready/plain /ready/shadow /metrics /file);
is http($port, 'OPTIONS', '/any')->header('Allow'),
    'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS', 'what is passed on';
is http($port, 'OPTIONS', '/nowhere')->header('Allow'), 'OPTIONS', 'a path that is not there';
is http($port, 'OPTIONS', '/unmatched')->header('Allow'), 'OPTIONS',
    'nor one that no location matches';
is http_post($port, '/gif')->header('Allow'), 'GET, HEAD, OPTIONS', "another module's 405";

# An operator's page does not speak of its own location.

my %paged = ('GET /paged' => 'POST, OPTIONS', 'PUT /paged' => 'POST, OPTIONS',
    'POST /file/paged' => 'GET, HEAD, OPTIONS', 'GET /intercepted' => 'OPTIONS');
for my $ask (sort keys %paged) {
    my $page = http($port, (split / /, $ask), body => '');
    is $page->status, 405, "$ask: a page of the operator";
    is_deeply [ $page->header_all('Allow') ], [ $paged{$ask} ], "$ask: Allow";
}

# Only what is allowed arrived.

is_deeply [ grep { "$_->{method} $_->{uri}" =~ m{^(?:POST|BREW) /(?:get|many)
    |^(?:GET|PUT) /post}x } $upstream->requests ], [], 'no refused method reached the upstream';

# Before the guard, before limits.

for my $token (undef, 'abc', jwt_tamper($good, 2, 9)) {
    my $name = defined $token ? length $token : 'no';
    is_problem(http_get($port, '/post', token => $token), 405,
        'METHOD_NOT_ALLOWED', "before the token ($name)");
}
is http_post($port, '/post', body => '')->status, 401,
    'control: the guard answers the right method';
is http_get($port, '/limited')->status, 405, 'before the limit' for 1 .. 5;
my @status = map { http_post($port, '/limited', body => '')->status } 1 .. 2;
is $status[-1], 429, "control: the limit counts the right method (@status)";
$res = http_post($port, '/small', body => 'x' x 11);
is_problem($res, 405, 'METHOD_NOT_ALLOWED', 'before the size of the body');
is_deeply [ $res->header_all('Allow') ], ['GET, HEAD, OPTIONS'], 'with Allow';
is_problem(http_get($port, '/small', body => 'x' x 11), 413,
    'GATEWAY_REQUEST_TOO_LARGE', 'control: with the right method');

# The connection lives on, and the body with it.

$c = Platform::Test::Http->new(port => $port);
is $c->request(PUT => '/post', body => 'x' x 100_000)->status, 405, 'a body that nobody reads';
is $c->request(GET => '/get')->status, 200, 'the connection is still good';
$res = $c->request(PUT => '/post', headers => [ Expect => '100-continue', 'Content-Length' => 5 ]);
is $res->status, 405, 'Expect: 100-continue';
is scalar($res->interim), 0, 'is not continued';

# TRACE and CONNECT are nginx's to refuse, before it knows the location.

for my $method (qw(TRACE CONNECT)) {
    my $raw = http_raw($port, "$method /get HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n");
    like $raw, qr{\AHTTP/1\.1 40[05] .*application/problem\+json}s, "$method is refused";
    like $raw, qr{^Allow: GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS\r$}m,
        "$method: Allow" if $raw =~ /^HTTP\S+ 405/;
}

$t->done;
