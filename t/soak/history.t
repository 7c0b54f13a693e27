# Many clients over two gateways and three identity processes do all that people do,
# while processes and PostgreSQL are killed, paused and restarted and clocks step.  Every
# call is recorded, and t/soak/check_history holds the record against the rules.
#
# HISTORY_SECONDS (60), HISTORY_CALLS (a million at most), HISTORY_RATE (calls a second,
# at most), HISTORY_WINDOW (seconds for a retry, 10), HISTORY_SEED; HISTORY_KEEP=1 leaves
# the record where it is.

use feature 'state';
use Digest::SHA qw(sha256_hex);
use File::Temp qw(tempdir);
use MIME::Base64 qw(decode_base64url);
use Platform::Test;
use Platform::Test::Authenticator;
use Platform::Test::Calls;
use Platform::Test::Clock;
use POSIX qw(WNOHANG _exit);
use Time::HiRes qw(time);

my $SECONDS = $ENV{HISTORY_SECONDS} // 60;
my $CALLS = $ENV{HISTORY_CALLS} // 1_000_000;
my $RATE = $ENV{HISTORY_RATE} // 320;
my $SEED = $ENV{HISTORY_SEED} // int time;
my ($CLIENTS, $SESSIONS, $ACCOUNTS) = (40, 60, 24);
my ($ACCESS_TTL, $WINDOW, $FAILURES, $LOCKOUT) = (30, $ENV{HISTORY_WINDOW} // 10, 5, 10);
my ($ID_STEP, $GATEWAY_STEP) = (8, 4);    # seconds that clocks are off, at most
my $FAKETIME = (glob '/usr/lib/*/faketime/libfaketimeMT.so.1')[0]
    // Platform::Test::Env::needs('libfaketime');

my $start = Platform::Test::Calls::now();
my $record = tempdir('history-XXXXXX', DIR => '/var/tmp', CLEANUP => !$ENV{HISTORY_KEEP});
my $t = Platform::Test->new(timeout => 4 * $SECONDS + 600);
diag "seed $SEED, record in $record";

sub clock { return sprintf '%.6f', Platform::Test::Calls::now() - $start }

# -- accounts: every fourth has one branch, the others four; every third has no second
# factor, another third gets and drops them

my $pg = $t->postgres(durable => 1);

sub id_of ($kind, $n) { return sprintf '%08x-0000-4000-8000-%012d', $kind, $n }

my @account = map { {
    n => $_, id => id_of(3, $_), name => "history$_\@demo.test", address => "10.1.$_.7",
    secret => 'k0', maybe => [], app => Platform::Test::Authenticator->new, failed => [],
    branches => [ map { id_of(5, $_) } 10 * $_ .. 10 * $_ + ($_ % 4 ? 3 : 0) ] } } 1 .. $ACCOUNTS;
for my $who (@account) {
    $who->{can} = { map { $_ => [qw(CASHIER MANAGER)] } @{ $who->{branches} } };
}

sub sql_of ($who) {
    my ($member, $workspace) = (id_of(4, $who->{n}), id_of(2, $who->{n}));
    my @sql = ("delete from branch_grants where member_id = '$member'");
    for my $b (sort keys %{ $who->{can} }) {
        push @sql, "insert into branch_grants (member_id, branch_id, workspace_id)"
            . " values ('$member', '$b', '$workspace')";
        push @sql, map {"insert into member_roles values ('$member', '$b', '$_')"}
            @{ $who->{can}{$b} };
    }
    return join ';', 'begin', @sql, 'commit';
}

sub can_of ($who) {
    my $path = join '/', id_of(2, $who->{n}), id_of(1, 1), id_of(4, $who->{n});
    return join ',', map { "$path/$_:" . join '+', @{ $who->{can}{$_} } }
        sort keys %{ $who->{can} };
}

$pg->sql("insert into tenants (tenant_id, tenant_name) values ('" . id_of(1, 1) . "', 'History')");
for my $who (@account) {
    my ($a, $w, $m) = ($who->{id}, id_of(2, $who->{n}), id_of(4, $who->{n}));
    $pg->sql(join ';', "insert into accounts (account_id, account_name, credential_hash)
            select '$a', '$who->{name}', credential_hash from accounts
            where account_name = 'one\@demo.test'",
        "insert into workspaces (workspace_id, tenant_id, workspace_name)
            values ('$w', '" . id_of(1, 1) . "', 'W$who->{n}')",
        "insert into members (member_id, account_id, workspace_id) values ('$m', '$a', '$w')",
        map {"insert into branches (branch_id, workspace_id, branch_name)
            values ('$_', '$w', 'B$_')"} @{ $who->{branches} });
    $pg->sql(sql_of($who));
}

# -- three identity processes with clocks of their own, two gateways

my $issuer = 'http://127.0.0.1:' . $t->port('identity');
my @identity = map {
    my $clock = $t->write_file("$_.clock", "+0\n");
    $t->identity(name => $_, PLATFORM_JWT_ISSUER => $issuer,
        LD_PRELOAD => $FAKETIME, FAKETIME_TIMESTAMP_FILE => $clock,
        FAKETIME_NO_CACHE => 1, FAKETIME_DONT_FAKE_MONOTONIC => 1,
        PLATFORM_JWT_ACCESS_TOKEN_TTL => "${ACCESS_TTL}s",
        PLATFORM_AUTH_REFRESH_RETRY_WINDOW => $WINDOW ? "${WINDOW}s" : undef,
        PLATFORM_AUTH_MAX_FAILURES => $FAILURES, PLATFORM_AUTH_FAILURE_WINDOW => "${LOCKOUT}s",
        PLATFORM_AUTH_FACTOR_KEYS => 'k=' . 'c2VjcmV0cyBvZiBmYWN0b3JzIG9mIHRoZSB0ZXN0MTI=',
        PLATFORM_AUTH_MAX_SESSIONS => 0, PLATFORM_REQUEST_TIMEOUT => '5s',
        PLATFORM_DB_STATEMENT_TIMEOUT => '3s', PLATFORM_DB_CONNECT_TIMEOUT => '2s')
} qw(a b c);
my $stack = $t->full_stack(identity => \@identity,
    env => { PLATFORM_TRUSTED_PROXIES => '127.0.0.1' });
my $second = Platform::Test->new(timeout => 4 * $SECONDS + 600);
my $other = $second->render_nginx({ %{ $stack->{env} },
    PLATFORM_ENTITLEMENT_URL => 'http://127.0.0.1:' . $t->port('stub') },
    join ' ', map { $_->address } @identity);
my $gateway_clock = Platform::Test::Clock->new($second, $other);
$second->track($other)->start;
my @gate = ($stack->gateway, $second->port('gateway'));
ok eventually(sub { eval { http_get($_, '/readyz')->status == 200 } }, 20), "gateway $_"
    for @gate;
$_->allow(qr/upstream|connect\(\) to unix|recv\(\) failed|exited on signal 9|open socket/)
    for $t, $second;

# -- the record

open my $out, '>', "$record/faults" or die "$record: $!\n";
$out->autoflush(1);
print {$out} 'rule epoch=', sprintf('%.6f', time - clock()), " issuer=$issuer window=$WINDOW ",
    "failures=$FAILURES lockout=$LOCKOUT reach=1 recover=3 leeway=30 doubt=25 ",
    'away=crash,postgres-restart,postgres-pause,gateway-pause,identity-pause,gateway-clock ',
    'skew=', $ID_STEP + $GATEWAY_STEP, " access_ttl=$ACCESS_TTL refresh_ttl=", 30 * 86400, "\n";
for my $who (@account) {
    print {$out} "call 0 0 set 200 OK account=$who->{id} to=k0\n",
        "call 0 0 grant 200 OK account=$who->{id} type=CUSTOMER can=", can_of($who), "\n";
}

# -- the clients, in a process of their own

my (@live, @soon, %operator, $calls, $record_fh, $end);
my $clients = Platform::Test::Crowd->new($t, 'clients', 1, \&clients);

sub one_of { return @_ ? $_[ rand @_ ] : undef }

sub clients {
    srand $SEED;
    open $record_fh, '>', "$record/calls" or die "$record: $!\n";
    $calls = Platform::Test::Calls->new(clients => $CLIENTS, rate => $RATE);
    $end = time + $SECONDS;
    $calls->run(\&next_call, \&answered);
    finish_operator() while $operator{pid};

    # Calm again: whoever is in can go on, whoever is out is out.
    sleep 3;
    my @after = map { my $s = $_; (refresh($s), list($s), context($s)) } @live;
    $end = time + 60;
    $calls->run(sub { shift @after }, \&answered);
    close $record_fh or die "$record: $!\n";
}

sub next_call {
    return undef if time > $end || $calls->begun >= $CALLS;
    operate();
    if (@soon && $soon[0]{at} <= time) {
        my $todo = shift @soon;
        return $todo->{make}->() || 0;
    }
    state $login_at = time;
    state $guess_at = time + 2;
    if (time > $login_at && @live < $SESSIONS) {
        $login_at = time + 0.15;
        return login(one_of(@account));
    }
    if (time > $guess_at) {
        $guess_at = time + 4;
        return guess(one_of(@account));
    }
    state $factor_at = time + 2;
    if (time > $factor_at) {
        $factor_at = time + 5;
        return guess_factor(one_of(grep { $_->{app}->apps } @account));
    }
    my $s = one_of(@live) // return 0;
    my $dice = rand;
    return context($s) if ($dice -= 0.42) < 0;
    return refresh($s) if ($dice -= 0.22) < 0;
    return refresh($s, $s->{before}) if ($dice -= 0.06) < 0;
    return select_branch($s) if ($dice -= 0.10) < 0;
    return care($s) if ($dice -= 0.02) < 0;
    return list($s) if ($dice -= 0.10) < 0;
    return refresh($s, one_of(@{ $s->{old} })) if ($dice -= 0.03) < 0;
    return select_branch($s, one_of(@{ one_of(@account)->{branches} })) if ($dice -= 0.01) < 0;
    return context($s, 'account') if ($dice -= 0.01) < 0;
    return logout($s) if ($dice -= 0.004) < 0;
    return end_session($s) if ($dice -= 0.006) < 0;
    return act($s, 'others', POST => '/api/auth/logout-others') if ($dice -= 0.002) < 0;
    return act($s, 'all', POST => '/api/auth/logout-all') if ($dice -= 0.001) < 0;
    return change($s) if ($dice -= 0.0015) < 0;
    return context($s);
}

# Something to be asked a while from now.
sub in_a_while ($seconds, $make) {
    @soon = sort { $a->{at} <=> $b->{at} } @soon, { at => time + $seconds, make => $make };
}

# -- what clients ask for: { port, bytes, op, say => what the record says of it }

sub request ($op, $method, $path, $address, $token, $body, $say, %more) {
    my $gate = int rand @gate;
    my $bytes = "$method $path HTTP/1.1\r\nHost: localhost\r\nX-Forwarded-For: $address\r\n"
        . "User-Agent: history\r\n" . ($token ? "Authorization: Bearer $token\r\n" : '')
        . (defined $body ? "Content-Type: application/json\r\nContent-Length: " . length($body)
            . "\r\n\r\n$body" : $method eq 'GET' ? "\r\n" : "Content-Length: 0\r\n\r\n");
    return { port => $gate[$gate], bytes => $bytes, op => $op, say => "$say gate=$gate", %more };
}

sub text_of ($secret) { return $secret eq 'k0' ? 'Demo-passw0rd!' : "history-secret-$secret" }

# With the secret that it has, or may have where a change was not answered.
sub login ($who, %o) {
    my $secret = $o{secret} // one_of($who->{secret}, @{ $who->{maybe} });
    my $address = $o{address} // $who->{address};
    return request('login', POST => '/api/auth/login', $address, undef,
        qq({"account":"$who->{name}","credential":") . text_of($secret) . '"}',
        "account=$who->{id} address=$address secret=$secret", who => $who, secret => $secret);
}

# Somebody from elsewhere tries wrong credentials, then the right one, at once and when
# the lockout is over; some of it at another endpoint.
sub guess ($who) {
    state $n = 0;
    $n++;
    my $address = join '.', 10, 2 + ($n >> 16), $n >> 8 & 255, $n & 255;
    my @s = grep { $_->{who} == $who } @live;
    for my $i (1 .. $FAILURES + 2) {
        in_a_while(0.3 * rand, sub {
            my $s = $i % 3 ? undef : one_of(@s);
            return $s && change($s, secret => 'wrong', address => $address)
                || login($who, secret => 'wrong', address => $address);
        });
    }
    in_a_while($_, sub { login($who, address => $address) }) for 0.6, 1 + rand 6, $LOCKOUT + 2;
    in_a_while(2 + rand 5, sub {
        my $s = one_of(grep { $_->{who} == $who } @live) // return;
        return change($s, secret => 'wrong', address => $address);
    }) for 1 .. 2;
    return login($who, secret => 'wrong', address => $address);
}

sub refresh ($s, $token = undef) {
    $token //= $s->{refresh};
    my $extra = rand() < 0.4 ? ',"includeAccountToken":true' : '';
    return request('refresh', POST => '/api/auth/refresh', $s->{who}{address}, undef,
        qq({"refreshToken":"$token->{raw}"$extra}), "session=$s->{id} jti=$token->{jti}",
        s => $s, token => $token);
}

# With an access token of that kind, or of any.
sub act ($s, $op, $method, $path, %o) {
    my $token = $o{token} // one_of(grep {$_} @$s{qw(account workspace)}) // return refresh($s);
    return request($op, $method => $path, $o{address} // $s->{who}{address}, $token->{raw},
        $o{body}, join(' ', "session=$s->{id} account=$s->{who}{id} token=$token->{jti}",
            $o{say} // ()), s => $s, %{ $o{more} // {} });
}

sub context ($s, $kind = 'workspace') {
    return act($s, 'context', GET => '/api/workspaces/current-context',
        token => $s->{$kind} // return select_branch($s));
}

sub list ($s) { return act($s, 'list', GET => '/api/auth/sessions') }

sub select_branch ($s, $branch = one_of(@{ $s->{who}{branches} })) {
    return act($s, 'select', POST => '/api/auth/select-branch', say => "branch=$branch",
        body => qq({"branchId":"$branch"}), token => $s->{account} // return refresh($s));
}

sub logout ($s) {
    my $token = one_of($s->{refresh}, @{ $s->{old} });
    return request('logout', POST => '/api/auth/logout', $s->{who}{address}, undef,
        qq({"refreshToken":"$token->{raw}"}), "session=$s->{id} jti=$token->{jti}", s => $s);
}

sub end_session ($s) {
    my $target = one_of(grep { $_->{who} == $s->{who} } @live);
    return act($s, 'end', DELETE => "/api/auth/sessions/$target->{id}",
        say => "target=$target->{id}", more => { target => $target });
}

sub change ($s, %o) {
    state $n = 0;
    my $who = $s->{who};
    return list($s) if $who->{changing} && !$o{secret};
    my ($secret, $to) = ($o{secret} // $who->{secret}, 'k' . ++$n);
    my $address = $o{address} // $who->{address};
    $who->{changing} = 1 if !$o{secret};
    return act($s, 'change', POST => '/api/auth/change-credential', address => $address,
        body => sprintf('{"credential":"%s","newCredential":"%s"}', text_of($secret), text_of($to)),
        say => "address=$address secret=$secret to=$to",
        more => { who => $who, to => $to, own => !$o{secret} });
}

# -- second factors

# What a call shows: { type, code, label }.
sub shown ($proof) { return qq("type":"$proof->{type}","code":"$proof->{code}") }

# What is right and was not shown before, or else what is not; undef where that would be
# one failure too many.
sub proof_of ($who, $wrong = 0) {
    my $proof = $wrong ? undef : $who->{app}->proof(time);
    return $proof if $proof;
    my $failed = $who->{failed};
    @$failed = grep { $_ > time - 900 } @$failed;
    return undef if !$wrong || @$failed > 5 && $who->{n} != $ACCOUNTS - 2;
    push @$failed, time;
    return rand() < 0.4 && $who->{last} || $who->{app}->wrong(time);
}

# Ends a login with a factor, or does not.
sub verify ($who, $ask, $wrong = rand() < 0.05) {
    my $proof = proof_of($who, $wrong) // return undef;
    $who->{last} = $proof;
    return request('verify', POST => '/api/auth/verify-factor', $who->{address}, undef,
        qq({"factorToken":"$ask->{raw}",) . shown($proof) . '}',
        "account=$who->{id} ask=$ask->{label} proof=$proof->{label}",
        who => $who, ask => $ask, secret => $ask->{secret});
}

# Several at once, most of them wrong.
sub guess_factor ($who = undef) {
    return 0 if !$who;
    my $s = one_of(grep { $_->{who} == $who } @live);
    return step_up($s, 1) if $s && rand() < 0.5;
    $who->{guess} = 4;
    return login($who);
}

sub step_up ($s, $wrong = rand() < 0.05) {
    my $who = $s->{who};
    if (!$who->{app}->apps) {
        my $secret = $who->{secret};
        return act($s, 'step', POST => '/api/auth/step-up',
            body => sprintf('{"type":"credential","credential":"%s"}', text_of($secret)),
            say => "address=$who->{address} secret=$secret proof=credential");
    }
    my $proof = proof_of($who, $wrong) // return list($s);
    $who->{last} = $proof;
    return act($s, 'step', POST => '/api/auth/step-up', body => '{' . shown($proof) . '}',
        say => "proof=$proof->{label}");
}

# Somebody looks after the factors of the account.
sub care ($s) {
    my $app = $s->{who}{app};
    my ($kind, $dice, @apps) = ($s->{who}{n} % 3, rand, $app->apps);
    return context($s) if !$kind;
    return step_up($s) if $dice < 0.3 || !$s->{fresh};
    return drop($s, one_of(@apps)) if @apps && $dice < ($kind == 2 ? 0.5 : 0.33);
    return act($s, 'codes', POST => '/api/auth/recovery-codes', body => '{}')
        if @apps && $dice < 0.6;
    return act($s, 'add', POST => '/api/auth/factors', body => '{"type":"totp"}') if @apps < 2;
    return step_up($s);
}

sub confirm ($s, $factor) {
    my $step = int(time / 30);
    my $code = Platform::Test::Authenticator::totp($factor->{secret}, $step);
    return act($s, 'confirm', POST => "/api/auth/factors/$factor->{id}/confirm",
        body => qq({"code":"$code"}), say => "factor=$factor->{id} proof=$factor->{id}:$step",
        more => { factor => { %$factor, step => $step } });
}

sub drop ($s, $id) {
    return act($s, 'drop', DELETE => "/api/auth/factors/$id", say => "factor=$id",
        more => { factor => { id => $id } });
}

# -- their answers

sub token_of ($raw) {
    my $claims = decode_base64url((split /\./, $raw)[1]);
    my ($jti, $kind) = map { $claims =~ /"$_":"([^"]+)"/ } qw(jti token_type);
    return { raw => $raw, jti => $jti, kind => $kind, claims => $claims };
}

sub answered ($request, $status, $body, $begin, $done) {
    my ($code) = $request->{op} eq 'context' && $status == 200 ? () : $body =~ /"code":"(\w+)"/;
    my $yes = $status == 200;
    my @say = ($request->{say}, $body =~ /may or may not/ ? 'doubt=1' : ());
    my ($ask) = $body =~ /"factorToken":"([^"]+)"/;
    $request->{asked} = { raw => $ask, label => 'f' . substr(sha256_hex($ask), 0, 16),
        secret => $request->{secret} } if $ask;
    push @say, "ask=$request->{asked}{label}" if $ask;
    my @codes = $body =~ /"recoveryCodes":\[(.*?)\]/ ? $1 =~ /"([^"]+)"/g : ();
    push @say, 'codes=' . join ',', map { Platform::Test::Authenticator::code_label($_) } @codes
        if @codes;
    @$request{qw(id key)} = $body =~ /"factorId":"([^"]+)".*"secret":"([^"]+)"/ if $status == 201;
    push @say, "factor=$request->{id}" if $status == 201;
    my %got = $yes && $body =~ /oken":"/ ? map { my ($member) = $_;
        $body =~ /"$member":"([^"]+)"/ ? ($member => token_of($1)) : () }
        qw(refreshToken accessToken accountAccessToken) : ();
    push @say, "refresh=$got{refreshToken}{claims}" if $got{refreshToken};
    push @say, "access=$got{accessToken}{claims}" if $got{accessToken};
    push @say, ($got{accessToken} ? 'extra=' : 'access=') . $got{accountAccessToken}{claims}
        if $got{accountAccessToken};
    push @say, 'branches=' . join ',', $1 =~ /"branchId":"([^"]+)"/g
        if $yes && $body =~ /"branches":\[(.*?)\]/;
    push @say, "ended=$1" if $yes && $body =~ /"endedSessions":(\d+)/;
    push @say, 'sessions=' . join(',', $body =~ /"sessionId":"([^"]+)"/g) . ' current='
        . join(',', $body =~ /"sessionId":"([^"]+)","current":true/g)
        . ($body =~ /"more":true/ ? ' more=1' : '') if $yes && $request->{op} eq 'list';
    push @say, 'echo=' . join '/', map { ($body =~ /"X-$_": "([^"]*)"/)[0] // '' }
        qw(Account-Id Session-Id Workspace-Id Tenant-Id Member-Id Active-Branch-Id)
        if $yes && $request->{op} eq 'context';
    $say[-1] .= '/' . join '+', sort split /,/, ($body =~ /"X-Roles": "([^"]*)"/)[0] // ''
        if $yes && $request->{op} eq 'context';
    printf {$record_fh} "call %.6f %.6f %s %s %s %s\n", $begin - $start, $done - $start,
        $request->{op}, $status, $code // '-', join ' ', @say;
    my $learn = main->can("learn_$request->{op}");
    $learn->($request, $status, $code // '', \%got, \@codes) if $learn;
    my $s = $request->{s} // return;
    gone($s) if $status == 401 && $code =~ /^(?:AUTH_SESSION_NOT_ACTIVE|GATEWAY_TOKEN_INVALID)$/;
    $s->{account} = $got{accountAccessToken} if $got{accountAccessToken};
    $s->{workspace} = $got{accessToken} if $got{accessToken};
}

