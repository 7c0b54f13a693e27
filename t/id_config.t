# Settings: what is wrong stops the start with one line that says so.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $key = jwt_key('identity');

# One line on stderr that has every word, and the exit status.
sub refused {
    my ($status, $args, $env, $name, @words) = @_;

    my ($got, $out, $err) = $t->run_identity($args, %$env);
    is $got, $status, "$name: exit $status";
    my @lines = split /\n/, $err;
    is scalar @lines, 1, "$name: one line";
    like $err, qr/^identity-fcgi: /, "$name: by name";
    like $err, $_, "$name: says $_" for @words;
    unlike $err . $out, qr/@{[ substr $key->private_base64, 100, 40 ]}|hunter2/,
        "$name: no secret";
    return $err;
}

my ($status, $out, $err) = $t->run_identity(['--check']);
is $status, 0, '--check: good settings';
is $err, '', '--check: nothing to complain of';

# Values: each refused by --check, beside one that is accepted.

my @values = (
    [ PLATFORM_WORKER_THREADS => '0', '8' ],
    [ PLATFORM_DB_POOL_SIZE => 'many', '4' ],
    [ PLATFORM_REQUEST_TIMEOUT => '5 s', '5s' ],
    [ PLATFORM_DB_STATEMENT_TIMEOUT => '0', '0.5s' ],
    [ PLATFORM_DB_CONNECT_TIMEOUT => '1h', '1s' ],
    [ PLATFORM_DB_PREPARED => 'maybe', 'off' ],
    [ PLATFORM_DB_MIGRATE_ON_START => 'maybe', '1' ],
    [ PLATFORM_DB_SSLMODE => 'maybe', 'prefer' ],
    [ PLATFORM_DB_PORT => '70000', '5432,5433' ],
    [ PLATFORM_JWT_ACCESS_TOKEN_TTL => '-1', '900' ],
    [ PLATFORM_JWT_REFRESH_TOKEN_TTL => '30 days', '30d' ],
    [ PLATFORM_JWT_AUDIENCE => 'two words', 'orders' ],
    [ PLATFORM_JWT_ISSUER => 'two words', 'http://issuer' ],
    [ PLATFORM_JWT_PUBLIC_KEY_BASE64 => jwt_key('other')->public_base64,
        $key->public_base64 ],
    [ PLATFORM_JWT_PUBLIC_KEY_BASE64 => '!', $key->public_base64 ],
    [ PLATFORM_JWT_PRIVATE_KEY_BASE64 => $key->public_base64,
        $key->private_base64 ],
    [ PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS => 'x',
        'x=' . jwt_key('other')->public_base64 ],
    [ PLATFORM_AUTH_REFRESH_COOKIE_NAME => 'a b', 'a' ],
    [ PLATFORM_AUTH_REFRESH_COOKIE_NAME => '__Host-a', 'a' ],
    [ PLATFORM_AUTH_REFRESH_COOKIE_NAME => '__Secure-a', 'a' ],
    [ PLATFORM_AUTH_COOKIE_PATH => 'api', '/' ],
    [ PLATFORM_AUTH_COOKIE_PARTITIONED => 'true', 'off' ],
    [ PLATFORM_AUTH_COOKIE_SECURE => 'ja', 'on' ],
    [ PLATFORM_AUTH_COOKIE_SAME_SITE => 'None', 'Strict' ],
    [ PLATFORM_AUTH_SESSION_MAX_LIFETIME => 'x', '0' ],
    [ PLATFORM_AUTH_SESSION_CLIENT => 'maybe', 'off' ],
    [ PLATFORM_AUTH_REFRESH_RETRY_WINDOW => '61s', '60s' ],
    [ PLATFORM_AUTH_REFRESH_REUSE => 'x', 'revoke' ],
    [ PLATFORM_AUTH_MAX_FAILURES => 'x', '0' ],
    [ PLATFORM_AUTH_MAX_SESSIONS => '-1', '0' ],
    [ PLATFORM_AUTH_FAILURE_WINDOW => '0', '15m' ],
    [ PLATFORM_AUTH_CREDENTIAL_MIN => '0', '12' ],
    [ PLATFORM_AUTH_CREDENTIAL_FORBIDDEN => 'list', '/etc/list' ],
    [ PLATFORM_AUTH_HASH_CONCURRENCY => '0', '1' ],
    [ PLATFORM_AUTH_ARGON2_MEMORY_KIB => '1024', '19456' ],
    [ PLATFORM_AUTH_ARGON2_ITERATIONS => '1', '3' ],
    [ PLATFORM_CORS_ALLOWED_HEADERS => '*', 'header names' ],
    [ PLATFORM_CORS_ALLOWED_ORIGINS => '*', 'https://*.example.com' ],
    [ PLATFORM_SWEEP_INTERVAL => 'x', '0' ],
    [ PLATFORM_AUDIT_LOG => 'a.log', '/a.log' ],
    [ PLATFORM_LOG_LEVEL => 'loud', 'debug' ],
    [ PLATFORM_HTTP_ACCESS_LOG_ENABLED => 'x', 'off' ],
    [ PLATFORM_ENTITLEMENT_URL => 'x', 'http://e:1' ],
    [ PLATFORM_LOGIN_RATE_LIMIT => 'fast', 'off' ],
    [ PLATFORM_REFRESH_RATE_LIMIT => '0r/s', '5r/s burst 5' ],
    [ PLATFORM_REVOCATIONS_ENABLED => 'x', 'off' ],
    [ PLATFORM_REVOCATIONS_STALE => 'x', 'refuse' ],
    [ PLATFORM_TRUSTED_PROXIES => '0.0.0.0/0', '10.0.0.0/8' ],
    [ IDENTITY_LISTEN => 'x', 'run/x.sock' ],
    [ HTTP_PORT => '0', '8081' ],
    [ HTTP_HOST => 'a b', '127.0.0.2' ],
    [ APP_NAME => 'two words', 'identity-2' ],
    [ APP_ENV => 'two words', 'local' ],
    [ PLATFORM_DB_SEED_ON_START => 'x', '0' ],
    [ PLATFORM_JWT_KEY_ID => 'a=b', 'a.b' ],
);
for my $case (@values) {
    my ($name, $bad, $good) = @$case;
    refused(2, ['--check'], { $name => $bad }, "$name=" . substr($bad, 0, 20),
        qr/\Q$name\E: /, qr/accepted/);
    ($status, undef, $err) = $t->run_identity(['--check'], $name => $good);
    is $status, 0, "$name=" . substr($good, 0, 20) . ': accepted' or diag $err;
}

