# The gateway through its templates: which route asks for what, which token is
# forged, what a service is told of the caller; and the listener of metrics and
# explanations, which is for programs of this host alone.

use Platform::Test;
use Platform::Test::Metrics;

my $t = Platform::Test->new;
my $s = $t->full_stack(echo => 1, env => { PLATFORM_TRUSTED_PROXIES => '127.0.0.0/8' });
my ($gateway, $face, $local) = ($s->gateway, $s->face, $t->port('metrics'));
my ($LOGIN, $SELECT, $CONTEXT)
    = qw(/api/auth/login /api/auth/select-branch /api/workspaces/current-context);

my $key = jwt_key('identity');
my $good = $s->login('one')->json->{accessToken};
my $several = $s->login('several')->json;
my $account = $several->{accountAccessToken};
my $system = jwt_token(system => $key, iss => $s->{env}{PLATFORM_JWT_ISSUER});

# -- routes; what each answers is in t/http_api.t

sub is_405 ($port, $method, $path, $allow) {
    my $res = http($port, $method, $path, $method eq 'POST' ? (body => '') : ());
    is_problem($res, 405, 'METHOD_NOT_ALLOWED', "$method $path");
    like $res->header('Allow'), qr/\b$allow\b/, "$method $path: Allow";
}

for my $path ('/healthz', '/readyz') {
    my $res = http_get($gateway, $path);
    is_deeply [ $res->status, $res->json ], [ 200, { status => 'UP', service => 'gateway' } ],
        "$path: UP";
    is http($gateway, 'HEAD', $path)->header('Content-Length'), length $res->body,
        "HEAD $path: the length of the body";
}
is_405($gateway, POST => $_, 'GET') for qw(/healthz /readyz /.well-known/jwks.json);
for my $path (map {"/api/auth/$_"} qw(login refresh select-branch logout)) {
    is_405($gateway, $_ => $path, 'POST') for qw(GET PUT DELETE);
}
is_405($face, GET => $LOGIN, 'POST');
is_405($face, POST => '/healthz', 'GET');

my $jwks = http_get($gateway, '/.well-known/jwks.json');
is_deeply [ $jwks->status, $jwks->json, $jwks->header('Cache-Control') ],
    [ 200, { keys => [ $key->jwk ] }, 'public, max-age=300' ],
    'the key set is public, has the key, may be cached';
is http_get($face, '/.well-known/jwks.json')->body, $jwks->body, 'identity: the same key set';

for my $path ('/', '/nothing', '/api', '/api/auth', '/api/other/x',
    '/actuator/health', '/actuator/prometheus', '/internal/readyz',
    '/.well-known/other', '/healthz/x', '/index.html', '/_platform/key-set')
{
    my $res = http_get($gateway, $path, token => 'abc', headers => [ 'X-Request-Id' => 'mine' ]);
    is_problem($res, 404, 'GATEWAY_ROUTE_NOT_FOUND', "GET $path with a bad token");
    is $res->header('X-Request-Id'), 'mine', "GET $path: the ids";
}
is_problem(http_post($gateway, '/', json => {}), 404, 'GATEWAY_ROUTE_NOT_FOUND', 'POST /');
is_problem(http_get(@$_), 404, 'RESOURCE_NOT_FOUND', "identity knows no $_->[1]")
    for [ $gateway, '/api/auth/unknown' ], [ $gateway, "$LOGIN/more" ], [ $face, '/nothing' ];

my $res = http_post($gateway, '/api/workspaces/a/b?c=d', token => $good, json => { x => 'y' });
is_deeply [ $res->status, @{ $res->json }{qw(uri body)} ],
    [ 200, '/api/workspaces/a/b?c=d', '{"x":"y"}' ], 'what is below workspaces, as it was said';
$res = $s->get('/api/workspaces/x?status=418', token => $good);
is_deeply [ $res->status, $res->json->{uri} ], [ 418, '/api/workspaces/x?status=418' ],
    'the status of the service, and its body';
is http_post($gateway, '/api/workspaces/a', token => $good,
    body => 'x' x (1024 * 1024 + $_))->status, $_ ? 413 : 200, "a body of 1 MiB and $_"
    for 0, 1;

like http_raw($gateway, "$_\r\n\r\n"), qr/^HTTP\/1\.1 400 .*"code":"GATEWAY_BAD_REQUEST"/s,
    'no Host, or no HTTP' for "GET / HTTP/1.1\r\nConnection: close", 'nonsense';

# More headers than FastCGI can carry.
my @filler = map { ("X-Filler-$_" => 'x' x 1000) } 1 .. 70;
for my $port ($gateway, $face) {
    is_problem(http_post($port, $LOGIN, json => {}, headers => \@filler), 400,
        'GATEWAY_HEADER_TOO_LARGE', "70 KB of headers at $port");
    is http_post($port, $LOGIN, json => {}, headers => [ @filler[ 0 .. 79 ] ])->code,
        'REQUEST_INVALID', '40 KB get through';
}

