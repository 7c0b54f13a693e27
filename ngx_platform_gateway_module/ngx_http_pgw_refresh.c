
/*
 * Where the key set comes from, and when: the timer, and what becomes of a
 * fetch; of the operator's own file, in place of an issuer, too.
 */


#include "ngx_http_pgw_refresh.h"
#include "ngx_http_pgw_counters.h"
#include "ngx_http_pgw_discovery.h"
#include "ngx_http_pgw_disk.h"
#include "ngx_http_pgw_fetch.h"
#include "ngx_http_pgw_keys.h"


#define NGX_HTTP_PGW_KEYS_TICK    250  /* ms, between two looks */


ngx_int_t
ngx_http_pgw_refresh_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_http_pgw_zone_t       *zone;
    ngx_http_pgw_issuer_t     *issuer;
    ngx_http_pgw_main_conf_t  *mcf = shm_zone->data;

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

        issuer->from.shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;
        issuer->from.lease = &zone->lease;
        issuer->zone = zone;

        if (zone->version == 0 && zone->lease.generation == 0) {
            zone->lease.next_try = ngx_current_msec;
            ngx_memcpy(zone->lease.source, issuer->from.source,
                       NGX_HTTP_PGW_DIGEST);

            if (issuer->cache_file.len) {
                ngx_http_pgw_disk_load(issuer);
            }
        }

        /* In force only once a worker runs with it: a reload may yet fail. */

        issuer->from.generation = ++zone->lease.given;
    }

    return NGX_OK;
}


/*
 * Logs one line for each failed fetch, of which there is at most one in a
 * cooldown.  A bad key file is logged once, until it is bad in another way.
 */

static void
ngx_http_pgw_refresh_log_failure(ngx_http_pgw_issuer_t *issuer, const char *err)
{
    ngx_msec_t            age;
    ngx_uint_t            complaint, past;
    ngx_http_pgw_zone_t  *zone = issuer->zone;

    age = ngx_current_msec - zone->fetched;
    past = age >= issuer->ages[NGX_HTTP_PGW_AGE_HARD];

    if (issuer->file.len) {
        complaint = 1 + 2 * ngx_crc32_short((u_char *) err, ngx_strlen(err))
                    + past;

        if (zone->complaint == complaint) {
            return;
        }

        zone->complaint = complaint;
    }

    if (zone->fetched_at == 0) {
        ngx_log_error(NGX_LOG_ERR, issuer->from.log, 0,
                      "platform gateway: key set not fetched: %s; "
                      "there is none yet%s%V", err,
                      issuer->name.len ? ", of " : "", &issuer->name);
        return;
    }

    ngx_log_error(NGX_LOG_ERR, issuer->from.log, 0,
                  "platform gateway: key set not refreshed: %s; the last good "
                  "one is %Ms old, %s%s%V", err, age / 1000,
                  past ? "which is past the hard age" : "and kept",
                  issuer->name.len ? ", of " : "", &issuer->name);
}


void
ngx_http_pgw_refresh_fetched(void *data, const ngx_str_t *document,
    const char *err, ngx_uint_t status)
{
    ngx_http_pgw_issuer_t  *issuer = data;

    pj_keyset_t           *set;
    ngx_http_pgw_fetch_e   outcome;

    (void) status;

    set = NULL;

    if (issuer->discovery.len
        && ngx_http_pgw_discovery_end(issuer, document, &err) == NGX_OK)
    {
        return;
    }

    if (err == NULL) {
        err = ngx_http_pgw_keys_parse(issuer, document, &set);
    }

    outcome = ngx_http_pgw_keys_release(issuer, err ? NULL : document);

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, issuer->from.log, 0,
                   "http platform gateway: key fetch of lease %ui ended, "
                   "outcome:%d, %s", issuer->from.number, outcome,
                   err ? err : "a key set");

    ngx_http_pgw_counters_end(&issuer->from, outcome);

    if (outcome == NGX_HTTP_PGW_FETCH_NEW) {
        ngx_log_error(NGX_LOG_NOTICE, issuer->from.log, 0,
                      "platform gateway: new key set, %uz keys used, "
                      "%uz ignored%s%s", set->count, set->ignored,
                      set->ignored ? ": " : "",
                      set->ignored ? pj_strerror(set->last_ignored) : "");
    }

    ngx_http_pgw_keys_free(set);

    if (outcome == NGX_HTTP_PGW_FETCH_FAILED) {

        if (!ngx_exiting && !ngx_terminate) {
            ngx_http_pgw_refresh_log_failure(issuer, err);
        }

    } else if (outcome != NGX_HTTP_PGW_FETCH_SUPERSEDED
               && issuer->cache_file.len)
    {
        ngx_http_pgw_disk_write(issuer);
    }
}


