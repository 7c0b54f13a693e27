# A connection to the database breaks around a write, before it arrived or
# before it was answered, or the write is stuck on the way and arrives when
# nobody waits for it any more: what the client is told is true.

use IO::Select;
use IO::Socket::UNIX;
use Platform::Test;
use Platform::Test::Client;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my $unit = 2;    # seconds: a statement has one, a request two
my $pg = $t->postgres;

# A proxy before the database.  Once it is set to look out for a statement, it
# does with the next one of that name as it is told:
#   before  both connections are cut, the statement goes nowhere
#   after   it is done, and its answer is thrown away with the connection
#   killed  identity is killed, and it goes nowhere
#   done    it is done, then identity is killed
#   late    it is held for some seconds, and done then
#   stuck   likewise, and so is every further one until that time
#   refused it goes nowhere, and neither does a further one: the server reads only
sub proxy ($client, $state) {
    my $server = IO::Socket::UNIX->new(
        Peer => "$pg->{home}/.s.PGSQL.5432") or return;
    my $select = IO::Select->new($client, $server);
    while (my @ready = $select->can_read) {
        for my $from (@ready) {
            my $to = $from == $client ? $server : $client;
            sysread($from, my $bytes, 65536) or return;
            my $now = $state->get;
            if ($from == $client && $now->{statement}
                && $bytes =~ /B....\x00(?:$now->{statement})\x00/s)
            {
                $state->set(%$now, statement => '', %{ $now->{then} });
                return if $now->{how} eq 'before';
                return kill 'KILL', $now->{pid} if $now->{how} eq 'killed';
                if ($now->{how} eq 'refused') {
                    my $error = "SERROR\0C25006\0Mread-only\0\0";
                    syswrite $client, pack 'aNa*aNa', 'E', 4 + length $error, $error, 'Z', 5, 'I';
                    next;
                }
                end_after($server, $bytes) if $now->{how} =~ /^(?:after|done)$/;
                kill 'KILL', $now->{pid} if $now->{how} eq 'done';
                return if $now->{how} =~ /^(?:after|done)$/;
                sleep $now->{until} - time if time < $now->{until};
            }
            syswrite $to, $bytes;
        }
    }
}

# Until the server is ready for the next one: only then has it committed.
sub end_after ($server, $bytes) {
    syswrite $server, $bytes;
    my $seen = '';
    until ($seen =~ /Z\x00\x00\x00\x05I\z/) {
        sysread $server, $seen, 65536, length $seen or last;
    }
}

my $proxy = $t->http_server('database', undef, protocol => \&proxy);
my $identity = $t->identity_face(
    $pg->env,
    PLATFORM_DB_HOST              => '127.0.0.1',
    PLATFORM_DB_PORT              => $proxy->port,
    PLATFORM_DB_SSLMODE           => 'disable',
    PLATFORM_DB_STATEMENT_TIMEOUT => "${unit}s",
    PLATFORM_REQUEST_TIMEOUT      => 2 * $unit . 's',
);
client_of($t);

