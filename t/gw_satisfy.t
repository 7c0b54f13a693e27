# Beside other access modules: "satisfy any" and "satisfy all" with addresses,
# auth_basic and auth_request, and limit_except, with keys and without.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use MIME::Base64 qw(encode_base64);
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $issuer = $t->issuer(body => jwks($key), status => 500);
my $upstream = $t->echo_upstream;
$t->write_file('users', "ann:{PLAIN}secret\n");

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
platform_gateway_access branch;
location /any/allow { satisfy any; allow 127.0.0.1; deny all; %%TO_upstream%% }
location /any/deny { satisfy any; deny all; %%TO_upstream%% }
location /any/alone { satisfy any; %%TO_upstream%% }
location /any/basic {
    satisfy any;
    auth_basic area;
    auth_basic_user_file %%DIR%%/users;
    %%TO_upstream%%
}
location /any/asks/yes { satisfy any; auth_request /yes; %%TO_upstream%% }
location /any/asks/no { satisfy any; auth_request /no; %%TO_upstream%% }
location /any/page { satisfy any; deny all; error_page 503 =200 /down; %%TO_upstream%% }
location /all/allow { allow 127.0.0.1; deny all; %%TO_upstream%% }
location /all/deny { deny all; %%TO_upstream%% }
location /all/asks/yes { auth_request /yes; %%TO_upstream%% }
location /all/asks/no { auth_request /no; %%TO_upstream%% }
location /except {
    limit_except GET { deny all; }
    %%TO_upstream%%
}
location /down { platform_gateway_access public; %%TO_upstream%% }
location = /yes {
    internal;
    platform_gateway_access public;
    platform_gateway_allow_return on;
    return 200;
}
location = /no { internal; platform_gateway_access public; return 403; }
SERVER
platform_gateway_key_wait 50ms;
platform_gateway_key_cooldown 1s;
HTTP
$t->start_nginx;
my $port = $t->port('gateway');
my %token = map { $_ => jwt_token($_ => $key) } qw(account branch);
my @basic = (headers => [ Authorization => 'Basic ' . encode_base64('ann:secret', '') ]);
my @wrong = (headers => [ Authorization => 'Basic ' . encode_base64('ann:wrong', '') ]);

# Let in by another module: with no trusted header, and logged as that.
sub let_in {
    my ($name, $path, @o) = @_;

    my $res = http_get($port, $path, @o);
    is $res->status, 200, "$name: let in";
    is_deeply [ header_values($res->json, 'X-Roles') ], [], "$name: without trusted headers";
    is $res->header('Retry-After'), undef, "$name: no Retry-After";
    my $line = $t->logged($res);
    is $line->{decision}, 'allow', "$name: logged as allowed";
    is $line->{reason}, 'satisfied', "$name: by another module";
    return;
}

# While there are no keys, others decide by themselves.

let_in('no keys, by address', '/any/allow', token => $token{branch});
let_in('no keys, by auth_request', '/any/asks/yes', token => $token{branch});
let_in('no keys and no token, by address', '/any/allow');
let_in('no keys, by password', '/any/basic', @basic);

for my $path (qw(/any/deny /any/alone /any/basic /any/asks/no /all/allow
    /all/asks/yes)) {
    my $res = http_get($port, $path, token => $token{branch});
    is_problem($res, 503, 'GATEWAY_KEYS_UNAVAILABLE', "no keys, $path");
    ok $res->header('Retry-After'), "no keys, $path: Retry-After";
    is $t->logged($res)->{reason}, 'keys_unavailable', "no keys, $path: reason";
}
my $res = http_get($port, '/any/page', token => $token{branch});
is $res->status, 200, 'no keys, error_page: status';
is $res->json->{uri}, '/down', 'no keys, error_page: served';
is http_get($port, '/any/deny')->status, 401, 'no keys and no token: 401';

# With keys.

$issuer->set(status => 200);
$t->gateway_ready;

for my $path (qw(/any/allow /any/deny /any/alone /any/basic /any/asks/yes
    /any/asks/no /all/allow /all/asks/yes)) {
    $res = http_get($port, $path, token => $token{branch});
    is $res->status, 200, "$path: token";
    is_deeply [ header_values($res->json, 'X-Roles') ], ['manager,cashier'], "$path: injected";
    is $t->logged($res)->{reason}, 'verified', "$path: reason";
}
let_in('by address', '/any/allow');
let_in('by address, a token of another context', '/any/allow', token => $token{account});
let_in('by password', '/any/basic', @basic);
let_in('by auth_request', '/any/asks/yes');

# [path, without a token, with one of another context]
for my $case ([ '/any/deny', 401, 403 ], [ '/any/alone', 401, 403 ],
    [ '/any/asks/no', 401, 403 ], [ '/all/allow', 401, 403 ],
    [ '/all/asks/yes', 401, 403 ]) {
    my ($path, $none, $other) = @$case;
    is_problem(http_get($port, $path), $none, 'GATEWAY_TOKEN_MISSING', "$path, no token");
    is_problem(http_get($port, $path, token => $token{account}), $other,
        'GATEWAY_CONTEXT_FORBIDDEN', "$path, another context");
}
$res = http_get($port, '/any/basic', @wrong);
is $res->status, 401, 'neither password nor token';
is_deeply [ $res->header_all('WWW-Authenticate') ], ['Basic realm="area"'],
    'the one challenge of who answered';
is http_get($port, '/all/deny', token => $token{branch})->status, 403,
    'satisfy all: a token does not overrule an address';
is http_get($port, '/all/asks/no', token => $token{branch})->status, 403,
    'satisfy all: nor auth_request';

# limit_except.

is http_get($port, '/except', token => $token{branch})->status, 200,
    'limit_except: GET with a token';
is http_get($port, '/except')->status, 401, 'limit_except: GET without';
is http_post($port, '/except', body => '')->status, 401, 'limit_except: POST without';
is http_post($port, '/except', body => '', token => $token{branch})->status,
    403, 'limit_except: POST with a token';

$t->done;
