# The checker of t/soak/history.t finds what is wrong: a right history, and many that
# differ from it in one answer or two.

use Platform::Test;
use Platform::Test::History;

# In short: "ok" is a success; R(session,id), A(...) and B(..., branch) are a refresh
# token, an account token and a branch token of account a (or o(...): of account o),
# issued when the call began.  A1@TIME(...) says that it was authenticated then by the
# credential, A2@TIME(...) by a second factor, too; "asked" that this is required.
my $RIGHT = <<'HISTORY';
rule epoch=1000 issuer=i window=10 failures=3 lockout=20 reach=1 recover=2
rule skew=2 leeway=5 doubt=8 access_ttl=30 away=pause,crash
call 0 0 set 200 OK account=a to=k0
call 0 0 set 200 OK account=o to=k0
call 0 0 grant 200 OK account=a type=CUSTOMER can=w/t/m/b1:BOSS+HAND,w/t/m/b2:HAND
call 0 0 grant 200 OK account=o type=OPERATOR can=v/u/n/c1:BOSS

call 1 2 login ok account=a address=x secret=k0 refresh=R(s1,r1) access=A(s1,t1) branches=b1,b2
call 3 4 refresh ok session=s1 jti=r1 refresh=R(s1,r2) access=A(s1,t2) branches=b1,b2
call 5 6 refresh ok session=s1 jti=r1 refresh=R(s1,r2) access=A(s1,t3) branches=b1,b2
call 7 8 select ok session=s1 account=a token=t3 branch=b1 access=B(s1,t4,b1)
call 8.1 8.2 context ok session=s1 token=t4 echo=a/s1/w/t/m/b1/BOSS+HAND
call 8.3 8.4 context 403 GATEWAY_CONTEXT_FORBIDDEN session=s1 token=t3
call 8.5 8.6 select 403 AUTH_BRANCH_NOT_SELECTABLE session=s1 account=a token=t3 branch=b9
call 9 10 refresh ok session=s1 jti=r2 refresh=R(s1,r3) access=B(s1,t5,b1) extra=A(s1,t6)
call 10.1 10.2 refresh 401 AUTH_REFRESH_TOKEN_STALE session=s1 jti=r1
call 10.3 18.3 refresh 0 - session=s1 jti=r3
call 18.4 18.5 refresh ok session=s1 jti=r3 refresh=R(s1,r4) access=B(s1,t7,b1)

call 20 21 login ok account=a address=x secret=k0 refresh=R(s2,q1) access=A(s2,q2) branches=b1,b2
call 21.1 21.2 list ok session=s1 account=a token=t7 sessions=s1,s2 current=s1
call 21.3 21.4 end ok session=s1 account=a token=t7 target=s2
call 21.5 21.6 refresh 401 AUTH_SESSION_NOT_ACTIVE session=s2 jti=q1
call 21.7 21.8 end 404 RESOURCE_NOT_FOUND session=s1 account=a token=t7 target=s2
call 21.85 21.9 list ok session=s1 account=a token=t7 sessions=s1 current=s1

call 22 23 login ok account=a address=x secret=k0 refresh=R(s3,p1) access=A(s3,p2) branches=b1,b2
call 23.1 23.2 select ok session=s3 account=a token=p2 branch=b2 access=B(s3,p3,b2)
call 23.3 23.4 others ok session=s1 account=a token=t7 ended=1
call 23.9 24 context ok session=s3 token=p3 echo=a/s3/w/t/m/b2/HAND
call 24.5 24.6 context 401 GATEWAY_TOKEN_INVALID session=s3 token=p3

call 25 26 grant 200 OK account=a can=w/t/m/b1:HAND,w/t/m/b3:HAND
call 27 28 refresh ok session=s1 jti=r4 refresh=R(s1,r5) access=B(s1,t8,b1)
call 29 30 change ok session=s1 account=a address=x token=t8 secret=k0 to=k1 ended=0
call 31 32 login 401 AUTH_INVALID_CREDENTIALS account=a address=z secret=k0
call 33 34 login ok account=a address=z secret=k1 refresh=R(s4,m1) access=A(s4,m2) branches=b1,b3
call 35 36 lock 200 OK account=a
call 37 38 refresh 401 AUTH_SESSION_NOT_ACTIVE session=s1 jti=r5
call 37.1 37.9 list 401 GATEWAY_TOKEN_INVALID session=s4 account=a token=m2