/*
 * A fetch, with the right to it.  The key file is read whole each time and
 * compared by content, so that no clock of a file system decides whether it has
 * changed: 64 KiB once a soft age.
 */

static void
ngx_http_pgw_refresh_begin(ngx_event_t *ev)
{
    ngx_str_t             document;
    const char           *err;
    ngx_http_pgw_issuer_t  *issuer;

    static u_char  file[PJ_KEYSET_MAX_BYTES];

    issuer = ev->data;
    err = "out of memory";
    document.data = file;

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, issuer->from.log, 0,
                   "http platform gateway: key fetch of lease %ui begun",
                   issuer->from.number);

    ngx_http_pgw_discovery_begin(issuer);

    if (issuer->file.len) {
        err = ngx_http_pgw_keys_read(&issuer->file, document.data,
                                     PJ_KEYSET_MAX_BYTES, &document.len);

    } else if (ngx_http_pgw_fetch_start(&issuer->from, NULL) == NGX_OK) {
        return;
    }

    ngx_http_pgw_refresh_fetched(issuer, &document, err, 0);
}


/*
 * Begins a fetch that is due.  A worker that exits ends its own fetch: at once
 * if a new configuration is in force, whose workers fetch for themselves; else
 * when no request can be waiting for it any more.
 */

static void
ngx_http_pgw_refresh_timer(ngx_event_t *ev)
{
    ngx_http_pgw_issuer_t  *issuer = ev->data;
    ngx_http_pgw_zone_t    *zone = issuer->zone;

    if (ngx_exiting) {

        if (issuer->leave_at == 0) {
            issuer->leave_at = ngx_current_msec + issuer->wait;
        }

        if (zone->lease.generation != issuer->from.generation
            || ngx_http_pgw_lease_left(issuer->leave_at) == 0)
        {
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
ngx_http_pgw_refresh_init_process(ngx_http_pgw_issuer_t *issuer)
{
    ngx_msec_t  soft, part;

    if (!ngx_http_pgw_issuer_usable(issuer)) {
        return;
    }

    issuer->working = 1;

    /* 5 to 10 % early, at random: not all at once, and not late if slow. */

    soft = issuer->ages[NGX_HTTP_PGW_AGE_SOFT];
    part = soft / 20;
    issuer->due = soft - part - (ngx_msec_t) ngx_random() % (part + 1);

    issuer->timer.handler = ngx_http_pgw_refresh_timer;
    issuer->timer.data = issuer;
    issuer->timer.log = issuer->from.log;
    issuer->timer.cancelable = 1;

    issuer->from.begin.handler = ngx_http_pgw_refresh_begin;
    issuer->from.begin.data = issuer;
    issuer->from.begin.log = issuer->from.log;

    if (issuer->from.location.len) {
        ngx_http_pgw_fetch_reserve(&issuer->from);
    }

    ngx_http_pgw_keys_activate(issuer);

    if (issuer->cache_file.len && ngx_worker == 0) {
        ngx_http_pgw_disk_test(issuer);
    }

    ngx_add_timer(&issuer->timer, 1);
}


void
ngx_http_pgw_refresh_exit_process(ngx_http_pgw_issuer_t *issuer)
{
    if (issuer->working) {
        ngx_http_pgw_fetch_abort(&issuer->from);
        ngx_http_pgw_keys_free(issuer->set);
        issuer->working = 0;
    }
}
