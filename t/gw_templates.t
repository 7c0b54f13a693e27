# The templates: whatever an operator may set renders to a configuration that
# nginx accepts and that says what was meant; what is wrong is refused.

use Platform::Test;

my $t = Platform::Test->new;

# (whether nginx takes it, all rendered files as one text)
sub rendered (%env) {
    my ($ok, $said) = $t->render_nginx(\%env, delete $env{UPSTREAM} // '/run/identity.sock')->test;
    diag $said unless $ok;
    my $text = join "\n", map { $t->read_file("rendered/$_") }
        map { s{.*/}{}r } glob $t->dir . '/rendered/*';
    return ($ok, $text);
}

my ($ok, $text) = rendered();
ok $ok, 'defaults';
like $text, qr/limit_req zone=platform_login burst=20 nodelay;/, 'a burst';
like $text, qr/access_log \S+ platform;/, 'an access log';
unlike $text, qr/set_real_ip_from (?!255\.255\.255\.255;)|real_ip_header/, 'no proxy is trusted';
unlike $text, qr/\@[A-Z_]+\@/, 'nothing is left to fill in';

($ok, $text) = rendered(PLATFORM_LOGIN_RATE_LIMIT => 'off', PLATFORM_REFRESH_RATE_LIMIT => 'off');
ok $ok, 'no limits';
unlike $text, qr/limit_req(?:_zone)? /, 'then there are none';

($ok, $text) = rendered(PLATFORM_REFRESH_RATE_LIMIT => '600r/m');
ok $ok, 'a limit with no burst';

($ok, $text) = rendered(
    UPSTREAM => '/run/a.sock, 127.0.0.1:9000 [::1]:9000',
    PLATFORM_TRUSTED_PROXIES => '10.0.0.0/8, 2001:db8::/32',
    PLATFORM_HTTP_ACCESS_LOG_ENABLED => 'off',
    PLATFORM_CORS_ALLOWED_ORIGINS => 'https://a.example https://*.b.example:8443',
    PLATFORM_CORS_ALLOWED_HEADERS => 'X-Api-Key, x_debug X-Two',
    PLATFORM_ENTITLEMENT_URL => 'https://127.0.0.1',
    IDENTITY_URL => 'https://127.0.0.1:8443');
ok $ok, 'all else';
like $text, qr/platform_gateway_cors_headers default X-Api-Key x_debug X-Two;/,
    'headers are added to those that are allowed anyhow';
like $text, qr/set_real_ip_from 10\.0\.0\.0\/8;/, 'trusted proxies';
like $text, qr/server 127\.0\.0\.1:443;/, 'the port that https has';
like $text, qr/proxy_ssl_verify on;/, 'whose certificate is checked';
unlike $text, qr/access_log \S+ platform;/, 'no access log';

($ok, $text) = rendered(PLATFORM_JWT_ISSUER => '#issuer',
    PLATFORM_JWT_AUDIENCE => '#api', PLATFORM_REVOCATIONS_STALE => 'refuse');
ok $ok, 'a comment to nginx, were it not quoted';
like $text, qr/issuer "#issuer";\n\s*platform_gateway_audience "#api";/,
    'is the issuer and the audience';
like $text, qr/revocations_stale refuse;/, 'a choice for stale revocations';

# What belongs to http{} has a directory beside that of the routes.

for my $kind ('http', 'routes') {
    my ($beside) = $text =~ m{^\s*include (\S+)/$kind\.d/\*\.conf;$}m;
    is $beside, $t->dir, "$kind.d is beside what is rendered";
}
$t->write_file('http.d/zone.conf', <<'CONF');
limit_req_zone $platform_account_id zone=mine:64k rate=1r/s;
upstream mine { server 127.0.0.1:9; }
CONF
$t->write_file('routes.d/mine.conf', <<'CONF');
location /api/mine/ { platform_gateway_access branch; limit_req zone=mine; proxy_pass http://mine; }
CONF
ok +(rendered())[0], 'a route finds its zone and its upstream there';
unlink $t->dir . "/$_" for 'http.d/zone.conf', 'routes.d/mine.conf';

for my $listen ('unix:' . $t->dir . '/metrics.sock', $t->dir . '/metrics.sock',
    '127.0.0.3:9083', '[::1]:9083')
{
    ($ok, $text) = rendered(METRICS_LISTEN => $listen);
    ok $ok, "metrics at $listen";
    my @found = $text =~ m{listen (?:unix:)?\Q@{[ $listen =~ s/^unix://r ]}\E[ ;]}g;
    is @found, 2, 'both servers of that listener';
}

# What must not come in by a variable.

my %wrong = (
    PLATFORM_CORS_ALLOWED_ORIGINS => '*',
    PLATFORM_CORS_ALLOWED_HEADERS => 'X-A *',
    PLATFORM_ENTITLEMENT_URL      => 'http://127.0.0.1:8082/path',
    PLATFORM_JWT_ISSUER           => 'http://a; }',
    PLATFORM_TRUSTED_PROXIES      => '0.0.0.0/0',
    PLATFORM_LOGIN_RATE_LIMIT     => 'fast',
    IDENTITY_URL                  => 'http://a b',
    GATEWAY_PORT                  => '80;',
    METRICS_LISTEN                => '0.0.0.0:8083',
);
for my $name (sort keys %wrong) {
    my $said = do {
        local $ENV{$name} = $wrong{$name};
        my ($render, $out) = ($t->root . '/tools/render', $t->dir . '/no');
        `$render --out $out 2>&1`;
    };
    isnt $?, 0, "$name=$wrong{$name} is refused";
    like $said, qr/\Arender: \Q$name\E .*; accepted: /, 'by its name';
}

$t->done;
