package Bench::Gateway::Picture;

# The results as one picture: a bar a case, microseconds of processor time a
# request, and a mark where the goal of that case lies.

use strict;
use warnings;

use List::Util qw(max);

# Rows: [group, case, base of its goal, label].  Cases that nginx does by
# itself are grey; rows of groups that were not measured are left out.
my @ROWS = (
    [ 'Proxied to the upstream' ],
    [ proxied => 'bare', 'nginx alone' ],
    [ proxied => 'one warm token', 'gateway, one warm token' ],
    [ proxied => '10,000 tokens', 'gateway, 10,000 tokens' ],
    [ proxied => 'each token once', 'gateway, each token once' ],
    [ haproxy => 'HAProxy, one token', 'HAProxy, one token' ],
    [ haproxy => 'HAProxy, 10,000 tokens', 'HAProxy, 10,000 tokens' ],
    [ 'Public route' ],
    [ public => 'bare', 'nginx alone' ],
    [ public => 'public route', 'gateway' ],
    [ 'Refused with 401' ],
    [ refused => 'native 401', 'nginx alone, no token' ],
    [ refused => 'no token', 'gateway, no token' ],
    [ refused => 'native 401, forged token', 'nginx alone, forged token' ],
    [ refused => 'forged, each once', 'gateway, forged, each once' ],
    [ haproxy => 'HAProxy, forged', 'HAProxy, forged' ],
    [ 'Preflight' ],
    [ preflight => 'native 204', 'nginx alone' ],
    [ preflight => 'preflight', 'gateway' ],
);

my ($WIDTH, $LEFT, $RIGHT, $TOP, $ROW, $BOTTOM) = (760, 210, 70, 64, 22, 56);

