/* Argon2id credentials (libsodium), with bounded concurrency. */

#include "auth/password.h"

#include "auth/hasher.h"
#include "base/metrics.h"

#include <pthread.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One who waits, on the stack of its thread. */
struct waiter {
    pthread_cond_t granted;
    bool has_slot;
    struct waiter *next;
};

/*
 * Memory is bounded by slots; threads taken from other requests by places.
 * A slot that becomes free goes to the one who waits longest: left to whoever
 * asks first, newcomers would pass by the same few until those gave up.
 */
static struct {
    pthread_mutex_t lock;
    struct waiter *first, **end;
    int slots;     /* free now */
    int slots_all; /* free or not */
    int places;    /* for those who hash or wait, free now */
    int waiting;
    int64_t wait_ms;
} gate = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .end = &gate.first,
          .wait_ms = PASSWORD_WAIT_MS};

/* Written once before threads start. */
static struct {
    unsigned long long iterations;
    size_t memory_bytes;
    char dummy[PASSWORD_PHC_MAX];
} today;

static atomic_uint_fast64_t hashes;

_Static_assert(PASSWORD_PHC_MAX >= crypto_pwhash_STRBYTES,
               "a PHC string fits");

uint64_t password_count(void)
{
    return atomic_load(&hashes);
}

/* -- the gate -- */

void password_set_wait(int64_t wait_ms)
{
    pthread_mutex_lock(&gate.lock);
    gate.wait_ms = wait_ms;
    pthread_mutex_unlock(&gate.lock);
}

static struct timespec wait_end(int64_t deadline_ms)
{
    struct timespec t;
    int64_t until_ms;

    clock_gettime(CLOCK_MONOTONIC, &t);
    until_ms = (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000 + gate.wait_ms;
    if (deadline_ms > 0 && deadline_ms < until_ms) {
        until_ms = deadline_ms;
    }
    t.tv_sec = (time_t) (until_ms / 1000);
    t.tv_nsec = (long) (until_ms % 1000) * 1000000;
    return t;
}

static void queue_remove(const struct waiter *gone)
{
    struct waiter **at = &gate.first;

    while (*at != gone) {
        at = &(*at)->next;
    }
    *at = gone->next;
    if (*at == NULL) {
        gate.end = at;
    }
}

/* With the lock held: waits until a slot is handed over. */
static bool await_slot(int64_t deadline_ms)
{
    struct timespec until = wait_end(deadline_ms);
    struct waiter self = {.has_slot = false};
    pthread_condattr_t attr;

    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(&self.granted, &attr);
    pthread_condattr_destroy(&attr);

    *gate.end = &self;
    gate.end = &self.next;
    gate.waiting++;
    while (!self.has_slot &&
           pthread_cond_timedwait(&self.granted, &gate.lock, &until) == 0) {
    }
    gate.waiting--;
    if (!self.has_slot) {
        queue_remove(&self);
    }
    pthread_cond_destroy(&self.granted);
    return self.has_slot;
}

/* With the lock held: a free slot, or one to wait for. */
static bool take_slot(int64_t deadline_ms)
{
    if (gate.slots == 0) {
        return await_slot(deadline_ms);
    }
    gate.slots--;
    return true;
}

static bool enter(int64_t deadline_ms)
{
    int64_t started_us = metrics_now_us();
    bool ok = false;

    pthread_mutex_lock(&gate.lock);
    if (gate.places > 0) {
        gate.places--;
        ok = take_slot(deadline_ms);
        if (!ok) {
            gate.places++;
        }
    }
    pthread_mutex_unlock(&gate.lock);
    metrics_time(METRICS_HASH_WAIT, metrics_now_us() - started_us);
    return ok;
}

static void leave(void)
{
    struct waiter *next;

    pthread_mutex_lock(&gate.lock);
    gate.places++;
    next = gate.first;
    if (next == NULL) {
        gate.slots++;
    } else {
        queue_remove(next);
        next->has_slot = true;
        pthread_cond_signal(&next->granted);
    }
    pthread_mutex_unlock(&gate.lock);
}

void password_use(struct password_use *use)
{
    pthread_mutex_lock(&gate.lock);
    use->slots = gate.slots_all;
    use->running = gate.slots_all - gate.slots;
    use->waiting = gate.waiting;
    pthread_mutex_unlock(&gate.lock);
}

/* -- stored strings -- */

#define PHC_PART_MAX 96 /* bytes that PASSWORD_PHC_MAX characters hold */
#define SALT_MIN 8
#define HASH_MIN 16

struct phc {
    unsigned long memory_kib, iterations, lanes;
    unsigned char salt[PHC_PART_MAX], hash[PHC_PART_MAX];
    size_t salt_len, hash_len;
};

/* Reads "name=digits" at *p and the character after it. */
static bool read_param(const char **p, const char *name, char after,
                       unsigned long *value)
{
    size_t n = strlen(name);
    char *end;

    if (strncmp(*p, name, n) != 0 || (*p)[n] < '1' || (*p)[n] > '9') {
        return false;
    }
    *value = strtoul(*p + n, &end, 10);
    if (*end != after) {
        return false;
    }
    *p = end + 1;
    return true;
}

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
    static const char prefix[] = "$argon2id$v=19$";
    const char *p = text + sizeof(prefix) - 1;

