# The log of the identity service: whatever is sent, every line is one JSON object;
# each event of the audit has its line with both request ids; no secret stands in any
# log, environment, command line or core.

use File::Find ();
use JSON::PP;
use Platform::Test;
use Platform::Test::Client;

my $t = Platform::Test->new;
my $key = jwt_key('identity');
my $next = jwt_key('next');
my $good = $Platform::Test::Client::CREDENTIAL;
my $password = 'db-passw0rd-hunter2';

sub env_file ($signing, @additional) {
    my %file = ($signing->env(@additional), PLATFORM_DB_PASSWORD => $password);
    delete $file{PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS} if !@additional;
    return $t->write_file('id.env', join '', map {"$_=$file{$_}\n"} keys %file);
}

my %env = (
    PLATFORM_JWT_ISSUER         => 'http://127.0.0.1:' . $t->port('identity'),
    PLATFORM_LOG_LEVEL          => 'debug',
    PLATFORM_AUTH_MAX_FAILURES  => 2,
    PLATFORM_AUTH_REFRESH_REUSE => 'revoke',
    PLATFORM_SWEEP_INTERVAL     => '1s',
);
my $identity = $t->identity(%env, args => [ '--env-file', env_file($key) ],
    # Also in the environment, where nobody is to find them later.
    PLATFORM_DB_PASSWORD => $password);
my $stack = $t->full_stack(identity => $identity, env => \%env);
client_of($t, $stack->gateway);
my $address = $identity->address;
my $pg = $t->postgres;

# What must not appear: tokens and credentials as they come up, keys.
my %secret = ($good => 'the credential', $password => 'the database password',
    eyJ => 'the beginning of a token', '$argon2' => 'a hash',
    map { $_ => 'a credential' } qw(Wr0ng-but-secret N0body-knows-this));
for my $k ($key, $next) {
    my $private = $k->private_base64;
    $secret{ substr $private, $_, 40 } = 'a private key' for 60, 400, 800;
    my ($line) = grep {/^[A-Za-z0-9+\/]{60,}$/} split /\n/, MIME::Base64::decode_base64($private);
    $secret{$line} = 'a line of a private key' if $line;
}

my $ids = 0;
my %of;    # request ids by what was done

