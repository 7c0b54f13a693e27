# The API for programs at the identity face: who may call it, what it refuses, and that
# it answers as the command does, page by page.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $key = jwt_key('identity');
my %env = (PLATFORM_LOG_LEVEL => 'error');
my $c = Platform::Test::Commands->new(test => $t, env => \%env);
my $identity = $t->identity_face;
my $port = client_of($t);

my $client = $c->done(qw(client add job --allow audit:read --allow people:read));
my $id = $client->{accountId};
my $secret = $c->done(qw(client secret add job))->{secret};
sub token ($scope) {
    return http($port, POST => '/api/auth/token', body => "grant_type=client_credentials&client_id=$id"
        . "&client_secret=$secret&scope=$scope",
        headers => [ 'Content-Type' => 'application/x-www-form-urlencoded' ])->json->{access_token};
}
my $token = token('audit:read');
sub ask ($query = '', %o) {
    return http($port, GET => "/api/system/audit$query", token => $token, %o);
}
my @rows = map { $c->done(qw(account add --no-login), "person$_\@demo.test") } 1 .. 7;

# -- the command's answer

my $all = $c->done(qw(audit list --limit 1000));
my $res = ask('?limit=1000');
is_deeply [ $res->status, $res->json->{code}, $res->json->{next} ], [ 200, 'SYSTEM_SUCCESS', undef ],
    'all events';
is_deeply $res->json->{events}, $all, 'are those of the command, member by member';
is_deeply ask("?accountId=$rows[2]{accountId}")->json->{events},
    $c->done(qw(audit list --account person3@demo.test)), 'accountId';
is_deeply ask('?event=account.added')->json->{events},
    $c->done(qw(audit list --event account.added)), 'event';
is scalar @{ ask('?until=2020-01-01T00:00:00Z')->json->{events} }, 0, 'until';
is scalar @{ ask('?since=2020-01-01T00:00:00Z&limit=1000')->json->{events} }, scalar @$all, 'since';

my ($after, @pages) = '';
do {
    my $page = ask("?limit=3$after")->json;
    push @pages, @{ $page->{events} };
    $c->done(qw(account add --no-login), 'later' . @pages . '@demo.test') if @pages < 9;
    $after = defined $page->{next} ? "&after=$page->{next}" : '';
} while ($after);
is_deeply \@pages, $all, 'page by page, though events are added meanwhile';

# -- who may

sub refused ($res, $status, $code, $challenge, $name) {
    is_problem($res, $status, $code, $name);
    is $res->header('WWW-Authenticate'), "Bearer realm=\"platform\"$challenge", "$name: the challenge";
}
my @no = (401, 'AUTH_ACCESS_TOKEN_REQUIRED');
my @bad = ', error="invalid_token"';
refused(ask('', token => undef), @no, '', 'no token');
my $of_session = logged_in('one');
refused(ask('', token => $of_session->{accessToken}), @no, @bad, 'a token of a branch');
refused(ask('', token => $of_session->{refreshToken}), @no, @bad, 'a refresh token');
refused(ask('', token => jwt_tamper($token, 2, 100)), @no, @bad, 'a changed signature');
refused(ask('', token => token('people:read')), 403, 'AUTH_SCOPE_REQUIRED',
    ', error="insufficient_scope", scope="audit:read"', 'another scope');
