# The playground of make run in a real browser: every button, against what the
# page shows, what the network carried and what the gateway logged.  Then the
# client of examples/, in two tabs.

use Platform::Test;

if (Platform::Test::Env::asan() || Platform::Test::Env::valgrind()) {
    plan skip_all => 'make run has no sanitizer mode';
}
my $node = Platform::Test::Env::node();
my $chromium = Platform::Test::Env::chromium();

my $t = Platform::Test->new;
my ($dir, $run) = ($t->dir, $t->dir . '/run');
my %port = map { $_ => $t->port($_) } qw(gateway identity stub metrics playground);

my $p = $t->track(Platform::Test::Process->start(
    name => 'make-run', dir => $t->root, log => "$dir/make-run.log",
    env => { PATH => $ENV{PATH}, RUN_DIR => $run,
        METRICS_LISTEN => "127.0.0.1:$port{metrics}",
        map { (uc($_) . '_PORT' => $port{$_}) } qw(gateway identity stub playground) },
    cmd => [ 'make', '-s', 'BUILD=' . Platform::Test::Env::build(), 'run' ],
    ok_status => ['any'])->expect_end);
ok eventually(sub { ($t->read_file('make-run.log') // '') =~ /^Ready\.$/m
    || !$p->alive }, 300), 'make run is ready' or diag $t->read_file('make-run.log');

# The client of examples/ lies beside the page, for this test alone.
my $tools = $t->root . '/t/node';
my $said = qx{$node $tools/node_modules/typescript/bin/tsc -p $tools --outDir $run/www 2>&1};
is $?, 0, 'the client compiles' or diag $said;

my $shots = Platform::Test::Env::build() . '/screenshots';
mkdir $shots;

# Each check of the browser's is one of ours.
my $browser = $t->track(Platform::Test::Process->start(
    name => 'browser', dir => $t->root, log => "$dir/browser.log",
    cmd => [ $node, "$tools/playground.js", $chromium,
        "http://localhost:$port{playground}", "$run/logs/access.log", $shots ],
    ok_status => ['any'])->expect_end);
ok $browser->wait_end(800), 'the browser comes to an end';
is $browser->status, 0, 'and has no complaint';
my $checks = 0;
for my $line (split /\n/, $t->read_file('browser.log') // '') {
    if ($line =~ /^(not )?ok - (.*)/) {
        ok !$1, $2;
        $checks++;
    } else {
        diag $line;
    }
}
cmp_ok $checks, '>', 300, 'it checked what it saw';

kill 'INT', -$p->pid;
ok $p->wait_end(60), 'Ctrl-C ends make run';
is http_get_or_none(), 'nothing', 'and the playground with it';

sub http_get_or_none {
    my $res = eval { http_get($port{playground}, '/') };
    return $res && $res->status ? $res->status : 'nothing';
}

$t->done;