sub learn_login ($request, $status, $code, $got, @) {
    my $who = $request->{who};
    return if $status != 200;
    return learn_asked($who, $request->{asked}) if $request->{asked};
    my ($id) = $got->{refreshToken}{claims} =~ /"session_id":"([^"]+)"/;
    my $s = { id => $id, who => $who, refresh => $got->{refreshToken}, old => [], stale => 0,
        account => $got->{accountAccessToken}, workspace => $got->{accessToken} };
    if (rand() < 0.1) {
        rests($s);
    }
    else {
        push @live, $s;
    }
    $who->{secret} = $request->{secret};
    $who->{maybe} = [] if $who->{sure_at} && time > $who->{sure_at};
}

# Most people have their code at hand; some take their time, or try again with what they
# had; a few come when it is too late.
sub learn_asked ($who, $ask) {
    my $guesses = delete $who->{guess} // 0;
    in_a_while(0.2 * rand, sub { verify($who, $ask, 1) }) for 1 .. $guesses;
    in_a_while(rand() < 0.1 ? 20 * rand : 0.5 * rand, sub { verify($who, $ask) });
    in_a_while(6 + rand 30, sub { verify($who, $ask) }) if rand() < 0.2;
    in_a_while(290 + rand 20, sub { verify($who, $ask) }) if rand() < 0.1;
}

