# PLATFORM_AUTH_REFRESH_RETRY_WINDOW: a refresh that is sent again, since its
# answer was lost, gets the very same refresh token again, until that is used or
# the time is over; and it brings nothing back to life.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Http;
use Platform::Test::Metrics;
use Test::More;

my $t = Platform::Test->new;
my $pg = $t->postgres(settings => {
    log_statement            => 'all',
    log_parameter_max_length => 0,
});
my $identity = $t->identity_face(
    PLATFORM_AUTH_MAX_FAILURES         => 0,
    PLATFORM_AUTH_REFRESH_RETRY_WINDOW => '60s',
);
my $port = $t->port('identity');
my ($old_key, $new_key) = (jwt_key('identity'), jwt_key('next'));
my $cookie_name = 'platform_refresh_token';

sub restart {
    my (%env) = @_;

    $identity->stop;
    $identity->{env}{"PLATFORM_$_"} = $env{$_} for keys %env;
    $identity->start;
    return;
}

# What hashes a credential has to wait for a processor, and may be told so.
sub patiently {
    my @request = @_;
    my $res;

    eventually(sub { ($res = http_post($port, @request))->status != 503 }, 60);
    return $res;
}

sub login {
    my ($account) = @_;

    return patiently('/api/auth/login', json => {
        account => "$account\@demo.test", credential => 'Demo-passw0rd!',
    })->json;
}

