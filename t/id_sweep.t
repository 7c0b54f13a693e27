# Sweeping: what goes and what stays, in small batches that wait for nobody,
# by one process at a time, by hand and by itself.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Commands;
use Test::More;
use Time::HiRes qw(sleep time);

my $t = Platform::Test->new(timeout => 600);
my $slack = $t->scale;
my $pg = $t->postgres(settings => {
    session_preload_libraries       => 'auto_explain',
    'auto_explain.log_min_duration' => 0,
    log_lock_waits                  => 'on',
    deadlock_timeout                => '200ms',
});
my $c = Platform::Test::Commands->new(test => $t);
$c->done('seed');

# One session: when it was made, expires and was revoked, as intervals.

my $serial = 0;

sub session {
    my ($created, $expires, $revoked) = @_;

    my $id = sprintf '00000000-0000-4000-a000-%012x', ++$serial;
    $pg->sql("insert into auth_sessions (session_id, account_id, jti, status,
            created_at, expires_at, revoked_at)
        select '$id', account_id, gen_random_uuid(),
            @{[ $revoked ? q('REVOKED') : q('ACTIVE') ]},
            now() + interval '$created', now() + interval '$expires',
            @{[ $revoked ? qq(now() + interval '$revoked') : 'null' ]}
        from accounts where account_name = 'one\@demo.test'");
    return $id;
}

sub rotated {
    my ($session, $when) = @_;

    $pg->sql("insert into rotated_tokens values ('$session',
        gen_random_uuid(), now() + interval '$when')");
    return;
}

