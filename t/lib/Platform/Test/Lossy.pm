package Platform::Test::Lossy;

# A network that loses answers: every so many of those that come back through
# it, the request having been done, is thrown away with its connection.

use v5.36;

use IO::Select;
use IO::Socket::INET;

use Platform::Test::Port;
use Platform::Test::Process;
use Platform::Test::Response;

# start(t, port to listen on, port behind it, every): a process that goes on until
# the test ends.
sub start ($class, $t, $port, $behind, $every) {
    my $listener = Platform::Test::Port::listener($port);
    return $t->track(Platform::Test::Process->start(name => 'lossy', dir => $t->dir,
        log => $t->dir . '/lossy.log', ok_status => ['any'],
        code => sub { _run($listener, $behind, $every) }));
}

sub _run ($listener, $behind, $every) {
    local $SIG{PIPE} = 'IGNORE';
    my (%peer, $answers);
    my $select = IO::Select->new($listener);
    while (my @ready = $select->can_read) {
        for my $fh (@ready) {
            if ($fh == $listener) {
                my $client = $listener->accept or next;
                my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                    PeerPort => $behind) or next;
                $peer{$client} = { to => $server };
                $peer{$server} = { to => $client, buf => '' };
                $select->add($client, $server);
                next;
            }
            my $p = $peer{$fh} // next;
            my $done = !sysread $fh, my $bytes, 65536;
            if (!$done && defined $p->{buf}) {
                $p->{buf} .= $bytes;
                next if !Platform::Test::Response->whole($p->{buf});
                $done = ++$answers % $every == 0;
                ($bytes, $p->{buf}) = ($p->{buf}, '');
            }
            syswrite $p->{to}, $bytes if !$done;
            next unless $done;
            $select->remove($fh, $p->{to});
            delete @peer{ $fh, $p->{to} };
            close $_ for $fh, $p->{to};
        }
    }
}

1;
