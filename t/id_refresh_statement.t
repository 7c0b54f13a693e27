# The statement that reads a session and replaces its token at once.  Where it has
# to wait while somebody else changes the row, what was decided upon is looked at
# again; and it decides as the service does, to the second.  (At random, from many
# clients: id_database_use.t, e2e_revocations.t and soak/.)

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Metrics;

my $t = Platform::Test->new;
my $pg = $t->postgres(settings => {
    log_statement            => 'all',
    log_parameter_max_length => 0,
});
my $identity = $t->identity_face(PLATFORM_AUTH_MAX_FAILURES => 0);
my $port = client_of($t);
my $several = "(select account_id from accounts where account_name = 'several\@demo.test')";
my @branches = map { branch($_) } 31, 32, 33;
my ($workspace, $member) = split /\|/, $pg->sql("select workspace_id, member_id
    from selectable_branches where branch_id = '$branches[0]' and account_id = $several");

# The service's statements about sessions since the last call.
sub statements {
    return join ' ', map {s/_remember\z//r} $pg->logged =~ /execute (session_\w+):/g;
}

# The answers to so many refreshes (default: one) that began before a transaction,
# whose row they wait for, has ended as told (default: commit).
sub during ($token, $change, %o) {
    my $row = "session_id = '" . session_of($token) . "'";
    my $transaction = $pg->begin("select 1 from auth_sessions where $row for update");
    statements();
    my $count = $o{count} // 1;
    my @clients = map { sent(refresh => { refreshToken => $token, includeAccountToken => \1 })
        } 1 .. $count;
    $pg->waiting($count) or die "nobody waits\n";
    $pg->more($transaction, $change =~ s/SESSION/$row/gr) if $change;
    $pg->end($transaction, $o{end} // 'commit') or die "no end\n";
    my @answers = map { $_->read_response } @clients;
    return wantarray ? @answers : $answers[0];
}

# The token of a new session, in a branch if one is named.
sub session_in ($branch) {
    my $s = logged_in('several');
    select_branch($s, $branch)->status == 200 or die 'no selection' if $branch;
    return $s->{refreshToken};
}

sub selects ($branch) {
    return "update auth_sessions set workspace_id = '$workspace',
        member_id = '$member', active_branch_id = '$branch' where SESSION";
}

sub is_rotated ($token, $res, $branch, $what) {
    is $res->status, 200, "$what: succeeds" or return diag $res->body;
    my $access = $res->json->{accessToken};
    is_deeply [ row($token, qw(jti status active_branch_id)),
        defined $access ? claims($access)->{active_branch_id} : '',
        scalar @{ $res->json->{branches} } ],
        [ claims($res->json)->{jti} . "|ACTIVE|$branch", $branch, 3 ],
        "$what: the row, and the scope that it answers with";
    is_problem(refresh($token), 401, 'AUTH_REFRESH_TOKEN_STALE', "$what: the old token");
    is refresh($res->json)->status, 200, "$what: the new token";
}

my $revoke = "update auth_sessions set status = 'REVOKED', revoked_at = now() where SESSION";
my $once = qr/\Asession_refresh\z/;
my $twice = qr/\Asession_refresh session_rotate session_read session_rotate\z/;
my $again = qr/\Asession_refresh session_rotate(?: session_read)+\z/;
my $OVER = 'AUTH_SESSION_NOT_ACTIVE';
# What happens meanwhile, in which branch, statements; then the branch that the session
# is rotated in, or the code of a refusal and the row.
my @changes = (
    (map { my $in = $_; my $now = $in // '';
        [ 'locked', $in, '', $once, $now ],
        [ 'rolled back', $in, "update auth_sessions set jti = gen_random_uuid(),
            status = 'REVOKED', revoked_at = now() where SESSION", $once, $now ],
        [ 'selected', $in, selects($branches[1]), $twice, $branches[1] ]
        } undef, $branches[0]),
    [ 'selected again', $branches[0], selects($branches[0]), $once, $branches[0] ],
    [ 'logged out', $branches[0], $revoke, $again, $OVER, qr/REVOKED/ ],
    [ 'logged out and disabled', $branches[0], "$revoke; update accounts
        set status = 'DISABLED' where account_id = $several", $again, $OVER, qr/REVOKED/ ],
    [ 'swept', $branches[0], 'delete from auth_sessions where SESSION', $again, $OVER, qr/\A\z/ ],
    [ 'rotated', $branches[0], "update auth_sessions set jti =
        'eeeeeeee-0000-4000-8000-000000000000' where SESSION", $again,
        'AUTH_REFRESH_TOKEN_STALE', qr/\Aeeee.*ACTIVE/ ],
);

sub remembered ($token) {
    return $pg->sql("select coalesce(string_agg(jti::text, ' '), '') from rotated_tokens
        where session_id = '" . session_of($token) . "'");
}

for my $policy (qw(reject revoke)) {
    restart($identity, AUTH_REFRESH_REUSE => $policy);
    for my $case (@changes) {
        my ($how, $in, $change, $statements, $then, $row) = @$case;
        my $name = "$policy, $how" . ($in ? ' in a branch' : '');
        my $token = session_in($in);
        my $res = during($token, $change, end => $how =~ /rolled/ ? 'rollback' : 'commit');
        like statements(), $statements, "$name: statements";
        if (!$row) {
            is_rotated($token, $res, $then, $name);
            next;
        }
        is_problem($res, 401, $then, $name);
        like row($token, qw(jti status)), $row, "$name: the row";
        is remembered($token), '', "$name: nothing is remembered";
        $pg->sql("update accounts set status = 'ACTIVE' where account_id = $several");
    }
    for my $in (undef, $branches[0]) {
        my $name = "$policy, three at once" . ($in ? ' in a branch' : '');
        my $token = session_in($in);
        my @answers = sort { $a->status <=> $b->status } during($token, '', count => 3);
        is_deeply [ (map { $_->code } @answers), refresh($answers[0]->json)->status ],
            [ 'AUTH_REFRESH_SUCCESS', ('AUTH_REFRESH_TOKEN_STALE') x 2, 200 ],
            "$name: one succeeds, and its token is good";
        my ($old, $next) = map { claims($_)->{jti} } $token, $answers[0]->json;
        is_deeply [ sort split / /, remembered($token) ],
            $policy eq 'revoke' ? [ sort $old, $next ] : [], "$name: what is remembered";
    }
}

# -- where a retry is answered: one rotation, and the same for all

sub counts {
    my $scrape = metrics_scrape($port, '/actuator/prometheus');
    return map { $scrape->{"identity_refresh_${_}_total"} } qw(rotations retries stale);
}

my $next = 'eeeeeeee-0000-4000-8000-000000000001';
for my $policy (qw(reject revoke)) {
    restart($identity, AUTH_REFRESH_REUSE => $policy, AUTH_REFRESH_RETRY_WINDOW => '60s');
    my $name = "$policy, a retry";
    my $token = session_in(undef);
    alter($token, "expires_at = expires_at - interval '1 hour'");
    my @then = counts();
    my %tokens = map { $_->json->{refreshToken} // $_->body => 1 } during($token, '', count => 5);
    is scalar keys %tokens, 1, "$name, five at once: the same bytes" or diag explain \%tokens;
    is_deeply [ claims((keys %tokens)[0])->{jti}, counts() ],
        [ row($token, 'jti'), $then[0] + 1, $then[1] + 4, $then[2] ],
        "$name, five at once: one rotation, to that";
    refresh(my $first = session_in(undef));
    is_problem(during($first, "update auth_sessions set retry_jti = jti,
        retry_next = '$next', jti = '$next' where SESSION"), 401,
        'AUTH_REFRESH_TOKEN_STALE', "$name, used meanwhile");
    my $second = next_of(refresh($first = session_in(undef)));
    is_problem(during($first, $revoke), 401, $OVER, "$name, logged out meanwhile");
    my $events = join ' ', map { $_->{event} } grep {
        ($_->{sessionId} // '') eq session_of($first) } $identity->log_lines;
    is_deeply [ row($first, qw(jti status)), $events =~ /reuse/ ],
        [ claims($second)->{jti} . '|REVOKED' ], "$name, logged out meanwhile: no reuse";
    my $late = during($first = session_in(undef), selects($branches[0])
        =~ s/ where/, retry_jti = jti, retry_iat = '2026-01-01', retry_next = '$next',
            used_at = clock_timestamp(), jti = '$next' where/r);
    is_deeply [ $late->status, @{ claims($late->json) }{qw(jti iat)},
        row($first, 'active_branch_id') ], [ 200, $next, 1767225600, $branches[0] ],
        "$name, rotated and selected meanwhile: that one's";
}

restart($identity, AUTH_REFRESH_RETRY_WINDOW => undef);

# -- the end of a session, to the second: a part of one does not count

$pg->sql("update accounts set sessions_valid_after = '-infinity' where account_id = $several");
my $token = session_in(undef);
my $jti = claims($token)->{jti};
alter($token, "created_at = created_at - interval '1 minute', expires_at =
    date_trunc('second', clock_timestamp()) + interval '0.9 s'");
is_problem(refresh($token), 401, $OVER, 'in the second in which the session ends');
is row($token, qw(jti status)), "$jti|ACTIVE", 'which replaces nothing';
alter($token, "expires_at = expires_at + interval '1 hour'");
is refresh($token)->status, 200, 'before that second';

restart($identity, JWT_REFRESH_TOKEN_TTL => '1h', AUTH_SESSION_MAX_LIFETIME => '2h');
my $capped = 0;
for my $at (-3, -1.5, -0.5, 0, 0.5, 1.5, 3) {
    my $token = session_in(undef);
    alter($token, "created_at = date_trunc('second', clock_timestamp())
        + interval '$at s' - interval '1 hour'");
    statements();
    my $claims = claims(next_of(refresh($token)));
    my ($created, $expires) = split /\|/, row($token,
        map {"floor(extract(epoch from $_))::bigint"} qw(created_at expires_at));
    my $cap = $created + 7200;
    my $is_capped = $claims->{iat} + 3600 > $cap;
    my $end = $is_capped ? $cap : $claims->{iat} + 3600;
    is_deeply [ $claims->{exp}, $expires, statements() ], [ $end, $end,
        'session_refresh' . ($is_capped ? ' session_rotate' : '') ],
        "created at $at: when token and session end, and statements";
    $capped += $is_capped;
}
cmp_ok $capped, '>', 0, 'some were capped';

# -- the server's clock is set: the fence does not shut everybody out, and the program
#    sets the end

$identity->stop;
$pg->sql('create schema shifted; create table shifted.shift (by interval);
    insert into shifted.shift values (interval \'0\');
    grant usage on schema shifted to platform;
    grant select on shifted.shift to platform;
    create function shifted.clock_timestamp() returns timestamptz language sql volatile
        as $$select pg_catalog.clock_timestamp() + by from shifted.shift$$;
    alter role platform set search_path = shifted, pg_catalog, public',
    user => 'postgres');
$identity->start;
my $s = logged_in('several');
for my $by ('1 minute', '3 hours') {
    $s->{refreshToken} = next_of(refresh($s));    # before it is set
    for my $what (qw(refresh selection)) {
        $pg->sql("update shifted.shift set by = by + interval '$by'", user => 'postgres');
        my $res = $what eq 'refresh' ? refresh($s) : select_branch($s, $branches[0]);
        is $res->status, 200, "$by ahead: a $what";
        $s->{refreshToken} = $res->json->{refreshToken} // $s->{refreshToken};
    }
}
is claims($s)->{exp}, row($s, 'extract(epoch from expires_at)::bigint'), 'ahead: the end';
is logout($s)->status, 200, 'ahead: a logout';
is_problem(refresh($s), 401, $OVER, 'ahead: it is over');
$pg->sql('alter role platform reset search_path', user => 'postgres');

# -- one that nobody waits for any more does nothing when its turn comes; the
#    statement_timeout, which is longer than a request lasts, does not end it

$token = session_in(undef);
my $before = row($token, my @row = qw(jti status));
my $unit = $t->scale;    # seconds
restart($identity, DB_PREPARED => 'false', DB_STATEMENT_TIMEOUT => 20 * $unit . 's',
    REQUEST_TIMEOUT => 2 * $unit . 's');
# Its time is for the wait, not for a first connection to the database.
ok eventually(sub { http_get($port, '/readyz')->status == 200 }), 'it is connected';
$t->allow(qr/db\.error/);
my $transaction = $pg->begin("update auth_sessions set expires_at = expires_at
    where session_id = '" . session_of($token) . "'");
my $res = refresh($token);
is_problem($res, 503, 'DATABASE_UNAVAILABLE', 'locked for too long');
like $res->json->{detail}, qr/may or may not/, 'which says so';
my $waiting = "select count(*) from pg_stat_activity
    where usename = 'platform' and state = 'active'";
cmp_ok $pg->sql($waiting, user => 'postgres'), '>=', 1, 'its write waits';
ok $pg->end($transaction, 'commit'), 'the transaction ends';
ok eventually(sub { !$pg->sql($waiting, user => 'postgres') }), 'its write comes through';
is_deeply [ row($token, @row), remembered($token) ], [ $before, '' ], 'and does nothing';
ok eventually(sub { refresh($token)->status == 200 }), 'the token is still good';

$t->done;
