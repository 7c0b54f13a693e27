package Bench::Gateway::Memory;

# What cached tokens cost in memory, and that a full cache does not grow.

use strict;
use warnings;

use Bench::Gateway::Round;

# Resident bytes of a process that are its own.
sub rss {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/status" or die "process $pid: $!\n";
    my ($kb) = map {/^RssAnon:\s+(\d+) kB/} <$fh>;
    return $kb * 1024;
}

# Sends at least so many requests; returns how many it were.
sub _send {
    my ($case, $requests) = @_;

    my $sent = 0;
    for (1 .. 100) {
        my $round = Bench::Gateway::Round::round($case, 2);
        die "memory: $round->{refused}\n" if $round->{refused};
        $sent += $round->{requests};
        return $sent if $sent >= $requests;
    }
    die "memory: too slow, $sent requests in 200 seconds\n";
}

# Bytes that each token of a list takes in an empty, large enough cache, for
# what Bench::Gateway::Plan::memory gives.  The case with one token warms up
# everything else first.
sub per_token {
    my ($what) = @_;

    my ($one, $many, $count) = @{$what}{qw(one many count)};
    _send($one, $count);
    my $before = rss($one->{pid});
    # wrk starts at the front of the list each time: one long round.
    my $round = Bench::Gateway::Round::round($many, 2 + int($count / 8000));
    die "memory: $round->{refused}\n" if $round->{refused};
    die "memory: only $round->{requests} requests\n"
        if $round->{requests} < $count;
    my $after = rss($one->{pid});
    return { tokens => $count, token_bytes => $what->{bytes},
        before => $before, after => $after,
        each => ($after - $before) / $count };
}

# Resident bytes after every so many requests to a cache that is full: a list
# much longer than the cache goes round.
sub full {
    my ($case, $fill, $requests, $steps) = @_;

    my @at = (_send($case, $fill));
    my @rss = (rss($case->{pid}));
    for my $step (1 .. $steps) {
        push @at, $at[-1] + _send($case, $requests / $steps);
        push @rss, rss($case->{pid});
    }
    return { requests => $at[-1] - $at[0], rss => \@rss };
}

1;