call 40 41 login 401 AUTH_INVALID_CREDENTIALS account=a address=y secret=bad
call 41.1 42 login 401 AUTH_INVALID_CREDENTIALS account=a address=y secret=bad
call 42.1 43 login 401 AUTH_INVALID_CREDENTIALS account=a address=y secret=bad
call 43.1 44 login 429 AUTH_TOO_MANY_ATTEMPTS account=a address=y secret=k1
call 65 66 login ok account=a address=y secret=k1 refresh=R(s5,n1) access=A(s5,n2) branches=b1,b3
call 67 68 logout ok session=s5 jti=n1
call 69 70 refresh 401 AUTH_SESSION_NOT_ACTIVE session=s5 jti=n1

call 71 72 disable 200 OK account=a
call 73 74 login 401 AUTH_INVALID_CREDENTIALS account=a address=u secret=k1
call 75 76 enable 200 OK account=a
call 77 78 login ok account=a address=u secret=k1 refresh=R(s6,l1) access=A(s6,l2) branches=b1,b3
fault 80 84 pause
call 80 81 logout ok session=s6 jti=l1
call 85 86 list 401 AUTH_SESSION_NOT_ACTIVE session=s6 account=a token=l2

call 90 91 login ok account=o address=x secret=k0 refresh=oR(s7,j1) access=oB(s7,j2,c1)
call 92 93 context ok session=s7 token=j2 echo=o/s7/v/u/n/c1/BOSS
call 94 94.2 login ok account=o address=x secret=k0 refresh=oR(s8,h1) access=oB(s8,h2,c1)
call 95 96 all ok session=s7 account=o token=j2 ended=2
call 97 98 login 0 - account=o address=x secret=k0
call 106 107 login ok account=o address=x secret=k0 refresh=oR(s9,g1) access=oB(s9,g2,c1)
call 108 109 list ok session=s9 account=o token=g2 sessions=s9,s99 current=s9
call 140 141 context 401 GATEWAY_TOKEN_EXPIRED session=s9 token=g2
call 142 143 refresh 503 DATABASE_UNAVAILABLE session=s9 jti=g1
call 144 145 refresh ok session=s9 jti=g1 refresh=oR(s9,g3) access=oB(s9,g4,c1)
call 146 147 grant 200 OK account=o can=
call 148 149 refresh ok session=s9 jti=g3 refresh=oR(s9,g5) access=oA(s9,g6) branches=

