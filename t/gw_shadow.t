# Shadow mode refuses nothing: it strips, injects what verified, and logs what
# it would have refused.  Beside each the same where the guard is in earnest.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $other = jwt_key('b');
my $issuer = $t->issuer(body => jwks($key), status => 500);
my $upstream = $t->echo_upstream;
$t->http_server(cors => sub {
    return [ 200, [ 'Access-Control-Allow-Origin' => 'https://theirs.test',
        'Access-Control-Allow-Methods' => 'BREW' ], 'own' ];
});

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
root %%DIR%%/www;
location /earnest {
    platform_gateway_access branch;
    platform_gateway_methods GET POST;
    %%TO_upstream%%
}
location /earnest/cors { platform_gateway_access public; %%TO_cors%% }
location /earnest/static {
}
location /shadow {
    platform_gateway_shadow on;
    platform_gateway_access branch;
    platform_gateway_methods GET POST;
    %%TO_upstream%%
}
location /shadow/cors { platform_gateway_shadow on; platform_gateway_access public; %%TO_cors%% }
location /shadow/hidden {
    platform_gateway_shadow on;
    platform_gateway_access branch;
    platform_gateway_forward_authorization off;
    %%TO_upstream%%
}
location /shadow/static { platform_gateway_shadow on; }
location /shadow/parts/ { platform_gateway_shadow on; platform_gateway_access public; ssi on; }
SERVER
platform_gateway_key_wait 50ms;
platform_gateway_key_cooldown 1s;
platform_gateway_cors_origins https://app.test;
HTTP
$t->write_file("www/$_/static", 'text') for qw(earnest shadow);
$t->write_file('www/shadow/parts/page.html', '<!--# include virtual="/shadow?part" -->');
$t->start_nginx;
my $port = $t->port('gateway');

# One request in earnest and in shadow: its status there, its reason here.
sub shadows {
    my ($name, $method, $status, $reason, $path, @o) = @_;

    my @spoof = (headers => [ 'X-Roles' => 'spoofed', x_roles => 'spoofed' ]);
    my $res = http($port, $method, "/earnest$path", @spoof, @o);
    is $res->status, $status, "$name: $status in earnest (control)";

    $res = http($port, $method, "/shadow$path", @spoof, @o);
    is $res->status, 200, "$name: goes through";
    unlike $res->body, qr/spoofed|x-roles/i, "$name: stripped, none injected";
    is $res->header('WWW-Authenticate'), undef, "$name: no challenge";
    is $res->header('Retry-After'), undef, "$name: no Retry-After";
    is $res->header('Allow'), undef, "$name: no Allow";
    my $line = $t->logged($res);
    is $line->{decision}, 'shadow', "$name: logged";
    is $line->{reason}, $reason, "$name: with the reason";
    is $line->{status}, 200, "$name: and the status that there was";
    return;
}

my $branch = jwt_token(branch => $key);

shadows('no keys', GET => 503, 'keys_unavailable', '', token => $branch);

$issuer->set(status => 200);
$t->gateway_ready;

shadows('no token', GET => 401, 'token_missing', '');
shadows('garbage', GET => 401, 'token_shape', '', token => 'garbage');
shadows('a bad signature', GET => 401, 'token_signature', '', token => jwt_tamper($branch, 2, 9));
shadows('expired', GET => 401, 'token_expired', '',
    token => jwt_token(branch => $key, exp => time - 100));
shadows('an unknown key', GET => 401, 'kid_unknown', '',
    token => jwt_token(branch => $other, iat => time - 600));
shadows('another context', GET => 403, 'context_forbidden', '',
    token => jwt_token(account => $key));
shadows('a wrong method', PUT => 405, 'method_forbidden', '', body => '');
shadows('no level', GET => 404, 'route_not_found', '/static');

# What verified is injected, and is no shadow.

my $res = http_get($port, '/shadow', token => $branch);
is_deeply [ header_values($res->json, 'X-Roles') ], ['manager,cashier'], 'verified: injected';
is $t->logged($res)->{decision}, 'allow', 'verified: allowed';
is $t->logged($res)->{reason}, 'verified', 'verified: reason';
$res = http($port, PUT => '/shadow', token => $branch, body => '');
is_deeply [ header_values($res->json, 'X-Roles') ], ['manager,cashier'],
    'a wrong method with a good token: injected';
is $t->logged($res)->{reason}, 'method_forbidden', 'and logged for the method';

# Where the upstream is not to see the token, it sees no bad one either.

for my $case ([ 'good', $branch ], [ 'garbage', 'garbage' ],
    [ 'of another context', jwt_token(account => $key) ]) {
    my ($name, $token) = @$case;

    $res = http_get($port, '/shadow/hidden', token => $token);
    is_deeply [ header_values($res->json, 'Authorization') ], [], "a token that is $name, hidden";
    $res = http_get($port, '/shadow', token => $token);
    is_deeply [ header_values($res->json, 'Authorization') ],
        ["Bearer $token"], "a token that is $name, not hidden (control)";
}

# Preflights.

sub preflight {
    my ($path, $origin, $method, @more) = @_;

    return http($port, OPTIONS => $path, headers => [ Origin => $origin,
        'Access-Control-Request-Method' => $method // 'POST', @more ]);
}

for my $where (qw(/earnest /shadow)) {
    $res = preflight($where, 'https://app.test');
    is $res->status, 204, "$where: an allowed preflight is answered";
    is $t->logged($res)->{reason}, 'preflight', "$where: as that";
    is http($port, OPTIONS => $where)->status, 204, "$where: plain OPTIONS";
}
is_problem(preflight('/earnest', 'https://theirs.test'), 403,
    'GATEWAY_ORIGIN_NOT_ALLOWED', 'in earnest, another origin');
for my $case ([ 'another origin', 'origin', 'https://theirs.test' ],
    [ 'another method', 'preflight_method', 'https://app.test', 'BREW' ],
    [ 'another header', 'preflight_header', 'https://app.test', 'GET',
        'Access-Control-Request-Headers' => 'x-other' ]) {
    my ($name, $what, @ask) = @$case;

    $res = preflight('/shadow', @ask);
    is $res->status, 200, "$name: the preflight is passed on";
    is $res->json->{method}, 'OPTIONS', "$name: as it is";
    my $line = $t->logged($res);
    is $line->{decision}, 'shadow', "$name: logged";
    is $line->{reason}, "${what}_forbidden", "$name: with the reason";

    $res = preflight('/shadow/cors', @ask);
    is $res->header('Access-Control-Allow-Origin'), 'https://theirs.test',
        "$name: what the upstream allows stands";
    is $res->header('Access-Control-Allow-Methods'), 'BREW', "$name: all of it";
}

# Answers to an origin that is not ours keep the upstream's CORS headers.

my @theirs = (headers => [ Origin => 'https://theirs.test' ]);
my @ours = (headers => [ Origin => 'https://app.test' ]);
is http_get($port, '/earnest/cors', @theirs)
    ->header('Access-Control-Allow-Origin'), undef, 'in earnest: taken away';
is http_get($port, '/shadow/cors', @theirs)
    ->header('Access-Control-Allow-Origin'), 'https://theirs.test',
    'shadow: left alone';
is_deeply [ http_get($port, '/shadow/cors', @ours)
    ->header_all('Access-Control-Allow-Origin') ], ['https://app.test'],
    'shadow: an allowed origin gets ours';

# Subrequests.

$res = http_get($port, '/shadow/parts/page.html');
like $res->body, qr{"uri":"/shadow\?part"}, 'a part of a page goes through';

$t->done;
