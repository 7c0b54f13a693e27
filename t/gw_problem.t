# Problems (RFC 9457): our refusals and nginx's built-in pages become
# application/problem+json; an operator's pages and upstream bodies do not.

use Platform::Test;

my ($t, $key, undef, $upstream) = Platform::Test->gateway;

# Answers whatever the path asks for: /STATUS or /html/STATUS, or hangs.
my $app = $t->http_server('app', sub ($request, @) {
    if ($request->{uri} =~ m{/hang}) { sleep 30; return undef }
    my ($html, $status) = $request->{uri} =~ m{(/html)?/(\d{3})};
    return [ $status,
        [ 'Content-Type' => $html ? 'text/html' : 'application/json',
            'X-Request-Id' => 'of-upstream', 'x-correlation-id' => 'two',
            $status == 401 ? ('WWW-Authenticate' => 'Basic realm="x"') : () ],
        $html ? "<html>\r\n<head><title>$status Own</title></head></html>" : qq({"own":$status}) ];
});

$t->write_file('www/404.html', "<html><head><title>404 Mine</title></head>");
$t->write_file('www/file.html', 'a file');
$t->write_file('www/included.html', 'before <!--#include virtual="/nothing" --> after');

$t->gateway_conf(<<'SERVER', buffers => '2 2k', http => <<'HTTP');
root %%DIR%%/www;
platform_gateway_access public;
platform_gateway_realm 'two words';
location /ours { platform_gateway_route_not_found; }
location /files/ { alias %%DIR%%/www/; }
location /up { %%TO_upstream%% }
location /app { %%TO_app%% location /app/hang { %%TO_app%% proxy_read_timeout 1s; } }
location /down { %%TO_nobody%% }
location /sorry { deny all; }
pass /limit_req: limit_req zone=req;
pass /limit_conn: limit_conn conn 1;
pass /small: client_max_body_size 10;
location /redirects { rewrite ^ /elsewhere redirect; }
location /sub { sub_filter "GATEWAY" "CHANGED"; sub_filter_types *; add_header X-Added yes always; }
location /ssi { ssi on; alias %%DIR%%/www/included.html; }
pass /account: platform_gateway_access account;
pass /two: platform_gateway_access branch system;

# an operator's own pages
location /file_page { error_page 404 /404.html; }
location /text_page { error_page 404 /text; }
location = /text { internal; return 404 "mine"; }
location /copied_page { error_page 404 /copied; }
location = /copied { internal; return 404 "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"; }
location /alike_page { error_page 404 /alike; }
location = /alike { internal; return 404 "<html>\r\n<head><TITLE>404 Mine</TITLE></head>\r\n<center>mine</center>\r\n"; }
location /other_status { error_page 404 =200 /text; }
location /up_page { error_page 404 = @app; }
location @app { rewrite ^ /html/404 break; %%TO_app%% }
location /kept_up_page { error_page 404 @app; }
location /lost_page { error_page 404 /no-such-file.html; }
location /lost_named { error_page 404 @lost; }
location @lost { root /nonexistent; }
pass /guard_page: platform_gateway_access branch; error_page 401 = @signin;
location @signin { return 401 "sign in"; }
pass /guard_other: platform_gateway_access branch; error_page 401 =404 /text;
pass /intercept to app: proxy_intercept_errors on; error_page 418 /text;
pass /intercept_lost to app: proxy_intercept_errors on; error_page 404 /no-such-file.html;
location /off { platform_gateway off; }
SERVER
platform_gateway_token_max_size 2000;
limit_req_zone $binary_remote_addr zone=req:1m rate=1r/m;
limit_req_status 429;
limit_conn_zone $binary_remote_addr zone=conn:1m;
limit_conn_status 429;
client_header_buffer_size 1k;
lingering_timeout 200ms;
gzip on;
gzip_min_length 1;
gzip_types application/problem+json;
charset utf-8;
server_tokens off;
types { text/html html; }
default_type text/html;
HTTP
my $port = $t->start_gateway;
my $good = jwt_token(account => $key);
is http_get($port, '/account', token => $good)->status, 200, 'control: a token';

# A problem of ours, in full.

my $res = http_get($port, '/ours',
    headers => [ 'X-Request-Id' => 'mine-1', 'X-Correlation-Id' => 'c:2' ]);
is $res->body, '{"type":"about:blank","title":"Not Found","status":404,'
    . '"detail":' . JSON::PP->new->allow_nonref->encode($res->json->{detail})
    . ',"code":"GATEWAY_ROUTE_NOT_FOUND","requestId":"mine-1"}', 'members and their order';
is_deeply [ map { $res->header_all($_) } qw(X-Request-Id X-Correlation-Id Content-Length
    Last-Modified ETag Accept-Ranges Content-Encoding) ],
    [ 'mine-1', 'c:2', length $res->body ], 'the ids, once each, the length, and no more';

