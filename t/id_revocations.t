# The revocation feed: whatever ends a session tells it, nothing is missed that
# becomes visible late, and a database that lost its last transactions says so.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;
use Time::HiRes ();

my $t = Platform::Test->new;
my $pg = $t->postgres(settings => {
    session_preload_libraries => 'auto_explain', 'auto_explain.log_min_duration' => 0,
    'auto_explain.log_analyze' => 'on', 'auto_explain.log_timing' => 'off',
    max_prepared_transactions => 100, autovacuum => 'off',
});
$t->identity_face(PLATFORM_AUTH_MAX_FAILURES => 0);
my $port = client_of($t);
my $c = Platform::Test::Commands->new(test => $t);
my $PATH = '/internal/revocations';

sub account_id ($name) {
    return $pg->sql("select account_id from accounts where account_name = '$name\@demo.test'");
}

# All pages from a cursor on: the entries, and the last cursor.
sub feed ($cursor = undef) {
    my (@all, $more);
    do {
        my $res = http_get($port, $PATH . (defined $cursor ? "?after=$cursor" : ''));
        $res->status == 200 or die 'the feed: ' . $res->body;
        # JSON::PP would take longer for all these entries than all else here.
        my ($list) = $res->body =~ /"revocations":\[(.*?)\]/s or die $res->body;
        my @new = map { +{ /"(\w+)":"?([^",]+)/g } } $list =~ /\{(.*?)\}/gs;
        ($cursor, $more) = map { $res->body =~ $_ } qr/"cursor":"([^"]*)"/, qr/"more":(true)/;
        $cursor =~ /\A[A-Za-z0-9._:,-]{1,512}\z/ && ($more ? @new == 1000 : @new <= 1000)
            or fail 'a page of ' . @new . ", $cursor";
        push @all, @new;
    } while ($more);
    return ($cursor, @all);
}

my $cursor;

