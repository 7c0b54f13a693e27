# Logout: it succeeds whatever is sent, and revokes what any token names.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $identity = $t->identity_face(
    PLATFORM_CORS_ALLOWED_ORIGINS => 'https://app.test',
    PLATFORM_AUTH_COOKIE_SECURE    => 'true',
    PLATFORM_AUTH_COOKIE_SAME_SITE => 'None',
);
my $pg = $t->postgres;
my $port = $t->port('identity');
my $key = jwt_key('identity');
my $COOKIE = 'platform_refresh_token';

sub login {
    my ($account) = @_;

    return http_post($port, '/api/auth/login', json => {
        account => ($account // 'one') . '@demo.test',
        credential => 'Demo-passw0rd!',
    })->json;
}

sub logout { return http_post($port, '/api/auth/logout', @_) }

sub claims { return (jwt_decode($_[0]))[1] }

sub status {
    my ($answer) = @_;

    return $pg->sql("select status, revoked_at is not null from auth_sessions
        where session_id = '"
        . claims($answer->{refreshToken})->{session_id} . "'");
}

# One test: it said so, and the cookie is cleared with the attributes it was
# set with.
sub succeeds {
    my ($res, $name, $message) = @_;

    my $line = $res->cookie_line($COOKIE) // '';
    return is_deeply [ $res->status, $res->code, $line, $res->json->{message} ],
        [ 200, 'AUTH_LOGOUT_SUCCESS', "$COOKIE=; Path=/api/auth; Max-Age=0; "
            . 'HttpOnly; Secure; SameSite=None', $message // 'Logout succeeded.' ],
        $name;
}

# With nothing.

my $NOTHING = 'No session was ended: the request has no token, and no cookie of '
    . 'an allowed origin.';
succeeds(logout(body => ''), 'no token at all', $NOTHING);
succeeds(logout(), 'not even a length', $NOTHING);
succeeds(logout(json => {}), 'an empty object', $NOTHING);
succeeds(logout(json => { refreshToken => undef }), 'null', $NOTHING);
succeeds(logout(cookie => "$COOKIE=; other=x", body => ''), 'an empty cookie',
    $NOTHING);

# With one token, in each place.

my $one = login();
succeeds(logout(token => $one->{accessToken}, body => ''), 'access token');
is status($one), 'REVOKED|t', 'the session is revoked';
my $first = $pg->sql("select revoked_at from auth_sessions
    where session_id = '" . claims($one->{refreshToken})->{session_id} . "'");
succeeds(logout(token => $one->{accessToken}, body => ''), 'once more');
is $pg->sql("select revoked_at from auth_sessions where session_id = '"
    . claims($one->{refreshToken})->{session_id} . "'"), $first,
    'revoked once';

$one = login('several');
succeeds(logout(token => $one->{accountAccessToken}, body => ''),
    'account token');
is status($one), 'REVOKED|t', 'the session is revoked';

$one = login();
succeeds(logout(json => { refreshToken => $one->{refreshToken} }), 'body');
is status($one), 'REVOKED|t', 'the session is revoked';

$one = login();
succeeds(logout(cookie => "$COOKIE=$one->{refreshToken}", body => ''),
    'cookie');
is status($one), 'REVOKED|t', 'the session is revoked';

# Differing ones are no conflict: every session that is named goes.

my @all = map { login() } 1 .. 4;
my $bystander = login();
succeeds(logout(token => $all[0]{accessToken},
    json => { refreshToken => $all[1]{refreshToken} },
    cookie => "$COOKIE=$all[2]{refreshToken}; $COOKIE=$all[3]{refreshToken}"),
    'four sessions');
is_deeply [ map { status($_) } @all ], [ ('REVOKED|t') x 4 ], 'all revoked';
is status($bystander), 'ACTIVE|f', 'and no other';

# As many as one request can carry.

@all = map { login() } 1 .. 24;
succeeds(logout(body => '', headers => [ map { (Cookie =>
    "$COOKIE=$_->{refreshToken}") } @all ]), 'two dozen sessions');
is scalar(grep { status($_) eq 'REVOKED|t' } @all), 24, 'all revoked';
is status($bystander), 'ACTIVE|f', 'and no other';

# Expired and rotated-out tokens still name their session.

$one = login();
succeeds(logout(json => { refreshToken => jwt_token('refresh', $key,
    %{ claims($one->{refreshToken}) }, iat => time - 9000,
    exp => time - 5000) }), 'an expired token');
is status($one), 'REVOKED|t', 'the session is revoked';

$one = login();
http_post($port, '/api/auth/refresh',
    json => { refreshToken => $one->{refreshToken} });
succeeds(logout(json => { refreshToken => $one->{refreshToken} }),
    'a rotated-out token');
is status($one), 'REVOKED|t', 'the session is revoked';

# What is unusable is ignored.

$one = login();
my $claims = claims($one->{refreshToken});
my %ignored = (
    garbage   => 'garbage',
    tampered  => jwt_tamper($one->{refreshToken}, 2, 0),
    issuer    => jwt_token('refresh', $key, %$claims, iss => 'http://x'),
    key       => jwt_token('refresh', jwt_key('other'), %$claims),
    kind      => $one->{accessToken},
    unknown   => jwt_token('refresh', $key, %$claims, session_id => uuid()),
    odd       => jwt_token('refresh', $key, %$claims, session_id => 'x'),
);
for my $name (sort keys %ignored) {
    succeeds(logout(json => { refreshToken => $ignored{$name} },
        cookie => "$COOKIE=$ignored{$name}"), "$name is ignored");
}
succeeds(logout(token => $one->{refreshToken}, body => ''),
    'a refresh token is no access token');
succeeds(logout(headers => [ Authorization => 'Basic YTpi' ], body => ''),
    'another scheme', $NOTHING);
is status($one), 'ACTIVE|f', 'the session lives';

# A cookie from a foreign origin is ignored, and left; what else is sent is not
# ignored.

sub leaves {
    my ($res, $name, $message) = @_;

    return is_deeply [ $res->status, $res->code,
        scalar $res->header_all('Set-Cookie'), $res->json->{message} ],
        [ 200, 'AUTH_LOGOUT_SUCCESS', 0, $message // $NOTHING ], $name;
}

for my $headers ([ Origin => 'https://evil.test' ], [ Origin => 'null' ],
    [ 'Sec-Fetch-Site' => 'cross-site' ])
{
    leaves(logout(cookie => "$COOKIE=$one->{refreshToken}", body => '',
        headers => $headers), "@$headers");
    is status($one), 'ACTIVE|f', 'the session lives';
    leaves(logout(body => '', headers => $headers), "@$headers, no cookie");
}
succeeds(logout(cookie => "$COOKIE=$one->{refreshToken}", body => '',
    headers => [ Origin => 'https://app.test' ]), 'a listed origin');
is status($one), 'REVOKED|t', 'the session is revoked';
leaves(logout(token => $bystander->{accessToken}, body => '',
    headers => [ Origin => 'https://evil.test' ]), 'a token and any origin',
    'Logout succeeded.');
is status($bystander), 'REVOKED|t', 'the session is revoked';

# What differs from 200, and leaves the cookie.

$one = login();
for my $case (
    [ 400, 'REQUEST_INVALID', json => { refreshToken => 1 } ],
    [ 400, 'REQUEST_INVALID', json => [] ],
    [ 415, 'MEDIA_TYPE_UNSUPPORTED', body => 'x',
        headers => [ 'Content-Type' => 'text/plain' ] ],
    [ 413, 'REQUEST_TOO_LARGE', json => { x => 'x' x 17000 } ],
    )
{
    my ($status, $code, @how) = @$case;
    my $res = logout(@how, cookie => "$COOKIE=$one->{refreshToken}");
    is_problem($res, $status, $code, 'logout');
    is scalar($res->header_all('Set-Cookie')), 0, 'no cookie is touched';
}
is status($one), 'ACTIVE|f', 'the session lives';

unlike $identity->log_text, qr/eyJ/, 'no token in the log';

$t->done;
