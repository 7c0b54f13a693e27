# examples/: each passes nginx -t and does what it says, tried as
# examples/README.md tells it, with other ports.

use JSON::PP ();

use Platform::Test;
use Platform::Test::Page qw(prints steps);

Platform::Test::Env::plain('README.md has no sanitizer mode');

my $t = Platform::Test->new;
my ($root, $dir) = ($t->root, $t->dir);
my $s = $t->full_stack;

# As make run has them, and what they are here.
my %port = (8080 => $s->gateway, 8081 => $s->face, 8082 => $t->port('stub'),
    8090 => $t->port('example'), 8091 => $t->port('caddy'),
    8092 => $t->port('haproxy'), 8093 => $t->port('asked'), 8443 => $t->port('tls'));

# Issuers elsewhere, by what their examples call them, are one server here, and
# its certificate is what the system trusts; no line is added.
my $elsewhere = '127.0.0.1:' . $t->port('elsewhere');

# The reader's checkout.
my $own = "$dir/checkout";

sub ours ($text) {
    $text =~ s/\b(80(?:8[0-2]|9[0-3])|8443)\b/$port{$1}/g;
    $text =~ s{https://(?:id\.example\.com|example\.eu\.auth0\.com
        |login\.microsoftonline\.com|exampleexampleexampl\.supabase\.co)\b}
        {https://$elsewhere}gx;
    $text =~ s{/etc/haproxy/}{$own/run/examples/forward-auth/};
    $text =~ s{/etc/ssl/certs/ca-certificates\.crt}{$dir/elsewhere.pem}g;
    return $text;
}

# It has this one's build/, and examples with our ports.  The stand-in at 8082 tells
# of the headers of our own tokens alone.
my $foreign = qr{/(?:keycloak|auth0|entra|supabase|two-issuers|websocket
    |spa-cookie|forward-auth)/}x;
$t->echo_upstream;
for my $file (split /\0/, qx{cd $root && find examples -type f -print0}) {
    local $port{8082} = $file =~ $foreign ? $t->port('upstream') : $port{8082};
    $t->write_file("checkout/$file", ours($t->read_file("$root/$file")));
}
mkdir "$own/run";
symlink Platform::Test::Env::build(), "$own/build" or die "build: $!\n";

my ($try, $ask, $answer) = $t->read_file("$root/examples/README.md")
    =~ /^```(?:sh|text)\n(.*?)^```\n/gms;
$try =~ s/^example minimal -t\n//m or die "no trial in README.md\n";
local $ENV{PATH} = "$ENV{PATH}:/usr/sbin:/sbin";
my $nginx = Platform::Test::Env::nginx();

sub shell ($script) {
    my $path = $t->write_file('script.sh', "cd $own\n" . ours($script));
    return qx{sh $path 2>&1};
}

my $set_up = $try =~ s/^cp .*\n//mr =~ s/\bnginx -p/$nginx -p/r;
shell($try =~ /^(cp .*\n)/m);

