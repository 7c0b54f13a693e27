# docs/key-rotation.md with variables alone, followed step by step under load
# through a gateway and two identity processes: not one request is refused.
# What goes wrong keeps the old keys and says why; what all is wrong: check_keys.

use JSON::PP qw(decode_json);
use Platform::Test;
use Platform::Test::Metrics;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my $slack = $t->scale;
my ($old, $new, $third) = map { jwt_key($_) } qw(identity next third);
my ($access_ttl, $refresh_ttl) = (2 * $slack, 6 * $slack);
my $file = $t->dir . '/id.env';

# identity.env with these keys; the file is replaced as an editor does.
sub env_file (%set) {
    $t->write_file('id.env.new', join '', map {"$_=$set{$_}\n"} sort keys %set);
    rename "$file.new", $file or die "rename: $!";
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

env_file(signing($old));
my %no_keys = map { ("PLATFORM_JWT_$_" => undef) }
    qw(KEY_ID PRIVATE_KEY_BASE64 PUBLIC_KEY_BASE64);
my %env = (
    PLATFORM_JWT_ISSUER => 'http://127.0.0.1:' . $t->port('identity'),
    PLATFORM_JWT_ACCESS_TOKEN_TTL  => "${access_ttl}s",
    PLATFORM_JWT_REFRESH_TOKEN_TTL => "${refresh_ttl}s",
    PLATFORM_REQUEST_TIMEOUT       => '12s',
);
my @identity = map { $t->identity(name => $_, %env, %no_keys, args => [ '--env-file', $file ]) }
    qw(a b);
my $stack = $t->full_stack(identity => \@identity, env => \%env, key_age => '1s');

# Whether those, or all, say so of the next keys.
sub reload ($event, @which) {
    for my $identity (@which ? @which : @identity) {
        my $before = () = $identity->log_text =~ /"keys\./g;
        $identity->process->signal('HUP');
        eventually(sub { $before < (() = $identity->log_text =~ /"keys\./g) }) or return 0;
        my ($line) = grep { $_->{event} =~ /^keys\./ } reverse $identity->log_lines;
        return 0 if $line->{event} ne $event;
        sleep 0.3 unless @which;    # processes differ for a while
    }
    return 1;
}

sub asks ($identity, $method, $path, @body) {
    return $t->fcgi($identity->address)->request($method => $path, @body);
}

sub kids ($identity) {
    my $set = decode_json(asks($identity, GET => '/.well-known/jwks.json')->{body});
    return [ map { $_->{kid} } @{ $set->{keys} } ];
}

# -- load: clients that use every token until shortly before its end ----------

sub client {
    my $login;    # may have to wait for a hash slot
    eventually(sub { ($login = $stack->login('one'))->status == 200 }) or die 'no login';
    my $session = $login->json;
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
        print 'kid ', (jwt_decode($kept[0][1]))[0]{kid}, "\n";
        # Now and then wait long: the refresh token is used late in its life.
        sleep rand() < 0.05 ? $refresh_ttl / 2 : 0.1;
    }
}

my @load = map {
    my $n = $_;
    Platform::Test::Process->start(
        name => "load$n", dir => $t->dir, log => $t->dir . "/load$n.out",
        code => sub { $| = 1; srand $n; client() });
} 1 .. 4;

# How often there was each line.
sub answers {
    my %n;
    $n{$_}++ for map { split /\n/, $t->read_file("load$_.out") // '' } 1 .. 4;
    return \%n;
}

ok eventually(sub { (answers()->{'refresh 200 AUTH_REFRESH_SUCCESS'} // 0) > 20 }), 'under load';

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
my $before = answers();
ok eventually(sub { answers()->{'kid next'} > ($before->{'kid next'} // 0) + 15 }),
    'and work goes on';
$t->write_file('enough', '');
ok $_->wait_end(60 * $slack), 'a client ends' for @load;

my %seen = %{ answers() };
cmp_ok delete $seen{"kid $_"}, '>', 10, "the key $_ was in use" for qw(identity next);
my @good = delete @seen{'refresh 200 AUTH_REFRESH_SUCCESS', 'context 200 '};
is_deeply \%seen, {}, "refreshes and business calls (@good): every one a 200"
    or diag explain \%seen;

# The old key is out of use: at the gateway within a soft age.

sub branch_token ($key) { return jwt_token('branch', $key, iss => $env{PLATFORM_JWT_ISSUER}) }

is $stack->current_context(branch_token($new))->status, 200, 'a token of the new key';
my $late = branch_token($old);
ok eventually(sub { $stack->current_context($late)->code eq 'GATEWAY_TOKEN_INVALID' }),
    'one of the old key';

# The wrong order: who signs first is not understood by the other process.

my $login = '{"account":"one@demo.test","credential":"'
    . $Platform::Test::Stack::CREDENTIAL . '"}';
sub logs_in ($identity) { return asks($identity, POST => '/api/auth/login', body => $login) }
env_file(signing($third, $new));
ok reload('keys.reloaded', $identity[0]), 'signing first';
my ($token) = logs_in($identity[0])->{body} =~ /"refreshToken":("[^"]+")/;
my @refresh = ($identity[1], POST => '/api/auth/refresh', body => qq({"refreshToken":$token}));
is asks(@refresh)->{status}, 401, 'is what the runbook is against';
ok reload('keys.reloaded', $identity[1]), 'with the key published';
is asks(@refresh)->{status}, 200, 'the same token is good';

# -- new keys that are no good ------------------------------------------------------

my $identity = $identity[1];
for my $bad (
    [ 'halves of two keys', qr/^PLATFORM_JWT_PUBLIC_KEY_BASE64: .*the public half of/,
        PLATFORM_JWT_PUBLIC_KEY_BASE64 => $new->public_base64 ],
    [ 'a weak key', qr/^PLATFORM_JWT_PRIVATE_KEY_BASE64: .*2048 bits/,
        signing(jwt_key('weak', bits => 1024)) ],
    [ 'a weak additional key', qr/^PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS: key weak: .*2048 bits/,
        signing($third, jwt_key('weak', bits => 1024)) ],
    [ 'another bad setting', qr/^PLATFORM_WORKER_THREADS: /, PLATFORM_WORKER_THREADS => 'x' ],
    [ 'a file that is none', qr/id\.env: line \d+/, 'two words' => 1 ],
) {
    my ($name, $says, %set) = @$bad;
    env_file(signing($third), %set);
    my @lines = $identity->log_lines;
    ok reload('keys.reload_failed', $identity), "$name: refused";
    my @all = $identity->log_lines;
    my @said = map { $_->{message} } grep { $_->{event} ne 'http.request' }
        splice @all, scalar @lines;
    is scalar @said, 1, "$name: one line";
    like $said[0], qr/$says.*; the old keys stay$/, "$name: says what, and what now";
    is_deeply kids($identity), [ $third->kid, $new->kid ], "$name: the old keys are published";
    next if $name !~ /^(?:halves|a weak key)/;
    for my $args ([ '--env-file', $file, '--check' ], [ '--env-file', $file ]) {
        my ($status, undef, $err) = $t->run_identity($args, %env, %no_keys,
            APP_ENV => 'production', IDENTITY_LISTEN => $t->dir . '/never.sock',
            map { ("PLATFORM_DB_${_}_ON_START" => undef) } qw(MIGRATE SEED));
        is "$status $err", '2 identity-fcgi: ' . $said[0] =~ s/; the old keys stay$//r . "\n",
            "$name: the same line of " . ($args->[2] // 'a start');
    }
}
rename $file, "$file.away" or die "rename: $!";
ok reload('keys.reload_failed', $identity), 'no file: refused';
like $identity->log_text, qr/id\.env: cannot open/, 'and says so';
unlike $identity->log_text, qr/@{[ substr $third->private_base64, 0, 40 ]}/, 'no key in the log';
is logs_in($identity)->{status}, 200, 'after all that logins succeed';
env_file(signing($third, $new));
ok reload('keys.reloaded', $identity), 'and good keys are taken';

# Keys of the environment cannot be read again.

my $plain = $t->identity(name => 'plain');
$plain->process->signal('HUP');
ok eventually(sub { $plain->log_text =~ /no --env-file to read keys from/ }),
    'without --env-file SIGHUP says that it cannot';
is logs_in($plain)->{status}, 200, 'and changes nothing';

$t->done;