my $STYLE = <<'CSS';
  .page { fill: #ffffff; }
  text { font: 12px system-ui, sans-serif; fill: #24292f; }
  .title { font-size: 15px; font-weight: 600; }
  .group { font-weight: 600; }
  .grid { stroke: #d0d7de; stroke-width: 1; }
  .native { fill: #8c959f; }
  .ours { fill: #1a7f64; }
  .other { fill: #b35900; }
  .goal { stroke: #cf222e; stroke-width: 2.5; }
  .spread { stroke: #24292f; stroke-width: 1; }
  @media (prefers-color-scheme: dark) {
    .page { fill: #0d1117; }
    text { fill: #e6edf3; }
    .grid { stroke: #3d444d; }
    .native { fill: #7d8590; }
    .ours { fill: #2ea884; }
    .other { fill: #d98032; }
    .goal { stroke: #ff7b72; }
    .spread { stroke: #e6edf3; }
  }
CSS

sub _text {
    my ($x, $y, $text, %o) = @_;

    $text =~ s/&/&amp;/g;
    $text =~ s/</&lt;/g;
    my $class = $o{class} ? qq( class="$o{class}") : '';
    my $anchor = $o{anchor} ? qq( text-anchor="$o{anchor}") : '';
    return sprintf qq(<text x="%.1f" y="%.1f"%s%s>%s</text>\n), $x, $y,
        $class, $anchor, $text;
}

sub _line {
    my ($class, $x1, $y1, $x2, $y2) = @_;

    return sprintf qq(<line class="%s" x1="%.1f" y1="%.1f" x2="%.1f" )
        . qq(y2="%.1f"/>\n), $class, $x1, $y1, $x2, $y2;
}

# A round step that gives about $n lines up to $top.
sub step {
    my ($top, $n) = @_;

    my $raw = $top / $n;
    my $power = 10**int(log($raw) / log(10) - ($raw < 1 ? 1 : 0));
    for my $times (1, 2, 5, 10) {
        return $times * $power if $times * $power >= $raw;
    }
    return 10 * $power;
}

# The rows for which there are figures: { head } or { label, ns, goal }.
sub rows {
    my ($result) = @_;

    my @rows;
    for my $row (@ROWS) {
        my ($group, $name, $label) = @$row;
        if (!defined $name) {
            push @rows, { head => $group };
            next;
        }
        my $figures = $result->{groups}{$group} or next;
        my ($case) = grep { $_->{name} eq $name } @{ $figures->{cases} };
        my ($goal) = grep { $_->{name} eq $name && defined $_->{limit} }
            @{ $figures->{goals} };
        push @rows, {
            label => $label,
            ns    => $case->{ns},
            class => $label =~ /^nginx/ ? 'native'
                : $label =~ /^HAProxy/ ? 'other' : 'ours',
            goal => $goal ? $goal->{limit} * $goal->{under} : undef,
        } if $case;
    }
    # A head without rows says nothing.
    return map { $rows[$_] }
        grep { !$rows[$_]{head} || ($rows[ $_ + 1 ]
            && !$rows[ $_ + 1 ]{head}) } 0 .. $#rows;
}

sub draw {
    my ($result) = @_;

    my @rows = rows($result);
    die "nothing was measured that could be drawn\n" if !@rows;
    my $top = 1.05 * max(map { ($_->{ns}{high} // 0, $_->{goal} // 0) } @rows)
        / 1000;
    my $scale = ($WIDTH - $LEFT - $RIGHT) / $top;
    my $end = $TOP + @rows * $ROW;
    my $height = $end + $BOTTOM;
    my $x = sub { $LEFT + $_[0] / 1000 * $scale };

    my $svg = qq(<svg xmlns="http://www.w3.org/2000/svg" width="$WIDTH" )
        . qq(height="$height" viewBox="0 0 $WIDTH $height" role="img" )
        . qq(aria-labelledby="t">\n<title id="t">Processor time of the )
        . qq(gateway's process a request</title>\n<style>\n$STYLE</style>\n)
        . qq(<rect class="page" width="$WIDTH" height="$height"/>\n)
        . _text(12, 24, "Processor time of the gateway's process a request",
            class => 'title')
        . _text(12, 44, $result->{machine}{processor} . ', one worker, 32 '
            . 'connections, RS256 tokens of 1.3 KB');
    my $step = step($top, 8);
    for (my $us = 0; $us <= $top; $us += $step) {
        my $at = $x->($us * 1000);
        $svg .= _line('grid', $at, $TOP - 6, $at, $end)
            . _text($at, $end + 16, $us, anchor => 'middle');
    }
    $svg .= _text(($LEFT + $WIDTH - $RIGHT) / 2, $end + 34,
        'microseconds (median; thin line: quartiles)', anchor => 'middle');
    $svg .= _line('goal', $LEFT, $end + 42, $LEFT, $end + 54)
        . _text($LEFT + 8, $end + 52, 'goal: what the case may cost at most, '
            . 'by nginx alone in the same rounds');
    for my $i (0 .. $#rows) {
        $svg .= _row($rows[$i], $TOP + $i * $ROW, $x);
    }
    return "$svg</svg>\n";
}

sub _row {
    my ($row, $y, $x) = @_;

    my $middle = $y + $ROW / 2;
    return _text(12, $middle + 5, $row->{head}, class => 'group')
        if $row->{head};
    my $ns = $row->{ns};
    my $svg = _text($LEFT - 8, $middle + 4, $row->{label}, anchor => 'end')
        . sprintf(qq(<rect class="%s" x="%d" y="%.1f" width="%.1f" )
            . qq(height="%.1f"/>\n), $row->{class}, $LEFT, $y + 4,
            $x->($ns->{median}) - $LEFT, $ROW - 8)
        . _line('spread', $x->($ns->{low}), $middle, $x->($ns->{high}),
            $middle);
    my $right = $x->($ns->{high});
    if (defined $row->{goal}) {
        my $at = $x->($row->{goal});
        $svg .= _line('goal', $at, $y + 1, $at, $y + $ROW - 1);
        $right = max($right, $at);
    }
    return $svg . _text($right + 6, $middle + 4,
        sprintf('%.1f', $ns->{median} / 1000));
}

1;
