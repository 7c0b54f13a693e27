# A real OpenID provider beside our identity service, both at one gateway: its keys by
# discovery, of each type, over their rotation; ours by the templates.

use Platform::Test;

my $node = Platform::Test::Env::node();
my $t = Platform::Test->new;
my $port = $t->port('provider');
my $provider = $t->process('provider', ok_status => ['any'],
    cmd => [ $node, $t->root . '/t/node/issuer.mjs', $port ]);
ok eventually(sub { ($t->read_file('provider.log') // '') =~ /^ready$/m }, 60),
    'the provider listens' or diag $t->read_file('provider.log');

$t->write_file('http.d/shop.conf', <<"CONF");
platform_gateway_trust shop {
    issuer http://127.0.0.1:$port;
    audience shop-api;
    key_location /_shop;
    discovery on;
    typ at+jwt;
    key_cooldown 1s;
}
CONF
$t->write_file('routes.d/shop.conf', <<"CONF");
location = /_shop {
    internal;
    platform_gateway_access public;
    proxy_pass \$platform_fetch_url;
    proxy_pass_request_headers off;
    subrequest_output_buffer_size 64k;
}
location /shop/ {
    platform_gateway_access token;
    platform_gateway_require scope orders:read;
    proxy_pass http://127.0.0.1:@{[ $t->port('upstream') ]};
}
location /either/ {
    platform_gateway_access token;
    platform_gateway_claim_header sub X-Subject;
    proxy_pass http://127.0.0.1:@{[ $t->port('upstream') ]};
}
CONF
my $s = $t->full_stack(echo => 1);
my $ours = $s->login('one')->json->{accessToken};

# A token of the provider, signed so.
sub token ($alg, $scope = 'orders:read') {
    my $res = http_post($port, '/token', body => "grant_type=client_credentials&client_id=shop"
        . "&client_secret=secret&scope=$scope&resource=https://api.test/$alg",
        headers => [ 'Content-Type' => 'application/x-www-form-urlencoded' ]);
    return $res->json->{access_token} // die "no token: " . $res->body . "\n";
}

sub status ($path, $token) { return $s->get($path, token => $token)->status }

sub kid ($token) { return (jwt_decode($token))[0]{kid} }

my @ALGS = qw(RS256 ES256 EdDSA);
ok eventually(sub { status('/shop/', token('ES256')) == 200 }), 'its keys are found';
my %old = map { $_ => token($_) } @ALGS;
for my $alg (@ALGS) {
    my ($header) = jwt_decode($old{$alg});
    is_deeply $header, { alg => $alg, typ => 'at+jwt', kid => "$alg-1" }, "$alg: what it issues";
    is status('/shop/', $old{$alg}), 200, 'passes';
    is status('/shop/', jwt_tamper($old{$alg}, 1, 100)), 401, 'and not when it is changed';
}

# Both at one gateway, each by its own rules.

is status('/api/workspaces/current-context', $ours), 200, 'a token of identity passes where it did';
is status('/api/workspaces/current-context', $old{ES256}), 403, 'and the provider\'s does not';
is status('/shop/', $ours), 403, 'ours has not the scope that the shop requires';
is status('/shop/', token('ES256', '')), 403, 'nor has every one of the provider\'s';
my %subject = map { $_->[0] => header_values($s->get('/either/', token => $_->[1])->json,
    'X-Subject') } [ ours => $ours ], [ shop => $old{EdDSA} ];
is_deeply \%subject, { ours => (jwt_decode($ours))[1]{sub}, shop => 'shop' },
    'either is let in where both are, under its own name';

# It rotates: the new keys sign at once, the old ones stay published for a while.

http_post($port, '/rotate', body => '');
my %new = map { $_ => token($_) } @ALGS;
is_deeply [ map { kid($_) } @new{@ALGS} ], [ map {"$_-2"} @ALGS ], 'new keys sign';
is_deeply [ map { status('/shop/', $_) } @old{@ALGS} ], [ 200, 200, 200 ],
    'older tokens pass at once,';
ok eventually(sub { status('/shop/', $new{$_}) == 200 }), "a new one of $_ once keys are fetched"
    for @ALGS;
http_post($port, $_, body => '') for qw(/retire /rotate);
ok eventually(sub { status('/shop/', token('ES256')) == 200 }),
    'rotated again, where the first keys are gone:';
is_deeply [ map { status('/shop/', $_) } @old{@ALGS}, @new{@ALGS} ],
    [ 401, 401, 401, 200, 200, 200 ], 'what they signed is refused, and nothing else';
is status('/api/workspaces/current-context', $ours), 200, 'and ours pass all the time';

$t->done;
