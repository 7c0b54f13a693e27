/* The connections of the server: slots, states, the queue of requests. */

#include "conns.h"

#include "metrics.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

int64_t conns_now_ms(void)
{
    struct timespec ts;

    clock_gettime(CLOCK_MONOTONIC, &ts);
    return (int64_t) ts.tv_sec * 1000 + ts.tv_nsec / 1000000;
}

bool conns_init(struct conns *cs, uint32_t size, int epoll_fd,
                int64_t idle_timeout_ms)
{
    cs->epoll_fd = epoll_fd;
    cs->size = size;
    cs->idle_timeout_ms = idle_timeout_ms;
    cs->slots = calloc(size, sizeof(*cs->slots));
    if (cs->slots == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < size; i++) {
        cs->slots[i].fd = -1;
        cs->slots[i].next = i + 1 < size ? i + 1 : NO_CONN;
    }
    cs->free_head = 0;
    cs->queue_head = cs->queue_tail = NO_CONN;
    cs->open = cs->in_queue = cs->busy = 0;
    cs->draining = cs->stopping = false;
    cs->idle = NULL;
    return pthread_mutex_init(&cs->lock, NULL) == 0;
}

void conns_free(struct conns *cs)
{
    if (cs->slots != NULL) {
        pthread_mutex_destroy(&cs->lock);
        free(cs->slots);
        cs->slots = NULL;
    }
}

uint32_t conns_open_count(struct conns *cs)
{
    uint32_t n;

    pthread_mutex_lock(&cs->lock);
    n = cs->open;
    pthread_mutex_unlock(&cs->lock);
    return n;
}

bool conns_full(struct conns *cs)
{
    bool full;

    pthread_mutex_lock(&cs->lock);
    full = cs->free_head == NO_CONN;
    pthread_mutex_unlock(&cs->lock);
    return full;
}

void conns_use(struct conns *cs, uint32_t *queued, uint32_t *busy)
{
    pthread_mutex_lock(&cs->lock);
    *queued = cs->in_queue;
    *busy = cs->busy;
    pthread_mutex_unlock(&cs->lock);
}

void conns_begin(struct conns *cs, uint32_t slot, int64_t deadline_ms)
{
    struct conn *c = &cs->slots[slot];

    c->arriving = true;
    c->arrived_us = metrics_now_us();
    c->deadline_ms = deadline_ms;
}

/* Arms, or after a request re-arms, the wait for input.  Edge-triggered: a
 * request half arrived does not spin, and re-arming reports what is there. */
static bool watch(struct conns *cs, uint32_t slot)
{
    struct conn *c = &cs->slots[slot];
    int op = c->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET,
                             .data.u64 =
                                 (uint64_t) c->generation << 32 | slot};

    c->watched = true;
    return epoll_ctl(cs->epoll_fd, op, c->fd, &ev) == 0;
}

/* With the lock held; the descriptor is then the caller's to close, which ends
 * epoll's interest in it too. */
static int free_slot(struct conns *cs, uint32_t slot)
{
    struct conn *c = &cs->slots[slot];
    int fd = c->fd;

    c->fd = -1;
    c->state = CONN_FREE;
    /* Never so large that a slot's data equals a reserved value. */
    c->generation = (c->generation + 1) & 0x7fffffff;
    c->next = cs->free_head;
    cs->free_head = slot;
    cs->open--;
    return fd;
}

static void close_slot(struct conns *cs, uint32_t slot)
{
    close(free_slot(cs, slot));
}

uint32_t conns_add(struct conns *cs, int fd, int64_t deadline_ms)
{
    struct conn *c;
    uint32_t slot;

    pthread_mutex_lock(&cs->lock);
    slot = cs->free_head;
    c = &cs->slots[slot];
    cs->free_head = c->next;
    cs->open++;
    c->fd = fd;
    c->state = CONN_WAITING;
    c->served = false;
    c->arriving = false;
    c->watched = false;
    c->deadline_ms = deadline_ms;
    pthread_mutex_unlock(&cs->lock);
    return slot;
}

void conns_watch(struct conns *cs, uint32_t slot)
{
    const struct conn *c = &cs->slots[slot];

    pthread_mutex_lock(&cs->lock);
    if (c->state == CONN_WAITING && !c->watched && !watch(cs, slot)) {
        close_slot(cs, slot);
    }
    pthread_mutex_unlock(&cs->lock);
}

uint32_t conns_of_event(struct conns *cs, uint64_t data)
{
    uint32_t slot = (uint32_t) data;
    bool ours;

    pthread_mutex_lock(&cs->lock);
    ours = cs->slots[slot].state == CONN_WAITING &&
           cs->slots[slot].generation == (uint32_t) (data >> 32);
    pthread_mutex_unlock(&cs->lock);
    return ours ? slot : NO_CONN;
}

void conns_close(struct conns *cs, uint32_t slot)
{
    pthread_mutex_lock(&cs->lock);
    close_slot(cs, slot);
    pthread_mutex_unlock(&cs->lock);
}

