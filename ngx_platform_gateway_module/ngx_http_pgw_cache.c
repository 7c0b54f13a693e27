
/*
 * The verified-token cache of a worker: what a token was found to be, under
 * the whole of its bytes.
 *
 * The hash only finds the chain: equality is that of all bytes and of the
 * policy.  What can change is asked on every hit, the version of the key set
 * first and then the clock.
 */


#include "ngx_http_pgw.h"
#include "ngx_http_pgw_metrics.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>


#define NGX_HTTP_PGW_CACHE_MAX       10000000  /* entries */
#define NGX_HTTP_PGW_CACHE_MIN_SIZE  (64 * 1024)

/* What an allocation costs beside its bytes, about. */
#define NGX_HTTP_PGW_CACHE_OVERHEAD  16

/*
 * A token is found by the end of its signature, in words of 32 bits.  Nobody
 * but the issuer can choose that of a good one, and only good ones are kept.
 */
#define NGX_HTTP_PGW_CACHE_WORDS     8
#define NGX_HTTP_PGW_CACHE_TAIL                                               \
    (NGX_HTTP_PGW_CACHE_WORDS * sizeof(uint32_t))

typedef struct ngx_http_pgw_entry_s  ngx_http_pgw_entry_t;


/* One allocation: this and the strings, the token, the text of the strings. */

struct ngx_http_pgw_entry_s {
    ngx_queue_t             queue;      /* by last use */
    ngx_http_pgw_entry_t   *next;       /* of the chain */
    ngx_http_pgw_entry_t  **chain;
    size_t                  size;       /* of the allocation */
    ngx_uint_t              version;    /* of the key set */
    ngx_uint_t              policy;
    ngx_uint_t              access;
    ngx_uint_t              plain;
    ngx_http_pgw_times_t    times;
    size_t                  token_len;
    size_t                  text_len;
    ngx_uint_t              nstrings;
    ngx_str_t               strings[];  /* each ends with a NUL, too */
};

#define ngx_http_pgw_entry_token(entry)                                       \
    ((u_char *) &(entry)->strings[(entry)->nstrings])

#define ngx_http_pgw_entry_text(entry)                                        \
    (ngx_http_pgw_entry_token(entry) + (entry)->token_len)


struct ngx_http_pgw_cache_s {
    ngx_http_pgw_entry_t  **chains;       /* NULL: off */
    ngx_uint_t              mask;
    ngx_queue_t             queue;        /* the latest used first */
    ngx_uint_t              entries;
    size_t                  size;
    ngx_uint_t              max_entries;
    size_t                  max_size;
    uint64_t                key[NGX_HTTP_PGW_CACHE_WORDS + 1];
    ngx_uint_t              set;          /* by the directive */
    ngx_log_t              *log;
};


static void ngx_http_pgw_cache_cleanup(void *data);
static ngx_http_pgw_entry_t **ngx_http_pgw_cache_chain(
    const ngx_http_pgw_cache_t *cache, pj_str_t token);
static ngx_http_pgw_entry_t *ngx_http_pgw_cache_lookup(
    ngx_http_pgw_cache_t *cache, ngx_uint_t policy, pj_str_t token,
    ngx_uint_t version);
static void ngx_http_pgw_cache_remove(ngx_http_pgw_cache_t *cache,
    ngx_http_pgw_entry_t *entry);
static void ngx_http_pgw_cache_remove_last(ngx_http_pgw_cache_t *cache);


