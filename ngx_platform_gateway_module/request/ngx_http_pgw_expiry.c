
/*
 * platform_gateway_close_at_expiry: a long response, such as a WebSocket, ends
 * with its token.  The guard checks the token once; afterwards a timer of the
 * request does.
 */


#include "request/request.h"
#include "revoked/revoked.h"
#include "issuer/issuer.h"
#include "base/base.h"


#define NGX_HTTP_PGW_EXPIRY_INTERVAL  250   /* ms */


/* A token whose end also ends its response. */

typedef struct {
    ngx_event_t                        timer;
    ngx_http_request_t                *request;
    ngx_http_pgw_revocations_t        *rev;      /* NULL: none */
    ngx_http_pgw_mark_t                mark;     /* in it */
    int64_t                            exp;      /* seconds */
    time_t                             leeway;
} ngx_http_pgw_expiry_t;


static void
ngx_http_pgw_expiry_unwatch(void *data)
{
    ngx_http_pgw_expiry_t  *expiry = data;

    if (expiry->timer.timer_set) {
        ngx_del_timer(&expiry->timer);
    }

    if (expiry->rev) {
        ngx_http_pgw_poll_watch(expiry->rev, -1);
        expiry->rev = NULL;
    }
}


/*
 * Ends a response that has begun, so that its client sees that the response is
 * incomplete.  nginx terminates r, with all its subrequests and upstreams, as
 * for "return 444".
 */

static void
ngx_http_pgw_expiry_end(ngx_http_request_t *r)
{
    struct linger      at_once = { 1, 0 };
    ngx_connection_t  *c = r->connection;
#if (NGX_HTTP_V2)
    ngx_connection_t  *h2 = r->stream ? r->stream->connection->connection
                                      : NULL;
#endif

    /* if the end of the connection ends the body, only a reset shows that the
       body is incomplete */

    if (r->http_version < NGX_HTTP_VERSION_20
        && r->headers_out.status != NGX_HTTP_SWITCHING_PROTOCOLS
        && r->headers_out.content_length_n == -1
        && !r->chunked)
    {
        (void) setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &at_once,
                          sizeof(struct linger));
    }

    /*
     * Each upstream that nginx closes decrements the count.  Without our
     * increment r would be freed while nginx terminates it, or its connection
     * would be kept alive.
     */

    r->main->count++;

    ngx_http_finalize_request(r, NGX_HTTP_CLOSE);
    ngx_http_run_posted_requests(c);

#if (NGX_HTTP_V2)

    /* nginx has queued RST_STREAM, but sends it with the next frame only */

    if (h2) {
        ngx_post_event(h2->write, &ngx_posted_events);
    }

#endif
}


/* Leaves a response alone that has not begun, since the client was admitted and
   the response may be short, and one that is complete. */

static void
ngx_http_pgw_expiry_expire(ngx_event_t *ev)
{
    ngx_connection_t        *c;
    ngx_http_request_t      *r;
    ngx_http_pgw_reason_e    reason;
    ngx_http_pgw_expiry_t   *expiry = ev->data;
    ngx_http_pgw_request_t  *gr;

    r = expiry->request;
    c = r->connection;
    gr = ngx_http_pgw_request_get(r);

    reason = expiry->rev
             && ngx_http_pgw_revocations_check(expiry->rev, &expiry->mark)
                == NGX_HTTP_PGW_REASON_SESSION_REVOKED
             ? NGX_HTTP_PGW_REASON_CLOSED_REVOKED
             : ngx_time() - expiry->leeway >= expiry->exp
             ? NGX_HTTP_PGW_REASON_CLOSED_EXPIRED : NGX_HTTP_PGW_REASON_NONE;

    if (!reason || !r->header_sent || r->done) {
        ngx_add_timer(ev, NGX_HTTP_PGW_EXPIRY_INTERVAL);
        return;
    }

    ngx_http_set_log_request(c->log, r);

    gr->reason = reason;

    ngx_http_pgw_expiry_end(r);
}


ngx_int_t
ngx_http_pgw_expiry_watch(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_ctx_t *ctx)
{
    ngx_pool_cleanup_t     *cln;
    ngx_http_pgw_expiry_t  *expiry;

    if (!conf->close_at_expiry || conf->shadow || r != r->main) {
        return NGX_OK;
    }

    /* an earlier location may have started the timer */

    for (cln = r->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_http_pgw_expiry_unwatch) {
            break;
        }
    }

    if (cln == NULL) {
        cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_pgw_expiry_t));
        if (cln == NULL) {
            return NGX_ERROR;
        }

        cln->handler = ngx_http_pgw_expiry_unwatch;
        ngx_memzero(cln->data, sizeof(ngx_http_pgw_expiry_t));
    }

    expiry = cln->data;
    ngx_http_pgw_expiry_unwatch(expiry);

    expiry->request = r;
    expiry->rev = ctx->keys.issuer->revocations;
    expiry->mark = ctx->grant.mark;
    expiry->exp = ctx->grant.exp;
    expiry->leeway = ngx_http_pgw_issuer_leeway(ctx->keys.issuer, conf);

    expiry->timer.handler = ngx_http_pgw_expiry_expire;
    expiry->timer.data = expiry;
    expiry->timer.log = r->connection->log;

    ngx_add_timer(&expiry->timer, NGX_HTTP_PGW_EXPIRY_INTERVAL);

    if (expiry->rev) {
        ngx_http_pgw_poll_watch(expiry->rev, 1);
    }

    return NGX_OK;
}
