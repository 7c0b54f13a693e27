# The benchmarks: their figures are right, their verdicts honest, the load
# generator uses the token it just got, and a round in which anything went wrong
# is refused.

use Platform::Test;

use Bench::Derived;
use Bench::Figures;
use Bench::Gateway::Round;
use Bench::Identity::Scenario;
use Bench::Pages;
use Bench::Wrk;

my $t = Platform::Test->new(module => 0);

# -- figures --------------------------------------------------------------------

is_deeply [ median(5), median(9, 1, 5), median(1, 2, 3, 10), quantile(0.25, 1 .. 5),
    quantile(0.9, 0, 10) ], [ 5, 5, 2.5, 2, 9 ], 'medians and quantiles';

my @values = map { 1 + 0.01 * $_ } -10 .. 10;
my ($low, $high) = interval(@values);
ok $low < 1 && $high > 1, 'the interval begins below the median and ends above it';
cmp_ok $high - $low, '<', 0.15, 'narrower than the values';
is_deeply [ interval(@values) ], [ $low, $high ], 'the same every time';
is_deeply [ interval((2) x 20) ], [ 2, 2 ], 'no spread, no width';

like Bench::Figures::verdict({ low => $_->[0], median => $_->[1], high => $_->[2] }, 1.10),
    $_->[3], "at @$_[0 .. 2]" for [ 1.00, 1.05, 1.10, qr/^pass$/ ],
    [ 1.00, 1.05, 1.21, qr/^the median passes, .* 10\.0 % off$/ ],
    [ 1.10, 1.21, 1.30, qr/^over by 10\.0 %$/ ];

# Pairs in which the case costs what base and one verification cost.
my @pairs = ({ case => [ { ns => 40 }, { ns => 44 } ],
    base => [ { ns => 21 }, { ns => 23 } ], verify => 20 }) x 5;
my $judge = \&Bench::Gateway::Round::judge;
my $goal = $judge->([ 'case', 'base', 1, verify => 1 ], \@pairs);
is $goal->{ratio}{median}, 1, 'a goal of base and a verification';
like goal_table($goal), qr/^\| case .* \| pass +\|$/m, 'which passes';
$goal = $judge->([ 'case', 'base', 1.5 ], \@pairs);
like goal_table($goal), qr/\| over by 27\.3 % \|$/m, 'a goal by ratio';

is verdict(ratio(($_->[1]) x 3), 0.8, $_->[0]), $_->[2], "$_->[1] $_->[0] 0.8" for
    [ '>=', 0.8, 'pass' ], [ '>=', 0.72, 'short by 10.0 %' ], [ '<=', 0.72, 'pass' ];

# -- pages ----------------------------------------------------------------------

my $page = "| a | b |\n|---|---|\n| x | the 1st |\n| 5 | y |\n<!-- figures: one -->\nold\n"
    . "<!-- /figures -->\n<!-- figures: two -->\n| c | d |\n|---|---|\n| y | 7,5 [6, 8] |\n"
    . "<!-- /figures -->\n";
is block($page, 'one'), "old\n", 'the text of a block';
is fill($page, one => "n\n"), $page =~ s/^old\n/\nn\n\n/mr, 'is replaced, and nothing else';
is eval { fill($page, three => 'x') }, undef, 'a block that is not there';
is cell(block($page, 'two'), y => 'd'), '7,5 [6, 8]', 'a cell by its row and column';
is cell(block($page, 'two'), @$_), undef, "no cell: @$_" for [ z => 'd' ], [ y => 'e' ];
is_deeply [ loose($page) ], [], 'no figure outside of blocks';
is_deeply [ loose($page =~ s/the 1st/$_/r) ], [ "| x | $_ |" ], "a figure outside: $_"
    for '1', '~3 ms', '0.5 [0.4, 0.6]';

