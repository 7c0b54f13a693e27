# Which token opens which location: the four levels, lists of them, and deny by
# default.  Methods, shadow mode and other access modules have files of their own.

use Platform::Test;

my ($t, $key) = Platform::Test->gateway;

$t->gateway_conf(<<'SERVER');
root %%DIR%%;
pass /public: platform_gateway_access public;
pass /account: platform_gateway_access account;
pass /branch: platform_gateway_access branch;
pass /platform: platform_gateway_access platform;
pass /system: platform_gateway_access system;
pass /two: platform_gateway_access account system;
location /inherits { platform_gateway_access branch; location /inherits/deep { %%TO_upstream%% } }
pass /realm: platform_gateway_access branch; platform_gateway_realm "other place";
location /static { }
pass /off: platform_gateway off;
pass /any: satisfy any; allow 127.0.0.1; deny all; platform_gateway_access branch;
pass /denied: deny all; platform_gateway_access public;
location = /health { platform_gateway_access public; platform_gateway_health; }
location / { platform_gateway_access public; platform_gateway_route_not_found; }
SERVER

my $port = $t->start_gateway;

my %token = map { $_ => jwt_token($_ => $key) } qw(account branch system refresh);

# Every kind of token at every level: [path, scope of the challenge, what opens it].

for my $case (
    [ '/account', 'ACCOUNT', 'account' ], [ '/branch', 'BRANCH', 'branch' ],
    [ '/platform', 'BRANCH', 'branch' ], [ '/system', 'SYSTEM', 'system' ],
    [ '/two', 'ACCOUNT SYSTEM', 'account', 'system' ],
    [ '/inherits/deep', 'BRANCH', 'branch' ],
) {
    my ($path, $scope, @opens) = @$case;
    my $res = http_get($port, $path);
    is_problem $res, 401, 'GATEWAY_TOKEN_MISSING', "$path without a token";
    is $res->header('WWW-Authenticate'), 'Bearer realm="platform"',
        "$path: challenge without an error";
    for my $kind (sort keys %token) {
        $res = http_get($port, $path, token => $token{$kind});
        if (grep { $_ eq $kind } @opens) {
            is $res->status, 200, "$path opens to $kind";
            next;
        }
        is_problem $res, 403, 'GATEWAY_CONTEXT_FORBIDDEN', "$path stays shut to $kind";
        is $res->header('WWW-Authenticate'), 'Bearer realm="platform", '
            . qq(error="insufficient_scope", scope="$scope"), "$path, $kind: challenge";
    }
}

# A pair that is not one of the three opens nothing (check_jwt.c has more).

is http_get($port, '/branch', token => jwt_token(branch => $key, token_type => $_->[0],
    token_scope => $_->[1]))->status, 401, "pair @$_ is no token"
    for [ 'account', 'BRANCH' ], [ 'refresh', 'BRANCH' ], [ 'workspace', '' ];

for my $case ([ 'no token' ], [ 'a good token', token => $token{branch} ],
    [ 'garbage', token => 'garbage' ],
    [ 'another scheme', headers => [ Authorization => 'Basic eDp5' ] ]) {
    my ($name, @o) = @$case;
    my $res = http_get($port, '/public', @o);
    is_deeply [ $res->status, grep {/^x-(?!request-id|correlation-id)/i}
        map { $_->[0] } @{ $res->json->{headers} } ], [200], "public: $name: nothing injected";
}

is http_get($port, '/realm')->header('WWW-Authenticate'), 'Bearer realm="other place"', 'realm';

# Deny by default, whatever the token; the gateway switched off.

$t->write_file('static', 'text');
is_problem http_get($port, $_, token => $token{branch}), 404, 'GATEWAY_ROUTE_NOT_FOUND', $_
    for '/static', '/no/such/thing';
like $t->nginx->error_log, qr/no "platform_gateway_access" for location/, 'the log says why';
is http_get($port, '/off')->status, 200, 'off: not our business';

my $res = http_get($port, '/any?status=401');
is_deeply [ $res->status, $res->json->{uri} ], [ 401, '/any?status=401' ],
    "satisfy any: the upstream's own 401 is not taken for ours";
is http_get($port, '/denied')->status, 403, 'public does not overrule deny';

# The gateway's own answer; bodies of refused requests do not harm the next one
# on the connection.

my $c = Platform::Test::Http->new(port => $port);
$res = $c->request(GET => '/health');
is_deeply [ $res->body, map { $res->header($_) } qw(Content-Type Cache-Control) ],
    [ '{"status":"UP","service":"gateway"}', 'application/json', 'no-store' ], 'health';
is $c->request(POST => '/branch', body => 'x' x 3000)->status, 401, 'POST: with a body';
is $c->request(GET => '/branch', token => $token{branch})->status, 200,
    'the next request on the connection';
$res = $c->request(HEAD => '/branch');
is_deeply [ $res->status, $res->body ], [ 401, '' ], 'HEAD: 401 without a body';
is $c->request(GET => '/health')->status, 200, 'HEAD: connection goes on';

$t->done;
