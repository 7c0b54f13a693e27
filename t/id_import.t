# Accounts that are brought along from another system: some batches of them, what
# is refused and why, the same file again, a run that was killed; and logins
# with the hashes that came along.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;
use Crypt::KeyDerivation qw(pbkdf2);
use List::Util qw(sum);
use MIME::Base64 qw(encode_base64);
use POSIX qw(mkfifo);

my $ACCOUNTS = 700;
my $CREDENTIAL = $Platform::Test::Client::CREDENTIAL;

my $t = Platform::Test->new;
my $pg = $t->postgres(empty => 1);
my %env = (PLATFORM_DB_SEED_ON_START => 'false', PLATFORM_AUTH_MAX_FAILURES => 0);
my $c = Platform::Test::Commands->new(test => $t, env => \%env);
$c->done('migrate');
my $shop = $c->done(qw(workspace add Shop --new-tenant Acme));
my $main = $c->done(qw(branch add Main --workspace Shop));
$c->done(qw(branch add Outlet --workspace Shop));
my $other = $c->done(qw(workspace add Other --tenant Acme));
my $away = $c->done(qw(branch add Main --workspace Other));

sub count ($table, $where = 'true') {
    return $pg->sql("select count(*) from $table where $where");
}

my $json = JSON::PP->new->utf8->canonical;

# Hashes as other systems store them: cheap ones, with a salt of the number n; those
# of Demo-passw0rd! by the argon2 program of its authors, since Perl has none.
my %argon2 = (
    argon2i => '$argon2i$v=19$m=64,t=3,p=1$c2FsdHNhbHRzYWx0c2FsdA$'
        . '+a2eacQOvrwYY35S4R+hoFVVknnNnvszlEbwtruVIs4',
    argon2id => '$argon2id$v=19$m=64,t=3,p=4$c2FsdHNhbHRzYWx0c2FsdA$'
        . '4LJ3w+CrtOcn8xK/C31sO+fTu7YoOkt+fABdOMIO6PI',
);
my %setting = (map({ ("2$_" => "\$2$_\$04\$") } qw(a b y)), sha256 => '$5$rounds=1000$',
    sha512 => '$6$rounds=1000$', pbkdf2 => '', passlib => '');

sub base64 ($bytes) { return encode_base64($bytes, '') =~ s/=+\z//r }

my %made;

sub foreign_hash ($kind, $credential, $n) {
    return $made{"$kind $credential $n"} //= $argon2{$kind} // do {
        my $salt = sprintf $kind =~ /^2/ ? '%021du' : '%016d', $n;
        my $hash = base64(pbkdf2($credential, $salt, 1000, 'SHA256', 32));
        $setting{$kind} ? crypt $credential, $setting{$kind} . $salt
            : $kind eq 'pbkdf2' ? '$pbkdf2-sha256$i=1000,l=32$' . base64($salt) . "\$$hash"
            : '$pbkdf2-sha256$1000$' . base64($salt) . '$' . $hash =~ tr/+/./r;
    };
}

sub import_line { return $json->encode({@_}) . "\n" }

# An import of these lines: one test of its exit status, and how many it added, found
# there, and refused.  Its lines of reasons.  Events are kept.
my @events;

sub imports ($name, $lines, $status, $counts, @args) {
    my ($got, $out, $err) = $c->run({ stdin => $lines, within => 120 },
        qw(account import --json), @args);
    my $result = $out ne '' ? $json->decode($out) : {};
    is_deeply [ $got, @$result{qw(added unchanged refused)} ], [ $status, @$counts ], $name
        or diag $err;
    my @lines = map { $json->decode($_) } split /\n/, $err;
    @events = grep { $_->{event} } @lines;
    return [ grep { $_->{detail} } @lines ];
}

# -- many, of every kind, and a login of each

my @kinds = sort keys %argon2, keys %setting;
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
imports('many accounts', '', 0, [ $ACCOUNTS, 0, 0 ], $path);
is sum(map { $_->{event} eq 'accounts.imported' && $_->{audit} && $_->{operator}
    ? $_->{accounts} : 'nan' } @events), $ACCOUNTS, 'audited, all of them, with who did it';

