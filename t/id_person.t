# All that is held about a person: shown, handed over, and erased for good.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Commands;
use Test::More;

my $t = Platform::Test->new;
my $pg = $t->postgres(empty => 1);
my %env = (
    PLATFORM_DB_SEED_ON_START  => 'false',
    PLATFORM_AUTH_MAX_FAILURES => 5,
);
my $c = Platform::Test::Commands->new(test => $t, env => \%env);
my $secret = $c->secret('f1rst cr3dential');
my $true = JSON::PP::true();

$c->done('migrate');
my $shop = $c->done(qw(workspace add Shop --new-tenant Acme));
my %branch = map { ($_ => $c->done(qw(branch add), $_, qw(--workspace Shop)))
    } qw(Main Side);
my %account;
for my $name (qw(ann bob)) {
    $account{$name} = $c->done({ stdin => $secret }, qw(account add),
        "$name\@example.com");
    $account{$name}{memberId} = $c->done(qw(member add --workspace Shop
        --account), "$name\@example.com")->{memberId};
    $c->done(qw(member grant --branch Main --branch Side --role B --role A
        --account), "$name\@example.com");
}
my $identity = $t->identity_face(%env);
my $port = $t->port('identity');

sub login {
    my ($name, $credential, $agent) = @_;

    return http_post($port, '/api/auth/login',
        json => { account => $name, credential => $credential },
        headers => [ 'User-Agent' => $agent // 'test' ]);
}

sub refresh {
    my ($session, $agent) = @_;

    return http_post($port, '/api/auth/refresh',
        json => { refreshToken => $session->{refreshToken} },
        headers => [ 'User-Agent' => $agent // 'test' ]);
}

sub id_of { return (jwt_decode($_[0]{refreshToken}))[1]{session_id} }

my %session = map { ($_ => login("$_\@example.com", $secret, "at $_")->json) }
    qw(ann bob);
my $ended = login('ann@example.com', $secret, 'ended')->json;
is http_post($port, '/api/auth/logout',
    json => { refreshToken => $ended->{refreshToken} })->status, 200,
    'a logout';
my $used = refresh($session{ann}, "phone\x1b[2J")->json;
is login("$_\@example.com", 'wrong')->status, 401, "$_: a failure"
    for qw(ann bob);

# Shown.

my $show = $c->done(qw(account show), ' ANN@example.com');
is_deeply $c->events, [], 'account show: nothing is audited';
is_deeply [ sort keys %$show ], [ sort qw(account accountId type status
    createdAt updatedAt sessionsValidAfter deletedAt failedLogins memberships
    grants sessions) ], 'what it says';
is_deeply [ @$show{qw(account accountId type status deletedAt
    sessionsValidAfter)} ], [ 'ann@example.com', $account{ann}{accountId},
    'CUSTOMER', 'ACTIVE', undef, undef ], 'about the account';
like $show->{createdAt}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/, 'since when';
is_deeply [ map { [ @$_{qw(memberId status workspaceName branches)} ] }
    @{ $show->{memberships} } ],
    [ [ $account{ann}{memberId}, 'ACTIVE', 'Shop', 2 ] ], 'its memberships';
is_deeply [ sort map { join ' ', @$_{qw(branchId branchName workspaceId)},
    @{ $_->{roles} } } @{ $show->{grants} } ],
    [ sort map { "$_->{branchId} $_->{branchName} $shop->{workspaceId} A B" }
        values %branch ], 'its grants';
is_deeply { map { ($_->{sessionId} => [ @$_{qw(status address loginAgent agent
    )} ]) } @{ $show->{sessions} } }, {
    id_of($used) => [ 'ACTIVE', '127.0.0.1', 'at ann', "phone\x1b[2J" ],
    id_of($ended) => [ 'REVOKED', '127.0.0.1', 'ended', 'ended' ],
    }, 'its sessions, ended ones too';
is_deeply [ map {"$_->{address} $_->{failures}"} @{ $show->{failedLogins} } ],
    ['127.0.0.1 1'], 'its failed logins';
my $text = JSON::PP->new->encode($show);
unlike $text, qr/argon2|\$v=/i, 'and no hash';
unlike $text, qr/bob|$account{bob}{accountId}/, 'nor anybody else';
my ($status, $out, $err) = $c->run(qw(account show ann@example.com));
is $err, '', 'for people: nothing but the result';
like $out, qr/^account +ann\@example\.com$/m, 'the account';
like $out, qr/^\Q$_\E:\n\S/m, "its $_"
    for qw(failedLogins memberships grants sessions);
unlike $out, qr/argon2|\x1b/i, 'no hash, no escape';
my $robot = $c->done(qw(account add robot --no-login --type SYSTEM));
($status, $out) = $c->run(qw(account show robot));
like $out, qr/^\Q$_\E: none$/m, "no $_"
    for qw(failedLogins memberships grants sessions);
is_deeply $c->done(qw(account show robot))->{sessions}, [], 'an empty list';
$c->refused(1, qr/no account called "nobody"/, qw(account), $_, 'nobody')
    for qw(show delete);

# Without the signing key what is counted cannot be told, and all else can.

my %keyless = (env => { map { ("PLATFORM_JWT_$_" => undef) } qw(KEY_ID
    PRIVATE_KEY_BASE64 PUBLIC_KEY_BASE64 ADDITIONAL_PUBLIC_KEYS) });
my $less = $c->done(\%keyless, qw(account show ann@example.com));
ok !exists $less->{failedLogins}, 'without a key: no failed logins';
is_deeply $less->{sessions}, $show->{sessions}, 'and the sessions';

# Nothing is deleted that was not handed over.

for my $out ('/dev/full', '&-') {
    my $p = $c->start({ redirect => ">$out" }, qw(account delete
        ann@example.com --json));
    $p->wait_end(60 * $t->scale);
    is $p->status >> 8, 1, "into $out: refused";
    like $t->read_file("op$t->{runs}.log"), qr/; nothing was deleted$/m,
        'and says so';
}
is_deeply $c->done(qw(account show ann@example.com)), $show,
    'and nothing was';
is refresh($session{bob})->status, 200, 'bob goes on';

# Handed over and deleted.

my $gone = $c->done(qw(account delete ann@example.com));
is_deeply $gone, $show, 'account delete hands over what was shown';
is_deeply $c->events, ['account.deleted'], 'audited';
is $c->{audit}[0]{accountId}, $account{ann}{accountId}, 'by id';
my $audit = JSON::PP->new->encode($c->{audit});
unlike $audit, qr/ann\@/, 'not by name';

is login('ann@example.com', $secret)->status, 401, 'it cannot log in';
is login($account{ann}{accountId}, $secret)->status, 401, 'by no name';
my $res = refresh($used);
is_problem($res, 401, 'AUTH_SESSION_NOT_ACTIVE', 'its refresh token');
is http_post($port, '/api/auth/select-branch',
    json => { branchId => $branch{Main}{branchId} },
    token => $session{ann}{accountAccessToken})->json->{code},
    'AUTH_SESSION_NOT_ACTIVE', 'its account token';
is refresh(login('bob@example.com', $secret)->json)->status, 200,
    'bob logs in and refreshes';

my $id = $account{ann}{accountId};
is $pg->sql("select status, account_name = account_id::text,
    deleted_at is not null from accounts where account_id = '$id'"),
    'DELETED|t|t', 'the id stays, without a name';
is $pg->sql("select m.member_id, m.status, count(branch_id) from members m
    left join branch_grants using (member_id) where account_id = '$id'
    group by 1, 2"), "$account{ann}{memberId}|INACTIVE|0",
    'and that of the membership, without grants';
is $pg->sql("select count(*) from auth_sessions where account_id = '$id'
    and status = 'REVOKED'"), 2, 'and those of the sessions, which are over';
my $dump = do {
    open my $fh, '-|', Platform::Test::Env::postgres('pg_dump'), '-h',
        $pg->host, '-U', 'postgres', '--data-only', 'platform' or die;
    local $/;
    <$fh>;
};
like $dump, qr/bob\@example\.com/, 'the database has bob';
unlike $dump, qr/$_/, "and no trace of $_" for 'ann@example', 'at ann',
    'phone', "\tended";
is $pg->sql('select count(*) from login_attempts where account_hmac <> $$$$'),
    2, 'nor of failed logins from before';

# What is deleted stays so.

$c->refused(1, qr/this account is deleted/, { stdin => $secret }, 'account',
    @$_) for [ 'enable', $id ], [ 'disable', $id ], [ 'set-credential', $id ],
    [ 'rename', $id, '--to', 'x' ], [ 'unlock', $id ],
    [ 'revoke-sessions', $id ];
$c->refused(1, qr/this account is deleted/, qw(member add --workspace Shop
    --account), $id);
$c->refused(1, qr/this account is deleted/, qw(token system --ttl 1m
    --account), $id);
for my $change ("status = 'ACTIVE'", "account_name = 'ann'",
    'deleted_at = null')
{
    ok !eval { $pg->sql("update accounts set $change
        where account_id = '$id'"); 1 }, "the database refuses $change";
}
my $again = $c->done(qw(account delete), $id);
is_deeply [ @$again{qw(account accountId status)} ], [ $id, $id, 'DELETED' ],
    'account delete again, by id';
is_deeply $c->events, [], 'changes nothing';
is_deeply [ map { [ @$_{qw(address agent loginAddress loginAgent)} ] }
    @{ $again->{sessions} } ], [ [ (undef) x 4 ], [ (undef) x 4 ] ],
    'nothing is left';
ok !grep({ $_->{accountId} eq $id } @{ $c->done(qw(account list)) }),
    'account list is without it';
is_deeply [ map { $_->{accountId} }
    @{ $c->done(qw(account list --status DELETED)) } ], [$id],
    'account list --status DELETED';

# The name is free.

my $new = $c->done({ stdin => $secret }, qw(account add ann@example.com));
isnt $new->{accountId}, $id, 'somebody else has the name';
is login('ann@example.com', $secret)->json->{nextAction}{type},
    'select_branch', 'and nothing else of it';

# For people, and without a key.

($status, $out, $err) = $c->run(\%keyless, qw(account delete
    bob@example.com));
is $status, 0, 'in lines, without a key' or diag $err;
like $out, qr/^account\s+bob\@example\.com\n.*^status\s+ACTIVE\n.*
    ^sessions:\n.*\n\naccount\s.*^status\s+DELETED\n/xms, 'what was, and what became of it';
like $out, qr/^ended sessions [1-9]/m, 'with the sessions that it ended';
is refresh($session{bob})->status, 401, 'bob is out';

# The runbook, as it is written.

open my $runbooks, '<', $t->root . '/docs/runbooks.md' or die "runbooks: $!\n";
my ($page) = do { local $/; <$runbooks> }
    =~ /^## Removing a person\n.*?^```sh\n(.*?)^```/ms or die 'no runbook';
my $program = Platform::Test::Env::identity();
my $run = $t->track(Platform::Test::Process->start(name => 'page',
    dir => $t->dir, log => $t->dir . '/page.log',
    env => $t->identity_env(%env), cmd => [ 'sh', '-ec',
        'cd ' . $t->dir . "\nidentity() { $program \"\$@\"; }\n"
        . $page ])->expect_end);
$run->wait_end(60 * $t->scale);
is $run->status, 0, 'docs/runbooks.md' or diag $t->read_file('page.log');
my $written = JSON::PP->new->utf8->decode($t->read_file('ann.json'));
is $written->{accountId}, $new->{accountId}, 'what was held about ann is in the file';
is $pg->sql("select status from accounts
    where account_id = '$new->{accountId}'"), 'DELETED', 'and ann is gone';

# Somebody who logs in meanwhile is out, too.

$c->done({ stdin => $secret }, qw(account add eve@example.com));
my @racers = map {
    my $n = $_;
    Platform::Test::Process->start(
        name => "race$n", dir => $t->dir, log => $t->dir . "/race$n.out",
        code => sub {
            $| = 1;
            my $res;    # may have to wait for a hash slot
            eventually(sub {
                $res = login('eve@example.com', $secret, 'eve');
                return $res->status != 503;
            });
            my $s = $res->json;
            until (-e $t->dir . '/enough' || $res->status != 200) {
                $res = refresh($s, 'eve');
                $s = $res->json;
            }
            print $res->status, "\n";
        });
} 1 .. 3;
ok eventually(sub { $pg->sql("select count(*) from auth_sessions
    where used_agent = 'eve'") == 3 }), 'three refresh';
my $eve = $c->done(qw(account delete eve@example.com));
$_->wait_end(60 * $t->scale) for @racers;
$t->write_file('enough', '');
is $t->read_file("race$_.out"), "401\n", 'a client that refreshes is out'
    for 1 .. 3;
is $pg->sql("select count(*) from auth_sessions where account_id =
    '$eve->{accountId}' and (status = 'ACTIVE'
        or num_nonnulls(used_agent, login_agent, used_address) > 0)"), 0,
    'no session is left, and no agent';

$t->done;
