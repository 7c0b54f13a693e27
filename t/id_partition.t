# db/partition.sql puts the sessions into partitions beside the service: no request
# fails, no write is lost, everything about the table is as it was, and the sweep finds
# what has ended.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;
use Platform::Test::Load;
use POSIX qw(WNOHANG);

my $t = Platform::Test->new;
my $pg = $t->postgres(settings => { log_min_messages => 'notice' });
my $identity = $t->identity_face(PLATFORM_AUTH_REFRESH_REUSE => 'revoke');
my $port = client_of($t);
my $c = Platform::Test::Commands->new(test => $t);
my $old = logged_in('several');
my @ids = map { sprintf "('00000000-0000-4000-a000-%012x')", $_ } 1 .. 3000;
$pg->sql("insert into auth_sessions (session_id, account_id, jti, created_at, expires_at)
    select id::uuid, account_id, gen_random_uuid(), now() - interval '30 days',
        now() + interval '$_->[0]'
    from accounts, (values @{[ join ',', @{ $_->[1] } ]}) v (id) where account_name = 'none\@demo.test'")
    for [ '1 day', [ @ids[ 0 .. 2399 ] ] ], [ '-8 days', [ @ids[ 2400 .. 2999 ] ] ];

# What the table is, but for where its rows are.
sub looks {
    return join "\n", map { $pg->sql($_, user => 'postgres') =~ s/ NOT VALID//gr }
        map {"select $_ order by 1"}
        "pg_get_triggerdef(oid) from pg_trigger where not tgisinternal
            and tgrelid = 'auth_sessions'::regclass",
        "conname, pg_get_constraintdef(oid) from pg_constraint where conparentid = 0
            and 'auth_sessions'::regclass in (conrelid, confrelid)",
        "indexrelid::regclass from pg_index where indrelid = 'auth_sessions'::regclass",
        "relowner, relacl from pg_class where oid = 'auth_sessions'::regclass",
        "attname, atttypid, attnotnull from pg_attribute where attnum > 0
            and attrelid = 'auth_sessions'::regclass";
}

my $kinds = "select string_agg(distinct relkind::text, '') || count(*) from pg_class
    where relname ~ '^auth_sessions(_p\\d+)?\$'";
$pg->sql('grant select on auth_sessions to pg_monitor; grant update on auth_sessions to public');
# What an index of the table's owner computes runs with its rights, not a superuser's.
$pg->sql('create function watched(id uuid) returns uuid language plpgsql immutable as $$ begin
        if (select rolsuper from pg_roles where rolname = current_user)
            then raise exception $s$as a superuser$s$; end if;
        return id;
    end $$; create index watched on auth_sessions (watched(session_id))');
eval { $pg->sql("insert into auth_sessions (session_id, account_id, jti, created_at, expires_at)
    select gen_random_uuid(), account_id, jti, created_at, expires_at from auth_sessions limit 1",
    user => 'postgres') };
like $@, qr/as a superuser/, 'an index sees who writes';
my $looks = looks();
like $looks, qr/pg_monitor/, 'there is something to compare';
is $pg->sql($kinds), 'r1', 'one table';

# Clients that log in, refresh six times and log out, until it is done.  Somebody reads
# the table in a transaction that ends only when the last step has had to wait for it.
# The first time the script ends there, and what it did is undone.

my $page = $t->read_file($t->root . '/docs/scaling.md');
my ($undo) = $page =~ /((?:^    DROP.*\n)+)/m or die 'no undoing';
my ($keep) = $page =~ /^    (ALTER ROLE.*)/m or die 'no setting';

sub start {
    my $reader = $pg->begin('select 1 from auth_sessions limit 1');
    my $pid = fork // die "fork: $!\n";
    return ($reader, $pid) if $pid;
    $t->write_file('said', eval { $pg->partition(4) } // $@);
    POSIX::_exit(0);
}

my ($reader, $pid) = start();
my ($over, $undone, %answers, @ended);
Platform::Test::Load->new(port => $port, clients => 4)->run(sub ($client) {
    if ($reader && $pg->logged =~ /a lock is taken/) {
        my $reads = $reader;
        undef $reader;
        $pg->end($reads, 'commit') if $undone;
        if (!$undone++) {
            ok $c->done('sweep')->{busy}, 'meanwhile nothing is swept';
            is $pg->sql("select proowner::regrole || ' '
                    || has_function_privilege('public', oid, 'execute') from pg_proc
                where oid = 'partitioned.mirror()'::regprocedure", user => 'postgres'),
                'platform false', 'what repeats writes is the owner\'s, and nobody\'s to call';
            $pg->sql("select pg_terminate_backend(pid) from pg_stat_activity
                where query like 'CALL pg\\_temp%'", user => 'postgres');
            waitpid $pid, 0;
            $pg->end($reads, 'commit');
            # What is missing in the new table, or too much there, is noticed.
            $pg->sql("insert into partitioned.auth_sessions select gen_random_uuid(), account_id,
                    workspace_id, member_id, active_branch_id, jti, status, created_at,
                    expires_at from auth_sessions limit 1");
            eval { $pg->partition(4) };
            like $@, qr/rows were deleted while they were copied/, 'a row too many';
            # Of the others, requests write meanwhile.
            $pg->sql("create function skip() returns trigger language plpgsql
                    as 'begin return null; end';
                create trigger skip before insert on partitioned.auth_sessions
                    for each row when (new.session_id = $ids[0]) execute function skip();
                alter table partitioned.auth_sessions enable always trigger skip;
                delete from partitioned.auth_sessions where session_id = $ids[0]",
                user => 'postgres');
            eval { $pg->partition(4) };
            like $@, qr/\b1 of the rows differ/, 'a row that is missing';
            $pg->sql($undo . ';drop function skip()', user => 'postgres');
            is looks(), $looks, 'as if nothing had been done';
            $pg->logged;    # further attempts of what was ended
            ($reader, $pid) = start();
        }
    }
    $over ||= waitpid $pid, WNOHANG;
    my $did = ($client->{did} // 0) % 8;
    return undef if $over && !$did;
    $client->{did}++;
    my %sent = (client => $client, did => $did);
    return { %sent, path => '/api/auth/login', json => { account => 'one@demo.test',
        credential => $Platform::Test::Client::CREDENTIAL } } if !$did;
    push @ended, session_of($client->{token}) if $did == 7;
    return { %sent, path => '/api/auth/' . ($did == 7 ? 'logout' : 'refresh'),
        json => { refreshToken => $client->{token} } };
}, sub ($request, $answer) {
    # A busy machine has no time to hash: that client asks again.
    return $request->{client}{did} = 0 if $request->{did} == 0 && $answer->{status} == 503;
    $answers{"$request->{path} $answer->{status}"}++;
    $request->{client}{token} = $1 if $answer->{body} =~ /"refreshToken":"([^"]+)"/;
});
my $said = $t->read_file('said');
like $said, qr/swap: a lock is taken/, 'where a lock is taken it tries again';
unlike $said, qr/ERROR/, 'and then succeeds' or diag $said;
is_deeply [ sort keys %answers ], [ map {"/api/auth/$_ 200"} qw(login logout refresh) ],
    'no request failed' or diag explain \%answers;
cmp_ok $answers{'/api/auth/refresh 200'}, '>', 24, "among them refreshes";
is $pg->sql($kinds), 'pr5', 'four partitions';
is looks(), $looks, 'the table is what it was, with all that belongs to it';
is $pg->sql("select string_agg(nspname, '') from pg_namespace
    where nspname in ('partitioned', 'replaced')"), '', 'nothing else is left';

# -- what was written meanwhile, and before

is $pg->sql("select count(*) from auth_sessions where status = 'REVOKED'
    and session_id in ('@{[ join q(','), @ended ]}')"), scalar @ended, 'logouts are kept';
is $pg->sql("select count(distinct session_id) from session_revocations"), scalar @ended,
    'gateways are told once';
my $new = refresh($old)->json;
ok $new->{refreshToken}, 'a session of before goes on';
is refresh($old)->json->{code}, 'AUTH_REFRESH_TOKEN_STALE', 'the token that it replaced is stale';
is $pg->sql("select count(*) from auth_sessions where session_id::text ~ '^0{8}-0{4}-4'"), 3000,
    'all rows are there';
is $c->done('sweep')->{sessions}, 600, 'the sweep finds those that have ended';
is $pg->sql("select count(*) from auth_sessions where session_id::text ~ '^0{8}-0{4}-4'"), 2400,
    'and no others';
$pg->sql($keep =~ s/identity_prod/platform/r, user => 'postgres');
is $pg->sql('show plan_cache_mode'), 'force_generic_plan', 'plans are kept';
is refresh($new)->status, 200, 'and do';
eval { $pg->partition(4) };
like $@, qr/has partitions already/, 'a second time it does nothing';

# -- TRUNCATE: gateways are told of the accounts whose active sessions it ends, once each

my $of = $pg->sql("select tableoid::regclass from auth_sessions
    where session_id = '" . session_of($new) . "'");
# Partitions of before that migration get their triggers from it.
$pg->sql("drop trigger auth_sessions_revoke_all on $of");
$pg->sql($t->read_file($t->root . '/db/migrations/0015_revoked_at_commit.sql'));
for my $table ($of, 'auth_sessions') {
    my $had = $pg->sql("select count(distinct account_id) from $table where status = 'ACTIVE'");
    cmp_ok $had, '>', 0, "$table: has active sessions";
    $pg->sql('delete from session_revocations');
    $pg->sql("truncate $table cascade");
    is $pg->sql('select count(distinct account_id) from session_revocations'), $had,
        "$table: truncated, their accounts are told";
    # A statement that lasts into the next second tells them of that one as well.
    is $pg->sql('select count(*) - count(distinct (account_id, issued_before))
        from session_revocations'), 0, "$table: once each";
}

$t->done;
