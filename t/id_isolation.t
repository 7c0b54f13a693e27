# Whatever level the database role's transactions have by default, the service
# and the operator's commands work at READ COMMITTED: who waited for a row then
# sees what became of it.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;
use Platform::Test::Load;
use Platform::Test::Sessions;

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $identity = $t->identity_face(PLATFORM_AUTH_REFRESH_RETRY_WINDOW => '30s');
my $port = client_of($t);
my $c = Platform::Test::Commands->new(test => $t,
    env => { PLATFORM_DB_SEED_ON_START => 'false' });
my $credential = $Platform::Test::Client::CREDENTIAL;

# One that waits for a lock, by a part of its text.
sub waits ($sql) {
    return ok eventually(sub { $pg->sql("select count(*) from pg_stat_activity
        where wait_event_type = 'Lock' and query like '%$sql%'
        and pid <> pg_backend_pid()", user => 'postgres') }), "waits: $sql";
}

# One that is asked for and not waited for.
sub begin ($path, $json) {
    my $client = Platform::Test::Http->new(port => $port);
    $client->send(http_request_bytes(POST => "/api/auth/$path", json => $json));
    return $client;
}

for my $level ('repeatable read', 'serializable') {
    $pg->sql("alter role platform set default_transaction_isolation = '$level'",
        user => 'postgres');
    restart($identity);
    is $pg->sql('show transaction_isolation'), $level, "the role has $level";

    # A login that has the account and comes no further, and an operator who
    # ends all sessions of it meanwhile.
    my $holder = $pg->begin('select 1 from members for update', user => 'postgres');
    my $login = begin(login => { account => 'one@demo.test', credential => $credential });
    waits('INSERT INTO auth_sessions');
    $t->write_file('credential', $credential = $c->secret($credential . '+'));
    my $operator = $c->start({ redirect => '<' . $t->dir . '/credential' },
        qw(account set-credential one@demo.test));
    waits('FOR NO KEY UPDATE');
    $pg->end($holder, 'rollback');
    my $res = $login->read_response;
    ok $operator->wait_end(60 * $t->scale), 'the operator goes on';
    is_deeply [ $operator->status, $res->status ], [ 0, 200 ],
        'and sets the credential; the login was the first';
    is_problem(refresh($res->json), 401, 'AUTH_SESSION_NOT_ACTIVE',
        "$level: its session has ended");

    # Three refreshes with one token, lined up behind the row: the first
    # replaces it, the others see that it did.
    my $token = logged_in('one', credential => $credential)->{refreshToken};
    my $row = "from auth_sessions where session_id = '@{[ session_of($token) ]}'";
    my $held = $pg->begin("select 1 $row for update");
    my @clients = map { begin(refresh => { refreshToken => $token }) } 1 .. 3;
    ok $pg->waiting(3), 'three wait';
    ok $pg->end($held, 'commit'), 'the row is let go';
    my %given = map { my $res = $_->read_response;
        ($res->json->{refreshToken} // $res->body) => 1 } @clients;
    is scalar keys %given, 1, "$level: one successor, for all of them" or diag explain \%given;
    is $pg->sql("select jti $row"), claims((keys %given)[0])->{jti}, "$level: the row's";

    # Selections beside refreshes of the same sessions.
    my $sessions = Platform::Test::Sessions->new;
    my $load = Platform::Test::Load->new(port => $port, clients => 16);
    $sessions->log_in($load, several => 4);
    my @all = $sessions->all;
    my ($left, %answers) = (200 / $t->scale);
    $load->run(sub ($client, @) {
        my $s = $all[ $client->{number} % 4 ];
        return undef if $left-- <= 0;
        return $client->{number} < 4 ? $sessions->refresh($s) : $sessions->select_branch($s);
    }, sub {
        $answers{"$_[1]{status} $_[1]{code}"}++;
        $sessions->note(@_);
    });
    $sessions->check_stale;
    is_deeply $sessions->{broken}, [], 'no answer contradicts another';
    delete $answers{'503 AUTH_BUSY'};    # its scope moved three times
    is_deeply [ sort keys %answers ],
        [ '200 AUTH_REFRESH_SUCCESS', '200 AUTH_SELECT_BRANCH_SUCCESS' ],
        "$level: refreshes and selections hold each other up, no more"
        or diag explain \%answers;
}

$t->done;
