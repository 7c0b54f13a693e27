/*
 * Tests of the lease, which lets one worker at a time fetch: when it passes on,
 * what an issuer's metadata may write after that, and whose the documents are.
 */

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../conf/conf.h"
#include "../nginx/nginx.h"

static ngx_event_t *posted;

#undef ngx_post_event
#undef ngx_add_timer
#undef ngx_free
#define ngx_post_event(ev, queue) (posted = (ev))
#define ngx_add_timer(ev, ms) ((void) (ev), (void) (ms))
#define ngx_free(mem) free(mem)
#define ngx_shmtx_lock(mtx) ((void) 0)
#define ngx_shmtx_unlock(mtx) ((void) 0)

#include "../issuer/ngx_http_pgw_issuer.c"
#include "../issuer/ngx_http_pgw_lease.c"
#include "../issuer/ngx_http_pgw_keys_fetch.c"
#include "pool.h"
#include "unit.h"

/* -- what they need of nginx and of the other files */

ngx_module_t ngx_http_core_module, ngx_http_platform_gateway_module;
static ngx_time_t clock_now;
volatile ngx_time_t *ngx_cached_time = &clock_now;
volatile ngx_msec_t ngx_current_msec = 5000;
ngx_queue_t ngx_posted_events;
ngx_uint_t ngx_exiting;
sig_atomic_t ngx_terminate;
ngx_pid_t ngx_pid = 1;

void ngx_log_error_core(ngx_uint_t level, ngx_log_t *log, ngx_err_t err,
                        const char *fmt, ...)
{
}

void ngx_time_update(void)
{
}

void *ngx_alloc(size_t size, ngx_log_t *log)
{
    return malloc(size);
}

u_char *ngx_hex_dump(u_char *dst, u_char *src, size_t len)
{
    static const char digit[] = "0123456789abcdef";

    for (size_t i = 0; i < len; i++) {
        *dst++ = (u_char) digit[src[i] >> 4];
        *dst++ = (u_char) digit[src[i] & 15];
    }
    return dst;
}

ngx_int_t ngx_strncasecmp(u_char *a, u_char *b, size_t n)
{
    return strncasecmp((char *) a, (char *) b, n);
}

ngx_int_t ngx_memn2cmp(u_char *a, u_char *b, size_t n, size_t m)
{
    int rc = memcmp(a, b, n < m ? n : m);

    return rc ? rc : n < m ? -1 : n > m;
}

void *ngx_array_push(ngx_array_t *a)
{
    if (a->nelts == a->nalloc) {
        void *more = ngx_palloc(a->pool, ++a->nalloc * a->size);

        memcpy(more, a->elts, a->nelts * a->size);
        a->elts = more;
    }
    return (char *) a->elts + a->size * a->nelts++;
}

void ngx_sort(void *base, size_t n, size_t size,
              ngx_int_t (*cmp)(const void *, const void *))
{
    ngx_http_pgw_name_t *a = base, one;

    ck_assert_uint_eq(size, sizeof(one));
    for (size_t i = 1; i < n; i++)
        for (size_t j = i; j && cmp(&a[j - 1], &a[j]) > 0; j--) {
            one = a[j];
            a[j] = a[j - 1];
            a[j - 1] = one;
        }
}

/* None of these is reached. */
#pragma weak ngx_http_pgw_abi_zone
#pragma weak ngx_http_pgw_conf_fail
#pragma weak ngx_http_pgw_conf_place
#pragma weak ngx_http_pgw_disk_load
#pragma weak ngx_http_pgw_disk_write
#pragma weak ngx_http_pgw_fetch_abort
#pragma weak ngx_http_pgw_fetch_start
#pragma weak ngx_http_pgw_keys_activate
#pragma weak ngx_http_pgw_keys_fetch
#pragma weak ngx_http_pgw_keys_free
#pragma weak ngx_http_pgw_keys_parse
#pragma weak ngx_http_pgw_keys_read
#pragma weak ngx_http_pgw_keys_release
#pragma weak ngx_http_pgw_keys_warn_duplicate
#pragma weak ngx_http_pgw_peek_passer
#pragma weak ngx_http_pgw_peek_unverified
#pragma weak ngx_http_pgw_zone_part

/* -- a worker's source, and its zone */

