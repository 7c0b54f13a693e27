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
my $port = client_of($t);

my $ours = "from pg_stat_activity where application_name = 'identity-service'";
sub connections { return $pg->sql("select count(*) $ours") }

# Cuts those there are behind the service's back.
sub cut { return $pg->sql("select pg_terminate_backend(pid) $ours", user => 'postgres') }

sub hold ($id) {
    return $pg->begin("select 1 from auth_sessions where session_id = '$id' for update");
}

# -- few connections

my @answers = map { logged_in('one') } 1 .. 3;
my @statuses = map { $_ ? $_->status : 'none' } http_parallel([ map {
    [ $port, http_request_bytes(POST => '/api/auth/refresh',
        json => { refreshToken => $answers[ $_ % 3 ]{refreshToken} }) ] } 1 .. 60 ]);
is_deeply [ sort @statuses ], [ (200) x 3, (401) x 57 ], 'sixty requests over two connections';
is connections(), 2, 'and there were no more';

# -- a lock that somebody holds: 503 in bounded time, nothing half done

my $answer = logged_in('one');
my $held = hold(session_of($answer));
my $start = Time::HiRes::time();
my $res = refresh($answer);
my $took = Time::HiRes::time() - $start;
is_problem($res, 503, 'DATABASE_UNAVAILABLE', 'a refresh of that row');
cmp_ok $took, '<', 9 * $t->scale, 'after its statement timeout, not its own';
is login('one')->status, 200, 'others go on';
$pg->end($held, 'rollback');
my $token = next_of(refresh($answer));    # it was not used up
is connections(), 2, 'still two connections';

# -- connections cut behind our back are made again without a failure: one that a
#    refresh needs, and all of them, which had just been used, for what only reads

for my $round (1, 2) {
    cut();
    ok eventually(sub { connections() == 0 }), 'connections are cut';
    $token = next_of(refresh($token));
    ok eventually(sub {    # until two of them ask at once
        http_parallel([ ([ $port, http_request_bytes(GET => '/readyz') ]) x 20 ]);
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
next_of(refresh($token));
my @events = map { $_->{event} } $identity->log_lines;
like scalar(grep { $_ eq 'db.unavailable' } @events), qr/\A[12]\z/,
    'the outage is logged, not once a request';
ok scalar(grep { $_ eq 'db.connected' } @events), 'and its end';

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
$load->run(sub { $left-- > 0 ? $sessions->refresh($own[ $_[0]{number} ]) : undef }, sub {
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
$held = hold($own[0]{id});
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
$token = next_of(refresh($several));
is_deeply [ logout($token)->status, refresh($token)->status ], [ 200, 401 ], 'logout: it is over';

$t->done;
