
/*
 * Where the key set comes from, and when: the timer, and what becomes of a
 * fetch; of the operator's own file, in place of an issuer, too.
 */


#include "ngx_http_pgw_refresh.h"
#include "ngx_http_pgw_counters.h"
#include "ngx_http_pgw_disk.h"
#include "ngx_http_pgw_fetch.h"
#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_lease.h"


#define NGX_HTTP_PGW_KEYS_TICK    250  /* ms, between two looks */


ngx_int_t
ngx_http_pgw_refresh_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_http_pgw_keys_t  *keys;
    ngx_http_pgw_zone_t  *zone;

    static const ngx_str_t  name = ngx_null_string;

    keys = shm_zone->data;

    zone = ngx_http_pgw_zone_part(shm_zone, NGX_HTTP_PGW_ZONE_KEYS,
                                  sizeof(ngx_http_pgw_zone_t), &name);
    if (zone == NULL) {
        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "platform_gateway_zone \"%V\" is too small",
                      &shm_zone->shm.name);
        return NGX_ERROR;
    }

    keys->from.shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;
    keys->from.lease = &zone->lease;
    keys->zone = zone;

    if (zone->version == 0 && zone->lease.generation == 0) {
        zone->lease.next_try = ngx_current_msec;
        ngx_memcpy(zone->lease.source, keys->from.source, NGX_HTTP_PGW_DIGEST);

        if (keys->conf->key_cache_file.len) {
            ngx_http_pgw_disk_load(keys);
        }
    }

    /* In force only once a worker runs with it: a reload may yet fail. */

    keys->from.generation = zone->lease.generation + 1;

    return NGX_OK;
}


/*
 * Logs one line for each failed fetch, of which there is at most one in a
 * cooldown.  A bad key file is logged once, until it is bad in another way.
 */

static void
ngx_http_pgw_refresh_log_failure(ngx_http_pgw_keys_t *keys, const char *err)
{
    ngx_msec_t            age;
    ngx_uint_t            complaint, past;
    ngx_http_pgw_zone_t  *zone;

    zone = keys->zone;
    age = ngx_current_msec - zone->fetched;
    past = age >= keys->conf->key_ages[NGX_HTTP_PGW_AGE_HARD];

    if (keys->file.len) {
        complaint = 1 + 2 * ngx_crc32_short((u_char *) err, ngx_strlen(err))
                    + past;

        if (zone->complaint == complaint) {
            return;
        }

        zone->complaint = complaint;
    }

    if (zone->fetched_at == 0) {
        ngx_log_error(NGX_LOG_ERR, keys->from.log, 0,
                      "platform gateway: key set not fetched: %s; "
                      "there is none yet", err);
        return;
    }

    ngx_log_error(NGX_LOG_ERR, keys->from.log, 0,
                  "platform gateway: key set not refreshed: %s; the last good "
                  "one is %Ms old, %s", err, age / 1000,
                  past ? "which is past the hard age" : "and kept");
}


