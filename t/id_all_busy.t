# All workers are busy: a request's time runs from its arrival all the same,
# who waited is served next, and who waited for too long is told so.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;
use Time::HiRes qw(sleep);

my $FROZEN_S = 3;
my $LATE_MS = 700;    # well below

my $t = Platform::Test->new;
my $identity = $t->identity_face(PLATFORM_WORKER_THREADS => 1);
my $port = $t->port('identity');
my $pg = $t->postgres;
my $jwks = '/.well-known/jwks.json';

# Durations of the key set's access lines, in milliseconds.
sub durations {
    return map { $_->{durationMs} }
        grep { $_->{event} eq 'http.request' && $_->{path} eq $jwks }
        $identity->log_lines;
}

sub ask {
    my ($path) = @_;

    my $http = Platform::Test::Http->new(port => $port);
    $http->send(http_request_bytes(GET => $path));
    return $http;
}

is http_get($port, '/readyz')->status, 200, 'ready';
is http_get($port, $jwks)->status, 200, 'nobody is busy: served';

$pg->freeze('STOP');
my $busy = ask('/readyz');
sleep 1;    # the only worker waits for the database
my @waiting = map { ask($jwks) } 1 .. 3;
sleep $FROZEN_S;
$pg->freeze('CONT');
is $busy->read_response->status, 200, 'the database is back: ready';
is $_->read_response->status, 200, 'who waited is served' for @waiting;

my ($alone, @took) = durations();
is scalar @took, 3, 'each has a line';
is scalar(grep { $_ >= $LATE_MS } @took), 3,
    'their time ran from their arrival' or diag "@took";
is scalar(grep { $_ > $alone } @took), 3, 'unlike that of the first'
    or diag "$alone, @took";
is http_get($port, $jwks)->status, 200, 'then it goes on as before';

# Too long: the process stands still while two requests are on their way.

# A signal is on its way for a moment: whether every thread stands still.
sub stands_still {
    my ($pid) = @_;

    for my $file (glob "/proc/$pid/task/*/stat") {
        open my $fh, '<', $file or return 0;
        return 0 unless <$fh> =~ /^\d+ \(.*\) T /;
    }
    return 1;
}

sub held {
    my ($timeout_s, $seconds) = @_;

    my $one = $t->identity(name => "timeout$timeout_s",
        PLATFORM_REQUEST_TIMEOUT => $timeout_s . 's');
    my $request = Platform::Test::Fcgi::request_bytes(GET => $jwks);
    is $t->fcgi($one->address)->request(GET => $jwks)->{status}, 200,
        'in time: served';
    my @early = map { $t->fcgi($one->address) } 1 .. 2;
    $_->send(substr $request, 0, 30) for @early;
    ok eventually(sub {
        $t->fcgi($one->address)->request(GET => '/actuator/prometheus')->{body}
            =~ /^identity_workers_busy 3$/m;
    }), 'two are with workers, this with another';
    $one->process->signal('STOP');
    ok eventually(sub { stands_still($one->pid) }), 'which stands still';
    $_->send(substr $request, 30) for @early;
    sleep $seconds;
    $one->process->signal('CONT');
    return map { $_->read_answer } @early;
}

for my $got (held(20 * $t->scale, 2.5)) {
    is $got->{status}, 200, 'late, but within the request timeout: served';
}
for my $got (held(2, 2.5)) {
    is $got->{status}, 503, 'beyond it: refused';
    like $got->{body}, qr/"code":"AUTH_BUSY"/, 'as busy';
    is_deeply [ map { $_->[1] } grep { $_->[0] eq 'Retry-After' }
        @{ $got->{headers} } ], [1], 'for now';
}

$t->done;
