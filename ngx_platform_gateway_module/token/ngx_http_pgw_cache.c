
/*
 * A worker's cache of verified tokens.
 *
 * An entry is used if all bytes of the token and the policy are equal.  Each
 * hit checks the version of the key set and the times again.
 */


#include "token/token.h"
#include "issuer/issuer.h"
#include "base/base.h"

#include <openssl/crypto.h>


#define NGX_HTTP_PGW_CACHE_MAX       10000000  /* entries */
#define NGX_HTTP_PGW_CACHE_MIN_SIZE  (64 * 1024)

/* The hash is made of the bytes this far before the end of a token. */
#define NGX_HTTP_PGW_CACHE_TAIL      8

/* A used entry moves to the head of the queue once in so many seconds, because
   the move writes to four other entries. */
#define NGX_HTTP_PGW_CACHE_SLOT      10

#define NGX_HTTP_PGW_CACHE_LINE      64        /* bytes */


typedef struct ngx_http_pgw_entry_s  ngx_http_pgw_entry_t;

/* An entry.  The strings of its grant and the token follow in one allocation.
   */

struct ngx_http_pgw_entry_s {
    ngx_http_pgw_entry_t   *next;       /* in the bucket */
    uint32_t                hash;
    ngx_str_t               token;
    size_t                  size;       /* of the allocation */
    ngx_http_pgw_issuer_t  *issuer;
    ngx_uint_t              version;    /* of the key set */
    ngx_uint_t              policy;
    int64_t                 not_before; /* the later of iat and nbf */
    ngx_http_pgw_grant_t    grant;
    time_t                  slot;       /* of the last move */
    ngx_queue_t             queue;      /* in the order of the last use */
};


struct ngx_http_pgw_cache_s {
    ngx_http_pgw_entry_t  **bucket;       /* NULL before the first entry */
    ngx_uint_t              mask;
    ngx_queue_t             queue;        /* begins with the last used entry */
    ngx_uint_t              entries;
    size_t                  size;
    ngx_uint_t              max_entries;  /* 0 if the cache is off */
    size_t                  max_size;
    ngx_uint_t              set;          /* the directive was read */
};


/* The token is wiped, because it may be valid for some time. */

static void
ngx_http_pgw_cache_remove(ngx_http_pgw_cache_t *cache,
    ngx_http_pgw_entry_t *entry)
{
    ngx_http_pgw_entry_t  **place;

    /* the analyzer believes that the queue still has a freed entry */

    /* NOLINTNEXTLINE(clang-analyzer-unix.Malloc) */
    place = &cache->bucket[entry->hash & cache->mask];

    while (*place != entry) {
        place = &(*place)->next;
    }

    *place = entry->next;
    ngx_queue_remove(&entry->queue);

    ngx_http_pgw_counters_cached(--cache->entries);
    cache->size -= entry->size;

    OPENSSL_cleanse(entry->token.data, entry->token.len);
    OPENSSL_cleanse(entry->grant.strings, entry->grant.size);
    ngx_free(entry);
}


static void
ngx_http_pgw_cache_remove_last(ngx_http_pgw_cache_t *cache)
{
    ngx_http_pgw_cache_remove(cache,
                              ngx_queue_data(ngx_queue_last(&cache->queue),
                                             ngx_http_pgw_entry_t, queue));
}


/* Called in each process when the configuration is freed. */

static void
ngx_http_pgw_cache_cleanup(void *data)
{
    ngx_http_pgw_cache_t  *cache = data;

    while (cache->entries) {
        ngx_http_pgw_cache_remove_last(cache);
    }

    if (cache->bucket) {
        ngx_free(cache->bucket);
    }
}


ngx_http_pgw_cache_t *
ngx_http_pgw_cache_create(ngx_conf_t *cf)
{
    ngx_pool_cleanup_t    *cln;
    ngx_http_pgw_cache_t  *cache;

    cln = ngx_pool_cleanup_add(cf->pool, sizeof(ngx_http_pgw_cache_t));
    if (cln == NULL) {
        return NULL;
    }

    cache = cln->data;
    ngx_memzero(cache, sizeof(ngx_http_pgw_cache_t));

    ngx_queue_init(&cache->queue);

    cache->max_entries = 16384;
    cache->max_size = 32 * 1024 * 1024;

    cln->handler = ngx_http_pgw_cache_cleanup;

    return cache;
}


