# Corridors: what the files of a half are to each other.  tools/lint runs it.

use v5.36;

sub slurp ($file) {
    open my $fh, '<:raw', $file or die "lint: cannot read $file: $!\n";
    my $text = do { local $/; <$fh> };
    close $fh;
    return $text // '';
}

# C with comments blanked (lines stay), and with strings blanked as well.
sub code_of ($text) {
    my $blank = sub { (my $s = $_[0]) =~ s/[^\n]/ /g; return $s };
    $text =~ s{(/\*.*?\*/)|("(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*')}
              {defined $1 ? $blank->($1) : $2}gse;
    return $text;
}

sub bare_code_of ($text) {
    $text = code_of($text);
    my @lines = split /^/, $text;
    for (@lines) {
        next if /^\s*#\s*include/;
        s{"((?:[^"\\\n]|\\.)*)"}{'"' . ' ' x length($1) . '"'}ge;
    }
    return join '', @lines;
}

# Each half: its files, the prefix of its functions' names before the file's name, and
# whether only circles are looked for: jose/ has one header for all files.
my @halves = (
    ['ngx_platform_gateway_module/{,{request,answer,conf,token,revoked,issuer,base,nginx}/}*.[ch]',
        'ngx_http_pgw_'],
    ['identity-fcgi/src/*.[ch] identity-fcgi/src/*/*.[ch]', ''],
    ['jose/*.c', 'pj_', 1],
    ['common/*.[ch]', ''],
);

