/* What may become a credential, by the operator's settings. */

#include "auth/password_new.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINES_MAX (16 * 1024 * 1024) /* of six bytes of memory each */

/*
 * The list of forbidden credentials: a hash table of its lines, 32 bits of
 * each, so that not one in 10^8 others is taken for one of them.  It is read
 * at first use, and again when the file has changed.
 */
struct table {
    struct stat file; /* which was read; st_ino 0: none */
    int error;        /* why it is not used, as errno */
    uint32_t *slots;  /* 0: free */
    uint64_t count;
};

static struct {
    pthread_mutex_t lock;
    struct table table;
    bool reading; /* somebody is, and enters it then */
} list = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool is_shorter(pj_str_t credential, int characters)
{
    const unsigned char *p = credential.data, *end = p + credential.len;
    bool valid;

    while (p < end && characters > 0) {
        p += pj_utf8_next(p, end, &valid);
        characters--;
    }
    return characters > 0;
}

/* -- the table -- */

#define HASH_OF_NOTHING UINT64_C(14695981039346656037) /* FNV-1a */

static uint64_t hash_on(uint64_t hash, unsigned char ch)
{
    ch |= ch >= 'A' && ch <= 'Z' ? 0x20 : 0;
    return (hash ^ ch) * UINT64_C(1099511628211);
}

/* The slot of it, or the free one where it would be; *mark is what it has. */
static uint32_t *slot_of(const struct table *t, uint64_t hash, uint32_t *mark)
{
    uint64_t i;

    hash = (hash ^ hash >> 32) * UINT64_C(0xd6e8feb86659fd93);
    *mark = (uint32_t) hash != 0 ? (uint32_t) hash : 1;
    for (i = (hash >> 32) * t->count >> 32;
         t->slots[i] != 0 && t->slots[i] != *mark;
         i = i + 1 < t->count ? i + 1 : 0) {
    }
    return &t->slots[i];
}

static void enter(struct table *t, uint64_t hash)
{
    uint32_t mark, *slot;

    if (t->slots != NULL) {
        slot = slot_of(t, hash, &mark);
        *slot = mark;
    }
}

static bool is_listed(const struct table *t, pj_str_t credential)
{
    uint64_t hash = HASH_OF_NOTHING;
    uint32_t mark;

    for (size_t i = 0; i < credential.len; i++) {
        hash = hash_on(hash, credential.data[i]);
    }
    return *slot_of(t, hash, &mark) == mark;
}

/* -- the file -- */

static bool is_same(const struct stat *a, const struct stat *b)
{
    return a->st_dev == b->st_dev && a->st_ino == b->st_ino &&
           a->st_size == b->st_size &&
           a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
           a->st_mtim.tv_nsec == b->st_mtim.tv_nsec &&
           a->st_ctim.tv_sec == b->st_ctim.tv_sec &&
           a->st_ctim.tv_nsec == b->st_ctim.tv_nsec;
}

/* Counts the lines, and enters them where there is a table. */
static bool read_lines(int fd, struct table *t, uint64_t most, uint64_t *lines)
{
    unsigned char chunk[16 * 1024];
    uint64_t hash = HASH_OF_NOTHING, n = 1;
    bool cut = false; /* by a carriage return */
    ssize_t len;

    for (off_t at = 0; (len = pread(fd, chunk, sizeof(chunk), at)) > 0;
         at += len) {
        for (ssize_t i = 0; i < len && n <= most; i++) {
            cut = cut || chunk[i] == '\r';
            if (chunk[i] == '\n') {
                enter(t, hash);
                hash = HASH_OF_NOTHING;
                cut = false;
                n++;
            } else if (!cut) {
                hash = hash_on(hash, chunk[i]);
            }
        }
        if (n > most) {
            errno = EFBIG;
            return false;
        }
    }
    enter(t, hash);
    *lines = n;
    return len == 0;
}

static bool read_file(int fd, struct table *t)
{
    uint64_t lines;

    if (fstat(fd, &t->file) != 0) {
        return false;
    }
    if (!S_ISREG(t->file.st_mode)) {
        errno = S_ISDIR(t->file.st_mode) ? EISDIR : EINVAL;
        return false;
    }
    if (!read_lines(fd, t, LINES_MAX, &lines)) {
        return false;
    }
    t->count = lines + lines / 2 + 1;
    t->slots = calloc(t->count, sizeof(*t->slots));
    return t->slots != NULL && read_lines(fd, t, lines, &lines);
}

/* The table of the file; without slots, and errno, where it cannot be read. */
static struct table read_list(const char *path)
{
    struct table t = {.slots = NULL};
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC), error;
    bool ok;

    if (fd < 0) {
        return t;
    }
    ok = read_file(fd, &t);
    error = errno;
    if (!ok) {
        free(t.slots);
        t.slots = NULL;
        t.error = error;
    }
    if (!ok && error != EFBIG) {
        t.file.st_ino = 0; /* may be read the next time */
    }
    (void) close(fd);
    errno = error;
    return t;
}

/* Has the table that the file is now, under the lock, which is not held while
 * it is read: that may take seconds.  Others use the old one until then. */
static bool follow(const char *path)
{
    struct stat now;
    struct table t;
    int error;

    if (list.reading ||
        (list.table.file.st_ino != 0 && stat(path, &now) == 0 &&
         is_same(&now, &list.table.file))) {
        errno = list.table.error;
        return list.table.slots != NULL;
    }
    list.reading = true;
    (void) pthread_mutex_unlock(&list.lock);
    t = read_list(path);
    (void) pthread_mutex_lock(&list.lock);
    list.reading = false;
    error = errno;
    free(list.table.slots);
    errno = error;
    list.table = t;
    return t.slots != NULL;
}

enum password_new password_new_judge(const struct config *cfg,
                                     pj_str_t credential)
{
    enum password_new verdict;

    if (is_shorter(credential, cfg->credential_min)) {
        return PASSWORD_SHORT;
    }
    if (cfg->credential_forbidden == NULL) {
        return PASSWORD_FITS;
    }
    (void) pthread_mutex_lock(&list.lock);
    if (!follow(cfg->credential_forbidden)) {
        verdict = list.reading ? PASSWORD_LATER : PASSWORD_UNREAD;
    } else {
        verdict = is_listed(&list.table, credential) ? PASSWORD_FORBIDDEN
                                                     : PASSWORD_FITS;
    }
    (void) pthread_mutex_unlock(&list.lock);
    return verdict;
}
