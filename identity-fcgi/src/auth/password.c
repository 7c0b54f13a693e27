/* Argon2id credentials (libsodium), with bounded concurrency. */

#include "auth/password.h"

#include "base/metrics.h"

#include <sodium.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

/* Written once before threads start. */
static struct {
    unsigned long long iterations;
    size_t memory_bytes;
    int64_t wait_ms;
    char dummy[PASSWORD_PHC_MAX];
} today;

_Static_assert(PASSWORD_PHC_MAX >= crypto_pwhash_STRBYTES,
               "a PHC string fits");

/* -- stored strings -- */

#define PHC_PART_MAX 96 /* bytes that PASSWORD_PHC_MAX characters hold */
#define SALT_MIN 8
#define HASH_MIN 16

struct phc {
    unsigned long memory_kib, iterations, lanes;
    unsigned char salt[PHC_PART_MAX], hash[PHC_PART_MAX];
    size_t salt_len, hash_len;
};

/* Reads base64 at *p and the character after it. */
static bool read_bytes(const char **p, char after, size_t min,
                       unsigned char bytes[PHC_PART_MAX], size_t *len)
{
    const char *end;

    if (sodium_base642bin(bytes, PHC_PART_MAX, *p, strlen(*p), NULL, len, &end,
                          sodium_base64_VARIANT_ORIGINAL_NO_PADDING) != 0 ||
        *end != after || *len < min) {
        return false;
    }
    *p = end + 1;
    return true;
}

/* False for anything but an Argon2id string that can be computed, within
 * PASSWORD_MOST_*. */
static bool parse(const char *text, struct phc *phc)
{
    static const char format[] = "$argon2id$v=19$m=%lu,t=%lu,p=%lu$";
    char again[PASSWORD_PHC_MAX];
    const char *p = text;

    if (sscanf(text, format, &phc->memory_kib, &phc->iterations,
               &phc->lanes) != 3) {
        return false;
    }
    /* Only one text of these numbers is good: no signs, blanks or zeros. */
    p += snprintf(again, sizeof(again), format, phc->memory_kib,
                  phc->iterations, phc->lanes);
    return strncmp(text, again, (size_t) (p - text)) == 0 &&
           read_bytes(&p, '$', SALT_MIN, phc->salt, &phc->salt_len) &&
           read_bytes(&p, '\0', HASH_MIN, phc->hash, &phc->hash_len) &&
           phc->memory_kib <= PASSWORD_MOST_MEMORY_KIB &&
           phc->iterations >= 1 &&
           phc->iterations <= PASSWORD_MOST_ITERATIONS && phc->lanes >= 1 &&
           phc->lanes <= phc->memory_kib / 8;
}

bool password_needs_rehash(const char *text)
{
    struct phc phc;

    return !parse(text, &phc) || phc.memory_kib < today.memory_bytes / 1024 ||
           phc.iterations < today.iterations;
}

/* -- hashing -- */

/* One computation: makes out, or compares with stored, which is text. */
struct computation {
    const void *credential;
    size_t len;
    const struct phc *stored;
    const char *text;
    char *out;
    int64_t started_us;
    enum password_result result; /* PASSWORD_BUSY: there was no memory */
};

/*
 * libsodium's own comparison tells a lack of memory as a mismatch, which
 * would be counted as a failed login.  So what libsodium made is computed
 * here; only strings of other makers, which crypto_pwhash() cannot compute,
 * are left to it, while there is as much memory as they take.
 */
static enum password_result compare(const struct computation *c)
{
    const struct phc *phc = c->stored;
    unsigned char hash[PHC_PART_MAX];
    size_t memory = (size_t) phc->memory_kib * 1024;
    void *room;
    bool same;

