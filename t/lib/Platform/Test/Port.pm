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
use Socket qw(AF_UNIX SOCK_STREAM SOMAXCONN pack_sockaddr_un);

use constant { FIRST => 20_000, LAST => 29_999 };

my @held;

# A free port, reserved until this process ends.
sub reserve {
    my $span = LAST - FIRST + 1;
    my $start = int rand $span;

    for my $i (0 .. $span - 1) {
        my $port = FIRST + ($start + $i) % $span;
        my $hold = hold($port) or next;
        next unless is_free($port);
        push @held, $hold;
        return $port;
    }

    die "no free port between ${\FIRST} and ${\LAST}\n";
}

sub hold ($port) {
    socket(my $fh, AF_UNIX, SOCK_STREAM, 0) or die "socket: $!\n";
    return $fh if bind $fh, pack_sockaddr_un("\0platform-test-port-$port");
    return if $! == EADDRINUSE;
    die "bind of an abstract Unix socket: $!\n";
}

sub is_free ($port) {
    my $s = IO::Socket::INET->new(
        LocalAddr => '127.0.0.1',
        LocalPort => $port,
        Listen    => 1,
        ReuseAddr => 1,
    );
    return defined $s;
}

# A listening socket on a reserved port.
sub listener ($port) {
    return IO::Socket::INET->new(
        LocalAddr => '127.0.0.1',
        LocalPort => $port,
        Listen    => SOMAXCONN,
        ReuseAddr => 1,
    ) || die "listen on 127.0.0.1:$port: $!\n";
}

1;
