package Platform::Test::Nginx;

# One nginx (master and workers) with the configuration a test wrote.

use v5.36;

use Time::HiRes qw(sleep time);

use Platform::Test::Env;
use Platform::Test::Process;

# dir, name, conf => path, prefix => directory for its own files; pidfile,
# log, access => where the configuration puts those; args => [further ones].
sub new ($class, %o) {
    my $self = bless {
        pidfile => "$o{dir}/$o{name}.pid",
        log     => "$o{dir}/$o{name}.error.log",
        access  => "$o{dir}/$o{name}.access.log",
        args    => [],
        %o,
    }, $class;
    mkdir $self->{prefix};
    return $self;
}

sub _command ($self, @args) {
    return (Platform::Test::Env::nginx(), '-p', "$self->{prefix}/",
        '-e', $self->{log}, '-c', $self->{conf}, @{ $self->{args} }, @args);
}

sub _env ($self) {
    my %env = Platform::Test::Env::mode_env($self->{dir},
        name => $self->{name}, preload => 1);
    my $clock = $self->{clock} or return %env;
    my $preload = join ':', grep {defined} $env{LD_PRELOAD}, $clock->{so};
    return (%env, LD_PRELOAD => $preload, CLOCK_AHEAD => $clock->{file});
}

# nginx -t: (whether it passed, what it said).
sub test ($self) {
    my @cmd = $self->_command('-t');
    my $pid = open(my $fh, '-|') // die "fork: $!\n";
    if ($pid == 0) {
        open STDERR, '>&', \*STDOUT;
        %ENV = (%ENV, $self->_env);
        exec @cmd or POSIX::_exit(127);
    }
    my $out = do { local $/; <$fh> } // '';
    close $fh;
    my $ok = $? == 0 ? 1 : 0;
    return ($ok, $out);
}

sub start ($self) {
    unlink $self->{pidfile};
    my @prefix = Platform::Test::Env::mode_prefix($self->{dir}, $self->{name});
    $self->{process} = Platform::Test::Process->start(
        name => $self->{name},
        dir  => $self->{dir},
        log  => "$self->{dir}/$self->{name}.out.log",
        env  => { $self->_env },
        cmd  => [ @prefix, $self->_command ],
        stop_wait => 60 * Platform::Test::Env::scale(),
    );

    my $until = time + 60 * Platform::Test::Env::scale();
    until (-s $self->{pidfile}) {
        die "$self->{name} did not start:\n" . $self->_said
            if time > $until || !$self->{process}->alive;
        sleep 0.01;
    }
    $self->_wait_workers($until);
    return $self;
}

sub _said ($self) {
    return _slurp("$self->{dir}/$self->{name}.out.log") . _slurp($self->{log});
}

# Worker processes of now.
sub workers ($self) {
    my $pid = $self->{process}->pid;
    return grep { _title($_) =~ /worker process(?! is shutting)/ }
        split ' ', _slurp("/proc/$pid/task/$pid/children");
}

# Under valgrind the title does not show; the children are all there is.
sub _title ($pid) {
    return 'worker process' if Platform::Test::Env::valgrind();
    return Platform::Test::Process::command_of($pid);
}

# Waits until all of the configuration's workers serve: those that have their
# title, which comes last.  A single process has none.
sub _wait_workers ($self, $until) {
    my $conf = _slurp($self->{conf});
    return if $conf =~ /^\s*master_process\s+off;/m;
    my ($count) = $conf =~ /^\s*worker_processes\s+(\w+);/m;
    ($count) = split ' ', `getconf _NPROCESSORS_ONLN` if ($count //= 1) eq 'auto';
    while (1) {
        return if (my @serving = $self->workers) >= $count;
        die "$self->{name} has not all of its workers:\n" . $self->_said
            if time > $until || !$self->{process}->alive;
        sleep 0.01;
    }
}

# Reads the configuration file again; true when new workers serve and the
# old ones accept no more.
sub reload ($self) {
    my %old = map { $_ => 1 } $self->workers;
    my $from = length $self->error_log;
    $self->{process}->signal('HUP');
    my $until = time + 60 * Platform::Test::Env::scale();
    while (time < $until) {
        my $said = substr $self->error_log, $from;
        return 0 if $said =~ /\[emerg\]/;
        delete @old{ $said =~ /(\d+)#\d+: gracefully shutting down/g };
        if (!grep { kill 0, $_ } keys %old) {
            $self->_wait_workers($until);
            return 1;
        }
        sleep 0.01;
    }
    die "$self->{name} did not reload\n";
}

sub signal { my $self = shift; return $self->{process}->signal(@_) }

sub pid { return $_[0]{process}->pid }

sub process { return $_[0]{process} }

sub stop ($self, $signal = undef) {
    my $process = delete $self->{process} or return ();
    $self->_wait_leaving if ($signal // 'TERM') eq 'TERM';
    return $process->stop($signal);
}

# Workers that a reload sent away may linger for their last connections; told
# to terminate then, they would raise alerts about those.
sub _wait_leaving ($self) {
    my @leaving = $self->error_log =~ /(\d+)#\d+: gracefully shutting down/g;
    my $until = time + 60;
    while (time < $until && grep { kill 0, $_ } @leaving) {
        sleep 0.02;
    }
}

sub error_log { return _slurp($_[0]{log}) }

sub access_log { return _slurp($_[0]{access}) }

# Access log lines as decoded JSON; waits until there are at least $n.  nginx
# writes them once the answer is sent, and the last one may be half written.
sub access_lines ($self, $n = undef) {
    my $until = time + 60 * Platform::Test::Env::scale();
    while (1) {
        my $lines = $self->_decoded;
        return map { +{%$_} } @$lines if @$lines >= ($n // 0) || time > $until;
        sleep 0.02;
    }
}

# Each line is decoded once.
sub _decoded ($self) {
    require JSON::PP;
    my $json = JSON::PP->new->utf8;
    my $log = $self->access_log;
    my $had = $self->{decoded} //= { bytes => 0, lines => [] };
    @$had{qw(bytes lines)} = (0, []) if length $log < $had->{bytes};
    my $end = rindex($log, "\n") + 1;
    push @{ $had->{lines} }, map { $json->decode($_) }
        split /\n/, substr $log, $had->{bytes}, $end - $had->{bytes};
    $had->{bytes} = $end;
    return $had->{lines};
}

# Waits until the error log matches; true when it did within $seconds.
sub wait_log ($self, $pattern, $seconds = undef) {
    my $until = time + ($seconds // 60) * Platform::Test::Env::scale();
    until ($self->error_log =~ $pattern) {
        return 0 if time > $until;
        sleep 0.02;
    }
    return 1;
}

sub _slurp ($file) {
    open my $fh, '<', $file or return '';
    local $/;
    return <$fh> // '';
}

1;
