
/*
 * Leases: which worker fetches, and when.
 */


#include "issuer/issuer.h"

#include <openssl/hmac.h>


/* The lease is longer than the timeout, so that only a dead worker loses it. */
#define NGX_HTTP_PGW_LEASE_SLACK  2000  /* ms */


ngx_int_t
ngx_http_pgw_lease_digest(u_char *hex, const ngx_str_t *text, ngx_uint_t n)
{
    u_char  md[EVP_MAX_MD_SIZE];

    for ( /* void */ ; n; n--, text++) {

        if (!HMAC(EVP_sha256(), hex, NGX_HTTP_PGW_DIGEST, text->data,
                  text->len, md, 0))
        {
            return NGX_ERROR;
        }

        ngx_hex_dump(hex, md, NGX_HTTP_PGW_DIGEST / 2);
    }

    return NGX_OK;
}


ngx_uint_t
ngx_http_pgw_lease_fetches(const ngx_http_pgw_main_conf_t *mcf,
    const ngx_http_core_loc_conf_t *clcf)
{
    const ngx_http_pgw_source_t  *from;

    for (from = mcf->sources; from; from = from->next) {
        if (from->clcf && from->clcf->name.data == clcf->name.data) {
            return 1;
        }
    }

    return 0;
}


void
ngx_http_pgw_lease_connect(ngx_http_pgw_source_t *from,
    const ngx_shm_zone_t *shm_zone, ngx_http_pgw_lease_t *lease)
{
    from->shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;
    from->lease = lease;

    /* the first worker puts it in force, because the reload may fail */

    from->generation = ++lease->assigned;
}


void
ngx_http_pgw_lease_start(ngx_http_pgw_source_t *from)
{
    from->timer.data = from->data;
    from->timer.log = from->log;
    from->timer.cancelable = 1;
    from->begin.data = from->data;
    from->begin.log = from->log;

    ngx_add_timer(&from->timer, 1);
}


ngx_int_t
ngx_http_pgw_lease_activate(const ngx_http_pgw_source_t *from)
{
    ngx_uint_t             changed;
    ngx_http_pgw_lease_t  *lease = from->lease;

    if (lease->generation >= from->generation) {
        return NGX_DECLINED;
    }

    /* the cached time is older than the fork */

    ngx_time_update();

    changed = ngx_memcmp(lease->source, from->source, NGX_HTTP_PGW_DIGEST)
              != 0;

    /* the fetch of an older worker starts no cooldown, and is not accepted */

    if (changed || ngx_http_pgw_lease_left(lease->until)) {
        lease->next_try = ngx_current_msec;
    }

    lease->generation = from->generation;
    ngx_memcpy(lease->source, from->source, NGX_HTTP_PGW_DIGEST);
    lease->until = ngx_current_msec;
    lease->number++;

    return changed ? NGX_DONE : NGX_OK;
}


/* Returns 1 if the worker that has the lease is dead. */

static ngx_uint_t
ngx_http_pgw_lease_orphaned(const ngx_http_pgw_lease_t *lease)
{
    return kill(lease->pid, 0) == -1 && ngx_errno == NGX_ESRCH;
}


ngx_int_t
ngx_http_pgw_lease_renew(const ngx_http_pgw_source_t *from)
{
    if (from->lease->number != from->number) {
        return NGX_DECLINED;
    }

    from->lease->until = ngx_current_msec + from->timeout
                         + NGX_HTTP_PGW_LEASE_SLACK;
    return NGX_OK;
}


ngx_int_t
ngx_http_pgw_lease_acquire(ngx_http_pgw_source_t *from)
{
    ngx_http_pgw_lease_t  *lease = from->lease;

    if (ngx_http_pgw_lease_left(lease->until)
        && !ngx_http_pgw_lease_orphaned(lease))
    {
        return NGX_AGAIN;
    }

    if (lease->generation != from->generation
        || ngx_http_pgw_lease_left(lease->next_try)
        || from->fetching || (ngx_exiting && !from->watched))
    {
        return NGX_DECLINED;
    }

    lease->number++;
    lease->pid = ngx_pid;
    lease->began = ngx_current_msec;
    lease->began_at = ngx_time();
    lease->next_try = ngx_current_msec + from->cooldown;

    from->number = lease->number;
    (void) ngx_http_pgw_lease_renew(from);
    from->fetching = 1;

    /* posted, because the caller may be a request that uses the old set */

    ngx_post_event(&from->begin, &ngx_posted_events);

    return NGX_OK;
}


ngx_int_t
ngx_http_pgw_lease_release(ngx_http_pgw_source_t *from)
{
    from->fetching = 0;

    if (from->lease->number != from->number) {
        return NGX_DECLINED;
    }

    from->lease->until = ngx_current_msec;

    return NGX_OK;
}
