# What an operator sets of the gateway's face, without an editor in a rendered
# file: listeners, TLS, HTTP/2, the redirect to it, who may scrape, upstreams.

use Platform::Test;

my $t = Platform::Test->new;
my $dir = $t->dir;
system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    . " -keyout $dir/key.pem -out $dir/cert.pem 2>/dev/null") == 0
    or die "openssl req failed\n";

my ($tls, $second, $plain, $scrape)
    = map { '127.0.0.1:' . $t->port($_) } qw(tls second plain scrape);
my $dead = '127.0.0.1:' . $t->port('dead');
my $stub = '127.0.0.1:' . $t->port('stub');
my %env = (
    PLATFORM_JWT_ISSUER         => 'http://127.0.0.1:' . $t->port('identity'),
    GATEWAY_LISTEN              => "$tls $second",
    GATEWAY_TLS_CERTIFICATE     => "$dir/cert.pem",
    GATEWAY_TLS_CERTIFICATE_KEY => "$dir/key.pem",
    GATEWAY_REDIRECT_LISTEN     => $plain,
    METRICS_SCRAPE_LISTEN       => $scrape,
    METRICS_SCRAPE_ALLOW        => '127.0.0.0/8',
    PLATFORM_ENTITLEMENT_SERVERS => "$dead $stub",
    PLATFORM_ENTITLEMENT_CONNECT_TIMEOUT => '500ms',
    NGINX                       => Platform::Test::Env::nginx(),
);
my $identity = $t->identity(map { $_ => $env{$_} } grep {/JWT/} keys %env);
my $nginx = $t->render_nginx(\%env, $identity->address);
$t->track($nginx)->start;
$t->allow(qr/connect\(\) failed/, qr/upstream server temporarily disabled/);

sub curl (@args) {
    my $out = qx{curl -sk --max-time 10 @args};
    return $out;
}
ok eventually(sub { curl("https://$tls/readyz") =~ /UP/ }), 'ready';
my $said = q(-o /dev/null -w '%{http_code} %{http_version} %{redirect_url}');

for my $address ($tls, $second) {
    is curl($said, "https://$address/readyz"), '200 2 ', "TLS and HTTP/2 at $address";
}
is curl($said, '--http1.1', "https://$tls/readyz"), '200 1.1 ', 'or HTTP/1.1';
is curl($said, '--tls-max 1.1', "https://$tls/readyz"), '000 0 ', 'nothing older than TLS 1.2';

# A client that speaks plain HTTP to it is told so in nginx's own words.

my $astray = curl(q(-w ' %{http_code} %{content_type}'), "http://$tls/readyz");
like $astray, qr{"detail":"The plain HTTP request was sent to HTTPS port"},
    'plain HTTP on the TLS port is told what it did';
like $astray, qr{"code":"GATEWAY_BAD_REQUEST".* 400 application/problem\+json}, 'as a problem';

is curl($said, '-X POST', "http://$plain/api/auth/login?x=1"),
    "308 1.1 https://$tls/api/auth/login?x=1" =~ s/127\.0\.0\.1(?=:)/127.0.0.1/r,
    'plain HTTP is sent there, with its query';

my $login = curl("https://$tls/api/auth/login",
    q(-H 'Content-Type: application/json'),
    q(-d '{"account":"one@demo.test","credential":"Demo-passw0rd!"}'));
my ($token) = $login =~ /"accessToken":"([^"]+)"/;
ok $token, 'a login over TLS';
for my $n (1, 2) {
    is curl($said, "-H 'Authorization: Bearer $token'",
        "https://$tls/api/workspaces/current-context"), '200 2 ',
        "call $n passes by the server that is down";
}

like curl("http://$scrape/internal/metrics"),
    qr/^platform_gateway_key_set_keys 1$/m, 'metrics for a scraper';
is curl($said, "http://$scrape/internal/explain -d '{}'"), '404 1.1 ', 'explanations are not there';
is curl($said, "http://$scrape/readyz"), '404 1.1 ', 'nor anything else';

$t->stop($nginx);
my ($ok, $why) = $t->render_nginx({
    METRICS_SCRAPE_LISTEN => $scrape, METRICS_SCRAPE_ALLOW => '192.0.2.1' },
    '/run/identity.sock')->test;
