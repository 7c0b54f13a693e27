# Bodies as they come: server-sent events, large and chunked bodies both ways,
# request buffering on and off, Expect: 100-continue; let in and refused.

use Digest::MD5 qw(md5_hex);
use Platform::Test;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my $key = jwt_key('a');
$t->issuer(body => jwks($key));

# The first event at once, the second when the test says so.
my $go = $t->dir . '/go';
my $events = $t->http_server(events => undef, protocol => sub ($fh, $self, @) {
    $self->read_head($fh) // return;
    syswrite $fh, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        . "Cache-Control: no-store\r\nConnection: close\r\n\r\n" . "data: first\n\n";
    for (1 .. 3000) {
        last if -e $go;
        sleep 0.02;
    }
    syswrite $fh, "data: second\n\n" if -e $go;
});

# Counts the bytes of a body while they come, decoded; answers with their sum.
my $sink = $t->http_server(sink => undef, protocol => sub {
    my ($fh, $self) = @_;

    my ($in, $body) = ('', '');
    my $more = sub { sysread $fh, $in, 65536, length $in };
    until ($in =~ /\r\n\r\n/) { $more->() or return }
    (my $head, $in) = split /\r\n\r\n/, $in, 2;
    $self->note({ head => $head });
    my $take = sub {
        $body .= substr $in, 0, $_[0], '';
        $t->write_file('sink.bytes', length $body);
    };
    if (my ($length) = $head =~ /^Content-Length: (\d+)/mi) {
        for (;; $more->() or return) {
            $take->(length $in);
            last if length $body >= $length;
        }
    }
    else {
        my $size = 1;
        while ($size) {
            until ($in =~ /\r\n/) { $more->() or return }
            (my $hex, $in) = split /\r\n/, $in, 2;
            $size = hex $hex;
            while (length $in < $size + 2) { $more->() or return }
            $take->($size);
            substr $in, 0, 2, '';
        }
    }
    my $answer = length($body) . ' ' . md5_hex($body);
    syswrite $fh, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: "
        . length($answer) . "\r\n\r\n$answer";
});

sub arrived { return $t->read_file('sink.bytes') || 0 }

sub chunked { return join '', map { sprintf "%x\r\n%s\r\n", length, $_ } unpack "(a$_[1])*", $_[0] }

