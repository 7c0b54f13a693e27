# All that is held about a person: shown, handed over, and erased for good.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;

my $t = Platform::Test->new;
my $pg = $t->postgres(empty => 1);
my %env = (PLATFORM_DB_SEED_ON_START => 'false', PLATFORM_AUTH_MAX_FAILURES => 5);
my $c = Platform::Test::Commands->new(test => $t, env => \%env);
my $secret = $c->secret('f1rst cr3dential');

$c->done('migrate');
my $shop = $c->done(qw(workspace add Shop --new-tenant Acme));
my %branch = map { ($_ => $c->done(qw(branch add), $_, qw(--workspace Shop))) } qw(Main Side);
my ($ann, $bob) = map {"$_\@example.com"} qw(ann bob);
my %account;
for my $name ($ann, $bob) {
    $account{$name} = $c->done({ stdin => $secret }, qw(account add), $name);
    $account{$name}{memberId} = $c->done(qw(member add --workspace Shop --account),
        $name)->{memberId};
    $c->done(qw(member grant --branch Main --branch Side --role B --role A --account), $name);
}
my $id = $account{$ann}{accountId};
my $identity = $t->identity_face(%env);
client_of($t);

sub by { return (headers => [ 'User-Agent' => $_[0] ]) }
sub opened { return logged_in($_[0], credential => $secret, by($_[1] // 'test')) }

my %session = map { ($_ => opened($_, 'at ' . s/\@.*//r)) } $ann, $bob;
my $ended = opened($ann, 'ended');
is logout($ended)->status, 200, 'a logout';
my $used = refresh($session{$ann}, by("phone\x1b[2J"))->json;
is login($_, credential => 'wrong')->status, 401, "$_: a failure" for $ann, $bob;

# -- shown

my $show = $c->audited([], qw(account show), ' ANN@example.com');
my %got = %$show;
like delete $got{$_}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/, "$_: when" for qw(createdAt updatedAt);
my @lists = qw(memberships grants sessions failedLogins factors);
my %lists = map { ($_ => delete $got{$_}) } @lists;
is_deeply \%got, { account => $ann, accountId => $id, type => 'CUSTOMER',
    status => 'ACTIVE', deletedAt => undef, sessionsValidAfter => undef,
    factorRequired => JSON::PP::false(), recoveryCodesLeft => 0,
    hasCredential => JSON::PP::true() }, 'about the account';
is_deeply $lists{factors}, [], 'its second factors';
is_deeply [ map { join ' ', @$_{qw(memberId status workspaceName branches)} }
    @{ $lists{memberships} } ], ["$account{$ann}{memberId} ACTIVE Shop 2"], 'its memberships';
is_deeply [ sort map { join ' ', @$_{qw(branchId branchName workspaceId)}, @{ $_->{roles} } }
    @{ $lists{grants} } ],
    [ sort map {"$_->{branchId} $_->{branchName} $shop->{workspaceId} A B"} values %branch ],
    'its grants';
is_deeply { map { ($_->{sessionId} => [ @$_{qw(status address loginAgent agent)} ]) }
    @{ $lists{sessions} } }, {
    session_of($used) => [ 'ACTIVE', '127.0.0.1', 'at ann', "phone\x1b[2J" ],
    session_of($ended) => [ 'REVOKED', '127.0.0.1', 'ended', 'ended' ],
    }, 'its sessions, ended ones too';
is_deeply [ map {"$_->{address} $_->{failures}"} @{ $lists{failedLogins} } ],
    ['127.0.0.1 1'], 'its failed logins';
unlike(JSON::PP->new->encode($show), qr/argon2|\$v=|bob|$account{$bob}{accountId}/i,
    'and no hash, nor anybody else');
my ($status, $out, $err) = $c->run(qw(account show), $ann);
is $err, '', 'for people: nothing but the result';
like $out, qr/^account +ann\@example\.com\n.*^\Q$_\E:(?:\n\S| none\n)/ms, "the account, its $_" for @lists;
unlike $out, qr/argon2|\x1b/i, 'no hash, no escape';
$c->refused(1, qr/no account called "nobody"/, qw(account), $_, 'nobody') for qw(show delete);

# Without the signing key what is counted cannot be told, and all else can.

my %keyless = (env => { map { ("PLATFORM_JWT_$_" => undef) } qw(KEY_ID
    PRIVATE_KEY_BASE64 PUBLIC_KEY_BASE64 ADDITIONAL_PUBLIC_KEYS) });
my %less = %{ $c->done(\%keyless, qw(account show), $ann) };
is_deeply { %less, failedLogins => $show->{failedLogins} }, $show, 'without a key: all else';
ok !exists $less{failedLogins}, 'and no failed logins';

# -- nothing is deleted that was not handed over

for my $out ('/dev/full', '&-') {
    my $p = $c->start({ redirect => ">$out" }, qw(account delete), $ann, '--json');
    $p->wait_end(60 * $t->scale);
    is $p->status >> 8, 1, "into $out: refused";
    like $t->read_file("op$t->{runs}.log"), qr/; nothing was deleted\."\}$/m, 'and says so';
}
is_deeply $c->done(qw(account show), $ann), $show, 'and nothing was';
is refresh($session{$bob})->status, 200, 'bob goes on';

# -- handed over and deleted

is_deeply $c->done(qw(account delete), $ann), $show, 'account delete hands over what was shown';
is_deeply [ map { [ @$_{qw(event accountId)} ] } @{ $c->{audit} } ],
    [ [ 'account.deleted', $id ] ], 'audited, by id';
unlike(JSON::PP->new->encode($c->{audit}), qr/ann\@/, 'not by name');
is login($_, credential => $secret)->status, 401, 'it cannot log in: ' . $_ for $ann, $id;
is_problem(refresh($used), 401, 'AUTH_SESSION_NOT_ACTIVE', 'its refresh token');
is_problem(select_branch($session{$ann}, $branch{Main}{branchId}), 401,
    'AUTH_SESSION_NOT_ACTIVE', 'its account token');
is refresh(opened($bob))->status, 200, 'bob logs in and refreshes';
is $pg->sql("select a.status, account_name = account_id::text, deleted_at is not null,
        m.member_id, m.status, (select count(*) from branch_grants g
            where g.member_id = m.member_id), (select count(*) from auth_sessions s
            where s.account_id = a.account_id and s.status = 'REVOKED')
    from accounts a join members m using (account_id) where account_id = '$id'"),
    "DELETED|t|t|$account{$ann}{memberId}|INACTIVE|0|2", 'ids stay: of the account, without a '
    . 'name, of the membership, without grants, of the sessions, which are over';
my $pg_dump = Platform::Test::Env::postgres('pg_dump');
my $dump = `$pg_dump -h @{[ $pg->host ]} -U postgres --data-only platform`;
like $dump, qr/bob\@example\.com/, 'the database has bob';
unlike $dump, qr/ann\@example|at ann|phone|\tended/, 'and no trace of ann';
is $pg->sql('select count(*) from login_attempts where account_hmac <> $$$$'),
    2, 'nor of failed logins from before';

# -- what is deleted stays so

$c->refused(1, qr/this account is deleted/, { stdin => $secret }, @$_)
    for (map { [ 'account', @$_ ] } [ 'enable', $id ], [ 'disable', $id ],
        [ 'set-credential', $id ], [ 'rename', $id, '--to', 'x' ], [ 'unlock', $id ],
        [ 'revoke-sessions', $id ]),
    [ qw(member add --workspace Shop --account), $id ],
    [ qw(token system --ttl 1m --account), $id ];
ok !eval { $pg->sql("update accounts set $_ where account_id = '$id'"); 1 },
    "the database refuses $_" for "status = 'ACTIVE'", "account_name = 'ann'", 'deleted_at = null';
my $again = $c->audited([], qw(account delete), $id);
is_deeply [ @$again{qw(account accountId status)}, map { grep {defined}
    @$_{qw(address agent loginAddress loginAgent)} } @{ $again->{sessions} } ],
    [ $id, $id, 'DELETED' ], 'account delete again, by id: nothing is left';
is_deeply [ grep { $_ eq $id } map { $_->{accountId} } @{ $c->done(qw(account list)) },
    @{ $c->done(qw(account list --status DELETED)) } ], [$id],
    'account list is without it, but for --status DELETED';

# The name is free.

my $new = $c->done({ stdin => $secret }, qw(account add), $ann);
isnt $new->{accountId}, $id, 'somebody else has the name';
is opened($ann)->{nextAction}{type}, 'select_branch', 'and nothing else of it';

# For people, and without a key.

($status, $out, $err) = $c->run(\%keyless, qw(account delete), $bob);
is $status, 0, 'in lines, without a key' or diag $err;
like $out, qr/^account\s+bob\@example\.com\n.*^status\s+ACTIVE\n.*
    ^sessions:\n.*\n\naccount\s.*^status\s+DELETED\n/xms, 'what was, and what became of it';
like $out, qr/^ended sessions [1-9]/m, 'with the sessions that it ended';
is refresh($session{$bob})->status, 401, 'bob is out';

# The runbook, as it is written.

my ($page) = $t->read_file($t->root . '/docs/runbooks.md')
    =~ /^## Removing a person\n.*?^```sh\n(.*?)^```/ms or die 'no runbook';
my $program = Platform::Test::Env::identity();
my $run = $t->track(Platform::Test::Process->start(name => 'page',
    dir => $t->dir, log => $t->dir . '/page.log',
    env => $t->identity_env(%env), cmd => [ 'sh', '-ec',
        'cd ' . $t->dir . "\nidentity() { $program \"\$@\"; }\n" . $page ])->expect_end);
$run->wait_end(60 * $t->scale);
is $run->status, 0, 'docs/runbooks.md' or diag $t->read_file('page.log');
my $written = JSON::PP->new->utf8->decode($t->read_file('ann.json'));
is $written->{accountId}, $new->{accountId}, 'what was held about ann is in the file';
is $pg->sql("select status from accounts
    where account_id = '$new->{accountId}'"), 'DELETED', 'and ann is gone';

# -- somebody who refreshes meanwhile is out, too, and leaves nothing

my $eve = 'eve@example.com';
$c->done({ stdin => $secret }, qw(account add), $eve);
my $s = opened($eve, 'eve');
my $held = $pg->begin("select 1 from auth_sessions
    where session_id = '" . session_of($s) . "' for update");
my $waits = sent(refresh => { refreshToken => $s->{refreshToken} }, by('eve'));
ok $pg->waiting(1), 'a refresh waits for its row';
my $p = $c->start(qw(account delete --json), $eve);
ok $pg->waiting(2), 'and so does the deletion';
$pg->end($held, 'rollback');
like $waits->read_response->status, qr/\A(?:200|401)\z/, 'it is answered';
$p->wait_end(60 * $t->scale);
is $p->status, 0, 'and eve deleted';
is refresh($s)->status, 401, 'the client is out';
is $pg->sql("select count(*) from auth_sessions where used_agent = 'eve'
    or login_agent = 'eve' or session_id = '@{[ session_of($s) ]}'
        and (status = 'ACTIVE' or num_nonnulls(used_address, login_address) > 0)"), 0,
    'no session is left, and no agent';

# -- very many sessions: some at a time, and what is done is not done again

my $kim = 'kim@example.com';
$id = $c->done({ stdin => $secret }, qw(account add), $kim)->{accountId};
$pg->sql(<<"SQL", user => 'postgres');
set session_replication_role = replica;
insert into auth_sessions (session_id, account_id, jti, created_at, expires_at, status,
    revoked_at, login_address) select gen_random_uuid(), '$id', gen_random_uuid(),
    now() - (n / 2) * interval '1 s', now() + interval '1 day', 'REVOKED', now(), '192.0.2.1'
  from generate_series(1, 2500) n;
create table written (n bigint);
create table allowed as select 2000 as most;
create function written() returns trigger language plpgsql security definer as \$\$ begin
    insert into written select count(*) from changed having count(*) > 0;
    if (select sum(n) from written) > (select most from allowed)
        then raise exception 'enough'; end if;
    return null;
end \$\$;
create trigger written after update on auth_sessions referencing new table as changed
    for each statement execute function written();
SQL

# Whoever reads slowly holds up nobody: no lock is held, nor a transaction open.
use POSIX ();
my $fifo = $t->dir . '/fifo';
POSIX::mkfifo($fifo, 0600) or die "mkfifo: $!\n";
for my $command (qw(show delete)) {
    open my $reader, '+<', $fifo or die "$fifo: $!\n";
    my $p = $c->start({ redirect => ">$fifo" }, 'account', $command, $kim, '--json');
    ok eventually(sub { (Platform::Test::Env::slurp("/proc/$p->{pid}/wchan") // '')
        =~ /pipe/ }), "account $command: its reader takes its time";
    is $pg->sql("begin; select status from accounts where account_id = '$id'
        for update nowait; rollback"), 'ACTIVE', "account $command: the row is free";
    is $pg->sql("select count(*) from pg_stat_activity where xact_start is not null
        and pid <> pg_backend_pid() and backend_type = 'client backend'", user => 'postgres'), 0,
        "account $command: no transaction is open";
    $p->stop('KILL');
}
my %listed = map { $_->{sessionId} => 1 } @{ $c->done(qw(account show), $kim)->{sessions} };
is keys %listed, 2500, 'account show: each is there';

my $left = "select count(*) from auth_sessions
    where account_id = '$id' and login_address is not null";
($status, undef, $err) = $c->run(qw(account delete), $kim);
like "$status $err", qr/\A1 .*repeat this with its id, $id/s, 'a deletion that fails midway';
is $pg->sql($left), 500, 'cut short: what was done stays so';
$pg->sql('update allowed set most = 9999', user => 'postgres');
$c->done(qw(account delete), $id);
is $pg->sql($left), 0, 'again: all is gone';
is $pg->sql('select string_agg(n::text, $$ $$) from written', user => 'postgres'),
    '1000 1000 500', 'a thousand at a time, and none twice';

$t->done;
