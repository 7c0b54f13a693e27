/* The connections of the server: slots, states, the queue of requests. */

#ifndef CONNS_H_INCLUDED
#define CONNS_H_INCLUDED

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 *     WAITING --whole request--> QUEUED --taken--> BUSY --kept alive--+
 *        ^                                          |                 |
 *        +------------------------------------------|-----------------+
 *        +--timeout, end of file, garbage--> FREE <-+
 *
 * Only the poller touches a WAITING connection, only its worker a BUSY one;
 * changes of state are made under the lock.
 */
enum conn_state { CONN_FREE, CONN_WAITING, CONN_QUEUED, CONN_BUSY };

struct conn {
    int fd;
    enum conn_state state;
    bool served;   /* kept alive after a request: may be closed when idle */
    bool arriving; /* a request has begun to come */
    bool watched;  /* epoll knows it */
    uint32_t generation; /* tells events of an earlier user of the slot */
    uint32_t next;       /* in the free list or the queue */
    int64_t arrived_us;  /* when the request began to come */
    int64_t deadline_ms; /* WAITING: closed then; else the request's own */
    /* BUSY: when the worker's reading or writing has to be over; 0 while it
     * does neither.  The poller then shuts the socket down under it. */
    _Atomic int64_t io_deadline_ms;
};

#define NO_CONN UINT32_MAX

/* Where a worker without work waits; outlives all use of the conns. */
struct conns_seat {
    pthread_cond_t called;
    bool up; /* it was called */
    struct conns_seat *next;
};

struct conns {
    int epoll_fd;  /* watches every connection */
    uint32_t size; /* slots */
    int64_t idle_timeout_ms;

    pthread_mutex_t lock;    /* guards what follows */
    struct conns_seat *idle; /* a stack: the last to sit down is the warmest */
    struct conn *slots;
    uint32_t free_head;
    uint32_t queue_head, queue_tail;
    uint32_t open, in_queue, busy;
    bool draining; /* connections are not kept any more */
    bool stopping; /* conns_take() ends */
};

/* CLOCK_MONOTONIC in milliseconds. */
int64_t conns_now_ms(void);

/* size slots that epoll_fd watches; false when memory is short. */
bool conns_init(struct conns *cs, uint32_t size, int epoll_fd,
                int64_t idle_timeout_ms) __attribute__((warn_unused_result));

/* Frees the slots; all connections must be closed. */
void conns_free(struct conns *cs);

/* How many are open, and whether no slot is left. */
uint32_t conns_open_count(struct conns *cs);
bool conns_full(struct conns *cs);

/* How many requests wait for a worker, and how many have one. */
void conns_use(struct conns *cs, uint32_t *queued, uint32_t *busy);

/* A WAITING connection's request begins to come and has until deadline_ms. */
void conns_begin(struct conns *cs, uint32_t slot, int64_t deadline_ms);

/* Takes fd in as a WAITING connection to be closed at deadline_ms. */
uint32_t conns_add(struct conns *cs, int fd, int64_t deadline_ms);

/* From now on epoll tells of it, if it still is WAITING. */
void conns_watch(struct conns *cs, uint32_t slot);

/* The slot of epoll's user data if it still is that WAITING connection, else
 * NO_CONN. */
uint32_t conns_of_event(struct conns *cs, uint64_t data);

/* WAITING -> FREE. */
void conns_close(struct conns *cs, uint32_t slot);

/* WAITING -> FREE for the kept-alive one that has been idle longest; false
 * when none is idle. */
bool conns_evict_idle(struct conns *cs);

/* WAITING -> QUEUED. */
void conns_put(struct conns *cs, uint32_t slot);

void conns_seat_init(struct conns_seat *seat);
void conns_seat_free(struct conns_seat *seat);

/* QUEUED -> BUSY: waits, in its seat, for a request; NO_CONN when the server
 * stops. */
uint32_t conns_take(struct conns *cs, struct conns_seat *seat);

/* BUSY -> WAITING or FREE. */
void conns_give_back(struct conns *cs, uint32_t slot, bool keep);

/* Ends what is over its deadline. */
void conns_sweep(struct conns *cs);

/* Keeps none from now on: closes idle ones, gives those that have not sent
 * anything yet at most grace_ms. */
void conns_drain(struct conns *cs, int64_t grace_ms);

/* Makes every conns_take() return NO_CONN once the queue is empty. */
void conns_stop(struct conns *cs);

#endif
