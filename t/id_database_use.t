# How the service uses its database: few connections, bounded waiting, without
# prepared statements where a pooler wants that, and nothing half done.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Load;
use Platform::Test::Sessions;
use Test::More;
use Time::HiRes ();

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $identity = $t->identity_face(
    PLATFORM_DB_POOL_SIZE         => 2,
    PLATFORM_DB_STATEMENT_TIMEOUT => '3s',
    PLATFORM_REQUEST_TIMEOUT      => '12s',
);
my $port = $t->port('identity');
my %usual = %{ $identity->{env} };

sub call {
    my ($path, $json, %o) = @_;

    return http_post($port, "/api/auth/$path", json => $json, %o);
}

sub login {
    return call(login => { account => 'one@demo.test',
        credential => 'Demo-passw0rd!' });
}

sub refresh { return call(refresh => { refreshToken => $_[0] }) }

sub connections {
    return $pg->sql("select count(*) from pg_stat_activity
        where application_name = 'identity-service'");
}

# A transaction that holds what it locks until it is ended.
sub hold {
    my ($sql) = @_;

    my $holder = $t->track(Platform::Test::Process->start(
        name => 'hold', dir => $t->dir, log => $t->dir . '/hold.log',
        code => sub { eval { $pg->sql("begin; $sql;
            select pg_sleep(300)") } },
    )->expect_end);
    ok eventually(sub { $pg->sql("select count(*) from pg_stat_activity
        where wait_event = 'PgSleep'") }), 'some row is held';
    return $holder;
}

sub release {
    my ($holder) = @_;

    $pg->sql("select pg_terminate_backend(pid) from pg_stat_activity
        where wait_event = 'PgSleep'", user => 'postgres');
    return $holder->wait_end(60);
}

# -- few connections

my @answers = map { login()->json } 1 .. 3;
my @all = http_parallel([ map {
    [ $port, http_request_bytes(POST => '/api/auth/refresh',
        json => { refreshToken => $answers[ $_ % 3 ]{refreshToken} }) ]
} 1 .. 60 ]);
is scalar(grep { $_ && $_->status == 200 } @all), 3,
    'sixty requests over two connections';
is scalar(grep { $_ && $_->status == 401 } @all), 57, 'all are answered';
is connections(), 2, 'and there were no more';

# -- a lock that somebody holds: 503 in bounded time, nothing half done

my $answer = login()->json;
my $session = (jwt_decode($answer->{refreshToken}))[1]{session_id};
my $holder = hold("select 1 from auth_sessions
    where session_id = '$session' for update");
my $start = Time::HiRes::time();
my $res = refresh($answer->{refreshToken});
my $took = Time::HiRes::time() - $start;
is_problem($res, 503, 'DATABASE_UNAVAILABLE', 'a refresh of that row');
cmp_ok $took, '<', 9 * $t->scale, 'after its statement timeout, not its own';
is login()->status, 200, 'others go on';
release($holder);
$res = refresh($answer->{refreshToken});
is $res->status, 200, 'the token was not used up';
is connections(), 2, 'still two connections';

# -- connections cut behind our back are made again without a failure

for my $round (1 .. 3) {
    $pg->sql("select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'identity-service'", user => 'postgres');
    ok eventually(sub { connections() == 0 }), 'connections are cut';
    $res = refresh($res->json->{refreshToken});
    is $res->status, 200, 'a refresh succeeds at once';

    # All of them, which had just been used, and what only reads.
    ok eventually(sub {    # until two of them ask at once
        http_parallel([ map {
            [ $port, http_request_bytes(GET => '/readyz') ] } 1 .. 20 ]);
        return connections() == 2;
    }), 'two connections';
    $pg->sql("select pg_terminate_backend(pid) from pg_stat_activity
        where application_name = 'identity-service'", user => 'postgres');
    is http_get($port, '/readyz')->status, 200, 'so does a look';
}

# -- a server restarted between two requests

$pg->stop('INT');
is login()->status, 503, 'down: 503';
$pg->start;
ok eventually(sub { login()->status == 200 }), 'up: 200';
$res = refresh($res->json->{refreshToken});
is $res->status, 200, 'sessions live on';
my @events = map { $_->{event} } $identity->log_lines;
ok scalar(grep { $_ eq 'db.unavailable' } @events), 'the outage is logged';
ok scalar(grep { $_ eq 'db.connected' } @events), 'and its end';
cmp_ok scalar(grep { $_ eq 'db.unavailable' } @events), '<=', 2,
    'not once a request';

# -- a server that grants fewer connections than the pool may have: whoever
#    cannot make one waits for those there are

$identity->stop;
$identity->{env}{PLATFORM_WORKER_THREADS} = 4;
$identity->{env}{PLATFORM_DB_POOL_SIZE} = 4;
$pg->sql('alter role platform connection limit 3', user => 'postgres');
$identity->start;
my $sessions = Platform::Test::Sessions->new;
my $load = Platform::Test::Load->new(port => $port, clients => 4);
$sessions->log_in($load, several => 4);
my @own = $sessions->all;
my $calls = int(400 / $t->scale);
my ($left, %answers) = ($calls);
$load->run(
    sub { $left-- > 0 ? $sessions->refresh($own[ $_[0]{number} ]) : undef },
    sub {
        $answers{"$_[1]{status} $_[1]{code}"}++;
        $sessions->note(@_);
    });
is_deeply \%answers, { '200 AUTH_REFRESH_SUCCESS' => $calls },
    'four at a time over three connections' or diag explain \%answers;
like $identity->log_text, qr/too many connections for role/,
    'and there were no more';
$pg->sql('alter role platform connection limit -1', user => 'postgres');

# -- a request that has run out of time says nothing of the server

$identity->stop;
$identity->{env}{PLATFORM_REQUEST_TIMEOUT} = '3s';
$identity->{env}{PLATFORM_DB_STATEMENT_TIMEOUT} = '9s';
$identity->start;
my $log = length $identity->log_text;
$holder = hold("select 1 from auth_sessions
    where session_id = '$own[0]{id}' for update");
is_problem(refresh($own[0]{current}), 503, 'DATABASE_UNAVAILABLE',
    'a refresh in vain');
is refresh($own[1]{current})->status, 200, 'others go on at once';
release($holder);
unlike substr($identity->log_text, $log), qr/"db\.unavailable"/,
    'the server is there, and not said not to be';

# -- without prepared statements

$identity->stop;
%{ $identity->{env} } = (%usual, PLATFORM_DB_PREPARED => 'false');
$identity->start;
my $several = call(login => { account => 'several@demo.test',
    credential => 'Demo-passw0rd!' })->json;
is call('select-branch', { branchId => $several->{branches}[0]{branchId} },
    token => $several->{accountAccessToken})->status, 200, 'select-branch';
$res = refresh($several->{refreshToken});
is $res->status, 200, 'refresh';
is call(logout => { refreshToken => $res->json->{refreshToken} })->status, 200,
    'logout';
is refresh($res->json->{refreshToken})->status, 401, 'and it is over';

# -- a list of hosts: the one that answers is found

$identity->stop;
$identity->{env}{PLATFORM_DB_HOST} = "/nonexistent,$pg->{home}";
$identity->{env}{PLATFORM_DB_MIGRATE_ON_START} = 'true';
$identity->start;
is login()->status, 200, 'the second host of two';

$t->done;
