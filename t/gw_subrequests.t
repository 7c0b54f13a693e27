# Subrequests: nginx skips the ACCESS phase for them, the guard does not.  And
# what is injected for one request is not seen by another.

use Platform::Test;

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $late = jwt_key('late');
my $issuer = $t->issuer(body => jwks($key));
my $upstream = $t->echo_upstream;

$t->gateway_conf(<<'SERVER', http => 'platform_gateway_key_cooldown 1s;');
root %%DIR%%/www;
location /ssi/ { platform_gateway_access public; ssi on; }
location /ssi/guarded/ { platform_gateway_access account branch; ssi on; }
location /branch { platform_gateway_access branch; %%TO_upstream%% }
location /renamed {
    platform_gateway_access branch;
    platform_gateway_claim_header roles X-Their-Roles;
    %%TO_upstream%%
}
location /public { platform_gateway_access public; %%TO_upstream%% }
location /off { platform_gateway off; %%TO_upstream%% }
location /level/ { }
location /mirrored {
    platform_gateway_access branch;
    mirror /mirror/public;
    mirror /mirror/branch;
    mirror /mirror/system;
    %%TO_upstream%%
}
location /mirrored/public {
    platform_gateway_access public;
    mirror /mirror/branch;
    mirror /mirror/system;
    %%TO_upstream%%
}
location /mirror/public { internal; platform_gateway_access public; %%TO_upstream%% }
location /mirror/branch { internal; platform_gateway_access branch; %%TO_upstream%% }
location /mirror/system { internal; platform_gateway_access system; %%TO_upstream%% }
location /mirrored/nowhere { platform_gateway_access branch; mirror /nowhere; %%TO_upstream%% }
location /mirrored/explain { platform_gateway_access branch; mirror /explain; %%TO_upstream%% }
location /mirrored/large { platform_gateway_access branch; mirror /large; %%TO_upstream%% }
location /mirrored/ready { platform_gateway_access public; mirror /ready; %%TO_upstream%% }
location /nowhere { platform_gateway_access public; platform_gateway_route_not_found; }
location /explain { internal; platform_gateway_access public; platform_gateway_explain; }
location /large {
    internal;
    platform_gateway_access public;
    fastcgi_pass 127.0.0.1:%%PORT_upstream%%;
}
location = /metrics { platform_gateway_access public; platform_gateway_metrics; }
location /asks { platform_gateway_access public; auth_request /mirror/branch; %%TO_upstream%% }
location /asks/too {
    platform_gateway_access account branch;
    auth_request /mirror/public;
    %%TO_upstream%%
}
SERVER

