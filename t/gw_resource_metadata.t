# Metadata of a protected resource (RFC 9728): the document, and the challenges
# that lead to it.

use Platform::Test;

my ($t, $key) = Platform::Test->gateway;
$t->write_file('keys.json', jwks(jwt_key('b')));
my $URL = 'https://api.test/.well-known/oauth-protected-resource';
my $KEYS = 'key_file keys.json;';
$t->gateway_conf(<<"SERVER", http => <<"HTTP");
platform_gateway_audience api;
location = /.well-known/oauth-protected-resource {
    platform_gateway_access public; platform_gateway_cors_origins https://app.test;
    platform_gateway_protected_resource https://api.test;
}
location = /.well-known/oauth-protected-resource/orders {
    platform_gateway_access public; platform_gateway_trusted shop two;
    platform_gateway_require scope orders:read orders:write;
    platform_gateway_require roles seller; platform_gateway_require scp orders;
    platform_gateway_protected_resource https://api.test/orders;
}
location = /.well-known/oauth-protected-resource/said {
    platform_gateway_access public; platform_gateway_require scope orders:read;
    platform_gateway_protected_resource http://api.test/a?b=c&d=%22 read write;
    if (\$arg_if) { set \$unused 1; }
}
location = /.well-known/oauth-protected-resource/proofs { platform_gateway_access public;
    platform_gateway_proof_origin https://api.test; platform_gateway_protected_resource https://api.test/proofs; }
location = /.well-known/oauth-protected-resource/bound { platform_gateway_access public; platform_gateway_bound require;
    platform_gateway_proof_origin https://api.test; platform_gateway_protected_resource https://api.test/bound; }
location = /off { platform_gateway off; platform_gateway_protected_resource https://api.test/off; }
location / { platform_gateway_access branch; empty_gif; }
location /api { platform_gateway_access branch; platform_gateway_resource_metadata $URL; empty_gif;
    location /api/orders { platform_gateway_resource_metadata $URL/orders; empty_gif; }
    location /api/realm { platform_gateway_realm orders; empty_gif; }
    location /api/scope { platform_gateway_require scope x; platform_gateway_access token; empty_gif; }
    location /api/scopes { platform_gateway_require scope a b; platform_gateway_require roles r;
        platform_gateway_require scp c; platform_gateway_require scope b d;
        platform_gateway_cors_origins https://app.test; platform_gateway_access account token;
        empty_gif;
        location /api/scopes/page { error_page 401 /page; error_page 403 /page403;
            empty_gif; }
        location /api/scopes/shadow { platform_gateway_shadow on; empty_gif; }
        location /api/scopes/any { satisfy any; deny all; empty_gif; }
        location /api/scopes/satisfied { satisfy any; allow all; empty_gif; }
        location /api/scopes/branch { platform_gateway_access branch; empty_gif; } }
    location /api/asks { platform_gateway_access public; auth_request /api/scopes; empty_gif; }
    location /api/role { platform_gateway_require role x; empty_gif; }
    location /api/post { platform_gateway_methods POST; empty_gif; }
    location /api/page { error_page 401 /page; empty_gif; }
}
location = /judge { platform_gateway_access public; platform_gateway_forward_auth forwarded;
    allow 127.0.0.1; deny all; }
location = /page403 { platform_gateway_access public; platform_gateway_allow_return on; return 403; }
location = /page { platform_gateway_access public; platform_gateway_allow_return on; return 401; }
SERVER
platform_gateway_issuer https://id.test https://id.test/old;
platform_gateway_proof zone=proofs:1m;
platform_gateway_trust shop { issuer https://shop.test/realms/a; $KEYS }
platform_gateway_trust two { issuer https://two.test/ http://127.0.0.1:1 urn:two; $KEYS }
platform_gateway_trust opaque { issuer opaque-name; $KEYS }
HTTP
my $port = $t->start_gateway;

my $BASE = '/.well-known/oauth-protected-resource';
my @HEADER = (bearer_methods_supported => ['header']);
my @TWO = ('https://two.test/', 'http://127.0.0.1:1');
my %OF = (
    '' => { resource => 'https://api.test', @HEADER, authorization_servers => [ 'https://id.test',
        'https://id.test/old', 'https://shop.test/realms/a', @TWO ] },
    '/orders' => { resource => 'https://api.test/orders', @HEADER,
        authorization_servers => [ 'https://shop.test/realms/a', @TWO ],
        scopes_supported => [qw(orders:read orders:write orders)] },
    '/said' => { resource => 'http://api.test/a?b=c&d=%22', @HEADER,
        authorization_servers => [ 'https://id.test', 'https://id.test/old',
            'https://shop.test/realms/a', @TWO ], scopes_supported => [qw(read write)] },
);
for my $of ('/proofs', '/bound') {
    $OF{$of} = { %{ $OF{''} }, resource => "https://api.test$of",
        dpop_signing_alg_values_supported => [qw(ES256 EdDSA Ed25519 RS256 RS384 RS512 PS256)],
        $of eq '/bound' ? (dpop_bound_access_tokens_required => JSON::PP::true) : () };
}
$OF{'/said?if=1'} = $OF{'/said'};
for my $path (sort keys %OF) {
    my $res = http_get($port, "$BASE$path");
    is_deeply [ $res->status, $res->header('Content-Type'), $res->header('Cache-Control'),
        $res->json ], [ 200, 'application/json', 'no-store', $OF{$path} ], "the document, $path";
}
my $res = http($port, HEAD => $BASE);
is_deeply [ $res->status, $res->body, $res->header('Content-Length') ],
    [ 200, '', length http_get($port, $BASE)->body ], 'HEAD';
$res = http($port, POST => $BASE, body => '');
is_deeply [ $res->status, $res->header('Allow') ], [ 405, 'GET, HEAD, OPTIONS' ], 'no POST';
is http($port, POST => '/off', body => '')->status, 405, 'no POST where the gateway is off';
is http_get($port, '/off')->json->{resource}, 'https://api.test/off', 'there, too';
is http_get($port, $BASE, headers => [ Origin => 'https://app.test' ])
    ->header('Access-Control-Allow-Origin'), 'https://app.test', 'for pages, too';
is http_get($port, $BASE, token => 'garbage')->status, 200, 'whatever token there is';

my ($none, $bad) = (undef, 'garbage');
my $branch = jwt_token(branch => $key, iss => 'https://id.test', aud => 'api');
my $ACCOUNT = jwt_token(account => $key, iss => 'https://id.test', aud => 'api');
my $META = qq(Bearer realm="platform", resource_metadata="$URL");
for my $case (
    [ 'no token', '/api', $none, 401, qr/^\Q$META\E$/ ],
    [ 'a bad one', '/api', $bad, 401, qr/^\Q$META\E, error="invalid_token", error_desc/ ],
    [ 'another level', '/api', $ACCOUNT, 403,
        qr/^\Q$META\E, error="insufficient_scope", scope="BRANCH"$/ ],
    [ 'another scope', '/api/scope', $branch, 403,
        qr/^\Q$META\E, error="insufficient_scope", scope="x"$/ ],
    [ 'another claim', '/api/role', $branch, 403, qr/^\Q$META\E, error="insufficient_scope", error_d/ ],
    [ 'its own URL', '/api/orders', $none, 401,
        qr{^Bearer realm="platform", resource_metadata="\Q$URL\E/orders"$} ],
    [ 'its own realm', '/api/realm', $none, 401, qr/^Bearer realm="orders", resource_metadata="\Q$URL\E"$/ ],
    [ 'where there is no URL', '/', $none, 401, qr/^Bearer realm="platform"$/ ],
    [ 'no URL, a bad token', '/', $bad, 401, qr/^Bearer realm="platform", error="invalid_token"/ ],
    [ 'from a page of the operator', '/api/page', $none, 401, qr/^\Q$META\E$/ ],
) {
    my ($name, $path, $token, $status, $want) = @$case;
    my $got = http_get($port, $path, token => $token);
    is $got->status, $status, "$name: $status";
    my @challenges = $got->header_all('WWW-Authenticate');
    like "@challenges", $want, "$name: where the metadata are";
}
# -- the scopes that a location requires: [name, path, claims or no token, status, challenge]

my $ALL = qr/^\Q$META\E, scope="a b c d"$/;
my $MISSING = sub ($scope) { qr/^\Q$META\E, error="insufficient_scope", scope="$scope"$/ };
my %GOOD = (scope => 'a d', scp => 'c', roles => ['r']);
for my $case (
    [ 'no token', '', undef, 401, $ALL ],
    [ 'an expired one', '', { exp => 1 }, 401,
        qr/^\Q$META\E, error="invalid_token", error_description="[^"]+", scope="a b c d"$/ ],
    [ 'no scope', '', { roles => ['r'] }, 403, $MISSING->('a b c d') ],
    [ 'nothing at all', '', {}, 403, $MISSING->('a b c d') ],
    [ 'one of several lines', '', { roles => ['r'], scope => 'a' }, 403, $MISSING->('c b d') ],
    [ 'one that does for two lines', '', { scope => 'x b' }, 403, $MISSING->('c') ],
    [ 'a claim alone', '', { scope => 'b', scp => 'c' }, 403,
        qr/^\Q$META\E, error="insufficient_scope", error_description="[^"]+"$/ ],
    [ 'all', '', \%GOOD, 200, qr/^$/ ],
    [ 'all, and another level', '/branch', \%GOOD, 403, $MISSING->('BRANCH') ],
    [ 'under a page of the operator', '/page', undef, 401, $ALL ],
    [ 'under such a page', '/page', { scp => 'c' }, 403, $MISSING->('a b d') ],
    [ 'in shadow mode', '/shadow', undef, 200, qr/^$/ ],
    [ 'in shadow mode', '/shadow', {}, 200, qr/^$/ ],
    [ 'where nothing else lets it in', '/any', undef, 401, $ALL ],
    [ 'where something else does', '/satisfied', {}, 200, qr/^$/ ],
) {
    my ($name, $path, $claims, $status, $want) = @$case;
    my $token = $claims && jwt_token(account => $key, iss => 'https://id.test', aud => 'api', %$claims);
    my @ways = ([ $path, "/api/scopes$path" ], $path =~ /any|satisfied|page/ ? () : [ 'judged',
        '/judge', 'X-Forwarded-Method' => 'GET', 'X-Forwarded-Uri' => "/api/scopes$path" ],
        $path eq '' && $status != 403 ? [ 'for auth_request', '/api/asks' ] : ());
    for my $way (@ways) {
        my ($how, $at, @headers) = @$way;
        my $got = http_get($port, $at, token => $token, headers => [ @headers, $how eq 'judged'
            ? () : (Origin => 'https://app.test') ]);
        is_deeply [ $got->status == 204 ? 200 : $got->status,
            scalar(my @one = $got->header_all('WWW-Authenticate')) ], [ $status, 0 + ($status >= 400) ],
            "scopes, $name: $status $how";
        like $got->header('WWW-Authenticate') // '', $want, 'and it says which';
        like $got->header('Access-Control-Expose-Headers'), qr/\bWWW-Authenticate\b/, 'to a page'
            if $path eq '' && $how eq '';
    }
}

for my $case ([ '/api', $branch, 200 ], [ '/api/post', $branch, 405 ]) {
    my $got = http_get($port, $case->[0], token => $case->[1]);
    is_deeply [ $got->status, $got->header_all('WWW-Authenticate') ], [ $case->[2] ],
        "$case->[2]: no challenge";
}

my $NO_URL = qr/needs a URL/;
my $KNOWS = 'platform_gateway_access public; platform_gateway_protected_resource';
for my $case (
    map({ my ($url, $said) = @$_; ([ "$KNOWS $url;", $said ],
        [ "platform_gateway_access public; platform_gateway_resource_metadata $url;", $said ]) }
        [ 'https://a' ], [ 'http://a/b?c=d' ], [ 'https://', $NO_URL ], [ 'http://', $NO_URL ],
        [ 'https:///a', $NO_URL ], [ 'ftp://a', $NO_URL ], [ '/a', $NO_URL ], [ q{''}, $NO_URL ],
        [ q{'https://a b'}, $NO_URL ], [ q{'https://a"b'}, $NO_URL ],
        [ q{'https://a\\\\b'}, $NO_URL ], [ 'https://a#b', $NO_URL ], [ "https://\xe4", $NO_URL ]),
    [ "$KNOWS https://a b:c d;" ], [ "$KNOWS https://a '';", qr/has an empty value/ ],
    map({ [ "$KNOWS https://a $_;", qr/has a scope with a space/ ] } q{'b c'}, q{'b"c'}, "\xe4"),
    [ "$KNOWS https://a; platform_gateway_protected_resource https://b;",
        qr/conflicts with another content handler/ ],
    [ "empty_gif; $KNOWS https://a;", qr/conflicts with another content handler/ ],
    [ "platform_gateway_resource_metadata https://a; platform_gateway_resource_metadata https://b;",
        qr/is duplicate/ ],
    [ 'platform_gateway_protected_resource https://a;', qr/and no "platform_gateway_access"/ ],
) {
    my ($config, $said) = @$case;
    my ($ok, $why) = $t->location_test(location => "platform_gateway on; $config");
    $said ? like($why, $said, "refused: $config") : ok($ok, "taken: $config") || diag $why;
}

# An issuer that the document could not name: [http{}, location, what is said].

my ($OPAQUE, $SHOP) = map {"platform_gateway_trust $_->[0] { issuer $_->[1]; audience a; $KEYS }"}
    [ opaque => 'opaque-name' ], [ shop => 'urn:shop https://shop.test' ];
for my $case ([ $OPAQUE, '', 1 ], [ $SHOP, '' ], [ $OPAQUE . $SHOP, '' ],
    [ $OPAQUE . $SHOP, 'platform_gateway_trusted opaque;', 1 ],
    [ $OPAQUE . $SHOP, 'platform_gateway_trusted shop;' ],
    [ 'platform_gateway_issuer own;', '', 1 ],
    [ 'platform_gateway_issuer own https://own.test;', '' ],
    [ 'platform_gateway_issuer own;', 'platform_gateway_issuer https://own.test;' ],
    [ 'platform_gateway_issuer own;', 'if ($arg_a) { set $x 1; }', 1 ])
{
    my ($http, $more, $refused) = @$case;
    my ($ok, $why) = $t->location_test(http => $http,
        location => "platform_gateway on; $more $KNOWS https://a;");
    is $why =~ /"\/here" has "platform_gateway_protected_resource", and no issuer .* is a URL: /
        ? 'refused' : $ok, $refused ? 'refused' : 1, "an issuer's URL: $http $more" or diag $why;
}

my ($example) = $t->read_file($t->root . "/docs/directives.md")
    =~ /^### platform_gateway_protected_resource\n.*?^```nginx\n(.*?)^```\n/ms;
like $example, qr{location /api/}, "the documentation has an example";
my ($ok, $why) = $t->location_test(http => 'platform_gateway_issuer https://id.test;'
    . 'platform_gateway_key_file keys.json;', server => "platform_gateway on; $example",
    location => 'platform_gateway_access public;');
ok $ok, 'the example of the documentation' or diag $why;

$t->done;
