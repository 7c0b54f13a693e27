# The metrics: exact sums over all workers, each request once; sums that never
# go down, whatever becomes of workers and configurations; bounded labels.

use Platform::Test;
use Platform::Test::Metrics;

my ($t, $key, $issuer, $upstream) = Platform::Test->gateway;
my $next = jwt_key('b');
my $port = $t->port('gateway');

my $SERVER = <<'SERVER';
platform_gateway_cors_origins https://app.example.com;
platform_gateway_access public;
location / { platform_gateway_route_not_found; }
pass /public: platform_gateway_route "pub\"\\{é}";
pass /branch: platform_gateway_access branch; platform_gateway_methods GET;
    platform_gateway_route branch; error_page 403 = /public/403;
location /ssi { platform_gateway_route ssi; ssi on; ssi_types *; root %%DIR%%; }
location /part { log_subrequest on; access_log off; alias %%DIR%%/ssi/part; }
pass /shadow: platform_gateway_shadow on; platform_gateway_access branch; platform_gateway_route s;
location /off { platform_gateway off; empty_gif; }
pass /status: platform_gateway_route status;
pass /slow: platform_gateway_route slow;
pass /dead to dead: platform_gateway_route dead;
location /retried { platform_gateway_route retried; proxy_pass http://first_dead; }
%%MORE%%
SERVER
my %AROUND = (main => 'worker_processes %%WORKERS%%;', buffers => '2 4k', http => <<'HTTP');
platform_gateway_zone gateway:1m;
platform_gateway_key_soft_age 60s;
platform_gateway_key_cooldown 1s;
platform_gateway_key_wait 20s;
platform_gateway_token_max_size 3k;
upstream first_dead { server 127.0.0.1:%%PORT_dead%%; server 127.0.0.1:%%PORT_upstream%% backup; }
server { listen 127.0.0.1:%%PORT_metrics%%; location = /metrics { platform_gateway_metrics; } }
server { listen 127.0.0.1:%%PORT_other%%; location / { empty_gif; } }
HTTP

$t->write_file('ssi/page', join '', map {"<!--#include virtual=\"/$_\" -->"}
    qw(branch/a public/b part));
$t->write_file('ssi/part', 'a part');
$t->set(WORKERS => 4, MORE => '');
my $nginx = $t->gateway_conf($SERVER, %AROUND);
$t->start_nginx;

my ($sample, $family);
sub scrape {
    my $res = http_get($t->port('metrics'), '/metrics');
    ($sample, $family) = metrics_parse($res->body);
    return $res;
}

sub is_now { return $sample->{"platform_gateway_$_[0]"} }

# The sum of what is counted once a log phase ran, which may be after the
# client has its answer.
sub counts ($series, $n, $name = undef) {
    eventually(sub { scrape(); (is_now($series) // -1) >= $n });
    return is is_now($series), $n, $name // "$series is $n";
}

# Many at once: "requests ROUTE DECISION", "refusals REASON" (or with shadow),
# "tokens RESULT" and "upstream ROUTE CLASS", each with its sum.
sub counted {
    while (my ($what, $n) = splice @_, 0, 2) {
        my ($kind, $of, $as) = split ' ', $what;
        my $route = ($of =~ s/\A-\z//r) =~ s/([\\"])/\\$1/gr;
        counts($kind eq 'requests' ? qq(requests_total{route="$route",decision="$as"})
            : $kind eq 'refusals'
            ? sprintf('refusals_total{reason="%s",decision="%s"}', $of, $as // 'deny')
            : $kind eq 'tokens' ? qq(token_verifications_total{result="$of"})
            : qq(upstream_responses_total{route="$route",class="$as"}), $n, "$what: $n");
    }
}

# Samples of a family, as [labels, value], of a route.
sub of_route ($route, $name) {
    return grep { $_->[0]{route} eq $route } @{ $family->{"platform_gateway_$name"}{samples} };
}

ok eventually(sub { scrape(); (is_now('key_set_keys') // 0) == 1 }), 'a key set is there';
my $res = scrape();
is_deeply [ $res->status, map { $res->header($_) } qw(Content-Type Cache-Control) ],
    [ 200, 'text/plain; version=0.0.4; charset=utf-8', 'no-store' ], 'metrics in their format';
is is_now('key_set_version'), 1, 'the first key set';
cmp_ok is_now('key_set_age_seconds'), '<', 30 * $t->scale, 'is young';
counts('key_fetches_total{outcome="new"}', 1);
my @zones = map {qq({zone="$_"})} qw(gateway gateway_counters);
for my $zone (@zones) {
    is is_now("zone_size_bytes$zone"), 1048576, "the size of the zone $zone";
    my $free = is_now("zone_free_bytes$zone");
    ok $free > 500_000 && $free < 1048576, 'most of it free';
}
is +(grep { $sample->{$_} != 0 } grep {
    /requests|refusals|verif|duration|upstream|failed/
} keys %$sample), 0, 'nothing has been counted';

my ($info) = map { $_->[0] } @{ $family->{platform_gateway_build_info}{samples} };
my $binary = Platform::Test::Env::nginx();
is_deeply { %$info, version => $info->{version} =~ s/\A\d+\.\d+\.\d+(?:~\w+[.\w]*)?\z/ours/r },
    { version => 'ours', nginx_version => (`$binary -v 2>&1` =~ m{/([\d.]+)})[0] },
    'what is running, and on which nginx';

# Each kind of request, over all workers.

my @sig = (iss => 'http://issuer.test');
my $branch = jwt_token(branch => $key, @sig);
my %token = (
    verified        => $branch,
    token_signature => jwt_tamper($branch, 2, 9),
    token_expired   => jwt_token(branch => $key, @sig, iat => time - 900,
        exp => time - 600),
    token_issuer    => jwt_token(branch => $key, iss => 'other'),
    token_alg       => jwt_sign(secret => 'x', header => { kid => 'a' },
        payload => jwt_claims('branch')),
);
my $n = 20;
for my $reason (sort keys %token) {
    http_parallel([ map { [ $port, http_request_bytes(GET => '/branch',
        token => $token{$reason}) ] } 1 .. $n ]);
}
counted('requests branch allow' => $n, 'requests branch deny' => 4 * $n,
    (map { ("tokens $_" => $n) } sort keys %token),
    map { ("refusals $_" => $n) } grep { $_ ne 'verified' } sort keys %token);

my $PUB = 'pub"\{é}';
http_get($port, '/public') for 1 .. 7;
counted("requests $PUB allow" => 7);
is scalar(of_route($PUB, 'requests_total')), 4, 'a route id of any characters';
http_get($port, '/branch');
counted('refusals token_missing' => 1, 'tokens token_shape' => 0);
http_get($port, '/branch', headers => [ Authorization => 'Bearer ' . 'x ' ]);
http_post($port, '/branch', body => '');
http_get($port, '/nothing') for 1 .. 3;
http($port, OPTIONS => '/branch', headers => [ Origin => 'https://evil.test',
    'Access-Control-Request-Method' => 'GET' ]);
http($port, OPTIONS => '/branch');
counted('refusals token_shape' => 1, 'tokens token_shape' => 1, 'refusals method_forbidden' => 1,
    'refusals route_not_found' => 3, 'requests - deny' => 3, 'refusals origin_forbidden' => 1,
    'requests branch allow' => $n + 1);

# Requests that nginx refuses before any location is found; those of a
# location or a server where the gateway is off.

http_raw($port, $_) for "nonsense\r\n\r\n", "GET /public\r\n",
    'GET /' . 'a' x 5000 . " HTTP/1.1\r\n\r\n";
Platform::Test::Http->new(port => $port)->close;
http_get(@$_) for [ $port, '/off' ], [ $t->port('other'), '/' ];
counted('refusals bad_request' => 2, 'refusals uri_too_long' => 1, 'requests - deny' => 6,
    'requests - none' => 1);

# One request, whatever it takes to answer it.

like http_get($port, '/ssi/page', token => $branch)->body,
    qr{"uri":"/branch/a".*"uri":"/public/b".*a part}s, 'a page with three subrequests';
counted('requests ssi allow' => 1, 'requests - allow' => 0, 'tokens verified' => $n + 1);
http_get($port, '/branch', token => jwt_token(account => $key, @sig));
counted('refusals context_forbidden' => 1, 'tokens verified' => $n + 2,
    "requests $PUB deny" => 2, 'requests branch allow' => $n + 1);
my $c = Platform::Test::Http->new(port => $port);
$c->request(GET => '/public') for 1 .. 5;
$c->close;
http_get($port, '/shadow');
http_get($port, '/branch', token => jwt_token(branch => $next, @sig, iat => time - 60));
counted("requests $PUB allow" => 12, 'requests s shadow' => 1,
    'refusals token_missing shadow' => 1, 'refusals token_missing' => 1,
    'refusals kid_unknown' => 1, 'tokens kid_unknown' => 1);

# The upstream's answers by their class; a request that it never saw, and one
# that it did not answer, is of none or of nginx's own 502.

http_get($port, "/status?status=$_") for 204, 304, 404, 404, 500, 503, 503, 503;
is http_get($port, '/dead')->status, 502, 'an upstream that is not there';
is http_get($port, '/retried')->status, 200, 'one of two that is there';
counted('upstream branch 2xx' => $n, 'upstream branch none' => 4 * $n + 5,
    'upstream branch 5xx' => 0, 'upstream status 2xx' => 1, 'upstream status 3xx' => 1,
    'upstream status 4xx' => 2, 'upstream status 5xx' => 4, 'upstream status none' => 0,
    'upstream dead 5xx' => 1, 'upstream retried 2xx' => 1, 'upstream retried 5xx' => 0,
    'upstream ssi none' => 1);

# How long requests took: one each, in all buckets from its own upwards.

sub buckets ($route) {
    my %le = map { $_->[0]{le} => $_->[1] } grep { exists $_->[0]{le} }
        of_route($route, 'request_duration_seconds');
    return map { $le{$_} } qw(0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 +Inf);
}

http_parallel([ map { [ $port, http_request_bytes(GET => "/slow?delay=$_") ] }
    0.3, 0.3, 1.2 ]);
counts('request_duration_seconds_count{route="slow"}', 3);
is_deeply [ (buckets('slow'))[ 0 .. 5, 11 ] ], [ (0) x 6, 3 ],
    'none was faster than 300 ms, each is in the last bucket';
my $took = is_now('request_duration_seconds_sum{route="slow"}');
ok $took >= 1.8 && $took < 1000, "the sum of what they took, in seconds: $took";
counts('request_duration_seconds_count{route="branch"}', 5 * $n + 5);

sub sum { my $sum = 0; $sum += $_->[1] for @_; return $sum }
scrape();
for my $route ('', qw(branch ssi s status dead slow)) {
    my @families = (sum(of_route($route, 'requests_total')), (buckets($route))[-1],
        sum(of_route($route, 'upstream_responses_total')));
    is_deeply \@families, [ ($families[0]) x 3 ],
        "$route: each request is counted once in each family";
}

my $total = sum(@{ $family->{platform_gateway_requests_total}{samples} });
my @counted;
eventually(sub {
    @counted = grep { !m{"path":"/metrics"|"path":"/","status":200} }
        $nginx->access_log =~ /^(.*)\n/mg;
    return @counted >= $total;
});
is $total, @counted, 'as many as lines in the access log';

sub reload {
    $nginx->settled;
    return $t->reload;
}

# Scrapes, and looks for counters of the last scrape that went down.
sub nothing_lost ($name) {
    my $old = $sample;
    eventually(sub { scrape() && $sample });
    is_deeply [ grep { /_total/ && ($sample->{$_} // $old->{$_}) < $old->{$_} } keys %$old ], [],
        "$name: no counter went down";
}

for my $round (1 .. 4) {
    ok reload(), 'a reload';
    http_get($port, '/public');
    nothing_lost("reload $round");
}
counted("requests $PUB allow" => 16);

# A request that is at its upstream until the hold ends.
sub begin ($path) {
    my $count = $upstream->count;
    my $held = Platform::Test::Http->new(port => $port);
    $upstream->set(hold => 1);
    $held->send(http_request_bytes(GET => "$path?hold&delay=0.3"));
    ok eventually(sub { $upstream->count > $count }), 'a request is on its way';
    return $held;
}

# Connections of old workers count in the end, beside new ones.

$c = begin('/public');
reload();
http_get($port, '/public') for 1 .. 10;
counted("requests $PUB allow" => 26);
$upstream->set(hold => 0);
is $c->read_response->status, 200, 'the old worker answers';
counted("requests $PUB allow" => 27);

# A worker that is killed leaves its counts, and its slot to the next one.

$t->allow(qr/exited on signal 9/);
scrape();
my ($victim) = $nginx->workers;
kill 'KILL', $victim;
ok eventually(sub {
    my %now = map { $_ => 1 } $nginx->workers;
    keys %now == 4 && !$now{$victim};
}), 'a worker was killed and replaced';
nothing_lost('killed');
http_get($port, '/public') for 1 .. 8;
counted("requests $PUB allow" => 35);

# What killed workers had in their caches is in nobody's.

http_get($port, '/branch', token => $branch);
scrape();
is is_now('token_cache_entries'), 1, 'a token is in a cache';
kill 'KILL', $nginx->workers;
ok eventually(sub { scrape(); (is_now('token_cache_entries') // 1) == 0 }),
    'with the last worker the last token is gone';
nothing_lost('all killed');

# Another set of routes, of workers, and back.  A request that is on its way
# meanwhile counts for the route that it came by, there or not.

$c = begin('/slow');
$t->set(WORKERS => 1, MORE => join "\n", map {
    "location /more$_ { empty_gif; platform_gateway_route more-$_; }"
} 1 .. 40);
$nginx = $t->gateway_conf(
    $SERVER =~ s/route ssi;/route renamed;/r =~ s/route slow;/route quick;/r,
    %AROUND);
ok reload(), 'forty routes more, two fewer';
nothing_lost('more routes');
http_get($port, "/more$_") for 1 .. 40;
counted("requests more-$_ allow" => 1) for 1, 2, 39, 40;
counted("requests $PUB allow" => 35);
$upstream->set(hold => 0);
is $c->read_response->status, 200, 'the old worker answers';
counted('requests quick allow' => 0);
ok !(grep {/route="(?:ssi|slow)"/} keys %$sample), 'those that are gone are gone';
$t->set(WORKERS => 2, MORE => '');
$t->gateway_conf($SERVER, %AROUND);
ok reload(), 'and back';
counted('requests ssi allow' => 1, 'requests slow allow' => 4, 'upstream slow 2xx' => 4,
    'requests branch deny' => 4 * $n + 4);
counts('request_duration_seconds_count{route="slow"}', 4);
ok !(grep {/route="more/} keys %$sample), 'what is gone is gone';

for my $then ([ 'key_fetches_total{outcome="failed"}' => 1, status => 500 ],
    [ key_set_version => 2, status => 200, body => jwks($key, $next) ])
{
    my ($series, $is, %state) = @$then;
    $issuer->set(%state);
    ok eventually(sub {
        http_get($port, '/branch', token => jwt_token(branch => $next, @sig));
        scrape();
        is_now($series) == $is;
    }), "$series is $is";
    is is_now('key_set_keys'), $is, "of $is keys";
}
cmp_ok is_now('key_set_age_seconds'), '<', 30 * $t->scale, 'which is new';

my %allowed = (
    decision => qr/\A(?:none|allow|deny|shadow)\z/,
    class    => qr/\A(?:none|[1-5]xx)\z/,
    le       => qr/\A(?:[\d.]+|\+Inf)\z/,
    version  => qr/\A[\d.]+(?:~[.\w]+)?\z/, nginx_version => qr/\A[\d.]+\z/,
    event    => qr/\A(?:hit|miss|eviction)\z/,
    outcome  => qr/\A(?:new|unchanged|failed|superseded)\z/,
    reason   => qr/\A[a-z_]+\z/, result => qr/\A[a-z_]+\z/,
    route    => qr/\A(?:|branch|ssi|s|status|slow|dead|retried|pub"\\\{é\})\z/,
    zone     => qr/\Agateway(?:_counters)?\z/,
);
my @odd = grep { !$allowed{ $_->[0] } || $_->[1] !~ $allowed{ $_->[0] } }
    map { my $labels = $_->[0]; map { [ $_ => $labels->{$_} ] } keys %$labels }
    map { @{ $_->{samples} } } values %$family;
is_deeply \@odd, [], 'labels are what they may be';
my $reasons = () = $t->read_file($t->root . '/ngx_platform_gateway_module/ngx_http_pgw.h')
    =~ /^    X\(/mg;
cmp_ok keys %$sample, '<', 28 + 2 * $reasons + 9 * 24, 'and bounded';
$t->done;
