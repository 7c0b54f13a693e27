# Failed logins.  Each costs the same and looks the same whether the account is unknown,
# disabled or the credential wrong: hashes and statements are counted, not timed (what
# each stored hash costs, usable or not: check_password).  And each is counted, per account
# and address, and per address at ten times that; over the limit even the right
# credential waits.

use Platform::Test;
use Platform::Test::Client;

my $t = Platform::Test->new;
my $pg = $t->postgres(settings => { log_statement => 'all' });
my $identity = $t->identity_face(PLATFORM_AUTH_MAX_FAILURES => 100);
my $port = client_of($t);
my $RIGHT = $Platform::Test::Client::CREDENTIAL;

# What was done so far: hashes by the service's count, statements by the
# database's log.
sub hashes {
    my $text = http_get($port, '/actuator/prometheus')->body;
    return map { $text =~ /^identity_hash_$_ (\d+)/m } qw(duration_seconds_count work_total);
}

my $read = 0;

sub statements {
    my $new = substr $t->read_file('postgres.log'), $read;
    $read += length $new;
    return map { $_ // 'set' } $new =~ /LOG:  (?:execute (\S+):|statement: SET)/g;
}

# One login: what it did and how its answer looked.
sub work ($account, $credential) {
    statements();
    my ($hashes, $cost) = hashes();
    my $res = login($account, credential => $credential);
    my ($head, $body) = ($res->raw_head, $res->body);
    s/[0-9a-f]{32}|^Date: .*$/ONE/mg for $head, $body;
    my ($hashes_now, $cost_now) = hashes();
    return { hashes => $hashes_now - $hashes, cost => $cost_now - $cost,
        statements => [ statements() ], head => $head, body => $body, status => $res->status };
}

# Every statement is prepared on every connection first.
work(one => 'wrong') for 1, 2;

my $unknown = work('nobody', $RIGHT);
is_deeply [ @$unknown{qw(status hashes cost)}, $unknown->{body} =~ /"(AUTH_\w+)"/ ],
    [ 401, 1, 19456 * 2, 'AUTH_INVALID_CREDENTIALS' ], 'unknown: refused, for one usual hash';
cmp_ok scalar @{ $unknown->{statements} }, '>=', 2, "statements: @{ $unknown->{statements} }";

# Those do and answer what an unknown account does: [account, credential].
sub are_same {
    is_deeply work(@$_), $unknown, "$_->[0], $_->[1]: the same work and answer" for @_;
}
are_same([ one => 'wrong' ], [ disabled => 'wrong' ], [ disabled => $RIGHT ],
    [ somebody => 'x' x 1024 ]);
my $right = work('one', $RIGHT);
cmp_ok scalar @{ $right->{statements} }, '>', scalar @{ $unknown->{statements} },
    'control: the right one: more statements';

# Nor does one with a second factor, or that has to get one; and without that no login asks.

sub asks ($account) { return grep {/factor/} @{ work($account, $RIGHT)->{statements} } }
is_deeply [ asks('several') ], [], 'without a second factor: no statement is about any';
for my $column (qw(second_factor factor_required)) {
    alter_account(several => $column => 't');
    are_same([ several => 'wrong' ]);
    is_deeply [ asks('several') ], [qw(factor_read factor_token_add)], "control: $column, the right one";
    alter_account(several => $column => 'f');
}

# Nor does an account stand out whose stored hash is none; that is logged.

sub column ($column) {
    return $pg->sql("select $column from accounts where account_name = 'several\@demo.test'");
}

sub alter_account ($account, $column, $value) {
    return $pg->sql("update accounts set $column = '$value'
        where account_name = '$account\@demo.test'");
}

my $hash = column('credential_hash');
alter_account(several => credential_hash => substr $hash, 0, -30);
are_same([ several => $RIGHT ]);
alter_account(several => credential_hash => $hash);
is_deeply [ map { $_->{accountId} } grep { $_->{event} eq 'auth.credential.unusable' }
    $identity->log_lines ], [ column('account_id') ], 'logged, with the account\'s id';
unlike $identity->log_text, qr/argon2id/, 'and not with the hash';

# Nor do accounts stand out whose hash is of before the parameters rose: as
# long as others have such a hash, unknown accounts cost the same, and that is
# never less than a hash of today.

restart($identity, AUTH_ARGON2_ITERATIONS => 3);
work(one => 'wrong') for 1, 2;
$unknown = work('nobody', $RIGHT);
is $unknown->{cost}, 19456 * (2 + 3), 'dearer parameters: unknown: the old cost and the new one';
are_same([ disabled => $RIGHT ], [ one => 'wrong' ]);

# The first account stands in here for those that are not there.
for my $case (
    [ 'verified at the old cost, hashed anew at the new one', 2 + 3, 200, 'one', $RIGHT ],
    [ 'the new cost', 3, 401, 'one', 'wrong' ],
    [ 'for whom it stands in too', 3, 401, 'nobody', $RIGHT ],
    [ 'others are behind', 2 + 3, 401, 'several', 'wrong' ],
) {
    my ($name, $passes, $status, $account, $credential) = @$case;
    is_deeply [ @{ work($account, $credential) }{qw(cost status)} ],
        [ 19456 * $passes, $status ], $name;
}

# Nor do accounts that were brought along with hashes of other forms, as here bcrypt of
# Demo-passw0rd!, 16 rounds.  Alone: whoever stands in has today's.

my $foreign = '$2b$04$abcdefghijklmnopqrstuutXcce4lTwggum255gOggX8NHFIbGWLW';
alter_account(several => credential_hash => $foreign);
my $known = work('several', 'wrong');
is $known->{cost}, 16 + 19456 * 3, 'bcrypt: its own work and a hash of today';
is work('nobody', 'wrong')->{cost}, 19456 * 3, 'unknown, another stands in: a hash of today';

# As one of many: it stands in.
alter_account(one => credential_hash => $foreign);
$unknown = $known;
are_same([ nobody => $RIGHT ], [ one => 'wrong' ]);
alter_account(several => status => 'DISABLED');
are_same([ several => $RIGHT ]);
is column('credential_hash'), $foreign, 'which leaves its hash alone';
alter_account(several => status => 'ACTIVE');

# With the right one it becomes today's, by the same work.
$right = work('several', $RIGHT);
is_deeply [ @$right{qw(status cost)} ], [ 200, $known->{cost} ], 'the right one: the same work';
like column('credential_hash'), qr/\A\$argon2id\$v=19\$m=19456,t=3,p=1\$/, 'hashed anew';
is work('several', $RIGHT)->{cost}, 19456 * 3, 'and again, as of today';

# Their audit lines name the account that is known, and no other.
my %named = map { $_->{event} eq 'auth.login.failed' ? ($_->{accountId} // 'nobody' => 1) : () }
    $identity->log_lines;
is scalar keys %named, 4, 'three accounts and nobody are named in the log';

# Nor does a rotation of the signing key tell who is not there: whoever stands in for a
# name does so for ever.  Here each stored hash has a cost of its own.
$pg->sql("insert into accounts (account_name, credential_hash)
    select 'of-cost-' || n || '\@demo.test', replace(credential_hash, 'm=19456',
        'm=' || 1000 + n) from accounts, generate_series(1, 30) as n
    where account_name = 'disabled\@demo.test'");
my @nobody = map {"nobody-$_"} 1 .. 12;
my ($old_key, $new_key) = map {
    my $key = jwt_key($_);
    restart($identity, JWT_KEY_ID => $key->kid, JWT_PRIVATE_KEY_BASE64 => $key->private_base64,
        JWT_PUBLIC_KEY_BASE64 => $key->public_base64);
    join ' ', map { work($_, 'wrong')->{cost} } @nobody;
} qw(next identity);
is $new_key, $old_key, 'another signing key: unknown names cost what they did';
cmp_ok scalar keys %{ { map { $_ => 1 } split / /, $old_key } }, '>', 4, 'and differ';
$pg->sql("delete from accounts where account_name like 'of-cost-%'");

# -- they are counted

restart($identity, AUTH_MAX_FAILURES => 3, AUTH_FAILURE_WINDOW => '10m',
    AUTH_ARGON2_ITERATIONS => undef);
$pg->sql('truncate login_attempts');

# One login from any address, as nginx would pass it on.
sub from ($account, $credential = undef, $address = undef, %params) {
    return (POST => '/api/auth/login', params => { %params,
        REMOTE_ADDR => $address // '192.0.2.1' }, body => JSON::PP->new->utf8->encode(
        { account => "$account\@demo.test", credential => $credential // $RIGHT }));
}

sub rows { return $pg->sql('select count(*) from login_attempts') }

sub failures { return $pg->sql("select failures from login_attempts
    where account_hmac = '' and address = '$_[0]'") }

# Logins that are made in a row: [name, status, times, login].
sub logins {
    for my $case (@_) {
        my ($name, $status, $times, @login) = @$case;
        my @got = map { my $n = $_; $t->fcgi($identity->address)->request(
            from(map { defined ? s/%d/$n/r : $_ } @login))->{status} } 1 .. $times;
        is_deeply \@got, [ ($status) x $times ], $name;
    }
}

# The pair.

my $first = time;
logins([ 'three failures', 401, 3, 'one', 'wrong' ]);
my $answer = $t->fcgi($identity->address)->request(from('one', 'wrong'));
my ($wait) = map { $_->[0] eq 'Retry-After' ? $_->[1] : () } @{ $answer->{headers} };
like "$answer->{status} $answer->{body}", qr/\A429 .*"AUTH_TOO_MANY_ATTEMPTS"/, 'one too many';
ok $wait >= 600 - (time - $first) - 1 && $wait <= 600, 'Retry-After is what is left of the window';
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

# A login that runs out of time, when its credential has been found right.

restart($identity, REQUEST_TIMEOUT => '1s');
ok eventually(sub { http_get($port, '/readyz')->status == 200 }), 'it is ready';
my $gate = $pg->begin('lock table workspaces');
logins([ 'its branches cannot be read', 503, 1, 'several' ]);
$pg->end($gate, 'rollback');
is failures('192.0.2.1'), $before, 'that is given back, too';
restart($identity, REQUEST_TIMEOUT => undef);
ok eventually(sub { http_get($port, '/readyz')->status == 200 }), 'it is ready';

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
    [ 'no address', 200, 1, 'one', undef, 'unix:' ], [ 'nonsense', 200, 1, 'one', undef, q{1'; drop table accounts; --} ],
    [ 'a client that says otherwise', 401, 3, 'one', 'wrong', '192.0.2.77', @says,
        HTTP_FORWARDED => 'for=198.51.100.%d' ],
    [ 'is known all the same', 429, 1, 'one', undef, '192.0.2.77', @says ],
    [ 'and brings nobody else into trouble', 200, 1, 'one', undef, '198.51.100.1' ]);

# Every attempt counts, however many come at once.

$pg->sql('truncate login_attempts');
my @clients = map { $t->fcgi($identity->address) } 1 .. 8;
$_->send(Platform::Test::Fcgi::request_bytes(from('one', 'wrong', '203.0.113.5'))) for @clients;
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

unlike $identity->log_text, qr/demo\.test|guess|nobody|somebody|wrong/, 'nothing that was typed';
like $identity->log_text, qr/"auth\.login\.limited"/, 'being over the limit is logged';

$t->done;
