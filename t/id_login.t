# Login: what each kind of account gets, the session that it opens, that every refusal looks
# the same, also while its account changes.  And where several refusals apply, which comes
# first, here and at the other endpoints: 404, 405, 413, 415, 400, 403, 429, 503, then what
# tokens and state say.

use Platform::Test;
use Platform::Test::Client;

my $t = Platform::Test->new;
my $identity = $t->identity_face(
    PLATFORM_JWT_ACCESS_TOKEN_TTL  => '10m',
    PLATFORM_JWT_REFRESH_TOKEN_TTL => '2h',
    PLATFORM_AUTH_MAX_FAILURES     => 0,
);
my $pg = $t->postgres;
my $port = client_of($t);
my $CREDENTIAL = $Platform::Test::Client::CREDENTIAL;
my $COOKIE = $Platform::Test::Client::COOKIE;

sub members { return join ' ', sort keys %{ $_[0] } }

# -- one branch: scope at once (claims in full: check_token)

my $res = login('one');
my $json = $res->json;
is_deeply [ $res->status, (map { $res->header($_) } 'Content-Type', 'Cache-Control'),
    members($json), @$json{qw(code tokenType expiresIn)}, $json->{nextAction}{type} ],
    [ 200, 'application/json', 'no-store',
        'accessToken code expiresIn message nextAction refreshToken tokenType',
        'AUTH_LOGIN_SUCCESS', 'Bearer', 600, 'load_current_context' ], 'one branch: the answer';
my ($access, $refresh) = map { claims($_) } $json->{accessToken}, $json;
is_deeply [ @$access{qw(token_scope account_type sub branch_ids roles)} ],
    [ 'BRANCH', 'CUSTOMER', $access->{account_id}, [ $access->{active_branch_id} ],
        [qw(BRANCH_MANAGER CASHIER)] ], 'its token';
is_deeply [ map { $_->{exp} - $_->{iat} } $access, $refresh ], [ 600, 7200 ], 'how long they live';
is $res->cookie_line($COOKIE), "$COOKIE=$json->{refreshToken}; Path=/api/auth; "
    . 'Max-Age=7200; HttpOnly; SameSite=Lax', 'the cookie';
is row($json, qw(account_id workspace_id member_id active_branch_id jti status),
    'revoked_at is null, extract(epoch from expires_at)::bigint'),
    join('|', @$access{qw(account_id workspace_id member_id active_branch_id)},
        $refresh->{jti}, 'ACTIVE', 't', $refresh->{exp}), 'the session row';

# -- several branches, two workspaces, none: a choice

$json = logged_in('several');
is_deeply [ members($json), members($json->{branches}[0]) ],
    [ 'accountAccessToken branches code expiresIn message nextAction refreshToken tokenType',
        'branchId branchName workspaceId workspaceName' ], 'several branches: its members';
is claims($json->{accountAccessToken})->{token_scope}, 'ACCOUNT', 'its token';
is row($json, 'num_nulls(workspace_id, member_id, active_branch_id)'), 3,
    'a session without scope';
my %choices = (
    several => [ map {"Harbour Cafes/Harbour $_"} qw(East North West) ],
    'two-workspaces' => [ 'North Works/North Hall', 'South Works/South Hall' ],
    none => [],
);
for my $who (sort keys %choices) {
    my $json = logged_in($who);
    is_deeply [ $json->{nextAction}{type}, map {"$_->{workspaceName}/$_->{branchName}"}
        @{ $json->{branches} } ], [ 'select_branch', @{ $choices{$who} } ], "$who: its branches";
}
is scalar @{ logged_in('two-hundred')->{branches} }, 200, 'two hundred branches';

# -- the account's name is folded, the credential is not; other bytes count exactly