call 160 161 login ok account=a address=x secret=k1 refresh=R(s10,v1) access=A1@1160(s10,w1)
call 162 163 add 201 AUTH_FACTOR_ADDED session=s10 account=a token=w1 factor=F
call 164 165 confirm 200 AUTH_FACTOR_CONFIRMED session=s10 account=a token=w1 factor=F proof=F:38 codes=r:c1,r:c2
call 177.5 177.6 refresh ok session=s10 jti=v1 refresh=R(s10,v2) access=A2@1164(s10,w2)
call 168 169 login asked account=a address=x secret=k1 ask=f1
call 170 171 verify 401 AUTH_FACTOR_INVALID account=a ask=f1 proof=wrong
call 172 173 verify ok account=a ask=f1 proof=F:39 refresh=R(s11,v3) access=A2@1172(s11,w3)
call 174 175 verify 401 AUTH_FACTOR_TOKEN_INVALID account=a ask=f1 proof=wrong
call 176 177 step 401 AUTH_FACTOR_INVALID session=s11 account=a token=w3 proof=F:39
call 178 179 step ok session=s11 account=a token=w3 proof=r:c1 access=A2@1178(s11,w4)
call 180 181 codes ok session=s11 account=a token=w4 codes=r:c3
call 182 183 step 401 AUTH_STEP_UP_REQUIRED session=s11 account=a token=w4 secret=k1 proof=credential
call 184 185 login asked account=a address=x secret=k1 ask=f2
call 186 187 lock 200 OK account=a
call 188 189 verify 401 AUTH_FACTOR_TOKEN_INVALID account=a ask=f2 proof=F:40
call 190 191 login asked account=a address=x secret=k1 ask=f3
call 192 193 verify ok account=a ask=f3 proof=r:c3 refresh=R(s12,v4) access=A2@1192(s12,w5)
call 194 195 drop 200 AUTH_FACTOR_REMOVED session=s12 account=a token=w5 factor=F
call 196 197 drop 404 RESOURCE_NOT_FOUND session=s12 account=a token=w5 factor=F
call 198 199 codes 409 RESOURCE_CONFLICT session=s12 account=a token=w5
call 200 201 login ok account=a address=x secret=k1 refresh=R(s13,v5) access=A1@1200(s13,w6)
call 202 203 step ok session=s13 account=a token=w6 address=x secret=k1 proof=credential access=A1@1202(s13,w7)
call 522 523 refresh ok session=s13 jti=v5 refresh=R(s13,v6) access=A1@1202(s13,w8)
call 524 525 add 401 AUTH_STEP_UP_REQUIRED session=s13 account=a token=w8
HISTORY

my %ROLES = (a => { b1 => 'BOSS","HAND', b2 => 'HAND' }, o => { c1 => 'BOSS' });

sub token ($begin, $account, $kind, $factors, $at, $session, $id, $branch = '') {
    my $late = $begin >= 25 && $account eq 'a';
    my $iat = 1000 + int $begin;
    my $exp = $iat + ($kind eq 'R' ? 9000 : 30);
    my $type = $account eq 'a' ? 'CUSTOMER' : 'OPERATOR';
    my $common = qq("iss":"i","sub":"$account","iat":$iat,"exp":$exp,"jti":"$id",)
        . qq("account_id":"$account","session_id":"$session");
    return qq({$common,"token_type":"refresh"}) if $kind eq 'R';
    $common .= qq(,"account_type":"$type","typ":"access");
    $common .= qq(,"auth_time":$at,"amr":["pwd") . ($factors > 1 ? ',"otp","mfa"' : '') . qq(],"acr":"aal$factors")
        if $factors;
    return qq({$common,"token_type":"account","token_scope":"ACCOUNT"}) if $kind eq 'A';
    my ($w, $t, $m) = $account eq 'a' ? qw(w t m) : qw(v u n);
    my $roles = $late ? 'HAND' : $ROLES{$account}{$branch} // '?';
    my $all = $account eq 'o' ? '"c1"' : $late ? '"b1","b3"' : '"b1","b2"';
    return qq({$common,"token_type":"workspace","token_scope":"BRANCH","workspace_id":"$w",)
        . qq("tenant_id":"$t","member_id":"$m","active_branch_id":"$branch",)
        . qq("branch_ids":[$all],"roles":["$roles"]});
}

my %CODE = (login => 'LOGIN', refresh => 'REFRESH', select => 'SELECT_BRANCH', list => 'SESSIONS',
    end => 'END_SESSION', others => 'LOGOUT_OTHERS', all => 'LOGOUT_ALL', logout => 'LOGOUT',
    change => 'CHANGE_CREDENTIAL', verify => 'LOGIN', step => 'STEP_UP', codes => 'RECOVERY_CODES');

# The history in full, of what is told in short.
sub in_full ($short) {
    my @lines = split /\n/, $short;
    for (@lines) {
        my ($begin) = /^call (\S+)/ or next;
        s/^(call \S+ \S+ (\w+)) ok/"$1 200 " . ($CODE{$2} ? "AUTH_$CODE{$2}_SUCCESS" : '-')/e;
        s/^(call \S+ \S+ login) asked/$1 200 AUTH_FACTOR_REQUIRED/;
        s/=(o?)([RAB])(?:([12])@(\d+))?\(([^)]*)\)/'=' . token($begin, $1 || 'a', $2, $3 \/\/ 0, $4, split m{,}, $5)/ge;
    }
    return join '', map {"$_\n"} @lines;
}

