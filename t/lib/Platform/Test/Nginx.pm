package Platform::Test::Nginx;

# One nginx (master and workers) with the configuration a test wrote.

use v5.36;

use Platform::Test::Env qw(eventually json slurp);
use Platform::Test::Process;

our @ISA = qw(Platform::Test::Daemon);

# dir, name, conf => path, prefix => directory for its own files; pidfile,
# log, access => where the configuration puts those; args => [further ones]; binary =>
# another program.
sub new ($class, %o) {
    my $path = "$o{dir}/$o{name}";
    mkdir $o{prefix};
    return bless { pidfile => "$path.pid", log => "$path.error.log",
        access => "$path.access.log", args => [], %o }, $class;
}

sub _command ($self, @args) {
    return ($self->{binary} // Platform::Test::Env::nginx(), '-p', "$self->{prefix}/",
        '-e', $self->{log}, '-c', $self->{conf}, @{ $self->{args} }, @args);
}

sub _env ($self) {
    # Freed memory is overwritten, so that who reads it is found in each mode.  Benchmarks
    # turn it off.
    my %env = (MALLOC_PERTURB_ => $ENV{MALLOC_PERTURB_} // 165,
        Platform::Test::Env::mode_env($self->{dir}, name => $self->{name}, preload => 1));
    my $clock = $self->{clock} or return %env;
    my $preload = join ':', grep {defined} $env{LD_PRELOAD}, $clock->{so};
    return (%env, LD_PRELOAD => $preload, CLOCK_AHEAD => $clock->{file});
}

# nginx -t: (whether it passed, what it said).
sub test ($self) {
    local %ENV = (%ENV, $self->_env);
    open my $fh, '-|', 'sh', '-c', 'exec "$@" 2>&1', 'sh', $self->_command('-t')
        or die "sh: $!\n";
    my $out = do { local $/; <$fh> } // '';
    close $fh;
    return ($? == 0 ? 1 : 0, $out);
}

# Starts it, in place of the one that runs.
sub start ($self) {
    $self->stop;
    $self->{log_from} = -s $self->{log};
    unlink $self->{pidfile};
    return $self->launch(sub { -s $self->{pidfile} && $self->_serves },
        log => "$self->{dir}/$self->{name}.out.log",
        env => { $self->_env },
        cmd => [ Platform::Test::Env::mode_prefix($self->{dir}, $self->{name}),
            $self->_command ]);
}

# The running worker processes: children with the title of a worker, which nginx sets
# last.  Under valgrind no title shows, so all children count.
sub workers ($self) {
    my $pid = $self->pid;
    my @all = split ' ', slurp("/proc/$pid/task/$pid/children") // '';
    return @all if Platform::Test::Env::valgrind();
    return grep {
        Platform::Test::Process::command_of($_) =~ /worker process(?! is shutting)/ } @all;
}

# Whether all workers of the configuration run.  A single process has none.
sub _serves ($self) {
    my $conf = slurp($self->{conf});
    return 1 if $conf =~ /^\s*master_process\s+off;/m;
    my ($count) = $conf =~ /^\s*worker_processes\s+(\w+);/m;
    ($count) = split ' ', `getconf _NPROCESSORS_ONLN` if ($count //= 1) eq 'auto';
    return $self->workers >= $count;
}

# Reads the configuration file again; true when new workers serve and the
# old ones accept no more.
sub reload ($self) {
    my %old = map { $_ => 1 } $self->workers;
    my $from = length $self->error_log;
    $self->signal('HUP');
    my $failed;
    eventually(sub {
        my $said = substr $self->error_log, $from;
        delete @old{ $said =~ /(\d+)#\d+: gracefully shutting down/g };
        $failed = $said =~ /\[emerg\]/;
        return $failed || !grep({ kill 0, $_ } keys %old) && $self->_serves;
    }) or die "$self->{name} did not reload\n";
    return $failed ? 0 : 1;
}

# Waits until the workers that a reload sent away are gone.
sub settled ($self) {
    my @leaving = $self->error_log =~ /(\d+)#\d+: gracefully shutting down/g;
    return eventually(sub { !grep { kill 0, $_ } @leaving });
}

# They may linger for their last connections.  If told to terminate then, they would
# log alerts about those.
sub stop ($self, $signal = undef) {
    $self->settled if $self->process && ($signal // 'TERM') eq 'TERM';
    return $self->SUPER::stop($signal);
}

# The error log since its start.
sub error_log ($self) {
    return substr slurp($self->{log}) // '', $self->{log_from} // 0;
}

sub access_log ($self) { return slurp($self->{access}) // '' }

# Access log lines as decoded JSON, each decoded once; waits until there are at
# least $n.  nginx writes them once the answer is sent, and the last one may be
# half written.
sub access_lines ($self, $n = 0) {
    my $had = $self->{decoded} //= [];
    eventually(sub {
        my @lines = $self->access_log =~ /^(.*)\n/mg;
        @$had = () if @lines < @$had;
        push @$had, map { json()->utf8->decode($_) } @lines[ @$had .. $#lines ];
        return @$had >= $n;
    });
    return map { +{%$_} } @$had;
}

# Waits until the error log matches; true when it did within $seconds.
sub wait_log ($self, $pattern, $seconds = undef) {
    return eventually(sub { $self->error_log =~ $pattern }, $seconds);
}

1;