# What is new since the last call, by what it is about.
sub news {
    ($cursor, my @all) = feed($cursor);
    return [ sort map { $_->{id} // "subject $_->{subject}" } @all ];
}

# One test: so much is new, and is told once.
sub is_told ($want, $name) {
    return is_deeply [ news(), news() ], [ [ sort @$want ], [] ], $name;
}

# A session, and SQL that ends some.
sub open_session ($account = 'none', $count = 1, $columns = '',
    $values = "now() + interval '1 day', now(), now() + interval '15 min'")
{
    return split /\n/, $pg->sql("insert into auth_sessions (session_id, account_id, jti,
            expires_at, created_at, access_until$columns)
        select gen_random_uuid(), account_id, gen_random_uuid(), $values
        from accounts, generate_series(1, $count) as n
        where account_name = '$account\@demo.test' returning session_id");
}

sub ends (@ids) {
    return "update auth_sessions set status = 'REVOKED', revoked_at = now()
        where session_id in ('" . join("', '", @ids) . "')";
}

# -- what an entry says

($cursor) = feed();
my $one = logged_in('one');
$one = refresh($one)->json;
is_deeply news(), [], 'nothing, when one is opened or refreshed';
my $before = Time::HiRes::time();
logout($one);
my $res = http_get($port, "$PATH?after=$cursor");
my $page = $res->json;
my ($entry) = @{ $page->{revocations} };
my $lenient = $entry->{dies_at} - claims($one->{accessToken})->{exp} - 300;
is_deeply [ (map { $res->header($_) } qw(Content-Type Cache-Control)), $page->{issuer},
    $entry->{id}, sort(keys %$page), sort keys %$entry ], [ qw(application/json no-store),
    claims($one->{accessToken})->{iss}, session_of($one), qw(cursor issuer more now revocations),
    qw(dies_at id revoked_at) ], 'a page, and an entry of a session';
like $res->body, qr/"issuer".*"revocations"/, 'whose it is, said before the list';
ok $entry->{revoked_at} >= $before - 0.001 && $entry->{revoked_at} <= $page->{now}
    && $lenient >= 0 && $lenient <= 2, 'when it ended, by the same clock as now; it outlives the '
    . 'token, at the most lenient of gateways, and not for long' or diag explain $page;
is_told([ session_of($one) ], 'a logout');
is_deeply [ map { $_->{id} } (feed(''))[1] ], [ session_of($one) ], 'from the beginning: all';

# Until when its tokens live is kept at a login, a refresh and a selection.
{
    my $s = logged_in('several');
    my $branch = $s->{branches}[0]{branchId};
    my $set = "update branches set status = '%s' where branch_id = '$branch'";
    for my $step (
        [ 'a login' => sub { $s } ],
        [ 'a refresh' => sub { $s = refresh($s)->json } ],
        [ 'a selection' => sub { select_branch($s, $branch)->json } ],
        [ 'a refresh of two statements' => sub {
            $pg->sql(sprintf $set, 'INACTIVE');
            $s = refresh($s)->json } ],
        )
    {
        my $got = $step->[1]->();
        is row($s, 'extract(epoch from access_until)::bigint'),
            claims($got->{accessToken} // $got->{accountAccessToken})->{exp},
            "$step->[0]: until when its token lives";
        alter($s, "access_until = now() - interval '2 hours'");
    }
    $pg->sql(sprintf $set, 'ACTIVE');
    logout($s);
    is_deeply news(), [], 'no token of it is alive';

    # A version of before 0010 does not say until when: as long as any may live.
    $pg->sql(ends(open_session('none', 1, '', "now() + interval '1 day', now(), null")));
    ($cursor, my @entries) = feed($cursor);
    is_deeply [ map { $_->{dies_at} >= time + 86_400 + 290 } @entries ], [1], 'for a day';

    # By a clock that may be an hour behind the database's.
    for my $case ([ 64, 1 ], [ 66, 0 ]) {
        my ($ago, $told) = @$case;
        my ($id) = open_session('none', 1, '',
            "now() + interval '1 day', now(), now() - interval '$ago min'");
        $pg->sql(ends($id));
        is_told([ ($id) x $told ], "its tokens died $ago min ago");
        $pg->sql("delete from session_revocations where session_id = '$id'");
    }
}

# -- whatever ends it

my $account = account_id('several');
my $of_several = "where account_id = '$account'";
my $gone = uuid();
for my $case (
    [ 'SQL by hand: an update' => sub { $pg->sql(ends(session_of($_[0]))) } ],
    [ 'SQL by hand: a deletion' => sub { $pg->sql("delete from auth_sessions
        where session_id = '" . session_of($_[0]) . "'") } ],
    [ 'one session, by a command' => sub { $c->done(qw(account revoke-sessions
        several@demo.test --session), session_of($_[0])) } ],
    [ 'a refresh in a disabled account' => sub {
        # Without the trigger, as it was before there was one.
        $pg->sql("set session_replication_role = replica;
            update accounts set status = 'DISABLED' $of_several", user => 'postgres');
        news();
        refresh($_[0]);
        $pg->sql("update accounts set status = 'ACTIVE' $of_several") } ],
    )
{
    my ($name, $how) = @$case;
    my $s = logged_in('several');
    $how->($s);
    is_told([ my $id = session_of($s) ], $name);
    $pg->sql("delete from auth_sessions where session_id = '$id'");
    is_deeply news(), [], "$name: what has ended is deleted";
}
for my $case (
    [ 'revoke-sessions' => [qw(account revoke-sessions several@demo.test)] ],
    [ disable => [qw(account disable several@demo.test)], entries => 2 ],
    [ enable => [qw(account enable several@demo.test)], entries => 0 ],
    [ 'SQL: locked out' => "update accounts set sessions_valid_after = now() $of_several" ],
    [ 'SQL: disabled' => "update accounts set status = 'DISABLED' $of_several" ],
    [ 'SQL: enabled, and another hash' => "update accounts set status = 'ACTIVE',
        updated_at = now(), credential_hash = credential_hash $of_several", entries => 0 ],
    [ everybody => [qw(sessions revoke --since 2026-01-01T00:00:00Z)] ],
    [ delete => [qw(account delete two-workspaces@demo.test)],
        account => 'two-workspaces', entries => 2 ],
    [ truncate => 'truncate auth_sessions cascade' ],
    [ 'SQL: an account deleted' => "insert into accounts (account_id, account_name,
        credential_hash) values ('$gone', 'gone', '\$argon2id\$x');
        delete from accounts where account_name = 'gone'", id => $gone ],
    )
{
    my ($name, $how, %o) = @$case;
    # Not in the second of the last lockout: see below.
    $pg->sql("select pg_sleep(extract(epoch from date_trunc('second',
            sessions_valid_after) + interval '1 s' - clock_timestamp()))
        from accounts where sessions_valid_after > '-infinity'");
    my $who = $o{account} // 'several';
    open_session($who, 3);
    my $id = $o{id} // account_id($who);
    ref $how ? $c->done(@$how) : $pg->sql($how);
    # Sessions are named beside it where that took until the next second.
    is_deeply [ map { grep { /^subject/ } @{ news() } } 1, 2 ],
        [ ("subject $id") x ($o{entries} // 1) ], "$name: the account, once";
}

# A role that may do no more than end a session tells it too.
$pg->sql("create role hand login; grant select, update on auth_sessions to hand;
    grant usage on schema public to hand", user => 'postgres');
my ($id) = open_session();
$pg->sql(ends($id), user => 'hand');
is_told([$id], 'whoever does it');
ok !eval { $pg->sql('delete from session_revocations', user => 'hand'); 1 },
    'and may not take it back';

# -- seconds: a token of before is refused, one of after is not

# The last entry about an account.
sub entry_of ($id) {
    ($cursor, my @all) = feed($cursor);
    return (grep { ($_->{subject} // '') eq $id } @all)[-1];
}

# The beginning of one, so that what follows is within it if the machine allows.
sub next_second {
    my $now = int(Time::HiRes::time());
    return eventually(sub { Time::HiRes::time() > $now + 1.02 });
}

$id = account_id('one');
news();
next_second();
my $old = logged_in('one');
$pg->sql("update accounts set sessions_valid_after = clock_timestamp() where account_id = '$id'");
my $new = logged_in('one');
my $locked_out = $pg->sql("select extract(epoch from sessions_valid_after)
    from accounts where account_id = '$id'");
$entry = entry_of($id);
is_deeply [ $entry->{issued_before}, sort keys %$entry ], [ int($locked_out) + 1,
    sort qw(subject issued_before revoked_at dies_at) ], 'the second after the lockout';
cmp_ok claims($old->{accessToken})->{iat}, '<', $entry->{issued_before},
    'a token of before is refused';
cmp_ok claims($_->{accessToken})->{iat}, '>=', $entry->{issued_before},
    'a token of after is not, nor that of a refresh' for $new, refresh($new)->json;
cmp_ok $entry->{dies_at}, '>=', $locked_out + 86400 + 300, 'for as long as any token may live';

# A system token is judged by the same entries: by its subject alone; here while the
# database's clock is behind by an hour.
sub system_token { return claims($c->done(qw(token system --ttl 5m --account late))->{token}) }
my ($robot, $late) = map { $c->done(qw(account add --type SYSTEM --no-login), $_)->{accountId}
    } qw(robot late);
$c->done(qw(account revoke-sessions robot));
$pg->sql(join "\n", 'create schema skewed;', (map {"create function skewed.$_() returns
        timestamptz language sql volatile
        as \$\$ select pg_catalog.$_() - interval '1 hour' \$\$;"} qw(now clock_timestamp)),
    'alter role platform set search_path = skewed, pg_catalog, public');
news();
next_second();
$old = system_token();
$c->done(qw(account revoke-sessions late));
$new = system_token();
my $before_it = entry_of($late)->{issued_before};
ok $old->{exp} > time + 200 && $old->{iat} < $before_it, 'a system token of before is refused';
cmp_ok $new->{iat}, '>=', $before_it, 'one of after is not';
$c->done(qw(account revoke-sessions robot));
is_told(["subject $robot"], 'a lockout is told where the clock was set back since the last one');
$pg->sql('alter role platform reset search_path; drop schema skewed cascade');

# As the migration has it of accounts that were locked out ahead of the clock.
$pg->sql("select revoke_tokens('$id', now() + interval '1 hour')", user => 'postgres');
cmp_ok entry_of($id)->{issued_before}, '<=', time + 1,
    'no token is refused that is not issued yet';

# A second lockout within a second: a token from between them says the second that
# follows, as one of after it does.  So its session is named.
my ($twice, @of_twice) = map { uuid() } 1 .. 4;
my $base = time - 10;
my $opened = sub { "insert into auth_sessions (session_id, account_id, jti, created_at,
    expires_at, access_until) values ('$_[0]', '$twice', gen_random_uuid(),
    to_timestamp($base + $_[1]), to_timestamp($base + 86400), now() - interval '2 hours');" };
my $lock_out = sub { "update accounts set sessions_valid_after
    = to_timestamp($base + $_[0]) where account_id = '$twice';" };
$pg->sql("insert into accounts (account_id, account_name, credential_hash)
    values ('$twice', 'twice', '\$argon2id\$x');" . $opened->($of_twice[0], -0.4)
    . $lock_out->(0.1) . $opened->($of_twice[1], 0.2));
is_told(["subject $twice"], 'a lockout');
$pg->sql($lock_out->(0.3));
is_told([ $of_twice[1], "subject $twice" ], 'another one within its second');
$pg->sql($opened->($of_twice[2], 0.4) . $lock_out->(1.1));
is_told(["subject $twice"], 'and one after that');

# The same where both are of now; again, where the second was over between them.
my $told;
eventually(sub {
    next_second();
    my @second = map { $pg->sql($_); $pg->sql("select date_trunc('second', sessions_valid_after)
            from accounts where account_id = '$twice'")
        } map {s/to_timestamp\([^)]*\)/clock_timestamp()/r} $lock_out->(0),
        "insert into auth_sessions (session_id, account_id, jti, created_at, expires_at)
            values ('${ \uuid() }', '$twice', gen_random_uuid(), clock_timestamp(),
                now() + interval '1 day')", $lock_out->(0);
    $told = news();
    return $second[0] eq $second[2];
});
is_deeply [ map { s/subject $twice//r ne '' ? 'session' : 'account' } @$told ],
    [ 'session', 'account', 'account' ], 'two lockouts of this second: its session is named';

# Each TRUNCATE is told, however often one transaction does it.
$pg->sql('truncate auth_sessions cascade');
news();
my @none = map { "subject ${ \account_id('none') }" } 1, 2;
my $hand = $pg->begin('');
for (1, 2) {
    $pg->more($hand, "insert into auth_sessions (session_id, account_id, jti, created_at,
        expires_at) select gen_random_uuid(), account_id, gen_random_uuid(), now(),
        now() + interval '1 day' from accounts where account_name = 'none\@demo.test'");
    $pg->more($hand, 'truncate auth_sessions cascade');
    next_second();
}
$pg->end($hand, 'commit');
is_told(\@none, 'TRUNCATE, and again a second later');

# A login that a lockout overtakes begins again: its token is not of before.  (A
# selection and a refresh: id_lockout.t.)
my $overtakes = "update accounts set sessions_valid_after = clock_timestamp() $of_several";
for my $end (qw(rollback commit)) {
    my $holder = $pg->begin($overtakes);
    my $client = sent(login => { account => 'several@demo.test',
        credential => $Platform::Test::Client::CREDENTIAL });
    ok $pg->waiting(1), "$end: a login waits for a lockout";
    next_second();    # its token is of an earlier one
    $pg->more($holder, $overtakes);
    ok $pg->end($holder, $end), "$end: which ends";
    my $got = $client->read_response->json;
    is refresh($got)->status, 200, "$end: it succeeds, and its session lives";
    cmp_ok claims($got->{accountAccessToken})->{iat}, '>=', entry_of($account)->{issued_before},
        'its token is of after' if $end eq 'commit';
}

# -- SQL by hand, in a transaction that goes on for a while: its moment is the commit

# Whether an entry refuses the token.
sub is_covered ($token, @entries) {
    my $claims = claims($token);
    return grep { defined $_->{id} ? $_->{id} eq $claims->{session_id}
        : $_->{subject} eq $claims->{sub} && $claims->{iat} < $_->{issued_before} } @entries;
}

# Each in an account of its own that may do what several may, all in the same seconds.
my @by_hand = (
    { name => 'disabled', set => "status = 'DISABLED'" },
    { name => 'locked out', set => 'sessions_valid_after = now()', alive => 1 },
    { name => 'locked out by the clock', set => 'sessions_valid_after = clock_timestamp()' },
    { name => 'both', set => "status = 'DISABLED', sessions_valid_after = now()" },
);
$pg->sql("with a as (insert into accounts (account_name, credential_hash)
        select 'hand' || n || '\@demo.test', credential_hash
        from accounts, generate_series(0, $#by_hand) as n where account_id = '$account'
        returning account_id),
    m as (insert into members (account_id, workspace_id) select a.account_id, m.workspace_id
        from a, members as m where m.account_id = '$account' returning member_id)
    insert into branch_grants (member_id, branch_id, workspace_id)
        select m.member_id, g.branch_id, g.workspace_id from m, branch_grants as g
        join members as s using (member_id) where s.account_id = '$account'");
for my $n (0 .. $#by_hand) {
    my $case = $by_hand[$n];
    $case->{who} = "hand$n";
    $case->{row} = "where account_name = 'hand$n\@demo.test'";
    @$case{qw(idle used selects second)} = map { logged_in("hand$n") } 1 .. 4;
    $case->{branch} = $case->{used}{branches}[0]{branchId};
}
news();
next_second();
$_->{hand} = $pg->begin('') for @by_hand;
next_second();
for my $case (@by_hand) {
    # Of before the row is locked; the last one's session is of after the lockout.
    $case->{selected} = select_branch($case->{second}, $case->{branch})->json->{accessToken};
    $case->{since} = logged_in($case->{who});
}
$pg->more($_->{hand}, "update accounts set $_->{set} $_->{row}") for @by_hand;
next_second();
for my $case (@by_hand) {
    $case->{used} = refresh($case->{used})->json;
    $case->{client} = sent('select-branch', { branchId => $case->{branch} },
        token => $case->{selects}{accountAccessToken});
}
ok $pg->waiting(scalar @by_hand), 'by hand: selections wait for it';
next_second();
for my $case (@by_hand) {
    ok $pg->end($case->{hand}, 'commit'), "$case->{name}: it is committed";
    isnt $case->{client}->read_response->status, 200, "$case->{name}: nothing is selected";
}
($cursor, my @entries) = feed($cursor);
for my $case (@by_hand) {
    my $name = $case->{name};
    my %token = (idle => $case->{idle}{accountAccessToken},
        refreshed => $case->{used}{accountAccessToken}, selected => $case->{selected});
    ok is_covered($token{$_}, @entries), "$name: $_, the token is refused" for sort keys %token;
    is !is_covered($case->{since}{accountAccessToken}, @entries), !!$case->{alive},
        "$name: is one of a session opened meanwhile good?";
    is refresh($case->{since})->status, $case->{alive} ? 200 : 401,
        "$name: which the service says, too";
    $pg->sql("update accounts set status = 'ACTIVE' $case->{row}");
}
# -- what becomes visible late is not missed, and keeps nothing from the others

my @s = sort map { open_session() } 1 .. 5;
news();
my $slow = "insert into accounts (account_name, credential_hash) values ('slow', '\$argon2id\$x')";
my $other = $pg->begin($slow);
my ($first, $second) = map { $pg->begin(ends($_)) } @s[ 0, 1 ];
$pg->sql(ends($s[2]));
is_told([ $s[2] ], 'two that go on: the third is told');
$pg->end($second, 'commit');
is_told([ $s[1] ], 'the second, though the first goes on');
my $reader = $cursor;
$pg->sql(ends($s[3]));
is_told([ $s[3] ], 'another');
$pg->end($first, 'commit');
is_told([ $s[0] ], 'the first, last');
is_deeply [ sort map { ref $_ ? $_->{id} : () } feed($reader) ], [ sort @s[ 0, 3 ] ],
    'another reader, from where it was';
my $undone = $pg->begin(ends($s[4]));
is_deeply news(), [], 'one that goes on';
$pg->end($undone, 'rollback');
is_deeply news(), [], 'and is undone, is never told';

# More that go on than a cursor has room for: told again rather than missed.
my @many = sort +open_session('none', 60);
news();
$pg->sql("begin; @{[ ends($many[$_]) ]}; prepare transaction 'p$_'") for 0 .. 59;
$pg->sql(ends($s[4]));
is_deeply [ news(), news() ], [ [ $s[4] ], [ $s[4] ] ], 'sixty go on: told again';
$pg->sql("commit prepared 'p$_'") for reverse 0 .. 59;
is_told([ @many, $s[4] ], 'all are told');
$pg->end($other, 'rollback');    # the slow one held up nobody

# -- pages

for my $count (1000, 1001) {
    open_session('none', $count);
    news();
    my ($id) = open_session();
    my $late = $pg->begin(ends($id));
    $pg->sql("update auth_sessions set status = 'REVOKED', revoked_at = now()
        where status = 'ACTIVE' and session_id <> '$id'
        and account_id = '@{[ account_id('none') ]}'");
    my $res = http_get($port, "$PATH?after=$cursor")->json;
    is_deeply [ scalar @{ $res->{revocations} }, !!$res->{more} ], [ 1000, $count > 1000 ],
        "$count: a page, and more?";
    # It commits between two pages, and before where the reader is.
    $pg->end($late, 'commit');
    ($cursor, my @rest) = feed($res->{cursor});
    my %seen = map { $_ => 1 } @{ news() }, map { $_->{id} } @{ $res->{revocations} }, @rest;
    delete $seen{$id} or fail 'the late one was missed';
    is scalar keys %seen, $count, "$count: all of them";
    is_deeply news(), [], 'and no more';
}
my (undef, @whole) = feed();
is scalar @whole, $pg->sql('select count(*) from session_revocations'),
    'from the beginning: all there is, each once';

# Rows that were brought along from a server that has counted further.
$pg->sql("insert into session_revocations (xid, session_id, dies_at)
    select '900000000'::xid8, gen_random_uuid(), now() + interval '1 hour'
    from generate_series(1, 1500)");
is scalar @{ [ feed() ] } - 1, @whole + 1500, 'who begins is told them';
is_deeply news(), [], 'who goes on is not told them at every poll';
($id) = open_session();
$pg->sql(ends($id));
is_told([$id], 'but what is new');
$pg->sql("delete from session_revocations where xid = '900000000'");

# -- what is no cursor, or not of this database

sub refused ($query, $name = undef) {
    return is_problem(http_get($port, "$PATH?$query"), 400, 'REQUEST_INVALID', $name // $query);
}

my ($mark, $next) = $cursor =~ /\A([0-9a-f-]{36})\.([0-9]+)\.\z/ or die "the cursor: $cursor\n";
is http_get($port, "$PATH?after=$mark.$next.")->status, 200, 'control';
refused($_) for 'before=x', "x=1&after=$cursor", map {"after=$_"} $mark, "$mark.$next.1_",
    "$mark.$next..5", "$mark.-1.", "$mark.$next.%27", "$mark.${next}0000000000000000000.",
    "$cursor.1.1.1", "$mark.$next." . join('_', (1) x 300), "$cursor%00", "$cursor&x=1";
refused('after=' . uuid() . ".$next.", "another database's");
refused("after=$mark." . ($next + 1000) . '.', 'one of the future');

# A refresh that did not see the lockout: its session has an entry of its own.
my @late = open_session('none', 2);
$pg->sql("update accounts set sessions_valid_after = clock_timestamp()
        where account_name = 'none\@demo.test';
    update auth_sessions set used_at = clock_timestamp() where session_id = '$late[0]'");
news();
$pg->sql(ends(@late));
is_told([ $late[0] ], 'refreshed after the lockout');

# -- the cost of a poll

$pg->sql("insert into session_revocations (session_id, dies_at)
    select gen_random_uuid(), now() + interval '1 day' from generate_series(1, 5000)");
$pg->sql('analyze session_revocations');
my $held = $pg->begin($slow);
($cursor) = feed();
for my $n (1 .. 8) {    # past the plans made for one call each
    $pg->logged;
    my $news = news();
    my ($plan) = grep { /Query Text: SELECT extract\(epoch FROM clock_/ }
        split /^.*duration: /m, $pg->logged;
    my @scans = $plan =~ /^\s*->\s*(.*session_revocations .*)$/mg;
    is_deeply [ scalar @$news, scalar @scans, (grep {
        !/\AIndex Scan using session_revocations_pkey.*actual rows=0(?:\.00)? loops=1/ } @scans),
        $plan =~ /Rows Removed by (?:Filter|Index Recheck): [1-9]/g ], [ 0, 2 ],
        'by its index, for what follows and the one that goes on, and nothing in vain'
        or diag $plan;
}
$pg->end($held, 'rollback');

# -- a database that has crashed, started again, or is not there

$t->allow(qr/db\.(?:error|connect|unavailable)|sweep\.failed/);
news();
my $victim = $pg->begin('select 1');
my $backend = $pg->sql("select pid from pg_stat_activity
    where state = 'idle in transaction'", user => 'postgres');
is http_get($port, "$PATH?after=$cursor")->status, 200, 'before the crash';
kill 'KILL', $backend;
eval { $pg->end($victim, 'rollback') };
ok eventually(sub { eval { $pg->sql('select 1') } }), 'a backend crashed';
ok eventually(sub { http_get($port, $PATH)->status == 200 }), 'it serves';
refused("after=$cursor", 'a cursor from before the crash');
($id) = open_session();
($cursor) = feed();
$pg->sql(ends($id));
is_deeply news(), [$id], 'and one of after is good';
$pg->stop('INT');
is_problem(http_get($port, "$PATH?after=$cursor"), 503, 'DATABASE_UNAVAILABLE', 'no database');
$pg->start;
ok eventually(sub { http_get($port, $PATH)->status == 200 }), 'it is back';
refused("after=$cursor", 'a cursor from before the restart');
($cursor, @whole) = feed();
is scalar(grep { ($_->{id} // '') eq $id } @whole), 1, 'what ended before is told';

$t->done;
