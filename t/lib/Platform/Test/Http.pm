package Platform::Test::Http;

# A raw HTTP/1.x client over one socket: sends the bytes it is given, reads
# responses exactly as they come, every wait bounded.

use v5.36;

use Errno qw(EAGAIN EINTR);
use IO::Select;
use IO::Socket::INET;
use IO::Socket::UNIX;
use JSON::PP ();
use List::Util qw(pairmap);
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(time);

use Platform::Test::Response;

use Exporter qw(import);
our @EXPORT = qw(http http_get http_post http_raw http_request_bytes http_parallel);

# Seconds; long, since a busy machine may answer slowly.
our $TIMEOUT = 90;

# port => N (of 127.0.0.1) or path => Unix socket, or fh: an open one; timeout => seconds.
sub new ($class, %o) {
    my $timeout = $o{timeout} // $TIMEOUT;
    my $fh = $o{fh} // ($o{path} ? IO::Socket::UNIX->new(Peer => $o{path})
        : IO::Socket::INET->new(PeerAddr => $o{host} // '127.0.0.1', PeerPort => $o{port},
            LocalAddr => $o{from}, Timeout => $timeout));
    die 'connect to ' . ($o{path} // $o{port}) . ": $!\n" unless $fh;

    $fh->setsockopt(IPPROTO_TCP, TCP_NODELAY, 1) unless $o{path};
    $fh->blocking(0);
    return bless { fh => $fh, buf => '', timeout => $timeout, eof => 0 }, $class;
}

sub send ($self, $bytes) {
    my $until = time + $self->{timeout};
    local $SIG{PIPE} = 'IGNORE';
    while (length $bytes) {
        my $n = syswrite $self->{fh}, $bytes;
        if ($n) {
            substr $bytes, 0, $n, '';
        }
        elsif ($! == EAGAIN) {
            my $left = $until - time;
            die "timeout while sending\n" if $left <= 0;
            IO::Select->new($self->{fh})->can_write($left);
        }
        elsif ($! != EINTR) {
            return 0;
        }
    }
    return 1;
}

# Reads some more; false at the end of the stream.
sub _fill ($self, $until) {
    return 0 if $self->{eof};
    while (1) {
        my $n = sysread $self->{fh}, $self->{buf}, 65536, length $self->{buf};
        return 1 if $n;
        return !($self->{eof} = 1) if defined $n || $! != EAGAIN && $! != EINTR;
        my $left = $until - time;
        die "timeout while reading, have: " . substr($self->{buf}, 0, 200) . "\n"
            if $left <= 0;
        IO::Select->new($self->{fh})->can_read($left);
    }
}

sub _have ($self, $length, $until) {
    1 while length $self->{buf} < $length && $self->_fill($until);
    return length $self->{buf} >= $length;
}

# The next response, or undef when the peer closed without one.  head => 1:
# the request was a HEAD.  Interim (1xx) responses are kept in ->interim.
sub read_response ($self, %o) {
    my $until = time + ($o{timeout} // $self->{timeout});
    my @interim;

    while (1) {
        my $res = Platform::Test::Response->parse_head(\$self->{buf});
        if (!$res) {
            next if $self->_fill($until);
            return $self->{buf} eq '' ? undef
                : Platform::Test::Response->garbage(delete $self->{buf});
        }
        if ($res->status =~ /^1/ && $res->status != 101) {
            push @interim, $res;
            next;
        }
        $res->{interim} = \@interim;
        $res->read_body(\$self->{buf}, sub { $self->_fill($until) }, $o{head});
        return $res;
    }
}

# Everything until the peer closes.
sub read_all ($self) {
    my $until = time + $self->{timeout};
    1 while $self->_fill($until);
    return delete($self->{buf}) // '';
}

# Sends one request (arguments as http()) and reads its response; the
# connection stays open.
sub request ($self, $method, $path, %o) {
    $self->send(http_request_bytes($method, $path, connection => 'keep-alive', %o));
    return $self->read_response(head => $method eq 'HEAD');
}

# Whether the peer has closed (after all buffered bytes were read).
sub closed ($self, $seconds = undef) {
    my $more = eval { $self->_fill(time + ($seconds // $self->{timeout})) };
    return $self->{eof} && $self->{buf} eq '' ? 1 : 0;
}

# Ends the connection with a RST instead of a FIN.
sub reset ($self) {
    setsockopt $self->{fh}, Socket::SOL_SOCKET, Socket::SO_LINGER, pack('ii', 1, 0);
    close $self->{fh};
}

sub close ($self) { close $self->{fh} }

# The bytes of a request.  headers => [name => value, ...] in this order;
# body => bytes (adds Content-Length); json => data (adds Content-Type too);
# token => bearer token; cookie => string; host; connection; version.
sub http_request_bytes ($method, $path, %o) {
    my @h = (Host => $o{host} // 'localhost', Connection => $o{connection} // 'close',
        defined $o{token} ? (Authorization => "Bearer $o{token}") : (),
        defined $o{cookie} ? (Cookie => $o{cookie}) : ());
    my $body = $o{body};
    if (exists $o{json}) {
        $body = JSON::PP->new->utf8->canonical->allow_nonref->encode($o{json});
        push @h, 'Content-Type' => 'application/json';
    }
    push @h, @{ $o{headers} // [] }, defined $body ? ('Content-Length' => length $body) : ();

    return join "\r\n", "$method $path HTTP/" . ($o{version} // '1.1'),
        (pairmap { "$a: $b" } @h), '', $body // '';
}

# One request on a connection of its own: http($port, METHOD => $path, ...).
sub http ($port, $method, $path, %o) {
    my $c = Platform::Test::Http->new(port => $port, %o{qw(timeout from)});
    $c->send(http_request_bytes($method, $path, %o));
    return $c->read_response(head => $method eq 'HEAD');
}

sub http_get ($port, @request) { return http($port, 'GET', @request) }

sub http_post ($port, @request) { return http($port, 'POST', @request) }

# Sends the bytes and returns every byte that comes until the peer closes.
sub http_raw ($port, $bytes, %o) {
    my $c = Platform::Test::Http->new(port => $port, %o);
    $c->send($bytes);
    return $c->read_all;
}

# Many requests at once: [[$port, $bytes], ...].  All connect first, then all
# send, then all are read.  Returns responses in order; undef where none came.
sub http_parallel ($requests, %o) {
    my $until = time + ($o{timeout} // 3 * $TIMEOUT);
    my @c = map { Platform::Test::Http->new(port => $_->[0], %o) } @$requests;
    $c[$_]->send($requests->[$_][1]) for 0 .. $#c;
    return map { my $c = $_; eval { $c->read_response(timeout => $until - time) } } @c;
}

1;
