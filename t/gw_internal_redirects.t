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

$t->set(PUBLIC => 'platform_gateway_access public;', BRANCH => 'platform_gateway_access branch;');
$t->gateway_conf(<<'SERVER', buffers => '4 32k', http => <<'HTTP');
root %%DIR%%/www;
pass /public: %%PUBLIC%%
pass /off: platform_gateway off;
pass /branch: %%BRANCH%%
pass /account: platform_gateway_access account;
pass /renamed: %%BRANCH%% platform_gateway_claim_header roles X-Their-Roles;
pass @branch: %%BRANCH%%
pass @public: %%PUBLIC%%
pass @posts: %%BRANCH%% platform_gateway_methods POST;

# X-Accel-Redirect
pass /from/public to accel: %%PUBLIC%%
location /from/branch { %%BRANCH%% platform_gateway_forward_authorization off; %%TO_accel%% }

# try_files, rewrite, index
location /try/branch { %%PUBLIC%% try_files /nothing @branch; }
location /try/public { %%BRANCH%% try_files /nothing @public; }
location /try/posts { %%BRANCH%% try_files /nothing @posts; }
location /rewritten { %%PUBLIC%% rewrite ^ /branch last; }
location /index/ { %%PUBLIC%% index page.html; }
location = /index/page.html { %%BRANCH%% }

# post_action
pass /after/branch: %%PUBLIC%% post_action /branch/after;
pass /after/public: %%BRANCH%% post_action /public/after;

# error_page
pass /error/public: %%BRANCH%% error_page 401 403 = /public;
pass /error/kept: %%BRANCH%% error_page 401 /public;
pass /error/guarded to nobody: %%PUBLIC%% error_page 502 = @branch;
pass /error/again: %%BRANCH%% error_page 401 403 = @account;
pass @account: platform_gateway_access account;
pass /error/file: %%BRANCH%% error_page 401 /page.html;
location = /page.html { internal; %%PUBLIC%% }

# Into a location that is there for fetches.
location /sneak/ {
    %%PUBLIC%%
    location ~ ^/sneak/rewrite(/.*) { rewrite ^/sneak/rewrite(.*) $1 last; }
    location ~ ^/sneak/try(?<to>/.*) { try_files /none $to; }
    location ~ ^/sneak/error(?<to>/.*) { return 418; error_page 418 =200 $to; }
    location ~ ^/sneak/named(?<to>/.*) { try_files /none @sneak; }
    location ~ ^/sneak/page/ { ssi on; ssi_types *; root %%DIR%%/www; }
    location = /sneak/auth/keys { auth_request /keys; empty_gif; }
    location = /sneak/auth/_feed { auth_request /_feed; empty_gif; }
    location = /sneak/mirror/keys { mirror /keys; empty_gif; }
    location = /sneak/mirror/_feed { mirror /_feed; empty_gif; }
    platform_gateway_allow_return on;
}
location @sneak { %%PUBLIC%% rewrite ^/sneak/named(/.*) $1 last; }
rewrite ^/server(/.*) $1;
location = /of/page.html { internal; %%PUBLIC%% }
location = /_feed {    # not what is fetched: the server above has that
    internal; %%PUBLIC%% proxy_pass http://127.0.0.1:%%PORT_feed%%/second;
}
SERVER
platform_gateway_revocations zone=revocations:1m uri=/_feed;

