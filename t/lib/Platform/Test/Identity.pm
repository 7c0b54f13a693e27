package Platform::Test::Identity;

# One identity-fcgi process with an environment of its own.

use v5.36;

use IO::Socket::INET;
use IO::Socket::UNIX;
use Time::HiRes qw(sleep time);

use Platform::Test::Env;
use Platform::Test::Process;

# dir, name, env => {...} (all of it).  Waits until it listens.
sub new ($class, %o) {
    my $self = bless { %o, log => "$o{dir}/$o{name}.log" }, $class;
    $self->start;
    return $self;
}

sub start ($self) {
    my $dir = $self->{dir};
    my $leaks = Platform::Test::Env::asan();
    $self->{process} = Platform::Test::Process->start(
        name => $self->{name},
        dir  => $dir,
        log  => $self->{log},
        env  => { %{ $self->{env} }, Platform::Test::Env::mode_env($dir,
            name => $self->{name}, leaks => 1) },
        cmd  => [
            _at_ease(),
            Platform::Test::Env::mode_prefix($dir, $self->{name}),
            Platform::Test::Env::identity(), @{ $self->{args} // [] },
        ],
        stop_wait => 60 * Platform::Test::Env::scale(),
    );

    my $until = time + 60 * Platform::Test::Env::scale();
    until ($self->_listens) {
        die "$self->{name} did not start:\n" . $self->log_text
            if time > $until || !$self->{process}->alive;
        sleep 0.02;
    }
    return $self;
}

# It hashes at a niceness of 10 more than its own, which on a busy machine makes
# a login take longer than a request may.  Where this test may raise that, hashes
# get as much of the processors as other processes do.  Not where it is measured.
our $AS_INSTALLED;
my @nice;

sub _at_ease {
    return 'env' if $AS_INSTALLED;
    @nice = `nice -n -10 true 2>&1` eq '' ? (qw(nice -n -10)) : ('env') if !@nice;
    return @nice;
}

sub _listens ($self) {
    my $address = $self->address;
    if ($address =~ m{^(.*):(\d+)$}) {
        return defined IO::Socket::INET->new(PeerAddr => $1, PeerPort => $2);
    }
    return defined IO::Socket::UNIX->new(Peer => $address);
}

# Where it listens: a path or host:port.
sub address { return $_[0]{env}{IDENTITY_LISTEN} }

# The same for nginx's fastcgi_pass or an upstream's server.
sub nginx_address ($self) {
    my $address = $self->address;
    return $address =~ m{^/} ? "unix:$address" : $address;
}

sub pid { return $_[0]{process}->pid }

sub process { return $_[0]{process} }

sub stop ($self, $signal = undef) {
    my $process = delete $self->{process} or return ();
    return $process->stop($signal);
}

sub log_text ($self) {
    open my $fh, '<', $self->{log} or return '';
    local $/;
    return <$fh> // '';
}

# Its log lines as decoded JSON; a line that is none dies.  The last one may be
# half written.
sub log_lines ($self) {
    require JSON::PP;
    my $json = JSON::PP->new->utf8;
    return map { $json->decode($_) } $self->log_text =~ /^(.*)\n/mg;
}

1;
