# keys list, add, activate, retire, remove, revoke and rotate: what each does
# to the directory of keys, and when it refuses.

use Fcntl qw(:flock);
use POSIX ();
use Platform::Test;
use Platform::Test::Commands;
use Platform::Test::KeyDir;

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
    key_put($dir, jwt_key($_->[0]), $_->[1], time - $_->[2], @$_[3 .. $#$_]) for @_;
}

sub names { return join ' ', grep { !/^\./ } key_names($dir) }

# All that there is to see of the directory and its files, but for who read it.
sub all_of {
    return scalar qx{find '$dir' -printf '%p %i %m %U %s %T\@ %C\@\n' -type f -exec cat '{}' +};
}

sub rows { return map { "$_->{step} $_->{kid} " . ($_->{done} ? 'done' : 'due') }
    map { { %$_, kid => $_->{kid} // '-' } } @{ $_[0] } }

# --dry-run tells, and neither does anything nor says that it did.
sub dry {
    my $before = all_of();
    my $told = $c->done(@_, '--dry-run');
    is all_of(), $before, "@_[0, 1] --dry-run changes nothing";
    is_deeply $c->events, [], 'nor is audited';
    return $told;
}

# One command: name, keys (undef: as they are), words, and what is expected: refused =>
# the reason, or [file, seconds after its name's moment that it may be, reason]; else
# states, events, rows; fails => what it says, done or not; env and dry (first so).
sub command ($name, $keys, $words, %want) {
    keys_are(@$keys) if $keys;
    my @words = ({ env => $want{env} // {} }, 'keys', @$words);
    if (my $why = $want{refused}) {
        my $before = names();
        if (ref $why eq 'ARRAY') {
            my ($since) = $before =~ /\Q$why->[0]\E\.(\d+)\.pem/;
            my $at = POSIX::strftime('%FT%TZ', gmtime $since + $why->[1]);
            $why = qr/not before $at: $why->[2]/;
        }
        $c->refused($want{status} // 1, $why, @words);
        return is names(), $before, "$name: nothing is changed";
    }
    if (my $why = $want{fails}) {
        my ($exit, undef, $err) = $c->run(@words);
        is $exit, 1, "$name: @$words fails";
        like $err, $why, "$name: and says why";
        return is_deeply key_states($dir), $want{states}, "$name: the keys";
    }
    dry(@words[ 1 .. $#words ]) if $want{dry};
    my $got = $c->done(@words);
    is_deeply [ rows($got) ], $want{rows}, "$name: what it tells" if $want{rows};
    is_deeply $c->events, $want{events}, "$name: audited" if $want{events};
    is_deeply key_states($dir), $want{states}, "$name: the keys" if $want{states};
    return $got;
}

# What a command says where no key has room.
sub cramped (@words) {
    my $env = $t->identity_env(%{ $c->{env} });
    local @ENV{ keys %$env } = values %$env;
    open my $fh, '-|', 'sh', '-c', 'trap "" XFSZ; ulimit -f 0; exec "$0" keys "$@" 2>&1',
        Platform::Test::Env::identity(), @words or die "sh: $!\n";
    local $/;
    return scalar <$fh>;
}

# -- help and usage -----------------------------------------------------------

$c->refused(2, qr/PLATFORM_JWT_KEY_DIR: is not set/,
    { env => { PLATFORM_JWT_KEY_DIR => undef } }, 'keys', split / /)
    for qw(list add rotate), map {"$_ x"} qw(activate retire remove revoke);
$c->refused(2, qr/--ask is http:/, qw(keys rotate --ask), $_)
    for 'https://a/', 'http://a', 'http://a b/', 'http:///x', 'http://a:x/';
$c->refused(2, qr/--every is integer seconds/, qw(keys rotate --every soon));
chmod 0770, $dir;
$c->refused(2, qr/others may write to it/, qw(keys list));
chmod 0700, $dir;

# -- the first key ------------------------------------------------------------

is_deeply $c->done(qw(keys list)), [], 'no key';
is_deeply [ rows(dry(qw(keys rotate))) ], ['add - due'], '--dry-run tells';
sub good { return ($t->run_identity(['--check'], %{ $c->{env} }))[0] == 0 }
ok !good(), 'no service starts';
$t->write_file('keys/.new', 'of one that was killed');
chown 65534, 65534, $dir if $> == 0;
my $rows = $c->done(qw(keys rotate));
my $kid = $rows->[0]{kid};
is_deeply [ rows($rows) ], [ "add $kid done", "activate $kid done" ],
    'rotate makes a key, and it signs';
is_deeply [ map { ("$_->{event} $_->{kid}", !!$_->{operator}) } @{ $c->{audit} } ],
    [ "keys.added $kid", 1, "keys.activated $kid", 1 ], 'audited, by its id and by whom';
is_deeply key_states($dir), { $kid => 'signing' }, 'one key';
is scalar(my @files = key_names($dir)), 1, 'and no other file';
my @st = stat "$dir/" . names();
is_deeply [ $st[2] & 07777, $st[4] ], [ 0600, (stat $dir)[4] ],
    'its mode; its owner is that of the directory';
chown 0, 0, $dir, "$dir/" . names() if $> == 0;
ok good(), 'a service starts';
my ($row) = @{ $c->done(qw(keys list)) };
is_deeply [ @$row{qw(kid state step dueAt)} ], [ $kid, 'signing', undef, undef ], 'list';
my (undef, $out) = $c->run(qw(keys list));
like $out, qr/^key id .*state .*since .*\n\Q$kid\E +signing +20\d\d-/, 'columns';

# -- add ----------------------------------------------------------------------

my $id = [ 'identity', 'signing', 100 ];
command('add', [$id], [qw(add --kid two)], dry => 1, events => ['keys.added'],
    states => { identity => 'signing', two => 'published' });
command('add', undef, [ qw(add --kid), $_->[0] ], refused => $_->[1], status => $_->[2])
    for [ two => qr/a key of this id exists already/ ], [ 'a=b' => qr/--kid is/, 2 ],
    map { [ $_ => qr/cannot be the name of a file/ ] } 'a/b', '.a', 'x' x 250;
ok !-e "$dir/.new", 'a key that gets no name does not stay';
keys_are($id);
key_put($dir, jwt_key('next')->as("k$_"), 'refresh', 1, public => 1) for 1 .. 14;
command('full', undef, $_, refused => qr/there are 15 keys already: remove one/)
    for ['add'], [ qw(rotate --every 0 --system-ttl 0), '--env-file',
        $t->write_file('long.env', "PLATFORM_JWT_REFRESH_TOKEN_TTL=3650d\n"
            . "PLATFORM_AUTH_SESSION_MAX_LIFETIME=0\n") ];
command('revoke', undef, [qw(revoke identity)]);
is_deeply [ grep { $_ eq 'signing' } values %{ key_states($dir) } ],
    ['signing'], 'but there is always room for one that replaces';
unlink "$dir/k1.refresh.1.pem";
command('add', undef, [qw(add --kid=-x)]);
ok key_states($dir)->{'-x'}, 'an id of any look, if it is given';
keys_are($id);
like cramped('add'), qr/File too large/, 'a file that has no room: fails';
is_deeply key_states($dir), { identity => 'signing' }, 'and is no key';

# What a command does rests on what it read, and so the lock comes first.

sub at_once {
    keys_are($id);
    open my $lock, '<', $dir or die "$dir: $!\n";
    flock $lock, LOCK_EX or die "$dir: $!\n";
    my @all = map { $c->start('keys', @$_) } @_;
    ok eventually(sub { open my $fh, '<', '/proc/locks' or return 0;
        my $inode = (stat $dir)[1]; @all == grep {/-> FLOCK .*:$inode /} <$fh> }),
        'commands wait for another one';
    key_put($dir, jwt_key('next')->as('two'), 'published', 1) if @all == 1;
    close $lock;
    $_->wait_end(60) for @all;
}
at_once([qw(add --kid two)]);
is names() =~ tr/ //, 1, 'and see what that one did';
like $t->read_file('op' . $t->{runs} . '.log'), qr/of this id exists already/, 'and say so';
at_once(map { [ qw(add --kid), "p$_" ] } 1 .. 3);
is scalar(grep {/^p\d\.published/} key_names($dir)), 3, 'several at once lose none';
at_once(([qw(rotate --every 0)]) x 3);
is_deeply [ sort values %{ key_states($dir) } ], [qw(published signing)],
    'several rotations at once are one';

# -- what is asked has to have the key ------------------------------------------

my @asked = ([ 'identity', 'signing', $DAY ], [ 'next', 'published', 1000 ]);
my $asked = $t->issuer(name => 'asked');
my @ask = ('--ask', 'http://127.0.0.1:' . $asked->port . '/internal/metrics');
sub metrics ($keys, $age) {
    return "# HELP platform_gateway_key_set_keys x\n"
        . "platform_gateway_key_set_keys $keys\n"
        . "platform_gateway_key_set_age_seconds $age\n";
}
my $lacks = qr{/internal/metrics: does not have the new key yet};
my $status = qr/a status other than 200/;
my %as_was = (identity => 'signing', next => 'published');
for my $case (
    [ 'a set from before', metrics(2, 1500), $lacks ],
    [ 'a set of fewer keys', metrics(1, 1), $lacks ],
    [ 'no set yet', "platform_gateway_key_set_keys 0\n", $lacks ],
    [ 'a key set without it', '{"keys":[{"kid":"identity"}]}', $lacks ],
    [ 'a key set with one like it', '{"keys":[{"kid":"next2"}]}', $lacks ],
    [ 'nothing', '', $lacks ],
    [ 'a redirect', metrics(2, 1), $status, 302 ],
) {
    my ($name, $body, $why, $status) = @$case;
    $asked->set(status => $status // 200, body => $body);
    command($name, \@asked, [ qw(activate next), @ask ], refused => $why);
    command($name, undef, [ 'rotate', @ask ], fails => $why, states => \%as_was);
}
$asked->down;
command('down', undef, [ qw(activate next), @ask ], refused => qr/does not answer/);
$asked->up;
my $activated = [ 'activate next done', 'retire identity due' ];
for my $good (metrics(2, 900), '{"keys":[{"kid":"identity"},{"kid":"next"}]}') {
    $asked->set(status => 200, body => $good);
    command('it has', \@asked, [ 'rotate', @ask ], rows => $activated);
}
command('too early to ask', [ $asked[0], [ 'next', 'published', -20 ] ],
    [ qw(activate next), @ask ], refused => qr/not before/);

# Before the soft age has passed it may lack it, but not be silent.
my @early = ($asked[0], [ 'next', 'published', 60 ]);
$asked->set(body => metrics(2, 61));
$rows = command('early', \@early, [ qw(rotate --wait 1s), @ask ], rows => ['activate next due']);
my ($due) = names() =~ /next\.published\.(\d+)/;
is $rows->[0]{dueAt}, POSIX::strftime('%FT%TZ', gmtime $due + 606), 'when it has to have it';
command('early', undef, [ qw(activate next), @ask ], refused => $lacks);
for my $case ([ $lacks, 200, qw(--soft-age 50s) ], [ $status, 503 ]) {
    my ($why, $said, @option) = @$case;
    $asked->set(status => $said);
    command("early, $said", undef, [ 'rotate', @option, @ask ], fails => $why, states => \%as_was);
}
$asked->set(status => 200, body => metrics(2, 50));
command('it has it early', undef, [ 'rotate', @ask ], rows => $activated);
command('one of two is down', \@asked, [ qw(activate next), @ask, '--ask',
    'http://127.0.0.1:1/' ], refused => qr/does not answer/);

# What answers strangely holds nobody for long: there is a lock on the directory.

my $head = "HTTP/1.1 200 OK\r\n\r\n";
my %strange = (
    silent => sub { 1 while sysread $_[0], my $byte, 1 },
    slow   => sub { sleep 0.1 while syswrite $_[0], $head; },
    endless => sub { 1 while (syswrite($_[0], $head . 'x' x 1e6) // 0) == 1e6 + length $head },
    'cut-off' => sub { syswrite $_[0], $head . metrics(2, 900) =~ s/900\n\z/9/r },
);
my $stranger = $t->http_server('stranger', undef, protocol => sub ($client, $server) {
    my ($how) = $server->read_head($client) =~ m{^GET /(\S+)};
    $strange{$how}->($client);
});
command($_, \@asked, [ qw(activate next --ask), 'http://127.0.0.1:' . $stranger->port . "/$_" ],
    refused => $_ eq 'silent' ? qr/does not answer/ : qr/not have the new/) for sort keys %strange;

# -- when each step is safe -----------------------------------------------------

my ($old, $soon) = ($early[0], [ 'next', 'published', 500 ]);
my @replaced = ([ 'identity', 'signing', 9 * $DAY ], [ 'next', 'signing', 3300 ]);
my @refresh = ([ 'next', 'signing', 60 * $DAY ],
    [ 'identity', 'refresh', 29 * $DAY, public => 1 ]);
my @longer = (env => { PLATFORM_JWT_ACCESS_TOKEN_TTL => '2h' });

# These keys, of which that one has its state since so many seconds.
sub at ($keys, $n, $seconds) {
    my @keys = map { [@$_] } @$keys;
    $keys[$n][2] = $seconds;
    return \@keys;
}

command(@$_) for (
    # activate: every gateway has it
    [ 'too early', [ $old, $soon ], [qw(activate next)], refused =>
        [ 'next.published', 6 + 600, 'not every gateway may have the key' ] ],
    [ 'nor by rotate', undef, ['rotate'], rows => ['activate next due'],
        states => { identity => 'signing', next => 'published' } ],
    [ 'a shorter soft age', undef, [qw(activate next --soft-age 8m)],
        events => ['keys.activated'] ],
    [ '--force', [ $old, $soon ], [qw(activate next --force)], dry => 1,
        states => { identity => 'signing', next => 'signing' } ],
    [ 'ten minutes later', at([ $old, $soon ], 1, 700), [qw(activate next)] ],
    [ 'and back at once', undef, [qw(activate identity)] ],
    [ 'unknown', undef, [qw(activate third)], refused => qr/no key has this id/ ],
    [ 'a public part', [ $old, [ 'next', 'published', 700, public => 1 ] ],
        [qw(activate next --force)],
        refused => qr/next\.published\.\d+\.pem: has no private key/ ],
    [ 'a retired one', [ $old, [ 'next', 'refresh', 700, public => 1 ] ],
        [qw(activate next --force)],
        refused => qr/state "refresh", whose next step is keys remove/ ],
    [ 'a clock that was ahead', [ [ 'identity', 'signing', -3600 ],
        [ 'next', 'published', 700 ] ], [qw(activate next)] ],
    # retire: the last access token is dead
    [ 'system tokens live', \@replaced, [qw(retire identity)], refused =>
        [ 'next.signing', 6 + 30 + 3600, 'access tokens of this key may still be valid' ] ],
    [ 'access tokens live', undef, [qw(retire identity)], @longer,
        refused => [ 'next.signing', 6 + 30 + 7200, 'access' ] ],
    [ 'nor by rotate', undef, ['rotate'], rows => ['retire identity due'] ],
    (map { [ 'it signs', undef, [ $_, qw(next --force) ],
        refused => qr/this key signs: activate another one first/ ] } qw(activate retire remove)),
    [ 'it was replaced', undef, [qw(remove identity --force)],
        refused => qr/state "replaced", whose next step is keys retire/ ],
    [ 'due', undef, [qw(rotate --system-ttl 0 --dry-run)], rows => ['retire identity due'] ],
    [ 'no system tokens', undef, [qw(retire identity --system-ttl 0)], dry => 1,
        events => ['keys.retired'], states => { identity => 'refresh', next => 'signing' } ],
    [ 'an hour later', at(\@replaced, 1, 3640), [qw(retire identity)],
        states => { identity => 'refresh', next => 'signing' } ],
    [ 'not yet', at(\@replaced, 1, 3640), [qw(retire identity)], @longer,
        refused => qr/not before/ ],
    [ '--force', undef, [qw(retire identity --force)], @longer ],
    # remove: the last refresh token is dead
    [ 'refresh tokens live', \@refresh, [qw(remove identity)], refused =>
        [ 'identity.refresh', 6 + 30 * $DAY, 'refresh tokens of this key may still be valid' ] ],
    [ 'nor by rotate, which begins nothing else', undef, ['rotate'],
        rows => ['remove identity due'] ],
    [ 'not again', undef, [qw(retire identity --force)], refused => qr/state "refresh"/ ],
    [ '--force', undef, [qw(remove identity --force)], dry => 1,
        events => ['keys.removed'], states => { next => 'signing' } ],
    [ 'no session lives that long', \@refresh, [qw(remove identity)],
        env => { PLATFORM_AUTH_SESSION_MAX_LIFETIME => '28d' } ],
    [ 'after 30 days', at(\@refresh, 1, 30 * $DAY + 10), ['rotate'],
        rows => ['remove identity done'] ],
    [ 'what never signed', [ $refresh[0], [ 'identity', 'published', 1 ] ],
        [qw(remove identity)] ],
    [ 'what never signed', [ $refresh[0], [ 'identity', 'published', 1 ] ],
        [qw(retire identity)],
        refused => qr/state "published", whose next step is keys activate/ ],
    # rotate
    [ 'not yet', [ [ 'next', 'signing', 60 * $DAY ] ], [qw(rotate --every 61d)],
        rows => ['add - due'], states => { next => 'signing' } ],
    [ 'one after the other', [ @replaced, [ 'third', 'published', 9999 ] ],
        [qw(rotate --system-ttl 2h)], rows => ['retire identity due'] ],
    [ 'all that is due', [ @replaced, [ 'other', 'refresh', 0, public => 1 ] ],
        [qw(rotate --system-ttl 0 --dry-run)],
        rows => [ 'retire identity due', 'remove other due' ] ],
    # revoke
    (map { [ "revoked: $_", [ $id, [ 'next', $_, 200 ] ], [qw(revoke next)], dry => 1,
        events => ['keys.revoked'], states => { identity => 'signing' } ] }
        qw(published signing refresh)),
    [ 'unknown', undef, [qw(revoke next)], refused => qr/no key has this id/ ],
);
keys_are(@replaced);
my $since = time - 3300;
command('retired', undef, [qw(retire identity --system-ttl 0)]);
my ($then) = names() =~ /^identity\.refresh\.(\d+)\.pem next\.signing/;
cmp_ok abs($then - $since), '<', 100, 'since it ended to sign';
is $t->read_file("keys/identity.refresh.$then.pem"), jwt_key('identity')->public_pem,
    'its private part is gone, the public one is not';
is +(stat "$dir/identity.refresh.$then.pem")[2] & 07777, 0600, 'mode';

# A rotation from its beginning, which is not begun twice.

keys_are([ 'next', 'signing', 60 * $DAY ]);
$rows = $c->done(qw(keys rotate --every 60d));
is_deeply [ rows($rows) ], [ "add $rows->[0]{kid} done", "activate $rows->[0]{kid} due" ],
    'begins, and tells what comes';
like $rows->[1]{dueAt}, qr/^20\d\d-.*Z$/, 'and when';
my $before = names();
command('again', undef, [qw(rotate --every 0)]);
is names(), $before, 'again: the same rotation';
for my $case ([ '--every does not wait for refresh tokens', [qw(rotate --every 60d)],
        $refresh[0], [ 'identity', 'refresh', $DAY, public => 1 ] ],
    [ 'where no key signs', ['rotate'], [ 'identity', 'refresh', 5, public => 1 ] ]) {
    my ($name, $words, @keys) = @$case;
    is_deeply [ map { $_->{step} } @{ command($name, \@keys, $words) } ],
        [qw(add activate remove)], $name;
}

# -- a directory that no process would follow --------------------------------------

my $why = qr/accepted: RSA/;
keys_are([ 'identity', 'signing', 60 * $DAY ], [ 'next', 'published', $DAY ], [ 'other',
    'refresh', $DAY, public => 1, text => "-----BEGIN PUBLIC KEY-----\nx\n" ]);
command('garbage', undef, [ split / / ], refused => $why, status => 2) for 'list', 'add',
    'activate next', 'rotate', 'rotate --dry-run', 'remove other --force';
command('garbage: done, and told', undef, [qw(revoke next)],
    fails => qr/^identity-fcgi: revoked, but no process follows: .*$why/m,
    states => { identity => 'signing', other => 'refresh' });
command('garbage', undef, [qw(revoke other)], states => { identity => 'signing' });
command('no private key', [ [ 'identity', 'signing', $DAY, public => 1 ] ], ['rotate'],
    refused => qr/has no private key to sign with/, status => 2);
command('revoke', undef, [qw(revoke identity)]);
is_deeply [ values %{ key_states($dir) } ], ['signing'], 'nor one without';

# -- revoke: at once ---------------------------------------------------------------

my $got = command('the signing key', [ $old, $soon ], [qw(revoke identity)], dry => 1,
    events => [ 'keys.activated', 'keys.revoked' ]);
is_deeply [ @$got{qw(step kid)} ], [qw(revoke identity)], 'tells which';
($kid) = grep { $_ ne 'next' } keys %{ key_states($dir) };
is_deeply key_states($dir), { next => 'published', $kid => 'signing' },
    'another one signs, which no gateway knows yet';
ok good(), 'and all is well';

# Where no new key can be written, as on a full disk, another one signs: a key goes when
# another one is there, as for rotate, which e2e_keys_rotate.t kills at each write.
my $signing = [ 'identity', 'signing', 10 ];
for my $case (
    [ 'published', { next => 'signing', other => 'signing' },
        [ 'other', 'signing', 99 ], [ 'next', 'published', 20 ] ],
    [ 'replaced', { next => 'signing' }, [ 'next', 'signing', 99 ] ],
    [ 'none', { next => 'refresh', identity => 'signing' }, [ 'next', 'refresh', 9 ] ],
) {
    my ($name, $states, @keys) = @$case;
    keys_are($signing, @keys);
    like cramped(qw(revoke identity --json)), $name eq 'none'
        ? qr/File too large; and no other key can sign/ : qr/"step":"revoke","kid":"identity"/,
        "no room, another key: $name";
    is_deeply key_states($dir), $states, 'the keys';
}

$t->done;
