# docs/openapi.yaml against the real thing: every endpoint's answers, success
# and each error that can be provoked, are as the file says; and the file, the
# page beside it and the sources know the same codes with the same statuses.

use JSON::PP;
use Platform::Test;
use Platform::Test::Client qw(restart totp);
use Platform::Test::Commands;
use Platform::Test::Env;
use Platform::Test::Passkey;

my $node = Platform::Test::Env::node();

my $t = Platform::Test->new->allow(qr{connect\(\) to unix:.* platform gateway revocations,});
my $json = JSON::PP->new->utf8->canonical;
my $APP = 'https://app.example.com';
my $COOKIE = 'platform_refresh_token';
my %one = (account => 'one@demo.test', credential => $Platform::Test::Stack::CREDENTIAL);

# -- collecting ----------------------------------------------------------------

my (@exchanges, $clients);

# One call, kept for later.  of => a port by name; the client has an address of
# its own, unless client => says which, or none.
sub call ($name, $method, $path, %o) {
    my $of = delete $o{of} // 'gateway';
    my $instance = delete $o{at} // $t;
    my $client = exists $o{client} ? delete $o{client}
        : $of eq 'gateway' ? '198.18.' . (++$clients >> 8) . '.' . ($clients & 255) : undef;
    $o{headers} = [ @{ $o{headers} // [] }, 'X-Forwarded-For' => $client ] if defined $client;
    my $bytes = delete $o{raw} // http_request_bytes($method, $path, %o);
    my $c = Platform::Test::Http->new(port => $instance->port($of));
    $c->send($bytes);
    my $res = $c->read_response(head => $method eq 'HEAD') or die "$name: no answer\n";
    push @exchanges, {
        name => $name, method => $method, path => $path =~ s/\?.*//sr,
        requestBody => (split /\r\n\r\n/, $bytes, 2)[1] // '',
        status => $res->status + 0, headers => [ $res->headers ], body => $res->body,
    };
    return $res;
}

# One test: a call gets a status and its code; "METHOD /path", or the name of a
# POST below /api/auth/ and what it says.
sub gets ($name, $want, $what, @o) {
    my ($method, $path) = $what =~ /\A([A-Z]+) (.*)/;
    if (!$method) {
        my $data = shift @o;
        ($method, $path) = (POST => "/api/auth/$what");
        unshift @o, defined $data ? (json => $data) : (body => '');
    }
    my $res = call($name, $method, $path, @o);
    is $want =~ / / ? $res->status . ' ' . $res->code : $res->status, $want, $name;
    return $res;
}

sub said { return gets(@_)->json }

my $s = $t->full_stack(env => {
    PLATFORM_CORS_ALLOWED_ORIGINS => $APP,
    PLATFORM_TRUSTED_PROXIES      => '127.0.0.1',
    PLATFORM_LOGIN_RATE_LIMIT     => '1r/m burst 5',
    PLATFORM_REFRESH_RATE_LIMIT   => '1r/m burst 5',
    PLATFORM_AUTH_MAX_FAILURES    => 2,
    PLATFORM_AUTH_FACTOR_KEYS     => 'one=' . 'QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=',
    PLATFORM_SYSTEM_API           => 'gateway',
    PLATFORM_PUBLIC_ORIGINS       => 'https://api.example.com',
});
my $pg = $s->postgres;
my @cors = (headers => [ Origin => $APP ]);
my @other_page = (headers => [ Origin => 'https://other.example' ]);
my @identity = (of => 'identity');

sub cookie { return (cookie => "$COOKIE=$_[0]") }
sub refresh_token { return { refreshToken => $_[0] } }

my $in = '200 AUTH_LOGIN_SUCCESS';

sub login ($name, $account) {
    return said("login: $name", $in, login => { %one, account => "$account\@demo.test" });
}

my $one = said('login: one branch', $in, login => \%one, @cors);
my $several = login('several branches', 'several');
login('no branch', 'none');
my %wrong = (%one, account => 'two-hundred@demo.test', credential => 'x');
gets("login: $_->[0]", @$_[1 .. $#$_]) for (
    [ 'wrong credential', '401 AUTH_INVALID_CREDENTIALS',
        login => { %one, credential => 'x' }, @cors ],
    [ 'no account', '400 REQUEST_INVALID', login => { credential => 'x' } ],
    [ 'over 16 KiB', '413 REQUEST_TOO_LARGE', login => { %one, more => 'x' x 20000 } ],
    [ 'over 64 KiB', '413 GATEWAY_REQUEST_TOO_LARGE', login => { %one, more => 'x' x 70000 } ],
    [ 'GET', '405 METHOD_NOT_ALLOWED', 'GET /api/auth/login', @cors ],
    ([ 'a failure', '401 AUTH_INVALID_CREDENTIALS', login => \%wrong, client => '192.0.2.1' ]) x 2,
    [ 'too many failures', '429 AUTH_TOO_MANY_ATTEMPTS',
        login => \%wrong, client => '192.0.2.1' ],
    ([ 'in the burst', '400 REQUEST_INVALID',
        login => { %one, account => '' }, client => '192.0.2.2' ]) x 6,
    [ 'too many', '429 GATEWAY_RATE_LIMITED', login => \%one, client => '192.0.2.2', @cors ],
);

# -- a bound session

sub proof ($call, %o) {
    return (headers => [ DPoP => dpop_proof(jwt_key('client', alg => 'ES256'), 'POST',
        "https://api.example.com/api/auth/$call", %o) ]);
}
my $bound = said('login: bound', $in, login => \%one, proof('login'));
my @by_token = (@identity, token => $bound->{accessToken});
gets("bound: $_->[0]", @$_[1 .. $#$_]) for (
    [ 'a login, a wrong proof', '401 AUTH_PROOF_INVALID', login => \%one, proof('logout') ],
    [ 'a refresh', '200 AUTH_REFRESH_SUCCESS', refresh => { refreshToken => $bound->{refreshToken} },
        proof('refresh') ],
    [ 'a refresh, no proof', '401 AUTH_PROOF_REQUIRED',
        refresh => { refreshToken => $bound->{refreshToken} } ],
    [ 'as Bearer', '401 AUTH_PROOF_REQUIRED', 'GET /api/auth/me', @by_token ],
    [ 'a step-up as Bearer', '401 AUTH_PROOF_REQUIRED', 'step-up' => {}, @by_token ],
    [ 'a second factor, a wrong proof', '401 AUTH_PROOF_INVALID',
        'verify-factor' => { factorToken => 'x', type => 'totp', code => '000000' }, proof('login') ],
    [ 'a logout, no proof', '401 AUTH_PROOF_REQUIRED',
        logout => { refreshToken => $bound->{refreshToken} } ],
    [ 'a logout', '200 AUTH_LOGOUT_SUCCESS', logout => { refreshToken => $bound->{refreshToken} },
        proof('logout') ],
);

# -- tokens for programs

my $c = Platform::Test::Commands->new(test => $t, env => { PLATFORM_LOG_LEVEL => 'error' });
sub program ($name, @scopes) {
    return (client_id => $c->done(qw(client add), $name, map { ('--allow', $_) } @scopes)->{accountId},
        client_secret => $c->done(qw(client secret add), $name)->{secret});
}
my %program = program(job => 'audit:read');
my $post_token = 'POST /api/auth/token';
sub form ($type, %p) {
    return (headers => [ 'Content-Type' => 'application/x-www-form-urlencoded' ],
        body => join '&', "grant_type=$type", map {"$_=$p{$_}"} sort keys %p);
}
my @grant = form(client_credentials => %program);
my @guess = form(client_credentials => %program, client_secret => 'x');
gets("token: $_->[0]", $_->[1], $post_token, @$_[2 .. $#$_]) for (
    [ 'by secret', '200', @grant ],
    [ 'a scope', '200', form(client_credentials => %program, scope => 'audit:read') ],
    [ 'JSON', '400 REQUEST_INVALID', json => {} ],
    [ 'another grant', '400 AUTH_GRANT_TYPE_UNSUPPORTED', form(password => %program) ],
    [ 'a scope too many', '400 AUTH_SCOPE_INVALID',
        form(client_credentials => %program, scope => 'people:read') ],
    [ 'over 16 KiB', '413 REQUEST_TOO_LARGE', form(client_credentials => x => 'x' x 20000) ],
    [ 'bound', '200', headers => [ @{ $grant[1] }, @{ { proof('token') }->{headers} } ], @grant[ 2, 3 ] ],
    [ 'a wrong proof', '400 AUTH_PROOF_INVALID',
        headers => [ @{ $grant[1] }, @{ { proof('login') }->{headers} } ], @grant[ 2, 3 ] ],
    ([ 'a failure', '401 AUTH_CLIENT_INVALID', @guess, client => '192.0.2.6' ]) x 2,
    [ 'too many failures', '429 AUTH_TOO_MANY_ATTEMPTS', @grant, client => '192.0.2.6' ],
    ([ 'in the burst', '400 REQUEST_INVALID', json => {}, client => '192.0.2.7' ]) x 6,
    [ 'too many', '429 GATEWAY_RATE_LIMITED', @grant, client => '192.0.2.7' ],
);
gets('token: GET', '405 METHOD_NOT_ALLOWED', 'GET /api/auth/token');

# -- what programs see

my $audit = 'GET /api/system/audit';
my %may = (token => call('token', POST => '/api/auth/token', @grant)->json->{access_token});
sub token_of (%p) {
    return (token => call('a token', POST => '/api/auth/token', form(client_credentials => %p))
        ->json->{access_token});
}
my %may_not = token_of(program(less => 'people:read'));
gets("audit: $_->[0]", @$_[1 .. $#$_]) for (
    [ 'a page', '200 SYSTEM_SUCCESS', "$audit?limit=2&since=2020-01-01T00:00:00Z", %may ],
    [ 'without the scope', '403 AUTH_SCOPE_REQUIRED', $audit, %may_not ],
    [ 'a token of a session', '403 GATEWAY_CONTEXT_FORBIDDEN', $audit, token => $one->{accessToken} ],
    [ 'no token', '401 GATEWAY_TOKEN_MISSING', $audit ],
    [ 'no token, at identity', '401 AUTH_ACCESS_TOKEN_REQUIRED', $audit, @identity ],
    [ 'an unknown parameter', '400 REQUEST_INVALID', "$audit?name=x", %may ],
    [ 'a path over 24k', '414 GATEWAY_URI_TOO_LONG', "$audit?" . 'x' x 30_000, %may ],
    [ 'over 64 KiB', '413 GATEWAY_REQUEST_TOO_LARGE', $audit, %may, headers => [ 'Content-Length' => 70_000 ] ],
    [ 'POST', '405 METHOD_NOT_ALLOWED', 'POST /api/system/audit', body => '', %may ],
);

# -- places and members, by programs

my $system = '/api/system';
my %client = program(office => qw(people:read people:write places:read places:write
    credentials:write));
my %office = token_of(%client);
my %ended = token_of(program(ended => 'people:read'));
$c->done(qw(account disable ended));
my $NONE = '00000000-0000-4000-8000-ffffffffffff';

sub made ($name, $what, @o) {
    return said("make $name", '201 SYSTEM_SUCCESS', $what =~ s{ }{ $system/}r, @o, %office);
}
sub done ($name, $what, @o) {
    return said($name, '200 SYSTEM_SUCCESS', $what =~ s{ }{ $system/}r, @o, %office);
}

# What calls refuse: the method, the path, the scope, and if there is a body one that is right.
my @systems;
sub refused (@rows) {
    push @systems, @rows;
    for my $row (@rows) {
        my ($method, $path, $scope, $right) = @$row;
        my $call = "$method $system/$path";
        my @body = $right ? (json => $right) : $method eq 'GET' ? () : (body => '');
        gets("$call: $_->[0]", $_->[1], $call, @body, @$_[2 .. $#$_]) for (
            [ 'no token', '401 GATEWAY_TOKEN_MISSING' ],
            [ 'no token, at identity', '401 AUTH_ACCESS_TOKEN_REQUIRED', @identity ],
            [ 'of a program that was disabled', '401 AUTH_SESSION_NOT_ACTIVE', @identity, %ended ],
            [ 'a token of a session', '403 GATEWAY_CONTEXT_FORBIDDEN', token => $one->{accessToken} ],
        );
        like gets("$call: without its scope", '403 AUTH_SCOPE_REQUIRED', $call, @body, %may)
            ->header('WWW-Authenticate'), qr/scope="$scope"/, "$call: needs $scope";
        if ((my $none = $call) =~ s/[0-9a-f]{8}-[0-9a-f-]{27}/$NONE/g) {
            gets("$call: of nothing", '404 RESOURCE_NOT_FOUND', $none, @body, %office);
        }
        if ($method eq 'GET') {
            gets("$call: a path over 24k", '414 GATEWAY_URI_TOO_LONG', "$call?" . 'x' x 30_000, %office);
            gets("$call: an unknown parameter", '400 REQUEST_INVALID', "$call?x=y", %office)
                if $call !~ m{/(?:workspaces|branches)/[-0-9a-f]+\z};
        }
        gets("$call: over 64 KiB", '413 GATEWAY_REQUEST_TOO_LARGE', $call, %office,
            headers => [ 'Content-Length' => 70_000 ]);
        next if !$right;
        gets("$call: $_->[0]", $_->[1], $call, %office, @$_[2 .. $#$_]) for (
            [ 'an unknown member', '400 REQUEST_INVALID', json => { %$right, x => 'y' } ],
            [ 'no JSON', '415 MEDIA_TYPE_UNSUPPORTED', body => 'x',
                headers => [ 'Content-Type' => 'text/plain' ] ],
        );
    }
    repeated(@$_) for grep { $_->[0] eq 'POST' } @rows;
}

# A call with a key: while the first one runs, again, and another one.
sub repeated ($method, $path, $scope, $right) {
    my $call = "$method $system/$path";
    my $key = substr $path =~ s/[^a-z]//gr, -9;
    my @call = (%office, headers => [ 'Idempotency-Key' => $key ],
        $right ? (json => $right) : (body => ''));
    my $held = $pg->begin("select pg_advisory_xact_lock(hashtextextended('$client{client_id}'"
        . " || encode(sha256(decode('" . unpack('H*', pack 'Q<', length $key) . "', 'hex')"
        . " || '$key'), 'hex'), 0))");
    gets("$call: still running", '409 REQUEST_IN_PROGRESS', $call, @call);
    $pg->end($held, 'rollback');
    my $first = call("$call: with a key", $method, "$system/$path", @call);
    my $again = call("$call: again", $method, "$system/$path", @call);
    is $again->header('Idempotent-Replayed'), 'true', "$call: replayed" if $path !~ /reset/;
    gets("$call: another", '422 REQUEST_IDEMPOTENCY_MISMATCH', "$call?a=b", @call);
}
sub taken ($what, $body, $code = '409 RESOURCE_EXISTS') {
    gets("$what: $code", $code, $what =~ s{ }{ $system/}r, json => $body, %office);
}

my $kiosk = made('a workspace', 'POST workspaces', json => { workspaceName => 'Kiosk',
    newTenant => 'Kiosks' });
my ($workspace, @tenant) = ($kiosk->{workspaceId}, tenantId => $kiosk->{tenantId});
made('another', 'POST workspaces', json => { workspaceName => 'Bar', @tenant });
my $work = "workspaces/$workspace";
my $branch = made('a branch', "POST $work/branches", json => { branchName => 'A' })->{branchId};
my $other_branch = made('another branch', "POST $work/branches", json => { branchName => 'C' })->{branchId};
my $none = '00000000-0000-4000-8000-000300000005';
my @grants = (grants => [ { branchId => $branch, roles => ['CASHIER'] } ]);
made('a member', "PUT $work/members/$none", json => {@grants});
done(@$_) for (
    [ 'a member again', "PUT $work/members/$none", body => '' ],
    [ 'workspaces', "GET workspaces?name=K&status=ACTIVE&tenantId=$tenant[1]" ],
    [ 'workspaces: a page', 'GET workspaces?limit=1' ], [ 'a workspace', "GET $work" ],
    [ 'branches', "GET $work/branches?name=A&status=ACTIVE" ], [ 'a branch', "GET branches/$branch" ],
    [ 'members', "GET $work/members?status=ACTIVE&limit=1" ],
    [ 'rename a workspace', "PATCH $work", json => { workspaceName => 'K', status => 'ACTIVE' } ],
    [ 'rename a branch', "PATCH branches/$branch", json => { branchName => 'B', status => 'ACTIVE' } ],
);
my $deleted = $c->done(qw(account add gone@example.com --no-login))->{accountId};
$c->done(qw(account delete gone@example.com));
taken(@$_) for (
    [ "PUT $work/members/$deleted", {}, '409 RESOURCE_CONFLICT' ],
    [ 'POST workspaces', { workspaceName => 'x', newTenant => 'Kiosks' } ],
    [ 'POST workspaces', { workspaceName => 'Bar', @tenant } ],
    [ "PATCH $work", { workspaceName => 'Bar' } ], [ "POST $work/branches", { branchName => 'B' } ],
    [ "PATCH branches/$other_branch", { branchName => 'B' } ],
    [ "PUT $work/members/$none", { grants => [ { branchId => $branch,
        roles => [ map {"R$_"} 1 .. 33 ] } ] }, '409 RESOURCE_LIMIT_REACHED' ],
);
refused(
    [ GET => 'workspaces', 'places:read' ],
    [ POST => 'workspaces', 'places:write', { workspaceName => 'Again', @tenant } ],
    [ GET => $work, 'places:read' ], [ PATCH => $work, 'places:write', { status => 'ACTIVE' } ],
    [ GET => "$work/branches", 'places:read' ],
    [ POST => "$work/branches", 'places:write', { branchName => 'Again' } ],
    [ GET => "branches/$branch", 'places:read' ],
    [ PATCH => "branches/$branch", 'places:write', { status => 'ACTIVE' } ],
    [ GET => "$work/members", 'people:read' ],
    [ PUT => "$work/members/$none", 'people:write', {} ],
    [ DELETE => "$work/members/$none", 'people:write' ],
);
done('end a membership', "DELETE $work/members/$none");

# -- accounts, by programs

my @own_credential = (credential => $one{credential});
my @member = (memberships => [ { workspace => $workspace,
    grants => [ { branch => $branch, roles => ['CASHIER'] } ] } ]);
my $ann = made('an account', 'POST accounts',
    json => { account => 'ann@example.com', @own_credential, @member })->{accountId};
my $person = 'accounts/' . made('another account', 'POST accounts',
    json => { account => 'bob@example.com', type => undef })->{accountId};
done(@$_) for (
    [ 'accounts', 'GET accounts?name=a&limit=1&type=CUSTOMER&status=ACTIVE' ],
    [ 'accounts of a workspace', "GET accounts?workspaceId=$workspace" ],
    [ 'accounts: a page', 'GET accounts?limit=1' ], [ 'an account', "GET accounts/$ann" ],
    [ 'rename an account', "PATCH $person", json => { account => 'bo@example.com' } ],
);
taken(@$_) for (
    [ 'POST accounts', { account => 'ann@example.com' } ],
    [ "PATCH $person", { account => 'ann@example.com' } ],
    [ "PATCH accounts/$deleted", { status => 'ACTIVE' }, '409 RESOURCE_CONFLICT' ],
    [ 'POST accounts', { account => 'x', credential => 'x' }, '400 AUTH_CREDENTIAL_NOT_ALLOWED' ],
);
refused(
    [ GET => 'accounts', 'people:read' ],
    [ POST => 'accounts', 'people:write', { account => 'again@example.com' } ],
    [ GET => $person, 'people:read' ], [ PATCH => $person, 'people:write', { status => 'ACTIVE' } ],
);
my $held = said('login: ann', $in, login => { account => 'ann@example.com', @own_credential })->{sessionId};
said('login: ann again', $in, login => { account => 'ann@example.com', @own_credential });
made('a reset code', "POST accounts/$ann/reset-code", json => { ttl => 300 });
done(@$_) for (
    [ 'sessions of an account', "GET accounts/$ann/sessions?limit=1" ],
    [ 'end a session', "DELETE accounts/$ann/sessions/$held" ],
    [ 'end its sessions', "POST accounts/$ann/revoke-sessions", body => '' ],
    [ 'unlock', "POST accounts/$ann/unlock", body => '' ],
);
done('disable', "PATCH $person", json => { status => 'DISABLED' });
taken("POST $_->[0]", $_->[1], '409 RESOURCE_CONFLICT') for [ "$person/reset-code", {} ],
    [ "accounts/$deleted/unlock", {} ], [ "accounts/$deleted/revoke-sessions", {} ];
gets("$_ of a client", '409 RESOURCE_CONFLICT', "DELETE $system/accounts/$client{client_id}$_", body => '', %office)
    for '', "/sessions/$held", "/factors/$held";
refused(
    [ DELETE => $person, 'people:write' ],
    [ POST => "$person/revoke-sessions", 'people:write', {} ],
    [ POST => "$person/unlock", 'people:write', {} ], [ GET => "$person/sessions", 'people:read' ],
    [ DELETE => "$person/sessions/$held", 'people:write' ],
    [ POST => "accounts/$ann/reset-code", 'credentials:write', { ttl => 300 } ],
);
done('delete', "DELETE $person");
my @erased = ("POST $system/accounts", %office, json => { account => 'brief@example.com' },
    headers => [ 'Idempotency-Key' => 'brief' ]);
done('delete another', 'DELETE accounts/' . gets('make it', '201 SYSTEM_SUCCESS', @erased)->json->{accountId});
gets('make it again', '404 RESOURCE_NOT_FOUND', @erased);

# -- reset codes

my $reset = 'reset-credential';
my %reset = (account => 'none@demo.test', resetCode => 'x', newCredential => $one{credential});
sub code { return $c->done(qw(account reset-code none@demo.test))->{resetCode} }
gets("$reset: $_->[0]", $_->[1], $reset, @$_[2 .. $#$_]) for (
    [ 'by a code', '200 AUTH_RESET_CREDENTIAL_SUCCESS', { %reset, resetCode => code() } ],
    [ 'a wrong code', '401 AUTH_RESET_CODE_INVALID', \%reset, @cors ],
    [ 'no code', '400 REQUEST_INVALID', { account => 'a', newCredential => 'b' } ],
    [ 'too short', '400 AUTH_CREDENTIAL_NOT_ALLOWED', { %reset, newCredential => 'short' } ],
    [ 'over 16 KiB', '413 REQUEST_TOO_LARGE', { %reset, resetCode => 'x' x 20000 } ],
    ([ 'a failure', '401 AUTH_RESET_CODE_INVALID', \%reset, client => '192.0.2.8' ]) x 2,
    [ 'too many failures', '429 AUTH_TOO_MANY_ATTEMPTS', \%reset, client => '192.0.2.8' ],
);

# -- refresh

my ($missing, $rotated) = ('401 AUTH_REFRESH_TOKEN_MISSING', '200 AUTH_REFRESH_SUCCESS');
my $used = refresh_token($one->{refreshToken});
my $fresh = said('refresh: by body', $rotated, refresh => $used);
$fresh = said('refresh: by cookie, with an account token', $rotated,
    refresh => { refreshToken => undef, includeAccountToken => JSON::PP::true,
        sessionId => $one->{sessionId} }, @cors,
    cookie($fresh->{refreshToken}));
gets("refresh: $_->[0]", $_->[1], refresh => @$_[2 .. $#$_]) for (
    [ 'of nothing', $missing, undef, @cors ],
    [ 'a used token', '401 AUTH_REFRESH_TOKEN_STALE', $used ],
    [ 'of another session', '409 AUTH_SESSION_CHANGED',
        { sessionId => $several->{sessionId} }, cookie($fresh->{refreshToken}), @cors ],
    [ 'no branch selected', $rotated, refresh_token($several->{refreshToken}) ],
    [ 'an unusable token', '401 AUTH_REFRESH_TOKEN_INVALID', undef, cookie('nonsense') ],
    [ 'body and cookie differ', '400 AUTH_REFRESH_TOKEN_CONFLICT', refresh_token('a'),
        cookie('b') ],
    [ 'an array', '400 REQUEST_INVALID', [] ],
    [ 'a page of another origin', '403 AUTH_ORIGIN_NOT_ALLOWED', undef, @other_page,
        cookie($fresh->{refreshToken}) ],
    ([ 'in the burst', $missing, undef, client => '192.0.2.3' ]) x 6,
    [ 'too many', '429 GATEWAY_RATE_LIMITED', undef, client => '192.0.2.3' ],
);

# -- select-branch

my $account = $several->{accountAccessToken};
my @account = (token => $account);
my $choice = { branchId => $several->{branches}[1]{branchId} };
my ($select, $no_account_token) = ('select-branch', '401 AUTH_ACCOUNT_TOKEN_REQUIRED');
my $token = said($select, '200 AUTH_SELECT_BRANCH_SUCCESS', $select => $choice, @account,
    @cors)->{accessToken};
gets("$select: $_->[0]", $_->[1], $select => @$_[2 .. $#$_]) for (
    [ 'no such branch', '403 AUTH_BRANCH_NOT_SELECTABLE', { branchId => 'none' }, @account ],
    [ 'a number', '400 REQUEST_INVALID', { branchId => 1 }, @account ],
    [ 'no token', '401 GATEWAY_TOKEN_MISSING', $choice ],
    [ 'a branch token', '403 GATEWAY_CONTEXT_FORBIDDEN', $choice, token => $token ],
    [ 'no token, at identity', $no_account_token, $choice, @identity ],
    [ 'a bad token, at identity', $no_account_token, $choice, @identity, token => 'a.b.c' ],
    [ 'over 16 KiB', '413 REQUEST_TOO_LARGE', { branchId => 'x' x 20000 }, @account ],
);
gets("$_: no JSON", '415 MEDIA_TYPE_UNSUPPORTED', "POST /api/auth/$_", @account, body => 'x',
    headers => [ 'Content-Type' => 'text/plain' ])
    for 'login', $select, 'change-credential', $reset, 'refresh', 'logout',
    qw(verify-factor factors factors/x/confirm step-up login/passkey-options login/passkey passkeys passkeys/options);
gets("$_: over 64 KiB", '413 GATEWAY_REQUEST_TOO_LARGE', $_, @account, headers => [ 'Content-Length' => 70_000 ])
    for map { my ($method, @paths) = @$_; map {"$method /api/auth/$_"} @paths } [ GET => qw(me sessions factors) ],
    [ DELETE => 'sessions/x', 'factors/x' ], [ PATCH => 'factors/x' ],
    [ POST => qw(refresh logout logout-others logout-all change-credential recovery-codes
        step-up/passkey-options) ];

# -- one's own sessions, and the credential

for my $own ($account, $token) {
    my $kind = $own eq $token ? 'branch' : 'account';
    gets("$_->[0]: $kind", @$_[1 .. $#$_], token => $own) for
        [ 'me', '200 AUTH_ME_SUCCESS', 'GET /api/auth/me' ],
        [ 'sessions', '200 AUTH_SESSIONS_SUCCESS', 'GET /api/auth/sessions' ],
        [ 'logout-others', '200 AUTH_LOGOUT_OTHERS_SUCCESS', 'logout-others' => undef ],
        [ 'an end: no such session', '404 RESOURCE_NOT_FOUND',
            'DELETE /api/auth/sessions/none' ];
}
my %claims = %{ (jwt_decode($token))[1] };
my @system = (token => jwt_token(system => jwt_key('identity'), iss => $claims{iss}));
my @guarded = ([ GET => 'me' ], [ GET => 'sessions' ], [ DELETE => 'sessions/x' ],
    [ POST => 'logout-others', body => '' ], [ POST => 'logout-all', body => '' ],
    [ POST => 'change-credential', json => {} ], [ POST => 'recovery-codes', body => '' ],
    [ POST => 'step-up', json => {} ], [ POST => 'step-up/passkey-options', body => '' ]);
for my $case (@guarded) {
    my ($method, $path, @body) = @$case;
    gets("$path: $_->[0]", $_->[1], "$method /api/auth/$path", @body, @$_[2 .. $#$_]) for
        [ 'no token', '401 GATEWAY_TOKEN_MISSING' ],
        [ 'no token, at identity', '401 AUTH_ACCESS_TOKEN_REQUIRED', @identity ],
        [ 'a system token', '403 GATEWAY_CONTEXT_FORBIDDEN', @system ];
    gets("$path: PUT", '405 METHOD_NOT_ALLOWED', "PUT /api/auth/$path", body => '');
}
my $change = 'change-credential';
my $credentials = { credential => $one{credential}, newCredential => 'another one' };
my @changer = (token => login('to change', 'two-workspaces')->{accountAccessToken});
my @guesses = ($credentials, @changer, client => '192.0.2.5');
gets("$change: $_->[0]", $_->[1], $change => @$_[2 .. $#$_]) for (
    [ 'done', '200 AUTH_CHANGE_CREDENTIAL_SUCCESS', $credentials, @changer ],
    ([ 'a wrong one', '401 AUTH_INVALID_CREDENTIALS', @guesses ]) x 2,
    [ 'too many failures', '429 AUTH_TOO_MANY_ATTEMPTS', @guesses ],
    [ 'no new one', '400 REQUEST_INVALID', { credential => 'x' }, @changer ],
    [ 'a short one', '400 AUTH_CREDENTIAL_NOT_ALLOWED',
        { credential => 'another one', newCredential => 'x' }, @changer ],
);

# -- second factors: without one, getting one, logging in with one

my @ann = (account => 'ann@example.com', @own_credential);
my @has = (token => said('login: without a factor', $in, login => {@ann})->{accessToken});
my ($factors, $verify, $up, $codes) = qw(factors verify-factor step-up recovery-codes);
my ($wrong_code, $used_up) = ('401 AUTH_FACTOR_INVALID', '401 AUTH_FACTOR_TOKEN_INVALID');
my $list = "GET /api/auth/$factors";
sub by ($type, $secret) { return { type => $type, ($type eq 'credential' ? $type : 'code') => $secret } }
gets("$up: $_->[0]", $_->[1], $up => @$_[2 .. $#$_]) for (
    [ 'by the credential', '200 AUTH_STEP_UP_SUCCESS', by(@own_credential), @has, @cors ],
    [ 'with an account token', '200 AUTH_STEP_UP_SUCCESS', by(@own_credential), @account ],
    [ 'by a wrong one', '401 AUTH_INVALID_CREDENTIALS', by(credential => 'x'), @has ],
    [ 'by a factor', $wrong_code, by(totp => '000000'), @has, @cors ],
    [ 'of another kind', '400 REQUEST_INVALID', by(sms => '000000'), @has ],
    [ 'over 16 KiB', '413 REQUEST_TOO_LARGE', by(totp => 'x' x 20000), @has ],
);
gets("$codes: without a factor", '409 RESOURCE_CONFLICT', $codes => undef, @has);
my $totp = { type => 'totp', name => 'Phone' };
my $added = said('a factor', '201 AUTH_FACTOR_ADDED', $factors => $totp, @has, @cors);
my $confirm = "$factors/$added->{factorId}/confirm";
my $secret = $added->{secret};
gets("$factors: $_->[0]", $_->[1], $factors => @$_[2 .. $#$_]) for (
    [ 'no token', '401 AUTH_ACCESS_TOKEN_REQUIRED', $totp, @cors ],
    [ 'a bad token', '401 AUTH_ACCESS_TOKEN_REQUIRED', $totp, token => 'x' ],
    [ 'a factorToken that nobody made', $used_up, { %$totp, factorToken => 'x' } ],
    [ 'of another kind', '400 REQUEST_INVALID', { type => 'sms' }, @has ],
    [ 'over 16 KiB', '413 REQUEST_TOO_LARGE', { %$totp, name => 'x' x 20000 }, @has ],
    ([ 'in the burst', '400 REQUEST_INVALID', {}, @has, client => '192.0.2.9' ]) x 6,
    [ 'too many', '429 GATEWAY_RATE_LIMITED', $totp, @has, client => '192.0.2.9' ],
);
gets("confirm: $_->[0]", $_->[1], @$_[2 .. $#$_]) for (
    [ 'no code', '400 REQUEST_INVALID', $confirm => {}, @has ],
    [ 'a wrong code', $wrong_code, $confirm => { code => '00000x' }, @has ],
    [ 'no token', '401 AUTH_ACCESS_TOKEN_REQUIRED', $confirm => { code => '000000' } ],
    [ 'of nothing', '404 RESOURCE_NOT_FOUND', "$factors/$NONE/confirm" => { code => '000000' }, @has ],
    [ 'over 16 KiB', '413 REQUEST_TOO_LARGE', $confirm => { code => 'x' x 20000 }, @has ],
);
my @recovery = @{ said('confirm', '200 AUTH_FACTOR_CONFIRMED', $confirm => { code => totp($secret) }, @has)
    ->{recoveryCodes} };
my $factor = "/api/auth/$factors/$added->{factorId}";
my @named = (json => { name => 'Mine' });
gets(@$_) for (
    [ "$factors: the list", '200 AUTH_FACTORS_SUCCESS', $list, @has, @cors ],
    [ "$factors: the list, no token", '401 AUTH_ACCESS_TOKEN_REQUIRED', $list ],
    [ "$factors: PUT", '405 METHOD_NOT_ALLOWED', "PUT /api/auth/$factors", body => '' ],
    [ 'a factor: renamed', '200 AUTH_FACTOR_CHANGED', "PATCH $factor", @named, @has, @cors ],
    [ 'a factor: no name', '400 REQUEST_INVALID', "PATCH $factor", json => {}, @has ],
    [ 'a factor: no token', '401 AUTH_ACCESS_TOKEN_REQUIRED', "PATCH $factor", @named ],
    [ 'a factor: unknown', '404 RESOURCE_NOT_FOUND', "PATCH /api/auth/$factors/$NONE", @named, @has ],
    [ 'a factor: GET', '405 METHOD_NOT_ALLOWED', "GET $factor", @has ],
    [ 'a factor: no JSON', '415 MEDIA_TYPE_UNSUPPORTED', "PATCH $factor", @has, body => 'x',
        headers => [ 'Content-Type' => 'text/plain' ] ],
    [ 'a removal: no token', '401 AUTH_ACCESS_TOKEN_REQUIRED', "DELETE $factor" ],
    [ 'a removal: unknown', '404 RESOURCE_NOT_FOUND', "DELETE /api/auth/$factors/none", @has ],
    [ "$up: by the credential, with a factor", '401 AUTH_STEP_UP_REQUIRED', $up => by(@own_credential), @has ],
    [ "$up: by a recovery code", '200 AUTH_STEP_UP_SUCCESS', $up => by(recovery => $recovery[0]), @has ],
);
@recovery = @{ said($codes, '200 AUTH_RECOVERY_CODES_SUCCESS', $codes => undef, @has)->{recoveryCodes} };
my $waits = said('login: with a factor', '200 AUTH_FACTOR_REQUIRED', login => {@ann}, @cors)->{factorToken};
sub with ($type, $code, $of = $waits) { return { factorToken => $of, type => $type, code => $code } }
my $limited = 0;
gets("$verify: $_->[0]", $_->[1], $verify => @$_[2 .. $#$_]) for (
    [ 'no type', '400 REQUEST_INVALID', { factorToken => $waits, code => '1' } ],
    [ 'a wrong code', $wrong_code, with(totp => '00000x'), @cors ],
    [ 'of nobody', $used_up, with(totp => '000000', 'x') ],
    [ 'over 16 KiB', '413 REQUEST_TOO_LARGE', with(totp => 'x' x 20000) ],
    [ 'by a recovery code', $in, with(recovery => $recovery[0]), @cors ],
    ([ 'in the burst', '400 REQUEST_INVALID', {}, client => '192.0.2.10' ]) x 6,
    [ 'too many', '429 GATEWAY_RATE_LIMITED', with(totp => '00000x'), client => '192.0.2.10', @cors ],
);
for my $what ($list, "POST /api/auth/$confirm", "PATCH $factor", "DELETE $factor", "POST /api/auth/$codes",
    "POST /api/auth/$up")
{
    my @much = (client => "192.0.2." . (20 + ++$limited), $what =~ /^P/ ? (body => '') : ());
    call("$what: in the burst", (split / /, $what), @much) for 1 .. 6;
    gets("$what: too many", '429 GATEWAY_RATE_LIMITED', $what, @much);
}
gets("$verify: GET", '405 METHOD_NOT_ALLOWED', "GET /api/auth/$verify");

# Ten wrong codes, over all calls.

my $fails = "insert into factor_failures select account_id, array_fill(now(), array[10]) from accounts
    where account_name = 'ann\@example.com' on conflict (account_id) do update set failed_at = excluded.failed_at";
$pg->sql($fails);
$waits = said('login: limited', '200 AUTH_FACTOR_REQUIRED', login => {@ann})->{factorToken};
gets("$verify: too many failures", '429 AUTH_TOO_MANY_ATTEMPTS', $verify => with(totp => totp($secret)), @cors);
gets("$up: too many failures", '429 AUTH_TOO_MANY_ATTEMPTS', $up => by(totp => totp($secret)), @has);
$pg->sql('delete from factor_failures');

# A session that was authenticated some time ago.

my $authenticated = sub ($ago) { $pg->sql("update auth_sessions set authenticated_at = now() - interval '$ago'
    where account_id = '$ann'") };
$authenticated->('6 minutes');
gets("step-up required: $_->[0]", '401 AUTH_STEP_UP_REQUIRED', @$_[1 .. $#$_], @has, @cors) for (
    [ 'a factor', $factors => $totp ], [ 'a confirmation', $confirm => { code => '000000' } ],
    [ 'a name', "PATCH $factor", @named ], [ 'a removal', "DELETE $factor" ],
    [ 'recovery codes', $codes => undef ], [ 'a credential', $change => $credentials ],
);
$authenticated->('0 minutes');

# Who has to have one.

my $demanded = sub ($of) { $pg->sql("update accounts set factor_required = $of where account_id = '$ann'") };
$demanded->('true');
gets('a removal: the last one', '409 AUTH_FACTOR_LAST', "DELETE $factor", @has);
$pg->sql("insert into factors (account_id, factor_type, factor_name, confirmed_at, key_id, secret)
    select account_id, factor_type, 'x', now(), key_id, secret from factors, generate_series(1, 9)
     where account_id = '$ann'");
gets("$factors: too many", '409 RESOURCE_LIMIT_REACHED', $factors => $totp, @has);
done(@$_) for [ 'factors of an account', "GET accounts/$ann/factors" ],
    [ 'one is removed', "DELETE accounts/$ann/factors/$added->{factorId}" ];
refused([ GET => "accounts/$ann/factors", 'people:read' ],
    [ DELETE => "accounts/$ann/factors/$added->{factorId}", 'credentials:write' ]);
$demanded->('false');
for my $id (map { $_->{factorId} } @{ call('what is left', GET => '/api/auth/factors', @has)->json->{factors} }) {
    gets('a removal', '200 AUTH_FACTOR_REMOVED', "DELETE /api/auth/$factors/$id", @has);
}
$demanded->('true');
$waits = said('login: has to get a factor', '200 AUTH_FACTOR_REQUIRED', login => {@ann})->{factorToken};
$added = said("$factors: at a login", '201 AUTH_FACTOR_ADDED', $factors => { %$totp, factorToken => $waits }, @cors);
$confirm = "$factors/$added->{factorId}/confirm";
gets('confirm: at a login, a wrong code', $wrong_code, $confirm => { factorToken => $waits, code => '00000x' });
gets('confirm: at a login, of nobody', $used_up, $confirm => { factorToken => 'x', code => '000000' });
gets('confirm: at a login', $in, $confirm => { factorToken => $waits, code => totp($added->{secret}) }, @cors);

# -- passkeys: one is added, logs in alone, is a second factor, and steps up

$demanded->('false');
$pg->sql("delete from factors where account_id = '$ann'");
@has = (token => said('login: no factor is left', $in, login => {@ann})->{accessToken});
my $device = Platform::Test::Passkey->new;
my ($keys, $by_key, $challenges) = ('passkeys', 'login/passkey', '200 AUTH_PASSKEY_OPTIONS');
my @wanted = ("$keys/options" => {}, @has);
my $limits = 0;
sub challenge (@o) { return said("$o[0]: a challenge", $challenges, @o) }
sub answered ($asked, $how, @o) {
    return { challengeToken => $asked->{challengeToken}, credential => $device->$how($asked->{options}, @o) };
}
my $elsewhere = answered(challenge(@wanted), 'create', client => { origin => 'https://other.example' });
my $right = answered(challenge(@wanted, @cors), 'create');
gets("$keys: $_->[0]", $_->[1], $keys => @$_[2 .. $#$_]) for (
    [ 'of another page', '400 AUTH_PASSKEY_INVALID', $elsewhere, @has, @cors ],
    [ 'no credential', '400 REQUEST_INVALID', { challengeToken => 'x' }, @has ],
    [ 'a challenge twice', $used_up, $elsewhere, @has ], [ 'no token', '401 AUTH_ACCESS_TOKEN_REQUIRED', $right ],
    [ 'a factorToken that nobody made', $used_up, { %$right, factorToken => 'x' } ],
    [ 'over 16 KiB', '413 REQUEST_TOO_LARGE', { %$right, name => 'x' x 20000 }, @has ],
    [ 'done', '201 AUTH_FACTOR_ADDED', { %$right, name => 'Laptop' }, @has, @cors ],
    [ 'once', '409 RESOURCE_EXISTS', answered(challenge(@wanted), 'create'), @has, @cors ],
    ([ 'in the burst', '400 REQUEST_INVALID', {}, @has, client => '192.0.2.11' ]) x 6,
    [ 'too many', '429 GATEWAY_RATE_LIMITED', $right, @has, client => '192.0.2.11' ],
);
gets("$keys/options: $_->[0]", $_->[1], "$keys/options" => @$_[2 .. $#$_]) for (
    [ 'no token', '401 AUTH_ACCESS_TOKEN_REQUIRED', {} ], [ 'no JSON', '400 REQUEST_INVALID', [], @has ],
    [ 'of nobody', $used_up, { factorToken => 'x' } ],
    [ 'over 16 KiB', '413 REQUEST_TOO_LARGE', { factorToken => 'x' x 20000 }, @has ],
);
gets("$by_key: $_->[0]", $_->[1], $by_key => @$_[2 .. $#$_]) for (
    [ 'done', $in, answered(challenge("$by_key-options" => undef, @cors), 'get'), @cors ],
    [ 'of nobody', $used_up, answered({ challengeToken => 'x', options => { rpId => 'x' } }, 'get') ],
    [ 'of another page', $wrong_code, answered(challenge("$by_key-options" => {}), 'get',
        client => { origin => 'https://other.example' }), @cors ],
    [ 'no credential', '400 REQUEST_INVALID', { challengeToken => 'x' } ],
    [ 'over 16 KiB', '413 REQUEST_TOO_LARGE', { challengeToken => 'x' x 20000 } ],
    ([ 'in the burst', '400 REQUEST_INVALID', {}, client => '192.0.2.12' ]) x 6,
    [ 'too many', '429 GATEWAY_RATE_LIMITED', {}, client => '192.0.2.12', @cors ],
);
gets("$by_key-options: an array", '400 REQUEST_INVALID', "$by_key-options" => []);
gets("$by_key-options: over 16 KiB", '413 REQUEST_TOO_LARGE', "$by_key-options" => { x => 'x' x 20000 });
for my $case ([ "$by_key-options" => undef ], [ "$keys/options" => {}, @has ], [ "$up/passkey-options" => undef, @has ]) {
    my @limited = (@$case[1 .. $#$case], client => '192.0.2.' . (13 + $limits++));
    call("$case->[0]: in the burst", POST => "/api/auth/$case->[0]", body => '', @limited[1 .. $#limited]) for 1 .. 6;
    gets("$case->[0]: too many", '429 GATEWAY_RATE_LIMITED', $case->[0], @limited);
}
challenge("$keys/options" => undef, @has);
gets("$_: GET", '405 METHOD_NOT_ALLOWED', "GET /api/auth/$_") for $keys, "$keys/options", $by_key, "$by_key-options";
sub waits_for_key () {
    my $asked = said('login: with a passkey', '200 AUTH_FACTOR_REQUIRED', login => {@ann}, @cors);
    return ($asked->{factorToken}, answered({ options => $asked->{passkey} }, 'get'));
}
sub by_key ($token, $answer) {
    return { factorToken => $token, type => 'passkey', credential => $answer->{credential} };
}
my ($waiting, $shown) = waits_for_key();
gets("$verify: by a passkey", $in, $verify => by_key($waiting, $shown), @cors);
gets("$verify: by what another login was shown", $wrong_code, $verify => by_key((waits_for_key())[0], $shown));
my %up = (%{ answered(challenge("$up/passkey-options" => undef, @has), 'get') }, type => 'passkey');
gets("$up: by a passkey", '200 AUTH_STEP_UP_SUCCESS', $up => \%up, @has, @cors);
gets("$up: by a challenge twice", $used_up, $up => \%up, @has);
$pg->sql("delete from factors where account_id = '$ann'");
$demanded->('true');
$waits = said('login: has to get a passkey', '200 AUTH_FACTOR_REQUIRED', login => {@ann})->{factorToken};
gets("$keys: at a login", $in, $keys => { factorToken => $waits,
    %{ answered(challenge("$keys/options" => { factorToken => $waits }), 'create') } }, @cors);
$authenticated->('6 minutes');
gets("$keys: step-up required", '401 AUTH_STEP_UP_REQUIRED', @wanted, @cors);
$authenticated->('0 minutes');

# What has ended, identity is asked itself: the gateway refuses such a token as
# soon as it knows.
my $ending = login('to end', 'none');
my @ending = (token => $ending->{accountAccessToken});
gets('an end', '200 AUTH_END_SESSION_SUCCESS', 'DELETE /api/auth/sessions/'
    . (jwt_decode($ending->{refreshToken}))[1]{session_id}, @ending);
gets('sessions: of one that has ended', '401 AUTH_SESSION_NOT_ACTIVE', 'GET /api/auth/sessions',
    @identity, @ending);
@ending = (token => login('to end all', 'none')->{accountAccessToken});
gets('logout-all', '200 AUTH_LOGOUT_ALL_SUCCESS', 'logout-all' => undef, @ending);
gets("$change: of a session that has ended", '401 AUTH_SESSION_NOT_ACTIVE',
    $change => $credentials, @identity, @ending);

# -- the revocation feed

my ($feed, $no_route) = ('GET /internal/revocations', '404 GATEWAY_ROUTE_NOT_FOUND');
$pg->sql("update accounts set sessions_valid_after = clock_timestamp()
    where account_name = 'none\@demo.test'");
gets(@$_) for [ 'revocations', 200, $feed, @identity ],
    [ 'revocations: no cursor', '400 REQUEST_INVALID', "$feed?after=x", @identity ],
    [ 'revocations through the gateway', $no_route, $feed ];

# -- calls to a service, preflights, and what nginx cannot read

my ($context, @branch) = ('/api/workspaces/current-context', token => $token);
my $old = jwt_token(branch => jwt_key('identity'), %claims, iat => time - 400, exp => time - 300);
gets("context: $_->[0]", $_->[1], "GET $context", @$_[2 .. $#$_]) for (
    [ 'good', 200, @branch, @cors ],
    [ 'no token', '401 GATEWAY_TOKEN_MISSING', @cors ],
    [ 'a bad token', '401 GATEWAY_TOKEN_INVALID', token => "${token}x" ],
    [ 'an old token', '401 GATEWAY_TOKEN_EXPIRED', token => $old ],
    [ 'an account token', '403 GATEWAY_CONTEXT_FORBIDDEN', @account ],
    [ 'over 1 MiB', '413 GATEWAY_REQUEST_TOO_LARGE', @branch,
        headers => [ 'Content-Length' => 2_000_000 ] ],
    [ 'a header over 24k', '400 GATEWAY_HEADER_TOO_LARGE', token => 'x' x 30_000 ],
);

my $asks = 'Access-Control-Request-Method';
gets(@$_) for (
    [ 'TRACE', '405 METHOD_NOT_ALLOWED', "TRACE $context" ],
    [ 'preflight', 204, "OPTIONS $context", headers => [ Origin => $APP, $asks => 'POST',
        'Access-Control-Request-Headers' => 'authorization, content-type' ] ],
    [ 'preflight: of a factor', 204, "OPTIONS $factor", headers => [ Origin => $APP, $asks => 'PATCH',
        'Access-Control-Request-Headers' => 'authorization, content-type' ] ],
    [ 'preflight: another method', '403 GATEWAY_PREFLIGHT_NOT_ALLOWED', "OPTIONS $context",
        headers => [ Origin => $APP, $asks => 'BREW' ] ],
    [ 'preflight: another origin', '403 GATEWAY_ORIGIN_NOT_ALLOWED', 'OPTIONS /anything',
        headers => [ @{ $other_page[1] }, $asks => 'POST' ] ],
    [ 'OPTIONS', 204, 'OPTIONS /api/auth/login' ],
    [ 'no such path', $no_route, 'GET /nothing', @cors ],
    [ 'a path that is read in two ways', '400 GATEWAY_PATH_AMBIGUOUS', 'GET /nothing;x', @cors ],
    [ 'no such path of identity', '404 RESOURCE_NOT_FOUND', nothing => undef ],
    [ 'two Hosts', '400 GATEWAY_BAD_REQUEST', 'GET /healthz', headers => [ Host => 'b' ] ],
    [ 'a path over 24k', '414 GATEWAY_URI_TOO_LONG', 'GET /' . 'x' x 30_000 ],
    [ 'no such coding', '501 GATEWAY_ERROR', 'GET /healthz',
        raw => "GET /healthz HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: x\r\n\r\n" ],
);

# -- keys, health, numbers

my ($jwks, @metadata) = map {"/.well-known/$_"} qw(jwks.json openid-configuration
    oauth-authorization-server);
my ($told) = $t->read_file($t->root . '/docs/http-api.md') =~ /^(\{"issuer":.*)$/m;
$told =~ s/:8081/':' . $t->port('identity')/ge;
for my $of (qw(gateway identity)) {
    my @of = (of => $of);
    for my $path ($jwks, @metadata) {
        my $res = gets("$path of $of", 200, "GET $path", @of);
        is $res->body, $told, 'as the page has it' if $path ne $jwks;
        gets("$path of $of: the same", 304, "GET $path", @of,
            headers => [ 'If-None-Match' => $res->header('ETag') ]);
        gets("$path of $of: another", '412 PRECONDITION_FAILED', "GET $path", @of,
            headers => [ 'If-Match' => '"x"' ]);
        gets("POST $path of $of", '405 METHOD_NOT_ALLOWED', "POST $path", @of, body => '');
    }
    gets("$_ of $of", 200, $_, @of) for map({"HEAD $_"} $jwks, @metadata),
        map { ("HEAD $_", "GET $_") } '/healthz', '/readyz';
    gets("POST of $of", '405 METHOD_NOT_ALLOWED', 'POST /healthz', @of, body => '');
}
my @face = map {"GET /actuator/$_"} qw(health health/liveness health/readiness info
    prometheus prometheus/1 targets);
for my $path ('GET /internal/readyz', @face) {
    gets($path, 200, $path, @identity);
    gets("$path through the gateway", $no_route, $path);
}
gets("$_ of somebody else", '403 GATEWAY_FORBIDDEN', $_, @identity, client => '192.0.2.4')
    for @face[3 .. 6];

my ($ask, @metrics) = ('POST /internal/explain', of => 'metrics');
gets('metrics', 200, 'GET /internal/metrics', @metrics);
is said('explain', 200, $ask, @metrics, json => { path => $context, token => $token })
    ->{decision}, 'allow', 'explain: a good token';
is said('explain: a bad token', 200, $ask, @metrics, json => { path => $context,
    method => 'GET', token => 'x', at => 1 })->{decision}, 'deny', 'explain: a bad token';
gets('explain: no question', '400 REQUEST_INVALID', $ask, @metrics, body => 'x');
gets('explain: over 64 KiB', '413 GATEWAY_REQUEST_TOO_LARGE', $ask, @metrics,
    headers => [ 'Content-Length' => 70_000 ]);
gets("$_: two Hosts", '400 GATEWAY_BAD_REQUEST', "GET $_", headers => [ Host => 'b' ])
    for $jwks, @metadata, '/readyz';
gets('explain: of a page', '403 GATEWAY_ORIGIN_NOT_ALLOWED', $ask, @metrics,
    json => { path => '/' }, @cors);
gets("$_ through the gateway", $no_route, $_) for 'GET /internal/metrics', $ask;

# -- logout

my $out = '200 AUTH_LOGOUT_SUCCESS';
gets(@$_) for (
    [ 'logout', $out, logout => { refreshToken => undef }, @cors,
        cookie($fresh->{refreshToken}), token => $fresh->{accessToken} ],
    [ 'logout: again', $out, logout => undef ],
    [ 'logout: a page of another origin', $out, logout => undef, cookie('x'), @other_page ],
    [ 'logout: a number', '400 REQUEST_INVALID', logout => refresh_token(1) ],
    [ 'refresh: after logout', '401 AUTH_SESSION_NOT_ACTIVE', refresh => undef,
        cookie($fresh->{refreshToken}) ],
    [ 'logout: the other session', $out, logout => undef, @account ],
    [ "$select: after logout", '401 AUTH_SESSION_NOT_ACTIVE', $select => $choice, @identity,
        @account ],
);

# -- a second gateway, for which something is missing

my $slow = $t->http_server(slow => sub { sleep 20; return undef });
my $lost = Platform::Test->new;
my $gone = '127.0.0.1:' . $lost->port('gone');
my %gate = (PLATFORM_JWT_ISSUER => $claims{iss}, IDENTITY_UPSTREAM => $gone,
    PLATFORM_ENTITLEMENT_TIMEOUT => '1s', PLATFORM_REVOCATIONS_ENABLED => 'false');

# Rendered anew and started, until the end of work.
sub gate ($work, %env) {
    my $nginx = $lost->track($lost->render_nginx({ %gate, %env }, $gone))->start;
    $work->();
    $lost->stop($nginx);
}

my @there = (at => $lost, client => undef);
my $down = '502 GATEWAY_UPSTREAM_UNAVAILABLE';
gate(sub {
    gets("no keys: $_->[0]", '503 GATEWAY_KEYS_UNAVAILABLE', @$_, @there) for
        ['GET /readyz'], [ "GET $context", @branch ], [ $select => {}, @account ];
    gets("no identity: $_", $down, $_, body => '', @there) for map({"GET $_"} $jwks, @metadata),
        map {"POST /api/auth/$_"} qw(login refresh logout);
}, IDENTITY_URL => "http://$gone");

my %keys = (IDENTITY_URL => 'http://127.0.0.1:' . $t->port('identity'));
my %no_feed = (%keys, PLATFORM_REVOCATIONS_ENABLED => 'true');
gate(sub {
    ok eventually(sub { http_get($lost->port('gateway'), '/readyz')->code
        eq 'GATEWAY_REVOCATIONS_STALE' }),
        'a gateway that has keys, and cannot read which sessions have ended';
    gets('readyz: no feed', '503 GATEWAY_REVOCATIONS_STALE', 'GET /readyz', @there);
    gets('sessions: no feed, and they pass', $down, 'GET /api/auth/sessions', @there, @account);
}, %no_feed);
gate(sub {
    ok eventually(sub {
        call('sessions: no feed, and none passes', GET => '/api/auth/sessions', @there,
            @account)->code eq 'GATEWAY_REVOCATIONS_STALE';
    }), 'PLATFORM_REVOCATIONS_STALE=refuse';
}, %no_feed, PLATFORM_REVOCATIONS_STALE => 'refuse');
# A program that calls too often.
gate(sub {
    ok eventually(sub { http_get($lost->port('gateway'), '/readyz')->status == 200 }), 'it has keys';
    http_get($lost->port('gateway'), "$system/audit", %office) for 1 .. 2;
    gets("$_: too many", '429 GATEWAY_RATE_LIMITED', $_, %office, @there, /^(?:POST|PUT|PATCH)/ ? (json => {}) : ())
        for $audit, map {"$_->[0] $system/$_->[1]"} @systems;
}, %keys, PLATFORM_SYSTEM_API => 'gateway', PLATFORM_SYSTEM_RATE_LIMIT => '1r/m burst 1');
my %service = ($gone => $down, '127.0.0.1:' . $slow->port => '504 GATEWAY_UPSTREAM_TIMEOUT');
for my $service (sort keys %service) {
    gate(sub {
        ok eventually(sub { http_get($lost->port('gateway'), '/readyz')->status == 200 }),
            'the second gateway has keys';
        gets("context: $service{$service}", $service{$service}, "GET $context", @branch, @there);
    }, %keys, PLATFORM_ENTITLEMENT_URL => "http://$service");
}

# No keys for factors, and no domain of passkeys.

my @keyless = (token => login('several', 'several')->{accountAccessToken});
restart($s->identity, AUTH_FACTOR_KEYS => undef, CORS_ALLOWED_ORIGINS => undef);
gets("$factors: not offered", '403 AUTH_FACTOR_NOT_OFFERED', $factors => $totp, @keyless, @cors);
gets("$_->[0]: not offered", '403 AUTH_FACTOR_NOT_OFFERED', @$_, @cors) for [ "$keys/options" => {} ],
    [ $keys => $right ], [ "$by_key-options" => undef ], [ $by_key => $right ], [ $up => \%up, @keyless ],
    [ $verify => by_key(x => $shown) ], [ "$up/passkey-options" => undef, @keyless ];
restart($s->identity, CORS_ALLOWED_ORIGINS => $APP);
gets('passkeys: offered again', $challenges, "$by_key-options" => undef);

# No database, and before that one that is older than the program.

$pg->sql('delete from schema_migrations where version ='
    . ' (select max(version) from schema_migrations)');
gets("an old schema: $_", '503 SERVICE_NOT_READY', "GET $_", @identity)
    for '/readyz', '/actuator/health';
@account = (token => login('several', 'several')->{accountAccessToken});
$pg->stop;
my @mine = (refresh_token($several->{refreshToken}));
gets("no database: $_->[0]", '503 DATABASE_UNAVAILABLE', @$_) for (
    (map { [ "GET $_", @identity ] } '/readyz', '/internal/readyz',
        '/actuator/health/readiness', '/internal/revocations'),
    (map { [ "$_->[0] $system/$_->[1]", %office, $_->[3] ? (json => {})
        : $_->[0] eq 'GET' ? () : (body => '') ] } @systems),
    [ $audit, %may ], [ $post_token, @grant ], [ $reset => \%reset ], [ login => \%one ], [ refresh => @mine ],
    [ $verify => with(totp => '000000') ], [ $factors => { %$totp, factorToken => 'x' } ], [ $list, @account ],
    [ $confirm => { code => '000000' }, @account ], [ "PATCH $factor", @named, @account ], [ "DELETE $factor", @account ],
    [ "$keys/options" => {}, @account ], [ $keys => $right, @account ], [ "$by_key-options" => undef ],
    [ $by_key => \%up ], [ logout => @mine ], [ $select => $choice, @account ],
    (map { [ "$_->[0] /api/auth/$_->[1]", @account,
        ($_->[2] // '') eq 'json' ? (json => { %$credentials, %{ by(totp => '0') } }) : @$_[2 .. $#$_] ] } @guarded),
);

# -- are they as the file says?

my $root = $t->root;

sub validate ($exchanges, $file = "$root/docs/openapi.yaml") {
    my $path = $t->write_file('exchanges.json', $json->encode($exchanges));
    return $json->decode(scalar qx{$node $root/t/node/validate.mjs $file $path});
}

# Some are changed, so that they are not as documented.
my %named = map { $_->{name} => $_ } @exchanges;
my ($good, $bad) = @named{ map {"login: $_"} 'one branch', 'too many failures' };

sub changed ($exchange, $change) {
    local $_ = $json->decode($json->encode($exchange));
    my $body = $json->decode($_->{body});
    $change->($body);
    $_->{body} = $json->encode($body) if $_->{body} ne '';
    return $_;
}

# That header alone, with these values.
sub header ($name, @values) {
    return sub {
        $_->{headers} = [ (grep { $_->[0] ne $name } @{ $_->{headers} }),
            map { [ $name => $_ ] } @values ];
    };
}

my %change = (
    'another code' => [ $bad, sub { $_[0]{code} = 'AUTH_BUSY' } ],
    'a header that nobody knows' => [ $bad, header('X-New', 1) ],
    'a member too many, below' => [ $good, sub { $_[0]{nextAction}{new} = 1 } ],
    'a member too few' => [ $good, sub { delete $_[0]{expiresIn} } ],
    'a request that is not documented' => [ $good,
        sub { $_->{requestBody} = '{"account":""}' } ],
);
my @changes = sort keys %change;
my $spec = validate([ @exchanges, (map { changed(@{ $change{$_} }) } @changes),
    map { changed($_, sub { }) } $good, $bad ]);
my @changed_faults = splice @{ $spec->{faults} }, scalar @exchanges;
for my $i (0 .. $#exchanges) {
    my $e = $exchanges[$i];
    is_deeply $spec->{faults}[$i], [], "as documented: $e->{name}"
        or diag $json->encode([ @$e{qw(status headers body)} ]);
}
isnt scalar @{ shift @changed_faults }, 0, "found out: $_" for @changes;
is_deeply \@changed_faults, [ [], [] ], 'control: as they came';

my %called = map { ("$_->{method} $_->{path}" => 1) } grep { $_->{status} =~ /^20[01]/ } @exchanges;
is join(' ', grep { my $path = s/\{\w+\}/[^ ]+/gr;
    !grep { /\A$path\z/ } keys %called } @{ $spec->{operations} }),
    '', 'every operation has been seen to work';

is_deeply $spec->{examples}, [], 'each answer has examples, which are as it says';

# Nothing is served that the file does not have.  Each operation of programs has been
# refused for want of the scope that the file names, and each body with a member too many.

sub nameless ($operation) { return $operation =~ s/\{\w+\}/{}/gr }
my %in_file = map { nameless($_) => 1 } @{ $spec->{operations} };
my ($table) = $t->read_file($t->root . '/identity-fcgi/src/server/route.c') =~ /^\} routes\[\] = (.*?)^\};/ms;
my @served;
while ($table =~ /\{"(\S+)",((?:\s*\.on\[\w+\] = \w+,?)+)/g) {
    my ($path, $on) = ($1, $2);
    push @served, map { ($_ eq 'READ' ? 'GET' : $_) . " $path" } $on =~ /\[(\w+)\]/g;
}
cmp_ok scalar @served, '>', 40, 'the routes of identity';
is_deeply [ grep { !$in_file{ nameless($_) } } @served ], [], 'each is in the file';

# Of the exchanges of an operation those with that status and code.
sub refused_as ($operation, $status, $code) {
    my $is = $operation =~ s/\{\w+\}/[^\/]+/gr;
    return grep { $_->{status} == $status && "$_->{method} $_->{path}" =~ /\A$is\z/
        && $_->{body} =~ /"code":"$code"/ } @exchanges;
}
# Each refusal of the file has been seen, but those of other settings, addresses and methods.
my @unseen = map { my $operation = $_;
    map {"$operation: $_"} grep { /^4/ && !refused_as($operation, $_, '[A-Z_]+') } @{ $spec->{statuses}{$operation} }
} @{ $spec->{operations} };
is_deeply \@unseen, [ 'POST /api/auth/token: 405', 'GET /api/workspaces/current-context: 405',
    map({"GET /.well-known/$_: 404"} qw(openid-configuration oauth-authorization-server)),
    map {"GET /internal/$_: 403"} qw(revocations metrics) ], 'each refusal' or diag explain \@unseen;
my @by_programs = grep {m{ /api/system/}} @{ $spec->{operations} };
my %of_json = map { $_ => 1 } @{ $spec->{bodies} };
for my $operation (@by_programs) {
    my %challenge = map { $_->[1] => 1 } grep { $_->[0] eq 'WWW-Authenticate' }
        map { @{ $_->{headers} } } refused_as($operation, 403, 'AUTH_SCOPE_REQUIRED');
    is_deeply [ map {/ scope="(.*)"/} keys %challenge ], [ $spec->{scopes}{$operation} // 'none' ],
        "$operation: refused without its scope";
    ok !$of_json{$operation} || grep({ $_->{body} =~ m{"pointer":"/x","code":"unknown"} }
        refused_as($operation, 400, 'REQUEST_INVALID')), "$operation: refused with another member";
}

# The documents for readers are made of it, and have together what it has.

my $made = $t->dir;
is system("$root/tools/openapi", $made), 0, 'tools/openapi';
my @readers = map {"openapi-$_.yaml"} qw(frontend system);
my @verbs = map {
    is $t->read_file("$root/docs/$_"), $t->read_file($_), "docs/$_ is what it makes";
    $t->read_file($_) =~ /^ +operationId: (\w+)$/mg;
} @readers;
is_deeply [ sort @verbs ], [ sort @{ $spec->{verbs} } ], 'each operation is in one of them';
is_deeply [ grep { !/\A(?:add|ask|change|check|confirm|delete|end|explain|get|issue|list|login|logout|make|put
    |refresh|remove|reset|revoke|select|step|unlock|verify)(?:[A-Z]|\z)/x } @verbs ], [], 'and is called by a verb';
my $file = $t->read_file("$root/docs/openapi.yaml");
my $wrong = $t->write_file('wrong.yaml', $file =~ s/expiresIn: \K900/soon/r);
isnt scalar @{ validate([], $wrong)->{examples} }, 0, 'control: an example that is not';
unlike $file, qr/(?:read|write)Only/, 'types for both ways are the same';
is_deeply [ grep { !/uuid|\$ref/ } $file =~ /\b(?!request|event|rpId)\w+Id: \{ (?:type|\$).*/g ], [],
    'ids are UUIDs';

# -- do file, page and sources know the same codes?

# nginx's own statuses that go out as 400.
my $own = qr/NGX_HTTP_(?:REQUEST_HEADER_TOO_LARGE|TO_HTTPS)/;
# But names of settings, and parameters of FastCGI.
my $code = qr/"(?!PLATFORM_|HTTP_|CONTENT_|REQUEST_(?:METHOD|SCHEME|URI)|DOCUMENT_URI|QUERY_STRING
    |REMOTE_ADDR)([A-Z]+(?:_[A-Z]+)+)"/x;
my (%source, %status);
for my $path (map { glob "$root/$_" } 'ngx_platform_gateway_module/{*,*/*}.[ch]',
    'identity-fcgi/src/{auth,server}/*.[ch]', 'identity-fcgi/src/{main,base/http}.c',
    'identity-fcgi/src/base/metrics.c')
{
    my $text = $t->read_file($path) =~ s/\\\n\s*//gr;
    $source{$_} = 1 for $text =~ /$code/g;
    $status{ (index($1, "N") ? $1 : 400) . " $2" } = 1
        while $text =~ /\b([2-5]\d\d|$own),\s*(?:"[A-Za-z_ ]+",\s*)?$code/g;
}
my @documented = sort @{ $spec->{codes} }, grep {/^20[01] /} @{ $spec->{responses} };
my %listed = map { $_ => 1 } @documented;
is_deeply [ sort { $a cmp $b } keys %{ { map { s/^\d+ //r => 1 } @documented } } ],
    [ sort keys %source ], 'the file has the codes of the sources';
is_deeply [ grep { !$status{$_} } @documented ], [], 'with no status that is not theirs';
is_deeply [ grep { !$listed{$_} } sort keys %status ], [], 'and with each that is';
is_deeply [ grep { !$listed{$_} } @{ $spec->{responses} } ], [], 'no operation has another';

my $page = $t->read_file("$root/docs/http-api.md");
my @page = map { my ($statuses, $code) = /^\| ([\d, ]+) \| `([A-Z_]+)`/;
    map {"$_ $code"} split /, /, $statuses // '' } split /\n/, $page;
is_deeply [ sort @page ], \@documented, 'the page has the same';
is_deeply [ grep { $page !~ /^\| [^|]*`$_`/m } @{ $spec->{headers} } ], [],
    'it has a row for each header';
my $pages = $page . $t->read_file("$root/docs/programs.md");
is_deeply [ grep { index($pages, s/^\w+ |\{.*//gr) < 0 } @{ $spec->{operations} } ], [],
    'each path is there, or in docs/programs.md';

my %seen = map { (eval { $json->decode($_->{body})->{code} } // '') => 1 } @exchanges;
is_deeply [ grep { !$seen{$_} } sort keys %source ],
    [qw(AUTH_BUSY GATEWAY_AUTHENTICATION_REQUIRED GATEWAY_CLAIM_REQUIRED GATEWAY_PROOF_INVALID
        GATEWAY_PROOF_REQUIRED GATEWAY_PROOF_STORE_FULL GATEWAY_UNAUTHORIZED INTERNAL_ERROR)],
    'all have been seen but those that take a fault, a crowd or own rules';

my @mute = grep { $_->{status} == 400 && $_->{path} !~ m{/token\z}
        && $_->{body} !~ /"code":"GATEWAY_|"errors":\[\{"/ } @exchanges;
is_deeply [ map { $_->{name} } @mute ], [], 'each 400 of a JSON call names its faults';

is $spec->{version}, ($t->read_file("$root/jose/pj_version.h") =~ /"(.*)"/)[0],
    'the file has the version of the program';

$t->done;
