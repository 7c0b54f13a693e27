# Passkeys: registration, login without a name, second factor, step-up; which challenges,
# answers and passkeys are refused.  What else is wrong with answers: check_webauthn.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;
use Platform::Test::Passkey;

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $RP = 'example.com';
my %env = (PLATFORM_WEBAUTHN_RP_ID => $RP, PLATFORM_AUTH_HASH_CONCURRENCY => 2,
    PLATFORM_WEBAUTHN_ORIGINS => 'https://app.example.com https://example.com',
    PLATFORM_AUTH_FACTOR_KEYS => 'one=' . 'QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=');
my $identity = $t->identity_face(%env);
my $port = client_of($t);
my @more = map { $t->identity(%env, name => "more$_") } 1 .. 2;

sub access ($answer) { return $answer->{accessToken} // $answer->{accountAccessToken} }
sub device (%o) { return Platform::Test::Passkey->new(%o) }

# What the device answers to the options of an answer.
sub answered ($asked, $device, $how, %o) {
    return { challengeToken => $asked->{challengeToken}, credential => $device->$how($asked->{options}, %o) };
}

# Challenges by what they are for.
my %challenge = (
    register => sub ($token) { call('passkeys/options', {}, token => $token) },
    login    => sub (@) { call('login/passkey-options') },
    step_up  => sub ($token) { call('step-up/passkey-options', undef, token => $token) },
);
sub asked ($for, @token) {
    my $res = $challenge{$for}->(@token);
    is $res->code, 'AUTH_PASSKEY_OPTIONS', "a challenge: $for" or diag $res->body;
    return $res->json;
}
# And what an answer is sent to.
my %answer = (
    register => [ 'create', sub ($body, $token) { call(passkeys => $body, token => $token) } ],
    login    => [ 'get', sub ($body, @) { call('login/passkey' => $body) } ],
    step_up  => [ 'get', sub ($body, $token) { call('step-up', { %$body, type => 'passkey' }, token => $token) } ],
);
sub answer ($for, $asked, $device, @more) {
    my ($how, $send) = @{ $answer{$for} };
    my $token = @more % 2 ? shift @more : undef;
    return $send->(answered($asked, $device, $how, @more), $token);
}
# Both: a new passkey, a login, a step-up.
sub register ($token, @of) { return answer(register => asked(register => $token), shift @of, $token, @of) }
sub enter ($device, %o) { return answer(login => asked('login'), $device, %o) }
sub step_up ($token, $device, %o) { return answer(step_up => asked(step_up => $token), $device, $token, %o) }

# A login by name, and its second half by a passkey.
sub waiting ($account) {
    $pg->sql('delete from factor_failures');
    return login($account)->json;
}
sub second ($waiting, $device, %o) {
    return call('verify-factor', { factorToken => $waiting->{factorToken}, type => 'passkey',
        credential => $device->get($waiting->{passkey}, %o) });
}
sub added ($res, $name) {
    is_deeply [ $res->status, $res->code ], [ 201, 'AUTH_FACTOR_ADDED' ], $name or diag $res->body;
    return $res->json;
}
sub in ($res, $name) {
    is_deeply [ $res->status, $res->code ], [ 200, 'AUTH_LOGIN_SUCCESS' ], $name or diag $res->body;
    return $res->json;
}
sub how ($answer) { return join ' ', @{ claims(access($answer))->{amr} }, claims(access($answer))->{acr} }
sub age ($answer, $seconds) { return alter($answer, "authenticated_at = now() - interval '$seconds seconds'") }
sub events ($of) {
    return $pg->sql("select string_agg(event, ' ' order by event_id) from audit_events
        where account_id = '$of->{accountId}' and event like 'account.%' and event <> 'account.added'");
}

my @token_invalid = (401, 'AUTH_FACTOR_TOKEN_INVALID');
my @invalid = (401, 'AUTH_FACTOR_INVALID');
my @stale = (401, 'AUTH_STEP_UP_REQUIRED');
my @not_accepted = (400, 'AUTH_PASSKEY_INVALID');

# -- registration

my $one = logged_in('one');
my $phone = device();
my $wanted = asked(register => access($one));
my $user = $wanted->{options}{user};
is_deeply [ $wanted->{expiresIn}, @{ $wanted->{options}{rp} }{qw(id)}, @$user{qw(name displayName)},
    map { $_->{alg} } @{ $wanted->{options}{pubKeyCredParams} } ],
    [ 300, $RP, ('one@demo.test') x 2, -8, -7, -257 ], 'what a browser is asked for';
like $user->{id}, qr/\A[\w-]{43}\z/, 'the user handle is random';
is asked(register => access($one))->{options}{user}{id}, $user->{id}, 'and stays';
my $made = added(answer(register => $wanted, $phone, access($one)), 'a passkey');
is scalar @{ $made->{recoveryCodes} }, 10, 'with ten recovery codes, since it is the first factor';
my $list = http_get($port, '/api/auth/factors', token => access($one))->json;
is_deeply [ $list->{recoveryCodesLeft}, map { @$_{qw(factorId type name usedAt)} } @{ $list->{factors} } ],
    [ 10, $made->{factorId}, 'passkey', 'Passkey', undef ], 'the list has it';
is events($one), 'account.factor_added account.recovery_codes_made', 'the audit too';
$one = refresh($one)->json;
is how($one), 'pwd hwk user mfa aal2', 'the session is of two factors by now';
my $laptop = device(alg => 'EdDSA', synced => 1);
$made = added(register(access($one), $laptop), 'another one: Ed25519, synced');
ok !exists $made->{recoveryCodes}, 'without recovery codes';
is how(refresh($one)->json), 'pwd hwk swk user mfa aal2', 'both count';
is_deeply [ map { $_->{id} } @{ asked(register => access($one))->{options}{excludeCredentials} } ],
    [ map { b64url($_->{id}) } $phone, $laptop ], 'which a browser is not to make again';

# -- a login without a name, the second factor, step-up

is_deeply asked('login')->{options}{allowCredentials}, [], 'a challenge for whoever';
for my $case ([ $phone, 'hwk' ], [ $laptop, 'swk' ]) {
    my ($device, $kind) = @$case;
    my $res = enter($device);
    my $session = in($res, "a login by a passkey alone: $kind");
    is_deeply [ $session->{accountId}, how($session) ], [ $one->{accountId}, "$kind user mfa aal2" ], 'of two factors';
    is cookies($res), 1, 'with its cookie';
    is how(refresh($session)->json), "$kind user mfa aal2", 'a refresh keeps them';
    my $asked = waiting('one');
    is_deeply [ @$asked{qw(code factors)}, map { $_->{id} } @{ $asked->{passkey}{allowCredentials} } ],
        [ 'AUTH_FACTOR_REQUIRED', [qw(passkey recovery)], map { b64url($_->{id}) } $phone, $laptop ],
        'a login by name asks for one of both';
    is how(in(second($asked, $device), 'as the second factor')), "pwd $kind user mfa aal2", 'it adds to the credential';
    age($one, 301);
    is_problem($challenge{register}->(access($one)), @stale, 'after five minutes there is no challenge for another one');
    $res = step_up(access($one), $device);
    is_deeply [ $res->status, $res->code ], [ 200, 'AUTH_STEP_UP_SUCCESS' ], 'a step-up' or diag $res->body;
    like how($res->json), qr/\b$kind\b.* aal2/, 'says how';
    asked(register => access($one));
}
like $pg->sql("select string_agg((used_at is not null)::text, ' ') from factors"), qr/\Atrue true\z/, 'both were used';
$wanted = asked(register => access($one));
age($one, 301);
is_problem(answer(register => $wanted, device(), access($one)), @stale, 'nor does an earlier challenge add one then');
age($one, 0);
added(answer(register => $wanted, device(), access($one)), 'control: fresh again');

# -- a login that has to get a factor

$pg->sql("update accounts set factor_required = true where account_name = 'none\@demo.test'");
my $enroll = login('none')->json;
my @with = (factorToken => $enroll->{factorToken});
sub enrolled ($device, %o) {
    my $asked = call('passkeys/options', {@with})->json;
    return call(passkeys => { @with, %{ answered($asked, $device, 'create', %o) } });
}
is_problem(enrolled(device(), client => { origin => 'https://evil.test' }), @not_accepted, 'at a login: of another page');
is_problem(enrolled($phone), 409, 'RESOURCE_EXISTS', 'at a login: a passkey of another account');
my $late = login('none')->json->{factorToken};
my $late_asked = call('passkeys/options', { factorToken => $late })->json;
my $badge = device(synced => 1);
my $none = in(enrolled($badge), 'at a login: a passkey ends it');
is_deeply [ how($none), scalar @{ $none->{recoveryCodes} } ], [ 'pwd swk user mfa aal2', 10 ], 'with recovery codes';
is_problem(call('passkeys/options', {@with}), @token_invalid, 'its token was used');
is_problem(call('passkeys/options', { factorToken => $late }), @token_invalid, 'a login from before that adds no other one');
is_problem(call(passkeys => { factorToken => $late, %{ answered($late_asked, device(), 'create') } }), @token_invalid,
    'nor with a challenge from before that');
is waiting('none')->{nextAction}{type}, 'verify_factor', 'the next login asks for it';
is login('several')->json->{code}, 'AUTH_LOGIN_SUCCESS', 'another account is as before';

# -- a challenge is for one answer

for my $for (qw(register login step_up)) {
    my @token = $for eq 'login' ? () : access($one);
    my $asked = asked($for => @token);
    my $device = $for eq 'register' ? device() : $phone;
    is answer($for => $asked, $device, @token)->status, $for eq 'register' ? 201 : 200, "$for: an answer";
    is_problem(answer($for => $asked, $for eq 'register' ? device() : $phone, @token), @token_invalid,
        "$for: to the same challenge");
    $asked = asked($for => @token);
    isnt answer($for => $asked, $device, @token, client => { origin => 'https://evil.test' })->status, 200,
        "$for: a wrong answer";
    is_problem(answer($for => $asked, $device, @token), @token_invalid, "$for: uses it up too");
    $asked = asked($for => @token);
    $pg->sql("update factor_tokens set expires_at = now() - interval '1 second'");
    is_problem(answer($for => $asked, $device, @token), @token_invalid, "$for: that has expired");
}
my $asked = waiting('one');
is_problem(second($asked, $phone, client => { origin => 'https://evil.test' }), @invalid, 'second: a wrong answer');
is_problem(second($asked, $phone), @invalid, 'second: uses the challenge up');
is_problem(second($asked, $phone, client => { challenge => b64url("\0" x 32) }), @invalid, 'second: and there is none then');
is call('verify-factor', { factorToken => $asked->{factorToken}, type => 'recovery', code => '?' })->code,
    'AUTH_FACTOR_INVALID', 'but not the token';
$asked = waiting('one');
$pg->sql("update factor_tokens set expires_at = now() - interval '1 second'");
is_problem(second($asked, $phone), @token_invalid, 'second: that has expired');
$pg->sql("delete from factors where factor_id not in (select factor_id from factors order by created_at limit 2)
    and account_id = '$one->{accountId}'");

# Of answers to one challenge, in one process or several: one.
sub elsewhere ($of, $path, $body) {
    return $t->fcgi($of->address)->request(POST => "/api/auth/$path", body => JSON::PP::encode_json($body))->{stdout};
}
my $body = answered(asked('login'), $phone, 'get');
my @sent = spread([ $identity, @more ], 'login/passkey', ($body) x 6);
is_deeply codes(@sent), { AUTH_LOGIN_SUCCESS => 1, AUTH_FACTOR_TOKEN_INVALID => 5 },
    'six answers to one challenge in three processes at once: one';
like elsewhere($more[0], 'login/passkey', $body), qr/AUTH_FACTOR_TOKEN_INVALID/, 'nor in another process';
like elsewhere($more[1], 'login/passkey', answered(asked('login'), $phone, 'get')), qr/AUTH_LOGIN_SUCCESS/,
    'control: a challenge of another process';
$body = answered(asked('login'), $phone, 'get');
my $used = answered(asked('login'), $phone, 'get');
in(call('login/passkey', $used), 'before a restart');
$identity->stop;
$identity->start;
client_of($t, $port);
is_problem(call('login/passkey', $used), @token_invalid, 'nor after the restart');
in(call('login/passkey', $body), 'control: a challenge from before it');

# -- of one session, one account, one purpose

my $mine = in(enter($phone), 'another session of the account');
for my $for (qw(register step_up)) {
    my $is = $for eq 'register' ? 201 : 200;
    for my $case ([ 'another session', $mine ], [ 'another account', $none ]) {
        my ($name, $other) = @$case;
        my $device = $for eq 'register' ? device() : $other eq $none ? $badge : $phone;
        is_problem(answer($for => asked($for => access($one)), $device, access($other)), @token_invalid,
            "$for: the challenge of $name");
        is answer($for => asked($for => access($other)), $device, access($other))->status, $is, 'control: its own one';
    }
}
my %by = (register => \$one, step_up => \$one, login => \undef);
for my $for (sort keys %answer) {
    for my $of (grep { $_ ne $for } sort keys %challenge) {
        my $asked = asked($of => access($one));
        $asked->{options}{rpId} //= $RP;
        $asked->{options}{rp}{id} //= $RP;
        is_problem(answer($for => $asked, $for eq 'register' ? device() : $phone, access($one)), @token_invalid,
            "$for: a challenge for $of");
    }
    my $waiting = waiting('one');
    my %of_login = (challengeToken => $waiting->{factorToken},
        options => { %{ $waiting->{passkey} }, rp => { id => $RP } });
    is_problem(answer($for => \%of_login, $for eq 'register' ? device() : $phone, access($one)), @token_invalid,
        "$for: the token of a login");
    in(second($waiting, $phone), 'control: which it is for');
}
my $of_login = asked('login');
is_problem(second({ factorToken => $of_login->{challengeToken}, passkey => $of_login->{options} }, $phone),
    @token_invalid, 'second: the challenge of a login without a name');
$asked = waiting('one');
is_problem(call('passkeys/options', { factorToken => $asked->{factorToken} }), @token_invalid,
    'a login that waits for a factor adds none');
$wanted = asked(register => access($one));
is_problem(call(passkeys => { factorToken => $asked->{factorToken}, %{ answered($wanted, device(), 'create') } }),
    @token_invalid, 'nor with a challenge of the session');
$pg->sql("delete from factors where account_id = '$none->{accountId}'");
@with = (factorToken => login('none')->json->{factorToken});
is_problem(call(passkeys => { @with, %{ answered(asked(register => access($one)), device(), 'create') } }),
    @token_invalid, 'nor one that has to get a factor with that of another account');
$asked = call('passkeys/options', {@with})->json;
is_problem(answer(register => $asked, device(), access($one)), @token_invalid, 'and the reverse');
$pg->sql("update accounts set factor_required = true where account_name = 'two-workspaces\@demo.test'");
$asked = call('passkeys/options', { factorToken => login('two-workspaces')->json->{factorToken} })->json;
is_problem(call(passkeys => { @with, %{ answered($asked, device(), 'create') } }), @token_invalid,
    'nor with that of another login that has to');
$none = in(enrolled($badge), 'control: with its own one');
is_problem(http_get($port, '/api/auth/me', token => asked('login')->{challengeToken}), 401,
    'AUTH_ACCESS_TOKEN_REQUIRED', 'a challenge is no access token');

# -- answers that are not right

my $P = 'Platform::Test::Passkey';
my @page = map { [ $_->[0], $_->[1], client => $_->[2] ] } (
    [ 'another origin', 'origin', { origin => 'https://evil.test' } ],
    [ 'a longer origin', 'origin', { origin => 'https://app.example.com.evil.test' } ],
    [ 'a sibling that is not listed', 'origin', { origin => 'https://other.example.com' } ],
    [ 'no TLS', 'origin', { origin => 'http://app.example.com' } ],
    [ 'origins in an array', 'origin', { origin => ['https://app.example.com'] } ],
    [ 'a frame of another page', 'cross_origin', { crossOrigin => JSON::PP::true } ],
    [ 'the text false', 'cross_origin', { crossOrigin => 'false' } ],
    [ 'below another page', 'cross_origin', { topOrigin => 'https://evil.test' } ],
    [ 'another challenge', 'challenge', { challenge => 'A' x 43 } ],
    [ 'a challenge in an array', 'challenge', { challenge => ['A' x 43] } ],
    [ 'another ceremony', 'type', { type => 'payment.get' } ]);
my @wrong = (@page, [ 'another domain', 'rp_id', rp_id => 'evil.test' ], [ 'a domain below', 'rp_id', rp_id => 'app.example.com' ],
    [ 'no user verification', 'user_verified', flags => $P->PRESENT ],
    [ 'no user presence', 'user_present', flags => $P->VERIFIED ],
    [ 'synced though it may not be', 'backup', flags => $P->PRESENT | $P->VERIFIED | $P->SYNCED ]);
my @of_get = ([ 'may be synced suddenly', 'backup', flags => $P->PRESENT | $P->VERIFIED | $P->MAY_SYNC ],
    [ 'the user handle of another account', 'user', user => $badge->{user} ],
    [ 'an empty user handle', undef, user => '' ]);
for my $case (@wrong, @of_get) {
    my ($name, $reason, @how) = @$case;
    $pg->sql('delete from factor_failures');
    if (!grep { $_ == $case } @of_get) {
        my $res = register(access($one), device(), @how);
        is_problem($res, @not_accepted, "register: $name");
        like $res->body, qr/not accepted: $reason\./, '... and says so';
    }
    my @is = defined $reason ? @invalid : (400, 'REQUEST_INVALID');
    is_problem(enter($phone, @how), @is, "login: $name");
    my ($last) = reverse grep { $_->{event} eq 'auth.passkey.refused' } $identity->log_lines;
    is_deeply [ @$last{qw(reason accountId)} ], [ $reason, $one->{accountId} ], '... and the log says so' if $reason;
    is_problem(second(waiting('one'), $phone, @how), @is, "second: $name");
    is_problem(step_up(access($one), $phone, @how), @is, "step-up: $name");
}
is_problem(enter($phone, user => undef), @invalid, 'login: whose passkey it is has to be said');
in(second(waiting('one'), $phone, user => undef), 'control: not as a second factor');
my $thief = device();
@$thief{qw(id user)} = @$phone{qw(id user)};
is_problem(enter($thief), @invalid, 'login: signed by another key');
is_problem(enter(device()), @invalid, 'login: a passkey that nobody has registered');
in(enter($phone), 'control: as it is');
for my $user ([], [ user => undef ], [ user => $phone->{user} ]) {
    is_problem(second(waiting('one'), $badge, @$user), @invalid, "second: another account's passkey");
    is_problem(step_up(access($one), $badge, @$user), @invalid, "step-up: another account's passkey");
}
in(second(waiting('none'), $badge), 'control: its own account');

# -- what is not as it should be in JSON uses nothing up

my $right = sub ($for) { answered(asked($for => access($one)), $for eq 'register' ? device() : $phone, $answer{$for}[0]) };
for my $for (sort keys %answer) {
    my $good = $right->($for);
    my @bad = ((map { [ credential => $_ ] } undef, [], 'x', 1, {}), [ challengeToken => 1 ], [ challengeToken => undef ],
        (map { my $what = $_; map { [ $what => $_ ] } undef, 1, [], '', '*', 'x' } qw(id rawId)), [ type => 'password' ],
        map { my $what = $_; map { [ response => { %{ $good->{credential}{response} }, $what => $_ } ] } undef, 1, [], '', '=', 'AA==' }
            grep { !/userHandle|transports/ } sort keys %{ $good->{credential}{response} });
    push @bad, map { [ response => { %{ $good->{credential}{response} }, @$_ } ] } $for eq 'register'
        ? ([ transports => 1 ], [ transports => [1] ], [ attestationObject => 'A' x 12_000 ])
        : ([ userHandle => 1 ], [ userHandle => [] ], [ signature => 'A' x 1000 ], [ clientDataJSON => 'A' x 8000 ]);
    my @let = grep { $_->[1]->code ne 'REQUEST_INVALID' } map { my ($what, $is) = @$_;
        [ $what, $answer{$for}[1]->($what =~ /credential|Token/ ? { %$good, $what => $is }
            : { %$good, credential => { %{ $good->{credential} }, $what => $is } }, access($one)) ] } @bad;
    is_deeply [ map { "$_->[0]: " . $_->[1]->body } @let ], [], "$for: " . @bad . ' bodies of wrong types';
    my $res = $answer{$for}[1]->({ %$good, more => 'x' x 65_536 }, access($one));
    is_problem($res, 413, 'REQUEST_TOO_LARGE', "$for: a body of 64 KiB");
    like $answer{$for}[1]->($good, access($one))->status, qr/\A20[01]\z/, 'control: the challenge is still good';
}

# -- counters

my $key = device(counter => 5);
added(register(access($one), $key), 'a passkey that counts');
in(enter($key), 'a login');
my $fell = "select count(*) from audit_events where event = 'account.passkey_count_fell' and account_id = '$one->{accountId}'
    and by_account = account_id";
for my $counter (6, 3, 0) {
    my $before = $pg->sql($fell);
    is_problem(enter($key, counter => $counter), @invalid, "a counter of $counter after 6");
    is $pg->sql($fell), $before + 1, 'the audit has it';
    my ($last) = reverse grep { $_->{event} eq 'auth.passkey.refused' } $identity->log_lines;
    is_deeply [ @$last{qw(audit reason accountId)} ], [ JSON::PP::true, 'counter', $one->{accountId} ], 'and the log';
}
is_problem(second(waiting('one'), $key, counter => 6), @invalid, 'as a second factor');
is_problem(step_up(access($one), $key, counter => 6), @invalid, 'at a step-up');
in(enter($key, counter => 7), 'control: 7');
my $row = $pg->begin("select 1 from accounts where account_id = '$one->{accountId}' for update");
@sent = map { sent('login/passkey', answered(asked('login'), $key, 'get', counter => 9)) } 1 .. 2;
ok eventually(sub { $pg->sql("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") == 2 }),
    'two logins with one count, both checked';
$pg->end($row, 'rollback');
is_deeply [ sort map { $_->read_response->code } @sent ], [qw(AUTH_FACTOR_INVALID AUTH_LOGIN_SUCCESS)], 'one of them';

# -- a passkey once, ten factors

is_problem(register(access($one), $phone), 409, 'RESOURCE_EXISTS', 'a passkey that is registered');
my $several = logged_in('several');
is_problem(register(access($several), $phone), 409, 'RESOURCE_EXISTS', 'by another account');
is $pg->sql("select count(*) from recovery_codes where account_id = '$several->{accountId}'"), 0, 'which leaves nothing';
my $tablet = device();
added(register(access($several), $tablet), 'control: one of its own');
$pg->sql("insert into factors (account_id, factor_type, factor_name, confirmed_at, key_id, secret)
    select '$several->{accountId}', 'totp', 'x', now(), 'one', 'x' from generate_series(1, 9)");
is_problem(register(access($several), device()), 409, 'RESOURCE_LIMIT_REACHED', 'an eleventh factor');
$pg->sql("delete from factors where factor_id = (select factor_id from factors where account_id = '$several->{accountId}'
    and factor_type = 'totp' limit 1)");
my @tenth = map { answered(asked(register => access($several)), device(), 'create') } 1 .. 2;
$row = $pg->begin("select 1 from accounts where account_id = '$several->{accountId}' for update");
@sent = map { sent(passkeys => $_, token => access($several)) } @tenth;
ok eventually(sub { $pg->sql("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") == 2 }),
    'two tenth ones at once';
$pg->end($row, 'rollback');
is_deeply [ sort map { $_->read_response->code } @sent ], [qw(AUTH_FACTOR_ADDED RESOURCE_LIMIT_REACHED)], 'one of them';

# -- the first factor: one of several at once

sub confirmed ($account) {
    return $pg->sql("select string_agg(factor_type, ' ') from factors join accounts using (account_id)
        where account_name = '$account\@demo.test' and confirmed_at is not null");
}
my @first = map { my %of = (factorToken => login('two-workspaces')->json->{factorToken});
    +{ %of, %{ answered(call('passkeys/options', \%of)->json, device(), 'create') } } } 1 .. 2;
$row = $pg->begin("select 1 from accounts where account_name = 'two-workspaces\@demo.test' for update");
@sent = spread([ $identity, @more ], passkeys => @first);
ok $pg->waiting(2), 'two logins that have to get one, in two processes';
$pg->end($row, 'rollback');
is_deeply codes(@sent), { AUTH_LOGIN_SUCCESS => 1, AUTH_BUSY => 1 }, 'one of them';
is confirmed('two-workspaces'), 'passkey', 'which has the factor';

my ($theirs, $his) = map { access(logged_in('two-hundred')) } 1 .. 2;
my $new = call('factors', { type => 'totp' }, token => $his)->json;
my $add = answered(asked(register => $theirs), device(), 'create');
$row = $pg->begin("select 1 from accounts where account_name = 'two-hundred\@demo.test' for update");
@sent = sent(passkeys => $add, token => $theirs);
ok $pg->waiting(1), 'a session adds a passkey';
push @sent, sent("factors/$new->{factorId}/confirm", { code => totp($new->{secret}) }, token => $his);
ok $pg->waiting(2), 'and another one, by the credential too, confirms an app';
$pg->end($row, 'rollback');
is_deeply [ map { $_->read_response->code } @sent ], [qw(AUTH_FACTOR_ADDED AUTH_BUSY)], 'the first of them';
is confirmed('two-hundred'), 'passkey', 'alone';
is_problem(call("factors/$new->{factorId}/confirm", { code => totp($new->{secret}) }, token => $his), @stale,
    'and the other session has to step up');

# -- the last one of an account that has to have one, also when two go at once

$pg->sql("update accounts set factor_required = true where account_id = '$one->{accountId}'");
my @all = map { $_->{factorId} } @{ http_get($port, '/api/auth/factors', token => access($one))->json->{factors} };
is http($port, DELETE => "/api/auth/factors/$_", token => access($one))->status, 200, 'one of several'
    for splice @all, 2;
$row = $pg->begin("select 1 from accounts where account_id = '$one->{accountId}' for update");
@sent = map { my $http = Platform::Test::Http->new(port => $port);
    $http->send(http_request_bytes(DELETE => "/api/auth/factors/$_", token => access($one))); $http } @all;
ok eventually(sub { $pg->sql("select count(*) from pg_stat_activity where wait_event_type = 'Lock'") == 2 }),
    'both of two at once';
$pg->end($row, 'rollback');
is_deeply [ sort map { $_->read_response->code } @sent ], [qw(AUTH_FACTOR_LAST AUTH_FACTOR_REMOVED)], 'one is left';
$pg->sql("update accounts set factor_required = false where account_id = '$one->{accountId}'");
$pg->sql("delete from factors where account_id = '$one->{accountId}'");
$one = logged_in('one');
added(register(access($one), $_), 'as it was') for $phone, $laptop;

# -- accounts and passkeys that have ended

sub set ($account, $what) {
    return $pg->sql("set session_replication_role = replica; update accounts set $what
        where account_name = '$account\@demo.test'", user => 'postgres');
}
for my $case (
    [ 'another credential', "credential_hash = credential_hash || ' '", 'credential_hash = trim(credential_hash)', 1 ],
    [ 'a lockout', 'sessions_valid_after = now()', "sessions_valid_after = '-infinity'", 1 ],
    [ 'an account that was disabled', "status = 'DISABLED'", "status = 'ACTIVE'", 0 ],
) {
    my ($name, $then, $back, $in) = @$case;
    my $waiting = waiting('one');
    my $asked = asked(register => access($one));
    my $any = asked('login');
    set(one => $then);
    is_problem(second($waiting, $phone), @token_invalid, "$name ends a login that waits");
    isnt answer(register => $asked, device(), access($one))->status, 201, "$name ends a challenge for a new passkey";
    my $res = answer(login => $any, $phone);
    $in ? in($res, 'but not the passkey') : is_problem($res, @invalid, 'and its passkeys');
    set(one => $back);
}
$one = in(enter($phone), 'control: enabled again');
my ($gone) = map { $_->{factorId} } grep { $_->{type} eq 'passkey' }
    @{ http_get($port, '/api/auth/factors', token => access($one))->json->{factors} };
my $waiting = waiting('one');
is http($port, DELETE => "/api/auth/factors/$gone", token => access($one))->code, 'AUTH_FACTOR_REMOVED', 'removed';
is_problem(enter($phone), @invalid, 'login: a passkey that was removed');
is_problem(second($waiting, $phone), @invalid, 'second: a passkey that was removed');
in(second(waiting('one'), $laptop), 'control: another one');
my $c = Platform::Test::Commands->new(test => $t, env => { PLATFORM_LOG_LEVEL => 'error' });
is $c->done(qw(account show none@demo.test))->{factors}[0]{type}, 'passkey', 'account show';
$c->done(qw(account remove-factor none@demo.test --all));
is_problem(enter($badge), @invalid, 'a passkey that an operator removed');
$c->done(qw(account delete several@demo.test));
is_problem(enter($tablet), @invalid, 'of a deleted account');
is $pg->sql("select count(*) from passkey_users where account_id = '$several->{accountId}'"), 0, 'which leaves nothing';

# -- ten failures an account, over all factors

$waiting = waiting('one');
is_problem(second(login('one')->json, $phone), @invalid, "failure $_") for 1 .. 5;
is_problem(step_up(access($one), $phone), @invalid, "failure $_") for 6 .. 10;
my $limited = second($waiting, $laptop);
is_problem($limited, 429, 'AUTH_TOO_MANY_ATTEMPTS', 'then even the right one is refused');
cmp_ok $limited->header('Retry-After'), '>', 800, 'for fifteen minutes';
is_problem(step_up(access($one), $laptop), 429, 'AUTH_TOO_MANY_ATTEMPTS', 'at a step-up too');
$pg->sql('delete from factor_failures');
is step_up(access($one), $laptop)->status, 200, 'control: without failures';

# -- not offered

$pg->sql("insert into factors (account_id, factor_type, factor_name, confirmed_at, key_id, secret)
    values ('$one->{accountId}', 'totp', 'x', now(), 'one', 'x')");
is_deeply waiting('one')->{factors}, [qw(passkey totp recovery)], 'all kinds';
my %was = map { $_ => $right->($_) } keys %answer;
$waiting = waiting('one');
restart($identity, WEBAUTHN_RP_ID => undef, WEBAUTHN_ORIGINS => undef);
my @off = (403, 'AUTH_FACTOR_NOT_OFFERED');
is_problem($challenge{$_}->(access($one)), @off, "without a domain: no challenge, $_") for sort keys %challenge;
is_problem($answer{$_}[1]->($was{$_}, access($one)), @off, "without a domain: no answer, $_") for sort keys %answer;
is_problem(second($waiting, $laptop), @off, 'without a domain: no second factor');
is $pg->sql('select count(*) from factor_failures where cardinality(failed_at) > 0'), 0, 'which is no failure';
my $left = waiting('one');
is_deeply [ $left->{factors}, exists $left->{passkey} ? 1 : 0 ], [ [qw(totp recovery)], 0 ], 'the others are left';
restart($identity, map { (s/PLATFORM_//r => $env{$_}) } grep {/WEBAUTHN/} keys %env);
in(second($waiting, $laptop), 'control: with one');

$t->done;
