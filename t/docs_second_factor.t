# docs/second-factor.md, followed word by word from its beginning to its end: what the calls
# print is what the page says, and the demo account is as it was afterwards.

use JSON::PP qw(decode_json);
use Platform::Test;
use Platform::Test::Page qw(fixed_ids steps);

Platform::Test::Env::needs($_) for grep { system("$_ --version >/dev/null 2>&1") != 0 } qw(jq oathtool);

my $t = Platform::Test->new;
my ($dir, $page) = ($t->dir, $t->root . '/docs/second-factor.md');
my $s = $t->full_stack(env => {
    PLATFORM_AUTH_FACTOR_KEYS => 'one=' . 'QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=',
});
my $gateway = 'http://127.0.0.1:' . $s->gateway;

# A person waits for the next code; here the service forgets that one was used, or one of
# them would be at the edge of the steps that it accepts.
my ($psql, $host) = (Platform::Test::Env::postgres('psql'), $s->postgres->host);
my $app = <<"END";
oathtool() {
    $psql -q -h $host -U postgres -d platform -c 'update factors set last_step = 0' >&2
    command oathtool "\$@"
}
END

# What is different each time.
sub same ($text) {
    $text = fixed_ids($text) =~ s/\b\d{4}-\d\d-\d\dT[\d:]+Z/TIME/gr =~ s/"[\w-]{43}"/"..."/gr
        =~ s/"eyJ[\w.-]+"/"..."/gr =~ s/[A-Z2-7]{32}/SECRET/gr =~ s{totp/[^:]+:}{totp/ISSUER:}r
        =~ s/issuer=[^&]+/issuer=ISSUER/r =~ s/"recoveryCodes":\[\K"(?:[A-Z2-7]{4}-){3}.*?(?=\])/"CODES"/r;
    return eval { decode_json($text) } // $text;
}

my @steps = steps($page);
cmp_ok scalar @steps, '>', 5, 'the page has its steps';
$t->write_file('page.sh', "cd $dir\nset -e\n$app"
    . join("\necho '=== next'\n", map { $_->[0] } @steps) =~ s{http://localhost:8080}{$gateway}gr);
my @said = split /^=== next\n/m, qx{sh $dir/page.sh 2>$dir/page.log}, -1;
is $?, 0, 'the commands succeed' or diag @said, $t->read_file('page.log');
for my $n (0 .. $#steps) {
    is_deeply same($said[$n] // ''), same($steps[$n][1]), 'step ' . ($n + 1) . ' prints what the page says'
        or diag $said[$n];
}
is $s->login('one')->json->{code}, 'AUTH_LOGIN_SUCCESS', 'the account is as it was';

$t->done;
