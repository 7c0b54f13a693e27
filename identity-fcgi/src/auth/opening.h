/* The end of a login: opens a session. */

#pragma once

#include "auth/auth.h"

struct opening {
    const struct account *account; /* as it was read */
    unsigned amr;                  /* bits of enum amr */
    const char *code, *message;    /* of the answer */
    /* Runs in the transaction that opens the session, unless NULL.  Its
     * STORE_NONE refuses the session.  use_first if it locks the account's row
     * itself before the rows of factors. */
    enum store_result (*use)(struct worker *w, void *state);
    bool use_first;
    void *state;
    const struct store_list *recovery_codes; /* for the answer, or NULL */
};

enum opened {
    OPENING_ENDED,   /* answered, or refused */
    OPENING_CHANGED, /* not answered: the account has changed since */
    OPENING_USED     /* not answered: STORE_NONE of use() */
};

/* Signs the tokens, opens the session, ends the oldest ones over the limit, and
 * answers. */
PJ_MUST_CHECK enum opened opening_run(struct worker *w,
                                      const struct opening *opening);
