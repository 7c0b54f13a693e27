# Settings of the gateway's side: defaults, bad values, each with one line; and
# what the program checks too, both halves take and refuse alike.

use Platform::Test;

use Cwd;    # and what else tools/render needs
use File::Path;
use Getopt::Long;
use List::Util qw(max);

my $t = Platform::Test->new(module => 0);
my $render = $t->root . '/tools/render';

# The program, compiled once: a new perl for each of hundreds of runs is what they
# would cost.
{
    local $SIG{__WARN__} = sub { };    # its own variables are those of the first call
    eval 'package Render; sub run {' . $t->read_file($render) . '} 1' or die $@;
}

# (exit status, what it printed) of rendering one placeholder, in a process of its own.
sub value ($placeholder, %env) {
    my $pid = open(my $fh, '-|') // die "fork: $!\n";
    if ($pid == 0) {
        %ENV = (PATH => $ENV{PATH}, RUN_DIR => '/run/platform', %env);
        open STDERR, '>&', \*STDOUT;
        ($0, @ARGV) = ($render, '--value', $placeholder);
        Render::run();
    }
    my $said = do { local $/; <$fh> } // '';
    close $fh;
    return ($? >> 8, $said);
}

# Defaults, by placeholder.

my %default = (
    GATEWAY_HOST      => '127.0.0.1',
    GATEWAY_PORT      => '8080',
    METRICS_LISTEN    => '127.0.0.1:8083',
    IDENTITY_HOST     => '127.0.0.1',
    IDENTITY_PORT     => '8081',
    IDENTITY_UPSTREAM => 'server unix:/run/platform/identity.sock;',
    IDENTITY_URL      => 'http://127.0.0.1:8081',
    ENTITLEMENT_URL   => 'http://127.0.0.1:8082',
    ISSUER            => 'http://127.0.0.1:8081',
    AUDIENCE          => '',
    CORS_ORIGINS      => 'http://127.0.0.1:8080',
    LOGIN_RATE        => '10r/s',
    LOGIN_BURST       => 'burst=20 nodelay',
    REFRESH_RATE      => '50r/s',
    REFRESH_BURST     => 'burst=100 nodelay',
    ACCESS_LOG        => '/run/platform/logs/platform-access.log platform buffer=64k flush=1s',
    FEED_LOG          => '/run/platform/logs/platform-access.log platform'
        . ' if=$platform_feed_failed buffer=64k flush=1s',
    TRUSTED_PROXIES   => '',
    REVOCATIONS       => 'on',
    REVOCATIONS_STALE => 'pass',
    CLIENTS           => '',
    NO_CLIENTS        => 'on',
    SYSTEM_RATE       => '100r/s',
    SYSTEM_BURST      => 'burst=200 nodelay',
);
for my $name (sort keys %default) {
    my ($status, $said) = value($name);
    is "$status $said", "0 $default{$name}\n", "default of $name";
}

# Values: the variable, the placeholder, then bad ones and good ones.  The
# program checks those marked 1 as well.

