package Platform::Test::KeyDir;

# A directory of keys as identity-fcgi reads it: a file a key.

use v5.36;

use Exporter qw(import);
our @EXPORT = qw(key_dir key_dir_env key_put key_names key_states key_killer preload);

# An empty one of mode 0700.
sub key_dir ($t, $name = 'keys') {
    my $dir = $t->dir . "/$name";
    mkdir $dir, 0700 or die "$dir: $!\n";
    chmod 0700, $dir;
    return $dir;
}

# Settings for identity-fcgi: keys come from the directory, and not from variables.
sub key_dir_env ($dir) {
    return (PLATFORM_JWT_KEY_DIR => $dir, map { ("PLATFORM_JWT_$_" => undef) }
            qw(KEY_ID PRIVATE_KEY_BASE64 PUBLIC_KEY_BASE64));
}

# Puts a key there, as a whole; text => what the file holds, mode => 0600.
# Returns its path.
sub key_put ($dir, $key, $state, $since, %o) {
    my $file = "$dir/" . $key->kid . ".$state.$since.pem";
    my $text = $o{text} // ($o{public} ? '' : $key->private_pem) . $key->public_pem;
    open my $fh, '>', "$dir/.put" or die "$dir/.put: $!\n";
    print {$fh} $text;
    close $fh or die "$dir/.put: $!\n";
    chmod $o{mode} // 0600, "$dir/.put";
    rename "$dir/.put", $file or die "$file: $!\n";
    return $file;
}

# The names of its files, those with a dot in front too.
sub key_names ($dir) {
    opendir my $dh, $dir or die "$dir: $!\n";
    return sort grep { !/^\.\.?$/ } readdir $dh;
}

# { KID => STATE } as the names say.
sub key_states ($dir) {
    return { map { /^([^.].*)\.(\w+)\.\d+\.pem$/ ? ($1 => $2) : () } key_names($dir) };
}

# A library that kills a program before the Nth of all its calls that change
# the disk; key_killer($t)->(N) are the variables that do so.
sub key_killer ($t) {
    my $so = preload($t, 'killer', <<'C');
#include <signal.h>

static long left = -1;

static void *before(const char *name)
{
    if (left == -1) {
        left = strtol(getenv("KILL_AT"), NULL, 10);
    }
    if (left > 0 && --left == 0) {
        kill(getpid(), SIGKILL);
    }
    return dlsym(RTLD_NEXT, name);
}

#define KILLED(function, declared, types, given) \
    int function declared { return ((int (*) types) before(#function)) given; }

KILLED(fsync, (int fd), (int), (fd))
KILLED(unlinkat, (int dir, const char *name, int flags),
       (int, const char *, int), (dir, name, flags))
KILLED(renameat, (int from, const char *name, int to, const char *new),
       (int, const char *, int, const char *), (from, name, to, new))

ssize_t write(int fd, const void *data, size_t len)
{
    void *real = fd > 2 ? before("write") : dlsym(RTLD_NEXT, "write");

    return ((ssize_t (*)(int, const void *, size_t)) real)(fd, data, len);
}
C
    return sub { return (LD_PRELOAD => $so, KILL_AT => $_[0]) };
}

# Compiles a library that replaces functions of the C library; returns its path.
sub preload ($t, $name, $c) {
    my $so = $t->dir . "/$name.so";
    my $file = $t->write_file("$name.c", join "\n", '#define _GNU_SOURCE',
        (map {"#include <$_.h>"} qw(dlfcn stdio stdlib unistd)), $c);
    system('cc', '-shared', '-fPIC', '-o', $so, $file, '-ldl') == 0 or die "no $so\n";
    return $so;
}

1;
