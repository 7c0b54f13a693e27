
/*
 * Decisions: the one table of what each reason means, which the guard, the
 * problems, the access log, the metrics and platform_gateway_explain read.
 */


#ifndef _NGX_HTTP_PGW_REASON_H_INCLUDED_
#define _NGX_HTTP_PGW_REASON_H_INCLUDED_


#include "ngx_http_pgw.h"


/* What a reason can be. */

#define NGX_HTTP_PGW_REASON_REFUSES   0x0001  /* else it lets through */
#define NGX_HTTP_PGW_REASON_VERIFIES  0x0002  /* it is the result of a token */
#define NGX_HTTP_PGW_REASON_NGINX     0x0004  /* nginx itself refuses with this
                                                 status for it */

typedef struct {
    const char                  *name;         /* NULL: the reason is none */
    ngx_uint_t                   flags;
    ngx_uint_t                   status;       /* 0: for others to say */
    const char                  *code;         /* of a refusal, as ... */
    const char                  *detail;       /* ... is its detail */
    const char                  *error;        /* RFC 6750, section 3.1, or
                                                  NULL */
} ngx_http_pgw_reason_t;


extern const ngx_http_pgw_reason_t ngx_http_pgw_reasons[NGX_HTTP_PGW_REASONS];


/* Why r, the state of which is gr, was decided as it was; 0: not known. */
ngx_uint_t ngx_http_pgw_reason(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr);

/* "allow", "deny" or "shadow"; NULL: nobody has decided anything. */
const char *ngx_http_pgw_decision(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr);

/*
 * Our refusal that is being answered, or NULL.  It holds for a response of its
 * status alone, since a later location may answer with another.
 */
const ngx_http_pgw_reason_t *ngx_http_pgw_refusal(
    const ngx_http_pgw_request_t *gr);

/* The reason that a token with this result of its checks gives. */
ngx_http_pgw_reason_e ngx_http_pgw_reason_of_token(pj_err_t err);

/* The reason for which nginx itself refuses with that status; 0: none. */
ngx_http_pgw_reason_e ngx_http_pgw_reason_of_status(ngx_uint_t status);


#endif /* _NGX_HTTP_PGW_REASON_H_INCLUDED_ */