# Of many origins the one that is refused is told.
my @origins = map {"https://app-$_.example.com:8443"} 1 .. 20;
($status, undef, $err) = $t->run_identity(['--check'],
    PLATFORM_CORS_ALLOWED_ORIGINS => " @origins ");
is $status, 0, 'many origins: accepted' or diag $err;
refused(2, ['--check'], { PLATFORM_CORS_ALLOWED_ORIGINS =>
    "@origins https://other.example.com/ $origins[0]" }, 'one of many origins',
    qr{ORIGINS: "https://other\.example\.com/" is not accepted; accepted});

($status, $out) = $t->run_identity(['--print-config']);
my %case = map { $_->[0] => 1 } @values;
# These are libpq's or the gateway's to judge; id_key_dir.t has the directory of
# keys.
is_deeply [ grep { !$case{$_} } $out =~ /^(\w+)=/mg ],
    [ (map {"PLATFORM_DB_$_"} qw(HOST NAME PASSWORD USER)),
        (map {"PLATFORM_ENTITLEMENT_$_"} qw(CONNECT_TIMEOUT SERVERS TIMEOUT)),
        'PLATFORM_JWT_KEY_DIR' ],
    'no other setting is without its case';
for my $word (qw(true false 1 0 on off TRUE Off)) {
    ($status) = $t->run_identity(['--check'],
        PLATFORM_HTTP_ACCESS_LOG_ENABLED => $word);
    is $status, 0, "a boolean: $word";
}
refused(2, ['--check'], { PLATFORM_HTTP_ACCESS_LOG_ENABLED => $_ },
    "no boolean: $_", qr/true, false, 1, 0, on, off/) for qw(yes 2 t);

# Started with a bad value it never serves.

refused(2, [], { PLATFORM_WORKER_THREADS => 'x',
    IDENTITY_LISTEN => $t->dir . '/never.sock' }, 'start',
    qr/PLATFORM_WORKER_THREADS: "x" is not accepted; accepted: 1 to 256/);
ok !-e $t->dir . '/never.sock', 'start: nothing listened';

# Rules of where it runs.

