/* Reads any bytes as a connection to identity.  A second reader of records
 * finds the same whole request, with the same parameters and body.  The answer,
 * read from its records, is the answer that was written. */

#include "fuzz.h"

#include "base/metrics.h"
#include "server/fcgi.h"

#include <sys/socket.h>

#define BODY_MAX 64

static struct fcgi_exchange *ex;
static unsigned char params[1 << 18], body[1 << 18];
static size_t params_len, body_len;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    ex = fcgi_exchange_new(BODY_MAX);
    FUZZ_ASSERT(ex != NULL);
    return 0;
}

/* Joins the records of streams 4 and 5. */
static void streams_join(pj_str_t in)
{
    params_len = body_len = 0;
    while (in.len >= 8) {
        const unsigned char *h = in.data;
        size_t n = (size_t) h[4] << 8 | h[5], all = 8 + n + h[6];
        bool is_body = h[1] == 5;

        if (h[1] == 4 || (is_body && in.len >= 8 + n)) {
            memcpy(is_body ? body + body_len : params + params_len, h + 8, n);
            *(is_body ? &body_len : &params_len) += n;
        }
        if ((is_body && n == 0) || body_len > BODY_MAX || all > in.len)
            return;
        in = (pj_str_t){in.data + all, in.len - all};
    }
}

static size_t length_of(const unsigned char **p)
{
    size_t n = *(*p)++;

    if (n >= 0x80) {
        n = (n & 0x7f) << 24 | (size_t) (*p)[0] << 16 | (size_t) (*p)[1] << 8 |
            (*p)[2];
        *p += 3;
    }
    return n;
}

static void call_check(const struct fcgi_call *call)
{
    const unsigned char *p = params, *end = params + params_len;
    size_t i = 0;

    FUZZ_ASSERT(strcmp(call->params[i++], "FCGI_ROLE=RESPONDER") == 0);
    while (p < end) {
        size_t name = length_of(&p), value = length_of(&p);
        const char *param = call->params[i++];

        FUZZ_ASSERT(param != NULL && name + value <= (size_t) (end - p));
        FUZZ_ASSERT(memcmp(param, p, name) == 0 && param[name] == '=' &&
                    memcmp(param + name + 1, p + name, value) == 0 &&
                    param[name + 1 + value] == '\0');
        p += name + value;
    }
    FUZZ_ASSERT(call->params[i] == NULL);
    FUZZ_ASSERT(call->body_too_large == (body_len > BODY_MAX));
    FUZZ_ASSERT(call->body.len == (body_len < BODY_MAX ? body_len : BODY_MAX));
    FUZZ_ASSERT(memcmp(call->body.data, body, call->body.len) == 0);
}

/* The body that came is sent back, and read from its records. */
static void answer_check(int fds[2], const struct fcgi_call *call, unsigned id)
{
    static unsigned char came[1 << 16];
    struct buf head = {.data = (char *) "Status: 200 OK\r\n\r\n", .len = 18};
    struct buf text = {.data = (char *) call->body.data, .len = call->body.len};
    struct fcgi_reply reply = {&head, &text};
    pj_str_t in = {came, 0};
    size_t at = 0, n;

    memcpy(body, call->body.data, call->body.len);
    n = text.len;
    FUZZ_ASSERT(fcgi_answer(ex, metrics_now_us() + 1000000, &reply) ==
                FCGI_WHOLE);
    in.len = (size_t) recv(fds[0], came, sizeof(came), 0);
    while (in.len >= 8 && in.data[1] == 6) {
        size_t some = (size_t) in.data[4] << 8 | in.data[5];

        FUZZ_ASSERT(in.data[0] == 1 &&
                    (in.data[2] << 8 | in.data[3]) == (int) id &&
                    8 + some + in.data[6] <= in.len);
        memmove(params + at, in.data + 8, some);
        at += some;
        in = (pj_str_t){in.data + 8 + some + in.data[6],
                        in.len - 8 - some - in.data[6]};
    }
    FUZZ_ASSERT(at == 18 + n && memcmp(params, head.data, 18) == 0 &&
                memcmp(params + 18, body, n) == 0);
    FUZZ_ASSERT(in.len == 16 && in.data[1] == 3);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct fcgi_call call;
    int fds[2];

    FUZZ_ASSERT(socketpair(AF_UNIX, SOCK_STREAM, 0, fds) == 0);
    FUZZ_ASSERT(send(fds[0], data, len, 0) == (ssize_t) len);
    shutdown(fds[0], SHUT_WR);
    if (fcgi_read(ex, fds[1], metrics_now_us() + 1000000, &call) ==
        FCGI_WHOLE) {
        streams_join((pj_str_t){data, len});
        call_check(&call);
        answer_check(fds, &call, (unsigned) data[2] << 8 | data[3]);
    }
    close(fds[0]);
    close(fds[1]);
    return 0;
}
