# docs/from-0.x.md: its commands find each row of its table, and nothing where all is well.

use Platform::Test;
use Platform::Test::Page qw(steps);

my $t = Platform::Test->new(module => 0);
my ($root, $dir) = ($t->root, $t->dir);
my $page = "$root/docs/from-0.x.md";
my ($look) = map { $_->[0] } steps($page, 'Look');
$look =~ s{(?<=[ =])/(?=etc|var)}{$dir/}g;
my @rows = $t->read_file($page) =~ /^\| ([a-z-]+(?: [a-z]+)?) \| (?:0|1)\./mg;

# [file, its line as it may stay, the line that is found]
my ($etc, $conf) = qw(etc/platform-gateway etc/nginx/conf.d/own.conf);
my %case = (
    'client variable' => [ "$etc/http.d/a.conf",
        'limit_req_zone $platform_client_network zone=z:1m rate=1r/s;',
        'limit_req_zone $platform_client zone=z:1m rate=1r/s;' ],
    'dollar' => [ "$etc/routes.d/a.conf", 'platform_gateway_require scope a;',
        'platform_gateway_require price $5;' ],
    'regular expression' => [ $conf, 'location = /_keys {', 'location ~ ^/_keys$ {' ],
    'own nginx' => [ $conf, 'fastcgi_pass php;', 'fastcgi_pass unix:/run/identity.sock;' ],
    'log buffer' => [ "$etc/routes.d/b.conf", 'access_log /var/log/nginx/own.log;',
        'access_log /var/log/nginx/platform-access.log platform;' ],
    'assertion header' => [ $conf, 'proxy_set_header X-Other 1;',
        'proxy_set_header X-Platform-Assertion 1;' ],
    'forward-auth list' => [ 'etc/caddy/Caddyfile', 'copy_headers X-Other',
        'copy_headers X-Account-Id' ],
    'reason' => [ 'etc/prometheus/a.yml', 'reason="preflight_header_forbidden"',
        'reason="preflight_forbidden"' ],
    'strict path' => [ 'var/log/nginx/platform-access.log', '{"path":"/a/b?c=;"}',
        '{"path":"/a//b"}' ],
    'audience' => [ "$etc/identity.env",
        "PLATFORM_JWT_ISSUER=https://id.test\nPLATFORM_JWT_AUDIENCE=api",
        "PLATFORM_JWT_ISSUER=https://id.test\nPLATFORM_JWT_AUDIENCE=https://id.test" ],
);
is_deeply [ sort @rows ], [ sort keys %case ], 'each row has a case';

# What the commands print of the lines of all cases, but one.
sub said ($wrong = '') {
    my %text;
    for my $row (sort keys %case) {
        my ($file, @lines) = @{ $case{$row} };
        $text{$file} .= $lines[ $row eq $wrong ] . "\n";
    }
    $t->write_file($_, $text{$_}) for sort keys %text;
    return scalar qx{sudo() { "\$\@"; }\n$look};
}

is said(), '', 'where all is well, nothing is found';
like said($_), qr{\A\Q$dir/$case{$_}[0]\E:\d+: $_\n\z}, "$_: its place is found" for @rows;

$t->done;
