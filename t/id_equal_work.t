# A login that fails costs the same and looks the same whether the account is
# unknown, disabled or the credential wrong: hashes and statements are counted, not
# timed.  What each stored hash costs, usable or not: check_password.

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
is_deeply [ @$unknown{qw(status hashes cost)} ], [ 401, 1, 19456 * 2 ],
    'unknown: refused, for one hash of the usual parameters';
cmp_ok scalar @{ $unknown->{statements} }, '>=', 2, "statements: @{ $unknown->{statements} }";
like $unknown->{body}, qr/"AUTH_INVALID_CREDENTIALS"/, 'the code';

# Those do and answer what an unknown account does: [account, credential].
sub are_same {
    is_deeply work(@$_), $unknown, "$_->[0], $_->[1]: the same work and answer" for @_;
}
are_same([ one => 'wrong' ], [ one => 'Demo-passw0rd?' ], [ disabled => 'wrong' ],
    [ disabled => $RIGHT ], [ somebody => 'x' x 1024 ]);

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

# A login that succeeds is not mistaken for one of these.
my $right = work('one', $RIGHT);
is_deeply [ @$right{qw(status hashes)} ], [ 200, 1 ], 'right: succeeds, for one hash';
cmp_ok scalar @{ $right->{statements} }, '>', scalar @{ $unknown->{statements} },
    'right: more statements';

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
is work('nobody', 'wrong')->{cost}, 19456 * 3,
    'unknown, with another to stand in: a hash of today';
is_deeply work('several', 'x' x 1024), $known,
    'a credential that crypt() does not take: the same work and answer';

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
unlike $identity->log_text, qr/nobody\@|somebody\@/, 'what was typed is not logged';

$t->done;
