# docs/openapi.yaml against the real thing: every endpoint's answers, success
# and each error that can be provoked, are as the file says; and the file, the
# page beside it and the sources know the same codes with the same statuses.

use JSON::PP;
use Platform::Test;
use Platform::Test::Env;

my $node = Platform::Test::Env::node();

my $t = Platform::Test->new;
my $json = JSON::PP->new->utf8->canonical;
my $APP = 'https://app.example.com';
my $COOKIE = 'platform_refresh_token';
my %one = (account => 'one@demo.test', credential => $Platform::Test::Stack::CREDENTIAL);

# -- collecting ----------------------------------------------------------------

my @exchanges;
my $clients = 0;

# One call, kept for later.  of => a port by name; the client has an address of
# its own, unless client => says which, or none.
sub call ($name, $method, $path, %o) {
    my $of = delete $o{of} // 'gateway';
    my $instance = delete $o{at} // $t;
    my $client = exists $o{client} ? delete $o{client}
        : $of eq 'gateway' ? '198.51.100.' . ++$clients : undef;
    push @{ $o{headers} }, 'X-Forwarded-For' => $client if defined $client;
    my $port = $instance->port($of);
    my $raw = delete $o{raw};
    my $bytes = $raw // http_request_bytes($method, $path, %o);
    my $c = Platform::Test::Http->new(port => $port);
    $c->send($bytes);
    my $res = $c->read_response(head => $method eq 'HEAD') or die "$name: no answer\n";
    keep($name, $of, $method, $path, $bytes, $res);
    return $res;
}

sub keep ($name, $of, $method, $path, $bytes, $res) {
    my ($head, $body) = split /\r\n\r\n/, $bytes, 2;
    push @exchanges, {
        name => $name, of => $of, method => $method,
        path => $path =~ s/\?.*//sr, requestHead => $head,
        requestBody => $body // '', status => $res->status + 0,
        headers => [ $res->headers ], body => $res->body,
    };
}

sub post ($name, $path, $data = undef, %o) {
    return call($name, POST => "/api/auth/$path",
        (defined $data ? (json => $data) : (body => '')), %o);
}

sub is_code ($res, $status, $code, $name = undef) {
    my $exchange = $exchanges[-1];
    is $res->status . ' ' . $res->code, "$status $code", $name // $exchange->{name};
    return $res;
}

my $s = $t->full_stack(env => {
    PLATFORM_CORS_ALLOWED_ORIGINS => $APP,
    PLATFORM_TRUSTED_PROXIES      => '127.0.0.1',
    PLATFORM_LOGIN_RATE_LIMIT     => '1r/m burst 5',
    PLATFORM_REFRESH_RATE_LIMIT   => '1r/m burst 5',
    PLATFORM_AUTH_MAX_FAILURES    => 2,
});
my $pg = $s->postgres;
my @cors = (headers => [ Origin => $APP ]);

# -- login

my $one = is_code(post('login: one branch', login => \%one, @cors),
    200, 'AUTH_LOGIN_SUCCESS')->json;
my $several = is_code(post('login: several branches', login =>
    { %one, account => 'several@demo.test' }), 200, 'AUTH_LOGIN_SUCCESS')->json;
is_code(post('login: no branch', login => { %one, account => 'none@demo.test' }),
    200, 'AUTH_LOGIN_SUCCESS');
is_code(post('login: wrong credential', login => { %one, credential => 'x' },
    @cors), 401, 'AUTH_INVALID_CREDENTIALS');
is_code(post('login: no account', login => { credential => 'x' }), 400, 'REQUEST_INVALID');
is_code(call('login: no JSON', POST => '/api/auth/login', body => '{}',
    headers => [ 'Content-Type' => 'text/plain' ]), 415, 'MEDIA_TYPE_UNSUPPORTED');
is_code(post('login: over 16 KiB', login => { %one, more => 'x' x 20000 }),
    413, 'REQUEST_TOO_LARGE');
is_code(post('login: over 64 KiB', login => { %one, more => 'x' x 70000 }),
    413, 'GATEWAY_REQUEST_TOO_LARGE');