my %prod = (
    APP_ENV => 'production',
    PLATFORM_DB_MIGRATE_ON_START => undef,
    PLATFORM_DB_SEED_ON_START => undef,
);
($status, undef, $err) = $t->run_identity(['--check'], %prod);
is $status, 0, 'production: its own defaults are good' or diag $err;
for my $env ('production', 'LOCAL', 'local2') {
    my %env = (%prod, APP_ENV => $env);
    refused(2, ['--check'], { %env, PLATFORM_AUTH_COOKIE_SECURE => 'false' },
        "$env, insecure cookie", qr/PLATFORM_AUTH_COOKIE_SECURE/);
    refused(2, ['--check'], { %env, PLATFORM_DB_SEED_ON_START => 'true' },
        "$env, seeding", qr/PLATFORM_DB_SEED_ON_START/);
    refused(2, ['--check'], { %env, "PLATFORM_JWT_$_" => undef },
        "$env, no $_", qr/PLATFORM_JWT_$_: missing/)
        for qw(KEY_ID PRIVATE_KEY_BASE64 PUBLIC_KEY_BASE64);
    refused(2, ['seed'], \%env, "$env, seed by hand", qr/APP_ENV is local/);
}
refused(2, ['--check'], { %prod, APP_ENV => undef,
    PLATFORM_AUTH_COOKIE_SECURE => 'false' }, 'no APP_ENV is not local',
    qr/PLATFORM_AUTH_COOKIE_SECURE/);
refused(2, ['--check'], { PLATFORM_DB_HOST => $_ }, "seeding into $_",
    qr/PLATFORM_DB_SEED_ON_START/, qr/loopback/)
    for 'db.example.com', '127.0.0.1,10.0.0.1';

# Names.

refused(2, ['--check'], { PLATFORM_JWT_ISSER => 'x' }, 'a typing error',
    qr/PLATFORM_JWT_ISSER: /, qr/PLATFORM_JWT_ISSUER\?/);
($status, undef, $err)
    = $t->run_identity(['--check'], PLATFORM_UNRELATED_THING => 'x');
is $status, 0, 'an unrelated name is no error';
like $err, qr/PLATFORM_UNRELATED_THING/, 'but named';

# Secrets are never shown.

refused(2, ['--check'], { PLATFORM_DB_PASSWORD => 'hunter2',
    PLATFORM_WORKER_THREADS => 'x' }, 'beside a secret', qr/WORKER_THREADS/);
($status, $out, $err)
    = $t->run_identity(['--print-config'], PLATFORM_DB_PASSWORD => 'hunter2');
is $status, 0, '--print-config';
like $out, qr/^PLATFORM_DB_PASSWORD=\(set\)$/m, '--print-config: set';
like $out, qr/^PLATFORM_WORKER_THREADS=16 \(default\)$/m,
    '--print-config: a default';
unlike $out, qr/hunter2|@{[ substr $key->private_base64, 100, 40 ]}/,
    '--print-config: no secret';

# The environment file.

my $file = $t->write_file('id.env', <<'FILE');
# a comment
; another
PLATFORM_WORKER_THREADS="3"
APP_NAME=from-file
FILE
($status, $out) = $t->run_identity([ '--env-file', $file, '--print-config' ],
    PLATFORM_WORKER_THREADS => 'x');
is $status, 0, '--env-file';
like $out, qr/^PLATFORM_WORKER_THREADS=3$/m, '--env-file wins';
like $out, qr/^APP_NAME=from-file$/m, '--env-file is read';
($status) = $t->run_identity([ '--env-file', $file, '--check' ],
    PLATFORM_WORKER_THREADS => 'x');
is $status, 0, '--env-file hides a bad value';
$file = $t->write_file('bad.env', "A=1\nPLATFORM_DB_PASSWORD hunter2\n");
refused(2, [ '--env-file', $file, '--check' ], {}, 'a bad file', qr/line 2/);
refused(2, [ '--env-file', "$file.none", '--check' ], {}, 'no file',
    qr/cannot open/);

# Commands and options.

($status, $out) = $t->run_identity(['--version']);
is $status, 0, '--version';
like $out, qr/^identity-fcgi \d/, '--version: says it';
($status, $out) = $t->run_identity(['--help']);
is $status, 0, '--help';
like $out, qr/migrate/, '--help: lists commands';
refused(2, ['frob'], {}, 'unknown command', qr/frob/, qr/--help/);
refused(2, ['--frob'], {}, 'unknown option', qr/--frob/);
refused(2, ['keys'], {}, 'half a command', qr/keys/);
refused(2, ['--env-file'], {}, 'no value', qr/--env-file/);
refused(2, [ 'migrate', 'x' ], {}, 'an argument too many', qr/x/);

# New keys are good keys.

($status, $out) = $t->run_identity([ 'keys', 'generate' ]);
is $status, 0, 'keys generate';
my %new = $out =~ /^(\w+)=(\S+)$/mg;
is_deeply [ sort keys %new ], [ map {"PLATFORM_JWT_$_"}
    qw(KEY_ID PRIVATE_KEY_BASE64 PUBLIC_KEY_BASE64) ],
    'keys generate: three settings';
like $new{PLATFORM_JWT_KEY_ID}, qr/^[\w-]{43}$/,
    'keys generate: the thumbprint is the kid';
