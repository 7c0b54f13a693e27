# Prometheus scrapes three identity processes and the gateway by the example's
# configuration: what it has counted is what nginx has logged, and no counter ever
# went back.  The example's alerts and dashboard name metrics that exist.

use Platform::Test;
use Platform::Test::Metrics;
use JSON::PP;

if (Platform::Test::Env::asan() || Platform::Test::Env::valgrind()) {
    plan skip_all => 'the programs are slow then, and Prometheus is not ours';
}
chomp(my $prometheus = `sh -c "command -v prometheus"`);
plan skip_all => 'needs prometheus' unless $prometheus;

my $t = Platform::Test->new;
my ($root, $dir) = ($t->root, $t->dir);
my %env = (PLATFORM_JWT_ISSUER => 'http://127.0.0.1:' . $t->port('identity'));
my @process = map { $t->identity(name => "identity$_", %env) } 1 .. 3;
my $stack = $t->full_stack(identity => $process[0], env => {
    IDENTITY_UPSTREAM => join(' ', map { $_->address } @process) });
my ($face, $gateway, $local) = map { $t->port($_) } qw(identity gateway metrics);

# Where the processes are, each by itself.

my $targets = decode_json(http_get($face, '/actuator/targets')->body);
is_deeply [ map { "@{ $_->{targets} } $_->{labels}{__metrics_path__}" } @$targets ],
    [ map {"127.0.0.1:$face /actuator/prometheus/$_"} 1 .. 3 ],
    'three targets, at the address of the face';
my $own = 'identity_requests_total{endpoint="/actuator/prometheus",status="200",code=""}';
for my $n (1 .. 3) {
    my $seen;
    $seen = metrics_scrape($face, "/actuator/prometheus/$n") for 0 .. 2 * $n;
    is $seen->{$own}, 2 * $n, "process $n counts what it was asked, and no other";
}
is http_get($face, '/actuator/prometheus/4')->status, 404, 'there is no fourth';
is_deeply [ map { $_->status } http_get($face, $_, headers => [ 'X-Forwarded-For' => '192.0.2.1' ]),
    http_get($gateway, $_) ], [ 403, 404 ], "$_: not for others, nor through the gateway"
    for '/actuator/prometheus/1', '/actuator/targets';

# The example, with this test's ports and quicker scrapes.

my $conf = $t->read_file("$root/examples/prometheus/prometheus.yml");
$conf =~ s/127\.0\.0\.1:8083/127.0.0.1:$local/ or die "no gateway target\n";
$conf =~ s/127\.0\.0\.1:8081/127.0.0.1:$face/ or die "no identity target\n";
$conf =~ s/_interval: \d+s/_interval: 1s/g;
$t->write_file('prometheus/prometheus.yml', $conf);
$t->write_file('prometheus/alerts.yml',
    my $alerts = $t->read_file("$root/examples/prometheus/alerts.yml"));
my $port = $t->port('prometheus');
$t->track(Platform::Test::Process->start(
    name => 'prometheus', dir => $dir, log => "$dir/prometheus.out",
    cmd => [ $prometheus, "--config.file=$dir/prometheus/prometheus.yml",
        "--storage.tsdb.path=$dir/prometheus/data", "--web.listen-address=127.0.0.1:$port" ]));

# What it says of now, or of the moment $at.
my $at;

sub query ($expr) {
    $expr =~ s/([^A-Za-z0-9_])/sprintf '%%%02X', ord $1/ge;
    my $res = eval { http_get($port, "/api/v1/query?query=$expr" . ($at ? "&time=$at" : '')) }
        or return [];
    return $res->status == 200 ? decode_json($res->body)->{data}{result} : [];
}

sub number { return (query($_[0])->[0] // {})->{value}[1] // 'none' }

# Sets $at to a moment at which each of the four had answered its last scrape: a scrape that
# a busy machine lets time out hides its target until the next one.  What is known of that
# moment does not change any more, since no scrape before it goes on.
sub all_scraped {
    undef $at;
    my $last = number('min(timestamp(up))');
    return 0 if $last eq 'none';
    $at = $last;
    return number('count(up == 1)') eq '4';
}

my $keys = 'identity_requests_total{endpoint="/.well-known/jwks.json"}';
my @counted = ("sum($keys)", 'sum(platform_gateway_requests_total{route="identity-keys"})');
my @before;
ok eventually(sub { all_scraped() && !grep { $_ eq 'none' } @before = map { number($_) } @counted }),
    'Prometheus scrapes the gateway and the three';
my $count = 600;
is scalar(grep { http_get($gateway, '/.well-known/jwks.json')->status == 200 }
    1 .. $count), $count, 'a load';
ok eventually(sub {
    $count == grep { ($_->{routeId} // '') eq 'identity-keys' && $_->{status} == 200 }
        map { decode_json($_) } $stack->nginx->access_log =~ /^(.*)\n/mg;
}), "$count requests, and so says nginx's log";

# The last scrapes have to come; then nothing moves any more.
my @seen;
ok eventually(sub {
    all_scraped() or return 0;
    @seen = map { number($counted[$_]) - $before[$_] } 0, 1;
    return !grep { $_ < $count } @seen;
}), 'all of it is scraped';
cmp_ok abs($_ - $count), '<=', 0.01 * $count, "$_ of $count" for @seen;
ok eventually(sub { all_scraped() && number("sum(rate(${keys}[20s]))") > 0 }), 'it has a rate';
is number('sum(resets(identity_requests_total[2m]))'), 0, 'no counter went back';
is number("count(sum by (process) ($keys) > 0)"), 3, 'each process had its part';
is_deeply [ map { $_->{metric}{alertname} } @{ query('ALERTS{alertstate="firing"}') } ],
    [], 'no alert';

# Alerts and dashboard: their tests pass, and each metric is one of ours.

my $said = `cd $root/examples/prometheus && promtool test rules alerts.test.yml 2>&1`;
is $?, 0, "promtool's tests of the alerts" or diag $said;
my %known = map { $_ => 1 } qw(up);
for my $text (http_get($local, '/internal/metrics')->body,
    http_get($face, '/actuator/prometheus/1')->body)
{
    my (undef, $family) = metrics_parse($text);
    for my $name (keys %$family) {
        $known{$name} = 1;
        $known{"${name}_$_"} = 1 for qw(bucket sum count);
    }
}
my $board = decode_json($t->read_file("$root/examples/grafana/platform.json"));
my @expr = map { $_->{expr} } map { @{ $_->{targets} // [] } } @{ $board->{panels} };
cmp_ok scalar @expr, '>=', 15, 'the dashboard has queries';
my @shown = @expr;
push @expr, $alerts =~ /expr: (?:\|\n)?(.*?)(?:^ +for:|^ +labels:)/msg;
my @unknown = grep { !$known{$_} } map {
    /\b((?:platform_gateway|identity|process)_[a-z_]+|up)\b(?=[\[{) ])/g } @expr;
is_deeply \@unknown, [], 'every metric in them exists';
# Without a refusal there is no line of them.
is_deeply [ grep { @{ query($_ =~ s/\$__rate_interval/1m/gr
    =~ s/\$(?:gateway|identity)/.*/gr) } == 0 && !/refusals/ } @shown ],
    [], 'and each panel has an answer';

$t->done;
