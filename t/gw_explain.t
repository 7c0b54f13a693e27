# Explain: says of every request what the gateway does with it, and why.  Each
# answer is held against what really happens; no token is told or logged.  Where it
# may stand, gw_conf_errors.t shows.

use JSON::PP;
use Platform::Test;
use Time::Piece ();

my ($t, $key, $issuer) = Platform::Test->gateway;
$issuer->set(body => jwks($key, jwt_key('c')));
my $port = $t->port('gateway');

$t->set(CORS => 'platform_gateway_cors_origins https://app.test;',
    EXPLAIN => 'platform_gateway_access public; platform_gateway_explain;');
$t->gateway_conf(<<'SERVER', buffers => '4 8k', http => <<'HTTP');
server_name gateway.test;
location = /explain {
    client_body_buffer_size 32k; %%EXPLAIN%%
    if ($arg_inside) { set $any thing; } limit_except POST { deny all; }
    add_header X-Looked "of $looked";
}
pass ~ ^/(?<looked>look)ed$: platform_gateway_access public; client_max_body_size 1;
    log_subrequest on; access_log %%DIR%%/looked.log; limit_except POST { deny all; }
location = /small { client_body_buffer_size 1k; client_body_in_file_only on; %%EXPLAIN%% }
pass = /filed: client_body_in_file_only clean; platform_gateway_access public;
    proxy_intercept_errors on; error_page 404 = @explain;
location @explain { %%EXPLAIN%% }
location / { platform_gateway_access public; platform_gateway_route_not_found; }
pass /public: platform_gateway_access public;
pass /branch/: platform_gateway_access branch; platform_gateway_methods GET PUT;
    platform_gateway_route branch branch-service;
    platform_gateway_cors_origins HTTPS://App.test:443 https://*.wild.test:8443;
    platform_gateway_cors_methods GET PUT PURGE OPTIONS;
    platform_gateway_cors_headers Authorization X-One;
    pass ~ ^/branch/[0-9]+$: platform_gateway_access system;
pass = /branch/exact: platform_gateway_access public;
pass /audience: platform_gateway_access account branch;
    platform_gateway_audience api other;
    platform_gateway_claim_header sub X-Subject; platform_gateway_claim_header none X-None;
    platform_gateway_claim_header roles X-Roles;
pass /strict: platform_gateway_access public; platform_gateway_strict_path on; %%CORS%%
    pass /strict/shadow: platform_gateway_shadow on;
    pass /strict/off: platform_gateway_strict_path off;
    location /strict/return { platform_gateway_allow_return on; return 200; }
pass /shadow: platform_gateway_access branch; platform_gateway_shadow on;
    platform_gateway_methods GET; %%CORS%%
    location /shadow/internal { internal; empty_gif; }
location /none { }
pass /internal: internal; platform_gateway_access public; %%CORS%%
pass /off: platform_gateway off; %%CORS%%
SERVER
platform_gateway_issuer http://issuer.test http://second.test;
platform_gateway_token_max_size 4k;
platform_gateway_key_wait 0;
platform_gateway_key_soft_age 1h;
platform_gateway_key_cooldown 10m;
allow 127.0.0.1; deny all;
server {
    listen 127.0.0.1:%%PORT_other%%;
    merge_slashes off;
    location = /explain { platform_gateway_explain Gateway.test; }
    location = /explain/bare { platform_gateway_explain bare.test; }
    location = /explain/plain { platform_gateway_explain plain.test; }
}
server { listen 127.0.0.1:%%PORT_other%%; server_name plain.test; }
server { listen 127.0.0.1:%%PORT_other%%; server_name bare.test; platform_gateway on; }
log_format also_reads $platform_claim_tenant_id;
HTTP
$t->start_gateway;

my $branch = jwt_token(branch => $key);

sub ask (%question) {
    my $res = http_post($port, '/explain', json => \%question);
    die 'no explanation: ' . $res->body if $res->status != 200;
    return $res->json;
}

