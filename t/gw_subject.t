# $platform_account_id and its like hold the subject of the token wherever they
# are read: in subrequests, before the guard, in what nginx keeps of them.  In
# each case two users ask for the same, and the second gets the second's
# answer; where nobody is verified, no cache is read or filled.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;
use Time::HiRes qw(sleep);

my $t = Platform::Test->new;
my ($key, $late, $later, $latest) = map { jwt_key($_) } qw(a late later latest);
my $issuer = $t->issuer(body => jwks($key));

# Says who asks by what no gateway touches: the user's cookie.
sub user { return Platform::Test::Server::header($_[0], 'Cookie') }

sub held {
    my ($request, $server) = @_;
    sleep 0.02
        while $request->{uri} =~ /\bhold\b/ && $server->get->{hold};
    return;
}

my $upstream = $t->http_server(upstream => sub {
    my ($request, $server) = @_;
    held($request, $server);
    return [ 200, $request->{uri} =~ /accel/
            ? [ 'X-Accel-Redirect' => '/public/same/x' ] : [],
        '<' . user($request) . '>' ];
});

# Lets in the first user alone.
$t->http_server(judge => sub {
    return [ user($_[0]) eq 'user=1' ? 204 : 403, [], '' ];
});

# A file of 20 bytes, in ranges.
my $ranges = $t->http_server(ranges => sub {
    my ($request) = @_;
    held($request, $upstream);
    my $body = '<' . user($request) . '>' . '.' x 11;
    my ($from, $to) = Platform::Test::Server::header($request, 'Range')
        =~ /^bytes=(\d+)-(\d+)$/ or return [ 400, [], '' ];
    $to = 18 if $to > 18;
    return [ 206, [ 'Content-Range' => "bytes $from-$to/19", ETag => '"1"' ],
        substr $body, $from, $to - $from + 1 ];
});

my $njs = Platform::Test::Env::nginx_module('ngx_http_js_module');
$t->write_file('part.js', <<'JS');
async function part(r) {
    const part = await r.subrequest('/direct/njs');
    r.return(part.status, part.responseBuffer);
}
export default { part };
JS

$t->set(NJS => $njs ? 'js_import test from ' . $t->dir . '/part.js;' : '',
    NJS_LOCATION => $njs ? <<'LOCATION' : '');
location = /njs {
    platform_gateway_access public;
    js_content test.part;
}
LOCATION

my %speaks = (fastcgi => $t->echo_fastcgi->port, scgi => $t->echo_scgi->port,
    uwsgi => $t->echo_uwsgi->port);
$t->set(PROTOCOL_CACHES => join('', map {
    "${_}_cache_path " . $t->dir . "/$_ keys_zone=$_:1m;"
} sort keys %speaks));
$t->set(PROTOCOLS => join '', map { <<"LOCATION" } sort keys %speaks);
location /$_/ {
    platform_gateway_shadow on;
    platform_gateway_allow_cache on;
    ${_}_cache $_;
    ${_}_cache_valid any 1m;
    ${_}_cache_key \$platform_account_id:\$uri;
    ${_}_param REQUEST_METHOD \$request_method;
    ${_}_param CONTENT_LENGTH \$content_length;
    ${_}_pass 127.0.0.1:$speaks{$_};
}
LOCATION

