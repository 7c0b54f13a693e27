package Bench::Gateway::Round;

# Rounds of a second: runs wrk, measures the processor time of the gateway's process,
# and checks that every answer was the expected one.  The cases of a group run in turn,
# there and back again (A B C C B A), as often as asked, so that a drift of the
# machine's speed affects all of them alike.

use strict;
use warnings;

use List::Util qw(sum);
use Time::HiRes qw(sleep);

use Bench::Cpu;
use Bench::Figures;
use Bench::Wrk;
use Platform::Test::Env;

# The gateway has core 0 alone; everything else runs on core 1.
our ($GATEWAY_CORE, $LOAD_CORE) = (0, 1);

my $awake;

# Keeps cores that idle from halting for as long as this program runs.
# Otherwise every answer that finds wrk asleep pays for waking its core, which
# on a virtual machine takes microseconds, and a slow case pays more often
# than a quick one.  Returns a text: what idle cores do.
sub prepare {
    die "bench: needs two cores\n" if qx{nproc --all} < 2;
    my $file = '/dev/cpu_dma_latency';
    return 'polls'
        if open $awake, '>:raw', $file and syswrite $awake, pack 'l', 0;
    print STDERR "bench: $file cannot be written: answers to a sleeping wrk "
        . "pay for waking it\n";
    return 'halts';
}

sub _slurp {
    my ($file) = @_;

    open my $fh, '<:raw', $file or return '';
    local $/;
    return <$fh> // '';
}

# Why the answers in a log are not the expected ones, or nothing.
# When wrk stops, as many requests as it has connections are cut off; nginx
# logs those as 499.
sub wrong_in_log {
    my ($log, $status, $connections, $requests) = @_;

    my $lines = $log =~ tr/\n//;
    my $right = () = $log =~ /"status":$status\b/g;
    my $cut = () = $lines == $right ? () : $log =~ /"status":499\b/g;
    my $other = $lines - $right - $cut;
    return "$other of $lines answers were not $status" if $other;
    return "$cut requests were cut off" if $cut > $connections;
    return "only $right answers in the log, wrk has seen $requests"
        if $right < $requests;
    return;
}

# The same once nginx has written the lines that it kept; it does so when it opens its
# log again.
sub _wrong_answers {
    my ($case, $requests) = @_;

    my $wrong;
    kill USR1 => $case->{master} if $case->{master};
    for (1 .. 50) {
        $wrong = wrong_in_log(_slurp($case->{log}), @{$case}{qw(status connections)}, $requests);
        last if ($wrong // '') !~ /^only/;
        sleep 0.05;
    }
    return $wrong;
}

# Runs a case for some seconds: what Bench::Wrk returns, and ns: the processor time
# that a request takes of the gateway's process, and of those of beside => [pids].
sub round {
    my ($case, $seconds) = @_;

    my $log = $case->{log};
    my $cpu = sub { return sum(map { process_cpu_us($_) } $case->{pid}, @{ $case->{beside} // [] }) };
    truncate $log, 0;
    my $us = $cpu->();
    my $got = wrk(core => $LOAD_CORE, seconds => $seconds,
        (map { $_ => $case->{$_} } qw(url connections headers)),
        args => { method => $case->{method}, words => $case->{list},
            auth => $case->{list} && 'Bearer', order => $case->{order},
            $case->{once} ? (once => 1, seconds => $seconds) : () });
    sleep 0.02;
    $got->{ns} = 1000 * ($cpu->() - $us) / $got->{requests}
        if $got->{requests};
    $got->{refused} //= _wrong_answers($case, $got->{requests});
    return $got;
}

sub _there_and_back {
    my (@cases) = @_;

    my %rounds;
    for my $case (@cases, reverse @cases) {
        my $round = round($case, 1);
        if ($round->{refused}) {
            print STDERR "refused: $case->{name}: $round->{refused}\n";
            return undef;
        }
        push @{ $rounds{ $case->{name} } }, $round;
    }
    return \%rounds;
}

# Nanoseconds of an operation that the program floors knows, on the gateway's
# core; some need a token and its issuer.
sub operation {
    my ($kind, $key_file, @token) = @_;

    my @cmd = ('taskset', '-c', $GATEWAY_CORE,
        Platform::Test::Env::build() . '/bench/floors', $key_file, 150, 1,
        $kind, @token);
    my $us = qx{@cmd};
    die "@cmd failed\n" if $? != 0;
    return 1000 * $us;
}

# Judges a goal of Bench::Gateway::Plan: the ratios of the cost of the case to what
# it may cost, pair by pair.
sub judge {
    my ($goal, $pairs) = @_;

    my ($name, $base, $limit, %o) = @$goal;
    my $on_top = $o{verify} // 0;
    my $text = $on_top ? "$name / ($base + $on_top verify)" : "$name / $base";
    my $cost = sub { my ($pair, $case) = @_;
        return mean(map { $_->{ns} } @{ $pair->{$case} }) };
    return { text => $text, limit => $limit, ratio => ratio(map {
            $cost->($_, $name)
                / ($cost->($_, $base) + $on_top * ($_->{verify} // 0))
        } @$pairs) };
}

# Runs a group; returns its figures and verdicts.  A round trip in which anything
# went wrong is discarded and repeated, for a while.
sub group {
    my ($group, $key_file) = @_;

    for my $case (@{ $group->{warm} }, @{ $group->{cases} }) {
        my $got = round($case, $case->{seconds} // 1);
        print STDERR "warming up, $case->{name}: $got->{refused}\n"
            if $got->{refused};
    }
    my @pairs;
    for my $try (1 .. $group->{pairs} + 5) {
        last if @pairs == $group->{pairs};
        print STDERR "$group->{title}: " . (@pairs + 1)
            . " of $group->{pairs}\n";
        my $verify = operation('verify', $key_file);
        my $pair = _there_and_back(@{ $group->{cases} }) or next;
        push @pairs, { %$pair, verify => $verify };
    }
    die "$group->{title}: too many rounds were refused\n"
        if @pairs < $group->{pairs};
    return {
        title  => $group->{title},
        verify => summary(map { $_->{verify} } @pairs),
        cases  => [ map {
            my $name = $_->{name};
            my @rounds = map { @{ $_->{$name} } } @pairs;
            +{ name => $name, map { my $field = $_;
                $field => summary(map { $_->{$field} } @rounds)
            } qw(ns rate p50_us p99_us) }
        } @{ $group->{cases} } ],
        goals => [ map { judge($_, \@pairs) } @{ $group->{goals} } ],
    };
}

1;
