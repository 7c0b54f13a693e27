# make install: everything in its place under DESTDIR, nothing of the
# operator's overwritten, and a configuration that nginx accepts.

use Platform::Test;
use Platform::Test::Page qw(commands);

Platform::Test::Env::plain('installing has no sanitizer mode');

my $t = Platform::Test->new;
my $dest = $t->dir . '/dest';
my $log = $t->dir . '/install.log';

sub make_install {
    my $build = Platform::Test::Env::build();
    return system('cd ' . $t->root . " && make -s BUILD=$build install"
        . " DESTDIR=$dest PREFIX=/usr SYSCONFDIR=/etc >>$log 2>&1") == 0;
}

sub content { return $t->read_file("dest/$_[0]") // '' }

ok make_install(), 'installs' or diag $t->read_file('install.log');

my ($module) = glob "$dest/*/*/*/ngx_http_platform_gateway_module.so
    $dest/*/*/ngx_http_platform_gateway_module.so
    $dest/*/*/*/*/ngx_http_platform_gateway_module.so";
ok $module, 'the module';
ok -x "$dest/usr/bin/identity-fcgi", 'the program';
like qx{$dest/usr/bin/identity-fcgi --version}, qr/\d/, 'which runs';
my $hardening = $t->root . '/t/hardening';
my $hardened = qx{$hardening $module $dest/usr/bin/identity-fcgi};
is $?, 0, 'both are hardened' or diag $hardened;
my $weak = $t->dir . '/weak.so';
system("cc -shared -Wl,-z,execstack,-z,norelro,-z,lazy -o $weak -x c /dev/null");
is join(' ', qx{$hardening $weak} =~ /(\S+)=NO/g),
    'RELRO NOW stack-not-executable stack-protector fortify', '... and what is not is told';
ok -f "$dest/lib/systemd/system/platform-identity$_", "unit: $_"
    for qw(.socket .service @.socket @.service -sweep.service -sweep.timer
        -keys.service -keys.timer);
sub unit { return content("lib/systemd/system/platform-identity$_[0]") }

like unit('@.socket'), qr{^ListenStream=/run/identity-fcgi/%i\.sock$}m,
    'each with its own socket';
like unit('@.service'), qr{^Requires=platform-identity\@%i\.socket$}m, 'which its process gets';
like unit('.service'), qr{\A(?!.*\@[A-Z]+\@).*^ExecStart=/usr/bin/identity-fcgi }ms,
    'the service names the program, and no placeholder is left';

# Every command and setting is in the manual.

sub manual { return content("usr/share/man/$_[0]") =~ s/\\f[BIP]|\\(?=-)//gr }

# The words of a manual page that are missing there, of what a command prints.
sub missing ($page, $edge, $command, $pattern) {
    my $text = manual($page);
    my @words = map { /$pattern/ ? $1 : () } qx{$dest/usr/$command};
    cmp_ok scalar @words, '>=', 15, "$command: tells";
    return [ grep { $text !~ /$edge\Q$_\E/m } @words ];
}

is_deeply missing('man8/identity-fcgi.8', '^', 'bin/identity-fcgi help',
    qr/^  ([a-z-]+(?: [a-z-]+)?)/), [], 'each command is in identity-fcgi(8)';
is_deeply missing('man5/platform-gateway.5', '\b', @$_), [],
    'each setting is in platform-gateway(5)'
    for [ 'bin/identity-fcgi --print-config', qr/^([A-Z_0-9]+)=/ ],
    [ 'share/platform-gateway/tools/render --settings', qr/^(\S+)/ ];

# The operator's files.

my $etc = "$dest/etc/platform-gateway";
$t->write_file('dest/etc/platform-gateway/gateway.env', <<'ENV');
# my gateway
HTTP_HOST=127.0.0.2
HTTP_PORT=9080
PLATFORM_JWT_ISSUER="https://identity.example.com"
PLATFORM_CORS_ALLOWED_ORIGINS='https://app.example.com https://*.example.org'
PLATFORM_LOGIN_RATE_LIMIT=off
PLATFORM_TRUSTED_PROXIES=10.0.0.0/8
ENV
$t->write_file('dest/etc/platform-gateway/identity.env', <<'ENV');
HTTP_PORT=9081
PLATFORM_JWT_PRIVATE_KEY_BASE64=top-secret
ENV

my $route = "location /api/mine/ { platform_gateway_access public; "
    . "limit_req zone=mine; }\n";
my $zone = "limit_req_zone \$remote_addr zone=mine:64k rate=1r/s;\n";
my %theirs = ('routes.d/mine.conf' => $route, 'http.d/mine.conf' => $zone);
for my $file (sort keys %theirs) {
    ok -d "$etc/" . $file =~ s{/.*}{}r, "a place for their own: $file";
    $t->write_file("dest/etc/platform-gateway/$file", $theirs{$file});
}

ok make_install(), 'installs again';
$ENV{PLAYGROUND_HOST} = '127.0.0.1';
is system("$dest/usr/share/platform-gateway/tools/render", '--installed',
    '--sysconfdir', $etc, '--conf-dir', '/etc/platform-gateway/nginx',
    '--out', "$etc/nginx"), 0, 'and is rendered';
is content("etc/platform-gateway/$_"), $theirs{$_}, "$_ is as it was" for sort keys %theirs;
my $all = qx{cat $etc/nginx/*};
like content("etc/platform-gateway/$_->[0]"), $_->[1], "$_->[0]: $_->[2]" for (
    (map { [ 'nginx/gateway.conf', @$_ ] } [ qr/listen 127\.0\.0\.2:9080;/, 'the address' ],
        [ qr{issuer "https://identity\.example\.com";}, 'the issuer' ],
        [ qr{https://\*\.example\.org;}, 'all origins' ],
        [ qr{include /etc/platform-gateway/routes\.d/\*\.conf;}, 'their routes' ]),
    [ 'nginx/identity.conf', qr/listen 127\.0\.0\.1:9081;/, 'an address of its own' ],
    [ 'gateway.env', qr/^# my gateway/, 'as it was' ],
    [ 'nginx/platform-http.conf', qr{^include /etc/platform-gateway/http\.d/\*\.conf;$}m,
        'what is theirs in http{}' ],
);
like $all, qr/\A(?!.*(?:top-secret|zone=platform_login)).*set_real_ip_from 10\.0\.0\.0\/8;/s,
    'nginx never sees the key, a limit that is off is gone, proxies are trusted';
qx{@{[ $t->root ]}/tools/render --installed --sysconfdir $etc --out $dest/checkout};
delete $ENV{PLAYGROUND_HOST};
ok -e "$dest/checkout/gateway.conf", 'the checkout renders the same';
is qx{find $dest -iname '*playground*' -not -path '*/doc/*'; grep -ril playground $dest/etc}, '',
    'the playground of make run is in no installation';

# nginx accepts it, included from elsewhere.

$t->write_file('nginx.conf', <<"CONF");
load_module $module;
pid $dest/nginx.pid;
events { }
http {
    client_body_temp_path $dest/1;
    proxy_temp_path $dest/2;
    fastcgi_temp_path $dest/3;
    uwsgi_temp_path $dest/4;
    scgi_temp_path $dest/5;
    access_log off;
    include $etc/nginx/platform-http.conf;
    include $etc/nginx/gateway.conf;
    include $etc/nginx/identity.conf;
}
CONF
my $said = qx{sed -i 's|/etc/platform-gateway|$etc|;
    s|/var/log/nginx|$dest|' $etc/nginx/*.conf; }
    . qx{@{[ Platform::Test::Env::nginx() ]} -e stderr -t -c @{[ $t->dir ]}/nginx.conf 2>&1};
like $said, qr/test is successful/, 'nginx accepts it';

# docs/install.md: readiness is waited for, as it comes a moment after the start.

my $face = $t->issuer(status => 503, body => '{"status":"DOWN"}');
my @waits = commands($t->root . '/docs/install.md', 'Gateway') =~ m{^(curl .*/readyz)$}mg;
is scalar @waits, 2, 'install.md waits for both';
for my $wait (@waits) {
    $wait =~ s{https?://[^/]+}{'http://127.0.0.1:' . $face->port}e;
    my $asked = $face->count;
    $face->set(status => 503, body => '{"status":"DOWN"}');
    my $run = $t->process(curl => cmd => [ 'sh', '-c', $wait ])->expect_end;
    eventually(sub { $face->count > $asked });
    ok $run->alive, 'as long as it is not';
    $face->set(status => 200, body => '{"status":"UP"}');
    ok $run->wait_end(60), 'until it is';
    is $run->status, 0, 'and says so' or diag $t->read_file('curl.log');
}
is $t->read_file('curl.log'), '{"status":"UP"}' x 2, 'and nothing else';

# Values cannot bring configuration along.

sub refused ($name, $value, $told = undef) {
    local $ENV{$name} = $value;
    $told //= 'accepted';
    my $out = qx{@{[ $t->root ]}/tools/render --out $dest/never 2>&1};
    isnt $?, 0, "$name=$value is refused";
    like $out, qr/\Arender: $name (?=[^\n]*\Q$told\E)[^\n]+; accepted: [^\n]+\n\z/,
        '  in one line that names it';
    ok !-e "$dest/never", '  and nothing is written';
}

refused(@$_) for (
    [ PLATFORM_JWT_ISSUER => 'x; } server { listen 1;' ],
    [ PLATFORM_JWT_ISSUER => '$request_uri' ],
    [ PLATFORM_ENTITLEMENT_URL => "http://a/\nreturn 200;" ],
    [ PLATFORM_ENTITLEMENT_URL => 'http://$host/' ],
    [ PLATFORM_CORS_ALLOWED_ORIGINS => 'https://a.example *', 'has "*",' ],
    [ PLATFORM_TRUSTED_PROXIES => '10.0.0.0/8; allow all' ],
    [ IDENTITY_UPSTREAM => '/tmp/x.sock; server y' ],
    [ NGINX_USER => 'root; daemon on' ],
    [ RUN_DIR => '/tmp/a b' ],
);

$t->done;
