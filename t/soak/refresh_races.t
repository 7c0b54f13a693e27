# What races with refreshes by the thousand: changes of the branch, and logouts.

use Platform::Test;
use Platform::Test::Load;
use Platform::Test::Sessions;

my $ROUNDS = $ENV{SOAK_ROUNDS} // 20_000;
my $SESSIONS = 8;

my $t = Platform::Test->new(timeout => 1200);
my $pg = $t->postgres(settings => { shared_preload_libraries => 'pg_stat_statements' });
$pg->sql('create extension pg_stat_statements', user => 'postgres');
$t->identity_face;
my $port = $t->port('identity');

# -- one client refreshes a session, five change its branch all the time

my $sessions = Platform::Test::Sessions->new;
my $load = Platform::Test::Load->new(port => $port, clients => 6 * $SESSIONS);
$sessions->log_in($load, several => $SESSIONS);
my @all = $sessions->all;
is scalar @all, $SESSIONS, 'logged in';
my $left = $ROUNDS;
my %got;
$load->run(
    sub ($client, @) {
        my $s = $all[ $client->{number} % $SESSIONS ];
        return undef if $left <= 0;
        return $sessions->select_branch($s) if $client->{number} >= $SESSIONS;
        $left--;
        return $sessions->refresh($s);
    },
    sub ($request, $answer, @) {
        $got{ $answer->{code} }++;
        $sessions->note($request, $answer);
    });
$sessions->check_stale;
note explain \%got;
my $ok = $got{AUTH_REFRESH_SUCCESS} // 0;
is_deeply [ grep { !/\A(?:AUTH_REFRESH_SUCCESS|AUTH_BUSY
        |AUTH_SELECT_BRANCH_SUCCESS)\z/x } keys %got ], [],
    'a refresh succeeds or is told to try again, a selection succeeds';
cmp_ok $ok, '>=', 0.95 * $ROUNDS, "$ok of $ROUNDS succeed";
is_deeply $sessions->{broken}, [], 'no answer contradicts another';

# A row changes for each success, and for nothing else.  The server counts when
# it comes to it.

my $changes = $ok + ($got{AUTH_SELECT_BRANCH_SUCCESS} // 0);
ok eventually(sub { $changes == $pg->sql(q{select n_tup_upd from pg_stat_user_tables
    where relname = 'auth_sessions'}, user => 'postgres') }, 20), 'one row changed for each';

# They did race: a refresh takes a second compare-and-swap where the scope
# moved while the first statement read.  That is short, and seldom hit.

my $moved = $pg->sql(q{select coalesce(sum(calls), 0) from pg_stat_statements
    where query like 'UPDATE auth_sessions s SET jti%'}, user => 'postgres');
cmp_ok $moved, '>=', $ROUNDS / 1000, "$moved times the scope had moved";

# -- each of many sessions is refreshed twice and logged out at the same time

my $count = int $ROUNDS / 10;
$pg->sql('delete from auth_sessions');
my $ending = Platform::Test::Sessions->new;
$load = Platform::Test::Load->new(port => $port, clients => 12);
my @queue = map {
    my $s = $_;
    my @requests = map { $ending->refresh($s) } 1, 2;
    splice @requests, rand 3, 0, $ending->logout($s);    # anywhere among them
    @requests;
} $ending->make($pg, jwt_key('identity'), one => $count);
%got = ();
$load->run(sub { shift @queue }, sub ($request, $answer) {
    $got{"$answer->{status} $answer->{code}"}++;
    $ending->note($request, $answer);
});
$ending->check_stale;
note explain \%got;
is delete $got{'200 AUTH_LOGOUT_SUCCESS'}, $count, 'every logout succeeds';
is_deeply [ sort keys %got ], [ '200 AUTH_REFRESH_SUCCESS',
    '401 AUTH_REFRESH_TOKEN_STALE', '401 AUTH_SESSION_NOT_ACTIVE' ],
    'a refresh comes first, second, or too late';
cmp_ok $got{$_}, '>=', $count / 100, "$_: $got{$_}"
    for '200 AUTH_REFRESH_SUCCESS', '401 AUTH_SESSION_NOT_ACTIVE';
is_deeply [ @{ $ending->{broken} }, $ending->wrong_rows($pg) ], [],
    'of two refreshes with one token at most one succeeds, every session ends revoked';
my $after = $ending->after_logout($load);
is_deeply [ keys %$after ], ['401 AUTH_SESSION_NOT_ACTIVE'],
    'no token that was handed out works' or diag explain $after;

$t->done;