sub learn_verify ($request, $status, $code, $got, @) {
    return learn_login($request, $status, $code, $got) if $status == 200;
}

sub learn_step ($request, $status, $code, @) {
    $request->{s}{fresh} = $status == 200;
}

sub learn_add ($request, $status, $code, @) {
    my $s = $request->{s};
    return $s->{fresh} = 0 if $status != 201;
    my $factor = { id => $request->{id}, secret => $request->{key} };
    in_a_while(rand() < 0.2 ? 3 * rand : 0, sub { confirm($s, $factor) });
}

# It may count where no answer came.
sub learn_confirm ($request, $status, $code, $got, $codes) {
    my ($s, $factor) = @$request{qw(s factor)};
    return if $status =~ /^4/;
    $s->{who}{app}->add(@$factor{qw(id secret step)});
    $s->{who}{app}->codes(@$codes) if @$codes;
    $s->{fresh} = $status == 200;
    in_a_while(30 + rand 10, sub { confirm($s, $factor) }) if $status != 200;
}

sub learn_drop ($request, $status, $code, @) {
    my ($s, $factor) = @$request{qw(s factor)};
    $s->{fresh} = 0 if $status == 401;
    $s->{who}{app}->drop($factor->{id}) if $status == 200 || $status == 404;
}

sub learn_codes ($request, $status, $code, $got, $codes) {
    $request->{s}{fresh} = 0 if $status == 401;
    $request->{s}{who}{app}->codes(@$codes) if $status == 200;
}

