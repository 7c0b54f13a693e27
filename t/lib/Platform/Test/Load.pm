package Platform::Test::Load;

# Many HTTP clients in one process: each keeps one connection, and sends its next
# request when the last one has been answered.  No client waits for another.

use v5.36;

use IO::Socket::INET;
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(time);

use Platform::Test::Http;

# port => N; clients => how many; timeout => seconds until a request counts as
# never answered.
sub new ($class, %o) {
    return bless { timeout => 30, %o,
        all => [ map { { number => $_ } } 0 .. $o{clients} - 1 ] }, $class;
}

# Runs until $next->($client) gives undef to everybody that is idle.  It gives
# { path, json, token, headers, ... }, which $done->($request, $answer) gets back when
# it is over; the answer has status (0: none came), code, body, sent, took, reused (the
# connection had served before: one without an answer may have been closed idle).  It
# is a POST unless method says otherwise.  { wait => SECONDS } is asked again.
# A client that got a 5xx or nothing pauses before its next request.
sub run ($self, $next, $done) {
    local $SIG{PIPE} = 'IGNORE';
    while (1) {
        my ($read, $pausing) = ('');
        for my $c (@{ $self->{all} }) {
            if (!$c->{request} && ($c->{pause_until} // 0) <= time) {
                my $request = $next->($c) or next;
                $self->_begin($c, $request) if !$request->{wait};
                $c->{pause_until} = time + ($request->{wait} // 0);
            }
            $pausing = 1 if !$c->{request};
            vec($read, fileno $c->{fh}, 1) = 1 if $c->{request} && $c->{fh};
        }
        my @busy = grep { $_->{request} } @{ $self->{all} };
        last unless @busy || $pausing;
        my $n = select $read, undef, undef, 0.01;
        for my $c (@busy) {
            my ($ended, $res) = !$c->{fh};
            if (!$ended && $n > 0 && vec $read, fileno $c->{fh}, 1) {
                $ended = !sysread $c->{fh}, $c->{buf}, 65536, length $c->{buf};
                $res = Platform::Test::Response->whole($c->{buf});
            }
            $done->(_end($c, $res))
                if $res || $ended || time - $c->{sent} > $self->{timeout};
        }
    }
}

sub _begin ($self, $c, $request) {
    $c->{reused} = defined $c->{fh};
    $c->{fh} //= IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $self->{port});
    @$c{qw(request sent buf)} = ($request, time, '');
    my $fh = $c->{fh} // return;    # nobody listens: never answered
    setsockopt $fh, IPPROTO_TCP, TCP_NODELAY, 1;
    syswrite $fh, http_request_bytes($request->{method} // 'POST', $request->{path},
        connection => 'keep-alive', %$request{qw(json token headers)});
}

sub _end ($c, $res) {
    my %answer = (status => 0, code => '', body => '', sent => $c->{sent},
        took => time - $c->{sent}, reused => $c->{reused});
    if ($res) {
        @answer{qw(status body)} = ($res->status, $res->body);
        $answer{code} = $1 if $res->body =~ /"code":"(\w+)"/;
    }
    delete $c->{fh} if !$res || ($res->header('Connection') // '') eq 'close';
    $c->{pause_until} = time + 0.1 if $answer{status} == 0 || $answer{status} >= 500;
    return (delete $c->{request}, \%answer);
}

1;
