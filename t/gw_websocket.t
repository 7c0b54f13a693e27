# WebSockets by the client of npm's ws: let in by each source of a
# token, refused; and platform_gateway_close_at_expiry, which ends them when the token
# expires or its session is revoked, and nothing else.  (Responses: t/gw_expiry.t.)

use IO::Select;
use IPC::Open2 qw(open2);
use JSON::PP qw(decode_json encode_json);
use Platform::Test;
use Platform::Test::Clock;
use feature 'state';
use Platform::Test::Env;
use Platform::Test::Revocations;
use Time::Local qw(timegm);

my $node = Platform::Test::Env::node();
my ($t, $key, undef, $upstream) = Platform::Test->gateway;
my $feed = revocations_feed($t);
my $port = $t->port('gateway');
my $program = $t->root . '/t/node/websocket.mjs';

my $server = $t->process(sockets => cmd => [ $node, $program, serve => $t->port('sockets') ],
    log => $t->dir . '/sockets.txt', ok_status => ['any']);
ok eventually(sub { ($t->read_file('sockets.txt') // '') =~ /listens/ }), 'the server of sockets';

my ($doc) = $t->read_file($t->root . '/docs/directives.md')
    =~ /^### platform_gateway_close_at_expiry\n.*?^```nginx\n(.*?)^```\n/ms;
$t->set(DOC => $doc =~ s/127[.]0[.]0[.]1:9000/127.0.0.1:@{[ $t->port('sockets') ]}/r);
my $CLOSE = 'platform_gateway_close_at_expiry on;';
my $PASS = 'proxy_http_version 1.1; proxy_set_header Upgrade $http_upgrade;'
    . 'proxy_set_header Connection upgrade; proxy_read_timeout 10m; %%TO_sockets%%';
my @conf = (main => 'worker_processes 1;', server => <<"SERVER", http => <<'HTTP');
    %%DOC%%
    location / {
        platform_gateway_access branch;
        platform_gateway_leeway 0s;
        platform_gateway_token_from subprotocol cookie=at;
        platform_gateway_cors_origins https://app.test;
        platform_gateway_forward_authorization off;
        $PASS
        location /end/ { $CLOSE $PASS }
        location /leeway/ { $CLOSE platform_gateway_leeway 2s; $PASS }
        location /other/ { $CLOSE platform_gateway_access token; $PASS }
        location /proof/ { $CLOSE platform_gateway_proof_origin https://api.test; $PASS }
        location /proof/goes/ { platform_gateway_proof_origin https://api.test; $PASS }
        location /shadow/ { $CLOSE platform_gateway_shadow on; $PASS }
    }
    location /witness { proxy_read_timeout 2s; %%TO_upstream%% }
SERVER
platform_gateway_proof zone=proofs:256k;
platform_gateway_trust other { issuer https://other.test; key_file keys.json; }
HTTP
my $nginx = revocations_conf($t, $key, @conf);
my $clock = Platform::Test::Clock->new($t, $nginx);
$t->start_gateway;

my $sessions = 100;

# A token of a session of its own, that expires in so many seconds.
sub token ($seconds, $session = uuid(++$sessions), %claims) {
    return jwt_token(branch => $key, session_id => $session, exp => int($clock->now) + $seconds, %claims);
}

# One of an issuer that revokes nothing.
sub other ($expires) {
    return jwt_sign(key => $key, payload => { iss => 'https://other.test', sub => 'x',
        exp => $expires });
}

# The program that has all sockets; what each has said and nobody has read yet.
my $pid = open2(my $out, my $in, $node, $program, 'open');
$in->autoflush;
my (%said, $text);

sub ask (@what) {
    print { $in } encode_json(\@what) . "\n";
    return $what[0];
}

# Opens a socket: what it says is read by said().
sub socket_to ($path, %o) {
    state $n = 0;
    return ask('s' . ++$n, "ws://127.0.0.1:$port$path", $o{protocols} // ['app'],
        $o{headers} // {});
}

sub said ($s) {
    until (@{ $said{$s} //= [] }) {
        return undef unless IO::Select->new($out)->can_read(60 * $t->scale)
            && sysread $out, $text //= '', 65536, length($text // '');
        push @{ $said{$1} }, $2 while $text =~ s/\A(\w+) (.*)\n//;
    }
    return shift @{ $said{$s} };
}

# That it is open: (headers of the answer, of what the upstream got).
sub opened ($s) {
    my ($upgrade, $first) = map { said($s) // '' } 1, 2;
    return map { /^\w+ (\{.*\})$/ ? decode_json($1) : { said => $_ } } $upgrade, $first;
}

sub answers ($s, $text) {
    ask($s, $text);
    return said($s);
}

sub bearer ($token) { return { Authorization => "Bearer $token" } }

sub left ($s) { return ask($s) }

my $token = token(600);
for (
    [ 'Authorization', headers => bearer($token) ],
    [ 'the subprotocol', protocols => [ 'app', "bearer.$token" ] ],
    [ 'the subprotocol first', protocols => [ "bearer.$token", 'app', 'v2' ] ],
    [ 'the page that shows it', path => '/live/', protocols => [ 'app', "bearer.$token" ] ],
    [ 'the cookie', headers => { Cookie => "a=1; at=$token", Origin => 'https://app.test' } ],
) {
    my ($name, %o) = @$_;
    my $s = socket_to($o{path} // '/', %o);
    my ($answer, $upstream) = opened($s);
    is_deeply [ $answer->{'sec-websocket-protocol'}, $upstream->{'sec-websocket-protocol'},
        $upstream->{'x-account-id'}, $upstream->{cookie} ],
        [ 'app', $name =~ /first/ ? 'app, v2' : 'app', uuid(1), $name =~ /cookie/ ? 'a=1' : undef ],
        "open by $name: the token stays here";
    is answers($s, 'hello'), 'message hello', 'echo';
    left($s);
}
for (
    [ 'no token', 401 ],
    [ 'another token', 401, headers => bearer('x') ],
    [ 'the cookie, of a page of elsewhere', 403,
        headers => { Cookie => "at=$token", Origin => 'https://evil.test' } ],
    [ 'the cookie, of no page', 403, headers => { Cookie => "at=$token" } ],
    [ 'two tokens', 400, protocols => [ 'app', 'bearer.x' ], headers => bearer($token) ],
) {
    my ($name, $status, %o) = @$_;
    my $s = socket_to('/', %o);
    is said($s), "refused $status", "refused: $name";
    left($s);
}

# The end: that of its token, but not where nobody asked for it.

my $requests = 0;

# Opens it with a token, as a request that the log knows: (the socket, its id).
sub begun ($path, $token) {
    my $id = 'socket-' . ++$requests;
    my $s = socket_to($path, headers => { %{ bearer($token) }, 'X-Request-Id' => $id });
    opened($s);
    is answers($s, 'hello'), 'message hello', "$path: open";
    return ($s, $id);
}

# What the log says of the request, once it has ended: [decision, reason, status], a line each.
sub ended ($id) {
    return eventually(sub {
        my @lines = map { decode_json($_) } grep {/"requestId":"$id"/}
            split /\n/, $nginx->access_log;
        return @lines ? [ map { @$_{qw(time decision reason status)} } @lines ] : undef;
    });
}

# Seconds since 1970 of the log's time.
sub seconds ($at) {
    my ($year, $month, $day, $h, $m, $s) = split /[-T:Z]/, $at;
    return timegm(0, $m, $h, $day, $month - 1, $year) + $s;
}

my @allowed = ('allow', 'closed_expired', 101);
my $expires = int($clock->now) + 60;
my $other = [ begun('/other/x', other($expires)) ];
my @open = map { [ begun($_, token(60, uuid(++$sessions), exp => $expires)) ] }
    '/end/x', '/leeway/x', '/goes/x', '/shadow/x';
my ($end, $grace, @go_on) = @open;
my $at;
$clock->pass(int($expires - $clock->now));    # less than a second is left
# A request that nginx itself ends after 2 seconds: what was due before has ended when it
# does, however slow the machine.
$upstream->set(hold => 1);
my $witness = http_get($port, '/witness?hold', headers => [ 'X-Request-Id' => 'witness' ]);
is $witness->status, 504, 'a request that waits for 2 seconds';
my ($latest) = @{ ended('witness') };
for ($end, $other) {
    is said($_->[0]), 'close 1006', 'it expires: closed';
    ($at, my @log) = @{ ended($_->[1]) };
    is_deeply \@log, \@allowed, 'logged once, with the reason';
    cmp_ok seconds($at), '>=', $expires, 'not before';
    cmp_ok seconds($at), '<=', seconds($latest), 'nor long after';
}
ok eventually(sub { $t->read_file('sockets.txt') =~ /closed \S+ 1006/ }), 'the upstream sees it';
$clock->pass(1);
is said($grace->[0]), 'close 1006', 'where there is leeway: closed';
($at) = @{ ended($grace->[1]) };
cmp_ok seconds($at), '>=', $expires + 2, 'after that';
is answers($_->[0], 'still'), 'message still', 'others go on' for @go_on;
left($_->[0]) for @go_on;
is_deeply [ @{ ended($_->[1]) }[ 1, 2 ] ], [qw(allow verified)], 'as they always did' for @go_on;

# The end: that of its session, or of all of its subject.

my ($gone, $stays) = map { uuid($_) } 1, 2;
($end, $other) = map { [ begun('/end/x', token(600, $_)) ] } $gone, $stays;
$feed->set(all => [ revoked_id($gone) ]);
is said($end->[0]), 'close 1006', 'its session ends: closed';
is_deeply [ @{ ended($end->[1]) }[ 1 .. 3 ] ], [ 'allow', 'closed_revoked', 101 ], 'logged';
is answers($other->[0], 'still'), 'message still', 'another session goes on';

# A bound token: the handshake needs a proof, and the socket outlives it.

my $own = jwt_key('own', alg => 'ES256');
my $bound = token(300, uuid(++$sessions), cnf => { jkt => $own->jkt });

sub proved ($path) {
    return { Authorization => "DPoP $bound", DPoP => dpop_proof($own, GET => "https://api.test$path", token => $bound) };
}
my %used = map { $_ => proved($_) } qw(/proof/x /proof/goes/x);
my %bound = map { $_ => socket_to($_, headers => $used{$_}) } keys %used;
for (sort keys %bound) {
    my (undef, $upstream) = opened($bound{$_});
    is_deeply [ @$upstream{qw(x-account-id dpop)} ], [ uuid(1), undef ], "$_: open by a proof, which stays here";
}
for (
    [ 'the same proof', 401, headers => $used{'/proof/x'} ],
    [ 'one of another path', 401, headers => proved('/proof/y') ],
    [ 'none', 401, headers => { Authorization => "DPoP $bound" } ],
    [ 'Bearer', 401, headers => bearer($bound) ],
    [ 'the subprotocol', 401, protocols => [ 'app', "bearer.$bound" ] ],
    [ 'the subprotocol, beside a proof', 401, protocols => [ 'app', "bearer.$bound" ],
        headers => { DPoP => proved('/proof/x')->{DPoP} } ],
    [ 'the cookie, beside a proof', 401, headers => { Cookie => "at=$bound", Origin => 'https://app.test',
        DPoP => proved('/proof/x')->{DPoP} } ],
) {
    my ($name, $status, %o) = @$_;
    my $s = socket_to('/proof/x', %o);
    is said($s), "refused $status", "a bound token, refused: $name";
    left($s);
}
$clock->pass(200);
is answers($_, 'still'), 'message still', 'its proof is too old: it goes on' for values %bound;
my $anew = socket_to('/proof/x', headers => proved('/proof/x'));
opened($anew);
is answers($anew, 'hello'), 'message hello', 'control: another one, by a new proof';
$clock->pass(101);
is said($_), 'close 1006', 'the token expires: closed' for $bound{'/proof/x'}, $anew;
is answers($bound{'/proof/goes/x'}, 'still'), 'message still', 'where nobody asked for that: it goes on';
left($bound{'/proof/goes/x'});

# A worker that is to exit goes on looking, and does not wait for it.

my $late = [ begun('/end/x', token(60)) ];
$t->reload;
is answers($_->[0], 'still'), 'message still', 'after a reload' for $late, $other;
$clock->pass(60);
is said($late->[0]), 'close 1006', 'the worker of before ends it';
left($other->[0]);

# A worker that exits asks the feed itself, if nobody else does for its zone.

for my $how ('a zone of another size', 'a quit') {
    $gone = uuid(++$sessions);
    ($end, $other) = map { [ begun('/end/x', token(600, $_)) ] } $gone, $stays;
    my @workers = $nginx->workers;
    if ($how eq 'a quit') {
        $nginx->process->expect_end;
        $nginx->signal('QUIT');
        ok eventually(sub { !eval { http_get($port, '/ready') } }), "$how: nobody listens";
    }
    else {
        revocations_conf($t, $key, @conf,
            set => 'zone=revocations:2m uri=/_revocations interval=100ms');
        $t->reload;
    }
    $feed->set(all => [ revoked_id($gone) ], known => $how =~ s/ /_/gr);
    is said($end->[0]), 'close 1006', "$how: a session ends: closed";
    is_deeply [ @{ ended($end->[1]) }[ 1 .. 3 ] ], [ 'allow', 'closed_revoked', 101 ], 'logged';
    is answers($other->[0], 'still'), 'message still', "$how: another session goes on";
    $feed->set(hold => 1);
    left($other->[0]);
    ok eventually(sub { !grep { kill 0, $_ } @workers }), "$how: and then the worker exits";
    $feed->set(hold => 0);
}

close $in;
waitpid $pid, 0;
$t->done;
