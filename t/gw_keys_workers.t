# The fetch and the processes: a worker that dies with the lease or stalls, exits in
# the middle of a fetch, a single process, other event methods, an inherited guard,
# clients that hold all connections of a worker or all of its descriptors.

use Fcntl;
use Platform::Test;
use Platform::Test::Keys;
use POSIX qw(mkfifo);
use Time::HiRes qw(time);

my ($t, $issuer, $key, $new) = keys_test(qw(a b));
my $port = $t->port('gateway');

# A fetch has as long as the cooldown is, and at least 5 s: on a busy machine
# that may be too short, and then there is one more.
my @long = (cooldown => '40s');

# Starts, and has the first fetch hang.
sub hanging (@o) {
    my $nginx;
    keys_hold($issuer, sub { $nginx = keys_begin($t, @o) });
    return $nginx;
}

# How often its error log says that.
sub said ($pattern) { return scalar(() = $t->nginx->error_log =~ /$pattern/g) }

# The worker that fetches is killed: its lease runs out.

my $nginx = hanging(main => 'worker_processes 3;');
my $worker;
ok eventually(sub {    # /proc shows no row of a table that changes meanwhile
    ($worker) = grep { keys_connection($t, $_) } $nginx->workers;
}), 'which one is known by its connection';
$t->allow(qr/exited on signal 9/);
my ($began, $fetches) = (time, $issuer->count);
kill 'KILL', $worker;
$issuer->set(hold => 0);
keys_pass($t, 8);
keys_until($t, 'after it died with the lease another one fetches', 200, $key);
cmp_ok time - $began, '<', 30, 'once the lease has run out, not by age';
cmp_ok $issuer->count, '<=', $fetches + 1, 'once';

for my $signal (qw(TERM QUIT)) {
    hanging(@long, wait => '500ms');
    $t->stop($nginx, $signal);
    is scalar(keys_failures($t)), 0, "SIG$signal does not wait for a fetch";
}

# The gateway's connections that a worker has accepted and read, if all are so.
sub taken {
    my @own = grep { $_->[1] eq sprintf '0100007F:%04X', $port and $_->[3] eq '01' }
        map { [ split ' ' ] } qx{cat /proc/self/net/tcp};
    return (grep { $_->[4] !~ /:0+$/ || !$_->[9] } @own) ? 0 : scalar @own;
}

# Parked requests are answered before the worker goes; under valgrind some come
# too late for either.

my $all = Platform::Test::Env::valgrind() ? qr/200/ : qr/^200$/;
for my $how ('SIGQUIT', 'a reload') {
    hanging(@long);
    my @c = map { keys_send($t, $key) } 1 .. 8;
    ok eventually(sub { taken() == 8 }), 'requests wait for it';
    $nginx->signal($how eq 'SIGQUIT' ? 'QUIT' : 'HUP');
    ok eventually(sub { said(qr/gracefully shutting/) == 2 }), 'the workers are told to go';
    $issuer->set(hold => 0);
    my %seen = map { ($_ ? $_->status : 'none') => 1 } map { $_->read_response } @c;
    like join(' ', sort keys %seen), $all, "$how lets waiting requests have their key";
    $t->stop($nginx, 'QUIT') if $how eq 'SIGQUIT';
}
keys_until($t, 'and new ones', 200, $key);

my $count = $issuer->count;
keys_begin($t, main => 'worker_processes 8;', @long);
keys_until($t, 'many workers: fetch', 200, $key);
is $issuer->count, $count + 1, 'many workers: once';
for my $case ([ 'a single process', main => 'master_process off;' ],
    map({ [ "use $_", change => [ qr/events \{.*?\}/, "events { use $_; }" ] ] }
        grep { qx{@{[ Platform::Test::Env::nginx() ]} -V 2>&1} =~ /--with-${_}_module/ }
        qw(poll select)),
) {
    my ($name, @shape) = @$case;
    keys_begin($t, @shape);
    keys_until($t, "$name: fetches", 200, $key);
    keys_refetch($t, $issuer);
    is keys_get($t, $key)->status, 200, "$name: again for an unknown key id";
}

# What a server hands down to the key location.

