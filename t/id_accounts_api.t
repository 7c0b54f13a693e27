# Accounts by the API: each call and its refusals, who may make it, and that it answers as
# the command does.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $c = Platform::Test::Commands->new(test => $t, env => { PLATFORM_LOG_LEVEL => 'error' });
my $identity = $t->identity_face(PLATFORM_AUTH_MAX_FAILURES => 5);
my $port = client_of($t);
my $null = undef;
my ($true, $false) = (JSON::PP::true(), JSON::PP::false());

my @scopes = qw(people:read people:write places:read places:write credentials:write
    operators:write audit:read);
my $client = $c->done(qw(client add job), map { ('--allow', $_) } @scopes);
my $secret = $c->done(qw(client secret add job))->{secret};
my %token;
sub token (@scope) {
    return $token{"@scope"} //= http($port, POST => '/api/auth/token',
        body => "grant_type=client_credentials&client_id=$client->{accountId}"
            . "&client_secret=$secret&scope=" . join('%20', @scope),
        headers => [ 'Content-Type' => 'application/x-www-form-urlencoded' ])->json->{access_token};
}
my @may = qw(people:read people:write);

# The answer to METHOD /api/system/accounts$path, with all rights of people unless
# scope => [...].
sub api ($method, $path, $json = undef, %o) {
    my $scope = delete $o{scope} // \@may;
    return http($port, $method => "/api/system/accounts$path",
        (defined $json ? (json => $json) : ()), token => token(@$scope), %o);
}