    if (phc->lanes != 1 || phc->salt_len != crypto_pwhash_SALTBYTES) {
        room = mmap(NULL, memory, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (room == MAP_FAILED) {
            return PASSWORD_BUSY;
        }
        (void) munmap(room, memory);
        same = crypto_pwhash_str_verify(c->text, c->credential, c->len) == 0;
    } else if (crypto_pwhash(hash, phc->hash_len, c->credential, c->len,
                             phc->salt, phc->iterations, memory,
                             crypto_pwhash_ALG_ARGON2ID13) != 0) {
        return PASSWORD_BUSY;
    } else {
        same = sodium_memcmp(hash, phc->hash, phc->hash_len) == 0;
        sodium_memzero(hash, sizeof(hash));
    }
    return same ? PASSWORD_OK : PASSWORD_WRONG;
}

static void compute(void *arg)
{
    struct computation *c = arg;
    uint64_t work = today.memory_bytes / 1024 * today.iterations;
    bool made;

    c->started_us = metrics_now_us();
    if (c->stored != NULL) {
        work = (uint64_t) c->stored->memory_kib * c->stored->iterations;
        c->result = compare(c);
    } else {
        made = crypto_pwhash_str_alg(c->out, c->credential, c->len,
                                     today.iterations, today.memory_bytes,
                                     crypto_pwhash_ALG_ARGON2ID13) == 0;
        c->result = made ? PASSWORD_OK : PASSWORD_BUSY;
    }
    metrics_time(METRICS_HASH, metrics_now_us() - c->started_us);
    metrics_add(METRICS_HASH_WORK, work);
}

/* Computes where there is room for it, in time. */
static enum password_result run(struct computation *c, int64_t deadline_ms)
{
    int64_t asked_us = metrics_now_us();
    int64_t until_ms = asked_us / 1000 + today.wait_ms;

    if (deadline_ms > 0 && deadline_ms < until_ms) {
        until_ms = deadline_ms;
    }
    c->result = PASSWORD_BUSY;
    if (!hasher_run(HASHER_HASH, until_ms, compute, c)) {
        c->started_us = metrics_now_us();
    }
    metrics_time(METRICS_HASH_WAIT, c->started_us - asked_us);
    return c->result;
}

bool password_setup(const struct config *cfg)
{
    unsigned char nobody_knows[32];
    struct computation c = {.credential = nobody_knows,
                            .len = sizeof(nobody_knows),
                            .out = today.dummy};

    if (sodium_init() < 0) {
        return false;
    }
    today.iterations = (unsigned long long) cfg->argon2_iterations;
    today.memory_bytes = (size_t) cfg->argon2_memory_kib * 1024;
    randombytes_buf(nobody_knows, sizeof(nobody_knows));
    compute(&c);
    sodium_memzero(nobody_knows, sizeof(nobody_knows));
    return c.result == PASSWORD_OK;
}

bool password_start(const struct config *cfg, int64_t wait_ms)
{
    int places = cfg->worker_threads > 1 ? cfg->worker_threads / 2 : 1;

    today.wait_ms = wait_ms;
    return hasher_start(HASHER_HASH, cfg->hash_concurrency, places) &&
           hasher_start(HASHER_SIGN, cfg->hash_concurrency,
                        cfg->worker_threads);
}

enum password_result password_verify(const char *text, pj_str_t credential,
                                     int64_t deadline_ms)
{
    struct phc stored;
    struct computation c = {.credential = credential.data,
                            .len = credential.len,
                            .stored = &stored,
                            .text = text};
    bool usable = text != NULL && parse(text, &stored);

    if ((!usable && !parse(today.dummy, &stored)) ||
        run(&c, deadline_ms) == PASSWORD_BUSY) {
        return PASSWORD_BUSY;
    }
    if (usable) {
        return c.result;
    }
    return text != NULL ? PASSWORD_UNUSABLE : PASSWORD_WRONG;
}

bool password_hash(pj_str_t credential, int64_t deadline_ms,
                   char out[PASSWORD_PHC_MAX])
{
    struct computation c = {
        .credential = credential.data, .len = credential.len, .out = out};

    return run(&c, deadline_ms) == PASSWORD_OK;
}
