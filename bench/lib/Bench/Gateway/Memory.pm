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

# Sends at least so many requests, in one go: wrk begins a list anew each time.
sub _send {
    my ($case, $requests) = @_;

    my $round = Bench::Gateway::Round::round($case,
        2 + int($requests / 8000));
    die "memory: $round->{refused}\n" if $round->{refused};
    die "memory: only $round->{requests} requests\n"
        if $round->{requests} < $requests;
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

    my ($usual, @lines);
    for my $kind ([ good => $quick ? 10_000 : 100_000 ], [ large => 2000 ]) {
        my ($name, $count) = @$kind;
        my $one = $plan->case([ one => "memory_$name", $name ]);
        my $many = $plan->case([ many => "memory_$name", $name,
            list => $count ]);
        my $length = length $plan->{tokens}->one($name);
        $usual //= $length;
        _send($one, $count);    # warms up everything else
        my $before = rss($one->{pid});
        _send($many, $count);
        push @lines, _line('a cached token of ' . count($length)
                . ' bytes, all included',
            (rss($one->{pid}) - $before) / $count,
            $A_TOKEN * $length / $usual);
    }
    my $full = $plan->case([ full => $quick ? 'small' : 'gateway', 'good',
        list => 'many' ]);
    my $requests = $quick ? 100_000 : 400_000;
    _send($full, $requests);
    my $before = rss($full->{pid});
    _send($full, $requests) for 1 .. 3;
    return @lines, _line('worker with a full cache, '
            . count(3 * $requests) . ' requests later', rss($full->{pid}),
        $before * (1 + $GROWTH));
}

1;
