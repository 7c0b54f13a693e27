# Which set serves, and for how long.  A key that is published or withdrawn counts
# within one soft age, without a failed request; while the issuer is down the last
# good set serves up to the hard age.  A bad document never replaces a good one,
# and exactly one log line says why.  What a set is at all, check_jwk.c shows.
#
# Who waits for a fetch, and who does not.  A gateway that starts before its issuer is
# good soon after the issuer's return, with one fetch for everybody.  A slow issuer
# holds up nobody who has a known key; a client that goes away ends no fetch.  Tokens
# with unknown key ids cause one fetch a cooldown, however many come: what a fetch that
# began after them did not bring is not there; only while none may be made a token that
# says it is new gets 503.

use IO::Select;
use List::Util qw(uniq);
use Platform::Test;
use Platform::Test::Keys;
use Platform::Test::Metrics;
use Time::HiRes qw(time);

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
my ($said, $looked) = (scalar keys_failures($t), time);
sleep 0.6;    # each worker has looked
my $further = keys_failures($t) - $said;
cmp_ok $further, '<=', 1 + int(time - $looked), 'failures are logged once a cooldown';
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

sub fresh { return (iat => keys_now() + 25) }    # newer than any fetch

sub answers { return [ map { $_->read_response->status } @_ ] }

$issuer->down;
$issuer->set(@usual);
$issuer->forget;
$nginx = keys_begin($t, cooldown => '3s');
ok $nginx->wait_log(qr/key set not fetched: status 502/), 'the log says why';
my $began = time;
my $res = keys_get($t, $key);
is_problem $res, 503, 'GATEWAY_KEYS_UNAVAILABLE', 'no keys yet';
like $res->header('Retry-After'), qr/^[1-3]$/, 'Retry-After within a cooldown';
is_deeply [ map { http_get($port, $_)->status } qw(/readyz / /branch) ], [ 503, 200, 401 ],
    'not ready; a public route needs no keys, no token is still 401';
cmp_ok time - $began, '<', 15, 'none of them waited as long as they might';

$issuer->up;
keys_pass($t, 3);
ok eventually(sub { http_get($port, '/readyz')->status == 200 }),
    'it comes back: ready again by the cooldown, not the soft age';
is_deeply [ keys_get($t, $key)->status, $issuer->count ], [ 200, 1 ], 'by one fetch';

sub hold (%o) {
    $issuer->forget;
    keys_hold($issuer, sub { $nginx = keys_begin($t, %o) });
}

hold(cooldown => '20s');
my @asking = map { keys_send($t, $key) } 1 .. 200;
$issuer->set(hold => 0);
is_deeply [ answers(@asking), $issuer->count ], [ [ (200) x 200 ], 1 ],
    'all of 200 concurrent requests pass after one fetch';

# Nothing of one request is in what they share: each is who its own token names.

hold(cooldown => '20s', server => 'add_header X-Who "$platform_account_id $platform_session_id";');
my @whom = map { { account_id => uuid($_), sub => uuid($_), session_id => uuid(50 + $_) } } 1 .. 40;
@asking = map { keys_send($t, $key, %$_) } @whom;
$issuer->set(hold => 0);
is_deeply [ map { $_->read_response->header('X-Who') } @asking ],
    [ map {"$_->{account_id} $_->{session_id}"} @whom ], 'each of 40 that wait is itself';

# More than may wait: those are told to come again, and no sooner are the others
# answered.

hold(main => 'worker_processes 1;', cooldown => '20s', waiters => 10);
@asking = map { keys_send($t, $key) } 1 .. 50;
my $readable = IO::Select->new(map { $_->{fh} } @asking);
ok eventually(sub { 40 == (my @told = $readable->can_read(0)) }),
    'forty have an answer before it ends';
$issuer->set(hold => 0);
my %seen;
$seen{ join ' ', $_->status, $_->header('Retry-After') ? 'later' : () }++
    for map { $_->read_response } @asking;
is_deeply [ \%seen, $issuer->count ], [ { 200 => 10, '503 later' => 40 }, 1 ],
    'as many wait as may, the others get 503 and Retry-After';

hold(wait => '300ms', cooldown => '50s');
is keys_get($t, $key)->status, 503, 'the wait is bounded';
is scalar(keys_failures($t)), 0, 'by platform_gateway_key_wait';
$issuer->set(hold => 0);
keys_until($t, 'and the fetch went on without it', 200, $key);

# What $code returns while one and the same fetch hangs; with another fetch if
# that one has failed before it was done.

$nginx = keys_begin($t, soft_age => '60s', wait => '1s');
keys_until($t, 'a set that has to be fetched soon again', 200, $key);
my @workers = sort $nginx->workers;

sub hanging ($code) {
    my $got = 'no fetch lasted so long';
    eventually(sub {
        keys_hold($issuer, sub { keys_pass($t, 60) });
        my ($count, $failures) = ($issuer->count, scalar keys_failures($t));
        my $said = $code->();
        my $same = $issuer->count == $count && keys_failures($t) == $failures;
        $got = $said if $same;
        $issuer->set(hold => 0);
        return $same;
    });
    return $got;
}

is hanging(sub { return join ' ', map { keys_get($t, $key)->status } 1 .. 20 }),
    join(' ', (200) x 20), 'requests with a known key pass without a wait';
is hanging(sub {
    my ($c, $token) = (Platform::Test::Http->new(port => $port), jwt_token('branch', $key));
    return join ' ', map { $c->request(GET => '/branch', token => $_)->status }
        $token, jwt_token('branch', $new, iat => keys_now() - 300), $token;
}), '200 401 200', 'on one connection a known key, an unknown one after its wait, a known one';

