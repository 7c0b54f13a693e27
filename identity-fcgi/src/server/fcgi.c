/*
 * FastCGI: reads a request from a connection and answers it, using libfcgi,
 * which no other file uses.
 *
 * libfcgi waits for its peer without a deadline and allocates any length that
 * the peer claims.  So it never reads from the peer.  A request is received
 * here until it is complete and its lengths are valid.  libfcgi then reads it
 * from a memory file and writes the answer to that file, which is sent from
 * here.
 */

#include "server/fcgi.h"

#include "base/metrics.h"

#include <endian.h>
#include <errno.h>
#include <fastcgi.h>
#include <fcgiapp.h>
#include <fcntl.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define NOEXEC_SEAL 0x0008U /* MFD_NOEXEC_SEAL, for vm.memfd_noexec=2 */
#define PARAMS_MAX 65535    /* one record; nginx never sends more */
/* Parameters, a body, and two records beyond its kept part. */
#define REQUEST_ROOM (256 * 1024)
#define ANSWER_ROOM                                                            \
    (FCGI_ANSWER_MAX + 64 * 1024) /* including record headers                  \
                                   */
#define ROOM ((size_t) (REQUEST_ROOM + ANSWER_ROOM))
#define DRAIN_MAX (1024 * 1024) /* of a body that is too large */

/* Contains tokens and credentials; wiped after each request. */
struct fcgi_exchange {
    FCGX_Request req;
    int fd;
    int64_t deadline_us;
    enum fcgi_end end; /* the first failure */
    int file;          /* memory file for libfcgi */
    unsigned char
        *raw;   /* mapping of file: the request, followed by the answer */
    size_t len; /* received bytes of the request */
    size_t pos; /* bytes of complete records */
    unsigned id, type; /* of the next record */
    size_t params_len, body_len;
    size_t body_max;
    unsigned char body[];
};

struct fcgi_exchange *fcgi_exchange_new(size_t body_max)
{
    struct fcgi_exchange *ex = calloc(1, sizeof(*ex) + body_max);

    if (ex == NULL) {
        return NULL;
    }
    ex->body_max = body_max;
    FCGX_InitRequest(&ex->req, -1, 0);
    /* Overwrites all freed memory, because libfcgi frees buffers that contain
     * requests and answers. */
    (void) mallopt(M_PERTURB, 0x55);
    ex->file = memfd_create("fcgi", MFD_CLOEXEC | NOEXEC_SEAL);
    if (ex->file < 0) { /* Linux before 6.3 */
        ex->file = memfd_create("fcgi", MFD_CLOEXEC | MFD_ALLOW_SEALING);
    }
    ex->raw = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_SHARED, ex->file, 0);
    if (FCGX_Init() != 0 || ex->raw == MAP_FAILED ||
        ftruncate(ex->file, ROOM) != 0 ||
        fcntl(ex->file, F_ADD_SEALS, F_SEAL_GROW) != 0) {
        fcgi_exchange_free(ex);
        return NULL;
    }
    return ex;
}

void fcgi_exchange_free(struct fcgi_exchange *ex)
{
    if (ex != NULL) {
        FCGX_Free(&ex->req, 1); /* a request without an answer */
        (void) munmap(ex->raw, ROOM);
        close(ex->file);
        free(ex);
    }
}

static bool fail(struct fcgi_exchange *ex, enum fcgi_end why)
{
    ex->end = ex->end == FCGI_WHOLE ? why : ex->end;
    return false;
}

/* Waits, after a failed call, until the peer sends, reads or closes.  False at
 * the deadline or after errors other than EAGAIN. */
static bool wait_for(struct fcgi_exchange *ex, short events)
{
    struct pollfd p = {ex->fd, events, 0};
    int64_t left_us = ex->deadline_us - metrics_now_us();
    int left_ms = left_us > 0 ? (int) (left_us / 1000) + 1 : 0;

    return errno == EAGAIN &&
           (poll(&p, 1, left_ms) != 0 || fail(ex, FCGI_LATE));
}

/* -- reading -- */

