/* What handlers are given: the process's shared parts and the worker's own. */

#ifndef APP_H_INCLUDED
#define APP_H_INCLUDED

#include "auth/keys.h"
#include "base/config.h"
#include "base/http.h"
#include "store/store.h"

#include <pj.h>
#include <stdint.h>

/* Parsed tokens, bodies and rows of one request. */
#define WORKER_ARENA_BYTES (4 * 1024 * 1024)

/* One per thread; nothing in it is shared. */
struct worker {
    const struct config *cfg;
    struct store store;     /* this thread's way to the database */
    struct keys *keys;      /* for the request in hand */
    const pj_key_t *signer; /* of keys, this thread's alone */
    size_t number;          /* of this thread, from 0 */
    pj_arena_t arena;       /* reset before every request */
    int64_t now_s;          /* time of the request in hand */
    int64_t deadline_ms;    /* CLOCK_MONOTONIC: end of all waiting */
};

/* A handler fills res; it never fails, a problem is an answer too. */
typedef void (*handler_fn)(struct worker *w, const struct http_request *req,
                           struct http_response *res);

void h_login(struct worker *w, const struct http_request *req,
             struct http_response *res);
void h_refresh(struct worker *w, const struct http_request *req,
               struct http_response *res);
void h_select_branch(struct worker *w, const struct http_request *req,
                     struct http_response *res);
void h_logout(struct worker *w, const struct http_request *req,
              struct http_response *res);
void h_jwks(struct worker *w, const struct http_request *req,
            struct http_response *res);
void h_healthz(struct worker *w, const struct http_request *req,
               struct http_response *res);
void h_readyz(struct worker *w, const struct http_request *req,
              struct http_response *res);
void h_info(struct worker *w, const struct http_request *req,
            struct http_response *res);
void h_prometheus(struct worker *w, const struct http_request *req,
                  struct http_response *res);

#endif
