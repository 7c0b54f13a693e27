# Sweeping: what goes and what stays, in small batches that wait for nobody,
# by one process at a time, by hand and by itself.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my $slack = $t->scale;
my $pg = $t->postgres(settings => {
    session_preload_libraries       => 'auto_explain',
    'auto_explain.log_min_duration' => 0,
    log_lock_waits                  => 'on',
    deadlock_timeout                => '200ms',
});
my $c = Platform::Test::Commands->new(test => $t);
$c->done('seed');

# Sessions: when they were made, expire and were revoked, as intervals.

my $serial = 0;

sub session ($created, $expires, $revoked = undef, $count = undef) {
    my $first = $serial + 1;
    $serial += $count // 1;
    $pg->sql("insert into auth_sessions (session_id, account_id, jti, status,
            created_at, expires_at, revoked_at)
        select ('00000000-0000-4000-a000-' || lpad(to_hex(n), 12, '0'))::uuid,
            account_id, gen_random_uuid(), @{[ $revoked ? q('REVOKED') : q('ACTIVE') ]},
            now() + interval '$created', now() + interval '$expires',
            @{[ $revoked ? qq(now() + interval '$revoked') : 'null' ]}
        from accounts, generate_series($first, $serial) n
        where account_name = 'one\@demo.test'");
    return sprintf '00000000-0000-4000-a000-%012x', $serial;
}

sub rotated ($session, $when) {
    $pg->sql("insert into rotated_tokens values ('$session',
        gen_random_uuid(), now() + interval '$when')");
}

sub left {
    return [ split /\n/, $pg->sql('select session_id from auth_sessions order by session_id') ];
}

sub count { return $pg->sql("select count(*) from $_[0]") }

