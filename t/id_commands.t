# The operator's commands: their help, what they refuse, the directory of tenants,
# workspaces, branches and grants, and where audit lines go.

use utf8;
use Platform::Test;
use Platform::Test::Commands;
use IO::Socket::UNIX;
use JSON::PP qw(decode_json);
use POSIX qw(mkfifo);
use Socket qw(SOCK_DGRAM MSG_DONTWAIT);

my $t = Platform::Test->new;
my $pg = $t->postgres(empty => 1);
my $c = Platform::Test::Commands->new(test => $t, env => {
    PLATFORM_DB_SEED_ON_START => 'false',
    PLATFORM_LOG_LEVEL        => 'error',    # audit lines come all the same
});
my $secret = $c->secret('hunter2-not-to-be-shown');

# Help.

my ($status, $help, $err) = $c->run('help');
is_deeply [ $status, $err, grep { length > 79 } split /\n/, $help ], [ 0, '' ], 'help: 79 columns';
my ($listed) = $help =~ /^commands:\n(.*?)\n\n/ms;
my @commands = $listed =~ /^  ([a-z-]+(?: [a-z-]+)*)/mg;
is scalar @commands, 54, 'it lists all commands';
my %asked = ('account add' => 'help account add', sweep => 'sweep -h');
for my $command (@commands, 'account') {
    my $words = $asked{$command} // "$command --help";
    my $out = qx{@{[ Platform::Test::Env::identity() ]} $words 2>&1};
    is_deeply [ $?, grep { length > 79 } split /\n/, $out ], [0], "$words: 79 columns";
    like $out, qr/\Ausage: identity-fcgi \Q$command\E[ \n]/, "$words: usage";
    like $out, qr/--json/, "$words: options" if $command !~ /^(?:account|keys generate)$/;
}

# Usage: exit 2, one line, and nothing of what might be a secret.

