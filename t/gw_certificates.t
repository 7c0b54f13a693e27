# Tokens that are bound to the certificate of a client (RFC 8705): the connection has shown it,
# or a proxy that is trusted to says so (RFC 9440).  By curl and openssl.

use Digest::SHA qw(sha256);
use MIME::Base64 qw(decode_base64 encode_base64);

use Platform::Test;

my ($t, $key, undef, $upstream) = Platform::Test->gateway;
my $dir = $t->dir;
$t->write_file('keys.json', jwks($key));

# Certificates that sign themselves: clients' with a key of their own each, again another
# one with the key of the first, and rekeyed one with its name and another key.
sub certify ($name, $with = undef, $subject = $name) {
    $with //= "-newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout $dir/$name.key";
    system("openssl req -x509 $with -days 2 -subj /CN=$subject -out $dir/$name.pem 2>/dev/null") == 0
        or die "openssl req failed\n";
    return;
}
certify($_) for qw(server one two);
certify('again', "-new -key $dir/one.key");
certify('rekeyed', undef, 'one');
system("cp $dir/one.key $dir/again.key") == 0 or die "cp failed\n";
my %der = map { $_ => decode_base64($t->read_file("$_.pem") =~ s/^-.*\n//gmr) } qw(server one two again rekeyed);
sub bound ($name, %claims) {
    return jwt_token(branch => $key, cnf => { 'x5t#S256' => b64url(sha256($der{$name})) }, %claims);
}


# What the documentation has.
my @example = map { s/listen 443 ssl/listen 127.0.0.1:%%PORT_example%% ssl/r
    =~ s/listen 8080/listen 127.0.0.1:%%PORT_documented%%/r =~ s/10\.0\.0\.5/127.0.0.2/r
    =~ s/127\.0\.0\.1:9000/127.0.0.1:%%PORT_upstream%%/r =~ s{/etc/nginx/}{$dir/}gr }
    $t->read_file($t->root . '/docs/bound-tokens.md')
    =~ /^```nginx\n(server \{\n[^`]*platform_gateway_client_certificate[^`]*)^```\n/mg;
is scalar @example, 2, 'the documentation has both ways';

my $LISTEN = "listen 127.0.0.1:%%PORT_tls%% ssl http2; ssl_certificate $dir/server.pem;"
    . " ssl_certificate_key $dir/server.key; ssl_session_cache shared:tls:1m; ssl_protocols TLSv1.2 TLSv1.3; platform_gateway on;";
$t->gateway_conf(<<'SERVER', buffers => '4 24k', http => <<"HTTP");
pass /branch: platform_gateway_access branch;
location = /metrics { platform_gateway_access public; platform_gateway_metrics; }
SERVER
keepalive_requests 10000;
server {
    $LISTEN server_name one.test; ssl_verify_client optional_no_ca;
    platform_gateway_client_certificate connection;
    pass /branch: platform_gateway_access branch;
        pass /branch/cookie: platform_gateway_token_from cookie=jwt;
        pass /branch/shadow: platform_gateway_shadow on;
    pass /asks: platform_gateway_access public; auth_request /branch;
    pass /early: platform_gateway_access branch; set \$early \$platform_account_id;
        add_header X-Early "\$early" always;
    location = /explain { platform_gateway_access public; platform_gateway_explain; allow 127.0.0.1; deny all; }
    location = /judge { platform_gateway_access public; platform_gateway_forward_auth forwarded;
        allow 127.0.0.1; deny all; }
}
server {
    $LISTEN server_name two.test; ssl_verify_client optional; ssl_client_certificate $dir/one.pem;
    platform_gateway_client_certificate connection;
    pass /branch: platform_gateway_access branch;
}
server {
    listen 127.0.0.1:%%PORT_early%% ssl; ssl_certificate $dir/server.pem; ssl_certificate_key $dir/server.key;
    ssl_protocols TLSv1.3; ssl_early_data on; ssl_verify_client optional_no_ca;
    platform_gateway on; platform_gateway_client_certificate connection;
    pass /branch: platform_gateway_access branch;
}
server {
    $LISTEN server_name none.test;
    pass /branch: platform_gateway_access branch;
}
server {
    listen 127.0.0.1:%%PORT_behind%%;
    platform_gateway on; platform_gateway_client_certificate header 127.0.0.2 10.0.0.0/8 ::1;
    underscores_in_headers on; ignore_invalid_headers off;
    set_real_ip_from 127.0.0.0/8; real_ip_header X-Real-IP;
    pass /branch: platform_gateway_access branch;
    pass /public: platform_gateway_access public;
    pass /asks: platform_gateway_access public; auth_request /branch;
    location = /judge { platform_gateway_access public; platform_gateway_forward_auth forwarded;
        allow 127.0.0.0/8; allow 192.0.2.7; deny all; }
}
@example
HTTP
my $port = $t->start_gateway;
my $tls = $t->port('tls');

# [status, body] by curl, with further arguments.
my $CURL = 'curl -sk --max-time 30';
sub curl ($host, $path, $token, @more) {
    my $bearer = $token ? "-H 'Authorization: Bearer $token'" : '';
    my @said = split /\n/, `$CURL --resolve $host:$tls:127.0.0.1 -w '\n%{http_code}' $bearer @more https://$host:$tls$path`;
    return [ pop @said, join "\n", @said ];
}
sub with ($name) { return $name ? "--cert $dir/$name.pem --key $dir/$name.key" : '' }

my %for = map { $_ => bound($_) } qw(one two again rekeyed);
my $plain = jwt_token(branch => $key);
for my $case (
    # [ what, host, token, certificate of the connection, status ]
    [ 'its own', 'one.test', $for{one}, 'one', 200 ],
    [ 'its own, for two.test', 'two.test', $for{one}, 'one', 200 ],
    [ 'another one', 'one.test', $for{one}, 'two', 401 ],
    [ 'the other way round', 'one.test', $for{two}, 'one', 401 ],
    [ 'none', 'one.test', $for{one}, undef, 401 ],
    [ 'none, for two.test', 'two.test', $for{one}, undef, 401 ],
    [ 'a renewed one of the same key', 'one.test', $for{one}, 'again', 401 ],
    [ 'a token of the renewed one', 'one.test', $for{again}, 'again', 200 ],
    [ 'a renewed one with another key', 'one.test', $for{one}, 'rekeyed', 401 ],
    [ 'a token of that one', 'one.test', $for{rekeyed}, 'rekeyed', 200 ],
    [ 'where no certificate is asked for', 'none.test', $for{one}, 'one', 401 ],
    [ 'a token that is not bound', 'one.test', $plain, 'one', 200 ],
    [ 'nor a certificate', 'one.test', $plain, undef, 200 ],
    [ 'a hash that is cut', 'one.test', jwt_token(branch => $key, cnf => { 'x5t#S256' => substr
        b64url(sha256($der{one})), 0, 40 }), 'one', 401 ],
    [ 'the hash as jkt', 'one.test', jwt_token(branch => $key,
        cnf => { jkt => b64url(sha256($der{one})) }), 'one', 401 ],
    [ 'bound to two things', 'one.test', bound('one', cnf => { jkt => b64url(sha256($der{one})),
        'x5t#S256' => b64url(sha256($der{one})) }), 'one', 401 ],
) {
    my ($name, $host, $token, $by, $status) = @$case;
    is_deeply [ map { curl($host, '/branch', $token, with($by), $_)->[0] } '--http1.1', '--http2' ],
        [ $status, $status ], "$name: $status";
}
is http_get($port, '/branch', token => $for{one})->status, 401, 'without TLS';

# Several requests of a connection, and of two that differ.
for my $http ('--http1.1', '--http2') {
    my @said;
    for ([qw(one one)], [qw(two one)], [qw(one two)], [qw(two two)]) {
        my ($by, $token) = (with($_->[0]), $for{ $_->[1] });
        my $twice = join ' ', map {"-o /dev/null https://one.test:$tls/branch?$_"} 1, 2;
        push @said, `$CURL $http --resolve one.test:$tls:127.0.0.1 -w '%{http_code} %{num_connects} ' $by -H 'Authorization: Bearer $token' $twice`;
    }
    is_deeply \@said, [ map {"$_ 1 $_ 0 "} 200, 401, 401, 200 ], "by connection, $http: each again";
}

# The ways by which a location decides.
for my $case (
    [ 'a cookie', '/branch/cookie', "-H 'Cookie: jwt=TOKEN'" ], [ 'auth_request', '/asks', '' ],
    [ 'a variable', '/early', '' ] )
{
    my ($name, $path, $more) = @$case;
    is_deeply [ map { curl('one.test', $path, $more ? undef : $for{one}, with($_),
        $more =~ s/TOKEN/$for{one}/r)->[0] } 'one', 'two' ], [ 200, 401 ], "$name: of that client alone";
}
like curl('one.test', '/early', $for{one}, with('one'), '-i')->[1], qr/^x-early: \S+-/mi,
    'a variable names the subject';
unlike curl('one.test', '/early', $for{one}, with('two'), '-i')->[1], qr/^x-early: \S+-/mi,
    'but not of another certificate';
like curl('one.test', '/branch/shadow', $for{one}, with('two'))->[1], qr/^(?!.*X-Account-Id)/s,
    'shadow mode: nobody';
my $refused = curl('one.test', '/branch', $for{one}, with('two'), '-i')->[1];
like $refused, qr/^www-authenticate: Bearer realm="platform", error="invalid_token"/mi, 'the challenge';
like $refused, qr/"code":"GATEWAY_TOKEN_INVALID"/, 'and the code';

# The other proxy's connection is not that of its client.
is curl('one.test', '/judge', $for{one}, with('one'), "-H 'X-Forwarded-Method: GET'",
    "-H 'X-Forwarded-Uri: /branch'")->[0], 401, 'forward-auth: the certificate is the proxy\'s';
is curl('one.test', '/judge', $plain, with('one'), "-H 'X-Forwarded-Method: GET'",
    "-H 'X-Forwarded-Uri: /branch'")->[0], 204, 'forward-auth: a token that is not bound';

# A client says nothing of certificates.
sub field ($name) { return ':' . encode_base64($der{$name}, '') . ':' }
is curl('one.test', '/branch', $for{one}, with('two'), "-H 'Client-Cert: @{[ field('one') ]}'")->[0], 401,
    'a header of the client is of no weight';
unlike curl('one.test', '/branch', $for{two}, with('two'), map {"-H '$_: @{[ field('one') ]}'"}
    qw(Client-Cert Client-Cert-Chain))->[1], qr/Client-Cert/i, 'and does not reach the service';

# -- resumed sessions

# The statuses of a request in a new session, and in that session resumed without the
# certificate's key.
sub resumed ($version, $first, $second, $token, $by) {
    my @status;
    unlink "$dir/session";
    for my $try ([ $first, "-sess_out $dir/session " . ($by ? "-cert $dir/$by.pem -key $dir/$by.key" : '') ],
        [ $second, "-sess_in $dir/session" ])
    {
        my ($host, $options) = @$try;
        my $in = $t->write_file('request', "GET /branch HTTP/1.1\r\nHost: $host\r\n"
            . "Authorization: Bearer $token\r\nConnection: close\r\n\r\n");
        my $said = `timeout 20 openssl s_client -$version -connect 127.0.0.1:$tls -servername $host $options -ign_eof <$in 2>&1`;
        push @status, join ' ', $said =~ m{HTTP/1\.1 (\d+)}, $said =~ /^Reused/m ? 'reused' : 'new';
    }
    return "@status";
}
for my $version (qw(tls1_2 tls1_3)) {
    is resumed($version, 'one.test', 'one.test', $for{one}, 'one'), '200 new 200 reused',
        "$version: resumed, the client is the same";
    is resumed($version, 'one.test', 'one.test', $for{one}, 'two'), '401 new 401 reused',
        "$version: resumed, another client";
    is resumed($version, 'one.test', 'one.test', $for{one}, undef), '401 new 401 reused',
        "$version: resumed, without a certificate";
    # An nginx with the fix of CVE-2025-23419 ends these itself, where a certificate counts.
    like resumed($version, 'one.test', 'none.test', $for{one}, 'one'), qr/^200 new 401/,
        "$version: resumed at a server that asks for no certificate";
    like resumed($version, 'none.test', 'one.test', $for{one}, 'one'), qr/^401 new (?!200)/,
        "$version: resumed where a certificate counts, from where none was asked for";
    like resumed($version, 'one.test', 'two.test', $for{two}, 'one'), qr/^401 new (?!200)/,
        "$version: resumed at another server, by another client";
}

# Early data: whoever has recorded the bytes can send them again, without any key.  What
# nginx answers is held back until it has logged the request, so the client cannot end the
# handshake before.
$t->http_server('held', undef, protocol => sub ($client, $self) {
    my $nginx = IO::Socket::INET->new("127.0.0.1:@{[ $t->port('early') ]}") or return;
    my ($select, $log, $held) = (IO::Select->new($client, $nginx), $t->nginx->{access}, '');
    my ($size, $until) = (-s $log, time + 20);
    while (time < $until) {
        for my $from ($select->can_read(0.02)) {
            sysread $from, my $bytes, 65536 or $select->remove($from), next;
            $from == $client ? syswrite $nginx, $bytes : ($held .= $bytes);
        }
        next if -s $log == $size;
        syswrite $client, $held or return if $held ne '';
        $held = '';
        return if $select->count < 2;
    }
});
sub early ($token, $by) {
    my $in = $t->write_file('request', "GET /branch HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer $token\r\n"
        . "Connection: close\r\n\r\n");
    my $connect = sub ($to, $how) {
        my $port = $t->port($to);
        return `timeout 20 openssl s_client -tls1_3 -connect 127.0.0.1:$port -ign_eof $how 2>&1`;
    };
    my $said = $connect->('early', "-sess_out $dir/session -cert $dir/$by.pem -key $dir/$by.key <$in");
    my @status = $said =~ m{HTTP/1\.1 (\d+)};
    for my $try ([ held => "-early_data $in </dev/null" ], [ early => "<$in" ]) {
        $said = $connect->($try->[0], "-sess_in $dir/session $try->[1]");
        push @status, $said =~ m{HTTP/1\.1 (\d+)}, $said =~ /^Early data was accepted/m ? 'early' : ();
    }
    return "@status";
}
is early($plain, 'one'), '200 200 early 200', 'early data: a token that is not bound';
is early($for{one}, 'one'), '200 401 early 200', 'early data: no certificate counts there, but in that session';

# -- behind a proxy that ends TLS

my ($from, $behind) = ('127.0.0.2', $t->port('behind'));
sub behind ($path, $token, $headers, %o) {
    return http_get($behind, $path, token => $token, from => $from, headers => $headers, %o);
}
my $good = field('one');
for my $case (
    [ 'its certificate', [ 'Client-Cert' => $good ], 200 ],
    [ 'another case', [ 'client-cert' => $good ], 200 ],
    [ 'another certificate', [ 'Client-Cert' => field('two') ], 401 ],
    [ 'none', [], 401 ], [ 'an empty one', [ 'Client-Cert' => '' ], 401 ],
    map({ [ "not in colons: $_->[0]", [ 'Client-Cert' => $_->[1] ], 401 ] }
        [ 'neither', $good =~ tr/://dr ], [ 'the end', $good =~ s/:\z//r ], [ 'the begin', $good =~ s/\A://r ],
        [ 'nothing in them', '::' ], [ 'one', ':' ]),
    [ 'twice', [ ('Client-Cert' => $good) x 2 ], 401 ],
    [ 'twice, and another', [ 'Client-Cert' => $good, 'Client-Cert' => field('two') ], 401 ],
    [ 'joined', [ 'Client-Cert' => "$good, " . field('two') ], 401 ],
    [ 'joined, the padding between them', [ 'Client-Cert' => $good =~ s/=*:\z/==: :QQ==:/r ], 401 ],
    [ 'with a parameter', [ 'Client-Cert' => "$good;a=1" ], 401 ],
    [ 'not base64', [ 'Client-Cert' => $good =~ s/[A-Z]/./r ], 401 ],
    [ 'in PEM', [ 'Client-Cert' => $t->read_file('one.pem') =~ s/\n/ /gr ], 401 ],
    [ 'by another name', [ Client_Cert => $good ], 401 ],
    [ 'of another proxy\'s address', [ 'Client-Cert' => $good ], 401, from => '127.0.0.3' ],
    [ 'of the address itself', [ 'Client-Cert' => $good ], 401, from => '127.0.0.1' ],
    [ 'of a client with the address of the proxy', [ 'Client-Cert' => $good, 'X-Real-IP' => '127.0.0.2' ],
        401, from => '127.0.0.3' ],
    [ 'of a client with another address', [ 'Client-Cert' => $good, 'X-Real-IP' => '192.0.2.7' ], 200 ],
) {
    my ($name, $headers, $status, @more) = @$case;
    is behind('/branch', $for{one}, $headers, @more)->status, $status, "behind a proxy, $name: $status";
    is behind('/branch', $plain, $headers, @more)->status, 200, 'and a token that is not bound: 200';
    is behind('/judge', $for{one}, [ @$headers, 'X-Forwarded-Method' => 'GET', 'X-Forwarded-Uri' => '/branch' ],
        @more)->status, $status == 200 ? 204 : $status, 'and judged';
}
is behind('/asks', $for{one}, [ 'Client-Cert' => $_->[0] ])->status, $_->[1], "auth_request: $_->[1]"
    for [ $good, 200 ], [ field('two'), 401 ];
for my $path ('/branch', '/public') {
    is_deeply [ grep { $_->[0] =~ /client.?cert/i } @{ behind($path, $for{one}, [ 'Client-Cert' => $good,
        'Client-Cert-Chain' => $good, Client_Cert => 'x', 'Client.Cert' => 'x' ])->json->{headers} } ], [],
        "$path: no such header reaches the service";
}
is behind('/branch', $for{one}, [ 'Client-Cert' => $good ], connection => 'keep-alive')->status, 200, 'kept alive';
{
    my $c = Platform::Test::Http->new(port => $behind, from => $from);
    is_deeply [ map { $c->request(GET => '/branch', token => $for{one}, connection => 'keep-alive',
        headers => [ 'Client-Cert' => field($_) ])->status } qw(one two one) ], [ 200, 401, 200 ],
        'the header is that of the request, not of the connection';
}

# -- the examples

my $orders = 'https://127.0.0.1:' . $t->port('example') . '/orders/';
is_deeply [ map { my $by = with($_); `$CURL -o /dev/null -w '%{http_code}' $by -H 'Authorization: Bearer $for{one}' $orders` }
    'one', 'two' ], [ 200, 401 ], 'the example of the documentation';
is_deeply [ map { http_get($t->port('documented'), '/orders/', from => $_->[0], token => $for{one},
    headers => [ 'Client-Cert' => $good ])->status } ['127.0.0.2'], ['127.0.0.3'] ], [ 200, 401 ],
    'and behind a proxy';

# -- the log, and nginx -t

my ($line) = grep { ($_->{reason} // '') eq 'token_certificate' } map { Platform::Test::Env::json()->utf8->decode($_) }
    split /\n/, $t->nginx->access_log;
is_deeply [ @$line{qw(decision status)} ], [ 'deny', 401 ], 'the log has the reason';
unlike $t->nginx->access_log, qr/MII|\Q@{[ substr $good, 1, 40 ]}\E/, 'and no certificate';

my $ASKS = "ssl_certificate $dir/server.pem; ssl_certificate_key $dir/server.key; ssl_verify_client";
for my $case (
    [ "platform_gateway_client_certificate connection; $ASKS optional_no_ca;" ],
    [ "platform_gateway_client_certificate connection; $ASKS on; ssl_client_certificate $dir/one.pem;" ],
    [ 'platform_gateway_client_certificate connection;', qr/asks no client for a certificate/ ],
    [ "platform_gateway_client_certificate connection; $ASKS off;", qr/asks no client for a certificate/ ],
    [ "platform_gateway_client_certificate connection; $ASKS optional_no_ca;"
        . ' platform_gateway_allow_confirmation on;', qr/leave one out/ ],
    [ 'platform_gateway_client_certificate header 10.0.0.5 10.1.0.0/16 ::1 unix:;' ],
    [ 'platform_gateway_client_certificate off;' ],
    [ 'platform_gateway_client_certificate header;', qr/accepts "off", "connection", or "header" and/ ],
    [ 'platform_gateway_client_certificate connection 10.0.0.5;', qr/accepts "off", "connection", or/ ],
    [ 'platform_gateway_client_certificate on;', qr/accepts "off", "connection", or "header"/ ],
    [ 'platform_gateway_client_certificate header proxy;', qr/invalid address "proxy"/ ],
    [ 'platform_gateway_client_certificate header 10.0.0.5/8;', qr/invalid address/ ],
    [ 'platform_gateway_client_certificate header 0.0.0.0/0;', qr/trusts everybody/ ],
    [ 'platform_gateway_client_certificate header ::/0;', qr/trusts everybody/ ],
    [ 'platform_gateway_client_certificate off; platform_gateway_client_certificate off;', qr/is duplicate/ ],
) {
    my ($config, $said) = @$case;
    my ($ok, $why) = $t->location_test(http => 'platform_gateway_issuer https://id.test;'
        . " platform_gateway_key_file $dir/keys.json;", server => "platform_gateway on; $config",
        location => 'platform_gateway_access branch; empty_gif;');
    $said ? like($why, $said, "refused: $config") : ok($ok, "taken: $config") || diag $why;
}

$t->allow(qr/client sent invalid header line/, qr/different from the one that was negotiated/);
$t->done;
