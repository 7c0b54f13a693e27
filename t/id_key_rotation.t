# docs/key-rotation.md, followed step by step under load through a gateway and
# two identity processes: not one request is refused.  What goes wrong keeps
# the old keys and says why.

use JSON::PP qw(decode_json);
use Platform::Test;
use Platform::Test::Metrics;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my $slack = $t->scale;
my ($old, $new) = (jwt_key('identity'), jwt_key('next'));
my $access_ttl = 2 * $slack;
my $refresh_ttl = 6 * $slack;

# identity.env with these keys; the file is replaced as an editor does.
sub env_file (%set) {
    $t->write_file('id.env.new', join '', map {"$_=$set{$_}\n"} sort keys %set);
    rename $t->dir . '/id.env.new', $t->dir . '/id.env' or die "rename: $!";
    return $t->dir . '/id.env';
}

sub signing ($key, @additional) {
    return (
        PLATFORM_JWT_KEY_ID             => $key->kid,
        PLATFORM_JWT_PRIVATE_KEY_BASE64 => $key->private_base64,
        PLATFORM_JWT_PUBLIC_KEY_BASE64  => $key->public_base64,
        PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS => join(',',
            map { $_->kid . '=' . $_->public_base64 } @additional),
    );
}

my %no_keys = map { ("PLATFORM_JWT_$_" => undef) }
    qw(KEY_ID PRIVATE_KEY_BASE64 PUBLIC_KEY_BASE64);
my %env = (
    PLATFORM_JWT_ISSUER => 'http://127.0.0.1:' . $t->port('identity'),
    PLATFORM_JWT_ACCESS_TOKEN_TTL  => "${access_ttl}s",
    PLATFORM_JWT_REFRESH_TOKEN_TTL => "${refresh_ttl}s",
    PLATFORM_REQUEST_TIMEOUT       => '12s',
);
my @args = (args => [ '--env-file', env_file(signing($old)) ]);
my @identity = map { $t->identity(name => $_, %env, @args, %no_keys) } qw(a b);
my $stack = $t->full_stack(
    identity => $identity[0],
    env  => { %env,
        IDENTITY_UPSTREAM => join ' ', map { $_->address } @identity },
    edit => sub {
        my $file = 'rendered/platform-http.conf';
        my $text = $t->read_file($file);
        2 == $text =~ s/(key_soft_age|key_cooldown) \S+;/$1 1s;/g
            or die "no soft age and cooldown in $file\n";
        $t->write_file($file, $text);
    },
);