char *
ngx_http_pgw_cache_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_main_conf_t  *mcf = conf;

    ssize_t                n;
    ngx_str_t             *value, text;
    ngx_uint_t             i;
    ngx_http_pgw_cache_t  *cache;

    cache = mcf->cache;

    if (cache->set) {
        return "is duplicate";
    }

    cache->set = 1;
    cache->max_entries = 0;
    value = cf->args->elts;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        return NGX_CONF_OK;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_http_pgw_names_parameter(&value[i], "entries", &text)) {
            n = ngx_atoi(text.data, text.len);

            if (n >= 1 && n <= NGX_HTTP_PGW_CACHE_MAX) {
                cache->max_entries = (ngx_uint_t) n;
                continue;
            }

        } else if (ngx_http_pgw_names_parameter(&value[i], "size", &text)) {
            n = ngx_parse_size(&text);

            if (n >= NGX_HTTP_PGW_CACHE_MIN_SIZE) {
                cache->max_size = (size_t) n;
                continue;
            }
        }

        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid parameter \"%V\": say \"off\", or "
                           "\"entries=N\" of 1 to %d and \"size=S\" of at "
                           "least 64k", &value[i], NGX_HTTP_PGW_CACHE_MAX);
        return NGX_CONF_ERROR;
    }

    return cache->max_entries ? NGX_CONF_OK
                              : "needs \"entries=N\" or \"off\"";
}


/*
 * A verified token ends in a signature, which only the issuer can choose, so
 * the hash needs no key.  Its bytes are letters of base64url, and the product
 * spreads them over all bits.  The policy is added because each policy has an
 * entry.
 */

static uint32_t
ngx_http_pgw_cache_hash(ngx_uint_t policy, pj_str_t token)
{
    uint32_t  word = 0;

    if (token.len >= NGX_HTTP_PGW_CACHE_TAIL) {
        ngx_memcpy(&word, token.data + token.len - NGX_HTTP_PGW_CACHE_TAIL,
                   sizeof(word));
    }

    word = (word + (uint32_t) policy) * 2654435761u;

    return word ^ (word >> 15);
}


/* Makes the buckets, at least one for each entry. */

static ngx_int_t
ngx_http_pgw_cache_buckets(ngx_http_pgw_cache_t *cache)
{
    ngx_uint_t  n = 1;

    if (cache->bucket) {
        return NGX_OK;
    }

    while (n < cache->max_entries) {
        n <<= 1;
    }

    cache->mask = n - 1;
    cache->bucket = ngx_calloc(n * sizeof(ngx_http_pgw_entry_t *),
                               ngx_cycle->log);

    return cache->bucket ? NGX_OK : NGX_ERROR;
}


/* Has the processor fetch the lines of an entry, which are read one after the
   other, at the same time. */

static void
ngx_http_pgw_cache_prefetch(const ngx_http_pgw_entry_t *entry)
{
    size_t  at;

    for (at = NGX_HTTP_PGW_CACHE_LINE; at < entry->size;
         at += NGX_HTTP_PGW_CACHE_LINE)
    {
        __builtin_prefetch((const u_char *) entry + at);
    }
}


static ngx_http_pgw_entry_t *
ngx_http_pgw_cache_lookup(const ngx_http_pgw_cache_t *cache,
    ngx_uint_t policy, pj_str_t token)
{
    uint32_t               hash = ngx_http_pgw_cache_hash(policy, token);
    ngx_http_pgw_entry_t  *entry;

    entry = cache->bucket ? cache->bucket[hash & cache->mask] : NULL;

    for ( /* void */ ; entry; entry = entry->next) {

        if (entry->hash != hash || entry->policy != policy
            || entry->token.len != token.len)
        {
            continue;
        }

        ngx_http_pgw_cache_prefetch(entry);

        if (ngx_memcmp(entry->token.data, token.data, token.len) == 0) {
            return entry;
        }
    }

    return NULL;
}


/* Returns the entry of a token, or NULL.  Removes an entry of an older set, or
   whose assertion has to be signed again. */