is_code(call('login: GET', GET => '/api/auth/login', @cors), 405, 'METHOD_NOT_ALLOWED');
my %wrong = (%one, account => 'two-hundred@demo.test', credential => 'x');
post('login: a failure', login => \%wrong, client => '192.0.2.1') for 1 .. 2;
is_code(post('login: too many failures', login => \%wrong,
    client => '192.0.2.1'), 429, 'AUTH_TOO_MANY_ATTEMPTS');
post('login: in the burst', login => { %one, account => '' },
    client => '192.0.2.2') for 1 .. 6;
is_code(post('login: too many', login => \%one, client => '192.0.2.2', @cors),
    429, 'GATEWAY_RATE_LIMITED');


# -- refresh

is_code(post('refresh: of nothing', refresh => undef, @cors), 401,
    'AUTH_REFRESH_TOKEN_MISSING');
my $fresh = is_code(post('refresh: by body', refresh =>
    { refreshToken => $one->{refreshToken} }), 200, 'AUTH_REFRESH_SUCCESS')
    ->json;
is_code(post('refresh: a used token', refresh =>
    { refreshToken => $one->{refreshToken} }), 401, 'AUTH_REFRESH_TOKEN_STALE');
$fresh = is_code(post('refresh: by cookie, with an account token', refresh =>
    { refreshToken => undef, includeAccountToken => JSON::PP::true }, @cors,
    cookie => "$COOKIE=$fresh->{refreshToken}"), 200, 'AUTH_REFRESH_SUCCESS')
    ->json;
is_code(post('refresh: no branch selected', refresh =>
    { refreshToken => $several->{refreshToken} }), 200, 'AUTH_REFRESH_SUCCESS');
is_code(post('refresh: an unusable token', refresh => undef,
    cookie => "$COOKIE=nonsense"), 401, 'AUTH_REFRESH_TOKEN_INVALID');
is_code(post('refresh: body and cookie differ', refresh =>
    { refreshToken => 'a' }, cookie => "$COOKIE=b"), 400,
    'AUTH_REFRESH_TOKEN_CONFLICT');
is_code(post('refresh: an array', refresh => []), 400, 'REQUEST_INVALID');
is_code(post('refresh: a page of another origin', refresh => undef,
    cookie => "$COOKIE=$fresh->{refreshToken}",
    headers => [ Origin => 'https://other.example' ]), 403,
    'AUTH_ORIGIN_NOT_ALLOWED');
post('refresh: in the burst', refresh => undef, client => '192.0.2.3') for 1 .. 6;
is_code(post('refresh: too many', refresh => undef, client => '192.0.2.3'), 429,
    'GATEWAY_RATE_LIMITED');

# -- select-branch

my $account = $several->{accountAccessToken};
my $branch = $several->{branches}[1]{branchId};
my @select = (POST => '/api/auth/select-branch');
my $selected = is_code(post('select-branch', 'select-branch' =>
    { branchId => $branch }, token => $account, @cors), 200,
    'AUTH_SELECT_BRANCH_SUCCESS')->json;
is_code(post('select-branch: no such branch', 'select-branch' =>
    { branchId => 'none' }, token => $account), 403,
    'AUTH_BRANCH_NOT_SELECTABLE');
is_code(post('select-branch: a number', 'select-branch' => { branchId => 1 },
    token => $account), 400, 'REQUEST_INVALID');
is_code(post('select-branch: no token', 'select-branch' =>
    { branchId => $branch }), 401, 'GATEWAY_TOKEN_MISSING');
is_code(post('select-branch: a branch token', 'select-branch' =>
    { branchId => $branch }, token => $selected->{accessToken}), 403,
    'GATEWAY_CONTEXT_FORBIDDEN');
is_code(post('select-branch: no token, at identity', 'select-branch' =>
    { branchId => $branch }, of => 'identity'), 401,
    'AUTH_ACCOUNT_TOKEN_REQUIRED');
