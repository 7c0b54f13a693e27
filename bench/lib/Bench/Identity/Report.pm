package Bench::Identity::Report;

# The figures as tables, for a terminal and for docs/benchmarks.md alike.

use strict;
use warnings;

use Bench::Identity::Scenario;

use Exporter qw(import);
our @EXPORT = qw(report);

sub _number {
    my ($v, $unit) = @_;

    $v /= 1000 if $unit eq 'ms';
    return sprintf $v >= 100 ? '%.0f' : $v >= 10 ? '%.1f' : '%.2f', $v;
}

# The median, and the lowest and highest round.
sub _value {
    my ($s, $unit) = @_;

    return '-' unless $s;
    return _number($s->{median}, $unit) . ' ('
        . join(' to ', map { _number($s->{$_}, $unit) } qw(low high)) . ')';
}

sub _table {
    my ($head, @rows) = @_;

    my @width = map { length } @$head;
    for my $row (@rows) {
        for my $i (0 .. $#$row) {
            $width[$i] = length $row->[$i] if length $row->[$i] > $width[$i];
        }
    }
    my $line = sub {
        my ($fill, @cells) = @_;
        return '|' . join('|', map { sprintf " %-*s ", $width[$_], $cells[$_] }
            0 .. $#width) . "|\n";
    };
    return join '', $line->(' ', @$head),
        '|' . join('|', map { '-' x ($_ + 2) } @width) . "|\n",
        map { $line->(' ', @$_) } @rows;
}

# By connections, then by the number in the name; the floor last.
sub _by_connections {
    my ($ab, $ac) = split m{/}, $a;
    my ($bb, $bc) = split m{/}, $b;
    my ($an, $bn) = map { /(\d+)/ ? $1 : 0 } $ab, $bb;
    return $ac <=> $bc || $an <=> $bn || $bb cmp $ab;
}

# 10000000 as 10,000,000
sub _grouped { return reverse(join ',', unpack '(A3)*', reverse $_[0]) }

sub _cells {
    my ($cells) = @_;

    my %label = (identity => '', login => '', floor => ', floor program');
    my @rows;
    for my $cell (sort _by_connections keys %$cells) {
        my ($backend, $c) = split m{/}, $cell;
        my $f = $cells->{$cell};
        my $label = $label{$backend} // ', '
            . scalar(_grouped($backend =~ /(\d+)/)) . ' sessions';
        push @rows, [ "$c$label",
            _value($f->{rate}, ''), _value($f->{p50_us}, 'ms'),
            _value($f->{p99_us}, 'ms'),
            map { _value($f->{cpu}{$_}, '') } qw(identity postgres nginx) ];
    }
    return _table([ 'connections', 'requests/s', 'p50 ms', 'p99 ms',
        'identity us', 'PostgreSQL us', 'nginx us' ], @rows);
}

sub _facts {
    my ($facts) = @_;

    return _table([ 'sessions', 'table MiB', 'its indexes MiB',
        'database MiB', 'refreshed', 'updates', 'of them HOT' ],
        map {
            my $f = $facts->{$_};
            [ scalar(_grouped($_)),
                @{$f}{qw(table_mib indexes_mib database_mib refreshed
                    updates hot_updates)} ]
        } sort { $a <=> $b } keys %$facts);
}

sub _floors {
    my ($floors) = @_;

    my %name = (sign => 'RSA-2048 sign', verify => 'RSA-2048 verify',
        argon2id => 'Argon2id verify');
    my @loads = ([ all => 'a thread a core' ], [ one => 'one thread' ],
        [ paused => 'one, with pauses' ], [ rate => 'all cores, a second' ]);
    my @rows = map {
        my $kind = $_;
        [ $name{$kind},
            map { _value($floors->{ $_->[0] }{$kind}, '') } @loads ]
    } grep { $floors->{one}{$_} } qw(sign verify argon2id);
    my @tables = _table([ 'floor, CPU us', map { $_->[1] } @loads ], @rows);
    if (my $updates = $floors->{updates}) {
        my @clients = sort { $a <=> $b } keys %$updates;
        push @tables, _table([ 'floor', map { "$_ connection" . ($_ == 1 ? '' : 's') }
                @clients ],
            [ 'durable UPDATEs/s', map { _value($updates->{$_}, '') }
                @clients ]);
    }
    return join "\n", @tables;
}

sub _goals {
    my ($goals) = @_;

    my $n = sub { return ($_[0] =~ /, (\d+)\z/)[0] // 0 };
    my @rows;
    for my $name (sort { ($a =~ s/, \d+\z//r) cmp($b =~ s/, \d+\z//r)
            || $n->($a) <=> $n->($b) } keys %$goals)
    {
        my $g = $goals->{$name};
        $name =~ s/(\d{5,})/_grouped($1)/ge;
        my $verdict = !defined $g->{relation} ? 'no goal'
            : $g->{pass} ? 'pass'
            : sprintf 'off by %.1f %%',
            100 * abs($g->{value}{median} / $g->{limit} - 1);
        push @rows, [
            $name =~ s/, (\d+)\z/, $1 connection@{[ $1 == 1 ? '' : 's' ]}/r,
            sprintf('%.3f (%.3f to %.3f)', @{ $g->{value} }{qw(median low high)}),
            defined $g->{relation} ? "$g->{relation} $g->{limit}" : '',
            $verdict ];
    }
    return _table([ 'goal', 'median (spread)', 'limit', 'verdict' ], @rows);
}

sub report {
    my ($result) = @_;

    my @parts;
    for my $name (@Bench::Identity::Scenario::ORDER) {
        my $s = $result->{sections}{$name} or next;
        my $rounds = (values %{ $s->{cells} })[0]{rate}{n};
        push @parts, "$Bench::Identity::Scenario::SECTION{$name}{title}; "
            . "$rounds rounds" . ($s->{quick} ? ', quick: no result' : '')
            . "\n\n" . _cells($s->{cells});
        push @parts, _floors($s->{floors}) if %{ $s->{floors} };
        push @parts, _facts($s->{facts})   if $s->{facts};
        push @parts, _goals($s->{goals})   if %{ $s->{goals} };
    }
    return join "\n", @parts;
}

1;
