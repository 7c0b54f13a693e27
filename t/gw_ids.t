# X-Request-Id and X-Correlation-Id: kept where well formed, replaced where
# not, the same upstream, in the response and in the log, once each.  HTTP/0.9,
# which has no headers at all, is refused, and nothing breaks where header lists
# were never set up.

use Platform::Test;

my $t = Platform::Test->new;
$t->issuer(body => jwks(jwt_key('a')));
my $upstream = $t->http_server(upstream => sub ($request, @) {
    my $answer = Platform::Test::Server::echo($request);
    push @{ $answer->[1] }, 'X-Request-Id' => 'upstream',
        'x-correlation-id' => 'upstream' if $request->{uri} =~ /answers/;
    return $answer;
});
$t->echo_fastcgi;

$t->write_file('file', 'a file');
$t->write_file('ssi', '<!--#echo var="request_id" --> <!--#include virtual="/included" -->');

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
platform_gateway_access public;
set $early $request_id;
location / { %%TO_upstream%% }
location /fastcgi { fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%; }
location /returns { return 200 "$platform_request_id"; }
location /nginx {
    add_header X-Request-Id $request_id always;
    add_header X-Correlation-Id elsewhere always;
    add_header X-Early $early always;
    pass /nginx/up: proxy_set_header X-Seen "$request_id $early $mapped";
    location = /nginx/file { alias %%DIR%%/file; }
    location /nginx/down { %%TO_nobody%% }
    location /nginx/ssi { ssi on; ssi_types *; alias %%DIR%%/ssi; }
    location /nginx/off { platform_gateway off; return 200 "$request_id"; }
}
location = /included { return 200 "$request_id"; }
location /nowhere { %%TO_nobody%% }
location = /health { platform_gateway_health; }
SERVER
client_header_buffer_size 1k;
large_client_header_buffers 2 1k;
underscores_in_headers on;
ignore_invalid_headers off;
map $request_id $mapped { default $request_id; }
server {
    listen 127.0.0.1:%%PORT_redirects%%;
    platform_gateway on;
    platform_gateway_access public;
    error_page 400 414 /error;
    location / { %%TO_upstream%% }
}
server { listen 127.0.0.1:%%PORT_off%%; return 200 "$request_id"; }
HTTP
my $port = $t->start_gateway;
my $MADE = qr/^[0-9a-f]{32}$/;

