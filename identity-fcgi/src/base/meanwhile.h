/* Work to be done while an answer is on its way. */

#ifndef MEANWHILE_H_INCLUDED
#define MEANWHILE_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>

/*
 * Run at most once, in the caller's own thread, when a question has been sent
 * and before its answer is waited for; not run at all where nothing was sent.
 * A thread that has something to do then need not sleep and be woken up.
 */
struct meanwhile {
    void (*run)(void *arg);
    void *arg;
};

/* Runs m, if there is one and it was not run before; whether it did. */
static inline bool meanwhile_run(struct meanwhile *m)
{
    void (*run)(void *arg) = m != NULL ? m->run : NULL;

    if (run == NULL) {
        return false;
    }
    m->run = NULL;
    run(m->arg);
    return true;
}

#endif
