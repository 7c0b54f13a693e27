# FastCGI connections: each is good for one request; those that are silent,
# slow, half-sent or broken hold up others for two seconds at most.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $t = Platform::Test->new;
my $slack = $t->scale;
my $identity = $t->identity(
    PLATFORM_WORKER_THREADS    => 4,
    PLATFORM_REQUEST_TIMEOUT   => 10 * $slack . 's',
    PLATFORM_AUTH_MAX_FAILURES => 0,
);
my $address = $identity->address;
my $io_s = 2;    # for a request to come whole

sub bytes { return Platform::Test::Fcgi::request_bytes(@_) }

# One request on a connection of its own; how long it took.
sub served_in {
    my $start = time;
    my $got = $t->fcgi($address)->request(GET => '/healthz');
    return $got && $got->{status} == 200 ? time - $start : 1e9;
}

# Every connection in the list is closed by the server.
sub all_closed {
    return !grep { !$_->connection->closed } @_;
}

# One request each.

my $c;
my @served = map {
    $c = $t->fcgi($address);
    my $got = $c->request(GET => '/healthz', keep => $_ % 2);
    $got && $got->{status} == 200 ? $c : ()
} 1 .. 50;
is scalar @served, 50, '50 connections of 50 are served, asked to be kept or not';
ok all_closed(@served), 'and closed';

$c = $t->fcgi($address);
$c->send(bytes(GET => '/healthz', keep => 1) x 2);
is $c->read_answer->{status}, 200, 'of two requests at once the first is served';
is $c->read_answer, undef, 'the second is not';

# Half-sent ones.

my $request = bytes(POST => '/api/auth/logout', body => '{}');
my @half;
cmp_ok least($io_s + 1.5 * $slack, sub {
    for my $cut (1, 7, 8, 15, 16, 17, 30, 100, length($request) - 20,
        length($request) - 9, length($request) - 1) {
        for (1 .. 4) {
            my $half = $t->fcgi($address);
            $half->send(substr $request, 0, $cut);
            push @half, $half;
        }
    }
    push @half, map { $t->fcgi($address) } 1 .. 8;    # silent ones
    sleep 0.1;
    return served_in();
}), '<', $io_s + 1.5 * $slack,
    '52 half-sent requests hold four workers up for their time once';
ok all_closed(@half), 'and are closed then';

# A request that comes in small pieces is served; one that never ends is not.

$c = $t->fcgi($address);
for my $piece ($request =~ /.{1,20}/gs) {
    $c->send($piece);
    sleep 0.005;
}
is $c->read_answer->{status}, 200, 'a request in 20-byte pieces is served';

my $took = least($io_s + $slack, sub {
    $c = $t->fcgi($address);
    my $start = time;
    for my $byte (split //, $request) {
        last if $c->connection->closed(0.05);
        $c->send($byte);
    }
    return time - $start;
});
cmp_ok $took, '>', $io_s - 0.2, 'a dripping request has its time';
cmp_ok $took, '<', $io_s + $slack, 'and no more';

# A body larger than what is kept of one.

my $large = bytes(POST => '/api/auth/refresh', body => 'x' x 200_000);
@half = ();
cmp_ok least($io_s + 1.5 * $slack, sub {
    my @large = map { $t->fcgi($address) } 1 .. 4;
    $_->send(substr $large, 0, 150_000) for @large;
    push @half, @large;
    sleep 0.2;
    return served_in();
}), '<', $io_s + 1.5 * $slack,
    'as many half-sent large bodies as workers delay by their time';
is grep({ $_->read_answer->{status} != 413 } @half), 0, 'have an answer each';
ok all_closed(@half), 'and are closed then';

sub refresh_status {
    return $t->fcgi($address)
        ->request(POST => '/api/auth/refresh', body => $_[0])->{status};
}

is refresh_status('x' x 200_000), 413, 'a whole one gets 413';
my $exact = '{"refreshToken":""}' . ' ' x (16_384 - 19);
is refresh_status($exact), 401, '16384 bytes are no 413';
is refresh_status("$exact "), 413, '16385 are';

# Parameters of the size of a record, the most that nginx ever sends.

sub params_of {
    my ($size) = @_;

    my $fixed = length(bytes(GET => '/healthz', params => { HTTP_X_PAD => '' }))
        - length(bytes(GET => '/healthz', params => {}));
    my $rest = length(bytes(GET => '/healthz')) - 8 * 4 - 8;
    return { HTTP_X_PAD => 'x' x ($size - $rest - $fixed - 3) };
}