sub page ($name, @include) {
    $t->write_file("www/$name", join '', "[start]",
        (map {qq([<!--# include virtual="$_" -->])} @include), "[end]");
}

page('ssi/branch.html', '/branch?1');
page('ssi/mixed.html', '/branch?1', '/public?2', '/off?3', '/renamed?4', '/branch?5');
page('ssi/level.html', '/level/x.html');
page('level/x.html');
page('ssi/nested.html', '/ssi/branch.html');
page('ssi/guarded/mixed.html', '/public?1', '/branch?2', '/off?3');
page('ssi/outer.html', '/ssi/guarded/mixed.html');
page('ssi/many.html', map {"/branch?$_"} 1 .. 60);

my $port = $t->start_gateway;

my %token = map { $_ => jwt_token($_ => $key) } qw(account branch system);
my @branch = (token => $token{branch});

# What one request made an upstream see: by URI, the headers asked for.
sub seen ($name, @request) {
    $upstream->forget;
    my $res = http_get($port, @request);
    return ($res, map { $_->{uri} => $_ } $upstream->requests);
}

sub roles { return [ header_values($_[0], 'X-Roles') ] }

# SSI from a public page into guarded locations.

my ($res, %seen) = seen('no token', '/ssi/branch.html');
is $res->status, 200, 'no token: the page itself is public';
is scalar keys %seen, 0, 'no token: the guarded part is not fetched';
like $res->body, qr/^\[start\].*401.*\[end\]$/s, 'no token: 401 in its place';
is $res->header('WWW-Authenticate'), undef, 'no token: no challenge';
($res, %seen) = seen('context', '/ssi/branch.html', token => $token{account});
is scalar keys %seen, 0, 'a token of another context: not fetched';
like $res->body, qr/403/, 'a token of another context: 403';
($res, %seen) = seen('no level', '/ssi/level.html', @branch);
like $res->body, qr/404/, 'a part without an access level: refused';
($res, %seen) = seen('nested', '/ssi/nested.html');
is scalar keys %seen, 0, 'a part of a part, no token';

# What each part of a page got; what was injected for a guarded page, or for a
# part that is one, stays with it.

my ($BRANCH, @NONE) = (['manager,cashier']);
for my $case ([ '/ssi/branch.html', '/branch?1' => $BRANCH ],
    [ '/ssi/nested.html', '/branch?1' => $BRANCH ],
    [ '/ssi/many.html', map { ("/branch?$_" => $BRANCH) } 1 .. 60 ],
    [ '/ssi/mixed.html', '/branch?1' => $BRANCH, '/public?2' => \@NONE, '/off?3' => \@NONE,
        '/renamed?4' => \@NONE, '/branch?5' => $BRANCH ],
    (map { [ $_, '/public?1' => \@NONE, '/branch?2' => $BRANCH, '/off?3' => \@NONE ] }
        '/ssi/guarded/mixed.html', '/ssi/outer.html'))
{
    my ($path, %want) = @$case;
    ($res, %seen) = seen($path, $path, @branch,
        headers => [ 'X-Roles' => 'spoofed', 'X-Kept' => 'yes' ]);
    is $res->status, 200, "$path: a token";
    is_deeply { map { $_ => roles($seen{$_}) } keys %seen }, \%want, "$path: roles of each part";
    is_deeply [ map { header_values($_, 'X-Kept') } values %seen ], [ ('yes') x keys %want ],
        "$path: other headers reach all";
    my %ids = map { (header_values($_, 'X-Request-Id'))[0] => 1 } values %seen;
    is_deeply [ keys %ids ], [ $res->header('X-Request-Id') ], "$path: one request id for all";
    is_deeply [ header_values($seen{$_}, 'X-Their-Roles') ], /renamed/ ? $BRANCH : [],
        "$_: another map has its own" for grep {/renamed|branch\?5/} keys %seen;
}
is http_get($port, '/ssi/guarded/mixed.html')->status, 401, 'a guarded page, no token';

# Mirrors.

sub mirrored ($path, $expect, @o) {
    $upstream->forget;
    my $r = http_get($port, $path, @o);
    eventually(sub { $upstream->count >= $expect });
    select undef, undef, undef, 0.1;    # for one that should not come
    return ($r, map { $_->{uri} => $_ } $upstream->requests);
}

($res, %seen) = mirrored('/mirrored', 3, @branch);
is $res->status, 200, 'mirrored';
is_deeply [ sort keys %seen ], [ '/mirror/branch', '/mirror/public', '/mirrored' ],
    'mirrored to where the token opens';
is_deeply roles($seen{'/mirror/public'}), [], 'public mirror: nothing';
is_deeply roles($seen{'/mirror/branch'}), ['manager,cashier'], 'guarded mirror: injected';
is_deeply roles($seen{'/mirrored'}), ['manager,cashier'], 'the request itself';
($res, %seen) = mirrored('/mirrored/public', 1);
is_deeply [ keys %seen ], ['/mirrored/public'], 'no token: not mirrored to guarded locations';
is $res->status, 200, 'and the request does not mind';

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
    $res = http_post($port, "/mirrored/$path", @branch, %o);
    is $res->status, 200, "a mirror to $name: answered";
    my $line = $t->logged($res);
    is $line->{decision}, 'allow', "a mirror to $name: allowed";
    is $line->{reason}, 'verified', "a mirror to $name: and why";
    is $line->{access}, 'branch', "a mirror to $name: access";
    is refused(), $before, "a mirror to $name: nothing counted as refused";
}
is_problem(http_get($port, '/nowhere'), 404, 'GATEWAY_ROUTE_NOT_FOUND',
    'the path itself (control)');
like refused(), qr/route_not_found/, 'is counted';

# auth_request beside us.

is http_get($port, '/asks', @branch)->status, 200, 'auth_request to a guarded location';
$res = http_get($port, '/asks');
is $res->status, 401, 'auth_request to a guarded location, no token';
is $res->header('WWW-Authenticate'), 'Bearer realm="platform"', 'and the challenge is passed on';
is http_get($port, '/asks', token => $token{account})->status, 403,
    'auth_request to a guarded location, another context';
($res, %seen) = mirrored('/asks/too', 2, @branch);
is $res->status, 200, 'auth_request of a guarded location';
is_deeply roles($seen{'/mirror/public'}), [], 'asks without trusted headers';
is_deeply roles($seen{'/asks/too'}), ['manager,cashier'], 'and goes on with them';

# A subrequest that has to wait for keys is resumed.

$issuer->set(body => jwks($key, $late), delay => 0.3);
$issuer->quiet(1.05);
($res, %seen) = seen('waits', '/ssi/branch.html', token => jwt_token(branch => $late));
is_deeply roles($seen{'/branch?1'} // { headers => [] }),
    ['manager,cashier'], 'a part waits for its key';
is $res->status, 200, 'and the page is complete';

is scalar(grep { $_->{requestId} eq $res->header('X-Request-Id') }
    $t->nginx->access_lines), 1, 'one log line a request, not a part'
    if eventually(sub { grep { $_->{requestId}
                eq $res->header('X-Request-Id') } $t->nginx->access_lines });

# A mirror to a gateway that has no keys yet.

$t->stop($t->nginx);
$issuer->set(status => 500);
$t->start_nginx;
is_problem(http_get($port, '/ready'), 503, 'GATEWAY_KEYS_UNAVAILABLE', 'not ready (control)');
$res = http_get($port, '/mirrored/ready');
is $res->status, 200, 'a mirror to readiness: answered';
is $t->logged($res)->{reason}, 'public', 'a mirror to readiness: allowed';

$t->done;
