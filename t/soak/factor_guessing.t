# A day of guessing at second factors, by 200 connections over three identity processes,
# in a minute and a half: all clocks, PostgreSQL's too, go on in steps.  Processes
# are killed, and PostgreSQL crashes.  However the tries fall, no fifteen minutes have
# more than ten of an account that reached the check, and no factorToken has more than
# five.  The owners log in with right codes meanwhile, which resets nothing.
#
# GUESSING_DAYS (1).

use feature qw(say state);
use List::Util qw(max shuffle);
use Platform::Test;
use Platform::Test::Authenticator qw(totp);
use Platform::Test::Client;
use Platform::Test::Load;
use Time::HiRes qw(sleep time);

my $DAY = 86_400 * ($ENV{GUESSING_DAYS} // 1);
my ($CONNECTIONS, $LOGINS) = (200, 4);
my ($WINDOW, $MOST, $TRIES) = (900, 10, 5);
my @STEPS = (7, 60, 240, 450, 899, 901, 1300);    # seconds that pass at once, twice a second
my $FAKETIME = (glob '/usr/lib/*/faketime/libfaketimeMT.so.1')[0]
    // Platform::Test::Env::needs('libfaketime');

my $t = Platform::Test->new(timeout => 300 + $DAY / 100)
    ->allow(qr/upstream|connect\(\) to unix|recv\(\) failed|exited on signal 9/);

# -- the clock of all servers: the machine's, and what has passed

my $passed = 0;
my $clock = $t->write_file('passed', "+0\n");
chmod 0755, $t->dir;
my %clock = (LD_PRELOAD => $FAKETIME, FAKETIME_TIMESTAMP_FILE => $clock, FAKETIME_NO_CACHE => 1,
    FAKETIME_DONT_FAKE_MONOTONIC => 1);

sub clock { return time + $passed }

sub go_on ($seconds) {
    $passed += $seconds;
    Platform::Test::Env::put($clock, "+$passed\n");
}

my $pg = $t->postgres(via => [ 'env', map {"$_=$clock{$_}"} sort keys %clock ]);
my @identity = map { $t->identity(name => $_, %clock,
    PLATFORM_AUTH_FACTOR_KEYS => 'k=' . 'c2VjcmV0cyBvZiBmYWN0b3JzIG9mIHRoZSB0ZXN0MTI=',
    PLATFORM_JWT_ACCESS_TOKEN_TTL => '1d', PLATFORM_AUTH_MAX_SESSIONS => 0,
    PLATFORM_AUTH_MAX_FAILURES => 0, PLATFORM_DB_CONNECT_TIMEOUT => '2s') } qw(a b c);
$t->start_face('identities', http => 'keepalive_requests 1000000; upstream identities {'
    . join('', map { ' server ' . $_->nginx_address . ' max_fails=0;' } @identity) . ' }');
my $port = client_of($t);

# -- what the database counts, by its own clock: each try, and each that was taken back

$pg->sql(<<'SQL', user => 'postgres');
CREATE TABLE tried (account_id uuid, at timestamptz, counts integer);
CREATE FUNCTION tried() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER AS $$
DECLARE
  old_at timestamptz[] := CASE TG_OP WHEN 'UPDATE' THEN OLD.failed_at ELSE '{}' END;
  newest timestamptz := NEW.failed_at[cardinality(NEW.failed_at)];
BEGIN
  IF NOT newest = ANY (old_at) THEN
    INSERT INTO tried VALUES (NEW.account_id, newest, 1);
  ELSE
    INSERT INTO tried SELECT NEW.account_id, gone, -1 FROM unnest(old_at) AS gone
     WHERE NOT gone = ANY (NEW.failed_at);
  END IF;
  RETURN NULL;
END;
$$;
CREATE TRIGGER tried AFTER INSERT OR UPDATE ON factor_failures
  FOR EACH ROW EXECUTE FUNCTION tried();
SQL

# -- accounts: four at which everybody guesses, and two at which one does at a time, so
# that the owner gets in between

my @account = map { { n => $_, name => "guessed$_\@demo.test", calm => $_ > 4, busy => 0, failed => [], in_at => 0,
    asks => [], app => Platform::Test::Authenticator->new } } 1 .. 6;
for my $who (@account) {
    $pg->sql("insert into accounts (account_name, credential_hash) select '$who->{name}', credential_hash
        from accounts where account_name = 'one\@demo.test'");
    my $login = logged_in($who->{name});
    my %as = (token => $who->{token} = $login->{accessToken} // $login->{accountAccessToken});
    my $f = call('factors', { type => 'totp' }, %as)->json;
    my $step = int(clock() / 30);
    my $codes = call("factors/$f->{factorId}/confirm", { code => totp($f->{secret}, $step) }, %as)->json;
    $who->{app}->add($f->{factorId}, $f->{secret}, $step);
    $who->{app}->codes(@{ $codes->{recoveryCodes} });
    $who->{id} = $login->{accountId};
}
is $pg->sql('select count(*) from accounts where second_factor'), 6, 'six accounts with a factor';

# -- the clients, who also move the clock

my (%answers, %tries, @sure);
my ($logins, $calm) = (0, 0);    # under way; at accounts where one guesses at a time, since the last step

sub one_of { return $_[ rand @_ ] }

sub ask ($who, %more) {
    $logins++;
    return { path => '/api/auth/login', who => $who, op => 'login', begin => clock(), %more,
        json => { account => $who->{name}, credential => $Platform::Test::Client::CREDENTIAL } };
}

# Ends a login or, without one, steps up.
sub show ($who, $proof, $ask, %more) {
    my %json = (type => $proof->{type}, code => $proof->{code}, $ask ? (factorToken => $ask) : ());
    return { $ask ? (path => '/api/auth/verify-factor', op => 'verify')
        : (path => '/api/auth/step-up', op => 'step', token => $who->{token}),
        who => $who, ask => $ask, begin => clock(), json => \%json, %more };
}

# The owner comes when five guesses have failed.
sub owner ($who) {
    my $failed = grep { $_->[1] > clock() - $WINDOW } @{ $who->{failed} };
    return undef if $who->{owner} || $who->{busy} || $failed < 5 || $failed >= $MOST
        || $who->{in_at} > clock() - $WINDOW;
    return ask($who, owner => $who->{owner} = 1);
}

sub guess ($who) {
    return undef if $who->{calm} && ($who->{busy} || $who->{owner});
    my $ask = $who->{asks}[0];
    shift @{ $who->{asks} } if $ask && ++$ask->{used} > $TRIES + 3;
    $who->{busy}++;
    return ask($who) if !$ask && $logins < $LOGINS && rand() < 0.5;
    return show($who, $who->{app}->wrong(clock()), $ask && rand() < 0.7 ? $ask->{raw} : undef);
}

sub next_call ($client) {
    state $next_step = time + 1;
    if (time > $next_step && ($calm > 8 || time > $next_step + 2)) {
        ($next_step, $calm) = (time + 0.5, 0);
        go_on(one_of(@STEPS));
    }
    return undef if $passed >= $DAY;
    # Half of them come at once when the clock has gone on.
    return { wait => rand() < 0.5 ? max(0.05, $next_step - time) : 0.5 + rand }
        if $client->{rests} = !$client->{rests};
    for my $who (sort { $b->{calm} <=> $a->{calm} } shuffle @account) {
        my $call = delete $who->{next} // ($who->{calm} && owner($who) || guess($who));
        return $call if $call;
    }
    return { wait => 0.05 };
}

sub answered ($request, $answer) {
    my ($who, $op, $ask, $is_owner) = @$request{qw(who op ask owner)};
    $logins-- if $op eq 'login';
    $who->{busy}-- if !$is_owner;
    $calm++ if $who->{calm};
    $answers{ join ' ', $is_owner ? 'owner' : (), $op, @$answer{qw(status code)} }++;
    my ($token) = $answer->{body} =~ /"factorToken":"([^"]+)"/;
    if ($answer->{code} eq 'AUTH_FACTOR_INVALID') {
        push @{ $who->{failed} }, [ $request->{begin}, clock() ];
        $tries{$ask}++ if $ask;
    }
    if (!$is_owner) {
        push @{ $who->{asks} }, { raw => $token, used => 0 } if $token;
        return;
    }
    my $proof = $token && $who->{app}->proof(clock());
    return $who->{next} = show($who, $proof, $token, owner => 1) if $proof;
    @$who{qw(owner in_at)} = (0, $op eq 'verify' ? clock() : $who->{in_at});
}

# How many of an account's failures surely came within fifteen minutes, at most.
sub sure ($who) {
    my @failed = sort { $a->[0] <=> $b->[0] } @{ $who->{failed} };
    my $most = 0;
    for my $first (@failed) {
        my $n = grep { $_->[0] >= $first->[0] && $_->[1] < $first->[0] + $WINDOW } @failed;
        $most = max($most, $n);
    }
    return $most;
}

my $clients = Platform::Test::Crowd->new($t, 'clients', 1, sub {
    my $load = Platform::Test::Load->new(port => $port, clients => $CONNECTIONS);
    $load->run(\&next_call, \&answered);
    say "answer $_ $answers{$_}" for sort keys %answers;
    say "failed $_->{n} ", scalar @{ $_->{failed} } for @account;
    say "sure $_->{n} ", sure($_) for @account;
    say 'tries of a token ', max(0, values %tries);
});

# -- meanwhile, in turn: a process is killed, PostgreSQL crashes

my %killed;
while ($clients->[0]->alive) {
    sleep 1 + rand 3;
    my $what = ++$killed{all} % 4 ? one_of(@identity) : $pg;
    $what->stop($what == $pg ? one_of(qw(QUIT KILL)) : 'KILL');
    $what->start;
    $killed{ $what == $pg ? 'postgres' : 'identity' }++;
}
ok $clients->ends(1), 'the clients came to their end' or diag $clients->lines;
my %got = %{ $clients->sums };
diag join "\n", map {"$got{$_} $_"} sort keys %got;
diag "killed: $killed{identity} times a process, $killed{postgres} times PostgreSQL";

# -- the verdict

sub sql ($sql) { return $pg->sql($sql, user => 'postgres') }

sql('create table failed as select account_id, at from tried group by account_id, at having sum(counts) > 0');
my %logged;
for (map { $_->log_text =~ /^(.*"auth\.factor\.failed".*)$/mg } @identity) {
    $logged{$1}++ if /"accountId":"([^"]+)"/;
}
for my $who (@account) {
    my $n = sql("select count(*) from failed where account_id = '$who->{id}'");
    my $most = sql("select max(n) from (select count(*) over (order by at
        range between interval '899.999999 s' preceding and current row) as n
        from failed where account_id = '$who->{id}') as w");
    is $most, $MOST, "account $who->{n}: no fifteen minutes have more than ten tries, and some have ten";
    cmp_ok $got{"sure $who->{n}"}, '<=', $MOST, 'nor as clients see it';
    cmp_ok $got{"failed $who->{n}"}, '<=', $n, 'each that was answered was counted';
    cmp_ok $logged{ $who->{id} }, '<=', $n, 'each that was logged was counted';
    cmp_ok $logged{ $who->{id} }, '>=', $got{"failed $who->{n}"}, 'each that was answered was logged';
    cmp_ok $n, '>', 3 * $DAY / $WINDOW, "control: $n tries of the day";
}
is $got{'tries of a token'}, $TRIES, 'a factorToken has five tries, and some have had five';
is $got{'answer verify 200 AUTH_LOGIN_SUCCESS'}, undef, 'no guess was right';
for my $what ('owner verify 200 AUTH_LOGIN_SUCCESS', map { my $op = $_; map {"$op $_"} '401 AUTH_FACTOR_INVALID',
    '429 AUTH_TOO_MANY_ATTEMPTS' } qw(verify step))
{
    cmp_ok $got{"answer $what"}, '>', $DAY / 4320, "control: $what";
}
cmp_ok $killed{$_} // 0, '>', 0, "control: $_ was killed" for qw(identity postgres);

$t->done;
