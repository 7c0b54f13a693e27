# platform_gateway_authentication (RFC 9470): a token whose user authenticated too
# weakly, or too long ago, is refused with what is required; each time against the
# clock, though the token was verified before.  What is told of it is in explain,
# log and metrics, and forward-auth answers alike.

use JSON::PP ();

use Platform::Test;
use Platform::Test::Clock;
use Platform::Test::Metrics;

my ($t, $key) = Platform::Test->gateway;
my $shop = jwt_key('b');
$t->write_file('shop.json', jwks($shop));
$t->write_file('www/parts/page.html', '<!--# include virtual="/strong?part" -->');

# What the documentation has, and the challenge that it promises.
my ($section) = $t->read_file($t->root . '/docs/directives.md')
    =~ /^### platform_gateway_authentication\n(.*?)^### /ms;
$t->set(EXAMPLE => ($section =~ /^```nginx\n(.*?)^```\n/ms)[0] =~ s/127\.0\.0\.1:9000/'127.0.0.1:'
    . $t->port('upstream')/ger);
my ($promised) = $section =~ /^```text\nWWW-Authenticate: (.*?)\n```\n/ms;

$t->set(BOTH => 'platform_gateway_authentication acr=aal2 max_age=5m;');
my $SERVER = <<'SERVER';
%%EXAMPLE%%
platform_gateway_access account branch;
root %%DIR%%/www;
pass /both: %%BOTH%%
    pass /both/same: platform_gateway_route same;
    pass /both/off: platform_gateway_authentication off;
    pass /both/other: platform_gateway_authentication acr=aal1;
pass /strong: platform_gateway_authentication acr=aal2,urn:x:gold;
pass /fresh: platform_gateway_authentication max_age=%%MAX_AGE%%; platform_gateway_leeway 10s;
pass /scopes: %%BOTH%% platform_gateway_require scope pay; platform_gateway_realm shop;
    platform_gateway_resource_metadata https://api.test/meta;
pass /level: %%BOTH%% platform_gateway_access branch;
pass /any: platform_gateway_access token; %%BOTH%%
pass /shadow: %%BOTH%% platform_gateway_shadow on;
pass /satisfied: %%BOTH%% satisfy any; allow all;
pass /unsatisfied: %%BOTH%% satisfy any; deny all;
pass /asks: platform_gateway_access public; auth_request /both;
location /parts/ { platform_gateway_access public; ssi on; }
location /try { platform_gateway_access public; try_files /nothing @both; }
pass @both: %%BOTH%% platform_gateway_access account;
location /rewritten { platform_gateway_access public; rewrite ^ /both last; }
pass /left: %%BOTH%% error_page 401 = /public;
pass /public: platform_gateway_access public;
pass /early: %%BOTH%% set $early $platform_account_id; add_header X-Early "$early" always;
pass /claims: %%BOTH%% platform_gateway_claim_header acr X-Acr; platform_gateway_claim_header auth_time X-Auth-Time;
location = /judge { platform_gateway_access public; platform_gateway_forward_auth forwarded;
    allow 127.0.0.1; deny all; }
location = /explain { platform_gateway_access public; platform_gateway_explain; allow 127.0.0.1;
    deny all; }
location = /metrics { platform_gateway_access public; platform_gateway_metrics; }
SERVER
my $HTTP = <<'HTTP';
platform_gateway_key_soft_age 1d;
platform_gateway_key_hard_age 2d;
platform_gateway_trust shop {
    issuer https://shop.test; audience shop-api; key_file shop.json;
    claim acr aal; claim auth_time logged_in_at; leeway 100s;
}
HTTP

# Written anew where a reload changes it.
sub configure ($max_age) {
    $t->set(MAX_AGE => $max_age);
    return $t->gateway_conf($SERVER, http => $HTTP, main => 'worker_processes 1;');
}

my $clock = Platform::Test::Clock->new($t, configure('5m'));
my $port = $t->start_gateway;

