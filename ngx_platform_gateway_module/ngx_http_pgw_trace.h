
#ifndef _NGX_HTTP_PGW_TRACE_H_INCLUDED_
#define _NGX_HTTP_PGW_TRACE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


/* Where the id of the trace is in a traceparent, and how long that is. */

#define NGX_HTTP_PGW_TRACE_ID      3
#define NGX_HTTP_PGW_TRACE_ID_LEN  32
#define NGX_HTTP_PGW_TRACE_LEN     55    /* of version 00 */

/* platform_gateway_trace */

typedef enum {
    NGX_HTTP_PGW_TRACE_PASS = 0,
    NGX_HTTP_PGW_TRACE_BEGIN,
    NGX_HTTP_PGW_TRACE_OFF
} ngx_http_pgw_trace_e;

extern ngx_conf_enum_t  ngx_http_pgw_trace_modes[];

/* Whether that is a traceparent of version 00, or begins as one and is of a
   later version. */
ngx_uint_t ngx_http_pgw_trace_valid(const ngx_str_t *value);


#endif /* _NGX_HTTP_PGW_TRACE_H_INCLUDED_ */
