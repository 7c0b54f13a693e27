# Select-branch: what may be selected with what, and what it changes.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Http;
use Test::More;

my $t = Platform::Test->new;
my $identity = $t->identity_face;
my $pg = $t->postgres;
my $port = $t->port('identity');
my $key = jwt_key('identity');

sub login {
    my ($account) = @_;

    return http_post($port, '/api/auth/login', json => {
        account => "$account\@demo.test", credential => 'Demo-passw0rd!',
    })->json;
}

sub select_branch {
    my ($token, $branch, %o) = @_;

    return http_post($port, '/api/auth/select-branch', token => $token,
        json => { branchId => $branch }, %o);
}

sub claims { return (jwt_decode($_[0]))[1] }

sub branch { return sprintf '00000000-0000-4000-8000-0005%08d', $_[0] }

my $several = login('several');
my $account = $several->{accountAccessToken};
my ($east, $north, $west) = map { branch($_) } 31, 32, 33;
my ($closed, $office, $elsewhere) = map { branch($_) } 34, 35, 1;

my $res = select_branch($account, $north);
is $res->status, 200, 'a selectable branch: 200';
is $res->header('Cache-Control'), 'no-store', 'not to be stored';
is_deeply [ sort keys %{ $res->json } ],
    [ sort qw(code message accessToken tokenType expiresIn nextAction) ],
    'its members';
is $res->json->{code}, 'AUTH_SELECT_BRANCH_SUCCESS', 'its code';
is $res->json->{nextAction}{type}, 'load_current_context', 'its next action';
is scalar($res->header_all('Set-Cookie')), 0, 'no cookie is touched';

my $claims = claims($res->json->{accessToken});
is $claims->{active_branch_id}, $north, 'the token names the branch';
is_deeply [ sort @{ $claims->{branch_ids} } ], [ $east, $north, $west ],
    'and the selectable ones';
