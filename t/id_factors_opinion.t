# Second factors: what services of others refuse, of registrations and assertions of passkeys
# (@simplewebauthn/server) that are broken in thousands of ways and of codes (otplib), is
# refused, and both accept good ones.

use Platform::Test;
use Platform::Test::Env;

my $node = Platform::Test::Env::node();
my $t = Platform::Test->new(module => 0);

# What a script says of the judge, which is a unit test.
sub opinions ($script, $judge) {
    my @lines = split /^/, qx{$node @{[ $t->root ]}/t/node/$script @{[ Platform::Test::Env::build() ]}/test/$judge 2>&1};
    my @told = map { /^((?:not )?ok) (.*)/ ? [ $1, $2 ] : () } @lines;

    is $_->[0], 'ok', $_->[1] for @told;
    is $lines[-1], "done\n", "$script: all" or diag @lines;
    diag grep { /^# / } @lines;
    return map { $_->[1] } @told;
}

is scalar(grep { /^\w+: \d{4} cases, of which they refuse \d{4};/ } opinions('passkeys.mjs', 'check_webauthn_json')), 3,
    'three algorithms';
is scalar(grep { /^9120 codes, of which they accept 14\d\d$/ } opinions('totp.mjs', 'check_totp')), 1,
    'codes of three steps of seven, and no other form';

$t->done;
