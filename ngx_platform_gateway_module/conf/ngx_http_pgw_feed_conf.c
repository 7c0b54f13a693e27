
/*
 * Directives and zones of revocation feeds, and their checks by nginx -t.
 */


#include "conf/conf.h"
#include "revoked/revoked.h"
#include "issuer/issuer.h"


#define NGX_HTTP_PGW_REVOKED_MIN_ZONE  (128 * 1024)
#define NGX_HTTP_PGW_REVOKED_AFTER     10000  /* ms */


static char *
ngx_http_pgw_feed_conf_parameter(ngx_conf_t *cf,
    ngx_http_pgw_revocations_t *rev, const ngx_str_t *value)
{
    ngx_str_t   text;
    ngx_msec_t  ms;

    if (ngx_http_pgw_names_parameter(value, "zone", &text)) {
        return ngx_http_pgw_conf_zone(cf, &text, "revocations:16m",
                                      NGX_HTTP_PGW_REVOKED_MIN_ZONE,
                                      &rev->zone_name, &rev->zone_size);
    }

    if (ngx_http_pgw_names_parameter(value, "uri", &text)
        && text.data[0] == '/')
    {
        rev->from.location = text;
        return NGX_CONF_OK;
    }

    if (ngx_http_pgw_names_parameter(value, "claim", &text) && text.len) {
        rev->claim = text;
        return ngx_http_pgw_conf_path(cf, &text);
    }

    if (ngx_http_pgw_names_parameter(value, "interval", &text)) {
        ms = (ngx_msec_t) ngx_parse_time(&text, 0);

        if (ms >= 50 && ms <= 60000) {
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
ngx_http_pgw_feed_conf_revocations(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_pgw_issuer_t  *issuer = conf;

    ngx_str_t                   *value;
    ngx_uint_t                   i;
    ngx_http_pgw_revocations_t  *rev;

    if (issuer->revocations) {
        return "is duplicate";
    }

    rev = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_revocations_t));
    if (rev == NULL) {
        return NGX_CONF_ERROR;
    }

    issuer->revocations = rev;

    ngx_http_pgw_fetch_conf_add(cf, &rev->from, &ngx_http_pgw_poll_source, rev);

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {
        if (ngx_http_pgw_feed_conf_parameter(cf, rev, &value[i])
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
ngx_http_pgw_feed_conf_stale(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_main_conf_t  *mcf = conf;

    ngx_str_t  *value, text;

    if (mcf->revocations_after) {
        return "is duplicate";
    }

    value = cf->args->elts;
    mcf->revocations_after = NGX_HTTP_PGW_REVOKED_AFTER;
    mcf->revocations_refuse = (ngx_strcmp(value[1].data, "refuse") == 0);

    if (!mcf->revocations_refuse && ngx_strcmp(value[1].data, "pass") != 0) {
        return "accepts pass and refuse";
    }

    if (cf->args->nelts == 3) {
        if (!ngx_http_pgw_names_parameter(&value[2], "after", &text)
            || (ngx_int_t) (mcf->revocations_after =
                            (ngx_msec_t) ngx_parse_time(&text, 0)) < 1000)
        {
            return "has no \"after=TIME\" of at least 1s";
        }
    }

    return NGX_CONF_OK;
}


/* Creates the zone of a feed, and computes the digest of its source.  The names
   of the issuer are part of it: if they change, the feed is read anew. */

static char *
ngx_http_pgw_feed_conf_zone(ngx_conf_t *cf,
    const ngx_http_pgw_issuer_t *issuer, ngx_http_pgw_revocations_t *rev)
{
    ngx_shm_zone_t         *shm_zone;
    ngx_http_pgw_source_t  *from = &rev->from;

    shm_zone = ngx_shared_memory_add(cf, &rev->zone_name, rev->zone_size,
                                     &ngx_http_platform_gateway_module);
    if (shm_zone == NULL) {
        return NGX_CONF_ERROR;
    }

    if (shm_zone->init) {
        return ngx_http_pgw_conf_fail(cf, &from->place,
                   "zone \"%V\" of \"platform_gateway_revocations\" is also "
                   "the zone of \"platform_gateway_zone\", of its counters or "
                   "of another feed: choose another name,",
                   &rev->zone_name);
    }

    shm_zone->init = ngx_http_pgw_revocations_zone_init;
    shm_zone->data = rev;

    return ngx_http_pgw_lease_digest(from->source, &rev->claim, 1) == NGX_OK
           && ngx_http_pgw_issuer_digest(issuer, from->source) == NGX_OK
           ? ngx_http_pgw_fetch_conf_check(cf, from) : NGX_CONF_ERROR;
}


char *
ngx_http_pgw_feed_conf_init(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf, ngx_http_pgw_issuer_t *issuer)
{
    ngx_http_pgw_source_t       *from;
    ngx_http_pgw_revocations_t  *rev = issuer->revocations;

    if (rev == NULL) {
        return NGX_CONF_OK;
    }

    from = &rev->from;
    from->timeout = NGX_HTTP_PGW_TIMEOUT;
    rev->subject = issuer->claims.subject;
    rev->issued = issuer->issued ? issuer->issued : "iat";
    rev->names = &issuer->names;
    rev->refuse = mcf->revocations_refuse;
    rev->after = mcf->revocations_after ? mcf->revocations_after
                                        : NGX_HTTP_PGW_REVOKED_AFTER;

    if (rev->claim.len == 0) {
        rev->claim.data = (u_char *) issuer->claims.session;
        rev->claim.len = ngx_strlen(rev->claim.data);
    }

    if (rev->after < 2 * from->cooldown) {
        return ngx_http_pgw_conf_fail(cf, &from->place,
                   "\"interval=\" of \"platform_gateway_revocations\" is more "
                   "than half of \"after=\" of "
                   "\"platform_gateway_revocations_stale\": the feed would be "
                   "stale between two fetches");
    }

    return ngx_http_pgw_feed_conf_zone(cf, issuer, rev);
}
