
/*
 * Key sets: the last good document in the zone, the set that each worker parses
 * from it, and the requests that wait for a fetch, limited in number and time.
 */


#include "issuer/issuer.h"


#define NGX_HTTP_PGW_KEYS_POLL  25     /* interval of a waiting request, ms */


typedef struct {
    ngx_http_request_t     *request;
    ngx_http_pgw_issuer_t  *issuer;
    ngx_event_t             timer;    /* set while the request waits */
    ngx_msec_t              until;
    ngx_uint_t              version;  /* of the set at the last check */
    ngx_uint_t              ended;    /* number of fetches at the last check */
    ngx_uint_t              lease;    /* number of the last lease before the
                                         request */
} ngx_http_pgw_wait_t;


const char *
ngx_http_pgw_keys_read(const ngx_str_t *name, void *buf, size_t max,
    size_t *len)
{
    ssize_t          n;
    ngx_fd_t         fd;
    const char      *err;
    ngx_file_info_t  fi;

    static u_char  error[128];

    n = -1;
    err = NULL;

    fd = ngx_open_file(name->data, NGX_FILE_RDONLY|NGX_FILE_NONBLOCK,
                       NGX_FILE_OPEN, 0);

    if (fd != NGX_INVALID_FILE && ngx_fd_info(fd, &fi) != NGX_FILE_ERROR) {
        err = !ngx_is_file(&fi) ? "it is not a regular file"
              : ngx_file_size(&fi) > (off_t) max ? "it is too large" : NULL;
        n = err ? 0 : ngx_read_fd(fd, buf, max);
    }

    if (n == -1) {
        *ngx_strerror(ngx_errno, error, sizeof(error) - 1) = '\0';
        err = (const char *) error;
    }

    if (fd != NGX_INVALID_FILE) {
        (void) ngx_close_file(fd);
    }

    *len = (size_t) n;

    return err;
}


const char *
ngx_http_pgw_keys_parse(const ngx_http_pgw_issuer_t *issuer,
    const ngx_str_t *document, pj_keyset_t **set)
{
    void        *mem;
    size_t       size;
    pj_err_t     err = PJ_ERR_NO_SPACE;
    pj_str_t     text = { document->data, document->len };
    pj_arena_t   arena;

    size = pj_keyset_arena_bytes(text.len);

    *set = ngx_calloc(sizeof(pj_keyset_t), ngx_cycle->log);
    mem = ngx_alloc(size, ngx_cycle->log);

    if (*set && mem) {
        pj_arena_init(&arena, mem, size);
        err = issuer->file.len ? pj_keyset_parse_file(*set, &arena, text)
                               : pj_keyset_parse(*set, &arena, text);
    }

    ngx_free(mem);

    if (err == PJ_OK) {
        return NULL;
    }

    ngx_free(*set);
    *set = NULL;

    return pj_strerror(err);
}


void
ngx_http_pgw_keys_warn_duplicate(const ngx_http_pgw_issuer_t *issuer,
    const pj_keyset_t *set, ngx_log_t *log)
{
    pj_str_t  kid;

    if (set->twice == NULL) {
        return;
    }

    kid = pj_key_id(set->twice);

    /* the log does not escape the issuer's text */

    kid.len = pj_json_plain(kid) ? kid.len : 0;

    ngx_log_error(NGX_LOG_WARN, log, 0,
                  "platform gateway: two keys of issuer \"%V\" have the kid "
                  "\"%*s\": the first counts, and tokens of the other are "
                  "refused", ngx_http_pgw_issuer_label(issuer), kid.len,
                  kid.data);
}


void
ngx_http_pgw_keys_free(pj_keyset_t *set)
{
    if (set) {
        pj_keyset_clear(set);
        ngx_free(set);
    }
}


