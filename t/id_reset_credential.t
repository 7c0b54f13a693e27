# Reset codes: a person sets a credential, the first or another one; how often a code
# may be tried, over processes and restarts; what ends with it; what does not tell.

use Platform::Test;
use Platform::Test::Client;
use Platform::Test::Commands;

my $t = Platform::Test->new;
my $pg = $t->postgres;
my %env = (PLATFORM_AUTH_MAX_FAILURES => 0, PLATFORM_DB_SEED_ON_START => 'false',
    PLATFORM_AUTH_HASH_CONCURRENCY => 2);
my $c = Platform::Test::Commands->new(test => $t, env => { PLATFORM_LOG_LEVEL => 'error' });
my $identity = $t->identity_face(%env);
my $port = client_of($t);

my @account = (qw(account reset-code));
sub code ($who, @o) { return $c->done(@account, "$who\@demo.test", @o)->{resetCode} }
sub reset_by ($who, $code, $new = 'An0ther credential', %o) {
    return call('reset-credential', { account => $who =~ /@/ ? $who : "$who\@demo.test",
        resetCode => $code, newCredential => $new }, %o);
}
my @invalid = (401, 'AUTH_RESET_CODE_INVALID');
sub is_invalid ($res, $name) { return is_problem($res, @invalid, $name) }

# -- a code sets a credential, once

my $before = logged_in('one');
my $made = $c->audited(['account.reset_code_made'], @account, 'one@demo.test');
my $code = $made->{resetCode};
like $code, qr/\A(?:[A-Z2-7]{4}-){3}[A-Z2-7]{4}\z/, 'a code';
my (undef, $line) = $c->run(@account, 'several@demo.test');
like $line, qr/\A(?:[A-Z2-7]{4}-){3}[A-Z2-7]{4}\n\z/, 'for people: the code alone';
is $pg->sql("select count(*) from reset_codes where reset_codes::text like '%$code%'"), 0, 'is not kept';
my $res = reset_by(' ONE@demo.test', lc $code =~ s/-/ /gr);
is_deeply [ $res->status, $res->code ], [ 200, 'AUTH_RESET_CREDENTIAL_SUCCESS' ],
    'it sets a credential, in any letter case' or diag $res->body;
