# platform_gateway_require with variables: what is required differs by request, and is
# decided each time, though the token was verified before.  And the headers by which it
# is decided are there once (platform_gateway_single_header).

use JSON::PP ();

use Platform::Test;
use Platform::Test::Metrics;

my ($t, $key, undef, $upstream) = Platform::Test->gateway;
my $json = JSON::PP->new;
my ($map, $server) = map { s/127\.0\.0\.1:9000/'127.0.0.1:' . $t->port('upstream')/er }
    ($t->read_file($t->root . '/docs/directives.md') =~ /^#### By request\n.*?^```nginx\n(.*?)^```\n/ms)[0]
    =~ /^(map .*?^\}\n)\nserver \{\n    listen 8080;\n    platform_gateway on;\n(.*)^\}\n/ms;
$t->set(EXAMPLE => $server, ANY => 'platform_gateway_access token;',
    ONE => 'platform_gateway_single_header Mcp-Name X-One;');
$t->write_file('keys.json', jwks($key));
$t->write_file('www/parts/page.html', '<!--# include virtual="/scope?part" -->');
$t->gateway_conf(<<'SERVER', http => <<"HTTP");
%%EXAMPLE%%
underscores_in_headers on; ignore_invalid_headers off;
root %%DIR%%/www;
pass /scope: %%ANY%% platform_gateway_require scope $http_need;
pass /scp: %%ANY%% platform_gateway_require scp $http_need;
pass /two: %%ANY%% platform_gateway_require scope $http_need $http_or;
pass /beside: %%ANY%% platform_gateway_require scope fixed $http_need;
    platform_gateway_require scope $http_or; platform_gateway_require roles r;
pass /part: %%ANY%% platform_gateway_require scope "orders:$http_need";
pass /role: %%ANY%% platform_gateway_require roles $http_need;
pass /nested: %%ANY%% platform_gateway_require a.b $http_need;
pass /other: %%ANY%% platform_gateway_require scope $http_other; platform_gateway_require roles $http_or;
    platform_gateway_claim_header scope X-Scope;
pass /subject: %%ANY%% platform_gateway_require scope "for-$platform_claim_tier";
pass /level: platform_gateway_access account; platform_gateway_require scope $http_need;
pass /shadow: %%ANY%% platform_gateway_require scope $http_need; platform_gateway_shadow on;
pass /plain: %%ANY%% platform_gateway_require scope a;
pass /single: %%ANY%% %%ONE%% platform_gateway_require scope $http_x_one;
    pass /single/off: platform_gateway_single_header off;
    pass /single/other: platform_gateway_single_header X-Other;
pass /single/shadow: %%ANY%% %%ONE%% platform_gateway_shadow on;
pass /public/single: platform_gateway_access public; %%ONE%%
pass /asks: platform_gateway_access public; auth_request /scope;
pass /asks/single: platform_gateway_access public; auth_request /public/single;
location /parts/ { platform_gateway_access public; ssi on; }
location = /judge { platform_gateway_access public; platform_gateway_forward_auth forwarded;
    allow 127.0.0.1; deny all; }
location = /explain { platform_gateway_access public; platform_gateway_explain; allow 127.0.0.1;
    deny all; }
location = /metrics { platform_gateway_access public; platform_gateway_metrics; }
SERVER
$map
HTTP
my $port = $t->start_gateway;

sub token (%claims) { return jwt_token(branch => $key, %claims) }

# The challenge's scope: undef without a challenge, '' without a scope.
sub scope ($res) {
    my $challenge = $res->header('WWW-Authenticate') // return undef;
    return $challenge =~ /, scope="([^"]*)"/ ? $1 : '';
}

# -- the recipe of the documentation: [name, claims, method, tool, status, scope,
#    versions]

