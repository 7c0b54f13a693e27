
/*
 * Fetches of key sets: the timer, and the end of a fetch.  A key file is read
 * in the same way.
 *
 * The metadata of an issuer (OpenID Connect Discovery 1.0) are read for two
 * members: "issuer" has to be equal to the configured name, and "jwks_uri" is
 * stored in shared memory until a fetch from there fails.
 */


#include "issuer/issuer.h"
#include "base/base.h"
#include "nginx/nginx.h"


#define NGX_HTTP_PGW_KEYS_TICK    250  /* interval of the timer, ms */

#define NGX_HTTP_PGW_REFRESH_METADATA  "/.well-known/openid-configuration"


/* Returns 1 if the URL is safe for keys, because documents are protected by TLS
   or do not leave the host. */

static ngx_uint_t
ngx_http_pgw_keys_fetch_safe(const u_char *url, size_t len)
{
    size_t       i, n;
    const char  *prefix;

    static const char *const  prefixes[] = {
        "https://", "http://127.0.0.1", "http://[::1]", "http://localhost", NULL
    };

    for (i = 0; i < len; i++) {
        if (url[i] <= 0x20 || url[i] >= 0x7f || url[i] == '#') {
            return 0;
        }
    }

    for (i = 0; (prefix = prefixes[i]) != NULL; i++) {

        n = ngx_strlen(prefix);

        if (len > n && ngx_memcmp(url, prefix, n) == 0
            && (i ? url[n] == ':' || url[n] == '/'
                : url[n] != '/'
                  && ngx_strncasecmp((u_char *) url + n, (u_char *) "unix:", 5)
                     != 0))
        {
            return 1;
        }
    }

    return 0;
}


char *
ngx_http_pgw_keys_fetch_discovery(ngx_conf_t *cf, ngx_http_pgw_issuer_t *issuer)
{
    u_char    *p;
    pj_str_t   iss = *(pj_str_t *) issuer->issuers->elts;

    if (issuer->from.location.len == 0) {
        return "needs \"key_location\", through which it is fetched";
    }

    if (!ngx_http_pgw_keys_fetch_safe(iss.data, iss.len)) {
        return "needs an issuer that begins with \"https://\", or is of this "
               "host";
    }

    if (iss.data[iss.len - 1] == '/') {
        iss.len--;
    }

    p = ngx_pnalloc(cf->pool,
                    iss.len + sizeof(NGX_HTTP_PGW_REFRESH_METADATA) - 1);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    issuer->discovery.data = p;
    p = ngx_cpymem(p, iss.data, iss.len);
    p = ngx_cpymem(p, NGX_HTTP_PGW_REFRESH_METADATA,
                   sizeof(NGX_HTTP_PGW_REFRESH_METADATA) - 1);
    issuer->discovery.len = (size_t) (p - issuer->discovery.data);

    return NGX_CONF_OK;
}


/* Reads the metadata.  Returns NULL, or the description of an error. */

static const char *
ngx_http_pgw_keys_fetch_metadata(ngx_http_pgw_issuer_t *issuer,
    const ngx_str_t *document)
{
    void                 *mem;
    size_t                size = pj_keyset_arena_bytes(document->len);
    pj_str_t              iss, uri;
    const char           *err;
    pj_arena_t            arena;
    const pj_json_t      *root;
    const pj_str_t       *name = issuer->issuers->elts;
    ngx_http_pgw_zone_t  *zone = issuer->zone;

    mem = ngx_alloc(size, issuer->from.log);
    if (mem == NULL) {
        return "out of memory";
    }

    pj_arena_init(&arena, mem, size);

    err = "the issuer's metadata are no JSON object";

    if (pj_json_parse(&arena, (pj_str_t) { document->data, document->len },
                      &root)
        == PJ_OK
        && root->type == PJ_JSON_OBJECT)
    {
        iss = pj_json_string(root, "issuer");
        uri = pj_json_string(root, "jwks_uri");

        err = !pj_str_eq(iss, *name)
              ? "the issuer's metadata are another's"
              : uri.len == 0 || uri.len > sizeof(zone->jwks_uri)
                || !ngx_http_pgw_keys_fetch_safe(uri.data, uri.len)
                || (name->data[4] == 's' && uri.data[4] != 's')
              ? "the issuer's metadata have no \"jwks_uri\" that begins with "
                "\"https://\", or is of this host" : NULL;

        if (err == NULL) {
            ngx_shmtx_lock(&issuer->from.shpool->mutex);

            /* a newer configuration may have another issuer */

            if (ngx_http_pgw_lease_renew(&issuer->from) == NGX_OK) {
                ngx_memcpy(zone->jwks_uri, uri.data, uri.len);
                zone->jwks_uri_len = uri.len;

            } else {
                err = "the lease has passed to others";
            }

            ngx_shmtx_unlock(&issuer->from.shpool->mutex);
        }
    }

    ngx_free(mem);

    return err;
}