# nginx's pages and our refusals: [name, method, path, status, code, headers of
# the answer, how it is asked].

sub problems {
    for my $case (@_) {
        my ($name, $method, $path, $status, $code, $has, @o) = @$case;
        my $got = http($port, $method, $path, @o);
        is_problem($got, $status, $code, $name);
        is_deeply [ $got->header_all($_) ], [ $has->{$_} // () ], "$name: $_"
            for qw(Allow Retry-After WWW-Authenticate);
    }
}

sub long { return (headers => [ map { ("X-$_" => 'a' x $_[0]) } 1 .. $_[1] ]) }
my $realm = 'Bearer realm="two words"';
sub invalid {
    return { 'WWW-Authenticate' => qq($realm, error="invalid_token", error_description="$_[0]") };
}
problems(
    [ 'no route', GET => '/ours', 404, 'GATEWAY_ROUTE_NOT_FOUND', {} ],
    [ 'no such file', GET => '/files/none.html', 404, 'GATEWAY_ROUTE_NOT_FOUND', {} ],
    [ 'POST to a file', POST => '/files/file.html', 405, 'METHOD_NOT_ALLOWED',
        { Allow => 'GET, HEAD, OPTIONS' }, body => '' ],
    [ 'TRACE', TRACE => '/files/file.html', 405, 'METHOD_NOT_ALLOWED',
        { Allow => 'GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS' } ],
    [ 'a body too large', POST => '/small', 413, 'GATEWAY_REQUEST_TOO_LARGE', {},
        body => 'x' x 11 ],
    [ 'a URI too long', GET => '/' . 'a' x 3000, 414, 'GATEWAY_URI_TOO_LONG', {} ],
    [ 'a header too large', GET => '/up', 400, 'GATEWAY_HEADER_TOO_LARGE', {}, long(3000, 1) ],
    [ 'too many headers', GET => '/up', 400, 'GATEWAY_HEADER_TOO_LARGE', {}, long(1200, 5) ],
    [ 'Host twice', GET => '/up', 400, 'GATEWAY_BAD_REQUEST', {}, headers => [ Host => 'b' ] ],
    [ 'a bad escape', GET => '/a%ZZ', 400, 'GATEWAY_BAD_REQUEST', {} ],
    [ 'upstream refuses', GET => '/down', 502, 'GATEWAY_UPSTREAM_UNAVAILABLE', {} ],
    [ 'upstream hangs', GET => '/app/hang', 504, 'GATEWAY_UPSTREAM_TIMEOUT', {} ],
    [ 'what another module denies', GET => '/sorry', 403, 'GATEWAY_FORBIDDEN', {} ],
    [ 'no token', GET => '/account', 401, 'GATEWAY_TOKEN_MISSING',
        { 'WWW-Authenticate' => $realm } ],
    [ 'no true token', GET => '/account', 401, 'GATEWAY_TOKEN_INVALID',
        invalid('the token is malformed'), token => 'abc' ],
    [ 'another context', GET => '/two', 403, 'GATEWAY_CONTEXT_FORBIDDEN', { 'WWW-Authenticate' =>
        qq($realm, error="insufficient_scope", scope="BRANCH SYSTEM") }, token => $good ],
);
is http_get($port, '/files/file.html')->body, 'a file', 'control: a file';
is http_post($port, '/small', body => 'x' x 10)->status, 200, 'control: a body that fits';

is http_get($port, '/limit_req')->status, 200, 'control: a first request';
my $slow = Platform::Test::Http->new(port => $port);
$upstream->set(hold => 1);
$slow->send(http_request_bytes(GET => '/limit_conn?hold'));
ok eventually(sub { grep { $_->{uri} =~ /hold/ } $upstream->requests }),
    'limit_conn: one is on its way';
problems(map { [ $_, GET => "/$_", 429, 'GATEWAY_RATE_LIMITED', { 'Retry-After' => 1 } ] }
    'limit_req', 'limit_conn');
$upstream->set(hold => 0);
is $slow->read_response->status, 200, 'control: the first of two';

# HEAD, HTTP/1.0, kept connections, pipelines.

my @same = (headers => [ 'X-Request-Id' => 'same' ]);
my ($head, $get) = map { http($port, $_ => '/account', @same) } qw(HEAD GET);
is_deeply [ $head->status, map { $head->header($_) } qw(Content-Type WWW-Authenticate
    Content-Length) ], [ 401, 'application/problem+json', $realm, length $get->body ],
    'HEAD: the headers of GET';
is http_raw($port, "HEAD /ours HTTP/1.0\r\n\r\n") =~ s/\A.*?\r\n\r\n//sr, '', 'HEAD: no body';
$res = http_get($port, '/ours', version => '1.0');
is_problem($res, 404, 'GATEWAY_ROUTE_NOT_FOUND', 'HTTP/1.0');
is $res->header('Transfer-Encoding'), undef, 'HTTP/1.0: not chunked';

my $c = Platform::Test::Http->new(port => $port);
for my $path ('/ours', '/account', '/files/none', '/down') {
    cmp_ok $c->request($_ => $path, body => 'x' x 20000)->status, '>=', 400, "kept: $_ $path"
        for qw(GET HEAD POST);
}
is $c->request(GET => '/files/file.html')->body, 'a file', 'control: the connection is still good';
$c->send(http_request_bytes(GET => '/ours', connection => 'keep-alive')
    . http_request_bytes(GET => '/files/file.html'));
is_problem($c->read_response, 404, 'GATEWAY_ROUTE_NOT_FOUND', 'pipelined');
is $c->read_response->body, 'a file', 'and what follows';

$res = http_get($port, '/ours', headers => [ 'Accept-Encoding' => 'gzip' ]);
is_deeply [ map { $res->header($_) } qw(Content-Encoding Content-Type) ],
    [ 'gzip', 'application/problem+json' ], 'gzip by its type, and no charset is added';
$res = http_get($port, '/sub');
is_problem($res, 404, 'CHANGED_ROUTE_NOT_FOUND', 'sub_filter works on it');
is $res->header('X-Added'), 'yes', 'and so does add_header';
like http_get($port, '/ssi')->body, qr/^before .*<h1>404 Not Found.* after$/s,
    'a subrequest keeps the page of nginx, and fails no other part';

sub unchanged ($path, $status, $body, $name, %o) {
    my $got = http_get($port, $path, %o);
    is_deeply [ $got->status, $got->body, map { s/^[0-9a-f]{32}$/ours/r } map {
        $got->header_all($_) } qw(X-Request-Id X-Correlation-Id) ],
        [ $status, $body, 'ours', 'ours' ], "$name: as it was, with our ids once each";
    return $got;
}

my ($HTML, $OWN) = ("<html>\r\n<head><title>", ' Own</title></head></html>');
unchanged("/app/$_", $_, qq({"own":$_}), "upstream $_") for 200, 400, 404, 405, 413, 429, 500, 504;
unchanged("/app/html/$_", $_, "$HTML$_$OWN", "upstream page $_") for 404, 500;
is_deeply [ unchanged('/app/401', 401, '{"own":401}', 'upstream 401')
    ->header_all('WWW-Authenticate') ], ['Basic realm="x"'], 'with its own challenge';
unchanged(@$_) for [ '/file_page', 404, '<html><head><title>404 Mine</title></head>', 'a file' ],
    [ '/text_page', 404, 'mine', 'text' ],
    [ '/alike_page', 404, "<html>\r\n<head><TITLE>404 Mine</TITLE></head>\r\n"
            . "<center>mine</center>\r\n", "a page that begins and ends as nginx's" ],
    [ '/other_status', 200, 'mine', 'another status' ],
    [ '/up_page', 404, "${HTML}404$OWN", 'upstream' ],
    [ '/kept_up_page', 404, "${HTML}404$OWN", 'upstream, our status' ],
    [ '/intercept/418', 418, 'mine', 'an intercepted error' ];
like unchanged('/copied_page', 404, http_get($port, '/off/x')->body,
    'the very bytes of nginx')->header('Content-Type'), qr{^text/html}, 'and their type';
is_deeply [ map { unchanged(@$_)->header('WWW-Authenticate') }
    [ '/guard_page', 401, 'sign in', 'error_page of a refusal' ],
    [ '/guard_other', 404, 'mine', 'error_page of another status' ] ], [ $realm, undef ],
    'the first of which still challenges';
$res = http($port, HEAD => '/text_page', headers => [ 'Accept-Encoding' => 'gzip' ]);
is_deeply [ $res->status, map { $res->header($_) } qw(Content-Type Content-Encoding) ],
    [ 404, 'text/html; charset=utf-8', 'gzip' ], 'HEAD of an own page, and filters work on it';
like http_get($port, '/redirects')->body, qr/302 Found/, 'pages that are no errors stay';
$res = http_get($port, '/off/x');
like $res->body, qr/<h1>404 Not Found/, 'and all where the gateway is off';
is $res->header('X-Request-Id'), undef, 'no ids there';

# Pages of nginx after an error_page are problems again.

is_problem(http_get($port, $_), 404, 'GATEWAY_ROUTE_NOT_FOUND', $_)
    for '/lost_page', '/lost_named', '/intercept_lost/404';
is http_get($port, '/intercept_lost/403')->body, '{"own":403}', 'control: not intercepted';

$t->done;
