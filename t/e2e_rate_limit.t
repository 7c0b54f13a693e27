# Rate limits by client address: 429 with Retry-After on both faces, for login
# and refresh each its own; everything else is not limited.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $s = $t->full_stack(env => {
    PLATFORM_LOGIN_RATE_LIMIT   => '1r/m burst 2',
    PLATFORM_REFRESH_RATE_LIMIT => '1r/m burst 3',
});

my %LOGIN = (account => 'one@demo.test',
    credential => $Platform::Test::Stack::CREDENTIAL);

sub limited {
    my ($res, $name) = @_;

    is $res->status, 429, "$name: 429";
    is $res->code, 'GATEWAY_RATE_LIMITED', "$name: code";
    is $res->header('Content-Type'), 'application/problem+json',
        "$name: a problem";
    like $res->header('Retry-After') // '', qr/^[1-9][0-9]*$/,
        "$name: Retry-After";
    ok $res->header('X-Request-Id'), "$name: a request id";
}

my $token;
for my $n (1 .. 3) {
    my $res = http_post($s->gateway, '/api/auth/login', json => \%LOGIN);
    is $res->status, 200, "login $n of the burst";
    $token = $res->json->{refreshToken};
}
limited(http_post($s->gateway, '/api/auth/login', json => \%LOGIN),
    'a login too many');

# Refresh has a limit of its own, still unused.
for my $n (1 .. 4) {
    my $res = $s->refresh($token);
    is $res->status, 200, "refresh $n of the burst";
    $token = $res->json->{refreshToken};
}
limited($s->refresh($token), 'a refresh too many');

# Other endpoints do not count.
for my $n (1 .. 10) {
    my $res = $s->post('/api/auth/logout', undef);
    is $res->status, 200, "logout $n" or last;
}

# Preflights come before limits.
my $res = http($s->gateway, 'OPTIONS', '/api/auth/login');
is $res->status, 204, 'OPTIONS is not limited';

# Nobody goes around by the identity face.
my @status = map { http_post($s->face, '/api/auth/login', json => \%LOGIN)
        ->status } 1 .. 4;
is $status[-1], 429, "the identity face limits too: @status";

$t->done;
