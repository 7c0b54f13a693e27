# The guard over every protocol: HTTP/1.0, 1.1 with keepalive and pipelining,
# HTTP/2, WebSocket.  Towards every kind of upstream: gw_access_levels.t.

use List::Util qw(pairmap);
use Platform::Test;

my ($t, $key, undef, $upstream) = Platform::Test->gateway;

# Takes the upgrade, tells what it was asked with, then repeats what it gets.
my $socket = $t->http_server(socket => undef, protocol => sub ($fh, $self, @) {
    $self->read_head($fh) // return;
    syswrite $fh, "HTTP/1.1 101 Switching Protocols\r\n"
        . "Upgrade: websocket\r\nConnection: upgrade\r\n"
        . "Access-Control-Allow-Origin: *\r\n\r\n";
    while (sysread $fh, my $data, 4096) {
        syswrite $fh, "<$data>";
        return if $data =~ /bye/;
    }
});

$t->set(UPGRADE => 'proxy_set_header Upgrade $http_upgrade;');
$t->gateway_conf(<<'SERVER', http => <<'HTTP');
listen 127.0.0.1:%%PORT_h2%% http2;
platform_gateway_access branch;
location /proxy { %%TO_upstream%% }
location /grpc { grpc_pass grpc://127.0.0.1:%%PORT_grpc%%; }
pass /socket to socket: %%UPGRADE%% proxy_http_version 1.1; proxy_set_header Connection upgrade;
location /down { %%TO_nobody%% }
pass /public: platform_gateway_access public;
SERVER
platform_gateway_cors_origins https://app.test;
server { listen 127.0.0.1:%%PORT_grpc%% http2; location / { %%TO_upstream%% } }
HTTP
my $port = $t->start_gateway;
my %token = map { $_ => jwt_token($_ => $key) } qw(account branch);
my @with = (token => $token{branch});

sub connected ($at = $port) { return Platform::Test::Http->new(port => $at) }

sub roles ($request) { return [ header_values($request, 'X-Roles') ] }

my $ROLES = ['manager,cashier'];

# HTTP/1.0; one connection of it, and many requests on one of HTTP/1.1: what one
# brings is not the next's.

my @old = (version => '1.0');
like http_raw($port, "GET /proxy HTTP/1.0\r\n\r\n"),
    qr{\AHTTP/1\.1 401 .*^Content-Length: \d+\r$}ms, '1.0 without Host: refused, with a length';
like http_raw($port, "GET /proxy HTTP/1.0\r\nAuthorization: Bearer $token{branch}\r\n\r\n"),
    qr{\AHTTP/1\.1 200 }, '1.0 without Host: a token';
my $c = connected();
is_problem($c->request(GET => '/proxy', @old), 401, 'GATEWAY_TOKEN_MISSING', '1.0 with keepalive');
is_deeply roles($c->request(GET => '/proxy', @old, @with)->json), $ROLES, 'then let in';

my @body = (body => 'x' x 1000);
$c = connected();
for my $round (1 .. 3) {
    is_deeply [ map { my ($method, $path, @o) = @$_; my $res = $c->request($method, $path, @o);
        $res->status == 200 ? roles($res->json) : $res->status } [ GET => '/proxy', @with ],
        [ GET => '/proxy' ], [ POST => '/public', @body ], [ POST => '/proxy', @body ] ],
        [ $ROLES, 401, [], 401 ], "keepalive $round: each is judged by its own token";
}

my @pipeline = (
    [ GET => '/proxy?1', 200, @with ], [ GET => '/proxy?2', 401 ],
    [ POST => '/proxy?3', 401, body => 'x' x 500 ],
    [ POST => '/proxy?4', 200, @with, body => 'y' x 500 ],
    [ OPTIONS => '/proxy?5', 204 ], [ HEAD => '/proxy?6', 401 ],
    [ HEAD => '/proxy?7', 200, @with ], [ GET => '/public?8', 200 ],
);
$c = connected();
$c->send(join '', map {
    my ($method, $path, undef, @o) = @$_;
    http_request_bytes($method, $path, connection => 'keep-alive', @o);
} @pipeline);
my %id;
for my $case (@pipeline) {
    my ($method, $path, $status) = @$case;

    my $res = $c->read_response(head => $method eq 'HEAD');
    is $res->status, $status, "pipelined: $method $path";
    $id{ $res->header('X-Request-Id') }++;
    is_deeply [ $res->json->{uri}, roles($res->json) ], [ $path, $path =~ /public/ ? [] : $ROLES ],
        "pipelined: $path has its own answer and headers" if $status == 200 && $method ne 'HEAD';
}
is scalar(keys %id), @pipeline, 'pipelined: each with its own id';

# HTTP/2, each with an HTTP/1.1 request beside it in the cases above.

sub curl (@o) {
    open my $fh, '-|', 'curl', '-s', '-i', '-m', 10 * $t->scale,
        '--http2-prior-knowledge', @o or die "curl: $!\n";
    local $/;
    return split /\r\n\r\n/, <$fh> // '', 2;
}

my @bearer = ('-H', "Authorization: Bearer $token{branch}");
my @spoof = map { ('-H', $_) } 'x-account-id: spoofed', 'x-kept: 1', 'x-roles: spoofed',
    'x-request-id: mine';
my @preflight = ('-X', 'OPTIONS', '-H', 'Origin: https://app.test', '-H',
    'Access-Control-Request-Method: GET');
my $PROBLEM = 'content-type: application/problem\+json';

# [name, path, status, what the head and the body have, how it is asked].
for my $case (
    [ 'no token', '/proxy', 401, $PROBLEM, '"code":"GATEWAY_TOKEN_MISSING"' ],
    [ 'no such path', '/nowhere', 404, $PROBLEM, '"code":"GATEWAY_ROUTE_NOT_FOUND"', @bearer ],
    [ 'nobody there', '/down', 502, $PROBLEM, '"code":"GATEWAY_UPSTREAM_UNAVAILABLE"', @bearer ],
    [ 'a token: injected', '/proxy', 200, 'x-request-id: mine',
        '\["X-Roles","manager,cashier"\]', @bearer, @spoof ],
    [ 'others pass', '/proxy', 200, '', '\["x-kept","1"\]', @bearer, @spoof ],
    [ 'a body', '/proxy', 200, '', '"body":"x{3000}"', @bearer, '-d', 'x' x 3000 ],
    [ 'HEAD', '/proxy', 401, '', '\A\z', '-I' ],
    [ 'preflight', '/proxy', 204, 'access-control-allow-origin: https://app', '', @preflight ],
    [ 'to gRPC: a token', '/grpc', 200, '', '', @bearer ],
    [ 'to gRPC: none', '/grpc', 401, '', '' ])
{
    my ($name, $path, $status, $in_head, $in_body, @o) = @$case;
    my ($head, $body) = curl(@o, 'http://127.0.0.1:' . $t->port('h2') . $path);
    like $head, qr{\AHTTP/2 $status .*$in_head}s, "HTTP/2: $name: head";
    like $body // '', qr/$in_body/, "HTTP/2: $name: body";
    unlike $body // '', qr/spoofed/, "HTTP/2: $name: stripped";
}

# Streams of one connection, all open at once, each with its own headers.

sub h2_frame ($type, $flags, $stream, $payload) {
    return substr(pack('N', length $payload), 1) . pack('CCN', $type, $flags, $stream) . $payload;
}

# Literal fields without indexing (RFC 7541, section 6.2.2).
sub h2_text ($text) {
    my $n = length $text;
    return ($n < 127 ? chr $n : pack 'C3', 127, $n - 127 & 127 | 128, $n - 127 >> 7) . $text;
}

$upstream->forget;
$c = connected($t->port('h2'));
$c->send(join '', "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", h2_frame(4, 0, 0, ''), map {
    h2_frame(1, 5, 2 * $_ - 1, join '', pairmap { "\0" . h2_text($a) . h2_text($b) }
        ':method' => 'GET', ':scheme' => 'http', ':authority' => 'localhost',
        $_ % 2 ? (':path' => "/proxy?$_&delay=0.1", authorization => "Bearer $token{branch}")
        : (':path' => "/public?$_"))
} 1 .. 6);
eventually(sub { $upstream->count >= 6 });
my %seen = map { $_->{uri} =~ /(\d+)/ => roles($_) } $upstream->requests;
is_deeply $seen{$_}, $_ % 2 ? $ROLES : [], "HTTP/2: stream $_ has what is its own" for 1 .. 6;

my @upgrade = (connection => 'upgrade', headers => [ Upgrade => 'websocket',
    'Sec-WebSocket-Key' => 'dGhlIHNhbXBsZSBub25jZQ==',
    'Sec-WebSocket-Version' => 13, Origin => 'https://app.test',
    'X-Account-Id' => 'spoofed' ]);
is_problem(http_get($port, '/socket', @upgrade), 401, 'GATEWAY_TOKEN_MISSING',
    'WebSocket, no token');
push @{ $upgrade[-1] }, 'Sec-WebSocket-Protocol' => "bearer, $token{branch}";
is http_get($port, '/socket', @upgrade)->status, 401,
    'WebSocket: a token is taken from Authorization alone';
is $socket->count, 0, 'WebSocket, no token: nobody was asked';

$c = connected();
$c->send(http_request_bytes(GET => '/socket', @upgrade, @with));
my $res = $c->read_response;
is_deeply [ $res->status, lc $res->header('Upgrade'),
    (map { length } $res->header_all('X-Request-Id')),
    $res->header_all('Access-Control-Allow-Origin') ],
    [ 101, 'websocket', 32, 'https://app.test' ], 'WebSocket, a token: upgraded; CORS is ours';
my ($asked) = map { $_->{head} } $socket->requests;
like $asked, qr/^X-Roles: manager,cashier\r$/m, 'WebSocket: injected';
unlike $asked, qr/spoofed/, 'WebSocket: stripped';
for my $say ('one', 'x' x 2000, 'bye') {
    $c->send($say);
    1 while length $c->{buf} < length($say) + 2 && $c->_fill(time + 60);
    is delete $c->{buf}, "<$say>", 'WebSocket: both ways, ' . length($say) . ' bytes';
    $c->{buf} = '';
}
ok $c->closed, 'WebSocket: closed by the upstream';
is $t->logged($res)->{reason}, 'verified', 'WebSocket: logged once it is over';

$t->done;
