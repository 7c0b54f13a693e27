/* Credentials: what matches, what is refused, and how many at once. */

#include "auth/hasher.h"
#include "auth/password.h"
#include "base/metrics.h"
#include "memory_limit.h"
#include "metric.h"
#include "testing.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CREDENTIAL PJ_STR("Demo-passw0rd!")

static int64_t wait_ms = PASSWORD_WAIT_MS;
static _Thread_local char fresh[PASSWORD_PHC_MAX]; /* of the last verify() */

static enum password_result verify(const char *text, pj_str_t credential,
                                   int64_t deadline_ms)
{
    memset(fresh, 'x', sizeof(fresh));
    return password_verify(text, credential, deadline_ms, fresh);
}

/* The cheapest that Argon2id allows, so that tests are quick. */
static void setup(int slots, int workers, int64_t memory_kib)
{
    struct config cfg = {.hash_concurrency = slots,
                         .worker_threads = workers,
                         .argon2_memory_kib = memory_kib,
                         .argon2_iterations = 1};

    ck_assert(password_setup(&cfg));
    hasher_stop();
    ck_assert(password_start(&cfg, wait_ms));
}

TEST (test_right_and_wrong) {
    char phc[PASSWORD_PHC_MAX];

    setup(1, 2, 8);
    ck_assert(password_hash(CREDENTIAL, 0, phc));
    ck_assert_int_eq(strncmp(phc, "$argon2id$v=19$m=8,t=1,p=1$", 27), 0);
    ck_assert_int_eq(verify(phc, CREDENTIAL, 0), PASSWORD_OK);
    ck_assert_int_eq(verify(phc, PJ_STR("demo-passw0rd!"), 0), PASSWORD_WRONG);
    ck_assert_int_eq(verify(phc, PJ_STR("Demo-passw0rd!!"), 0), PASSWORD_WRONG);
}

TEST (test_bytes_are_taken_as_sent) {
    pj_str_t odd = PJ_STR("a\xff\x01z");
    char phc[PASSWORD_PHC_MAX];

    setup(1, 2, 8);
    ck_assert(password_hash(odd, 0, phc));
    ck_assert_int_eq(verify(phc, odd, 0), PASSWORD_OK);
    ck_assert_int_eq(verify(phc, PJ_STR("a"), 0), PASSWORD_WRONG);
}

TEST (test_unknown_account_costs_one_hash) {
    char phc[PASSWORD_PHC_MAX];
    uint64_t before;

    setup(1, 2, 8);
    ck_assert(password_hash(CREDENTIAL, 0, phc));
    before = metric("identity_hash_duration_seconds_count");
    ck_assert_int_eq(verify(NULL, CREDENTIAL, 0), PASSWORD_WRONG);
    ck_assert_uint_eq(metric("identity_hash_duration_seconds_count"),
                      before + 1);
    ck_assert_int_eq(verify(phc, CREDENTIAL, 0), PASSWORD_OK);
    ck_assert_uint_eq(metric("identity_hash_duration_seconds_count"),
                      before + 2);
}

#define SALT "AAAAAAAAAAAAAAAAAAAAAA"
#define HASH "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"

#define BCRYPT "abcdefghijklmnopqrstuutXcce4lTwggum255gOggX8NHFIbGWLW"
#define SHA256 "obtu21JInPvPbDBx8cnhKrldxGv.t9EQccRXnZJWyj6"
#define SHA512                                                                 \
    "Ur3jdgk5gLRP0Lw85i/ahrkiMFHqVxGe6SDFOg7hn5fPxJAPgN2HN3E3F7YjUQDKhDRcL4m"  \
    "rWOar3efvy6HB40"