# What stands at the top level of C: [kind, name, static], kind being function,
# prototype, data, macro, type, constant or forward (a type without its body).
# A type with a tag is called "struct x".
sub symbols_of {
    my ($text) = @_;
    my $code = bare_code_of($text);
    my @found = map { ['macro', $_] } $code =~ /^\s*#\s*define\s+(\w+)/mg;
    $code =~ s/^\s*#(?:[^\n]*\\\n)*[^\n]*//mg;
    my @bodies;
    $code =~ s/(\{(?:[^{}]++|(?1))*\})/push @bodies, $1; "{$#bodies};"/ge;
    for my $item (split /;/, $code) {
        my ($head, $n) = $item =~ /\A\s*([^{]*?)\s*(?:\{(\d+)\}|\z)/s or next;
        my $static = $head =~ /\bstatic\b/;
        my ($tag) = $head =~ /\A(?:typedef\s+)?((?:struct|union|enum)\s+\w+)\s*
            (?:\w+\s*)?\z/x;
        if ($head =~ /\A(?:typedef\s+)?enum\b/ && defined $n) {
            push @found, map { ['constant', $_] }
                $bodies[$n] =~ /[{,]\s*([A-Za-z]\w*)/g;
        }
        push @found, [defined $n ? 'type' : 'forward', $tag =~ s/\s+/ /r]
            if $tag;
        if ($head =~ /\Atypedef\b/ && !defined $n) {
            push @found, ['type', $1] if $head =~ /\(\*\s*(\w+)\)/
                || $head =~ /(\w+)\s*(?:\([^()]*\)|\[\w*\])*\z/;
        } elsif ($head =~ /\A[^=]*?(\w+)\s*\(.*\)\z/s) {
            push @found, [defined $n ? 'function' : 'prototype', $1, $static];
        } elsif ($head =~ /\A\w*_(?:set_t|fn)\s+(\w+)\z/) {
            push @found, ['prototype', $1];
        } elsif ($head =~ /\Aextern\b.*?(\w+)\s*(?:\[[^\]]*\])*\z/s) {
            push @found, ['data', $1];
        }
    }
    # the name after the body: "typedef struct { ... } x_t;"
    push @found, map { ['type', $_] } $code =~ /typedef\b[^;{]*\{\d+\};\s*(\w+);/g;
    return @found;
}

# The faults of the files of a half, { path => text }: circles over all names, a
# header of one file that declares names of another, a header of a room that declares
# names of another room, functions and types with a wrong name.
sub corridors {
    my ($text, $prefix) = @_;
    my (%home, %own, %uses, %types, @found);
    my $node = sub { $_[0] =~ s/\.[ch]\z//r };
    my %symbols = map { $_ => [symbols_of($text->{$_})] } keys %$text;
    for my $path (sort keys %$text) {
        my $header = $path =~ /\.h\z/;
        for (@{ $symbols{$path} }) {
            my ($kind, $name, $static) = @$_;
            $own{ $header ? $node->($path) : $path }{$name} = 1
                if !$header || $kind eq 'forward'
                || ($kind eq 'prototype' && !$text->{ $node->($path) . '.c' });
            push @{ $types{$name} }, $path if $kind eq 'type';
            next if $static && !$header;
            $home{$name} //= $node->($path)
                if $kind eq 'function' || ($header
                && $kind =~ /^(?:data|macro|type|constant)\z/);
            my ($file) = $path =~ m{([^/]+)\.c\z} or next;
            next if $kind ne 'function';
            $file =~ s/\A\Q$prefix\E//;
            push @found, [$path, "$name() does not begin with $prefix$file"]
                unless $name =~ /\A\Q$prefix$file\E(?:_|\z)/ || $name eq 'main';
        }
    }
    for my $path (sort keys %$text) {
        my $code = bare_code_of($text->{$path});
        for (grep { $_->[0] eq 'prototype' } @{ $symbols{$path} }) {
            my $there = $home{ $_->[1] } // next;
            my ($room) = $path =~ m{(\w+/)\w+\.h\z};
            push @found, [$path, "declares $_->[1]() of $there.c"]
                if $path =~ /\.h\z/ && ($text->{ $node->($path) . '.c' }
                ? $there ne $node->($path)
                : $path =~ m{(\w+)/\1\.h\z} && $there !~ m{\Q$room\E\w+\z});
        }
        my @names = $code =~ /^\s*#\s*include\s*"([^"]+)"/mg;
        my %to = map { $_ => 1 } grep { exists $symbols{"$_.h"} }
            map { $node->($_) } map { my $h = $_;
                grep { m{(?:\A|/)\Q$h\E\z} } keys %$text } @names;
        $code =~ s/^\s*#\s*include[^\n]*//mg;
        for my $name ($code =~ /(?<![\w.>])((?:(?:struct|union|enum)\s+)?\w+)/g) {
            $name =~ s/\s+/ /;
            $to{ $home{$name} } = 1 if $home{$name} && !$own{$path}{$name}
                && !$own{ $node->($path) }{$name};
        }
        delete $to{ $node->($path) };
        $uses{ $node->($path) }{$_} = 1 for keys %to;
    }
    for my $name (sort keys %types) {
        my @at = @{ $types{$name} };
        push @found, [$at[1], "the type $name is another in $at[0]"] if @at > 1;
    }
    return @found, map { my @circle = @$_;
        [(grep { exists $text->{$_} } "$circle[0].c", "$circle[0].h")[0],
            'a circle of ' . @circle . ' files: '
            . join ' ', map { s{.*/}{}r } @circle] } circles_of(\%uses);
}

# The circles: sets of files each of which needs all others of its set.
sub circles_of {
    my ($uses) = @_;
    my (%reach, %seen, @circles);
    for my $from (keys %$uses) {
        my @todo = ($from);
        while (defined(my $at = pop @todo)) {
            push @todo, grep { !$reach{$from}{$_}++ } keys %{ $uses->{$at} };
        }
    }
    for my $from (sort keys %$uses) {
        my @circle = grep { $reach{$from}{$_} && $reach{$_}{$from} }
            sort keys %$uses;
        push @circles, \@circle if @circle && !$seen{"@circle"}++;
    }
    return @circles;
}

# Tries each fault on a half, and the same half without the fault.
sub corridors_self_test {
    my %good = (
        'm/x_a.h' => "#define X_A 1\nstruct x_b;\nextern int x_a_last;\n"
            . "typedef enum {\n    X_ONE = 1,\n    X_TWO\n} x_a_t;\n"
            . "int x_a(struct x_b *b);\n",
        'm/x_a.c' => "#include \"x_a.h\"\nint x_a_last;\n"
            . "int x_a(struct x_b *b)\n{\n    /* X_B */ return x_a_last;\n}\n",
        'm/x_b.h' => "#define X_B 2\nstruct x_b {\n    int n;\n};\nvoid x_b_set(x_a_t a);\n",
        'm/m.h' => "int x_a(struct x_b *b);\n", 'o/x_c.c' => "int x_c(void)\n{\n    return 1;\n}\n",
        'm/x_all.h' => "int x_a(void *b);\nx_fn x_b_set;\n",
        'm/x_b.c' => "#include \"x_all.h\"\nstatic int x_same(void)\n{\n    return X_A;\n}\n\nvoid\n"
            . "x_b_set(x_a_t a)\n{\n    x_same(\"x_b_set\");\n    x_a(0);\n}\n");
    my %bad = (
        'a circle of 2 files: x_a x_b' => ['m/x_a.c', 'return x_a_last',
            'return X_B', 'return x_b_set(0)', "}\n#include \"x_b.h\"\n{"],
        'declares x_b_set() of m/x_b.c' => ['m/x_a.h', "\\z", "void x_b_set(int);\n"],
        'declares x_c() of o/x_c.c' => ['m/m.h', "\\z", "int x_c(void);\n"],
        'x_last() does not begin with x_b' => ['m/x_b.c', "\\z",
            "int x_last(void)\n{\n}\n"],
        'the type x_a_t is another in m/x_a.h' => ['m/x_b.c', "\\z",
            "typedef struct {\n    int n;\n} x_a_t;\n"]);
    my @said = map { "the good half: $_->[1]" } corridors(\%good, 'x_');
    for my $want (sort keys %bad) {
        my ($path, $from, @to) = @{ $bad{$want} };
        for my $to (@to) {
            my %half = (%good, $path => $good{$path} =~ s/$from/$to/r);
            push @said, "lets pass: $want ($to)"
                unless grep { $_->[1] eq $want } corridors(\%half, 'x_');
        }
    }
    return map {"lint: corridors, $_"} @said;
}

# The names of prepared statements, { path => preprocessed text }, that two have:
# PostgreSQL would refuse the second one on a connection (42P05).
sub statements_twice {
    my ($text) = @_;
    my $string = qr/(?:"(?:[^"\\]|\\.)*"\s*)+/;
    my (%home, @found);
    for my $path (sort keys %$text) {
        while ($text->{$path} =~ /\{\s*($string),\s*$string,\s*(?:true|false|[01]|DB_\w+)\s*\}/g) {
            my $name = $1 =~ s/"\s*"|"|\s+\z//gr;
            push @found, [$path, "the statement $name is another in $home{$name}"] if $home{$name};
            $home{$name} //= $path;
        }
    }
    return @found;
}

sub statements_self_test {
    my $of = sub ($name) { return qq(static const struct db_statement s = {\n $name, "SELECT '{\\\"'" " 1",\n 1};) };
    my %good = ('a.c' => $of->('"a_read"'), 'b.c' => $of->('"a" "_" "reads"'),
        'c.c' => '{"a_read", "a_read", NUMBER}');
    my @said = map {"the good half: $_->[1]"} statements_twice(\%good);
    push @said, 'lets pass: a name twice'
        if !statements_twice({ %good, 'd.c' => $of->('"a" "_read"') });
    return map {"lint: statements, $_"} @said;
}

# With macros expanded, since some tables write names by them.
sub preprocessed ($path) {
    my $text = qx{cc -E -P -Ijose -Icommon -Iidentity-fcgi/src $path};
    return $? == 0 ? $text : die "lint: cc does not read $path\n";
}

sub statements_of_all {
    my %text = map { $_ => preprocessed($_) }
        grep { slurp($_) =~ /struct db_statement \w/ } glob 'identity-fcgi/src/*/*.c';
    return map {"$_->[0]:1: $_->[1] [statements]"} statements_twice(\%text);
}

sub corridors_of_all {
    return map {"$_->[0]:1: $_->[1] [corridors]"} map { my ($files, $prefix, $all) = @$_;
        grep { !$all || $_->[1] =~ /circle/ }
            corridors({ map { $_ => slurp($_) } glob $files }, $prefix) } @halves;
}

1;
