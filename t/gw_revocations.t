# A session that its issuer says has ended: its tokens are refused from then on,
# by every worker, cached or not, wherever the guard is asked; no other is.

use Platform::Test;
use Platform::Test::Revocations;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $feed = revocations_feed($t);
my $upstream = $t->echo_upstream;
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

sub ask ($token, $path = undef) {
    return http_get($port, $path // '/branch', token => $token);
}

# The statuses that both workers give, without the cache and from it.
sub everywhere ($token, $path = undef) {
    my %seen = map { ask($token, $path)->status => 1 } 1 .. 8;
    return join ' ', sort keys %seen;
}

sub becomes ($token, $status) {
    return eventually(sub {
        ask($token)->status == $status && everywhere($token) eq $status;
    });
}

sub explained ($token, %o) {
    return http($port, 'POST', '/explain', json => {
        token => $token, path => '/branch', %o })->json;
}

my $nginx = revocations_gateway($t, $key, http => <<'HTTP', server => <<'SERVER');
limit_req_zone $platform_session_id zone=slow:1m rate=20r/m;
HTTP
location /shadow { platform_gateway_access branch; platform_gateway_shadow on; %%TO_upstream%% }
location /asks { platform_gateway_access public; auth_request /branch; empty_gif; }
location /led { platform_gateway_access public; rewrite ^ /branch last; }
location /named {
    platform_gateway_access public;
    error_page 404 = @guarded;
    return 404;
    platform_gateway_allow_return on;
}
location @guarded { platform_gateway_access branch; %%TO_upstream%% }
location /early {
    platform_gateway_access branch;
    set $early "$platform_session_id.";
    add_header X-Early $early always;
    empty_gif;
}
location /held {
    platform_gateway_access branch;
    set $early $platform_session_id;
    limit_req zone=slow burst=9;
    empty_gif;
}
location /copied { platform_gateway_access public; mirror /copy; empty_gif; }
location = /copy {
    platform_gateway_access branch;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%/of-$platform_session_id;
}
location /late {
    platform_gateway_access branch;
    %%TO_slow%%
    add_header X-Late $platform_session_id;
}
location /either {
    platform_gateway_access branch;
    satisfy any;
    allow 127.0.0.1;
    deny all;
    %%TO_upstream%%
}
SERVER

# One session of two.

my ($ended, $goes_on) = map { uuid($_) } 1, 2;
my ($token, $other) = map { token($_) } $ended, $goes_on;
my @guarded = qw(/branch /asks /led /named);
for my $path (@guarded) {
    is everywhere($_, $path), '200', "control: a session is let in, $path" for $token, $other;
}
my $was = revocations_metrics($t);
revoke(revoked_id($ended));
ok becomes($token, 401), 'it ended: refused';
is_problem(ask($token), 401, 'GATEWAY_TOKEN_INVALID', 'which');
like ask($token)->header('WWW-Authenticate'), qr/error="invalid_token"/, 'challenged';
is $t->logged(ask($token))->{reason}, 'session_revoked', 'logged';
is $t->logged(ask($token))->{accountId}, undef, 'as nobody';
is everywhere($token, $_), '401', "also at $_" for @guarded;
is everywhere($other, $_), '200', "the other goes on, $_" for @guarded;
is everywhere(token($ended)), '401', 'new tokens of the session: refused';
is everywhere(jwt_token('account', $key, session_id => $$_[0]), '/account'), $$_[1],
    "a token of another kind: $$_[1]" for [ $ended, '401' ], [ $goes_on, '200' ];

# What others see of it: as nobody where a variable reads it early, in shadow
# mode, and where another module lets it in.

for my $case ([ $token, '' ], [ $other, $goes_on ]) {
    my ($by, $who) = @$case;
    is ask($by, '/early')->header('X-Early'), "$who.", "a variable names '$who'";
    for my $path ('/shadow', '/either') {
        my $res = ask($by, $path);
        is $res->status, 200, "$path lets '$who' in";
        is_deeply [ header_values($res->json, 'X-Session-Id') ], [ $who || () ], "$path: as that";
    }
    is $t->logged(ask($by, '/shadow'))->{decision}, $who ? 'allow' : 'shadow', 'and says so';
}
my $seen;

# A copy of a request is guarded as it is.

is ask($_, '/copied')->status, 200, 'copied' for $token, $other;
ok eventually(sub {
    grep { $_->{uri} eq "/of-$goes_on" } $upstream->requests;
}), 'the other is copied';
is scalar(grep { $_->{uri} =~ m{^/of-(?!$goes_on)} } $upstream->requests), 0,
    'that of the session that ended is not';

# It ends while a limit holds its request, which a variable has read before.

my ($ends, $stays) = map { uuid($_) } 80, 81;
my %held = map {
    ask(token($_), '/held');
    my $c = Platform::Test::Http->new(port => $port);
    $c->send(http_request_bytes(GET => '/held', token => token($_)));
    ($_ => $c);
} $ends, $stays;
revoke(revoked_id($ends));
ok becomes(token($ends), 401), 'one of two that are held ends';
is $held{$ends}->read_response->status, 401, 'and is refused';
is $held{$stays}->read_response->status, 200, 'control: the other is let in';

# What was let in goes on as what it was.

my $late = uuid(3);
my $waits = Platform::Test::Http->new(port => $port);
$waits->send(http_request_bytes(GET => '/late', token => token($late)));
ok eventually(sub { $slow->count }), 'a request is on its way';
revoke(revoked_id($late));
ok becomes(token($late), 401), 'its session ends';
$slow->set(hold => 0);
$seen = $waits->read_response;
is $seen->status, 200, 'it is answered';
is $seen->header('X-Late'), $late, 'as whom it was let in';
$waits->close;

# Metrics.

my $is = revocations_metrics($t);
sub grown { return $is->{ $_[0] } - ($was->{ $_[0] } // 0) }
cmp_ok grown('refusals_total{reason="session_revoked",decision="deny"}'), '>=', 8,
    'refusals are counted';
cmp_ok grown('token_verifications_total{result="session_revoked"}'), '>=', 8,
    'as results of tokens, too';
is $is->{'revocation_entries'}, 3, 'entries';
cmp_ok $is->{'revocation_entries_max'}, '>', 20000, 'of so many in 1 MiB';
cmp_ok 1024 * 1024 / $is->{'revocation_entries_max'}, '<', 64, 'each takes less than 64 bytes';
cmp_ok $is->{'revocation_feed_age_seconds'}, '<', 5, 'age of the feed';
is $is->{'revocation_lag_seconds_count{}'}, 3, 'they were new, with a lag';
is $is->{'revocation_unchecked_total'}, 0, 'none was let in unchecked';

# Explanations.

my $says = explained($token);
is_deeply [ @$says{qw(decision reason status code)} ],
    [ 'deny', 'session_revoked', 401, 'GATEWAY_TOKEN_INVALID' ], 'explained';
is_deeply [ map {"$_->{check} $_->{result}"}
    grep { $_->{check} =~ /signature|session|context/ } @{ $says->{checks} } ],
    [ 'signature passed', 'session failed', 'context passed' ],
    'by a check of its own';
is_deeply [ @{ $says->{revocations} }{qw(entries stale)} ],
    [ 3, JSON::PP::false ], 'with the state of the feed';
is explained($other)->{decision}, 'allow', 'control: the other';

# All tokens of an account that were issued before a moment.

my $now = int(time);
my $account = uuid(50);
sub of_account ($iat, $sub = undef) {
    $sub //= $account;
    return token(uuid, iat => $iat, sub => $sub, account_id => $sub);
}
my %at = map { $_ => of_account($now - $_) } 0, 10, 20;
is everywhere($at{$_}), '200', "control: issued $_ seconds ago" for keys %at;
revoke(revoked_subject($account, $now - 10));
ok becomes($at{20}, 401), 'an older one: refused';
is everywhere($at{10}), '200', 'issued at the moment: not';
is everywhere($at{0}), '200', 'later: not';
is everywhere(of_account($now - 20, uuid(51))), '200', 'of another account: not';
for my $sub ($account, uuid(51)) {
    my $claims = JSON::PP->new->encode(jwt_claims('branch', sub => $sub,
        account_id => $sub, session_id => uuid(53)));
    is everywhere(jwt_sign(key => $key, payload => $claims =~ s/("iat":\d+)/$1e0/r)),
        $sub eq $account ? '401' : '200',
        'a time of issue that is not understood counts as the oldest';
}
revoke(revoked_subject($account, $now - 9.5));
ok becomes($at{10}, 401), 'the moment moves on';
is everywhere(of_account($now - 9.4)), '200', 'to a part of a second';
is everywhere(of_account($now - 9.6)), '401', 'exactly';
is everywhere(of_account($now - 9.5)), '200', 'to the millisecond';
is everywhere(of_account($now - 9.5004)), '401', 'before it, though within it';
revoke(revoked_subject($account, $now - 15), revoked_id(uuid(52)));
ok becomes(token(uuid(52)), 401), 'an earlier moment came';
is everywhere(of_account($now - 9.6)), '401', 'and it moves not back';
is everywhere(token($account)), '200', 'a session that is called like an account: not';

# Entries go when they are dead: with the greatest leeway, 300 seconds.

my $soon = uuid(60);
revoke(revoked_id($soon, dies_at => time - 295));
ok becomes(token($soon), 401), 'about to die: counts';
ok becomes(token($soon), 200), 'dead: it is gone';
revoke(revoked_id(uuid(61), dies_at => time - 302), revoked_id(uuid(62)));
ok becomes(token(uuid(62)), 401), 'control: one more, with';
is everywhere(token(uuid(61))), '200', 'one that is dead already: not';
ok eventually(sub { revocations_metrics($t)->{'revocation_entries'} == 6 }),
    'entries that are left';
is revocations_metrics($t)->{'revocation_lag_seconds_count{}'}, 7, 'each had its lag, once';
$t->stop($nginx);
unlink $nginx->{log};

# It ends while a request of it waits for the key of its token.

my $next = jwt_key('b');
my $issuer = $t->issuer(body => jwks($key));
$nginx = revocations_gateway($t, $key, keys => <<'KEYS', server => <<'SERVER');
platform_gateway_key_cooldown 1s;
platform_gateway_key_wait 20s;
KEYS
platform_gateway_key_location /_keys;
location = /_keys {
    internal;
    proxy_pass http://127.0.0.1:%%PORT_issuer%%/;
    proxy_pass_request_headers off;
    subrequest_output_buffer_size 64k;
}
SERVER
my %waiting = map {
    ($_ => Platform::Test::Http->new(port => $port));
} ($ends, $stays) = map { uuid($_) } 70, 71;
$issuer->set(body => jwks($key, $next), hold => 1);
my $fetches = $issuer->count;
$issuer->quiet(1.05);    # then a fetch is permitted again
$waiting{$_}->send(http_request_bytes(GET => '/branch',
    token => jwt_token('branch', $next, session_id => $_))) for $ends, $stays;
ok eventually(sub { $issuer->count > $fetches }, 10), 'two wait for a key';
revoke(revoked_id($ends), revoked_id(uuid(72)));
ok becomes(token(uuid(72)), 401), 'one ends';
$issuer->set(hold => 0);
is $waiting{$stays}->read_response->status, 200, 'the other is let in';
is $waiting{$ends}->read_response->status, 401, 'and the one that ended is not';
$t->stop($nginx);

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
for my $id (@ids[ 0, 1 ]) {
    my ($its, $other) = of_both($id);
    is everywhere($its), '401', 'revoked: of the issuer of the feed';
    is everywhere($other), '200', 'not: of another one';
}
is everywhere($_), '200', 'control: not revoked' for of_both($ids[2]);
$feed->set(issuer => undef);
revoke(revoked_id($ids[2]));
for my $token (of_both($ids[2])) {
    ok eventually(sub { everywhere($token) eq '401' }),
        'a feed that does not say whose it is: of either';
}
$feed->set(issuer => 'https://c.example.com');
revoke(revoked_id($ids[3]));
ok $nginx->wait_log(qr/revocations not read: its issuer is none that is accepted/),
    'a feed of another issuer is none';
is everywhere($_), '200', 'and revokes nothing' for of_both($ids[3]);
$feed->set(issuer => $second);
for my $token ((of_both($ids[3]))[1]) {
    ok eventually(sub { everywhere($token) eq '401' }), 'control: one of ours';
}
is everywhere((of_both($ids[3]))[0]), '200', 'but not of the first';

# A name that is accepted from now on: what the feed has said is about it, too.

$feed->set(issuer => undef);
revocations_conf($t, $key);
$nginx->reload;
ok eventually(sub { everywhere((of_both($ids[4]))[1]) eq '401' }),
    'the second name is not accepted any more';
revoke(revoked_id($ids[4]));
ok eventually(sub { everywhere((of_both($ids[4]))[0]) eq '401' }), 'one ends';
revocations_conf($t, $key, issuer => "$first $second");
$nginx->reload;
ok eventually(sub { everywhere((of_both($ids[2]))[1]) eq '401' }),
    'the second is accepted again, and what ended before stays so';
ok eventually(sub { everywhere((of_both($ids[4]))[1]) eq '401' }), 'what ended meanwhile, too';
is everywhere((of_both(uuid(85)))[1]), '200', 'control: another goes on';

$t->done;
