# Ten days of two thousand sessions with two tabs each, over a network that loses
# every tenth answer, while one of three identity processes is killed again and
# again: nobody has to log in again; without the retry window many have to.  A
# tenth of the clients has one tab, and is in another network when it asks for a
# lost answer again, where it stays (SOAK_MOVES: how often at most).
#
# A day passes by moving all times of the rows into the past.  A retry comes a
# second after the answer was missed, by the real clock, as does the window.

use IO::Select;
use IO::Socket::INET;
use Platform::Test;
use Platform::Test::Load;
use Platform::Test::Sessions;
use Time::HiRes qw(time);

my $SESSIONS = $ENV{SOAK_SESSIONS} // 2_000;
my $CONTROL = $ENV{SOAK_CONTROL} // $SESSIONS / 20;    # without it
my $DAYS = 10;
my $MOVES = $ENV{SOAK_MOVES} // 1;
# Seconds: the gateway passes over a process that it saw die for ten, and one of
# the three is to be left.
my $KILL_S = 6;
my $RETRY_S = 1;         # as docs/http-api.md advises
my ($TRIES, $STALE_S, $STALE_TRIES) = (8, 0.5, 2);

my $t = Platform::Test->new(timeout => 7200);
my $pg = $t->postgres;
my $issuer = 'http://127.0.0.1:' . $t->port('identity');
my @identity = map { $t->identity(name => $_, PLATFORM_JWT_ISSUER => $issuer,
    PLATFORM_AUTH_REFRESH_RETRY_WINDOW => '30s', PLATFORM_AUTH_MAX_SESSIONS => 0) } qw(a b c);
my $s = $t->full_stack(identity => \@identity, env => { PLATFORM_TRUSTED_PROXIES => '127.0.0.1' });
$t->allow(qr/upstream|connect\(\) to unix|recv\(\) failed/);
my $listener = Platform::Test::Port::listener($t->port('lossy'));
$t->process(lossy => code => \&lossy, ok_status => ['any']);

# The network: of the answers that come back through it every tenth, the request
# having been done, is thrown away with its connection.
sub lossy {
    local $SIG{PIPE} = 'IGNORE';
    my (%peer, $answers);
    my $select = IO::Select->new($listener);
    while (my @ready = $select->can_read) {
        for my $fh (@ready) {
            if ($fh == $listener) {
                my $client = $listener->accept or next;
                my $server = IO::Socket::INET->new(PeerAddr => '127.0.0.1',
                    PeerPort => $s->gateway) or next;
                $peer{$client} = { to => $server };
                $peer{$server} = { to => $client, buf => '' };
                $select->add($client, $server);
                next;
            }
            my $p = $peer{$fh} // next;
            my $done = !sysread $fh, my $bytes, 65536;
            if (!$done && defined $p->{buf}) {
                $p->{buf} .= $bytes;
                next if !Platform::Test::Response->whole($p->{buf});
                $done = ++$answers % 10 == 0;
                ($bytes, $p->{buf}) = ($p->{buf}, '');
            }
            syswrite $p->{to}, $bytes if !$done;
            next unless $done;
            $select->remove($fh, $p->{to});
            delete @peer{ $fh, $p->{to} };
            close $_ for $fh, $p->{to};
        }
    }
}

# Another day: see above.
sub day_passes {
    $pg->sql('set session_replication_role = replica; update auth_sessions set '
        . join(', ', map {"$_ = $_ - interval '1 day'"}
            qw(created_at expires_at used_at retry_iat)), user => 'postgres');
}

