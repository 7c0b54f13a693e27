/* Work to be done while an answer is on its way. */

#pragma once

#include <stdbool.h>
#include <stddef.h>

/* Run at most once, in the caller's own thread, between sending a question and
 * waiting for its answer; not run at all where nothing was sent. */
struct meanwhile {
    void (*run)(void *arg);
    void *arg;
};

/* Runs m, if there is one and it was not run before. */
static inline void meanwhile_run(struct meanwhile *m)
{
    void (*run)(void *arg) = m != NULL ? m->run : NULL;

    if (run != NULL) {
        m->run = NULL;
        run(m->arg);
    }
}
