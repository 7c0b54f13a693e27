# Select-branch: what may be selected with what, and what it changes.  Selectable
# means account, workspace, member and branch all active and the branch granted:
# whichever of them is missing, login, select-branch, refresh and the token's
# branch_ids agree about it.

use Platform::Test;
use Platform::Test::Client;

my $t = Platform::Test->new;
my $identity = $t->identity_face(PLATFORM_AUTH_MAX_FAILURES => 0);
my $pg = $t->postgres;
client_of($t);
my $key = jwt_key('identity');
my ($east, $north, $west) = map { branch($_) } 31, 32, 33;
my ($closed, $office, $elsewhere) = map { branch($_) } 34, 35, 1;

my $several = logged_in('several');
my $account = $several->{accountAccessToken};
my $res = select_branch($several, $north);
is_deeply [ $res->status, $res->header('Cache-Control'), cookies($res), $res->code,
    $res->json->{nextAction}{type}, sort keys %{ $res->json } ],
    [ 200, 'no-store', 0, 'AUTH_SELECT_BRANCH_SUCCESS', 'load_current_context',
        sort qw(code message accessToken tokenType expiresIn nextAction) ],
    'a selectable branch: its members; no cookie is touched';
my $branch_token = $res->json->{accessToken};
my $claims = claims($branch_token);
is_deeply [ @$claims{qw(active_branch_id session_id branch_ids)} ],
    [ $north, session_of($several), [ $east, $north, $west ] ],
    'the token names the branch, this session and the selectable ones';
is row($several, qw(active_branch_id member_id workspace_id jti)),
    join('|', $north, @$claims{qw(member_id workspace_id)}, claims($several)->{jti}),
    'the session has the scope; its refresh token is not rotated';
is select_branch($several, uc $west)->status, 200, 'another one, in capitals';

# -- one answer for everything that cannot be selected

my %refused = (
    inactive => $closed, 'not granted' => $office, elsewhere => $elsewhere,
    unknown => uuid(), empty => '', long => 'x' x 9000, braces => "{$north}",
    injection => "$north' or '1'='1", unicode => "\x{10ffff}",
);
is_problem(select_branch($several, $refused{$_}), 403, 'AUTH_BRANCH_NOT_SELECTABLE', $_)
    for sort keys %refused;
is row($several, 'active_branch_id'), $west, 'the last selection wins, and no refusal';

# A session without scope may select in any workspace, one with scope only in its
# own: also if it had none yet when it was read.

my $two = logged_in('two-workspaces');
is select_branch($two, branch(41))->status, 200, 'the first workspace';
is_problem(select_branch($two, branch(51)), 403, 'AUTH_BRANCH_NOT_SELECTABLE',
    'then not the second');
