# HTTP/0.9, which has no headers at all: refused, whatever the location, and
# nothing breaks where header lists were never set up.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $upstream = $t->echo_upstream;

$t->nginx_conf(<<'CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%GLOBALS_HTTP%%
    %%PLATFORM_LOG%%
    server {
        listen 127.0.0.1:%%PORT_gateway%%;
        platform_gateway on;
        platform_gateway_access public;
        location / { proxy_pass http://127.0.0.1:%%PORT_upstream%%; }
        location /returns { return 200 "returned"; }
        location = /health { platform_gateway_health; }
    }
    server {
        listen 127.0.0.1:%%PORT_redirects%%;
        platform_gateway on;
        platform_gateway_access public;
        error_page 400 414 /error;
        location / { proxy_pass http://127.0.0.1:%%PORT_upstream%%; }
    }
    server {
        listen 127.0.0.1:%%PORT_plain%%;
        location / { return 200 "plain"; }
    }
}
CONF
$t->start_nginx;
my $port = $t->port('gateway');

for my $path ('/', '/returns', '/health', '/?a=b', '/%41') {
    my $before = $upstream->count;
    my $raw = http_raw($port, "GET $path\r\n");
    like $raw, qr{^HTTP/1\.[01] 400 }, "GET $path: refused with a status line";
    like $raw, qr/"code":"GATEWAY_BAD_REQUEST"/, "GET $path: as a problem";
    my ($id) = $raw =~ /^X-Request-Id: ([0-9a-f]{32})\r$/m;
    ok $id, "GET $path: with an id";
    my ($line) = eventually(sub {
        grep { $_->{requestId} eq ($id // '') } $t->nginx->access_lines });
    ok $line, "GET $path: logged";
    is $upstream->count, $before, "GET $path: not passed on";
}

is http_get($port, '/')->status, 200, 'control: HTTP/1.1';
like http_raw($port, "GET / HTTP/1.0\r\n\r\n"), qr{^HTTP/1\.1 200 }, 'control: HTTP/1.0';
is http_raw($t->port('plain'), "GET /\r\n"), 'plain',
    'control: a server without the gateway speaks HTTP/0.9';

# An operator's error_page sends such a request through all phases.

my $before = $upstream->count;
like http_raw($t->port('redirects'), "GET /\r\n"), qr/"uri":"\/error"/, 'error_page on HTTP/0.9';
like http_raw($t->port('redirects'), "G\x01ET / HTTP/1.1\r\n\r\n"),
    qr/"uri":"\/error"/, 'error_page on a bad request line';
is $upstream->count, $before + 2, 'both were passed on';
for my $seen ((reverse $upstream->requests)[ 0, 1 ]) {
    my @id = header_values($seen, 'X-Request-Id');
    is scalar @id, 1, 'with an id';
}

$t->done;
