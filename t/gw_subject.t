# $platform_account_id and its like, $platform_claim_NAME among them, hold what
# the token says of its subject wherever they are read: in subrequests, before the
# guard, by scripts, in what nginx keeps of them.  Two users ask for the same, and the second gets the second's answer;
# where nobody is verified, no cache is read or filled.

use Platform::Test;
use Platform::Test::Clock;

my $t = Platform::Test->new;
my ($key, $late) = map { jwt_key($_) } qw(a late);
my $issuer = $t->issuer(body => jwks($key));

# Says who asks by what no gateway touches: the user's cookie.
sub user { return Platform::Test::Server::header($_[0], 'Cookie') }

sub held ($request, $server) {
    sleep 0.02 while $request->{uri} =~ /\bhold\b/ && $server->get->{hold};
}

my $upstream = $t->http_server(upstream => sub ($request, $server, @) {
    held($request, $server);
    return [ 200, $request->{uri} =~ /accel/ ? [ 'X-Accel-Redirect' => '/public/same/x' ] : [],
        '<' . user($request) . '>' ];
});

# Lets in the first user alone.
$t->http_server(judge => sub { return [ user($_[0]) eq 'user=1' ? 204 : 403, [], '' ] });

# A file of 20 bytes, in ranges.
my $ranges = $t->http_server(ranges => sub ($request, @) {
    held($request, $upstream);
    my $body = '<' . user($request) . '>' . '.' x 11;
    my ($from, $to) = Platform::Test::Server::header($request, 'Range')
        =~ /^bytes=(\d+)-(\d+)$/ or return [ 400, [], '' ];
    $to = 18 if $to > 18;
    return [ 206, [ 'Content-Range' => "bytes $from-$to/19", ETag => '"1"' ],
        substr $body, $from, $to - $from + 1 ];
});

# Locations that differ in how a user gets into the key of their cache.

sub cached ($path, $id, $more = '') {
    return "pass $path: platform_gateway_allow_cache on; proxy_cache cache;"
        . "proxy_cache_key $id:\$uri\$slice_range; $more\n";
}
my $ID = '$platform_account_id';
my ($PUBLIC, $SHADOW) = ('platform_gateway_access public;', 'platform_gateway_shadow on;');
my $locations = join '', map { cached(@$_) }
    [ '/direct/' => $ID ],
    [ '/session/' => '$platform_session_id' ],
    [ '/claim/' => '$platform_claim_tag' ],
    [ '/claim/set/' => '$by_set', 'set $by_set $platform_claim_tag;' ],
    [ '/claim/public/' => '$platform_claim_tag', $PUBLIC ],
    [ '/workspace/' => '$platform_workspace_id', 'platform_gateway_access account branch;' ],
    [ '/shadow/' => $ID, $SHADOW ],
    [ '/set/' => '$by_set', "set \$by_set $ID;" ],
    [ '/if/' => '$by_if', "set \$by_if $ID; if (\$arg_x) { set \$by_if \$by_if.x; }" ],
    [ '/map/' => '$by_map', 'limit_req zone=mapped burst=100 nodelay;' ],
    [ '/any/' => $ID, 'satisfy any; allow 127.0.0.1; deny all;' ],
    [ '/sliced/ to ranges' => $ID, 'slice 16; proxy_set_header Range $slice_range;'
        . 'proxy_cache_valid 200 206 1m;' ],
    [ '/asks/set/' => '$told', "$PUBLIC auth_request /teller; auth_request_set \$told $ID;" ],
    [ '/policy/ours/' => '$by_set', "platform_gateway_audience ours; set \$by_set $ID;"
        . 'rewrite ^/policy/ours/theirs(.*)$ /policy/theirs$1;' ],
    [ '/tier/' => '$tier', $SHADOW ],
    [ '/bypass/' => $ID, "$SHADOW proxy_cache_bypass \$arg_fresh; proxy_no_cache \$arg_secret;" ],
    [ '/public/' => $ID, $PUBLIC ],
    [ '/public/mapped/' => '$by_map', $PUBLIC ],
    [ '/public/same/' => 'all', "$PUBLIC proxy_cache_bypass \$arg_fresh; add_header X-Account $ID;"
        . "add_header X-Cache \$upstream_cache_status; proxy_set_header X-User $ID;" ],
    [ '/public/off/' => $ID, 'platform_gateway off;' ],
    [ '= /verdict to judge' => $ID, 'internal;' ];