($status, undef, $err) = $t->run_identity(['--check'], %prod, %new);
is $status, 0, 'keys generate: accepted' or diag $err;
($status, $out) = $t->run_identity([ 'keys', 'generate', '--kid', 'mine' ]);
like $out, qr/^PLATFORM_JWT_KEY_ID=mine$/m, 'keys generate --kid';

# An id that no setting takes is refused before there is a key; one that a
# setting takes can be read from a file of what was printed.
for my $kid ('', 'a b', 'a,b', 'a=b', 'a"b', "a'b", 'a\\b', "a\tb", "\xc3\xa9",
    'x' x 256)
{
    my ($status, $out, $err)
        = $t->run_identity([ 'keys', 'generate', '--kid', $kid ]);
    is_deeply [ $status, $out ], [ 2, '' ], "keys generate --kid '$kid'";
    like $err, qr/\Aidentity-fcgi: [^\n]*--kid[^\n]+\n\z/,
        'one line says why';
    next if $kid eq '';
    ($status, undef, $err) = $t->run_identity(['--check'], %prod,
        PLATFORM_JWT_KEY_ID => $kid);
    is $status, 2, 'the setting does not take it either';
}
for my $kid ('#1;$x`~', '(2026)/[11]:key@host', 'x' x 255) {
    ($status, $out) = $t->run_identity([ 'keys', 'generate', '--kid', $kid ]);
    $t->write_file('new.env', $out);
    ($status, undef, $err) = $t->run_identity(
        [ '--env-file', $t->dir . '/new.env', '--check' ],
        %prod, map { $_ => undef } keys %new);
    is $status, 0, "keys generate --kid '$kid': accepted" or diag $err;
}

# Starting.

my $identity = $t->identity(PLATFORM_DB_PASSWORD => 'hunter2');
my $mode = sprintf '%04o', (stat $identity->address)[2] & 07777;
is $mode, '0660', 'the socket is for its group';
SKIP: {
    skip 'needs root', 1 if $> != 0;
    skip 'valgrind keeps the environment it was started with', 1
        if Platform::Test::Env::valgrind();
    open my $fh, '<', '/proc/' . $identity->pid . '/environ' or die;
    local $/;
    unlike <$fh>, qr/hunter2|@{[ substr $key->private_base64, 100, 40 ]}/,
        'no secret is left in its environment';
}
refused(1, [], { IDENTITY_LISTEN => $identity->address },
    'a socket in use', qr/\Q@{[ $identity->address ]}\E/, qr/in use/);
is $t->fcgi($identity->address)->request(GET => '/healthz')->{status}, 200,
    'whose owner goes on';

my $tcp = $t->http_server('busy', sub { return [200, [], ''] });
refused(1, [], { IDENTITY_LISTEN => '127.0.0.1:' . $tcp->port },
    'a port in use', qr/in use/);
refused(1, [], { IDENTITY_LISTEN => $t->dir . '/none/x.sock' },
    'no such directory', qr/No such file/);
my $plain = $t->write_file('plain', 'keep me');
refused(1, [], { IDENTITY_LISTEN => $plain }, 'a file in the way',
    qr/\Q$plain\E/);
is $t->read_file('plain'), 'keep me', 'which stays';
refused(1, [], { PLATFORM_DB_HOST => $t->dir,
    IDENTITY_LISTEN => $t->dir . '/x.sock' }, 'no database to migrate',
    qr/database|connect/i);

# Where nobody says so it listens below the directory it is started in.

mkdir $t->dir . '/run' or die "run: $!";
my $default = Platform::Test::Process->start(
    name => 'default', dir => $t->dir, log => $t->dir . '/default.log',
    env => { %{ $t->identity_env(IDENTITY_LISTEN => undef) },
        Platform::Test::Env::mode_env($t->dir, name => 'default', leaks => 1) },
    cmd => [ Platform::Test::Env::mode_prefix($t->dir, 'default'),
        Platform::Test::Env::identity() ], stop_wait => 15 * $t->scale);
$t->track($default);
ok eventually(sub {
    my $c = eval { $t->fcgi($t->dir . '/run/identity.sock') };
    $c && $c->request(GET => '/healthz')->{status} == 200
}), 'the default is run/identity.sock';

# A socket whose process was killed is taken over.

my $address = $identity->address;
$identity->process->expect_end;
$identity->stop('KILL');
ok -S $address, 'killed: the socket is left behind';
my $next = $t->identity(name => 'identity');
is $next->address, $address, 'the next start uses it';
is $t->fcgi($address)->request(GET => '/healthz')->{status}, 200, 'and serves';
$next->stop;
ok !-e $address, 'a clean stop removes it';

$t->done;
