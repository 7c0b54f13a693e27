
/*
 * The verified-token cache of a worker: what a token was found to be, under
 * the whole of its bytes.
 *
 * Two tables of the same make, each with its own bounds and its own order of
 * use: good tokens, and tokens whose signature is forged, so that a flood of
 * these can push out nothing but each other.  The hash only finds the chain:
 * equality is that of all bytes and of the policy.  What can change is asked
 * on every hit, the version of the key set first and then the clock.
 */


#include "ngx_http_pgw_cache.h"
#include "ngx_http_pgw_metrics.h"

#include <openssl/crypto.h>
#include <openssl/rand.h>


/* What an allocation costs beside its bytes, about. */
#define NGX_HTTP_PGW_CACHE_OVERHEAD  16

/*
 * A token is found by the end of its signature.  Nobody but the issuer can
 * choose that of a good one.  Whoever forges tokens can make them meet in one
 * chain: so a chain of forged ones is short, and they push out each other.
 */
#define NGX_HTTP_PGW_CACHE_TAIL  32
#define NGX_HTTP_PGW_CACHE_FORGED_CHAIN  8

#define NGX_HTTP_PGW_CACHE_ABSENT  ((uint32_t) -1)

/* Account, session and workspace stand before the header values. */
#define NGX_HTTP_PGW_CACHE_IDS      3


/*
 * One allocation: this, then the lengths of the strings (uint32_t each), the
 * token, and the strings with a NUL each.
 */

struct ngx_http_pgw_entry_s {
    ngx_queue_t            queue;    /* by last use */
    ngx_http_pgw_entry_t  *next;     /* of the chain */
    size_t                 size;     /* of the allocation */
    ngx_uint_t             version;  /* of the key set */
    int64_t                exp;
    int64_t                not_before;
    uint32_t               chain;
    uint32_t               policy;
    uint16_t               access;
    uint16_t               plain;
    uint32_t               token_len;
    uint32_t               text_len;
    uint32_t               strings;
};


static ngx_int_t ngx_http_pgw_cache_open(ngx_http_pgw_cache_t *cache,
    ngx_http_pgw_table_t *table);
static uint64_t ngx_http_pgw_cache_hash(const ngx_http_pgw_cache_t *cache,
    pj_str_t token);
static ngx_http_pgw_entry_t *ngx_http_pgw_cache_lookup(
    ngx_http_pgw_table_t *table, uint64_t hash,
    ngx_uint_t policy, pj_str_t token, ngx_uint_t version);
static pj_err_t ngx_http_pgw_cache_times(const ngx_http_pgw_entry_t *entry,
    time_t leeway);
static ngx_int_t ngx_http_pgw_cache_grant(ngx_pool_t *pool,
    const ngx_http_pgw_entry_t *entry, ngx_http_pgw_grant_t *grant);
static void ngx_http_pgw_cache_fill(ngx_http_pgw_entry_t *entry,
    pj_str_t token, const ngx_http_pgw_grant_t *grant);
static const ngx_str_t *ngx_http_pgw_cache_string(
    const ngx_http_pgw_grant_t *grant, ngx_uint_t i);
static void ngx_http_pgw_cache_shorten(ngx_http_pgw_table_t *table,
    uint64_t hash);
static void ngx_http_pgw_cache_evict(ngx_http_pgw_table_t *table,
    ngx_http_pgw_entry_t *entry);
static void ngx_http_pgw_cache_remove(ngx_http_pgw_table_t *table,
    ngx_http_pgw_entry_t *entry);

#define ngx_http_pgw_entry_lengths(entry)                                     \
    ((uint32_t *) ((u_char *) (entry)                                         \
                   + sizeof(ngx_http_pgw_entry_t)))

#define ngx_http_pgw_entry_token(entry)                                       \
    ((u_char *) (ngx_http_pgw_entry_lengths(entry)                            \
                 + (entry)->strings))

#define ngx_http_pgw_entry_text(entry)                                        \
    (ngx_http_pgw_entry_token(entry) + (entry)->token_len)