$pg->sql("insert into accounts (account_name, credential_hash)
    select U&'jos\\00e9\@demo.test', credential_hash from accounts
    where account_name = 'one\@demo.test'");
my %body;
for my $case (
    [ 200, "One\@Demo.Test" ], [ 200, "  one\@demo.test\t" ],
    [ 200, "\r\none\@demo.test\n" ], [ 200, "JOS\x{e9}\@Demo.Test" ],
    [ 401, "jos\x{c9}\@demo.test" ], [ 401, "jose\x{301}\@demo.test" ],
    [ 401, 'one', " $CREDENTIAL" ], [ 401, 'one', lc $CREDENTIAL ],
    [ 401, 'one', 'wrong' ], [ 401, 'nobody' ], [ 401, 'disabled' ],
    [ 401, 'disabled', 'wrong' ],
    )
{
    my ($status, $who, $credential) = @$case;
    $res = login($who, credential => $credential);
    my $name = join ' ', map { s/[^ -~]/?/gr } grep {defined} @$case[ 1, 2 ];
    is $res->status, $status, "$name: $status";
    next if $status == 200;
    is_problem($res, 401, 'AUTH_INVALID_CREDENTIALS', $name);
    is cookies($res), 0, "$name: no cookie";
    $body{ $res->body =~ s/"requestId":"[^"]*"//r }++;
}
is scalar keys %body, 1, 'all refusals have one body';
is $pg->sql("select count(*) from auth_sessions s join accounts using (account_id)
    where account_name = 'one\@demo.test' and s.status = 'ACTIVE'"), 4,
    'a login never touches older sessions, a refused one opens none';

# -- a weaker stored hash is replaced, also by many at once; one that is too dear is
#    refused

my $hash_of = sub { $pg->sql("select credential_hash from accounts
    where account_name = '$_[0]\@demo.test'") };
my $weak = $hash_of->('several');
like $weak, qr/\$m=19456,t=2,p=1\$/, 'from this';
restart($identity, AUTH_ARGON2_ITERATIONS => 3);

sub begun ($who) {
    return sent(login => { account => "$who\@demo.test", credential => $CREDENTIAL });
}

my %rehashed = map { ($_->read_response->status => 1) } map { begun('several') } 1 .. 4;
delete $rehashed{503};    # a slow machine's
is_deeply \%rehashed, { 200 => 1 }, 'four logins that rehash';
my $anew = $hash_of->('several');
like $anew, qr/\$m=19456,t=3,p=1\$/, 'to that';
ok logged_in('several'), 'which is good';
$pg->sql("update accounts set credential_hash = '" . $weak =~ s/m=19456/m=262145/r
    . "' where account_name = 'none\@demo.test'");
is_problem(login('none'), 401, 'AUTH_INVALID_CREDENTIALS', 'parameters past the bounds');
ok scalar(grep { $_->{event} eq 'auth.credential.unusable' } $identity->log_lines),
    'which is logged';
$pg->sql("update accounts set credential_hash = '$weak' where account_name = 'none\@demo.test'");

# -- an operator changes the account between check and session: what was checked is
#    good no more, unless it is but hashed anew

for my $case (
    [ 401, "status = 'DISABLED'", 'disabled meanwhile' ],
    [ 401, "credential_hash = '" . $anew =~ s/(.{4})\z/reverse $1/er . "'",
        'another credential meanwhile' ],
    [ 200, "credential_hash = '$anew'", 'hashed anew meanwhile' ],
    )
{
    my ($status, $set, $name) = @$case;
    my $where = "where account_name = 'one\@demo.test'";
    $pg->sql("update accounts set status = 'ACTIVE', credential_hash = '$weak' $where");
    my $sessions = sub { $pg->sql("select count(*) from auth_sessions where status = 'ACTIVE'") };
    my $before = $sessions->();
    my $operator = $pg->begin("update accounts set $set $where");
    my $c = begun('one');
    ok $pg->waiting(1), "$name: the login waits";
    ok $pg->end($operator, 'commit'), "$name: it is committed";
    is_deeply [ $c->read_response->status, $sessions->() ],
        [ $status, $before + ($status == 200) ], "$name: is a session opened?";
}

unlike $identity->log_text, qr/passw0rd|eyJ/, 'no secret in the log';

# -- which refusal comes first: one step at a time, what is mended falls away; with a
#    database and without (the order at each endpoint: its unit program)

restart($identity, AUTH_MAX_FAILURES => 1);
my ($alive, $over) = map { logged_in($_) } qw(two-hundred several);
is logout($over)->status, 200, 'a session that is over';
my @large = (body => 'x' x 20_000);
my @text = ('Content-Type' => 'text/plain');
my @evil = (Origin => 'https://evil.test');
my @login = (POST => 'login');
my @refresh = (POST => 'refresh');
my @select = (POST => 'select-branch');
my @wrong = (json => { account => 'one@demo.test', credential => 'wrong' });
my @two = (cookie => "$COOKIE=a; $COOKIE=b");
my %b = (json => { refreshToken => 'b' }, cookie => "$COOKIE=a");

sub refused ($when, @cases) {
    for my $case (@cases) {
        my ($method, $path, $status, $code, %o) = @$case;
        is_problem(http($port, $method => "/api/auth/$path", %o), $status, $code,
            "$when$method $path");
    }
}

my @always = (
    [ PUT => 'nowhere', 404, 'RESOURCE_NOT_FOUND', @large, headers => \@text ],
    [ GET => 'refresh', 405, 'METHOD_NOT_ALLOWED', @large, headers => \@text ],
    [ @refresh, 413, 'REQUEST_TOO_LARGE', @large, headers => [ @text, @evil ], @two ],
    [ @refresh, 415, 'MEDIA_TYPE_UNSUPPORTED', body => '{', headers => [ @text, @evil ], @two ],
    [ @refresh, 400, 'REQUEST_INVALID', body => '{', @two,
        headers => [ 'Content-Type' => 'application/json', @evil ] ],
    [ @refresh, 403, 'AUTH_ORIGIN_NOT_ALLOWED', %b, headers => \@evil ],
    [ @refresh, 400, 'AUTH_REFRESH_TOKEN_CONFLICT', %b ],
    [ @refresh, 401, 'AUTH_REFRESH_TOKEN_INVALID', %b, cookie => "$COOKIE=b; $COOKIE=b" ],
    # Who may not ask is told nothing of the body.
    [ @select, 401, 'AUTH_ACCOUNT_TOKEN_REQUIRED', body => '{', headers => \@text ],
    [ @select, 400, 'REQUEST_INVALID', json => {}, token => $over->{accountAccessToken} ],
);
my @late = ([ @refresh, json => { refreshToken => $over->{refreshToken} } ],
    map { [ @$_, token => $over->{accountAccessToken} ] } [ @select, json => { branchId => 'x' } ],
    [ GET => 'sessions' ], [ POST => 'logout-all' ]);
refused('', @always, [ @login, 401, 'AUTH_INVALID_CREDENTIALS', @wrong ],
    [ @login, 400, 'REQUEST_INVALID', json => { account => 'one@demo.test' } ],
    [ @login, 429, 'AUTH_TOO_MANY_ATTEMPTS', @wrong ]);
$pg->stop('INT');
refused('no database: ', @always, map { [ @$_[ 0, 1 ], 503, 'DATABASE_UNAVAILABLE',
    @$_[ 2 .. $#$_ ] ] } @late, [ @login, @wrong ]);
$pg->start;
ok eventually(sub { http_get($port, '/readyz')->status == 200 }), 'with one again';
refused('', map { [ @$_[ 0, 1 ], 401, 'AUTH_SESSION_NOT_ACTIVE', @$_[ 2 .. $#$_ ] ] } @late);
is refresh($alive)->status, 200, 'one that lives is refreshed';

$t->done;
