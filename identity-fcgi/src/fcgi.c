/* One FastCGI request through libfcgi, of which this is the only user. */

#include "fcgi.h"

#include <fcgiapp.h>
#include <fcntl.h>
#include <malloc.h>
#include <openssl/crypto.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DRAIN_MAX_BYTES (1024 * 1024) /* of a body too large to be served */

struct fcgi_exchange {
    FCGX_Request req;
    unsigned char *body; /* may hold a credential: wiped with its request */
    size_t body_max;
    size_t body_len;
};

bool fcgi_init(void)
{
    bool ok = FCGX_Init() == 0;

    /* Whatever is freed is overwritten: libfcgi frees buffers with requests
     * and answers in them. */
    (void) mallopt(M_PERTURB, 0x55);
    (void) signal(SIGPIPE, SIG_IGN);
    (void) signal(SIGUSR1, SIG_IGN);
    (void) signal(SIGTERM, SIG_DFL);
    return ok;
}

struct fcgi_exchange *fcgi_exchange_new(size_t body_max)
{
    struct fcgi_exchange *ex = calloc(1, sizeof(*ex));

    if (ex == NULL) {
        return NULL;
    }
    ex->body = malloc(body_max + 1);
    if (ex->body == NULL) {
        free(ex);
        return NULL;
    }
    ex->body_max = body_max;
    FCGX_InitRequest(&ex->req, -1, 0);
    return ex;
}

void fcgi_exchange_free(struct fcgi_exchange *ex)
{
    if (ex != NULL) {
        FCGX_Free(&ex->req, 0);
        free(ex->body);
        free(ex);
    }
}

/*
 * Gives libfcgi a descriptor of its own to the connection.  libfcgi closes
 * its descriptor on any error, inside its calls; ours stays valid, so that
 * the sweep can shut the connection down at a deadline without a race.
 * "Detached" makes that close a plain one: otherwise libfcgi waits up to two
 * seconds, and again for each byte, for the peer to close first.
 */
static bool lend(FCGX_Request *req, int fd)
{
    req->ipcFd = fcntl(fd, F_DUPFD_CLOEXEC, 3);
    if (req->ipcFd < 0) {
        return false;
    }
    /* FCGX_Accept_r() first finishes "the last request": it must not close
     * the connection that it is about to read. */
    req->keepConnection = 1;
    /* Where it would accept another connection it must fail instead. */
    req->listen_sock = -1;
    return FCGX_Detach(req) == 0;
}

/* The memory of its streams libfcgi frees with the request: see fcgi_init().
 */
static void wipe(struct fcgi_exchange *ex)
{
    for (char **p = ex->req.envp; p != NULL && *p != NULL; p++) {
        OPENSSL_cleanse(*p, strlen(*p));
    }
    OPENSSL_cleanse(ex->body, ex->body_len);
    ex->body_len = 0;
}

static void take_back(FCGX_Request *req)
{
    if (req->ipcFd >= 0) {
        close(req->ipcFd);
        req->ipcFd = -1;
    }
}

/* Whether less came than CONTENT_LENGTH says: the client went away. */
static bool is_cut_off(const FCGX_Request *req, size_t len)
{
    const char *text = FCGX_GetParam("CONTENT_LENGTH", req->envp);

    return text != NULL && strtoull(text, NULL, 10) > len;
}

/* Reads the body to its end; false when it does not arrive whole. */
static bool read_body(struct fcgi_exchange *ex, struct fcgi_call *call)
{
    FCGX_Request *req = &ex->req;
    size_t max = ex->body_max;
    char scrap[4096];
    size_t drained = 0;
    int n = FCGX_GetStr((char *) ex->body, (int) max + 1, req->in);

    ex->body_len = (size_t) n;
    call->body_too_large = (size_t) n > max;
    call->body.data = ex->body;
    call->body.len = call->body_too_large ? max : (size_t) n;
    while (n > 0 && !FCGX_HasSeenEOF(req->in)) {
        n = FCGX_GetStr(scrap, sizeof(scrap), req->in);
        drained += (size_t) n;
        if (drained > DRAIN_MAX_BYTES) {
            return false;
        }
    }
    return FCGX_GetError(req->in) == 0 &&
           (call->body_too_large || !is_cut_off(req, call->body.len));
}

static void write_reply(FCGX_Request *req, const struct fcgi_reply *reply)
{
    if (reply->head.len != 0) {
        (void) FCGX_PutStr((const char *) reply->head.data,
                           (int) reply->head.len, req->out);
    }
    if (reply->body.len != 0) {
        (void) FCGX_PutStr((const char *) reply->body.data,
                           (int) reply->body.len, req->out);
    }
}

bool fcgi_read(struct fcgi_exchange *ex, int fd, struct fcgi_call *call)
{
    FCGX_Request *req = &ex->req;

    if (!lend(req, fd)) {
        take_back(req);
        return false;
    }
    if (FCGX_Accept_r(req) != 0) {
        return false;
    }
    call->params = req->envp;
    if (read_body(ex, call)) {
        return true;
    }
    wipe(ex);
    FCGX_Free(req, 1); /* finishing it would send half an answer */
    return false;
}

bool fcgi_answer(struct fcgi_exchange *ex, const struct fcgi_reply *reply)
{
    FCGX_Request *req = &ex->req;
    bool keep;

    wipe(ex);
    write_reply(req, reply);
    FCGX_Finish_r(req);
    /* libfcgi has closed its descriptor if anything went wrong. */
    keep = req->keepConnection && req->ipcFd >= 0;
    take_back(req);
    return keep;
}
