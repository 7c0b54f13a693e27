# One's own sessions: seen, ended one by one, all others, or all; those of nobody
# else.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Client;
use POSIX qw(strftime);
use Test::More;

my $t = Platform::Test->new;
my $s = $t->full_stack(env => {
    PLATFORM_AUTH_MAX_FAILURES    => 0,
    PLATFORM_CORS_ALLOWED_ORIGINS => 'https://app.example.com',
});
my ($gateway, $face, $pg) = ($s->gateway, $s->face, $s->postgres);
client_of($t, $gateway);
my $COOKIE = $Platform::Test::Client::COOKIE;
my $key = jwt_key('identity');

# A login by an agent of its own, and whether that session still lives.
sub opened { return logged_in($_[0], headers => [ 'User-Agent' => $_[1] // 'test' ]) }

sub is_alive {
    my ($session, $alive, $name) = @_;

    my $res = refresh($session);
    $session->{refreshToken} = $res->json->{refreshToken} if $res->status == 200;
    return is $res->status, $alive ? 200 : 401, $name;
}

# A call with an access token of either kind.
sub ask {
    my ($session, $method, $path, %o) = @_;

    my $token = exists $o{token} ? delete $o{token}
        : $session->{accessToken} // $session->{accountAccessToken};
    return http($o{port} // $gateway, $method => "/api/auth/$path",
        (defined $token ? (token => $token) : ()),
        ($method eq 'POST' ? (body => '') : ()), %o);
}

sub sessions {
    my ($session, %o) = @_;

    my $res = ask($session, GET => 'sessions', %o);
    $res->status == 200 or die $res->body;
    return @{ $res->json->{sessions} };
}

sub listed { return [ map { $_->{sessionId} } sessions(@_) ] }

# One test: what was logged by $do has this line.
sub is_audited {
    my ($line, $do) = @_;

    my $log = length $s->identity->log_text;
    my $res = $do->();
    is $res->status, 200, 'it succeeds' or diag $res->body;
    like substr($s->identity->log_text, $log), $line->($res), 'audited';
    return $res;
}

# -- the list

my $stranger = opened('one');
my @own = map { opened('several', "agent $_") } 1 .. 3;
my $res = ask($own[1], GET => 'sessions');
is_deeply [ $res->status, $res->header('Cache-Control'), $res->code,
    $res->json->{more} ], [ 200, 'no-store', 'AUTH_SESSIONS_SUCCESS',
    JSON::PP::false() ], 'an account token: 200, not to be stored';
is_deeply [ sort keys %{ $res->json } ], [ sort qw(code message sessions more) ],
    'its members';
my @list = @{ $res->json->{sessions} };
is_deeply [ map {"$_->{sessionId} $_->{current}"} @list ], [ session_of($own[1]) . ' 1',
    map { session_of($_) . ' 0' } @own[ 2, 0 ] ], 'the own one first, then the newest';
is_deeply [ sort keys %{ $list[0] } ],
    [ sort qw(sessionId current createdAt usedAt expiresAt address agent
        workspaceId workspaceName branchId branchName) ], 'members of each';
is_deeply [ @{ $list[0] }{qw(address agent workspaceId branchName usedAt)} ],
    [ '127.0.0.1', 'agent 2', undef, undef, $list[0]{createdAt} ], 'by whom, and not used';
like $list[0]{$_}, qr/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\z/, "$_: a time"
    for qw(createdAt expiresAt);
my $branch = $own[0]{branches}[0];
$own[0]{accessToken} = select_branch($own[0], $branch->{branchId})->json->{accessToken};
my ($first) = sessions($own[0]);
is_deeply { map { $_ => $first->{$_} } keys %$branch }, $branch,
    'a branch token: in which branch';
ok $first->{current}, 'it is the current one';
is_deeply listed($stranger), [ session_of($stranger) ], 'nobody else sees it';
is_deeply listed($own[0], port => $face), listed($own[0]), 'at identity itself';

# Of itself a session does not tell when it was used, or by whom: a thief could watch
# for it.
refresh($own[0], headers => [ 'User-Agent' => 'new' ]);
alter($own[0], "created_at = created_at - interval '1 minute',
    used_at = used_at + interval '3 s', expires_at = expires_at + interval '3 s'");
my ($itself) = sessions($own[0]);
is_deeply [ @$itself{qw(usedAt agent expiresAt)} ], [ $itself->{createdAt}, 'agent 1',
    strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(claims($own[0]{accessToken})->{iat}
        + 30 * 86400)) ], 'itself: when and by whom it was opened, until when by the token';
my ($seen) = grep { $_->{sessionId} eq session_of($own[0]) } sessions($own[1]);
is_deeply [ @$seen{qw(usedAt expiresAt agent)} ], [ split(/\|/, row($own[0],
    map {"to_char($_ at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')"}
        qw(used_at expires_at))), 'new' ], 'another: when it was used, by whom, until when';

# -- who may not

my $own = claims($own[1]{accountAccessToken});
my $made = sub { jwt_token('account', $key, %$own, @_) };
my $disabled = opened('none');
$pg->sql("update accounts set status = 'DISABLED'
    where account_name = 'none\@demo.test'");
my %REQUIRED = (
    'no token'        => undef,
    'a refresh token' => $own[1]{refreshToken},
    'a tampered one'  => jwt_tamper($own[1]{accountAccessToken}, 2, 0),
    'an expired one'  => $made->(exp => time - 31),
    'a foreign one'   => jwt_token('account', jwt_key('other'), %$own),
    'a system token'  => jwt_token('system', $key, map { $_ => $own->{$_} } qw(iss
        session_id account_id sub)),
);
my %NOT_ACTIVE = (
    'a disabled account' => $disabled->{accountAccessToken},
    'no such session'    => $made->(session_id => uuid()),
    "another account's"  => $made->(session_id => session_of($stranger)),
);
my @calls = ([ GET => 'sessions' ], [ DELETE => 'sessions/' . session_of($own[2]) ],
    [ POST => 'logout-others' ], [ POST => 'logout-all' ]);
for my $call (@calls) {
    for my $name (sort keys %REQUIRED) {
        $res = ask(undef, @$call, token => $REQUIRED{$name}, port => $face);
        is_problem($res, 401, 'AUTH_ACCESS_TOKEN_REQUIRED', "@$call: $name");
        like $res->header('WWW-Authenticate'), qr/\ABearer realm="platform"/,
            'a challenge';
    }
    is_problem(ask(undef, @$call, token => $NOT_ACTIVE{$_}, port => $face), 401,
        'AUTH_SESSION_NOT_ACTIVE', "@$call: $_") for sort keys %NOT_ACTIVE;
    # A cookie is sent by the browser, whoever made the page.
    is_problem(ask(undef, @$call, token => undef, port => $face,
        cookie => "$COOKIE=$own[1]{refreshToken}"), 401,
        'AUTH_ACCESS_TOKEN_REQUIRED', "@$call: the cookie alone");
    is_problem(ask(undef, @$call, token => undef), 401,
        'GATEWAY_TOKEN_MISSING', "@$call: at the gateway");
    is_problem(ask(undef, @$call, token => $REQUIRED{'a system token'}), 403,
        'GATEWAY_CONTEXT_FORBIDDEN', "@$call: a system token there");
    is_problem(ask($own[1], @$call, port => $face, body => 'x' x (1 << 20)), 413,
        'GATEWAY_REQUEST_TOO_LARGE', "@$call: a body of 1 MiB");
}
is_problem(ask($own[1], PUT => 'sessions', port => $face), 405,
    'METHOD_NOT_ALLOWED', 'another method');
is ask($own[1], PUT => 'sessions/x', port => $face)->header('Allow'),
    'DELETE', 'which says what is';
is ask($own[1], @$_)->status, 405, "@$_" for [ GET => 'sessions/' . session_of($own[1]) ],
    [ POST => 'sessions' ], [ GET => 'logout-others' ], [ GET => 'logout-all' ];
is ask($own[1], HEAD => 'sessions', port => $face)->status, 200, 'HEAD';

# -- ending one

my $n = @{ listed($own[1]) };
for my $id (uuid(), 'x', session_of($stranger), uc 'none', 'a%2fb', '') {
    is_problem(ask($own[1], DELETE => "sessions/$id"), 404,
        'RESOURCE_NOT_FOUND', "none of one's own: '$id'");
}
is scalar @{ listed($own[1]) }, $n, 'nothing has ended';
my @bodies = map { ask($own[1], DELETE => "sessions/$_")->body
    =~ s/"requestId":"\w+"//r } uuid(), session_of($stranger);
is $bodies[0], $bodies[1], 'nobody learns that it is there';
is_alive($stranger, 1, "nor another account's");
my $gone = session_of($own[2]);
$res = is_audited(sub { qr/"event":"auth\.session\.ended".*"sessionId":"$gone"/ },
    sub { ask($own[1], DELETE => "sessions/$gone") });
is_deeply [ sort(keys %{ $res->json }), $res->code, cookies($res) ],
    [ qw(code message AUTH_END_SESSION_SUCCESS), 0 ], 'its members; the own cookie stays';
is_alive($own[2], 0, 'it is over');
is_problem(ask($own[1], DELETE => "sessions/$gone"), 404, 'RESOURCE_NOT_FOUND',
    'again: there is none');
ok !(grep { $_ eq $gone } @{ listed($own[1]) }), 'nor in the list';
is_alive($own[1], 1, 'the own one lives');
my $last = opened('several');
$res = ask($last, DELETE => 'sessions/' . uc session_of($last));
is $res->status, 200, 'the own one, in capitals';
like $res->cookie_line($COOKIE) // '', qr/Max-Age=0/, 'clears the cookie';
is_alive($last, 0, 'it is over');
is_problem(ask($last, GET => 'sessions', port => $face), 401,
    'AUTH_SESSION_NOT_ACTIVE', 'and may not ask any more');

# Those that are over are not shown.
my %over = (
    'expired'    => [ "created_at = now() - interval '1 hour',
        expires_at = now() - interval '1 s'", '-infinity' ],
    'locked out' => [ "created_at = created_at - interval '3 days'", 'yesterday' ],
    'too old'    => [ "created_at = created_at - interval '91 days'", '-infinity' ],
);
for my $name (sort keys %over) {
    my ($set, $valid_after) = @{ $over{$name} };
    $pg->sql("set session_replication_role = replica; update accounts set
        sessions_valid_after = '$valid_after'
        where account_name = 'several\@demo.test'", user => 'postgres');
    my $one = opened('several');
    my $before = @{ listed($own[1]) };
    alter($one, $set);
    is scalar @{ listed($own[1]) }, $before - 1, "$name: not shown";
    is_problem(ask($own[1], DELETE => 'sessions/' . session_of($one)), 404,
        'RESOURCE_NOT_FOUND', "$name: not there");
}

# -- many; then the others

$pg->sql("insert into auth_sessions (session_id, account_id, jti, created_at,
        expires_at) select gen_random_uuid(), account_id, gen_random_uuid(),
        now() + n * interval '1 ms', now() + interval '1 day'
    from accounts, generate_series(1, 1100) n
    where account_name = 'several\@demo.test'");
$res = ask($own[1], GET => 'sessions')->json;
is_deeply [ scalar @{ $res->{sessions} }, $res->{more}, $res->{sessions}[0]{current} ],
    [ 101, (JSON::PP::true()) x 2 ], 'a hundred, and the own one first; there are more';
my $active = "select count(*) from auth_sessions s join accounts a
    using (account_id) where account_name = 'several\@demo.test'
    and s.status = 'ACTIVE' and s.created_at > a.sessions_valid_after";
$n = $pg->sql($active) - 1;
$res = is_audited(sub { qr/"event":"auth\.logout\.others".*"revokedSessions":$n\b/ },
    sub { ask($own[1], POST => 'logout-others') });
is_deeply $res->json, { code => 'AUTH_LOGOUT_OTHERS_SUCCESS',
    message => $res->json->{message}, endedSessions => $n }, 'how many, past a batch';
is $pg->sql($active), 1, 'the own one is left';
is_alive($own[1], 1, 'and lives');
is_alive($own[0], 0, 'another does not');
is_alive($stranger, 1, "another account's does");
is ask($own[1], POST => 'logout-others')->json->{endedSessions}, 0, 'again: none';

# Two at once, each ending the other: both are over, and neither waits for ever.
for my $round (1 .. 3) {
    my @two = map { opened('several') } 1 .. 2;
    my @answers = http_parallel([ map { [ $gateway, http_request_bytes(
        POST => '/api/auth/logout-others', body => '',
        token => $_->{accountAccessToken}) ] } @two ]);
    my @status = sort map { $_->status } @answers;
    like "@status", qr/\A200 (?:200|401)\z/, "two: @status";
    is $pg->sql($active), "@status" eq '200 200' ? 0 : 1, 'what is left';
}

# -- all

@own = map { opened('several') } 1 .. 3;
$res = is_audited(sub { my $all = $_[0]->json->{endedSessions};
    qr/"event":"auth\.logout\.all".*"revokedSessions":$all\b.*"sessionId":"@{[
        session_of($own[0]) ]}"/ }, sub { ask($own[0], POST => 'logout-all') });
is $res->code, 'AUTH_LOGOUT_ALL_SUCCESS', 'its code';
cmp_ok $res->json->{endedSessions}, '>=', 3, 'how many';
like $res->cookie_line($COOKIE) // '', qr/Max-Age=0/, 'clears the cookie';
is_alive($_, 0, 'over') for @own;
is_alive($_, 1, "another account's lives, and a new one")
    for $stranger, opened('several');

# -- a page elsewhere may ask, as the gateway is set up

$res = http($gateway, OPTIONS => '/api/auth/sessions/x', headers => [
    Origin => 'https://app.example.com',
    'Access-Control-Request-Method'  => 'DELETE',
    'Access-Control-Request-Headers' => 'authorization' ]);
is $res->status, 204, 'a preflight of DELETE';
like $res->header('Access-Control-Allow-Methods'), qr/\bDELETE\b/, 'allows it';

# -- numbers, and a database that is not there

my $metrics = http_get($face, '/actuator/prometheus')->body;
like $metrics, qr/^identity_sessions_revoked_total\{reason="owner"\} [1-9]/m,
    'ended sessions are counted';
like $metrics, qr/endpoint="\/api\/auth\/sessions\/\{id\}",status="200",code="AUTH_END_SESSION_SUCCESS"/,
    'requests too, without their ids';
unlike $s->identity->log_text, qr/eyJ/, 'no token in the log';
$t->allow(qr/db\.(?:error|connect|unavailable)|sweep\.failed/);
my $again = opened('several');
$pg->stop('INT');
is_problem(ask($again, @$_[ 0, 1 ], port => $face), 503,
    'DATABASE_UNAVAILABLE', "no database: @$_") for @calls;

$t->done;
