package Bench::Identity::Stats;

# Medians and spreads of rounds.

use strict;
use warnings;

use List::Util qw(max min);

use Exporter qw(import);
our @EXPORT = qw(median summary);

sub median {
    my @sorted = sort { $a <=> $b } @_;
    return undef unless @sorted;
    return ($sorted[ $#sorted / 2 ] + $sorted[ @sorted / 2 ]) / 2;
}

# { median, low, high, n } of the values of all rounds.
sub summary {
    my @values = grep {defined} @_;
    return undef unless @values;
    return {
        median => median(@values),
        low    => min(@values),
        high   => max(@values),
        n      => scalar @values,
    };
}

1;
