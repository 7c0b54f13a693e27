# PLATFORM_JWT_KEY_DIR: what is accepted of a directory of keys, what the
# state of a key means, and that processes follow it by themselves.

use JSON::PP;
use Platform::Test;
use Platform::Test::KeyDir;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my ($old, $new, $other) = map { jwt_key($_) } qw(identity next other);
my $dir = key_dir($t);
my %env = key_dir_env($dir);

sub check ($name, $want = undef, %change) {
    my ($status, $out, $err) = $t->run_identity(['--check'], %env, %change);
    return is "$status $err", '0 ', $name if !defined $want;
    is $status, 2, "$name: refused";
    like $err, qr/\Aidentity-fcgi: PLATFORM_JWT_KEY_DIR: [^\n]+\n\z/,
        "$name: in one line";
    like $err, $want, "$name: that says why";
    unlike $err, qr/BEGIN|MII/, "$name: and shows no key";
}

# -- what is accepted ---------------------------------------------------------

my $control = sub {
    unlink map {"$dir/$_"} key_names($dir);
    chmod 0700, $dir;
    chown $>, $), $dir;
    return key_put($dir, $old, 'signing', 100);
};
my $file = $control->();
check('a key that signs', undef);
check('the variables beside it', qr/as well as PLATFORM_JWT_KEY_ID.*accepted:/,
    PLATFORM_JWT_KEY_ID => 'x');
check('a public key beside it', qr/or PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS;/,
    PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS => 'x=y');
symlink $dir, "$dir.link";
check("a directory $_->[0]", $_->[1], PLATFORM_JWT_KEY_DIR => "$dir$_->[0]")
    for [ '/none', qr{/none: cannot be opened: No such} ],
    [ '.link', qr/keys\.link: cannot be opened/ ];
for my $mode (0720, 0702, 0750) {
    chmod $mode, $dir;
    check(sprintf('a directory of mode %o', $mode),
        $mode == 0750 ? undef : qr/others may write to it/);
}

