package Bench::Gateway::Memory;

# What cached tokens cost in memory, and that a full cache does not grow.

use strict;
use warnings;

use Bench::Figures qw(count);
use Bench::Gateway::Round;

my $A_TOKEN = 3 * 1024;    # at most, for one of the usual size
my $GROWTH = 0.02;

# Resident bytes of a process that are its own.
sub rss {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/status" or die "process $pid: $!\n";
    my ($kb) = map {/^RssAnon:\s+(\d+) kB/} <$fh>;
    return $kb * 1024;
}

# Sends each token of the list once; or one token for a second.
sub _send {
    my ($case) = @_;

    my $round = Bench::Gateway::Round::round($case, $case->{once} ? 300 : 1);
    die "memory: $round->{refused}\n" if $round->{refused};
    return;
}

sub _line {
    my ($what, $bytes, $limit) = @_;

    return { what => $what, bytes => count($bytes), limit => count($limit),
        verdict => $bytes <= $limit ? 'pass'
        : sprintf 'over by %.1f %%', 100 * ($bytes / $limit - 1) };
}

sub measure {
    my ($plan, $quick) = @_;

    my $count = $quick ? 10_000 : 100_000;
    my $one = $plan->case([ one => 'empty', 'good' ]);
    my $many = $plan->case([ many => 'empty', 'good', list => $count,
        once => 1 ]);
    _send($one);    # warms up everything else
    my $empty = rss($one->{pid});
    _send($many);
    my $token = _line('a cached token of '
            . count(length $plan->{tokens}->one('good'))
            . ' bytes, all included',
        (rss($one->{pid}) - $empty) / $count, $A_TOKEN);
    my $full = $plan->case([ full => $quick ? 'small' : 'gateway', 'good',
        list => 'many', once => 1 ]);
    my $times = $quick ? 3 : 10;
    _send($full) for 1 .. 3;
    my $before = rss($full->{pid});
    _send($full) for 1 .. $times;
    return $token, _line("worker with a full cache, $times x as many tokens "
        . 'later', rss($full->{pid}), $before * (1 + $GROWTH));
}

1;