# -- a token elsewhere than in Authorization

is http_get($gateway, "$CONTEXT?access_token=$good")->status, 401, 'one in the query';
is http_get($gateway, $CONTEXT, cookie => "access_token=$good")->status, 401,
    'or in a cookie is not seen';

# -- context headers: the client's never arrive, the verified ones do, once

my @SPOOF = map { ($_ => 'spoofed') } qw(
    X-Account-Id X-ACCOUNT-ID x_account_id X.Account.Id X_Account-Id
    X~Account~Id X.Roles x_roles X-Session-Id X-Account-Type X-Token-Type
    X-Token-Scope X-Workspace-Id X-Tenant-Id X-Member-Id X-Active-Branch-Id
    X-Branch-Ids x.branch_ids);
my $claims = (jwt_decode($good))[1];
my %verified = (
    'X-Token-Type' => 'workspace',
    (map { my $claim = $_; 'X-' . join('-', map {ucfirst} split /_/)
        => $claims->{$claim} } qw(account_id account_type session_id token_scope
        workspace_id tenant_id member_id active_branch_id)),
    'X-Branch-Ids' => join(',', @{ $claims->{branch_ids} }),
    'X-Roles' => join(',', @{ $claims->{roles} }),
);
for my $spoof ([], \@SPOOF) {
    my $res = $s->current_context($good, headers => [ @$spoof,
        'X-Other' => 'x', 'X-Request-Id' => 'mine-1', 'X_Request_Id' => 'other',
        'X.Correlation.Id' => 'other' ],
        connection => 'close, X-Account-Id, X-Roles');
    my $name = @$spoof ? 'spoofed headers' : 'control: none';
    my @seen = Platform::Test::Stack::context($res->json);
    is_deeply [ $res->status, scalar @seen, $res->header_all('X-Request-Id') ],
        [ 200, 11, 'mine-1' ], "$name: each context header once, and the id";
    is_deeply { map {@$_} @seen }, \%verified, "$name: as verified";
    unlike $res->body, qr/spoofed/, "$name: nothing of the client's";
    is_deeply { map { $_ => [ header_values($res->json, $_) ] } qw(X-Other
        X-Request-Id X-Correlation-Id Authorization) },
        { 'X-Other' => ['x'], 'X-Request-Id' => ['mine-1'],
            'X-Correlation-Id' => ['mine-1'], Authorization => [] },
        "$name: another header passes, ids once, and no token";
}
is http_post($_, $LOGIN, headers => \@SPOOF, json => { account => 'one@demo.test',
    credential => $Platform::Test::Stack::CREDENTIAL })->status, 200,
    'a login with spoofed headers is a login' for $gateway, $face;

# -- a member with as many branches as there may be

my $login = $s->login('two-hundred')->json;
my @ids = map { $_->{branchId} } @{ $login->{branches} };
my @names = map { $_->{branchName} } @{ $login->{branches} };
is_deeply [ scalar @ids, \@names ], [ 200, [ sort @names ] ], '200 branches, sorted by name';
my $token = $s->select_branch($login, 199)->json->{accessToken};
cmp_ok length $token, '<', 16384, 'the token is under 16 KiB: ' . length $token;
$res = $s->current_context($token, cookie => "platform_refresh_token=$login->{refreshToken}");
is $res->status, 200, 'the gateway lets it through, and a cookie beside it';
is_deeply [ map { [ sort map { split /,/ } header_values($res->json, $_) ] }
    qw(X-Branch-Ids X-Active-Branch-Id) ], [ [ sort @ids ], [ $ids[199] ] ],
    'the service gets every id, and the active one';
is scalar @{ (jwt_decode($s->refresh($login->{refreshToken})->json->{accessToken}))[1]
    {branch_ids} }, 200, 'a refresh has all of them';
ok !eval { $s->postgres->sql(<<'SQL'); 1 }, 'a 201st grant is refused by the database';
insert into branches (branch_id, workspace_id, branch_name)
values ('00000000-0000-4000-8000-0005000f0001',
        '00000000-0000-4000-8000-000200000002', 'Store 201');
insert into branch_grants (member_id, branch_id, workspace_id)
select member_id, '00000000-0000-4000-8000-0005000f0001', workspace_id
  from members
 where account_id = '00000000-0000-4000-8000-000300000002';
SQL
like $@, qr/at most 200/, 'which says why';

# -- metrics and explanations, at a listener of their own

my %question = (json => { method => 'GET', path => '/api/workspaces/branches' });

sub ask (%o) { return http_post($local, '/internal/explain', %question, %o) }

my ($sample) = metrics_parse(http_get($local, '/internal/metrics')->body);
is $sample->{platform_gateway_key_set_keys}, 1, 'metrics: one key';
ok exists $sample->{'platform_gateway_requests_total{route="local",decision="allow"}'},
    'metrics: routes by their ids';
