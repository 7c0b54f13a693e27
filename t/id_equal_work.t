# A login that fails costs the same and looks the same whether the account is
# unknown, disabled or the credential wrong: hashes and statements are counted, not
# timed.  What each stored hash costs, usable or not: check_password.

use Platform::Test;

my $t = Platform::Test->new;
my $pg = $t->postgres(settings => { log_statement => 'all' });
my $identity = $t->identity_face(PLATFORM_AUTH_MAX_FAILURES => 100);
my $port = $t->port('identity');

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
    my @found;
    push @found, $1 // 'set' while $new =~ /LOG:  (?:execute (\S+):|statement: SET)/g;
    return @found;
}

# One login: what it did and how its answer looked.
sub work ($account, $credential) {
    statements();
    my ($hashes, $cost) = hashes();
    my $res = http_post($port, '/api/auth/login', json => {
        account => $account, credential => $credential });
    my ($head, $body) = ($res->raw_head, $res->body);
    s/[0-9a-f]{32}|^Date: .*$/ONE/mg for $head, $body;
    my ($hashes_now, $cost_now) = hashes();
    return { hashes => $hashes_now - $hashes, cost => $cost_now - $cost,
        statements => [ statements() ], head => $head, body => $body, status => $res->status };
}

# Every statement is prepared on every connection first.
work('one@demo.test', 'wrong') for 1, 2;

my $unknown = work('nobody@demo.test', 'Demo-passw0rd!');
is_deeply [ @$unknown{qw(status hashes cost)} ], [ 401, 1, 19456 * 2 ],
    'unknown: refused, for one hash of the usual parameters';
cmp_ok scalar @{ $unknown->{statements} }, '>=', 2, "statements: @{ $unknown->{statements} }";
like $unknown->{body}, qr/"AUTH_INVALID_CREDENTIALS"/, 'the code';

my %same = (
    'wrong credential' => [ 'one@demo.test', 'wrong' ],
    'wrong, as long as the right one' => [ 'one@demo.test', 'Demo-passw0rd?' ],
    'disabled'         => [ 'disabled@demo.test', 'Demo-passw0rd!' ],
    'disabled, wrong'  => [ 'disabled@demo.test', 'wrong' ],
    'unknown again'    => [ 'somebody@demo.test', 'x' x 1024 ],
);

# Those do and answer what an unknown account does.
sub are_same {
    is_deeply work(@{ $same{$_} }), $unknown, "$_: the same work and answer" for @_;
}
are_same(sort keys %same);

# Nor does an account stand out whose stored hash is none; that is logged.

sub stored { return $pg->sql("select credential_hash from accounts
    where account_name = '$_[0]\@demo.test'") }

sub alter ($account, $column, $value) {
    return $pg->sql("update accounts set $column = '$value'
        where account_name = '$account\@demo.test'");
}

my $hash = stored('several');
alter(several => credential_hash => substr $hash, 0, -30);
is_deeply work('several@demo.test', 'Demo-passw0rd!'), $unknown, 'a hash cut off: the same work';
alter(several => credential_hash => $hash);
is_deeply [ map { $_->{accountId} } grep { $_->{event} eq 'auth.credential.unusable' }
    $identity->log_lines ], [ $pg->sql("select account_id from accounts
    where account_name = 'several\@demo.test'") ], 'logged, with the account\'s id';
unlike $identity->log_text, qr/argon2id/, 'and not with the hash';

# A login that succeeds is not mistaken for one of these.
my $right = work('one@demo.test', 'Demo-passw0rd!');
is_deeply [ @$right{qw(status hashes)} ], [ 200, 1 ], 'right: succeeds, for one hash';
cmp_ok scalar @{ $right->{statements} }, '>', scalar @{ $unknown->{statements} },
    'right: more statements';

# Nor do accounts stand out whose hash is of before the parameters rose: as
# long as others have such a hash, unknown accounts cost the same, and that is
# never less than a hash of today.

$identity->stop;
$identity->{env}{PLATFORM_AUTH_ARGON2_ITERATIONS} = 3;
$identity->start;
work('one@demo.test', 'wrong') for 1, 2;
$unknown = work('nobody@demo.test', 'Demo-passw0rd!');
is $unknown->{cost}, 19456 * (2 + 3), 'dearer parameters: unknown: the old cost and the new one';
are_same('disabled', 'wrong credential');

# The first account stands in here for those that are not there.
for my $case (
    [ 'verified at the old cost, hashed anew at the new one', 2 + 3, 200, 'one', 'Demo-passw0rd!' ],
    [ 'the new cost', 3, 401, 'one', 'wrong' ],
    [ 'for whom it stands in too', 3, 401, 'nobody', 'Demo-passw0rd!' ],
    [ 'others are behind', 2 + 3, 401, 'several', 'wrong' ],
) {
    my ($name, $passes, $status, $account, $credential) = @$case;
    is_deeply [ @{ work("$account\@demo.test", $credential) }{qw(cost status)} ],
        [ 19456 * $passes, $status ], $name;
}

# Nor do accounts that were brought along with hashes of other forms, as here bcrypt of
# Demo-passw0rd!, 16 rounds.  Alone: whoever stands in has today's.

my $foreign = '$2b$04$abcdefghijklmnopqrstuutXcce4lTwggum255gOggX8NHFIbGWLW';
alter(several => credential_hash => $foreign);
my $known = work('several@demo.test', 'wrong');
is $known->{cost}, 16 + 19456 * 3, 'bcrypt: its own work and a hash of today';
is work('nobody@demo.test', 'wrong')->{cost}, 19456 * 3,
    'unknown, with another to stand in: a hash of today';
my $long = work('several@demo.test', 'x' x 1024);
is_deeply [ @$long{qw(hashes cost statements)} ], [ @$known{qw(hashes cost statements)} ],
    'a credential that crypt() does not take: the same work';

# As one of many: it stands in.
alter(one => credential_hash => $foreign);
$unknown = work('nobody@demo.test', 'Demo-passw0rd!');
is_deeply $unknown, $known, 'unknown: the same work and answer';
are_same('wrong credential');
alter(several => status => 'DISABLED');
is_deeply work('several@demo.test', 'Demo-passw0rd!'), $unknown,
    'disabled: the same work and answer';
is stored('several'), $foreign, 'which leaves its hash alone';
alter(several => status => 'ACTIVE');

# With the right one it becomes today's, by the same work.
$right = work('several@demo.test', 'Demo-passw0rd!');
is_deeply [ @$right{qw(status cost)} ], [ 200, $known->{cost} ], 'the right one: the same work';
like stored('several'), qr/\A\$argon2id\$v=19\$m=19456,t=3,p=1\$/, 'hashed anew';
is work('several@demo.test', 'Demo-passw0rd!')->{cost}, 19456 * 3, 'and again, as of today';

# Their audit lines name the account that is known, and no other.
my @failed = grep { $_->{event} eq 'auth.login.failed' } $identity->log_lines;
my %named = map { ($_->{accountId} // 'nobody') => 1 } @failed;
is scalar keys %named, 4, 'three accounts and nobody are named in the log';
unlike $identity->log_text, qr/nobody\@|somebody\@/, 'what was typed is not logged';

$t->done;
