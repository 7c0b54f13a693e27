# The assertion for the service of a location: what it says and how long; that a
# client cannot bring, get or reuse one; how its keys are replaced.  That npm's jose
# verifies it as the page has it, docs_assertion.t shows.

use Crypt::PK::ECC;
use Crypt::PK::Ed25519;
use MIME::Base64 qw(decode_base64url);
use Platform::Test;
use Platform::Test::Clock;
use Platform::Test::KeyDir;
use Platform::Test::Metrics;
use Platform::Test::Revocations;

my ($t, $key, $issuer, $upstream) = Platform::Test->gateway;
my ($first, $second, $third) = map { jwt_key("assert-$_", alg => 'ES256') } 1 .. 3;
my $edwards = jwt_key('assert-ed', alg => 'EdDSA');
my $dir = key_dir($t, 'assertion');
key_put($dir, $first, signing => 100);
key_put($dir, $edwards, published => 50);
my $feed = revocations_feed($t);
$issuer->set(body => jwks($key, $first));    # as nobody should have it
my $port = $t->port('gateway');
my $accel = $t->http_server(accel => sub ($request, @) {
    return [ 200, [ 'X-Accel-Redirect' => $request->{uri} =~ s/.*to=//r ], '' ];
});
$t->set(BRANCH => 'platform_gateway_access branch;', PUBLIC => 'platform_gateway_access public;');

my $SERVER = <<'SERVER';
root %%DIR%%/www;
platform_gateway_assertion audience=orders;
platform_gateway_leeway 30s;
pass /orders: %%BRANCH%%
pass /orders/too: %%BRANCH%% platform_gateway_methods GET;
pass /billing: %%BRANCH%% platform_gateway_assertion audience=billing ttl=300s;
pass /none: %%BRANCH%% platform_gateway_assertion off;
pass /account: platform_gateway_access account;
pass /public: %%PUBLIC%%
pass /off: platform_gateway off;
pass /shadow: platform_gateway_access system; platform_gateway_shadow on;
pass /map: %%BRANCH%%
    platform_gateway_claim_header roles X-Roles;
    platform_gateway_claim_header roles X-Roles-Too;
    platform_gateway_claim_header iss X-Issuer;
    platform_gateway_claim_header aud X-Audience;
    platform_gateway_claim_header exp X-Exp;
    platform_gateway_claim_header number X-Number;
    platform_gateway_claim_header yes X-Yes;
    platform_gateway_claim_header odd X-Odd;
    platform_gateway_claim_header deep.er X-Deep;
    platform_gateway_claim_header object X-Object;
    platform_gateway_claim_header missing X-Missing;
pass /either: platform_gateway_access branch; satisfy any; auth_basic x;
    auth_basic_user_file %%DIR%%/users;
pass /renamed: %%BRANCH%% proxy_set_header X-Gateway $http_x_platform_assertion;
pass /hidden: %%BRANCH%% platform_gateway_forward_authorization off;
pass /from/orders to accel: %%BRANCH%%
pass /from/public to accel: %%PUBLIC%%
pass /error/public: %%BRANCH%% platform_gateway_methods PUT; error_page 405 = @public;
pass /error/billing: platform_gateway_access system; error_page 403 = @billing;
pass @public: %%PUBLIC%%
pass @billing: %%BRANCH%% platform_gateway_assertion audience=billing;
location /try { %%PUBLIC%% try_files /nothing @billing; }
location /ssi { %%BRANCH%% ssi on; }
pass /asks: %%PUBLIC%% auth_request /orders;
location = /judge { %%PUBLIC%% allow 127.0.0.1; deny all; platform_gateway_forward_auth forwarded; }
location = /keys.json { %%PUBLIC%% platform_gateway_assertion_keys; }
location = /explain { %%PUBLIC%% allow 127.0.0.1; deny all; platform_gateway_explain; }
SERVER
my $HTTP = <<'HTTP';
platform_gateway_assertion_key %%DIR%%/assertion issuer=https://gateway.test;
platform_gateway_revocations zone=revocations:1m uri=/_feed interval=100ms;
server {
    listen 127.0.0.1:%%PORT_feeds%%;
    location = /_feed { internal; platform_gateway off; subrequest_output_buffer_size 1m;
        proxy_pass_request_headers off; %%TO_feed%% }
    location = /metrics { platform_gateway_metrics; }
}
HTTP
$t->write_file(users => "user:{PLAIN}word\n");
$t->write_file('www/ssi/page.html', '<!--# include virtual="/billing" --><!--# include virtual="/public" -->');

my $clock;
sub start (%o) {
    my $nginx = $t->gateway_conf($SERVER,
        main => 'worker_processes ' . ($o{workers} // 1) . ';', http => $o{http} // $HTTP);
    $clock //= Platform::Test::Clock->new($t, $nginx);
    $t->start_gateway;
}

sub signed { return metrics_scrape($t->port('feeds'), '/metrics')->{platform_gateway_assertions_total} }

# Those that the upstream got of a request.
sub given ($path, %o) {
    my $res = http($port, $o{method} // 'GET', $path, %o);
    return $res->status == 200 ? header_values($res->json, $o{as} // 'X-Platform-Assertion')
        : $res->status;
}

# The key set that services read.
sub keys_now { return { map { $_->{kid} => $_ } @{ http_get($port, '/keys.json')->json->{keys} } } }

# The claims of an assertion that the key set verifies, or why it is none.
sub claims ($token, $keys = keys_now()) {
    my ($header, $claims) = jwt_decode($token);
    my ($input, $signature) = $token =~ /^(.*)\.([^.]*)\z/;
    my $jwk = $keys->{ $header->{kid} } // return 'an unknown key';
    return "typ $header->{typ}" if $header->{typ} ne 'platform-assertion+jwt';
    return "alg $header->{alg}" if $header->{alg} ne $jwk->{alg};
    my $good = $header->{alg} eq 'ES256'
        ? Crypt::PK::ECC->new($jwk)->verify_message_rfc7518(decode_base64url($signature),
            $input, 'SHA256')
        : Crypt::PK::Ed25519->new($jwk)->verify_message(decode_base64url($signature), $input);
    return $good ? $claims : 'a wrong signature';
}

sub now () { return int($clock->now) }

start();
my %token = map { $_ => jwt_token($_ => $key) } qw(account branch system);
my @branch = (token => $token{branch});

# What it says.

my ($one, @more) = given('/orders', @branch);
is_deeply \@more, [], 'a request has one';
my %claims = %{ jwt_claims('branch') };
my $said = claims($one);
my $iat = delete $said->{iat};
cmp_ok abs($iat - now()), '<=', 2, 'signed now';
is_deeply $said, { iss => 'https://gateway.test', aud => 'orders', sub => uuid(1), exp => $iat + 120,
    map({ $_ => $claims{$_} } qw(account_id account_type session_id token_type token_scope
        workspace_id tenant_id member_id active_branch_id branch_ids roles)) },
    'issuer, audience, subject, times, and the claims of the headers, of their types';
is +(jwt_decode($one))[0]{kid}, $first->kid, 'by the key that signs';
is claims(jwt_tamper($one, 1, 100)), 'a wrong signature', 'one bit of it (control)';

my ($odd) = given('/map', token => jwt_token(branch => $key, number => 1.5, yes => JSON::PP::true,
    odd => "a\"\\\x{e9}\n", deep => { er => 'x' }, object => {}, aud => 'a'));
$said = claims($odd);
is_deeply [ @$said{qw(iss aud roles number yes odd deep.er)} ], [ 'https://gateway.test', 'orders',
    [ 'manager', 'cashier' ], 1.5, JSON::PP::true, "a\"\\\x{e9}\n", 'x' ],
    'claims of each type; none takes the place of ours';
is_deeply [ sort keys %$said ], [ qw(aud deep.er exp iat iss number odd roles sub yes) ],
    'none that makes no header';
is scalar(() = decode_base64url((split /\./, $odd)[1]) =~ /"roles":/g), 1, 'and each once';

is_deeply [ given('/renamed', @branch, as => 'X-Gateway') ], [ given('/renamed', @branch) ],
    'a variable has it, for another header';
is claims($_)->{aud}, 'orders', 'a location that hides the token' for given('/hidden', @branch);

# Whose audience: of the location that serves, whatever led there; [path, audience or
# none, more of the request].

sub audiences { return [ map { ref ? $_->{aud} : $_ } map { /\./ ? claims($_) : $_ } given(@_) ] }
my @basic = (headers => [ Authorization => 'Basic dXNlcjp3b3Jk' ]);
for my $case (
    [ '/orders', ['orders'] ], [ '/orders/too', ['orders'] ], [ '/billing', ['billing'] ],
    [ '/none', [] ], [ '/public', [] ], [ '/off', [] ], [ '/shadow', [] ],
    [ '/account', [403] ], [ '/account', ['orders'], token => $token{account} ],
    [ '/shadow', ['orders'], token => $token{system} ], [ '/either', ['orders'] ],
    [ '/either', [], token => undef, @basic ], [ '/orders', [401], token => undef ],
    [ '/from/orders?to=/public', [] ], [ '/from/orders?to=/off', [] ],
    [ '/from/orders?to=/none', [] ], [ '/from/orders?to=/billing', ['billing'] ],
    [ '/from/orders?to=@billing', ['billing'] ], [ '/from/public?to=/orders', ['orders'] ],
    [ '/error/public', [] ], [ '/error/public', ['orders'], method => 'PUT' ],
    [ '/error/billing', ['billing'] ], [ '/try', ['billing'] ],
    [ '/asks', [] ],
) {
    my ($path, $audiences, %more) = @$case;
    $accel->forget;
    is_deeply audiences($path, @branch, %more), $audiences,
        join ' ', $path, %more ? grep { defined && !/\./ && !ref } %more : (), 'for', @$audiences, '.';
    is_deeply [ map { ref claims($_) ? claims($_)->{aud} : () } map {
        header_values($_, 'X-Platform-Assertion') } $accel->requests ],
        [ $path =~ m{^/from/orders} ? 'orders' : () ], 'and the one before has its own'
        if $path =~ /from/;
}

$upstream->forget;
http_get($port, '/ssi/page.html', @branch);
is_deeply { map { my $r = $_; $r->{uri} => [ map { claims($_)->{aud} }
    header_values($r, 'X-Platform-Assertion') ] } $upstream->requests },
    { '/billing' => ['billing'], '/public' => [] }, 'subrequests: each its own';

# A client's own is removed, in each spelling and wherever; the control is a name
# beside it.

my $stolen = $one;
for my $path (qw(/orders /none /public /shadow /asks), '/from/public?to=/public') {
    my $res = http_get($port, $path, @branch, headers => [ map({ $_ => $stolen }
        qw(X-Platform-Assertion x-platform-assertion X_Platform_Assertion X-Platform_Assertion)),
        'X-Platform-Assertions' => $stolen ]);
    my @at = grep { $_->[1] =~ /^ey.*\./ && $_->[0] !~ /^Authorization/i } @{ $res->json->{headers} };
    is_deeply [ map { [ $_->[0], $_->[1] eq $stolen ? 'sent' : 'made' ] } grep {
        $_->[0] !~ /^X-Platform-Assertion\z/ || $path ne '/orders' } @at ],
        [ [ 'X-Platform-Assertions', 'sent' ] ], "$path: a client's own is removed";
}
my $off = http_get($port, '/off', headers => [ 'X-Platform-Assertion' => 'x' ]);
is_deeply [ header_values($off->json, 'X-Platform-Assertion') ], [],
    'where the gateway is off, in a server where it is on elsewhere';

# It opens nothing, even where its key is one of the issuer's.

is_deeply [ map { $_->status, $t->logged($_)->{reason} } http_get($port, '/orders', token => $one) ],
    [ 401, 'token_typ' ], 'as an access token';
for my $typ ('platform-assertion+jwt', 'application/platform-assertion+jwt', 'JWT') {
    my $token = jwt_sign(key => $first, header => { typ => $typ }, payload => jwt_claims('branch'));
    is http_get($port, '/orders', token => $token)->status, $typ eq 'JWT' ? 200 : 401,
        "an access token's claims, typ $typ";
}

# Forward-auth passes it, an empty one where there is none; an explanation names it and
# shows none.

sub judged ($uri, @o) {
    my $res = http_get($port, '/judge', headers => [ 'X-Forwarded-Method' => 'GET',
        'X-Forwarded-Uri' => $uri ], @o);
    return $res->status, map { /\./ ? claims($_)->{aud} : $_ } grep {defined}
        $res->header('X-Platform-Assertion');
}
is_deeply [ judged('/billing', @branch) ], [ 204, 'billing' ], 'forward-auth: of that location';
is_deeply [ judged($_, @branch) ], [ 204, '' ], "forward-auth: $_: empty" for qw(/none /public);
is_deeply [ judged('/account', @branch) ], [403], 'forward-auth: a refusal has none';
my $explained = http_post($port, '/explain', json => { path => '/billing',
    token => $token{branch}, headers => 'X_Platform_Assertion' });
is_deeply [ $explained->json->{stripped}, (grep {/Assertion/} @{ $explained->json->{headers} }),
    $explained->body =~ /eyJ/ ], [ ['X_Platform_Assertion'], 'X-Platform-Assertion' ],
    'an explanation names it';

# Refused tokens have none: expired, revoked, of another issuer.

is given('/orders', token => jwt_token(branch => $key, %$_)), 401, "refused: @{[ %$_ ]}"
    for { exp => now() - 60 }, { iss => 'http://other.test' };
my $ended = jwt_token(branch => $key, session_id => uuid(77));
like((given('/orders', token => $ended))[0], qr/\./, 'a session (control)');
$feed->set(body => undef, all => [ revoked_id(uuid(77)) ]);
ok eventually(sub { (given('/orders', token => $ended))[0] eq '401' }), 'refused once it ended';

# Signed once, kept for each policy, signed again at half of its life, never beyond the
# token.

sub asked ($name, $signs, @asked) {
    my $was = signed();
    my @got = map { given(@$_) } @asked;
    is signed() - $was, $signs, $name;
    return @got;
}
my $warm = jwt_token(branch => $key, exp => now() + 900);
my @got = asked('two requests sign once, whatever the location of one policy', 1,
    map { [ $_, token => $warm ] } '/orders', '/orders/too');
is $got[0], $got[1], 'and have the same one';
my ($billing) = asked('another policy, another one', 1, map { [ '/billing', token => $warm ] } 1 .. 3);
isnt $billing, $got[0], 'which is not the same';
asked('a location without', 0, [ '/none', token => $warm ]);
$clock->pass(58);
asked('before half of its life', 0, [ '/orders', token => $warm ]);
$clock->pass(4);
my ($renewed) = asked('after half of it', 1, map { [ '/orders', token => $warm ] } 1 .. 2);
cmp_ok claims($renewed)->{exp} - claims($got[0])->{exp}, '>=', 60, 'it lasts longer';
asked('one of 300 s is kept', 0, [ '/billing', token => $warm ]);
$clock->ahead(-20);
asked('a clock that was set back', 1, map { [ '/orders', token => $warm ] } 1 .. 2);
$clock->ahead(0);

my $short = jwt_token(branch => $key, exp => now() + 100);
my ($ends) = asked('a token that ends sooner', 1, map { [ '/orders', token => $short ] } 1 .. 2);
is claims($ends)->{exp}, (jwt_decode($short))[1]{exp}, 'ends its assertion';
$clock->pass(70);
asked('which is not signed again and again', 0, [ '/orders', token => $short ]);
$clock->pass(35);
my ($late) = given('/orders', token => $short);
is claims($late)->{exp}, (jwt_decode($short))[1]{exp}, 'not within the leeway either';
$clock->pass(60);
is given('/orders', token => $short), 401, 'and then there is none';

# The key set.

my $set = http_get($port, '/keys.json');
is_deeply [ $set->status, map { $set->header($_) } qw(Content-Type Cache-Control) ],
    [ 200, 'application/jwk-set+json', 'public, max-age=300' ], 'the key set';
is_deeply [ sort { $a->{kid} cmp $b->{kid} } @{ $set->json->{keys} } ],
    [ sort { $a->{kid} cmp $b->{kid} } $first->jwk, $edwards->jwk ], 'has public halves alone, of all keys';
is http($port, 'POST', '/keys.json')->status, 405, 'and is only read';

# Rotation: at each step those of the step before are still good.

my $before = $got[0];
sub follow ($name, $kid) {
    my $keys = keys_now();
    ok $t->reload, "$name: reloaded";
    my ($new) = given('/orders', token => $warm);
    is +(jwt_decode($new))[0]{kid}, $kid, "$name: who signs";
    is ref claims($before, keys_now()), 'HASH', "$name: the last one is good by the new set";
    is ref claims($new, $keys), 'HASH', "$name: the new one is good by the last set";
    $before = $new;
}
my $file = key_put($dir, $second, published => 200);
follow('a key is published', $first->kid);
rename $file, "$dir/" . $second->kid . '.signing.300.pem';
follow('it signs', $second->kid);
key_put($dir, $third, refresh => 1);
unlink "$dir/" . $first->kid . '.signing.100.pem';
follow('the old one goes', $second->kid);
is_deeply [ sort keys %{ keys_now() } ], [ sort map { $_->kid } $second, $edwards ], 'the set now';
is claims($got[0]), 'an unknown key', 'those of the old key are refused';

# A directory that is wrong changes nothing.
key_put($dir, $first, signing => 400, mode => 0644);
ok !$t->reload, 'a key that others may read: no reload';
is ref claims(given('/orders', token => $warm)), 'HASH', 'the old keys sign on';
unlink "$dir/" . $first->kid . '.signing.400.pem';
unlink "$dir/" . $third->kid . '.refresh.1.pem';

# Two workers, each with what it has signed.

start(workers => 2, http => $HTTP =~ s/issuer=\S+;/;/r);
my %who;
for (1 .. 40) {
    my ($token) = given('/orders', token => $warm);
    is claims($token)->{iss}, 'platform-gateway', 'the default issuer' if !%who;
    $who{$token}++;
}
cmp_ok keys %who, '<=', 2, 'at most one a worker';
is ref claims($_), 'HASH', 'good' for keys %who;

# A file instead of a directory, and what nginx -t refuses.

my %file = (
    es => [ $first->private_pem ], ed => [ $edwards->private_pem ],
    both => [ $first->private_pem . $first->public_pem ],
    rsa => [ $key->private_pem, qr/P-256 or Ed25519/ ], public => [ $first->public_pem, qr/P-256/ ],
    empty => [ '', qr/P-256/ ], text => [ 'secret text', qr/P-256/ ],
    two => [ $first->private_pem x 2, qr/P-256/ ], large => [ 'x' x 20000, qr/too large/ ],
    mode => [ $first->private_pem, qr/may be read by others.* 0600/, 0640 ],
    world => [ $first->private_pem, qr/may be read by others/, 0604 ],
);
sub conf_test ($path, $said, $name = $path, $location = 'platform_gateway_assertion audience=a;', $more = '') {
    my ($ok, $why) = $t->location_test(http => ($path ? "platform_gateway_assertion_key $path;" : '')
        . "platform_gateway_issuer http://i; platform_gateway_key_file $t->{dir}/keys.json;",
        location => "platform_gateway on; platform_gateway_access branch; $location"
        . "proxy_pass http://127.0.0.1:1;");
    return ok($ok, "accepted: $name") || diag $why if !$said;
    like $why, $said, "refused: $name";
    my @lines = grep {/emerg/} split /\n/, $why;
    ok !$ok && @lines == 1 && $why !~ /secret text|BEGIN/, "$name: in one line, without the key"
        or diag $why;
}
$t->write_file('keys.json', jwks($key));
for my $name (sort keys %file) {
    my ($text, $said, $mode) = @{ $file{$name} };
    my $path = $t->write_file("$name.pem", $text);
    chmod $mode // 0600, $path;
    conf_test($path, $said);
}
symlink "$t->{dir}/es.pem", "$t->{dir}/link.pem";
conf_test("$t->{dir}/link.pem", undef, 'a link that the operator names');
conf_test("$t->{dir}/nowhere", qr/No such file/);

sub directory ($name, $said, @files) {
    my $to = key_dir($t, "keys-$name");
    for (@files) {
        my ($key, $state, $since, %o) = @$_;
        key_put($to, $key, $state, $since, %o);
    }
    return conf_test($to, $said, $name);
}
directory(@$_) for [ 'one', undef, [ $first, signing => 1 ] ],
    [ 'public', undef, [ $first, signing => 1 ], [ $second, published => 1, public => 1 ] ],
    [ 'none', qr/no key that signs/ ], [ 'waiting', qr/no key that signs/, [ $first, published => 1 ] ],
    [ 'halves', qr/P-256/, [ $first, signing => 1, public => 1 ] ],
    [ 'twice', qr/has the id of another key/, [ $first, signing => 1 ], [ $first, published => 2 ] ],
    [ 'name', qr/x\.pem\.pem: is not the name of a key/, [ $first, 'x', 'pem' ] ],
    [ 'open', qr/signing\.1\.pem: may be read by others/, [ $first, signing => 1, mode => 0644 ] ],
    [ 'many', qr/one key too many/, map { [ $first->as("k$_"), signing => $_ ] } 1 .. 17 ];
my $writable = key_dir($t, 'writable');
key_put($writable, $first, signing => 1);
conf_test($writable, undef, 'mode 0700');
chmod 0770, $writable;
conf_test($writable, qr/may be written by others.* 0700/, 'mode 0770');
my $linked = key_dir($t, 'linked');
symlink "$t->{dir}/both.pem", "$linked/a.signing.1.pem";
conf_test($linked, qr/a\.signing\.1\.pem: /, 'a link in a directory');

my $good = "$t->{dir}/es.pem";
for my $case (
    [ 'audience=a ttl=60s', undef ], [ 'audience=a ttl=300s', undef ], [ 'off', undef ],
    [ 'audience=a ttl=59s', qr/"ttl" of 60s to 300s/ ], [ 'audience=a ttl=301s', qr/"ttl" of 60s/ ],
    [ 'audience=a ttl=x', qr/"ttl" of 60s/ ], [ 'audience=', qr/needs an "audience"/ ],
    [ q('audience="a"'), qr/needs an "audience"/ ], [ 'ttl=60s', qr/needs "audience=NAME"/ ],
    [ 'audience=a audience=b', qr/accepts "audience=NAME"/ ], [ 'orders', qr/accepts "audience=NAME"/ ],
    [ 'audience=a; platform_gateway_assertion audience=b', qr/is duplicate/ ],
    [ 'audience=a; platform_gateway_claim_header sub X-Platform-Assertion', qr/the gateway's own/ ],
) {
    conf_test($good, $case->[1], $case->[0], "platform_gateway_assertion $case->[0];");
}
conf_test('', qr/no key to sign with: add "platform_gateway_assertion_key"/, 'no key');
conf_test("$good issuer=a", undef, 'an issuer');
conf_test("$good $_", qr/accepts "issuer=NAME"/, $_) for 'issuer=', 'name=a', q('issuer="a"');
conf_test("$good; platform_gateway_assertion_key $good", qr/is duplicate/, 'two keys');
conf_test($good, qr/is "public", so its "platform_gateway_assertion" has no effect/, 'a public location',
    'location /here/in { platform_gateway_access public; platform_gateway_assertion audience=a;'
    . ' proxy_pass http://127.0.0.1:1; }');
conf_test($good, qr/has "platform_gateway_assertion", but the gateway is not on/, 'the gateway off',
    'location /here/in { } } location /there { platform_gateway_assertion audience=a;');

$t->allow(qr/emerg.*assertion_key/, qr/client denied|user "user"|kid_unknown/);
$t->done;
