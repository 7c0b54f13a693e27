# The database goes away, hangs or crashes: 503 in bounded time, nothing half
# done, and recovery without a restart.

use Platform::Test;

my $t = Platform::Test->new;
my $pg = $t->postgres(durable => 1);
my $s = $t->full_stack(env => {
    PLATFORM_REQUEST_TIMEOUT      => '6s',
    PLATFORM_DB_STATEMENT_TIMEOUT => '3s',
    PLATFORM_DB_CONNECT_TIMEOUT   => '3s',
});

my $one = $s->login('one')->json;
my $several = $s->login('several')->json;
my $sessions = $pg->sql('select count(*) from auth_sessions');

sub all_503 ($name) {
    my @calls = (
        [ login => { account => 'one@demo.test',
            credential => $Platform::Test::Stack::CREDENTIAL } ],
        [ refresh => { refreshToken => $one->{refreshToken} } ],
        [ 'select-branch' => { branchId => $several->{branches}[0]{branchId} },
            token => $several->{accountAccessToken} ],
        [ logout => { refreshToken => $one->{refreshToken} } ],
    );
    my $start = time;
    my @answers = http_parallel([ map {
        my ($path, $json, @o) = @$_;
        [ $s->gateway, http_request_bytes(POST => "/api/auth/$path",
            json => $json, @o) ] } @calls ]);
    cmp_ok time - $start, '<', 14 * $t->scale, "$name: in bounded time";
    for my $i (0 .. $#calls) {
        my ($call, $res) = ("$name: $calls[$i][0]", $answers[$i]);
        is_problem($res, 503, 'DATABASE_UNAVAILABLE', $call);
        is $res->header('Retry-After'), 1, "$call: Retry-After";
        is scalar($res->header_all('Set-Cookie')), 0, "$call: no cookie touched";
    }

    is http_get($s->face, '/healthz')->status, 200, "$name: alive";
    is http_get($s->face, '/readyz')->status, 503, "$name: not ready";
    is http_get($s->face, '/.well-known/jwks.json')->status, 200,
        "$name: the key set is served";
    is http_get($s->gateway, '/readyz')->status, 200, "$name: the gateway is ready";
    is $s->current_context($one->{accessToken})->status, 200, "$name: tokens in hand work";
    is $s->refresh('abc')->status, 401, "$name: what needs no database is answered";
}

sub recovered ($name) {
    ok eventually(sub { http_get($s->face, '/readyz')->status == 200 }), "$name: ready again";
    is $pg->sql('select count(*) from auth_sessions'), $sessions,
        "$name: no session was begun";
    my $res = $s->refresh($one->{refreshToken});
    is $res->status, 200, "$name: the token that got 503 is still good";
    $one = $res->json;
    is $s->login('one')->status, 200, "$name: login";
    $sessions = $pg->sql('select count(*) from auth_sessions');
}

$pg->stop('INT');
all_503('stopped');
$pg->start;
recovered('stopped');

$pg->freeze('STOP');
all_503('hanging');
$pg->freeze('CONT');
recovered('hanging');

$pg->stop('KILL');
is $s->login('one')->status, 503, 'crashed: 503';
$pg->start;
recovered('crashed');

# Connections that were cut while idle are noticed and made again: at most
# the first use of each may fail.

$pg->sql("select pg_terminate_backend(pid) from pg_stat_activity
    where usename = 'platform' and pid <> pg_backend_pid()",
    user => 'postgres');
ok eventually(sub { $s->login('one')->status == 200 }), 'cut connections: login succeeds';

$t->done;
