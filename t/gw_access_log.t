# The access log: one JSON object a request, of known members in a known
# order, valid whatever bytes the client sent, with no secret in it.  And what
# error_log at the level debug says of each decision, without a token.

use Encode ();
use JSON::PP;
use Platform::Test;
use Platform::Test::Clock;
use POSIX qw(strftime);

my ($t, $key, undef, $upstream) = Platform::Test->gateway;

my $nginx = $t->gateway_conf(<<'SERVER', buffers => '2 4k', http => <<'HTTP');
listen unix:%%DIR%%/socket;
platform_gateway_cors_origins https://app.example.com;
location = /network { platform_gateway_access public; return 200 $platform_client_network; }
error_log %%DIR%%/debug.log debug;
location / { platform_gateway_access public; platform_gateway_route_not_found; }
pass /public: platform_gateway_access public; platform_gateway_route public-route public-service;
pass /branch: platform_gateway_access branch; platform_gateway_methods GET;
    platform_gateway_route branch-route branch-service;
    access_log %%DIR%%/nginx.access.log platform;
    access_log %%DIR%%/variables.log variables;
location /two {
    platform_gateway_access account system; platform_gateway_route two; proxy_pass http://two;
}
pass /shadow: platform_gateway_access branch; platform_gateway_shadow on;
pass /down to nobody: platform_gateway_access public;
pass /limited: platform_gateway_access public; limit_req zone=one;
pass /page: platform_gateway_access branch; error_page 401 = @page;
pass @page: platform_gateway_access public;
SERVER
log_format variables '$platform_request_id|$platform_correlation_id|$platform_trace_id|$platform_route_id|$platform_service_name|$platform_access|$platform_decision|$platform_reason|$platform_account_id|$platform_session_id|$platform_workspace_id';
platform_gateway_token_max_size 4000;
limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m; limit_req_status 429;
client_max_body_size 100;
lingering_timeout 100ms;
upstream two { server 127.0.0.1:%%PORT_nobody%%; server 127.0.0.1:%%PORT_upstream%% backup; }
HTTP
my $clock = Platform::Test::Clock->new($t, $nginx);
my $port = $t->start_gateway;

# The client's network, which limits count by; by a Unix socket there is none.