# Every tab of every session wakes up once a day, those of a session at the same
# moment, and does as docs/http-api.md says, without locks: until it has tokens,
# has given up for today, or knows that a login is needed.
sub ten_days ($count) {
    my $sessions = Platform::Test::Sessions->new(retries => 1, issuer => $issuer);
    my $load = Platform::Test::Load->new(port => $t->port('lossy'), clients => 16);
    $sessions->make($pg, jwt_key('identity'), 'one', $count);
    my %jar = map { $_->{id} => $_ } $sessions->all;    # by its first session
    my %seen = (map({ $_ => 0 } qw(moves logins gave_up kills)), jars => \%jar);
    my ($killed, $in_flight, @ready, @later) = (time, 0);
    my $n = 0;
    my %client = map { $_ => { number => $n, moved => 0, phone => $n++ % 10 == 0 } }
        sort keys %jar;

    # The token of the jar by then, not that of the last try.
    my $next = sub ($=) {
        if (time >= $killed + $KILL_S) {
            my $victim = $identity[ $seen{kills}++ % @identity ];
            $killed = time;
            $victim->stop('KILL');
            $victim->start;
        }
        while (@later && ($later[0]{at} <= time || !$in_flight && !@ready)) {
            my $wait = $later[0]{at} - time;
            sleep $wait if $wait > 0;
            unshift @ready, shift @later;    # before those that wake up
        }
        my $tab = shift @ready // return undef;
        $in_flight++;
        my $c = $client{ $tab->{jar} };
        $c->{moved}++, $seen{moves}++
            if delete $tab->{lost} && $c->{phone} && $c->{moved} < $MOVES;
        my @address = (10 + $c->{moved}, $c->{number} >> 8, $c->{number} & 255, 7);
        return { %{ $sessions->refresh($jar{ $tab->{jar} }) }, tab => $tab,
            headers => [ 'User-Agent' => 'app/1', 'X-Forwarded-For' => join '.', @address ] };
    };
    my $again = sub ($tab, $seconds) {
        $tab->{at} = time + $seconds;
        @later = sort { $a->{at} <=> $b->{at} } @later, $tab;
        return;
    };
    my $done = sub ($request, $answer, @) {
        my $tab = $request->{tab};
        $in_flight--;
        $sessions->note($request, $answer);
        return if $answer->{status} == 200;
        $tab->{lost} = !$answer->{status};
        if ($answer->{code} eq 'AUTH_REFRESH_TOKEN_STALE') {
            return $again->($tab, $STALE_S) if $tab->{stale}++ < $STALE_TRIES;
            # It is not the jar's any more where the other tab has logged in.
            return $again->($tab, 0) if $jar{ $tab->{jar} } != $request->{session};
            $seen{logins}++;
            ($jar{ $tab->{jar} }) = $sessions->make($pg, jwt_key('identity'), 'one', 1);
            return;
        }
        return $again->($tab, $RETRY_S) if ++$tab->{tries} < $TRIES;
        $seen{gave_up}++;
    };
    for my $day (1 .. $DAYS) {
        @ready = map { my $jar = $_; map { { jar => $jar } } 1 .. 2 - $client{$jar}{phone} }
            sort keys %jar;
        $load->run($next, $done);
        day_passes();
    }
    return ($sessions, \%seen);
}

# -- with the window

my $start = time;
my ($sessions, $seen) = ten_days($SESSIONS);
my $took = time - $start;
my %count = %{ $sessions->{count} };
my %audit;
$audit{$_}++ for map { $_->log_text =~ /"event":"auth\.refresh\.(\w+)"/g } @identity;
sub told ($of) { return join ', ', map {"$_: $of->{$_}"} sort keys %$of }

diag sprintf '%d sessions, %d days, %.0f s: %s; %d kills, %d gave up; %d moves; audited %s',
    $SESSIONS, $DAYS, $took, told(\%count), @$seen{qw(kills gave_up moves)}, told(\%audit);
is $seen->{logins}, 0, 'nobody had to log in again';
is_deeply $sessions->{broken}, [],
    'no token had two successors, no answer contradicts another';
cmp_ok $count{'refresh unanswered'} // 0, '>', $SESSIONS * $DAYS / 10,
    'control: answers were lost';
cmp_ok $count{'refresh retried'} // 0, '>', $SESSIONS * $DAYS / 10,
    'control: and asked for again';
cmp_ok $audit{retried_elsewhere} // 0, '>', $SESSIONS / 40,
    'control: also by clients that had moved';
cmp_ok $seen->{kills}, '>', $took / 4 / $KILL_S, 'control: processes were killed';

my %jti = map { split /\|/ } split /\n/, $pg->sql('select session_id, jti from auth_sessions');
is scalar(grep { $jti{ $_->{id} } ne Platform::Test::Sessions::jti($_->{current}) }
    values %{ $seen->{jars} }), 0, 'what everybody has last is what the row has';

# -- without

$_->stop for @identity;
for (@identity) {
    delete $_->{env}{PLATFORM_AUTH_REFRESH_RETRY_WINDOW};
    $_->start;
}
$pg->sql('delete from auth_sessions');
($sessions, $seen) = ten_days($CONTROL);
diag sprintf 'without a window, %d sessions: %s; %d kills; %.1f %% of sessions a day',
    $CONTROL, told($sessions->{count}), $seen->{kills},
    100 * $seen->{logins} / $CONTROL / $DAYS;
cmp_ok $seen->{logins}, '>', 0, "$seen->{logins} logins that were forced";
is_deeply $sessions->{broken}, [], 'no answer contradicts another';

$t->done;
