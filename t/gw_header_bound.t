# FastCGI and uwsgi carry a request's headers in one record of 65,535 bytes:
# the buffers bound what a client sends, and what takes more room in a record
# is refused as headers that are too large, before the upstream, and never an
# alert of nginx.

use Platform::Test;

my $t = Platform::Test->new;
my $key = jwt_key('a');
$t->issuer(body => jwks($key));
my %upstream = (fastcgi => $t->echo_fastcgi, uwsgi => $t->echo_uwsgi, proxy => $t->echo_upstream, );

my $nginx = $t->gateway_conf(<<'SERVER', http => <<'HTTP');
platform_gateway_access public;
location /fastcgi { fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%; }
location /if {
    if ($uri) { set $within 1; }
    fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%;
}
location /uwsgi { uwsgi_pass 127.0.0.1:%%PORT_uwsgi%%; }
location /proxy { proxy_pass http://127.0.0.1:%%PORT_upstream%%; }
location /somewhere { fastcgi_pass $address; }
location /within {
    if ($uri) { set $within 1; }
    fastcgi_pass $address;
}
location /branch { platform_gateway_access branch; fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%; }
location /shadow {
    platform_gateway_access branch;
    platform_gateway_shadow on;
    fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%;
}
location /query {
    fastcgi_param QUERY_STRING $query_string;
    fastcgi_param REQUEST_URI $request_uri;
    fastcgi_param DOCUMENT_URI $uri;
    fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%;
}
location /body {
    client_body_in_single_buffer on;
    fastcgi_param BODY $request_body;
    fastcgi_param CONTENT_TYPE $content_type;
    fastcgi_param HTTP_COOKIE $http_cookie;
    fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%;
}
location /tried { try_files /none @fastcgi; }
location @fastcgi { fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%; }
location /page {
    ssi on;
    ssi_types application/json;
    proxy_pass http://127.0.0.1:%%PORT_includes%%;
}
SERVER
large_client_header_buffers 2 24k;
fastcgi_param REQUEST_METHOD $request_method;
uwsgi_param REQUEST_METHOD $request_method;
map $uri $address { default 127.0.0.1:%%PORT_fastcgi%%; }
HTTP
my $includes = $t->http_server(includes => sub {
    return [ 200, [ 'Content-Type' => 'application/json' ],
        'a<!--#include virtual="/fastcgi" -->b' ];
});
my $port = $t->start_gateway;

# Headers of about so many kilobytes.
sub headers ($kilobytes) {
    return [ map { ("X-Filler-$_" => 'x' x 1000) } 1 .. $kilobytes ];
}

# A query that counts twice, with more than there is room for, and headers
# likewise.  nginx's buffers hold each of them.
my $QUERY = '?' . 'q' x 23_000;
my $MUCH = headers(22);
my @TYPE = ('Content-Type' => 'x' x 23_000);

sub asked { return map { $upstream{$_}->count } qw(fastcgi uwsgi proxy) }

# What fits, and what does not.

for my $path (qw(/fastcgi /if /uwsgi /somewhere /within /tried)) {
    is http_get($port, $path, headers => headers(40))->status, 200, "$path: 40 KB of headers";
    is http_get($port, "$path$QUERY")->status, 200, "$path: a long query";
    my @before = asked();
    is_problem(http_get($port, $path, headers => headers(66)), 400,
        'GATEWAY_HEADER_TOO_LARGE', "$path: 66 KB");
    is_problem(http_get($port, "$path$QUERY", headers => $MUCH), 400,
        'GATEWAY_HEADER_TOO_LARGE', "$path: both");
    is_deeply [ asked() ], \@before, "$path: nobody was asked";
}
is http_get($port, "/proxy$QUERY", headers => $MUCH)->status, 200, 'HTTP has no such bound';
my ($line) = grep { $_->{path} eq '/fastcgi' && $_->{status} == 400 }
    $nginx->access_lines(20);
is_deeply [ @$line{qw(decision reason)} ], [qw(deny bad_request)], 'the log says why';

# Up to the bound and beyond: one or the other, and no alert.

my %seen;
$seen{ http_get($port, "/query$QUERY", headers => headers($_))->status }++
    for map { 3 * $_ + 1 } 1 .. 7;
is_deeply [ sort keys %seen ], [ 200, 400 ], 'all fit, or are refused';
is http_get($port, '/query', headers =>
        [ map { (a => '') } 1 .. 900 ])->status, 200, 'many short ones';

# The largest token that is accepted passes, with other headers.

is http_get($port, '/fastcgi', headers =>
        [ Authorization => 'Bearer ' . 'x' x 16_384, @{ headers(20) } ])
    ->status, 200, 'a token of 16 KiB and 20 KB of other headers';

# A path counts once more for each parameter that repeats it.

my $path = '/query/' . 'q' x 14_000;
is http_get($port, $path, headers => headers(2))->status, 200, 'a long path';
is_problem(http_get($port, $path, headers => headers(20)), 400,
    'GATEWAY_HEADER_TOO_LARGE', 'too long for its parameters');

# Other parameters that repeat headers.

my $res = http($port, POST => '/body', body => 'the body', cookie =>
        'c=' . 'c' x 20_000, headers => headers(20));
my %param = map { $_->[0] => $_->[1] } @{ $res->json->{params} };
is $res->status, 200, 'a cookie counts once, though a parameter holds it';
is $param{BODY}, 'the body', 'the body came later';
is length $param{HTTP_COOKIE}, 20_002, 'the cookie is whole';
is http($port, POST => '/body', body => '', headers => \@TYPE)->status, 200, 'a type counts twice';
is_problem(http($port, POST => '/body', body => '', headers =>
        [ @TYPE, @{ headers(20) } ]), 400, 'GATEWAY_HEADER_TOO_LARGE',
    'and may be too long for that');

# Where the guard is.

my @with = (token => jwt_token(branch => $key, branch_ids => [ map { uuid() } 1 .. 200 ]));
is http_get($port, '/branch', @with)->status, 200, 'a token of 200 branches';
is_problem(http_get($port, "/branch$QUERY", headers => $MUCH), 401,
    'GATEWAY_TOKEN_MISSING', 'the token comes first');
is_problem(http_get($port, "/shadow$QUERY", headers => $MUCH), 400,
    'GATEWAY_HEADER_TOO_LARGE', 'shadow mode lets no broken request through');

# The same request, where headers are injected and where none are.

my @same = ('?' . 'q' x 18_000, @with, headers => headers(10));
is http_get($port, "/fastcgi$same[0]", @same[1 .. $#same])->status, 200,
    'without trusted headers it fits';
is_problem(http_get($port, "/branch$same[0]", @same[1 .. $#same]), 400,
    'GATEWAY_HEADER_TOO_LARGE', 'what is injected counts too');

# A subrequest.

is http_get($port, '/page')->body =~ s/\{.*\}/{}/r, 'a{}b', 'included';
$res = http_get($port, '/page', headers => [ @TYPE, @{ headers(20) } ]);
is $res->status, 200, 'too large for what is included';
unlike $res->body, qr/Internal Server Error|params/, 'which is refused';

$t->done;