is_code(post('select-branch: a bad token, at identity', 'select-branch' =>
    { branchId => $branch }, of => 'identity', token => 'a.b.c'), 401,
    'AUTH_ACCOUNT_TOKEN_REQUIRED');
is_code(post('select-branch: over 16 KiB', 'select-branch' =>
    { branchId => 'x' x 20000 }, token => $account), 413, 'REQUEST_TOO_LARGE');
is_code(call('select-branch: no JSON', @select, token => $account,
    body => 'x'), 415, 'MEDIA_TYPE_UNSUPPORTED');

# -- one's own sessions, and the credential

my %both = (account => $account, branch => $selected->{accessToken});
for my $kind (sort keys %both) {
    my @own = (token => $both{$kind});
    is_code(call("sessions: $kind", GET => '/api/auth/sessions', @own), 200,
        'AUTH_SESSIONS_SUCCESS');
    is_code(post("logout-others: $kind", 'logout-others' => undef, @own), 200,
        'AUTH_LOGOUT_OTHERS_SUCCESS');
    is_code(call("an end: $kind: no such session", DELETE =>
        '/api/auth/sessions/none', @own), 404, 'RESOURCE_NOT_FOUND');
}
my %system = (token => jwt_token(system => jwt_key('identity'),
    iss => (jwt_decode($account))[1]{iss}));
for my $case ([ GET => 'sessions' ], [ DELETE => 'sessions/x' ],
    [ POST => 'logout-others', body => '' ], [ POST => 'logout-all',
        body => '' ], [ POST => 'change-credential', json => {} ])
{
    my ($method, $path, @body) = @$case;
    my @to = ($method => "/api/auth/$path", @body);
    is_code(call("$path: no token", @to), 401, 'GATEWAY_TOKEN_MISSING');
    is_code(call("$path: no token, at identity", @to, of => 'identity'), 401,
        'AUTH_ACCESS_TOKEN_REQUIRED');
    is_code(call("$path: a system token", @to, %system), 403, 'GATEWAY_CONTEXT_FORBIDDEN');
    is_code(call("$path: PUT", PUT => $to[1], body => ''), 405, 'METHOD_NOT_ALLOWED');
}
my %credentials = (credential => $one{credential}, newCredential => 'another one');
my $many = post('login: to change', login =>
    { %one, account => 'two-hundred@demo.test' })->json->{accessToken} // post(
    'login: to change', login => { %one, account => 'two-workspaces@demo.test' })
    ->json->{accountAccessToken};
is_code(post('change-credential', 'change-credential' => \%credentials,
    token => $many), 200, 'AUTH_CHANGE_CREDENTIAL_SUCCESS');
is_code(post('change-credential: a wrong one', 'change-credential' => \%credentials,
    token => $many, client => '192.0.2.5'), 401, 'AUTH_INVALID_CREDENTIALS')
    for 1 .. 2;
is_code(post('change-credential: too many failures', 'change-credential' =>
    \%credentials, token => $many, client => '192.0.2.5'), 429,
    'AUTH_TOO_MANY_ATTEMPTS');
is_code(post('change-credential: no new one', 'change-credential' =>
    { credential => 'x' }, token => $many), 400, 'REQUEST_INVALID');
is_code(post('change-credential: a short one', 'change-credential' =>
    { credential => 'another one', newCredential => 'x' }, token => $many), 400,
    'AUTH_CREDENTIAL_NOT_ALLOWED');
is_code(call('change-credential: no JSON', POST =>
    '/api/auth/change-credential', token => $many, body => 'x'), 415,
    'MEDIA_TYPE_UNSUPPORTED');
my $ending = post('login: to end', login => { %one, account => 'none@demo.test' })->json;
my $ending_id = (jwt_decode($ending->{refreshToken}))[1]{session_id};
is_code(call('an end', DELETE => "/api/auth/sessions/$ending_id",
    token => $ending->{accountAccessToken}), 200, 'AUTH_END_SESSION_SUCCESS');
# Of identity itself: the gateway refuses such a token as soon as it knows.
is_code(call('sessions: of a session that has ended', GET =>
    '/api/auth/sessions', of => 'identity',
    token => $ending->{accountAccessToken}), 401,
    'AUTH_SESSION_NOT_ACTIVE');