/* Warns if a worker has too few connections for its listening sockets, a
   request with its upstream, and all fetches.  This is checked when zones are
   made, because events{} may follow http{}. */

static void
ngx_http_pgw_keys_fetch_connections(const ngx_http_pgw_main_conf_t *mcf,
    ngx_log_t *log)
{
    ngx_uint_t                    i, needed = 3;
    const ngx_listening_t        *ls = mcf->cycle->listening.elts;
    const ngx_http_pgw_source_t  *from;

    for (i = 0; i < mcf->cycle->listening.nelts; i++) {
        needed += (ls[i].worker == 0);    /* others belong to "reuseport" */
    }

    for (from = mcf->sources; from; from = from->next) {
        needed += (from->location.len != 0);
    }

    if (mcf->cycle->connection_n < needed) {
        ngx_log_error(NGX_LOG_WARN, log, 0,
                      "%ui worker_connections may not be enough to fetch key "
                      "sets and revocations: \"worker_connections\" should be "
                      "at least %ui", mcf->cycle->connection_n, needed);
    }
}


ngx_int_t
ngx_http_pgw_keys_fetch_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_http_pgw_zone_t       *zone;
    ngx_http_pgw_issuer_t     *issuer;
    ngx_http_pgw_main_conf_t  *mcf = shm_zone->data;

    if (ngx_http_pgw_abi_zone(shm_zone) != NGX_OK) {
        return NGX_ERROR;
    }

    ngx_http_pgw_keys_fetch_connections(mcf, shm_zone->shm.log);

    for (issuer = mcf->issuers; issuer; issuer = issuer->next) {

        if (!ngx_http_pgw_issuer_usable(issuer)) {
            continue;
        }

        zone = ngx_http_pgw_zone_part(shm_zone, NGX_HTTP_PGW_ZONE_KEYS,
                                      sizeof(ngx_http_pgw_zone_t),
                                      &issuer->name);
        if (zone == NULL) {
            ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                          "platform_gateway_zone \"%V\" is too small",
                          &shm_zone->shm.name);
            return NGX_ERROR;
        }

        ngx_http_pgw_lease_connect(&issuer->from, shm_zone, &zone->lease);
        issuer->zone = zone;

        if (zone->version == 0 && zone->lease.generation == 0) {
            zone->lease.next_try = ngx_current_msec;
            ngx_memcpy(zone->lease.source, issuer->from.source,
                       NGX_HTTP_PGW_DIGEST);

            if (issuer->cache_file.len) {
                ngx_http_pgw_disk_load(issuer);
            }
        }
    }

    return NGX_OK;
}


/* Logs a failed fetch; the cooldown limits the lines. */

static void
ngx_http_pgw_keys_fetch_log_failure(const ngx_http_pgw_issuer_t *issuer,
    const char *err)
{
    const char                 *prefix = issuer->name.len ? ", of " : "";
    ngx_msec_t                  age;
    const ngx_http_pgw_zone_t  *zone = issuer->zone;

    age = ngx_current_msec - zone->fetched;

    if (zone->fetched_at == 0) {
        ngx_log_error(NGX_LOG_ERR, issuer->from.log, 0,
                      "platform gateway: key set not fetched: %s; "
                      "there is none yet%s%V", err, prefix, &issuer->name);
        return;
    }

    ngx_log_error(NGX_LOG_ERR, issuer->from.log, 0,
                  "platform gateway: key set not refreshed: %s; the last good "
                  "one is %Ms old, %s%s%V", err, age / 1000,
                  age >= issuer->ages[NGX_HTTP_PGW_AGE_HARD]
                  ? "which is past the hard age" : "and kept",
                  prefix, &issuer->name);
}


static void
ngx_http_pgw_keys_fetch_fetched(void *data, const ngx_str_t *document,
    const char *err, ngx_uint_t status)
{
    ngx_http_pgw_issuer_t  *issuer = data;

    pj_keyset_t           *set = NULL;
    ngx_http_pgw_fetch_e   outcome;

    if (err == NULL && issuer->discovery.len
        && issuer->from.url.data == issuer->discovery.data)
    {
        err = ngx_http_pgw_keys_fetch_metadata(issuer, document);

        if (err == NULL) {
            ngx_post_event(&issuer->from.begin, &ngx_posted_events);
            return;
        }

    } else if (err == NULL) {
        err = ngx_http_pgw_keys_parse(issuer, document, &set);
    }

    outcome = ngx_http_pgw_keys_release(issuer, err ? NULL : document);

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, issuer->from.log, 0,
                   "http platform gateway: key fetch of lease %ui ended, "
                   "outcome:%d, %s", issuer->from.number, outcome,
                   err ? err : "a key set");

    ngx_http_pgw_lease_count(&issuer->from, outcome);

    if (set && outcome == NGX_HTTP_PGW_FETCH_NEW) {
        ngx_log_error(NGX_LOG_NOTICE, issuer->from.log, 0,
                      "platform gateway: new key set, %uz keys used, "
                      "%uz ignored%s%s", set->count, set->ignored,
                      set->ignored ? ": " : "",
                      set->ignored ? pj_strerror(set->last_ignored) : "");
        ngx_http_pgw_keys_warn_duplicate(issuer, set, issuer->from.log);
    }

    ngx_http_pgw_keys_free(set);

    if (outcome == NGX_HTTP_PGW_FETCH_FAILED) {

        if (!ngx_exiting && !ngx_terminate) {
            ngx_http_pgw_keys_fetch_log_failure(issuer, err);
        }

    } else if (issuer->cache_file.len) {
        ngx_http_pgw_disk_write(issuer);    /* or the set of another worker */
    }
}


