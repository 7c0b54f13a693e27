# Several database hosts: the one that takes writes is found, and found again
# when it dies or hangs and a standby takes over, with every session.

use Platform::Test;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my $unit = $t->scale > 1 ? 6 : 3;    # seconds
my ($primary, $standby) = $t->postgres_pair;

my $third = $t->dir . '/third';    # not there yet
my %identity = map {
    my ($name, @hosts) = @$_;
    $name => $t->identity(
        name                         => $name,
        $primary->env,
        PLATFORM_DB_HOST             => join(',', @hosts),
        PLATFORM_DB_CONNECT_TIMEOUT  => "${unit}s",
        PLATFORM_DB_STATEMENT_TIMEOUT => "${unit}s",
        PLATFORM_REQUEST_TIMEOUT     => 3 * $unit . 's',
    )
} [ first => $primary->host, $standby->host, $third ],
    [ second => $third, $standby->host, $primary->host ];

sub call ($name, $path, $json) {
    my $got = $t->fcgi($identity{$name}->address)->request(
        POST => "/api/auth/$path", body => JSON::PP::encode_json($json));
    $got->{json} = JSON::PP::decode_json($got->{body});
    return $got;
}

# Not turned away for want of a hash slot.
sub login ($name) {
    return eventually(sub {
        my $got = call($name, login => { account => 'one@demo.test',
            credential => 'Demo-passw0rd!' });
        return $got->{json}{code} eq 'AUTH_BUSY' ? undef : $got;
    });
}

sub refresh { return call($_[0], refresh => { refreshToken => $_[1] }) }

for my $name (sort keys %identity) {
    ok eventually(sub { my $got = $t->fcgi($identity{$name}->address)
            ->request(GET => '/readyz'); $got && $got->{status} == 200 }),
        "$name: ready";
}

# -- in order, and the other way round

my %token;
for my $name (sort keys %identity) {
    for my $what (qw(login refresh)) {
        my $res = $what eq 'login' ? login($name) : refresh($name, $token{$name});
        is $res->{status}, 200, "$name: $what";
        $token{$name} = $res->{json}{refreshToken};
    }
}
is_deeply [ map { $_->sql("select count(*) > 0 from pg_stat_activity
    where application_name = 'identity-service'") } $primary, $standby ], [ 't', 'f' ],
    'of the primary, not of the standby';

my $out = login('first')->{json}{refreshToken};
is call(first => logout => { refreshToken => $out })->{status}, 200, 'a logout';

# -- the primary dies

sub missed ($what) {
    for my $name (sort keys %identity) {
        my $start = time;
        my $res = refresh($name, $token{$name});
        is "$res->{status} $res->{json}{code}", '503 DATABASE_UNAVAILABLE', "$name: $what";
        cmp_ok time - $start, '<', 4 * $unit, "$name: said in time";
    }
}

$primary->stop('KILL');
missed('a standby is no database');

# -- the standby takes over

sub goes_on ($what) {
    my $start = time;
    for my $name (sort keys %identity) {
        my $res;
        eventually(sub { $res = refresh($name, $token{$name});
            $res->{status} != 503 });
        is $res->{status}, 200, "$what: $name: the session is there";
        $res = refresh($name, $res->{json}{refreshToken});
        is $res->{status}, 200, "$what: $name: and goes on";
        $token{$name} = $res->{json}{refreshToken};
        is login($name)->{status}, 200, "$what: $name: login";
    }
    cmp_ok time - $start, '<', 7 * $unit,
        sprintf '%s: back after %.1f s', $what, time - $start;
}

$standby->promote;
goes_on('promoted');
is refresh(first => $out)->{json}{code}, 'AUTH_SESSION_NOT_ACTIVE', 'what was logged out is out';

# -- which hangs, and another one takes over

my $last = $t->postgres(name => 'third', standby_of => $standby);
ok eventually(sub { $standby->sql("select count(*) from pg_stat_replication
    where replay_lsn = pg_current_wal_lsn()", user => 'postgres') }),
    'a third one follows';
$standby->freeze('STOP');
missed('it hangs');
$last->promote;
goes_on('hung');
$standby->freeze('CONT');
goes_on('the old one is there again');

# -- one that takes no more writes is left, though connections to it are there

$last->setting('default_transaction_read_only = on');
ok eventually(sub { $last->sql('show default_transaction_read_only') eq 'on' }),
    'the third one reads only';
for my $name (sort keys %identity) {
    ok eventually(sub { login($name)->{status} == 200 }, 20), "$name: logs in elsewhere";
}

# -- docs/scaling.md: before HAProxy has asked Patroni, nobody is led to a standby

my $SERVER = <<'PERL';
use IO::Socket::INET;
my ($at, $says) = @ARGV;
my $socket = IO::Socket::INET->new(LocalAddr => $at, Listen => 99, ReuseAddr => 1) or die;
while (my $client = $socket->accept) {
    sysread $client, my $asked, 999 if $says =~ /^HTTP/;
    syswrite $client, "$says\r\n\r\n";
}
PERL

SKIP: {
    skip 'needs haproxy', 1 if !Platform::Test::Env::find('haproxy');
    my %at = map { $_ => $t->port("fleet$_") } qw(5000 5432 8008);
    my $text = $t->read_file($t->root . '/examples/fleet/haproxy-database.cfg')
        =~ s/\b10\.0\.0\./127.10.0./gr =~ s/\b(5000|5432|8008)\b/$at{$1}/gr;
    for my $n (1 .. 3) {
        my %says = (5432 => "db$n", 8008 => 'HTTP/1.0 ' . ($n == 3 ? 200 : 503));
        for my $port (sort keys %says) {
            my $here = "127.10.0.1$n:$at{$port}";
            $t->process("db$n-$port", ok_status => ['any'],
                cmd => [ $^X, '-e', $SERVER, $here, $says{$port} ]);
            eventually(sub { IO::Socket::INET->new($here) }) or die "nothing at $here\n";
        }
    }
    $t->process('fleet haproxy', ok_status => ['any'],
        cmd => [ 'haproxy', '-db', '-f', $t->write_file('database.cfg', $text) ]);
    my %led;
    eventually(sub {
        my $to = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$at{5000}") or return 0;
        $led{ (<$to> // '') =~ s/\s//gr }++;
        return ($led{db3} // 0) >= 50;
    });
    delete $led{''};
    is_deeply [ sort keys %led ], ['db3'], 'fleet: HAProxy leads to the primary alone';
}

$t->done;