$ending = post('login: to end all', login => { %one, account => 'none@demo.test' })->json;
is_code(post('logout-all', 'logout-all' => undef,
    token => $ending->{accountAccessToken}), 200, 'AUTH_LOGOUT_ALL_SUCCESS');
is_code(post('change-credential: of a session that has ended',
    'change-credential' => \%credentials, of => 'identity',
    token => $ending->{accountAccessToken}), 401, 'AUTH_SESSION_NOT_ACTIVE');

# -- the revocation feed

$pg->sql("update accounts set sessions_valid_after = clock_timestamp()
    where account_name = 'none\@demo.test'");
is call('revocations', GET => '/internal/revocations', of => 'identity')
    ->status, 200, 'revocations';
is_code(call('revocations: no cursor', GET => '/internal/revocations?after=x',
    of => 'identity'), 400, 'REQUEST_INVALID');
is_code(call('revocations through the gateway', GET => '/internal/revocations'),
    404, 'GATEWAY_ROUTE_NOT_FOUND');

# -- calls to a service

my @context = (GET => '/api/workspaces/current-context');
my $token = $selected->{accessToken};
my %claims = %{ (jwt_decode($token))[1] };
my $old = jwt_token(branch => jwt_key('identity'), %claims,
    iat => time - 400, exp => time - 300);
is call('context', @context, token => $token, @cors)->status, 200, 'context';
is_code(call('context: no token', @context, @cors), 401, 'GATEWAY_TOKEN_MISSING');
is_code(call('context: a bad token', @context, token => "${token}x"), 401,
    'GATEWAY_TOKEN_INVALID');
is_code(call('context: an old token', @context, token => $old), 401, 'GATEWAY_TOKEN_EXPIRED');
is_code(call('context: an account token', @context, token => $account), 403,
    'GATEWAY_CONTEXT_FORBIDDEN');
is_code(call('context: over 1 MiB', @context, token => $token,
    headers => [ 'Content-Length' => 2_000_000 ]), 413,
    'GATEWAY_REQUEST_TOO_LARGE');

# -- preflights and what nginx cannot read

my @preflight = (Origin => $APP, 'Access-Control-Request-Method');
is_code(call('TRACE', TRACE => $context[1]), 405, 'METHOD_NOT_ALLOWED');
call('preflight', OPTIONS => $context[1],
    headers => [ @preflight, 'POST', 'Access-Control-Request-Headers',
        'authorization, content-type' ]);
is $exchanges[-1]{status}, 204, 'preflight';
is_code(call('preflight: another method', OPTIONS => $context[1],
    headers => [ @preflight, 'BREW' ]), 403, 'GATEWAY_PREFLIGHT_NOT_ALLOWED');
is_code(call('preflight: another origin', OPTIONS => '/anything',
    headers => [ Origin => 'https://other.example', $preflight[2], 'POST' ]),
    403, 'GATEWAY_ORIGIN_NOT_ALLOWED');
call('OPTIONS', OPTIONS => '/api/auth/login');
is_code(call('no such path', GET => '/nothing', @cors), 404, 'GATEWAY_ROUTE_NOT_FOUND');
is_code(call('no such path of identity', POST => '/api/auth/nothing',
    body => ''), 404, 'RESOURCE_NOT_FOUND');
is_code(call('two Hosts', GET => '/healthz', headers => [ Host => 'b' ]), 400,
    'GATEWAY_BAD_REQUEST');
is_code(call('a header over 24k', @context, token => 'x' x 30_000), 400,
    'GATEWAY_HEADER_TOO_LARGE');
is_code(call('a path over 24k', GET => '/' . 'x' x 30_000), 414, 'GATEWAY_URI_TOO_LONG');
is_code(call('no such coding', GET => '/healthz',
    raw => "GET /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n"),
    501, 'GATEWAY_ERROR');

# -- keys, health, numbers

for my $of (qw(gateway identity)) {
    my $jwks = call("key set of $of", GET => '/.well-known/jwks.json', of => $of);
    is $jwks->status, 200, "key set of $of";
    is call("key set of $of: the same", GET => '/.well-known/jwks.json',
        of => $of, headers => [ 'If-None-Match' => $jwks->header('ETag') ])
        ->status, 304, "key set of $of: the same";
    is_code(call("key set of $of: another", GET => '/.well-known/jwks.json',
        of => $of, headers => [ 'If-Match' => '"x"' ]), 412,
        'PRECONDITION_FAILED');
    is call("$_ of $of", HEAD => $_, of => $of)->status, 200, "HEAD $_ of $of"
        for '/healthz', '/readyz', '/.well-known/jwks.json';
    is call("$_ of $of", GET => $_, of => $of)->status, 200, "$_ of $of"
        for '/healthz', '/readyz';
    is_code(call("POST of $of", POST => '/healthz', of => $of, body => ''), 405,
        'METHOD_NOT_ALLOWED');
}
my @face = map {"/actuator/$_"} qw(health health/liveness health/readiness
    info prometheus prometheus/1 targets);
for my $path ('/internal/readyz', @face) {
    is call($path, GET => $path, of => 'identity')->status, 200, $path;
    is_code(call("$path through the gateway", GET => $path), 404, 'GATEWAY_ROUTE_NOT_FOUND');
}
is_code(call("$_ of somebody else", GET => $_, of => 'identity',
    client => '192.0.2.4'), 403, 'GATEWAY_FORBIDDEN') for @face[3 .. 6];

my @ask = (POST => '/internal/explain', of => 'metrics');
is call('metrics', GET => '/internal/metrics', of => 'metrics')->status, 200, 'metrics';
is call('explain', @ask, json => { path => $context[1], token => $token })
    ->json->{decision}, 'allow', 'explain';
is call('explain: a bad token', @ask, json => { path => $context[1],
    method => 'GET', token => 'x', at => 1 })->json->{decision}, 'deny',
    'explain: a bad token';
is_code(call('explain: no question', @ask, body => 'x'), 400, 'REQUEST_INVALID');
is_code(call('explain: of a page', @ask, json => { path => '/' }, @cors), 403,
    'GATEWAY_ORIGIN_NOT_ALLOWED');
is_code(call("$_->[1] through the gateway", @$_), 404, 'GATEWAY_ROUTE_NOT_FOUND')
    for [ GET => '/internal/metrics' ], [ POST => '/internal/explain' ];

# -- logout

my $logout = post('logout', logout => { refreshToken => undef }, @cors,
    cookie => "$COOKIE=$fresh->{refreshToken}", token => $fresh->{accessToken});
is_code($logout, 200, 'AUTH_LOGOUT_SUCCESS');
is_code(post('logout: again', logout => undef), 200, 'AUTH_LOGOUT_SUCCESS');
is_code(post('logout: a page of another origin', logout => undef,
    cookie => "$COOKIE=x", headers => [ Origin => 'https://other.example' ]),
    200, 'AUTH_LOGOUT_SUCCESS');
is_code(post('logout: a number', logout => { refreshToken => 1 }), 400, 'REQUEST_INVALID');
is_code(post('refresh: after logout', refresh => undef,
    cookie => "$COOKIE=$fresh->{refreshToken}"), 401,
    'AUTH_SESSION_NOT_ACTIVE');
post('logout: the other session', logout => undef, token => $account);
is_code(post('select-branch: after logout', 'select-branch' =>
    { branchId => $branch }, of => 'identity', token => $account), 401,
    'AUTH_SESSION_NOT_ACTIVE');

# -- when something is missing
#
# A second gateway: nothing answers where its key set is, and its services are
# gone or too slow.

my $slow = $t->http_server(slow => sub { sleep 20; return undef });
my $lost = Platform::Test->new;
my $gone = '127.0.0.1:' . $lost->port('gone');
my %gate = (PLATFORM_JWT_ISSUER => $claims{iss}, IDENTITY_UPSTREAM => $gone,
    PLATFORM_ENTITLEMENT_TIMEOUT => '1s',
    PLATFORM_REVOCATIONS_ENABLED => 'false');

# Renders it anew and has it started or reloaded.
sub gate (%env) {
    my $nginx = $lost->render_nginx({ %gate, %env }, $gone);
    return $lost->track($nginx)->start;
}

sub stopped ($nginx) {
    $lost->stop($nginx);
}

my @there = (at => $lost, client => undef);
my $nginx = gate(IDENTITY_URL => "http://$gone");
is_code(call('readyz: no keys', GET => '/readyz', @there), 503, 'GATEWAY_KEYS_UNAVAILABLE');
is_code(call('context: no keys', @context, token => $token, @there), 503,
    'GATEWAY_KEYS_UNAVAILABLE');
is_code(call('select-branch: no keys', @select, token => $account, json => {},
    @there), 503, 'GATEWAY_KEYS_UNAVAILABLE');
for my $path (map {"/api/auth/$_"} qw(login refresh logout)) {
    is_code(call("$path: no identity", POST => $path, body => '', @there), 502,
        'GATEWAY_UPSTREAM_UNAVAILABLE');
}
is_code(call('key set: no identity', GET => '/.well-known/jwks.json', @there),
    502, 'GATEWAY_UPSTREAM_UNAVAILABLE');
stopped($nginx);

my $keys = 'http://127.0.0.1:' . $t->port('identity');
$nginx = gate(IDENTITY_URL => $keys, PLATFORM_REVOCATIONS_ENABLED => 'true');
ok eventually(sub {
    http_get($lost->port('gateway'), '/readyz')->code
        eq 'GATEWAY_REVOCATIONS_STALE';
}), 'a gateway that has keys, and cannot read which sessions have ended';
is_code(call('readyz: no feed', GET => '/readyz', @there), 503, 'GATEWAY_REVOCATIONS_STALE');
is_code(call('sessions: no feed, and they pass', GET => '/api/auth/sessions',
    @there, token => $account), 502, 'GATEWAY_UPSTREAM_UNAVAILABLE');
stopped($nginx);
$nginx = gate(IDENTITY_URL => $keys, PLATFORM_REVOCATIONS_ENABLED => 'true',
    PLATFORM_REVOCATIONS_STALE => 'refuse');
ok eventually(sub {
    call('sessions: no feed, and none passes', GET => '/api/auth/sessions',
        @there, token => $account)->code eq 'GATEWAY_REVOCATIONS_STALE';
}), 'PLATFORM_REVOCATIONS_STALE=refuse';
stopped($nginx);

for my $case ([ $gone, 502, 'GATEWAY_UPSTREAM_UNAVAILABLE' ],
    [ '127.0.0.1:' . $slow->port, 504, 'GATEWAY_UPSTREAM_TIMEOUT' ])
{
    my ($service, $status, $code) = @$case;
    $nginx = gate(IDENTITY_URL => $keys, PLATFORM_ENTITLEMENT_URL => "http://$service");
    ok eventually(sub { http_get($lost->port('gateway'), '/readyz')->status
        == 200 }), 'the second gateway has keys';
    is_code(call("context: $code", @context, token => $token, @there), $status, $code);
    stopped($nginx);
}

# No database, and before that one that is older than the program.

my @identity = (of => 'identity');
$pg->sql('delete from schema_migrations where version ='
    . ' (select max(version) from schema_migrations)');
is_code(call("$_: an old schema", GET => $_, @identity), 503,
    'SERVICE_NOT_READY') for '/readyz', '/actuator/health';
$account = $s->login('several')->json->{accountAccessToken};
$pg->stop;
is_code(call("$_: no database", GET => $_, @identity), 503,
    'DATABASE_UNAVAILABLE') for '/readyz', '/internal/readyz',
    '/actuator/health/readiness';
$several = { refreshToken => $several->{refreshToken} };
for my $path (qw(login refresh logout)) {
    is_code(post("$path: no database", $path => $path eq 'login' ? \%one
        : $several), 503, 'DATABASE_UNAVAILABLE');
}
is_code(call("$_->[1]: no database", $_->[0] => "/api/auth/$_->[1]",
    token => $account, ($_->[0] eq 'POST' ? (json => \%credentials) : ())), 503,
    'DATABASE_UNAVAILABLE') for [ GET => 'sessions' ], [ DELETE =>
    'sessions/x' ], [ POST => 'logout-others' ], [ POST => 'logout-all' ],
    [ POST => 'change-credential' ];
is_code(call('revocations: no database', GET => '/internal/revocations',
    @identity), 503, 'DATABASE_UNAVAILABLE');
is_code(post('select-branch: no database', 'select-branch' =>
    { branchId => $branch }, token => $account), 503, 'DATABASE_UNAVAILABLE');

# -- are they as the file says?

my $file = $t->root . '/docs/openapi.yaml';

sub validate ($exchanges) {
    my $path = $t->write_file('exchanges.json', $json->encode($exchanges));
    my $said = qx{$node @{[ $t->root ]}/t/node/validate.mjs $file $path};
    return $? == 0 ? $json->decode($said) : die "validate.mjs failed\n";
}

my $spec = validate(\@exchanges);
for my $i (0 .. $#exchanges) {
    my $e = $exchanges[$i];
    is_deeply $spec->{faults}[$i], [], "as documented: $e->{name}"
        or diag $json->encode([ @$e{qw(status headers body)} ]);
}

my %called = map { ("$_->{method} $_->{path}" => 1) } grep { $_->{status} == 200 } @exchanges;
is join(' ', grep { my $path = s/\{\w+\}/[^ ]+/r;
    !grep { /\A$path\z/ } keys %called } @{ $spec->{operations} }),
    '', 'every operation has been seen to work';

# Answers that are not as documented are found out.

my ($good) = grep { $_->{name} eq 'login: one branch' } @exchanges;
my ($bad) = grep { $_->{name} eq 'login: too many failures' } @exchanges;

sub changed ($exchange, $change) {
    local $_ = $json->decode($json->encode($exchange));
    my $body = $json->decode($_->{body});
    $change->($body);
    $_->{body} = $json->encode($body) if $_->{body} ne '';
    return $_;
}

my %change = (
    'another status' => [ $bad, sub { $_->{status} = 409 } ],
    'another code' => [ $bad, sub { $_[0]{code} = 'AUTH_BUSY' } ],
    'a code of its own' => [ $bad, sub { $_[0]{code} = 'AUTH_NEW' } ],
    'another status in the body' => [ $bad, sub { $_[0]{status} = 400 } ],
    'no Retry-After' => [ $bad, sub { $_->{headers} = [
        grep { $_->[0] ne 'Retry-After' } @{ $_->{headers} } ] } ],
    'a Retry-After of words' => [ $bad, sub { $_->[1] = 'later' for
        grep { $_->[0] eq 'Retry-After' } @{ $_->{headers} } } ],
    'a header that nobody knows' => [ $bad,
        sub { push @{ $_->{headers} }, [ 'X-New' => 1 ] } ],
    'no request id' => [ $good, sub { $_->{headers} = [
        grep { $_->[0] ne 'X-Request-Id' } @{ $_->{headers} } ] } ],
    'a header that comes twice' => [ $good, sub { push @{ $_->{headers} },
        grep { $_->[0] eq 'Cache-Control' } @{ $_->{headers} } } ],
    'a cookie without HttpOnly' => [ $good,
        sub { $_->[1] =~ s/; HttpOnly// for @{ $_->{headers} } } ],
    'a member too many' => [ $good, sub { $_[0]{new} = 1 } ],
    'a member too many, below' => [ $good, sub { $_[0]{nextAction}{new} = 1 } ],
    'a member too few' => [ $good, sub { delete $_[0]{expiresIn} } ],
    'another action' => [ $good, sub { $_[0]{nextAction}{type} = 'select_branch' } ],
    'a choice that nobody asked for' => [ $good, sub {
        $_[0]{accountAccessToken} = $_[0]{accessToken};
        $_[0]{branches} = [] } ],
    'no token' => [ $good, sub { delete $_[0]{accessToken} } ],
    'another type' => [ $good, sub { $_->[1] = 'text/html' for
        grep { $_->[0] eq 'Content-Type' } @{ $_->{headers} } } ],
    'a request that is not documented' => [ $good,
        sub { $_->{requestBody} = '{"account":""}' } ],
);
my @names = sort keys %change;
my $faults = validate([ (map { changed(@{ $change{$_} }) } @names),
    map { changed($_, sub { }) } $good, $bad ])->{faults};
isnt scalar @{ shift @$faults }, 0, "found out: $_" for @names;
is_deeply $faults, [ [], [] ], 'control: as they came';

# -- do file, page and sources know the same codes?

sub slurp ($path) {
    open my $fh, '<', $path or die "$path: $!\n";
    local $/;
    return scalar <$fh>;
}

# nginx's own statuses that go out as 400.
my $own = qr/NGX_HTTP_(?:REQUEST_HEADER_TOO_LARGE|TO_HTTPS)/;
my ($root, %source, %status) = $t->root;
for my $path (map { glob "$root/$_" } 'ngx_platform_gateway_module/*.[ch]',
    'identity-fcgi/src/{auth,server}/*.[ch]', 'identity-fcgi/src/{main,base/http}.c',
    'identity-fcgi/src/base/metrics.c')
{
    my $text = slurp($path) =~ s/\\\n\s*//gr;
    my $code = qr/"(?!PLATFORM_|HTTP_|CONTENT_)([A-Z]+(?:_[A-Z]+)+)"/;
    # Parameters of FastCGI, and nothing that a client gets.
    my %other = map { $_ => 1 } qw(REQUEST_METHOD REQUEST_SCHEME DOCUMENT_URI
        QUERY_STRING REMOTE_ADDR);
    $source{$_} = 1 for grep { !$other{$_} } $text =~ /$code/g;
    while ($text =~ /\b([2-5]\d\d|$own),\s*(?:"[A-Z][A-Za-z ]+",\s*)?$code/g)
    {
        my ($status, $code) = ($1, $2);
        $status{ ($status =~ /^NGX/ ? 400 : $status) . " $code" } = 1;
    }
}
my @success = grep {/^200 /} @{ $spec->{responses} };
my @documented = sort @{ $spec->{codes} }, @success;
is_deeply [ sort { $a cmp $b } keys %{ { map { s/^\d+ //r => 1 } @documented } } ],
    [ sort keys %source ], 'the file has the codes of the sources';
is_deeply [ grep { !$status{$_} } @documented ], [], 'with no status that is not theirs';
is_deeply [ grep { my $pair = $_; !grep { $_ eq $pair } @documented }
    sort keys %status ], [], 'and with each that is';
my %listed = map { $_ => 1 } @{ $spec->{codes} };
is_deeply [ grep { !/^200 / && !$listed{$_} } @{ $spec->{responses} } ], [],
    'no operation has another';

my $page = slurp("$root/docs/http-api.md");
my @page;
while ($page =~ /^\| ([\d, ]+) \| `([A-Z_]+)`/mg) {
    my ($statuses, $code) = ($1, $2);
    push @page, map {"$_ $code"} split /, /, $statuses;
}
is_deeply [ sort @page ], \@documented, 'the page has the same';

is_deeply [ grep { $page !~ /^\| [^|]*`$_`/m } @{ $spec->{headers} } ], [],
    'it has a row for each header';
is_deeply [ grep { index($page, s/\{.*//r) < 0 }
    map { s/^\w+ //r } @{ $spec->{operations} } ], [], 'and names each path';

my %seen = map { (eval { $json->decode($_->{body})->{code} } // '') => 1 } @exchanges;
is_deeply [ grep { !$seen{$_} } sort keys %source ],
    [qw(AUTH_BUSY GATEWAY_UNAUTHORIZED INTERNAL_ERROR)],
    'all have been seen but those that take a fault, a crowd or own rules';

is $spec->{version}, (slurp("$root/jose/pj_version.h") =~ /"(.*)"/)[0],
    'the file has the version of the program';

$t->done;
