package Platform::Test::Identity;

# One identity-fcgi process with an environment of its own.

use v5.36;

use IO::Socket::INET;
use IO::Socket::UNIX;
use Platform::Test::Env qw(json slurp);
use Platform::Test::Process;

our @ISA = qw(Platform::Test::Daemon);

# dir, name, env => {...} (all of it).  Waits until it listens.
sub new ($class, %o) {
    return bless({ %o, log => "$o{dir}/$o{name}.log" }, $class)->start;
}

sub start ($self) {
    my ($dir, $name) = @$self{qw(dir name)};
    return $self->launch(sub { $self->_listens }, log => $self->{log},
        env => { %{ $self->{env} },
            Platform::Test::Env::mode_env($dir, name => $name, leaks => 1) },
        cmd => [ _at_ease(), Platform::Test::Env::mode_prefix($dir, $name),
            Platform::Test::Env::identity(), @{ $self->{args} // [] } ]);
}

# The service hashes at a niceness of 10 more than its own, so on a busy machine a
# login may take longer than a request may.  If the test is allowed to, it starts the
# service at -10: then hashes have the priority of other processes.  Benchmarks do not.
our $AS_INSTALLED;
my @nice;

sub _at_ease {
    return 'env' if $AS_INSTALLED;
    @nice = `nice -n -10 true 2>&1` eq '' ? (qw(nice -n -10)) : ('env') if !@nice;
    return @nice;
}

sub _listens ($self) {
    return defined($self->address =~ m{^(.*):(\d+)$}
        ? IO::Socket::INET->new(PeerAddr => $1, PeerPort => $2)
        : IO::Socket::UNIX->new(Peer => $self->address));
}

# Where it listens: a path or host:port.
sub address ($self) { return $self->{env}{IDENTITY_LISTEN} }

# The same for nginx's fastcgi_pass or an upstream's server.
sub nginx_address ($self) { return $self->address =~ s{^/}{unix:/}r }

sub log_text ($self) { return slurp($self->{log}) // '' }

# Its log lines as decoded JSON; dies if one is not.  The last one may be
# half written.
sub log_lines ($self) { return map { json()->utf8->decode($_) } $self->log_text =~ /^(.*)\n/mg }

1;
