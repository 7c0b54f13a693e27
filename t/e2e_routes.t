# Every route of the gateway and of the identity face: who may ask what how,
# and what the rest is told.

use Platform::Test;

my $t = Platform::Test->new;
my $s = $t->full_stack(echo => 1);
my ($gateway, $face) = ($s->gateway, $s->face);

my $one = $s->login('one')->json;
my $account = $s->login('several')->json;
my $branch = $one->{accessToken};
my $context = '/api/workspaces/current-context';

sub is_405 ($res, $allow, $name) {
    is_problem($res, 405, 'METHOD_NOT_ALLOWED', $name);
    my @allow = sort split /, */, $res->header('Allow') // '';
    my %has = map { $_ => 1 } @allow;
    is scalar(grep { $has{$_} } @$allow), scalar @$allow, "$name: Allow: @allow";
}

# The gateway's own.

for my $path ('/healthz', '/readyz') {
    my $res = http_get($gateway, $path);
    is $res->status, 200, "$path: 200";
    is_deeply $res->json, { status => 'UP', service => 'gateway' }, "$path: UP";
    my $head = http($gateway, 'HEAD', $path);
    is $head->status, 200, "HEAD $path: 200";
    is $head->header('Content-Length'), length $res->body,
        "HEAD $path: the length of the body";
    is_405(http_post($gateway, $path, body => ''), ['GET'], "POST $path");
}

# Routes to identity; what each answers is in t/http_api.t.

my $LOGIN = '/api/auth/login';
for my $path (map {"/api/auth/$_"} qw(login refresh select-branch logout)) {
    is_405(http($gateway, $_, $path), ['POST'], "$_ $path") for qw(GET PUT DELETE);
}
is_problem(http_get($gateway, '/api/auth/unknown'), 404,
    'RESOURCE_NOT_FOUND', 'GET of an unknown auth path');
is_problem($s->post('/api/auth/unknown', {}), 404,
    'RESOURCE_NOT_FOUND', 'POST to an unknown auth path');
is_problem(http_get($gateway, '/api/auth/login/more'), 404,
    'RESOURCE_NOT_FOUND', 'something below a known one');

my $jwks = http_get($gateway, '/.well-known/jwks.json');
is $jwks->status, 200, 'the key set is public';
is_deeply $jwks->json, { keys => [ jwt_key('identity')->jwk ] }, 'and holds the key';
is $jwks->header('Cache-Control'), 'public, max-age=300', 'to be cached';
is_405(http_post($gateway, '/.well-known/jwks.json', body => ''), ['GET'],
    'POST to the key set');

my $hidden = http_get($gateway, '/_platform/key-set',
    headers => [ 'X-Request-Id' => 'hidden-path' ]);
is_problem($hidden, 404, 'GATEWAY_ROUTE_NOT_FOUND',
    'what the gateway fetches the key set through');
is $hidden->header('X-Request-Id'), 'hidden-path', 'with the ids';

# Select-branch: guarded by the gateway, and by identity itself.

my %wanted = (branchId => $account->{branches}[0]{branchId});
my $SELECT = '/api/auth/select-branch';
is_problem($s->post($SELECT, \%wanted), 401, 'GATEWAY_TOKEN_MISSING',
    'select-branch with no token');
is_problem($s->post($SELECT, \%wanted, token => $branch), 403,
    'GATEWAY_CONTEXT_FORBIDDEN', 'select-branch with a branch token');
is_problem(http_post($face, $SELECT, json => \%wanted), 401,
    'AUTH_ACCOUNT_TOKEN_REQUIRED', 'behind the gateway: no token');
is_problem(http_post($face, $SELECT, json => \%wanted, token => $branch),
    401, 'AUTH_ACCOUNT_TOKEN_REQUIRED',
    'behind the gateway: a branch token');
is $s->post($SELECT, \%wanted, token => $account->{accountAccessToken})
    ->status, 200, 'control: select-branch';

# Workspaces: branch context.

is_problem(http_get($gateway, $context), 401, 'GATEWAY_TOKEN_MISSING',
    'workspaces with no token');
is_problem($s->current_context($account->{accountAccessToken}), 403,
    'GATEWAY_CONTEXT_FORBIDDEN', 'workspaces with an account token');
is_problem($s->current_context(
    jwt_token(system => jwt_key('identity'), iss => $s->{env}{PLATFORM_JWT_ISSUER})), 403,
    'GATEWAY_CONTEXT_FORBIDDEN', 'workspaces with a system token');
is $s->current_context($branch)->status, 200, 'control: workspaces';
my $res = http_post($gateway, '/api/workspaces/a/b?c=d', token => $branch,
    json => { x => 'y' });
is $res->status, 200, 'anything below workspaces';
is $res->json->{uri}, '/api/workspaces/a/b?c=d', 'as the client said it';
is $res->json->{body}, '{"x":"y"}', 'with its body';
is_problem(http_post($gateway, '/api/workspaces/a', token => $branch,
    body => 'x' x (1024 * 1024 + 1)), 413, 'GATEWAY_REQUEST_TOO_LARGE',
    'a body over 1 MiB');
