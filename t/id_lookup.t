# Looking things up: lists of accounts, workspaces, branches and members, page
# by page and filtered, for people and for scripts; and other names for them.

use strict;
use warnings;
use utf8;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Commands;
use Test::More;

my $t = Platform::Test->new;
my $pg = $t->postgres(empty => 1);
my $c = Platform::Test::Commands->new(test => $t, env => {
    PLATFORM_DB_SEED_ON_START     => 'false',
    PLATFORM_DB_STATEMENT_TIMEOUT => '20s',
});

sub bytes { utf8::encode(my $s = $_[0]); return $s }
sub column { my ($name, $rows) = @_; return [ map { $_->{$name} } @$rows ] }

# A list in pages of so many, as a script reads it; how many pages there were.
sub pages {
    my ($key, $most, @list) = @_;

    my (@all, @after);
    for my $page (1 .. 200) {
        my $rows = $c->done(@list, '--limit', $most, @after);
        push @all, @$rows;
        return (\@all, $page) if @$rows < $most;
        @after = ('--after', bytes($rows->[-1]{$key}));
    }
    die "no end\n";
}

# Nothing yet.

$c->done('migrate');
for my $list ([qw(account list)], [qw(workspace list)], [qw(branch list)],
    [qw(member list)])
{
    is_deeply $c->done(@$list), [], "@$list: none";
    my ($status, $out, $err) = $c->run(@$list);
    is_deeply [ $status, $out, $err ], [ 0, "none\n", '' ], 'for people';
}

# Ten thousand accounts, some of them hostile: no name has control characters,
# which the database refuses, but there are others.

