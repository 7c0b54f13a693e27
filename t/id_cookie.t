# The refresh cookie by its settings: name, path and attributes are the same
# wherever it is set and cleared, and no other cookie is looked at.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $identity = $t->identity_face(
    PLATFORM_AUTH_REFRESH_COOKIE_NAME => '__Host-rt',
    PLATFORM_AUTH_COOKIE_PATH         => '/',
    PLATFORM_AUTH_COOKIE_SECURE       => 'true',
    PLATFORM_AUTH_COOKIE_SAME_SITE    => 'Strict',
    PLATFORM_JWT_REFRESH_TOKEN_TTL    => '1h',
);
my $port = $t->port('identity');
my $pg = $t->postgres;
my $name = '__Host-rt';
my $end = '; HttpOnly; Secure; SameSite=Strict';

sub call {
    my ($path, @what) = @_;

    return http_post($port, "/api/auth/$path", @what);
}

sub login {
    return call(login => json => {
        account => 'one@demo.test', credential => 'Demo-passw0rd!' });
}

sub claims { return (jwt_decode($_[0]))[1] }

# One test: the cookie is that token, for as long as that and the session last.
sub is_set {
    my ($res, $what) = @_;

    my $token = $res->json->{refreshToken};
    my $claims = claims($token);
    my $age = $claims->{exp} - $claims->{iat};
    is $res->cookie_line($name), "$name=$token; Path=/; Max-Age=$age$end",
        "$what: set, for as long as its token";
    is $age, 3600, "$what: which is the setting's";
    is $pg->sql("select extract(epoch from expires_at)::bigint
        from auth_sessions where session_id = '$claims->{session_id}'"),
        $claims->{exp}, "$what: and the session's end";
    return $token;
}

sub is_cleared {
    my ($res, $what) = @_;

    return is $res->cookie_line($name), "$name=; Path=/; Max-Age=0$end",
        "$what: cleared with the same attributes";
}

my $first = is_set(login(), 'login');
my $res = call(refresh => json => { refreshToken => $first });
my $token = is_set($res, 'refresh by the body');
$res = call(refresh => body => '', cookie => "$name=$token");
$token = is_set($res, 'refresh by the cookie');
$res = call(refresh => json => { refreshToken => $token },
    cookie => "$name=$token");
$token = is_set($res, 'refresh by both');

# The default's name is nobody's here.

my $other = 'platform_refresh_token';
is_problem(call(refresh => body => '', cookie => "$other=$token"), 401,
    'AUTH_REFRESH_TOKEN_MISSING', 'another cookie');
$res = call(refresh => body => '', cookie => "$other=x; $name=$token; a=b");
$token = is_set($res, 'among others');

is_cleared(call(refresh => body => '', cookie => "$name=x"), 'no token');
$res = call(logout => body => '', cookie => "$other=$token");
is_cleared($res, 'logout with another cookie');
is call(refresh => body => '', cookie => "$name=$token")->status, 200,
    'which ended nothing';
is_cleared(call(logout => body => '', cookie => "$name=$token"), 'logout');
$res = call(refresh => body => '', cookie => "$name=$token");
is_problem($res, 401, 'AUTH_SESSION_NOT_ACTIVE', 'and it is over');
is_cleared($res, 'a session that is over');

# For a page of another site: partitioned, wherever it is set and cleared.

$identity->stop;
$identity->{env}{PLATFORM_AUTH_COOKIE_SAME_SITE} = 'None';
$identity->{env}{PLATFORM_AUTH_COOKIE_PARTITIONED} = 'true';
$identity->start;
$end = '; HttpOnly; Secure; SameSite=None; Partitioned';
$token = is_set(login(), 'partitioned: login');
$token = is_set(call(refresh => body => '', cookie => "$name=$token"),
    'partitioned: refresh');
is_cleared(call(refresh => body => '', cookie => "$name=x"),
    'partitioned: no token');
is_cleared(call(logout => body => '', cookie => "$name=$token"),
    'partitioned: logout');

$t->done;