void
ngx_http_pgw_cache_cleanup(void *data)
{
    ngx_uint_t             i;
    ngx_queue_t           *q;
    ngx_http_pgw_cache_t  *cache = data;
    ngx_http_pgw_table_t  *tables[2], *table;

    tables[0] = &cache->good;
    tables[1] = &cache->forged;

    for (i = 0; i < 2; i++) {

        table = tables[i];

        if (table->chains == NULL) {
            continue;
        }

        while (!ngx_queue_empty(&table->queue)) {
            q = ngx_queue_head(&table->queue);
            ngx_http_pgw_cache_remove(table,
                    ngx_queue_data(q, ngx_http_pgw_entry_t,
                                   queue));
        }

        ngx_free(table->chains);
        table->chains = NULL;
    }

    OPENSSL_cleanse(cache->key, sizeof(cache->key));
}


ngx_int_t
ngx_http_pgw_cache_find(ngx_http_pgw_cache_t *cache, ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, pj_str_t token, ngx_uint_t version,
    pj_err_t *err, ngx_http_pgw_grant_t *grant)
{
    uint64_t               hash;
    ngx_http_pgw_entry_t  *entry;

    if (cache->off || conf->policy == 0) {
        return NGX_DECLINED;
    }

    hash = ngx_http_pgw_cache_hash(cache, token);

    entry = ngx_http_pgw_cache_lookup(&cache->good, hash, conf->policy, token,
                                      version);
    if (entry) {
        *err = ngx_http_pgw_cache_times(entry, conf->leeway);

        if (*err == PJ_OK
            && ngx_http_pgw_cache_grant(pool, entry, grant)
               != NGX_OK)
        {
            return NGX_ERROR;
        }

        ngx_http_pgw_metrics_cache(NGX_HTTP_PGW_CACHE_HIT);
        return NGX_OK;
    }

    entry = ngx_http_pgw_cache_lookup(&cache->forged, hash, conf->policy,
                                      token, version);
    if (entry) {
        *err = ngx_http_pgw_cache_times(entry, conf->leeway);

        if (*err == PJ_OK) {
            *err = PJ_ERR_TOKEN_SIGNATURE;
        }

        ngx_http_pgw_metrics_cache(NGX_HTTP_PGW_CACHE_HIT_FORGED);
        return NGX_OK;
    }

    ngx_http_pgw_metrics_cache(NGX_HTTP_PGW_CACHE_MISS);
    return NGX_DECLINED;
}


static ngx_http_pgw_entry_t *
ngx_http_pgw_cache_lookup(ngx_http_pgw_table_t *table, uint64_t hash,
    ngx_uint_t policy, pj_str_t token, ngx_uint_t version)
{
    ngx_http_pgw_entry_t  *entry;

    if (table->entries == 0) {
        return NULL;
    }

    entry = table->chains[hash & table->mask];

    while (entry
           && (entry->token_len != token.len
               || entry->policy != policy
               || ngx_memcmp(ngx_http_pgw_entry_token(entry),
                             token.data, token.len)
                  != 0))
    {
        entry = entry->next;
    }

    if (entry == NULL) {
        return NULL;
    }

    if (entry->version != version) {
        ngx_http_pgw_cache_remove(table, entry);
        return NULL;
    }

    if (ngx_queue_head(&table->queue) != &entry->queue) {
        ngx_queue_remove(&entry->queue);
        ngx_queue_insert_head(&table->queue, &entry->queue);
    }

    return entry;
}


/* In the order in which a token that is not cached is checked. */

static pj_err_t
ngx_http_pgw_cache_times(const ngx_http_pgw_entry_t *entry, time_t leeway)
{
    time_t  now;

    now = ngx_time();

    if (entry->not_before > now + leeway) {
        return PJ_ERR_TOKEN_NOT_YET;
    }

    if (now - leeway >= entry->exp) {
        return PJ_ERR_TOKEN_EXPIRED;
    }

    return PJ_OK;
}


/* Copies the strings: the entry may be gone long before the request is. */

