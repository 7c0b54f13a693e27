# Locking an account out takes effect at once, whatever its sessions are doing and
# however many it has; their rows are marked afterwards.  And
# PLATFORM_AUTH_MAX_SESSIONS: at a login the oldest sessions past that number end, the
# expired ones first, and the log says which.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;
use Platform::Test::Metrics;

my $MANY = 3_000;

my $t = Platform::Test->new;
my $pg = $t->postgres;
my %env = (PLATFORM_AUTH_MAX_FAILURES => 0, PLATFORM_AUTH_MAX_SESSIONS => 0,
    PLATFORM_DB_STATEMENT_TIMEOUT => '5s');
my $identity = $t->identity_face(%env);
my $c = Platform::Test::Commands->new(test => $t, env => \%env);
my $port = client_of($t);
my $account = 'two-workspaces';
my $is_it = "account_id = (select account_id from accounts
    where account_name = '$account\@demo.test')";
my @lock_out = ("update accounts set sessions_valid_after =", "where $is_it");
my $branch = branch(41);

# A command in the background.
my $new_credential = $t->write_file('credential', "n3w credential\n");

sub begin_command ($name) {
    return $c->start({ env => { PLATFORM_DB_STATEMENT_TIMEOUT => '60s' },
        redirect => " <$new_credential" }, 'account', $name, "$account\@demo.test", '--json');
}

# What it has said.
sub said { return $t->read_file("$_[0]{name}.log") }

sub ends_well ($p) {
    $p->wait_end(60 * $t->scale);
    return is $p->status, 0, "$p->{name} ends well";
}

sub command { return $c->done(@_, "$account\@demo.test") }

my @row = qw(status jti active_branch_id);

# Nothing can be done with the session, and its row stays as it is.
sub is_over ($session, $what) {
    my $row = row($session, @row);
    is_problem($_, 401, 'AUTH_SESSION_NOT_ACTIVE', "$what: a refresh, and a selection")
        for refresh($session), select_branch($session, $branch);
    is_deeply [ logout($session)->status, row($session, @row) ], [ 200, $row ],
        "$what: a logout, which changes nothing";
}

sub is_alive ($session, $what) {
    is_deeply [ map { $_->status } select_branch($session, $branch), refresh($session) ],
        [ 200, 200 ], "$what: a selection, and a refresh";
}

# -- what a lockout is: sessions opened before it are over

{
    my ($before, $control) = map { logged_in($account) } 1, 2;
    $pg->sql("$lock_out[0] (select created_at from auth_sessions where session_id = '"
        . session_of($before) . "') $lock_out[1]");
    is_over($before, 'opened at that very moment');
    is_alive($control, 'opened later');
    my $list = command(qw(account sessions --all));
    is_deeply [ map { $_->{status}, defined $_->{revokedAt} } @$list ],
        [ 'ACTIVE', '', 'REVOKED', 1 ], 'account sessions says which, and since when';
    is scalar @{ command(qw(account sessions)) }, 1, 'and lists what is left';
    $c->refused(1, qr/no active session with this id/, qw(account revoke-sessions),
        "$account\@demo.test", '--session', session_of($before));

    # A database whose clock was set back opens sessions that live, too.
    $pg->sql("$lock_out[0] now() + interval '1 hour' $lock_out[1]");
    is_over($control, 'locked out by a clock that was ahead');
    is_alive(my $after = logged_in($account), 'opened after that');
    is command(qw(account revoke-sessions))->{revokedSessions}, 3, 'which all can be ended';
    is_over($after, 'opened ahead of the clock');
    is_alive(logged_in($account), 'opened anew');
    $pg->sql("delete from auth_sessions where $is_it; $lock_out[0] '-infinity' $lock_out[1]");
}

# -- rows are in use: the lockout does not wait for them; and a command that is cut
#    short holds all the same, and can be gone on with

