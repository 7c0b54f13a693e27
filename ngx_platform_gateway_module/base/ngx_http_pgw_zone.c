
/*
 * Parts of shared memory zones.
 */


#include "base/base.h"


void *
ngx_http_pgw_zone_part(ngx_shm_zone_t *shm_zone, ngx_uint_t kind, size_t size,
    const ngx_str_t *name)
{
    const void                *text = name->len ? name->data : (u_char *) "";
    ngx_slab_pool_t           *shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;
    ngx_http_pgw_zone_part_t  *part;

    for (part = shpool->data; part; part = part->next) {
        if (part->kind == kind && part->len == name->len
            && ngx_memcmp((u_char *) part + size, text, name->len) == 0)
        {
            return part;
        }
    }

    part = ngx_slab_calloc(shpool, size + name->len);

    if (part) {
        part->kind = kind;
        part->next = shpool->data;
        part->len = name->len;
        ngx_memcpy((u_char *) part + size, text, name->len);
        shpool->data = part;
    }

    return part;
}
