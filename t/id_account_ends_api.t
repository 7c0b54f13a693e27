# What ends accounts and sessions by the API, and what helps their owners in again: each
# call and its refusals, who may make it, and that it answers as the command does.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $c = Platform::Test::Commands->new(test => $t, env => { PLATFORM_LOG_LEVEL => 'error' });
my $identity = $t->identity_face(PLATFORM_AUTH_MAX_FAILURES => 3);
my $port = client_of($t);
my ($true, $false) = (JSON::PP::true(), JSON::PP::false());

my @scopes = qw(people:read people:write places:read places:write credentials:write
    operators:write audit:read);
my $client = $c->done(qw(client add job), map { ('--allow', $_) } @scopes);
my $by = $client->{accountId};
my $secret = $c->secret($c->done(qw(client secret add job))->{secret});
my %token;
sub token (@scope) {
    return $token{"@scope"} //= http($port, POST => '/api/auth/token',
        body => "grant_type=client_credentials&client_id=$by&client_secret=$secret&scope="
            . join('%20', @scope),
        headers => [ 'Content-Type' => 'application/x-www-form-urlencoded' ])->json->{access_token};
}
my @may = qw(people:read people:write credentials:write);
my @operators = (scope => [ @may, 'operators:write' ]);

# The answer to METHOD /api/system/accounts$path; without a body of its own a POST has none.
sub api ($method, $path, %o) {
    my $scope = delete $o{scope} // \@may;
    $o{body} = '' if $method eq 'POST' && !exists $o{json};
    return http($port, $method => "/api/system/accounts$path", token => token(@$scope), %o);
}
sub good ($res, $name, $status = 200) {
    is $res->status, $status, $name or diag $res->body;
    my %got = %{ $res->json };
    is delete $got{code}, 'SYSTEM_SUCCESS', "$name: the code";
    ok length(delete $got{message} // ''), "$name: a message";
    return \%got;
}
sub bad ($res, $name, @faults) {
    is_problem($res, 400, 'REQUEST_INVALID', $name);
    is_deeply $res->json->{errors}, \@faults, "$name: each fault" or diag $res->body;
}
sub lacks ($res, $scope, $name) {
    is_problem($res, 403, 'AUTH_SCOPE_REQUIRED', $name);
    like $res->header('WWW-Authenticate'), qr/, scope="$scope"\z/, "$name: the challenge";
}
sub audited ($id) {
    return [ map {"$_->{event} " . ($_->{byAccountId} // 'command')}
        reverse @{ $c->done(qw(audit list --account), $id) } ];
}
sub add ($name, %more) {
    return http($port, POST => '/api/system/accounts', token => token(@scopes),
        json => { account => "$name\@example.com", %more })->json->{accountId};
}
my @credential = (credential => 'A g00d one');
sub in ($name) { return logged_in("$name\@example.com", @credential) }

my ($ann, $bob) = map { add($_, @credential) } qw(ann bob);
my $op = add('op', type => 'OPERATOR', @credential);
my $gone = add('gone');
$c->done(qw(account delete gone@example.com));

# -- sessions

my @ann = map { in('ann') } 1 .. 5;
my $list = good(api(GET => "/$ann/sessions"), 'the sessions');
my $said = $c->done(qw(account sessions ann@example.com));
is_deeply [ sort keys %{ $list->{sessions}[0] } ], [ sort keys %{ $said->[0] } ], 'the members of the command';
is_deeply $list->{sessions}, $said, 'as the command says';
is $list->{next}, undef, 'all of them';
my ($after, @seen) = '';
do {
    my $page = api(GET => "/$ann/sessions?limit=2$after")->json;
    push @seen, map { $_->{sessionId} } @{ $page->{sessions} };
    $after = defined $page->{next} ? "&after=$page->{next}" : '';
} while ($after);
is_deeply \@seen, [ map { $_->{sessionId} } @$said ], 'page by page';

my $own = session_of($ann[0]);
my $bobs = session_of(in('bob'));
is_problem(api(DELETE => "/$ann/sessions/$_"), 404, 'RESOURCE_NOT_FOUND', "not the session $_")
    for $bobs, uuid(9), 'x';
is_problem(api(DELETE => "/$bob/sessions/$own"), 404, 'RESOURCE_NOT_FOUND', 'nor of another account');
is $pg->sql("select count(*) from auth_sessions where status = 'REVOKED'"), 0, 'none has ended';
is_deeply good(api(DELETE => "/$ann/sessions/$own"), 'end one'),
    { accountId => $ann, sessionId => $own }, 'it is named';
is refresh($ann[0])->status, 401, 'it is over';
is refresh($ann[1])->status, 200, 'another goes on';
is_problem(api(DELETE => "/$ann/sessions/$own"), 404, 'RESOURCE_NOT_FOUND', 'it ends once');
is_deeply audited($ann), [ "account.added $by", "account.sessions_revoked $by" ], 'audited';
is scalar @{ api(GET => "/$ann/sessions")->json->{sessions} }, 4, 'four are left';
my $all = good(api(GET => "/$ann/sessions?all=true&limit=1000"), 'all');
is_deeply $all->{sessions}, $c->done(qw(account sessions ann@example.com --all)), 'with the one that ended';
bad(api(GET => "/$ann/sessions?$_->[0]"), $_->[0], $_->[1]) for
    [ 'limit=0', { parameter => 'limit', code => 'out_of_range', minimum => 1, maximum => 1000 } ],
    [ 'all=1', { parameter => 'all', code => 'not_allowed' } ],
    [ 'name=x', { parameter => 'name', code => 'unknown' } ],
    (map { [ "after=$_", { parameter => 'after', code => 'not_allowed' } ] } 'x', 'MQB4AA', 'LTEAeAA', 'YQBiAGMA');

my $ended = good(api(POST => "/$ann/revoke-sessions"), 'end all sessions');
is $ended->{revokedSessions}, 4, 'all four';
is_deeply [ @$ended{qw(accountId account status)} ], [ $ann, 'ann@example.com', 'ACTIVE' ], 'whose';
is refresh($ann[2])->status, 401, 'they are over';
is $pg->sql("select count(*) from auth_sessions where account_id = '$ann' and status = 'ACTIVE'"), 0,
    'the rows are marked';
like $t->read_file('identity.log'), qr/"event":"account.sessions_revoked"[^\n]*"accountId":"$ann"/, 'in the log';
is good(api(POST => "/$ann/revoke-sessions"), 'again')->{revokedSessions}, 0, 'none is left';
my $later = in('ann');
my @key = (headers => [ 'Idempotency-Key' => 'end' ]);
is good(api(POST => "/$ann/revoke-sessions", @key), 'with a key')->{revokedSessions}, 1, 'the new one';
my $last = in('ann');
my $again = api(POST => "/$ann/revoke-sessions", @key);
is $again->json->{revokedSessions}, 1, 'a repeat gets the first answer';
is $again->header('Idempotent-Replayed'), 'true', 'as a repeat';
is refresh($last)->status, 200, 'and ends no later session';

# -- failed logins

is login('bob@example.com', credential => 'wrong')->status, 401, 'a wrong credential' for 1 .. 3;
is login('bob@example.com', @credential)->status, 429, 'bob is limited';
is good(api(POST => "/$ann/unlock"), 'unlock another')->{clearedAddresses}, 0, 'who had no failures';
is login('bob@example.com', @credential)->status, 429, 'bob is limited still';
is good(api(POST => "/$bob/unlock"), 'unlock')->{clearedAddresses}, 1, 'from one address';
is login('bob@example.com', @credential)->status, 200, 'bob logs in';

# -- reset codes

my $res = api(POST => "/$ann/reset-code", json => { ttl => 300 });
my $made = good($res, 'a reset code', 201);
is_deeply [ sort keys %$made ], [qw(accountId expiresAt resetCode)], 'its members';
is $res->header('Location'), "/api/system/accounts/$ann", 'whose';
like $made->{resetCode}, qr/\A(?:[A-Z2-9]{4}-){3}[A-Z2-9]{4}\z/, 'in groups';
sub reset_with ($code, $new = 'Another g00d one') {
    return http($port, POST => '/api/auth/reset-credential', json => {
        account => 'ann@example.com', resetCode => $code, newCredential => $new });
}
is reset_with($made->{resetCode})->status, 200, 'it sets a credential';
is login('ann@example.com', credential => 'Another g00d one')->status, 200, 'with which ann logs in';
is reset_with($made->{resetCode})->status, 401, 'once';
@key = (headers => [ 'Idempotency-Key' => 'code' ], json => { ttl => 300 });
my ($first, $second) = map { good(api(POST => "/$ann/reset-code", @key), "a code with a key: $_", 201) } 1, 2;
isnt $second->{resetCode}, $first->{resetCode}, 'a repeat gives another';
is reset_with($first->{resetCode})->status, 401, 'the first is void';
is reset_with($second->{resetCode}, 'A third g00d one')->status, 200, 'the second is good';
is_problem(api(POST => "/$ann/reset-code", headers => [ 'Idempotency-Key' => 'code' ], json => { ttl => 301 }),
    422, 'REQUEST_IDEMPOTENCY_MISMATCH', 'the key with another call');
my $kept = $pg->sql("select string_agg(body, '') from client_calls");
ok !grep({ index($kept, $_->{resetCode}) >= 0 } $first, $second), 'no code is kept';
is good(api(POST => "/$bob/reset-code"), 'without a body', 201)->{accountId}, $bob, 'for an hour';
bad(api(POST => "/$bob/reset-code", json => $_->[0]), JSON::PP->new->canonical->encode($_->[0]),
    { pointer => "/$_->[1]", code => $_->[2], @$_[3 .. $#$_] }) for
    (map { [ { ttl => $_ }, ttl => 'out_of_range', minimum => 300, maximum => 86400 ] } 299, 86401, -1),
    [ { ttl => '1h' }, ttl => 'wrong_type' ], [ { resetCode => 'x' }, resetCode => 'unknown' ];
is good(http($port, PATCH => "/api/system/accounts/$bob", token => token(@may), json => { status => 'DISABLED' }),
    'bob is disabled')->{status}, 'DISABLED', 'so it is';
is_problem(api(POST => "/$bob/reset-code"), 409, 'RESOURCE_CONFLICT', 'no code for a disabled account');

# -- deleting

my $held = good(api(DELETE => "/$ann"), 'delete');
is $held->{account}, 'ann@example.com', 'what was held';
is scalar @{ $held->{sessions} }, $pg->sql("select count(*) from auth_sessions where account_id = '$ann'"),
    'with all sessions';
ok exists $held->{$_}, "with $_" for qw(memberships failedLogins hasCredential createdAt);
is login('ann@example.com', credential => 'A third g00d one')->status, 401, 'nobody logs in';
is_deeply [ @{ api(GET => "/$ann")->json }{qw(status account)} ], [ 'DELETED', $ann ], 'its id stays';
is $pg->sql("select count(*) from auth_sessions where account_id = '$ann'
    and num_nonnulls(used_address, used_agent, login_address, login_agent) > 0"), 0, 'no address is left';
unlike $pg->sql('select string_agg(a::text, chr(10)) from audit_events a'), qr/ann\@/, 'the audit has no name';
unlike $pg->sql('select string_agg(c::text, chr(10)) from client_calls c'), qr/ann\@/, 'nor has a kept answer';
good(api(DELETE => "/$ann"), 'again');
my $audit = audited($ann);
is scalar(grep {/deleted/} @$audit), 1, 'audited once';
is_problem(api(POST => "/$ann/$_"), 409, 'RESOURCE_CONFLICT', "deleted: $_")
    for qw(revoke-sessions unlock reset-code);

# -- who may: operators, clients, nobody; scopes

my $kept_session = in('op');
my %calls = ("DELETE /%s" => 'people:write', "POST /%s/revoke-sessions" => 'people:write',
    "POST /%s/unlock" => 'people:write', "POST /%s/reset-code" => 'credentials:write',
    "GET /%s/sessions" => 'people:read', "DELETE /%s/sessions/" . session_of($kept_session) => 'people:write');
for my $call (sort keys %calls) {
    my ($method, $path) = split / /, $call;
    my $scope = $calls{$call};
    my $at = sub ($id, %o) { return api($method, sprintf($path, $id), %o) };
    lacks($at->($op, scope => [ grep { $_ ne $scope } @scopes ]), $scope, $call);
    is http($port, $method => '/api/system/accounts' . sprintf($path, $op), body => '')->status, 401,
        "$call: without a token";
    is_problem($at->($_, scope => \@scopes), 404, 'RESOURCE_NOT_FOUND', "$call: of $_") for uuid(8), 'x';
    next if $method eq 'GET';
    lacks($at->($op), 'operators:write', "$call: of an operator");
    is_problem($at->($by, scope => \@scopes), 409, 'RESOURCE_CONFLICT', "$call: of a client");
}
is refresh($kept_session)->status, 200, 'the operator was left alone';
is good(api(POST => "/$op/unlock", @operators), 'with operators:write')->{accountId}, $op, 'unlocked';
is good(api(POST => "/$op/revoke-sessions", @operators), 'and ended')->{revokedSessions}, 1, 'its session';
good(api(POST => "/$op/reset-code", @operators), 'and reset', 201);
good(api(DELETE => "/$op", @operators), 'and deleted');

$t->done;