sub logged ($id) {
    my @found;
    eventually(sub {
        @found = grep { ($_->{requestId} // '') eq $id } $t->nginx->access_lines;
    });
    return @found;
}

# The two ids, having looked at every place where they show.
sub ids ($name, $path, @headers) {
    my $res = http_get($port, $path, headers => \@headers);
    my @ids = map { [ $res->header_all($_) ] } qw(X-Request-Id X-Correlation-Id);
    is_deeply [ map { scalar @$_ } @ids ], [ 1, 1 ], "$name: one of each in the response";

    my $seen = $res->json;
    my @upstream = map {
        my $n = $seen->{params} ? 'HTTP_' . uc s/-/_/gr : $_;
        [ map { $_->[1] } grep { lc $_->[0] eq lc $n } @{ $seen->{headers} // $seen->{params} } ];
    } qw(X-Request-Id X-Correlation-Id);
    is_deeply \@upstream, \@ids, "$name: the same upstream";
    is((logged($ids[0][0]))[-1]{correlationId}, $ids[1][0], "$name: and in the log");
    return ($ids[0][0], $ids[1][0]);
}

# [name, headers, request id, correlation id]; undef: one that is made, which the
# correlation id follows.  check_headers has more.

my ($R, $C) = qw(X-Request-Id X-Correlation-Id);
my @EITHER = (
    [ 'none', [], undef, undef ],
    [ 'a request id', [ $R, 'req.1:2_3-4' ], 'req.1:2_3-4', 'req.1:2_3-4' ],
    [ 'a correlation id', [ $C, 'corr-1' ], undef, 'corr-1' ],
    [ 'both, whatever the case', [ 'x-request-id', 'A', 'X-CORRELATION-ID', 'B' ], 'A', 'B' ],
    [ 'an alias', [ $R, 'm', 'X_Request_Id', 'other', 'X.Request.Id', 'other' ], 'm', 'm' ],
);
my @MORE = (
    [ 'two different', [ $R, 'one', $R, 'two' ], undef, undef ],
    [ 'twice the same', [ $R, 'same', 'x-request-id', 'same' ], undef, undef ],
    [ 'two correlation ids', [ $R, 'r', $C, 'one', $C, 'two' ], 'r', 'r' ],
    [ 'a bad correlation id', [ $R, 'good', $C, 'not good' ], 'good', 'good' ],
    [ 'the longest', [ $R, 'a' x 128, $C, 'b' x 128 ], 'a' x 128, 'b' x 128 ],
    map({ [ 'bad: ' . s/[^ -~]/?/gr =~ s/aaa+/aaa/r, [ $R, $_, $C, $_ ], undef, undef ] }
        '', 'a' x 129, 'a/b', 'a"b', "a\tb", "a\x{7f}", "\xc3\xa9", 'a~b'),
);
for my $case (map({ [ '/', @$_ ] } @MORE), map { my $c = $_; map { [ $_, @$c ] }
    qw(/ /fastcgi /answers) } @EITHER) {
    my ($path, $name, $headers, $request, $correlation) = @$case;
    my ($r, $c) = ids("$path $name", $path, @$headers);
    like $r, defined $request ? qr/^\Q$request\E$/ : $MADE, "$path $name: request id";
    is $c, $correlation // $r, "$path $name: correlation id";
}

my %seen = map { http_get($port, '/health')->header('X-Request-Id') => 1 } 1 .. 50;
is scalar keys %seen, 50, 'made ids differ';

# On every response, errors included.

my $long = 'x' x 3000;
for my $case (
    [ 'return', 200, "GET /returns HTTP/1.1\r\nHost: a\r\n" ],
    [ 'local', 200, "GET /health HTTP/1.1\r\nHost: a\r\n" ],
    [ 'an upstream that is not there', 502, "GET /nowhere HTTP/1.1\r\nHost: a\r\n" ],
    [ 'OPTIONS', 204, "OPTIONS / HTTP/1.1\r\nHost: a\r\n" ],
    [ 'no Host', 400, "GET / HTTP/1.1\r\n" ],
    [ 'two Hosts', 400, "GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n" ],
    [ 'a bad request line', 400, "GE\x01T / HTTP/1.1\r\nHost: a\r\n" ],
    [ 'a request line too long', 414, "GET /$long HTTP/1.1\r\nHost: a\r\n" ],
    [ 'a header too long', 400, "GET / HTTP/1.1\r\nHost: a\r\nX-Long: $long\r\n" ],
    [ 'another version', 505, "GET / HTTP/3.7\r\nHost: a\r\n" ],
) {
    my ($name, $status, $bytes) = @$case;
    my $raw = http_raw($port, $bytes . "X-Request-Id: mine\r\nConnection: close\r\n\r\n");
    like $raw, qr{^HTTP/1\.1 $status }, "$name: $status";
    my @ids = $raw =~ /^X-Request-Id: (\S+)\r$/mg;
    is scalar @ids, 1, "$name: one id";
    ok scalar(logged($ids[0])), "$name: and a log line with it";
}

# HTTP/0.9, and an operator's error_page, which sends it through all phases.

$upstream->forget;
for my $path ('/', '/returns', '/health', '/?a=b') {
    my $raw = http_raw($port, "GET $path\r\n");
    like $raw, qr{^HTTP/1\.[01] 400 .*"code":"GATEWAY_BAD_REQUEST"}s, "0.9 $path: refused";
    my ($id) = $raw =~ /^X-Request-Id: ([0-9a-f]{32})\r$/m;
    ok scalar(logged($id // '')), "0.9 $path: with an id, and logged";
}
is $upstream->count, 0, '0.9: not passed on';
like http_raw($port, "GET / HTTP/1.0\r\n\r\n"), qr{^HTTP/1\.1 200 }, 'control: HTTP/1.0';
like http_raw($t->port('off'), "GET /\r\n"), qr/^\w{32}$/,
    'control: a server without the gateway speaks HTTP/0.9';
for my $bytes ("GET /\r\n", "G\x01ET / HTTP/1.1\r\n\r\n") {
    $upstream->forget;
    like http_raw($t->port('redirects'), $bytes), qr/"uri":"\/error"/, 'an error_page of it';
    is_deeply [ map { scalar(my @id = header_values($_, 'X-Request-Id')) } $upstream->requests ],
        [1], 'is passed on, with an id';
}
is http_get($port, '/returns', headers => [ 'X-Request-Id' => 'seen' ])->body, 'seen',
    '$platform_request_id';

# nginx's own $request_id is the same, whoever asks for it first, and a header
# that add_header makes of it is no second one.

for my $given (undef, 'mine', 'not good') {
    my @headers = map { ('X-Request-Id' => $_) } $given // ();
    for my $case ([ '/nginx/up', 200 ], [ '/nginx/file', 200 ], [ '/nginx/ssi', 200 ],
        [ '/nginx/down', 502 ], [ '/nginx/none', 404 ],
        [ '/nginx/file', 416, Range => 'bytes=100-' ]) {    # begins to respond twice
        my ($path, $status, @more) = @$case;
        my $name = ($given // 'none') . " $path $status";
        my $res = http_get($port, $path, headers => [ @headers, @more ]);
        my @got = $res->header_all('X-Request-Id');
        is_deeply [ $res->status, @got, $res->header_all('X-Correlation-Id'),
            $res->header('X-Early') ], [ $status, ($got[0]) x 3 ], "$name: one id, everywhere";
        like $got[0], ($given // '') eq 'mine' ? qr/^mine$/ : $MADE, "$name: whose";
        ok scalar(logged($got[0])), "$name: in the log";
        is_deeply [ header_values($res->json, 'X-Seen') ], [ join ' ', (@got) x 3 ],
            "$name: upstream" if $path eq '/nginx/up';
        is $res->body, "$got[0] $got[0]", "$name: in a subrequest" if $path eq '/nginx/ssi';
    }
}
my @given = (headers => [ 'X-Request-Id' => 'a' ]);
like http_get($t->port('off'), '/', @given)->body, $MADE, "nginx's own where the gateway is off";
is http_get($port, '/nginx/off', @given)->body, 'a', 'not where it is off in the location alone';

$t->done;
