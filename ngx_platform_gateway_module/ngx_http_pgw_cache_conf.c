
/*
 * The directive of the verified-token cache, and its bounds.
 */


#include "ngx_http_pgw_cache.h"


/* The forged table's part of the bounds. */
#define NGX_HTTP_PGW_CACHE_FORGED   8

#define NGX_HTTP_PGW_CACHE_MAX       10000000  /* entries */
#define NGX_HTTP_PGW_CACHE_MIN_SIZE  (64 * 1024)


static void ngx_http_pgw_cache_bounds(ngx_http_pgw_cache_t *cache,
    ngx_uint_t entries, size_t size);


ngx_http_pgw_cache_t *
ngx_http_pgw_cache_create(ngx_conf_t *cf)
{
    ngx_pool_cleanup_t    *cln;
    ngx_http_pgw_cache_t  *cache;

    cache = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_cache_t));
    cln = ngx_pool_cleanup_add(cf->pool, 0);

    if (cache == NULL || cln == NULL) {
        return NULL;
    }

    ngx_http_pgw_cache_bounds(cache, 16384, 32 * 1024 * 1024);
    cache->log = &cf->cycle->new_log;

    cln->handler = ngx_http_pgw_cache_cleanup;
    cln->data = cache;

    return cache;
}


char *
ngx_http_pgw_cache_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_main_conf_t  *mcf = conf;

    ssize_t                             size;
    ngx_int_t                           entries;
    ngx_str_t                          *value, text;
    ngx_uint_t                          i;
    ngx_http_pgw_cache_t  *cache;

    (void) cmd;

    cache = mcf->cache;

    if (cache->set) {
        return "is duplicate";
    }

    cache->set = 1;
    value = cf->args->elts;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        cache->off = 1;
        return NGX_CONF_OK;
    }

    entries = 0;
    size = (ssize_t) cache->good.max_size;

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_strncmp(value[i].data, "entries=", 8) == 0) {
            entries = ngx_atoi(value[i].data + 8, value[i].len - 8);

            if (entries >= 1 && entries <= NGX_HTTP_PGW_CACHE_MAX)
            {
                continue;
            }

        } else if (ngx_strncmp(value[i].data, "size=", 5) == 0) {
            text.data = value[i].data + 5;
            text.len = value[i].len - 5;
            size = ngx_parse_size(&text);

            if (size >= NGX_HTTP_PGW_CACHE_MIN_SIZE) {
                continue;
            }
        }

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\": say \"off\", or "
                           "\"entries=N\" of 1 to %d and \"size=S\" of at "
                           "least 64k", &value[i],
                           NGX_HTTP_PGW_CACHE_MAX);
        return NGX_CONF_ERROR;
    }

    if (entries == 0) {
        return "needs \"entries=N\" or \"off\"";
    }

    ngx_http_pgw_cache_bounds(cache, (ngx_uint_t) entries, (size_t) size);

    return NGX_CONF_OK;
}


static void
ngx_http_pgw_cache_bounds(ngx_http_pgw_cache_t *cache, ngx_uint_t entries,
    size_t size)
{
    ngx_uint_t  few;

    few = entries / NGX_HTTP_PGW_CACHE_FORGED;

    cache->good.max_entries = entries;
    cache->good.max_size = size;

    cache->forged.max_entries = ngx_max(few, 1);
    cache->forged.max_size = ngx_max(size / NGX_HTTP_PGW_CACHE_FORGED,
                                     NGX_HTTP_PGW_CACHE_MIN_SIZE);
}
