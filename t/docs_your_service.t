# docs/your-service.md, followed word by word under make run: each block of its steps
# prints what the page says, and the route is still there after another make run.
# docs_assertion.t has the rest of the page.

use Platform::Test;
use Platform::Test::Page qw(prints steps);

Platform::Test::Env::plain('make run has no sanitizer mode');

my $t = Platform::Test->new;
my ($root, $dir) = ($t->root, $t->dir);
my %port = (8080 => 'gateway', 8081 => 'identity', 8082 => 'stub', 8083 => 'metrics');
$_ = $t->port($_) for values %port;

my $page = "$root/docs/your-service.md";
my @steps = map { steps($page, $_) } $t->read_file($page) =~ /^## (\d.*)$/mg;
is scalar @steps, 7, 'the page has its steps';

# The reader's checkout is a directory with this one's Makefile and run/.
my $own = "$dir/checkout";
mkdir $own;
symlink "$root/$_", "$own/$_" or die "$_: $!\n"
    for grep { $_ ne 'run' } map { s{.*/}{}r } glob "$root/*";

# It has no .git to tell the version, and what is built in it is built for all tests.
my $version = $t->read_file(Platform::Test::Env::build() . '/version') =~ s/\n\z//r;

sub make_run {
    my $p = $t->make_run($own, RUN_DIR => "$own/run", PLATFORM_VERSION => $version);
    $t->run_ready($p, 'make run');
    return $p;
}

sub ours ($text) {
    $text =~ s/\b(808[0-3])\b/$port{$1}/g;
    return $text;
}

sub shell ($name, $script) {
    $t->write_file("$name.sh", "cd $own\n$script");
    local @ENV{qw(RUN_DIR PLATFORM_VERSION)} = ("$own/run", $version);
    return qx{sh $dir/$name.sh 2>&1};
}

my $p = make_run();
my @said = prints('the page', sub ($script) { shell(page => ours($script)) }, @steps);
like $said[1], qr{\AReloaded: \S+/routes\.d/\*\.conf, and those of http\.d\n\z}, 'the reload says so';

# A zone that nobody made, and one in the wrong place: it is said where it goes.
for my $mistake ('limit_req zone=nowhere;', 'proxy_cache nowhere;',
    'set $own $nowhere;', '} upstream nowhere { server 127.0.0.1:1;')
{
    $t->write_file('checkout/run/routes.d/zone.conf', 'location /api/zone/ {'
        . "platform_gateway_access public; proxy_pass http://127.0.0.1:1; $mistake }\n");
    like shell(zone => 'make reload'), qr{^run:[ ]nginx[ ]refuses.*
        ^run:[ ]zones,[ ]upstreams,.*[ ]\S+/run/http\.d/\*\.conf$}msx,
        "$mistake: refused, with the place for it";
}
unlink "$own/run/routes.d/zone.conf";

# A mistake is told by file and line, and changes nothing.
my $route = "$own/run/routes.d/broken.conf";
$t->write_file('checkout/run/routes.d/broken.conf',
    "location /api/open/ {\n    proxy_pass http://127.0.0.1:$port{8082};\n}\n");
my $out = shell(broken => 'make reload');
like $out, qr{^run: nginx refuses its configuration: .*access.* \S+/broken\.conf:\d+$}m,
    'a route without a level is refused by its file and line';
unlike $out, qr{http\.d}, 'and nothing beside';
my $url = "http://127.0.0.1:$port{8080}/api";
is qx{curl -s -o /dev/null -w '%{http_code}' $url/reports/x}, 401,
    'and the other route stays';
unlink $route;

# A second run has the route too.
kill 'INT', -$p->pid;
$p->wait_end(60);
like shell(stopped => 'make reload'), qr{^run: nothing runs in }m,
    'a reload of nothing says so';
$p = make_run();
is qx{curl -s -o /dev/null -w '%{http_code}' $url/reports/x}, 401,
    'the route is there after another make run';
is qx{curl -s -o /dev/null -w '%{http_code}' $url/reporters}, 404, 'and no other';
kill 'INT', -$p->pid;
$p->wait_end(60);

# The refused route is in nginx's log, as it should be.
$t->allow(qr/no "platform_gateway_access"|nowhere|"upstream" directive/);
$t->done;
