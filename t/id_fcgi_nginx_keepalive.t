# nginx in front, asked to keep FastCGI connections alive or not, with many more
# clients than worker threads: nobody starves.  Each connection is closed after
# its answer, which nginx takes as it comes.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my $identity = $t->identity(PLATFORM_WORKER_THREADS => 4);
open my $fh, '<', $t->root . '/nginx.conf.d/identity_fastcgi_params' or die;
my $params = do { local $/; <$fh> };
$params =~ s/fastcgi_keep_conn off;/fastcgi_keep_conn on;/ or die 'no keep_conn';
$t->set(
    ADDRESS     => $identity->nginx_address,
    KEPT_PARAMS => $t->write_file('kept_params', $params),
);
$t->nginx_conf(<<'CONF');
%%GLOBALS%%
worker_processes 1;
events { worker_connections 1024; }
http {
    %%GLOBALS_HTTP%%
    platform_gateway on;
    platform_gateway_access public;
    upstream kept { server %%ADDRESS%%; keepalive 128; }
    server {
        listen 127.0.0.1:%%PORT_kept%% backlog=1024;
        location / {
            include %%KEPT_PARAMS%%;
            fastcgi_pass kept;
        }
    }
    server {
        listen 127.0.0.1:%%PORT_closed%% backlog=1024;
        location / {
            include %%ROOT%%/nginx.conf.d/identity_fastcgi_params;
            fastcgi_pass %%ADDRESS%%;
        }
    }
}
CONF
$t->start_nginx;

# 64 clients at once, of all kinds of request, five times.
for my $face (qw(closed kept)) {
    my $port = $t->port($face);
    my @requests = map {
        [ $port, http_request_bytes(@$_) ]
    } map {
        $_ % 4 == 0 ? [ GET => '/.well-known/jwks.json' ]
            : $_ % 4 == 1 ? [ POST => '/api/auth/logout', json => {} ]
            : $_ % 4 == 2 ? [ POST => '/api/auth/refresh', body => 'x' x 20_000 ]
            : [ GET => '/readyz' ];
    } 0 .. 63;
    my %want = (0 => 200, 1 => 200, 2 => 413, 3 => 200);

    for my $round (1 .. 5) {
        cmp_ok least(3 * $t->scale, sub {
            my $start = time;
            my @got = http_parallel(\@requests);
            my $wrong = grep {
                !$got[$_] || $got[$_]->status != $want{ $_ % 4 }
            } 0 .. 63;
            is $wrong, 0, "$face, round $round: 64 answers of 64";
            return time - $start;
        }), '<', 3 * $t->scale, "$face, round $round: without waiting";
    }
}

$t->done;
