# Failed logins are counted per account and address, and per address at ten
# times that; over the limit even the right credential waits.

use JSON::PP;
use Platform::Test;

my $t = Platform::Test->new;
my $identity = $t->identity(PLATFORM_AUTH_MAX_FAILURES => 3,
    PLATFORM_AUTH_FAILURE_WINDOW => '10m');
my $pg = $t->postgres;
my $json = JSON::PP->new->utf8;

# One login from any address, as nginx would pass it on.
sub login_bytes ($account, $credential = undef, $address = undef, %params) {
    return Platform::Test::Fcgi::request_bytes(POST => '/api/auth/login',
        params => { %params, REMOTE_ADDR => $address // '192.0.2.1' },
        body => $json->encode({ account => "$account\@demo.test",
            credential => $credential // 'Demo-passw0rd!' }));
}

sub answer ($bytes) {
    my $client = $t->fcgi($identity->address);
    $client->send($bytes);
    return $client->read_answer;
}

sub rows { return $pg->sql('select count(*) from login_attempts') }

sub failures { return $pg->sql("select failures from login_attempts
    where account_hmac = '' and address = '$_[0]'") }

# Logins that are made in a row: [name, status, times, login].
sub logins {
    for my $case (@_) {
        my ($name, $status, $times, @login) = @$case;
        is_deeply [ map { my $n = $_; answer(login_bytes(map { defined ? s/%d/$n/r : $_ } @login))
            ->{status} } 1 .. $times ], [ ($status) x $times ], $name;
    }
}

# The pair.

logins([ 'three failures', 401, 3, 'one', 'wrong' ]);
my $answer = answer(login_bytes('one', 'wrong'));
my ($wait) = map { $_->[0] eq 'Retry-After' ? $_->[1] : () } @{ $answer->{headers} };
like "$answer->{status} $answer->{body}", qr/\A429 .*"AUTH_TOO_MANY_ATTEMPTS"/, 'one too many';
ok $wait > 590 && $wait <= 600, 'Retry-After is what is left of the window';
logins([ 'the right credential waits too', 429, 1, 'one' ],
    [ 'however the account is written', 429, 1, ' ONE' ],
    [ 'another address is not held up', 200, 1, 'one', undef, '192.0.2.2' ],
    [ 'nor is another account', 200, 1, 'several' ],
    [ 'unknown accounts are counted in the same way', 401, 3, 'nobody', 'wrong' ],
    [ 'and then refused', 429, 1, 'nobody', 'wrong' ]);
$pg->sql("update login_attempts set window_ends_at = now()
    where account_hmac <> '' and failures = 3");
logins([ 'the window ends by itself', 200, 1, 'one' ],
    ([ 'two failures', 401, 2, 'several', 'wrong' ],
        [ 'a success clears the pair', 200, 1, 'several' ]) x 2);
my $before = failures('192.0.2.1');
logins([ 'successes', 200, 2, 'several' ]);
is failures('192.0.2.1'), $before, 'are given back';

# An address as a whole, at ten times the limit: 28 failures, as if made.

$pg->sql("truncate login_attempts; insert into login_attempts
    values ('', '192.0.2.1', 28, now() + interval '10 minutes')");
logins([ 'the last two', 401, 2, 'guess%d', 'wrong' ],
    [ 'the address is over its limit', 429, 1, 'guess31', 'wrong' ],
    [ 'for every account', 429, 1, 'one' ],
    [ 'other addresses are not', 200, 1, 'one', undef, '192.0.2.2' ]);
is failures('192.0.2.1'), 30, 'what was refused is not counted';
my $rows = rows();
logins([ 'still locked', 429, 5, 'further%d', 'wrong' ]);
is rows(), $rows, 'nor do further names make rows';
my @begun = map {"select login_attempt_$_"} "begin(sha256('a'), '192.0.2.9', 3, 600)",
    "settle(sha256('a'), '192.0.2.9', false)";
is_deeply [ map { $pg->sql($_); rows() } @begun ], [ $rows + 2, $rows ],
    'a login under way has its two, one that was turned away has none';
logins([ 'a failure', 401, 1, 'one', 'wrong', '192.0.2.9' ]);
$pg->sql($_) for @begun;
is failures('192.0.2.9'), 1, 'which stays counted';

# IPv6 by /64, IPv4 in IPv6 as IPv4, no address at all.  What a client says of its own
# is not asked: nginx names it.

$pg->sql('truncate login_attempts');
my @says = map { ($_ => '198.51.100.%d') } qw(HTTP_X_FORWARDED_FOR HTTP_X_REAL_IP);
logins([ 'three addresses', 401, 3, 'one', 'wrong', '2001:db8:1:2::%d' ],
    [ 'one /64 is one address', 429, 1, 'one', undef, '2001:db8:1:2:ffff::9' ],
    [ 'another is not', 200, 1, 'one', undef, '2001:db8:1:3::1' ],
    [ 'mapped IPv4', 401, 2, 'one', 'wrong', '::ffff:198.51.100.7' ],
    [ 'is IPv4', 401, 1, 'one', 'wrong', '198.51.100.7' ],
    [ 'counted together', 429, 1, 'one', undef, '198.51.100.7' ],
    [ 'no address', 200, 1, 'one', undef, 'unix:' ], [ 'an empty one', 200, 1, 'one', undef, '' ],
    [ 'nonsense', 200, 1, 'one', undef, q{1'; drop table accounts; --} ],
    [ 'a client that says otherwise', 401, 3, 'one', 'wrong', '192.0.2.77', @says,
        HTTP_FORWARDED => 'for=198.51.100.%d' ],
    [ 'is known all the same', 429, 1, 'one', undef, '192.0.2.77', @says ],
    [ 'and brings nobody else into trouble', 200, 1, 'one', undef, '198.51.100.1' ]);

# Every attempt counts, however many come at once.

$pg->sql('truncate login_attempts');
my @clients = map { $t->fcgi($identity->address) } 1 .. 8;
$_->send(login_bytes('one', 'wrong', '203.0.113.5')) for @clients;
my %status;
$status{ $_->read_answer->{status} }++ for @clients;
# One that waited too long for a processor is not counted.
my $busy = delete $status{503} // 0;
my $decided = $status{401} // 0;
is_deeply \%status, { 401 => $decided, 429 => 8 - $busy - $decided }, 'eight at once';
ok $decided <= 3 && $decided + $busy >= 3, 'have three tries';

# What is stored, and how much.

is $pg->sql("select count(*) from login_attempts where account_hmac <> ''
    and (octet_length(account_hmac) <> 32 or account_hmac = sha256('one\@demo.test'))"), 0,
    'accounts are HMACs, with a key';
$pg->sql("insert into login_attempts
    select sha256(n::text::bytea), '198.51.100.1', 1, now() - interval '1 hour'
    from generate_series(1, 100) n");
logins([ 'four more', 401, 4, 'one', 'wrong', '203.0.113.1%d' ]);
cmp_ok rows(), '<', 85, 'expired rows leave as others come';

# Logs name known accounts by id, and nothing that was typed.

my %seen = map { ("$_->{event} " . ($_->{accountId} // '') => 1) } $identity->log_lines;
ok $seen{"auth.login.failed $_"}, "an account '$_'" for '00000000-0000-4000-8000-000300000001', '';
unlike $identity->log_text, qr/demo\.test|guess|nobody|wrong/, 'nothing that was typed';
like $identity->log_text, qr/"auth\.login\.limited"/, 'being over the limit is logged';

$t->done;
