# The operator's commands, seen from a client: from an empty database to a login over
# HTTP, what credentials can be and how they come, unlocking, sessions, and tokens.
# (What locking an account out does to its sessions: id_lockout.t; what a branch that
# is not selectable any more: id_select_branch.t.)

use POSIX qw(WNOHANG);
use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;

my $t = Platform::Test->new;
my $pg = $t->postgres(empty => 1, settings => { log_statement => 'all' });
my %env = (PLATFORM_DB_SEED_ON_START => 'false', PLATFORM_AUTH_MAX_FAILURES => 3);
my $c = Platform::Test::Commands->new(test => $t, env => \%env);
my $first = $c->secret('f1rst cr3dential');
my $second = "s3cond \xe9 \"cr\\edential";
utf8::encode(my $second_bytes = $second);
$c->secret($second_bytes);
my $ANN = 'ann@demo.test';

# From nothing.

$c->done('migrate');
my $shop = $c->done(qw(workspace add Shop --new-tenant Acme));
my $main = $c->done(qw(branch add Main --workspace Shop));
my $ann = $c->audited(['account.added'], { stdin => "$first\n" }, qw(account add), $ANN);
is_deeply [ @$ann{qw(account type status)} ], [ $ANN, 'CUSTOMER', 'ACTIVE' ], 'account add';
my $member = $c->done(qw(member add --workspace Shop --account), $ANN);
$c->done(qw(member grant --branch Main --role MANAGER --role CASHIER --account), $ANN);

my $identity = $t->identity_face(%env);
client_of($t);

# One test: a login is answered so.
sub logs_in ($name, $status, $account, $credential) {
    my $res = login($account, credential => $credential);
    is $res->status, $status, $name or diag $res->body;
    return $res->json;
}

my $session = logs_in('a login', 200, ann => $first);
my ($header, $claims) = jwt_decode($session->{accessToken});
is_deeply [ @$claims{qw(account_id account_type workspace_id tenant_id
    member_id active_branch_id branch_ids roles)} ],
    [ @$ann{qw(accountId type)}, @$shop{qw(workspaceId tenantId)}, $member->{memberId},
        $main->{branchId}, [ $main->{branchId} ], [ 'CASHIER', 'MANAGER' ] ],
    'with all that was made and granted';

# Credentials: what can be one, and how it comes.

my $long = $c->secret('x' x 1024);
for my $case ([ long => $long ], [ odd => join '', map { chr(1 + $_ % 9) } 1 .. 1024 ]) {
    my ($name, $credential) = @$case;
    $c->done({ stdin => $credential }, qw(account add), "$name\@demo.test");
    logs_in('1024 bytes of any ASCII, no line end', 200, $name => $credential);
}
# Not too short, and none that everybody tries first (which: check_change_credential).
my $LIST = 'PLATFORM_AUTH_CREDENTIAL_FORBIDDEN';
my %min = (PLATFORM_AUTH_CREDENTIAL_MIN => 4,
    $LIST => $t->write_file('forbidden', "Password1\nqwertyuiop"));