for my $size (65_000, 65_535) {
    my $whole = bytes(GET => '/healthz', params => params_of($size));
    is unpack('x20n', $whole), $size, "parameters of $size bytes";
    $c = $t->fcgi($address);
    $c->send($whole);
    my $got = $c->read_answer;
    is $got && $got->{status}, 200, 'are served';
}

# Broken ones.

my %broken = (
    'HTTP' => "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    'another version' => "\x02" . substr($request, 1),
    'another role' => substr($request, 0, 9) . "\x02" . substr($request, 10),
    'parameters of 2 GiB' => substr($request, 0, 16)
        . Platform::Test::Fcgi::record(4, "\xff\xff\xff\xfe" x 2)
        . Platform::Test::Fcgi::record(4, ''),
    'parameters beyond a record' => substr($request, 0, 16)
        . Platform::Test::Fcgi::record(4, "\1\1AB" x 16_383) x 2,
    'a body before parameters' => substr($request, 0, 16)
        . Platform::Test::Fcgi::record(5, 'x'),
    'a request given up half-way' => substr($request, 0, 16)
        . Platform::Test::Fcgi::record(2, ''),
    'management records' => Platform::Test::Fcgi::record(9, '', 0),
);
for my $name (sort keys %broken) {
    cmp_ok least($slack, sub {
        my $start = time;
        $c = $t->fcgi($address);
        $c->send($broken{$name});
        return all_closed($c) ? time - $start : 1e9;
    }), '<', $slack, "$name: closed at once";
}
cmp_ok least($slack, \&served_in), '<', $slack, 'others are served';

for (1 .. 50) {
    $c = $t->fcgi($address);
    $c->send(bytes(GET => '/.well-known/jwks.json'));
    $c->connection->reset;
}
cmp_ok least($slack, \&served_in), '<', $slack, 'peers that leave do no harm';

$c = $t->fcgi($address);
$c->send(bytes(POST => '/api/auth/refresh', body => '{}',
    params => { CONTENT_LENGTH => 3 }));
ok all_closed($c), 'a body shorter than announced gets no answer';

# Those who do not read their answers, and send requests on and on.

my $many_requests = bytes(GET => '/.well-known/jwks.json', keep => 1) x 2000;
my @deaf = map { $t->fcgi($address) } 1 .. 16;
for my $deaf (@deaf) {
    my $fh = $deaf->connection->{fh};
    my $sent = 0;
    local $SIG{PIPE} = 'IGNORE';
    while ($sent < length $many_requests) {
        my $n = syswrite $fh, $many_requests, 65536, $sent;
        last if !defined $n;    # full, or closed already
        $sent += $n;
    }
}
cmp_ok least($slack, \&served_in), '<', $slack,
    'peers that do not read hold nobody up';
is grep({ $_->read_answer->{status} == 200 } @deaf), 16,
    'and have an answer each';
@deaf = ();

# Those who leave while their request is worked on: here at a database that
# does not answer.

$address = $t->identity(
    name                          => 'hasty',
    PLATFORM_WORKER_THREADS       => 4,
    PLATFORM_REQUEST_TIMEOUT      => '6s',
    PLATFORM_DB_STATEMENT_TIMEOUT => '50s',
    PLATFORM_DB_CONNECT_TIMEOUT   => '50s',
)->address;
ok eventually(sub { served_in() < $slack }), 'one of little patience';
my $pg = $t->postgres;
$pg->freeze('STOP');
for (1 .. 4) {
    $c = $t->fcgi($address);
    $c->send(bytes(POST => '/api/auth/login', body =>
        '{"account":"one@demo.test","credential":"x"}'));
    sleep 0.05;
    $c->connection->reset;
}
sleep 3;    # who comes then is young enough when they end
cmp_ok served_in(), '<', 20,
    'requests given up by their peers end at the request timeout';
$pg->freeze('CONT');
ok eventually(sub {
    $t->fcgi($address)->request(GET => '/readyz')->{status} == 200
}), 'and the database is used again';

# Parameters are not the environment, nor the other way round.

my $tcp = $t->identity(
    name            => 'tcp',
    IDENTITY_LISTEN => '127.0.0.1:' . $t->port('tcp'),
    HTTP_HOST       => 'app.example.com',
    HTTP_COOKIE     => 'platform_refresh_token=abc',
);
my $got = $t->fcgi($tcp->address)->request(POST => '/api/auth/refresh');
is $got->{status}, 401, 'over TCP: served';
like $got->{body}, qr/AUTH_REFRESH_TOKEN_MISSING/,
    'a cookie in the environment is none of the request';

$t->done;
