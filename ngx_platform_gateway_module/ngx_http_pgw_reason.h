
/*
 * Why requests were let through or refused: the closed set of names that the
 * access log, the metrics and platform_gateway_explain share.
 */


#ifndef _NGX_HTTP_PGW_REASON_H_INCLUDED_
#define _NGX_HTTP_PGW_REASON_H_INCLUDED_


#include "ngx_http_pgw.h"


/*
 * An index into the set.  It begins with ngx_http_pgw_reason_e;
 * what only some of those say, and what nginx itself refuses, follows.
 */

enum {
    NGX_HTTP_PGW_REASON_TOKEN_ENCODING = NGX_HTTP_PGW_REASON_LAST,
    NGX_HTTP_PGW_REASON_TOKEN_JSON,
    NGX_HTTP_PGW_REASON_TOKEN_SIZE,
    NGX_HTTP_PGW_REASON_TOKEN_SHAPE,
    NGX_HTTP_PGW_REASON_TOKEN_HEADER,
    NGX_HTTP_PGW_REASON_TOKEN_ALG,
    NGX_HTTP_PGW_REASON_TOKEN_TYP,
    NGX_HTTP_PGW_REASON_TOKEN_CRIT,
    NGX_HTTP_PGW_REASON_TOKEN_KID,
    NGX_HTTP_PGW_REASON_TOKEN_SIGNATURE,
    NGX_HTTP_PGW_REASON_TOKEN_CLAIMS,
    NGX_HTTP_PGW_REASON_TOKEN_ISSUER,
    NGX_HTTP_PGW_REASON_TOKEN_AUDIENCE,
    NGX_HTTP_PGW_REASON_TOKEN_BOUND,
    NGX_HTTP_PGW_REASON_TOKEN_NOT_YET,
    NGX_HTTP_PGW_REASON_TOKEN_KIND,

    NGX_HTTP_PGW_REASON_REQUEST_TOO_LARGE,
    NGX_HTTP_PGW_REASON_URI_TOO_LONG,
    NGX_HTTP_PGW_REASON_RATE_LIMITED,

    NGX_HTTP_PGW_REASONS              /* how many */
};


/* What a reason can be. */

#define NGX_HTTP_PGW_REASON_REFUSES   0x0001
#define NGX_HTTP_PGW_REASON_VERIFIES  0x0002  /* it is the result
                                                              of a token */

typedef struct {
    const char                  *name;         /* NULL: the reason is none */
    ngx_uint_t                   flags;
} ngx_http_pgw_reason_t;


extern const ngx_http_pgw_reason_t ngx_http_pgw_reasons[NGX_HTTP_PGW_REASONS];


/* Why r, the state of which is gr, was decided as it was; 0: not known. */
ngx_uint_t ngx_http_pgw_reason(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr);

/* "allow", "deny" or "shadow"; NULL: nobody has decided anything. */
const char *ngx_http_pgw_decision(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr);

/* The reason that a token with this result of its checks gives. */
ngx_uint_t ngx_http_pgw_reason_of_token(pj_err_t err);


#endif /* _NGX_HTTP_PGW_REASON_H_INCLUDED_ */
