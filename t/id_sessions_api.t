# One's own sessions: seen, ended one by one, all others, or all; those of
# nobody else.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Commands;
use POSIX qw(strftime);
use Test::More;

my $t = Platform::Test->new;
my $s = $t->full_stack(env => {
    PLATFORM_AUTH_MAX_FAILURES    => 0,
    PLATFORM_LOGIN_RATE_LIMIT     => 'off',
    PLATFORM_REFRESH_RATE_LIMIT   => 'off',
    PLATFORM_CORS_ALLOWED_ORIGINS => 'https://app.example.com',
});
my ($gateway, $face, $pg) = ($s->gateway, $t->port('identity'), $s->postgres);
my $key = jwt_key('identity');
my $time = qr/\A\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ\z/;

sub login {
    my ($account, %o) = @_;

    my $res = http_post($gateway, '/api/auth/login', json => {
        account => "$account\@demo.test", credential => 'Demo-passw0rd!' },
        headers => [ 'User-Agent' => $o{agent} // 'test' ]);
    is $res->status, 200, "a login: $account" or diag $res->body;
    return $res->json;
}

sub claims { return (jwt_decode($_[0]))[1] }
sub id_of { return claims($_[0]{refreshToken})->{session_id} }

sub refresh {
    return http_post($gateway, '/api/auth/refresh',
        json => { refreshToken => $_[0]{refreshToken} });
}

sub is_alive {
    my ($session, $alive, $name) = @_;

    my $res = refresh($session);
    $session->{refreshToken} = $res->json->{refreshToken}
        if $res->status == 200;
    return is $res->status, $alive ? 200 : 401, $name;
}

# A call with an access token of either kind.
sub call {
    my ($session, $method, $path, %o) = @_;

    my $token = exists $o{token} ? delete $o{token}
        : $session->{accessToken} // $session->{accountAccessToken};
    return http($o{port} // $gateway, $method => "/api/auth/$path",
        (defined $token ? (token => $token) : ()),
        ($method eq 'POST' ? (body => '') : ()), %o);
}

sub sessions {
    my ($session, %o) = @_;

    my $res = call($session, GET => 'sessions', %o);
    is $res->status, 200, 'the sessions' or diag $res->body;
    return @{ $res->json->{sessions} };
}

sub listed { return [ map { $_->{sessionId} } sessions(@_) ] }

# -- the list

my $stranger = login('one');
my @own = map { login('several', agent => "agent $_") } 1 .. 3;
my $res = call($own[1], GET => 'sessions');
is $res->status, 200, 'an account token: 200';
is $res->header('Cache-Control'), 'no-store', 'not to be stored';
is_deeply [ sort keys %{ $res->json } ], [ sort qw(code message sessions more) ],
    'its members';
is $res->json->{code}, 'AUTH_SESSIONS_SUCCESS', 'its code';
ok !$res->json->{more}, 'there are no more';
my @list = @{ $res->json->{sessions} };
is_deeply [ map { $_->{sessionId} } @list ],
    [ id_of($own[1]), id_of($own[2]), id_of($own[0]) ],
    'the own one first, then the newest';
is_deeply [ map { $_->{current} ? 1 : 0 } @list ], [ 1, 0, 0 ],
    'which is said';
is_deeply [ sort keys %{ $list[0] } ],
    [ sort qw(sessionId current createdAt usedAt expiresAt address agent
        workspaceId workspaceName branchId branchName) ], 'members of each';
is_deeply [ @{ $list[0] }{qw(address agent workspaceId branchName)} ],
    [ '127.0.0.1', 'agent 2', undef, undef ], 'by whom it was opened';
like $list[0]{$_}, $time, "$_: a time" for qw(createdAt usedAt expiresAt);
is $list[0]{usedAt}, $list[0]{createdAt}, 'not used yet';

my $branch = $own[0]{branches}[0];
$res = http_post($gateway, '/api/auth/select-branch',
    token => $own[0]{accountAccessToken},
    json => { branchId => $branch->{branchId} });
is $res->status, 200, 'a selection';
$own[0]{accessToken} = $res->json->{accessToken};
my ($first) = sessions($own[0]);
is_deeply { map { $_ => $first->{$_} } keys %$branch }, $branch,
    'a branch token: in which branch';
ok $first->{current}, 'it is the current one';
http_post($gateway, '/api/auth/refresh', headers => [ 'User-Agent' => 'new' ],
    json => { refreshToken => $own[0]{refreshToken} });
is((sessions($own[0]))[0]{agent}, 'new', 'by whom it was last used');

# Of itself a session does not tell when that was: a thief could watch for it.
$pg->sql("set session_replication_role = replica; update auth_sessions
    set created_at = created_at - interval '1 minute',
        used_at = used_at + interval '3 s', expires_at = expires_at + interval '3 s'
    where session_id = '@{[ id_of($own[0]) ]}'", user => 'postgres');
my ($itself) = sessions($own[0]);
is $itself->{usedAt}, $itself->{createdAt}, 'itself: when it was opened';
is $itself->{expiresAt}, strftime('%Y-%m-%dT%H:%M:%SZ', gmtime(
    claims($own[0]{accessToken})->{iat} + 30 * 86400)),
    'itself: until when, by the token in hand';
is_deeply [ split /\|/, $pg->sql("select to_char(used_at at time zone 'UTC', f),
        to_char(expires_at at time zone 'UTC', f) from auth_sessions,
        (values ('YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')) as v (f)
    where session_id = '@{[ id_of($own[0]) ]}'") ],
    [ map { @$_{qw(usedAt expiresAt)} } grep {
        $_->{sessionId} eq id_of($own[0]) } sessions($own[1]) ],
    'another: when it was used, and until when';
is_deeply listed($stranger), [ id_of($stranger) ], 'nobody else sees it';
is_deeply [ map { $_->{sessionId} } sessions($own[0], port => $face) ],
    listed($own[0]), 'at identity itself';

# -- who may not

my $own = claims($own[1]{accountAccessToken});
my $now = time;
my %tokens = (
    'no token' => undef,
    'a refresh token' => $own[1]{refreshToken},
    'a tampered one'  => jwt_tamper($own[1]{accountAccessToken}, 2, 0),
    'an expired one'  => jwt_token('account', $key, %$own, exp => $now - 31),
    'a foreign one'   => jwt_token('account', jwt_key('other'), %$own),
    'a system token'  => jwt_token('system', $key, iss => $own->{iss},
        session_id => $own->{session_id}, account_id => $own->{account_id},
        sub => $own->{account_id}),
);
my $disabled = login('none');
$pg->sql("update accounts set status = 'DISABLED'
    where account_name = 'none\@demo.test'");
my @calls = ([ GET => 'sessions' ], [ DELETE => 'sessions/' . id_of($own[2]) ],
    [ POST => 'logout-others' ], [ POST => 'logout-all' ]);
for my $call (@calls) {
    for my $name (sort keys %tokens) {
        $res = call(undef, @$call, token => $tokens{$name}, port => $face);
        is_problem($res, 401, 'AUTH_ACCESS_TOKEN_REQUIRED',
            "@$call: $name");
        like $res->header('WWW-Authenticate'), qr/\ABearer realm="platform"/,
            'a challenge';
    }
    is_problem(call(undef, @$call, token => undef), 401,
        'GATEWAY_TOKEN_MISSING', "@$call: at the gateway");
    is_problem(call(undef, @$call, token => $tokens{'a system token'}), 403,
        'GATEWAY_CONTEXT_FORBIDDEN', "@$call: a system token there");
    # A cookie is sent by the browser, whoever made the page.
    is_problem(call(undef, @$call, token => undef, port => $face,
        cookie => "platform_refresh_token=$own[1]{refreshToken}"), 401,
        'AUTH_ACCESS_TOKEN_REQUIRED', "@$call: the cookie alone");
    is_problem(call(undef, @$call, port => $face,
        token => $disabled->{accountAccessToken}), 401,
        'AUTH_SESSION_NOT_ACTIVE', "@$call: a disabled account");
    is_problem(call($own[1], @$call, port => $face,
        body => 'x' x (1 << 20)), 413, 'GATEWAY_REQUEST_TOO_LARGE',
        "@$call: a body of 1 MiB");
    $res = call(undef, @$call, port => $face, token => jwt_token('account',
        $key, %$own, session_id => uuid()));
    is_problem($res, 401, 'AUTH_SESSION_NOT_ACTIVE', "@$call: no such session");
    $res = call(undef, @$call, port => $face, token => jwt_token('account',
        $key, %$own, session_id => id_of($stranger)));
    is_problem($res, 401, 'AUTH_SESSION_NOT_ACTIVE',
        "@$call: another account's session");
}
is_problem(call($own[1], PUT => 'sessions', port => $face), 405,
    'METHOD_NOT_ALLOWED', 'another method');
is call($own[1], PUT => 'sessions/x', port => $face)->header('Allow'),
    'DELETE', 'which says what is';
for my $case ([ GET => 'sessions/' . id_of($own[1]), 405 ],
    [ POST => 'sessions', 405 ], [ GET => 'logout-others', 405 ],
    [ GET => 'logout-all', 405 ])
{
    my ($method, $path, $status) = @$case;
    is call($own[1], $method, $path)->status, $status, "$method $path";
}
is call($own[1], HEAD => 'sessions', port => $face)->status, 200, 'HEAD';

# -- ending one

my $n = @{ listed($own[1]) };
for my $id (uuid(), 'x', id_of($stranger), uc 'none', 'a%2fb', '') {
    is_problem(call($own[1], DELETE => "sessions/$id"), 404,
        'RESOURCE_NOT_FOUND', "none of one's own: '$id'");
}
is scalar @{ listed($own[1]) }, $n, 'nothing has ended';
my @bodies = map { call($own[1], DELETE => "sessions/$_")->body
    =~ s/"requestId":"\w+"//r } uuid(), id_of($stranger);
is $bodies[0], $bodies[1], 'nobody learns that it is there';
is_alive($stranger, 1, "nor another account's");
my $log = length $s->identity->log_text;
$res = call($own[1], DELETE => 'sessions/' . id_of($own[2]));
is $res->status, 200, "one's own: 200";
is_deeply [ sort keys %{ $res->json } ], [qw(code message)], 'its members';
is $res->json->{code}, 'AUTH_END_SESSION_SUCCESS', 'its code';
is scalar($res->header_all('Set-Cookie')), 0, 'the own cookie stays';
like substr($s->identity->log_text, $log),
    qr/"event":"auth\.session\.ended".*"sessionId":"@{[ id_of($own[2]) ]}"/,
    'audited';
is_alive($own[2], 0, 'it is over');
is_problem(call($own[1], DELETE => 'sessions/' . id_of($own[2])), 404,
    'RESOURCE_NOT_FOUND', 'again: there is none');
ok !(grep { $_ eq id_of($own[2]) } @{ listed($own[1]) }), 'nor in the list';
is_alive($own[1], 1, 'the own one lives');
my $last = login('several');
$res = call($last, DELETE => 'sessions/' . uc id_of($last));
is $res->status, 200, 'the own one, in capitals';
like $res->cookie_line('platform_refresh_token') // '', qr/Max-Age=0/,
    'clears the cookie';
is_alive($last, 0, 'it is over');
is_problem(call($last, GET => 'sessions', port => $face), 401,
    'AUTH_SESSION_NOT_ACTIVE', 'and may not ask any more');

# -- those that are over are not shown

my %over = (
    'expired'    => [ "created_at = now() - interval '1 hour',
        expires_at = now() - interval '1 s'", '-infinity' ],
    'locked out' => [ "created_at = created_at - interval '3 days'",
        'yesterday' ],
    'too old'    => [ "created_at = created_at - interval '91 days'",
        '-infinity' ],
);
for my $name (sort keys %over) {
    my ($set, $valid_after) = @{ $over{$name} };
    my $replica = 'set session_replication_role = replica;';
    $pg->sql("$replica update accounts set sessions_valid_after = '$valid_after'
        where account_name = 'several\@demo.test'", user => 'postgres');
    my $one = login('several');
    my ($id, $before) = (id_of($one), scalar @{ listed($own[1]) });
    $pg->sql("$replica update auth_sessions set $set where session_id = '$id'",
        user => 'postgres');
    is scalar @{ listed($own[1]) }, $before - 1, "$name: not shown";
    is_problem(call($own[1], DELETE => "sessions/$id"), 404,
        'RESOURCE_NOT_FOUND', "$name: not there");
}

# -- many

$pg->sql("insert into auth_sessions (session_id, account_id, jti, created_at,
        expires_at) select gen_random_uuid(), account_id, gen_random_uuid(),
        now() + n * interval '1 ms', now() + interval '1 day'
    from accounts, generate_series(1, 2500) n
    where account_name = 'several\@demo.test'");
$res = call($own[1], GET => 'sessions');
is scalar @{ $res->json->{sessions} }, 101, 'a hundred, and the own one';
ok $res->json->{more}, 'there are more';
ok $res->json->{sessions}[0]{current}, 'which is the first';

# -- the others

my $active = "select count(*) from auth_sessions s join accounts a
    using (account_id) where account_name = 'several\@demo.test'
    and s.status = 'ACTIVE' and s.created_at > a.sessions_valid_after";
$n = $pg->sql($active);
$log = length $s->identity->log_text;
$res = call($own[1], POST => 'logout-others');
is $res->status, 200, 'logout-others: 200' or diag $res->body;
is_deeply $res->json, { code => 'AUTH_LOGOUT_OTHERS_SUCCESS',
    message => $res->json->{message}, endedSessions => $n - 1 },
    'how many, past a batch';
is $pg->sql($active), 1, 'the own one is left';
is_alive($own[1], 1, 'and lives');
is_alive($own[0], 0, 'another does not');
is_alive($stranger, 1, "another account's does");
like substr($s->identity->log_text, $log),
    qr/"event":"auth\.logout\.others".*"revokedSessions":@{[ $n - 1 ]}\b/,
    'audited';
$res = call($own[1], POST => 'logout-others');
is $res->json->{endedSessions}, 0, 'again: none';

# Two at once, each ending the other: both are over, and neither waits for ever.
for my $round (1 .. 5) {
    my @two = map { login('several') } 1 .. 2;
    my @answers = http_parallel([ map { [ $gateway, http_request_bytes(
        POST => '/api/auth/logout-others', body => '',
        token => $_->{accountAccessToken}) ] } @two ]);
    my @status = sort map { $_->status } @answers;
    ok "@status" eq '200 200' || "@status" eq '200 401', "two: @status";
    is $pg->sql($active), "@status" eq '200 200' ? 0 : 1, 'what is left';
}

# -- all

@own = map { login('several') } 1 .. 3;
$log = length $s->identity->log_text;
$res = call($own[0], POST => 'logout-all');
is $res->status, 200, 'logout-all: 200';
is $res->json->{code}, 'AUTH_LOGOUT_ALL_SUCCESS', 'its code';
cmp_ok $res->json->{endedSessions}, '>=', 3, 'how many';
like substr($s->identity->log_text, $log),
    qr/"event":"auth\.logout\.all".*"revokedSessions":@{[ $res->json->{endedSessions} ]}\b.*"sessionId":"@{[ id_of($own[0]) ]}"/,
    'audited';
like $res->cookie_line('platform_refresh_token') // '', qr/Max-Age=0/,
    'clears the cookie';
is_alive($_, 0, 'over') for @own;
is_alive($stranger, 1, "another account's lives");
my $again = login('several');
is_alive($again, 1, 'a new one too');

# -- a page elsewhere may ask, as the gateway is set up

my @cors = (Origin => 'https://app.example.com',
    'Access-Control-Request-Method' => 'DELETE',
    'Access-Control-Request-Headers' => 'authorization');
$res = http($gateway, OPTIONS => '/api/auth/sessions/x', headers => \@cors);
is $res->status, 204, 'a preflight of DELETE';
like $res->header('Access-Control-Allow-Methods'), qr/\bDELETE\b/, 'allows it';

# -- numbers, a database that is not there, and the switch

my $metrics = http_get($face, '/actuator/prometheus')->body;
like $metrics, qr/^identity_sessions_revoked_total\{reason="owner"\} [1-9]/m,
    'ended sessions are counted';
like $metrics, qr/endpoint="\/api\/auth\/sessions\/\{id\}",status="200",code="AUTH_END_SESSION_SUCCESS"/,
    'requests too, without their ids';
unlike $s->identity->log_text, qr/eyJ/, 'no token in the log';
$t->allow(qr/db\.(?:error|connect|unavailable)|sweep\.failed/);
$pg->stop('INT');
is_problem(call($again, @$_[ 0, 1 ], port => $face), 503,
    'DATABASE_UNAVAILABLE', "no database: @$_") for @calls;
$pg->start;
ok eventually(sub { http_get($face, '/readyz')->status == 200 }), 'back';
# The gateway asks for revocations meanwhile.
$t->allow(qr/connect\(\) to unix:.* platform gateway revocations,/);
$s->identity->stop;
$s->identity->{env}{PLATFORM_AUTH_SESSION_CLIENT} = 'off';
$s->identity->start;
$again = login('several');
is_deeply [ @{ (sessions($again))[0] }{qw(address agent)} ], [ undef, undef ],
    'the switch: neither address nor agent';

$t->done;
