# What an operator sets of the gateway's face, without an editor in a rendered
# file: listeners, TLS, HTTP/2, the redirect to it, who may scrape, upstreams.

use Platform::Test;

my $t = Platform::Test->new;
my $dir = $t->dir;
system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    . " -keyout $dir/key.pem -out $dir/cert.pem 2>/dev/null") == 0
    or die "openssl req failed\n";

my %at = map { $_ => '127.0.0.1:' . $t->port($_) } qw(tls second plain scrape dead stub identity);
my ($tls, $plain, $scrape) = @at{qw(tls plain scrape)};
my %env = (
    PLATFORM_JWT_ISSUER         => "http://$at{identity}",
    GATEWAY_LISTEN              => "$tls $at{second}",
    GATEWAY_TLS_CERTIFICATE     => "$dir/cert.pem",
    GATEWAY_TLS_CERTIFICATE_KEY => "$dir/key.pem",
    GATEWAY_REDIRECT_LISTEN     => $plain,
    METRICS_SCRAPE_LISTEN       => $scrape,
    METRICS_SCRAPE_ALLOW        => '127.0.0.0/8',
    PLATFORM_ENTITLEMENT_SERVERS => "$at{dead} $at{stub}",
    PLATFORM_ENTITLEMENT_CONNECT_TIMEOUT => '500ms',
    NGINX                       => Platform::Test::Env::nginx(),
);
my $identity = $t->identity(map { $_ => $env{$_} } grep {/JWT/} keys %env);
my $nginx = $t->render_nginx(\%env, $identity->address);
$t->track($nginx)->start;
$t->allow(qr/connect\(\) failed/, qr/upstream server temporarily disabled/);

sub curl (@args) { return scalar qx{curl -sk --max-time 10 @args} }

my $SAID = q(-o /dev/null -w '%{http_code} %{http_version} %{redirect_url}');
ok eventually(sub { curl("https://$tls/readyz") =~ /UP/ }), 'ready';
my ($token) = curl("https://$tls/api/auth/login", q(-H 'Content-Type: application/json'),
    q(-d '{"account":"one@demo.test","credential":"Demo-passw0rd!"}'))
    =~ /"accessToken":"([^"]+)"/;
ok $token, 'a login over TLS';
for my $case (
    map({ [ "TLS and HTTP/2 at $_", '200 2 ', "https://$_/readyz" ] } $tls, $at{second}),
    [ 'or HTTP/1.1', '200 1.1 ', "--http1.1 https://$tls/readyz" ],
    [ 'nothing older than TLS 1.2', '000 0 ', "--tls-max 1.1 https://$tls/readyz" ],
    [ 'plain HTTP is sent there, with its query', "308 1.1 https://$tls/api/auth/login?x=1",
        "-X POST 'http://$plain/api/auth/login?x=1'" ],
    map({ [ "call $_ passes by the server that is down", '200 2 ',
        "-H 'Authorization: Bearer $token' https://$tls/api/workspaces/current-context" ] } 1, 2),
    [ 'a scraper gets no explanations', '404 1.1 ', "http://$scrape/internal/explain -d '{}'" ],
    [ 'nor anything else', '404 1.1 ', "http://$scrape/readyz" ],
) {
    my ($name, $said, $args) = @$case;
    is curl($SAID, $args), $said, $name;
}
like curl("http://$scrape/internal/metrics"),
    qr/^platform_gateway_key_set_keys 1$/m, 'metrics for a scraper';

like $t->read_file('rendered/gateway.conf'), qr/^\s+ssl_protocols TLSv1\.2 TLSv1\.3;$/m,
    'no older TLS, whatever OpenSSL would take';

# At the identity face a scraper is known by its address, unless it asks for somebody.
for my $case ([ '' => 200 ], map { [ "-H '$_'" => 403 ] } 'X-Forwarded-For: 10.1.2.3',
    'Forwarded: for=10.1.2.3')
{
    my ($args, $status) = @$case;
    is curl("-o /dev/null -w '%{http_code}'", $args, "http://$at{identity}/actuator/prometheus"), $status,
        "identity face: a scraper $args";
}

