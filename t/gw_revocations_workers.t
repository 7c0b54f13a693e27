# The table and the processes: a writer that is killed, two hundred thousand
# revocations at once, a single process, and issuers of another kind.

use List::Util qw(min);
use Platform::Test;
use Platform::Test::Revocations;
use Time::HiRes qw(time);

my $MANY = 200_000;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $feed = revocations_feed($t, page => 10_000);
my $port = $t->port('gateway');
my $SET = 'uri=/_revocations interval=100ms';
my ($first, $goes_on) = (uuid(1), uuid(2));
my @all;

sub token ($session, %claims) {
    return jwt_token('branch', $key, session_id => $session, %claims);
}

sub ask ($token) { return http_get($port, '/branch', token => $token)->status }

sub entries { return revocations_metrics($t)->{'revocation_entries'} }

# Until it is refused, through workers that die.
sub ends ($session, $name) {
    my $token = token($session);
    return ok eventually(sub { (eval { ask($token) } // 0) == 401 }), $name;
}

sub over ($nginx) {
    $t->stop($nginx);
    unlink $nginx->{log};
}

# One value of a file of a process in /proc.
sub proc ($pid, $file, $pattern) {
    open my $fh, '<', "/proc/$pid/$file" or return 0;
    return (map {/$pattern/} <$fh>)[0];
}

# The worker that has the right to ask dies with it, and with a page in hand.

my $nginx = revocations_gateway($t, $key, set => "zone=revocations:16m $SET");
$t->allow(qr/exited on signal 9/);
push @all, revoked_id($first);
$feed->set(all => \@all);
ends($first, 'control: one is refused');
my @after;
for my $round (1 .. 3) {
    my $count = $feed->count;
    $feed->set(hold => 1);
    ok eventually(sub { $feed->count > $count }), "round $round: one asks";
    sleep 0.1;
    kill 'KILL', $nginx->workers;
    ok eventually(sub { (my @w = $nginx->workers) == 2 }), 'all are killed';
    push @all, revoked_id(uuid(10 + $round));
    $feed->set(hold => 0, all => \@all);
    my $since = time;
    ends($all[-1]{id}, 'and others go on asking');
    push @after, time - $since;
    is_deeply [ map { ask(token($_)) } $first, $goes_on ], [ 401, 200 ], 'what was known is';
}
cmp_ok min(@after), '<', 4 * $t->scale, 'before the lease has run out';

# In the middle of writing, at random.

$feed->set(many => $MANY, known => 'many');
my ($killed, %seen) = (0);
my $until = time + 240 * $t->scale;
my @tokens = (token($first), token($goes_on));
while (time < $until) {
    my $entries = eval { entries() } // 0;
    last if $entries >= $MANY && $killed >= 10;
    if ($entries < $MANY && $killed < 40) {
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
    'meanwhile what is known is refused, and nothing else' or diag explain \%seen;
push @all, revoked_id(uuid(90));
$feed->set(all => \@all);
ends(uuid(90), 'then it goes on');
is_deeply [ grep { ask(token(revocations_many($_))) != 401 }
    0, $MANY - 1, map { int rand $MANY } 1 .. 100 ], [], 'all of them are there';
is ask(token(revocations_many($MANY + $_))), 200, 'and no other' for 0 .. 4;
my ($entries, $right) = (entries(), $MANY + @all);
ok $entries >= $right && $entries <= $right + $killed,
    'they are counted, but for one a death' or diag "$entries, not $right";
over($nginx);

# All at once, as one worker reads them.

$feed->set(all => [], known => 'a', many => 0);
$nginx = revocations_gateway($t, $key, set => "zone=revocations:16m $SET",
    main => 'worker_processes 1;', http => 'keepalive_requests 1000000;');
my ($pid) = $nginx->workers;
my $client = Platform::Test::Http->new(port => $port);
my $good = token($goes_on);
my (@busy, %status);

# How long it was on a processor for a request, in ms.
sub probe {
    my $was = proc($pid, 'schedstat', qr/^(\d+)/);
    $status{ $client->request(GET => '/branch', token => $good)->status }++;
    push @busy, (proc($pid, 'schedstat', qr/^(\d+)/) - $was) / 1e6;
}
probe() for 1 .. 10;
my $before = my $most = proc($pid, 'status', qr/\ARssAnon:\s+(\d+)/);
@busy = ();
$feed->set(many => $MANY);
$until = time + 300 * $t->scale;
while (time < $until && (@busy % 50 || entries() < $MANY)) {
    probe();
    my $kib = proc($pid, 'status', qr/\ARssAnon:\s+(\d+)/);
    $most = $kib if $kib > $most;
    sleep 0.001;
}
is entries(), $MANY, 'all entries are there';
is_deeply [ keys %status ], [200], 'a client that goes on is let in meanwhile';
@busy = sort { $a <=> $b } @busy;
my $busy = $busy[ 0.99 * $#busy ];
note sprintf '%d requests, the worker was busy for %.1f ms at the 99th percentile; '
    . "its memory: %d KiB before, %d at most", scalar @busy, $busy, $before, $most;
cmp_ok $busy, '<', 20 * $t->scale, 'the worker is never busy for long with it';
SKIP: {
    skip 'a sanitizer keeps what is freed', 1
        if Platform::Test::Env::asan() || Platform::Test::Env::valgrind();
    cmp_ok $most - $before, '<', 16 * 1024, 'nor takes it much memory';
}
is ask(token(revocations_many($_))), 401, "number $_" for 0, $MANY / 2, $MANY - 1;
is ask(token(revocations_many($MANY))), 200, 'control: no other';
$client->close;
over($nginx);

# Other shapes of nginx.

$feed->set(many => 0, all => [ revoked_id($first) ], known => 'shape');
for my $shape ('worker_processes auto;', 'master_process off;') {
    my $conf = revocations_conf($t, $key, main => $shape, set => "zone=revocations:1m $SET");
    my $single;
    if ($shape =~ /off/) {
        $single = $t->track(Platform::Test::Process->start(name => 'single',
            dir => $t->dir, log => $t->dir . '/single.log', env => { $conf->_env },
            cmd => [ Platform::Test::Env::mode_prefix($t->dir, 'single'), $conf->_command ]));
    }
    else {
        $t->start_nginx;
    }
    ends($first, "$shape reads it");
    is ask(token($goes_on)), 200, "$shape lets others in";
    $t->stop($single // $conf);
    unlink $conf->{log};
}

# Issuers of another kind: the id is another claim, their keys are in a file.

for my $claim (qw(sid jti)) {
    my $id = "$claim of theirs";
    $feed->set(page => 1000, known => $claim, all => [ { id => $id, dies_at => int(time) + 900 } ]);
    $nginx = revocations_gateway($t, $key, issuer => 'https://other.example',
        set => "zone=revocations:1m $SET claim=$claim");
    my %theirs = (iss => 'https://other.example');
    for my $case ([ 'refused', 401, $goes_on, %theirs, $claim => $id ],
        [ 'that claim alone counts', 200, $id, %theirs, $claim => 'another' ],
        [ 'control: another issuer', 401, $goes_on ],
        $claim eq 'jti' ? () : ([ 'one that is no string', 200, $goes_on, %theirs, sid => [$id] ],
            [ 'without it', 200, $goes_on, %theirs ]))
    {
        my ($name, $is, @token) = @$case;
        is ask(token(@token)), $is, "$claim: $name";
    }
    my $now = int time;
    $feed->set(all => [ { id => 'x', dies_at => $now + 900 }, revoked_subject(uuid(7), $now + 1) ]);
    ok eventually(sub {
        ask(token($goes_on, %theirs, sub => uuid(7), account_id => uuid(7), iat => $now)) == 401;
    }), "$claim: by its subject";
    over($nginx);
}

$t->done;