void
ngx_http_pgw_refresh_fetched(void *data, const ngx_str_t *document,
    const char *err, ngx_uint_t status)
{
    ngx_http_pgw_keys_t  *keys = data;

    pj_keyset_t           *set;
    ngx_http_pgw_fetch_e   outcome;

    (void) status;

    set = NULL;

    if (err == NULL) {
        err = ngx_http_pgw_keys_parse(document, &set);
    }

    outcome = ngx_http_pgw_keys_release(keys, err ? NULL : document);

    ngx_log_debug3(NGX_LOG_DEBUG_HTTP, keys->from.log, 0,
                   "http platform gateway: key fetch of lease %ui ended, "
                   "outcome:%d, %s", keys->from.number, outcome,
                   err ? err : "a key set");

    ngx_http_pgw_counters_of(fetches, outcome);

    if (outcome == NGX_HTTP_PGW_FETCH_NEW) {
        ngx_log_error(NGX_LOG_NOTICE, keys->from.log, 0,
                      "platform gateway: new key set, %uz keys used, "
                      "%uz ignored%s%s", set->count, set->ignored,
                      set->ignored ? ": " : "",
                      set->ignored ? pj_strerror(set->last_ignored) : "");
    }

    ngx_http_pgw_keys_free(set);

    if (outcome == NGX_HTTP_PGW_FETCH_FAILED) {

        if (!ngx_exiting && !ngx_terminate) {
            ngx_http_pgw_refresh_log_failure(keys, err);
        }

    } else if (outcome != NGX_HTTP_PGW_FETCH_SUPERSEDED
               && keys->conf->key_cache_file.len)
    {
        ngx_http_pgw_disk_write(keys);
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
    ngx_http_pgw_keys_t  *keys;

    static u_char  file[PJ_KEYSET_MAX_BYTES];

    keys = ev->data;
    err = "out of memory";
    document.data = file;

    ngx_log_debug1(NGX_LOG_DEBUG_HTTP, keys->from.log, 0,
                   "http platform gateway: key fetch of lease %ui begun",
                   keys->from.number);

    if (keys->file.len) {
        err = ngx_http_pgw_keys_read(&keys->file, document.data,
                                     PJ_KEYSET_MAX_BYTES, &document.len);

    } else if (ngx_http_pgw_fetch_start(&keys->from, NULL) == NGX_OK) {
        return;
    }

    ngx_http_pgw_refresh_fetched(keys, &document, err, 0);
}


/*
 * Begins a fetch that is due.  A worker that exits ends its own fetch: at once
 * if a new configuration is in force, whose workers fetch for themselves; else
 * when no request can be waiting for it any more.
 */

static void
ngx_http_pgw_refresh_timer(ngx_event_t *ev)
{
    ngx_http_pgw_keys_t  *keys;
    ngx_http_pgw_zone_t  *zone;

    keys = ev->data;
    zone = keys->zone;

    if (ngx_exiting) {

        if (keys->leave_at == 0) {
            keys->leave_at = ngx_current_msec + keys->conf->key_wait;
        }

        if (zone->lease.generation != keys->from.generation
            || ngx_http_pgw_lease_left(keys->leave_at) == 0)
        {
            ngx_http_pgw_fetch_abort(&keys->from);
        }

        if (!keys->from.fetching) {
            return;
        }

    } else if (zone->fetched_at == 0 || zone->refresh
               || ngx_http_pgw_lease_left(zone->fetched + keys->due) == 0)
    {
        (void) ngx_http_pgw_keys_fetch(keys);
    }

    ngx_add_timer(ev, NGX_HTTP_PGW_KEYS_TICK);
}


void
ngx_http_pgw_refresh_init_process(ngx_http_pgw_keys_t *keys)
{
    ngx_msec_t  soft, part;

    if (!ngx_http_pgw_keys_usable(keys)) {
        return;
    }

    keys->working = 1;

    /* 5 to 10 % early, at random: not all at once, and not late if slow. */

    soft = keys->conf->key_ages[NGX_HTTP_PGW_AGE_SOFT];
    part = soft / 20;
    keys->due = soft - part - (ngx_msec_t) ngx_random() % (part + 1);

    keys->timer.handler = ngx_http_pgw_refresh_timer;
    keys->timer.data = keys;
    keys->timer.log = keys->from.log;
    keys->timer.cancelable = 1;

    keys->from.begin.handler = ngx_http_pgw_refresh_begin;
    keys->from.begin.data = keys;
    keys->from.begin.log = keys->from.log;

    if (keys->from.location.len) {
        ngx_http_pgw_fetch_reserve(&keys->from);
    }

    ngx_http_pgw_keys_activate(keys);

    if (keys->conf->key_cache_file.len && ngx_worker == 0) {
        ngx_http_pgw_disk_test(keys);
    }

    ngx_add_timer(&keys->timer, 1);
}


void
ngx_http_pgw_refresh_exit_process(ngx_http_pgw_keys_t *keys)
{
    if (keys->working) {
        ngx_http_pgw_fetch_abort(&keys->from);
        ngx_http_pgw_keys_free(keys->set);
        keys->working = 0;
    }
}
