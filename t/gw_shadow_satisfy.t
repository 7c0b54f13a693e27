# What is let in though the guard would refuse: in shadow mode, which strips,
# injects what verified and logs what it would have refused, and under "satisfy
# any" beside other modules; "satisfy all".  Without keys, and with them.

use MIME::Base64 qw(encode_base64);
use Platform::Test;

my ($t, $key, $issuer) = Platform::Test->gateway;
$issuer->set(status => 500);
$t->http_server(cors => sub {
    return [ 200, [ 'Access-Control-Allow-Origin' => 'https://theirs.test',
        'Access-Control-Allow-Methods' => 'BREW' ], 'own' ];
});
$t->write_file('users', "ann:{PLAIN}secret\n");

$t->set(PUBLIC => 'internal; platform_gateway_access public;');
$t->gateway_conf(<<'SERVER', http => <<'HTTP');
platform_gateway_access branch;
root %%DIR%%/www;
pass /any/allow: satisfy any; allow 127.0.0.1; deny all;
pass /any/deny: satisfy any; deny all;
pass /any/alone: satisfy any;
pass /any/basic: satisfy any; auth_basic area; auth_basic_user_file %%DIR%%/users;
pass /any/asks/yes: satisfy any; auth_request /yes;
pass /any/asks/no: satisfy any; auth_request /no;
pass /any/page: satisfy any; deny all; error_page 503 =200 /down;
pass /all/allow: allow 127.0.0.1; deny all;
pass /all/deny: deny all;
pass /all/asks/yes: auth_request /yes;
pass /all/asks/no: auth_request /no;
pass /except: limit_except GET { deny all; }
pass /down: platform_gateway_access public;
location = /yes { %%PUBLIC%% platform_gateway_allow_return on; return 200; }
location = /no { %%PUBLIC%% return 403; }
pass /first: platform_gateway_access account; error_page 403 = /second;
pass /second: platform_gateway_shadow on; platform_gateway_audience other;
pass /earnest: platform_gateway_methods GET POST;
pass /earnest/cors to cors: platform_gateway_access public;
SERVER
platform_gateway_key_wait 50ms;
platform_gateway_key_cooldown 1s;
platform_gateway_cors_origins https://app.test;
server {
    listen 127.0.0.1:%%PORT_shadow%%;
    root %%DIR%%/www;
    platform_gateway on;
    platform_gateway_shadow on;
    platform_gateway_access branch;
    pass /shadow: platform_gateway_methods GET POST;
    pass /shadow/cors to cors: platform_gateway_access public;
    pass /shadow/hidden: platform_gateway_forward_authorization off;
    location /shadow/parts/ { platform_gateway_access public; ssi on; }
}
server {
    listen 127.0.0.1:%%PORT_static%%;
    root %%DIR%%/www;
    platform_gateway on;
    location /earnest { }
    location /shadow { platform_gateway_shadow on; }
}
HTTP
$t->write_file("www/$_/static", 'text') for qw(earnest shadow);
$t->write_file('www/shadow/parts/page.html', '<!--# include virtual="/shadow?part" -->');
$t->start_nginx;
my ($port, $shadow) = map { $t->port($_) } qw(gateway shadow);
my %token = map { $_ => jwt_token($_ => $key) } qw(account branch);
my @branch = (token => $token{branch});
my ($basic, $wrong) = map { [ Authorization => 'Basic ' . encode_base64("ann:$_", '') ] }
    qw(secret wrong);

# [status, roles at the upstream, decision, reason as logged].
sub seen ($res) {
    return [ $res->status, join(' and ', eval { header_values($res->json, 'X-Roles') }),
        @{ $t->logged($res) }{qw(decision reason)} ];
}

# Let in by another module: with no trusted header, and logged as that.
sub let_in ($path, @o) {
    my $res = http_get($port, $path, @o);
    is_deeply seen($res), [ 200, '', 'allow', 'satisfied' ], "$path: let in by another module";
    is $res->header('Retry-After'), undef, "$path: no Retry-After";
}

