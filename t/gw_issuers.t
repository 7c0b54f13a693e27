# Several issuers: a token is judged by the one that its iss names, with its keys and
# rules and no other's; a location takes those that it trusts, at level token or by
# ours; one that is down hurts nobody else.

use JSON::PP ();

use Platform::Test;
use Platform::Test::Metrics;
use Platform::Test::Revocations;

my ($t, $own, $issuer) = Platform::Test->gateway;
my ($shop, $blog) = map { jwt_key($_) } qw(b c);
my %ISS = (own => $Platform::Test::Jwt::ISSUER, shop => 'https://id.test/realms/shop',
    blog => 'https://blog.test/');
$t->issuer(name => 'shop', body => jwks($shop));
$t->write_file('blog.json', jwks($blog));
$t->write_file('blog.pem', $blog->public_pem);
my $feed = revocations_feed($t);

my $nginx = $t->gateway_conf(<<'SERVER', http => <<'HTTP');
location = /_shop { %%FETCHED%% platform_gateway off; proxy_pass http://127.0.0.1:%%PORT_shop%%;
    subrequest_output_buffer_size 64k; }
location = /_feed { %%FETCHED%% platform_gateway off; proxy_pass http://127.0.0.1:%%PORT_feed%%;
    subrequest_output_buffer_size 1m; }
location = /metrics { platform_gateway_access public; platform_gateway_metrics; }
location = /_down { %%FETCHED%% platform_gateway off; proxy_pass http://127.0.0.1:1;
    subrequest_output_buffer_size 64k; }
pass /any: platform_gateway_access token;
pass /claims: platform_gateway_access token;
    platform_gateway_claim_header sub X-User;
    platform_gateway_claim_header account_id X-Account-Id;
pass /shop: platform_gateway_access token; platform_gateway_trusted shop;
pass /audience: platform_gateway_access token; platform_gateway_audience orders-api;
pass /requires: platform_gateway_access token; platform_gateway_require aud shop-api;
pass /two: platform_gateway_access token; platform_gateway_trusted platform blog;
pass /roles: platform_gateway_access token;
    platform_gateway_require realm_access.roles seller admin 7;
    platform_gateway_require email_verified true;
    platform_gateway_claim_header realm_access.roles X-Realm-Roles;
    platform_gateway_claim_header '"dotted.name".x' X-Dotted;
    platform_gateway_claim_header claims.test/team X-Team;
    platform_gateway_claim_header https://claims.test/a.b X-Uri;
    platform_gateway_claim_header realm_access X-Object;
    pass /roles/scope: platform_gateway_require scope orders:read 'orders:*';
    pass /roles/more: platform_gateway_methods GET;
pass /zitadel: platform_gateway_access token;
    platform_gateway_require '"urn:zitadel:iam:org:project:roles".seller."14"' acme.example.com;
pass /cognito: platform_gateway_access token; platform_gateway_require token_use access;
    platform_gateway_require client_id c1; platform_gateway_require cognito:groups sellers;
