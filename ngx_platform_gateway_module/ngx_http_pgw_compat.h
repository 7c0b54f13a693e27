
/*
 * What differs between the nginx versions that the module builds for.  The
 * only file that tests nginx_version.
 */


#ifndef _NGX_HTTP_PGW_COMPAT_H_INCLUDED_
#define _NGX_HTTP_PGW_COMPAT_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>
#include <ngx_http.h>


#if (nginx_version < 1022000)
#error nginx 1.22 or newer is needed
#endif


/* 1.23.0 chains the header lines of one name. */

static ngx_inline void
ngx_http_pgw_header_unchain(ngx_table_elt_t *h)
{
#if (nginx_version >= 1023000)
    h->next = NULL;
#else
    (void) h;
#endif
}


#endif /* _NGX_HTTP_PGW_COMPAT_H_INCLUDED_ */