my @refused = (401, 'AUTH_INVALID_CREDENTIALS');
my %meanwhile = (
    disable => sub { is_problem(login($account), @refused, 'disable: no login meanwhile') },
    'set-credential' => sub {
        is_problem(login($account), @refused, 'set-credential: the old one is good no more');
        is_alive(logged_in($account, credential => 'n3w credential'), 'the new one') },
    'revoke-sessions' => sub { is_alive(logged_in($account), 'a login meanwhile') },
);
for my $name (sort keys %meanwhile) {
    command(qw(account revoke-sessions));
    my @sessions = map { logged_in($account) } 1 .. 4;
    my @ids = map { session_of($_) } @sessions;
    my $lock = sub { 'select 1 from auth_sessions where session_id in ('
        . join(', ', map {"'$ids[$_]'"} @_) . ') for update' };
    my ($held, $other) = map { $pg->begin($lock->($_)) } 0, 1;
    my $p = begin_command($name);
    ok $pg->waiting(1), "$name waits for a row";
    like said($p), qr/"event":"account\.\w+","audit":true/, "$name: is on record already";
    is_over($sessions[2], "$name: another session");
    $meanwhile{$name}->();
    is join(' ', map { row($_, 'status') } @sessions[ 2, 3 ]), 'REVOKED REVOKED',
        "$name: the others' rows are marked";

    # Whoever holds a row may want the others', and nobody waits in a ring.
    $pg->more($held, $lock->(2, 3));
    ok $pg->end($held, 'rollback'), "$name: a row is let go";
    ok eventually(sub { row($sessions[0], 'status') eq 'REVOKED' }), "$name: and marked";
    ok $pg->waiting(1), "$name waits for the next one";
    $pg->more($other, $lock->(0, 2));
    ok $pg->end($other, 'commit'), "$name: which is let go";
    ends_well($p);
    like said($p), qr/"revokedSessions":4[,}]/, "$name: says how many";
    is_over($sessions[0], "$name: done");
    command(qw(account enable));
    command({ stdin => "$Platform::Test::Client::CREDENTIAL\n" }, qw(account set-credential));
}
{
    my @sessions = map { logged_in($account) } 1, 2;
    my $held = $pg->begin("select 1 from auth_sessions where session_id = '"
        . session_of($sessions[0]) . "' for update");
    my $p = begin_command('disable');
    ok $pg->waiting(1), 'a command waits for a row';
    $p->stop('KILL');
    $pg->end($held, 'rollback');
    ok $pg->waiting(0), 'and is killed: all goes on';
    command(qw(account enable));
    is_over($_, 'killed, and enabled') for @sessions;
    my $left = $pg->sql("select count(*) from auth_sessions where $is_it and status = 'ACTIVE'");
    cmp_ok $left, '<=', 1, 'a row at most is left to mark';
    is command(qw(account revoke-sessions))->{revokedSessions}, $left, 'by the next command';
}

# -- a lockout between what is read of a session and what is written to it

# Of a session that ends before long: read and rotated one after the other.
my $own_key = jwt_key('identity');
my $soon = sub { jwt_token('refresh', $own_key, %{ claims($_[0]) },
    exp => claims($_[0])->{iat} + 1000) };
for my $how (qw(select-branch refresh)) {
    for my $end ('rollback', 'commit') {
        my $session = logged_in($account);
        my $gate = $pg->begin('lock table auth_sessions in share mode');
        my $client = $how eq 'refresh' ? sent($how => { refreshToken => $soon->($session) })
            : sent($how => { branchId => $branch },
                token => $session->{accountAccessToken});
        ok $pg->waiting(1), "$how: its write waits";
        $pg->more($gate, "$lock_out[0] clock_timestamp() $lock_out[1]");
        ok $pg->end($gate, $end), "$how: a lockout, $end";
        is $client->read_response->code =~ s/.*_(?=SUCC|NOT_AC)//r,
            $end eq 'commit' ? 'NOT_ACTIVE' : 'SUCCESS', "$how, $end: is it refused?";
    }
}

