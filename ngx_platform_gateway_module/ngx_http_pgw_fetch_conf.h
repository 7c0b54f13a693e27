
#ifndef _NGX_HTTP_PGW_FETCH_CONF_H_INCLUDED_
#define _NGX_HTTP_PGW_FETCH_CONF_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Takes the location of cf, if it is internal, for that of the sources that
   name it and have none yet, until fetch_conf_check looks for it as nginx does. */
void ngx_http_pgw_fetch_conf_claim(ngx_conf_t *cf);

/* Makes from one like as, with data for its handler and the place of cf, and
   adds it to the sources. */
void ngx_http_pgw_fetch_conf_add(ngx_conf_t *cf, ngx_http_pgw_source_t *from,
    const ngx_http_pgw_source_t *as, void *data);

/* Sets from->log. */
void ngx_http_pgw_fetch_conf_log(ngx_conf_t *cf, ngx_http_pgw_source_t *from);

/*
 * Checks the location of the server in from->ctx (NULL: the first that has an
 * internal one of that URI), and adds it to from->source, with where it leads.
 */
char *ngx_http_pgw_fetch_conf_check(ngx_conf_t *cf, ngx_http_pgw_source_t *from);


#endif /* _NGX_HTTP_PGW_FETCH_CONF_H_INCLUDED_ */