# A large answer, in chunks or until the end of the connection.
my $big = join '', map { sprintf "%015d\n", $_ } 1 .. 200_000;
my $source = $t->http_server(source => undef, protocol => sub ($fh, $self, @) {
    my $chunked = ($self->read_head($fh) // return) =~ m{\AGET /\S*chunked};
    my $out = "HTTP/1.1 200 OK\r\nConnection: close\r\n"
        . ($chunked ? "Transfer-Encoding: chunked\r\n\r\n" . chunked($big, 60_000) . "0\r\n\r\n"
            : "\r\n$big");
    while (length $out) {
        my $n = syswrite $fh, $out or return;
        substr $out, 0, $n, '';
    }
});

$t->gateway_conf(<<'SERVER', http => 'lingering_timeout 200ms;');
listen 127.0.0.1:%%PORT_h2%% http2;
platform_gateway_access branch;
client_max_body_size 8m;
proxy_http_version 1.1;
location /events { proxy_buffering off; %%TO_events%% }
location /buffered { %%TO_sink%% }
location /unbuffered { proxy_request_buffering off; %%TO_sink%% }
location /source { %%TO_source%% }
SERVER
my $port = $t->start_gateway;
my @with = (token => jwt_token(branch => $key));

sub connected { return Platform::Test::Http->new(port => $port) }

# What is answered to those bytes, on a connection of their own or on $c.
sub answer ($method, $path, $o, $bytes, $c = undef) {
    my $on = $c // connected();
    $on->send(http_request_bytes($method, $path, @$o) . $bytes);
    my $res = $on->read_response;
    $on->close if !$c;
    return $res;
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
my $c = connected();
$c->send(http_request_bytes(GET => '/events', @with, headers => [ Accept => 'text/event-stream' ]));
$c->_fill(time + 60) until $c->{buf} =~ /first\n\n/ || $c->{eof};
like $c->{buf}, qr/^X-Request-Id: .*data: first\n\n(?!.*second)/ms, 'the first event arrives';
ok !$c->{eof}, 'and the stream stays open';
$t->write_file('go', '');
like $c->read_all, qr/data: second\n\n/, 'the second follows';
unlink $go;

my $curl = curl('-N', "$h2/events");
is scalar(<$curl>), "data: first\n", 'HTTP/2: the first event arrives';
$t->write_file('go', '');
is join('', <$curl>), "\ndata: second\n\n", 'HTTP/2: the second follows';
close $curl;

# Bodies to the upstream.

sub sum { return length($_[0]) . ' ' . md5_hex($_[0]) }

my $body = join '', map { sprintf "%07x\n", $_ } 1 .. 262_144;
my @chunks = ('Transfer-Encoding' => 'chunked');
my $over = 8 * 1024 * 1024 + 1;
my %all = (
    'Content-Length' => [ [ 'Content-Length' => length $body ], $body, 'x' x 1000 ],
    'chunked' => [ \@chunks, chunked($body, 7001) . "0\r\n\r\n", "1000\r\n" . 'x' x 1000 ],
);

for my $path (qw(/buffered /unbuffered)) {
    for my $how (sort keys %all) {
        my ($headers, $whole, $begun) = @{ $all{$how} };

        my $asked = $sink->count;
        is answer(POST => $path, [ @with, headers => $headers ], $whole)->body, sum($body),
            "$path, $how: a large body is whole";
        is $sink->count, $asked + 1, "$path, $how: one was asked";

        # Refused: at once, whatever of the body there is.
        is_problem(answer(POST => $path, [ headers => $headers ], $_), 401,
            'GATEWAY_TOKEN_MISSING', "$path, $how, no token, " . length) for $begun, $whole;
        is $sink->count, $asked + 1, "$path, $how, no token: nobody was asked";
    }
    is http_post($port, $path, @with, version => '1.0', body => 'x' x 9)->body, sum('x' x 9),
        "$path: HTTP/1.0";
    is http_post($port, $path, @with, body => '')->body, sum(''), "$path: an empty body";

    # The body that is read away leaves the connection as it was.
    $c = connected();
    is answer(POST => $path, [ connection => 'keep-alive', headers => \@chunks ],
        chunked('x' x 30_000, 999) . "0\r\n\r\n", $c)->status, 401,
        "$path: refused, kept alive, $_" for 1 .. 3;
    is $c->request(POST => $path, @with, body => 'abc')->body, sum('abc'),
        "$path: the connection is still good";
    $c->close;

    # Too large.
    for my $case ([ [ 'Content-Length' => $over ], '' ],
        [ \@chunks, sprintf("%x\r\n", $over) . 'x' x 1000 ])
    {
        is_problem(answer(POST => $path, [ @with, headers => $case->[0] ], $case->[1]), 413,
            'GATEWAY_REQUEST_TOO_LARGE', "$path: $case->[0][0], over the limit");
    }

    # Expect: 100-continue.
    my @expect = (headers => [ Expect => '100-continue', 'Content-Length' => 5 ]);
    my $res = answer(POST => $path, \@expect, '');
    is_problem($res, 401, 'GATEWAY_TOKEN_MISSING', "$path, Expect, no token");
    is scalar($res->interim), 0, "$path, Expect, no token: no 100";
    $c = connected();
    $c->send(http_request_bytes(POST => $path, @with, @expect));
    $c->_fill(time + 60) until $c->{buf} =~ /\r\n\r\n/ || $c->{eof};
    like $c->{buf}, qr{\AHTTP/1\.1 100 Continue\r\n\r\n\z},
        "$path, Expect, a token: 100 before the body";
    $c->send('12345');
    is $c->read_response->body, sum('12345'), "$path, Expect: and then 200";
    $c->close;
}

# Unbuffered: the upstream has the beginning before the end is sent.

for my $case ([ [ 'Content-Length' => 2000 ], 'a' x 1000, 'b' x 1000 ],
    [ \@chunks, chunked('a' x 1000, 1000), chunked('b' x 1000, 1000) . "0\r\n\r\n" ])
{
    my ($headers, @half) = @$case;
    unlink $t->dir . '/sink.bytes';
    $c = connected();
    $c->send(http_request_bytes(POST => '/unbuffered', @with, headers => $headers) . $half[0]);
    ok eventually(sub { arrived() == 1000 }), "$headers->[0]: half has arrived";
    $c->send($half[1]);
    is $c->read_response->body, sum('a' x 1000 . 'b' x 1000), "$headers->[0]: and then all";
    $c->close;
}

# Bodies to the client.

for my $path ('/source', '/source?chunked') {
    is sum(http_get($port, $path, @with)->body), sum($big), "$path: a large answer is whole";
    is http_get($port, $path)->status, 401, "$path: no token";
}
is sum(do { local $/; readline curl("$h2/source") }), sum($big), 'HTTP/2: a large answer is whole';

$t->done;
