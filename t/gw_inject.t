# Trusted headers: each claim of the verified token once, encoded so that a
# service behind us can take it apart again.

use utf8;
use Platform::Test;

my ($t, $key) = Platform::Test->gateway;
$t->echo_protocols;

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
platform_gateway_access account branch system;
location / { %%TO_upstream%% }
pass /quiet: platform_gateway_forward_authorization off;
pass /quiet/public: platform_gateway_access public; platform_gateway_forward_authorization off;
pass /map: platform_gateway_claim_header sub X-Subject;
    platform_gateway_claim_header level X-Level;
    platform_gateway_claim_header flag X-Flag;
    platform_gateway_claim_header nothing X-Nothing;
    platform_gateway_claim_header thing X-Thing;
    platform_gateway_claim_header mixed X-Mixed;
    platform_gateway_claim_header list X-List;
    platform_gateway_claim_header list X-List-Again;
    platform_gateway_claim_header https://ns.example/roles X-Name;
pass /set: proxy_set_header X-Roles $http_x_roles; proxy_set_header X-Account-Id "";
%%ECHO_LOCATIONS%%
location /grpc { grpc_pass grpc://127.0.0.1:%%PORT_grpc%%; }
SERVER
proxy_buffer_size 32k;
proxy_buffers 8 32k;

# stands for a gRPC service
server {
    listen 127.0.0.1:%%PORT_grpc%% http2;
    location / { %%TO_upstream%% }
}
HTTP
my $port = $t->start_gateway;

my %HEADER = map { $_ => join '-', 'X', map {ucfirst} split /_/ } qw(account_id account_type
    session_id token_type token_scope workspace_id tenant_id member_id active_branch_id branch_ids
    roles);

sub context ($res) {
    my %names = map { lc $_ => 1 } values %HEADER;
    my $seen = $res->json;
    my %got;
    for my $line (@{ $seen->{headers} // $seen->{params} }) {
        my ($name, $value) = @$line;
        $name = lc($name =~ s/^HTTP_//r =~ s/_/-/gr);
        push @{ $got{$name} }, $value if $names{$name};
    }
    return \%got;
}

sub seen ($path, $kind, %change) {
    my $res = http_get($port, $path, token => jwt_token($kind => $key, %change));
    is $res->status, 200, "$path: a good $kind token";
    return $res;
}

sub values_of ($res, @names) {
    return { map { ($_ => [ header_values($res->json, $_) ]) } @names };
}

# Each kind of token through each protocol: what it carries, once; no more.

my %COUNT = (branch => 11, account => 5, system => 5);
for my $path (qw(/ /grpc /fastcgi /scgi /uwsgi)) {
    for my $kind (sort keys %COUNT) {
        my $claims = jwt_claims($kind);
        my %expect = map {
            my $value = $claims->{$_};
            (lc $HEADER{$_} => [ ref $value ? join(',', @$value) : $value ])
        } grep { defined $claims->{$_} } keys %HEADER;
        is scalar keys %expect, $COUNT{$kind}, "$path: $kind: number of headers (control)";
        is_deeply context(seen($path, $kind)), \%expect, "$path: $kind";
    }
}

# Encoding (check_policy.c has more): [name, claim, value, header].

my @branches = map { uuid($_) } 100 .. 299;
for my $case (
    [ 'visible ASCII', workspace_id => q{!"#$&'()*+-./:;<=>?@[\]^_`{|}~},
        q{!"#$&'()*+-./:;<=>?@[\]^_`{|}~} ],
    [ 'line ends', workspace_id => "a\r\nX-Roles: admin", 'a%0D%0AX-Roles:%20admin' ],
    [ 'UTF-8', workspace_id => "Zoë \x{1f511}", 'Zo%C3%AB%20%F0%9F%94%91' ],
    [ 'an empty list', roles => [], '' ],
    [ 'elements in order', roles => [ 'b', 'a', 'c' ], 'b,a,c' ],
    [ 'commas inside', roles => [ 'a,b', 'a%2Cb', ' ' ], 'a%2Cb,a%252Cb,%20' ],
    [ 'two hundred branches', branch_ids => \@branches, join ',', @branches ],
) {
    my ($name, $claim, $value, $expect) = @$case;
    my $got = context(seen('/', 'branch', $claim => $value));
    is_deeply $got->{ lc $HEADER{$claim} }, [$expect], $name;
}

my $res = seen('/map', 'branch', level => 7, flag => JSON::PP::true,
    nothing => JSON::PP::null, thing => { a => 1 }, mixed => [ 'a', 1 ],
    list => [ 'x', 'y,z' ], 'https://ns.example/roles' => [ 'p', 'q' ]);
my %map = ('X-Subject' => [ uuid(1) ], 'X-Level' => ['7'], 'X-Flag' => ['true'],
    'X-Nothing' => [], 'X-Thing' => [], 'X-Mixed' => [], 'X-List' => ['x,y%2Cz'],
    'X-List-Again' => ['x,y%2Cz'], 'X-Name' => ['p,q']);
is_deeply values_of($res, keys %map), \%map, 'a map of its own';
is_deeply context($res), {}, 'replaces the default one';

# proxy_set_header has the last word, and variables see the trusted value.

is_deeply values_of(seen('/set', 'branch'), 'X-Roles', 'X-Account-Id'),
    { 'X-Roles' => ['manager,cashier'], 'X-Account-Id' => [] },
    '$http_x_roles; an emptied header is not sent';

my $token = jwt_token(branch => $key);
for my $case ([ '/', "Bearer $token" ], [ '/quiet' ], [ '/quiet/public' ]) {
    my ($path, @expect) = @$case;
    $res = http_get($port, $path, token => $token, headers => [ 'X-Before' => 1, 'X-After' => 2 ]);
    is_deeply values_of($res, qw(Authorization X-Before X-After)),
        { Authorization => \@expect, 'X-Before' => [1], 'X-After' => [2] },
        "$path: Authorization and others";
}

my $c = Platform::Test::Http->new(port => $port);
for my $kind (qw(branch account branch system)) {
    $res = $c->request(GET => '/', token => jwt_token($kind => $key));
    is scalar keys %{ context($res) }, $COUNT{$kind}, "kept connection: $kind";
}

$t->done;