# Refreshes, and asks again only when the time for that is over.
sub rests ($s) {
    my $token = $s->{refresh};
    in_a_while(0, sub { refresh($s) });
    in_a_while($WINDOW + 2, sub { refresh($s, $token) });
    in_a_while($WINDOW + 4, sub { push @live, $s; return refresh($s) });
}

# The first that knows what came after the token goes on with it.
sub learn_refresh ($request, $status, $code, $got, @) {
    my ($s, $token) = @$request{qw(s token)};
    if ($status == 200 && $token == $s->{refresh}) {
        push @{ $s->{old} }, $s->{before} if $s->{before};
        shift @{ $s->{old} } if @{ $s->{old} } > 20;
        @$s{qw(before refresh stale)} = ($token, $got->{refreshToken}, 0);
    }
    # Its successor was lost, and the time to ask for it again is over.
    gone($s, 'lost') if $code eq 'AUTH_REFRESH_TOKEN_STALE' && $token == $s->{refresh}
        && ++$s->{stale} > 5;
}

sub learn_logout ($request, $status, @) { ended($request->{s}) if $status == 200 }
sub learn_end ($request, $status, @) { ended($request->{target}) if $status == 200 }

sub learn_all ($request, $status, @) { others_ended($request->{s}{who}) if $status == 200 }

