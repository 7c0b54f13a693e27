# The fetch and the processes: a worker that dies with the lease, exits in the
# middle of a fetch, a single process, other event methods, an inherited guard.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Keys;
use Test::More;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my $key = jwt_key('a');
my $issuer = $t->issuer(body => jwks($key));
my $port = $t->port('gateway');
my $keys = <<'KEYS';
platform_gateway_key_soft_age 60s;
platform_gateway_key_cooldown 1s;
KEYS

# A fetch has as long as the cooldown is, and at least 5 s: on a busy machine
# that may be too short, and then there is one more.
my $long = $keys =~ s/cooldown \K1s/40s/r;

sub fetching {
    my ($before) = @_;

    return eventually(sub { $issuer->count > $before });
}

# The worker that fetches is killed: its lease runs out.

$issuer->set(hold => 1);
my $nginx = keys_gateway($t, main => 'worker_processes 3;', keys => $keys);
$t->start_nginx;
ok fetching(0), 'a worker fetches';
my ($inode_worker, $fetches);
ok eventually(sub {    # /proc shows no row of a table that changes meanwhile
    ($inode_worker) = grep { keys_connection($t, $_) } $nginx->workers;
}), 'which one is known by its connection';
$t->allow(qr/exited on signal 9/);
$fetches = $issuer->count;
kill 'KILL', $inode_worker;
my $began = time;
$issuer->set(hold => 0);
ok eventually(sub { keys_get($t, $key)->status == 200 }),
    'after it died with the lease another one fetches';
cmp_ok time - $began, '<', 30, 'once the lease has run out, not by age';
is $issuer->count, $fetches + 1, 'once';
ok eventually(sub { (my @w = $nginx->workers) == 3 }), 'its place is taken';
$t->stop($nginx);

# Exits in the middle of a fetch, by each signal.

for my $signal (qw(TERM QUIT)) {
    my $count = $issuer->count;
    my $failed = keys_failures($t);
    $issuer->set(hold => 1);
    keys_gateway($t, keys => $long);
    $t->start_nginx;
    ok fetching($count), 'a fetch is on its way';
    $t->stop($nginx, $signal);
    is scalar(keys_failures($t)), $failed, "SIG$signal does not wait for it";
    $issuer->set(hold => 0);
}

# A parked request is answered before the worker goes.

my $bytes = http_request_bytes(GET => '/branch',
    token => jwt_token('branch', $key));
sub parked {
    my @c = map { Platform::Test::Http->new(port => $port) } 1 .. 8;
    $_->send($bytes) for @c;
    ok eventually(sub { taken() == 8 }), 'requests wait for it';
    return @c;
}

# The gateway's connections that a worker has accepted and read, if all are so.
sub taken {
    my $hex = sprintf ':%04X', $port;
    open my $fh, '<', '/proc/self/net/tcp' or return 0;
    my @own = grep { $_->[1] =~ /$hex$/ && $_->[3] eq '01' }
        map { [ split ' ' ] } <$fh>;
    return (grep { $_->[4] !~ /:0+$/ || !$_->[9] } @own) ? 0 : scalar @own;
}

sub statuses {
    my %seen;
    for my $c (@_) {
        my $res = $c->read_response;
        $seen{ $res ? $res->status : 'none' } = 1;
    }
    return join ' ', sort keys %seen;
}

# Under valgrind some come too late for either.

my $all = Platform::Test::Env::valgrind() ? qr/200/ : qr/^200$/;

my $count = $issuer->count;
$issuer->set(hold => 1);
keys_gateway($t, keys => $long);
$t->start_nginx;
ok fetching($count), 'a fetch is on its way';
my @c = parked();
my $leaving = sub { scalar(() = $nginx->error_log =~ /gracefully shutting/g) };
my $left = $leaving->();
kill 'QUIT', $nginx->pid;
ok eventually(sub { $leaving->() >= $left + 2 }), 'the workers are told to go';
$issuer->set(hold => 0);
like statuses(@c), $all, 'SIGQUIT lets waiting requests have their key';
$t->stop($nginx, 'QUIT');

