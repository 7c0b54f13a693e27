# The database goes away, hangs or crashes, also in the middle of many refreshes:
# 503 in bounded time, nothing half done, what was given up on does not happen
# later, and recovery without a restart.

use Platform::Test;
use Platform::Test::Load;
use Platform::Test::Sessions;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my $pg = $t->postgres(durable => 1);
my $unit = 3;    # seconds
my $s = $t->full_stack(env => {
    PLATFORM_REQUEST_TIMEOUT      => 2 * $unit . 's',
    PLATFORM_DB_STATEMENT_TIMEOUT => "${unit}s",
    PLATFORM_DB_CONNECT_TIMEOUT   => "${unit}s",
});

my $one = $s->login('one')->json;
my $several = $s->login('several')->json;
my $sessions = $pg->sql('select count(*) from auth_sessions');

sub all_503 ($name) {
    my @calls = (
        [ login => { account => 'one@demo.test', credential => 'Demo-passw0rd!' } ],
        [ refresh => { refreshToken => $one->{refreshToken} } ],
        [ 'select-branch' => { branchId => $several->{branches}[0]{branchId} },
            token => $several->{accountAccessToken} ],
        [ logout => { refreshToken => $one->{refreshToken} } ],
    );
    my $start = time;
    my @answers = http_parallel([ map {
        my ($path, @json) = @$_;
        [ $s->gateway, http_request_bytes(POST => "/api/auth/$path", json => @json) ] } @calls ]);
    cmp_ok time - $start, '<', 14 * $t->scale, "$name: in bounded time";
    for my $i (0 .. $#calls) {
        my ($call, $res) = ("$name: $calls[$i][0]", $answers[$i]);
        is_problem($res, 503, 'DATABASE_UNAVAILABLE', $call);
        is_deeply [ map { $res->header($_) } qw(Retry-After Set-Cookie) ], [ 1, undef ],
            "$call: Retry-After, and no cookie touched";
    }

    my %is = (map({ $_ => http_get($s->face, $_) } qw(/healthz /readyz /.well-known/jwks.json)),
        gateway => http_get($s->gateway, '/readyz'), 'no token' => $s->refresh('abc'),
        'a token in hand' => $s->current_context($one->{accessToken}));
    is_deeply { map { $_ => $is{$_}->status } keys %is }, { gateway => 200, '/healthz' => 200,
        '/readyz' => 503, '/.well-known/jwks.json' => 200, 'a token in hand' => 200,
        'no token' => 401 }, "$name: not ready, and what needs no database is answered";
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

# -- it hangs while sixteen clients refresh

my $clients = Platform::Test::Sessions->new;
my $load = Platform::Test::Load->new(port => $s->face, clients => 16);
$clients->log_in($load, several => 16);
my @all = $clients->all;
is scalar @all, 16, 'logged in';

# Each client refreshes a session of its own, until it has been told to wait.

my $frozen;
my $freeze_at = time + 2;
my %answers;
my %over;
$load->run(
    sub ($client, @) {
        $frozen ||= time > $freeze_at && $pg->freeze('STOP');
        return undef if $over{ $client->{number} };
        return { %{ $clients->refresh($all[ $client->{number} ]) },
            client => $client->{number} };
    },
    sub ($request, $answer, @) {
        $answers{"$answer->{status} $answer->{code}"}++;
        $over{ $request->{client} } = 1 if $answer->{status} != 200;
        $clients->note($request, $answer);
    });
$clients->check_stale;
note explain \%answers;
is_deeply [ sort keys %answers ], [ '200 AUTH_REFRESH_SUCCESS', '503 DATABASE_UNAVAILABLE' ],
    'refreshed, or told that the database is not available';
is $answers{'503 DATABASE_UNAVAILABLE'}, 16, 'everybody in the end';
is_deeply $clients->{broken}, [], 'no answer contradicts another';
cmp_ok $clients->{longest}, '<=', 3 * $unit,
    sprintf 'the longest took %.1f s', $clients->{longest};
is http_get($s->face, '/healthz')->status, 200, 'the service lives';

# It goes on: what lies before it is done, and changes nothing any more.

$pg->freeze('CONT');
ok eventually(sub { http_get($s->face, '/readyz')->status == 200 }), 'ready again';
ok eventually(sub { !$pg->sql("select count(*) from pg_stat_activity
    where query like '%auth_sessions%' and state = 'active'
    and pid <> pg_backend_pid()") }), 'and idle';
my %after;
$after{ http_post($s->face, '/api/auth/refresh',
    json => { refreshToken => $_->{current} })->status }++ for @all;
is_deeply \%after, { 200 => 16 }, 'every token is still good' or diag explain \%after;

$t->done;
