# Settings, for tools/run and tools/render: their forms, which the program
# uses too, names that are nearly right, and environment files.

use strict;
use warnings;

use File::Basename qw(dirname);

my %macro;

# The text of a macro, with the macros in it replaced by their texts.
sub macro {
    my ($name) = @_;
    my $tokens = $macro{$name} // return;
    return join '', map { /\A"(.*)"\z/s ? $1 =~ s/\\(.)/$1/gr : macro($_) }
        $tokens =~ /("(?:[^"\\]|\\.)*"|\w+)/g;
}

# Whether a value, or a word of a list, is of a form.
sub of_form {
    my ($form, $value) = @_;
    if (!%macro) {
        my $root = dirname(dirname(__FILE__));
        my ($file) = grep { -f } map {"$root/$_/config_forms.h"} '.', 'identity-fcgi/src/base';
        open my $fh, '<', $file // '' or die "config_forms.h is missing in $root\n";
        my $text = do { local $/; <$fh> } =~ s/\\\n//gr;
        %macro = $text =~ /^#define (\w+) +(\S.*)$/mg;
    }
    my $expression = macro("FORM_$form");
    return $value =~ /\A(?:$expression)\z/ if defined $expression;
    return grep { $_ eq lc $value } split /, /, macro("A_$form");
}

sub accepted { return macro("A_$_[0]") }

# Changes from one text to the other, counted as letters (Levenshtein).
sub distance {
    my ($from, $to) = @_;
    my @row = 0 .. length $to;
    for my $i (1 .. length $from) {
        my @next = ($i);
        for my $j (1 .. length $to) {
            my $other = substr($from, $i - 1, 1) ne substr($to, $j - 1, 1);
            my ($least) = sort { $a <=> $b } $row[$j - 1] + $other, $row[$j] + 1, $next[-1] + 1;
            push @next, $least;
        }
        @row = @next;
    }
    return $row[-1];
}

# A hint for an unknown name: "did you mean ...?", or another.
sub meant {
    my ($name, $hint, @known) = @_;
    my %distance = map { $_ => distance($name, $_) } @known;
    my ($least) = sort { $a <=> $b } 3, values %distance;
    my @nearest = grep { $distance{$_} == $least } sort @known;
    return @nearest ? 'did you mean ' . join(' or ', @nearest) . '?' : $hint;
}

# The subset of systemd's EnvironmentFile that we write ourselves: NAME=value,
# quotes of either kind around the whole value, comments.  Dies with a line.
sub read_env_file {
    my ($file) = @_;
    my %read;
    open my $fh, '<', $file or die "cannot read $file: $!\n";
    while (my $line = <$fh>) {
        chomp $line;
        next if $line =~ /\A\s*(?:[#;].*)?\z/;
        my ($name, $value) = $line =~ /\A\s*([A-Za-z_][A-Za-z0-9_]*)=(.*?)\s*\z/
            or die "$file line $.: not NAME=value\n";
        if ($value =~ s/\A"((?:[^"\\]|\\.)*)"\z/$1/) {
            $value =~ s/\\(.)/$1/g;
        } else {
            $value =~ s/\A'([^']*)'\z/$1/;
        }
        $read{$name} = $value;
    }
    return %read;
}

1;
