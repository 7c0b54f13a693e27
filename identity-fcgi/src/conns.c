/* The connections of the server: slots, states, the queue of requests. */

#include "conns.h"

#include "metrics.h"

#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
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
    struct epoll_event ev = {.events = EPOLLIN, .data.u64 = CONNS_EVENT_NEWS};

    memset(cs, 0, sizeof(*cs));
    cs->epoll_fd = epoll_fd;
    cs->size = size;
    cs->idle_timeout_ms = idle_timeout_ms;
    cs->news_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    cs->slots = calloc(size, sizeof(*cs->slots));
    if (cs->slots == NULL || cs->news_fd < 0 ||
        epoll_ctl(epoll_fd, EPOLL_CTL_ADD, cs->news_fd, &ev) != 0) {
        return false;
    }
    for (uint32_t i = 0; i < size; i++) {
        cs->slots[i].fd = -1;
        cs->slots[i].next = i + 1 < size ? i + 1 : NO_CONN;
    }
    cs->queue_head = cs->queue_tail = NO_CONN;
    return pthread_mutex_init(&cs->lock, NULL) == 0;
}

void conns_free(struct conns *cs)
{
    if (cs->slots != NULL) {
        pthread_mutex_destroy(&cs->lock);
        close(cs->news_fd);
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

/* -- epoll ----------------------------------------------------------------
 */

/*
 * Edge-triggered: one thread hears of what arrives, and of a request half
 * arrived, which stays in the kernel unread, nobody hears again before more of
 * it comes.  So epoll is called only where it has to tell what is there
 * already: the first time, and after an event that nobody could follow.
 */
static bool watch(struct conns *cs, uint32_t slot)
{
    struct conn *c = &cs->slots[slot];
    int op = c->watched ? EPOLL_CTL_MOD : EPOLL_CTL_ADD;
    struct epoll_event ev = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET,
                             .data.u64 =
                                 (uint64_t) c->generation << 32 | slot};

    if (c->watched && !c->missed) {
        return true;
    }
    c->watched = true;
    c->missed = false;
    return epoll_ctl(cs->epoll_fd, op, c->fd, &ev) == 0;
}

/* With the lock held.  Level-triggered: as long as there is news, everyone
 * who waits is told, one after the other. */
static void set_news(struct conns *cs, bool news)
{
    uint64_t n = 1;
    ssize_t done;

    if (cs->news != news) {
        cs->news = news;
        done = news ? write(cs->news_fd, &n, sizeof(n))
                    : read(cs->news_fd, &n, sizeof(n));
        (void) done; /* a counter of 0 or 1 can be written and read */
    }
}

/* -- slots ----------------------------------------------------------------
 */

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

/* As free_slot(), of a connection that is over its deadline. */
static int free_late_slot(struct conns *cs, uint32_t slot)
{
    const struct conn *c = &cs->slots[slot];

    if (!c->served || c->arriving) {
        metrics_count(METRICS_CONN_TIMED_OUT);
    }
    return free_slot(cs, slot);
}

/* With the lock held. */
static bool evict_idle(struct conns *cs)
{
    uint32_t oldest = NO_CONN;

    for (uint32_t i = 0; i < cs->size; i++) {
        const struct conn *c = &cs->slots[i];

        if (c->state == CONN_WAITING && c->served && !c->arriving &&
            (oldest == NO_CONN ||
             c->deadline_ms < cs->slots[oldest].deadline_ms)) {
            oldest = i;
        }
    }
    if (oldest == NO_CONN) {
        return false;
    }
    metrics_count(METRICS_CONN_EVICTED);
    close_slot(cs, oldest);
    return true;
}

bool conns_make_room(struct conns *cs)
{
    bool room;

    pthread_mutex_lock(&cs->lock);
    room = cs->free_head != NO_CONN || evict_idle(cs);
    pthread_mutex_unlock(&cs->lock);
    return room;
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
    c->state = CONN_HELD;
    c->served = false;
    c->arriving = false;
    c->watched = false;
    c->missed = false;
    c->deadline_ms = deadline_ms;
    pthread_mutex_unlock(&cs->lock);
    return slot;
}

uint32_t conns_hold(struct conns *cs, uint64_t data)
{
    uint32_t slot = (uint32_t) data;
    struct conn *c = &cs->slots[slot];
    bool ours;

    pthread_mutex_lock(&cs->lock);
    ours = c->generation == (data >> 32);
    if (ours && c->state == CONN_WAITING) {
        c->state = CONN_HELD;
    } else if (ours) {
        c->missed = true;
        ours = false;
    }
    pthread_mutex_unlock(&cs->lock);
    return ours ? slot : NO_CONN;
}

/* With the lock held: whether a drain leaves the connection waiting, and then
 * for how long. */
static bool drain_spares(struct conns *cs, struct conn *c)
{
    if (c->served && !c->arriving) {
        return false;
    }
    if (!c->arriving && c->deadline_ms > cs->drain_last_ms) {
        c->deadline_ms = cs->drain_last_ms;
    }
    return true;
}

/* With the lock held; -1, or what the caller has to close. */
static int wait_or_free(struct conns *cs, uint32_t slot)
{
    struct conn *c = &cs->slots[slot];

    if (cs->draining && !drain_spares(cs, c)) {
        return free_slot(cs, slot);
    }
    c->state = CONN_WAITING;
    return watch(cs, slot) ? -1 : free_slot(cs, slot);
}

void conns_wait(struct conns *cs, uint32_t slot)
{
    int64_t now_ms = conns_now_ms();
    int fd;

    pthread_mutex_lock(&cs->lock);
    /* A sweep passes by what is held: looked at often enough, a connection
     * would never end. */
    fd = now_ms >= cs->slots[slot].deadline_ms ? free_late_slot(cs, slot)
                                               : wait_or_free(cs, slot);
    pthread_mutex_unlock(&cs->lock);
    if (fd >= 0) {
        close(fd);
    }
}

void conns_close(struct conns *cs, uint32_t slot)
{
    pthread_mutex_lock(&cs->lock);
    close_slot(cs, slot);
    pthread_mutex_unlock(&cs->lock);
}

/* -- requests -------------------------------------------------------------
 */

/* With the lock held. */
static void make_busy(struct conns *cs, uint32_t slot)
{
    cs->slots[slot].state = CONN_BUSY;
    cs->busy++;
}

void conns_serve(struct conns *cs, uint32_t slot)
{
    pthread_mutex_lock(&cs->lock);
    make_busy(cs, slot);
    pthread_mutex_unlock(&cs->lock);
}

void conns_put(struct conns *cs, uint32_t slot)
{
    struct conn *c = &cs->slots[slot];

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
    if (atomic_load(&cs->idle) > 0) {
        set_news(cs, true);
    }
    pthread_mutex_unlock(&cs->lock);
}

/* With the lock held. */
static uint32_t take_first(struct conns *cs)
{
    uint32_t slot = cs->queue_head;

    cs->queue_head = cs->slots[slot].next;
    if (cs->queue_head == NO_CONN) {
        cs->queue_tail = NO_CONN;
    }
    cs->in_queue--;
    make_busy(cs, slot);
    return slot;
}

uint32_t conns_take(struct conns *cs)
{
    uint32_t slot = NO_CONN;

    pthread_mutex_lock(&cs->lock);
    if (cs->queue_head != NO_CONN) {
        slot = take_first(cs);
    } else if (cs->stopping) {
        slot = CONNS_END;
    } else {
        /* Under the lock: whoever puts a request in from now on gives news. */
        atomic_fetch_add(&cs->idle, 1);
    }
    if (cs->queue_head == NO_CONN && !cs->stopping) {
        set_news(cs, false);
    }
    pthread_mutex_unlock(&cs->lock);
    return slot;
}

void conns_back(struct conns *cs)
{
    atomic_fetch_sub(&cs->idle, 1);
}

void conns_give_back(struct conns *cs, uint32_t slot, bool keep)
{
    struct conn *c = &cs->slots[slot];
    int fd;

    pthread_mutex_lock(&cs->lock);
    cs->busy--;
    if (keep) {
        c->served = true;
        c->arriving = false;
        c->deadline_ms = conns_now_ms() + cs->idle_timeout_ms;
        fd = wait_or_free(cs, slot);
    } else {
        fd = free_slot(cs, slot);
    }
    pthread_mutex_unlock(&cs->lock);
    if (fd >= 0) {
        close(fd);
    }
}

/* -- time -----------------------------------------------------------------
 */

static void sweep_slot(struct conns *cs, uint32_t slot, int64_t now_ms)
{
    struct conn *c = &cs->slots[slot];
    int64_t io_ms = atomic_load(&c->io_deadline_ms);

    if (c->state == CONN_WAITING && now_ms >= c->deadline_ms) {
        close(free_late_slot(cs, slot));
    } else if (c->state == CONN_BUSY && io_ms != 0 && now_ms >= io_ms) {
        /* The worker's read() or write() returns; it closes. */
        (void) shutdown(c->fd, SHUT_RDWR);
    }
}

void conns_sweep(struct conns *cs)
{
    int64_t now_ms = conns_now_ms();
    uint32_t left;

    pthread_mutex_lock(&cs->lock);
    left = cs->open;
    for (uint32_t i = 0; left != 0; i++) {
        left -= cs->slots[i].state != CONN_FREE;
        sweep_slot(cs, i, now_ms);
    }
    pthread_mutex_unlock(&cs->lock);
}

static void drain_slot(struct conns *cs, uint32_t slot)
{
    struct conn *c = &cs->slots[slot];
    char byte;

    if (c->state != CONN_WAITING ||
        recv(c->fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) == 1) {
        return; /* somebody's, or its event is on the way */
    }
    if (!drain_spares(cs, c)) {
        close_slot(cs, slot);
    }
}

void conns_drain(struct conns *cs, int64_t grace_ms)
{
    pthread_mutex_lock(&cs->lock);
    cs->draining = true;
    cs->drain_last_ms = conns_now_ms() + grace_ms;
    for (uint32_t i = 0; i < cs->size; i++) {
        drain_slot(cs, i);
    }
    pthread_mutex_unlock(&cs->lock);
}

void conns_stop(struct conns *cs)
{
    pthread_mutex_lock(&cs->lock);
    cs->stopping = true;
    set_news(cs, true);
    pthread_mutex_unlock(&cs->lock);
}
