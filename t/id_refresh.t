# Refresh: rotation, where the token may come from, and what each refusal does
# to the cookie.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $identity = $t->identity_face(
    PLATFORM_CORS_ALLOWED_ORIGINS => 'https://app.test',
);
my $pg = $t->postgres;
my $port = $t->port('identity');
my $COOKIE = 'platform_refresh_token';
my $key = jwt_key('identity');

sub login {
    my ($account) = @_;

    return http_post($port, '/api/auth/login', json => {
        account => "$account\@demo.test", credential => 'Demo-passw0rd!',
    })->json;
}

sub refresh {
    my ($token, %o) = @_;

    return http_post($port, '/api/auth/refresh',
        (defined $token ? (json => { refreshToken => $token,
            %{ delete $o{more} // {} } }) : (body => '')), %o);
}

sub with_cookie {
    my ($token, %o) = @_;

    return refresh(undef, cookie => "$COOKIE=$token", %o);
}

sub payload { return (jwt_decode($_[0]))[1] }

sub cookies { return scalar($_[0]->header_all('Set-Cookie')) }

sub cleared {
    my ($res) = @_;

    my $line = $res->cookie_line($COOKIE) // '';
    return $line =~ /\A\Q$COOKIE\E=; Path=\/api\/auth; Max-Age=0; HttpOnly; SameSite=Lax\z/;
}

# Body, scoped.

my $one = login('one');
my $res = refresh($one->{refreshToken});
is $res->status, 200, 'from the body: 200';
is $res->header('Cache-Control'), 'no-store', 'not to be stored';
is_deeply [ sort keys %{ $res->json } ], [ sort qw(code message accessToken
        refreshToken tokenType expiresIn nextAction) ], 'its members';
is $res->json->{code}, 'AUTH_REFRESH_SUCCESS', 'its code';
is $res->json->{nextAction}{type}, 'load_current_context', 'its next action';
is $res->cookie($COOKIE), $res->json->{refreshToken},
    'the cookie is set again though the token came in the body';

my ($old, $new)
    = map { payload($_->{refreshToken}) } $one, $res->json;
is $new->{session_id}, $old->{session_id}, 'the same session';
isnt $new->{jti}, $old->{jti}, 'another jti';
is $pg->sql("select jti, extract(epoch from expires_at)::bigint
    from auth_sessions where session_id = '$new->{session_id}'"),
    "$new->{jti}|$new->{exp}", 'the row has jti and expiry of the new token';
is payload($res->json->{accessToken})->{session_id}, $new->{session_id},
    'the access token is of that session';

# The rotated-out one: 401, and the cookie stays.

my $stale = refresh($one->{refreshToken});
is_problem($stale, 401, 'AUTH_REFRESH_TOKEN_STALE', 'a rotated-out token');
is cookies($stale), 0, 'no cookie is touched';
$stale = with_cookie($one->{refreshToken});
is_problem($stale, 401, 'AUTH_REFRESH_TOKEN_STALE', 'in the cookie');
is cookies($stale), 0, 'no cookie is touched either';
$res = with_cookie($res->json->{refreshToken});
is $res->status, 200, 'the session lives on; the token may be in the cookie';

# Both, alike and different.

my $token = $res->json->{refreshToken};
$res = refresh($token, cookie => "$COOKIE=$token");
is $res->status, 200, 'both and alike';
$token = $res->json->{refreshToken};
my $conflict = refresh($token, cookie => "$COOKIE=x$token");
is_problem($conflict, 400, 'AUTH_REFRESH_TOKEN_CONFLICT', 'both, different');
is cookies($conflict), 0, 'no cookie is touched';
is_problem(refresh(undef, cookie => "$COOKIE=a; $COOKIE=b"), 400,
    'AUTH_REFRESH_TOKEN_CONFLICT', 'two cookies');
is_problem(refresh(undef, headers =>
    [ Cookie => "$COOKIE=$token", Cookie => "$COOKIE=b" ]), 400,
    'AUTH_REFRESH_TOKEN_CONFLICT', 'two cookies in headers of their own');
for my $absent ('', undef) {
    $res = http_post($port, '/api/auth/refresh',
        json => { refreshToken => $absent }, cookie => "$COOKIE=$token");
    is $res->status, 200, 'an empty member counts as absent';
    $token = $res->json->{refreshToken};
}
$res = refresh($token, cookie => "$COOKIE=");
is $res->status, 200, 'an empty cookie counts as absent';
$token = $res->json->{refreshToken};

# None.

for my $none ([ body => '' ], [ json => {} ],
    [ json => { refreshToken => '' }, cookie => "$COOKIE=" ])
{
    $res = http_post($port, '/api/auth/refresh', @$none);
    is_problem($res, 401, 'AUTH_REFRESH_TOKEN_MISSING', 'no token');
    is cookies($res), 0, 'no cookie is touched';
}

# Tokens that are none: only their own cookie is cleared.

my $claims = payload($token);
my $now = time;
my %bad = (
    garbage   => 'garbage',
    tampered  => jwt_tamper($token, 2, 0),
    expired   => jwt_token('refresh', $key, %$claims, exp => $now),
    issuer    => jwt_token('refresh', $key, %$claims, iss => 'http://x'),
    unknown   => jwt_token('refresh', jwt_key('other'), %$claims),
    access    => login('one')->{accessToken},
    account   => login('several')->{accountAccessToken},
);
for my $name (sort keys %bad) {
    $res = refresh($bad{$name});
    is_problem($res, 401, 'AUTH_REFRESH_TOKEN_INVALID', "$name in the body");
    is cookies($res), 0, "$name in the body: no cookie is touched";
    $res = with_cookie($bad{$name});
    is_problem($res, 401, 'AUTH_REFRESH_TOKEN_INVALID', "$name in the cookie");
    ok cleared($res), "$name in the cookie: it is cleared";
}
my $long = 'x' x 17000;
is_problem(with_cookie('x' x 7000), 401, 'AUTH_REFRESH_TOKEN_INVALID',
    'a long cookie');
is_problem(refresh($long), 413, 'REQUEST_TOO_LARGE', 'a long body');

# A session that is not there, revoked, expired, or of a disabled account.

my %gone = (
    missing => jwt_token('refresh', $key, %$claims, session_id => uuid()),
    odd     => jwt_token('refresh', $key, %$claims, session_id => 'odd'),
    long    => jwt_token('refresh', $key, %$claims, session_id => 'x' x 99),
    account => jwt_token('refresh', $key, %$claims,
        account_id => uuid(9), sub => uuid(9)),
);
for my $name (sort keys %gone) {
    $res = with_cookie($gone{$name});
    is_problem($res, 401, 'AUTH_SESSION_NOT_ACTIVE', "$name session");
    ok cleared($res), "$name session: the cookie is cleared";
    is cookies(refresh($gone{$name})), 0, "$name session: not so by a body";
}

my $revoked = login('one');
my $next = refresh($revoked->{refreshToken})->json;
$pg->sql("update auth_sessions set status = 'REVOKED', revoked_at = now()
    where session_id = '" . payload($next->{refreshToken})->{session_id} . "'");
is_problem(refresh($next->{refreshToken}), 401, 'AUTH_SESSION_NOT_ACTIVE',
    'revoked');
is_problem(refresh($revoked->{refreshToken}), 401, 'AUTH_SESSION_NOT_ACTIVE',
    'a stale token of a revoked session');
for my $token ($next->{refreshToken}, $revoked->{refreshToken}) {
    $res = with_cookie($token);
    is_problem($res, 401, 'AUTH_SESSION_NOT_ACTIVE', 'in the cookie');
    ok cleared($res), 'which is cleared';
}

my $expired = login('one');
$pg->sql("update auth_sessions set expires_at = created_at + interval '1 ms'
    where session_id = '"
    . payload($expired->{refreshToken})->{session_id} . "'");
is_problem(refresh($expired->{refreshToken}), 401, 'AUTH_SESSION_NOT_ACTIVE',
    'expired in the database');
ok cleared(with_cookie($expired->{refreshToken})), 'its cookie is cleared';

my $disabled = login('two-workspaces');
my $session = payload($disabled->{refreshToken})->{session_id};
$pg->sql("update accounts set status = 'DISABLED'
    where account_name = 'two-workspaces\@demo.test'");
is_problem(refresh($disabled->{refreshToken}), 401, 'AUTH_SESSION_NOT_ACTIVE',
    'a disabled account');
is $pg->sql("select status, revoked_at is not null, jti from auth_sessions
    where session_id = '$session'"), 'REVOKED|t|'
    . payload($disabled->{refreshToken})->{jti},
    'whose session is revoked, and its token not replaced before';
ok cleared(with_cookie($disabled->{refreshToken})), 'its cookie is cleared';

# Without scope, and scope that is lost.

my $several = login('several');
$res = refresh($several->{refreshToken});
is_deeply [ sort keys %{ $res->json } ], [ sort qw(code message
        accountAccessToken refreshToken tokenType expiresIn branches
        nextAction) ], 'without scope: its members';
is_deeply $res->json->{branches}, $several->{branches}, 'the same branches';

my $chosen = $several->{branches}[1];
is http_post($port, '/api/auth/select-branch', token =>
        $res->json->{accountAccessToken},
    json => { branchId => $chosen->{branchId} })->status, 200, 'selected';
$res = refresh($res->json->{refreshToken});
is payload($res->json->{accessToken})->{active_branch_id},
    $chosen->{branchId}, 'the refresh keeps the selection';
is_deeply [ sort @{ payload($res->json->{accessToken})->{branch_ids} } ],
    [ sort map { $_->{branchId} } @{ $several->{branches} } ],
    'branch_ids are the selectable ones';

$res = refresh($res->json->{refreshToken},
    more => { includeAccountToken => \1 });
is_deeply [ sort keys %{ $res->json } ], [ sort qw(code message accessToken
        accountAccessToken refreshToken tokenType expiresIn branches
        nextAction) ], 'includeAccountToken: its members';
is $res->json->{nextAction}{type}, 'load_current_context', 'its next action';
is_deeply $res->json->{branches}, $several->{branches},
    "the workspace's branches";
is_problem(refresh($res->json->{refreshToken},
    more => { includeAccountToken => 'yes' }), 400, 'REQUEST_INVALID',
    'includeAccountToken of another type');

$pg->sql("update branches set status = 'INACTIVE'
    where branch_id = '$chosen->{branchId}'");
$res = refresh($res->json->{refreshToken});
is $res->json->{nextAction}{type}, 'select_branch',
    'a branch that is selectable no more: choose again';
is_deeply [ map { $_->{branchId} } @{ $res->json->{branches} } ],
    [ map { $several->{branches}[$_]{branchId} } 0, 2 ], 'of what is left';
is $pg->sql("select num_nulls(workspace_id, member_id, active_branch_id)
    from auth_sessions where session_id = '"
    . payload($res->json->{refreshToken})->{session_id} . "'"), 3,
    'and the session has no scope';

# Origin.

$one = login('one');
$token = $one->{refreshToken};
my @refused = (
    [ Origin => 'https://evil.test' ], [ Origin => 'null' ],
    [ Origin => 'http://app.test' ], [ 'Sec-Fetch-Site' => 'cross-site' ],
);
for my $headers (@refused) {
    $res = with_cookie($token, headers => $headers);
    is_problem($res, 403, 'AUTH_ORIGIN_NOT_ALLOWED', "@$headers");
    is cookies($res), 0, "@$headers: no cookie is touched";
}
is_problem(refresh('a', cookie => "$COOKIE=b",
    headers => [ Origin => 'https://evil.test' ]), 403,
    'AUTH_ORIGIN_NOT_ALLOWED', 'origin comes before conflict');
for my $headers ([ Origin => 'https://app.test' ],
    [ Origin => 'http://localhost' ], [ 'Sec-Fetch-Site' => 'same-site' ], [])
{
    $res = with_cookie($token, headers => $headers);
    is $res->status, 200, "allowed: @$headers";
    $token = $res->json->{refreshToken} // $token;
}
is refresh($token, headers => [ Origin => 'https://evil.test' ])->status, 200,
    'without the cookie any origin may';

unlike $identity->log_text, qr/eyJ/, 'no token in the log';

$t->done;
