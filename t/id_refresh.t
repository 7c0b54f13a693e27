# Refresh: what it answers, where the token comes from, what makes one no good and what
# becomes of the cookie then; the policy `revoke`, the longest life of a session, and
# clocks.  How the parts of a request are judged: check_refresh.

use Platform::Test;
use Platform::Test::Client;

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

# -- what it answers, with these members beside those that all have

my ($one, $several) = map { logged_in($_) } qw(one several);
my $chosen = $several->{branches}[1]{branchId};

sub answers ($name, $session, $members, %o) {
    my $res = refresh($session, %o);
    my $json = $res->json;
    is_deeply [ $res->status, $res->header('Cache-Control'), $json->{code}, sort keys %$json ],
        [ 200, 'no-store', 'AUTH_REFRESH_SUCCESS', sort @$members,
            qw(code message refreshToken tokenType expiresIn nextAction) ], "$name: its members";
    is_deeply [ $json->{nextAction}{type}, $json->{branches}, $res->cookie($COOKIE) ],
        [ (grep { $_ eq 'accessToken' } @$members) ? 'load_current_context' : 'select_branch',
            (grep { $_ eq 'branches' } @$members) ? $several->{branches} : undef,
            $json->{refreshToken} ], "$name: what they say; the cookie is set again";
    return $json;
}

my $answer = answers('in a branch', $one, ['accessToken']);
my ($old, $new) = map { claims($_) } $one, $answer;
is_deeply [ $new->{session_id}, claims($answer->{accessToken})->{session_id} ],
    [ ($old->{session_id}) x 2 ], 'the same session';
isnt $new->{jti}, $old->{jti}, 'another jti';
is row($one, 'jti, extract(epoch from expires_at)::bigint'),
    "$new->{jti}|$new->{exp}", 'the row has jti and expiry of the new token';
$answer = answers('without one', $several, [qw(accountAccessToken branches)]);
is select_branch($answer, $chosen)->status, 200, 'selected';
$answer = answers('selected', $answer, ['accessToken']);
is claims($answer->{accessToken})->{active_branch_id}, $chosen, 'the selection stays';
$answer = answers('includeAccountToken', $answer,
    [qw(accessToken accountAccessToken branches)], more => { includeAccountToken => \1 });
is_problem(refresh($answer, more => { includeAccountToken => 'yes' }), 400,
    'REQUEST_INVALID', 'includeAccountToken of another type');

# -- where the token comes from

my $token = next_of(refresh($one = logged_in('one')));
for my $case (
    [ 'the body' => 200, sub { refresh($_[0]) } ],
    [ 'the cookie' => 200, sub { by_cookie($_[0]) } ],
    [ 'both and different' => 400, sub { refresh($_[0], cookie => "$COOKIE=x$_[0]") } ],
    [ 'two headers of them' => 400, sub { call(refresh => undef, body => '',
        headers => [ map { (Cookie => "$COOKIE=$_") } $_[0], 'b' ]) } ],
    [ 'an empty cookie' => 200, sub { refresh($_[0], cookie => "$COOKIE=") } ],
    [ 'an empty member' => 200, sub {
        call(refresh => { refreshToken => '' }, cookie => "$COOKIE=$_[0]") } ],
    [ 'none' => 401, sub { call(refresh => undef, body => '') } ],
    (map { my ($status, @h) = @$_; [ "by cookie, @h" => $status, sub {
        by_cookie($_[0], headers => \@h) } ] } [ 200, Origin => 'https://app.test' ],
        [ 200, Origin => 'http://localhost' ], [ 200, 'Sec-Fetch-Site' => 'same-site' ],
        [ 403, Origin => 'https://evil.test' ], [ 403, 'Sec-Fetch-Site' => 'cross-site' ]),
    [ 'in the body, any origin' => 200, sub {
        refresh($_[0], headers => [ Origin => 'https://evil.test' ]) } ],
    )
{
    my ($name, $status, $ask) = @$case;
    my $res = $ask->($token);
    if ($status == 200) {
        $token = next_of($res);
        next;
    }
    is_problem($res, $status, { 400 => 'AUTH_REFRESH_TOKEN_CONFLICT',
        401 => 'AUTH_REFRESH_TOKEN_MISSING', 403 => 'AUTH_ORIGIN_NOT_ALLOWED'
        }->{$status}, $name);
    is cookies($res), 0, "$name: no cookie is touched";
}

# -- tokens that are no good: in a body, and in a cookie, which is cleared where it
#    never can be

# A session of its own, whose row something happens to; its first token, or (1) the
# one that replaced that.
sub ended ($how, $which) {
    my $first = logged_in('one');
    my @tokens = ($first->{refreshToken}, next_of(refresh($first)));
    alter($first, $how);
    return $tokens[$which];
}

