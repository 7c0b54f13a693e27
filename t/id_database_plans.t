# Every statement of the service uses an index, and a rotation stays on its
# page (a HOT update): the server's own plans and counters say so.

use Platform::Test;
use Platform::Test::Client;

my $SESSIONS = $ENV{PLATFORM_TEST_SESSIONS} // 20_000;
my $ACCOUNTS = $SESSIONS < 200_000 ? 8_000 : $SESSIONS / 10;

my $t = Platform::Test->new;
my $pg = $t->postgres(settings => {
    max_wal_size                           => '2GB',
    session_preload_libraries              => 'auto_explain',
    'auto_explain.log_min_duration'        => 0,
    'auto_explain.log_nested_statements'   => 'on',
});
my $identity = $t->identity_face(PLATFORM_AUTH_REFRESH_REUSE => 'revoke',
    PLATFORM_AUTH_ARGON2_ITERATIONS => 3);    # so that logins rehash
client_of($t);

# What the server has logged since its log was so long; a partition's index goes by the
# name of the table's.
sub size { return -s $pg->{log} }
sub since { return substr($t->read_file('postgres.log'), $_[0]) =~ s/(auth_sessions)_p\d+/$1/gr }

# However small a database is, and whether the planner knows that: a refresh
# goes along the same indexes, row by row.

sub is_same_plan ($when, $account) {
    my $start = size();
    my $s = logged_in($account);
    # The server may plan the first five each for itself.
    $s = refresh($s)->json for 1 .. 7;
    my @plans = since($start) =~ /Query Text:[^\n]*SET jti[^\n]*\n((?:\t[^\n]*\n)+)/g;
    is scalar @plans, 7, "$when, $account: the plans of all refreshes";
    unlike $plans[-1], qr/Hash|Merge|Seq Scan|Sort/, "$when, $account: nested loops alone";
    is_deeply [ sort $plans[-1] =~ /Scan (?:using|on) (\w+_(?:pkey|once))/g ],
        [ ('accounts_pkey') x 2, ('auth_sessions_pkey') x 2, qw(branch_grants_pkey branches_pkey
            member_roles_pkey members_once rotated_tokens_pkey workspaces_pkey) ],
        "$when, $account: the same indexes";
}

