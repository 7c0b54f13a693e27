/*
 * FastCGI 1.0, as much of it as nginx speaks: reads one request from a
 * connection and answers it.
 *
 * A request is received until it is whole, within a deadline; each length that
 * the peer claims is compared with what has come, and allocates nothing.
 */

#include "base/metrics.h"
#include "server/server.h"

#include <endian.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { NO_MORE, BEGIN, END = 3, PARAMS, STDIN, STDOUT }; /* kinds of records */
#define HEADER 8
#define RECORD_MAX 65535
#define PARAMS_MAX RECORD_MAX /* nginx never sends more than one record */
/* Parameters, a body, and two more records beyond the kept part of it. */
#define REQUEST_ROOM (256 * 1024)
#define ANSWER_ROOM (FCGI_ANSWER_MAX + 64 * 1024) /* with its records */
#define DRAIN_MAX (1024 * 1024) /* of a body too large to be served */

/* May hold tokens and credentials: wiped with its request. */
struct fcgi_exchange {
    int fd;
    int64_t deadline_us;
    enum fcgi_end end; /* why it ended */
    size_t len;        /* of the request: what came */
    size_t pos;        /* of it: whole records */
    unsigned id, type; /* of the next record */
    size_t params_len, param_count, body_len, body_max;
    uint64_t body_announced;
    unsigned char *body; /* in request, as are the parameters */
    char *params[PARAMS_MAX / 2 + 1];
    unsigned char request[REQUEST_ROOM];
    char answer[ANSWER_ROOM];
};

struct fcgi_exchange *fcgi_exchange_new(size_t body_max)
{
    struct fcgi_exchange *ex = calloc(1, sizeof(*ex));

    if (ex != NULL) {
        ex->body_max = body_max;
    }
    return ex;
}

/* The first failure counts. */
static bool fail(struct fcgi_exchange *ex, enum fcgi_end why)
{
    ex->end = ex->end == FCGI_WHOLE ? why : ex->end;
    return false;
}

/* Waits until the peer has sent or taken something, or left. */
static bool wait_for(struct fcgi_exchange *ex, short events)
{
    struct pollfd p = {ex->fd, events, 0};
    int64_t left_us = ex->deadline_us - metrics_now_us();
    int left_ms = left_us > 0 ? (int) (left_us / 1000) + 1 : 0;

    return poll(&p, 1, left_ms) != 0 || fail(ex, FCGI_LATE);
}

/* -- reading -- */

/* Receives until there are n bytes that were not consumed. */
static bool await(struct fcgi_exchange *ex, size_t n)
{
    while (ex->len - ex->pos < n) {
        ssize_t got;

        if (ex->len == REQUEST_ROOM) {
            return fail(ex, FCGI_GARBAGE);
        }
        if (!wait_for(ex, POLLIN)) {
            return false;
        }
        got = recv(ex->fd, ex->request + ex->len, REQUEST_ROOM - ex->len,
                   MSG_DONTWAIT);
        if (got <= 0) {
            return fail(ex, ex->len == 0 ? FCGI_LEFT : FCGI_INCOMPLETE);
        }
        ex->len += (size_t) got;
    }
    return true;
}

/* Makes NAME=value of the pairs in a record, in place: their two lengths leave
 * room for "=" and NUL.  False where the last one does not end with it. */
static bool take_params(struct fcgi_exchange *ex, unsigned char *p,
                        const unsigned char *end)
{
    while (p < end) {
        char *out = (char *) p;
        size_t lens[2];

        for (int i = 0; i < 2; i++) {
            uint32_t n;

            if (p < end && *p < 0x80) {
                lens[i] = *p++;
            } else if (end - p >= 4) {
                memcpy(&n, p, 4);
                lens[i] = be32toh(n) & INT32_MAX;
                p += 4;
            } else {
                return false;
            }
        }
        if (lens[0] + lens[1] > (size_t) (end - p)) {
            return false;
        }
        ex->params[ex->param_count++] = out;
        memmove(out, p, lens[0]);
        out[lens[0]] = '=';
        memmove(out + lens[0] + 1, p + lens[0], lens[1]);
        p += lens[0] + lens[1];
        out[lens[0] + 1 + lens[1]] = '\0';
        if (strncmp(out, "CONTENT_LENGTH=", 15) == 0) {
            ex->body_announced = strtoull(out + 15, NULL, 10);
        }
    }
    return true;
}

/* Whether a record's content is in order; sets what comes next: a body that is
 * too large need not come whole. */
