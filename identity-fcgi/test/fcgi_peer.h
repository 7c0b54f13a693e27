/* A peer of fcgi.c: makes requests byte by byte. */

#ifndef FCGI_PEER_H_INCLUDED
#define FCGI_PEER_H_INCLUDED

#include "base/metrics.h"
#include "server/fcgi.h"
#include "testing.h"

#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#define BODY_MAX 16
#define SOON_US 50000

static unsigned char bytes[2000000];
static size_t len;
static struct fcgi_exchange *ex;
static int pair[2];
static struct fcgi_call call;
static struct buf ok_head = {.data = (char *) "Status: 200 OK\r\n\r\n",
                             .len = 18};
static struct buf hello = {.data = (char *) "hello", .len = 5};
static const struct fcgi_reply reply = {&ok_head, &hello};

static inline void setup(void)
{
    len = 0;
    ex = fcgi_exchange_new(BODY_MAX);
    ck_assert_ptr_nonnull(ex);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
}

static inline void teardown(void)
{
    fcgi_exchange_free(ex);
    close(pair[0]);
    close(pair[1]);
}

/* -- requests -------------------------------------------------------------
 */

static inline void record(unsigned type, const void *content, size_t n,
                          unsigned pad)
{
    const unsigned char head[8] = {1,
                                   (unsigned char) type,
                                   0,
                                   1,
                                   (unsigned char) (n >> 8),
                                   (unsigned char) n,
                                   (unsigned char) pad,
                                   0};

    memcpy(bytes + len, head, sizeof(head));
    if (n != 0) {
        memcpy(bytes + len + 8, content, n);
    }
    memset(bytes + len + 8 + n, 'P', pad);
    len += 8 + n + pad;
}

static inline void begin(unsigned role, unsigned flags)
{
    const unsigned char content[8] = {0, (unsigned char) role,
                                      (unsigned char) flags};

    record(1, content, sizeof(content), 0);
}

static inline void stream(unsigned type, const void *content, size_t n)
{
    const unsigned char *at = content;

    while (n > 0) {
        size_t step = n < 65535 ? n : 65535;

        record(type, at, step, (unsigned) (-step & 7));
        at += step;
        n -= step;
    }
    record(type, NULL, 0, 0);
}

#define POST "\x0e\x04REQUEST_METHODPOST"

static inline void whole(unsigned flags, const char *body)
{
    len = 0;
    begin(1, flags);
    stream(4, POST, sizeof(POST) - 1);
    stream(5, body, strlen(body));
}

static inline void feed(size_t n)
{
    ck_assert_int_eq(send(pair[0], bytes, n, 0), (ssize_t) n);
}

static inline enum fcgi_end read_until(int64_t wait_us)
{
    return fcgi_read(ex, pair[1], metrics_now_us() + wait_us, &call);
}

/* What comes of bytes[0..n), after which the peer is silent. */
static inline enum fcgi_end end_of(size_t n)
{
    feed(n);
    return read_until(SOON_US);
}

static inline void answer(void)
{
    ck_assert_int_eq(fcgi_answer(ex, metrics_now_us() + SOON_US, &reply),
                     FCGI_WHOLE);
}

static inline const char *param(size_t i)
{
    ck_assert_str_eq(call.params[0], "FCGI_ROLE=RESPONDER");
    return call.params[1 + i];
}

#endif
