# 100,000 proofs of possession a minute in a zone of the size that docs/bound-tokens.md names
# for them, by clients whose clocks are ahead, so that each has to be remembered for nearly two
# minutes.  Each proof is sent again to another worker in the last seconds of its window, while
# others come at the same rate, and is refused.  The clock of nginx goes on by a second when the
# proofs of a second have been answered, however long that takes.
#
# PROOFS_MINUTES (3), PROOFS_RATE (100000 a minute).

use IO::Socket::INET;
use List::Util qw(max);
use Platform::Test;
use Platform::Test::Clock;
use Platform::Test::Metrics;
use Time::HiRes qw(time);

my $SECONDS = 60 * ($ENV{PROOFS_MINUTES} // 3);
my $RATE = int(($ENV{PROOFS_RATE} // 100_000) / 60) + 1;
my ($WINDOW, $AHEAD, $BATCH) = (60, 55, 40);
my $AGAIN = $AHEAD + $WINDOW - 4;    # so many seconds later it is sent again
my $node = Platform::Test::Env::node() // Platform::Test::Env::needs('node');

my ($t, $key) = (Platform::Test->new(timeout => 600 + 3 * $SECONDS), jwt_key('a'));
$t->issuer(body => jwks($key));
my ($zone) = $t->read_file($t->root . '/docs/bound-tokens.md') =~ /^ *platform_gateway_proof (zone=\w+:\w+);$/m;
is $zone, 'zone=proofs:8m', 'the zone of the documentation';
my $http = "platform_gateway_proof $zone; keepalive_requests 1000000; keepalive_timeout 1h;";
my $clock = Platform::Test::Clock->new($t, $t->gateway_conf(<<'SERVER', http => $http, main => 'worker_processes 2;'));
access_log off;
location / { platform_gateway_access account; platform_gateway_proof_origin https://api.test;
    add_header X-Worker $pid always; empty_gif; }
location = /metrics { platform_gateway_access public; platform_gateway_metrics; }
SERVER
my $port = $t->start_gateway;

my $by = jwt_key('quick', alg => 'EdDSA');
my $token = jwt_token(account => $key, exp => time + 3600 + 2 * $SECONDS, cnf => { jkt => $by->jkt });
my $pem = $t->write_file('quick.pem', $by->private_pem);

# Sends proofs over a connection, and reads the answers later.
sub ask ($to, $proofs) {
    print { $to->{fh} } map {"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: DPoP $token\r\nDPoP: $_\r\n\r\n"} @$proofs;
}

# Counts the answers by what they say.
sub told ($to, $proofs, $count) {
    my $left = @$proofs;
    while ($left) {
        while ($to->{read} =~ m{\AHTTP/1\.1 (\d+) .*?\r\nContent-Length: (\d+)\r\n.*?\r\n\r\n}s
            && length $to->{read} >= $+[0] + $2)
        {
            my ($status, $end) = ($1, $+[0] + $2);
            my ($detail) = substr($to->{read}, $+[0], $2) =~ /"detail":"([^"]*)"/;
            $count->{ $status == 200 ? 'accepted' : "$status " . ($detail // '') }++;
            substr $to->{read}, 0, $end, '';
            $left--;
        }
        sysread $to->{fh}, $to->{read}, 65536, length $to->{read} or die "no answer\n" if $left;
    }
}

# A connection to each worker.
my %to;
ok eventually(sub {
    my $fh = IO::Socket::INET->new(PeerAddr => "127.0.0.1:$port") or die "connect: $!\n";
    print {$fh} "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    sysread $fh, my $said, 65536;
    $to{$1} //= { fh => $fh, read => '' } if $said =~ /^X-Worker: (\d+)/m;
    return keys %to == 2;
}), 'two workers';
my @to = values %to;

# Proofs of the first second are refused.
my ($begin, $began) = (int(time) + 2, time);
open my $made, '-|', $node, $t->root . '/t/node/proofs.mjs', $pem, $RATE, GET => 'https://api.test/', $begin + $AHEAD,
    $token, $SECONDS or die "node: $!\n";
my (@kept, %first, %again, @live);
my $sent = 0;
for my $now (0 .. $SECONDS + $AGAIN - 1) {
    my @new = $now < $SECONDS ? map { scalar <$made> // die "no proof\n" } 1 .. $RATE : ();
    chomp @new;
    $sent += @new;
    my @old = $now >= $AGAIN ? @{ delete $kept[ $now - $AGAIN ] // [] } : ();
    $kept[$now] = [@new] if @new;
    for (my $n = 0; @new || @old; $n++) {
        my @batch = ([ splice @new, 0, $BATCH ], [ splice @old, 0, $BATCH ]);
        $clock->ahead($begin + $now - int time);
        my @client = @to[ $n % 2, ($n + 1) % 2 ];
        ask($client[$_], $batch[$_]) for 0, 1;
        told($client[0], $batch[0], \%first);
        told($client[1], $batch[1], \%again);
    }
    $clock->ahead($begin + $now - int time);
    push @live, metrics_scrape($port, '/metrics')->{platform_gateway_proof_entries} if $now % 10 == 9;
}
close $made;
diag sprintf '%d proofs in %d s (which took %d s), at most %d remembered at once', $sent, $SECONDS, time - $began,
    max(@live);
is_deeply \%first, { accepted => $sent }, "each of $sent is accepted once";
is_deeply \%again, { '401 the proof was used before' => $sent }, 'and refused in the last seconds of its window';
my ($fresh, %control) = (1000);
my $at = $begin + $SECONDS + $AGAIN - 1;
my @fresh = split /\n/, qx{$node @{[ $t->root ]}/t/node/proofs.mjs $pem $fresh GET https://api.test/ $at $token};
ask($to[0], $_), told($to[0], $_, \%control) for map { [ splice @fresh, 0, $BATCH ] } 1 .. $fresh / $BATCH;
is_deeply \%control, { accepted => $fresh }, 'control: new ones are accepted';

$t->done;
