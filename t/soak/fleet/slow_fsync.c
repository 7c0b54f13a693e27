/* Preloaded, makes fsync() and fdatasync() last longer by the milliseconds in
 * the file of SLOW_FSYNC.  Without that file they last as ever. */

#define _GNU_SOURCE

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

int fsync(int fd);
int fdatasync(int fd);

static int slowly(const char *name, int fd)
{
    int (*real)(int) = (int (*)(int)) dlsym(RTLD_NEXT, name);
    const char *path = getenv("SLOW_FSYNC");
    FILE *file = path != NULL ? fopen(path, "r") : NULL;
    long ms = 0;

    if (file != NULL) {
        if (fscanf(file, "%ld", &ms) == 1 && ms > 0) {
            struct timespec wait = {ms / 1000, ms % 1000 * 1000000};

            nanosleep(&wait, NULL);
        }
        fclose(file);
    }
    return real(fd);
}

int fsync(int fd)
{
    return slowly("fsync", fd);
}

int fdatasync(int fd)
{
    return slowly("fdatasync", fd);
}
