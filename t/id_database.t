# The database itself: impossible rows are refused, limits hold, migrations
# are applied once, local data is what it should be.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;

my $t = Platform::Test->new;
my $pg = $t->postgres(empty => 1);

sub id { return sprintf '00000000-0000-4000-8000-%04d%08d', @_ }

sub source ($path) { return $t->read_file($t->root . "/$path") }

# What a role is told that runs this.
sub told ($sql, $user = undef) {
    return eval { $pg->sql("begin; $sql; rollback", user => $user); 1 } ? 'accepted' : $@;
}

# [name, constraint or what is said, SQL]; an empty reason: accepted.
sub cases {
    like told($_->[2]), $_->[1] eq '' ? qr/\Aaccepted\z/ : qr/\Q$_->[1]\E/,
        "$_->[0]: " . ($_->[1] || 'accepted') for @_;
}

# A command that is expected to succeed, or to fail for a reason.
sub runs ($name, $command, $why = undef, %env) {
    my ($status, undef, $err) = $t->run_identity([ ref $command ? @$command : $command ], %env);
    return is($status, 0, $name) || diag $err if !defined $why;
    return like "$status $err", qr/\A[1-9]\d* .*$why/s, "$name, and why";
}

sub root ($sql) { return $pg->sql($sql, user => 'postgres') }

# -- migrations: many processes at once, each applied once