# An assertion of a client that may be forgotten, and one that may not.
$pg->sql("insert into client_assertions values (sha256('old'), now() - interval '61 minutes'),
    (sha256('new'), now() + interval '1 hour')");

sub swept { return $c->done('sweep', @_)->{sessions} }

# -- what goes, and what stays

my @stay = (
    session('-1 hour', '1 hour'), session('-80 days', '10 days'),
    session('-9 days', '-6 days -23 hours'),
    session('-9 days', '20 days', '-6 days -23 hours'),
);
my @go = (
    session('-9 days', '-7 days -1 hour'), session('-9 days', '20 days', '-7 days -1 hour'),
    session('-90 days', '-60 days', '-80 days'),
);
rotated($stay[0], '-9 minutes');
rotated($stay[0], '-11 minutes') for 1 .. 3;
rotated($go[0], '-1 minute');
$pg->sql("insert into login_attempts select sha256(n::text::bytea), '192.0.2.1', 1,
        now() + n * interval '1 minute' + interval '30 seconds'
    from generate_series(-9, 10) n");
# Times that nobody can add to do not stop it.
$pg->sql("update auth_sessions set access_until = '294276-12-31 23:59:59Z'
    where session_id = '$go[0]'");
# What gateways were told stays for an hour more, by clocks that disagree.
$pg->sql("insert into session_revocations (session_id, dies_at)
    select gen_random_uuid(), now() - n * interval '1 minute' from unnest('{59, 61}'::int[]) n");
is_deeply $c->done('sweep'), { sessions => 3, rotatedTokens => 3, attempts => 8,
    revocations => 1, busy => JSON::PP::false() }, 'what went';
is $pg->sql('select session_id from session_revocations where session_id is not null
    and dies_at > now()'), $go[0], 'of which gateways are told if a token may be alive';
$pg->sql("delete from session_revocations where session_id = '$go[0]'");
is count('session_revocations'), 1, 'and nothing else';
is_deeply $c->events, ['sweep.done'], 'audited';
is_deeply left(), \@stay, 'ended sessions stay for 7 days, others for ever';
is count('rotated_tokens'), 1, 'rotated-out tokens that still count stay';
is count('login_attempts'), 12, 'and so do failed logins';
is swept(), 0, 'again: nothing';
is_deeply $c->events, [], 'and not audited';
is swept(qw(--older-than 166h)), 2, '--older-than';
is swept(qw(--older-than 0)), 0, 'even at 0';
is $pg->sql("select string_agg((jti_sha256 = sha256('new'))::text, ' ') from client_assertions"), 'true',
    'an assertion that has expired goes';
is_deeply left(), [ @stay[ 0, 1 ] ], 'what ended goes, what did not stays';
# -- others: rows that are held are passed over, a sweep going on is left alone

session('-9 days', '-8 days', undef, 3);
my $hold = $pg->begin("select 1 from auth_sessions
    where session_id = (select max(session_id::text)::uuid from auth_sessions) for update");
my $start = time;
is swept(), 2, 'a row that is held is passed over';
cmp_ok time - $start, '<', 10 * $slack, 'before a statement is given up';
$pg->end($hold, 'rollback');
is swept(), 1, 'and goes the next time';
session('-9 days', '-8 days');
$hold = $pg->begin('select pg_advisory_xact_lock(7236589412357)');
ok $c->done('sweep')->{busy}, 'another process is at it: nothing is done';
my ($status, $out) = $c->run('sweep');
like "$status $out", qr/\A0 .*another process is sweeping/s, 'which is no failure, and said';
$pg->end($hold, 'rollback');
is swept(), 1, 'then it is done';

# Vacuum goes on meanwhile: who holds the lock and does nothing else has no snapshot,
# whatever level the role's transactions have by default.  (The one that waits has
# one, which shows that it would be seen.)

sub xmin {
    return $pg->sql("select coalesce(backend_xmin::text, 'none')
        from pg_stat_activity where application_name = 'identity-service'
        and $_[0]", user => 'postgres');
}

for my $level ('read committed', 'repeatable read') {
    $pg->sql("alter role platform set default_transaction_isolation
        = '$level'", user => 'postgres');
    my $hold = $pg->begin('lock table rotated_tokens');
    my $sweep = $c->start('sweep');
    ok eventually(sub { xmin("wait_event_type = 'Lock'") =~ /\A\d+\z/ }),
        "$level: a sweep waits, with a snapshot";
    is xmin("state = 'idle in transaction'"), 'none',
        "$level: its lock holds vacuum back by none";
    $pg->end($hold, 'rollback');
    ok $sweep->wait_end(60 * $slack), "$level: it goes on";
    is $sweep->status, 0, "$level: and ends well";
}
$pg->sql('alter role platform reset default_transaction_isolation', user => 'postgres');

# -- many: small batches, each of some blocks

session('-90 days', $_->[0], undef, $_->[1])
    for [ '-60 days', 4000 ], [ '5 days', 1000 ], [ '-60 days', 4000 ];
$pg->sql("insert into login_attempts
    select sha256(n::text::bytea), '192.0.2.2', 1, now() + interval '1 hour'
    from generate_series(1, 5000) n");
$pg->sql('analyze');
$pg->logged;
is swept(), 8000, 'many';
my $plans = $pg->logged;
is count('auth_sessions'), 1002, 'and only those';
my $batches = () = $plans =~ /DELETE FROM auth_sessions WHERE session_id/g;
cmp_ok $batches, '>=', 8000 / 500, "$batches batches";
ok $plans =~ /Tid Range Scan on auth_sessions/, 'by ranges of blocks';
ok $plans =~ /Index Scan (?:using|on) auth_sessions(?:_p\d+)?_pkey/, 'and by id';
is scalar(grep { $_ > 500 } $plans =~ /LockRows .*? rows=(\d+)\S* loops/g), 0,
    'none larger than it should be';
my $scan = qr/Seq Scan on (?:auth_sessions|login_attempts)/;
ok $plans !~ $scan, 'no statement reads a whole table';
$pg->logged;
count('auth_sessions where expires_at < now()');
ok $pg->logged =~ $scan, 'one that does would be seen';

# -- by itself, in more than one process, while clients are served

session('-90 days', '-60 days', undef, 6000);
my %env = (PLATFORM_SWEEP_INTERVAL => '1s', PLATFORM_LOG_LEVEL => 'debug');
my $identity = $t->identity_face(%env);
client_of($t);
my $second = $t->identity(%env, name => 'second');
my $idle = $t->identity(PLATFORM_SWEEP_INTERVAL => '0', name => 'idle');
my $session = logged_in('one');
my ($refreshes, @took, %answers) = (0);
# They answer once they have migrated, for which they wait for each other.
$t->fcgi($_->address)->request(GET => '/healthz') for $second, $idle;
$pg->logged;
ok eventually(sub {
    my $begun = time;
    my $res = refresh($session);
    push @took, time - $begun;
    $answers{ $res->status }++;
    $session = $res->json;
    return ++$refreshes % 20 == 0 && count('auth_sessions') == 1003;
}), 'ended sessions go by themselves';
is_deeply [ keys %answers ], [200], "$refreshes refreshes meanwhile";
@took = sort { $a <=> $b } @took;
cmp_ok $took[ $#took / 2 ], '<', 0.5 * $slack, 'as quick as ever';
unlike $pg->logged, qr/still waiting for/, 'and none waits for a lock';

# A round is logged at its end, when its rows have been gone for a moment.
ok eventually(sub {
    my $total = 0;
    $total += $_->{sessions} for map {
        grep { $_->{event} eq 'sweep.done' } $_->log_lines
    } $identity, $second;
    return $total == 6000;
}), 'counted once, whoever swept';
is scalar(grep { $_->{event} =~ /^sweep/ } $idle->log_lines), 0,
    'PLATFORM_SWEEP_INTERVAL=0: never';
$second->stop;
$idle->stop;

# -- a database that leaves, comes back, or hangs

$pg->stop('INT');
ok eventually(sub { grep { $_->{event} eq 'sweep.failed' }
    $identity->log_lines }), 'no database: it says so';
$pg->start;
session('-90 days', '-60 days', undef, 10);
ok eventually(sub { count('auth_sessions') == 1003 }), 'and goes on when it is back';
$pg->freeze('STOP');
my $hangs = time;
eventually(sub { time > $hangs + 1.2 * $slack });    # a sweep begins each second
my $process = $identity->process->expect_end;
$start = time;
$process->signal('TERM');
ok $process->wait_end(60), 'a sweep that hangs keeps nobody';
is $process->status, 0, 'exit 0';
cmp_ok time - $start, '<', 8 * $slack, 'nor as long as a statement may take';
$pg->freeze('CONT');

$t->done;
