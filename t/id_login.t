# Login: what each kind of account gets, the session that it opens, and that
# every refusal looks the same.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $identity = $t->identity_face(
    PLATFORM_JWT_ACCESS_TOKEN_TTL  => '10m',
    PLATFORM_JWT_REFRESH_TOKEN_TTL => '2h',
    PLATFORM_AUTH_MAX_FAILURES     => 0,
);
my $pg = $t->postgres;
my $CREDENTIAL = 'Demo-passw0rd!';
my $COOKIE = 'platform_refresh_token';

sub login {
    my ($account, $credential) = @_;

    return http_post($t->port('identity'), '/api/auth/login', json => {
        account => $account, credential => $credential // $CREDENTIAL });
}

sub payload { return (jwt_decode($_[0]))[1] }

# One branch: scope at once.

my $res = login('one@demo.test');
is $res->status, 200, 'one branch: 200';
is $res->header('Content-Type'), 'application/json', 'JSON';
is $res->header('Cache-Control'), 'no-store', 'not to be stored';
is_deeply [ sort keys %{ $res->json } ], [ sort qw(code message accessToken
        refreshToken tokenType expiresIn nextAction) ], 'its members';
is $res->json->{code}, 'AUTH_LOGIN_SUCCESS', 'its code';
is $res->json->{tokenType}, 'Bearer', 'its token type';
is $res->json->{expiresIn}, 600, 'expiresIn is the access TTL';
is_deeply $res->json->{nextAction}, { type => 'load_current_context' },
    'its next action';

my ($header, $access) = jwt_decode($res->json->{accessToken});
is_deeply [ sort keys %$header ], [qw(alg kid typ)], 'token header';
is_deeply [ sort keys %$access ], [ sort qw(iss sub iat exp jti account_id
        session_id account_type typ token_type token_scope workspace_id
        tenant_id member_id active_branch_id branch_ids roles) ],
    'claims of a branch token';
is_deeply [ @$access{qw(typ token_type token_scope account_type)} ],
    [qw(access workspace BRANCH CUSTOMER)], 'its kind';
is $access->{sub}, $access->{account_id}, 'sub is the account';
is $access->{exp} - $access->{iat}, 600, 'its lifetime';
my $uuid = qr/^[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;
is scalar(grep { $access->{$_} !~ $uuid } qw(sub jti account_id session_id
    workspace_id tenant_id member_id active_branch_id)), 0,
    'its identifiers are UUIDs';
is_deeply $access->{branch_ids}, [ $access->{active_branch_id} ],
    'one branch to choose from';
is_deeply $access->{roles}, [qw(BRANCH_MANAGER CASHIER)], 'its roles';

my $refresh = payload($res->json->{refreshToken});
is_deeply [ sort keys %$refresh ], [ sort qw(iss sub iat exp jti account_id
        session_id token_type) ], 'claims of a refresh token';
is $refresh->{token_type}, 'refresh', 'its kind';
is $refresh->{exp} - $refresh->{iat}, 7200, 'its lifetime';

is $res->cookie($COOKIE), $res->json->{refreshToken},
    'the cookie is the refresh token';
like $res->cookie_line($COOKIE), qr/; Max-Age=7200(?:;|$)/,
    'the cookie lives as long';
like $res->cookie_line($COOKIE), qr/; HttpOnly/, 'HttpOnly';
like $res->cookie_line($COOKIE), qr{; Path=/api/auth(?:;|$)}, 'its path';
like $res->cookie_line($COOKIE), qr/; SameSite=Lax/, 'its SameSite';

is $pg->sql("select account_id, workspace_id, member_id, active_branch_id,
        jti, status, revoked_at is null, extract(epoch from expires_at)
    from auth_sessions where session_id = '$refresh->{session_id}'"),
    join('|', @$access{qw(account_id workspace_id member_id
        active_branch_id)}, $refresh->{jti}, 'ACTIVE', 't',
        "$refresh->{exp}.000000"), 'the session row';

# Several branches, two workspaces, none: a choice.

$res = login('several@demo.test');
is $res->status, 200, 'several branches: 200';
is_deeply [ sort keys %{ $res->json } ], [ sort qw(code message
        accountAccessToken refreshToken tokenType expiresIn branches
        nextAction) ], 'its members';
is_deeply $res->json->{nextAction}, { type => 'select_branch' },
    'its next action';
is_deeply [ map { $_->{branchName} } @{ $res->json->{branches} } ],
    [ 'Harbour East', 'Harbour North', 'Harbour West' ],
    'active branches that are granted, sorted';
is_deeply [ sort keys %{ $res->json->{branches}[0] } ],
    [qw(branchId branchName workspaceId workspaceName)],
    'members of a branch';

my $account = payload($res->json->{accountAccessToken});
is_deeply [ sort keys %$account ], [ sort qw(iss sub iat exp jti account_id
        session_id account_type typ token_type token_scope) ],
    'claims of an account token';
is_deeply [ @$account{qw(typ token_type token_scope)} ],
    [qw(access account ACCOUNT)], 'its kind';
is $pg->sql("select num_nulls(workspace_id, member_id, active_branch_id)
    from auth_sessions where session_id = '$account->{session_id}'"), 3,
    'a session without scope';

$res = login('two-workspaces@demo.test');
is_deeply [ map {"$_->{workspaceName}/$_->{branchName}"}
        @{ $res->json->{branches} } ],
    [ 'North Works/North Hall', 'South Works/South Hall' ],
    'branches of all workspaces';

$res = login('none@demo.test');
is $res->status, 200, 'no branch: 200';
is_deeply $res->json->{branches}, [], 'nothing to choose from';
is $res->json->{nextAction}{type}, 'select_branch', 'its next action';

is scalar @{ login('two-hundred@demo.test')->json->{branches} }, 200,
    'two hundred branches';

# The account's name is folded, the credential is not.

for my $same ("One\@Demo.Test", "  one\@demo.test\t", "\r\none\@demo.test\n") {
    is login($same)->status, 200, 'the account is normalised';
}
is login('one@demo.test', ' Demo-passw0rd!')->status, 401,
    'the credential is not trimmed';
is login('one@demo.test', 'demo-passw0rd!')->status, 401, 'nor folded';

# Every refusal is the same.

my %body;
for my $case ([ 'one@demo.test', 'wrong' ], [ 'nobody@demo.test', $CREDENTIAL ],
    [ 'disabled@demo.test', $CREDENTIAL ], [ 'disabled@demo.test', 'wrong' ])
{
    $res = login(@$case);
    is_problem($res, 401, 'AUTH_INVALID_CREDENTIALS', "@$case");
    is scalar($res->header_all('Set-Cookie')), 0, "@$case: no cookie";
    my $body = $res->body;
    $body =~ s/"requestId":"[^"]*"//;
    $body{$body}++;
}
is scalar keys %body, 1, 'all refusals have one body';

# A login never touches older sessions, and writes nothing when refused.

is $pg->sql("select count(*) from auth_sessions s join accounts using
    (account_id) where account_name = 'one\@demo.test'
    and s.status = 'ACTIVE'"), 4, 'older sessions stay';

# An account disabled between two logins; a workspace switched off.

$pg->sql("update workspaces set status = 'INACTIVE'
    where workspace_name = 'South Works'");
$res = login('two-workspaces@demo.test');
is payload($res->json->{accessToken})->{branch_ids}[0],
    '00000000-0000-4000-8000-000500000041',
    'a workspace switched off counts no more';
$pg->sql("update members set status = 'INACTIVE'
    where member_id = '00000000-0000-4000-8000-000400000004'");
is_deeply login('two-workspaces@demo.test')->json->{branches}, [],
    'nor does a member switched off';

# A weaker stored hash is replaced, one that is too dear is refused.

my $hash = $pg->sql("select credential_hash from accounts
    where account_name = 'none\@demo.test'");
ok $t->stop($identity) || 1, 'restarted with stronger parameters';
$identity->{env}{PLATFORM_AUTH_ARGON2_ITERATIONS} = 3;
$identity->start;
is login('none@demo.test')->status, 200, 'login with the old hash';
like $pg->sql("select credential_hash from accounts
    where account_name = 'none\@demo.test'"), qr/\$m=19456,t=3,p=1\$/,
    'it was rehashed';
is login('none@demo.test')->status, 200, 'login with the new hash';

(my $dear = $hash) =~ s/m=19456,t=2/m=262145,t=2/;
$pg->sql("update accounts set credential_hash = '$dear'
    where account_name = 'none\@demo.test'");
is_problem(login('none@demo.test'), 401, 'AUTH_INVALID_CREDENTIALS',
    'parameters past the bounds');
ok scalar(grep { $_->{event} eq 'auth.credential.unusable' }
    $identity->log_lines), 'which is logged';

unlike $identity->log_text, qr/passw0rd|eyJ/, 'no secret in the log';

$t->done;
