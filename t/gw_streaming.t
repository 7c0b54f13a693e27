# Bodies as they come: server-sent events, large and chunked bodies both ways,
# request buffering on and off, Expect: 100-continue; let in and refused.

use strict;
use warnings;
use Digest::MD5 qw(md5_hex);
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $t = Platform::Test->new;
my $key = jwt_key('a');
$t->issuer(body => jwks($key));

# The first event at once, the second when the test says so.
my $go = $t->dir . '/go';
my $events = $t->http_server(events => undef, protocol => sub {
    my ($fh, $self) = @_;

    $self->read_head($fh) // return;
    syswrite $fh, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n"
        . "Cache-Control: no-store\r\nConnection: close\r\n\r\n"
        . "data: first\n\n";
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
    my ($length) = $head =~ /^Content-Length: (\d+)/mi;
    my $state = $self->{dir} . '/sink.bytes';
    my $take = sub {
        $body .= substr $in, 0, $_[0], '';
        open my $out, '>', $state or die;
        print {$out} length $body;
        close $out;
    };
    $self->note({ head => $head });
    if (defined $length) {
        while (1) {
            $take->(length $in);
            last if length $body >= $length;
            $more->() or return;
        }
    }
    elsif ($head =~ /^Transfer-Encoding: chunked/mi) {
        while (1) {
            until ($in =~ /\r\n/) { $more->() or return }
            (my $size, $in) = split /\r\n/, $in, 2;
            $size = hex $size;
            while (length $in < $size + 2) { $more->() or return }
            $take->($size);
            substr $in, 0, 2, '';
            last if $size == 0;
        }
    }
    my $answer = length($body) . ' ' . md5_hex($body);
    syswrite $fh, "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: "
        . length($answer) . "\r\n\r\n$answer";
});

sub arrived { return $t->read_file('sink.bytes') || 0 }