# As a client somewhere: %$who is how it asks.
sub refresh {
    my ($token, $who) = @_;

    return http_post($port, '/api/auth/refresh',
        json => { refreshToken => $token }, %{ $who // {} });
}

# To what it is.
sub change_credential {
    my ($access) = @_;

    return is patiently('/api/auth/change-credential',
        token => $access, json => { credential => 'Demo-passw0rd!',
        newCredential => 'Demo-passw0rd!' })->status, 200,
        'the credential is changed';
}

sub claims { return (jwt_decode($_[0]))[1] }

sub next_of {
    my ($res) = @_;

    is $res->status, 200, 'a refresh' or diag $res->body;
    return $res->json->{refreshToken};
}

sub where { return "session_id = '" . claims($_[0])->{session_id} . "'" }

# All of a session's row but who used it.
sub row {
    my ($token, @columns) = @_;

    @columns = qw(jti status expires_at used_at active_branch_id retry_jti
        retry_next retry_iat) if !@columns;
    return $pg->sql("select " . join(', ', @columns)
        . " from auth_sessions where " . where($token));
}

sub change {
    my ($token, $set) = @_;

    $pg->sql("set session_replication_role = replica;
        update auth_sessions set $set where " . where($token),
        user => 'postgres');
    return;
}

# How many updates of sessions there were, and how many of them HOT: backends
# tell it when they have been idle for a while, or end.
sub updates {
    $identity->stop;
    eventually(sub { !$pg->sql("select count(*) from pg_stat_activity
        where usename = 'platform'", user => 'postgres') }, 60)
        or die "backends stay\n";
    $identity->start;
    return split /\|/, $pg->sql("select n_tup_upd, n_tup_hot_upd
        from pg_stat_user_tables where relname = 'auth_sessions'",
        user => 'postgres');
}

# As if the last rotation had been now, whatever has taken its time since.
sub recent { return change($_[0], 'used_at = clock_timestamp()') }

# The service's statements about sessions since the last call.
my $read = 0;

sub statements {
    my $log = $t->read_file("$pg->{name}.log");
    my @names = substr($log, $read) =~ /execute (session_\w+):/g;
    $read = length $log;
    s/_remember\z// for @names;
    return "@names";
}

sub counts {
    my $scrape = metrics_scrape($port, '/actuator/prometheus');
    return join ' ', map { $scrape->{"identity_refresh_${_}_total"} }
        qw(rotations retries stale);
}

sub audited {
    my ($token) = @_;

    my $session = claims($token)->{session_id};
    return join ' ', map { $_->{event} =~ s/.*\.//r }
        grep { $_->{event} =~ /^auth\.refresh\./
            && $_->{sessionId} eq $session } $identity->log_lines;
}

# A session whose first token was replaced: both.
sub lost {
    my ($account) = @_;

    my $first = login($account // 'one')->{refreshToken};
    return ($first, next_of(refresh($first)));
}

sub is_retry {
    my ($token, $next, $what) = @_;

    my $res = refresh($token);
    is $res->status, 200, "$what: answered" or diag $res->body;
    is $res->json->{refreshToken}, $next, "$what: with the very same token";
    return $res;
}

sub is_stale {
    my ($token, $what) = @_;

    return is_problem(refresh($token), 401, 'AUTH_REFRESH_TOKEN_STALE', $what);
}

# -- each is one update, which no index sees

my ($first, $second) = lost();
for (1 .. 5) {
    is_retry($first, $second, 'in a chain');
    ($first, $second) = ($second, next_of(refresh($second)));
}
is_deeply [ updates() ], [ 11, 11 ], 'six rotations, five retries: one HOT '
    . 'update each';

# -- off: none, and nothing is written

restart(AUTH_REFRESH_RETRY_WINDOW => undef);
($first, $second) = lost();
is_stale($first, 'off');
is row($first, qw(retry_jti retry_next retry_iat)), '||', 'off: nothing kept';
change($first, "retry_jti = '" . claims($first)->{jti}
    . "', retry_next = jti, retry_iat = now()");
is_stale($first, 'off: even if it was kept');
change($first, "used_at = now() + interval '1 hour'");
is_stale($first, 'off: by whatever clock');
restart(AUTH_REFRESH_RETRY_WINDOW => '60s');
is_stale($first, 'on: the database was an hour ahead');
change($first, "used_at = now()");
is refresh($first)->status, 200, 'control: on, and it is now';

# -- on: the same token as often as one likes, new access tokens, no rotation

my $before = login('one')->{refreshToken};
statements();
my $then = counts();
my $res = refresh($before);
is statements(), 'session_refresh', 'a refresh is one statement';
my %access = (claims($res->json->{accessToken})->{jti} => 1);
my $answer = next_of($res);
my $row = row($before);
is_deeply [ @{ claims($answer) }{qw(jti iat exp)} ],
    [ split /\|/, $pg->sql('select jti, extract(epoch from retry_iat)::bigint,
    extract(epoch from expires_at)::bigint from auth_sessions where '
    . where($before)) ], 'the row has all that is in the token';
is row($before, qw(retry_jti retry_next)), join('|', claims($before)->{jti},
    claims($answer)->{jti}), 'and whose place it took';
# As if both had happened two seconds earlier.
change($before, "used_at = used_at - interval '2 s',
    retry_iat = retry_iat - interval '2 s'");
$row = row($before);
my $retried = refresh($before);
is statements(), 'session_refresh session_retry session_repeat',
    'a retry is three';
is_deeply claims($retried->json->{refreshToken}),
    { %{ claims($answer) }, iat => claims($answer)->{iat} - 2 },
    'two seconds later: the same';
cmp_ok claims($retried->json->{accessToken})->{iat}, '<=', $pg->sql(
    'select floor(extract(epoch from used_at)) from auth_sessions where '
    . where($before)), 'its access token is of then: a lockout finds it';
for my $n (1 .. 3) {
    my $again = is_retry($before, $retried->json->{refreshToken}, "retry $n");
    $access{ claims($again->json->{accessToken})->{jti} } = 1;
}
is scalar keys %access, 4, 'access tokens are new ones';
is row($before), $row, 'the row is as it was';
is counts(), join(' ', map { (split / /, $then)[$_] + (1, 4, 0)[$_] } 0 .. 2),
    'one rotation, four retries, none stale';
is audited($before), 'succeeded retried retried retried retried', 'audited';

# Locked out, logged in and refreshed in one second: gateways take its tokens.
($first, $second) = lost();
my $one_second = time - 2;
change($first, "created_at = to_timestamp($one_second.5),
    used_at = to_timestamp($one_second.6)");
$pg->sql("update accounts set sessions_valid_after = to_timestamp($one_second.4)
    where account_name = 'one\@demo.test'");
$res = is_retry($first, $second, 'locked out before');
is claims($res->json->{accessToken})->{iat}, $pg->sql('select issued_before
    from session_revocations where account_id is not null
    order by xid desc limit 1'), 'locked out before: no older than allowed';
$pg->sql("update accounts set sessions_valid_after = '-infinity'");

# -- the bytes, as they left the first time

($first, $second) = lost();
is_retry($first, $second, 'the bytes');
($first, $second) = lost('several');
is_retry($first, $second, 'without a branch');

# -- in a cookie

my $login = patiently('/api/auth/login', json => {
    account => 'one@demo.test', credential => 'Demo-passw0rd!' });
my ($cookie) = $login->cookie_line($cookie_name) =~ /^([^;]+)/;
my @set = map { http_post($port, '/api/auth/refresh', cookie => $cookie,
    body => '') } 1 .. 2;
is $set[1]->status, 200, 'cookie: answered';
like $set[0]->cookie_line($cookie_name),
    qr/^$cookie_name=\Q@{[ $set[0]->json->{refreshToken} ]}\E; /,
    'cookie: the new token';
is +(split /;/, $set[1]->cookie_line($cookie_name))[0],
    (split /;/, $set[0]->cookie_line($cookie_name))[0], 'cookie: again';
my ($age) = $set[1]->cookie_line($cookie_name) =~ /Max-Age=(\d+)/;
cmp_ok $age, '<=', 30 * 86400, 'cookie: until that token ends';
cmp_ok $age, '>', 29 * 86400, 'cookie: and not much earlier';

# -- it ends when the successor is used

($first, $second) = lost();
my $third = next_of(refresh($second));
is_stale($first, 'after the successor was used');
is_retry($second, $third, 'the one that was replaced last');
is_stale($first, 'and still not the one before');

# -- and when the time is over, by the database's clock

($first, $second) = lost();
change($first, "used_at = used_at - interval '30 s'");
is_retry($first, $second, 'after half of it');
change($first, "used_at = used_at - interval '30 s'");
is_stale($first, 'after 60 s');
($first, $second) = lost();
change($first, "used_at = used_at + interval '1 hour'");
is_stale($first, 'the clock was set back');
is refresh($second)->status, 200, 'the successor is good all the same';

# -- a token with the same jti, but of another session or account

{
    my ($mine, $mine_next) = lost();
    my ($other) = lost('several');
    my $forged = sub { jwt_token('refresh', $old_key, %{ claims($mine) }, @_) };
    is_retry($forged->(), $mine_next, 'control: a token made here');
    is_problem(refresh($forged->(account_id => uuid(5), sub => uuid(5))), 401,
        'AUTH_SESSION_NOT_ACTIVE', 'another account');
    is_stale($forged->(session_id => claims($other)->{session_id},
        map { $_ => claims($other)->{account_id} } qw(account_id sub)),
        'another session');
    is_stale($forged->(jti => uc claims($mine)->{jti}), 'in capitals');
}

# -- an older version, which knows nothing of this, replaced the successor

($first, $second) = lost();
$pg->sql("update auth_sessions set jti = gen_random_uuid(), used_at = now()
    where " . where($first));
is_stale($first, 'an older version was here');
is row($first, 'retry_next = jti'), 'f', 'control: which left the row like this';

# -- what happens in between counts: nothing comes back

my %ends = (
    'logged out' => sub { http_post($port, '/api/auth/logout',
        json => { refreshToken => $_[1] })->status == 200 or die },
    'logged out by the old one' => sub { http_post($port, '/api/auth/logout',
        json => { refreshToken => $_[0] })->status == 200 or die },
    'ended by another session' => sub { http_post($port,
        '/api/auth/logout-others', token => login('one')->{accessToken}
        )->status == 200 or die },
    'of a credential that was changed' => sub { change_credential(
        login('one')->{accessToken}) },
    'disabled' => sub { $pg->sql("update accounts set status = 'DISABLED'
        where account_name = 'one\@demo.test'") },
    'locked out' => sub { $pg->sql("update accounts
        set sessions_valid_after = now()
        where account_name = 'one\@demo.test'") },
    'over' => sub { change($_[0], "created_at = now() - interval '2 days',
        expires_at = date_trunc('second', clock_timestamp())") },
    'too old' => sub { change($_[0], "created_at = now() - interval '90 days'")
        },
    'swept' => sub { $pg->sql("delete from rotated_tokens; delete from
        auth_sessions where " . where($_[0])) },
);
for my $how (sort keys %ends) {
    ($first, $second) = lost();
    is_retry($first, $second, "control: not $how");
    $ends{$how}->($first, $second);
    my $row = row($first, qw(jti status));
    is_problem(refresh($first), 401, 'AUTH_SESSION_NOT_ACTIVE', $how);
    is row($first, 'jti'), $row =~ s/\|.*//r, "$how: no other token";
    is_problem(refresh($second), 401, 'AUTH_SESSION_NOT_ACTIVE',
        "$how: nor its successor");
    $pg->sql("update accounts set status = 'ACTIVE',
        sessions_valid_after = '-infinity'");
}
my $own = login('one');
$second = next_of(refresh($own->{refreshToken}));
change_credential($own->{accessToken});
recent($second);
is_retry($own->{refreshToken}, $second, 'who changes the credential stays');
($first, $second) = lost();
is_problem(refresh(jwt_token('refresh', $old_key, %{ claims($first) },
    exp => time)), 401, 'AUTH_REFRESH_TOKEN_INVALID', 'the old token expired');

# -- a selection in between: the same token, the branch that is selected now

my $several = login('several');
my $first_of_several = $several->{refreshToken};
$second = next_of(refresh($first_of_several));
my @branches = map { $_->{branchId} } @{ $several->{branches} };
my $account = sub { "account_id = (select account_id from accounts
    where account_name = 'several\@demo.test')" };
for my $branch (@branches[0, 1]) {
    is http_post($port, '/api/auth/select-branch',
        json => { branchId => $branch }, token => $several->{accountAccessToken}
        )->status, 200, 'a selection';
    recent($second);
    my $res = is_retry($first_of_several, $second, 'selected');
    is claims($res->json->{accessToken})->{active_branch_id}, $branch,
        'selected: the branch';
    is row($first_of_several, 'active_branch_id'), $branch,
        'selected: and it stays';
}

# -- a branch that is withdrawn: the same token, and the list to choose from

recent($second);
$row = row($second, qw(jti expires_at used_at retry_jti retry_next retry_iat));
$pg->sql("update branches set status = 'INACTIVE'
    where branch_id = '$branches[1]'");
statements();
$res = is_retry($first_of_several, $second, 'withdrawn');
is statements(), 'session_refresh session_read session_read session_retry'
    . ' session_repeat_clear', 'withdrawn: statements';
is $res->json->{nextAction}{type}, 'select_branch', 'withdrawn: choose anew';
is scalar @{ $res->json->{branches} }, 2, 'withdrawn: from what is left';
is row($second, 'num_nulls(workspace_id, member_id, active_branch_id)'), 3,
    'withdrawn: the row has none';
is row($second, qw(jti expires_at used_at retry_jti retry_next retry_iat)),
    $row, 'withdrawn: and is as it was otherwise';
is_retry($first_of_several, $second, 'withdrawn, once more');

# The same when the first refresh found that out, and its answer was lost.
my $bound = login('several');
is http_post($port, '/api/auth/select-branch',
    json => { branchId => $branches[0] }, token => $bound->{accountAccessToken}
    )->status, 200, 'a selection';
$pg->sql("update branches set status = 'INACTIVE'
    where branch_id = '$branches[0]'");
my $unbound = next_of(refresh($bound->{refreshToken}));
is_retry($bound->{refreshToken}, $unbound, 'withdrawn before');
$pg->sql("update branches set status = 'ACTIVE'
    where branch_id = '$branches[0]'");
$pg->sql("update branches set status = 'ACTIVE'
    where branch_id = '$branches[1]'");
is refresh($second)->status, 200, 'withdrawn: the successor is good';

# -- many at once, lined up behind the row: one rotation, the same for all

# Sends refreshes while the row is locked, changes it then, and reads the
# answers: all of them began before that change.
sub during {
    my ($token, $change, $count) = @_;

    my $transaction = $pg->begin('select 1 from auth_sessions where '
        . where($token) . ' for update');
    statements();
    my @clients = map { Platform::Test::Http->new(port => $port) } 1 .. $count;
    $_->send(http_request_bytes(POST => '/api/auth/refresh',
        json => { refreshToken => $token })) for @clients;
    ok $pg->waiting($count), "$count wait";
    $pg->more($transaction, $change) if $change;
    ok $pg->end($transaction, 'commit'), 'the transaction ends';
    return map { $_->read_response } @clients;
}

sub line_up {
    my ($policy) = @_;

    my $token = login('one')->{refreshToken};
    change($token, "expires_at = expires_at - interval '1 hour'");
    my $then = counts();
    my @answers = during($token, '', 5);
    my %tokens = map { $_->json->{refreshToken} // $_->body => 1 } @answers;
    is scalar keys %tokens, 1, "$policy, five at once: the same bytes"
        or diag explain \%tokens;
    is claims((keys %tokens)[0])->{jti}, row($token, 'jti'),
        "$policy, five at once: which are the row's";
    is counts(), join(' ', map { (split / /, $then)[$_] + (1, 4, 0)[$_] }
        0 .. 2), "$policy, five at once: one rotation";
    is audited($token) =~ tr/ //, 4, "$policy, five at once: audited";
    is $pg->sql("select count(*) from rotated_tokens where " . where($token)),
        $policy eq 'revoke' ? 1 : 0, "$policy, five at once: remembered";

    # One of them after the successor was used, or after a logout.
    my ($first, $second) = lost();
    my ($late) = during($first, "update auth_sessions set retry_jti = jti,
        retry_next = 'eeeeeeee-0000-4000-8000-000000000000',
        jti = 'eeeeeeee-0000-4000-8000-000000000000' where " . where($first),
        1);
    is_problem($late, 401, 'AUTH_REFRESH_TOKEN_STALE',
        "$policy, used meanwhile");
    ($first, $second) = lost();
    ($late) = during($first, "update auth_sessions set status = 'REVOKED',
        revoked_at = now() where " . where($first), 1);
    is_problem($late, 401, 'AUTH_SESSION_NOT_ACTIVE',
        "$policy, logged out meanwhile");
    is audited($first), 'succeeded', "$policy, logged out meanwhile: no reuse";
    is row($first, qw(jti status)), claims($second)->{jti} . '|REVOKED',
        "$policy, logged out meanwhile: the row";
    is_problem(refresh($second), 401, 'AUTH_SESSION_NOT_ACTIVE',
        "$policy, logged out meanwhile: it is over");

    # Rotated and bound to a branch while the first one waited.
    my $login = login('several');
    $first = $login->{refreshToken};
    my ($workspace, $member) = split /\|/, $pg->sql("select workspace_id,
        member_id from selectable_branches where branch_id = '$branches[0]'
        and " . $account->());
    ($late) = during($first, "update auth_sessions
        set workspace_id = '$workspace', member_id = '$member',
        active_branch_id = '$branches[0]', retry_jti = jti,
        retry_iat = '2026-01-01', used_at = clock_timestamp(),
        retry_next = 'eeeeeeee-0000-4000-8000-000000000001',
        jti = 'eeeeeeee-0000-4000-8000-000000000001' where " . where($first),
        1);
    is $late->status, 200, "$policy, rotated and selected meanwhile";
    is_deeply [ @{ claims($late->json->{refreshToken}) }{qw(jti iat)} ],
        [ 'eeeeeeee-0000-4000-8000-000000000001', 1767225600 ],
        "$policy, rotated and selected meanwhile: that one's";
    is row($first, 'active_branch_id'), $branches[0],
        "$policy, rotated and selected meanwhile: it is still";
    return;
}

# -- a thief who has one token, and sends each that the owner replaces, or is
#    the first to replace it: from elsewhere, as another agent, or both

my %owner = (headers => [ 'User-Agent' => 'app/1' ]);
my %moved = (%owner, from => '127.0.1.1');
my %as = (
    'of another address'           => [ \%moved, 2 ],
    'of another agent'             => [ {}, 2 ],
    'of another address and agent' => [ { from => '127.0.1.1' }, 0 ],
    'like the owner'               => [ \%owner, 9 ],
);

# Nine rounds: how often the second of the two was answered, and what the session
# is afterwards.
sub nine_rounds {
    my ($one, $other) = @_;
    my $mine = my $theirs = login('one')->{refreshToken};
    my $answered = 0;

    for (1 .. 9) {
        my $res = refresh($mine, $one);
        last if $res->status != 200;
        $mine = $res->json->{refreshToken};
        $res = refresh($theirs, $other);
        next if $res->status != 200;
        $answered += $res->json->{refreshToken} eq $mine;
        $theirs = $mine;
    }
    return ($answered, row($mine, 'status'), audited($mine));
}

sub shadow {
    my ($policy) = @_;

    for my $how (sort keys %as) {
        my ($thief, $most) = @{ $as{$how} };
        for my $order ([ \%owner, $thief ], [ $thief, \%owner ]) {
            my ($answered, $status, $audit) = nine_rounds(@$order);
            my $name = "$policy, a thief $how"
                . ($order->[1] == $thief ? '' : ', who is first');
            is $answered, $most, "$name: how often it goes well";
            is $status, $most < 9 && $policy eq 'revoke' ? 'REVOKED'
                : 'ACTIVE', "$name: and then";
            is scalar(() = $audit =~ /\bretried_elsewhere\b/g),
                $most % 9, "$name: audited";
            is scalar(() = $audit =~ /\breuse(?:_revoked)?\b/g),
                $most == 9 ? 0 : $policy eq 'revoke' ? 1 : 9 - $most,
                "$name: as a reuse in the end";
        }
    }
    return;
}

line_up('reject');
shadow('reject');

# The bits are those of the last eight rotations: three are too many.
sub moves {
    my %at = map { $_ => 1 } @_;
    my $token = login('one')->{refreshToken};
    my @status;

    for my $n (1 .. $_[-1]) {
        my $next = next_of(refresh($token, \%owner));
        push @status, refresh($token, \%moved)->status if $at{$n};
        $token = $next;
    }
    return "@status " . row($token, qw(retry_elsewhere used_address));
}
is moves(1, 2, 8), '200 200 401 192|127.0.0.1', 'three of eight';
is moves(1, 2, 9, 10, 11), '200 200 200 200 401 6|127.0.0.1',
    'never three of eight, and then so';

# -- near the session's end, when its token's life is cut: the same

restart(AUTH_SESSION_MAX_LIFETIME => '20d');
($first, $second) = lost();
statements();
is_retry($first, $second, 'shortened');
is statements(), 'session_read session_retry session_repeat',
    'shortened: three statements';
$third = next_of(refresh($second));
is statements(), 'session_read session_rotate', 'shortened: a rotation is two';
is claims($third)->{exp}, claims($second)->{exp}, 'shortened: it is';
is_retry($second, $third, 'shortened, again');
restart(AUTH_SESSION_MAX_LIFETIME => '90d');

# -- with another key: the same token, signed anew

($first, $second) = lost();
my ($of_another) = lost();
restart(JWT_KEY_ID => $new_key->kid,
    JWT_PRIVATE_KEY_BASE64 => $new_key->private_base64,
    JWT_PUBLIC_KEY_BASE64  => $new_key->public_base64,
    JWT_ADDITIONAL_PUBLIC_KEYS =>
        $old_key->kid . '=' . $old_key->public_base64);
recent($first);
$res = refresh($first);
is $res->status, 200, 'another key: answered';
my ($head, $claims) = jwt_decode($res->json->{refreshToken});
is $head->{kid}, $new_key->kid, 'another key: its signature';
is_deeply $claims, claims($second), 'another key: the same claims';
is refresh($second)->status, 200, 'another key: both are good';
restart(JWT_ADDITIONAL_PUBLIC_KEYS => undef);
is_problem(refresh($of_another), 401, 'AUTH_REFRESH_TOKEN_INVALID',
    'the old key is gone, and its tokens with it');

# -- with the policy `revoke`: in time a retry, later a reuse

restart(AUTH_REFRESH_REUSE => 'revoke', AUTH_REFRESH_RETRY_WINDOW => '30s');
line_up('revoke');
shadow('revoke');
my $age_by = sub {
    my ($token, $seconds) = @_;
    change($token, "used_at = used_at - interval '$seconds s'");
    $pg->sql("update rotated_tokens set rotated_at = rotated_at
        - interval '$seconds s' where " . where($token));
    return jwt_token('refresh', $new_key, %{ claims($token) },
        iat => claims($token)->{iat} - $seconds);
};
($first, $second) = lost();
my $aged = $age_by->($first, 10);
is_retry($aged, $second, 'revoke, after 10 s');
is row($first, 'status'), 'ACTIVE', 'revoke, after 10 s: it lives';
$aged = $age_by->($aged, 21);
is_stale($aged, 'revoke, after 31 s');
is row($first, 'status'), 'REVOKED', 'revoke, after 31 s: it has ended';
is audited($first), 'succeeded retried reuse_revoked', 'revoke: audited';
($first, $second) = lost();
next_of(refresh($second));
is_stale($age_by->($first, 10), 'revoke, in time, but the successor was used');
is row($first, 'status'), 'ACTIVE',
    'which a slow network can do: it lives';

$t->done;