bool conns_evict_idle(struct conns *cs)
{
    uint32_t oldest = NO_CONN;

    pthread_mutex_lock(&cs->lock);
    for (uint32_t i = 0; i < cs->size; i++) {
        const struct conn *c = &cs->slots[i];

        if (c->state == CONN_WAITING && c->served && !c->arriving &&
            (oldest == NO_CONN ||
             c->deadline_ms < cs->slots[oldest].deadline_ms)) {
            oldest = i;
        }
    }
    if (oldest != NO_CONN) {
        metrics_count(METRICS_CONN_EVICTED);
        close_slot(cs, oldest);
    }
    pthread_mutex_unlock(&cs->lock);
    return oldest != NO_CONN;
}

void conns_seat_init(struct conns_seat *seat)
{
    pthread_cond_init(&seat->called, NULL);
}

void conns_seat_free(struct conns_seat *seat)
{
    pthread_cond_destroy(&seat->called);
}

/* With the lock held: who is to be told after it is given back, so that
 * nobody wakes up only to wait for the lock. */
static struct conns_seat *call_one(struct conns *cs)
{
    struct conns_seat *seat = cs->idle;

    if (seat != NULL) {
        cs->idle = seat->next;
        seat->up = true;
    }
    return seat;
}

/* With the lock held. */
static void sit(struct conns *cs, struct conns_seat *seat)
{
    seat->up = false;
    seat->next = cs->idle;
    cs->idle = seat;
    while (!seat->up) {
        pthread_cond_wait(&seat->called, &cs->lock);
    }
}

void conns_put(struct conns *cs, uint32_t slot)
{
    struct conn *c = &cs->slots[slot];
    struct conns_seat *seat;

    pthread_mutex_lock(&cs->lock);
    c->state = CONN_QUEUED;
    c->next = NO_CONN;
    if (cs->queue_tail == NO_CONN) {
        cs->queue_head = slot;
    } else {
        cs->slots[cs->queue_tail].next = slot;
    }
    cs->queue_tail = slot;
    cs->in_queue++;
    seat = call_one(cs);
    pthread_mutex_unlock(&cs->lock);
    if (seat != NULL) {
        pthread_cond_signal(&seat->called);
    }
}

uint32_t conns_take(struct conns *cs, struct conns_seat *seat)
{
    uint32_t slot;

    pthread_mutex_lock(&cs->lock);
    while (cs->queue_head == NO_CONN && !cs->stopping) {
        sit(cs, seat);
    }
    slot = cs->queue_head;
    if (slot != NO_CONN) {
        cs->queue_head = cs->slots[slot].next;
        if (cs->queue_head == NO_CONN) {
            cs->queue_tail = NO_CONN;
        }
        cs->slots[slot].state = CONN_BUSY;
        cs->in_queue--;
        cs->busy++;
    }
    pthread_mutex_unlock(&cs->lock);
    return slot;
}

void conns_give_back(struct conns *cs, uint32_t slot, bool keep)
{
    struct conn *c = &cs->slots[slot];
    int fd = -1;

    pthread_mutex_lock(&cs->lock);
    cs->busy--;
    if (keep && !cs->draining) {
        c->state = CONN_WAITING;
        c->served = true;
        c->arriving = false;
        c->deadline_ms = conns_now_ms() + cs->idle_timeout_ms;
        keep = watch(cs, slot);
    } else {
        keep = false;
    }
    if (!keep) {
        fd = free_slot(cs, slot);
    }
    pthread_mutex_unlock(&cs->lock);
    if (fd >= 0) {
        close(fd);
    }
}

static void sweep_slot(struct conns *cs, uint32_t slot, int64_t now_ms)
{
    struct conn *c = &cs->slots[slot];
    int64_t io_ms = atomic_load(&c->io_deadline_ms);

    if (c->state == CONN_WAITING && now_ms >= c->deadline_ms) {
        if (!c->served || c->arriving) {
            metrics_count(METRICS_CONN_TIMED_OUT);
        }
        close_slot(cs, slot);
    } else if (c->state == CONN_BUSY && io_ms != 0 && now_ms >= io_ms) {
        /* The worker's read() or write() returns; it closes. */
        (void) shutdown(c->fd, SHUT_RDWR);
    }
}

void conns_sweep(struct conns *cs)
{
    int64_t now_ms = conns_now_ms();

    pthread_mutex_lock(&cs->lock);
    for (uint32_t i = 0; i < cs->size; i++) {
        sweep_slot(cs, i, now_ms);
    }
    pthread_mutex_unlock(&cs->lock);
}

static void drain_slot(struct conns *cs, uint32_t slot, int64_t last_ms)
{
    struct conn *c = &cs->slots[slot];
    char byte;

    if (c->state != CONN_WAITING || c->arriving) {
        return;
    }
    if (recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1) {
        return; /* its event is on the way */
    }
    if (c->served) {
        close_slot(cs, slot);
    } else if (c->deadline_ms > last_ms) {
        c->deadline_ms = last_ms;
    }
}

void conns_drain(struct conns *cs, int64_t grace_ms)
{
    int64_t last_ms = conns_now_ms() + grace_ms;

    pthread_mutex_lock(&cs->lock);
    cs->draining = true;
    for (uint32_t i = 0; i < cs->size; i++) {
        drain_slot(cs, i, last_ms);
    }
    pthread_mutex_unlock(&cs->lock);
}

void conns_stop(struct conns *cs)
{
    pthread_mutex_lock(&cs->lock);
    cs->stopping = true;
    for (struct conns_seat *seat; (seat = call_one(cs)) != NULL;) {
        pthread_cond_signal(&seat->called);
    }
    pthread_mutex_unlock(&cs->lock);
}
