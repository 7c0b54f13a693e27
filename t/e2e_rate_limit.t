# Rate limits by client address: 429 with Retry-After on both faces, for login
# and refresh each its own; everything else is not limited.

use Platform::Test;

my $t = Platform::Test->new;
my $s = $t->full_stack(env => {
    PLATFORM_LOGIN_RATE_LIMIT   => '1r/m burst 2',
    PLATFORM_REFRESH_RATE_LIMIT => '1r/m burst 3',
    PLATFORM_TRUSTED_PROXIES    => '127.0.0.1',
});

my %LOGIN = (account => 'one@demo.test', credential => $Platform::Test::Stack::CREDENTIAL);

sub limited ($res, $name) {
    is_problem($res, 429, 'GATEWAY_RATE_LIMITED', $name);
    like $res->header('Retry-After') // '', qr/^[1-9][0-9]*$/, "$name: Retry-After";
}

my $token;
for my $n (1 .. 3) {
    my $res = http_post($s->gateway, '/api/auth/login', json => \%LOGIN);
    is $res->status, 200, "login $n of the burst";
    $token = $res->json->{refreshToken};
}
limited(http_post($s->gateway, '/api/auth/login', json => \%LOGIN), 'a login too many');

# Refresh has a limit of its own, still unused.
for my $n (1 .. 4) {
    my $res = $s->refresh($token);
    is $res->status, 200, "refresh $n of the burst";
    $token = $res->json->{refreshToken};
}
limited($s->refresh($token), 'a refresh too many');

# Other endpoints do not count, and preflights come before limits.
is_deeply [ map { $s->post('/api/auth/logout', undef)->status } 1 .. 10 ], [ (200) x 10 ],
    'logouts are not limited';
is http($s->gateway, 'OPTIONS', '/api/auth/login')->status, 204, 'OPTIONS is not limited';

# Nobody goes around by the identity face.
my @status = map { http_post($s->face, '/api/auth/login', json => \%LOGIN)->status } 1 .. 4;
is $status[-1], 429, "the identity face limits too: @status";

# In IPv6 a client is its /64: whoever has one of its addresses has them all.
# The bytes of a newline and of NUL are as good as any.  Each face gets half.

sub from (@address) {
    my @faces = ($s->gateway, $s->face);
    # A login that no hash slot came free for was let in, too.
    return join ' ', map { $_ == 503 ? 200 : $_ }
        map { http_post($faces[ $_ % 2 ], '/api/auth/login', json => \%LOGIN,
            headers => [ 'X-Forwarded-For' => $address[$_] ])->status }
        0 .. $#address;
}

for my $net ('2001:db8:0:1', '2001:db8:a0a:a0a', 'fd00:0:0:0') {
    is from(map {"$net:$_"} '0:0:0:1', '0:0:0:2', 'ffff:ffff:ffff:ffff',
        'a0a:a0a:a0a:a0a', '1:0:0:1'), '200 200 200 429 429',
        "$net/64 is one client";
}
is from('2001:db8:0:2::1', '2001:db8:1:1::1', '2001:db9:0:1::1',
    '2001:db8:a0a:a0b::1', '::2'), '200 200 200 200 200',
    'its neighbours are others';
is from(map {"192.0.2.$_"} 1, 2, 3, 4, 5, 6), join(' ', (200) x 6),
    'in IPv4 each address is one';
is from(map {"::ffff:192.0.2.$_"} 11 .. 16), join(' ', (200) x 6), 'in the form of IPv6 too';
is from('192.0.2.11', '::ffff:192.0.2.11', '192.0.2.11'), '200 200 429',
    'which is the same client';

# A chain of proxies that are trusted leads to the client before them.
is from(map {"192.0.2.$_, 127.0.0.1"} 21 .. 26), join(' ', (200) x 6),
    'behind a trusted proxy each client is one';

# Calls that guess a credential or a factor count as logins, and both faces have each limit.
my @guesses = qw(change-credential verify-factor factors factors/x/confirm recovery-codes step-up
    login/passkey login/passkey-options passkeys passkeys/options step-up/passkey-options);
for my $case (map({ [ 40 + 2 * $_, gateway => $guesses[$_], 3 ], [ 41 + 2 * $_, face => $guesses[$_], 3 ] } 0 .. $#guesses),
    [ 33, face => 'login', 3 ], [ 34, face => 'refresh', 4 ])
{
    my ($host, $face, $path, $burst) = @$case;
    is_deeply [ map { http_post($s->$face, "/api/auth/$path", json => {},
        headers => [ 'X-Forwarded-For' => "192.0.2.$host" ])->status == 429 ? 1 : 0 }
        1 .. $burst + 1 ], [ (0) x $burst, 1 ], "$face: $path is limited";
}

# What names no client is nobody's way around: the proxy itself counts, and a wrong
# credential stays wrong.
my @malformed = ('unknown', '192.0.2', '192.0.2.1.2', '999.0.0.1', '[::1', ',,', '%00', 'a' x 500);
is from(@malformed), join(' ', (429) x @malformed), 'an X-Forwarded-For that is none';
is_deeply [ map { http_post($s->gateway, '/api/auth/select-branch', json => { branchId => uuid() },
    headers => [ 'X-Forwarded-For' => $_ ])->status } @malformed ], [ (401) x @malformed ],
    'nor without a token';

$t->done;
