# make run: starts everything in the foreground, says where, stops in order;
# what is in its way is told in one line and leaves nothing running.

use Platform::Test;

use Digest::MD5 qw(md5_hex);
use IO::Socket::INET;
use IO::Socket::UNIX;

Platform::Test::Env::plain('make run has no sanitizer mode');

my $t = Platform::Test->new;
my $run = $t->dir . '/run';
my %ports = map { (uc($_) . '_PORT' => $t->port($_)) } qw(gateway identity stub playground);
my $metrics = '127.0.0.1:' . $t->port('metrics');

# As a shell would: a process group that Ctrl-C reaches.
sub start { return $t->make_run($t->root, @_) }

# Ends it by a signal; nothing is left.
sub ends ($p, $signal, $pid, $name) {
    kill $signal, $pid;
    ok $p->wait_end(90), "$name: ends";
    is_deeply [holders()], [], "$name: nothing left";
}

sub said { my ($p) = @_; return $t->read_file($p->name . '.log') // '' }

# Processes that have a file of the run directory open.
sub holders {
    my @found;
    for my $fd (glob '/proc/[0-9]*/fd/*') {
        my $file = readlink $fd // next;
        push @found, $fd =~ m{/proc/(\d+)/} if index($file, "$run/") == 0;
    }
    my %seen;
    return grep { !$seen{$_}++ } @found;
}

# Returns the answer to a login.
sub is_ready ($p, $name) {
    $t->run_ready($p, $name);
    my $res;    # a hash may take longer than a request on a busy machine
    eventually(sub {
        $res = http_post($t->port('gateway'), '/api/auth/login', json => {
            account => 'one@demo.test', credential => 'Demo-passw0rd!' });
        return $res->status != 503;
    });
    is $res->status, 200, "$name: login";
    return $res;
}

# Starts, says where, works.

my $p = start();
my $res = is_ready($p, 'first');
my $text = said($p);
my $name = "localhost:$ports{PLAYGROUND_PORT}";
my $page = "http://$name";
like $text, $_, "says $_" for qr/several\@demo\.test/, qr/Demo-passw0rd!/,
    qr{^  playground +\Q$page\E }m,
    map {qr{http://@{[ /GATEWAY/ ? 'localhost' : '127.0.0.1' ]}:$ports{$_}\b}}
        qw(GATEWAY_PORT IDENTITY_PORT STUB_PORT);
my ($url) = $text =~ m{^  metrics +(http://\Q$metrics\E/\S+)$}m;
like `curl -s $url`, qr/^platform_gateway_key_set_keys 1$/m, 'says where metrics are';

sub curl_line ($text) {
    my ($curl) = $text =~ /^(\s*curl (?:.*\\\n)*.*)/m;
    return scalar `$curl 2>&1`;
}

like curl_line($text), qr/AUTH_LOGIN_SUCCESS/, 'the curl line works as printed';

# The playground: another origin than the gateway's, which the gateway knows, and
# which alone gets explanations.

my @there = ($t->port('playground'));
my $got = http_get(@there, '/', host => $name);
is $got->status, 200, 'playground: the page';
like $got->header('Content-Security-Policy'),
    qr{^default-src 'none'; script-src 'self'; .*\bconnect-src 'self' http://localhost:$ports{GATEWAY_PORT};},
    'playground: it runs its own script, and calls the gateway alone';
unlike $got->body, qr{<script>|<style|\son\w+=|\sstyle=|\b(?:src|href|action)=\S{0,8}//}i,
    'playground: nothing inline, nothing from elsewhere';
my $build = Platform::Test::Env::build() =~ s{\A\Q@{[ $t->root ]}\E/}{}r;
is_deeply(http_get(@there, '/settings.json', host => $name)->json,
    { gateway => "http://localhost:$ports{GATEWAY_PORT}",
        identity => "$build/identity-fcgi/identity-fcgi --env-file $run/platform.env",
        passkeys => 'localhost' },
    'playground: it is told where the gateway is, how commands begin, and whose passkeys there are');
like $t->read_file("$run/platform.env"),
    qr/^PLATFORM_WEBAUTHN_ORIGINS="http:\/\/localhost:$ports{GATEWAY_PORT} \Q$page\E"$/m,
    'playground: it may use them';
is http_get(@there, '/', host => '127.0.0.1')->header('Location'), "$page/",
    'playground: it has one name';
is http_post($t->port('gateway'), '/api/auth/login', headers => [ Origin => $_ ],
    json => {})->header('Access-Control-Allow-Origin'), /localhost/ ? $_ : undef,
    "playground: the gateway's CORS for $_"
    for $page, "http://localhost:$ports{GATEWAY_PORT}", 'http://127.0.0.1:1';
for ([ 'itself', 1, Origin => $page ],
    [ 'another page', 0, Origin => 'http://127.0.0.1:1' ], [ 'no page', 0 ])
{
    my ($who, $ok, @headers) = @$_;
    my %o = (host => $name, headers => \@headers, json => { path => '/x' });
    my $explained = http_post(@there, '/explain', %o);
    is $explained->status, $ok ? 200 : 403, "playground: explains to $who";
    is $explained->json->{reason}, 'route_not_found', 'playground: and says why' if $ok;
    is http_post(@there, '/relay', %o)->status, $ok ? 401 : 403, "playground: calls for $who";
}

ok eventually(sub { -s "$run/cache/keys" }), 'the key set is kept for a start without identity';
ok -s "$run/platform.env", 'platform.env holds the environment';
is_deeply [ grep { ((stat "$run/$_")[2] // 077) & 077 } qw(platform.env keys.env factors.env logs
    logs/identity.log logs/postgres.log) ], [], 'for its owner alone, as are keys and logs';
my $kid = (jwt_decode($res->json->{accessToken}))[0]{kid};
is http_post($t->port('gateway'), '/api/auth/factors', token => $res->json->{accessToken},
    json => { type => 'totp' })->status, 201, 'authenticators can be added';
my $factors = $t->read_file("$run/factors.env");

# A second one beside it.

my $second = start();
ok $second->wait_end(90), 'second: ends';
isnt $second->status, 0, 'second: with an error';
like said($second), qr/already running/, 'second: says why';
is http_get($t->port('gateway'), '/readyz')->status, 200, 'second: the first one goes on';

# Ctrl-C.

ends($p, 'INT', -$p->pid, 'Ctrl-C');
like said($p), qr/^Stopped\.$/m, 'Ctrl-C: says so';

# Again, and SIGTERM to the script alone.

$p = start(PLATFORM_CORS_ALLOWED_ORIGINS => 'http://127.0.0.1:1', GATEWAYPORT => 1);
$res = is_ready($p, 'again');
is $t->read_file("$run/factors.env"), $factors, 'again: the key of their secrets is kept';
like said($p), qr/^run: warning: GATEWAYPORT is no setting; did you mean GATEWAY_PORT\?$/m,
    'again: warns of a name in the environment that is nearly a setting';
is http_get($t->port('gateway'), '/readyz', headers => [ Origin => $_ ])
    ->header('Access-Control-Allow-Origin'), $_,
    "again: an origin of one's own beside the playground's: $_"
    for $page, 'http://127.0.0.1:1';
is((jwt_decode($res->json->{accessToken}))[0]{kid}, $kid, 'again: with the same key');
my $refresh = $res->json->{refreshToken};

sub script { return (($t->read_file('run/run.pid') // '') =~ /(\d+)/)[0] }

ends($p, 'TERM', script(), 'SIGTERM');

# kill -9 of everything, then again, with a socket that a killed nginx left.

$p = start();
is_ready($p, 'before kill -9');
my @all = holders();
cmp_ok scalar @all, '>=', 4, 'kill -9: of ' . scalar(@all) . ' processes';
kill 'KILL', -$p->pid, @all;
ok $p->wait_end(60), 'kill -9: gone';
ok eventually(sub { !holders() }), 'kill -9: all of them';
my $socket = "$run/metrics.sock";
close(IO::Socket::UNIX->new(Local => $socket, Listen => 1) // die "$socket: $!\n");
ok -S $socket, 'kill -9: a socket is left';
$p = start(METRICS_LISTEN => "unix:$socket");
$res = is_ready($p, 'after kill -9');
like `curl -s --unix-socket $socket http://localhost/internal/metrics`,
    qr/^platform_gateway_key_set_keys 1$/m, 'after kill -9: metrics by a socket';
is http_post($t->port('gateway'), '/api/auth/refresh',
    json => { refreshToken => $refresh })->status, 200,
    'after kill -9: sessions are kept';

# kill -9 of the script alone.

kill 'KILL', script();
$p->wait_end(60);
my $given = jwt_key('given');
my $secret = $given->private_base64;
$p = start(PLATFORM_JWT_KEY_ID => $given->kid, PLATFORM_JWT_PRIVATE_KEY_BASE64 => $secret,
    PLATFORM_JWT_PUBLIC_KEY_BASE64  => $given->public_base64);
$res = is_ready($p, 'after kill -9 of the script');

# A key that is given by the environment is there for one program alone, which
# takes it away.

is((jwt_decode($res->json->{accessToken}))[0]{kid}, $given->kid, 'the given key signs');
sub content { return $t->read_file($_[0]) // '' }

my %knows;
for my $pid (holders()) {
    my $name = content("/proc/$pid/comm") =~ s/\n//r;
    $knows{$name} ||= index(content("/proc/$pid/environ"), $secret) >= 0;
}
my @servers = qw(identity-fcgi nginx postgres);
is_deeply [ map {"$_ $knows{$_}"} @servers ], [ map {"$_ "} @servers ],
    'no server has it in its environment' or diag explain \%knows;
is_deeply [ grep { index(content($_), $secret) >= 0 } glob "$run/nginx/* $run/logs/*" ], [],
    'nor does it stand in nginx\'s configuration or a log';
cmp_ok index(content("$run/platform.env"), substr $secret, 0, 40), '>=', 0,
    'but in the environment in use';

# The database ends beneath it: one line more, nothing left running.

sub is_one_line ($p, $text, $pattern, $name) {
    my @lines = grep { !/^make(?:\[\d+\])?: / } split /\n/, $text;
    isnt $p->status, 0, "$name: with an error";
    is scalar @lines, 1, "$name: in one line" or diag said($p);
    like $lines[-1] // '', $pattern, "$name: that says why";
}

my $before = said($p);
my ($postmaster) = ($t->read_file('run/db/data/postmaster.pid')
        // die "the cluster is not in $run\n") =~ /^(\d+)/;
ends($p, 'INT', $postmaster, 'database stopped');
is_one_line($p, substr(said($p), length $before), qr/PostgreSQL ended.*postgres\.log/,
    'database stopped');

# A gateway behind a proxy that speaks the PROXY protocol: it is asked in that.

$p = start(GATEWAY_REAL_IP_HEADER => 'proxy_protocol');
like curl_line($t->run_ready($p, 'proxy_protocol')), qr/AUTH_LOGIN_SUCCESS|AUTH_BUSY/,
    'proxy_protocol: the curl line works as printed' or diag said($p);
is http_raw($t->port('gateway'), "GET / HTTP/1.0\r\n\r\n"), '',
    'proxy_protocol: and nothing else does';
ends($p, 'INT', -$p->pid, 'proxy_protocol: Ctrl-C');

# In its way: one line, an error, nothing left running.

sub refused ($name, $pattern, %set) {
    my $p = start(%set);
    ok $p->wait_end(60), "$name: ends";
    is_one_line($p, said($p), $pattern, $name);
    is_deeply [holders()], [], "$name: nothing left";
}

{
    my $port = $t->port('taken');
    my $taken = Platform::Test::Port::listener($port);
    # The playground has the name of the gateway.
    refused("$_ in use", /PLAYGROUND/ ? qr/:$port: .*in use, choose another by $_=\.\.\.$/
        : qr/:$port: .*in use, choose another by \w+_HOST=\.\.\. or $_=\.\.\.$/, $_ => $port)
        for sort keys %ports;
    refused('METRICS_LISTEN in use', qr/\b$port\b.*in use.*METRICS_LISTEN=/,
        METRICS_LISTEN => "127.0.0.1:$port");
    my $too = $t->port('taken too');
    my $second = Platform::Test::Port::listener($too);
    refused('two in use', qr/:$port: .*IDENTITY_PORT=.*; .*:$too: .*STUB_PORT=/,
        IDENTITY_PORT => $port, STUB_PORT => $too);
}
refused(@$_) for [ 'a broken TTL', qr/PLATFORM_JWT_ACCESS_TOKEN_TTL/,
        PLATFORM_JWT_ACCESS_TOKEN_TTL => 'soon' ],
    [ 'a broken key', qr/PLATFORM_JWT_PRIVATE_KEY_BASE64/,
        PLATFORM_JWT_KEY_ID => 'x', PLATFORM_JWT_PRIVATE_KEY_BASE64 => 'c2VjcmV0',
        PLATFORM_JWT_PUBLIC_KEY_BASE64 => jwt_key('a')->public_base64 ],
    [ 'no port', qr/GATEWAY_PORT=eighty is no port/, GATEWAY_PORT => 'eighty' ],
    [ 'one port twice', qr/STUB_PORT=8080 is GATEWAY_PORT's/,
        GATEWAY_PORT => 8080, STUB_PORT => 8080 ],
    [ 'a listener elsewhere', qr/GATEWAY_LISTEN has no port \d+, where/,
        GATEWAY_LISTEN => '127.0.0.1:1' ],
    [ 'metrics where the playground is', qr/METRICS_LISTEN has the port or socket of another/,
        METRICS_LISTEN => "127.0.0.1:$ports{PLAYGROUND_PORT}" ];
refused("make run $_->[0]", qr/$_->[1]$/, args => [$_->[0]]) for
    ['GATEWAY_PROT=1', 'GATEWAY_PROT is no setting; did you mean GATEWAY_PORT\?'],
    ['RUN_DRI=x', 'RUN_DRI is no setting; did you mean RUN_DIR\?'],
    ['GATEWAYPORT=1', 'GATEWAYPORT is no setting; did you mean GATEWAY_PORT\?'],
    ['STUB_OF_ANOTHER=x', 'STUB_OF_ANOTHER is no setting; docs/configuration.md lists them'];
refused('a service that no name server knows',
    qr/refuses its configuration: host not found in upstream "nohost\.invalid:99" in \S+:\d+$/,
    PLATFORM_ENTITLEMENT_URL => 'http://nohost.invalid:99');
$t->allow(qr/host not found in upstream/);

# Where the servers' user cannot enter RUN_DIR, they get a directory that root
# writes to: it has to be root's own, or a link in it leads root elsewhere.

SKIP: {
    my $user = Platform::Test::Env::unprivileged()
        // skip 'only root starts servers as somebody else', 8;
    my $closed = $t->dir . '/closed';
    my $victim = $t->dir . '/victim';
    mkdir $_, 0700 for $closed, $victim;
    my $dir = '/var/tmp/platform-gateway-' . substr md5_hex("$closed/run"), 0, 8;
    mkdir $dir, 0755 or die "$dir: $!\n";
    symlink $victim, "$dir/db";
    chown +(getpwnam $user)[2, 3], $dir;
    my @how = (RUN_USER => $user, RUN_DIR => "$closed/run");
    refused('a directory of another', qr/\Q$dir\E exists and is not root's alone/, @how);
    is +(stat $victim)[4], 0, 'and what it leads to is left alone';
    unlink "$dir/db";
    chown 0, 0, $dir;
    my $p = start(@how, PLATFORM_JWT_ACCESS_TOKEN_TTL => 'soon');
    ok $p->wait_end(60), 'a directory of root: ends';
    like said($p), qr/are in \Q$dir\E\n.*PLATFORM_JWT_ACCESS_TOKEN_TTL/ms,
        'a directory of root: it is used';
    system 'rm', '-rf', $dir;
}

# The signing key, on its way to keys.env: a stand-in looks at where it goes.

{
    my ($build, $stand_in) = (Platform::Test::Env::build(), 'stand-in');
    my $module = 'ngx_http_platform_gateway_module.so';
    my $seen = $t->dir . '/seen';
    my $program = $t->write_file("$stand_in/identity-fcgi/identity-fcgi",
        qq(#!/bin/sh\necho "\$* \$(readlink /proc/\$\$/fd/1)" >$seen\nexit 1\n));
    chmod 0755, $program;
    symlink "$build/$module", $t->dir . "/$stand_in/$module";
    my $p = start(cmd => ['tools/run'], BUILD => $t->dir . "/$stand_in",
        RUN_DIR => $t->dir . '/run-stand-in');
    ok $p->wait_end(90), 'keys: the stand-in was run';
    like $t->read_file('seen'), qr/\Akeys generate pipe:/, 'keys: in no file on their way';
}

$t->done;