my $old = $token;
$c->done(qw(client disallow job --scope people:read));
refused(ask('', token => $old), 401, 'AUTH_SESSION_NOT_ACTIVE', @bad, 'a token from before a scope was taken away');
$token = token('audit:read');
is ask()->status, 200, 'and one from after it';
# Without the moment before which its tokens have ended.
my $program = sub ($status) {
    $pg->sql("update accounts set status = '$status' where account_id = '$id';
        update accounts set sessions_valid_after = '2020-01-01' where account_id = '$id'");
    return ask();
};
refused($program->('DISABLED'), 401, 'AUTH_SESSION_NOT_ACTIVE', @bad, 'a program whose row is disabled');
is $program->('ACTIVE')->status, 200, 'and enabled again';
$c->done(qw(account disable job));
refused(ask(), 401, 'AUTH_SESSION_NOT_ACTIVE', @bad, 'a disabled program');
$c->done(qw(account enable job));
$token = token('audit:read');

# -- queries that are refused

sub fault ($parameter, $code, %more) { return { parameter => $parameter, code => $code, %more } }
my %range = (minimum => 1, maximum => 1000);
my %number = (minimum => 1, maximum => 9223372036854775807);
my $long = 'n' x 64;
for (
    (map { [ "limit=$_", fault(limit => 'out_of_range', %range) ] } 0, 1001, 'x'),
    (map { [ "after=$_", fault(after => 'out_of_range', %number) ] } 'x', -1),
    [ 'after=999999999', fault(after => 'not_allowed') ],
    (map { [ "since=$_", fault(since => 'malformed') ] } 'yesterday', '2026-02-30T00:00:00Z'),
    [ 'accountId=x', fault(accountId => 'malformed') ],
    [ 'name=x', fault(name => 'unknown') ],
    [ "$long=x&n$long=x", fault($long => 'unknown'), fault('' => 'unknown') ],
    (map { [ $_, fault('' => 'malformed') ] } 'limit=1&limit=2', 'event=%zz', 'event=%00'),
    [ 'until=x&name=x&limit=0', fault(name => 'unknown'), fault(until => 'malformed'),
        fault(limit => 'out_of_range', %range) ],
) {
    my ($query, @faults) = @$_;
    my $got = ask("?$query");
    is_problem($got, 400, 'REQUEST_INVALID', $query);
    is_deeply $got->json->{errors}, \@faults, "$query: each fault";
}
is ask("?$_")->status, 200, "$_ is no fault"
    for 'limit=', 'limit=1', 'limit=1000', 'since=2026-02-28T00:00:00Z', "accountId=$id", 'event=x';
is http($port, POST => '/api/system/audit', body => '', token => $token)->status, 405, 'POST';
is http($port, GET => '/api/system/none', token => $token)->status, 404, 'another path';

# -- every operation: the command does the same, and answers with the same members

my @all = qw(people:read people:write places:read places:write credentials:write operators:write
    audit:read);
my $whole = $c->done(qw(token system --ttl 1h --account), $c->done(qw(client add all),
    map { ('--allow', $_) } @all)->{accountId}, map { ('--allow', $_) } @all)->{token};

# Twins: what the API is asked about the one, commands are about the other.
sub twin ($n) {
    my %of = (tenant => "Tenant$n", shop => "Shop$n", main => "Main$n", ann => lc "ann$n\@demo.test",
        n => $n);
    my $shop = $c->done(qw(workspace add), $of{shop}, '--new-tenant', $of{tenant});
    my $main = $c->done(qw(branch add), $of{main}, '--workspace', $of{shop});
    my $ann = $c->done({ stdin => $Platform::Test::Client::CREDENTIAL }, qw(account add), $of{ann});
    $c->done(qw(member add --account), $of{ann}, '--workspace', $of{shop});
    $c->done(qw(member grant --role B --role A --account), $of{ann}, '--branch', $of{main});
    my @sessions = map { session_of(logged_in($of{ann})) } 1 .. 3;
    login($of{ann}, credential => 'wrong');
    my $factor = $pg->sql("insert into factors (account_id, factor_type, factor_name, confirmed_at, key_id, secret)
        values ('$ann->{accountId}', 'totp', 'Phone', now(), 'a', '') returning factor_id") =~ s/\s.*//sr;
    return { %of, factorId => $factor, tenantId => $shop->{tenantId}, shopId => $shop->{workspaceId},
        mainId => $main->{branchId}, annId => $ann->{accountId}, sessionId => $sessions[0] };
}
my ($one, $other) = map { twin($_) } qw(Left Right);

# The text for this twin: {name} stands for what is called so.
sub about ($twin, $text) { return $text =~ s/\{(\w+)\}/$twin->{$1} \/\/ die $1/ger }

# An answer without what two answers about twins differ in.
sub alike ($twin, $value) {
    return [ map { alike($twin, $_) } @$value ] if ref $value eq 'ARRAY';
    return { map { ($_ => $_ eq 'eventId' ? 'N' : alike($twin, $value->{$_})) } keys %$value }
        if ref $value eq 'HASH';
    return $value if ref $value || !defined $value;
    my %name = map { ($twin->{$_} => "{$_}") } grep { $_ ne 'n' } keys %$twin;
    $value = $name{$value} // $value;
    my $uuid = qr/\A[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}\z/;
    return $value =~ $uuid ? 'an id' : $value =~ /\A\d{4}-\d\d-\d\dT[\d:]+Z\z/ ? 'a time'
        : $value =~ /\A(?:[A-Z2-9]{4}-){3}/ ? 'a code' : $value =~ s/$twin->{n}\b/{n}/ir;
}

# A row: the call and its body, the command, and more: rows, the member of a list; pick, the
# command's row that is the answer; api, what becomes of the API's answer.
my $no_audit = sub ($said) { delete @$said{qw(operator byAccountId byTokenId requestId address)}; $said };
my $flat = sub ($got) {    # account show has grants beside memberships
    $got->{grants} = [ map { my $m = $_; map { +{ %$_, %$m{qw(workspaceId workspaceName)} } }
        @{ delete $m->{grants} } } @{ $got->{memberships} } ];
    $got;
};
my $part = sub ($said, $got) { +{ map { ($_ => $said->{$_}) } keys %$got } };
my ($accounts, $shops) = ('/accounts', '/workspaces');
my @operations = (
    [ "GET $accounts?name=ann{n}", undef, 'account list --name ann{n}', rows => 'accounts' ],
    [ "POST $accounts", '{"account":"Bob{n}@demo.test","type":"OPERATOR"}',
        'account add Bob{n}@demo.test --type OPERATOR --no-login' ],
    [ "GET $accounts/{annId}", undef, 'account show {ann}', api => $flat, command => $part ],
    [ "GET $accounts/{annId}/sessions", undef, 'account sessions {ann}', rows => 'sessions' ],
    [ "DELETE $accounts/{annId}/sessions/{sessionId}", undef,
        'account revoke-sessions {ann} --session {sessionId}',
        api => sub ($got) { delete $got->{sessionId}; $got }, command => $part ],
    [ "GET $accounts/{annId}/factors", undef, 'account show {ann}', command => $part ],
    [ "DELETE $accounts/{annId}/factors/{factorId}", undef, 'account remove-factor {ann} --factor {factorId}',
        api => sub ($got) { delete $got->{factorId}; $got }, command => $part ],
    [ "POST $accounts/{annId}/unlock", '{}', 'account unlock {ann}' ],
    [ "POST $accounts/{annId}/reset-code", '{"ttl":300}', 'account reset-code {ann} --ttl 5m' ],
    [ "POST $accounts/{annId}/revoke-sessions", '{}', 'account revoke-sessions {ann}' ],
    (map { [ "PATCH $accounts/{annId}", $_->[0], "account $_->[1] {ann}$_->[2]" ] }
        [ '{"status":"DISABLED"}', disable => '' ], [ '{"status":"ACTIVE"}', enable => '' ],
        [ '{"status":"ACTIVE"}', enable => '' ], [ '{"account":"{ann}"}', rename => ' --to {ann}' ]),
    [ "GET $shops?tenantId={tenantId}", undef, 'workspace list --tenant {tenant}', rows => 'workspaces' ],
    [ "GET $shops/{shopId}", undef, 'workspace list --tenant {tenant}', pick => 0 ],
    [ "POST $shops", '{"workspaceName":"Depot","tenantId":"{tenantId}"}',
        'workspace add Depot --tenant {tenant}' ],
    [ "PATCH $shops/{shopId}", '{"status":"INACTIVE"}', 'workspace deactivate {shop}' ],
    [ "PATCH $shops/{shopId}", '{"status":"ACTIVE"}', 'workspace activate {shop}' ],
    [ "POST $shops/{shopId}/branches", '{"branchName":"Zone"}', 'branch add Zone --workspace {shop}' ],
    [ "GET $shops/{shopId}/branches", undef, 'branch list --workspace {shop}', rows => 'branches' ],
    [ 'GET /branches/{mainId}', undef, 'branch list --workspace {shop}', pick => 0 ],
    [ 'PATCH /branches/{mainId}', '{"branchName":"Main"}', 'branch rename {main} --to Main' ],
    [ "GET $shops/{shopId}/members", undef, 'member list --workspace {shop}', rows => 'members' ],
    [ "DELETE $shops/{shopId}/members/{annId}", undef, 'member revoke --all --account {ann} --workspace {shop}' ],
    [ "PUT $shops/{shopId}/members/{annId}", '{}', 'member add --account {ann} --workspace {shop}' ],
    [ '/audit?accountId={annId}&limit=3' =~ s/^/GET /r, undef, 'audit list --account {ann} --limit 3',
        rows => 'events', each => $no_audit ],
    [ "DELETE $accounts/{annId}", undef, 'account delete {ann}', api => $flat, command => $part ],
);
for my $row (@operations) {
    my ($call, $json, $command, %o) = @$row;
    my ($method, $path) = split / /, about($one, $call), 2;
    my $res = http($port, $method => "/api/system$path", token => $whole,
        defined $json ? (body => about($one, $json),
            headers => [ 'Content-Type' => 'application/json' ]) : ());
    like $res->status, qr/\A20[01]\z/, "$call: it succeeds" or diag $res->body;
    my $got = $res->json;
    delete @$got{qw(code message next)};
    $got = $got->{ $o{rows} } if $o{rows};
    my $said = $c->done(map { about($other, $_) } split / /, $command);
    $said = $said->[ $o{pick} ] if exists $o{pick};
    if ($o{each}) { $o{each}->($_) for @$got, @$said }
    $got = $o{api}->($got) if $o{api};
    $said = $o{command}->($said, $got) if $o{command};
    ok scalar(ref $got eq 'ARRAY' ? @$got : keys %$got), "$call: has members";
    is_deeply alike($other, $said), alike($one, $got), "$command: as $call"
        or diag explain alike($other, $said), alike($one, $got);
}
my %known = map { ((split /[ ?]/, $_->[0])[0] . ' /api/system' . (split /[ ?]/, $_->[0])[1] => 1) } @operations;
my ($at, %documented) = '';
for (split /\n/, $t->read_file($t->root . '/docs/openapi-system.yaml')) {
    $at = $1 if /^  (\/\S+):$/;
    $documented{ uc($1) . " $at" } = 1
        if $at =~ m{^/api/system/} && /^    (get|post|put|patch|delete):$/;
}
my %stand = (annId => 'accountId', shopId => 'workspaceId', mainId => 'branchId');
is_deeply [ sort map {s/\{(\w+)\}/'{' . ($stand{$1} \/\/ $1) . '}'/ger} keys %known ],
    [ sort keys %documented ], 'these are all operations of openapi-system.yaml';

my $off = $t->identity(PLATFORM_SYSTEM_API => 'off', name => 'off');
like $t->fcgi($off->address)->request(GET => '/api/system/audit')->{stdout}, qr/\AStatus: 404/,
    'PLATFORM_SYSTEM_API=off: not at all';
$t->done;
