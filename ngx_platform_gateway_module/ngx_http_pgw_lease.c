
/*
 * Which worker fetches, and which location: the lease, and the checks of
 * nginx -t.
 */


#include "ngx_http_pgw_lease.h"
#include "ngx_http_pgw_conf.h"
#include "ngx_http_pgw_peek.h"

#include <openssl/hmac.h>


/* The lease outlives the fetch by this, so that only a dead one loses it. */
#define NGX_HTTP_PGW_LEASE_SLACK  2000  /* ms */


ngx_int_t
ngx_http_pgw_lease_digest(u_char *hex, const u_char *data, size_t len)
{
    u_char  md[EVP_MAX_MD_SIZE];

    if (!HMAC(EVP_sha256(), hex, NGX_HTTP_PGW_DIGEST, data, len, md, 0)) {
        return NGX_ERROR;
    }

    ngx_hex_dump(hex, md, NGX_HTTP_PGW_DIGEST / 2);

    return NGX_OK;
}


ngx_uint_t
ngx_http_pgw_lease_fetches(const ngx_http_pgw_main_conf_t *mcf,
    const ngx_http_core_loc_conf_t *clcf)
{
    const ngx_str_t              *name;
    const ngx_http_pgw_source_t  *from;

    for (from = mcf->sources; from; from = from->next) {

        name = from->clcf ? &from->clcf->name : &from->location;

        if (name->len == clcf->name.len
            && ngx_memcmp(name->data, clcf->name.data, name->len) == 0)
        {
            return 1;
        }
    }

    return 0;
}


void
ngx_http_pgw_lease_add(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf,
    ngx_http_pgw_source_t *from, const ngx_http_pgw_source_t *as, void *data)
{
    ngx_http_pgw_place_t  place = from->place;

    *from = *as;
    from->place = place;
    from->data = data;
    from->next = mcf->sources;
    mcf->sources = from;
}


void
ngx_http_pgw_lease_log(ngx_conf_t *cf, ngx_http_pgw_source_t *from)
{
    ngx_http_core_loc_conf_t  *clcf;

    clcf = from->ctx ? from->ctx->loc_conf[ngx_http_core_module.ctx_index]
           : ngx_http_pgw_conf_core(cf);

    from->log = clcf->error_log ? clcf->error_log : &cf->cycle->new_log;
}


/* Finds the location of a source: in the first server that has an internal one
   of that URI. */

static char *
ngx_http_pgw_lease_server(ngx_conf_t *cf, ngx_http_pgw_source_t *from)
{
    void                       **loc_conf;
    ngx_uint_t                   i;
    ngx_http_core_srv_conf_t   **server;
    ngx_http_core_loc_conf_t    *clcf;
    ngx_http_core_main_conf_t   *cmcf = ngx_http_pgw_conf_nginx(cf);

    server = cmcf->servers.elts;

    for (i = 0; i < cmcf->servers.nelts; i++) {

        loc_conf = server[i]->ctx->loc_conf;

        if (ngx_http_pgw_peek_find(NULL, &from->location,
                                   &loc_conf) == NGX_OK) {
            clcf = loc_conf[ngx_http_core_module.ctx_index];

            if (clcf->internal) {
                from->ctx = server[i]->ctx;
                return NGX_CONF_OK;
            }
        }
    }

    return ngx_http_pgw_conf_fail(cf, &from->place,
               "no server has an internal location for the %s of \"%V\": add "
               "\"location = %V { internal; ... }\" to one", from->name,
               &from->location, &from->location);
}


/* What would otherwise only show when the first fetch fails, or never. */

