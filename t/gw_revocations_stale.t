# What holds while the feed is not there, there is no room, or the clock is wrong:
# it is never silent, and the operator says whether requests are let in.

use Platform::Test;
use Platform::Test::Clock;
use Platform::Test::Revocations;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $feed = revocations_feed($t);
my $port = $t->port('gateway');
my ($ended, $goes_on) = map { uuid($_) } 1, 2;
my @all = (revoked_id($ended));
$feed->set(all => \@all);

sub ask ($session, $path = '/branch', %claims) {
    return http_get($port, $path,
        token => jwt_token('branch', $key, session_id => $session, %claims));
}

sub status { return ask(@_)->status }

sub ready { return http_get($port, '/ready') }

sub metric ($of) { return revocations_metrics($t)->{"revocation_$of"} }

# [name, session that is asked for, status].
sub gets {
    is status($_->[1]), $_->[2], $_->[0] for @_;
}

my $SET = 'zone=revocations:1m uri=/_revocations interval=100ms';

# A cold start: not ready before all was read, page by page.

my $clock;

for my $stale ('pass', 'refuse') {
    my $other = $stale eq 'pass' ? 200 : 503;
    push @all, revoked_id(uuid(10 + @all));
    $feed->set(all => \@all, hold => 1, page => 1);
    my $nginx = revocations_conf($t, $key, stale => "$stale after=60s",
        server => 'location /asks { auth_request /branch; empty_gif; }');
    $clock //= Platform::Test::Clock->new($t, $nginx);
    $t->start_nginx;
    is_problem(ready(), 503, 'GATEWAY_REVOCATIONS_STALE', "$stale: a cold start is not ready");
    my $res = ask($goes_on);
    if ($stale eq 'pass') {
        is $res->status, 200, "$stale: a request is let in";
        cmp_ok metric('unchecked_total'), '>=', 1, "$stale: which is counted";
    }
    else {
        is_problem($res, 503, 'GATEWAY_REVOCATIONS_STALE', "$stale: a request");
        is_deeply [ $res->header('Retry-After'), $t->logged($res)->{reason} ],
            [ 1, 'revocations_stale' ], "$stale: for a moment, and logged";
        is_deeply [ status($goes_on, '/asks'), map { http_get($port, $_)->status }
            '/branch', '/metrics' ], [ 500, 401, 200 ],
            "$stale: auth_request knows no 503; no token is refused as ever; what is public is not";
    }
    $feed->set(hold => 0);
    $t->gateway_ready("$stale: then it is ready");
    gets(map { [ "$stale: with all pages", $_->{id}, 401 ] } @all);
    is metric('lag_seconds_count'), 0, "$stale: what ended before has no lag";
    is status($goes_on, $_), 200, "$stale: control: others are let in" for '/branch', '/asks';

    # The feed goes.

    my ($count, $failed) = map { metric($_) } 'unchecked_total', 'fetches_total{outcome="failed"}';
    $feed->down;
    $clock->pass(60);
    ok $nginx->wait_log(qr/revocations are stale/), "$stale: gone: logged";
    ok eventually(sub { metric('fetches_total{outcome="failed"}') > $failed + 5 }),
        "$stale: it is asked again and again";
    my $said = () = $nginx->error_log =~ /\[error\].*(?:_revocations|revocations not read)/g;
    cmp_ok $said, '<', 6, "$stale: and it is said once why it cannot be";
    gets([ "$stale: another", $goes_on, $other ], [ "$stale: one that has ended", $ended, 401 ]);
    is ready()->status, $other, "$stale: ready if requests are let in";
    cmp_ok metric('feed_age_seconds'), '>=', 60, "$stale: the age";
    is metric('unchecked_total') > $count, $stale eq 'pass', "$stale: counted if let in";
    is http($port, 'POST', '/explain', json => { path => '/branch',
        token => jwt_token('branch', $key, session_id => $goes_on) })
        ->json->{reason}, $stale eq 'pass' ? 'verified' : 'revocations_stale', "$stale: explained";
    $feed->up;
    ok $nginx->wait_log(qr/revocations are up to date again/), "$stale: it is back";
    is_deeply [ status($goes_on), ready()->status ], [ 200, 200 ], "$stale: and so are requests";
}

# A reload keeps the zone; another size is another zone; so is another feed's.

my @REFUSE = (stale => 'refuse after=60s');
sub reloads ($name, $ready, %o) {
    revocations_conf($t, $key, @REFUSE, %o);
    ok $t->reload, "a reload: $name";
    is ready()->status, $ready, "$name: whether it is ready";
}
my $LARGER = $SET =~ s/1m/2m/r;

