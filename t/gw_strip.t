# Context headers of a client reach no upstream, on any path, in any
# protocol and spelling; all other headers pass as they came.

use Platform::Test;

my $t = Platform::Test->new;
my $key = jwt_key('a');
$t->issuer(body => jwks($key));
my $upstream = $t->echo_upstream;
$t->echo_protocols;

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
platform_gateway_access public;
location / { %%TO_upstream%% }
location /branch { platform_gateway_access branch; %%TO_upstream%% }
location /renamed {
    platform_gateway_access branch;
    platform_gateway_claim_header account_id X-Who;
    %%TO_upstream%%
}
location /off { platform_gateway off; %%TO_upstream%% }
location /grpc { grpc_pass grpc://127.0.0.1:%%PORT_grpc%%; }
%%ECHO_LOCATIONS%%
SERVER
platform_gateway_strip_header X-Internal;
proxy_http_version 1.1;

server {
    listen 127.0.0.1:%%PORT_lax%%;
    underscores_in_headers on;
    ignore_invalid_headers off;
    platform_gateway on;
    platform_gateway_access public;
    platform_gateway_strip_header X-Also X-More;
    location /grpc { grpc_pass grpc://127.0.0.1:%%PORT_grpc%%; }
    location / { %%TO_upstream%% }
    %%ECHO_LOCATIONS%%
}

server {
    listen 127.0.0.1:%%PORT_plain%%;
    location / { %%TO_upstream%% }
}

# stands for a gRPC service: HTTP/2 to HTTP/1, every header as it came
server {
    listen 127.0.0.1:%%PORT_grpc%% http2;
    underscores_in_headers on;
    ignore_invalid_headers off;
    location / { %%TO_upstream%% }
}
HTTP
my $port = $t->start_gateway;

my @NAMES = qw(X-Account-Id X-Account-Type X-Session-Id X-Token-Type
    X-Token-Scope X-Workspace-Id X-Tenant-Id X-Member-Id X-Active-Branch-Id X-Branch-Ids X-Roles);

# Header lines at an upstream that did not come from nginx itself.
sub passed ($res) {
    my $seen = $res->json;
    my @lines = map {"$_->[0]: $_->[1]"}
        $seen->{headers} ? @{ $seen->{headers} } : @{ $seen->{params} };
    return [ grep { !/^(?:Host|Connection|X-Request-Id|X-Correlation-Id):/i
            && !/^(?:HTTP_(?:HOST|CONNECTION|X_REQUEST_ID|X_CORRELATION_ID)|
                REQUEST_METHOD|CONTENT_LENGTH):/x } @lines ];
}

# Every name in every spelling, to every path.

my @spell = (sub { $_[0] }, sub { lc $_[0] }, sub { uc $_[0] },
    map { my $c = $_; sub { $_[0] =~ s/-/$c/gr } } qw(_ . ~ ! ' * + ^));

for my $server (qw(gateway lax)) {
    my $port = $t->port($server);
    for my $path (qw(/ /off /grpc /fastcgi /scgi /uwsgi)) {
        next if $server eq 'lax' && $path eq '/off';
        my @h = map { my $f = $_; map { $f->($_) => 'spoofed' } @NAMES } @spell;
        # 100 headers at most in one request
        while (my @some = splice @h, 0, 60) {
            my $res = http_get($port, $path,
                headers => [ 'X-First' => '1', @some, 'X-Last' => '2' ]);
            is $res->status, 200, "$server $path";
            my $expect = $path =~ /gi$/ ? [ 'HTTP_X_FIRST: 1', 'HTTP_X_LAST: 2' ]
                : [ 'X-First: 1', 'X-Last: 2' ];
            is_deeply [ map { s/^x-(\w)/X-\u$1/r } @{ passed($res) } ],
                $expect, "$server $path: only the others";
        }
    }
}

is_deeply passed(http_get($t->port('plain'), '/',
    headers => [ 'X-Account-Id' => 'spoofed' ])), ['X-Account-Id: spoofed'],
    'control: a server without the gateway passes them on';
is_deeply passed(http_get($t->port('lax'), '/',
    headers => [ 'X.Other' => '1', X_Other => '2' ])),
    [ 'X.Other: 1', 'X_Other: 2' ], 'control: odd names pass where allowed';

# Also where the location is guarded.

my $res = http_get($port, '/branch', token => jwt_token(branch => $key),
    headers => [ map { ($_ => 'spoofed') } @NAMES ]);
is $res->status, 200, 'guarded';
unlike $res->body, qr/spoofed/, 'guarded: nothing of the client';
is_deeply [ header_values($res->json, 'X-Account-Id') ], [ uuid(1) ],
    'guarded: the verified one, once';

# Names that only look alike, values, order and duplicates stay.

my @like = ('X-Account' => 1, 'X-Account-Ids' => 2, 'XAccountId' => 3, 'X-Account--Id' => 4,
    'X-Account-Id-' => 5, '-X-Account-Id' => 6, 'Account-Id' => 7, 'X-Role' => 8, 'X-Rolesx' => 9,
    'X-Twice' => 'a', 'X-Between' => 'X-Roles', 'X-Twice' => 'b', 'Cookie' => 'X-Roles=1',
    'X-Forwarded-For' => '192.0.2.1', 'User-Agent' => 'test', 'X-Empty' => '');
is_deeply passed(http_get($port, '/', headers => \@like)),
    [ map {"$like[ 2 * $_ ]: $like[ 2 * $_ + 1 ]"} 0 .. $#like / 2 ], 'others pass, in order';

# In lists of any length, which nginx keeps in parts of twenty; check_headers
# has every place.

for my $n (0, 19 .. 21, 45) {
    my @keep = map { ("X-H$_" => $_) } 1 .. $n;
    my @bad = ('X-Roles' => 'spoofed') x 2;
    is_deeply passed(http_get($port, '/', headers => [ @bad, @keep, @bad ])),
        [ map {"X-H$_: $_"} 1 .. $n ], "$n headers";
}

# Nothing but context headers: not even Host (HTTP/1.0), and not even those.

for my $n (0, 1, 20, 60) {
    my $bytes = "GET / HTTP/1.0\r\n" . "X-Roles: spoofed\r\n" x $n . "\r\n";
    my $raw = http_raw($port, $bytes);
    like $raw, qr{^HTTP/1\.1 200 }, "$n context headers and no other";
    unlike $raw, qr/spoofed/, "$n context headers: gone";
    like $raw, qr/"X-Request-Id"/, "$n context headers: the id is added";
}

# Further names.

my @further = ('X-Internal' => 1, 'x-internal' => 2, 'X-Also' => 3, 'X-Who' => 4, 'X-More' => 5);
is_deeply passed(http_get($port, '/', headers => \@further)), [ 'X-Also: 3', 'X-More: 5' ],
    'names of http{}, and of the claim map of any location';
is_deeply passed(http_get($t->port('lax'), '/',
    headers => [ @further, 'x_internal' => 6, 'X.Also' => 7 ])), ['X-Who: 4'],
    'names of http{} and server{} together';

$res = http_get($port, '/renamed', token => jwt_token(branch => $key),
    headers => [ 'X-Who' => 'spoofed', 'X-Roles' => 'spoofed' ]);
is_deeply [ header_values($res->json, 'X-Who') ], [ uuid(1) ],
    'a map of its own: injected under that name';
is_deeply [ header_values($res->json, 'X-Roles') ], [],
    'a map of its own: the default names are stripped all the same';

# Hop-by-hop declarations of a client remove nothing of ours.

$res = http_get($port, '/branch', token => jwt_token(branch => $key),
    connection => 'close, X-Account-Id, X-Roles');
is_deeply [ header_values($res->json, 'X-Account-Id') ], [ uuid(1) ], 'Connection: X-Account-Id';

$t->done;
