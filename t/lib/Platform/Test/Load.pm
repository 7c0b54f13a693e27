package Platform::Test::Load;

# Many HTTP clients in one process: each keeps one connection, sends its next
# request when the last one has been answered, and is never waited for.

use v5.36;

use Errno qw(EAGAIN EINPROGRESS EINTR);
use IO::Socket::INET;
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(time);

use Platform::Test::Http;

# port => N; clients => how many; timeout => seconds until a request counts as
# never answered.
sub new ($class, %o) {
    my @clients = map { { number => $_, buf => '', out => '' } } 0 .. $o{clients} - 1;
    return bless { timeout => 30, %o, all => \@clients }, $class;
}

# Runs until $next->($client) gives undef to everybody that is idle.  It gives
# { path, json, token, headers, ... }, which $done->($request, $answer) gets back when
# it is over; the answer has status (0: none came), code, body, sent, took.  It
# is a POST unless method says otherwise.  { wait => SECONDS } is asked again.
# A client that got a 5xx or nothing pauses before its next request.
sub run ($self, $next, $done) {
    $self->{done} = $done;
    local $SIG{PIPE} = 'IGNORE';
    while (1) {
        my ($read, $write, $pausing, %by_fd) = ('', '');
        for my $c (@{ $self->{all} }) {
            if (!$c->{request}) {
                if (($c->{pause_until} // 0) > time) {
                    $pausing = 1;
                    next;
                }
                my $request = $next->($c) or next;
                if ($request->{wait}) {
                    $c->{pause_until} = time + $request->{wait};
                    $pausing = 1;
                    next;
                }
                $self->_begin($c, $request);
            }
            my $fd = fileno $c->{fh};
            $by_fd{$fd} = $c;
            vec($read, $fd, 1) = 1;
            vec($write, $fd, 1) = 1 if length $c->{out};
        }
        last unless %by_fd || $pausing;
        $self->_wait($read, $write, \%by_fd);
    }
}

sub _wait ($self, $read, $write, $by_fd) {
    my $n = select($read, $write, undef, 0.01);
    for my $fd ($n > 0 ? keys %$by_fd : ()) {
        my $c = $by_fd->{$fd};
        $self->_write($c) if vec($write, $fd, 1);
        $self->_read($c) if vec($read, $fd, 1) && $c->{request};
    }
    my $now = time;
    for my $c (values %$by_fd) {
        next unless $c->{request} && $now - $c->{sent} > $self->{timeout};
        $self->_end($c, undef);
    }
}

sub _begin ($self, $c, $request) {
    $c->{fh} //= IO::Socket::INET->new(
        PeerAddr => '127.0.0.1',
        PeerPort => $self->{port},
    ) // die "connect to $self->{port}: $!\n";
    $c->{fh}->blocking(0);
    setsockopt $c->{fh}, IPPROTO_TCP, TCP_NODELAY, 1;
    @$c{qw(request sent buf)} = ($request, time, '');
    $c->{out} = http_request_bytes(
        $request->{method} // 'POST', $request->{path},
        connection => 'keep-alive', %$request{qw(json token headers)});
    $self->_write($c);
}

sub _write ($self, $c) {
    return if $c->{out} eq '';
    my $n = syswrite $c->{fh}, $c->{out};
    if (defined $n) {
        substr $c->{out}, 0, $n, '';
    }
    elsif ($! != EAGAIN && $! != EINTR) {
        $c->{out} = '';    # reading tells why
    }
}

sub _read ($self, $c) {
    my $n = sysread $c->{fh}, $c->{buf}, 65536, length $c->{buf};
    return if !defined $n && ($! == EAGAIN || $! == EINTR);
    return $self->_end($c, undef) unless $n;

    my ($head, $body) = split /\r\n\r\n/, $c->{buf}, 2;
    return unless defined $body;
    if ($head =~ /^Content-Length: *(\d+)/im) {
        return if length $body < $1;
    }
    elsif ($head =~ /^Transfer-Encoding: *chunked/im) {
        return unless $body =~ s/\r\n0\r\n\r\n\z//;
        $body =~ s/\A[0-9a-f]+\r\n//i;    # one chunk, as nginx sends it
    }
    my ($status) = $head =~ m{\AHTTP/1\.1 (\d+)};
    my ($code) = $body =~ /"code":"(\w+)"/;
    $self->_end($c, { status => $status, code => $code // '',
        body => $body, close => scalar $head =~ /^Connection: close/im });
}

sub _end ($self, $c, $answer = undef) {
    my $request = delete $c->{request};
    if (!$answer || $answer->{close}) {
        close delete $c->{fh};
    }
    $c->{out} = '';
    $answer //= { status => 0, code => '', body => '' };
    @$answer{qw(sent took)} = ($c->{sent}, time - $c->{sent});
    $c->{pause_until} = time + 0.1 if $answer->{status} == 0 || $answer->{status} >= 500;
    $self->{done}->($request, $answer);
}

1;
