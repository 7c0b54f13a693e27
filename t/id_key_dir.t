# PLATFORM_JWT_KEY_DIR: what is accepted of a directory of keys, what the
# state of a key means, and that processes follow it by themselves.

use POSIX qw(mkfifo);
use Platform::Test;
use Platform::Test::Client;
use Platform::Test::KeyDir;
use Time::HiRes qw(time);

my $t = Platform::Test->new;
my ($old, $new, $other) = map { jwt_key($_) } qw(identity next other);
my $dir = key_dir($t);
my %env = key_dir_env($dir);

# -- what is accepted, or refused in one line that says why and shows no key -----

sub check ($name, $want = undef, %change) {
    my ($status, undef, $err) = $t->run_identity(['--check'], %env, %change);
    return is "$status $err", '0 ', $name if !defined $want;
    my $line = qr/(?!.*(?:BEGIN|MIIE[vop]|MIGHAgEA))(?=.*$want)[^\n]+\n/;
    like "$status $err", qr/\A2 identity-fcgi: PLATFORM_JWT_KEY_DIR: $line\z/, "$name: refused";
}

# Begins anew with one key that signs; its file.
sub control {
    unlink map {"$dir/$_"} key_names($dir);
    chmod 0700, $dir;
    chown $>, $), $dir;
    return key_put($dir, $old, 'signing', 100);
}