my $claims = claims($token);
my $signed = sub { jwt_token('refresh', $key, %$claims, @_) };
my $revoked = "status = 'REVOKED', revoked_at = now()";
for my $case (
    [ 'REFRESH_TOKEN_INVALID', garbage => 'garbage',
        expired => $signed->(exp => time),
        'of another key' => jwt_token('refresh', jwt_key('other'), %$claims),
        'a branch token' => $one->{accessToken} ],
    [ 'SESSION_NOT_ACTIVE', 'of no session' => $signed->(session_id => uuid()),
        'of a long one' => $signed->(session_id => 'x' x 99),
        'of another account' => $signed->(account_id => uuid(9), sub => uuid(9)),
        'a stale token of a revoked session' => ended($revoked, 0),
        'the token of one' => ended($revoked, 1),
        'expired in the database' => ended("expires_at = created_at + interval '1 ms'", 1) ],
    [ 'REFRESH_TOKEN_STALE', 'rotated out' => $one->{refreshToken},
        'in capitals' => $signed->(jti => uc $claims->{jti}) ],
    )
{
    my ($code, %bad) = @$case;
    for my $name (sort keys %bad) {
        my $res = refresh($bad{$name});
        is_problem($res, 401, "AUTH_$code", "$name, in the body");
        is cookies($res), 0, "$name: no cookie is touched";
        $res = by_cookie($bad{$name});
        is_problem($res, 401, "AUTH_$code", "$name, in the cookie");
        ok $code =~ /STALE/ ? !cookies($res) : cleared($res), "$name: what becomes of it";
    }
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
    my $res = by_cookie(jwt_token('refresh', $key, %$own, iat => time - $issued));
    is_problem($res, 401, 'AUTH_REFRESH_TOKEN_STALE', $name);
    my @logged = grep { $_->{event} eq 'auth.refresh.reuse_revoked'
        && $_->{sessionId} eq $own->{session_id} } $identity->log_lines;
    is_deeply [ cookies($res), row($first, 'status'), refresh($second)->status,
        scalar @logged ], $status eq 'ACTIVE' ? [ 0, $status, 200, 0 ] : [ 0, $status, 401, 1 ],
        "$name: the cookie, the session, its current token, the log";
}
my $kept = sub { $pg->sql("select count(*) from rotated_tokens
    where session_id = '" . session_of($token) . "'") };
my @kept = $kept->();
$token = next_of(refresh($token)) for 1 .. 3;
push @kept, $kept->();
$pg->sql("update rotated_tokens set rotated_at = rotated_at - interval '3 min'");
refresh($token);
is_deeply [ @kept, $kept->() ], [ 0, 3, 1 ], 'what is rotated out: none is kept by reject, all '
    . 'by revoke, until they are old';

# -- the longest life: no expiry passes it, and it is counted from the login

my $s = logged_in('one');
my $created = row($s, 'floor(extract(epoch from created_at))');
for my $limit ([ '20m', 1200, 900 ], [ '5m', 300, 300 ]) {
    my ($setting, $life, $access) = @$limit;
    restart($identity, AUTH_SESSION_MAX_LIFETIME => $setting);
    my $res = refresh($s);
    $s = $res->json;
    my ($age) = $res->cookie_line($COOKIE) =~ /Max-Age=(\d+)/;
    is_deeply [ $res->status, claims($s)->{exp}, claims($s->{accessToken})->{exp}
            <= $created + $life, $s->{expiresIn} <= $access, $age <= $life ],
        [ 200, $created + $life, (1) x 3 ], "$setting: where all ends" or diag $res->body;
}
is claims($s->{accessToken})->{exp}, $created + 300, '5m: the access token is cut';

# -- clocks that do not agree (those of the database: id_refresh_statement.t)

restart($identity, AUTH_SESSION_MAX_LIFETIME => undef);

# Another host's clock is ahead: by less than the leeway nothing happens; by more, a
# token may be good elsewhere, and here soon; and whoever wants to be logged out is.
for my $case ([ 20, 200 ], [ 60, 401 ]) {
    my ($by, $status) = @$case;
    my $s = logged_in('one');
    my $own = claims($s);
    my $ahead = jwt_token('refresh', $key, %$own, iat => time + $by,
        exp => $own->{exp} + $by);
    my $res = by_cookie($ahead);
    is_deeply [ $res->status, cookies($res) ], [ $status, $status == 200 ? 1 : 0 ],
        "a token from $by s ahead: the answer, the cookie";
    is_deeply [ logout($ahead)->status, row($s, 'status') ], [ 200, 'REVOKED' ],
        "$by s ahead: a logout ends it";
}

# A session made in the future is ended no earlier.
$one = logged_in('one');
alter($one, "created_at = now() + interval '20 s'");
is logout(next_of(refresh($one)))->status, 200, 'a session from ahead';
is row($one, 'status', 'revoked_at = created_at'), 'REVOKED|t', 'ended, and no earlier than made';

unlike $identity->log_text, qr/eyJ/, 'no token in the log';

$t->done;
