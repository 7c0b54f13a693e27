# How the service uses its database: few connections, bounded waiting, without
# prepared statements where a pooler wants that, and nothing half done.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Load;
use Platform::Test::Sessions;
use Time::HiRes ();

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $identity = $t->identity_face(
    PLATFORM_DB_POOL_SIZE         => 2,
    PLATFORM_DB_STATEMENT_TIMEOUT => '1s',
    PLATFORM_REQUEST_TIMEOUT      => '12s',
);
my $port = $t->port('identity');
client_of($t);

sub connections {
    return $pg->sql("select count(*) from pg_stat_activity
        where application_name = 'identity-service'");
}

# Cuts those there are behind the service's back.
sub cut {
    $pg->sql("select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'identity-service'", user => 'postgres');
}

# -- few connections

my @answers = map { logged_in('one') } 1 .. 3;
my @all = http_parallel([ map {
    [ $port, http_request_bytes(POST => '/api/auth/refresh',
        json => { refreshToken => $answers[ $_ % 3 ]{refreshToken} }) ]
} 1 .. 60 ]);
is scalar(grep { $_ && $_->status == 200 } @all), 3, 'sixty requests over two connections';
is scalar(grep { $_ && $_->status == 401 } @all), 57, 'all are answered';
is connections(), 2, 'and there were no more';

# -- a lock that somebody holds: 503 in bounded time, nothing half done

my $answer = logged_in('one');
my $held = $pg->begin("select 1 from auth_sessions
    where session_id = '@{[ session_of($answer) ]}' for update");
my $start = Time::HiRes::time();
my $res = refresh($answer);
my $took = Time::HiRes::time() - $start;
is_problem($res, 503, 'DATABASE_UNAVAILABLE', 'a refresh of that row');
cmp_ok $took, '<', 9 * $t->scale, 'after its statement timeout, not its own';
is login('one')->status, 200, 'others go on';
$pg->end($held, 'rollback');
$res = refresh($answer);
is $res->status, 200, 'the token was not used up';
is connections(), 2, 'still two connections';

# -- connections cut behind our back are made again without a failure

for my $round (1, 2) {
    cut();
    ok eventually(sub { connections() == 0 }), 'connections are cut';
    $res = refresh($res->json);
    is $res->status, 200, 'a refresh succeeds at once';

    # All of them, which had just been used, and what only reads.
    ok eventually(sub {    # until two of them ask at once
        http_parallel([ map {
            [ $port, http_request_bytes(GET => '/readyz') ] } 1 .. 20 ]);
        return connections() == 2;
    }), 'two connections';
    cut();
    is http_get($port, '/readyz')->status, 200, 'so does a look';
}

# -- a server restarted between two requests

$pg->stop('INT');
is login('one')->status, 503, 'down: 503';
$pg->start;
ok eventually(sub { login('one')->status == 200 }), 'up: 200';
$res = refresh($res->json);
is $res->status, 200, 'sessions live on';
my @events = map { $_->{event} } $identity->log_lines;
ok scalar(grep { $_ eq 'db.unavailable' } @events), 'the outage is logged';
ok scalar(grep { $_ eq 'db.connected' } @events), 'and its end';
cmp_ok scalar(grep { $_ eq 'db.unavailable' } @events), '<=', 2, 'not once a request';

# -- a server that grants fewer connections than the pool may have: whoever
#    cannot make one waits for those there are

$pg->sql('alter role platform connection limit 3', user => 'postgres');
restart($identity, WORKER_THREADS => 4, DB_POOL_SIZE => 4);
my $sessions = Platform::Test::Sessions->new;
my $load = Platform::Test::Load->new(port => $port, clients => 4);
$sessions->log_in($load, several => 4);
my @own = $sessions->all;
my $calls = int(100 / $t->scale);
my ($left, %answers) = ($calls);
$load->run(
    sub { $left-- > 0 ? $sessions->refresh($own[ $_[0]{number} ]) : undef },
    sub {
        $answers{"$_[1]{status} $_[1]{code}"}++;
        $sessions->note(@_);
    });
is_deeply \%answers, { '200 AUTH_REFRESH_SUCCESS' => $calls },
    'four at a time over three connections' or diag explain \%answers;
like $identity->log_text, qr/too many connections for role/, 'and there were no more';
$pg->sql('alter role platform connection limit -1', user => 'postgres');

# -- a request that has run out of time says nothing of the server

restart($identity, REQUEST_TIMEOUT => '1s', DB_STATEMENT_TIMEOUT => '9s');
ok eventually(sub { http_get($port, '/readyz')->status == 200 }), 'it is ready';
my $log = length $identity->log_text;
$held = $pg->begin("select 1 from auth_sessions where session_id = '$own[0]{id}' for update");
is_problem(refresh($own[0]{current}), 503, 'DATABASE_UNAVAILABLE', 'a refresh in vain');
ok eventually(sub { refresh($own[1]{current})->status == 200 }), 'others go on';
$pg->end($held, 'rollback');
unlike substr($identity->log_text, $log), qr/"db\.unavailable"/,
    'the server is there, and not said not to be';

# -- without prepared statements, by the second of two hosts

restart($identity, DB_PREPARED => 'false', REQUEST_TIMEOUT => '12s',
    DB_HOST => "/nonexistent,$pg->{home}");
my $several = logged_in('several');
is select_branch($several, $several->{branches}[0]{branchId})->status, 200, 'select-branch';
$res = refresh($several);
is $res->status, 200, 'refresh';
is logout($res->json)->status, 200, 'logout';
is refresh($res->json)->status, 401, 'and it is over';

$t->done;
