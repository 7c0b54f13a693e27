# The README's tour does what the README prints.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
$t->full_stack;

# Pairs of a block of commands and the block of output under it.
open my $fh, '<', $t->root . '/README.md' or die "README.md: $!\n";
my $readme = do { local $/; <$fh> };
close $fh;
my ($tour) = $readme =~ /^## A tour\n(.*?)^## /ms;
my @steps;
push @steps, [$1, $2]
    while $tour =~ /^```sh\n(.*?)^```\n\s*^```(?:json|text)\n(.*?)^```\n/gms;
cmp_ok scalar @steps, '>=', 6, 'the tour has steps';

# Ids that a run makes are equal to those of any other run.
sub fixed {
    my ($text) = @_;

    $text =~ s/\b(?!00000000-)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b
              /00000000-some-uuid/gx;
    return $text;
}

# One shell runs all blocks, as a reader's would; a line parts their outputs.
my $script = join "echo '=== next'\n", map { $_->[0] } @steps;
my $port = $t->port('gateway');
$script =~ s{http://127\.0\.0\.1:8080}{http://127.0.0.1:$port}g;
$t->write_file('tour.sh', $script);
my $said = qx{sh @{[ $t->dir ]}/tour.sh 2>&1};
my @said = split /^=== next\n/m, $said, -1;

for my $i (0 .. $#steps) {
    is fixed($said[$i] // ''), fixed($steps[$i][1]),
        'step ' . ($i + 1) . ' prints what the README says';
}

$t->done;
