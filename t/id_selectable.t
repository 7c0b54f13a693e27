# Selectable means account, workspace, member and branch all active and the
# branch granted: whichever of them is missing, login, select-branch, refresh
# and the token's branch_ids agree about it.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
$t->identity_face(PLATFORM_AUTH_MAX_FAILURES => 0);
my $pg = $t->postgres;
my $port = $t->port('identity');

sub login {
    return http_post($port, '/api/auth/login', json => {
        account => 'several@demo.test', credential => 'Demo-passw0rd!' })
        ->json;
}

sub refresh {
    return http_post($port, '/api/auth/refresh',
        json => { refreshToken => $_[0], includeAccountToken => \1 });
}

sub select_branch {
    my ($token, $branch) = @_;

    return http_post($port, '/api/auth/select-branch', token => $token,
        json => { branchId => $branch });
}

sub ids { return [ map { $_->{branchId} } @{ $_[0] } ] }

my ($east, $north, $west)
    = map { sprintf '00000000-0000-4000-8000-0005%08d', $_ } 31, 32, 33;
my $all = [ $east, $north, $west ];
my $of_north = "where branch_id = '$north'";
my $workspace = "where workspace_id = (select workspace_id from branches
    $of_north)";
my $member = "$workspace and account_id = (select account_id from accounts
    where account_name = 'several\@demo.test')";

