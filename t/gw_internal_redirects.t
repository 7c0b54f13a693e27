# The location that serves decides, however the request came to it; headers
# injected for one location are gone before the next one decides.

use Platform::Test;
use Platform::Test::Revocations;

my ($t, $key, $issuer, $upstream) = Platform::Test->gateway;
my $feed = revocations_feed($t);
my $accel = $t->http_server(accel => sub ($request, @) {
    my ($to) = $request->{uri} =~ /to=([^&]*)/;
    return [ 200, [ 'X-Accel-Redirect' => $to ], '' ];
});

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
root %%DIR%%/www;
pass /public: platform_gateway_access public;
pass /off: platform_gateway off;
pass /branch: platform_gateway_access branch;
pass /account: platform_gateway_access account;
pass /renamed: platform_gateway_access branch; platform_gateway_claim_header roles X-Their-Roles;
pass @branch: platform_gateway_access branch;
pass @public: platform_gateway_access public;
pass @posts: platform_gateway_access branch; platform_gateway_methods POST;

# X-Accel-Redirect
pass /from/public to accel: platform_gateway_access public;
location /from/branch {
    platform_gateway_access branch;
    platform_gateway_forward_authorization off;
    proxy_pass http://127.0.0.1:%%PORT_accel%%;
}

# try_files, rewrite, index
location /try/branch { platform_gateway_access public; try_files /nothing @branch; }
location /try/public { platform_gateway_access branch; try_files /nothing @public; }
location /try/posts { platform_gateway_access branch; try_files /nothing @posts; }
location /rewritten { platform_gateway_access public; rewrite ^ /branch last; }
location /index/ { platform_gateway_access public; index page.html; }
location = /index/page.html { platform_gateway_access branch; }

# post_action
pass /after/branch: platform_gateway_access public; post_action /branch/after;
pass /after/public: platform_gateway_access branch; post_action /public/after;

# error_page
pass /error/public: platform_gateway_access branch; error_page 401 403 = /public;
pass /error/kept: platform_gateway_access branch; error_page 401 /public;
pass /error/guarded to nobody: platform_gateway_access public; error_page 502 = @branch;
pass /error/again: platform_gateway_access branch; error_page 401 403 = @account;
pass @account: platform_gateway_access account;
pass /error/file: platform_gateway_access branch; error_page 401 /page.html;
location = /page.html { internal; platform_gateway_access public; }

# Into a location that is there for fetches.
location /sneak/ {
    platform_gateway_access public;
    location ~ ^/sneak/rewrite(/.*) { rewrite ^/sneak/rewrite(.*) $1 last; }
    location ~ ^/sneak/try(?<to>/.*) { try_files /none $to; }
    location ~ ^/sneak/error(?<to>/.*) { return 418; error_page 418 =200 $to; }
    location ~ ^/sneak/named(?<to>/.*) { try_files /none @sneak; }
    location ~ ^/sneak/page/ { ssi on; root %%DIR%%/www; }
    location = /sneak/auth/keys { auth_request /keys; empty_gif; }
    location = /sneak/auth/_feed { auth_request /_feed; empty_gif; }
    location = /sneak/mirror/keys { mirror /keys; empty_gif; }
    location = /sneak/mirror/_feed { mirror /_feed; empty_gif; }
    platform_gateway_allow_return on;
}
location @sneak { platform_gateway_access public; rewrite ^/sneak/named(/.*) $1 last; }
rewrite ^/server(/.*) $1;
location = /of/page.html { internal; platform_gateway_access public; }
location = /_feed {
    internal;
    platform_gateway_access public;
    proxy_pass http://127.0.0.1:%%PORT_feed%%/second;
    limit_except POST { allow all; }
}
SERVER
large_client_header_buffers 4 32k;
platform_gateway_revocations zone=revocations:1m uri=/_feed;

# The feed's is that of this server, where the gateway is off.
server {
    listen 127.0.0.1:%%PORT_plain%%;
    location = /_feed {
        internal;
        proxy_pass http://127.0.0.1:%%PORT_feed%%;
        subrequest_output_buffer_size 1m;
    }
    location /from/ { %%TO_accel%% }
    location = /else { internal; %%TO_feed%% }
    location = /keys { empty_gif; }
}

