# examples/client: passes the compiler's strictest checks, and does what it
# says against the real gateway, identity service and PostgreSQL.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Env;
use Test::More;

my $node = Platform::Test::Env::node();

my $t = Platform::Test->new;
my $s = $t->full_stack;
my ($dir, $tools) = ($t->dir, $t->root . '/t/node');

my $said = qx{$node $tools/node_modules/typescript/bin/tsc -p $tools --outDir $dir 2>&1};
is $?, 0, 'it compiles' or diag $said;
rename "$dir/client.js", "$dir/client.mjs";

my $base = 'http://127.0.0.1:' . $s->gateway;
my @lines = split /^/, qx{$node $tools/client.mjs $dir/client.mjs $base 2>&1};
my $checks = 0;
for my $line (@lines) {
    next unless $line =~ /^((?:not )?ok) (.*)/;
    $checks++;
    is $1, 'ok', $2;
}
is $lines[-1] // '', "$checks checks\n", 'all have been made'
    or diag join '', @lines;

# Control: the compiler finds a fault.
my $source = $t->root . '/examples/client/client.ts';
open my $in, '<', $source or die "$source: $!\n";
my $text = do { local $/; <$in> };
$text =~ s/token: string/token/ or die "no token in $source\n";
my $file = $t->write_file('changed.ts', $text);
qx{$node $tools/node_modules/typescript/bin/tsc --strict --noEmit --target es2022 --lib es2022,dom $file};
isnt $?, 0, 'control: a change of it does not';

$t->done;