is http_post($gateway, '/api/workspaces/a', token => $branch,
    body => 'x' x (1024 * 1024))->status, 200, 'control: 1 MiB';
is $s->get('/api/workspaces/x?status=418', token => $branch)->status, 418,
    'the downstream status passes';
$res = $s->get('/api/workspaces/x?status=404', token => $branch);
is $res->json->{uri}, '/api/workspaces/x?status=404', 'and so does the body of its errors';

$s->upstream->down;
is_problem($s->current_context($branch), 502,
    'GATEWAY_UPSTREAM_UNAVAILABLE', 'downstream is down');
$s->upstream->up;
ok eventually(sub { $s->current_context($branch)->status == 200 }),
    'control: downstream is up again';

# Everything else.

for my $path ('/', '/nothing', '/api', '/api/auth', '/api/other/x',
    '/actuator/health', '/actuator/prometheus', '/internal/readyz',
    '/.well-known/other', '/healthz/x', '/index.html')
{
    is_problem(http_get($gateway, $path), 404, 'GATEWAY_ROUTE_NOT_FOUND', "GET $path");
}
is_problem(http_post($gateway, '/', json => {}), 404, 'GATEWAY_ROUTE_NOT_FOUND', 'POST /');
is_problem($s->get('/nothing', token => 'abc'), 404,
    'GATEWAY_ROUTE_NOT_FOUND', 'a bad token changes nothing there');

# OPTIONS.

for my $path ($LOGIN, $SELECT, $context, '/healthz', '/nothing') {
    my $plain = http($gateway, 'OPTIONS', $path);
    is $plain->status, 204, "OPTIONS $path: 204";
    ok $plain->header('Allow'), "OPTIONS $path: Allow";
    my @preflight = (headers => [ Origin => "http://127.0.0.1:$gateway",
        'Access-Control-Request-Method' => 'POST' ]);
    my $allowed = http($gateway, 'OPTIONS', $path, @preflight);
    is $allowed->status, 204, "preflight $path: 204";
    is $allowed->header('Access-Control-Allow-Origin'),
        "http://127.0.0.1:$gateway", "preflight $path: allowed";
    $preflight[1][1] = 'http://evil.test';
    my $refused = http($gateway, 'OPTIONS', $path, @preflight);
    is_problem($refused, 403, 'GATEWAY_ORIGIN_NOT_ALLOWED',
        "preflight $path of another origin");
    is_deeply [ grep { $_->[0] =~ /^Access-Control/i } $refused->headers ],
        [], "preflight $path of another origin: no CORS headers";
}
is scalar(grep { $_->{method} eq 'OPTIONS' } $s->upstream->requests), 0,
    'no OPTIONS reached downstream';

# What nginx refuses by itself.

is_problem(http_get($gateway, '/' . 'a' x 40000), 414,
    'GATEWAY_URI_TOO_LONG', 'a URI too long');
is_problem(http_get($gateway, '/', headers => [ 'X-Long' => 'a' x 40000 ]),
    400, 'GATEWAY_HEADER_TOO_LARGE', 'a header too large');
like http_raw($gateway, "GET / HTTP/1.1\r\nConnection: close\r\n\r\n"),
    qr/"code":"GATEWAY_BAD_REQUEST"/, 'no Host header';
like http_raw($gateway, "nonsense\r\n\r\n"),
    qr/^HTTP\/1\.1 400 .*"code":"GATEWAY_BAD_REQUEST"/s, 'no HTTP';

# The identity face.

for my $path ('/healthz', '/readyz', '/internal/readyz') {
    $res = http_get($face, $path);
    is $res->status, 200, "identity $path: 200";
    is $res->json->{status}, 'UP', "identity $path: UP";
}
is_problem(http_get($face, '/nothing'), 404, 'RESOURCE_NOT_FOUND', 'identity: unknown path');
is_405(http_get($face, $LOGIN), ['POST'], 'identity: GET login');
is_405(http_post($face, '/healthz', body => ''), ['GET'], 'identity: POST /healthz');
is http_get($face, '/.well-known/jwks.json')->body, $jwks->body, 'identity: the same key set';

# Identity gone: its routes say so, the rest goes on.

$s->identity->stop;
$t->allow(qr/connect\(\) to unix:\S+ failed/);
$res = $s->login('one');
ok((grep { $res->status == $_ } 502, 503), 'no identity: ' . $res->status);
is $res->code, 'GATEWAY_UPSTREAM_UNAVAILABLE', 'no identity: code';
is $s->current_context($branch)->status, 200, 'no identity: a token in hand still works';
$s->identity->start;
ok eventually(sub { $s->login('one')->status == 200 }), 'identity is back';

# More headers than FastCGI can carry.

my @filler = (headers => [ map { ("X-Filler-$_" => 'x' x 1000) } 1 .. 70 ]);
for my $port ($s->gateway, $s->face) {
    is_problem(http_post($port, '/api/auth/login', json => {}, @filler), 400,
        'GATEWAY_HEADER_TOO_LARGE', "70 KB of headers at $port");
    is http_post($port, '/api/auth/login', json => {},
        headers => [ @{ $filler[1] }[ 0 .. 79 ] ])->code, 'REQUEST_INVALID',
        '40 KB get through';
}

$t->done;