# -- a login that is under way: the lockout waits for it, and it loses (one that the
#    lockout overtakes: id_revocations.t)

{
    $pg->sql(<<'SQL', user => 'postgres');
create function hold() returns trigger language plpgsql as $$
begin perform pg_advisory_xact_lock(4711); return new; end $$;
create trigger hold before insert on auth_sessions
    for each row execute function hold();
SQL
    my $gate = $pg->begin('select pg_advisory_xact_lock(4711)');
    my $client = sent(login => { account => "$account\@demo.test",
        credential => $Platform::Test::Client::CREDENTIAL });
    ok $pg->waiting(1), 'a login is held';
    my $p = begin_command('revoke-sessions');
    ok $pg->waiting(2), 'and the lockout waits for it';
    $pg->end($gate, 'commit');
    my $res = $client->read_response;
    is $res->status, 200, 'it succeeds';
    ends_well($p);
    is_over($res->json, 'a session opened before the lockout');
    $pg->sql('drop trigger hold on auth_sessions', user => 'postgres');
}

# A row written by a transaction that began before, committed after.
{
    my $sub = $pg->sql("select account_id from accounts where $is_it");
    my $old = $pg->begin("insert into auth_sessions (session_id, account_id, jti,
        created_at, expires_at) values ('@{[ uuid(1) ]}', '$sub', '@{[ uuid(2) ]}',
        now(), now() + interval '1 day')");
    command(qw(account revoke-sessions));
    ok $pg->end($old, 'commit'), 'a session committed after a lockout';
    my $token = jwt_token('refresh', $own_key, sub => $sub, account_id => $sub,
        session_id => uuid(1), jti => uuid(2));
    is_problem(refresh($token), 401, 'AUTH_SESSION_NOT_ACTIVE', 'is over');
    $pg->sql("$lock_out[0] '-infinity' $lock_out[1]");
    is refresh($token)->status, 200, 'and was alive but for that';
}

# Very many sessions.

