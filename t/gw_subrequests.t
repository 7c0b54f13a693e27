# Subrequests: nginx skips the ACCESS phase for them, the guard does not.  And
# what is injected for one request is not seen by another.

use Platform::Test;

my ($t, $key, $issuer, $upstream) = Platform::Test->gateway;
my $late = jwt_key('late');

$t->gateway_conf(<<'SERVER', http => 'platform_gateway_key_cooldown 1s;');
root %%DIR%%/www;
location /ssi/ { platform_gateway_access public; ssi on; }
location /ssi/guarded/ { platform_gateway_access account branch; ssi on; }
pass /branch: platform_gateway_access branch;
pass /renamed: platform_gateway_access branch; platform_gateway_claim_header roles X-Their-Roles;
pass /public: platform_gateway_access public;
pass /off: platform_gateway off;
location /level/ { }
pass /mirrored: platform_gateway_access branch;
    mirror /mirror/public; mirror /mirror/branch; mirror /mirror/system;
pass /mirrored/public: platform_gateway_access public; mirror /mirror/branch; mirror /mirror/system;
pass /mirror/public: internal; platform_gateway_access public;
pass /mirror/branch: internal; platform_gateway_access branch;
pass /mirror/system: internal; platform_gateway_access system;
pass /mirrored/nowhere: platform_gateway_access branch; mirror /nowhere;
pass /mirrored/explain: platform_gateway_access branch; mirror /explain;
pass /mirrored/large: platform_gateway_access branch; mirror /large;
pass /mirrored/ready: platform_gateway_access public; mirror /ready;
location /nowhere { platform_gateway_access public; platform_gateway_route_not_found; }
location /explain { internal; platform_gateway_access public; platform_gateway_explain; }
location /large { platform_gateway_access public; fastcgi_pass 127.0.0.1:%%PORT_upstream%%; }
location = /metrics { platform_gateway_access public; platform_gateway_metrics; }
pass /asks: platform_gateway_access public; auth_request /mirror/branch;
pass /asks/too: platform_gateway_access account branch; auth_request /mirror/public;
SERVER

my %page = ('ssi/branch.html' => ['/branch?1'], 'ssi/level.html' => ['/level/x.html'],
    'level/x.html' => [], 'ssi/nested.html' => ['/ssi/branch.html'],
    'ssi/mixed.html' => [ '/branch?1', '/public?2', '/off?3', '/renamed?4', '/branch?5' ],
    'ssi/guarded/mixed.html' => [ '/public?1', '/branch?2', '/off?3' ],
    'ssi/outer.html' => ['/ssi/guarded/mixed.html'],
    'ssi/many.html' => [ map {"/branch?$_"} 1 .. 60 ]);