my %written = map { $_ => 1 } map { Bench::Pages::blocks_of($_) } @Bench::Pages::SECTIONS;
for my $file (@Bench::Pages::PAGES) {
    my $text = $t->read_file($t->root . "/$file");
    my $derived = $Bench::Derived::BLOCKS{$file};
    is_deeply [ loose($text) ], [], "$file: all tables of figures are in blocks";
    is_deeply [ grep { !$derived->{$_} && !delete $written{$_} }
        $text =~ /^<!-- figures: (\w+) -->$/mg ], [], '... which make figures writes';
    is block($text, $_), "\n" . $derived->{$_}->($text) . "\n", "... $_ follows from the others"
        for sort keys %$derived;
}
is_deeply [ sort keys %written ], [], 'what make figures writes has its place';
my $pages = join '', map { $t->read_file($t->root . "/$_") } @Bench::Pages::PAGES;
for my $section (grep { $_->{blocks} } @Bench::Pages::SECTIONS) {
    while (my ($name, $part) = each %{ $section->{blocks} }) {
        is scalar(my @tables = tables(block($pages, $name))), 1 + $part->[1] - $part->[0],
            "$name: its tables of those of $section->{name}, each apart";
    }
}

my %capacity = ('in the table' => '500 bytes', 'in indexes' => '50 bytes',
    'in the whole database' => '700 bytes', 'sessions in a page of the table' => 14);
my $sizes = Bench::Derived::sizes(join "\n", '<!-- figures: capacity -->',
    '| a session | measured |', '|---|---|', (map {"| $_ | $capacity{$_} |"} sort keys %capacity),
    '', '|  | WAL bytes | of whole pages | identity us | PostgreSQL us |', '|---|---|---|---|---|',
    '| refresh of the same again | 250 | 0 | 1 | 1 |', '| login | 900 | 0 | 19000 | 1,500 |',
    '| refresh of another each time | 400 | 5,800 | 830 | 900 |', '',
    '|  | seconds | MB |', '|---|---|---|', '| `pg_basebackup` | 37 | 7,400 |',
    '<!-- /figures -->', '');
is cell($sizes, @$_[ 0, 1 ]), $_->[2], "sizes: $_->[0], $_->[1]" for
    [ 'refreshes, logins a second', '1 million', '111, 1.16' ],
    [ 'cores for identity', '10 million', '1.9' ],
    [ 'processes of identity, connections', '100 million', '10, 180' ],
    [ 'disk without WAL', '1 million', '0.7 GB' ],
    [ 'WAL, checkpoint every 5 min', '10 million', '5.4 MB/s, 470 GB a day' ],
    [ 'backup, as fast as measured', '1 million', '3.50 s' ],
    [ 'vacuum of the whole table, default settings', '1 million', '15.7 s' ],
    [ 'until a freeze, default settings', '100 million', '4.8 hours' ];
like Bench::Derived::sizes("<!-- figures: capacity -->\nno\n<!-- /figures -->\n"), qr/^Not measured/,
    'nothing is calculated from nothing';

# -- others that check tokens -------------------------------------------------------
# Each row is what was seen: so what is seen here.

