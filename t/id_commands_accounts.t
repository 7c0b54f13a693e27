# The operator's commands, seen from a client: from an empty database to a
# login over HTTP, and what disabling, unlocking and the like do to it.

use Platform::Test;
use Platform::Test::Commands;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my $pg = $t->postgres(empty => 1, settings => { log_statement => 'all' });
my %env = (
    PLATFORM_DB_SEED_ON_START  => 'false',
    PLATFORM_AUTH_MAX_FAILURES => 3,
    PLATFORM_AUTH_COOKIE_SECURE => 'false',
);
my $c = Platform::Test::Commands->new(test => $t, env => \%env);
my $first = $c->secret('f1rst cr3dential');
my $second = "s3cond \xe9 \"cr\\edential";
utf8::encode(my $second_bytes = $second);
$c->secret($second_bytes);

# From nothing.

$c->done('migrate');
my $shop = $c->done(qw(workspace add Shop --new-tenant Acme));
my $main = $c->done(qw(branch add Main --workspace Shop));
my $ann = $c->done({ stdin => "$first\n" }, qw(account add ann@example.com));
is_deeply [ @$ann{qw(account type status)} ],
    [ 'ann@example.com', 'CUSTOMER', 'ACTIVE' ], 'account add';
is_deeply $c->events, ['account.added'], 'audited';
my $member = $c->done(qw(member add --account ann@example.com --workspace Shop));
$c->done(qw(member grant --account ann@example.com --branch Main --role MANAGER --role CASHIER));

my $identity = $t->identity_face(%env);
my $port = $t->port('identity');

sub post ($path, $json) {
    return http_post($port, "/api/auth/$path", json => $json);
}

sub login { return post(login => { account => $_[0], credential => $_[1] }) }

sub refresh { return post(refresh => { refreshToken => $_[0]->json->{refreshToken} }) }

sub logged_in ($name, @login) {
    my $res = login(@login);
    is $res->status, 200, $name or diag $res->body;
    return $res;
}

my $session = logged_in('a login', 'ann@example.com', $first);
my ($header, $claims) = jwt_decode($session->json->{accessToken});
is_deeply [ @$claims{qw(account_id account_type workspace_id tenant_id
    member_id active_branch_id)} ],
    [ @$ann{qw(accountId type)}, @$shop{qw(workspaceId tenantId)},
        $member->{memberId}, $main->{branchId} ], 'with all that was made';
is_deeply [ @$claims{qw(branch_ids roles)} ],
    [ [ $main->{branchId} ], [ 'CASHIER', 'MANAGER' ] ], 'and granted';

# Credentials: what can be one, and how it comes.

my $long = $c->secret('x' x 1024);
$c->done({ stdin => $long }, qw(account add long));
logged_in('1024 bytes, no line end', long => $long);
my $odd = join '', map { chr(1 + $_ % 9) } 1 .. 1024;
$c->done({ stdin => $odd }, qw(account add odd));
logged_in('any ASCII', odd => $odd);
# Not too short, in characters; and none that everybody tries first.
my $forbidden = $t->write_file('forbidden', "Password1\n"
    . 'x' x 1026 . "letmein-now\n\nTr0ub4dor&3\r\nqwertyuiop");