$locations .= "location /fastcgi/ { $SHADOW platform_gateway_allow_cache on; fastcgi_cache fastcgi;
    fastcgi_cache_valid any 1m; fastcgi_cache_key $ID:\$uri; fastcgi_param REQUEST_METHOD GET;
    fastcgi_param CONTENT_LENGTH 0; fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%; }\n"
    . join '', map {"location /ssi/shadow/$_/ { $SHADOW platform_gateway_audience $_; ssi on; }\n"}
    qw(ours theirs);
$t->set(ACCOUNT => "add_header X-Account $ID;", ZONES => join '',
    map {"limit_req_zone $ID zone=by_$_:1m rate=1r/m;"} qw(account late page public));
$t->echo_fastcgi;
$t->write_file('other.json', jwks($key));

my $njs = Platform::Test::Env::nginx_module('ngx_http_js_module');
$t->write_file('test.js', <<'JS');
async function part(r) {
    const part = await r.subrequest('/direct/njs');
    r.return(part.status, part.responseBuffer);
}
function who(r) { return r.variables['platform_' + 'account_id'] || ''; }
function claim(r) { return r.variables['platform_claim_' + r.args.name] || ''; }
export default { part, who, claim };
JS
$t->set(NJS => $njs ? 'js_import test from ' . $t->dir . '/test.js; js_set $who test.who;'
    . 'js_set $claim test.claim;' : '');
$locations .= "location = /njs { $PUBLIC js_content test.part; }\n"
    . cached('/by-script/' => '$who', $SHADOW)
    . cached('/by-script/claim/' => '$who:$claim', $SHADOW) if $njs;

my @main = $njs ? (main => "load_module $njs;") : ();
my $nginx = $t->gateway_conf($locations . <<'SERVER', @main, http => <<'HTTP');
root %%DIR%%/www;
platform_gateway_access branch;
pass /teller: internal;
location /policy/theirs/ {
    platform_gateway_audience theirs;
    set $unused $platform_account_id;
    rewrite ^/policy/theirs(.*)$ /policy/ours$1;
}
pass /slow/: set $by_set $platform_account_id; limit_req zone=slow burst=10;
pass /held/: %%ACCOUNT%%
pass /held/shadow/: %%ACCOUNT%% platform_gateway_access account; platform_gateway_shadow on;
pass /held/asks/: platform_gateway_access public; auth_request /teller/hold;
    auth_request_set $told $platform_account_id;
    add_header X-Account $told;
location /handed/ { try_files /nothing /public/handed$uri; }
location = /metrics { platform_gateway_access public; platform_gateway_metrics; }
location /ssi/ { platform_gateway_access public; ssi on; }
location /ssi/guarded/ { platform_gateway_audience ours; ssi on; }
location /ssi/mapped/ { platform_gateway_access public; ssi on; limit_req zone=mapped burst=100; }
pass /asks/: platform_gateway_access public; auth_request /verdict;
pass /limited/req/: limit_req zone=by_account;
pass /limited/late/: limit_req zone=by_late;
pass /limited/claim/: limit_req zone=by_claim;
pass /claims/: platform_gateway_access branch token;
    add_header X-Claims $platform_claim_tag|$platform_claim_mixedcase|$platform_claim_twice|$platform_claim_no_1;
pass /claims/who/: platform_gateway_access branch token;
    add_header X-Claims $platform_account_id|$platform_session_id;
