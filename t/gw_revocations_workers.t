# The table and the processes: a writer that is killed, a million revocations at
# once, a single process, and issuers of another kind.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use List::Util qw(min);
use Platform::Test;
use Platform::Test::Revocations;
use Test::More;
use Time::HiRes qw(sleep time);

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $feed = revocations_feed($t, page => 10_000);
my $port = $t->port('gateway');
my $SET = 'uri=/_revocations interval=100ms';
my ($first, $goes_on) = (uuid(1), uuid(2));
my @all;

sub token {
    my ($session, %claims) = @_;

    return jwt_token('branch', $key, session_id => $session, %claims);
}

sub ask { return http_get($port, '/branch', token => $_[0])->status }

# Of what a worker, by its number, has read of its own memory, in KiB; and how
# long it was on a processor, in ms.
sub memory {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/status" or return 0;
    my ($kib) = map {/\ARssAnon:\s+(\d+)/} <$fh>;
    return $kib;
}

sub busy {
    my ($pid) = @_;

    open my $fh, '<', "/proc/$pid/schedstat" or return 0;
    my ($ns) = split ' ', <$fh>;
    return $ns / 1e6;
}

# The worker that has the right to ask dies with it, and with a page in hand.

my $nginx = revocations_gateway($t, $key, set => "zone=revocations:16m $SET");
$t->allow(qr/exited on signal 9/);
push @all, revoked_id($first);
$feed->set(all => \@all);
ok eventually(sub { ask(token($first)) == 401 }), 'control: one is refused';
my @after;
for my $round (1 .. 3) {
    my $count = $feed->count;
    $feed->set(hold => 1);
    ok eventually(sub { $feed->count > $count }), "round $round: one asks";
    sleep 0.1;
    kill 'KILL', $nginx->workers;
    ok eventually(sub { (my @w = $nginx->workers) == 2 }), 'all are killed';
    my $session = uuid(10 + $round);
    push @all, revoked_id($session);
    $feed->set(hold => 0, all => \@all);
    my $since = time;
    ok eventually(sub { ask(token($session)) == 401 }), 'and others go on asking';
    push @after, time - $since;
    is ask(token($first)), 401, 'what was known is';
    is ask(token($goes_on)), 200, 'and no more';
}
cmp_ok min(@after), '<', 4 * $t->scale, 'before the lease has run out';

# In the middle of writing, at random.

$feed->set(many => 200_000, known => 'many');
my ($killed, %seen) = (0);
my $until = time + 240 * $t->scale;
my @tokens = (token($first), token($goes_on));
while (time < $until) {
    my $entries = eval { revocations_metrics($t)->{'revocation_entries'} } // 0;
    last if $entries >= 200_000 && $killed >= 10;
    if ($entries < 200_000 && $killed < 40) {
        my @w = $nginx->workers;
        kill 'KILL', $w[ rand @w ] if @w == 2;
        $killed++;
    }
    for my $n (0, 1) {
        my $status = eval { ask($tokens[$n]) } // next;
        $seen{"$n $status"}++;
    }
    sleep 0.02 + rand 0.05;
}
cmp_ok $killed, '>=', 5, "workers were killed while they wrote, $killed times";
is_deeply [ sort keys %seen ], [ '0 401', '1 200' ],
    'meanwhile what is known is refused, and nothing else'
    or diag explain \%seen;
my $last = uuid(90);
push @all, revoked_id($last);
$feed->set(all => \@all);
ok eventually(sub { ask(token($last)) == 401 }), 'then it goes on';
my @missing = grep { ask(token(revocations_many($_))) != 401 }
    0, 199_999, map { int rand 200_000 } 1 .. 200;
is "@missing", '', 'all of them are there';
is ask(token(revocations_many(200_000 + $_))), 200, 'and no other' for 0 .. 9;
my $entries = revocations_metrics($t)->{'revocation_entries'};
my $right = 200_000 + @all;
ok $entries >= $right && $entries <= $right + $killed,
    'they are counted, but for one a death' or diag "$entries, not $right";
$t->stop($nginx);
unlink $nginx->{log};

# A million at once.

$feed->set(many => 0, all => [], known => 'a');
$nginx = revocations_gateway($t, $key, set => "zone=revocations:48m $SET",
    main => 'worker_processes 1;', http => 'keepalive_requests 1000000;');
