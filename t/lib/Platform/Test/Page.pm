package Platform::Test::Page;

# The commands of a page of docs/, as they stand, and what it says they print.

use v5.36;

use Platform::Test::Env qw(slurp);

use Exporter qw(import);
our @EXPORT_OK = qw(commands steps fixed_ids);

sub _section ($file, $name = undef) {
    my $text = slurp($file) // die "$file: $!\n";
    return $text if !defined $name;
    my ($section) = $name eq '' ? $text =~ /\A(.*?)^## /ms
        : ($text =~ /^(###?) \Q$name\E\n(.*?)(?=^## |^\1 |\z)/ms)[1];
    return $section // die "$file has no section $name\n";
}

# The sh blocks of sections, one after the other; '' is what stands before the
# first section.
sub commands ($file, @sections) {
    my $script = '';
    for my $name (@sections) {
        my $section = _section($file, $name);
        $script .= $1 while $section =~ /^```sh\n(.*?)^```/gms;
    }
    die "$file: no commands\n" if $script eq '';
    return $script;
}

# [commands, output] of each sh block of a section, or of the whole page; the
# output is '' where no block of it follows.
sub steps ($file, $name = undef) {
    my ($section, @steps) = _section($file, $name);
    push @steps, [ $1, $2 // '' ] while $section
        =~ /^```sh\n(.*?)^```\n(?:\s*^```(?:json|text)\n(.*?)^```\n)?/gms;
    return @steps;
}

# Ids that a run makes are equal to those of any other run.
sub fixed_ids ($text) {
    $text =~ s/\b(?!00000000-)[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\b
              /00000000-some-uuid/gx;
    return $text;
}

1;
