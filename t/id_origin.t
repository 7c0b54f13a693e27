# Origins: one variable says for both halves which may use the cookie, and both
# take it alike.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $s = $t->full_stack(env => {
    PLATFORM_CORS_ALLOWED_ORIGINS => join ' ', qw(
        https://App.Example https://*.wild.example https://*.port.example:8443
        https://default.example:443 http://default.example:80
        https://under_score.example http://[::1]:9090),
});
my $cookie = 'platform_refresh_token';
my $login = $s->login('one');
my $token = $login->json->{refreshToken};

# What each half says to a refresh by cookie from a page of this origin:
# whether the gateway lets the page read the answer, and identity gives one.
sub verdicts {
    my ($origin, %o) = @_;

    my $res = http_post($s->gateway, '/api/auth/refresh', body => '', %o,
        cookie => "$cookie=$token", headers => [ Origin => $origin ]);
    $token = $res->json->{refreshToken} if $res->status == 200;
    my $read = ($res->header('Access-Control-Allow-Origin') // '') eq $origin;
    my $given = $res->status == 200 ? 1
        : $res->code eq 'AUTH_ORIGIN_NOT_ALLOWED' ? 0 : $res->status;
    return [ $read ? 1 : 0, $given ];
}

for my $origin (
    'https://app.example', 'https://one.wild.example',
    'https://one.two.wild.example', 'https://a_b.wild.example',
    'https://a-b.wild.example', 'https://x.port.example:8443',
    'https://default.example', 'http://default.example',
    'https://under_score.example', 'http://[::1]:9090',
) {
    is_deeply verdicts($origin), [ 1, 1 ], "$origin: both allow it";
}
for my $origin (
    'http://app.example', 'https://app.example:8443', 'https://wild.example',
    'https://.wild.example', 'https://a..wild.example',
    'https://a/.wild.example', 'https://a:1.wild.example',
    'https://a.wild.example.evil.test', 'https://awild.example',
    'https://x.port.example', 'https://x.port.example:8444',
    'https://default.example:8443', 'https://under-score.example',
    'http://[::1]:9091', 'https://evil.test', 'null',
) {
    is_deeply verdicts($origin), [ 0, 0 ], "$origin: both refuse it";
}

# The request's own host and port need no list.

my $gateway = '127.0.0.1:' . $s->gateway;
my $face = '127.0.0.1:' . $s->face;
is verdicts("http://$gateway", host => $gateway)->[1], 1,
    'its own host and port';
is verdicts("http://$face", host => $gateway)->[1], 0,
    'its own host at another port';
is verdicts('https://app.test', host => 'app.test')->[1], 1,
    'a port left out is that of the scheme';

# Without the cookie nobody asks where it comes from.

is $s->refresh($token, headers => [ Origin => 'https://evil.test' ])->status,
    200, 'a token in the body from anywhere';

$t->done;
