# What platform_gateway_close_at_expiry ends, when the token expires and when its session
# is revoked: a response in each protocol and of each origin.  The client sees the end
# within a second, and not the end of a whole response; nothing follows on a connection of
# HTTP/1; other streams of one of HTTP/2 or HTTP/3 go on.  What is not to be ended is
# not.  HTTP/3 is tested where nginx has it, as from 1.25 those of make matrix do.

use IPC::Open2 qw(open2);
use JSON::PP qw(decode_json);
use Platform::Test;
use Platform::Test::Clock;
use Platform::Test::Revocations;
use Time::HiRes qw(time);
use Time::Local qw(timegm);

my ($t, $key, undef, $upstream) = Platform::Test->gateway;
my $feed = revocations_feed($t);

# Enough that nginx has begun the response, then a dot now and then.
my $LONG = 'data' x 4000;
my $OK = "HTTP/1.1 200 OK\r\nCache-Control: max-age=60\r\n";
my $endless = $t->http_server(endless => sub ($request, $self, @) {
    my $uri = $request->{uri};
    if ($uri =~ /late/) {
        sleep 0.1 until $self->get->{late};
        return [ 200, [], 'data' ];
    }
    my @say = ("$OK\r\n$LONG");
    @say = ("${OK}Content-Length: 100000\r\n\r\n$LONG") if $uri =~ /length/;
    if (my ($from, $to) = map {/bytes=(\d+)-(\d+)/} grep {defined}
        Platform::Test::Server::header($request, 'range'))
    {
        @say = ("HTTP/1.1 206 Partial Content\r\nContent-Range: bytes $from-$to/40000\r\n"
            . "Content-Length: 4000\r\n\r\n" . ($from ? 'more' : 'data' x 1000));
        return \$say[0] if $from == 0;
    }
    return sub {
        return shift @say if @say;
        return 'x' x 65536 if $uri =~ /flood/;
        sleep 0.1;
        return $self->get->{stop} ? undef : '.';
    };
});
my $upgrades = $t->http_server(upgrades => undef, protocol => sub ($fh, $self, @) {
    $self->read_head($fh) // return;
    syswrite $fh, "HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: upgrade\r\n\r\n"
        . $LONG;
    1 while sysread $fh, my $data, 4096;
});

