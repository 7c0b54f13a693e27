package Bench::Gateway::Round;

# One round: wrk for a second or so, what it cost the gateway's process, and
# whether every answer was the one that was meant.

use strict;
use warnings;

use POSIX ();
use Time::HiRes qw(sleep);

use Platform::Test::Env;

use Exporter qw(import);
our @EXPORT_OK = qw(round wrk parse_wrk wrong_in_log cpu_ns cpu_ticks);

# The gateway has core 0 alone; everything else runs on core 1.
our ($GATEWAY_CORE, $LOAD_CORE) = (0, 1);

sub cores {
    chomp(my $cores = qx{getconf _NPROCESSORS_ONLN});
    return $cores;
}

# Where there is one core alone, all share it, and figures say little.
sub place {
    return if cores() > 1;
    $LOAD_CORE = 0;
    print STDERR "bench: one core only: the load disturbs what is measured\n";
    return;
}

my $awake;

# Keeps cores that idle from halting for as long as this program runs.
# Otherwise every answer that finds wrk asleep pays for waking its core, which
# on a virtual machine takes microseconds, and a slow case pays more often
# than a quick one.  Returns what idle cores do.
sub stay_awake {
    my $file = '/dev/cpu_dma_latency';
    if (open $awake, '>:raw', $file and syswrite $awake, pack 'l', 0) {
        return 'polls';
    }
    print STDERR "bench: $file cannot be written: answers to a sleeping wrk "
        . "pay for waking it\n";
    return 'halts';
}

sub wrk { return Platform::Test::Env::find('wrk') }

sub _slurp {
    my ($file, $from) = @_;

    open my $fh, '<:raw', $file or return '';
    seek $fh, $from, 0 if $from;
    local $/;
    return <$fh> // '';
}

# Nanoseconds on a core of all threads of a process, by the scheduler.
sub cpu_ns {
    my ($pid) = @_;

    my $ns = 0;
    for my $file (glob "/proc/$pid/task/*/schedstat") {
        my ($ran) = split ' ', _slurp($file);
        $ns += $ran // 0;
    }
    return $ns;
}

# (user, system) clock ticks of a process.
sub cpu_ticks {
    my ($pid) = @_;

    my $stat = _slurp("/proc/$pid/stat");
    $stat =~ s/^.*\)//s;
    return (split ' ', $stat)[ 11, 12 ];
}

# What wrk.lua printed, as a hash.
sub parse_wrk {
    my ($said) = @_;

    my ($line) = $said =~ /^BENCH (.*)$/m
        or return { failed => 'wrk: ' . ($said =~ s/\s+/ /gr) };
    return { map { split /=/ } split ' ', $line };
}

# Why the answers that a log tells of are not the ones meant, or nothing.
# When wrk stops, as many requests as it has connections are cut off; nginx
# logs those as 499.
sub wrong_in_log {
    my ($log, $status, $connections, $requests) = @_;

    my $lines = $log =~ tr/\n//;
    my $right = () = $log =~ /"status":$status\b/g;
    my $cut = () = $lines == $right ? () : $log =~ /"status":499\b/g;
    my $other = $lines - $right - $cut;
    return "$other of $lines answers were not $status" if $other;
    return "$cut requests were cut off" if $cut > $connections;
    return "only $right answers in the log, wrk has seen $requests"
        if $right < $requests;
    return;
}

sub _wrk_command {
    my ($case, $seconds) = @_;

    return (qw(setpriv --pdeathsig TERM -- taskset -c), $LOAD_CORE, wrk(), '-t1',
        "-c$case->{connections}", "-d${seconds}s", '--timeout', '10s',
        '-s', Platform::Test::Env::root() . '/bench/wrk.lua',
        (map { ('-H', $_) } @{ $case->{headers} }),
        $case->{url}, '--', $case->{method} // 'GET',
        ($case->{list} ? ($case->{list}, $case->{order} // 'in order') : ()));
}

sub _run {
    my (@cmd) = @_;

    my $pid = open(my $fh, '-|') // die "fork: $!\n";
    if ($pid == 0) {
        open STDERR, '>&', \*STDOUT;
        exec @cmd or POSIX::_exit(127);
    }
    local $/;
    my $said = <$fh> // '';
    close $fh;
    return $said;
}

# Runs a case for some seconds.  Gives { refused => why }, or ns (of the
# gateway's process, a request), rate, p50, p99 (microseconds), requests.
sub round {
    my ($case, $seconds) = @_;

    my ($pid, $log) = @{$case}{qw(pid log)};
    # What nginx appends to can be emptied, HAProxy writes where it was.
    my $from = $case->{grows} ? -s $log : 0;
    truncate $log, 0 if !$from;
    my $ns = cpu_ns($pid);
    my @ticks = cpu_ticks($pid);
    my $got = parse_wrk(_run(_wrk_command($case, $seconds)));
    sleep 0.02;
    $ns = cpu_ns($pid) - $ns;
    my @after = cpu_ticks($pid);

    return { refused => $got->{failed} } if $got->{failed};
    for my $error (qw(connect read write timeout)) {
        return { refused => "$got->{$error} $error errors" }
            if $got->{$error};
    }
    return { refused => 'no answer' } if !$got->{requests};
    my $wrong = wrong_in_log(_slurp($log, $from), $case->{status},
        $case->{connections}, $got->{requests});
    return { refused => $wrong } if $wrong;
    return {
        ns       => $ns / $got->{requests},
        rate     => $got->{requests} / ($got->{us} / 1e6),
        p50      => $got->{p50},
        p99      => $got->{p99},
        requests => $got->{requests},
        user     => $after[0] - $ticks[0],
        system   => $after[1] - $ticks[1],
    };
}

1;
