# Problems (RFC 9457): our refusals and nginx's built-in pages become
# application/problem+json; an operator's pages and upstream bodies do not.

use Platform::Test;

my $t = Platform::Test->new;
my $key = jwt_key('a');
$t->issuer(body => jwks($key));
my $upstream = $t->echo_upstream;

# Answers whatever the path asks for: /STATUS or /html/STATUS, or hangs.
my $app = $t->http_server('app', sub ($request, @) {
    if ($request->{uri} =~ m{/hang}) { sleep 30; return undef }
    my ($status) = $request->{uri} =~ m{/(\d{3})};
    my $html = $request->{uri} =~ m{/html/};
    return [ $status,
        [ 'Content-Type' => $html ? 'text/html' : 'application/json',
            'X-Request-Id' => 'of-upstream', 'x-correlation-id' => 'two',
            ($status == 401 ? ('WWW-Authenticate' => 'Basic realm="x"') : ())
        ],
        $html ? "<html>\r\n<head><title>$status Own</title></head></html>"
        : qq({"own":$status}) ];
});

$t->write_file('www/404.html', "<html><head><title>404 Mine</title></head>");
$t->write_file('www/file.html', 'a file');
$t->write_file('www/included.html', 'before <!--#include virtual="/nothing" --> after');

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
root %%DIR%%/www;
platform_gateway_access public;
platform_gateway_realm 'two words';
location /ours { platform_gateway_route_not_found; }
location /files/ { alias %%DIR%%/www/; }
location /up { %%TO_upstream%% }
location /app { %%TO_app%% proxy_read_timeout 1s; }
location /down { %%TO_nobody%% }
location /returns { return 200; }
location /maintenance { rewrite ^ /sorry last; }
location /sorry { deny all; }
location /limit_req { limit_req zone=req; %%TO_upstream%% }
location /limit_conn { limit_conn conn 1; %%TO_upstream%% }
location /small { client_max_body_size 10; %%TO_upstream%% }
location /redirects { rewrite ^ /elsewhere redirect; }
location /sub {
    sub_filter "GATEWAY" "CHANGED"; sub_filter "Mine" "Changed"; sub_filter_types *;
    add_header X-Added yes always;
}
location /ssi { ssi on; alias %%DIR%%/www/included.html; }
location /account { platform_gateway_access account; %%TO_upstream%% }
location /two { platform_gateway_access branch system; %%TO_upstream%% }

