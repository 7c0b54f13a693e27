# Looking things up: lists of accounts, workspaces, branches and members, page by page
# and filtered, for people and for scripts; and other names for them.

use utf8;
use Platform::Test;
use Platform::Test::Commands;

my $ACCOUNTS = 1000;

my $t = Platform::Test->new;
my $pg = $t->postgres(empty => 1);
my $c = Platform::Test::Commands->new(test => $t, env => {
    PLATFORM_DB_SEED_ON_START => 'false', PLATFORM_DB_STATEMENT_TIMEOUT => '20s' });
my $true = JSON::PP::true();

sub bytes { utf8::encode(my $s = $_[0]); return $s }
sub column { my ($name, $rows) = @_; return [ map { $_->{$name} } @$rows ] }
sub count { return $pg->sql("select count(*) from $_[0]") }

# A list in pages of so many, as a script reads it; how many pages there were.
sub pages ($key, $most, @list) {
    my (@all, @after);
    for my $page (1 .. 200) {
        my $rows = $c->done(@list, '--limit', $most, @after);
        push @all, @$rows;
        return (\@all, $page) if @$rows < $most;
        @after = ('--after', bytes($rows->[-1]{$key}));
    }
    die "no end\n";
}

# Each of [exit status, what it says, arguments].
sub refuses (@list) {
    for my $case (@{ pop @list }) {
        my ($status, $says, @args) = @$case;
        $c->refused($status, $says, @list, @args);
    }
}

# Nothing yet.

$c->done('migrate');
for my $group (qw(account workspace branch member)) {
    is_deeply $c->done($group, 'list'), [], "$group list: none";
    is_deeply [ $c->run($group, 'list') ], [ 0, "none\n", '' ], 'for people';
}

# Many accounts, some of them hostile: no name has control characters, which the
# database refuses, but there are others.

