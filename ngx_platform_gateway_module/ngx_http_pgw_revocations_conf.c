
/*
 * The directives of revocations, and their zone.
 */


#include "ngx_http_pgw_revocations_conf.h"
#include "ngx_http_pgw_conf.h"
#include "ngx_http_pgw_feed.h"
#include "ngx_http_pgw_lease.h"
#include "ngx_http_pgw_peek.h"
#include "ngx_http_pgw_poll.h"
#include "ngx_http_pgw_revocations.h"

#include <openssl/rand.h>


#define NGX_HTTP_PGW_REVOKED_MIN_ZONE  (128 * 1024)


static char *
ngx_http_pgw_revocations_conf_parameter(ngx_conf_t *cf,
    ngx_http_pgw_revocations_t *rev, const ngx_str_t *value)
{
    ngx_str_t   text;
    ngx_msec_t  ms;

    text.data = (u_char *) ngx_strchr(value->data, '=');

    if (text.data++) {
        text.len = (size_t) (value->data + value->len - text.data);

        if (ngx_strncmp(value->data, "zone=", 5) == 0) {
            return ngx_http_pgw_conf_zone(cf, &text, "revocations:16m",
                                          NGX_HTTP_PGW_REVOKED_MIN_ZONE,
                                          &rev->zone_name, &rev->zone_size);
        }

        if (ngx_strncmp(value->data, "uri=/", 5) == 0) {
            rev->from.location = text;
            return NGX_CONF_OK;
        }

        if (ngx_strncmp(value->data, "claim=", 6) == 0 && text.len) {
            rev->claim = text;
            return NGX_CONF_OK;
        }

        ms = (ngx_msec_t) ngx_parse_time(&text, 0);

        if (ngx_strncmp(value->data, "interval=", 9) == 0
            && ms >= 50 && ms <= 60000)
        {
            rev->from.cooldown = ms;
            return NGX_CONF_OK;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\": say \"zone=NAME:SIZE\", "
                       "\"uri=/PATH\", and if need be \"interval=TIME\" of "
                       "50ms to 60s, \"claim=NAME\"", value);

    return NGX_CONF_ERROR;
}


char *
ngx_http_pgw_revocations_conf_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_pgw_main_conf_t  *mcf = conf;

    ngx_str_t                   *value;
    ngx_uint_t                   i;
    ngx_http_pgw_revocations_t  *rev;

    if (mcf->revocations) {
        return "is duplicate";
    }

    rev = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_revocations_t));
    if (rev == NULL) {
        return NGX_CONF_ERROR;
    }

    mcf->revocations = rev;

    rev->from.place_of = NGX_HTTP_PGW_SOURCE_REVOCATIONS;
    rev->from.name = "revocations";
    rev->from.directive = "platform_gateway_revocations";
    rev->from.max = NGX_HTTP_PGW_FEED_MAX_BYTES;
    rev->from.too_small = "cannot hold a page of the feed: add "
                          "\"subrequest_output_buffer_size 1m;\"";
    rev->from.handler = ngx_http_pgw_poll_fetched;
    rev->from.data = rev;
    rev->from.cooldown = 500;
    ngx_str_set(&rev->claim, "session_id");

    ngx_http_pgw_conf_place(cf, &rev->from.place);

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {
        if (ngx_http_pgw_revocations_conf_parameter(cf, rev, &value[i])
            != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return rev->zone_size && rev->from.location.len
           ? NGX_CONF_OK : "needs \"zone=NAME:SIZE\" and \"uri=/PATH\"";
}


/* platform_gateway_revocations_stale pass|refuse [after=TIME]; */

char *
ngx_http_pgw_revocations_conf_stale(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_pgw_main_conf_t  *mcf = conf;

    ngx_str_t  *value, text;

    if (mcf->revocations_after) {
        return "is duplicate";
    }

    value = cf->args->elts;
    mcf->revocations_after = 10000;
    mcf->revocations_refuse = (ngx_strcmp(value[1].data, "refuse") == 0);

    if (!mcf->revocations_refuse && ngx_strcmp(value[1].data, "pass") != 0) {
        return "accepts pass and refuse";
    }

    if (cf->args->nelts == 3) {
        text.data = value[2].data + 6;
        text.len = value[2].len - 6;

        if (ngx_strncmp(value[2].data, "after=", 6) != 0
            || (ngx_int_t) (mcf->revocations_after =
                            (ngx_msec_t) ngx_parse_time(&text, 0)) < 1000)
        {
            return "has no \"after=TIME\" of at least 1s";
        }
    }

    return NGX_CONF_OK;
}


static ngx_int_t
ngx_http_pgw_revocations_conf_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    size_t                       size;
    ngx_uint_t                   i;
    ngx_slab_pool_t             *shpool;
    ngx_http_pgw_name_t         *name;
    ngx_http_pgw_revoked_t      *zone;
    ngx_http_pgw_revocations_t  *rev;

    static const ngx_str_t  all = ngx_null_string;

    rev = shm_zone->data;

    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    zone = ngx_http_pgw_zone_part(shm_zone, NGX_HTTP_PGW_ZONE_REVOKED,
                                  sizeof(ngx_http_pgw_revoked_t), &all);

    if (zone && zone->table.slots == 0) {

        size = shpool->pfree * ngx_pagesize;

        if (RAND_bytes(zone->secret, sizeof(zone->secret)) == 1 && size) {
            ngx_http_pgw_table_init(&zone->table, ngx_slab_calloc(shpool, size),
                                    size);
        }

        zone->asked = ngx_current_msec;
        zone->lease.next_try = ngx_current_msec;
    }

    if (zone == NULL || zone->table.slots == 0) {

        /* the old workers may still be using all of it */

        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "zone \"%V\" of \"platform_gateway_revocations\" is from "
                      "another build: restart nginx, or rename the zone",
                      &shm_zone->shm.name);
        return NGX_ERROR;
    }

    for (name = rev->names->elts, i = 0; i < rev->names->nelts; i++) {
        if (ngx_http_pgw_feed_seed(zone, &name[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    rev->zone = zone;
    rev->from.shpool = shpool;
    rev->from.lease = &zone->lease;
    rev->from.generation = zone->lease.generation + 1;

    return NGX_OK;
}


/* The first server with an internal location for the URI, or none. */

static ngx_http_conf_ctx_t *
ngx_http_pgw_revocations_conf_server(ngx_conf_t *cf, ngx_str_t *uri)
{
    void                       **loc_conf;
    ngx_uint_t                   i;
    ngx_http_core_srv_conf_t   **server;
    ngx_http_core_loc_conf_t    *clcf;
    ngx_http_core_main_conf_t   *cmcf;

    cmcf = ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module);
    server = cmcf->servers.elts;

    for (i = 0; i < cmcf->servers.nelts; i++) {

        loc_conf = server[i]->ctx->loc_conf;

        if (ngx_http_pgw_peek_find(NULL, uri, &loc_conf) == NGX_OK) {
            clcf = loc_conf[ngx_http_core_module.ctx_index];

            if (clcf->internal) {
                return server[i]->ctx;
            }
        }
    }

    return NULL;
}


char *
ngx_http_pgw_revocations_conf_init(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf)
{
    ngx_http_pgw_revocations_t  *rev;

    rev = mcf->revocations;

    if (rev == NULL) {
        return NGX_CONF_OK;
    }

    rev->names = &mcf->names;
    rev->refuse = mcf->revocations_refuse;
    rev->after = mcf->revocations_after ? mcf->revocations_after : 10000;
    rev->from.timeout = NGX_HTTP_PGW_TIMEOUT;
    rev->from.ctx = ngx_http_pgw_revocations_conf_server(cf,
                                                         &rev->from.location);

    if (rev->from.ctx == NULL) {
        return ngx_http_pgw_conf_fail(cf, &rev->from.place,
                   "no server has an internal location for \"uri=%V\" of "
                   "\"platform_gateway_revocations\": add \"location = %V { "
                   "internal; ... }\" to one", &rev->from.location,
                   &rev->from.location);
    }

    if (rev->after < 2 * rev->from.cooldown) {
        return ngx_http_pgw_conf_fail(cf, &rev->from.place,
                   "\"interval=\" of \"platform_gateway_revocations\" is more "
                   "than half of \"after=\" of "
                   "\"platform_gateway_revocations_stale\": the feed would be "
                   "stale between two fetches");
    }

    ngx_http_pgw_lease_log(cf, &rev->from);

    rev->shm_zone = ngx_shared_memory_add(cf, &rev->zone_name, rev->zone_size,
                                          &ngx_http_platform_gateway_module);
    if (rev->shm_zone == NULL) {
        return NGX_CONF_ERROR;
    }

    if (rev->shm_zone->init) {
        return ngx_http_pgw_conf_fail(cf, &rev->from.place,
                   "zone \"%V\" of \"platform_gateway_revocations\" is that "
                   "of \"platform_gateway_zone\": give it another name,",
                   &rev->zone_name);
    }

    rev->shm_zone->init = ngx_http_pgw_revocations_conf_zone_init;
    rev->shm_zone->data = rev;

    /* with another name to accept, all of the feed is wanted again */

    if (ngx_http_pgw_lease_digest(rev->from.source, rev->claim.data,
                                  rev->claim.len)
        != NGX_OK
        || ngx_http_pgw_lease_names(rev->from.source, &mcf->names) != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    return ngx_http_pgw_lease_check(cf, &rev->from);
}
