# Context headers of a client reach no upstream, on any path and in any protocol;
# all other headers pass as they came.  check_headers has every spelling of a
# name, and every place in a list.

use Platform::Test;

my ($t, $key) = Platform::Test->gateway;
$t->echo_protocols;

my $GRPC = 'location /grpc { grpc_pass grpc://127.0.0.1:%%PORT_grpc%%; }';
my $ODD = 'underscores_in_headers on; ignore_invalid_headers off;';
$t->gateway_conf(<<"SERVER", http => <<"HTTP");
platform_gateway_access public;
location / { %%TO_upstream%% }
pass /branch: platform_gateway_access branch;
pass /account: platform_gateway_access account;
pass /renamed: platform_gateway_access branch; platform_gateway_claim_header account_id X-Who;
pass /off: platform_gateway off;
$GRPC
%%ECHO_LOCATIONS%%
SERVER
platform_gateway_strip_header X-Internal;
proxy_http_version 1.1;
server {
    listen 127.0.0.1:%%PORT_lax%%;
    $ODD
    platform_gateway on;
    platform_gateway_access public;
    platform_gateway_strip_header X-Also X-More;
    location / { %%TO_upstream%% }
    $GRPC
    %%ECHO_LOCATIONS%%
}
server { listen 127.0.0.1:%%PORT_plain%%; location / { %%TO_upstream%% } }

# stands for a gRPC service: HTTP/2 to HTTP/1, every header as it came
server { listen 127.0.0.1:%%PORT_grpc%% http2; $ODD location / { %%TO_upstream%% } }
HTTP
my $port = $t->start_gateway;
my @with = (token => jwt_token(branch => $key));

my @NAMES = qw(X-Account-Id X-Account-Type X-Session-Id X-Token-Type X-Token-Scope
    X-Workspace-Id X-Tenant-Id X-Member-Id X-Active-Branch-Id X-Branch-Ids X-Roles);

# Header lines at an upstream that did not come from nginx itself.
sub passed {
    my $seen = http_get(@_)->json;
    return [ grep { !/^(?:HTTP_)?(?:Host|Connection|X.Request.Id|X.Correlation.Id):/i
            && !/^(?:REQUEST_METHOD|CONTENT_LENGTH):/ }
        map {"$_->[0]: $_->[1]"} @{ $seen->{headers} // $seen->{params} } ];
}

# Every name to every path, in the spellings that a server lets in.

my @spell = (sub { $_[0] }, sub { lc $_[0] }, map { my $c = $_; sub { $_[0] =~ s/-/$c/gr } }
    qw(_ . ~));
for my $server (qw(gateway lax)) {
    for my $path (qw(/ /off /grpc /fastcgi /scgi /uwsgi)) {
        next if $server eq 'lax' && $path eq '/off';
        my $expect = $path =~ /gi$/ ? [ 'HTTP_X_FIRST: 1', 'HTTP_X_LAST: 2' ]
            : [ 'X-First: 1', 'X-Last: 2' ];
        is_deeply [ map { s/^x-(\w)/X-\u$1/r } @{ passed($t->port($server), $path,
            headers => [ 'X-First' => 1, @$_, 'X-Last' => 2 ]) } ], $expect,
            "$server $path: only the others"
            for map { my $f = $_; [ map { $f->($_) => 'spoofed' } @NAMES ] } @spell;
    }
}
is_deeply passed($t->port('plain'), '/', headers => [ 'X-Account-Id' => 'spoofed' ]),
    ['X-Account-Id: spoofed'], 'control: a server without the gateway passes them on';
is_deeply passed($t->port('lax'), '/', headers => [ 'X.Other' => '1', X_Other => '2' ]),
    [ 'X.Other: 1', 'X_Other: 2' ], 'control: odd names pass where allowed';

# Names that only look alike, values, order and duplicates stay.

my @like = ('X-Account' => 1, 'X-Account--Id' => 4, '-X-Account-Id' => 6, 'X-Role' => 8,
    'X-Twice' => 'a', 'X-Between' => 'X-Roles', 'X-Twice' => 'b', 'Cookie' => 'X-Roles=1',
    'X-Forwarded-For' => '192.0.2.1', 'User-Agent' => 'test', 'X-Empty' => '');
is_deeply passed($port, '/', headers => \@like),
    [ map {"$like[ 2 * $_ ]: $like[ 2 * $_ + 1 ]"} 0 .. $#like / 2 ], 'others pass, in order';

# Nothing but context headers: not even Host (HTTP/1.0), and not even those.

for my $n (0, 1, 20, 60) {
    my $raw = http_raw($port, "GET / HTTP/1.0\r\n" . "X-Roles: spoofed\r\n" x $n . "\r\n");
    like $raw, qr{^HTTP/1\.1 200 (?!.*spoofed).*"X-Request-Id"}s,
        "$n context headers and no other: gone, and the id is added";
}

my @further = ('X-Internal' => 1, 'x-internal' => 2, 'X-Also' => 3, 'X-Who' => 4, 'X-More' => 5);
is_deeply passed($port, '/', headers => \@further), [ 'X-Also: 3', 'X-More: 5' ],
    'names of http{}, and of the claim map of any location';
is_deeply passed($t->port('lax'), '/', headers => [ @further, 'x_internal' => 6, 'X.Also' => 7 ]),
    ['X-Who: 4'], 'names of http{} and server{} together';

# Where the location is guarded: the verified ones, once; a map of its own takes
# none of the default names out; Connection removes nothing of ours.  And where the
# token has no such claim, the client's header does not stay for it.

for my $case ([ 'guarded', '/branch', 'X-Account-Id' => uuid(1), 'X-Roles' => 'manager,cashier' ],
    [ 'a map of its own', '/renamed', 'X-Who' => uuid(1), 'X-Roles' => undef ],
    [ 'claims that the token lacks', '/account', 'X-Account-Id' => uuid(1),
        map { $_ => undef } qw(X-Workspace-Id X-Active-Branch-Id X-Roles X-Who) ])
{
    my ($name, $path, %want) = @$case;
    for my $connection ('close', 'close, X-Account-Id, X-Who, X-Roles') {
        my $res = http_get($port, $path, token => jwt_token($path =~ /account/ ? 'account'
            : 'branch', $key), connection => $connection,
            headers => [ map { ($_ => 'spoofed') } @NAMES, 'X-Who' ]);
        is_deeply { map { $_ => [ header_values($res->json, $_) ] } keys %want },
            { map { $_ => [ $want{$_} // () ] } keys %want }, "$name, Connection: $connection";
        unlike $res->body, qr/spoofed/, "$name: nothing of the client";
    }
}

$t->done;
