# Logins while their account changes, or while more of them come than can be
# hashed: no session is opened behind an operator's back, and refreshes go on.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;
use Time::HiRes qw(sleep time);

my $t = Platform::Test->new;
my $identity = $t->identity_face(
    PLATFORM_AUTH_MAX_FAILURES     => 0,
    PLATFORM_AUTH_HASH_CONCURRENCY => 1,
    PLATFORM_WORKER_THREADS        => 8,
);
my $pg = $t->postgres;
my $port = $t->port('identity');

sub request {
    my ($path, $json) = @_;

    return [ $port, http_request_bytes(POST => "/api/auth/$path",
        json => $json) ];
}

sub login_of {
    my ($account, $credential) = @_;

    return request(login => { account => "$account\@demo.test",
        credential => $credential // 'Demo-passw0rd!' });
}

# One login that is not to be turned away for want of a slot.
sub login {
    my @who = @_;

    return eventually(sub {
        my ($res) = http_parallel([ login_of(@who) ]);
        return $res && $res->status != 503 ? $res : undef;
    });
}

sub sessions {
    return $pg->sql("select count(*) from auth_sessions
        where status = 'ACTIVE'");
}

sub refresh {
    return http_post($port, '/api/auth/refresh',
        json => { refreshToken => $_[0] });
}

# -- many at once whose hash is to be replaced: each succeeds

$identity->stop;
$identity->{env}{PLATFORM_AUTH_ARGON2_ITERATIONS} = 3;
$identity->start;
my $hash = $pg->sql("select credential_hash from accounts
    where account_name = 'several\@demo.test'");
my @all = http_parallel([ map { login_of('several') } 1 .. 4 ]);
my %rehashed = map { ($_ ? $_->status : 'none') => 1 } @all;
delete $rehashed{503};    # a slow machine's
is_deeply \%rehashed, { 200 => 1 }, 'four logins that rehash';
my $anew = $pg->sql("select credential_hash from accounts
    where account_name = 'several\@demo.test'");
like $hash, qr/,t=2,/, 'from this';
like $anew, qr/,t=3,/, 'to that';

# -- an operator changes the account between check and session

# Begins a change and commits it when the login waits for it, which has found the
# account as it was.
sub during {
    my ($change) = @_;

    my $operator = $pg->begin($change);
    my $c = Platform::Test::Http->new(port => $port);
    $c->send(login_of('one')->[1]);
    ok $pg->waiting(1), 'the login waits';
    ok $pg->end($operator, 'commit'), 'for the change';
    return $c->read_response;
}

my $where = "where account_name = 'one\@demo.test'";
my $before = sessions();
is_problem(during("update accounts set status = 'DISABLED' $where"), 401,
    'AUTH_INVALID_CREDENTIALS', 'disabled meanwhile');
is sessions(), $before, 'no session was opened';
$pg->sql("update accounts set status = 'ACTIVE' $where");
is login('one')->status, 200, 'enabled again';

# Of another credential: the one that was checked is good no more.
(my $changed = $anew) =~ s/(.{4})\z/reverse $1/e;
$before = sessions();
is_problem(during("update accounts set credential_hash = '$changed' $where"),
    401, 'AUTH_INVALID_CREDENTIALS', 'another credential meanwhile');
is sessions(), $before, 'no session was opened';

# Of the same credential, hashed anew: nothing happened.
$pg->sql("update accounts set credential_hash = '$hash' $where");
is during("update accounts set credential_hash = '$anew' $where")->status,
    200, 'hashed anew meanwhile';
is sessions(), $before + 1, 'one session was opened';

# -- more than can be hashed or wait: some are told so, refreshes go on

if ($t->scale > 1) {
    $t->done;    # nothing goes on for long enough
    exit;
}
my $token = login('several')->json->{refreshToken};
my $storm = fork // die "fork: $!\n";
if ($storm == 0) {
    my %status;
    until (-e $t->dir . '/enough') {
        my @answers = http_parallel([ map { login_of('none') } 1 .. 16 ]);
        for my $res (@answers) {
            my $key = $res ? $res->status . ' ' . $res->code : 'none';
            $key .= ' ' . ($res->header('Retry-After') // '')
                if $res && $res->status == 503;
            $status{$key}++;
        }
        $t->write_file('told', '') if grep {/^503/} keys %status;
    }
    $t->write_file('storm', join "\n", map {"$_"} sort keys %status);
    require POSIX;
    POSIX::_exit(0);
}
ok eventually(sub { -e $t->dir . '/told' }), 'there are more than can be hashed';
my $until = time + 2;
my @took;
while (@took < 20 || time < $until) {
    my $start = time;
    my $res = refresh($token);
    push @took, time - $start;
    is $res->status, 200, 'a refresh amid logins' if $res->status != 200;
    $token = $res->json->{refreshToken};
}
$t->write_file('enough', '');
waitpid $storm, 0;
my %told = map { $_ => 1 } split /\n/, $t->read_file('storm');
delete $told{'200 AUTH_LOGIN_SUCCESS'};
is_deeply \%told, { '503 AUTH_BUSY 1' => 1 },
    'logins succeed or are told to try again';
@took = sort { $a <=> $b } @took;
cmp_ok $took[ $#took / 2 ], '<', 1.5 * $t->scale,
    sprintf '%d refreshes took %.2f s at the median meanwhile', scalar @took,
    $took[ $#took / 2 ];

$t->done;