sub now () { return int $clock->now }

sub token (%claims) {
    my %c = (acr => 'aal2', auth_time => now(), exp => now() + 7200, %claims);
    return jwt_token($c{active_branch_id} ? 'branch' : 'account', $key, %c);
}

sub foreign (%claims) {
    my %c = (iss => 'https://shop.test', aud => 'shop-api', sub => 'u', exp => now() + 600, %claims);
    return jwt_sign(key => $shop, payload => { map { $_ => $c{$_} } grep { defined $c{$_} } keys %c });
}

sub ask ($path, $token, @more) { return http_get($port, $path, token => $token, headers => \@more) }

sub logged ($res) { return join ' ', @{ $t->logged($res) }{qw(decision reason)} }

# What is asked by every door: twice, so cold and cached, of another proxy, and explained.
my ($CODE, $REASON) = ('GATEWAY_AUTHENTICATION_REQUIRED', 'authentication_required');
sub judged ($name, $path, $token, $refused, %o) {
    my ($cold, $warm) = map { ask($path, $token) } 1, 2;
    my $other = ask('/judge', $token, 'X-Forwarded-Method' => 'GET', 'X-Forwarded-Uri' => $path);
    my $said = http_post($port, '/explain', json => { path => $path, token => $token })->json;
    my ($check) = grep { $_->{check} eq 'authentication' } @{ $said->{checks} };
    my $want = $refused ? [ 401, "deny $REASON" ] : [ 200, 'allow verified' ];
    is_deeply [ $_->status == 204 ? 200 : $_->status, logged($_) ], $want,
        "$name: @$want" for $cold, $warm, $other;
    is_deeply [ $said->{reason}, $check->{result} ],
        $refused ? [ $REASON, 'failed' ] : [ 'verified', $o{check} // 'passed' ], "$name: explained";
    return if !$refused;
    is_problem($cold, 401, $CODE, $name);
    is_deeply [ map { $_->header_all('WWW-Authenticate') } $cold, $warm, $other ],
        [ ($o{challenge}) x 3 ], "$name: the challenge";
    is_deeply [ @$check{qw(acr authTime)} ], $o{found}, "$name: what the token has" if $o{found};
    like $check->{detail}, $refused, "$name: and why it fails";
}

my $ERROR = 'error="insufficient_user_authentication", error_description="a stronger or more '
    . 'recent authentication is required here"';
my ($ACR, $OLD, $NONE, $FUTURE) = (qr/^the acr /, qr/longer ago/, qr/has no auth_time/, qr/future/);
my %challenge = (
    '/both' => qq(Bearer realm="platform", $ERROR, acr_values="aal2", max_age=300),
    '/strong' => qq(Bearer realm="platform", $ERROR, acr_values="aal2 urn:x:gold"),
    '/fresh' => qq(Bearer realm="platform", $ERROR, max_age=300),
    '/scopes' => qq(Bearer realm="shop", resource_metadata="https://api.test/meta", $ERROR, )
        . 'scope="pay", acr_values="aal2", max_age=300',
);
$challenge{'/any'} = $challenge{'/level'} = $challenge{'/both'};

# [name, path, claims, why it is refused or undef, [acr, auth_time] that explain shows]
my ($then, %weak) = (now(), acr => 'aal1');
for my $case (
    [ 'both hold', '/both', {} ],
    [ 'another level', '/both', { acr => 'aal1' }, $ACR, [ 'aal1', $then ] ],
    [ 'no acr', '/both', { acr => undef }, $ACR, [ undef, $then ] ],
    [ 'in another case', '/both', { acr => 'AAL2' }, $ACR ],
    [ 'longer', '/both', { acr => 'aal2x' }, $ACR ],
    [ 'shorter', '/both', { acr => 'aal' }, $ACR ],
    [ 'an object', '/both', { acr => { aal2 => 1 } }, $ACR, [ undef, $then ] ],
    [ 'an array with it', '/both', { acr => [ 'aal1', 'aal2' ] } ],
    [ 'an array without it', '/both', { acr => ['aal1'] }, $ACR ],
    [ 'no auth_time', '/both', { auth_time => undef }, $NONE, [ 'aal2', undef ] ],
    [ 'a string', '/both', { auth_time => "$then" }, $NONE, [ 'aal2', undef ] ],
    [ 'a fraction', '/both', { auth_time => $then - 9.5 }, $NONE ],
    [ 'below zero', '/both', { auth_time => -$then }, $NONE, [ 'aal2', undef ] ],
    [ 'old', '/both', { auth_time => $then - 320 }, $OLD, [ 'aal2', $then - 320 ] ],
    [ 'not yet old', '/both', { auth_time => $then - 240 } ],
    [ 'milliseconds', '/both', { auth_time => $then * 1000 }, $FUTURE ],
    [ 'weak and old', '/both', { acr => 'aal1', auth_time => 1 }, $ACR, [ 'aal1', 1 ] ],
    [ 'inherited', '/both/same', {} ],
    [ 'inherited, weak', '/both/same', \%weak, $ACR ],
    [ 'off', '/both/off', \%weak, undef ],
    [ 'another of its own', '/both/other', \%weak, undef ],
    [ 'one of two', '/strong', { acr => 'urn:x:gold', auth_time => undef } ],
    [ 'none of two', '/strong', { acr => 'urn:x' }, $ACR ],
    [ 'both as one', '/strong', { acr => 'aal2 urn:x:gold' }, $ACR ],
    [ 'any acr', '/fresh', { acr => undef } ],
    [ 'ahead within the leeway', '/fresh', { auth_time => $then + 8 } ],
    [ 'ahead beyond it', '/fresh', { auth_time => $then + 600 }, $FUTURE ],
    [ 'a scope, and weak', '/scopes', { scope => 'pay', acr => 'aal1' }, $ACR ],
    [ 'a scope', '/scopes', { scope => 'pay' } ],
    [ 'a branch token', '/level', { %{ jwt_claims('branch') } } ],
    [ 'a weak branch token', '/level', { %{ jwt_claims('branch') }, acr => 'aal1' }, $ACR ],
) {
    my ($name, $path, $claims, $refused, $found) = @$case;
    my $of = $path =~ s{(?<=\w)/.*}{}r;
    judged("$path, $name", $path, token(auth_time => $then, %$claims), $refused, found => $found,
        challenge => $challenge{$of}, check => $path eq '/both/off' ? 'skipped' : undef);
}

# Whoever lacks another claim or level hears of that first; a step-up would not help.
is_problem(ask($_->[0], token(acr => 'aal1', @{ $_->[2] })), 403, $_->[1], "$_->[0]: no step-up helps")
    for [ '/scopes', 'GATEWAY_CLAIM_REQUIRED', [ scope => 'x' ] ], [ '/level', 'GATEWAY_CONTEXT_FORBIDDEN', [] ];
is_problem(ask('/both', undef), 401, 'GATEWAY_TOKEN_MISSING', 'without a token');
is ask('/both', undef)->header('WWW-Authenticate'), 'Bearer realm="platform"', 'nothing else is said then';

# -- the example of the documentation

$challenge{'/api/payouts/'} = $promised =~ s/\s+/ /gr;
judged("documented, $_->[0]", @$_[ 1 .. 3 ], challenge => $challenge{ $_->[1] }, check => $_->[4])
    for [ 'orders', '/api/orders/', token(%weak, auth_time => 1), undef, 'skipped' ],
    [ 'a payout', '/api/payouts/', token() ], [ 'a weak payout', '/api/payouts/', token(%weak), $ACR ],
    [ 'an old payout', '/api/payouts/', token(auth_time => $then - 320), $OLD ];

# -- claims of another issuer have the places that its block says

for my $case ([ 'its claims', {} ], [ 'weak', { aal => 'aal1' }, $ACR, [ 'aal1', $then ] ],
    [ 'old', { logged_in_at => $then - 320 }, $OLD, [ 'aal2', $then - 320 ] ],
    [ 'claims by our names', { aal => undef, logged_in_at => undef, acr => 'aal2', auth_time => $then }, $ACR ],
    [ 'its leeway', { logged_in_at => $then + 60 } ],
    [ 'beyond it', { logged_in_at => $then + 600 }, $FUTURE ])
{
    my ($name, $claims, $refused, $found) = @$case;
    judged("another issuer, $name", '/any', foreign(aal => 'aal2', logged_in_at => $then, %$claims),
        $refused, found => $found, challenge => $challenge{'/any'});
}
judged('beside it, ours', '/any', token(), undef);
judged('ours by its names', '/any', token(acr => undef, aal => 'aal2'), $ACR, challenge => $challenge{'/any'});

# -- the location as explain describes it

sub described ($path) { return http_post($port, '/explain', json => { path => $path })->json->{location}{authentication} }
is_deeply [ map { described($_) } qw(/both /strong /fresh /both/off) ],
    [ { acr => ['aal2'], maxAgeSeconds => 300 }, { acr => [ 'aal2', 'urn:x:gold' ], maxAgeSeconds => undef },
        { acr => [], maxAgeSeconds => 300 }, undef ], 'explain: what is required';

is_deeply [ map { my $said = http_post($port, '/explain', json => { path => '/both', at => $then + $_,
        token => token(auth_time => $then) })->json; $said->{reason} } 0, 300, 301 ],
    [ 'verified', 'verified', $REASON ], 'explain: to the second, for another time';

# -- other ways in, by a good token (control) and by a weak one

my ($good, $weak) = (token(), token(acr => 'aal1'));
for my $case (
    [ '/asks', 'auth_request', 401 ], [ '/try', 'a named location', 401 ],
    [ '/rewritten', 'a rewrite', 401 ], [ '/unsatisfied', 'nobody else lets it in', 401 ],
    [ '/shadow', 'shadow mode', 200, "shadow $REASON", '' ],
    [ '/satisfied', 'another module lets it in', 200, 'allow satisfied', '' ],
    [ '/left', 'a page of the operator', 200, "deny $REASON", '' ],
) {
    my ($path, $name, $status, $log, $scope) = @$case;
    my $res = ask($path, $good);
    is $res->status, 200, "$name: a good token";
    is_deeply [ header_values($res->json, 'X-Token-Scope') ], ['ACCOUNT'], "$name: as whom"
        if $path ne '/asks';
    $res = ask($path, $weak);
    is $res->status, $status, "$name: a weak one, $status";
    is logged($res), $log, "$name: logged" if $log;
    is_deeply [ header_values($res->json, 'X-Token-Scope') ], [], "$name: no trusted header" if $log;
    is_deeply [ $res->header_all('WWW-Authenticate') ], [ $challenge{'/both'} ], "$name: the challenge"
        if !$log;
}
like ask('/parts/page.html', $good)->body, qr{"uri":"/strong\?part"}, 'a part of a page';
unlike ask('/parts/page.html', $weak)->body, qr{"uri"}, 'not by a weak token';

# Before ACCESS a variable names the verified subject, whatever is refused later.
is_deeply [ map { my $res = ask('/early', $_); ($res->status, $res->header('X-Early')) } $good, $weak ],
    [ 200, uuid(1), 401, uuid(1) ], 'a variable that is read before the guard';
my $res = ask('/claims', $good);
is_deeply [ map { header_values($res->json, $_) } qw(X-Acr X-Auth-Time) ], [ 'aal2', (jwt_decode($good))[1]{auth_time} ],
    'the claims in headers';

# -- a cached token grows old, and a reload judges it anew

my $token = token();
my $hits = sub { metrics_scrape($port, '/metrics')->{'platform_gateway_token_cache_total{event="hit"}'} };
is ask('/both', $token)->status, 200, 'a fresh token';
my $before = $hits->();
$clock->pass(280);
is ask($_, $token)->status, 200, "$_: after 280 seconds" for '/both', '/fresh';
$clock->pass(40);
is ask($_, $token)->status, $_ eq '/strong' ? 200 : 401, "$_: after 320" for '/both', '/fresh', '/strong';
is $hits->() - $before, 3, 'each but the first of a location was cached';
configure('10m');
ok $t->reload, 'a reload, for 10 minutes';
is_deeply [ map { ask($_, $token)->status } '/fresh', '/both' ], [ 200, 401 ], 'the same token then';
is ask('/fresh', $token)->status, 200, 'and cached';
$clock->pass(300);
like ask('/fresh', $token)->header('WWW-Authenticate'), qr/, max_age=600$/, 'until it is older than that';
is ask('/both', token())->status, 200, 'and a new one is let in';

my $metrics = metrics_scrape($port, '/metrics');
ok $metrics->{qq(platform_gateway_refusals_total{reason="$REASON",decision="$_"})}, "counted: $_" for qw(deny shadow);

# -- what nginx -t refuses

my $D = 'platform_gateway_authentication';
for my $case (
    [ 'acr=a' ], [ 'acr=a,b' ], [ q{'acr=a, b'} ], [ 'max_age=1' ], [ 'max_age=1d acr=a' ], [ 'off' ],
    [ 'acr=', qr/"$D" directive has an empty "acr"/ ], [ 'acr=,', qr/has an empty "acr"/ ],
    map({ [ $_, qr/"$D" directive has an acr that is not printable ASCII/ ] }
        q{'acr=a b'}, q{'acr=a"b'}, q{'acr=a\\\\b'}, qq{'acr=a\tb'}, "acr=\xc3\xa4", q{'acr=ok,a b'}),
    [ 'acr=a acr=b', qr/"$D" directive has "acr" twice/ ],
    [ 'max_age=1m max_age=2m', qr/has "max_age" twice/ ],
    map({ [ "max_age=$_", qr/"$D" directive needs a "max_age" of at least 1s/ ] }
        '', 0, '0s', -1, '1.5', '500ms', 'x', '99999999999999999999', '300000000000y'),
    map({ [ $_, qr/"$D" directive accepts "off", or "acr=VALUE,..."/ ] } 'on', 'aal2', 'acr', 'acr=a off', 'off off',
        'amr=otp'),
    [ "acr=a; $D acr=b", qr/"$D" directive is duplicate/ ],
    [ "off; $D acr=b", qr/"$D" directive is duplicate/ ],
    [ '', qr/invalid number of arguments/ ],
    [ 'acr=a max_age=1 off', qr/invalid number of arguments/ ],
) {
    my ($value, $said) = @$case;
    my ($ok, $why) = $t->location_test(http => 'platform_gateway_issuer a; platform_gateway_key_file shop.json;',
        location => "platform_gateway on; platform_gateway_access account; $D $value; empty_gif;");
    $said ? like($why, $said, "refused: $value") : ok($ok, "taken: $value") || diag $why;
}
for my $case (
    [ 'public', qr/is "public", so its "$D" has no effect/, location => "platform_gateway_access public; $D acr=a;" ],
    [ 'public, off', undef, location => "platform_gateway_access public; $D off;" ],
    [ 'public, of the server', undef, server => "$D acr=a;", location => 'platform_gateway_access public;' ],
    [ 'the gateway off', qr/has "$D", but the gateway is not on/, location => "$D acr=a;", gateway => '' ],
    [ 'off, the gateway off', undef, location => "$D off;", gateway => '' ],
) {
    my ($name, $said, %in) = @$case;
    my ($ok, $why) = $t->location_test(location => $in{location} . 'empty_gif;',
        server => ($in{server} // '') . ($in{gateway} // 'platform_gateway on;'));
    $said ? like($why, $said, "refused: $name") : ok($ok, "taken: $name") || diag $why;
}

$t->done;
