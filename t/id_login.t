# Login and select-branch: what each kind of account gets, the session that a login opens,
# what may be selected and what that changes, that every refusal of a login looks the same,
# also while its account changes.  (The members of answers: http_api.t; which refusal comes
# first: check_route and the unit program of each endpoint.)

use Platform::Test;
use Platform::Test::Client;

my $t = Platform::Test->new;
my $identity = $t->identity_face(
    PLATFORM_JWT_ACCESS_TOKEN_TTL  => '10m',
    PLATFORM_JWT_REFRESH_TOKEN_TTL => '2h',
    PLATFORM_AUTH_MAX_FAILURES     => 0,
);
my $pg = $t->postgres;
my $port = client_of($t);
my $CREDENTIAL = $Platform::Test::Client::CREDENTIAL;
my $COOKIE = $Platform::Test::Client::COOKIE;

sub ids { return [ map { $_->{branchId} } @{ $_[0]{branches} } ] }

# What a refresh gives, with the account token.
sub refreshed ($session) {
    my $res = refresh($session, more => { includeAccountToken => \1 });
    is $res->status, 200, 'a refresh' or diag $res->body;
    return $res->json;
}

sub branch_ids { return claims($_[0]{accessToken})->{branch_ids} }

# -- one branch: scope at once (claims in full: check_token)

my $res = login('one');
my $json = $res->json;
is_deeply [ $res->status, @$json{qw(tokenType expiresIn)}, $json->{nextAction}{type} ],
    [ 200, 'Bearer', 600, 'load_current_context' ], 'one branch: the answer';
my ($access, $refresh) = map { claims($_) } $json->{accessToken}, $json;
is_deeply [ @$access{qw(token_scope account_type sub branch_ids roles)} ],
    [ 'BRANCH', 'CUSTOMER', $access->{account_id}, [ $access->{active_branch_id} ],
        [qw(BRANCH_MANAGER CASHIER)] ], 'its token';
is_deeply [ @$json{qw(accountId sessionId workspaceId activeBranchId)} ],
    [ @$access{qw(account_id session_id workspace_id active_branch_id)} ],
    'the answer says whose it is, as the token does';
is_deeply [ map { $_->{exp} - $_->{iat} } $access, $refresh ], [ 600, 7200 ], 'how long they live';
is $res->cookie_line($COOKIE), "$COOKIE=$json->{refreshToken}; Path=/api/auth; "
    . 'Max-Age=7200; HttpOnly; SameSite=Lax', 'the cookie';
is row($json, qw(account_id workspace_id member_id active_branch_id jti status),
    'revoked_at is null, extract(epoch from expires_at)::bigint'),
    join('|', @$access{qw(account_id workspace_id member_id active_branch_id)},
        $refresh->{jti}, 'ACTIVE', 't', $refresh->{exp}), 'the session row';

# -- several branches, two workspaces, none: a choice

$json = logged_in('several');
is claims($json->{accountAccessToken})->{token_scope}, 'ACCOUNT', 'its token';
is row($json, 'num_nulls(workspace_id, member_id, active_branch_id)'), 3,
    'a session without scope';
my %choices = (
    several => [ map {"Harbour Cafes/Harbour $_"} qw(East North West) ],
    'two-workspaces' => [ 'North Works/North Hall', 'South Works/South Hall' ],
    none => [],
);
for my $who (sort keys %choices) {
    my $json = logged_in($who);
    is_deeply [ $json->{nextAction}{type}, map {"$_->{workspaceName}/$_->{branchName}"}
        @{ $json->{branches} } ], [ 'select_branch', @{ $choices{$who} } ], "$who: its branches";
}
is scalar @{ logged_in('two-hundred')->{branches} }, 200, 'two hundred branches';

# -- the account's name is folded, the credential is not; other bytes count exactly