my @cases = (
    [ GATEWAY_PORT => 'GATEWAY_PORT', 0, [ '0', '65536', 'x', '80 81' ], [ '1', '65535' ] ],
    [ GATEWAY_HOST => 'GATEWAY_HOST', 0, [ 'a b', 'a;', '256.1.1.1', 'Unix' ],
        [ '0.0.0.0', '[::1]', 'gateway.internal' ] ],
    [ METRICS_LISTEN => 'METRICS_LISTEN', 0,
        [ '0.0.0.0:8083', '[::]:8083', '10.0.0.1:8083', '127.0.0.1', '8083',
            '127.example.com:8083', '127.0.0.1:8083;', 'unix:run/m.sock',
            '127.0.0.1:8080', '127.0.0.2:8081' ],
        [ '127.0.0.2:9', '[::1]:8083', 'unix:/run/m.sock', '/run/m.sock' ] ],
    [ GATEWAY_LISTEN => 'GATEWAY_LISTEN', 0,
        [ ',', ' , ', '8080', '*:8080', '10.0.0.1', '[::]', 'unix:8080',
            'UNIX:8080', '10.0.0.1:80;', 'unix:run/g.sock' ],
        [ '0.0.0.0:80, [::]:80', 'a.example:80', 'unix:/run/g.sock' ] ],
    [ GATEWAY_REDIRECT_LISTEN => 'REDIRECT_LISTEN', 0, [ ',', '80' ], [ '' ] ],
    [ METRICS_SCRAPE_LISTEN => 'SCRAPE_LISTEN', 0, [ ',', '9113' ], [ '' ] ],
    [ GATEWAY_KEY_CACHE => 'KEY_CACHE', 0, [ 'on', 'cache/keys', '/a b', '/a;' ],
        [ 'off', 'OFF', '/var/cache/keys' ] ],
    [ METRICS_SCRAPE_ALLOW => 'SCRAPE_ALLOW', 0, [ ',', 'a', '0.0.0.0/0' ],
        [ '10.0.0.9', '10.0.0.0/8, ::1' ] ],
    [ PLATFORM_ENTITLEMENT_SERVERS => 'ENTITLEMENT_SERVERS', 0, [ ',', 'a' ],
        [ 'a:1', 'a:1, b:2' ] ],
    [ IDENTITY_UPSTREAM => 'IDENTITY_UPSTREAM', 0,
        [ 'x', '/run/a.sock;', '127.0.0.1', '/run/a.sock, host:0', ',' ],
        [ '/run/a.sock', '/run/a.sock 10.0.0.1:9000, [::1]:9000' ] ],
    [ IDENTITY_URL => 'IDENTITY_URL', 0,
        [ 'ftp://a', 'http://', 'a:1', 'http://unix:8081/x', 'https://UNIX:1' ],
        [ 'http://identity:8081', 'https://id.example.com', 'http://unix.a:1/' ] ],
    [ PLATFORM_ENTITLEMENT_URL => 'ENTITLEMENT_URL', 1,
        [ 'x', 'http://a b', 'ftp://a' ], [ 'http://e:1', 'https://e' ] ],
    (map { [ $_->[0], $_->[1], 1, [ 'yes', 'tru' ], [ 'true', '0', 'off' ] ] }
        [ PLATFORM_HTTP_ACCESS_LOG_ENABLED => 'ACCESS_LOG' ],
        [ PLATFORM_REVOCATIONS_ENABLED => 'REVOCATIONS' ]),
    [ PLATFORM_HTTP_ACCESS_LOG_BUFFER => 'ACCESS_LOG', 1,
        [ 'on', '0', '0k', '64', '64K', '1m', '1000k', '64k flush=1h' ], [ '64k', 'off', 'OFF', '999k' ] ],
    [ PLATFORM_REVOCATIONS_STALE => 'REVOCATIONS_STALE', 1,
        [ 'on', 'pass;', 'pass after=1h' ], [ 'pass', 'refuse', 'Refuse' ] ],
    [ PLATFORM_ASSERTION_KEY => 'ASSERTION_KEY', 1, [ 'keys', '/a b', '/a;' ],
        [ '', '/etc/platform-gateway/assertion-keys' ] ],
    [ PLATFORM_SYSTEM_API => 'CLIENTS', 1, [ 'on', 'faces' ], [ 'face', 'gateway', 'off', 'Off' ] ],
    [ PLATFORM_LOGIN_RATE_LIMIT => 'LOGIN_RATE', 1,
        [ 'fast', '0r/s', '10', '10r/h', '10r/s burst', '10r/s burst x' ],
        [ 'off', '10r/s', '600r/m', '10r/s burst 20', '1r/s burst 0' ] ],
    [ PLATFORM_SYSTEM_RATE_LIMIT => 'SYSTEM_RATE', 1, [ 'x', '-1r/s' ], [ 'off', '5r/s burst 5' ] ],
    [ PLATFORM_REFRESH_RATE_LIMIT => 'REFRESH_RATE', 1, [ 'x', '-1r/s' ],
        [ 'off', '5r/s burst 5' ] ],
    [ PLATFORM_TRUSTED_PROXIES => 'TRUSTED_PROXIES', 1,
        [ '0.0.0.0/0', '::/0', '10.0.0.0/33', 'proxy', '10.0.0.1;', '10.0.0',
            '10.0.0.1, 0.0.0.0/0', '2001:db8::/129', ',', ' ' ],
        [ '10.0.0.1', '10.0.0.0/8', '10.0.0.1, 2001:db8::/32', '::1' ] ],
    [ PLATFORM_CORS_ALLOWED_HEADERS => 'CORS_HEADERS', 1,
        [ '*', 'X-A;', 'X-A: b', 'X"', 'X-A {', "X-\xc3\xa9", ', ' ],
        [ 'X-A', 'X-A X-B', 'x_a, X-2' ] ],
    [ PLATFORM_CORS_ALLOWED_ORIGINS => 'CORS_ORIGINS', 1,
        [ '*', 'null', 'https://a/path', 'a.example', 'https://a, https://b',
            'https://*.example', 'https://a.example.', 'https://a..example',
            'https://a.*.example', 'https://*.[::1]', 'https://a.example:0', ' ' ],
        [ 'https://a.example', 'http://127.0.0.1:3000 https://*.b.example',
            'https://a_b.example', 'https://A.Example:443', 'http://[::1]:8080' ] ],
    [ PLATFORM_PUBLIC_ORIGINS => 'PROOF_ORIGINS', 1,
        [ '*', 'https://a/', 'https://*.a.example', 'a.example', 'https://a, https://b', ' ' ],
        [ 'https://a.example', 'http://127.0.0.1:8080 https://A.Example:443', 'http://[::1]' ] ],
    [ PLATFORM_JWT_ISSUER => 'ISSUER', 1, [ 'two words', 'a"b' ],
        [ 'http://issuer', 'urn:example:issuer', '#issuer' ] ],
    [ PLATFORM_JWT_AUDIENCE => 'AUDIENCE', 1, [ 'two words', 'a"b' ],
        [ 'https://api.example.com', 'orders', '#orders', '' ] ],
);
for my $case (@cases) {
    my ($name, $placeholder, $both, $bad, $good) = @$case;
    my @refused = (qr/\A2 render: \Q$name\E [^\n]+; accepted: [^\n]+\n\z/,
        qr/\A2  identity-fcgi: \Q$name\E: [^\n]+\n\z/);
    for my $row ((map { [ $_, 'refused', @refused ] } @$bad),
        map { [ $_, 'accepted', (qr/\A0 /) x 2 ] } @$good)
    {
        my ($value, $what, $rendered, $checked) = @$row;
        like join(' ', value($placeholder, $name => $value)), $rendered, "$name=$value: $what";
        like join(' ', $t->run_identity(['--check'], $name => $value)), $checked,
            "$name=$value: by the program too" if $both && $what eq 'refused';
    }
}

