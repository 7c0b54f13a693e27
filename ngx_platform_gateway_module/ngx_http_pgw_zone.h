
/*
 * Parts of shared memory zones.  A part is found again by its kind and a
 * name, so it lasts as long as its zone does: over reloads.  nginx keeps a zone
 * for the very module that made it: another build gets a new one.
 */


#ifndef _NGX_HTTP_PGW_ZONE_H_INCLUDED_
#define _NGX_HTTP_PGW_ZONE_H_INCLUDED_


#include <ngx_config.h>
#include <ngx_core.h>


enum {
    NGX_HTTP_PGW_ZONE_KEYS = 0,
    NGX_HTTP_PGW_ZONE_REVOKED,
    NGX_HTTP_PGW_ZONE_COUNTERS,
    NGX_HTTP_PGW_ZONE_ROUTE,
    NGX_HTTP_PGW_ZONE_FETCHES,
    NGX_HTTP_PGW_ZONE_PAGES
};


/* A part begins with it. */

typedef struct ngx_http_pgw_zone_part_s  ngx_http_pgw_zone_part_t;

struct ngx_http_pgw_zone_part_s {
    ngx_uint_t                 kind;
    ngx_http_pgw_zone_part_t  *next;
    size_t                     len;     /* of the name, which ends the part */
};


/*
 * The part of that kind and name, made of zeroes where there is none.  Called
 * by the master process alone, which never takes one away: readers need no
 * lock.  NULL: the zone is too small.
 */
void *ngx_http_pgw_zone_part(ngx_shm_zone_t *shm_zone, ngx_uint_t kind,
    size_t size, const ngx_str_t *name);


#endif /* _NGX_HTTP_PGW_ZONE_H_INCLUDED_ */
