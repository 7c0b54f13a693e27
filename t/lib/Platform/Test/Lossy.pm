package Platform::Test::Lossy;

# A network that loses answers: every so many of those that come back through
# it, the request having been done, is thrown away with its connection.

use v5.36;

use Errno qw(EAGAIN EINTR);
use IO::Socket::INET;

use Platform::Test::Process;

# start(t, port to listen on, port behind it, every): a process that goes on until
# the test ends.
sub start ($class, $t, $port, $behind, $every) {
    my $listener = IO::Socket::INET->new(LocalAddr => '127.0.0.1',
        LocalPort => $port, Listen => 1024, ReuseAddr => 1)
        or die "listen on $port: $!\n";
    return $t->track(Platform::Test::Process->start(
        name => 'lossy', dir => $t->dir, log => $t->dir . '/lossy.log',
        code => sub { _run($listener, $behind, $every) },
        ok_status => ['any']));
}

sub _run ($listener, $behind, $every) {
    local $SIG{PIPE} = 'IGNORE';
    my (%peer, $answers);
    while (1) {
        my $read = '';
        vec($read, fileno $_, 1) = 1 for $listener, map { $_->{fh} } values %peer;
        select $read, undef, undef, undef;
        if (vec($read, fileno $listener, 1)) {
            my $client = $listener->accept or next;
            my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                PeerPort => $behind) or next;
            my ($c, $s) = map { { fh => $_, buf => '' } } $client, $server;
            @$c{qw(to)} = ($s);
            @$s{qw(to answers)} = ($c, 1);
            $peer{ fileno $client } = $c;
            $peer{ fileno $server } = $s;
        }
        for my $fd (keys %peer) {
            my $p = $peer{$fd} // next;
            next unless vec($read, $fd, 1);
            my $n = sysread $p->{fh}, $p->{buf}, 65536, length $p->{buf};
            next if !defined $n && ($! == EAGAIN || $! == EINTR);
            my $done = !$n;
            if ($n && (!$p->{answers} || _whole($p->{buf}))) {
                $done = $p->{answers} && ++$answers % $every == 0;
                syswrite $p->{to}{fh}, $p->{buf} if !$done;
                $p->{buf} = '';
            }
            next unless $done;
            delete $peer{ fileno $_->{fh} } for $p, $p->{to};
            close $_->{fh} for $p, $p->{to};
        }
    }
}

# An answer to its end, as nginx sends it.
sub _whole {
    my ($head, $body) = split /\r\n\r\n/, $_[0], 2;

    return 0 unless defined $body;
    return length $body >= $1 if $head =~ /^Content-Length: *(\d+)/im;
    return $body =~ /(?:\A|\r\n)0\r\n\r\n\z/;
}

1;