# A large answer, in chunks or until the end of the connection.
my $big = join '', map { sprintf "%015d\n", $_ } 1 .. 400_000;
my $source = $t->http_server(source => undef, protocol => sub {
    my ($fh, $self) = @_;

    my $chunked = ($self->read_head($fh) // return) =~ m{\AGET /\S*chunked};
    my $out = "HTTP/1.1 200 OK\r\nConnection: close\r\n"
        . ($chunked ? "Transfer-Encoding: chunked\r\n" : '') . "\r\n";
    for (my $at = 0; $at < length $big; $at += 60_000) {
        my $part = substr $big, $at, 60_000;
        $out .= $chunked ? sprintf("%x\r\n%s\r\n", length $part, $part) : $part;
    }
    $out .= "0\r\n\r\n" if $chunked;
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

# Server-sent events: the first arrives while the second is not yet said.

is_problem(http_get($port, '/events'), 401, 'GATEWAY_TOKEN_MISSING', 'events, no token');
is $events->count, 0, 'nobody was asked';
my $c = Platform::Test::Http->new(port => $port);
$c->send(http_request_bytes(GET => '/events', @with, headers => [ Accept => 'text/event-stream' ]));
$c->_fill(time + 60) until $c->{buf} =~ /first\n\n/ || $c->{eof};
like $c->{buf}, qr/data: first\n\n/, 'the first event arrives';
unlike $c->{buf}, qr/second/, 'before the end';
like $c->{buf}, qr/^X-Request-Id: /m, 'with its id';
ok !$c->{eof}, 'and the stream stays open';
$t->write_file('go', '');
like $c->read_all, qr/data: second\n\n/, 'the second follows';
unlink $go;

open my $curl, '-|', 'curl', '-s', '-N', '-m', 60 * $t->scale,
    '--http2-prior-knowledge', '-H', "Authorization: Bearer $with[1]",
    'http://127.0.0.1:' . $t->port('h2') . '/events' or die "curl: $!\n";
is scalar(<$curl>), "data: first\n", 'HTTP/2: the first event arrives';
$t->write_file('go', '');
is join('', <$curl>), "\ndata: second\n\n", 'HTTP/2: the second follows';
close $curl;

# Bodies to the upstream.

my $body = join '', map { sprintf "%07x\n", $_ } 1 .. 262_144;
my $sum = length($body) . ' ' . md5_hex($body);

sub chunked {
    my ($data, $size) = @_;

    my $out = '';
    for (my $at = 0; $at < length $data; $at += $size) {
        my $part = substr $data, $at, $size;
        $out .= sprintf "%x\r\n%s\r\n", length $part, $part;
    }
    return $out;
}

for my $path (qw(/buffered /unbuffered)) {
    is http_post($port, $path, @with, body => $body)->body, $sum, "$path: a large body is whole";
    is http_post($port, $path, @with, version => '1.0', body => 'x' x 9)
        ->body, '9 ' . md5_hex('x' x 9), "$path: HTTP/1.0";
    is http_post($port, $path, @with, body => '')->body, '0 ' . md5_hex(''), "$path: an empty body";

    $c = Platform::Test::Http->new(port => $port);
    $c->send(http_request_bytes(POST => $path, @with,
        headers => [ 'Transfer-Encoding' => 'chunked' ])
        . chunked($body, 7001) . "0\r\n\r\n");
    is $c->read_response->body, $sum, "$path: a large chunked body is whole";
    $c->close;

    # Refused: at once, whatever of the body there is.
    my $asked = $sink->count;
    for my $how ('Content-Length', 'chunked') {
        $c = Platform::Test::Http->new(port => $port);
        my @h = $how eq 'chunked' ? ('Transfer-Encoding' => 'chunked')
            : ('Content-Length' => length $body);
        $c->send(http_request_bytes(POST => $path, headers => \@h)
            . ($how eq 'chunked' ? "1000\r\n" : '') . 'x' x 1000);
        is_problem($c->read_response, 401, 'GATEWAY_TOKEN_MISSING',
            "$path, $how, no token, the body not yet sent");
        $c->close;

        $c = Platform::Test::Http->new(port => $port);
        $c->send(http_request_bytes(POST => $path, headers => \@h,
            connection => 'keep-alive')
            . ($how eq 'chunked' ? chunked($body, 7001) . "0\r\n\r\n" : $body));
        is $c->read_response->status, 401, "$path, $how, no token, all sent";
        $c->close;
    }
    is $sink->count, $asked, "$path: nobody was asked";

    # The body that is read away leaves the connection as it was.
    $c = Platform::Test::Http->new(port => $port);
    for my $n (1 .. 3) {
        $c->send(http_request_bytes(POST => $path, connection => 'keep-alive',
            headers => [ 'Transfer-Encoding' => 'chunked' ])
            . chunked('x' x 30_000, 999) . "0\r\n\r\n");
        is $c->read_response->status, 401, "$path: refused, kept alive, $n";
    }
    is $c->request(POST => $path, @with, body => 'abc')->body,
        '3 ' . md5_hex('abc'), "$path: the connection is still good";
    $c->close;

    # Too large.
    my $over = 8 * 1024 * 1024 + 1;
    $c = Platform::Test::Http->new(port => $port);
    $c->send(http_request_bytes(POST => $path, @with, headers => [ 'Content-Length' => $over ]));
    is_problem($c->read_response, 413, 'GATEWAY_REQUEST_TOO_LARGE',
        "$path: Content-Length over the limit");
    $c->close;
    $c = Platform::Test::Http->new(port => $port);
    $c->send(http_request_bytes(POST => $path, @with,
        headers => [ 'Transfer-Encoding' => 'chunked' ])
        . sprintf("%x\r\n", $over) . "x" x 1000);
    is_problem($c->read_response, 413, 'GATEWAY_REQUEST_TOO_LARGE',
        "$path: a chunk over the limit");
    $c->close;

    # Expect: 100-continue.
    my @expect = (headers => [ Expect => '100-continue', 'Content-Length' => 5 ]);
    $c = Platform::Test::Http->new(port => $port);
    $c->send(http_request_bytes(POST => $path, @expect));
    my $res = $c->read_response;
    is_problem($res, 401, 'GATEWAY_TOKEN_MISSING', "$path, Expect, no token");
    is scalar(@{ $res->{interim} }), 0, "$path, Expect, no token: no 100";
    $c->close;
    $c = Platform::Test::Http->new(port => $port);
    $c->send(http_request_bytes(POST => $path, @with, @expect));
    $c->_fill(time + 60) until $c->{buf} =~ /\r\n\r\n/ || $c->{eof};
    like $c->{buf}, qr{\AHTTP/1\.1 100 Continue\r\n\r\n\z},
        "$path, Expect, a token: 100 before the body";
    $c->send('12345');
    $res = $c->read_response;
    is $res->body, '5 ' . md5_hex('12345'), "$path, Expect: and then 200";
    $c->close;
}

# Unbuffered: the upstream has the beginning before the end is sent.

for my $how ('Content-Length', 'chunked') {
    unlink $t->dir . '/sink.bytes';
    $c = Platform::Test::Http->new(port => $port);
    $c->send(http_request_bytes(POST => '/unbuffered', @with, headers =>
        [ $how eq 'chunked' ? ('Transfer-Encoding' => 'chunked') : ('Content-Length' => 2000) ]));
    $c->send(($how eq 'chunked' ? "3e8\r\n" : '') . 'a' x 1000 . ($how eq 'chunked' ? "\r\n" : ''));
    ok eventually(sub { arrived() == 1000 }), "$how: half has arrived";
    $c->send(($how eq 'chunked' ? "3e8\r\n" : '') . 'b' x 1000
        . ($how eq 'chunked' ? "\r\n0\r\n\r\n" : ''));
    is $c->read_response->body, '2000 ' . md5_hex('a' x 1000 . 'b' x 1000), "$how: and then all";
    $c->close;
}

# Bodies to the client.

for my $path ('/source', '/source?chunked') {
    is md5_hex(http_get($port, $path, @with)->body), md5_hex($big),
        "$path: a large answer is whole";
    is http_get($port, $path)->status, 401, "$path: no token";
}
my $by_h2 = do {
    open my $fh, '-|', 'curl', '-s', '-m', 30 * $t->scale,
        '--http2-prior-knowledge', '-H', "Authorization: Bearer $with[1]",
        'http://127.0.0.1:' . $t->port('h2') . '/source' or die "curl: $!\n";
    local $/;
    <$fh>;
};
is md5_hex($by_h2), md5_hex($big), 'HTTP/2: a large answer is whole';

$t->done;
