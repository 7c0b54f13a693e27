# Settings: what is wrong stops the program with one line that says so; files of
# settings, commands, sockets; the refresh cookie by its settings.  Each setting's values
# are for check_config and check_config_values, keys for check_keys.

use Fcntl ();
use IO::Socket::UNIX;
use Platform::Test;
use Platform::Test::Client;

my $t = Platform::Test->new;
my ($key, $other) = map { jwt_key($_) } qw(identity other);
my $never = $t->dir . '/never.sock';
my $secret = qr/@{[ substr $key->private_base64, 100, 40 ]}|hunter2/;

# The exit status is 0, unless another is given, and the output.
sub runs ($args, $env, $name, $want = 0) {
    my ($status, $out, $err) = $t->run_identity($args, %$env);
    is $status, $want, $name or diag $err;
    return ($out, $err);
}

# Exit status, arguments, environment, and what the one line on stderr says.
sub refused ($status, $args, $env, $says) {
    my $name = join ' ', @$args, map { "$_=" . ($env->{$_} // '') } sort keys %$env;
    my ($out, $err) = runs($args, $env, "$name: exit $status", $status);
    like $err, qr/\Aidentity-fcgi: (?=[^\n]*$says)[^\n]*\n\z/, "$name: one line, that says why";
    unlike $err . $out, $secret, "$name: no secret";
}

my %prod = (APP_ENV => 'production',
    map { ("PLATFORM_DB_${_}_ON_START" => undef) } qw(MIGRATE SEED));
my %no_keys = map { ("PLATFORM_JWT_$_" => undef) } qw(KEY_ID PRIVATE_KEY_BASE64 PUBLIC_KEY_BASE64);
my $plain = $t->write_file('plain', 'keep me');
my $bad_file = $t->write_file('bad.env', "A=1\nPLATFORM_DB_PASSWORD hunter2\n");
my @check = (2, ['--check']);

refused(@$_) for (
    [ @check, { PLATFORM_JWT_PUBLIC_KEY_BASE64 => $other->public_base64 },
        qr/PLATFORM_JWT_PUBLIC_KEY_BASE64: .*accepted/ ],
    [ @check, { PLATFORM_DB_PASSWORD => 'hunter2', PLATFORM_WORKER_THREADS => 'x' },
        qr/WORKER_THREADS/ ],
    [ 2, [], { PLATFORM_WORKER_THREADS => 'x', IDENTITY_LISTEN => $never },
        qr/PLATFORM_WORKER_THREADS: "x" is not accepted; accepted: 1 to 256/ ],
    (map { [ 2, ['seed'], { %prod, APP_ENV => $_ }, qr/APP_ENV is local/ ] } qw(production LOCAL)),
    (map { [ @check, { %prod, $_ => undef }, qr/$_: missing/ ] } sort keys %no_keys),
    [ @check, { PLATFORM_DB_HOST => '127.0.0.1,10.0.0.1' },
        qr/PLATFORM_DB_SEED_ON_START.*loopback/ ],
    (map { [ 2, $_, {}, qr/line 2/ ] } [ '--env-file', $bad_file, '--check' ],
        [ qw(account list --env-file), $bad_file ]),
    [ 2, ['frob'], {}, qr/frob.*--help/ ], [ 2, ['--frob'], {}, qr/--frob/ ],
    [ 2, ['keys'], {}, qr/keys/ ], [ 2, ['--env-file'], {}, qr/--env-file/ ],
    [ 2, [ 'migrate', 'x' ], {}, qr/x/ ],
    # An id that no setting takes is refused before there is a key.
    (map { [ 2, [ qw(keys generate --kid), $_ ], {}, qr/--kid/ ] }
        '', 'a b', "a'b", "\xc3\xa9", 'x' x 256),
    [ 1, [], { IDENTITY_LISTEN => $t->dir . '/none/x.sock' }, qr/No such file/ ],
    (map { [ 1, [], { IDENTITY_LISTEN => "$_$plain" }, qr/ \Q$plain\E/ ] } '', 'unix:'),
    [ 1, [], { IDENTITY_LISTEN => 'nowhere.invalid:1' }, qr/nowhere\.invalid:1/ ],
    [ 2, [ '--print-config', '--env-file', $t->dir . '/none' ], {}, qr/No such file/ ],
    (map { [ 1, $_, { PLATFORM_DB_HOST => $t->dir, PLATFORM_DB_USER => undef },
        qr/PLATFORM_DB_USER is not set: settings are read from --env-file FILE/ ],
        [ 1, $_, { PLATFORM_DB_HOST => $t->dir, PLATFORM_DB_USER => 'x' }, qr/such file or directory$/m ] }
        [ 'account', 'list' ], ['migrate']),
    [ 1, [], { PLATFORM_DB_HOST => $t->dir, IDENTITY_LISTEN => $never }, qr/database|connect/i ],
);
is_deeply [ -e $never, $t->read_file('plain') ], [ undef, 'keep me' ],
    'nothing listened, and the file stays';

# Beside these, what is accepted.

my $good = $t->write_file('id.env', "# a comment\nPLATFORM_WORKER_THREADS=\"3\"\n"
    . "APP_NAME=from-file\n");
is +(runs(['--check'], {}, 'good settings'))[1], '', 'nothing to complain of';
runs(['--check'], \%prod, 'production: its own defaults are good');
my ($out) = runs([ '--env-file', $good, '--print-config' ],
    { PLATFORM_WORKER_THREADS => 'x', PLATFORM_DB_PASSWORD => 'hunter2' },
    'a file hides a bad value');
like $out, qr/^$_$/m, "it says: $_" for 'PLATFORM_WORKER_THREADS=3', 'APP_NAME=from-file',
    'PLATFORM_DB_PASSWORD=\(set\)', 'PLATFORM_DB_PREPARED=true \(default\)';
unlike $out, $secret, 'and no secret';
like +(runs([ $_->[0] ], {}, $_->[0]))[0], $_->[1], 'says it'
    for [ '--version', qr/^identity-fcgi \d/ ], [ '--help', qr/migrate/ ];

($out) = runs([qw(keys generate --json)], {}, 'keys generate --json');
is_deeply [ sort keys %{ JSON::PP::decode_json($out) } ], [ sort keys %no_keys ], 'as JSON';

# New keys are good keys, and can be read from a file of what was printed.

for my $kid (undef, 'mine', '#1;$x`~', 'x' x 255) {
    my $name = 'keys generate ' . ($kid // '');
    my ($printed) = runs([ qw(keys generate), defined $kid ? ('--kid', $kid) : () ], {}, $name);
    is_deeply [ sort $printed =~ /^(\w+)=/mg ], [ sort keys %no_keys ], "$name: three settings";
    like $printed, defined $kid ? qr/^PLATFORM_JWT_KEY_ID="?\Q$kid\E"?$/m
        : qr/^PLATFORM_JWT_KEY_ID=[\w-]{43}$/m, "$name: its id, or the thumbprint";
    runs([ '--env-file', $t->write_file('new.env', $printed), '--check' ], { %prod, %no_keys },
        "$name: accepted");
}

# Starting.

my $identity = $t->identity(PLATFORM_DB_PASSWORD => 'hunter2');
my $address = $identity->address;
is sprintf('%04o', (stat $address)[2] & 07777), '0660', 'the socket is for its group';
my $tcp = $t->http_server('busy', sub { return [ 200, [], '' ] });
refused(1, [], { IDENTITY_LISTEN => $_ }, qr/\Q$_\E.*in use/)
    for $address, '127.0.0.1:' . $tcp->port;

sub serves ($where) {
    my $c = eval { $t->fcgi($where) };
    return $c && $c->request(GET => '/healthz')->{status} == 200;
}
ok serves($address), 'whose owner goes on';

# Where nobody says so it listens below the directory it is started in.

mkdir $t->dir . '/run' or die "run: $!";
open my $null, '<', '/dev/null' or die "null: $!\n";
$t->track($t->inherited_identity($null));
ok eventually(sub { serves($t->dir . '/run/identity.sock') }), 'the default is run/identity.sock';

# A socket whose process was killed is taken over.

$identity->process->expect_end;
$identity->stop('KILL');
ok -S $address, 'killed: the socket is left behind';
my $next = $t->identity(name => 'identity', PLATFORM_OTHER => 'x');
ok $next->address eq $address && serves($address), 'the next start uses it';
is_deeply [ map { $_->{message} } grep { $_->{event} eq 'config.unknown' } $next->log_lines ],
    ['PLATFORM_OTHER: no such setting, ignored'], 'a name that it does not know is logged';

# Nor does a start take one over whose owner is merely busy, or a stop remove another's.
sub listens ($queue) {
    unlink $address;
    return IO::Socket::UNIX->new(Local => $address, Listen => $queue) // die "listen: $!\n";
}
my $owner = listens(1);
$next->stop;
ok -S $address, 'a stop leaves the socket of another alone';
my @waiting = grep { $_ && $_->connected } map { IO::Socket::UNIX->new(Peer => $address, Blocking => 0) } 1 .. 4;
ok @waiting < 4, 'its backlog is full' or diag scalar @waiting;
my $busy = $t->track($t->identity_process(busy => { IDENTITY_LISTEN => $address },
    ok_status => ['any'])->expect_end);
ok $busy->wait_end(20 * $t->scale), 'who would take it over ends';
like $t->read_file('busy.log'), qr/\A[^\n]*in use\n\z/, 'and says why';

# Two that start at once do so one after the other.
undef $owner;
open my $directory, '<', $t->dir or die "directory: $!\n";
flock $directory, Fcntl::LOCK_EX() or die "flock: $!\n";
my $late = $t->track($t->identity_process(late => { IDENTITY_LISTEN => $address }));
ok eventually(sub {
    $late->alive && $t->read_file('/proc/locks') =~ /-> FLOCK .* $late->{pid} /
        || serves($address) }), 'a start while another one is at it';
ok !serves($address), 'waits';
close $directory;
ok eventually(sub { serves($address) }), 'and then starts';
$late->expect_end;
$late->stop;
ok !-e $address, 'a clean stop removes it';

# The refresh cookie: name, path and attributes are the same wherever it is set and
# cleared, and no other cookie is looked at.

my ($name, %cookie) = ('__Host-rt', PATH => '/', SECURE => 'true', SAME_SITE => 'Strict');
$identity = $t->identity_face(PLATFORM_AUTH_REFRESH_COOKIE_NAME => $name,
    PLATFORM_JWT_REFRESH_TOKEN_TTL => '1h',
    map { ("PLATFORM_AUTH_COOKIE_$_" => $cookie{$_}) } keys %cookie);
client_of($t);
my $nobody = 'platform_refresh_token';    # the default's
my $end = '; HttpOnly; Secure; SameSite=Strict';

# By the cookie alone.
sub by ($path, $cookie) { return call($path, undef, body => '', cookie => $cookie) }

# One test: the cookie is that token, for as long as that and the session last.
sub is_set ($res, $what) {
    my $token = $res->json->{refreshToken};
    is_deeply [ $res->cookie_line($name), row($token, 'extract(epoch from expires_at)::bigint') ],
        [ "$name=$token; Path=/; Max-Age=3600$end", claims($token)->{iat} + 3600 ],
        "$what: set, for as long as its token and the session";
    return $token;
}

sub is_cleared ($res, $what) {
    return is $res->cookie_line($name), "$name=; Path=/; Max-Age=0$end",
        "$what: cleared with the same attributes";
}

my $token = is_set(login('one'), 'login');
is_problem(by(refresh => "$nobody=$token"), 401, 'AUTH_REFRESH_TOKEN_MISSING', 'another cookie');
$token = is_set(by(refresh => "$nobody=x; $name=$token; a=b"), 'among others');
is_cleared(by(logout => "$name=$token"), 'logout');
is_cleared(by(refresh => "$name=$token"), 'a session that is over');

# For a page of another site: partitioned, wherever it is set and cleared.

restart($identity, AUTH_COOKIE_SAME_SITE => 'None', AUTH_COOKIE_PARTITIONED => 'true');
$end = '; HttpOnly; Secure; SameSite=None; Partitioned';
$token = is_set(login('one'), 'partitioned: login');
$token = is_set(by(refresh => "$name=$token"), 'partitioned: refresh');
is_cleared(by(logout => "$name=$token"), 'partitioned: logout');

$t->done;
