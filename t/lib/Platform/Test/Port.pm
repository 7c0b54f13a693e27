package Platform::Test::Port;

# TCP ports of 127.0.0.1 that belong to one test for as long as it runs.
#
# A port is reserved by binding an abstract Unix socket named after it, so
# tests running side by side never pick the same one, it stays ours while
# nothing listens on it, and the kernel gives it back however the test ends.
# The range lies below the ephemeral ports: no outgoing connection takes one.

use v5.36;

use Errno qw(EADDRINUSE);
use IO::Socket::INET;
use List::Util qw(shuffle);
use Socket qw(AF_UNIX SOCK_STREAM SOMAXCONN pack_sockaddr_un);

my @held;

# A free port, reserved until this process ends.
sub reserve {
    for my $port (shuffle 20_000 .. 29_999) {
        socket(my $hold, AF_UNIX, SOCK_STREAM, 0) or die "socket: $!\n";
        if (!bind $hold, pack_sockaddr_un("\0platform-test-port-$port")) {
            next if $! == EADDRINUSE;
            die "bind of an abstract Unix socket: $!\n";
        }
        next unless eval { listener($port) };
        push @held, $hold;
        return $port;
    }
    die "no free port\n";
}

# A listening socket on a reserved port.
sub listener ($port) {
    return IO::Socket::INET->new(LocalAddr => '127.0.0.1', LocalPort => $port,
        Listen => SOMAXCONN, ReuseAddr => 1) || die "listen on 127.0.0.1:$port: $!\n";
}

1;