my $shop = $c->done(qw(workspace add Shop --new-tenant Acme));
my $depot = $c->done(qw(workspace add Depot --tenant Acme));
my $twin = $c->done(qw(workspace add Shop --new-tenant Other));
my @odd = (
    "a'; drop table accounts; --", 'a"b\\c', "b\x{202e}txt.exe",
    "b\x{2028}line", "b\x{2066}isolate", 'c%_', 'c_x', "\x{e9}t\x{e9}",
    "\x{1f600}", "two  blanks   here", '--json', '$1 :after ::text',
);
my $hash = '\'$argon2id$v=19$m=19456,t=2,p=1$x\'';
$pg->sql("insert into accounts (account_name, account_type, status, credential_hash)
    select 'user' || lpad(n::text, 4, '0') || '\@example.com',
        case n % 10 when 0 then 'OPERATOR' when 1 then 'SYSTEM' else 'CUSTOMER' end,
        case n % 7 when 0 then 'DISABLED' else 'ACTIVE' end, $hash
    from generate_series(1, $ACCOUNTS) n;
    insert into accounts (account_name, credential_hash) select n, $hash
    from json_array_elements_text(\$q\$" . bytes(JSON::PP->new->encode(\@odd)) . "\$q\$) n;
    insert into members (account_id, workspace_id)
    select account_id, '$shop->{workspaceId}' from accounts
    where account_name like 'user__0_\@example.com';
    insert into members (account_id, workspace_id, status)
    select account_id, '$depot->{workspaceId}',
        case account_type when 'SYSTEM' then 'INACTIVE' else 'ACTIVE' end
    from accounts where account_name like 'user000_\@%'");

my @accounts = qw(account list);
my ($all, $count) = pages(account => 100, @accounts);
my @names = @{ column(account => $all) };
my %seen = map { ($_ => 1) } @names;
is_deeply [ $count, scalar @names, scalar keys %seen, scalar(grep { $seen{$_} } @odd) ],
    [ 11, ($ACCOUNTS + @odd) x 2, scalar @odd ],
    'eleven pages of a hundred have every account once, whatever the name';
is_deeply \@names, [ sort { bytes($a) cmp bytes($b) } @names ], 'in the order of their bytes';
is_deeply column(account => (pages(account => 5, @accounts, qw(--name user001)))[0]),
    [ map { sprintf 'user%04d@example.com', $_ } 10 .. 19 ], 'pages that end with a full one';

# A page ends where it ends, whatever comes and goes.

my $page = $c->done(@accounts, qw(--limit 3 --name user001));
$pg->sql("insert into accounts (account_name, credential_hash) values ('user0009x', $hash);
    update accounts set account_name = 'was ' || account_name
        where account_name = 'user0012\@example.com'");
is_deeply column(account => $c->done(@accounts, qw(--limit 2 --name user001
    --after), $page->[-1]{account})), [ map {"user00$_\@example.com"} 13, 14 ],
    'after a row that is there no more';

# Every filter, with what it keeps and what it leaves out.  (Which index: id_database_plans.t.)

$c->done(qw(workspace deactivate Depot));
$pg->sql("insert into branches (workspace_id, branch_name, status)
    select workspace_id, 'B' || n % 25, case n % 3 when 0 then 'INACTIVE' else 'ACTIVE' end
    from workspaces, generate_series(1, 50) n");
my $in_depot = "workspace_id = '$depot->{workspaceId}'";
for my $group (
    [ account => [ 'OPERATOR' => '--type', "account_type = 'OPERATOR'" ],
        [ SYSTEM => '--type', "account_type = 'SYSTEM'" ],
        [ DISABLED => '--status', "status = 'DISABLED'" ],
        [ USER001 => '--name', "account_name like 'user001%'" ],
        [ 'c%' => '--name', "account_name like 'c\\%%'" ],
        [ bytes("\x{e9}") => '--name', "account_name like U&'\\00e9%'" ],
        [ $depot->{workspaceId} => '--workspace', "account_id in (select account_id
            from members where $in_depot and status = 'ACTIVE')" ] ],
    [ workspace => [ INACTIVE => '--status', "status = 'INACTIVE'" ],
        [ Sh => '--name', "workspace_name like 'Sh%'" ],
        map { [ $_ => '--tenant', "tenant_id = '$twin->{tenantId}'" ] } 'Other',
            $twin->{tenantId} ],
    [ branch => [ INACTIVE => '--status', "status = 'INACTIVE'" ],
        [ B1 => '--name', "branch_name like 'B1%'" ],
        [ Depot => '--workspace', $in_depot ] ],
    [ member => [ INACTIVE => '--status', "status = 'INACTIVE'" ],
        [ Depot => '--workspace', $in_depot ] ],
    )
{
    my ($name, @filters) = @$group;
    my $table = $name eq 'branch' ? 'branches' : "${name}s";
    for my $filter (@filters) {
        my ($value, $option, $where) = @$filter;
        my $rows = @{ $c->done($name, 'list', $option, $value, '--limit', 100000) };
        ok $rows == count("$table where $where") && $rows > 0 && $rows < count($table),
            "$name list $option $value: $rows";
    }
}
is scalar @{ $c->done(@accounts, qw(--type OPERATOR --status DISABLED --limit
    100000 --workspace), $shop->{workspaceId}) }, count("accounts join members using (account_id)
        where account_type = 'OPERATOR' and accounts.status = 'DISABLED'
        and workspace_id = '$shop->{workspaceId}'"), 'several filters at once';
is_deeply $c->done(qw(workspace list --tenant None)), [], 'of no tenant: none';
refuses(@accounts, [
    [ 1, qr/no workspace called "Nowhere"/, qw(--workspace Nowhere) ],
    [ 1, qr/more than one workspace is called "Shop": give its id/, qw(--workspace Shop) ],
    [ 2, qr/--type is one of/, qw(--type x) ], [ 2, qr/--status is one of A/, qw(--status active) ],
    (map { [ 2, qr/--limit is 1 to 100000/, '--limit', $_ ] } 0, 100001),
    [ 1, qr/not valid UTF-8/, '--name', "\xff" ],
]);

# What the rows of the others say; in pages, though two may have one name.

my ($user) = @{ $c->done(@accounts, qw(--limit 1 --name user0001)) };
$pg->sql("insert into branch_grants (member_id, branch_id, workspace_id)
    select member_id, branch_id, workspace_id from branches join members using (workspace_id)
    where account_id = '$user->{accountId}' and $in_depot limit 5;
    insert into members (account_id, workspace_id)
    select '$user->{accountId}', '$shop->{workspaceId}' on conflict do nothing");
for my $list (
    [ workspace => 1, 3, qw(createdAt status tenantId tenantName workspaceId workspaceName) ],
    [ branch => 40, 150, qw(branchId branchName createdAt status workspaceId workspaceName) ],
    [ member => 40, count('members'), qw(account accountId branches createdAt memberId
        status workspaceId workspaceName) ],
    )
{
    my ($group, $most, $count, @members) = @$list;
    my $rows = $c->done($group, qw(list --limit 1000));
    is_deeply [ scalar @$rows, sort keys %{ $rows->[0] } ], [ $count, @members ],
        "$group list: what it says";
    like $rows->[0]{createdAt}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/, 'since when';
    is_deeply column("${group}Id" => (pages("${group}Id" => $most, $group, 'list'))[0]),
        column("${group}Id" => $rows), "in pages of $most";
}
is_deeply column(tenantName => $c->done(qw(workspace list --after Depot))),
    [qw(Acme Other)], 'after a name';
refuses(@$_) for
    [ qw(workspace list --after), [ [ 1, qr/more than one workspace is called "Shop"/, 'Shop' ],
        [ 1, qr/no workspace with the id/, uuid(5) ] ] ],
    [ qw(member list), [ [ 1, qr/no account called "nobody"/, qw(--account nobody) ],
        [ 1, qr/more than one member is called "u/, '--after', 'user0001@example.com' ] ] ];
is_deeply [ map {"$_->{workspaceName} $_->{status} $_->{branches}"}
    @{ $c->done(qw(member list --account), $_) } ],
    [ 'Depot INACTIVE 5', 'Shop ACTIVE 0' ], 'of one account: with how many branches'
    for 'USER0001@example.com', $user->{accountId};

# For people: a head and columns that no name breaks.

my ($status, $out, $err) = $c->run(@accounts, qw(--limit 1000 --name b));
utf8::decode($out);
my ($head, @lines) = split /\n/, $out;
is_deeply [ $head, scalar @lines, $err ], [ 'id' . ' ' x 36 . 'type      status    created'
    . ' ' x 15 . 'account', 3, '' ], 'columns, a line each, and all are shown';
is scalar(grep {/^[0-9a-f-]{36}  CUSTOMER  ACTIVE    [\dTZ:-]{20}  b\?\w/} @lines), 3,
    'what turns a terminal around is not';
is_deeply column(account => $c->done(@accounts, qw(--name b))),
    [ sort { bytes($a) cmp bytes($b) } grep {/^b/} @odd ], 'and is in the JSON';
(undef, $out, $err) = $c->run(@accounts, qw(--limit 3));
is scalar(split /\n/, $out), 4, 'as many as asked for';
like $err, qr/\Aidentity-fcgi: there may be more: [^\n]*\n\z/, 'says that there may be more';

for my $list ([ workspace => qw(id status created tenant workspace) ],
    [ branch => qw(id status created workspace branch) ],
    [ member => 'member id', qw(status created branches workspace account) ])
{
    my ($group, @head) = @$list;
    (undef, $out) = $c->run($group, 'list');
    is_deeply [ split / {2,}/, $out =~ s/\n.*//sr ], \@head, "$group list: its columns";
}

# No list waits for somebody who changes an account or a workspace.

my $held = $pg->begin('select 1 from accounts for update; select 1 from workspaces for update');
is $c->done(qw(member list --account user0001@example.com --workspace Depot)
    )->[0]{branches}, 5, 'while all is locked';
$pg->end($held, 'rollback');

# Other names: what is renamed, to what, what it is called then; again, nothing
# happens.

$c->secret(my $secret = 'corr3ct horse');
my $ann = $c->done({ stdin => $secret }, qw(account add ann@example.com));
my $front = $c->done(qw(branch add Front --workspace), $shop->{workspaceId});
for my $case (
    [ account => 'ann@example.com', ' Ann@Example.ORG ', 'ann@example.org', $ann->{accountId} ],
    [ workspace => 'Depot', "Lager '; --", "Lager '; --", $depot->{workspaceId} ],
    [ branch => 'Front', 'Back', 'Back', $front->{branchId} ],
    )
{
    my ($group, $from, $to, $name, $id) = @$case;
    my $done = $c->done($group, 'rename', $from, '--to', $to);
    is_deeply [ @$done{ $group eq 'account' ? 'account' : "${group}Name", "${group}Id",
        'changed' }, @{ $c->events } ], [ $name, $id, $true, "$group.renamed" ],
        "$group rename: audited";
    unlike(JSON::PP->new->encode($c->{audit}), qr/ann/, 'not by name');
    is_deeply [ $c->done($group, 'rename', $id, '--to', $name)->{changed}, $c->events ],
        [ JSON::PP::false(), [] ], 'the same again: unchanged, and not audited';
}
is $c->done(qw(workspace rename --to Depot), $twin->{workspaceId}
    )->{workspaceName}, 'Depot', 'a name of another tenant';
refuses(@$_) for
    [ qw(account rename), [ [ 1, qr/no account called "ann\@/, qw(ann@example.com --to x) ],
        [ 1, qr/of this name exists already/, qw(ann@example.org --to USER0001@example.com) ],
        [ 1, qr/cannot be a UUID/, 'ann@example.org', '--to', uuid(3) ],
        [ 2, qr/1 to 320 bytes/, 'ann@example.org', '--to', 'x' x 321 ] ] ],
    [ qw(workspace rename --to), [ [ 1, qr/name exists already in/, 'Shop', $depot->{workspaceId} ],
        [ 1, qr/1 to 200 bytes/, 'x' x 201, 'Depot' ],
        [ 1, qr/1 to 200 bytes without control/, "a\nb", 'Depot' ] ] ],
    [ qw(branch rename), [ [ 1, qr/name exists already in "Shop"/, qw(Back --to B1) ],
        [ 1, qr/more than one branch is called "B2"/, qw(B2 --to B99) ],
        [ 1, qr/no branch called "Back"/, qw(Back --to X --workspace Depot) ] ] ];
is $c->done(qw(branch rename Back --to Front --workspace Shop))->{branchName}, 'Front',
    '--workspace';

$t->done;