my %min = (PLATFORM_AUTH_CREDENTIAL_MIN => 4, PLATFORM_AUTH_CREDENTIAL_FORBIDDEN => $forbidden);
my $LIST = 'PLATFORM_AUTH_CREDENTIAL_FORBIDDEN';
for my $case (
    [ qr/at most 1024 bytes/, "${long}y" ], [ qr/standard input is over/, "${long}yyyy" ],
    [ qr/nothing was given on standard input/, '' ], [ qr/nothing was given/, "\n" ],
    [ qr/more than one line/, "a\nb\n" ],
    (map { [ qr/UTF-8 without NUL/, $_ ] } "a\xff", "a\0b"),
    (map { [ qr/at least 8 characters/, $_ ] } "seven\xc3\xa9\xc3\xa9\n", 'x'),
    [ qr/at least 4 characters/, 'abc', \%min ],
    (map { [ qr/one that $LIST lists/, $_, \%min ] }
        qw(Password1 pASSWORD1 tr0ub4dor&3 QWERTYUIOP)),
    (map { [ qr/CREDENTIAL_FORBIDDEN: cannot read .*: $_->[1]/, $first, { $LIST => $_->[0] } ] }
        [ '/nonexistent/list', 'No such file' ], [ $t->dir, 'Is a directory' ],
        [ '/dev/null', 'Invalid argument' ]),
    [ qr/at least 8 characters/, 'x', {}, qw(account set-credential ann@example.com) ],
    [ qr/of this name exists already/, $first, {}, 'account', 'add', ' ANN@example.com ' ],
    [ qr/cannot be a UUID/, $first, {}, qw(account add), uuid() ],
    [ qr/no account called "nobody"/, $first, {}, qw(account set-credential nobody) ],
) {
    my ($why, $stdin, $env, @words) = @$case;
    $c->refused(1, $why, { stdin => $stdin, env => $env // {} }, @words ? @words : qw(account add new));
}
is $pg->sql('select count(*) from accounts'), 3, 'none of these made one';
$c->done({ stdin => $_, env => \%min }, qw(account add), "ok $_")
    for 'four', 'password12', 'letmein-now', 'Password1 2';
$c->done({ stdin => "crlf-end\r\n" }, qw(account add crlf --type OPERATOR));
(undef, $claims) = jwt_decode(
    logged_in('CR LF is a line end', crlf => 'crlf-end')
        ->json->{accountAccessToken});
is $claims->{account_type}, 'OPERATOR', '--type';
my $robot = $c->done(qw(account add robot --type SYSTEM --no-login));
is login('robot', '')->status, 400, '--no-login: no credential';
is login('robot', 'x')->status, 401, '--no-login: nor any other';

# Does the terminal echo that script(1) made, which is this process?
sub echoes ($pid) {
    open my $fh, '<', "/proc/$pid/task/$pid/children" or return 1;
    my ($child) = split ' ', <$fh> // '';
    my $terminal = readlink '/proc/' . ($child // return 1) . '/fd/0';
    return `stty -F @{[ $terminal // return 1 ]} -a 2>&1` !~ /-echo\b/;
}

# A prompt, where standard input is a terminal; script(1) makes one.

sub typed ($args, @lines) {
    my %o = ref $args eq 'HASH' ? %$args : ();
    my $out = $t->dir . '/typed' . ++$t->{typed};
    my $cmd = $o{cmd} // join ' ', map {"'$_'"} Platform::Test::Env::identity(), @$args;
    pipe my $read, my $write or die "pipe: $!";
    my $p = Platform::Test::Process->start(
        name => 'typed', dir => $t->dir, log => "$out.log",
        env => { %{ $t->identity_env(%env) }, SHELL => '/bin/sh' },
        code => sub {
            close $write;
            open STDIN, '<&', $read or die "stdin: $!";
            exec 'script', '-qfec', $cmd, $out;
        })->expect_end;
    close $read;
    $write->autoflush(1);
    my $shown = sub {
        open my $fh, '<', $out or return '';
        local $/;
        return scalar(<$fh>) // '';
    };
    for my $n (0 .. $#lines) {
        my $prompts = $o{then} ? $n : $n + 1;
        eventually(sub { my @asked = $shown->() =~ /: /g; @asked >= $prompts });
        # Echo is off a moment after the prompt.
        eventually(sub { !echoes($p->pid) }) if $prompts;
        print {$write} $lines[$n];
        $o{then}->($shown) if $o{then} && $n == 0;
    }
    $p->wait_end(60 * $t->scale) or $p->stop('KILL');
    close $write;
    return ($p->status, $shown->());
}

# All of it is there before the shell reads its first line.
sub pasted {
    my ($block, @answers) = @_;

    my $go = $t->dir . '/go' . $t->{typed};
    my ($last) = $block =~ /(\w+)\n?\z/;
    return typed({ cmd => "until [ -e $go ]; do sleep 0.1; done; exec sh -i",
        then => sub ($shown) {
            eventually(sub { $shown->() =~ /\Q$last\E/ });    # its echo
            $t->write_file($go =~ s{.*/}{}r, '');
        } }, $block, @answers);
}

SKIP: {
    skip 'script(1) is not here', 15 if system('script -V >/dev/null 2>&1');
    my ($status, $shown) = typed([qw(account add typed)], "$first\n", "$first\n");
    is $status >> 8, 0, 'a credential typed twice' or diag $shown;
    like $shown, qr/Credential: \s*Once more: /, 'two prompts';
    unlike $shown, qr/f1rst/, 'no echo';
    logged_in('and it is the one', typed => $first);
    ($status, $shown) = typed([qw(account set-credential typed)], "one\n", "two\n");
    is $status >> 8, 1, 'two that differ';
    like $shown, qr/the two entries differ/, 'say so';
    ($status, $shown) = typed([qw(account set-credential typed)], "\x03");
    isnt $status, 0, 'Ctrl-C ends it';
    logged_in('and all stays as it was', typed => $first);

    # A block of commands, pasted into a shell without bracketed paste: what
    # follows the one that asks is the shell's, to its last unfinished line.
    my $identity = Platform::Test::Env::identity();
    ($status, $shown) = pasted("$identity account set-credential typed\n"
        . "echo n''ext; exit\nunfinished");
    like $shown, qr/no credential: lines were pasted after the command/,
        'commands that are pasted along are no credential';
    like $shown, qr/^[#\$] next\r?$/m, 'the shell runs them';
    logged_in('and the old one stays', typed => $first);
    (undef, $shown) = pasted("$identity account set-credential typed\nunfinished",
        "$first\n", "$first\nexit\n");
    unlike $shown, qr/not the same|no credential/, 'the beginning of a line';
    logged_in('is no part of it', typed => $first);
}

# Disable and enable, and a new credential.  Each: what it is, its result's member
# and value, its event.

my $ANN = 'ann@example.com';
my $res;

sub ended ($session, $name) {
    return is_problem(refresh($session), 401, 'AUTH_SESSION_NOT_ACTIVE', $name);
}

sub changes ($words, $event, %want) {
    my %o = (stdin => delete $want{stdin} // '');
    my $got = $c->done(\%o, 'account', @$words);
    is_deeply { map { $_ => $got->{$_} } keys %want }, \%want, "account @$words";
    is_deeply $c->events, [ $event ? "account.$event" : () ],
        $event ? 'audited' : 'and not audited';
}

my ($yes, $no) = (JSON::PP::true(), JSON::PP::false());
changes([ disable => $ANN ], 'disabled', status => 'DISABLED', revokedSessions => 1);
is $c->{audit}[0]{accountId}, $ann->{accountId}, 'by id';
unlike $c->{audit}[0]{account} // '', qr/ann/, 'not by name';
ended($session, 'a refresh');
is login($ANN, $first)->status, 401, 'no login';
changes([ disable => $ann->{accountId} ], undef, changed => $no);
changes([ enable => $ANN ], 'enabled', changed => $yes);
changes([ enable => $ANN ], undef, changed => $no);
ended($session, 'what was revoked stays revoked');
$session = logged_in('a login works again', $ANN, $first);
$c->refused(1, qr/no account called "nobody"/, 'account', $_, 'nobody')
    for qw(disable enable unlock sessions revoke-sessions);
$c->refused(1, qr/no account with the id/, qw(account disable), uuid(77));

changes([ 'set-credential' => $ANN ], 'credential_set', stdin => "$second_bytes\n",
    revokedSessions => 1);
ended($session, 'a new credential');
is login($ANN, $first)->status, 401, 'the old one is gone';
my @sessions = map { logged_in("the new one, $_", $ANN, $second) } 1 .. 3;

# Sessions.

my $list = $c->done(qw(account sessions ann@example.com));
is scalar @$list, 3, 'account sessions: the usable ones';
is_deeply [ @{ $list->[0] }{qw(status branchName workspaceName revokedAt)} ],
    [ 'ACTIVE', 'Main', 'Shop', undef ], 'with their scope';
like $list->[0]{createdAt}, qr/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/, 'times';
(undef, $claims) = jwt_decode($sessions[2]->json->{refreshToken});
my $one = $claims->{session_id};
changes([ 'revoke-sessions', $ANN, '--session', $one ], 'sessions_revoked', revokedSessions => 1);
ended($sessions[2], 'that one');
is refresh($sessions[1])->status, 200, 'the other is not';
$c->refused(1, qr/no active session with this id/,
    qw(account revoke-sessions ann@example.com --session), $one);
$c->refused(1, qr/no active session with this id/,
    qw(account revoke-sessions crlf --session), $list->[2]{sessionId});
is $c->done(qw(account revoke-sessions ann@example.com))->{revokedSessions},
    2, 'account revoke-sessions';
is_deeply $c->done(qw(account sessions ann@example.com)), [], 'none is left';
$list = $c->done(qw(account sessions ann@example.com --all));
is scalar @$list, 5, '--all';
is scalar(grep { $_->{status} eq 'REVOKED' && $_->{revokedAt} } @$list), 5, 'all revoked';
is scalar @{ $c->done(qw(account sessions ann@example.com --all --limit 2)) }, 2, '--limit';
my ($status, $out) = $c->run(qw(account sessions ann@example.com --all));
is scalar(split /\n/, $out), 6, 'a table: a head and five lines';
like $out, qr/\Asession {31}status    created/, 'its columns';

# Unlock.

is login('ann@example.com', 'wrong')->status, 401, 'failure' for 1 .. 3;
is login('ann@example.com', $second)->status, 429, 'locked';
is login('long', 'wrong')->status, 401, 'another' for 1 .. 3;
is login('long', $long)->status, 429, 'locked too';
is $c->done(qw(account unlock), ' ANN@example.com')->{clearedAddresses}, 1, 'account unlock';
is_deeply $c->events, ['account.unlocked'], 'audited';
logged_in('unlocked', 'ann@example.com', $second);
is login('long', $long)->status, 429, 'and nobody else';
is $c->done(qw(account unlock ann@example.com))->{clearedAddresses}, 0, 'nothing to unlock';
$pg->sql("update login_attempts set failures = 30
    where account_hmac = '' and address = '127.0.0.1'");
is login('crlf', 'crlf')->status, 429, 'the address is locked';
$c->done(qw(account unlock crlf));
is login('crlf', 'crlf')->status, 429, 'an account alone does not help';
ok $c->done(qw(account unlock crlf --address 127.0.0.1))->{clearedAddressTotal}, '--address';
logged_in('unlocked', crlf => 'crlf-end');
$c->refused(2, qr/no signing key|PLATFORM_JWT_\w+: /, { env => {
    map { ("PLATFORM_JWT_$_" => undef) }
        qw(KEY_ID PRIVATE_KEY_BASE64 PUBLIC_KEY_BASE64) } },
    qw(account unlock crlf));

# Branches, workspaces and memberships, as a session sees them.

$session = logged_in('in the branch', 'ann@example.com', $second);
for my $change ([ [qw(branch deactivate Main)], [qw(branch activate Main)] ],
    [ [qw(workspace deactivate Shop)], [qw(workspace activate Shop)] ],
    [ [qw(member revoke --account ann@example.com --branch Main)],
        [qw(member grant --account ann@example.com --branch Main)] ],
    [ [qw(member revoke --account ann@example.com --workspace Shop --all)],
        [qw(member add --account ann@example.com --workspace Shop)] ])
{
    my ($away, $back) = @$change;
    $session = logged_in('scoped', 'ann@example.com', $second);
    is $session->json->{nextAction}{type}, 'load_current_context', 'scoped';
    $c->done(@$away);
    $res = refresh($session);
    is_deeply [ $res->status, $res->json->{branches},
        $res->json->{nextAction}{type} ], [ 200, [], 'select_branch' ],
        "@$away[0, 1]: the scope is lost";
    $c->done(@$back);
}

# System tokens.

my $system = $c->done(qw(token system --account), $robot->{accountId}, qw(--ttl 5m));
is_deeply $c->events, ['token.system_issued'], 'token system: audited';
(my $head, $claims) = jwt_decode($system->{token});
is_deeply $head,
    { alg => 'RS256', typ => 'JWT', kid => jwt_key('identity')->kid },
    'its header';
is_deeply [ sort keys %$claims ], [ sort qw(iss sub iat exp jti account_id
    session_id account_type typ token_type token_scope) ], 'its claims';
is_deeply [ @$claims{qw(sub account_id account_type token_type
    token_scope)} ], [ ($robot->{accountId}) x 2,
        qw(SYSTEM system SYSTEM) ], 'their values';
is $claims->{exp} - $claims->{iat}, 300, '--ttl';
is $c->{audit}[0]{tokenId}, $claims->{jti}, 'the audit line names it';
(undef, $out) = $c->run(qw(token system --account robot --ttl 1h));
like $out, qr/\A[\w-]+\.[\w-]+\.[\w-]+\n\z/, 'the token alone for a script';
$c->done(qw(account disable robot));
$c->refused(1, qr/account is disabled; run account enable/,
    qw(token system --account robot --ttl 5m));
$c->refused(1, qr/no account/, qw(token system --ttl 5m --account), uuid(7));

# Inspection.

sub inspect ($token) {
    my ($status, $out, $err) = $c->run({ stdin => "$token\n" }, qw(token inspect --json));
    my $signature = (split /[.]/, $token)[2] // 'none';
    unlike $out . $err, qr/\Q$signature\E/, 'no signature is shown';
    return ($status, eval { JSON::PP->new->utf8->decode($out) }, $err);
}

my $token = $session->json->{accessToken};
($status, my $seen) = inspect($token);
is $status, 0, 'a token that verifies: exit 0';
ok $seen->{verifies}, 'says so';
is_deeply $seen->{claims}, (jwt_decode($token))[1], 'its claims';
is_deeply $seen->{header}, (jwt_decode($token))[0], 'its header';
($status) = inspect("Bearer $token");
is $status, 0, 'as a header has it';
($status) = inspect($session->json->{refreshToken});
is $status, 0, 'a refresh token';
my $key = jwt_key('identity');
for my $bad (
    [ 'token_signature', 'invalid', jwt_tamper($token, 2) ],
    [ 'kid_unknown', 'unchecked', jwt_token('branch', jwt_key('other')) ],
    [ 'token_expired', 'valid',
        jwt_token('branch', $key, iat => int(time) - 900, exp => int(time) - 60) ],
    [ 'token_issuer', 'valid', jwt_token('branch', $key, iss => 'x') ],
    [ 'token_claims', 'valid', jwt_token('branch', $key, roles => undef) ],
    )
{
    my ($reason, $signature, $bad_token) = @$bad;
    ($status, $seen, my $err) = inspect($bad_token);
    is $status, 1, "$reason: exit 1";
    is_deeply [ @$seen{qw(verifies reason signature)} ],
        [ JSON::PP::false(), $reason, $signature ], "$reason: says so";
    like $err, qr/\Aidentity-fcgi: the token does not verify: [^\n]+\n\z/, "$reason: one line";
}
$c->refused(1, qr/not a token: it is not three parts/, { stdin => $_ }, qw(token inspect))
    for 'x', 'a.b.c', 'e30.e30';
($status, $out) = $c->run({ stdin => $token }, qw(token inspect));
like $out, qr/^verifies       yes$/m, 'for people';
like $out, qr/^active_branch_id \Q$main->{branchId}\E$/m, 'claim by claim';
($status, $out) = $c->run({ stdin => jwt_token('branch', $key,
    sub => "\x1b[2J", "a\x1b[2J" => 1) }, qw(token inspect));
unlike $out, qr/\x1b/, 'a token does not steer the terminal';

# A login races the operator: no session outlives the revocation unseen.

my @racers = map {
    my $n = $_;
    Platform::Test::Process->start(
        name => "race$n", dir => $t->dir, log => $t->dir . "/race$n.out",
        code => sub {
            $| = 1;
            my $s;    # may have to wait for a hash slot
            eventually(sub {
                $s = login('ann@example.com', $second);
                return $s->status != 503;
            });
            until (-e $t->dir . '/enough') {
                $s = refresh($s);
                print $s->status, "\n";
                last if $s->status != 200;
            }
        });
} 1 .. 4;
ok eventually(sub { !grep { !-s $t->dir . "/race$_.out" } 1 .. 4 }), 'four clients refresh';
$c->done(qw(account disable ann@example.com));
$_->wait_end(60 * $t->scale) for @racers;
$t->write_file('enough', '');
is $t->read_file("race$_.out") =~ s/.*\n(?=.)//sr, "401\n",
    'a client that refreshes is out' for 1 .. 4;
is $pg->sql("select count(*) from auth_sessions s join accounts a
    using (account_id) where a.status = 'DISABLED' and s.status = 'ACTIVE'"),
    0, 'no session is left';

# Nothing of a credential reached a log.

for my $log ('postgres.log', 'identity.log') {
    my $text = $t->read_file($log);
    like $text, qr/\Q$ann->{accountId}\E/, "$log has what happened";
    unlike $text, qr/\Q$_\E/, "$log: no credential" for $first, $second_bytes;
}

$t->done;
