# The access log: one JSON object a request, of known members in a known
# order, valid whatever bytes the client sent, with no secret in it.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Encode ();
use JSON::PP;
use Platform::Test;
use Test::More;
use Time::Local qw(timegm);

my $t = Platform::Test->new;
my $key = jwt_key('a');
$t->issuer(body => jwks($key));
my $upstream = $t->echo_upstream;

my $nginx = $t->gateway_conf(<<'SERVER', http => <<'HTTP');
platform_gateway_cors_origins https://app.example.com;
location / {
    platform_gateway_access public;
    platform_gateway_route_not_found;
}
pass /public: platform_gateway_access public; platform_gateway_route public-route public-service;
location /branch {
    platform_gateway_access branch;
    platform_gateway_methods GET;
    platform_gateway_route branch-route branch-service;
    access_log %%DIR%%/nginx.access.log platform;
    access_log %%DIR%%/variables.log variables;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /two {
    platform_gateway_access account system;
    platform_gateway_route two;
    proxy_pass http://two;
}
pass /down to nobody: platform_gateway_access public;
pass /limited: platform_gateway_access public; limit_req zone=one;
pass /page: platform_gateway_access branch; error_page 401 = @page;
pass @page: platform_gateway_access public;
SERVER
log_format variables '$platform_request_id|$platform_correlation_id|$platform_route_id|$platform_service_name|$platform_access|$platform_decision|$platform_reason|$platform_account_id|$platform_session_id|$platform_workspace_id';
platform_gateway_token_max_size 4000;
limit_req_zone $binary_remote_addr zone=one:1m rate=1r/m;
limit_req_status 429;
client_header_timeout 5s;
client_max_body_size 100;
large_client_header_buffers 2 4k;
lingering_timeout 100ms;
upstream two {
    server 127.0.0.1:%%PORT_nobody%%;
    server 127.0.0.1:%%PORT_upstream%% backup;
}
HTTP
$t->start_nginx;
my $port = $t->port('gateway');

my @MEMBERS = qw(time requestId correlationId clientIp method path status
    bytes durationMs routeId serviceName access decision reason accountId
    sessionId workspaceId upstreamAddr upstreamStatus upstreamDurationMs
    userAgent);
my $json = JSON::PP->new->utf8;
my $seen = 0;

# The one line that a request wrote, decoded; undef where it wrote none.
sub entry {
    my ($name) = @_;

    my $log;
    eventually(sub {
        $log = substr $nginx->access_log, $seen;
        $log =~ /\n\z/;
    });
    $seen += length $log;
    my @lines = split /\n/, $log, -1;
    is scalar @lines, 2, "$name: one line";
    my $line = $lines[0];
    ok eval { Encode::decode('UTF-8', my $copy = $line, Encode::FB_CROAK); 1 },
        "$name: UTF-8";
    my $entry = eval { $json->decode($line) };
    is $@, '', "$name: JSON";
    is_deeply [ $line =~ /"(\w+)":(?:"(?:[^"\\]|\\.)*"|null|\d+)[,}]/g ],
        \@MEMBERS, "$name: the members in order";
    return $entry;
}

sub get {
    my ($name, @request) = @_;

    my $res = http($port, @request);
    return (entry($name), $res);
}

sub says {
    my ($entry, $name, %want) = @_;

    is_deeply { map { $_ => $entry->{$_} } keys %want }, \%want, $name;
    return;
}

my %ours = (iss => 'http://issuer.test');
my $branch = jwt_token(branch => $key, %ours);
ok eventually(sub { http_get($port, '/branch', token => $branch)
    ->status == 200 }), 'control: keys are there';
ok eventually(sub { $nginx->access_log =~ /"status":200,.*\n\z/ }),
    'control: the log is written';
$seen = length $nginx->access_log;

# A request that passes, in full.

my ($e, $res) = get('branch', GET => '/branch/x%20y?token=secret-1',
    token => $branch, headers => [ 'User-Agent' => 'agent "7"',
        'X-Request-Id' => 'req-1', 'X-Correlation-Id' => 'cor-1' ]);
my $claims = (jwt_decode($branch))[1];
my $took = delete @$e{qw(upstreamDurationMs durationMs)};
like $e->{time}, qr/^20\d\d-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/, 'the time';
my ($y, $m, $d, @clock) = $e->{time} =~ /(\d+)/g;
ok abs(time - timegm(@clock[2, 1, 0], $d, $m - 1, $y)) < 60, 'in UTC';
delete $e->{time};
is_deeply $e, {
    requestId => 'req-1', correlationId => 'cor-1', clientIp => '127.0.0.1',
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
ok $e->{durationMs} >= 190 && $e->{durationMs} < $most, 'durationMs';
ok $e->{upstreamDurationMs} >= 190 && $e->{upstreamDurationMs} < $most,
    'upstreamDurationMs';
like $nginx->access_log, qr/"status":200,"bytes":\d+,"durationMs":\d+,/,
    'numbers are numbers';

is +(split /\n/, $t->read_file('variables.log'))[-1], join('|', 'req-1',
    'cor-1', 'branch-route', 'branch-service', 'branch', 'allow', 'verified',
    @$claims{qw(account_id session_id workspace_id)}), 'the variables';

# Claims that need escaping; the second time from the cache.

my %odd_claims = (account_id => 'a"b', sub => 'a"b', session_id => "\x{20ac}\\",
    workspace_id => "w\n");
my $odd_token = jwt_token(branch => $key, %ours, %odd_claims);
for my $time (1, 2) {
    ($e) = get("odd claims $time", GET => '/branch', token => $odd_token);
    says($e, "odd claims $time", status => 200,
        accountId => 'a"b', sessionId => "\x{20ac}\\", workspaceId => "w\n");
}

# Who is let in or not, and why.

($e) = get('public', GET => '/public', token => $branch);
says($e, 'public', status => 200, access => 'public', decision => 'allow',
    reason => 'public', accountId => undef, routeId => 'public-route');
my @sig = (iss => 'http://issuer.test');
my %refused = (
    token_missing   => [ 401, undef ],
    token_shape     => [ 401, 'abc' ],
    token_signature => [ 401, jwt_tamper($branch, 2, 9) ],
    token_issuer    => [ 401, jwt_token(branch => $key, iss => 'other') ],
    token_expired   => [ 401, jwt_token(branch => $key, @sig,
        iat => time - 900, exp => time - 600) ],
    token_not_yet   => [ 401, jwt_token(branch => $key, @sig,
        iat => time + 900, exp => time + 1800) ],
    token_claims    => [ 401, jwt_token(branch => $key, @sig,
        workspace_id => undef) ],
    context_forbidden => [ 403, jwt_token(account => $key, @sig) ],
);
for my $reason (sort keys %refused) {
    my ($status, $token) = @{ $refused{$reason} };
    ($e) = get($reason, GET => '/branch',
        defined $token ? (token => $token) : ());
    says($e, "$reason: refused", status => $status, reason => $reason,
        decision => 'deny', access => 'branch', routeId => 'branch-route',
        accountId => $status == 403 ? $claims->{account_id} : undef,
        upstreamAddr => undef, upstreamStatus => undef,
        upstreamDurationMs => undef);
}
($e) = get('two levels', GET => '/two');
says($e, 'two levels', access => 'account system', routeId => 'two',
    serviceName => undef);
($e) = get('method', POST => '/branch', body => '');
says($e, 'method', status => 405, decision => 'deny',
    reason => 'method_forbidden', access => 'branch');
($e) = get('no route', GET => '/nothing');
says($e, 'no route', status => 404, reason => 'route_not_found',
    decision => 'deny', routeId => undef, serviceName => undef);
my @preflight = (Origin => 'https://app.example.com',
    'Access-Control-Request-Method' => 'GET');
($e) = get('preflight', OPTIONS => '/branch', headers => [@preflight]);
says($e, 'preflight', status => 204, decision => 'allow',
    reason => 'preflight', method => 'OPTIONS');
$preflight[1] = 'https://evil.example';
($e) = get('refused preflight', OPTIONS => '/branch', headers => [@preflight]);
says($e, 'refused preflight', status => 403, decision => 'deny',
    reason => 'origin_forbidden');
($e) = get('options', OPTIONS => '/branch');
says($e, 'options', status => 204, decision => 'allow', reason => 'options');
($e) = get('too large', POST => '/public', body => 'x' x 101);
says($e, 'too large', status => 413, reason => 'request_too_large',
    decision => 'deny');
get('limited', GET => '/limited');
($e) = get('limited', GET => '/limited');
says($e, 'limited', status => 429, reason => 'rate_limited',
    decision => 'deny');
($e) = get('page', GET => '/page');
says($e, 'error_page', status => 200, decision => 'deny',
    reason => 'token_missing');

# Upstreams: the last attempt.

($e) = get('down', GET => '/down');
says($e, 'down', status => 502, upstreamStatus => 502,
    upstreamAddr => '127.0.0.1:' . $t->port('nobody'), decision => 'allow');
($e) = get('second try', GET => '/two',
    token => jwt_token(account => $key, @sig));
says($e, 'second try', status => 200, upstreamStatus => 200,
    upstreamAddr => '127.0.0.1:' . $upstream->port);

# Bytes that are no text.

my %bytes = (
    'a lone byte'          => [ "\xff" => "\x{fffd}" ],
    'a cut sequence'       => [ "a\xe2\x82" => "a\x{fffd}" ],
    'cut, as long as its replacement' => [ "\xf0\x9f\x98" => "\x{fffd}" ],
    'overlong'             => [ "\xc0\xaf" => "\x{fffd}\x{fffd}" ],
    'a surrogate'          => [ "\xed\xa0\x80" => "\x{fffd}" x 3 ],
    'beyond Unicode'       => [ "\xf4\x90\x80\x80" => "\x{fffd}" x 4 ],
    'good text'            => [ "\xe2\x82\xac \xf0\x9f\x98\x80"
            => "\x{20ac} \x{1f600}" ],
    'quotes'               => [ '"},{"a\\' => '"},{"a\\' ],
    'tab and delete'       => [ "a\tb\x7f" => "a\tb\x7f" ],
    'the last before bad'  => [ "\xf4\x8f\xbf\xbd\xe1" => "\x{10fffd}\x{fffd}" ],
    'a controls sequence'  => [ "\x1b[31m\x01" => "\x1b[31m\x01" ],
);
for my $name (sort keys %bytes) {
    my ($sent, $logged) = @{ $bytes{$name} };
    ($e) = get($name, GET => '/public', headers => [ 'User-Agent' => $sent ]);
    is $e->{userAgent}, $logged, "user agent: $name";
}

# One odd byte at each place of a word, its neighbours the nearest good ones.

my %odd = ("\x01" => "\x01", "\x1f" => "\x1f", '"' => '"', '\\' => '\\',
    "\x7f" => "\x7f", "\x80" => "\x{fffd}", "\xff" => "\x{fffd}");
for my $byte (sort keys %odd) {
    my @wrong = grep {
        my ($before, $after) = ('!~#[]^' x 3, ' ~!' x 6);
        my $sent = substr($before, 0, $_) . $byte . $after;
        ($e) = get('odd', GET => '/public',
            headers => [ 'User-Agent' => "a$sent." ]);
        $e->{userAgent} ne 'a' . substr($before, 0, $_) . $odd{$byte}
            . "$after.";
    } 0 .. 16;
    is_deeply \@wrong, [], sprintf 'byte %02x in any place', ord $byte;
}

(my $uri = "/public/\xff\xe2\x82\xac\"\\\xc3");
http_raw($port, "GET $uri?a=\xfe HTTP/1.0\r\n\r\n");
$e = entry('a path of any bytes');
is $e->{path}, "/public/\x{fffd}\x{20ac}\"\\\x{fffd}", 'as the client sent it';
($e) = get('an id of any bytes', GET => '/public',
    headers => [ 'X-Request-Id' => "\xff\"" ]);
like $e->{requestId}, qr/^[0-9a-f]{32}$/, 'is replaced';
($e) = get('a long agent', GET => '/public',
    headers => [ 'User-Agent' => "\x01" x 3000 ]);
is length $e->{userAgent}, 3000, 'is logged whole';
http_raw($port, "GET http://other.test/public?x=y HTTP/1.0\r\n\r\n");
says(entry('an absolute URI'), 'an absolute URI', path => '/public',
    status => 200);
http_raw($port, "GET /public/#?secret-2 HTTP/1.0\r\n\r\n");
says(entry('a fragment'), 'a fragment', path => '/public/#', status => 200);

# Requests that hardly are any.

my %broken = (
    'no request line'  => [ "nonsense\r\n\r\n", 400, undef, undef ],
    'no TLS here'      => [ "\x16\x03\x01\x00\xa5\x01\n", 400, undef, undef ],
    'HTTP/0.9'         => [ "GET /public\r\n", 400, 'GET', '/public' ],
    'two Host headers' => [ "GET /public HTTP/1.1\r\nHost: a\r\nHost: b\r\n"
            . "\r\n", 400, 'GET', '/public' ],
    'a URI too long'   => [ 'GET /' . 'a' x 5000 . " HTTP/1.1\r\n\r\n", 414,
        undef, undef ],
    'a header too long' => [ "GET /public HTTP/1.1\r\nHost: a\r\nX: "
            . 'a' x 5000 . "\r\n\r\n", 400, 'GET', '/public' ],
);
for my $name (sort keys %broken) {
    my ($bytes, $status, $method, $path) = @{ $broken{$name} };
    my $raw = http_raw($port, $bytes);
    my $got = entry($name);
    says($got, $name, status => $status, method => $method, path => $path,
        decision => 'deny', accountId => undef);
    like $raw, qr/\Q$got->{requestId}\E/, "$name: the id of the answer";
}
http_raw($port, "GET /public HTTP/1.1\r\nHost: a\r\n", timeout => 60);
says(entry('a request that never ends'), 'a request that never ends',
    status => 408, method => 'GET', path => '/public');
my $c = Platform::Test::Http->new(port => $port);
$upstream->set(hold => 1);
$c->send(http_request_bytes(GET => '/public?hold'));
ok eventually(sub { grep { $_->{uri} =~ /hold/ } $upstream->requests }),
    'a client that is about to leave';
$c->close;
says(entry('a client that left'), 'a client that left', status => 499,
    bytes => 0, upstreamStatus => undef);
$upstream->set(hold => 0);

# No secret, anywhere.

my $log = $nginx->access_log;
for my $secret ('secret-1', 'secret-2', $branch, (split /\./, $branch)[2]) {
    unlike $log, qr/\Q$secret\E/, 'no ' . substr($secret, 0, 8) . ' in the log';
}
my $cookie = http_get($port, '/public', cookie => 'session=secret-3');
entry('a cookie');
unlike $nginx->access_log, qr/secret-3/, 'no cookie in the log';

$t->done;
