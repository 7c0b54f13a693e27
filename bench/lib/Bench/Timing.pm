package Bench::Timing;

# Whether two samples of times can be told apart.

use strict;
use warnings;

use Exporter qw(import);
our @EXPORT_OK = qw(auc);

# The probability that a value of the first sample is greater than one of the second;
# equal ones count half.
sub auc {
    my ($more, $less) = @_;

    my @all = sort { $a->[0] <=> $b->[0] } (map { [ $_, 1 ] } @$more), (map { [ $_, 0 ] } @$less);
    my ($below, $sum) = (0, 0);
    for (my $i = 0; $i < @all;) {
        my ($first, $second) = (0, 0);
        my $value = $all[$i][0];
        for (; $i < @all && $all[$i][0] == $value; $i++) {
            $all[$i][1] ? $first++ : $second++;
        }
        $sum += $first * ($below + $second / 2);
        $below += $second;
    }
    return $sum / (@$more * @$less);
}

1;