ngx_http_pgw_fetch_e
ngx_http_pgw_keys_put(ngx_http_pgw_zone_t *zone, const ngx_str_t *document,
    ngx_msec_t fetched, time_t fetched_at)
{
    ngx_uint_t            slot = zone->version & 1;
    ngx_http_pgw_fetch_e  outcome = NGX_HTTP_PGW_FETCH_UNCHANGED;

    if (zone->len[slot] != document->len
        || ngx_memcmp(zone->document[slot], document->data, document->len)
           != 0)
    {
        slot = !slot;
        ngx_memcpy(zone->document[slot], document->data, document->len);
        zone->len[slot] = document->len;
        ngx_memory_barrier();
        zone->version++;
        outcome = NGX_HTTP_PGW_FETCH_NEW;
    }

    ngx_memory_barrier();
    zone->fetched = fetched;
    zone->fetched_at = fetched_at;
    zone->refresh = 0;

    return outcome;
}


void
ngx_http_pgw_keys_activate(ngx_http_pgw_issuer_t *issuer)
{
    ngx_int_t             rc;
    ngx_http_pgw_zone_t  *zone = issuer->zone;

    static const ngx_str_t  none = ngx_string("");

    ngx_shmtx_lock(&issuer->from.shpool->mutex);

    rc = ngx_http_pgw_lease_activate(&issuer->from);

    /* the set of another source is replaced by the key file's, or dropped */

    if (rc == NGX_DONE) {
        zone->jwks_uri_len = 0;
    }

    if (rc == NGX_DONE || (rc == NGX_OK && issuer->document.len)) {
        (void) ngx_http_pgw_keys_put(zone, issuer->document.len
                                     ? &issuer->document : &none,
                                     ngx_current_msec,
                                     issuer->document.len ? ngx_time() : 0);
    }

    if (rc != NGX_DECLINED) {
        zone->refresh = 1;
    }

    ngx_shmtx_unlock(&issuer->from.shpool->mutex);
}


ngx_http_pgw_copy_t *
ngx_http_pgw_keys_copy(ngx_http_pgw_issuer_t *issuer)
{
    ngx_uint_t            slot;
    ngx_http_pgw_zone_t  *zone;

    static ngx_http_pgw_copy_t  copy;

    zone = issuer->zone;
    copy.document.data = copy.disk.document;
    copy.document.len = 0;

    ngx_shmtx_lock(&issuer->from.shpool->mutex);

    copy.version = zone->version;
    copy.fetched = zone->fetched;
    copy.fetched_at = zone->fetched_at;

    /* a worker of an older configuration must not use another source's set */

    if (ngx_memcmp(zone->lease.source, issuer->from.source, NGX_HTTP_PGW_DIGEST)
        == 0)
    {
        slot = zone->version & 1;
        copy.document.len = zone->len[slot];
        ngx_memcpy(copy.document.data, zone->document[slot],
                   copy.document.len);
    }

    ngx_shmtx_unlock(&issuer->from.shpool->mutex);

    return &copy;
}


ngx_int_t
ngx_http_pgw_keys_fetch(ngx_http_pgw_issuer_t *issuer)
{
    ngx_int_t  rc;

    ngx_shmtx_lock(&issuer->from.shpool->mutex);

    rc = ngx_http_pgw_lease_acquire(&issuer->from);

    ngx_shmtx_unlock(&issuer->from.shpool->mutex);

    return rc;
}


ngx_http_pgw_fetch_e
ngx_http_pgw_keys_release(ngx_http_pgw_issuer_t *issuer,
    const ngx_str_t *document)
{
    ngx_http_pgw_zone_t   *zone = issuer->zone;
    ngx_http_pgw_fetch_e   outcome = NGX_HTTP_PGW_FETCH_SUPERSEDED;

    ngx_shmtx_lock(&issuer->from.shpool->mutex);

    if (ngx_http_pgw_lease_release(&issuer->from) == NGX_OK) {
        outcome = NGX_HTTP_PGW_FETCH_FAILED;

        if (document) {
            outcome = ngx_http_pgw_keys_put(zone, document, zone->lease.began,
                                            zone->lease.began_at);
            zone->brought = zone->lease.number;

        } else {
            zone->jwks_uri_len = 0;    /* discovered again */
        }

        zone->ended++;
    }

    ngx_shmtx_unlock(&issuer->from.shpool->mutex);

    return outcome;
}


