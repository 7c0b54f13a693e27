/*
 * FastCGI: reads one request from a connection and answers it.
 *
 * Written here because every length has to be bounded and one deadline has to
 * hold for a whole request, which libfcgi offers for neither.
 */

#include "server/fcgi.h"

#include "base/metrics.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { BEGIN_REQUEST = 1, END_REQUEST = 3, PARAMS = 4, STDIN = 5, STDOUT = 6 };

#define VERSION 1
#define RESPONDER 1
#define HEADER_LEN 8
#define CONTENT_LEN 8 /* of BEGIN_REQUEST and END_REQUEST */

#define RAW_BYTES (32 * 1024)
#define RECORD_MAX (RAW_BYTES - HEADER_LEN) /* content of ours */
#define PARAMS_MAX 65535 /* one record: nginx never sends more */
#define PARAM_MIN 8      /* bytes of one; nginx's names are no shorter */
#define PARAM_COUNT (PARAMS_MAX / PARAM_MIN)
#define DRAIN_MAX (1024 * 1024) /* of a body too large to be served */

/* May hold tokens and credentials: wiped with its request. */
struct fcgi_exchange {
    int fd;
    int64_t deadline_us;
    enum fcgi_end end;            /* why it ended */
    unsigned id;                  /* of the request */
    size_t padding;               /* before the next record */
    size_t pos, len;              /* of raw: what is still to be taken */
    unsigned char raw[RAW_BYTES]; /* from the peer, or for it */
    size_t params_len;
    unsigned char params[PARAMS_MAX];
    char *strings[PARAM_COUNT + 1]; /* in params */
    size_t body_len;                /* all that came */
    size_t body_max;
    unsigned char body[];
};

struct fcgi_exchange *fcgi_exchange_new(size_t body_max)
{
    struct fcgi_exchange *ex = calloc(1, sizeof(*ex) + body_max);

    if (ex != NULL) {
        ex->body_max = body_max;
    }
    return ex;
}

static size_t at_most(size_t n, size_t max)
{
    return n < max ? n : max;
}

static void wipe(struct fcgi_exchange *ex)
{
    OPENSSL_cleanse(ex->raw, RAW_BYTES);
    OPENSSL_cleanse(ex->params, at_most(ex->params_len, PARAMS_MAX));
    OPENSSL_cleanse(ex->body, at_most(ex->body_len, ex->body_max));
}

static bool fail(struct fcgi_exchange *ex, enum fcgi_end why)
{
    ex->end = why;
    return false;
}

/* After EAGAIN: waits until the peer has sent or taken something. */
static bool wait_for(struct fcgi_exchange *ex, short events)
{
    struct pollfd p = {ex->fd, events, 0};
    int64_t left_us = ex->deadline_us - metrics_now_us();
    int left_ms = left_us > 0 ? (int) (left_us / 1000) + 1 : 0;

    return poll(&p, 1, left_ms) != 0 || fail(ex, FCGI_LATE);
}

/* -- reading --------------------------------------------------------------
 */

/* Gets more of what the peer sends into raw, which was taken. */
static bool fill(struct fcgi_exchange *ex)
{
    ssize_t n;

    while ((n = recv(ex->fd, ex->raw, RAW_BYTES, MSG_DONTWAIT)) < 0) {
        if (errno != EAGAIN) {
            break;
        }
        if (!wait_for(ex, POLLIN)) {
            return false;
        }
    }
    ex->pos = 0;
    ex->len = n > 0 ? (size_t) n : 0;
    return n > 0 || fail(ex, FCGI_INCOMPLETE);
}

/* The next n bytes, to where "to" points unless that is NULL. */
static bool take(struct fcgi_exchange *ex, unsigned char *to, size_t n)
{
    while (n > 0) {
        size_t step = at_most(n, ex->len - ex->pos);

        if (step == 0 && !fill(ex)) {
            return false;
        }
        if (to != NULL && step != 0) {
            memcpy(to, ex->raw + ex->pos, step);
            to += step;
        }
        ex->pos += step;
        n -= step;
    }
    return true;
}

/* The header of the next record, which must be of this type and request. */
static bool take_header(struct fcgi_exchange *ex, unsigned type, size_t *len)
{
    unsigned char h[HEADER_LEN];
    unsigned id;

    if (!take(ex, NULL, ex->padding) || !take(ex, h, sizeof(h))) {
        return false;
    }
    id = (unsigned) h[2] << 8 | h[3];
    if (type == BEGIN_REQUEST) {
        ex->id = id;
    }
    *len = (size_t) h[4] << 8 | h[5];
    ex->padding = h[6];
    return (h[0] == VERSION && h[1] == type && id != 0 && id == ex->id) ||
           fail(ex, FCGI_GARBAGE);
}

static bool take_begin(struct fcgi_exchange *ex)
{
    unsigned char content[CONTENT_LEN];
    size_t len;

    ex->padding = 0;
    return take_header(ex, BEGIN_REQUEST, &len) &&
           (len == CONTENT_LEN || fail(ex, FCGI_GARBAGE)) &&
           take(ex, content, CONTENT_LEN) &&
           ((content[0] == 0 && content[1] == RESPONDER) ||
            fail(ex, FCGI_GARBAGE));
}

/* Records to the end of their stream: keeps room bytes, and reads more up to
 * most, as a peer that still sends takes a closed connection for a failure. */
