package Bench::Identity::Growth;

# Refresh on session tables of several sizes, side by side: a database each in
# one cluster, a service process each, rounds that alternate.  The sessions are
# a uniform sample, and of a large table none is refreshed twice.

use strict;
use warnings;

use List::Util qw(min);

use Bench::Identity::Stage;
use Platform::Test;

# Coprime to the sizes: its multiples visit every session once, in an order
# that has nothing to do with where the rows lie.
my $STRIDE = 7_368_787;
my $A_SECOND = 4000;    # sessions; more than are refreshed

sub sizes {
    my ($o) = @_;

    return $o->{quick} ? (1_000, 10_000) : (10_000, 1_000_000, 10_000_000);
}

sub stage {
    my ($o) = @_;

    my @sizes = sizes($o);
    my $stage = Bench::Identity::Stage->new(
        floor     => 0,
        databases => [ map {"bench_$_"} @sizes ],
        extra => { map {; "s$_" => { PLATFORM_DB_NAME => "bench_$_" } } @sizes },
    );
    for my $n (@sizes) {
        print STDERR "growth: generating $n sessions\n";
        eventually(sub { $stage->pg->sql('select count(*) from tenants',
            db => "bench_$n") > 0 }, 20) or die "bench_$n is not seeded\n";
        $stage->generate($n, "bench_$n");
        # As in a server that has run for long: as much as fits is in memory.
        $stage->pg->sql($_, user => 'postgres', db => "bench_$n")
            for 'create extension pg_prewarm',
            "select sum(pg_prewarm(oid)) from pg_class
              where relkind in ('r', 'i') and relpersistence = 'p'";
    }
    return $stage;
}

sub setup {
    my ($stage, $o) = @_;

    my %run;
    for my $n (sizes($o)) {
        my ($take, $next) = (min($n, $A_SECOND * $o->{seconds}), 0);
        my $tokens = sub {
            if ($next + $take > $n) {
                $stage->reset("bench_$n");
                $next = 0;
            }
            $next += $take;
            return $stage->mint("growth-$n", $n,
                map { 1 + $_ * $STRIDE % $n } $next - $take .. $next - 1);
        };
        $run{"s$n/$_"} = sub {
            return ('/api/auth/refresh', body => '{"refreshToken":"@"}',
                chain => 1, words => $tokens->());
        } for grep { $_ <= 16 } @{ $o->{connections} };
    }
    return \%run;
}

# The goals of a round: [what, ratio, limit].
sub goals {
    my ($cells, $c) = @_;

    my ($small, @sizes) = sort { $a <=> $b }
        map { m{^s(\d+)/$c$} ? $1 : () } keys %$cells;
    return if !@sizes;
    my ($few, $many) = map { $cells->{"s$_/$c"} } $small, $sizes[-1];
    return map { [ "refresh, $_ latency of $sizes[-1] sessions / of $small",
        $many->{"${_}_us"} / $few->{"${_}_us"}, 1.20 ] } qw(mean p50 p99);
}

1;
