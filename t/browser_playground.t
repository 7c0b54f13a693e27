# The playground of make run in a real browser: every button, against what the
# page shows, what the network carried and what the gateway logged.  Then the
# client of examples/ and its two pages, each in two tabs.

use Platform::Test;

Platform::Test::Env::plain('make run has no sanitizer mode');
my $node = Platform::Test::Env::node();
my $chromium = Platform::Test::Env::chromium();

my $t = Platform::Test->new;
my ($run, $port) = ($t->dir . '/run', $t->port('playground'));
my $p = $t->make_run($t->root);
$t->run_ready($p, 'make run');

# The client of examples/, as its package has it, lies beside the page, for this test alone.
my $tools = $t->root . '/t/node';
is $t->client_package, '', 'the package of the client installs';
$t->write_file('run/www/client.js',
    $t->read_file('node_modules/platform-gateway-client/dist/client.js'));

my $shots = Platform::Test::Env::build() . '/screenshots';
mkdir $shots;

my ($database) = $t->read_file('run/platform.env') =~ /^PLATFORM_DB_HOST="(.*)"/m;
my $psql = Platform::Test::Env::postgres('psql') . " -XAtq -h $database -U platform platform";

my $checks = $t->browser("$tools/playground.js", $chromium, "http://localhost:$port",
    "$run/logs/access.log", $shots, $psql);
cmp_ok $checks, '>', 300, 'it checked what it saw';

my ($gateway) = $t->read_file('run/www/settings.json') =~ m{"http://[^":]*:(\d+)"} or die 'no gateway';
cmp_ok $t->browser("$tools/client_pages.js", $chromium, "http://localhost:$port", $gateway, $t->dir, "$run/www"),
    '>', 25, 'the pages of the client work';

kill 'INT', -$p->pid;
ok $p->wait_end(60), 'Ctrl-C ends make run';
ok !eval { http_get($port, '/')->status }, 'and the playground with it';

$t->done;
