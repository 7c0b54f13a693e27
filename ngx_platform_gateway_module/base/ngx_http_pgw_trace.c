
/*
 * The header traceparent (W3C Trace Context, level 1).
 */


#include "base/base.h"


ngx_conf_enum_t  ngx_http_pgw_trace_modes[] = {
    { ngx_string("pass"), NGX_HTTP_PGW_TRACE_PASS },
    { ngx_string("begin"), NGX_HTTP_PGW_TRACE_BEGIN },
    { ngx_string("off"), NGX_HTTP_PGW_TRACE_OFF },
    { ngx_null_string, 0 }
};


/* strspn() is safe, because nginx ends values of headers by a zero byte. */

ngx_uint_t
ngx_http_pgw_trace_valid(const ngx_str_t *value)
{
    const char  *p = (const char *) value->data;

    static const char  hex[] = "0123456789abcdef";

    /* "version-trace-parent-flags"; later versions may add fields */

    return value->len >= NGX_HTTP_PGW_TRACE_LEN
           && p[2] == '-' && p[35] == '-' && p[52] == '-'
           && strspn(p, hex) == 2
           && strspn(p + 3, hex) == NGX_HTTP_PGW_TRACE_ID_LEN
           && strspn(p + 3, "0") < NGX_HTTP_PGW_TRACE_ID_LEN
           && strspn(p + 36, hex) == 16
           && strspn(p + 36, "0") < 16
           && strspn(p + 53, hex) == 2
           && strncmp(p, "ff", 2) != 0
           && (value->len == NGX_HTTP_PGW_TRACE_LEN
               || (strncmp(p, "00", 2) != 0
                   && p[NGX_HTTP_PGW_TRACE_LEN] == '-'));
}
