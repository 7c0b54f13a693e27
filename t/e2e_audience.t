# PLATFORM_JWT_AUDIENCE: what identity issues with it passes a gateway that
# demands it, and switching it on logs nobody out.

use Platform::Test;

my $t = Platform::Test->new;
my %env = (PLATFORM_JWT_ISSUER => 'http://127.0.0.1:' . $t->port('identity'),
    PLATFORM_AUTH_COOKIE_SECURE => 'false');
my $audience = 'https://api.example.test/?x=1&y';
my $identity = $t->identity(%env);
my $s = $t->full_stack(echo => 1, identity => $identity,
    env => { %env, PLATFORM_JWT_AUDIENCE => $audience });

sub claims { return (jwt_decode($_[0]))[1] }

# One test: a token is refused, for that reason.
sub refused ($res, $reason, $name) {
    is_problem($res, 401, 'GATEWAY_TOKEN_INVALID', $name);
    is $t->logged($res, $s->nginx)->{reason}, $reason, 'its reason';
}

# The gateway demands it, and identity does not issue it yet.

my $one = $s->login('one')->json;
my $several = $s->login('several')->json;
ok !exists claims($one->{accessToken})->{aud}, 'no audience';
refused($s->current_context($one->{accessToken}), 'token_audience', 'a token without it');

# Identity does: every session goes on, with its next refresh.

$t->allow(qr/connect\(\) to unix:.* platform gateway revocations,/);
$identity->stop;
$identity->{env}{PLATFORM_JWT_AUDIENCE} = $audience;
$identity->start;
my $res = $s->refresh($one->{refreshToken});
is $res->status, 200, 'a session of before: refresh';
is claims($res->json->{accessToken})->{aud}, $audience, 'the access token has it';
is claims($res->json->{refreshToken})->{aud}, $env{PLATFORM_JWT_ISSUER},
    'the refresh token has one of its own';
is claims($one->{refreshToken})->{aud}, $env{PLATFORM_JWT_ISSUER}, 'and had it before';
is $s->current_context($res->json->{accessToken})->status, 200, 'and passes';

sub select_branch ($port, $answer) {
    return http_post($port, '/api/auth/select-branch', token => $answer->{accountAccessToken},
        json => { branchId => $several->{branches}[0]{branchId} });
}

is select_branch($s->face, $several)->status, 200,
    'identity itself takes account tokens of before';
my $now = $s->login('several')->json;
is claims($now->{accountAccessToken})->{aud}, $audience, 'the account token has it';
$res = select_branch($s->gateway, $now);
is $res->status, 200, 'select-branch through the gateway';
is claims($res->json->{accessToken})->{aud}, $audience, 'the branch token, too';
is $s->current_context($res->json->{accessToken})->status, 200, 'and passes';

my ($status, $out, $err) = $t->run_identity([ qw(token system --account),
    $t->postgres->sql("select account_id from accounts
        where account_name = 'one\@demo.test'"), qw(--ttl 1m) ],
    %{ $identity->{env} });
is $status, 0, 'a system token' or diag $err;
chomp $out;
is claims($out)->{aud}, $audience, 'has it as well';

# Another audience's token, and one for several.

my $key = jwt_key('identity');
my $mine = claims($s->login('one')->json->{accessToken});
for my $case ([ 'https://api.example.test/', 401 ], [ 'other', 401 ],
    [ [ 'other', $audience ], 200 ])
{
    my ($aud, $want) = @$case;
    is $s->current_context(jwt_sign(key => $key, payload => { %$mine, aud => $aud }))
        ->status, $want, ref $aud ? 'one of several' : "audience $aud";
}

# A refresh token says what it is in its header: no gateway takes it for an
# access token, whatever the location's level, and neither do libraries.

my $refresh = $s->login('one')->json->{refreshToken};
is_deeply [ @{ (jwt_decode($refresh))[0] }{qw(typ alg)} ],
    [ 'refresh+jwt', 'RS256' ], 'the header of a refresh token';
is +(jwt_decode($s->login('one')->json->{accessToken}))[0]{typ}, 'JWT',
    'that of an access token';
refused(http($s->gateway, @$_, token => $refresh), 'token_typ', "refresh token to $_->[1]")
    for [ GET => '/api/workspaces/x' ], [ POST => '/api/auth/select-branch', json => {} ];
$res = $s->refresh($refresh);
is $res->status, 200, 'at a refresh it is good';
my %before = %{ claims($res->json->{refreshToken}) };
is_problem($s->refresh(jwt_sign(key => $key, payload => { %before, aud => $audience })), 401,
    'AUTH_REFRESH_TOKEN_INVALID', 'one for another audience');
delete $before{aud};
is $s->refresh(jwt_sign(key => $key, payload => \%before))->status, 200,
    'and so is one with the header of before, and without an audience';

$t->done;
