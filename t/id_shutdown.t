# Stopping: what is in flight is finished, then the process is gone; a restart
# behind an inherited socket loses nothing.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use IO::Socket::UNIX;
use Platform::Test;
use Socket qw(SOCK_STREAM);
use Test::More;
use Time::HiRes qw(sleep time);

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $slack = $t->scale;
my $runs = 0;

sub start {
    my (%env) = @_;

    return $t->identity(name => 'id' . ++$runs, %env);
}

# Sends the signal; (exit status, seconds until the end).
sub stopped {
    my ($identity, $signal, $wait) = @_;

    my $start = time;
    my $process = $identity->process->expect_end;
    $process->signal($signal);
    $process->wait_end($wait // 60) or return ('none', 1e9);
    my $status = $process->status;
    return ($status & 127 ? 'signal ' . ($status & 127) : $status >> 8,
        time - $start);
}

# Whether the peer has read all that was sent there (SIOCOUTQ).
sub taken {
    my ($c) = @_;

    my $left = pack 'i', 0;
    return ioctl($c->connection->{fh}, 0x5411, $left) && !unpack 'i', $left;
}

# Idle.

for my $signal (qw(TERM INT)) {
    my $identity = start();
    my @idle = map { $t->fcgi($identity->address) } 1 .. 50;
    is grep({ $_->request(GET => '/healthz')->{status} == 200 } @idle), 50,
        "SIG$signal: 50 connections";
    my ($status, $took) = stopped($identity, $signal);
    is $status, 0, "SIG$signal: exit 0";
    $took = least($slack, sub {
        my $another = start();
        $_->request(GET => '/healthz')
            for map { $t->fcgi($another->address) } 1 .. 50;
        return (stopped($another, $signal))[1];
    }) if $took >= $slack;
    cmp_ok $took, '<', $slack, "SIG$signal: at once when idle";
    ok !-e $identity->address, "SIG$signal: the socket is removed";
    ok $idle[0]->connection->closed, "SIG$signal: connections are closed";
    my ($last) = ($identity->log_lines)[-1];
    is $last->{event}, 'service.stopped', "SIG$signal: the last line says so";
}

# In flight: a login waits for a database that hangs, then comes back.

sub login_bytes {
    return Platform::Test::Fcgi::request_bytes(POST => '/api/auth/login',
        body => '{"account":"one@demo.test",'
            . "\"credential\":\"$Platform::Test::Stack::CREDENTIAL\"}", @_);
}

my $identity = start(
    PLATFORM_AUTH_HASH_CONCURRENCY => 3,    # none waits for another
    PLATFORM_WORKER_THREADS       => 8,
    PLATFORM_REQUEST_TIMEOUT      => '50s',
    PLATFORM_DB_STATEMENT_TIMEOUT => '40s',
    PLATFORM_DB_CONNECT_TIMEOUT   => '40s',
);
my $c = $t->fcgi($identity->address);
$c->send(login_bytes());
is $c->read_answer->{status}, 200, 'a login succeeds';

$pg->freeze('STOP');
my @flying = map { $t->fcgi($identity->address) } 1 .. 3;
$_->send(login_bytes()) for @flying;
my $watch = $t->fcgi($identity->address);
ok eventually(sub {
    my ($busy) = $watch->request(GET => '/actuator/prometheus')->{body}
        =~ /^identity_workers_busy (\d+)/m;
    return $busy == 4;    # with this one
}), 'three are in flight';

# Half a request, which has two seconds to come whole.
my $arriving = $t->fcgi($identity->address);
my $request = Platform::Test::Fcgi::request_bytes(GET => '/healthz');
$arriving->send(substr $request, 0, 30);
ok eventually(sub { taken($arriving) }), 'and one has begun to arrive';
my $process = $identity->process->expect_end;
$process->signal('TERM');
ok eventually(sub { $identity->log_text =~ /service\.stopping/ }),
    'SIGTERM is heard';
$arriving->send(substr $request, 30);
is $arriving->read_answer->{status}, 200,
    'a request that had begun to arrive is served';
ok $process->alive, 'SIGTERM waits for requests in flight';
ok !-e $identity->address, 'while nobody new is let in';
$pg->freeze('CONT');
for my $c (@flying) {
    is $c->read_answer->{status}, 200, 'a request in flight gets its answer';
    ok $c->connection->closed, 'and its connection is closed';
}
ok $process->wait_end(60), 'then it ends';
is $process->status, 0, 'with exit 0';

# Bounded: half-sent requests do not keep it.

my ($status, $took);
$took = least(2.5 * $slack, sub {
    $identity = start(PLATFORM_REQUEST_TIMEOUT => '1s');
    my @half = map { $t->fcgi($identity->address) } 1 .. 5;
    $_->send(substr $request, 0, 30) for @half;
    eventually(sub { !grep { !taken($_) } @half });
    ($status, my $took) = stopped($identity, 'TERM');
    is $status, 0, 'half-sent requests: exit 0';
    return $took;
});
cmp_ok $took, '<', 2.5 * $slack, 'half-sent requests: within the bound';

# Bounded: nor do requests that go on and on, here credentials with the dearest
# parameters there may be, all at once and on one processor, so that they take
# even longer.

$pg->sql("update accounts set credential_hash =
    '\$argon2id\$v=19\$m=262144,t=10,p=1\$" . 'A' x 22 . '$' . 'A' x 43
    . "' where account_name = 'several\@demo.test'");
$took = least(2 + $slack, sub {
    $identity = start(PLATFORM_REQUEST_TIMEOUT => 0.2 * $slack . 's',
        PLATFORM_AUTH_HASH_CONCURRENCY => 4,
        PLATFORM_DB_SEED_ON_START      => 'false');
    system 'taskset -acp 0 ' . $identity->process->pid . ' >/dev/null 2>&1';
    my @endless = map { $t->fcgi($identity->address) } 1 .. 4;
    $_->send(Platform::Test::Fcgi::request_bytes(POST => '/api/auth/login',
        body => '{"account":"several@demo.test","credential":"x"}'))
        for @endless;
    eventually(sub { !grep { !taken($_) } @endless });
    ($status, my $took) = stopped($identity, 'TERM');
    is $status, 1, 'an endless request: exit 1';
    like $identity->log_text, qr/requests in flight were cut off/,
        'an endless request: it says so';
    return $took;
});
cmp_ok $took, '<', 2 + $slack, 'an endless request: within the bound';

# Twice is at once.

$pg->freeze('STOP');
$identity = start(
    PLATFORM_DB_MIGRATE_ON_START => 'false',
    PLATFORM_DB_SEED_ON_START    => undef,
    PLATFORM_REQUEST_TIMEOUT     => '50s',
    PLATFORM_DB_CONNECT_TIMEOUT  => '40s',
);
$c = $t->fcgi($identity->address);
$c->send(login_bytes());
ok eventually(sub { taken($c) }), 'a login hangs';
$identity->process->signal('TERM');
ok eventually(sub { $identity->log_text =~ /service\.stopping/ }),
    'a first signal is heard';
ok $identity->process->alive, 'a first signal waits';
($status, $took) = stopped($identity, 'TERM');
is $status, 1, 'a second one: exit 1';
cmp_ok $took, '<', 20, 'a second one: before the login ends';
$pg->freeze('CONT');

# A supervisor's socket: restarts under load lose nothing.

my $path = $t->dir . '/inherited.sock';
my $listener = IO::Socket::UNIX->new(
    Local => $path, Type => SOCK_STREAM, Listen => 1024) or die "$path: $!";

my $port = $t->start_face("unix:$path");

my $running = $t->inherited_identity($listener);
is http_post($port, '/api/auth/logout', json => {})->status, 200,
    'descriptor 0 is the listener';

my @load = map {
    my $n = $_;
    Platform::Test::Process->start(
        name => "load$n", dir => $t->dir, log => $t->dir . "/load$n.out",
        code => sub {
            $| = 1;
            until (-e $t->dir . '/enough') {
                my $res = eval {
                    http_post($port, '/api/auth/logout', json => {});
                };
                print $res ? $res->status : "none $@", "\n";
            }
        });
} 1 .. 8;

my @exits;
# Until it takes signals itself, SIGTERM ends a program in its own way.
sub takes_signals {
    my ($process) = @_;

    open my $fh, '<', '/proc/' . $process->pid . '/status' or return 0;
    my $status = join '', <$fh>;

    # not what forked it, which blocks all signals for a moment
    return 0 unless $status =~ /^Name:\s*(?:identity-fcgi|memcheck)/m;
    my ($blocked) = $status =~ /^SigBlk:\s*([0-9a-f]+)/m;
    return hex(substr $blocked // '0', -8) & 1 << 14;
}

# How many answers all clients have had.
sub answers {
    my $n = 0;
    $n += () = ($t->read_file("load$_.out") // '') =~ /\n/g for 1 .. 8;
    return $n;
}

for my $round (1 .. 10) {
    my $before = answers();
    eventually(sub { takes_signals($running) && answers() > $before + 12 });
    $running->expect_end->signal('TERM');
    $running->wait_end(60) or push @exits, "round $round: no end";
    push @exits, $running->status;
    $running = $t->inherited_identity($listener);
}
$t->track($running);
my $before = answers();
eventually(sub { answers() > $before + 12 });
$t->write_file('enough', '');
$_->wait_end(60) for @load;

my %answers;
for my $n (1 .. 8) {
    $answers{$_}++ for split /\n/, $t->read_file("load$n.out");
}
is_deeply \@exits, [ (0) x 10 ], '10 restarts: exit 0 each';
is_deeply [ keys %answers ], [200], '10 restarts under load: every POST gets 200'
    or diag explain \%answers;
cmp_ok $answers{200}, '>', 20, "$answers{200} of them";
ok -e $path, 'the supervisor\'s socket is left alone';

$t->done;
