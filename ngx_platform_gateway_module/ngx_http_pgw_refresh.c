
/*
 * Where the key set comes from, and when: the timer, what becomes of a fetch,
 * and two files, the operator's own in place of an issuer, and the one that
 * keeps the last good set for a start while the issuer is down.
 *
 * That one is written by the worker that fetched, into a file that is then
 * renamed, without waiting for the disk.  So a crash of the machine may lose it
 * or leave it in part.  The digest shows that to its reader, the master process
 * when the zone is new, which then starts as if there were no file.
 */


#include "ngx_http_pgw_refresh.h"
#include "ngx_http_pgw_counters.h"
#include "ngx_http_pgw_fetch.h"
#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_lease.h"


/* Changes with the structures, as a reload may load another build. */
#define NGX_HTTP_PGW_KEYS_LAYOUT                                              \
    (0x500000 + sizeof(ngx_http_pgw_zone_t) + sizeof(ngx_http_pgw_counters_t))

#define NGX_HTTP_PGW_KEYS_TICK    250  /* ms, between two looks */

#define NGX_HTTP_PGW_DISK_HEAD    offsetof(ngx_http_pgw_disk_t, document)

/* How far a cache file may be from the future: clocks are set back. */
#define NGX_HTTP_PGW_DISK_SKEW    300  /* s */


/* What one file after another is read to. */

static ngx_http_pgw_disk_t  ngx_http_pgw_disk;


/* Writes what stands before the document. */

