# Refresh: what it answers, where the token comes from, what makes one no good and what
# becomes of the cookie then; the policy `revoke`.  How the parts of a request are judged,
# and clocks: check_refresh; the longest life of a session: id_refresh_statement.t.

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

# -- where the token comes from (what more there is to it: check_refresh, check_http)

my $token = next_of(refresh($one = logged_in('one')));
for my $case (
    [ undef, 'the body, any origin' => sub {
        refresh($_[0], headers => [ Origin => 'https://evil.test' ]) } ],
    [ undef, 'the cookie, of an allowed one' => sub {
        by_cookie($_[0], headers => [ Origin => 'https://app.test' ]) } ],
    [ undef, 'an empty member' => sub {
        call(refresh => { refreshToken => '' }, cookie => "$COOKIE=$_[0]") } ],
    [ [ 400, 'AUTH_REFRESH_TOKEN_CONFLICT' ], 'two headers of cookies' => sub {
        call(refresh => undef, body => '', headers => [ map { (Cookie => "$COOKIE=$_") }
            $_[0], 'b' ]) } ],
    [ [ 401, 'AUTH_REFRESH_TOKEN_MISSING' ], none => sub { by_cookie('') } ],
    map({ my $headers = $_; [ [ 403, 'AUTH_ORIGIN_NOT_ALLOWED' ], "by cookie, @$_" => sub {
        by_cookie($_[0], headers => $headers) } ] } [ Origin => 'https://evil.test' ],
        [ 'Sec-Fetch-Site' => 'cross-site' ]),
    )
{
    my ($refusal, $name, $ask) = @$case;
    my $res = $ask->($token);
    if ($refusal) {
        is_problem($res, @$refusal, $name);
        is cookies($res), 0, "$name: no cookie is touched";
    }
    else {
        $token = next_of($res);
    }
}

# -- tokens that are no good: in a body, and in a cookie, which is cleared where it
#    never can be

my $claims = claims($token);
my $signed = sub { jwt_token('refresh', $key, %$claims, @_) };
my $over = logged_in('one');
my $next = next_of(refresh($over));
alter($next, "status = 'REVOKED', revoked_at = now()");
for my $case (
    [ REFRESH_TOKEN_INVALID => expired => $signed->(exp => time) ],
    [ REFRESH_TOKEN_INVALID => 'of another key' =>
        jwt_token('refresh', jwt_key('other'), %$claims) ],
    [ SESSION_NOT_ACTIVE => 'of no session' => $signed->(session_id => uuid()) ],
    [ SESSION_NOT_ACTIVE => 'whose id is none' => $signed->(session_id => 'x' x 99) ],
    [ SESSION_NOT_ACTIVE => 'of another account' =>
        $signed->(account_id => uuid(9), sub => uuid(9)) ],
    [ SESSION_NOT_ACTIVE => 'a stale token of a revoked session' => $over ],
    [ SESSION_NOT_ACTIVE => 'the token of one' => $next ],
    [ REFRESH_TOKEN_STALE => 'rotated out' => $one->{refreshToken} ],
    [ REFRESH_TOKEN_STALE => 'in capitals' => $signed->(jti => uc $claims->{jti}) ],
    )
{
    my ($code, $name, $bad) = @$case;
    my @res = (refresh($bad), by_cookie(ref $bad ? $bad->{refreshToken} : $bad));
    is_problem($_, 401, "AUTH_$code", $name) for @res;
    is_deeply [ map { cookies($_) && (cleared($_) ? 'cleared' : 'set') } @res ],
        [ 0, $code =~ /STALE/ ? 0 : 'cleared' ], "$name: what becomes of the cookie";
}
$token = next_of(by_cookie($token));    # control: the token itself

my $disabled = logged_in('two-workspaces');
$pg->sql("update accounts set status = 'DISABLED'
    where account_name = 'two-workspaces\@demo.test'");
is_problem(refresh($disabled), 401, 'AUTH_SESSION_NOT_ACTIVE', 'a disabled account');
is row($disabled, 'status, revoked_at is not null, jti'),
    'REVOKED|t|' . claims($disabled)->{jti}, 'ends its session, and rotates nothing';

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

# A session made in the future is ended no earlier.
$one = logged_in('one');
alter($one, "created_at = now() + interval '20 s'");
is logout(next_of(refresh($one)))->status, 200, 'a session from ahead';
is row($one, 'status', 'revoked_at = created_at'), 'REVOKED|t', 'ended, and no earlier than made';

unlike $identity->log_text, qr/eyJ/, 'no token in the log';

$t->done;
