# The service through a real PgBouncer in transaction mode, where every
# transaction may run on another server connection.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Load;
use Platform::Test::Sessions;
use Test::More;
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
        PeerAddr => '127.0.0.1', PeerPort => $port) })
        or die "pgbouncer did not start\n";
    return $process;
}

my $bouncer = start_pgbouncer();
my $identity = $t->identity_face(
    PLATFORM_DB_HOST     => '127.0.0.1',
    PLATFORM_DB_PORT     => $port,
    PLATFORM_DB_NAME     => 'platform',
    PLATFORM_DB_USER     => 'platform',
    PLATFORM_DB_PASSWORD => 'test',
    PLATFORM_DB_PREPARED => 'false',
    PLATFORM_AUTH_REFRESH_RETRY_WINDOW => '60s',
    PLATFORM_DB_STATEMENT_TIMEOUT => '3s',
    PLATFORM_REQUEST_TIMEOUT      => '8s',
);
my $face = $t->port('identity');

# -- it migrated and seeded through it, and serves

is http_get($face, '/readyz')->status, 200, 'ready';
my $sessions = Platform::Test::Sessions->new(retries => 1);
my $load = Platform::Test::Load->new(port => $face, clients => 16);
$sessions->log_in($load, several => 8);
my @all = $sessions->all;
is scalar @all, 8, 'eight sessions';

my $left = 400 / $t->scale;
my %busy;
$load->run(
    sub {
        my ($client) = @_;
        my $s = $all[ $client->{number} % 8 ];
        return undef if $left-- <= 0;
        return $client->{number} < 8 ? $sessions->refresh($s)
            : $sessions->select_branch($s);
    },
    sub {
        $busy{ $_[1]{status} }++;
        $sessions->note(@_);
    });
$sessions->check_stale;
is_deeply $sessions->{broken}, [], 'no answer contradicts another';
is grep({ /could not serialize/ } $identity->log_text), 0,
    'at READ COMMITTED';
cmp_ok $busy{200}, '>=', $t->scale > 1 ? 5 : 380, "$busy{200} succeed";

# What gateways are told goes on from poll to poll, on whatever connection.
my $feed = sub {
    my $res = http_get($face, '/internal/revocations'
        . (defined $_[0] ? "?after=$_[0]" : ''));
    is $res->status, 200, 'the feed' or diag $res->body;
    return $res->json;
};
my $cursor = $feed->()->{cursor};
for my $round (1 .. 3) {
    my $own = http_post($face, '/api/auth/login', json => {
        account => 'one@demo.test', credential => 'Demo-passw0rd!' })->json;
    is http_post($face, '/api/auth/logout', json => {
        refreshToken => $own->{refreshToken} })->status, 200, 'a logout';
    my $page = $feed->($cursor);
    is_deeply [ map { $_->{id} } @{ $page->{revocations} } ],
        [ (jwt_decode($own->{refreshToken}))[1]{session_id} ], 'is told';
    $cursor = $page->{cursor};
}
is_deeply $feed->($cursor)->{revocations}, [], 'and no more';

# The control: many clients did share few connections.
my $backends = $pg->sql("select count(*) from pg_stat_activity
    where usename = 'platform' and application_name <> 'psql'");
cmp_ok $backends, '<=', 3, "$backends connections to the server";
my $clients = grep { m{/fd/} && (readlink // '') =~ /^socket:/ }
    glob '/proc/' . $identity->pid . '/fd/*';
cmp_ok $clients, '>', $backends + 2, "$clients sockets of the service";
# Nothing of ours stays behind there for whoever comes next.
my $psql = Platform::Test::Env::postgres('psql')
    . " -XAtq -h 127.0.0.1 -p $port -U platform -d platform";
my $set = join '', map { scalar `PGPASSWORD=test $psql -c 'show $_'` }
    qw(default_transaction_isolation statement_timeout);
is $set, "serializable\n0\n", 'and sets nothing on them';
my $log = $t->read_file("$pg->{name}.log");
unlike $log, qr/WARNING/, 'the server has nothing to warn of';

# -- a refresh that is sent again

my ($retried) = $sessions->make($pg, jwt_key('identity'), 'several', 1);
my @answers = map { http_post($face, '/api/auth/refresh',
    json => { refreshToken => $retried->{current} }) } 1 .. 2;
is $answers[0]->status, 200, 'a refresh';
is $answers[1]->json->{refreshToken}, $answers[0]->json->{refreshToken},
    'sent again: the same token';

# -- nothing half done: what was given up on does not happen later

my $s = $all[0];
my $holder = fork // die "fork: $!\n";
if ($holder == 0) {
    eval { $pg->sql("begin; select 1 from auth_sessions
        where session_id = '$s->{id}' for update; select pg_sleep(300)", user => 'postgres') };
    require POSIX;
    POSIX::_exit(0);
}
ok eventually(sub { $pg->sql("select count(*) from pg_stat_activity
    where query like '%pg_sleep%' and state = 'active'
    and pid <> pg_backend_pid()", user => 'postgres') }), 'a row is locked';
my $start = Time::HiRes::time();
my $res = http_post($face, '/api/auth/refresh',
    json => { refreshToken => $s->{current} });
my $took = Time::HiRes::time() - $start;
is_problem($res, 503, 'DATABASE_UNAVAILABLE', 'a refresh of that row');
cmp_ok $took, '<', 12 * $t->scale, sprintf 'after %.1f s', $took;
ok eventually(sub { $t->read_file("$pg->{name}.log")
    =~ /canceling statement due to statement timeout/ }),
    'by the server itself, which does not go on with it';
$pg->sql("select pg_terminate_backend(pid) from pg_stat_activity
    where wait_event = 'PgSleep'", user => 'postgres');
waitpid $holder, 0;
ok eventually(sub { !$pg->sql("select count(*) from pg_stat_activity
    where query like 'UPDATE%' and state = 'active'") }),
    'the lock is gone, and who waited for it';
$res = http_post($face, '/api/auth/refresh',
    json => { refreshToken => $s->{current} });
is $res->status, 200, 'the token was not used up meanwhile';
$s->{current} = $res->json->{refreshToken};

# -- the pooler, and the server behind it, come and go

$bouncer->stop;
my $refresh = sub {
    my $answer = http_post($face, '/api/auth/refresh',
        json => { refreshToken => $s->{current} });
    $s->{current} = $answer->json->{refreshToken} if $answer->status == 200;
    return $answer->status;
};
is $refresh->(), 503, 'no pooler: 503';
$bouncer = start_pgbouncer();
ok eventually(sub { $refresh->() == 200 }), 'it is back: 200';
$pg->stop('INT');
$start = Time::HiRes::time();
is $refresh->(), 503, 'no server: 503';
cmp_ok Time::HiRes::time() - $start, '<', 12 * $t->scale, 'in bounded time';
$pg->start;
ok eventually(sub { $refresh->() == 200 }), 'it is back: 200';
is http_post($face, '/api/auth/logout',
    json => { refreshToken => $s->{current} })->status, 200, 'logout';
is $refresh->(), 401, 'and it is over';

$t->done;
