
/*
 * Parts of shared memory zones.
 */


#include "ngx_http_pgw_zone.h"


/* What builds before these parts put first is less. */
#define NGX_HTTP_PGW_ZONE_LAYOUT  0x7000000
#define NGX_HTTP_PGW_ZONE_KIND    0x0100000  /* more than a size */


void *
ngx_http_pgw_zone_part(ngx_shm_zone_t *shm_zone, ngx_uint_t kind, size_t size,
    const ngx_str_t *name)
{
    ngx_uint_t                 layout;
    ngx_slab_pool_t           *shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;
    ngx_http_pgw_zone_part_t  *part, *first;

    layout = NGX_HTTP_PGW_ZONE_LAYOUT + kind * NGX_HTTP_PGW_ZONE_KIND + size;

    first = shpool->data;

    if (first && first->layout < NGX_HTTP_PGW_ZONE_LAYOUT) {
        first = NULL;
    }

    for (part = first; part; part = part->next) {
        if (part->layout == layout && part->len == name->len
            && ngx_memcmp((u_char *) part + size, name->data, name->len) == 0)
        {
            return part;
        }
    }

    /* What another build has left here its workers may still be using. */

    part = ngx_slab_calloc(shpool, size + name->len);

    if (part) {
        part->layout = layout;
        part->next = first;
        part->len = name->len;
        ngx_memcpy((u_char *) part + size, name->data, name->len);
        shpool->data = part;
    }

    return part;
}
