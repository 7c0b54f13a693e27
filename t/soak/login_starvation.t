# Logins that keep every hash slot busy do not hold refreshes up: their 99th
# percentile stays within three times its value without any login.  Both are
# measured in turns, so that what else the machine does meets both.

use Platform::Test;
use Platform::Test::Chain;
use Platform::Test::Metrics;
use Time::HiRes qw(time);

my $ROUNDS = $ENV{SOAK_ROUNDS} // 8;
my $REFRESHES = 250;    # a round and state
chomp(my $CORES = `nproc`);
my $LOGINS = 2 * $CORES;    # clients: for each that hashes one waits

my $t = Platform::Test->new(timeout => 900);
my $identity = $t->identity(PLATFORM_HTTP_ACCESS_LOG_ENABLED => 'false',
    map { ("PLATFORM_AUTH_MAX_$_" => 0) } qw(FAILURES SESSIONS));
$t->start_face($identity->nginx_address);

# Logins go on while the file "saturate" exists.
my $logins = Platform::Test::Crowd->new($t, 'logins', $LOGINS, sub {
    my $load = Platform::Test::Chain->new($identity->address);
    until (-e $t->dir . '/enough') {
        if (!-e $t->dir . '/saturate') { sleep 0.01 }
        elsif ($load->login == 503)    { sleep 0.05 }    # as Retry-After asks
    }
    $load->tell;
});

my $client = Platform::Test::Chain->new($identity->address);
is $client->login, 200, 'a session to refresh';
$client->refresh for 1 .. 200;

my (%took, $bad, @busy);
for my $round (1 .. $ROUNDS) {
    for my $state (qw(idle busy)) {
        $t->write_file('saturate', '') if $state eq 'busy';
        sleep 0.5;
        for my $n (1 .. $REFRESHES) {
            my $start = time;
            $bad++ if $client->refresh != 200;
            push @{ $took{$state} }, 1000 * (time - $start);
            next if $state eq 'idle' || $n % 25;
            my $seen = metrics_scrape($t->port('identity'), '/actuator/prometheus');
            push @busy, $seen->{identity_hash_slots_used} == $seen->{identity_hash_slots};
        }
        unlink $t->dir . '/saturate';
    }
}
$t->write_file('enough', '');
ok $logins->ends(30), 'the logins end';

my %p99;
for my $state (qw(idle busy)) {
    my @all = map { Platform::Test::Chain::quantile($_, @{ $took{$state} }) } 0.5, 0.99, 1;
    diag sprintf '%s: p50 %.1f ms, p99 %.1f ms, most %.1f ms', $state, @all;
    $p99{$state} = $all[1];
}
my $got = $logins->sums;
diag 'logins by status: ', join ', ', map {"$_: $got->{$_}"} sort keys %$got;

is $bad // 0, 0, 'every refresh succeeds';
cmp_ok $got->{'/api/auth/login 200'}, '>', 10 * $ROUNDS, 'logins went on beside them';
my $saturated = grep {$_} @busy;
cmp_ok $saturated, '>=', 0.8 * @busy,
    "all hash slots were busy at $saturated of " . @busy . ' looks';
cmp_ok $p99{busy}, '<=', 3 * $p99{idle},
    sprintf 'p99 %.1f ms is within 3 x %.1f ms', @p99{qw(busy idle)};

$t->done;