static const char *const unusable[] = {
    "$argon2id$v=19$m=262145,t=2,p=1$" SALT "$" HASH,
    "$argon2id$v=19$m=19456,t=11,p=1$" SALT "$" HASH,
    "$argon2d$v=19$m=19456,t=2,p=1$" SALT "$" HASH,
    "$argon2$v=19$m=19456,t=2,p=1$" SALT "$" HASH,
    "$argon2i$v=19$m=262145,t=3,p=1$" SALT "$" HASH,
    "$argon2i$v=19$m=64,t=11,p=1$" SALT "$" HASH,
    "$argon2ii$v=19$m=64,t=3,p=1$" SALT "$" HASH,
    "$argon2id$v=16$m=19456,t=2,p=1$" SALT "$" HASH,
    "$argon2id$v=19$m=99999999999999999999,t=2,p=1$" SALT "$" HASH,
    "$argon2id$v=19$m=,t=2,p=1$" SALT "$" HASH,
    "$argon2id$v=19$m=-1,t=2,p=1$" SALT "$" HASH,
    "$argon2id$v=19$m=008,t=2,p=1$" SALT "$" HASH,
    "$argon2id$v=19$m=8,t=0,p=1$" SALT "$" HASH,
    "$argon2id$v=19$m=8,t=1,p=0$" SALT "$" HASH,
    "$argon2id$v=19$m=7,t=1,p=1$" SALT "$" HASH,
    "$argon2id$v=19$m=15,t=1,p=2$" SALT "$" HASH,
    "$argon2id$v=19$m=8,t=1,p=1$$" HASH,
    "$argon2id$v=19$m=8,t=1,p=1$AAAAAAAAA$" HASH,
    "$argon2id$v=19$m=8,t=1,p=1$" SALT "=$" HASH,
    "$argon2id$v=19$m=8,t=1,p=1$" SALT "-$" HASH,
    "$argon2id$v=19$m=8,t=1,p=1$" SALT, "$argon2id$v=19$m=8,t=1,p=1$" SALT "$",
    "$argon2id$v=19$m=8,t=1,p=1$" SALT "$AAAA",
    "$argon2id$v=19$m=8,t=1,p=1$" SALT "$" HASH "=",
    "$argon2id$v=19$m=8,t=1,p=1$" SALT "$" HASH " ",
    "$argon2id$v=19$m=8,t=1,p=1$" SALT "$" HASH "$x",
    "$argon2id$v=19$m=8,t=1,p=1", "$argon2id$", "$2b$12$abcdefghijklmnopqrstuv",
    /* Dearer than a login may be. */
    "$2b$15$" BCRYPT, "$2b$31$" BCRYPT, "$5$rounds=1000001$saltstring$" SHA256,
    "$6$rounds=999999999$saltstring$" SHA512,
    "$pbkdf2-sha256$i=2000001,l=32$" SALT "$" HASH,
    "$pbkdf2-sha256$2000001$" SALT "$" HASH,
    /* Not of their form. */
    "$2b$03$" BCRYPT, "$2b$32$" BCRYPT, "$2b$4$" BCRYPT, "$2x$04$" BCRYPT,
    "$2$04$" BCRYPT,
    "$2b$04$abcdefghijklmnopqrstuvtXcce4lTwggum255gOggX8NHFIbGWLW",
    "$2b$04$" BCRYPT "a", "$2b$04$abcdefghijklmnopqrstuu", "$5$$" SHA256,
    "$5$saltstring$" SHA512, "$5$saltsaltsaltsalts$" SHA256,
    "$5$salt:string$" SHA256, "$5$rounds=999$saltstring$" SHA256,
    "$5$rounds=05000$saltstring$" SHA256, "$5$rounds=$saltstring$" SHA256,
    "$5$rounds=5000$" SHA256, "$5$saltstring", "$6$saltstring$" SHA256,
    "$6$saltstring$" SHA512 "$", "$6$", "$1$saltstring$abcdefghijklmnopqrstuu",
    "$7$saltstring$" SHA256, "$pbkdf2-sha256$i=0,l=32$" SALT "$" HASH,
    "$pbkdf2-sha256$i=-1,l=32$" SALT "$" HASH,
    "$pbkdf2-sha256$i=01000,l=32$" SALT "$" HASH,
    "$pbkdf2-sha256$i=99999999999999999999,l=32$" SALT "$" HASH,
    "$pbkdf2-sha256$i=1000,l=31$" SALT "$" HASH,
    "$pbkdf2-sha256$i=1000$" SALT "$" HASH,
    "$pbkdf2-sha256$i=1000,l=32$AAAA$" HASH,
    "$pbkdf2-sha256$i=1000,l=32$" SALT "$" HASH HASH,
    "$pbkdf2-sha256$i=1000,l=32$....AAAAAAA$" HASH,
    "$pbkdf2-sha256$1000$" SALT "$" HASH "=",
    "$pbkdf2-sha256$1000$" SALT "$AAAA", "$pbkdf2-sha256$1000$" SALT "$",
    "$pbkdf2-sha256$1000$" SALT, "$pbkdf2-sha1$1000$" SALT "$" HASH, "plain",
    ""};

