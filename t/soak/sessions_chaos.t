# Sixty-four clients refresh, select and log out the same sessions at random
# while PostgreSQL is restarted three times and an identity process is killed
# twice: whoever got a 200 can go on with what it got, whoever logged out is
# out, and nobody waits for long.

use Platform::Test;
use Platform::Test::Load;
use Platform::Test::Sessions;
use Storable qw(retrieve store);
use Time::HiRes qw(time);

my $SECONDS = $ENV{SOAK_SECONDS} // 60;
my $REQUEST_TIMEOUT = 5;

my $t = Platform::Test->new(timeout => $SECONDS + 180);
my $pg = $t->postgres(durable => 1);
my @identity = map { $t->identity(name => $_,
    PLATFORM_REQUEST_TIMEOUT   => "${REQUEST_TIMEOUT}s",
    PLATFORM_AUTH_MAX_FAILURES => 100000) } qw(a b);    # all log in to one account
$t->start_face('identity', http => 'keepalive_requests 1000000; upstream identity {'
    . join('', map { 'server ' . $_->nginx_address . ' fail_timeout=1s;' } @identity) . '}');
ok eventually(sub { http_get($t->port('identity'), '/readyz')->status == 200 }, 20), 'ready';

# -- the clients, in a process of their own

my $result = $t->dir . '/result';
my $clients = Platform::Test::Crowd->new($t, 'clients', 1, \&clients);

sub one_of { return $_[ rand @_ ] }

sub clients {
    srand 20;    # the same dice every time; the timing is chance enough
    my $load = Platform::Test::Load->new(
        port => $t->port('identity'), clients => 64, timeout => 20);
    my $sessions = Platform::Test::Sessions->new;
    my (@pool, $logging_in);

    my $end = time + $SECONDS;
    $load->run(sub {
        return undef if time > $end;
        @pool = grep { !$_->{logout_done} && !$_->{doubt} } $sessions->all
            if rand() < 0.1 || !@pool;
        if (@pool + ($logging_in // 0) < 24) {
            $logging_in++;
            return $sessions->login('several');
        }
        my $s = @pool ? one_of(@pool) : return $sessions->login('several');
        my $dice = rand;
        return $sessions->logout($s)        if $dice < 0.01;
        return $sessions->select_branch($s) if $dice < 0.35;
        # Now and then a token that may long have been replaced.
        return $sessions->refresh($s, $s->{issued}{ one_of(@{ $s->{order} }) })
            if $dice < 0.4;
        return $sessions->refresh($s);
    }, sub {
        $logging_in-- if $_[0]{path} =~ /login$/;
        $sessions->note(@_);
    });
    my $storm = { %{ $sessions->{count} } };
    $sessions->check_stale;

    # Calm again.  What was handed out last works, unless somebody wanted it
    # ended; of sessions that ended, nothing works.
    my @after = map { $sessions->refresh($_), $sessions->select_branch($_) }
        grep { !$_->{logout_sent} && !$_->{doubt} } $sessions->all;
    my %calm;
    $load->run(sub { shift @after }, sub ($request, $answer) {
        $calm{ "$request->{path} $answer->{status} $answer->{code}" }++;
        $sessions->note($request, $answer);
    });
    store [ $sessions, $storm, \%calm, $sessions->after_logout($load) ], $result;
}

# -- the chaos

my $start = time;
my @acts = (
    [ 0.10, sub { $pg->stop('INT'); $pg->start } ],
    [ 0.25, sub { $identity[0]->stop('KILL'); sleep 0.3; $identity[0]->start } ],
    [ 0.45, sub { $pg->stop('QUIT'); $pg->start } ],
    [ 0.60, sub { $identity[1]->stop('KILL'); sleep 0.3; $identity[1]->start } ],
    [ 0.75, sub { $pg->stop('INT'); sleep 1; $pg->start } ],
);
for my $act (@acts) {
    sleep 0.05 while time < $start + $act->[0] * $SECONDS;
    $act->[1]->();
}
ok $clients->ends(120), 'the clients came to their end';

# -- the verdict

my ($sessions, $storm, $calm, $over) = @{ retrieve($result) };
my %storm = %$storm;
note join "\n", "longest: $sessions->{longest} s", map {"$_: $storm{$_}"} sort keys %storm;

my $all = 0;
$all += $storm{$_} for grep { $_ ne 'unknown' } keys %storm;
cmp_ok $all, '>=', 100 * $SECONDS, "$all requests";
cmp_ok $storm{'refresh 200 AUTH_REFRESH_SUCCESS'} // 0, '>=', 10 * $SECONDS, 'rotations';
cmp_ok $storm{'logout 200 AUTH_LOGOUT_SUCCESS'} // 0, '>=', $SECONDS / 3, 'logouts';
ok scalar(grep {/ 503 DATABASE_UNAVAILABLE/} keys %storm), 'the database was missed';
is_deeply $sessions->{broken}, [], 'no answer contradicts another';
cmp_ok $storm{unknown} // 0, '<', $all / 20, ($storm{unknown} // 0) . ' without an answer';
cmp_ok $sessions->{longest}, '<=', $REQUEST_TIMEOUT + 1, 'nobody waited for longer';

my @calm = keys %$calm;
is_deeply [ @calm - 2, grep { !/ 200 / } @calm ], [0],
    'what was handed out last works on' or diag explain $calm;
is_deeply [ keys %$over ], ['401 AUTH_SESSION_NOT_ACTIVE'],
    'nothing of a session that ended does' or diag explain $over;
is_deeply [ $sessions->wrong_rows($pg) ], [], 'the rows are legal and say the same';
is $pg->sql('select string_agg(distinct status, \' \' order by status) from auth_sessions'),
    'ACTIVE REVOKED', 'of both kinds';

$t->done;
