# The revocation feed: whatever ends a session tells it, nothing is missed that
# becomes visible late, and a database that lost its last transactions says so.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Commands;
use Platform::Test::Http;
use Platform::Test::Metrics;
use POSIX qw(ceil floor);
use Test::More;
use Time::HiRes ();

my $t = Platform::Test->new;
my $pg = $t->postgres(settings => {
    session_preload_libraries                => 'auto_explain',
    'auto_explain.log_min_duration'          => 0,
    'auto_explain.log_analyze'               => 'on',
    'auto_explain.log_timing'                => 'off',
    max_prepared_transactions                => 100,
    autovacuum                               => 'off',
});
my $identity = $t->identity_face(PLATFORM_AUTH_MAX_FAILURES => 0);
my $port = $t->port('identity');
my $c = Platform::Test::Commands->new(test => $t);
my $CREDENTIAL = 'Demo-passw0rd!';
my $PATH = '/internal/revocations';
my $uuid = qr/[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}/;

sub call {
    my ($path, $json, %o) = @_;

    return http_post($port, "/api/auth/$path", json => $json, %o);
}

sub login {
    my ($account) = @_;

    my $res = call(login => { account => "$account\@demo.test",
        credential => $CREDENTIAL });
    is $res->status, 200, "a login: $account" or diag $res->body;
    return $res->json;
}

sub claims { return (jwt_decode($_[0]))[1] }
sub session_of { return claims($_[0]{refreshToken})->{session_id} }

