package Platform::Test::Page;

# The commands of a page of docs/, word for word, and what the page says they print.

use v5.36;

use Test::More ();

use Platform::Test::Env qw(slurp);

use Exporter qw(import);
our @EXPORT_OK = qw(commands fixed_ids prints steps);

# [commands, output] of each sh block of a section, of what stands before the first
# one (''), or of the whole page; the output is '' where no block of it follows.
sub steps ($file, $name = undef) {
    my $text = slurp($file) // die "$file: $!\n";
    my $section = !defined $name ? $text : $name eq '' ? ($text =~ /\A(.*?)^## /ms)[0]
        : ($text =~ /^(###?) \Q$name\E\n(.*?)(?=^## |^\1 |\z)/ms)[1];
    my @steps;
    push @steps, [ $1, $2 // '' ] while ($section // die "$file has no section $name\n")
        =~ /^```sh\n(.*?)^```\n(?:\s*^```(?:json|text)\n(.*?)^```\n)?/gms;
    return @steps;
}

# The sh blocks of sections, one after the other.
sub commands ($file, @sections) {
    my $script = join '', map { map { $_->[0] } steps($file, $_) } @sections;
    return $script || die "$file: no commands\n";
}

# One test for each step with an output: $run->(the commands of all) prints it.
# What each printed.
sub prints ($name, $run, @steps) {
    my @said = split /^=== next\n/m,
        $run->(join "echo '=== next'\n", map { $_->[0] } @steps), -1;
    Test::More::is(fixed_ids($said[$_] // ''), fixed_ids($steps[$_][1]),
        "$name: step " . ($_ + 1) . ' prints what the page says')
        for grep { $steps[$_][1] ne '' } 0 .. $#steps;
    return @said;
}

# Replaces the ids that a run makes, so that two runs compare as equal.
sub fixed_ids ($text) {
    $text =~ s/\b(?!00000000-)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b
              /00000000-some-uuid/gx;
    return $text;
}

1;
