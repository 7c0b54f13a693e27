# Twenty thousand refreshes, each while the same session's branch is being
# changed: a current token is never refused.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/../lib";
use Platform::Test;
use Platform::Test::Load;
use Platform::Test::Sessions;
use Test::More;

my $ROUNDS = $ENV{SOAK_ROUNDS} // 20_000;
my $SESSIONS = 8;

my $t = Platform::Test->new(timeout => 600);
my $pg = $t->postgres(settings => {
    shared_preload_libraries => 'pg_stat_statements' });
$pg->sql('create extension pg_stat_statements', user => 'postgres');
$t->identity_face;
my $port = $t->port('identity');

my $sessions = Platform::Test::Sessions->new;
my $load = Platform::Test::Load->new(port => $port, clients => 6 * $SESSIONS);
$sessions->log_in($load, several => $SESSIONS);
my @all = $sessions->all;
is scalar @all, $SESSIONS, 'logged in';

# One client refreshes a session, five change its branch all the time.

my $left = $ROUNDS;
my (%refreshed, %selected);
$load->run(
    sub {
        my ($client) = @_;
        my $s = $all[ $client->{number} % $SESSIONS ];
        return undef if $left <= 0;
        return $sessions->select_branch($s)
            if $client->{number} >= $SESSIONS;
        $left--;
        return $sessions->refresh($s);
    },
    sub {
        my ($request, $answer) = @_;
        my $is_refresh = $request->{path} =~ /refresh$/;
        my $counts = $is_refresh ? \%refreshed : \%selected;
        $counts->{"$answer->{status} $answer->{code}"}++;
        $sessions->note($request, $answer);
    });
$sessions->check_stale;

note explain \%refreshed, \%selected;
my $ok = $refreshed{'200 AUTH_REFRESH_SUCCESS'} // 0;
is_deeply [ grep { !/^(?:200 AUTH_REFRESH_SUCCESS|503 AUTH_BUSY)$/ }
    keys %refreshed ], [], 'a refresh succeeds, or is told to try again';
cmp_ok $ok, '>=', 0.95 * $ROUNDS, "$ok of $ROUNDS succeed";
is_deeply [ keys %selected ], ['200 AUTH_SELECT_BRANCH_SUCCESS'],
    'every selection succeeds';
is_deeply $sessions->{broken}, [], 'no answer contradicts another';

# A row changes for each success, and for nothing else.  The server counts when
# it comes to it.

my $changes = $ok + ($selected{'200 AUTH_SELECT_BRANCH_SUCCESS'} // 0);
my $updates;
eventually(sub {
    $updates = $pg->sql(q{select n_tup_upd from pg_stat_user_tables
        where relname = 'auth_sessions'}, user => 'postgres');
    return $updates == $changes;
}, 20);
is $updates, $changes, 'one row changed for each success';

# They did race: a refresh takes a second compare-and-swap where the scope
# moved while the first statement read.  That is short, and seldom hit.

my $moved = $pg->sql(q{select sum(calls) from pg_stat_statements
    where query like 'UPDATE auth_sessions s SET jti%'}, user => 'postgres');
cmp_ok $moved, '>=', $ROUNDS / 200, "$moved times the scope had moved";

$t->done;