/* Receives until n unconsumed bytes are available. */
static bool await(struct fcgi_exchange *ex, size_t n)
{
    while (ex->len - ex->pos < n) {
        ssize_t got;

        if (ex->len == REQUEST_ROOM) {
            return fail(ex, FCGI_GARBAGE);
        }
        got = recv(ex->fd, ex->raw + ex->len, REQUEST_ROOM - ex->len,
                   MSG_DONTWAIT);
        if (got > 0) {
            ex->len += (size_t) got;
        } else if (got == 0 || !wait_for(ex, POLLIN)) {
            return fail(ex, ex->len == 0 ? FCGI_LEFT : FCGI_INCOMPLETE);
        }
    }
    return true;
}

/* Returns true if the lengths of names and values match the record. */
static bool pairs_are_valid(const unsigned char *p, const unsigned char *end)
{
    while (p < end) {
        size_t total = 0;

        for (int i = 0; i < 2; i++) {
            uint32_t n;

            if (p < end && *p < 0x80) {
                total += *p++;
            } else if (end - p >= 4) {
                memcpy(&n, p, 4);
                total += be32toh(n) & INT32_MAX;
                p += 4;
            } else {
                return false;
            }
        }
        if (total > (size_t) (end - p)) {
            return false;
        }
        p += total;
    }
    return true;
}

/* Checks the content of a record and sets the type of the next one, or 0 at the
 * end.  A body that is too large need not arrive completely. */
static bool check_record(struct fcgi_exchange *ex, const unsigned char *content,
                         size_t n)
{
    if (ex->type == FCGI_BEGIN_REQUEST) {
        ex->type = FCGI_PARAMS;
        return n == sizeof(FCGI_BeginRequestBody) && content[0] == 0 &&
               content[1] == FCGI_RESPONDER;
    }
    if (ex->type == FCGI_PARAMS) {
        ex->params_len += n;
        ex->type = n == 0 ? FCGI_STDIN : FCGI_PARAMS;
        return ex->params_len <= PARAMS_MAX &&
               pairs_are_valid(content, content + n);
    }
    ex->body_len += n;
    ex->type = n == 0 || ex->body_len > ex->body_max ? 0 : FCGI_STDIN;
    return true;
}

static bool receive(struct fcgi_exchange *ex)
{
    ex->type = FCGI_BEGIN_REQUEST;
    while (ex->type != 0) {
        const unsigned char *h = ex->raw + ex->pos;
        size_t n, total;
        unsigned id;

        if (!await(ex, FCGI_HEADER_LEN)) {
            return false;
        }
        id = (unsigned) h[2] << 8 | h[3];
        n = (size_t) h[4] << 8 | h[5];
        total = FCGI_HEADER_LEN + n + h[6];
        ex->id = ex->type == FCGI_BEGIN_REQUEST ? id : ex->id;
        if (h[0] != FCGI_VERSION_1 || h[1] != ex->type || id == 0 ||
            id != ex->id) {
            return fail(ex, FCGI_GARBAGE);
        }
        if (!await(ex, total)) {
            return false;
        }
        /* After these records libfcgi takes padding for the next record.  nginx
         * never sends padding there. */
        if ((h[6] != 0 && (ex->type == FCGI_BEGIN_REQUEST || n == 0)) ||
            !check_record(ex, h + FCGI_HEADER_LEN, n)) {
            return fail(ex, FCGI_GARBAGE);
        }
        ex->pos += total;
    }
    return true;
}

