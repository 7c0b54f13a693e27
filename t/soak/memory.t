# A hundred thousand refreshes and as many calls with their tokens leave what identity and
# nginx hold flat: resident memory when idle, descriptors, and the pages of the sessions.

use Platform::Test;
use Platform::Test::Chain;
use Time::HiRes qw(time);

my $TOTAL = $ENV{SOAK_REQUESTS} // 100_000;
my $TENTHS = 10;
my $CLIENTS = 4;
my $EACH = int($TOTAL / $TENTHS / $CLIENTS);

my $t = Platform::Test->new(timeout => 3600);
my $identity = $t->identity(PLATFORM_AUTH_MAX_FAILURES => 1_000_000,
    PLATFORM_HTTP_ACCESS_LOG_ENABLED => 'false',
    PLATFORM_JWT_ISSUER => 'http://127.0.0.1:' . $t->port('identity'));
my $stack = $t->full_stack(identity => $identity, edit => sub {
    s/^http \{/$&\n    platform_gateway_token_cache entries=1024;/m or die 'no http';
});

# What is held now: KiB resident, open descriptors, rows and KiB of the sessions.
sub held {
    my ($worker) = $stack->{nginx}->workers;
    my %held;
    for ([ identity => $identity->pid ], [ gateway => $worker ]) {
        my ($name, $pid) = @$_;
        ($held{"$name KiB"}) = $t->read_file("/proc/$pid/status") =~ /^VmRSS:\s+(\d+) kB/m;
        $held{"$name descriptors"} = () = glob "/proc/$pid/fd/*";
    }
    @held{'sessions', 'table KiB'} = split /\|/, $t->postgres->sql(
        "select count(*), pg_total_relation_size('auth_sessions') / 1024 from auth_sessions");
    return \%held;
}

# What one client does in a tenth: mostly refreshes, and a little of all else,
# good and bad.
sub work ($n) {
    my $load = Platform::Test::Chain->new($identity->address,
        account => $n % 2 ? 'one@demo.test' : 'two-hundred@demo.test');
    my $spare = Platform::Test::Chain->new($identity->address);
    my $http = Platform::Test::Http->new(port => $stack->gateway);
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
        else {
            $load->refresh;
            my $got = $http->request(GET => '/api/auth/sessions', token => $load->{accessToken},
                connection => 'keep-alive');
            $http = Platform::Test::Http->new(port => $stack->gateway)
                if ($got->header('Connection') // '') eq 'close';
            $load->{count}{ 'gateway ' . $got->status }++;
        }
    }
    $_->tell for $load, $spare;
}

my (@held, %answers);
for my $tenth (1 .. $TENTHS) {
    my $start = time;
    my $clients = Platform::Test::Crowd->new($t, "client$tenth.", $CLIENTS, \&work);
    $clients->ends(1200) or die "a client does not end\n";
    my $got = $clients->sums;
    $answers{ s{^/nothing/\d+}{/nothing}r } += $got->{$_} for keys %$got;
    sleep 1;
    push @held, held();
    diag join ', ', sprintf('%7d turns, %.0f/s', $tenth * $EACH * $CLIENTS,
        $EACH * $CLIENTS / (time - $start - 1)), map {"$_ $held[-1]{$_}"} sort keys %{ $held[-1] };
}

note explain \%answers;
cmp_ok $answers{'/api/auth/refresh 200'}, '>=', 0.8 * $TOTAL,
    "$answers{'/api/auth/refresh 200'} refreshes";
cmp_ok $answers{'gateway 200'}, '>=', 0.8 * $TOTAL, "$answers{'gateway 200'} calls";
cmp_ok $answers{'/api/auth/login 200'}, '>=', $TOTAL / 200,
    "$answers{'/api/auth/login 200'} logins";
is scalar(grep {/ (?:none|50\d)$/} keys %answers), 0,
    'every request was answered, none by an error of ours'
    or diag explain \%answers;
# In the first half the gateway's cache of tokens fills, if there are 10,000 turns.
my %grown = map { ($_ => $held[-1]{$_} - $held[ $TENTHS / 2 - 1 ]{$_}) } keys %{ $held[0] };
for my $name (qw(identity gateway)) {
    cmp_ok $grown{"$name KiB"}, '<=', 2048,
        qq(in the second half $name grew by $grown{"$name KiB"} KiB);
    cmp_ok $grown{"$name descriptors"}, '<=', 2,
        qq($name: $held[-1]{"$name descriptors"} descriptors, $grown{"$name descriptors"} more);
}
cmp_ok $grown{'table KiB'}, '<=', 1024 + 2 * $grown{sessions},
    "$grown{sessions} sessions more, $grown{'table KiB'} KiB more of them and their indexes";

$t->done;