sub learn_others ($request, $status, @) {
    others_ended($request->{s}{who}, $request->{s}) if $status == 200;
}

sub learn_change ($request, $status, $code, $got, @) {
    my $who = $request->{who};
    return if !$request->{own};
    $who->{changing} = 0;
    learn_secret($who, $request->{to}, $status == 200) if $status == 200 || $status !~ /^4/;
    others_ended($who, $request->{s}) if $status == 200;
}

# Where it may have become this one, either may be right for a while.
sub learn_secret ($who, $to, $sure) {
    push @{ $who->{maybe} }, $sure ? $who->{secret} : $to;
    $who->{maybe} = [] if $sure;
    $who->{secret} = $to if $sure;
    $who->{sure_at} = time + 25;
}

sub gone ($s, @) { @live = grep { $_ != $s } @live }

# It is out everywhere: at once in identity, soon at the gateways.
sub ended ($s) {
    return if $s->{ended}++;
    gone($s);
    for my $in (0, 0.2, 0.5, 0.9, 1.05, 1.2, 1.5, 3) {
        in_a_while($in, sub { $s->{workspace} ? context($s) : list($s) });
        in_a_while($in, one_of(sub { refresh($s) }, sub { list($s) }, sub { select_branch($s) },
            sub { refresh($s, $s->{before}) })) if $in < 1.3;
    }
}