static ngx_http_pgw_entry_t *
ngx_http_pgw_cache_entry(ngx_http_pgw_cache_t *cache,
    const ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_ctx_t *ctx)
{
    ngx_http_pgw_entry_t  *entry;

    entry = ngx_http_pgw_cache_lookup(cache, conf->policy, ctx->token);

    if (entry == NULL) {
        return NULL;
    }

    ngx_http_pgw_keys_select(entry->issuer, &ctx->keys);

    if (entry->version != ctx->keys.version
        || (conf->assertion
            && ngx_http_pgw_assertion_stale(conf->assertion, &entry->grant)))
    {
        ngx_http_pgw_cache_remove(cache, entry);
        return NULL;
    }

    /* without a usable key set cached tokens are not accepted either */

    return ctx->keys.set ? entry : NULL;
}


/* Checks the times in the same order as token_verify(). */

ngx_int_t
ngx_http_pgw_cache_find(ngx_http_pgw_cache_t *cache, ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_ctx_t *ctx)
{
    time_t                 leeway;
    ngx_http_pgw_entry_t  *entry;

    if (cache->max_entries == 0) {
        return NGX_DECLINED;
    }

    entry = ngx_http_pgw_cache_entry(cache, conf, ctx);

    if (entry == NULL) {
        ngx_http_pgw_counters_inc(cache[NGX_HTTP_PGW_CACHE_MISS]);
        return NGX_DECLINED;
    }

    if (entry->slot != ngx_time() / NGX_HTTP_PGW_CACHE_SLOT) {
        entry->slot = ngx_time() / NGX_HTTP_PGW_CACHE_SLOT;
        ngx_queue_remove(&entry->queue);
        ngx_queue_insert_head(&cache->queue, &entry->queue);
    }

    ngx_http_pgw_counters_inc(cache[NGX_HTTP_PGW_CACHE_HIT]);

    leeway = ngx_http_pgw_issuer_leeway(entry->issuer, conf);

    ctx->err = entry->not_before > ngx_time() + leeway
               ? PJ_ERR_TOKEN_NOT_YET
               : ngx_time() - leeway >= entry->grant.exp
               ? PJ_ERR_TOKEN_EXPIRED : PJ_OK;

    /* the entry may be removed before the request ends */

    if (ctx->err == PJ_OK
        && ngx_http_pgw_token_grant_copy(&ctx->grant, &entry->grant,
                                         ngx_palloc(pool, entry->grant.size))
           != NGX_OK)
    {
        ctx->err = PJ_ERR_NO_SPACE;
    }

    return NGX_OK;
}


void
ngx_http_pgw_cache_store(ngx_http_pgw_cache_t *cache,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_ctx_t *ctx,
    const pj_claims_t *claims)
{
    size_t                  size;
    ngx_http_pgw_entry_t   *entry, **place;

    size = sizeof(ngx_http_pgw_entry_t) + ctx->grant.size + ctx->token.len;

    if (cache->max_entries == 0 || size > cache->max_size
        || ngx_http_pgw_cache_buckets(cache) != NGX_OK)
    {
        return;
    }

    /* make room by removing the least recently used entries */

    while (cache->entries >= cache->max_entries
           || cache->size + size > cache->max_size)
    {
        ngx_http_pgw_cache_remove_last(cache);
        ngx_http_pgw_counters_inc(cache[NGX_HTTP_PGW_CACHE_EVICTION]);
    }

    entry = ngx_alloc(size, ngx_cycle->log);
    if (entry == NULL) {
        return;
    }

    entry->size = size;
    entry->issuer = ctx->keys.issuer;
    entry->version = ctx->keys.version;
    entry->policy = conf->policy;
    entry->not_before = ngx_max(claims->iat, claims->nbf);

    (void) ngx_http_pgw_token_grant_copy(&entry->grant, &ctx->grant, entry + 1);

    entry->token.data = (u_char *) (entry + 1) + entry->grant.size;
    entry->token.len = ctx->token.len;
    ngx_memcpy(entry->token.data, ctx->token.data, ctx->token.len);

    entry->slot = ngx_time() / NGX_HTTP_PGW_CACHE_SLOT;
    entry->hash = ngx_http_pgw_cache_hash(conf->policy, ctx->token);

    place = &cache->bucket[entry->hash & cache->mask];
    entry->next = *place;
    *place = entry;
    ngx_queue_insert_head(&cache->queue, &entry->queue);

    ngx_http_pgw_counters_cached(++cache->entries);
    cache->size += size;
}