$feed->set(page => 1000);
my $nginx = revocations_gateway($t, $key, @REFUSE);
$feed->down;
reloads('nothing else', 200, http => '# changed');
gets([ 'keeps what is known', $ended, 401 ], [ 'and is not stale', $goes_on, 200 ]);
reloads('another size', 503, set => $LARGER);
gets([ 'and follows the directive', $goes_on, 503 ]);
$feed->up;
$t->gateway_ready('until all is read');
gets([ 'again', $ended, 401 ], [ 'control: others are let in', $goes_on, 200 ]);
$feed->set(hold => 1, all => [ revoked_id(uuid(500)), @all[ 1 .. $#all ] ]);
reloads('another claim', 503, set => "$LARGER claim=jti");
$feed->set(hold => 0);
$t->gateway_ready('which is read');
gets([ 'and looked up by that', $ended, 200 ]);
is status($goes_on, '/branch', jti => $_), 401, 'control: by that, from the beginning'
    for $ended, uuid(500);
$feed->set(all => [ revoked_id(uuid(501)), @all[ 1 .. $#all ] ]);
reloads('another path', 200, set => "$LARGER claim=jti", path => '/of/another');
ok eventually(sub { status($goes_on, '/branch', jti => uuid(501)) == 401 }),
    'that is read from the beginning, too';
my @asked = map { $_->{uri} } grep { $_->{uri} =~ m{^/of/another} } $feed->requests;
like $asked[0], qr/after=/, 'but first of all from where the reading was';
reloads('without it', 200, stale => undef, set => undef);
gets([ 'nothing is refused', $ended, 200 ]);
ok eventually(sub {
    my $count = $feed->count;
    sleep 0.3;
    $feed->count == $count;
}), 'nor is the feed asked';

# What is missed is wanted soon, however seldom it is asked, and then all of it.

$feed->set(status => 503, page => 1);
revocations_conf($t, $key, set => $SET =~ s/100ms/20s/r, stale => 'pass after=100s');
$nginx = $t->start_nginx;
ok $nginx->wait_log(qr/revocations not read: status 503/, 10), 'asked in vain';
$feed->set(status => undef);
$clock->pass(10);
ok eventually(sub { ready()->status == 200 }, 9), 'asked again long before';
gets(map { [ 'page after page', $_->{id}, 401 ] } @all[ 1 .. 2 ]);
$feed->set(page => 1000);

$t->allow(qr/\[alert\] .*revocations not read: the zone is full/);
for my $stale ('pass', 'refuse') {
    my $other = $stale eq 'pass' ? 200 : 503;
    $feed->set(many => 10_000, page => 1000, all => []);
    $nginx = revocations_conf($t, $key, set => $SET =~ s/1m/256k/r, stale => "$stale after=60s");
    $t->start_nginx;
    my $full = sub ($full) { ok eventually(sub { metric('zone_full') == $full }), "full: $full" };
    $full->(1);
    ok $nginx->wait_log(qr/\[alert\] .*the zone is full/), "$stale: an alert";
    is ready()->status, 503, "$stale: it is not ready";
    gets([ "$stale: a request", $goes_on, $other ],
        [ "$stale: those that found room hold", revocations_many(0), 401 ]);
    is metric('entries'), metric('entries_max'), "$stale: as many as there is room for";
    cmp_ok metric('fetches_total{outcome="full"}'), '>=', 1, "$stale: counted";
    $feed->set(many => 3000, known => 'few');
    $full->(0);
    ok eventually(sub { status($goes_on) == 200 }), "$stale: fewer find room, and all is well";
    is ready()->status, 200, "$stale: ready";
    $feed->set(many => 10_000, known => 'more');
    $full->(1);
    gets([ "$stale: which holds at once, however young the feed is", $goes_on, $other ]);
    $feed->set(known => 'a');
}

# The clock goes an hour ahead: all that is known dies with the tokens, and what
# comes is dead.  A zone so large that 4,096 slots a fetch would not sweep it in 15 s.

my $later = uuid(3);
@all = (revoked_id($ended));
$feed->set(many => 0, all => \@all, known => 'clock');
my @LARGE = (set => 'zone=revocations:16m uri=/_revocations interval=200ms');
revocations_gateway($t, $key, @LARGE);

sub reason ($session) { return $t->logged(ask($session))->{reason} }

sub comes ($session, $reason, $name) {
    return ok eventually(sub { reason($session) eq $reason }), $name;
}

sub forgets ($name) { return ok eventually(sub { metric('entries') == 0 }, 15), $name }

comes($ended, 'session_revoked', 'control: one ended');
is reason($goes_on), 'verified', 'control: one goes on';
$clock->ahead(3600);
comes($goes_on, 'token_expired', 'the clock goes ahead');
forgets('and nothing is known any more');
push @all, revoked_id($later);
my $count = $feed->count;
$feed->set(all => \@all);
ok eventually(sub { $feed->count > $count + 2 }), 'one more ends';
forgets('control: dead');

# Tokens are alive again when it is right: what is missing is missing until all
# was read again.  It is not ready, and under "refuse" nobody is let in before.

is ready()->status, 200, 'control: ready';
$feed->down;
$clock->ahead(0);
comes($goes_on, 'verified', 'it is set right');
is ready()->status, 503, 'not ready';
$feed->up;
$t->gateway_ready('until all was read');
comes($_, 'session_revoked', 'what ended is known again') for $ended, $later;
is reason($goes_on), 'verified', 'and nothing else';
is metric('lag_seconds_count'), 0, 'which tells nothing of the lag';

$clock->ahead(3600);
revocations_conf($t, $key, stale => 'refuse after=30s', @LARGE);
$t->reload or die;
forgets('ahead again');
$feed->down;
$clock->ahead(0);
my %reasons;
ok eventually(sub { $reasons{ my $reason = reason($ended) } = 1; $reason ne 'token_expired' }),
    'and back';
is reason($ended), 'revocations_stale', 'what ended' for 1 .. 5;
is_deeply [ grep { !/token_expired|stale/ } keys %reasons ], [], 'at once';
$feed->up;
comes($goes_on, 'verified', 'until all was read');
is reason($ended), 'session_revoked', 'which names it';

sub whole { return scalar grep { $_->{uri} eq '/internal/revocations' } $feed->requests }
my $was = whole();
$count = $feed->count;
ok eventually(sub { $feed->count > $count + 5 }), 'it is asked as before';
is whole(), $was, 'for what is new';

$clock->ahead(3600);
revocations_gateway($t, $key, set => $SET =~ s/100ms/20s/r, stale => 'pass after=60s');
is ready()->status, 200, 'control: ready, ahead';
$clock->ahead(0);
is ready()->status, 503, 'set back between two polls: not ready at once';

# The directives: [what is said (nothing: accepted), what is given].

my ($TWICE, $NOT_THERE) = (qr/is duplicate/, qr/no server has an internal location for the revocations of "\//);
for my $case (
    (map { [ qr/needs "zone=NAME:SIZE" and "uri=/, set => $_ ] } 'uri=/_revocations', 'zone=r:1m'),
    [ qr/invalid zone/, set => $SET =~ s/:1m//r ],
    [ qr/invalid zone.*64k.*of at least 128k/, set => $SET =~ s/1m/64k/r ],
    (map { [ qr/invalid parameter "$_"/, set => "$SET $_" ] }
        'interval=1ms', 'interval=61s', 'claim=', 'what=1'),
    (map { [ $NOT_THERE, set => $SET =~ s/_revocations/$_/r ] } 'no', 'branch'),
    [ qr/cannot hold a page of the feed: add "subrequest_output_buffer_size 256k;"/,
        set => $SET =~ s/_revocations/small/r,
        server => 'location = /small { internal; proxy_pass http://127.0.0.1:1; }' ],
    [ qr/would give old revocations from a cache/, location => 'proxy_cache c;',
        http => 'proxy_cache_path %%DIR%%/c keys_zone=c:1m;' ],
    [ qr/is also the zone of "platform_gateway_zone"/, set => $SET =~ s/=revocations:1m/=platform_gateway:10m/r ],
    [ qr/is also the zone of "platform_gateway_zone", of its counters/,
        set => $SET =~ s/=revocations:1m/=platform_gateway_counters:10m/r,
        server => 'location = /m { platform_gateway_access public; platform_gateway_metrics; }' ],
    [ qr/more than half of "after="/, set => "$SET interval=6s" ],
    [ qr/"a[.]b" reads as a path/, set => "$SET claim=a.b" ],
    [ qr/accepts pass and refuse/, stale => 'maybe' ],
    [ qr/has no "after=TIME" of at least 1s/, stale => 'pass after=10ms' ],
    [ $TWICE, stale => 'pass', http => 'platform_gateway_revocations_stale pass;' ],
    [ $TWICE, http => "platform_gateway_revocations $SET;" ],
    [ undef, set => $SET, stale => 'refuse after=20s' ],
) {
    my ($said, @given) = @$case;
    my $conf = revocations_conf($t, $key, name => 'check', @given);
    like join(' ', $conf->test), $said ? qr/\A0 .*$said/s : qr/\A1 /, "nginx -t: @given";
    unlink $conf->{log};
}

$t->done;
