# The checker of t/soak/history.t finds what is wrong: a right history, and many that
# differ from it in one answer or two.

use Platform::Test;
use Platform::Test::History;

# In short: "ok" is a success; R(session,id), A(...) and B(..., branch) are a refresh
# token, an account token and a branch token of account a (or o(...): of account o),
# issued when the call began.
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
HISTORY

my %ROLES = (a => { b1 => 'BOSS","HAND', b2 => 'HAND' }, o => { c1 => 'BOSS' });

sub token ($begin, $account, $kind, $session, $id, $branch = '') {
    my $late = $begin >= 25 && $account eq 'a';
    my $iat = 1000 + int $begin;
    my $exp = $iat + ($kind eq 'R' ? 9000 : 30);
    my $type = $account eq 'a' ? 'CUSTOMER' : 'OPERATOR';
    my $common = qq("iss":"i","sub":"$account","iat":$iat,"exp":$exp,"jti":"$id",)
        . qq("account_id":"$account","session_id":"$session");
    return qq({$common,"token_type":"refresh"}) if $kind eq 'R';
    $common .= qq(,"account_type":"$type","typ":"access");
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
    change => 'CHANGE_CREDENTIAL');

# The history in full, of what is told in short.
sub in_full ($short) {
    my @lines = split /\n/, $short;
    for (@lines) {
        my ($begin) = /^call (\S+)/ or next;
        s/^(call \S+ \S+ (\w+)) ok/"$1 200 " . ($CODE{$2} ? "AUTH_$CODE{$2}_SUCCESS" : '-')/e;
        s/=(o?)([RAB])\(([^)]*)\)/'=' . token($begin, $1 || 'a', $2, split m{,}, $3)/ge;
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
    [ 'claims', 'issued at another time', 'epoch=1000' => 'epoch=1004' ],
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