/* Each is told apart, and costs what any credential does: one hash. */
TEST (test_stored_strings_that_are_none) {
    uint64_t hashes, cost;

    setup(1, 2, 16);
    for (size_t i = 0; i < sizeof(unusable) / sizeof(unusable[0]); i++) {
        hashes = metric("identity_hash_duration_seconds_count");
        cost = metric("identity_hash_work_total");
        ck_assert_msg(verify(unusable[i], CREDENTIAL, 0) == PASSWORD_UNUSABLE,
                      "%s", unusable[i]);
        ck_assert_uint_eq(metric("identity_hash_duration_seconds_count"),
                          hashes + 1);
        ck_assert_uint_eq(metric("identity_hash_work_total"), cost + 16);
    }
    ck_assert_int_eq(
        verify("$argon2id$v=19$m=262144,t=1,p=1$" SALT "$" HASH, CREDENTIAL, 0),
        PASSWORD_WRONG);
    ck_assert_int_eq(
        verify("$argon2id$v=19$m=8,t=10,p=1$" SALT "$" HASH, CREDENTIAL, 0),
        PASSWORD_WRONG);
}

/* Made by others: of several lanes, or with another length of salt. */
TEST (test_strings_of_other_makers) {
    static const char *const others[] = {
        "$argon2id$v=19$m=64,t=3,p=4$c2FsdHNhbHRzYWx0c2FsdA$"
        "4LJ3w+CrtOcn8xK/C31sO+fTu7YoOkt+fABdOMIO6PI",
        "$argon2id$v=19$m=64,t=2,p=1$c2FsdHNhbHQ$"
        "k4tcpTySmeIwY3dFOgjO2s7he+SlC2gZbQPcX7U4bIY"};
    uint64_t cost;

    setup(1, 2, 8);
    for (size_t i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
        cost = metric("identity_hash_work_total");
        ck_assert_int_eq(verify(others[i], CREDENTIAL, 0), PASSWORD_OK);
        ck_assert_uint_eq(metric("identity_hash_work_total"),
                          cost + (i == 0 ? 64 * 3 : 64 * 2));
        ck_assert_int_eq(verify(others[i], PJ_STR("x"), 0), PASSWORD_WRONG);
    }
}

