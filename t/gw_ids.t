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

$t->gateway_conf(<<'SERVER', buffers => '', http => <<'HTTP');
platform_gateway_access public;
set $early $request_id;
location / { %%TO_upstream%% }
location /fastcgi { fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%; }
location /returns { return 200 "$platform_request_id"; }
location /nginx {
    add_header X-Request-Id $request_id always; add_header X-Early $early always;
    add_header X-Correlation-Id elsewhere always;
    pass /nginx/up: proxy_set_header X-Seen "$request_id $early $mapped";
    location = /nginx/file { alias %%DIR%%/file; }
    location /nginx/down { %%TO_nobody%% }
    location /nginx/ssi { ssi on; ssi_types *; alias %%DIR%%/ssi; }
    location /nginx/off { platform_gateway off; return 200 "$request_id"; }
}
location = /included { return 200 "$request_id"; }
location = /health { platform_gateway_health; }
SERVER
underscores_in_headers on;
ignore_invalid_headers off;
map $request_id $mapped { default $request_id; }
server { listen 127.0.0.1:%%PORT_off%%; return 200 "$request_id"; }
HTTP
my $port = $t->start_gateway;
my $MADE = qr/^[0-9a-f]{32}$/;

# The two ids, having looked at every place where they show.
sub ids ($name, $path, @headers) {
    my $res = http_get($port, $path, headers => \@headers);
    my @names = qw(X-Request-Id X-Correlation-Id);
    my @ids = map { $res->header_all($_) } @names;
    my $seen = $res->json;
    my @upstream = $seen->{params}
        ? map { my $n = 'HTTP_' . uc s/-/_/gr; map { $_->[1] } grep { $_->[0] eq $n }
            @{ $seen->{params} } } @names
        : map { header_values($seen, $_) } @names;
    is scalar @ids, 2, "$name: one of each in the response";
    is_deeply [ \@upstream, $t->logged($res)->{correlationId} ], [ \@ids, $ids[1] ],
        "$name: the same upstream and in the log";
    return @ids;
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
    [ 'two request ids', [ $R, 'same', 'x-request-id', 'same' ], undef, undef ],
    [ 'two correlation ids', [ $R, 'r', $C, 'one', $C, 'two' ], 'r', 'r' ],
    [ 'a bad correlation id', [ $R, 'good', $C, 'a~b' ], 'good', 'good' ],
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

# HTTP/0.9 (gw_internal_redirects.t: by an error_page, through all phases).

$upstream->forget;
for my $path ('/', '/returns', '/health', '/?a=b') {
    my $raw = http_raw($port, "GET $path\r\n");
    like $raw, qr{^HTTP/1\.[01] 400 .*"code":"GATEWAY_BAD_REQUEST"}s, "0.9 $path: refused";
    my ($id) = $raw =~ /^X-Request-Id: ([0-9a-f]{32})\r$/m;
    ok $id && eventually(sub { $t->nginx->access_log =~ /"requestId":"$id"/ }),
        "0.9 $path: with an id, and logged";
}
is $upstream->count, 0, '0.9: not passed on';
like http_raw($port, "GET / HTTP/1.0\r\n\r\n"), qr{^HTTP/1\.1 200 }, 'control: HTTP/1.0';
like http_raw($t->port('off'), "GET /\r\n"), qr/^\w{32}$/,
    'control: a server without the gateway speaks HTTP/0.9';
is http_get($port, '/returns', headers => [ 'X-Request-Id' => 'seen' ])->body, 'seen',
    '$platform_request_id';

# nginx's own $request_id is the same, whoever asks for it first, and a header
# that add_header makes of it is no second one.

for my $given (undef, 'mine', 'not good') {
    my @headers = map { ('X-Request-Id' => $_) } $given // ();
    for my $case ([ '/nginx/up', 200 ], [ '/nginx/file', 200 ], [ '/nginx/ssi', 200 ],
        [ '/nginx/down', 502 ], [ '/nginx/none', 404 ], [ '/returns', 200 ], [ '/health', 200 ],
        [ '/nginx/file', 416, Range => 'bytes=100-' ]) {    # begins to respond twice
        my ($path, $status, @more) = @$case;
        my $name = ($given // 'none') . " $path $status";
        my $res = http_get($port, $path, headers => [ @headers, @more ]);
        my @got = $res->header_all('X-Request-Id');
        is_deeply [ $res->status, @got, $res->header_all('X-Correlation-Id'),
            $path =~ /nginx/ ? $res->header('X-Early') : (), $t->logged($res)->{requestId} ],
            [ $status, ($got[0]) x ($path =~ /nginx/ ? 4 : 3) ], "$name: one id, everywhere";
        like $got[0], ($given // '') eq 'mine' ? qr/^mine$/ : $MADE, "$name: whose";
        is_deeply [ header_values($res->json, 'X-Seen') ], [ join ' ', (@got) x 3 ],
            "$name: upstream" if $path eq '/nginx/up';
        is $res->body, "$got[0] $got[0]", "$name: in a subrequest" if $path eq '/nginx/ssi';
    }
}
my @given = (headers => [ 'X-Request-Id' => 'a' ]);
like http_get($t->port('off'), '/', @given)->body, $MADE, "nginx's own where the gateway is off";
is http_get($port, '/nginx/off', @given)->body, 'a', 'not where it is off in the location alone';

$t->done;