ok $ok, 'another scraper' or diag $why;
like $t->read_file('rendered/gateway.conf'),
    qr/allow 192\.0\.2\.1;\s+deny all;/, 'is the only one let in';
like $t->read_file('rendered/identity.conf'), qr/^\s+192\.0\.2\.1 1;$/m, 'by the identity face too';

# What does not fit together is told in one line, and nothing is written.

my $typo = $t->write_file('typo.env', "METRICS_LISTN=127.0.0.1:9\n");
my $gateway = $t->write_file('gateway.env', "PLATFORM_JWT_ISSUER=https://a.example\n");
my $other = $t->write_file('identity.env', "PLATFORM_JWT_ISSUER=https://b.example\n");
for my $case (
    [ qr/GATEWAY_TLS_CERTIFICATE and its key/, '', GATEWAY_TLS_CERTIFICATE => "$dir/cert.pem" ],
    [ qr/GATEWAY_REDIRECT_LISTEN has nowhere to lead/, '',
        GATEWAY_REDIRECT_LISTEN => '127.0.0.1:80' ],
    [ qr/METRICS_SCRAPE_LISTEN needs METRICS_SCRAPE_ALLOW/, '',
        METRICS_SCRAPE_LISTEN => '127.0.0.1:9' ],
    [ qr/METRICS_SCRAPE_ALLOW has "0\.0\.0\.0\/0"/, '', METRICS_SCRAPE_LISTEN => '127.0.0.1:9',
        METRICS_SCRAPE_ALLOW => '0.0.0.0/0' ],
    [ qr/IDENTITY_URL asks for https/, '', IDENTITY_URL => 'https://127.0.0.1:8081' ],
    [ qr/PLATFORM_ENTITLEMENT_TIMEOUT has "soon"/, '', PLATFORM_ENTITLEMENT_TIMEOUT => 'soon' ],
    [ qr/\Q$typo\E: unknown setting METRICS_LISTN; did you mean METRICS_LISTEN\?/,
        "--gateway-env $typo" ],
    [ qr/PLATFORM_JWT_ISSUER is "https:\/\/a\.example" for the gateway/,
        "--gateway-env $gateway --identity-env $other" ],
) {
    my ($why, $args, %set) = @$case;

    local %ENV = (PATH => $ENV{PATH}, %set);
    my $out = qx{@{[ $t->root ]}/tools/render $args --out $dir/never 2>&1};
    is $? >> 8, 2, "refused: $why";
    like $out, qr/\Arender: $why[^\n]*\n\z/, '  in one line';
    ok !-e "$dir/never", '  and nothing is written';
}

# Rendering twice changes nothing.

my @render = ($t->root . '/tools/render', '--gateway-env', $gateway, '--out', "$dir/twice/nginx");
is system(@render), 0, 'rendered';
my %seen = map { $_ => join ' ', (stat)[1, 9] } glob "$dir/twice/nginx/*";
cmp_ok scalar keys %seen, '>=', 8, 'all files';
is system(@render), 0, 'rendered again';
is_deeply { map { $_ => join ' ', (stat)[1, 9] } glob "$dir/twice/nginx/*" },
    \%seen, 'and every file is the same one';
for my $file (sort keys %seen) {
    like $t->read_file($file =~ s{\Q$dir\E/}{}r), qr/\A# Rendered: changes made here are lost\./,
        'says so first: ' . $file =~ s{.*/}{}r;
}

# Every setting is told of, in --help and in the docs.

my $help = qx{@{[ $t->root ]}/tools/render --help};
open my $fh, '<', $t->root . '/docs/configuration.md' or die "$!\n";
my $docs = do { local $/; <$fh> };
my @settings = split /\n/, qx{@{[ $t->root ]}/tools/render --settings};
cmp_ok scalar @settings, '>=', 25, 'the settings';
is_deeply [ grep { $help !~ /^  \Q$_\E +\(/m } @settings ], [], 'each in --help';
is_deeply [ grep { $docs !~ /\b\Q$_\E\b/ } @settings ], [], 'each in the docs';

$t->done;