sub others_ended ($who, $but = undef) {
    my @out = grep { $_->{who} == $who && (!$but || $_ != $but) } @live;
    ended($_) for @out;
}

# -- the operator, one command at a time

sub operate {
    finish_operator();
    state $at = time;
    return if $operator{pid} || time < $at || !@live;
    $at = time + 0.8;
    return begin_again() if $operator{again};
    my $who = one_of(@account);
    my $dice = rand;
    return command($who, 'lock', 'revoke-sessions') if $dice < 0.12;
    return command($who, 'disable', 'disable') if $dice < 0.20;
    if ($dice < 0.27) {
        state $n = 0;
        return command($who, 'set', 'set-credential', 'o' . ++$n);
    }
    return if !($who->{n} % 4);
    my $branch = one_of(@{ $who->{branches} });
    my $can = $who->{can};
    my @roles = grep { rand() < 0.6 } qw(CASHIER MANAGER OWNER);
    if ($can->{$branch} && keys %$can > 2 && rand() < 0.5) {
        delete $can->{$branch};
    }
    else {
        $can->{$branch} = \@roles;
    }
    begin($who, 'grant', 'can=' . can_of($who), sub { $pg->sql(sql_of($who)) });
}

sub command ($who, $op, $name, $to = undef) {
    begin($who, $op, defined $to ? "to=$to" : '', sub {
        my ($status) = $t->run_identity([ 'account', $name, $who->{id} ], within => 20,
            PLATFORM_JWT_ISSUER => $issuer, defined $to ? (stdin => text_of($to) . "\n") : ());
        die "status $status\n" if $status;
    }, to => $to);
}

