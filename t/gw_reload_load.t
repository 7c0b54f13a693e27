# Reloads under load, on kept and on fresh connections: no request fails, and
# the zones have as much room after ten of them as before, also where each brings
# a new key set.

use List::Util qw(sum0);
use Platform::Test;

my $RELOADS = 10;

my ($t, $key, $issuer) = Platform::Test->gateway;
my @keys = ($key, jwt_key('b'));

$t->gateway_conf(<<'SERVER', main => 'worker_processes 2;', http => <<'HTTP');
platform_gateway_access branch;
location /quick { empty_gif; }
pass /proxied: platform_gateway_route proxied;
location = /metrics { platform_gateway_access public; platform_gateway_metrics; }
SERVER
platform_gateway_zone gateway:256k;
platform_gateway_key_soft_age 1s;
platform_gateway_key_cooldown 1s;
keepalive_requests 100000;
HTTP
my $port = $t->start_gateway;
my $token = jwt_token(branch => $key);

# Children that ask until they are told to stop, and print "status times".
my @ways = ([ '/quick', 1 ], [ '/quick', 0 ], [ '/proxied', 1 ], [ '/proxied', 0 ]);
sub load ($n) {
    my (%status, $c);
    until (-e $t->dir . '/enough') {
        $status{ eval { ask(@{ $ways[ $n - 1 ] }, \$c) } // "none $@" }++;
    }
    print map {"$_ $status{$_}\n"} keys %status;
}

# A kept connection that nginx closes while it is idle carried no request: a
# client asks again on a new one, once (RFC 9110, section 9.2.2).
sub ask ($path, $kept, $c) {
    for my $fresh (0, 1) {
        undef $$c if $fresh || !$kept;
        my $reused = $$c;
        $$c //= Platform::Test::Http->new(port => $port);
        my $res = eval {
            $$c->send(http_request_bytes(GET => $path, token => $token,
                connection => $kept ? 'keep-alive' : 'close')) && $$c->read_response;
        };
        next if !$res && $reused;
        undef $$c if $res && ($res->header('Connection') // '') eq 'close';
        return !$res ? 'none' : $res->truncated ? 'cut' : $res->status;
    }
    return 'none';
}

# The sums of what the metrics say in the lines that match: free bytes of both
# zones, requests.
sub sum ($lines) {
    return sum0 http_get($port, '/metrics')->body =~ /^platform_gateway_$lines (\d+)/mg;
}

sub free { return sum('zone_free_bytes\S+') }

# The first reloads take what there has to be for old workers and new.  Room is
# taken for every worker there is, those that leave included: so each reload
# waits for the one before, or the room that is needed would vary.

for (1 .. 2) {
    $t->reload;
    ok $t->nginx->settled, 'old workers leave';
}
my $before = free();
cmp_ok $before, '>', 50_000, 'control: the zones have room';

my $load = Platform::Test::Crowd->new($t, 'client', scalar @ways, \&load);
# As many more as it takes on a machine that is busy.
for my $n (1 .. 100) {
    last if $n > $RELOADS && sum('requests_total\S+') > 400 / $t->scale;
    $issuer->set(body => jwks(@keys[ 0 .. $n % 2 ]));
    $t->reload && $t->nginx->settled or die "reload $n failed\n";
}
$t->write_file('enough', '');
ok $load->ends(60), 'clients end';
my $status = $load->sums;
is_deeply [ keys %$status ], [200], "no request failed in $RELOADS reloads" or diag explain $status;
cmp_ok $status->{200}, '>', 300 / $t->scale, "and they were many: $status->{200}";
cmp_ok $issuer->count, '>', 1, 'control: key sets were fetched anew';
is free(), $before, 'the zones have the room that they had';

$t->done;
