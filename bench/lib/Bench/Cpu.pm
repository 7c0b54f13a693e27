package Bench::Cpu;

# The processor time that processes have used, to the nanosecond: the kernel
# gives each process a clock of its own.

use strict;
use warnings;

use POSIX ();
use Time::HiRes qw(clock_gettime);

use Exporter qw(import);
our @EXPORT = qw(process_cpu_us tree_cpu_us);

my $TICKS = POSIX::sysconf(POSIX::_SC_CLK_TCK());

# All threads of one process, ended ones included.
sub process_cpu_us {
    my ($pid) = @_;

    my $clock = -8 * ($pid + 1) + 2;    # CPUCLOCK_SCHED of that process
    my $s = clock_gettime($clock);
    return $s < 0 ? 0 : $s * 1e6;    # ended meanwhile
}

# A process, its children of now, and those it has waited for.
sub tree_cpu_us {
    my ($pid) = @_;

    my $sum = process_cpu_us($pid) + _reaped_us($pid);
    open my $fh, '<', "/proc/$pid/task/$pid/children" or return $sum;
    $sum += process_cpu_us($_) for split ' ', <$fh> // '';
    return $sum;
}

sub _reaped_us {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/stat" or return 0;
    my $stat = <$fh> // '';
    # Fields behind the name, which may hold anything; the first is the state.
    my @field = split ' ', $stat =~ s/^.*\) //r;
    return ($field[13] + $field[14]) / $TICKS * 1e6;
}

1;