sub left {
    return [ split /\n/, $pg->sql('select session_id from auth_sessions
        order by session_id') ];
}

sub count { return $pg->sql("select count(*) from $_[0]") }

# What goes, and what stays.

my @stay = (
    session('-1 hour', '1 hour'),
    session('-80 days', '10 days'),
    session('-9 days', '-6 days -23 hours'),
    session('-9 days', '20 days', '-6 days -23 hours'),
);
my @go = (
    session('-9 days', '-7 days -1 hour'),
    session('-9 days', '20 days', '-7 days -1 hour'),
    session('-90 days', '-60 days', '-80 days'),
);
rotated($stay[0], '-9 minutes');
rotated($stay[0], '-11 minutes') for 1 .. 3;
rotated($go[0], '-1 minute');
$pg->sql("insert into login_attempts
    select sha256(n::text::bytea), '192.0.2.1', 1,
        now() + n * interval '1 minute' + interval '30 seconds'
    from generate_series(-9, 10) n");

my $swept = $c->done('sweep');
is_deeply $swept, { sessions => 3, rotatedTokens => 3, attempts => 8,
    revocations => 0,
    busy => JSON::PP::false() }, 'what went';
is_deeply $c->events, ['sweep.done'], 'audited';
is_deeply left(), \@stay, 'ended sessions stay for 7 days, others for ever';
is count('rotated_tokens'), 1, 'rotated-out tokens that still count stay';
is count('login_attempts'), 12, 'and so do failed logins';
is $c->done('sweep')->{sessions}, 0, 'again: nothing';
is_deeply $c->events, [], 'and not audited';
is $c->done(qw(sweep --older-than 166h))->{sessions}, 2, '--older-than';
is_deeply left(), [ @stay[ 0, 1 ] ], 'what ended goes, what did not stays';
is $c->done(qw(sweep --older-than 0))->{sessions}, 0, 'even at 0';
my ($status, $out) = $c->run('sweep');
like $out, qr/\Asessions       0\nrotated tokens 0\nattempts       0\nrevocations    0\n\z/,
    'for people';

# Others: rows that are held are passed over, a sweep going on is left alone.

sub hold {
    my ($sql) = @_;

    my $p = Platform::Test::Process->start(
        name => 'hold', dir => $t->dir, log => $t->dir . '/hold.log',
        code => sub { eval { $pg->sql("begin; $sql; select pg_sleep(60)") } },
    )->expect_end;
    $t->track($p);
    eventually(sub { $pg->sql("select count(*) from pg_stat_activity
        where wait_event = 'PgSleep'") }) or die 'nothing holds';
    return $p;
}

sub release {
    my ($p) = @_;

    $pg->sql("select pg_terminate_backend(pid) from pg_stat_activity
        where wait_event = 'PgSleep'", user => 'postgres');
    $p->wait_end(60);
    return;
}

my @dead = map { session('-9 days', '-8 days') } 1 .. 3;
my $hold = hold("select 1 from auth_sessions
    where session_id = '$dead[1]' for update");
my $start = time;
is $c->done('sweep')->{sessions}, 2, 'a row that is held is passed over';
cmp_ok time - $start, '<', 10 * $slack, 'before a statement is given up';
release($hold);
is $c->done('sweep')->{sessions}, 1, 'and goes the next time';

# Vacuum goes on meanwhile: who holds the lock and does nothing else has no
# snapshot, whatever level the role's transactions have by default.  (The one
# that waits has one, which shows that it would be seen.)

sub xmin {
    return $pg->sql("select coalesce(backend_xmin::text, 'none')
        from pg_stat_activity where application_name = 'identity-service'
        and $_[0]", user => 'postgres');
}

for my $level ('read committed', 'repeatable read') {
    $pg->sql("alter role platform set default_transaction_isolation
        = '$level'", user => 'postgres');
    my $stop = hold('lock table rotated_tokens');
    my $sweep = $c->start('sweep');
    ok eventually(sub { xmin("wait_event_type = 'Lock'") =~ /\A\d+\z/ }),
        "$level: a sweep waits, with a snapshot";
    is xmin("state = 'idle in transaction'"), 'none',
        "$level: its lock holds vacuum back by none";
    release($stop);
    ok $sweep->wait_end(60 * $slack), "$level: it goes on";
    is $sweep->status, 0, "$level: and ends well";
}
$pg->sql('alter role platform reset default_transaction_isolation',
    user => 'postgres');

session('-9 days', '-8 days');
$hold = hold('select pg_advisory_xact_lock(7236589412357)');
ok $c->done('sweep')->{busy}, 'another process is at it: nothing is done';
($status, $out) = $c->run('sweep');
is $status, 0, 'which is no failure';
like $out, qr/another process is sweeping/, 'and said';
release($hold);
is $c->done('sweep')->{sessions}, 1, 'then it is done';

# Many: small batches, each of some blocks.

sub fill {
    my ($count, $ends) = @_;

    $pg->sql("insert into auth_sessions (session_id, account_id, jti,
            created_at, expires_at)
        select gen_random_uuid(), account_id, gen_random_uuid(),
            now() - interval '90 days', now() + interval '$ends'
        from accounts, generate_series(1, $count)
        where account_name = 'one\@demo.test'");
    return;
}

fill(12000, '-60 days');
fill(3000, '5 days');
fill(12000, '-60 days');
$pg->sql("insert into login_attempts
    select sha256(n::text::bytea), '192.0.2.2', 1, now() + interval '1 hour'
    from generate_series(1, 5000) n");
$pg->sql('analyze');
my $log_start = -s $pg->{log};
is $c->done('sweep')->{sessions}, 24000, 'many';
open my $fh, '<', $pg->{log} or die;
seek $fh, $log_start, 0;
my $plans = do { local $/; <$fh> };
is count('auth_sessions'), 3002, 'and only those';
my $batches = () = $plans =~ /DELETE FROM auth_sessions WHERE session_id/g;
cmp_ok $batches, '>=', 24000 / 500, "$batches batches";
ok $plans =~ /Tid Range Scan on auth_sessions/, 'by ranges of blocks';
ok $plans =~ /Index Scan (?:using|on) auth_sessions_pkey/, 'and by id';
my $scan = qr/Seq Scan on (?:auth_sessions|login_attempts)/;
ok $plans !~ $scan, 'no statement reads a whole table';
count('auth_sessions where expires_at < now()');
seek $fh, $log_start, 0;
ok do { local $/; <$fh> } =~ $scan, 'one that does would be seen';
my @rows = $plans =~ /LockRows .*? rows=(\d+) loops/g;
is scalar(grep { $_ > 500 } @rows), 0, 'none larger than it should be';

# By itself, in more than one process, while clients are served.

fill(20000, '-60 days');
my %env = (PLATFORM_SWEEP_INTERVAL => '1s', PLATFORM_LOG_LEVEL => 'debug');
my $identity = $t->identity(%env);
my $second = $t->identity(%env, name => 'second');
my $idle = $t->identity(PLATFORM_SWEEP_INTERVAL => '0', name => 'idle');
my $json = JSON::PP->new->utf8;

sub call {
    my ($path, $body) = @_;

    my $answer = $t->fcgi($identity->address)->request(
        POST => "/api/auth/$path", body => $json->encode($body));
    return ($answer->{status}, $json->decode($answer->{body}));
}

my (undef, $session) = call(login => { account => 'one@demo.test',
    credential => $Platform::Test::Stack::CREDENTIAL });
my ($refreshes, @took, %answers) = (0);
$log_start = -s $pg->{log};
my $swept_all = eventually(sub {
    my $begun = time;
    ($status, $session)
        = call(refresh => { refreshToken => $session->{refreshToken} });
    push @took, time - $begun;
    $answers{$status}++;
    return ++$refreshes % 20 == 0 && count('auth_sessions') == 3003;
});
ok $swept_all, 'ended sessions go by themselves';
is_deeply [ keys %answers ], [200], "$refreshes refreshes meanwhile";
@took = sort { $a <=> $b } @took;
cmp_ok $took[ $#took / 2 ], '<', 0.5 * $slack, 'as quick as ever';
seek $fh, $log_start, 0;
is scalar(grep {/still waiting for/} <$fh>), 0, 'and none waits for a lock';

# A round is logged at its end, when its rows have been gone for a moment.
my $total;
eventually(sub {
    $total = 0;
    $total += $_->{sessions} for map {
        grep { $_->{event} eq 'sweep.done' } $_->log_lines
    } $identity, $second;
    return $total >= 20000;
});
is $total, 20000, 'counted once, whoever swept';
is scalar(grep { $_->{event} =~ /^sweep/ } $idle->log_lines), 0,
    'PLATFORM_SWEEP_INTERVAL=0: never';
$second->stop;
$idle->stop;

# A database that leaves, comes back, or hangs.

$pg->stop('INT');
ok eventually(sub { grep { $_->{event} eq 'sweep.failed' }
    $identity->log_lines }), 'no database: it says so';
$pg->start;
fill(10, '-60 days');
ok eventually(sub { count('auth_sessions') == 3003 }),
    'and goes on when it is back';
$pg->freeze('STOP');
sleep 1.5 * $slack;
my $process = $identity->process->expect_end;
$start = time;
$process->signal('TERM');
ok $process->wait_end(60), 'a sweep that hangs keeps nobody';
is $process->status, 0, 'exit 0';
cmp_ok time - $start, '<', 8 * $slack, 'nor as long as a statement may take';
$pg->freeze('CONT');

$t->done;