sub reload ($event, @which) {
    for my $identity (@which ? @which : @identity) {
        my $before = () = $identity->log_text =~ /"keys\./g;
        $identity->process->signal('HUP');
        eventually(sub {
            $before < (() = $identity->log_text =~ /"keys\./g);
        }) or return 0;
        my ($line) = grep { $_->{event} =~ /^keys\./ }
            reverse $identity->log_lines;
        return 0 if $line->{event} ne $event;
        sleep 0.3 unless @which;    # processes differ for a while
    }
    return 1;
}

sub kids ($identity) {
    my $got = $t->fcgi($identity->address)->request(GET => '/.well-known/jwks.json');
    return [ map { $_->{kid} } @{ decode_json($got->{body})->{keys} } ];
}

# -- load: clients that use every token until shortly before its end ----------

sub client ($n) {
    my $account = $n % 2 ? 'one' : 'several';
    my $login;    # may have to wait for a hash slot
    eventually(sub { ($login = $stack->login($account))->status == 200 })
        or die 'no login';
    my $session = $login->json;
    if ($session->{accountAccessToken}) {
        my $selected = $stack->post('/api/auth/select-branch',
            { branchId => $session->{branches}[0]{branchId} },
            token => $session->{accountAccessToken})->json;
        $session = { %$selected, refreshToken => $session->{refreshToken} };
    }
    my @kept = ([ time, $session->{accessToken} ]);
    until (-e $t->dir . '/enough') {
        my $res = $stack->refresh($session->{refreshToken});
        print 'refresh ', $res->status, ' ', $res->code // '', "\n";
        $session = $res->json;
        push @kept, [ time, $session->{accessToken} ];
        shift @kept while $kept[0][0] < time - $access_ttl / 2;
        for my $token ($kept[0][1], $kept[-1][1]) {
            my $res = $stack->current_context($token);
            print 'context ', $res->status, ' ', $res->code // '', "\n";
        }
        my ($header) = jwt_decode($kept[0][1]);
        print "kid $header->{kid}\n";
        # Now and then wait long: the refresh token is used late in its life.
        sleep rand() < 0.05 ? $refresh_ttl / 2 : 0.1;
    }
}

my @load = map {
    my $n = $_;
    Platform::Test::Process->start(
        name => "load$n", dir => $t->dir, log => $t->dir . "/load$n.out",
        code => sub { $| = 1; srand $n; client($n) });
} 1 .. 4;
my $answers = sub { my %n; for my $n (1 .. 4) {
    $n{$_}++ for split /\n/, $t->read_file("load$n.out") // '' } return \%n };
ok eventually(sub { ($answers->()->{'refresh 200 AUTH_REFRESH_SUCCESS'} // 0)
    > 20 }), 'under load';

# -- the runbook ------------------------------------------------------------------

is_deeply kids($identity[0]), [ $old->kid ], 'before: one key';
my $began;
for my $step (
    # until every gateway has it
    [ '1. publish', [ $old, $new ], sub { (metrics_scrape($t->port('metrics'),
        '/internal/metrics')->{platform_gateway_key_set_keys} // 0) == 2 } ],
    # until the last refresh token of the old one is dead
    [ '2. sign', [ $new, $old ], sub { time > $began + $refresh_ttl } ],
    [ '3. retire', [$new], sub { 1 } ],
) {
    my ($name, $keys, $over) = @$step;
    env_file(signing(@$keys));
    ok reload('keys.reloaded'), $name;
    $began = time;
    is_deeply kids($_), [ map { $_->kid } @$keys ], "$name: what is published" for @identity;
    ok eventually($over), "$name: for long enough";
}
my $before = $answers->();
ok eventually(sub { $answers->()->{ 'kid ' . $new->kid }
    > ($before->{ 'kid ' . $new->kid } // 0) + 15 }), 'and work goes on';
$t->write_file('enough', '');
ok $_->wait_end(60 * $slack), 'a client ends' for @load;

my $got = $answers->();
my %seen = %$got;
cmp_ok delete $seen{ 'kid ' . $old->kid }, '>', 10, 'the old key was in use';
cmp_ok delete $seen{ 'kid ' . $new->kid }, '>', 10, 'then the new one';
my $refreshes = delete $seen{'refresh 200 AUTH_REFRESH_SUCCESS'};
my ($context) = grep {/^context 200/} keys %seen;
my $contexts = delete $seen{ $context // '' };
is_deeply \%seen, {}, "$refreshes refreshes and $contexts business calls: "
    . 'every one a 200' or diag explain \%seen;

# The old key is out of use: at the gateway within a soft age.

sub branch_token ($key) {
    return jwt_token('branch', $key, iss => $env{PLATFORM_JWT_ISSUER});
}

is $stack->current_context(branch_token($new))->status, 200, 'a token of the new key';
my $late = branch_token($old);
ok eventually(sub {
    my $res = $stack->current_context($late);
    $res->status == 401 && $res->code eq 'GATEWAY_TOKEN_INVALID'
}), 'one of the old key';

# The wrong order: who signs first is not understood by the other process.

my $third = jwt_key('third');
my $login = sub ($identity, $path, $body) {
    return $t->fcgi($identity->address)->request(POST => $path, body => $body);
};
my $credentials = '{"account":"one@demo.test","credential":"'
    . $Platform::Test::Stack::CREDENTIAL . '"}';
env_file(signing($third, $new));
ok reload('keys.reloaded', $identity[0]), 'signing first';
my ($token) = $login->($identity[0], '/api/auth/login', $credentials)->{body}
    =~ /"refreshToken":"([^"]+)"/;
my $refused = $login->($identity[1], '/api/auth/refresh', qq({"refreshToken":"$token"}));
is $refused->{status}, 401, 'is what the runbook is against';
ok reload('keys.reloaded', $identity[1]), 'with the key published';
is $login->($identity[1], '/api/auth/refresh',
    qq({"refreshToken":"$token"}))->{status}, 200, 'the same token is good';

# -- new keys that are no good ------------------------------------------------------

my $weak = jwt_key('weak', bits => 1024);
my %bad = (
    'halves of two keys' => [
        { signing($third), PLATFORM_JWT_PUBLIC_KEY_BASE64 =>
            $new->public_base64 },
        qr/^PLATFORM_JWT_PUBLIC_KEY_BASE64: .*the public half of/ ],
    'a weak key' => [ { signing($weak) },
        qr/^PLATFORM_JWT_PRIVATE_KEY_BASE64: .*2048 bits/ ],
    'a weak additional key' => [ { signing($third, $weak) },
        qr/^PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS: key weak: .*2048 bits/ ],
    'the signing key\'s id again' => [ { signing($third, $third) },
        qr/^PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS: the kid \S+ stands twice/ ],
    'an id twice' => [ { signing($third, $new, $new) },
        qr/^PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS: the kid \S+ stands twice/ ],
    'a private key among the additional' => [ { signing($third),
        PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS => 'x=' . $new->private_base64 },
        qr/^PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS: key x: / ],
    'an id with a blank' => [ { signing($third),
        PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS => 'x y=' . $new->public_base64 },
        qr/^PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS: a kid is not acceptable/ ],
    'no private key' => [ { signing($third),
        PLATFORM_JWT_PRIVATE_KEY_BASE64 => '' },
        qr/^PLATFORM_JWT_PRIVATE_KEY_BASE64: missing/ ],
    'another bad setting' => [ { signing($third),
        PLATFORM_WORKER_THREADS => 'x' }, qr/^PLATFORM_WORKER_THREADS: / ],
    'a file that is none' => [ { signing($third), 'two words' => 1 },
        qr/id\.env: line \d+/ ],
);
my $identity = $identity[1];
for my $name (sort keys %bad) {
    my ($set, $says) = @{ $bad{$name} };
    env_file(%$set);
    my @lines = $identity->log_lines;
    ok reload('keys.reload_failed', $identity), "$name: refused";
    my @all = $identity->log_lines;
    my @said = map { $_->{message} } grep { $_->{event} ne 'http.request' }
        splice @all, scalar @lines;
    is scalar @said, 1, "$name: one line";
    like $said[0], $says, "$name: says what";
    like $said[0], qr/; the old keys stay$/, "$name: and what now";
    is_deeply kids($identity), [ $third->kid, $new->kid ], "$name: the old keys are published";
    next if $name !~ /^(?:halves|a weak key)/;

    # The same line from --check and at start.
    for my $args ([ '--env-file', $t->dir . '/id.env', '--check' ],
        [ '--env-file', $t->dir . '/id.env' ]) {
        my ($status, $out, $err) = $t->run_identity($args, %env,
            APP_ENV => 'production', PLATFORM_DB_MIGRATE_ON_START => undef,
            PLATFORM_DB_SEED_ON_START => undef,
            IDENTITY_LISTEN => $t->dir . '/never.sock', %no_keys);
        is $status, 2, "$name: " . ($args->[2] // 'start') . ' fails';
        is $err, 'identity-fcgi: ' . $said[0] =~ s/; the old keys stay$//r
            . "\n", "$name: with the same line";
    }
}
rename $t->dir . '/id.env', $t->dir . '/away' or die "rename: $!";
ok reload('keys.reload_failed', $identity), 'no file: refused';
like $identity->log_text, qr/id\.env: cannot open/, 'and says so';
unlike $identity->log_text, qr/@{[ substr $third->private_base64, 0, 40 ]}/, 'no key in the log';
is $login->($identity, '/api/auth/login', $credentials)->{status}, 200,
    'after all that logins succeed';
env_file(signing($third, $new));
ok reload('keys.reloaded', $identity), 'and good keys are taken';

# Keys of the environment cannot be read again.

my $plain = $t->identity(name => 'plain');
$plain->process->signal('HUP');
ok eventually(sub { $plain->log_text =~ /no --env-file to read keys from/ }),
    'without --env-file SIGHUP says that it cannot';
is $login->($plain, '/api/auth/login', $credentials)->{status}, 200, 'and changes nothing';

$t->done;