server {    # where the gateway is off, and the feed's location is
    listen 127.0.0.1:%%PORT_plain%%;
    location = /_feed {
        internal; subrequest_output_buffer_size 1m; %%TO_feed%% limit_except POST { allow all; }
    }
    location /from/ { %%TO_accel%% }
    location = /error { return 418; error_page 418 =200 /_feed; }
    location = /sneak/page/_feed { ssi on; ssi_types *; root %%DIR%%/www; }
    location = /else { internal; %%TO_feed%% }
    location = /keys { empty_gif; }
}
server {    # what nginx refuses while it reads goes to an upstream all the same
    listen 127.0.0.1:%%PORT_errors%%;
    platform_gateway on; error_page 400 413 414 494 /error;
    client_max_body_size 10; large_client_header_buffers 2 2k;
    pass /: %%PUBLIC%%
}
HTTP
$t->write_file("www/$_/page.html", 'the page') for qw(index of);
$t->write_file('www/page.html', 'please log in');
$t->write_file("www/sneak/page$_", qq{<!--# include virtual="$_" -->})
    for qw(/keys /_feed /of/page.html);
my $port = $t->start_gateway;

my ($account, $branch) = map { jwt_token($_ => $key) } qw(account branch);
my @branch = (token => $branch);
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
    [ '/index/', 401, 200 ],
) {
    my ($path, $bare, $with, $roles) = @$case;
    my ($none, $some) = map { http_get($port, $path, headers => [ 'X-Roles' => 'spoofed' ], @$_) }
        [], \@branch;
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
is_deeply [ map { @{ roles($res, $_) } } qw(Authorization X-A X-B) ], [ "Bearer $branch", 1, 2 ],
    'Authorization is put back, once, others stay';
is_deeply [ header_values(($accel->requests)[0], 'Authorization') ], [],
    'the first upstream did not see it';

my $again = http_get($port, '/error/again', token => $account);
is_deeply [ $again->status, roles($again), @{ $t->logged($again) }{qw(reason decision)} ],
    [ 200, [], 'verified', 'allow' ],
    'the second location accepts what the first refused, logs that, and has no other headers';

# post_action: once the answer is sent, and guarded as any request.

sub after ($path, $expect, @o) {
    $upstream->forget;
    http_get($port, $path, @o);
    eventually(sub { $upstream->count >= $expect });
    sleep 0.1;
    return { map { $_->{uri} => [ header_values($_, 'X-Roles') ] } $upstream->requests };
}

is_deeply after(@{ $_->[0] }), $_->[1], "post_action: $_->[2]" for
    [ [ '/after/branch', 1 ], { '/after/branch' => [] }, 'guarded, no token: not asked' ],
    [ [ '/after/branch', 2, @branch ], { '/after/branch' => [], '/branch/after' => \@ROLES },
        'guarded: asked with its headers' ],
    [ [ '/after/public', 2, @branch ], { '/after/public' => \@ROLES, '/public/after' => [] },
        'public: asked without them' ];

# Pages of the operator are served as they are; the log keeps the refusal.

$res = http_get($port, '/error/file');
is_deeply [ $res->status, $res->body, @{ $t->logged($res) }{qw(decision reason)},
    $res->header('WWW-Authenticate') ], [ 401, 'please log in', 'deny', 'token_missing',
    'Bearer realm="platform"' ], 'error_page with a file';
$res = http_get($port, '/error/kept');
is_deeply [ $res->status, $res->json->{uri} ], [ 401, '/public' ], "or an upstream's page";

# A location that is there for fetches serves nothing else, whoever leads to it; one of
# that name in another server does.

ok eventually(sub { $feed->count > 1 }), 'the feed is read (control)';
my $fetched = $issuer->count;
sub second { return scalar grep { $_->{uri} eq '/second' } $feed->requests }
my %other = ('/sneak/auth' => 500, '/sneak/mirror' => 200, '/sneak/page' => 200);
for my $way (qw(/from/public?to= /sneak/rewrite /sneak/try /sneak/named /server
    /sneak/error /sneak/page /sneak/auth /sneak/mirror))
{
    for my $method (qw(GET HEAD)) {
        $res = http($port, $method, "$way/keys");
        is $res->status, $other{$way} // 404, "$method $way/keys";
        unlike $res->body // '', qr/kty/, 'shows no document';
    }
    my $second = second();
    is http_get($port, "$way/_feed")->status, 200, "$way/_feed: is served";
    ok eventually(sub { second() > $second }), 'by what it passes to';
    like http_get($port, "$way/of/page.html")->body, qr/the page/,
        "$way: leads elsewhere (control)" if $way !~ /error|auth|mirror|from/;
}
my $plain = $t->port('plain');
for my $when ('', ', after a reload') {
    is http_get(@$_[ 0, 1 ])->status, $_->[2] // 404, "$_->[1] at $_->[0]$when"
        for [ $port, '/keys' ], [ $port, '/from/public?to=/keys' ],
        map({ [ $_, '/_feed' ] } $port, $plain),
        map({ [ $plain, $_ ] } qw(/from/?to=/_feed /error)),
        [ $port, '/from/public?to=/_feed', 200 ],
        [ $plain, '/from/?to=/else', 200 ],    # internal, of another name (control)
        [ $plain, '/keys', 200 ];              # of that name, and for clients (control)
    $res = http_get($plain, '/sneak/page/_feed');
    is_deeply [ $res->status, $res->body =~ /cursor/ ], [200], "a page shows no document$when";
    next if $when;
    is $issuer->count, $fetched, 'the issuer is asked for nothing';
    ok $t->reload, 'a reload';
    $feed->forget;
    ok eventually(sub { grep { $_->{uri} !~ /second/ } $feed->requests }), 'the feed is read on';
}
like $t->nginx->error_log, qr{"/keys" is for the gateway's own fetches}, 'the log says why';

# Bad requests that an error_page sends through all phases: [name, what comes so far
# (control), bytes].

my $spoofed = "Host: a\r\nX-A: 1\r\nX-Account-Id: spoofed\r\n";
for my $case (
    [ 'HTTP/0.9', [], "GET /\r\n" ], [ 'a bad request line', [], "G\x01ET / HTTP/1.1\r\n\r\n" ],
    [ 'no Host', [1], "GET /a HTTP/1.1\r\nX-Roles: spoofed\r\nX-A: 1\r\n\r\n" ],
    map { my ($name, $method, $more) = @$_;
        [ $name, [1], "$method /b HTTP/1.1\r\n$spoofed$more" ] }
    [ 'two Hosts', GET => "Host: b\r\nx_roles: spoofed\r\n\r\n" ],
    [ 'a header too long', GET => 'X-Long: ' . 'x' x 3000 . "\r\n\r\n" ],
    [ 'a bad length', POST => "Content-Length: x\r\n\r\n" ],
    [ 'a body too large', POST => "Content-Length: 11\r\n\r\n12345678901" ],
) {
    my ($name, $came, $bytes) = @$case;
    $upstream->forget;
    my $raw = http_raw($t->port('errors'), $bytes);
    my $seen = ($upstream->requests)[0] // { headers => [] };
    my @id = header_values($seen, 'X-Request-Id');
    is_deeply [ [ header_values($seen, 'X-A') ], scalar @id, $raw =~ /^X-Request-Id: (\S+)\r$/mg ],
        [ $came, 1, @id ], "$name: error_page asks the upstream, with one id, as in the response";
    unlike $raw, qr/spoofed/, "$name: but no context headers";
}

$t->done;