is_405($local, POST => '/internal/metrics', 'GET');
$res = ask()->json;
is_deeply [ $res->{reason}, $res->{location}{routeId} ],
    [ 'token_missing', 'entitlement-workspaces' ], 'an explanation: why, and where';
is_problem(http_get($local, $_), 404, 'GATEWAY_ROUTE_NOT_FOUND', "$_: not served there")
    for '/', '/readyz', '/api/workspaces/x', '/.well-known/jwks.json';

# X-Forwarded-For from a trusted network changes nothing.
for my $headers (map { [ 'X-Forwarded-For' => $_ ] } '203.0.113.1', '127.0.0.1') {
    is http_get($local, '/internal/metrics', headers => $headers)->status,
        200, "@$headers: metrics";
    my $res = ask(headers => $headers);
    is_deeply [ $res->status, $t->logged($res, $s->nginx)->{clientIp} ], [ 200, '127.0.0.1' ],
        "@$headers: an explanation, and the log has who connected";
}

# A page that a browser was led to by a name of its own, or from elsewhere.
for my $host ('rebind.example', 'rebind.example:' . $local,
    '127.0.0.1.rebind.example', 'localhost.rebind.example', '10.0.0.1')
{
    is_problem($_, 404, 'GATEWAY_ROUTE_NOT_FOUND', "nothing for $host")
        for http_get($local, '/internal/metrics', host => $host), ask(host => $host);
}
is ask(host => $_)->status, 200, "an explanation for $_"
    for 'localhost', "localhost:$local", "127.0.0.1:$local", '127.0.0.2', "[::1]:$local";
for my $headers ([ Origin => 'https://evil.example' ], [ Origin => 'null' ],
    [ Origin => "http://127.0.0.1:$local" ], [ origin => '' ],
    [ 'Sec-Fetch-Site' => 'same-origin' ], [ 'sec-fetch-site' => 'none' ])
{
    $res = ask(headers => $headers);
    is_problem($res, 403, 'GATEWAY_ORIGIN_NOT_ALLOWED', "an explanation with @$headers");
    is_deeply [ @{ $t->logged($res, $s->nginx) }{qw(decision reason)} ],
        [ 'deny', 'origin_forbidden' ], 'and so says the log';
}

# To whoever asks the gateway, also by a server in front of it on this host, these
# paths are as unknown as any.
$t->nginx_conf(<<'CONF', 'front');
%%GLOBALS%%
events { }
http {
    %%GLOBALS_HTTP%%
    server {
        listen 127.0.0.1:%%PORT_front%%;
        location / { %%TO_gateway%% proxy_set_header Host 127.0.0.1; }
    }
}
CONF
$t->start_nginx('front');
is http_get($t->port('front'), '/readyz')->status, 200, 'the gateway by a server in front';
for my $port ($gateway, $t->port('front')) {
    for my $headers ([], [ 'X-Forwarded-For' => '127.0.0.1' ],
        [ 'X-Forwarded-For' => '203.0.113.1' ], [ Origin => 'https://evil.example' ])
    {
        for my $request ([ 404, 'GET' ], [ 404, 'POST', body => '{"path":"/"}' ],
            [ 404, 'POST', body => 'x' x 200_000 ], [ 404, 'PUT', body => '' ],
            [ 404, 'DELETE' ], [ 204, 'OPTIONS' ])
        {
            my ($status, $method, @body) = @$request;
            my @answer = map {
                my $res = http($port, $method, "/internal/$_", @body,
                    headers => [ @$headers, 'X-Request-Id' => 'same' ]);
                my %h = map {@$_} grep { $_->[0] ne 'Date' } $res->headers;
                [ $res->status, $res->body, \%h ];
            } qw(unknown metrics explain revocations);
            is $answer[0][0], $status, "$port: $method @$headers";
            is_deeply [ @answer[ 1 .. 3 ] ], [ ($answer[0]) x 3 ], 'no difference';
        }
    }
}

# -- identity gone: its routes say so, the rest goes on

$s->identity->stop;
$t->allow(qr/connect\(\) to unix:\S+ failed/);
is $s->login('one')->code, 'GATEWAY_UPSTREAM_UNAVAILABLE', 'no identity: a login';
is $s->current_context($good)->status, 200, 'no identity: a token in hand still works';
$s->identity->start;
ok eventually(sub { $s->login('one')->status == 200 }), 'identity is back';

$t->finish;
my $logs = join '', $s->identity->log_text, map { $t->read_file("logs/$_") }
    qw(error.log access.log);
ok index($logs, $_) < 0, 'no secret stands in a log' for $Platform::Test::Stack::CREDENTIAL,
    map { s/.*\.//r } $good, $account, @$login{qw(refreshToken accountAccessToken)};
$t->done;