$pg->sql("insert into accounts (account_name, credential_hash)
    select U&'jos\\00e9\@demo.test', credential_hash from accounts
    where account_name = 'one\@demo.test'");
my %body;
for my $case (
    [ 200, " One\@Demo.Test\t\n" ], [ 200, "JOS\x{e9}\@Demo.Test" ],
    [ 401, "jos\x{c9}\@demo.test" ], [ 401, "jose\x{301}\@demo.test" ],
    [ 401, 'one', " $CREDENTIAL" ], [ 401, 'one', lc $CREDENTIAL ],
    [ 401, 'nobody' ], [ 401, 'disabled' ], [ 401, 'disabled', 'wrong' ],
    )
{
    my ($status, $who, $credential) = @$case;
    $res = login($who, credential => $credential);
    my $name = join ' ', map { s/[^ -~]/?/gr } grep {defined} @$case[ 1, 2 ];
    is $res->status, $status, "$name: $status";
    next if $status == 200;
    is_problem($res, 401, 'AUTH_INVALID_CREDENTIALS', $name);
    is cookies($res), 0, "$name: no cookie";
    $body{ $res->body =~ s/"requestId":"[^"]*"//r }++;
}
is scalar keys %body, 1, 'all refusals have one body';
is $pg->sql("select count(*) from auth_sessions s join accounts using (account_id)
    where account_name = 'one\@demo.test' and s.status = 'ACTIVE'"), 2,
    'a login never touches older sessions, a refused one opens none';

# -- select-branch: what may be selected with what, and what it changes.  Selectable means
#    account, workspace, member and branch all active and the branch granted: whichever of
#    them is missing, login, select-branch, refresh and the token's branch_ids agree about it.

my $key = jwt_key('identity');
my ($east, $north, $west) = map { branch($_) } 31, 32, 33;
my ($closed, $office, $elsewhere) = map { branch($_) } 34, 35, 1;

my $several = logged_in('several');
my $account = $several->{accountAccessToken};
$res = select_branch($several, $north);
is_deeply [ $res->status, cookies($res), $res->json->{nextAction}{type} ],
    [ 200, 0, 'load_current_context' ], 'a selectable branch; no cookie is touched';
my $branch_token = $res->json->{accessToken};
my $claims = claims($branch_token);
is_deeply [ @{ $res->json }{qw(accountId sessionId workspaceId activeBranchId)} ],
    [ @$claims{qw(account_id session_id workspace_id active_branch_id)} ],
    'and whose token it is';
is_deeply [ @$claims{qw(active_branch_id session_id branch_ids)} ],
    [ $north, session_of($several), [ $east, $north, $west ] ],
    'the token names the branch, this session and the selectable ones';
is row($several, qw(active_branch_id member_id workspace_id jti)),
    join('|', $north, @$claims{qw(member_id workspace_id)}, claims($several)->{jti}),
    'the session has the scope; its refresh token is not rotated';
is select_branch($several, uc $west)->status, 200, 'another one, in capitals';

# -- one answer for everything that cannot be selected

is_problem(select_branch($several, $_), 403, 'AUTH_BRANCH_NOT_SELECTABLE', substr $_, 0, 50)
    for $closed, $office, $elsewhere, uuid(), '', 'x' x 9000, "{$north}", "$north' or '1'='1";
is row($several, 'active_branch_id'), $west, 'the last selection wins, and no refusal';

# A session without scope may select in any workspace, one with scope only in its
# own: also if it had none yet when it was read.

my ($here, $there) = map { branch($_) } 41, 51;
my $two = logged_in('two-workspaces');
is_deeply ids($two), [ $here, $there ], 'two workspaces';
is select_branch($two, $here)->status, 200, 'the first one';
is_problem(select_branch($two, $there), 403, 'AUTH_BRANCH_NOT_SELECTABLE', 'then not the second');
my $answer = refreshed($two);
is_deeply [ ids($answer), branch_ids($answer) ], [ ([$here]) x 2 ], 'nor is it offered';
$pg->sql("update branches set status = 'INACTIVE' where branch_id = '$here'");
is_deeply ids($answer = refreshed($answer)), [$there], 'the scope is lost: all there are';
is select_branch($answer, $there)->status, 200, 'in any workspace';
$pg->sql("update branches set status = 'ACTIVE' where branch_id = '$here'");
for my $case ([ commit => 403, $here ], [ rollback => 200, $there ]) {
    my ($how, $status, $left) = @$case;
    my $s = logged_in('two-workspaces');
    my $first = $pg->begin("update auth_sessions s set workspace_id =
        b.workspace_id, member_id = b.member_id, active_branch_id = b.branch_id
        from selectable_branches b where s.session_id = '@{[ session_of($s) ]}'
        and b.account_id = s.account_id and b.branch_id = '$here'");
    my $second = sent('select-branch', { branchId => $there },
        token => $s->{accountAccessToken});
    ok $pg->waiting(1), 'a selection waits for another';
    ok $pg->end($first, $how), "the first one, $how";
    is_deeply [ $second->read_response->status, row($s, 'active_branch_id') ],
        [ $status, $left ], "then the second: $status";
}

# -- which token, and which session (more of them: check_select_logout)

my $own = claims($account);
my $made = sub { jwt_token('account', $key, %$own, @_) };
my ($ended, $expired) = map { logged_in('several') } 1, 2;
logout($ended);
alter($expired, "created_at = now() - interval '1 hour',
    expires_at = date_trunc('second', clock_timestamp())");
my @OVER = (401, 'AUTH_SESSION_NOT_ACTIVE');
for my $case (
    [ "of another account's" => $made->(account_id => uuid(3), sub => uuid(3)), @OVER ],
    [ 'after logout'   => $ended, @OVER ],
    [ 'of an expired session' => $expired, @OVER ],
    )
{
    my ($name, $token, @want) = @$case;
    is_problem(select_branch($token, $north), @want, $name);
}
is select_branch($made->(exp => time - 15), $north)->status, 200, 'within the leeway';

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

# By name (which bytes come first: check_store_branches).
$pg->sql("update branches set branch_name = 'A West' where branch_id = '$west'");
my $named = logged_in('several');
is_deeply [ ids($named), branch_ids(select_branch($named, $north)->json) ],
    [ ([ $west, $east, $north ]) x 2 ], 'in the order of their names';

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
        refresh($one) ], [ $answer, 401, 401 ],
        "$status: login, select-branch, and a refresh: its sessions have ended for good";
}

# -- a weaker stored hash is replaced, also by many at once

my $hash_of = sub { $pg->sql("select credential_hash from accounts
    where account_name = '$_[0]\@demo.test'") };
my $weak = $hash_of->('several');
like $weak, qr/\$m=19456,t=2,p=1\$/, 'from this';
restart($identity, AUTH_ARGON2_ITERATIONS => 3);

sub begun ($who) {
    return sent(login => { account => "$who\@demo.test", credential => $CREDENTIAL });
}

my %rehashed = map { ($_->read_response->status => 1) } map { begun('several') } 1 .. 4;
delete $rehashed{503};    # a slow machine's
is_deeply \%rehashed, { 200 => 1 }, 'four logins that rehash';
my $anew = $hash_of->('several');
like $anew, qr/\$m=19456,t=3,p=1\$/, 'to that';

# -- an operator changes the account between check and session: what was checked is
#    good no more, unless it is but hashed anew

for my $case (
    [ 401, "status = 'DISABLED'", 'disabled meanwhile' ],
    [ 401, "credential_hash = '" . $anew =~ s/.(?=.{4}\z)/$& eq 'A' ? 'B' : 'A'/er . "'",
        'another credential meanwhile' ],
    [ 200, "credential_hash = '$anew'", 'hashed anew meanwhile' ],
    )
{
    my ($status, $set, $name) = @$case;
    my $where = "where account_name = 'one\@demo.test'";
    $pg->sql("update accounts set status = 'ACTIVE', credential_hash = '$weak' $where");
    my $sessions = sub { $pg->sql("select count(*) from auth_sessions where status = 'ACTIVE'") };
    my $before = $sessions->();
    my $operator = $pg->begin("update accounts set $set $where");
    my $c = begun('one');
    ok $pg->waiting(1), "$name: the login waits";
    ok $pg->end($operator, 'commit'), "$name: it is committed";
    is_deeply [ $c->read_response->status, $sessions->() ],
        [ $status, $before + ($status == 200) ], "$name: is a session opened?";
}

unlike $identity->log_text, qr/passw0rd|eyJ/, 'no secret in the log';

$t->done;
