# What a feed may do wrong: none of it blocks a worker, loses what is known or keeps
# what is good from being applied.  And the table in the processes: writers that are
# killed, two hundred thousand revocations at once, a single process, other claims.
# What a page may say: check_page; a feed that never ends: check_poll.

use List::Util qw(min);
use Platform::Test;
use Platform::Test::Clock;
use Platform::Test::Revocations;
use Time::HiRes qw(time);

my ($MANY, $SOME, $SET) = (200_000, 60_000, 'uri=/_revocations interval=100ms');

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $feed = revocations_feed($t);
my $port = $t->port('gateway');
my ($first, $goes_on) = map { uuid($_) } 1, 1000;
my @all;
my $last = 0;

sub ask ($token) { return http_get($port, '/branch', token => $token)->status }

sub token ($session, %claims) {
    return jwt_token('branch', $key, session_id => $session, %claims);
}

sub status { return ask(token(@_)) }

# One more session ends; its id.
sub revoke {
    push @all, revoked_id(uuid(++$last), @_);
    $feed->set(all => \@all);
    return uuid($last);
}

# Until it is refused, through workers that die.
sub arrives ($session, $name) {
    my $token = token($session);
    ok eventually(sub { (eval { ask($token) } // 0) == 401 }), $name or die "it does not\n";
}

# All that is known still counts, and nothing else does.
sub holds ($name) {
    is_deeply [ map { status($_) } $first, $goes_on ], [ 401, 200 ],
        "$name: what is known is refused, others are let in";
}

sub metric { return revocations_metrics($t)->{"revocation_$_[0]"} }

# Waits until a counter grew $n times from before $do.
sub grows ($outcome, $n, $do = sub { }) {
    my $name = qq(fetches_total{outcome="$outcome"});
    my $was = metric($name);
    $do->();
    return eventually(sub { metric($name) >= $was + $n });
}

# A limit that its location inherits, and two fetches use up, is not for them.

my $nginx = revocations_conf($t, $key,
    http => 'limit_req_zone $remote_addr zone=a:1m rate=1r/m;',
    location => 'limit_req zone=a; proxy_read_timeout 3s; proxy_next_upstream off;');
my $clock = Platform::Test::Clock->new($t, $nginx);
$t->start_gateway;
arrives(revoke(), 'control: a good feed');
holds('control');

# Answers that are none; gw_keys.t has those that the fetch itself refuses.
# Each fails as what it is; on a busy machine a fetch before it may be a slow one.

my $page = revocations_page([ revoked_id(uuid(900)) ]);
my %bad = (
    'garbage'           => [ 'it is not a page in JSON', body => "\x00\xff{{{" ],
    '100 MB'            => [ 'the document is too large',
        fill => [ $page, 100_000_000 ], length => 100_000_000 + length $page ],
    503                 => [ 'status 503', status => 503, body => $page ],
    'no answer'         => [ 'status 502', hangup => 1 ],
    'a slow answer'     => [ 'status 504', hold => 1 ],

    # One that never ends, of which some comes all the time.
    'a drip'            => [ 'timed out', drip => 1 ],
);
my %reset = ((map { $_ => undef } qw(body fill length status hangup hold drip)),
    many => 0, page => 1000);
for my $name (sort keys %bad) {
    my ($why, %state) = @{ $bad{$name} };
    my $session = revoke();
    my ($count, $said) = ($feed->count, length $nginx->error_log);
    ok grows(failed => 1, sub {
        $feed->set(%state);
        eventually(sub { $feed->count > $count });
        for ($name =~ /drip/ ? 1 .. 3 : $name =~ /slow/ ? 1 .. 2 : ()) {
            $clock->pass(2);
            sleep 0.3;    # some comes
        }
    }), "$name: fails";
    ok eventually(sub { substr($nginx->error_log, $said)
        =~ /\[error\] .*revocations not read: $why; those already known still count/ }),
        "$name: the log says why";
    holds($name);
    $feed->set(%reset);
    arrives($session, "$name: then a good one is read");
}
like $nginx->error_log, qr/\[notice\] .*revocations are read again/, 'and that it is over';

# At its limits; sent in other ways; a difference of times that no number holds.

$feed->set(page => 2000, many => 2000, known => 'full');
arrives(revocations_many($_), "a page of 2,000: number $_") for 0, 1999;
$feed->set(%reset, known => 'less');

my @sent = map { revocations_page([ revoked_id(uuid($_)) ]) } 4000, 4001;
$feed->set(raw => "HTTP/1.0 200 OK\r\n\r\n$sent[0]");
arrives(uuid(4000), 'sent to the end of the connection');
$feed->set(raw => join '', "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n",
    map({ sprintf "\r\n%x\r\n%s", length, $_ } $sent[1] =~ /.{1,9}/g), "\r\n0\r\n\r\n");
arrives(uuid(4001), 'sent in chunks');
$feed->set(%reset, raw => undef, body => revocations_page([ revoked_id(uuid(5000),
    revoked_at => -9_000_000_000_000_000) ]) =~ s/"now":[0-9.]+/"now":9000000000000000/r);
arrives(uuid(5000), 'a lag that is none');
$feed->set(%reset);

# A cursor that the feed does not know (any more).

sub from_the_beginning {
    return scalar grep { $_->{uri} eq '/internal/revocations' } $feed->requests;
}
$feed->set(known => 'b');
arrives(revoke(), '400: from the beginning again');
holds('400');
cmp_ok metric('fetches_total{outcome="cursor"}'), '>=', 1, 'which is counted';
my $asked = from_the_beginning();
$feed->set(all => [], known => 'c');
ok eventually(sub { from_the_beginning() > $asked }), 'a feed that lost all';
ok grows(read => 2), 'is read';
holds('and takes nothing back');
$feed->set(status => 400, body => 'no');
ok grows(failed => 2), 'one that always says 400 fails';
$feed->set(%reset, all => \@all);
arrives(revoke(), 'until it does not');

# An issuer's clock that is an hour off: its tokens are not believed in any
# case, and those of a good clock are judged as before.

for my $off (3600, -3600) {
    $feed->set(skew => $off);
    my $sum = metric('lag_seconds_sum');
    my $now = int time;
    my $id = revoke(revoked_at => $now + $off, dies_at => $now + $off + 900);
    arrives(revoke(revoked_at => $now + $off), "a clock $off s off: it is read");
    is status($id), 401, 'what dies by it: 401' if $off > 0;
    is status($id, iat => $now + $off, exp => $now + $off + 900), 401, 'its tokens are refused';
    holds("a clock $off s off");
    cmp_ok metric('lag_seconds_sum') - $sum, '<', 20,
        'the lag is that of the feed, not of two clocks';
}
is metric('zone_full'), 0, 'the zone was not full';

# The worker that has the right to ask dies with it, and with a page in hand.

@all = ();
$feed->set(page => 2000, skew => 0, known => 'killed');
$last = 0;
revoke();
$nginx = revocations_gateway($t, $key, set => "zone=revocations:16m $SET");
$t->allow(qr/exited on signal 9|"revocations" was locked by/);
arrives($first, 'control: one is refused');
my @after;
for my $round (1 .. 3) {
    my $count = $feed->count;
    $feed->set(hold => 1);
    ok eventually(sub { $feed->count > $count }), "round $round: one asks";
    sleep 0.1;
    kill 'KILL', $nginx->workers;
    ok eventually(sub { (my @w = $nginx->workers) == 2 }), 'all are killed';
    my $session = revoke();
    $feed->set(hold => 0);
    my $since = time;
    arrives($session, 'and others go on asking');
    push @after, time - $since;
    holds("round $round");
}
cmp_ok min(@after), '<', 4 * $t->scale, 'before the lease has run out';

# In the middle of writing, at random.  With each the feed has more of them, so five at
# least die before it has been read.

my ($killed, %seen) = (0);
sub more { $feed->set(many => min($SOME, $SOME / 6 * ($killed + 1)), all => [], known => 'many') }
more();
my $until = time + 240 * $t->scale;
my @tokens = map { token($_) } $first, $goes_on;
while (time < $until) {
    my $entries = eval { metric('entries') } // 0;
    last if $entries >= $SOME && $killed >= 5;
    if ($entries < $SOME && $killed < 40 && (my @w = $nginx->workers) == 2) {
        kill 'KILL', $w[ rand @w ];
        $killed++;
        more();
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
arrives(revoke(), 'then it goes on');
is_deeply [ grep { status(revocations_many($_)) != 401 }
    0, $SOME - 1, map { int rand $SOME } 1 .. 50 ], [], 'all of them are there';
is status(revocations_many($SOME + $_)), 200, 'and no other' for 0 .. 4;
my ($entries, $right) = (metric('entries'), $SOME + @all);
ok $entries >= $right && $entries <= $right + $killed,
    'they are counted, but for one a death' or diag "$entries, not $right";

# All at once, as one worker reads them.

$feed->set(all => [], known => 'a', many => 0);
$nginx = revocations_gateway($t, $key, set => "zone=revocations:16m $SET",
    main => 'worker_processes 1;', http => 'keepalive_requests 1000000;');
my ($pid) = $nginx->workers;
my $client = Platform::Test::Http->new(port => $port);
my $good = token($goes_on);
my (@busy, %status);

# One value of a file of the worker in /proc.
sub proc ($file, $pattern) {
    return ((Platform::Test::Env::slurp("/proc/$pid/$file") // '') =~ $pattern)[0] // 0;
}

# How long it was on a processor for a request, in ms, and its memory in KiB.
sub probe {
    my $was = proc(schedstat => qr/^(\d+)/);
    $status{ $client->request(GET => '/branch', token => $good)->status }++;
    push @busy, (proc(schedstat => qr/^(\d+)/) - $was) / 1e6;
    return proc(status => qr/^RssAnon:\s+(\d+)/m);
}
probe() for 1 .. 9;
my $before = my $most = probe();
@busy = ();
$feed->set(many => $MANY);
$until = time + 300 * $t->scale;
while (time < $until && (@busy % 50 || metric('entries') < $MANY)) {
    $most = -min(-$most, -probe());
    sleep 0.001;
}
is metric('entries'), $MANY, 'all entries are there';
is_deeply [ keys %status ], [200], 'a client that goes on is let in meanwhile';
my $busy = (sort { $a <=> $b } @busy)[ 0.99 * $#busy ];
note sprintf '%d requests, the worker was busy for %.1f ms at the 99th percentile; '
    . "its memory: %d KiB before, %d at most", scalar @busy, $busy, $before, $most;
cmp_ok $busy, '<', 20 * $t->scale, 'the worker is never busy for long with it';
SKIP: {
    skip 'a sanitizer keeps what is freed', 1
        if Platform::Test::Env::asan() || Platform::Test::Env::valgrind();
    cmp_ok $most - $before, '<', 16 * 1024, 'nor takes it much memory';
}
is status(revocations_many($_)), 401, "number $_" for 0, $MANY / 2, $MANY - 1;
is status(revocations_many($MANY)), 200, 'control: no other';
$client->close;

@all = ();
$last = 0;
$feed->set(many => 0, known => 'shape');
revoke();
for my $shape ('worker_processes auto;', 'master_process off;') {
    revocations_gateway($t, $key, main => $shape, set => "zone=revocations:1m $SET");
    arrives($first, "$shape reads it");
    is status($goes_on), 200, "$shape lets others in";
}

# Issuers of another kind: the id is another claim, their keys are in a file.

my @other = (iss => 'https://other.example');
for my $claim (qw(sid jti)) {
    my $id = "$claim of theirs";
    $feed->set(page => 1000, known => $claim, all => [ revoked_id($id) ]);
    revocations_gateway($t, $key, issuer => $other[1],
        set => "zone=revocations:1m $SET claim=$claim");
    for my $case ([ 'refused', 401, $goes_on, @other, $claim => $id ],
        [ 'that claim alone counts', 200, $id, @other, $claim => 'another' ],
        [ 'control: another issuer', 401, $goes_on ],
        $claim eq 'jti' ? () : ([ 'one that is no string', 200, $goes_on, @other, sid => [$id] ],
            [ 'without it', 200, $goes_on, @other ]))
    {
        my ($name, $is, @token) = @$case;
        is status(@token), $is, "$claim: $name";
    }
    my $now = int time;
    $feed->set(all => [ revoked_id('x'), revoked_subject(uuid(7), $now + 1) ]);
    ok eventually(sub { status($goes_on, @other, sub => uuid(7), account_id => uuid(7),
        iat => $now) == 401 }), "$claim: by its subject";
}

$t->done;