is http_get($port, '/network')->body, pack('C4', 127, 0, 0, 1), 'an IPv4 client is its address';
is qx{curl -s -m 60 --unix-socket @{[ $t->dir ]}/socket http://localhost/network}, 'unix:',
    'and one of a Unix socket is all of them';

my @MEMBERS = qw(time requestId correlationId traceId clientIp method path status bytes durationMs
    routeId serviceName access decision reason accountId sessionId workspaceId upstreamAddr
    upstreamStatus upstreamDurationMs userAgent);
my $seen = 0;

# The one line that a request wrote, decoded.
sub entry ($name) {
    my $log;
    eventually(sub { ($log = substr $nginx->access_log, $seen) =~ /\n\z/ });
    $seen += length $log;
    my $entry = eval {
        JSON::PP->new->decode(Encode::decode('UTF-8', $log, Encode::FB_CROAK | Encode::LEAVE_SRC));
    };
    is $@, '', "$name: one line of JSON in UTF-8";
    is_deeply [ $log =~ /"(\w+)":(?:"(?:[^"\\\n]|\\.)*"|null|\d+)[,}]/g ],
        \@MEMBERS, "$name: the members in order";
    return $entry;
}

sub get ($name, @request) {
    my $res = http($port, @request);
    return (entry($name), $res);
}

sub says ($entry, $name, %want) {
    is_deeply { map { $_ => $entry->{$_} } keys %want }, \%want, $name;
}

my $branch = jwt_token(branch => $key);
my $TRACE = '4bf92f3577b34da6a3ce929d0e0e4736';
ok eventually(sub { $nginx->access_log =~ /"status":200,.*\n\z/ }), 'control: the log is written';
$seen = length $nginx->access_log;

my ($e, $res) = get('branch', GET => '/branch/x%20y?token=secret-1',
    token => $branch, cookie => 'session=secret-3', headers => [ 'User-Agent' => 'agent "7"',
        'X-Request-Id' => 'req-1', 'X-Correlation-Id' => 'cor-1',
        traceparent => "00-$TRACE-00f067aa0ba902b7-01" ]);
my $claims = (jwt_decode($branch))[1];
delete @$e{qw(upstreamDurationMs durationMs)};
my $time = delete $e->{time};
ok scalar(grep { $time =~ strftime('^%Y-%m-%dT%H:%M:%S\.\d{3}Z$', gmtime(time - $_)) } 0 .. 60),
    'the time, in UTC';
is_deeply $e, {
    requestId => 'req-1', correlationId => 'cor-1', traceId => $TRACE, clientIp => '127.0.0.1',
    method => 'GET', path => '/branch/x%20y', status => 200,
    bytes => length($res->raw_head) + length($res->body),
    routeId => 'branch-route', serviceName => 'branch-service',
    access => 'branch', decision => 'allow', reason => 'verified',
    accountId => $claims->{account_id}, sessionId => $claims->{session_id},
    workspaceId => $claims->{workspace_id},
    upstreamAddr => '127.0.0.1:' . $upstream->port, upstreamStatus => 200,
    userAgent => 'agent "7"',
}, 'a request that passes';
my $begun = Time::HiRes::time();
($e) = get('slow', GET => '/public?delay=0.2');
my $most = (Time::HiRes::time() - $begun) * 1000 + 20;
ok $e->{$_} >= 190 && $e->{$_} < $most, $_ for qw(durationMs upstreamDurationMs);
like $nginx->access_log, qr/"status":200,"bytes":\d+,"durationMs":\d+,/, 'numbers are numbers';

is $t->read_file('variables.log'), join('|', qw(req-1 cor-1), $TRACE, qw(branch-route branch-service branch
    allow verified), @$claims{qw(account_id session_id workspace_id)}) . "\n", 'the variables';

# Who is let in or not, and why; of upstreams, the last attempt.  Claims that need
# escaping are told twice, the second time from the cache.

my $account = jwt_token(account => $key);
my @none = (accountId => undef, upstreamAddr => undef, upstreamStatus => undef,
    upstreamDurationMs => undef);
my @B = (GET => '/branch', token =>);
my @PAGE = (OPTIONS => '/branch', headers =>);
my @asks = ('Access-Control-Request-Method' => 'GET', 'Origin');
my @odd = ([ @B, jwt_token(branch => $key, account_id => 'a"b', sub => 'a"b',
    session_id => "\x{20ac}\\", workspace_id => "w\n") ],
    200, 'verified', accountId => 'a"b', sessionId => '%E2%82%AC\\', workspaceId => 'w%0A');
for my $case (
    [ 'odd claims', @odd ], [ 'odd claims again', @odd ],
    [ 'public', [ GET => '/public', token => $branch ], 200, 'public', access => 'public',
        accountId => undef, routeId => 'public-route', serviceName => 'public-service' ],
    [ 'no token', [ GET => '/branch' ], 401, 'token_missing', @none, routeId => 'branch-route' ],
    [ 'no good one', [ @B, jwt_tamper($branch, 2, 9) ], 401, 'token_signature', @none ],
    [ 'another kind', [ @B, $account ], 403, 'context_forbidden', @none,
        accountId => $claims->{account_id} ],
    [ 'two levels', [ GET => '/two' ], 401, 'token_missing', access => 'account system',
        routeId => 'two', serviceName => undef ],
    [ 'method', [ POST => '/branch', body => '' ], 405, 'method_forbidden', access => 'branch' ],
    [ 'no route', [ GET => '/nothing' ], 404, 'route_not_found', routeId => undef ],
    [ 'preflight', [ @PAGE, [ @asks, 'https://app.example.com' ] ], 204, 'preflight',
        method => 'OPTIONS' ],
    [ 'refused preflight', [ @PAGE, [ @asks, 'https://evil.example' ] ], 403, 'origin_forbidden' ],
    [ 'options', [ OPTIONS => '/branch' ], 204, 'options' ],
    [ 'too large', [ POST => '/public', body => 'x' x 101 ], 413, 'request_too_large' ],
    [ 'a limit', [ GET => '/limited' ], 200, 'public' ],
    [ 'limited', [ GET => '/limited' ], 429, 'rate_limited' ],
    [ 'error_page', [ GET => '/page' ], 200, 'token_missing' ],
    [ 'down', [ GET => '/down' ], 502, 'public', upstreamStatus => 502,
        upstreamAddr => '127.0.0.1:' . $t->port('nobody') ],
    [ 'second try', [ GET => '/two', token => $account ], 200, 'verified',
        upstreamStatus => 200, upstreamAddr => '127.0.0.1:' . $upstream->port ],
) {
    my ($name, $request, $status, $reason, %want) = @$case;
    ($e) = get($name, @$request);
    says($e, $name, status => $status, reason => $reason, %want,
        decision => $reason =~ /^(?:verified|public|preflight|options)$/ ? 'allow' : 'deny');
}

# Bytes that are no text; jose/test/check_json.c has each byte at each place.

for my $case (
    [ 'a cut sequence, good text, quotes', "a\xe2\x82\xe2\x82\xac \xf0\x9f\x98\x80\"},{\"a\\",
        "a\x{fffd}\x{20ac} \x{1f600}\"},{\"a\\" ],
    [ 'beyond Unicode, controls', ("\x1b[31m\x01\t\x7f\xf4\x90\x80\x80",
        "\x1b[31m\x01\t\x7f" . "\x{fffd}" x 4) ],
    [ 'much', ("\x01" x 3000) x 2 ],
) {
    my ($name, $sent, $logged) = @$case;
    ($e) = get($name, GET => '/public', headers => [ 'User-Agent' => $sent ]);
    is $e->{userAgent}, $logged, "user agent: $name";
}
($e) = get('an id of any bytes', GET => '/public', headers => [ 'X-Request-Id' => "\xff\"" ]);
like $e->{requestId}, qr/^[0-9a-f]{32}$/, 'is replaced';

# Requests that hardly are any: [name, bytes, status, method, path], and the problem.

# The same as http_raw(), until nginx has waited long enough for the rest.
sub unended ($bytes) {
    my $c = Platform::Test::Http->new(port => $port);
    $c->send($bytes);
    eventually(sub { $clock->pass(61); $c->closed(0.1) });
    return $c->read_all;
}

my $long = 'a' x 5000;
for my $case (
    [ 'a path of any bytes', "GET /public/\xff\xe2\x82\xac\"\\\xc3?a=\xfe HTTP/1.0\r\n\r\n",
        200, 'GET', "/public/\x{fffd}\x{20ac}\"\\\x{fffd}" ],
    [ 'an absolute URI', "GET http://other.test/public?x=y HTTP/1.0\r\n\r\n", 200, 'GET',
        '/public' ],
    [ 'a fragment', "GET /public/#?secret-2 HTTP/1.0\r\n\r\n", 200, 'GET', '/public/#' ],
    [ 'no request line', "nonsense\r\n\r\n", 400, undef, undef ],
    [ 'no Host', "GET /public HTTP/1.1\r\n\r\n", 400, 'GET', '/public' ],
    [ 'a zero byte', "GET /public HTTP/1.1\r\nHost: a\r\nbad\x00: b\r\n\r\n", 400, 'GET',
        '/public' ],
    [ 'two lengths', "POST /public HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\n"
        . "Transfer-Encoding: chunked\r\n\r\n", 400, 'POST', '/public' ],
    [ 'a coding of no sort', "POST /public HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n",
        501, 'POST', '/public' ],
    [ 'no TLS here', "\x16\x03\x01\x00\xa5\x01\n", 400, undef, undef ],
    [ 'HTTP/0.9', "GET /public\r\n", 400, 'GET', '/public' ],
    [ 'two Hosts', "GET /public HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400, 'GET', '/public' ],
    [ 'a URI too long', "GET /$long HTTP/1.1\r\n\r\n", 414, undef, undef ],
    [ 'a header too long', "GET /public HTTP/1.1\r\nHost: a\r\nX: $long\r\n\r\n", 400, 'GET',
        '/public' ],
    [ 'another version', "GET / HTTP/3.7\r\nHost: a\r\n\r\n", 505, undef, undef ],
    [ 'one that never ends', "GET /public HTTP/1.1\r\nHost: a\r\n", 408, 'GET', '/public' ],
) {
    my ($name, $bytes, $status, $method, $path) = @$case;
    my $raw = $status == 408 ? unended($bytes) : http_raw($port, $bytes, timeout => 60);
    my $got = entry($name);
    says($got, $name, status => $status, method => $method, path => $path, accountId => undef,
        decision => { 200 => 'allow', 400 => 'deny', 414 => 'deny' }->{$status});
    is_deeply [ $raw =~ /^X-(?:Request|Correlation)-Id: (\S+)\r$/mg ], [ ($got->{requestId}) x 2 ],
        "$name: the ids of the answer, once" if $raw;
    my $code = { 400 => $name =~ /long/ ? 'HEADER_TOO_LARGE' : 'BAD_REQUEST',
        414 => 'URI_TOO_LONG', 501 => 'ERROR', 505 => 'ERROR' }->{$status} // next;
    like $raw, qr{\AHTTP/1\.1[ ]$status[ ].*\r\n\r\n\{.*"status":$status,
        .*"code":"GATEWAY_$code","requestId":"$got->{requestId}"\}\z}sx, "$name: a problem";
}
my $c = Platform::Test::Http->new(port => $port);
$upstream->set(hold => 1);
$c->send(http_request_bytes(GET => '/public?hold'));
ok eventually(sub { grep { $_->{uri} =~ /hold/ } $upstream->requests }),
    'a client that is about to leave';
$c->close;
says(entry('a client that left'), 'a client that left', status => 499,
    bytes => 0, upstreamStatus => undef);
$upstream->set(hold => 0);

unlike $nginx->access_log, qr/\Q$_\E/, 'no ' . substr($_, 0, 8) . ' in the log'
    for qw(secret-1 secret-2 secret-3), $branch, (split /\./, $branch)[2];

SKIP: {
    skip 'nginx without --with-debug', 1
        if qx{@{[ Platform::Test::Env::nginx() ]} -V 2>&1} !~ /--with-debug/;
    my ($good, $forged) = map { jwt_token(branch => $_, iat => time - 1) } $key,
        jwt_key('b')->as('a');
    my $signature = 'token_signature: the token signature is not valid';
    for my $case (
        [ ['/public'], 'allow public' ],
        map({ [ [ '/branch', token => $good ], "token ok, key set 1$_\nallow verified" ] }
            '', ', cached'),
        [ ['/branch'], 'deny token_missing: a bearer token is required' ],
        [ [ '/branch', token => $forged ], "token token_signature, key set 1\ndeny $signature" ],
        [ ['/shadow'], 'shadow token_missing' ],
    ) {
        my ($request, $said) = @$case;
        my $before = length $t->read_file('debug.log');
        http_get($port, @$request);
        is join("\n", substr($t->read_file('debug.log'), $before)
            =~ /http platform gateway: (.*)/g), $said, "debug: $said";
    }
    unlike $t->read_file('debug.log'), qr/gateway:.*\Q$_\E/, 'debug: no token'
        for map { (split /\./)[1, 2] } $good, $forged;
}

$t->done;