SKIP: {
    skip 'needs two cores, the packages of t/node, and a plain build', 3 if qx{nproc --all} < 2
        || !-e $t->root . '/t/node/node_modules/.package-lock.json' || Platform::Test::Env::asan()
        || Platform::Test::Env::valgrind();

    my $root = $t->root;
    my $said = qx{$root/bench/peers --quick --only behaviour 2>&1};
    is $?, 0, 'bench/peers runs' or diag $said;
    my %seen = map { my $who = $_; $who => [ map { s/^[\d.]+ s$/soon/r }
        map { cell($said, $_, $who) // 'no such row' } 'a good token', 'no token', 'a forged token',
        'a token that has expired', 'X-Account-Id of the client', 'X-Account-Id on a public route',
        'its session has ended: refused after', '... a new token',
        'a new key is published: its token passes after',
        'the old key is withdrawn: its token is refused after' ] } qw(gateway auth_request);
    is_deeply $seen{gateway}, [ 200, 401, 401, 401, 'does not', 'does not', 'soon', 200, 'soon',
        'soon' ], 'the gateway';
    is_deeply [ @{ $seen{auth_request} }[ 0 .. 3, 5, 6 ] ], [ 200, 401, 401, 401,
        'reaches the service', 'not within 5 s' ], 'control: a service in Node';
}

# -- what a log says --------------------------------------------------------------

my ($good, $bad, $cut) = map {qq({"status":$_,"bytes":1}\n)} 200, 502, 499;
like Bench::Gateway::Round::wrong_in_log($_->[1], 200, 2, 9) // 'fine', $_->[2], $_->[0] for
    [ 'nothing wrong', $good x 9, qr/^fine$/ ],
    [ 'cut off when wrk ended', $good x 9 . $cut x 2, qr/^fine$/ ],
    [ 'more than its connections', $good x 9 . $cut x 3, qr/3 requests were cut off/ ],
    [ 'another status', $good x 9 . $bad, qr/1 of 10 answers were not 200/ ],
    [ 'too few lines', $good x 8, qr/only 8 answers/ ];

# -- clients that come again --------------------------------------------------------
# The first request for each path is refused; the cursor of an answer is the next path.

my $dir = $t->dir;
my $many = $t->http_server(many => sub ($request, @) {
    my $seen = "$dir/seen" . $request->{uri} =~ tr{/}{-}r;
    return [ 200, [], '{"cursor":"next"}' ] if -e $seen;
    open my $fh, '>', $seen or die "$seen: $!\n";
    return [ 503, [ 'Retry-After' => 1 ], '' ];
});
my $words = $t->write_file('herd.words', join '', map {"w$_\n"} 1 .. 5);
my $plan = sub ($clients) {
    return $t->write_file('herd.plan', join "\t", 'once', $clients, 100, 0, $words,
        "GET /@ HTTP/1.1|Host: a|Connection: close||\n");
};
my @herd = (Bench::Identity::Stage::program('herd'), $many->port, 30);
my $said = qx{@herd @{[ $plan->(5) ]}};
like $said, qr/clients=5 served=5 tries=10 most_tries=2 .* 2xx=5 .* 5xx=5 /,
    'each is refused once, comes again and is served';
cmp_ok $said =~ /waited_p50_us=(\d+)/ ? $1 : 0, '>=', 1e6, 'after the second that it was told';
isnt system("@herd @{[ $plan->(6) ]} 2>$dir/herd.err"), 0, 'six clients have no five words';

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
}, alone => 1);

sub load ($path, $seconds, $connections, %args) {
    return wrk(url => 'http://127.0.0.1:' . $server->port . $path,
        connections => $connections, seconds => 60, args => {
            method => 'POST', body => '{"refreshToken":"@"}',
            seconds => $seconds, %args });
}

SKIP: {
    skip 'needs wrk, and a plain build', 13
        if !Bench::Wrk::program() || Platform::Test::Env::asan()
        || Platform::Test::Env::valgrind();

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

    # A round against nginx.

    my $nginx = $t->nginx_conf(<<'CONF');
%%GLOBALS%%
worker_processes 1;
events { }
http {
    %%GLOBALS_HTTP%%
    log_format json '{"status":$status}';
    access_log %%DIR%%/nginx.access.log json;
    server {
        listen 127.0.0.1:%%PORT_web%%;
        location / { return 200 "good"; }
        location /bad { return 502 "bad"; }
    }
}
CONF
    $t->start_nginx;
    my ($pid) = $nginx->workers;
    Bench::Gateway::Round::prepare();
    my $round = sub ($path) {
        return Bench::Gateway::Round::round({
            pid => $pid, log => $nginx->{access}, status => 200,
            url => 'http://127.0.0.1:' . $t->port('web') . $path,
            method => 'GET',
            headers => [], connections => 2 }, 1);
    };
    my $one = $round->('/');
    ok !$one->{refused} && $one->{ns} > 100 && $one->{requests} > 10,
        'control: a round counts' or diag explain $one;
    like $round->('/bad')->{refused}, qr/answers were not 200/,
        'a round with other answers is refused';
    $t->nginx->stop;
    like $round->('/')->{refused}, qr/wrk|connect/, 'and one that reaches nobody';
}

$t->done;