my ($pid) = $nginx->workers;
my $client = Platform::Test::Http->new(port => $port);
my $good = token($goes_on);
sub probe {
    my ($was, $since) = (busy($pid), time);
    my $res = $client->request(GET => '/branch', token => $good);
    my $ms = (time - $since) * 1000;
    return ($res->status, busy($pid) - $was, $ms);
}
probe() for 1 .. 10;
my $before = memory($pid);
$feed->set(many => 1_000_000);
my (@busy, @took, %status, $most);
$until = time + 300 * $t->scale;
while (time < $until) {
    my ($status, $busy, $ms) = probe();
    $status{$status}++;
    push @busy, $busy;
    push @took, $ms;
    my $kib = memory($pid);
    $most = $kib if $kib > ($most // 0);
    last if @busy % 200 == 0 && revocations_metrics($t)->{'revocation_entries'} >= 1_000_000;
    sleep 0.001;
}
is revocations_metrics($t)->{'revocation_entries'}, 1_000_000, 'a million entries are there';
is_deeply [ keys %status ], [200], 'a client that goes on is let in meanwhile';
@busy = sort { $a <=> $b } @busy;
@took = sort { $a <=> $b } @took;
note sprintf '%d requests meanwhile: the worker was busy for %.1f ms a request '
    . 'at the median, %.1f at the 99th percentile, %.1f at most; they took '
    . '%.1f, %.1f and %.1f ms', scalar @busy,
    (map { $busy[ $_ * $#busy ] } 0.5, 0.99, 1),
    (map { $took[ $_ * $#took ] } 0.5, 0.99, 1);
cmp_ok $busy[ 0.99 * $#busy ], '<', 20 * $t->scale, 'the worker is never busy for long with it';
note sprintf 'memory of the worker: %d KiB before, %d at most', $before, $most;
SKIP: {
    skip 'a sanitizer keeps what is freed', 1
        if Platform::Test::Env::asan() || Platform::Test::Env::valgrind();
    cmp_ok $most - $before, '<', 16 * 1024, 'nor takes it much memory';
}
is ask(token(revocations_many($_))), 401, "number $_" for 0, 500_000, 999_999;
is ask(token(revocations_many(1_000_000))), 200, 'control: no other';
$client->close;
$t->stop($nginx);
unlink $nginx->{log};

# Other shapes of nginx.

$feed->set(many => 0, all => [ revoked_id($first) ], known => 'shape');
for my $shape ('worker_processes auto;', 'master_process off;') {
    my $conf = revocations_conf($t, $key, main => $shape, set => "zone=revocations:1m $SET");
    my $single;
    if ($shape =~ /off/) {
        unlink $t->dir . '/nginx.pid';
        $single = Platform::Test::Process->start(name => 'single',
            dir => $t->dir, log => $t->dir . '/single.log',
            env => { $conf->_env },
            cmd => [ Platform::Test::Env::mode_prefix($t->dir, 'single'), $conf->_command ]);
        $t->track($single);
    }
    else {
        $t->start_nginx;
    }
    ok eventually(sub { (eval { ask(token($first)) } // 0) == 401 }, 15), "$shape reads it";
    is ask(token($goes_on)), 200, "$shape lets others in";
    $single ? $single->stop : $t->stop($conf);
    unlink $conf->{log};
}

# Issuers of another kind: the id is another claim, their keys are in a file.

for my $claim (qw(sid jti)) {
    $feed->set(many => 0, page => 1000, all => [ { id => "$claim of theirs",
        dies_at => int(time) + 900 } ], known => $claim);
    $nginx = revocations_gateway($t, $key, issuer => 'https://other.example',
        set => "zone=revocations:1m $SET claim=$claim");
    my %theirs = (iss => 'https://other.example');
    is ask(token($goes_on, %theirs, $claim => "$claim of theirs")), 401, "$claim: refused";
    is ask(token("$claim of theirs", %theirs, $claim => 'another')), 200,
        "$claim: that claim alone counts";
    is ask(token($goes_on, %theirs, $claim => [ "$claim of theirs" ])),
        $claim eq 'jti' ? 401 : 200, "$claim: one that is no string"
        if $claim eq 'sid';
    is ask(token($goes_on, %theirs)), 200, "$claim: without it" if $claim eq 'sid';
    is ask(token($goes_on)), 401, "$claim: control: another issuer";
    my $now = int time;
    $feed->set(all => [ { id => 'x', dies_at => $now + 900 }, revoked_subject(uuid(7), $now + 1) ]);
    ok eventually(sub {
        ask(token($goes_on, %theirs, sub => uuid(7), account_id => uuid(7), iat => $now)) == 401;
    }), "$claim: by its subject";
    $t->stop($nginx);
    unlink $nginx->{log};
}

$t->done;
