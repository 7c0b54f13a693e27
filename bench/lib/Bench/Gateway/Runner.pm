package Bench::Gateway::Runner;

# Runs cases in turn, there and back again (A B C C B A), as often as asked:
# whatever drifts in the meantime drifts for all of them alike.

use strict;
use warnings;

use Bench::Gateway::Round;
use Bench::Gateway::Stats qw(mean median quantile interval);

# say => sub for progress, verify => sub that measures one RSA verification.
sub new {
    my ($class, %o) = @_;

    return bless { say => sub { }, refused => [], %o }, $class;
}

sub refused { return @{ $_[0]{refused} } }

# Returns { case name => [[round, round], ...] } and in {verify} nanoseconds,
# one for each time there and back.  A time in which anything went wrong is
# not used, and tried again for a while.
sub run {
    my ($self, $title, $times, $seconds, @cases) = @_;

    my %got = (verify => []);
    my ($done, $tries) = (0, 0);
    while ($done < $times && $tries < $times + 5) {
        $tries++;
        $self->{say}->("$title: " . ($done + 1) . " of $times");
        my $verify = $self->{verify} ? $self->{verify}->() : undef;
        my $rounds = $self->_there_and_back($title, $seconds, @cases) or next;
        push @{ $got{$_} }, $rounds->{$_} for keys %$rounds;
        push @{ $got{verify} }, $verify if defined $verify;
        $done++;
    }
    return \%got if $done == $times;
    $self->{say}->("$title: given up, too many rounds were refused");
    return undef;
}

sub _there_and_back {
    my ($self, $title, $seconds, @cases) = @_;

    my %rounds;
    for my $case (@cases, reverse @cases) {
        my $round = Bench::Gateway::Round::round($case, $seconds);
        if ($round->{refused}) {
            my $why = "$title, $case->{name}: $round->{refused}";
            push @{ $self->{refused} }, $why;
            $self->{say}->("refused: $why");
            return undef;
        }
        push @{ $rounds{ $case->{name} } }, $round;
    }
    return \%rounds;
}

# Median and quartiles of a figure over all rounds of a case.
sub figure {
    my ($pairs, $field) = @_;

    my @all = map { map { $_->{$field} } @$_ } @$pairs;
    return { median => median(@all), low => quantile(0.25, @all),
        high => quantile(0.75, @all), rounds => scalar @all };
}

# The mean of a figure in each pair.
sub by_pair {
    my ($pairs, $field) = @_;

    return map { mean(map { $_->{$field} } @$_) } @$pairs;
}

# Median of the ratios within pairs, with its interval.
sub ratio {
    my ($over, $under) = @_;

    my @ratios = map { $over->[$_] / $under->[$_] } 0 .. $#$over;
    my ($low, $high) = interval(@ratios);
    return { median => median(@ratios), low => $low, high => $high,
        pairs => scalar @ratios };
}

1;
