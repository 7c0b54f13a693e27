# Which token opens which location - the four levels, lists of them, deny by
# default - and as whom: each claim of the verified token once in a trusted header,
# encoded so that a service behind us can take it apart again.  Methods, shadow
# mode and other access modules have files of their own.

use Platform::Test;

my ($t, $key) = Platform::Test->gateway;
$t->echo_protocols;

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
platform_gateway_access account branch system;
location / { %%TO_upstream%% }
pass /public: platform_gateway_access public;
pass /account: platform_gateway_access account;
pass /branch: platform_gateway_access branch;
pass /platform: platform_gateway_access platform;
pass /system: platform_gateway_access system;
pass /two: platform_gateway_access account system;
location /inherits { platform_gateway_access branch; location /inherits/deep { %%TO_upstream%% } }
pass /off: platform_gateway off;
pass /any: satisfy any; allow 127.0.0.1; deny all; platform_gateway_access branch;
pass /denied: deny all; platform_gateway_access public;
location = /health { platform_gateway_access public; platform_gateway_health; }
pass /quiet: platform_gateway_forward_authorization off;
pass /quiet/public: platform_gateway_access public; platform_gateway_forward_authorization off;
pass /map: platform_gateway_claim_header sub X-Subject;
    platform_gateway_claim_header level X-Level;
    platform_gateway_claim_header nothing X-Nothing;
    platform_gateway_claim_header list X-List;
    platform_gateway_claim_header list X-List-Again;
    platform_gateway_claim_header https://ns.example/roles X-Name;
