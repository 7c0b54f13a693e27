# The playground of make run in a real browser: every button, against what the
# page shows, what the network carried and what the gateway logged.  Then the
# client of examples/, in two tabs.

use Platform::Test;

Platform::Test::Env::plain('make run has no sanitizer mode');
my $node = Platform::Test::Env::node();
my $chromium = Platform::Test::Env::chromium();

my $t = Platform::Test->new;
my ($run, $port) = ($t->dir . '/run', $t->port('playground'));
my $p = $t->make_run($t->root);
$t->run_ready($p, 'make run');

# The client of examples/ lies beside the page, for this test alone, without its types
# (which http_client.t checks).
my $tools = $t->root . '/t/node';
my $strip = 'const [, from, to] = process.argv, fs = require("fs"), esnext = 99;'
    . 'fs.writeFileSync(to, require("typescript").transpile(fs.readFileSync(from, "utf8"),'
    . '{ target: esnext, module: esnext }));';
my $said = qx{cd $tools && $node -e '$strip' ../../examples/client/client.ts $run/www/client.js 2>&1};
is $?, 0, 'the client without its types' or diag $said;

my $shots = Platform::Test::Env::build() . '/screenshots';
mkdir $shots;

my ($database) = $t->read_file('run/platform.env') =~ /^PLATFORM_DB_HOST="(.*)"/m;
my $psql = Platform::Test::Env::postgres('psql') . " -XAtq -h $database -U platform platform";

my $checks = $t->browser("$tools/playground.js", $chromium, "http://localhost:$port",
    "$run/logs/access.log", $shots, $psql);
cmp_ok $checks, '>', 300, 'it checked what it saw';

kill 'INT', -$p->pid;
ok $p->wait_end(60), 'Ctrl-C ends make run';
ok !eval { http_get($port, '/')->status }, 'and the playground with it';

$t->done;
