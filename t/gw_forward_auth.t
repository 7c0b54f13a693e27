# Forward-auth: another proxy asks with the original method, URI and token, in the
# headers of Traefik and Caddy, in those of nginx or, as Envoy does, as its own request, and
# gets the trusted headers or the refusal that the gateway itself would give.  Where it may
# stand, gw_conf_errors.t shows.

use Platform::Test;
use Platform::Test::Keys;

my ($t, $key, $issuer) = Platform::Test->gateway;
my $new = jwt_key('b');
my $ORIGIN = 'https://app.test';
$t->set(FWD => 'platform_gateway_access public; allow 127.0.0.1; deny all;'
    . ' error_page 400 401 403 404 =200 /page; platform_gateway_forward_auth forwarded');

# What directives.md has for another nginx.
my ($here, $there) = map { s/10\.0\.0\.5/127.0.0.1/r =~ s/10\.0\.0\.6:8090/'127.0.0.1:'
    . $t->port('gateway')/er =~ s/10\.0\.0\.7:8080/'127.0.0.1:' . $t->port('upstream')/er }
    $t->read_file($t->root . '/docs/directives.md') =~ /^```nginx\n(location[^`]*\/_?judge \{[^`]*)```/mg;
$t->set(JUDGE => $here);

# And for Envoy.
my ($envoy) = map { s/10\.0\.0\.6:8093/'127.0.0.1:' . $t->port('asks')/er =~ s/10\.0\.0\.5/127.0.0.1/r
    =~ s/paths\.example\.com/gateway.test/r =~ s/\}\n\z/location = \/page { internal; empty_gif; } }/r }
    $t->read_file($t->root . '/docs/directives.md') =~ /^```nginx\n(server \{\n    listen 10\.0\.0\.6[^`]*)```/mg;
$t->set(ENVOY => $envoy);
$t->set(REQ => 'platform_gateway on; platform_gateway_access public; allow 127.0.0.1; deny all;'
    . ' platform_gateway_forward_auth request gateway.test',
    REST => 'location / { platform_gateway on; platform_gateway_access public;'
    . ' platform_gateway_route_not_found; }');
$t->gateway_conf(<<'SERVER', http => <<'HTTP', main => 'worker_processes 1;');
server_name gateway.test;
location = /forwarded { %%FWD%%; }
location = /other { %%FWD%% other.test; }
%%JUDGE%%
location = /guarded {
    platform_gateway_access account branch;
    allow 127.0.0.1;
    deny all;
    platform_gateway_forward_auth forwarded;
}
location = /_inside { internal; platform_gateway_access public; platform_gateway_forward_auth forwarded;
    error_page 403 404 =200 /page; }
location = /rewritten { platform_gateway_access public; rewrite ^ /_inside last; }
location = /paged { platform_gateway_access system; error_page 401 = /_inside; empty_gif; }
location = /accel { platform_gateway_access public; proxy_pass http://127.0.0.1:%%PORT_accel%%; }
location = /inside { platform_gateway_access public; auth_request /_inside; empty_gif; }
pass = /page: platform_gateway_access public;
pass /public: platform_gateway_access public;
pass /branch/: platform_gateway_access branch; platform_gateway_route orders order-service;
    platform_gateway_claim_header sub X-Subject;
    platform_gateway_claim_header account_id X-Account-Id;
    platform_gateway_claim_header none X-None;
    platform_gateway_methods GET PUT;
    platform_gateway_cors_origins https://app.test;
pass ~ ^/branch/[0-9]+$: platform_gateway_access system;
pass /account: platform_gateway_access account;
pass /seller: platform_gateway_access branch; platform_gateway_require roles seller;
pass /cookie: platform_gateway_access branch; platform_gateway_token_from cookie=jwt;
    platform_gateway_cors_origins https://app.test;
pass /realm: platform_gateway_access branch; platform_gateway_realm shop;
pass /token: platform_gateway_access branch; platform_gateway_forward_authorization off;
pass /shadow: platform_gateway_access branch; platform_gateway_shadow on;
    platform_gateway_methods GET;
pass /strict: platform_gateway_access branch; platform_gateway_strict_path on;
pass /internal: internal; platform_gateway_access public;
pass /off: platform_gateway off; platform_gateway_access public;
location /none { }
location / { platform_gateway_access public; platform_gateway_route_not_found; }
SERVER
platform_gateway_issuer http://issuer.test;
log_format also_reads $platform_claim_roles;
platform_gateway_key_wait 20s;
platform_gateway_key_cooldown 1s;
server {
    listen 127.0.0.1:%%PORT_other%%;
    server_name other.test;
    platform_gateway on;
    platform_gateway_access public;    # of locations, not of paths without one
    location /branch/ { platform_gateway_access system; }
    location /only/here { platform_gateway_access public; }
}
%%ENVOY%%
server {
    listen 127.0.0.1:%%PORT_prefixed%%;
    location /asks/ { %%REQ%%; }
    location @named { empty_gif; }
    location = /page { internal; empty_gif; }
    %%REST%%
}
server {
    listen 127.0.0.1:%%PORT_bare%%;
    location /as { %%REQ%%; }
    %%REST%%
}
HTTP
my $port = $t->start_gateway;

my %token = map { $_ => jwt_token($_, $key) } qw(branch account system);
my %claims = %{ jwt_claims('branch') };

# [method, URI] as Traefik and Caddy send it, with more headers.
sub forwarded ($method, $uri, @more) {
    return [ 'X-Forwarded-Method' => $method, 'X-Forwarded-Proto' => 'https',
        'X-Forwarded-Host' => 'shop.test', 'X-Forwarded-Uri' => $uri,
        'X-Forwarded-For' => '192.0.2.7', @more ];
}

sub ask ($method, $uri, %o) {
    my $headers = delete $o{headers} // [];
    return http($port, delete $o{by} // 'GET', delete $o{at} // '/forwarded',
        headers => forwarded($method, $uri, @$headers), %o);
}

# As Envoy asks, at a port of those servers and, of a location, with its prefix.
sub asks ($method, $uri, %o) {
    my ($name, $prefix) = @{ delete $o{via} // [ 'asks', '' ] };
    my $headers = delete $o{headers} // [];
    return http($t->port($name), $method, "$prefix$uri", %o, headers => [ @$headers,
        'Content-Length' => 0, 'X-Forwarded-For' => '192.0.2.7', 'X-Envoy-Internal' => 'true' ]);
}

# A refusal or a pass is what the gateway answers to the request itself.
sub like_gateway ($name, $status, $method, $uri, %o) {
    my $real = http($port, $method, $uri, %o);
    my %by = ('in headers' => ask($method, $uri, %o), 'by itself' => asks($method, $uri, %o),
        'with a prefix' => asks($method, $uri, %o, via => [ 'prefixed', '/asks' ]));
    for my $how (sort keys %by) {
        my $res = $by{$how};
        my ($said, $line) = map { $t->logged($_) } $real, $res;
        my @same = qw(path method access decision reason routeId accountId sessionId workspaceId);
        is_deeply { map { $_ => $line->{$_} } @same },
            { (map { $_ => $said->{$_} } @same), path => $uri =~ s/[?].*//r },
            "$name, $how: the log says the same";
        if ($status == 204) {
            is_deeply [ $res->status, $res->body ], [ $how eq 'in headers' ? 204 : 200, '' ],
                "$name, $how: $status";
            next;
        }
        is_problem($res, $status, $real->json->{code}, "$name, $how");
        my @parts = ('WWW-Authenticate', 'Allow', 'Content-Type', 'Access-Control-Allow-Origin');
        is_deeply [ $res->status, map({ $res->header($_) } @parts), $res->json->{detail} ],
            [ $real->status, map({ $real->header($_) } @parts), $real->json->{detail} ],
            "$name, $how: as the gateway itself";
    }
    return;
}

my @PREFLIGHT = (Origin => $ORIGIN, 'Access-Control-Request-Method');
like_gateway(@$_) for
    [ 'a good token', 204, GET => '/branch/a?secret=1', token => $token{branch} ],
    [ 'another location by a regex', 403, GET => '/branch/12', token => $token{branch} ],
    [ 'no token', 401, GET => '/branch/a' ],
    map({ [ "a path that is read in two ways, $_", 400, GET => "/strict/$_", token => $token{branch} ] }
        '%2e%2e%3b/', '/x'),
    [ 'a plain path', 204, GET => '/strict/x?a;b', token => $token{branch} ],
    [ 'the realm of the location', 401, GET => '/realm' ],
    [ 'a token by another key', 401, GET => '/branch/a', token => jwt_token(branch => $new->as('a')) ],
    [ 'a claim that lacks', 403, GET => '/seller', token => $token{branch} ],
    [ 'a method', 204, PUT => '/branch/a', token => $token{branch} ],
    [ 'a wrong method', 405, DELETE => '/branch/a', token => $token{branch} ],
    [ 'any method', 204, DELETE => '/public' ],
    [ 'a public location', 204, GET => '/public/a' ],
    [ 'no location', 404, GET => '/nothing' ],
    [ 'an internal one', 404, GET => '/internal', token => $token{branch} ],
    [ 'one without a level', 404, GET => '/none', token => $token{branch} ],
    [ 'a path that climbs', 401, GET => '/public/../branch/a' ],
    [ 'an origin that may read it', 401, GET => '/branch/a', headers => [ Origin => $ORIGIN ] ],
    [ 'OPTIONS', 204, OPTIONS => '/branch/a' ],
    [ 'a preflight', 204, OPTIONS => '/branch/a', headers => [ @PREFLIGHT, 'PUT' ] ],
    [ 'a refused one', 403, OPTIONS => '/branch/a', headers => [ @PREFLIGHT, 'PURGE' ] ],
    [ 'one where no origin may', 403, OPTIONS => '/account', headers => [ @PREFLIGHT, 'GET' ] ];
is ask($_ => '/public')->status, 405, "$_: a method that no location takes"
    for qw(TRACE CONNECT);
is_problem(ask(HEAD => '/branch/a'), 401, 'GATEWAY_TOKEN_MISSING',
    'HEAD, refused: the other proxy asked by GET, and gets the body');
is ask(GET => '/off')->status, 404, 'a location without the gateway lets nobody pass';
is ask(GET => '/branch')->status, 404, 'nor does a path that nginx only redirects';

my @TRUSTED = qw(X-Account-Id X-Subject X-None X-Token-Scope);
sub trusted ($res) { return { map { $_ => join ',', $res->header_all($_) } @TRUSTED } }

is_deeply [ map { [ $_->header_all('X-None'), $_->header_all('X-Account-Id') ] }
    ask(GET => '/branch/a', token => $token{branch}), ask(OPTIONS => '/branch/a'),
    ask(GET => '/branch/a') ], [ [ '', $claims{account_id} ], [ '', '' ], [] ],
    'one without a value is empty, so that the copy is; a refusal has none';

my @forged = map { $_ => 'forged' } @TRUSTED;
my %nobody = map { $_ => '' } @TRUSTED;
my %own = (%nobody, 'X-Account-Id' => $claims{account_id}, 'X-Subject' => $claims{sub});
my $res = ask(GET => '/branch/a', token => $token{branch}, headers => [ @forged,
    'X-Request-Id' => 'mine', 'X-Correlation-Id' => 'ours' ]);
is_deeply [ trusted($res), map { $res->header_all($_) } qw(X-Request-Id X-Correlation-Id
    Cache-Control) ], [ \%own, qw(mine ours no-store) ], 'the claim map of the location, and ids';
is_deeply [ map { $_->status, trusted($_) } ask(@$_, headers => \@forged) ],
    [ 204, \%nobody ], "no trusted header: @$_[0, 1]" for [ GET => '/public' ],
    [ GET => '/public', token => $token{branch} ], [ OPTIONS => '/branch/a' ];
like trusted(ask(GET => '/token', token => $token{branch}))->{'X-Token-Scope'}, qr/./,
    'of the default map, too';

# -- Envoy copies what the answer has, and drops what it names; all else of a client stays

my @STRIPPED = qw(X-Account-Id X-Account-Type X-Session-Id X-Token-Type X-Token-Scope X-Workspace-Id
    X-Tenant-Id X-Member-Id X-Active-Branch-Id X-Branch-Ids X-Roles X-Platform-Assertion X-Subject X-None);
for my $case (
    [ 'a token', { 'X-Account-Id' => $claims{account_id}, 'X-Subject' => $claims{sub} },
        GET => '/branch/a', token => $token{branch} ],
    [ 'nobody', {}, GET => '/public' ], [ 'OPTIONS', {}, OPTIONS => '/branch/a' ],
    [ 'shadow mode', {}, GET => '/shadow' ],
) {
    my ($name, $want, $method, $uri, @more) = @$case;
    my $got = asks($method, $uri, @more, headers => [ map { $_ => 'forged' } @STRIPPED ]);
    is $got->status, 200, "by itself, $name: 200";
    is_deeply { map { $_ => join ',', $got->header_all($_) } @STRIPPED },
        { map({ $_ => '' } @STRIPPED), %$want }, 'each name that a client may have forged is in it';
    is_deeply [ sort split /, /, $got->header('x-envoy-auth-headers-to-remove') ],
        [ sort grep { !defined $want->{$_} } @STRIPPED ], 'and those without a value are to go';
}
is asks(GET => '/branch/a')->header('x-envoy-auth-headers-to-remove'), undef, 'a refusal names none';
is_deeply [ map { $_->header('x-envoy-auth-headers-to-remove') } ask(GET => '/branch/a',
    token => $token{branch}) ], [undef], 'nor does an answer to other proxies';

# -- the request itself: any method, with or without a body, and no path but its own

is asks($_ => '/branch/a', token => $token{branch})->status, $_ =~ /GET|HEAD|PUT|OPTIONS/ ? 200 : 405,
    "by itself: $_" for qw(GET HEAD PUT OPTIONS POST DELETE PATCH PURGE TRACE);
like asks(CONNECT => '/branch/a', token => $token{branch})->status, qr/^40[05]\z/, 'by itself: CONNECT';
{
    my $c = Platform::Test::Http->new(port => $t->port('asks'));
    is_deeply [ map { $c->request(PUT => '/branch/a', token => $token{branch}, connection => 'keep-alive',
        body => $_)->status } 'x' x 100, 'GET /public HTTP/1.1\r\n\r\n', '' ], [ (200) x 3 ],
        'by itself: a body is of no weight, and not the next request';
}
is asks(GET => '/public', from => '127.0.0.2')->status, 403, 'by itself: not by a peer that is not listed';
for my $case (
    # [ path, status at / and below /asks/ ]
    [ '/public', 200, 200 ], [ '/branch/a', 401, 401 ], [ '/public/../branch/a', 401, 401 ],
    [ '/public/%2e%2e/branch/a', 401, 401 ], [ '/%62ranch/a', 401, 401 ], [ '//branch//a', 401, 401 ],
    [ '/public/%2e%2e%2fbranch/a', 401, 401 ], [ '/public?/../branch/a', 200, 200 ],
    [ '/public%3f/../branch/a', 401, 401 ], [ '/page', 404, 200 ], [ '/asks/public', 404, 404 ],
    [ '/nothing', 404, 404 ], [ '/internal', 404, 404 ], [ '/off', 404, 404 ], [ '/branch', 404, 404 ],
    [ '/../page', 400, 404 ], [ '/../public', 400, 404 ], [ '/../asks/public', 400, 400 ],
    [ '/%2e%2e/asks/public', 400, 400 ], [ '/public/../../page', 400, 404 ],
    [ '/public/../../asks/public', 400, 400 ], [ '/%00', 400, 400 ], [ '/%zz', 400, 400 ],
) {
    my ($path, @status) = @$case;
    is asks(GET => $path, via => $_)->status, shift @status, "by itself, @$_: $path"
        for [ asks => '' ], [ prefixed => '/asks' ];
}
is asks(GET => $_->[0], via => [ prefixed => '' ])->status, $_->[1], "by itself: $_->[0] $_->[1]"
    for [ '/asks/public', 200 ], [ '/asks/', 404 ], [ '/asks', 404 ], [ '/%61sks/public', 400 ],
    [ '/x/../asks/public', 400 ], [ '//asks/public', 400 ], [ '/page', 404 ], [ '/', 404 ],
    [ 'http://shop.test/asks/public', 200 ];
is asks(GET => $_->[0], via => [ bare => '' ])->status, $_->[1], "by itself, no final slash: $_->[0]"
    for [ '/as/public', 200 ], [ '/asks/public', 400 ], [ '/as', 400 ], [ '/as?/public', 400 ];

# -- shadow mode lets pass, without identity where it would refuse

for ([ 'no token', GET => ], [ 'a bad one', GET => token => 'x' ],
    [ 'a wrong level', GET => token => $token{account} ], [ 'a wrong method', 'PUT' ])
{
    my ($name, $method, @token) = @$_;
    $res = ask($method => '/shadow', @token, headers => \@forged);
    is_deeply [ $res->status, trusted($res), $t->logged($res)->{decision} ],
        [ 204, \%nobody, 'shadow' ], "shadow mode: $name";
}
is trusted(ask(GET => '/shadow', token => $token{branch}))->{'X-Account-Id'},
    $claims{account_id}, 'shadow mode: a good token';

my @ok = (GET => '/public');
is_problem(http($port, GET => '/forwarded', headers => $_->[1]), 400, 'GATEWAY_BAD_REQUEST',
    "refused: $_->[0]")
    for [ 'nothing', [] ], [ 'no method', [ 'X-Forwarded-Uri' => '/public' ] ],
    [ 'no URI', [ 'X-Forwarded-Method' => 'GET' ] ],
    [ 'the other headers', [ 'X-Original-Method' => 'GET', 'X-Original-URI' => '/public' ] ],
    [ 'two URIs', forwarded(@ok, 'X-Forwarded-URI' => '/public') ],
    [ 'two methods', forwarded(@ok, 'x-forwarded-method' => 'GET') ],
    map({ [ "the URI '$_'", forwarded(GET => $_) ] } '', 'public', 'http://a/public', '/pub lic',
        '/../public', '/%00', '/%zz', '*', '/public, /public'),
    map({ [ "the method '$_'", forwarded($_ => '/public') ] } '', 'get', 'GET, GET', 'G T');
is ask(@ok)->status, 204, 'and one that is';
is ask(@ok, by => $_)->status, 405, "not by $_" for 'POST', 'PUT';
is ask(GET => '/branch/a', by => 'HEAD')->status, 401, 'by HEAD';
is ask(@ok, from => '127.0.0.2', at => '/judge')->status, 403, 'not from a peer that is not listed';
$t->http_server('accel', sub { [ 200, [ 'X-Accel-Redirect' => '/_inside' ], '' ] });
for my $path (qw(/rewritten /paged /accel)) {
    is http($port, GET => $path, headers => forwarded(@ok))->status, 404,
        "an internal judge answers nobody: $path";
}
is http($port, GET => '/inside', headers => forwarded(@ok))->status, 403,
    'not for a subrequest, whose headers are the client\'s';
is_deeply [ map { ask(GET => $_->[0], at => '/guarded', token => $_->[1])->status }
    [ '/branch/a', $token{branch} ], [ '/branch/a', $token{account} ],
    [ '/seller', $token{branch} ] ], [ 204, 403, 403 ],
    'that the guard of the location itself was content is of no weight';
is ask(GET => $_->[0], at => '/other', token => $token{branch})->status, $_->[1],
    "another server: $_->[0]" for [ '/branch/a', 403 ], [ '/only/here', 204 ], [ '/public', 404 ],
    [ '/', 404 ];

# -- a cookie, where the method and a WebSocket's beginning are those of the client

is ask($_->[1] => '/cookie', cookie => "jwt=$token{branch}", headers => $_->[2])->status, $_->[0],
    "a cookie: @{$_->[2]} $_->[1] $_->[0]"
    for map({ my @socket = @$_; [ @socket ? 403 : 204, GET => [@socket] ],
        [ 204, GET => [ @socket, Origin => $ORIGIN ] ] } [], [ 'Sec-WebSocket-Key' => 'x' ]),
    [ 403, POST => [] ], [ 403, PURGE => [] ], [ 204, POST => [ Origin => $ORIGIN ] ],
    [ 403, POST => [ Origin => 'https://evil.test' ] ];
is ask(GET => '/cookie', cookie => $_)->status, 401, "a malformed one: "
    . s/\Q$token{branch}\E/TOKEN/r =~ s/x{9,}/x.../r
    for 'jwt', '=', ';;', 'jwt=;=', 'jwt="', "jwt=\x80", "jwt=\"$token{branch}",
    "=jwt=$token{branch}", "jwt;=$token{branch}", "jwt $token{branch}", "jwt=$token{branch}\"", 'x' x 4000;

for my $case (
    [ 204, 'X-Original-URI' => '/branch/a?x=http://a/b' ],
    [ 403, 'X-Original-URI' => '/branch/12' ],
    [ 204, 'X-Original-URL' => 'https://shop.test:8443/branch/a?x' ],
    [ 403, 'X-Original-URL' => 'http://[::1]/branch/12' ],
    [ 400, 'X-Original-URI' => 'https://shop.test/branch/a' ],
    [ 400, 'X-Original-URL' => '/branch/a' ],
    [ 400, 'X-Original-URL' => 'https://shop.test' ],
    [ 400, 'X-Original-URL' => 'https://shop?x/branch/a' ],
    [ 400, 'X-Original-URL' => 'https://user@shop/branch/a' ],
    [ 400, 'X-Original-URL' => 'ftp://shop/branch/a' ],
    [ 400, 'X-Original-URI' => '/branch/a', 'X-Original-URL' => 'https://shop.test/branch/a' ],
    [ 400, 'X-Forwarded-Uri' => '/branch/a' ],
) {
    my ($status, @headers) = @$case;
    is http($port, GET => '/judge', token => $token{branch},
        headers => [ 'X-Original-Method' => 'GET', @headers ])->status, $status,
        "@headers: $status";
}

# -- keys: it waits for one that is unknown, once and again on its connection

my @asks = (GET => '/forwarded', connection => 'keep-alive',
    headers => forwarded(GET => '/branch/a'));
my ($c, $count) = (undef, $issuer->count);
keys_hold($issuer->set(body => jwks($key, $new)), sub {
    eventually(sub {
        $c = Platform::Test::Http->new(port => $port);
        $c->send(http_request_bytes(@asks, token => jwt_token(branch => $new)));
        return eventually(sub { $issuer->count > $count }, 1);
    });
});
my $gone = Platform::Test::Http->new(port => $port);
$gone->send(http_request_bytes(@asks, token => jwt_token(branch => $new)));
$gone->reset;
my @itself = map {
    my $asks = Platform::Test::Http->new(port => $t->port('prefixed'));
    $asks->send(http_request_bytes(GET => "/asks$_", token => jwt_token(branch => $new)));
    $asks;
} '/branch/a', '/asks/branch/a';
$issuer->set(hold => 0);
is_deeply [ map { $_->read_response->status } @itself ], [ 200, 404 ],
    'by itself: after the wait the path is what it was';
is_deeply [ map { ($_->status, $_->header('X-Account-Id')) } $c->read_response,
    $c->request(@asks, token => $token{branch}) ], [ (204, $claims{account_id}) x 2 ],
    'the one that its fetch was for, and the next on that connection';
is $t->logged(ask(GET => '/branch/a', token => jwt_token(branch => $new)))->{reason}, 'verified',
    'then it is known';
is_problem(ask(GET => '/branch/a', token => jwt_token(branch => jwt_key('c'), iat => time - 600)),
    401, 'GATEWAY_TOKEN_INVALID', 'one that does not come');
$issuer->down;
$res = ask(GET => '/branch/a', token => jwt_token(branch => jwt_key('c'), iat => time + 25));
is_problem($res, 503, 'GATEWAY_KEYS_UNAVAILABLE', 'one that may be new');
like $res->header('Retry-After'), qr/^[0-9]+$/, 'and when to ask again';

# -- another nginx, with auth_request

# The names of the default map, as directives.md has them.
my @names = $t->read_file($t->root . '/docs/directives.md')
    =~ /^### platform_gateway_claim_header\n(.*?)^### /ms;
@names = $names[0] =~ /\| (X-[A-Za-z-]+) \|/g;
cmp_ok @names, '>', 10, 'the names are there';

$t->set(NGINX => $there =~ s{/api/}{/}r);
$t->nginx_conf(<<'CONF', 'proxy');
%%GLOBALS%%
events { }
http { %%GLOBALS_HTTP%% server { listen 127.0.0.1:%%PORT_proxy%%; %%NGINX%% } }
CONF
$t->start_nginx('proxy');
for my $case (
    [ 200, GET => '/branch/a?b', token => $token{branch} ],
    [ 200, PUT => '/branch/a', token => $token{branch}, body => 'x' x 100 ],
    [ 403, GET => '/branch/12', token => $token{branch} ],
    [ 401, GET => '/branch/a' ],
    [ 200, GET => '/public' ],
) {
    my ($status, $method, $path, %o) = @$case;
    $res = http($t->port('proxy'), $method, $path, %o, headers => [ map({ $_ => 'forged' } @names),
        'X-Original-URI' => '/public', 'X-Original-URL' => 'http://a/public',
        'X-Original-Method' => 'GET' ]);
    is $res->status, $status, "by another nginx: $method $path $status";
    is_deeply { map { my @got = header_values($res->json, $_); @got ? ($_ => "@got") : () } @names },
        { $o{token} ? ('X-Account-Id' => $claims{account_id}) : () },
        'and its service knows who asks, by no word of the client' if $status == 200;
    like $res->header('WWW-Authenticate'), qr/^Bearer realm=/, 'with the challenge'
        if $status == 401;
}

unlike $t->nginx->access_log, qr/secret=1|\Q$token{branch}\E/, 'no query and no token in the log';

$t->allow(qr/no "platform_gateway_access"/);
$t->done;
