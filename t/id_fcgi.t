# What comes over FastCGI.  Connections: each is good for one request, and those that are
# silent, half-sent or broken hold up others for two seconds at most.  check_fcgi has what
# is read of a connection, check_server who is next, and that time runs from the arrival.
# Every bad body gets its exact status as problem+json, tells nothing of what was sent,
# and the next good request on the same connection works: the client's, and nginx's to
# the service.  What all is bad: check_json, check_http, check_login.

use Platform::Test;
use Platform::Test::Client;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my $slack = $t->scale;
my $identity = $t->identity(PLATFORM_WORKER_THREADS => 4, PLATFORM_AUTH_MAX_FAILURES => 0,
    PLATFORM_REQUEST_TIMEOUT => 10 * $slack . 's');
my $address = $identity->address;
my $io_s = 2;    # for a request to come whole
my $jwks = '/.well-known/jwks.json';

sub bytes { return Platform::Test::Fcgi::request_bytes(@_) }

sub begun ($bytes) {
    my $c = $t->fcgi($address);
    $c->send($bytes);
    return $c;
}

sub status_of { my $got = $t->fcgi($address)->request(@_); return $got && $got->{status} }

# How long it takes until this is true.
sub takes ($sub) {
    my $start = time;
    return $sub->() ? time - $start : 1e9;
}

