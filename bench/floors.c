/*
 * Measures the unavoidable parts on this machine: signatures, their
 * verification, Argon2id; and jose/ when it verifies a token, or only parses
 * and checks it.
 *
 *   floors KEY.pem MILLISECONDS THREADS sign|verify|argon2id
 *   floors KEY.pem MILLISECONDS THREADS jose|parse TOKEN ISSUER
 *
 * prints the processor time of one operation in microseconds.
 */

#include "key.h"

#include <pthread.h>
#include <sodium.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define MAX_THREADS 256
#define MAX_TOKEN 4096
#define ARENA_BYTES 262144
#define TEXT_BYTES 800 /* between the signing inputs of the two tokens */

/* The defaults of the service. */
#define ARGON2_ITERATIONS 2
#define ARGON2_MEMORY_BYTES ((size_t) 19456 * 1024)

static const char credential[] = "a credential of 24 bytes";

struct thread {
    pthread_t id;
    struct key *key;
    pj_jws_t jws;
    pj_key_t *jose;
    struct signature sig;
    uint64_t count, cpu_ns;
    bool ok;
};

struct kind {
    const char *name;
    bool (*start)(struct thread *t);
    bool (*once)(struct thread *t);
};

static const char *key_path;
static pj_str_t token, issuer; /* for jose and parse */
static uint64_t length_ns;
static unsigned char text[TEXT_BYTES];
static char phc[crypto_pwhash_STRBYTES];
static pthread_barrier_t barrier;
static const struct kind *kind;

static uint64_t now_ns(clockid_t clock)
{
    struct timespec t;

    clock_gettime(clock, &t);
    return (uint64_t) t.tv_sec * 1000000000u + (uint64_t) t.tv_nsec;
}

static pj_str_t text_of(const char *s)
{
    return (pj_str_t){(const unsigned char *) s, strlen(s)};
}

/* -- operations -- */

static bool key_start(struct thread *t)
{
    t->key = key_new(key_path);
    return t->key != NULL && key_sign(t->key, text, sizeof(text), &t->sig);
}

static bool sign_once(struct thread *t)
{
    return key_sign(t->key, text, sizeof(text), &t->sig);
}

static bool verify_once(struct thread *t)
{
    return key_verify(t->key, text, sizeof(text), &t->sig);
}

static bool jose_start(struct thread *t)
{
    t->jose = key_jose(key_path, "any");
    if (t->jose == NULL || pj_jws_split(token, MAX_TOKEN, &t->jws) != PJ_OK)
        return false;
    t->jws.alg = pj_key_alg(t->jose);
    return true;
}

static bool jose_once(struct thread *t)
{
    return pj_jws_verify(&t->jws, t->jose) == PJ_OK;
}

/* All that the gateway does with a token, except to verify its signature. */
static bool parse_once(struct thread *t)
{
    static _Thread_local unsigned char bytes[ARENA_BYTES];
    const pj_policy_t policy = {.issuers = &issuer,
                                .issuer_count = 1,
                                .now_s = time(NULL),
                                .leeway_s = 30};
    pj_jws_header_t header;
    pj_claims_t claims;
    pj_arena_t arena;
    pj_jws_t jws;

    (void) t;
    pj_arena_init(&arena, bytes, sizeof(bytes));
    return pj_jws_split(token, MAX_TOKEN, &jws) == PJ_OK &&
           pj_jws_header(&arena, &jws, false, &header) == PJ_OK &&
           pj_claims_parse(&arena, &jws, &claims) == PJ_OK &&
           pj_claims_check(&claims, &policy) == PJ_OK;
}

static bool argon2_once(struct thread *t)
{
    (void) t;
    return crypto_pwhash_str_verify(phc, credential, sizeof(credential) - 1) ==
           0;
}

static const struct kind kinds[] = {
    {"sign", key_start, sign_once},    {"verify", key_start, verify_once},
    {"argon2id", NULL, argon2_once},   {"jose", jose_start, jose_once},
    {"parse", jose_start, parse_once},
};

/* -- threads -- */

/* One operation after another until the time is over. */
static void *work(void *arg)
{
    struct thread *t = arg;
    uint64_t end_ns, cpu;

    t->ok = (kind->start == NULL || kind->start(t)) && kind->once(t);
    pthread_barrier_wait(&barrier);
    end_ns = now_ns(CLOCK_MONOTONIC) + length_ns;
    cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);
    while (t->ok && now_ns(CLOCK_MONOTONIC) < end_ns) {
        t->ok = kind->once(t);
        t->count++;
    }
    t->cpu_ns = now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
    key_free(t->key);
    pj_key_free(t->jose);
    return NULL;
}

static int measure(int count)
{
    static struct thread threads[MAX_THREADS];
    uint64_t ops = 0, cpu_ns = 0;
    bool ok = true;

    pthread_barrier_init(&barrier, NULL, (unsigned) count + 1);
    for (int i = 0; i < count; i++) {
        if (pthread_create(&threads[i].id, NULL, work, &threads[i]) != 0) {
            perror("floors: pthread_create");
            return 1;
        }
    }
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < count; i++) {
        pthread_join(threads[i].id, NULL);
        ops += threads[i].count;
        cpu_ns += threads[i].cpu_ns;
        ok = ok && threads[i].ok;
    }
    if (!ok || ops == 0) {
        fprintf(stderr, "floors: %s failed\n", kind->name);
        return 1;
    }
    printf("%.4f\n", (double) cpu_ns / 1000 / (double) ops);
    return 0;
}

int main(int argc, char **argv)
{
    long ms, threads;

    if (argc != 5 && argc != 7) {
        fprintf(stderr, "usage: floors KEY.pem MILLISECONDS THREADS "
                        "sign|verify|argon2id|jose|parse [TOKEN ISSUER]\n");
        return 2;
    }
    for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
        kind = strcmp(kinds[i].name, argv[4]) == 0 ? &kinds[i] : kind;
    }
    ms = strtol(argv[2], NULL, 10);
    threads = strtol(argv[3], NULL, 10);
    if (kind == NULL || ms < 1 || threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "floors: a bad argument\n");
        return 2;
    }
    key_path = argv[1];
    if (argc == 7) {
        token = text_of(argv[5]);
        issuer = text_of(argv[6]);
    }
    length_ns = (uint64_t) ms * 1000000;
    memset(text, 'x', sizeof(text));
    if (sodium_init() < 0 ||
        crypto_pwhash_str_alg(phc, credential, sizeof(credential) - 1,
                              ARGON2_ITERATIONS, ARGON2_MEMORY_BYTES,
                              crypto_pwhash_ALG_ARGON2ID13) != 0) {
        fprintf(stderr, "floors: libsodium failed\n");
        return 1;
    }
    return measure((int) threads);
}
