# /actuator/prometheus: a known mix of requests gives exactly these sums, with
# labels that no client can multiply, to nobody but this host.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Metrics;
use Test::More;
use Time::HiRes qw(sleep time);

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
my $face = $stack->face;
my $name = '/actuator/prometheus';

sub scrape { return metrics_scrape($face, $name) }

sub login {
    my ($account, $credential) = @_;
    return http_post($face, '/api/auth/login', json => {
        account => $account,
        credential => $credential // $Platform::Test::Stack::CREDENTIAL });
}

# What the code changes, without the clock's and the scrape's own part.
sub changed {
    my ($code) = @_;

    my $before = scrape();
    $code->();
    my $diff = metrics_changes($before, scrape());
    my $own = qq(identity_requests_total{endpoint="$name",status="200",code=""});
    is delete $diff->{$own}, 1, 'the scrape itself is counted after it';
    delete $diff->{$_} for grep {
        /_bucket|_sum|^process_|^identity_connections_(?:accepted|open)|pool_used
        |\Q$name\E/x
    } keys %$diff;
    return $diff;
}

sub requests {
    my ($endpoint, $status, $code) = @_;
    return qq(identity_requests_total{endpoint="$endpoint",status="$status",)
        . qq(code="$code"});
}

sub durations {
    my ($endpoint) = @_;
    return qq(identity_request_duration_seconds_count{endpoint="$endpoint"});
}

# The syntax, and what a process tells about itself.

my $first = scrape();
pass 'every line is well-formed, every series stands once, with its family';
is $first->{'identity_workers'}, 4, 'worker threads';
is $first->{'identity_workers_busy'}, 1, 'one of them is busy with this';
is $first->{'identity_requests_queued'}, 0, 'nobody waits';
is $first->{'identity_hash_slots'}, 2, 'hash slots';
is $first->{'identity_hash_slots_used'}, 0, 'none used';
is $first->{'identity_hash_queue'}, 0, 'no login waits for one';
is $first->{'identity_db_pool_size'}, 4, 'pool size';
is $first->{'identity_keys'}, 1, 'one key';
my $kid = jwt_key('identity')->kid;
is $first->{qq(identity_signing_key_info{kid="$kid"})}, 1, 'by its id';
my ($build) = grep {/^identity_build_info\{version="\d[^"]*"\}$/} keys %$first;
is $first->{ $build // '' }, 1, 'the version';
cmp_ok $first->{process_start_time_seconds}, '>=', int $started, 'start time';
cmp_ok $first->{process_start_time_seconds}, '<=', time, 'start time: past';
cmp_ok $first->{process_resident_memory_bytes}, '>', 1e6, 'memory';
is $first->{'identity_logins_total{outcome="succeeded"}'}, 0,
    'what has not happened yet is there as 0';

# Logins, sessions.

my %token;
my $diff = changed(sub {
    $token{one} = login('one@demo.test')->json;
    login('one@demo.test');
    $token{several} = login('several@demo.test')->json;
    login('several@demo.test', 'wrong') for 1 .. 2;
    login('nobody@demo.test', 'wrong') for 1 .. 2;
    login('nobody@demo.test', 'wrong');
    http_post($face, '/api/auth/login', json => []);
    http_post($face, '/api/auth/select-branch',
        json => { branchId => $token{several}{branches}[0]{branchId} },
        token => $token{several}{accountAccessToken});
    my $old = $token{one}{refreshToken};
    my $new = http_post($face, '/api/auth/refresh',
        json => { refreshToken => $old })->json->{refreshToken};
    http_post($face, '/api/auth/refresh', json => { refreshToken => $new });
    http_post($face, '/api/auth/refresh', json => { refreshToken => $old })
        for 1 .. 3;
    http_post($face, '/api/auth/refresh', json => {});
    http_post($face, '/api/auth/refresh', json => { refreshToken => 'x' });
    http_post($face, '/api/auth/logout',
        json => { refreshToken => $token{several}{refreshToken} }) for 1 .. 2;
});
my $statements = delete $diff->{identity_db_statement_duration_seconds_count};
cmp_ok $statements, '>', 20, "$statements statements were timed";
is delete $diff->{identity_db_connects_total} // 0,
    $diff->{identity_db_connects_total} // 0, 'connections may have been made';
is_deeply $diff, {
    requests('/api/auth/login', 200, 'AUTH_LOGIN_SUCCESS')        => 3,
    requests('/api/auth/login', 401, 'AUTH_INVALID_CREDENTIALS')  => 4,
    requests('/api/auth/login', 429, 'AUTH_TOO_MANY_ATTEMPTS')    => 1,
    requests('/api/auth/login', 400, 'REQUEST_INVALID')           => 1,
    durations('/api/auth/login')                                  => 9,
    'identity_logins_total{outcome="succeeded"}'                  => 3,
    'identity_logins_total{outcome="failed"}'                     => 4,
    'identity_logins_total{outcome="limited"}'                    => 1,
    'identity_logins_total{outcome="invalid"}'                    => 1,
    'identity_hash_duration_seconds_count'                        => 7,
    'identity_hash_wait_seconds_count'                            => 7,
    'identity_hash_work_total'                                => 7 * 19456 * 2,
    requests('/api/auth/select-branch', 200,
        'AUTH_SELECT_BRANCH_SUCCESS')                             => 1,
    durations('/api/auth/select-branch')                          => 1,
    'identity_branches_selected_total'                            => 1,
    requests('/api/auth/refresh', 200, 'AUTH_REFRESH_SUCCESS')    => 2,
    requests('/api/auth/refresh', 401, 'AUTH_REFRESH_TOKEN_STALE') => 3,
    requests('/api/auth/refresh', 401, 'AUTH_REFRESH_TOKEN_MISSING') => 1,
    requests('/api/auth/refresh', 401, 'AUTH_REFRESH_TOKEN_INVALID') => 1,
    durations('/api/auth/refresh')                                => 7,
    'identity_refresh_rotations_total'                            => 2,
    'identity_refresh_stale_total'                                => 3,
    requests('/api/auth/logout', 200, 'AUTH_LOGOUT_SUCCESS')      => 2,
    durations('/api/auth/logout')                                 => 2,
    'identity_sessions_revoked_total{reason="logout"}'            => 1,
}, 'logins, refreshes, a selection, logouts: exact'
    or diag explain $diff;

# The rest of the endpoints; many threads at once.

$diff = changed(sub {
    http_get($face, '/healthz') for 1 .. 2;
    my $etag = http_get($face, '/.well-known/jwks.json')->header('ETag');
    http_get($face, '/.well-known/jwks.json',
        headers => [ 'If-None-Match' => $etag ]);
    http_get($face, '/api/auth/login');
    http_post($face, '/api/auth/refresh', body => 'x' x 20_000);
    my $bytes = http_request_bytes(GET => '/actuator/info');
    http_parallel([ map { [ $face, $bytes ] } 1 .. 100 ]);
});
is_deeply $diff, {
    requests('/healthz', 200, '')                       => 2,
    durations('/healthz')                               => 2,
    requests('/.well-known/jwks.json', 200, '')         => 1,
    requests('/.well-known/jwks.json', 304, '')         => 1,
    durations('/.well-known/jwks.json')                 => 2,
    requests('/api/auth/login', 405, 'METHOD_NOT_ALLOWED') => 1,
    durations('/api/auth/login')                        => 1,
    requests('/api/auth/refresh', 413, 'REQUEST_TOO_LARGE') => 1,
    durations('/api/auth/refresh')                      => 1,
    requests('/actuator/info', 200, '')                 => 100,
    durations('/actuator/info')                         => 100,
}, 'other endpoints: exact, over all threads' or diag explain $diff;

# Labels are bounded, whatever is asked for.

$diff = changed(sub {
    http($face, ("GET", "PUT", "FROB")[ $_ % 3 ], "/path%22$_", headers => [
        'User-Agent' => "agent$_" ]) for 1 .. 50;
});
is_deeply $diff, {
    requests('other', 404, 'RESOURCE_NOT_FOUND') => 50,
    durations('other')                           => 50,
}, 'fifty paths and methods are one series' or diag explain $diff;

my $all = scrape();
is scalar(grep {/"other".*"other"/} keys %$all), 0, 'no code is unknown';
my %label;
for (keys %$all) {
    $label{$1}{$2}++ while /([a-z]+)="([^"]*)"/g;
}
my %path = map { $_ => 1 } keys %{ $label{endpoint} };
delete @path{ '/api/auth/login', '/api/auth/refresh', '/api/auth/logout',
    '/api/auth/select-branch', '/healthz', '/readyz', '/actuator/info', $name,
    '/.well-known/jwks.json', 'other' };
is_deeply [ keys %path ], [], 'endpoints are paths of the program alone';

# Every code that the sources may answer with has a place.

open my $table, '<', $t->root . '/identity-fcgi/src/base/metrics.c' or die;
my %known = map { $_ => 1 } join('', <$table>) =~ /\{\d+, "([A-Z_]+)"\}/g;
my %used;
for my $file (glob $t->root . '/identity-fcgi/src/{auth/*,base/http,server/route,main}.c') {
    open my $fh, '<', $file or die "$file: $!";
    $used{$_} = $file for join('', <$fh>)
        =~ /"((?:AUTH|REQUEST|RESOURCE|METHOD|MEDIA|DATABASE|SERVICE|INTERNAL)_[A-Z_]+)"/g;
}
delete @used{qw(REQUEST_METHOD REQUEST_SCHEME)};    # FastCGI's parameters
is_deeply [ grep { !$known{$_} } sort keys %used ], [],
    scalar(keys %used) . ' codes of the sources are in the table';

# Histograms.

for my $h ('identity_request_duration_seconds', 'identity_hash_duration_seconds') {
    my $labels = $h =~ /request/ ? 'endpoint="/api/auth/login",' : '';
    my @counts = map { $all->{"${h}_bucket{${labels}le=\"$_\"}"} }
        qw(0.001 0.0025 0.005 0.01 0.025 0.05 0.1 0.25 0.5 1 2.5 5 10 +Inf);
    is scalar(grep {defined} @counts), 14, "$h: 14 buckets";
    is scalar(grep { $counts[$_] < $counts[ $_ - 1 ] } 1 .. 13), 0,
        "$h: cumulative";
    my $rest = $labels ? '{endpoint="/api/auth/login"}' : '';
    is $counts[13], $all->{"${h}_count$rest"}, "$h: +Inf is the count";
    cmp_ok $all->{"${h}_sum$rest"}, '>', 0.001, "$h: a sum";
    is $counts[0] < $counts[13], 1, "$h: a hash takes more than 1 ms";
}

# Without a database.

$diff = changed(sub {
    $t->postgres->stop('QUIT');
    http_post($face, '/api/auth/refresh',
        json => { refreshToken => $token{one}{refreshToken} });
});
is $diff->{ requests('/api/auth/refresh', 503, 'DATABASE_UNAVAILABLE') }, 1,
    'no database: 503 is counted';
my $errors = 0;
$errors += $diff->{$_} for grep {/^identity_db_errors_total/} keys %$diff;
cmp_ok $errors, '>=', 1, 'no database: so are its errors';
$diff = changed(sub {
    $t->postgres->start;
    eventually(sub { http_get($face, '/readyz')->status == 200 });
});
cmp_ok $diff->{identity_db_connects_total}, '>=', 1, 'and reconnecting';

# Connections of the pool in use: those of requests that wait for an answer.

my @waiting = map { login('one@demo.test')->json->{refreshToken} } 1 .. 2;
$t->postgres->freeze('STOP');
my @calls = map { $t->fcgi($stack->identity->address) } @waiting;
$calls[$_]->send(Platform::Test::Fcgi::request_bytes(
    POST => '/api/auth/refresh',
    body => qq({"refreshToken":"$waiting[$_]"}))) for 0 .. 1;
my $now;
ok eventually(sub { $now = scrape(); $now->{identity_db_pool_used} == 2
    && $now->{identity_workers_busy} <= 3 }), 'two connections in use';
is $now->{identity_workers_busy}, 3, 'by two workers, and one for this';
$t->postgres->freeze('CONT');
is $_->read_answer->{status}, 200, 'each is answered' for @calls;
is scrape()->{identity_db_pool_used}, 0, 'and its connection is free';

# Connections that come to nothing.

$diff = changed(sub {
    my $address = $stack->identity->address;
    my $c = $t->fcgi($address);
    $c->send("GET / HTTP/1.0\r\n\r\n");
    $c->connection->closed;
    $c = $t->fcgi($address);
    $c->send(Platform::Test::Fcgi::request_bytes(POST => '/api/auth/refresh',
        body => '{}', params => { CONTENT_LENGTH => 3 }));
    $c->connection->closed;
});
is $diff->{'identity_connections_dropped_total{reason="garbage"}'}, 1,
    'garbage is counted';
is $diff->{'identity_connections_dropped_total{reason="incomplete"}'}, 1,
    'a body cut short is counted';

# For this host alone, and never through the gateway.

for my $path ($name, '/actuator/info', '/internal/revocations') {
    is http_get($face, $path)->status, 200, "$path: served to this host";
    # Not the client of a proxy here; a trusted one brings what that client
    # says too.
    is_problem http_get($face, $path, headers => $_), 403,
        'GATEWAY_FORBIDDEN', "$path: not to others: @$_"
        for [ 'X-Forwarded-For' => '10.1.2.3' ],
        [ 'X-Forwarded-For' => '127.0.0.1' ],
        [ 'X-Forwarded-For' => '127.0.0.1, 10.1.2.3' ],
        [ Forwarded => 'for=127.0.0.1' ];
    is_problem http_get($stack->gateway, $path), 404,
        'GATEWAY_ROUTE_NOT_FOUND', "$path: not through the gateway";
}
for my $path (qw(/internal/readyz /actuator/health /actuator/health/liveness
    /actuator/health/readiness), '/api/auth/../../internal/readyz',
    '/actuator%2fhealth', '/%61ctuator/health', '//actuator/health')
{
    is_problem http_get($stack->gateway, $path), 404,
        'GATEWAY_ROUTE_NOT_FOUND', "$path: not through the gateway";
    (my $plain = $path) =~ s{.*(?=/internal)|%2f.*|%61.*|^/(?=/)}{};
    next if $plain ne $path;
    is http_get($face, $path)->status, 200, "$path: on the identity face";
}
is_problem http_get($stack->gateway, "/api/auth$_"), 404,
    'RESOURCE_NOT_FOUND', "/api/auth$_: nor below its own paths"
    for qw(/readyz /healthz /actuator/health);
for my $path (qw(/healthz /readyz)) {
    is http_get($face, $path)->json->{service}, 'identity-service',
        "$path: identity's on its face";
    isnt http_get($stack->gateway, $path)->json->{service},
        'identity-service', "$path: the gateway's own at the gateway";
}
is http_get($face, '/actuator/health', headers => [
    'X-Forwarded-For' => '10.1.2.3' ])->status, 200, 'health is for everyone';

my $info = http_get($face, '/actuator/info')->json;
is_deeply [ sort keys %{ $info->{app} } ],
    [qw(environment name schema version)], '/actuator/info: its members';
is $info->{app}{name}, 'identity-service', '/actuator/info: the name';
is $info->{app}{environment}, 'local', '/actuator/info: the environment';
like $info->{app}{version}, qr/^\d+\.\d+/, '/actuator/info: the version';

$t->done;
