# The refresh cookie by its settings: name, path and attributes are the same
# wherever it is set and cleared, and no other cookie is looked at.

use Platform::Test;
use Platform::Test::Client;

my $t = Platform::Test->new;
my $identity = $t->identity_face(
    PLATFORM_AUTH_REFRESH_COOKIE_NAME => '__Host-rt',
    PLATFORM_AUTH_COOKIE_PATH         => '/',
    PLATFORM_AUTH_COOKIE_SECURE       => 'true',
    PLATFORM_AUTH_COOKIE_SAME_SITE    => 'Strict',
    PLATFORM_JWT_REFRESH_TOKEN_TTL    => '1h',
);
client_of($t);
my $name = '__Host-rt';
my $other = 'platform_refresh_token';    # the default's is nobody's here
my $end = '; HttpOnly; Secure; SameSite=Strict';

# By the cookie alone.
sub by ($path, $cookie) { return call($path, undef, body => '', cookie => $cookie) }

# One test: the cookie is that token, for as long as that and the session last.
sub is_set ($res, $what) {
    my $token = $res->json->{refreshToken};
    is_deeply [ $res->cookie_line($name), row($token, 'extract(epoch from expires_at)::bigint') ],
        [ "$name=$token; Path=/; Max-Age=3600$end", claims($token)->{iat} + 3600 ],
        "$what: set, for as long as its token and the session";
    return $token;
}

sub is_cleared ($res, $what) {
    return is $res->cookie_line($name), "$name=; Path=/; Max-Age=0$end",
        "$what: cleared with the same attributes";
}

my $token = is_set(login('one'), 'login');
$token = is_set(refresh($token), 'refresh by the body');
$token = is_set(refresh($token, cookie => "$name=$token"), 'refresh by both');
is_problem(by(refresh => "$other=$token"), 401, 'AUTH_REFRESH_TOKEN_MISSING', 'another cookie');
$token = is_set(by(refresh => "$other=x; $name=$token; a=b"), 'among others');
is_cleared(by(refresh => "$name=x"), 'no token');
is_cleared(by(logout => "$other=$token"), 'logout with another cookie');
$token = is_set(by(refresh => "$name=$token"), 'which ended nothing');
is_cleared(by(logout => "$name=$token"), 'logout');
my $res = by(refresh => "$name=$token");
is_problem($res, 401, 'AUTH_SESSION_NOT_ACTIVE', 'and it is over');
is_cleared($res, 'a session that is over');

# For a page of another site: partitioned, wherever it is set and cleared.

restart($identity, AUTH_COOKIE_SAME_SITE => 'None', AUTH_COOKIE_PARTITIONED => 'true');
$end = '; HttpOnly; Secure; SameSite=None; Partitioned';
$token = is_set(login('one'), 'partitioned: login');
$token = is_set(by(refresh => "$name=$token"), 'partitioned: refresh');
is_cleared(by(logout => "$name=$token"), 'partitioned: logout');

$t->done;