    return strncmp(text, prefix, sizeof(prefix) - 1) == 0 &&
           read_param(&p, "m=", ',', &phc->memory_kib) &&
           read_param(&p, "t=", ',', &phc->iterations) &&
           read_param(&p, "p=", '$', &phc->lanes) &&
           read_bytes(&p, '$', SALT_MIN, phc->salt, &phc->salt_len) &&
           read_bytes(&p, '\0', HASH_MIN, phc->hash, &phc->hash_len) &&
           phc->memory_kib <= PASSWORD_MOST_MEMORY_KIB &&
           phc->iterations <= PASSWORD_MOST_ITERATIONS &&
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
    enum password_result result; /* PASSWORD_BUSY: there was no memory */
};

/*
 * libsodium's own comparison tells a lack of memory as a mismatch, which
 * would be counted as a failed login.  So what libsodium made is computed
 * here; only strings of other makers, which crypto_pwhash() cannot compute,
 * are left to it.
 */
static enum password_result compare(const struct computation *c)
{
    const struct phc *phc = c->stored;
    unsigned char hash[PHC_PART_MAX];
    bool same;

    if (phc->lanes != 1 || phc->salt_len != crypto_pwhash_SALTBYTES) {
        same = crypto_pwhash_str_verify(c->text, c->credential, c->len) == 0;
    } else if (crypto_pwhash(hash, phc->hash_len, c->credential, c->len,
                             phc->salt, phc->iterations,
                             (size_t) phc->memory_kib * 1024,
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
    int64_t started_us = metrics_now_us();
    uint64_t work;

    if (c->stored != NULL) {
        work = (uint64_t) c->stored->memory_kib * c->stored->iterations;
        c->result = compare(c);
    } else {
        work = today.memory_bytes / 1024 * today.iterations;
        c->result = crypto_pwhash_str_alg(c->out, c->credential, c->len,
                                          today.iterations, today.memory_bytes,
                                          crypto_pwhash_ALG_ARGON2ID13) == 0
                        ? PASSWORD_OK
                        : PASSWORD_BUSY;
    }
    atomic_fetch_add(&hashes, 1);
    metrics_time(METRICS_HASH, metrics_now_us() - started_us);
    metrics_add(METRICS_HASH_WORK, work);
}

static bool hash_now(const void *credential, size_t len,
                     char out[PASSWORD_PHC_MAX])
{
    struct computation c = {.credential = credential, .len = len, .out = out};

    hasher_run(compute, &c);
    return c.result == PASSWORD_OK;
}

bool password_setup(const struct config *cfg)
{
    unsigned char nobody_knows[32];
    bool ok;

    if (sodium_init() < 0) {
        return false;
    }

    gate.slots = cfg->hash_concurrency > 0 ? cfg->hash_concurrency : 1;
    gate.slots_all = gate.slots;
    gate.places = cfg->worker_threads > 1 ? cfg->worker_threads / 2 : 1;
    today.iterations = (unsigned long long) cfg->argon2_iterations;
    today.memory_bytes = (size_t) cfg->argon2_memory_kib * 1024;

    randombytes_buf(nobody_knows, sizeof(nobody_knows));
    ok = hash_now(nobody_knows, sizeof(nobody_knows), today.dummy);
    sodium_memzero(nobody_knows, sizeof(nobody_knows));
    return ok;
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

    if ((!usable && !parse(today.dummy, &stored)) || !enter(deadline_ms)) {
        return PASSWORD_BUSY;
    }
    hasher_run(compute, &c);
    leave();
    if (usable || c.result == PASSWORD_BUSY) {
        return c.result;
    }
    return text != NULL ? PASSWORD_UNUSABLE : PASSWORD_WRONG;
}

bool password_hash(pj_str_t credential, int64_t deadline_ms,
                   char out[PASSWORD_PHC_MAX])
{
    bool ok;

    if (!enter(deadline_ms)) {
        return false;
    }
    ok = hash_now(credential.data, credential.len, out);
    leave();
    return ok;
}
