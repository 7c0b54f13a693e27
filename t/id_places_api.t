# Workspaces, branches and members by the API for programs: what each call answers, that
# the commands answer the same, what is refused, and pages while rows come and go.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;
use Platform::Test::Http qw(http_parallel http_request_bytes);
use JSON::PP qw(decode_json);

my $t = Platform::Test->new;
my $pg = $t->postgres(empty => 1);
my $key = jwt_key('identity');
my $c = Platform::Test::Commands->new(test => $t, env => {
    PLATFORM_DB_SEED_ON_START => 'false', PLATFORM_LOG_LEVEL => 'error' });
$c->done('migrate');
my $identity = $t->identity_face(PLATFORM_DB_SEED_ON_START => 'false');
my $port = client_of($t);
my ($true, $false) = (JSON::PP::true(), JSON::PP::false());

my @all = qw(people:read people:write places:read places:write);
$c->done(qw(client add office), map { ('--allow', $_) } @all, 'operators:write', 'audit:read');
sub token (@scopes) {
    return $c->done(qw(token system --ttl 1h --account office),
        map { ('--allow', $_) } @scopes)->{token};
}
my $token = token(@all);
my $operators = token(@all, 'operators:write');

sub ask ($method, $path, $json = undef, %o) {
    return http($port, $method, "/api/system/$path",
        (defined $json ? (json => $json) : ()), token => $token, %o);
}

# The answer's members, without code and message; of a list its rows.
sub got ($status, $method, $path, @more) {
    my $res = ask($method, $path, @more);
    is $res->status, $status, "$method $path: $status" or diag $res->body;
    my %json = %{ $res->json };
    is delete $json{code}, 'SYSTEM_SUCCESS', 'its code';
    ok length(delete $json{message}), 'its message';
    return \%json;
}

sub refused ($status, $code, $name, @request) {
    my $res = ask(@request);
    is_problem($res, $status, $code, $name);
    return $res->json;
}

# The same as a 400 with this fault.
sub invalid ($pointer, $code, $name, @request) {
    my $json = refused(400, 'REQUEST_INVALID', $name, @request);
    is_deeply [ map {"$_->{pointer} $_->{code}"} @{ $json->{errors} } ], ["$pointer $code"],
        "$name: at $pointer";
}

