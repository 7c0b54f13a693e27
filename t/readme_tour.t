# The README's tour does what the README prints, and nginx takes the README's
# configuration as it stands.

use Platform::Test;
use Platform::Test::Page qw(fixed_ids steps);

my $t = Platform::Test->new;
$t->full_stack;

# Pairs of a block of commands and the block of output under it.
open my $fh, '<', $t->root . '/README.md' or die "README.md: $!\n";
my $readme = do { local $/; <$fh> };
close $fh;
my @steps = grep { $_->[1] ne '' } steps($t->root . '/README.md', 'A tour');
is scalar @steps, 3, 'the tour has its steps';

# One shell runs all blocks, as a reader's would; a line parts their outputs.
my $script = join "echo '=== next'\n", map { $_->[0] } @steps;
my $port = $t->port('gateway');
$script =~ s{http://localhost:8080}{http://127.0.0.1:$port}g;
$t->write_file('tour.sh', $script);
my $said = qx{sh @{[ $t->dir ]}/tour.sh 2>&1};
my @said = split /^=== next\n/m, $said, -1;

for my $i (0 .. $#steps) {
    is fixed_ids($said[$i] // ''), fixed_ids($steps[$i][1]),
        'step ' . ($i + 1) . ' prints what the README says';
}

# The whole file of "In your own nginx"; what it leaves to nginx is nginx's.

my ($own) = $readme =~ /^## In your own nginx\n.*?^```nginx\n(.*?)^```\n/ms;
ok $own, 'the README has a configuration';
open $fh, '<', $t->root . '/docs/directives.md' or die "directives.md: $!\n";
my $directives = do { local $/; <$fh> };
close $fh;
my ($minimal) = $directives =~ /^## A minimal gateway\n.*?^```nginx\n(.*?)^```\n/ms;

sub key_location ($conf) {
    my ($block) = $conf =~ /^\s*(location = \/_keys \{.*?^\s*\})$/ms;
    $block =~ s/^\s*(?:#.*)?\n?//mg;
    return $block;
}
is key_location($own), key_location($minimal),
    'its key location is that of the directives\' minimal gateway';

SKIP: {
    my $nginx = Platform::Test::Env::nginx();
    my ($log) = qx{$nginx -V 2>&1} =~ m{--http-log-path='?(/[^' ]*)/};
    skip "nginx's log directory $log is not ours", 2 if $log && !-w $log;

    my $prefix = $t->dir . '/readme';
    mkdir $_ for $prefix, "$prefix/modules", "$prefix/logs";
    symlink Platform::Test::Env::module(),
        "$prefix/modules/ngx_http_platform_gateway_module.so";
    my ($load) = $directives =~ /^```nginx\n(load_module [^\n]+\n)```\n/m;
    my %conf = (readme => $own, directives => "${load}events { }\n$minimal");
    for my $name (sort keys %conf) {
        my ($ok, $out) = Platform::Test::Nginx->new(
            dir => $t->dir, name => $name, prefix => $prefix,
            conf => $t->write_file("$name.conf", $conf{$name}),
            args => [ '-g', "pid $prefix/nginx.pid;" ])->test;
        ok $ok, "nginx takes it: $name" or diag $out;
    }
}

$t->done;
