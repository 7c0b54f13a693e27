# A database that loses its last commits brings logged-out and replaced tokens
# back: the service warns of one that may, and a command ends what came back.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;
use POSIX qw(strftime);

my $t = Platform::Test->new;
my $primary = $t->postgres;
my $standby = $t->postgres(name => 'standby', standby_of => $primary);
my %env = ($primary->env, PLATFORM_AUTH_MAX_FAILURES => 0,
    PLATFORM_DB_HOST => join ',', $primary->host, $standby->host);
my $identity = $t->identity_face(%env, PLATFORM_SWEEP_INTERVAL => '1s',
    PLATFORM_LOG_LEVEL => 'debug');
my $c = Platform::Test::Commands->new(test => $t, env => \%env);
my $port = client_of($t);

# -- the warning

sub root ($sql) { return $primary->sql($sql, user => 'postgres') }

# What a process that starts warns of, once the server has these settings.
sub warnings (%settings) {
    $primary->setting("$_ = '$settings{$_}'") for keys %settings;
    ok eventually(sub { !grep { root("show $_") ne $settings{$_} } keys %settings }), 'set';
    my $before = length $identity->log_text;
    restart($identity);
    is logged_in('one')->{code}, 'AUTH_LOGIN_SUCCESS', 'it serves';
    # No request waits for the thread that asks, and then sweeps.
    my $log = sub { substr $identity->log_text, $before };
    ok eventually(sub { $log->() =~ /"sweep\.done"/ }), 'it has asked';
    return join '', grep { /"db\.not_durable"/ } split /^/m, $log->();
}

my $none = qr/\A\z/;
my @usual = (synchronous_standby_names => '', synchronous_commit => 'on');
for my $case (
    [ qr/"level":"warn".*a crash of the server loses commits: synchronous_commit is off/,
        'off', 'select 1', synchronous_commit => 'off' ],
    [ qr/failover to a standby loses commits: synchronous_commit is local/,
        'local, and a standby to wait for', 'select 1', synchronous_commit => 'local',
        synchronous_standby_names => 'standby' ],
    [ qr/synchronous_commit is off/, "the role's own setting counts",
        "alter role platform set synchronous_commit = 'off'", @usual ],
    [ $none, 'and no longer', 'alter role platform reset synchronous_commit', @usual ],
) {
    my ($want, $name, $sql, @settings) = @$case;
    root($sql);
    like warnings(@settings), $want, "a warning: $name";
}
restart($identity, SWEEP_INTERVAL => undef, LOG_LEVEL => undef);

# -- a standby that lags takes over

my $many = 1200;    # accounts: some batches
my $filler = "('00000000-0000-4000-9000-' || to_char(n, 'FM000000000000'))::uuid";
root(<<"SQL");
insert into accounts (account_id, account_name, credential_hash)
select $filler, 'filler' || n, '\$argon2id\$x' from generate_series(1, $many) n;
insert into auth_sessions (session_id, account_id, jti, created_at, expires_at)
select gen_random_uuid(), $filler, gen_random_uuid(), now() - interval '2 days', now() +
       case when n % 2 = 0 then interval '1 day' else interval '-1 day' end
  from generate_series(1, $many) n;
SQL
my ($out, $rotated, $idle) = map { logged_in($_) } qw(several one two-workspaces);
sub caught_up { return eventually(sub { root('select count(*) from pg_stat_replication
    where replay_lsn = pg_current_wal_lsn()') }, 20) }
ok caught_up(), 'the standby has all sessions';
my $since = strftime('%Y-%m-%dT%H:%M:%SZ', gmtime);

# Where a reader of the revocation feed is, and what there is for one that begins.
sub feed ($cursor = undef) {
    return http_get($port, '/internal/revocations' . (defined $cursor ? "?after=$cursor" : ''));
}

is logout(logged_in('one'))->status, 200, 'a logout that the standby gets';
ok caught_up(), 'it has it';
my $synced = feed()->json->{cursor};
is feed($synced)->status, 200, 'its reader goes on';
$standby->stop('INT');
is_deeply [ logout($out)->status, refresh($out)->status ], [ 200, 401 ],
    'a logout that it does not get';
# Numbers of transactions that the standby never sees, and gives again.
$primary->sql("begin; insert into rotated_tokens select session_id,
    gen_random_uuid() from auth_sessions limit 1; rollback") for 1 .. 50;
my $ahead = feed($synced)->json->{cursor};
is feed($ahead)->status, 200, 'a reader that is ahead of the standby';
my $new = refresh($rotated)->json->{refreshToken};
is refresh($rotated)->status, 401, 'nor that rotation';
$primary->stop('KILL');
$standby->start;
is_problem(feed($synced), 503, 'DATABASE_UNAVAILABLE',
    'a standby tells no reader that there is nothing');
$standby->promote;
$t->allow(qr/db\.(?:error|connect)/);

is eventually(sub { my $res = refresh($out); $res->status != 503 ? $res->status : undef }), 200,
    'the logged-out token is good again';
is_deeply [ map { refresh($_)->status } $rotated, $new ], [ 200, 401 ],
    'so is the replaced one, and its owner is the one refused';

# What the feed said is of another database.
is_problem(feed($_), 400, 'REQUEST_INVALID', 'a cursor of the lost primary') for $synced, $ahead;
# -- the command

my @revoke = qw(sessions revoke --since);
$c->refused(2, qr/--since is a past time in UTC/, @revoke, $_)
    for 'yesterday', '2026-02-30T10:15:00Z', '2026-11-21T10:15:00Zx', '2999-01-01T00:00:00Z';
is refresh(logged_in('one'))->status, 200, 'none of these did anything';

# One row is in use: what counts does not wait for it.
my $held = $standby->begin("select 1 from auth_sessions where session_id = '"
    . session_of($idle) . "' for update");
my $p = $c->start({ env => { PLATFORM_DB_STATEMENT_TIMEOUT => '60s' } }, @revoke, $since);
ok $standby->waiting(1), 'the command waits for a row';
is_problem(refresh($_), 401, 'AUTH_SESSION_NOT_ACTIVE', 'every session is over')
    for $out, $rotated, $new, $idle;
my $after = logged_in('one');
$standby->end($held, 'rollback');
ok $p->wait_end(60 * $t->scale), 'the row is let go, the command ends';
is $p->status, 0, 'well';
like $t->read_file("op$t->{runs}.log"), qr/^accounts +603$/m,
    'all accounts with a session that was not over by then';
my $token = next_of(refresh($after));    # a session opened meanwhile lives
is $standby->sql("select expires_at > now(), count(*) from auth_sessions
    where status = 'ACTIVE' group by 1 order by 1"), 'f|' . $many / 2 . "\nt|1",
    'and only that; what was over by then is left alone';

# Again: the one that is left.
my $again = $c->audited([ 'sessions.revoking', 'sessions.revoked' ], @revoke, $since);
is_deeply [ @$again{qw(accounts revokedSessions)}, !!$c->{audit}[0]{operator},
    @{ $c->{audit}[1] }{qw(since accounts revokedSessions)} ], [ 1, 1, 1, $since, 1, 1 ],
    'again: the one that is left; who did it, and what it was about';
is refresh($token)->status, 401, 'it is over too';
is $c->done(@revoke, $since)->{revokedSessions}, 0, 'once more: nothing';

$t->done;
