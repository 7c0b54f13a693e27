/* Credentials, with bounded concurrency. */

#include "auth/password.h"

#include "base/metrics.h"

#include <sodium.h>

static struct {
    unsigned long long iterations;
    size_t memory_bytes;
    int64_t wait_ms;
    char dummy[PASSWORD_PHC_MAX];
} today;

_Static_assert(PASSWORD_PHC_MAX >= crypto_pwhash_STRBYTES,
               "a PHC string fits");

/* One computation: compares with stored, makes fresh, or both. */
struct computation {
    pj_str_t credential;
    const struct stored *stored; /* or NULL */
    char *fresh;                 /* or NULL */
    int64_t started_us;
    enum password_result result; /* PASSWORD_BUSY: there was no memory */
};

static void count(int64_t since_us, uint64_t work)
{
    metrics_time(METRICS_HASH, metrics_now_us() - since_us);
    metrics_add(METRICS_HASH_WORK, work);
}

static void compute(void *arg)
{
    struct computation *c = arg;
    const struct stored *s = c->stored;
    int64_t since_us = c->started_us = metrics_now_us();

    c->result = PASSWORD_OK;
    if (s != NULL) {
        c->result = stored_compare(s, c->credential);
        count(since_us,
              (s->memory_kib > 0 ? s->memory_kib : 1) * (uint64_t) s->rounds);
        since_us = metrics_now_us();
    }
    if (c->fresh != NULL) {
        if (crypto_pwhash_str_alg(c->fresh, (const char *) c->credential.data,
                                  c->credential.len, today.iterations,
                                  today.memory_bytes,
                                  crypto_pwhash_ALG_ARGON2ID13) != 0) {
            c->result = PASSWORD_BUSY;
        }
        count(since_us, today.memory_bytes / 1024 * today.iterations);
    }
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
    struct computation c = {.credential = {nobody_knows, sizeof(nobody_knows)},
                            .fresh = today.dummy};

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

const char *password_nobody(void)
{
    return today.dummy;
}

/* Anything but an Argon2id of at least today's cost is made anew. */
static bool is_weaker(const struct stored *s)
{
    return s->form != STORED_ARGON2ID ||
           s->memory_kib < today.memory_bytes / 1024 ||
           s->rounds < today.iterations;
}

enum password_result password_verify(const char *text, pj_str_t credential,
                                     int64_t deadline_ms,
                                     char fresh[PASSWORD_PHC_MAX])
{
    struct stored stored;
    struct computation c = {.credential = credential, .stored = &stored};
    bool usable = text != NULL && stored_parse(text, &stored) == NULL;
    enum password_result result = PASSWORD_BUSY;

    if (usable || stored_parse(today.dummy, &stored) == NULL) {
        c.fresh = is_weaker(&stored) ? fresh : NULL;
        result = run(&c, deadline_ms);
    }
    if (result != PASSWORD_OK || c.fresh == NULL) {
        sodium_memzero(fresh, PASSWORD_PHC_MAX);
    }
    if (usable || result == PASSWORD_BUSY) {
        return result;
    }
    return text != NULL ? PASSWORD_UNUSABLE : PASSWORD_WRONG;
}

bool password_hash(pj_str_t credential, int64_t deadline_ms,
                   char out[PASSWORD_PHC_MAX])
{
    struct computation c = {.credential = credential, .fresh = out};

    return run(&c, deadline_ms) == PASSWORD_OK;
}
