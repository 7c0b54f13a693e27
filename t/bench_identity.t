# The benchmark of identity: its load generator uses the token it just got, a
# round with an error is refused, and the figures are what they say.

use Platform::Test;

use Bench::Cpu;
use Bench::Figures;
use Bench::Identity::Scenario;
use Bench::Wrk;

# -- figures --------------------------------------------------------------------

is_deeply summary(1 .. 5), { median => 3, low => 2, high => 4, n => 5 },
    'a summary';

sub verdict_of { my ($relation, $limit, @values) = @_;
    return verdict(ratio(@values), $limit, $relation) }
is verdict_of('>=', 0.8, (0.8) x 3), 'pass', 'a rate at its limit passes';
is verdict_of('>=', 0.8, (0.72) x 3), 'short by 10.0 %',
    'one below it does not';
is verdict_of('<=', 0.8, (0.72) x 3), 'pass', 'where less is better it does';

my $round = { rate => 1200, p50_us => 1200, p99_us => 1200,
    cpu => { map { $_ => 10 } qw(identity postgres nginx) } };
my $text = Bench::Identity::Scenario::report({
    title => 'refresh', rounds => 1, floors => {},
    cells => { 'identity/16' => [$round], 'floor/16' => [$round] },
    goals => [ { text => 'a ratio, 16', limit => 1.1, ratio => ratio(1.32) },
        { text => 'another, 16', ratio => ratio(1) } ],
});
like $text, qr/^\| 16 +\| 1200 \(1200 to 1200\) +\| 1\.20 .*\n\| 16, floor/m,
    'a row, and that of the floor';
like $text, qr/^\| a ratio, 16 .*\| over by 20\.0 % +\|\n\| another.*no goal/m,
    'a distance, and what is no goal';

# -- processor time ---------------------------------------------------------------

my $before = process_cpu_us($$);
my $x = 0;
$x += $_ for 1 .. 1_000_000;
my $used = process_cpu_us($$) - $before;
cmp_ok $used, '>', 1000, 'computing takes processor time';
my $t = Platform::Test->new(module => 0);
my $idle = Platform::Test::Process->start(name => 'idle', dir => $t->dir,
    log => $t->dir . '/idle.log', cmd => [ 'sleep', 60 ], ok_status => ['any']);
$t->track($idle);
$before = 0;
eventually(sub {    # it has begun to sleep
    my $last = $before;
    $before = process_cpu_us($idle->pid);
    return $before > 0 && $before == $last;
});
$x += $_ for 1 .. 1_000_000;
cmp_ok process_cpu_us($idle->pid) - $before, '<', $used / 2,
    'and that of another process is its own';

# -- the load generator -------------------------------------------------------------
# A server of one process a connection: each knows the token that it gave.

my $given;
my $server = $t->http_server(api => sub ($request, @) {
    my ($mode) = $request->{uri} =~ m{^/(\w+)};
    my ($token) = $request->{body} =~ /"refreshToken":"([^"]*)"/;
    if ($mode eq 'chain') {
        return [ 401, [], "stale $token" ] if defined $given && $token ne $given;
        $given = $token =~ s/(\d*)$/1 + ($1 || 0)/er;
        return [ 200, [], qq({"refreshToken":"$given"}) ];
    }
    return [ 500, [], 'no' ] if $mode eq 'fail' && ++$given == 5;
    return [ 200, [], 'yes' ];
});

sub load ($path, $seconds, $connections, %args) {
    return wrk(url => 'http://127.0.0.1:' . $server->port . $path,
        connections => $connections, seconds => 60, args => {
            method => 'POST', body => '{"refreshToken":"@"}',
            seconds => $seconds, %args });
}

SKIP: {
    skip 'needs wrk', 10 if !Bench::Wrk::program();

    my $words = $t->write_file('words', "a\nb\n");
    my $got = load('/chain', 5, 2, words => $words, chain => 1);
    is $got->{refused}, undef, 'a chain runs' or diag explain $got;
    cmp_ok $got->{requests}, '>', 2, 'and goes on with the tokens it got';
    cmp_ok $got->{us}, '<', 30e6, 'until its time is over';

    $t->write_file('words', "a\nb\nc\n");
    $got = load('/chain', 60, 1, words => $words, chain => 1);
    like $got->{refused}, qr/^status 401: stale b/,
        'a stale token is an error, which is told';

    $got = load('/use', 60, 1, words => $words, once => 1);
    is $got->{refused}, undef, 'tokens that are used once';
    is $got->{requests}, 3, 'end the run with the last';

    $got = load('/fail', 60, 1, words => $words);
    like $got->{refused}, qr/^status 500/,
        'a 500 among good answers is an error';
    is $got->{requests}, 5, 'and ends the run';
    $got = load('/good', 3, 1, words => $words);
    is $got->{refused}, undef, 'control: without it there is none';
    cmp_ok $got->{requests}, '>', 3, 'and the words go round';
}

$t->done;
