# Times: the exact second at which a session ends, everything within one
# second, and clocks that do not agree.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $t = Platform::Test->new;
$t->identity_face;
my $pg = $t->postgres;
my $port = $t->port('identity');
my $key = jwt_key('identity');

sub login {
    my ($account) = @_;

    return http_post($port, '/api/auth/login', json => {
        account => "$account\@demo.test", credential => 'Demo-passw0rd!' })
        ->json;
}

sub refresh {
    return http_post($port, '/api/auth/refresh',
        json => { refreshToken => $_[0] });
}

sub logout {
    return http_post($port, '/api/auth/logout',
        json => { refreshToken => $_[0] });
}

sub claims { return (jwt_decode($_[0]))[1] }

sub session { return "session_id = '" . claims($_[0])->{session_id} . "'" }

# -- the exact second: good before it, over from it on

my $several = login('several');
my $branch = $several->{branches}[0]{branchId};
my $end = int(time) + 5;
$pg->sql("update auth_sessions set expires_at = to_timestamp($end)
    where " . session($several->{refreshToken}));
my (@early, @late, %seen);
until ($seen{401} || time > $end + 60) {
    my $sent = time;
    my $res = http_post($port, '/api/auth/select-branch',
        token => $several->{accountAccessToken},
        json => { branchId => $branch });
    my $got = time;
    $seen{ $res->status }++;
    push @late, sprintf '%.3f', $sent - $end
        if $res->status == 200 && $sent >= $end;
    push @early, sprintf '%.3f', $got - $end
        if $res->status == 401 && $got < $end;
    sleep 0.01;
}
is_deeply \@late, [], 'not a moment after its last second';
is_deeply \@early, [], 'nor refused a moment before';
ok $seen{200} && $seen{401}, 'both were seen';

# A refresh token's own end likewise, without leeway.
my $one = login('one');
my $own = claims($one->{refreshToken});
$end = int(time) + 1;
my $short = jwt_token('refresh', $key, %$own, exp => $end);
my $res;
eventually(sub {    # once more where the answer came after that second
    sleep $end - 0.2 - time if time < $end - 0.2;
    $res = refresh($short);
    return 1 if time < $end;
    $own = claims(login('one')->{refreshToken});
    $end = int(time) + 1;
    $short = jwt_token('refresh', $key, %$own, exp => $end);
    return 0;
});
is $res->status, 200, 'a refresh token in its last second';
$own = claims(login('one')->{refreshToken});
$end = int(time) + 1;
$short = jwt_token('refresh', $key, %$own, exp => $end);
sleep 0.01 while time < $end + 0.02;
is_problem(refresh($short), 401, 'AUTH_REFRESH_TOKEN_INVALID',
    'and right after it');

# -- within one second: login, refreshes, logout, and another login

for my $round (1 .. 3) {
    my $begun = time;
    my $first = login('one');
    my $second = refresh($first->{refreshToken})->json;
    my $third = refresh($second->{refreshToken})->json;
    is_problem(refresh($second->{refreshToken}), 401,
        'AUTH_REFRESH_TOKEN_STALE', 'stale within its second');
    is logout($third->{refreshToken})->status, 200, 'logout';
    my $again = login('one');
    is_problem(refresh($third->{refreshToken}), 401,
        'AUTH_SESSION_NOT_ACTIVE', 'over within its second');
    is refresh($again->{refreshToken})->status, 200,
        'a login of the same second stands';
    note sprintf 'all of it in %.2f s', time - $begun;
}

# -- another host's clock is ahead: by less than the leeway nothing happens

$one = login('one');
$own = claims($one->{refreshToken});
$pg->sql("update auth_sessions set expires_at = expires_at + interval '20 s'
    where " . session($one->{refreshToken}));
my $ahead = jwt_token('refresh', $key, %$own, iat => $own->{iat} + 20,
    exp => $own->{exp} + 20);
$res = refresh($ahead);
is $res->status, 200, 'a token from 20 s ahead';
my $far = jwt_token('refresh', $key, %{ claims($res->json->{refreshToken}) },
    iat => int(time) + 60);
is_problem(refresh($far), 401, 'AUTH_REFRESH_TOKEN_INVALID',
    'from a minute ahead it is none');
my $refused = http_post($port, '/api/auth/refresh', body => '',
    cookie => "platform_refresh_token=$far");
is_problem($refused, 401, 'AUTH_REFRESH_TOKEN_INVALID', 'nor in a cookie');
is scalar($refused->header_all('Set-Cookie')), 0, 'which stays';
is refresh($res->json->{refreshToken})->status, 200, 'the session lives on';

# By an hour, or a day: whoever wants to be logged out is.

for my $case ([ refresh => 3600 ], [ refresh => 86400 ], [ account => 3600 ]) {
    my ($kind, $by) = @$case;
    my $several = login('several');
    my $their = claims($kind eq 'refresh' ? $several->{refreshToken}
        : $several->{accountAccessToken});
    my $token = jwt_token($kind, $key, %$their, iat => $their->{iat} + $by,
        exp => $their->{exp} + $by);
    my $gone = http_post($port, '/api/auth/logout', $kind eq 'refresh'
        ? (json => { refreshToken => $token }) : (token => $token, body => ''));
    is $gone->status, 200, "logout with a $kind token of $by s ahead";
    is $pg->sql('select status, revoked_at is not null from auth_sessions
        where ' . session($several->{refreshToken})), 'REVOKED|t',
        'the session is revoked';
}

# Its session too: made in the future, and ended before it was made.
my $id = uuid();
my $jti = uuid();
my $account = $own->{account_id};
$pg->sql("insert into auth_sessions
    (session_id, account_id, jti, created_at, expires_at)
    values ('$id', '$account', '$jti', now() + interval '20 s',
        now() + interval '1 day')");
my $token = jwt_token('refresh', $key, session_id => $id, jti => $jti,
    sub => $account, account_id => $account);
$res = refresh($token);
is $res->status, 200, 'a session from 20 s ahead: refresh';
is logout($res->json->{refreshToken})->status, 200, 'logout';
is $pg->sql("select status, revoked_at = created_at from auth_sessions
    where session_id = '$id'"), 'REVOKED|t', 'ended, and no earlier than made';

# -- the database's clock differs from the program's: sessions do not care

$pg->sql(q{create schema skewed;
    create function skewed.now() returns timestamptz language sql stable
        as $$ select pg_catalog.now() + interval '1 hour' $$;
    create function skewed.clock_timestamp() returns timestamptz
        language sql volatile
        as $$ select pg_catalog.clock_timestamp() + interval '1 hour' $$;
    alter role platform set search_path = skewed, pg_catalog, public});
$pg->sql("select pg_terminate_backend(pid) from pg_stat_activity
    where application_name = 'identity-service'", user => 'postgres');
is $pg->sql("select now() > pg_catalog.now() + interval '59 min'"), 't',
    'the database is an hour ahead';
$one = login('one');
$res = refresh($one->{refreshToken});
is $res->status, 200, 'an hour ahead: refresh';
is claims($res->json->{refreshToken})->{exp},
    $pg->sql('select extract(epoch from expires_at)::bigint from auth_sessions
        where ' . session($one->{refreshToken})), 'the program sets the end';
is logout($res->json->{refreshToken})->status, 200, 'an hour ahead: logout';
is_problem(refresh($res->json->{refreshToken}), 401,
    'AUTH_SESSION_NOT_ACTIVE', 'an hour ahead: it is over');

$t->done;