sub published { return key_put($dir, $_[0], 'published', 1, @_[ 1 .. $#_ ]) }
sub signing { return key_put($dir, $old, 'signing', 100, @_) }

control();
symlink $dir, "$dir.link";
check(@$_) for (
    ['a key that signs'],
    [ 'the variables beside it', qr/as well as\ PLATFORM_JWT_KEY_ID.*accepted:/,
        PLATFORM_JWT_KEY_ID => 'x' ],
    [ 'a public key beside it', qr/or PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS;/,
        PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS => 'x=y' ],
    [ 'no directory', qr{/none: cannot be opened: No such}, PLATFORM_JWT_KEY_DIR => "$dir/none" ],
    [ 'a link', qr/keys\.link: cannot be opened/, PLATFORM_JWT_KEY_DIR => "$dir.link" ],
);

# What is done to the directory, given the file of its key.
my $ec = qx{openssl ecparam -name secp384r1 -genkey -noout | openssl ec -pubout 2>&1};
for my $case (
    [ 'a directory for its group to read', undef, sub { chmod 0750, $dir } ],
    (map { my $mode = $_; [ sprintf('one of mode %o', $mode), qr/others may write to it/,
        sub { chmod $mode, $dir } ] } 0720, 0702),
    [ 'an empty directory', qr/no key signs/, sub { unlink $_[0] } ],
    [ 'a key that does not sign', qr/no key signs/,
        sub { rename $_[0], $_[0] =~ s/signing/published/r } ],
    (map { my $mode = $_; [ sprintf('a file of mode %o', $mode),
        qr/identity\.signing\.100\.pem: others may read it/, sub { chmod $mode, $_[0] } ] }
        0640, 0604),
    [ 'a key of another kind', qr/next\.published\.1\.pem: .*RSA/,
        sub { published($new, text => $ec) } ],
    [ 'a symbolic link', qr/opened: a symbolic link/,
        sub { rename $_[0], "$dir/.there"; symlink "$dir/.there", $_[0] } ],
    [ 'a FIFO', qr/accepted: a file/, sub { unlink $_[0]; mkfifo($_[0], 0600) } ],
    [ 'a directory in it', qr/accepted: a file/, sub { unlink $_[0]; mkdir $_[0], 0700 } ],
    [ 'one that is too large', qr/no public key/,
        sub { signing(text => $old->private_pem . $old->public_pem . "\n" x 16384) } ],
    [ 'no public part', qr/no public key/, sub { signing(text => $old->private_pem) } ],
    [ 'no private part', qr/has no private key to sign with/, sub { signing(public => 1) } ],
    [ 'halves of two keys', qr/identity\.signing\.100\.pem: .*accepted: RSA/,
        sub { signing(text => $new->private_pem . $old->public_pem) } ],
    [ 'a weak key', qr/weak\.published\.1\.pem: .*2048 bits/,
        sub { published(jwt_key('weak', bits => 1024)) } ],
    [ 'garbage', qr/next\.published\.1\.pem: /,
        sub { published($new, text => "-----BEGIN PUBLIC KEY-----\nx\n") } ],
    [ 'a key with two files', qr/identity\.\w+\.1(?:00)?\.pem: the key has two files/,
        sub { published($old) } ],
    [ 'seventeen keys', qr/at most 16 keys/, sub { published($new->as("k$_")) for 1 .. 16 } ],
    (map { my $name = $_; [ "the name $name", qr/\Q$name\E: is not the name of a key/,
        sub { rename published($new), "$dir/$name" } ] } 'next.pem', 'next.publishd.1.pem',
        'next.published.1', '4913', 'next.published.1.pem~', 'next.published.-1.pem',
        'next.replaced.1.pem', 'a,b.published.1.pem'),
    [ 'ids with dots, a public part alone, names with a dot in front, a file elsewhere too',
        undef, sub {
            published($new->as('a.b+c@d'));
            key_put($dir, $other, 'refresh', 1, public => 1);
            $t->write_file("keys/$_", 'x') for '.anything', '.next.published.1.pem.swp';
            link $_[0], "$dir.key" or die "link: $!\n";
        } ],
) {
    my ($name, $want, $do) = @$case;
    my $file = control();
    $do->($file);
    check($name, $want);
    rmdir $file if -d $file;
}
SKIP: {
    skip 'files of other owners need root', 4 if $> != 0;
    my $file = control();
    chown 65534, -1, $file;
    check('a file of another owner', qr/of the directory's owner/);
    chown 65534, -1, $dir;
    check('with the directory its too, for root');

    # Another user's process, where that user may go.
    my $place = "/tmp/platform-test-keys-$$";
    system 'install', '-Dm755', Platform::Test::Env::identity(), "$place/program";
    mkdir "$place/keys", 0755;
    chmod 0755, $place, "$place/keys";
    my @as = ('setpriv', '--reuid', 65534, '--regid', 65534, '--clear-groups',
        'env', '-i', 'APP_ENV=production', "PLATFORM_JWT_KEY_DIR=$place/keys",
        "$place/program", '--check');
    for my $case ([ 1, qr/others may write to it/ ], [ 65534, qr/settings are good/ ]) {
        my ($owner, $says) = @$case;
        chown $owner, -1, key_put("$place/keys", $old, 'signing', 100), "$place/keys";
        like qx{@as 2>&1}, $says, "the directory of user $owner";
    }
    system 'rm', '-r', $place;
}

# -- what the states mean, in a process that follows -----------------------------

control();
my $identity = $t->identity_face(%env, PLATFORM_REQUEST_TIMEOUT => '5s');
my $port = client_of($t);

# A process looks every two seconds, on a machine that lets it.
sub soon { return eventually($_[0], 60) }

sub kids { return join ' ', map { $_->{kid} } @{ http_get($port,
    '/.well-known/jwks.json')->json->{keys} } }

# By itself, or when it is told to.
sub follows ($want, $name, $told = undef) {
    $identity->process->signal('HUP') if $told;
    return ok soon(sub { kids() eq $want }), $name;
}

sub kid_of { return (jwt_decode($_[0]))[0]{kid} }
sub signer { return kid_of(logged_in('one')->{accessToken}) }
sub key_lines { return grep { $_->{event} =~ /^keys\./ } $identity->log_lines }

# One test: the last line of keys says so; and which keys there are then.
sub says ($event, $message, $kids, $name) {
    soon(sub { (key_lines())[-1]{event} eq "keys.$event" });
    return like join('|', map({ $_ // '' } @{ (key_lines())[-1] }{qw(event message)}), kids()),
        qr/\Akeys.$event\|.*$message.*\|$kids\z/, $name;
}

is kids(), 'identity', 'one key';
my $first = logged_in('several');
is scalar(key_lines()), 0, 'nothing is said of what is as it was';
key_put($dir, $new, 'published', 200);
follows('identity next', 'published: in the key set');
is signer(), 'identity', 'and does not sign';
is_deeply [ @{ (key_lines())[-1] }{qw(event kid publicKeys)} ],
    [ 'keys.reloaded', 'identity', 2 ], 'one line';
rename "$dir/next.published.200.pem", "$dir/next.signing.300.pem";
follows('next identity', 'signing: the newest of them', 1);
is signer(), 'next', 'and that one signs';

# Both kinds of token of the first key, while it is in the key set.
sub selects { return select_branch($first, $first->{branches}[0]{branchId})->status }
is selects(), 200, 'replaced: its account tokens are accepted';

key_put($dir, $old, 'refresh', 300, text => '');
says('reload_failed', qr/the key has two files.*; the old keys stay/, 'next identity',
    'a broken directory is noticed');
my $lines = () = key_lines();
my $looked = time + 2.2;
is signer(), 'next', 'the old keys sign too';
is http_get($port, '/readyz')->status, 200, 'which is no reason to take it out';
ok soon(sub { time > $looked }), 'a process that has looked again';
is scalar(key_lines()), $lines, 'says it once';
unlink "$dir/identity.signing.100.pem";
key_put($dir, $old, 'refresh', 300, public => 1);
follows('next', 'refresh: out of the key set', 1);
is selects(), 401, 'its account tokens are refused';
my $second = next_of(refresh($first));
is kid_of($second), 'next', 'its refresh tokens are exchanged for one of the new key';
$lines = () = key_lines();
unlink "$dir/identity.refresh.300.pem";
$identity->process->signal('HUP');
ok soon(sub { $lines < (() = key_lines()) }), 'SIGHUP looks at once';
is_problem(refresh(jwt_token('refresh', $old, iss => $Platform::Test::Jwt::ISSUER)),
    401, 'AUTH_REFRESH_TOKEN_INVALID', 'its refresh tokens are refused');
next_of(refresh($second));

# What was wrong may be put right without another change of the files.
chmod 0770, $dir;
published($other);
says('reload_failed', qr/others may write to it/, 'next', 'a directory that others may write to');
chmod 0700, $dir;
follows('next other', 'put right');
unlink "$dir/other.published.1.pem";
follows('next', 'and followed again', 1);

# docs/key-rotation.md, from variables to the directory.

my $etc = $t->dir . '/etc';
my %file = %{ $t->identity_env }{ map {"PLATFORM_JWT_$_"}
    qw(KEY_ID PRIVATE_KEY_BASE64 PUBLIC_KEY_BASE64) };
$t->write_file('etc/identity.env',
    join '', "PLATFORM_AUTH_MAX_FAILURES=9\n", map {"$_=$file{$_}\n"} sort keys %file);
my $moved = $t->identity(name => 'moved', args => [ '--env-file', "$etc/identity.env" ],
    map { $_ => undef } keys %file);
sub set { return $t->fcgi($moved->address)->request(GET => '/.well-known/jwks.json')->{body} }
my $before = set();
my ($recipe) = $t->read_file($t->root . '/docs/key-rotation.md')
    =~ /^## From variables to the directory\n.*?```sh\n(.*?)```/ms;
my $program = Platform::Test::Env::identity();
my %here = ('sudo identity-fcgi' => "APP_ENV=production $program", 'sudo ' => '',
    ' -o identity-fcgi' => '', ' -g identity-fcgi' => '', '/etc/platform-gateway' => $etc);
$recipe =~ s/(sudo identity-fcgi|sudo | -[og] identity-fcgi|\/etc\/platform-gateway)/$here{$1}/g;
$recipe =~ s/^systemctl reload .*//m or die "no reload\n";
$t->write_file('recipe.sh', "set -e\n$recipe");
is system("cd $etc; sh ../recipe.sh >../recipe.out 2>&1"), 0, 'the recipe runs'
    or diag $t->read_file('recipe.out');
$moved->process->signal('HUP');
ok soon(sub { $moved->log_text =~ /keys\.reloaded/ }), 'and is reloaded';
is set(), $before, 'nobody notices';
is $t->read_file('etc/identity.env'),
    "PLATFORM_AUTH_MAX_FAILURES=9\nPLATFORM_JWT_KEY_DIR=$etc/keys\n", 'no key is left, the rest is';
key_put("$etc/keys", $new, 'published', 1);
ok soon(sub { set() =~ /"next"/ }), 'and from now on it follows';

$t->done;
