# make install: everything in its place under DESTDIR, nothing of the
# operator's overwritten, and a configuration that nginx accepts.

use Platform::Test;
use Platform::Test::Page qw(commands);

use File::Path qw(make_path);

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

# The version: that of a release at its tag alone.  Each row is a commit on the one
# before; what is sorted behind what is dpkg's to say, and apt upgrades to it.

my $repo = $t->dir . '/repo';
$t->write_file('repo/jose/pj_version.h', "#define PLATFORM_VERSION \"0.2.0\"\n");
my ($released, $news) = ("## 0.2.0 - 2026-01-01\n\n- Old.\n", "## [Unreleased]\n\n");
my $minute = 0;

sub version ($name, $where, $want) {
    my $said = qx{$where/tools/version 2>&1};
    like $said, qr/\A$want\n\z/, "version: $name";
    return $said =~ s/\n\z//r;
}

sub there ($script) {
    my $at = sprintf '2026-02-01T00:%02d:00+0100', $minute;
    my $said = qx{cd $repo && exec 2>&1
export HOME=$repo GIT_CEILING_DIRECTORIES=@{[ $t->dir ]} GIT_COMMITTER_DATE=$at
export GIT_AUTHOR_NAME=none GIT_AUTHOR_EMAIL=none GIT_COMMITTER_NAME=none GIT_COMMITTER_EMAIL=none
commit() { git add . && git commit -qm "\$1" --allow-empty; }
$script};
    return is($?, 0, "version: $script") || diag $said;
}

there("git init -q; mkdir tools; cp @{[ $t->root ]}/tools/version tools;"
    . " cp @{[ $t->root ]}/.gitattributes .");