static ngx_int_t
ngx_http_pgw_cache_grant(ngx_pool_t *pool, const ngx_http_pgw_entry_t *entry,
    ngx_http_pgw_grant_t *grant)
{
    u_char          *p;
    ngx_str_t       *s;
    ngx_uint_t       i;
    const uint32_t  *len;

    s = ngx_palloc(pool, entry->strings * sizeof(ngx_str_t) + entry->text_len);
    if (s == NULL) {
        return NGX_ERROR;
    }

    p = (u_char *) &s[entry->strings];
    ngx_memcpy(p, ngx_http_pgw_entry_text(entry), entry->text_len);

    len = ngx_http_pgw_entry_lengths(entry);

    for (i = 0; i < entry->strings; i++) {

        if (len[i] == NGX_HTTP_PGW_CACHE_ABSENT) {
            ngx_str_null(&s[i]);
            continue;
        }

        s[i].len = len[i];
        s[i].data = p;
        p += len[i] + 1;
    }

    grant->access = entry->access;
    grant->subject.plain = entry->plain;
    grant->subject.account_id = s[0];
    grant->subject.session_id = s[1];
    grant->subject.workspace_id = s[2];
    grant->values = s + NGX_HTTP_PGW_CACHE_IDS;
    grant->nvalues = entry->strings - NGX_HTTP_PGW_CACHE_IDS;

    return NGX_OK;
}


void
ngx_http_pgw_cache_store(ngx_http_pgw_cache_t *cache,
    const ngx_http_pgw_loc_conf_t *conf, pj_str_t token, ngx_uint_t version,
    const ngx_http_pgw_times_t *times, const ngx_http_pgw_grant_t *grant)
{
    size_t                 text, size;
    uint64_t               hash;
    ngx_uint_t             i, strings;
    const ngx_str_t       *s;
    ngx_http_pgw_entry_t  *entry;
    ngx_http_pgw_table_t  *table;

    if (cache->off || conf->policy == 0) {
        return;
    }

    table = grant ? &cache->good : &cache->forged;

    strings = grant ? NGX_HTTP_PGW_CACHE_IDS + grant->nvalues : 0;
    text = 0;

    for (i = 0; i < strings; i++) {
        s = ngx_http_pgw_cache_string(grant, i);
        text += s->data ? s->len + 1 : 0;
    }

    size = sizeof(ngx_http_pgw_entry_t)
           + strings * sizeof(uint32_t) + token.len + text;

    if (size + NGX_HTTP_PGW_CACHE_OVERHEAD > table->max_size
        || ngx_http_pgw_cache_open(cache, table) != NGX_OK)
    {
        return;
    }

    hash = ngx_http_pgw_cache_hash(cache, token);

    if (grant == NULL) {
        ngx_http_pgw_cache_shorten(table, hash);
    }

    while (table->entries >= table->max_entries
           || table->size + size + NGX_HTTP_PGW_CACHE_OVERHEAD
              > table->max_size)
    {
        ngx_http_pgw_cache_evict(table,
                         ngx_queue_data(ngx_queue_last(&table->queue),
                                        ngx_http_pgw_entry_t,
                                        queue));
    }

    entry = ngx_alloc(size, cache->log);
    if (entry == NULL) {
        return;
    }

    entry->size = size + NGX_HTTP_PGW_CACHE_OVERHEAD;
    entry->version = version;
    entry->exp = times->exp;
    entry->not_before = times->not_before;
    entry->policy = (uint32_t) conf->policy;
    entry->access = grant ? (uint16_t) grant->access : 0;
    entry->plain = grant ? (uint16_t) grant->subject.plain : 0;
    entry->token_len = (uint32_t) token.len;
    entry->text_len = (uint32_t) text;
    entry->strings = (uint32_t) strings;

    ngx_http_pgw_cache_fill(entry, token, grant);

    entry->chain = (uint32_t) (hash & table->mask);
    entry->next = table->chains[entry->chain];
    table->chains[entry->chain] = entry;

    ngx_queue_insert_head(&table->queue, &entry->queue);

    table->entries++;
    table->size += entry->size;

    ngx_http_pgw_metrics_cached(cache->good.entries, cache->forged.entries);
}


