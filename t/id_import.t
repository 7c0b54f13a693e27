# Accounts that are brought along from another system: some batches of them, what
# is refused and why, the same file again, a run that was killed; and logins
# with the hashes that came along.

use Platform::Test;
use Platform::Test::Commands;
use Platform::Test::Import;
use POSIX qw(mkfifo);

my $ACCOUNTS = 1_400;
my $CREDENTIAL = 'Demo-passw0rd!';

my $t = Platform::Test->new;
my $pg = $t->postgres(empty => 1);
my %env = (
    PLATFORM_DB_SEED_ON_START   => 'false',
    PLATFORM_AUTH_MAX_FAILURES  => 0,
    PLATFORM_AUTH_COOKIE_SECURE => 'false',
);
my $c = Platform::Test::Commands->new(test => $t, env => \%env);
$c->done('migrate');
my $shop = $c->done(qw(workspace add Shop --new-tenant Acme));
my $main = $c->done(qw(branch add Main --workspace Shop));
$c->done(qw(branch add Outlet --workspace Shop));
my $other = $c->done(qw(workspace add Other --tenant Acme));
my $away = $c->done(qw(branch add Main --workspace Other));

sub count ($table, $where = undef) {
    return $pg->sql("select count(*) from $table where " . ($where // 'true'));
}

my $json = JSON::PP->new->utf8;

# (exit status, result, lines of reasons, events) of an import.
sub import_lines ($lines, @args) {
    my ($status, $out, $err) = $c->run({ stdin => $lines, within => 120 },
        qw(account import --json), @args);
    my (@why, @events);
    for my $line (split /\n/, $err) {
        if ($line =~ /^\{/) {
            push @events, $json->decode($line);
        }
        else {
            push @why, $line;
        }
    }
    my $result = $out ne '' ? $json->decode($out) : undef;
    return ($status, $result, \@why, \@events);
}

# -- many, of every kind, and a login of each

my @kinds = hash_kinds();
my @lines = map {
    my $kind = $kinds[ $_ % @kinds ];
    import_line(
        account => "User$_\@Example.com",
        hash => foreign_hash($kind, $CREDENTIAL, $_ % 3),
        ($_ % 2 ? (type => 'OPERATOR') : ()),
        memberships => [
            { workspace => $_ % 3 ? 'Shop' : $shop->{workspaceId}, grants => [
                { branch => 'Main', roles => [ 'CASHIER', "R$_" ] },
                $_ % 5 ? () : { branch => 'Outlet' } ] },
            $_ % 7 ? () : { workspace => 'Other', grants =>
                [ { branch => uc $away->{branchId}, roles => [] } ] },
        ])
} 1 .. $ACCOUNTS;
my $path = $t->write_file('accounts.jsonl', join '', @lines);
my ($status, $result, $why, $events) = import_lines('', $path);
is $status, 0, 'many accounts: exit 0';
is_deeply $result, { added => $ACCOUNTS, unchanged => 0, refused => 0 }, 'all were added';
is_deeply $why, [], 'nothing was refused';
is_deeply { map { $_->{event} => 1 } @$events }, { 'accounts.imported' => 1 }, 'audited';
my $audited = 0;
$audited += $_->{accounts} for @$events;
is $audited, $ACCOUNTS, 'all of them';
ok $events->[0]{audit} && $events->[0]{operator}, 'with who did it';

for my $case (
    [ 'accounts', $ACCOUNTS, 'accounts' ],
    [ 'accounts', $ACCOUNTS / 2, 'their types', "account_type = 'OPERATOR'" ],
    [ 'accounts', $ACCOUNTS, 'names as login folds them',
        "account_name like 'user%\@example.com'" ],
    [ 'members', $ACCOUNTS, 'members by name and by id',
        "workspace_id = '$shop->{workspaceId}'" ],
    [ 'members', int($ACCOUNTS / 7), 'of two workspaces',
        "workspace_id = '$other->{workspaceId}'" ],
    [ 'branch_grants', $ACCOUNTS, 'Main is that of the membership',
        "branch_id = '$main->{branchId}'" ],
    [ 'branch_grants', int($ACCOUNTS / 7), 'and by id, in capitals too',
        "branch_id = '$away->{branchId}'" ],
    [ 'branch_grants', $ACCOUNTS + int($ACCOUNTS / 5) + int($ACCOUNTS / 7), 'no others' ],
    [ 'member_roles', 2 * $ACCOUNTS, 'roles' ],
) {
    my ($table, $want, $name, $where) = @$case;
    is count($table, $where), $want, $name;
}

my $identity = $t->identity_face(%env);
my $port = $t->port('identity');

sub login ($account, $credential = undef) {
    return http_post($port, '/api/auth/login', json => {
        account => $account, credential => $credential // $CREDENTIAL });
}

sub stored {
    return $pg->sql("select credential_hash from accounts where account_name = '$_[0]'");
}

for my $kind (0 .. $#kinds) {
    my $n = @kinds * 100 + $kind;
    my $account = "user$n\@example.com";
    my $before = stored($account);
    is login($account, 'wrong')->status, 401, "$kinds[$kind]: a wrong one";
    is stored($account), $before, "$kinds[$kind]: stays";
    my $res = login($account);
    is $res->status, 200, "$kinds[$kind]: the right one";
    like stored($account), qr/\A\$argon2id\$v=19\$m=19456,t=2,p=1\$/,
        "$kinds[$kind]: is Argon2id of today now";
    is login($account)->status, 200, "$kinds[$kind]: and again";
}
is count('accounts', "credential_hash like '\$argon2id\$v=19\$m=19456%'"),
    scalar @kinds, 'nobody else\'s was touched';
like http_get($port, '/actuator/prometheus')->body,
    qr/^identity_rehashes_total ${\scalar @kinds}$/m, 'counted';

my ($scoped) = grep { $_ % 5 && $_ % 7 && $_ % @kinds == 3 } 1000 .. 1400;
my $res = login("user$scoped\@example.com");
is $res->json->{nextAction}{type}, 'load_current_context', 'into their one branch';

# -- the same file again

my $all = sub { return $pg->sql("select md5(string_agg(a::text, ','
    order by account_id)) from accounts a") . count('members')
    . count('branch_grants') . count('member_roles') };
my $before = $all->();
($status, $result, $why, $events) = import_lines('', $path);
is $status, 0, 'the same file again: exit 0';
is_deeply $result, { added => 0, unchanged => $ACCOUNTS, refused => 0 }, 'all were there already';
is $all->(), $before, 'nothing changed, not even who has logged in since';
is_deeply $events, [], 'nothing to audit';
my ($ok, $out) = $c->run(qw(account import), $path);
is $out, "added          0\nthere already  $ACCOUNTS\nrefused        0\n", 'for people';

# -- killed

my $fifo = $t->dir . '/fifo';
mkfifo $fifo, 0644 or die "$fifo: $!\n";
chmod 0644, $fifo;
my @more = map { import_line(account => "more$_", memberships =>
    [ { workspace => 'Shop', grants => [ { branch => 'Main' } ] } ]) }
    1 .. 600;
my $killed = $c->start(qw(account import), $fifo);
open my $to, '>', $fifo or die "$fifo: $!\n";
$to->autoflush(1);
print {$to} @more[ 0 .. 399 ];
ok eventually(sub { count('accounts', "account_name like 'more%'") > 0 }), 'some are there';
$killed->signal('KILL');
$killed->wait_end(60);
close $to;
my $there = count('accounts', "account_name like 'more%'");
cmp_ok $there, '<', 600, 'killed';
is count('members m join accounts using (account_id)',
    "account_name like 'more%'"), $there, 'each is there whole';
($status, $result) = import_lines(join('', @more), '-');
is $status, 0, 'once more: exit 0';
is_deeply $result, { added => 600 - $there, unchanged => $there, refused => 0 }, 'goes on';
is count('branch_grants g join members using (member_id)
    join accounts using (account_id)', "account_name like 'more%'"), 600,
    'all are there';

# -- ended by the database

$pg->sql("create function slow() returns trigger language plpgsql as
    'begin perform pg_sleep(60); return new; end';
    create trigger slow before insert on accounts for each row
    when (new.account_name = 'slow') execute function slow()");
my @slow = ((map { import_line(account => "fast$_") } 1 .. 500), import_line(account => 'slow'));
($status, undef, $out) = $c->run({ stdin => join('', @slow),
    env => { %env, PLATFORM_DB_STATEMENT_TIMEOUT => '2s' } },
    qw(account import));
$there = count('accounts', "account_name like 'fast%'");
is $status, 1, 'a batch took too long: exit 1';
my ($told) = $out =~ /^identity-fcgi: (.*)/m;
is $told, 'the database did not finish within PLATFORM_DB_STATEMENT_TIMEOUT; '
    . "accounts added so far: $there, run the same command to go on",
    'told, with what is there';
cmp_ok $there, '>', 0, 'batches before it are';
$pg->sql('drop trigger slow on accounts; drop function slow');
($status, $result) = import_lines(join '', @slow);
is_deeply [ $status, $result ], [ 0, { added => 501 - $there,
    unchanged => $there, refused => 0 } ], 'goes on, and all is well';

# -- without a hash: nobody can log in before a credential is set

is login('more7', $_)->status, 401, 'no hash, no login' for $CREDENTIAL, 'x';
like stored('more7'), qr/\A\$argon2id\$v=19\$m=19456,t=2,p=1\$/, 'though it looks like any';
$c->done({ stdin => "$CREDENTIAL\n" }, qw(account set-credential more7));
is login('more7')->status, 200, 'until one is set';

# -- refused lines: each with its number and reason, beside one that is good

my $hash = foreign_hash(sha256 => $CREDENTIAL, 1);

sub member_of ($workspace, @grants) {
    return (memberships => [ { workspace => $workspace, grants => \@grants } ]);
}

$pg->sql("insert into workspaces (tenant_id, workspace_name)
    select tenant_id, 'Twin' from workspaces, generate_series(1, 2)
    where workspace_name = 'Shop'");
sub bad { return import_line(account => 'bad', @_) }
sub roles { return bad(member_of('Shop', { branch => 'Main', roles => $_[0] })) }

my @refused = (
    [ qr/malformed JSON/, 'no JSON' ],
    [ qr/malformed JSON/, '{"account":"bad"' ],
    [ qr/malformed JSON/, '{"account":"bad"}{"account":"bad2"}' ],
    [ qr/malformed JSON/, "{\"account\":\"bad\xff\"}" ],
    [ qr/a NUL character/, "{\"account\":\"bad\"}\0" ],
    [ qr/repeated JSON member/, '{"account":"bad","account":"bad2"}' ],
    [ qr/a NUL character/, '{"account":"bad\u0000"}' ],
    [ qr/nested too deeply/, '{"account":' . '[' x 20 . ']' x 20 . '}' ],
    [ qr/too many JSON/, '{"account":"bad","type":[' . '1,' x 3000 . '1]}' ],
    [ qr/over 16384 bytes/, '{"account":"bad"' . ' ' x 16368 . '}' ],
    [ qr/over 16384 bytes/, 'x' x 200_000 ],
    [ qr/account is missing/, '["bad"]' ],
    [ qr/account is missing/, '"bad"' ],
    [ qr/account is missing/, '{}' ],
    [ qr/account is missing/, import_line(account => undef) ],
    [ qr/account is missing/, import_line(account => 7) ],
    [ qr/1 to 320 bytes/, import_line(account => ' ') ],
    [ qr/1 to 320 bytes/, import_line(account => 'a' x 321) ],
    [ qr/1 to 320 bytes without control/, import_line(account => "b\x01ad") ],
    [ qr/1 to 320 bytes without control/, import_line(account => "b\x{85}ad") ],
    [ qr/cannot be a UUID/, import_line(account => uuid(7)) ],
    [ qr/the line has an unknown member "membership"; known are account, type,/,
        bad(membership => []) ],
    [ qr/the line has an unknown member "credential"; known/, bad(credential => $CREDENTIAL) ],
    [ qr/unknown member "\?\[2J${\('x' x 60)}"; known/, bad("\e[2J" . 'x' x 5000 => 1) ],
    [ qr/type of an account is CUSTOMER,/, bad(type => 'customer') ],
    [ qr/type of an account is/, bad(type => 1) ],
    (map { [ qr/hash is refused: it is not an Argon2id, /, bad(hash => $_) ] } '', 'plain', 7, [],
        substr($hash, 0, -1), "$hash ", '$1$salt$' . 'x' x 22, 'x' x 5000),
    (map { [ qr/hash is refused: it takes longer/, bad(hash => $_) ] }
        '$2b$15$' . 'abcdefghijklmnopqrstuu' . 'x' x 31,
        $hash =~ s/rounds=1000/rounds=1000001/r,
        '$argon2id$v=19$m=262145,t=1,p=1$' . 'A' x 22 . '$' . 'A' x 43,
        '$argon2i$v=19$m=64,t=11,p=1$' . 'A' x 22 . '$' . 'A' x 43),
    [ qr/memberships is no array/, bad(memberships => 'Shop') ],
    [ qr/memberships has an element that is no object/, bad(memberships => ['Shop']) ],
    [ qr/memberships has an unknown member "roles"; known are workspace, grants$/,
        bad(memberships => [ { workspace => 'Shop', roles => [] } ]) ],
    [ qr/workspace is missing/, bad(memberships => [ {} ]) ],
    [ qr/no workspace called "Nowhere"/, bad(member_of('Nowhere')) ],
    [ qr/no workspace called "\?\[2J'; drop"/, bad(member_of("\e[2J'; drop")) ],
    [ qr/no workspace called "${\uuid(8)}"/, bad(member_of(uuid(8))) ],
    [ qr/workspace is missing, or no string/, bad(member_of(7)) ],
    [ qr/more than one workspace called "Twin"/, bad(member_of('Twin')) ],
    [ qr/a workspace is named twice/, bad(memberships =>
        [ map { { workspace => $_ } } 'Shop', $shop->{workspaceId} ]) ],
    [ qr/a branch is named twice/, bad(member_of('Shop',
        map { { branch => $_ } } 'Main', $main->{branchId})) ],
    [ qr/grants is no array/, bad(memberships =>
        [ { workspace => 'Shop', grants => { branch => 'Main' } } ]) ],
    [ qr/grants has an element that is no object/, bad(member_of('Shop', 'Main')) ],
    [ qr/branch is missing/, bad(member_of('Shop', {})) ],
    [ qr/no branch called "Outlet" in "Other"/, bad(member_of('Other', { branch => 'Outlet' })) ],
    [ qr/no branch called "$away->{branchId}" in "Shop"/,
        bad(member_of('Shop', { branch => $away->{branchId} })) ],
    [ qr/roles is no array of strings/, roles('R') ],
    [ qr/roles is no array of strings/, roles([1]) ],
    [ qr/a role is 1 to 32 of the characters/, roles(['a b']) ],
    [ qr/at most 32 roles in a branch/, roles([ map {"R$_"} 1 .. 33 ]) ],
);
my $rows = join ' ', map { count($_) }
    qw(accounts members branch_grants member_roles);
my $file = '';
for my $n (0 .. $#refused) {
    $file .= $refused[$n][1] =~ s/\n\z//r . "\n";
    $file .= import_line(account => "good$n");
}
($status, $result, $why) = import_lines("\n$file\n");
is $status, 1, 'with refused lines: exit 1';
is_deeply $result, { added => scalar @refused, unchanged => 0,
    refused => scalar @refused }, 'the others were added';
is pop @$why, 'identity-fcgi: lines refused: ' . @refused, 'summed up';
my @order = map { /line (\d+)/ } @$why;
is_deeply \@order, [ sort { $a <=> $b } @order ], 'told in order';
my %why = map { /^identity-fcgi: line (\d+): (.*)/ ? ($1 => $2) : ($_ => '') }
    @$why;
for my $n (0 .. $#refused) {
    like delete $why{ 2 * $n + 2 }, $refused[$n][0], 'line ' . (2 * $n + 2) . ': the reason';
}
is_deeply \%why, {}, 'no other lines';
is count('accounts', "account_name like 'bad%'"), 0, 'no refused one is there';
is count('accounts', "account_name like 'good%'"), scalar @refused, 'every good one is';
$pg->sql("delete from accounts where account_name like 'good%'");
is join(' ', map { count($_) }
    qw(accounts members branch_grants member_roles)), $rows, 'nothing else is';

($status, $result, $why) = import_lines(import_line(account => 'twice')
    . import_line(account => ' TWICE', member_of('Shop')));
is_deeply $result, { added => 1, unchanged => 1, refused => 0 },
    'twice in a file: the first one holds';
is count('members m join accounts using (account_id)',
    "account_name = 'twice'"), 0, 'and nothing of the other';
($status, $result) = import_lines(import_line(account => 'twice', member_of('Nowhere')));
is_deeply [ $status, $result->{unchanged} ], [ 0, 1 ], 'who is there is not looked at';
for my $case ([ 'an empty file', '', 0 ],
    [ 'no newline at its end', import_line(account => 'last') =~ s/\n//r, 1 ])
{
    ($status, $result) = import_lines($case->[1]);
    is_deeply [ $status, $result->{added} ], [ 0, $case->[2] ], $case->[0];
}

($status, $result) = import_lines(join '', map { my $line =
    qq({"account":"wide$_"}); $line =~ s/\}/"\t" x (16384 - length $line) . "}\n"/er
    } 1 .. 7);
is_deeply [ $status, $result->{added} ], [ 0, 7 ], 'lines as long as may be';

# -- the documented example

$c->done(qw(workspace add), 'Flower Shop', qw(--tenant Acme));
$c->done(qw(branch add), 'Market Square', '--workspace', 'Flower Shop');
open my $doc, '<', $t->root . '/docs/import.md' or die "docs/import.md: $!\n";
my ($example) = join('', <$doc>) =~ /```json\n(.*?)```/s;
($status, $result) = import_lines($example =~ s/^ +//gmr);
is_deeply [ $status, $result->{added} ], [ 0, 3 ], 'the documented example';
is login($_)->status, 200, "$_ of it logs in"
    for 'ann@example.com', 'bob@example.com';
is login('eve@example.com')->status, 401, 'eve does not';

# -- what ends it

$c->refused(1, qr/cannot read .*none: No such file/, qw(account import), $t->dir . '/none');
$c->refused(1, qr/the file cannot be read: Is a directory/, qw(account import), $t->dir);
$c->refused(2, qr/takes one argument/, qw(account import a b));

unlike $identity->log_text, qr/passw0rd/, 'no credential in the log';

$t->done;