sub account_id {
    return $pg->sql("select account_id from accounts
        where account_name = '$_[0]\@demo.test'");
}

# All pages from a cursor on: the entries, and the last cursor.
sub feed {
    my ($cursor, %o) = @_;

    my (@all, $pages);
    while (1) {
        my $res = http_get($o{port} // $port,
            $PATH . (defined $cursor ? "?after=$cursor" : ''));
        is $res->status, 200, 'the feed' or diag $res->body;
        my $page = $res->json;
        like $page->{cursor}, qr/\A[A-Za-z0-9._:,-]{1,512}\z/, 'its cursor'
            if !$pages++;
        cmp_ok scalar @{ $page->{revocations} }, '<=', 1000, 'a page'
            if $page->{more};
        push @all, @{ $page->{revocations} };
        $cursor = $page->{cursor};
        last if !$page->{more};
    }
    return ($cursor, @all);
}

my $cursor;

# What is new since the last call, by what it is about.
sub news {
    my @all;
    ($cursor, @all) = feed($cursor);
    return [ sort map { $_->{id} // "subject $_->{subject}" } @all ];
}

# -- what an entry says

($cursor) = feed();
is_deeply news(), [], 'nothing has ended';
my $one = login('one');
is_deeply news(), [], 'nor when one is opened';
$one = call(refresh => { refreshToken => $one->{refreshToken} })->json;
is_deeply news(), [], 'or refreshed';
my $before = Time::HiRes::time();
is call(logout => { refreshToken => $one->{refreshToken} })->status, 200,
    'a logout';
my $res = http_get($port, "$PATH?after=$cursor");
is $res->header('Content-Type'), 'application/json', 'the type';
is $res->header('Cache-Control'), 'no-store', 'not to be stored';
my $page = $res->json;
is_deeply [ sort keys %$page ], [ sort qw(cursor issuer more now revocations) ],
    'the members';
is $page->{issuer}, claims($one->{accessToken})->{iss}, 'whose it is';
like $res->body, qr/"issuer".*"revocations"/, 'said before the list';
my ($entry) = @{ $page->{revocations} };
is_deeply [ sort keys %$entry ], [ sort qw(id revoked_at dies_at) ],
    'of a session';
is $entry->{id}, session_of($one), 'its id';
cmp_ok $entry->{revoked_at}, '>=', $before - 0.001, 'when it ended';
cmp_ok $entry->{revoked_at}, '<=', $page->{now}, 'by the same clock as now';
my $exp = claims($one->{accessToken})->{exp};
cmp_ok $entry->{dies_at}, '>=', $exp + 300,
    'it outlives the token, at the most lenient of gateways';
cmp_ok $entry->{dies_at}, '<=', $exp + 302, 'and not for long';
is_deeply news(), [ session_of($one) ], 'once';
is_deeply news(), [], 'and no more';
is_deeply [ map { $_->{id} } (feed())[1] ], [ session_of($one) ],
    'from the beginning: all there is';
is http_get($port, "$PATH?after=")->status, 200, 'so with an empty cursor';

# Until when its tokens live is kept at a login, a refresh and a selection.
sub dies_after {
    my ($session, $token, $what) = @_;

    my $id = session_of($session);
    my $exp = claims($token)->{exp};
    is $pg->sql("select extract(epoch from access_until)::bigint
        from auth_sessions where session_id = '$id'"), $exp,
        "$what: until when its token lives";
    $pg->sql("update auth_sessions
        set access_until = now() - interval '2 hours' where session_id = '$id'");
    return;
}

{
    my $own = login('several');
    dies_after($own, $own->{accountAccessToken}, 'a login');
    my $res = call(refresh => { refreshToken => $own->{refreshToken} });
    dies_after($own, $res->json->{accountAccessToken}, 'a refresh');
    my $branch = $own->{branches}[0]{branchId};
    $own = $res->json;
    $res = call('select-branch', { branchId => $branch },
        token => $own->{accountAccessToken});
    dies_after($own, $res->json->{accessToken}, 'a selection');
    $pg->sql("update branches set status = 'INACTIVE'
        where branch_id = '$branch'");
    $res = call(refresh => { refreshToken => $own->{refreshToken} });
    dies_after($own, $res->json->{accountAccessToken},
        'a refresh of two statements');
    $pg->sql("update branches set status = 'ACTIVE'
        where branch_id = '$branch'");
    call(logout => { refreshToken => $res->json->{refreshToken} });
    is_deeply news(), [], 'no token of it is alive';

    # A version of before 0010 does not say until when: as long as any may live.
    my $old = open_session();
    $pg->sql("update auth_sessions set access_until = null
        where session_id = '$old'");
    $pg->sql(ends($old));
    ($cursor, my @entries) = feed($cursor);
    is_deeply [ map { $_->{id} } @entries ], [$old], 'one of an older version';
    cmp_ok $entries[0]{dies_at}, '>=', time + 86_400 + 290, 'for a day';

    # By a clock that may be an hour behind the database's.
    for my $case ([ 64, 1 ], [ 66, 0 ]) {
        my ($ago, $told) = @$case;
        my $id = open_session();
        $pg->sql("update auth_sessions set access_until
            = now() - interval '$ago min' where session_id = '$id'");
        $pg->sql(ends($id));
        is_deeply news(), [ ($id) x $told ], "its tokens died $ago min ago";
        $pg->sql("delete from session_revocations where session_id = '$id'");
    }
}

# -- whatever ends it

my @several = map { login('several') } 1 .. 3;
my @ids = map { session_of($_) } @several;
my $account = account_id('several');
my $unscoped = $several[0];
is call('select-branch', { branchId => $unscoped->{branches}[0]{branchId} },
    token => $unscoped->{accountAccessToken})->status, 200, 'a selection';
is_deeply news(), [], 'is none';

$pg->sql("update auth_sessions set status = 'REVOKED', revoked_at = now()
    where session_id = '$ids[0]'");
is_deeply news(), [ $ids[0] ], 'SQL by hand: an update';
$pg->sql("delete from auth_sessions where session_id = '$ids[0]'");
is_deeply news(), [], 'deleting what has ended';
$pg->sql("delete from auth_sessions where session_id = '$ids[1]'");
is_deeply news(), [ $ids[1] ], 'SQL by hand: a deletion';
$c->done(qw(account revoke-sessions several@demo.test --session), $ids[2]);
is_deeply news(), [ $ids[2] ], 'one session, by a command';

sub is_over {
    my ($name, $how, %o) = @_;

    # Not in the second of the last lockout: see below.
    $pg->sql("select pg_sleep(extract(epoch from date_trunc('second',
            sessions_valid_after) + interval '1 s' - clock_timestamp()))
        from accounts where sessions_valid_after > '-infinity'");
    my @open = map { session_of(login($o{account} // 'several')) } 1 .. 3;
    my $id = $o{id} // account_id($o{account} // 'several');
    $how->();
    return is_deeply news(), [ ("subject $id") x ($o{entries} // 1) ], $name;
}

is_over('revoke-sessions', sub {
    $c->done(qw(account revoke-sessions several@demo.test)) });
is_over('set-credential', sub { $c->done({ stdin => "$CREDENTIAL\n" },
    qw(account set-credential several@demo.test)) });
is_over('disable', sub { $c->done(qw(account disable several@demo.test)) },
    entries => 2);
$c->done(qw(account enable several@demo.test));
is_deeply news(), [], 'enable: none';
is_over('SQL by hand: locked out', sub { $pg->sql("update accounts
    set sessions_valid_after = now() where account_id = '$account'") });
is_over('SQL by hand: disabled', sub { $pg->sql("update accounts
    set status = 'DISABLED' where account_id = '$account'") });
$pg->sql("update accounts set status = 'ACTIVE', updated_at = now(),
    credential_hash = credential_hash where account_id = '$account'");
is_deeply news(), [], 'SQL by hand: enabled, and another hash';
is_over('everybody', sub { $c->done(qw(sessions revoke --since
    2026-01-01T00:00:00Z)) });
is_over('delete', sub { $c->done(qw(account delete two-workspaces@demo.test)) },
    account => 'two-workspaces', entries => 2);
is_over('truncate', sub { $pg->sql('truncate auth_sessions cascade') });
$pg->sql("insert into accounts (account_id, account_name, credential_hash)
    values ('00000000-0000-4000-9000-000000000001', 'gone', '\$argon2id\$x');
    delete from accounts where account_name = 'gone'");
is_deeply news(), ['subject 00000000-0000-4000-9000-000000000001'],
    'SQL by hand: an account deleted';

# A disabled account found by a refresh, and the oldest over the limit.
my $found = login('several');
$pg->sql("update accounts set status = 'DISABLED'
    where account_id = '$account'");
news();
is_problem(call(refresh => { refreshToken => $found->{refreshToken} }), 401,
    'AUTH_SESSION_NOT_ACTIVE', 'a refresh in a disabled account');
is_deeply news(), [ session_of($found) ], 'which ends the session';
$pg->sql("update accounts set status = 'ACTIVE'
    where account_id = '$account'");
$identity->stop;
@{ $identity->{env} }{qw(PLATFORM_AUTH_MAX_SESSIONS
    PLATFORM_AUTH_REFRESH_REUSE)} = (1, 'revoke');
$identity->start;
$one = login('one');
my $two = login('one');
is_deeply news(), [ session_of($one) ], 'one too many';
my $old = jwt_token('refresh', jwt_key('identity'),
    %{ claims($two->{refreshToken}) }, iat => time - 100);
$two = call(refresh => { refreshToken => $two->{refreshToken} })->json;
$pg->sql("update rotated_tokens set rotated_at = now() - interval '61 s'");
is call(refresh => { refreshToken => $old })->status, 401, 'a reuse';
is_deeply news(), [ session_of($two) ], 'which ends the session';
$identity->stop;
delete @{ $identity->{env} }{qw(PLATFORM_AUTH_MAX_SESSIONS
    PLATFORM_AUTH_REFRESH_REUSE)};
$identity->start;

# A role that may do no more than end a session tells it too.
$pg->sql("create role hand login; grant select, update on auth_sessions to hand;
    grant usage on schema public to hand", user => 'postgres');
$one = login('one');
$pg->sql("update auth_sessions set status = 'REVOKED', revoked_at = now()
    where session_id = '" . session_of($one) . "'", user => 'hand');
is_deeply news(), [ session_of($one) ], 'whoever does it';
ok !eval { $pg->sql('delete from session_revocations', user => 'hand'); 1 },
    'and may not take it back';

# -- seconds: a token of before is refused, one of after is not

sub entry_of {
    my ($id) = @_;

    my @all;
    ($cursor, @all) = feed($cursor);
    my @own = grep { ($_->{subject} // '') eq $id } @all;
    return $own[-1];
}

my $id = account_id('one');
for my $round (1 .. 3) {
    news();
    # Within one second, if the machine allows.
    Time::HiRes::sleep(1.02 - (Time::HiRes::time() - floor(Time::HiRes::time())));
    my $old = login('one');
    $pg->sql("update accounts set sessions_valid_after = clock_timestamp()
        where account_id = '$id'");
    my $new = login('one');
    my $locked_out = $pg->sql("select extract(epoch from sessions_valid_after)
        from accounts where account_id = '$id'");
    my $entry = entry_of($id);
    is_deeply [ sort keys %$entry ],
        [ sort qw(subject issued_before revoked_at dies_at) ], 'its members';
    is $entry->{issued_before}, floor($locked_out) + 1,
        'the second after the lockout';
    cmp_ok claims($old->{accessToken})->{iat}, '<', $entry->{issued_before},
        'a token of before is refused';
    cmp_ok claims($new->{accessToken})->{iat}, '>=', $entry->{issued_before},
        'a token of after is not';
    cmp_ok $entry->{dies_at}, '>=', $locked_out + 86400 + 300,
        'for as long as any token may live';
    $new = call(refresh => { refreshToken => $new->{refreshToken} })->json;
    cmp_ok claims($new->{accessToken})->{iat}, '>=', $entry->{issued_before},
        'nor is that of a refresh';
}
# A system token is judged by the same entries: by its subject alone.
sub system_token {
    my ($account) = @_;

    my $claims = claims($c->done(qw(token system --ttl 5m --account), $account)
        ->{token});
    cmp_ok $claims->{exp}, '>', time + 200, 'a system token: it lives';
    return $claims->{iat};
}
for my $case ([ robot => 'the clocks agree' ],
    [ late => 'the database is an hour behind' ])
{
    my ($account, $name) = @$case;
    my $id = $c->done(qw(account add --type SYSTEM --no-login), $account)
        ->{accountId};
    $pg->sql(q{create schema skewed;
        create function skewed.now() returns timestamptz language sql stable
            as $$ select pg_catalog.now() - interval '1 hour' $$;
        create function skewed.clock_timestamp() returns timestamptz
            language sql volatile
            as $$ select pg_catalog.clock_timestamp() - interval '1 hour' $$;
        alter role platform set search_path = skewed, pg_catalog, public})
        if $account eq 'late';
    for my $round (1 .. 3) {
        news();
        Time::HiRes::sleep(1.02
            - (Time::HiRes::time() - floor(Time::HiRes::time())));
        my $before = system_token($account);
        $c->done(qw(account revoke-sessions), $account);
        my $after = system_token($account);
        my $entry = entry_of($id);
        cmp_ok $before, '<', $entry->{issued_before},
            "$name: one of before is refused";
        cmp_ok $after, '>=', $entry->{issued_before}, 'one of after is not';
    }
}
news();
$c->done(qw(account revoke-sessions robot));
is_deeply news(), [ 'subject ' . $pg->sql(
        "select account_id from accounts where account_name = 'robot'") ],
    'a lockout is told where the clock was set back since the last one';
$pg->sql('alter role platform reset search_path; drop schema skewed cascade');

# As the migration has it of accounts that were locked out ahead of the clock.
$pg->sql("select revoke_tokens('$id', now() + interval '1 hour')",
    user => 'postgres');
my $now = time;
cmp_ok entry_of($id)->{issued_before}, '<=', $now + 1,
    'no token is refused that is not issued yet';

# A second lockout within a second: a token from between them says the second
# that follows, as one of after it does.  So its session is named.
my ($twice, $older, $between) = map { uuid() } 1 .. 3;
my $base = floor(Time::HiRes::time()) - 10;
my $opened = sub {
    my ($session, $at) = @_;

    return "insert into auth_sessions (session_id, account_id, jti, created_at,
            expires_at) values ('$session', '$twice', gen_random_uuid(),
            to_timestamp($base + $at), to_timestamp($base + 86400));";
};
my $locked_out = sub { "update accounts set sessions_valid_after
    = to_timestamp($base + $_[0]) where account_id = '$twice';" };
$pg->sql("insert into accounts (account_id, account_name, credential_hash)
    values ('$twice', 'twice', '\$argon2id\$x')");
news();
$pg->sql($opened->($older, -0.4) . $locked_out->(0.1)
    . $opened->($between, 0.2));
is_deeply news(), ["subject $twice"], 'a lockout';
$pg->sql($locked_out->(0.3));
is_deeply news(), [ sort $between, "subject $twice" ],
    'another one within its second';
$pg->sql($opened->($between = uuid(), 0.4) . $locked_out->(1.1));
is_deeply news(), ["subject $twice"], 'and one after that';

# No setting lets one live for longer than that.
my ($status, undef, $err) = $t->run_identity(['--check'],
    PLATFORM_JWT_ACCESS_TOKEN_TTL => '86401s');
isnt $status, 0, 'an access token for more than a day is refused';
like $err, qr/PLATFORM_JWT_ACCESS_TOKEN_TTL/, 'by the setting';
($status) = $t->run_identity(['--check'],
    PLATFORM_JWT_ACCESS_TOKEN_TTL => '1d');
is $status, 0, 'a day is accepted';

# A login that a lockout overtakes begins again: its token is not of before.
# Nor is one given out by a selection that a lockout overtakes.
my @overtaken = (
    [ login => sub { http_request_bytes(POST => '/api/auth/login', json => {
        account => 'several@demo.test', credential => $CREDENTIAL }) }, 200 ],
    [ 'select-branch' => sub { my $s = login('several');
        http_request_bytes(POST => '/api/auth/select-branch',
            token => $s->{accountAccessToken},
            json => { branchId => $s->{branches}[0]{branchId} }) }, 401 ],
);
for my $case (@overtaken) {
    my ($name, $request, $status) = @$case;
    my $bytes = $request->();
    for my $end (qw(rollback commit)) {
        my $holder = $pg->begin("update accounts
            set sessions_valid_after = clock_timestamp()
            where account_id = '$account'");
        my $client = Platform::Test::Http->new(port => $port);
        $client->send($bytes);
        ok $pg->waiting(1), "$name: waits for a lockout";
        Time::HiRes::sleep(1.1);    # its token is of an earlier second
        $pg->more($holder, "update accounts
            set sessions_valid_after = clock_timestamp()
            where account_id = '$account'");
        ok $pg->end($holder, $end), "$name: $end";
        my $res = $client->read_response;
        is $res->status, $end eq 'commit' ? $status : 200,
            "$name: $end: its answer" or diag $res->body;
        next if $res->status != 200 || $end eq 'rollback';
        my $token = $res->json->{accountAccessToken};
        cmp_ok claims($token)->{iat}, '>=',
            entry_of($account)->{issued_before}, "$name: the token is of after";
    }
}

# -- what becomes visible late is not missed, and keeps nothing from the others

sub open_session {
    my (%o) = @_;

    my $id = $o{id} // uuid();
    $pg->sql("insert into auth_sessions (session_id, account_id, jti,
            created_at, expires_at, access_until)
        select '$id', account_id, gen_random_uuid(), now(), now() + interval '1 day',
            now() + interval '15 min'
        from accounts where account_name = '"
        . ($o{account} // 'none') . "\@demo.test'");
    return $id;
}

sub ends {
    my (@ids) = @_;

    return "update auth_sessions set status = 'REVOKED', revoked_at = now()
        where session_id in ('" . join("', '", @ids) . "')";
}

my @s = sort map { open_session() } 1 .. 7;
news();
my $other = $pg->begin("insert into accounts (account_name, credential_hash)
    values ('slow', '\$argon2id\$x')");
my $first = $pg->begin(ends($s[0]));
my $second = $pg->begin(ends($s[1]));
$pg->sql(ends($s[2]));
is_deeply news(), [ $s[2] ], 'two that go on: the third is told';
ok $pg->end($second, 'commit'), 'the second ends';
is_deeply news(), [ $s[1] ], 'and is told, though the first goes on';
my $reader = $cursor;
$pg->sql(ends($s[3]));
is_deeply news(), [ $s[3] ], 'another';
ok $pg->end($first, 'commit'), 'the first ends';
is_deeply news(), [ $s[0] ], 'and is told last';
is_deeply news(), [], 'once';
my (undef, @again) = feed($reader);
is_deeply [ sort map { $_->{id} } @again ], [ sort @s[ 0, 3 ] ],
    'another reader, from where it was';
my $undone = $pg->begin(ends($s[4]));
is_deeply news(), [], 'one that goes on';
ok $pg->end($undone, 'rollback'), 'and is undone';
is_deeply news(), [], 'is never told';
$pg->sql("begin; savepoint a; @{[ ends($s[4]) ]}; release a; commit");
is_deeply news(), [ $s[4] ], 'in a subtransaction';
$pg->sql("begin; @{[ ends($s[5]) ]}; prepare transaction 'p'");
is_deeply news(), [], 'prepared';
$pg->sql("commit prepared 'p'");
is_deeply news(), [ $s[5] ], 'and committed';

# More that go on than a cursor has room for: told again rather than missed.
my @many = sort map { open_session() } 1 .. 60;
news();
$pg->sql("begin; @{[ ends($many[$_]) ]}; prepare transaction 'p$_'")
    for 0 .. 59;
$pg->sql(ends($s[6]));
is_deeply news(), [ $s[6] ], 'sixty go on';
is_deeply news(), [ $s[6] ], 'told again';
cmp_ok length $cursor, '<=', 512, 'its length';
$pg->sql("commit prepared 'p$_'") for reverse 0 .. 59;
is_deeply news(), [ sort @many, $s[6] ], 'all are told';
is_deeply news(), [], 'once';
ok $pg->end($other, 'rollback'), 'the slow one held up nobody';

# Many at random.
my %open = map { open_session() => 1 } 1 .. 40;
my (@running, %told);
srand 15;
news();
for my $id (sort keys %open) {
    push @running, $pg->begin(ends($id));
    if (@running > 5) {
        $pg->end(splice(@running, rand @running, 1), 'commit');
    }
    $told{$_}++ for @{ news() };
}
$pg->end($_, 'commit') for @running;
$told{$_}++ for @{ news() };
is_deeply \%told, { map { $_ => 1 } keys %open }, 'forty at random: each once';

# -- pages

my @pages = (2500, 1000, 1001);
for my $count (@pages) {
    $pg->sql("insert into auth_sessions (session_id, account_id, jti,
            created_at, expires_at)
        select gen_random_uuid(), account_id, gen_random_uuid(), now(),
            now() + interval '1 day' from accounts, generate_series(1, $count)
        where account_name = 'none\@demo.test'");
    news();
    my $late = $pg->begin(ends(my $id = open_session()));
    $pg->sql("update auth_sessions set status = 'REVOKED', revoked_at = now()
        where status = 'ACTIVE' and session_id <> '$id'
        and account_id = (select account_id from accounts
            where account_name = 'none\@demo.test')");
    my $res = http_get($port, "$PATH?after=$cursor")->json;
    is scalar @{ $res->{revocations} }, 1000, "$count: a page";
    is $res->{more} ? 1 : 0, $count > 1000 ? 1 : 0, 'and more?';
    my %seen = map { $_->{id} => 1 } @{ $res->{revocations} };
    # It commits between two pages, and before where the reader is.
    ok $pg->end($late, 'commit'), 'a late one';
    my ($last, @rest) = feed($res->{cursor});
    $seen{ $_->{id} }++ for @rest;
    ($cursor, @rest) = feed($last);
    $seen{ $_->{id} }++ for @rest;
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
$pg->sql(ends(my $own = open_session()));
is_deeply news(), [$own], 'but what is new';
$pg->sql("delete from session_revocations where xid = '900000000'");

# -- what is no cursor, or not of this database

sub refused {
    my ($query, $name) = @_;

    return is_problem(http_get($port, "$PATH?$query"), 400, 'REQUEST_INVALID',
        $name);
}

my ($mark, $next) = $cursor =~ /\A($uuid)\.([0-9]+)\.\z/
    or die "the cursor: $cursor\n";
is http_get($port, "$PATH?after=$mark.$next.")->status, 200, 'control';
refused("after=$_", "no cursor: $_") for 'x', $mark, "$mark.", "$mark.$next",
    "$mark.$next.1_", "$mark.$next..5", "$mark.$next..5.x", "$mark.-1.",
    "$mark.$next.%27", "$mark.${next}0000000000000000000.", "$cursor.1.1.1",
    "$mark.$next." . join('_', (1) x 300), "$cursor%00", "$cursor&x=1";
refused('before=x', 'another parameter');
refused("x=1&after=$cursor", 'two parameters');
refused('after=' . uuid() . ".$next.", "another database's");
refused("after=$mark." . ($next + 1000) . '.', 'one of the future');
is_problem(http_post($port, $PATH, body => ''), 405, 'METHOD_NOT_ALLOWED',
    'it is only read');

# -- a sweep

sub entries { return $pg->sql('select count(*) from session_revocations') }

$pg->sql("insert into auth_sessions (session_id, account_id, jti, created_at,
        expires_at, used_at, access_until)
    select gen_random_uuid(), account_id, gen_random_uuid(),
        now() - interval '90 days', now() - interval '8 days',
        now() - interval '38 days', case when n % 2 = 0 then null
            else now() - interval '38 days' end
    from accounts, generate_series(1, 600) as n
    where account_name = 'none\@demo.test'");
my $count = entries();
is $c->done('sweep')->{sessions}, 600, 'expired sessions are swept';
is entries(), $count, 'which tells nobody';
$pg->sql("update session_revocations set dies_at = now() - interval '59 min'
    where session_id is not null");
is $c->done('sweep')->{revocations}, 0, 'for clocks that disagree';
$pg->sql("update session_revocations set dies_at = now() - interval '61 min'
    where session_id is not null");
my $dead = $pg->sql('select count(*) from session_revocations
    where session_id is not null');
is $c->done('sweep')->{revocations}, $dead, 'entries are swept when dead';
is entries(), $count - $dead, 'and others stay';

# -- an account with very many sessions is one entry

my $MANY = $ENV{PLATFORM_TEST_SESSIONS} // 5_000;
$pg->sql("insert into auth_sessions (session_id, account_id, jti, created_at,
        expires_at, used_at, access_until)
    select gen_random_uuid(), account_id, gen_random_uuid(),
        now() - interval '1 hour', now() + interval '1 day', now(),
        now() + interval '15 min' from accounts, generate_series(1, $MANY)
    where account_name = 'none\@demo.test'");
news();
my $done = $c->done(qw(account revoke-sessions none@demo.test));
is $done->{revokedSessions}, $MANY, "$MANY sessions";
is_deeply news(), [ 'subject ' . account_id('none') ], 'one entry';

# A refresh that did not see the lockout: its session has an entry of its own.
my @late = map { open_session() } 1 .. 2;
$pg->sql("update accounts set sessions_valid_after = clock_timestamp()
    where account_name = 'none\@demo.test'");
$pg->sql("update auth_sessions set used_at = clock_timestamp()
    where session_id = '$late[0]'");
news();
$pg->sql(ends(@late));
is_deeply news(), [ $late[0] ], 'refreshed after the lockout';

# -- the cost of a poll

$pg->sql("insert into session_revocations (session_id, dies_at)
    select gen_random_uuid(), now() + interval '1 day'
    from generate_series(1, 50000)");
$pg->sql('analyze session_revocations');
my $held = $pg->begin("insert into accounts (account_name, credential_hash)
    values ('slow', '\$argon2id\$x')");
feed($cursor);
($cursor) = feed();
my @nodes;
for my $n (1 .. 12) {
    my $log = -s $pg->{log};
    is_deeply news(), [], 'nothing new';
    open my $fh, '<', $pg->{log} or die;
    seek $fh, $log, 0;
    my $plans = do { local $/; <$fh> };
    ($plans) = grep { /Query Text: SELECT clock_timestamp/ }
        split /^.*duration: /m, $plans;
    my @scans = $plans =~ /^\s*->\s*(.*session_revocations .*)$/mg;
    push @nodes, scalar @scans;
    is_deeply [ grep { !/\AIndex Scan using session_revocations_pkey/ }
        @scans ], [], 'by its index' or diag $plans;
    is scalar(grep { /actual rows=0 loops=1/ } @scans), @scans,
        'which finds nothing' or diag $plans;
    unlike $plans, qr/Rows Removed by (?:Filter|Index Recheck): [1-9]/,
        'and reads nothing in vain';
}
is_deeply \@nodes, [ (2) x 12 ], 'what follows, and the one that goes on';
ok $pg->end($held, 'rollback'), 'which ends';

# -- numbers

my $sample = metrics_scrape($port, "/actuator/prometheus");
ok $sample->{'identity_requests_total{endpoint="/internal/revocations",'
    . 'status="200",code=""}'}, 'polls are counted';
ok $sample->{'identity_requests_total{endpoint="/internal/revocations",'
    . 'status="400",code="REQUEST_INVALID"}'}, 'so are refused ones';

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
$id = open_session();
($cursor) = feed();
$pg->sql(ends($id));
is_deeply news(), [$id], 'and one of after is good';
$pg->stop('INT');
is_problem(http_get($port, "$PATH?after=$cursor"), 503,
    'DATABASE_UNAVAILABLE', 'no database');
$pg->start;
ok eventually(sub { http_get($port, $PATH)->status == 200 }), 'it is back';
refused("after=$cursor", 'a cursor from before the restart');
(undef, @whole) = feed();
is scalar(grep { ($_->{id} // '') eq $id } @whole), 1,
    'what ended before is told';

$t->done;