static bool take_stream(struct fcgi_exchange *ex, unsigned type,
                        unsigned char *to, size_t room, size_t most,
                        size_t *total)
{
    size_t len, keep;

    *total = 0;
    do {
        if (!take_header(ex, type, &len)) {
            return false;
        }
        keep = at_most(len, room);
        *total += len;
        if (*total > most) {
            return fail(ex, FCGI_GARBAGE);
        }
        if (!take(ex, to, keep) || !take(ex, NULL, len - keep)) {
            return false;
        }
        to += keep;
        room -= keep;
    } while (len != 0);
    return true;
}

static bool length_of(const unsigned char **p, const unsigned char *end,
                      size_t *len)
{
    const unsigned char *at = *p;

    if (at == end || (at[0] >= 0x80 && end - at < 4)) {
        return false;
    }
    *len = at[0];
    if (at[0] >= 0x80) {
        *len = (size_t) (at[0] & 0x7f) << 24 | (size_t) at[1] << 16 |
               (size_t) at[2] << 8 | at[3];
    }
    *p += at[0] < 0x80 ? 1 : 4;
    return true;
}

/* Makes NAME=value strings of the parameters, in place: the two characters
 * that come in are no more than the two lengths that go. */
static bool make_strings(struct fcgi_exchange *ex)
{
    const unsigned char *p = ex->params, *end = p + ex->params_len;
    char *out = (char *) ex->params;
    size_t name, value, count = 0;

    while (p < end) {
        if (count == PARAM_COUNT || !length_of(&p, end, &name) ||
            !length_of(&p, end, &value) || name > (size_t) (end - p) ||
            value > (size_t) (end - p) - name) {
            return fail(ex, FCGI_GARBAGE);
        }
        ex->strings[count++] = out;
        memmove(out, p, name);
        out[name] = '=';
        memmove(out + name + 1, p + name, value);
        out[name + 1 + value] = '\0';
        out += name + value + 2;
        p += name + value;
    }
    ex->strings[count] = NULL;
    return true;
}

/* Whether as much came as CONTENT_LENGTH says: else the client went away. */
static bool check_length(struct fcgi_exchange *ex)
{
    static const char name[] = "CONTENT_LENGTH=";

    for (char *const *p = ex->strings; *p != NULL; p++) {
        if (strncmp(*p, name, sizeof(name) - 1) == 0 &&
            strtoull(*p + sizeof(name) - 1, NULL, 10) > ex->body_len) {
            return fail(ex, FCGI_INCOMPLETE);
        }
    }
    return true;
}

enum fcgi_end fcgi_read(struct fcgi_exchange *ex, int fd, int64_t deadline_us,
                        struct fcgi_call *call)
{
    ex->fd = fd;
    ex->deadline_us = deadline_us;
    ex->end = FCGI_WHOLE;
    ex->params_len = ex->body_len = 0;
    if (!fill(ex)) {
        return ex->end == FCGI_INCOMPLETE ? FCGI_LEFT : ex->end;
    }
    if (!take_begin(ex) ||
        !take_stream(ex, PARAMS, ex->params, PARAMS_MAX, PARAMS_MAX,
                     &ex->params_len) ||
        !make_strings(ex) ||
        !take_stream(ex, STDIN, ex->body, ex->body_max,
                     ex->body_max + DRAIN_MAX, &ex->body_len) ||
        !check_length(ex)) {
        wipe(ex);
        return ex->end;
    }
    call->params = ex->strings;
    call->body.data = ex->body;
    call->body.len = at_most(ex->body_len, ex->body_max);
    call->body_too_large = ex->body_len > ex->body_max;
    return FCGI_WHOLE;
}

/* -- answering ------------------------------------------------------------
 */

/* Sends what stands in raw. */
static bool flush(struct fcgi_exchange *ex)
{
    while (ex->pos < ex->len) {
        ssize_t n = send(ex->fd, ex->raw + ex->pos, ex->len - ex->pos,
                         MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n >= 0) {
            ex->pos += (size_t) n;
        } else if (errno != EAGAIN) {
            return fail(ex, FCGI_LEFT);
        } else if (!wait_for(ex, POLLOUT)) {
            return false;
        }
    }
    ex->pos = ex->len = 0;
    return true;
}

/* Text as one record or more; the empty one is the end of its stream. */
static bool put(struct fcgi_exchange *ex, unsigned char type, pj_str_t text)
{
    do {
        size_t n = at_most(text.len, RECORD_MAX);
        unsigned char *to = ex->raw + ex->len;

        if (HEADER_LEN + n > RAW_BYTES - ex->len) {
            if (!flush(ex)) {
                return false;
            }
            to = ex->raw;
        }
        memset(to, 0, HEADER_LEN);
        to[0] = VERSION;
        to[1] = type;
        to[2] = (unsigned char) (ex->id >> 8);
        to[3] = (unsigned char) ex->id;
        to[4] = (unsigned char) (n >> 8);
        to[5] = (unsigned char) n;
        if (n != 0) {
            memcpy(to + HEADER_LEN, text.data, n);
        }
        ex->len += HEADER_LEN + n;
        text.data += n;
        text.len -= n;
    } while (text.len > 0);
    return true;
}

enum fcgi_end fcgi_answer(struct fcgi_exchange *ex, int64_t deadline_us,
                          const struct fcgi_reply *reply)
{
    static const unsigned char complete[CONTENT_LEN];
    pj_str_t nothing = {complete, 0};
    pj_str_t end = {complete, CONTENT_LEN};

    ex->deadline_us = deadline_us;
    ex->pos = ex->len = 0;
    (void) (put(ex, STDOUT, reply->head) &&
            (reply->body.len == 0 || put(ex, STDOUT, reply->body)) &&
            put(ex, STDOUT, nothing) && put(ex, END_REQUEST, end) &&
            flush(ex));
    wipe(ex);
    return ex->end;
}
