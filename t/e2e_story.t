# The whole story of a session, through the rendered templates: gateway,
# identity face, identity-fcgi, PostgreSQL and the downstream stub.

use Platform::Test;

my $t = Platform::Test->new;
my $s = $t->full_stack;

my $COOKIE = 'platform_refresh_token';
my $ONE = '00000000-0000-4000-8000-000300000001';
my $SEVERAL = '00000000-0000-4000-8000-000300000003';

sub claims { return (jwt_decode($_[0]))[1] }

# One test: a status and its code; returns what else was said.
sub answers ($res, $want, $name) {
    is $res->status . ' ' . $res->code, $want, $name;
    return $res->json;
}

# Exactly one branch: the session has its scope at once.

my $res = $s->login('one');
my $one = answers($res, '200 AUTH_LOGIN_SUCCESS', 'one: login');
is_deeply [ map { $res->header($_) } qw(Content-Type Cache-Control) ],
    [ 'application/json', 'no-store' ], 'as JSON, kept by no cache';
is_deeply [ sort keys %$one ], [ sort qw(code message accessToken
    refreshToken tokenType expiresIn nextAction accountId sessionId workspaceId
    activeBranchId) ], 'no member too many';
is_deeply [ @$one{qw(tokenType expiresIn nextAction)} ],
    [ 'Bearer', 900, { type => 'load_current_context' } ], 'what it is, and what is next';
is $res->cookie($COOKIE), $one->{refreshToken}, 'the cookie holds the refresh token';
like $res->cookie_line($COOKIE), qr/; HttpOnly/i, 'HttpOnly';

my ($header, $claims) = jwt_decode($one->{accessToken});
is_deeply $header, { alg => 'RS256', typ => 'JWT', kid => jwt_key('identity')->kid },
    'the header of a token';
is_deeply [ @$claims{qw(account_id sub typ token_type token_scope)},
    $claims->{exp} - $claims->{iat} ], [ $ONE, $ONE, qw(access workspace BRANCH), 900 ],
    'a branch token of the account, for fifteen minutes';
my $refresh_claims = claims($one->{refreshToken});
is_deeply [ sort keys %$refresh_claims ],
    [ sort qw(iss iat exp jti sub aud account_id session_id token_type) ],
    'the claims of a refresh token';
is $refresh_claims->{session_id}, $claims->{session_id}, 'of one session';

$res = $s->current_context($one->{accessToken});
is $res->status, 200, 'one: current-context';
like $res->body, qr/\Q$ONE\E/, 'downstream knows the account';
unlike $res->body, qr/\Q$one->{refreshToken}\E/, 'but not the session secret';

# Several branches: no scope before one is selected.

my $several = answers($s->login('several'), '200 AUTH_LOGIN_SUCCESS', 'several: login');
ok !exists $several->{accessToken}, 'no branch token yet';
is_deeply $several->{nextAction}, { type => 'select_branch' }, 'nextAction: select_branch';
is_deeply [ map { $_->{branchName} } @{ $several->{branches} } ],
    [ 'Harbour East', 'Harbour North', 'Harbour West' ],
    'the three selectable branches, sorted';
is_deeply [ sort keys %{ $several->{branches}[0] } ],
    [qw(branchId branchName workspaceId workspaceName)], 'what each says';
is "@{ claims($several->{accountAccessToken}) }{qw(token_type token_scope account_id)}",
    "account ACCOUNT $SEVERAL", 'an account token';
answers($s->current_context($several->{accountAccessToken}), '403 GATEWAY_CONTEXT_FORBIDDEN',
    'an account token opens no business API');

my $branch = $several->{branches}[1];
my $selected = answers($s->select_branch($several, 1), '200 AUTH_SELECT_BRANCH_SUCCESS',
    'several: select-branch');
is_deeply $selected->{nextAction}, { type => 'load_current_context' },
    'nextAction: load_current_context';
$claims = claims($selected->{accessToken});
is_deeply [ @$claims{qw(active_branch_id workspace_id)} ], [ @$branch{qw(branchId workspaceId)} ],
    'the branch selected, in its workspace';
is_deeply [ sort @{ $claims->{branch_ids} } ],
    [ sort map { $_->{branchId} } @{ $several->{branches} } ],
    'branch_ids are the selectable ones';
$res = $s->current_context($selected->{accessToken});
is $res->status, 200, 'several: current-context';
like $res->body, qr/\Q$branch->{branchId}\E/, 'downstream knows the branch';

# Refresh: rotated, still in scope; then by cookie, as a browser does.

my $good = '200 AUTH_REFRESH_SUCCESS';
$res = $s->refresh($several->{refreshToken});
my $refreshed = answers($res, $good, 'several: refresh');
isnt $refreshed->{refreshToken}, $several->{refreshToken}, 'a new token';
is $res->cookie($COOKIE), $refreshed->{refreshToken}, 'in the cookie too';
is $s->current_context($refreshed->{accessToken})->status, 200, 'its branch token works';
is claims($refreshed->{accessToken})->{active_branch_id}, $branch->{branchId},
    'for the branch selected';
answers($s->refresh($several->{refreshToken}), '401 AUTH_REFRESH_TOKEN_STALE',
    'the token before is refused');
my $last = answers($s->post('/api/auth/refresh', undef,
    cookie => "$COOKIE=$refreshed->{refreshToken}"), $good, 'several: refresh by cookie alone');

# Logout, and nothing after it.

my $out = '200 AUTH_LOGOUT_SUCCESS';
$res = $s->post('/api/auth/logout', undef, cookie => "$COOKIE=$last->{refreshToken}");
answers($res, $out, 'several: logout');
like $res->cookie_line($COOKIE), qr/; Max-Age=0(?:;|$)/i, 'the cookie is cleared';
answers($s->refresh($last->{refreshToken}), '401 AUTH_SESSION_NOT_ACTIVE',
    'a refresh after logout is refused');
ok eventually(sub { $s->current_context($last->{accessToken})->status == 401 }),
    'an access token passes the gateway no more';
answers($s->post('/api/auth/logout', undef), $out, 'logout with no token at all succeeds');

# The other session never noticed.

answers($s->refresh($one->{refreshToken}), $good, 'one: its session lives on');
is $s->postgres->sql(
    'select status, count(*) from auth_sessions group by 1 order by 1'),
    "ACTIVE|1\nREVOKED|1", 'and the table says the same';

# One line of access log a request, and no secret in any log.

my ($line) = grep { $_->{path} eq '/api/workspaces/current-context'
        && $_->{status} == 200 } $s->nginx->access_lines(10);
is_deeply [ @$line{qw(accountId routeId)} ], [ $ONE, 'entitlement-workspaces' ],
    'the access log knows the account and the route';

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
