# Imports accounts with hashes of every kind, at the cost that other systems
# have by default, and logs each of them in twice: the first time replaces the
# hash.  Prints the times; beside them those of unknown accounts, while most
# hashes are still foreign ones and after all were replaced.

use Platform::Test;
use Platform::Test::Commands;
use Platform::Test::Import;
use Time::HiRes qw(time);

my $ACCOUNTS = $ENV{SOAK_ACCOUNTS} // 10_000;
my $CREDENTIAL = 'Demo-passw0rd!';

my $t = Platform::Test->new(timeout => 7200);
my %env = (
    PLATFORM_DB_SEED_ON_START        => 'false',
    PLATFORM_AUTH_MAX_FAILURES       => 0,
    PLATFORM_AUTH_COOKIE_SECURE      => 'false',
    PLATFORM_HTTP_ACCESS_LOG_ENABLED => 'false',
);
my $pg = $t->postgres(empty => 1);
my $c = Platform::Test::Commands->new(test => $t, env => \%env);
$c->done('migrate');
$c->done(qw(workspace add Shop --new-tenant Acme));
$c->done(qw(branch add Main --workspace Shop));

my @kinds = hash_kinds();
my $file = join '', map { import_line(account => "user$_",
    hash => foreign_hash($kinds[ $_ % @kinds ], $CREDENTIAL, $_ % 40, 1),
    memberships => [ { workspace => 'Shop',
        grants => [ { branch => 'Main', roles => ['CASHIER'] } ] } ])
} 1 .. $ACCOUNTS;
for my $what ('an import', 'the same file again') {
    my $start = time;
    my $result = $c->done({ stdin => $file, within => 600 }, qw(account import));
    diag sprintf '%s of %d accounts: %.1f s', $what, $ACCOUNTS, time - $start;
    is $result->{refused}, 0, "$what: none refused";
}

my $identity = $t->identity_face(%env);
my $port = $t->port('identity');

# Milliseconds that a login took, which had this status.
sub login ($account, $credential, $status) {
    my $start = time;
    my $got = http_post($port, '/api/auth/login', json => {
        account => $account, credential => $credential })->status;
    fail("$account: $got") if $got != $status;
    return 1000 * (time - $start);
}

sub show ($what, @ms) {
    @ms = sort { $a <=> $b } @ms;
    diag sprintf '%-26s %6d: median %4.0f ms, 5%% %4.0f, 95%% %4.0f', $what,
        scalar @ms, map { $ms[ $_ * $#ms ] } 0.5, 0.05, 0.95;
}

my @some = map { int($_ * $ACCOUNTS / 200) + 1 } 0 .. 199;
show('known, wrong', map { login("user$_", 'wrong', 401) } @some);
show('unknown', map { login("nobody$_", 'wrong', 401) } @some);
for my $what ('first', 'second') {
    for my $kind (0 .. $#kinds) {
        show("$kinds[$kind], $what login", map { login("user$_", $CREDENTIAL, 200) }
            grep { $_ % @kinds == $kind } 1 .. $ACCOUNTS);
    }
    is $pg->sql("select count(*) from accounts
        where credential_hash like '\$argon2id\$v=19\$m=19456,t=2,p=1\$%'"),
        $ACCOUNTS, "all are Argon2id of today after the $what login";
}
show('known, wrong, after', map { login("user$_", 'wrong', 401) } @some);
show('unknown, after', map { login("nobody$_", 'wrong', 401) } @some);

$t->done;
