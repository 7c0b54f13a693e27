package Platform::Test::Clock;

# The clocks of one nginx, moved by the test: the time of day, so many seconds ahead
# of the machine's or behind, and the one that timers and ages go by.

use v5.36;

use Time::HiRes ();

use Platform::Test::KeyDir;

# Gives $nginx, which is not started yet, such a clock.
sub new ($class, $t, $nginx) {
    my $self = bless { file => $t->dir . '/clock', ahead => 0, passed => 0 }, $class;
    $self->ahead(0);
    $self->{so} = preload($t, 'clock', <<'C');
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>

static const volatile int *moved;    /* time of day, timers */

__attribute__((constructor)) static void begin(void)
{
    const char *file = getenv("CLOCK_AHEAD");
    void *mem = mmap(NULL, 2 * sizeof(int), PROT_READ, MAP_SHARED,
                     file ? open(file, O_RDONLY) : -1, 0);

    moved = mem == MAP_FAILED ? NULL : mem;
}

/* By system calls, since a sanitizer asks for the time before dlsym() works. */
int gettimeofday(struct timeval *tv, void *tz)
{
    int rc = (int) syscall(SYS_gettimeofday, tv, tz);

    tv->tv_sec += moved ? moved[0] : 0;
    return rc;
}

int clock_gettime(clockid_t id, struct timespec *ts)
{
    int rc = (int) syscall(SYS_clock_gettime, id, ts);

    ts->tv_sec += moved && id != CLOCK_REALTIME ? moved[1] : 0;
    return rc;
}
C
    return $nginx->{clock} = $self;
}

# Sets the time of day, beside what has passed.  Written in place, since nginx has the
# file mapped.
sub ahead ($self, $seconds) {
    $self->{ahead} = $seconds;
    my $text = pack 'ii', $seconds + $self->{passed}, $self->{passed};
    open my $fh, (-e $self->{file} ? '+<' : '>'), $self->{file} or die "$self->{file}: $!\n";
    syswrite($fh, $text) == 8 or die "$self->{file}: $!\n";
}

# So many seconds pass at once, by both clocks, and for the tokens that are made.
sub pass ($self, $seconds) {
    $Platform::Test::Jwt::AHEAD += $seconds;
    $self->{passed} += $seconds;
    return $self->ahead($self->{ahead});
}

# The time of day there, after nothing but pass().
sub now ($self) { return Time::HiRes::time() + $self->{passed} }

1;
