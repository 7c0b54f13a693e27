# Select-branch: what may be selected with what, and what it changes.  Selectable
# means account, workspace, member and branch all active and the branch granted:
# whichever of them is missing, login, select-branch, refresh and the token's
# branch_ids agree about it.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Http;

my $t = Platform::Test->new;
my $identity = $t->identity_face(PLATFORM_AUTH_MAX_FAILURES => 0);
my $pg = $t->postgres;
my $port = client_of($t);
my $key = jwt_key('identity');
my ($east, $north, $west) = map { branch($_) } 31, 32, 33;
my ($closed, $office, $elsewhere) = map { branch($_) } 34, 35, 1;

my $several = logged_in('several');
my $account = $several->{accountAccessToken};
my $res = select_branch($several, $north);
is_deeply [ $res->status, $res->header('Cache-Control'), cookies($res),
    $res->json->{code}, $res->json->{nextAction}{type} ],
    [ 200, 'no-store', 0, 'AUTH_SELECT_BRANCH_SUCCESS', 'load_current_context' ],
    'a selectable branch; no cookie is touched';
is_deeply [ sort keys %{ $res->json } ],
    [ sort qw(code message accessToken tokenType expiresIn nextAction) ],
    'its members';
my $branch_token = $res->json->{accessToken};
my $claims = claims($branch_token);
is_deeply [ @$claims{qw(active_branch_id session_id branch_ids)} ],
    [ $north, session_of($several), [ $east, $north, $west ] ],
    'the token names the branch, this session and the selectable ones';
is row($several, qw(active_branch_id member_id workspace_id jti)),
    join('|', $north, @$claims{qw(member_id workspace_id)}, claims($several)->{jti}),
    'the session has the scope; its refresh token is not rotated';
is select_branch($several, uc $west)->status, 200, 'another one, in capitals';
is row($several, 'active_branch_id'), $west, 'the last selection wins';

# -- one answer for everything that cannot be selected

my %refused = (
    inactive => $closed, 'not granted' => $office, elsewhere => $elsewhere,
    unknown => uuid(), empty => '', 'no UUID' => 'north', long => 'x' x 9000,
    'nearly one' => substr($north, 0, 35), braces => "{$north}",
    injection => "$north' or '1'='1", unicode => "\x{10ffff}",
);
is_problem(select_branch($several, $refused{$_}), 403, 'AUTH_BRANCH_NOT_SELECTABLE', $_)
    for sort keys %refused;
is row($several, 'active_branch_id'), $west, 'none of which changed anything';

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
    my $second = Platform::Test::Http->new(port => $port);
    $second->send(http_request_bytes(POST => '/api/auth/select-branch',
        token => $s->{accountAccessToken}, json => { branchId => branch(51) }));
    ok $pg->waiting(1), 'a selection waits for another';
    ok $pg->end($first, $how), "the first one, $how";
    is $second->read_response->status, $status, "then the second: $status";
    is row($s, 'active_branch_id'), $left, 'what it selects';
}

# -- which token, and which session

my $own = claims($account);
my $made = sub { jwt_token('account', $key, %$own, @_) };
my $unscoped = logged_in('several');
logout($unscoped);
my $now = time;
my %tokens = (
    'no token'        => [ REQUIRED => undef ],
    'a branch token'  => [ REQUIRED => $branch_token ],
    'a refresh token' => [ REQUIRED => $several->{refreshToken} ],
    'a tampered one'  => [ REQUIRED => jwt_tamper($account, 2, 0) ],
    'an expired one'  => [ REQUIRED => $made->(exp => $now - 31) ],
    'a foreign one'   => [ REQUIRED => jwt_token('account', jwt_key('other'), %$own) ],
    'another issuer'  => [ REQUIRED => $made->(iss => 'http://x') ],
    'a system token'  => [ REQUIRED => jwt_token('system', $key,
        session_id => $own->{session_id}, iss => $own->{iss}) ],
    'of no session'   => [ OVER => $made->(session_id => uuid()) ],
    "of another account's" => [ OVER => $made->(account_id => uuid(3), sub => uuid(3)) ],
    'after logout'    => [ OVER => $unscoped->{accountAccessToken} ],
    'within the leeway' => [ GOOD => $made->(exp => $now - 15) ],
);
for my $name (sort keys %tokens) {
    my ($what, $token) = @{ $tokens{$name} };
    $res = select_branch($token, $north);
    is $res->status, 200, $name if $what eq 'GOOD';
    is_problem($res, 401, $what eq 'OVER' ? 'AUTH_SESSION_NOT_ACTIVE'
        : 'AUTH_ACCOUNT_TOKEN_REQUIRED', $name) if $what ne 'GOOD';
    is $res->header('WWW-Authenticate'), 'Bearer realm="platform"'
        . (defined $token ? ', error="invalid_token"' : ''), "$name: the challenge"
        if $what eq 'REQUIRED';
}
is call('select-branch', { branchId => $north },
    headers => [ Authorization => "bearer $account" ])->status, 200,
    'the scheme in small letters';
is_problem(call('select-branch', $_, token => $account), 400, 'REQUEST_INVALID',
    'no string') for {}, { branchId => undef }, { branchId => 7 }, { branchId => [$north] };

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
is_problem(select_branch($nothing, $_), 403, 'AUTH_BRANCH_NOT_SELECTABLE',
    "no branches: select-branch of $_")
    for $north, '00000000-0000-0000-0000-000000000000';
my ($one, $two_more) = map { logged_in('several') } 1, 2;
for my $status (qw(DISABLED ACTIVE)) {
    $pg->sql("update accounts set status = '$status' where account_name = 'several\@demo.test'");
    my $gone = $status eq 'DISABLED';
    is login('several')->status, $gone ? 401 : 200, "$status: login";
    is select_branch($two_more, $north)->status, $gone ? 401 : 200, "$status: select-branch";
    is_problem(refresh($one), 401, 'AUTH_SESSION_NOT_ACTIVE',
        "$status: a session that a refresh was refused is over");
}
is refresh($two_more)->status, 200, 'one that was not asked for goes on';

unlike $identity->log_text, qr/eyJ/, 'no token in the log';

$t->done;
