package Platform::Test::Metrics;

# Reads Prometheus text format 0.0.4, strictly: what promtool would complain
# about dies here.

use v5.36;

use Platform::Test::Http;

use Exporter qw(import);
our @EXPORT = qw(metrics_parse metrics_scrape metrics_changes);

my $NAME = qr/[a-zA-Z_:][a-zA-Z0-9_:]*/;
my $VALUE = qr/[+-]?(?:\d+(?:\.\d+)?(?:e[+-]?\d+)?|Inf|NaN)/;

# { 'name{a="b"}' => value }, labels as in the text, and
# { name => { type, help, samples => [[{ label => value }, value], ...] } }.
sub metrics_parse ($text) {
    die "the text does not end in a line feed\n" unless $text =~ /\n\z/;
    my (%sample, %family, $current);
    for my $line (split /\n/, $text) {
        if ($line =~ /\A# (HELP|TYPE) ($NAME) (\S.*)\z/) {
            my ($what, $name, $rest) = (lc $1, $2, $3);
            die "$line: twice, late or unknown\n" if $family{$name}{$what}
                || $family{$name}{samples} || $what eq 'type'
                && $rest !~ /\A(?:counter|gauge|histogram|summary|untyped)\z/;
            $family{ $current = $name }{$what} = $rest;
            next;
        }
        my ($series, $name, $labels, $value) = $line =~ /\A(($NAME)(?:\{(.*)\})?) ($VALUE)\z/
            or die "no sample: $line\n";
        my $is = $family{ $current // '' } // {};
        my $type = $is->{type} // '';
        $name =~ s/_(?:bucket|sum|count)\z// if $type eq 'histogram';
        die "$line: no type, no help, twice or among others\n" if !$type || !$is->{help}
            || exists $sample{$series} || $name ne $current;
        die "$name: a counter ends in _total\n"
            if ($type eq 'counter') != ($name =~ /_total\z/);
        $sample{$series} = $value;
        push @{ $is->{samples} }, [ _labels($labels // ''), $value ];
    }
    _histogram($_, \%sample, $family{$_}{samples})
        for grep { $family{$_}{type} eq 'histogram' } keys %family;
    return (\%sample, \%family);
}

# The buckets of a histogram, in the order of the text: each holds those before
# it, and the last one all.
sub _histogram ($name, $sample, $samples) {
    my (%last, %bound);
    for my $bucket (grep { defined $_->[0]{le} } @$samples) {
        my ($labels, $value) = @$bucket;
        my $le = $labels->{le};
        my $of = join ',', map {"$_=$labels->{$_}"} grep { $_ ne 'le' } sort keys %$labels;
        die "$name: bucket $le of $of has fewer than the one before, or its bound\n"
            if $value < ($last{$of} // 0) || defined $bound{$of} && $le <= $bound{$of};
        ($last{$of}, $bound{$of}) = ($value, $le);
    }
    die "$name: no bucket of all\n" if grep { $_ ne '+Inf' } values %bound;
    my @count = map { $sample->{$_} } grep {/\A\Q$name\E_count\b/} keys %$sample;
    die "$name: the counts are not those of the buckets\n"
        if "@{[ sort @count ]}" ne "@{[ sort values %last ]}";
}

# The samples of the metrics at a path of a port.
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
    while ($text ne '') {
        $text =~ s/\A([a-zA-Z_]\w*)="((?:[^"\\\n]|\\[\\"n])*)"(?:,|\z)//
            or die "no labels: $text\n";
        my ($name, $value) = ($1, $2);
        die "label $name twice or no UTF-8\n"
            if exists $label{$name} || !utf8::decode(my $copy = $value);
        $label{$name} = $value =~ s/\\(.)/$1 eq 'n' ? "\n" : $1/ger;
    }
    return \%label;
}

1;