ngx_http_pgw_cache_t *
ngx_http_pgw_cache_create(ngx_conf_t *cf)
{
    ngx_http_pgw_cache_t  *cache;

    cache = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_cache_t));
    if (cache == NULL) {
        return NULL;
    }

    cache->max_entries = 16384;
    cache->max_size = 32 * 1024 * 1024;
    cache->log = &cf->cycle->new_log;

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

    (void) cmd;

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

        if (ngx_strncmp(value[i].data, "entries=", 8) == 0) {
            n = ngx_atoi(value[i].data + 8, value[i].len - 8);

            if (n >= 1 && n <= NGX_HTTP_PGW_CACHE_MAX) {
                cache->max_entries = (ngx_uint_t) n;
                continue;
            }

        } else if (ngx_strncmp(value[i].data, "size=", 5) == 0) {
            text.data = value[i].data + 5;
            text.len = value[i].len - 5;
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


ngx_int_t
ngx_http_pgw_cache_init_conf(ngx_conf_t *cf,
    const ngx_http_pgw_main_conf_t *mcf)
{
    ngx_uint_t             n;
    ngx_pool_cleanup_t    *cln;
    ngx_http_pgw_cache_t  *cache;

    cache = mcf->cache;

    if (cache->max_entries == 0 || mcf->guarded == NULL) {
        return NGX_OK;
    }

    if (RAND_bytes((u_char *) cache->key, sizeof(cache->key)) != 1) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "platform_gateway: no random bytes for the token cache");
        return NGX_ERROR;
    }

    /* one or two entries a chain; a tiny cache is a single chain */

    for (n = 1; n * 2 < cache->max_entries; n *= 2) { /* void */ }

    cache->chains = ngx_pcalloc(cf->pool, n * sizeof(ngx_http_pgw_entry_t *));
    cln = ngx_pool_cleanup_add(cf->pool, 0);

    if (cache->chains == NULL || cln == NULL) {
        return NGX_ERROR;
    }

    cache->mask = n - 1;
    ngx_queue_init(&cache->queue);

    cln->handler = ngx_http_pgw_cache_cleanup;
    cln->data = cache;

    return NGX_OK;
}


/* With the configuration, in any process that has one. */

static void
ngx_http_pgw_cache_cleanup(void *data)
{
    ngx_http_pgw_cache_t  *cache = data;

    while (cache->entries) {
        ngx_http_pgw_cache_remove_last(cache);
    }

    OPENSSL_cleanse(cache->key, sizeof(cache->key));
}


/* The times are asked in the order in which a new token's are. */

ngx_int_t
ngx_http_pgw_cache_find(ngx_http_pgw_cache_t *cache, ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, pj_str_t token, ngx_uint_t version,
    pj_err_t *err, ngx_http_pgw_grant_t *grant)
{
    u_char                *text, *p;
    ngx_str_t             *s;
    ngx_uint_t             i;
    ngx_http_pgw_entry_t  *entry;

    if (cache->chains == NULL || conf->policy == 0) {
        return NGX_DECLINED;
    }

    entry = ngx_http_pgw_cache_lookup(cache, conf->policy, token, version);

    if (entry == NULL) {
        ngx_http_pgw_metrics_cache(NGX_HTTP_PGW_CACHE_MISS);
        return NGX_DECLINED;
    }

    ngx_http_pgw_metrics_cache(NGX_HTTP_PGW_CACHE_HIT);

    *err = entry->times.not_before > ngx_time() + conf->leeway
           ? PJ_ERR_TOKEN_NOT_YET
           : ngx_time() - conf->leeway >= entry->times.exp
           ? PJ_ERR_TOKEN_EXPIRED : PJ_OK;

    if (*err != PJ_OK) {
        return NGX_OK;
    }

    /* the entry may be gone long before the request is */

    s = ngx_palloc(pool,
                   entry->nstrings * sizeof(ngx_str_t) + entry->text_len);
    if (s == NULL) {
        return NGX_ERROR;
    }

    text = ngx_http_pgw_entry_text(entry);
    p = (u_char *) &s[entry->nstrings];
    ngx_memcpy(p, text, entry->text_len);

    for (i = 0; i < entry->nstrings; i++) {
        s[i].len = entry->strings[i].len;
        s[i].data = entry->strings[i].data
                    ? p + (entry->strings[i].data - text) : NULL;
    }

    grant->access = entry->access;
    grant->strings = s;
    grant->nstrings = entry->nstrings;
    ngx_http_pgw_grant_subject(grant, entry->plain);

    return NGX_OK;
}


static ngx_http_pgw_entry_t *
ngx_http_pgw_cache_lookup(ngx_http_pgw_cache_t *cache, ngx_uint_t policy,
    pj_str_t token, ngx_uint_t version)
{
    ngx_http_pgw_entry_t  *entry;

    if (cache->entries == 0 || token.len < NGX_HTTP_PGW_CACHE_TAIL) {
        return NULL;
    }

    entry = *ngx_http_pgw_cache_chain(cache, token);

    while (entry
           && (entry->token_len != token.len
               || entry->policy != policy
               || ngx_memcmp(ngx_http_pgw_entry_token(entry),
                             token.data, token.len)
                  != 0))
    {
        entry = entry->next;
    }

    if (entry && entry->version != version) {
        ngx_http_pgw_cache_remove(cache, entry);
        return NULL;
    }

    if (entry && ngx_queue_head(&cache->queue) != &entry->queue) {
        ngx_queue_remove(&entry->queue);
        ngx_queue_insert_head(&cache->queue, &entry->queue);
    }

    return entry;
}


