# PLATFORM_AUTH_MAX_SESSIONS: at a login the oldest sessions of the account
# past that number end, the expired ones first, and the log says which.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Platform::Test::Metrics;
use Test::More;

my $MANY = 100_000;

my $t = Platform::Test->new(timeout => 600);
my $pg = $t->postgres(settings => { max_wal_size => '1GB' });
my $identity = $t->identity_face(
    PLATFORM_AUTH_MAX_FAILURES    => 0,
    PLATFORM_AUTH_MAX_SESSIONS    => 3,
    PLATFORM_DB_STATEMENT_TIMEOUT => '5s',
);
my $port = $t->port('identity');
my $json = JSON::PP->new->utf8;

sub login {
    my ($account) = @_;

    return http_post($port, '/api/auth/login', json => {
        account => ($account // 'several') . '@demo.test',
        credential => 'Demo-passw0rd!' })->json;
}

sub refresh {
    return http_post($port, '/api/auth/refresh',
        json => { refreshToken => $_[0]{refreshToken} })->status;
}

sub session { return (jwt_decode($_[0]{refreshToken}))[1]{session_id} }

sub active {
    my ($account) = @_;

    return $pg->sql("select count(*) from auth_sessions s join accounts
        using (account_id) where s.status = 'ACTIVE'
        and account_name = '$account\@demo.test'");
}

# Which sessions the log says were ended for this, since the last call.
my $seen = 0;

sub ended {
    my @all = map { $_->{sessionId} } grep { $_->{audit} }
        map { $json->decode($_) } grep { /"auth\.session\.over_limit"/ }
        split /\n/, $identity->log_text;
    my @new = @all[ $seen .. $#all ];
    $seen = @all;
    return [ sort @new ];
}

sub ids { return [ sort map { session($_) } @_ ] }

# -- the oldest end

my $other = login('one');
my @s = map { login() } 1 .. 3;
is_deeply ended(), [], 'three of three: none ends';
push @s, login();
is_deeply ended(), ids($s[0]), 'the fourth ends the first';
is_deeply [ map { refresh($_) } @s ], [ 401, 200, 200, 200 ],
    'a refresh of each';
push @s, login();
is_deeply ended(), ids($s[1]), 'and the fifth the second, refreshed or not';
is active('several'), 3, 'three are left';
is refresh($other), 200, 'another account has its own';
my $metrics = metrics_scrape($port, '/actuator/prometheus');
is $metrics->{'identity_sessions_revoked_total{reason="limit"}'}, 2,
    'counted';

# -- what has expired ends before what lives, though it be younger

@s = map { login() } 1 .. 3;
ended();
my $middle = session($s[1]);
$pg->sql("update auth_sessions set expires_at = now()
    where session_id = '$middle'");
push @s, login();
is_deeply ended(), [$middle], 'an expired one first';
is refresh($s[0]), 200, 'and the oldest lives';

# -- sessions that a lockout has ended do not count

my $account = (jwt_decode($s[3]{refreshToken}))[1]{account_id};
$pg->sql("update accounts set sessions_valid_after = clock_timestamp()
    where account_id = '$account'");
@s = map { login() } 1 .. 3;
is_deeply ended(), [], 'locked out ones are no sessions any more';
is active('several'), 6, 'whatever their rows say';
$pg->sql("update auth_sessions set status = 'REVOKED', revoked_at = now()
    where account_id = '$account' and status = 'ACTIVE'
    and created_at <= (select sessions_valid_after from accounts where account_id = '$account')");

# -- one that is in use is not waited for, and ends with the next login

my $held = $pg->begin("select 1 from auth_sessions where session_id = '"
    . session($s[0]) . "' for update");
push @s, login();
is_deeply ended(), [], 'a row in use is passed over';
unlike $identity->log_text, qr/db\.error/, 'nobody waited for it';
ok $pg->end($held, 'rollback'), 'no more';
push @s, login();
is_deeply ended(), ids(@s[0, 1]), 'the next login makes up for it';

# -- the new session is not the oldest, though the clock was set back

$pg->sql("set session_replication_role = replica; update auth_sessions
    set created_at = created_at + interval '1 hour'
    where account_id = '$account' and status = 'ACTIVE'",
    user => 'postgres');
push @s, login();
is refresh($s[-1]), 200, 'a session from before the others';
is active('several'), 3, 'for which one of them ended';

# -- many at once

for my $round (1 .. 5) {
    my @all = http_parallel([ map { [ $port,
        http_request_bytes(POST => '/api/auth/login', json => {
            account => 'several@demo.test', credential => 'Demo-passw0rd!',
        }) ] } 1 .. 8 ]);
    my $ok = grep { $_ && $_->status == 200 } @all;
    cmp_ok $ok, '>=', 3, "$ok logins at once";
    is active('several'), 3, 'three are left';
}

# -- an account that had very many before there was a limit

$account = (jwt_decode(login('none')->{refreshToken}))[1]{account_id};
$pg->sql(<<"SQL", user => 'postgres');
set session_replication_role = replica;    -- triggers would take minutes
insert into auth_sessions (session_id, account_id, jti, created_at, expires_at)
select gen_random_uuid(), '$account', gen_random_uuid(),
       now() - n * interval '1 s', now() + interval '30 days'
  from generate_series(1, $MANY) n;
analyze auth_sessions;
SQL
ended();
my $before = active('none');
for my $n (1 .. 12) {    # past the plans made for one call each
    my $session = login('none');
    is refresh($session), 200, "very many: login $n";
}
is $before + 12 - active('none'), 12 * 100, 'each ends a hundred';
is scalar @{ ended() }, 12 * 100, 'and says which';
is $pg->sql("select count(*) from auth_sessions where account_id = '$account'
    and status = 'ACTIVE' and created_at < (select max(created_at)
    from auth_sessions where account_id = '$account'
    and status = 'REVOKED')"), 0, 'the oldest';

# -- no limit

$identity->stop;
$identity->{env}{PLATFORM_AUTH_MAX_SESSIONS} = 0;
$identity->start;
ended();
@s = map { login('one') } 1 .. 5;
is_deeply ended(), [], '0: none ends';
is_deeply [ map { refresh($_) } @s ], [ (200) x 5 ], '0: all live';

$t->done;
