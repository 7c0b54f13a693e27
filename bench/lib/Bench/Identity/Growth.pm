package Bench::Identity::Growth;

# Refresh on session tables of several sizes, side by side: a database each in
# one cluster, a service process each, rounds that alternate.  The sessions are
# a uniform sample, and of a large table none is refreshed twice.

use strict;
use warnings;

use Platform::Test;

use Bench::Identity::Stage;

our @SIZES = (10_000, 1_000_000, 10_000_000);
our @QUICK_SIZES = (1_000, 10_000);
my $SAMPLE = 60_000;    # at most; more than the rounds need

# Coprime to the sizes: its multiples visit every session once, in an order
# that has nothing to do with where the rows lie.
my $STRIDE = 7_368_787;

sub sizes { my ($o) = @_; return $o->{quick} ? @QUICK_SIZES : @SIZES }

sub backend { return "s$_[0]" }

# The stage with all databases filled.
sub stage {
    my ($o) = @_;

    my @sizes = sizes($o);
    my $stage = Bench::Identity::Stage->new(
        home      => $o->{data},
        floor     => 0,
        databases => [ map {"bench_$_"} @sizes ],
        extra     => {
            map { backend($_) => { PLATFORM_DB_NAME => "bench_$_" } } @sizes
        },
    );
    for my $n (@sizes) {
        my $there = $stage->pg->sql("select to_regclass('bench_done')",
            db => "bench_$n");
        next if $there ne '';
        print STDERR "growth: generating $n sessions\n";
        unlink pool_file($stage, $n), next_file($stage, $n);
        $stage->generate($n, "bench_$n");
        $stage->pg->sql('create table bench_done ()', db => "bench_$n");
    }
    pool($stage, $_) for @sizes;
    return $stage;
}

sub pool_file { my ($stage, $n) = @_; return $stage->home . "/tokens-$n" }

sub next_file { my ($stage, $n) = @_; return $stage->home . "/next-$n" }

# A file of tokens, used ones last; made where an earlier run left none.
sub pool {
    my ($stage, $n) = @_;

    my $file = pool_file($stage, $n);
    return $file if -e $file;
    my $take = $n < $SAMPLE ? $n : $SAMPLE;
    my $from = 0;
    if (open my $fh, '<', next_file($stage, $n)) {
        $from = <$fh>;
    }
    $from = 0 if $take == $n;
    die "the sessions of bench_$n are used up: remove " . $stage->home . "\n"
        if $from + $take > $n;
    my @numbers = map { 1 + $_ * $STRIDE % $n } $from .. $from + $take - 1;
    $stage->reset("bench_$n", @numbers)
        if $take == $n && -e next_file($stage, $n);
    $stage->mint("growth-$n", $n, @numbers);
    system('mv', $stage->t->dir . "/growth-$n.tokens", $file) == 0
        or die "mv failed\n";
    open my $fh, '>', next_file($stage, $n) or die "$!\n";
    print {$fh} $from + $take;
    close $fh or die "$!\n";
    return $file;
}

sub setup {
    my ($stage, $o) = @_;

    my %run;
    for my $n (sizes($o)) {
        # A server that has run for long has in memory what fits there.
        $stage->pg->sql($_, user => 'postgres', db => "bench_$n")
            for 'create extension if not exists pg_prewarm',
            "select sum(pg_prewarm(oid)) from pg_class
              where relkind in ('r', 'i') and relpersistence = 'p'";
        $stage->pg->sql("select pg_stat_reset_single_table_counters(
            'auth_sessions'::regclass)", user => 'postgres', db => "bench_$n");
        for my $c (grep { $_ <= 16 } @{ $o->{connections} }) {
            $run{ backend($n) . "/$c" } = sub {
                my ($again) = @_;
                # A refused round leaves tokens behind that are stale.
                unlink pool_file($stage, $n) if $again;
                return ('--connections', $c, '--method', 'POST',
                    '--path', '/api/auth/refresh', '--body',
                    '{"refreshToken":"@"}', '--chain', '--pool',
                    pool($stage, $n), '--seconds', $o->{seconds});
            };
        }
    }
    return \%run;
}

# The size of each database, and whether its sample lasted.
sub facts {
    my ($stage, $o, $rounds) = @_;

    my %facts;
    for my $n (sizes($o)) {
        my $used = 0;
        for my $round (@$rounds) {
            $used += $_->{requests} for map { $round->{cells}{$_} }
                grep { m{^s$n/} } keys %{ $round->{cells} };
        }
        my $most = $n < $SAMPLE ? $n : $SAMPLE;
        my ($table, $indexes, $all) = split /\|/, $stage->pg->sql(
            "select pg_table_size('auth_sessions'),
                    pg_indexes_size('auth_sessions'),
                    pg_database_size(current_database())",
            db => "bench_$n");
        my ($updates, $hot) = split /\|/, $stage->pg->sql(
            "select n_tup_upd, n_tup_hot_upd from pg_stat_user_tables
              where relname = 'auth_sessions'", db => "bench_$n");
        $facts{$n} = { table_mib => int($table / 2**20),
            indexes_mib => int($indexes / 2**20),
            database_mib => int($all / 2**20), refreshed => $used,
            updates => $updates + 0, hot_updates => $hot + 0 };
        die "$used refreshes of a sample of $most: take fewer rounds\n"
            if $n > $SAMPLE && $used > 0.9 * $most;
    }
    return \%facts;
}

sub goals {
    my ($round, @connections) = @_;

    my %value;
    my @sizes = sort { $a <=> $b }
        keys %{ { map { /^s(\d+)/ ? ($1 => 1) : () }
            keys %{ $round->{cells} } } };
    my ($small, $large) = @sizes[ 0, -1 ];
    for my $c (@connections) {
        my ($few, $many)
            = map { $round->{cells}{"s$_/$c"} } $small, $large;
        next unless $few && $many;
        for my $f (qw(mean p50 p99)) {
            $value{"refresh, $f latency of $large sessions / of $small, $c"}
                = [ $many->{"${f}_us"} / $few->{"${f}_us"}, '<=', 1.20 ];
        }
    }
    return %value;
}

1;
