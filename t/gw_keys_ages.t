# How old a set may be: a key that is published or withdrawn counts within one
# soft age, without a failed request; while the issuer is down the last good set
# serves up to the hard age.

use Platform::Test;
use Platform::Test::Keys;
use Time::HiRes qw(time);

my $SOFT = 2;

my $t = Platform::Test->new;
my ($old, $new) = map { jwt_key($_) } qw(a b);
my $issuer = $t->issuer(body => jwks($old));
my $port = $t->port('gateway');

# Rotation: the new key is published before its first use, the old one withdrawn
# after its last.  Over enough connections that each worker sees each token, and
# known keys never ask for a fetch: so this is the soft age alone.

keys_begin($t, main => 'worker_processes 4;', soft_age => "${SOFT}s");

my @token = map { jwt_token('branch', $_, iat => past()) } $old, $new;
sub statuses ($n) {
    my $bytes = http_request_bytes(GET => '/branch', token => $token[$n]);
    my %seen = map { ($_ ? $_->status : 'none') => 1 }
        http_parallel([ map { [ $port, $bytes ] } 1 .. 24 ]);
    return join ' ', sort keys %seen;
}

my %always;
ok eventually(sub { statuses(0) eq '200' }), 'the old key works';
for my $document (jwks($old, $new), jwks($old, $new) . "\n") {
    my $sets = keys_metric($t, 'new');
    $issuer->set(body => $document);
    ok eventually(sub { keys_metric($t, 'new') > $sets }), 'another document';
    $always{ statuses($_) } = 1 for 0, 1;
}
my @at = map { $_->{at} } $issuer->requests;
my @gap = sort { $a <=> $b } map { $at[$_] - $at[ $_ - 1 ] } 1 .. $#at;
cmp_ok $gap[0], '>', 0.65 * $SOFT, 'no fetch comes long before the soft age';
cmp_ok $gap[-1], '<', 2 * $SOFT, 'nor one later than two' or diag "@gap";

$issuer->set(body => jwks($new));
ok eventually(sub {
    $always{ statuses(1) } = 1;
    sleep 0.05;
    return statuses(0) eq '401';
}), 'a key that is withdrawn is refused by every worker';
is_deeply [ keys %always ], [200], 'every request of a rotation passes';

my $HARD = 5;
my $key = $new;
my $nginx = keys_begin($t, soft_age => '1s', hard_age => "${HARD}s", server => <<'SERVER',
location /held {
    platform_gateway_access branch;
    set $account $platform_account_id;
    limit_req zone=held burst=10;
    empty_gif;
}
SERVER
    http => 'limit_req_zone $platform_account_id zone=held:1m rate=9r/m;');
keys_until($t, 'a key set is there', 200, $key);
my $down = time;
$issuer->down;

# Two of them: the second is held for longer than the set may be used.
my $bytes = http_request_bytes(GET => '/held', token => $token[1]);
is +(http_parallel([ [ $port, $bytes ] ]))[0]->status, 200, 'a limit lets one go';
my $held = Platform::Test::Http->new(port => $port);
$held->send($bytes);

# The set was good up to a soft age, and a second for the fetch, before.
my $failed = 0;
until (time > $down + $HARD - 2) {
    my $status = keys_get($t, $key)->status;
    $failed++ if $status != 200 && time < $down + $HARD - 2;
    sleep 0.05;
}
is $failed, 0, 'no request fails before the hard age';
ok eventually(sub { keys_failures($t) >= 1 }), 'failures are logged';
my $lines = keys_failures($t);
cmp_ok $lines, '<=', time - $down + 1, 'once a cooldown';
like +(keys_failures($t))[0], qr/last good one is \d+s old, and kept/,
    'with the age of what serves';

keys_until($t, 'past the hard age the set is unusable', 503, $key);
cmp_ok time - $down, '<', 3 * $HARD, 'at the hard age';
is $held->read_response->status, 503, 'nor for a request that a limit held so long';
my $res = keys_get($t, $key);
is_problem $res, 503, 'GATEWAY_KEYS_UNAVAILABLE', 'the answer says so';
ok $res->header('Retry-After'), 'with Retry-After';
is http_get($port, '/readyz')->status, 503, 'not ready any more';
ok $nginx->wait_log(qr/which is past the hard age/), 'and the log says so';

# The same set again, and a request that came while there was none: what was
# found out without keys is not what it is decided by.

keys_hold($issuer, sub { $issuer->up });
my @parked = map { keys_send($t, $key) } 1 .. 4;
is http_get($port, '/readyz')->status, 503, 'not ready yet';
$issuer->set(hold => 0);
is_deeply [ map { $_->read_response->status } @parked ], [ (200) x 4 ],
    'lets in who waited for it';
is http_get($port, '/readyz')->status, 200, 'and ready';

$t->done;