$t->gateway_conf(<<'SERVER', main => $njs ? "load_module $njs;" : '', http => <<'HTTP');
root %%DIR%%/www;
platform_gateway_access branch;
location /direct/ {
    platform_gateway_allow_cache on;
    proxy_cache cache;
    proxy_cache_key $platform_account_id:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /session/ {
    platform_gateway_allow_cache on;
    proxy_cache cache;
    proxy_cache_key $platform_session_id:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /workspace/ {
    platform_gateway_access account branch;
    platform_gateway_allow_cache on;
    proxy_cache cache;
    proxy_cache_key $platform_workspace_id:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /shadow/ {
    platform_gateway_shadow on;
    platform_gateway_allow_cache on;
    proxy_cache cache;
    proxy_cache_key $platform_account_id:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /set/ {
    platform_gateway_allow_cache on;
    set $by_set $platform_account_id;
    proxy_cache cache;
    proxy_cache_key $by_set:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /if/ {
    platform_gateway_allow_cache on;
    set $by_if $platform_account_id;
    if ($arg_x) {
        set $by_if $by_if.x;
    }
    proxy_cache cache;
    proxy_cache_key $by_if:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /map/ {
    platform_gateway_allow_cache on;
    limit_req zone=mapped burst=100 nodelay;
    proxy_cache cache;
    proxy_cache_key $by_map:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /any/ {
    platform_gateway_allow_cache on;
    satisfy any;
    allow 127.0.0.1;
    deny all;
    proxy_cache cache;
    proxy_cache_key $platform_account_id:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /sliced/ {
    platform_gateway_allow_cache on;
    slice 16;
    proxy_set_header Range $slice_range;
    proxy_cache_valid 200 206 1m;
    proxy_cache cache;
    proxy_cache_key $platform_account_id:$uri$slice_range;
    proxy_pass http://127.0.0.1:%%PORT_ranges%%;
}
location /asks/set/ {
    platform_gateway_access public;
    auth_request /teller;
    auth_request_set $told $platform_account_id;
    proxy_cache cache;
    proxy_cache_key $told:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /teller {
    internal;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /policy/theirs/ {
    platform_gateway_audience theirs;
    set $unused $platform_account_id;
    rewrite ^/policy/theirs(.*)$ /policy/ours$1;
}
location /policy/ours/ {
    platform_gateway_audience ours;
    set $by_set $platform_account_id;
    rewrite ^/policy/ours/theirs(.*)$ /policy/theirs$1;
    platform_gateway_allow_cache on;
    proxy_cache cache;
    proxy_cache_key $by_set:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /slow/ {
    set $by_set $platform_account_id;
    limit_req zone=slow burst=10;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /held/ {
    add_header X-Account $platform_account_id;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /held/shadow/ {
    platform_gateway_shadow on;
    platform_gateway_access account;
    add_header X-Account $platform_account_id;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /held/asks/ {
    platform_gateway_access public;
    auth_request /teller/hold;
    auth_request_set $told $platform_account_id;
    add_header X-Account $told;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /handed/ {
    try_files /nothing /public/handed$uri;
}
location = /metrics {
    platform_gateway_access public;
    platform_gateway_metrics;
}
location /tier/ {
    platform_gateway_shadow on;
    platform_gateway_allow_cache on;
    proxy_cache cache;
    proxy_cache_key $tier:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /bypass/ {
    platform_gateway_shadow on;
    platform_gateway_allow_cache on;
    proxy_cache_bypass $arg_fresh;
    proxy_no_cache $arg_secret;
    proxy_cache cache;
    proxy_cache_key $platform_account_id:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /public/ {
    platform_gateway_access public;
    proxy_cache cache;
    proxy_cache_key $platform_account_id:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /public/mapped/ {
    platform_gateway_access public;
    proxy_cache cache;
    proxy_cache_key $by_map:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /public/same/ {
    platform_gateway_access public;
    proxy_cache_bypass $arg_fresh;
    add_header X-Account $platform_account_id;
    add_header X-Cache $upstream_cache_status;
    proxy_set_header X-User $platform_account_id;
    proxy_cache cache;
    proxy_cache_key $uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /public/off/ {
    platform_gateway off;
    proxy_cache cache;
    proxy_cache_key $platform_account_id:$uri;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /ssi/ {
    platform_gateway_access public;
    ssi on;
}
location /ssi/guarded/ {
    platform_gateway_audience ours;
    ssi on;
}
location /ssi/shadow/ours/ {
    platform_gateway_shadow on;
    platform_gateway_audience ours;
    ssi on;
}
location /ssi/shadow/theirs/ {
    platform_gateway_shadow on;
    platform_gateway_audience theirs;
    ssi on;
}
location /ssi/mapped/ {
    platform_gateway_access public;
    ssi on;
    limit_req zone=mapped burst=100 nodelay;
}
location /asks/ {
    platform_gateway_access public;
    auth_request /verdict;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location = /verdict {
    internal;
    platform_gateway_allow_cache on;
    proxy_cache cache;
    proxy_cache_key $platform_account_id;
    proxy_pass http://127.0.0.1:%%PORT_judge%%;
}
location /limited/req/ {
    limit_req zone=by_account;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /limited/set/ {
    set $limited $platform_account_id;
    limit_req zone=by_set;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /limited/late/ {
    limit_req zone=by_late;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /limited/page/ {
    error_page 429 /public/same/limited;
    limit_req zone=by_page;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /limited/conn/ {
    limit_conn by_conn 1;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /limited/ssi/ {
    platform_gateway_access public;
    ssi on;
}
location /limited/part/ {
    limit_req zone=by_part;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
location /limited/public/ {
    platform_gateway_access public;
    limit_req zone=by_public;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
%%NJS_LOCATION%%
%%PROTOCOLS%%
SERVER
%%NJS%%
%%PROTOCOL_CACHES%%
platform_gateway_key_cooldown 1s;
proxy_cache_path %%DIR%%/cache keys_zone=cache:1m;
proxy_cache_valid any 1m;
add_header X-Cache $upstream_cache_status;
limit_req_status 429;
limit_conn_status 429;
limit_req_zone $platform_account_id zone=by_account:1m rate=1r/m;
limit_req_zone $platform_account_id zone=by_late:1m rate=1r/m;
limit_req_zone $platform_account_id zone=by_page:1m rate=1r/m;
limit_req_zone $platform_account_id zone=by_part:1m rate=1r/m;
limit_req_zone $platform_account_id zone=by_public:1m rate=1r/m;
limit_req_zone $platform_account_id zone=slow:1m rate=4r/m;
limit_req_zone $limited zone=by_set:1m rate=1r/m;
limit_req_zone $by_map zone=mapped:1m rate=100r/s;
limit_conn_zone $platform_account_id zone=by_conn:1m;
map $platform_account_id $tier {
    default basic;
}
map $platform_account_id $by_map {
    default $platform_account_id;
}
server {
    listen 127.0.0.1:%%PORT_early%%;
    platform_gateway on;
    platform_gateway_access public;
    if ($by_map) {
        set $unused 1;
    }
    location / {
        platform_gateway_access branch;
        platform_gateway_allow_cache on;
        proxy_cache cache;
        proxy_cache_key $by_map:$uri;
        proxy_pass http://127.0.0.1:%%PORT_upstream%%;
    }
}
HTTP

$t->write_file("www/ssi/$_->[0].html",
    qq([<!--# include virtual="$_->[1]" -->]))
    for [ direct => '/direct/ssi' ], [ 'mapped/page' => '/map/ssi' ],
    [ set => '/set/ssi' ], [ latest => '/set/latest' ];
for my $whose (qw(ours theirs)) {
    $t->write_file("www/ssi/guarded/$whose.html",
        qq([<!--# include virtual="/ssi/shadow/$whose/part.html" -->]));
    $t->write_file("www/ssi/shadow/$whose/part.html",
        '<!--# echo var="platform_account_id" default="nobody" -->');
}
$t->write_file('www/limited/ssi/page.html',
    '[<!--# include virtual="/limited/part/1" -->]');

my $port = $t->start_gateway;

sub token {
    my ($n, $by, $kind, %change) = @_;

    return jwt_token($kind // 'branch', $by // $key, account_id => uuid($n),
        sub => uuid($n), session_id => uuid(10 + $n), %change);
}

sub ask {
    my ($n, $path, %o) = @_;

    my $token = exists $o{token} ? $o{token} : token($n, $o{key}, $o{kind});
    return http_get($o{port} // $port, $path, cookie => "user=$n",
        defined $token ? (token => $token) : ());
}

# Both ask, and both again: each gets what is theirs.  cached => the status of
# the cache at the first and the second time.
sub apart {
    my ($name, $path, %o) = @_;

    for my $round (1, 2) {
        for my $n (1, 2) {
            my $res = ask($n, $path, %o);
            is $res->status, 200, "$name: user $n, round $round";
            like $res->body, qr/<user=$n>/, "$name: gets user $n\'s answer";
            is $res->header('X-Cache'), $o{cached}[ $round - 1 ],
                "$name: from where" if $o{cached};
        }
    }
    return;
}

my @KEPT = (cached => [ 'MISS', 'HIT' ]);
my @NOT_KEPT = (cached => [ 'BYPASS', 'BYPASS' ]);
my @NOBODY = (token => undef);

# Where the guard has verified them.

apart('main request', '/direct/main', @KEPT);
apart('session', '/session/main', @KEPT);
apart('set', '/set/main', @KEPT);
apart('set and if', '/if/main?x=1', @KEPT);
apart('map, read by a limit', '/map/main', @KEPT);
apart('shadow, verified', '/shadow/verified', @KEPT);
apart('satisfy any, verified', '/any/verified', @KEPT);
is ask(1, '/direct/main', @NOBODY)->status, 401, 'a stranger: no answer';
is ask(3, '/direct/main')->body, '<user=3>', 'a third user: their own';

apart('slices', '/sliced/main', @KEPT);
apart('handed on to a public location', '/handed/main', @KEPT);
apart('auth_request_set', '/asks/set/x', @KEPT);
for my $proto (sort keys %speaks) {
    is ask(1, "/$proto/x", @$_[ 1 .. $#$_ ])->header('X-Cache'), $_->[0],
        "$proto: $_->[0]"
        for [ 'MISS' ], [ 'HIT' ], map { [ 'BYPASS', token => undef ] } 1, 2;
}

# Another location asks for another token.

for my $case ([ '/policy/ours/', 'ours', 200 ], [ '/policy/ours/', 'theirs', 401 ],
    [ '/policy/theirs/', 'ours', 200 ], [ '/policy/theirs/', 'theirs', 401 ]) {
    my ($path, $aud, $status) = @$case;

    is ask(1, $path, token => token(1, $key, 'branch', aud => $aud))->status,
        $status, "$path: a token for $aud";
}

# However often it is read, a token is looked at once.

sub looked_up {
    my $sum = 0;
    $sum += $_ for http_get($port, '/metrics')->body
        =~ /^platform_gateway_token_cache_total\{event="(?:hit|miss)"\} (\d+)/mg;
    return $sum;
}
my $before = looked_up();
ask(1, '/if/main?x=1');
is looked_up() - $before, 1, 'read three times and guarded, looked up once';

# In subrequests of a request that nobody verified.

apart('SSI', '/ssi/direct.html');
apart('SSI, set', '/ssi/set.html');
is scalar(grep { $_->{uri} eq '/direct/ssi' } $upstream->requests), 2,
    'SSI: each part is asked for once, and then comes from the cache';
unlike ask(1, '/ssi/direct.html', @NOBODY)->body, qr/user=/,
    'SSI: a stranger gets none';
apart('SSI, a map that was empty for the page', '/ssi/mapped/page.html');
for ([ ours => uuid(1) ], [ theirs => 'nobody' ]) {
    my ($whose, $who) = @$_;
    is ask(1, "/ssi/guarded/$whose.html",
        token => token(1, undef, undef, aud => 'ours'))->body, "[$who]",
        "SSI into a shadow location, audience $whose";
}

SKIP: {
    skip 'no njs', 11 unless $njs;
    apart('njs', '/njs');
    is scalar(grep { $_->{uri} eq '/direct/njs' } $upstream->requests), 2,
        'njs: each is asked for once';
    is ask(1, '/njs', @NOBODY)->status, 401, 'njs: a stranger gets none';
}

is ask(1, '/asks/x')->status, 200, 'auth_request: lets in the first';
is ask(1, '/asks/x')->status, 200, 'auth_request: and again';
is ask(2, '/asks/x')->status, 403, 'auth_request: not the second by that';
is ask(3, '/asks/x')->status, 403, 'auth_request: nor a third';
is ask(1, '/asks/x', @NOBODY)->status, 401, 'auth_request: nor a stranger';
is ask(1, '/asks/x', token => jwt_tamper(token(1), 2, 9))->status, 401,
    'auth_request: nor a forger';
is ask(1, '/asks/x')->status, 200, 'auth_request: but the first';

# Where nobody is verified, nothing is shared.

apart('no workspace', '/workspace/account', kind => 'account', @NOT_KEPT);
apart('shadow, no token', '/shadow/nobody', @NOBODY, @NOT_KEPT);
apart('shadow, a bad token', '/shadow/garbage', token => 'garbage',
    @NOT_KEPT);
apart('satisfy any', '/any/nobody', @NOBODY, @NOT_KEPT);
apart('public', '/public/x', @NOT_KEPT);
apart('public, map', '/public/mapped/x', @NOT_KEPT);
apart('off', '/public/off/x', @NOT_KEPT);
apart('a map, before the location is known', '/early/x', @NOT_KEPT,
    port => $t->port('early'));
apart('with predicates of its own', '/bypass/x?fresh=1', @NOBODY, @NOT_KEPT);
apart('with predicates of its own, and no other', '/bypass/y', @NOBODY,
    @NOT_KEPT);
is ask(1, '/bypass/z')->header('X-Cache'), 'MISS', 'predicates: kept';
is ask(1, '/bypass/z?fresh=1')->header('X-Cache'), 'BYPASS',
    'predicates: not read';
is ask(1, '/bypass/z')->header('X-Cache'), 'HIT', 'predicates: but there';
is ask(1, '/bypass/0?secret=1')->header('X-Cache'), 'MISS',
    'predicates: not kept';
is ask(1, '/bypass/0')->header('X-Cache'), 'MISS', 'predicates: not there';

# Nor is anything left for those who share a key, as is meant.

is ask(1, '/tier/x', @NOBODY)->header('X-Cache'), 'BYPASS', 'tier: nobody';
is ask(2, '/tier/x')->body, '<user=2>', 'tier: nothing of theirs is kept';
is ask(3, '/tier/x')->body, '<user=2>', 'tier: of a verified one it is';
is ask(1, '/tier/x', @NOBODY)->body, '<user=1>', 'tier: but not for nobody';

# A read that is in no key does not keep a cache from its work.

is ask(1, '/public/same/x')->header('X-Cache'), 'MISS', 'no key: asked for';
is ask(2, '/public/same/x')->header('X-Cache'), 'HIT', 'no key: kept';
is ask(1, '/public/same/y?fresh=1')->header('X-Cache'), 'BYPASS',
    'no key: not read';
is ask(2, '/public/same/y')->header('X-Cache'), 'HIT', 'no key: but kept';

# Limits.

for my $case ([ limit_req => '/limited/req/' ], [ 'by set' => '/limited/set/' ])
{
    my ($name, $path) = @$case;

    is ask($_, $path)->status, 200, "$name: user $_" for 1, 2;
    is ask($_, $path)->status, 429, "$name: user $_ at once again" for 1, 2;
    is ask(3, $path, @NOBODY)->status, 401, "$name: strangers are not counted"
        for 1 .. 3;
    is ask(3, $path)->status, 200, "$name: so a third user gets in";
}

# The log says whose limit it was.

sub says {
    my ($name, $res, @want) = @_;
    is_deeply [ @{ $t->logged($res) }{qw(decision reason accountId sessionId)} ],
        \@want, "$name: logged";
    return;
}

sub limits {
    my ($name, $n, $path) = @_;

    my $res = ask($n, $path);
    is $res->status, 429, "$name: user $n is limited";
    return says($name, $res, 'deny', 'rate_limited', uuid($n), uuid(10 + $n));
}
is ask($_, '/limited/page/')->status, 200, "a page: user $_" for 1, 2;
limits(@$_) for [ limit_req => 1, '/limited/req/' ],
    [ 'by set' => 2, '/limited/set/' ], [ 'a page' => 1, '/limited/page/' ],
    [ 'a page' => 2, '/limited/page/' ];
says('a stranger', ask(3, '/limited/req/', @NOBODY), 'deny', 'token_missing',
    undef, undef);
is ask(1, '/limited/public/')->status, 200, 'public: nobody is counted'
    for 1 .. 3;
for my $n (1, 2) {
    like ask($n, '/limited/ssi/page.html')->body, qr/<user=$n>/,
        "limit_req of a part: user $n";
    like ask($n, '/limited/ssi/page.html')->body, qr/429/,
        "limit_req of a part: user $n at once again";
}

$upstream->set(hold => 1);
my $held = Platform::Test::Http->new(port => $port);
$held->send(http_request_bytes(GET => '/limited/conn/?hold',
    cookie => 'user=1', token => token(1)));
ok eventually(sub { grep { $_->{uri} =~ /hold/ } $upstream->requests }),
    'limit_conn: one connection';
limits('limit_conn, a second of', 1, '/limited/conn/');
is ask(2, '/limited/conn/')->body, '<user=2>', 'limit_conn: one of user 2';
is ask(1, '/limited/conn/', @NOBODY)->status, 401,
    'limit_conn: strangers have no connection';
$upstream->set(hold => 0);
is $held->read_response->body, '<user=1>', 'limit_conn: the one goes on';

# A key that has yet to be fetched: the subject is waited for.

for my $case ([ $late, 'set', '/set/late', @KEPT ],
    [ $later, 'map', '/map/late', @KEPT ],
    [ $latest, 'set of a part', '/ssi/latest.html' ]) {
    my ($by, $name, $path, @o) = @$case;

    $issuer->set(body => jwks($key, $by), delay => 0.3);
    select undef, undef, undef, 1.1 * $t->scale;
    apart("a key that comes, $name", $path, key => $by, @o);
}

is scalar(grep { $_->{uri} eq '/set/latest' } $upstream->requests), 2,
    'a part that waited for its key is kept';

# A key that goes while a limit holds the request: it was good when the
# variable was read, and is not when the guard decides.

is ask(1, '/slow/1')->status, 200, 'the first goes through';
my $slow = Platform::Test::Http->new(port => $port);
$slow->send(http_request_bytes(GET => '/slow/2', token => token(1)));
$issuer->set(body => jwks($late), delay => 0);
ok eventually(sub {
    ask(1, '/direct/main', key => jwt_key('none'));
    ask(1, '/direct/main')->status != 200;
}), 'the key goes';
my $refused = $slow->read_response;
is $refused->status, 401, 'the one that was held is refused';
says('the one that was held', $refused, 'deny', 'kid_unknown', undef, undef);

# A key that goes while an admitted request is at its upstream: what admitted
# it stays to the end, and for what is only a copy of it (a slice).

my %held = (
    'main'          => '/held/x',
    'shadow, of another kind' => '/held/shadow/x',
    'a subrequest'  => '/held/asks/x',
    'handed on'     => '/held/accel',
    'slices'        => '/sliced/held',
);
for my $way ('a fetch', 'a reload') {
    $issuer->set(body => jwks($key));
    ok eventually(sub {
        ask(1, '/direct/main', key => jwt_key('none'));
        ask(1, '/direct/main')->status == 200;
    }), "$way: the key is there";
    my @before = map { scalar $_->requests } $upstream, $ranges;
    $upstream->set(hold => 1);
    my %c = map {
        my $c = Platform::Test::Http->new(port => $port);
        $c->send(http_request_bytes(GET => $held{$_} . '?hold',
            token => token(1)));
        $_ => $c;
    } keys %held;
    ok eventually(sub {
        $upstream->requests - $before[0] == keys(%held) - 1
            && $ranges->requests > $before[1];
    }), "$way: all are held";

    $issuer->set(body => jwks($late));
    my @old = $way eq 'a reload' ? $t->nginx->workers : ();
    $t->reload if @old;
    ok eventually(sub {
        ask(1, '/direct/main', key => jwt_key('none'));
        ask(1, '/direct/main')->status == 401;
    }), "$way: the key goes";
    $upstream->set(hold => 0);
    for my $name (sort keys %c) {
        my $res = $c{$name}->read_response;
        is $res->status, 200, "$way: $name: goes on";
        is $res->header('X-Account'), uuid(1), "$way: $name: by that name"
            unless $name eq 'slices';
    }
    ok eventually(sub { !grep { kill 0, $_ } @old }), "$way: all is written";
    my $asked = $ranges->requests;
    is ask(1, '/sliced/held', key => $late)->status, 200, "$way: slices";
    is $ranges->requests, $asked, "$way: which were all kept for user 1";
    $held{slices} .= '/again';
}

# No keys at all, in shadow mode.

$t->stop($t->nginx);
$issuer->set(status => 500, delay => 0);
$t->start_nginx;
apart('shadow, no keys', '/shadow/no-keys', @NOT_KEPT);
is ask(1, '/direct/main')->status, 503, 'in earnest: no answer without keys';

# A cold start: who waited is counted.

$issuer->set(status => 200, delay => 0.3, body => jwks($key));
select undef, undef, undef, 1.1 * $t->scale;
is ask($_, '/limited/late/')->status, 200, "cold start: user $_" for 1, 2;
is ask($_, '/limited/late/')->status, 429, "cold start: user $_ was counted"
    for 1, 2;

$t->done;