my %READ = (scope => 'mcp:read');
my %BOTH = (scope => 'openid mcp:read mcp:write');
for my $case (
    [ 'nothing required', {}, 'server/discover', undef, 200 ],
    [ 'a scope', \%READ, 'tools/list', undef, 200 ],
    [ 'without it', {}, 'tools/list', undef, 403, 'mcp:read' ],
    [ 'of a tool', \%READ, 'tools/call', 'search', 200 ],
    [ 'of another', \%READ, 'tools/call', 'publish', 403, 'mcp:write' ],
    [ 'of another, with it', \%BOTH, 'tools/call', 'publish', 200 ],
    [ 'a tool that is not listed', \%BOTH, 'tools/call', 'erase', 403, 'mcp:unlisted' ],
    [ 'no method', \%BOTH, undef, undef, 403, 'mcp:unlisted' ],
    [ 'a name that ends a method', \%BOTH, 'tools/', 'list', 403, 'mcp:unlisted' ],
    [ 'a method with its tool', \%BOTH, 'tools/call search', undef, 403, 'mcp:unlisted' ],
    [ 'another case', {}, 'Tools/LIST', undef, 403, 'mcp:read' ],
    [ 'two methods in one', \%BOTH, 'tools/list, tools/list', undef, 403, 'mcp:unlisted' ],
    [ 'no token', undef, 'tools/call', 'publish', 401, 'mcp:write' ],
    [ 'no token, nothing required', undef, 'server/discover', undef, 401, '' ],
    [ 'an expired one', { %BOTH, exp => 1 }, 'tools/list', undef, 401, 'mcp:read' ],
    [ 'no version', \%BOTH, 'tools/list', undef, 403, 'mcp:unlisted', [] ],
    [ 'an older version', \%BOTH, 'tools/list', undef, 403, 'mcp:unlisted', ['2025-11-25'] ],
    [ 'a version twice', \%BOTH, 'tools/list', undef, 400, undef, [ ('2026-07-28') x 2 ] ],
    [ 'a method twice', \%BOTH, [ 'tools/list', 'tools/list' ], undef, 400 ],
    [ 'a tool twice', \%BOTH, 'tools/call', [qw(search publish)], 400 ],
    [ 'a byte over 0x7f', \%BOTH, 'tools/call', "search\xc3\xa4", 400 ],
    [ 'no token, a tool twice', undef, 'tools/call', [qw(search publish)], 400 ],
) {
    my ($name, $claims, $method, $tool, $status, $scope, $versions) = @$case;
    my @headers = (map({ ('MCP-Protocol-Version' => $_) } @{ $versions // ['2026-07-28'] }),
        map({ ('Mcp-Method' => $_) } ref $method ? @$method : $method // ()),
        map({ ('Mcp-Name' => $_) } ref $tool ? @$tool : $tool // ()));
    my $res = http_post($port, '/mcp', body => '{}', headers => \@headers,
        token => $claims && token(%$claims));
    is_deeply [ $res->status, scope($res) ], [ $status, $scope ], "the example: $name";
}

# -- values: [name, path, claims, headers, status, scope]

my @LONG = map { 's' x $_ } 256, 257;
my @CASES = (
    [ 'one', '/scope', { scope => 'a b' }, { Need => 'b' }, 200 ],
    [ 'a part of a word', '/scope', { scope => 'ab b' }, { Need => 'a' }, 403, 'a' ],
    [ 'longer than a word', '/scope', { scope => 'a' }, { Need => 'ab' }, 403, 'ab' ],
    [ 'another case', '/scope', { scope => 'a' }, { Need => 'A' }, 403, 'A' ],
    [ 'two words', '/scope', { scope => 'a b' }, { Need => 'a b' }, 403, '' ],
    [ 'a quote', '/scope', { scope => 'a"b' }, { Need => 'a"b' }, 403, '' ],
    [ 'a backslash', '/scope', { scope => 'a\\b' }, { Need => 'a\\b' }, 403, '' ],
    [ 'not ASCII', '/scope', { scope => "\x{e4}" }, { Need => "\xc3\xa4" }, 403, '' ],
    [ 'a challenge of the client', '/scope', {}, { Need => 'x", error="y' }, 403, '' ],
    [ 'empty', '/scope', {}, {}, 200 ],
    [ 'in a list', '/scope', { scope => [qw(a b)] }, { Need => 'b' }, 200 ],
    [ 'in no list', '/scope', { scope => [qw(a b)] }, { Need => 'c' }, 403, 'c' ],
    [ 'no claim', '/scope', {}, { Need => 'a' }, 403, 'a' ],
    [ 'an empty claim', '/scope', { scope => '' }, { Need => 'a' }, 403, 'a' ],
    [ 'spaces alone', '/scope', { scope => '  ' }, { Need => 'a' }, 403, 'a' ],
    [ 'the longest', '/scope', { scope => "a $LONG[0]" }, { Need => $LONG[0] }, 200 ],
    [ 'a longer one', '/scope', { scope => "a $LONG[1]" }, { Need => $LONG[1] }, 403, '' ],
    [ 'scp', '/scp', { scp => 'a b' }, { Need => 'a' }, 200 ],
    [ 'scp, without it', '/scp', { scope => 'a' }, { Need => 'a' }, 403, 'a' ],
    [ 'either, the first', '/two', { scope => 'a' }, { Need => 'a', Or => 'b' }, 200 ],
    [ 'either, the second', '/two', { scope => 'b' }, { Need => 'a', Or => 'b' }, 200 ],
    [ 'either, the only one', '/two', { scope => 'a' }, { Or => 'b' }, 403, 'b' ],
    [ 'neither', '/two', { scope => 'c' }, { Need => 'a', Or => 'b' }, 403, 'a b' ],
    [ 'no value of two', '/two', {}, {}, 200 ],
    [ 'one that cannot be, of two', '/two', { scope => 'b' }, { Need => '"', Or => 'b' }, 200 ],
    [ 'one that cannot be, alone', '/two', { scope => 'b' }, { Need => '"' }, 403, '' ],
    [ 'a constant', '/beside', { scope => 'fixed', roles => ['r'] }, { Need => 'a' }, 200 ],
    [ 'beside a constant', '/beside', { scope => 'a', roles => ['r'] }, { Need => 'a' }, 200 ],
    [ 'a constant is left', '/beside', { scope => 'a', roles => ['r'] }, {}, 403, 'fixed' ],
    [ 'each line', '/beside', { scope => 'a', roles => ['r'] }, { Need => 'a', Or => 'b' }, 403, 'b' ],
    [ 'each line, all', '/beside', { scope => 'a b', roles => ['r'] }, { Need => 'a', Or => 'b' }, 200 ],
    [ 'several lines', '/beside', { roles => ['r'] }, { Need => 'a', Or => 'b' }, 403, 'fixed a b' ],
    [ 'the same scope twice', '/beside', {}, { Need => 'a', Or => 'fixed' }, 403, 'fixed a' ],
    [ 'a line about no scope', '/beside', { scope => 'fixed' }, {}, 403, '' ],
    [ 'a part of a value', '/part', { scope => 'orders:x' }, { Need => 'x' }, 200 ],
    [ 'a part, without it', '/part', { scope => 'orders:x' }, { Need => 'y' }, 403, 'orders:y' ],
    [ 'a role', '/role', { roles => [qw(x y)] }, { Need => 'y' }, 200 ],
    [ 'a role with a space', '/role', { roles => ['x y'] }, { Need => 'x y' }, 200 ],
    [ 'no part of one', '/role', { roles => ['x y'] }, { Need => 'x' }, 403, '' ],
    [ 'another claim of one text', '/role', { roles => [] }, { Need => 'y' }, 403, '' ],
    [ 'an object', '/nested', { a => { b => 'c' } }, { Need => 'c' }, 200 ],
    [ 'a number', '/nested', { a => { b => 17 } }, { Need => '17' }, 200 ],
    [ 'true', '/nested', { a => { b => JSON::PP::true() } }, { Need => 'true' }, 200 ],
    [ 'null', '/nested', { a => { b => undef } }, { Need => 'null' }, 403, '' ],
    [ 'no words of another claim', '/nested', { a => { b => 'c d' } }, { Need => 'c' }, 403, '' ],
    [ 'of the token', '/subject', { scope => 'for-gold', tier => 'gold' }, {}, 200 ],
    [ 'of the token, another', '/subject', { scope => 'for-gold', tier => 'tin' }, {}, 403, 'for-tin' ],
    [ 'another level', '/level', { scope => 'a' }, { Need => 'a' }, 403, 'ACCOUNT' ],
    [ 'shadow mode', '/shadow', {}, { Need => 'a' }, 200 ],
    [ 'no token', '/two', undef, { Need => 'a', Or => 'b' }, 401, 'a b' ],
    [ 'no token, odd bytes', '/two', undef, { Need => 'a"b', Or => 'b' }, 401, 'b' ],
    [ 'no token, several lines', '/beside', undef, { Need => 'a', Or => 'b' }, 401, 'fixed a b' ],
    [ 'constants beside', '/plain', {}, { Need => 'b' }, 403, 'a' ],
);

# Each twice, so that the second time the token is cached; and as another proxy asks.
for my $case (@CASES) {
    my ($name, $path, $claims, $headers, $status, $scope) = @$case;
    my @headers = map { $_ => $headers->{$_} } sort keys %$headers;
    my $token = $claims && token(%$claims);
    for my $n (1, 2) {
        my $res = http_get($port, $path, token => $token, headers => \@headers);
        is_deeply [ $res->status, scope($res) ], [ $status, $scope ], "$path, $name: $status, $n";
    }
    my $res = http_get($port, '/judge', token => $token, headers => [ @headers,
        'X-Forwarded-Method' => 'GET', 'X-Forwarded-Uri' => $path ]);
    is_deeply [ $res->status, scope($res) ], [ $status == 200 ? 204 : $status, $scope ],
        "$path, $name: judged";
    next if $path eq '/shadow' || $path eq '/subject';
    $res = http_post($port, '/explain', headers => \@headers, body => $json->encode({ path => $path,
        token => $token }))->json;
    my ($check) = grep { $_->{check} eq 'require' } @{ $res->{checks} };
    is_deeply [ $res->{status} // 200, $res->{scope}, $check->{result} ], [ $status, $scope || undef,
        !$claims ? 'skipped' : $status == 403 && $path ne '/level' ? 'failed' : 'passed' ],
        "$path, $name: explained";
}

my @SCOPE = (token => token(scope => 'a'));
is_deeply http_post($port, '/explain', body => $json->encode({ path => '/beside' }))
    ->json->{location}{require}, [ { claim => 'scope', values => [ 'fixed', '$http_need' ] },
    { claim => 'scope', values => ['$http_or'] }, { claim => 'roles', values => ['r'] } ],
    'an explanation has the lines';

# -- one token, verified once, in both directions

my $before = metrics_scrape($port, '/metrics');
my $fresh = jwt_token(branch => $key, scope => 'a b', roles => ['b'], jti => uuid());
is http_get($port, '/other', token => $fresh, headers => [ Other => $_->[0], Or => $_->[1] ])->status,
    $_->[2], "one verification: $_->[0] $_->[1]"
    for [ 'c', 'b', 403 ], [ 'a', 'b', 200 ], [ 'b', 'b', 200 ], [ 'a', 'a', 403 ], [ '', '', 200 ],
    [ 'c', 'b', 403 ];
my $change = metrics_changes($before, metrics_scrape($port, '/metrics'));
is_deeply [ map { $change->{qq(platform_gateway_token_cache_total{event="$_"})} } qw(miss hit) ],
    [ 1, 5 ], 'and five of the cache';
is_deeply [ header_values(http_get($port, '/other', token => $fresh)->json, 'X-Scope') ], ['a%20b'],
    'the headers are the claims that they were';

# -- subrequests

for my $case ([ 'a', 200 ], [ 'b', 403 ]) {
    my ($need, $status) = @$case;
    is http_get($port, '/asks', @SCOPE, headers => [ Need => $need ])->status, $status,
        "auth_request: $need $status";
    my $page = http_get($port, '/parts/page.html', @SCOPE, headers => [ Need => $need ])->body;
    is $page =~ /part/ ? 200 : 403, $status, "a part of a page: $need $status";
}

# -- headers that are there once: [name, headers, status]

my $one = token(scope => 'a');
for my $case (
    [ 'one', [ 'X-One' => 'a' ], 200 ], [ 'none', [], 200 ], [ 'an empty one', [ 'X-One' => '' ], 200 ],
    [ 'both names', [ 'X-One' => 'a', 'Mcp-Name' => 'a' ], 200 ],
    [ 'other headers twice', [ 'X-Two' => "\xe4", 'X-Two' => 'b', 'X-Oned' => 1, 'X-Oned' => 2 ], 200 ],
    [ 'all of printable ASCII', [ 'Mcp-Name' => join '', map { chr } 0x21 .. 0x7e ], 200 ],
    [ 'twice', [ 'X-One' => 'a', 'X-One' => 'a' ], 400, qr/twice/ ],
    [ 'twice, in two cases', [ 'X-One' => 'a', 'x-oNE' => 'b' ], 400, qr/twice/ ],
    [ 'twice, once empty', [ 'X-One' => '', 'X-One' => 'a' ], 400, qr/twice/ ],
    [ 'twice, far apart', [ 'X-One' => 'a', map({ ("X-F$_" => $_) } 1 .. 60), 'X-One' => 'a' ], 400, qr/twice/ ],
    [ 'beside one like it', [ 'X-One' => 'a', 'X_One' => 'b' ], 400, qr/twice/ ],
    [ 'one like it', [ 'X_One' => 'a' ], 400, qr/two ways/ ],
    [ 'another one like it', [ 'x.one' => 'a' ], 400, qr/two ways/ ],
    [ 'a byte over 0x7f', [ 'X-One' => "a\x80" ], 400, qr/printable/ ],
    [ '0x7f', [ 'X-One' => "a\x7f" ], 400, qr/printable/ ],
    [ 'a tab', [ 'X-One' => "a\tb" ], 400, qr/printable/ ],
    [ 'the second name', [ 'Mcp-Name' => "\xff" ], 400, qr/printable/ ],
) {
    my ($name, $headers, $status, $why) = @$case;
    my %at = ('/single' => $status, '/single/shadow' => 200, '/public/single' => $status,
        '/asks/single' => $status == 400 ? 500 : 200);
    for my $path (sort keys %at) {
        my $res = http_get($port, $path, token => $one, headers => $headers);
        is $res->status, $at{$path}, "headers, $name: $path $at{$path}";
        like $res->json->{detail}, $why, 'and it says why' if $at{$path} == 400;
    }
    my $res = http_get($port, '/judge', token => $one, headers => [ @$headers,
        'X-Forwarded-Method' => 'GET', 'X-Forwarded-Uri' => '/single' ]);
    is $res->status, $status == 200 ? 204 : 400, "headers, $name: judged";
}
my @TWICE = (token => $one, headers => [ 'X-One' => 'a', 'X-One' => 'a' ]);
isnt http_get($port, '/single/other', @TWICE)->status, 400,
    'the headers of a location replace the others';
isnt http_get($port, '/single/off', @TWICE)->status, 400, 'off';
is_problem(http_get($port, '/single', @TWICE), 400, 'GATEWAY_BAD_REQUEST', 'twice');
is_deeply [ @{ $t->logged(http_get($port, '/single', @TWICE)) }{qw(decision reason)} ],
    [qw(deny bad_request)], 'in the log';

# -- nginx -t

for my $case (
    [ 'platform_gateway_require scope $nothing;', qr/unknown "nothing" variable/ ],
    [ 'platform_gateway_require scope $arg_a b;' ],
    [ q{platform_gateway_require scope $arg_a '';}, qr/has an empty value/ ],
    [ q{platform_gateway_require scope $arg_a 'a b';}, qr/is no scope/ ],
    [ 'platform_gateway_require scope ${arg_a;', qr/closing bracket/ ],
    [ 'platform_gateway_single_header X-A; platform_gateway_single_header X-B X-C;' ],
    [ 'platform_gateway_single_header X_A;', qr/has a name that is not of letters/ ],
    [ q{platform_gateway_single_header '';}, qr/has a name that is not of letters/ ],
    [ 'platform_gateway_single_header off; platform_gateway_single_header off;', qr/is duplicate/ ],
    [ 'platform_gateway_single_header off; platform_gateway_single_header a;', qr/beside "off"/ ],
    [ 'platform_gateway_single_header a; platform_gateway_single_header off;', qr/is duplicate/ ],
    [ 'platform_gateway_single_header;', qr/invalid number of arguments/ ],
) {
    my ($config, $said) = @$case;
    my ($ok, $why) = $t->location_test(http => 'platform_gateway_issuer https://id.test;'
        . ' platform_gateway_key_file keys.json;', location => "platform_gateway on; "
        . "platform_gateway_access branch; $config empty_gif;");
    $said ? like($why, $said, "refused: $config") : ok($ok, "taken: $config") || diag $why;
}

$t->done;