# What an example needs beforehand, as its first lines say.
sub prepare ($name) {
    my ($head) = $t->read_file("$own/run/examples/$name/nginx.conf") =~ /\A((?:#.*\n)*)/;
    my $commands = join "\n", map { s/^#   //r }
        grep {/^#   \S|^#       \S/} split /\n/, $head;
    is shell("cd run/examples/$name\n$commands"), '', "$name: its commands work" if $commands;
}

# The tokens of make run's gateway.
my $one = $s->login('one')->json->{accessToken};
my $several = $s->login('several')->json;
my $account = $several->{accountAccessToken};
my $other = $s->select_branch($several)->json->{accessToken};
my $id = (jwt_decode($one))[1]{account_id};

# Starts it in place of the last one and waits until it has its keys: the status of
# a token's call of a path, or what tells it.
my $running;

sub start ($name, $ask) {
    my $status = ref $ask ? $ask : sub { call($ask, token => $one)->status };
    stop() if $running && $running->alive;
    prepare($name);
    my $said = shell("$set_up\nexample $name -t");
    like $said, qr/test is successful/, "$name: nginx -t" or diag $said;
    # Nginx from 1.25.1 on says so of what older ones need.
    $said =~ s/^.*the "listen \.\.\. http2" directive is deprecated.*\n//mg;
    unlike $said, qr/\[(?:warn|emerg)\]/, "$name: and nothing else";
    my $path = $t->write_file("$name.sh", "cd $own\n$set_up\nexample $name\n");
    $running = $t->process($name, dir => $own, env => { PATH => $ENV{PATH} },
        cmd => [ 'sh', $path ], ok_status => ['any'])->expect_end;
    ok eventually(sub { $status->() !~ /^0*\z|^503/ }), "$name: it runs"
        or diag $t->read_file("$dir/$name.log");
}

sub stop () {
    kill 'INT', -$running->pid;
    $running->wait_end(60);
}

# On the example's port; 0 where nothing listens.
sub call ($path, %o) {
    return eval { http($t->port('example'), $o{method} // 'GET', $path, %o) }
        // Platform::Test::Response->garbage('');
}

# The different statuses of as many calls at once; once more if they took so long
# that none was too fast.
sub burst ($n, @more) {
    my $bytes = http_request_bytes(GET => '/api/hello', token => $one, @more);
    my %status;
    eventually(sub {
        $status{ $_->status } = 1 for http_parallel(
            [ map { [ $t->port('example'), $bytes ] } 1 .. $n ]);
        return $status{429};
    });
    return sort keys %status;
}

sub header { return $_[0]->json->{headers}{ $_[1] } }

# -- each

start('minimal', '/api/hello');
my $res = call('/api/hello', token => $one,
    headers => [ 'X-Account-Id' => 'me', 'X-Request-Id' => 'mine' ]);
is_deeply [ $res->status, header($res, 'X-Account-Id'), !!$res->json->{authorization} ],
    [ 200, $id, !!0 ], 'minimal: the service knows who asks, and gets no token';
is_problem(call('/api/hello'), 401, 'GATEWAY_TOKEN_MISSING', 'minimal: no token');
is_problem(call('/api/hello', token => $account), 403,
    'GATEWAY_CONTEXT_FORBIDDEN', 'minimal: another');
is_problem(call('/_keys'), 404, 'GATEWAY_ROUTE_NOT_FOUND', 'minimal: another path');
is shell($ask), $answer, 'minimal: as README.md asks and answers';
ok eventually(sub { $t->read_file("$own/run/examples/minimal/access.log")
    =~ /"requestId":"mine".*"reason":"verified"/ }), 'minimal: its log';

my $tls = "curl -s --cacert $own/run/examples/tls-http2/cert.pem --max-time 60";
my $url = "https://localhost:$port{8443}/api/hello";
start('tls-http2', sub {
    return qx{$tls -o $dir/answer -w '%{http_code}' -H 'Authorization: Bearer $one' $url};
});
my @answer = qx{$tls -w '\n%{http_version} %{http_code}' -H 'Authorization: Bearer $one' $url};
is $answer[-1], '2 200', 'tls-http2: HTTP/2, by a certificate that is checked';
like "@answer", qr/"X-Account-Id": "$id"/, 'tls-http2: with the account';
is qx{$tls -o /dev/null -w '%{http_version} %{http_code}' --http1.1 $url},
    '1.1 401', 'tls-http2: HTTP/1.1 too';
my $large = 'x' x 16_000;
like qx{$tls -H 'Authorization: Bearer $large' $url}, qr/GATEWAY_TOKEN_INVALID/,
    'tls-http2: a large token arrives';
$res = call('/api/hello?a=b', method => 'POST', body => 'x', host => "localhost:$port{8090}");
is_deeply [ $res->status, $res->header('Location') ], [ 308, "$url?a=b" ],
    'tls-http2: plain HTTP is sent there, to the same path';

start('several-services', '/api/reports/a');
my $system = jwt_token(system => jwt_key('identity'), iss => 'http://127.0.0.1:' . $s->face);
my %opens = (
    '/api/reports/a' => [ 403, 200, 403, 401 ],
    '/api/profile/a' => [ 200, 200, 403, 401 ],
    '/api/jobs/a'    => [ 403, 403, 200, 401 ],
    '/api/status'    => [ 200, 200, 200, 200 ],
    '/api/none'      => [ 404, 404, 404, 404 ],
);
for my $path (sort keys %opens) {
    is_deeply [ map { call($path, token => $_)->status } $account, $one, $system,
        undef ], $opens{$path}, "several-services: $path";
}
is header(call('/api/status', token => $one), 'X-Account-Id'), undef,
    'several-services: a public one is told of nobody';
is call('/api/reports/a', token => $one, method => 'PUT', body => '')->status,
    405, 'several-services: methods';
$t->write_file('checkout/run/examples/several-services/services/new.conf',
    "location /api/new/ { proxy_pass http://127.0.0.1:$port{8082}; }\n");
like shell("$set_up\nexample several-services -t"),
    qr{\[emerg\].*platform_gateway_access.* \S*services/new\.conf:1},
    'several-services: a file without a level is refused by its name';

start('load-balancer', '/api/hello');
ok eventually(sub { call('/readyz')->status == 200 }), 'load-balancer: its check';
call('/api/hello', token => $one, headers => [ 'X-Request-Id' => 'balanced',
    'X-Forwarded-For' => '203.0.113.9, 192.0.2.7, 127.0.0.1' ]);
ok eventually(sub { $t->read_file("$own/run/examples/load-balancer/access.log")
    =~ /"requestId":"balanced".*"clientIp":"192\.0\.2\.7"/ }),
    'load-balancer: the client is the last one, whatever it said before';
my %from = map { $_ => [ 'X-Forwarded-For' => $_ ] } '192.0.2.8', '192.0.2.9';
is_deeply [ burst(60, headers => $from{'192.0.2.8'}) ], [ 200, 429 ],
    'load-balancer: a client too fast';
is call('/api/hello', token => $one, headers => $from{'192.0.2.9'})->status,
    200, 'load-balancer: another client';

start('keys-in-a-file', '/api/hello');
is header(call('/api/hello', token => $one), 'X-Account-Id'), $id,
    'keys-in-a-file: a token of the file\'s key';
is_problem(call('/api/hello', token => jwt_token(branch => jwt_key('a'),
    iss => 'http://127.0.0.1:' . $s->face, iat => time - 600)), 401,
    'GATEWAY_TOKEN_INVALID',
    'keys-in-a-file: of another key');

start('rate-limit', '/api/hello');
is_deeply [ burst(60) ], [ 200, 429 ], 'rate-limit: an account too fast';
is call('/api/hello', token => $other)->status, 200,
    'rate-limit: another account, from the same address';
is call('/api/hello')->status, 401, 'rate-limit: nobody' for 1 .. 40;

# An answer is in the cache by the time that its line is in the log.
start('cache', '/api/reports/x');
my %first;
for my $round (qw(MISS HIT)) {
    for my $token ($one, $other) {
        $res = call('/api/reports/a', token => $token);
        is_deeply [ $res->header('X-Cache-Status'), header($res, 'X-Account-Id') ],
            [ $round, (jwt_decode($token))[1]{account_id} ], "cache: $round, its own";
        $first{$token} //= header($res, 'X-Request-Id');
        is header($res, 'X-Request-Id'), $first{$token},
            'cache: what the service said the first time';
        isnt $res->header('X-Request-Id'), header($res, 'X-Request-Id'),
            'cache: the answer has an id of its own' if $round eq 'HIT';
    }
    ok eventually(sub {
        2 <= (() = $t->read_file("$own/run/examples/cache/access.log") =~ m{/api/reports/a\b}g);
    }), 'cache: they are in the log';
}
is_problem(call('/api/reports/a'), 401, 'GATEWAY_TOKEN_MISSING',
    'cache: nothing without a token');
is call('/api/reports/b', token => $one)->header('X-Cache-Status'), 'MISS',
    'cache: another path';

# -- tokens elsewhere than in Authorization

my @upgrade = (Upgrade => 'websocket', Connection => 'upgrade', 'Sec-WebSocket-Version' => 13,
    'Sec-WebSocket-Key' => 'dGhlIHNhbXBsZSBub25jZQ==');
sub opens ($protocols) {
    return call('/live/a', headers => [ @upgrade, 'Sec-WebSocket-Protocol' => $protocols ]);
}

# What the service got of these headers.
sub reached ($res, @names) {
    my %got = map { (lc $_->[0] => $_->[1]) } @{ $res->json->{headers} };
    return [ @got{ map {lc} @names } ];
}
start('websocket', sub { opens("app, bearer.$one")->status });
is_deeply reached(opens("app, bearer.$one"), qw(Sec-WebSocket-Protocol X-Account-Id Upgrade)),
    [ 'app', $id, 'websocket' ], 'websocket: the service sees who it is, and no token';
is opens($_)->status, 401, "websocket: $_" for 'app', 'app, bearer.x', "app, $one";
is opens("app, bearer.$account")->status, 403, 'websocket: no branch';

sub cookie ($method, @headers) {
    return call('/api/hello', method => $method, body => '',
        headers => [ Cookie => "theme=dark; __Host-access=$one", @headers ]);
}
start('spa-cookie', sub { cookie('GET')->status });
is_deeply reached(cookie('GET'), qw(Cookie X-Account-Id Authorization)),
    [ 'theme=dark', $id, undef ], 'spa-cookie: the service sees who it is, and no token';
is cookie(POST => @$_[ 1 .. $#$_ ])->status, $_->[0], "spa-cookie: POST @$_[ 1 .. $#$_ ]: $_->[0]" for
    [403], [ 200, Origin => 'https://app.example.com' ], [ 403, Origin => 'https://evil.example' ],
    [ 200, 'Sec-Fetch-Site' => 'same-origin' ], [ 403, 'Sec-Fetch-Site' => 'cross-site' ];
is call('/api/hello', method => 'POST', body => '', token => $one)->status, 200,
    'spa-cookie: a program needs no origin';
is call('/api/hello')->status, 401, 'spa-cookie: no token';

# As Traefik asks; and a real Caddy and HAProxy, where there are.
my ($traefik, $caddyfile, $lua) = map { $t->read_file("$own/run/examples/forward-auth/$_") }
    qw(traefik.yml Caddyfile haproxy.lua);
my ($judge) = $traefik =~ m{address: "http://127\.0\.0\.1:\d+(/[^"]+)"};
my ($copied) = $caddyfile =~ /copy_headers (.*)/;
sub judged ($method, $uri, %o) {
    return call($judge, %o, method => 'GET', headers => [ 'X-Forwarded-Method' => $method,
        'X-Forwarded-Uri' => $uri, 'X-Forwarded-Proto' => 'https' ]);
}
sub judges () { return judged(GET => '/api/hello', token => $one)->status }
start('forward-auth', \&judges);

# [the account, or status and code; method, path, more]
my @asked = (
    [ [$id], GET => '/api/hello?x=y', token => $one ],
    [ [ 403, 'GATEWAY_CONTEXT_FORBIDDEN' ], GET => '/api/hello', token => $account ],
    [ [ 401, 'GATEWAY_TOKEN_INVALID' ], GET => '/api/hello', token => 'x' ],
    [ [ 401, 'GATEWAY_TOKEN_MISSING' ], GET => '/api/hello' ],
    [ [ 401, 'GATEWAY_TOKEN_MISSING' ], POST => '/api/hello', body => 'x' ],
    [ [$id], PUT => '/api/profile/a', token => $one, body => 'x' ],
    [ [ 405, 'METHOD_NOT_ALLOWED' ], POST => '/api/profile/a', token => $one ],
    [ [''], POST => '/api/status' ],
    [ [ 404, 'GATEWAY_ROUTE_NOT_FOUND' ], GET => '/other' ],
);
for (@asked) {
    my ($want, $method, $uri, @more) = @$_;
    my ($name, $res) = ("forward-auth: $method $uri", judged($method, $uri, @more));
    @$want > 1 ? is_problem($res, @$want, $name)
        : is_deeply [ $res->status, $res->header('X-Account-Id') ], [ 204, @$want ], $name;
}
my @copied = split ' ', $copied;
is_deeply [ $traefik =~ /^ +- (X-\S+)$/mg ], \@copied, 'forward-auth: Traefik copies the same';
is_deeply [ ($lua =~ /copied = \{([^}]*)/)[0] =~ /"([^"]*)"/g ], \@copied,
    'forward-auth: and HAProxy';
$res = judged(GET => '/api/hello', token => $one);
is_deeply [ sort grep {/^X-/} map { $_->[0] } $res->headers ], [ sort @copied ],
    'forward-auth: all that the gateway answers with';
my @context = grep { !/-(?:Request|Correlation)-Id$/ } @copied;
is_deeply [ sort $caddyfile =~ /request_header -(X-\S+)/g ], [ sort @context ],
    'forward-auth: none is a client\'s';

# Envoy, by a stand-in that does what its configuration says: asks with the method, the path and
# the headers that it lists, and passes the request on after 200, with what is said of headers.
my ($envoy, $route) = map { $t->read_file("$own/run/examples/forward-auth/$_") }
    qw(envoy.yaml httproute.yaml);
my ($may, $set) = map { [ /exact: (\S+)/g ] } split /http_service:/, $envoy;
sub envoy ($method, $uri, %o) {
    my %sent = (map({ lc $_ => 'forged' } @context), origin => 'https://app.example.com');
    my $asked = http($port{8093}, $method, $uri, token => $o{token}, headers => [ 'Content-Length' => 0,
        'X-Forwarded-Proto' => 'http', 'X-Envoy-Expected-Rq-Timeout-Ms' => 10000,
        map { exists $sent{$_} ? ($_ => $sent{$_}) : () } @$may ]);
    return $asked if $asked->status != 200;
    for my $name (@$set) {
        my ($value) = $asked->header_all($name);
        $sent{$name} = $value if defined $value;
    }
    delete @sent{ map {lc} split /, /, $asked->header('x-envoy-auth-headers-to-remove') // '' };
    return http($port{8082}, $method, $uri, body => $o{body} // '', headers => [%sent]);
}
{
    local $port{8082} = $t->port('upstream');
    for (@asked) {
        my ($want, $method, $uri, @more) = @$_;
        my ($name, $got) = ("forward-auth: by what Envoy sends, $method $uri",
            envoy($method, $uri, @more));
        @$want > 1 ? is_problem($got, @$want, $name) : is_deeply [ $got->status,
            reached($got, 'X-Account-Id')->[0] // '', grep { $_->[1] =~ /forged/ }
            @{ $got->json->{headers} } ], [ 200, @$want ], $name;
    }
    is envoy(OPTIONS => '/api/hello')->status, 200, 'forward-auth: by what Envoy sends, OPTIONS';
    is envoy(GET => $_, token => $one)->status, 400, "forward-auth: by what Envoy sends, $_"
        for '/../api/hello', '/api/../../judge';
}
is_deeply $set, [ map {lc} @copied ], 'forward-auth: Envoy copies the same';
my @route = map { [ /^ +- (\S+)$/mg ] } $route =~ /(allowedHeaders:.*?)(allowedResponseHeaders:(?:\n +[-#].*)+)/s;
my %spelt = (dpop => 'DPoP', traceparent => 'traceparent');
is_deeply \@route, [ [ map { $spelt{$_} // join '-', map {ucfirst} split /-/ } @$may ],
    \@copied ], 'forward-auth: and Gateway API';

my @forged = map { my $name = $_; map { $_ => 'forged' } $name, $name =~ tr/-/_/r,
    $name =~ s/-(?=\w+$)/_/r, lc $name } @context;
push @forged, map {; "X${_}Roles" => 'forged' } split //, q(.!#$%&'*+^`|~);
my %front = (
    caddy => [ 8091, [qw(run --adapter caddyfile --config)], 'Caddyfile' ],
    haproxy => [ 8092, ['-f'], 'haproxy.cfg' ]);

# What it answers, asked with forged headers, and to drop those of the gateway.
sub front ($name, $method, $uri, @more) {
    return eval { http($port{ $front{$name}[0] }, $method, $uri, @more,
        headers => [ @forged, Connection => join ', ', 'close', @context ]) }
        // Platform::Test::Response->garbage('');
}
my @fronts;
for my $name (sort keys %front) {
SKIP: {
        my (undef, $args, $file) = @{ $front{$name} };
        chomp(my $program = `sh -c "command -v $name"`);
        skip "needs $name", 1 + @asked unless $program;
        push @fronts, $name;
        $t->process($name, env => { PATH => $ENV{PATH}, HOME => $dir }, ok_status => ['any'],
            cmd => [ $program, @$args, "$own/run/examples/forward-auth/$file" ]);
        ok eventually(sub { front($name, GET => '/api/status')->status eq 200 }),
            "forward-auth: $name runs";
        for (@asked) {
            my ($want, $method, $uri, @more) = @$_;
            my ($case, $res) = ("forward-auth: by $name, $method $uri",
                front($name, $method, $uri, @more));
            @$want > 1 ? is_problem($res, @$want, $case) : is_deeply [ $res->status,
                reached($res, 'X-Account-Id')->[0] // '', grep { $_->[1] =~ /forged|X-Roles/ }
                @{ $res->json->{headers} } ], [ 200, @$want ], $case;
        }
    }
}

# A judge that does not list them, and none.
my $judging = $t->read_file("$own/run/examples/forward-auth/nginx.conf");
$t->write_file('checkout/run/examples/forward-auth/nginx.conf',
    $judging =~ s/allow 127\.0\.0\.1/allow 127.0.0.2/r);
start('forward-auth', \&judges);
is front($_, GET => '/api/status')->status, 403, "forward-auth: $_, which is not listed"
    for @fronts;
# What the page quotes is there; and a script that fails lets nobody pass.
my $cfg = $t->read_file("$root/examples/forward-auth/haproxy.cfg");
is_deeply [ grep { index($cfg, $_) < 0 } $t->read_file("$root/docs/directives.md")
    =~ /^```haproxy\n(.*?)^```/gms ], [], 'forward-auth: directives.md quotes haproxy.cfg';
SKIP: {
    skip 'needs haproxy', 2 unless grep { $_ eq 'haproxy' } @fronts;
    $port{8092} = $t->port('broken');
    $t->write_file('broken.lua', $lua =~ s/(?=core\.httpclient)/nil + /r);
    $t->process('broken', ok_status => ['any'], cmd => [ 'haproxy', '-f', $t->write_file(
        'broken.cfg', ours($cfg) =~ s{/\S+/haproxy\.lua}{$dir/broken.lua}r) ]);
    ok eventually(sub { front('haproxy', GET => '/api/status')->status eq 503 }),
        'forward-auth: a script that fails';
    my $fault = qr/ALERT.*Lua function 'judge'.*arithmetic on a nil/;
    like $t->read_file("$dir/broken.log"), $fault, 'forward-auth: by a fault in it';
    $t->allow($fault);
}

stop();
$port{8092} = $t->port('haproxy');
for my $front (@fronts) {
    my $status;    # no answer at all is no answer of the front's either
    eventually(sub { ($status = front($front, GET => '/api/status')->status) ne '0' });
    like $status, qr/^50[23]$/, "forward-auth: $front, and no judge";
}

# -- other issuers, with the shapes of their keys, metadata and tokens

my $ID = "https://$elsewhere";
my ($TENANT, $API, $OID) = map {
    join '-', $_ x 8, $_ x 4, '4' . $_ x 3, '8' . $_ x 3, $_ x 12
} 1 .. 3;
my ($rsa, $ec) = (jwt_key('elsewhere'), jwt_key('elsewhere', alg => 'ES256'));

my %AT = (
    # Keycloak publishes the key that it decrypts with, too.
    '/realms/shop/protocol/openid-connect/certs' => { keys => [
        { %{ $rsa->jwk }, kid => 'other', use => 'enc', alg => 'RSA-OAEP' },
        { %{ $rsa->jwk }, x5c => ['MIIC'], x5t => 'x', 'x5t#S256' => 'x' } ] },
    '/.well-known/openid-configuration' => { issuer => "$ID/",
        jwks_uri => "$ID/.well-known/jwks.json", response_types_supported => ['code'] },
    '/.well-known/jwks.json' => { keys => [ { %{ $rsa->jwk }, x5c => ['MIIC'], x5t => 'x' } ] },
    "/$TENANT/v2.0/.well-known/openid-configuration" => { issuer => "$ID/$TENANT/v2.0",
        jwks_uri => "$ID/$TENANT/discovery/v2.0/keys", tenant_region_scope => 'EU' },
    # Entra's keys do not say their algorithm.
    "/$TENANT/discovery/v2.0/keys" => { keys => [ { %{ $rsa->jwk }{qw(kty use kid n e)},
        x5t => 'x', x5c => ['MIIC'], issuer => "$ID/$TENANT/v2.0" } ] },
    '/jwks' => { keys => [ $rsa->jwk ] },
    '/auth/v1/.well-known/jwks.json' => { keys => [ { %{ $ec->jwk }{qw(kty crv x y kid alg)},
        ext => JSON::PP::true, key_ops => ['verify'] } ] },
);
system "openssl req -x509 -newkey rsa:2048 -nodes -days 30 -subj /CN=elsewhere -addext "
    . "subjectAltName=DNS:127.0.0.1 -keyout $dir/elsewhere.key -out $dir/elsewhere.pem 2>/dev/null";
my $answers = join "\n", map {
    $t->write_file("elsewhere$_", JSON::PP::encode_json($AT{$_}));
    "location = $_ { root $dir/elsewhere; }"
} sort keys %AT;
$t->nginx_conf(<<"CONF", 'elsewhere_nginx');
%%GLOBALS%%
events { }
http {
    %%GLOBALS_HTTP%%
    server {
        listen $elsewhere ssl;
        ssl_certificate $dir/elsewhere.pem;
        ssl_certificate_key $dir/elsewhere.key;
        $answers
    }
}
CONF
$t->start_nginx('elsewhere_nginx');

# What an issuer's tokens say, changed by %o; undef leaves a claim out.
my %SAYS = (
    keycloak => { iss => "$ID/realms/shop", aud => [ 'shop-api', 'account' ], typ => 'Bearer',
        azp => 'web', sub => 'k-1', sid => 's-1', jti => 'onrtac:1', acr => '1',
        scope => 'openid email', preferred_username => 'ann',
        realm_access => { roles => [ 'offline_access', 'seller' ] },
        resource_access => { account => { roles => ['view-profile'] } } },
    auth0 => { iss => "$ID/", aud => [ 'https://api.example.com', "$ID/userinfo" ],
        sub => 'auth0|1', azp => 'client', scope => 'openid read:invoices',
        permissions => ['read:orders'],
        'https://shop.example/roles' => ['seller'] },
    entra => { iss => "$ID/$TENANT/v2.0", aud => $API, ver => '2.0', tid => $TENANT, oid => $OID,
        sub => 'pairwise', azp => $API, azpacr => '1', scp => 'Orders.Read profile', uti => 'x',
        rh => '0.x', nbf => time - 60 },
    supabase => { iss => "$ID/auth/v1", aud => 'authenticated', sub => uuid(7),
        role => 'authenticated', aal => 'aal2', amr => [ { method => 'totp', timestamp => time } ],
        session_id => uuid(8), email => 'ann@example.com', phone => '',
        is_anonymous => JSON::PP::false,
        app_metadata => { provider => 'email', providers => ['email'], role => 'seller' },
        user_metadata => { role => 'admin' } },
);

sub said ($of, %o) {
    my %claims = (%{ $SAYS{$of} }, iat => time - 60, exp => time + 600, %o);
    delete $claims{$_} for grep { !defined $claims{$_} } keys %claims;
    return jwt_sign(key => $of eq 'supabase' ? $ec : $rsa, payload => \%claims);
}

# The trusted headers that the service got.
sub told ($res) {
    return { map {@$_} grep { $_->[0] =~ /^X-(?!Request|Correlation)/ }
        @{ $res->json->{headers} } };
}

sub status ($path, $token) { return call($path, token => $token)->status }

# [name, issuer, path, claims; what the service is told, or the status]
for my $example (
    [ keycloak => '/api/a', [
        [ 'a user', {}, '/api/a', { 'X-User-Id' => 'k-1', 'X-User-Name' => 'ann',
            'X-User-Roles' => 'offline_access,seller' } ],
        [ 'an ID token', { typ => 'ID', aud => 'shop-api' }, '/api/a', 403 ],
        [ 'another API', { aud => 'account' }, '/api/a', 401 ],
        [ 'another realm', { iss => "$ID/realms/other" }, '/api/a', 401 ],
        [ 'a role', {}, '/api/orders/1', 200 ],
        [ 'no role', { realm_access => { roles => ['user'] } }, '/api/orders/1', 403 ],
        [ 'an ID token with a role', { typ => 'ID' }, '/api/orders/1', 403 ] ] ],
    [ auth0 => '/api/a', [
        [ 'a user', {}, '/api/a', { 'X-User-Id' => 'auth0|1', 'X-User-Roles' => 'seller' } ],
        [ 'another API', { aud => 'web' }, '/api/a', 401 ],
        [ 'a permission', {}, '/api/orders/1', 200 ],
        [ 'another', { permissions => ['read:all'] }, '/api/orders/1', 403 ],
        [ 'no RBAC', { permissions => undef }, '/api/orders/1', 403 ],
        [ 'a scope', {}, '/api/invoices/1', 200 ],
        [ 'another scope', { scope => 'openid' }, '/api/invoices/1', 403 ] ] ],
    [ entra => '/api/orders/a', [
        [ 'a user', {}, '/api/orders/a', { 'X-User-Id' => $OID, 'X-Directory-Id' => $TENANT } ],
        [ 'a user, without the scope', { scp => 'profile' }, '/api/orders/a', 403 ],
        [ 'a user at the jobs', {}, '/api/jobs/a', 403 ],
        [ 'a service', { scp => undef, roles => ['Jobs.Run.All'] }, '/api/jobs/a', {
            'X-User-Id' => $OID, 'X-Directory-Id' => $TENANT, 'X-User-Roles' => 'Jobs.Run.All' } ],
        [ 'a service at the orders', { scp => undef, roles => ['Jobs.Run.All'] },
            '/api/orders/a', 403 ],
        [ 'a token of version 1.0', { iss => "https://sts.windows.net/$TENANT/", ver => '1.0' },
            '/api/orders/a', 401 ],
        [ 'another API', { aud => 'api://other' }, '/api/orders/a', 401 ],
        [ 'no "oid"', { oid => undef }, '/api/orders/a', 401 ] ] ],
    [ supabase => '/api/a', [
        [ 'a user', {}, '/api/a', { 'X-User-Id' => uuid(7), 'X-User-Role' => 'seller' } ],
        [ 'a guest', { is_anonymous => JSON::PP::true }, '/api/a', 200 ],
        [ 'a guest at the profile', { is_anonymous => JSON::PP::true }, '/api/profile/a', 403 ],
        [ 'a user at the profile', {}, '/api/profile/a', 200 ],
        [ 'the key of everybody', { role => 'anon' }, '/api/a', 403 ],
        [ 'a role and two factors', {}, '/api/orders/a', 200 ],
        [ 'one factor', { aal => 'aal1' }, '/api/orders/a', 403 ],
        [ 'a role that users give themselves', { app_metadata => {},
            user_metadata => { role => 'seller' } }, '/api/orders/a', 403 ] ] ],
    [ 'two-issuers' => '/api/basket/a', [
        [ 'a customer', {}, '/api/basket/a', { 'X-User-Id' => 'k-1' } ],
        [ 'a customer at ours', {}, '/api/hello', 403 ],
        [ 'anybody', {}, '/api/products/a',
            { 'X-User-Id' => 'k-1', 'X-Issuer' => "$ID/realms/shop" } ] ] ],
) {
    my ($name, $path, $cases) = @$example;
    my $of = $SAYS{$name} ? $name : 'keycloak';
    start($name, sub { status($path, said($of)) });
    for my $case (@$cases) {
        my ($what, $claims, $at, $want) = @$case;
        my $res = call($at, token => said($of, %$claims));
        is $res->status, ref $want ? 200 : $want, "$name: $what, at $at";
        is_deeply told($res), $want, "$name: $what: what the service is told" if ref $want;
    }
    is status($path, jwt_sign(key => jwt_key('b')->as($of eq 'supabase' ? $ec->kid : $rsa->kid),
        payload => { %{ $SAYS{$of} }, exp => time + 60 })), 401, "$name: of another's key";
    is status($path, undef), 401, "$name: no token";
}
is_deeply [ map { status($_, $one) } qw(/api/hello /api/basket/a /api/products/a) ],
    [ 200, 401, 200 ], 'two-issuers: staff';
is_deeply told(call('/api/products/a', token => $one)), { 'X-User-Id' => $id,
    'X-Issuer' => 'http://127.0.0.1:' . $s->face }, 'two-issuers: and who says so';

# The configuration of docs/other-issuers.md does what the page says.
my $page = "$root/docs/other-issuers.md";
my ($conf) = $t->read_file($page) =~ /^```nginx\nhttp \{\n(.*?^\}\n)```/ms;
my %here = (9000 => $t->port('upstream'), 8083 => $t->port('explain'));
$conf =~ s/\b(9000|8083)\b/$here{$1}/g;
$conf =~ s/listen \K8080/127.0.0.1:$port{8090}/;
$conf =~ s{/var/log/nginx/}{};
$t->write_file('checkout/run/examples/page/nginx.conf',
    ours("events { }\nhttp {\ninclude ../local.conf;\n$conf"));
my $for_it = jwt_sign(key => $rsa, payload => { iss => $ID, aud => 'my-api', sub => 'ann',
    exp => time + 600 });
start('page', sub { status('/api/', $for_it) });
my ($refused, @steps) = steps($page, 'Try it');
prints('other-issuers.md', sub ($script) {
    return shell("token=$for_it\n" . $script =~ s/:8080/:$port{8090}/gr =~ s/8083/$here{8083}/gr);
}, @steps);
my $said = shell($refused->[0] =~ s/8080/$port{8090}/r);
my @lines = $refused->[1] =~ /^\w.*$|"(?:code|detail)":"[^"]*"/mg;
is_deeply [ scalar @lines, grep { index($said, $_) < 0 } @lines ], [5],
    'other-issuers.md: without a token';
stop();

# -- the fleet, which t/soak/fleet.t runs: whoever reads its files takes them

my $fleet = "$root/examples/fleet";
my $identity = Platform::Test::Env::identity();
for my $reads (
    map({"haproxy -c -f $fleet/haproxy-$_.cfg"} qw(database gateways)),
    "(cat $fleet/identity.env; $identity keys generate) >$dir/fleet.env"
        . " && $identity --env-file $dir/fleet.env --check",
    "$root/tools/render --gateway-env $fleet/gateway.env --out $dir/fleet")
{
    SKIP: {
        skip 'needs haproxy', 1 if $reads =~ /^haproxy/ && !Platform::Test::Env::find('haproxy');
        my $said = qx{($reads) 2>&1};
        is $?, 0, 'fleet: ' . $reads =~ s/.*fleet\///r or diag $said;
    }
}

# All of them have been tried, mcp by t/e2e_mcp.t, and README.md has all.
my @there = grep { $_ ne 'mcp' } map { m{examples/([^/]+)/nginx\.conf$} } glob
    "$root/examples/*/nginx.conf";
my $readme = $t->read_file("$root/examples/README.md");
is_deeply [ grep { !-e "$dir/$_.log" } @there ], [], 'each has been started';
is_deeply [ grep { $readme !~ m{\]\($_/} } map { m{([^/]+)$} }
    grep {-d} glob "$root/examples/*" ], [], 'README.md has each';

# The file without a level.
$t->allow(qr/no "platform_gateway_access"/);
$t->done;
