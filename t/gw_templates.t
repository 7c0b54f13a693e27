# The templates: whatever an operator may set renders to a configuration that
# nginx accepts and that says what was meant.  What is refused: gw_face_settings.t.

use Platform::Test;

my $t = Platform::Test->new;
chmod 0600, $t->write_file('assertion.pem', jwt_key('assert-1', alg => 'ES256')->private_pem);

# nginx takes what that environment renders to; all files as one text.
sub rendered ($name, %env) {
    my ($ok, $said) = $t->render_nginx(\%env, delete $env{UPSTREAM} // '/run/identity.sock')->test;
    ok $ok && $said !~ /\[warn\]/, $name or diag $said;
    return join "\n", map { $t->read_file('rendered/' . s{.*/}{}r) } glob $t->dir . '/rendered/*';
}

# [name, environment, what must be there, what must not].
my $text;
for my $case (
    [ 'defaults', {},
        [ qr/limit_req zone=platform_login burst=20 nodelay;/, qr/access_log \S+ platform;/ ],
        [ qr/assertion/, qr/set_real_ip_from (?!255\.255\.255\.255;)|real_ip_header/, qr/\@[A-Z_]+\@/ ] ],
    [ 'no limits', { map { ("PLATFORM_${_}_RATE_LIMIT" => 'off') } qw(LOGIN REFRESH) }, [],
        [ qr/limit_req(?:_zone)? / ] ],
    [ 'a limit with no burst', { PLATFORM_REFRESH_RATE_LIMIT => '600r/m' }, [], [] ],
    [ 'all else', {
        UPSTREAM => '/run/a.sock, 127.0.0.1:9000 [::1]:9000',
        PLATFORM_TRUSTED_PROXIES => '10.0.0.0/8, 2001:db8::/32',
        PLATFORM_HTTP_ACCESS_LOG_ENABLED => 'off',
        PLATFORM_CORS_ALLOWED_ORIGINS => 'https://a.example https://*.b.example:8443',
        PLATFORM_CORS_ALLOWED_HEADERS => 'X-Api-Key, x_debug X-Two',
        PLATFORM_ENTITLEMENT_URL => 'https://127.0.0.1', IDENTITY_URL => 'https://127.0.0.1:8443' },
        [ qr/platform_gateway_cors_headers default X-Api-Key x_debug X-Two;/,
            qr/set_real_ip_from 10\.0\.0\.0\/8;/, qr/server 127\.0\.0\.1:443;/,
            qr/proxy_ssl_verify on;/ ], [ qr/access_log \S+ platform;/ ] ],
    [ 'assertions', { PLATFORM_ASSERTION_KEY => $t->dir . '/assertion.pem' },
        [ qr/^platform_gateway_assertion_key \S+\/assertion\.pem;$/m,
            qr/^ *platform_gateway_assertion audience=entitlement-service;$/m,
            qr/location = \/\.well-known\/assertion-keys\.json \{\n *platform_gateway_access public;/ ],
        [] ],
    (map { [ "metrics at $_", { METRICS_LISTEN => $_ },
        [ qr/(?:listen (?:unix:)?\Q@{[ s{^unix:}{}r ]}\E[ ;].*){2}/s ], [] ] }
        'unix:' . $t->dir . '/metrics.sock', $t->dir . '/metrics.sock', '127.0.0.3:9083',
        '[::1]:9083'),
    [ 'origins of clients', { PLATFORM_PUBLIC_ORIGINS => 'https://api.example http://127.0.0.1:8080' },
        [ qr/^platform_gateway_proof zone=platform_proofs:8m;$/m, qr/^\s*platform_gateway_forward_proof on;$/m,
            qr/^\s*platform_gateway_proof_origin https:\/\/api[.]example http:\/\/127[.]0[.]0[.]1:8080;$/m ], [] ],
    [ 'no origins of clients', {}, [], [ qr/platform_gateway_proof(?:_origin)? / ] ],
    [ 'a comment to nginx, were it not quoted', { PLATFORM_JWT_ISSUER => '#issuer',
        PLATFORM_JWT_AUDIENCE => '#api', PLATFORM_REVOCATIONS_STALE => 'refuse' },
        [ qr/issuer "#issuer";\n\s*platform_gateway_audience "#api";/,
            qr/revocations_stale refuse;/ ], [] ])
{
    my ($name, $env, $has, $lacks) = @$case;
    $text = rendered($name, %$env);
    like $text, $_, "$name: has" for @$has;
    unlike $text, $_, "$name: lacks" for @$lacks;
}

# What keeps somebody out, in each file that has it.
for my $case (
    (map { [ "gateway-$_.conf", qr/proxy_ssl_verify on;/ ] } qw(key-set entitlement)),
    [ 'gateway-key-set.conf', qr/proxy_pass_request_headers off;/ ],
    [ 'platform-http.conf', qr/platform_gateway_key_hard_age 24h;/ ],
) {
    my ($file, $line) = @$case;
    is scalar(() = $t->read_file("rendered/$file") =~ /^\s*$line$/mg), 1, "$file: $line";
}

# What belongs to http{} has a directory beside that of the routes.

is_deeply [ map { $text =~ m{^\s*include (\S+)/$_\.d/\*\.conf;$}m } 'http', 'routes' ],
    [ ($t->dir) x 2 ], 'http.d and routes.d are beside what is rendered';
$t->write_file('http.d/zone.conf', <<'CONF');
limit_req_zone $platform_account_id zone=mine:64k rate=1r/s;
upstream mine { server 127.0.0.1:9; }
CONF
$t->write_file('routes.d/mine.conf', <<'CONF');
location /api/mine/ { platform_gateway_access branch; limit_req zone=mine; proxy_pass http://mine; }
CONF
rendered('a route finds its zone and its upstream there');
$t->write_file('keys.json', jwks(jwt_key('a')));
$t->write_file('http.d/issuers.conf', join '', map {
    "platform_gateway_trust more$_ { issuer https://more$_.test; audience mine; key_file ${\$t->dir}/keys.json; }\n" } 1 .. 63);
rendered('and there is room for 64 issuers');

$t->done;
