/*
 * Threads of low priority for long computations.
 *
 * A thread that has lowered its priority cannot raise it again without
 * privileges, so the worker that answers a request lends the computation to a
 * thread that is never in a hurry.
 */

#include "auth/hasher.h"

#include <pthread.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

/* Over that of other threads: with a tenth of their weight they go first, and
 * yet hashing goes on beside a machine full of them. */
#define NICENESS 10

struct job {
    void (*fn)(void *arg);
    void *arg;
    bool done;
    struct job *next;
};

static struct {
    pthread_mutex_t lock;
    pthread_cond_t offered, finished;
    struct job *first, **end;
    bool stop;
    pthread_t *threads;
    int count; /* written before and after all use */
} pool = {.lock = PTHREAD_MUTEX_INITIALIZER,
          .offered = PTHREAD_COND_INITIALIZER,
          .finished = PTHREAD_COND_INITIALIZER,
          .end = &pool.first};

static struct job *take(void)
{
    struct job *job;

    while (pool.first == NULL && !pool.stop) {
        pthread_cond_wait(&pool.offered, &pool.lock);
    }
    job = pool.first;
    if (job != NULL) {
        pool.first = job->next;
        if (pool.first == NULL) {
            pool.end = &pool.first;
        }
    }
    return job;
}

static void *work(void *arg)
{
    struct job *job;
    id_t self = (id_t) gettid();

    /* Where a sandbox forbids it they compete as equals. */
    (void) setpriority(PRIO_PROCESS, self,
                       getpriority(PRIO_PROCESS, self) + NICENESS);
    pthread_mutex_lock(&pool.lock);
    while ((job = take()) != NULL) {
        pthread_mutex_unlock(&pool.lock);
        job->fn(job->arg);
        pthread_mutex_lock(&pool.lock);
        job->done = true;
        pthread_cond_broadcast(&pool.finished);
    }
    pthread_mutex_unlock(&pool.lock);
    return arg;
}

bool hasher_start(int threads)
{
    pool.threads = calloc((size_t) threads, sizeof(pthread_t));
    while (pool.threads != NULL && pool.count < threads &&
           pthread_create(&pool.threads[pool.count], NULL, work, NULL) == 0) {
        pool.count++;
    }
    if (pool.count == threads) {
        return true;
    }
    hasher_stop();
    return false;
}

void hasher_run(void (*fn)(void *arg), void *arg)
{
    struct job job = {.fn = fn, .arg = arg};

    if (pool.count == 0) {
        fn(arg);
        return;
    }
    pthread_mutex_lock(&pool.lock);
    *pool.end = &job;
    pool.end = &job.next;
    pthread_cond_signal(&pool.offered);
    while (!job.done) {
        pthread_cond_wait(&pool.finished, &pool.lock);
    }
    pthread_mutex_unlock(&pool.lock);
}

void hasher_stop(void)
{
    pthread_mutex_lock(&pool.lock);
    pool.stop = true;
    pthread_cond_broadcast(&pool.offered);
    pthread_mutex_unlock(&pool.lock);
    for (int i = 0; i < pool.count; i++) {
        pthread_join(pool.threads[i], NULL);
    }
    free(pool.threads);
    pool.threads = NULL;
    pool.count = 0;
    pool.stop = false;
}
