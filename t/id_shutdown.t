# Stopping: what is in flight is finished, then the process is gone; a restart behind
# an inherited socket loses nothing.

use IO::Socket::UNIX;
use Platform::Test;
use Platform::Test::Http;
use Socket qw(SOCK_STREAM);
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $slack = $t->scale;
my $runs = 0;

sub start { return $t->identity(name => 'id' . ++$runs, @_) }

# Sends the signal; (exit status, seconds until the end).
sub stopped ($identity, $signal) {
    my $start = time;
    my $process = $identity->process->expect_end;
    $process->signal($signal);
    $process->wait_end(60) or return ('none', 1e9);
    my $status = $process->status;
    return ($status & 127 ? 'signal ' . ($status & 127) : $status >> 8, time - $start);
}

# Connections that have sent so many bytes of it, which the process has read.
sub sent ($identity, $count, $bytes) {
    my @c = map { $t->fcgi($identity->address) } 1 .. $count;
    $_->send($bytes) for @c;
    eventually(sub { !grep { !taken($_) } @c }) or die "not read\n";
    return @c;
}

# Whether the peer has read all that was sent there (SIOCOUTQ).
sub taken ($c) {
    my $left = pack 'i', 0;
    return ioctl($c->connection->{fh}, 0x5411, $left) && !unpack 'i', $left;
}

sub login_bytes ($account, $credential) {
    return Platform::Test::Fcgi::request_bytes(POST => '/api/auth/login', body =>
        qq({"account":"$account\@demo.test","credential":"$credential"}));
}

my $login = login_bytes(one => $Platform::Test::Stack::CREDENTIAL);
my $health = Platform::Test::Fcgi::request_bytes(GET => '/healthz');
my $half = substr $health, 0, 30;

sub metric ($identity, $name) {
    my ($value) = $t->fcgi($identity->address)->request(
        GET => '/actuator/prometheus')->{body} =~ /^$name (\d+)/m;
    return $value // -1;
}

# -- idle

for my $signal (qw(TERM INT)) {
    my $took = least($slack, sub {
        my $identity = start();
        my @idle = sent($identity, 50, $health);
        my $served = grep { $_->read_answer->{status} == 200 } @idle;
        my ($status, $took) = stopped($identity, $signal);
        is_deeply [ $served, $status, -e $identity->address, $idle[0]->connection->closed,
            ($identity->log_lines)[-1]{event} ], [ 50, 0, undef, 1, 'service.stopped' ],
            "SIG$signal: 50 connections; exit 0, no socket, they are closed, the last line says so";
        return $took;
    });
    cmp_ok $took, '<', $slack, "SIG$signal: at once when idle";
}

# -- in flight: logins wait for a database that hangs, then comes back

my %patient = (PLATFORM_REQUEST_TIMEOUT => '50s', PLATFORM_DB_STATEMENT_TIMEOUT => '40s',
    PLATFORM_DB_CONNECT_TIMEOUT => '40s');
my $identity = start(%patient, PLATFORM_WORKER_THREADS => 8,
    PLATFORM_AUTH_HASH_CONCURRENCY => 3);    # none waits for another
is +(sent($identity, 1, $login))[0]->read_answer->{status}, 200, 'a login succeeds';
$pg->freeze('STOP');
my @flying = sent($identity, 3, $login);
ok eventually(sub { metric($identity, 'identity_workers_busy') == 4 }),    # with this one
    'three are in flight';