location /claims/handed { platform_gateway_access branch token; try_files /no /claims/public/x; }
pass /claims/public/: platform_gateway_access public; add_header X-Claims $platform_claim_tag;
pass /limited/page/: error_page 429 /public/same/limited; limit_req zone=by_page;
pass /limited/public/: platform_gateway_access public; limit_req zone=by_public;
SERVER
%%NJS%%
fastcgi_cache_path %%DIR%%/fastcgi keys_zone=fastcgi:1m;
platform_gateway_key_cooldown 1s;
platform_gateway_key_wait 20s;
proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;
proxy_cache_valid any 1m;
add_header X-Cache $upstream_cache_status;
limit_req_status 429;
%%ZONES%%
limit_req_zone $platform_account_id zone=slow:1m rate=1r/m;
limit_req_zone $platform_claim_tag zone=by_claim:1m rate=1r/m;
platform_gateway_trust other { issuer https://other.test; key_file %%DIR%%/other.json; }
limit_req_zone $by_map zone=mapped:1m rate=100r/s;
map $platform_account_id $tier { default basic; }
map $platform_account_id $by_map { default $platform_account_id; }
server {
    listen 127.0.0.1:%%PORT_early%%;
    platform_gateway on;
    platform_gateway_access public;
    if ($by_map) { set $unused 1; }
    pass /: platform_gateway_access branch; platform_gateway_allow_cache on; proxy_cache cache;
        proxy_cache_key $by_map:$uri;
}
HTTP

$t->write_file("www/$_->[0].html", qq([<!--# include virtual="$_->[1]" -->]))
    for [ 'ssi/direct' => '/direct/ssi' ], [ 'ssi/mapped/page' => '/map/ssi' ],
    [ 'ssi/set' => '/set/ssi' ], [ 'ssi/late' => '/set/part' ];
for my $whose (qw(ours theirs)) {
    $t->write_file("www/ssi/guarded/$whose.html",
        qq([<!--# include virtual="/ssi/shadow/$whose/part.html" -->]));
    $t->write_file("www/ssi/shadow/$whose/part.html",
        '<!--# echo var="platform_account_id" default="nobody" -->');
}

my $clock = Platform::Test::Clock->new($t, $nginx);
my $port = $t->start_gateway;

sub token ($n, $by = undef, $kind = undef, %change) {
    return jwt_token($kind // 'branch', $by // $key, account_id => uuid($n),
        sub => uuid($n), session_id => uuid(10 + $n), tag => "tag $n", %change);
}

sub ask ($n, $path, %o) {
    return http_get($o{port} // $port, $path, cookie => "user=$n",
        token => exists $o{token} ? $o{token} : token($n, @o{qw(key kind)}, @{ $o{claims} // [] }));
}

# Asks and does not wait; the connection.
sub begin ($n, $path, @by) {
    my $c = Platform::Test::Http->new(port => $port);
    $c->send(http_request_bytes(GET => $path, cookie => "user=$n", token => token($n, @by)));
    return $c;
}

# That answer is the user's own, and comes from there as the cache says.
sub theirs ($name, $n, $res, $cached = $res->header('X-Cache')) {
    is_deeply [ $res->status, $res->body =~ /(<user=.*?>)/g, $res->header('X-Cache') ],
        [ 200, "<user=$n>", $cached ], "$name: user $n gets what is theirs";
}

# Both ask, and both again: each gets what is theirs.  cached => the status of
# the cache at the first and the second time.
sub apart ($name, $path, %o) {
    for my $round (0, 1) {
        theirs("$name, round $round", $_, ask($_, $path, %o), $o{cached}[$round]) for 1, 2;
    }
}

my @KEPT = (cached => [ 'MISS', 'HIT' ]);
my @NOT_KEPT = (cached => [ 'BYPASS', 'BYPASS' ]);
my @NOBODY = (token => undef);

# [name, path, what it is answered with, ...]: its status, or its body or what
# the cache says of it.
sub answers {
    for my $case (@_) {
        my ($name, $n, $path, $want, @o) = @$case;
        my $res = ask($n, $path, @o);
        is $want =~ /^\d/ ? $res->status : $want =~ /^</ ? $res->body
            : $res->header('X-Cache'), $want, "$name: user $n, $path";
    }
}

sub asked { my ($uri) = @_; return scalar grep { $_->{uri} eq $uri } $upstream->requests }

apart($_, $_, @KEPT) for '/direct/main', '/session/main', '/set/main', '/if/main?x=1',
    '/map/main', '/shadow/verified', '/any/verified', '/sliced/main', '/handed/main',
    '/asks/set/x', '/claim/main', '/claim/set/main';
answers([ 'a stranger', 1, '/direct/main', 401, @NOBODY ],
    [ 'a third user', 3, '/direct/main', '<user=3>' ],
    (map { [ 'FastCGI', 1, '/fastcgi/x', $_ ] } 'MISS', 'HIT'),
    ([ 'FastCGI: nobody', 1, '/fastcgi/x', 'BYPASS', @NOBODY ]) x 2);

# Another location asks for another token.

answers(map { [ "a token for $_->[1]", 1, $_->[0], $_->[2],
    token => token(1, $key, 'branch', aud => $_->[1]) ] }
    [ '/policy/ours/', 'ours', 200 ], [ '/policy/ours/', 'theirs', 401 ],
    [ '/policy/theirs/', 'ours', 200 ], [ '/policy/theirs/', 'theirs', 401 ]);

# However often it is read, a token is looked at once.

sub looked_up {
    my ($hit, $miss) = http_get($port, '/metrics')->body
        =~ /^platform_gateway_token_cache_total\{event="(?:hit|miss)"\} (\d+)/mg;
    return $hit + $miss;
}
my $before = looked_up();
ask(1, '/if/main?x=1');
is looked_up() - $before, 1, 'read three times and guarded, looked up once';

# In subrequests of a request that nobody verified.

apart('SSI', '/ssi/direct.html');
apart('SSI, set', '/ssi/set.html');
is asked('/direct/ssi'), 2, 'SSI: each part is asked for once, and then comes from the cache';
unlike ask(1, '/ssi/direct.html', @NOBODY)->body, qr/user=/, 'SSI: a stranger gets none';
apart('SSI, a map that was empty for the page', '/ssi/mapped/page.html');
is ask(1, "/ssi/guarded/$_->[0].html", token => token(1, $key, 'branch', aud => 'ours'))->body,
    "[$_->[1]]", "SSI into a shadow location, audience $_->[0]"
    for [ ours => uuid(1) ], [ theirs => 'nobody' ];

SKIP: {
    skip 'no njs', 1 unless $njs;
    apart('njs', '/njs');
    is asked('/direct/njs'), 2, 'njs: each is asked for once';
    answers([ 'njs: a stranger', 1, '/njs', 401, @NOBODY ]);

    # By its name, so that the configuration itself never mentions it.
    apart('a script, nobody', '/by-script/x', @NOBODY, @NOT_KEPT);
    apart('a script', '/by-script/x', @KEPT);
    apart('a script, a claim', '/by-script/claim/x?name=tag', @KEPT);
    apart('a script, a claim that the configuration does not read',
        '/by-script/claim/y?name=sub', @NOT_KEPT);
}

answers([ 'lets in', 1, '/asks/x', 200 ], [ 'again', 1, '/asks/x', 200 ],
    [ 'not by that', 2, '/asks/x', 403 ], [ 'nor', 3, '/asks/x', 403 ],
    [ 'a stranger', 1, '/asks/x', 401, @NOBODY ],
    [ 'a forger', 1, '/asks/x', 401, token => jwt_tamper(token(1), 2, 9) ],
    [ 'but the first', 1, '/asks/x', 200 ]);

# Where nobody is verified, nothing is shared.

apart('no workspace', '/workspace/account', kind => 'account', @NOT_KEPT);
apart('no claim', '/claim/none', claims => [ tag => $_ ], @NOT_KEPT)
    for undef, '', {}, [ 'a', 1 ];
apart('shadow, a bad token', '/shadow/garbage', token => 'garbage', @NOT_KEPT);
apart('a map, before the location is known', '/early/x', @NOT_KEPT, port => $t->port('early'));
apart($_, $_, @NOBODY, @NOT_KEPT)
    for '/shadow/nobody', '/any/nobody', '/bypass/x?fresh=1', '/bypass/y';
apart($_, $_, @NOT_KEPT) for '/public/x', '/public/mapped/x', '/public/off/x', '/claim/public/x';
answers([ 'predicates: kept', 1, '/bypass/z', 'MISS' ],
    [ 'predicates: not read', 1, '/bypass/z?fresh=1', 'BYPASS' ],
    [ 'predicates: but there', 1, '/bypass/z', 'HIT' ],
    [ 'predicates: not kept', 1, '/bypass/0?secret=1', 'MISS' ],
    [ 'predicates: not there', 1, '/bypass/0', 'MISS' ],

    # Nor is anything left for those who share a key, as is meant.
    [ 'tier: nobody', 1, '/tier/x', 'BYPASS', @NOBODY ],
    [ 'tier: nothing of theirs is kept', 2, '/tier/x', '<user=2>' ],
    [ 'tier: of a verified one it is', 3, '/tier/x', '<user=2>' ],
    [ 'tier: but not for nobody', 1, '/tier/x', '<user=1>', @NOBODY ],

    # A read that is in no key does not keep a cache from its work.
    [ 'no key: asked for', 1, '/public/same/x', 'MISS' ],
    [ 'no key: kept', 2, '/public/same/x', 'HIT' ],
    [ 'no key: not read', 1, '/public/same/y?fresh=1', 'BYPASS' ],
    [ 'no key: but kept', 2, '/public/same/y', 'HIT' ]);

my $path = '/limited/req/';
answers((map { [ 'limit', $_, $path, 200 ] } 1, 2),
    (map { [ 'at once again', $_, $path, 429 ] } 1, 2),
    ([ 'strangers are not counted', 3, $path, 401, @NOBODY ]) x 3,
    [ 'so one gets in', 3, $path, 200 ]);
answers(([ 'nobody is counted', 1, '/limited/public/', 200 ]) x 3);
$path = '/limited/claim/';
answers([ 'limit of a claim', 1, $path, 200 ], [ 'of another value', 2, $path, 200 ],
    [ 'that value again', 3, $path, 429, claims => [ tag => 'tag 2' ] ],
    ([ 'without the claim', 4, $path, 200, claims => [ tag => undef ] ]) x 2);

# Claims, as a header would say them: [name, claims, text, path].

my $other = { iss => 'https://other.test', exp => time + 600, sub => 'x' };
for my $case (
    [ 'text', [ tag => "a b\x{20ac}%", no_1 => 'x' ], 'a%20b%E2%82%AC%25|||x' ],
    [ 'others', [ tag => [ 'a,b', 'c' ], mixedCase => 5, no_1 => JSON::PP::true ], 'a%2Cb,c|5||true' ],
    [ 'one of two that differ in case', [ twice => 'a', Twice => 'b', MIXEDCASE => '1' ], 'tag%201|1||' ],
    [ 'handed on to where nobody is verified', [], 'tag%201', '/claims/handed' ],
    [ 'of another issuer', { %$other, tag => 't', no_1 => [] }, 't|||' ],
    [ 'of another issuer, handed on', { %$other, tag => 't' }, 't', '/claims/handed' ],
    [ 'ids', [], join('|', uuid(1), uuid(11)), '/claims/who/' ],
    [ 'ids that would be headers', { %$other, sub => "a\r\nX-Roles: %b", sid => "c\x{e9} d" },
        'other/a%0D%0AX-Roles:%20%25b|other/c%C3%A9%20d', '/claims/who/' ],
    [ 'an id of ours that would be', [ map { $_ => "a\nb" } qw(sub account_id) ],
        'a%0Ab|' . uuid(11), '/claims/who/' ],
) {
    my ($name, $claims, $want, $at) = @$case;
    my $token = ref $claims eq 'HASH' ? jwt_sign(key => $key, payload => $claims)
        : token(1, undef, undef, @$claims);
    is ask(1, $at // '/claims/x', token => $token)->header('X-Claims'), $want, "claims: $name";
}

# The log says whose limit it was.

sub says ($name, $res, @want) {
    is_deeply [ $res->status, @{ $t->logged($res) }{qw(decision reason accountId sessionId)} ],
        \@want, "$name: answered and logged";
}

sub limits ($n, $path) {
    says("$path: user $n", ask($n, $path), 429, 'deny', 'rate_limited', uuid($n), uuid(10 + $n));
}
answers(map { [ 'a page', $_, '/limited/page/', 200 ] } 1, 2);
limits(@$_) for [ 1, '/limited/req/' ], [ 2, '/limited/req/' ],
    [ 1, '/limited/page/' ], [ 2, '/limited/page/' ];
says('a stranger', ask(3, '/limited/req/', @NOBODY), 401, 'deny', 'token_missing', undef, undef);

# A key that has yet to be fetched: the subject is waited for.

$clock->pass(2);    # the cooldown
$issuer->set(body => jwks($key, $late), hold => 1);
my %at = (set => '/set/late', map => '/map/late', 'set of a part' => '/ssi/late.html');
my %waits = map { my $name = $_; map { ("$_ $name" => begin($_, $at{$name}, $late)) } 1, 2 }
    sort keys %at;
my $asked = $upstream->count;
ok !$waits{'1 set'}->closed(0.2), 'a key that comes: waited for';
is $upstream->count, $asked, 'a key that comes: nobody was asked';
$issuer->set(hold => 0);
for my $of (sort keys %waits) {
    my ($n, $name) = split ' ', $of, 2;
    my @from = $name =~ /part/ ? () : 'MISS';
    theirs("a key that comes, $name", $n, $waits{$of}->read_response, @from);
    theirs("its key is there, $name", $n, ask($n, $at{$name}, key => $late), @from ? 'HIT' : ());
}
is asked('/set/part'), 2, 'a part that waited for its key is kept';

# A key that goes while a limit holds the request: it was good when the
# variable was read, and is not when the guard decides.

# Until the key is among those that the gateway has, or is not.
sub key_is ($there, $name) {
    return ok eventually(sub {
        $clock->pass(2);
        ask(1, '/direct/main', key => jwt_key('none'));
        (ask(1, '/direct/main')->status == 200) == $there;
    }), $name;
}
is ask(1, '/slow/1')->status, 200, 'the first goes through';
my $slow = begin(1, '/slow/2');
$issuer->set(body => jwks($late));
key_is(0, 'the key goes');
$clock->pass(60);    # the limit's delay
says('the one that was held', $slow->read_response, 401, 'deny', 'kid_unknown', undef, undef);

# A key that goes while an admitted request is at its upstream: what admitted
# it stays to the end, and for what is only a copy of it (a slice).

my %held = ('main' => '/held/x', 'shadow, of another kind' => '/held/shadow/x',
    'a subrequest' => '/held/asks/x', 'handed on' => '/held/accel', 'slices' => '/sliced/held');
for my $way ('a fetch', 'a reload') {
    $issuer->set(body => jwks($key));
    key_is(1, "$way: the key is there");
    my @before = map { $_->count } $upstream, $ranges;
    $upstream->set(hold => 1);
    my %c = map { ($_ => begin(1, "$held{$_}?hold")) } keys %held;
    ok eventually(sub {
        $upstream->count - $before[0] == keys(%held) - 1 && $ranges->count > $before[1];
    }), "$way: all are held";

    $issuer->set(body => jwks($late));
    my @old = $way eq 'a reload' ? $t->nginx->workers : ();
    $t->reload if @old;
    key_is(0, "$way: the key goes");
    $upstream->set(hold => 0);
    for my $name (sort keys %c) {
        my $res = $c{$name}->read_response;
        is_deeply [ $res->status, $res->header_all('X-Account') ],
            [ 200, $name eq 'slices' ? () : uuid(1) ], "$way: $name: goes on by that name";
    }
    ok eventually(sub { !grep { kill 0, $_ } @old }), "$way: all is written";
    my $asked = $ranges->count;
    is ask(1, '/sliced/held', key => $late)->status, 200, "$way: slices";
    is $ranges->count, $asked, "$way: which were all kept for user 1";
    $held{slices} .= '/again';
}

# No keys at all, in shadow mode.  Then a cold start: who waited is counted.

$issuer->set(status => 500);
$t->start_nginx;
apart('shadow, no keys', '/shadow/no-keys', @NOT_KEPT);
answers([ 'in earnest', 1, '/direct/main', 503 ]);
my $fetches = $issuer->count;
$issuer->set(status => 200, hold => 1, body => jwks($key));
$clock->pass(2);
ok eventually(sub { $issuer->count > $fetches }), 'a cold start: keys are asked for';
my @cold = map { begin($_, '/limited/late/') } 1, 2;
ok !$cold[0]->closed(0.2), 'a cold start: users wait';
$issuer->set(hold => 0);
is $_->read_response->status, 200, 'a cold start: then they get in' for @cold;
answers(map { [ 'who waited was counted', $_, '/limited/late/', 429 ] } 1, 2);

$t->done;
