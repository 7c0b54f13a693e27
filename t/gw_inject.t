# Trusted headers: each claim of the verified token once, encoded so that a
# service behind us can take it apart again.

use utf8;
use Platform::Test;

my $t = Platform::Test->new;
my $key = jwt_key('a');
$t->issuer(body => jwks($key));
$t->echo_upstream;
$t->echo_protocols;

$t->gateway_conf(<<'SERVER', http => <<'HTTP');
platform_gateway_access account branch system;
location / { proxy_pass http://127.0.0.1:%%PORT_upstream%%; }
pass /quiet: platform_gateway_forward_authorization off;
pass /quiet/public: platform_gateway_access public; platform_gateway_forward_authorization off;
location /map {
    platform_gateway_claim_header sub X-Subject;
    platform_gateway_claim_header level X-Level;
    platform_gateway_claim_header flag X-Flag;
    platform_gateway_claim_header nothing X-Nothing;
    platform_gateway_claim_header thing X-Thing;
    platform_gateway_claim_header mixed X-Mixed;
    platform_gateway_claim_header list X-List;
    platform_gateway_claim_header list X-List-Again;
    platform_gateway_claim_header https://ns.example/roles X-Name;
    proxy_pass http://127.0.0.1:%%PORT_upstream%%;
}
pass /set: proxy_set_header X-Roles $http_x_roles; proxy_set_header X-Account-Id "";
%%ECHO_LOCATIONS%%
location /grpc { grpc_pass grpc://127.0.0.1:%%PORT_grpc%%; }
SERVER
proxy_buffer_size 32k;
proxy_buffers 8 32k;

# stands for a gRPC service
server {
    listen 127.0.0.1:%%PORT_grpc%% http2;
    location / { proxy_pass http://127.0.0.1:%%PORT_upstream%%; }
}
HTTP
my $port = $t->start_gateway;

my %HEADER = (
    account_id => 'X-Account-Id', account_type => 'X-Account-Type',
    session_id => 'X-Session-Id', token_type => 'X-Token-Type',
    token_scope => 'X-Token-Scope', workspace_id => 'X-Workspace-Id',
    tenant_id => 'X-Tenant-Id', member_id => 'X-Member-Id',
    active_branch_id => 'X-Active-Branch-Id', branch_ids => 'X-Branch-Ids',
    roles => 'X-Roles',
);

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

# Each kind of token through each protocol: what it carries, once; no more.

for my $path (qw(/ /grpc /fastcgi /scgi /uwsgi)) {
    for my $kind (qw(account branch system)) {
        my $claims = jwt_claims($kind);
        my %expect = map {
            my $value = $claims->{$_};
            (lc $HEADER{$_} => [ ref $value ? join(',', @$value) : $value ])
        } grep { defined $claims->{$_} } keys %HEADER;
        is scalar keys %expect, ($kind eq 'branch' ? 11 : 5),
            "$path: $kind: number of headers (control)";
        is_deeply context(seen($path, $kind)), \%expect, "$path: $kind";
    }
}

# Encoding.

for my $case (
    [ 'visible ASCII', workspace_id => q{!"#$&'()*+-./:;<=>?@[\]^_`{|}~},
        q{!"#$&'()*+-./:;<=>?@[\]^_`{|}~} ],
    [ 'a percent sign', workspace_id => 'a%2Cb', 'a%252Cb' ],
    [ 'a comma in a string', workspace_id => 'a,b', 'a,b' ],
    [ 'a space', workspace_id => 'a b', 'a%20b' ],
    [ 'line ends', workspace_id => "a\r\nX-Roles: admin", 'a%0D%0AX-Roles:%20admin' ],
    [ 'control characters', workspace_id => "\x01\x1f\x7f", '%01%1F%7F' ],
    [ 'UTF-8', workspace_id => 'Zoë €', 'Zo%C3%AB%20%E2%82%AC' ],
    [ 'beyond the BMP', workspace_id => "\x{1f511}", '%F0%9F%94%91' ],
    [ 'an empty list', roles => [], '' ],
    [ 'one element', roles => ['a'], 'a' ],
    [ 'elements in order', roles => [ 'b', 'a', 'c' ], 'b,a,c' ],
    [ 'commas inside', roles => [ 'a,b', 'c' ], 'a%2Cb,c' ],
    [ 'an encoded comma inside', roles => [ 'a%2Cb', 'c' ], 'a%252Cb,c' ],
    [ 'UTF-8 and spaces', roles => [ 'é', ' ' ], '%C3%A9,%20' ],
) {
    my ($name, $claim, $value, $expect) = @$case;

    my $got = context(seen('/', 'branch', $claim => $value));
    is_deeply $got->{ lc $HEADER{$claim} }, [$expect], $name;
}

# Two hundred branches.

my @branches = map { uuid($_) } 100 .. 299;
is_deeply context(seen('/', 'branch', branch_ids => \@branches))
    ->{'x-branch-ids'}, [ join ',', @branches ], 'two hundred branches';

# A map of its own: any claim by name, of any type that is text.

my $res = seen('/map', 'branch', level => 7, flag => JSON::PP::true,
    nothing => JSON::PP::null, thing => { a => 1 }, mixed => [ 'a', 1 ],
    list => [ 'x', 'y,z' ], 'https://ns.example/roles' => [ 'p', 'q' ]);
my %got = map { ($_ => [ header_values($res->json, $_) ]) }
    qw(X-Subject X-Level X-Flag X-Nothing X-Thing X-Mixed X-List X-List-Again
    X-Name);
is_deeply \%got, {
    'X-Subject' => [ uuid(1) ], 'X-Level' => ['7'], 'X-Flag' => ['true'],
    'X-Nothing' => [], 'X-Thing' => [], 'X-Mixed' => [],
    'X-List' => ['x,y%2Cz'], 'X-List-Again' => ['x,y%2Cz'],
    'X-Name' => ['p,q'] },
    'a map of its own';
is_deeply context($res), {}, 'replaces the default one';
$res = seen('/map', 'branch', flag => JSON::PP::false);
is_deeply [ header_values($res->json, 'X-Flag') ], ['false'], 'false';

# proxy_set_header has the last word, and variables see the trusted value.

$res = seen('/set', 'branch');
is_deeply [ header_values($res->json, 'X-Roles') ], ['manager,cashier'], '$http_x_roles';
is_deeply [ header_values($res->json, 'X-Account-Id') ], [], 'an emptied header is not sent';

# Authorization goes upstream or not, as configured.

my $token = jwt_token(branch => $key);
for my $case ([ '/', 1 ], [ '/quiet', 0 ], [ '/quiet/public', 0 ]) {
    my ($path, $expect) = @$case;
    $res = http_get($port, $path, token => $token, headers => [ 'X-Before' => 1, 'X-After' => 2 ]);
    is_deeply [ header_values($res->json, 'Authorization') ],
        [ $expect ? "Bearer $token" : () ], "$path: Authorization";
    is_deeply [ map { header_values($res->json, $_) } qw(X-Before X-After) ],
        [ 1, 2 ], "$path: others";
}

# Requests on one connection do not see each other's headers.

my $c = Platform::Test::Http->new(port => $port);
for my $kind (qw(branch account branch system)) {
    $res = $c->request(GET => '/', token => jwt_token($kind => $key));
    my %n = (branch => 11, account => 5, system => 5);
    is scalar keys %{ context($res) }, $n{$kind}, "kept connection: $kind";
}
$c->close;

$t->done;
