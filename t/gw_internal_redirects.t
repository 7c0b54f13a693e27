# The location that serves decides, however the request came to it; headers
# injected for one location are gone before the next one decides.

use Platform::Test;
use Platform::Test::Revocations;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $issuer = $t->issuer(body => jwks($key));
my $feed = revocations_feed($t);
my $upstream = $t->echo_upstream;
$t->http_server(accel => sub ($request, @) {
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
location /error/guarded {
    platform_gateway_access public;
    error_page 502 = @branch;
    proxy_pass http://127.0.0.1:1;
}
pass /error/again: platform_gateway_access branch; error_page 401 403 = @account;
pass @account: platform_gateway_access account;
pass /error/file: platform_gateway_access branch; error_page 401 /page.html;
location = /page.html { internal; platform_gateway_access public; }

# Into a location that is there for fetches.
location /sneak/ {
    platform_gateway_access public;
    location ~ ^/sneak/rewrite(/.*) { rewrite ^/sneak/rewrite(.*) $1 last; }
    location ~ ^/sneak/try(?<to>/.*) { try_files /none $to; }
    location = /sneak/error/keys { return 418; error_page 418 =200 /keys; }
    location = /sneak/error/_feed { return 418; error_page 418 =200 /_feed; }
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
    location /from/ { proxy_pass http://127.0.0.1:%%PORT_accel%%; }
    location = /else { internal; proxy_pass http://127.0.0.1:%%PORT_feed%%; }
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


my %token = map { $_ => jwt_token($_ => $key) } qw(account branch);

sub roles { return [ header_values($_[0]->json, 'X-Roles') ] }

# [path, without a token, with the branch token, roles then]
my @cases = (
    [ '/from/public?to=/public', 200, 200, [] ],
    [ '/from/public?to=/branch', 401, 200, ['manager,cashier'] ],
    [ '/from/public?to=/account', 401, 403 ],
    [ '/from/public?to=@branch', 401, 200, ['manager,cashier'] ],
    [ '/from/public?to=/renamed', 401, 200, [] ],
    [ '/from/branch?to=/public', 401, 200, [] ],
    [ '/from/branch?to=@public', 401, 200, [] ],
    [ '/from/branch?to=/off', 401, 200, [] ],
    [ '/from/branch?to=/branch', 401, 200, ['manager,cashier'] ],
    [ '/from/branch?to=/renamed', 401, 200, [] ],
    [ '/from/branch?to=/account', 401, 403 ],
    [ '/try/branch', 401, 200, ['manager,cashier'] ],
    [ '/try/public', 401, 200, [] ],
    [ '/try/posts', 401, 405 ],
    [ '/rewritten', 401, 200, ['manager,cashier'] ],
    [ '/error/public', 200, 200, ['manager,cashier'] ],
    [ '/error/guarded', 401, 200, ['manager,cashier'] ],
    [ '/error/again', 401, 200, ['manager,cashier'] ],
);
for my $case (@cases) {
    my ($path, $bare, $with, $roles) = @$case;

    my @spoof = (headers => [ 'X-Roles' => 'spoofed' ]);
    my $res = http_get($port, $path, @spoof);
    is $res->status, $bare, "$path, no token: $bare";
    unlike $res->body, qr/spoofed|X-Roles|X-Account/, "$path: nothing leaks";

    $res = http_get($port, $path, @spoof, token => $token{branch});
    is $res->status, $with, "$path, branch token: $with";
    is_deeply roles($res), $roles, "$path: roles" if $roles;
    unlike $res->body, qr/spoofed/, "$path: still none of the client's";
}

my $res = http_get($port, '/from/public?to=/renamed', token => $token{branch});
is_deeply [ header_values($res->json, 'X-Their-Roles') ],
    ['manager,cashier'], 'the map of the last location';

# The token survives a location that hides it from its own upstream.

$res = http_get($port, '/from/branch?to=/branch', token => $token{branch},
    headers => [ 'X-A' => 1, 'X-B' => 2 ]);
is_deeply [ header_values($res->json, 'Authorization') ],
    [ "Bearer $token{branch}" ], 'Authorization is put back, once';
my ($hidden) = grep { $_->{uri} =~ m{^/from/branch} }
    reverse map { $_->requests } grep { ref =~ /Server/ && $_->{name} eq 'accel' }
    @{ $t->{running} };
is_deeply [ header_values($hidden, 'Authorization') ], [], 'the first upstream did not see it';
is_deeply [ map { header_values($res->json, $_) } qw(X-A X-B) ], [ 1, 2 ], 'others stay';

# index: the directory is public, the page is not.

is http_get($port, '/index/')->status, 401, 'index: no token';
is http_get($port, '/index/', token => $token{branch})->body, 'the page', 'index: a token';

# A redirect from one guarded location to another, each with its own answer.

my $again = http_get($port, '/error/again', token => $token{account});
is $again->status, 200, 'the second location accepts what the first refused';
is $t->logged($again)->{reason}, 'verified', 'and is the one that is logged';
is $t->logged($again)->{decision}, 'allow', 'as allowed';
is_deeply roles(http_get($port, '/error/again', token => $token{account})), [],
    'with the headers of that token only';

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

my @roles = ('manager,cashier');
is_deeply [ after('/after/branch', 1) ], [ 200, '/after/branch' => [] ],
    'post_action: guarded, no token: not asked';
my ($status, %after) = after('/after/branch', 2, token => $token{branch});
is_deeply \%after, { '/after/branch' => [], '/branch/after' => \@roles },
    'post_action: guarded, a token: asked with its headers';
($status, %after) = after('/after/public', 2, token => $token{branch});
is_deeply \%after, { '/after/public' => \@roles, '/public/after' => [] },
    'post_action: public: asked without them';

# Pages of the operator are served as they are; the log keeps the refusal.

$res = http_get($port, '/error/file');
is $res->status, 401, 'error_page with a file: status';
is $res->body, 'please log in', 'error_page with a file: body';
like $res->header('WWW-Authenticate'), qr/^Bearer realm="platform"/,
    'error_page with a file: challenge';
my $line = $t->logged($res);
is $line->{decision}, 'deny', 'error_page with a file: logged as refused';
is $line->{reason}, 'token_missing', 'error_page with a file: with the reason';

$res = http_get($port, '/error/kept');
is $res->status, 401, "error_page with an upstream's page: status";
is $res->json->{uri}, '/public', "error_page with an upstream's page: body";

# A location that is there for fetches serves nothing else, whoever leads to it.

ok eventually(sub { $feed->count > 1 }), 'the feed is read (control)';
my $fetched = $issuer->count;
for my $way (qw(/from/public?to= /sneak/rewrite /sneak/try /sneak/named /server
    /sneak/error /sneak/page /sneak/auth /sneak/mirror))
{
    for my $to (qw(/keys /_feed)) {
        for my $method (qw(GET HEAD)) {
            $res = http($port, $method, "$way$to");
            my %other = ('/sneak/auth' => 500, '/sneak/mirror' => 200, '/sneak/page' => 200);
            is $res->status, $other{$way} // 404, "$method $way$to";
            unlike $res->body // '', qr/kty|cursor/, 'shows no document';
        }
    }
    next if $way =~ /error|auth|mirror/;
    like http_get($port, "$way/of/page.html")->body, qr/the page/,
        "$way: leads elsewhere (control)"
        if $way !~ /from/;
}
my $plain = $t->port('plain');
is http_get(@$_)->status, 404, "$_->[1] at $_->[0]"
    for [ $port, '/keys' ], map { my $at = $_; map { [ $at, $_ ] }
        qw(/_feed /from/public?to=/_feed) } $port, $plain;
is http_get($plain, $_)->status, 200, "$_ (control)"
    for '/from/?to=/else',    # internal, of another name
    '/keys';                  # of that name, and for clients
is $issuer->count, $fetched, 'the issuer is asked for nothing';
is scalar(grep { $_->{uri} eq '/second' } $feed->requests), 0,
    'nor is the feed, by a location that no fetch uses';
like $t->nginx->error_log, qr{location "/keys" is for the gateway's own fetches},
    'the log says why';

# Requests that nginx refused while reading them.

my $big = 'x' x 3000;
my @broken = (
    [ 'no Host', "GET /a HTTP/1.1\r\nX-Roles: spoofed\r\nX-A: 1\r\n\r\n" ],
    [ 'two Hosts', "GET /b HTTP/1.1\r\nX-Roles: spoofed\r\nX-A: 1\r\n"
        . "Host: a\r\nHost: b\r\nx_roles: spoofed\r\n\r\n" ],
    [ 'a header too long', "GET /c HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n"
        . "X-Account-Id: spoofed\r\nX-Long: $big\r\n\r\n" ],
    [ 'a bad length', "POST /d HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n"
        . "X-Account-Id: spoofed\r\nContent-Length: x\r\n\r\n" ],
    [ 'a body too large', "POST /e HTTP/1.1\r\nHost: a\r\nX-A: 1\r\n"
        . "X-Account-Id: spoofed\r\nContent-Length: 11\r\n\r\n12345678901" ],
);
for my $case (@broken) {
    my ($name, $bytes) = @$case;

    $upstream->forget;
    my $raw = http_raw($t->port('errors'), $bytes);
    my ($seen) = $upstream->requests;
    ok $seen, "$name: error_page asks the upstream (control)";
    is_deeply [ header_values($seen, 'X-A') ], ['1'],
        "$name: what came so far is passed on (control)";
    unlike $raw, qr/spoofed/, "$name: but not context headers";
    my @id = header_values($seen, 'X-Request-Id');
    is scalar @id, 1, "$name: with one id";
    like $raw, qr/^X-Request-Id: \Q$id[0]\E\r$/m, "$name: as in the response";
}

$t->done;