/* Nobody has been asked then, so nobody was wrong. */
TEST (test_no_memory_is_no_verdict) {
    char phc[PASSWORD_PHC_MAX], other[PASSWORD_PHC_MAX];
    struct hasher_use use;

    setup(1, 2, 256 * 1024);
    ck_assert(password_hash(CREDENTIAL, 0, phc));
    if (!memory_limit(64)) {
        return;
    }
    ck_assert_int_eq(verify(phc, CREDENTIAL, 0), PASSWORD_BUSY);
    /* Of other makers, too. */
    ck_assert_int_eq(
        verify("$argon2id$v=19$m=262144,t=1,p=4$" SALT "$" HASH, CREDENTIAL, 0),
        PASSWORD_BUSY);
    ck_assert_int_eq(verify(phc, PJ_STR("x"), 0), PASSWORD_BUSY);
    ck_assert_int_eq(verify(NULL, CREDENTIAL, 0), PASSWORD_BUSY);
    /* A malformed or truncated hash costs as much as a valid one. */
    ck_assert_int_eq(verify("plain", CREDENTIAL, 0), PASSWORD_BUSY);
    phc[strlen(phc) - 30] = '\0';
    ck_assert_int_eq(verify(phc, CREDENTIAL, 0), PASSWORD_BUSY);
    ck_assert_int_eq(verify("$argon2id$v=19$m=8,t=1,p=1$" SALT, CREDENTIAL, 0),
                     PASSWORD_BUSY);
    ck_assert(!password_hash(CREDENTIAL, 0, other));
    memory_limit(0);
    ck_assert(password_hash(CREDENTIAL, 0, phc));
    ck_assert_int_eq(verify(phc, CREDENTIAL, 0), PASSWORD_OK);
    ck_assert_int_eq(verify(phc, PJ_STR("x"), 0), PASSWORD_WRONG);
    use = hasher_use(HASHER_HASH);
    ck_assert_int_eq(use.running, 0);
}

static const struct {
    const char *stored;
    unsigned work;
    const char *credential; /* NULL: CREDENTIAL */
} foreign[] = {
    {"$argon2i$v=19$m=64,t=3,p=1$c2FsdHNhbHRzYWx0c2FsdA$"
     "+a2eacQOvrwYY35S4R+hoFVVknnNnvszlEbwtruVIs4",
     64 * 3, NULL},
    {"$argon2i$v=19$m=64,t=1,p=1$c2FsdHNhbHRzYWx0c2FsdA$"
     "kg3Cts6oOBHoQBNIXhZ1pLIet+FoT7cG2f/rSQ1LuHw",
     64 * 1, NULL},
    {"$argon2i$v=19$m=64,t=2,p=4$c2FsdHNhbHRzYWx0c2FsdA$"
     "rUVs0bntAweALWppw+xhsm3fz7iQ7kJiOmyfnGowa2M",
     64 * 2, NULL},
    {"$2a$04$" BCRYPT, 16, NULL},
    {"$2b$04$" BCRYPT, 16, NULL},
    {"$2y$05$abcdefghijklmnopqrstuu39qbEByStaJf04invOLfp7RORHVsBwq", 32, NULL},
    {"$2a$05$CCCCCCCCCCCCCCCCCCCCC.E5YPO9kmyuRGyh0XouQYb4YMJKvyOeW", 32, "U*U"},
    {"$5$saltstring$" SHA256, 5000, NULL},
    {"$5$rounds=1234$saltstring$"
     "jiBmSTz2QPhiDj9o6kZTUahog8fxZN8n8pCw5PFsw9C",
     1234, NULL},
    {"$5$saltstring$5B8vYYiY.CVt1RlTTf8KbXBH3hsxY/GNooZaBBGWEc5", 5000,
     "Hello world!"},
    {"$6$saltstring$" SHA512, 5000, NULL},
    {"$6$rounds=1000$saltstring$00HxNia5AaX509XayeL/T5IlndMmco9USqnSLhBZ1D"
     "HAtYD.2WdYHlKG1dQQMPHIoGvxnYSFTJiSgFdGsVtVG0",
     1000, NULL},
    {"$pbkdf2-sha256$i=1000,l=32$++++++++c2FsdHNhbHQ$"
     "3yxC+v9uctp5l1kNN6ZHUD0nA6D4VR/gmF3SdDUNx2M",
     1000, NULL},
    {"$pbkdf2-sha256$1000$........c2FsdHNhbHQ$"
     "3yxC.v9uctp5l1kNN6ZHUD0nA6D4VR/gmF3SdDUNx2M",
     1000, NULL},
    {"$pbkdf2-sha256$i=2,l=16$c2FsdHNhbHQ$Uo6iM94iCIVGnGjW3oDIhQ", 2, NULL},
    {"$pbkdf2-sha256$6400$0ZrzXitFSGltTQnBWOsdAw$"
     "Y11AchqV4b0sUisdZd0Xr97KWoymNE0LNNrnEgY4H9M",
     6400, "password"}};

