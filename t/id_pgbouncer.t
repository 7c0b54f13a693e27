# The service through a real PgBouncer in transaction mode, where every
# transaction may run on another server connection.

use Platform::Test;
use Platform::Test::Client;
use Time::HiRes ();

my $pgbouncer = Platform::Test::Env::find('pgbouncer')
    or plan skip_all => 'pgbouncer is not installed';

my $t = Platform::Test->new;
my $pg = $t->postgres(empty => 1);
# Nothing can be set on connections that are not its own: the service's
# statements bring their level and their timeout along.
$pg->sql("alter role platform set default_transaction_isolation
    = 'serializable'", user => 'postgres');
my $port = $t->port('pgbouncer');
mkdir my $home = $t->dir . '/bouncer';
$t->write_file('bouncer/users', qq("platform" "test"\n));
my $conf = $t->write_file('bouncer/pgbouncer.ini', <<"CONF");
[databases]
platform = host=$pg->{home} dbname=platform user=platform
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = $port
unix_socket_dir =
auth_type = md5
auth_file = $home/users
pool_mode = transaction
default_pool_size = 3
server_login_retry = 1
CONF
my $user = Platform::Test::Env::unprivileged();
system('chown', '-R', "$user:", $home) == 0 or die "chown failed\n" if $user;

sub start_pgbouncer {
    my $process = $t->track(Platform::Test::Process->start(
        name => 'pgbouncer', dir => $home, log => $t->dir . '/pgbouncer.log',
        user => $user, cmd => [ $pgbouncer, $conf ], deathsig => 'KILL',
        # At once: from 1.23 on SIGTERM waits until all clients are gone.
        stop_signal => 'QUIT', ok_status => ['any'],
    ));
    eventually(sub { IO::Socket::INET->new(
        PeerAddr => '127.0.0.1', PeerPort => $port) }) or die "pgbouncer did not start\n";
    return $process;
}

my $bouncer = start_pgbouncer();
my $identity = $t->identity_face(
    PLATFORM_DB_HOST => '127.0.0.1', PLATFORM_DB_PORT => $port, PLATFORM_DB_PASSWORD => 'test',
    map({ ("PLATFORM_DB_$_" => 'platform') } qw(NAME USER)), PLATFORM_DB_PREPARED => 'false',
    PLATFORM_AUTH_REFRESH_RETRY_WINDOW => '60s', PLATFORM_DB_STATEMENT_TIMEOUT => '2s',
    PLATFORM_REQUEST_TIMEOUT => '5s');
my $face = client_of($t);

# -- it migrated and seeded through it, and serves

is http_get($face, '/readyz')->status, 200, 'ready';
my @sessions = map { logged_in('several') } 1 .. 8;
my $rounds = $t->scale > 1 ? 1 : 12;
my %status;
for my $round (1 .. $rounds) {
    my @all = map { $_->read_response } map {
        sent(refresh => { refreshToken => $_->{refreshToken} }),
        sent('select-branch', { branchId => branch(31 + $round % 3) },
            token => $_->{accountAccessToken}) } @sessions;
    $status{ $_->status }++ for @all;
    $sessions[$_]{refreshToken} = $all[ 2 * $_ ]->json->{refreshToken} for 0 .. 7;
}
is_deeply \%status, { 200 => 16 * $rounds }, 'refreshes and selections at once';
unlike $identity->log_text, qr/could not serialize/, 'at READ COMMITTED';

# What gateways are told goes on from poll to poll, on whatever connection.
my $cursor;
for my $round (0 .. 3) {
    my $own = logged_in('one');
    is logout($own)->status, 200, 'a logout';
    my $page = http_get($face, '/internal/revocations' . ($cursor ? "?after=$cursor" : ''))->json;
    is_deeply [ map { $_->{id} } @{ $page->{revocations} } ], [ session_of($own) ],
        'is told, and no more';
    $cursor = $page->{cursor};
}

# The audit names who made a change in the transaction of the change, and nothing of it is
# left on the connection for the next one.
my $psql = Platform::Test::Env::postgres('psql')
    . " -XAtq -h 127.0.0.1 -p $port -U platform -d platform";
sub through_it ($sql) { return `PGPASSWORD=test $psql -c "$sql" 2>&1` =~ s/\n\z//r }
sub newest { return $pg->sql('select coalesce(max(event_id), 0) from audit_events') }
sub by_whom ($since) {
    return [ split /\n/, $pg->sql("select concat_ws(' ', event, by_account, operator)
        from audit_events where event_id > $since order by event_id") ];
}
for my $round (0 .. 3) {
    my ($mine, $other) = map { logged_in('one') } 1 .. 2;
    my $since = newest();
    is http($face, DELETE => '/api/auth/sessions/' . session_of($other),
        token => $mine->{accessToken})->status, 200, 'a session that its owner ends';
    is_deeply by_whom($since), [ 'auth.session.ended ' . claims($mine)->{account_id} ],
        'the audit: by its owner';
    $since = newest();
    is through_it("update accounts set account_name = 'round$round\@demo.test'
        where account_name like 'disabled\@%' or account_name like 'round%'"), '', 'SQL by another client';
    is_deeply by_whom($since), ['account.renamed platform'], 'the audit: by its role';
}

# The control: many clients did share few connections.
my $backends = $pg->sql("select count(*) from pg_stat_activity
    where usename = 'platform' and application_name <> 'psql'");
cmp_ok $backends, '<=', 3, "$backends connections to the server";
my $clients = grep { m{/fd/} && (readlink // '') =~ /^socket:/ }
    glob '/proc/' . $identity->pid . '/fd/*';
cmp_ok $clients, '>', $backends + 2, "$clients sockets of the service";
# Nothing of ours stays behind there for whoever comes next.
my $set = join '', map { scalar `PGPASSWORD=test $psql -c 'show $_'` }
    qw(default_transaction_isolation statement_timeout lock_timeout);
is $set, "serializable\n0\n0\n", 'and sets nothing on them';
unlike $t->read_file("$pg->{name}.log"), qr/WARNING/, 'the server has nothing to warn of';

my $s = logged_in('several');
my @answers = map { next_of(refresh($s)) } 1, 2;
is $answers[1], $answers[0], 'a refresh that is sent again: the same token';

# -- nothing half done: what was given up on does not happen later

$s->{refreshToken} = $answers[0];

# How a refresh of it ends, and whether within the time that a request has.
sub answer {
    my $start = Time::HiRes::time();
    my $res = refresh($s);
    $s = $res->json if $res->status == 200;
    my $took = Time::HiRes::time() - $start;
    return $took < 12 * $t->scale ? $res->status : sprintf 'after %.1f s', $took;
}

my $holder = $pg->begin("select 1 from auth_sessions
    where session_id = '@{[ session_of($s) ]}' for update", user => 'postgres');
is answer(), 503, 'a refresh of a row that is locked';
ok eventually(sub { $t->read_file("$pg->{name}.log")
    =~ /canceling statement due to statement timeout/ }),
    'by the server itself, which does not go on with it';
$pg->end($holder, 'rollback');
ok eventually(sub { !$pg->sql("select count(*) from pg_stat_activity
    where query like 'UPDATE%' and state = 'active'") }),
    'the lock is gone, and who waited for it';
is answer(), 200, 'the token was not used up meanwhile';

restart($identity, DB_LOCK_TIMEOUT => '0.1s');
$holder = $pg->begin("select 1 from auth_sessions
    where session_id = '@{[ session_of($s) ]}' for update", user => 'postgres');
is_problem(refresh($s), 503, 'AUTH_BUSY', 'a wait for a row ends earlier');
ok eventually(sub { $t->read_file("$pg->{name}.log")
    =~ /canceling statement due to lock timeout/ }), 'by the server itself, too';
$pg->end($holder, 'rollback');
ok eventually(sub { answer() eq '200' }), 'and the token was not used up';

# -- the pooler comes and goes

$bouncer->stop;
is answer(), 503, 'no pooler: 503';
$bouncer = start_pgbouncer();
ok eventually(sub { answer() eq '200' }), 'it is back: 200';
is logout($s)->status, 200, 'logout';
is answer(), 401, 'and it is over';

$t->done;
