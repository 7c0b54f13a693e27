
/*
 * The lookup of tokens in the zone of revocations.
 */


#include "revoked/revoked.h"

#include <openssl/rand.h>


ngx_int_t
ngx_http_pgw_revocations_zone_init(ngx_shm_zone_t *shm_zone, void *data)
{
    size_t                       size;
    ngx_uint_t                   i;
    ngx_slab_pool_t             *shpool;
    ngx_http_pgw_name_t         *name;
    ngx_http_pgw_revoked_t      *zone;
    ngx_http_pgw_revocations_t  *rev;

    static const ngx_str_t  all = ngx_null_string;

    rev = shm_zone->data;

    shpool = (ngx_slab_pool_t *) shm_zone->shm.addr;

    zone = ngx_http_pgw_zone_part(shm_zone, NGX_HTTP_PGW_ZONE_REVOKED,
                                  sizeof(ngx_http_pgw_revoked_t), &all);

    if (zone && zone->table.slots == 0) {

        size = shpool->pfree * ngx_pagesize;

        if (RAND_bytes(zone->secret, sizeof(zone->secret)) == 1 && size) {
            ngx_http_pgw_table_init(&zone->table, ngx_slab_calloc(shpool, size),
                                    size);
        }

        zone->as_of = ngx_current_msec;
        zone->lease.next_try = ngx_current_msec;
    }

    if (zone == NULL || zone->table.slots == 0) {

        /* a reload keeps the zone, because old workers still use it, but the
           old configuration may have used it for something else */

        ngx_log_error(NGX_LOG_EMERG, shm_zone->shm.log, 0,
                      "zone \"%V\" of \"platform_gateway_revocations\" has no "
                      "room left for them: the running configuration uses it "
                      "for something else; give it another name, or restart "
                      "nginx",
                      &shm_zone->shm.name);
        return NGX_ERROR;
    }

    for (name = rev->names->elts, i = 0; i < rev->names->nelts; i++) {
        if (ngx_http_pgw_feed_seed(zone, &name[i]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    rev->zone = zone;
    ngx_http_pgw_lease_connect(&rev->from, shm_zone, &zone->lease);

    return NGX_OK;
}


ngx_uint_t
ngx_http_pgw_revocations_set_back(const ngx_http_pgw_revoked_t *zone)
{
    if (zone->swept_at <= ngx_time() + 1) {
        return 0;
    }

    /* nginx updates its time once a turn, so it may be outdated */

    ngx_time_update();

    return zone->swept_at > ngx_time() + 1;
}


ngx_uint_t
ngx_http_pgw_revocations_whole(const ngx_http_pgw_revoked_t *zone)
{
    return zone->complete && !ngx_http_pgw_revocations_set_back(zone);
}


ngx_uint_t
ngx_http_pgw_revocations_stale(const ngx_http_pgw_revocations_t *rev)
{
    return !ngx_http_pgw_revocations_whole(rev->zone) || rev->zone->full
           || ngx_http_pgw_lease_left(rev->zone->as_of + rev->after) == 0;
}


ngx_int_t
ngx_http_pgw_revocations_mark(const ngx_http_pgw_revocations_t *rev,
    const pj_claims_t *claims, ngx_http_pgw_mark_t *mark)
{
    ngx_uint_t                  i;
    const ngx_http_pgw_name_t  *name;

    ngx_memzero(mark, sizeof(ngx_http_pgw_mark_t));

    if (rev == NULL) {
        return NGX_OK;
    }

    /* rounded down, and "issued_before" up, so that a token of the same
       millisecond is revoked; a bad time counts as the oldest */

    if (ngx_http_pgw_feed_time(pj_json_member(claims->root, rev->issued),
                               PJ_ROUND_DOWN, &mark->issued)
        != NGX_OK)
    {
        mark->issued = INT64_MIN;
    }

    name = rev->names->elts;

    for (i = 0; i < rev->names->nelts; i++, name++) {

        if (!pj_str_eq(name->iss, claims->iss)) {
            continue;
        }

        /* a feed cannot name a non-string or an overlong id */

        if (ngx_http_pgw_feed_key(name, 's',
                                  pj_json_member(claims->root, rev->subject),
                                  &mark->subject)
            == NGX_ERROR
            || ngx_http_pgw_feed_key(name, 'i',
                                     pj_json_member(claims->root, (const char *)
                                                    rev->claim.data),
                                     &mark->id)
               == NGX_ERROR)
        {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_inline ngx_uint_t
ngx_http_pgw_revocations_has(const ngx_http_pgw_revocations_t *rev,
    const ngx_http_pgw_table_key_t *key, int64_t issued)
{
    return key->word[0]
           && ngx_http_pgw_table_has(&rev->zone->table, key, issued);
}


ngx_http_pgw_reason_e
ngx_http_pgw_revocations_check(const ngx_http_pgw_revocations_t *rev,
    const ngx_http_pgw_mark_t *mark)
{
    if (ngx_http_pgw_revocations_has(rev, &mark->id, mark->issued)
        || ngx_http_pgw_revocations_has(rev, &mark->subject, mark->issued))
    {
        return NGX_HTTP_PGW_REASON_SESSION_REVOKED;
    }

    return rev->refuse && ngx_http_pgw_revocations_stale(rev)
           ? NGX_HTTP_PGW_REASON_REVOCATIONS_STALE
           : NGX_HTTP_PGW_REASON_VERIFIED;
}


ngx_http_pgw_reason_e
ngx_http_pgw_revocations_ask(const ngx_http_pgw_revocations_t *rev,
    const pj_claims_t *claims)
{
    ngx_http_pgw_mark_t    mark;
    ngx_http_pgw_reason_e  reason;

    reason = ngx_http_pgw_revocations_mark(rev, claims, &mark) == NGX_OK
             ? ngx_http_pgw_revocations_check(rev, &mark)
             : NGX_HTTP_PGW_REASON_TOKEN_INVALID;

    return reason == NGX_HTTP_PGW_REASON_VERIFIED ? NGX_HTTP_PGW_REASON_NONE
                                                  : reason;
}
