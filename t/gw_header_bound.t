# FastCGI and uwsgi carry a request's headers in one record of 65,535 bytes:
# what does not fit is refused as headers that are too large, before the
# upstream, and never an alert of nginx.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $key = jwt_key('a');
$t->issuer(body => jwks($key));
my %upstream = (
    fastcgi => $t->echo_fastcgi, uwsgi => $t->echo_uwsgi,
    proxy => $t->echo_upstream,
);

my $nginx = $t->nginx_conf(<<'CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%GLOBALS_HTTP%%
    %%PLATFORM_LOG%%
    large_client_header_buffers 8 32k;
    client_header_buffer_size 32k;
    platform_gateway_issuer http://issuer.test;
    fastcgi_param REQUEST_METHOD $request_method;
    uwsgi_param REQUEST_METHOD $request_method;
    map $uri $address { default 127.0.0.1:%%PORT_fastcgi%%; }
    server {
        listen 127.0.0.1:%%PORT_gateway%%;
        platform_gateway on;
        platform_gateway_access public;
        platform_gateway_key_location /_keys;
        location = /_keys {
            internal;
            platform_gateway off;
            proxy_pass http://127.0.0.1:%%PORT_issuer%%/;
            subrequest_output_buffer_size 64k;
        }
        location = /ready { platform_gateway_ready; }
        location /fastcgi { fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%; }
        location /uwsgi { uwsgi_pass 127.0.0.1:%%PORT_uwsgi%%; }
        location /proxy { proxy_pass http://127.0.0.1:%%PORT_upstream%%; }
        location /somewhere { fastcgi_pass $address; }
        location /branch {
            platform_gateway_access branch;
            fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%;
        }
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
            fastcgi_param LENGTH $request_length;
            fastcgi_param HTTP_COOKIE $http_cookie;
            fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%;
        }
        location /tried {
            try_files /none @fastcgi;
        }
        location @fastcgi { fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%; }
        location /page {
            ssi on;
            ssi_types application/json;
            proxy_pass http://127.0.0.1:%%PORT_includes%%;
        }
    }
}
CONF
my $includes = $t->http_server(includes => sub {
    return [ 200, [ 'Content-Type' => 'application/json' ],
        'a<!--#include virtual="/fastcgi" -->b' ];
});
$t->start_nginx;
my $port = $t->port('gateway');
ok eventually(sub { http_get($port, '/ready')->status == 200 }), 'ready';

# Headers of about so many kilobytes.
sub headers {
    my ($kilobytes) = @_;

    return [ map { ("X-Filler-$_" => 'x' x 1000) } 1 .. $kilobytes ];
}

sub asked { return map { $upstream{$_}->count } qw(fastcgi uwsgi proxy) }

# What fits, and what does not.

for my $path (qw(/fastcgi /uwsgi /somewhere /tried)) {
    is http_get($port, $path, headers => headers(60))->status, 200,
        "$path: 60 KB of headers";
    my @before = asked();
    is_problem(http_get($port, $path, headers => headers(66)), 400,
        'GATEWAY_HEADER_TOO_LARGE', "$path: 66 KB");
    is_problem(http_get($port, $path, headers => headers(200)), 400,
        'GATEWAY_HEADER_TOO_LARGE', "$path: 200 KB");
    is_deeply [ asked() ], \@before, "$path: nobody was asked";
}
is http_get($port, '/proxy', headers => headers(200))->status, 200,
    'HTTP has no such bound';
my ($line) = grep { $_->{path} eq '/fastcgi' && $_->{status} == 400 }
    $nginx->access_lines(10);
is_deeply [ @$line{qw(decision reason)} ], [qw(deny bad_request)],
    'the log says why';

# The bound itself: a byte more or less.

my ($fits, $least, $most) = (undef, 300, 1500);
while ($most - $least > 1) {
    my $more = int(($least + $most) / 2);
    my $res = http_get($port, '/fastcgi',
        headers => [ @{ headers(63) }, 'X-Last' => 'x' x $more ]);
    $res->status == 200 ? ($fits, $least) = ($res, $more) : ($most = $more);
}
my $size = 0;
for my $param (@{ $fits->json->{params} }) {
    $size += $_ + ($_ > 127 ? 4 : 1) for map {length} @$param;
}
cmp_ok $size, '<=', 65_535, 'the largest that passes fits';
cmp_ok $size, '>', 65_500, 'and is nearly as large as it may be';

# A query that parameters repeat.

is http_get($port, '/query?' . 'q' x 30_000)->status, 200, 'a long query';
is_problem(http_get($port, '/query?' . 'q' x 32_500,
    headers => headers(2)), 400, 'GATEWAY_HEADER_TOO_LARGE',
    'a query too long for two parameters');
is http_get($port, '/fastcgi?' . 'q' x 32_500, headers => headers(2))->status,
    200, 'the same where no parameter holds it';

# Parameters are looked at early, and come out as ever.

my $res = http($port, POST => '/body', body => 'the body', cookie =>
        'c=' . 'c' x 31_000, headers => headers(30));
my %param = map { $_->[0] => $_->[1] } @{ $res->json->{params} };
is $res->status, 200, 'a cookie counts once, though a parameter holds it';
is $param{BODY}, 'the body', 'the body came later';
is length $param{HTTP_COOKIE}, 31_002, 'the cookie is whole';

# Where the guard is.

my @with = (token => jwt_token(branch => $key, iss => 'http://issuer.test',
    branch_ids => [ map { uuid() } 1 .. 200 ]));
is http_get($port, '/branch', @with)->status, 200, 'a token of 200 branches';
is_problem(http_get($port, '/branch', headers => headers(70)), 401,
    'GATEWAY_TOKEN_MISSING', 'the token comes first');
is_problem(http_get($port, '/branch', @with, headers => headers(50)), 400,
    'GATEWAY_HEADER_TOO_LARGE', 'what is injected counts too');
is http_get($port, '/branch', @with, headers => headers(35))->status, 200,
    'less of it passes';
is_problem(http_get($port, '/shadow', headers => headers(70)), 400,
    'GATEWAY_HEADER_TOO_LARGE', 'shadow mode lets no broken request through');

# A subrequest.

is http_get($port, '/page')->body =~ s/\{.*\}/{}/r, 'a{}b', 'included';
$res = http_get($port, '/page', headers => headers(70));
is $res->status, 200, 'too large for what is included';
unlike $res->body, qr/Internal Server Error|params/, 'which is refused';

$t->done;
