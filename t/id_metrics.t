# What the identity face tells: health and readiness, the key set with its validators
# (each check: check_route, check_http), and /actuator/prometheus, where a known mix of
# requests gives exactly these sums, with labels that no client can multiply, to nobody
# but this host.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Metrics;

my $t = Platform::Test->new;
my $started = time;
my $stack = $t->full_stack(env => {
    PLATFORM_WORKER_THREADS        => 4,
    PLATFORM_AUTH_MAX_FAILURES     => 2,
    PLATFORM_REQUEST_TIMEOUT       => '30s',
    PLATFORM_DB_STATEMENT_TIMEOUT  => '20s',
    PLATFORM_AUTH_HASH_CONCURRENCY => 2,
    PLATFORM_TRUSTED_PROXIES       => '127.0.0.1',
    PLATFORM_REVOCATIONS_ENABLED   => 'false',    # the gateway would ask, too
});
my $face = client_of($t);
my $name = '/actuator/prometheus';

sub scrape { return metrics_scrape($face, $name) }

# What the code changes, without the clock's and the scrape's own part, and without
# workers, who are busy until the peer has closed.
sub changed ($code) {
    my $before = scrape();
    $code->();
    my $diff = metrics_changes($before, scrape());
    my $own = qq(identity_requests_total{endpoint="$name",status="200",code=""});
    is delete $diff->{$own}, 1, 'the scrape itself is counted after it';
    delete $diff->{$_} for grep {
        /_bucket|_sum|^process_|^identity_connections_(?:accepted|open)|pool_used
        |workers_busy|\Q$name\E/x
    } keys %$diff;
    return $diff;
}

# The series of requests: [endpoint, status, code, how many].
sub answered {
    my %series;
    for my $row (@_) {
        my ($endpoint, $status, $code, $n) = @$row;
        $series{qq(identity_requests_total{endpoint="$endpoint",status="$status",)
            . qq(code="$code"})} = $n;
        $series{qq(identity_request_duration_seconds_count{endpoint="$endpoint"})} += $n;
    }
    return %series;
}

# -- the syntax (which scraping checks), and what a process tells about itself