my $dir = $t->dir;
keys_begin($t, http => <<"HTTP", location => <<'LOCATION');
limit_req_zone \$binary_remote_addr\$server_addr\$server_port zone=a:1m rate=99r/s;
limit_conn_zone \$remote_addr\$remote_port zone=b:1m;
log_format odd '\$request \$remote_user \$host \$http_x \$tcpinfo_rtt \$pipe';
access_log $dir/odd.log odd; log_subrequest on; lingering_close always; send_lowat 1;
gzip on; gzip_types *; gzip_min_length 1; gunzip on;
HTTP
platform_gateway_access branch; limit_req zone=a burst=9; limit_conn b 9;
add_header X-A b always; proxy_buffering off; proxy_set_header X-Real-IP $remote_addr;
LOCATION
keys_until($t, 'limits, logs, filters and a guard that it inherits do no harm', 200, $key);
is_deeply [ map { header_values(($issuer->requests)[-1], $_) } qw(Host Authorization) ],
    [ '127.0.0.1:' . $issuer->port ],
    'the issuer is asked by its own name, with nothing of a client';
ok eventually(sub { ($t->read_file('odd.log') // '') =~ /^- - /m }),
    'and log_subrequest can log it';

# Clients that hold all connections or descriptors: requests without their last line, each
# with a moment to be read, since nginx closes a connection that has sent nothing yet. The
# fetch fails and the set is kept; the next fetch after them succeeds.

my $ALL = 64;

sub half {
    my $c = Platform::Test::Http->new(port => $port);
    $c->send(http_request_bytes(GET => '/branch', token => jwt_token('branch', $key))
        =~ s/\r\n\z//r);
    sleep 0.01;
    return $c;
}

$t->allow(qr/$ALL worker_connections are not enough/, qr/\(24: Too many open files/);
for my $case ([ 'connections', '' ], [ 'descriptors', 'worker_rlimit_nofile 48;' ]) {
    my ($what, $main) = @$case;
    $issuer->set(body => jwks($key));
    keys_begin($t, main => "worker_processes 1; $main", soft_age => '60s',
        http => 'client_header_timeout 600s;',
        change => [ qr/worker_connections \d+/ => "worker_connections $ALL" ]);
    keys_until($t, "$what: starts", 200, $key);

    my @held = map { half() } 1 .. $ALL + 16;
    ok $nginx->wait_log(qr/accept4\(\) failed|not enough\n/), "$what: clients hold all of them";

    my ($failed, $sets) = (scalar keys_failures($t), said(qr/: new key set, /));
    $issuer->set(body => jwks($key, $new));
    keys_pass($t, 60);
    ok eventually(sub { keys_failures($t) > $failed }), 'a fetch fails';
    $held[0]->send("\r\n");
    is $held[0]->read_response->status, 200, 'the set is kept';

    $_->close for @held;
    ok eventually(sub { keys_pass($t, 6); said(qr/: new key set, /) > $sets }),
        'after them a fetch brings the new set';
    keys_until($t, "$what: the new key", 200, $new);
}

# A worker that stalls brings nothing old back: not while it adopts what it has
# fetched, nor with an answer that comes when the right to fetch has passed on.
# Workers stall at a line for a log that takes no more (a full pipe), or stopped
# from outside with the issuer's answer unread.

my ($both, $only) = (jwks($key, $new), jwks($new));

# A log that can be full: nobody but this test reads it.
my $pipe = $t->dir . '/log';
mkfifo $pipe, 0600 or die "mkfifo: $!\n";
sysopen my $log, $pipe, O_RDWR | O_NONBLOCK or die "$pipe: $!\n";

sub fill {
    drain();
    for my $size (4096, 1) { 1 while defined syswrite $log, 'x' x $size }
}

sub drain { 1 while sysread $log, my $text, 65536; return }

# Of these processes, those that wait to write to a pipe.
sub writing {
    return grep {
        open my $fh, '<', "/proc/$_/wchan" or return ();
        (<$fh> // '') =~ /pipe/;
    } @_;
}

sub children { return split ' ', qx{cat /proc/@{[ $nginx->pid ]}/task/*/children 2>/dev/null} }

# Starts afresh with both keys in the set, and a fetch that hangs if so said.
sub begin ($what, $workers, %o) {
    $issuer->set(body => $both);
    keys_begin($t, main => "worker_processes $workers;", %o);
    keys_until($t, "$what: starts", 200, $key);
    $issuer->set(hold => 1) if $what ne 'adoption';
}

# Stops a worker that fetches, and has the answer wait in its socket: one whose
# fetch has not timed out before it was stopped.
sub stall_fetching {
    my ($worker);
    ok eventually(sub {
        ($worker) = grep { keys_connection($t, $_) } $nginx->workers or return 0;
        kill 'STOP', $worker;
        return 1 if keys_connection($t, $worker);
        kill 'CONT', $worker;
        return 0;
    }), 'a worker fetches';
    $issuer->set(hold => 0);
    ok eventually(sub { keys_connection($t, $worker) =~ /[1-9a-f]/i }),
        'and is stopped when the answer is there';
    return $worker;
}

sub decided ($what) {
    keys_are($t, "$what: the withdrawn key is still refused, the other one works",
        [ 401, $key, iat => past() ], [ 200, $new ]);
}

# Another one fetches; the stalled one goes on, and what it brings comes too late.
sub late ($what, $worker) {
    keys_until($t, "$what: another fetches", 401, $key, iat => past());
    my $before = keys_metric($t, 'superseded');
    kill 'CONT', $worker;
    ok eventually(sub { keys_metric($t, 'superseded') == $before + 1 }), 'it comes too late';
    decided($what);
}

# While it adopts: one fetches a set, and before it goes on another fetches
# the next.

begin('adoption', 2, soft_age => '60s', server => "error_log $pipe notice;",
    http => "platform_gateway_key_cache_file @{[ $t->dir ]}/keys;");
fill();
$issuer->set(body => "$both\n");
keys_pass($t, 60);
my $stalled;
ok eventually(sub { ($stalled) = writing($nginx->workers) }), 'one worker has a new set and stalls';
$issuer->set(body => $only);
keys_pass($t, 60);
ok eventually(sub { writing($nginx->workers) == 2 }), 'the other one has the next, and stalls';
my ($second) = grep { $_ != $stalled } $nginx->workers;
kill 'STOP', $second;
drain();
ok eventually(sub { !writing($stalled) }), 'the first one goes on';
decided('the worker that stalled');
is substr($t->read_file('keys'), -length $only), $only, 'what it keeps on disk is the next set';
kill 'CONT', $second;

# While it fetches, until another worker may, or a new configuration is in force.

begin('a lease that ran out', 2, soft_age => '60s');
keys_pass($t, 60);
$worker = stall_fetching();
$issuer->set(body => $only);
keys_pass($t, 8);
late('a lease that ran out', $worker);

begin('a reload', 1);
my @asking = keys_refetch($t, $issuer);
$worker = stall_fetching();
$issuer->set(body => $only);
$nginx->signal('HUP');
ok eventually(sub { grep { $_ != $worker } $nginx->workers }), 'a new worker';
late('a reload', $worker);

# The same before the new worker's own fetch has ended.

begin('a reload to another issuer', 1);
@asking = keys_refetch($t, $issuer);
$worker = stall_fetching();
$issuer->set(hold => 1);
keys_gateway($t, main => 'worker_processes 1;',
    change => [ qr{http://issuer\.test} => 'http://other.test' ]);
$nginx->signal('HUP');
ok eventually(sub { grep { $_ != $worker && keys_connection($t, $_) } children() }),
    'the new worker fetches';
kill 'CONT', $worker;
ok eventually(sub { keys_metric($t, 'superseded') == 1 }), 'the old one brings something';
keys_pass($t, 20);    # those who wait there
ok eventually(sub { !kill 0, $worker }), 'and goes';
$issuer->down;
is keys_get($t, $key, iss => 'http://other.test')->status, 503,
    'what it brought opens nothing for the new issuer';
$issuer->set(hold => 0);
$issuer->up;
keys_pass($t, 2);
keys_until($t, 'control: the same keys, fetched for it', 200, $key, iss => 'http://other.test');

$t->done;
