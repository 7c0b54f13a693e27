# What holds while the feed is not there, or there is no room: it is never
# silent, and the operator says whether requests are let in.

use Platform::Test;
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

sub ready { return http_get($port, '/readyz') }

sub becomes_ready ($name) { return ok eventually(sub { ready()->status == 200 }), $name }

sub metric ($of) { return revocations_metrics($t)->{"revocation_$of"} }

# [name, session that is asked for, status].
sub gets {
    is status($_->[1]), $_->[2], $_->[0] for @_;
}

sub over ($nginx) {
    $t->stop($nginx);
    unlink $nginx->{log};
}

my $SET = 'zone=revocations:1m uri=/_revocations interval=100ms';

# A cold start: not ready before all was read, page by page.

for my $stale ('pass', 'refuse') {
    my $other = $stale eq 'pass' ? 200 : 503;
    push @all, revoked_id(uuid(10 + @all));
    $feed->set(all => \@all, hold => 1, page => 1);
    my $nginx = revocations_conf($t, $key, stale => "$stale after=3s",
        server => 'location /asks { auth_request /branch; empty_gif; }');
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
    becomes_ready("$stale: then it is ready");
    gets(map { [ "$stale: with all pages", $_->{id}, 401 ] } @all);
    is metric('lag_seconds_count{}'), 0, "$stale: what ended before has no lag";
    is status($goes_on, $_), 200, "$stale: control: others are let in" for '/branch', '/asks';

    # The feed goes.

    my ($count, $failed) = map { metric($_) } 'unchecked_total', 'fetches_total{outcome="failed"}';
    $feed->down;
    ok $nginx->wait_log(qr/revocations are stale/), "$stale: gone: logged";
    ok eventually(sub { metric('fetches_total{outcome="failed"}') > $failed + 5 }),
        "$stale: it is asked again and again";
    my $said = () = $nginx->error_log =~ /\[error\].*(?:_revocations|revocations not read)/g;
    cmp_ok $said, '<', 6, "$stale: and it is said once why it cannot be";
    gets([ "$stale: another", $goes_on, $other ], [ "$stale: one that has ended", $ended, 401 ]);
    is ready()->status, 200, "$stale: it stays ready";
    cmp_ok metric('feed_age_seconds'), '>=', 3, "$stale: the age";
    is metric('unchecked_total') > $count, $stale eq 'pass', "$stale: counted if let in";
    is http($port, 'POST', '/explain', json => { path => '/branch',
        token => jwt_token('branch', $key, session_id => $goes_on) })
        ->json->{reason}, $stale eq 'pass' ? 'verified' : 'revocations_stale', "$stale: explained";
    $feed->up;
    ok $nginx->wait_log(qr/revocations are up to date again/), "$stale: it is back";
    is status($goes_on), 200, "$stale: and so are requests";
    over($nginx);
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
becomes_ready('until all is read');
gets([ 'again', $ended, 401 ], [ 'control: others are let in', $goes_on, 200 ]);
$feed->set(hold => 1, all => [ revoked_id(uuid(500)), @all[ 1 .. $#all ] ]);
reloads('another claim', 503, set => "$LARGER claim=jti");
$feed->set(hold => 0);
becomes_ready('which is read');
gets([ 'and looked up by that', $ended, 200 ]);
is status($goes_on, '/branch', jti => $_), 401, 'control: by that, from the beginning'
    for $ended, uuid(500);
reloads('without it', 200, stale => undef, set => undef);
gets([ 'nothing is refused', $ended, 200 ]);
ok eventually(sub {
    my $count = $feed->count;
    sleep 0.3;
    $feed->count == $count;
}), 'nor is the feed asked';
over($nginx);

# What is missed is wanted soon, however seldom it is asked, and then all of it.

$feed->set(status => 503, page => 1);
revocations_conf($t, $key, set => $SET =~ s/100ms/20s/r, stale => 'pass after=100s');
$nginx = $t->start_nginx;
ok $nginx->wait_log(qr/revocations not read: status 503/, 10), 'asked in vain';
$feed->set(status => undef);
ok eventually(sub { ready()->status == 200 }, 15), 'asked again long before';
gets(map { [ 'page after page', $_->{id}, 401 ] } @all[ 1 .. 2 ]);
$feed->set(page => 1000);
over($nginx);

# A zone that is too small.

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
    over($nginx);
}

# The directives: what is refused, and why.

my %refused = (
    'no zone'   => [ qr/needs "zone=NAME:SIZE" and "uri=/, set => 'uri=/_revocations' ],
    'no uri'    => [ qr/needs "zone=NAME:SIZE" and "uri=/, set => 'zone=revocations:1m' ],
    'a zone without a size' => [ qr/invalid zone/, set => 'zone=revocations uri=/_revocations' ],
    'a tiny zone' => [ qr/zone size "64k" is invalid or below 128k/, set => $SET =~ s/1m/64k/r ],
    (map { ("$_" => [ qr/invalid parameter "$_"/, set => "$SET $_" ]) }
        'interval=1ms', 'interval=61s', 'claim=', 'what=1'),
    'no location' => [ qr/no server has an internal location for "uri=\/no"/,
        set => $SET =~ s/_revocations/no/r ],
    'a public one' => [ qr/no server has an internal location/,
        set => $SET =~ s/_revocations/branch/r ],
    'a small buffer' => [
        qr/cannot hold a page of the feed: add "subrequest_output_buffer_size 1m;"/,
        set => $SET =~ s/_revocations/small/r,
        server => 'location = /small { internal; proxy_pass http://127.0.0.1:1; }' ],
    'a cache around it' => [ qr/would give old revocations from a cache/,
        http => 'proxy_cache_path %%DIR%%/c keys_zone=c:1m;', location => 'proxy_cache c;' ],
    'the zone of the keys' => [ qr/is that of "platform_gateway_zone"/,
        set => $SET =~ s/zone=revocations/zone=platform_gateway/r ],
    'an interval beyond the bound' => [ qr/more than half of "after="/, set => "$SET interval=6s" ],
    'a claim that is a path' => [ qr/"a[.]b" reads as a path/, set => "$SET claim=a.b" ],
    'what to do' => [ qr/accepts pass and refuse/, stale => 'maybe' ],
    'a short bound' => [ qr/has no "after=TIME" of at least 1s/, stale => 'pass after=10ms' ],
    'what to do, twice' => [ qr/is duplicate/, stale => 'pass',
        http => 'platform_gateway_revocations_stale pass;' ],
    'twice' => [ qr/is duplicate/, http => "platform_gateway_revocations $SET;" ],
    'control' => [ undef, set => $SET, stale => 'refuse after=20s' ],
);
for my $name (sort keys %refused) {
    my ($why, %o) = @{ $refused{$name} };
    my $conf = revocations_conf($t, $key, name => 'check', %o);
    like join(' ', $conf->test), $why ? qr/\A0 .*$why/s : qr/\A1 /, "nginx -t: $name";
    unlink $conf->{log};
}

$t->done;
