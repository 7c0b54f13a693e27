# How the service uses its database: few connections, bounded waiting, without
# prepared statements where a pooler wants that, and nothing half done.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;
use Time::HiRes ();

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $identity = $t->identity_face(
    PLATFORM_DB_POOL_SIZE         => 2,
    PLATFORM_DB_STATEMENT_TIMEOUT => '1s',
    PLATFORM_REQUEST_TIMEOUT      => '5s',
);
my $port = $t->port('identity');

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
my $holder = fork // die "fork: $!\n";
if ($holder == 0) {
    eval { $pg->sql("begin; select 1 from auth_sessions
        where session_id = '$session' for update; select pg_sleep(3)") };
    require POSIX;
    POSIX::_exit(0);
}
ok eventually(sub { $pg->sql("select count(*) from pg_stat_activity
    where query like '%pg_sleep%' and state = 'active'
    and pid <> pg_backend_pid()") }), 'a row is locked';
my $start = Time::HiRes::time();
my $res = refresh($answer->{refreshToken});
my $took = Time::HiRes::time() - $start;
is_problem($res, 503, 'DATABASE_UNAVAILABLE', 'a refresh of that row');
cmp_ok $took, '<', 2.5 * $t->scale, 'after its statement timeout';
is login()->status, 200, 'others go on';
waitpid $holder, 0;
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
}

# -- a server restarted between two requests

$pg->stop('INT');
is login()->status, 503, 'down: 503';
$pg->start;
ok eventually(sub { login()->status == 200 }, 5), 'up: 200';
$res = refresh($res->json->{refreshToken});
is $res->status, 200, 'sessions live on';
my @events = map { $_->{event} } $identity->log_lines;
ok scalar(grep { $_ eq 'db.unavailable' } @events), 'the outage is logged';
ok scalar(grep { $_ eq 'db.connected' } @events), 'and its end';
cmp_ok scalar(grep { $_ eq 'db.unavailable' } @events), '<=', 2,
    'not once a request';

# -- without prepared statements

$identity->stop;
$identity->{env}{PLATFORM_DB_PREPARED} = 'false';
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
