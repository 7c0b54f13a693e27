# Logout: it succeeds whatever is sent, and revokes what any token names.  And which
# origins may use the cookie: one variable says it for both halves, and both take it
# alike.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Sessions;

my $t = Platform::Test->new;
my $stack = $t->full_stack(env => {
    PLATFORM_AUTH_MAX_FAILURES     => 0,
    PLATFORM_AUTH_COOKIE_SECURE    => 'true',
    PLATFORM_AUTH_COOKIE_SAME_SITE => 'None',
    PLATFORM_CORS_ALLOWED_ORIGINS  => join ' ', qw(
        https://App.Example https://*.wild.example https://*.port.example:8443
        https://default.example:443 http://default.example:80
        https://under_score.example http://[::1]:9090),
});
my $pg = $t->postgres;
client_of($t);
my $key = jwt_key('identity');
my $COOKIE = $Platform::Test::Client::COOKIE;

sub status { return row($_[0], 'status', 'revoked_at is not null') }

# One test: it said so, and the cookie is cleared with the attributes it was set
# with; or left, where the page may not use it.
my $DONE = 'Logout succeeded.';
my $NOTHING = 'No session was ended: the request has no token, and no cookie of '
    . 'an allowed origin.';

sub succeeds ($name, $request, %o) {
    my $res = call(logout => @$request);
    return is_deeply [ $res->status, $res->code, $res->json->{message},
        $res->header_all('Set-Cookie') ],
        [ 200, 'AUTH_LOGOUT_SUCCESS', $o{message} // $DONE, $o{left} ? ()
            : "$COOKIE=; Path=/api/auth; Max-Age=0; HttpOnly; Secure; SameSite=None" ],
        $name;
}

my @nothing = (undef, body => '');
sub cookie { return (cookie => "$COOKIE=" . (ref $_[0] ? $_[0]{refreshToken} : $_[0])) }

# -- with nothing, or with what names no session

my $one = logged_in('one');
my $claims = claims($one);
succeeds($_->[0], $_->[1], message => $NOTHING) for [ 'not even a length' => [undef] ],
    [ 'an empty cookie' => [ @nothing, cookie => "$COOKIE=; other=x" ] ],
    [ 'another scheme' => [ @nothing, headers => [ Authorization => 'Basic YTpi' ] ] ];
succeeds("$_->[0] is ignored", [ { refreshToken => $_->[1] }, cookie($_->[1]) ])
    for [ 'an access token' => $one->{accessToken} ],
    [ 'another key' => jwt_token('refresh', jwt_key('other'), %$claims) ],
    [ 'no session' => jwt_token('refresh', $key, %$claims, session_id => uuid()) ];
succeeds('a refresh token is no access token', [ @nothing, token => $one->{refreshToken} ]);

# -- with one token, in each place, and of whatever age

for my $case (
    [ one => 'access token', sub { @nothing, token => $_[0]{accessToken} } ],
    [ several => 'account token', sub { @nothing, token => $_[0]{accountAccessToken} } ],
    [ one => 'body', sub { { refreshToken => $_[0]{refreshToken} } } ],
    [ one => 'cookie, of a listed origin', sub { @nothing, cookie($_[0]),
        headers => [ Origin => 'https://app.example' ] } ],
    [ one => 'an expired token', sub { { refreshToken => jwt_token('refresh', $key,
        %{ claims($_[0]) }, iat => time - 9000, exp => time - 5000) } } ],
    [ one => 'a rotated-out token', sub { refresh($_[0]);
        { refreshToken => $_[0]{refreshToken} } } ],
    )
{
    my ($account, $name, $request) = @$case;
    my $s = logged_in($account);
    my @request = $request->($s);
    succeeds($name, \@request);
    my ($status, $when) = split /\|/, row($s, qw(status revoked_at));
    succeeds("$name, once more", \@request);
    is_deeply [ $status, row($s, 'revoked_at') ], [ 'REVOKED', $when ], "$name: revoked once";
}

# -- no later session has the id of one that ended, whoever logs in and by which device

my @seen = map { my $s = logged_in($_); my $id = session_of($s); logout($s); $id }
    (qw(one several)) x 5;
is scalar(keys %{ { map { $_ => 1 } @seen } }), @seen, 'each login has a session of its own';
is $pg->sql("select count(*) from auth_sessions where status = 'REVOKED' and session_id in ("
    . join(',', map {"'$_'"} @seen) . ')'), @seen, 'and those that ended stay ended';

# -- differing ones are no conflict: every session that is named goes, as many as one
#    request can carry

my $bystander = logged_in('one');
my @all = map { logged_in('one') } 1 .. 4;
succeeds('four sessions', [ { refreshToken => $all[1]{refreshToken} },
    token => $all[0]{accessToken},
    cookie => "$COOKIE=$all[2]{refreshToken}; $COOKIE=$all[3]{refreshToken}" ]);
my @made = map { $_->{current} } Platform::Test::Sessions->new(
    issuer => claims($bystander)->{iss})->make($pg, $key, 'one', 24);
succeeds('two dozen sessions', [ @nothing, headers => [ map { (Cookie =>
    "$COOKIE=$_") } @made ] ]);
is scalar(grep { status($_) eq 'REVOKED|t' } @all, @made), 28, 'all are revoked';
is status($bystander), 'ACTIVE|f', 'and no other';

# -- a cookie from a foreign origin is ignored, and left; what else is sent is not
#    ignored; nor is a body that is refused

succeeds('of another site', [ @nothing, cookie($one), headers => $_ ], left => 1,
    message => $NOTHING)
    for [ Origin => 'https://evil.test' ], [ 'Sec-Fetch-Site' => 'cross-site' ];
my $refused = call(logout => { refreshToken => 1 }, cookie($one));
is_problem($refused, 400, 'REQUEST_INVALID', 'a bad body');
is cookies($refused), 0, 'no cookie is touched';
is status($one), 'ACTIVE|f', 'the session lives';
succeeds('a token and any origin', [ @nothing, token => $bystander->{accessToken},
    headers => [ Origin => 'https://evil.test' ] ], left => 1);
is status($bystander), 'REVOKED|t', 'which ends the session';

# -- what each half says to a refresh by cookie from a page of an origin: whether the
#    gateway lets the page read the answer, and identity gives one

client_of($t, $stack->gateway);
my $token = $one->{refreshToken};

sub verdicts ($origin, %o) {
    my $res = call(refresh => @nothing, cookie($token), %o, headers => [ Origin => $origin ]);
    $token = $res->json->{refreshToken} if $res->status == 200;
    my $read = ($res->header('Access-Control-Allow-Origin') // '') eq $origin;
    return [ $read ? 1 : 0, $res->status == 200 ? 1
        : $res->code eq 'AUTH_ORIGIN_NOT_ALLOWED' ? 0 : $res->status ];
}

is_deeply verdicts($_), [ 1, 1 ], "$_: both allow it" for qw(
    https://app.example https://one.two.wild.example https://a_b.wild.example
    https://x.port.example:8443 https://default.example http://default.example
    https://under_score.example http://[::1]:9090);
is_deeply verdicts($_), [ 0, 0 ], "$_: both refuse it" for qw(
    http://app.example https://wild.example https://a..wild.example https://a:1.wild.example
    https://a.wild.example.evil.test https://x.port.example:8444 http://[::1]:9091 null);
my ($gateway, $face) = map {"127.0.0.1:$_"} $stack->gateway, $stack->face;
is verdicts("http://$gateway", host => $gateway)->[1], 1, 'its own host and port need no list';
is verdicts("http://$face", host => $gateway)->[1], 0, 'its own host at another port';
is verdicts('https://app.test', host => 'app.test')->[1], 1,
    'a port left out is that of the scheme';

unlike $stack->identity->log_text, qr/eyJ/, 'no token in the log';

$t->done;