sub begin ($who, $op, $say, $do, %more) {
    %operator = (who => $who, op => $op, say => $say, do => $do, %more);
    begin_again();
}

sub begin_again {
    $operator{begin} = clock();
    $record_fh->flush;
    $operator{pid} = fork // die "fork: $!\n";
    return if $operator{pid};
    $SIG{__DIE__} = $SIG{ALRM} = 'DEFAULT';
    alarm 20;
    open STDERR, '>>', $t->dir . '/operator.out';
    _exit(eval { $operator{do}->(); 1 } ? 0 : 1);
}

# What may have been done is done again until it surely is.
sub finish_operator {
    return if !$operator{pid} || !waitpid $operator{pid}, WNOHANG;
    my $sure = $? == 0;
    my ($who, $op) = @operator{qw(who op)};
    printf {$record_fh} "call %s %s %s %s account=%s %s\n", $operator{begin}, clock(), $op,
        $sure ? '200 OK' : '0 -', $who->{id}, $operator{say};
    delete $operator{pid};
    learn_secret($who, $operator{to}, $sure) if $op eq 'set';
    $operator{again} = !$sure;
    return if !$sure;
    others_ended($who) if $op =~ /^(?:set|lock|disable)$/;
    command($who, 'enable', 'enable') if $op eq 'disable';
}

