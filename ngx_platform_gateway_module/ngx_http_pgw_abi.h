
#ifndef _NGX_HTTP_PGW_ABI_H_INCLUDED_
#define _NGX_HTTP_PGW_ABI_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Refuses an nginx whose structures are laid out otherwise than those of the
   headers that this was compiled with: NGX_ERROR, and a line says which.  For
   preconfiguration, when nginx's own variables are there. */
ngx_int_t ngx_http_pgw_abi_check(ngx_conf_t *cf);

/* The same of what nginx makes of all locations, which are known by now: for
   postconfiguration.  locations: ngx_http_core_loc_conf_t *. */
ngx_int_t ngx_http_pgw_abi_locations(ngx_conf_t *cf,
    const ngx_array_t *locations);

/* The same of a zone, which nginx has just made: for its init. */
ngx_int_t ngx_http_pgw_abi_zone(const ngx_shm_zone_t *shm_zone);


#endif /* _NGX_HTTP_PGW_ABI_H_INCLUDED_ */