my $dir = $t->dir;
system("openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    . " -keyout $dir/key.pem -out $dir/cert.pem 2>/dev/null") == 0 or die "openssl req failed\n";
$t->write_file('www/ssi/page.html', "$LONG<!--# include virtual='/part?quick' -->"
    . "<!--# include virtual='/endless' --><!--# include virtual='/part?last' -->");
$t->write_file('www/file', $LONG x 100);

my $nginx_program = Platform::Test::Env::nginx();
my $h3 = qx{$nginx_program -V 2>&1} =~ /--with-http_v3_module/
    ? 'listen 127.0.0.1:%%PORT_h3%% quic; add_header X-Port $remote_port;' : '';
my @browser = $h3 ? (Platform::Test::Env::node(), $t->root . '/t/node/http3.js',
    Platform::Test::Env::chromium()) : ();
my @conf = (main => 'worker_processes 1;', http => 'platform_gateway_proof zone=proofs:64k; '
    . 'proxy_cache_path %%DIR%%/cache keys_zone=cache:1m; proxy_cache_path %%DIR%%/slices keys_zone=slices:1m;',
    server => $h3 . <<'SERVER');
    listen 127.0.0.1:%%PORT_h2%% http2;
    listen 127.0.0.1:%%PORT_tls%% ssl http2;
    ssl_certificate %%DIR%%/cert.pem;
    ssl_certificate_key %%DIR%%/key.pem;
    root %%DIR%%/www;
    proxy_http_version 1.1;
    location / {
        platform_gateway_allow_cache on;
        platform_gateway_access branch;
        platform_gateway_leeway 0s;
        platform_gateway_close_at_expiry on;
        location /bound {
            platform_gateway_proof_origin https://127.0.0.1:%%PORT_h3%%;
            %%TO_upstream%%
        }
        location /whole { proxy_request_buffering off; %%TO_upstream%% }
        location /endless { proxy_buffering off; %%TO_endless%% }
        location /buffered { %%TO_endless%% }
        location /cached { proxy_cache cache; %%TO_endless%% }
        location /gzip { gzip on; gzip_types *; proxy_buffering off; %%TO_endless%% }
        location /copied { mirror /mirror; %%TO_endless%% }
        location /slices {
            slice 4000;
            proxy_cache slices;
            proxy_cache_key $uri$slice_range;
            proxy_set_header Range $slice_range;
            proxy_cache_valid 1m;
            %%TO_endless%%
        }
        location /ssi/ { ssi on; }
        location /gif { lingering_timeout 60s; empty_gif; }
        location /file { limit_rate 4k; }
        location /upgrade {
            proxy_set_header Upgrade $http_upgrade;
            proxy_set_header Connection upgrade;
            %%TO_upgrades%%
        }
    }
    location /mirror { internal; %%TO_endless%% }
    location /part { internal; %%TO_upstream%% }
    location /witness { platform_gateway_access public; proxy_read_timeout 2s; %%TO_upstream%% }
    location /goes { platform_gateway_access branch; proxy_buffering off; %%TO_endless%% }
SERVER
my $nginx = revocations_conf($t, $key, @conf);
my $clock = Platform::Test::Clock->new($t, $nginx);
$t->start_gateway;
my ($port, $h2, $tls) = map { $t->port($_) } qw(gateway h2 tls);

my ($sessions, $requests) = (100, 0);
my $LIFE = 30;    # seconds; nginx gives an upstream up after 60
sub token ($expires, $session = uuid(++$sessions)) {
    return jwt_token(branch => $key, session_id => $session, exp => int $expires);
}

# What does not end is not waited for as long as elsewhere; where the log has it, the
# client has it.
$Platform::Test::Http::TIMEOUT = 20 * $t->scale;
my $SOON = 2 * $t->scale;

# What the log says of the request, once it has ended.
sub ended ($id) {
    my ($line) = map { decode_json($_) } @{ eventually(sub {
        my @lines = grep {/"requestId":"$id"/} split /\n/, $nginx->access_log;
        return @lines ? \@lines : undef;
    }, 20) // ['{}'] };
    my ($year, $month, $day, $h, $m, $s) = split /[-T:Z]/, $line->{time} // '1970-01-01T0:0:0';
    $line->{at} = timegm(0, $m, $h, $day, $month - 1, $year) + $s;
    return $line;
}

# Clients.  Each has begun when it has read something of the body; its end is a text.

sub first ($c) {
    1 while $c->{buf} !~ /data/ && $c->_fill(time + $c->{timeout});
    return $c->{buf} =~ /data/;
}

# A request that nginx itself ends after 2 seconds: what was due before has ended when it
# does, however slow the machine.  Its connection and its id.
sub witness () {
    my ($c, $id) = (Platform::Test::Http->new(port => $port), 'request-' . ++$requests);
    $c->send(http_request_bytes(GET => '/witness?hold', headers => [ 'X-Request-Id' => $id ]));
    return ($c, $id);
}

# HTTP/1: what came until the connection ended; an error is how a reset is seen.
sub rest ($c) {
    $! = 0;
    $c->{timeout} = $SOON;
    my $all = $c->read_all;
    return ($all, $!{ECONNRESET} ? 'reset' : 'closed');
}

sub http1 ($path, $token, %o) {
    my $id = 'request-' . ++$requests;
    my $c = Platform::Test::Http->new(port => $port);
    $c->send(http_request_bytes(GET => $path, token => $token, connection => 'keep-alive', %o,
        headers => [ 'X-Request-Id' => $id, @{ $o{headers} // [] } ]) . ($o{then} // ''));
    return { id => $id, begun => $o{slow} || first($c), end => sub {
        my ($all, $how) = eval { rest($c) } or return 'goes on';
        return $how if $o{slow};
        my $heads = () = $all =~ m{HTTP/1\.1 }g;
        return $heads > 1 ? 'another response' : $all =~ /\r\n0\r\n\r\n\z/ ? 'whole' : $how;
    } };
}

# One more connection than one of HTTP/1 cannot be seen from: this one is curl's.
sub curl ($path, $token, @o) {
    my $id = 'request-' . ++$requests;
    my $url = "@o" =~ /prior/ ? "http://127.0.0.1:$h2" : "https://127.0.0.1:$tls";
    my $pid = open my $fh, '-|', 'curl', '-skN', '-m', 20 * $t->scale, @o, '-H',
        "X-Request-Id: $id", '-H', "Authorization: Bearer $token", "$url$path" or die "curl: $!\n";
    read $fh, my $some, 4;
    return { id => $id, begun => $some eq 'data', end => sub {
        1 while read $fh, $some, 65536;
        close $fh;
        return 'curl ' . ($? >> 8);
    } };
}

# HTTP/2 by hand, since several requests of one connection are to be seen: a frame.
sub frame ($type, $flags, $stream, $payload = '') {
    return substr(pack('N', length $payload), 1) . pack('CCN', $type, $flags, $stream) . $payload;
}

# A text of HPACK, not compressed.
sub text ($s) {
    my $length = length $s;
    return chr($length) . $s if $length < 127;
    my $bytes = "\x7f";
    for ($length -= 127; $length > 127; $length >>= 7) { $bytes .= chr($length % 128 + 128) }
    return $bytes . chr($length) . $s;
}

sub h2_open () {
    my $c = Platform::Test::Http->new(port => $h2);
    $c->send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" . frame(4, 0, 0));
    return { c => $c, last => -1, body => {}, end => {} };
}

# Sends a request: its stream.
sub h2_get ($self, $path, $token, $id = 'request-' . ++$requests) {
    my @h = (':method', 'GET', ':scheme', 'http', ':path', $path, ':authority', 'x',
        'authorization', "Bearer $token", 'x-request-id', $id);
    my $block = '';
    $block .= "\x10" . text(shift @h) . text(shift @h) while @h;
    $self->{c}->send(frame(1, 5, $self->{last} += 2, $block));
    return $self->{last};
}

# Reads frames until that is true, for at most so many seconds.
sub h2_until ($self, $sub, $seconds = $SOON) {
    my ($c, $until) = ($self->{c}, time + $seconds);
    while (!$sub->()) {
        my $have = sub ($n) { 1 while length $c->{buf} < $n && $c->_fill($until);
            return length $c->{buf} >= $n };
        eval { $have->(9) } or return 0;
        my ($high, $low, $type, $flags, $stream) = unpack 'CnCCN', $c->{buf};
        $have->(9 + ($high << 16 | $low)) or return 0;
        my $payload = substr substr($c->{buf}, 0, 9 + ($high << 16 | $low), ''), 9;
        $c->send(frame(4, 1, 0)) if $type == 4 && !($flags & 1);
        $self->{body}{$stream} .= $payload if $type == 0;
        $self->{end}{$stream} = "reset" if $type == 3;
        $self->{end}{$stream} //= 'whole' if $type < 2 && $flags & 1;
        $self->{end}{0} = 'goaway' if $type == 7;
    }
    return 1;
}

sub http2 ($path, $token, %o) {
    my $self = h2_open();
    my $id = 'request-' . ++$requests;
    my @stays = map { h2_get($self, $_, token(time + 600)) } $o{beside} ? '/whole?hold' : ();
    my $stream = h2_get($self, $path, $token, $id);
    my $begun = h2_until($self, sub { ($self->{body}{$stream} // '') =~ /data/ }, 20 * $t->scale);
    return { id => $id, begun => $begun, end => sub {
        h2_until($self, sub { $self->{end}{$stream} }) or return 'nothing';
        $upstream->set(hold => !@stays);
        my @streams = ($stream, @stays, h2_get($self, '/whole', token(time + 600)));
        h2_until($self, sub { !grep { !$self->{end}{$_} } @streams }, 20 * $t->scale);
        return join ' ', map { $_ // '-' } @{ $self->{end} }{ @streams, 0 };
    } };
}

# HTTP/3: a browser, since curl of Debian 12 has none.  It has one connection for all.
my ($browser, $from_browser, $to_browser, $h3_before, %said);

# Reads what it says of a request until that is there.
sub h3_said ($id, $what) {
    until (defined $said{$id}{$what}) {
        my $line = readline $from_browser // die "the browser is gone\n";
        my ($whose, $said) = $line =~ /^(\S+) ?(.*)/;
        $said{$whose}{ $said eq 'begun' ? 'begun' : 'end' } = $said;
    }
    return $said{$id}{$what};
}

sub h3_get ($path, $token, $proof = '') {
    my $id = 'request-' . ++$requests;
    syswrite $to_browser, "$id $path $token $proof\n";
    return $id;
}

sub http3 ($path, $token, %o) {
    my $id = h3_get($path, $token);
    my @stays = map { h3_get($_, token(time + 600)) } $o{beside} ? '/whole?hold' : ();
    return { id => $id, begun => h3_said($id, 'begun'), end => sub {
        my $end = h3_said($id, 'end');
        $upstream->set(hold => 0);
        return join ' ', $end, map { $_ eq $h3_before ? 'whole' : $_ }
            map { h3_said($_, 'end') } @stays, h3_get('/whole', token(time + 600));
    } };
}

if ($h3) {
    $browser = open2($from_browser, $to_browser, @browser,
        'https://127.0.0.1:' . $t->port('h3'), "$dir/cert.pem");
    h3_said(ready => 'end');
    # A busy machine may be too slow for the browser's first handshake.
    eventually(sub { ($h3_before = h3_said(h3_get('/whole', token(time + 600)), 'end')) ne 'failed' });
    like $h3_before, qr/\Awhole h3 \d+\z/, 'HTTP/3: a response, and the port of its connection';

    my $own = jwt_key('own', alg => 'ES256');
    my $bound = jwt_token(branch => $key, exp => int time + 600, cnf => { jkt => $own->jkt });
    my $origin = 'https://127.0.0.1:' . $t->port('h3');
    my $proof = dpop_proof($own, GET => "$origin/bound", token => $bound);
    for (
        [ 'a proof', $proof, '200 verified' ],
        [ 'the same again', $proof, '401 proof_replayed' ],
        [ 'of another path', dpop_proof($own, GET => "$origin/whole", token => $bound),
            '401 proof_invalid' ],
        [ 'by another key', dpop_proof($key, GET => "$origin/bound", token => $bound),
            '401 proof_invalid' ],
        [ 'as Bearer', '', '401 token_bound' ],
        )
    {
        my ($name, $sent, $want) = @$_;
        my $id = h3_get('/bound', $bound, $sent);
        like h3_said($id, 'end'), qr/ h3 /, "HTTP/3, a bound token, $name: an answer";
        my $line = ended($id);
        is "$line->{status} $line->{reason}", $want, "HTTP/3, a bound token, $name: $want";
    }
}

my $pipelined = http_request_bytes(GET => '/branch', token => token(time + 600)) x 2;
my @cases = (
    [ 'kept alive', \&http1, '/endless', 'closed' ],
    [ 'Connection: close', \&http1, '/endless', 'closed', connection => 'close' ],
    [ 'pipelined', \&http1, '/endless', qr/closed|reset/, then => $pipelined ],
    [ 'HTTP/1.0', \&http1, '/endless', 'reset', version => '1.0' ],
    [ 'with a length', \&http1, '/endless?length', 'closed' ],
    [ 'buffered', \&http1, '/buffered', 'closed' ],
    [ 'cached', \&http1, '/cached', 'closed' ],
    [ 'compressed', \&http1, '/gzip', 'closed' ],
    [ 'mirrored', \&http1, '/copied', 'closed' ],
    [ 'slices', \&http1, '/slices', 'closed' ],
    [ 'SSI', \&http1, '/ssi/page.html', 'closed' ],
    [ 'a file', \&http1, '/file', 'closed' ],
    [ 'an upgrade', \&http1, '/upgrade', 'closed', headers => [ Upgrade => 'x' ] ],
    [ 'a slow reader', \&http1, '/endless?flood', qr/closed|reset/, slow => 1 ],
    [ 'TLS', \&curl, '/endless', 'curl 18', '--http1.1' ],
    [ 'TLS, HTTP/1.0', \&curl, '/endless', 'curl 56', '--http1.0' ],
    [ 'HTTP/2', \&http2, '/endless', 'reset whole -' ],
    [ 'HTTP/2, buffered', \&http2, '/buffered', 'reset whole -' ],
    [ 'HTTP/2, beside another', \&http2, '/endless', 'reset whole whole -', beside => 1 ],
    [ 'HTTP/2, SSI', \&http2, '/ssi/page.html', 'reset whole -' ],
    [ 'HTTP/2, slices', \&http2, '/slices', 'reset whole -' ],
    [ 'HTTP/2 and TLS', \&curl, '/endless', 'curl 92', '--http2' ],
);
my $h3_reset = 'net::ERR_QUIC_PROTOCOL_ERROR whole';
push @cases, (
    [ 'HTTP/3', \&http3, '/endless', $h3_reset ],
    [ 'HTTP/3, buffered', \&http3, '/buffered', $h3_reset ],
    [ 'HTTP/3, beside another', \&http3, '/endless', "$h3_reset whole", beside => 1 ],
    [ 'HTTP/3, SSI', \&http3, '/ssi/page.html', $h3_reset ],
    [ 'HTTP/3, slices', \&http3, '/slices', $h3_reset ],
) if $h3;

for my $why (qw(expired revoked)) {
    $upstream->set(hold => 1);
    my $expires = int($clock->now) + ($why eq 'expired' ? $LIFE : 600);
    my (%open, @gone);
    for (@cases) {
        my ($name, $client, $path, undef, @o) = @$_;
        push @gone, uuid(++$sessions);
        $open{$name} = $client->($path, token($expires, $gone[-1]), @o);
        ok $open{$name}{begun}, "$why, $name: begun";
    }
    my $goes = http1('/goes', token($expires, $gone[0]));
    my $late = Platform::Test::Http->new(port => $port);
    $late->send(http_request_bytes(GET => '/endless?late', token => token($expires)));
    my $done = Platform::Test::Http->new(port => $port);
    $done->send(http_request_bytes(GET => '/gif', token => token($expires, $gone[0]),
        headers => [ 'X-Request-Id' => "done-$why", 'Content-Length' => 9 ]));
    is $done->read_response->status, 200, "$why, a whole response: its client sends on";
    if ($why eq 'revoked') {
        $expires = $clock->now;
        $feed->set(all => [ map { revoked_id($_) } @gone ]);
        ok eventually(sub { http_get($port, '/branch', token => token($clock->now + 600, $gone[-1]))
            ->status == 401 }), 'revoked: what is new is refused';
    }
    else {
        $clock->pass(int($expires - $clock->now));    # less than a second is left
    }
    my ($waits, $witness) = witness();
    my $latest = ended($witness);
    is $latest->{status}, 504, "$why: a request that waits for 2 seconds";
    for (@cases) {
        my ($name, undef, undef, $end) = @$_;
        my $log = ended($open{$name}{id});
        is_deeply [ @$log{qw(decision reason)} ], [ 'allow', "closed_$why" ], "$why, $name: logged";
        cmp_ok $log->{at}, '>=', $expires, "$why, $name: not before";
        cmp_ok $log->{at}, '<=', $latest->{at}, "$why, $name: nor long after";
    }
    for (@cases) {
        my ($name, undef, undef, $end) = @$_;
        like $open{$name}{end}->(), ref $end ? $end : qr/\A$end\z/, "$why, $name: the client sees it";
    }
    unlike $nginx->access_log, qr/"requestId":"$goes->{id}"/, "$why, nobody asked: it goes on";
    $endless->set(late => 1);
    is $late->read_response->body, 'data', 'one that begins later is whole' if $why eq 'expired';
    $done->close;
    is ended("done-$why")->{reason}, 'verified', "$why, a whole response: as it was";
}

# A feed that is stale ends nothing, though it refuses what is new.

revocations_conf($t, $key, @conf, stale => 'refuse after=1s');
$t->reload;
my $goes = http1('/endless', token(time + 600));
my $ends = http1('/endless', token($clock->now + $LIFE));
$feed->down;
ok eventually(sub { http_get($port, '/branch', token => token(time + 600))->status == 503 }),
    'stale: refused';
$clock->pass($LIFE);
is ended($ends->{id})->{reason}, 'closed_expired', 'stale: a token expires';
unlike $nginx->access_log, qr/"requestId":"$goes->{id}"/, 'stale: what was let in goes on';
$endless->set(stop => 1);
is ended($goes->{id})->{reason}, 'verified', 'stale: to its end';

$t->done;