/* Hashes of other systems: their cost is counted, and a hash with the current
 * parameters is computed too, whatever the result. */
TEST (test_foreign_forms) {
    setup(1, 2, 32);
    for (size_t i = 0; i < sizeof(foreign) / sizeof(foreign[0]); i++) {
        const char *stored = foreign[i].stored;
        pj_str_t right = CREDENTIAL;
        char other[PASSWORD_STORED_MAX], made[PASSWORD_PHC_MAX];
        uint64_t hashes = metric("identity_hash_duration_seconds_count");
        uint64_t cost = metric("identity_hash_work_total");

        if (foreign[i].credential != NULL) {
            right = (pj_str_t){(const void *) foreign[i].credential,
                               strlen(foreign[i].credential)};
        }
        ck_assert_msg(verify(stored, right, 0) == PASSWORD_OK, "%s", stored);
        memcpy(made, fresh, sizeof(made));
        ck_assert_int_eq(verify(made, right, 0), PASSWORD_OK);
        ck_assert_str_eq(fresh, "");
        ck_assert_uint_eq(metric("identity_hash_duration_seconds_count"),
                          hashes + 3);
        ck_assert_uint_eq(metric("identity_hash_work_total"),
                          cost + foreign[i].work + 32 + 32);

        right.len--;
        ck_assert_msg(verify(stored, right, 0) == PASSWORD_WRONG, "%s", stored);
        ck_assert_str_eq(fresh, "");
        ck_assert_uint_eq(metric("identity_hash_work_total"),
                          cost + 2 * foreign[i].work + 3 * 32);
        right.len++;

        /* Changes a letter of the hash, then of the salt. */
        for (int of_salt = 0; of_salt < 2; of_salt++) {
            char *at = other + strlen(stored) - 9;

            snprintf(other, sizeof(other), "%s", stored);
            if (of_salt) {
                at = strrchr(other, '$') + (stored[1] == '2' ? 3 : -3);
            }
            *at = *at == 'z' ? 'y' : 'z';
            ck_assert_msg(verify(other, right, 0) == PASSWORD_WRONG, "%s",
                          other);
        }
        snprintf(other, sizeof(other), "%.*s", (int) strlen(stored) - 1,
                 stored);
        ck_assert_msg(verify(other, right, 0) != PASSWORD_OK, "%s", other);
    }
}

__attribute__((noinline)) static void leave(void)
{
    volatile unsigned char copy[64];

    for (size_t i = 0; i < CREDENTIAL.len; i++) {
        copy[i] = CREDENTIAL.data[i];
    }
    (void) copy[0];
}

/* Below what the end of the thread writes over. */
static void *compute(void *stored)
{
    volatile unsigned char above[4096] = {0};

    if (stored == NULL) {
        leave();
    } else {
        ck_assert_int_eq(password_compare(stored, CREDENTIAL), PASSWORD_OK);
    }
    return above[0] != 0 ? stored : NULL;
}

/* Returns true if the credential is still on the stack of the comparison or, if
 * NULL, of the storage. */
static bool left_behind(struct stored *stored)
{
    static unsigned char stack[1024 * 1024] __attribute__((aligned(4096)));
    pthread_attr_t attr;
    pthread_t thread;

    memset(stack, 0, sizeof(stack));
    ck_assert_int_eq(pthread_attr_init(&attr), 0);
    ck_assert_int_eq(pthread_attr_setstack(&attr, stack, sizeof(stack)), 0);
    ck_assert_int_eq(pthread_create(&thread, &attr, compute, stored), 0);
    ck_assert_int_eq(pthread_join(thread, NULL), 0);
    return memmem(stack, sizeof(stack), CREDENTIAL.data, CREDENTIAL.len) !=
           NULL;
}

