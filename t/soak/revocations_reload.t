# A million revocations, and a reload every three seconds: how long until a new
# logout is effective in all workers, whether anybody else is refused under
# "refuse", and whether what ended before stays so.  The feed is one of ours that
# takes 25 ms a page, then identity's with its database.  And what else begins the
# feed anew: a start with nothing, killed workers, a cursor that is refused.

use Platform::Test;
use Platform::Test::Revocations;
use Time::HiRes qw(time);

my $ENTRIES = $ENV{SOAK_ENTRIES} // 1_000_000;
my $RELOADS = $ENV{SOAK_RELOADS} // 15;
my ($EVERY, $BOUND) = (3, 1.5);

my $t = Platform::Test->new(timeout => 1800);
my $key = jwt_key('a');
my $port = $t->port('gateway');
my $stays = uuid(1);
my ($nginx, $old, $end);

sub status ($session) {
    my $token = jwt_token('branch', $key, session_id => $session);
    my $res = eval { http_get($port, '/branch', token => $token) };
    return $res ? $res->status : 0;
}

sub ready { return eval { http_get($port, '/ready')->status } // 0 }

sub metric ($of) { return (eval { revocations_metrics($t) } // {})->{"revocation_$of"} // 0 }

# Seconds from the end of a session until eight in a row are refused.
sub effective {
    my ($session, $since, $row) = (uuid, time, 0);
    $end->($session);
    while ($row < 8 && time - $since < 120) {
        $row = status($session) == 401 ? $row + 1 : 0;
        Time::HiRes::sleep(0.01) if !$row;
    }
    return time - $since;
}

# Says what it is given for a session that goes on, for one that ended and for
# readiness, and how often.
sub load ($enough) {
    my %said;
    until (-e $enough) {
        $said{"$_->[0] $_->[1]"}++ for [ stays => status($stays) ],
            [ ended => status($old->[ rand @$old ]) ], [ ready => ready() ];
        Time::HiRes::sleep(0.02);
    }
    print "$_ $said{$_}\n" for keys %said;
}

# Runs it $n times, every $EVERY seconds each with a logout in between, beside the
# load.
sub rounds ($name, $n, $begin) {
    my $enough = $t->dir . "/$name.enough";
    my $load = Platform::Test::Crowd->new($t, $name, 1, sub { load($enough) });
    my @took;
    for (1 .. $n) {
        my $since = time;
        $begin->();
        Time::HiRes::sleep(rand 2);
        push @took, effective();
        my $left = $since + $EVERY - time;
        Time::HiRes::sleep($left) if $left > 0;
    }
    $t->write_file("$name.enough", '');
    ok $load->ends(60), "$name: the load ends";
    @took = sort { $a <=> $b } @took;
    cmp_ok $took[-1], '<', $BOUND * $t->scale, "$name: a new logout is effective";
    my $sums = $load->sums;
    delete @$sums{ grep {/ 0$/} keys %$sums } if $name =~ /killed/;    # with its worker
    is_deeply [ sort keys %$sums ], [ 'ended 401', 'ready 200', 'stays 200' ],
        "$name: nobody else is refused, what ended is, and it is ready" or diag explain $sums;
    note sprintf '%s: a logout took %.3f s (median) to %.3f s, of %d; %d requests', $name,
        @took[ $#took / 2, -1 ], scalar @took, $sums->{'stays 200'} // 0;
}

sub becomes_ready ($name, $within, $meanwhile = sub { }) {
    my $since = time;
    while (ready() != 200 && time - $since < $within) {
        $meanwhile->();
        Time::HiRes::sleep(0.1);
    }
    is ready(), 200, "$name: it is ready";
    note sprintf '%s: ready after %.1f s', $name, time - $since;
}

sub reload { $nginx->signal('HUP') }

my $reloaded = 0;
sub reload_at_times {
    return if time - $reloaded < $EVERY;
    reload();
    $reloaded = time;
}

# What is the same whoever has the feed.
sub all_of_it ($name, $refused) {
    $nginx = revocations_conf($t, $key, feed => $name, stale => 'refuse after=10s',
        set => 'zone=revocations:80m uri=/_revocations');
    $t->start_nginx;
    is ready(), 503, "$name: nothing is known";
    is status($stays), 503, "$name: so nobody is let in";
    becomes_ready("$name, a start amid reloads", 600, \&reload_at_times);
    ok metric('entries') >= $ENTRIES, "$name: all entries are there";
    my $started = length $nginx->error_log;
    rounds("$name-quiet", 4, sub { });
    rounds("$name-reloads", $RELOADS, \&reload);
    ok eventually(sub {
        my $was = metric('fetches_total{outcome="read"}');
        sleep 1;
        metric('fetches_total{outcome="read"}') - $was < 5;
    }, 300), "$name: then the reading from the beginning ends";
    $t->allow(qr/exited on signal 9|"revocations" was locked by/);
    rounds("$name-killed", 4, sub { kill 'KILL', ($nginx->workers)[0] });
    unlike substr($nginx->error_log, $started), qr/does not terminate|revocations are stale/, "$name: no false alarm";

    # The cursor is refused: all is read anew, and until its end nothing new is known.
    $refused->();
    my $took = effective();
    note sprintf '%s: after a refused cursor a logout took %.1f s', $name, $took;
    is status($old->[$_]), 401, "$name: what ended stays so" for 0 .. $#$old;
    ok eventually(sub { status($stays) == 200 && ready() == 200 }, 60), "$name: all is well";
    $nginx->stop;
}

{
    my @all;
    my $feed = revocations_feed($t, many => $ENTRIES, delay => 0.025);
    $old = [ map { revocations_many(int $_) } 0, $ENTRIES / 2, $ENTRIES - 1 ];
    $end = sub ($session) { push @all, revoked_id($session); $feed->set(all => \@all) };
    all_of_it('feed', sub { $feed->set(known => 'b') });
    $feed->down;
}

# Identity's own.

my $identity = $t->identity_face;
my $pg = $t->postgres;
$pg->sql(<<"SQL");
INSERT INTO session_revocations (session_id, dies_at)
SELECT ('00000000-0000-4000-8001-' || lpad(to_hex(n), 12, '0'))::uuid, now() + interval '1 hour'
  FROM generate_series(1, $ENTRIES) AS n;
ANALYZE session_revocations
SQL
$old = [ map { sprintf '00000000-0000-4000-8001-%012x', $_ } 1, $ENTRIES / 2, $ENTRIES ];
$end = sub ($session) {
    $pg->sql("INSERT INTO session_revocations (session_id, dies_at)"
        . " VALUES ('$session', now() + interval '1 hour')");
};
all_of_it('identity', sub { $pg->sql('DELETE FROM session_revocation_marks', user => 'postgres') });

$t->done;
