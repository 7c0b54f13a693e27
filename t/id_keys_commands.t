# keys list, add, activate, retire, remove, revoke and rotate: what each does
# to the directory of keys, and when it refuses.

use Fcntl qw(:flock);
use MIME::Base64 qw(decode_base64);
use POSIX ();
use Platform::Test;
use Platform::Test::Commands;
use Platform::Test::KeyDir;

my $t = Platform::Test->new;
my $dir = key_dir($t);
# As private keys of the types begin, and long enough that no random kid has it by chance.
my $c = Platform::Test::Commands->new(test => $t, secrets => [qw(BEGIN MIIEv MIIEo MIIEp MIGHAgEA MHcCAQEE MC4CAQAw)], env => {
    key_dir_env($dir), PLATFORM_JWT_ACCESS_TOKEN_TTL => '15m',
    PLATFORM_JWT_REFRESH_TOKEN_TTL => '30d' });
my $asked = $t->issuer(name => 'asked');

# An ES256 key, since a command makes one of the same kind, and an RSA key takes seconds.
sub key ($kid) { return jwt_key($kid, alg => 'ES256') }

# Begins anew with these: KEY.STATE.SECONDS or KEY.STATE.DAYSd of age, and .public for
# one without its private part, as each has it that is there for refresh tokens.
sub keys_are ($keys) {
    unlink map {"$dir/$_"} key_names($dir);
    for (split / /, $keys) {
        my ($kid, $state, $age, $public) = split /[.]/;
        $age *= 86400 if $age =~ s/d\z//;
        key_put($dir, key($kid), $state, time - $age, public => $public || $state eq 'refresh');
    }
}

sub names { return join ' ', grep { !/^\./ } key_names($dir) }

