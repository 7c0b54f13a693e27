
/*
 * What the two halves of the access log share: the fields of an entry
 * (log_fields.c) and how it is written (log.c).
 */


#ifndef _NGX_HTTP_PLATFORM_GATEWAY_LOG_H_INCLUDED_
#define _NGX_HTTP_PLATFORM_GATEWAY_LOG_H_INCLUDED_


#include "ngx_http_platform_gateway.h"


typedef enum {
    NGX_HTTP_PLATFORM_GATEWAY_LOG_NULL = 0,
    NGX_HTTP_PLATFORM_GATEWAY_LOG_STRING,      /* to be quoted and escaped */
    NGX_HTTP_PLATFORM_GATEWAY_LOG_PLAIN,       /* to be quoted alone */
    NGX_HTTP_PLATFORM_GATEWAY_LOG_NUMBER
} ngx_http_platform_gateway_log_kind_e;


typedef struct {
    ngx_str_t                             text;
    ngx_http_platform_gateway_log_kind_e  kind;
} ngx_http_platform_gateway_log_value_t;


typedef struct {
    ngx_http_request_t                          *request;
    const ngx_http_platform_gateway_request_t   *gr;        /* NULL: off in the
                                                               whole server */
    const ngx_http_platform_gateway_loc_conf_t  *conf;
    const ngx_http_upstream_state_t             *upstream;  /* last attempt */
    size_t                                       offset;    /* of the field */
} ngx_http_platform_gateway_log_ctx_t;


/*
 * Sets *value, which is null at first; text is allocated from the request's
 * pool or lives as long as the request.
 */

typedef ngx_int_t (*ngx_http_platform_gateway_log_pt)(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);


typedef struct {
    ngx_str_t                         name;       /* member of the object */
    ngx_str_t                         variable;   /* empty: none of its own */
    ngx_http_platform_gateway_log_pt  get;
    size_t                            offset;     /* what get makes of it */
} ngx_http_platform_gateway_log_field_t;


#define NGX_HTTP_PLATFORM_GATEWAY_LOG_FIELDS  21


/* In the order of the entry. */

extern const ngx_http_platform_gateway_log_field_t
    ngx_http_platform_gateway_log_fields[NGX_HTTP_PLATFORM_GATEWAY_LOG_FIELDS];


/*
 * Writes src as the inside of a JSON string and returns how long that is; with
 * a NULL dst only measures.  What is no UTF-8 becomes U+FFFD.
 */
size_t ngx_http_platform_gateway_log_escape(u_char *dst, const ngx_str_t *src);

/*
 * Bytes of the UTF-8 sequence at p; an ill-formed one (*valid is 0 then) ends
 * before the first byte that cannot continue it.
 */
size_t ngx_http_platform_gateway_log_utf8(const u_char *p, const u_char *last,
    ngx_uint_t *valid);


#endif /* _NGX_HTTP_PLATFORM_GATEWAY_LOG_H_INCLUDED_ */