my $process = $identity->process->expect_end;
$process->signal('STOP');    # one more, that nobody has accepted yet
my $waiting = $t->fcgi($identity->address);
$waiting->send($health);
$process->signal($_) for qw(TERM CONT);
ok eventually(sub { $identity->log_text =~ /service\.stopping/ }), 'SIGTERM is heard';
is +($waiting->read_answer // {})->{status}, 200, 'a request that was connected is served';
ok $process->alive, 'SIGTERM waits for requests in flight';
ok !-e $identity->address, 'while nobody new is let in';
$pg->freeze('CONT');
for my $c (@flying) {
    is $c->read_answer->{status}, 200, 'a request in flight gets its answer';
    ok $c->connection->closed, 'and its connection is closed';
}
ok $process->wait_end(60) && $process->status == 0, 'then it ends, with exit 0';

# -- arriving: a request that comes whole within two seconds of its connection is served;
#    again, where this machine took longer to send it

my $served;
eventually(sub {
    my $identity = start();
    my $begun = time;
    my ($arriving) = sent($identity, 1, $half);
    $identity->process->expect_end->signal('TERM');
    eventually(sub { $identity->log_text =~ /service\.stopping/ });
    $arriving->send(substr $health, 30);
    $served = ($arriving->read_answer // {})->{status};
    return $served || time - $begun < 2;
});
is $served, 200, 'a request that had begun to arrive is served';

# -- bounded: half-sent requests do not keep it; nor do those that go on and on, here
#    credentials with the dearest parameters there may be, all at once and on one
#    processor, so that they take even longer

$pg->sql("update accounts set credential_hash =
    '\$argon2id\$v=19\$m=262144,t=10,p=1\$" . 'A' x 22 . '$' . 'A' x 43
    . "' where account_name = 'several\@demo.test'");
for my $case (
    [ 'half-sent requests', 2.5 * $slack, 0, $half, PLATFORM_REQUEST_TIMEOUT => '1s' ],
    [ 'an endless request', 2 + 2 * $slack, 1, login_bytes(several => 'x'),
        PLATFORM_REQUEST_TIMEOUT => $slack . 's', PLATFORM_AUTH_MAX_FAILURES => 0,
        PLATFORM_AUTH_HASH_CONCURRENCY => 4, PLATFORM_DB_SEED_ON_START => 'false' ],
    )
{
    my ($name, $bound, $exit, $bytes, %env) = @$case;
    my $took = least($bound, sub {
        my $identity = start(%env);
        # A first connection to the database may take their time.
        ok eventually(sub { ($t->fcgi($identity->address)->request(GET => '/readyz')->{status})
            == 200 }), "$name: there is a connection" if $exit;
        system 'taskset -acp 0 ' . $identity->process->pid . ' >/dev/null 2>&1' if $exit;
        my @c = sent($identity, 4, $bytes);
        # Who did not come to hash in time is replaced.
        ok eventually(sub { eventually(sub { metric($identity, 'identity_hash_slots_used') == 4 }, 2)
            || !push @c, sent($identity, 4, $bytes) }), "$name: four of them" if $exit;
        my ($status, $took) = stopped($identity, 'TERM');
        is $status, $exit, "$name: exit $exit";
        like $identity->log_text, $exit ? qr/requests in flight were cut off/
            : qr/all requests finished/, "$name: it says so";
        return $took;
    });
    cmp_ok $took, '<', $bound, "$name: within the bound";
}

# -- twice is at once

$pg->freeze('STOP');
$identity = start(%patient, PLATFORM_DB_MIGRATE_ON_START => 'false',
    PLATFORM_DB_SEED_ON_START => undef);
my @hanging = sent($identity, 1, $login);
$identity->process->signal('TERM');
ok eventually(sub { $identity->log_text =~ /service\.stopping/ }), 'a first signal is heard';
ok $identity->process->alive, 'and waits';
my ($status, $took) = stopped($identity, 'TERM');
ok $status eq '1' && $took < 20, 'a second one: exit 1, before the login ends' or diag $status;
$pg->freeze('CONT');

# -- a supervisor's socket: a restart loses nothing (under load: soak/history.t)

my $path = $t->dir . '/inherited.sock';
my $listener = IO::Socket::UNIX->new(
    Local => $path, Type => SOCK_STREAM, Listen => 1024) or die "$path: $!";
my $port = $t->start_face("unix:$path");
my $running = $t->inherited_identity($listener);
is http_post($port, '/api/auth/logout', json => {})->status, 200, 'descriptor 0 is the listener';
for my $round (1 .. 3) {
    # Who comes as it stops is left to the next one, or still served.
    $running->expect_end->signal('STOP');
    my @early = map { Platform::Test::Http->new(port => $port) } 1 .. 8;
    $_->send(http_request_bytes(POST => '/api/auth/logout', json => {})) for @early;
    $running->signal($_) for qw(TERM CONT);
    $running->wait_end(60);
    my $status = $running->status;
    $running = $t->inherited_identity($listener);
    is_deeply [ $status, map { $_->read_response->status } @early ], [ 0, (200) x 8 ],
        "restart $round: exit 0, and nobody is lost";
}
$t->track($running);
ok -e $path, 'the supervisor\'s socket is left alone';

$t->done;