$t->write_file("www/$_", join '', '[start]',
    (map {qq([<!--# include virtual="$_" -->])} @{ $page{$_} }), '[end]') for keys %page;

my $port = $t->start_gateway;

my %token = map { $_ => jwt_token($_ => $key) } qw(account branch);
my @branch = (token => $token{branch});

# A request, and what it made the upstream see: its roles by URI, of as many as
# are expected.
my (%seen, %roles);
sub ask ($path, $expect, @o) {
    $upstream->forget;
    my $res = http_get($port, $path, @o);
    eventually(sub { $upstream->count >= $expect });
    sleep 0.1 if $path =~ /mirrored/;    # for one that should not come
    %seen = map { $_->{uri} => $_ } $upstream->requests;
    %roles = map { $_ => [ header_values($seen{$_}, 'X-Roles') ] } keys %seen;
    return $res;
}

# SSI from a public page into guarded locations.

for my $case ([ 'no token', '/ssi/branch.html', 401 ],
    [ 'a part of a part, no token', '/ssi/nested.html', 401 ],
    [ 'a token of another context', '/ssi/branch.html', 403, token => $token{account} ],
    [ 'a part without an access level', '/ssi/level.html', 404, @branch ])
{
    my ($name, $path, $status, @o) = @$case;
    my $res = ask($path, 0, @o);
    is_deeply [ $res->status, $res->header('WWW-Authenticate'), %seen ], [ 200, undef ],
        "$name: the page itself is public, the part is not fetched";
    like $res->body, qr/^\[start\].*$status.*\[end\]$/s, "$name: $status in its place";
}

# What each part of a page got; what was injected for a guarded page, or for a
# part that is one, stays with it.

my ($BRANCH, $NONE) = (['manager,cashier'], []);
for my $case ([ '/ssi/branch.html', '/branch?1' => $BRANCH ],
    [ '/ssi/nested.html', '/branch?1' => $BRANCH ],
    [ '/ssi/many.html', map { ("/branch?$_" => $BRANCH) } 1 .. 60 ],
    [ '/ssi/mixed.html', '/branch?1' => $BRANCH, '/public?2' => $NONE, '/off?3' => $NONE,
        '/renamed?4' => $NONE, '/branch?5' => $BRANCH ],
    map { [ $_, '/public?1' => $NONE, '/branch?2' => $BRANCH, '/off?3' => $NONE ] }
        '/ssi/guarded/mixed.html', '/ssi/outer.html')
{
    my ($path, %want) = @$case;
    my $res = ask($path, 0, @branch, headers => [ 'X-Roles' => 'spoofed', 'X-Kept' => 'yes' ]);
    is $res->status, 200, "$path: a token";
    is_deeply \%roles, \%want, "$path: roles of each part";
    is_deeply { map { join(' ', header_values($_, 'X-Kept'), header_values($_, 'X-Request-Id'))
        => 1 } values %seen }, { 'yes ' . $res->header('X-Request-Id') => 1 },
        "$path: other headers reach all, with one request id";
    is_deeply [ header_values($seen{$_}, 'X-Their-Roles') ], /renamed/ ? $BRANCH : $NONE,
        "$_: another map has its own" for grep {/renamed|branch\?5/} keys %seen;
}
is http_get($port, '/ssi/guarded/mixed.html')->status, 401, 'a guarded page, no token';

is ask('/mirrored', 3, @branch)->status, 200, 'mirrored';
is_deeply \%roles,
    { '/mirrored' => $BRANCH, '/mirror/branch' => $BRANCH, '/mirror/public' => $NONE },
    'to where the token opens, with roles where that is guarded';
is ask('/mirrored/public', 1)->status, 200, 'no token: the request does not mind';
is_deeply [ keys %seen ], ['/mirrored/public'], 'no token: not mirrored to guarded locations';

# What a mirror is answered with is not what the request is answered with.

sub refused {
    return join "\n", sort grep { /^platform_gateway_refusals_total/ && !/ 0$/ }
        split /\n/, http_get($port, '/metrics')->body;
}

for my $case ([ 'an unknown path', 'nowhere' ],
    [ 'explanations, no question', 'explain', body => '?' ],
    [ 'too large for a record', 'large',
        headers => [ 'Content-Type' => 'x' x 23_000,
            map { ("X-Filler-$_" => 'x' x 1000) } 1 .. 20 ] ]) {
    my ($name, $path, %o) = @$case;

    my $before = refused();
    my $res = http_post($port, "/mirrored/$path", @branch, %o);
    is_deeply [ $res->status, @{ $t->logged($res) }{qw(decision reason access)} ],
        [qw(200 allow verified branch)], "a mirror to $name: answered, and logged as that";
    is refused(), $before, "a mirror to $name: nothing counted as refused";
}
is_problem(http_get($port, '/nowhere'), 404, 'GATEWAY_ROUTE_NOT_FOUND', 'the path (control)');
like refused(), qr/route_not_found/, 'is counted';

is_deeply [ map { http_get($port, '/asks', token => $_)->status }
    $token{branch}, undef, $token{account} ], [ 200, 401, 403 ],
    'auth_request to a guarded location: a token, none, another context';
is http_get($port, '/asks')->header('WWW-Authenticate'), 'Bearer realm="platform"',
    'and the challenge is passed on';
is ask('/asks/too', 2, @branch)->status, 200, 'auth_request of a guarded location';
is_deeply \%roles, { '/mirror/public' => $NONE, '/asks/too' => $BRANCH },
    'asks without trusted headers, and goes on with them';

$issuer->set(body => jwks($key, $late), delay => 0.3);
$issuer->quiet(1.05);
my $res = ask('/ssi/branch.html', 0, token => jwt_token(branch => $late));
is_deeply [ $res->status, %roles ], [ 200, '/branch?1' => $BRANCH ], 'a part waits for its key';
$t->logged($res);
is scalar(grep { $_->{requestId} eq $res->header('X-Request-Id') } $t->nginx->access_lines), 1,
    'in one line a request, not a part';

$issuer->set(status => 500);
$t->start_nginx;
is_problem(http_get($port, '/ready'), 503, 'GATEWAY_KEYS_UNAVAILABLE', 'not ready (control)');
$res = http_get($port, '/mirrored/ready');
is_deeply [ $res->status, $t->logged($res)->{reason} ], [ 200, 'public' ],
    'a mirror to readiness: answered';

$t->done;