sub served_in { return takes(sub { (status_of(GET => '/healthz') // 0) == 200 }) }

# Every connection in the list is closed by the server.
sub all_closed { return !grep { !$_->connection->closed } @_ }

# One request each.

my @served = map { my $c = begun(bytes(GET => '/healthz', keep => $_ % 2)); $c->read_answer; $c }
    1 .. 20;
ok all_closed(@served), 'a connection is closed after its answer, to be kept or not';
my $c = begun(bytes(GET => '/healthz', keep => 1) x 2);
is $c->read_answer->{status}, 200, 'of two requests at once the first is served';
is $c->read_answer, undef, 'the second is not';

# Half-sent ones, and bodies larger than what is kept of one.

my $request = bytes(POST => '/api/auth/logout', body => '{}');
my $large = bytes(POST => '/api/auth/refresh', body => 'x' x 200_000);
for my $case (
    [ 'half-sent requests', '', map { substr $request, 0, $_ } (0, 1, 7, 8, 16, 30, 100,
        length($request) - 9, length($request) - 1) x 4 ],
    [ 'half-sent large bodies', 413, (substr $large, 0, 150_000) x 4 ],
) {
    my ($name, $answer, @parts) = @$case;
    my @half;
    cmp_ok least($io_s + 1.5 * $slack, sub {
        push @half, map { begun($_) } @parts;
        sleep 0.1;
        return served_in();
    }), '<', $io_s + 1.5 * $slack, "$name hold four workers up for their time once";
    my %answers = map { ($_->read_answer // { status => '' })->{status} => 1 } @half;
    is_deeply [ keys %answers, all_closed(@half) ], [ $answer, 1 ], 'their answer, and the end';
}

# Broken ones, and peers that leave.

my %broken = (
    'HTTP' => "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
    'parameters of 2 GiB' => substr($request, 0, 16)
        . Platform::Test::Fcgi::record(4, "\xff\xff\xff\xfe" x 2)
        . Platform::Test::Fcgi::record(4, ''),
);
for my $name (sort keys %broken) {
    cmp_ok least($slack, sub { takes(sub { all_closed(begun($broken{$name})) }) }), '<', $slack,
        "$name: closed at once";
}
begun(bytes(GET => $jwks))->connection->reset for 1 .. 50;
cmp_ok least($slack, \&served_in), '<', $slack, 'peers that leave do no harm';

# nginx in front, with many more clients than worker threads: nobody starves.

my $port = $t->start_face($identity->nginx_address, listen => 'backlog=1024');
my @kinds = ([ 200, GET => $jwks ], [ 200, POST => '/api/auth/logout', json => {} ],
    [ 413, POST => '/api/auth/refresh', body => 'x' x 20_000 ], [ 200, GET => '/readyz' ]);
my @requests = map { my (undef, @request) = @{ $kinds[ $_ % 4 ] };
    [ $port, http_request_bytes(@request) ] } 0 .. 63;
cmp_ok least(3 * $slack, sub { takes(sub {
    is_deeply [ map { $_ && $_->status } http_parallel(\@requests) ],
        [ map { $_->[0] } (@kinds) x 16 ], '64 clients at once';
}) }), '<', 3 * $slack, 'without waiting';

# Bad bodies.

client_of($t);
restart($identity, REQUEST_TIMEOUT => '40s');
my $account = logged_in('several')->{accountAccessToken};

# For each endpoint a member that it reads, and a request that works.
my %endpoint = (
    login => [ 'account', 200, '{"account":"one@demo.test","credential":"Demo-passw0rd!"}' ],
    refresh => [ 'refreshToken', 401, '{"refreshToken":"x"}' ],
    'select-branch' => [ 'branchId', 200, qq({"branchId":"${\branch(31)}"}), token => $account ],
    logout => [ 'refreshToken', 200, '{"refreshToken":"x"}' ],
);

# Bodies that are wrong for all; %s is the member's name.
my @bad = ([ 'not JSON' => 'SECRET' ], [ 'a duplicate' => '{"%s":"SECRET","%s":"SECRET"}' ],
    [ 'bad UTF-8' => "{\"%s\":\"SECRET\xff\"}" ]);

for my $name (sort keys %endpoint) {
    my ($member, $status, $good, @token) = @{ $endpoint{$name} };
    my $c = Platform::Test::Http->new(port => $port);
    my $send = sub ($body, $type = 'application/json') {
        return $c->request(POST => "/api/auth/$name", body => $body, @token,
            headers => [ defined $type ? ('Content-Type' => $type) : () ]);
    };
    for my $case (@bad) {
        my ($what, $body) = @$case;
        my $res = $send->($body =~ s/%s/$member/gr);
        is_problem($res, 400, 'REQUEST_INVALID', "$name: $what");
        unlike $res->raw_head . $res->body, qr/SECRET|Set-Cookie/i,
            "$name: $what: not echoed, and no cookie is touched";
        is $send->($good)->status, $status, "$name: a good request after $what";
    }

    # 16 KiB, and a byte more.
    my $largest = $good =~ s/\}\z/' ' x (16384 - length $good) . '}'/er;
    is_problem($send->("$largest "), 413, 'REQUEST_TOO_LARGE', "$name: over 16 KiB");
    is_problem($send->('x' x 200_000, 'text/plain'), 413, 'REQUEST_TOO_LARGE',
        "$name: size comes before type");
    is_deeply [ map { $send->(@$_)->status } [ $largest, 'application/json ; charset="utf-8"' ],
        [ $good, 'Application/JSON;charset=UTF-8' ] ], [ ($status) x 2 ], "$name: 16 KiB pass";
}

unlike $identity->log_text, qr/SECRET|passw0rd|eyJ/, 'no secret in the log';

# Parameters are not the environment, nor the other way round.

my $tcp = $t->identity(name => 'tcp', IDENTITY_LISTEN => '127.0.0.1:' . $t->port('tcp'),
    HTTP_HOST => 'app.example.com', HTTP_COOKIE => 'platform_refresh_token=abc');
like $t->fcgi($tcp->address)->request(POST => '/api/auth/refresh')->{body},
    qr/AUTH_REFRESH_TOKEN_MISSING/, 'a cookie in the environment is none of the request';

# Late: the only worker is held up for longer than a request may wait for one.

my $slow = $t->identity(name => 'slow', PLATFORM_WORKER_THREADS => 1,
    PLATFORM_QUEUE_TIMEOUT => '0.3s', PLATFORM_REQUEST_TIMEOUT => 10 * $slack . 's');
$address = $slow->address;
my ($get, $refresh) = (bytes(GET => $jwks), bytes(POST => '/api/auth/refresh'));
ok eventually(sub {
    my $hold = begun(substr $get, 0, 30);
    my ($late, $health) = map { begun($_) } $refresh, bytes(GET => '/healthz');
    my $until = time + 0.4;
    ok eventually(sub { time > $until }), 'by then it is late';
    my $young = begun($refresh);
    $hold->send(substr $get, 30);
    return join(' ', map { $_->read_answer->{status} } $late, $health, $young) eq '503 200 401';
}), 'who waited too long is refused, but for health; the next one is served';

sub refused {
    return $t->fcgi($address)->request(GET => '/actuator/prometheus')->{body}
        =~ m{^identity_requests_total\{endpoint="/api/auth/refresh",status="503".* (\d+)$}m;
}
my ($before) = refused();
my $hold = begun(substr $get, 0, 30);
begun($refresh)->connection->close;
$hold->send(substr $get, 30);
is_deeply [ refused() ], [ $before + 1 ], 'so is a refresh whose client has gone';

$t->done;
