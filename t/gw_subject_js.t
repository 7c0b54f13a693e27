# A script reads $platform_account_id by its name, so that the configuration
# itself never mentions it: what nobody verified was sent is kept for nobody
# all the same, and accounts stay apart.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $njs = Platform::Test::Env::nginx_module('ngx_http_js_module');
plan skip_all => 'needs libnginx-mod-http-js for this nginx' unless $njs;

my $t = Platform::Test->new;
my $key = jwt_key('a');
$t->issuer(body => jwks($key));
$t->http_server(upstream => sub {
    return [ 200, [],
        '<' . Platform::Test::Server::header($_[0], 'Cookie') . '>' ];
});
$t->write_file('who.js', <<'JS');
function who(r) { return r.variables.platform_account_id || ''; }
export default { who };
JS

$t->set(SCRIPT => $t->dir . '/who.js');
$t->gateway_conf(<<'SERVER', main => "load_module $njs;", http => <<'HTTP');
platform_gateway_access branch;
platform_gateway_shadow on;
location /by-script/ {
    platform_gateway_allow_cache on;
    proxy_cache cache;
    proxy_cache_key $who:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
SERVER
js_import test from %%SCRIPT%%;
js_set $who test.who;
proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;
proxy_cache_valid any 1m;
add_header X-Cache $upstream_cache_status;
HTTP
my $port = $t->start_gateway;

sub ask {
    my ($user, @more) = @_;
    my $res = http_get($port, "/by-script/x",
        headers => [ Cookie => "user=$user" ], @more);
    is $res->body, "<user=$user>", "user $user gets what user $user asked for";
    return $res->header('X-Cache');
}

is ask(1), 'BYPASS', 'nobody is verified: no cache';
is ask(2), 'BYPASS', 'nor for the next';
my ($one, $two) = map {
    jwt_token(branch => $key, account_id => uuid($_), sub => uuid($_))
} 1, 2;
is ask(1, token => $one), 'MISS', 'a verified account: its own entry';
is ask(2, token => $two), 'MISS', 'another account: another entry';
is ask(1, token => $one), 'HIT', 'which is there the next time';

$t->done;
