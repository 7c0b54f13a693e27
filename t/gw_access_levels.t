# Which token opens which location: the four levels, lists of them, methods,
# and deny by default.

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

$t->gateway_conf(<<'SERVER');
root %%DIR%%;
pass /public: platform_gateway_access public;
pass /account: platform_gateway_access account;
pass /branch: platform_gateway_access branch;
pass /platform: platform_gateway_access platform;
pass /system: platform_gateway_access system;
pass /two: platform_gateway_access account system;
location /inherits {
    platform_gateway_access branch;
    location /inherits/deep {
        proxy_pass http://127.0.0.1:%%PORT_upstream%%;
    }
}
pass /methods: platform_gateway_access branch; platform_gateway_methods GET POST;
pass /realm: platform_gateway_access branch; platform_gateway_realm "other place";
location /shadow {
    platform_gateway_access branch;
    platform_gateway_methods GET;
    platform_gateway_shadow on;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /static { }
pass /off: platform_gateway off;
pass /any: satisfy any; allow 127.0.0.1; deny all; platform_gateway_access branch;
pass /neither: satisfy any; deny all; platform_gateway_access branch;
pass /denied: deny all; platform_gateway_access public;
location = /health {
    platform_gateway_access public;
    platform_gateway_health;
}
location / {
    platform_gateway_access public;
    platform_gateway_route_not_found;
}
SERVER

my $port = $t->start_gateway;


my %token = map { $_ => jwt_token($_ => $key) }
    qw(account branch system refresh);

# Every kind of token at every level.

my %opens = (
    '/account'       => ['account'],
    '/branch'        => ['branch'],
    '/platform'      => ['branch'],
    '/system'        => ['system'],
    '/two'           => [ 'account', 'system' ],
    '/inherits/deep' => ['branch'],
);
my %scope = (
    '/account'       => 'ACCOUNT',
    '/branch'        => 'BRANCH',
    '/platform'      => 'BRANCH',
    '/system'        => 'SYSTEM',
    '/two'           => 'ACCOUNT SYSTEM',
    '/inherits/deep' => 'BRANCH',
);

for my $path (sort keys %opens) {
    my $res = http_get($port, $path);
    is $res->status, 401, "$path without a token";
    is $res->code, 'GATEWAY_TOKEN_MISSING', "$path: code";
    is $res->header('WWW-Authenticate'), 'Bearer realm="platform"',
        "$path: challenge without an error";

    for my $kind (sort keys %token) {
        $res = http_get($port, $path, token => $token{$kind});
        if (grep { $_ eq $kind } @{ $opens{$path} }) {
            is $res->status, 200, "$path opens to $kind";
            next;
        }
        is $res->status, 403, "$path stays shut to $kind";
        is $res->code, 'GATEWAY_CONTEXT_FORBIDDEN', "$path, $kind: code";
        is $res->header('WWW-Authenticate'), 'Bearer realm="platform", '
            . qq(error="insufficient_scope", scope="$scope{$path}"),
            "$path, $kind: challenge";
    }
}

# A pair that is not one of the three opens nothing.

for my $pair ([ 'account', 'BRANCH' ], [ 'workspace', 'ACCOUNT' ],
    [ 'system', 'BRANCH' ], [ 'workspace', 'branch' ], [ 'workspace', '' ],
    [ 'refresh', 'BRANCH' ]) {
    my $res = http_get($port, '/branch', token => jwt_token(branch => $key,
        token_type => $pair->[0], token_scope => $pair->[1]));
    is $res->status, 401, "pair @$pair is no token";
}

# Public: not checked, nothing injected.

for my $case ([ 'no token' ], [ 'a good token', token => $token{branch} ],
    [ 'garbage', token => 'garbage' ],
    [ 'another scheme', headers => [ Authorization => 'Basic eDp5' ] ]) {
    my ($name, @o) = @$case;
    my $res = http_get($port, '/public', @o);
    is $res->status, 200, "public: $name";
    is_deeply [ grep {/^x-(?!request-id|correlation-id)/i}
            map { $_->[0] } @{ $res->json->{headers} } ], [],
        "public: $name: nothing injected";
}

# Methods: 405 with Allow before 401; GET brings HEAD.

my $before = $upstream->count;
for my $method (qw(PUT DELETE PATCH)) {
    my $res = http($port, $method, '/methods');
    is $res->status, 405, "$method: 405 before 401";
    is $res->code, 'METHOD_NOT_ALLOWED', "$method: code";
    is $res->header('Allow'), 'GET, HEAD, POST, OPTIONS', "$method: Allow";
}
is $upstream->count, $before, 'upstream was not asked';
is http($port, 'PUT', '/methods', token => $token{branch})->status, 405,
    'also with a token';
is http($port, $_, '/methods')->status, 401, "$_ is allowed, and guarded"
    for qw(GET HEAD POST);
is http($port, $_, '/methods', token => $token{branch})->status, 200,
    "$_ with a token" for qw(GET HEAD POST);

# The realm of a location.

is http_get($port, '/realm')->header('WWW-Authenticate'),
    'Bearer realm="other place"', 'realm';

# Deny by default, whatever the token; the gateway switched off.

$t->write_file('static', 'text');
my $res = http_get($port, '/static', token => $token{branch});
is $res->status, 404, 'no level: refused';
is $res->code, 'GATEWAY_ROUTE_NOT_FOUND', 'no level: code';
like $t->nginx->error_log, qr/no "platform_gateway_access" for location/,
    'and the log says why';
is http_get($port, '/off')->status, 200, 'off: not our business';

# Other access modules beside us.

$res = http_get($port, '/any');
is $res->status, 200, 'satisfy any: let in by address';
is_deeply [ header_values($res->json, 'X-Account-Id') ], [],
    'with no trusted header';
is $res->header('WWW-Authenticate'), undef, 'and no challenge';
is $t->logged($res)->{decision}, 'allow', 'logged as allowed';
$res = http_get($port, '/any?status=401');
is $res->status, 401, "the upstream's own 401";
is $res->json->{uri}, '/any?status=401', 'is not taken for ours';
$res = http_get($port, '/any', token => $token{branch});
is_deeply [ header_values($res->json, 'X-Account-Id') ], [ uuid(1) ],
    'satisfy any: a verified token is injected';
$res = http_get($port, '/neither');
is $res->status, 401, 'satisfy any: neither';
is http_get($port, '/neither', token => $token{branch})->status, 200,
    'satisfy any: by token';
is http_get($port, '/denied')->status, 403,
    'public does not overrule deny';

# Shadow: nothing refused, nothing unverified injected.

$res = http_get($port, '/shadow', headers => [ 'X-Roles' => 'spoofed' ]);
is $res->status, 200, 'shadow: no token';
is_deeply [ header_values($res->json, 'X-Roles') ], [], 'shadow: stripped';
my $line = $t->logged($res);
is $line->{decision}, 'shadow', 'shadow: logged';
is $line->{reason}, 'token_missing', 'shadow: with the reason';
is http($port, PUT => '/shadow')->status, 200, 'shadow: method';
$res = http_get($port, '/shadow', token => $token{branch});
is_deeply [ header_values($res->json, 'X-Roles') ], ['manager,cashier'],
    'shadow: what verified is injected';

# The gateway's own answers.

$res = http_get($port, '/health');
is $res->body, '{"status":"UP","service":"gateway"}', 'health';
is $res->header('Content-Type'), 'application/json', 'health: type';
is $res->header('Cache-Control'), 'no-store', 'health: not to be stored';
is http($port, HEAD => '/health')->status, 200, 'health: HEAD';
is http_post($port, '/health', body => 'x')->status, 405, 'health: POST';
$res = http_get($port, '/no/such/thing', token => $token{branch});
is $res->status, 404, 'no route';
is $res->code, 'GATEWAY_ROUTE_NOT_FOUND', 'no route: code';

# Bodies of refused requests do not harm the next one on the connection.

my $c = Platform::Test::Http->new(port => $port);
for my $path ('/branch', '/methods') {
    $res = $c->request($path eq '/branch' ? 'POST' : 'PUT', $path,
        body => 'x' x 3000);
    is $res->status, ($path eq '/branch' ? 401 : 405), "$path: with a body";
    $res = $c->request(GET => '/branch', token => $token{branch});
    is $res->status, 200, "$path: next request on the connection";
}
$res = $c->request(HEAD => '/branch');
is $res->status, 401, 'HEAD: 401';
is $res->body, '', 'HEAD: no body';
is $c->request(GET => '/health')->status, 200, 'HEAD: connection goes on';
$c->close;

$t->done;
