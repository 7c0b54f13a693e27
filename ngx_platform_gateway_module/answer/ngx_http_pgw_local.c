
/*
 * Responses of the gateway itself: liveness, readiness, and the refusal of a
 * path that no route serves.
 */


#include "answer/answer.h"
#include "revoked/revoked.h"
#include "issuer/issuer.h"
#include "base/base.h"


ngx_int_t
ngx_http_pgw_local_refuse(ngx_http_request_t *r, ngx_http_pgw_reason_e reason,
    const char *code, const char *detail, time_t retry_after)
{
    ngx_int_t                rc;
    ngx_http_pgw_request_t  *gr = ngx_http_pgw_request_writable(r);

    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    gr->retry_after = retry_after;

    rc = ngx_http_pgw_request_refuse(r, gr, reason, detail);

    gr->code = code;

    return (rc == NGX_ERROR) ? NGX_HTTP_INTERNAL_SERVER_ERROR : rc;
}


static ngx_int_t
ngx_http_pgw_local_health_handler(ngx_http_request_t *r)
{
    ngx_http_pgw_text_t  text = { .request = r };

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    ngx_http_pgw_text_format(&text,
                             "{\"status\":\"UP\",\"service\":\"gateway\"}");

    return ngx_http_pgw_text_send(&text, "application/json");
}


/*
 * Ready if the first issuer, whose directives are outside of blocks, has keys.
 * Unless it has a source of keys, the keys of any other issuer are enough.  The
 * feed of the first issuer must have been read to its end once, and must not be
 * stale under "refuse".
 */

static ngx_int_t
ngx_http_pgw_local_ready_handler(ngx_http_request_t *r)
{
    ngx_uint_t                  first_only;
    ngx_http_pgw_issuer_t      *first = ngx_http_pgw_main(r)->issuers;
    ngx_http_pgw_issuer_t      *issuer, *missing = NULL;
    ngx_http_pgw_revocations_t  *rev = first->revocations;

    first_only = ngx_http_pgw_issuer_usable(first);

    for (issuer = first; issuer; issuer = first_only ? NULL : issuer->next) {

        if (ngx_http_pgw_issuer_usable(issuer)) {
            missing = ngx_http_pgw_keys_get(issuer) ? NULL : issuer;

            if (missing == NULL) {
                break;
            }
        }
    }

    if (missing) {
        return ngx_http_pgw_local_refuse(r,
                   NGX_HTTP_PGW_REASON_KEYS_UNAVAILABLE, NULL,
                   "no key set has been loaded yet",
                   ngx_http_pgw_keys_retry_after(missing));
    }

    if (rev && (rev->refuse ? ngx_http_pgw_revocations_stale(rev)
                : !ngx_http_pgw_revocations_whole(rev->zone)))
    {
        return ngx_http_pgw_local_refuse(r,
                   NGX_HTTP_PGW_REASON_REVOCATIONS_STALE, NULL,
                   ngx_http_pgw_revocations_whole(rev->zone)
                   ? "the feed of revocations is stale"
                   : "the revocations have not all been read yet", 1);
    }

    return ngx_http_pgw_local_health_handler(r);
}


static ngx_int_t
ngx_http_pgw_local_not_found_handler(ngx_http_request_t *r)
{
    return ngx_http_pgw_local_refuse(r, NGX_HTTP_PGW_REASON_ROUTE_NOT_FOUND,
                                     NULL, NULL, 0);
}


ngx_http_pgw_content_t  ngx_http_pgw_local_health =
    { .handler = ngx_http_pgw_local_health_handler, .methods = NGX_HTTP_GET };

ngx_http_pgw_content_t  ngx_http_pgw_local_ready =
    { .handler = ngx_http_pgw_local_ready_handler, .methods = NGX_HTTP_GET };

ngx_http_pgw_content_t  ngx_http_pgw_local_route_not_found =
    { .handler = ngx_http_pgw_local_not_found_handler, .not_found = 1 };
