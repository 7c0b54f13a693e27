# The benchmark of identity: its load generator uses the token it just got, a
# round with an error is refused, and the figures are what they say.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib", "$FindBin::Bin/../bench/lib";
use JSON::PP;
use Platform::Test;
use Test::More;

use Bench::Identity::Cpu;
use Bench::Identity::Report;
use Bench::Identity::Scenario;
use Bench::Identity::Stats;

# -- figures --------------------------------------------------------------------

is median(3), 3, 'median of one';
is median(9, 1, 5), 5, 'of three';
is median(4, 1, 2, 9), 3, 'of four';
is_deeply summary(3, 1, 2), { median => 2, low => 1, high => 3, n => 3 },
    'a summary';

my $goal = \&Bench::Identity::Scenario::goal;
is $goal->([ map { [ $_, '<=', 1.1 ] } 1.0, 1.1, 1.3 ])->{pass}, 1,
    'a median at its limit passes';
is $goal->([ map { [ $_, '<=', 1.1 ] } 1.0, 1.2, 1.3 ])->{pass}, 0,
    'one above it does not';
is $goal->([ map { [ $_, '>=', 0.8 ] } 0.7, 0.7, 1.3 ])->{pass}, 0,
    'nor one below where more is better';
is $goal->([ [ 2, undef, 1 ] ])->{pass}, undef, 'no goal, no verdict';

my $cell = { (map { $_ => summary(1200) } qw(rate p50_us p99_us)),
    cpu => { map { $_ => summary(10) } qw(identity postgres nginx) } };
my $text = report({ sections => { refresh => {
    cells  => { 'identity/16' => $cell }, floors => {},
    goals  => { 'a ratio, 16' => $goal->([ [ 1.32, '<=', 1.1 ] ]) },
} } });
like $text, qr/^\| 16 +\| 1200 \(1200 to 1200\) +\| 1\.20 /m, 'a row';
like $text, qr/^\| a ratio, 16 connections .*\| off by 20\.0 % +\|$/m,
    'a distance';

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
my $server = $t->http_server(api => sub {
    my ($request) = @_;

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

sub load {
    my (@args) = @_;

    my $program = Platform::Test::Env::build() . '/bench/load';
    my @cmd = ($program, '--port', $server->port, @args);
    my $pid = open(my $fh, '-|', @cmd) // die "@cmd: $!\n";
    my $said = do { local $/; <$fh> };
    close $fh;
    return ($? >> 8, decode_json($said));
}

my @json = ('--method', 'POST', '--body', '{"refreshToken":"@"}');
my $pool = $t->write_file('pool', "a\nb\n");
my ($status, $got) = load('--connections', 2, '--requests', 20, @json,
    '--path', '/chain', '--pool', $pool, '--chain');
is $status, 0, 'a chain runs' or diag explain $got;
is $got->{requests}, 20, 'as many requests as were asked for';
my %last = map { /^([ab])(\d+)$/ } split /\n/, $t->read_file('pool');
is_deeply [ sort keys %last ], [qw(a b)], 'the last tokens are kept';
is $last{a} + $last{b}, 20, 'which twenty refreshes led to';

$t->write_file('pool', "a\nb\nc\n");
($status, $got) = load('--connections', 1, '--requests', 20, @json,
    '--path', '/chain', '--pool', $pool, '--chain');
is $status, 1, 'a stale token is an error';
like $got->{error}, qr/^answer: HTTP\/1\.1 401/, 'which is told';
is $t->read_file('pool'), "a\nb\nc\n", 'the file stays as it was';

($status, $got) = load('--connections', 1, '--requests', 20, @json,
    '--path', '/use', '--pool', $pool, '--once');
is $status, 0, 'tokens that are used once';
is $got->{requests}, 3, 'end the run with the last';

($status, $got) = load('--connections', 1, '--requests', 20, '--path',
    '/fail');
is $status, 1, 'a 500 among good answers is an error';
is $got->{requests}, 5, 'and ends the run';
($status, $got) = load('--connections', 1, '--requests', 20, '--path',
    '/good');
is $status, 0, 'control: without it there is none';

$t->done;