pass /set: proxy_set_header X-Roles $http_x_roles; proxy_set_header X-Account-Id "";
%%ECHO_LOCATIONS%%
location /grpc { grpc_pass grpc://127.0.0.1:%%PORT_grpc%%; }
SERVER
proxy_buffer_size 32k;
proxy_buffers 8 32k;
server { listen 127.0.0.1:%%PORT_bare%%; platform_gateway on; root %%DIR%%; location /x { } }

# stands for a gRPC service
server { listen 127.0.0.1:%%PORT_grpc%% http2; location / { %%TO_upstream%% } }
HTTP
my $port = $t->start_gateway;

my %token = map { $_ => jwt_token($_ => $key) } qw(account branch system refresh);

# Every kind of token at every level: [path, scope of the challenge, what opens it].

for my $case (
    [ '/account', 'ACCOUNT', 'account' ], [ '/branch', 'BRANCH', 'branch' ],
    [ '/platform', 'BRANCH', 'branch' ], [ '/system', 'SYSTEM', 'system' ],
    [ '/two', 'ACCOUNT SYSTEM', 'account', 'system' ],
    [ '/inherits/deep', 'BRANCH', 'branch' ],
) {
    my ($path, $scope, @opens) = @$case;
    my $res = http_get($port, $path);
    is_problem $res, 401, 'GATEWAY_TOKEN_MISSING', "$path without a token";
    is $res->header('WWW-Authenticate'), 'Bearer realm="platform"',
        "$path: challenge without an error";
    for my $kind (sort keys %token) {
        $res = http_get($port, $path, token => $token{$kind});
        if (grep { $_ eq $kind } @opens) {
            is $res->status, 200, "$path opens to $kind";
            next;
        }
        is_problem $res, 403, 'GATEWAY_CONTEXT_FORBIDDEN', "$path stays shut to $kind";
        is $res->header('WWW-Authenticate'), 'Bearer realm="platform", '
            . qq(error="insufficient_scope", scope="$scope"), "$path, $kind: challenge";
    }
}

for my $case ([ 'no token' ], [ 'a good token', token => $token{branch} ],
    [ 'garbage', token => 'garbage' ],
    [ 'another scheme', headers => [ Authorization => 'Basic eDp5' ] ]) {
    my ($name, @o) = @$case;
    my $res = http_get($port, '/public', @o);
    is_deeply [ $res->status, grep {/^x-(?!request-id|correlation-id)/i}
        map { $_->[0] } @{ $res->json->{headers} } ], [200], "public: $name: nothing injected";
}

# Deny by default, whatever the token; the gateway switched off.

$t->write_file('x', 'text');
is_problem http_get($t->port('bare'), $_, token => $token{branch}), 404,
    'GATEWAY_ROUTE_NOT_FOUND', $_ for '/x', '/no/such/thing';
like $t->nginx->error_log, qr/no "platform_gateway_access" for location/, 'the log says why';
my $res = http_get($port, '/any?status=401');
is_deeply [ $res->status, $res->json->{uri} ], [ 401, '/any?status=401' ],
    "satisfy any: the upstream's own 401 is not taken for ours";
is http_get($port, $_->[0])->status, $_->[1], $_->[2] for [ '/off', 200, 'off: not our business' ],
    [ '/denied', 403, 'public does not overrule deny' ];

my $c = Platform::Test::Http->new(port => $port);
$res = $c->request(GET => '/health');
is_deeply [ $res->body, map { $res->header($_) } qw(Content-Type Cache-Control) ],
    [ '{"status":"UP","service":"gateway"}', 'application/json', 'no-store' ], 'health';

# Each kind of token through each protocol: what it carries, once; no more.

my %HEADER = map { $_ => join '-', 'X', map {ucfirst} split /_/ } qw(account_id account_type
    session_id token_type token_scope workspace_id tenant_id member_id active_branch_id branch_ids
    roles);

sub context ($res) {
    my %got;
    for my $line (@{ $res->json->{headers} // $res->json->{params} }) {
        my $name = lc $line->[0] =~ s/^HTTP_//r =~ s/_/-/gr;
        push @{ $got{$name} }, $line->[1] if grep { $name eq lc } values %HEADER;
    }
    return \%got;
}

sub values_of ($res, @names) {
    return { map { ($_ => [ header_values($res->json, $_) ]) } @names };
}

my %COUNT = (branch => 11, account => 5, system => 5);
for my $path (qw(/ /grpc /fastcgi /scgi /uwsgi)) {
    is_deeply [ map { http_get($port, $path, token => $_)->status } undef, $token{refresh} ],
        [ 401, 403 ], "$path: no token, a token of another kind";
    for my $kind (sort keys %COUNT) {
        my $claims = jwt_claims($kind);
        my %expect = map { (lc $HEADER{$_} => [ ref $claims->{$_}
            ? join(',', @{ $claims->{$_} }) : $claims->{$_} ]) }
            grep { defined $claims->{$_} } keys %HEADER;
        is scalar keys %expect, $COUNT{$kind}, "$path: $kind: number of headers (control)";
        is_deeply context(http_get($port, $path, token => $token{$kind})), \%expect, "$path: $kind";
    }
}
for my $kind (qw(branch account branch system)) {
    $res = $c->request(GET => '/', token => $token{$kind});
    is scalar keys %{ context($res) }, $COUNT{$kind}, "kept connection: $kind";
}

# Encoding (check_policy.c has more): [claim, value, header].

my @branches = map { uuid($_) } 100 .. 299;
for my $case (
    [ workspace_id => "a\r\nX-Roles: \x{1f511}", 'a%0D%0AX-Roles:%20%F0%9F%94%91' ],
    [ roles => [], '' ], [ roles => [ 'b,a', 'a%2Cb', ' ' ], 'b%2Ca,a%252Cb,%20' ],
    [ branch_ids => \@branches, join ',', @branches ],
) {
    my ($claim, $value, $expect) = @$case;
    $res = http_get($port, '/', token => jwt_token(branch => $key, $claim => $value));
    is_deeply context($res)->{ lc $HEADER{$claim} }, [$expect], "encoded: $expect";
}

$res = http_get($port, '/map', token => jwt_token(branch => $key, level => 7,
    nothing => JSON::PP::null, list => [ 'x', 'y,z' ], 'https://ns.example/roles' => [ 'p', 'q' ]));
my %map = ('X-Subject' => [ uuid(1) ], 'X-Level' => ['7'], 'X-Nothing' => [],
    'X-List' => ['x,y%2Cz'], 'X-List-Again' => ['x,y%2Cz'], 'X-Name' => ['p,q']);
is_deeply [ values_of($res, keys %map), context($res) ], [ \%map, {} ],
    'a map of its own replaces the default one';

is_deeply values_of(http_get($port, '/set', token => $token{branch}), 'X-Roles', 'X-Account-Id'),
    { 'X-Roles' => ['manager,cashier'], 'X-Account-Id' => [] },
    '$http_x_roles; an emptied header is not sent';

for my $case ([ '/', "Bearer $token{branch}" ], [ '/quiet' ], [ '/quiet/public' ]) {
    my ($path, @expect) = @$case;
    $res = http_get($port, $path, token => $token{branch},
        headers => [ 'X-Before' => 1, 'X-After' => 2 ]);
    is_deeply values_of($res, qw(Authorization X-Before X-After)),
        { Authorization => \@expect, 'X-Before' => [1], 'X-After' => [2] },
        "$path: Authorization and others";
}

$t->done;