my $first = scrape();
my $kid = jwt_key('identity')->kid;
my %gauges = (
    workers => 4, requests_queued => 0, hash_slots => 2, hash_slots_used => 0,
    hash_queue => 0, db_pool_size => 4, keys => 1, qq(signing_key_info{kid="$kid"}) => 1,
    # What has not happened yet is there as 0.
    'logins_total{outcome="succeeded"}' => 0,
);
is_deeply { map { $_ => $first->{"identity_$_"} } keys %gauges }, \%gauges, 'gauges';
is_deeply [ map { $first->{$_} } grep {/^identity_build_info\{version="\d[^"]*"\}$/} keys %$first ],
    [1], 'the version';
my $start = $first->{process_start_time_seconds};
ok $start >= $started && $start <= time + 1, 'start time';
cmp_ok $first->{process_resident_memory_bytes}, '>', 1e6, 'memory';

# -- logins, sessions: exact

my %token;
my $diff = changed(sub {
    $token{one} = logged_in('one');
    logged_in('one');
    $token{several} = logged_in('several');
    login($_, credential => 'wrong') for qw(several several nobody nobody nobody);
    call(login => []);
    select_branch($token{several}, branch(31));
    my $new = refresh($token{one})->json;
    refresh($_) for $new, ($token{one}) x 3, 'x';
    call(refresh => {});
    logout($token{several}) for 1 .. 2;
});
my $statements = delete $diff->{identity_db_statement_duration_seconds_count};
cmp_ok $statements, '>', 20, "$statements statements were timed";
delete $diff->{identity_db_connects_total};    # may have been made
is_deeply $diff, {
    answered([ '/api/auth/login', 200, 'AUTH_LOGIN_SUCCESS', 3 ],
        [ '/api/auth/login', 401, 'AUTH_INVALID_CREDENTIALS', 4 ],
        [ '/api/auth/login', 429, 'AUTH_TOO_MANY_ATTEMPTS', 1 ],
        [ '/api/auth/login', 400, 'REQUEST_INVALID', 1 ],
        [ '/api/auth/select-branch', 200, 'AUTH_SELECT_BRANCH_SUCCESS', 1 ],
        [ '/api/auth/refresh', 200, 'AUTH_REFRESH_SUCCESS', 2 ],
        [ '/api/auth/refresh', 401, 'AUTH_REFRESH_TOKEN_STALE', 3 ],
        [ '/api/auth/refresh', 401, 'AUTH_REFRESH_TOKEN_MISSING', 1 ],
        [ '/api/auth/refresh', 401, 'AUTH_REFRESH_TOKEN_INVALID', 1 ],
        [ '/api/auth/logout', 200, 'AUTH_LOGOUT_SUCCESS', 2 ]),
    'identity_logins_total{outcome="succeeded"}'       => 3,
    'identity_logins_total{outcome="failed"}'          => 4,
    'identity_logins_total{outcome="limited"}'         => 1,
    'identity_logins_total{outcome="invalid"}'         => 1,
    'identity_hash_duration_seconds_count'             => 7,
    'identity_hash_wait_seconds_count'                 => 7,
    'identity_hash_work_total'                         => 7 * 19456 * 2,
    'identity_branches_selected_total'                 => 1,
    'identity_refresh_rotations_total'                 => 2,
    'identity_refresh_stale_total'                     => 3,
    'identity_sessions_revoked_total{reason="logout"}' => 1,
}, 'logins, refreshes, a selection, logouts: exact' or diag explain $diff;

# The rest of the endpoints; many threads at once.  Labels are bounded, whatever is
# asked for.

$diff = changed(sub {
    http_get($face, '/healthz') for 1 .. 2;
    my $etag = http_get($face, '/.well-known/jwks.json')->header('ETag');
    http_get($face, '/.well-known/jwks.json', headers => [ 'If-None-Match' => $etag ]);
    http_get($face, '/api/auth/login');
    http_post($face, '/api/auth/refresh', body => 'x' x 20_000);
    my $bytes = http_request_bytes(GET => '/actuator/info');
    http_parallel([ map { [ $face, $bytes ] } 1 .. 60 ]);
    http($face, ('GET', 'PUT', 'FROB')[ $_ % 3 ], "/path%22$_", headers => [
        'User-Agent' => "agent$_" ]) for 1 .. 30;
});
is_deeply $diff, { answered(
    [ '/healthz', 200, '', 2 ], [ '/.well-known/jwks.json', 200, '', 1 ],
    [ '/.well-known/jwks.json', 304, '', 1 ],
    [ '/api/auth/login', 405, 'METHOD_NOT_ALLOWED', 1 ],
    [ '/api/auth/refresh', 413, 'REQUEST_TOO_LARGE', 1 ],
    [ '/actuator/info', 200, '', 60 ], [ 'other', 404, 'RESOURCE_NOT_FOUND', 30 ]) },
    'other endpoints: exact, over all threads; thirty paths are one series'
    or diag explain $diff;
is scalar(grep {/"other".*"other"/} keys %{ scrape() }), 0, 'no code is unknown';

# Every code that the sources may answer with has a place.

my $src = $t->root . '/identity-fcgi/src';
my %known = map { $_ => 1 } $t->read_file("$src/base/metrics.c") =~ /\{\d+, "([A-Z_]+)"\}/g;
my $prefix = qr/AUTH|SYSTEM|REQUEST|RESOURCE|METHOD|MEDIA|DATABASE|SERVICE|INTERNAL/;
my %used = map { $_ => 1 } map { $t->read_file($_) =~ /"(${prefix}_[A-Z_]+)"/g }
    glob "$src/{auth/*,base/http,server/route,main}.c";
delete @used{qw(REQUEST_METHOD REQUEST_SCHEME REQUEST_URI)};    # FastCGI's parameters
is_deeply [ grep { !$known{$_} } sort keys %used ], [],
    scalar(keys %used) . ' codes of the sources are in the table';

# -- health, readiness and the key set

my @ready = qw(/readyz /internal/readyz /actuator/health /actuator/health/readiness);
my @alive = qw(/healthz /actuator/health/liveness);
my $pg = $t->postgres;
$pg->sql('create database empty owner platform', user => 'postgres');
my %no_keys = map { ("PLATFORM_JWT_$_" => undef) } qw(KEY_ID PRIVATE_KEY_BASE64 PUBLIC_KEY_BASE64);
for my $case ([ 'signing key' => 500, %no_keys ], [ migrations => 503, PLATFORM_DB_NAME => 'empty',
    PLATFORM_DB_MIGRATE_ON_START => 'false', PLATFORM_DB_SEED_ON_START => undef ])
{
    my ($why, $login, %env) = @$case;
    my $p = $t->identity(name => $why =~ s/ .*//r, %env);
    is_deeply [ map { my $got = $t->fcgi($p->address)->request(@$_);
        [ $got->{status}, $got->{body} =~ /$why|"keys":\[\]/ ? 1 : 0 ] } [ GET => '/readyz' ],
        [ GET => '/healthz' ], [ POST => '/api/auth/login', body =>
            '{"account":"one@demo.test","credential":"Demo-passw0rd!"}' ] ],
        [ [ 503, 1 ], [ 200, 0 ], [ $login, 0 ] ], "no $why: not ready, and says so; no login";
}
my $res = http_get($face, my $set = '/.well-known/jwks.json');
is_deeply [ $res->status, $res->header('Cache-Control'), $res->json->{keys} ],
    [ 200, 'public, max-age=300', [ jwt_key('identity')->jwk ] ], 'the key set, to be kept';
# -- without a database; its connections in use; connections that come to nothing

$diff = changed(sub { $pg->stop('QUIT'); refresh($token{one}) });
my %refused = answered([ '/api/auth/refresh', 503, 'DATABASE_UNAVAILABLE', 1 ]);
is_deeply { map { $_ => $diff->{$_} } keys %refused }, \%refused, 'no database: 503 is counted';
ok scalar(grep {/^identity_db_errors_total/} keys %$diff), 'no database: so are its errors';
is http_get($face, $_)->status, 200, "no database: $_" for @alive, $set;
is_problem(http_get($face, $_), 503, 'DATABASE_UNAVAILABLE', "no database: $_") for @ready;
$diff = changed(sub {
    $pg->start;
    eventually(sub { http_get($face, '/readyz')->status == 200 });
});
cmp_ok $diff->{identity_db_connects_total}, '>=', 1, 'and reconnecting';

sub request_bytes ($body, %o) {
    return Platform::Test::Fcgi::request_bytes(POST => '/api/auth/refresh', body => $body, %o);
}
my @waiting = map { logged_in('one')->{refreshToken} } 1 .. 2;
my $address = $stack->identity->address;
$pg->freeze('STOP');
my @calls = map { $t->fcgi($address) } @waiting;
$calls[$_]->send(request_bytes(qq({"refreshToken":"$waiting[$_]"}))) for 0 .. 1;
ok eventually(sub { my $now = scrape(); $now->{identity_db_pool_used} == 2
    && $now->{identity_workers_busy} == 3 }),
    'two connections in use, by two workers, and one for this';
$pg->freeze('CONT');
is $_->read_answer->{status}, 200, 'each is answered' for @calls;
is scrape()->{identity_db_pool_used}, 0, 'and its connection is free';
my %dropped = (garbage => "GET / HTTP/1.0\r\n\r\n",
    incomplete => request_bytes('{}', params => { CONTENT_LENGTH => 3 }));
$diff = changed(sub {
    for my $bytes (values %dropped) {
        my $c = $t->fcgi($address);
        $c->send($bytes);
        $c->connection->closed;
    }
});
is $diff->{qq(identity_connections_dropped_total{reason="$_"})}, 1, "$_ is counted"
    for keys %dropped;

# -- for this host alone (never through the gateway: http_api.t, e2e_routes.t)

# Not the client of a proxy here; a trusted one brings what that client says too.
for my $path ($name, '/actuator/info', '/internal/revocations') {
    is_problem http_get($face, $path, headers => $_), 403,
        'GATEWAY_FORBIDDEN', "$path: not to others: @$_"
        for [ 'X-Forwarded-For' => '10.1.2.3' ], [ 'X-Forwarded-For' => '127.0.0.1, 10.1.2.3' ],
        [ 'X-Forwarded-For' => '127.0.0.1' ], [ Forwarded => 'for=127.0.0.1' ];
}
my $app = http_get($face, '/actuator/info')->json->{app};
is_deeply [ sort keys %$app ], [qw(environment name schema version)], '/actuator/info';

$t->done;