# The log in a pipe: not more than the kernel writes whole.

for my $case (
    [ '/dev/stdout', '', '0 /dev/stdout platform buffer=4k flush=1s' ],
    [ '/dev/stdout', '4k', '0 /dev/stdout platform buffer=4k flush=1s' ],
    [ '/dev/stdout', 'off', '0 /dev/stdout platform' ],
    (map { [ $_, '5k', '2 render: PLATFORM_HTTP_ACCESS_LOG_BUFFER is 5k, too large for the pipe'
        . " $_; accepted: up to 4k" ] } qw(/dev/stdout //dev/stderr /dev/fd/3 /proc/self/fd/1)),
    [ '/dev/shm/log', '5k', '0 /dev/shm/log platform buffer=5k flush=1s' ])
{
    my ($log, $buffer, $want) = @$case;
    is join(' ', value('ACCESS_LOG', GATEWAY_ACCESS_LOG => $log,
        PLATFORM_HTTP_ACCESS_LOG_BUFFER => $buffer)), "$want\n", "$log, buffer '$buffer'";
}

# The program takes the good values of all of them at once, and knows the gateway's other
# names: one file may have the settings of both.

my %names = map { $_ => '' } $t->read_file($render) =~ /\b(PLATFORM_[A-Z_]+)\b/g;
ok exists $names{PLATFORM_REVOCATIONS_ENABLED}, 'names of settings';
@names{qw(PLATFORM_ENTITLEMENT_SERVERS PLATFORM_ENTITLEMENT_CONNECT_TIMEOUT
    PLATFORM_ENTITLEMENT_TIMEOUT)} = ('a:1', '1s', '1s');
for my $row (0 .. max(map { $#{ $_->[4] } } @cases)) {
    my %set = map { ($_->[0] => $_->[4][ $row % @{ $_->[4] } ]) } grep { $_->[2] } @cases;
    my ($status, undef, $err) = $t->run_identity(['--check'], %names, %set);
    is_deeply [ $status, $err =~ /no such setting/ ], [0], "the program accepts: @set{sort keys %set}"
        or diag $err;
}

# The local listener and the others: no port of theirs, however written, nor a
# socket.

my $own = '127.0.0.1:21103';
my %scrape = (METRICS_SCRAPE_ALLOW => '10.0.0.9');
my %tls = (GATEWAY_TLS_CERTIFICATE => '/c', GATEWAY_TLS_CERTIFICATE_KEY => '/k',
    GATEWAY_HTTP2 => 'off');
my @beside = (
    (map { [ 1, $own, GATEWAY_LISTEN => $_ ] } $own, '0.0.0.0:21103',
        '[::]:21103', '[::1]:21103', '[::ffff:127.0.0.1]:21103', '10.0.0.1:21103',
        'localhost:21103', '127.0.0.1:1, 127.0.0.2:21103'),
    [ 1, '[::1]:21103', GATEWAY_LISTEN => $own ],
    [ 1, $own, GATEWAY_LISTEN => '0.0.0.0:21103', %tls ],
    [ 1, $own, GATEWAY_LISTEN => $own, GATEWAY_REAL_IP_HEADER => 'proxy_protocol' ],
    [ 1, $own, GATEWAY_PORT => 21103 ],
    [ 1, '', GATEWAY_PORT => 8083 ], [ 1, '', GATEWAY_LISTEN => '[::]:8083' ],
    [ 1, $own, GATEWAY_REDIRECT_LISTEN => '0.0.0.0:21103', %tls ],
    [ 1, $own, METRICS_SCRAPE_LISTEN => '10.0.0.1:21103', %scrape ],
    [ 1, $own, IDENTITY_HOST => '10.0.0.1', IDENTITY_PORT => 21103 ],
    [ 1, $own, IDENTITY_LISTEN => $own ],
    (map { [ 1, 'unix:/run/m.sock', GATEWAY_LISTEN => $_ ] } '/run/m.sock',
        'unix:/run/m.sock', '/run//m.sock', '/run/./m.sock'),
    [ 1, '/run/m.sock', IDENTITY_LISTEN => 'unix:/run/m.sock' ],
    (map { [ 0, $own, GATEWAY_LISTEN => $_ ] } '127.0.0.1:21104', '[::]:2110',
        '0.0.0.0:1103', 'unix:/run/21103'),
    [ 0, '127.0.0.1:1103', GATEWAY_LISTEN => '[fe80::1103]:80' ],
    [ 0, '127.0.0.1:8080', GATEWAY_LISTEN => '0.0.0.0:443' ],
    [ 0, '/run/m.sock', GATEWAY_LISTEN => '/run/m.sock2, /x/run/m.sock' ],
    [ 0, $own, METRICS_SCRAPE_LISTEN => '10.0.0.1:21104', %scrape ],
);
for my $case (@beside) {
    my ($refused, $listen, @others) = @$case;
    my ($status, $said) = value(METRICS_LISTEN => METRICS_LISTEN => $listen, @others);
    like "$status $said", $refused ? qr/\A2 render: METRICS_LISTEN has the port or socket/
        : qr/\A0 /, "metrics at $listen beside @others[0, 1]";
}

# No value ends or comments out the line of a template that it stands in.

for my $name (grep { !/\ANGINX\z/ } split /\n/, qx{$render --settings}) {
    for my $value ('#x', 'x;y', '"x', '$x') {
        next if $value eq '#x' && $name =~ /_JWT_/;    # these stand in quotes
        my ($status, $said) = value(GATEWAY_HOST => %tls, %scrape,
            METRICS_SCRAPE_LISTEN => '10.0.0.1:1',
            (map { ($_ => $value) } $name =~ s/\AHTTP_/GATEWAY_/r));
        like "$status $said", qr/\A2 render: /, "$name=$value: refused";
    }
}

my (undef, undef, $said) = $t->run_identity(['--check'], PLATFORM_OTHER => 'on');
like $said, qr/PLATFORM_OTHER: no such setting, ignored/, 'another is not';

# The program's defaults, all of them: as docs/configuration.md has them, and
# what it says in words.

my %env = map { $_ => undef } keys %{ $t->identity_env };
my $printed = sub {
    my ($status, $out) = $t->run_identity(['--print-config'], %env, @_);
    return { $out =~ /^(\w+)=(.*)$/mg };
};
my $page = $t->read_file($t->root . '/docs/configuration.md');
my %default_of;
while ($page =~ /^\| ([A-Z][A-Z0-9_, ]+) \| ([^|]*) \|/mg) {
    my ($names, $said) = ($1, $2);
    $default_of{$_} = $said for split /, /, $names;
}
chomp(my $cores = `getconf _NPROCESSORS_ONLN`);
my %in_words = (
    HTTP_HOST => '127.0.0.1', HTTP_PORT => '8081', PLATFORM_AUTH_COOKIE_SECURE => 'true',
    PLATFORM_DB_MIGRATE_ON_START => 'false', PLATFORM_DB_SEED_ON_START => 'false',
    PLATFORM_AUTH_REFRESH_RETRY_WINDOW => '0', PLATFORM_AUTH_ARGON2_MEMORY_KIB => '19456',
    PLATFORM_AUTH_ARGON2_ITERATIONS => '2', PLATFORM_DB_POOL_SIZE => '16',
    PLATFORM_AUTH_HASH_CONCURRENCY => $cores > 2 ? $cores - 1 : 1,
);
my $got = $printed->();
cmp_ok scalar keys %$got, '>=', 55, 'settings';
is_deeply $got, { map {
    my $said = $in_words{$_} // $default_of{$_} // 'none';
    $_ => $said =~ /\A(?:none|empty|the|libpq's|`make|descriptor)\b/ || $said =~ /\A`/
        ? '(unset)' : "$said (default)";
} keys %$got }, 'every default is that of the page';
$got = $printed->(APP_ENV => 'local');
is_deeply [ @$got{map {"PLATFORM_$_"} qw(DB_MIGRATE_ON_START
    DB_SEED_ON_START AUTH_COOKIE_SECURE CORS_ALLOWED_ORIGINS)} ],
    [ map {"$_ (default)"} 'true', 'true', 'false', 'http://127.0.0.1:8080' ],
    'those that differ locally';
$got = $printed->(APP_ENV => 'local', PLATFORM_WORKER_THREADS => 5,
    PLATFORM_DB_MIGRATE_ON_START => 'off');
is_deeply [ @$got{qw(PLATFORM_DB_POOL_SIZE PLATFORM_DB_SEED_ON_START)} ],
    [ '5 (default)', 'false (default)' ], 'those that follow from others';

$t->done;
