package Bench::Gateway::Report;

# The results as a table on the screen.

use strict;
use warnings;

sub _us { return sprintf '%.1f', $_[0] / 1000 }

sub _count {
    my ($n) = @_;

    $n = sprintf '%.0f', $n;
    1 while $n =~ s/^(\d+)(\d{3})/$1,$2/;
    return $n;
}

my $ROW = "%-34s %8s %15s %10s %8s %8s\n";

sub group {
    my ($group) = @_;

    my $first = $group->{cases}[0];
    my $out = "\n$group->{title}\n"
        . sprintf $ROW, '', 'CPU us', 'quartiles', 'requests/s', 'p50 us',
        'p99 us';
    for my $case (@{ $group->{cases} }) {
        my $ns = $case->{ns};
        $out .= sprintf $ROW, $case->{name}, _us($ns->{median}),
            _us($ns->{low}) . ' - ' . _us($ns->{high}),
            _count($case->{rate}{median}), _count($case->{p50}{median}),
            _count($case->{p99}{median});
    }
    $out .= sprintf "%-34s %8s %15s\n", 'one RSA-2048 verification',
        _us($group->{verify}{median}),
        _us($group->{verify}{low}) . ' - ' . _us($group->{verify}{high})
        if $group->{verify};
    $out .= sprintf "  %d rounds of %g s each; user : system %.0f : %.0f\n",
        $first->{ns}{rounds}, $group->{seconds},
        @{ $group->{share} }{qw(user system)};
    $out .= goal($_) for @{ $group->{goals} };
    return $out;
}

# One line a goal: name, ratio [interval], limit, verdict.
sub goal {
    my ($goal) = @_;

    my $r = $goal->{ratio};
    my $line = sprintf '  %s: %.3f [%.3f, %.3f]', $goal->{text},
        @{$r}{qw(median low high)};
    return "$line\n" if !defined $goal->{limit};
    return sprintf "%s, goal %.2f: %s\n", $line, $goal->{limit},
        $goal->{verdict};
}

sub memory {
    my ($m) = @_;

    my $out = "\nMemory\n";
    for my $p (@{ $m->{per_token} }) {
        $out .= sprintf "  a cached token of %s bytes: %s bytes all included "
            . "(%s tokens), goal %s: %s\n", _count($p->{token_bytes}),
            _count($p->{each}), _count($p->{tokens}), _count($p->{limit}),
            $p->{verdict};
    }
    if (my $f = $m->{full}) {
        $out .= sprintf "  a full cache over %s requests: %s MiB: %s\n",
            _count($f->{requests}), join(' ', map {
                sprintf '%.1f', $_ / 1048576 } @{ $f->{rss} }),
            $f->{verdict};
    }
    return $out;
}

sub instructions {
    my ($counted) = @_;

    my $out = "\nInstructions a request (callgrind)\n";
    return "${out}  could not be counted: $counted->{failed}\n"
        if $counted->{failed};
    $out .= sprintf "%-34s %8s %8s %8s\n", '', 'gateway', 'nginx', 'ratio';
    for my $s (@{ $counted->{scenarios} }) {
        my $goal = $s->{goal};
        $out .= sprintf "%-34s %8s %8s %8.3f%s\n", $s->{what},
            _count($s->{ours}), _count($s->{native}), $s->{ratio},
            !defined $goal ? '' : $s->{ratio} <= $goal
            ? sprintf(', goal %.2f: pass', $goal)
            : sprintf(', goal %.2f: over by %.1f %%', $goal,
                100 * ($s->{ratio} / $goal - 1));
    }
    return $out;
}

sub machine {
    my ($m) = @_;

    return join '', map {"$_: $m->{$_}\n"} grep { defined $m->{$_} }
        qw(processor cores kernel nginx openssl haproxy date), 'idle core';
}

sub all {
    my ($result) = @_;

    my $out = machine($result->{machine});
    for my $name (grep { exists $result->{groups}{$_} }
        @{ $result->{order} }) {
        my $group = $result->{groups}{$name};
        $out .= $group ? group($group)
            : "\n$name: not measured, too many rounds were refused\n";
    }
    $out .= "\nskipped: $_: $result->{skipped}{$_}\n"
        for sort keys %{ $result->{skipped} };
    $out .= memory($result->{memory}) if $result->{memory};
    $out .= instructions($result->{instructions}) if $result->{instructions};
    $out .= "\nrefused rounds (not used):\n"
        . join('', map {"  $_\n"} @{ $result->{refused} })
        if @{ $result->{refused} // [] };
    return $out;
}

1;