is select_branch(logged_in('two-workspaces'), branch(51))->status, 200, 'a new session may';
for my $case ([ commit => 403, branch(41) ], [ rollback => 200, branch(51) ]) {
    my ($how, $status, $left) = @$case;
    my $s = logged_in('two-workspaces');
    my $first = $pg->begin("update auth_sessions s set workspace_id =
        b.workspace_id, member_id = b.member_id, active_branch_id = b.branch_id
        from selectable_branches b where s.session_id = '@{[ session_of($s) ]}'
        and b.account_id = s.account_id and b.branch_id = '@{[ branch(41) ]}'");
    my $second = sent('select-branch', { branchId => branch(51) },
        token => $s->{accountAccessToken});
    ok $pg->waiting(1), 'a selection waits for another';
    ok $pg->end($first, $how), "the first one, $how";
    is_deeply [ $second->read_response->status, row($s, 'active_branch_id') ],
        [ $status, $left ], "then the second: $status";
}

# -- which token, and which session

my $own = claims($account);
my $made = sub { jwt_token('account', $key, %$own, @_) };
my ($unscoped, $expired) = map { logged_in('several') } 1, 2;
logout($unscoped);
alter($expired, "created_at = now() - interval '1 hour',
    expires_at = date_trunc('second', clock_timestamp())");
my @REQUIRED = (401, 'AUTH_ACCOUNT_TOKEN_REQUIRED');
my @OVER = (401, 'AUTH_SESSION_NOT_ACTIVE');
my %tokens = (
    'no token'        => [ undef, @REQUIRED ],
    'a branch token'  => [ $branch_token, @REQUIRED ],
    'an expired one'  => [ $made->(exp => time - 31), @REQUIRED ],
    'a foreign one'   => [ jwt_token('account', jwt_key('other'), %$own), @REQUIRED ],
    'a system token'  => [ jwt_token('system', $key, session_id => $own->{session_id},
        iss => $own->{iss}), @REQUIRED ],
    'of no session'   => [ $made->(session_id => uuid()), @OVER ],
    "of another account's" => [ $made->(account_id => uuid(3), sub => uuid(3)), @OVER ],
    'after logout'    => [ $unscoped->{accountAccessToken}, @OVER ],
    'of an expired session' => [ $expired->{accountAccessToken}, @OVER ],
);
for my $name (sort keys %tokens) {
    my ($token, @want) = @{ $tokens{$name} };
    is_problem($res = select_branch($token, $north), @want, $name);
    is $res->header('WWW-Authenticate'), 'Bearer realm="platform"'
        . (defined $token ? ', error="invalid_token"' : ''), "$name: the challenge";
}
is select_branch($made->(exp => time - 15), $north)->status, 200, 'within the leeway';
is_problem(call('select-branch', { branchId => [$north] }, token => $account), 400,
    'REQUEST_INVALID', 'no string');

# -- what is taken away and given back, and what is left to choose from

my $all = [ $east, $north, $west ];
my $of_north = "where branch_id = '$north'";
my $workspace = "where workspace_id = (select workspace_id from branches $of_north)";
my $member = "$workspace and account_id = '$own->{account_id}'";
my @ways = (
    [ 'the branch', [ $east, $west ],
        map {"update branches set status = '$_' $of_north"} qw(INACTIVE ACTIVE) ],
    [ 'the grant', [ $east, $west ], "delete from branch_grants $of_north",
        "insert into branch_grants (member_id, branch_id, workspace_id)
         select member_id, '$north', workspace_id from members $member" ],
    [ 'the member', [], map {"update members set status = '$_' $member"} qw(INACTIVE ACTIVE) ],
    [ 'the workspace', [],
        map {"update workspaces set status = '$_' $workspace"} qw(INACTIVE ACTIVE) ],
);

sub ids { return [ map { $_->{branchId} } @{ $_[0]{branches} } ] }

# What a refresh gives, with the account token.
sub refreshed ($session) {
    my $res = refresh($session, more => { includeAccountToken => \1 });
    is $res->status, 200, 'a refresh' or diag $res->body;
    return $res->json;
}

sub branch_ids { return claims($_[0]{accessToken})->{branch_ids} }

for my $way (@ways) {
    my ($name, $left, $take, $give) = @$way;
    my ($scoped, $free) = map { logged_in('several') } 1, 2;
    is select_branch($scoped, $north)->status, 200, "$name: before";
    $pg->sql($take);
    is_deeply ids(logged_in('several')), $left, "$name gone: login";
    is_problem(select_branch($_, $north), 403, 'AUTH_BRANCH_NOT_SELECTABLE',
        "$name gone: select-branch") for $scoped, $free;
    is_deeply ids(refreshed($free)), $left, "$name gone: refresh without scope";
    my $lost = refreshed($scoped);
    is_deeply [ $lost->{nextAction}{type}, $lost->{accessToken}, ids($lost),
        row($scoped, 'num_nulls(workspace_id, member_id, active_branch_id)') ],
        [ 'select_branch', undef, $left, 3 ], "$name gone: choose again, of what is left";
    is_deeply branch_ids(select_branch($lost, $east)->json), $left,
        "$name gone: branch_ids" if @$left;
    $pg->sql($give);
    is_deeply ids(my $back = logged_in('several')), $all, "$name back: login";
    is_deeply branch_ids(select_branch($back, $north)->json), $all,
        "$name back: select-branch and branch_ids";
}

# -- their order: names by their bytes, then ids; and with a scope those of its
#    workspace alone

my ($first, $second) = map { branch($_) } 901, 902;
my $other = '00000000-0000-4000-8000-000200000900';
$pg->sql("insert into branches (branch_id, workspace_id, branch_name)
    select id::uuid, workspace_id, name from workspaces, (values
        ('$second', 'Twin'), ('$first', 'Twin')) as twins (id, name)
    $workspace;
    insert into workspaces (workspace_id, tenant_id, workspace_name)
    select '$other', tenant_id, 'an other' from workspaces $workspace;
    insert into branches (branch_id, workspace_id, branch_name) values
        ('@{[ branch(903) ]}', '$other', '\xc3\x84rger'),
        ('@{[ branch(904) ]}', '$other', 'Zoo');
    insert into members (account_id, workspace_id) values ('$own->{account_id}', '$other');
    insert into branch_grants (member_id, branch_id, workspace_id)
    select m.member_id, b.branch_id, b.workspace_id
    from members m join branches b using (workspace_id)
    where m.account_id = '$own->{account_id}' and b.branch_id::text ~ '0009..\$'");
my @own = ($east, $north, $west, $first, $second);
my @others = map { branch($_) } 904, 903;
my $s = logged_in('several');
is_deeply ids($s), [ @own, @others ], 'by workspace, name and id, byte for byte';
is select_branch($s, $second)->status, 200, 'a scope';
my $answer = refreshed($s);
is_deeply [ ids($answer), branch_ids($answer),
    branch_ids(select_branch($s, uc $second)->json) ], [ (\@own) x 3 ],
    "its workspace's branches alone, in that order";
is select_branch($answer, $west)->status, 200, 'another of them can be selected';
is_problem(select_branch($answer, $others[0]), 403, 'AUTH_BRANCH_NOT_SELECTABLE',
    'one of the other workspace cannot');
$pg->sql("update branches set status = 'INACTIVE' where branch_id = '$west'");
$answer = refreshed($answer);
is_deeply ids($answer), [ grep({ $_ ne $west } @own), @others ], 'its scope lost: all there are';
is select_branch($answer, $others[0])->status, 200, 'in any workspace';

# -- nothing to choose from, in a session without a scope; and no account

my $nothing = refreshed(logged_in('none'));
is_deeply $nothing->{branches}, [], 'no branches: an empty list';
is_problem(select_branch($nothing, $north), 403, 'AUTH_BRANCH_NOT_SELECTABLE',
    'no branches: select-branch');
my ($one, $other_one) = map { logged_in('several') } 1, 2;
for my $case ([ DISABLED => 401 ], [ ACTIVE => 200 ]) {
    my ($status, $answer) = @$case;
    $pg->sql("update accounts set status = '$status' where account_name = 'several\@demo.test'");
    is_deeply [ map { $_->status } login('several'), select_branch($other_one, $north),
        refresh($one) ], [ $answer, $answer, 401 ],
        "$status: login, select-branch, and a refresh, which ends its session for good";
}
is refresh($other_one)->status, 200, 'one that was not asked for goes on';

unlike $identity->log_text, qr/eyJ/, 'no token in the log';

$t->done;