is $claims->{session_id}, claims($account)->{session_id}, 'of this session';
is $pg->sql("select active_branch_id, member_id, workspace_id, jti
    from auth_sessions where session_id = '$claims->{session_id}'"),
    join('|', $north, @$claims{qw(member_id workspace_id)},
        claims($several->{refreshToken})->{jti}),
    'the session has the scope; its refresh token is not rotated';

is select_branch($account, uc $west)->status, 200,
    'another one, in capitals';
is $pg->sql("select active_branch_id from auth_sessions
    where session_id = '$claims->{session_id}'"), $west,
    'the last selection wins';

# One answer for everything that cannot be selected.

my %refused = (
    inactive => $closed, 'not granted' => $office, elsewhere => $elsewhere,
    unknown => uuid(), empty => '', 'no UUID' => 'north', long => 'x' x 9000,
    'nearly one' => substr($north, 0, 35), braces => "{$north}",
    injection => "$north' or '1'='1", unicode => "\x{10ffff}",
);
for my $name (sort keys %refused) {
    is_problem(select_branch($account, $refused{$name}), 403,
        'AUTH_BRANCH_NOT_SELECTABLE', $name);
}
is $pg->sql("select active_branch_id from auth_sessions
    where session_id = '$claims->{session_id}'"), $west,
    'none of which changed anything';

# A session without scope may select in any workspace, one with scope only in
# its own.

my $two = login('two-workspaces')->{accountAccessToken};
is select_branch($two, branch(41))->status, 200, 'the first workspace';
is_problem(select_branch($two, branch(51)), 403,
    'AUTH_BRANCH_NOT_SELECTABLE', 'then not the second');
is select_branch(login('two-workspaces')->{accountAccessToken},
    branch(51))->status, 200, 'a new session may';

# Two selections at once, in two workspaces: what was read without a scope may
# have one when it is written.

for my $case ([ commit => 403, branch(41) ], [ rollback => 200, branch(51) ]) {
    my ($how, $status, $left) = @$case;
    my $token = login('two-workspaces')->{accountAccessToken};
    my $session = claims($token)->{session_id};
    my $first = $pg->begin("update auth_sessions s set workspace_id =
        b.workspace_id, member_id = b.member_id, active_branch_id = b.branch_id
        from selectable_branches b where s.session_id = '$session'
        and b.account_id = s.account_id and b.branch_id = '@{[ branch(41) ]}'");
    my $second = Platform::Test::Http->new(port => $port);
    $second->send(http_request_bytes(POST => '/api/auth/select-branch',
        token => $token, json => { branchId => branch(51) }));
    ok $pg->waiting(1), 'a selection waits for another';
    ok $pg->end($first, $how), "the first one, $how";
    my $answer = $second->read_response;
    is $answer->status, $status, "then the second: $status"
        or diag $answer->body;
    is $pg->sql("select active_branch_id from auth_sessions
        where session_id = '$session'"), $left, 'what it selects';
}

# Which token.

my $now = time;
my $own = claims($account);
my %tokens = (
    'a branch token'  => $res->json->{accessToken},
    'a refresh token' => $several->{refreshToken},
    'a tampered one'  => jwt_tamper($account, 2, 0),
    'an expired one'  => jwt_token('account', $key, %$own, exp => $now - 31),
    'a foreign one'   => jwt_token('account', jwt_key('other'), %$own),
    'another issuer'  => jwt_token('account', $key, %$own, iss => 'http://x'),
    'a system token'  => jwt_token('system', $key,
        session_id => $own->{session_id}, iss => $own->{iss}),
);
for my $name (sort keys %tokens) {
    $res = select_branch($tokens{$name}, $north);
    is_problem($res, 401, 'AUTH_ACCOUNT_TOKEN_REQUIRED', $name);
    like $res->header('WWW-Authenticate'),
        qr/^Bearer realm="platform", error="invalid_token"/,
        "$name: WWW-Authenticate";
}
$res = http_post($port, '/api/auth/select-branch',
    json => { branchId => $north });
is_problem($res, 401, 'AUTH_ACCOUNT_TOKEN_REQUIRED', 'no token');
is $res->header('WWW-Authenticate'), 'Bearer realm="platform"',
    'no token: WWW-Authenticate';
is select_branch(jwt_token('account', $key, %$own, exp => $now - 15),
    $north)->status, 200, 'within the leeway';
is http_post($port, '/api/auth/select-branch', json => { branchId => $north },
    headers => [ Authorization => "bearer $account" ])->status, 200,
    'the scheme in small letters';

# The token comes before the body.

is_problem(http_post($port, '/api/auth/select-branch', body => '{',
    headers => [ 'Content-Type' => 'text/plain' ]), 401,
    'AUTH_ACCOUNT_TOKEN_REQUIRED', 'no token and a bad body');
is_problem(http_post($port, '/api/auth/select-branch', token => $account,
    body => '{', headers => [ 'Content-Type' => 'application/json' ]), 400,
    'REQUEST_INVALID', 'a token and a bad body');
for my $bad ({}, { branchId => undef }, { branchId => 7 },
    { branchId => [$north] })
{
    is_problem(http_post($port, '/api/auth/select-branch', token => $account,
        json => $bad), 400, 'REQUEST_INVALID', 'no string');
}

# The session.

is_problem(select_branch(jwt_token('account', $key, %$own,
    session_id => uuid()), $north), 401, 'AUTH_SESSION_NOT_ACTIVE',
    'no such session');
is_problem(select_branch(jwt_token('account', $key, %$own,
    account_id => uuid(3), sub => uuid(3)), $north), 401,
    'AUTH_SESSION_NOT_ACTIVE', "another account's session");
http_post($port, '/api/auth/logout', token => $account, body => '');
is_problem(select_branch($account, $north), 401, 'AUTH_SESSION_NOT_ACTIVE',
    'after logout');

my $disabled = login('several')->{accountAccessToken};
$pg->sql("update accounts set status = 'DISABLED'
    where account_name = 'several\@demo.test'");
is_problem(select_branch($disabled, $north), 401, 'AUTH_SESSION_NOT_ACTIVE',
    'a disabled account');

unlike $identity->log_text, qr/eyJ/, 'no token in the log';

$t->done;