# One request in earnest and in shadow: its status there, its reason here.
sub shadows ($name, $method, $status, $reason, $path, @o) {
    my @spoof = (headers => [ 'X-Roles' => 'spoofed', x_roles => 'spoofed' ]);
    my @at = $path ? ($t->port('static')) x 2 : ($port, $shadow);
    is http($at[0], $method, "/earnest$path", @spoof, @o)->status,
        $status, "$name: $status in earnest (control)";

    my $res = http($at[1], $method, "/shadow$path", @spoof, @o);
    is_deeply [ @{ seen($res) }[ 0, 2, 3 ], $t->logged($res)->{status},
        map { $res->header_all($_) } qw(WWW-Authenticate Retry-After Allow) ],
        [ 200, 'shadow', $reason, 200 ], "$name: goes through, logged with the reason";
    unlike $res->body, qr/spoofed|x-roles/i, "$name: stripped, none injected";
}

# While there are no keys, others decide by themselves.

let_in(@$_) for [ '/any/allow', @branch ], [ '/any/asks/yes', @branch ],
    ['/any/allow'], [ '/any/basic', headers => $basic ];
my @shut = qw(/any/deny /any/alone /any/asks/no /all/allow /all/asks/yes);
for my $path (@shut, '/any/basic') {
    my $res = http_get($port, $path, @branch);
    is_problem($res, 503, 'GATEWAY_KEYS_UNAVAILABLE', "no keys, $path");
    ok $res->header('Retry-After'), "no keys, $path: Retry-After";
    is_deeply seen($res), [ 503, '', 'deny', 'keys_unavailable' ], "no keys, $path: reason";
}
my $res = http_get($port, '/any/page', @branch);
is_deeply [ $res->status, $res->json->{uri} ], [ 200, '/down' ], 'no keys, error_page: served';
is http_get($port, '/any/deny')->status, 401, 'no keys and no token: 401';
shadows('no keys', GET => 503, 'keys_unavailable', '', @branch);

$issuer->set(status => 200);
$t->gateway_ready;

is_deeply seen(http_get($port, $_, @branch)), [ 200, 'manager,cashier', 'allow', 'verified' ],
    "$_: a token" for @shut, qw(/any/allow /any/basic /any/asks/yes);
let_in(@$_) for ['/any/allow'], ['/any/asks/yes'],
    [ '/any/allow', token => $token{account} ], [ '/any/basic', headers => $basic ];
for my $path (@shut) {
    is_problem(http_get($port, $path), 401, 'GATEWAY_TOKEN_MISSING', "$path, no token");
    is_problem(http_get($port, $path, token => $token{account}), 403,
        'GATEWAY_CONTEXT_FORBIDDEN', "$path, another context");
}
$res = http_get($port, '/any/basic', headers => $wrong);
is_deeply [ $res->status, $res->header_all('WWW-Authenticate') ], [ 401, 'Basic realm="area"' ],
    'neither password nor token: the one challenge of who answered';

# [what is asked, its status]: a token overrules no other module.
for my $case ([ 403, GET => '/all/deny', @branch ], [ 403, GET => '/all/asks/no', @branch ],
    [ 200, GET => '/except', @branch ], [ 401, GET => '/except' ],
    [ 401, POST => '/except', body => '' ], [ 403, POST => '/except', body => '', @branch ]) {
    my ($status, @request) = @$case;
    is http($port, @request)->status, $status, "@request[0, 1]: $status";
}

