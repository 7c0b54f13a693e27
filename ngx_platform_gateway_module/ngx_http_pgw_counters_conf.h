
#ifndef _NGX_HTTP_PGW_COUNTERS_CONF_H_INCLUDED_
#define _NGX_HTTP_PGW_COUNTERS_CONF_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Called at postconfiguration: adds the zone of the counters, which has the name
   and the size of the zone of keys. */
char *ngx_http_pgw_counters_conf_init(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);


#endif /* _NGX_HTTP_PGW_COUNTERS_CONF_H_INCLUDED_ */
