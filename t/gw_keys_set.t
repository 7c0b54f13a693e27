# Which set serves, and for how long.  A key that is published or withdrawn counts
# within one soft age, without a failed request; while the issuer is down the last
# good set serves up to the hard age.  A bad document never replaces a good one,
# and exactly one log line says why.  What a set is at all, check_jwk.c shows.

use List::Util qw(uniq);
use Platform::Test;
use Platform::Test::Keys;

my ($t, $issuer, $key, $new) = keys_test(qw(a b));
my $good = jwks($key);
my $port = $t->port('gateway');

# Other locations of the server, which another set can be had from.

my $planted = jwt_key('b')->as('planted');
my $other = $t->issuer(name => 'other', body => jwks($key, $planted));
my @server = (server => $t->expand(<<'SERVER'));
location /open { %%TO_other%% }
location /guarded { platform_gateway_access branch; %%TO_other%% }
location @named { %%TO_other%% }
SERVER

keys_begin($t, @server);
keys_until($t, 'a good set', 200, $key);

my @json = ('Content-Type' => 'application/json');
my $head = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n";
my $CHUNKED = "${head}Transfer-Encoding: chunked\r\n\r\n%x\r\n%s\r\n";
my $cut = substr $good, 0, 100;
my $big = $good . ' ' x (65537 - length $good);
my @usual = (status => 200, headers => \@json, body => $good,
    map { $_ => undef } qw(hangup raw truncate));
