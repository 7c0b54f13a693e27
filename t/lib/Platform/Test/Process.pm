package Platform::Test::Process;

# A program (or a forked Perl server) that a test started: its own process
# group, output in a log file, gone when the test is gone.

use v5.36;

use POSIX qw(WNOHANG _exit);

use Platform::Test::Env qw(eventually readers slurp);

# status: the wait status ($?) once alive() has seen the end, else undef.
readers(qw(pid name status));

# name, log, cmd => [...] or code => sub; env => {...} replaces the whole
# environment; stdin: a handle; user: who to become when root; stop_signal; deathsig.
sub start ($class, %o) {
    my $self = bless { owner => $$, stop_signal => 'TERM', stop_wait => 60,
        ok_status => [0], %o }, $class;
    my $pid = $self->{pid} = fork // die "fork: $!\n";
    return $self if $pid;

    $SIG{$_} = 'DEFAULT' for qw(INT QUIT TERM HUP ALRM CHLD PIPE __DIE__);
    setpgrp 0, 0;
    eval { $self->_become(%o); 1 } or print STDERR "$o{name}: $@";
    _exit(127);
}

sub _become ($self, %o) {
    chdir $o{dir} or die "chdir $o{dir}: $!\n";
    open STDIN, $o{stdin} ? '<&' : '<', $o{stdin} // '/dev/null' or die "stdin: $!\n";
    if ($o{log}) {
        open STDOUT, '>>', $o{log} or die "$o{log}: $!\n";
        open STDERR, '>&', \*STDOUT or die "stderr: $!\n";
    }
    %ENV = %{ $o{env} } if $o{env};
    $ENV{PATH} //= '/usr/sbin:/usr/bin:/sbin:/bin';

    if ($o{code}) {
        $0 = "platform-test: $o{name}";
        $o{code}->();
        _exit(0);
    }

    # The kernel signals the program when the test dies, even by SIGKILL.
    my @cmd = ('setpriv', '--pdeathsig', $o{deathsig} // 'TERM');
    push @cmd, user_args($o{user}) if $o{user} && $> == 0;
    exec @cmd, '--', @{ $o{cmd} } or die "exec $o{cmd}[0]: $!\n";
}

# setpriv's options to become another user.
sub user_args ($user) {
    my (undef, undef, $uid, $gid) = getpwnam $user or die "no user $user\n";
    return ("--reuid=$uid", "--regid=$gid", '--clear-groups');
}

# Whether it still runs; remembers the wait status when not.
sub alive ($self) {
    return 0 if defined $self->{status};
    my $got = waitpid $self->{pid}, WNOHANG;
    $self->{status} = $got == $self->{pid} ? $? : -1 if $got != 0;
    return $got == 0;
}

sub signal ($self, $signal) {
    return $self->alive ? kill($signal, $self->{pid}) : 0;
}

# Waits for the end; true when it came within $seconds.
sub wait_end ($self, $seconds) {
    return eventually(sub { !$self->alive }, $seconds);
}

# Ends it with $signal (default: its own), harder after a while.  Returns the
# problems seen as a list of lines.
sub stop ($self, $signal = undef) {
    return () if $self->{owner} != $$ || $self->{stopped}++;
    $signal //= $self->{stop_signal};

    my @problems;
    if (!$self->alive) {
        push @problems, "$self->{name} had ended by itself, " . describe($self->{status})
            unless $self->{end_expected};
    }
    else {
        $self->signal($signal);
        if (!$self->wait_end($self->{stop_wait})) {
            push @problems, "$self->{name} did not stop on SIG$signal within "
                . "$self->{stop_wait} s";
            $self->signal('KILL');
            $self->wait_end(60);
        }
        elsif ($signal ne 'KILL'
            && !grep { $_ eq 'any' || $self->{status} == $_ << 8 } @{ $self->{ok_status} })
        {
            push @problems, "$self->{name} stopped with " . describe($self->{status});
        }
    }

    push @problems, $self->_end_group unless $signal eq 'KILL';
    kill 'KILL', -$self->{pid};
    return (@problems, $self->_end_group);
}

# The program must leave no process of its group behind.
sub _end_group ($self) {
    return eventually(sub { !kill 0, -$self->{pid} }, 30) ? ()
        : "$self->{name} left processes behind";
}

# The test expects the program to end by itself (or kills it).
sub expect_end ($self) { $self->{end_expected} = 1; return $self }

sub describe ($status = undef) {
    return 'unknown status' if !defined $status || $status < 0;
    return 'signal ' . ($status & 127) if $status & 127;
    return 'exit status ' . ($status >> 8);
}

# Processes whose working directory is $dir or below it, except this one.
sub in_dir ($dir) {
    return grep { $_ != $$ && (readlink "/proc/$_/cwd" // '') =~ m{\A\Q$dir\E(?:/|\z)} }
        map {m{(\d+)}} glob '/proc/[0-9]*';
}

sub command_of ($pid) { return (slurp("/proc/$pid/cmdline") // return '?') =~ tr/\0/ /r }

package Platform::Test::Daemon;

# The base of servers that can be started again: Nginx, Identity, Postgres, Server.

use v5.36;

use List::Util qw(uniq);

use Platform::Test::Env qw(eventually readers slurp);

readers(qw(process));

# Starts its process with those options, and waits until it is $ready.
sub launch ($self, $ready, %o) {
    my $process = $self->{process} = Platform::Test::Process->start(
        name => $self->{name}, dir => $self->{dir},
        stop_wait => 60 * Platform::Test::Env::scale(), %o);
    my $is;
    eventually(sub { ($is = $ready->()) || !$process->alive });
    return $self if $is;
    die "$self->{name} did not start:\n", map { slurp($_) // () } uniq $o{log}, $self->{log};
}

sub pid ($self) { return $self->{process}->pid }

sub signal ($self, $signal) { return $self->{process}->signal($signal) }

sub stop ($self, $signal = undef) {
    my $process = delete $self->{process} or return ();
    return $process->stop($signal);
}

# Processes beside a test, each of which runs $code->(its number, from 1).
package Platform::Test::Crowd;

use v5.36;

use Platform::Test::Env qw(slurp);

sub new ($class, $t, $name, $count, $code) {
    return bless [ map { my $n = $_; Platform::Test::Process->start(
        name => "$name$n", dir => $t->dir, log => $t->dir . "/$name$n.out",
        code => sub { $| = 1; $code->($n) }) } 1 .. $count ], $class;
}

# Whether each ends within so many seconds.
sub ends ($self, $seconds) {
    return !grep { !$_->wait_end($seconds) || $_->status != 0 } @$self;
}

# The lines that they have printed so far.
sub lines ($self) { return map { split /\n/, slurp($_->{log}) // '' } @$self }

# Sums of the lines that end in a number: { text before the number => sum }.
sub sums ($self) {
    my %sum;
    /^(.*) (\d+)$/ and $sum{$1} += $2 for $self->lines;
    return \%sum;
}

1;
