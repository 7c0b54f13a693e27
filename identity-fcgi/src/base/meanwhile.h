/* Work to do while waiting for an answer. */

#pragma once

#include <stdbool.h>
#include <stddef.h>

/* A function to run at most once, in the calling thread, between sending a
 * request and waiting for its answer.  It is not run if nothing is sent. */
struct meanwhile {
    void (*run)(void *arg);
    void *arg;
};

/* Runs m unless it is NULL or was run before. */
static inline void meanwhile_run(struct meanwhile *m)
{
    void (*run)(void *arg) = m != NULL ? m->run : NULL;

    if (run != NULL) {
        m->run = NULL;
        run(m->arg);
    }
}
