# Methods: a known path with a wrong one is 405 with Allow, before the guard
# looks at any token, before limits, and without a word to the upstream.

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

$t->write_file('file', 'a file');

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
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
location = /file/paged { platform_gateway_access public; error_page 405 /page; alias %%DIR%%/file; }
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
SERVER
limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;
limit_req_status 429;
HTTP
$t->start_nginx;
my $port = $t->port('gateway');
my $good = jwt_token(branch => $key, iss => 'http://issuer.test');
ok eventually(sub { http_get($port, '/any', token => $good)
    ->status == 200 }), 'control: keys are there';
$upstream->forget;

sub allows {
    my ($path, $allow, @methods) = @_;

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
    return;
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
        |^(?:GET|PUT) /post}x } $upstream->requests ], [],
    'no refused method reached the upstream';

# Before the guard, before limits.

my $res;
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

my $c = Platform::Test::Http->new(port => $port);
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