# What the checker says: the kinds of what is wrong, each once.
sub kinds ($text) {
    my $checked = Platform::Test::History->new(sub { open my $fh, '<', \$text or die; $fh });
    my %kind = map { /^([\w-]+):/ => 1 } $checked->violations;
    return (join(' ', sort keys %kind), $checked);
}

my ($said, $checked) = kinds(in_full($RIGHT));
is $said, '', 'a right history' or diag join "\n", $checked->violations;
is $checked->calls, scalar(() = $RIGHT =~ /^call/mg), 'all calls are seen';
is $checked->faults, 1, 'and the fault';
is $checked->kinds->{'refresh 401 AUTH_REFRESH_TOKEN_STALE'}, 1, 'and counted by kind';
my $shuffled = join '', reverse map {"$_\n"} split /\n/, in_full($RIGHT);
is +(kinds($shuffled))[0], '', 'the order of the lines says nothing';

# What has to be found (nothing: as right as the other), what is changed: pairs of a
# text that stands there once and what replaces it; +LINE is one more.
my @TABLE = (
    # one live successor of a refresh token
    [ 'fork', 'a token has two successors',
        '5 6 refresh ok session=s1 jti=r1 refresh=R(s1,r2)' =>
            '5 6 refresh ok session=s1 jti=r1 refresh=R(s1,rX)' ],
    [ 'id-twice', 'two tokens have one successor', 'R(s9,g5)' => 'R(s9,g3)' ],
    [ 'id-twice', 'an access token\'s id comes again',
        'A(s3,p2)' => 'A(s3,q2)',
        'token=p2' => 'token=q2' ],
    [ 'revived', 'a token works after its successor was used',
        '10.2 refresh 401 AUTH_REFRESH_TOKEN_STALE session=s1 jti=r1' =>
            '10.2 refresh ok session=s1 jti=r1 refresh=R(s1,r2) access=B(s1,tX,b1)' ],
    [ 'late-retry', 'a retry after the window', 'window=10' => 'window=0.5' ],
    [ 'stale', 'a current token is called stale',
        '+call 145.1 145.2 refresh 401 AUTH_REFRESH_TOKEN_STALE session=s9 jti=g3' ],
    [ '', 'which it may have where the answer leaves that open',
        'DATABASE_UNAVAILABLE session=s9' => 'DATABASE_UNAVAILABLE doubt=1 session=s9',
        '144 145 refresh ok session=s9 jti=g1' =>
            '154 155 refresh 401 AUTH_REFRESH_TOKEN_STALE session=s9 jti=g1',
        '148 149 refresh ok session=s9 jti=g3' => '148 149 refresh 0 - session=s9 jti=g1' ],
    [ 'stale-early', 'a retry is refused within the window',
        '+call 4.1 4.2 refresh 401 AUTH_REFRESH_TOKEN_STALE session=s1 jti=r1' ],
    [ 'strange', 'a refresh token that nobody was given',
        'session=s1 jti=r4' => 'session=s1 jti=rX' ],
    [ 'session-twice', 'an id of a session comes again',
        'R(s8,h1)' => 'R(s7,h1)',
        'oB(s8' => 'oB(s7',
        'ended=2' => 'ended=1' ],

    # no session after its end
    [ 'dead', 'a refresh after the end',
        'call 21.5 21.6 refresh 401 AUTH_SESSION_NOT_ACTIVE session=s2 jti=q1' =>
            'call 21.5 21.6 refresh ok session=s2 jti=q1 refresh=R(s2,qX) access=A(s2,qY)' ],
    [ '', 'which may be under way then',
        '21.5 21.6 refresh 401 AUTH_SESSION_NOT_ACTIVE session=s2 jti=q1' =>
            '21.35 21.6 refresh ok session=s2 jti=q1 refresh=R(s2,qX) access=A(s2,qY)' ],
    [ 'dead', 'another session after a change of credential',
        '+call 33.5 33.6 login ok account=a address=z secret=k1 refresh=R(s0,z1) '
            . 'access=A(s0,z2)',
        '+call 34.1 34.2 change ok session=s4 account=a token=m2 secret=k1 to=k1 ended=2',
        '+call 34.6 34.7 refresh ok session=s0 jti=z1 refresh=R(s0,z3) access=A(s0,z4)' ],
    [ 'reach', 'a gateway lets in what ended a second ago',
        '24.5 24.6 context 401 GATEWAY_TOKEN_INVALID session=s3 token=p3' =>
            '24.5 24.6 context ok session=s3 token=p3' ],
    [ '', 'but where the feed was away',
        '24.5 24.6 context 401 GATEWAY_TOKEN_INVALID session=s3 token=p3' =>
            '24.5 24.6 context ok session=s3 token=p3',
        '+fault 23.5 24 pause' ],
    [ 'reach', 'or did not go',
        '24.5 24.6 context 401 GATEWAY_TOKEN_INVALID session=s3 token=p3' =>
            '24.5 24.6 context ok session=s3 token=p3',
        '+fault 23.5 24 kill' ],
    [ 'expired', 'a gateway lets in an expired token',
        '140 141 context 401 GATEWAY_TOKEN_EXPIRED' => '150 151 context ok' ],
    [ 'kind', 'a gateway lets an account token in',
        '8.4 context 403 GATEWAY_CONTEXT_FORBIDDEN' => '8.4 context ok' ],
    [ 'strange', 'a token of another session',
        'session=s3 token=p3 echo' => 'session=s1 token=p3 echo' ],
    [ 'strange', 'somebody else\'s session is ended',
        '+call 15 15.1 login ok account=o secret=k0 refresh=oR(s0,z1) access=oB(s0,z2,c1)',
        '+call 16 16.1 end ok session=s1 account=a token=t6 target=s0' ],

    # nobody out without a cause
    [ 'out', 'a session that nobody ended',
        '+call 28.1 28.2 refresh 401 AUTH_SESSION_NOT_ACTIVE session=s1 jti=r5' ],
    [ '', 'one that was opened meanwhile',
        '+call 34.5 35.5 login ok account=a address=z secret=k1 refresh=R(s0,z1) access=A(s0,z2)',
        '+call 36.5 36.6 refresh ok session=s0 jti=z1 refresh=R(s0,z3) access=A(s0,z4)' ],
    [ 'out', 'the one that changed the credential', '35 36 lock' => '38.5 39 lock' ],
    [ '', 'whose end may have come without an answer',
        '+call 23.6 23.7 context 401 GATEWAY_TOKEN_INVALID session=s1 token=t7',
        '+call 23.5 23.6 logout 503 DATABASE_UNAVAILABLE session=s1 jti=r3' ],
    [ 'out', 'a gateway refuses a live session',
        '92 93 context ok session=s7 token=j2' =>
            '92 93 context 401 GATEWAY_TOKEN_INVALID session=s7 token=j2' ],
    [ 'early', 'or calls a token expired before its time',
        '92 93 context ok session=s7 token=j2' =>
            '92 93 context 401 GATEWAY_TOKEN_EXPIRED session=s7 token=j2' ],
    [ 'out', 'a right credential is refused',
        '+call 33.1 33.2 login 401 AUTH_INVALID_CREDENTIALS account=a address=z secret=k1' ],
    [ 'branch', 'a branch is refused that is the account\'s',
        'token=t3 branch=b9' => 'token=t3 branch=b2' ],
    [ 'unexpected', 'the service fails',
        'refresh 503 DATABASE_UNAVAILABLE' => 'refresh 500 INTERNAL_ERROR' ],

    # lists and counts
    [ 'list-lacks', 'a list leaves a live session out', 'sessions=s1,s2' => 'sessions=s1' ],
    [ 'list-ended', 'it has one that ended',
        '21.9 list ok session=s1 account=a token=t7 sessions=s1' =>
            '21.9 list ok session=s1 account=a token=t7 sessions=s1,s2' ],
    [ 'list-foreign', 'it has somebody else\'s', 'sessions=s9,s99' => 'sessions=s9,s1' ],
    [ 'list-unknown', 'it has one that nobody opened', 'sessions=s1,s2' => 'sessions=s1,s2,s99' ],
    [ 'list-current', 'it begins with another', 'sessions=s1,s2' => 'sessions=s2,s1' ],
    [ 'count', 'more sessions ended than there were', 'ended=1' => 'ended=2' ],
    [ 'count', 'fewer, long before a fault', 'ended=2' => 'ended=1', '+fault 120 121 pause' ],

    # claims are rows
    [ 'claims', 'roles of before a change',
        'can=w/t/m/b1:HAND,w/t/m/b3:HAND' => 'can=w/t/m/b1:BOSS,w/t/m/b3:HAND' ],
    [ '', 'a change that is under way', 'call 25 26 grant' => 'call 25 27.5 grant' ],
    [ 'claims', 'another account', 'refresh=oR(s9,g3)' => 'refresh=R(s9,g3)' ],
    [ 'authentication claims', 'issued at another time', 'epoch=1000' => 'epoch=1004' ],
    [ 'claims', 'no refresh token', 'refresh=oR(s9,g5) ' => '' ],
    [ 'branches', 'a branch that is not the account\'s',
        'A(s5,n2) branches=b1,b3' => 'A(s5,n2) branches=b1,b2' ],
    [ 'scope', 'a selection of another branch',
        'branch=b1 access=B(s1,t4,b1)' => 'branch=b2 access=B(s1,t4,b1)',
        'B(s1,t5,b1)' => 'B(s1,t5,b2)',
        'B(s1,t7,b1)' => 'B(s1,t7,b2)',
        'B(s1,t8,b1)' => 'A(s1,t8)' ],
    [ 'scope', 'a refresh knows an older one',
        '+call 8.61 8.7 select ok session=s1 account=a token=t3 branch=b2 '
            . 'access=B(s1,tX,b2)' ],
    [ '', 'two selections at a time',
        '+call 6.9 8.05 select ok session=s1 account=a token=t3 branch=b2 '
            . 'access=B(s1,tX,b2)' ],
    [ 'context', 'a service is told of somebody else', 'echo=o/s7/' => 'echo=a/s7/' ],

    # credentials and lockouts
    [ 'credential', 'the old credential works after a change',
        '31 32 login 401 AUTH_INVALID_CREDENTIALS account=a address=z secret=k0' =>
            '31 32 login ok account=a address=z secret=k0 refresh=R(s0,z1) access=A(s0,z2)' ],
    [ 'credential', 'one that was set without an answer, and overwritten since',
        '33 34 login ok account=a address=z secret=k1' =>
            '33 34 login ok account=a address=z secret=kU',
        '+call 12 12.1 set 0 - account=a to=kU' ],
    [ 'disabled', 'an account that is off logs in',
        '74 login 401 AUTH_INVALID_CREDENTIALS account=a address=u secret=k1' =>
            '74 login ok account=a address=u secret=k1 refresh=R(s0,z1) access=A(s0,z2)' ],
    [ 'bypass', 'the right credential after too many failures',
        'call 43.1 44 login 429 AUTH_TOO_MANY_ATTEMPTS account=a address=y secret=k1' =>
            'call 43.1 44 login ok account=a address=y secret=k1 refresh=R(s0,z1) '
                . 'access=A(s0,z2) branches=b1,b3' ],
    [ '', 'but for a crash of the database',
        'login 429 AUTH_TOO_MANY_ATTEMPTS account=a address=y secret=k1' =>
            'login 401 AUTH_INVALID_CREDENTIALS account=a address=y secret=bad',
        '+fault 42.5 43 crash' ],
    [ 'limited', 'a lockout without failures',
        '43 login 401 AUTH_INVALID_CREDENTIALS' => '43 login 429 AUTH_TOO_MANY_ATTEMPTS' ],

    # second factors: what is shown is right, the account's, and opens once
    [ 'code-twice', 'a code steps a session up again',
        'call 176 177 step 401 AUTH_FACTOR_INVALID session=s11 account=a token=w3 proof=F:39' =>
            'call 176 177 step ok session=s11 account=a token=w3 proof=F:39 access=A2@1176(s11,x1)' ],
    [ 'code-twice', 'the code before it does',
        'call 176 177 step 401 AUTH_FACTOR_INVALID session=s11 account=a token=w3 proof=F:39' =>
            'call 176 177 step ok session=s11 account=a token=w3 proof=F:39 access=A2@1176(s11,x1)',
        'ask=f1 proof=F:39' => 'ask=f1 proof=F:40' ],
    [ 'code-twice', 'a recovery code does',
        '+call 179.5 179.6 step ok session=s11 account=a token=w4 proof=r:c1 access=A2@1179(s11,x1)' ],
    [ 'factor', 'a wrong code does',
        '+call 176.1 176.2 step ok session=s11 account=a token=w3 proof=wrong access=A2@1176(s11,x1)' ],
    [ 'factor', 'one of two minutes later does',
        '+call 176.1 176.2 step ok session=s11 account=a token=w3 proof=F:43 access=A2@1176(s11,x1)' ],
    [ 'factor', 'a recovery code that was replaced does',
        '+call 181.1 181.2 step ok session=s11 account=a token=w4 proof=r:c2 access=A2@1181(s11,x1)' ],
    [ 'factor', 'a code of a factor that was removed does',
        '+call 199.1 199.2 step ok session=s12 account=a token=w5 proof=F:40 access=A2@1199(s12,x1)' ],
    [ 'factor', 'another account\'s does',
        '+call 178.1 178.2 step ok session=s9 account=o token=g6 proof=F:40 access=oA2@1178(s9,x1)' ],
    [ 'ask-twice', 'a factorToken opens two sessions',
        '+call 173.5 173.6 verify ok account=a ask=f1 proof=r:c2 refresh=R(s0,z1) access=A2@1173(s0,z2)' ],
    [ 'tries', 'it has a sixth try',
        map { "+call 171.$_ 171.$_ verify 401 AUTH_FACTOR_INVALID account=a ask=f1 proof=wrong" } 1 .. 4 ],
    [ '', 'a fifth one',
        map { "+call 171.$_ 171.$_ verify 401 AUTH_FACTOR_INVALID account=a ask=f1 proof=wrong" } 1 .. 3 ],
    [ 'expired', 'it works after five minutes',
        '+call 149.1 149.2 add 201 AUTH_FACTOR_ADDED session=s9 account=o token=g6 factor=G',
        '+call 149.3 149.4 confirm 200 AUTH_FACTOR_CONFIRMED session=s9 account=o token=g6 factor=G '
            . 'proof=G:38',
        '+call 150 151 login asked account=o address=x secret=k0 ask=g1',
        '+call 460 461 verify ok account=o ask=g1 proof=G:48 refresh=oR(s0,z1) access=oA2@1460(s0,z2)' ],
    [ 'dead', 'it works after a lockout',
        'call 188 189 verify 401 AUTH_FACTOR_TOKEN_INVALID account=a ask=f2 proof=F:40' =>
            'call 188 189 verify ok account=a ask=f2 proof=F:40 refresh=R(s0,z1) access=A2@1188(s0,z2)' ],
    [ 'no-factor', 'a session by the credential of an account with a factor',
        'login asked account=a address=x secret=k1 ask=f2' =>
            'login ok account=a address=x secret=k1 refresh=R(s0,z1) access=A1@1184(s0,z2)' ],
    [ '', 'which it may get meanwhile',
        '+call 163.9 166 login ok account=a address=x secret=k1 refresh=R(s0,z1) access=A1@1163(s0,z2)' ],
    [ 'no-factor', 'a step-up by the credential',
        'step 401 AUTH_STEP_UP_REQUIRED session=s11 account=a token=w4 secret=k1 proof=credential' =>
            'step ok session=s11 account=a token=w4 secret=k1 proof=credential access=A1@1182(s11,x1)' ],
    [ 'asked', 'a factor is asked for after it was removed',
        '+call 201.1 201.2 login asked account=a address=x secret=k1 ask=f4' ],
    [ 'unfresh', 'a factor is added after five minutes',
        'add 401 AUTH_STEP_UP_REQUIRED session=s13 account=a token=w8' =>
            'add 201 AUTH_FACTOR_ADDED session=s13 account=a token=w8 factor=H' ],
    [ 'unfresh', 'or by the credential, though there is one',
        '+call 161.1 161.2 login ok account=a address=x secret=k1 refresh=R(s0,z1) access=A1@1161(s0,z2)',
        '+call 167.1 167.2 add 201 AUTH_FACTOR_ADDED session=s0 account=a token=z2 factor=H' ],
    [ 'authentication', 'a token tells of a factor that nobody showed', 'A1@1200(s13,w6)' => 'A2@1200(s13,w6)' ],
    [ 'authentication', 'a refresh forgets it', 'A2@1164(s10,w2)' => 'A1@1164(s10,w2)' ],
    [ 'authentication', 'or tells another time', 'A1@1202(s13,w8)' => 'A1@1502(s13,w8)' ],
    [ 'guesses', 'eleven guesses in fifteen minutes',
        map { "+call 176.$_ 176.$_ step 401 AUTH_FACTOR_INVALID session=s11 account=a token=w3 proof=wrong" }
            1 .. 9 ],
    [ '', 'ten',
        map { "+call 176.$_ 176.$_ step 401 AUTH_FACTOR_INVALID session=s11 account=a token=w3 proof=wrong" }
            1 .. 8 ],
    [ 'limited', 'a limit before ten',
        '+call 177.1 177.2 step 429 AUTH_TOO_MANY_ATTEMPTS session=s11 account=a token=w3 proof=wrong' ],
    [ 'factor', 'a right code is refused',
        '+call 179.1 179.2 step 401 AUTH_FACTOR_INVALID session=s11 account=a token=w4 proof=F:40' ],
    [ 'factor', 'a right recovery code is',
        '+call 179.1 179.2 step 401 AUTH_FACTOR_INVALID session=s11 account=a token=w4 proof=r:c2' ],
    [ 'login', 'a factorToken is',
        '+call 191.1 191.2 verify 401 AUTH_FACTOR_TOKEN_INVALID account=a ask=f3 proof=wrong' ],
    [ 'fresh', 'a fresh session is', '+call 181.5 181.6 codes 401 AUTH_STEP_UP_REQUIRED session=s11 account=a token=w4' ],
    [ 'factors', 'a factor is not found', '+call 193.1 193.2 drop 404 RESOURCE_NOT_FOUND session=s12 account=a token=w5 factor=F' ],

    # the record itself
    [ 'unreadable', 'a call ends before it begins', 'call 67 68 logout' => 'call 68 67 logout' ],
    [ 'unreadable', 'a call that is not known', 'call 140 141 context' => 'call 140 141 guess' ],
);

for (@TABLE) {
    my ($kind, $name, @edit) = @$_;
    my $short = $RIGHT;
    while (defined(my $from = shift @edit)) {
        if ($from =~ /^[+](.*)/s) {
            $short .= "$1\n";
            next;
        }
        my $to = shift @edit;
        1 == $short =~ s/\Q$from\E/$to/g or die "$name: '$from' is not there once\n";
    }
    my ($got, $checked) = kinds(in_full($short));
    is $got, $kind, ($kind || 'right') . ": $name" or diag join "\n", $checked->violations;
}

done_testing;
