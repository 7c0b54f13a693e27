
/*
 * The table of reasons.
 */


#include "base/base.h"


#define PGW_REFUSES   NGX_HTTP_PGW_REASON_REFUSES
#define PGW_VERIFIES  NGX_HTTP_PGW_REASON_VERIFIES
#define PGW_NGINX     NGX_HTTP_PGW_REASON_REFUSES|NGX_HTTP_PGW_REASON_NGINX

#define PGW_TOKEN(name, detail, errors)                                       \
    name, PGW_REFUSES|PGW_VERIFIES, 401, "GATEWAY_TOKEN_INVALID", detail,     \
    "invalid_token", errors

#define PGW_PROOF(name, detail)                                               \
    name, PGW_REFUSES, 401, "GATEWAY_PROOF_INVALID", detail,                  \
    "invalid_dpop_proof", 0

#define PGW_ERROR(error)                                                      \
    PGW_TOKEN(ngx_http_pgw_name_##error, ngx_http_pgw_detail_##error,         \
              PJ_FAULT(PJ_ERR_##error))

/* The names and texts of pj's errors. */

#define PGW_TEXTS(error, name, detail)                                        \
    __attribute__ ((unused)) static const char                                \
        ngx_http_pgw_name_##error[] = name,                                   \
        ngx_http_pgw_detail_##error[] = detail;

PJ_ERRORS(PGW_TEXTS)


#define PGW_ROW(reason, ...)  [NGX_HTTP_PGW_REASON_##reason] = { __VA_ARGS__ },

const ngx_http_pgw_reason_t  ngx_http_pgw_reasons[NGX_HTTP_PGW_REASONS] = {
    NGX_HTTP_PGW_REASON_LIST(PGW_ROW)
};


ngx_http_pgw_reason_e
ngx_http_pgw_reason_of_token(pj_err_t err)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_PGW_REASONS; i++) {
        if (ngx_http_pgw_reasons[i].errors & PJ_FAULT(err)) {
            return (ngx_http_pgw_reason_e) i;
        }
    }

    return NGX_HTTP_PGW_REASON_TOKEN_INVALID;    /* an internal error */
}


ngx_http_pgw_reason_e
ngx_http_pgw_reason_of_status(ngx_uint_t status)
{
    ngx_uint_t  i;

    for (i = 0; status && i < NGX_HTTP_PGW_REASONS; i++) {

        if ((ngx_http_pgw_reasons[i].flags & NGX_HTTP_PGW_REASON_NGINX)
            && ngx_http_pgw_reasons[i].status == status)
        {
            return (ngx_http_pgw_reason_e) i;
        }
    }

    return NGX_HTTP_PGW_REASON_NONE;
}