like curl(q(-w ' %{http_code} %{content_type}'), "http://$tls/readyz"),
    qr{request was sent to HTTPS port".*"GATEWAY_BAD_REQUEST".* 400 application/problem\+json},
    'plain HTTP on the TLS port is told what it did';

$t->stop($nginx);
my ($ok, $why) = $t->render_nginx({
    METRICS_SCRAPE_LISTEN => $scrape, METRICS_SCRAPE_ALLOW => '192.0.2.1' },
    '/run/identity.sock')->test;
ok $ok, 'another scraper' or diag $why;
like $t->read_file('rendered/gateway.conf'), qr/allow 192\.0\.2\.1;\s+deny all;/, 'the only one';
like $t->read_file('rendered/identity.conf'), qr/^\s+192\.0\.2\.1 1;$/m, 'by the identity face too';

# What does not fit together is told in one line, and nothing is written.

my $typo = $t->write_file('typo.env', "METRICS_LISTN=127.0.0.1:9\n");
my $gateway = $t->write_file('gateway.env', "PLATFORM_JWT_ISSUER=https://a.example\n");
my $other = $t->write_file('identity.env', "PLATFORM_JWT_ISSUER=https://b.example\n");
my $render = $t->root . '/tools/render';
for my $case (
    [ qr/GATEWAY_TLS_CERTIFICATE and its key/, '', GATEWAY_TLS_CERTIFICATE => "$dir/cert.pem" ],
    [ qr/GATEWAY_REDIRECT_LISTEN has nowhere to lead/, '',
        GATEWAY_REDIRECT_LISTEN => '127.0.0.1:80' ],
    [ qr/METRICS_SCRAPE_LISTEN needs METRICS_SCRAPE_ALLOW/, '',
        METRICS_SCRAPE_LISTEN => '127.0.0.1:9' ],
    [ qr/IDENTITY_URL asks for https/, '', IDENTITY_URL => 'https://127.0.0.1:8081' ],
    (map { [ qr/$_->[0] .*; accepted: /, '', @$_ ] } [ PLATFORM_JWT_ISSUER => 'http://a; }' ],
        [ PLATFORM_ENTITLEMENT_URL => 'http://127.0.0.1:8082/path' ]),
    [ qr/PLATFORM_ENTITLEMENT_TIMEOUT has "soon"/, '', PLATFORM_ENTITLEMENT_TIMEOUT => 'soon' ],
    [ qr/\Q$typo\E: unknown setting METRICS_LISTN; did you mean METRICS_LISTEN\?/,
        "--gateway-env $typo" ],
    [ qr/PLATFORM_JWT_ISSUER is "https:\/\/a\.example" for the gateway/,
        "--gateway-env $gateway --identity-env $other" ],
) {
    my ($why, $args, %set) = @$case;
    local %ENV = (PATH => $ENV{PATH}, %set);
    like qx{$render $args --out $dir/never 2>&1}, qr/\Arender: $why[^\n]*\n\z/, "in one line: $why";
    is_deeply [ $? >> 8, -e "$dir/never" ], [ 2, undef ], '  refused, and nothing is written';
}

my @render = ($render, '--gateway-env', $gateway, '--out', "$dir/twice/nginx");
sub files { return { map { $_ => join ' ', (stat)[1, 9] } glob "$dir/twice/nginx/*" } }
is system(@render), 0, 'rendered';
my $first = files();
cmp_ok scalar keys %$first, '>=', 8, 'all files';
is system(@render), 0, 'rendered again';
is_deeply files(), $first, 'and every file is the same one';
is_deeply [ grep { $t->read_file(s{\Q$dir\E/}{}r) !~ /\A# Rendered: changes made here are lost\./ }
    keys %$first ], [], 'each says so first';

my ($help, $docs) = map { scalar qx{$_} } "$render --help",
    'cat ' . $t->root . '/docs/configuration.md';
my @settings = split /\n/, qx{$render --settings};
cmp_ok scalar @settings, '>=', 25, 'the settings';
is_deeply [ grep { $help !~ /^  \Q$_\E +\(/m } @settings ], [], 'each in --help';
is_deeply [ grep { $docs !~ /\b\Q$_\E\b/ } @settings ], [], 'each in the docs';

$t->done;
