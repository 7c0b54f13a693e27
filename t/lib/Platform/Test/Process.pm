package Platform::Test::Process;

# A program (or a forked Perl server) that a test started: its own process
# group, output in a log file, gone when the test is gone.

use v5.36;

use POSIX qw(WNOHANG _exit);
use Time::HiRes qw(sleep time);

# name, log, cmd => [...] or code => sub; env => {...} replaces the whole
# environment; user: who to become when root; stop_signal; deathsig.
sub start ($class, %o) {
    my $self = bless {
        name        => $o{name},
        log         => $o{log},
        owner       => $$,
        stop_signal => $o{stop_signal} // 'TERM',
        stop_wait   => $o{stop_wait}   // 60,
        ok_status   => $o{ok_status}   // [0],
    }, $class;

    my $pid = fork // die "fork: $!\n";
    if ($pid == 0) {
        $SIG{$_} = 'DEFAULT' for qw(INT QUIT TERM HUP ALRM CHLD PIPE
            __DIE__);
        setpgrp 0, 0;
        eval { $self->_become(%o); 1 } or print STDERR "$o{name}: $@";
        _exit(127);
    }

    $self->{pid} = $pid;
    return $self;
}

sub _become ($self, %o) {
    chdir $o{dir} or die "chdir $o{dir}: $!\n";
    open STDIN, '<', '/dev/null' or die "/dev/null: $!\n";
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

sub pid { return $_[0]{pid} }

sub name { return $_[0]{name} }

# Whether it still runs; remembers the wait status when not.
sub alive ($self = undef) {
    return 0 if defined $self->{status};
    my $got = waitpid $self->{pid}, WNOHANG;
    return 1 if $got == 0;
    $self->{status} = $got == $self->{pid} ? $? : -1;
    return 0;
}

# The wait status ($?) once it has ended, else undef.
sub status { return $_[0]{status} }

sub signal ($self, $signal) {
    return $self->alive ? kill($signal, $self->{pid}) : 0;
}

# Waits for the end; true when it came within $seconds.
sub wait_end ($self, $seconds) {
    my $until = time + $seconds;
    while ($self->alive) {
        return 0 if time > $until;
        sleep 0.01;
    }
    return 1;
}

# Ends it with $signal (default: its own), harder after a while.  Returns the
# problems seen as a list of lines.
sub stop ($self, $signal = undef) {
    return () if $self->{stopped} || $self->{owner} != $$;
    $self->{stopped} = 1;
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
        elsif ($signal ne 'KILL' && !$self->_status_ok($signal)) {
            push @problems, "$self->{name} stopped with " . describe($self->{status});
        }
    }

    push @problems, $self->_end_group unless $signal eq 'KILL';
    kill 'KILL', -$self->{pid};
    push @problems, $self->_end_group;
    return @problems;
}

# Children of the program's group must be gone with it.
sub _end_group ($self) {
    my $until = time + 30;
    while (kill 0, -$self->{pid}) {
        return "$self->{name} left processes behind" if time > $until;
        sleep 0.02;
    }
    return ();
}

sub _status_ok ($self, $signal) {
    return 1 if grep { $_ eq 'any' } @{ $self->{ok_status} };
    return scalar grep { $self->{status} == $_ << 8 } @{ $self->{ok_status} };
}

# The test means the program to end by itself (or kills it).
sub expect_end { $_[0]{end_expected} = 1; return $_[0] }

sub describe ($status = undef) {
    return 'unknown status' if !defined $status || $status < 0;
    return 'signal ' . ($status & 127) if $status & 127;
    return 'exit status ' . ($status >> 8);
}

# Processes whose working directory is $dir or below it, but for this one.
sub in_dir ($dir) {
    my @found;
    for my $link (glob '/proc/[0-9]*/cwd') {
        my $cwd = readlink $link // next;
        next unless $cwd eq $dir || index($cwd, "$dir/") == 0;
        my ($pid) = $link =~ m{/proc/(\d+)/};
        push @found, $pid unless $pid == $$;
    }
    return @found;
}

sub command_of ($pid) {
    open my $fh, '<', "/proc/$pid/cmdline" or return '?';
    local $/;
    my $cmd = <$fh> // '';
    $cmd =~ tr/\0/ /;
    return $cmd;
}

1;
