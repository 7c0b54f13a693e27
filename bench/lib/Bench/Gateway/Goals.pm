package Bench::Gateway::Goals;

# Whether a group's figures reach its goals: each goal as a ratio of what a
# case cost to what it may cost, pair by pair.

use strict;
use warnings;

use Bench::Gateway::Runner;
use Bench::Gateway::Stats qw(median);

# What is said of a ratio and its 95 % interval under a goal.
sub verdict {
    my ($ratio, $limit) = @_;

    return 'pass' if $ratio->{high} <= $limit;
    my $over = sub { sprintf '%.1f %%', 100 * ($_[0] / $limit - 1) };
    return 'the median passes, the interval ends ' . $over->($ratio->{high})
        . ' over' if $ratio->{median} <= $limit;
    return 'over by ' . $over->($ratio->{median});
}

# A goal's line: what, the ratio, the limit, the verdict.  times => the base
# may be multiplied by that; verify => so many RSA verifications may come on
# top; plus_ns => so many nanoseconds; beside => a ratio without a limit.
sub judge {
    my ($goal, $got) = @_;

    my $field = $goal->{field} // 'ns';
    my @cost = Bench::Gateway::Runner::by_pair($got->{ $goal->{name} }, $field);
    my @base = Bench::Gateway::Runner::by_pair($got->{ $goal->{base} }, $field);
    my %line = (%$goal, field => $field);
    my ($text, @under) = ("$goal->{name} / $goal->{base}", @base);
    if ($goal->{verify}) {
        @under = map { $base[$_] + $goal->{verify} * $got->{verify}[$_] }
            0 .. $#base;
        $text = "$goal->{name} / ($goal->{base} + $goal->{verify} verify)";
    }
    elsif ($goal->{plus_ns}) {
        @under = map { $_ + $goal->{plus_ns} } @base;
        $text = sprintf '%s / (%s + %g us)', $goal->{name}, $goal->{base},
            $goal->{plus_ns} / 1000;
    }
    $line{text} = $field eq 'ns' ? $text : "$field of $text";
    $line{ratio} = Bench::Gateway::Runner::ratio(\@cost, \@under);
    $line{cost} = median(@cost);
    $line{under} = median(@under);
    return \%line if $goal->{beside};
    $line{limit} = $goal->{times} // 1;
    $line{verdict} = verdict($line{ratio}, $line{limit});
    return \%line;
}

1;
