# Ten thousand accounts made by the API beside refreshes, every tenth call sent five
# times at once with one Idempotency-Key, while the service is killed and its database
# connections are cut again and again: each account is there once, as the client was
# told, with one row in the audit.

use IO::Socket::UNIX;
use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;
use Platform::Test::Load;
use Platform::Test::Sessions;
use Socket qw(SOCK_STREAM);
use Time::HiRes qw(time);

my $ACCOUNTS = $ENV{SOAK_ROUNDS} // 10_000;
my $MAKERS = 10;
my $REFRESHERS = 16;
my $KILL_S = 4;

my $t = Platform::Test->new(timeout => 1800);
my $pg = $t->postgres;
my %env = (PLATFORM_LOG_LEVEL => 'error', PLATFORM_AUTH_MAX_SESSIONS => 0,
    PLATFORM_AUTH_MAX_FAILURES => 0, PLATFORM_JWT_SYSTEM_TOKEN_TTL => '1h',
    PLATFORM_AUTH_REFRESH_RETRY_WINDOW => '30s', PLATFORM_HTTP_ACCESS_LOG_ENABLED => 'false');
my $c = Platform::Test::Commands->new(test => $t, env => \%env);
$t->allow(qr/upstream|connect\(\) to unix|recv\(\) failed|kevent|terminating connection/);

my $path = $t->dir . '/supervised.sock';
my $socket = IO::Socket::UNIX->new(
    Local => $path, Type => SOCK_STREAM, Listen => 4096) or die "$path: $!";
my $port = client_of($t, $t->start_face("unix:$path", listen => 'backlog=1024',
    http => 'keepalive_requests 1000000;'));
sub start_identity { return $t->inherited_identity($socket, %env) }
my $running = start_identity();

my $id = $c->done(qw(client add maker --allow people:write --allow people:read))->{accountId};
my $secret = $c->done(qw(client secret add maker))->{secret};
my $token = http($port, POST => '/api/auth/token', body => 'grant_type=client_credentials'
    . "&client_id=$id&client_secret=$secret",
    headers => [ 'Content-Type' => 'application/x-www-form-urlencoded' ])->json->{access_token};
my $sessions = Platform::Test::Sessions->new(retries => 1);
my $load = Platform::Test::Load->new(port => $port, clients => $MAKERS + $REFRESHERS);
$sessions->log_in($load, several => $REFRESHERS);
my @all = $sessions->all;
is scalar @all, $REFRESHERS, 'sessions to refresh';

# -- the calls: an account is made as often as it takes until the client was told

my (@again, %told, %got, %differ);
my ($next, $kills, $cut, $copies, $replayed) = (0, 0, 0, 0, 0);
my $kill_at = time + $KILL_S;
my $began = time;

sub call_for ($n) {
    return { path => '/api/system/accounts', number => $n, token => $token,
        json => { account => "made-$n\@soak.test" }, headers => [ 'Idempotency-Key' => "call-$n" ] };
}

sub next_account {
    return call_for(shift @again) if @again;
    return undef if $next >= $ACCOUNTS;
    my $n = $next++;
    if ($n % 10 == 0) {
        push @again, ($n) x 4;
        $copies += 4;
    }
    return call_for($n);
}

# Kills the service, or cuts half of its connections to the database.
sub break_something {
    $kill_at = time + $KILL_S;
    if (($kills + $cut) % 2) {
        $cut += $pg->sql("select count(pg_terminate_backend(pid)) from pg_stat_activity
            where application_name = 'identity-service' and random() < 0.5", user => 'postgres') > 0;
        return;
    }
    $kills++;
    $running->expect_end->signal('KILL');
    $running->wait_end(10);
    $running = start_identity();
}

my $left = sub { $next < $ACCOUNTS || @again || keys %told < $ACCOUNTS };
$load->run(
    sub ($client, @) {
        break_something() if time >= $kill_at;
        return next_account() // ($left->() ? { wait => 0.05 } : undef)
            if $client->{number} < $MAKERS;
        return $left->() ? $sessions->refresh($all[ $client->{number} - $MAKERS ]) : undef;
    },
    sub ($request, $answer, @) {
        if (!defined $request->{number}) {
            $got{"refresh $answer->{status}"}++;
            return $sessions->note($request, $answer);
        }
        my $n = $request->{number};
        $got{"account $answer->{status} $answer->{code}"}++;
        if ($answer->{status} == 201 && $answer->{body} =~ /"accountId":"([^"]+)"/) {
            $replayed++ if defined $told{$n};
            $differ{$n} = 1 if ($told{$n} //= $1) ne $1;
        }
        elsif (!defined $told{$n}) {
            push @again, $n;
        }
    });
my $took = time - $began;
$t->track($running);

diag sprintf '%.0f s, %d accounts and %d refreshes a second, %d kills, %d cuts, %d replays', $took,
    $ACCOUNTS / $took, ($got{'refresh 200'} // 0) / $took, $kills, $cut, $replayed;
diag join ', ', map {"$_: $got{$_}"} sort keys %got;
is scalar keys %told, $ACCOUNTS, 'the client was told of each account';
is_deeply \%differ, {}, 'and of one only';
is_deeply [ grep { /^account/ && !/ (?:201 SYSTEM_SUCCESS|0 |50[234] .*|409 REQUEST_IN_PROGRESS)$/ }
        keys %got ], [], 'no other answer';
cmp_ok $replayed, '>=', $copies / 2, "a repeat got the first answer: $replayed of $copies copies";
cmp_ok $kills, '>=', 2, "the service was killed $kills times";
is $pg->sql("select count(*) from accounts where account_name like 'made-%'"), $ACCOUNTS,
    'as many accounts are there';
my %there = map { split /\|/ } split /\n/, $pg->sql("select substr(account_name, 6,
    position('\@' in account_name) - 6) || '|' || account_id from accounts
    where account_name like 'made-%'");
is scalar(grep { ($there{$_} // '') ne $told{$_} } keys %told), 0, 'those that the client was told of';
is $pg->sql("select count(*) || ' ' || count(distinct account_id) from audit_events
    where event = 'account.added' and by_account = '$id'"), "$ACCOUNTS $ACCOUNTS",
    'one row of the audit each, by the client';
is_deeply $sessions->{broken}, [], 'no session broke';
cmp_ok $got{'refresh 200'} // 0, '>', $ACCOUNTS / 10, 'refreshes went on beside it';

$t->done;