shadows(@$_) for [ 'no token', GET => 401, 'token_missing', '' ],
    [ 'garbage', GET => 401, 'token_shape', '', token => 'garbage' ],
    [ 'a bad signature', GET => 401, 'token_signature', '',
        token => jwt_tamper($token{branch}, 2, 9) ],
    [ 'expired', GET => 401, 'token_expired', '',
        token => jwt_token(branch => $key, exp => time - 100) ],
    [ 'an unknown key', GET => 401, 'kid_unknown', '',
        token => jwt_token(branch => jwt_key('b'), iat => time - 600) ],
    [ 'another context', GET => 403, 'context_forbidden', '', token => $token{account} ],
    [ 'a wrong method', PUT => 405, 'method_forbidden', '', body => '' ],
    [ 'no level', GET => 404, 'route_not_found', '/static' ];

# The refusal that a client got stays, whatever the shadow of its page would have said.

is_deeply seen(http_get($port, '/first', @branch)), [ 200, '', 'deny', 'context_forbidden' ],
    'a page in shadow: the refusal that led there';
is_deeply seen(http_get($port, '/second', @branch)), [ 200, '', 'shadow', 'token_audience' ],
    'the page itself (control)';

is_deeply seen(http($shadow, $_->[0] => '/shadow', @branch, body => '')),
    [ 200, 'manager,cashier', @$_[ 1, 2 ] ], "$_->[0], verified: injected"
    for [ GET => 'allow', 'verified' ], [ PUT => 'shadow', 'method_forbidden' ];

for my $token ($token{branch}, 'garbage', $token{account}) {
    is_deeply [ map { header_values(http_get($shadow, $_, token => $token)->json, 'Authorization') }
        '/shadow/hidden', '/shadow' ], ["Bearer $token"], 'hidden there, not beside it (control)';
}

sub preflight ($at, $path, $origin, $method = undef, @more) {
    return http($at, OPTIONS => $path, headers => [ Origin => $origin,
        'Access-Control-Request-Method' => $method // 'POST', @more ]);
}

for my $where ([ $port, '/earnest' ], [ $shadow, '/shadow' ]) {
    is_deeply seen(preflight(@$where, 'https://app.test')), [ 204, '', 'allow', 'preflight' ],
        "$where->[1]: an allowed preflight is answered";
    is http($where->[0], OPTIONS => $where->[1])->status, 204, "$where->[1]: plain OPTIONS";
}
is_problem(preflight($port, '/earnest', 'https://theirs.test'), 403,
    'GATEWAY_ORIGIN_NOT_ALLOWED', 'in earnest, another origin');
for my $case ([ 'origin', 'https://theirs.test' ],
    [ 'preflight_method', 'https://app.test', 'BREW' ],
    [ 'preflight_header', 'https://app.test', 'GET', 'Access-Control-Request-Headers' => 'x-o' ]) {
    my ($what, @ask) = @$case;
    $res = preflight($shadow, '/shadow', @ask);
    is $res->json->{method}, 'OPTIONS', "$what: the preflight is passed on";
    is_deeply seen($res), [ 200, '', 'shadow', "${what}_forbidden" ], "$what: with the reason";
    $res = preflight($shadow, '/shadow/cors', @ask);
    is_deeply [ map { $res->header("Access-Control-Allow-$_") } qw(Origin Methods) ],
        [ 'https://theirs.test', 'BREW' ], "$what: what the upstream allows stands";
}

# Answers to an origin that is not ours keep the upstream's CORS headers.

for my $case ([ 'in earnest: taken away', $port, '/earnest/cors', 'theirs' ],
    [ 'shadow: left alone', $shadow, '/shadow/cors', 'theirs', 'https://theirs.test' ],
    [ 'shadow: ours gets ours', $shadow, '/shadow/cors', 'app', 'https://app.test' ]) {
    my ($name, $at, $path, $who, @want) = @$case;
    is_deeply [ http_get($at, $path, headers => [ Origin => "https://$who.test" ])
        ->header_all('Access-Control-Allow-Origin') ], \@want, $name;
}

like http_get($shadow, '/shadow/parts/page.html')->body, qr{"uri":"/shadow\?part"},
    'a part of a page goes through';

$t->done;
