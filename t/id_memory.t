# What is secret of a request does not stay in the process's memory: no token,
# credential or cookie is found there once its answer has been sent.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

no warnings 'portable';    # addresses

plan skip_all => 'needs root, to look into a process' if $> != 0;
plan skip_all => 'sanitizers and valgrind keep what was freed'
    if Platform::Test::Env::asan() || Platform::Test::Env::valgrind();

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $identity = $t->identity_face(PLATFORM_WORKER_THREADS => 2,
    PLATFORM_AUTH_REFRESH_REUSE => 'revoke');
my $port = $t->port('identity');
my $COOKIE = 'platform_refresh_token';

# Where in the memory of the process a string is: one line each.
sub places {
    my ($needle) = @_;

    my @found;
    open my $maps, '<', '/proc/' . $identity->pid . '/maps' or die "maps: $!";
    open my $mem, '<:raw', '/proc/' . $identity->pid . '/mem' or die "mem: $!";
    while (my $line = <$maps>) {
        my ($from, $to, $what) = $line =~ /^(\w+)-(\w+) rw\S+ \S+ \S+ \S+\s*(.*)/
            or next;
        my ($pos, $end) = map { hex } $from, $to;
        sysseek $mem, $pos, 0 or next;
        my $n = sysread $mem, my $bytes, $end - $pos;
        next unless $n;
        my $at = -1;
        push @found, sprintf '%x-%x+%x %s', $pos, $end, $at, $what
            while ($at = index $bytes, $needle, $at + 1) >= 0;
    }
    return @found;
}

# One test: it is nowhere, soon after its answer.  Once one was, why wait.
my $patience = 20;

sub gone {
    my ($needle, $name) = @_;

    my @found;
    eventually(sub { @found = places($needle); return !@found }, $patience);
    $patience = 0 if @found;
    return is join("\n", @found), '', $name;
}

# What is meant to stay there is found.
ok scalar(places('platform_refresh_token')), 'what is there is found';

my $credential = 'Demo-passw0rd!';
my $login = http_post($port, '/api/auth/login', json => {
    account => 'several@demo.test', credential => $credential })->json;
gone($credential, 'a credential');
gone($login->{refreshToken}, 'a refresh token that was issued');
gone($login->{accountAccessToken}, 'an account token that was issued');

# With hashes of other forms, each of which other code computes.
for my $stored (
    '$2b$04$abcdefghijklmnopqrstuutXcce4lTwggum255gOggX8NHFIbGWLW',
    '$5$rounds=1234$saltstring$jiBmSTz2QPhiDj9o6kZTUahog8fxZN8n8pCw5PFsw9C',
    '$6$rounds=1000$saltstring$00HxNia5AaX509XayeL/T5IlndMmco9USqnSLhBZ1DHAtYD.'
        . '2WdYHlKG1dQQMPHIoGvxnYSFTJiSgFdGsVtVG0',
    '$pbkdf2-sha256$i=1000,l=32$++++++++c2FsdHNhbHQ'
        . '$3yxC+v9uctp5l1kNN6ZHUD0nA6D4VR/gmF3SdDUNx2M') {
    $pg->sql("update accounts set credential_hash = '$stored'
        where account_name = 'none\@demo.test'");
    is http_post($port, '/api/auth/login', json => {
        account => 'none@demo.test', credential => $credential })->status,
        200, substr($stored, 0, 8) . ': login';
    gone($credential, 'its credential');
}

# Escaped, it is decoded elsewhere.
http_post($port, '/api/auth/login',
    headers => [ 'Content-Type' => 'application/json' ],
    body => '{"account":"one@demo.test","credential":"wr\u006fng-and-secret"}');
gone('wrong-and-secret', 'a credential that was escaped');
gone('wr\u006fng-and-secret', 'as it was sent');

my $old = $login->{refreshToken};
my $res = http_post($port, '/api/auth/refresh', body => '',
    cookie => "$COOKIE=$old; other=more-secrets");
is $res->status, 200, 'refresh';
my $new = $res->json->{refreshToken};
gone($old, 'a refresh token in a cookie');
gone('more-secrets', 'another cookie');
gone($new, 'the new refresh token');

$res = http_post($port, '/api/auth/refresh', json => { refreshToken => $new });
gone($new, 'a refresh token in a body');
$new = $res->json->{refreshToken};
my $account = $res->json->{accountAccessToken};
$res = http_post($port, '/api/auth/select-branch', token => $account,
    json => { branchId => $res->json->{branches}[0]{branchId} });
is $res->status, 200, 'select-branch';
gone($account, 'a token in Authorization');
gone($res->json->{accessToken}, 'a branch token that was issued');

# Refused, too.
my $late = 'late' . 'x' x 400 . 'later';
http_post($port, '/api/auth/refresh', json => { refreshToken => $late });
http_post($port, '/api/auth/nowhere', token => $late, json => { a => $late });
http_post($port, '/api/auth/login', json => { account => 'one@demo.test',
    credential => $late, more => 'x' x 17000 });
gone($late, 'what was refused');

is http_post($port, '/api/auth/logout', json => { refreshToken => $new })
    ->status, 200, 'logout';
gone($new, 'a token that logged out');

$t->done;
