package Bench::Figures;

# Medians, quartiles, confidence intervals and goals; tables; the machine that
# figures were measured on.

use strict;
use warnings;

use List::Util qw(max sum);
use POSIX qw(strftime uname);

use Platform::Test::Env;

# Every benchmark has this module: as operators have it, no nginx overwrites memory that it
# frees, which those of the tests do.
BEGIN { $ENV{MALLOC_PERTURB_} = 0 }

use Exporter qw(import);
our @EXPORT = qw(mean median quantile interval summary ratio verdict number
    count table goal_table machine);

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

# The median, with the quartiles.
sub summary {
    my (@values) = @_;

    return { median => median(@values), low => quantile(0.25, @values),
        high => quantile(0.75, @values), n => scalar @values };
}

# The median of ratios, with its interval.
sub ratio {
    my (@ratios) = @_;

    my ($low, $high) = interval(@ratios);
    return { median => median(@ratios), low => $low, high => $high };
}

# The verdict on a ratio and its interval: at most $limit, or at least $limit where
# $relation is ">=".
sub verdict {
    my ($ratio, $limit, $relation) = @_;

    my $least = ($relation // '<=') eq '>=';
    my $off = sub {
        my $by = $_[0] / $limit - 1;
        return 100 * ($least ? -$by : $by);
    };
    my $end = $off->($ratio->{ $least ? 'low' : 'high' });
    my $median = $off->($ratio->{median});
    return $end <= 1e-9 ? 'pass'
        : $median <= 1e-9
        ? sprintf('the median passes, the interval ends %.1f %% off', $end)
        : sprintf('%s by %.1f %%', $least ? 'short' : 'over', $median);
}

sub number {
    my ($v) = @_;

    return sprintf $v >= 100 ? '%.0f' : $v >= 10 ? '%.1f' : '%.2f', $v;
}

# 10000000 as 10,000,000
sub count {
    return scalar reverse join ',', unpack '(A3)*',
        reverse sprintf '%.0f', $_[0];
}

# A table of rows of cells; the first row has the heads.
sub table {
    my (@rows) = @_;

    my @width = map {
        my $column = $_;
        max(map { length $_->[$column] } @rows)
    } 0 .. $#{ $rows[0] };
    splice @rows, 1, 0, [ map { '-' x $_ } @width ];
    return join('', map {
        my $row = $_;
        '| ' . join(' | ',
            map { sprintf '%-*s', $width[$_], $row->[$_] } 0 .. $#width)
            . " |\n"
    } @rows) . "\n";
}

# The table of goals { text, ratio, limit, relation }; those without a limit come last.
sub goal_table {
    my (@goals) = @_;

    return '' if !@goals;
    return table([ 'goal', 'ratio [95 %]', 'limit', 'verdict' ], map {
        [ $_->{text},
            sprintf('%.3f [%.3f, %.3f]', @{ $_->{ratio} }{qw(median low high)}),
            defined $_->{limit}
            ? (sprintf('%s %.2f', $_->{relation} // '<=', $_->{limit}),
                verdict(@{$_}{qw(ratio limit relation)}))
            : ('', 'no goal') ]
    } sort { defined $b->{limit} <=> defined $a->{limit} } @goals);
}

# The machine, a line each; and further names and values.
sub machine {
    my ($cpu) = qx{cat /proc/cpuinfo} =~ /^model name\s*:\s*(.*)/m;
    my ($nginx, $postgres) = (Platform::Test::Env::nginx(),
        Platform::Test::Env::postgres('postgres'));
    my %said = (
        nproc => 'nproc', nginx => "$nginx -v", openssl => 'openssl version',
        postgres => "$postgres --version",
    );
    for (values %said) {
        ($_) = split /\n/, qx{$_ 2>&1};
    }
    %said = (%said, @_, cpu => $cpu // 'unknown',
        kernel => join(' ', (uname())[0, 2]),
        date => strftime('%Y-%m-%d', gmtime));
    return map {"$_: $said{$_}\n"} sort keys %said;
}

1;
