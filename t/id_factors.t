# Second factors: enrolment of TOTP, logins with a code or a recovery code, step-up, and
# whom a factor is demanded of; what refuses a code, a token, a session.

use Platform::Test;
use Platform::Test::Authenticator qw(totp);
use Platform::Test::Client;
use Platform::Test::Commands;

my $t = Platform::Test->new->allow(qr{auth\.factor\.unusable});
my $pg = $t->postgres;
my $KEY = 'one=' . 'QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=';
my %env = (PLATFORM_AUTH_FACTOR_KEYS => $KEY, PLATFORM_AUTH_HASH_CONCURRENCY => 2,
    PLATFORM_DB_LOCK_TIMEOUT => '20s');
my $c = Platform::Test::Commands->new(test => $t, env => { PLATFORM_LOG_LEVEL => 'error' });
my $identity = $t->identity_face(%env);
my $port = client_of($t);

is totp('GEZDGNBVGY3TQOJQGEZDGNBVGY3TQOJQ', 1), '287082', "RFC 6238's first vector";

# Forgets the steps that were used, so that the same code can be used again, and leaves
# time before the next step.
sub forget () {
    sleep 1 while time % 30 > 27;
    $pg->sql('update factors set last_step = 0');
    $pg->sql('delete from factor_failures');
}