sub break ($statement, $how, $hold = undef, %then) {
    my $again = { statement => $statement };
    $proxy->set(statement => $statement, how => $how, until => time + ($hold // 0),
        then  => $how eq 'stuck' ? $again : \%then);
}

sub wait_until ($when) {
    sleep $when - time if time < $when;
}

sub met { return $proxy->get->{statement} eq '' }

# Every statement is prepared first, so that only its use is met below.
my $s = logged_in('several');
my ($branch, $other) = map { $_->{branchId} } @{ $s->{branches} };

sub selects ($to, $name = 'a selection') { is select_branch($s, $to)->status, 200, $name }
sub scoped { return row($s, "coalesce(active_branch_id::text, '-')") }
sub session { return row($s, 'jti', 'status', 'active_branch_id') }

selects($branch);
my $token = $s->{refreshToken};

# The session goes on; its token is the one that the client got.
sub goes_on ($res, $name) {
    is $res->status, 200, $name or diag $res->body;
    $token = $res->json->{refreshToken};
    is claims($token)->{jti}, row($s, 'jti'), "$name: its token is the session's";
    return $res->json;
}

goes_on(refresh($token), 'a refresh');
is logout(logged_in('several'))->status, 200, 'a logout';

# -- refresh

# A session in a scope that is lost takes two statements, any other one.
sub scope ($status) {
    $pg->sql("update branches set status = '$status' where branch_id = '$branch'");
    selects($branch) if $status eq 'ACTIVE';
}

my ($start, $before);
for my $statement (qw(session_refresh session_rotate)) {
    my $lost = $statement eq 'session_rotate';
    for my $how (qw(before after)) {
        my $what = "$statement, cut $how";
        my $used = $token;
        scope('INACTIVE') if $lost;
        break($statement => $how);
        my $said = goes_on(refresh($used), "$what: succeeds all the same");
        ok met(), "$what: the write was met";
        is_deeply [ scoped(), $said->{nextAction}{type} ],
            $lost ? [ '-', 'select_branch' ] : [ $branch, 'load_current_context' ],
            "$what: its scope, and the answer";
        is refresh($used)->code, 'AUTH_REFRESH_TOKEN_STALE', "$what: the old one is stale";
        scope('ACTIVE') if $lost;
    }

    # Given up on after its timeout, it is tried again; the first one, when it
    # comes through at last, changes nothing.
    scope('INACTIVE') if $lost;
    break($statement => 'late', 1.6 * $unit);
    $start = time;
    goes_on(refresh($token), "$statement, late: a second write did it");
    ok met(), "$statement, late: the write was met";
    $before = session();
    wait_until($start + 1.8 * $unit);
    is session(), $before, "$statement, late: the first changes nothing";
    scope('ACTIVE') if $lost;
}

# A primary that was replaced shows a write that no standby has: to read it is not to
# know that it stays.
restart($identity, AUTH_REFRESH_RETRY_WINDOW => '30s');
break(session_refresh => 'after', undef, statement => 'session_repeat', how => 'refused');
my $res = refresh($token);
is_problem($res, 503, 'DATABASE_UNAVAILABLE', 'refresh, read on a standby');
like $res->json->{detail}, qr/may or may not/, 'refresh, read on a standby: says so';
break('', '');
eventually(sub { ($res = refresh($token))->status < 500 });
goes_on($res, 'refresh, read on a standby: asked again');
restart($identity, AUTH_REFRESH_RETRY_WINDOW => undef);

# Every try is stuck: nobody knows, and nothing happens when all come through.
break('session_refresh|session_rotate' => 'stuck', 2.6 * $unit);
$start = time;
$res = refresh($token);
is_problem($res, 503, 'DATABASE_UNAVAILABLE', 'refresh, stuck');
like $res->json->{detail}, qr/may or may not/, 'refresh, stuck: says so';
cmp_ok time - $start, '<', 3 * $unit, 'refresh, stuck: in time';
$before = session();
wait_until($start + 2.8 * $unit);
break('', '');
is session(), $before, 'refresh, stuck: nothing happens later';
goes_on(refresh($token), 'refresh, stuck: the token is still good');

# -- select-branch

for my $case ([ before => $other ], [ after => $branch ]) {
    my ($how, $to) = @$case;
    break(session_select => $how);
    selects($to, "selection, cut $how: succeeds all the same");
    ok met(), "selection, cut $how: the write was met";
    is scoped(), $to, "selection, cut $how: and it has";
}

# A selection that arrives late must not undo one that was made since.
break(session_select => 'late', 1.6 * $unit);
$start = time;
selects($other, 'selection, late: a second write did it');
ok met(), 'selection, late: the first was met';
selects($branch, 'another selection');
wait_until($start + 1.8 * $unit);
is scoped(), $branch, 'selection, late: the last one stands';

# A read is simply read again.
break(session_read => 'before');
selects($branch, 'a selection whose read was cut');
ok met(), 'which was met';

# -- login: no token without its session

for my $how (qw(before after)) {
    break(session_create => $how);
    # Not turned away for want of a hash slot.
    eventually(sub { ($res = login('several'))->code ne 'AUTH_BUSY' });
    ok met(), "login, cut $how: the write was met";
    is_problem($res, 503, 'DATABASE_UNAVAILABLE', "login, cut $how");
    is scalar($res->header_all('Set-Cookie')), 0, "login, cut $how: no cookie";
}

# -- logout

for my $how (qw(before after)) {
    my $mine = logged_in('several');
    break(session_revoke => $how);
    is logout($mine)->status, 200,
        "logout, cut $how: succeeds all the same";
    ok met(), "logout, cut $how: the write was met";
    is row($mine, 'status'), 'REVOKED', "logout, cut $how: and it has";
}

# -- the process itself is killed around each write; who asks again, once it is there
#    again, gets what was done, or has it done now

restart($identity, AUTH_REFRESH_RETRY_WINDOW => '30s');
my $mine;
sub state_of_rows { return join "\n", map { row($_, qw(jti status active_branch_id)) } $s, $mine }
sub count { return $pg->sql('select count(*) from auth_sessions') }

for my $case (
    [ session_refresh => sub { refresh($token) } ],
    [ session_select => sub { select_branch($s, $other) } ],
    [ session_create => sub { login('several') } ],
    [ session_revoke => sub { logout($mine) } ],
) {
    my ($statement, $ask) = @$case;
    for my $how (qw(killed done)) {
        my $what = "$statement, $how";
        scope('ACTIVE');
        $mine = logged_in('several');
        ($before, my $sessions) = (state_of_rows(), count());
        $proxy->set(pid => $identity->pid);
        break($statement => $how);
        is $ask->()->status, 502, "$what: no answer";
        ok $identity->process->expect_end->wait_end(20) && met(), "$what: the write was met";
        restart($identity);
        is_deeply [ $before ne state_of_rows(), count() - $sessions ],
            $statement eq 'session_create' ? [ '', $how eq 'done' ? 1 : 0 ]
                : [ $how eq 'done', 0 ], "$what: what it has done";
        eventually(sub { ($res = $ask->())->status < 500 });
        is $res->status, 200, "$what: asked again" or diag $res->body;
        goes_on($res, $what) if $statement eq 'session_refresh';
        next if $statement ne 'session_revoke';
        is_problem(refresh($mine), 401, 'AUTH_SESSION_NOT_ACTIVE', $what);
    }
}

$t->done;
