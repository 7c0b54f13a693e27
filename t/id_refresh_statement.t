# The statement that reads a session and replaces its token at once.  Where it
# has to wait while somebody else changes the row, what was decided upon is
# looked at again; and it decides as the service does, to the second.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Http;
use Test::More;

my $t = Platform::Test->new;
my $pg = $t->postgres(settings => {
    log_statement            => 'all',
    log_parameter_max_length => 0,
});
my $identity = $t->identity_face;
my $port = $t->port('identity');

sub login {
    my ($account) = @_;

    return http_post($port, '/api/auth/login', json => {
        account => "$account\@demo.test", credential => 'Demo-passw0rd!',
    })->json;
}

sub refresh {
    return http_post($port, '/api/auth/refresh',
        json => { refreshToken => $_[0] });
}

sub claims { return (jwt_decode($_[0]))[1] }

sub row {
    my ($session) = @_;

    return $pg->sql("select jti, status, active_branch_id from auth_sessions
        where session_id = '$session'");
}

# The service's statements about sessions since the last call.
my $read = 0;

sub statements {
    my $log = $t->read_file("$pg->{name}.log");
    my @names = substr($log, $read) =~ /execute (session_\w+):/g;
    $read = length $log;
    s/_remember\z// for @names;
    return "@names";
}

# Sends so many refreshes, and waits until all of them wait for the row.
sub waiting_refreshes {
    my ($token, $count) = @_;

    my @clients = map { Platform::Test::Http->new(port => $port) } 1 .. $count;
    $_->send(http_request_bytes(POST => '/api/auth/refresh',
        json => { refreshToken => $token, includeAccountToken => \1 }))
        for @clients;
    ok $pg->waiting($count), "$count wait";
    return @clients;
}

# A refresh during a change, which ends as told (default: commit).
sub during {
    my ($token, $change, $end) = @_;

    my $session = claims($token)->{session_id};
    my $transaction
        = $pg->begin($change =~ s/SESSION/session_id = '$session'/r);
    statements();
    my ($client) = waiting_refreshes($token, 1);
    ok $pg->end($transaction, $end // 'commit'), 'the transaction ends';
    return $client->read_response;
}

# A session, in a branch if one is named.
sub session_in {
    my ($branch) = @_;

    my $s = login('several');
    return $s->{refreshToken} if !defined $branch;
    is http_post($port, '/api/auth/select-branch',
        json => { branchId => $branch }, token => $s->{accountAccessToken}
        )->status, 200, 'a selection';
    return $s->{refreshToken};
}

my @branches = map { $_->{branchId} } @{ login('several')->{branches} };
my ($workspace, $member) = split /\|/, $pg->sql("select workspace_id,
    member_id from selectable_branches where branch_id = '$branches[0]'
    and account_id = (select account_id from accounts
        where account_name = 'several\@demo.test')");

sub selects {
    my ($branch) = @_;

    return "update auth_sessions set workspace_id = '$workspace',
        member_id = '$member', active_branch_id = '$branch' where SESSION";
}

sub is_rotated {
    my ($token, $res, $branch, $what) = @_;

    is $res->status, 200, "$what: succeeds" or return diag $res->body;
    my $session = claims($token)->{session_id};
    my $new = claims($res->json->{refreshToken})->{jti};
    is row($session), "$new|ACTIVE|$branch", "$what: the row";
    my $access = $res->json->{accessToken};
    is defined $access ? claims($access)->{active_branch_id} : '', $branch,
        "$what: the scope that it answers with";
    is scalar(@{ $res->json->{branches} }), scalar @branches,
        "$what: the list";
    is_problem(refresh($token), 401, 'AUTH_REFRESH_TOKEN_STALE',
        "$what: the old token");
    is refresh($res->json->{refreshToken})->status, 200,
        "$what: the new token";
    return;
}

my $twice = 'session_refresh session_rotate session_read session_rotate';

sub run_all {
    my ($policy) = @_;

    # -- nothing changes that was decided upon: it was one statement

    for my $branch (undef, $branches[0]) {
        my $name = "$policy, " . (defined $branch ? 'in a branch' : 'in none');
        my $token = session_in($branch);
        my $res = during($token, 'select 1 from auth_sessions
            where SESSION for update');
        is statements(), 'session_refresh', "$name, locked: one statement";
        is_rotated($token, $res, $branch // '', "$name, locked");

        $token = session_in($branch);
        $res = during($token, "update auth_sessions set jti =
            gen_random_uuid(), status = 'REVOKED', revoked_at = now()
            where SESSION", 'rollback');
        is statements(), 'session_refresh',
            "$name, rolled back: one statement";
        is_rotated($token, $res, $branch // '', "$name, rolled back");
    }
    my $token = session_in($branches[0]);
    my $res = during($token, selects($branches[0]));
    is statements(), 'session_refresh', "$policy, selected again: as well";
    is_rotated($token, $res, $branches[0], "$policy, selected again");

    # -- the scope moves: the answer is that of the new one

    for my $branch (undef, $branches[0]) {
        my $name = "$policy, " . (defined $branch ? 'moved' : 'selected');
        $token = session_in($branch);
        $res = during($token, selects($branches[1]));
        is statements(), $twice, "$name: looked at again";
        is_rotated($token, $res, $branches[1], $name);
    }

    # -- the session ends, or another was faster: nothing is replaced

    my %ends = (
        'logged out' => "update auth_sessions set status = 'REVOKED',
            revoked_at = now() where SESSION",
        'logged out and disabled' => "update accounts set status = 'DISABLED'
            where account_name = 'several\@demo.test';
            update auth_sessions set status = 'REVOKED', revoked_at = now()
            where SESSION",
        'swept' => 'delete from auth_sessions where SESSION',
        'rotated' => 'update auth_sessions set jti = gen_random_uuid()
            where SESSION',
    );
    for my $how (sort keys %ends) {
        $token = session_in($branches[0]);
        my $jti = claims($token)->{jti};
        $res = during($token, $ends{$how});
        like statements(), qr/\Asession_refresh\ session_rotate
            (?:\ session_read)+\z/x, "$policy, $how: looked at again";
        is_problem($res, 401, $how eq 'rotated'
            ? 'AUTH_REFRESH_TOKEN_STALE' : 'AUTH_SESSION_NOT_ACTIVE',
            "$policy, $how");
        my $row = row(claims($token)->{session_id});
        like $row, $how eq 'swept' ? qr/\A\z/
            : $how eq 'rotated' ? qr/\|ACTIVE\|/ : qr/\A$jti\|REVOKED\|/,
            "$policy, $how: the row";
        is $pg->sql("select count(*) from rotated_tokens where jti = '$jti'"),
            0, "$policy, $how: nothing is remembered";
        $pg->sql("update accounts set status = 'ACTIVE'
            where account_name = 'several\@demo.test'");
    }

    # -- many with the same token, lined up behind the row

    for my $branch (undef, $branches[0]) {
        my $name = "$policy, " . (defined $branch ? 'in a branch' : 'in none');
        $token = session_in($branch);
        my $claims = claims($token);
        my $transaction = $pg->begin("select 1 from auth_sessions
            where session_id = '$claims->{session_id}' for update");
        my @clients = waiting_refreshes($token, 3);
        ok $pg->end($transaction, 'commit'), 'the transaction ends';
        my %answers;
        for my $client (@clients) {
            my $answer = $client->read_response;
            push @{ $answers{ $answer->code } }, $answer;
        }
        is scalar @{ $answers{AUTH_REFRESH_SUCCESS} // [] }, 1,
            "$name, three at once: one succeeds";
        is scalar @{ $answers{AUTH_REFRESH_TOKEN_STALE} // [] }, 2,
            "$name, three at once: two are stale";
        is $pg->sql("select count(*), count(*) filter (where jti =
            '$claims->{jti}') from rotated_tokens
            where session_id = '$claims->{session_id}'"),
            $policy eq 'revoke' ? '1|1' : '0|0',
            "$name, three at once: what is remembered";
        is_rotated($token, $answers{AUTH_REFRESH_SUCCESS}[0], $branch // '',
            "$name, three at once")
            if $policy eq 'reject';
    }
    return;
}

run_all('reject');
$identity->stop;
$identity->{env}{PLATFORM_AUTH_REFRESH_REUSE} = 'revoke';
$identity->start;
run_all('revoke');

# -- the end of a session, to the second: a part of one does not count

my $token = session_in(undef);
my $claims = claims($token);
$pg->sql("set session_replication_role = replica;
    update auth_sessions set created_at = created_at - interval '1 minute',
        expires_at = date_trunc('second', clock_timestamp()) + interval '0.9 s'
    where session_id = '$claims->{session_id}'", user => 'postgres');
is_problem(refresh($token), 401, 'AUTH_SESSION_NOT_ACTIVE',
    'in the second in which the session ends');
is row($claims->{session_id}), "$claims->{jti}|ACTIVE|",
    'which replaces nothing';
$pg->sql("update auth_sessions set expires_at = expires_at + interval '1 hour'
    where session_id = '$claims->{session_id}'");
is refresh($token)->status, 200, 'before that second';

$identity->stop;
$identity->{env}{PLATFORM_JWT_REFRESH_TOKEN_TTL} = '1h';
$identity->{env}{PLATFORM_AUTH_SESSION_MAX_LIFETIME} = '2h';
$identity->start;
my %capped;
for my $created (map { ($_, $_ + 0.5) } -3 .. 3) {
    my $session = claims($token = session_in(undef))->{session_id};
    $pg->sql("set session_replication_role = replica;
        update auth_sessions set created_at = date_trunc('second',
            clock_timestamp()) + interval '$created s' - interval '1 hour'
        where session_id = '$session'", user => 'postgres');
    statements();
    my $res = refresh($token);
    is $res->status, 200, "created at $created: a refresh";
    $claims = claims($res->json->{refreshToken});
    my $cap = $pg->sql("select floor(extract(epoch from created_at))::bigint
        from auth_sessions where session_id = '$session'") + 7200;
    my $full = $claims->{iat} + 3600;
    is $claims->{exp}, $full < $cap ? $full : $cap,
        "created at $created: when the token ends";
    is $pg->sql("select extract(epoch from expires_at)::bigint
        from auth_sessions where session_id = '$session'"), $claims->{exp},
        "created at $created: when the session ends";
    is statements(), $full <= $cap ? 'session_refresh'
        : 'session_refresh session_rotate', "created at $created: statements";
    $capped{ $full > $cap ? 'yes' : 'no' } = 1;
}
is $capped{yes}, 1, 'some were capped';

# -- a token of ours that names the session and another account

{
    my $mine = session_in(undef);
    my $claims = claims($mine);
    for my $account ($claims->{account_id}, uuid(5)) {
        my $named = jwt_token('refresh', jwt_key('identity'), %$claims,
            account_id => $account, sub => $account);
        statements();
        my $res = refresh($named);
        if ($account eq $claims->{account_id}) {
            is $res->status, 200, 'the account that has it';
            $claims = claims($res->json->{refreshToken});
            next;
        }
        is_problem($res, 401, 'AUTH_SESSION_NOT_ACTIVE', 'another account');
        is statements(), 'session_refresh', 'which one statement finds';
        is row($claims->{session_id}), "$claims->{jti}|ACTIVE|",
            'and replaces nothing';
    }
}

# -- a jti that is the session's but for its letters is not the session's

$token = session_in(undef);
$claims = claims($token);
my $loud = jwt_token('refresh', jwt_key('identity'), %$claims,
    jti => uc $claims->{jti});
isnt uc $claims->{jti}, $claims->{jti}, 'a jti has letters';
is_problem(refresh($loud), 401, 'AUTH_REFRESH_TOKEN_STALE', 'in capitals');
is refresh($token)->status, 200, 'which replaced nothing';

# -- the server's clock is set: the fence does not shut everybody out

$identity->stop;
$pg->sql('create schema shifted; create table shifted.shift (by interval);
    insert into shifted.shift values (interval \'0\');
    grant usage on schema shifted to platform;
    grant select on shifted.shift to platform;
    create function shifted.clock_timestamp() returns timestamptz
        language sql volatile
        as $$select pg_catalog.clock_timestamp() + by from shifted.shift$$;
    alter role platform set search_path = shifted, pg_catalog, public',
    user => 'postgres');
$identity->start;
my $shifted = http_post($port, '/api/auth/login', json => {
    account => 'several@demo.test', credential => 'Demo-passw0rd!' })->json;
$token = $shifted->{refreshToken};
for my $by ('1 minute', '3 hours') {
    my $res = refresh($token);
    is $res->status, 200, "before it is set $by ahead";
    $pg->sql("update shifted.shift set by = by + interval '$by'",
        user => 'postgres');
    $res = refresh($res->json->{refreshToken});
    is $res->status, 200, "$by ahead: a refresh";
    $token = $res->json->{refreshToken};
    $pg->sql("update shifted.shift set by = by + interval '$by'",
        user => 'postgres');
    is http_post($port, '/api/auth/select-branch',
        json  => { branchId => $shifted->{branches}[0]{branchId} },
        token => $shifted->{accountAccessToken})->status, 200,
        "$by ahead: a selection";
}
$pg->sql('alter role platform reset search_path', user => 'postgres');

# -- one that nobody waits for any more does nothing when its turn comes; the
#    statement_timeout, which is longer than a request lasts, does not end it

$token = session_in(undef);
my $unit = 3;    # seconds
$identity->stop;
$identity->{env}{PLATFORM_DB_PREPARED} = 'false';
$identity->{env}{PLATFORM_DB_STATEMENT_TIMEOUT} = 20 * $unit . 's';
$identity->{env}{PLATFORM_REQUEST_TIMEOUT} = "${unit}s";
$identity->start;
$t->allow(qr/db\.error/);
$claims = claims($token);
my $transaction = $pg->begin("update auth_sessions set expires_at = expires_at
    where session_id = '$claims->{session_id}'");
my $res = refresh($token);
is_problem($res, 503, 'DATABASE_UNAVAILABLE', 'locked for too long');
like $res->json->{detail}, qr/may or may not/, 'which says so';
my $waiting = "select count(*) from pg_stat_activity
    where usename = 'platform' and state = 'active'";
cmp_ok $pg->sql($waiting, user => 'postgres'), '>=', 1, 'its write waits';
ok $pg->end($transaction, 'commit'), 'the transaction ends';
ok eventually(sub { !$pg->sql($waiting, user => 'postgres') }),
    'its write comes through';
is row($claims->{session_id}), "$claims->{jti}|ACTIVE|", 'and does nothing';
is $pg->sql("select count(*) from rotated_tokens
    where session_id = '$claims->{session_id}'"), 0, 'nor remembers anything';
ok eventually(sub { refresh($token)->status == 200 }),
    'the token is still good';

$t->done;