# What happens to a request, and what is said of it: both the same.  Of a page, the
# preflight, as the gateway answers one, and then its request with a good token.
sub agrees ($name, $reason, %o) {
    %o = (method => 'GET', path => '/branch/', defined $o{origin} ? (token => $branch) : (), %o);
    my $res = http($port, defined $o{origin} ? 'OPTIONS' : $o{method}, $o{path}, headers => [
        map({ (Origin => $_, 'Access-Control-Request-Method' => $o{method}) } $o{origin} // ()),
        map({ ('Access-Control-Request-Headers' => $_) } $o{headers} // ()),
        map { (Authorization => / / ? $_ : "Bearer $_") } $o{token} // () ]);
    my ($decision, $logged) = @{ $t->logged($res) }{qw(decision reason)};
    my $said = ask(%o);
    my ($failed) = grep { $_->{result} eq 'failed' } @{ $said->{checks} };
    my @answer = $decision eq 'deny' ? ($res->status, $res->json->{code}) : ();
    push @answer, $res->json->{detail} if @answer && defined $o{origin};
    is_deeply [ $logged, @$said{qw(decision reason)}, $failed->{reason},
        (@$said{qw(status code)}, $failed->{detail})[ 0 .. $#answer ] ],
        [ $reason, $decision, $reason eq 'preflight' ? 'verified' : $reason,
        $decision eq 'allow' ? undef : $reason, @answer ],
        "$name: $reason, the log and what is said";
    return $said;
}

# [name, question, members of what is said of it]
sub says {
    for my $case (@_) {
        my ($name, $question, %want) = @$case;
        my $said = ask(path => '/branch/', %$question);
        is_deeply { map { $_ => $said->{$_} } keys %want }, \%want, "$name: what is said";
    }
}

# { name of a check => its result }
sub results ($said) {
    return { map { $_->{check} => $_->{result} } @{ $said->{checks} } };
}

# The search for the location leaves nothing behind.
my $looked = http_post($port, '/explain', json => { path => '/looked' });
is_deeply [ $looked->status, $looked->json->{location}{match}, $looked->header('X-Looked') ],
    [ 200, 'regex', 'of ' ], 'a location with limits and captures of its own';
is $t->read_file('looked.log'), '', 'and a log, of its own requests alone';

my @HEADER = qw(header alg typ crit kid key signature);
my @CLAIMS = qw(payload kind claims issuer audience bound notBefore expiry context);
my @ORDER = (qw(path cors location method bearer size shape), @HEADER[ 0 .. 4 ],
    @CLAIMS[ 0 .. 7 ], qw(key signature session proof context require authentication));
my %PASSED = (map({ $_ => 'passed' } @ORDER), map { $_ => 'skipped' } qw(cors session proof require authentication));

my $said = agrees('verified', 'verified', token => $branch);
is_deeply [ map {"$_->{check} $_->{result}"} @{ $said->{checks} } ],
    [ map {"$_ $PASSED{$_}"} @ORDER ], 'the checks in their order: all passed';
is_deeply $said->{location}, { name => '/branch/', match => 'prefix',
    gateway => JSON::PP::true, access => ['branch'], methods => 'GET, HEAD, PUT, OPTIONS',
    routeId => 'branch', serviceName => 'branch-service',
    issuers => [ 'http://issuer.test', 'http://second.test' ], audiences => [],
    require => [], authentication => undef, leewaySeconds => 30, tokenMaxSize => 4096, shadow => JSON::PP::false,
    corsOrigins => [ 'https://app.test', 'https://*.wild.test:8443' ],
    corsMethods => 'GET, PUT, PURGE, OPTIONS', corsHeaders => 'Authorization, X-One',
}, 'the location';
is_deeply [ sort @{ $said->{headers} } ], [ map {"X-$_"} qw(Account-Id Account-Type
    Active-Branch-Id Branch-Ids Member-Id Roles Session-Id Tenant-Id Token-Scope Token-Type
    Workspace-Id) ], 'the headers that go upstream';
is_deeply [ @{ $said->{keySet} }{qw(version keys)} ], [ 1, 2 ], 'the key set';

# Each check in turn fails, all else being good.

sub signed { return jwt_sign(key => $key, payload => jwt_claims('branch'), @_) }

sub token (@change) { return jwt_token(branch => $key, @change) }

my $sign_key = jwt_key('c')->as('a');
my $json = JSON::PP->new->canonical;
my %payload = %{ jwt_claims('branch') };
my %bad = (
    bearer    => ['token_missing'],
    size      => [ token_size => token(padding => 'x' x 4096) ],
    shape     => [ token_shape => 'a.b' ],
    header    => [ token_json => signed(header => '{') ],
    alg       => [ token_alg => signed(header => { alg => 'HS512' }) ],
    typ       => [ token_typ => signed(header => { typ => 'DPoP' }) ],
    crit      => [ token_crit => signed(header => { crit => ['b64'] }) ],
    kid       => [ token_kid => signed(header => { kid => undef }) ],
    payload   => [ token_json => signed(payload => '{"a":1,"a":2}') ],
    kind      => [ token_kind => token(token_scope => 'ACCOUNT') ],
    claims    => [ token_claims => token(workspace_id => undef) ],
    issuer    => [ token_issuer => token(iss => 'x') ],
    audience  => [ token_audience => $branch, '/audience' ],
    bound     => [ token_bound => token(cnf => { jkt => 'x' }) ],
    notBefore => [ token_not_yet => token(nbf => time + 600) ],
    expiry    => [ token_expired => token(iat => time - 900, exp => time - 600) ],
    key       => [ kid_unknown => jwt_token(branch => jwt_key('b'), iat => time - 600) ],
    signature => [ token_signature => jwt_token(branch => $sign_key) ],
    context   => [ context_forbidden => jwt_token(account => $key) ],
);

# What one that fails keeps from being made: all after it of its row.
my %more;
for my $row ([ 2, @ORDER[ 4 .. $#ORDER ] ], [ 5, @HEADER ], [ 2, @CLAIMS ]) {
    my ($last, @checks) = @$row;
    $more{ $checks[$_] } = [ @checks[ $_ + 1 .. $#checks ] ] for 0 .. $last;
}

for my $check (grep { $bad{$_} } @ORDER) {
    my ($reason, $token, $path) = @{ $bad{$check} };
    $said = agrees($check, $reason, path => $path // '/branch/', $token ? (token => $token) : ());
    my %want = (%PASSED, $check => 'failed', map { $_ => 'skipped' } @{ $more{$check} // [] });
    is_deeply [ results($said), $said->{headers} ], [ \%want, [] ],
        "$check: fails, and it alone; no headers";
}
is_deeply [ map { my $of = $_;
    map {"$of: " . ($_->{claim} // $_->{found} // 'no more')} grep { $_->{result} eq 'failed' }
        @{ ask(path => '/branch/', token => $bad{$of}[1])->{checks} } }
    qw(claims alg typ kid key issuer expiry signature) ],
    [ 'claims: workspace_id', 'alg: HS512', 'typ: DPoP', 'kid: no more', 'key: b', 'issuer: x',
    'expiry: no more', 'signature: no more' ], 'a check that fails says what it has found';
agrees(@$_) for [ 'the value of a header', 'verified', token => "bEARER  $branch" ],
    [ 'another scheme', 'token_missing', token => 'Basic YTpi' ],
    [ 'an alg of another key', 'token_alg', token => signed(header => { alg => 'ES256' }) ],
    [ 'padding in the payload', 'token_encoding', token => $branch =~ s/\.(?=[^.]*\z)/=./r ],
    [ 'padding in the signature', 'token_signature', token => "$branch=" ],
    [ 'a header that is no object', 'token_header', token => signed(header => '[]') ],
    [ 'claims that are no object', 'token_claims', token => signed(payload => '[]') ];
my $newer = jwt_token(branch => jwt_key('b'), iat => time + 20);
agrees('a token that is newer than the keys, and none may be fetched', 'kid_pending', token => $newer);

# The second in which the fetch began may be before it or after.

my $dated = http_post($port, '/explain', json => { path => '/branch/' });
my $fetched = Time::Piece->strptime($dated->header('Date'), '%a, %d %b %Y %T GMT')->epoch
    - $dated->json->{keySet}{ageSeconds};
says(map { [ "issued $_->[0] s after the fetch began",
    { token => jwt_token(branch => jwt_key('b'), iat => $fetched + $_->[0]) }, reason => $_->[1] ] }
    [ 0, 'kid_pending' ], [ -1, 'kid_unknown' ]);

# Faults of a token all at once; what a later look says of an old token.

my $old = jwt_token(account => $sign_key, iss => 'x', iat => 1000, exp => 2000);
$said = agrees('many faults', 'token_issuer', token => $old);
is_deeply [ grep { results($said)->{$_} eq 'failed' } @ORDER ],
    [qw(issuer expiry signature context)], 'all of them are told';
my $late = token(iat => 1_000_000, exp => 1_000_900);
says([ 'an old token, now', { token => $late }, reason => 'token_expired' ],
    map { my ($at, $reason) = @$_;
        [ "an old token, at $at", { token => $late, at => $at }, reason => $reason, at => $at ] }
    [ 1_000_100, 'verified' ], [ 1_000_929, 'verified' ], [ 1_000_930, 'token_expired' ],
    [ 900_000, 'token_not_yet' ]);

for my $case (
    map({ [ $_, '/branch/', 'prefix', 'branch' ] } '/branch/x?y=/public', '/public/%2e%2e//%62ranch/'),
    [ '/branch/42', '^/branch/[0-9]+$', 'regex', 'system' ],
    [ '/branch/exact', '/branch/exact', 'exact', 'public' ],
) {
    my ($path, $name, $match, $access) = @$case;
    my %opened = (public => 'public', branch => 'verified');
    $said = agrees($path, $opened{$access} // 'context_forbidden', path => $path, token => $branch);
    is_deeply [ @{ $said->{location} }{qw(name match access)} ], [ $name, $match, [$access] ],
        "$path: where";
}
for my $path ('/branch/%', '/branch/%00', '/../..', '/a b', 'branch', "/\x7f") {
    says([ "no path $path", { path => $path }, decision => 'deny', reason => 'bad_request',
        status => 400, location => undef ]);
    like http_raw($port, "GET $path HTTP/1.0\r\n\r\n"), qr/ 400 Bad/, "$path: as nginx says";
}
agrees(@$_) for [ 'a method that is allowed', 'verified', method => 'PUT', token => $branch ],
    [ 'a method that is none', 'method_forbidden', method => 'BREW', token => $branch ],
    [ 'TRACE', 'method_forbidden', method => 'TRACE', path => '/public' ],
    map({ [ "OPTIONS of $_", 'options', method => 'OPTIONS', path => $_ ] }
        qw(/branch/ /nothing /none)),
    [ 'no level', 'route_not_found', path => '/none' ],
    map({ [ "internal, $_", 'route_not_found', method => $_, path => '/internal' ] } qw(GET OPTIONS)),
    [ 'all that is not served', 'route_not_found', path => '/nothing', token => $branch ],
    [ 'no token where none is needed', 'public', path => '/public' ],
    [ 'shadow', 'token_shape', path => '/shadow', token => 'x.y' ],
    [ 'shadow, by method', 'method_forbidden', path => '/shadow', method => 'POST',
        token => $branch ];

# A path that a service may read in another way than nginx; check_text has more.

agrees("strict, $_->[0]$_->[1]", $_->[2], path => "/strict/$_->[0]$_->[1]") for
    map({ my $odd = $_; [ '', $odd, 'path_ambiguous' ], [ 'off/', $odd, 'public' ],
        [ 'shadow/', $odd, 'path_ambiguous' ] } '..;/branch/x', '%2e%2e%3b/x', 'a%2fb', '%252e', '/x'),
    map { [ '', $_, 'public' ] } '', 'x/.well-known/y', '%C3%A9', 'x?a;b//../%2f#c';
is_problem(http_get($port, '/strict/%2e%2e/strict/;x'), 400, 'GATEWAY_PATH_AMBIGUOUS', 'the problem');
is http_get($port, '/strict/return;x')->status, 400, 'before a "return"';
agrees('a preflight of such a path', 'path_ambiguous', method => 'OPTIONS', path => '/strict/;x');

is http($port, $_, '/branch')->status, 301, "a redirect to the directory, $_" for qw(GET OPTIONS);
says(map({ [ "which is one, $_", { path => '/branch', method => $_ }, decision => undef, status => 301 ] }
        qw(GET OPTIONS)),
    [ 'off', { path => '/off', token => 'x' }, decision => undef, reason => undef ],
    [ 'shadow and internal', { path => '/shadow/internal', token => $branch }, decision => 'deny' ],
    [ 'public', { path => '/public', token => 'x' }, headers => [] ]);
$said = agrees('audience', 'verified', path => '/audience', token => token(aud => [ 'x', 'api' ]));
is_deeply $said->{headers}, [ 'X-Subject', 'X-Roles' ], 'the headers of its own map';

my $APP = 'https://app.test';
my ($no_origin, $no_method, $no_header)
    = map {"${_}_forbidden"} qw(origin preflight_method preflight_header);
is_deeply results(agrees('a page', 'preflight', origin => $APP)), { %PASSED, cors => 'passed' },
    'a page: all passed';
agrees(@$_) for
    [ 'a label of a pattern', 'preflight', origin => 'https://a.wild.test:8443' ],
    [ 'its headers', 'preflight', origin => $APP, method => 'PUT', headers => 'x-ONE , ' ],
    [ 'another origin', $no_origin, origin => 'http://app.test', method => 'BREW' ],
    [ 'a method', $no_method, origin => $APP, method => 'A"B', headers => 'x-two' ],
    [ 'a header', $no_header, origin => $APP, headers => 'authorization, x-two, x-three' ],
    [ 'no path', $no_origin, origin => $APP, path => '/nothing' ],
    [ 'in shadow mode', $no_method, origin => $APP, path => '/shadow', method => 'BREW' ],
    [ 'in shadow mode, allowed', 'preflight', origin => $APP, path => '/shadow' ];
says([ 'a page, internal', { origin => $APP, path => '/internal' }, reason => 'route_not_found' ]);
says(map { [ "a page, $_->[1]", { origin => $APP, @$_[ 1, 2 ] }, reason => $_->[0] ] }
    [ $no_origin, origin => "$APP\t" ], [ 'method_forbidden', method => 'PURGE' ],
    [ 'token_shape', token => 'x.y' ]);
$said = agrees('both', $no_origin, origin => 'https://x.test', token => 'x.y');
is_deeply [ @{ results($said) }{qw(shape location)} ], [qw(failed passed)],
    'both: all faults are told, and what is right';
is results(ask(@$_))->{cors}, 'skipped', "no question of a page: @$_"
    for [ path => '/off', origin => 'x' ], [ path => 'x', origin => 'x' ],
    [ path => '/branch/', headers => 'x-two' ];

# Which headers of a client's no upstream gets, a look-alike of an id among
# them: each name is said just if its header does not arrive.

my @names = qw(X-One x-ROLES X-Account-Id X-Request-Id Accept X-Tenant-Id X-Subject);
my %kept = map { lc $_->[0] => 1 } grep { $_->[1] eq 'client' } @{ http_get($port, '/public',
    headers => [ map { $_ => 'client' } @names ])->json->{headers} };
is_deeply [ sort keys %kept ], [qw(accept x-correlation-id x-one x-request-id)],
    'control: the others arrive';
my @alike = qw(X_Roles X_Request_Id);
says([ 'public', { path => '/public', headers => join ', ', @names, @alike },
        stripped => [ (grep { !$kept{ lc $_ } } @names), @alike ] ],
    [ 'refused', { token => 'x', headers => 'X-Roles' }, stripped => ['X-Roles'] ],
    [ 'none named', { path => '/public' }, stripped => [] ]);
is_deeply http_post($t->port('other'), "/explain/$_->[0]", json => {
    path => '/', headers => 'X-Roles' })->json->{stripped}, $_->[1],
    "by a server where the gateway is $_->[2]"
    for [ 'bare', ['X-Roles'], 'on' ], [ 'plain', [], 'off' ];

# Of a server by its name, as that server would have it.

for my $question (map({ { path => '/branch/', origin => $APP, method => $_ } } qw(PUT BREW)),
    map { { path => $_, token => $branch } } '/branch/', '/public/%2e%2e//branch/', '/branch/42',
    '/nothing', '/a b')
{
    my ($here, $there) = map {
        http_post($_, '/explain', json => { %$question, at => time })->body
            =~ s/"(?:at|ageSeconds)":\d+//gr
    } $port, $t->port('other');
    is $there, $here, "another server explains $question->{path} of this one";
}
is http_post($t->port('other'), '/explain/bare', json => { path => '/none' })
    ->json->{reason}, 'route_not_found', 'a server that has no location at all';

# Questions that get no answer.  Unreadable ones, by the faults that the answer names: pointer and code, with bounds.

my $long = 'x' x 65;
for (
    [ '', ' malformed' ], [ 'token=x', ' malformed' ], [ '[]', ' wrong_type' ],
    [ '{"path":"/","path":"/"}', ' malformed' ],
    [ '{"path":1}', '/path wrong_type' ], [ '{"path":""}', '/path too_short 1' ],
    [ '{"token":"x"}', '/path missing' ], [ '{"path":"/","tokn":"x"}', '/tokn unknown' ],
    [ '{"path":"/","a/b~c\"":1}', '/a~1b~0c" unknown' ], [ qq({"path":"/","$long":1}), ' unknown' ],
    [ '{"path":"/","origin":null}', '/origin wrong_type' ],
    [ '{"path":"/","at":"1"}', '/at wrong_type' ],
    (map { [ qq({"path":"/","at":$_}), '/at out_of_range 0 253402300799' ] }
        -1, 253402300800, 9223372036854775808),
    [ '{"at":-1,"headers":["b"],"x":1,"method":{}}', '/at out_of_range 0 253402300799',
        '/headers wrong_type', '/x unknown', '/method wrong_type', '/path missing' ],
    [ '{' . join(',', map {qq("x$_":1)} 1 .. 20) . '}', map {"/x$_ unknown"} 1 .. 16 ],
) {
    my ($body, @faults) = @$_;
    my $res = http_post($port, '/explain', body => $body);
    my $name = 'none to ' . substr $body, 0, 60;
    is_problem($res, 400, 'REQUEST_INVALID', $name);
    is_deeply [ map { my $fault = $_; join ' ', map { $fault->{$_} // () } qw(pointer code minimum maximum) }
        @{ $res->json->{errors} } ], \@faults, "$name: each fault" or diag $res->body;
}
is http_post($port, '/explain', body => $_)->status, 200, "accepted: $_"
    for '{"path":"/","token":null}', map {qq({"path":"/","at":$_})} 0, 253402300799;

# Others: [status, code, path, request].

my ($ASKS, $FORBIDDEN) = ('{"path":"/"}', 'GATEWAY_ORIGIN_NOT_ALLOWED');
is_problem(http_post($port, @$_[ 2 .. $#$_ ]), @$_[ 0, 1 ], "none to " . substr $_->[4], 0, 60) for
    [ 403, 'GATEWAY_FORBIDDEN', '/explain', body => $ASKS, from => '127.0.0.2' ],
    map({ [ 403, $FORBIDDEN, '/explain', body => $ASKS, headers => $_ ] }
        [ Origin => $APP ], [ 'Sec-Fetch-Site' => 'same-origin' ]),
    map { [ 413, 'GATEWAY_REQUEST_TOO_LARGE', $_->[0], body => $_->[1] ] }
    [ '/explain', ' ' x 32769 ], [ '/small', ' ' x 1025 ],
    [ '/filed?status=404', $ASKS ];    # which another location put on disk
my $got = http_get($port, '/explain?token=x');
is_problem($got, 405, 'METHOD_NOT_ALLOWED', 'GET');
is $got->header('Allow'), 'POST, OPTIONS', 'Allow';
is http_post($port, $_->[0], body => $ASKS . ' ' x $_->[1])->status, 200, "accepted: @$_"
    for [ '/explain', 32700 ], [ '/small', 1000 ], [ '/explain?inside=1', 0 ];
is_deeply [ grep { -f } glob $t->dir . '/nginx/client_body/*' ], [], 'nothing went to disk';
like http_raw($port, "POST /explain HTTP/1.1\r\nHost: a\r\nConnection: close"
    . "\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"), qr/ 411 /,
    'a body of unknown length';

my $c = Platform::Test::Http->new(port => $port);
my $bytes = http_request_bytes(POST => '/explain', body => $ASKS);
$c->send($1) while $bytes =~ s/\A(.{1,80})//s and sleep 0.02;
is $c->read_response->status, 200, 'a body in pieces';

$issuer->set(status => 500);
$t->start_nginx;
is http_get($port, '/branch/', token => $branch)->status, 503, 'no keys';
says([ 'no keys', { token => $branch }, decision => 'deny', reason => 'keys_unavailable',
    status => 503, keySet => { version => 0, keys => 0, ageSeconds => undef } ]);

my $logs = join '', map { $t->read_file($_) }
    qw(nginx.error.log nginx.access.log nginx.combined.log);
is_deeply [ grep { length > 8 && $logs =~ /\Q$_\E/ } map { (split /\./)[-1] } $branch, $old,
    map { $_->[1] // () } values %bad ], [], 'no token in a log';
unlike $json->encode(ask(path => '/branch/', token => $branch)),
    qr/\Q$payload{account_id}\E|\Q@{[ $branch =~ m{([^.]+)$} ]}\E/,
    'neither who it is for nor its signature is told';

$t->done;
