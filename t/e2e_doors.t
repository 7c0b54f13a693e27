# Doors, by generated matrices, through the templates as they are rendered: each location
# with each method and each kind of token; each endpoint in each state of an account; each
# POST with bodies that are empty in one way or another.  Nobody enters by one of them who
# has no business there.

use JSON::PP ();

use Platform::Test;

my $t = Platform::Test->new;
my $s = $t->full_stack(echo => 1, env => { PLATFORM_AUTH_MAX_FAILURES => 0,
    PLATFORM_AUTH_FACTOR_KEYS => 'one=' . 'QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=',
    PLATFORM_WEBAUTHN_ORIGINS => 'https://app.example.com' });
my $gateway = $s->gateway;
my ($key, $iss) = (jwt_key('identity'), $s->{env}{PLATFORM_JWT_ISSUER});
my $RIGHT = $Platform::Test::Stack::CREDENTIAL;
my %rendered = map { s{.*/}{}r => $t->read_file("rendered/" . s{.*/}{}r) }
    glob $t->dir . '/rendered/*.conf';
my $account = sub { "where account_name = '$_[0]\@demo.test'" };
sub sql { return $s->postgres->sql(@_) }

# -- each location, method and kind of token

# The locations of the gateway and their levels: this is what the templates have to be.
my %LEVELS = (
    (map { $_ => 'public' } qw(/ /healthz /readyz /api/auth /api/auth/ /api/auth/login
        /api/auth/refresh /api/auth/logout /api/auth/reset-credential /api/auth/token
        /api/auth/verify-factor /api/auth/factors /api/auth/factors/ /api/auth/passkeys /api/auth/passkeys/options
        /api/auth/login/passkey /api/auth/login/passkey-options /api/workspaces /.well-known/jwks.json
        /.well-known/openid-configuration /.well-known/oauth-authorization-server)),
    (map { $_ => 'account branch' } qw(/api/auth/me /api/auth/sessions /api/auth/sessions/
        /api/auth/logout-others /api/auth/logout-all /api/auth/change-credential
        /api/auth/recovery-codes /api/auth/step-up /api/auth/step-up/passkey-options)),
    '/api/auth/select-branch' => 'account',
    '/api/workspaces/'        => 'branch',
);
my %opens = (account => 'account', branch => 'branch', system => 'system');
my @of = (iss => $iss);
my %token = (
    (map { ($_ => jwt_token($_ => $key, @of)) } sort keys %opens, 'refresh'),
    none    => undef,
    empty   => '',
    garbage => 'garbage',
    expired => jwt_token(branch => $key, @of, iat => time - 900, exp => time - 600),
    early   => jwt_token(branch => $key, @of, nbf => time + 600),
    another => jwt_token(branch => jwt_key('other')->as($key->kid), @of),
    issuer  => jwt_token(branch => $key, iss => "$iss/"),
    bound   => jwt_token(branch => $key, @of, cnf => { jkt => 'x' }),
    unsigned => jwt_sign(header => { alg => 'none', kid => $key->kid },
        payload => jwt_claims(branch => @of)),
    secret  => jwt_sign(header => { kid => $key->kid }, secret => '',
        payload => jwt_claims(branch => @of)),
    nested  => jwt_sign(header => { alg => 'dir', enc => 'A128GCM', kid => $key->kid },
        payload => jwt_claims(branch => @of)) . '.e30.e30',
);

