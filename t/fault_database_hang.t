# The database hangs in the middle of many refreshes: everyone is answered in
# time, and what was given up on does not happen when it goes on.

use Platform::Test;
use Platform::Test::Load;
use Platform::Test::Sessions;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my $unit = 3;    # seconds
my $pg = $t->postgres;
my $identity = $t->identity_face(
    PLATFORM_DB_STATEMENT_TIMEOUT => "${unit}s",
    PLATFORM_DB_CONNECT_TIMEOUT   => "${unit}s",
    PLATFORM_REQUEST_TIMEOUT      => 2 * $unit . 's',
);
my $port = $t->port('identity');

my $sessions = Platform::Test::Sessions->new;
my $load = Platform::Test::Load->new(port => $port, clients => 16);
$sessions->log_in($load, several => 16);
my @all = $sessions->all;
is scalar @all, 16, 'logged in';

# Each client refreshes a session of its own, until it has been told to wait.

my $frozen;
my $freeze_at = time + 2;
my %answers;
my %over;
$load->run(
    sub ($client, @) {
        if (!$frozen && time > $freeze_at) {
            $frozen = $pg->freeze('STOP');
        }
        return undef if $over{ $client->{number} };
        return { %{ $sessions->refresh($all[ $client->{number} ]) },
            client => $client->{number} };
    },
    sub ($request, $answer, @) {
        $answers{"$answer->{status} $answer->{code}"}++;
        $over{ $request->{client} } = 1 if $answer->{status} != 200;
        $sessions->note($request, $answer);
    });
$sessions->check_stale;
note explain \%answers;
is_deeply [ sort keys %answers ], [ '200 AUTH_REFRESH_SUCCESS', '503 DATABASE_UNAVAILABLE' ],
    'refreshed, or told that the database is not available';
is $answers{'503 DATABASE_UNAVAILABLE'}, 16, 'everybody in the end';
is_deeply $sessions->{broken}, [], 'no answer contradicts another';
cmp_ok $sessions->{longest}, '<=', 3 * $unit,
    sprintf 'the longest took %.1f s', $sessions->{longest};
my $doubtful = grep { $_->{in_doubt} } @all;
note "$doubtful of them were rotating, and told so";
is http_get($port, '/healthz')->status, 200, 'the service lives';

# It goes on: what lies before it is done, and changes nothing any more.

$pg->freeze('CONT');
ok eventually(sub { http_get($port, '/readyz')->status == 200 }), 'ready again';
ok eventually(sub { !$pg->sql("select count(*) from pg_stat_activity
    where query like '%auth_sessions%' and state = 'active'
    and pid <> pg_backend_pid()") }), 'and idle';
my %after;
$after{ http_post($port, '/api/auth/refresh',
    json => { refreshToken => $_->{current} })->status }++ for @all;
is_deeply \%after, { 200 => 16 }, 'every token is still good' or diag explain \%after;

$t->done;
