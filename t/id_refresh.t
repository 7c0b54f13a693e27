# Refresh: what makes a token no good and what becomes of the cookie then; the policy
# `revoke`.  How the parts of a request are judged, and clocks: check_refresh; what it
# answers: http_api.t; the longest life of a session: id_refresh_statement.t.
#
# PLATFORM_AUTH_REFRESH_RETRY_WINDOW: a refresh that is sent again, since its answer
# was lost, gets the very same refresh token again, until that is used or the time is
# over; and it brings nothing back to life.  Whoever sends it from elsewhere is found
# out.  (Retries that wait for each other: id_refresh_statement.t.)

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Metrics;

my $t = Platform::Test->new;
my $pg = $t->postgres(settings => {
    log_statement            => 'all',
    log_parameter_max_length => 0,
});
my $identity = $t->identity_face(
    PLATFORM_AUTH_MAX_FAILURES         => 0,
    PLATFORM_AUTH_REFRESH_RETRY_WINDOW => '60s',
);
my $port = client_of($t);
my $COOKIE = $Platform::Test::Client::COOKIE;
my $key = jwt_key('identity');
my $of_one = "where account_name = 'one\@demo.test'";

# The service's statements about sessions since the last call.
sub statements {
    return join ' ', map {s/_remember\z//r} $pg->logged =~ /execute session_(\w+):/g;
}

sub audited ($token) {
    return join ' ', map { $_->{event} =~ s/.*\.//r }
        grep { $_->{event} =~ /^auth\.refresh\./
            && $_->{sessionId} eq session_of($token) } $identity->log_lines;
}

# A session whose first token was replaced: both.
sub lost ($account = undef) {
    my $first = logged_in($account // 'one')->{refreshToken};
    return ($first, next_of(refresh($first)));
}

sub is_retry ($token, $next, $what) {
    my $res = refresh($token);
    is $res->status, 200, "$what: answered" or diag $res->body;
    is $res->json->{refreshToken}, $next, "$what: with the very same token";
    return $res;
}

sub is_stale ($token, $what) {
    return is_problem(refresh($token), 401, 'AUTH_REFRESH_TOKEN_STALE', $what);
}

# The claims of a token with some changed.
sub forged ($token, %claims) { return jwt_token('refresh', $key, %{ claims($token) }, %claims) }

sub by_cookie ($token, @o) {
    return call(refresh => undef, body => '', cookie => "$COOKIE=$token", @o);
}

# What becomes of the cookie.
sub cookie_of ($res) {
    return 'left' if !cookies($res);
    return $res->cookie_line($COOKIE) eq "$COOKIE=; Path=/api/auth; Max-Age=0; HttpOnly; "
        . 'SameSite=Lax' ? 'cleared' : 'set';
}

# -- on: the same token as often as one likes, new access tokens, no rotation

my ($first, $second);
my $before = logged_in('one')->{refreshToken};
statements();
my $counts = sub { my $s = metrics_scrape($port, '/actuator/prometheus');
    [ map { $s->{"identity_refresh_${_}_total"} } qw(rotations retries stale) ] };
my $then = $counts->();
my $res = refresh($before);
is statements(), 'refresh', 'a refresh is one statement';
my $answer = next_of($res);
my %access = (claims($res->json->{accessToken})->{jti} => 1);
is row($before, 'retry_jti', 'retry_next', 'jti', map {
    "extract(epoch from $_)::bigint" } qw(retry_iat expires_at)),
    join('|', claims($before)->{jti}, (claims($answer)->{jti}) x 2,
        @{ claims($answer) }{qw(iat exp)}),
    'the row has all that is in the token, and whose place it took';
# As if both had happened two seconds earlier.
alter($before, "used_at = used_at - interval '2 s', retry_iat = retry_iat - interval '2 s',
    access_until = access_until - interval '2 s'");
my @all = qw(jti status expires_at used_at active_branch_id retry_jti retry_next retry_iat);
my $row = row($before, @all);
my $retried = refresh($before)->json;
is statements(), 'refresh retry repeat', 'a retry is three';
is_deeply claims($retried), { %{ claims($answer) }, iat => claims($answer)->{iat} - 2 },
    'two seconds later: the same';
my ($used, $until) = split /\|/, row($before,
    map {"floor(extract(epoch from $_))"} qw(used_at access_until));
cmp_ok claims($retried->{accessToken})->{iat}, '<=', $used,
    'its access token is of then: a lockout finds it';
cmp_ok $until, '>=', claims($retried->{accessToken})->{exp},
    'and the row says how long it lives: so does what revokes it';
for my $n (1 .. 3) {
    my $again = is_retry($before, $retried->{refreshToken}, "retry $n");
    $access{ claims($again->json->{accessToken})->{jti} } = 1;
}
is_deeply [ scalar keys %access, row($before, @all), audited($before), $counts->() ],
    [ 4, $row, join(' ', 'succeeded', ('retried') x 4),
        [ $then->[0] + 1, $then->[1] + 4, $then->[2] ] ],
    'new access tokens, the row as it was, audited, and counted as one rotation, four retries';
($first, $second) = lost('several');
is_retry($first, $second, 'without a branch');

# -- what makes it a stale one, and what does not: what happens to the row, and what
#    is sent then

($first) = lost('several');
my $other = claims($first);
my @rules = (
    [ 'a token made here', '', 1, \&forged ],
    [ 'with a jti in capitals', '', 0, sub { forged($_[0], jti => uc claims($_[0])->{jti}) } ],
    [ "with another session's id", '', 0, sub { forged($_[0],
        map { $_ => $other->{$_} } qw(session_id account_id sub)) } ],
    [ 'after half of the time', "used_at = used_at - interval '30 s'", 1 ],
    [ 'after 60 s', "used_at = used_at - interval '60 s'", 0 ],
    [ 'by a clock that was set back', "used_at = used_at + interval '1 hour'", 0 ],
    # It knows nothing of retries, and leaves their columns as they are.
    [ 'replaced by an older version', 'jti = gen_random_uuid()', 0 ],
);
for my $case (@rules) {
    my ($name, $set, $good, $make) = @$case;
    my ($first, $second) = lost();
    alter($first, $set) if $set;
    my $sent = $make ? $make->($first) : $first;
    $good ? is_retry($sent, $second, $name) : is_stale($sent, $name);
    is refresh($second)->status, $name =~ /older/ ? 401 : 200, "$name: the successor is good";
    is_stale($sent, "$name: once it is used") if $good;
}
($first, $second) = lost();
my $third = next_of(refresh($second));
is_retry($second, $third, 'the one that was replaced last');
is_stale($first, 'and not the one before');

# -- what happens in between counts: nothing comes back

my %ends = (
    'of another account' => sub { $_[0] = forged($_[0],
        map { $_ => uuid(5) } qw(account_id sub)); $_[2] = 1 },
    'logged out by the old one' => sub { logout($_[0])->status == 200 or die },
    'disabled' => sub { $pg->sql("update accounts set status = 'DISABLED' $of_one") },
    'locked out' => sub { $pg->sql("update accounts set sessions_valid_after = now() $of_one") },
);
for my $how (sort keys %ends) {
    my ($first, $second, $lives) = lost();
    is_retry($first, $second, "control: not $how");
    $ends{$how}->($first, $second, $lives);
    my $jti = row($first, 'jti');
    is_problem(refresh($first), 401, 'AUTH_SESSION_NOT_ACTIVE', $how);
    is_deeply [ row($first, 'jti'), refresh($second)->status ], [ $jti, $lives ? 200 : 401 ],
        "$how: no other token; its successor";
    $pg->sql("update accounts set status = 'ACTIVE', sessions_valid_after = '-infinity'");
}
($first, $second) = lost();
is_problem(refresh(forged($first, exp => time)), 401,
    'AUTH_REFRESH_TOKEN_INVALID', 'the old token expired');

# -- a selection in between: the same token, the branch that is selected now; then it
#    is withdrawn: the same token, and the list to choose from

my $several = logged_in('several');
$first = $several->{refreshToken};
$second = next_of(refresh($first));
my $branch = branch(32);
is select_branch($several, $branch)->status, 200, 'a selection';
recent($second);
$res = is_retry($first, $second, 'selected');
is_deeply [ claims($res->json->{accessToken})->{active_branch_id},
    row($first, 'active_branch_id') ], [ ($branch) x 2 ], 'selected: the branch, and it stays';
recent($second);
my @kept = grep { $_ ne 'active_branch_id' } @all;
$row = row($second, @kept);
$pg->sql("update branches set status = 'INACTIVE' where branch_id = '$branch'");
statements();
$res = is_retry($first, $second, 'withdrawn');
is_deeply [ statements(), $res->json->{nextAction}{type}, scalar @{ $res->json->{branches} },
    row($second, 'num_nulls(workspace_id, member_id, active_branch_id)'), row($second, @kept) ],
    [ 'refresh read read retry repeat', 'select_branch', 2, 3, $row ],
    'withdrawn: choose anew, from what is left; the row has none, and is as it was otherwise';
is_retry($first, $second, 'withdrawn, once more');
$pg->sql("update branches set status = 'ACTIVE' where branch_id = '$branch'");
is refresh($second)->status, 200, 'withdrawn: the successor is good';

# -- a thief who sends from elsewhere what the owner has replaced (as whom in all:
#    check_refresh_retry): twice in eight rotations, and with another agent not at all

my %owner = (headers => [ 'User-Agent' => 'app/1' ]);
my %moved = (%owner, from => '127.0.1.1');

# At these rotations: the answers, what is audited of them, and the row.
sub stolen ($thief, @at) {
    my %at = map { $_ => 1 } @at;
    my $token = logged_in('one')->{refreshToken};
    my @status;
    for my $n (1 .. $at[-1]) {
        my $next = next_of(refresh($token, %owner));
        push @status, refresh($token, %$thief)->status if $at{$n};
        $token = $next;
    }
    return [ @status, grep({ !/succeeded/ } split / /, audited($token)),
        split /\|/, row($token, qw(status retry_elsewhere used_address)) ];
}
my @ELSEWHERE = ('retried_elsewhere') x 2;
is_deeply stolen(\%moved, 1, 2, 8), [ 200, 200, 401, @ELSEWHERE, qw(reuse ACTIVE 192 127.0.0.1) ],
    'three of eight';
restart($identity, AUTH_REFRESH_REUSE => 'revoke');
is_deeply stolen(\%owner, 1 .. 9), [ (200) x 9, ('retried') x 9, qw(ACTIVE 0 127.0.0.1) ],
    'revoke: like the owner';
is_deeply stolen(\%moved, 1 .. 3), [ 200, 200, 401, @ELSEWHERE,
    qw(reuse_revoked REVOKED 6 127.0.0.1) ], 'revoke: the third time ends it';
is_deeply stolen({ from => '127.0.1.1' }, 1), [ qw(401 reuse_revoked REVOKED 0 127.0.0.1) ],
    'revoke: with another agent the first one does';

# -- off: none, and nothing is written

restart($identity, AUTH_REFRESH_REUSE => undef, AUTH_REFRESH_RETRY_WINDOW => undef);
($first, $second) = lost();
is row($first, qw(retry_jti retry_next retry_iat)), '||', 'off: nothing kept';
alter($first, "retry_jti = '" . claims($first)->{jti} . "', retry_next = jti, retry_iat = now()");
is_stale($first, 'off: even if it was kept');

# -- once rotated it is good nowhere: not in the same second, and not after a crash

for my $when ('in the same second', 'after a crash') {
    my @old = map { my ($first, $second) = lost('several'); $first } 1 .. 2;
    my $same = logged_in('one');
    if ($when =~ /same/) {
        my @chain = ($same->{refreshToken});
        eventually(sub {
            push @chain, next_of(refresh($chain[-1])) for 1 .. 2;
            return claims($chain[-1])->{iat} == claims($chain[-3])->{iat};
        });
        push @old, @chain[ -3, -2 ];
    }
    $identity->stop('KILL'), $identity->start if $when =~ /crash/;
    is_stale($_, $when) for @old;
}

my $one = logged_in('one');
my $token = next_of(refresh($one));

# -- tokens that are no good: in a body, and in a cookie, which is cleared where it
#    never can be

my $over = logged_in('one');
my $next = next_of(refresh($over));
alter($next, "status = 'REVOKED', revoked_at = now()");
for my $case (
    [ REFRESH_TOKEN_INVALID => expired => forged($token, exp => time) ],
    [ SESSION_NOT_ACTIVE => 'of no session' => forged($token, session_id => uuid()) ],
    [ SESSION_NOT_ACTIVE => 'whose id is none' => forged($token, session_id => 'x' x 99) ],
    [ SESSION_NOT_ACTIVE => 'a stale token of a revoked session' => $over ],
    [ SESSION_NOT_ACTIVE => 'the token of one' => $next ],
    [ REFRESH_TOKEN_STALE => 'rotated out' => $one->{refreshToken} ],
    )
{
    my ($code, $name, $bad) = @$case;
    my @res = (refresh($bad), by_cookie(ref $bad ? $bad->{refreshToken} : $bad));
    is_problem($_, 401, "AUTH_$code", $name) for @res;
    is_deeply [ map { cookie_of($_) } @res ], [ 'left', $code =~ /STALE/ ? 'left' : 'cleared' ],
        "$name: what becomes of the cookie";
}
$token = next_of(by_cookie($token));    # control: the token itself

# Without the trigger that locks it out.
my $disabled = logged_in('two-workspaces');
$pg->sql("set session_replication_role = replica; update accounts set status = 'DISABLED'
    where account_name = 'two-workspaces\@demo.test'", user => 'postgres');
is_problem(refresh($disabled), 401, 'AUTH_SESSION_NOT_ACTIVE', 'a disabled account');
is row($disabled, 'status, revoked_at is not null, jti'),
    'REVOKED|t|' . claims($disabled)->{jti}, 'ends its session, and rotates nothing';

# -- the policy `revoke`: over a minute after it was rotated out, a token ends its
#    session.  Each as if it had been issued and rotated out so many seconds ago.

sub sent_late ($issued, $rotated) {
    my ($first, $second) = lost();
    $pg->sql("update rotated_tokens set rotated_at = rotated_at - interval '$rotated s'
        where session_id = '" . session_of($first) . "'");
    my $res = by_cookie(forged($first, iat => time - $issued));
    return [ $res->code =~ s/.*_//r, cookies($res), (split / /, audited($first))[-1],
        row($first, 'status'), refresh($second)->status ];
}
is_deeply sent_late(5000, 5000), [qw(STALE 0 reuse ACTIVE 200)], 'reject, after very long';
my $remembered = sub { $pg->sql("select count(*) from rotated_tokens
    where session_id = '" . session_of($token) . "'") };
@kept = $remembered->();
restart($identity, AUTH_REFRESH_REUSE => 'revoke');
is_deeply sent_late(@$_), [qw(STALE 0 reuse ACTIVE 200)], "revoke, after @$_ s"
    for [ 50, 50 ], [ 5000, 0 ];
is_deeply sent_late(71, 71), [qw(STALE 0 reuse_revoked REVOKED 401)], 'revoke, after 71 s';
$token = next_of(refresh($token)) for 1 .. 3;
push @kept, $remembered->();
for my $age (110, 180) {
    $pg->sql("update rotated_tokens set rotated_at = rotated_at - interval '$age s'");
    $token = next_of(refresh($token));
    push @kept, $remembered->();
}
is_deeply \@kept, [ 0, 3, 4, 1 ],
    'what is rotated out: none is kept by reject, all by revoke, until they are old';

# A session made in the future is ended no earlier.
$one = logged_in('one');
alter($one, "created_at = now() + interval '20 s'");
is logout(next_of(refresh($one)))->status, 200, 'a session from ahead';
is row($one, 'status', 'revoked_at = created_at'), 'REVOKED|t', 'ended, and no earlier than made';

unlike $identity->log_text, qr/eyJ/, 'no token in the log';

$t->done;
