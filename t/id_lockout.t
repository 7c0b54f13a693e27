# Locking an account out takes effect at once, whatever its sessions are doing
# and however many it has; their rows are marked afterwards.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Commands;
use Platform::Test::Http;
use Test::More;

my $MANY = $ENV{PLATFORM_TEST_SESSIONS} // 250_000;

my $t = Platform::Test->new(timeout => 900);
my $pg = $t->postgres(settings => { max_wal_size => '2GB' });
my %env = (PLATFORM_AUTH_MAX_FAILURES => 0,
    PLATFORM_AUTH_MAX_SESSIONS => 0);
my $identity = $t->identity_face(%env);
my $c = Platform::Test::Commands->new(test => $t, env => \%env);
my $port = $t->port('identity');
my $account = 'two-workspaces@demo.test';
my $is_it = "account_id = (select account_id from accounts
    where account_name = '$account')";
my $credential = 'Demo-passw0rd!';
my @branches = map { sprintf '00000000-0000-4000-8000-0005%08d', $_ } 41, 51;

sub call {
    my ($path, $json, %o) = @_;

    return http_post($port, "/api/auth/$path", json => $json, %o);
}

sub login {
    my ($with) = @_;

    return call(login => { account => $account,
        credential => $with // $credential });
}

sub claims { return (jwt_decode($_[0]))[1] }

# A command in the background, whose result goes to a file of its name.
sub begin_command {
    my ($name, @args) = @_;

    return Platform::Test::Process->start(
        name => $name, dir => $t->dir, log => $t->dir . "/$name.out",
        env  => { %{ $t->identity_env(%env,
            PLATFORM_DB_STATEMENT_TIMEOUT => '60s') } },
        cmd  => [ 'sh', '-c', 'echo "n3w credential" | "$@"', 'sh',
            Platform::Test::Env::identity(), @args, '--json' ],
    )->expect_end;
}

sub ends_well {
    my ($p) = @_;

    ok $p->wait_end(60 * $t->scale), "$p->{name} ends";
    is $p->status, 0, "$p->{name}: well";
    return;
}

sub row {
    my ($session) = @_;

    my $id = claims($session->{refreshToken})->{session_id};
    return $pg->sql("select status, jti, active_branch_id from auth_sessions
        where session_id = '$id'");
}

sub refresh {
    return call(refresh => { refreshToken => $_[0]{refreshToken} });
}

sub choose {
    return call('select-branch', { branchId => $branches[0] },
        token => $_[0]{accountAccessToken});
}

# Nothing can be done with the session, and its row stays as it is.
sub is_over {
    my ($session, $what) = @_;

    my $row = row($session);
    is_problem(refresh($session), 401, 'AUTH_SESSION_NOT_ACTIVE',
        "$what: a refresh");
    is_problem(choose($session), 401, 'AUTH_SESSION_NOT_ACTIVE',
        "$what: a selection");
    is call(logout => { refreshToken => $session->{refreshToken} })->status,
        200, "$what: a logout";
    is row($session), $row, "$what: which changes nothing";
    return;
}

sub is_alive {
    my ($session, $what) = @_;

    is choose($session)->status, 200, "$what: a selection";
    my $res = refresh($session);
    is $res->status, 200, "$what: a refresh" or diag $res->body;
    return;
}

# -- what a lockout is: sessions opened before it are over

{
    my ($before, $control) = map { login()->json } 1, 2;
    $pg->sql("update accounts set sessions_valid_after = (select created_at
        from auth_sessions where session_id = '"
        . claims($before->{refreshToken})->{session_id} . "') where $is_it");
    is_over($before, 'opened at that very moment');
    is_alive($control, 'opened later');
    my $list = $c->done('account', 'sessions', $account, '--all');
    is_deeply [ map { $_->{status} } @$list ], [ 'ACTIVE', 'REVOKED' ],
        'account sessions says which';
    ok $list->[1]{revokedAt}, 'and since when';
    is scalar @{ $c->done('account', 'sessions', $account) }, 1,
        'and lists what is left';
    $c->refused(1, qr/no active session with this id/, 'account',
        'revoke-sessions', $account, '--session',
        claims($before->{refreshToken})->{session_id});

    # A database whose clock was set back opens sessions that live, too.
    $pg->sql("update accounts set sessions_valid_after = now()
        + interval '1 hour' where $is_it");
    is_over($control, 'locked out by a clock that was ahead');
    my $after = login()->json;
    is_alive($after, 'opened after that');
    is $c->done('account', 'revoke-sessions', $account)->{revokedSessions},
        3, 'which all can be ended';
    is_over($after, 'opened ahead of the clock');
    is_alive(login()->json, 'opened anew');
    $pg->sql("delete from auth_sessions where $is_it; update accounts
        set sessions_valid_after = '-infinity' where $is_it");
}

# -- rows are in use: the lockout does not wait for them

my %commands = (
    disable => sub {
        is_problem(login(), 401, 'AUTH_INVALID_CREDENTIALS',
            'disable: no login meanwhile');
    },
    'set-credential' => sub {
        is_problem(login(), 401, 'AUTH_INVALID_CREDENTIALS',
            'set-credential: the old one is good no more');
        is_alive(login('n3w credential')->json, 'with the new one');
    },
    'revoke-sessions' => sub {
        is_alive(login()->json, 'a login meanwhile');
    },
);
for my $name (sort keys %commands) {
    $c->done(qw(account revoke-sessions), $account);
    my @sessions = map { login()->json } 1 .. 4;
    my @ids = map { claims($_->{refreshToken})->{session_id} } @sessions;
    my ($held, $other) = map { $pg->begin("select 1 from auth_sessions
        where session_id = '$_' for update") } @ids[0, 1];
    my $p = begin_command($name, 'account', $name, $account);
    ok $pg->waiting(1), "$name waits for a row";
    like $t->read_file("$name.out"), qr/"event":"account\.\w+","audit":true/,
        "$name: is on record already";
    is_over($sessions[2], "$name: another session");
    $commands{$name}->();
    is $pg->sql("select count(*) from auth_sessions where status = 'REVOKED'
        and session_id in ('$ids[2]', '$ids[3]')"), 2,
        "$name: the others' rows are marked";

    # Whoever holds a row may want the others', and nobody waits in a ring.
    $pg->more($held, "select 1 from auth_sessions where session_id in
        ('$ids[2]', '$ids[3]') for update");
    ok $pg->end($held, 'rollback'), "$name: a row is let go";
    ok eventually(sub { $pg->sql("select status from auth_sessions
        where session_id = '$ids[0]'") eq 'REVOKED' }),
        "$name: and marked";
    ok $pg->waiting(1), "$name waits for the next one";
    $pg->more($other, "select 1 from auth_sessions
        where session_id in ('$ids[0]', '$ids[2]') for update");
    ok $pg->end($other, 'commit'), "$name: which is let go";
    ends_well($p);
    like $t->read_file("$name.out"), qr/"revokedSessions":4[,}]/,
        "$name: says how many";
    is_over($_, "$name: done") for @sessions;
    $c->done(qw(account enable), $account);
    is_over($sessions[0], "$name: enabled again");
    $c->done({ stdin => "$credential\n" }, qw(account set-credential),
        $account);
}

# -- one that is cut short holds all the same, and can be gone on with

{
    my @sessions = map { login()->json } 1, 2;
    my $id = claims($sessions[0]{refreshToken})->{session_id};
    my $held = $pg->begin("select 1 from auth_sessions
        where session_id = '$id' for update");
    my $p = begin_command('cut', qw(account disable), $account);
    ok $pg->waiting(1), 'a command waits for a row';
    $p->stop('KILL');
    ok $pg->end($held, 'rollback'), 'and is killed';
    ok $pg->waiting(0), 'all goes on';
    is_over($_, 'after it was killed') for @sessions;
    $c->done(qw(account enable), $account);
    is_over($_, 'enabled') for @sessions;
    my $left = $pg->sql("select count(*) from auth_sessions where $is_it
        and status = 'ACTIVE'");
    cmp_ok $left, '<=', 1, 'a row at most is left to mark';
    is $c->done(qw(account revoke-sessions), $account)->{revokedSessions},
        $left, 'by the next command';
}

# -- a lockout between what is read of a session and what is written to it

for my $how (qw(select-branch refresh)) {
    my $session = login()->json;
    my $claims = claims($session->{refreshToken});
    # Of a session that ends before long: read and rotated one after the other.
    my $token = jwt_token('refresh', jwt_key('identity'), %$claims,
        exp => $claims->{iat} + 1000);
    for my $end ('rollback', 'commit') {
        my $gate = $pg->begin('lock table auth_sessions in share mode');
        my $client = Platform::Test::Http->new(port => $port);
        $client->send($how eq 'refresh'
            ? http_request_bytes(POST => '/api/auth/refresh',
                json => { refreshToken => $token })
            : http_request_bytes(POST => '/api/auth/select-branch',
                token => $session->{accountAccessToken},
                json => { branchId => $branches[0] }));
        ok $pg->waiting(1), "$how: its write waits";
        $pg->more($gate, "update accounts
            set sessions_valid_after = clock_timestamp() where $is_it");
        ok $pg->end($gate, $end), "$how: a lockout, $end";
        my $res = $client->read_response;
        if ($end eq 'rollback') {
            is $res->status, 200, "$how: goes on";
            $token = jwt_token('refresh', jwt_key('identity'),
                %{ claims($res->json->{refreshToken}) },
                exp => $claims->{iat} + 1000) if $how eq 'refresh';
        }
        else {
            is_problem($res, 401, 'AUTH_SESSION_NOT_ACTIVE',
                "$how: is refused");
        }
    }
}

# -- a login that is under way: the lockout waits for it, and it loses

$pg->sql(<<'SQL', user => 'postgres');
create function hold() returns trigger language plpgsql as $$
begin perform pg_advisory_xact_lock(4711); return new; end $$;
create trigger hold before insert on auth_sessions
    for each row execute function hold();
SQL

sub login_client {
    my $client = Platform::Test::Http->new(port => $port);
    $client->send(http_request_bytes(POST => '/api/auth/login',
        json => { account => $account, credential => $credential }));
    ok $pg->waiting(1), 'a login is held';
    return $client;
}

{
    my $gate = $pg->begin('select pg_advisory_xact_lock(4711)');
    my $client = login_client();
    my $p = begin_command('late', qw(account revoke-sessions), $account);
    ok $pg->waiting(2), 'and the lockout waits for it';
    ok $pg->end($gate, 'commit'), 'the login goes on';
    my $res = $client->read_response;
    is $res->status, 200, 'it succeeds';
    ends_well($p);
    is_over($res->json, 'a session opened before the lockout');
}

# The other way round, a login that waits for a lockout opens a session that
# lives.
$pg->sql('drop trigger hold on auth_sessions', user => 'postgres');
for my $how ('commit', 'rollback') {
    my $lockout = $pg->begin("select 1 from accounts where $is_it
        for no key update");
    my $client = login_client();
    $pg->more($lockout, "update accounts set sessions_valid_after =
        clock_timestamp() where $is_it");
    ok $pg->end($lockout, $how), "a lockout, $how";
    is_alive($client->read_response->json, "a login after it, $how");
}

# A row written by a transaction that began before, committed after.
{
    my $old = $pg->begin("insert into auth_sessions (session_id, account_id,
        jti, created_at, expires_at) select '@{[ uuid(1) ]}', account_id,
        '@{[ uuid(2) ]}', now(), now() + interval '1 day' from accounts
        where account_name = '$account'");
    $c->done(qw(account revoke-sessions), $account);
    ok $pg->end($old, 'commit'), 'a session committed after a lockout';
    my $sub = $pg->sql("select account_id from accounts where $is_it");
    my $token = jwt_token('refresh', jwt_key('identity'), sub => $sub,
        account_id => $sub, session_id => uuid(1), jti => uuid(2),
        iss => claims(login()->json->{refreshToken})->{iss});
    is_problem(call(refresh => { refreshToken => $token }), 401,
        'AUTH_SESSION_NOT_ACTIVE', 'is over');
    $pg->sql("update accounts set sessions_valid_after = '-infinity'
        where $is_it");
    is call(refresh => { refreshToken => $token })->status, 200,
        'and was alive but for that';
}

# -- very many sessions

my @many = ($pg->sql("select account_id from accounts where $is_it"));
$pg->sql(<<"SQL", user => 'postgres');
set session_replication_role = replica;    -- triggers would take minutes
insert into auth_sessions (session_id, account_id, jti, created_at, expires_at)
select gen_random_uuid(), '$many[0]', gen_random_uuid(),
       now() - n * interval '1 ms', now() + interval '30 days'
  from generate_series(1, $MANY) n;
analyze auth_sessions;
SQL
my %short = (env => { PLATFORM_DB_STATEMENT_TIMEOUT => '5s' });
for my $name ('set-credential', 'disable') {
    my $session = login()->json;
    my $done = $c->done({ %short, stdin => "$credential\n" }, 'account',
        $name, $account);
    cmp_ok $done->{revokedSessions}, '>=', $name eq 'disable' ? 1 : $MANY,
        "$name: $done->{revokedSessions} sessions";
    is_over($session, "$name: very many");
    is $pg->sql("select count(*) from auth_sessions
        where $is_it and status = 'ACTIVE'"), 0, "$name: none is left";
}
is scalar @{ $c->done(\%short, qw(account sessions --all --limit 3),
    $account) }, 3, 'account sessions lists the newest of them';

$t->done;