my %bad = (
    'an empty directory' => [ sub { unlink $_[0] }, qr/no key signs/ ],
    'a key that does not sign' => [ sub { rename $_[0],
        $_[0] =~ s/signing/published/r }, qr/no key signs/ ],
    'a file that others read' => [ sub { chmod 0640, $_[0] },
        qr/identity\.signing\.100\.pem: others may read it/ ],
    'one for everybody' => [ sub { chmod 0604, $_[0] }, qr/others may read/ ],
    'a key of another kind' => [ sub { key_put($dir, $new, 'published', 1,
        text => scalar qx{openssl ecparam -name prime256v1 -genkey -noout |
            openssl ec -pubout 2>&1}) }, qr/next\.published\.1\.pem: .*RSA/ ],
    'a symbolic link' => [ sub { rename $_[0], "$dir/.there";
        symlink "$dir/.there", $_[0] }, qr/opened: a symbolic link/ ],
    'a FIFO' => [ sub { unlink $_[0]; require POSIX;
        POSIX::mkfifo($_[0], 0600) }, qr/accepted: a file/ ],
    'a directory in it' => [ sub { unlink $_[0]; mkdir $_[0], 0700 },
        qr/accepted: a file/ ],
    'an empty file' => [ sub { truncate $_[0], 0 }, qr/no public key/ ],
    'one that is too large' => [ sub { open my $fh, '>>', $_[0];
        print {$fh} "\n" x 16384 }, qr/no public key/ ],
    'no public part' => [ sub { key_put($dir, $old, 'signing', 100,
        text => $old->private_pem) }, qr/no public key/ ],
    'no private part' => [ sub { key_put($dir, $old, 'signing', 100,
        public => 1) }, qr/has no private key to sign with/ ],
    'halves of two keys' => [ sub { key_put($dir, $old, 'signing', 100,
        text => $new->private_pem . $old->public_pem) },
        qr/identity\.signing\.100\.pem: .*accepted: RSA/ ],
    'a weak key' => [ sub { key_put($dir, jwt_key('weak', bits => 1024),
        'published', 1) }, qr/weak\.published\.1\.pem: .*2048 bits/ ],
    'garbage' => [ sub { key_put($dir, $new, 'published', 1,
        text => "-----BEGIN PUBLIC KEY-----\nx\n") },
        qr/next\.published\.1\.pem: / ],
    'a key with two files' => [ sub { key_put($dir, $old, 'published', 1) },
        qr/identity\.\w+\.1(?:00)?\.pem: the key has two files/ ],
    'seventeen keys' => [ sub { key_put($dir, $new->as("k$_"), 'published', 1)
        for 1 .. 16 }, qr/at most 16 keys/ ],
    map { my $name = $_; ("the name $name" => [ sub {
        rename key_put($dir, $new, 'published', 1), "$dir/$name" },
        qr/\Q$name\E: is not the name of a key/ ]) }
        'next.pem', 'next.publishd.1.pem', 'next.published.1', '4913',
        'next.published.1.pem~', 'next.published.-1.pem', 'next.replaced.1.pem',
        'a,b.published.1.pem',
);
for my $name (sort keys %bad) {
    $file = $control->();
    $bad{$name}[0]->($file);
    check($name, $bad{$name}[1]);
    rmdir $file if -d $file;
}
SKIP: {
    skip 'files of other owners need root', 8 if $> != 0;
    $file = $control->();
    chown 65534, -1, $file;
    check('a file of another owner', qr/of the directory's owner/);
    chown 65534, -1, $dir;
    check('with the directory its too, for root', undef);

    # Another user's process, where that user may go.
    my $place = "/tmp/platform-test-keys-$$";
    mkdir $place, 0755 or die "$place: $!\n";
    chmod 0755, $place;
    require File::Copy;
    File::Copy::copy(Platform::Test::Env::identity(), "$place/program");
    chmod 0755, "$place/program";
    mkdir "$place/keys";
    my @as = ('setpriv', '--reuid', 65534, '--regid', 65534, '--clear-groups',
        'env', '-i', 'APP_ENV=production', "PLATFORM_JWT_KEY_DIR=$place/keys",
        "$place/program", '--check');
    for my $owner (1, 65534) {
        my $file = key_put("$place/keys", $old, 'signing', 100);
        chown $owner, -1, $file, "$place/keys";
        my $says = qx{@as 2>&1};
        like $says, $owner == 1 ? qr/others may write to it/
            : qr/settings are good/, "the directory of user $owner";
    }
    system 'rm', '-r', $place;
}
$control->();
key_put($dir, $new->as('a.b+c@d'), 'published', 1);
key_put($dir, $other, 'refresh', 1, public => 1);
$t->write_file('keys/.anything', 'x');
$t->write_file('keys/.next.published.1.pem.swp', 'x');
link "$dir/identity.signing.100.pem", "$dir.key" or die "link: $!\n";
check('ids with dots, a public part alone, names with a dot in front, a file'
    . ' that its owner has elsewhere too', undef);

# -- what the states mean, in a process that follows -----------------------------

$control->();
my $identity = $t->identity(%env, name => 'follows',
    PLATFORM_REQUEST_TIMEOUT => '5s');
sub ask { return $t->fcgi($identity->address)->request(@_) }

sub kids {
    my $got = ask(GET => '/.well-known/jwks.json');
    return join ' ', map { $_->{kid} } @{ decode_json($got->{body})->{keys} };
}

sub post ($path, $data, %o) {
    my $got = ask(POST => "/api/auth/$path",
        body => encode_json($data), %o);
    return ($got->{status}, decode_json($got->{body}));
}

# May have to wait for a hash slot.
sub login ($who) {
    my ($status, $json);

    soon(sub { ($status, $json) = post('login', { account => "$who\@demo.test",
        credential => $Platform::Test::Stack::CREDENTIAL }); $status == 200 }) or die 'no login';
    return $json;
}

# A process looks every two seconds, on a machine that lets it.
sub soon { return eventually($_[0], 60) }

# By itself, or when it is told to.
sub follows ($want, $name, $told = undef) {
    $identity->process->signal('HUP') if $told;
    soon(sub { kids() eq $want });
    return is kids(), $want, $name;
}

sub signer { return (jwt_decode(login('one')->{accessToken}))[0]{kid} }

sub key_lines { return grep { $_->{event} =~ /^keys\./ } $identity->log_lines }

is kids(), 'identity', 'one key';
my $first = login('several');
is scalar(key_lines()), 0, 'nothing is said of what is as it was';
key_put($dir, $new, 'published', 200);
follows('identity next', 'published: in the key set');
is signer(), 'identity', 'and does not sign';
my ($line) = reverse key_lines();
like +JSON::PP->new->canonical->encode($line),
    qr/"event":"keys.reloaded".*"kid":"identity".*"publicKeys":2/, 'one line';
rename "$dir/next.published.200.pem", "$dir/next.signing.300.pem";
follows('next identity', 'signing: the newest of them', 1);
is signer(), 'next', 'and that one signs';

# Both kinds of token of the first key, while it is in the key set.
my $select = sub { return (post('select-branch',
    { branchId => $first->{branches}[0]{branchId} },
    params => { HTTP_AUTHORIZATION => "Bearer $first->{accountAccessToken}" }))
    [0] };
is $select->(), 200, 'replaced: its account tokens are accepted';

$t->write_file('keys/identity.refresh.300.pem', '');
chmod 0600, "$dir/identity.refresh.300.pem";
ok soon(sub { (key_lines())[-1]{event} eq 'keys.reload_failed' }),
    'a broken directory is noticed';
like +(key_lines())[-1]{message},
    qr/the key has two files.*; the old keys stay$/, 'said in one line';
my $lines = () = key_lines();
my $looked = time + 2.2;
is kids(), 'next identity', 'and the old keys stay';
is signer(), 'next', 'for signing too';
is ask(GET => '/readyz')->{status}, 200, 'which is no reason to take it out';
ok soon(sub { time > $looked }), 'a process that has looked again';
is scalar(key_lines()), $lines, 'says it once';
unlink "$dir/identity.signing.100.pem";
key_put($dir, $old, 'refresh', 300, public => 1);
follows('next', 'refresh: out of the key set', 1);
is $select->(), 401, 'its account tokens are refused';
my ($status, $json) = post('refresh',
    { refreshToken => $first->{refreshToken} });
is $status, 200, 'its refresh tokens are accepted';
is +(jwt_decode($json->{refreshToken}))[0]{kid}, 'next',
    'and exchanged for one of the new key';
my $second = $json;
$lines = () = key_lines();
unlink "$dir/identity.refresh.300.pem";
$identity->process->signal('HUP');
ok soon(sub { $lines < (() = key_lines()) }), 'SIGHUP looks at once';
($status, $json) = post('refresh', { refreshToken => jwt_token('refresh', $old,
    iss => $Platform::Test::Jwt::ISSUER) });
is "$status $json->{code}", '401 AUTH_REFRESH_TOKEN_INVALID',
    'its refresh tokens are refused';
is +(post('refresh', { refreshToken => $second->{refreshToken} }))[0], 200,
    'others are not';

# What was wrong may be put right without another change of the files.
chmod 0770, $dir;
key_put($dir, $other, 'published', 1);
ok soon(sub { (key_lines())[-1]{event} eq 'keys.reload_failed' }),
    'a directory that others may write to is noticed';
like +(key_lines())[-1]{message}, qr/others may write to it/, 'said';
chmod 0700, $dir;
follows('next other', 'put right');
unlink "$dir/other.published.1.pem";
follows('next', 'and followed again', 1);

# The directory itself goes away, and comes back.
rename $dir, "$dir.away";
ok soon(sub { (key_lines())[-1]{event} eq 'keys.reload_failed' }),
    'no directory: noticed';
is kids(), 'next', 'the old keys stay';
rename "$dir.away", $dir;
ok soon(sub { (key_lines())[-1]{event} eq 'keys.reloaded' }),
    'and its return too';

# docs/key-rotation.md, from variables to the directory.

my $etc = $t->dir . '/etc';
mkdir $etc;
my %file = (PLATFORM_JWT_KEY_ID => $old->kid,
    PLATFORM_JWT_PRIVATE_KEY_BASE64 => $old->private_base64,
    PLATFORM_JWT_PUBLIC_KEY_BASE64  => $old->public_base64);
$t->write_file('etc/identity.env',
    join '', "PLATFORM_AUTH_MAX_FAILURES=9\n", map {"$_=$file{$_}\n"} sort keys %file);
my $moved = $t->identity(name => 'moved', args => [ '--env-file',
    "$etc/identity.env" ], map { $_ => undef } keys %file);
my $says = sub { return $t->fcgi($moved->address)->request(
    GET => '/.well-known/jwks.json')->{body} };
my $before = $says->();
open my $fh, '<', $t->root . '/docs/key-rotation.md' or die "$!\n";
my ($recipe) = do { local $/; <$fh> }
    =~ /^## From variables to the directory\n.*?```sh\n(.*?)```/ms;
my $program = Platform::Test::Env::identity();
$recipe =~ s/ (?:-o identity-fcgi )?-g identity-fcgi//g;
$recipe =~ s/\bsudo identity-fcgi/APP_ENV=production $program/g;
$recipe =~ s/\bsudo //g;
$recipe =~ s{/etc/platform-gateway}{$etc}g;
$recipe =~ s/^systemctl reload .*//m or die "no reload\n";
$t->write_file('recipe.sh', "set -e\n$recipe");
is system('sh ' . $t->dir . '/recipe.sh >' . $t->dir . '/recipe.out 2>&1'), 0,
    'the recipe runs' or diag $t->read_file('recipe.out');
$moved->process->signal('HUP');
ok soon(sub { $moved->log_text =~ /keys\.reloaded/ }), 'and is reloaded';
is $says->(), $before, 'nobody notices';
unlike $t->read_file('etc/identity.env'), qr/KEY_BASE64/, 'no key is left';
like $t->read_file('etc/identity.env'), qr/MAX_FAILURES=9/, 'the rest is';
key_put("$etc/keys", $new, 'published', 1);
ok soon(sub { $says->() =~ /"next"/ }), 'and from now on it follows';

# A file whose name changes while a process reads the directory is not missed:
# this library takes it away before the first reading, and back after it.
SKIP: {
    skip 'a sanitizer and a library before it do not mix', 1
        if Platform::Test::Env::asan() || Platform::Test::Env::valgrind();
    $control->();
    key_put($dir, $other, 'published', 1);
    my $renamer = preload($t, 'renamer', <<'C');
#include <dirent.h>

static DIR *first;

static void move(const char *from, const char *to)
{
    if (chdir(getenv("PLATFORM_JWT_KEY_DIR")) != 0 || rename(from, to) != 0) {
        abort();
    }
}

DIR *fdopendir(int fd)
{
    if (first == NULL) {
        move("other.published.1.pem", ".away");
        return first = ((DIR *(*)(int)) dlsym(RTLD_NEXT, "fdopendir"))(fd);
    }
    return ((DIR *(*)(int)) dlsym(RTLD_NEXT, "fdopendir"))(fd);
}

int closedir(DIR *dir)
{
    if (dir == first) {
        move(".away", "other.published.2.pem");
    }
    return ((int (*)(DIR *)) dlsym(RTLD_NEXT, "closedir"))(dir);
}
C
    my $moved = $t->identity(%env, name => 'renamed', LD_PRELOAD => $renamer);
    is join(' ', map { $_->{kid} } @{ decode_json($t->fcgi($moved->address)
        ->request(GET => '/.well-known/jwks.json')->{body})->{keys} }),
        'identity other', 'a key whose file is renamed meanwhile is not missed';
    is_deeply key_states($dir), { identity => 'signing', other => 'published' },
        'it was renamed';
    ok -e "$dir/other.published.2.pem", 'once';
}

$t->done;