/*
 * Parses the document in the zone.  The worker that fetched it does so, too, so
 * that set, version and time always match.
 */

static ngx_int_t
ngx_http_pgw_keys_load(ngx_http_pgw_issuer_t *issuer)
{
    const char           *err;
    pj_keyset_t          *set = NULL;
    ngx_http_pgw_copy_t  *copy = ngx_http_pgw_keys_copy(issuer);

    err = copy->document.len
          ? ngx_http_pgw_keys_parse(issuer, &copy->document, &set) : NULL;

    if (err) {

        /* memory is short, since it was parsed before: the next request
           retries */

        ngx_log_error(NGX_LOG_ERR, issuer->from.log, 0,
                      "platform gateway: key set not loaded: %s", err);
        return NGX_ERROR;
    }

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, issuer->from.log, 0,
                   "http platform gateway: key set version %ui adopted, "
                   "%uz keys", copy->version, set ? set->count : 0);

    ngx_http_pgw_keys_free(issuer->set);

    issuer->set = set;
    issuer->version = copy->version;
    issuer->fetched = copy->fetched;

    return NGX_OK;
}


const pj_keyset_t *
ngx_http_pgw_keys_get(ngx_http_pgw_issuer_t *issuer)
{
    ngx_msec_t  fetched, hard;

    if (!issuer->working) {
        return NULL;
    }

    /* read before the version, so that it is not the time of a later set */

    fetched = issuer->zone->fetched;
    ngx_memory_barrier();

    if (issuer->version == issuer->zone->version) {
        issuer->fetched = fetched;

    } else if (ngx_http_pgw_keys_load(issuer) != NGX_OK) {
        return NULL;
    }

    hard = issuer->ages[NGX_HTTP_PGW_AGE_HARD];

    return ngx_http_pgw_lease_left(issuer->fetched + hard) ? issuer->set : NULL;
}


void
ngx_http_pgw_keys_select(ngx_http_pgw_issuer_t *issuer,
    ngx_http_pgw_keys_t *keys)
{
    keys->issuer = issuer;
    keys->set = ngx_http_pgw_keys_get(issuer);
    keys->version = issuer->version;
}


time_t
ngx_http_pgw_keys_retry_after(const ngx_http_pgw_issuer_t *issuer)
{
    ngx_msec_t                  left;
    const ngx_http_pgw_zone_t  *zone = issuer->zone;

    left = ngx_http_pgw_lease_left(zone->lease.until) == 0
           ? ngx_http_pgw_lease_left(zone->lease.next_try) : 0;

    return ngx_max((time_t) (left + 999) / 1000, 1);
}


void
ngx_http_pgw_keys_explain(ngx_http_pgw_text_t *text,
    ngx_http_pgw_issuer_t *issuer)
{
    time_t              fetched;
    const pj_keyset_t  *set;

    ngx_http_pgw_text_literal(text, ",\n\"trust\":",
                              (char *) issuer->name.data);

    if (!ngx_http_pgw_issuer_usable(issuer)) {
        ngx_http_pgw_text_format(text, ",\n\"keySet\":null");
        return;
    }

    set = ngx_http_pgw_keys_get(issuer);
    fetched = issuer->zone->fetched_at;

    ngx_http_pgw_text_format(text, ",\n\"keySet\":{\"version\":%ui,"
                             "\"keys\":%uz,\"ageSeconds\":",
                             issuer->version, set ? set->count : 0);
    ngx_http_pgw_text_format(text, fetched ? "%T}" : "null}",
                             ngx_max(ngx_time() - fetched, 0));
}


static void
ngx_http_pgw_wait_leave(void *data)
{
    ngx_http_pgw_wait_t  *wait = data;

    if (wait->timer.timer_set) {
        ngx_del_timer(&wait->timer);
        wait->issuer->waiting--;
    }
}


