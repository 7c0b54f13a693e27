# An issuer that says itself where its keys are (OpenID Connect Discovery): asked
# once, believed only about itself, and only over TLS or within this host.

use JSON::PP ();

use Platform::Test;
use Platform::Test::Clock;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $port = $t->port('idp');
my $iss = "http://127.0.0.1:$port/realms/shop";
$t->echo_upstream;

my $idp = $t->http_server('idp', sub ($request, $server, @) {
    my $answer = $server->get->{ $request->{uri} } // return [ 404, [], '' ];
    return [ 200, ref $answer ? @$answer : ([], $answer) ];
});
my $side = $t->http_server('side', sub { return [ 200, [], jwks($key) ] });

# What it says of itself, changed by %o.
sub says (%o) {
    return $idp->set('/realms/shop/.well-known/openid-configuration' => JSON::PP::encode_json(
        { issuer => $iss, jwks_uri => "http://127.0.0.1:$port/certs?a=b", %o }));
}

my $http = <<'HTTP';
platform_gateway_key_cooldown 1s;
platform_gateway_key_soft_age 60s;
platform_gateway_trust shop { issuer <iss>; key_location /_fetch; discovery on; }
platform_gateway_trust slash { issuer <root>/slash/; key_location /_fetch; discovery on; }
platform_gateway_trust fixed { issuer https://fixed.test; key_location /_fixed; discovery on; }
platform_gateway_trust tls { issuer https://id.test; key_location /_tls; discovery on; }
HTTP
my $fetch = <<'SERVER';
subrequest_output_buffer_size 64k;
location = /_fetch { %%FETCHED%% platform_gateway off; proxy_pass $platform_fetch_url; }
location = /_tls { %%FETCHED%% platform_gateway off; proxy_pass http://127.0.0.1:%%PORT_idp%%/tls;
    proxy_set_header Host $platform_fetch_url; }
location = /_fixed { %%FETCHED%% platform_gateway off; proxy_pass http://127.0.0.1:%%PORT_idp%%/tls; }
location = /side { internal; platform_gateway off; proxy_pass http://127.0.0.1:%%PORT_side%%; }
pass /: platform_gateway_access token;
location = /explain { platform_gateway_access public; platform_gateway_explain;
    allow 127.0.0.1; deny all; }
location /leak { platform_gateway_access public; return 200 "[$platform_fetch_url]"; }
SERVER

my $clock;

sub token { return jwt_sign(key => $key,
    payload => { iss => $iss, sub => 'u', exp => $clock->now + 60 }) }

sub status { return http_get($t->port('gateway'), '/', token => token())->status }

# Whether that becomes true within some cooldowns.
sub later ($true) {
    return eventually(sub {
        $clock->pass(2);
        sleep 0.3;    # a fetch takes less
        return $true->();
    });
}

sub log_has ($pattern) { return eventually(sub { $t->nginx->error_log =~ $pattern }) }

my $slash = "http://127.0.0.1:$port/slash/";
$http =~ s{<root>/slash/}{$slash};
$idp->set('/slash/.well-known/openid-configuration' => JSON::PP::encode_json(
    { issuer => $slash, jwks_uri => "${slash}keys" }), '/slash/keys' => jwks($key));
my $nginx = $t->gateway_conf($fetch, alone => 1, http => $http =~ s/<iss>/$iss/r);
$clock = Platform::Test::Clock->new($t, $nginx);
$t->start_nginx;
ok eventually(sub { grep { $_->{uri} eq '/slash/keys' } $idp->requests }),
    'an issuer that ends with a slash: asked without a second one';

# -- what is not believed: [what it says, what the log says]

ok log_has(qr/status 404; there is none yet, of shop/), 'no metadata: said';
ok log_has(qr/: its location has no "proxy_pass \$platform_fetch_url;".*, of fixed/),
    'a location that cannot fetch two documents';
for my $case (
    [ { issuer => "$iss/" }, qr/metadata are another's/ ],
    [ { issuer => undef }, qr/metadata are another's/ ],
    map({ [ { jwks_uri => $_ }, qr/metadata have no "jwks_uri" that begins with "https/ ] }
        undef, '', 7, "http://idp.test/certs", "http://127.0.0.1.idp.test:$port/certs",
        "http://127.0.0.1:$port/certs x",
        "http://127.0.0.1:$port/certs#x", "http://127.0.0.1:$port/\x{e9}", '/certs',
        "http://127.0.0.1:$port/" . 'c' x 1100, 'https://unix:/run/x.sock:/', 'HTTPS://x/',
        'https:///x', 'https://'),
) {
    my ($says, $said) = @$case;
    my $before = length $t->nginx->error_log;
    says(%$says);
    $clock->pass(2);
    ok eventually(sub { substr($t->nginx->error_log, $before) =~ $said }),
        'refused: ' . substr JSON::PP::encode_json($says), 0, 60;
}
is status(), 503, 'and there are no keys';
for my $case ([ "http://127.0.0.1:$port/certs", qr/have no "jwks_uri".*, of tls/ ],
    [ "https://127.0.0.1:$port/certs", qr/not fetched: (?!.*metadata).*, of tls/ ])
{
    my $before = length $t->nginx->error_log;
    $idp->set('/tls' => JSON::PP::encode_json(
        { issuer => 'https://id.test', jwks_uri => $case->[0] }));
    $clock->pass(2);
    ok eventually(sub { substr($t->nginx->error_log, $before) =~ $case->[1] }),
        "an issuer with TLS, keys at $case->[0]";
}

# -- where a key server may not lead

$idp->set('/certs?a=b' => [ [ 'X-Accel-Redirect' => '/side?x' ], '' ]);
says();
$clock->pass(2);
sub asked { return join ' ', map { $_->{uri} =~ m{(certs|well-known)} } $idp->requests }
ok later(sub { asked() =~ /certs.* well-known/ }), 'a redirect within nginx: no keys, asked again';
is_deeply [ $side->requests ], [], 'and no other location was run';

$idp->set('/certs?a=b' => jwks($key));
says();
$clock->pass(2);
ok eventually(sub { status() == 200 }), 'its own metadata: the keys are fetched from there';
$idp->forget;
$clock->pass(60);
ok eventually(sub { grep { $_->{uri} eq '/certs?a=b' } $idp->requests }), 'and fetched again,';
is scalar(grep { $_->{uri} =~ /well-known/ } $idp->requests), 0, 'but nobody asks twice where';
is http_get($t->port('gateway'), '/leak')->body, '[]', 'no client sees the address';
ok $t->reload, 'a reload';
$idp->forget;
$clock->pass(60);
ok eventually(sub { grep { $_->{uri} eq '/certs?a=b' } $idp->requests }), 'keeps the address';
is scalar(grep { $_->{uri} =~ /well-known/ } $idp->requests), 0, 'and does not ask again';

for my $case ([ '/new', undef, 'keys that are gone from there' ],
    [ '/newer', '{"error":"moved"}', 'an answer without keys' ])
{
    my ($uri, $instead, $name) = @$case;
    $idp->set(map({ ($_ => $instead) } '/certs?a=b', '/new'), $uri => jwks($key));
    says(jwks_uri => "http://127.0.0.1:$port$uri");
    $clock->pass(60);
    ok later(sub { grep { $_->{uri} eq $uri } $idp->requests }), "$name: asked again";
}
is status(), 200, 'and served';

# -- a name that nobody here has: [what, iss, the nearest configured one]

for my $case (
    [ 'a slash too much', "$iss/", $iss ],
    [ 'another scheme', $iss =~ s/http/https/r, $iss ],
    [ 'another host', "http://idp.test:$port/realms/shop", $iss ],
    [ 'another letter case', 'https://ID.test', 'https://id.test' ],
    [ 'a slash too much, of another', 'https://fixed.test/', 'https://fixed.test' ],
    [ 'nothing alike', 'x', 'https://id.test' ],
    [ 'no text', ['x'], undef ],
    [ 'a long one', 'https://id.test' . '/' x 300, 'https://id.test' ],
) {
    my ($name, $named, $nearest) = @$case;
    my $token = jwt_sign(key => $key, payload => { iss => $named, exp => time - 600 });
    my $reason = $nearest ? 'token_issuer' : 'token_claims';
    is $t->logged(http_get($t->port('gateway'), '/', token => $token))->{reason}, $reason,
        "$name: $reason,";
    my $said = http_post($t->port('gateway'), '/explain',
        json => { path => '/', token => $token })->json;
    is_deeply [ $said->{reason}, @$said{qw(trust keySet)},
        map { [ @$_{qw(check claim found nearest)} ] }
        grep { $_->{result} eq 'failed' } @{ $said->{checks} } ],
        [ $reason, undef, undef, $nearest
        ? [ 'issuer', undef, substr($named, 0, 255), $nearest ]
        : [ 'claims', 'iss', undef, undef ] ],
        'and an explanation has it, the one it might be, and no other failure';
}
my $untrusted = http_post($t->port('gateway'), '/explain', json => { path => '/', token =>
    jwt_sign(key => $key, payload => { iss => $iss, sub => 'u', exp => time - 600 }) })->json;
is_deeply [ $untrusted->{reason}, grep { exists $_->{nearest} } @{ $untrusted->{checks} } ],
    ['token_expired'], 'control: a name that is configured has no nearest';

$http =~ s/^.*trust (tls|fixed|slash).*\n//gm;

for my $case (
    [ 'an issuer elsewhere, without TLS', qr/needs an issuer that begins with "https:/,
        $http =~ s/<iss>/http:\/\/id.test/r ],
    [ 'a file', qr/needs "key_location"/,
        $http =~ s/<iss>/https:\/\/id.test/r =~ s/key_location \S+;/key_file keys.json;/r ],
    [ 'an issuer with TLS', undef, $http =~ s/<iss>/https:\/\/id.test/r ],
) {
    my ($name, $said, $http) = @$case;
    $t->write_file('keys.json', jwks($key));
    my ($ok, $why) = $t->location_test(http => $http,
        server => 'location = /_fetch { internal; proxy_pass $platform_fetch_url;'
            . ' subrequest_output_buffer_size 64k; }',
        location => 'platform_gateway on; platform_gateway_access token; empty_gif;');
    $said ? like($why, $said, "refused: $name") : ok($ok, $name) || diag $why;
}

$t->done;
