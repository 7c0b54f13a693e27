/* Keys in a directory, one file per key. */

#include "auth/keys_dir.h"

#include "base/parse.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <keyfile.h>
#include <openssl/crypto.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define VARIABLE "PLATFORM_JWT_KEY_DIR"
#define NEW_FILE                                                               \
    ".new" /* until complete; names with a leading dot are ignored */

const char *const keys_dir_states[] = {"signing", "replaced", "published",
                                       "refresh"};

#define fail(d, ...) error_is(&(d)->error, VARIABLE ": " __VA_ARGS__)

/* -- names -- */

static bool parse_name(const char *name, struct key_file *f)
{
    static const enum key_state state_of[] = {[KEYFILE_SIGNING] = KEY_SIGNING,
                                              [KEYFILE_PUBLISHED] =
                                                  KEY_PUBLISHED,
                                              [KEYFILE_REFRESH] = KEY_REFRESH};
    keyfile_t parsed;

    if (strlen(name) > NAME_MAX || !keyfile_parse(&parsed, pj_str(name))) {
        return false;
    }
    snprintf(f->name, sizeof(f->name), "%s", name);
    snprintf(f->kid, sizeof(f->kid), "%.*s", (int) parsed.kid.len, name);
    f->state = state_of[parsed.state];
    f->since = parsed.since;
    return parse_kid(f->kid);
}

/* -- reading -- */

/* The newest signing key is first, followed by older ones. */
static int compare(const void *one, const void *two)
{
    const struct key_file *a = one, *b = two;

    if (a->state != b->state) {
        return a->state < b->state ? -1 : 1;
    }
    if (a->since != b->since) {
        return a->since > b->since ? -1 : 1;
    }
    return strcmp(a->kid, b->kid);
}

static bool add_file(struct keys_dir *d, const char *name)
{
    struct key_file *f = &d->files[d->count];

    if (d->count == KEYS_DIR_MAX) {
        return fail(d, "too many files; accepted: at most %d keys",
                    KEYS_DIR_MAX);
    }
    if (!parse_name(name, f)) {
        return fail(d,
                    "%s: is not the name of a key; accepted: KID.STATE.SINCE"
                    ".pem, the state signing, published or refresh",
                    name);
    }
    for (size_t i = 0; i < d->count; i++) {
        if (strcmp(d->files[i].kid, f->kid) == 0) {
            return fail(d, "%s: the key has two files; accepted: one", name);
        }
    }
    d->count++;
    return true;
}