my @version;
for my $case (
    [ 'the commit before the tag', '0.2.0~git20260131230100', $released ],
    [ 'at the tag', '0.2.0', $released, 'git tag v0.2.0' ],
    [ 'after it', '0.3.0~git20260131230300', $released ],
    [ 'with news', '0.3.0~git20260131230400', "$news- New.\n\n$released" ],
    [ 'with news, in a checkout without the tag', '0.3.0~git20260131230500',
        "$news- New.\n\n$released", 'git tag -d v0.2.0' ],
    [ 'the next release, before its tag', '0.3.0~git20260131230600',
        "$news## 0.3.0 - 2026-02-01\n\n- New.\n\n$released",
        'sed -i s/0.2.0/0.3.0/ jose/pj_version.h; commit release' ],
    [ 'the next release', '0.3.0', undef, 'git tag -a -m 0.3.0 v0.3.0' ],
    [ 'and after it', '0.4.0~git20260131230800', undef ],
) {
    my ($name, $want, $changes, $then) = @$case;
    $minute++;
    $t->write_file('repo/CHANGELOG.md', $changes) if defined $changes;
    there(($want =~ /~/ ? 'commit change; ' : '') . ($then // ':'));
    my $id = $want =~ /~/ ? '\.[0-9a-f]{7}' : '';
    my $own = version($name, $repo, "\Q$want\E$id");
    there("rm -rf ../plain; mkdir ../plain; git archive HEAD | tar -xC ../plain");
    is version("$name, its archive", $t->dir . '/plain', qr/\S+/), $own, '... is the same';
    push @version, $own if $own !~ /\A0\.2\.0~/;
}
is_deeply [ grep { system('dpkg', '--compare-versions', $version[$_], 'lt', $version[ $_ + 1 ]) }
    0 .. $#version - 1 ], [], "each is newer: @version";
there('echo >>tools/version');
version('changed sources', $repo, '0\.4\.0~git\d+\.\w{7}\.changed');
there("git checkout -q .; rm -rf ../plain; cp -r . ../plain; rm -r ../plain/.git");
version('a copy without git', $t->dir . '/plain', '0\.3\.0');
$t->write_file('plain/CHANGELOG.md', "$news- New.\n\n$released");
version('... with news', $t->dir . '/plain', '0\.4\.0~dev');
for my $time ([ '0.3.0~git20260131230600.abcdef0', 1769900760 ], [ '0.3.0', 1769904000 ]) {
    is qx{$repo/tools/version --time $time->[0]}, "$time->[1]\n", "version: the time of $time->[0]";
}

SKIP: {
    skip 'no apt here', 1 if system('command -v apt-get >/dev/null') != 0;
    my %is = (Package => 'platform-identity', Architecture => 'all', Maintainer => 'none',
        Description => 'none');
    my $package = join '', map {"$_: $is{$_}\n"} sort keys %is;
    $t->write_file('apt/status', "${package}Status: install ok installed\nVersion: 0.2.0\n");
    $t->write_file('apt/repo/Packages', "${package}Version: $version[2]\nSize: 1\n"
        . "Filename: ./x.deb\nMD5sum: " . '0' x 32 . "\n");
    my $apt = 'apt-get -qq -o Dir::Etc::sourceparts=/dev/null -o APT::Sandbox::User=""'
        . " -o Dir::Etc::sourcelist=$repo/list -o Debug::NoLocking=1"
        . join '', map {" -o Dir::$_"} "State=$repo/apt", "Cache=$repo/apt",
        'State::status=' . $t->dir . '/apt/status';
    $t->write_file('repo/list', 'deb [trusted=yes] file:' . $t->dir . "/apt/repo ./\n");
    like qx{mkdir -p $repo/apt/lists/partial $repo/apt/archives/partial; $apt update 2>&1;
        $apt -s upgrade 2>&1}, qr/^Inst platform-identity \[0\.2\.0\] \(\Q$version[2]\E /m,
        'apt upgrades the release to a commit after it';
}

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
my $nginx = Platform::Test::Nginx->new(dir => $t->dir, name => 'installed', prefix => $dest,
    conf => $t->dir . '/nginx.conf', pidfile => "$dest/nginx.pid", args => [ '-g', 'daemon off;' ]);
sub placed { system("sed -i 's| /etc/platform-gateway| $etc|; s| /var/| $dest/var/|' $etc/nginx/*.conf") }

placed();
make_path("$dest/var/log/nginx");
my ($accepted, $said) = $nginx->test;
ok $accepted, 'nginx accepts it' or diag $said;

# The key set is kept where the workers may write, and a restart without identity has it.

my $tmpfiles = content('usr/lib/tmpfiles.d/platform-gateway.conf') =~ s{/var/}{$dest/var/}r;
if ($> == 0) {
    system('systemd-tmpfiles', '--create', $t->write_file('platform-gateway.conf', $tmpfiles)) == 0
        or die "systemd-tmpfiles failed\n";
    chmod 0755, $t->dir, $dest;
    $t->write_file('nginx.conf', "user www-data;\n" . $t->read_file('nginx.conf'));
} else {
    make_path((split ' ', $tmpfiles)[1]);
}
my $issuer = $t->issuer(name => 'keys', body => jwks(jwt_key('a')));
my $port = $t->port('gateway');
sub installed (%set) {
    my %is = (HTTP_PORT => $port, METRICS_LISTEN => '127.0.0.1:' . $t->port('metrics'),
        IDENTITY_URL => 'http://127.0.0.1:' . $issuer->port, PLATFORM_REVOCATIONS_ENABLED => 'false',
        PLATFORM_JWT_ISSUER => 'http://issuer.test', %set);
    $t->write_file('dest/etc/platform-gateway/gateway.env', join '', map {"$_=$is{$_}\n"} sort keys %is);
    $t->write_file('dest/etc/platform-gateway/identity.env', 'HTTP_PORT=' . $t->port('face') . "\n");
    is system("$dest/usr/share/platform-gateway/tools/render", '--installed',
        '--sysconfdir', $etc), 0, 'rendered: ' . join ' ', %set;
    placed();
    $t->track($nginx)->start;
}
sub answers ($status, $name) {
    ok eventually(sub { http_get($port, '/api/workspaces/x', headers => [ Authorization =>
        'Bearer ' . jwt_token(branch => jwt_key('a'), iss => 'http://issuer.test') ])->status
            == $status }), $name;
}
my $kept = "$dest/var/cache/platform-gateway/platform-gateway.keys";
installed();
answers(502, 'a token is good, and the service is not there');
ok eventually(sub { -s $kept }), 'the key set is kept';
is +(stat $kept)[2] & 0777, 0600, 'for its owner alone';
is +(stat $kept =~ s{/[^/]+\z}{}r)[2] & 0777, 0750, 'in a directory of the workers' if $> == 0;
$issuer->down;
installed();
answers(502, 'after a restart without identity the token is good');
unlink $kept;
installed();
answers(503, 'control: without the file it is not known');
$issuer->up;
answers(502, 'until identity is back');
installed(GATEWAY_KEY_CACHE => 'off');
unlike content('etc/platform-gateway/nginx/platform-http.conf'), qr/key_cache_file/,
    'it can be switched off';
$t->stop($nginx);
$t->allow(qr/connect\(\) failed/, qr/key set not fetched/);

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