is refresh($before)->status, 401, 'and ends every session';
is login('one')->status, 401, 'the former credential is of no use';
is login('one', credential => 'An0ther credential')->status, 200, 'the new one is';
is_invalid(reset_by('one', $code), 'a code that was used');
is $pg->sql("select string_agg(concat_ws(' ', event, by_account = account_id), ', ' order by event_id)
    from audit_events where account_id = '$made->{accountId}' and event like 'account.%'"),
    'account.added, account.reset_code_made, account.credential_reset t', 'the audit: by its owner';

# -- what is refused: one answer

$code = code('several');
for my $case (
    [ 'of another account', one => $code ], [ 'of no account', 'nobody@demo.test' => $code ],
    [ 'of a disabled account', disabled => $code ], [ 'a wrong one', several => 'AAAA-AAAA-AAAA-AAAA' ],
    [ 'garbage', several => "\x{e9}" x 300 ], [ 'nothing', several => '' ],
    [ 'one character more', several => "${code}A" ], [ 'one less', several => substr $code, 0, -1 ],
) {
    my ($name, @p) = @$case;
    is_invalid(reset_by(@p), $name);
}
# Five were tries of the account's code.
is_invalid(reset_by('several', $code), 'and then the right one: five tries used it up');
$code = code('several');
is_problem(reset_by('several', $code, 'short'), 400, 'AUTH_CREDENTIAL_NOT_ALLOWED', 'a credential that is not allowed')
    for 1 .. 6;
is reset_by('several', $code)->status, 200, 'uses no code up';
my ($first, $second) = map { code('several') } 1 .. 2;
is_invalid(reset_by('several', $first), 'a code that another one replaced');
is reset_by('several', $second)->status, 200, 'by that one';
$code = code('several', qw(--ttl 5m));
$pg->sql("update reset_codes set expires_at = now() - interval '1 second'");
is_invalid(reset_by('several', $code), 'one that has expired');
$code = code('several');
$c->done(qw(account disable several@demo.test));
is_invalid(reset_by('several', $code), 'after account disable');
$c->refused(1, qr/the account is disabled; run account enable first/, @account, 'several@demo.test');
$c->done(qw(account enable several@demo.test));
is reset_by('several', $code)->status, 200, 'after account enable';
is_problem(call('reset-credential', { account => 'a', resetCode => 'b' }), 400, 'REQUEST_INVALID', 'no credential');
is_problem(call('reset-credential', { account => '', resetCode => 'b', newCredential => 'c' }), 400,
    'REQUEST_INVALID', 'no account');

# -- an attempt without a live code writes as much as one that counts

sub written { return $pg->sql('select (select coalesce(sum(misses), 0) from reset_misses), (select sum(tries) from reset_codes)') }
code('several');
for my $case ([ 'a live code', several => '0|1' ], [ 'no account', 'nobody@demo.test' => '1|0' ],
    [ 'a disabled account', disabled => '1|0' ], [ 'an account without a code', 'two-workspaces' => '1|0' ])
{
    my ($name, $who, $want) = @$case;
    my @was = split /\|/, written();
    is_invalid(reset_by($who, 'wrong'), $name);
    my @is = split /\|/, written();
    is join('|', map { $is[$_] - $was[$_] } 0, 1), $want, "$name: one row";
}

# -- an invitation

$c->done(qw(account add invited@demo.test --no-login));
is login('invited', credential => 'An0ther credential')->status, 401, 'an account without a credential';
is reset_by('invited', code('invited'))->status, 200, 'a code is an invitation';
is login('invited', credential => 'An0ther credential')->status, 200, 'after which it has one';
$c->done(qw(client add job --allow audit:read));
$c->refused(1, qr/is a client: it has no credential/, @account, 'job');

# -- many at once: one wins; no more than five tries, over processes and restarts

my @more = map { $t->identity(%env, name => "more$_") } 1 .. 2;
sub begin_at ($of, $guess) {
    my $body = sprintf '{"account":"several@demo.test","resetCode":"%s","newCredential":"An0ther credential"}', $guess;
    my $client = $t->fcgi($of->address);
    $client->send(Platform::Test::Fcgi::request_bytes(POST => '/api/auth/reset-credential', body => $body));
    return $client;
}
sub status ($of, $guess) { return begin_at($of, $guess)->read_answer->{status} }

$code = code('several');
my @begun = map { begin_at(($identity, @more)[ $_ % 3 ], $code) } 1 .. 6;
my %got;
$got{ $_->read_answer->{status} }++ for @begun;
is_deeply \%got, { 200 => 1, 401 => 5 }, 'used six times at once, in three processes: once';

$code = code('several');
status($more[ $_ % 2 ], "AAAA-AAAA-AAAA-AAA$_") for 2 .. 5;
is $pg->sql('select tries from reset_codes where tries between 1 and 4'), 4, 'four tries in two processes';
$identity->stop;
$identity->start;
client_of($t, $port);
is_invalid(reset_by('several', 'AAAA-AAAA-AAAA-AAA7'), 'the fifth in another one, after a restart');
is_invalid(reset_by('several', $code), 'the right code is too late');

# -- a login with the former credential that runs meanwhile: its session ends, or it fails

sub held_by ($when, $table) {
    $pg->sql("drop trigger if exists hold on $_", user => 'postgres') for qw(auth_sessions accounts);
    $pg->sql("create or replace function hold() returns trigger language plpgsql as \$\$
        begin perform pg_advisory_xact_lock(4711); return new; end \$\$;
        create trigger hold before $when on $table for each row execute function hold()", user => 'postgres');
    return $pg->begin('select pg_advisory_xact_lock(4711)');
}
sub begun ($what, %o) { return sent($what => { account => 'several@demo.test', %o }) }
$code = code('several');
is login('several', credential => 'An0ther credential')->status, 200, 'the former credential, before';
my $gate = held_by('insert', 'auth_sessions');
my $login = begun(login => credential => 'An0ther credential');
ok $pg->waiting(1), 'a login is about to open its session';
my $reset = begun('reset-credential', resetCode => $code, newCredential => 'A th1rd credential');
ok $pg->waiting(2), 'and the reset waits for it';
$pg->end($gate, 'commit');
my @both = map { $_->read_response } $login, $reset;
is_deeply [ map { $_->status } @both ], [ 200, 200 ], 'both succeed';
is refresh($both[0]->json)->status, 401, 'and the session is over';
is login('several', credential => 'A th1rd credential')->status, 200, 'control: a later login';
$code = code('several');
$gate = held_by('update', 'accounts');
$reset = begun('reset-credential', resetCode => $code, newCredential => 'A f0urth credential');
ok $pg->waiting(1), 'a reset has begun';
$login = begun(login => credential => 'A th1rd credential');
ok $pg->waiting(2), 'and a login waits for it';
$pg->end($gate, 'commit');
is_deeply [ map { $_->read_response->status } $reset, $login ], [ 200, 401 ], 'the reset alone succeeds';
$pg->sql('drop trigger hold on accounts', user => 'postgres');

# -- limits

my $limited = $t->identity(%env, PLATFORM_AUTH_MAX_FAILURES => 3, name => 'limited');
$code = code('several');
is status($limited, 'x'), 401, "failure $_" for 1 .. 3;
is status($limited, $code), 429, 'one more is counted as a failed login is';
$t->done;
