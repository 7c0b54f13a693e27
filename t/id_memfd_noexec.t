# The service starts where the kernel takes no files in memory that could be
# executed (vm.memfd_noexec=2, a setting of the namespace of processes).

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

plan skip_all => 'needs root, for a namespace' if $> != 0;
plan skip_all => 'this kernel has no vm.memfd_noexec'
    if !-e '/proc/sys/vm/memfd_noexec';
plan skip_all => 'no namespaces of processes here'
    if system('unshare --pid --fork --mount-proc true 2>/dev/null') != 0;

my $t = Platform::Test->new(module => 0);
$t->postgres;
my $socket = $t->dir . '/strict.sock';
my $p = $t->track(Platform::Test::Process->start(
    name => 'strict', dir => $t->dir, log => $t->dir . '/strict.log',
    env => { %{ $t->identity_env(IDENTITY_LISTEN => $socket) },
        Platform::Test::Env::mode_env($t->dir, name => 'strict') },
    cmd => [ 'unshare', '--pid', '--fork', '--kill-child', '--mount-proc',
        'sh', '-ec', 'echo 2 >/proc/sys/vm/memfd_noexec
            exec "$@"', 'sh',
        Platform::Test::Env::mode_prefix($t->dir, 'strict'),
        Platform::Test::Env::identity() ],
)->expect_end);
my $got;
ok eventually(sub {
    $got = eval { $t->fcgi($socket)->request(GET => '/healthz') };
    return $got || !$p->alive }, 20 * $t->scale), 'it starts';
is $got && $got->{status}, 200, 'and serves';
unlike $t->read_file('strict.log'), qr/"level":"(?:warn|error)"/,
    'with nothing to say about it';

# Who made the namespace passes no signal on.
my $pid = $p->pid;
open my $fh, '<', "/proc/$pid/task/$pid/children" or die "children: $!\n";
kill 'TERM', split ' ', <$fh> // '';
ok eventually(sub { !$p->alive }, 20 * $t->scale), 'and ends';

$t->done;