# Each: what it says, words, and options of the run.
sub refuses ($status, @cases) {
    $c->refused($status, $_->[0], $_->[2] // {}, split / /, $_->[1]) for @cases;
}

refuses(2,
    [ qr/account: which of add, rename, delete, /, 'account' ],
    [ qr/read from standard input/, "account add bob --password=$secret" ],
    [ qr/--type is one of CUSTOMER, OPERATOR, SYSTEM/, 'account add bob --type customer' ],
    (map { [ qr/needs one of --tenant and --new-tenant/, "workspace add W$_" ] }
        '', ' --tenant A --new-tenant B'),
    [ qr/member grant: needs --branch/, 'member grant --account a' ],
    (map { [ qr/member revoke: needs --branch, or --all/, "member revoke --account a$_" ] }
        '', ' --all --workspace w --branch b'),
    (map { [ qr/--role is 1 to 32 of the characters/,
        "member grant --account a --branch b --role $_" ] } 'R' x 33, 'A,B'),
    [ qr/at most 32 roles in a branch/, 'member grant --account a --branch b' . ' --role R' x 33 ],
    [ qr/at most 200 active branches/, 'member grant --account a' . ' --branch B' x 201 ],
    [ qr/--session is a UUID/, 'account revoke-sessions a --session x' ],
    [ qr/--address is an IP address/, 'account unlock a --address here' ],
    (map { [ qr/--ttl is .* 1s to 1h/, "token system --account a --ttl $_" ] } '0', '61m'),
    [ qr/--older-than is/, 'sweep --older-than never' ],
    [ qr/PLATFORM_DB_PORT/, 'account disable a', { env => { PLATFORM_DB_PORT => 'x' } } ],
);

# With --json the error is a problem with these code and faults.
sub has_code ($what, $code, @faults) {
    my ($status, $out, $err) = $c->run(split(/ /, $what), '--json');
    my $problem = eval { JSON::PP->new->utf8->decode($err) } // {};
    is_deeply [ @$problem{qw(code errors)} ], [ $code, @faults ? \@faults : undef ], "$what --json: $code";
}
sub fault ($parameter, $code) { return { parameter => $parameter, code => $code } }
has_code(@$_) for (
    [ 'account frobnicate', 'REQUEST_INVALID' ],
    [ 'account add --type customer', 'REQUEST_INVALID', fault(NAME => 'missing'), fault(type => 'malformed') ],
    [ 'branch add', 'REQUEST_INVALID', fault(NAME => 'missing'), fault(workspace => 'missing') ],
    [ 'member add', 'REQUEST_INVALID', fault(account => 'missing'), fault(workspace => 'missing') ],
    [ 'account add a b', 'REQUEST_INVALID', fault(NAME => 'malformed') ],
    [ 'account list a', 'REQUEST_INVALID', fault('' => 'unknown') ],
    [ 'account add a --frobnicate', 'REQUEST_INVALID', fault('' => 'unknown') ],
    [ 'account add a --password=x', 'REQUEST_INVALID', fault('' => 'not_allowed') ],
    [ 'account add a --type=', 'REQUEST_INVALID', fault(type => 'missing') ],
    [ 'account add a --type SYSTEM --type SYSTEM', 'REQUEST_INVALID', fault(type => 'malformed') ],
    [ 'keys list', 'SETTINGS_INVALID' ],
    [ 'sweep', 'DATABASE_UNAVAILABLE' ],
);

# A database that is not there, not migrated, or not ours.

refuses(1,
    [ qr/cannot reach the database: .*No such file/, 'account disable a',
        { env => { PLATFORM_DB_HOST => $t->dir . '/none' } } ],
    map { [ qr/not migrated: run identity-fcgi migrate/, $_ ] } 'account disable a', 'sweep');
is $c->done('migrate')->{schemaVersion},
    $pg->sql('select max(version) from schema_migrations'), 'migrate';
$c->audited([], 'migrate');    # again: nothing to do

# Workspaces and branches.

refuses(1, [ qr/no tenant called "Acme": --new-tenant makes one/,
    'workspace add Shop --tenant Acme' ]);
my $shop = $c->audited([ 'tenant.added', 'workspace.added' ],
    qw(workspace add Shop --new-tenant Acme));
my $line = $c->{audit}[1];
ok $line->{workspaceId} eq $shop->{workspaceId} && $line->{operator}, 'audit: its id, and by whom';
refuses(1,
    [ qr/a tenant called "Acme" exists already: --tenant/,
        'workspace add Other --new-tenant Acme' ],
    [ qr/workspace of this name exists already in "Acme"/,
        "workspace add Shop --tenant $shop->{tenantId}" ],
    [ qr/no tenant with the id/, 'workspace add Other --tenant ' . uuid(99) ],
    [ qr/name of a workspace is 1 to 200 bytes/, 'workspace add --tenant Acme ' . 'x' x 201 ],
    [ qr/not valid UTF-8/, "workspace add --tenant Acme x\xff" ],
);
my $cafe = $c->done(qw(workspace add), "Caf\xc3\xa9 '; --", '--tenant=Acme');
is $cafe->{workspaceName}, "Caf\x{e9} '; --", 'any name is only a name';
($status, my $out) = $c->run(qw(workspace add Second --new-tenant), 'Other Inc');
like "$status $out", qr/\A0 workspace      Second\nid             [0-9a-f-]{36}\n/,
    'without --json: aligned lines';

my $main = $c->audited(['branch.added'], qw(branch add Main --workspace Shop));
is $main->{workspaceId}, $shop->{workspaceId}, 'branch add';
my $main2 = $c->done(qw(branch add Main --workspace Second));
refuses(1,
    [ qr/a branch of this name exists already in "Shop"/,
        "branch add Main --workspace $shop->{workspaceId}" ],
    [ qr/no workspace called "Nowhere"/, 'branch add Main --workspace Nowhere' ],
    [ qr/more than one branch is called "Main": give its id/, 'branch deactivate Main' ],
);
sub state_of { return $pg->sql("select status from branches where branch_id = '$_[0]{branchId}'") }
for my $case ([ deactivate => 'INACTIVE' ], [ activate => 'ACTIVE' ]) {
    my ($verb, $state) = @$case;
    is $c->audited(["$_->[0].${verb}d"], $_->[0], $verb, @$_[ 1 .. $#$_ ])->{status}, $state,
        "$_->[0] $verb" for [qw(branch Main --workspace Second)], [qw(workspace Second)];
    is state_of($main2), $state, 'its row';
    ok !$c->audited([], 'branch', $verb, $main2->{branchId})->{changed}, 'again: unchanged';
}
is state_of($main), 'ACTIVE', 'the namesake stays';

# Members and grants.

my $cred = $c->secret('corr3ct horse');
my $ann = $c->done({ stdin => "$cred\n" }, qw(account add), ' Ann@Example.COM ');
is $ann->{account}, 'ann@example.com', 'names are kept as login folds them';
my @ann = ('--account', 'ANN@example.com');
refuses(1,
    [ qr/"Main" is in no workspace that "ann\@example.com" is a member of; run member add/,
        "member grant --branch Main @ann" ],
    [ qr/no branch called "Nowhere"/, "member grant --branch Nowhere @ann" ],
    [ qr/no account called "bob"/, 'member add --account bob --workspace Shop' ],
    [ qr/no account with the id/, 'member add --workspace Shop --account ' . uuid(98) ],
);
my $member = $c->audited(['member.added'], qw(member add --workspace Shop), @ann);
is $member->{status}, 'ACTIVE', 'member add';
ok !$c->audited([], qw(member add --workspace Shop --account), $ann->{accountId})->{changed},
    'by id, again: unchanged';

# What a grant or its end leaves: roles, granted, and the event.
sub grants ($words, $roles, $granted, @event) {
    my ($got) = @{ $c->audited([ map {"member.$_"} @event ], 'member', split(/ /, $words), @ann) };
    is_deeply [ "@{ $got->{roles} }", !!$got->{granted} ], [ $roles, !!$granted ], "member $words";
    return $got;
}

my $grant = grants('grant --branch Main --role CASHIER --role B.2:x-_', 'B.2:x-_ CASHIER', 1,
    'granted');
is_deeply [ @$grant{qw(branchId memberId)} ], [ $main->{branchId}, $member->{memberId} ],
    'Main is that of the membership';
$grant = grants("grant --role CASHIER --branch $main->{branchId}", 'B.2:x-_ CASHIER', 1);
ok !$grant->{changed}, 'the same again: unchanged';
grants('revoke --role CASHIER --role NONE --branch Main', 'B.2:x-_', 1, 'revoked');
grants('revoke --branch Main', '', 0, 'revoked');
is $pg->sql('select count(*) from member_roles'), 0, 'takes its roles along';

# Limits.

$pg->sql("insert into branches (workspace_id, branch_name)
    select '$shop->{workspaceId}', 'S' || n from generate_series(1, 200) n");
my $granted = $c->done(qw(member grant --role A), @ann, map { ('--branch', "S$_") } 1 .. 199);
is scalar @$granted, 199, 'many branches in one command';
refuses(1, [ qr/at most 200 active branches/, "member grant --branch Main --branch S200 @ann" ]);
is $pg->sql('select count(*) from branch_grants'), 199, 'all or nothing';
my $ended = $c->audited(['member.ended'], qw(member revoke --all --workspace Shop), @ann);
is_deeply [ @$ended{qw(revokedBranches status)} ], [ 199, 'INACTIVE' ], 'ends the membership';
refuses(1, [ qr/membership of "ann\@example.com" in "Shop" has ended/,
    "member grant --branch Main @ann" ],
    [ qr/is not a member of "Second"/, "member revoke --all --workspace Second @ann" ]);
is $c->done(qw(member add --workspace Shop), @ann)->{memberId},
    $member->{memberId}, 'member add begins it again';

# Several operators at once: one waits for what the other does.

for my $case (
    [ 'one name, four at once', 1, ([qw(account add eve --no-login)]) x 4 ],
    [ 'one tenant, four at once', 1, ([qw(workspace add W --new-tenant Rush)]) x 4 ],
    [ 'two grants of 201 branches, of which only one fits', 1,
        map { [ qw(member grant), @ann, map { ('--branch', $_) } @$_ ] }
            [ map {"S$_"} 1 .. 101 ], [ 'Main', map {"S$_"} 102 .. 200 ] ],
) {
    my ($name, $good, @commands) = @$case;
    my @all = map { $c->start({ env => { PLATFORM_DB_STATEMENT_TIMEOUT => '60s' } }, @$_) }
        @commands;
    is scalar(grep { $_->wait_end(60 * $t->scale); $_->status == 0 } @all), $good, $name;
}

# A database that hangs, and output that goes nowhere.

my $disable = 'account disable ann@example.com';
$pg->freeze('STOP');
refuses(1, [ qr/cannot reach the database/, $disable,
    { env => { PLATFORM_DB_CONNECT_TIMEOUT => '0.5s' } } ]);
$pg->freeze('CONT');
my $held = $pg->begin('select 1 from accounts for update');
refuses(1, [ qr/did not finish within PLATFORM_DB_STATEMENT_TIMEOUT; nothing was changed/,
    $disable, { env => { PLATFORM_DB_STATEMENT_TIMEOUT => '0.5s' } } ]);
$pg->end($held, 'rollback');

sub account_status {
    return $pg->sql("select status from accounts where account_name = 'ann\@example.com'");
}
is account_status(), 'ACTIVE', 'and nothing was';

# What is always a change, and the status after it.
sub turn { return account_status() eq 'ACTIVE' ? (disable => 'DISABLED') : (enable => 'ACTIVE') }

# A result that nobody gets is a failure; a change of which there is no record
# has an exit status of its own.

# The exit status of a command, and what it printed.
sub with ($redirect, $verb, %env) {
    my $p = $c->start({ redirect => " $redirect", env => \%env }, 'account', $verb, $ann[1]);
    $p->wait_end(60 * $t->scale);
    return ($p->status >> 8, $t->read_file("op$t->{runs}.log"));
}

mkfifo(my $fifo = $t->dir . '/fifo', 0600) or die "mkfifo: $!\n";
my $lost = qr/the change was made and stands, but its audit line/;
for my $case (
    [ 'standard error on a full disk', '2>/dev/full' ], [ 'closed', '2>&-' ],
    [ 'whose reader left', "3<>$fifo 2>$fifo 3>&-" ],
    [ 'a file on a full disk', '', PLATFORM_AUDIT_LOG => '/dev/full' ],
) {
    my ($what, $redirect, %env) = @$case;
    my ($verb, $state) = turn();
    my ($status, $shown) = with($redirect, $verb, %env);
    is_deeply [ $status, account_status() ], [ 3, $state ],
        "$what: $verb: exit 3, and the change stands";
    like $shown, $redirect ? qr/^status +$state$/m : qr/^status +$state\n.*$lost/ms,
        'and is shown, as is what was lost';
    is +(with($redirect, $verb, %env))[0], 0, 'nothing to record: exit 0';
}
is +(with(@$_[ 0, 1 ]))[0], $_->[2], "$_->[1] $_->[0]: exit $_->[2]"
    for [ '>/dev/full', 'sessions', 1 ], [ '>/dev/null', 'sessions', 0 ],
    [ '>/dev/full', 'disable', 1 ], [ '>/dev/full 2>/dev/full', 'enable', 3 ];

# Where they go: PLATFORM_AUDIT_LOG.

# The event of a change, and what the command said.
sub change ($where) {
    my ($verb) = turn();
    return ("account.${verb}d", $c->run({ env => { PLATFORM_AUDIT_LOG => $where } },
        'account', $verb, $ann[1]));
}

sub logged ($text) { return map { decode_json($_)->{event} } split /\n/, $text }

my ($file, @events) = $t->dir . '/audit.log';
for my $where (undef, 'stderr', $file, $file) {
    my ($event, $status, $out, $err) = change($where);
    my $to_file = ($where // '') eq $file;
    push @events, $event if $to_file;
    is_deeply [ $status, $out =~ /^status +/m && $out !~ /"audit"/, logged($err), 'file:',
        logged($t->read_file('audit.log') // '') ], [ 0, 1, $to_file ? () : $event, 'file:',
        @events ], 'the result, and an audit line in ' . ($where // 'standard error');
}
is sprintf('%04o', (stat $file)[2] & 07777), '0600', "it is its owner's alone";

# The system's log: a datagram in the form of syslog, authpriv.info.
my $socket = IO::Socket::UNIX->new(Type => SOCK_DGRAM, Local => $t->dir . '/log')
    or die "socket: $!\n";
(my $event, $status, $out, $err) = change($t->dir . '/log');
$socket->recv($line, 65536, MSG_DONTWAIT);
is_deeply [ $status, $err, logged($line =~ s/\A<86>identity-fcgi: (?=\{.*\}\n\z)//r) ],
    [ 0, '', $event ], 'a log socket gets the line';
ok !defined $socket->recv(my $rest, 1, MSG_DONTWAIT), 'once';
close $socket;

# What cannot be opened is told before anything is changed.
my $before = account_status();
for my $case ([ $t->dir . '/none/audit.log', qr/No such file or directory/ ],
    [ $t->dir . '/log', qr/Connection refused/ ]) {
    my ($where, $why) = @$case;
    refuses(1, [ qr/PLATFORM_AUDIT_LOG: \Q$where\E: $why$/, "account @{[ (turn())[0] ]} $ann[1]",
        { env => { PLATFORM_AUDIT_LOG => $where } } ]);
    is account_status(), $before, 'no change';
}

# The service has one log for all: its own.
my $identity = $t->identity(PLATFORM_AUDIT_LOG => $file);
$t->fcgi($identity->address)->request(POST => '/api/auth/login',
    body => '{"account":"several@demo.test","credential":"Demo-passw0rd!"}');
like $identity->log_text, qr/"auth\.login\.succeeded","audit":true/,
    'is audited in the log of the service';
unlike $t->read_file('audit.log'), qr/auth\.login/, 'and not in the file';

$t->done;