# Who waits for another may take longer than the role's statements otherwise.
root("alter role platform set $_ = '0.2s'") for qw(statement_timeout lock_timeout);
my $held = $pg->begin('select pg_advisory_xact_lock(7236589412356)', user => 'postgres');
my $c = Platform::Test::Commands->new(test => $t);
my @all = map { $c->start('seed') } 1 .. 4;
ok eventually(sub { root("select count(*) from pg_stat_activity
    where wait_event = 'advisory'") == 4 }), 'who does not come first waits';
sleep 0.3;
ok $pg->end($held, 'commit'), 'for longer than its role may';
is_deeply [ map { $_->wait_end(60 * $t->scale); $_->status } @all ], [ (0) x 4 ],
    'then four processes at once migrate and seed an empty database';
root('alter role platform reset all');
my @files = map { s{.*/}{}r } sort glob $t->root . '/db/migrations/*.sql';
my @applied = map { $t->read_file('op' . ($t->{runs} - $_) . '.log') =~ /"applied ([^"]+)"/g }
    0 .. 3;
is_deeply [ sort @applied ], \@files, 'each migration is applied once';
is $pg->sql('select version, name from schema_migrations order by 1'),
    join("\n", map {"$_|$files[ $_ - 1 ]"} 1 .. @files), 'and recorded';

runs('nothing to do is success', 'migrate');

# docs/upgrade.md has an index to be built beforehand: the very one.
my $index = "select pg_get_indexdef('auth_sessions_of_account'::regclass)";
my $definition = $pg->sql($index);
my ($build) = source('docs/upgrade.md') =~ /psql -d platform -c '(CREATE INDEX[^']*)'/;
$pg->sql('drop index auth_sessions_of_account');
$pg->sql($build // '');
is $pg->sql("$index, (select count(*) from pg_index where not indisvalid)"), "$definition|0",
    'the index of the page is the migration\'s, and valid';

$pg->sql("update schema_migrations set checksum = repeat('0', 64) where version = 2");
runs('a migration that was changed is refused', 'migrate',
    qr/0002_\w+\.sql was applied to this database with another[^\n]*\n\z/);
$pg->sql('delete from schema_migrations where version = 2');
runs('one that fails is an error', 'migrate', qr/./);
is $pg->sql('select count(*) from schema_migrations'), @files - 1, 'and leaves nothing behind';

root('drop schema public cascade; create schema public; grant all on schema public to public');
runs('seeded', 'seed');
$pg->sql("insert into schema_migrations values (9999, '9999_future.sql', repeat('a', 64))");
runs('a newer database is no error', 'migrate');

# -- local data

my $census = 'select ' . join ', ',
    map {"(select count(*) from $_)"} qw(tenants workspaces branches accounts
    members branch_grants member_roles);
my $before = $pg->sql($census);
my $renamed = "branch_name = 'Renamed'";
$pg->sql("update branches set $renamed where branch_id = '${\id(5, 31)}'");
runs('seeded again', 'seed');
is $pg->sql("$census, (select count(*) from branches where $renamed)"), "$before|1",
    'nothing was added, nor changed';

is $pg->sql("select account_name, accounts.status, count(branch_id)
    from accounts left join selectable_branches using (account_id)
    group by 1, 2 order by 1"), <<'ROWS' =~ s/\n\z//r, 'selectable branches';
disabled@demo.test|DISABLED|0
none@demo.test|ACTIVE|0
one@demo.test|ACTIVE|1
several@demo.test|ACTIVE|3
two-hundred@demo.test|ACTIVE|200
two-workspaces@demo.test|ACTIVE|2
ROWS

runs('no local data outside APP_ENV local', 'seed', qr/APP_ENV is local/,
    APP_ENV => 'production', PLATFORM_AUTH_COOKIE_SECURE => 'true');

# Nor in a database elsewhere, as the connection itself says: the settings name
# this machine, and libpq's service file leads to another address.
my $tcp = $t->postgres(name => 'tcp', empty => 1, port => $t->port('tcp'));
my %tcp = ($tcp->env, PLATFORM_DB_HOST => '127.0.0.1');
my $service = $t->write_file('service', "[elsewhere]\nhostaddr=0.0.0.0\n");
runs('no local data in a database elsewhere', 'seed',
    qr/only into a database on this machine/, %tcp,
    PGSERVICEFILE => $service, PGSERVICE => 'elsewhere');
is $tcp->sql('select count(*) from accounts'), 0, 'and none is there';
runs('by a loopback address it is loaded', 'seed', undef, %tcp);
$tcp->stop('INT');

# -- a copy of the data alone goes into a database that was migrated

root('create database copy owner platform');
runs('migrated', 'migrate', undef, PLATFORM_DB_NAME => 'copy');
my ($dump, $psql) = map { Platform::Test::Env::postgres($_) . " -h @{[ $pg->host ]} -U platform" }
    qw(pg_dump psql);
my $is_now = 'DELETE FROM public.audit_events WHERE event_at >= now()';
is qx{($dump --data-only --exclude-table=schema_migrations platform |
    $psql -Xqo /dev/null -v ON_ERROR_STOP=1 --single-transaction -f - -c '$is_now' copy) 2>&1; echo \$?}, "0\n",
    'restored without a complaint';
like $t->read_file($t->root . '/docs/operations.md'), qr/\Q$is_now/, 'as the docs say';
is $pg->sql($census, db => 'copy'), $pg->sql($census), 'every row is there';
my $audit = 'select count(*), max(event_id) from audit_events';
is $pg->sql($audit, db => 'copy'), $pg->sql($audit), 'and no other row of the audit';

# -- sessions: what cannot be

my ($one, $several, $id) = (id(3, 1), id(3, 3), id(9, 1));
my @own = (id(2, 1), id(4, 1), id(5, 1));
my ($elsewhere, $theirs, $foreign) = (id(2, 3), id(4, 3), id(5, 31));

sub insert (%o) {
    my %row = (session_id => "'$id'", account_id => "'$one'", jti => 'gen_random_uuid()',
        created_at => 'now()', expires_at => "now() + interval '1 hour'", %o);
    my @columns = sort keys %row;
    return sprintf 'insert into auth_sessions (%s) values (%s)',
        join(', ', @columns), join ', ', @row{@columns};
}

sub scope (@ids) {
    my @values = map { defined ? "'$_'" : 'null' } @ids;
    return map { $_ => shift @values } qw(workspace_id member_id active_branch_id);
}

my $scoped = insert(scope(@own));
my $revoked = insert(status => "'REVOKED'", revoked_at => 'now()');
sub update { return "; update auth_sessions set $_[0] where session_id = '$id'" }
my ($half, $no_time) = ('auth_sessions_scope_whole', 'auth_sessions_revoked_has_time');

cases(
    [ 'a session without scope', '', insert() ], [ 'one with scope', '', $scoped ],
    [ 'revoked', '', $revoked ],
    (map { my $set = $_; [ "half a scope ($set)", $half,
        insert(scope(map { $set & 1 << $_ ? $own[$_] : undef } 0 .. 2)) ] } 1 .. 6),
    [ "another workspace's branch", 'auth_sessions_branch', insert(scope(@own[ 0, 1 ], $foreign)) ],
    (map { [ "another's member", 'auth_sessions_member', insert(scope($elsewhere, $_, $foreign)) ] }
        $theirs, $own[1]),
    [ 'no such account', 'auth_sessions_account_id_fkey', insert(account_id => "'${\id(3, 99)}'") ],
    # What a refresh does not write is checked when its own columns are written.
    (map {
        my ($why, %set) = @$_;
        my $what = join ', ', map {"$_ = $set{$_}"} sort keys %set;
        [ "with $what", $why, insert(%set) ], [ "to $what", $why, $scoped . update($what) ]
    } (map { [ 'auth_sessions_status_known', status => "'$_'" ] }
            qw(EXPIRED ENDED DISABLED DELETED INACTIVE)),
        [ $no_time, status => "'REVOKED'" ], [ $no_time, revoked_at => 'now()' ],
        [ 'auth_sessions_revoked_later', status => "'REVOKED'",
            revoked_at => "now() - interval '1 s'" ],
        [ 'auth_sessions_expires_later', expires_at => 'now()' ]),
    [ 'half a scope is left', $half, $scoped . update('member_id = null') ],
    [ 'no scope is left', '', $scoped
        . update('workspace_id = null, member_id = null, active_branch_id = null') ],
    [ 'active to revoked', '', insert() . update("status = 'REVOKED', revoked_at = now()") ],
    [ 'and back', 'a revoked session stays',
        $revoked . update("status = 'ACTIVE', revoked_at = null") ],
    [ 'another account', 'no session changes', insert() . update("account_id = '$several'") ],
    (map { my $most = /agent/ ? 255 : 63; ([ "$_ of $most bytes", '', insert($_ =>
        "repeat('x', $most)") ], [ "$_, a byte more", 'auth_sessions_'
        . (/login/ ? 'login' : 'client') . '_bounded', insert($_ => "repeat('x', $most + 1)") ]) }
        qw(used_agent login_agent used_address login_address)),
    [ 'deleting a member in use', 'branch_grants_member',
        "$scoped; delete from members where member_id = '$own[1]'" ],
);

# -- the directory, and limits

my $account = 'insert into accounts (account_name, credential_hash) values';
my $grant = 'insert into branch_grants (member_id, branch_id, workspace_id) values';
my $role = "insert into member_roles select '$own[1]', '$own[2]',";
my $more = "insert into branches (branch_id, workspace_id, branch_name, status)
    values ('${\id(5, 9001)}', '${\id(2, 2)}', 'One more', %s);
    $grant ('${\id(4, 2)}', '${\id(5, 9001)}', '${\id(2, 2)}')";
my $inactive = sprintf $more, "'INACTIVE'";

cases(
    [ 'an account', '', "$account ('new\@demo.test', '\$argon2id\$x')" ],
    (map { [ "an account's name: $_", 'accounts_name_normalised',
        "$account ($_, '\$argon2id\$x')" ] } q{'New@demo.test'}, q{' a'}, q{''},
        q{repeat('a', 321)}, q{E'a\tb'}, q{E'a\n'}),
    [ 'the same name twice', 'accounts_name', "$account ('one\@demo.test', '\$argon2id\$x')" ],
    [ 'a credential in clear', 'accounts_credential_is_hash', "$account ('new', 'secret')" ],
    [ 'a member twice', 'members_once',
        "insert into members (account_id, workspace_id) values ('$one', '$own[0]')" ],
    [ 'a grant across workspaces', 'branch_grants_branch',
        "$grant ('$own[1]', '$foreign', '$own[0]')" ],
    [ 'or the other way', 'branch_grants_member', "$grant ('$own[1]', '$foreign', '$elsewhere')" ],
    [ 'a role without a grant', 'member_roles_grant',
        "insert into member_roles values ('$own[1]', '$foreign', 'X')" ],
    [ 'a role of 33 bytes', 'member_roles_code_plain', "$role repeat('X', 33)" ],
    [ 'the 201st branch', 'at most 200 active branches', sprintf $more, "'ACTIVE'" ],
    [ 'an inactive one', '', $inactive ],
    [ 'activating it', 'at most 200 active branches', "$inactive; update branches
        set status = 'ACTIVE' where branch_id = '${\id(5, 9001)}'" ],
    [ '32 roles', '', "$role rpad('R' || n, 32, '_') from generate_series(1, 30) n" ],
    [ 'the 33rd role', 'at most 32 roles', "$role 'R' || n from generate_series(1, 31) n" ],
);

my $many = "with w as (insert into workspaces (tenant_id, workspace_name)
        select '${\id(1, 1)}', 'W' || n from generate_series(1, %d) n returning workspace_id),
    b as (insert into branches (workspace_id, branch_name)
        select workspace_id, 'B' || n from w, generate_series(1, 200) n returning *),
    m as (insert into members (account_id, workspace_id)
        select '${\id(3, 5)}', workspace_id from w returning *)
    insert into branch_grants (member_id, branch_id, workspace_id)
        select member_id, branch_id, workspace_id from m join b using (workspace_id)";
cases([ '1000 branches of an account', '', sprintf $many, 5 ],
    [ 'more than 1000', 'at most 1000 active branches', sprintf $many, 6 ]);

# -- roles of an installation: no more rights than needed

sub roles { return root(source('db/roles.sql')) }
roles();

# -- the role that docs/install.md makes does not become the owner

my ($made) = source('docs/install.md') =~ /<<SQL\n(CREATE ROLE.*?)^SQL$/ms;
root($made);
is $pg->sql("select string_agg(oid::regprocedure::text, ' ') from pg_proc
    where prosecdef and has_function_privilege('public', oid, 'execute')"), '',
    'no function that runs as its owner is everybody\'s to call';
is $pg->sql("select string_agg(oid::regprocedure::text, ' ') from pg_proc
    where prosecdef and not exists (select from unnest(proconfig) as setting
        where setting like 'search_path=%pg_temp')"), '', 'or finds what its caller likes';
# With a table of its own such a function would be the trigger of what its caller likes.
my $trigger = 'create temp table own (account_id uuid); create trigger own after delete on own
    for each row execute function accounts_revoke()';
for my $case (
    [ 'what the migration leaves', 'grant temporary on database platform to public',
        qr/permission denied for function accounts_revoke/ ],
    [ 'what roles.sql leaves', undef, qr/permission denied to create temp/ ],
    [ 'without both', 'grant temporary on database platform to public;
        grant execute on function accounts_revoke() to public', qr/\Aaccepted\z/ ],
) {
    my ($name, $sql, $why) = @$case;
    $sql ? root($sql) : roles();
    like told($trigger, 'identity'), $why, $name;
}
root('revoke execute on function accounts_revoke() from public');
roles();

# The triggers that are there fire for it.
$pg->sql(insert(account_id => "'$several'") . update("status = 'REVOKED', revoked_at = now()"),
    user => 'identity');
$pg->sql("update accounts set sessions_valid_after = now() where account_id = '$several'",
    user => 'identity_operator');
is $pg->sql("select count(*) from session_revocations
    where session_id = '$id' or account_id = '$several'"), 2,
    'a session that it ends is revoked, and so is an account it locks out';

root('create role served login; grant platform_identity to served');
# As where functions are nobody's to call by default.
root('revoke execute on all functions in schema public from public, platform_identity');
my $served = $t->identity(name => 'served', PLATFORM_DB_USER => 'served',
    PLATFORM_DB_SEED_ON_START => 'false');

sub ready ($status, $name) {
    like $t->fcgi($served->address)->request(GET => '/readyz')->{stdout},
        $status == 503 ? qr/\AStatus: 503.*Check failed: rights/s : qr/\A(?!Status: [345])/,
        "readyz: $name";
}
ready(503, 'may not call functions');
for my $right ('select on session_revocations', 'select on client_secrets',
    'insert on client_assertions', 'update on reset_misses', 'execute on function login_attempt_wait', 'select on stand_in_secret', 'delete on rotated_tokens',
    'update (status) on accounts', (map {"insert on $_"} qw(client_calls workspaces branches members
        branch_grants reset_codes)),
    map {"execute on function $_"} qw(session_revocation_mark audit_months audit_observe))
{
    roles();
    ready(200, 'with all rights');
    root("revoke $right from platform_identity");
    ready(503, "without: $right");
}
roles();

# What each role may do, whatever it could before: [role, what, on what, granted].
root('grant create on schema public to platform_identity, platform_operator');
roles();
my $import = 'import_account(text, text, text)';
for my $case ([ identity => schema => public => 'usage', 1 ],
    (map { [ $_ => schema => public => 'create', 0 ] } qw(identity operator)),
    (map { [ operator => table => $_ => 'update', 1 ], [ operator => table => $_ => 'delete', 0 ] }
        qw(tenants workspaces branches accounts members)),
    [ operator => table => branch_grants => 'delete', 1 ],
    (map { [ operator => table => $_ => 'delete', 1 ], [ identity => table => $_ => 'insert', 0 ] }
        qw(client_scopes client_secrets client_keys)),
    (map { [ operator => table => audit_events => $_, $_ eq 'select' ? 1 : 0 ] }
        qw(select insert update delete)),
    [ operator => table => stand_in_secret => 'select', 0 ],
    [ operator => function => $import => 'execute', 1 ],
    [ identity => table => accounts => 'update', 0 ], [ identity => table => accounts => 'delete', 0 ],
    [ identity => function => $import => 'execute', 1 ])
{
    my ($role, $kind, $what, $right, $has) = @$case;
    is root("select has_${kind}_privilege('platform_$role', '$what', '$right')::int"), $has,
        "platform_$role: " . ($has ? 'may ' : 'may not ') . "$right $what";
}

$t->start_face($served->nginx_address);
client_of($t);

# What is served to the least privileged role: what a person does, and what gateways read.
is logout(next_of(refresh(logged_in('one'))))->status, 200, 'logout';
my $token = logged_in('one')->{accessToken};
my $credential = $Platform::Test::Client::CREDENTIAL;
for my $case ([ GET => '/api/auth/me' ], [ GET => '/api/auth/sessions' ], [ POST => '/api/auth/change-credential',
        json => { credential => $credential, newCredential => $credential } ],
    [ DELETE => '/api/auth/sessions/' . session_of($token) ], [ GET => '/internal/revocations' ])
{
    is http($t->port('identity'), @$case, token => $token)->status, 200, "@$case[0, 1]";
}
runs('a sweep', 'sweep', undef, PLATFORM_DB_USER => 'served');

# The other role of docs/install.md is enough for the commands, and the service's is not: it
# makes no client.
for my $command ('workspace add Shop --new-tenant Acme', 'branch add Main --workspace Shop',
    'account add op@x.test --no-login', 'member add --account op@x.test --workspace Shop',
    'member grant --account op@x.test --branch Main --role A', 'account unlock op@x.test',
    'account revoke-sessions op@x.test', 'account disable op@x.test',
    'account enable op@x.test', 'sessions revoke --since 2026-01-01T00:00:00Z', 'sweep',
    (map {"$_ list"} qw(account workspace branch member)), (map {"account $_ op\@x.test"}
        qw(sessions show)), 'workspace rename Shop --to Shop2', 'branch rename Main --to Two',
    'member revoke --account op@x.test --branch Two',
    'account rename op@x.test --to op2@x.test', 'account delete op2@x.test',
    'client add op --allow people:read', 'client secret add op', 'client allow op --scope audit:read')
{
    runs("the service may not: $command", [ split / /, $command ],
        qr/needs the rights of platform_operator/, PLATFORM_DB_USER => 'identity')
        if $command =~ /^client/;
    runs("the operator may: $command", [ split / /, $command ], undef,
        PLATFORM_DB_USER => 'identity_operator');
}
for my $sql ("update accounts set account_type = 'OPERATOR'",
    'update session_revocations set dies_at = now()',
    'insert into session_revocations (session_id, dies_at) values (gen_random_uuid(), now())',
    'delete from session_revocation_marks', 'delete from accounts',
    'insert into client_scopes select * from client_scopes', 'delete from client_secrets',
    "insert into audit_events (event) values ('x')", 'delete from audit_events',
    "update audit_events set event = 'x'", 'delete from members', 'create table x ()',
    'delete from schema_migrations')
{
    like told($sql, 'served'), qr/permission denied/, "may not: $sql";
}

# The rights of one who serves are enough where there is nothing to migrate.
my @served = (PLATFORM_DB_USER => 'served');
runs('it may find that there is nothing to migrate', 'migrate', undef, @served);
$pg->sql('delete from schema_migrations where version = 5');
my $may_not = 'role served may not do this: migrate as';
runs('and may not migrate', 'migrate', qr/ $may_not platform, which owns the tables\n\z/, @served);
root('create database empty');
runs('nor an empty database', 'migrate', qr/ $may_not a role that may create /, @served,
    PLATFORM_DB_NAME => 'empty');

$t->done;
