/* The end of an enrolment: a factor begins to count. */

#pragma once

#include "auth/owner.h"

struct enrolment {
    struct owner *owner;
    /* Makes the factor count, in a transaction, and locks the account's row
     * first.  STORE_NONE if it cannot. */
    enum store_result (*add)(struct worker *w, void *state);
    /* Refuses what add() did not do. */
    bool (*refuse)(struct worker *w, void *state);
    void *state;
    const char *factor_id;
    unsigned amr; /* what the enrolment shows of its person */
    int status;   /* of the answer in a session */
    const char *code, *message;
};

/* Makes the factor count and, if it is the account's first, recovery codes.
 * Authenticates the session by it or, at a login, opens one.  Answers or
 * refuses. */
void enrolment_finish(struct worker *w, const struct enrolment *e);