# -- the chaos

sub fault ($kind, $do) {
    my $begin = clock();
    $do->();
    printf {$out} "fault %s %s %s\n", $begin, clock(), $kind;
}

sub pause ($what) {
    $what->signal('STOP');
    sleep 0.3 + rand 2;
    $what->signal('CONT');
}

sub restart ($what, $signal) {
    $what->stop($signal);
    sleep rand 0.5;
    $what->start;
}

sub seconds_off ($most) { return int(rand 2 * $most + 1) - $most }

my %kinds = (
    'identity-kill'    => sub { restart(one_of(@identity), 'KILL') },
    'identity-restart' => sub { restart(one_of(@identity), 'TERM') },
    'identity-pause'   => sub { pause(one_of(@identity)) },
    'identity-clock'   => sub {
        Platform::Test::Env::put(one_of(@identity)->{env}{FAKETIME_TIMESTAMP_FILE},
            sprintf("%+d\n", seconds_off($ID_STEP)));
    },
    'gateway-clock'  => sub { $gateway_clock->ahead(seconds_off($GATEWAY_STEP)) },
    'gateway-reload' => sub { one_of($stack->nginx, $other)->reload },
    'gateway-kill'   => sub { kill KILL => one_of(one_of($stack->nginx, $other)->workers) },
    'gateway-pause'  => sub {
        my $worker = one_of(one_of($stack->nginx, $other)->workers);
        kill STOP => $worker;
        sleep 0.3 + rand 1;
        kill CONT => $worker;
    },
    'postgres-pause'   => sub { $pg->freeze('STOP'); sleep 0.3 + rand 2; $pg->freeze('CONT') },
    'postgres-restart' => sub { restart($pg, 'INT') },
    crash              => sub { restart($pg, one_of(qw(QUIT KILL))) },
);

srand $SEED + 1;
my $until = time + $SECONDS;
my %done;
while (time < $until - 5) {
    sleep 0.5 + rand 6;
    last if !$clients->[0]->alive;
    my ($kind) = sort { ($done{$a} // 0) + rand() <=> ($done{$b} // 0) + rand() } keys %kinds;
    $done{$kind}++;
    fault($kind, $kinds{$kind});
}
close $out or die "$record: $!\n";
ok $clients->ends($SECONDS + 120), 'the clients came to their end'
    or diag join "\n", $clients->lines;

# -- the verdict

system "cat $record/faults $record/calls >$record/history";
my $said = `@{[ Platform::Test::Env::root() ]}/t/soak/check_history $record/history 2>&1`;
my $status = $?;
my @wrong = grep {/^[\w-]+: /} split /\n/, $said;
diag join "\n", (map { substr $_, 0, 600 } @wrong[ 0 .. ($#wrong < 20 ? $#wrong : 20) ]),
    $said =~ /^( *\d+ .*|\w[\w ]+: \d.*)$/mg, map {"$done{$_} $_"} sort keys %done;
is $status, 0, 'nothing contradicts the rules';
my %count = map { /^ *(\d+) (.*)/ ? ($2 => $1) : () } split /\n/, $said;
for my $of ((map {"$_ 200"} qw(login refresh select list end others all change logout context
    lock set disable enable grant verify step confirm drop codes)), 'add 201',
    'login 200 AUTH_FACTOR_REQUIRED', 'verify 401 AUTH_FACTOR_INVALID',
    'verify 401 AUTH_FACTOR_TOKEN_INVALID', 'step 401 AUTH_FACTOR_INVALID', 'refresh 401 AUTH_REFRESH_TOKEN_STALE',
    'refresh 401 AUTH_SESSION_NOT_ACTIVE', 'context 401 GATEWAY_TOKEN_INVALID',
    'login 401 AUTH_INVALID_CREDENTIALS', 'login 429', 'context 403', 'select 403')
{
    my $n = 0;
    $n += $count{$_} for grep {/^\Q$of\E/} keys %count;
    cmp_ok $n, '>', 0, "control: $of";
}
my ($all, $in_time) = map { $said =~ /^$_: (\d+)/m } 'calls', 'refused by gateways after the end';
cmp_ok $in_time // 0, '>', $SECONDS / 2, 'control: gateways had time to know';
cmp_ok $all // 0, '>=', $CALLS < 100 * $SECONDS ? $CALLS : 100 * $SECONDS, 'control: calls';

$second->finish;
$t->done;
