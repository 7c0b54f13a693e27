
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


#endif /* _NGX_HTTP_PLATFORM_GATEWAY_LOG_H_INCLUDED_ */
