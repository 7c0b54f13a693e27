# docs/troubleshooting.md: its tables have every reason there is, and no other;
# its examples do what it says.

use Platform::Test;
use Platform::Test::Metrics;

my $t = Platform::Test->new;

sub slurp ($name) { return $t->read_file($t->root . "/$name") }

# The table of the module, the tables of the documentation.

my $module = 'ngx_platform_gateway_module/ngx_http_pgw';
my ($list) = slurp("$module.h") =~ /REASON_LIST\(X\)(.*?)\n\n/s;
my %row = $list =~ /\bX\(([A-Z_]+), (?:PGW_(?:TOKEN|PROOF)\()?"(\w+)"/g;
my %error = slurp('jose/pj.h') =~ /\bX\(([A-Z_]+), "(\w+)"/g;
$row{$_} = $error{$_} // 'none' for $list =~ /\bPGW_ERROR\((\w+)\)/g;
my @known = values %row;
my $doc = slurp('docs/troubleshooting.md');
my ($section) = $doc =~ /^## Reasons\n(.*?)^## /ms;
my @told = $section =~ /^\| `(\w+)` \|/mg;
cmp_ok @known, '>', 30, 'the module has reasons';
is_deeply [ sort @told ], [ sort @known ], 'the documentation has each of them once, and no other';
my @names = $list =~ /\bX\(([A-Z_]+),/g;
is_deeply [ sort keys %row ], [ sort @names ], 'each has a row of the table';
is_deeply [ sort map {lc} @names ], [ sort @known ], 'and is called by its name in the source';

# Pairs of a block of commands and the block of output under it.

$t->full_stack;
my ($port, $local) = ($t->port('gateway'), $t->port('metrics'));
ok eventually(sub { http_get($port, '/readyz')->status == 200 }), 'ready';
my ($examples) = $doc =~ /^## Ask the gateway\n(.*?)^## /ms;
my @steps;
push @steps, [ $1, $2 ] while $examples =~ /^```sh\n(.*?)^```\n\s*^```json\n(.*?)^```\n/gms;
is @steps, 5, 'the examples';
my $script = join "echo '=== next'\n", map { $_->[0] } @steps;
$script =~ s{http://localhost:8080}{http://127.0.0.1:$port}g;
$script =~ s{http://127\.0\.0\.1:8083}{http://127.0.0.1:$local}g;
$t->write_file('examples.sh', $script);
my @said = split /^=== next\n/m, qx{sh @{[ $t->dir ]}/examples.sh 2>&1}, -1;
is $said[$_] // '', $steps[$_][1], 'example ' . ($_ + 1) for 0 .. $#steps;

my ($alarms) = $doc =~ /^## What to watch\n(.*)/ms;
my ($sample, $family) = metrics_parse(http_get($local, '/internal/metrics')->body);
for my $metric ($alarms =~ /^\| `\w*\(?(platform_gateway_\w+)/mg) {
    ok $family->{$metric}, "$metric is a metric";
}
my %reason = map { $_ => 1 }
    map { /reason="(\w+)"/ } grep {/refusals/} keys %$sample;
ok $reason{$_}, "$_ is a reason of refusals" for $alarms =~ /reason="(\w+)"/g;
my %known = map { $_ => 1 } @known;
is_deeply [ grep { !$known{$_} } keys %reason ], [],
    'reasons of the metrics are those of the table';

$t->done;
