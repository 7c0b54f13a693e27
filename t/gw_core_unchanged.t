# What nginx does without the module it does with it: the same requests to two
# servers, one without the module and one where it is loaded and on, public.
# Answers, and what reached the upstream, are compared byte by byte, but for the
# date and the ids; of pages that nginx itself would write, which are problems
# here (gw_problem.t), all but type, length, caching and body.

use MIME::Base64 qw(encode_base64);
use Platform::Test;

my $t = Platform::Test->new(module => 0);
$t->echo_upstream;
$t->echo_fastcgi;
my $OK = "HTTP/1.1 200 OK\r\n";
my %raw = (chunked => "${OK}Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    short => "${OK}Content-Length: 100\r\n\r\nshort", nonsense => 'nonsense',
    hints => "HTTP/1.1 103 Early Hints\r\nLink: <a>\r\n\r\n${OK}Content-Length: 2\r\n\r\nok");
$t->http_server(origin => sub ($request, @) {
    my $uri = $request->{uri};
    my @h = ('Content-Type' => 'text/plain', 'X-Own' => 'a', 'X-Own' => 'b',
        'Set-Cookie' => 'a=1; Path=/', 'Set-Cookie' => 'b=2',
        'Last-Modified' => 'Mon, 01 Jan 2024 00:00:00 GMT', ETag => '"abc"');
    return \$raw{$1} if $uri =~ /(chunked|short|nonsense|hints)/;
    return undef if $uri =~ /hangup/;
    return [ 304, [ ETag => '"abc"' ], '' ]
        if Platform::Test::Server::header($request, 'if-none-match') eq '"abc"';
    return [ 302, [ Location => 'http://origin.test/next' ], '' ] if $uri =~ /redirect/;
    return [ 200, [ @h, 'Cache-Control' => 'max-age=3600',
        'Accept-Ranges' => 'bytes' ], "cached $uri\n" ] if $uri =~ /cache/;
    return [ 200, [ @h, 'Cache-Control' => 'private' ], "private\n" ] if $uri =~ /private/;
    return [ $1, [ @h, 'Retry-After' => 7 ], "status $1\n" ] if $uri =~ /status=(\d+)/;
    return [ 200, \@h, 'x' x ($uri =~ /large/ ? 300_000 : 2000) . "\n" ];
});
$t->http_server(accel => sub { [ 200, [ 'X-Accel-Redirect' => '/b.txt', 'X-Own' => 1 ], '' ] });

$t->write_file('users', "ann:{PLAIN}secret\n");
my %file = ('a.html' => "<p>" . 'a' x 2000 . "</p>\n", 'b.txt' => "text\n",
    'dir/index.html' => "index\n", 'list/one' => '1', 'page.html' => "<h1>a page of our own</h1>\n",
    'ssi/x.html' => '<!--# echo var="uri" --> <!--# include virtual="/origin/part" --> '
        . '<!--# include virtual="/none" --> end',
    'large.bin' => join '', map { sprintf "%07d\n", $_ } 1 .. 50_000);
$t->write_file("www/$_", $file{$_}) for keys %file;
utime 1_700_000_000, 1_700_000_000, glob $t->dir . '/www/* ' . $t->dir . '/www/*/*';

