# Whose a token is.  One's own sessions: seen, ended one by one, all others, or all; those
# of nobody else.  And whose a session is: its row tells the address and the agent of the
# login and of the last refresh, as the access log has them, bounded and valid UTF-8; a
# switch stores neither.  (That a refresh is a HOT update: id_database_plans.t; the members of
# an answer, and what the gateway refuses: http_api.t.)

use Platform::Test;
use Platform::Test::Client;
use POSIX qw(strftime);

my $t = Platform::Test->new;
my $s = $t->full_stack(env => {
    PLATFORM_AUTH_MAX_FAILURES    => 0,
    PLATFORM_TRUSTED_PROXIES      => '127.0.0.2',
});
my ($gateway, $face, $pg) = ($s->gateway, $s->face, $s->postgres);
client_of($t, $gateway);
my $COOKIE = $Platform::Test::Client::COOKIE;
my $key = jwt_key('identity');

# A login by an agent of its own, and whether that session still lives.
sub opened { return logged_in($_[0], headers => [ 'User-Agent' => $_[1] // 'test' ]) }

sub is_alive ($session, $alive, $name) {
    my $res = refresh($session);
    $session->{refreshToken} = $res->json->{refreshToken} if $res->status == 200;
    return is $res->status, $alive ? 200 : 401, $name;
}

# A call with an access token of either kind.
sub ask ($session, $method, $path, %o) {
    my $token = exists $o{token} ? delete $o{token}
        : $session->{accessToken} // $session->{accountAccessToken};
    return http($o{port} // $gateway, $method => "/api/auth/$path",
        (defined $token ? (token => $token) : ()),
        ($method eq 'POST' ? (body => '') : ()), %o);
}

sub sessions ($session, %o) {
    my $res = ask($session, GET => 'sessions', %o);
    $res->status == 200 or die $res->body;
    return @{ $res->json->{sessions} };
}

sub listed { return [ map { $_->{sessionId} } sessions(@_) ] }

# One test: what was logged by $do has this line.
sub is_audited ($line, $do) {
    my $log = length $s->identity->log_text;
    my $res = $do->();
    is $res->status, 200, 'it succeeds' or diag $res->body;
    like substr($s->identity->log_text, $log), $line->($res), 'audited';
    return $res;
}

# -- the list

my $stranger = opened('one');
my @own = map { opened('several', "agent $_") } 1 .. 3;
my ($res, @list) = (undef, sessions($own[1]));
is_deeply [ map {"$_->{sessionId} $_->{current}"} @list ], [ session_of($own[1]) . ' 1',
    map { session_of($_) . ' 0' } @own[ 2, 0 ] ], 'the own one first, then the newest';
is_deeply [ @{ $list[0] }{qw(address agent branchId)}, $list[0]{usedAt} eq $list[0]{createdAt} ],
    [ '127.0.0.1', 'agent 2', undef, 1 ], 'whose it is; not used';
my $branch = $own[0]{branches}[0];
$own[0]{accessToken} = select_branch($own[0], $branch->{branchId})->json->{accessToken};
my ($first) = sessions($own[0]);
is_deeply { map { $_ => $first->{$_} } 'current', keys %$branch },
    { %$branch, current => JSON::PP::true() }, 'a branch token: in which branch';
is_deeply listed($stranger), [ session_of($stranger) ], 'nobody else sees it';

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

# -- whose a token is

sub whose ($session, %o) {
    my $res = ask($session, GET => 'me', %o);
    is_deeply [ $res->status, $res->header('Cache-Control'), $res->code, cookies($res) ],
        [ 200, 'no-store', 'AUTH_ME_SUCCESS', 0 ], 'whose it is';
    my %said = %{ $res->json };
    delete @said{qw(code message)};
    return \%said;
}

my %me = (accountId => claims($own[1])->{sub}, account => 'several@demo.test',
    type => 'CUSTOMER', sessionId => session_of($own[1]), createdAt => $list[0]{createdAt});
is_deeply whose($own[1]), \%me, 'an account token: account and session';
is_deeply whose($own[1], port => $face), \%me, 'the same at identity itself';
my %here = (%me, sessionId => session_of($own[0]), createdAt => $itself->{createdAt});
my %there = (%here, %$branch, roles => [ 'BRANCH_MANAGER', 'CASHIER' ]);
is_deeply whose($own[0]), \%there, 'a branch token: its branch and roles too';
my $elsewhere = $own[0]{branches}[1];
my $moved = select_branch($own[0], $elsewhere->{branchId})->json->{accessToken};
is_deeply whose(undef, token => $moved), { %there, %$elsewhere }, 'of another branch: that one';
is_deeply whose($own[0]), \%there, 'one of before: the branch that services see';
is_deeply whose(undef, token => $own[0]{accountAccessToken}), \%here,
    'an account token has none, whatever the session has';
is select_branch($own[0], $branch->{branchId})->status, 200, 'back';
$pg->sql("update accounts set account_name = 'x' || account_name where account_id = '$me{accountId}'");
is whose($own[1])->{account}, 'xseveral@demo.test', 'the name that it has now';
$pg->sql("update accounts set account_name = '$me{account}' where account_id = '$me{accountId}'");

# However many branches there are: one statement.  The gateway's own questions are
# counted too.
sub statements {
    my $text = http_get($t->port('identity'), '/actuator/prometheus')->body;
    return ($text =~ /^identity_db_statement_duration_seconds_count (\d+)/m)[0];
}
my $two_hundred = opened('two-hundred');
sub ran ($bound, $sub) { return least($bound, sub { my $n = statements(); $sub->(); statements() - $n }) }
my @ran = (ran(2, sub { whose($two_hundred) }), ran(3, sub { sessions($two_hundred) }));
is_deeply \@ran, [ 1, 2 ], 'one statement; control: a list takes two';

# -- who may not

my $own = claims($own[1]{accountAccessToken});
my $disabled = opened('none');
$pg->sql("update accounts set status = 'DISABLED' where account_name = 'none\@demo.test'");
my @REQUIRED = (401, 'AUTH_ACCESS_TOKEN_REQUIRED');
my @NOT_ACTIVE = (401, 'AUTH_SESSION_NOT_ACTIVE');
my $system = jwt_token('system', $key, map { $_ => $own->{$_} } qw(iss session_id account_id sub));
my @refused = (
    [ 'a refresh token', $own[1]{refreshToken}, @REQUIRED ],
    [ 'a system token', $system, @REQUIRED ],
    [ 'a disabled account', $disabled->{accountAccessToken}, @NOT_ACTIVE ],
    [ "another account's", jwt_token('account', $key, %$own,
        session_id => session_of($stranger)), @NOT_ACTIVE ],
);
my @calls = ([ GET => 'me' ], [ GET => 'sessions' ], [ DELETE => 'sessions/' . session_of($own[2]) ],
    [ POST => 'logout-others' ], [ POST => 'logout-all' ]);
for my $call (@calls) {
    for my $case (@refused) {
        my ($name, $token, @want) = @$case;
        is_problem($res = ask(undef, @$call, token => $token, port => $face), @want,
            "@$call: $name");
    }
    # A cookie is sent by the browser, whoever made the page.
    is_problem(ask(undef, @$call, token => undef, port => $face,
        cookie => "$COOKIE=$own[1]{refreshToken}"), @REQUIRED, "@$call: the cookie alone");
}

# -- ending one

my $n = @{ listed($own[1]) };
my @bodies = map { my $id = $_;
    is_problem($res = ask($own[1], DELETE => "sessions/$id"), 404, 'RESOURCE_NOT_FOUND',
        "none of one's own: '$id'");
    $res->body =~ s/"requestId":"\w+"//r } uuid(), session_of($stranger), 'x', 'a%3db', '';
is_problem ask($own[1], DELETE => 'sessions/a%2fb'), 400, 'GATEWAY_PATH_AMBIGUOUS', 'two readings';
is $bodies[0], $bodies[1], 'nobody learns that it is there';
is scalar @{ listed($own[1]) }, $n, 'nothing has ended';
is_alive($stranger, 1, "nor another account's");
my $gone = session_of($own[2]);
$res = is_audited(sub { qr/"event":"auth\.session\.ended".*"sessionId":"$gone"/ },
    sub { ask($own[1], DELETE => "sessions/$gone") });
is_deeply [ sort(keys %{ $res->json }), $res->code, cookies($res) ],
    [ qw(code message AUTH_END_SESSION_SUCCESS), 0 ], 'its members; the own cookie stays';
is_alive($own[2], 0, 'it is over');
is_problem(ask($own[1], DELETE => "sessions/$gone"), 404, 'RESOURCE_NOT_FOUND',
    'again: there is none');
is scalar @{ listed($own[1]) }, $n - 1, 'nor in the list';
is_alive($own[1], 1, 'the own one lives');
my $last = opened('several');
$res = ask($last, DELETE => 'sessions/' . uc session_of($last));
like $res->status . ' ' . $res->cookie_line($COOKIE), qr/^200 .*Max-Age=0/,
    'the own one, in capitals: clears the cookie';
is_problem(ask($last, GET => 'sessions', port => $face), @NOT_ACTIVE, 'and may not ask any more');

# Those that are over are not shown.
for my $case (
    [ expired => '-infinity', "created_at = now() - interval '1 hour',
        expires_at = now() - interval '1 s'" ],
    [ 'locked out' => 'yesterday', "created_at = created_at - interval '3 days'" ],
    [ 'too old' => '-infinity', "created_at = created_at - interval '91 days'" ],
    )
{
    my ($name, $valid_after, $set) = @$case;
    $pg->sql("set session_replication_role = replica; update accounts set
        sessions_valid_after = '$valid_after'
        where account_name = 'several\@demo.test'", user => 'postgres');
    my $before = @{ listed($own[1]) };
    alter(my $one = opened('several'), $set);
    is scalar @{ listed($own[1]) }, $before, "$name: not shown";
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
is_alive(@$_) for [ $own[1], 1, 'and lives' ], [ $own[0], 0, 'another does not' ],
    [ $stranger, 1, "another account's does" ];
is ask($own[1], POST => 'logout-others')->json->{endedSessions}, 0, 'again: none';

# Very many older ones end by one write, as by a lockout; what a gateway has to refuse is
# told, and the caller's own tokens are not among it.
my $several = claims($own[1])->{sub};
for my $what ('logout-others', 'change-credential') {
    my ($older, $caller, $newer) = map { opened('several') } 1 .. 3;
    # A login may take long: its token says when it began, its session when it ended.
    $pg->sql("set session_replication_role = replica;
        update auth_sessions set created_at = created_at + interval '5 s'
        where session_id = '" . claims($caller->{accountAccessToken})->{session_id} . "'", user => 'postgres');
    $pg->sql("set session_replication_role = replica; insert into auth_sessions (session_id,
            account_id, jti, created_at, expires_at, access_until, login_agent)
        select gen_random_uuid(), '$several', gen_random_uuid(), now() - n * interval '1 hour',
            now() + interval '1 day', now() - interval '1 day', 'filled'
        from generate_series(1, 20000) n; update accounts
            set sessions_valid_after = '-infinity' where account_id = '$several'",
        user => 'postgres');
    my $cursor = http_get($t->port('identity'), '/internal/revocations')->json->{cursor};
    my $credential = $Platform::Test::Client::CREDENTIAL;
    my $res = call($what, { credential => $credential, newCredential => $credential },
        token => $caller->{accountAccessToken});
    is $res->status, 200, "$what: very many" or diag $res->body;
    cmp_ok $res->json->{endedSessions}, '>', 20000, "$what: all are counted";
    is $pg->sql($active), 1, "$what: one is left";
    is $pg->sql("select count(*) from auth_sessions where login_agent = 'filled'
        and status <> 'ACTIVE'"), 0, "$what: no other row was written";
    is_alive(@$_) for [ $caller, 1, "$what: the own one" ], [ $older, 0, "$what: an older one" ],
        [ $newer, 0, "$what: one that is newer" ];
    my @told = @{ http_get($t->port('identity'), "/internal/revocations?after=$cursor")->json->{revocations} };
    for my $case ([ $caller, 0 ], [ $older, 1 ], [ $newer, 1 ]) {
        my ($session, $refused) = @$case;
        my $claims = claims($session->{accountAccessToken});
        is scalar(grep { ($_->{id} // '') eq $claims->{session_id}
            || ($_->{subject} // '') eq $several && $claims->{iat} < $_->{issued_before} } @told)
            > 0 ? 1 : 0, $refused, "$what: is its token refused?";
    }
    $pg->sql("set session_replication_role = replica; delete from auth_sessions
        where login_agent = 'filled'", user => 'postgres');
}

# Two at once, each ending the other: one lives, and neither waits for ever.
sub ends_others ($session, $what = 'logout-others') {
    return sent($what => {}, token => $session->{accountAccessToken});
}
my @two = map { opened('several') } 1 .. 3;
my $third = shift @two;
my $held = $pg->begin("select 1 from auth_sessions where session_id = '"
    . session_of($third) . "' for update");
my @asked = map { my $client = ends_others($two[$_]);
    ok $pg->waiting($_ + 1), 'two: one more waits'; $client } 0, 1;
$pg->end($held, 'rollback');
is_deeply [ map { $_->read_response->code } @asked ],
    [ 'AUTH_LOGOUT_OTHERS_SUCCESS', 'AUTH_SESSION_NOT_ACTIVE' ], 'two: the second is too late';
is_alive(@$_) for [ $two[0], 1, 'the first lives' ], [ $two[1], 0, 'the second is over' ];

# One that is being ended ends no other any more.
for my $what ('logout-others', 'logout-all') {
    for my $case ([ commit => 401, 1 ], [ rollback => 200, 0 ]) {
        my ($end, $status, $alive) = @$case;
        my ($ending, $keeps) = map { opened('several') } 1 .. 2;
        $held = $pg->begin("update auth_sessions set status = 'REVOKED',
            revoked_at = clock_timestamp() where session_id = '" . session_of($ending) . "'");
        my $client = ends_others($ending, $what);
        ok $pg->waiting(1), "$what: waits to know whether it is over";
        $pg->end($held, $end);
        is $client->read_response->status, $status, "$what: $end";
        is_alive($keeps, $alive, "$what: $end: whether another one lives");
    }
}

# -- all

@own = map { opened('several') } 1 .. 3;
$res = is_audited(sub { my $all = $_[0]->json->{endedSessions};
    qr/"event":"auth\.logout\.all".*"revokedSessions":$all\b.*"sessionId":"@{[
        session_of($own[0]) ]}"/ }, sub { ask($own[0], POST => 'logout-all') });
like join(' ', $res->code, $res->cookie_line($COOKIE)), qr/^AUTH_LOGOUT_ALL_SUCCESS .*Max-Age=0/,
    'its code; clears the cookie';
cmp_ok $res->json->{endedSessions}, '>=', 3, 'how many';
is_alive($_, 0, 'over') for @own;
is_alive($_, 1, "another account's lives, and a new one")
    for $stranger, opened('several');

# -- whose it is: at login, and at the last refresh

my @login = ('127.0.0.1', 'Mozilla/5.0 (X11)');
my $mine = opened('several', $login[1]);

sub is_client ($what, @want) {
    return is row($mine, map {"coalesce(${_}_address, '-'), coalesce(${_}_agent, '-')"}
        qw(used login)), join('|', map { $_ // '-' } @want), $what;
}

# A refresh by a client: its agent, from => its address, for => whom it says that it
# asks for.
sub refreshed ($agent = undef, %o) {
    $mine->{refreshToken} = next_of(refresh($mine, from => $o{from}, headers => [
        (defined $agent ? ('User-Agent' => $agent) : ()),
        (defined $o{for} ? ('X-Forwarded-For' => $o{for}) : ()) ]));
}

is_client('at login', undef, undef, @login);
my $mine_in = "update branches set status = '%s' where branch_id = '" . branch(31) . "'";
for my $case (
    [ 'at a refresh', '127.0.0.3', 'app/2', sub { refreshed('app/2', from => '127.0.0.3') } ],
    [ 'a selection is no use', '127.0.0.3', 'app/2', sub { select_branch($mine, branch(31)) } ],
    [ 'in a branch, without an agent', '127.0.0.1', undef, sub { refreshed() } ],
    [ 'of two statements', '127.0.0.1', 'lost', sub {
        $pg->sql(sprintf $mine_in, 'INACTIVE');
        refreshed('lost') } ],
    # Who the client is says nginx, and no header but of a proxy that it trusts.
    [ 'a header of anybody', '127.0.0.1', 'x', sub { refreshed('x', for => '203.0.113.7') } ],
    map { my $for = $_; [ "one of a trusted proxy: $for", $for, 'x', sub { refreshed('x',
        for => $for, from => '127.0.0.2') } ] } '203.0.113.7', '2001:db8::ff',
    )
{
    my ($name, $address, $agent, $do) = @$case;
    $do->();
    is_client($name, $address, $agent, @login);
}
# (How long a text may be, and of which bytes: check_http.)
refreshed(q(x', jti = '1'; --));
is_client('an agent that is SQL', '127.0.0.1', q(x', jti = '1'; --), @login);

$pg->sql(sprintf $mine_in, 'ACTIVE');

like http_get($face, '/actuator/prometheus')->body, qr/^identity_requests_total\{endpoint="\/api
    \/auth\/sessions\/\{id\}",status="200",code="AUTH_END_S.*
    ^identity_sessions_revoked_total\{reason="owner"\}\ [1-9]/msx,
    'requests are counted without their ids, and ended sessions';
unlike $s->identity->log_text, qr/eyJ/, 'no token in the log';

# -- the switch: neither is stored, at login or refresh

# The gateway asks for revocations meanwhile.
$t->allow(qr/connect\(\) to unix:.* platform gateway revocations,/);
restart($s->identity, AUTH_SESSION_CLIENT => 'off');
refreshed('hidden');
is_client('off: a refresh of one from before', undef, undef, @login);
$mine = opened('several', 'hidden');
refreshed('hidden');
is_client('off: a login and a refresh', (undef) x 4);
is $pg->sql("select count(*) from auth_sessions where concat(used_agent,
    login_agent) like '%hidden%'"), 0, 'no trace';

$t->done;
