# Bodies as they come: server-sent events, large and chunked bodies both ways,
# request buffering on and off, Expect: 100-continue; let in and refused.

use Digest::MD5 qw(md5_hex);
use Platform::Test;
use Time::HiRes qw(time);

my ($t, $key) = Platform::Test->gateway;

sub sum ($body) { return length($body) . ' ' . md5_hex($body) }

sub chunked ($body, $size) {
    return join '', map { sprintf "%x\r\n%s\r\n", length, $_ } unpack "(a$size)*", $body;
}

# The first event at once, the second when the test says so.
my $OK = "HTTP/1.1 200 OK\r\nConnection: close\r\n";
my $events = $t->http_server(events => sub ($request, $self, @) {
    my @say = ("${OK}Content-Type: text/event-stream\r\n\r\ndata: first\n\n", "data: second\n\n");
    return sub {
        sleep 0.02 while @say == 1 && $self->get->{hold};
        return shift @say;
    };
})->set(hold => 1);

my $sink = $t->http_server(sink => sub ($request, @) { [ 200, [], sum($request->{body}) ] });

# Notes how much of the first half has come; answers when the second one has.
my $halves = $t->http_server(halves => undef, protocol => sub ($fh, $self, @) {
    my $in = $self->read_head($fh) // return;
    my ($head) = $in =~ /\A(.*?\r\n\r\n)/s;
    while (1) {
        my $body = substr $in, length $head;
        $self->note({ half => $body =~ tr/x// });
        last if $body =~ tr/y// == 1000;
        sysread $fh, $in, 65536, length $in or return;
    }
    syswrite $fh, "${OK}Content-Length: 3\r\n\r\nall";
});

# A large answer, in chunks or until the end of the connection.
my $big = join '', map { sprintf "%015d\n", $_ } 1 .. 200_000;
$t->http_server(source => sub ($request, @) {
    return \($request->{uri} =~ /chunked/ ? "${OK}Transfer-Encoding: chunked\r\n\r\n"
        . chunked($big, 60_000) . "0\r\n\r\n" : "$OK\r\n$big");
});

$t->gateway_conf(<<'SERVER', http => 'lingering_timeout 200ms;');
listen 127.0.0.1:%%PORT_h2%% http2;
platform_gateway_access branch;
client_max_body_size 8m;
proxy_http_version 1.1;
pass /events to events: proxy_buffering off;
location /buffered { %%TO_sink%% }
pass /unbuffered to sink: proxy_request_buffering off;
pass /halves to halves: proxy_request_buffering off;
location /source { %%TO_source%% }
SERVER
my $port = $t->start_gateway;
my @with = (token => jwt_token(branch => $key));

# A connection on which a request was begun; reads from it until that is there.
sub begun ($method, $path, %o) {
    my $c = Platform::Test::Http->new(port => $port);
    $c->send(http_request_bytes($method, $path, %o) . ($o{bytes} // ''));
    return $c;
}

sub until_has ($c, $pattern) {
    1 while $c->{buf} !~ $pattern && $c->_fill(time + 60);
    return $c->{buf};
}

my $h2 = 'http://127.0.0.1:' . $t->port('h2');
sub curl {
    open my $fh, '-|', 'curl', '-s', '-m', 60 * $t->scale, '--http2-prior-knowledge', '-H',
        "Authorization: Bearer $with[1]", @_ or die "curl: $!\n";
    return $fh;
}

# Server-sent events: the first arrives while the second is not yet said.

is_problem(http_get($port, '/events'), 401, 'GATEWAY_TOKEN_MISSING', 'events, no token');
is $events->count, 0, 'nobody was asked';
my $c = begun(GET => '/events', @with, headers => [ Accept => 'text/event-stream' ]);
like until_has($c, qr/first\n\n/), qr/^X-Request-Id: .*data: first\n\n(?!.*second)/ms,
    'the first event arrives';
my $curl = curl('-N', "$h2/events");
is scalar(<$curl>), "data: first\n", 'HTTP/2: the first event arrives';
$events->set(hold => 0);
like $c->read_all, qr/data: second\n\n/, 'the second follows';
is join('', <$curl>), "\ndata: second\n\n", 'HTTP/2: the second follows';
close $curl;

my $body = join '', map { sprintf "%07x\n", $_ } 1 .. 32_768;
my @chunks = ('Transfer-Encoding' => 'chunked');
my $over = 8 * 1024 * 1024 + 1;
for my $path (qw(/buffered /unbuffered)) {
    for my $case ([ 'Content-Length', length $body, $body, 'x' x 1000, $over, '' ],
        [ @chunks, chunked($body, 7001) . "0\r\n\r\n", "1000\r\n" . 'x' x 1000,
            'chunked', sprintf("%x\r\n", $over) . 'x' x 1000 ])
    {
        my ($how, $length, $whole, $part, $too_long, $too_large) = @$case;

        my $asked = $sink->count;
        is begun(POST => $path, @with, headers => [ $how => $length ], bytes => $whole)
            ->read_response->body, sum($body), "$path, $how: a large body is whole";

        # Refused: at once, whatever of the body there is.
        is_problem(begun(POST => $path, headers => [ $how => $length ], bytes => $_)
            ->read_response, 401, 'GATEWAY_TOKEN_MISSING', "$path, $how, no token, " . length)
            for $part, $whole;
        is_problem(begun(POST => $path, @with, headers => [ $how => $too_long ],
            bytes => $too_large)->read_response, 413, 'GATEWAY_REQUEST_TOO_LARGE',
            "$path, $how, over the limit");
        is $sink->count, $asked + 1, "$path, $how: of these, one was asked";
    }
    is http_post($port, $path, @with, @$_)->body, sum($_->[-1]), "$path: @$_"
        for [ version => '1.0', body => 'x' x 9 ], [ body => '' ];

    # The body that is read away leaves the connection as it was.
    $c = Platform::Test::Http->new(port => $port);
    for (1 .. 3) {
        $c->send(http_request_bytes(POST => $path, connection => 'keep-alive',
            headers => \@chunks) . chunked('x' x 30_000, 999) . "0\r\n\r\n");
        is $c->read_response->status, 401, "$path: refused, kept alive";
    }
    is $c->request(POST => $path, @with, body => 'abc')->body, sum('abc'),
        "$path: the connection is still good";

    # Expect: 100-continue.
    my @expect = (headers => [ Expect => '100-continue', 'Content-Length' => 5 ]);
    my $res = begun(POST => $path, @expect)->read_response;
    is_problem($res, 401, 'GATEWAY_TOKEN_MISSING', "$path, Expect, no token");
    is scalar($res->interim), 0, "$path, Expect, no token: no 100";
    $c = begun(POST => $path, @with, @expect);
    like until_has($c, qr/\r\n\r\n/), qr{\AHTTP/1\.1 100 Continue\r\n\r\n\z},
        "$path, Expect, a token: 100 before the body";
    $c->send('12345');
    is $c->read_response->body, sum('12345'), "$path, Expect: and then 200";
}

# Unbuffered: the upstream has the beginning before the end is sent.

for my $case ([ [ 'Content-Length' => 2000 ], 'x' x 1000, 'y' x 1000 ],
    [ \@chunks, chunked('x' x 1000, 1000), chunked('y' x 1000, 1000) . "0\r\n\r\n" ])
{
    my ($headers, @half) = @$case;
    $halves->forget;
    $c = begun(POST => '/halves', @with, headers => $headers, bytes => $half[0]);
    ok eventually(sub { grep { ($_->{half} // 0) == 1000 } $halves->requests }),
        "$headers->[0]: half has arrived";
    $c->send($half[1]);
    is $c->read_response->body, 'all', "$headers->[0]: and then all";
}

for my $path ('/source', '/source?chunked') {
    is sum(http_get($port, $path, @with)->body), sum($big), "$path: a large answer is whole";
    is http_get($port, $path)->status, 401, "$path: no token";
}
is sum(do { local $/; readline curl("$h2/source") }), sum($big), 'HTTP/2: a large answer is whole';

$t->done;
