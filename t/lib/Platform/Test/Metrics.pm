package Platform::Test::Metrics;

# Reads Prometheus text format 0.0.4, strictly: what promtool would complain
# about dies here.

use v5.36;

use Platform::Test::Http;

use Exporter qw(import);
our @EXPORT = qw(metrics_parse metrics_scrape metrics_changes);

my $NAME = qr/[a-zA-Z_:][a-zA-Z0-9_:]*/;
my $VALUE = qr/[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf|NaN)/;

# { 'name{a="b"}' => value }, labels in the order of the text and unescaped
# only where asked for by ->{labels}; see metrics_parse()'s second value,
# { name => { type, help, samples => [[{ label => value }, value], ...] } }.
sub metrics_parse ($text) {
    die "the text does not end in a line feed\n" unless $text =~ /\n\z/;
    my (%sample, %family, $current);
    for my $line (split /\n/, $text) {
        if ($line =~ /\A# (HELP|TYPE) ($NAME) (\S.*)\z/) {
            my ($what, $name, $rest) = (lc $1, $2, $3);
            die "$name: $what twice\n" if $family{$name}{$what};
            die "$name: $what after its samples\n" if $family{$name}{samples};
            die "$name: no type '$rest'\n" if $what eq 'type'
                && $rest !~ /\A(?:counter|gauge|histogram|summary|untyped)\z/;
            $family{$name}{$what} = $rest;
            $current = $name;
            next;
        }
        my ($series, $name, $labels, $value) = $line =~ /\A(($NAME)(?:\{(.*)\})?) ($VALUE)\z/
            or die "no sample: $line\n";
        my $type = $family{ $current // '' }{type} // '';
        $name =~ s/_(?:bucket|sum|count)\z// if $type eq 'histogram';
        die "$name stands among the samples of $current\n" if $name ne ($current // '');
        die "$name has no type\n" unless $family{$name}{type};
        die "$name has no help\n" unless $family{$name}{help};
        die "$name: a counter ends in _total\n"
            if ($family{$name}{type} eq 'counter') != ($name =~ /_total\z/);
        die "$series twice\n" if exists $sample{$series};
        $sample{$series} = $value;
        push @{ $family{$name}{samples} }, [ _labels($labels // ''), $value ];
    }
    _histogram($_, \%sample, $family{$_}{samples})
        for grep { $family{$_}{type} eq 'histogram' } keys %family;
    return (\%sample, \%family);
}

# The buckets of a histogram, in the order of the text: each holds those before
# it, and the last one all.
sub _histogram ($name, $sample, $samples) {
    my (%last, %bound);
    for my $labels_value (@$samples) {
        my ($labels, $value) = @$labels_value;
        my ($le) = $labels->{le} // next;
        my $of = join ',', map {"$_=$labels->{$_}"} grep { $_ ne 'le' } sort keys %$labels;
        die "$name: bucket $le of $of has fewer than the one before\n"
            if $value < ($last{$of} // 0);
        die "$name: bounds of $of fall\n" if defined $bound{$of} && $le <= $bound{$of};
        ($last{$of}, $bound{$of}) = ($value, $le);
    }
    for my $of (keys %bound) {
        die "$name: no bucket of all for $of\n" if $bound{$of} ne '+Inf';
    }
    my @count = map { $sample->{$_} } grep {/\A\Q$name\E_count\b/} keys %$sample;
    my ($all, $counted) = (0, 0);
    $all += $_ for values %last;
    $counted += $_ for @count;
    die "$name: the counts are not those of the buckets\n"
        if @count != keys %last || $all != $counted;
}

# The samples of what a port says at a path.
sub metrics_scrape ($port, $path) {
    my $res = http_get($port, $path);
    my $type = $res->header('Content-Type') // '';
    die 'no metrics: ' . $res->status . " $type\n" if $res->status != 200
        || $type !~ m{\Atext/plain; version=0\.0\.4(?:;|\z)};
    return (metrics_parse($res->body))[0];
}

# What changed from one scrape to a later one: { series => difference }.
sub metrics_changes ($before, $after) {
    my %diff = map { $_ => $after->{$_} - ($before->{$_} // 0) } keys %$after;
    return { map { $_ => $diff{$_} } grep { $diff{$_} != 0 } keys %diff };
}

sub _labels ($text) {
    my %label;
    while (length $text) {
        $text =~ s/\A([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|\z)//
            or die "no labels: $text\n";
        my ($name, $value) = ($1, $2);
        die "label $name twice\n" if exists $label{$name};
        utf8::decode(my $copy = $value) or die "no UTF-8: $value\n";
        $label{$name} = $value =~ s/\\(.)/$1 eq 'n' ? "\n" : $1/ger;
    }
    return \%label;
}

1;
