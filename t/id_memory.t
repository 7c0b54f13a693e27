# What is secret of a request does not stay in the process's memory: no token,
# credential or cookie is found there once its answer has been sent.  And the service
# starts where the kernel takes no files in memory that could be executed
# (vm.memfd_noexec=2, a setting of the namespace of processes).

use Platform::Test;
use Platform::Test::Client;

no warnings 'portable';    # addresses

plan skip_all => 'needs root, to look into a process' if $> != 0;
plan skip_all => 'sanitizers and valgrind keep what was freed'
    if Platform::Test::Env::asan() || Platform::Test::Env::valgrind();

my $t = Platform::Test->new;
my $pg = $t->postgres;
my $identity = $t->identity_face(PLATFORM_WORKER_THREADS => 2,
    PLATFORM_AUTH_REFRESH_REUSE => 'revoke');
client_of($t);
my $COOKIE = $Platform::Test::Client::COOKIE;

# Where in the memory of the process a string is: one line each.
sub places ($needle) {
    my @found;
    my $proc = '/proc/' . $identity->pid;
    open my $maps, '<', "$proc/maps" or die "maps: $!";
    open my $mem, '<:raw', "$proc/mem" or die "mem: $!";
    while (my $line = <$maps>) {
        my ($from, $to, $what) = $line =~ /^(\w+)-(\w+) rw\S+ \S+ \S+ \S+\s*(.*)/ or next;
        sysseek $mem, hex $from, 0 or next;
        sysread $mem, my $bytes, hex($to) - hex $from or next;
        push @found, sprintf '%s-%s+%x %s', $from, $to, $-[0], $what while $bytes =~ /\Q$needle/g;
    }
    return @found;
}

# Tests: each is nowhere, soon after its answer.  Once one was, why wait.
my $patience = 20;

sub gone (%needles) {
    for my $name (sort keys %needles) {
        my @found;
        eventually(sub { @found = places($needles{$name}); return !@found }, $patience);
        $patience = 0 if @found;
        is join("\n", @found), '', $name;
    }
}

ok scalar(places($COOKIE)), 'what is meant to stay there is found';
my $credential = $Platform::Test::Client::CREDENTIAL;
my $login = logged_in('several');
gone('a credential' => $credential, 'a refresh token that was issued' => $login->{refreshToken},
    'an account token that was issued' => $login->{accountAccessToken});

# With a hash that other code computes (each of these: check_password).
$pg->sql("update accounts set credential_hash = '"
    . '$2b$04$abcdefghijklmnopqrstuutXcce4lTwggum255gOggX8NHFIbGWLW'
    . "' where account_name = 'none\@demo.test'");
ok logged_in('none'), 'bcrypt: login';
gone('bcrypt: its credential' => $credential);

# Escaped, it is decoded elsewhere.
call(login => undef, headers => [ 'Content-Type' => 'application/json' ],
    body => '{"account":"one@demo.test","credential":"wr\u006fng-and-secret"}');
gone('a credential that was escaped' => 'wrong-and-secret',
    'as it was sent' => 'wr\u006fng-and-secret');

my $old = $login->{refreshToken};
my $new = next_of(call(refresh => undef, body => '',
    cookie => "$COOKIE=$old; other=more-secrets"));
gone('a refresh token in a cookie' => $old, 'another cookie' => 'more-secrets',
    'the new refresh token' => $new);
my $res = refresh($new)->json;
gone('a refresh token in a body' => $new);
my $branch = select_branch($res, branch(31))->json->{accessToken};
gone('a token in Authorization' => $res->{accountAccessToken},
    'a branch token that was issued' => $branch);

# Refused, too.
my $late = 'late' . 'x' x 400 . 'later';
refresh($late);
call(nowhere => { a => $late }, token => $late);
call(login => { account => 'one@demo.test', credential => $late, more => 'x' x 17000 });
gone('what was refused' => $late);
is logout($res)->status, 200, 'logout';
gone('a token that logged out' => $res->{refreshToken});

SKIP: {
    skip 'this kernel has no vm.memfd_noexec', 4 if !-e '/proc/sys/vm/memfd_noexec';
    skip 'no namespaces of processes here', 4
        if system('unshare --pid --fork --mount-proc true 2>/dev/null') != 0;
    my $socket = $t->dir . '/strict.sock';
    my $p = $t->track(Platform::Test::Process->start(
        name => 'strict', dir => $t->dir, log => $t->dir . '/strict.log',
        env => $t->identity_env(IDENTITY_LISTEN => $socket),
        cmd => [ 'unshare', '--pid', '--fork', '--kill-child', '--mount-proc', 'sh',
            '-ec', 'echo 2 >/proc/sys/vm/memfd_noexec; exec "$@"', 'sh',
            Platform::Test::Env::identity() ],
    )->expect_end);
    my $got;
    ok eventually(sub {
        $got = eval { $t->fcgi($socket)->request(GET => '/healthz') };
        return $got || !$p->alive }), 'without such files: it starts';
    is $got && $got->{status}, 200, 'and serves';
    unlike $t->read_file('strict.log'), qr/"level":"(?:warn|error)"/,
        'with nothing to say about it';

    # Who made the namespace passes no signal on.
    open my $fh, '<', "/proc/@{[ $p->pid ]}/task/@{[ $p->pid ]}/children" or die "$!\n";
    kill 'TERM', split ' ', <$fh> // '';
    ok eventually(sub { !$p->alive }), 'and ends';
}

$t->done;
