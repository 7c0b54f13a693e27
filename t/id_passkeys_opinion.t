# Passkeys: what a service of others refuses (@simplewebauthn/server), of registrations and
# assertions that are broken in thousands of ways, is refused, and both accept good ones.

use Platform::Test;
use Platform::Test::Env;

my $node = Platform::Test::Env::node();
my $t = Platform::Test->new(module => 0);
my $judge = Platform::Test::Env::build() . '/test/check_webauthn_json';
my @lines = split /^/, qx{$node @{[ $t->root ]}/t/node/passkeys.mjs $judge 2>&1};
my @told = map { /^((?:not )?ok) (.*)/ ? [ $1, $2 ] : () } @lines;

is $_->[0], 'ok', $_->[1] for @told;
is scalar(grep { $_->[1] =~ /^\w+: \d{4} cases, of which they refuse \d{4};/ } @told), 3,
    'three algorithms';
is $lines[-1], "done\n", 'all' or diag @lines;

$t->done;
