# Refresh: where the token comes from, what it answers, what makes a token no good
# and what becomes of the cookie then; the policy `revoke`, the longest life of a
# session, and clocks.  How the parts of a request are judged: check_refresh.

use Platform::Test;
use Platform::Test::Client;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my $identity = $t->identity_face(
    PLATFORM_CORS_ALLOWED_ORIGINS => 'https://app.test',
    PLATFORM_AUTH_MAX_FAILURES    => 0,
);
my $pg = $t->postgres;
client_of($t);
my $COOKIE = $Platform::Test::Client::COOKIE;
my $key = jwt_key('identity');

sub by_cookie ($token, @o) {
    return call(refresh => undef, body => '', cookie => "$COOKIE=$token", @o);
}

sub cleared ($res) {
    return ($res->cookie_line($COOKIE) // '') eq
        "$COOKIE=; Path=/api/auth; Max-Age=0; HttpOnly; SameSite=Lax";
}

# -- what it answers

my @members = sort qw(code message refreshToken tokenType expiresIn nextAction);
my $one = logged_in('one');
my $res = refresh($one);
is_deeply [ $res->status, $res->header('Cache-Control'), $res->json->{code},
    $res->json->{nextAction}{type}, $res->cookie($COOKIE) ],
    [ 200, 'no-store', 'AUTH_REFRESH_SUCCESS', 'load_current_context',
        $res->json->{refreshToken} ], 'in a branch; the cookie is set again';
is_deeply [ sort keys %{ $res->json } ], [ sort @members, 'accessToken' ], 'its members';
my ($old, $new) = map { claims($_) } $one, $res->json;
is $new->{session_id}, $old->{session_id}, 'the same session';
isnt $new->{jti}, $old->{jti}, 'another jti';
is row($one, 'jti, extract(epoch from expires_at)::bigint'),
    "$new->{jti}|$new->{exp}", 'the row has jti and expiry of the new token';
is claims($res->json->{accessToken})->{session_id}, $new->{session_id},
    'the access token is of that session';

my $several = logged_in('several');
$res = refresh($several);
is_deeply [ sort keys %{ $res->json } ], [ sort @members,
    qw(accountAccessToken branches) ], 'without a branch: its members';
is_deeply $res->json->{branches}, $several->{branches}, 'the same branches';
my $chosen = $several->{branches}[1]{branchId};
is select_branch($res->json, $chosen)->status, 200, 'selected';
$res = refresh($res->json);
is claims($res->json->{accessToken})->{active_branch_id}, $chosen,
    'the refresh keeps the selection';
$res = refresh($res->json, more => { includeAccountToken => \1 });
is_deeply [ sort keys %{ $res->json } ], [ sort @members,
    qw(accessToken accountAccessToken branches) ], 'includeAccountToken: its members';
is_deeply $res->json->{branches}, $several->{branches}, "the workspace's branches";
is_problem(refresh($res->json, more => { includeAccountToken => 'yes' }), 400,
    'REQUEST_INVALID', 'includeAccountToken of another type');

# -- where the token comes from

my $token = next_of(refresh($one = logged_in('one')));
for my $case (
    [ 'the body' => 200, sub { refresh($_[0]) } ],
    [ 'the cookie' => 200, sub { by_cookie($_[0]) } ],
    [ 'both and alike' => 200, sub { refresh($_[0], cookie => "$COOKIE=$_[0]") } ],
    [ 'both and different' => 400, sub { refresh($_[0], cookie => "$COOKIE=x$_[0]") } ],
    [ 'two cookies' => 400, sub { by_cookie("$_[0]; $COOKIE=b") } ],
    [ 'two headers of them' => 400, sub { call(refresh => undef, body => '',
        headers => [ map { (Cookie => "$COOKIE=$_") } $_[0], 'b' ]) } ],
    [ 'an empty cookie' => 200, sub { refresh($_[0], cookie => "$COOKIE=") } ],
    (map { my $empty = $_; [ 'an empty member' => 200, sub {
        call(refresh => { refreshToken => $empty }, cookie => "$COOKIE=$_[0]") } ] }
        '', undef),
    [ 'none' => 401, sub { call(refresh => undef, body => '') } ],
    [ 'none in both' => 401, sub { call(refresh => { refreshToken => '' },
        cookie => "$COOKIE=") } ],
    (map { my $h = $_; [ "by cookie, @$h" => 200, sub {
        by_cookie($_[0], headers => $h) } ] } [ Origin => 'https://app.test' ],
        [ Origin => 'http://localhost' ], [ 'Sec-Fetch-Site' => 'same-site' ]),
    (map { my $h = $_; [ "by cookie, @$h" => 403, sub {
        by_cookie($_[0], headers => $h) } ] } [ Origin => 'https://evil.test' ],
        [ Origin => 'null' ], [ Origin => 'http://app.test' ],
        [ 'Sec-Fetch-Site' => 'cross-site' ]),
    [ 'in the body, any origin' => 200, sub {
        refresh($_[0], headers => [ Origin => 'https://evil.test' ]) } ],
    )
{
    my ($name, $status, $ask) = @$case;
    my $res = $ask->($token);
    if ($status == 200) {
        is $res->status, 200, "$name: 200" or diag $res->body;
        $token = $res->json->{refreshToken} // $token;
        next;
    }
    is_problem($res, $status, { 400 => 'AUTH_REFRESH_TOKEN_CONFLICT',
        401 => 'AUTH_REFRESH_TOKEN_MISSING', 403 => 'AUTH_ORIGIN_NOT_ALLOWED'
        }->{$status}, $name);
    is cookies($res), 0, "$name: no cookie is touched";
}
is_problem(refresh('x' x 17000), 413, 'REQUEST_TOO_LARGE', 'a long body');

# -- tokens that are no good: in a body, and in a cookie, which is cleared where it
#    never can be

# A session of its own, whose row or account something happens to; with it its
# first token, and the one that replaced that.
sub ended ($account, $how, $which) {
    my $first = logged_in($account);
    my @tokens = ($first->{refreshToken}, next_of(refresh($first)));
    alter($first, $how) if $how;
    return $tokens[$which];
}

my $claims = claims($token);
my $signed = sub { jwt_token('refresh', $key, %$claims, @_) };
my @bad = (
    [ INVALID => garbage => 'garbage' ],
    [ INVALID => tampered => jwt_tamper($token, 2, 0) ],
    [ INVALID => 'expired' => $signed->(exp => int time) ],
    [ INVALID => 'of another issuer' => $signed->(iss => 'http://x') ],
    [ INVALID => 'of another key' => jwt_token('refresh', jwt_key('other'), %$claims) ],
    [ INVALID => 'a branch token' => $one->{accessToken} ],
    [ INVALID => 'an account token' => $several->{accountAccessToken} ],
    [ NOT_ACTIVE => 'of no session' => $signed->(session_id => uuid()) ],
    [ NOT_ACTIVE => 'of a long one' => $signed->(session_id => 'x' x 99) ],
    [ NOT_ACTIVE => 'of another account' => $signed->(account_id => uuid(9), sub => uuid(9)) ],
    (map { [ NOT_ACTIVE => "$_->[0] of a revoked session" => ended('one',
        "status = 'REVOKED', revoked_at = now()", $_->[1]) ] }
        [ 'a stale token' => 0 ], [ 'the token' => 1 ]),
    [ NOT_ACTIVE => 'expired in the database' => ended('one',
        "expires_at = created_at + interval '1 ms'", 1) ],
    [ STALE => 'rotated out' => $one->{refreshToken} ],
    [ STALE => 'in capitals' => $signed->(jti => uc $claims->{jti}) ],
);
for my $case (@bad) {
    my ($code, $name, $bad) = @$case;
    $code = { INVALID => 'AUTH_REFRESH_TOKEN_INVALID', STALE =>
        'AUTH_REFRESH_TOKEN_STALE', NOT_ACTIVE => 'AUTH_SESSION_NOT_ACTIVE' }->{$code};
    my $res = refresh($bad);
    is_problem($res, 401, $code, "$name, in the body");
    is cookies($res), 0, "$name: no cookie is touched";
    $res = by_cookie($bad);
    is_problem($res, 401, $code, "$name, in the cookie");
    ok $code =~ /STALE/ ? !cookies($res) : cleared($res), "$name: what becomes of it";
}
$token = next_of(by_cookie($token));    # control: the token itself

my $disabled = logged_in('two-workspaces');
$pg->sql("update accounts set status = 'DISABLED'
    where account_name = 'two-workspaces\@demo.test'");
is_problem(refresh($disabled), 401, 'AUTH_SESSION_NOT_ACTIVE', 'a disabled account');
is row($disabled, 'status, revoked_at is not null, jti'),
    'REVOKED|t|' . claims($disabled)->{jti}, 'ends its session, and rotates nothing';
ok cleared(by_cookie($disabled->{refreshToken})), 'its cookie is cleared';

# -- the policy `revoke`: over a minute after it was rotated out, a token ends its
#    session.  Each as if it had been issued and rotated out so many seconds ago.

for my $case (
    [ reject => 5000, 5000, 'ACTIVE' ], [ revoke => 50, 50, 'ACTIVE' ],
    [ revoke => 5000, 0, 'ACTIVE' ], [ revoke => 71, 71, 'REVOKED' ],
    )
{
    my ($policy, $issued, $rotated, $status) = @$case;
    my $name = "$policy, issued $issued s and rotated out $rotated s ago";
    restart($identity, AUTH_REFRESH_REUSE => $policy)
        if ($identity->{env}{PLATFORM_AUTH_REFRESH_REUSE} // '') ne $policy;
    my $first = logged_in('one');
    my $own = claims($first);
    my $second = next_of(refresh($first));
    $pg->sql("update rotated_tokens set rotated_at = rotated_at
        - interval '$rotated s' where jti = '$own->{jti}'");
    my $res = by_cookie(jwt_token('refresh', $key, %$own, iat => int(time) - $issued));
    is_problem($res, 401, 'AUTH_REFRESH_TOKEN_STALE', $name);
    is cookies($res), 0, "$name: no cookie is touched";
    is row($first, 'status'), $status, "$name: the session";
    is refresh($second)->status, $status eq 'ACTIVE' ? 200 : 401, "$name: its current token";
    is scalar(grep { $_->{event} eq 'auth.refresh.reuse_revoked'
        && $_->{sessionId} eq $own->{session_id} } $identity->log_lines),
        $status eq 'REVOKED' ? 1 : 0, "$name: which is logged, once";
}
my $kept = sub { $pg->sql("select count(*) from rotated_tokens
    where session_id = '" . session_of($token) . "'") };
is $kept->(), 0, 'reject: nothing is kept';
$token = next_of(refresh($token)) for 1 .. 3;
is $kept->(), 3, 'revoke: three are remembered';
$pg->sql("update rotated_tokens set rotated_at = rotated_at - interval '3 min'");
refresh($token);
is $kept->(), 1, 'old ones are forgotten';

# -- the longest life: no expiry passes it, and it is counted from the login

my $s = logged_in('one');
my $created = row($s, 'floor(extract(epoch from created_at))');
for my $limit ([ '20m', 1200, 900 ], [ '5m', 300, 300 ]) {
    my ($setting, $life, $access) = @$limit;
    restart($identity, AUTH_SESSION_MAX_LIFETIME => $setting);
    my $res = refresh($s);
    is $res->status, 200, "$setting: a refresh";
    $s = $res->json;
    is claims($s)->{exp}, $created + $life, "$setting: the refresh token's end";
    cmp_ok claims($s->{accessToken})->{exp}, '<=', $created + $life,
        "$setting: the access token's";
    cmp_ok $s->{expiresIn}, '<=', $access, "$setting: expiresIn says so";
    my ($age) = $res->cookie_line($COOKIE) =~ /Max-Age=(\d+)/;
    cmp_ok $age, '<=', $life, "$setting: and so does the cookie";
}
is claims($s->{accessToken})->{exp}, $created + 300, '5m: it is cut';

# -- times: the exact second, and clocks that do not agree

restart($identity, AUTH_SESSION_MAX_LIFETIME => undef);
$several = logged_in('several');
my $end = int(time) + 2;
alter($several, "created_at = created_at - interval '1 hour', expires_at = to_timestamp($end)");
my (%wrong, %seen);
until ($seen{401} || time > $end + 60) {
    my $sent = time;
    my $status = select_branch($several, $chosen)->status;
    $seen{$status}++;
    $wrong{late}++ if $status == 200 && $sent >= $end;
    $wrong{early}++ if $status == 401 && time < $end;
}
is_deeply \%wrong, {}, 'good until its last second, and not a moment longer';
is_deeply [ sort keys %seen ], [ 200, 401 ], 'both were seen';

# Another host's clock is ahead: by less than the leeway nothing happens; by more, a
# token may be good elsewhere, and here soon; and whoever wants to be logged out is.
for my $case ([ 20, 200 ], [ 60, 401 ], [ 86400, 401 ]) {
    my ($by, $status) = @$case;
    my $s = logged_in('one');
    my $own = claims($s);
    my $ahead = jwt_token('refresh', $key, %$own, iat => int(time) + $by,
        exp => $own->{exp} + $by);
    my $res = by_cookie($ahead);
    is $res->status, $status, "a token from $by s ahead: $status" or diag $res->body;
    is cookies($res), $status == 200 ? 1 : 0, "$by s ahead: the cookie";
    is logout($ahead)->status, 200, "$by s ahead: a logout";
    is row($s, qw(status)), 'REVOKED', "$by s ahead: ends it";
}

# A session made in the future is ended no earlier.
$one = logged_in('one');
alter($one, "created_at = now() + interval '20 s'");
is logout(next_of(refresh($one)))->status, 200, 'a session from ahead';
is row($one, 'status', 'revoked_at = created_at'), 'REVOKED|t', 'ended, and no earlier than made';

# The database's clock differs from the program's: sessions do not care.
$pg->sql(join "\n", 'create schema skewed;', (map {"create function skewed.$_() returns
        timestamptz language sql volatile
        as \$\$ select pg_catalog.$_() + interval '1 hour' \$\$;"} qw(now clock_timestamp)),
    'alter role platform set search_path = skewed, pg_catalog, public');
restart($identity);
is $pg->sql("select now() > pg_catalog.now() + interval '59 min'"), 't',
    'the database is an hour ahead';
$one = logged_in('one');
$res = refresh($one);
is claims($res->json)->{exp}, row($one, 'extract(epoch from expires_at)::bigint'),
    'the program sets the end';
is logout($res->json)->status, 200, 'an hour ahead: logout';
is_problem(refresh($res->json), 401, 'AUTH_SESSION_NOT_ACTIVE', 'an hour ahead: it is over');

unlike $identity->log_text, qr/eyJ/, 'no token in the log';

$t->done;