# an operator's own pages
location /file_page { error_page 404 /404.html; }
location /text_page { error_page 404 /text; }
location = /text { internal; return 404 "mine"; }
location /copied_page { error_page 404 /copied; }
location = /copied { internal; return 404 "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>\r\n<hr><center>nginx</center>\r\n</body>\r\n</html>\r\n"; }
location /named_page { error_page 404 @named; }
location @named { return 404 "named"; }
location /other_status { error_page 404 =200 /text; }
location /up_page { error_page 404 = @app; }
location @app { rewrite ^ /html/404 break; %%TO_app%% }
location /kept_up_page { error_page 404 @app_too; }
location @app_too { rewrite ^ /html/404 break; %%TO_app%% }
location /lost_page { error_page 404 /no-such-file.html; }
location /lost_named { error_page 404 @lost; }
location @lost { root /nonexistent; }
location /moved_page { error_page 404 http://other.test/; }
location /sub_page { sub_filter Mine Changed; error_page 404 /404.html; }
location /guard_page { platform_gateway_access branch; error_page 401 = @signin; %%TO_upstream%% }
location @signin { return 401 "sign in"; }
location /guard_other { platform_gateway_access branch; error_page 401 =404 /text; %%TO_upstream%% }
location /intercept { proxy_intercept_errors on; error_page 418 /text; %%TO_app%% }
location /intercept_lost {
    proxy_intercept_errors on;
    error_page 404 /no-such-file.html;
    %%TO_app%%
}
location /off { platform_gateway off; }
SERVER
platform_gateway_token_max_size 2000;
limit_req_zone $binary_remote_addr zone=req:1m rate=1r/m;
limit_req_status 429;
limit_conn_zone $binary_remote_addr zone=conn:1m;
limit_conn_status 429;
large_client_header_buffers 2 2k;
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
is_deeply [ map { $res->header_all($_) } qw(X-Request-Id X-Correlation-Id) ],
    [ 'mine-1', 'c:2' ], 'the ids, once each';
is $res->header('Content-Length'), length $res->body, 'Content-Length';
is $res->header($_), undef, "no $_" for qw(Last-Modified ETag Accept-Ranges Content-Encoding);

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
    (map { [ "Host: $_", GET => '/up', 400, 'GATEWAY_BAD_REQUEST', {}, headers => [ Host => $_ ] ] }
        'twice', 'a/b'),
    [ 'a bad escape', GET => '/a%ZZ', 400, 'GATEWAY_BAD_REQUEST', {} ],
    [ 'upstream refuses', GET => '/down', 502, 'GATEWAY_UPSTREAM_UNAVAILABLE', {} ],
    [ 'upstream hangs', GET => '/app/hang', 504, 'GATEWAY_UPSTREAM_TIMEOUT', {} ],
    [ 'what another module denies', GET => '/sorry', 403, 'GATEWAY_FORBIDDEN', {} ],
    [ 'no token', GET => '/account', 401, 'GATEWAY_TOKEN_MISSING',
        { 'WWW-Authenticate' => $realm } ],
    [ 'no true token', GET => '/account', 401, 'GATEWAY_TOKEN_INVALID',
        invalid('the token is malformed'), token => 'abc' ],
    [ 'an expired token', GET => '/account', 401, 'GATEWAY_TOKEN_EXPIRED',
        invalid('the token has expired'),
        token => jwt_token(account => $key, exp => time - 300, iat => time - 400) ],
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

# Request lines that nobody can parse.

for my $bytes ("\r\n\x00\r\n\r\n", "nonsense\r\n\r\n", "GET\r\n\r\n",
    "GET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\nbad\x00: b\r\n\r\n",
    "\x16\x03\x01\x02\x00\x01\x00\n", "GET /\r\n", "GET / HTTP/x\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: x\r\n\r\n",
    "POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n"
        . "Transfer-Encoding: chunked\r\n\r\n")
{
    (my $name = $bytes) =~ s/([^ -~])/sprintf '\\x%02x', ord $1/ge;
    my $raw = http_raw($port, $bytes);
    like $raw, qr{\AHTTP/1\.1[ ]400[ ][^\r]*\r\n.*^X-Request-Id:[ ]([0-9a-f]{32})\r$
        .*^\r\n\{.*"code":"GATEWAY_BAD_REQUEST","requestId":"\1"\}\z}smx, "400: $name";
    my @ids = $raw =~ /^X-(?:Request|Correlation)-Id:/gm;
    is scalar @ids, 2, '   with both ids once';
}

my %other = (
    501 => "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
    505 => "GET / HTTP/3.0\r\n\r\n",
);
like http_raw($port, $other{$_}), qr/^HTTP\/1\.1 $_ .*"status":$_,.*"code":"GATEWAY_ERROR"/s,
    "what nginx cannot do: $_" for sort keys %other;

# HEAD, HTTP/1.0, kept connections, pipelines.

my $get = http_get($port, '/ours', headers => [ 'X-Request-Id' => 'same' ]);
my $head = http($port, 'HEAD', '/ours', headers => [ 'X-Request-Id' => 'same' ]);
is $head->status, 404, 'HEAD: 404';
is $head->header('Content-Length'), length $get->body, 'HEAD: the length';
is $head->header('Content-Type'), 'application/problem+json', 'HEAD: type';
is http_raw($port, "HEAD /ours HTTP/1.0\r\n\r\n") =~ s/\A.*?\r\n\r\n//sr, '', 'HEAD: no body';
$res = http_get($port, '/ours', version => '1.0');
is_problem($res, 404, 'GATEWAY_ROUTE_NOT_FOUND', 'HTTP/1.0');
is $res->header('Transfer-Encoding'), undef, 'HTTP/1.0: not chunked';

my $c = Platform::Test::Http->new(port => $port);
for my $path ('/ours', '/account', '/files/none', '/down') {
    for my $method (qw(GET HEAD POST)) {
        $res = $c->request($method => $path, $method eq 'POST' ? (body => 'x' x 20000) : ());
        ok $res && $res->status >= 400, "kept: $method $path";
    }
}
is $c->request(GET => '/files/file.html')->body, 'a file', 'control: the connection is still good';
$c->send(http_request_bytes(GET => '/ours', connection => 'keep-alive')
    . http_request_bytes(GET => '/files/file.html'));
is_problem($c->read_response, 404, 'GATEWAY_ROUTE_NOT_FOUND', 'pipelined');
is $c->read_response->body, 'a file', 'and what follows';
# Filters see a problem, not a page.

$res = http_get($port, '/ours', headers => [ 'Accept-Encoding' => 'gzip' ]);
is $res->header('Content-Encoding'), 'gzip', 'gzip by its type';
is $res->header('Content-Type'), 'application/problem+json', 'no charset is added';
$res = http_get($port, '/sub');
is_problem($res, 404, 'CHANGED_ROUTE_NOT_FOUND', 'sub_filter works on it');
is $res->header('X-Added'), 'yes', 'and so does add_header';
$res = http_get($port, '/ssi');
is $res->status, 200, 'an included error does not fail the whole';
like $res->body, qr/^before .*<h1>404 Not Found.* after$/s, 'a subrequest keeps the page of nginx';

# What is not ours passes.

sub unchanged ($path, $status, $body, $name, %o) {
    my $got = http_get($port, $path, %o);
    is $got->status, $status, "$name: status";
    is $got->body, $body, "$name: body as it was";
    is scalar(my @id = $got->header_all('X-Request-Id')), 1, "$name: id once";
    isnt $got->header('X-Request-Id'), 'of-upstream', "$name: id of ours";
    is scalar(@id = $got->header_all('X-Correlation-Id')), 1, "$name: correlation id once";
    return $got;
}

unchanged("/app/$_", $_, qq({"own":$_}), "upstream $_")
    for 200, 400, 404, 405, 413, 429, 500, 502, 503, 504;
unchanged("/app/html/$_", $_,
    "<html>\r\n<head><title>$_ Own</title></head></html>", "upstream page $_") for 404, 500;
is_deeply [ unchanged('/app/401', 401, '{"own":401}', 'upstream 401')
    ->header_all('WWW-Authenticate') ], ['Basic realm="x"'], 'with its own challenge';
my $theirs = "<html>\r\n<head><title>404 Own</title></head></html>";
unchanged(@$_) for [ '/file_page', 404, '<html><head><title>404 Mine</title></head>', 'a file' ],
    [ '/text_page', 404, 'mine', 'text' ], [ '/named_page', 404, 'named', 'a named location' ],
    [ '/other_status', 200, 'mine', 'another status' ], [ '/up_page', 404, $theirs, 'upstream' ],
    [ '/kept_up_page', 404, $theirs, 'upstream, our status' ],
    [ '/intercept/418', 418, 'mine', 'an intercepted error' ];
like unchanged('/copied_page', 404, http_get($port, '/off/x')->body,
    'the very bytes of nginx')->header('Content-Type'), qr{^text/html}, 'and their type';
$res = unchanged('/guard_page', 401, 'sign in', 'error_page of a refusal');
is $res->header('WWW-Authenticate'), $realm, 'which still challenges';
$res = unchanged('/guard_other', 404, 'mine', 'error_page of another status');
is $res->header('WWW-Authenticate'), undef, 'which does not';
like http_get($port, '/sub_page')->body, qr/404 Mine/, 'an error page belongs to its own location';
like http($port, 'HEAD', '/text_page')->header('Content-Type'),
    qr{^text/html}, 'HEAD of an own page: its type';
is http($port, 'HEAD', '/text_page')->header('Content-Length'), 4,
    'HEAD of an own page: its length';
$c = Platform::Test::Http->new(port => $port);
is $c->request(HEAD => '/text_page')->status, 404, 'HEAD, connection kept';
is $c->request(GET => '/text_page')->body, 'mine', 'nothing was left over';
$res = http_get($port, '/text_page', headers => [ 'Accept-Encoding' => 'gzip' ]);
is $res->header('Content-Encoding'), 'gzip', 'filters work on own pages too';
is http_get($port, '/moved_page')->status, 302, 'a redirect';
like http_get($port, '/redirects')->body, qr/302 Found/, 'pages that are no errors stay';
like http_get($port, '/off/x')->body, qr/<h1>404 Not Found/, 'and all where the gateway is off';
is http_get($port, '/off/x')->header('X-Request-Id'), undef, 'no ids there';

# Pages of nginx after an error_page are problems again.

is_problem(http_get($port, $_), 404, 'GATEWAY_ROUTE_NOT_FOUND', $_)
    for '/lost_page', '/lost_named', '/intercept_lost/404';
is http_get($port, '/intercept_lost/403')->body, '{"own":403}',
    'control: one that is not intercepted';

$t->done;
