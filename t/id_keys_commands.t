# keys list, add, activate, retire, remove, revoke and rotate: what each does
# to the directory of keys, and when it refuses.

use strict;
use warnings;
use FindBin;
use lib "$FindBin::Bin/lib";
use Fcntl qw(:flock);
use IO::Socket::INET;
use POSIX ();
use Platform::Test;
use Platform::Test::Commands;
use Platform::Test::KeyDir;
use Test::More;
use Time::HiRes ();

my $t = Platform::Test->new;
my $dir = key_dir($t);
my $c = Platform::Test::Commands->new(test => $t, env => {
    key_dir_env($dir),
    PLATFORM_JWT_ACCESS_TOKEN_TTL  => '15m',
    PLATFORM_JWT_REFRESH_TOKEN_TTL => '30d',
}, secrets => [ 'BEGIN', 'MII' ]);
my $DAY = 86400;

# Begins anew with these: [ key, state, seconds ago, further options ].
sub keys_are {
    unlink map {"$dir/$_"} key_names($dir);
    key_put($dir, jwt_key($_->[0]), $_->[1], time - $_->[2],
        @$_[3 .. $#$_]) for @_;
    return;
}

sub names { return join ' ', key_names($dir) }

# All that there is to see of the directory and its files, but for who read it.
sub all_of {
    return join "\n", map {
        my @st = Time::HiRes::lstat($_);
        my $text = -f $_ && do { open my $fh, '<', $_; local $/; <$fh> };
        join ' ', $_, @st[0 .. 7, 9, 10], $text;
    } $dir, map {"$dir/$_"} key_names($dir);
}

# --dry-run tells, and neither does anything nor says that it did.
sub dry {
    my $before = all_of();
    my $told = $c->done(@_, '--dry-run');
    is all_of(), $before, "@_[0, 1] --dry-run changes nothing";
    is_deeply $c->events, [], 'nor is audited';
    return $told;
}

# The moment that many seconds after the one that a file's name has, as told.
sub after {
    my ($file, $seconds) = @_;
    my ($since) = names() =~ /\Q$file\E\.(\d+)\.pem/;
    return qr/not before @{[ POSIX::strftime '%Y-%m-%dT%H:%M:%S', gmtime $since + $seconds ]}/;
}

sub rows { return map { "$_->{step} $_->{kid} " . ($_->{done} ? 'done' : 'due') }
    map { { %$_, kid => $_->{kid} // '-' } } @{ $_[0] } }

# -- help and usage -----------------------------------------------------------

for my $verb (qw(list add activate retire remove revoke rotate)) {
    my ($status, $out) = $c->run('keys', $verb, '--help');
    is $status, 0, "keys $verb --help";
    is scalar(grep { length > 79 } split /\n/, $out), 0, "$verb: 79 columns";
    $c->refused(2, qr/PLATFORM_JWT_KEY_DIR: is not set/,
        { env => { PLATFORM_JWT_KEY_DIR => undef } }, 'keys', $verb,
        $verb =~ /^(?:list|add|rotate)$/ ? () : 'x');
}
$c->refused(2, qr/--ask is http:/, qw(keys rotate --ask), $_)
    for 'https://a/', 'http://a', 'http://a b/', 'http:///x', 'a:80/x',
    'http://a:x/';
$c->refused(2, qr/--every is integer seconds/, qw(keys rotate --every soon));
chmod 0770, $dir;
$c->refused(2, qr/others may write to it/, qw(keys list));
chmod 0700, $dir;

# -- the first key ------------------------------------------------------------

is_deeply $c->done(qw(keys list)), [], 'no key';
my $rows = dry(qw(keys rotate));
is_deeply [ rows($rows) ], ['add - due'], '--dry-run tells';
my ($status, $out) = $t->run_identity(['--check'], %{ $c->{env} });
is $status, 2, 'no service starts';
$t->write_file('keys/.new', 'of one that was killed');
chown 65534, 65534, $dir if $> == 0;
$rows = $c->done(qw(keys rotate));
my $kid = $rows->[0]{kid};
is_deeply [ rows($rows) ], [ "add $kid done", "activate $kid done" ],
    'rotate makes a key, and it signs';
is_deeply $c->events, [ 'keys.added', 'keys.activated' ], 'audited';
is_deeply [ map { $_->{kid} } @{ $c->{audit} } ], [ $kid, $kid ], 'by its id';
ok $c->{audit}[0]{operator}, 'and by whom';
is_deeply key_states($dir), { $kid => 'signing' }, 'one file, nothing else';
my @st = stat "$dir/" . names();
is $st[2] & 07777, 0600, 'its mode';
is $st[4], (stat $dir)[4], 'its owner is that of the directory';
chown 0, 0, $dir, "$dir/" . names() if $> == 0;
($status, $out) = $t->run_identity(['--check'], %{ $c->{env} });
is $status, 0, 'a service starts';
my ($row) = @{ $c->done(qw(keys list)) };
is_deeply [ @$row{qw(kid state step dueAt)} ], [ $kid, 'signing', undef, undef ],
    'list';
(undef, $out) = $c->run(qw(keys list));
like $out, qr/^key id .*state .*since .*\n\Q$kid\E +signing +20\d\d-/, 'columns';

# Whatever signed is gone: another one is made.
keys_are([ 'identity', 'refresh', 5, public => 1 ]);
is_deeply [ map { $_->{step} } @{ $c->done(qw(keys rotate)) } ],
    [qw(add activate remove)], 'rotate where no key signs';

# -- add ----------------------------------------------------------------------

keys_are([ 'identity', 'signing', 100 ]);
is_deeply [ @{ dry(qw(keys add --kid two)) }{qw(kid done)} ],
    [ 'two', JSON::PP::false() ], 'add --dry-run';
my $got = $c->done(qw(keys add --kid two));
is_deeply [ @$got{qw(step kid done)} ], [ 'add', 'two', JSON::PP::true() ], 'add';
is_deeply $c->events, ['keys.added'], 'audited';
is_deeply key_states($dir), { identity => 'signing', two => 'published' },
    'published';
$c->refused(1, qr/a key of this id exists already/, qw(keys add --kid two));
$c->refused(1, qr/cannot be the name of a file/, qw(keys add --kid), $_)
    for 'a/b', '.a', 'x' x 250;
$c->refused(2, qr/--kid is/, qw(keys add --kid a=b));
keys_are([ 'identity', 'signing', 100 ]);
key_put($dir, jwt_key('next')->as("k$_"), 'refresh', 1, public => 1)
    for 1 .. 14;
$c->refused(1, qr/there are 15 keys already: remove one/, @$_)
    for [qw(keys add)], [qw(keys rotate --every 0 --system-ttl 0),
        '--env-file', $t->write_file('long.env',
            "PLATFORM_JWT_REFRESH_TOKEN_TTL=3650d\n"
            . "PLATFORM_AUTH_SESSION_MAX_LIFETIME=0\n")];
$c->done(qw(keys revoke identity));
is_deeply [ grep { $_ eq 'signing' } values %{ key_states($dir) } ],
    ['signing'], 'but there is always room for one that replaces';
unlink "$dir/k1.refresh.1.pem";
$c->done(qw(keys add));
$c->done(qw(keys add --kid=-x)) if unlink "$dir/k2.refresh.1.pem";
ok key_states($dir)->{'-x'}, 'an id of any look, if it is given';
keys_are([ 'identity', 'signing', 100 ]);
{
    my $env = $t->identity_env(%{ $c->{env} });
    local @ENV{ keys %$env } = values %$env;
    isnt system('sh', '-c', 'ulimit -f 2; exec "$0" keys add >/dev/null 2>&1',
        Platform::Test::Env::identity()), 0, 'a file that has no room: fails';
    is_deeply key_states($dir), { identity => 'signing' }, 'and is no key';
}
my @at_once;
keys_are([ 'identity', 'signing', 100 ]);
@at_once = map { $c->start(qw(keys add --kid), "p$_") } 1 .. 4;
ok $_->wait_end(60), 'several at once' for @at_once;
is scalar(grep {/^p\d\.published/} key_names($dir)), 4, 'lose none';
keys_are([ 'identity', 'signing', 100 ]);
@at_once = map { $c->start(qw(keys rotate --every 0)) } 1 .. 4;
ok $_->wait_end(60), 'several rotations at once' for @at_once;
is_deeply [ sort values %{ key_states($dir) } ], [qw(published signing)],
    'are one';

# What a command does rests on what it read, and so the lock comes first.
keys_are([ 'identity', 'signing', 100 ]);
open my $lock, '<', $dir or die "$dir: $!\n";
flock $lock, LOCK_EX or die "$dir: $!\n";
my $waits = $c->start(qw(keys add --kid two));
eventually(sub { open my $fh, '<', '/proc/locks'; grep {/-> FLOCK/} <$fh> });
my $two = key_put($dir, jwt_key('next')->as('two'), 'published', 1);
close $lock;
ok $waits->wait_end(60), 'a command waits for another one';
is names() =~ tr/ //, 1, 'and sees what that one did';
like $t->read_file('op' . $t->{runs} . '.log'), qr/of this id exists already/,
    'and says so';

# -- activate: every gateway has it -------------------------------------------

my @published = ([ 'identity', 'signing', $DAY ], [ 'next', 'published', 500 ]);
keys_are(@published);
$c->refused(1, qr/not before 20\S+Z: not every gateway may have the key/,
    qw(keys activate next));
$c->refused(1, after('next.published', 6 + 600), qw(keys activate next));
is_deeply key_states($dir), { identity => 'signing', next => 'published' },
    'and nothing is changed';
is_deeply [ rows($c->done(qw(keys rotate))) ], ['activate next due'],
    'nor by rotate';
dry(qw(keys activate next --force));
$c->refused(1, qr/not before/, qw(keys activate next --soft-age 10m));
$c->done(qw(keys activate next --soft-age 8m));
is_deeply $c->events, ['keys.activated'], 'a shorter soft age: activated';
is $c->done(qw(keys list))->[1]{state}, 'replaced', 'the other is replaced';
keys_are(@published);
$c->done(qw(keys activate next --force));
is_deeply key_states($dir), { identity => 'signing', next => 'signing' },
    '--force';
$published[1][2] = 700;
keys_are(@published);
$c->done(qw(keys activate next));
ok 1, 'ten minutes later: activated';
$c->refused(1, qr/this key signs: activate another one first/,
    qw(keys activate next));
$c->done(qw(keys activate identity));
is $c->done(qw(keys list))->[0]{kid}, 'identity', 'and back at once';
$c->refused(1, qr/no key has this id/, qw(keys activate third));
keys_are($published[0], [ 'next', 'published', 700, public => 1 ]);
$c->refused(1, qr/next\.published\.\d+\.pem: has no private key/,
    qw(keys activate next --force));
keys_are($published[0], [ 'next', 'refresh', 700, public => 1 ]);
$c->refused(1, qr/state "refresh", whose next step is keys remove/,
    qw(keys activate next --force));
keys_are([ 'identity', 'signing', -3600 ], $published[1]);
$c->done(qw(keys activate next));
is $c->done(qw(keys list))->[0]{kid}, 'next',
    'a clock that was ahead does not matter';

# What is asked has to have it.

my $asked = $t->issuer(name => 'asked');
my @ask = ('--ask', 'http://127.0.0.1:' . $asked->port . '/internal/metrics');
sub metrics {
    my ($keys, $age) = @_;
    return "# HELP platform_gateway_key_set_keys x\n"
        . "platform_gateway_key_set_keys $keys\n"
        . "platform_gateway_key_set_age_seconds $age\n";
}
my @asked = ($published[0], [ 'next', 'published', 1000 ]);
my $lacks = qr{/internal/metrics: does not have the new key yet};
for my $case (
    [ 'a set from before', metrics(2, 1500), $lacks ],
    [ 'a set of fewer keys', metrics(1, 1), $lacks ],
    [ 'no set yet', "platform_gateway_key_set_keys 0\n", $lacks ],
    [ 'a key set without it', '{"keys":[{"kid":"identity"}]}', $lacks ],
    [ 'a key set with one like it', '{"keys":[{"kid":"next2"}]}', $lacks ],
    [ 'nothing', '', $lacks ],
    [ 'an error', metrics(2, 1), qr/a status other than 200/, 404 ],
    [ 'a redirect', metrics(2, 1), qr/a status other than 200/, 302 ],
) {
    my ($name, $body, $why, $status) = @$case;
    $asked->set(status => $status // 200, body => $body);
    keys_are(@asked);
    $c->refused(1, $why, qw(keys activate next), @ask);
    my ($exit, undef, $err) = $c->run(qw(keys rotate), @ask);
    is $exit, 1, "$name: rotate fails";
    like $err, $why, "$name: and says why";
    is key_states($dir)->{next}, 'published', "$name: nothing is changed";
}
$asked->down;
$c->refused(1, qr/does not answer/, qw(keys activate next), @ask);
$asked->up;
for my $good (metrics(2, 900), '{"keys":[{"kid":"identity"},{"kid":"next"}]}') {
    keys_are(@asked);
    $asked->set(status => 200, body => $good);
    is_deeply [ rows($c->done(qw(keys rotate), @ask)) ],
        [ 'activate next done', 'retire identity due' ], 'it has: activated';
}
keys_are($published[0], [ 'next', 'published', -20 ]);
$c->refused(1, qr/not before/, qw(keys activate next), @ask);
keys_are(@asked);
$c->refused(1, qr/does not answer/, qw(keys activate next), @ask, '--ask',
    'http://127.0.0.1:1/');

# What answers strangely holds nobody for long: there is a lock on the directory.

my $socket = IO::Socket::INET->new(Listen => 8, LocalAddr => '127.0.0.1')
    or die "no socket: $!\n";
my $head = "HTTP/1.1 200 OK\r\n\r\n";
my %strange = (
    silent => sub { 1 while sysread $_[0], my $byte, 1 },
    slow   => sub {
        syswrite $_[0], $head;
        select undef, undef, undef, 0.1 while syswrite $_[0], 'x';
    },
    'a hundred megabytes' => sub {
        syswrite $_[0], $head . "\n";
        my $much = 'x' x 1e6;
        for (1 .. 100) {
            return if (syswrite($_[0], $much) // 0) != 1e6;
        }
        syswrite $_[0], "\n" . metrics(2, 900);
    },
    'cut off' => sub { syswrite $_[0], $head
        . metrics(2, 900) =~ s/900\n\z/9/r },
    whole => sub { syswrite $_[0], $head . metrics(2, 900) },
);
my $stranger = $t->track(Platform::Test::Process->start(name => 'stranger',
    dir => $t->dir, log => $t->dir . '/stranger.log', code => sub {
        $SIG{PIPE} = 'IGNORE';
        $SIG{TERM} = sub { POSIX::_exit(0) };
        while (my $client = $socket->accept) {
            sysread $client, my $request, 4096;
            my ($how) = $request =~ m{^GET /(\S+)};
            $strange{ $how =~ tr/-/ /r }->($client);
        }
    }));
for my $how (sort grep { $_ ne 'whole' } keys %strange) {
    keys_are(@asked);
    $c->refused(1, $how eq 'silent' ? qr/does not answer/ : qr/not have the new/,
        { within => 60 }, qw(keys activate next --ask),
        'http://127.0.0.1:' . $socket->sockport . '/' . $how =~ tr/ /-/r);
    is key_states($dir)->{next}, 'published', "$how: nothing is changed";
}
$c->done(qw(keys activate next --ask),
    'http://127.0.0.1:' . $socket->sockport . '/whole');

# -- retire: the last access token is dead -------------------------------------

my @replaced = ([ 'identity', 'signing', 9 * $DAY ], [ 'next', 'signing', 3300 ]);
keys_are(@replaced);
$c->refused(1, qr/not before .*: access tokens of this key may still be valid/,
    qw(keys retire identity));
$c->refused(1, after('next.signing', 6 + 30 + $_->[0]), @$_[ 1 .. $#$_ ],
    qw(keys retire identity))
    for [3600], [ 7200, { env => { PLATFORM_JWT_ACCESS_TOKEN_TTL => '2h' } } ];
is_deeply [ rows($c->done(qw(keys rotate))) ], ['retire identity due'],
    'nor by rotate';
$c->refused(1, qr/this key signs/, qw(keys retire next --force));
$c->refused(1, qr/this key signs/, qw(keys remove next --force));
$c->refused(1, qr/state "replaced", whose next step is keys retire/,
    qw(keys remove identity --force));
my $since = time - 3300;
dry(qw(keys retire identity --system-ttl 0));
is_deeply [ rows(dry(qw(keys rotate --system-ttl 0))) ],
    ['retire identity due'], 'rotate --dry-run tells of a step that is due';
key_put($dir, jwt_key('other'), 'refresh', time, public => 1);
is_deeply [ rows(dry(qw(keys rotate --system-ttl 0))) ],
    [ 'retire identity due', 'remove other due' ], 'and of all others';
unlink grep {/other/} map {"$dir/$_"} key_names($dir);
$c->done(qw(keys retire identity --system-ttl 0));
is_deeply $c->events, ['keys.retired'], 'without system tokens: retired';
like names(), qr/^identity\.refresh\.\d+\.pem next\.signing/, 'its state';
my ($then) = names() =~ /refresh\.(\d+)/;
cmp_ok abs($then - $since), '<', 100, 'since it ended to sign';
my $text = $t->read_file("keys/identity.refresh.$then.pem");
unlike $text, qr/PRIVATE/, 'its private part is gone';
is $text, jwt_key('identity')->public_pem, 'the public one is not';
is +(stat "$dir/identity.refresh.$then.pem")[2] & 07777, 0600, 'mode';
$replaced[1][2] = 3600 + 40;
keys_are(@replaced);
$c->done(qw(keys retire identity));
is key_states($dir)->{identity}, 'refresh', 'an hour later: retired';
keys_are(@replaced);
$c->refused(1, qr/not before/, { env => {
    PLATFORM_JWT_ACCESS_TOKEN_TTL => '2h' } }, qw(keys retire identity));
$c->done({ env => { PLATFORM_JWT_ACCESS_TOKEN_TTL => '2h' } },
    qw(keys retire identity --force));

# -- remove: the last refresh token is dead --------------------------------------

my @refresh = ([ 'next', 'signing', 60 * $DAY ],
    [ 'identity', 'refresh', 29 * $DAY, public => 1 ]);
keys_are(@refresh);
$c->refused(1, qr/not before .*: refresh tokens of this key may still be valid/,
    qw(keys remove identity));
$c->refused(1, after('identity.refresh', 6 + 30 * $DAY),
    qw(keys remove identity));
is_deeply [ rows($c->done(qw(keys rotate))) ], ['remove identity due'],
    'nor by rotate, which begins nothing else';
$c->refused(1, qr/state "refresh"/, qw(keys retire identity --force));
dry(qw(keys remove identity --force));
$c->done(qw(keys remove identity --force));
is_deeply $c->events, ['keys.removed'], '--force';
is_deeply key_states($dir), { next => 'signing' }, 'is gone';
keys_are(@refresh);
$c->done({ env => { PLATFORM_AUTH_SESSION_MAX_LIFETIME => '28d' } },
    qw(keys remove identity));
ok 1, 'or when no session lives that long';
$refresh[1][2] = 30 * $DAY + 10;
keys_are(@refresh);
is_deeply [ rows($c->done(qw(keys rotate))) ], ['remove identity done'],
    'after 30 days rotate removes it, and begins nothing';
keys_are($refresh[0], [ 'identity', 'published', 1 ]);
$c->done(qw(keys remove identity));
ok 1, 'what never signed is removed at any time';
$c->refused(1, qr/state "published", whose next step is keys activate/,
    qw(keys retire), $c->done(qw(keys add))->{kid});

# -- a directory that no process would follow --------------------------------------

for my $bad ([ 'a file that others read', qr/others may read it/, mode => 0640 ],
    [ 'garbage', qr/accepted: RSA/, text => "-----BEGIN PUBLIC KEY-----\nx\n" ]) {
    my ($name, $why, @how) = @$bad;
    keys_are([ 'identity', 'signing', 60 * $DAY ], [ 'next', 'published', $DAY ],
        [ 'other', 'refresh', $DAY, public => 1, @how ]);
    my $before = names();
    $c->refused(2, $why, @$_) for [qw(keys list)], [qw(keys add)],
        [qw(keys activate next)], [qw(keys rotate)], [qw(keys rotate --dry-run)],
        [qw(keys remove other --force)];
    is names(), $before, "$name: nothing is changed";
    ($status, undef, my $err) = $c->run(qw(keys revoke next));
    is $status, 1, "$name: revoke fails";
    like $err, qr/^identity-fcgi: revoked, but no process follows: .*$why/m,
        "$name: and says why";
    is_deeply key_states($dir), { identity => 'signing', other => 'refresh' },
        "$name: a revocation is done, and tells";
    $c->done(qw(keys revoke other));
    is_deeply key_states($dir), { identity => 'signing' }, 'that one too';
}
keys_are([ 'identity', 'signing', $DAY, public => 1 ]);
$c->refused(2, qr/has no private key to sign with/, qw(keys rotate));
$c->done(qw(keys revoke identity));
is_deeply [ values %{ key_states($dir) } ], ['signing'], 'nor one without';

# -- rotate ------------------------------------------------------------------------

keys_are([ 'next', 'signing', 60 * $DAY ]);
my $before = names();
is_deeply [ rows($c->done(qw(keys rotate --every 61d))) ], ['add - due'],
    '--every: not yet';
is names(), $before, 'nothing is done';
is_deeply [ rows(dry(qw(keys rotate --every 60d))) ], ['add - due'],
    '--dry-run tells';
$rows = $c->done(qw(keys rotate --every 60d));
$kid = $rows->[0]{kid};
is_deeply [ rows($rows) ], [ "add $kid done", "activate $kid due" ],
    'after that: begins, and tells what comes';
like $rows->[1]{dueAt}, qr/^20\d\d-.*Z$/, 'and when';
$before = names();
$c->done(qw(keys rotate --every 0));
is names(), $before, 'again: the same rotation';
keys_are($refresh[0], [ 'identity', 'refresh', $DAY, public => 1 ]);
$rows = $c->done(qw(keys rotate --every 60d));
is_deeply [ map { $_->{step} } @$rows ], [qw(add activate remove)],
    '--every does not wait for refresh tokens';
keys_are(@replaced[0, 1], [ 'third', 'published', 9999 ]);
is_deeply [ rows($c->done(qw(keys rotate --system-ttl 2h))) ],
    ['retire identity due'], 'one after the other';

# -- revoke: at once ---------------------------------------------------------------

keys_are(@published);
dry(qw(keys revoke identity));
$got = $c->done(qw(keys revoke identity));
is_deeply [ @$got{qw(step kid)} ], [qw(revoke identity)], 'tells which';
is_deeply $c->events, [ 'keys.activated', 'keys.revoked' ], 'the signing key';
($kid) = grep { $_ ne 'next' } keys %{ key_states($dir) };
is_deeply key_states($dir), { next => 'published', $kid => 'signing' },
    'another one signs, which no gateway knows yet';
($status) = $t->run_identity(['--check'], %{ $c->{env} });
is $status, 0, 'and all is well';
for my $state (qw(published signing refresh)) {
    keys_are([ 'identity', 'signing', 10 ], [ 'next', $state, 20 ]);
    $c->done(qw(keys revoke next));
    is_deeply $c->events, ['keys.revoked'], "$state: revoked";
    is_deeply key_states($dir), { identity => 'signing' }, 'gone';
}
$c->refused(1, qr/no key has this id/, qw(keys revoke next));

# Where no new key can be written: on a disk of its own, which may be full.
my $disk = $t->dir . '/disk';
mkdir $disk or die "$disk: $!\n";
my $mount = 'mount -t tmpfs -o size=64k,mode=700 none "$1" || exit 99
    cp -p "$2"/* "$1" && shift 2 && "$@" || exit 98
    "$0" keys revoke identity --json; echo "exit $?"; ls -A "$PLATFORM_JWT_KEY_DIR"';
my @fill = ('sh', '-c', 'head -c 1M /dev/zero >"$0/.fill" 2>&-; test -s "$0/.fill"',
    $disk);
my $signing = [ 'identity', 'signing', 10 ];
SKIP: for my $case (
    [ 'room', ['true'], [ $signing, [ 'next', 'published', 20 ] ],
        qr/^exit 0\n(?!.*^identity)(?=.*^next\.published).*^\S+\.signing\./ms ],
    [ 'published', \@fill, [ $signing, [ 'other', 'signing', 99 ],
            [ 'next', 'published', 20 ] ],
        qr/^exit 0\n\.fill\nnext\.signing\.\d+\.pem\nother\.signing\S+\n\z/m ],
    [ 'replaced', \@fill, [ $signing, [ 'next', 'signing', 99 ] ],
        qr/^exit 0\n\.fill\nnext\.signing\.\d+\.pem\n\z/m ],
    [ 'none', \@fill, [ $signing, [ 'next', 'refresh', 9, public => 1 ] ],
        qr/^exit 1\n\.fill\nidentity\.signing\S+\nnext\.refresh\S+\n\z/m ],
) {
    my ($name, $fill, $keys, $want) = @$case;
    keys_are(@$keys);
    my $env = $t->identity_env(%{ $c->{env} }, PLATFORM_JWT_KEY_DIR => $disk);
    local @ENV{ keys %$env } = values %$env;
    open my $fh, '-|', qw(unshare --mount --propagation private sh -c),
        "exec 2>&1; $mount", Platform::Test::Env::identity(), $disk, $dir, @$fill
        or die "unshare: $!\n";
    my $said = do { local $/; <$fh> };
    close $fh;
    skip 'nothing may be mounted here', 1
        if $? >> 8 == 99 || $said =~ /^unshare: /m;
    like $said, $want, "a full disk, another key: $name";
    like $said, $name eq 'none'
        ? qr/No space left on device; and no other key can sign/
        : qr/"step":"revoke","kid":"identity"/, 'which it tells';
}

# Killed before each of its writes, and run again.
SKIP: {
    skip 'a sanitizer and the library that kills do not mix', 1
        if Platform::Test::Env::asan() || Platform::Test::Env::valgrind();
    my $killer = key_killer($t);
    keys_are([ 'identity', 'signing', 10 ]);
    my ($killed, $at) = (0, 1);
    while (key_states($dir)->{identity} && $killed < 20) {
        my %kill = (env => { $killer->($at) });
        my $before = () = keys %{ key_states($dir) };
        ($status) = $c->run(\%kill, qw(keys revoke identity));
        last if $status != 128 + 9;
        $killed++;
        $at = $before == keys %{ key_states($dir) } ? $at + 1 : 1;
        ($status) = $t->run_identity(['--check'], %{ $c->{env} });
        is $status, 0, "revoke, killed at write $killed: a good directory";
    }
    ok !key_states($dir)->{identity}, 'and in the end it is gone';
    is $killed, 7, 'killed before each write';
    is_deeply [ values %{ key_states($dir) } ], ['signing'], 'one key signs';
}

$t->done;