my @locations;
for my $file (qw(gateway.conf gateway-identity.conf gateway-entitlement.conf)) {
    my $text = $rendered{$file} =~ s/^server .*?^\}\K.*//msr;    # the gateway's server alone
    push @locations, [ $2, $3 ] while $text
        =~ /^ *location (= )?(\S+) \{\n(?:(?! *\}).*\n)*? *platform_gateway_access ([a-z ]+);/mg;
}
is_deeply { map {@$_} @locations }, \%LEVELS, 'the rendered locations and their levels';
my $read = length $s->nginx->access_log;
for my $path (sort keys %LEVELS) {
    my @levels = split / /, $LEVELS{$path};
    my @made;
    for my $at ($path =~ m{/\z} ? ($path, "${path}x") : $path) {
        for my $method (qw(GET HEAD POST PUT PATCH DELETE BREW TRACE)) {
            for my $kind (sort keys %token) {
                $s->upstream->forget;
                my $res = http($gateway, $method, $at, token => $token{$kind},
                    $method =~ /^P/ ? (json => {}) : ());
                push @made, [ "$method $at $kind", $kind, $res, scalar $s->upstream->count ];
            }
        }
    }
    $t->logged($made[-1][2], $s->nginx);
    # Thousands of lines: decoding each took longer than all requests.
    my %line = map { my %f = /"(requestId|decision|reason|accountId)":"([^"]*)"/g;
        ($f{requestId} => \%f) } split /\n/, substr $s->nginx->access_log, $read;
    $read = length $s->nginx->access_log;
    my @wrong;
    for my $made (@made) {
        my ($name, $kind, $res, $reached) = @$made;
        my $line = $line{ $res->header('X-Request-Id') } // { decision => 'not logged', reason => '-' };
        my $may = $levels[0] eq 'public' || grep { ($opens{$kind} // '') eq $_ } @levels;
        push @wrong, "$name: $line->{decision}, $line->{reason}, " . $res->status
            if !$may && ($line->{decision} ne 'deny' || $res->status !~ /^4/ || $reached
            || $line->{accountId} && !$opens{$kind} && $kind ne 'refresh')
            || $may && $line->{reason} !~ /^(?:public|verified|method_forbidden|route_not_found|bad_request)$/;
    }
    is_deeply \@wrong, [], "$path (@levels): whoever may enter, and nobody else";
}

# -- what decides, with bytes over 0x7f and twice

my $good = $s->login('one')->json;
my $WHERE = '/api/workspaces/current-context';
for my $case (
    [ 'control', 200, [ Authorization => "Bearer $good->{accessToken}" ] ],
    map({ [ "a token with $_->[0]", 401, [ Authorization => $_->[1] ] ] }
        [ 'a byte behind it', "Bearer $good->{accessToken}\xff" ],
        [ 'one before it', "Bearer \xff$good->{accessToken}" ],
        [ 'one in the scheme', "Bearer\xa0$good->{accessToken}" ],
        [ 'another scheme', "B\xebarer $good->{accessToken}" ],
        [ 'two tokens', "Bearer $good->{accessToken}, Bearer x" ]),
    [ 'a token and another', 400, [ Authorization => "Bearer $good->{accessToken}",
        Authorization => 'Bearer x' ] ],
    [ 'another and a token', 400, [ Authorization => 'Bearer x',
        Authorization => "Bearer $good->{accessToken}" ] ],
    [ 'the token twice', 400, [ (Authorization => "Bearer $good->{accessToken}") x 2 ] ],
) {
    my ($name, $status, $headers) = @$case;
    is http_get($gateway, $WHERE, headers => $headers)->status, $status, "what decides: $name";
}
my $cookie = 'platform_refresh_token';
for my $origin ("https://evil\xe4.test", "\xff", "http://127.0.0.1:$gateway\xff", 'null') {
    is http_post($gateway, '/api/auth/refresh', body => '', headers => [ Origin => $origin ],
        cookie => "$cookie=$good->{refreshToken}")->status, 403,
        'a cookie, and an origin that only looks allowed: ' . ($origin =~ s/[^ -~]/?/gr);
}
like $s->refresh($good->{refreshToken})->status, qr/200/, 'control: the token was not used by one of them';

# -- what a client says of its way, where no proxy is trusted (the default)

my @way = map { ($_ => '192.0.2.9') } qw(X-Forwarded-For X-Real-IP X-Client-IP CF-Connecting-IP
    True-Client-IP);
my $res = http_get($gateway, $WHERE, headers => [ @way, Forwarded => 'for=192.0.2.9;proto=https',
    'X-Forwarded-Proto' => 'https', 'X-Forwarded-Host' => 'evil.test', 'X-Forwarded-Prefix' => '/x' ]);
is $t->logged($res, $s->nginx)->{clientIp}, '127.0.0.1',
    'no header of a client says where it is';
unlike $res->body . join(' ', map {"@$_"} @{ $res->{headers} // [] }), qr/evil\.test|192\.0\.2\.9/,
    'nor is it repeated';

# -- each endpoint in each state of an account

my @ENDPOINTS = (    # method, path, body by the login, which token
    [ POST => 'login', sub { { account => 'several@demo.test', credential => $RIGHT } } ],
    [ POST => 'refresh', sub ($l) { { refreshToken => $l->{refreshToken} } } ],
    [ POST => 'select-branch', sub ($l) { { branchId => $l->{branches}[0]{branchId} } }, 1 ],
    [ POST => 'change-credential', sub { { credential => $RIGHT, newCredential => "An0ther $RIGHT" } }, 1 ],
    [ POST => 'step-up', sub { { type => 'credential', credential => $RIGHT } }, 1 ],
    [ POST => 'factors', sub { { type => 'totp' } }, 1 ], [ GET => 'factors', undef, 1 ],
    [ POST => 'passkeys/options', sub { {} }, 1 ], [ POST => 'step-up/passkey-options', undef, 1 ],
    [ POST => 'logout-others', undef, 1 ], [ POST => 'logout-all', undef, 1 ],
    [ GET => 'me', undef, 1 ], [ GET => 'sessions', undef, 1 ],
);
my %STATE = (
    disabled     => "status = 'DISABLED'",
    'locked out' => 'sessions_valid_after = now()',
    'disabled and enabled again' => "status = 'DISABLED'",
    'as it was'  => "account_name = account_name",
);
my %STILL = ('locked out' => { login => 1 }, 'disabled and enabled again' => { login => 1 },
    'as it was' => { map { $_->[1] => 1 } @ENDPOINTS });
my $was = sql('select credential_hash from accounts ' . $account->('several'));
for my $state (sort keys %STATE) {
    for my $endpoint (@ENDPOINTS) {
        my ($method, $name, $body, $with) = @$endpoint;
        sql("update accounts set status = 'ACTIVE', credential_hash = '$was' " . $account->('several'));
        my $login = $s->login('several')->json;
        my $how = sub { http($gateway, $method, "/api/auth/$name",
            $with ? (token => $login->{accountAccessToken}) : (),
            $body ? (json => $body->($login)) : $method eq 'POST' ? (body => '') : ()) };
        sql("update accounts set $_ " . $account->('several'))
            for $STATE{$state}, $state =~ /again/ ? "status = 'ACTIVE'" : ();
        my $got = $how->();
        my $still = $STILL{$state}{$name};
        is_deeply [ $got->status =~ /^2/ ? 1 : 0, $got->body =~ /eyJ/ && !$still ? 'a token' : () ],
            [ $still ? 1 : 0 ], "$state: $name " . ($still ? 'goes on' : 'is refused') or diag $got->body;
        next if $still;
        unlike join(' ', $got->header_all('Set-Cookie')), qr/=eyJ/, '... and no cookie';
    }
}
sql("update accounts set status = 'ACTIVE', credential_hash = '$was' " . $account->('several'));

# -- an unknown name has no secret, not even that of who stands in for it

is_deeply [ map { http_post($gateway, '/api/auth/login', json => { account => $_->[0],
    credential => $_->[1] })->status } map({ [ 'nobody@demo.test', $_ ] } $RIGHT, ' ', 'x', '*', '!',
    'x' x 1024), [ '', $RIGHT ], [ 'nobody@demo.test', '' ] ], [ (401) x 6, 400, 400 ],
    'an unknown account: its stand-in\'s credential, and empty ones';

# -- a login that a page of elsewhere forces: a form needs no preflight

my $sessions = sub { sql("select count(*) from auth_sessions where status = 'ACTIVE'") };
my $before = $sessions->();
my $json = JSON::PP::encode_json({ account => 'one@demo.test', credential => $RIGHT });
for my $type ('text/plain', 'application/x-www-form-urlencoded', 'multipart/form-data; boundary=x',
    'text/plain; application/json', 'text/json', undef)
{
    for my $body ($json, "x=$json", 'account=one@demo.test&credential=' . $RIGHT) {
        my $got = http_post($gateway, '/api/auth/login', body => $body, headers => [
            defined $type ? ('Content-Type' => $type) : (), Origin => 'https://evil.test' ]);
        is_deeply [ $got->status, $got->header_all('Set-Cookie') ], [415],
            'a forced login: ' . ($type // 'no type') . ', ' . substr $body, 0, 9;
    }
}
is $sessions->(), $before, 'and no session was opened';

# -- each POST without what it needs (a logout of nothing is no failure)

for my $path (map {"/api/auth/$_"} qw(login refresh select-branch logout logout-others logout-all
    change-credential verify-factor factors recovery-codes step-up login/passkey passkeys passkeys/options
    step-up/passkey-options), 'nothing')
{
    my @wrong;
    for my $body ('', '{}', 'null', '[]', '""', '0', 'true', '[{}]', '{"":""}', ' ', "\0") {
        for my $type ('application/json', 'text/plain', undef) {
            for my $token (undef, '', $token{refresh}) {
                my $got = http_post($gateway, $path, body => $body, token => $token,
                    headers => [ defined $type ? ('Content-Type' => $type) : () ]);
                push @wrong, "$body, " . ($type // 'no type') . ': ' . $got->status
                    if $got->status !~ ($path =~ /logout$/ ? qr/^[24]/ : qr/^4/)
                    || $got->body =~ /eyJ/ || join(' ', $got->header_all('Set-Cookie')) =~ /=eyJ/;
            }
        }
    }
    is_deeply \@wrong, [], "$path without what it needs: refused";
}
is $sessions->(), $before, 'no session began or ended';

# -- of nginx's own flaws: what is rendered does without what they need

for my $file (sort keys %rendered) {
    unlike $rendered{$file}, qr/ssl_verify_client/,
        "$file: no client certificates, so no session of one is resumed at another server";
    unlike $rendered{$file}, qr/^\s*rewrite [^#\n]*[(]|^\s*if [^\n]*~[^\n]*[(]|^\s*location ~/m,
        "$file: no rewrite, if or location captures what a client sent";
    unlike $rendered{$file}, qr/^[^#\n]*["\s]~[^\n]*[(](?!\?:)/m,
        "$file: no regular expression of a map or a server name captures";
}

$t->done;
