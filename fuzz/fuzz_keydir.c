/* Each line the name of a file: a directory of keys that is opened has, for
 * each file, an id, a state and a time that make its name again; no id has two,
 * and one key signs at most. */

#include "fuzz.h"

#include "auth/keys_dir.h"

#include <fcntl.h>

static const char *const states[] = {[KEY_SIGNING] = "signing",
                                     [KEY_REPLACED] = "signing",
                                     [KEY_PUBLISHED] = "published",
                                     [KEY_REFRESH] = "refresh"};
static const char *path;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    path = fuzz_dir();
    return 0;
}

static void names_check(const struct keys_dir *d)
{
    for (size_t i = 0; i < d->count; i++) {
        const struct key_file *f = &d->files[i];
        const char *since = strrchr(f->name, '.');
        char again[2 * NAME_MAX];
        size_t zeroes = 0;

        for (since = strstr(f->name + strlen(f->kid) + 1, ".") + 1;
             *since == '0' && since[1] >= '0' && since[1] <= '9'; since++)
            zeroes++;
        snprintf(again, sizeof(again), "%s.%s.%0*lld.pem", f->kid,
                 states[f->state], (int) (zeroes + strcspn(since, ".")),
                 strtoll(since, NULL, 10));
        FUZZ_ASSERT(strcmp(again, f->name) == 0);
        FUZZ_ASSERT(f->state == KEY_REPLACED ||
                    f->since == strtoll(since, NULL, 10));
        FUZZ_ASSERT(f->kid[0] != '\0' && strpbrk(f->kid, "/'\"\\,= ") == NULL);
        FUZZ_ASSERT(i == 0 || d->files[i - 1].state <= f->state);
        FUZZ_ASSERT(f->state != KEY_SIGNING || i == 0);
        for (size_t j = 0; j < i; j++)
            FUZZ_ASSERT(strcmp(f->kid, d->files[j].kid) != 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    int dir = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    pj_str_t rest = {data, len};
    char made[20][NAME_MAX + 2];
    struct keys_dir d;
    size_t n = 0;

    while (rest.len > 0 && n < 20) {
        pj_str_t name = fuzz_split(&rest, '\n');
        int fd;

        if (name.len > NAME_MAX || memchr(name.data, '/', name.len) != NULL)
            continue;
        snprintf(made[n], sizeof(made[n]), "%.*s", (int) name.len,
                 (const char *) name.data);
        fd = openat(dir, made[n], O_CREAT | O_EXCL | O_WRONLY, 0600);
        if (fd >= 0) {
            close(fd);
            n++;
        }
    }
    if (keys_dir_open(&d, path, false))
        names_check(&d);
    else
        FUZZ_ASSERT(d.error.text[0] != '\0' &&
                    strchr(d.error.text, '\n') == NULL);
    keys_dir_close(&d);
    while (n > 0)
        FUZZ_ASSERT(unlinkat(dir, made[--n], 0) == 0);
    close(dir);
    return 0;
}