TEST (test_no_credential_stays_on_the_stack) {
    static const char *const texts[] = {
        "$2b$04$" BCRYPT, "$5$saltstring$" SHA256, "$6$saltstring$" SHA512,
        "$pbkdf2-sha256$i=2,l=16$c2FsdHNhbHQ$Uo6iM94iCIVGnGjW3oDIhQ"};
    struct stored stored;

    setup(1, 2, 8);
    ck_assert(left_behind(NULL));
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        ck_assert(password_parse(texts[i], &stored) == NULL);
        ck_assert_msg(!left_behind(&stored), "%s", texts[i]);
    }
}

/* crypt() takes no more than it is made for, and nobody's first half. */
TEST (test_credentials_that_crypt_does_not_take) {
    static unsigned char longest[1024];
    pj_str_t long_one = {longest, 128};
    char stored[PASSWORD_STORED_MAX];

    setup(1, 2, 8);
    memset(longest, 'x', sizeof(longest));
    ck_assert_int_eq(
        verify("$5$saltstring$" SHA256, PJ_STR("Demo-passw0rd!\0x"), 0),
        PASSWORD_WRONG);
    ck_assert_int_eq(verify("$2b$04$" BCRYPT, PJ_STR("Demo-passw0rd!\0x"), 0),
                     PASSWORD_WRONG);
    snprintf(stored, sizeof(stored), "%s",
             "$5$saltstring$uXZ.R10FAqbrJQY/uDOXbeEdxsjyb3RTawHjpALDoF8");
    ck_assert_int_eq(verify(stored, long_one, 0), PASSWORD_OK);
    long_one.len = 129;
    ck_assert_int_eq(verify(stored, long_one, 0), PASSWORD_WRONG);
    /* bcrypt looks at 72 bytes of however many. */
    snprintf(stored, sizeof(stored), "%s",
             "$2b$04$abcdefghijklmnopqrstuubzadhGtS2zEF.gu0yd0opP6cVzb.e0i");
    for (long_one.len = 72; long_one.len <= 1024; long_one.len += 56) {
        ck_assert_int_eq(password_verify(stored, long_one, 0, fresh),
                         PASSWORD_OK);
        /* So no other end becomes the only right one. */
        ck_assert_int_eq(fresh[0] != '\0', long_one.len == 72);
    }
    long_one.len = 71;
    ck_assert_int_eq(verify(stored, long_one, 0), PASSWORD_WRONG);
}

TEST (test_rehash_only_when_weaker) {
    static const struct {
        int64_t memory_kib;
        bool weaker;
    } now[] = {{15, false}, {16, false}, {17, true}};
    char phc[PASSWORD_PHC_MAX];

    setup(1, 2, 16);
    ck_assert(password_hash(CREDENTIAL, 0, phc));
    for (size_t i = 0; i < sizeof(now) / sizeof(now[0]); i++) {
        setup(1, 2, now[i].memory_kib);
        ck_assert_int_eq(verify(phc, PJ_STR("x"), 0), PASSWORD_WRONG);
        ck_assert_str_eq(fresh, "");
        ck_assert_int_eq(verify(phc, CREDENTIAL, 0), PASSWORD_OK);
        ck_assert_int_eq(fresh[0] != '\0', now[i].weaker);
        ck_assert_int_eq(strncmp(fresh, "$argon2id$v=19$m=17,t=1,p=1$", 27) ==
                             0,
                         now[i].weaker);
    }
}

struct caller {
    pthread_t thread;
    enum password_result result;
};

static void *run_verify(void *arg)
{
    struct caller *c = arg;

    c->result = verify(NULL, CREDENTIAL, 0);
    return NULL;
}

static int count(const struct caller *callers, int n,
                 enum password_result result)
{
    int found = 0;

    for (int i = 0; i < n; i++) {
        found += callers[i].result == result;
    }
    return found;
}

static void run_at_once(struct caller *callers, int n)
{
    for (int i = 0; i < n; i++) {
        ck_assert_int_eq(
            pthread_create(&callers[i].thread, NULL, run_verify, &callers[i]),
            0);
    }
    for (int i = 0; i < n; i++) {
        pthread_join(callers[i].thread, NULL);
    }
}

