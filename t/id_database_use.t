# How the service uses its database: few connections, bounded waiting, without
# prepared statements where a pooler wants that, and nothing half done.  Whatever level
# the role's transactions have by default, the service and the operator's commands work
# at READ COMMITTED: who waited for a row then sees what became of it.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;
use Platform::Test::Load;
use Platform::Test::Sessions;
use Time::HiRes ();

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $identity = $t->identity_face(PLATFORM_DB_POOL_SIZE => 2, PLATFORM_REQUEST_TIMEOUT => '12s',
    PLATFORM_DB_STATEMENT_TIMEOUT => '1s');
my $port = client_of($t);
my $c = Platform::Test::Commands->new(test => $t, env => { PLATFORM_DB_SEED_ON_START => 'false' });

my $ours = "from pg_stat_activity where application_name = 'identity-service'";
sub connections { return $pg->sql("select count(*) $ours") }

# Cuts those there are behind the service's back.
sub cut { return $pg->sql("select pg_terminate_backend(pid) $ours", user => 'postgres') }

# One that waits for a lock, by a part of its text.
sub waits ($sql) {
    return ok eventually(sub { $pg->sql("select count(*) from pg_stat_activity
        where wait_event_type = 'Lock' and query like '%$sql%'
        and pid <> pg_backend_pid()", user => 'postgres') }), "waits: $sql";
}

# Sessions of several@demo.test that are used by so many clients at once, as $next->(CLIENT)
# says: how often there was each answer, none of which contradicts another.
sub loaded ($clients, $next) {
    my $sessions = Platform::Test::Sessions->new;
    my $load = Platform::Test::Load->new(port => $port, clients => $clients);
    $sessions->log_in($load, several => 4);
    my @all = $sessions->all;
    my ($left, %answers) = (int(100 / $t->scale));
    $load->run(sub ($client, @) {
        return $left-- > 0 ? $next->($sessions, $client, $all[ $client->{number} % 4 ]) : undef;
    }, sub {
        $answers{"$_[1]{status} $_[1]{code}"}++;
        $sessions->note(@_);
    });
    $sessions->check_stale;
    is_deeply $sessions->{broken}, [], 'no answer contradicts another';
    return (\%answers, @all);
}

# -- few connections

my @answers = map { logged_in('one') } 1 .. 3;
my @clients = map { sent(refresh => { refreshToken => $answers[ $_ % 3 ]{refreshToken} }) } 1 .. 60;
is_deeply [ sort map { $_->read_response->status } @clients ], [ (200) x 3, (401) x 57 ], 'sixty requests';
# The thread that sweeps has one of its own for a while.
ok eventually(sub { connections() == 2 }), 'over two connections';

# -- a lock that somebody holds: 503 in bounded time, nothing half done

# One test: the answer to a refresh of a row that is held.
sub in_vain ($session) {
    my $held = $pg->begin("select 1 from auth_sessions where session_id = '"
        . session_of($session) . "' for update");
    my $start = Time::HiRes::time();
    is_problem(refresh($session), 503, 'DATABASE_UNAVAILABLE', 'a refresh of that row');
    cmp_ok Time::HiRes::time() - $start, '<', 9 * $t->scale, 'after its timeout, not its own';
    ok eventually(sub { login('one')->status == 200 }), 'others go on';
    $pg->end($held, 'rollback');
}

my $answer = logged_in('one');
in_vain($answer);
my $token = next_of(refresh($answer));    # it was not used up

# -- connections cut behind our back are made again without a failure: one that a
#    refresh needs, and all of them, which had just been used, for what only reads

{
    cut();
    ok eventually(sub { connections() == 0 }), 'connections are cut';
    $token = next_of(refresh($token));
    ok eventually(sub {    # until two of them ask at once
        http_parallel([ ([ $port, http_request_bytes(GET => '/readyz') ]) x 20 ]);
        return connections() == 2;
    }), 'two connections';
    cut();
    is http_get($port, '/readyz')->status, 200, 'so does a look';
}

# -- a server that grants fewer connections than the pool may have: whoever
#    cannot make one waits for those there are

$pg->sql('alter role platform connection limit 3', user => 'postgres');
restart($identity, WORKER_THREADS => 4, DB_POOL_SIZE => 4);
my ($answers, @own);
ok eventually(sub {    # until four ask at once
    ($answers, @own) = loaded(4, sub ($sessions, $client, $s) { $sessions->refresh($s) });
    is_deeply [ keys %$answers ], ['200 AUTH_REFRESH_SUCCESS'],
        'four at a time over three connections' or diag explain $answers;
    return $identity->log_text =~ /too many connections for role/;
}), 'and there were no more';

# The fourth waits although the server has just refused it a connection.
restart($identity, DB_STATEMENT_TIMEOUT => '9s');
my @sessions = map { logged_in($_) } qw(one several two-workspaces two-hundred);
my $held = $pg->begin('select 1 from auth_sessions where session_id in ('
    . join(', ', map { "'" . session_of($_) . "'" } @sessions[ 0 .. 2 ]) . ') for update', user => 'postgres');
my @waiting = map { sent(refresh => { refreshToken => $_->{refreshToken} }) } @sessions[ 0 .. 2 ];
ok $pg->waiting(3), 'three have a connection each, and wait for a row';
my $log = length $identity->log_text;
push @waiting, sent(refresh => { refreshToken => $sessions[3]{refreshToken} });
ok eventually(sub { substr($identity->log_text, $log) =~ /too many connections for role/ }),
    'the fourth gets none';
$pg->end($held, 'rollback');
is_deeply [ map { $_->read_response->status } @waiting ], [ (200) x 4 ], 'and waits for one of theirs';
$pg->sql('alter role platform connection limit -1', user => 'postgres');

# -- a request that has run out of time says nothing of the server

restart($identity, REQUEST_TIMEOUT => '1s', DB_STATEMENT_TIMEOUT => '9s');
ok eventually(sub { http_get($port, '/readyz')->status == 200 }), 'it is ready';
$log = length $identity->log_text;
in_vain($own[0]{current});
unlike substr($identity->log_text, $log), qr/"db\.unavailable"/,
    'the server is there, and not said not to be';

# -- other levels of isolation

my $credential = $Platform::Test::Client::CREDENTIAL;
for my $level ('repeatable read', 'serializable') {
    $pg->sql("alter role platform set default_transaction_isolation = '$level'",
        user => 'postgres');
    restart($identity, REQUEST_TIMEOUT => undef, DB_STATEMENT_TIMEOUT => undef,
        DB_POOL_SIZE => undef, WORKER_THREADS => undef, AUTH_REFRESH_RETRY_WINDOW => '30s');
    is $pg->sql('show transaction_isolation'), $level, "the role has $level";

    # A login that has the account and comes no further, and an operator who
    # ends all sessions of it meanwhile.
    my $holder = $pg->begin('select 1 from members for update', user => 'postgres');
    my $login = sent(login => { account => 'one@demo.test', credential => $credential });
    waits('INSERT INTO auth_sessions');
    $t->write_file('credential', $credential = $c->secret($credential . '+'));
    my $operator = $c->start({ redirect => '<' . $t->dir . '/credential' },
        qw(account set-credential one@demo.test));
    waits('FOR NO KEY UPDATE');
    $pg->end($holder, 'rollback');
    my $res = $login->read_response;
    $operator->wait_end(60 * $t->scale);
    is_deeply [ $operator->status, $res->status ], [ 0, 200 ],
        'the operator sets the credential; the login was the first';
    is_problem(refresh($res->json), 401, 'AUTH_SESSION_NOT_ACTIVE', 'its session has ended');

    # Three refreshes with one token, lined up behind the row: the first
    # replaces it, the others see that it did.
    my $token = logged_in('one', credential => $credential)->{refreshToken};
    my $held = $pg->begin("select 1 from auth_sessions where session_id = '"
        . session_of($token) . "' for update");
    my @clients = map { sent(refresh => { refreshToken => $token }) } 1 .. 3;
    ok $pg->waiting(3), 'three wait';
    ok $pg->end($held, 'commit'), 'the row is let go';
    my %given = map { my $res = $_->read_response;
        ($res->json->{refreshToken} // $res->body) => 1 } @clients;
    is scalar keys %given, 1, "$level: one successor, for all of them" or diag explain \%given;
    my ($next) = keys %given;
    is row($next, 'jti'), claims($next)->{jti}, "$level: the row's";

    my ($answers) = loaded(16, sub ($sessions, $client, $s) {
        return $client->{number} < 4 ? $sessions->refresh($s) : $sessions->select_branch($s);
    });
    delete $answers->{'503 AUTH_BUSY'};    # its scope moved three times
    is_deeply [ sort keys %$answers ],
        [ '200 AUTH_REFRESH_SUCCESS', '200 AUTH_SELECT_BRANCH_SUCCESS' ],
        "$level: refreshes and selections hold each other up, no more"
        or diag explain $answers;
}
$pg->sql('alter role platform reset default_transaction_isolation', user => 'postgres');

# -- without prepared statements, by the second of two hosts

restart($identity, DB_PREPARED => 'false', REQUEST_TIMEOUT => '12s',
    DB_HOST => "/nonexistent,$pg->{home}");
my $several = logged_in('several');
$token = next_of(refresh($several));
is_deeply [ logout($token)->status, refresh($token)->status ], [ 200, 401 ], 'all of it works';

# -- a row that somebody holds: its account's clients wait shortly, others hardly

restart($identity, DB_HOST => $pg->{home}, map({ ($_ => undef) } qw(DB_PREPARED DB_STATEMENT_TIMEOUT
    DB_LOCK_TIMEOUT REQUEST_TIMEOUT QUEUE_TIMEOUT AUTH_REFRESH_RETRY_WINDOW)));
for my $case (
    ['auth_sessions', 20, sub ($sessions, $s) { $sessions->refresh($s) }],
    ['auth_sessions', 40, sub ($sessions, $s) { $sessions->logout($s) }],
    ['accounts', 40, sub ($sessions, $s) { $sessions->select_branch($s) }])
{
    my ($table, $clients, $request) = @$case;
    my $sessions = Platform::Test::Sessions->new;
    my $load = Platform::Test::Load->new(port => $port, clients => $clients + 1);
    $sessions->log_in($load, several => 1);
    my ($theirs) = $sessions->all;
    my $mine = logged_in('one', credential => $credential)->{refreshToken};
    my $held = $pg->begin("select 1 from $table where account_id
        = (select account_id from auth_sessions where session_id = '$theirs->{id}') for update",
        user => 'postgres');
    my ($until, %theirs, %others, @took) = (Time::HiRes::time() + 1.5);
    $load->run(sub ($client) {
        return undef if Time::HiRes::time() > $until;
        return $request->($sessions, $theirs) if $client->{number};
        return { path => '/api/auth/refresh', json => { refreshToken => $mine }, other => 1 };
    }, sub ($request, $answer) {
        my $what = "$answer->{status} $answer->{code}";
        return $theirs{$what}++ if !$request->{other};
        $others{$what}++;
        push @took, $answer->{took};
        ($mine) = $answer->{body} =~ /"refreshToken":"([^"]+)"/ if $answer->{status} == 200;
    });
    my $name = "$clients clients, and a row of $table";
    my @order = sort { $a <=> $b } @took;
    is_deeply [ keys %others ], ['200 AUTH_REFRESH_SUCCESS'], "$name: others are served"
        or diag explain \%others;
    cmp_ok $order[ @order / 2 ], '<', 0.1 * $t->scale, "$name: at once";
    is_deeply [ keys %theirs ], ['503 AUTH_BUSY'], "$name: AUTH_BUSY" or diag explain \%theirs;
    ok $pg->end($held, 'rollback');
    $theirs{ok} = 0;
    $request = { %{ $request->($sessions, $theirs) } };
    ok eventually(sub {
        http_post($port, $request->{path}, %$request{qw(json token)})->status == 200;
    }), "$name: let go, and all is well";
}

$t->done;
