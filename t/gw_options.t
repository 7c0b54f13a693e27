# OPTIONS is answered by the gateway whatever nginx itself would say to the
# path: a body too large, a missing slash, an internal location, a "return" of
# the server; with the CORS rules of the location that would have served it.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $key = jwt_key('a');
$t->issuer(body => jwks($key));
my $upstream = $t->echo_upstream;

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
location /limited { limit_req zone=one; %%TO_upstream%% }
location /denied { deny all; %%TO_upstream%% }
location /except {
    limit_except GET { deny all; }
    %%TO_upstream%%
}
location /returns { platform_gateway_allow_return on; return 204; }
location /off/ { platform_gateway off; client_max_body_size 0; %%TO_upstream%% }
SERVER
limit_req_zone $server_name zone=one:1m rate=1r/m;
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
HTTP
$t->start_nginx;
my $port = $t->port('gateway');

sub preflight {
    my ($at, $path, $origin, @o) = @_;

    return http($at, OPTIONS => $path, @o, headers => [ Origin => $origin,
        'Access-Control-Request-Method' => 'POST' ]);
}

# An allowed preflight is 204, for that origin; the server's own is not allowed
# where a location has its own list, so the location was found.
sub answered {
    my ($name, $at, $path, $origin, @o) = @_;

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
    return;
}

my @large = (body => 'x' x 11);

answered('a body too large', $port, '/slash/a', 'https://slash.test', @large);
answered('no slash', $port, '/slash', 'https://slash.test');
answered('no slash, arguments', $port, '/slash?a=1', 'https://slash.test');
answered('no slash, a body too large', $port, '/slash', 'https://slash.test', @large);
answered('internal', $port, '/internal', 'https://server.test');
answered('no such path', $port, '/none', 'https://server.test');
answered('no such path, a body too large', $port, '/none', 'https://server.test', @large);
answered('a limit', $port, '/limited', 'https://server.test') for 1 .. 2;
answered('deny all', $port, '/denied', 'https://server.test');
answered('limit_except', $port, '/except', 'https://server.test');
answered('return', $port, '/returns', 'https://server.test');
answered('return of the server', $t->port('return'), '/a', 'https://server.test');
answered('on in one location', $t->port('mixed'), '/on/a', 'https://on.test', @large);
answered('on in one location, no slash', $t->port('mixed'), '/on', 'https://on.test');

# The location is the one that nginx would choose.

my %location = (
    '/exact'              => 'exact',
    '/exact/'             => 'below',
    '/exactly'            => 'server',
    '/prefix'             => 'prefix',
    '/prefixed'           => 'prefix',
    '/prefix/a'           => 'prefix',
    '/prefix/nested'      => 'nested',
    '/prefix/nested/a'    => 'nested',
    '/prefix/nested/a.deep' => 'deep',
    '/prefix/a.x'         => 'other-regex',
    '/prefix/noregex/a.x' => 'noregex',
    '/regex/abc.x'        => 'regex',
    '/regex/ABC.x'        => 'other-regex',
    '/rewritten/exact'    => 'exact',
    '/rewritten/slash'    => 'slash',
    '//prefix/../exact'   => 'exact',
    '/%65xact'            => 'exact',
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

$t->done;
