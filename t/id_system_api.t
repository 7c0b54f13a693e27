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

my $off = $t->identity(PLATFORM_SYSTEM_API => 'off', name => 'off');
like $t->fcgi($off->address)->request(GET => '/api/system/audit')->{stdout}, qr/\AStatus: 404/,
    'PLATFORM_SYSTEM_API=off: not at all';
$t->done;
