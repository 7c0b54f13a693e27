package Bench::Gateway::Stats;

# Medians, spreads, and how sure a median is.

use strict;
use warnings;

use List::Util qw(sum);

use Exporter qw(import);
our @EXPORT_OK = qw(mean median quantile interval);

sub mean { return sum(@_) / @_ }

sub median { return quantile(0.5, @_) }

# The value below which the part $q of all values lies, between the two
# nearest ones where none is exact.
sub quantile {
    my ($q, @values) = @_;

    die "nothing to take a quantile of\n" if !@values;
    my @sorted = sort { $a <=> $b } @values;
    my $place = $q * $#sorted;
    my $low = int $place;
    return $sorted[$low] if $low == $#sorted;
    return $sorted[$low]
        + ($place - $low) * ($sorted[ $low + 1 ] - $sorted[$low]);
}

my $RESAMPLED = 4000;

# The 95 % confidence interval of the median, by bootstrap: the medians of
# samples that are drawn from the values again and again.  The same values
# always give the same interval.
sub interval {
    my (@values) = @_;

    my $state = 1;
    my $draw = sub {
        $state = ($state * 1103515245 + 12345) & 0x7fffffff;
        return ($state >> 8) % @values;
    };
    my @medians = map {
        median(map { $values[ $draw->() ] } @values)
    } 1 .. $RESAMPLED;
    return map { quantile($_, @medians) } 0.025, 0.975;
}

1;
