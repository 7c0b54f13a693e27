# Stopping: what is in flight is finished, then the process is gone; a restart behind
# an inherited socket loses nothing.

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

sub start { return $t->identity(name => 'id' . ++$runs, @_) }

# Sends the signal; (exit status, seconds until the end).
sub stopped {
    my ($identity, $signal) = @_;

    my $start = time;
    my $process = $identity->process->expect_end;
    $process->signal($signal);
    $process->wait_end(60) or return ('none', 1e9);
    my $status = $process->status;
    return ($status & 127 ? 'signal ' . ($status & 127) : $status >> 8,
        time - $start);
}

# Connections that have sent so many bytes of it, which the process has read.
sub sent {
    my ($identity, $count, $bytes) = @_;

    my @c = map { $t->fcgi($identity->address) } 1 .. $count;
    $_->send($bytes) for @c;
    eventually(sub { !grep { !taken($_) } @c }) or die "not read\n";
    return @c;
}

# Whether the peer has read all that was sent there (SIOCOUTQ).
sub taken {
    my ($c) = @_;

    my $left = pack 'i', 0;
    return ioctl($c->connection->{fh}, 0x5411, $left) && !unpack 'i', $left;
}

sub login_bytes {
    my ($account, $credential) = @_;

    return Platform::Test::Fcgi::request_bytes(POST => '/api/auth/login', body =>
        qq({"account":"$account\@demo.test","credential":"$credential"}));
}

my $login = login_bytes(one => $Platform::Test::Stack::CREDENTIAL);
my $health = Platform::Test::Fcgi::request_bytes(GET => '/healthz');
my $half = substr $health, 0, 30;

# -- idle

for my $signal (qw(TERM INT)) {
    my $took = least($slack, sub {
        my $identity = start();
        my @idle = sent($identity, 50, $health);
        is scalar(grep { $_->read_answer->{status} == 200 } @idle), 50,
            "SIG$signal: 50 connections";
        my ($status, $took) = stopped($identity, $signal);
        is $status, 0, "SIG$signal: exit 0";
        ok !-e $identity->address, "SIG$signal: the socket is removed";
        ok $idle[0]->connection->closed, "SIG$signal: connections are closed";
        is +($identity->log_lines)[-1]{event}, 'service.stopped',
            "SIG$signal: the last line says so";
        return $took;
    });
    cmp_ok $took, '<', $slack, "SIG$signal: at once when idle";
}

# -- in flight: logins wait for a database that hangs, then comes back

my $identity = start(
    PLATFORM_AUTH_HASH_CONCURRENCY => 3,    # none waits for another
    PLATFORM_WORKER_THREADS       => 8,
    PLATFORM_REQUEST_TIMEOUT      => '50s',
    PLATFORM_DB_STATEMENT_TIMEOUT => '40s',
    PLATFORM_DB_CONNECT_TIMEOUT   => '40s',
);
is +(sent($identity, 1, $login))[0]->read_answer->{status}, 200, 'a login succeeds';
$pg->freeze('STOP');
my @flying = sent($identity, 3, $login);
ok eventually(sub {
    my ($busy) = $t->fcgi($identity->address)->request(
        GET => '/actuator/prometheus')->{body} =~ /^identity_workers_busy (\d+)/m;
    return $busy == 4;    # with this one
}), 'three are in flight';
my ($arriving) = sent($identity, 1, $half);    # two seconds to come whole
my $process = $identity->process->expect_end;
$process->signal('STOP');    # and one that nobody has accepted yet
my $waiting = $t->fcgi($identity->address);
$waiting->send($health);
$process->signal($_) for qw(TERM CONT);
ok eventually(sub { $identity->log_text =~ /service\.stopping/ }),
    'SIGTERM is heard';
$arriving->send(substr $health, 30);
is $arriving->read_answer->{status}, 200,
    'a request that had begun to arrive is served';
is +($waiting->read_answer // {})->{status}, 200, 'and one that was connected';
ok $process->alive, 'SIGTERM waits for requests in flight';
ok !-e $identity->address, 'while nobody new is let in';
$pg->freeze('CONT');
for my $c (@flying) {
    is $c->read_answer->{status}, 200, 'a request in flight gets its answer';
    ok $c->connection->closed, 'and its connection is closed';
}
ok $process->wait_end(60), 'then it ends';
is $process->status, 0, 'with exit 0';

# -- bounded: half-sent requests do not keep it; nor do those that go on and on, here
#    credentials with the dearest parameters there may be, all at once and on one
#    processor, so that they take even longer

$pg->sql("update accounts set credential_hash =
    '\$argon2id\$v=19\$m=262144,t=10,p=1\$" . 'A' x 22 . '$' . 'A' x 43
    . "' where account_name = 'several\@demo.test'");
for my $case (
    [ 'half-sent requests', 2.5 * $slack, 0, $half, PLATFORM_REQUEST_TIMEOUT => '1s' ],
    [ 'an endless request', 2 + $slack, 1, login_bytes(several => 'x'),
        PLATFORM_REQUEST_TIMEOUT => 0.2 * $slack . 's',
        PLATFORM_AUTH_HASH_CONCURRENCY => 4, PLATFORM_DB_SEED_ON_START => 'false' ],
    )
{
    my ($name, $bound, $exit, $bytes, %env) = @$case;
    my $took = least($bound, sub {
        my $identity = start(%env);
        system 'taskset -acp 0 ' . $identity->process->pid . ' >/dev/null 2>&1'
            if $exit;
        my @c = sent($identity, 4, $bytes);
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
$identity = start(
    PLATFORM_DB_MIGRATE_ON_START => 'false',
    PLATFORM_DB_SEED_ON_START    => undef,
    PLATFORM_REQUEST_TIMEOUT     => '50s',
    PLATFORM_DB_CONNECT_TIMEOUT  => '40s',
);
my @hanging = sent($identity, 1, $login);
$identity->process->signal('TERM');
ok eventually(sub { $identity->log_text =~ /service\.stopping/ }),
    'a first signal is heard';
ok $identity->process->alive, 'a first signal waits';
my ($status, $took) = stopped($identity, 'TERM');
is $status, 1, 'a second one: exit 1';
cmp_ok $took, '<', 20, 'a second one: before the login ends';
$pg->freeze('CONT');

# -- a supervisor's socket: restarts under load lose nothing

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

# All that all clients have been told, and waiting for a dozen more.
sub answers { return map { split /\n/, $t->read_file("load$_.out") // '' } 1 .. 8 }

sub goes_on {
    my $before = answers();
    return eventually(sub { takes_signals($running) && answers() > $before + 12 });
}

my @exits;
for my $round (1 .. 6) {
    goes_on();
    $running->expect_end->signal('TERM');
    $running->wait_end(60);
    push @exits, $running->status;
    $running = $t->inherited_identity($listener);
}
$t->track($running);
goes_on();
$t->write_file('enough', '');
$_->wait_end(60) for @load;
is_deeply \@exits, [ (0) x 6 ], '6 restarts: exit 0 each';
my %answers;
$answers{$_}++ for answers();
is_deeply [ keys %answers ], [200], 'and every POST under load gets 200'
    or diag explain \%answers;
ok -e $path, 'the supervisor\'s socket is left alone';

$t->done;
