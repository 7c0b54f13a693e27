# All workers are busy: a request's time runs from its arrival all the same,
# and who waited is served next.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;
use Time::HiRes qw(sleep);

my $FROZEN_S = 1.5;
my $LATE_MS = 700;    # well below, and well above how late arrivals are seen

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
sleep 0.2;    # the only worker waits for the database
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

$t->done;
