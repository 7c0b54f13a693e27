# FastCGI and uwsgi carry a request's headers in one record of 65,535 bytes:
# the buffers bound what a client sends, and what takes more room in a record
# is refused as headers that are too large, before the upstream, and never an
# alert of nginx.

use Platform::Test;

my ($t, $key, undef, $proxy) = Platform::Test->gateway;
my %upstream = (fastcgi => $t->echo_fastcgi, uwsgi => $t->echo_uwsgi, proxy => $proxy);
$t->set(FASTCGI => 'fastcgi_pass 127.0.0.1:' . $upstream{fastcgi}->port . ';');

my $nginx = $t->gateway_conf(<<'SERVER', http => <<'HTTP');
platform_gateway_access public;
location /fastcgi { %%FASTCGI%% }
location /if { if ($uri) { set $within 1; } %%FASTCGI%% }
location /uwsgi { uwsgi_pass 127.0.0.1:%%PORT_uwsgi%%; }
location /proxy { %%TO_upstream%% }
location /somewhere { fastcgi_pass $address; }
location /within { if ($uri) { set $within 1; } fastcgi_pass $address; }
location /branch { platform_gateway_access branch; %%FASTCGI%% }
location /shadow { platform_gateway_access branch; platform_gateway_shadow on; %%FASTCGI%% }
location /query {
    fastcgi_param QUERY_STRING $query_string;
    fastcgi_param REQUEST_URI $request_uri;
    fastcgi_param DOCUMENT_URI $uri;
    %%FASTCGI%%
}
location /body {
    client_body_in_single_buffer on;
    fastcgi_param BODY $request_body;
    fastcgi_param CONTENT_TYPE $content_type;
    fastcgi_param HTTP_COOKIE $http_cookie;
    %%FASTCGI%%
}
location /tried { try_files /none @fastcgi; }
location @fastcgi { %%FASTCGI%% }
location /page { ssi on; ssi_types application/json; %%TO_includes%% }
SERVER
fastcgi_param REQUEST_METHOD $request_method;
uwsgi_param REQUEST_METHOD $request_method;
map $uri $address { default 127.0.0.1:%%PORT_fastcgi%%; }
HTTP
$t->http_server(includes => sub { return [ 200, [ 'Content-Type' => 'application/json' ],
    'a<!--#include virtual="/fastcgi" -->b' ] });
my $port = $t->start_gateway;

# Headers of about so many kilobytes.
sub headers ($kilobytes) { return [ map { ("X-Filler-$_" => 'x' x 1000) } 1 .. $kilobytes ] }

# A query that counts twice, and headers: more than there is room for in a record.
my $QUERY = '?' . 'q' x 23_000;
my $MUCH = headers(22);
my @TYPE = ('Content-Type' => 'x' x 23_000);

sub asked { return map { $upstream{$_}->count } qw(fastcgi uwsgi proxy) }

sub fits ($name, @request) { return is http_get($port, @request)->status, 200, $name }

sub refused ($name, @request) {
    return is_problem(http_get($port, @request), 400, 'GATEWAY_HEADER_TOO_LARGE', $name);
}

for my $path (qw(/fastcgi /if /uwsgi /somewhere /within /tried)) {
    fits("$path: 40 KB of headers", $path, headers => headers(40));
    fits("$path: a long query", "$path$QUERY");
    my @before = asked();
    refused("$path: 66 KB", $path, headers => headers(66));
    refused("$path: both", "$path$QUERY", headers => $MUCH);
    is_deeply [ asked() ], \@before, "$path: nobody was asked";
}
fits('HTTP has no such bound', "/proxy$QUERY", headers => $MUCH);
my ($line) = grep { $_->{path} eq '/fastcgi' && $_->{status} == 400 } $nginx->access_lines(20);
is_deeply [ @$line{qw(decision reason)} ], [qw(deny bad_request)], 'the log says why';

# Up to the bound and beyond: one or the other, and no alert.

my %seen;
$seen{ http_get($port, "/query$QUERY", headers => headers($_))->status }++
    for map { 3 * $_ + 1 } 1 .. 7;
is_deeply [ sort keys %seen ], [ 200, 400 ], 'all fit, or are refused';
fits('many short ones', '/query', headers => [ (a => '') x 900 ]);
fits('a token of 16 KiB, the largest that is accepted, and 20 KB of other headers', '/fastcgi',
    headers => [ Authorization => 'Bearer ' . 'x' x 16_384, @{ headers(20) } ]);

# A path, or a header, counts once more for each parameter that repeats it.

my $path = '/query/' . 'q' x 14_000;
fits('a long path', $path, headers => headers(2));
refused('too long for its parameters', $path, headers => headers(20));
my $res = http($port, POST => '/body', body => 'the body', cookie =>
        'c=' . 'c' x 20_000, headers => headers(20));
my %param = map { $_->[0] => $_->[1] } @{ $res->json->{params} };
is_deeply [ $res->status, $param{BODY}, length $param{HTTP_COOKIE} ], [ 200, 'the body', 20_002 ],
    'a cookie counts once, though a parameter holds it; the body came later';
fits('a type counts twice', '/body', headers => \@TYPE);
refused('and may be too long for that', '/body', headers => [ @TYPE, @{ headers(20) } ]);

my @with = (token => jwt_token(branch => $key, branch_ids => [ map { uuid() } 1 .. 200 ]));
fits('a token of 200 branches', '/branch', @with);
is_problem(http_get($port, "/branch$QUERY", headers => $MUCH), 401,
    'GATEWAY_TOKEN_MISSING', 'the token comes first');
refused('shadow mode lets no broken request through', "/shadow$QUERY", headers => $MUCH);

my ($query, @same) = ('?' . 'q' x 18_000, @with, headers => headers(10));
fits('without trusted headers it fits', "/fastcgi$query", @same);
refused('what is injected counts too', "/branch$query", @same);

is http_get($port, '/page')->body =~ s/\{.*\}/{}/r, 'a{}b', 'included';
$res = http_get($port, '/page', headers => [ @TYPE, @{ headers(20) } ]);
is $res->status, 200, 'too large for what is included';
unlike $res->body, qr/Internal Server Error|params/, 'which is refused';

$t->done;
