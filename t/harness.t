# The harness itself: what it starts works, what goes wrong fails a test.

use Platform::Test;

my $t = Platform::Test->new(module => 0);

my $CONF = <<'CONF';
%%GLOBALS%%
worker_processes 2;
events { }
http {
    %%GLOBALS_HTTP%%
    server {
        listen 127.0.0.1:%%PORT_front%%;
        location / {
            proxy_pass http://127.0.0.1:%%PORT_upstream%%;
            proxy_http_version 1.1;
        }
        location /version { return 200 "one"; }
        location /fcgi {
            fastcgi_pass 127.0.0.1:%%PORT_fastcgi%%;
            fastcgi_param REQUEST_METHOD $request_method;
        }
        location /scgi {
            scgi_pass 127.0.0.1:%%PORT_scgi%%;
            scgi_param CONTENT_LENGTH $content_length;
            scgi_param REQUEST_METHOD $request_method;
        }
        location /uwsgi {
            uwsgi_pass 127.0.0.1:%%PORT_uwsgi%%;
            uwsgi_param REQUEST_METHOD $request_method;
        }
        location /issuer { proxy_pass http://127.0.0.1:%%PORT_issuer%%; }
    }
}
CONF

# nginx and the echo upstream.

my $upstream = $t->echo_upstream;
my $nginx = $t->nginx_conf($CONF);
$t->start_nginx;
my $port = $t->port('front');
ok eventually(sub { (my @w = $nginx->workers) == 2 }), 'nginx runs with its workers';

my $res = http_post($port, '/a?b=1', json => { x => 1 },
    headers => [ 'X-Twice' => 'a', 'X-Twice' => 'b' ]);
is $res->status, 200, 'a request passes';
is $res->json->{uri}, '/a?b=1', 'the upstream says what it was asked';
is $res->json->{body}, '{"x":1}', 'and the body';
is_deeply [ header_values($res->json, 'x-twice') ], [ 'a', 'b' ],
    'and header lines, duplicates kept';
is http_get($port, '/?status=503')->status, 503, 'a status on demand';
is $upstream->count, 2, 'the upstream counts';

my $c = Platform::Test::Http->new(port => $port);
is $c->request(GET => '/version')->body, 'one', 'a kept connection';
is $c->request(HEAD => '/version')->header('Content-Length'), 3, 'HEAD';
$c->send(http_request_bytes(GET => '/version', connection => 'keep-alive')
        . http_request_bytes(GET => '/version'));
is $c->read_response->body, 'one', 'pipelined: first' for 1 .. 2;
ok $c->closed, 'closed as asked';
like http_raw($port, "GET /version\r\n"), qr/^one$/, 'HTTP/0.9, raw';

my @all = http_parallel(
    [ map { [ $port, http_request_bytes(GET => "/$_") ] } 1 .. 50 ]);
is_deeply [ map { $_->json->{uri} } @all ], [ map {"/$_"} 1 .. 50 ],
    'fifty at once, answers in order';

# Other protocols.

$t->$_ for qw(echo_fastcgi echo_scgi echo_uwsgi);
for my $name (qw(fcgi scgi uwsgi)) {
    my $seen = http_get($port, "/$name", headers => [ 'X-A' => 'b' ])->json;
    is_deeply [ map { $_->[1] } grep { $_->[0] eq 'HTTP_X_A' }
            @{ $seen->{params} } ], ['b'], "$name echo";
}

# Reload.

$t->nginx_conf($CONF =~ s/"one"/"two"/r);
ok $t->reload, 'a reload';
is http_get($port, '/version')->body, 'two', 'the new configuration serves';
my ($ok, $said) = $t->nginx_test("%%GLOBALS%%\nevents { }\nbroken;\n");
ok !$ok, 'nginx -t refuses a broken configuration';
like $said, qr/unknown directive "broken"/, 'and says why';

# The issuer.

my $issuer = $t->issuer(body => 'keys');
is http_get($port, '/issuer')->body, 'keys', 'the issuer issues';
$issuer->set(status => 500);
is http_get($port, '/issuer')->status, 500, 'a status';
$issuer->set(status => 200, truncate => 2);
is http_get($port, '/issuer')->truncated, 1, 'a truncated document';
$issuer->down;
is http_get($port, '/issuer')->status, 502, 'down';
$issuer->set(truncate => undef);
$issuer->up;
is http_get($port, '/issuer')->body, 'keys', 'up again';
is $issuer->count, 4, 'fetches are counted';

# Tokens.

my $key = jwt_key('a');
my $token = jwt_token(branch => $key, roles => undef);
my ($header, $claims) = jwt_decode($token);
is_deeply $header, { alg => 'RS256', typ => 'JWT', kid => 'a' }, 'header';
is $claims->{token_scope}, 'BRANCH', 'claims of the kind';
ok !exists $claims->{roles}, 'a claim left out';
isnt jwt_tamper($token, 2, -1), $token, 'tampering changes';
is jwt_tamper(jwt_tamper($token, 2, 9), 2, 9), $token, 'one bit only';
is scalar @{ JSON::PP::decode_json(jwks($key, jwt_key('b')))->{keys} }, 2, 'a key set';

# PostgreSQL.

my $pg = $t->postgres;
is $pg->sql('select 1, current_user'), '1|platform', 'a database';
$pg->stop('INT');
$pg->start;
is $pg->sql('select 2'), '2', 'also after a restart';

# What must fail a test.  Each runs as a test file of its own.

sub run_sub ($body) {
    my $file = $t->write_file('sub.t', <<"SUB");
use Platform::Test;
my \$t = Platform::Test->new(module => 0);
ok 1, 'something';
\$t->write_file('dir', \$t->dir);
$body
SUB
    my $out = `$^X $file 2>&1`;
    my $status = $?;
    system 'rm', '-rf', Platform::Test::Env::build() . '/test-failed/sub.t';
    return ($status >> 8, $out);
}

my ($status, $out) = run_sub('$t->done;');
is $status, 0, 'a good test passes' or diag $out;

($status, $out) = run_sub(
    q{$t->write_file('x.log', "[alert] boo\n"); $t->done;});
isnt $status, 0, 'an [alert] in a log fails';
like $out, qr/x\.log: \[alert\] boo/, 'and is shown';

($status) = run_sub(q{$t->write_file('x.log', "[alert] boo\n");}
        . q{$t->allow(qr/boo/); $t->done;});
is $status, 0, 'an allowed one does not';

($status) = run_sub(q{$t->write_file('x.log',}
        . q{"==1==ERROR: AddressSanitizer: heap\n"); done_testing;});
isnt $status, 0, 'sanitizer text fails, also without done';

($status, $out) = run_sub(q{my $d = $t->dir;}
        . q{system("cd $d && setsid sleep 100 >/dev/null 2>&1 &");}
        . q{select undef, undef, undef, 0.3; $t->done;});
isnt $status, 0, 'a leftover process fails';
like $out, qr/left running: (\d+) sleep/, 'and is named';
my ($left) = $out =~ /left running: (\d+)/;
ok eventually(sub { !kill 0, $left // 0 }), 'and is gone';

($status, $out) = run_sub(q{$t->track(Platform::Test::Process->start(}
        . q{name => 'short', dir => $t->dir, cmd => ['true']));}
        . q{select undef, undef, undef, 0.3; $t->done;});
like $out, qr/short had ended by itself/, 'a daemon that died fails';

($status, $out) = run_sub(q{$t->echo_upstream; my $pg = $t->postgres;}
        . q{$| = 1; print "pid ", $pg->pid, " ", $t->dir, "\n";}
        . q{kill 'KILL', $$;});
my ($pid, $dir) = $out =~ /^pid (\d+) (.*)/m;
ok $pid, 'a test that is killed';
ok eventually(sub { !kill 0, $pid // 0 }), 'takes its daemons along';
like $out, qr{^ok 1}, 'it had started';
system 'rm', '-rf', $dir if $dir;

# t/deb/apart: whatever ends it, no process and no mount is left, and what a mount
# leads to is never removed with a tree.

SKIP: {
    my $apart = $t->root . '/t/deb/apart';
    skip 'no namespaces without root', 1 if $> != 0 || system("$apart true 2>/dev/null") != 0;
    my ($tree, $outside) = map { $t->dir . $_ } '/a tree', '/outside';
    my $bind = 'mount --bind . "$1/in" && : >"$1/mounted"';
    my $removed = sub ($how, @remove) {
        is system(@remove), 0, "$how: the tree is removed";
        ok !-e $tree && -e "$outside/kept", '  and nothing else';
    };
    my $start = sub {
        $t->write_file($_, '') for 'outside/kept', 'a tree/in/file';
        unlink "$tree/mounted";
        return $t->track(Platform::Test::Process->start(name => 'apart',
            log => $t->dir . '/apart.log', dir => $outside, cmd => [ $apart,
                'sh', '-c', $_[0], $apart, $tree ]))->expect_end;
    };
    for my $signal (qw(TERM INT HUP KILL)) {
        my $run = $start->("$bind; sleep 100 & wait");
        ok eventually(sub { -e "$tree/mounted" }), "SIG$signal: mounted";
        ok -e "$tree/in/file", '  which nobody else sees';
        $run->signal($signal);
        ok $run->wait_end(60), '  ends';
        is Platform::Test::Process::describe($run->status), 'signal '
            . { HUP => 1, INT => 2, KILL => 9, TERM => 15 }->{$signal}, '  by it';
        ok eventually(sub { !Platform::Test::Process::in_dir($outside) }),
            '  and so does what it ran';
        $removed->("  SIG$signal", $apart, '--remove', $tree);
    }
    my $run = $start->("$bind; cd \"\$1/in\"; \"\$0\" --remove \"\$1\"");
    ok $run->wait_end(60), 'a mount in use';
    isnt $run->status, 0, '  is refused';
    ok -e "$tree/mounted" && -e "$outside/kept", '  and nothing is removed';
    $start->('')->wait_end(60);
    $removed->('a mount that was left', $apart, 'sh', '-c',
        "cd \"\$2\"; $bind; cd /; \"\$0\" --remove \"\$1\"", $apart, $tree,
        $outside);
}

$t->done;
