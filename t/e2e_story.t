# The whole story of a session, through the rendered templates: gateway,
# identity face, identity-fcgi, PostgreSQL and the downstream stub.

use Platform::Test;

my $t = Platform::Test->new;
my $s = $t->full_stack;

my $COOKIE = 'platform_refresh_token';
my $ONE = '00000000-0000-4000-8000-000300000001';
my $SEVERAL = '00000000-0000-4000-8000-000300000003';

# Exactly one branch: the session has its scope at once.

my $res = $s->login('one');
is $res->status, 200, 'one: login';
is $res->code, 'AUTH_LOGIN_SUCCESS', 'with its code';
is $res->header('Content-Type'), 'application/json', 'as JSON';
is $res->header('Cache-Control'), 'no-store', 'kept by no cache';
my $one = $res->json;
is_deeply [ sort keys %$one ], [ sort qw(code message accessToken
    refreshToken tokenType expiresIn nextAction) ], 'no member too many';
is $one->{tokenType}, 'Bearer', 'tokenType';
is $one->{expiresIn}, 900, 'expiresIn';
is_deeply $one->{nextAction}, { type => 'load_current_context' },
    'nextAction: load_current_context';
is $res->cookie($COOKIE), $one->{refreshToken}, 'the cookie holds the refresh token';
like $res->cookie_line($COOKIE), qr/; HttpOnly/i, 'HttpOnly';

my ($header, $claims) = jwt_decode($one->{accessToken});
is_deeply $header, { alg => 'RS256', typ => 'JWT', kid => jwt_key('identity')->kid },
    'the header of a token';
is $claims->{account_id}, $ONE, 'issued for the account';
is $claims->{sub}, $ONE, 'which is the subject';
is "@$claims{qw(typ token_type token_scope)}", 'access workspace BRANCH', 'a branch token';
is $claims->{exp} - $claims->{iat}, 900, 'for fifteen minutes';
my $refresh_claims = (jwt_decode($one->{refreshToken}))[1];
is_deeply [ sort keys %$refresh_claims ],
    [ sort qw(iss iat exp jti sub account_id session_id token_type) ],
    'the claims of a refresh token';
is $refresh_claims->{session_id}, $claims->{session_id}, 'of one session';

$res = $s->current_context($one->{accessToken});
is $res->status, 200, 'one: current-context';
like $res->body, qr/\Q$ONE\E/, 'downstream knows the account';
unlike $res->body, qr/\Q$one->{refreshToken}\E/, 'but not the session secret';

# Several branches: no scope before one is selected.

$res = $s->login('several');
is $res->status, 200, 'several: login';
my $several = $res->json;
ok !exists $several->{accessToken}, 'no branch token yet';
is_deeply $several->{nextAction}, { type => 'select_branch' }, 'nextAction: select_branch';
is_deeply [ map { $_->{branchName} } @{ $several->{branches} } ],
    [ 'Harbour East', 'Harbour North', 'Harbour West' ],
    'the three selectable branches, sorted';
is_deeply [ sort keys %{ $several->{branches}[0] } ],
    [qw(branchId branchName workspaceId workspaceName)], 'what each says';
is "@{ (jwt_decode($several->{accountAccessToken}))[1] }{qw(token_type
    token_scope account_id)}", "account ACCOUNT $SEVERAL", 'an account token';

$res = $s->current_context($several->{accountAccessToken});
is $res->status, 403, 'an account token opens no business API';
is $res->code, 'GATEWAY_CONTEXT_FORBIDDEN', 'and the answer says so';

my $branch = $several->{branches}[1];
$res = $s->post('/api/auth/select-branch', { branchId => $branch->{branchId} },
    token => $several->{accountAccessToken});
is $res->status, 200, 'several: select-branch';
is $res->code, 'AUTH_SELECT_BRANCH_SUCCESS', 'with its code';
my $selected = $res->json;
is_deeply $selected->{nextAction}, { type => 'load_current_context' },
    'nextAction: load_current_context';
$claims = (jwt_decode($selected->{accessToken}))[1];
is $claims->{active_branch_id}, $branch->{branchId}, 'the branch selected';
is $claims->{workspace_id}, $branch->{workspaceId}, 'in its workspace';
is_deeply [ sort @{ $claims->{branch_ids} } ],
    [ sort map { $_->{branchId} } @{ $several->{branches} } ],
    'branch_ids are the selectable ones';

$res = $s->current_context($selected->{accessToken});
is $res->status, 200, 'several: current-context';
like $res->body, qr/\Q$branch->{branchId}\E/, 'downstream knows the branch';

# Refresh: rotated, still in scope.

$res = $s->refresh($several->{refreshToken});
is $res->status, 200, 'several: refresh';
is $res->code, 'AUTH_REFRESH_SUCCESS', 'with its code';
my $refreshed = $res->json;
isnt $refreshed->{refreshToken}, $several->{refreshToken}, 'a new token';
is $res->cookie($COOKIE), $refreshed->{refreshToken}, 'in the cookie too';
is $s->current_context($refreshed->{accessToken})->status, 200, 'its branch token works';
is((jwt_decode($refreshed->{accessToken}))[1]{active_branch_id},
    $branch->{branchId}, 'for the branch selected');

$res = $s->refresh($several->{refreshToken});
is $res->status, 401, 'the token before is refused';
is $res->code, 'AUTH_REFRESH_TOKEN_STALE', 'as stale';

# By cookie, as a browser does.

$res = $s->post('/api/auth/refresh', undef, cookie => "$COOKIE=$refreshed->{refreshToken}");
is $res->status, 200, 'several: refresh by cookie alone';
my $last = $res->json;

# Logout, and nothing after it.

$res = $s->post('/api/auth/logout', undef, cookie => "$COOKIE=$last->{refreshToken}");
is $res->status, 200, 'several: logout';
is $res->code, 'AUTH_LOGOUT_SUCCESS', 'with its code';
like $res->cookie_line($COOKIE), qr/; Max-Age=0(?:;|$)/i, 'the cookie is cleared';

$res = $s->refresh($last->{refreshToken});
is $res->status, 401, 'a refresh after logout is refused';
is $res->code, 'AUTH_SESSION_NOT_ACTIVE', 'as of no active session';
ok eventually(sub {
    $s->current_context($last->{accessToken})->status == 401;
}), 'an access token passes the gateway no more';
is $s->post('/api/auth/logout', undef)->code, 'AUTH_LOGOUT_SUCCESS',
    'logout with no token at all succeeds';

# The other session never noticed.

is $s->refresh($one->{refreshToken})->status, 200, 'one: its session lives on';
is $s->postgres->sql(
    'select status, count(*) from auth_sessions group by 1 order by 1'),
    "ACTIVE|1\nREVOKED|1", 'and the table says the same';

# One line of access log a request, and no secret in any log.

my @lines = $s->nginx->access_lines(10);
my ($line) = grep { $_->{path} eq '/api/workspaces/current-context'
        && $_->{status} == 200 } @lines;
is $line->{accountId}, $ONE, 'the access log knows the account';
is $line->{routeId}, 'entitlement-workspaces', 'and the route';

$t->finish;
my $logs = join '', map { $t->read_file("logs/$_") // '' } qw(error.log access.log);
$logs .= $s->identity->log_text;
for my $secret ($one->{accessToken}, $one->{refreshToken},
    $several->{accountAccessToken}, $last->{refreshToken},
    $Platform::Test::Stack::CREDENTIAL)
{
    my $signature = $secret =~ /([^.]+)\z/ ? $1 : $secret;
    ok index($logs, $signature) < 0, 'a secret stands in no log';
}

$t->done;
