# Metrics and explanations have a listener of their own.  At the gateway their
# paths are unknown ones, whoever asks and however he came; at the listener
# nobody gets in or is kept out by what a header says, and no browser gets in.

use Platform::Test;
use Platform::Test::Metrics;

my $t = Platform::Test->new;
my $s = $t->full_stack(env => { PLATFORM_TRUSTED_PROXIES => '127.0.0.0/8' });
my ($gateway, $local) = ($s->gateway, $t->port('metrics'));
my %question = (method => 'GET', path => '/api/workspaces/branches');

# The line of the access log for a response.
sub logged ($res) {
    my $id = $res->header('X-Request-Id');
    my $line;
    eventually(sub {
        ($line) = grep { $_->{requestId} eq $id } $s->nginx->access_lines;
    });
    return $line // {};
}

# The listener.

my $res = http_get($local, '/internal/metrics');
is $res->status, 200, 'metrics';
my ($sample) = metrics_parse($res->body);
is $sample->{'platform_gateway_key_set_keys'}, 1, 'one key';
ok exists $sample->{
    'platform_gateway_requests_total{route="local",decision="allow"}'},
    'routes by their ids';
is_problem(http_post($local, '/internal/metrics', body => ''), 405,
    'METHOD_NOT_ALLOWED', 'metrics are read only');

$res = http_post($local, '/internal/explain', json => \%question);
is $res->status, 200, 'an explanation';
is $res->json->{reason}, 'token_missing', 'which says why';
is $res->json->{location}{routeId}, 'entitlement-workspaces', 'and where: at the gateway';
is_problem(http_get($local, $_), 404, 'GATEWAY_ROUTE_NOT_FOUND', "$_: not served there")
    for '/', '/readyz', '/api/workspaces/x', '/.well-known/jwks.json';

# X-Forwarded-For from a trusted network changes nothing.

for my $headers ([ 'X-Forwarded-For' => '203.0.113.1' ], [ 'X-Forwarded-For' => '127.0.0.1' ])
{
    is http_get($local, '/internal/metrics', headers => $headers)->status,
        200, "@$headers: metrics";
    my $res = http_post($local, '/internal/explain', headers => $headers, json => \%question);
    is $res->status, 200, "@$headers: an explanation";
    is logged($res)->{clientIp}, '127.0.0.1', 'the log has who connected';
}

# A page that a browser was led to by a name of its own, or from elsewhere.

for my $host ('rebind.example', 'rebind.example:' . $local,
    '127.0.0.1.rebind.example', 'localhost.rebind.example', '10.0.0.1')
{
    is_problem(http_get($local, '/internal/metrics', host => $host), 404,
        'GATEWAY_ROUTE_NOT_FOUND', "metrics for $host");
    is_problem(http_post($local, '/internal/explain', host => $host,
        json => \%question), 404, 'GATEWAY_ROUTE_NOT_FOUND',
        "an explanation for $host");
}
for my $host ('localhost', "localhost:$local", "127.0.0.1:$local",
    '127.0.0.2', "[::1]:$local")
{
    is http_post($local, '/internal/explain', host => $host,
        json => \%question)->status, 200, "an explanation for $host";
}
for my $headers ([ Origin => 'https://evil.example' ], [ Origin => 'null' ],
    [ Origin => "http://127.0.0.1:$local" ], [ origin => '' ],
    [ 'Sec-Fetch-Site' => 'same-origin' ], [ 'sec-fetch-site' => 'none' ])
{
    $res = http_post($local, '/internal/explain', headers => $headers, json => \%question);
    is_problem($res, 403, 'GATEWAY_ORIGIN_NOT_ALLOWED', "an explanation with @$headers");
    is_deeply [ @{ logged($res) }{qw(decision reason)} ],
        [ 'deny', 'origin_forbidden' ], 'and so says the log';
}

# A server on this host in front of the gateway: its clients come from here.

$t->nginx_conf(<<'CONF', 'front');
%%GLOBALS%%
events { }
http {
    %%GLOBALS_HTTP%%
    server {
        listen 127.0.0.1:%%PORT_front%%;
        location / {
            proxy_pass http://127.0.0.1:%%PORT_gateway%%;
            proxy_set_header Host 127.0.0.1;
        }
    }
}
CONF
$t->start_nginx('front');
is http_get($t->port('front'), '/readyz')->status, 200, 'the gateway by a server in front';

# To whoever asks the gateway, these paths are as unknown as any.

my %front = (gateway => $gateway, 'a server in front' => $t->port('front'));
my $large = 'x' x 200_000;
for my $where (sort keys %front) {
    for my $headers ([], [ 'X-Forwarded-For' => '127.0.0.1' ],
        [ 'X-Forwarded-For' => '203.0.113.1' ],
        [ Origin => 'https://evil.example' ])
    {
        for my $request ([ 'GET' ], [ 'POST', body => '{"path":"/"}' ],
            [ 'POST', body => $large ], [ 'PUT', body => '' ],
            [ 'DELETE' ], [ 'OPTIONS' ])
        {
            my ($method, @body) = @$request;
            my @answer = map {
                my $res = http($front{$where}, $method, $_, @body,
                    headers => [ @$headers, 'X-Request-Id' => 'same' ]);
                my %h = map { @$_ } grep { $_->[0] ne 'Date' } $res->headers;
                [ $res->status, $res->body, \%h ];
            } '/internal/unknown', '/internal/metrics', '/internal/explain',
                '/internal/revocations';
            my $name = "$where: $method @$headers";
            is $answer[0][0], $method eq 'OPTIONS' ? 204 : 404, $name;
            is_deeply $answer[$_], $answer[0], "$name: no difference" for 1 .. 3;
        }
    }
}

$t->done;
