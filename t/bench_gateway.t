# The benchmark itself: its statistics are right, its verdicts are honest, and
# a round in which anything went wrong is refused.

use Platform::Test;

use Bench::Figures;
use Bench::Gateway::Round;
use Bench::Wrk;

is median(5), 5, 'median of one';
is median(9, 1, 5), 5, 'of three';
is median(1, 2, 3, 10), 2.5, 'of four';
is quantile(0.25, 1 .. 5), 2, 'first quartile';
is quantile(0.9, 0, 10), 9, 'between two values';

my @values = map { 1 + 0.01 * $_ } -10 .. 10;
my ($low, $high) = interval(@values);
cmp_ok $low, '<', 1, 'the interval begins below the median';
cmp_ok $high, '>', 1, 'and ends above it';
cmp_ok $high - $low, '<', 0.15, 'narrower than the values';
is_deeply [ interval(@values) ], [ $low, $high ], 'the same every time';
is_deeply [ interval((2) x 20) ], [ 2, 2 ], 'no spread, no width';

sub said_of {
    my %ratio;
    @ratio{qw(low median high)} = @_;
    return Bench::Figures::verdict(\%ratio, 1.10);
}
is said_of(1.00, 1.05, 1.10), 'pass', 'the whole interval within the goal';
like said_of(1.00, 1.05, 1.21), qr/^the median passes, .* 10\.0 % off$/,
    'only the median within it';
is said_of(1.10, 1.21, 1.30), 'over by 10.0 %', 'over the goal';

# Pairs in which the case costs what base and one verification cost.
my @pairs = ({ case => [ { ns => 40 }, { ns => 44 } ],
    base => [ { ns => 21 }, { ns => 23 } ], verify => 20 }) x 5;
my $judge = \&Bench::Gateway::Round::judge;
my $goal = $judge->([ 'case', 'base', 1, verify => 1 ], \@pairs);
is $goal->{ratio}{median}, 1, 'a goal of base and a verification';
like goal_table($goal), qr/^\| case .* \| pass +\|$/m, 'which passes';
$goal = $judge->([ 'case', 'base', 1.5 ], \@pairs);
like goal_table($goal), qr/\| over by 27\.3 % \|$/m, 'a goal by ratio';

# -- what a log says --------------------------------------------------------------

sub wrong { return Bench::Gateway::Round::wrong_in_log(@_) }

my ($good, $bad, $cut) = map {qq({"status":$_,"bytes":1}\n)} 200, 502, 499;
is wrong($good x 9, 200, 2, 9), undef, 'nothing wrong';
is wrong($good x 9 . $cut x 2, 200, 2, 9), undef, 'cut off when wrk ended';
like wrong($good x 9 . $cut x 3, 200, 2, 9), qr/3 requests were cut off/,
    'more than its connections';
like wrong($good x 9 . $bad, 200, 2, 9), qr/1 of 10 answers were not 200/, 'another status';
like wrong($good x 8, 200, 2, 9), qr/only 8 answers/, 'too few lines';

# -- real rounds --------------------------------------------------------------------

SKIP: {
    skip 'needs wrk, and a plain build', 3
        if !Bench::Wrk::program() || Platform::Test::Env::asan()
        || Platform::Test::Env::valgrind();

    my $t = Platform::Test->new(module => 0);
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
    $t->done;
    exit;
}
done_testing;