$count = $issuer->count;
$issuer->set(hold => 1);
keys_gateway($t, keys => $long);
$t->start_nginx;
ok fetching($count), 'a fetch is on its way';
@c = parked();
ok $t->reload, 'a reload';
$issuer->set(hold => 0);
like statuses(@c), $all, 'lets waiting requests have their key';
is keys_get($t, $key)->status, 200, 'and new ones';
$t->stop($nginx);

# Other shapes of nginx.

my %shape = (
    'a single process' => 'master_process off;',
    'many workers'     => 'worker_processes 16;',
);
for my $name (sort keys %shape) {
    $count = $issuer->count;
    keys_gateway($t, main => $shape{$name}, keys => $long);
    my $single = $shape{$name} =~ /off/;
    $single ? start_single() : $t->start_nginx;
    ok eventually(sub { keys_get($t, $key)->status == 200 }),
        "$name: fetches";
    is $issuer->count, $count + 1, "$name: once";
    $t->stop($nginx) unless $single;
    stop_single() if $single;
}

my $version = do {
    my $program = Platform::Test::Env::nginx();
    `$program -V 2>&1`;
};
for my $method (qw(poll select)) {
    next if $version !~ /--with-${method}_module/;
    $count = $issuer->count;
    keys_gateway($t, keys => $keys);
    $t->write_file('nginx.conf',
        $t->read_file('nginx.conf')
            =~ s/events \{.*?\}/events { use $method; }/r);
    $t->start_nginx;
    ok eventually(sub { keys_get($t, $key)->status == 200 }),
        "use $method: fetches";
    ok eventually(sub {
        keys_get($t, jwt_key('b'), iat => past())->status == 401
            && $issuer->count > $count + 1;
    }), "use $method: again for an unknown key id";
    $t->stop($nginx);
}

# What a server hands down to the key location.

$count = $issuer->count;
my $dir = $t->dir;
keys_gateway($t, keys => <<"KEYS", location => <<'LOCATION');
$keys
limit_req_zone \$binary_remote_addr\$server_addr\$server_port
    zone=a:1m rate=99r/s;
limit_conn_zone \$remote_addr\$remote_port zone=b:1m;
log_format odd '\$request \$remote_user \$host \$http_x \$tcpinfo_rtt \$pipe';
access_log $dir/odd.log odd;
log_subrequest on;
lingering_close always;
send_lowat 1;
gzip on; gzip_types *; gzip_min_length 1; gunzip on;
KEYS
platform_gateway_access branch;
limit_req zone=a burst=9;
limit_conn b 9;
add_header X-A b always;
proxy_buffering off;
proxy_set_header X-Real-IP $remote_addr;
LOCATION
$t->start_nginx;
ok eventually(sub { keys_get($t, $key)->status == 200 }),
    'limits, logs, filters and a guard that it inherits do no harm';
my ($request) = ($issuer->requests)[-1];
is_deeply [ header_values($request, 'Host') ],
    [ '127.0.0.1:' . $issuer->port ],
    'the issuer is asked by its own name';
is_deeply [ header_values($request, 'Authorization') ], [],
    'with nothing of a client';
ok eventually(sub { ($t->read_file('odd.log') // '') =~ /^- - /m }),
    'and log_subrequest can log it';

$t->done;

my $single;

sub start_single {
    $single = $t->track(Single->new($t, $nginx));
    return eventually(sub { -s $t->dir . '/nginx.pid' });
}

sub stop_single { return $single->stop }

package Single;

sub new {
    my ($class, $test, $nginx_object) = @_;

    unlink $test->dir . '/nginx.pid';
    my $process = Platform::Test::Process->start(
        name => 'single', dir => $test->dir,
        log => $test->dir . '/single.out.log',
        env => { $nginx_object->_env },
        cmd => [ Platform::Test::Env::mode_prefix($test->dir, 'single'),
            $nginx_object->_command ],
    );
    return bless { process => $process }, $class;
}

sub stop {
    my ($self) = @_;

    my $process = delete $self->{process} or return ();
    return $process->stop;
}
