# The operator's commands: their help, what they refuse, and the directory of
# tenants, workspaces, branches and grants.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Commands;
use POSIX qw(mkfifo);
use Test::More;

my $t = Platform::Test->new;
my $pg = $t->postgres(empty => 1, settings => { log_statement => 'all' });
my $c = Platform::Test::Commands->new(test => $t, env => {
    PLATFORM_DB_SEED_ON_START => 'false',
    PLATFORM_LOG_LEVEL        => 'error',    # audit lines come all the same
});
my $secret = $c->secret('hunter2-not-to-be-shown');

# Help.

my @commands = (
    (map {"account $_"} qw(add rename delete disable enable
        set-credential unlock revoke-sessions show list sessions
        import)), 'sessions revoke',
    (map {"workspace $_"} qw(add rename activate deactivate list)),
    (map {"branch $_"} qw(add rename activate deactivate list)),
    (map {"member $_"} qw(add grant revoke list)),
    'token system', 'token inspect', 'keys generate', 'migrate', 'sweep',
);
my ($status, $help, $err) = $c->run('help');
is $status, 0, 'help';
is $err, '', 'help: nothing on stderr';
is scalar(grep { length > 79 } split /\n/, $help), 0, 'help: 79 columns';
for my $command (@commands) {
    like $help, qr/^  \Q$command\E\s/m, "help lists $command";
}
my %asked = ('account add' => [qw(help account add)],
    sweep => [qw(sweep -h)], account => [qw(account --help)]);