void
ngx_http_pgw_cache_store(ngx_http_pgw_cache_t *cache,
    const ngx_http_pgw_loc_conf_t *conf, pj_str_t token, ngx_uint_t version,
    const ngx_http_pgw_times_t *times, const ngx_http_pgw_grant_t *grant)
{
    size_t                  text_len, size;
    u_char                 *p;
    ngx_str_t              *s;
    ngx_uint_t              i;
    ngx_http_pgw_entry_t   *entry;

    if (cache->chains == NULL || conf->policy == 0
        || token.len < NGX_HTTP_PGW_CACHE_TAIL)
    {
        return;
    }

    text_len = 0;

    for (i = 0; i < grant->nstrings; i++) {
        text_len += grant->strings[i].data ? grant->strings[i].len + 1 : 0;
    }

    size = sizeof(ngx_http_pgw_entry_t) + grant->nstrings * sizeof(ngx_str_t)
           + token.len + text_len + NGX_HTTP_PGW_CACHE_OVERHEAD;

    if (size > cache->max_size) {
        return;
    }

    while (cache->entries >= cache->max_entries
           || cache->size + size > cache->max_size)
    {
        ngx_http_pgw_cache_remove_last(cache);
        ngx_http_pgw_metrics_cache(NGX_HTTP_PGW_CACHE_EVICTION);
    }

    entry = ngx_alloc(size - NGX_HTTP_PGW_CACHE_OVERHEAD, cache->log);
    if (entry == NULL) {
        return;
    }

    entry->size = size;
    entry->version = version;
    entry->policy = conf->policy;
    entry->times = *times;
    entry->token_len = token.len;
    entry->text_len = text_len;
    entry->access = grant->access;
    entry->plain = grant->subject.plain;
    entry->nstrings = grant->nstrings;

    p = ngx_cpymem(ngx_http_pgw_entry_token(entry), token.data, token.len);

    for (i = 0; i < grant->nstrings; i++) {

        s = &entry->strings[i];
        *s = grant->strings[i];

        if (s->data) {
            s->data = p;
            p = ngx_cpymem(p, grant->strings[i].data, s->len);
            *p++ = '\0';
        }
    }

    entry->chain = ngx_http_pgw_cache_chain(cache, token);
    entry->next = *entry->chain;
    *entry->chain = entry;

    ngx_queue_insert_head(&cache->queue, &entry->queue);

    cache->entries++;
    cache->size += size;

    ngx_http_pgw_metrics_cached(cache->entries);
}


/*
 * A strongly universal hash: a sum of products with random words of 64 bits, of
 * which the upper half is as good as random.  The order of bytes is the
 * machine's, as nothing of this leaves it.
 */

static ngx_http_pgw_entry_t **
ngx_http_pgw_cache_chain(const ngx_http_pgw_cache_t *cache, pj_str_t token)
{
    uint32_t    words[NGX_HTTP_PGW_CACHE_WORDS];
    uint64_t    sum;
    ngx_uint_t  i;

    ngx_memcpy(words, token.data + token.len - sizeof(words), sizeof(words));

    sum = cache->key[NGX_HTTP_PGW_CACHE_WORDS];

    for (i = 0; i < NGX_HTTP_PGW_CACHE_WORDS; i++) {
        sum += cache->key[i] * words[i];
    }

    return &cache->chains[(sum >> 32) & cache->mask];
}


/* The token opens doors until it expires: it does not stay in free memory. */

static void
ngx_http_pgw_cache_remove(ngx_http_pgw_cache_t *cache,
    ngx_http_pgw_entry_t *entry)
{
    ngx_http_pgw_entry_t  **p;

    for (p = entry->chain; *p != entry; p = &(*p)->next) { /* void */ }

    *p = entry->next;

    ngx_queue_remove(&entry->queue);

    cache->entries--;
    cache->size -= entry->size;

    OPENSSL_cleanse(ngx_http_pgw_entry_token(entry),
                    entry->token_len + entry->text_len);
    ngx_free(entry);
}


static void
ngx_http_pgw_cache_remove_last(ngx_http_pgw_cache_t *cache)
{
    ngx_http_pgw_cache_remove(cache,
                              ngx_queue_data(ngx_queue_last(&cache->queue),
                                             ngx_http_pgw_entry_t, queue));
}