static ngx_int_t
ngx_http_pgw_disk_head(const ngx_http_pgw_keys_t *keys,
    const ngx_str_t *document, time_t fetched, void *head)
{
    size_t  n = NGX_HTTP_PGW_DIGEST;
    u_char  digest[NGX_HTTP_PGW_DIGEST];

    ngx_memcpy(digest, keys->from.source, n);

    if (ngx_http_pgw_lease_digest(digest, document->data, document->len)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    ngx_sprintf(head, "platform-gateway-keys 1\nfetched %020T\nsource %*s\n"
                "digest %*s\n\n", fetched, n, keys->from.source, n, digest);

    return NGX_OK;
}


/* Reads the set that was kept; else why it is of no use. */

static const char *
ngx_http_pgw_disk_read(const ngx_http_pgw_keys_t *keys, ngx_str_t *document,
    time_t *fetched)
{
    size_t                len;
    u_char                head[NGX_HTTP_PGW_DISK_HEAD];
    const char           *err;
    pj_keyset_t          *set;
    ngx_http_pgw_disk_t  *disk;

    disk = &ngx_http_pgw_disk;

    err = ngx_http_pgw_keys_read(&keys->conf->key_cache_file, disk,
                                 sizeof(ngx_http_pgw_disk_t), &len);
    if (err) {
        return err;
    }

    if (len <= NGX_HTTP_PGW_DISK_HEAD) {
        return "it is truncated";
    }

    document->data = disk->document;
    document->len = len - NGX_HTTP_PGW_DISK_HEAD;
    *fetched = ngx_atotm(disk->fetched, sizeof(disk->fetched));

    if (*fetched == (time_t) NGX_ERROR
        || ngx_http_pgw_disk_head(keys, document, *fetched, head) != NGX_OK)
    {
        return "it is damaged";
    }

    if (ngx_memcmp(disk->source, keys->from.source, NGX_HTTP_PGW_DIGEST) != 0)
    {
        return "it was written for another issuer";
    }

    if (ngx_memcmp(disk, head, sizeof(head)) != 0) {
        return "it is damaged";
    }

    if (*fetched > ngx_time() + NGX_HTTP_PGW_DISK_SKEW) {
        return "it is from the future";
    }

    if (ngx_time() - *fetched >= (time_t) (keys->conf->key_hard_age / 1000)) {
        return "it is past the hard age";
    }

    err = ngx_http_pgw_keys_parse(document, &set);
    ngx_http_pgw_keys_free(set);

    return err;
}


/* A zone that nobody uses yet gets the set that was kept, if there is one. */

static void
ngx_http_pgw_disk_load(ngx_http_pgw_keys_t *keys)
{
    time_t            age, fetched;
    ngx_str_t         document;
    const char       *err;
    const ngx_str_t  *name;

    name = &keys->conf->key_cache_file;

    if (access((char *) name->data, F_OK) == -1 && ngx_errno == NGX_ENOENT) {
        return;
    }

    err = ngx_http_pgw_disk_read(keys, &document, &fetched);

    if (err) {
        ngx_log_error(NGX_LOG_WARN, keys->from.log, 0,
                      "platform gateway: key cache file \"%V\" ignored: %s",
                      name, err);
        return;
    }

    age = ngx_max(ngx_time() - fetched, 0);

    (void) ngx_http_pgw_keys_put(keys->zone, &document,
                                 ngx_current_msec - (ngx_msec_t) age * 1000,
                                 ngx_time() - age);

    if (!ngx_test_config) {
        ngx_log_error(NGX_LOG_NOTICE, keys->from.log, 0,
                      "platform gateway: key set fetched %T s ago loaded "
                      "from \"%V\"", age, name);
    }
}


/* Keeps what the zone holds by now: it may be newer than what we fetched. */

static void
ngx_http_pgw_disk_write(ngx_http_pgw_keys_t *keys)
{
    size_t                len;
    u_char                tmp[NGX_MAX_PATH];
    ngx_fd_t              fd;
    ngx_err_t             err;
    const char           *what;
    const ngx_str_t      *name;
    ngx_http_pgw_copy_t  *copy;

    copy = ngx_http_pgw_keys_copy(keys);
    len = NGX_HTTP_PGW_DISK_HEAD + copy->document.len;

    if (copy->document.len == 0
        || ngx_http_pgw_disk_head(keys, &copy->document, copy->fetched_at,
                                  &copy->disk)
           != NGX_OK)
    {
        return;
    }

    name = &keys->conf->key_cache_file;
    what = "opening a temporary file";
    *ngx_snprintf(tmp, sizeof(tmp) - 1, "%V.%P.tmp", name, ngx_pid) = '\0';

    /* only a process of our number that died can have left one */

    (void) ngx_delete_file(tmp);

    fd = ngx_open_tempfile(tmp, 1, 0);

    if (fd != NGX_INVALID_FILE) {
        what = "writing a temporary file";
        ngx_set_errno(NGX_ENOSPC);      /* what a short write means */

        if (ngx_write_fd(fd, &copy->disk, len) == (ssize_t) len) {
            what = ngx_rename_file(tmp, name->data) == NGX_FILE_ERROR
                   ? ngx_rename_file_n : NULL;
        }
    }

    err = what ? ngx_errno : 0;

    if (fd != NGX_INVALID_FILE) {
        (void) ngx_close_file(fd);
    }

    if (what) {
        (void) ngx_delete_file(tmp);
    }

    /* once, and not at every soft age */

    if (err != keys->disk_err && what) {
        ngx_log_error(NGX_LOG_ERR, keys->from.log, err,
                      "platform gateway: key cache file \"%V\" not written: "
                      "%s failed", name, what);
    }

    keys->disk_err = err;
}


ngx_int_t
ngx_http_pgw_refresh_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    ngx_slab_pool_t      *shpool;
    ngx_http_pgw_keys_t  *keys;
    ngx_http_pgw_zone_t  *zone;

    keys = shm_zone->data;

    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;
    zone = (data || shm_zone->shm.exists) ? shpool->data : NULL;

    if (zone && zone->layout != NGX_HTTP_PGW_KEYS_LAYOUT) {

        /* Left to the old workers, which may still be using it. */

        ngx_log_error(NGX_LOG_NOTICE, shm_zone->shm.log, 0,
                      "platform gateway zone \"%V\" is from another build, "
                      "starting afresh", &shm_zone->shm.name);
        zone = NULL;
    }

    if (zone == NULL) {
        zone = ngx_slab_calloc(shpool, sizeof(ngx_http_pgw_zone_t));
        if (zone == NULL) {
            ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                          "platform_gateway_zone \"%V\" is too small",
                          &shm_zone->shm.name);
            return NGX_ERROR;
        }

        zone->layout = NGX_HTTP_PGW_KEYS_LAYOUT;
        zone->lease.next_try = ngx_current_msec;
        ngx_memcpy(zone->lease.source, keys->from.source, NGX_HTTP_PGW_DIGEST);
        shpool->data = zone;
    }

    keys->from.shpool = shpool;
    keys->from.lease = &zone->lease;
    keys->zone = zone;

    if (zone->version == 0 && zone->lease.generation == 0
        && keys->conf->key_cache_file.len)
    {
        ngx_http_pgw_disk_load(keys);
    }

    /* In force only once a worker runs with it: a reload may yet fail. */

    keys->from.generation = zone->lease.generation + 1;

    return ngx_http_pgw_counters_zone_init(keys->conf, shm_zone,
                                           &zone->metrics);
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
    past = age >= keys->conf->key_hard_age;

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

    keys = ev->data;
    err = "out of memory";
    document.data = ngx_http_pgw_disk.document;

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
               || ngx_http_pgw_lease_left(zone->fetched - keys->early
                                               + keys->conf->key_soft_age)
                  == 0)
    {
        (void) ngx_http_pgw_keys_fetch(keys);
    }

    ngx_add_timer(ev, NGX_HTTP_PGW_KEYS_TICK);
}


/* Logs at the start that this process, no longer root, cannot write it. */

static void
ngx_http_pgw_disk_test(const ngx_http_pgw_keys_t *keys)
{
    u_char            dir[NGX_MAX_PATH], *last;
    const ngx_str_t  *name;

    name = &keys->conf->key_cache_file;
    last = ngx_cpystrn(dir, name->data, sizeof(dir));

    while (last[-1] != '/') {
        *--last = '\0';
    }

    if (access((const char *) dir, W_OK|X_OK) == -1) {
        ngx_log_error(NGX_LOG_ERR, keys->from.log, ngx_errno,
                      "platform gateway: key cache file \"%V\" cannot be "
                      "written: give \"%s\" to the user of the worker "
                      "processes", name, dir);
    }
}


void
ngx_http_pgw_refresh_init_process(ngx_http_pgw_keys_t *keys)
{
    ngx_msec_t  part;

    if (!ngx_http_pgw_keys_usable(keys)) {
        return;
    }

    keys->working = 1;

    /* 5 to 10 % early, at random: not all at once, and not late if slow. */

    part = keys->conf->key_soft_age / 20;
    keys->early = part + (ngx_msec_t) ngx_random() % (part + 1);

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
