# The policy `revoke`: a token rotated out over a minute ago ends the session;
# and the longest life of a session.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $identity = $t->identity_face(PLATFORM_AUTH_REFRESH_REUSE => 'revoke');
my $pg = $t->postgres;
my $port = $t->port('identity');
my $key = jwt_key('identity');

sub login {
    return http_post($port, '/api/auth/login', json => {
        account => 'one@demo.test', credential => 'Demo-passw0rd!' })->json;
}

sub refresh {
    my ($token) = @_;

    return http_post($port, '/api/auth/refresh',
        json => { refreshToken => $token });
}

sub claims { return (jwt_decode($_[0]))[1] }

sub status {
    my ($token) = @_;

    return $pg->sql("select status from auth_sessions where session_id = '"
        . claims($token)->{session_id} . "'");
}

# The same token, as if it had been issued and rotated out so long ago.
sub aged {
    my ($token, $seconds) = @_;

    my $claims = claims($token);
    $pg->sql("update rotated_tokens
        set rotated_at = rotated_at - interval '$seconds s'
        where jti = '$claims->{jti}'");
    return jwt_token('refresh', $key, %$claims,
        iat => $claims->{iat} - $seconds);
}

my $first = login()->{refreshToken};
my $second = refresh($first)->json->{refreshToken};

is_problem(refresh($first), 401, 'AUTH_REFRESH_TOKEN_STALE', 'a young one');
is status($second), 'ACTIVE', 'the session lives on';
is_problem(refresh(aged($first, 50)), 401, 'AUTH_REFRESH_TOKEN_STALE',
    'fifty seconds later');
is status($second), 'ACTIVE', 'the session still lives';

# Issued long ago and rotated out just now: young.
my $third = refresh($second)->json->{refreshToken};
my $long_lived = jwt_token('refresh', $key, %{ claims($second) },
    iat => time - 5000);
is_problem(refresh($long_lived), 401, 'AUTH_REFRESH_TOKEN_STALE',
    'issued long ago, rotated out just now');
is status($third), 'ACTIVE', 'the session lives';

my $old = aged($first, 20);    # 70 s in all
$old = jwt_token('refresh', $key, %{ claims($old) }, iat => time - 71);
my $res = http_post($port, '/api/auth/refresh',
    cookie => "platform_refresh_token=$old", body => '');
is_problem($res, 401, 'AUTH_REFRESH_TOKEN_STALE', 'over a minute later');
is scalar($res->header_all('Set-Cookie')), 0, 'no cookie is touched';
is status($third), 'REVOKED', 'the session is revoked';
is_problem(refresh($third), 401, 'AUTH_SESSION_NOT_ACTIVE',
    'and its current token with it');
is scalar(grep { $_->{event} eq 'auth.refresh.reuse_revoked' }
    $identity->log_lines), 1, 'which is logged, once';

# What is remembered is bounded.

my $token = login()->{refreshToken};
$token = refresh($token)->json->{refreshToken} for 1 .. 3;
my $session = claims($token)->{session_id};
is $pg->sql("select count(*) from rotated_tokens
    where session_id = '$session'"), 3, 'three are remembered';
$pg->sql("update rotated_tokens set rotated_at = rotated_at - interval '3 min'
    where session_id = '$session'");
refresh($token);
is $pg->sql("select count(*) from rotated_tokens
    where session_id = '$session'"), 1, 'old ones are forgotten';

# The default policy only refuses, and remembers nothing.

$identity->stop;
delete $identity->{env}{PLATFORM_AUTH_REFRESH_REUSE};
$identity->{env}{PLATFORM_AUTH_SESSION_MAX_LIFETIME} = '20m';
$identity->start;
$first = login();
$second = refresh($first->{refreshToken})->json;
$old = jwt_token('refresh', $key, %{ claims($first->{refreshToken}) },
    iat => time - 5000);
is_problem(refresh($old), 401, 'AUTH_REFRESH_TOKEN_STALE', 'reject: refused');
is status($second->{refreshToken}), 'ACTIVE', 'reject: the session lives';
is $pg->sql("select count(*) from rotated_tokens where session_id = '"
    . claims($old)->{session_id} . "'"), 0, 'reject: nothing is kept';

# The longest life: neither expiry passes it, and it is counted from login.

my $created = $pg->sql("select floor(extract(epoch from created_at))
    from auth_sessions where session_id = '" . claims($old)->{session_id}
    . "'");
is claims($second->{refreshToken})->{exp}, $created + 1200,
    'refresh expiry is capped';
is $second->{expiresIn}, 900, 'the access token still fits';

$identity->stop;
$identity->{env}{PLATFORM_AUTH_SESSION_MAX_LIFETIME} = '5m';
$identity->start;
$res = refresh($second->{refreshToken});
is $res->status, 200, 'a lowered setting';
is claims($res->json->{accessToken})->{exp}, $created + 300,
    'access expiry is capped';
is claims($res->json->{refreshToken})->{exp}, $created + 300,
    'refresh expiry follows';
cmp_ok $res->json->{expiresIn}, '<=', 300, 'expiresIn says so';
my ($age) = $res->cookie_line('platform_refresh_token') =~ /Max-Age=(\d+)/;
cmp_ok $age, '<=', 300, 'and so does the cookie';

$t->done;