# What is taken away, given back, and what is left to choose from.
my @ways = (
    [ 'the branch', [ $east, $west ],
        "update branches set status = 'INACTIVE' $of_north",
        "update branches set status = 'ACTIVE' $of_north" ],
    [ 'the grant', [ $east, $west ],
        "delete from branch_grants $of_north",
        "insert into branch_grants (member_id, branch_id, workspace_id)
         select member_id, '$north', workspace_id from members $member" ],
    [ 'the member', [],
        "update members set status = 'INACTIVE' $member",
        "update members set status = 'ACTIVE' $member" ],
    [ 'the workspace', [],
        "update workspaces set status = 'INACTIVE' $workspace",
        "update workspaces set status = 'ACTIVE' $workspace" ],
);

for my $way (@ways) {
    my ($name, $left, $take, $give) = @$way;
    my ($scoped, $free) = (login(), login());
    is select_branch($scoped->{accountAccessToken}, $north)->status, 200,
        "$name: before";
    $pg->sql($take);

    is_deeply ids(login()->{branches}), $left, "$name gone: login";
    for my $s ($scoped, $free) {
        is_problem(select_branch($s->{accountAccessToken}, $north), 403,
            'AUTH_BRANCH_NOT_SELECTABLE', "$name gone: select-branch");
    }
    my $res = refresh($free->{refreshToken});
    is_deeply ids($res->json->{branches}), $left,
        "$name gone: refresh without scope";
    my $lost = refresh($scoped->{refreshToken});
    is $lost->status, 200, "$name gone: refresh in its scope";
    is $lost->json->{nextAction}{type}, 'select_branch',
        "$name gone: choose again";
    is $lost->json->{accessToken}, undef, "$name gone: no branch token";
    is_deeply ids($lost->json->{branches}), $left,
        "$name gone: of what is left";
    if (@$left) {
        $res = select_branch($lost->json->{accountAccessToken}, $east);
        is_deeply [ sort @{ (jwt_decode($res->json->{accessToken}))[1]
            {branch_ids} } ], $left, "$name gone: branch_ids";
    }

    $pg->sql($give);
    is_deeply ids(login()->{branches}), $all, "$name back: login";
    $res = select_branch(login()->{accountAccessToken}, $north);
    is_deeply [ sort @{ (jwt_decode($res->json->{accessToken}))[1]
        {branch_ids} } ], $all, "$name back: select-branch and branch_ids";
}

# Their order: names by their bytes, then ids; and with a scope those of its
# workspace alone.

my ($first, $second) = map { sprintf '00000000-0000-4000-8000-0005%08d', $_ }
    901, 902;
$pg->sql("insert into branches (branch_id, workspace_id, branch_name)
    select id::uuid, workspace_id, name from workspaces, (values
        ('$second', 'Twin'), ('$first', 'Twin')) as twins (id, name)
    $workspace");
$pg->sql("insert into workspaces (workspace_id, tenant_id, workspace_name)
    select '00000000-0000-4000-8000-000200000900', tenant_id, 'an other'
    from workspaces $workspace");
$pg->sql("insert into branches (branch_id, workspace_id, branch_name) values
    ('00000000-0000-4000-8000-000500000903',
        '00000000-0000-4000-8000-000200000900', '\xc3\x84rger'),
    ('00000000-0000-4000-8000-000500000904',
        '00000000-0000-4000-8000-000200000900', 'Zoo')");
$pg->sql("insert into members (member_id, account_id, workspace_id)
    select '00000000-0000-4000-8000-000400000900', account_id,
        '00000000-0000-4000-8000-000200000900'
    from accounts where account_name = 'several\@demo.test'");
$pg->sql("insert into branch_grants (member_id, branch_id, workspace_id)
    select m.member_id, b.branch_id, b.workspace_id
    from members m join branches b using (workspace_id)
    join accounts a using (account_id)
    where a.account_name = 'several\@demo.test'
      and b.branch_id::text ~ '0009..\$'");
my @own = ($east, $north, $west, $first, $second);
my @others = map { sprintf '00000000-0000-4000-8000-0005%08d', $_ } 904, 903;
my $s = login();
is_deeply ids($s->{branches}), [ @own, @others ],
    'by workspace, name and id, byte for byte';
is select_branch($s->{accountAccessToken}, $second)->status, 200, 'a scope';
my $answer = refresh($s->{refreshToken})->json;
is_deeply ids($answer->{branches}), \@own, "its workspace's branches alone";
is_deeply((jwt_decode($answer->{accessToken}))[1]{branch_ids}, \@own,
    'and branch_ids, in that order');
is_deeply((jwt_decode(select_branch($s->{accountAccessToken}, uc $second)
    ->json->{accessToken}))[1]{branch_ids}, \@own, 'also when selected');
is select_branch($answer->{accountAccessToken}, $west)->status, 200,
    'another of them can be selected';
is_problem(select_branch($answer->{accountAccessToken}, $others[0]), 403,
    'AUTH_BRANCH_NOT_SELECTABLE', 'one of the other workspace cannot');
$pg->sql("update branches set status = 'INACTIVE'
    where branch_id = '$west'");
$answer = refresh($answer->{refreshToken})->json;
is_deeply ids($answer->{branches}),
    [ grep({ $_ ne $west } @own), @others ], 'its scope lost: all there are';
is select_branch($answer->{accountAccessToken}, $others[0])->status, 200,
    'in any workspace';
$pg->sql("update branches set status = 'ACTIVE' where branch_id = '$west'");

# Nothing at all to choose from, in a session without a scope.

my $empty = http_post($port, '/api/auth/login', json => {
    account => 'none@demo.test', credential => 'Demo-passw0rd!' })->json;
my $nothing = refresh($empty->{refreshToken});
is $nothing->status, 200, 'no branches: refresh';
is_deeply $nothing->json->{branches}, [], 'no branches: an empty list';
is_problem(select_branch($nothing->json->{accountAccessToken}, $_), 403,
    'AUTH_BRANCH_NOT_SELECTABLE', "no branches: select-branch of $_")
    for $north, '00000000-0000-0000-0000-000000000000', 'none';

# The account: no login, no selection, and a refresh ends its session.

my ($one, $other) = (login(), login());
$pg->sql("update accounts set status = 'DISABLED'
    where account_name = 'several\@demo.test'");
is_problem(http_post($port, '/api/auth/login', json => {
    account => 'several@demo.test', credential => 'Demo-passw0rd!' }), 401,
    'AUTH_INVALID_CREDENTIALS', 'the account gone: login');
is_problem(select_branch($one->{accountAccessToken}, $north), 401,
    'AUTH_SESSION_NOT_ACTIVE', 'the account gone: select-branch');
is_problem(refresh($one->{refreshToken}), 401, 'AUTH_SESSION_NOT_ACTIVE',
    'the account gone: refresh');
$pg->sql("update accounts set status = 'ACTIVE'
    where account_name = 'several\@demo.test'");
is_problem(refresh($one->{refreshToken}), 401, 'AUTH_SESSION_NOT_ACTIVE',
    'the account back: a session that was refused is over');
is refresh($other->{refreshToken})->status, 200,
    'the account back: one that was not asked for goes on';

$t->done;