pass /system: platform_gateway_access system; platform_gateway_trusted platform blog shop;
pass /own: platform_gateway_access account branch;
pass /mixed: platform_gateway_access branch token;
location /explain {
    platform_gateway_access public;
    platform_gateway_explain;
    allow 127.0.0.1;
    deny all;
}
SERVER
log_format also_reads $platform_claim_roles;
platform_gateway_issuer http://issuer.test;
platform_gateway_key_wait 200ms;
platform_gateway_trust shop {
    issuer https://id.test/realms/shop https://id.test/realms/other;
    audience shop-api;
    key_location /_shop;
    leeway 100s;
    algorithms RS256 EdDSA;
    revocations zone=shop:1m uri=/_feed interval=50ms;
}
platform_gateway_trust blog {
    issuer https://blog.test/;
    key_file blog.json;
    typ at+jwt;
    claim subject uid;
    claim issued auth_time;
    revocations zone=blog:1m uri=/_feed interval=50ms claim=session;
    access system groups operators;
    access branch realm.kind staff;
}
platform_gateway_trust down { issuer https://down.test; key_location /_down; }
HTTP
$t->start_gateway;
my $port = $t->port('gateway');

# A token of an issuer as that one makes them; undef leaves a claim out.
my %KEY = (own => $own, shop => $shop, blog => $blog);

sub token ($of, %o) {
    my $header = delete $o{header};
    my $key = delete $o{key} // $KEY{$of};
    return jwt_token('branch', $key, iat => time - 600, %o) if $of eq 'own';
    my %claims = (iss => $ISS{$of}, exp => time + 600, sub => 'u-1', sid => 's-1',
        $of eq 'shop' ? (aud => [ 'shop-api', 'x' ]) : (uid => 'b-1'), %o);
    delete $claims{$_} for grep { !defined $claims{$_} } keys %claims;
    return jwt_sign(key => $key, payload => \%claims,
        header => { $of eq 'blog' ? (typ => 'at+jwt') : (), %{ $header // {} } });
}

sub ask ($path, $token) { return http_get($port, $path, token => $token) }

sub status ($path, $token) { return ask($path, $token)->status }

ok eventually(sub { status('/shop', token('shop')) == 200 }), 'the second issuer has its keys';

my %IN = (
    '/any'    => { own => 200, shop => 200, blog => 200 },
    '/shop'   => { own => 401, shop => 200, blog => 401 },
    '/two'    => { own => 200, shop => 401, blog => 200 },
    '/own'    => { own => 200, shop => 403, blog => 403 },
    '/mixed'  => { own => 200, shop => 200, blog => 200 },
    # The audience of a location is of the tokens without a block alone.
    '/audience' => { own => 401, shop => 200, blog => 200 },
    '/requires' => { own => 403, shop => 200, blog => 403 },
);
for my $path (sort keys %IN) {
    my %got = map { my $of = $_; ($of => status($path, token($of))) } keys %KEY;
    is_deeply \%got, $IN{$path}, "$path takes whom it trusts";
}

# -- no key of another, under whatever id

for my $of (sort keys %KEY) {
    for my $other (grep { $_ ne $of } sort keys %KEY) {
        my $other_key = $KEY{$other};
        is status('/any', token($of, key => $other_key)), 401, "$of by the key of $other";
        is status('/any', token($of, key => $other_key->as($KEY{$of}->kid))), 401,
            "$of by the key of $other, under its own id";
    }
}

# -- the rules of each: [name, issuer, claims and header, status at /any]

is status('/any', token($_->[1], @$_[ 3 .. $#$_ ])), $_->[2], "$_->[1]: $_->[0]" for
    [ 'its other name', shop => 200, iss => 'https://id.test/realms/other' ],
    [ 'no name', shop => 401, iss => undef ],
    [ 'a name that is no text', shop => 401, iss => [ $ISS{shop} ] ],
    [ 'another audience', shop => 401, aud => 'blog' ],
    [ 'no audience', shop => 401, aud => undef ],
    [ 'no subject', shop => 401, sub => undef ],
    [ 'no subject of its claim', blog => 401, uid => undef ],
    [ 'no sub, where another claim says it', blog => 200, sub => undef ],
    [ 'no end', shop => 401, exp => undef ],
    [ 'its leeway', shop => 200, exp => time - 60 ],
    [ 'beyond it', shop => 401, exp => time - 160 ],
    [ 'the leeway of the location', blog => 401, exp => time - 60 ],
    [ 'within that', blog => 200, exp => time - 10 ],
    [ 'not yet', shop => 401, nbf => time + 200 ],
    [ 'bound to a key', shop => 401, cnf => { jkt => 'x' } ],
    [ 'made ahead', shop => 401, iat => time + 200 ],
    [ 'no session', shop => 200, sid => undef ],
    [ 'typ JWT', blog => 401, header => { typ => 'JWT' } ],
    [ 'no typ', blog => 401, header => { typ => undef } ],
    [ 'typ in full', blog => 200, header => { typ => 'application/AT+JWT' } ],
    [ 'no id of a key, of a set that is fetched', shop => 401, header => { kid => undef } ],
    [ 'no id of a key, of a file', blog => 200, header => { kid => undef } ],
    [ 'an id of no key', shop => 401, key => $shop->as('z'), iat => time - 600 ],
    [ 'claims that open a branch here', shop => 200, %{ jwt_claims('branch') },
        iss => $ISS{shop} ];

my $late = token('shop', exp => time - 60);
is_deeply [ map { status('/any', $late) } 1 .. 3 ], [ 200, 200, 200 ], 'its leeway, cached';
is ask('/any', token('shop', exp => undef))->json->{code}, 'GATEWAY_TOKEN_INVALID',
    'a token without an end is not one that has expired';
is status('/own', token('shop', %{ jwt_claims('branch') }, iss => $ISS{shop})), 403,
    'it cannot call itself one of our kinds';
is status('/any', jwt_token('refresh', $own)), 403, 'a refresh token opens nothing';

# -- what a location requires

my %CLAIMS = (realm_access => { roles => [ 'user', 'seller' ] }, email_verified => JSON::PP::true);
for my $case (
    [ 'one of the values', 200, {} ],
    [ 'the other one', 200, { realm_access => { roles => ['admin'] } } ],
    [ 'as a string', 200, { realm_access => { roles => 'admin' } } ],
    [ 'none of them', 403, { realm_access => { roles => [ 'user', 'Seller' ] } } ],
    [ 'an empty array', 403, { realm_access => { roles => [] } } ],
    [ 'no array', 403, { realm_access => { roles => { seller => 1 } } } ],
    [ 'a number in an array', 403, { realm_access => { roles => [7] } } ],
    [ 'a number', 200, { realm_access => { roles => 7 } } ],
    [ 'in a deeper array', 403, { realm_access => { roles => [ ['seller'] ] } } ],
    [ 'no object', 403, { realm_access => 'seller' } ],
    [ 'words of what is no scope', 403, { realm_access => { roles => 'user seller' } } ],
    [ 'no claim', 403, { realm_access => undef } ],
    [ 'its name with a dot', 403, { realm_access => undef, 'realm_access.roles' => 'seller' } ],
    [ 'not the second claim', 403, { email_verified => JSON::PP::false } ],
    [ 'the second as a string', 200, { email_verified => 'true' } ],
    [ 'the second as a number', 403, { email_verified => 1 } ],
) {
    my ($name, $status, $claims) = @$case;
    my $res = ask('/roles', token('shop', %CLAIMS, %$claims));
    is_deeply [ $res->status, $status == 403 ? $res->json->{code} : () ],
        [ $status, $status == 403 ? 'GATEWAY_CLAIM_REQUIRED' : () ], "required: $name";
}
is status('/roles/more', token('shop')), 403, 'a location inherits what is required';
is status('/roles/scope', token('shop', scope => 'orders:*')), 200, 'or has lines of its own instead';
for my $case ([ 'x orders:read y', 200 ], [ 'orders:*', 200 ], [ ['orders:read'], 200 ],
    [ 'orders:readx', 403 ], [ 'orders:read,x', 403 ], [ '', 403 ], [ undef, 403 ])
{
    my ($scope, $status) = @$case;
    my $res = ask('/roles/scope', token('shop', scope => $scope));
    is $res->status, $status, 'scope ' . ($scope // 'none') . ": $status";
    like $res->header('WWW-Authenticate'), qr/error="insufficient_scope", scope="orders:read orders:\*"$/,
        'which one is said' if $status == 403;
}
my $ZITADEL = 'urn:zitadel:iam:org:project:roles';
my %COGNITO = (token_use => 'access', client_id => 'c1', 'cognito:groups' => [ 'x', 'sellers' ]);
is status("/$_->[0]", token('shop', %{ $_->[2] })), $_->[1], "$_->[0]: $_->[3]" for
    [ zitadel => 200, { $ZITADEL => { seller => { 14 => 'acme.example.com' } } }, 'a role of an organization' ],
    [ zitadel => 403, { $ZITADEL => { seller => { 15 => 'acme.example.com' } } }, 'of another one' ],
    [ cognito => 200, \%COGNITO, 'an access token' ],
    [ cognito => 403, { %COGNITO, token_use => 'id' }, 'an ID token' ];
unlike ask('/roles', token('shop'))->header('WWW-Authenticate'), qr/scope="|realm_access/,
    'but no other claim';

is_deeply [ status('/system', token('blog', groups => ['operators'])),
    status('/system', token('blog', groups => ['x'])), status('/own', token('blog',
        realm => { kind => 'staff' })), status('/system', token('shop', groups => ['operators'])) ],
    [ 200, 403, 403, 403 ], 'claims of an issuer open a level that its block says, where it is named';

# The trusted headers of an answer of the echo, without the ids.
sub sent ($res) {
    return { map { (lc $_->[0] => $_->[1]) }
        grep { $_->[0] =~ /^x-(?!request|correlation)/i } @{ $res->json->{headers} } };
}

is_deeply sent(ask('/any', token('shop', account_id => 'forged', roles => ['admin']))), {},
    'claims of another issuer do not become our headers';
is_deeply sent(ask('/roles', token('shop', %CLAIMS, 'dotted.name' => { x => 'deep' },
    'https://claims.test/a.b' => 'uri', 'claims.test/team' => 'red'))), { 'x-realm-roles' => 'user,seller',
    'x-dotted' => 'deep', 'x-uri' => 'uri', 'x-team' => 'red' }, 'by their places; no object';
my $res = ask('/claims', token('shop', account_id => 'of-shop'));
is_deeply sent($res), { 'x-user' => 'u-1', 'x-account-id' => 'of-shop' },
    'those that are named for all do';
is $t->logged($res)->{accountId}, 'shop/u-1', 'the log names the subject, and of whom';
is sent(ask('/any', token('own')))->{'x-account-id'}, uuid(1), 'ours do';
for my $case ([ 'own', 'shop/u-1', 'shop%2Fu-1' ], [ 'own', 'shop%2Fu-1', 'shop%252Fu-1' ],
    [ 'shop', 'a/../u-1', 'shop/a%2F..%2Fu-1' ])
{
    my ($of, $id, $want) = @$case;
    my $token = token($of, map { $_ => $id } 'sub', $of eq 'own' ? 'account_id' : ());
    is_deeply [ map { $t->logged(ask('/any', $token))->{accountId} } 1, 2 ], [ $want, $want ],
        "$id of $of is nobody else's";
}

# -- what its feed ends is its own

my $before = token('shop', sub => 'gone');
is status('/any', $before), 200, 'a session of the second issuer';
$feed->set(all => [ revoked_id('s-2'), map { revoked_subject($_, time + 5) } 'gone', uuid(1) ]);
ok eventually(sub { status('/any', $before) == 401 }), 'ends by its feed,';
is_deeply [ map { status('/any', $_) } token('shop', sid => 's-2'), token('shop'), token('own'),
    token('blog', uid => 'x'), token('own', session_id => 's-2') ], [ 401, 200, 200, 200, 200 ],
    'by its session, too; no other issuer\'s does';

is status('/any', token('blog', uid => 'gone', session => 's-2')), 401, 'a session of another claim';
is_deeply [ map { status('/any', token('blog', uid => 'gone', iat => time, auth_time => $_)) }
    time - 60, time + 60 ], [ 401, 200 ], 'and a time of issue of another';

my $down = jwt_sign(key => $shop, payload => { iss => 'https://down.test', sub => 'x',
    exp => time + 60 });
is status('/any', $down), 503, 'an issuer without keys: its tokens wait for them';
is http_get($port, '/ready')->status, 200, 'the gateway stays ready';
my $metrics = metrics_scrape($port, '/metrics');
ok $metrics->{"platform_gateway_$_"}, $_ for 'key_fetches_total{outcome="new"}',
    'key_fetches_total{issuer="shop",outcome="new"}',
    'key_fetches_total{issuer="blog",outcome="unchanged"}',
    'key_fetches_total{issuer="down",outcome="failed"}',
    'revocation_fetches_total{issuer="shop",outcome="read"}', 'revocation_entries{issuer="shop"}',
    'key_set_keys{issuer="blog"}';
is $metrics->{'platform_gateway_key_set_keys{issuer="down"}'}, 0, 'no keys of the one that is down';
my $said = http_post($port, '/explain', json => { token => $down, path => '/any' })->json;
is_deeply [ $said->{reason}, $said->{trust}, $said->{keySet}{keys} ],
    [ 'keys_unavailable', 'down', 0 ], 'explain says whose keys are missing';
$said = http_post($port, '/explain', json => { token => token('shop'), path => '/own' })->json;
is_deeply [ @$said{qw(decision reason trust)}, $said->{keySet}{keys} ],
    [ 'deny', 'context_forbidden', 'shop', 1 ], 'and what a token of another meets';

$said = http_post($port, '/explain', json => { token => token('shop'), path => '/roles' })->json;
is_deeply [ $said->{reason}, grep { $_->{check} eq 'require' } @{ $said->{checks} } ],
    [ 'claim_required', { check => 'require', result => 'failed', reason => 'claim_required',
        claim => 'realm_access.roles', detail => 'the token does not have a claim that is required here' } ],
    'and which claim is missing';

# -- as many as there may be, all but one down

my @down = map {"platform_gateway_trust down$_ { issuer https://down$_.test; key_location /_down; }\n"}
    1 .. 61;
$t->write_file('nginx.conf', $t->read_file('nginx.conf') =~ s/(?=platform_gateway_trust down )/@down/r);
$issuer->down;
ok $t->reload, '64 issuers, 62 of them down, and now ours';
ok eventually(sub { status('/any', token('shop')) == 200 }), 'the others are served';
is status('/any', token('own')), 200, 'ours too: a reload with more of them keeps its keys';
is http_get($port, '/ready')->status, 200, 'and it is ready';
my $full = $t->read_file('nginx.conf') =~ s/(?=platform_gateway_trust down )/$down[0] =~ s{down1}{a1}gr/er;
my $more = $t->nginx_conf($full, 'more');
like +($more->test)[1], qr/"down" is one issuer too many/, 'no more than that';
unlink $more->{log};

# A worker should have a connection for each source that it fetches from.
my $all = $t->read_file('nginx.conf');
sub test_connections ($n) {
    my $nginx = $t->nginx_conf($all =~ s/events \{\K[^}]*/ worker_connections $n; /r, 'few');
    my @said = $nginx->test;
    unlink $nginx->{log};
    return @said;
}
my $TOO_FEW = qr/\[warn\] .* worker_connections may not be enough .* should be at least (\d+)\n/;
my ($least) = (test_connections(20))[1] =~ $TOO_FEW;
cmp_ok $least, '>', 63, 'too few worker_connections: nginx -t warns, and prints how many it needs';
my ($ok, $printed) = test_connections($least - 1);
ok $ok, 'one less is accepted';
like $printed, $TOO_FEW, 'with the warning';
unlike +(test_connections($least))[1], $TOO_FEW, 'control: as many cause no warning';

my $BLOG = "platform_gateway_trust blog { issuer https://blog.test/; key_file blog.json; }\n";
my $CACHED = $BLOG =~ s{key_file \S+;}{key_location /k; key_cache_file kept;}r;

sub config ($name, $said, $http, $location = 'platform_gateway_access token;') {
    my ($ok, $why) = $t->location_test(http => $http,
        location => "platform_gateway on; $location empty_gif;");
    $said ? like($why, $said, "refused: $name") : ok($ok, $name) || diag $why;
}

config(@$_) for
    [ 'one issuer in a block', undef, $BLOG ],
    [ 'no issuer at all', qr/no issuer whose tokens open it/, '' ],
    [ 'a level of ours', qr/no issuer whose tokens open it/, $BLOG,
        'platform_gateway_access branch;' ],
    [ 'trust in nobody', qr/names "x" in "platform_gateway_trusted": there is no/, $BLOG,
        'platform_gateway_access token; platform_gateway_trusted x;' ],
    [ 'trust in ours, without a name', qr/no issuer whose tokens open it/, $BLOG,
        'platform_gateway_access token; platform_gateway_trusted platform;' ],
    [ 'a name twice', qr/"blog" is already the name/, $BLOG x 2 ],
    [ 'our own name', qr/"Platform" is already the name/, $BLOG =~ s/trust blog/trust Platform/r ],
    [ 'no name', qr/is not a name/, $BLOG =~ s/trust blog/trust "a b"/r ],
    [ 'an iss twice', qr{"https://blog.test/" is the name of two issuers, of "two" and, before,},
        $BLOG . $BLOG =~ s/trust blog/trust two/r ],
    [ 'one cache file for two', qr{/kept" is the key cache file of two issuers, of "two" and, before,},
        $CACHED . $CACHED =~ s/blog/two/gr ],
    [ 'control: one for each', qr/no server has an internal location/,
        $CACHED . $CACHED =~ s/blog|kept/two/gr ],
    [ 'keys in PEM', undef, $BLOG =~ s/blog.json/blog.pem/r ],
    [ 'no iss', qr/needs "issuer"/, $BLOG =~ s/issuer \S+;//r ],
    [ 'no keys', qr/needs "key_location" or "key_file"/, $BLOG =~ s/key_file \S+;//r ],
    [ 'keys twice', qr/already given by "key_file" in \S+:\d+/, $BLOG =~ s/(key_file \S+;)/$1$1/r ],
    [ 'a location that is none', qr/no server has an internal location/,
        $BLOG =~ s/key_file \S+;/key_location \/none;/r ],
    [ 'another directive', qr/"what" is not a directive of "platform_gateway_trust"/,
        $BLOG =~ s/key_file/what on; key_file/r ],
    [ 'too many values', qr/"typ" has an invalid number of values/,
        $BLOG =~ s/key_file/typ at+jwt JWT; key_file/r ],
    [ 'an unknown algorithm', qr/"algorithms" accepts RS256, RS384/,
        $BLOG =~ s/key_file/algorithms RS256 HS256; key_file/r ],
    [ 'another typ', qr/invalid value "JWT"/, $BLOG =~ s/key_file/typ JWT; key_file/r ],
    [ 'another claim', qr/"claim" accepts subject, session, issued, acr and auth_time/,
        $BLOG =~ s/key_file/claim x y; key_file/r ],
    [ 'a level of nobody', qr/"access" needs a level/,
        $BLOG =~ s/key_file/access token x y; key_file/r ],
    [ 'a level without values', qr/"access" needs a level/,
        $BLOG =~ s/key_file/access system x; key_file/r ],
    [ 'a level of ours by a claim', undef, $BLOG =~ s/key_file/access branch x y; key_file/r,
        'platform_gateway_access branch; platform_gateway_trusted blog;' ],
    [ 'a level of ours by a claim of nobody who is named', qr/no issuer whose tokens open it/,
        $BLOG =~ s/key_file/access branch x y; key_file/r, 'platform_gateway_access branch;' ],
    [ 'public, and a claim', qr/is "public", so its "platform_gateway_require"/, $BLOG,
        'platform_gateway_access public; platform_gateway_require a b;' ],
    map({ [ "required: $_->[0]", $_->[1], $BLOG,
        "platform_gateway_access token; platform_gateway_require $_->[0];" ] }
        [ 'x', qr/needs a claim and the values/ ], [ q{x ''}, qr/has an empty value/ ],
        [ 'a..b y', qr/claim "a\.\.b" has an empty name/ ], [ '.a y', qr/has an empty name/ ],
        [ 'a.b.c.d.e.f.g.h y', undef ], [ 'a.b.c.d.e.f.g.h.i y', qr/is deeper than 8 names/ ],
        [ q{'a."b' y}, qr/has a quote/ ], [ q{'a."b"c' y}, qr/has a quote/ ],
        [ q{'a"b"' y}, qr/has an empty name, or a quote/ ],
        [ q{scope 'a b'}, qr/has a value that is no scope/ ],
        [ q{x 'a b'}, undef ], [ 'x y; platform_gateway_require x y' . ';platform_gateway_require x y' x 62,
            undef ],
        [ 'x y; platform_gateway_require x y' . ';platform_gateway_require x y' x 63,
            qr/stands more than 64 times/ ]),
    [ 'a claim twice', qr/"claim" is duplicate/,
        $BLOG =~ s/key_file/claim subject x; claim subject y; key_file/r ],
    [ 'much leeway', qr/"leeway" is more than 300 seconds/,
        $BLOG =~ s/key_file/leeway 301s; key_file/r ];

$t->done;
