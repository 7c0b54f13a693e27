
/*
 * Finds the location of a fetch, and checks it for nginx -t.
 */


#include "conf/conf.h"
#include "issuer/issuer.h"
#include "nginx/nginx.h"


/* Returns 1 if nginx would prefer the location to the location found. */

static ngx_uint_t
ngx_http_pgw_fetch_conf_better(const ngx_http_pgw_source_t *from,
    const ngx_http_core_loc_conf_t *clcf)
{
    const ngx_str_t  *name = &clcf->name;

    return !clcf->noname
           && (clcf->exact_match ? name->len == from->location.len
                                 : name->len <= from->location.len)
           && ngx_memcmp(name->data, from->location.data, name->len) == 0
           && (from->clcf == NULL
               || clcf->exact_match
               || name->len > from->clcf->name.len);
}


void
ngx_http_pgw_fetch_conf_match(ngx_conf_t *cf)
{
    ngx_http_pgw_source_t     *from = ngx_http_pgw_conf_main(cf)->sources;
    ngx_http_core_loc_conf_t  *clcf = ngx_http_pgw_conf_core(cf);
    ngx_http_core_srv_conf_t  *cscf = ngx_http_pgw_conf_server(cf);

    for ( /* void */ ; from && clcf->internal; from = from->next) {

        if ((from->ctx == NULL || from->ctx == cscf->ctx)
            && ngx_http_pgw_fetch_conf_better(from, clcf))
        {
            from->ctx = cscf->ctx;
            from->clcf = clcf;
        }
    }
}


void
ngx_http_pgw_fetch_conf_add(ngx_conf_t *cf, ngx_http_pgw_source_t *from,
    const ngx_http_pgw_source_t *model, void *data)
{
    ngx_http_pgw_main_conf_t  *mcf = ngx_http_pgw_conf_main(cf);

    *from = *model;
    from->data = data;
    from->next = mcf->sources;
    mcf->sources = from;

    ngx_http_pgw_conf_place(cf, &from->place);
}


static void
ngx_http_pgw_fetch_conf_warn(ngx_conf_t *cf, const ngx_http_pgw_source_t *from,
    const ngx_http_conf_ctx_t *location)
{
    if (from->clcf->handler && ngx_http_pgw_peek_unverified(cf, location)) {
        ngx_log_error(NGX_LOG_WARN, cf->log, 0,
                      "platform_gateway: location \"%V\" of \"%s\" fetches "
                      "over https with \"proxy_ssl_verify off\": a forged "
                      "server would be trusted as the issuer: add "
                      "\"proxy_ssl_verify on;\" and \"proxy_ssl_trusted_"
                      "certificate\" to it, in %V:%ui", &from->clcf->name,
                      from->directive, &from->place.file, from->place.line);
    }
}


/*
 * These faults would otherwise show when the first fetch fails, or never.  The
 * caller has already added its part to the digest from->source.
 */

char *
ngx_http_pgw_fetch_conf_check(ngx_conf_t *cf, ngx_http_pgw_source_t *from)
{
    ngx_str_t                        text[3];
    ngx_http_conf_ctx_t              location;
    ngx_http_core_loc_conf_t        *server;
    const ngx_http_pgw_passer_t     *passer = NULL;
    const ngx_http_upstream_conf_t  *u;

    if (from->clcf == NULL) {
        return ngx_http_pgw_conf_fail(cf, &from->place,
                   "no server has an internal location for the %s of \"%V\", "
                   "or not the one where \"%s\" stands: add "
                   "\"location = %V { internal; ... }\"", from->name,
                   &from->location, from->directive, &from->location);
    }

    if (from->clcf->subrequest_output_buffer_size < from->max) {
        return ngx_http_pgw_conf_fail(cf, &from->place,
                   "location \"%V\" of \"%s\" %s to it, or a "
                   "\"location = %V\" of its own,", &from->clcf->name,
                   from->directive, from->too_small, &from->location);
    }

    location.main_conf = from->ctx->main_conf;
    location.srv_conf = from->ctx->srv_conf;
    location.loc_conf = from->clcf->loc_conf;
    ngx_memzero(text, sizeof(text));
    text[0] = from->location;

    while ((u = ngx_http_pgw_peek_passer(cf, &location, &passer)) != NULL) {

#if (NGX_HTTP_CACHE)
        if (from->clcf->handler && u->cache > 0) {
            return ngx_http_pgw_conf_fail(cf, &from->place,
                       "location \"%V\" of \"%s\" would give old %s from a "
                       "cache: add \"%V_cache off;\" to it,",
                       &from->clcf->name, from->directive, from->name,
                       &passer->name);
        }
#endif

        if (u->upstream) {
            text[1] = u->upstream->host;
            text[2].data = (u_char *) &u->upstream->port;
            text[2].len = sizeof(in_port_t);
        }
    }

    ngx_http_pgw_fetch_conf_warn(cf, from, &location);

    server = from->ctx->loc_conf[ngx_http_core_module.ctx_index];
    from->log = server->error_log;

    return ngx_http_pgw_lease_digest(from->source, text, 3) == NGX_OK
           ? NGX_CONF_OK : NGX_CONF_ERROR;
}