my $shop = $c->done(qw(workspace add Shop --new-tenant Acme));
my $depot = $c->done(qw(workspace add Depot --tenant Acme));
my $twin = $c->done(qw(workspace add Shop --new-tenant Other));
my $hash = $pg->sql("insert into accounts (account_name, credential_hash)
    values ('model', '\$argon2id\$v=19\$m=19456,t=2,p=1\$x') returning 1");
$pg->sql("insert into accounts (account_name, account_type, status,
        credential_hash)
    select 'user' || lpad(n::text, 5, '0') || '\@example.com',
        case n % 10 when 0 then 'OPERATOR' when 1 then 'SYSTEM'
            else 'CUSTOMER' end,
        case n % 7 when 0 then 'DISABLED' else 'ACTIVE' end,
        '\$argon2id\$v=19\$m=19456,t=2,p=1\$x'
    from generate_series(1, 10000) n;
    insert into members (account_id, workspace_id)
    select account_id, '$shop->{workspaceId}' from accounts
    where account_name like 'user__00_\@example.com'");
my @odd = (
    "a'; drop table accounts; --", 'a"b\\c', "b\x{202e}txt.exe",
    "b\x{2028}line", "b\x{2066}isolate", 'c%_', 'c_x', "\x{e9}t\x{e9}",
    "\x{1f600}", "two  blanks   here", '--json', '$1 :after ::text',
);
$pg->sql('insert into accounts (account_name, credential_hash) select n,
    $$$argon2id$v=19$m=19456,t=2,p=1$x$$ from json_array_elements_text($q$'
    . bytes(JSON::PP->new->encode(\@odd)) . '$q$) n');

my ($all, $count) = pages(account => 1000, qw(account list));
is $count, 11, 'eleven pages of a thousand';
is scalar @$all, 10001 + @odd, 'have every account';
my @names = @{ column(account => $all) };
is_deeply \@names, [ sort { bytes($a) cmp bytes($b) } @names ],
    'in the order of their bytes';
my %seen = map { ($_ => 1) } @names;
is scalar keys %seen, scalar @names, 'each once';
is scalar(grep { $seen{$_} } @odd), scalar @odd, 'whatever the name';
is scalar @{ (pages(account => 3, qw(account list --name user0000)))[0] }, 9,
    'in pages of three';
is_deeply column(account => (pages(account => 5, qw(account list --name),
    'user0001'))[0]), [ map { sprintf 'user%05d@example.com', $_ } 10 .. 19 ],
    'that end with a full one';
is scalar @{ $c->done(qw(account list)) }, 100, 'a hundred, if not told';

# A page ends where it ends, whatever comes and goes.

my $page = $c->done(qw(account list --limit 3 --name user0001));
$pg->sql("insert into accounts (account_name, credential_hash) values
        ('user00009x', '\$argon2id\$v=19\$m=19456,t=2,p=1\$x');
    update accounts set account_name = 'was ' || account_name
        where account_name = 'user00012\@example.com'");
is_deeply column(account => $c->done(qw(account list --limit 2 --name user0001
    --after), $page->[-1]{account})),
    [ map {"user000$_\@example.com"} 13, 14 ],
    'after a row that is there no more';

# It goes along the index, and reads no more than a page.

$pg->sql('analyze accounts');
my $plan = $pg->sql("explain select * from accounts
    where account_name collate \"C\" ^\@ 'user5'
    and account_name collate \"C\" > 'user5' order by account_name collate \"C\"
    limit 10");
like $plan, qr/Index Scan using accounts_name/, 'by the index';

# Every filter, with what it keeps and what it leaves out.

sub only {
    my ($filter, $where, @in) = @_;

    my $rows = $c->done(@in, @$filter, '--limit', 100000);
    my $want = $pg->sql("select count(*) from $where");
    cmp_ok scalar @$rows, '>', 0, "@in[0, 1] @$filter: some";
    is scalar @$rows, $want, "@in[0, 1] @$filter: those";
    my $rest = $c->done(@in, '--limit', 100000);
    cmp_ok scalar @$rest, '>', $want, 'and not all';
    return $rows;
}

my @accounts = qw(account list);
only(['--type', $_], "accounts where account_type = '$_'", @accounts)
    for qw(CUSTOMER OPERATOR SYSTEM);
only(['--status', $_], "accounts where status = '$_'", @accounts)
    for qw(ACTIVE DISABLED);
only(['--name', $_->[0]], "accounts where $_->[1]", @accounts)
    for [ 'USER001', "account_name like 'user001%'" ],
    [ 'c%', "account_name like 'c\\%%'" ],
    [ 'a', "account_name like 'a%'" ], [ bytes("\x{e9}"),
    "account_name like U&'\\00e9%'" ];
only(['--workspace', $depot->{workspaceId}], 'members where workspace_id ='
    . " '$depot->{workspaceId}' and status = 'ACTIVE'", @accounts)
    if $pg->sql("insert into members (account_id, workspace_id, status)
        select account_id, '$depot->{workspaceId}',
            case account_type when 'SYSTEM' then 'INACTIVE' else 'ACTIVE' end
        from accounts where account_name like 'user0000_\@%' returning 1");
is scalar @{ $c->done(@accounts, qw(--type OPERATOR --status DISABLED --limit
    100000 --workspace), $shop->{workspaceId}) },
    $pg->sql("select count(*) from accounts join members using (account_id)
        where account_type = 'OPERATOR' and accounts.status = 'DISABLED'
        and workspace_id = '$shop->{workspaceId}'"), 'several filters at once';
$c->refused(1, qr/no workspace called "Nowhere"/, @accounts,
    qw(--workspace Nowhere));
$c->refused(1, qr/more than one workspace is called "Shop": give its id/,
    @accounts, qw(--workspace Shop));
$c->refused(2, qr/--type is one of/, @accounts, qw(--type x));
$c->refused(2, qr/--status is one of ACTIVE, INACTIVE, /, @accounts,
    qw(--status active));
$c->refused(2, qr/--limit is 1 to 100000/, @accounts, '--limit', $_)
    for 0, 100001, 'x';
$c->refused(1, qr/not valid UTF-8/, @accounts, '--name', "\xff");
$c->refused(2, qr/unexpected argument/, @accounts, 'user1');

# Workspaces and branches, of which two may have one name.

$c->done(qw(workspace deactivate Depot));
$pg->sql("insert into branches (workspace_id, branch_name, status)
    select workspace_id, 'B' || n % 25, case n % 3 when 0 then 'INACTIVE'
        else 'ACTIVE' end
    from workspaces, generate_series(1, 50) n");
my $rows = $c->done(qw(workspace list));
is_deeply column(workspaceName => $rows), [ qw(Depot Shop Shop) ],
    'workspace list';
is_deeply [ sort keys %{ $rows->[0] } ], [ qw(createdAt status tenantId
    tenantName workspaceId workspaceName) ], 'what it says';
like $rows->[0]{createdAt}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/, 'since when';
only(['--status', $_], "workspaces where status = '$_'", qw(workspace list))
    for qw(ACTIVE INACTIVE);
only(['--name', 'Sh'], "workspaces where workspace_name like 'Sh%'",
    qw(workspace list));
only(['--tenant', $_], "workspaces where tenant_id = '$twin->{tenantId}'",
    qw(workspace list)) for 'Other', $twin->{tenantId};
is_deeply $c->done(qw(workspace list --tenant None)), [], 'of no tenant: none';
is_deeply column(workspaceId => (pages(workspaceId => 1,
    qw(workspace list)))[0]), column(workspaceId => $rows),
    'in pages of one, with namesakes';
is_deeply column(tenantName => $c->done(qw(workspace list --after Depot))),
    [qw(Acme Other)], 'after a name';
$c->refused(1, qr/more than one workspace is called "Shop"/,
    qw(workspace list --after Shop));
$c->refused(1, qr/no workspace with the id/, qw(workspace list --after),
    uuid(5));

$rows = $c->done(qw(branch list --limit 1000));
is scalar @$rows, 150, 'branch list';
is_deeply [ sort keys %{ $rows->[0] } ], [ qw(branchId branchName createdAt
    status workspaceId workspaceName) ], 'what it says';
is_deeply column(branchId => (pages(branchId => 7, qw(branch list)))[0]),
    column(branchId => $rows), 'in pages of seven';
only(['--status', $_], "branches where status = '$_'", qw(branch list))
    for qw(ACTIVE INACTIVE);
only(['--name', 'B1'], "branches where branch_name like 'B1%'",
    qw(branch list));
$rows = only(['--workspace', 'Depot'], 'branches where workspace_id ='
    . " '$depot->{workspaceId}'", qw(branch list));
is_deeply column(branchId => (pages(branchId => 7, qw(branch list
    --workspace Depot)))[0]), column(branchId => $rows), 'of it, in pages';
$c->refused(1, qr/more than one branch is called "B1"/,
    qw(branch list --after B1));
$c->refused(1, qr/no branch called "C1"/, qw(branch list --after C1));

# Members.

my ($user) = @{ $c->done(qw(account list --limit 1 --name user00001)) };
$pg->sql("insert into branch_grants (member_id, branch_id, workspace_id)
    select member_id, branch_id, workspace_id from branches
    join members using (workspace_id)
    where account_id = '$user->{accountId}'
    and workspace_id = '$depot->{workspaceId}' limit 5");
$rows = $c->done(qw(member list --limit 1000));
is scalar @$rows, $pg->sql('select count(*) from members'), 'member list';
is_deeply [ sort keys %{ $rows->[0] } ], [ qw(account accountId branches
    createdAt memberId status workspaceId workspaceName) ], 'what it says';
is_deeply column(memberId => (pages(memberId => 9, qw(member list)))[0]),
    column(memberId => $rows), 'in pages of nine';
only(['--status', $_], "members where status = '$_'", qw(member list))
    for qw(ACTIVE INACTIVE);
only(['--workspace', 'Depot'], 'members where workspace_id ='
    . " '$depot->{workspaceId}'", qw(member list));
$rows = only(['--account', $_], 'members where account_id ='
    . " '$user->{accountId}'", qw(member list))
    for 'USER00001@example.com', $user->{accountId};
is_deeply [ map {"$_->{workspaceName} $_->{status} $_->{branches}"} @$rows ],
    [ 'Depot INACTIVE 5', 'Shop ACTIVE 0' ], 'with how many branches';
is scalar @{ $c->done(qw(member list --status INACTIVE --account
    user00001@example.com)) }, 1, 'an account that is ACTIVE, and --status';
$c->refused(1, qr/no account called "nobody"/, qw(member list --account nobody));
$c->refused(1, qr/no member with the id/, qw(member list --after), uuid(5));
$c->refused(1, qr/more than one member is called "user00001/,
    qw(member list --after user00001@example.com));

# For people: a head and columns that no name breaks.

my ($status, $out, $err) = $c->run(qw(account list --limit 1000 --name), 'b');
like $out, qr/\Aid {34}  type      status    created {15}account\n/,
    'account list: its columns';
utf8::decode($out);
my @lines = split /\n/, $out;
is scalar @lines, 4, 'a line each';
like $lines[$_], qr/^[0-9a-f-]{36}  CUSTOMER  ACTIVE    [\dTZ:-]{20}  b\?\w/,
    'what turns a terminal around is not shown' for 1 .. 3;
is_deeply column(account => $c->done(qw(account list --name b))),
    [ sort { bytes($a) cmp bytes($b) } grep {/^b/} @odd ],
    'and is in the JSON';
is $err, '', 'all are shown';
($status, $out, $err) = $c->run(qw(account list --limit 3));
is scalar(split /\n/, $out), 4, 'as many as asked for';
like $err, qr/\Aidentity-fcgi: there may be more: [^\n]*\n\z/,
    'says that there may be more';
($status, $out) = $c->run(qw(account list --limit 3 --json));
is scalar(() = $out =~ /^\{"accountId":"[^\n]+\}$/mg), 3, 'an object a line';
for my $list (['workspace', 'id', 'status', 'created', 'tenant', 'workspace'],
    ['branch', 'id', 'status', 'created', 'workspace', 'branch'],
    ['member', 'member id', 'status', 'created', 'branches', 'workspace',
        'account'])
{
    my ($group, @head) = @$list;
    (undef, $out) = $c->run($group, 'list');
    is_deeply [ split / {2,}/, $out =~ s/\n.*//sr ], \@head,
        "$group list: its columns";
}

# No list waits for somebody who changes an account or a workspace.

my $held = $pg->begin("select 1 from accounts for update; select 1 from
    workspaces for update");
is $c->done(qw(member list --account user00001@example.com --workspace Depot)
    )->[0]{branches}, 5, 'while all is locked';
$pg->end($held, 'rollback');

# Other names.

$c->secret(my $secret = 'corr3ct horse');
my $ann = $c->done({ stdin => $secret }, qw(account add ann@example.com));
my $renamed = $c->done(qw(account rename ann@example.com --to),
    ' Ann@Example.ORG ');
is_deeply [ @$renamed{qw(account accountId changed)} ],
    [ 'ann@example.org', $ann->{accountId}, JSON::PP::true() ],
    'account rename, folded';
is_deeply $c->events, ['account.renamed'], 'audited';
is $c->{audit}[0]{accountId}, $ann->{accountId}, 'by id';
my $audit = JSON::PP->new->encode($c->{audit});
unlike $audit, qr/ann/, 'not by name';
ok !$c->done(qw(account rename --to ann@example.org), $ann->{accountId}
    )->{changed}, 'the same again: unchanged';
is_deeply $c->events, [], 'and not audited';
$c->refused(1, qr/of this name exists already/,
    qw(account rename ann@example.org --to), 'USER00001@example.com');
$c->refused(1, qr/cannot be a UUID/, qw(account rename ann@example.org --to),
    uuid(3));
$c->refused(2, qr/1 to 320 bytes/, qw(account rename ann@example.org --to),
    'x' x 321);
$c->refused(2, qr/control characters/, qw(account rename ann@example.org
    --to), "a\tb");
$c->refused(1, qr/no account called "ann\@example.com"/,
    qw(account rename ann@example.com --to x));
$c->refused(2, qr/needs --to/, qw(account rename ann@example.org));

my $moved = $c->done(qw(workspace rename Depot --to), "Lager '; --");
is_deeply [ @$moved{qw(workspaceName workspaceId changed)} ],
    [ "Lager '; --", $depot->{workspaceId}, JSON::PP::true() ],
    'workspace rename';
is_deeply $c->events, ['workspace.renamed'], 'audited';
ok !$c->done(qw(workspace rename), "Lager '; --", '--to', "Lager '; --"
    )->{changed}, 'the same again: unchanged';
$c->refused(1, qr/workspace of this name exists already in "Acme"/,
    qw(workspace rename --to Shop), $depot->{workspaceId});
is $c->done(qw(workspace rename --to Depot), $twin->{workspaceId}
    )->{workspaceName}, 'Depot', 'a name of another tenant';
$c->refused(1, qr/1 to 200 bytes/, qw(workspace rename Depot --to), 'x' x 201);
$c->refused(1, qr/1 to 200 bytes without control/,
    qw(workspace rename Depot --to), "a\nb");

my $front = $c->done(qw(branch add Front --workspace), $shop->{workspaceId});
$moved = $c->done(qw(branch rename Front --to Back));
is_deeply [ @$moved{qw(branchName branchId changed)} ],
    [ 'Back', $front->{branchId}, JSON::PP::true() ], 'branch rename';
is_deeply $c->events, ['branch.renamed'], 'audited';
$c->refused(1, qr/branch of this name exists already in "Shop"/,
    qw(branch rename Back --to B1));
$c->refused(1, qr/more than one branch is called "B2"/,
    qw(branch rename B2 --to B99));
$c->refused(1, qr/no branch called "Back"/,
    qw(branch rename Back --to X --workspace Depot));
is $c->done(qw(branch rename Back --to Front --workspace Shop)
    )->{branchName}, 'Front', '--workspace';

# Of several who want one name, one gets it.

my @kids = map { $c->start(qw(branch rename --to Only),
    $pg->sql("select branch_id from branches where workspace_id =
        '$twin->{workspaceId}' order by 1 limit 1 offset $_")) } 0 .. 3;
push @kids, $c->start(qw(branch add Only --workspace), $twin->{workspaceId});
$_->wait_end(60 * $t->scale) for @kids;
is_deeply [ sort map { $_->status >> 8 } @kids ], [ 0, 1, 1, 1, 1 ],
    'one of five at once';

$t->done;
