/*
 * Threads of low priority for long computations.
 *
 * A thread that has lowered its priority cannot raise it again without
 * privileges, so workers pass computations to separate threads.
 */

#include "auth/hasher.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/queue.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* Niceness relative to other threads.  The weight is about a tenth: other
 * threads run first, but hashing still proceeds on a busy machine. */
#define NICENESS 10

/* A computation, on the stack of the waiting caller. */
struct job {
    void (*fn)(void *arg);
    void *arg;
    enum { WAITS, GRANTED, DONE } state;
    TAILQ_ENTRY(job) link;
};

/* The number of threads bounds memory; the number of places bounds the workers
 * that wait here instead of serving other requests. */
static struct lane {
    TAILQ_HEAD(, job) jobs; /* not started; granted ones first */
    pthread_t *threads;
    struct hasher_use use; /* threads is constant while the lane is in use */
} lanes[HASHER_LANES];

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool stop;

/* Grants free threads in the order of waiting.  Otherwise new callers could
 * overtake the same waiters until they time out. */
static void grant(struct lane *l)
{
    for (struct job *job = TAILQ_FIRST(&l->jobs);
         job != NULL && l->use.running < l->use.threads;
         job = TAILQ_NEXT(job, link)) {
        if (job->state == WAITS) {
            job->state = GRANTED;
            l->use.running++;
            l->use.waiting--;
        }
    }
    pthread_cond_broadcast(&changed);
}

static void *work(void *arg)
{
    struct lane *l = arg;
    id_t self = (id_t) gettid();

    /* If a sandbox forbids it, the threads run at normal priority. */
    (void) setpriority(PRIO_PROCESS, self,
                       getpriority(PRIO_PROCESS, self) + NICENESS);
    pthread_mutex_lock(&lock);
    while (!stop) {
        struct job *job = TAILQ_FIRST(&l->jobs);

        if (job == NULL || job->state == WAITS) {
            pthread_cond_wait(&changed, &lock);
            continue;
        }
        TAILQ_REMOVE(&l->jobs, job, link);
        pthread_mutex_unlock(&lock);
        job->fn(job->arg);
        pthread_mutex_lock(&lock);
        job->state = DONE;
        l->use.running--;
        grant(l);
    }
    pthread_mutex_unlock(&lock);
    return NULL;
}

bool hasher_start(enum hasher_lane lane, int threads, int places)
{
    struct lane *l = &lanes[lane];

    TAILQ_INIT(&l->jobs);
    l->use.places = places;
    l->threads = calloc((size_t) threads, sizeof(pthread_t));
    while (l->threads != NULL && l->use.threads < threads &&
           pthread_create(&l->threads[l->use.threads], NULL, work, l) == 0) {
        l->use.threads++;
    }
    return l->use.threads == threads;
}

bool hasher_run(enum hasher_lane lane, int64_t until_ms, void (*fn)(void *arg),
                void *arg)
{
    const struct timespec until = {(time_t) (until_ms / 1000),
                                   (long) (until_ms % 1000) * 1000000};
    struct lane *l = &lanes[lane];
    struct job job = {.fn = fn, .arg = arg};

    if (l->use.threads == 0) {
        fn(arg);
        return true;
    }
    pthread_mutex_lock(&lock);
    if (l->use.places > 0) {
        l->use.places--;
        l->use.waiting++;
        TAILQ_INSERT_TAIL(&l->jobs, &job, link);
        grant(l);
        while (job.state == WAITS &&
               pthread_cond_clockwait(&changed, &lock, CLOCK_MONOTONIC,
                                      &until) == 0) {
        }
        if (job.state == WAITS) {
            l->use.waiting--;
            TAILQ_REMOVE(&l->jobs, &job, link);
        }
        while (job.state == GRANTED) {
            pthread_cond_wait(&changed, &lock);
        }
        l->use.places++;
    }
    pthread_mutex_unlock(&lock);
    return job.state == DONE;
}

struct hasher_use hasher_use(enum hasher_lane lane)
{
    struct hasher_use use;

    pthread_mutex_lock(&lock);
    use = lanes[lane].use;
    pthread_mutex_unlock(&lock);
    return use;
}

void hasher_stop(void)
{
    pthread_mutex_lock(&lock);
    stop = true;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (struct lane *l = lanes; l < lanes + HASHER_LANES; l++) {
        for (int i = 0; i < l->use.threads; i++) {
            pthread_join(l->threads[i], NULL);
        }
        free(l->threads);
        *l = (struct lane){0};
    }
    stop = false;
}
