# Explain: says of every request what the gateway does with it, and why.  Each
# answer is held against what really happens; no token is told or logged.

use JSON::PP;
use Platform::Test;
use Time::Local qw(timegm);

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $issuer = $t->issuer(body => jwks($key, jwt_key('c')));
my $upstream = $t->echo_upstream;
my $port = $t->port('gateway');

my $nginx = $t->gateway_conf(<<'SERVER', http => <<'HTTP');
listen 127.0.0.1:%%PORT_h2%% http2;
server_name gateway.test;
location = /explain {
    platform_gateway_access public;
    allow 127.0.0.1;
    deny all;
    client_body_buffer_size 32k;
    platform_gateway_explain;
    if ($arg_inside) { set $any thing; }
    limit_except POST { deny all; }
}
location = /small {
    platform_gateway_access public;
    allow 127.0.0.1;
    deny all;
    client_body_buffer_size 1k;
    client_body_in_file_only on;
    platform_gateway_explain;
}
location = /filed {
    platform_gateway_access public;
    client_body_in_file_only clean;
    proxy_intercept_errors on;
    error_page 404 = @explain;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location @explain {
    platform_gateway_access public;
    allow 127.0.0.1;
    deny all;
    platform_gateway_explain;
}
location / { platform_gateway_access public; platform_gateway_route_not_found; }
pass /public: platform_gateway_access public;
location /branch/ {
    platform_gateway_access branch;
    platform_gateway_methods GET PUT;
    platform_gateway_route branch branch-service;
    platform_gateway_cors_origins HTTPS://App.test:443
        https://*.wild.test:8443;
    platform_gateway_cors_methods GET PUT PURGE OPTIONS;
    platform_gateway_cors_headers Authorization X-One;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
    pass /branch/nested: platform_gateway_access account;
    pass ~ ^/branch/[0-9]+$: platform_gateway_access system;
}
pass ^~ /branch/static: platform_gateway_access public;
pass = /branch/exact: platform_gateway_access public;
pass ~* \.(png|gif)$: platform_gateway_access public;
location /audience {
    platform_gateway_access account branch;
    platform_gateway_audience api other;
    platform_gateway_claim_header sub X-Subject;
    platform_gateway_claim_header roles X-Roles;
    platform_gateway_claim_header none X-None;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /shadow {
    platform_gateway_access branch;
    platform_gateway_shadow on;
    platform_gateway_methods GET;
    platform_gateway_cors_origins https://app.test;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
    location /shadow/internal { internal; empty_gif; }
}
location /none { }
location /internal {
    internal;
    platform_gateway_access public;
    platform_gateway_cors_origins https://app.test;
    empty_gif;
}
pass /off: platform_gateway off; platform_gateway_cors_origins https://app.test;
SERVER
platform_gateway_issuer http://issuer.test http://second.test;
platform_gateway_token_max_size 4k;
platform_gateway_key_wait 0;
platform_gateway_key_soft_age 1h;
large_client_header_buffers 4 8k;
server {
    listen 127.0.0.1:%%PORT_other%%;
    merge_slashes off;
    location = /explain {
        allow 127.0.0.1;
        deny all;
        platform_gateway_explain Gateway.test;
    }
    location = /explain/bare {
        allow 127.0.0.1;
        deny all;
        platform_gateway_explain bare.test;
    }
    location = /explain/plain {
        allow 127.0.0.1;
        deny all;
        platform_gateway_explain plain.test;
    }
}
server { listen 127.0.0.1:%%PORT_other%%; server_name plain.test; }
server {
    listen 127.0.0.1:%%PORT_other%%;
    server_name bare.test;
    platform_gateway on;
}
HTTP
$t->start_gateway;

my $branch = jwt_token(branch => $key);

sub ask (%question) {
    my $res = http_post($port, '/explain', json => \%question);
    is $res->status, 200, 'an explanation' or diag $res->body;
    return $res->json;
}

# What happens to a request, and what is said of it: both the same.
sub agrees ($name, $reason, %o) {
    my $method = $o{method} // 'GET';
    my $path = $o{path} // '/branch/';
    my $res = http($port, $method => $path, exists $o{token}
        ? (headers => [ Authorization =>
            $o{token} =~ / / ? $o{token} : "Bearer $o{token}" ]) : ());
    my $entry = $t->logged($res);
    my $said = ask(method => $method, path => $path, exists $o{token} ? (token => $o{token}) : ());
    is $entry->{reason}, $reason, "$name: the log";
    is $said->{reason}, $reason, "$name: the explanation";
    is $said->{decision}, $entry->{decision}, "$name: decision";
    is $said->{status}, $res->status, "$name: status" if $entry->{decision} eq 'deny';
    is $said->{code}, $res->json->{code}, "$name: code" if $entry->{decision} eq 'deny';
    my ($failed) = grep { $_->{result} eq 'failed' } @{ $said->{checks} };
    is $failed->{reason}, $entry->{decision} eq 'allow' ? undef : $reason,
        "$name: the first check that fails";
    return $said;
}

# { name of a check => its result }
sub results ($said) {
    return { map { $_->{check} => $_->{result} } @{ $said->{checks} } };
}

my @ORDER = qw(path cors location method bearer size shape header alg typ crit
    kid payload kind claims issuer audience bound notBefore expiry key signature
    context);
my %PASSED = (cors => 'skipped', map { $_ => 'passed' } grep { $_ ne 'cors' } @ORDER);

# A token that opens the location.

my $said = agrees('verified', 'verified', token => $branch);
is_deeply [ map { $_->{check} } @{ $said->{checks} } ], \@ORDER, 'the checks in their order';
is_deeply results($said), \%PASSED, 'all passed';
my ($header, $claims) = jwt_decode($branch);
is_deeply $said->{token}, { bytes => length $branch, alg => 'RS256',
    typ => 'JWT', kid => 'a', map { $_ => $claims->{$_} }
        qw(iss iat exp token_type token_scope) }, 'what is told of the token';
is_deeply $said->{location}, { name => '/branch/', match => 'prefix',
    gateway => JSON::PP::true, access => ['branch'],
    methods => 'GET, HEAD, PUT, OPTIONS', routeId => 'branch',
    serviceName => 'branch-service',
    issuers => [ 'http://issuer.test', 'http://second.test' ],
    audiences => [], leewaySeconds => 30, tokenMaxSize => 4096,
    corsOrigins => [ 'https://app.test', 'https://*.wild.test:8443' ],
    corsMethods => 'GET, PUT, PURGE, OPTIONS',
    corsHeaders => 'Authorization, X-One', shadow => JSON::PP::false },
    'the location';
is_deeply [ sort @{ $said->{headers} } ], [ sort map {"X-$_"}
    qw(Account-Id Account-Type Session-Id Token-Type Token-Scope Workspace-Id
    Tenant-Id Member-Id Active-Branch-Id Branch-Ids Roles) ],
    'the headers that go upstream';
is $said->{keySet}{version}, 1, 'the key set';
is $said->{keySet}{keys}, 2, 'its keys';
cmp_ok $said->{keySet}{ageSeconds}, '<', 60 * $t->scale, 'its age';
is ask(path => '/branch/', token => "bEARER  $branch")->{reason},
    'verified', 'the value of a header does as well';

# Each check in turn fails, all else being good.

sub signed { return jwt_sign(key => $key, payload => jwt_claims('branch'), @_) }

my $sign_key = jwt_key('c')->as('a');
my $json = JSON::PP->new->canonical;
my %payload = %{ jwt_claims('branch') };
my %bad = (
    bearer    => [ token_missing => undef ],
    size      => [ token_size => jwt_token(branch => $key,
        padding => 'x' x 4096) ],
    shape     => [ token_shape => 'a.b' ],
    header    => [ token_json => signed(header => '{') ],
    alg       => [ token_alg => signed(header => { alg => 'RS512' }) ],
    typ       => [ token_typ => signed(header => { typ => 'DPoP' }) ],
    crit      => [ token_crit => signed(header => { crit => ['b64'] }) ],
    kid       => [ token_kid => signed(header => { kid => undef }) ],
    payload   => [ token_json => signed(payload => '{"a":1,"a":2}') ],
    kind      => [ token_kind => jwt_token(branch => $key,
        token_scope => 'ACCOUNT') ],
    claims    => [ token_claims => jwt_token(branch => $key,
        workspace_id => undef) ],
    issuer    => [ token_issuer => jwt_token(branch => $key, iss => 'x') ],
    audience  => [ token_audience => $branch, '/audience' ],
    bound     => [ token_bound => jwt_token(branch => $key,
        cnf => { jkt => 'x' }) ],
    notBefore => [ token_not_yet => jwt_token(branch => $key,
        nbf => time + 600) ],
    expiry    => [ token_expired => jwt_token(branch => $key,
        iat => time - 900, exp => time - 600) ],
    key       => [ kid_unknown => jwt_token(branch => jwt_key('b'),
        iat => time - 600) ],
    signature => [ token_signature => jwt_token(branch => $sign_key) ],
    context   => [ context_forbidden => jwt_token(account => $key) ],
);
my %more;    # what one that fails keeps from being made
@more{qw(bearer size shape)} = (map { [ @ORDER[ $_ .. $#ORDER ] ] } 5, 6, 7);
$more{header} = [qw(alg typ crit kid key signature)];
$more{alg} = [qw(typ crit kid key signature)];
$more{typ} = [qw(crit kid key signature)];
$more{crit} = [qw(kid key signature)];
$more{kid} = [qw(key signature)];
$more{payload} = [qw(kind claims issuer audience bound notBefore expiry context)];
$more{kind} = [qw(claims issuer audience bound notBefore expiry context)];
$more{claims} = [qw(issuer audience bound notBefore expiry context)];
$more{key} = [qw(signature)];

for my $check (grep { $bad{$_} } @ORDER) {
    my ($reason, $token, $path) = @{ $bad{$check} };
    $said = agrees($check, $reason, path => $path // '/branch/',
        defined $token ? (token => $token) : ());
    my %want = (%PASSED, $check => 'failed', map({ $_ => 'skipped' } @{ $more{$check} // [] }));
    is_deeply results($said), \%want, "$check: fails, and it alone";
    is_deeply $said->{headers}, [], "$check: no headers";
}
is join(' ', map { $_->{claim} // () } @{ ask(path => '/branch/',
    token => $bad{claims}[1])->{checks} }), 'workspace_id',
    'the claim that is missing';
is ask(path => '/branch/', token => $bad{alg}[1])->{token}{alg}, 'RS512',
    'the algorithm that is wrong';
is ask(path => '/branch/', token => $bad{key}[1])->{token}{kid}, 'b', 'the key that is not known';
agrees(@$_) for [ 'no text after Bearer', 'token_shape', token => 'Bearer x y' ],
    [ 'another scheme', 'token_missing', token => 'Basic YTpi' ],
    [ 'no base64', 'token_encoding', token => "e30*.$payload{sub}.x" ],
    [ 'a header that is no object', 'token_header', token => signed(header => '[]') ],
    [ 'claims that are no object', 'token_claims', token => signed(payload => '[]') ];
my $newer = jwt_token(branch => jwt_key('b'), iat => time + 20);
http_get($port, '/branch/', token => $newer);    # now none may be fetched
agrees('a token that is newer than the keys', 'kid_pending',
    token => $newer);

# The second in which the fetch began may be before it or after.

my $dated = http_post($port, '/explain', json => { path => '/branch/' });
my ($day, $month, $year, @clock) = $dated->header('Date')
    =~ /(\d+) (\w+) (\d+) (\d+):(\d+):(\d+) GMT/;
my $fetched = timegm(@clock[2, 1, 0], $day,
    index('JanFebMarAprMayJunJulAugSepOctNovDec', $month) / 3, $year)
    - $dated->json->{keySet}{ageSeconds};
is ask(path => '/branch/', token => jwt_token(branch => jwt_key('b'),
    iat => $fetched + $_->[0]))->{reason}, $_->[1],
    "issued $_->[0] s after the fetch began: $_->[1]"
    for [ 0, 'kid_pending' ], [ -1, 'kid_unknown' ];

# Faults of a token all at once; what a later look says of an old token.

my $old = jwt_token(account => $sign_key, iss => 'x', iat => 1000, exp => 2000);
$said = agrees('many faults', 'token_issuer', token => $old);
is_deeply [ grep { results($said)->{$_} eq 'failed' } @ORDER ],
    [qw(issuer expiry signature context)], 'all of them are told';
my $late = jwt_token(branch => $key, iat => 1_000_000, exp => 1_000_900);
for my $case ([ undef, 'token_expired' ], [ 1_000_100, 'verified' ], [ 1_000_929, 'verified' ],
    [ 1_000_930, 'token_expired' ], [ 900_000, 'token_not_yet' ]) {
    my ($at, $reason) = @$case;
    $said = ask(path => '/branch/', token => $late, defined $at ? (at => $at) : ());
    is $said->{reason}, $reason, 'an old token, at ' . ($at // 'this time');
    is $said->{at}, $at, 'at that time' if defined $at;
}

# Locations, as nginx finds them.

my %where = (
    '/branch/x'           => [ '/branch/', 'prefix', 'branch' ],
    '/branch/x?y=/public' => [ '/branch/', 'prefix', 'branch' ],
    '/public/../branch/'  => [ '/branch/', 'prefix', 'branch' ],
    '/%62ranch/'          => [ '/branch/', 'prefix', 'branch' ],
    '/public/%2e%2e//branch/' => [ '/branch/', 'prefix', 'branch' ],
    '/branch/nested/x'    => [ '/branch/nested', 'prefix', 'account' ],
    '/branch/42'          => [ '^/branch/[0-9]+$', 'regex', 'system' ],
    '/branch/42x'         => [ '/branch/', 'prefix', 'branch' ],
    '/branch/x.PNG'       => [ '\.(png|gif)$', 'regex', 'public' ],
    '/branch/static/1.png' => [ '/branch/static', 'prefix', 'public' ],
    '/branch/exact'       => [ '/branch/exact', 'exact', 'public' ],
    '/branch/exactly'     => [ '/branch/', 'prefix', 'branch' ],
    '/public#/branch'     => [ '/public', 'prefix', 'public' ],
    '/publicity'          => [ '/public', 'prefix', 'public' ],
);
for my $path (sort keys %where) {
    my ($name, $match, $access) = @{ $where{$path} };
    $said = agrees($path, $access eq 'public' ? 'public'
        : $access eq 'branch' ? 'verified' : 'context_forbidden',
        path => $path, token => $branch);
    is_deeply [ @{ $said->{location} }{qw(name match)},
        "@{ $said->{location}{access} }" ], [ $name, $match, $access ],
        "$path: where";
}
for my $path ('/branch/%', '/branch/%00', '/../..', '/a b', 'branch',
    "/\x7f") {
    $said = ask(path => $path);
    is_deeply [ @$said{qw(decision reason status location)} ],
        [ 'deny', 'bad_request', 400, undef ], "$path: no path";
    like http_raw($port, "GET $path HTTP/1.0\r\n\r\n"), qr/ 400 Bad/, "$path: as nginx says";
}
is_deeply ask(path => '/public', token => 'x')->{headers}, [], 'public: no headers';
is ask(path => '/branch/', method => 'PUT', token => $branch)->{reason},
    'verified', 'a method that is allowed';
for my $case (
    [ 'another method', 'method_forbidden', method => 'POST', token => $branch ],
    [ 'a method that is none', 'method_forbidden', method => 'BREW', token => $branch ],
    [ 'TRACE', 'method_forbidden', method => 'TRACE', path => '/public' ],
    map({ [ "OPTIONS of $_", 'options', method => 'OPTIONS', path => $_ ] }
        qw(/branch/ /branch /nothing /none /internal)),
    [ 'no level', 'route_not_found', path => '/none' ],
    [ 'internal', 'route_not_found', path => '/internal' ],
    [ 'all that is not served', 'route_not_found', path => '/nothing', token => $branch ],
    [ 'no token where none is needed', 'public', path => '/public' ],
    [ 'shadow', 'token_shape', path => '/shadow', token => 'x.y' ],
    [ 'shadow, by method', 'method_forbidden', path => '/shadow', method => 'POST',
        token => $branch ],
) {
    agrees(@$case);
}
$said = ask(path => '/branch');
is_deeply [ @$said{qw(decision status)} ], [ undef, 301 ], 'a redirect to the directory';
$said = ask(path => '/off', token => 'x');
is_deeply [ @$said{qw(decision reason)} ], [ undef, undef ], 'a location where the gateway is off';
is http_get($port, '/branch')->status, 301, 'is one';
is ask(path => '/shadow/internal', token => $branch)->{decision}, 'deny',
    'shadow does not open what is internal';
$said = agrees('audience', 'verified', path => '/audience',
    token => jwt_token(branch => $key, aud => [ 'x', 'api' ]));
is_deeply $said->{headers}, [ 'X-Subject', 'X-Roles' ], 'the headers of its own map';

# Of a page: its preflight first, as the gateway answers one.

sub page ($name, $want, %o) {
    my $path = $o{path} // '/branch/';
    my $res = http($port, OPTIONS => $path, headers => [
        Origin => $o{origin},
        'Access-Control-Request-Method' => $o{method} // 'GET',
        defined $o{headers}
            ? ('Access-Control-Request-Headers' => $o{headers}) : () ]);
    my $entry = $t->logged($res);
    my $answer = ask(path => $path, token => $branch, %o);
    my ($cors) = grep { $_->{check} eq 'cors' } @{ $answer->{checks} };
    my $refused = $entry->{decision} ne 'allow';
    is $entry->{reason}, $want, "$name: the log of the preflight";
    is $cors->{result}, $refused ? 'failed' : 'passed', "$name: the check";
    is $cors->{reason}, $refused ? $want : undef, "$name: why";
    if ($refused) {
        is_deeply [ @$answer{qw(decision reason)} ],
            [ @$entry{qw(decision reason)} ], "$name: decides";
    }
    if ($entry->{decision} eq 'deny') {
        is_deeply [ @$answer{qw(status code)}, $cors->{detail} ],
            [ $res->status, @{ $res->json }{qw(code detail)} ],
            "$name: as the preflight is answered";
    }
    return $answer;
}

my $APP = 'https://app.test';
my ($no_origin, $no_method, $no_header)
    = map {"${_}_forbidden"} qw(origin preflight_method preflight_header);
$said = page('a page', 'preflight', origin => $APP);
is_deeply results($said), { %PASSED, cors => 'passed' }, 'a page: all passed';
is $said->{reason}, 'verified', 'a page: and then as any request';
page(@$_) for
    [ 'a label of a pattern', 'preflight', origin => 'https://a.wild.test:8443' ],
    [ 'its headers', 'preflight', origin => $APP, method => 'PUT',
        headers => ' authorization,x-ONE , ' ],
    [ 'another origin', $no_origin, origin => 'http://app.test', method => 'BREW',
        headers => 'x-two' ],
    [ 'a method', $no_method, origin => $APP, method => 'DELETE', headers => 'x-two' ],
    [ 'one that is not repeated', $no_method, origin => $APP, method => 'A"B' ],
    [ 'a header', $no_header, origin => $APP, headers => 'authorization, x-two, x-three' ],
    [ 'one that is not repeated', $no_header, origin => $APP, headers => 'x-one, a b' ];
is ask(path => '/branch/', origin => "$APP\t")->{reason}, $no_origin, 'no white space';
page('a method that is for others alone', 'preflight', origin => $APP, method => 'PURGE');
is ask(path => '/branch/', origin => $APP, method => 'PURGE')->{reason},
    'method_forbidden', 'the request itself is refused by the location';
is ask(path => '/branch/', origin => $APP, token => 'x.y')->{reason},
    'token_shape', 'and for its token';
$said = page('both', $no_origin, origin => 'https://x.test', token => 'x.y');
is results($said)->{shape}, 'failed', 'both: all faults are told';
is results($said)->{location}, 'passed', 'both: and what is right';
page('no path', $no_origin, origin => $APP, path => '/nothing');
page('in shadow mode', $no_method, origin => $APP, path => '/shadow', method => 'BREW');
page('in shadow mode, allowed', 'preflight', origin => $APP, path => '/shadow');
page('the server answers for what is internal', $no_origin, origin => $APP, path => '/internal');
page('a redirect to the directory', 'preflight', origin => $APP, path => '/branch');
is results(ask(path => '/off', origin => 'x'))->{cors}, 'skipped', 'where the gateway is off';
is results(ask(path => 'x', origin => 'x'))->{cors}, 'skipped', 'no such path';
is results(ask(path => '/branch/', headers => 'x-two'))->{cors}, 'skipped', 'headers of no page';

# Which headers of a client's no upstream gets, a look-alike of an id among
# them: each name is said just if its header does not arrive.

my @names = qw(X-One x-ROLES X-Account-Id X-Request-Id Accept X-Tenant-Id X-Subject);
my $arrived = http_get($port, '/public', headers => [ map { $_ => 'client' }
    @names ])->json;
my %kept = map { lc $_->[0] => 1 } grep { $_->[1] eq 'client' }
    @{ $arrived->{headers} };
is_deeply ask(path => '/public', headers => join(', ', @names, 'X_Roles',
    'X_Request_Id'))->{stripped}, [ (grep { !$kept{ lc $_ } } @names),
    'X_Roles', 'X_Request_Id' ], 'what is stripped';
is_deeply [ sort keys %kept ], [qw(accept x-correlation-id x-one x-request-id)],
    'control: the others arrive';
is_deeply ask(path => '/branch/', token => 'x', headers => 'X-Roles')
    ->{stripped}, ['X-Roles'], 'of a request that is refused, too';
is_deeply ask(path => '/public')->{stripped}, [], 'none were named';
is_deeply http_post($t->port('other'), "/explain/$_->[0]", json => {
    path => '/', headers => 'X-Roles' })->json->{stripped}, $_->[1],
    "by a server where the gateway is $_->[2]"
    for [ 'bare', ['X-Roles'], 'on' ], [ 'plain', [], 'off' ];

# Of a server by its name, as that server would have it.

sub same_elsewhere (%question) {
    my ($here, $there) = map { http_post($_, '/explain', json => \%question) }
        $port, $t->port('other');
    is $there->status, 200, "another server: an explanation of $question{path}";
    my @said = map { $_->body =~ s/"ageSeconds":\d+//r } $here, $there;
    is $said[1], $said[0], "another server: of this one";
}
same_elsewhere(path => '/branch/', origin => $APP, method => $_, at => time) for qw(PUT BREW);
same_elsewhere(path => $_, token => $branch, at => time)
    for '/branch/', '/public/%2e%2e//branch/', '/branch/42', '/nothing', '/a b';
is http_post($t->port('other'), '/explain/bare', json => { path => '/none' })
    ->json->{reason}, 'route_not_found', 'a server that has no location at all';

# Questions that are none.

is_problem(http_post($port, '/explain', body => $_), 400, 'REQUEST_INVALID', "body '$_'")
    for '', 'token=x', '[]', '{"path":"/","path":"/"}', '{"path":"/","tokn":"x"}', '{"path":1}',
    '{"path":"/","origin":null}', '{"path":"/","origin":"a","headers":["b"]}',
    '{"token":"x"}', '{"path":""}', '{"path":"/","at":"1"}', '{"path":"/","at":-1}',
    '{"path":"/","at":9223372036854775807}';
is_problem(http_get($port, '/explain?token=x'), 405, 'METHOD_NOT_ALLOWED', 'GET');
is http_post($port, '/explain?inside=1', json => { path => '/' })->status, 200, 'inside of an "if"';
is http_get($port, '/explain')->header('Allow'), 'POST, OPTIONS', 'Allow';
is_problem(http_post($port, '/explain', body => '{"path":"/"}',
    from => '127.0.0.2'), 403, 'GATEWAY_FORBIDDEN', 'another host');
is_problem(http_post($port, '/explain', body => '{"path":"/"}', headers => $_),
    403, 'GATEWAY_ORIGIN_NOT_ALLOWED', "a browser, by $_->[0]")
    for [ Origin => $APP ], [ 'Sec-Fetch-Site' => 'same-origin' ];
is_problem(http_post($port, '/explain', body => ' ' x 32769), 413,
    'GATEWAY_REQUEST_TOO_LARGE', 'a large body');
is http_post($port, '/explain', body => '{"path":"/"}' . ' ' x 32700)->status,
    200, 'one that just fits';
is_problem(http_post($port, '/small', body => ' ' x 1025), 413,
    'GATEWAY_REQUEST_TOO_LARGE', 'a body that would go to disk');
is http_post($port, '/small', body => '{"path":"/"}' . ' ' x 1000)->status, 200,
    'one that does not';
is_deeply [ grep { -f } glob $t->dir . '/nginx/client_body/*' ], [], 'nothing went to disk';
is_problem(http_post($port, '/filed?status=404', body => '{"path":"/"}'), 413,
    'GATEWAY_REQUEST_TOO_LARGE', 'a body that another location put on disk');
like http_raw($port, "POST /explain HTTP/1.1\r\nHost: a\r\nConnection: close"
    . "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), qr/ 411 /,
    'a body of unknown length';

# A body that comes by HTTP/2, or in pieces.

SKIP: {
    skip 'no curl with HTTP/2', 1 if `curl -V` !~ /HTTP2/;
    my $file = $t->write_file('question', $json->encode({ path => '/branch/', token => $branch }));
    my $url = 'http://127.0.0.1:' . $t->port('h2') . '/explain';
    like qx{curl -s --http2-prior-knowledge $url -d \@$file}, qr/"reason":"verified"/, 'HTTP/2';
}
my $c = Platform::Test::Http->new(port => $port);
my $bytes = http_request_bytes(POST => '/explain',
    json => { path => '/branch/', token => $branch });
$c->send($1) while $bytes =~ s/\A(.{1,300})//s and sleep 0.02;
is $c->read_response->json->{reason}, 'verified', 'a body in pieces';

# No key set yet.

$t->stop($nginx);
$issuer->set(status => 500);
$t->nginx_conf(do { local $/; open my $fh, '<', $t->dir . '/nginx.conf'; <$fh> });
$t->start_nginx;
$said = ask(path => '/branch/', token => $branch);
is_deeply [ @$said{qw(decision reason status)} ], [ 'deny', 'keys_unavailable', 503 ], 'no keys';
is_deeply $said->{keySet}, { version => 0, keys => 0, ageSeconds => undef }, 'none at all';
is http_get($port, '/branch/', token => $branch)->status, 503, 'as it is';

# Nothing secret anywhere.

my $logs = join '', map { $t->read_file($_) }
    qw(nginx.error.log nginx.access.log nginx.combined.log);
for my $token ($branch, $old, map { $_->[1] // () } values %bad) {
    my $end = (split /\./, $token)[-1];
    next if length $end < 9;
    unlike $logs, qr/\Q$end\E/, 'no token in a log';
}
unlike $json->encode(ask(path => '/branch/', token => $branch)),
    qr/\Q$payload{account_id}\E|\Q@{[ (split m{\.}, $branch)[2] ]}\E/,
    'neither who it is for nor its signature is told';

# nginx -t

sub check ($location, $server = undef) {
    return $t->location_test(server => $server, location => "$location platform_gateway_explain;");
}
my ($ok, $out);
for my $closed ([ 'allow 127.0.0.1; deny all;' ], [ 'internal;' ], [ 'deny all;' ],
    [ 'allow unix:; allow ::1; deny all;' ], [ 'deny 0.0.0.0/0; deny ::/0; deny unix:;' ],
    [ '', 'allow 127.0.0.1; deny all;' ]) {
    ($ok, $out) = check(@$closed);
    ok $ok, "accepted: @$closed" or diag $out;
}
for my $open ('', 'allow 127.0.0.1;', 'deny 10.0.0.0/8; allow all;', 'deny 0.0.0.0/0;',
    'deny all; allow 10.0.0.1;', 'allow all; deny all;',
    'allow 127.0.0.1; allow 0.0.0.0/0; deny all;', 'allow unix:; allow ::/0; deny all;',
    'allow unix:; deny 0.0.0.0/0; deny ::/0;', 'deny 10.0.0.0/8; deny ::/0; deny unix:;',
    'platform_gateway on; platform_gateway_access public;',
    'deny all; limit_except GET { allow all; }',
    'platform_gateway off; platform_gateway_access system;') {
    ($ok, $out) = check($open);
    ok !$ok, "refused: $open";
    like $out, qr/location "\/here" .* open to anybody: say "[^"]+" .*:\d+/,
        'with the remedy, file and line';
}

# A server to explain, among those that the configuration has.
sub named ($name, @servers) {
    return $t->location_test(
        http => join('', map {"server { listen 127.0.0.1:8; $_ }\n"} @servers),
        location => "deny all; platform_gateway_explain $name;");
}
my @other = ('server_name a.test b.test b.test;', 'server_name c.test;');
for my $name ('a.test', 'B.test', 'c.test') {
    ($ok, $out) = named($name, @other);
    ok $ok, "accepted: a server $name" or diag $out;
}
for my $name ('d.test', '.test', 'a') {
    ($ok, $out) = named($name, @other);
    ok !$ok, "refused: a server $name, which is not there";
}
($ok, $out) = named('c.test', @other, 'server_name c.test;');
ok !$ok, 'refused: two servers of that name';
like $out, qr/"\/here" .* not exactly one server has that .*:\d+/, 'with file and line';

($ok, $out) = check('allow 127.0.0.1; deny all;', 'platform_gateway on;');
ok !$ok, 'refused: no access level';
like $out, qr/no "platform_gateway_access"/, 'with the remedy';

$t->done;
