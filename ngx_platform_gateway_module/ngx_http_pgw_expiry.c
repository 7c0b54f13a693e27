
/*
 * platform_gateway_close_at_expiry: a request that goes on for long, as that of
 * a WebSocket does, ends with its token.  The guard asks once; from then on a
 * timer does, that is the request's own and goes with its pool.
 */


#include "ngx_http_pgw_expiry.h"
#include "ngx_http_pgw_issuer.h"
#include "ngx_http_pgw_request.h"
#include "ngx_http_pgw_revocations.h"


#define NGX_HTTP_PGW_EXPIRY_LOOK  250   /* ms */


typedef struct {
    ngx_event_t                        timer;
    ngx_http_request_t                *request;
    const ngx_http_pgw_revocations_t  *rev;      /* NULL: none */
    ngx_http_pgw_mark_t                mark;     /* in it */
    int64_t                            exp;      /* seconds */
    time_t                             leeway;
} ngx_http_pgw_expiry_t;


static void
ngx_http_pgw_expiry_leave(void *data)
{
    ngx_http_pgw_expiry_t  *expiry = data;

    if (expiry->timer.timer_set) {
        ngx_del_timer(&expiry->timer);
    }
}


/* A response that has not begun is left alone: it may be a short one, and its
   client was let in.  So is one that is done, while its connection lingers. */

static void
ngx_http_pgw_expiry_look(ngx_event_t *ev)
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
        ngx_add_timer(ev, NGX_HTTP_PGW_EXPIRY_LOOK);
        return;
    }

    ngx_http_set_log_request(c->log, r);

    gr->reason = reason;

    /* to nginx it is as if its client had gone */

    ngx_http_finalize_request(r, NGX_ERROR);
    ngx_http_run_posted_requests(c);
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

    /* an earlier location may have begun */

    for (cln = r->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_http_pgw_expiry_leave) {
            break;
        }
    }

    if (cln == NULL) {
        cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_pgw_expiry_t));
        if (cln == NULL) {
            return NGX_ERROR;
        }

        cln->handler = ngx_http_pgw_expiry_leave;
        ngx_memzero(cln->data, sizeof(ngx_http_pgw_expiry_t));
    }

    expiry = cln->data;

    expiry->request = r;
    expiry->rev = ctx->by.issuer->revocations;
    expiry->mark = ctx->grant.mark;
    expiry->exp = ctx->grant.exp;
    expiry->leeway = ngx_http_pgw_issuer_leeway(ctx->by.issuer, conf);

    expiry->timer.handler = ngx_http_pgw_expiry_look;
    expiry->timer.data = expiry;
    expiry->timer.log = r->connection->log;

    /* a worker that exits does not wait for it */

    expiry->timer.cancelable = 1;

    ngx_add_timer(&expiry->timer, NGX_HTTP_PGW_EXPIRY_LOOK);

    return NGX_OK;
}
