/* The connections of the server: slots, states, the queue of requests. */

#ifndef CONNS_H_INCLUDED
#define CONNS_H_INCLUDED

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

/*
 *     new --> HELD --whole request--> BUSY --kept alive--+
 *             |  ^                    ^                  |
 *             |  +--input-- WAITING <-|--- not yet ------+
 *             |                       |
 *             +--no worker idle--> QUEUED
 *
 * and from HELD, BUSY and, at a timeout, WAITING to FREE.  A HELD or BUSY
 * connection is one thread's alone; changes of state are made under the lock.
 */
enum conn_state { CONN_FREE, CONN_WAITING, CONN_HELD, CONN_QUEUED, CONN_BUSY };

struct conn {
    int fd;
    enum conn_state state;
    bool served;   /* kept alive after a request: may be closed when idle */
    bool arriving; /* a request has begun to come */
    bool watched;  /* epoll knows it */
    bool missed;   /* an event came while it was not WAITING */
    uint32_t generation; /* tells events of an earlier user of the slot */
    uint32_t next;       /* in the free list or the queue */
    int64_t arrived_us;  /* when the request began to come */
    int64_t deadline_ms; /* WAITING: closed then; else the request's own */
    /* BUSY: when the worker's reading or writing has to be over; 0 while it
     * does neither.  The sweep then shuts the socket down under it. */
    _Atomic int64_t io_deadline_ms;
};

#define NO_CONN UINT32_MAX
#define CONNS_END (UINT32_MAX - 1) /* of conns_take(): the server stops */

/* epoll's user data for "look into the queue". */
#define CONNS_EVENT_NEWS (UINT64_MAX - 1)

struct conns {
    int epoll_fd;  /* watches every WAITING connection */
    int news_fd;   /* an eventfd; not zero: CONNS_EVENT_NEWS */
    uint32_t size; /* slots */
    int64_t idle_timeout_ms;
    _Atomic uint32_t idle; /* threads that wait in epoll_wait() */

    pthread_mutex_t lock; /* guards what follows */
    struct conn *slots;
    uint32_t free_head;
    uint32_t queue_head, queue_tail;
    uint32_t open, in_queue, busy;
    bool news;             /* what news_fd says */
    bool draining;         /* connections are not kept any more */
    int64_t drain_last_ms; /* and the last to send its first may until then */
    bool stopping;         /* conns_take() ends */
};

/* CLOCK_MONOTONIC in milliseconds. */
int64_t conns_now_ms(void);

/* size slots that epoll_fd watches; false when something is short. */
bool conns_init(struct conns *cs, uint32_t size, int epoll_fd,
                int64_t idle_timeout_ms) __attribute__((warn_unused_result));

/* Frees the slots; all connections must be closed. */
void conns_free(struct conns *cs);

/* How many are open. */
uint32_t conns_open_count(struct conns *cs);

/* How many requests wait for a worker, and how many have one. */
void conns_use(struct conns *cs, uint32_t *queued, uint32_t *busy);

/* A HELD connection's request begins to come and has until deadline_ms. */
void conns_begin(struct conns *cs, uint32_t slot, int64_t deadline_ms);

/* Whether a slot is free, if need be by closing the kept-alive connection
 * that has been idle longest. */
bool conns_make_room(struct conns *cs);

/* Takes fd in as a HELD connection that, once WAITING, is closed at
 * deadline_ms.  There must be room. */
uint32_t conns_add(struct conns *cs, int fd, int64_t deadline_ms);

/* WAITING -> HELD for the connection that epoll's user data names.  NO_CONN
 * where it is not WAITING: if it ever is again, epoll tells again. */
uint32_t conns_hold(struct conns *cs, uint64_t data);

/* HELD -> WAITING: epoll tells once, to one thread, that more has come.  FREE
 * when its deadline is over. */
void conns_wait(struct conns *cs, uint32_t slot);

/* HELD -> FREE. */
void conns_close(struct conns *cs, uint32_t slot);

/* HELD -> BUSY. */
void conns_serve(struct conns *cs, uint32_t slot);

/* HELD -> QUEUED, and news for those who are idle. */
void conns_put(struct conns *cs, uint32_t slot);

/*
 * QUEUED -> BUSY for the request that waits longest.  NO_CONN when there is
 * none: the caller then counts as idle, waits for an event and says that it is
 * back.  CONNS_END when there is none and the server stops.
 */
uint32_t conns_take(struct conns *cs);
void conns_back(struct conns *cs);

/* BUSY -> WAITING or FREE. */
void conns_give_back(struct conns *cs, uint32_t slot, bool keep);

/* Ends what is over its deadline. */
void conns_sweep(struct conns *cs);

/* Keeps none from now on: closes idle ones, gives those that have not sent
 * anything yet at most grace_ms. */
void conns_drain(struct conns *cs, int64_t grace_ms);

/* Makes every conns_take() return CONNS_END once the queue is empty. */
void conns_stop(struct conns *cs);

#endif