my $seventh = int($ACCOUNTS / 7);
is count(@$_[ 1, 2 ]), $_->[0], "@$_[ 1, 2 ]" for (
    [ $ACCOUNTS / 2, accounts => "account_name like 'user%\@example.com'
        and account_type = 'OPERATOR'" ],
    [ $ACCOUNTS, members => "workspace_id = '$shop->{workspaceId}'" ],
    [ $seventh, members => "workspace_id = '$other->{workspaceId}'" ],
    [ $ACCOUNTS, branch_grants => "branch_id = '$main->{branchId}'" ],
    [ $seventh, branch_grants => "branch_id = '$away->{branchId}'" ],
    [ $ACCOUNTS + int($ACCOUNTS / 5) + $seventh, branch_grants => 'true' ],
    [ 2 * $ACCOUNTS, member_roles => 'true' ],
);

my $identity = $t->identity_face(%env);
my $port = client_of($t);

sub stored {
    return $pg->sql("select credential_hash from accounts where account_name = '$_[0]'");
}

my $today = qr/\A\$argon2id\$v=19\$m=19456,t=2,p=1\$/;
for my $kind (0 .. $#kinds) {
    my $account = 'user' . (@kinds * 50 + $kind) . '@example.com';
    is login($account)->status, 200, "$kinds[$kind]: the right one";
    like stored($account), $today, "$kinds[$kind]: is Argon2id of today now";
}
is count('accounts', "credential_hash like '\$argon2id\$v=19\$m=19456%'"),
    scalar @kinds, 'nobody else\'s was touched';
like http_get($port, '/actuator/prometheus')->body,
    qr/^identity_rehashes_total ${\scalar @kinds}$/m, 'counted';
my ($scoped) = grep { $_ % 5 && $_ % 7 && $_ % @kinds == 3 } 400 .. 700;
is logged_in("user$scoped\@example.com")->{nextAction}{type}, 'load_current_context',
    'into their one branch';

# -- the same file again

sub all { return $pg->sql("select md5(string_agg(a::text, ',' order by account_id))
    from accounts a") . join ' ', map { count($_) } qw(members branch_grants member_roles) }
my $before = all();
imports('the same file again', '', 0, [ 0, $ACCOUNTS, 0 ], $path);
is all(), $before, 'nothing changed, not even who has logged in since';
is_deeply \@events, [], 'nothing to audit';

# -- ended by the database, and by a signal: batches are there whole

$pg->sql("create function slow() returns trigger language plpgsql as
    'begin perform pg_sleep(60); return new; end';
    create trigger slow before insert on accounts for each row
    when (new.account_name = 'slow') execute function slow()");
my @more = ((map { import_line(account => "more$_\@x", memberships =>
    [ { workspace => 'Shop', grants => [ { branch => 'Main' } ] } ]) } 1 .. 600),
    import_line(account => 'slow'));
my $more = "account_name like 'more%'";
my $whole = "branch_grants g join members using (member_id) join accounts using (account_id)";
my ($status, undef, $said) = $c->run({ stdin => join('', @more[ 0 .. 399, -1 ]),
    env => { PLATFORM_DB_STATEMENT_TIMEOUT => '2s' } }, qw(account import));
my $there = count('accounts', $more);
is $status . $said =~ s/^\{.*\n//mgr, '1identity-fcgi: the database did not finish within '
    . "PLATFORM_DB_STATEMENT_TIMEOUT; accounts added so far: $there, "
    . "run the same command to go on\n", 'a batch took too long: told, with what is there';
cmp_ok $there, '>', 0, 'batches before it are';
(undef, undef, $said) = $c->run({ stdin => $more[-1],
    env => { PLATFORM_DB_STATEMENT_TIMEOUT => '2s' } }, qw(account import --json));
is $json->decode($said)->{code}, 'DATABASE_UNAVAILABLE', 'with --json: the code of its cause';
mkfifo(my $fifo = $t->dir . '/fifo', 0644) or die "fifo: $!\n";
my $killed = $c->start(qw(account import), $fifo);
$t->write_file('fifo', join '', @more);
ok eventually(sub { count('accounts', $more) > $there }), 'again: more are there';
$killed->signal('KILL');
$killed->wait_end(60);
$there = count('accounts', $more);
is count($whole, $more), $there, 'killed: each is there whole';
$pg->sql('drop trigger slow on accounts; drop function slow');
imports('and goes on', join('', @more), 0, [ 601 - $there, $there, 0 ], '-');
is count($whole, $more), 600, 'all are there';

# -- without a hash: nobody can log in before a credential is set

is login('more7@x', credential => $_)->status, 401, 'no hash, no login' for $CREDENTIAL, 'x';
like stored('more7@x'), $today, 'though it looks like any';
$c->done({ stdin => "$CREDENTIAL\n" }, qw(account set-credential more7@x));
is login('more7@x')->status, 200, 'until one is set';

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
    [ qr/a NUL character/, "{\"account\":\"bad\"}\0" ],
    [ qr/too many JSON/, '{"account":"bad","type":[' . '1,' x 3000 . '1]}' ],
    [ qr/over 16384 bytes/, '{"account":"bad"' . ' ' x 16368 . '}' ],
    (map { [ qr/account is missing/, $_ ] } '["bad"]', import_line(account => 7)),
    (map { [ qr/1 to 320 bytes without control/, import_line(account => $_) ] }
        ' ', 'a' x 321, "b\x01ad"),
    [ qr/cannot be a UUID/, import_line(account => uuid(7)) ],
    [ qr/the line has an unknown member "membership"; known are account, type,/,
        bad(membership => []) ],
    [ qr/unknown member "\?\[2J${\('x' x 60)}"; known/, bad("\e[2J" . 'x' x 5000 => 1) ],
    [ qr/type of an account is CUSTOMER,/, bad(type => 1) ],
    (map { [ qr/hash is refused: it is not an Argon2id, /, bad(hash => $_) ] } '', 7,
        substr($hash, 0, -1), 'x' x 5000),
    (map { [ qr/hash is refused: it takes longer/, bad(hash => $_) ] }
        '$2b$15$' . 'abcdefghijklmnopqrstuu' . 'x' x 31, $hash =~ s/rounds=1000/rounds=1000001/r),
    [ qr/memberships has an unknown member "roles"; known are workspace, grants$/,
        bad(memberships => [ { workspace => 'Shop', roles => [] } ]) ],
    (map { [ qr/no workspace called "\Q$_"/, bad(member_of($_)) ] } "'; drop", uuid(8)),
    (map { [ qr/workspace is missing, or no string/, bad(member_of($_)) ] } undef, 7),
    [ qr/more than one workspace called "Twin"/, bad(member_of('Twin')) ],
    [ qr/a workspace is named twice/, bad(memberships =>
        [ map { { workspace => $_ } } 'Shop', $shop->{workspaceId} ]) ],
    [ qr/a branch is named twice/, bad(member_of('Shop',
        map { { branch => $_ } } 'Main', $main->{branchId})) ],
    [ qr/grants is no array/, bad(memberships =>
        [ { workspace => 'Shop', grants => { branch => 'Main' } } ]) ],
    [ qr/branch is missing/, bad(member_of('Shop', {})) ],
    [ qr/no branch called "Outlet" in "Other"/, bad(member_of('Other', { branch => 'Outlet' })) ],
    [ qr/no branch called "$away->{branchId}" in "Shop"/,
        bad(member_of('Shop', { branch => $away->{branchId} })) ],
    (map { [ qr/roles is no array of strings/, roles($_) ] } 'R', [1]),
    [ qr/a role is 1 to 32 of the characters/, roles(['a b']) ],
    [ qr/at most 32 roles in a branch/, roles([ map {"R$_"} 1 .. 33 ]) ],
);
$before = all();
my $file = join '', map { $refused[$_][1] =~ s/\n\z//r . "\n" . import_line(account => "good$_") }
    0 .. $#refused;
my $why = imports('with refused lines: the others are added', "\n$file\n", 1,
    [ scalar @refused, 0, scalar @refused ]);
is_deeply { %{ $why->[-1] } }, { code => 'REQUEST_INVALID', detail => 'Lines refused: ' . @refused . '.' },
    'summed up';
is_deeply [ map {"$_->{code}: $_->{detail}"} grep { $_->{code} ne 'REQUEST_INVALID' } @$why ],
    ['RESOURCE_LIMIT_REACHED: A member may hold at most 32 roles in a branch; revoke some first.'],
    'each with its code';
(undef, undef, my $err) = $c->run({ stdin => "\n$file\n", within => 120 }, qw(account import));
my @plain = map {s/\Aidentity-fcgi: //r} grep { !/\A\{/ } split /\n/, $err;
is_deeply [ map { ucfirst s/\Aline \d+: //r . '.' } @plain ], [ map { $_->{detail} } @$why ], 'the same without --json';
is scalar @$why, @refused + 1, 'a reason each, in the order of their lines';
for (0 .. $#refused) {
    my $n = 2 * $_ + 2;
    like $plain[$_], qr/\Aline $n: .*$refused[$_][0]/, "line $n";
    is $why->[$_]{line}, $n, "line $n: its number";
}
$pg->sql("delete from accounts where account_name like 'good%'");
is all(), $before, 'nothing but the good ones was there';

imports($_->[0], $_->[1], 0, $_->[2]) for (
    [ 'twice in a file: the first one holds', import_line(account => 'twice') . import_line(
        account => ' TWICE', member_of('Shop', { branch => 'Main' })), [ 1, 1, 0 ] ],
    [ 'who is there is not looked at', import_line(account => 'twice', member_of('Nowhere')),
        [ 0, 1, 0 ] ],
    [ 'an empty file', '', [ 0, 0, 0 ] ],
    [ 'no newline at its end', import_line(account => 'last') =~ s/\n//r, [ 1, 0, 0 ] ],
    [ 'lines as long as may be', join('', map { my $line = qq({"account":"wide$_"});
        $line =~ s/\}/"\t" x (16384 - length $line) . "}\n"/er } 1 .. 7), [ 7, 0, 0 ] ],
);
is count($whole, "account_name = 'twice'"), 0, 'nothing of the one that came second';

# -- the documented example

$c->done(qw(workspace add), 'Flower Shop', qw(--tenant Acme));
$c->done(qw(branch add), 'Market Square', '--workspace', 'Flower Shop');
my ($example) = $t->read_file($t->root . '/docs/import.md') =~ /```json\n(.*?)```/s;
imports('the documented example', $example =~ s/^ +//gmr, 0, [ 3, 0, 0 ]);
is_deeply [ map { login("$_\@example.com")->status } qw(ann bob eve) ], [ 200, 200, 401 ],
    'two of whom may log in';

# -- what ends it

$c->refused(1, qr/cannot read .*none: No such file/, qw(account import), $t->dir . '/none');
$c->refused(1, qr/the file cannot be read: Is a directory/, qw(account import), $t->dir);
$c->refused(2, qr/takes one argument/, qw(account import a b));

unlike $identity->log_text, qr/passw0rd/, 'no credential in the log';

$t->done;
