package Bench::Derived;

# Blocks that are calculated from the figures of others: what to count with, and sizes.

use strict;
use warnings;

use List::Util qw(max);
use POSIX qw(ceil);

use Bench::Figures qw(count number table);
use Bench::Pages;

# Blocks by the page that has them.
our %BLOCKS = (
    'docs/benchmarks.md' => { summary => \&summary },
    'docs/scaling.md'    => { sizes   => \&sizes },
);

# The number that a cell of a page's block begins with.
sub _of {
    my ($page, @at) = @_;

    my ($block, $row, $column) = @at;
    my $cell = cell(block($page, $block), $row, $column) // return;
    return $cell =~ /^([\d,.]+)/ ? $1 =~ tr/,//dr : undef;
}

# What to count with; a row whose figures were not measured is not there.
sub summary {
    my ($page) = @_;

    my $us = sub { return _of($page, 'gateway', $_[0], 'CPU us') };
    my ($warm, $bare, $once) = map { $us->($_) } 'one warm token', 'bare', 'each token once';
    my ($refresh, $pg, $login, $select) = map { _of($page, $_->[0], 16, $_->[1]) }
        [ 'refresh', 'identity us' ], [ 'refresh', 'PostgreSQL us' ], [ 'login', 'identity us' ],
        [ 'select', 'identity us' ];
    my $token = _of($page, 'gateway', 'a cached token of 1,356 bytes, all included', 'bytes');
    my $es256 = _of($page, 'algorithm', 'refresh, rate of ES256 / RS256, 64', 'ratio [95 %]');
    my $ms = sub { return defined $_[0] ? number($_[0] / 1000) : undef };
    my @rows = (
        [ 'to know what the gateway costs you', [ $warm, $bare, $once ],
            'count %s us of a core for a guarded request whose token is in the cache, where a bare'
            . ' nginx takes %s us for the same headers; and %s us for a token that is not in the'
            . ' cache' ],
        [ 'cheaper guarded requests', [ $token ? count($token) : undef ],
            'give [the cache](directives.md#platform_gateway_token_cache) room for all tokens that'
            . ' a worker sees within their lifetime: %s bytes a token of 1,356' ],
        [ 'to plan cores for identity', [ map { $ms->($_) } $refresh, $login, $select, $pg ],
            'count %s ms for a refresh, %s ms for a login, %s ms to select a branch, and %s ms of'
            . ' PostgreSQL for a refresh; [scaling](scaling.md#capacity) has sizes for up to a'
            . ' hundred million sessions' ],
        [ 'more refreshes from the same machine', [ $es256,
                $login && $refresh ? sprintf('%.0f', $login / $refresh) : undef ],
            'sign with ES256: %.2f times as many. Log in seldom: a login costs %s refreshes' ],
    );
    return join "\n", '| you want | do |', '|---|---|', (map {
        my ($want, $figures, $do) = @$_;
        (grep { !defined } @$figures) ? () : sprintf "| $want | $do |", @$figures
    } @rows), '';
}

my $DAY = 86_400;

sub _time {
    my ($s) = @_;

    return $s >= 2 * $DAY ? sprintf '%.0f days', $s / $DAY
        : $s >= 7200 ? sprintf '%.1f hours', $s / 3600
        : $s >= 120 ? sprintf '%.1f min', $s / 60 : number($s) . ' s';
}

# Two digits, as many as a size is good for.
sub _about { return sprintf('%.2g', $_[0]) + 0 }

# docs/scaling.md, "Formulas", for so many sessions.
sub _size {
    my ($n, %m) = @_;

    my ($r, $l, $p) = ($n / 10 / 900, 3 * $n / (30 * $DAY), $n / $m{page});
    my $cores = sub { return ($r * $m{"refresh_$_[0]"} + $l * $m{"login_$_[0]"}) / 0.6e6 };
    my $wal = sub {
        my $f = $p / ($r * $_[0]) * (1 - exp(-$r * $_[0] / $p));
        my $bytes = $r * ($m{wal} + $f * $m{image});
        return sprintf '%s MB/s, %s GB a day', map { _about($_) } $bytes / 1e6, $bytes * $DAY / 1e9;
    };
    my $vacuum = sub { return _time($p * 22 / $_[0] * 0.002) };
    my $processes = max(2, ceil($cores->('identity') / 2));
    return (count($r) . ', ' . number($l), (map { _about($cores->($_)) } qw(identity postgres)),
        "$processes, " . 18 * $processes,
        (map { _about($n * $_ / 1e9) . ' GB' } $m{all}, $m{table} + $m{indexes}),
        $wal->(300), $wal->(1800), _time($n * $m{all} / 1e6 / $m{backup}),
        $vacuum->(200), $vacuum->(2000), _time(200e6 / ($r + 4 * $l)));
}

my @SIZES = ('refreshes, logins a second', 'cores for identity', 'cores for PostgreSQL',
    'processes of identity, connections', 'disk without WAL', 'memory for PostgreSQL',
    'WAL, checkpoint every 5 min', 'WAL, every 30 min', 'backup, as fast as measured',
    'vacuum of the whole table, default settings', 'the same with a cost limit of 2,000',
    'until a freeze, default settings');

sub sizes {
    my ($page) = @_;

    my $of = sub { return _of($page, 'capacity', @_) };
    my ($each, $same) = ('refresh of another each time', 'refresh of the same again');
    my %m = (
        page    => $of->('sessions in a page of the table', 'measured'),
        table   => $of->('in the table', 'measured'),
        indexes => $of->('in indexes', 'measured'),
        all     => $of->('in the whole database', 'measured'),
        wal     => $of->($same, 'WAL bytes'),
        image   => $of->($each, 'of whole pages'),
        map({ ("refresh_$_->[0]" => $of->($each, $_->[1]), "login_$_->[0]" => $of->('login', $_->[1])) }
            [ 'identity', 'identity us' ], [ 'postgres', 'PostgreSQL us' ]),
    );
    my ($mb, $s) = map { $of->('`pg_basebackup`', $_) } 'MB', 'seconds';
    return "Not measured: `make figures FIGURES=capacity`.\n"
        if !$s || grep { !defined } values %m;
    my @sizes = map { [ _size($_, %m, backup => $mb / $s) ] } 1e6, 1e7, 1e8;
    return table([ 'sessions', '1 million', '10 million', '100 million' ],
        map { my $row = $_; [ $SIZES[$row], map { $_->[$row] } @sizes ] } 0 .. $#SIZES) =~ s/\n\z//r;
}

1;
