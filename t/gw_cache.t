# A cache behind the guard, where the operator says that it is meant: nobody
# gets from it what the guard would not let them ask for, and a key by account
# keeps accounts apart.

use Platform::Test;

my $t = Platform::Test->new;
my $key = jwt_key('a');
$t->issuer(body => jwks($key));
my $upstream = $t->echo_upstream;

# What docs/directives.md shows, in another directory and for our upstream.
my ($doc) = do { local (@ARGV, $/) = $t->root . '/docs/directives.md'; <> }
    =~ /^### platform_gateway_allow_cache\n(.*?)^## /ms;
my ($doc_http, $doc_server) = map {
    s{/var/cache/nginx/}{%%DIR%%/}r =~ s{127\.0\.0\.1:9000}
        {127.0.0.1:%%PORT_upstream%%}r
} $doc =~ /^```nginx\n(.*?)^```\n/msg;

$t->gateway_conf($doc_server . <<'SERVER', http => $doc_http . <<'HTTP');
platform_gateway_access branch;
pass /shared: platform_gateway_allow_cache on; proxy_cache cache;
pass /public: platform_gateway_access public; proxy_cache cache;
SERVER
platform_gateway_cors_origins https://app.test https://other.test;
proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;
proxy_cache_valid any 1m;
add_header X-Cache $upstream_cache_status;
HTTP
my $port = $t->start_gateway;

my ($one, $two) = map {
    jwt_token(branch => $key, account_id => uuid($_), sub => uuid($_))
} 1, 2;

sub account { return (header_values($_[0]->json, 'X-Account-Id'))[0] }

# One for all that the guard lets in, and for nobody else.

my $res = http_get($port, '/shared', token => $one);
is $res->header('X-Cache'), 'MISS', 'shared: asked for';
$res = http_get($port, '/shared', token => $two);
is $res->header('X-Cache'), 'HIT', 'shared: the next gets it, as is meant';
is account($res), uuid(1), 'shared: even what was the first one\'s';
is_problem(http_get($port, '/shared'), 401, 'GATEWAY_TOKEN_MISSING', 'shared: not without a token');
is_problem(http_get($port, '/shared', token => jwt_token(account => $key)),
    403, 'GATEWAY_CONTEXT_FORBIDDEN', 'shared: nor with another');
is $upstream->count, 1, 'shared: the upstream was asked once';

# To each account its own, as the documentation says.

for my $round (1, 2) {
    for my $case ([ $one, 1 ], [ $two, 2 ]) {
        my ($token, $n) = @$case;

        $res = http_get($port, '/api/reports/x', token => $token);
        is $res->header('X-Cache'), $round == 1 ? 'MISS' : 'HIT',
            "documentation: account $n, round $round";
        is account($res), uuid($n), "documentation: account $n sees its own";
    }
}
$res = http_get($port, '/api/reports/x', token => jwt_token(branch => $key,
    workspace_id => uuid(99)));
is $res->header('X-Cache'), 'MISS', 'documentation: another workspace';
is http_get($port, '/api/reports/x')->status, 401, 'documentation: not without a token';

# From a cache too, ids and CORS headers are those of this request.

my %id;
for my $origin ('https://app.test', 'https://other.test', undef) {
    my $name = $origin // 'no origin';
    $res = http_get($port, '/public', headers => [ defined $origin ? (Origin => $origin) : () ]);
    is_deeply [ $res->header_all('Access-Control-Allow-Origin') ],
        [ $origin // () ], "public: $name: CORS";
    is_deeply [ $res->header_all('Vary') ], ['Origin'], "public: $name: Vary";
    is scalar(my @ids = $res->header_all('X-Request-Id')), 1, "public: $name: one id";
    $id{ $ids[0] }++;
}
is $res->header('X-Cache'), 'HIT', 'public: from the cache';
is scalar(keys %id), 3, 'public: each its own id';

$t->done;