my @problems;
for my $case (
    [ qr/at most 1024 bytes/, "${long}y" ], [ qr/standard input is over/, "${long}yyyy" ],
    [ qr/nothing was given on standard input/, '' ], [ qr/nothing was given/, "\n" ],
    [ qr/more than one line/, "a\nb\n" ],
    (map { [ qr/UTF-8 without NUL/, $_ ] } "a\xff", "a\0b"),
    [ qr/at least 8 characters/, "seven\xc3\xa9\xc3\xa9\n" ],
    [ qr/at least 4 characters/, 'abc', \%min ],
    [ qr/one that $LIST lists/, 'QWERTYUIOP', \%min ],
    [ qr/$LIST: cannot read .*: Invalid argument/, $first, { $LIST => '/dev/null' } ],
    [ qr/at least 8 characters/, 'x', {}, qw(account set-credential), $ANN ],
    [ qr/of this name exists already/, $first, {}, qw(account add), ' ANN@demo.test ' ],
    [ qr/cannot be a UUID/, $first, {}, qw(account add), uuid() ],
    [ qr/no account called "nobody"/, $first, {}, qw(account set-credential nobody) ],
) {
    my ($why, $stdin, $env, @words) = @$case;
    push @problems, $c->refused(1, $why, { stdin => $stdin, env => $env // {} },
        @words ? @words : qw(account add new));
}
sub credential ($code, %more) { return { pointer => '/credential', code => $code, %more } }
my $not_allowed = 'AUTH_CREDENTIAL_NOT_ALLOWED';
is_deeply [ map { [ @$_{qw(code errors)} ] } @problems ], [
    [ 'REQUEST_INVALID', [ credential('too_long', maximum => 1024) ] ],
    ([ 'REQUEST_INVALID', undef ]) x 4,
    ([ 'REQUEST_INVALID', [ credential('malformed') ] ]) x 2,
    (map { [ $not_allowed, [ credential('too_short', minimum => $_) ] ] } 8, 4),
    [ $not_allowed, [ credential('not_allowed') ] ], [ 'COMMAND_FAILED', undef ],
    [ $not_allowed, [ credential('too_short', minimum => 8) ] ],
    [ 'RESOURCE_EXISTS', undef ], [ 'REQUEST_INVALID', undef ], [ 'RESOURCE_NOT_FOUND', undef ],
], 'the codes and faults of these';
is $pg->sql('select count(*) from accounts'), 3, 'none of these made one';
$c->done({ stdin => $_, env => \%min }, qw(account add), "ok $_") for 'four', 'Password1 2';
$c->done({ stdin => "crlf-end\r\n" }, qw(account add crlf@demo.test --type OPERATOR));
is claims(logs_in('CR LF is a line end', 200, crlf => 'crlf-end')->{accountAccessToken}
    )->{account_type}, 'OPERATOR', '--type';
my $robot = $c->done(qw(account add robot@demo.test --type SYSTEM --no-login));
logs_in("--no-login: not with '$_'", $_ eq '' ? 400 : 401, robot => $_) for '', 'x';

# Does the terminal echo that script(1) made, which is this process?
sub echoes ($pid) {
    open my $fh, '<', "/proc/$pid/task/$pid/children" or return 1;
    my ($child) = split ' ', <$fh> // '';
    my $terminal = readlink '/proc/' . ($child // return 1) . '/fd/0';
    return `stty -F @{[ $terminal // return 1 ]} -a 2>&1` !~ /-echo\b/;
}

# A prompt, where standard input is a terminal; script(1) makes one.  Lines are typed
# when they are asked for; then => what is to happen once the first one is typed.
sub typed ($cmd, $then, @lines) {
    my $name = 'typed' . ++$t->{typed};
    my $env = $t->identity_env(%env);
    local @ENV{ 'SHELL', keys %$env } = ('/bin/sh', values %$env);
    my $pid = open my $write, '|-', 'sh', '-c', 'exec script -qfec "$0" "$1" >"$1.log" 2>&1',
        $cmd, $t->dir . "/$name" or die "script: $!\n";
    $write->autoflush(1);
    my $shown = sub { $t->read_file($name) // '' };
    for my $n (0 .. $#lines) {
        my $prompts = $then ? $n : $n + 1;
        eventually(sub { $prompts <= (() = $shown->() =~ /: /g) });
        # Echo is off a moment after the prompt.
        eventually(sub { !echoes($pid) }) if $prompts;
        print {$write} $lines[$n];
        $then->($shown) if $then && $n == 0;
    }
    eventually(sub { waitpid $pid, WNOHANG }) or kill KILL => $pid;
    my $status = $? >> 8;
    close $write;
    return ($status, $shown->());
}

# All of it is there before the shell reads its first line.
sub pasted ($block, @answers) {
    my $go = $t->dir . '/go' . $t->{typed};
    return typed("until [ -e $go ]; do sleep 0.1; done; exec sh -i", sub ($shown) {
        eventually(sub { $shown->() =~ /unfinished/ });    # its echo
        $t->write_file($go =~ s{.*/}{}r, '');
    }, "$block\nunfinished", @answers);
}

SKIP: {
    skip 'script(1) is not here', 9 if system('script -V >/dev/null 2>&1');
    my $command = Platform::Test::Env::identity() . ' account';
    my $set = "$command set-credential typed\@demo.test";
    my ($status, $shown) = typed("$command add typed\@demo.test", undef, ("$first\n") x 2);
    like "$status $shown", qr/\A0 .*Credential: \s*Once more: /s, 'a credential typed twice';
    unlike $shown, qr/f1rst/, 'no echo';
    logs_in('and it is the one', 200, typed => $first);
    ($status, $shown) = typed($set, undef, "one\n", "two\n");
    like "$status $shown", qr/\A1 .*the two entries differ/s, 'two that differ';
    isnt +(typed($set, undef, "\x03"))[0], 0, 'Ctrl-C ends it';
    logs_in('and all stays as it was', 200, typed => $first);

    # A block of commands, pasted into a shell without bracketed paste: what
    # follows the one that asks is the shell's, to its last unfinished line.
    (undef, $shown) = pasted("$set\necho n''ext; exit");
    like $shown, qr/no credential: lines were pasted after the command.*^[#\$] next\r?$/ms,
        'commands that are pasted along are no credential: the shell runs them';
    (undef, $shown) = pasted($set, "$first\n", "$first\nexit\n");
    unlike $shown, qr/not the same|no credential/, 'the beginning of a line';
    logs_in('is no part of it', 200, typed => $first);
}

# Disable and enable, and a new credential.  Each: words, event, and of its result the
# members and values.

sub changes ($words, $event, %want) {
    my $got = $c->audited([ $event ? "account.$event" : () ],
        { stdin => delete $want{stdin} // '' }, 'account', @$words);
    is_deeply { map { $_ => $got->{$_} } keys %want }, \%want, "account @$words";
}

my ($yes, $no) = (JSON::PP::true(), JSON::PP::false());
changes([ disable => $ANN ], 'disabled', status => 'DISABLED', revokedSessions => 1);
my ($line) = @{ $c->{audit} };
is_deeply [ $line->{accountId}, ($line->{account} // '') =~ /(ann)/ ], [ $ann->{accountId} ],
    'by id, not by name';
changes([ disable => $ann->{accountId} ], undef, changed => $no);
changes([ enable => $ANN ], 'enabled', changed => $yes);
changes([ enable => $ANN ], undef, changed => $no);
is refresh($session)->status, 401, 'what was revoked stays revoked';
logs_in('a login works again', 200, ann => $first);
$c->refused(1, qr/no account called "nobody"/, 'account', $_, 'nobody')
    for qw(disable enable unlock sessions revoke-sessions);
$c->refused(1, qr/no account with the id/, qw(account disable), uuid(77));
changes([ 'set-credential' => $ANN ], 'credential_set', stdin => "$second_bytes\n",
    revokedSessions => 1);
logs_in('the old one is gone', 401, ann => $first);

# Sessions.

my @sessions = map { logs_in("the new one, $_", 200, ann => $second) } 1 .. 3;
my $list = $c->done(qw(account sessions), $ANN);
is_deeply [ map { @$_{qw(status branchName workspaceName revokedAt)} } @$list ],
    [ ('ACTIVE', 'Main', 'Shop', undef) x 3 ], 'account sessions: the usable ones and their scope';
like $list->[0]{createdAt}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/, 'times';
my $one = session_of($sessions[2]);
changes([ 'revoke-sessions', $ANN, '--session', $one ], 'sessions_revoked', revokedSessions => 1);
is_deeply [ map { refresh($sessions[$_])->status } 2, 1 ], [ 401, 200 ], 'that one, no other';
$c->refused(1, qr/no active session with this id/, qw(account revoke-sessions), @$_)
    for [ $ANN, '--session', $one ], [ 'crlf@demo.test', '--session', $list->[2]{sessionId} ];
changes([ 'revoke-sessions', $ANN ], 'sessions_revoked', revokedSessions => 2);
is_deeply [ map { scalar grep { $_->{status} eq 'REVOKED' && $_->{revokedAt} }
    @{ $c->done(qw(account sessions), @$_, $ANN) } } [], ['--all'], [qw(--all --limit 2)] ],
    [ 0, 5, 2 ], 'none is left; --all: all are revoked; --limit';
my ($status, $out) = $c->run(qw(account sessions --all), $ANN);
like $out, qr/\Asession {31}status    created.*\n(?:.*\n){5}\z/, 'a table: a head and five lines';

# Unlock.

logs_in('failure', 401, $_ => 'wrong') for ('ann', 'long') x 3;
logs_in('locked', 429, ann => $second);
changes([ unlock => ' ANN@demo.test' ], 'unlocked', clearedAddresses => 1);
logs_in('unlocked', 200, ann => $second);
logs_in('and nobody else', 429, long => $long);
changes([ unlock => $ANN ], 'unlocked', clearedAddresses => 0);
$pg->sql("update login_attempts set failures = 30
    where account_hmac = '' and address = '127.0.0.1'");
my @unlock = qw(account unlock crlf@demo.test);
$c->done(@unlock);
logs_in('the address is locked, an account alone does not help', 429, crlf => 'crlf-end');
ok $c->done(@unlock, qw(--address 127.0.0.1))->{clearedAddressTotal}, '--address';
logs_in('unlocked', 200, crlf => 'crlf-end');
my %no_keys = map { ("PLATFORM_JWT_$_" => undef) } qw(KEY_ID PRIVATE_KEY_BASE64 PUBLIC_KEY_BASE64);
$c->refused(2, qr/no signing key|PLATFORM_JWT_\w+: /, { env => \%no_keys }, @unlock);

# System tokens.

my $asked = int time;
my $system = $c->audited(['token.system_issued'], qw(token system --ttl 5m --account),
    $robot->{accountId});
($header, $claims) = jwt_decode($system->{token});
is_deeply $header, { alg => 'RS256', typ => 'JWT', kid => 'identity' }, 'its header';
is_deeply $claims, { %$claims{qw(iss iat exp session_id typ)},
    jti => $c->{audit}[0]{tokenId}, account_type => 'SYSTEM', token_type => 'system',
    token_scope => 'SYSTEM', map { $_ => $robot->{accountId} } qw(sub account_id) },
    'its claims, and no other; the audit line names it';
ok $claims->{iat} >= $asked && $claims->{iat} + 300 <= $claims->{exp} && $claims->{exp} <= time + 300,
    'for five minutes from when it was signed';
my @robot = qw(token system --ttl 1h --account robot@demo.test);
(undef, $out) = $c->run(@robot);
like $out, qr/\A[\w-]+\.[\w-]+\.[\w-]+\n\z/, 'the token alone for a script';
$c->done(qw(account disable robot@demo.test));
$c->refused(1, qr/account is disabled; run account enable/, @robot);
$c->refused(1, qr/no account/, qw(token system --ttl 5m --account), uuid(7));

# Inspection.

$session = logs_in('in the branch', 200, ann => $second);
my $token = $session->{accessToken};
my $key = jwt_key('identity');
for my $case (
    [ undef, 'valid', $token ], [ undef, 'valid', "Bearer $token" ],
    [ undef, 'valid', $session->{refreshToken} ],
    [ 'token_signature', 'invalid', jwt_tamper($token, 2) ],
    [ 'kid_unknown', 'unchecked', jwt_token('branch', jwt_key('other')) ],
    [ 'token_expired', 'valid', jwt_token('branch', $key, iat => time - 900, exp => time - 60) ],
) {
    my ($reason, $signature, $given) = @$case;
    my ($status, $out, $err) = $c->run({ stdin => "$given\n" }, qw(token inspect --json));
    my $seen = JSON::PP->new->utf8->decode($out);
    is_deeply [ $status, @$seen{qw(verifies reason signature)} ],
        [ $reason ? (1, $no) : (0, $yes), $reason, $signature ], $reason // 'a token that verifies';
    $given =~ s/Bearer //;
    is_deeply [ @$seen{qw(header claims)} ], [ jwt_decode($given) ], 'what it holds';
    like $err, $reason ? qr/\A\{"code":"REQUEST_INVALID","detail":"The token does not verify: [^\n]+\}\n\z/ : qr/\A\z/,
        'one line';
    is index("$out$err", $given =~ s/.*[.]//r), -1, 'no signature is shown';
}
$c->refused(1, qr/not a token: it is not three parts/, { stdin => $_ }, qw(token inspect))
    for 'x', 'a.b.c', 'e30.e30';
(undef, $out) = $c->run({ stdin => $token }, qw(token inspect));
like $out, qr/^verifies       yes\n.*^active_branch_id \Q$main->{branchId}\E$/ms, 'for people';
(undef, $out) = $c->run({ stdin => jwt_token('branch', $key,
    sub => "\x1b[2J", "a\x1b[2J" => 1, member => JSON::PP::true) }, qw(token inspect));
unlike $out, qr/\x1b/, 'a token does not steer the terminal';
like $out, qr/^member +true$/m, 'control: what else it says';
utf8::encode(my $odd = "\x{9b}31m\x{202e}\x{2028}\x{e9}");
my (undef, undef, $err) = $c->run(qw(workspace deactivate), $odd);
is $err, qq(identity-fcgi: there is no workspace called "?31m??\xc3\xa9"\n),
    'nor does an error, which keeps other characters';

# Nothing of a credential reached a log.

for my $log ('postgres.log', 'identity.log') {
    my $text = $t->read_file($log);
    like $text, qr/\Q$ann->{accountId}\E/, "$log has what happened";
    unlike $text, qr/\Q$_\E/, "$log: no credential" for $first, $second_bytes;
}

$t->done;
