
/*
 * The header traceparent (W3C Trace Context, level 1).
 */


#include "ngx_http_pgw_trace.h"


ngx_conf_enum_t  ngx_http_pgw_trace_modes[] = {
    { ngx_string("pass"), NGX_HTTP_PGW_TRACE_PASS },
    { ngx_string("begin"), NGX_HTTP_PGW_TRACE_BEGIN },
    { ngx_string("off"), NGX_HTTP_PGW_TRACE_OFF },
    { ngx_null_string, 0 }
};


/* Whether n digits are in lower case, and not all of them "0" where that says
   that there is no id. */

static ngx_uint_t
ngx_http_pgw_trace_hex(const u_char *p, size_t n, ngx_uint_t id)
{
    ngx_uint_t  any = !id;

    for ( /* void */ ; n; n--, p++) {

        if ((*p < '0' || *p > '9') && (*p < 'a' || *p > 'f')) {
            return 0;
        }

        any |= (*p != '0');
    }

    return any;
}


ngx_uint_t
ngx_http_pgw_trace_valid(const ngx_str_t *value)
{
    const u_char  *p = value->data;

    /* version-trace-parent-flags, and later more */

    if (value->len < NGX_HTTP_PGW_TRACE_LEN
        || p[2] != '-' || p[35] != '-' || p[52] != '-'
        || !ngx_http_pgw_trace_hex(p, 2, 0)
        || !ngx_http_pgw_trace_hex(p + NGX_HTTP_PGW_TRACE_ID,
                                   NGX_HTTP_PGW_TRACE_ID_LEN, 1)
        || !ngx_http_pgw_trace_hex(p + 36, 16, 1)
        || !ngx_http_pgw_trace_hex(p + 53, 2, 0)
        || (p[0] == 'f' && p[1] == 'f'))
    {
        return 0;
    }

    return value->len == NGX_HTTP_PGW_TRACE_LEN
           || ((p[0] != '0' || p[1] != '0')
               && p[NGX_HTTP_PGW_TRACE_LEN] == '-');
}