static void
ngx_http_pgw_cache_fill(ngx_http_pgw_entry_t *entry, pj_str_t token,
    const ngx_http_pgw_grant_t *grant)
{
    u_char           *p;
    uint32_t         *len;
    ngx_uint_t        i;
    const ngx_str_t  *s;

    len = ngx_http_pgw_entry_lengths(entry);

    p = ngx_cpymem(ngx_http_pgw_entry_token(entry), token.data, token.len);

    for (i = 0; i < entry->strings; i++) {

        s = ngx_http_pgw_cache_string(grant, i);

        if (s->data == NULL) {
            len[i] = NGX_HTTP_PGW_CACHE_ABSENT;
            continue;
        }

        len[i] = (uint32_t) s->len;
        p = ngx_cpymem(p, s->data, s->len);
        *p++ = '\0';
    }
}


static const ngx_str_t *
ngx_http_pgw_cache_string(const ngx_http_pgw_grant_t *grant, ngx_uint_t i)
{
    switch (i) {

    case 0:
        return &grant->subject.account_id;

    case 1:
        return &grant->subject.session_id;

    case 2:
        return &grant->subject.workspace_id;

    default:
        return &grant->values[i - NGX_HTTP_PGW_CACHE_IDS];
    }
}


static uint64_t
ngx_http_pgw_cache_hash(const ngx_http_pgw_cache_t *cache, pj_str_t token)
{
    size_t  len;

    len = ngx_min(token.len, NGX_HTTP_PGW_CACHE_TAIL);

    return ngx_http_pgw_hash(cache->key, token.data + token.len - len, len);
}


/* Makes room in a chain: the last one is the one that came first. */

static void
ngx_http_pgw_cache_shorten(ngx_http_pgw_table_t *table, uint64_t hash)
{
    ngx_uint_t             n;
    ngx_http_pgw_entry_t  *entry, *last;

    last = NULL;
    n = 0;

    for (entry = table->chains[hash & table->mask];
         entry;
         entry = entry->next)
    {
        last = entry;
        n++;
    }

    if (n >= NGX_HTTP_PGW_CACHE_FORGED_CHAIN) {
        ngx_http_pgw_cache_evict(table, last);
    }
}


static void
ngx_http_pgw_cache_evict(ngx_http_pgw_table_t *table,
    ngx_http_pgw_entry_t *entry)
{
    ngx_http_pgw_cache_remove(table, entry);

    ngx_http_pgw_metrics_cache(NGX_HTTP_PGW_CACHE_EVICTION);
}


/* At the first use, in the worker: one that sees no token takes no memory. */

static ngx_int_t
ngx_http_pgw_cache_open(ngx_http_pgw_cache_t *cache,
    ngx_http_pgw_table_t *table)
{
    ngx_uint_t  n;

    if (table->chains) {
        return NGX_OK;
    }

    if (cache->good.chains == NULL && cache->forged.chains == NULL
        && RAND_bytes((u_char *) cache->key, sizeof(cache->key)) != 1)
    {
        ngx_log_error(NGX_LOG_ERR, cache->log, 0,
                      "platform gateway: no random bytes for the token cache");
        return NGX_ERROR;
    }

    /* one or two entries a chain; a tiny cache is a single chain */

    for (n = 1; n * 2 < table->max_entries; n *= 2) { /* void */ }

    table->chains = ngx_calloc(n * sizeof(ngx_http_pgw_entry_t *), cache->log);
    if (table->chains == NULL) {
        return NGX_ERROR;
    }

    table->mask = n - 1;
    ngx_queue_init(&table->queue);

    return NGX_OK;
}


/* The token opens doors until it expires: it does not stay in free memory. */

static void
ngx_http_pgw_cache_remove(ngx_http_pgw_table_t *table,
    ngx_http_pgw_entry_t *entry)
{
    ngx_http_pgw_entry_t  **p;

    p = &table->chains[entry->chain];

    while (*p != entry) {
        p = &(*p)->next;
    }

    *p = entry->next;

    ngx_queue_remove(&entry->queue);

    table->entries--;
    table->size -= entry->size;

    OPENSSL_cleanse(ngx_http_pgw_entry_token(entry),
                    entry->token_len + entry->text_len);
    ngx_free(entry);
}
