# A worker that stalls brings nothing old back: not while it adopts what it has
# fetched, nor with an answer that comes when the right to fetch has passed to
# another worker or to a newer configuration.
#
# Workers stall where a real one would: at a line for a log that takes no more
# (a full pipe), or stopped from outside with the issuer's answer unread.

use Fcntl;
use Platform::Test;
use Platform::Test::Keys;
use POSIX qw(mkfifo);

my $t = Platform::Test->new;
my ($old, $new) = map { jwt_key($_) } qw(a b);
my ($both, $only) = (jwks($old, $new), jwks($new));
my $issuer = $t->issuer(body => $both);
my $nginx;

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

sub children {
    my $pid = $nginx->pid;
    open my $fh, '<', "/proc/$pid/task/$pid/children" or return ();
    return split ' ', <$fh> // '';
}

# Starts afresh with both keys in the set.
sub begin ($what, %o) {
    $issuer->set(body => $both);
    $nginx = keys_begin($t, main => "worker_processes $o{workers};", %o);
    keys_until($t, "$what: starts", 200, $old);
}

sub superseded { return keys_metric($t, 'superseded') }

# Stops a worker that fetches, and has the answer wait in its socket.
sub stall_fetching {
    my ($worker);

    # one whose fetch has not timed out before it was stopped
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
    is keys_get($t, $old, iat => past())->status, 401, "$what: the withdrawn key is still refused";
    is keys_get($t, $new)->status, 200, "$what: the other one works";
}

# It goes on, and what it brings comes too late.
sub late ($what, $worker) {
    my $before = superseded();
    kill 'CONT', $worker;
    ok eventually(sub { superseded() == $before + 1 }), 'the late answer is not taken';
    decided($what);
}

# While it adopts: one fetches a set, and before it goes on another fetches
# the next.

begin('adoption', workers => 2, soft_age => '1s',
    server => "error_log $pipe notice;",
    http => "platform_gateway_key_cache_file @{[ $t->dir ]}/keys;");
fill();
$issuer->set(body => "$both\n");
my $stalled;
ok eventually(sub { ($stalled) = writing($nginx->workers) }), 'one worker has a new set and stalls';
$issuer->set(body => $only);
ok eventually(sub { writing($nginx->workers) == 2 }),
    'the other one has the next, and stalls as well';
my ($second) = grep { $_ != $stalled } $nginx->workers;
kill 'STOP', $second;
drain();
ok eventually(sub { !writing($stalled) }), 'the first one goes on';
decided('the worker that stalled');
my $kept = $t->read_file('keys');
is substr($kept, -length $only), $only, 'what it keeps on disk is the next set';
kill 'CONT', $second;

# While it fetches, until another worker may.

begin('a lease that ran out', workers => 2, soft_age => '1s');
$issuer->set(hold => 1);
my $worker = stall_fetching();
$issuer->set(body => $only);
keys_until($t, 'another worker fetches when the lease has run out', 401, $old, iat => past());
late('a lease that ran out', $worker);

# While it fetches, until a new configuration is in force.

begin('a reload', workers => 1);
$issuer->set(hold => 1);
my @c = keys_refetch($t, $issuer);
$worker = stall_fetching();
$issuer->set(body => $only);
$nginx->signal('HUP');
ok eventually(sub { grep { $_ != $worker } $nginx->workers }), 'a new worker';
keys_until($t, 'fetches for itself', 401, $old, iat => past());
late('a reload', $worker);

# The same before the new worker has had the time to fetch: it has to say that
# it cannot keep the set, and stalls there.

begin('a reload to another issuer', workers => 1);
$issuer->set(hold => 1);
@c = keys_refetch($t, $issuer);
$worker = stall_fetching();
keys_gateway($t, main => 'worker_processes 1;', server => "error_log $pipe notice;",
    http => 'platform_gateway_key_cache_file missing/keys;',
    change => [ qr{http://issuer\.test} => 'http://other.test' ]);
$t->allow(qr/"missing\/keys" cannot be written/);
fill();
my %known = map { $_ => 1 } children();
$nginx->signal('HUP');
ok eventually(sub { writing(grep { !$known{$_} } children()) }),
    'the new worker is there, and stalls';
kill 'CONT', $worker;
ok eventually(sub { !kill 0, $worker }), 'the old one goes';
$issuer->down;
drain();
is keys_get($t, $old, iss => 'http://other.test')->status, 503,
    'what it brought opens nothing for the new issuer';
is superseded(), 1, 'it did bring something';
$issuer->up;
keys_until($t, 'control: the same keys, fetched for it', 200, $old, iss => 'http://other.test');

$t->done;