/*
 * Begins a fetch with the lease.  A key file is read each time, up to 64 KiB,
 * and compared by content, because its time may not show a change.
 */

static void
ngx_http_pgw_keys_fetch_begin(ngx_event_t *ev)
{
    ngx_str_t               document;
    const char             *err = "out of memory";
    ngx_http_pgw_issuer_t  *issuer = ev->data;

    static u_char  file[PJ_KEYSET_MAX_BYTES];

    document.data = file;

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, issuer->from.log, 0,
                   "http platform gateway: key fetch of lease %ui begun",
                   issuer->from.number);

    if (issuer->discovery.len) {
        issuer->from.url = issuer->discovery;

        /* copied, because another worker may write it during the fetch */

        ngx_shmtx_lock(&issuer->from.shpool->mutex);

        if (issuer->zone->jwks_uri_len) {
            issuer->from.url.len = issuer->zone->jwks_uri_len;
            issuer->from.url.data = issuer->jwks_uri;
            ngx_memcpy(issuer->jwks_uri, issuer->zone->jwks_uri,
                       issuer->zone->jwks_uri_len);
        }

        ngx_shmtx_unlock(&issuer->from.shpool->mutex);
    }

    if (issuer->file.len) {
        err = ngx_http_pgw_keys_read(&issuer->file, document.data,
                                     PJ_KEYSET_MAX_BYTES, &document.len);

    } else if (ngx_http_pgw_fetch_start(&issuer->from, NULL) == NGX_OK) {
        return;
    }

    ngx_http_pgw_keys_fetch_fetched(issuer, &document, err, 0);
}


/*
 * Begins a fetch that is due.  An exiting worker ends its fetch when no request
 * can wait for it.
 */

static void
ngx_http_pgw_keys_fetch_timer(ngx_event_t *ev)
{
    ngx_http_pgw_issuer_t  *issuer = ev->data;
    ngx_http_pgw_zone_t    *zone = issuer->zone;

    if (ngx_exiting) {

        if (issuer->leave_at == 0) {
            issuer->leave_at = ngx_current_msec + issuer->wait;
        }

        if (ngx_http_pgw_lease_left(issuer->leave_at) == 0) {
            ngx_http_pgw_fetch_abort(&issuer->from);
        }

        if (!issuer->from.fetching) {
            return;
        }

    } else if (zone->fetched_at == 0 || zone->refresh
               || ngx_http_pgw_lease_left(zone->fetched + issuer->due) == 0)
    {
        (void) ngx_http_pgw_keys_fetch(issuer);
    }

    ngx_add_timer(ev, NGX_HTTP_PGW_KEYS_TICK);
}


void
ngx_http_pgw_keys_fetch_init_process(ngx_http_pgw_issuer_t *issuer)
{
    ngx_msec_t  soft, part;

    if (!ngx_http_pgw_issuer_usable(issuer)) {
        return;
    }

    issuer->working = 1;

    /* 5 to 10 % early, and at random, so that gateways do not fetch together */

    soft = issuer->ages[NGX_HTTP_PGW_AGE_SOFT];
    part = soft / 20;
    issuer->due = soft - part - (ngx_msec_t) ngx_random() % (part + 1);

    ngx_http_pgw_keys_activate(issuer);
    ngx_http_pgw_lease_start(&issuer->from);
}


void
ngx_http_pgw_keys_fetch_exit_process(ngx_http_pgw_issuer_t *issuer)
{
    if (issuer->working) {
        ngx_http_pgw_fetch_abort(&issuer->from);
        ngx_http_pgw_keys_free(issuer->set);
        issuer->working = 0;
    }
}


const ngx_http_pgw_source_t  ngx_http_pgw_keys_fetch_source = {
    .name = "keys",
    .directive = "platform_gateway_key_location",
    .max = PJ_KEYSET_MAX_BYTES,
    .too_small = "cannot hold a key set: add "
                 "\"subrequest_output_buffer_size 64k;\"",
    .timer.handler = ngx_http_pgw_keys_fetch_timer,
    .begin.handler = ngx_http_pgw_keys_fetch_begin,
    .handler = ngx_http_pgw_keys_fetch_fetched
};
