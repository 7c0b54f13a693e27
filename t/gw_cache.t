# A cache behind the guard, where the operator says that it is meant: nobody
# gets from it what the guard would not let them ask for, and a key by account
# keeps accounts apart.

use Platform::Test;

my ($t, $key, undef, $upstream) = Platform::Test->gateway;

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

# Where the answer comes from, and whose it is.
sub answer (@request) {
    my $res = http_get($port, @request);
    return [ $res->header('X-Cache'), header_values($res->json, 'X-Account-Id') ];
}

is_deeply answer('/shared', token => $one), [ 'MISS', uuid(1) ], 'shared: asked for';
is_deeply answer('/shared', token => $two), [ 'HIT', uuid(1) ],
    "shared: the next gets the first one's, as is meant";
is_problem(http_get($port, '/shared'), 401, 'GATEWAY_TOKEN_MISSING', 'shared: not without a token');
is_problem(http_get($port, '/shared', token => jwt_token(account => $key)),
    403, 'GATEWAY_CONTEXT_FORBIDDEN', 'shared: nor with another');
is $upstream->count, 1, 'shared: the upstream was asked once';

my @REPORT = ('/api/reports/x', token =>);
for my $cached (qw(MISS HIT)) {
    is_deeply answer(@REPORT, $_->[0]), [ $cached, uuid($_->[1]) ],
        "documentation: account $_->[1] sees its own, $cached" for [ $one, 1 ], [ $two, 2 ];
}
is answer(@REPORT, jwt_token(branch => $key, workspace_id => uuid(99)))->[0], 'MISS',
    'documentation: another workspace';
is http_get($port, '/api/reports/x')->status, 401, 'documentation: not without a token';

# From a cache too, ids and CORS headers are those of this request.

my ($res, %id);
for my $origin ('https://app.test', 'https://other.test', undef) {
    $res = http_get($port, '/public', headers => [ map { (Origin => $_) } $origin // () ]);
    is_deeply [ map { [ $res->header_all($_) ] } qw(Access-Control-Allow-Origin Vary) ],
        [ [ $origin // () ], ['Origin'] ], 'public: CORS for ' . ($origin // 'no origin');
    $id{ join ' ', $res->header_all('X-Request-Id') }++;
}
is $res->header('X-Cache'), 'HIT', 'public: from the cache';
is_deeply [ sort map { length } keys %id ], [ 32, 32, 32 ], 'public: each its own id, once';

$t->done;