static ngx_http_pgw_zone_t zone;
static ngx_http_pgw_issuer_t issuer;
static ngx_slab_pool_t shpool;
static pj_str_t own = {(const u_char *) "https://a", 9};
static ngx_array_t issuers = {.elts = &own, .nelts = 1};

static void setup(void)
{
    memset(&zone, 0, sizeof(zone));
    memset(&issuer, 0, sizeof(issuer));
    issuer.issuers = &issuers;
    issuer.zone = &zone;
    issuer.from.lease = &zone.lease;
    issuer.from.shpool = &shpool;
    issuer.from.cooldown = 1000;
    issuer.from.timeout = 5000;
    zone.lease.until = zone.lease.next_try = ngx_current_msec;
    ngx_exiting = 0;
    posted = NULL;
}

static pid_t dead(void)
{
    pid_t pid = fork();

    if (pid == 0)
        _exit(0);
    ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
    return pid;
}

START_TEST (test_who_takes_it) {
    ck_assert_int_eq(ngx_http_pgw_lease_acquire(&issuer.from), NGX_OK);
    ck_assert_ptr_eq(posted, &issuer.from.begin);

    setup();
    zone.lease.until += 5000;
    zone.lease.pid = getpid();
    ck_assert_int_eq(ngx_http_pgw_lease_acquire(&issuer.from), NGX_AGAIN);
    zone.lease.pid = dead();
    ck_assert_int_eq(ngx_http_pgw_lease_acquire(&issuer.from), NGX_OK);
}
END_TEST

/* A worker that exits fetches only for requests that wait. */
START_TEST (test_a_worker_that_exits) {
    ngx_exiting = 1;
    ck_assert_int_eq(ngx_http_pgw_lease_acquire(&issuer.from), NGX_DECLINED);
    ck_assert_ptr_null(posted);
    issuer.from.watched = 1;
    ck_assert_int_eq(ngx_http_pgw_lease_acquire(&issuer.from), NGX_OK);
}
END_TEST

/* Metadata that come when another configuration is in force write nothing. */
START_TEST (test_metadata_too_late) {
    static char text[] =
        "{\"issuer\":\"https://a\",\"jwks_uri\":\"https://a/keys\"}";
    ngx_str_t document = {sizeof(text) - 1, (u_char *) text};

    ck_assert_int_eq(ngx_http_pgw_lease_acquire(&issuer.from), NGX_OK);
    ck_assert_ptr_null(ngx_http_pgw_keys_fetch_metadata(&issuer, &document));
    ck_assert_uint_eq(zone.jwks_uri_len, 14);

    zone.jwks_uri_len = 0;
    zone.lease.number++;
    ck_assert_str_eq(ngx_http_pgw_keys_fetch_metadata(&issuer, &document),
                     "the lease has passed to others");
    ck_assert_uint_eq(zone.jwks_uri_len, 0);
}
END_TEST

/* -- the digest of an issuer: of all its names, in whatever order */

static const char *digest_of(const char *names)
{
    static u_char hex[2][NGX_HTTP_PGW_DIGEST + 1];
    static unsigned n;
    static ngx_pool_t pool;
    pj_str_t iss[4];
    ngx_array_t all = {.elts = iss};
    ngx_conf_t cf = {.pool = &pool};
    ngx_http_pgw_issuer_t one = {.name = ngx_string("one"), .issuers = &all};
    u_char *to = hex[n++ & 1];

    for (; *names; names++)
        iss[all.nelts++] = (pj_str_t){(const u_char *) names, 1};
    memset(to, '0', NGX_HTTP_PGW_DIGEST);
    ck_assert_ptr_null(ngx_http_pgw_issuer_names(&cf, &one, NULL));
    ck_assert_int_eq(ngx_http_pgw_issuer_digest(&one, to), NGX_OK);
    return (char *) to;
}

START_TEST (test_names) {
    ck_assert_str_eq(digest_of("ab"), digest_of("ab"));
    ck_assert_str_eq(digest_of("ab"), digest_of("ba"));
    ck_assert_str_eq(digest_of("ab"), digest_of("aba"));
    ck_assert_str_ne(digest_of("ab"), digest_of("a"));
    ck_assert_str_ne(digest_of("ab"), digest_of("ac"));
}
END_TEST

UNIT_MAIN("lease", setup,
          test_who_takes_it,
          test_a_worker_that_exits,
          test_metadata_too_late,
          test_names)
