# The playground of make run in a real browser: every button, against what the
# page shows, what the network carried and what the gateway logged.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

if (Platform::Test::Env::asan() || Platform::Test::Env::valgrind()) {
    plan skip_all => 'make run has no sanitizer mode';
}
my $node = Platform::Test::Env::node();
my $chromium = Platform::Test::Env::chromium();

my $t = Platform::Test->new(timeout => 600);
my ($dir, $run) = ($t->dir, $t->dir . '/run');
my %port = map { $_ => $t->port($_) }
    qw(gateway identity stub metrics playground);

my $p = $t->track(Platform::Test::Process->start(
    name => 'make-run', dir => $t->root, log => "$dir/make-run.log",
    env => { PATH => $ENV{PATH}, RUN_DIR => $run,
        METRICS_LISTEN => "127.0.0.1:$port{metrics}",
        map { (uc($_) . '_PORT' => $port{$_}) }
            qw(gateway identity stub playground) },
    cmd => [ 'make', '-s', 'BUILD=' . Platform::Test::Env::build(), 'run' ],
    ok_status => ['any'])->expect_end);
ok eventually(sub { ($t->read_file('make-run.log') // '') =~ /^Ready\.$/m
    || !$p->alive }, 90), 'make run is ready' or diag $t->read_file('make-run.log');

my $shots = Platform::Test::Env::build() . '/screenshots';
mkdir $shots;

# Each check of the browser's is one of ours.
open my $says, '-|', $node, $t->root . '/t/node/playground.js', $chromium,
    "http://127.0.0.1:$port{playground}", "$run/logs/access.log", $shots
    or die "$node: $!\n";
my $checks = 0;
while (my $line = <$says>) {
    chomp $line;
    if ($line =~ /^(not )?ok - (.*)/) {
        ok !$1, $2;
        $checks++;
    } else {
        diag $line;
    }
}
ok close $says, 'the browser went through to the end';
cmp_ok $checks, '>', 100, 'and checked what it saw';

kill 'INT', -$p->pid;
ok $p->wait_end(60), 'Ctrl-C ends make run';
is http_get_or_none(), 'nothing', 'and the playground with it';

sub http_get_or_none {
    my $res = eval { http_get($port{playground}, '/') };
    return $res && $res->status ? $res->status : 'nothing';
}

$t->done;
