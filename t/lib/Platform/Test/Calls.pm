package Platform::Test::Calls;

# Many HTTP clients in one process, fast: each has one call under way at a time, over
# a connection that it keeps to each port.  (Platform::Test::Load is simpler, for one
# port.)  Times are of the monotonic clock.

use v5.36;

use IO::Socket::INET;
use Socket qw(IPPROTO_TCP TCP_NODELAY);
use Time::HiRes qw(CLOCK_MONOTONIC clock_gettime);

use Platform::Test::Response;

sub now { return clock_gettime(CLOCK_MONOTONIC) }

# clients => how many; rate => calls begun a second, at most; timeout => seconds until
# a call counts as not answered.
sub new ($class, %o) {
    return bless { timeout => 12, rate => 1e9, %o, busy => {}, begun => 0,
        idle => [ map { { number => $_, to => {} } } 1 .. $o{clients} ] }, $class;
}

sub begun ($self) { return $self->{begun} }

# Runs until $next gives undef.  It gives { port, bytes, ... }, or 0 for nothing by now;
# $done->(that, status (0: no answer came), body, begin, end) is told of its end.
sub run ($self, $next, $done) {
    local $SIG{PIPE} = 'IGNORE';
    my ($since, $before, $read, $more, $looked) = (now(), $self->{begun}, '', 1, now());
    while ($more || %{ $self->{busy} }) {
        my $may = (now() - $since) * $self->{rate} - ($self->{begun} - $before);
        while ($more && $may-- > 0 && @{ $self->{idle} }) {
            my $request = $next->();
            $more = 0 if !defined $request;
            last if !$request;
            $self->_begin(shift @{ $self->{idle} }, $request, \$read, $done);
        }
        my $n = select my $ready = $read, undef, undef, 0.005;
        my $look = now() > $looked + 0.5;
        $looked = now() if $look;
        for my $c ($n > 0 || $look ? values %{ $self->{busy} } : ()) {
            my $answered = $n > 0 && vec($ready, fileno $c->{fh}, 1) && $self->_take($c);
            next if !$answered && !($look && now() > $c->{begin} + $self->{timeout});
            vec($read, fileno $c->{fh}, 1) = 0;
            $self->_end($c, $answered, $done);
        }
    }
}

sub _begin ($self, $c, $request, $read, $done) {
    $self->{begun}++;
    @$c{qw(request buf begin)} = ($request, '', now());
    my $fh = $c->{fh} = $c->{to}{ $request->{port} } //= _connect($request->{port});
    return $self->_end($c, 0, $done) if !$fh;
    syswrite $fh, $request->{bytes};
    vec($$read, fileno $fh, 1) = 1;
    $self->{busy}{ $c->{number} } = $c;
}

sub _connect ($port) {
    my $fh = IO::Socket::INET->new(PeerAddr => '127.0.0.1', PeerPort => $port) // return undef;
    setsockopt $fh, IPPROTO_TCP, TCP_NODELAY, 1;
    return $fh;
}

# Reads what there is: true if that is all.
sub _take ($self, $c) {
    my $eof = !sysread $c->{fh}, $c->{buf}, 65536, length $c->{buf};
    my $head = index $c->{buf}, "\r\n\r\n";
    if ($head > 0 && substr($c->{buf}, 0, $head) =~ /^Content-Length: (\d+)/mi) {
        return $eof || length $c->{buf} >= $head + 4 + $1;
    }
    return $eof || $head > 0 && defined Platform::Test::Response->whole($c->{buf});
}

sub _end ($self, $c, $answered, $done) {
    my $end = now();
    my $res = $answered ? Platform::Test::Response->whole($c->{buf}) : undef;
    my $request = delete $c->{request};
    if (!$res || ($res->header('Connection') // '') eq 'close') {
        my $fh = delete $c->{to}{ $request->{port} };
        close $fh if $fh;
    }
    delete $c->{fh};
    delete $self->{busy}{ $c->{number} };
    push @{ $self->{idle} }, $c;
    $done->($request, $res ? ($res->status, $res->body) : (0, ''), $c->{begin}, $end);
}

1;