# The events that a block leaves in the audit and as lines of the log.
sub events ($block) {
    my $last = $pg->sql('select coalesce(max(event_id), 0) from audit_events');
    my $seen = () = $identity->log_text =~ /^/mg;
    my @got = $block->();
    my $by = $pg->sql("select string_agg(event, ' ' order by event_id) from audit_events
        where event_id > $last and by_account is not null and by_jti is not null
            and request_id is not null");
    my @lines = split /\n/, $identity->log_text;
    my $log = join ' ', map { decode_json($_)->{event} } grep {/"audit":true/} splice @lines, $seen;
    return ($by, $log, @got);
}

# -- places

my ($by, $log, $shop) = events(sub {
    got(201, POST => 'workspaces', { workspaceName => 'Shop', newTenant => 'Acme' }) });
is_deeply [ $by, $log ], [ ('tenant.added workspace.added') x 2 ], 'audited';
my $location = ask(POST => 'workspaces', { workspaceName => 'Depot', tenantId => $shop->{tenantId} });
my $depot = $location->json;
is_deeply [ $location->status, $location->header('Location') ],
    [ 201, "/api/system/workspaces/$depot->{workspaceId}" ], 'where a workspace is';
is_deeply [ sort keys %$shop ],
    [qw(changed createdAt status tenantId tenantName workspaceId workspaceName)], 'its members';
my $other = got(201, POST => 'workspaces', { workspaceName => 'Shop', newTenant => 'Other' });
my %path = map { $_->{workspaceId} => "workspaces/$_->{workspaceId}" } $shop, $depot, $other;
my ($in_shop, $in_depot, $in_other) = map { $path{ $_->{workspaceId} } } $shop, $depot, $other;

my $main = got(201, POST => "$in_shop/branches", { branchName => 'Main' });
my $back = got(201, POST => "$in_shop/branches", { branchName => 'Back' });
my $far = got(201, POST => "$in_depot/branches", { branchName => 'Main' });
is_deeply [ sort keys %$main ],
    [qw(branchId branchName changed createdAt status workspaceId workspaceName)], 'a branch';

sub same ($path, $key, @command) {
    my ($list, $rows) = (got(200, GET => $path), $c->done(@command));
    is_deeply $list, { $key => $rows, next => undef }, "@command: as GET $path";
    return $rows;
}
my $rows = same('workspaces', workspaces => qw(workspace list));
is_deeply [ map {"$_->{tenantName} $_->{workspaceName}"} @$rows ],
    [ 'Acme Depot', 'Acme Shop', 'Other Shop' ], 'by tenant and name';
same("workspaces?tenantId=$shop->{tenantId}", workspaces => qw(workspace list --tenant Acme));
same('workspaces?name=Sh', workspaces => qw(workspace list --name Sh));
same('workspaces?status=INACTIVE', workspaces => qw(workspace list --status INACTIVE));
same("$in_shop/branches", branches => qw(branch list --workspace), $shop->{workspaceId});
same("$in_shop/branches?name=M", branches => qw(branch list --name M --workspace), $shop->{workspaceId});
is_deeply got(200, GET => $in_shop), $rows->[1], 'one workspace is as in the list';
is_deeply got(200, GET => "branches/$main->{branchId}"), { %$main{ grep { $_ ne 'changed' } keys %$main } },
    'one branch is as it was made';

($by, $log, my $changed) = events(sub {
    got(200, PATCH => $in_shop, { workspaceName => 'Store', status => 'INACTIVE' }) });
is_deeply [ $by, $log, @$changed{qw(workspaceName status changed)} ],
    [ ('workspace.renamed workspace.deactivated') x 2, 'Store', 'INACTIVE', $true ], 'both at once';
($by, $log, $changed) = events(sub {
    got(200, PATCH => $in_shop, { workspaceName => 'Store', status => 'INACTIVE' }) });
is_deeply [ $by, $log, $changed->{changed} ], [ '', '', $false ], 'again: unchanged, not audited';
is got(200, PATCH => $in_shop, { status => 'ACTIVE' })->{workspaceName}, 'Store', 'the name stays';
is got(200, PATCH => $in_shop, { workspaceName => 'Shop' })->{status}, 'ACTIVE', 'the status stays';
my $branch = "branches/$main->{branchId}";
is_deeply [ @{ got(200, PATCH => $branch, { branchName => 'Front', status => 'INACTIVE' }) }
    {qw(branchName status)} ], [ 'Front', 'INACTIVE' ], 'a branch';
got(200, PATCH => $branch, { branchName => 'Main', status => 'ACTIVE' });

# -- members

$c->done(qw(account add --no-login), $_) for 'ann', 'bob';
$c->done(qw(account add --no-login --type OPERATOR chief));
my %id = map { $_ => $c->done(qw(account show), $_)->{accountId} } qw(ann bob chief office);
my %member = map { $_ => "$in_shop/members/$id{$_}" } keys %id;

($by, $log, my $ann) = events(sub { got(201, PUT => $member{ann}) });
is_deeply [ $by, $log ], [ ('member.added') x 2 ], 'audited';
is_deeply [ @$ann{qw(account status branches grants revokedBranches changed)} ],
    [ 'ann', 'ACTIVE', 0, [], 0, $true ], 'a member without grants';
($by, $log, my $again) = events(sub { got(200, PUT => $member{ann}, {}) });
is_deeply [ $by, $log, $again ], [ '', '', { %$ann, changed => $false } ], 'again: unchanged';
is got(201, PUT => "$in_depot/members/$id{ann}")->{workspaceName}, 'Depot', 'of another workspace';

# What a call with these grants leaves.
sub granted ($want, $revoked, $events, @grants) {
    my ($by, $log, $m) = events(sub { got(200, PUT => $member{ann}, { grants => \@grants }) });
    is_deeply [ map { [ $_->{branchName}, "@{ $_->{roles} }" ] }
        sort { $a->{branchName} cmp $b->{branchName} } @{ $m->{grants} } ], $want,
        'exactly these grants';
    is_deeply [ $m->{branches}, $m->{revokedBranches} ], [ scalar @$want, $revoked ], 'counted';
    is join(' ', sort split / /, $log), $events, "log: $events";
    return $by;
}
sub grant ($of, @roles) { return { branchId => $of->{branchId}, roles => \@roles } }
like granted([ [ Main => 'A B' ] ], 0, 'member.granted', grant($main, qw(B A B))),
    qr/member\.granted member\.roles_granted/, 'audit';
is granted([ [ Main => 'A B' ] ], 0, '', grant($main, qw(A B))), '', 'again: unchanged';
granted([ [ Back => '' ], [ Main => 'A' ] ], 0, 'member.granted member.revoked',
    grant($main, 'A'), { branchId => $back->{branchId} });
granted([ [ Main => 'A C' ] ], 1, 'member.granted member.revoked', grant($main, qw(A C)));
is scalar @{ got(200, PUT => $member{ann})->{grants} }, 1, 'without grants they stay';
is_deeply got(200, PUT => $member{ann}, { grants => [ grant($back) ] })->{grants},
    [ { branchId => $back->{branchId}, branchName => 'Back', roles => [] } ], 'a grant';
is $pg->sql("select count(*) from member_roles"), 0, 'roles go with their branch';
granted([], 1, 'member.revoked');
granted([ [ Main => 'A' ] ], 0, 'member.granted', grant($main, 'A'));

same("$in_shop/members", members => qw(member list --workspace), $shop->{workspaceId});
got(201, PUT => $member{bob});
($by, $log, my $ended) = events(sub { got(200, DELETE => $member{ann}) });
is_deeply [ $log, @$ended{qw(status branches grants revokedBranches changed)} ],
    [ 'member.ended', 'INACTIVE', 0, [], 1, $true ], 'ended';
is_deeply [ split / /, $by ], [qw(member.revoked member.roles_revoked member.ended)], 'audited';
is_deeply got(200, DELETE => $member{ann}), { %$ended, changed => $false, revokedBranches => 0 },
    'again: unchanged';
same("$in_shop/members?status=$_", members => qw(member list --status), $_, '--workspace',
    $shop->{workspaceId}) for qw(ACTIVE INACTIVE);
is $pg->sql("select status from members where member_id <> '$ann->{memberId}'
    and account_id = '$id{ann}'"), 'ACTIVE', 'the other membership stays';
is_deeply [ @{ got(200, PUT => $member{ann}) }{qw(memberId status changed)} ],
    [ $ann->{memberId}, 'ACTIVE', $true ], 'restored';

# The commands change and answer the same.
sub as_command ($call, @command) {
    my ($method, $json) = @$call;
    my $want = got(200, $method => $member{ann}, $json);
    is_deeply $c->done(qw(member), @command, qw(--account ann --workspace), $shop->{workspaceId}),
        $want, "member @command: as $method again";
}
got(200, PUT => $member{ann}, { grants => [ grant($main, 'A') ] });
as_command([ PUT => {} ], 'add');
got(200, DELETE => $member{ann});
as_command([ DELETE => undef ], qw(revoke --all));
got(200, PUT => $member{ann});
for my $case ([ $in_shop, workspace => $shop->{workspaceId} ], [ $branch, branch => $main->{branchId} ]) {
    my ($path, $kind, $id) = @$case;
    is_deeply $c->done($kind, 'activate', $id), got(200, PATCH => $path, { status => 'ACTIVE' }),
        "$kind activate: as PATCH";
}

# -- what is refused

my @of_shop = (workspaceName => 'Shop', tenantId => $shop->{tenantId});
refused(409, 'RESOURCE_EXISTS', 'a name that is taken', @$_)
    for [ POST => 'workspaces', {@of_shop} ],
    [ POST => 'workspaces', { workspaceName => 'New', newTenant => 'Acme' } ],
    [ POST => "$in_shop/branches", { branchName => 'Main' } ],
    [ PATCH => $in_shop, { workspaceName => 'Depot' } ],
    [ PATCH => $branch, { branchName => 'Back' } ];
is $pg->sql('select count(*) from workspaces') . $pg->sql('select count(*) from tenants'), '32',
    'nothing was made';

invalid(@$_) for
    [ '/tenantId', 'missing', 'no tenant', POST => 'workspaces', { workspaceName => 'W' } ],
    [ '/newTenant', 'conflict', 'two tenants', POST => 'workspaces',
        { @of_shop, newTenant => 'N' } ],
    [ '/tenantId', 'not_allowed', 'an unknown tenant', POST => 'workspaces',
        { workspaceName => 'W', tenantId => uuid(7) } ],
    [ '/tenantId', 'malformed', 'no UUID', POST => 'workspaces',
        { workspaceName => 'W', tenantId => 'Acme' } ],
    [ '/workspaceName', 'too_short', 'no name', POST => 'workspaces',
        { workspaceName => '', newTenant => 'N' } ],
    [ '/workspaceName', 'too_long', 'a long name', PATCH => $in_shop,
        { workspaceName => 'x' x 201 } ],
    [ '/workspaceName', 'not_allowed', 'a control character', PATCH => $in_shop,
        { workspaceName => "a\nb" } ],
    [ '/newTenant', 'not_allowed', 'in the name of a tenant', POST => 'workspaces',
        { workspaceName => 'W', newTenant => "a\tb" } ],
    [ '/branchName', 'not_allowed', 'in the name of a branch', POST => "$in_shop/branches",
        { branchName => "a\tb" } ],
    [ '/branchName', 'missing', 'no branch', POST => "$in_shop/branches", {} ],
    [ '/status', 'not_allowed', 'another status', PATCH => $in_shop, { status => 'DELETED' } ],
    [ '/status', 'wrong_type', 'null', PATCH => $branch, { status => undef } ],
    [ '/grants', 'wrong_type', 'grants', PUT => $member{ann}, { grants => {} } ],
    [ '/grants/0', 'wrong_type', 'a grant', PUT => $member{ann}, { grants => ['x'] } ],
    [ '/grants/0/branchId', 'missing', 'no branch', PUT => $member{ann}, { grants => [ {} ] } ],
    [ '/grants/1/branchId', 'not_allowed', 'a branch twice', PUT => $member{ann},
        { grants => [ grant($main), grant($main) ] } ],
    [ '/grants/1/branchId', 'not_allowed', 'a branch of another workspace', PUT => $member{ann},
        { grants => [ grant($main), grant($far) ] } ],
    [ '/grants/0/branchId', 'not_allowed', 'an unknown branch', PUT => $member{ann},
        { grants => [ { branchId => uuid(7) } ] } ],
    (map { [ '/grants/0/roles/1', @$_[ 0, 1 ], PUT => $member{ann}, { grants => [ grant($main, 'A', $_->[2]) ] } ] }
        [ 'malformed', 'a role', 'A,B' ], [ 'too_short', 'an empty role', '' ],
        [ 'too_long', 'a long role', 'R' x 33 ], [ 'wrong_type', 'a number', 1 ]),
    # Members that a call does not know, above all those of the answer.
    (map { [ "/$_", 'unknown', "member $_", PATCH => $in_shop, { status => 'ACTIVE', $_ => 'x' } ] }
        qw(workspaceId tenantId tenantName createdAt changed branchName)),
    (map { [ "/$_", 'unknown', "member $_", PATCH => $branch, { $_ => 'x' } ] }
        qw(branchId workspaceId workspaceName)),
    (map { [ "/$_", 'unknown', "member $_", POST => 'workspaces', { workspaceName => 'W',
        newTenant => 'N', $_ => 'x' } ] } qw(status workspaceId)),
    [ '/status', 'unknown', 'member status', POST => "$in_shop/branches",
        { branchName => 'B', status => 'INACTIVE' } ],
    (map { [ "/$_", 'unknown', "member $_", PUT => $member{ann}, { $_ => 'x' } ] }
        qw(status accountId memberId type)),
    [ '/grants/0/granted', 'unknown', 'member granted', PUT => $member{ann},
        { grants => [ { %{ grant($main) }, granted => 1 } ] } ];
is_deeply [ map { $pg->sql("select count(*) from $_") } qw(workspaces tenants branches branch_grants) ],
    [ 3, 2, 3, 0 ], 'nothing was made or granted';
for my $query ('limit=0', 'limit=1001', 'after=x', 'status=x', 'tenantName=x', 'name=%ff',
    'after=eAB5AHoA', 'after=' . ('A' x 40)) {
    refused(400, 'REQUEST_INVALID', "$_?$query", GET => "$_?$query")
        for 'workspaces', "$in_shop/branches", "$in_shop/members";
}

my $none = uuid(7);
refused(404, 'RESOURCE_NOT_FOUND', "$_->[0] $_->[1]", @$_) for
    (map { my $id = $_; ([ GET => "workspaces/$id" ], [ PATCH => "workspaces/$id", {} ],
        [ GET => "workspaces/$id/branches" ], [ GET => "workspaces/$id/members" ],
        [ POST => "workspaces/$id/branches", { branchName => 'B' } ],
        [ PUT => "workspaces/$id/members/$id{ann}" ], [ DELETE => "workspaces/$id/members/$id{ann}" ],
        [ PUT => "$in_shop/members/$id" ], [ DELETE => "$in_shop/members/$id" ],
        [ GET => "branches/$id" ], [ PATCH => "branches/$id", {} ]) }
        $none, 'x', "$none'", substr($none, 1)),
    # Ids of other things.
    [ GET => "workspaces/$main->{branchId}" ], [ GET => "branches/$shop->{workspaceId}" ],
    [ GET => "$in_shop/members/$id{ann}/x" ],
    [ PUT => "$in_shop/members/$ann->{memberId}" ], [ DELETE => "$in_shop/members/$ann->{memberId}" ],
    # Not a member there.
    [ DELETE => "$in_depot/members/$id{bob}" ], [ DELETE => "$in_other/members/$id{ann}" ];
is_problem(ask(GET => "$in_shop/members/$id{ann}"), 405, 'METHOD_NOT_ALLOWED', 'no such call');

# Scopes: each call with all scopes but its own.
for my $case (
    [ 'places:read', [ GET => 'workspaces' ], [ GET => $in_shop ], [ GET => "$in_shop/branches" ],
        [ GET => $branch ] ],
    [ 'places:write', [ POST => 'workspaces', { workspaceName => 'W', newTenant => 'N' } ],
        [ PATCH => $in_shop, {} ], [ POST => "$in_shop/branches", { branchName => 'B' } ],
        [ PATCH => $branch, {} ] ],
    [ 'people:read', [ GET => "$in_shop/members" ] ],
    [ 'people:write', [ PUT => $member{ann} ], [ DELETE => $member{ann} ] ],
) {
    my ($scope, @calls) = @$case;
    my $less = token(grep { $_ ne $scope } @all, 'operators:write', 'audit:read');
    my $just = token($scope);
    for my $call (@calls) {
        my ($method, $path, $json) = @$call;
        my $res = ask($method, $path, $json, token => $less);
        is_problem($res, 403, 'AUTH_SCOPE_REQUIRED', "$method $path without $scope");
        like $res->header('WWW-Authenticate'), qr/ scope="$scope"\z/, 'which names it';
        is ask($method, $path, $json, token => undef)->status, 401, 'without a token';
        like ask($method, $path, $json, token => $just)->status, qr/\A20[01]\z/, "with $scope alone";
    }
}
got(200, PUT => $member{ann});

# Accounts of operators, of programs, and deleted ones.
my $res = ask(PUT => $member{chief});
is_problem($res, 403, 'AUTH_SCOPE_REQUIRED', 'an operator as a member');
like $res->header('WWW-Authenticate'), qr/ scope="operators:write"\z/, 'which names the scope';
got(201, PUT => $member{chief}, { grants => [ grant($main) ] }, token => $operators);
refused(403, 'AUTH_SCOPE_REQUIRED', "an operator's $_->[0]", @$_)
    for [ DELETE => $member{chief} ], [ PUT => $member{chief} ],
    [ PUT => $member{chief}, { grants => [] } ];
is $pg->sql("select count(*) from branch_grants g join members using (member_id)
    where account_id = '$id{chief}'"), 1, 'it stays';
got(200, DELETE => $member{chief}, undef, token => $operators);
for my $method (qw(PUT DELETE)) {
    refused(409, 'RESOURCE_CONFLICT', "$method of a program", $method => $member{office}, undef,
        token => $operators);
}
is $pg->sql("select count(*) from members where account_id = '$id{office}'"), 0, 'not a member';
$c->done(qw(account delete bob));
refused(409, 'RESOURCE_CONFLICT', "$_ of a deleted account", $_ => $member{bob}) for qw(PUT DELETE);

# -- limits

$pg->sql("insert into branches (workspace_id, branch_name)
    select '$depot->{workspaceId}', 'S' || lpad(n::text, 3, '0') from generate_series(1, 201) n");
my @many = map { { branchId => $_ } } split /\n/, $pg->sql("select branch_id from branches
    where workspace_id = '$depot->{workspaceId}' and branch_name like 'S%'");
my $in_many = "$in_depot/members/$id{ann}";
refused(409, 'RESOURCE_LIMIT_REACHED', '201 branches', PUT => $in_many, { grants => \@many });
is got(200, PUT => $in_many, { grants => [ @many[ 0 .. 199 ] ] })->{branches}, 200, '200 branches';
is got(200, PUT => $in_many, { grants => [ @many[ 1 .. 200 ] ] })->{branches}, 200,
    'others in their place';
refused(409, 'RESOURCE_LIMIT_REACHED', '33 roles', PUT => $member{ann},
    { grants => [ grant($main, map {"R$_"} 1 .. 33) ] });
is scalar @{ got(200, PUT => $member{ann}, { grants => [ grant($main, map {"R$_"} 1 .. 32) ] })
    ->{grants}[0]{roles} }, 32, '32 roles';
my @roles = map { chr(65 + $_ % 26) . int($_ / 26) } 0 .. 31;
my $most = got(200, PUT => $in_many, { grants => [ map { { %$_, roles => \@roles } } @many[ 0 .. 199 ] ] });
is scalar(map { @{ $_->{roles} } } @{ $most->{grants} }), 6400, '200 branches with 32 roles each';
got(200, PUT => $in_many, { grants => [] });

# -- pages, while rows are added and renamed

# The names of a list in pages of three.  After the first page its last row is renamed by
# sql, a row is added before it and one after it.
sub pages ($path, $key, $name, $sql) {
    my ($after, @names) = '';
    do {
        my $page = got(200, GET => $path . ($path =~ /\?/ ? '&' : '?') . "limit=3$after");
        push @names, map { $_->{$name} } @{ $page->{$key} };
        $pg->sql($sql) if @names == 3;
        $after = defined $page->{next} ? "&after=$page->{next}" : '';
    } while ($after);
    return join ' ', @names;
}
sub named ($n) { return sprintf 'P%02d', $n }
my $tenant = $other->{tenantId};
$pg->sql("insert into workspaces (tenant_id, workspace_name)
        select '$tenant', 'P' || lpad(n::text, 2, '0') from generate_series(2, 14, 2) n;
    insert into branches (workspace_id, branch_name)
        select '$other->{workspaceId}', 'P' || lpad(n::text, 2, '0') from generate_series(2, 14, 2) n;
    insert into accounts (account_name, credential_hash)
        select 'p' || lpad(n::text, 2, '0'), '\$argon2id\$x' from generate_series(2, 15) n;
    insert into members (account_id, workspace_id)
        select account_id, '$other->{workspaceId}' from accounts where account_name ~ '^p..\$'
            and right(account_name, 2)::int % 2 = 0");
my $want = 'P02 P04 P06 P07 P08 P10 P12 P14';
my $moved = "insert into workspaces (tenant_id, workspace_name) values ('$tenant', 'P03'), ('$tenant', 'P07');
    update workspaces set workspace_name = 'A06' where workspace_name = 'P06';
    update tenants set tenant_name = 'A' || tenant_name where tenant_id = '$tenant';";
is pages("workspaces?name=P&tenantId=$tenant", workspaces => workspaceName => $moved), $want,
    'workspaces of a tenant, though it is renamed';
is pages("$in_other/branches", branches => branchName => "
    insert into branches (workspace_id, branch_name) values ('$other->{workspaceId}', 'P03'),
        ('$other->{workspaceId}', 'P07');
    update branches set branch_name = 'A06' where branch_name = 'P06';
    update workspaces set workspace_name = 'Shed' where workspace_id = '$other->{workspaceId}'"),
    $want, 'branches of a workspace, though it is renamed';
is pages("$in_other/members", members => account => "
    insert into members (account_id, workspace_id) select account_id, '$other->{workspaceId}'
        from accounts where account_name in ('p03', 'p07');
    update accounts set account_name = 'a06' where account_name = 'p06';
    update workspaces set workspace_name = 'Shop' where workspace_id = '$other->{workspaceId}'"),
    lc $want, 'members of a workspace';
is pages('workspaces?name=P', workspaces => workspaceName => 'select 1'),
    'P02 P03 P04 P07 P08 P10 P12 P14', 'workspaces of all tenants';
my $cursor = got(200, GET => "$in_other/members?limit=1")->{next};
is_deeply got(200, GET => "$in_shop/members?limit=1000&after=$cursor")->{members},
    [ grep { $_->{account} gt 'a06' } @{ got(200, GET => "$in_shop/members")->{members} } ],
    'a cursor of another list shows nothing else';

# -- at once

# A change waits for another one of the same account.
restart($identity, DB_LOCK_TIMEOUT => '0.1s');
my $held = $pg->begin("select 1 from accounts where account_id = '$id{ann}' for no key update");
refused(503, 'AUTH_BUSY', 'an account that is being changed', DELETE => $member{ann});
$pg->end($held, 'rollback');
is $pg->sql("select status from members where member_id = '$ann->{memberId}'"), 'ACTIVE',
    'nothing was done';
restart($identity, DB_LOCK_TIMEOUT => '30s');

# Two sets of grants for one member, many times: one of the two is left, whole.
my @sets = ([ grant($main, qw(A B)), grant($back, 'C') ], [ grant($main, 'D') ]);
my @calls = map { [ $port, http_request_bytes(PUT => "/api/system/$member{ann}",
    json => { grants => $sets[ $_ % 2 ] }, token => $token) ] } 1 .. 20;
is_deeply [ map { $_->status } http_parallel(\@calls) ], [ (200) x 20 ], 'twenty PUTs at once';
my $left = join ' ', map { "$_->{branchName}:" . join ',', @{ $_->{roles} } }
    sort { $b->{branchName} cmp $a->{branchName} } @{ got(200, PUT => $member{ann})->{grants} };
like $left, qr/\A(?:Main:A,B Back:C|Main:D)\z/, 'leave one of the two';
@calls = map { [ $port, http_request_bytes(POST => '/api/system/workspaces', token => $token,
    json => { workspaceName => 'Rush', newTenant => 'Rush' }) ] } 1 .. 8;
is_deeply [ sort map { $_->status } http_parallel(\@calls) ], [ 201, (409) x 7 ], 'one tenant is made';
my %once = (headers => [ 'Idempotency-Key' => 'k1' ]);
my @repeated = map { ask(POST => 'workspaces', { workspaceName => 'Once', newTenant => 'Once' }, %once) } 1, 2;
is_deeply [ map { $_->status, $_->header('Idempotent-Replayed'), $_->body, $_->header('Location') } @repeated ],
    [ 201, undef, @{[ $repeated[0]->body ]}, $repeated[0]->header('Location'),
        201, 'true', $repeated[0]->body, $repeated[0]->header('Location') ],
    'a repeated call makes one workspace';

$t->done;