$issuer->set(body => jwks($key, $new));
keys_hold($issuer, sub { keys_pass($t, 60) });
my @gone = map { keys_send($t, $new) } 1 .. 20;
sleep 0.1;
$_->reset for splice @gone, 0, 10;
$_->close for @gone;
$issuer->set(hold => 0);
keys_until($t, 'the fetch goes on and brings the new key', 200, $new);
is_deeply [ sort $nginx->workers ], \@workers, 'by the same workers';

$said = length $nginx->error_log;
$issuer->set(body => jwks($key));
keys_hold($issuer, sub { keys_pass($t, 60) });
keys_pass($t, 6);
ok eventually(sub {
    substr($nginx->error_log, $said) =~ /key set not refreshed: timed out/
}), 'timed out';
is keys_get($t, $new)->status, 200, 'the set that we have serves';
$issuer->set(hold => 0);
keys_pass($t, 60);
keys_until($t, 'until the issuer answers again', 401, $new, iat => past());

# Unknown key ids: a signature is never looked at for a key that is not there.

my $COOLDOWN = 4;
$issuer->forget;
keys_begin($t, main => 'worker_processes 4;', cooldown => "${COOLDOWN}s");
keys_until($t, 'a key set is there', 200, $key);
$began = time;
my (undef, $payload, $signature) = split /\./, jwt_token('branch', $key, iat => past());
%seen = ();
for (1 .. 3) {
    $seen{ $_->status . ' ' . $_->json->{detail} }++ for http_parallel([ map { [ $port,
        http_request_bytes(GET => '/branch', token => join '.', b64url(
            sprintf '{"alg":"RS256","typ":"JWT","kid":"%s"}', uuid()), $payload, $signature)
    ] } 1 .. 100 ]);
    is keys_get($t, $key)->status, 200, 'a known key passes beside them';
}
my $allowed = 1 + int((time - $began) / $COOLDOWN) + 1;
is_deeply \%seen, { '401 the token was signed by an unknown key' => 300 },
    '300 random key ids: all refused' or diag explain \%seen;
cmp_ok $issuer->count, '<=', $allowed, "with at most $allowed fetches";

# What comes within the cooldown of a fetch: with another fetch, once more.

my ($first, $second, $older);
eventually(sub {
    eventually(sub {
        my $before = $issuer->count;
        keys_pass($t, $COOLDOWN);
        $first = keys_get($t, $new, fresh());
        $issuer->count > $before;
    });
    my $fetched = $issuer->count;
    $second = keys_get($t, $new, fresh());
    $older = keys_get($t, $key->as('new'), iat => past());
    $issuer->count == $fetched;
});
is_problem $first, 401, 'GATEWAY_TOKEN_INVALID',
    'a kid that the fetch for its token did not bring, however new that is';
is_problem $second, 503, 'GATEWAY_KEYS_UNAVAILABLE',
    'one within the cooldown is not called invalid';
like $second->header('Retry-After'), qr/^[1-$COOLDOWN]$/, 'it is told when to come again';
is $older->status, 401, 'a token older than the last fetch is invalid';
ok eventually(sub {
    my $sample = metrics_scrape($t->port('metrics'), '/');
    my ($pending, $unavailable) = map { $sample->{
        qq(platform_gateway_refusals_total{reason="$_",decision="deny"}) } }
        qw(kid_pending keys_unavailable);
    $pending >= 1 && $unavailable == 0;
}), 'and what says that there are no keys at all says nothing';

$issuer->down;
my $failed = keys_failures($t);
ok eventually(sub {
    keys_pass($t, $COOLDOWN);
    $res = keys_get($t, $new, fresh());
    keys_failures($t) > $failed;
}), 'a fetch fails';
is_deeply [ $res->status, keys_get($t, $new, iat => past())->status ], [ 503, 401 ],
    'which says nothing of a new key';
$issuer->up;

# A fetch that began before the token came does not decide: there is time for
# another one, which brings the key.

keys_begin($t);
keys_until($t, 'an issuer', 200, $key);
$issuer->set(hold => 1);
my @old = keys_refetch($t, $issuer);
$before = $issuer->count;
$issuer->set(body => jwks($key, $new));
my @c = ((pop @old), keys_send($t, $new), keys_send($t, $new->as('d'), fresh()));
keys_pass($t, 1);    # the cooldown; the fetch has 5 seconds
$issuer->set(hold => 0);
is_deeply [ answers(@c), $issuer->count ], [ [ 401, 200, 401 ], $before + 1 ],
    'a key that was published meanwhile is found by one fetch more, others are not';

# The same with no time for another: not even then is it called invalid.

$issuer->set(body => jwks($key));
keys_hold($issuer, sub { keys_begin($t, cooldown => '60s') });
$before = $issuer->count;
@c = (keys_send($t, $new, iat => keys_now() + 2), keys_send($t, $new, iat => past()),
    keys_send($t, $key));
$issuer->set(hold => 0);
is_deeply [ answers(@c), $issuer->count ], [ [ 503, 401, 200 ], $before ],
    'a token that was issued while it ran may have a newer key; no other fetch was permitted';

# One from the future is refused for that, key or no key, and fetches nothing.

keys_begin($t);
keys_until($t, 'one key', 200, $key);
my @future = (iat => keys_now() + 3600);
keys_pass($t, 2);    # the cooldown
$before = $issuer->count;
for my $by ($key, $key->as('new')) {
    $res = keys_get($t, $by, @future);
    is_problem $res, 401, 'GATEWAY_TOKEN_INVALID', 'a future iat, key ' . $by->kid;
    like $res->json->{detail}, qr/not valid yet|future/, 'is not valid yet';
}
is_deeply [ keys_get($t, $key)->status, $issuer->count ], [ 200, $before ],
    'no fetch was made for it';

$t->done;