static bool parse(struct fcgi_exchange *ex, struct fcgi_call *call)
{
    FCGX_Request *req = &ex->req;
    const char *length;

    /* libfcgi closes its descriptor after an error, so it gets a duplicate.  A
     * "detached" request is closed without waiting for the peer. */
    if (req->ipcFd < 0) {
        req->ipcFd = fcntl(ex->file, F_DUPFD_CLOEXEC, 3);
    }
    req->keepConnection = 1; /* else FCGX_Accept_r() closes ipcFd */
    (void) lseek(ex->file, 0, SEEK_SET);
    if (FCGX_Detach(req) != 0 || FCGX_Accept_r(req) != 0) {
        return fail(ex, FCGI_GARBAGE);
    }
    call->params = req->envp;
    call->body.data = ex->body;
    call->body.len =
        (size_t) FCGX_GetStr((char *) ex->body, (int) ex->body_max, req->in);
    call->body_too_large = ex->body_len > ex->body_max;
    if (FCGX_GetError(req->in) != 0) {
        return fail(ex, FCGI_GARBAGE);
    }
    length = FCGX_GetParam("CONTENT_LENGTH", req->envp);
    return call->body_too_large || length == NULL ||
           strtoull(length, NULL, 10) <= ex->body_len ||
           fail(ex, FCGI_INCOMPLETE); /* the client disconnected */
}

/* Wipes the request and lets libfcgi end its answer and free the request. */
static bool finish(struct fcgi_exchange *ex)
{
    FCGX_Request *req = &ex->req;

    for (char **p = req->envp; req->in != NULL && *p != NULL; p++) {
        OPENSSL_cleanse(*p, strlen(*p));
    }
    OPENSSL_cleanse(ex->raw, ex->len);
    OPENSSL_cleanse(ex->body,
                    ex->body_len < ex->body_max ? ex->body_len : ex->body_max);
    req->keepConnection = 1; /* else ipcFd is closed without an error */
    FCGX_Finish_r(req);
    return req->ipcFd >= 0 || fail(ex, FCGI_LEFT);
}

enum fcgi_end fcgi_read(struct fcgi_exchange *ex, int fd, int64_t deadline_us,
                        struct fcgi_call *call)
{
    ex->fd = fd;
    ex->deadline_us = deadline_us;
    ex->end = FCGI_WHOLE;
    ex->len = ex->pos = ex->params_len = ex->body_len = 0;
    if (!receive(ex) || !parse(ex, call)) {
        (void) finish(ex);
    }
    return ex->end;
}

/* -- answering -- */

static void write_text(struct fcgi_exchange *ex, const struct buf *text)
{
    if (text->len != 0) {
        (void) FCGX_PutStr(text->data, (int) text->len, ex->req.out);
    }
}

static void send_answer(struct fcgi_exchange *ex)
{
    const unsigned char *p = ex->raw + REQUEST_ROOM;
    const unsigned char *end = ex->raw + lseek(ex->file, 0, SEEK_CUR);

    while (p < end && ex->end == FCGI_WHOLE) {
        ssize_t n =
            send(ex->fd, p, (size_t) (end - p), MSG_DONTWAIT | MSG_NOSIGNAL);

        if (n >= 0) {
            p += n;
        } else if (!wait_for(ex, POLLOUT)) {
            (void) fail(ex, FCGI_LEFT);
        }
    }
    OPENSSL_cleanse(ex->raw + REQUEST_ROOM,
                    (size_t) (end - ex->raw) - REQUEST_ROOM);
}

/* Reads until the peer closes.  A peer that is still sending would take a
 * closed connection for a failure and drop the answer. */
static void drain(struct fcgi_exchange *ex)
{
    size_t drained = 0;

    (void) shutdown(ex->fd, SHUT_WR);
    do {
        ex->len = ex->pos = 0;
        (void) await(ex, 1);
        OPENSSL_cleanse(ex->raw, ex->len);
        drained += ex->len;
    } while (ex->len != 0 && drained < DRAIN_MAX);
}

enum fcgi_end fcgi_answer(struct fcgi_exchange *ex, int64_t deadline_us,
                          const struct fcgi_reply *reply)
{
    enum fcgi_end end;

    ex->deadline_us = deadline_us;
    (void) lseek(ex->file, REQUEST_ROOM, SEEK_SET);
    write_text(ex, reply->head);
    write_text(ex, reply->body);
    if (finish(ex)) {
        send_answer(ex);
    }
    end = ex->end;
    if (end == FCGI_WHOLE && ex->body_len > ex->body_max) {
        drain(ex);
    }
    return end;
}