static void
ngx_http_pgw_wait_poll(ngx_event_t *ev)
{
    ngx_msec_t            left;
    ngx_connection_t     *c;
    ngx_http_request_t   *r;
    ngx_http_pgw_wait_t  *wait = ev->data;
    ngx_http_pgw_zone_t  *zone = wait->issuer->zone;

    left = ngx_http_pgw_lease_left(wait->until);

    if (left
        && zone->version == wait->version && zone->ended == wait->ended)
    {
        ngx_add_timer(ev, ngx_min(left, NGX_HTTP_PGW_KEYS_POLL));
        return;
    }

    wait->issuer->waiting--;

    r = wait->request;
    c = r->connection;

    ngx_http_set_log_request(c->log, r);

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, c->log, 0,
                   "http platform gateway: waited for keys, %s",
                   left ? "a fetch ended" : "no time is left");

    if (r == r->main) {
        r->read_event_handler = ngx_http_block_reading;
    }

    r->write_event_handler = ngx_http_core_run_phases;

    ngx_http_core_run_phases(r);
    ngx_http_run_posted_requests(c);
}


/* Returns the wait of r for an issuer, which the first call creates.  The pool
   may have waits of other requests, because subrequests share it. */

static ngx_http_pgw_wait_t *
ngx_http_pgw_wait_get(ngx_http_request_t *r, ngx_http_pgw_issuer_t *issuer)
{
    ngx_pool_cleanup_t   *cln;
    ngx_http_pgw_wait_t  *wait;

    for (cln = r->pool->cleanup; cln; cln = cln->next) {
        wait = cln->data;

        if (cln->handler == ngx_http_pgw_wait_leave
            && wait->request == r && wait->issuer == issuer)
        {
            return wait;
        }
    }

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_pgw_wait_t));
    if (cln == NULL) {
        return NULL;
    }

    cln->handler = ngx_http_pgw_wait_leave;

    wait = cln->data;
    ngx_memzero(wait, sizeof(ngx_http_pgw_wait_t));

    wait->request = r;
    wait->issuer = issuer;
    wait->lease = issuer->zone->lease.number;
    wait->until = ngx_current_msec + issuer->wait;

    wait->timer.handler = ngx_http_pgw_wait_poll;
    wait->timer.data = wait;
    wait->timer.log = r->connection->log;

    return wait;
}


ngx_int_t
ngx_http_pgw_keys_wait(ngx_http_request_t *r, ngx_http_pgw_issuer_t *issuer)
{
    ngx_msec_t            left;
    ngx_http_pgw_wait_t  *wait;

    wait = issuer->working ? ngx_http_pgw_wait_get(r, issuer) : NULL;

    if (wait == NULL) {
        return NGX_DECLINED;
    }

    if (wait->timer.timer_set) {
        return NGX_AGAIN;
    }

    if ((ngx_atomic_int_t) (issuer->zone->brought - wait->lease) > 0) {
        return NGX_OK;
    }

    /* set before keys_fetch(), or the end of a fetch could be missed */

    wait->version = issuer->version;
    wait->ended = issuer->zone->ended;

    left = ngx_http_pgw_lease_left(wait->until);

    /* a fetch begins even if r cannot wait for it */

    if (ngx_http_pgw_keys_fetch(issuer) == NGX_DECLINED || left == 0
        || issuer->waiting >= (ngx_uint_t) ngx_http_pgw_main(r)->key_waiters)
    {
        return NGX_DECLINED;
    }

    if (r == r->main) {

        /* the wait ends if the client closes the connection */

        ngx_post_event(r->connection->read, &ngx_posted_events);
        r->read_event_handler = ngx_http_test_reading;
    }

    r->write_event_handler = ngx_http_request_empty_handler;

    ngx_log_debug2(NGX_LOG_DEBUG_HTTP, r->connection->log, 0,
                   "http platform gateway: waits for keys, %M ms left, "
                   "lease %ui", left, wait->lease);

    /* not cancelable: a worker must not exit while a request waits */

    ngx_add_timer(&wait->timer, ngx_min(left, NGX_HTTP_PGW_KEYS_POLL));
    issuer->waiting++;

    return NGX_AGAIN;
}