# One test: it succeeded with this status; the members of its answer.
sub good ($res, $name, $status = 200) {
    is $res->status, $status, $name or diag $res->body;
    my %got = %{ $res->json };
    is delete $got{code}, 'SYSTEM_SUCCESS', "$name: the code";
    ok length(delete $got{message} // ''), "$name: a message";
    return \%got;
}
sub pointer ($pointer, $code, %more) { return { pointer => $pointer, code => $code, %more } }
sub parameter ($name, $code, %more) { return { parameter => $name, code => $code, %more } }
sub bad ($res, $name, @faults) {
    is_problem($res, 400, 'REQUEST_INVALID', $name);
    is_deeply $res->json->{errors}, \@faults, "$name: each fault" or diag $res->body;
}
sub lacks ($res, $scope, $name) {
    is_problem($res, 403, 'AUTH_SCOPE_REQUIRED', $name);
    is $res->header('WWW-Authenticate'), 'Bearer realm="platform", error="insufficient_scope", '
        . "scope=\"$scope\"", "$name: the challenge";
}
sub as_command ($got, $name, @command) {
    $got = { %$got };
    my %said = %{ $c->done(@command) };
    is_deeply { map { ($_ => $said{$_}) } keys %$got }, $got, "$name: as the command says";
}
sub audited ($id) {
    return [ map {"$_->{event} " . ($_->{byAccountId} // 'command')}
        reverse @{ $c->done(qw(audit list --account), $id) } ];
}
my $by = $client->{accountId};
my $log = sub { $t->read_file('identity.log') };

# -- adding

my $res = api(POST => '', { account => ' Ann@Example.com ' });
my $ann = good($res, 'an account', 201);
my $id = $ann->{accountId};
is $res->header('Location'), "/api/system/accounts/$id", 'and where it is';
like $ann->{createdAt}, qr/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\z/, 'since when';
is_deeply { %$ann, createdAt => 0 }, { accountId => $id, account => 'ann@example.com',
    type => 'CUSTOMER', status => 'ACTIVE', createdAt => 0 }, 'what it is';
is_deeply audited($id), ["account.added $by"], 'the audit names the program';
like $log->(), qr/"event":"account.added"[^\n]*"accountId":"$id"[^\n]*"byAccountId":"$by"/,
    'and so does the log';
is_problem(api(POST => '', { account => 'ANN@example.com' }), 409, 'RESOURCE_EXISTS', 'a name once');

my $bob = good(api(POST => '', { account => 'bob@example.com', credential => 'A g00d one' }),
    'with a credential', 201);
is login('bob@example.com', credential => 'A g00d one')->status, 200, 'with which he logs in';
is login('ann@example.com', credential => 'A g00d one')->status, 401, 'and she does not';
$res = api(POST => '', { account => 'x@example.com', credential => 'short' });
is_problem($res, 400, 'AUTH_CREDENTIAL_NOT_ALLOWED', 'a short credential');
is $res->json->{errors}[0]{pointer}, '/credential', 'and where';

my $hash = $pg->sql('select credential_hash from accounts where account_name = $$bob@example.com$$');
my %hashed = (account => 'eve@example.com', credentialHash => $hash);
lacks(api(POST => '', \%hashed), 'credentials:write', 'a hash without credentials:write');
my $eve = good(api(POST => '', \%hashed, scope => [ @may, 'credentials:write' ]), 'a hash', 201);
is login('eve@example.com', credential => 'A g00d one')->status, 200, 'of a credential that is good';

my %operator = (account => 'op@example.com', type => 'OPERATOR');
lacks(api(POST => '', \%operator), 'operators:write', 'an operator');
my $op = good(api(POST => '', \%operator, scope => [ @may, 'operators:write' ]),
    'an operator with operators:write', 201);

my @all = (scope => \@scopes);
for (
    [ {}, pointer('/account', 'missing') ],
    [ { account => '' }, pointer('/account', 'too_short', minimum => 1) ],
    [ { account => 'a' x 321 }, pointer('/account', 'too_long', maximum => 320) ],
    [ { account => "a\tb" }, pointer('/account', 'malformed') ],
    [ { account => uuid(7) }, pointer('/account', 'not_allowed') ],
    [ { account => 1, type => 2 }, pointer('/account', 'wrong_type'), pointer('/type', 'wrong_type') ],
    [ { account => 'y', type => 'SYSTEM' }, pointer('/type', 'not_allowed') ],
    (map { [ { account => 'y', $_ => 'x' }, pointer("/$_", 'unknown') ] }
        qw(accountId status createdAt hash credential_hash roles)),
    [ { account => 'y', credentialHash => 'plain' }, pointer('/credentialHash', 'not_allowed') ],
    [ { account => 'y', credentialHash => $hash, credential => 'A g00d one' },
        pointer('/credentialHash', 'conflict') ],
    [ { account => 'y', memberships => {} }, pointer('/memberships', 'wrong_type') ],
    [ { account => 'y', memberships => [ 'x', { grants => [ {}, { branch => 1, x => 1 } ] },
            { workspace => 'Shop', status => 'x', grants => [ { branch => 'x', roles => [1] } ] } ] },
        pointer('/memberships/0', 'wrong_type'), pointer('/memberships/1/workspace', 'missing'),
        pointer('/memberships/1/grants/0/branch', 'missing'),
        pointer('/memberships/1/grants/1/x', 'unknown'),
        pointer('/memberships/1/grants/1/branch', 'wrong_type'),
        pointer('/memberships/2/status', 'unknown'),
        pointer('/memberships/2/grants/0/roles/0', 'wrong_type') ],
    [ { account => 'y', memberships => [ { workspace => 'Nowhere' } ] },
        pointer('/memberships', 'not_allowed') ],
) {
    my ($json, @faults) = @$_;
    bad(api(POST => '', $json, @all), join(' ', map { ref || $_ } %$json) || 'nothing', @faults);
}
is_problem(api(POST => '', undef, body => 'account=x'), 415, 'MEDIA_TYPE_UNSUPPORTED', 'a form');
is $pg->sql('select count(*) from accounts where account_name = $$y$$'), 0, 'and none of them is there';

# With memberships, as the import takes them.

my $shop = $c->done(qw(workspace add Shop --new-tenant Acme));
my $main = $c->done(qw(branch add Main --workspace Shop));
my $side = $c->done(qw(branch add Side --workspace Shop));
my @memberships = ({ workspace => 'Shop', grants => [ { branch => 'Main', roles => [ 'B', 'A' ] },
    { branch => $side->{branchId}, roles => undef } ] });
my $kim = good(api(POST => '', { account => 'kim@example.com', type => undef,
    memberships => \@memberships }), 'with memberships', 201);
my $many = $pg->sql("insert into branches (workspace_id, branch_name)
    select '$shop->{workspaceId}', 'N' || n from generate_series(1, 201) n;
    select count(*) from branches where branch_name ~ '^N'");
is_problem(api(POST => '', { account => 'y', memberships => [ { workspace => 'Shop',
    grants => [ map { { branch => "N$_" } } 1 .. $many ] } ] }), 409, 'RESOURCE_LIMIT_REACHED',
    'more branches than a member may have');
is_problem(api(POST => '', { account => 'y', memberships => [ { workspace => 'Shop',
    grants => [ { branch => 'Main', roles => [ map {"R$_"} 1 .. 33 ] } ] } ] }), 409,
    'RESOURCE_LIMIT_REACHED', 'more roles than a branch may have');
bad(api(POST => '', { account => 'y', memberships => [ ({ workspace => 'Shop' }) x 2 ] }),
    'a workspace twice', pointer('/memberships', 'not_allowed'));

# Once, however often it is asked for.

my %key = (headers => [ 'Idempotency-Key' => 'sign-up 1' =~ s/ /-/r ]);
my %once = (account => 'once@example.com');
my $first = api(POST => '', \%once, %key);
my $repeat = api(POST => '', \%once, %key);
is_deeply [ $first->status, $repeat->status, $repeat->body ], [ 201, 201, $first->body ],
    'the same call again: the first answer';
is $repeat->header('Location'), $first->header('Location'), 'with its Location';
is_deeply [ map { scalar $_->header('Idempotent-Replayed') } $first, $repeat ], [ undef, 'true' ],
    'and says so';
is_problem(api(POST => '', { account => 'other@example.com' }, %key), 422,
    'REQUEST_IDEMPOTENCY_MISMATCH', 'another call with this key');
is @{ audited($first->json->{accountId}) }, 1, 'one change';

my $bytes = http_request_bytes(POST => '/api/system/accounts', token => token(@may),
    json => { account => 'five@example.com' }, headers => [ 'Idempotency-Key' => 'five' ]);
my @five = map { Platform::Test::Http->new(port => $port) } 1 .. 5;
$_->send($bytes) for @five;
my @status = map { $_->read_response->status } @five;
is scalar(grep { $_ != 201 && $_ != 409 } @status), 0, "five at once: @status";
ok scalar(grep { $_ == 201 } @status), 'and one made it';
is $pg->sql('select count(*) from audit_events join accounts using (account_id)
    where account_name = $$five@example.com$$'), 1, 'once';

# -- one

my $whole = good(api(GET => "/$kim->{accountId}"), 'an account');
my $has = delete $whole->{hasCredential};
as_command({ %$whole, memberships => [ map { my %m = %$_; delete $m{grants}; \%m } @{ $whole->{memberships} } ] },
    'GET', qw(account show kim@example.com));
is_deeply [ $has, @$whole{qw(sessionsValidAfter deletedAt)} ], [ $false, undef, undef ],
    'without a credential';
is_deeply [ map {"$_->{workspaceName} $_->{status} $_->{branches}"} @{ $whole->{memberships} } ],
    ['Shop ACTIVE 2'], 'its memberships';
is_deeply { map { ($_->{branchName} => [ $_->{branchId}, @{ $_->{roles} } ]) }
    @{ $whole->{memberships}[0]{grants} } },
    { Main => [ $main->{branchId}, 'A', 'B' ], Side => [ $side->{branchId} ] }, 'and their grants';
is api(GET => "/$_->[0]{accountId}")->json->{hasCredential}, $_->[1], "hasCredential $_->[0]{account}"
    for [ $bob, $true ], [ $eve, $true ], [ $ann, $false ], [ $client, $false ];
is_problem(api(GET => "/$_"), 404, 'RESOURCE_NOT_FOUND', "GET $_")
    for uuid(5), 'kim@example.com', 'x', $shop->{workspaceId};
bad(api(GET => "/$id?x=1"), 'an unknown parameter', parameter('x', 'unknown'));

# -- the list

sub names ($query, %o) { return [ map { $_->{account} } @{ api(GET => "?$query", undef, %o)->json->{accounts} } ] }
my $listed = good(api(GET => '?limit=1000'), 'the list');
is $listed->{next}, undef, 'all of it';
is_deeply $listed->{accounts}, $c->done(qw(account list --limit 1000)), 'as the command says';
for (
    [ 'name=kim', qw(--name kim) ], [ 'name=KIM', qw(--name KIM) ], [ 'name=nobody', qw(--name nobody) ],
    (map { [ "type=$_", '--type', $_ ] } qw(CUSTOMER OPERATOR SYSTEM)),
    (map { [ "status=$_", '--status', $_ ] } qw(ACTIVE DISABLED DELETED)),
    [ "workspaceId=$shop->{workspaceId}", qw(--workspace Shop) ],
    [ "type=CUSTOMER&status=ACTIVE&workspaceId=$shop->{workspaceId}&name=k",
        qw(--type CUSTOMER --status ACTIVE --workspace Shop --name k) ],
) {
    my ($query, @options) = @$_;
    is_deeply api(GET => "?$query&limit=1000")->json->{accounts},
        $c->done(qw(account list --limit 1000), @options), $query;
}
is_deeply names('workspaceId=' . uuid(5)), [], 'of no workspace';

# A page ends where it ends, whatever is added, renamed or deleted meanwhile.
sub pages ($most, $between, $query = '') {
    my ($after, @names) = '';
    do {
        my $page = api(GET => "?limit=$most$query$after")->json;
        push @names, map { $_->{account} } @{ $page->{accounts} };
        $between->($names[-1]);
        $after = defined $page->{next} ? "&after=$page->{next}" : '';
    } while ($after);
    return \@names;
}
my @sorted = sort map { $_->{account} } @{ $listed->{accounts} };
is_deeply pages($_, sub { }), \@sorted, "in pages of $_" for 1, 3, scalar @sorted, 1000;
$pg->sql("insert into accounts (account_name, credential_hash)
    select 'z' || lpad(n::text, 3, '0'), '\$argon2id\$x' from generate_series(1, 20) n");
my $n = 0;
my $seen = pages(4, sub ($last) {
    $n++;
    $pg->sql("insert into accounts (account_name, credential_hash) values ('z000$n', '\$argon2id\$x');
        update accounts set account_name = 'a' || account_name where account_name = '$last'");
}, '&name=z');
is_deeply $seen, [ map { sprintf 'z%03d', $_ } 1 .. 20 ], 'each once, whatever comes and goes';

my %range = (minimum => 1, maximum => 1000);
for (
    (map { [ "limit=$_", parameter(limit => 'out_of_range', %range) ] } 0, 1001, -1, 'x'),
    [ 'type=customer', parameter(type => 'not_allowed') ],
    [ 'status=x', parameter(status => 'not_allowed') ],
    [ 'workspaceId=Shop', parameter(workspaceId => 'malformed') ],
    [ 'tenant=x', parameter(tenant => 'unknown') ],
    (map { [ "after=$_", parameter(after => 'not_allowed') ] } 'x', '!', 'YQ', 'YQBiAA', 'gAA', 'YQB'),
) {
    my ($query, @faults) = @$_;
    bad(api(GET => "?$query"), $query, @faults);
}
is api(GET => '?after=YQA')->status, 200, 'a cursor that is one';

# -- name and status

my $was = good(api(PATCH => "/$id", { account => 'Anne@example.com' }), 'another name');
is_deeply [ @$was{qw(account changed revokedSessions)} ], [ 'anne@example.com', $true, 0 ], 'it has it';
is_deeply audited($id), [ map {"account.$_ $by"} qw(added renamed) ], 'audited';
is good(api(PATCH => "/$id", { account => 'anne@example.com' }), 'the same name')->{changed}, $false,
    'no change';
is_problem(api(PATCH => "/$id", { account => 'bob@example.com' }), 409, 'RESOURCE_EXISTS', 'a taken name');
my $session = logged_in('bob@example.com', credential => 'A g00d one');
my $off = good(api(PATCH => "/$bob->{accountId}", { status => 'DISABLED' }), 'disabled');
is_deeply [ @$off{qw(status changed revokedSessions)} ], [ 'DISABLED', $true, 2 ], 'with its sessions';
is refresh($session)->status, 401, 'its session is over';
is login('bob@example.com', credential => 'A g00d one')->status, 401, 'and no other begins';
is $pg->sql("select count(*) from auth_sessions where account_id = '$bob->{accountId}'
    and status = 'ACTIVE'"), 0, 'the rows are marked';
like $log->(), qr/"event":"account.disabled"[^\n]*"accountId":"$bob->{accountId}"/, 'in the log';
is_deeply [ @{ good(api(PATCH => "/$bob->{accountId}", { status => 'DISABLED' }), 'again') }
    {qw(changed revokedSessions)} ], [ $false, 0 ], 'no change';
good(api(PATCH => "/$bob->{accountId}", { account => 'rob@example.com', status => 'ACTIVE' }),
    'both at once');
is login('rob@example.com', credential => 'A g00d one')->status, 200, 'enabled under another name';
for (
    [ { type => 'OPERATOR' }, pointer('/type', 'unknown') ],
    [ { credential => 'A g00d one', accountId => uuid(3) }, pointer('/accountId', 'unknown'),
        pointer('/credential', 'unknown') ],
    [ { status => 'DELETED' }, pointer('/status', 'not_allowed') ],
    [ { status => undef }, pointer('/status', 'wrong_type') ],
    [ { account => uuid(7) }, pointer('/account', 'not_allowed') ],
) {
    my ($json, @faults) = @$_;
    my $got = api(PATCH => "/$id", $json);
    is_problem($got, 400, 'REQUEST_INVALID', join ' ', sort keys %$json);
    is_deeply [ sort { $a->{pointer} cmp $b->{pointer} } @{ $got->json->{errors} } ], \@faults, 'each fault';
}
is_problem(api(PATCH => "/$_", { status => 'DISABLED' }), 404, 'RESOURCE_NOT_FOUND', "PATCH $_")
    for uuid(5), 'x', $shop->{workspaceId};
lacks(api(PATCH => "/$op->{accountId}", { $_->[0] => $_->[1] }), 'operators:write', "an operator: $_->[0]")
    for [ status => 'DISABLED' ], [ account => 'x' ];
is_problem(api(PATCH => "/$by", { status => 'DISABLED' }, @all), 409, 'RESOURCE_CONFLICT', 'a client');
is api(GET => "/$op->{accountId}")->json->{status}, 'ACTIVE', 'nothing happened to the operator';
good(api(PATCH => "/$op->{accountId}", { status => 'DISABLED' }, scope => [ @may, 'operators:write' ]),
    'with operators:write');

# -- scopes: each call without its own, with all others

my %calls = (
    'GET ' => 'people:read', 'POST ' => 'people:write', "GET /$id" => 'people:read',
    "PATCH /$id" => 'people:write',
);
for my $call (sort keys %calls) {
    my ($method, $path) = split / /, $call, -1;
    my @json = $method eq 'GET' ? (undef) : ({});
    lacks(api($method => $path, @json, scope => [ grep { $_ ne $calls{$call} } @scopes ]),
        $calls{$call}, $call);
    isnt api($method => $path, @json, scope => [ $calls{$call} ])->status, 403, "$call: with it";
    is http($port, $method => "/api/system/accounts$path", json => {})->status, 401, "$call: without a token";
}

$t->done;
