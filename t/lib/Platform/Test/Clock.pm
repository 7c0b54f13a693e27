package Platform::Test::Clock;

# A clock for one nginx that the test sets: so many seconds ahead of the
# machine's, or behind.

use v5.36;

use Platform::Test::KeyDir;

# Gives $nginx, which is not started yet, such a clock.
sub new ($class, $t, $nginx) {
    my $self = bless { file => $t->dir . '/clock' }, $class;
    $self->ahead(0);
    $self->{so} = preload($t, 'clock', <<'C');
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/time.h>

static const volatile int *ahead;

__attribute__((constructor)) static void begin(void)
{
    const char *file = getenv("CLOCK_AHEAD");
    void *mem = mmap(NULL, sizeof(int), PROT_READ, MAP_SHARED,
                     file ? open(file, O_RDONLY) : -1, 0);

    ahead = mem == MAP_FAILED ? NULL : mem;
}

int gettimeofday(struct timeval *tv, void *tz)
{
    int rc = ((int (*)(struct timeval *, void *)) dlsym(
        RTLD_NEXT, "gettimeofday"))(tv, tz);

    tv->tv_sec += ahead ? *ahead : 0;
    return rc;
}
C
    return $nginx->{clock} = $self;
}

# Writes in place, since nginx has the file mapped.
sub ahead ($self, $seconds) {
    open my $fh, (-e $self->{file} ? '+<' : '>'), $self->{file} or die "$self->{file}: $!\n";
    syswrite($fh, pack 'i', $seconds) == 4 or die "$self->{file}: $!\n";
}

1;