# (A partition of one page may be read by any index.)
for my $when ($ENV{PLATFORM_TEST_PARTITIONS} ? () : ('as it was made', 'analyzed')) {
    is_same_plan($when, $_) for qw(one several two-hundred);
    $pg->sql('analyze');
}
like $pg->sql('explain select 1 from members join branch_grants
    using (member_id) join branches using (branch_id)'), qr/Hash Join/,
    'others would hash these tables';

# Enough rows that reading a whole table would never pay.

# The id of a row of this table, by a number.
sub id ($table, $n) {
    return "('00000000-0000-4000-900$table-' || to_char($n, 'FM000000000000'))::uuid";
}
$pg->sql(<<"SQL", user => 'postgres');
set auto_explain.log_min_duration = -1;
set session_replication_role = replica;    -- triggers would take minutes
insert into accounts (account_id, account_name, credential_hash)
select ${\id(0, 'n')}, 'filler' || n, '\$argon2id\$x' from generate_series(1, $ACCOUNTS) n;
insert into workspaces (workspace_id, tenant_id, workspace_name)
select ${\id(1, 'n')}, '00000000-0000-4000-8000-000100000001', 'W' || n
  from generate_series(1, 8000) n;
insert into branches (branch_id, workspace_id, branch_name)
select ${\id(2, 'n')}, ${\id(1, '1 + n % 2000')}, 'B' || n from generate_series(1, 8000) n;
insert into members (member_id, account_id, workspace_id)
select ${\id(3, 'n')}, ${\id(0, 'n')}, ${\id(1, '1 + n % 2000')} from generate_series(1, 8000) n;
insert into branch_grants (member_id, branch_id, workspace_id)
select m.member_id, b.branch_id, b.workspace_id
  from members m join branches b using (workspace_id) where m.account_id >= ${\id(0, '0')};
insert into member_roles select member_id, branch_id, 'CASHIER'
  from branch_grants on conflict do nothing;
insert into auth_sessions (session_id, account_id, jti, created_at, expires_at)
select gen_random_uuid(), ${\id(0, "1 + n % $ACCOUNTS")}, gen_random_uuid(), now(),
       now() + interval '30 days' from generate_series(1, $SESSIONS) n;
insert into rotated_tokens (session_id, jti) select session_id, jti from auth_sessions;
insert into login_attempts select sha256(n::text::bytea), '198.51.100.1', 1,
       now() + interval '1 hour' from generate_series(1, 8000) n;
SQL
$pg->sql('analyze');
is_same_plan("$SESSIONS sessions", 'one');

# From here on the server's log has the plans.

my $start = size();

is login('one', credential => 'wrong')->status, 401, 'a failed login';
my ($one, undef, $several) = map { logged_in($_) } qw(one two-workspaces several);
is select_branch($several, $several->{branches}[0]{branchId})->status, 200, 'a selection';
my $stale = claims($one);
$one = refresh($one)->json for 1 .. 30;
ok $one->{refreshToken}, 'refreshes';
next_of(refresh($several));
$pg->sql("update branches set status = 'INACTIVE' where branch_id = '${\branch(1)}'");
my $lost = refresh($one)->json;
is $lost->{nextAction}{type}, 'select_branch', 'a scope that is lost';
is refresh(jwt_token('refresh', jwt_key('identity'), %$stale, iat => time - 100))->status, 401,
    'a reuse';
is logout($lost)->status, 200, 'a logout';
is http_get($t->port('identity'), '/api/auth/me', token => $one->{accessToken})->status, 401,
    'whose it was';

# What operators do to an account, beside all the others.
for my $command ('sessions one@demo.test', 'unlock one@demo.test', 'disable none@demo.test',
    'enable none@demo.test', 'revoke-sessions one@demo.test', 'list --name one',
    'list --after one@demo.test', 'show one@demo.test', 'rename none@demo.test --to nobody',
    'delete nobody')
{
    my ($status, undef, $err) = $t->run_identity([ 'account', split / /, $command ], $pg->env);
    is $status, 0, "account $command" or diag $err;
}

my $plans = since($start);
my $seen = $plans =~ s/\s+/ /gr;
like $seen, qr/$_/, "a plan of: $_"
    for 'LEFT JOIN accounts a ON a.account_name', 'login_attempt_begin', 'login_attempt_settle',
    'UPDATE accounts SET credential_hash', 'INSERT INTO auth_sessions', 'FROM auth_sessions s',
    'SET jti =', 'active_branch_id = CASE', 'FROM rotated_tokens', 'SET workspace_id = \$2',
    'session_id = ANY', 'FROM selectable_branches t WHERE t.account_id',
    'o.account_name, w.workspace_name';
my $scan = qr/(Seq\ Scan\ on\ (?:auth_sessions|accounts|members|branches
    |branch_grants|member_roles|workspaces|login_attempts)[^\n]*)/x;
is_deeply [ $plans =~ /$scan/g ], [], 'no statement reads a whole table';
$pg->sql('select count(*) from auth_sessions where expires_at < now()');
like since($start), $scan, 'one that does would be seen';

# A session's row moves to another page only when its page is full, which
# pruning prevents: nearly every rotation is HOT.

# Scope changes are among them and touch no index either; a revocation does.
my $counts = 'from pg_stat_user_tables where relname ~ \'^auth_sessions\'';
ok eventually(sub { $pg->sql("select sum(n_tup_upd) >= 30 $counts") eq 't' }, 20), 'many updates';
is $pg->sql("select sum(n_tup_hot_upd) >= 0.9 * sum(n_tup_upd) $counts"), 't',
    'most of them HOT';

# Ending all of them goes along the same indexes, however many there are.

$start = size();
my ($status, $out, $err) = $t->run_identity([qw(sessions revoke --since 2020-01-01T00:00:00Z)],
    $pg->env, within => 30 + $SESSIONS / 2000);
like "$status $out", qr/\A0 accounts +\d{4,}$/m, 'sessions revoke: many accounts' or diag $err;
$plans = since($start);
like $plans, qr/sessions_valid_after/, 'with plans';
is_deeply [ $plans =~ /$scan/g ], [], 'no statement reads a whole table';

$t->done;
