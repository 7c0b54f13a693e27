# A person's own change of credential: with the current one, counted like logins; all
# other sessions end, and the old one opens none.  What can be one: check_change_credential.

use Platform::Test;
use Platform::Test::Client;

my $t = Platform::Test->new;
my $forbidden = $t->write_file('forbidden', "letmein-now\nPassword1\n");
my $s = $t->full_stack(env => { PLATFORM_AUTH_CREDENTIAL_FORBIDDEN => $forbidden,
    PLATFORM_AUTH_MAX_FAILURES => 3, PLATFORM_LOGIN_RATE_LIMIT => '1000r/s burst 1000',
    PLATFORM_REFRESH_RATE_LIMIT => 'off', PLATFORM_TRUSTED_PROXIES => '127.0.0.1' });
my ($gateway, $face, $pg) = ($s->gateway, $t->port('identity'), $s->postgres);
my $OLD = $Platform::Test::Client::CREDENTIAL;
my $NEW = "N\x{e9}w-passw0rd \x{1f511}";
my $SEVERAL = "account_name = 'several\@demo.test'";
my $CHANGE = '/api/auth/change-credential';
client_of($t, $gateway);

# Of an address, as the proxy on this host names it.
sub from { return (headers => [ 'X-Forwarded-For' => $_[0] // '198.51.100.1' ]) }

sub session { return logged_in($_[0], from()) }

sub token { return $_[0]{accessToken} // $_[0]{accountAccessToken} }

# What a change is asked with.
sub asked ($session, $current, $new, %o) {
    return (token => $o{token} // token($session), from($o{from}),
        json => $o{json} // { credential => $current, newCredential => $new });
}

sub change ($session, $current, $new, %o) {
    return http_post($o{port} // $gateway, $CHANGE, asked($session, $current, $new, %o));
}

# The answer to one that waits for this transaction while $do is done.
sub waits_for ($transaction, $session, $do = sub { }) {
    my %asked = asked($session, $OLD, $NEW);
    my $client = sent('change-credential', delete $asked{json}, %asked);
    ok $pg->waiting(1), 'a change waits';
    $do->();
    ok $pg->end($transaction, 'commit'), 'it goes on';
    return $client->read_response;
}

# Which of these sessions can be refreshed; and they are.
sub alive {
    return [ map {
        my $res = refresh($_);
        %$_ = %{ $res->json } if $res->status == 200;
        $res->status == 200 ? 1 : 0;
    } @_ ];
}

# The log since it was so long.
sub logged { return substr $s->identity->log_text, $_[0] }
sub log_size { return length $s->identity->log_text }

# -- it works, with a token of either kind

for my $account (qw(several one)) {
    my @own = map { session($account) } 1 .. 3;
    my $stranger = session('two-workspaces');
    my $feed = '/internal/revocations';
    my $cursor = http_get($face, $feed)->json->{cursor};
    my $log = log_size();
    my $res = change($own[1], $OLD, $NEW);
    is_deeply [ $res->status, $res->header('Cache-Control'), $res->json ], [ 200, 'no-store',
        { code => 'AUTH_CHANGE_CREDENTIAL_SUCCESS', message => $res->json->{message},
        endedSessions => 2 } ], "$account: changed, and how many sessions it ended";
    like logged($log), qr/"event":"auth\.credential\.changed".*"revokedSessions":2/, 'audited';
    my $told = http_get($face, "$feed?after=$cursor")->json->{revocations};
    is_deeply [ sort map { $_->{id} // 'all' } @$told ],
        [ sort map { session_of($_) } @own[ 0, 2 ] ], 'gateways are told of the others';
    is http_get($gateway, '/api/auth/sessions', token => token($own[1]))->status, 200,
        "the caller's token goes on";
    is $pg->sql("select count(*) from auth_sessions s, accounts a
        where a.account_name = '$account\@demo.test' and s.xmin = a.xmin"), 2,
        'which ended as the credential changed, by one transaction';
    is_deeply alive(@own, $stranger), [ 0, 1, 0, 1 ], "and its session, and another account's";
    is_deeply [ login($account, from())->code, login($account, from(), credential => $NEW)->status,
        change($own[1], $NEW, $OLD)->status ], [ 'AUTH_INVALID_CREDENTIALS', 200, 200 ],
        'the old one is refused, the new one is not, and back';
}

# -- what is refused

my $own = session('several');
my $other = session('several');
my $hash = "select credential_hash from accounts where $SEVERAL";
my $before = $pg->sql($hash);
is_problem(change($own, $OLD, 'PASSWORD1'), 400, 'AUTH_CREDENTIAL_NOT_ALLOWED',
    'a new one that is not allowed');
$t->allow(qr/CREDENTIAL_FORBIDDEN cannot be read: No such file or directory"/);
rename $forbidden, "$forbidden.away" or die "$forbidden: $!\n";
is_problem(change($own, $OLD, $NEW), 500, 'INTERNAL_ERROR',
    'no list: nobody knows what is forbidden');
rename "$forbidden.away", $forbidden or die "$forbidden: $!\n";
my $claims = claims(token($own));
my @required = (401, 'AUTH_ACCESS_TOKEN_REQUIRED');
sub with_token ($token) { return change($own, $OLD, $NEW, port => $face, token => $token) }
is_problem(with_token($own->{refreshToken}), @required, 'a refresh token');
is_problem(http_post($face, $CHANGE, body => '{'), @required, 'the token comes before the body');
is $pg->sql($hash), $before, 'nothing was changed';
is_deeply alive($other), [1], 'and no session ended';

# -- counted like logins, and with them

my $limited = '198.51.100.7';
my $whose = qr/"accountId":"$claims->{sub}".*"sessionId":"@{[ session_of($own) ]}"/;
my @failed = (401, 'AUTH_INVALID_CREDENTIALS');
my @limited = (429, 'AUTH_TOO_MANY_ATTEMPTS');
sub tries ($current) { return change($own, $current, $NEW, from => $limited) }
for my $case (
    [ 'a wrong one', \@failed, sub { tries('wrong') }, 'failed' ],
    [ 'a login with a wrong one', \@failed,
        sub { login('several', from($limited), credential => 'wrong') } ],
    [ 'the third failure', \@failed, sub { tries('wrong') }, 'failed' ],
    [ 'even with the right one', \@limited, sub { tries($OLD) }, 'limited' ],
    [ 'nor a login', \@limited, sub { login('several', from($limited)) } ],
) {
    my ($name, $want, $sub, $event) = @$case;
    my $log = log_size();
    my $res = $sub->();
    is_problem($res, @$want, $name);
    cmp_ok $res->header('Retry-After'), '>', 0, 'which says when' if $want == \@limited;
    like logged($log), qr/"event":"auth\.credential\.$event".*$whose/, 'audited' if $event;
}
is $pg->sql($hash), $before, 'nothing was changed';
is_deeply [ change($own, $OLD, $NEW)->status,
    change($own, $NEW, $OLD, from => '198.51.100.8')->status ], [ 200, 200 ],
    'from elsewhere it works, and back';
is $pg->sql("select count(*) from login_attempts where address = '198.51.100.8'"), 0,
    'a success leaves no count';

($own, $other) = map { session('several') } 1, 2;

# What it was may be what it is to be: the others end all the same.
cmp_ok change($own, $OLD, $OLD)->json->{endedSessions}, '>=', 1, 'the same one again';
is_deeply alive($own, $other), [ 1, 0 ], 'the session goes on, another is over';

# -- a session that ends meanwhile changes nothing any more

$before = $pg->sql($hash);
for my $case (
    [ 'ended', sub ($id) { http($face, DELETE => "/api/auth/sessions/$id", token => token($own))
    } ],
    # As if it were the only one from before that.
    [ 'locked out', sub ($id) { $pg->sql("set session_replication_role = replica;
        update auth_sessions set created_at = created_at - interval '1 day'
            where session_id = '$id';
        update accounts set sessions_valid_after = now() - interval '1 hour'
            where $SEVERAL", user => 'postgres') } ],
    [ 'about to end', undef, sub ($id) { "update auth_sessions set status = 'REVOKED',
        revoked_at = clock_timestamp() where session_id = '$id'" } ],
) {
    my ($how, $end, $waits) = @$case;
    $other = session('several');
    my $late = waits_for($pg->begin($waits ? $waits->(session_of($other))
        : 'lock table login_attempts'), $other, sub { $end->(session_of($other)) if $end });
    is_problem($late, 401, 'AUTH_SESSION_NOT_ACTIVE', "$how meanwhile: in vain");
    is $pg->sql($hash), $before, 'nothing was changed';
    is_deeply alive($own), [1], 'and no session ended';
}
$pg->sql("update accounts set sessions_valid_after = '-infinity'");

# -- one that nobody waits for any more does nothing when its turn comes

restart($s->identity, DB_STATEMENT_TIMEOUT => '60s', REQUEST_TIMEOUT => '5s');
# Its start writes the demo accounts, and would wait for the row as well.
ok eventually(sub { http_get($face, '/readyz')->status == 200 }), 'it is ready';
$t->allow(qr/db\.error|connect\(\) to unix:.*revocations/);
my $row = $pg->begin("update accounts set updated_at = updated_at where $SEVERAL");
is_problem(change($own, $OLD, $NEW, port => $face), 503,
    'DATABASE_UNAVAILABLE', 'locked for too long');
my $waiting = "select count(*) from pg_stat_activity
    where usename = 'platform' and state = 'active' and wait_event_type = 'Lock'";
is $pg->sql($waiting, user => 'postgres'), 1, 'its write waits';
ok $pg->end($row, 'commit'), 'the row is let go';
ok eventually(sub { !$pg->sql($waiting, user => 'postgres') }), 'its write comes through';
is $pg->sql($hash), $before, 'and does nothing';
restart($s->identity, DB_STATEMENT_TIMEOUT => '10s', REQUEST_TIMEOUT => '40s');
is change($own, $OLD, $OLD)->status, 200, 'another one does';

# -- a login with the old one that comes at the same time

my $holder = $pg->begin("select 1 from accounts where $SEVERAL for share");
my $id = uuid();
is waits_for($holder, $own, sub {
    # As the login does it, which has locked the account's row before.
    $pg->more($holder, "insert into auth_sessions (session_id, account_id, jti, created_at,
        expires_at) select '$id', account_id, gen_random_uuid(), now(), now() + interval '1 day'
        from accounts where $SEVERAL");
})->status, 200, 'a session is opened with the old one, and the change goes on';
is $pg->sql("select status from auth_sessions where session_id = '$id'"), 'REVOKED', 'and ends it';
is change($own, $NEW, $OLD)->status, 200, 'and back';

# A credential that is set meanwhile wins; so does a disabled account.
my $one = "credential_hash = (select credential_hash from accounts
    where account_name = 'one\@demo.test')";
for my $case ([ $one, 200 ], [ "credential_hash = '\$argon2id\$v=19\$m=19456,t=2,p=1\$"
        . "c29tZXNhbHQ\$AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA'", 401 ],
    [ "status = 'DISABLED'", 401 ])
{
    my ($set, $status) = @$case;
    is waits_for($pg->begin("update accounts set $set where $SEVERAL"), $own)->status, $status,
        "after another change: $status";
    $pg->sql("update accounts set status = 'ACTIVE', $one where $SEVERAL");
}

unlike $s->identity->log_text, qr/eyJ|passw0rd|wrong/, 'no secret in the log';

$t->done;
