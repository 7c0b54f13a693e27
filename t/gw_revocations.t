# A session that its issuer says has ended: its tokens are refused from then on,
# by every worker, cached or not, wherever the guard is asked; no other is.

use Platform::Test;
use Platform::Test::Clock;
use Platform::Test::Revocations;

my ($t, $key, $issuer) = Platform::Test->gateway;
my $feed = revocations_feed($t);
my $slow = $t->issuer(name => 'slow', hold => 1);
my $port = $t->port('gateway');
my @all;

sub revoke {
    push @all, @_;
    $feed->set(all => \@all);
}

sub token ($session, %claims) {
    return jwt_token('branch', $key, session_id => $session, %claims);
}

sub ask ($token, $path = '/branch') { return http_get($port, $path, token => $token) }

# The statuses that both workers give, without the cache and from it.
sub everywhere ($token, $path = '/branch') {
    my %seen = map { ask($token, $path)->status => 1 } 1 .. 8;
    return join ' ', sort keys %seen;
}

# Until it is so everywhere.
sub becomes ($token, $status, $name) {
    ok eventually(sub { ask($token)->status == $status && everywhere($token) eq $status }), $name
        or die "it does not\n";
}

# [name, token, status, path]: each gets that everywhere.
sub gets {
    is everywhere(@$_[ 1, 3 .. $#$_ ]), $_->[2], "$_->[0]: @$_[ 2 .. $#$_ ]" for @_;
}

sub explained ($token) {
    return http_post($port, '/explain', json => { token => $token, path => '/branch' })->json;
}

$t->set(BRANCH => 'platform_gateway_access branch;');
my $nginx = revocations_conf($t, $key, stale => 'pass after=5m', http => <<'HTTP', server => <<'SERVER');
limit_req_zone $platform_session_id zone=slow:1m rate=1r/m;
HTTP
location /shadow { %%BRANCH%% platform_gateway_shadow on; %%TO_upstream%% }
location /asks { auth_request /branch; empty_gif; }
location /led { rewrite ^ /branch last; }
location /named { error_page 404 = @guarded; return 404; platform_gateway_allow_return on; }
location @guarded { %%BRANCH%% %%TO_upstream%% }
location /early {
    %%BRANCH%%
    set $early "$platform_session_id.";
    add_header X-Early $early always;
    empty_gif;
}
location /held { %%BRANCH%% set $x $platform_session_id; limit_req zone=slow burst=9; empty_gif; }
location /late { %%BRANCH%% %%TO_slow%% add_header X-Late $platform_session_id; }
location /either { %%BRANCH%% satisfy any; allow 127.0.0.1; deny all; %%TO_upstream%% }
SERVER
my $clock = Platform::Test::Clock->new($t, $nginx);
$t->start_gateway;

my ($ended, $goes_on) = map { uuid($_) } 1, 2;
my ($token, $other) = map { token($_) } $ended, $goes_on;
my @guarded = qw(/branch /asks /led /named);
gets(map { my $path = $_; map { [ 'control', $_, 200, $path ] } $token, $other } @guarded);
my $was = revocations_metrics($t);
revoke(revoked_id($ended));
becomes($token, 401, 'it ended: refused');
my $res = ask($token);
is_problem($res, 401, 'GATEWAY_TOKEN_INVALID', 'which');
like $res->header('WWW-Authenticate'), qr/error="invalid_token"/, 'challenged';
is_deeply [ @{ $t->logged($res) }{qw(reason accountId)} ], [ 'session_revoked', undef ],
    'logged, as nobody';
gets((map { [ 'it', $token, 401, $_ ], [ 'the other', $other, 200, $_ ] } @guarded),
    [ 'new tokens of the session', token($ended), 401 ],
    map { [ 'a token of another kind', jwt_token('account', $key, session_id => $_->[0]), $_->[1],
        '/account' ] } [ $ended, 401 ], [ $goes_on, 200 ]);

# What others see of it: as nobody where a variable reads it early, in shadow
# mode, and where another module lets it in.

for my $case ([ $token, '' ], [ $other, $goes_on ]) {
    my ($by, $who) = @$case;
    is ask($by, '/early')->header('X-Early'), "$who.", "a variable names '$who'";
    for my $path ('/shadow', '/either') {
        my $res = ask($by, $path);
        is_deeply [ $res->status, header_values($res->json, 'X-Session-Id') ], [ 200, $who || () ],
            "$path lets '$who' in, as that";
    }
    is $t->logged(ask($by, '/shadow'))->{decision}, $who ? 'allow' : 'shadow', 'and says so';
}

# It ends while a limit holds its request, which a variable has read before.

sub begin ($session, $path, $by = $key) {
    my $c = Platform::Test::Http->new(port => $port);
    $c->send(http_request_bytes(GET => $path,
        token => jwt_token('branch', $by, session_id => $session)));
    return $c;
}
my ($ends, $stays) = map { uuid($_) } 80, 81;
my %held = map { ask(token($_), '/held'); ($_ => begin($_, '/held')) } $ends, $stays;
revoke(revoked_id($ends));
becomes(token($ends), 401, 'one of two that are held ends');
$clock->pass(60);
is $held{$ends}->read_response->status, 401, 'and is refused';
is $held{$stays}->read_response->status, 200, 'control: the other is let in';

# What was let in goes on as what it was.

my $late = uuid(3);
my $waits = begin($late, '/late');
ok eventually(sub { $slow->count }), 'a request is on its way';
revoke(revoked_id($late));
becomes(token($late), 401, 'its session ends');
$slow->set(hold => 0);
$res = $waits->read_response;
is_deeply [ $res->status, $res->header('X-Late') ], [ 200, $late ],
    'it is answered, as whom it was let in';

my $is = revocations_metrics($t);
cmp_ok $is->{$_} - ($was->{$_} // 0), '>=', 8, "$_ counts"
    for 'refusals_total{reason="session_revoked",decision="deny"}',
    'token_verifications_total{result="session_revoked"}';
is_deeply [ map { $is->{"revocation_$_"} } 'entries', 'lag_seconds_count', 'unchecked_total' ],
    [ 3, 3, 0 ], 'entries, each new, with a lag, and none let in unchecked';
cmp_ok 1024 * 1024 / $is->{'revocation_entries_max'}, '<', 52, 'each takes less than 52 bytes';
cmp_ok $is->{'revocation_feed_age_seconds'}, '<', 5, 'age of the feed';

my $says = explained($token);
is_deeply [ @$says{qw(decision reason status code)} ],
    [ 'deny', 'session_revoked', 401, 'GATEWAY_TOKEN_INVALID' ], 'explained';
is_deeply [ map {"$_->{check} $_->{result}"}
    grep { $_->{check} =~ /signature|session|context/ } @{ $says->{checks} } ],
    [ 'signature passed', 'session failed', 'context passed' ], 'by a check of its own';
is explained($other)->{decision}, 'allow', 'control: the other';

# All tokens of an account that were issued before a moment.

my $now = int(time);
my $account = uuid(50);
sub of_account ($iat, $sub = $account) {
    return token(uuid, iat => $iat, sub => $sub, account_id => $sub);
}
my %at = map { $_ => of_account($now - $_) } 0, 10, 20;
gets(map { [ "control: issued $_ seconds ago", $at{$_}, 200 ] } keys %at);
revoke(revoked_subject($account, $now - 10));
becomes($at{20}, 401, 'an older one: refused');
gets([ 'issued at the moment', $at{10}, 200 ], [ 'later', $at{0}, 200 ],
    [ 'of another account', of_account($now - 20, uuid(51)), 200 ],
    map { [ 'a time of issue that is not understood counts as the oldest',
        jwt_sign(key => $key, payload => JSON::PP->new->encode(jwt_claims('branch', sub => $_,
            account_id => $_, session_id => uuid(53))) =~ s/("iat":\d+)/$1e0/r),
        $_ eq $account ? 401 : 200 ] } $account, uuid(51));
revoke(revoked_subject($account, $now - 9.5));
becomes($at{10}, 401, 'the moment moves on');
gets([ 'to a part of a second', of_account($now - 9.4), 200 ],
    [ 'to the millisecond', of_account($now - 9.5), 200 ],
    [ 'before it, though within it', of_account($now - 9.5004), 401 ]);
revoke(revoked_subject($account, $now - 15), revoked_id(uuid(52)));
becomes(token(uuid(52)), 401, 'an earlier moment came');
gets([ 'it moves not back', of_account($now - 9.6), 401 ],
    [ 'a session that is called like an account', token($account), 200 ]);

# Entries go when they are dead: with the greatest leeway, 300 seconds.

my $soon = uuid(60);
revoke(revoked_id($soon, dies_at => int($clock->now) - 240));
becomes(token($soon), 401, 'about to die: counts');
$clock->pass(61);
becomes(token($soon), 200, 'dead: it is gone');
revoke(revoked_id(uuid(61), dies_at => int($clock->now) - 302), revoked_id(uuid(62)));
becomes(token(uuid(62)), 401, 'control: one more, with');
gets([ 'one that is dead already', token(uuid(61)), 200 ]);
ok eventually(sub { revocations_metrics($t)->{'revocation_entries'} == 6 }),
    'entries that are left';
is revocations_metrics($t)->{'revocation_lag_seconds_count'}, 7, 'each had its lag, once';

# It ends while a request of it waits for the key of its token.

my $next = jwt_key('b');
$nginx = revocations_gateway($t, $key, keys => <<'KEYS', server => <<'SERVER');
platform_gateway_key_cooldown 1s;
platform_gateway_key_wait 20s;
KEYS
platform_gateway_key_location /_keys;
location = /_keys { %%FETCHED%% %%TO_issuer%% subrequest_output_buffer_size 64k; }
SERVER
($ends, $stays) = map { uuid($_) } 70, 71;
$issuer->set(body => jwks($key, $next), hold => 1);
my $fetches = $issuer->count;
$clock->pass(2);    # the cooldown
my %waiting = map { $_ => begin($_, '/branch', $next) } $ends, $stays;
ok eventually(sub { $issuer->count > $fetches }, 10), 'two wait for a key';
revoke(revoked_id($ends), revoked_id(uuid(72)));
becomes(token(uuid(72)), 401, 'one ends');
$issuer->set(hold => 0);
is $waiting{$stays}->read_response->status, 200, 'the other is let in';
is $waiting{$ends}->read_response->status, 401, 'and the one that ended is not';

# Two issuers with the same keys, and the feed of the first: it says nothing
# about the other's accounts and sessions, which may have the same ids.

my $first = $Platform::Test::Jwt::ISSUER;
my $second = 'https://b.example.com';
sub of_both ($id) {
    return map { jwt_token('branch', $key, iss => $_, session_id => $id,
        sub => $id, account_id => $id, iat => time - 60) } $first, $second;
}
my @ids = map { uuid($_) } 80 .. 84;
@all = (revoked_id($ids[0]), revoked_subject($ids[1], $now));
$feed->set(all => \@all, issuer => $first);
$nginx = revocations_gateway($t, $key, issuer => "$first $second");
my @what = ('of the issuer of the feed', 'of another one');
for my $case ([ 0, 401, 200 ], [ 1, 401, 200 ], [ 2, 200, 200 ]) {
    my ($n, @want) = @$case;
    my @both = of_both($ids[$n]);
    gets(map { [ "$what[$_], id $n", $both[$_], $want[$_] ] } 0, 1);
}
$feed->set(issuer => undef);
revoke(revoked_id($ids[2]));
becomes($_, 401, 'a feed that does not say whose it is: of either') for of_both($ids[2]);
$feed->set(issuer => 'https://c.example.com');
revoke(revoked_id($ids[3]));
ok $nginx->wait_log(qr/revocations not read: its issuer is not accepted/),
    'a feed of another issuer is refused';
gets(map { [ 'and revokes nothing', $_, 200 ] } of_both($ids[3]));
$feed->set(issuer => $second);
becomes((of_both($ids[3]))[1], 401, 'control: one of ours');
gets([ 'but not of the first', (of_both($ids[3]))[0], 200 ]);

# A name that is accepted from now on: what the feed has said is about it, too.

$feed->set(issuer => undef);
revocations_conf($t, $key);
$nginx->reload;
becomes((of_both($ids[4]))[1], 401, 'the second name is not accepted any more');
revoke(revoked_id($ids[4]));
becomes((of_both($ids[4]))[0], 401, 'one ends');
revocations_conf($t, $key, issuer => "$first $second");
$nginx->reload;
becomes((of_both($ids[$_]))[1], 401, 'it is accepted again, and what ended stays so') for 2, 4;
gets([ 'control: another goes on', (of_both(uuid(85)))[1], 200 ]);

$t->done;
