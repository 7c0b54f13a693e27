# CORS: preflights are answered by the gateway alone, every response to an
# allowed origin says so, and no other origin learns anything.  Which origins,
# methods and headers those are, check_cors.c shows.

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

# What an upstream may say about CORS by itself.
my $app = $t->http_server('app', sub {
    my ($request) = @_;
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
location / {
    platform_gateway_access public;
    platform_gateway_route_not_found;
}
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

sub preflight {
    my ($path, $origin, $method, @more) = @_;

    return http($port, 'OPTIONS', $path, headers => [
        (defined $origin ? (Origin => $origin) : ()),
        'Access-Control-Request-Method' => $method // 'GET', @more ]);
}

sub cors {
    my ($res) = @_;

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

for my $path ('/public', '/branch', '/nothing', '/limited', '/limited', '/') {
    my $res = preflight($path, $ORIGIN, 'POST',
        'Access-Control-Request-Headers' => 'authorization, content-type');
    is $res->status, 204, "preflight $path";
    is $res->body, '', "preflight $path: no body";
    is_deeply cors($res), \%ANSWER, "preflight $path: the whole answer";
    is_deeply [ $res->header_all('Vary') ], [$VARY3], "preflight $path: Vary of three parts";
    is scalar(my @id = $res->header_all('X-Request-Id')), 1, "preflight $path: an id";
}
is preflight('/public', $ORIGIN, 'DELETE')->status, 204, 'no header asked';
is preflight('/public', $ORIGIN, 'PUT',
    'Access-Control-Request-Headers' => " X-REQUEST-ID ,\t,x-correlation-id,",
    'Access-Control-Request-Headers' => 'Content-Type')->status, 204,
    'header names in any case, on two lines';
my $own = preflight('/own', 'https://own.example.com', 'PURGE',
    'Access-Control-Request-Headers' => 'x-two');
is_deeply cors($own), { 'allow-origin' => 'https://own.example.com',
    'allow-credentials' => 'true', 'allow-methods' => 'GET, PURGE',
    'allow-headers' => 'X-One, X-Two', 'max-age' => 3600 },
    'a location with rules of its own';
my $more = preflight('/more', $ORIGIN, 'PURGE',
    'Access-Control-Request-Headers' => 'x-api-key, traceparent, if-none-match');
is_deeply cors($more), { %ANSWER,
    'allow-methods' => "$ANSWER{'allow-methods'}, PURGE",
    'allow-headers' => "X-Api-Key, $ANSWER{'allow-headers'}" },
    'a location that adds to the defaults';

# Preflights that are not.

sub refused {
    my ($res, $name) = @_;

    is_problem($res, 403, 'GATEWAY_ORIGIN_NOT_ALLOWED', $name);
    is_deeply cors($res), {}, "$name: no CORS headers";
    is $t->logged($res)->{reason}, 'origin_forbidden', "$name: reason";
    return;
}

refused(preflight('/public', 'https://evil.example'), 'another origin');
refused(preflight('/nothing', 'https://evil.example'), 'on an unknown path');
refused(preflight('/public', 'null'), 'null');
refused(preflight('/public', ''), 'an empty origin');
refused(preflight('/public', $ORIGIN, 'POST', Origin => $ORIGIN), 'two origins');
refused(preflight('/public', 'https://evil.example', 'TRACE',
    'Access-Control-Request-Headers' => 'x-other'),
    'another origin, method and header');
refused(preflight('/own', $ORIGIN), 'an origin of the server, not of here');
refused(preflight('/off', $ORIGIN), 'where CORS is off');

# The origin is allowed, but not what it asks for: it can read which.

sub unlisted {
    my ($res, $detail, $name) = @_;

    my ($what) = $detail =~ /^the (method|header)/;
    is_problem($res, 403, 'GATEWAY_PREFLIGHT_NOT_ALLOWED', $name);
    is $res->json->{detail}, $detail, "$name: says which";
    is_deeply cors($res), \%ANSWER, "$name: CORS headers of the origin";
    is_deeply [ $res->header_all('Vary') ], [$VARY3], "$name: Vary";
    is $t->logged($res)->{reason}, "preflight_${what}_forbidden", "$name: reason";
    return;
}

sub no_method { return "the method$_[0] is not allowed for other origins" }
sub no_header { return "the header$_[0] is not allowed for other origins" }

unlisted(preflight('/public', $ORIGIN, 'PURGE'), no_method(' PURGE'), 'another method');
unlisted(preflight('/public', $ORIGIN, "GET\"\xc3"), no_method(''),
    'a method that is not repeated');
unlisted(preflight('/public', $ORIGIN, 'POST',
    'Access-Control-Request-Method' => 'POST'), no_method(''), 'two methods');
unlisted(preflight('/public', $ORIGIN, 'POST',
    'Access-Control-Request-Headers' => 'content-type, x-account-id, x-other'),
    no_header(' x-account-id'), 'another header');
unlisted(preflight('/nothing', $ORIGIN, 'POST',
    'Access-Control-Request-Headers' => 'content-type',
    'Access-Control-Request-Headers' => 'X-Other'),
    no_header(' X-Other'), 'another header on the second line');
unlisted(preflight('/branch', $ORIGIN, 'BREW',
    'Access-Control-Request-Headers' => 'x-other'), no_method(' BREW'),
    'the method before the header');

# Other origins that the directives list, in their own letters.

for my $origin (qw(http://127.0.0.1:3000 https://upper.example.com http://[::1]:5000
    https://a.wild.example:8443))
{
    is preflight('/public', $origin)->status, 204, "preflight of $origin";
    my $res = http_get($port, '/public', headers => [ Origin => $origin ]);
    is cors($res)->{'allow-origin'}, $origin, 'and it may read';
}

# Plain OPTIONS.

my $plain = http($port, 'OPTIONS', '/branch');
is $plain->status, 204, 'plain OPTIONS';
is $plain->header('Allow'), 'GET, HEAD, POST, OPTIONS', 'with Allow';
is_deeply cors($plain), {}, 'and no CORS headers';
$plain = http($port, 'OPTIONS', '/nothing');
is $plain->status, 204, 'plain OPTIONS of an unknown path';
is $plain->header('Allow'), 'OPTIONS', 'where nothing else is done';
is http($port, 'OPTIONS', '/own')->header('Allow'),
    'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS',
    'Allow is about the location, not about other origins';
$plain = http($port, 'OPTIONS', '/public', headers => [ Origin => $ORIGIN ]);
is $plain->status, 204, 'OPTIONS with an origin and nothing asked';
is_deeply cors($plain), \%EXPOSED, 'is like any other request';
my $c = Platform::Test::Http->new(port => $port);
is $c->request(OPTIONS => '/public', body => 'x' x 5000)->status, 204, 'OPTIONS with a body';
is $c->request(OPTIONS => '/public')->status, 204, 'on a kept connection';
is http($port, 'OPTIONS', '/public', version => '1.0')->status, 204, 'OPTIONS by HTTP/1.0';

is scalar(grep { $_->{method} eq 'OPTIONS' } $upstream->requests,
    $app->requests), 0, 'no OPTIONS reached an upstream';

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