static char *
ngx_http_pgw_lease_location(ngx_conf_t *cf, ngx_http_pgw_source_t *from)
{
    void                           **loc_conf = from->ctx->loc_conf;
    const char                      *fault;
    ngx_http_conf_ctx_t              location;
    ngx_http_core_loc_conf_t        *clcf;
    const ngx_http_pgw_passer_t     *passer;
    const ngx_http_upstream_conf_t  *u;

    if (ngx_http_pgw_peek_find(NULL, &from->location, &loc_conf) != NGX_OK) {
        return ngx_http_pgw_conf_fail(cf, &from->place,
                   "\"%s %V\" names no location of its server: add "
                   "\"location = %V { internal; ... }\"", from->directive,
                   &from->location, &from->location);
    }

    clcf = loc_conf[ngx_http_core_module.ctx_index];
    from->clcf = clcf;

    fault = !clcf->internal ? "must be internal: add \"internal;\""
            : clcf->subrequest_output_buffer_size < from->max
            ? from->too_small : NULL;

    if (fault) {
        return ngx_http_pgw_conf_fail(cf, &from->place,
                   "location \"%V\" of \"%s\" %s to it, or a "
                   "\"location = %V\" of its own,", &clcf->name,
                   from->directive, fault, &from->location);
    }

    location = *from->ctx;
    location.loc_conf = loc_conf;
    passer = NULL;

    while ((u = ngx_http_pgw_peek_passer(cf, &location, &passer)) != NULL) {

#if (NGX_HTTP_CACHE)
        if (clcf->handler && u->cache > 0) {
            return ngx_http_pgw_conf_fail(cf, &from->place,
                       "location \"%V\" of \"%s\" would give old %s from a "
                       "cache: add \"%V_cache off;\" to it,", &clcf->name,
                       from->directive, from->name, &passer->name);
        }
#endif

        from->upstream = u->upstream;
    }

    return NGX_CONF_OK;
}


/*
 * A source is what the caller put into the digest before, and the location and
 * the upstream, as the configuration spells them.  If one of them is another,
 * what was fetched before is not ours.
 */

char *
ngx_http_pgw_lease_check(ngx_conf_t *cf, ngx_http_pgw_source_t *from)
{
    ngx_str_t  host, port;

    if ((from->ctx == NULL
         && ngx_http_pgw_lease_server(cf, from) != NGX_CONF_OK)
        || ngx_http_pgw_lease_location(cf, from) != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_http_pgw_lease_log(cf, from);

    ngx_str_null(&host);
    ngx_str_null(&port);

    if (from->upstream) {
        host = from->upstream->host;
        port.data = (u_char *) &from->upstream->port;
        port.len = sizeof(in_port_t);
    }

    return ngx_http_pgw_lease_digest(from->source, from->location.data,
                                     from->location.len)
           == NGX_OK
           && ngx_http_pgw_lease_digest(from->source, host.data, host.len)
              == NGX_OK
           && ngx_http_pgw_lease_digest(from->source, port.data, port.len)
              == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}


ngx_int_t
ngx_http_pgw_lease_activate(const ngx_http_pgw_source_t *from)
{
    ngx_uint_t             other;
    ngx_http_pgw_lease_t  *lease = from->lease;

    if (lease->generation >= from->generation) {
        return NGX_DECLINED;
    }

    other = ngx_memcmp(lease->source, from->source, NGX_HTTP_PGW_DIGEST)
            != 0;

    /* a fetch that others began starts no cooldown, and is not accepted */

    if (other || ngx_http_pgw_lease_left(lease->until)) {
        lease->next_try = ngx_current_msec;
    }

    lease->generation = from->generation;
    ngx_memcpy(lease->source, from->source, NGX_HTTP_PGW_DIGEST);
    lease->until = ngx_current_msec;
    lease->number++;

    return other ? NGX_DONE : NGX_OK;
}


/* Whether the process that has the lease died with it. */

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
ngx_http_pgw_lease_take(ngx_http_pgw_source_t *from)
{
    ngx_http_pgw_lease_t  *lease = from->lease;

    if (ngx_http_pgw_lease_left(lease->until)
        && !ngx_http_pgw_lease_orphaned(lease))
    {
        return NGX_AGAIN;
    }

    if (lease->generation != from->generation
        || ngx_http_pgw_lease_left(lease->next_try)
        || from->fetching || ngx_exiting)
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

    /* not at once: the caller may be a request that holds the old set */

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