sub fill ($where) {
    $pg->sql("set session_replication_role = replica;    -- triggers would take minutes
        insert into auth_sessions (session_id, account_id, jti, created_at, expires_at)
        select gen_random_uuid(), account_id, gen_random_uuid(),
               now() - n * interval '1 s', now() + interval '30 days'
          from accounts, generate_series(1, $MANY) n where $where;
        analyze auth_sessions", user => 'postgres');
}

# -- disabled by hand: enabling it again gives nothing back

command(qw(account enable));
for my $case ([ DISABLED => 401 ], [ ACTIVE => 200 ]) {
    my ($status, $then) = @$case;
    my $own = logged_in($account);
    $pg->sql("update accounts set status = '$status' where $is_it");
    command(qw(account enable));
    is refresh($own)->status, $then, "$status by hand, then enabled: a refresh is $then";
}

# -- the most that an account may have: the oldest end

restart($identity, AUTH_MAX_SESSIONS => 3);

sub active {
    return $pg->sql("select count(*) from auth_sessions s join accounts
        using (account_id) where s.status = 'ACTIVE' and account_name = '$_[0]\@demo.test'");
}

# Which sessions the log says were ended for this, since the last call.
my $seen = 0;

sub ended {
    my @all = grep { $_->{event} eq 'auth.session.over_limit' && $_->{audit} } $identity->log_lines;
    my @new = splice @all, $seen;
    $seen += @new;
    return [ sort map { $_->{sessionId} } @new ];
}

# Logs in once more: the sessions that this ends, of those before.
my @s;

sub one_more_ends ($name, @want) {
    my @ids = sort map { session_of($s[$_]) } @want;
    push @s, logged_in('several');
    return is_deeply ended(), \@ids, $name;
}

my $other = logged_in('one');
one_more_ends('three of three: none ends') for 1 .. 3;
one_more_ends('the fourth ends the first', 0);
is_deeply [ map { refresh($_)->status } @s ], [ 401, 200, 200, 200 ], 'a refresh of each';
one_more_ends('and the fifth the second, refreshed or not', 1);
is refresh($other)->status, 200, 'another account has its own';
is metrics_scrape($port, '/actuator/prometheus')
    ->{'identity_sessions_revoked_total{reason="limit"}'}, 2, 'counted';
alter($s[3], 'expires_at = now()');
one_more_ends('an expired one first, though it be younger', 3);
is active('several'), 3, 'and the oldest lives';

# Sessions that a lockout has ended do not count.
my $several = claims($s[0])->{account_id};
$pg->sql("update accounts set sessions_valid_after = clock_timestamp()
    where account_id = '$several'");
@s = ();
one_more_ends('locked out ones are no sessions any more') for 1 .. 3;
$pg->sql("delete from auth_sessions where account_id = '$several' and created_at <=
    (select sessions_valid_after from accounts where account_id = '$several')");

# One that is in use is not waited for, and ends with the next login.
my $held = $pg->begin("select 1 from auth_sessions where session_id = '"
    . session_of($s[0]) . "' for update");
one_more_ends('a row in use is passed over');
unlike $identity->log_text, qr/db\.error/, 'nobody waited for it';
$pg->end($held, 'rollback');
one_more_ends('the next login makes up for it', 0, 1);

# The new session is not the oldest, though the clock was set back.
alter($_, "created_at = created_at + interval '1 hour'") for @s[ 2 .. 4 ];
my $early = logged_in('several');
is refresh($early)->status, 200, 'a session from before the others';
is active('several'), 3, 'for which one of them ended';
# An account that had very many before there was a limit.
fill("account_name = 'none\@demo.test'");
ended();
my $before = active('none');
for my $n (1 .. 8) {    # past the plans made for one call each
    is refresh(logged_in('none'))->status, 200, "very many: login $n";
}
is_deeply [ $before + 8 - active('none'), scalar @{ ended() } ], [ 800, 800 ],
    'each ends a hundred, and says which';
is $pg->sql("select count(*) from auth_sessions s join accounts using (account_id)
    where account_name = 'none\@demo.test' and s.status = 'ACTIVE'
    and s.created_at < (select max(r.created_at) from auth_sessions r
        where r.account_id = s.account_id and r.status = 'REVOKED')"), 0, 'the oldest';

# Two logins at once where only one may stay: they never end each other.  As the other
# one does it, between what this one has read and what it writes.

restart($identity, AUTH_MAX_SESSIONS => 1);
$pg->sql('create trigger hold before update on auth_sessions
    for each statement when (current_user <> $$postgres$$) execute function hold()', user => 'postgres');
for my $case ([ 'rollback', 401, 200 ], [ 'commit', 200, 401 ], [ 'still open', 200, 401 ]) {
    my ($end, @want) = @$case;
    my $first = logged_in('one');
    my $race = $pg->begin('select pg_advisory_lock(4711)', user => 'postgres');
    my $login = sent(login => { account => 'one@demo.test',
        credential => $Platform::Test::Client::CREDENTIAL });
    ok $pg->waiting(1), "$end: a login has read which sessions there are";
    $pg->more($race, "update auth_sessions set status = 'REVOKED',
            revoked_at = clock_timestamp()
        where status = 'ACTIVE' and account_id = '@{[ claims($first)->{account_id} ]}'
          and session_id <> '@{[ session_of($first) ]}'");
    $pg->end($race, $end) if $end ne 'still open';
    $pg->more($race, 'select pg_advisory_unlock(4711)') if $end eq 'still open';
    my $second = $login->read_response;
    is $second->status, 200, "$end: it waits for no row";
    $pg->end($race, 'commit') if $end eq 'still open';
    is_deeply [ map { refresh($_)->status } $first, $second->json ], \@want,
        "$end: one of two sessions is left";
}
is active('one'), 1, 'one is left';

$t->done;