# What nginx refuses while it reads may go to an upstream all the same.
server {
    listen 127.0.0.1:%%PORT_errors%%;
    platform_gateway on;
    error_page 400 413 414 494 /error;
    client_max_body_size 10;
    large_client_header_buffers 2 2k;
    pass /: platform_gateway_access public;
}
HTTP
$t->write_file('www/index/page.html', 'the page');
$t->write_file('www/page.html', 'please log in');
$t->write_file("www/sneak/page$_", qq{<!--# include virtual="$_" -->})
    for qw(/keys /_feed /of/page.html);
$t->write_file('www/of/page.html', 'the page');
my $port = $t->start_gateway;

my ($account, $branch) = map { jwt_token($_ => $key) } qw(account branch);
my @branch = (token => $branch);
my @spoof = (headers => [ 'X-Roles' => 'spoofed' ]);
my @ROLES = ('manager,cashier');

sub roles { return [ header_values($_[0]->json, $_[1] // 'X-Roles') ] }

# [path, without a token, with the branch token, roles then]
for my $case (
    [ '/from/public?to=/public', 200, 200, [] ],
    [ '/from/public?to=/branch', 401, 200, \@ROLES ],
    [ '/from/public?to=/account', 401, 403 ],
    [ '/from/public?to=@branch', 401, 200, \@ROLES ],
    [ '/from/public?to=/renamed', 401, 200, [] ],
    [ '/from/branch?to=/public', 401, 200, [] ],
    [ '/from/branch?to=@public', 401, 200, [] ],
    [ '/from/branch?to=/off', 401, 200, [] ],
    [ '/from/branch?to=/branch', 401, 200, \@ROLES ],
    [ '/from/branch?to=/renamed', 401, 200, [] ],
    [ '/from/branch?to=/account', 401, 403 ],
    [ '/try/branch', 401, 200, \@ROLES ],
    [ '/try/public', 401, 200, [] ],
    [ '/try/posts', 401, 405 ],
    [ '/rewritten', 401, 200, \@ROLES ],
    [ '/error/public', 200, 200, \@ROLES ],
    [ '/error/guarded', 401, 200, \@ROLES ],
    [ '/error/again', 401, 200, \@ROLES ],
) {
    my ($path, $bare, $with, $roles) = @$case;
    my ($none, $some) = map { http_get($port, $path, @spoof, @$_) } [], \@branch;
    is_deeply [ $none->status, $some->status, $roles ? roles($some) : () ],
        [ $bare, $with, $roles // () ], "$path: $bare without a token, $with with one";
    unlike $none->body, qr/spoofed|X-Roles|X-Account/, "$path: nothing leaks";
    unlike $some->body, qr/spoofed/, "$path: still none of the client's";
}
is_deeply roles(http_get($port, '/from/public?to=/renamed', @branch), 'X-Their-Roles'), \@ROLES,
    'the map of the last location';

# The token survives a location that hides it from its own upstream.

$accel->forget;
my $res = http_get($port, '/from/branch?to=/branch', @branch,
    headers => [ 'X-A' => 1, 'X-B' => 2 ]);
is_deeply roles($res, 'Authorization'), ["Bearer $branch"],
    'Authorization is put back, once';
is_deeply [ header_values(($accel->requests)[0], 'Authorization') ], [],
    'the first upstream did not see it';
is_deeply [ map { @{ roles($res, $_) } } qw(X-A X-B) ], [ 1, 2 ], 'others stay';

is http_get($port, '/index/')->status, 401, 'index: no token';
is http_get($port, '/index/', @branch)->body, 'the page', 'index: a token';

my $again = http_get($port, '/error/again', token => $account);
is_deeply [ $again->status, roles($again), @{ $t->logged($again) }{qw(reason decision)} ],
    [ 200, [], 'verified', 'allow' ],
    'the second location accepts what the first refused, logs that, and has no other headers';

# post_action: once the answer is sent, and guarded as any request.

sub after ($path, $expect, @o) {
    $upstream->forget;
    my $res = http_get($port, $path, @o);
    eventually(sub { $upstream->count >= $expect });
    select undef, undef, undef, 0.1;
    return ($res->status,
        map { $_->{uri} => [ header_values($_, 'X-Roles') ] }
        $upstream->requests);
}

is_deeply [ after('/after/branch', 1) ], [ 200, '/after/branch' => [] ],
    'post_action: guarded, no token: not asked';
for my $case (
    [ '/after/branch', 'guarded: asked with its headers', [], '/branch/after' => \@ROLES ],
    [ '/after/public', 'public: asked without them', \@ROLES, '/public/after' => [] ],
) {
    my ($path, $name, $roles, %more) = @$case;
    my (undef, %after) = after($path, 2, @branch);
    is_deeply \%after, { $path => $roles, %more }, "post_action: $name";
}

# Pages of the operator are served as they are; the log keeps the refusal.

$res = http_get($port, '/error/file');
is_deeply [ $res->status, $res->body, @{ $t->logged($res) }{qw(decision reason)} ],
    [ 401, 'please log in', 'deny', 'token_missing' ], 'error_page with a file';
like $res->header('WWW-Authenticate'), qr/^Bearer realm="platform"/,
    'error_page with a file: challenge';
$res = http_get($port, '/error/kept');
is_deeply [ $res->status, $res->json->{uri} ], [ 401, '/public' ],
    "error_page with an upstream's page";

# A location that is there for fetches serves nothing else, whoever leads to it.

ok eventually(sub { $feed->count > 1 }), 'the feed is read (control)';
my $fetched = $issuer->count;
my %other = ('/sneak/auth' => 500, '/sneak/mirror' => 200, '/sneak/page' => 200);
for my $way (qw(/from/public?to= /sneak/rewrite /sneak/try /sneak/named /server
    /sneak/error /sneak/page /sneak/auth /sneak/mirror))
{
    for my $case (map { my $to = $_; map { [ $_, $to ] } qw(GET HEAD) } qw(/keys /_feed)) {
        my ($method, $to) = @$case;
        $res = http($port, $method, "$way$to");
        is $res->status, $other{$way} // 404, "$method $way$to";
        unlike $res->body // '', qr/kty|cursor/, 'shows no document';
    }
    like http_get($port, "$way/of/page.html")->body, qr/the page/,
        "$way: leads elsewhere (control)" if $way !~ /error|auth|mirror|from/;
}
my $plain = $t->port('plain');
is http_get(@$_)->status, 404, "$_->[1] at $_->[0]"
    for [ $port, '/keys' ], map { my $at = $_; map { [ $at, $_ ] }
        qw(/_feed /from/public?to=/_feed) } $port, $plain;
is http_get($plain, $_)->status, 200, "$_ (control)"
    for '/from/?to=/else',    # internal, of another name
    '/keys';                  # of that name, and for clients
is $issuer->count, $fetched, 'the issuer is asked for nothing';
is_deeply [ grep { $_->{uri} eq '/second' } $feed->requests ], [],
    'nor is the feed, by a location that no fetch uses';
like $t->nginx->error_log, qr{location "/keys" is for the gateway's own fetches},
    'the log says why';

my $spoofed = "Host: a\r\nX-A: 1\r\nX-Account-Id: spoofed\r\n";
for my $case (
    [ 'no Host', "GET /a HTTP/1.1\r\nX-Roles: spoofed\r\nX-A: 1\r\n\r\n" ],
    [ 'two Hosts', "GET /b HTTP/1.1\r\n${spoofed}Host: b\r\nx_roles: spoofed\r\n\r\n" ],
    [ 'a header too long', "GET /c HTTP/1.1\r\n${spoofed}X-Long: " . 'x' x 3000 . "\r\n\r\n" ],
    [ 'a bad length', "POST /d HTTP/1.1\r\n${spoofed}Content-Length: x\r\n\r\n" ],
    [ 'a body too large', "POST /e HTTP/1.1\r\n${spoofed}Content-Length: 11\r\n\r\n12345678901" ],
) {
    my ($name, $bytes) = @$case;
    $upstream->forget;
    my $raw = http_raw($t->port('errors'), $bytes);
    my $seen = ($upstream->requests)[0] // { headers => [] };
    is_deeply [ header_values($seen, 'X-A') ], ['1'],
        "$name: error_page asks the upstream, with what came so far (control)";
    unlike $raw, qr/spoofed/, "$name: but not context headers";
    my @id = header_values($seen, 'X-Request-Id');
    is_deeply [ scalar @id, $raw =~ /^X-Request-Id: (\S+)\r$/mg ], [ 1, @id ],
        "$name: with one id, as in the response";
}

$t->done;
