package Bench::Pages;

# The figures in docs/: which programs measure them, and the blocks of the pages that
# their tables stand in, between <!-- figures: NAME --> and <!-- /figures -->.

use strict;
use warnings;

use Exporter qw(import);
our @EXPORT = qw(block fill cell tables loose);

our @PAGES = qw(docs/benchmarks.md docs/scaling.md);

# Sections, in the order in which they run: minutes; the command; quick => options that
# make it a trial; postgres => 1: PostgreSQL is a part of what is measured; needs => what
# tools/needs looks for; flags => a variable of the environment with further options;
# blocks => { name => [first, last table] } where the output is not in one block of the
# section's name.
our @SECTIONS = (
    { name => 'gateway', minutes => 14,
        command => 'bench/gateway --only proxied,tokens,log,memory' },
    { name => 'routes', minutes => 7,
        command => 'bench/gateway --only public,refused,preflight' },
    { name => 'instructions', minutes => 5, command => 'bench/instructions',
        quick => '-n 100 good none' },
    { name => 'core', minutes => 1, command => 'bench/gateway --only core' },
    { name => 'peers', minutes => 8, flags => 'PEERS_FLAGS', command => 'bench/peers' },
    { name => 'refresh', minutes => 4, postgres => 1,
        command => 'bench/identity --only refresh --rounds 15 --seconds 1' },
    { name => 'algorithm', minutes => 1, postgres => 1,
        command => 'bench/identity --only algorithm --connections 64' },
    { name => 'token', minutes => 1, postgres => 1,
        command => 'bench/identity --only token --connections 16' },
    { name => 'login', minutes => 1, postgres => 1,
        command => 'bench/identity --only login --connections 1,16' },
    { name => 'select', minutes => 2, postgres => 1,
        command => 'bench/identity --only select,keyset' },
    { name => 'timing', minutes => 12, postgres => 1, command => 'bench/timing',
        quick => '--only secret --samples 20 --repeats 1' },
    { name => 'capacity', minutes => 4, postgres => 1,
        command => 'bench/capacity --sessions 1000000 --only requests,backup' },
    { name => 'vacuum', minutes => 12, postgres => 1, command =>
            'bench/capacity --sessions 1000000 --only vacuum --rate 120 --minutes 10' },
    { name => 'partition', minutes => 4, postgres => 1,
        command => 'bench/capacity --sessions 1000000 --only partition' },
    { name => 'herd', minutes => 4, postgres => 1,
        command => 'bench/herd --only after --apart' },
    { name => 'feed', minutes => 5, postgres => 1,
        command => 'bench/herd --clients 4000 --only gateways' },
    { name => 'fleet', minutes => 12, postgres => 1, needs => 'fleet',
        command => 'perl -It/lib -Ibench/lib t/soak/fleet.t', quick => '',
        blocks => { losses => [ 0, 0 ], asynchronous => [ 1, 4 ], regions => [ 5, 6 ] } },
);

sub blocks_of { return sort keys %{ $_[0]{blocks} // { $_[0]{name} => 1 } } }

sub _at { return qr{<!-- figures: \Q$_[0]\E -->\n\K.*?(?=<!-- /figures -->)}s }

# The text of a block, or nothing where the page does not have it.
sub block {
    my ($page, $name) = @_;

    my $at = _at($name);
    return $page =~ $at ? $& : undef;
}

# The page, with another text in its block.
sub fill {
    my ($page, $name, $text) = @_;

    my $at = _at($name);
    $page =~ s/$at/\n$text\n/ or die "no block $name\n";
    return $page;
}

sub tables { return $_[0] =~ /((?:^\|.*\n)+)/mg }

sub _cells { return map {s/^\s+|\s+$//gr} (split /(?<!\\)\|/, $_[0])[ 1 .. ($_[0] =~ tr/|//) - 1 ] }

# The cell of a row and a column, by their names, in the first table that has both.
sub cell {
    my ($text, $row, $column) = @_;

    for my $table (tables($text // '')) {
        my ($head, undef, @rows) = map { [ _cells($_) ] } split /\n/, $table;
        my ($at) = grep { $head->[$_] eq $column } 0 .. $#$head;
        my ($found) = grep { $_->[0] eq $row } @rows;
        return $found->[$at] if $found && defined $at;
    }
    return;
}

# Rows of tables outside of all blocks in which a cell, other than the first, is a figure.
sub loose {
    my ($page) = @_;

    my $rest = $page =~ s{<!-- figures: .*?<!-- /figures -->\n}{}gsr;
    return grep {
        my (undef, @cells) = _cells($_);
        grep {/^[<>~]?\d/} @cells;
    } map { my (undef, undef, @rows) = split /\n/; @rows } tables($rest);
}

1;