/* Of 8 workers, 4 may hash or wait; one more is told so at once, since it has
 * refreshes to serve. */
TEST (test_never_more_than_half_of_the_workers) {
    struct caller callers[8];

    wait_ms = 60000;
    setup(1, 8, 128 * 1024); /* long enough that they overlap */
    run_at_once(callers, 8);
    ck_assert_int_ge(count(callers, 8, PASSWORD_WRONG), 4);
    ck_assert_int_ge(count(callers, 8, PASSWORD_BUSY), 1);

    run_at_once(callers, 4); /* and all places were given back */
    ck_assert_int_eq(count(callers, 4, PASSWORD_WRONG), 4);
}

TEST (test_waiting_ends) {
    struct caller callers[3];

    /* One slot, and each hash takes many times longer than a wait may. */
    wait_ms = 5;
    setup(1, 6, 128 * 1024);
    run_at_once(callers, 3);
    ck_assert_int_ge(count(callers, 3, PASSWORD_WRONG), 1);
    ck_assert_int_ge(count(callers, 3, PASSWORD_BUSY), 1);

    wait_ms = 60000;
    setup(1, 6, 128 * 1024);
    run_at_once(callers, 3);
    ck_assert_int_eq(count(callers, 3, PASSWORD_WRONG), 3);
}

TEST (test_deadline_ends_the_wait) {
    struct caller first;
    int64_t now_ms = metrics_now_us() / 1000;

    /* One slot, held for long; the wait for it would be two seconds. */
    setup(1, 4, 256 * 1024);
    pthread_create(&first.thread, NULL, run_verify, &first);
    while (1) {
        struct hasher_use use;

        use = hasher_use(HASHER_HASH);
        if (use.running == 1) {
            break;
        }
        sched_yield();
    }
    ck_assert_int_eq(verify(NULL, CREDENTIAL, now_ms + 1), PASSWORD_BUSY);
    pthread_join(first.thread, NULL);
    ck_assert_int_eq(first.result, PASSWORD_WRONG);
    /* A deadline in the past is ignored if no wait is necessary. */
    ck_assert_int_eq(verify(NULL, CREDENTIAL, now_ms), PASSWORD_WRONG);
}

static void await_use(int running, int waiting)
{
    struct hasher_use use;

    do {
        sched_yield();
        use = hasher_use(HASHER_HASH);
    } while (use.running != running || use.waiting != waiting);
}

static atomic_int verified;

/* Verifies the credential; returns the result, or -1 without a free slot. */
static int verify_in_turn(void)
{
    return verify(NULL, CREDENTIAL, 0) == PASSWORD_WRONG
               ? atomic_fetch_add(&verified, 1)
               : -1;
}

static void *verify_once(void *arg)
{
    int *place = arg;

    *place = verify_in_turn();
    return NULL;
}

/* Without a pause. */
static void *verify_twice(void *arg)
{
    int *second = arg;

    return verify_in_turn() == 0 ? verify_once(second) : NULL;
}

TEST (test_who_waits_longest_is_next) {
    pthread_t greedy, patient[2];
    int second = -1, place[2];

    wait_ms = 60000;
    setup(1, 8, 128 * 1024);
    atomic_store(&verified, 0);
    pthread_create(&greedy, NULL, verify_twice, &second);
    await_use(1, 0);
    pthread_create(&patient[0], NULL, verify_once, &place[0]);
    await_use(1, 1);
    pthread_create(&patient[1], NULL, verify_once, &place[1]);
    await_use(1, 2);
    pthread_join(greedy, NULL);
    pthread_join(patient[0], NULL);
    pthread_join(patient[1], NULL);
    ck_assert_int_eq(place[0], 1);
    ck_assert_int_eq(place[1], 2);
    ck_assert_int_eq(second, 3);
}

int main(void)
{
    return run_case("password", NULL);
}
