# The verified-token cache answers as a gateway without one would, only
# faster: every test runs with the cache on and off, and counts show that it
# was at work.

use Platform::Test;
use Platform::Test::Clock;
use Platform::Test::Metrics;

my $t = Platform::Test->new;
my ($key, $other) = map { jwt_key($_) } qw(a b);
my $issuer = $t->issuer(body => jwks($key));
my $upstream = $t->echo_upstream;
my $port = $t->port('gateway');
my @good = (iss => 'http://issuer.test');

my $SERVER = <<'SERVER';
platform_gateway_access branch;
platform_gateway_leeway 0;
location / { %%TO_upstream%% }
location /account { platform_gateway_access account; %%TO_upstream%% }
location /either { platform_gateway_access account branch; %%TO_upstream%% }
location /issuer { platform_gateway_issuer http://other.test; %%TO_upstream%% }
location /audience { platform_gateway_audience this; %%TO_upstream%% }
location /small { platform_gateway_token_max_size 512; %%TO_upstream%% }
location /lenient { platform_gateway_leeway 60s; %%TO_upstream%% }
location /map {
    platform_gateway_claim_header account_id X-Who;
    platform_gateway_claim_header colour X-Colour;
    %%TO_upstream%%
}
location /same {
    platform_gateway_issuer http://issuer.test;
    platform_gateway_route same;
    %%TO_upstream%%
}
SERVER
my $HTTP = <<'HTTP';
large_client_header_buffers 4 32k;
platform_gateway_zone gateway:1m;
platform_gateway_key_soft_age 3600s;
platform_gateway_key_cooldown 1s;
server { listen 127.0.0.1:%%PORT_metrics%%; location = /metrics { platform_gateway_metrics; } }
HTTP

my (%seen, $clock);

# What happened in the cache since the last call: [hit, miss, eviction].
sub events {
    my ($sample) = metrics_scrape($t->port('metrics'), '/metrics');
    my @now = map { $sample->{qq(platform_gateway_token_cache_total{event="$_"})} }
        qw(hit miss eviction);
    my @since = map { $now[$_] - ($seen{$_} // 0) } 0 .. 2;
    @seen{ 0 .. 2 } = @now;
    return \@since;
}

sub entries {
    return metrics_scrape($t->port('metrics'), '/metrics')->{platform_gateway_token_cache_entries};
}

sub token { return jwt_token('branch', $key, @good, @_) }

sub claims { return (jwt_decode($_[0]))[1] }

sub status { return http_get($port, $_[0], token => $_[1])->status }

# Headers of the context that the upstream got, without the two ids.
sub context ($path, $token) {
    my $seen = http_get($port, $path, token => $token)->json;
    return { map { lc $_->[0] => $_->[1] }
        grep { $_->[0] =~ /^X-/i && $_->[0] !~ /-(?:Request|Correlation)-/i }
        @{ $seen->{headers} } };
}

sub start ($cache) {
    my $running = $t->nginx;
    $running->stop if $running;
    my $nginx = $t->gateway_conf($SERVER, main => 'worker_processes 1;',
        http => "platform_gateway_token_cache $cache;\n$HTTP");
    $clock //= Platform::Test::Clock->new($t, $nginx);
    $issuer->set(body => jwks($key));
    $t->start_gateway;
    %seen = ();
    events();
}

# 1. What one token is answered with, cache or no cache.

for my $on (1, 0) {
    my $name = $on ? 'on' : 'off';
    my $is_events = sub ($want, $what) {
        is_deeply events(), $on ? $want : [ 0, 0, 0 ], "$name: $what";
    };
    start($on ? 'entries=100 size=1m' : 'off');

    my $token = token(roles => [ 'a,b', "\x{e9}" ], colour => '');
    my $first = context('/', $token);
    is $first->{'x-roles'}, 'a%2Cb,%C3%A9', "$name: headers";
    $is_events->([ 0, 1, 0 ], 'the first request verifies');
    is_deeply context('/', $token), $first, "$name: the same headers again";
    is_deeply context('/same/x', $token), $first, "$name: and in a location of the same policy";
    $is_events->([ 2, 0, 0 ], 'without verifying');
    my @lines = grep { $_->{path} !~ /metrics/ } $t->nginx->access_lines(3);
    is_deeply [ map { [ @$_{qw(accountId sessionId workspaceId reason)} ] }
            @lines[ -3 .. -1 ] ],
        [ ([ @{ claims($token) }{qw(account_id session_id workspace_id)},
            'verified' ]) x 3 ],
        "$name: the log knows who";

    # [what, path, status], ...
    my $answers = sub {
        is status($_->[1], $token), $_->[2], "$name: $_->[0]" for @_;
    };
    $answers->([ 'another level is forbidden', '/account', 403 ],
        [ 'one of two is enough', '/either', 200 ],
        [ 'and forbidden again', '/account', 403 ]);
    $is_events->([ 3, 0, 0 ], 'the level is no part of the verdict');

    # Other policies.

    for (1, 2) {
        $answers->([ 'another issuer', '/issuer', 401 ], [ 'an audience', '/audience', 401 ],
            [ 'a smaller size', '/small', 401 ]);
        is_deeply context('/map', $token),
            { 'x-who' => $first->{'x-account-id'}, 'x-colour' => '' },
            "$name: another map, with an empty value";
    }
    $is_events->([ 1, 7, 0 ], 'each policy is on its own');
    is_deeply context('/', $token), $first, "$name: the first one is as before";

    # Tokens that are nearly the same.

    my $last = $token;
    my $c = chop $last;
    my %near = ((map { ("ends in $_" => "$last$_") } grep { $_ ne $c } qw(A Q g w B)),
        'another payload, the same signature' => jwt_tamper($token, 1, 100),
        'a longer one' => "$token.", 'a shorter one' => substr $token, 0, -1);
    is status('/', $near{$_}), 401, "$name: $_" for sort keys %near;
    is status('/', $token), 200, "$name: the right one still passes";
    events();

    # Forged ones.

    my $forged = jwt_token('branch', $other->as('a'), @good);
    my @answers = map { http_get($port, '/', token => $forged) } 1 .. 2;
    is_problem $_, 401, 'GATEWAY_TOKEN_INVALID', "$name: forged" for @answers;
    is $answers[0]->json->{detail}, $answers[1]->json->{detail}, "$name: the same detail";
    $is_events->([ 0, 2, 0 ], 'a forged one is not remembered');

    # Times.

    my $end = time + 20;
    my $short = token(exp => $end);
    my $old = jwt_token('branch', $other->as('a'), @good, exp => $end);
    my $code = sub { return http_get($port, '/', token => $_[0])->code };
    is status('/', $short), 200, "$name: a token of twenty seconds";
    is status('/lenient', $short), 200, "$name: with leeway too";
    is $code->($old), 'GATEWAY_TOKEN_INVALID', "$name: a forged one, likewise";
    $clock->ahead(21);
    eventually(sub { $code->($old) eq 'GATEWAY_TOKEN_EXPIRED' });
    events();
    for (1, 2) {
        is $code->($short), 'GATEWAY_TOKEN_EXPIRED', "$name: expires while cached";
        is status('/lenient', $short), 200, "$name: not so with leeway";
        is $code->($old), 'GATEWAY_TOKEN_EXPIRED', "$name: and so does the forged one";
    }
    $is_events->([ 4, 2, 0 ], 'expired ones are hits');
    $clock->ahead(0);
    ok eventually(sub { status('/', $short) == 200 }), "$name: the clock is set right";

    # A clock that was set back: what was good is not good yet.

    my $at = time;
    my %early = (iat => token(iat => $at - 60), nbf => token(iat => $at - 3600, nbf => $at - 60));
    my $aged = token(iat => $at - 3600);
    my $new = jwt_token('branch', $other->as('a'), @good, iat => $at - 60);
    is status('/', $_), 200, "$name: before the clock is set back" for values %early, $aged;
    is status('/', $new), 401, "$name: a forged one, likewise";
    $clock->ahead(-600);
    my $detail = sub { return http_get($port, '/', token => $_[0])->json->{detail} // '' };
    my $not_yet = 'the token is not valid yet';
    eventually(sub { $detail->($new) eq $not_yet });
    events();
    is $detail->($early{$_}), $not_yet, "$name: $_ in the future" for sort keys %early;
    is status('/', $aged), 200, "$name: control: one that is older";
    is $detail->($new), $not_yet, "$name: a forged one, too";
    $clock->ahead(0);
    $is_events->([ 3, 1, 0 ], 'all that are good are hits');
    for my $claim (sort keys %early) {
        ok eventually(sub { status('/', $early{$claim}) == 200 }),
            "$name: $claim, the clock is right again";
    }

    # A key that goes while its tokens are cached.

    is status('/', $token), 200, "$name: before the key goes";
    $issuer->set(body => jwks($other));
    my $signal = jwt_token('branch', $other, @good, iat => time);
    ok eventually(sub { status('/', $signal) == 200 }), "$name: a new set, without the key";
    is status('/', $token), 401, "$name: cached verdicts went with it";
    ok eventually(sub { $detail->($forged) eq 'the token was signed by an unknown key' }),
        "$name: forged ones too, once a set is younger than they are";
    $issuer->set(body => jwks($key, $other));
    ok eventually(sub { status('/', $token) == 200 }), "$name: the key is back";
    is status('/', $token), 200, "$name: and its token works again";
}

# 2. A cache of two entries: the least recently used one goes.

start('entries=2');
my @tokens = map { token(account_id => uuid($_), sub => uuid($_)) } 1 .. 3;
my ($HIT, $MISS, $EVICTION) = ([ 1, 0, 0 ], [ 0, 1, 0 ], [ 0, 1, 1 ]);
for my $step ([ 0, $MISS ], [ 1, $MISS ], [ 0, $HIT ], [ 1, $HIT ], [ 0, $HIT ],
    [ 2, $EVICTION ], [ 0, $HIT ], [ 1, $EVICTION ])
{
    my ($n, $events) = @$step;
    is context('/', $tokens[$n])->{'x-account-id'}, claims($tokens[$n])->{account_id},
        "token $n is itself";
    is_deeply events(), $events, "token $n: (@$events)";
}
is entries(), 2, 'there are two';

# A flood of forged ones displaces none of them.

my $other_token = jwt_token('branch', $other->as('a'), @good);
my @flood = map { $other_token =~ s/....(?=.{9}\z)/sprintf '%04d', $_/er } 1 .. 200;
my %flood;
$flood{ $_->status }++ for http_parallel([ map {
    [ $port, http_request_bytes(GET => '/', token => $_) ] } @flood ]);
is_deeply \%flood, { 401 => 200 }, 'forged tokens are refused';
is entries(), 2, 'none of them is kept';
events();
is status('/', $tokens[$_]), 200, "token $_ still passes" for 0, 1;
is_deeply events(), [ 2, 0, 0 ], 'from the cache';

# Tokens that are ordered as one: they end alike.  Each is judged by all
# of its bytes, and forged ones push out nothing.

start('entries=800');
my $good = token();
my $end = (split /\./, $good)[2];
my @alike = map { (token() =~ s/[^.]+\z//r) . $end } 1 .. 12;
is status('/', $good), 200, 'a good one';
is status('/', $_), 401, 'one that ends as it does' for @alike;
is_deeply events(), [ 0, 13, 0 ], 'none of them is known';
is entries(), 1, 'nor kept';
is status('/', $alike[0]), 401, 'nor when it comes again';
is status('/', $good), 200, 'the good one, beside them';
is_deeply events(), [ 1, 1, 0 ], 'is known';
is context('/', $good)->{'x-account-id'}, claims($good)->{account_id}, 'the good one is itself';

# 3. Bounds: of bytes, and of a token that is larger than all of the cache.

start('entries=1000 size=64k');
status('/', token(branch_ids => [ map { uuid() } 1 .. 30 ])) for 1 .. 60;
my $held = entries();
cmp_ok $held, '>', 10, 'tokens fill the bytes';
cmp_ok $held, '<', 60, 'and no more';
is events()->[2], 60 - $held, 'the others went';

# 4. nginx -t

my $DIRECTIVE = 'platform_gateway_token_cache';
for my $case ([ 'on', qr/invalid parameter "on"/ ], [ 'size=1m', qr/needs "entries=N"/ ],
    [ 'entries=0', qr/invalid parameter/ ], [ 'entries=10000001', qr/of 1 to 10000000/ ],
    [ 'entries=1 size=1k', qr/invalid parameter "size=1k".*at least 64k/ ],
    [ "off; $DIRECTIVE off", qr/is duplicate/ ], [ 'off entries=1', qr/invalid parameter/ ],
    [ 'entries=1 size=64k', qr/test is successful/ ])
{
    my ($given, $said) = @$case;
    like +($t->location_test(http => "$DIRECTIVE $given;"))[1], $said, "nginx -t: $given";
}
$t->allow(qr/\[emerg\]/);

$t->done;