static bool read_names(struct keys_dir *d)
{
    int fd = openat(d->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    struct dirent *entry;
    bool ok = dir != NULL || fail(d, "cannot be read: %s", strerror(errno));

    while (ok && (entry = readdir(dir)) != NULL) {
        ok = entry->d_name[0] == '.' || add_file(d, entry->d_name);
    }
    if (dir != NULL) {
        (void) closedir(dir);
    } else if (fd >= 0) {
        (void) close(fd);
    }
    qsort(d->files, d->count, sizeof(d->files[0]), compare);
    for (size_t i = d->count; i-- > 1;) {
        if (d->files[i].state == KEY_SIGNING) {
            d->files[i].state = KEY_REPLACED;
            d->files[i].since = d->files[i - 1].since;
        }
    }
    return ok;
}

bool keys_dir_open(struct keys_dir *d, const char *path, bool lock)
{
    struct stat st;

    d->count = 0;
    d->fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (d->fd < 0 || fstat(d->fd, &st) != 0 ||
        (lock && flock(d->fd, LOCK_EX) != 0)) {
        return fail(d, "%s: cannot be opened: %s", path, strerror(errno));
    }
    d->owner = st.st_uid;
    d->group = st.st_gid;
    /* Root may work for another user. */
    if ((st.st_mode & 022) != 0 || (geteuid() != 0 && d->owner != geteuid())) {
        return fail(d,
                    "%s: others may write to it; accepted: a directory of the "
                    "service's user, mode 0700",
                    path);
    }
    return read_names(d);
}

void keys_dir_close(struct keys_dir *d)
{
    if (d->fd >= 0) {
        (void) close(d->fd);
    }
    d->fd = -1;
}

uint64_t keys_dir_stamp(const char *path)
{
    DIR *dir = opendir(path);
    struct dirent *entry;
    uint64_t sum = 0;

    while (dir != NULL && (entry = readdir(dir)) != NULL) {
        uint64_t hash = UINT64_C(14695981039346656037); /* FNV-1a */
        struct stat st;

        if (entry->d_name[0] == '.') {
            continue;
        }
        for (const char *p = entry->d_name; *p != '\0'; p++) {
            hash = (hash ^ (unsigned char) *p) * UINT64_C(1099511628211);
        }
        /* Detects files that are written in place. */
        if (fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0) {
            hash ^= (uint64_t) st.st_ctim.tv_sec * UINT64_C(1000000007) +
                    (uint64_t) st.st_ctim.tv_nsec;
            hash *= UINT64_C(1099511628211);
        }
        sum += hash; /* independent of the order */
    }
    if (dir != NULL) {
        (void) closedir(dir);
        sum += 1;
    }
    return sum;
}

/* The text of a file and its parts.  The caller wipes it. */
struct parts {
    char text[KEYS_DIR_TEXT];
    keyfile_parts_t keys;
};

static bool read_file(struct keys_dir *d, const struct key_file *f,
                      struct parts *p)
{
    int fd =
        openat(d->fd, f->name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    struct stat st;
    ssize_t len;

    if (fd < 0 || fstat(fd, &st) != 0) {
        (void) fail(d, "%s: cannot be opened: %s", f->name,
                    errno == ELOOP ? "a symbolic link" : strerror(errno));
        if (fd >= 0) {
            (void) close(fd);
        }
        return false;
    }
    if (!S_ISREG(st.st_mode) || st.st_uid != d->owner ||
        (st.st_mode & 077) != 0) {
        (void) close(fd);
        return fail(d,
                    "%s: others may read it; accepted: a file of the "
                    "directory's owner, mode 0600",
                    f->name);
    }
    len = read(fd, p->text, sizeof(p->text));
    (void) close(fd);
    p->keys = keyfile_split(
        (pj_str_t){(unsigned char *) p->text, len > 0 ? (size_t) len : 0});
    if (p->keys.public.len == 0 || len == sizeof(p->text)) {
        return fail(d,
                    "%s: no public key; accepted: PEM, the private key and "
                    "after it the public one, or the public one alone",
                    f->name);
    }
    return true;
}

bool keys_dir_parse(struct keys_dir *d, const struct key_file *f,
                    pj_key_t **public, pj_key_t **private)
{
    struct parts p;
    pj_err_t code = PJ_OK;
    bool ok = read_file(d, f, &p);

    if (ok) {
        code = pj_key_public(public, p.keys.public, pj_str(f->kid));
        if (!code && private != NULL) {
            code = pj_key_private(private, p.keys.private, pj_str(f->kid));
            if (!code) {
                code = pj_key_match(*private, *public);
            }
        }
        if (code && private != NULL && p.keys.private.len == 0) {
            ok = fail(d, "%s: has no private key to sign with", f->name);
        } else if (code) {
            ok = fail(d, "%s: %s; accepted: " KEYS_GOOD ", in PEM", f->name,
                      pj_strerror(code));
        }
    }
    OPENSSL_cleanse(&p, sizeof(p));
    return ok;
}

bool keys_dir_check(struct keys_dir *d, const struct key_file *f, bool signs)
{
    pj_key_t *public = NULL, *private = NULL;
    bool ok = keys_dir_parse(d, f, &public, signs ? &private : NULL);

    pj_key_free(public);
    pj_key_free(private);
    return ok;
}

bool keys_dir_is_good(struct keys_dir *d)
{
    bool ok = true;

    for (size_t i = 0; ok && i < d->count; i++) {
        ok = keys_dir_check(d, &d->files[i], d->files[i].state == KEY_SIGNING);
    }
    return ok;
}

/* -- writing -- */

static bool rename_to(struct keys_dir *d, const char *from, const char *to)
{
    return (renameat(d->fd, from, d->fd, to) == 0 && fsync(d->fd) == 0) ||
           fail(d, "%s: cannot be written: %s", to, strerror(errno));
}

static bool name_file(struct keys_dir *d, const char *from, const char *kid,
                      enum key_state state, int64_t since)
{
    char name[NAME_MAX + 1];
    struct key_file f;
    int n = snprintf(name, sizeof(name), "%s.%s.%lld.pem", kid,
                     keys_dir_states[state], (long long) since);

    return n < (int) sizeof(name) && parse_name(name, &f)
               ? rename_to(d, from, name)
               : fail(d, "%s: cannot be the name of a file", kid);
}

/* A short write does not set errno, so the loop writes again. */
static bool write_all(int fd, pj_str_t text)
{
    ssize_t n;

    while (text.len > 0 && (n = write(fd, text.data, text.len)) > 0) {
        text.data += n;
        text.len -= (size_t) n;
    }
    return text.len == 0;
}

static bool write_new(struct keys_dir *d, pj_str_t text)
{
    bool ok;
    int fd;

    (void) unlinkat(d->fd, NEW_FILE, 0); /* left by a killed command */
    fd = openat(d->fd, NEW_FILE,
                O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    ok = fd >= 0 &&
         (d->owner == geteuid() || fchown(fd, d->owner, d->group) == 0) &&
         write_all(fd, text) && fsync(fd) == 0;
    if (!ok) {
        (void) fail(d, "a file cannot be written: %s", strerror(errno));
        (void) unlinkat(d->fd, NEW_FILE, 0);
    }
    if (fd >= 0) {
        (void) close(fd);
    }
    return ok;
}

bool keys_dir_put(struct keys_dir *d, const char *kid, enum key_state state,
                  int64_t after, pj_str_t text)
{
    int64_t now;
    bool ok;

    if (!write_new(d, text)) {
        return false;
    }
    now = (int64_t) time(NULL); /* after the write, which may be slow */
    ok = name_file(d, NEW_FILE, kid, state, now > after ? now : after + 1);
    if (!ok) {
        (void) unlinkat(d->fd, NEW_FILE, 0); /* it contains a private key */
    }
    return ok;
}

bool keys_dir_move(struct keys_dir *d, const struct key_file *f,
                   enum key_state state, int64_t since)
{
    return name_file(d, f->name, f->kid, state, since);
}

bool keys_dir_remove(struct keys_dir *d, const struct key_file *f)
{
    return (unlinkat(d->fd, f->name, 0) == 0 && fsync(d->fd) == 0) ||
           fail(d, "%s: cannot be removed: %s", f->name, strerror(errno));
}

bool keys_dir_strip(struct keys_dir *d, const struct key_file *f)
{
    struct parts p;
    bool ok = read_file(d, f, &p) && write_new(d, p.keys.public) &&
              rename_to(d, NEW_FILE, f->name);

    OPENSSL_cleanse(&p, sizeof(p));
    return ok;
}
