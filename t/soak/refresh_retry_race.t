# Ten thousand rounds of a rotation by two tabs, a retry, a selection and now
# and then a logout, all at once on one session, before and after a standby has
# taken over from its primary: a token has one successor, what was logged out is
# out, and every row is legal.

use List::Util qw(shuffle sum0);
use Platform::Test;
use Platform::Test::Load;
use Platform::Test::Sessions;
use Time::HiRes qw(time);

my $ROUNDS = $ENV{SOAK_ROUNDS} // 10_000;
my $AT_ONCE = 8;     # sessions in a round at the same time
my $LOGOUT = 0.2;    # of the rounds

my $t = Platform::Test->new(timeout => 7200);
my ($primary, $standby) = $t->postgres_pair;
my $pg = $primary;
$t->identity_face($primary->env, PLATFORM_AUTH_MAX_SESSIONS => 0,
    PLATFORM_DB_HOST => join(',', $primary->host, $standby->host),
    PLATFORM_AUTH_REFRESH_RETRY_WINDOW => '60s', PLATFORM_AUTH_REFRESH_REUSE => 'revoke');
$t->allow(qr/db\.|"status":503/);
my $key = jwt_key('identity');
my $sessions = Platform::Test::Sessions->new(retries => 1);
my $load = Platform::Test::Load->new(port => $t->port('identity'), clients => 5 * $AT_ONCE);
my $branches = [ split /\n/, $pg->sql("select branch_id from selectable_branches
    where account_id = (select account_id from accounts
        where account_name = 'several\@demo.test')") ];

my (@pool, @wrong, %count);

sub fresh {
    @pool = $sessions->make($pg, $key, 'several', 50) if !@pool;
    my $s = shift @pool;
    $s->{branches} = $branches;
    return $s;
}

# Five requests of a session, and what has to hold when all are answered.
sub new_round ($s) {
    my $order = $s->{order};
    my $before = @$order > 1 ? $s->{issued}{ $order->[-2] } : $s->{current};
    my $logout = rand() < $LOGOUT;
    my @todo = shuffle((map { $sessions->refresh($s, $_) } ($s->{current}) x 2, $before),
        $sessions->select_branch($s), $logout ? { path => '/api/auth/logout', session => $s,
            json => { refreshToken => $s->{current} } } : ());
    return { session => $s, todo => \@todo, left => scalar @todo, from => $s->{current},
        logout => $logout };
}

sub end_round ($round) {
    my $s = $round->{session};
    my $old = Platform::Test::Sessions::jti($round->{from});
    my $next = $s->{next}{$old};
    $count{rounds}++;
    if ($round->{logout}) {
        $count{'logged out'}++;
        return fresh() if $s->{logout_done};
    }
    # In doubt: the answer is to ask again, with the same token.
    $count{'in doubt'}++, return $s if !$next && $s->{in_doubt}{$old};
    push @wrong, "nobody replaced $old" if !$next && !$round->{busy};
    return $s;
}

sub rounds ($until, $meanwhile = sub { }) {
    my @rounds = map { new_round(fresh()) } 1 .. $AT_ONCE;
    my $begun = $AT_ONCE;
    $load->run(
        sub {
            $meanwhile->($begun);
            for my $round (@rounds) {
                my $request = shift @{ $round->{todo} // [] } // next;
                $sessions->logout($round->{session}) if $request->{path} =~ /logout$/;
                return { %$request, round => $round };
            }
            return undef;
        },
        sub ($request, $answer, @) {
            my $round = $request->{round};
            $sessions->note($request, $answer);
            $round->{busy} = 1 if $answer->{status} == 503;
            return if --$round->{left};
            my $s = end_round($round);
            %$round = $begun++ < $until ? %{ new_round($s) } : ();
        });
}

# The rows are legal, and have of every session that nobody ended the one successor.
sub check ($when) {
    $sessions->check_stale;
    is_deeply $sessions->{broken}, [], "$when: no answer contradicts another";
    is_deeply \@wrong, [], "$when: somebody has the new token";
    is_deeply [ $sessions->wrong_rows($pg) ], [], "$when: the rows say what was answered";
    is_deeply [ keys %{ $sessions->after_logout($load) } ], ['401 AUTH_SESSION_NOT_ACTIVE'],
        "$when: what was logged out is out";
}

my $start = time;
srand 16;
rounds($ROUNDS / 2);
check('before');

# The standby takes over while the next rounds are under way, when twenty have
# missed the primary.
sub missed {
    my $count = $sessions->{count};
    return sum0(map { $count->{$_} } grep {/ 503 /} keys %$count);
}

my ($killed_at, $promoted);
rounds($ROUNDS / 2, sub ($begun, @) {
    if (!defined $killed_at && $begun > $ROUNDS / 10) {
        push @pool, $sessions->make($primary, $key, 'several', 50);
        $primary->stop('KILL');
        $pg = $standby;
        $killed_at = missed();
    }
    if (defined $killed_at && !$promoted && missed() >= $killed_at + 20) {
        $standby->promote;
        $promoted = 1;
    }
});
is $standby->sql('select pg_is_in_recovery()'), 'f', 'the standby took over';
check('after');

my %answers = %{ $sessions->{count} };
diag join ', ', time - $start . ' s', map {"$_: $count{$_}"} sort keys %count;
diag join ', ', map {"$_: $answers{$_}"} sort keys %answers;
is $count{rounds}, $ROUNDS, "$ROUNDS rounds";
cmp_ok $answers{'refresh retried'} // 0, '>', $ROUNDS / 4, 'control: many were retries';
cmp_ok $answers{'refresh 401 AUTH_REFRESH_TOKEN_STALE'} // 0, '>',
    $ROUNDS / 20, 'control: many came too late for one';
cmp_ok missed() - ($killed_at // 0), '>=', 20, 'control: the primary was missed';

$t->done;