static bool take(struct fcgi_exchange *ex, unsigned char *content, size_t n)
{
    if (ex->type == BEGIN) {
        ex->type = PARAMS;
        return n == 8 && content[0] == 0 && content[1] == 1; /* responder */
    }
    if (ex->type == PARAMS) {
        ex->params_len += n;
        ex->type = n == 0 ? STDIN : PARAMS;
        return ex->params_len <= PARAMS_MAX &&
               take_params(ex, content, content + n);
    }
    ex->body = ex->body_len == 0 ? content : ex->body;
    memmove(ex->body + ex->body_len, content, n);
    ex->body_len += n;
    ex->type = n == 0 || ex->body_len > ex->body_max ? NO_MORE : STDIN;
    return true;
}

static bool receive(struct fcgi_exchange *ex)
{
    while (ex->type != NO_MORE) {
        unsigned char *h = ex->request + ex->pos;
        size_t n, total;
        unsigned id;

        if (!await(ex, HEADER)) {
            return false;
        }
        id = (unsigned) h[2] << 8 | h[3];
        n = (size_t) h[4] << 8 | h[5];
        total = HEADER + n + h[6];
        ex->id = ex->type == BEGIN ? id : ex->id;
        if (h[0] != 1 || h[1] != ex->type || id == 0 || id != ex->id) {
            return fail(ex, FCGI_GARBAGE);
        }
        if (!await(ex, total)) {
            return false;
        }
        /* nginx pads neither a beginning nor an end. */
        if ((h[6] != 0 && (ex->type == BEGIN || n == 0)) ||
            !take(ex, h + HEADER, n)) {
            return fail(ex, FCGI_GARBAGE);
        }
        ex->pos += total;
    }
    return ex->body_len >= ex->body_announced || ex->body_len > ex->body_max ||
           fail(ex, FCGI_INCOMPLETE); /* the client went away */
}

enum fcgi_end fcgi_read(struct fcgi_exchange *ex, int fd, int64_t deadline_us,
                        struct fcgi_call *call)
{
    ex->fd = fd;
    ex->deadline_us = deadline_us;
    ex->end = FCGI_WHOLE;
    ex->type = BEGIN;
    ex->len = ex->pos = ex->params_len = ex->param_count = ex->body_len = 0;
    ex->body_announced = 0;
    if (!receive(ex)) {
        OPENSSL_cleanse(ex->request, ex->len);
    }
    ex->params[ex->param_count] = NULL;
    call->params = ex->params;
    call->body_too_large = ex->body_len > ex->body_max;
    call->body = (pj_str_t){ex->body, call->body_too_large ? ex->body_max
                                                           : ex->body_len};
    return ex->end;
}

/* -- answering -- */

/* Appends records with what text holds; one without content ends it. */
static void put(struct fcgi_exchange *ex, struct buf *out, int type,
                const char *text, size_t len)
{
    do {
        size_t n = len < RECORD_MAX ? len : RECORD_MAX;
        const char head[HEADER] = {1,
                                   (char) type,
                                   (char) (ex->id >> 8),
                                   (char) ex->id,
                                   (char) (n >> 8),
                                   (char) n};

        buf_add(out, head, sizeof(head));
        buf_add(out, text, n);
        text += n;
        len -= n;
    } while (len > 0);
}

static void send_answer(struct fcgi_exchange *ex, const struct buf *out)
{
    size_t sent = 0;

    while (sent < out->len && wait_for(ex, POLLOUT)) {
        ssize_t n = send(ex->fd, out->data + sent, out->len - sent,
                         MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n < 0) {
            (void) fail(ex, FCGI_LEFT);
            break;
        }
        sent += (size_t) n;
    }
}

/* Waits until the peer has read the answer and closes: one that is still
 * sending would take a closed connection for a failure. */
static void drain(struct fcgi_exchange *ex)
{
    size_t drained = 0;

    (void) shutdown(ex->fd, SHUT_WR);
    do {
        ex->len = ex->pos = 0;
        (void) await(ex, 1);
        OPENSSL_cleanse(ex->request, ex->len);
        drained += ex->len;
    } while (ex->len != 0 && drained < DRAIN_MAX);
}

enum fcgi_end fcgi_answer(struct fcgi_exchange *ex, int64_t deadline_us,
                          const struct fcgi_reply *reply)
{
    static const char complete[8];
    enum fcgi_end end;
    struct buf out;

    ex->deadline_us = deadline_us;
    OPENSSL_cleanse(ex->request, ex->len);
    buf_init(&out, ex->answer, sizeof(ex->answer));
    put(ex, &out, STDOUT, reply->head->data, reply->head->len);
    if (reply->body->len > 0) {
        put(ex, &out, STDOUT, reply->body->data, reply->body->len);
    }
    put(ex, &out, STDOUT, "", 0);
    put(ex, &out, END, complete, sizeof(complete));
    if (out.overflow) {
        (void) fail(ex, FCGI_LEFT);
    } else {
        send_answer(ex, &out);
    }
    buf_reset(&out);
    end = ex->end;
    if (end == FCGI_WHOLE && ex->body_len > ex->body_max) {
        drain(ex);
    }
    return end;
}
