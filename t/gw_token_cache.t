# The verified-token cache answers as a gateway without one would, only faster:
# with the cache on and off, where counts show that it was at work.  What a token
# costs in it, and that nothing of a token stays in memory once it let it go.

use Platform::Test;
use Platform::Test::Clock;
use Platform::Test::Metrics;

my ($t, $key, $issuer) = Platform::Test->gateway;
my ($other, $quick) = (jwt_key('b'), jwt_key('q', alg => 'EdDSA'));
my $port = $t->port('gateway');
my @good = (iss => 'http://issuer.test');

my $SERVER = <<'SERVER';
platform_gateway_access branch;
platform_gateway_leeway 0;
location / { %%TO_upstream%% }
pass /account: platform_gateway_access account;
pass /either: platform_gateway_access account branch;
pass /issuer: platform_gateway_issuer http://other.test;
pass /audience: platform_gateway_audience this;
pass /small: platform_gateway_token_max_size 512;
pass /lenient: platform_gateway_leeway 60s;
pass /map: platform_gateway_claim_header account_id X-Who;
    platform_gateway_claim_header colour X-Colour;
pass /same: platform_gateway_route same;
location /gif { empty_gif; }
SERVER
my $HTTP = <<'HTTP';
platform_gateway_zone gateway:1m;
platform_gateway_key_soft_age 3600s;
platform_gateway_key_cooldown 1s;
keepalive_requests 10000;
server { listen 127.0.0.1:%%PORT_metrics%%; location = /metrics { platform_gateway_metrics; } }
HTTP

my (%seen, $clock);

sub metric ($of) {
    return metrics_scrape($t->port('metrics'), '/metrics')->{"platform_gateway_token_cache_$of"};
}

sub entries { return metric('entries') }

# What happened in the cache since the last call: [hit, miss, eviction].
sub events {
    return [ map {
        my $was = $seen{$_} // 0;
        ($seen{$_} = metric(qq(total{event="$_"}))) - $was;
    } qw(hit miss eviction) ];
}

sub token { return jwt_token('branch', $key, @good, @_) }

sub claims { return (jwt_decode($_[0]))[1] }

sub ask ($path, $token) { return http_get($port, $path, token => $token) }

# By another key of that name: its signature is wrong.
sub forged { return jwt_token('branch', $other->as('a'), @good, @_) }

# Headers of the context that the upstream got, without the two ids.
sub context ($path, $token) {
    return { map { lc $_->[0] => $_->[1] }
        grep { $_->[0] =~ /^X-/i && $_->[0] !~ /-(?:Request|Correlation)-/i }
        @{ ask($path, $token)->json->{headers} } };
}

sub start ($cache) {
    my $nginx = $t->gateway_conf($SERVER, main => 'worker_processes 1;',
        buffers => '4 32k', http => "platform_gateway_token_cache $cache;\n$HTTP");
    $clock //= Platform::Test::Clock->new($t, $nginx);
    $issuer->set(body => jwks($key, $quick));
    $t->start_gateway;
    %seen = ();
    events();
}

# Asks, [path, token, status or code or detail], and says what happened in the
# cache meanwhile; nothing where it is off.
my ($on, $name) = (1, 'on');
sub step ($what, $events, @asked) {
    for (@asked) {
        my ($path, $token, $want) = @$_;
        my $res = ask($path, $token);
        is $want =~ /^\d/ ? $res->status : $want =~ /^GATEWAY/ ? $res->code : $res->json->{detail},
            $want, "$name: $what: $path";
    }
    my $is = events();
    is_deeply $is, $on ? $events : [ 0, 0, 0 ], "$name: $what: hits, misses, evictions" if $events;
}

