# Restarts of the identity service behind its supervisor's socket, while
# clients refresh their sessions through nginx: not one of ten restarts costs a
# request, let alone a session.

use IO::Socket::UNIX;
use List::Util qw(max);
use Platform::Test;
use Platform::Test::Chain;
use Socket qw(SOCK_STREAM);
use Time::HiRes qw(time);

my $RESTARTS = $ENV{SOAK_ROUNDS} // 10;
my $CLIENTS = 8;    # as many logins as may hash and wait at once

my $t = Platform::Test->new(timeout => 600);
$t->postgres;

# The supervisor's socket is there before the program, and stays.
my $path = $t->dir . '/supervised.sock';
my $socket = IO::Socket::UNIX->new(
    Local => $path, Type => SOCK_STREAM, Listen => 4096) or die "$path: $!";

sub start_identity {
    return $t->inherited_identity($socket, PLATFORM_AUTH_MAX_FAILURES => 0);
}

my $port = $t->start_face("unix:$path", listen => 'backlog=1024',
    http => 'keepalive_requests 1000000;');
my $running = start_identity();

# A client: one session after the other, refreshed some fifty times each; an
# answer that is not a 200 ends the session and is told.
sub client ($=) {
    my $http = Platform::Test::Http->new(port => $port, timeout => 30 * $t->scale);
    my $post = sub ($path, $data) {
        my $start = time;
        my $res = $http->request(POST => "/api/auth/$path", json => $data);
        printf "%s %s %.3f\n", $path, $res ? $res->status : 'none', time - $start;
        return $res && $res->status == 200 ? $res->json : undef;
    };
    until (-e $t->dir . '/enough') {
        my $answer = $post->(login => { account => 'one@demo.test',
            credential => $Platform::Test::Stack::CREDENTIAL });
        for (1 .. 51) {
            $answer = $post->($_ > 50 ? 'logout' : 'refresh',
                { refreshToken => $answer->{refreshToken} }) // last if $answer;
        }
    }
}

my $clients = Platform::Test::Crowd->new($t, 'client', $CLIENTS, \&client);

my (@exits, @lost);
for my $round (1 .. $RESTARTS) {
    my $before = $clients->lines;
    eventually(sub { $clients->lines > $before + 100 }, 20)
        or push @lost, "round $round: too slow";
    $running->expect_end->signal('TERM');
    $running->wait_end(10) or push @lost, "round $round: no end";
    push @exits, $running->status;
    $running = start_identity();
    my @bad = grep { !/^\w+ 200 / } $clients->lines;
    push @lost, "round $round: " . @bad if @bad;
}
$t->track($running);
sleep 1;
$t->write_file('enough', '');
ok $clients->ends(30), 'the clients end';

my %answers;
my $longest = max(map { my ($path, $status, $took) = split / /;
    $answers{"$path $status"}++; $took } $clients->lines);
diag sprintf 'the longest took %.2f s; %s', $longest,
    join ', ', map {"$_: $answers{$_}"} sort keys %answers;
is_deeply \@exits, [ (0) x $RESTARTS ], 'every process ended with 0';
is_deeply \@lost, [], "$RESTARTS restarts of $RESTARTS cost nothing";
is_deeply [ grep { !/ 200$/ } keys %answers ], [], 'every answer is a 200';

$t->done;