# Has $ask make a request through the gateway, with ids of its own that are
# remembered by $what.
sub ask ($what, $ask, @args) {
    my $n = ++$ids;
    $of{$what} = "log-$n";
    my $res = $ask->(@args, headers => [ 'X-Request-Id' => "log-$n",
        'X-Correlation-Id' => "cor-$n", grep({ ($_ // '') eq 'body' } @args)
            ? ('Content-Type' => 'application/json') : () ]);
    my $json = eval { $res->json } // {};
    for my $token (grep {defined} @$json{qw(accessToken accountAccessToken refreshToken)}) {
        $secret{ (split /\./, $token)[2] } = 'a token';
    }
    return $res;
}

# -- everything that is on the record

my $one = ask(login => \&login, 'one')->json;
my $several = ask(several => \&login, 'several')->json;
ask(failed => \&login, 'one', credential => 'Wr0ng-but-secret');
ask($_ => \&login, 'nobody', credential => 'N0body-knows-this') for qw(unknown unknown2 limited);
ask(disabled => \&login, 'disabled');
ask(select => \&select_branch, $several, branch(31));
ask(not_selectable => \&select_branch, $several, uuid(9));
my $new = ask(refresh => \&refresh, $one)->json->{refreshToken};
ask(cookie => \&call, 'refresh', undef, body => '', cookie => "platform_refresh_token=$new");
ask(stale => \&refresh, $one);
my $claims = claims($one);
$pg->sql("update rotated_tokens set rotated_at = rotated_at - interval '2 min'");
ask(reuse => \&refresh, jwt_token('refresh', $key, %$claims, iat => time - 130));
ask(logout => \&logout, $several);
my $late = ask(late => \&login, 'several')->json;
# Without the trigger that locks it out.
$pg->sql("set session_replication_role = replica; update accounts set status = 'DISABLED'
    where account_name = 'several\@demo.test'", user => 'postgres');
ask(gone => \&refresh, $late);

env_file($next, $key);
$identity->process->signal('HUP');
ok eventually(sub { $identity->log_text =~ /keys\.reloaded/ }), 'SIGHUP';
$t->write_file('id.env', 'PLATFORM_JWT_KEY_ID=x');
$identity->process->signal('HUP');
ok eventually(sub { $identity->log_text =~ /keys\.reload_failed/ }), 'SIGHUP with bad keys';

# -- malformed input, which leads to no secret either

my $leak = 'In-the-wr0ng-place';
$secret{$leak} = 'what was misplaced';
for my $body (
    qq({"account":"a","credential":"$leak"), qq({"credential":"$leak","credential":1}),
    qq({"account":{"x":"$leak"},"credential":["$leak"]}), qq({"$leak":1}),
    qq({"account":"\xff$leak","credential":"x"}), '{"account":"' . $leak x 2000 . '"}',
) {
    cmp_ok ask("body $ids", \&call, 'login', undef, body => $body)->status,
        '>=', 400, 'a bad login body is refused';
    ok $t->fcgi($address)->request(POST => '/api/auth/refresh',
        body => $body =~ s/credential|account/refreshToken/gr), 'as a refresh it is answered';
}
my $strange = join '', map {chr} 1 .. 255;
for my $params (
    { DOCUMENT_URI => "/$strange", HTTP_USER_AGENT => $strange x 30, REQUEST_METHOD => $strange },
    { DOCUMENT_URI => '/' . "\x01" x 5000, HTTP_USER_AGENT => "\xff" x 5000 },
    { DOCUMENT_URI => undef, REQUEST_METHOD => undef },
    { HTTP_X_REQUEST_ID => qq("}\n{"), HTTP_X_CORRELATION_ID => $strange },
    { HTTP_COOKIE => "platform_refresh_token=$leak; platform_refresh_token=x",
        HTTP_AUTHORIZATION => "Bearer $leak", HTTP_ORIGIN => $strange, HTTP_HOST => $strange },
) {
    is scalar(grep { $t->fcgi($address)->request(POST => "/api/auth/$_",
        body => '{}', params => $params) } qw(login refresh select-branch logout)), 4,
        'strange parameters are answered';
}
$t->fcgi($address)->send("GET /$leak HTTP/1.1\r\n\r\n");

# A gateway asks for the feed twice a second: only what fails is on the record.

my $feed = '/internal/revocations';
is_deeply [ map { http_get($stack->face, $feed . $_, headers => [ 'X-Request-Id' => "feed-"
    . length ])->status } '', '?no' ], [ 200, 400 ], 'the feed, and a bad question';
ok eventually(sub { ($t->read_file('logs/access.log') // '') =~ /$feed.*"status":400/ }),
    'the bad one is in the log of the face';
unlike $t->read_file('logs/access.log'), qr/$feed.*"status":200/, 'and the other is not';

# The database leaves.

$pg->stop('QUIT');
ask(database => \&refresh, jwt_token('refresh', $next, iss => $env{PLATFORM_JWT_ISSUER}));
ask(database2 => \&login, 'one');
$pg->start;
ok eventually(sub { http_get($stack->face, '/readyz')->status == 200 }), 'is back';
ok eventually(sub { $identity->log_text =~ /sweep\.done/ }), 'the sweep has its line';

# -- the lines

my $json = JSON::PP->new->utf8->allow_nonref(0);
my (@lines, @bad);
for my $line (split /(?<=\n)/, $identity->log_text) {
    my $got = eval { $json->decode($line) };
    my $whole = $got && $line =~ /\n\z/ && $line !~ /[\x00-\x09\x0b-\x1f\x7f]/;
    push @bad, $line unless $whole && length $line <= 4096;
    push @lines, $got if $got;
}
is_deeply \@bad, [], scalar(@lines) . ' lines: each one JSON object';
is_deeply [ grep { $_->{time} !~ /^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/
    || "$_->{level} $_->{service} $_->{env} $_->{event}"
        !~ /^(?:debug|info|warn|error) identity-service local \S/ } @lines ], [],
    'each with time, level, service, environment, event';

# Those that a request caused have both of its ids.
my $serving = qr/^(?:service|db\.(?:migrated|connected|unavailable)|sweep|keys |config|fcgi)\b/x;
is_deeply [ grep { my ($request, $correlation) = @$_{qw(requestId correlationId)};
    !defined $request || !defined $correlation
        || $request =~ /^log-(\d+)$/ && $correlation ne "cor-$1" }
    grep { $_->{event} !~ $serving } @lines ], [], 'both ids, those of one request, on every line';

# The line of an event that the request $what caused.
sub line ($what, $event) {
    my @found = grep { ($_->{requestId} // '') eq $of{$what} && $_->{event} eq $event } @lines;
    is scalar @found, 1, "$what: one line $event";
    return $found[0] // {};
}

my $nobody = {};
for my $case (
    [ login    => 'auth.login.succeeded', $claims ],
    [ failed   => 'auth.login.failed', { account_id => $claims->{account_id} } ],
    [ unknown  => 'auth.login.failed', $nobody ],
    [ limited  => 'auth.login.limited', $nobody ],
    [ refresh  => 'auth.refresh.succeeded', $claims ],
    [ cookie   => 'auth.refresh.succeeded', $claims ],
    [ stale    => 'auth.refresh.reuse', $claims ],
    [ reuse    => 'auth.refresh.reuse_revoked', $claims ],
    [ select => 'auth.branch.selected', claims($several) ],
    [ logout => 'auth.logout', claims($several) ],
    [ gone   => 'auth.session.account_disabled', claims($late) ],
) {
    my ($what, $event, $ids) = @$case;
    is_deeply [ @{ line($what, $event) }{qw(audit clientIp accountId sessionId)} ],
        [ JSON::PP::true, '127.0.0.1', @$ids{qw(account_id session_id)} ],
        "$event: marked, from where, and who";
}
my ($reloaded) = grep { $_->{event} eq 'keys.reloaded' } @lines;
is_deeply [ @$reloaded{qw(kid publicKeys audit)} ],
    [ $next->kid, 2, JSON::PP::true ], 'keys.reloaded: which';
is_deeply [ map { $_->{message} =~ /^PLATFORM_\w+: .*; the old keys stay$/ }
    grep { $_->{event} eq 'keys.reload_failed' } @lines ], [1], 'keys.reload_failed: says why';
is_deeply [ @{ line(database => 'http.request') }{qw(status code method path)} ],
    [ 503, 'DATABASE_UNAVAILABLE', 'POST', '/api/auth/refresh' ],
    'the access line';
is_deeply [ map {"$_->{requestId} $_->{status}"} grep { ($_->{path} // '') eq $feed
    && ($_->{status} == 200 || $_->{requestId} =~ /^feed/) } @lines ], ['feed-3 400'],
    'the feed has access lines of errors alone';
is_deeply [ grep { ref $_->{status} || $_->{status} !~ /^\d{3}$/
    || $_->{durationMs} !~ /^\d+$/ || $_->{bytes} !~ /^\d+$/ }
    grep { $_->{event} eq 'http.request' } @lines ], [],
    'every access line has its numbers, also a long one';

# -- at other levels: audit and access lines are no matter of level

for my $access ('true', 'false') {
    my $p = $t->identity(name => "quiet-$access", PLATFORM_LOG_LEVEL => 'error',
        PLATFORM_HTTP_ACCESS_LOG_ENABLED => $access);
    is $t->fcgi($p->address)->request(POST => '/api/auth/login', body =>
        qq({"account":"one\@demo.test","credential":"$good"}))->{status}, 200,
        "access log $access: a login";
    is_deeply [ map { $_->{event} } $p->log_lines ], [ 'auth.login.succeeded',
        ($access eq 'true' ? 'http.request' : ()) ], 'level error: its lines';
}

# -- no secret

my $texts = 0;

sub clean ($where, $file) {
    $texts++;
    my $text = $t->read_file($file) // die "$file: $!";
    my @found = map { $secret{$_} } grep { index($text, $_) >= 0 } keys %secret;
    ok !@found, "$where: no secret" or diag "@found";
}

cmp_ok scalar(keys %secret), '>', 25, scalar(keys %secret) . ' secrets';
File::Find::find({ no_chdir => 1, wanted => sub {
    clean(s{.*/}{}r, $_) if -f && /\.log(?:\.\d+)?$|\.err$/;
}, preprocess => sub { grep { $_ ne 'data' } @_ } }, $t->dir);
cmp_ok $texts, '>=', 5, 'logs of both halves and the database';

if ($> == 0 && !Platform::Test::Env::valgrind()) {    # which has an environment of its own
    clean("its $_", '/proc/' . $identity->pid . "/$_") for qw(environ cmdline);
}

# Not dumpable: where another process leaves a core, this one does not.

SKIP: {
    skip 'sanitizers need it dumpable', 2 if Platform::Test::Env::asan();
    skip 'valgrind dumps by itself', 2 if Platform::Test::Env::valgrind();
    my $control = Platform::Test::Process->start(name => 'control',
        dir => $t->dir, cmd => [ 'sleep', 60 ])->expect_end;
    my %dumped;
    for my $p ([ control => $control ], [ identity => $identity->process ]) {
        my ($name, $process) = @$p;
        eventually(sub { Platform::Test::Process::command_of($process->pid)
            =~ /^sleep |identity-fcgi/ });
        system('prlimit', '--pid', $process->pid, '--core=unlimited') == 0
            or skip 'no prlimit', 2;
        $process->expect_end->signal('QUIT');
        $process->wait_end(60);
        $dumped{$name} = $process->status & 128 ? 1 : 0;
    }
    skip 'this system writes no cores', 2 unless $dumped{control};
    is $dumped{identity}, 0, 'no core of the program';
    is scalar(() = glob $t->dir . '/*core*'), 1, 'but of the control';
}

$t->done;
