# Failed logins are counted per account and address, and per address at ten
# times that; over the limit even the right credential waits.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Platform::Test;
use Test::More;

my $t = Platform::Test->new;
my $identity = $t->identity(
    PLATFORM_AUTH_MAX_FAILURES   => 3,
    PLATFORM_AUTH_FAILURE_WINDOW => '10m',
    PLATFORM_AUTH_ARGON2_MEMORY_KIB => 19456,
);
my $pg = $t->postgres;

# One login from any address, as nginx would pass it on.
sub login {
    my ($account, $credential, $address) = @_;

    require JSON::PP;
    my $answer = $t->fcgi($identity->address)->request(
        POST => '/api/auth/login',
        params => { REMOTE_ADDR => $address // '192.0.2.1' },
        body => JSON::PP->new->utf8->encode({ account => "$account\@demo.test",
            credential => $credential // 'Demo-passw0rd!' }));
    my ($wait) = map { $_->[1] } grep { $_->[0] eq 'Retry-After' }
        @{ $answer->{headers} };
    return { %$answer, wait => $wait,
        code => JSON::PP->new->utf8->decode($answer->{body})->{code} };
}

sub rows { return $pg->sql('select count(*) from login_attempts') }

# The pair.

is login('one', 'wrong')->{status}, 401, "failure $_" for 1 .. 3;
my $res = login('one', 'wrong');
is $res->{status}, 429, 'one too many';
is $res->{code}, 'AUTH_TOO_MANY_ATTEMPTS', 'its code';
cmp_ok $res->{wait}, '>', 590, 'Retry-After is what is left of the window';
cmp_ok $res->{wait}, '<=', 600, 'and no more';
is login('one')->{status}, 429, 'the right credential waits too';
is login(' ONE')->{status}, 429, 'however the account is written';

is login('one', undef, '192.0.2.2')->{status}, 200,
    'another address is not held up';
is login('several')->{status}, 200, 'nor is another account';
is login('nobody', 'wrong')->{status}, 401, 'unknown accounts are counted';
is login('nobody', 'wrong')->{status}, 401, 'in the same way';
is login('nobody', 'wrong')->{status}, 401, 'up to the limit';
is login('nobody', 'wrong')->{status}, 429, 'and then refused';

# By itself, after the window.

$pg->sql("update login_attempts set window_ends_at = now()
    where account_hmac <> '' and failures = 3");
is login('one')->{status}, 200, 'the window ends by itself';

# Success clears the pair and is not a failure of the address.

for my $round (1 .. 3) {
    is login('several', 'wrong')->{status}, 401, 'a failure' for 1 .. 2;
    is login('several')->{status}, 200, 'a success clears the pair';
}
my $before = $pg->sql("select failures from login_attempts
    where account_hmac = '' and address = '192.0.2.1'");
login('several') for 1 .. 5;
is $pg->sql("select failures from login_attempts
    where account_hmac = '' and address = '192.0.2.1'"), $before,
    'successes are given back';

# An address as a whole, at ten times the limit.

$pg->sql('truncate login_attempts');
for my $n (1 .. 30) {
    my $status = login("guess$n", 'wrong')->{status};
    is $status, 401, "account $n" if $status != 401;
}
is login('guess31', 'wrong')->{status}, 429, 'the address is over its limit';
is login('one')->{status}, 429, 'for every account';
is login('one', undef, '192.0.2.2')->{status}, 200, 'other addresses are not';
is $pg->sql("select failures from login_attempts
    where account_hmac = '' and address = '192.0.2.1'"), 30,
    'what was refused is not counted';
is $pg->sql("select coalesce(sum(failures), 0) from login_attempts
    where account_hmac <> '' and failures > 1"), 0, 'nor for the accounts';
my $rows = rows();
is login("further$_", 'wrong')->{status}, 429, 'still locked' for 1 .. 20;
is rows(), $rows, 'nor do further names make rows';
$pg->sql("select login_attempt_begin(sha256('a'), '192.0.2.9', 3, 600)");
is rows(), $rows + 2, 'a login under way has its two';
$pg->sql("select login_attempt_settle(sha256('a'), '192.0.2.9', false)");
is rows(), $rows, 'one that was turned away has none';
is login('one', 'wrong', '192.0.2.9')->{status}, 401, 'a failure';
$pg->sql("select login_attempt_begin(sha256('a'), '192.0.2.9', 3, 600)");
$pg->sql("select login_attempt_settle(sha256('a'), '192.0.2.9', false)");
is $pg->sql("select failures from login_attempts
    where account_hmac = '' and address = '192.0.2.9'"), 1,
    'which stays counted';

# IPv6 by /64, IPv4 in IPv6 as IPv4, no address at all.

$pg->sql('truncate login_attempts');
is login('one', 'wrong', "2001:db8:1:2::$_")->{status}, 401, "address $_"
    for 1 .. 3;
is login('one', undef, '2001:db8:1:2:ffff::9')->{status}, 429,
    'one /64 is one address';
is login('one', undef, '2001:db8:1:3::1')->{status}, 200, 'another is not';
is login('one', 'wrong', '::ffff:198.51.100.7')->{status}, 401, 'mapped IPv4'
    for 1 .. 2;
is login('one', 'wrong', '198.51.100.7')->{status}, 401, 'is IPv4';
is login('one', undef, '198.51.100.7')->{status}, 429, 'counted together';
is login('one', undef, 'unix:')->{status}, 200, 'no address';
is login('one', undef, '')->{status}, 200, 'an empty one';
is login('one', undef, q{1'; drop table accounts; --})->{status}, 200,
    'nonsense';

# What a client says of its address is not asked: nginx names it.

$pg->sql('truncate login_attempts');
sub from {
    my ($credential, $forwarded) = @_;

    return $t->fcgi($identity->address)->request(POST => '/api/auth/login',
        params => { REMOTE_ADDR => '192.0.2.77',
            HTTP_X_FORWARDED_FOR => $forwarded, HTTP_X_REAL_IP => $forwarded,
            HTTP_FORWARDED => "for=$forwarded" },
        body => qq({"account":"one\@demo.test","credential":"$credential"}))
        ->{status};
}
is from('wrong', "198.51.100.$_"), 401, 'a client that says otherwise'
    for 1 .. 3;
is from('Demo-passw0rd!', '198.51.100.4'), 429, 'is known all the same';
is login('one', undef, '198.51.100.1')->{status}, 200,
    'and brings nobody else into trouble';

# Every attempt counts, however many come at once.

$pg->sql('truncate login_attempts');
my @clients = map { $t->fcgi($identity->address) } 1 .. 12;
$_->send(Platform::Test::Fcgi::request_bytes(POST => '/api/auth/login',
    params => { REMOTE_ADDR => '203.0.113.5' },
    body => '{"account":"one@demo.test","credential":"wrong"}'))
    for @clients;
my %status;
$status{ $_->read_answer->{status} }++ for @clients;
is_deeply \%status, { 401 => 3, 429 => 9 }, 'twelve at once';

# A login for which there is no memory was neither right nor wrong.

SKIP: {
    skip 'too much memory for valgrind', 1 if Platform::Test::Env::valgrind();
    $pg->sql('truncate login_attempts');
    $identity->stop;
    local @{ $identity->{env} }{qw(PLATFORM_AUTH_ARGON2_MEMORY_KIB
        PLATFORM_REQUEST_TIMEOUT)} = (131072, '5m');
    $identity->start;
    is login('one')->{status}, 200, 'a hash of 128 MiB';
    like $pg->sql("select credential_hash from accounts
        where account_name = 'one\@demo.test'"), qr/m=131072,/,
        'which is now the stored one';
    my $status = '/proc/' . $identity->pid . '/statm';
    open my $fh, '<', $status or die "$status: $!\n";
    # less than a hash takes, and more than the 64 MiB of addresses that the
    # C library sets aside for a thread's own heap
    my $limit = (split / /, <$fh>)[0] * 4096 + 112 * 1024 * 1024;
    my $prlimit = sub {
        return system('prlimit', '--pid', $identity->pid, "--as=$_[0]:") == 0;
    };
    ok $prlimit->($limit), 'less memory than that is left';
    for my $credential ((undef) x 4, ('wrong') x 4) {
        my $res = login('one', $credential);
        is_deeply [ @$res{qw(status code wait)} ], [ 503, 'AUTH_BUSY', 1 ],
            ($credential // 'right') . ': not decided';
    }
    is rows(), 0, 'nothing is counted';
    ok $prlimit->('unlimited'), 'memory again';
    is login('one')->{status}, 200, 'and the account is not locked';
    is login('one', 'wrong')->{status}, 401, 'what is wrong is counted';
    is rows(), 2, 'as before';
    $identity->stop;
}
$identity->start unless $identity->process;

# What is stored, and how much.

unlike $pg->sql("select encode(account_hmac, 'escape') from login_attempts"),
    qr/one|demo/, 'accounts are not readable';
is $pg->sql("select count(distinct account_hmac) from login_attempts
    where account_hmac <> '' and octet_length(account_hmac) <> 32"), 0,
    'but HMACs';
is $pg->sql("select count(*) from login_attempts where account_hmac in
    (sha256('one\@demo.test'), sha256('guess1\@demo.test'))"), 0,
    'with a key';
$pg->sql("insert into login_attempts
    select sha256(n::text::bytea), '198.51.100.1', 1, now() - interval '1 hour'
    from generate_series(1, 100) n");
login('one', 'wrong', "203.0.113.$_") for 10 .. 25;
cmp_ok rows(), '<', 50, 'expired rows leave as others come';

# Logs name known accounts by id, and nothing that was typed.

my @failed = grep { $_->{event} eq 'auth.login.failed' } $identity->log_lines;
ok scalar(grep { ($_->{accountId} // '') eq
    '00000000-0000-4000-8000-000300000001' } @failed), 'a known account';
ok scalar(grep { !defined $_->{accountId} } @failed), 'an unknown one';
unlike $identity->log_text, qr/demo\.test|guess|nobody|wrong/,
    'nothing that was typed';
ok scalar(grep { $_->{event} eq 'auth.login.limited' } $identity->log_lines),
    'being over the limit is logged';

$t->done;