my $CONF = <<'CONF';
%%GLOBALS%%
%%LOAD%%
worker_processes 1;
events { }
http {
    %%GLOBALS_HTTP%%
    %%GATEWAY%%
    types { text/html html; text/plain txt; }
    default_type application/octet-stream;
    proxy_cache_path %%DIR%%/%%NAME%%/cache keys_zone=cache:1m;
    limit_req_zone $binary_remote_addr zone=req:1m rate=1r/m;
    limit_req_status 429;
    upstream failing { server 127.0.0.1:1; server 127.0.0.1:%%PORT_origin%% backup; }
    upstream kept { server 127.0.0.1:%%PORT_origin%%; keepalive 4; }
    server {
        listen 127.0.0.1:%%LISTEN%%;
        listen 127.0.0.1:%%LISTEN2%% http2;
        server_name localhost;
        absolute_redirect off;
        root %%DIR%%/www;
        auth_basic_user_file %%DIR%%/users;
        client_max_body_size 3000;
        lingering_timeout 100ms;
        gzip_min_length 1;
        proxy_http_version 1.1;
        location /upstream/ { proxy_set_header X-Set "$scheme $request_method"; %%UPSTREAM%% }
        location /unbuffered/ { proxy_buffering off; proxy_request_buffering off; %%UPSTREAM%% }
        location /origin/ {
            proxy_http_version 1.0;
            proxy_redirect http://origin.test/ /origin/;
            proxy_cookie_path / /origin/;
            proxy_hide_header X-Own;
            add_header X-Added $upstream_status always;
            expires 5m;
            %%ORIGIN%%
        }
        location /gzip/ { gzip on; gzip_types text/plain; gzip_proxied any; %%ORIGIN%% }
        location /sub/ { sub_filter xx yy; sub_filter_types *; sub_filter_once on; %%ORIGIN%% }
        location /intercept/ {
            error_page 404 /page.html;
            error_page 500 =200 @named;
            error_page 503 =302 /elsewhere;
            proxy_intercept_errors on; %%ORIGIN%%
        }
        location @named { %%TO_upstream%% }
        location /failing/ { proxy_pass http://failing/; }
        location /kept/ { proxy_set_header Connection ""; proxy_pass http://kept/; }
        location /dead { proxy_pass http://127.0.0.1:1; }
        location /slow { proxy_read_timeout 100ms; %%TO_upstream%% }
        location /cache {
            proxy_cache cache;
            proxy_ignore_headers Cache-Control Set-Cookie;
            add_header X-Cache $upstream_cache_status always;
            proxy_cache_valid 404 1m;
            proxy_cache_bypass $http_x_bypass;
            proxy_cache_revalidate on;
            location /cache/ { proxy_ignore_headers Set-Cookie; %%TO_origin%% }
            location /cache-private/ { proxy_cache_valid any 1h; %%ORIGIN%% }
            location /cache-short/ { proxy_cache_valid any 1s; %%ORIGIN%% }
        }
        location /fastcgi/ {
            fastcgi_param REQUEST_METHOD $request_method;
            fastcgi_param QUERY_STRING $query_string;
            fastcgi_param CONTENT_LENGTH $content_length;
            fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%;
        }
        location /list/ { autoindex on; autoindex_format json; }
        location /ssi/ { ssi on; }
        location /alias/ { alias %%DIR%%/www/dir/; }
        location /try/ { try_files $uri /b.txt; }
        location /try-named/ { try_files /nothing @named; }
        location /try-status/ { try_files /nothing =404; }
        location /returns/404 { return 404; }
        location /returns/200 { return 200 "said\n"; }
        location /returns/301 { return 301 /b.txt; }
        location /returns/444 { return 444; }
        location /rewrites/ { rewrite ^/rewrites/(.*) /$1 last; }
        location /internal/ { internal; }
        location /basic/ { auth_basic area; alias %%DIR%%/www/dir/; }
        location /asks/ { auth_request /returns/200; alias %%DIR%%/www/dir/; }
        location /denied/ { deny all; }
        location /denied-page/ { deny all; error_page 403 /page.html; }
        location /except/ { limit_except GET { deny all; } %%TO_upstream%% }
        location /limited/ { limit_req zone=req; alias %%DIR%%/www/dir/; }
        location /mirrored/ { mirror /upstream/mirror; %%TO_upstream%% }
        location /accel/ { %%TO_accel%% }
    }
}
CONF
for my $name (qw(plain gated)) {
    my $gated = $name eq 'gated';
    $t->set(NAME => $name, LISTEN => $t->port($name), LISTEN2 => $t->port("$name-h2"),
        LOAD => $gated ? 'load_module ' . Platform::Test::Env::module() . ';' : '',
        GATEWAY => $gated ? 'platform_gateway on; platform_gateway_access public;' : '',
        map { uc $_ => 'proxy_pass http://127.0.0.1:' . $t->port($_) . '/;' } qw(upstream origin));
    $t->nginx_conf($CONF, $name);
    $t->start_nginx($name);
}

# What differs by nature, by a name; of a page of nginx itself, on either side, its head.
sub settled ($bytes) {
    my $ports = join '|', map { $t->port($_) } qw(plain gated plain-h2 gated-h2);
    $bytes =~ s/\b(?:$ports)\b/PORT/g;
    $bytes =~ s/^(Date|Expires): .*?\r$/$1: then\r/mgi;
    $bytes =~ s/^X-(?:Request|Correlation)-Id: .*?\r\n//mgi;
    $bytes =~ s/,?\["(?:HTTP_)?X[_-](?:REQUEST|CORRELATION)[_-]ID","\w+"\]//gi;
    $bytes =~ s/^(Content-Length): \d+\r$/$1: with ids\r/mgi
        if $bytes =~ /"(?:headers|params)":\[\[/;
    my ($boundary) = $bytes =~ /boundary=(\d+)/;
    $bytes =~ s/$boundary/BOUNDARY/g if $boundary;

    my ($head, $body) = split /\r\n\r\n/, $bytes, 2;
    return $bytes unless length($body // '')
        ? $body =~ m{^<html>\r\n<head><title>\d{3} .*<hr><center>nginx}s
            || $body =~ /^\{"type":"about:blank",.*"status":\d+/
        : ($head // '') =~ m{^HTTP/\S+ (?:4|5)\d\d };
    return join "\n", (grep {
        !/^(?:Content-(?:Type|Length)|Retry-After|Allow):|^Cache-Control: no-store$/i
    } split /\r\n/, $head), '(page)';
}

# Requests are a path to GET, [METHOD => path, ...], bytes, or what to call.
sub bytes_of ($request) {
    return ref $request ? http_request_bytes(@$request)
        : $request =~ m{\A/} ? http_request_bytes(GET => $request) : $request;
}

sub same ($name, @requests) {
    my %got;
    for my $server (qw(plain gated)) {
        my @answers;
        for my $request (@requests) {
            my $answer = settled(ref $request eq 'CODE' ? $request->($server)
                : http_raw($t->port($server), bytes_of($request)));

            # an echo is longer by the ids, which HEAD does not show
            $answer =~ s/^Content-Length: .*/Content-Length: with ids/mi if ref $request eq 'ARRAY'
                && "@$request" =~ m{\AHEAD /(?:upstream|fastcgi|try-named|intercept/\?status=500)};
            push @answers, $answer;
        }
        $got{$server} = join "\n====\n", @answers;
    }
    is $got{gated}, $got{plain}, $name;
    return $got{plain};
}

my $upload = 'u' x 2500;
my @KEPT = (connection => 'keep-alive');

like same('proxy', [ GET => '/upstream/a?b=c%20d', headers => [ 'X-A' => 1,
    'X-A' => 2, Cookie => 'a=b', 'X_Under' => 1, 'X-Empty' => '' ] ]),
    qr/HTTP\S+ 200 .*"X-A","1".*"X-A","2"/s, 'control: proxied';
like same('cache', ('/cache/a') x 3, map({ [ GET => '/cache/a', headers => $_ ] }
    [ Range => 'bytes=2-5' ], [ 'If-None-Match' => '"abc"' ], [ 'X-Bypass' => 1 ]),
    [ HEAD => '/cache/a' ]),
    qr/X-Cache: MISS.*X-Cache: HIT.*206 Part.*304 Not.*BYPASS/s, 'control: cached';

same("@$_[ 0, 1 ]", $_) for map({ [ $_ => '/upstream/x', body => 'body' ] }
    qw(POST PUT DELETE PROPFIND BREW)),
    map({ [ GET => "/origin/$_" ] } qw(plain redirect chunked short nonsense hints hangup large),
        map {"?status=$_"} 201, 204, 206, 301, 400, 401, 403, 404, 410, 422, 429, 500, 503),
    [ HEAD => '/upstream/x' ], [ GET => '/upstream/x', version => '1.0' ],
    [ GET => '/origin/chunked', version => '1.0' ], [ GET => '/unbuffered/b?c' ],
    [ POST => '/unbuffered/a', body => $upload ], [ GET => '/dead' ], [ GET => '/slow?delay=10' ],
    [ POST => '/upstream/a', headers => [ Expect => '100-continue' ], body => 'a' ],
    [ POST => '/upstream/a', body => 'x' x 3001 ], [ GET => '/sub/a' ],
    [ GET => '/fastcgi/a?b=c' ], [ POST => '/fastcgi/a', body => $upload ],
    [ HEAD => '/fastcgi/a' ], [ GET => '/fastcgi/a', headers => [ 'X-A' => 1, 'X-B' => 2 ] ],
    [ POST => '/b.txt', body => 'x' ], [ GET => '/returns/444' ], [ GET => '/except/a' ],
    [ POST => '/except/a', body => 'x' ], [ POST => '/mirrored/a', body => 'x' ];

same("$_->[0], HEAD too", [ GET => @$_ ], [ HEAD => @$_ ])
    for map({ ["/$_"] } qw(a.html b.txt dir/ dir list/ none large.bin dir/../b.txt %62.txt
    alias/index.html try/a.html try/none try-named/x try-status/x returns/200 returns/301
    returns/404 rewrites/b.txt internal/x ssi/x.html denied/ denied-page/ asks/index.html
    accel/x), map {"intercept/?status=$_"} 404, 500, 503, 403),
    map({ [ '/large.bin', headers => [ Range => "bytes=$_" ] ] } '10-19', '0-1,5-6,-2',
    '9999999-'),
    map { [ '/b.txt', headers => $_ ] }
    [ 'If-Modified-Since' => 'Tue, 14 Nov 2023 22:13:20 GMT' ], [ 'If-Match' => '"no"' ],
    [ 'If-None-Match' => '*' ];

my ($GET, $POST) = ("GET / HTTP/1.1\r\nHost: a\r\n", "POST /b.txt HTTP/1.1\r\nHost: a\r\n");
same(@$_) for [ 'no Host', "GET /upstream/x HTTP/1.0\r\n\r\n" ],
    [ 'chunked body', bytes_of([ POST => '/upstream/a', headers => [
        'Transfer-Encoding' => 'chunked' ] ]) . "5\r\nabcde\r\n3;x=y\r\nfgh\r\n0\r\nX: a\r\n\r\n" ],
    [ 'next upstream', ('/failing/a') x 2 ], [ 'kept connections', ('/kept/a') x 2 ],
    [ 'gzip', [ GET => '/gzip/a', headers => [ 'Accept-Encoding' => 'gzip' ] ], '/gzip/a' ],
    [ 'cache: private', ('/cache-private/b-private') x 2 ],
    [ 'cache: 404', ('/cache/?status=404') x 2 ],
    [ 'cache: HEAD first', [ HEAD => '/cache/h' ], '/cache/h' ],
    [ 'cache: revalidated', '/cache-short/c', sub ($server) {
        my ($port, $answer) = $t->port($server);
        eventually(sub { ($answer = http_raw($port, bytes_of('/cache-short/c'))) !~ /: HIT/ });
        return $answer;
    } ],
    [ 'auth_basic', '/basic/index.html', [ GET => '/basic/index.html', token => 'abc' ],
        map { [ GET => '/basic/index.html', headers => [ Authorization => "Basic $_" ] ] }
        encode_base64('ann:secret', ''), 'eDp5' ],
    [ 'limit_req', ('/limited/index.html') x 3 ],
    [ 'pipelined', join '', map { bytes_of($_) } [ GET => '/b.txt', @KEPT ],
        [ POST => '/upstream/a', @KEPT, body => $upload ], [ HEAD => '/a.html', @KEPT ],
        [ POST => '/returns/200', @KEPT, body => $upload ], '/b.txt' ],

    [ 'bad request line', "GET\r\n\r\n" ], [ 'bad method', "get / HTTP/1.1\r\n" ],
    [ 'bad version', "GET / HTTP/9.9\r\nHost: a\r\n\r\n" ],
    [ 'HTTP/1.1 and no Host', "GET / HTTP/1.1\r\n\r\n" ],
    [ 'bad Host', "GET / HTTP/1.1\r\nHost: a/b\r\n\r\n" ],
    [ 'bad length', "${POST}Content-Length: x\r\n\r\n" ],
    [ 'bad coding', "${POST}Transfer-Encoding: x\r\n\r\n" ],
    [ 'bad path', $GET =~ s{/}{/../../etc/passwd}r . "\r\n" ],
    [ 'bad escape', $GET =~ s{/}{/%00}r . "\r\n" ],
    [ 'TRACE', $GET =~ s/GET/TRACE/r . "Connection: close\r\n\r\n" ],
    [ 'a long URI', 'GET /' . 'a' x 40_000 . " HTTP/1.1\r\nHost: a\r\n\r\n" ],
    [ 'a long header', "${GET}X: " . 'a' x 40_000 . "\r\n\r\n" ];

for my $case (map({ [$_] } '/upstream/a', '/none', '/dir', '/large.bin', '/origin/large',
    '/cache/a', '/fastcgi/a', '/denied-page/', '/dead', '/ssi/x.html'),
    [ '/upstream/a', '-d', $upload ], [ '/b.txt', '-I' ], [ '/large.bin', '-r', '5-9' ],
    [ '/gzip/a', "-H 'Accept-Encoding: gzip'" ], [ '/upstream/a', '-X', 'DELETE' ]) {
    my ($path, @o) = @$case;
    my $plain = same("HTTP/2: $path " . ($o[0] // ''), sub ($server) {
        my $url = 'http://127.0.0.1:' . $t->port("$server-h2") . $path;
        return scalar qx{curl -s -i -m 60 --http2-prior-knowledge @o $url};
    });
    like $plain, qr{\AHTTP/2 }, 'by HTTP/2 (control)';
}

$t->done;