sub comes ($what, $path, $token, $want) {
    ok eventually(sub { my $res = ask($path, $token); $res->status eq $want || $res->code eq $want
            || ($res->json->{detail} // '') eq $want }), "$name: $what";
    events();
}

# 1. What one token is answered with, cache or no cache.

my ($INVALID, $EXPIRED) = map {"GATEWAY_TOKEN_$_"} qw(INVALID EXPIRED);
my ($NOT_YET, $UNKNOWN) = ('the token is not valid yet', 'the token was signed by an unknown key');
for (1, 0) {
    ($on, $name) = ($_, $_ ? 'on' : 'off');
    start($on ? 'entries=100 size=1m' : 'off');

    my $token = token(roles => [ 'a,b', "\x{e9}" ], colour => '', iat => time - 5);
    my $first = context('/', $token);
    is $first->{'x-roles'}, 'a%2Cb,%C3%A9', "$name: headers";
    step('the first request verifies', [ 0, 1, 0 ]);
    is_deeply context($_, $token), $first, "$name: the same headers, $_" for '/', '/same/x';
    is_deeply [ @{ $t->logged(ask('/', $token)) }{qw(accountId sessionId workspaceId reason)} ],
        [ @{ claims($token) }{qw(account_id session_id workspace_id)}, 'verified' ],
        "$name: the log knows who";
    step('without verifying, and in a location of the same policy', [ 3, 0, 0 ]);
    step('the level is no part of the verdict', [ 3, 0, 0 ], [ '/account', $token, 403 ],
        [ '/either', $token, 200 ], [ '/account', $token, 403 ]);

    # Other policies.

    for my $events ([ 0, 4, 0 ], [ 1, 3, 0 ]) {
        is_deeply context('/map', $token),
            { 'x-who' => $first->{'x-account-id'}, 'x-colour' => '' },
            "$name: another map, with an empty value";
        step('each policy is on its own', $events,
            map { [ $_, $token, 401 ] } qw(/issuer /audience /small));
    }
    is_deeply context('/', $token), $first, "$name: the first one is as before";

    # Tokens that are nearly the same, and forged ones.

    my $last = $token;
    my $c = chop $last;
    my $forged = forged();
    step('one that is nearly the same', undef, (map { [ '/', $_, 401 ] }
        (map {"$last$_"} grep { $_ ne $c } qw(A Q g w B)), jwt_tamper($token, 1, 100),
        "$token.", $last), [ '/', $token, 200 ]);
    step('a forged one is not remembered', [ 0, 2, 0 ], ([ '/', $forged, $INVALID ]) x 2);

    # Times.

    my $end = time + 20;
    my ($short, $old) = (token(exp => $end), forged(exp => $end));
    step('before they expire', undef, [ '/', $short, 200 ], [ '/lenient', $short, 200 ],
        [ '/', $old, $INVALID ]);
    $clock->ahead(21);
    comes('the clock goes on', '/', $old, $EXPIRED);
    step('expired ones are hits', [ 4, 2, 0 ], ([ '/', $short, $EXPIRED ],
        [ '/lenient', $short, 200 ], [ '/', $old, $EXPIRED ]) x 2);
    $clock->ahead(0);
    comes('the clock is set right', '/', $short, 200);

    # A clock that was set back: what was good is not good yet.

    my $at = time;
    my @early = (token(iat => $at - 60), token(iat => $at - 3600, nbf => $at - 60));
    my ($aged, $new) = (token(iat => $at - 3600), forged(iat => $at - 60));
    step('before the clock is set back', undef, (map { [ '/', $_, 200 ] } @early, $aged),
        [ '/', $new, $INVALID ]);
    $clock->ahead(-600);
    comes('the clock is set back', '/', $new, $NOT_YET);
    step('all that are good are hits', [ 3, 1, 0 ], (map { [ '/', $_, $NOT_YET ] } @early, $new),
        [ '/', $aged, 200 ]);
    $clock->ahead(0);
    comes('the clock is right again', '/', $_, 200) for @early;

    # A key that goes while its tokens are cached.

    step('before the key goes', undef, [ '/', $token, 200 ]);
    $issuer->set(body => jwks($other));
    comes('a new set, without the key', '/', jwt_token('branch', $other, @good, iat => time), 200);
    my $had = entries();
    step('cached verdicts went with it', undef, [ '/', $token, 401 ]);
    is entries(), $on ? $had - 1 : 0, "$name: which the metric says";
    comes('forged ones too, once a set is younger than they are', '/', $forged, $UNKNOWN);
    $issuer->set(body => jwks($key, $other));
    comes('the key is back', '/', $token, 200);
}

# 2. A cache of two entries: the one goes that was not used for longest, to 10 seconds.

($on, $name) = (1, 'two entries');
start('entries=2');
my @tokens = map { token(account_id => uuid($_), sub => uuid($_)) } 1 .. 3;
my $passed = 0;
my ($HIT, $MISS, $EVICTION) = ([ 1, 0, 0 ], [ 0, 1, 0 ], [ 0, 1, 1 ]);
for my $step ([ 0, $MISS ], [ 1, $MISS ], [ 0, $HIT ], [ 1, $HIT ], [ 0, $HIT ],
    [ 2, $EVICTION ], [ 0, $HIT ], [ 1, $EVICTION ])
{
    my ($n, $events) = @$step;
    $clock->ahead($passed += 10);
    is context('/', $tokens[$n])->{'x-account-id'}, claims($tokens[$n])->{account_id},
        "token $n is itself";
    step("token $n", $events);
}
is entries(), 2, 'there are two';
$clock->ahead(0);

# A flood of forged ones displaces none of them.

my $forged = forged();
my %flood;
$flood{ $_->status }++ for http_parallel([ map { [ $port, http_request_bytes(GET => '/',
    token => $forged =~ s/....(?=.{9}\z)/sprintf '%04d', $_/er) ] } 1 .. 200 ]);
is_deeply \%flood, { 401 => 200 }, 'forged tokens are refused';
is entries(), 2, 'none of them is kept';
events();
step('the two come from the cache', [ 2, 0, 0 ], map { [ '/', $_, 200 ] } @tokens[ 0, 1 ]);

# Tokens that end alike: each is judged by all of its bytes, and forged ones push
# out nothing.

start('entries=800');
my $good = token();
my $end = (split /\./, $good)[2];
my @alike = ((map { (token() =~ s/[^.]+\z//r) . $end } 1 .. 12), $good . substr $good, -8);
step('none that ends alike is known, nor one that goes on', [ 0, 14, 0 ], [ '/', $good, 200 ],
    map { [ '/', $_, 401 ] } @alike);
is entries(), 1, 'nor kept';
step('the good one is', [ 1, 1, 0 ], [ '/', $alike[0], 401 ], [ '/', $good, 200 ]);

# 3. Bounds: of bytes, and of a token that is larger than all of the cache.

start('entries=1000 size=64k');
ask('/', jwt_token('branch', $quick, @good, branch_ids => [ map { uuid() } 1 .. 30 ])) for 1 .. 60;
my $held = entries();
cmp_ok $held, '>', 10, 'tokens fill the bytes';
cmp_ok $held, '<', 60, 'and no more';
is events()->[2], 60 - $held, 'the others went';

# 4. Memory: of a token of about 1.3 KB, all included; a full cache does not grow.

SKIP: {
    skip 'memory is that of nginx in a plain build only', 1
        if Platform::Test::Env::asan() || Platform::Test::Env::valgrind();
    my ($CACHED, $LIMIT) = (300, 3 * 1024);
    start("entries=$CACHED");
    my @sent = map { jwt_token('branch', $quick, @good, branch_ids => [ map { uuid() } 1 .. 8 ]) }
        0 .. 2 * $CACHED;
    my $size = length $sent[0];
    ok $size > 1200 && $size < 1500, "tokens of $size bytes";

    # Sends the tokens over a connection; returns the kilobytes of the worker.
    my $rss_after = sub (@which) {
        my $c = Platform::Test::Http->new(port => $port);
        my $passed = grep { $c->request(GET => '/gif', token => $sent[$_])->status == 200 } @which;
        $c->close;
        is $passed, @which, "$passed requests pass";
        http_get($port, '/ready');
        return ($t->read_file('/proc/' . ($t->nginx->workers)[0] . '/status')
            =~ /^VmRSS:\s+(\d+)/m)[0];
    };
    my ($empty, $full, undef, $later) = map { $rss_after->(@$_) } [ (0) x $CACHED ],
        [ 1 .. $CACHED ], ([ 1 .. 2 * $CACHED ]) x 2;
    my $each = ($full - $empty) * 1024 / $CACHED;
    note sprintf "%.0f bytes for each token; $empty kB, $full kB full, later $later", $each;
    cmp_ok $each, '>', $size, 'control: they are in memory';
    cmp_ok $each, '<=', $LIMIT, "at most $LIMIT bytes a token";
    cmp_ok $later - $full, '<=', 0.2 * ($full - $empty), 'a full cache stays as large';

    # An entry holds what goes upstream, last the roles, and right behind it the
    # token: nowhere else in the worker does it stand behind them or behind zeros.

    start('entries=8');
    my ($old, $new) = map { my $roles = $_; [ map { token(roles => [ ('r' x 100) x $roles ]) }
        1 .. 8 ] } 40, 1;

    # How many of the old tokens there are in entries of the worker's memory.
    my $entries = sub {
        my ($worker) = $t->nginx->workers;
        my $found = 0;
        open my $mem, '<:raw', "/proc/$worker/mem" or die "mem: $!\n";
        no warnings 'portable';    # addresses have 64 bits
        for (split /\n/, $t->read_file("/proc/$worker/maps")) {
            my ($from, $to) = map {hex} /^([0-9a-f]+)-([0-9a-f]+) rw/ or next;
            sysseek($mem, $from, 0) && sysread($mem, my $bytes, $to - $from) or next;
            $found += () = $bytes =~ /(?:rrr|\0{3})\0\Q$_\E/g for @$old;
        }
        return $found;
    };
    is ask('/gif', $_)->status, 200, 'a token' for @$old;
    is $entries->(), 8, 'control: all are found in memory';
    is ask('/gif', $_)->status, 200, 'another one' for @$new;
    is $entries->(), 0, 'nothing is left of those that had to go';
}

$t->done;
