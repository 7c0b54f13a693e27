# A hundred thousand requests leave the memory of the identity service flat:
# what is resident when idle grows by at most 2 MiB after the first tenth.

use Platform::Test;
use Platform::Test::Chain;
use Time::HiRes qw(time);

my $TOTAL = $ENV{SOAK_REQUESTS} // 100_000;
my $TENTHS = 10;
my $CLIENTS = 4;
my $EACH = int($TOTAL / $TENTHS / $CLIENTS);

my $t = Platform::Test->new(timeout => 3600);
my $identity = $t->identity(PLATFORM_AUTH_MAX_FAILURES => 1_000_000,
    PLATFORM_HTTP_ACCESS_LOG_ENABLED => 'false');

sub resident_kib {
    return $t->read_file('/proc/' . $identity->pid . '/status') =~ /^VmRSS:\s+(\d+) kB/m
        ? $1 : die 'no status';
}

# What one client does in a tenth: mostly refreshes, and a little of all else,
# good and bad.
sub work ($n) {
    my $load = Platform::Test::Chain->new($identity->address,
        account => $n % 2 ? 'one@demo.test' : 'two-hundred@demo.test');
    my $spare = Platform::Test::Chain->new($identity->address);
    my $left = $EACH;
    $load->login;
    $left--;
    while ($left-- > 0) {
        my $turn = $left % 100;
        if ($turn == 1) { $spare->login }
        elsif ($turn == 2 || $turn == 4) { $spare->refresh }    # one of them: 401
        elsif ($turn == 3) { $spare->logout }
        elsif ($turn == 5) { $load->get('/.well-known/jwks.json') }
        elsif ($turn == 6) { $load->get('/actuator/prometheus') }
        elsif ($turn == 7) { $load->get('/readyz') }
        elsif ($turn == 8) { $load->get("/nothing/$left") }
        elsif ($turn == 9) { $load->request(POST => '/api/auth/login',
            body => '{"account":"a","account":"b"}') }
        elsif ($turn == 10) { $load->request(POST => '/api/auth/refresh',
            body => 'x' x 20_000) }
        elsif ($turn == 11 && $left % 1000 < 100) { $spare->login('wrong') }
        else { $load->refresh }
    }
    $_->tell for $load, $spare;
}

my (@kib, %answers);
for my $tenth (1 .. $TENTHS) {
    my $start = time;
    my $clients = Platform::Test::Crowd->new($t, "client$tenth.", $CLIENTS, \&work);
    $clients->ends(1200) or die "a client does not end\n";
    my $got = $clients->sums;
    $answers{ s{^/nothing/\d+}{/nothing}r } += $got->{$_} for keys %$got;
    sleep 1;
    push @kib, resident_kib();
    diag sprintf '%7d requests: %d KiB resident (%.0f requests/s)',
        $tenth * $EACH * $CLIENTS, $kib[-1],
        $EACH * $CLIENTS / (time - $start - 1);
}

note explain \%answers;
cmp_ok $answers{'/api/auth/refresh 200'}, '>=', 0.8 * $TOTAL,
    "$answers{'/api/auth/refresh 200'} refreshes";
cmp_ok $answers{'/api/auth/login 200'}, '>=', $TOTAL / 200,
    "$answers{'/api/auth/login 200'} logins";
is scalar(grep {/ (?:none|50\d)$/} keys %answers), 0,
    'every request was answered, none by an error of ours'
    or diag explain \%answers;
cmp_ok $kib[-1] - $kib[0], '<=', 2048, sprintf
    'after the first tenth it grew by %d KiB', $kib[-1] - $kib[0];

$t->done;
