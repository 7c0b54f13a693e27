package Bench::Gateway::Markdown;

# The results as tables for docs/benchmarks.md, between two marks there.

use strict;
use warnings;

my ($BEGIN, $END)
    = ('<!-- gateway figures: bench/gateway --docs -->', '<!-- end -->');

sub _us { return sprintf '%.1f', $_[0]{median} / 1000 }

sub _spread {
    my ($figure) = @_;

    return sprintf '%.1f – %.1f', map { $_ / 1000 } @{$figure}{qw(low high)};
}

sub _count {
    my ($n) = @_;

    $n = sprintf '%.0f', $n;
    1 while $n =~ s/^(\d+)(\d{3})/$1,$2/;
    return $n;
}

# Rows of cells, the first one the heads; all columns but the first are
# numbers, unless text => the number of columns of text.
sub _table {
    my ($rows, %o) = @_;

    my ($head, @rows) = @$rows;
    my $text = $o{text} // 1;
    my @rule = map { $_ < $text ? '---' : '---:' } 0 .. $#$head;
    return join '', (map { '| ' . join(' | ', @$_) . " |\n" }
        $head, \@rule, @rows), "\n";
}

sub _interval {
    my ($ratio) = @_;

    return sprintf '%.3f [%.3f, %.3f]', @{$ratio}{qw(median low high)};
}

sub _goals {
    my ($result) = @_;

    my @rows = ([ 'cost / what it may cost', 'ratio [95 %]', 'goal', '' ]);
    for my $group (map { $result->{groups}{$_} // () } @{ $result->{order} }) {
        push @rows, map {
            [ $_->{text}, _interval($_->{ratio}),
                sprintf('%.2f', $_->{limit}), $_->{verdict} ]
        } grep { defined $_->{limit} } @{ $group->{goals} };
    }
    return '' if @rows == 1;
    return _table(\@rows, text => 1) =~ s/---: \|\n/--- |\n/r;
}

sub _beside {
    my ($result) = @_;

    my @rows = ([ 'beside', 'ratio [95 %]' ]);
    for my $group (map { $result->{groups}{$_} // () } @{ $result->{order} }) {
        push @rows, map { [ "$_->{text} (" . lc($group->{title} =~ s/,.*//r)
            . ')', _interval($_->{ratio}) ] }
            grep { !defined $_->{limit} } @{ $group->{goals} };
    }
    return @rows == 1 ? '' : _table(\@rows);
}

sub _cases {
    my ($group) = @_;

    return "**$group->{title}** ($group->{cases}[0]{ns}{rounds} rounds; one "
        . 'RSA verification ' . _us($group->{verify}) . " us)\n\n"
        . _table([ [ '', 'CPU us', 'quartiles', 'requests/s', 'p50 us',
            'p99 us' ],
        map { [ $_->{name}, _us($_->{ns}), _spread($_->{ns}),
            _count($_->{rate}{median}), _count($_->{p50}{median}),
            _count($_->{p99}{median}) ] } @{ $group->{cases} } ]);
}

# CPU microseconds against the number of something, all in one table.
sub _growth {
    my ($groups) = @_;

    my %us;
    for my $group (grep {$_} @{$groups}{qw(tokens routes)}) {
        for my $case (@{ $group->{cases} }) {
            my ($n) = $case->{name} =~ /(\d+)/;
            my $column = $case->{name} =~ /cached/ ? 0
                : $case->{name} =~ /^bare/ ? 2 : 1;
            $us{$n}[$column] = _us($case->{ns});
        }
    }
    return '' if !%us;
    return "**Growth** (CPU us a request, 32 connections)\n\n"
        . _table([ [ 'how many', 'cached tokens', 'routes',
            'routes, nginx alone' ],
        map { my $n = $_; [ _count($n), map { $us{$n}[$_] // '' } 0 .. 2 ] }
            sort { $a <=> $b } keys %us ]);
}

sub _memory {
    my ($m) = @_;

    my @rows = ([ 'memory', 'bytes', 'goal', '' ]);
    push @rows, map {
        [ 'a cached token of ' . _count($_->{token_bytes})
            . ' bytes, all included', _count($_->{each}),
            _count($_->{limit}), $_->{verdict} ]
    } @{ $m->{per_token} };
    my $f = $m->{full};
    push @rows, [ 'worker with a full cache, first and last of '
        . _count($f->{requests}) . ' requests',
        _count($f->{rss}[0]) . '; ' . _count($f->{rss}[-1]), 'flat',
        $f->{verdict} ];
    return _table(\@rows) =~ s/---: \|\n/--- |\n/r;
}

sub tables {
    my ($result) = @_;

    my $m = $result->{machine};
    my $text = "$m->{processor}, $m->{cores} cores, $m->{kernel}, "
        . "$m->{nginx}, $m->{openssl}"
        . ($m->{haproxy} ? ", HAProxy $m->{haproxy}" : '')
        . "; $m->{date}.\n\n";
    $text .= _goals($result) . _beside($result);
    $text .= _cases($_) for map { $result->{groups}{$_} // () }
        grep { !/^(?:tokens|routes)$/ } @{ $result->{order} };
    $text .= _growth($result->{groups});
    $text .= _memory($result->{memory}) if $result->{memory};
    return $text;
}

# The page with the tables in their place.
sub page {
    my ($page, $result) = @_;

    my $tables = tables($result);
    $page =~ s/(\Q$BEGIN\E\n).*?(?=\Q$END\E)/$1\n$tables/s
        or die "the page has no '$BEGIN' ... '$END'\n";
    return $page;
}

1;