# KEY.STATE each.
sub states { return join ' ', map {s/\.\d+\.pem$//r} split / /, names() }

# All that there is to see of the directory and its files, but for who read it.
sub all_of {
    return scalar qx{find '$dir' -printf '%p %i %m %U %s %T\@ %C\@\n' -type f -exec cat '{}' +};
}

# STEP KEY done, or due, each.
sub rows ($rows) {
    return join ', ', map { join ' ', $_->{step}, $_->{kid} // '-', $_->{done} ? 'done' : 'due' }
        @$rows;
}

# --dry-run tells, and neither does anything nor says that it did.
sub dry (@words) {
    my $before = all_of();
    my $told = $c->done(@words, '--dry-run');
    is all_of(), $before, "@words --dry-run changes nothing";
    is_deeply $c->events, [], 'nor is audited';
    return $told;
}

# One command: name, keys (undef: as they are), words, and what is expected: refused =>
# the reason, or [file, seconds after its name's moment that it may be, reason]; else
# states, events, rows; fails => what it says, done or not; env, dry (first so), and said
# => [status, body] of who is asked.
sub command ($name, $keys, $words, %want) {
    keys_are($keys) if $keys;
    $asked->set(status => $want{said}[0], body => $want{said}[1]) if $want{said};
    my ($before, @words) = (names(), 'keys', split / /, $words);
    my $env = { env => $want{env} // {} };
    if (my $why = $want{refused}) {
        if (ref $why eq 'ARRAY') {
            my ($since) = $before =~ /\Q$why->[0]\E\.(\d+)\.pem/;
            my $at = POSIX::strftime('%FT%TZ', gmtime $since + $why->[1]);
            $why = qr/not before $at: $why->[2]/;
        }
        $c->refused($want{status} // 1, $why, $env, @words);
        return is names(), $before, "$name: nothing is changed";
    }
    if ($want{fails}) {
        my ($exit, undef, $err) = $c->run($env, @words);
        is $exit . ' ' . states(), "1 $want{states}", "$name: @words fails; the keys";
        return like $err, $want{fails}, 'and says why';
    }
    dry(@words) if $want{dry};
    my $got = $c->done($env, @words);
    my %is = (rows => $want{rows} && rows($got), states => states(),
        events => join ' ', map {s/^keys\.//r} @{ $c->events });
    is $is{$_}, $want{$_}, "$name: $words: $_" for grep { $want{$_} } sort keys %is;
    return $got;
}

# -- help and usage -----------------------------------------------------------

$c->refused(2, qr/PLATFORM_JWT_KEY_DIR: is not set/,
    { env => { PLATFORM_JWT_KEY_DIR => undef } }, 'keys', split / /)
    for qw(list add rotate), map {"$_ x"} qw(activate retire remove revoke);
$c->refused(2, qr/--ask is http:/, qw(keys rotate --ask), $_)
    for 'https://a/', 'http://a', 'http://a b/', 'http:///x', 'http://a:x/';
$c->refused(2, qr/--every is integer seconds/, qw(keys rotate --every soon));

# -- the first key ------------------------------------------------------------

is_deeply $c->done(qw(keys list)), [], 'no key';
is rows(dry(qw(keys rotate))), 'add - due', '--dry-run tells';
sub good { return ($t->run_identity(['--check'], %{ $c->{env} }))[0] == 0 }
ok !good(), 'no service starts';
$t->write_file('keys/.new', 'of one that was killed');
chown 65534, 65534, $dir if $> == 0;
my $rows = command('the first', undef, 'rotate', events => 'added activated');
my $kid = $rows->[0]{kid};
is_deeply [ rows($rows), states(), key_names($dir) ],
    [ "add $kid done, activate $kid done", "$kid.signing", names() ],
    'rotate makes a key, and it signs; there is no other file';
is_deeply [ map { ($_->{kid}, !!$_->{operator}) } @{ $c->{audit} } ], [ ($kid, 1) x 2 ],
    'audited by its id, and by whom';
my @st = stat "$dir/" . names();
is_deeply [ $st[2] & 07777, $st[4] ], [ 0600, (stat $dir)[4] ],
    'its mode; its owner is that of the directory';
chown 0, 0, $dir, "$dir/" . names() if $> == 0;
ok good(), 'a service starts';
my (undef, $out) = $c->run(qw(keys list));
like $out, qr/^key id .*state .*since .*\n\Q$kid\E +signing +20\d\d-/, 'columns';

# -- add ----------------------------------------------------------------------

my $id = 'identity.signing.100';
command('add', $id, 'add --kid two', dry => 1, events => 'added',
    states => 'identity.signing two.published');
command('add', undef, "add --kid $_->[0]", refused => $_->[1], status => $_->[2])
    for [ two => qr/a key of this id exists already/ ], [ 'a=b' => qr/--kid is/, 2 ],
    map { [ $_ => qr/cannot be the name of a file/ ] } 'a/b', '.a', 'x' x 250;
ok !-e "$dir/.new", 'a key that gets no name does not stay';
keys_are($id);
key_put($dir, key('next')->as("k$_"), 'refresh', 1, public => 1) for 1 .. 14;
command('full', undef, 'add', refused => qr/there are 15 keys already: remove one/);
command('full', undef, 'revoke identity');
is scalar(() = states() =~ /\.signing/g), 1, 'but there is always room for one that replaces';
unlink "$dir/k1.refresh.1.pem";
command('add', undef, 'add --kid=-x');
like states(), qr/^-x\.published/, 'an id of any look, if it is given';

# -- algorithms: as told, else as what signs ------------------------------------

sub algs {
    my %oid = ('2a864886f70d010101' => 'RS256', '2a8648ce3d030107' => 'ES256',
        '2b6570' => 'EdDSA');
    return map {
        my ($public) = $t->read_file("keys/$_") =~ /BEGIN PUBLIC KEY-+\n(.*?)-/s;
        my $hex = unpack 'H*', decode_base64($public);
        (/^([^.]+)/)[0] => join ' ', map { $hex =~ /06..$_/ ? $oid{$_} : () } sort keys %oid;
    } key_names($dir);
}
for my $case (
    [ RS256 => [qw(add --kid new)], 'RS256' ],
    [ ES256 => [qw(add --kid new)], 'ES256' ],
    [ EdDSA => [qw(rotate --every 0)], 'EdDSA' ],
    [ EdDSA => [qw(add --kid new --algorithm RS256)], 'RS256' ],
    [ ES256 => [qw(rotate --every 0 --algorithm EdDSA)], 'EdDSA' ],
) {
    my ($signs, $words, $new) = @$case;
    unlink map {"$dir/$_"} key_names($dir);
    key_put($dir, jwt_key('identity', alg => $signs), 'signing', time - 100);
    $c->done('keys', @$words);
    my %algs = algs();
    is delete $algs{identity} // $signs, $signs, "$signs, @$words: what signed";
    is_deeply [ values %algs ], [$new], 'and the new one';
    ok good(), 'which a service takes';
}
for my $alg (qw(ES256 EdDSA)) {    # RS256: id_config.t
    my (undef, $env) = $c->run(qw(keys generate --algorithm), $alg);
    my %env = $env =~ /^(\w+)=(.*)$/mg;
    is +($t->run_identity(['--check'], %{ $c->{env} }, PLATFORM_JWT_KEY_DIR => undef, %env))[0],
        0, "keys generate --algorithm $alg, and a service takes it" or diag $env;
}
$c->refused(2, qr/--algorithm is one of RS256, ES256, EdDSA/, 'keys', split / /)
    for map {"$_ --algorithm HS256"} qw(generate add rotate);

# What a command does rests on what it read, and so the lock comes first.

sub at_once (@commands) {
    keys_are($id);
    open my $lock, '<', $dir or die "$dir: $!\n";
    flock $lock, LOCK_EX or die "$dir: $!\n";
    my @all = map { $c->start('keys', split / /) } @commands;
    my $inode = (stat $dir)[1];
    ok eventually(sub { @all == (() = $t->read_file('/proc/locks') =~ /-> FLOCK .*:$inode /g) }),
        'commands wait for another one';
    key_put($dir, key('next')->as('two'), 'published', 1) if @all == 1;
    close $lock;
    $_->wait_end(60) for @all;
}
at_once('add --kid two');
is states(), 'identity.signing two.published', 'and see what that one did';
like $t->read_file('op' . $t->{runs} . '.log'), qr/of this id exists already/, 'and say so';
at_once(('rotate --every 0') x 3);
like states() =~ s/identity\.signing//r, qr/\A ?\S+\.published ?\z/,
    'several rotations at once are one';

# -- what is asked has to have the key ------------------------------------------

my $as_was = 'identity.signing next.published';
my $asked_for = 'identity.signing.1d next.published.1000';
my $ask = '--ask http://127.0.0.1:' . $asked->port . '/internal/metrics';
sub metrics ($keys, $age) {
    return "# HELP platform_gateway_key_set_keys x\nplatform_gateway_key_set_keys $keys\n"
        . "platform_gateway_key_set_age_seconds $age\n";
}
my $lacks = qr{/internal/metrics: does not have the new key yet};
my $status = qr/a status other than 200/;
for my $case (
    [ 'a set from before', $lacks, 200, metrics(2, 1500) ],
    [ 'a set of fewer keys', $lacks, 200, metrics(1, 1) ],
    [ 'no set yet', $lacks, 200, "platform_gateway_key_set_keys 0\n" ],
    [ 'a key set with one like it', $lacks, 200, '{"keys":[{"kid":"next2"}]}' ],
    [ 'a redirect', $status, 302, metrics(2, 1) ],
) {
    my ($name, $why, @said) = @$case;
    command($name, $asked_for, "activate next $ask", said => \@said, refused => $why);
    command($name, undef, "rotate $ask", fails => $why, states => $as_was);
}
$asked->down;
command('down', undef, "activate next $ask", refused => qr/does not answer/);
$asked->up;
my $activated = 'activate next done, retire identity due';
command('it has', $asked_for, "rotate $ask", said => [ 200, $_ ], rows => $activated)
    for metrics(2, 900), '{"keys":[{"kid":"identity"},{"kid":"next"}]}';
command('too early to ask', 'identity.signing.1d next.published.-20', "activate next $ask",
    refused => qr/not before/);

# Before the soft age has passed it may lack it, but not be silent.
$rows = command('early', 'identity.signing.1d next.published.60', "rotate --wait 1s $ask",
    said => [ 200, metrics(2, 600) ], rows => 'activate next due');
my ($due) = names() =~ /next\.published\.(\d+)/;
is $rows->[0]{dueAt}, POSIX::strftime('%FT%TZ', gmtime $due + 606), 'when it has to have it';
command('early', undef, "activate next $ask", refused => $lacks);
command('late', undef, "rotate --soft-age 50s $ask", fails => $lacks, states => $as_was);
command('it has it early', undef, "rotate $ask", said => [ 200, metrics(2, 50) ],
    rows => $activated);
command('one of two is down', $asked_for, "activate next $ask --ask http://127.0.0.1:1/",
    refused => qr/does not answer/);

# What answers strangely holds nobody for long: there is a lock on the directory.

my $head = "HTTP/1.1 200 OK\r\n\r\n";
my %strange = (
    silent => sub { 1 while sysread $_[0], my $byte, 1 },
    endless => sub { 1 while (syswrite($_[0], $head . 'x' x 1e6) // 0) == 1e6 + length $head },
    'cut-off' => sub { syswrite $_[0], $head . metrics(2, 900) =~ s/900\n\z/9/r },
);
my $stranger = $t->http_server('stranger', undef, protocol => sub ($client, $server) {
    my ($how) = $server->read_head($client) =~ m{^GET /(\S+)};
    $strange{$how}->($client);
});
command($_, $asked_for, 'activate next --ask http://127.0.0.1:' . $stranger->port . "/$_",
    refused => $_ eq 'silent' ? qr/does not answer/ : qr/not have the new/) for sort keys %strange;

# -- when each step is safe -----------------------------------------------------

my $soon = 'identity.signing.60 next.published.500';
my $replaced = 'identity.signing.9d next.signing.';
my $old = 'next.signing.60d identity.refresh.';
my $unsigned = 'next.signing.60d identity.published.1';
my $day = 86400;
my @longer = (env => { PLATFORM_JWT_ACCESS_TOKEN_TTL => '2h' });

command(@$_) for (
    # activate: every gateway has it
    [ 'too early', $soon, 'activate next', refused =>
        [ 'next.published', 6 + 600, 'not every gateway may have the key' ] ],
    [ 'nor by rotate', undef, 'rotate', rows => 'activate next due', states => $as_was ],
    [ 'sooner', undef, 'activate next --soft-age 8m', events => 'activated' ],
    [ 'now', $soon, 'activate next --force', dry => 1, states => 'identity.signing next.signing' ],
    [ 'ten minutes later', 'identity.signing.60 next.published.700', 'activate next' ],
    (map { [ 'unknown', undef, "$_ third", refused => qr/no key has this id/ ] }
        qw(activate revoke)),
    [ 'a public part', 'identity.signing.60 next.published.700.public', 'activate next --force',
        refused => qr/next\.published\.\d+\.pem: has no private key/ ],
    # retire: the last access token is dead
    [ 'system tokens live', "${replaced}3300", 'retire identity', refused =>
        [ 'next.signing', 6 + 30 + 3600, 'access tokens of this key may still be valid' ] ],
    [ 'access tokens live', undef, 'retire identity', @longer,
        refused => [ 'next.signing', 6 + 30 + 7200, 'access' ] ],
    (map { [ 'it signs', undef, "$_ next --force",
        refused => qr/this key signs: activate another one first/ ] } qw(activate retire remove)),
    [ 'it was replaced', undef, 'remove identity --force',
        refused => qr/state "replaced", whose next step is keys retire/ ],
    [ 'no system tokens', undef, 'retire identity --system-ttl 0', dry => 1,
        events => 'retired', states => 'identity.refresh next.signing' ],
    [ 'an hour later', "${replaced}3640", 'retire identity',
        states => 'identity.refresh next.signing' ],
    # remove: the last refresh token is dead
    [ 'refresh tokens live', "${old}29d", 'remove identity', refused =>
        [ 'identity.refresh', 6 + 30 * $day, 'refresh tokens of this key may still be valid' ] ],
    [ 'nor by rotate, which begins nothing else', undef, 'rotate', rows => 'remove identity due' ],
    (map { [ 'not back', undef, "$_ identity --force",
        refused => qr/state "refresh", whose next step is keys remove/ ] } qw(activate retire)),
    [ 'now', undef, 'remove identity --force', dry => 1, events => 'removed',
        states => 'next.signing' ],
    [ 'no session lives that long', "${old}29d", 'remove identity',
        env => { PLATFORM_AUTH_SESSION_MAX_LIFETIME => '28d' } ],
    [ 'after 30 days', $old . (30 * $day + 10), 'rotate', rows => 'remove identity done' ],
    [ 'what never signed', $unsigned, 'remove identity', states => 'next.signing' ],
    [ 'what never signed', $unsigned, 'retire identity',
        refused => qr/state "published", whose next step is keys activate/ ],
    # rotate
    [ 'not yet', 'next.signing.60d', 'rotate --every 61d', rows => 'add - due' ],
    [ 'one after the other', "${replaced}3300 third.published.9999", 'rotate --system-ttl 2h',
        rows => 'retire identity due' ],
    [ 'all that is due', "${replaced}3300 other.refresh.0", 'rotate --system-ttl 0 --dry-run',
        rows => 'retire identity due, remove other due' ],
    # revoke
    (map { [ "revoked: $_", "$id next.$_.200", 'revoke next', dry => 1,
        events => 'revoked', states => 'identity.signing' ] } qw(published signing refresh)),
);
keys_are('identity.signing.-3600 next.published.700');
$c->done(qw(keys activate next));
is_deeply { map { @$_{qw(kid state)} } @{ $c->done(qw(keys list)) } },
    { next => 'signing', identity => 'replaced' }, 'a clock that was ahead: the new one signs';
my $since = time - 3300;
command('retired', "${replaced}3300", 'retire identity --system-ttl 0');
my ($then) = names() =~ /^identity\.refresh\.(\d+)\.pem next\.signing/;
cmp_ok abs($then - $since), '<', 100, 'since it ended to sign';
my $retired = "$dir/identity.refresh.$then.pem";
is_deeply [ $t->read_file($retired), (stat $retired)[2] & 07777 ],
    [ key('identity')->public_pem, 0600 ], 'its public part alone is left, in its mode';

# A rotation from its beginning, which is not begun twice.

$rows = command('from its beginning', 'next.signing.60d', 'rotate --every 60d');
is rows($rows), "add $rows->[0]{kid} done, activate $rows->[0]{kid} due",
    'begins, and tells what comes';
like $rows->[1]{dueAt}, qr/^20\d\d-.*Z$/, 'and when';
my $before = names();
command('again', undef, 'rotate --every 0');
is names(), $before, 'again: the same rotation';
for my $case ([ '--every does not wait for refresh tokens', "${old}1d", 'rotate --every 60d' ],
    [ 'where no key signs', 'identity.refresh.5', 'rotate' ]) {
    is_deeply [ map { $_->{step} } @{ command(@$case) } ], [qw(add activate remove)], $case->[0];
}

# -- a directory that no process would follow --------------------------------------

my $why = qr/accepted: RSA/;
keys_are('identity.signing.60d next.published.1d');
key_put($dir, key('other'), 'refresh', 1, text => "-----BEGIN PUBLIC KEY-----\nx\n");
command('garbage', undef, $_, refused => $why, status => 2) for 'list', 'add',
    'activate next', 'rotate', 'rotate --dry-run', 'remove other --force';
command('garbage: done, and told', undef, 'revoke next',
    fails => qr/^identity-fcgi: revoked, but running services cannot load the keys: .*$why/m,
    states => 'identity.signing other.refresh');
command('garbage', undef, 'revoke other', states => 'identity.signing');
command('no private key', 'identity.signing.1d.public', 'rotate',
    refused => qr/has no private key to sign with/, status => 2);
command('revoke', undef, 'revoke identity');
like states(), qr/\A[^ ]+\.signing\z/, 'nor one without';

# -- revoke: at once ---------------------------------------------------------------

command('the signing key', $soon, 'revoke identity', dry => 1, events => 'activated revoked');
like states() =~ s/next\.published//r, qr/\A ?(?!identity)\S+\.signing ?\z/,
    'another one signs, which no gateway knows yet';

# Where no new key can be written, as on a full disk, another one signs: a key goes when
# another one is there, as for rotate, which e2e_keys_rotate.t kills at each write.  The
# last has room for the beginning of one, an RSA key.
for my $case (
    [ 'other.signing.99 next.published.20', 'next.signing other.signing' ],
    [ 'next.signing.99', 'next.signing' ],
    [ 'next.refresh.9', 'identity.signing next.refresh' ],
    [ 'next.refresh.9', 'identity.signing next.refresh', 1 ],
) {
    my ($others, $states, $room) = (@$case, 0);
    # TSan itself writes a file before a program begins.
    next if !$room && (Platform::Test::Env::asan() // '') eq 'thread';
    my $name = "room$room" . $others =~ tr/. /-/r;
    keys_are($room ? $others : "identity.signing.10 $others");
    key_put($dir, jwt_key('identity'), 'signing', time - 10) if $room;
    $t->identity_process($name, $c->{env}, args => [qw(keys revoke identity --json)],
        via => [ 'sh', '-c', '(ulimit -f ' . $room . '; "$@" 2>&1) | cat', 'sh' ])
        ->expect_end->wait_end(60);
    like $t->read_file("$name.log"), $states =~ /identity/
        ? qr/File too large; and no other key can sign/ : qr/"step":"revoke","kid":"identity"/,
        "room for $room, beside $others";
    is states(), $states, 'the keys';
}

$t->done;