for my $command (@commands, 'account') {
    my @words = @{ $asked{$command} // [ split(/ /, $command), '--help' ] };
    my ($status, $out, $err) = $c->run(@words);
    is $status, 0, "@words";
    like $out, qr/\Ausage: identity-fcgi \Q$command\E[ \n]/, "@words: usage";
    like $out, qr/--json/, "@words: options" if $command ne 'account';
    is scalar(grep { length > 79 } split /\n/, $out), 0, "@words: columns";
}

# Usage: exit 2, one line, and nothing of what might be a secret.

my @usage = (
    [ qr/account: which of add, rename, delete, /, 'account' ],
    [ qr/account: which of/, 'account', $secret ],
    [ qr/account add: needs NAME; try .* account add --help/, qw(account add) ],
    [ qr/takes one argument/, qw(account set-credential bob), $secret ],
    [ qr/read from standard input/, qw(account add bob --credential), $secret ],
    [ qr/read from standard input/,
        qw(account add bob), "--password=$secret" ],
    [ qr/unknown option --frob;/, qw(account add bob --frob), $secret ],
    [ qr/unknown option;/, qw(account add bob), "-$secret" ],
    [ qr/unknown option;/, qw(account add bob), "--$secret" ],
    [ qr/unexpected argument;/, 'migrate', $secret ],
    [ qr/needs a value: --type/, qw(account add bob --type) ],
    [ qr/takes no value: --json/, qw(account disable bob --json=yes) ],
    [ qr/given twice: --type/,
        qw(account add bob --type CUSTOMER --type SYSTEM) ],
    [ qr/--type is one of CUSTOMER, OPERATOR, SYSTEM/,
        qw(account add bob --type customer) ],
    [ qr/may not be empty: NAME/, qw(account add), '' ],
    [ qr/control characters/, qw(account disable), "a\x07b" ],
    [ qr/1 to 320 bytes/, qw(account disable), 'a' x 321 ],
    [ qr/needs one of --tenant and --new-tenant/, qw(workspace add W) ],
    [ qr/needs one of --tenant and --new-tenant/,
        qw(workspace add W --tenant A --new-tenant B) ],
    [ qr/branch add: needs --workspace/, qw(branch add B) ],
    [ qr/member grant: needs --branch/, qw(member grant --account a) ],
    [ qr/member revoke: needs --branch, or --all/,
        qw(member revoke --account a) ],
    [ qr/member revoke: needs/, qw(member revoke --account a --all) ],
    [ qr/member revoke: needs/,
        qw(member revoke --account a --all --workspace w --branch b) ],
    [ qr/--role is 1 to 32 of the characters/,
        qw(member grant --account a --branch b --role), 'R' x 33 ],
    [ qr/--role is 1 to 32/,
        qw(member grant --account a --branch b --role), 'A,B' ],
    [ qr/at most 32 roles in a branch/, qw(member grant --account a --branch b),
        map { ('--role', "R$_") } 1 .. 33 ],
    [ qr/at most 200 active branches/, qw(member grant --account a),
        map { ('--branch', "B$_") } 1 .. 201 ],
    [ qr/--session is a UUID/,
        qw(account revoke-sessions a --session x) ],
    [ qr/sessions revoke: needs --since/, qw(sessions revoke) ],
    [ qr/--limit is 1 to 100000/, qw(account sessions a --limit 0) ],
    [ qr/--address is an IP address/, qw(account unlock a --address here) ],
    [ qr/token system: needs --ttl/, qw(token system --account a) ],
    (map { [ qr/--ttl is .* 1s to 1h/, qw(token system --account a --ttl), $_ ]
    } '0', '61m', '3601', 'x', '1.5', '1d'),
    [ qr/--older-than is/, qw(sweep --older-than never) ],
);
$c->refused(2, @$_) for @usage;
$c->refused(2, qr/PLATFORM_DB_PORT/, { env => { PLATFORM_DB_PORT => 'x' } },
    qw(account disable a));

# A database that is not there, not migrated, or not ours.

$c->refused(1, qr/cannot reach the database: .*No such file/,
    { env => { PLATFORM_DB_HOST => $t->dir . '/none' } },
    qw(account disable a));
$c->refused(1, qr/not migrated: run identity-fcgi migrate/, @$_)
    for [qw(account disable a)], [qw(sweep)];
is $c->done('migrate')->{schemaVersion},
    $pg->sql('select max(version) from schema_migrations'), 'migrate';
$c->done('migrate');
is_deeply $c->events, [], 'migrate again: nothing to do';

# Workspaces and branches.

$c->refused(1, qr/no tenant called "Acme": --new-tenant makes one/,
    qw(workspace add Shop --tenant Acme));
my $shop = $c->done(qw(workspace add Shop --new-tenant Acme));
is_deeply $c->events, [ 'tenant.added', 'workspace.added' ], 'audited';
is $c->{audit}[1]{workspaceId}, $shop->{workspaceId}, 'audit: its id';
ok $c->{audit}[1]{operator}, 'audit: who did it';
is_deeply [ @$shop{qw(workspaceName tenantName status changed)} ],
    [ 'Shop', 'Acme', 'ACTIVE', JSON::PP::true() ], 'the result';
is $pg->sql("select tenant_id from workspaces where workspace_id
    = '$shop->{workspaceId}'"), $shop->{tenantId}, 'and the row';
$c->refused(1, qr/a tenant called "Acme" exists already: --tenant/,
    qw(workspace add Other --new-tenant Acme));
$c->refused(1, qr/workspace of this name exists already in "Acme"/,
    qw(workspace add Shop --tenant), $shop->{tenantId});
$c->refused(1, qr/no tenant with the id/,
    qw(workspace add Other --tenant), uuid(99));
$c->refused(1, qr/name of a workspace is 1 to 200 bytes/,
    qw(workspace add), 'x' x 201, qw(--tenant Acme));
$c->refused(1, qr/not valid UTF-8/,
    qw(workspace add), "x\xff", qw(--tenant Acme));
my $cafe = $c->done(qw(workspace add), "Caf\xc3\xa9 '; --", '--tenant=Acme');
is $cafe->{workspaceName}, "Caf\x{e9} '; --", 'any name is only a name';
my ($ok, $out) = $c->run(qw(workspace add Second --new-tenant), 'Other Inc');
is $ok, 0, 'without --json';
like $out, qr/\Aworkspace      Second\nid             [0-9a-f-]{36}\n/,
    'aligned lines';

my $main = $c->done(qw(branch add Main --workspace Shop));
is $main->{workspaceId}, $shop->{workspaceId}, 'branch add';
is_deeply $c->events, ['branch.added'], 'audited';
$c->refused(1, qr/a branch of this name exists already in "Shop"/,
    qw(branch add Main --workspace), $shop->{workspaceId});
$c->refused(1, qr/no workspace called "Nowhere"/,
    qw(branch add Main --workspace Nowhere));
my $main2 = $c->done(qw(branch add Main --workspace Second));
$c->refused(1, qr/more than one branch is called "Main": give its id/,
    qw(branch deactivate Main));
for my $change ([ deactivate => 'INACTIVE' ], [ activate => 'ACTIVE' ]) {
    my ($verb, $state) = @$change;
    my $got = $c->done('branch', $verb, 'Main', '--workspace', 'Second');
    is $got->{status}, $state, "branch $verb";
    is_deeply $c->events, ["branch.${verb}d"], 'audited';
    is $pg->sql("select status from branches
        where branch_id = '$main2->{branchId}'"), $state, 'its row';
    $got = $c->done('branch', $verb, $main2->{branchId});
    ok !$got->{changed}, "branch $verb again: unchanged";
    is_deeply $c->events, [], 'and not audited';
    $got = $c->done('workspace', $verb, 'Second');
    is $got->{status}, $state, "workspace $verb";
    is_deeply $c->events, ["workspace.${verb}d"], 'audited';
}
is $pg->sql("select status from branches
    where branch_id = '$main->{branchId}'"), 'ACTIVE', 'the namesake stays';

# Members and grants.

my $cred = $c->secret('corr3ct horse');
my $ann = $c->done({ stdin => "$cred\n" }, qw(account add), ' Ann@Example.COM ');
is $ann->{account}, 'ann@example.com', 'names are kept as login folds them';
my @ann = ('--account', 'ANN@example.com');
$c->refused(1, qr/branch "Main" is in no workspace that "ann\@example.com" is a member of; run member add/,
    qw(member grant --branch Main), @ann);
$c->refused(1, qr/no account called "bob"/,
    qw(member add --account bob --workspace Shop));
$c->refused(1, qr/no account with the id/,
    qw(member add --workspace Shop --account), uuid(98));
my $member = $c->done(qw(member add --workspace Shop), @ann);
is_deeply [ @$member{qw(accountId workspaceId status)} ],
    [ $ann->{accountId}, $shop->{workspaceId}, 'ACTIVE' ], 'member add';
is_deeply $c->events, ['member.added'], 'audited';
ok !$c->done(qw(member add --workspace Shop --account),
    $ann->{accountId})->{changed}, 'by id, again: unchanged';
my ($grant) = @{ $c->done(qw(member grant --branch Main --role CASHIER
    --role B.2:x-_), @ann) };
is_deeply [ @$grant{qw(branchId memberId granted)} ],
    [ $main->{branchId}, $member->{memberId}, JSON::PP::true() ],
    'member grant: Main is that of the membership';
is_deeply $grant->{roles}, [ 'B.2:x-_', 'CASHIER' ], 'its roles';
is_deeply $c->events, ['member.granted'], 'audited';
($grant) = @{ $c->done(qw(member grant --role CASHIER --branch),
    $main->{branchId}, @ann) };
ok !$grant->{changed}, 'the same again: unchanged';
is_deeply $c->events, [], 'and not audited';

($grant) = @{ $c->done(qw(member revoke --role CASHIER --role NONE --branch
    Main), @ann) };
is_deeply $grant->{roles}, ['B.2:x-_'], 'member revoke --role';
ok $grant->{granted}, 'the branch stays granted';
is_deeply $c->events, ['member.revoked'], 'audited';
($grant) = @{ $c->done(qw(member revoke --branch Main), @ann) };
ok !$grant->{granted}, 'member revoke --branch';
is $pg->sql('select count(*) from member_roles'), 0, 'takes its roles along';

# Limits.

$pg->sql("insert into branches (workspace_id, branch_name)
    select '$shop->{workspaceId}', 'S' || n from generate_series(1, 200) n");
my $granted = $c->done(qw(member grant --role A), @ann,
    map { ('--branch', "S$_") } 1 .. 199);
is scalar @$granted, 199, 'many branches in one command';
$c->refused(1, qr/at most 200 active branches/,
    qw(member grant --branch Main --branch S200), @ann);
is $pg->sql('select count(*) from branch_grants'), 199, 'all or nothing';
$c->done(qw(member grant --branch Main), @ann);
$c->refused(1, qr/at most 200 active branches/,
    qw(member grant --branch S200), @ann);
$c->done(qw(branch deactivate S1));
$c->done(qw(member grant --branch S200), @ann);
$c->refused(1, qr/at most 200 active branches/, qw(branch activate S1));
my @roles = map { ('--role', sprintf 'R%031d', $_) } 1 .. 32;
($grant) = @{ $c->done(qw(member grant --branch Main), @ann, @roles) };
is scalar @{ $grant->{roles} }, 32, '32 roles of 32 bytes';
$c->refused(1, qr/at most 32 roles in a branch/,
    qw(member grant --branch Main --role ONE-MORE), @ann);

my $ended = $c->done(qw(member revoke --all --workspace Shop), @ann);
is $ended->{revokedBranches}, 201, 'member revoke --all';
is $ended->{status}, 'INACTIVE', 'ends the membership';
is_deeply $c->events, ['member.ended'], 'audited';
$c->refused(1, qr/membership of "ann\@example.com" in "Shop" has ended/,
    qw(member grant --branch Main), @ann);
$c->refused(1, qr/is not a member of "Second"/,
    qw(member revoke --all --workspace Second), @ann);
is $c->done(qw(member add --workspace Shop), @ann)->{memberId},
    $member->{memberId}, 'member add begins it again';

# Several operators at once: one waits for what the other does.

sub at_once {
    my @kids = map { $c->start({ env => {
        PLATFORM_DB_STATEMENT_TIMEOUT => '60s' } }, @$_) } @_;
    return map { $_->wait_end(60 * $t->scale); $_->status >> 8 } @kids;
}

is_deeply [ sort(at_once(map { [qw(account add eve --no-login)] } 1 .. 6)) ],
    [ 0, (1) x 5 ], 'one name, six at once: one account';
is_deeply [ sort(at_once(map {
    [ qw(workspace add W --new-tenant Rush) ] } 1 .. 6)) ], [ 0, (1) x 5 ],
    'one tenant, six at once: one tenant';
$pg->sql("insert into branches (workspace_id, branch_name)
    select '$shop->{workspaceId}', 'T' || n from generate_series(1, 100) n");
is_deeply [ sort(at_once(map { my $l = $_;
    [ qw(member grant --account ann@example.com),
        map { ('--branch', "$l$_") } 2 .. 100 ] } qw(S T S1)[0, 1])) ],
    [ 0, 0 ], 'two grants at once: both fit';
is_deeply [ sort(at_once(map { my $l = $_;
    [ qw(member grant --account ann@example.com),
        map { ('--branch', "S$_") } $l .. $l + 1 ] } 101, 103)) ],
    [ 0, 1 ], 'two at once where only one fits';

# Roles of the database.

my $roles = $t->root . '/db/roles.sql';
system(Platform::Test::Env::postgres('psql'), '-Xq', '-h', $pg->host, '-p',
    $pg->{port} // 5432, '-U', 'postgres', '-d', 'platform', '-f', $roles) == 0
    or die 'roles.sql failed';
$pg->sql('create role ops login in role platform_operator;
    create role nobody login;
    revoke execute on all functions in schema public from public',
    user => 'postgres');
my %ops = (env => { PLATFORM_DB_USER => 'ops' });
$c->done(\%ops, qw(workspace add Ops --new-tenant Ops));
$c->done(\%ops, qw(branch add One --workspace Ops));
$c->done({ %ops, stdin => $cred }, qw(account add ops));
$c->done(\%ops, qw(member add --account ops --workspace Ops));
$c->done(\%ops, qw(member grant --account ops --branch One --role A));
$c->done(\%ops, qw(member revoke --account ops --branch One));
$c->done(\%ops, qw(account), $_, 'ops')
    for qw(disable enable unlock sessions revoke-sessions show);
$c->done(\%ops, $_, 'list') for qw(account workspace branch member);
$c->done(\%ops, qw(workspace rename Ops --to Ops2));
$c->done(\%ops, qw(branch rename One --to Two));
$c->done(\%ops, qw(account rename ops --to ops2));
$c->done(\%ops, qw(account delete ops2));
$c->done(\%ops, 'sweep');
$c->refused(1, qr/needs the rights of platform_operator/,
    { env => { PLATFORM_DB_USER => 'nobody' } }, qw(account disable ops2));

# A database that hangs, and output that goes nowhere.

$pg->freeze('STOP');
$c->refused(1, qr/cannot reach the database/,
    { env => { PLATFORM_DB_CONNECT_TIMEOUT => '0.5s' } },
    qw(account disable ann@example.com));
$pg->freeze('CONT');
my $holder = Platform::Test::Process->start(
    name => 'holder', dir => $t->dir, log => $t->dir . '/holder.log',
    code => sub {
        $pg->sql("begin; select 1 from accounts for update;
            select pg_sleep(300)");
    })->expect_end;
$t->track($holder);
eventually(sub { $pg->sql("select count(*) from pg_stat_activity
    where query like '%pg_sleep%' and state = 'active'") > 1 });
$c->refused(1, qr/did not finish within PLATFORM_DB_STATEMENT_TIMEOUT; nothing was changed/,
    { env => { PLATFORM_DB_STATEMENT_TIMEOUT => '5s' } },
    qw(account disable ann@example.com));
$holder->stop('KILL');
$pg->sql("select pg_terminate_backend(pid) from pg_stat_activity
    where query like '%pg_sleep%' and pid <> pg_backend_pid()",
    user => 'postgres');
is $pg->sql("select status from accounts
    where account_name = 'ann\@example.com'"), 'ACTIVE', 'and nothing was';

# A result that nobody gets is a failure.

for my $out ('/dev/full', '/dev/null') {
    my $p = $c->start({ redirect => ">$out" },
        qw(account sessions ann@example.com));
    $p->wait_end(60 * $t->scale);
    is $p->status >> 8, $out eq '/dev/full' ? 1 : 0, "result into $out";
}

# A change of which there is no record has an exit status of its own.

mkfifo(my $fifo = $t->dir . '/fifo', 0600) or die "mkfifo: $!\n";
for my $case ([ 'on a full disk' => '2>/dev/full' ], [ 'closed' => '2>&-' ],
    [ 'whose reader left' => "3<>$fifo 2>$fifo 3>&-" ])
{
    my ($what, $redirect) = @$case;
    for my $change ([ disable => 'DISABLED' ], [ enable => 'ACTIVE' ]) {
        my ($verb, $state) = @$change;
        my $p = $c->start({ redirect => " $redirect" }, 'account', $verb,
            'ann@example.com');
        $p->wait_end(60 * $t->scale);
        is $p->status, 3 << 8, "standard error $what: $verb: exit 3";
        is $pg->sql("select status from accounts
            where account_name = 'ann\@example.com'"), $state,
            'the change stands';
        like $t->read_file("op$t->{runs}.log"), qr/^status +$state$/m,
            'and is shown';
    }
    my $p = $c->start({ redirect => " $redirect" },
        qw(account enable ann@example.com));
    $p->wait_end(60 * $t->scale);
    is $p->status, 0, 'nothing to record: exit 0';
}
my $p = $c->start({ redirect => ' >/dev/full' },
    qw(account disable ann@example.com));
$p->wait_end(60 * $t->scale);
is $p->status, 1 << 8, 'recorded, and shown to nobody: exit 1';
$p = $c->start({ redirect => ' >/dev/full 2>/dev/full' },
    qw(account enable ann@example.com));
$p->wait_end(60 * $t->scale);
is $p->status, 3 << 8, 'neither recorded nor shown: exit 3';

# Nothing of the credential reached the server's log or ours.

my $log = $t->read_file('postgres.log');
like $log, qr/ann\@example\.com/, 'the server\'s log has what was sent';
unlike $log, qr/\Q$cred\E/, 'and no credential';

$t->done;
