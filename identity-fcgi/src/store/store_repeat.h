/* Calls with an idempotency key, kept for 24 hours. */

#pragma once

#include "store/model.h"

#define STORE_DIGEST 32 /* SHA-256 */

struct store_repeat {
    const char *client_id;
    unsigned char key[STORE_DIGEST];  /* digest of the key */
    unsigned char call[STORE_DIGEST]; /* digest of the call */
    /* The first answer. */
    int64_t status;
    const char *location;   /* or NULL */
    const char *body;       /* NULL if it had a secret, so was not kept */
    bool erased;            /* the call's object is deleted */
    const char *account_id; /* of the answer's account, or NULL */
};

enum store_repeat_state {
    STORE_REPEAT_FIRST,   /* not seen before */
    STORE_REPEAT_KEPT,    /* the answer is filled */
    STORE_REPEAT_OTHER,   /* the key was used for another call */
    STORE_REPEAT_RUNNING, /* another transaction is carrying it out */
    STORE_REPEAT_FAILED   /* the database failed */
};

/* Claims the key until the end of the transaction.  The answer is in the
 * arena. */
enum store_repeat_state store_repeat_claim(struct store *st, pj_arena_t *arena,
                                           struct store_repeat *repeat);

/* Keeps the answer, in the same transaction. */
enum store_result store_repeat_keep(struct store *st,
                                    const struct store_repeat *repeat);