for my $case (
    [ 'status 500', qr/: status 500/, status => 500 ],
    [ 'status 201', qr/: status 201/, status => 201 ],
    [ 'a redirect', qr/: status 302/, status => 302, headers => [ Location => '/elsewhere' ] ],
    map({ [ "a redirect inside of nginx, to $_", qr/: another location answered, by X-Accel-Red/,
        headers => [ @json, 'X-Accel-Redirect' => $_ ] ] } qw(/open /guarded @named)),
    [ 'no answer', qr/: status 502/, hangup => 1 ],
    [ 'no HTTP', qr/: no response/, raw => "SSH-2.0-x\r\n" ],
    [ 'HTML', qr/: malformed JSON/, body => '<html>' ],
    [ 'truncated, with a length', qr/: the document is truncated/, truncate => 100 ],
    [ 'truncated, chunked', qr/: malformed JSON/, raw => sprintf $CHUNKED, 100, $cut ],
    [ 'truncated, to the close', qr/: malformed JSON/, raw => "$head\r\n$cut" ],
    [ 'over 64 KiB, with a length', qr/: the document is too large/, body => $big ],
    [ 'over 64 KiB, chunked', qr/: the document is too large/,
        raw => sprintf "${CHUNKED}0\r\n\r\n", 65537, $big ],
    [ 'compressed', qr/: the document is compressed/,
        headers => [ @json, 'Content-Encoding' => 'gzip' ] ],
    [ 'a set without keys', qr/key set not refreshed: .*usable key/, body => '{"keys":[]}' ],
) {
    my ($name, $why, %state) = @$case;
    my $before = keys_failures($t);
    $issuer->set(@usual, %state);
    keys_refetch($t, $issuer);
    eventually(sub { keys_failures($t) > $before });
    my @said = keys_failures($t);
    is_deeply [ map { s/.*?$why.* and kept.*/kept/r } @said[ $before .. $#said ] ], ['kept'],
        "$name: one line says why, and what of it";
    is keys_get($t, $key)->status, 200, "$name: the old set serves";
}
is_deeply [ keys_get($t, $planted, iat => past())->status,
    grep { $_->{uri} =~ /guard/ } $other->requests ], [401],
    'no other location gave the key set, and a guarded one was not entered';

# Single bad entries spoil nothing; neither does a document that just fits.

my $unknown = jwt_key('c')->as('unknown');
my $fits = jwks({ kty => 'EC', crv => 'P-256', kid => 'e', x => 'AA', y => 'AA' },
    jwt_key('weak', bits => 1024)->jwk, { kty => 'oct', k => 'AA' }, {},
    jwt_key('b')->jwk(kid => 'a', use => 'enc'),
    $key, jwt_key('b')->jwk(kid => 'a'), $unknown->jwk(d => 'AQAB'));
$fits .= ' ' x (65536 - length $fits);
$issuer->set(@usual, body => $fits);
my $before = keys_failures($t);
keys_pass($t, 2);
keys_until($t, 'a set of 64 KiB brings the new key', 200, $unknown);
is keys_get($t, $key)->status, 200, 'and the first of two with one id is what counts';
ok $t->nginx->wait_log(qr/\[warn\].* two keys of issuer "platform" have the kid "a": the first/),
    'which the log has';
is scalar(keys_failures($t)), $before, 'nothing is said to be wrong';

# What the key location itself says: within it, and away from it.

for my $within ('rewrite ^ /within break;',
    $t->expand('if ($request_method = GET) { %%TO_issuer%% }')) {
    keys_begin($t, @server, location => $within);
    keys_until($t, "the key location's own answer: $within", 200, $key);
}
keys_begin($t, @server, location => 'rewrite ^ /guarded last;');
ok $t->nginx->wait_log(qr/not fetched: another location answered/), 'a rewrite to another location';
is keys_get($t, $planted)->status, 503, 'which gives no keys';

# Rotation: the new key is published before its first use, the old one withdrawn
# after its last.  Over enough connections that each worker sees each token, and
# known keys never ask for a fetch: so this is the soft age alone.

$issuer->set(@usual);
keys_begin($t, main => 'worker_processes 4;', soft_age => '60s');
my @token = map { jwt_token('branch', $_, iat => past()) } $key, $new;
sub statuses ($n) {
    my $bytes = http_request_bytes(GET => '/branch', token => $token[$n]);
    return join ' ', uniq(map { $_ ? $_->status : 'none' }
        http_parallel([ map { [ $port, $bytes ] } 1 .. 24 ]));
}

my %always;
eventually(sub { statuses(0) eq '200' });
for my $document (jwks($key, $new), jwks($key, $new) . "\n") {
    my ($sets, $count) = (keys_metric($t, 'new'), $issuer->count);
    $issuer->set(body => $document);
    keys_pass($t, 50);
    sleep 0.6;    # each worker has looked
    is $issuer->count, $count, 'no fetch comes long before the soft age';
    keys_pass($t, 10);
    ok eventually(sub { keys_metric($t, 'new') > $sets }), 'nor one later than that';
    is $issuer->count, $count + 1, 'by one worker';
    $always{ statuses($_) } = 1 for 0, 1;
}

$issuer->set(body => jwks($new));
keys_pass($t, 60);
ok eventually(sub {
    $always{ statuses(1) } = 1;
    sleep 0.05;
    return statuses(0) eq '401';
}), 'a key that is withdrawn is refused by every worker';
is_deeply [ keys %always ], [200], 'every request of a rotation passes';

my $nginx = keys_begin($t, soft_age => '60s', hard_age => '600s',
    http => 'limit_req_zone $platform_account_id zone=held:1m rate=1r/m;',
    server => 'location /held { platform_gateway_access branch; empty_gif;
        set $account $platform_account_id; limit_req zone=held burst=10; }');
keys_until($t, 'a key set is there', 200, $new);
$issuer->down;
my @failed;
for (1 .. 9) {    # each time a soft age
    my $said = keys_failures($t);
    keys_pass($t, 60);
    eventually(sub { keys_failures($t) > $said });
    push @failed, keys_get($t, $new)->status;
}
is_deeply \@failed, [ (200) x 9 ], 'no request fails before the hard age';
my $said = keys_failures($t);
sleep 0.6;    # each worker has looked
cmp_ok keys_failures($t), '<=', $said + 1, 'failures are logged once a cooldown';
like +(keys_failures($t))[-1], qr/last good one is 5\d\ds old, and kept/,
    'with the age of what serves';

# Two of them: the second is held for longer than the set may be used.
my $bytes = http_request_bytes(GET => '/held', token => jwt_token('branch', $new));
is +(http_parallel([ [ $port, $bytes ] ]))[0]->status, 200, 'a limit lets one go';
my $held = Platform::Test::Http->new(port => $port);
$held->send($bytes);
ok $nginx->wait_log(qr/delaying request/), 'and holds the next';
keys_pass($t, 70);
keys_until($t, 'past the hard age the set is unusable', 503, $new);
is $held->read_response->status, 503, 'nor for a request that a limit held so long';
is_problem keys_get($t, $new), 503, 'GATEWAY_KEYS_UNAVAILABLE', 'the answer says so';
keys_pass($t, 2);
ok $nginx->wait_log(qr/which is past the hard age/), 'and the log says so';

# The same set again, and a request that came while there was none: what was
# found out without keys is not what it is decided by.

keys_hold($issuer, sub { $issuer->up; keys_pass($t, 2) });
my @parked = map { keys_send($t, $new) } 1 .. 4;
is http_get($port, '/readyz')->status, 503, 'not ready';
$issuer->set(hold => 0);
is_deeply [ map({ $_->read_response->status } @parked), http_get($port, '/readyz')->status ],
    [ (200) x 5 ], 'lets in who waited for it, and is ready';

$t->done;