sub access ($answer) { return $answer->{accessToken} // $answer->{accountAccessToken} }
sub factors ($token, $path, $json) { return call("factors$path", $json, token => $token) }

# Adds a TOTP factor to the session of an answer; its id, secret, recovery codes.
sub enrol ($answer) {
    my $new = factors(access($answer), '', { type => 'totp', name => 'Phone' });
    is $new->status, 201, 'a factor is added' or diag $new->body;
    my $f = $new->json;
    my $res = factors(access($answer), "/$f->{factorId}/confirm", { code => totp($f->{secret}) });
    is_deeply [ $res->status, $res->code ], [ 200, 'AUTH_FACTOR_CONFIRMED' ], 'and confirmed' or diag $res->body;
    return { %$f, %{ $res->json } };
}
sub verify ($asked, $type, $code, %o) {
    return call('verify-factor', { factorToken => ref $asked ? $asked->{factorToken} : $asked, type => $type,
        code => $code }, %o);
}

# -- without a factor: nothing is different

my $one = logged_in('one');
my $claims = claims(access($one));
is_deeply [ @$claims{qw(amr acr)} ], [ ['pwd'], 'aal1' ], 'a login by the credential';
cmp_ok abs($claims->{auth_time} - time), '<', 10, 'at this time';
is row($one, qw(amr), "coalesce(authenticated_at, date_trunc('second', created_at)) = to_timestamp($claims->{auth_time})",
    "authenticated_at is null or authenticated_at <> date_trunc('second', created_at)"), '|t|t', 'which writes nothing more';
my $list = http_get($port, '/api/auth/factors', token => access($one));
is_deeply [ @{ $list->json }{qw(factors recoveryCodesLeft)} ], [ [], 0 ], 'it has no factors';

# -- enrolment

age($one, 200);
my $f = enrol($one);
like $f->{secret}, qr/\A[A-Z2-7]{32}\z/, 'a secret of 160 bits';
is $f->{uri}, "otpauth://totp/issuer.test:one%40demo.test?secret=$f->{secret}&issuer=issuer.test"
    . '&algorithm=SHA1&digits=6&period=30', 'as authenticators read it';
is scalar @{ $f->{recoveryCodes} }, 10, 'ten recovery codes with the first factor';
is $pg->sql("select count(*) from factors where factors::text ilike '%$f->{secret}%'"), 0, 'is not kept as text';
$list = http_get($port, '/api/auth/factors', token => access($one))->json;
is_deeply [ map { $_->{name} } @{ $list->{factors} } ], ['Phone'], 'the list has it';
is $list->{recoveryCodesLeft}, 10, 'and how many recovery codes are left';
is $pg->sql("select string_agg(concat_ws(' ', event, by_account = account_id), ', ' order by event_id)
    from audit_events where account_id = '$one->{accountId}' and event like 'account.%' and event <> 'account.added'"),
    'account.factor_added t, account.recovery_codes_made t', 'the audit: by its owner';
my $after = refresh($one);
is_deeply [ @{ claims(access($after->json)) }{qw(amr acr)} ], [ [qw(pwd otp mfa)], 'aal2' ],
    'the code that confirmed it authenticated the session';
cmp_ok claims(access($after->json))->{auth_time}, '>', time - 100, 'at this time';

# -- a login with a factor

forget();
my $asked = login('one')->json;
is_deeply [ @$asked{qw(code expiresIn factors nextAction)} ],
    [ 'AUTH_FACTOR_REQUIRED', 300, [qw(totp recovery)], { type => 'verify_factor' } ], 'a factor is asked for';
is_deeply [ sort keys %$asked ], [qw(code expiresIn factorToken factors message nextAction)],
    'there is no token that opens anything';
my $sessions = $pg->sql('select count(*) from auth_sessions');
my $used = int(time / 30);    # the next step may begin meanwhile
my $res = verify($asked, totp => totp($f->{secret}, $used));
is_deeply [ $res->status, $res->code ], [ 200, 'AUTH_LOGIN_SUCCESS' ], 'a code ends the login' or diag $res->body;
is $pg->sql('select count(*) from auth_sessions'), $sessions + 1, 'with a session';
is_deeply [ @{ claims(access($res->json)) }{qw(amr acr)} ], [ [qw(pwd otp mfa)], 'aal2' ], 'of two factors';
my $kept = refresh($res->json);
is_deeply [ @{ claims(access($kept->json)) }{qw(amr acr)} ], [ [qw(pwd otp mfa)], 'aal2' ], 'a refresh keeps them';
is claims(access($kept->json))->{auth_time}, claims(access($res->json))->{auth_time}, 'and their time';
my $mfa = $kept->json;

# Until the credential is right, nothing tells whether there is a factor.
my %told = map {
    my $wrong = login($_, credential => 'An0ther credential');
    ($_ => ($wrong->raw_head . $wrong->body) =~ s/[0-9a-f]{32}/ID/gr =~ s/^Date: \K.*/DATE/mr);
} qw(one none nobody);
like $told{one}, qr/\AHTTP\/1.1 401 .*"AUTH_INVALID_CREDENTIALS"/s, 'a wrong credential';
is $told{$_}, $told{one}, "has the answer of $_" for qw(none nobody);

my @token_invalid = (401, 'AUTH_FACTOR_TOKEN_INVALID');
my @invalid = (401, 'AUTH_FACTOR_INVALID');
is_problem(verify($asked, totp => totp($f->{secret})), @token_invalid, 'the token was used');

# -- a code once

my $again = login('one')->json;
is_problem(verify($again, totp => totp($f->{secret}, $used)), @invalid, 'the code was used');
is_problem(verify($again, totp => totp($f->{secret}, $used - 1)), @invalid,
    'and so is the code of a step before it');
forget();
is verify($again, totp => totp($f->{secret}, int(time / 30) - 1))->status, 200, 'which else is accepted';
forget();
is verify(login('one')->json, totp => totp($f->{secret}, int(time / 30) + 1))->status, 200, 'as is the next one';
for my $case ([ 'two steps ago', -2 ], [ 'in two steps', 3 ]) {
    forget();
    is_problem(verify(login('one')->json, totp => totp($f->{secret}, int(time / 30) + $case->[1])), @invalid,
        "a code of $case->[0]");
}
forget();
my @more = map { $t->identity(%env, name => "more$_") } 1 .. 2;
sub status ($of, $token, $type, $code) {
    my $body = sprintf '{"factorToken":"%s","type":"%s","code":"%s"}', $token, $type, $code;
    return $t->fcgi($of->address)->request(POST => '/api/auth/verify-factor',
        CONTENT_TYPE => 'application/json', body => $body)->{stdout} =~ /\AStatus: (\d+)/ ? $1 : 200;
}
my @asked = map { login('one')->json->{factorToken} } 1 .. 8;
my $code = totp($f->{secret});
my $row = $pg->begin("select 1 from factors where factor_id = '$f->{factorId}' for update");
my @sent = spread([ $identity, @more ], 'verify-factor', map { { factorToken => $_, type => 'totp', code => $code } } @asked);
ok $pg->waiting(8), 'one code in eight logins of three processes, each of which has seen that it is right';
ok $pg->end($row, 'rollback'), 'and goes on';
my %once = (AUTH_LOGIN_SUCCESS => 1);
is_deeply codes(@sent), { %once, AUTH_FACTOR_INVALID => 7 }, 'opens one session';
is status($more[0], login('one')->json->{factorToken}, totp => $code), 401, 'nor later in another process';
$identity->stop;
$identity->start;
client_of($t, $port);
is_problem(verify(login('one')->json, totp => $code), @invalid, 'nor after a restart');

# -- five tries a token

forget();
$asked = login('one')->json;
my $wrong = sprintf '%06d', (totp($f->{secret}) + 1) % 1_000_000;
is status($more[ $_ % 2 ], $asked->{factorToken}, totp => $wrong), 401, "try $_" for 1 .. 4;
is_problem(verify($asked, totp => $wrong), @invalid, 'the fifth');
is_problem(verify($asked, totp => totp($f->{secret})), @token_invalid, 'the right code is too late');

# -- ten failures an account

is status($more[ $_ % 2 ], login('one')->json->{factorToken}, totp => $wrong), 401, "failure $_" for 6 .. 10;
$asked = login('one')->json;
my $limited = verify($asked, totp => totp($f->{secret}));
is_problem($limited, 429, 'AUTH_TOO_MANY_ATTEMPTS', 'ten failures in fifteen minutes, which no login resets');
cmp_ok $limited->header('Retry-After'), '>', 800, 'how long to wait';
is_problem(verify($asked, recovery => $f->{recoveryCodes}[0]), 429, 'AUTH_TOO_MANY_ATTEMPTS', 'over all factors');
is_problem(call('step-up', { type => 'totp', code => totp($f->{secret}) }, token => access($mfa)), 429,
    'AUTH_TOO_MANY_ATTEMPTS', 'and calls');
$pg->sql("update factor_failures set failed_at[1] = now() - interval '15 minutes'");
is verify(login('one')->json, totp => totp($f->{secret}))->status, 200, 'the first one is long ago';
is $pg->sql('select cardinality(failed_at) from factor_failures'), 9, 'a right code is no failure';

# -- recovery codes

forget();
is verify(login('one')->json, recovery => lc $f->{recoveryCodes}[0] =~ s/-//gr)->status, 200, 'a recovery code';
is_problem(verify(login('one')->json, recovery => $f->{recoveryCodes}[0]), @invalid, 'once');
$list = http_get($port, '/api/auth/factors', token => access($mfa))->json;
is $list->{recoveryCodesLeft}, 9, 'there are nine left';
@asked = map { login('one')->json->{factorToken} } 1 .. 4;
@sent = spread([ $identity, @more ], 'verify-factor', map { { factorToken => $_, type => 'recovery',
    code => $f->{recoveryCodes}[1] } } @asked);
is_deeply codes(@sent), { %once, AUTH_FACTOR_INVALID => 3 }, 'one in four logins of three processes at once: once';
$asked = login('one')->json;
forget();
my $lock = $pg->begin("select from accounts where account_id = '$one->{accountId}' for no key update");
@sent = map { sent('verify-factor', { factorToken => $asked->{factorToken}, type => 'recovery',
    code => $f->{recoveryCodes}[$_] }) } 2, 3;
ok $pg->waiting(2), 'two right codes of one login, at once';
$pg->end($lock, 'commit');
is join(' ', sort map { $_->read_response->json->{code} } @sent), "$token_invalid[1] AUTH_LOGIN_SUCCESS",
    'one ends it, and the other comes too late';
is $pg->sql("select count(*) from recovery_codes where account_id = '$one->{accountId}' and used_at is null"), 7,
    'and is not used up';
is $pg->sql('select cardinality(failed_at) from factor_failures'), 0, 'nor is it a failure';
my $new = call('recovery-codes', {}, token => access($mfa))->json->{recoveryCodes};
is scalar @$new, 10, 'ten new ones';
forget();
is_problem(verify(login('one')->json, recovery => $f->{recoveryCodes}[2]), @invalid, 'end the old ones');
my $other = logged_in('several');
my $g = enrol($other);
forget();
is_problem(verify(login('several')->json, recovery => $new->[0]), @invalid, "another account's recovery code");
is_problem(verify(login('several')->json, totp => totp($f->{secret})), @invalid, "another account's code");
is verify(login('several')->json, recovery => $g->{recoveryCodes}[0])->status, 200, 'its own one';

# -- tokens are not one another

$asked = login('one')->json;
is_problem(http_get($port, '/api/auth/factors', token => $asked->{factorToken}), 401, 'AUTH_ACCESS_TOKEN_REQUIRED',
    'a factorToken is no access token');
is_problem(verify(access($mfa), totp => totp($f->{secret})), @token_invalid, 'an access token is no factorToken');
is_problem(call('factors', { type => 'totp', factorToken => $asked->{factorToken} }), @token_invalid,
    'nor does the token of a login that waits for a factor enrol one');
for my $case (
    [ 'an account that was disabled', "status = 'DISABLED'", "status = 'ACTIVE'" ],
    [ 'one that was locked out', "sessions_valid_after = now()", "sessions_valid_after = '-infinity'" ],
    [ 'another credential', "credential_hash = credential_hash || ' '", 'credential_hash = trim(credential_hash)' ],
) {
    my ($name, $then, $back) = @$case;
    forget();
    $asked = login('one')->json;
    $pg->sql("set session_replication_role = replica; update accounts set $then where account_name = 'one\@demo.test'",
        user => 'postgres');
    is_problem(verify($asked, totp => totp($f->{secret})), @token_invalid, $name);
    $pg->sql("set session_replication_role = replica; update accounts set $back where account_name = 'one\@demo.test'",
        user => 'postgres');
}
$asked = login('one')->json;
$pg->sql("update factor_tokens set expires_at = now() - interval '1 second'");
is_problem(verify($asked, totp => totp($f->{secret})), @token_invalid, 'a token that has expired');
is_problem(verify('x' x 43, totp => totp($f->{secret})), @token_invalid, 'one that nobody made');
is_problem(call('verify-factor', { factorToken => 'x', type => 'sms', code => 1 }), 400, 'REQUEST_INVALID', 'a body');
forget();
my $last = verify(login('one')->json, totp => totp($f->{secret}));
is $last->status, 200, 'the same without any of that';
my $gone = access($last->json);
forget();
my $now = totp($f->{secret});
for my $case ([ 'none', '' ], [ 'five digits', substr $now, 1 ], [ 'seven', "0$now" ], [ 'a space before', " $now" ],
    map { my $zero = $_; [ sprintf('digits from U+%X', $zero), $now =~ s/(\d)/chr($zero + $1)/ger ] }
        0xff10, 0x660, 0x1d7ce)
{
    is_problem(verify(login('one')->json, totp => $case->[1]), @invalid, "not a code: $case->[0]");
}
is verify(login('one')->json, totp => $now)->status, 200, 'control: as it is';

# -- step-up: what changes factors or the credential needs a fresh session

sub step_up ($token, $type, $secret) {
    return call('step-up', { type => $type, ($type eq 'credential' ? 'credential' : 'code') => $secret },
        token => $token);
}
sub age ($answer, $seconds, $more = '') {
    alter($answer, "authenticated_at = now() - interval '$seconds seconds'$more");
}
my @stale = (401, 'AUTH_STEP_UP_REQUIRED');
sub changes ($token, $fresh, $name) {
    my $id = $pg->sql("select factor_id from factors order by created_at limit 1");
    my %call = (
        'POST factors' => sub { factors($token, '', { type => 'totp' }) },
        'POST confirm' => sub { factors($token, "/$id/confirm", { code => '000000' }) },
        'PATCH' => sub { http($port, PATCH => "/api/auth/factors/$id", token => $token, json => { name => 'Mine' }) },
        'POST recovery-codes' => sub { call('recovery-codes', {}, token => $token) },
    );
    for my $what (sort keys %call) {
        my $res = $call{$what}->();
        $fresh ? isnt $res->code, $stale[1], "$what, $name" : is_problem($res, @stale, "$what, $name");
    }
}
my $several = logged_in('none');
my $token = access($several);
age($several, 301);
is_problem(factors($token, '', { type => 'totp' }), @stale, 'after five minutes, without a factor');
like factors($token, '', { type => 'totp' })->header('WWW-Authenticate'),
    qr/\ABearer .*error="insufficient_user_authentication", max_age=300\z/, 'the challenge (RFC 9470)';
is_problem(step_up($token, credential => 'wrong'), 401, 'AUTH_INVALID_CREDENTIALS', 'step-up by a wrong credential');
$res = step_up($token, credential => $Platform::Test::Client::CREDENTIAL);
is_deeply [ $res->status, $res->code ], [ 200, 'AUTH_STEP_UP_SUCCESS' ], 'by the right one' or diag $res->body;
is session_of(access($res->json)), session_of($token), 'a token of the same session';
cmp_ok claims(access($res->json))->{auth_time}, '>', time - 60, 'authenticated now';
is factors($token, '', { type => 'totp' })->status, 201, 'and it is fresh';
is_problem(step_up($token, totp => '000000'), @invalid, 'a factor that it does not have');

my $aal1 = $mfa;
age($aal1, 301);
changes(access($aal1), 0, 'after five minutes');
age($aal1, 0, ', amr = 1');
changes(access($aal1), 0, 'by the credential alone, though the account has a factor');
is_problem(call('change-credential', { credential => $Platform::Test::Client::CREDENTIAL,
    newCredential => 'An0ther credential' }, token => access($aal1)), @stale, 'nor is the credential changed');
is_problem(step_up(access($aal1), credential => $Platform::Test::Client::CREDENTIAL), @stale,
    'a step-up by the credential does not do');
forget();
is_problem(step_up(access($aal1), totp => $wrong), @invalid, 'nor by a wrong code');
$code = totp($f->{secret});
$res = step_up(access($aal1), totp => $code);
is_deeply [ @{ claims(access($res->json)) }{qw(acr amr)} ], [ 'aal2', [qw(pwd otp mfa)] ], 'a code does';
is_problem(step_up(access($aal1), totp => $code), @invalid, 'once');
changes(access($aal1), 1, 'then');
$new = call('recovery-codes', {}, token => access($aal1))->json->{recoveryCodes};
age($aal1, 301);
is step_up(access($aal1), recovery => $new->[0])->status, 200, 'and so does a recovery code';
$pg->sql("update auth_sessions set status = 'REVOKED', revoked_at = now() where session_id = '" . session_of($gone) . "'");
forget();
is_problem(step_up($gone, totp => totp($f->{secret})), 401, 'AUTH_SESSION_NOT_ACTIVE', 'not in a session that has ended');
my $failures = q{select (select count(*) from login_attempts) || ' ' || coalesce(sum(cardinality(failed_at)), 0)
    from factor_failures};
for my $case ([ 'code', '0 1', verify(login('one')->json, totp => totp($f->{secret}))->json, 'totp' ],
    [ 'credential', '2 0', logged_in('none'), 'credential' ])
{
    my ($name, $counted, $ends, $type) = @$case;
    forget();
    $pg->sql('truncate login_attempts');
    my $right = $type eq 'totp' ? { code => totp($f->{secret}) } : { credential => $Platform::Test::Client::CREDENTIAL };
    my $end = $pg->begin("update auth_sessions set status = 'REVOKED', revoked_at = now()
        where session_id = '" . session_of($ends) . "'");
    my $client = sent('step-up', { type => $type, %$right }, token => access($ends));
    ok $pg->waiting(1), "a session ends while its $name is used";
    $pg->end($end, 'commit');
    is_problem($client->read_response, 401, 'AUTH_SESSION_NOT_ACTIVE', 'which is said');
    is $pg->sql($failures), '0 0', 'and the right one is no failure';
    my $again = $type eq 'totp' ? verify(login('one')->json, totp => $right->{code}) : login('none');
    is $again->status, 200, 'nor used up';
    is step_up(access($again->json), $type => $wrong)->status, 401, 'control: a wrong one';
    is $pg->sql($failures), $counted, 'is a failure';
}

# -- a factor that is confirmed while the credential of its account is checked

my ($NONE, $CREDENTIAL) = ("account_name = 'none\@demo.test'", $Platform::Test::Client::CREDENTIAL);
my $step = access(logged_in('none'));
for my $case ([ 'a login', [ 200, 'AUTH_FACTOR_REQUIRED' ], login => { account => 'none@demo.test', credential => $CREDENTIAL } ],
    [ 'a step-up', [@stale], 'step-up', { type => 'credential', credential => $CREDENTIAL }, token => $step ],
    [ 'a new credential', [@stale], 'change-credential', { credential => $CREDENTIAL, newCredential => 'An0ther credential' },
        token => $step ])
{
    my ($name, $answer, @call) = @$case;
    my $holder = $pg->begin("update accounts set second_factor = true where $NONE");
    my $client = sent(@call);
    ok $pg->waiting(1), "$name waits";
    ok $pg->end($holder, 'commit'), '... for a factor that is added';
    my $res = $client->read_response;
    is_deeply [ $res->status, $res->code ], $answer, "$name by the credential alone does not do any more" or diag $res->body;
    $pg->sql("update accounts set second_factor = false where $NONE");
}
is step_up($step, credential => $CREDENTIAL)->status, 200, 'without that it does';
my $adds = $pg->begin("update accounts set second_factor = true where $NONE");
is_problem(call('recovery-codes', {}, token => $step), 409, 'RESOURCE_CONFLICT',
    'the credential alone makes no recovery codes for a factor that is being added');
$pg->end($adds, 'rollback');

# -- at most ten; one that is not confirmed counts nowhere

my $open = factors(access($aal1), '', { type => 'totp' })->json;
is_problem(verify(login('one')->json, totp => totp($open->{secret})), @invalid, 'a code of a factor that is not confirmed');
$pg->sql("insert into factors (account_id, factor_type, factor_name, confirmed_at, key_id, secret)
    select account_id, factor_type, 'copy', now(), key_id, secret from factors, generate_series(1, 9)
     where account_id = '$one->{accountId}' and confirmed_at is not null");
is_problem(factors(access($aal1), '', { type => 'totp' }), 409, 'RESOURCE_LIMIT_REACHED', 'an eleventh factor');
$pg->sql("delete from factors where factor_id = (select factor_id from factors where factor_name = 'copy' limit 1)");
is factors(access($aal1), '', { type => 'totp' })->status, 201, 'a tenth one';
$pg->sql("delete from factors where factor_name = 'copy'");

# -- removing

forget();
my ($mine) = map { $_->{factorId} } @{ http_get($port, '/api/auth/factors', token => access($aal1))->json->{factors} };
my ($theirs) = map { $_->{factorId} } @{ http_get($port, '/api/auth/factors', token => access($other))->json->{factors} };
sub remove ($who, $id) { return http($port, DELETE => "/api/auth/factors/$id", token => access($who)) }
is_problem(remove($aal1, $theirs), 404, 'RESOURCE_NOT_FOUND', "another account's factor");
is http($port, PATCH => "/api/auth/factors/$mine", token => access($aal1), json => { name => 'Mine' })->status, 200, 'its own is renamed';
is_problem(http($port, PATCH => "/api/auth/factors/$theirs", token => access($aal1), json => { name => 'Mine' }), 404, 'RESOURCE_NOT_FOUND',
    "another account's is not");
$pg->sql("update accounts set factor_required = true where account_name = 'one\@demo.test'");
is_problem(remove($aal1, $mine), 409, 'AUTH_FACTOR_LAST', 'the last one where one is required');
$pg->sql("update accounts set factor_required = false where account_name = 'one\@demo.test'");
age($aal1, 301);
is_problem(remove($aal1, $mine), @stale, 'not after five minutes');
age($aal1, 0);
is remove($aal1, $mine)->status, 200, 'removed';
is $pg->sql("select count(*) from recovery_codes where account_id = '$one->{accountId}'"), 0, 'with its recovery codes';
is login('one')->json->{code}, 'AUTH_LOGIN_SUCCESS', 'and a login is as before';

# -- a factor is demanded

$pg->sql("update accounts set factor_required = true where account_name = 'one\@demo.test'");
$asked = login('one')->json;
is_deeply [ @$asked{qw(code factors nextAction)} ], [ 'AUTH_FACTOR_REQUIRED', [], { type => 'enroll_factor' } ],
    'who has to have one and has none gets one first';
is_problem(verify($asked, totp => '000000'), @token_invalid, 'its token ends no login');
my $late = login('one')->json;
is call('factors', { type => 'totp', factorToken => $late->{factorToken} })->status, 201, 'another login may add one';
$new = call('factors', { type => 'totp', factorToken => $asked->{factorToken} })->json;
is_problem(call("factors/$new->{factorId}/confirm", { factorToken => $asked->{factorToken}, code => '12345x' }), @invalid,
    'a wrong code does not confirm it');
is login('one')->json->{nextAction}{type}, 'enroll_factor', 'a factor that is not confirmed does not count';
$res = call("factors/$new->{factorId}/confirm", { factorToken => $asked->{factorToken}, code => totp($new->{secret}) });
is_deeply [ $res->status, $res->code, scalar @{ $res->json->{recoveryCodes} // [] } ],
    [ 200, 'AUTH_LOGIN_SUCCESS', 10 ], 'the right one ends the login' or diag $res->body;
is claims(access($res->json))->{acr}, 'aal2', 'with two factors';
is_problem(call('factors', { type => 'totp', factorToken => $asked->{factorToken} }), @token_invalid,
    'the token was used');
is_problem(call('factors', { type => 'totp', factorToken => $late->{factorToken} }), @token_invalid,
    'a login from before that adds no other one');
forget();
is verify(login('one')->json, totp => totp($new->{secret}))->status, 200, 'the next login asks for it';
$pg->sql("delete from factors where account_id = '$one->{accountId}'");
is_problem(call('factors', { type => 'totp', factorToken => $asked->{factorToken} }), @token_invalid,
    'a used token stays used when that factor is gone');
is call('factors', { type => 'totp', factorToken => $late->{factorToken} })->status, 201, 'control: one that was not used';
$asked = login('one')->json;
$new = call('factors', { type => 'totp', factorToken => $asked->{factorToken} })->json;
is call("factors/$new->{factorId}/confirm", { factorToken => $asked->{factorToken}, code => "00000$_" })->status, 401,
    "confirmation $_" for 1 .. 5;
is_problem(call("factors/$new->{factorId}/confirm", { factorToken => $asked->{factorToken}, code => totp($new->{secret}) }),
    @token_invalid, 'five tries, here too');
$pg->sql("update accounts set factor_required = false");
restart($identity, AUTH_REQUIRE_FACTOR => 'OPERATOR');
$pg->sql("update accounts set account_type = 'OPERATOR' where account_name = 'one\@demo.test'");
is login('one')->json->{nextAction}{type}, 'enroll_factor', 'PLATFORM_AUTH_REQUIRE_FACTOR=OPERATOR: an operator';
is login('two-workspaces')->json->{code}, 'AUTH_LOGIN_SUCCESS', 'but not a customer';
restart($identity, AUTH_REQUIRE_FACTOR => 'all');
is login('two-workspaces')->json->{nextAction}{type}, 'enroll_factor', 'all: a customer too';
restart($identity, AUTH_REQUIRE_FACTOR => undef);

# -- auth_time: not after iat, however late the database reads the account, and what the
# answer says stays, however late it writes the session

$several = logged_in('two-workspaces');
for my $case ([ login => 'workspaces', { account => 'two-workspaces@demo.test' } ],
    [ 'step-up' => 'login_attempts', { type => 'credential' }, token => access($several) ])
{
    my ($how, $table, $body, %o) = @$case;
    my $gate = $pg->begin("lock table $table");
    $pg->freeze('STOP');
    my $client = sent($how => { %$body, credential => $Platform::Test::Client::CREDENTIAL }, %o);
    sleep 1;
    $pg->freeze('CONT');
    ok $pg->waiting(1), "$how: waits, after it read the account";
    sleep 1;
    $pg->end($gate, 'rollback');
    my $res = $client->read_response;
    is $res->status, 200, 'then it is answered' or diag $res->body;
    my $claims = claims(access($res->json));
    cmp_ok $claims->{auth_time}, '<=', $claims->{iat}, 'auth_time is not after iat';
    is claims(access(refresh($how eq 'login' ? $res->json : $several)->json))->{auth_time}, $claims->{auth_time},
        'a refresh has the same auth_time';
}

# -- a session is as old as it is by one clock, here where the database's is ten minutes ahead

$pg->sql(join "\n", 'create schema ahead;', (map {"create function ahead.$_() returns timestamptz
        language sql volatile as \$\$ select pg_catalog.$_() + interval '10 minutes' \$\$;"}
        qw(now clock_timestamp)),
    'alter role platform set search_path = ahead, pg_catalog, public');
restart($identity);
$several = logged_in('two-workspaces');
cmp_ok abs(claims(access($several))->{auth_time} - time), '<', 60, 'auth_time is not ahead';
is factors(access($several), '', { type => 'totp' })->status, 201, 'a session that was just opened is fresh';
$pg->sql('alter role platform reset search_path; drop schema ahead cascade');
restart($identity);

# -- a login that runs out of time is no failure of the factor

sub ready { ok eventually(sub { http_get($port, '/readyz')->status == 200 }), 'it is ready' }
sub failures { return $pg->sql('select coalesce(sum(cardinality(failed_at)), 0) from factor_failures') }

$several = logged_in('two-workspaces');
$f = enrol($several);
$asked = login('two-workspaces')->json;
restart($identity, REQUEST_TIMEOUT => '1s');
ready();
forget();
my $gate = $pg->begin('lock table workspaces');
is verify($asked, totp => totp($f->{secret}))->status, 503, 'its branches cannot be read';
is failures(), 0, 'the right code is not counted as wrong';
$pg->end($gate, 'rollback');
restart($identity, REQUEST_TIMEOUT => undef);
ready();
is_problem(verify($asked, totp => '00000'), @invalid, 'control: one that is wrong');
is failures(), 1, 'is counted';

# -- keys

restart($identity, AUTH_FACTOR_KEYS => 'two=' . 'YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=,' . $KEY);
forget();
my $in = verify(login('two-workspaces')->json, totp => totp($f->{secret}));
is $in->status, 200, 'a key before it: still read';
for my $case ([ 'a branch that is chosen', select_branch($in->json, branch(41)) ], [ 'a refresh', refresh($in->json) ])
{
    my ($name, $res) = @$case;
    is_deeply [ @{ claims(access($res->json)) }{qw(amr acr auth_time)} ],
        [ [qw(pwd otp mfa)], 'aal2', claims(access($in->json))->{auth_time} ], "$name: authenticated as the login was"
        or diag $res->body;
}
restart($identity, AUTH_FACTOR_KEYS => 'two=' . 'YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=');
forget();
is_problem(verify(login('two-workspaces')->json, totp => totp($f->{secret})), @invalid, 'without its key');

is verify(login('two-workspaces')->json, recovery => $f->{recoveryCodes}[0])->status, 200, 'a recovery code helps';
restart($identity, AUTH_FACTOR_KEYS => 'one=' . 'YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=');
forget();
is_problem(verify(login('two-workspaces')->json, totp => totp($f->{secret})), @invalid, 'another key of that name');
restart($identity, AUTH_FACTOR_KEYS => $KEY);
$pg->sql("update factors set secret = (select secret from factors where factor_id = '$g->{factorId}')
    where factor_id = '$f->{factorId}'", user => 'postgres');
forget();
is_problem(verify(login('two-workspaces')->json, totp => totp($g->{secret})), @invalid, "another row's secret");
restart($identity, AUTH_FACTOR_KEYS => undef);
is_problem(factors(access(logged_in('none')), '', { type => 'totp' }), 403, 'AUTH_FACTOR_NOT_OFFERED', 'without keys');

# -- factors rekey

sub keys_of ($keys) { return { env => { PLATFORM_AUTH_FACTOR_KEYS => $keys } } }
my @rekey = qw(factors rekey);
my $two = 'two=' . 'YWJjZGVmZ2hpamtsbW5vcHFyc3R1dnd4eXoxMjM0NTY=';
restart($identity, AUTH_FACTOR_KEYS => "$two,$KEY");
$pg->sql("delete from factors where factor_id = '$f->{factorId}' or confirmed_at is null");
forget();
$asked = login('several')->json;
my $read = $pg->begin("select from accounts where account_id = '$other->{accountId}' for update");
my $ends = sent('verify-factor', { factorToken => $asked->{factorToken}, type => 'totp', code => totp($g->{secret}) });
ok $pg->waiting(1), 'a login that has read the secret';
is_deeply $c->audited(['factors.rekeyed'], keys_of("$two,$KEY"), @rekey), { key => 'two', encrypted => 1, unreadable => 0 },
    'all secrets';
$pg->end($read, 'rollback');
is $ends->read_response->code, 'AUTH_LOGIN_SUCCESS', 'ends as if nothing had been';
is_deeply $c->audited([], keys_of("$two,$KEY"), @rekey), { key => 'two', encrypted => 0, unreadable => 0 }, 'none is left';
restart($identity, AUTH_FACTOR_KEYS => $two);
forget();
is verify(login('several')->json, totp => totp($g->{secret}))->status, 200, 'the new key alone reads them';
$c->refused(1, qr/secrets that cannot be decrypted: 1 \(key two\)/, keys_of($KEY), @rekey);
my $its_row = "factors where factor_id = '$g->{factorId}'";
my $sealed = $pg->sql("select secret from $its_row");
my $writes = $pg->begin("update factors set secret = 'of others' where factor_id = '$g->{factorId}'");
my $rekeys = $c->start(keys_of("$KEY,$two"), @rekey);
ok eventually(sub { $pg->sql("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") == 1 }),
    'it waits for whoever writes the secret meanwhile';
$pg->end($writes, 'commit');
$rekeys->wait_end(60);
is $pg->sql("select key_id || ' ' || encode(secret, 'escape') from $its_row"), 'two of others', 'and keeps what was written';
$pg->sql("update factors set secret = '$sealed' where factor_id = '$g->{factorId}'");
$c->refused(2, qr/PLATFORM_AUTH_FACTOR_KEYS is not set/, @rekey);
$pg->sql("insert into factors (account_id, factor_type, factor_name, key_id, secret)
    select '$other->{accountId}', 'totp', 'lost', 'gone', '' from generate_series(1, 1001)");
my ($exit, undef, $said) = $c->run(keys_of("$KEY,$two"), @rekey);
is $exit, 1, 'three pages of secrets whose key is lost';
like $said, qr/"encrypted":1,"unreadable":1001,.*secrets that cannot be decrypted: 1001 \(key gone\)/s, 'which is said';
is $pg->sql("select key_id from $its_row"), 'one', 'and the others are encrypted';
$pg->sql("delete from factors where key_id = 'gone'");
$c->audited(['factors.rekeyed'], keys_of("$two,$KEY"), @rekey);

# -- operators and programs

my $shown = $c->done(qw(account show several@demo.test));
is_deeply [ map { $_->{factorId} } @{ $shown->{factors} } ], [ $g->{factorId} ], 'account show has the factors';
is $shown->{recoveryCodesLeft}, 9, 'and how many recovery codes are left';
is $shown->{factorRequired}, JSON::PP::false(), 'and whether one is demanded';
my $client = $c->done(qw(client add job --allow people:read --allow people:write --allow credentials:write));
my $secret = $c->secret($c->done(qw(client secret add job))->{secret});
sub system_token (@scopes) {
    return http($port, POST => '/api/auth/token', headers => [ 'Content-Type' => 'application/x-www-form-urlencoded' ],
        body => "grant_type=client_credentials&client_id=$client->{accountId}&client_secret=$secret&scope="
            . join '%20', @scopes)->json->{access_token};
}
sub api ($method, $path, @scopes) {
    return http($port, $method => "/api/system/accounts/$other->{accountId}/$path", token => system_token(@scopes));
}
my $seen = api(GET => 'factors', 'people:read')->json;
is_deeply [ @$seen{qw(factors recoveryCodesLeft)} ], [ @$shown{qw(factors recoveryCodesLeft)} ], 'the API gives the same';
is_problem(api(GET => 'factors', 'people:write'), 403, 'AUTH_SCOPE_REQUIRED', 'with people:read');
is_problem(api(DELETE => "factors/$g->{factorId}", 'people:write'), 403, 'AUTH_SCOPE_REQUIRED', 'removes none with people:write');
is_problem(api(DELETE => 'factors/' . uuid(9), 'credentials:write'), 404, 'RESOURCE_NOT_FOUND', 'nor one that is not there');
my $program = system_token('credentials:write');
is_problem(call($_, { type => 'totp' }, token => $program), 401, 'AUTH_ACCESS_TOKEN_REQUIRED', "a program has no $_ of its own")
    for qw(factors recovery-codes step-up);
$pg->sql("update accounts set account_type = 'OPERATOR' where account_id = '$other->{accountId}'");
is_problem(api(DELETE => "factors/$g->{factorId}", 'credentials:write'), 403, 'AUTH_SCOPE_REQUIRED', "nor an operator's");
$pg->sql("update accounts set account_type = 'CUSTOMER' where account_id = '$other->{accountId}'");
my $mine_too = enrol(logged_in('none'));
is_problem(api(DELETE => "factors/$mine_too->{factorId}", 'credentials:write'), 404, 'RESOURCE_NOT_FOUND',
    "nor another account's");
is_deeply [ @{ api(DELETE => "factors/$g->{factorId}", 'credentials:write')->json }{qw(accountId factorId)} ],
    [ $other->{accountId}, $g->{factorId} ], 'removed by a program';
is login('several')->json->{code}, 'AUTH_LOGIN_SUCCESS', 'and a login is as before';
my $demanded = $c->audited(['account.factor_required'], qw(account require-factor several@demo.test));
is_deeply [ @$demanded{qw(factorRequired changed)} ], [ JSON::PP::true(), JSON::PP::true() ], 'account require-factor';
is login('several')->json->{nextAction}{type}, 'enroll_factor', 'demands one';
is $c->done(qw(account require-factor several@demo.test))->{changed}, JSON::PP::false(), 'once';
$c->audited(['account.factor_optional'], qw(account require-factor several@demo.test --off));
is login('several')->json->{code}, 'AUTH_LOGIN_SUCCESS', '--off: no longer';
$c->refused(2, qr/give either --factor or --all/, qw(account remove-factor none@demo.test));
$c->refused(1, qr/no such factor/, qw(account remove-factor none@demo.test --factor), uuid(9));
my $waits = factors(access(logged_in('several')), '', { type => 'totp' })->json->{factorId};
$c->refused(1, qr/no such factor/, qw(account remove-factor several@demo.test --factor), $waits);
is $pg->sql("select count(*) from factors where factor_id = '$waits'"), 1, 'one that is not confirmed does not count';
is $c->audited(['account.factor_removed'], qw(account remove-factor none@demo.test --all))->{removedFactors}, 1,
    'account remove-factor --all';
is $c->done(qw(account remove-factor none@demo.test --all))->{removedFactors}, 0, 'there is none left';
$pg->sql("delete from factor_failures; insert into factor_failures values ('$other->{accountId}', array[now()])");
$c->done(qw(account unlock several@demo.test));
is $pg->sql('select count(*) from factor_failures'), 0, 'account unlock forgets failures of factors too';

# -- ten factors at most, however they came to be

my $many = logged_in('none');
my $pending = factors(access($many), '', { type => 'totp' })->json;
sub fill ($n) {
    $pg->sql("insert into factors (account_id, factor_type, factor_name, confirmed_at, key_id, secret)
        select '$many->{accountId}', 'totp', 'Phone', now(), 'a', '' from generate_series(1, $n)");
}
fill(10);
age($many, 0, ', amr = 33');
my $eleventh = sub { factors(access($many), "/$pending->{factorId}/confirm", { code => totp($pending->{secret}) }) };
forget();
is_problem($eleventh->(), 409, 'RESOURCE_LIMIT_REACHED', 'an eleventh factor that waits is not confirmed');
$pg->sql("delete from factors where factor_id = (select factor_id from factors
    where account_id = '$many->{accountId}' and confirmed_at is not null limit 1)");
is $eleventh->()->status, 200, 'the tenth is';

# -- what is secret is in no log

for my $log (map({ $_->log_text } $identity, @more), $t->read_file('postgres.log')) {
    my @secret = grep { index($log, $_) >= 0 } map({ $_->{secret} } $f, $g, $pending), map({ s/-//gr, $_ }
        map { @{ $_->{recoveryCodes} } } $f, $g), map { $_->{factorToken} } $asked, $late;
    is_deeply \@secret, [], 'no secret, recovery code or token is logged';
}

# -- a deleted account keeps nothing

$c->done(qw(account delete two-workspaces@demo.test));
is $pg->sql("select count(*) from (select account_id from factors union all select account_id from recovery_codes
    union all select account_id from factor_tokens union all select account_id from factor_failures) a
    where account_id = '$several->{accountId}'"), 0, 'a deleted account keeps nothing';

$t->done;
