# A worker is killed at each step of writing platform_gateway_key_cache_file: the next
# start, with the issuer down, has the old set or the new one, whole.

use Platform::Test;
use Platform::Test::KeyDir;
use Platform::Test::Keys;

Platform::Test::Env::plain('a sanitizer and the library that kills do not mix');
my ($t, $issuer, $old, $new, $other) = keys_test(qw(a b c));
mkdir $t->dir . '/cache' or die "cache: $!\n";
my $file = $t->dir . '/cache/keys';
my @cache = (main => 'worker_processes 1;', soft_age => '1s',
    http => "platform_gateway_key_cache_file $file;");

# A library that kills at that step.
my $so = preload($t, 'killer', <<'C');
#include <fcntl.h>
#include <signal.h>
#include <string.h>

static long at = -1;
static int file = -1;

static void step(long n)
{
    if (at == n) {
        kill(getpid(), SIGKILL);
    }
}

static int opened(const char *call, const char *name, int flags, int mode)
{
    int (*real)(const char *, int, ...) = dlsym(RTLD_NEXT, call);
    int mine = strstr(name, "/cache/keys.") != NULL, fd;

    if (at == -1) {    /* nginx takes its workers' environment away */
        at = strtol(getenv("CLOCK_AHEAD"), NULL, 10);
    }
    if (mine) {
        step(1);
    }
    fd = real(name, flags, mode);
    if (mine) {
        file = fd;
        step(2);
    }
    return fd;
}

int open(const char *name, int flags, ...)
{
    return opened("open", name, flags, 0600);
}

int open64(const char *name, int flags, ...)
{
    return opened("open64", name, flags, 0600);
}

ssize_t write(int fd, const void *data, size_t len)
{
    ssize_t (*real)(int, const void *, size_t) = dlsym(RTLD_NEXT, "write");

    if (fd == file && at == 3) {
        (void) !real(fd, data, len / 2);
        step(3);
    }
    return real(fd, data, len);
}

int rename(const char *from, const char *to)
{
    int (*real)(const char *, const char *) = dlsym(RTLD_NEXT, "rename");
    int result;

    if (strstr(from, "/cache/keys.") != NULL) {
        step(4);
    }
    result = real(from, to);
    step(5);
    return result;
}
C

my $nginx = keys_begin($t, @cache);
keys_until($t, 'control: a set is written', 200, $old);
ok eventually(sub { -s $file }), 'and kept';
sub document { return substr $t->read_file('cache/keys'), 198 }
$t->allow(qr/exited on signal 9/);

for my $case ([ 1, 'before the file is opened' ],
    [ 3, 'when half is written' ], [ 4, 'before it is renamed' ], [ 5, 'after that' ])
{
    my ($step, $name) = @$case;
    my $next = $new->as("next$step");
    my $set = jwks($old, $next);
    my $had = document();
    $issuer->set(body => $set);
    $nginx->{clock} = { so => $so, file => $step };
    keys_begin($t, @cache);
    ok $nginx->wait_log(qr/exited on signal 9/, 20), "$name: it is killed";
    delete $nginx->{clock};
    $issuer->down;
    keys_begin($t, @cache);
    my $done = $step == 5;
    is document(), $done ? $set : $had, "$name: the file";
    keys_are($t, "$name: a start without the issuer serves, and nobody else",
        [ 200, $old ], [ $done ? 200 : 503, $next ], [ 401, $other, iat => past() ]);
    unlike $nginx->error_log, qr/ ignored: /, "$name: nothing is damaged";
    $issuer->up;
    keys_until($t, "$name: the new set comes by itself", 200, $next);
    ok eventually(sub { document() eq $set }), "$name: and is kept";
}
# What a killed worker had opened stays, and is never read.
cmp_ok scalar(my @left = glob "$file.*"), '<=', 2, 'at most one other file for each that was open';

$t->done;
