
/*
 * The proofs that were used, in shared memory: a table of fixed size, written
 * with the mutex of its zone held.
 *
 * Each id has two buckets, and goes into the emptier one, so that nearly all
 * slots can be used.  An entry stays where it is until a newer one takes its
 * slot, which happens only after its end.
 *
 * The table knows the latest time of issue of all entries that were
 * overwritten, and refuses proofs that are not younger.  So no proof is
 * accepted twice, whatever clocks, windows and workers do.  A worker may be
 * killed between any two stores: the time is raised before a slot is
 * overwritten, and a half-written entry is of a proof that was not accepted.
 */


#include "token/token.h"

#include <openssl/evp.h>
#include <openssl/rand.h>


#ifndef ngx_http_pgw_replay_store    /* tests define their own */
#define ngx_http_pgw_replay_store(p, value)                                   \
    __atomic_store_n(p, value, __ATOMIC_RELEASE)
#endif


ngx_int_t
ngx_http_pgw_replay_init(ngx_http_pgw_replay_t *replay, void *mem, size_t size,
    int64_t now)
{
    if (mem == NULL
        || RAND_bytes(replay->secret, sizeof(replay->secret)) != 1
        || RAND_bytes(replay->nonces, sizeof(replay->nonces)) != 1)
    {
        return NGX_ERROR;
    }

    replay->born = now;
    replay->bucket = mem;
    replay->buckets = ngx_min(size / sizeof(ngx_http_pgw_replay_bucket_t),
                              UINT32_MAX);

    return replay->buckets ? NGX_OK : NGX_ERROR;
}


/* Returns the emptier bucket, and the slot for a new entry in it: NULL if both
   are full.  Returns NGX_DONE if one of them has the id. */

static ngx_int_t
ngx_http_pgw_replay_find(ngx_http_pgw_replay_t *replay, uint64_t id,
    const uint32_t home[2], uint32_t now, ngx_http_pgw_replay_slot_t **to)
{
    ngx_uint_t                   i, n, free, most = 0;
    ngx_http_pgw_replay_slot_t  *slot, *dead = NULL;

    *to = NULL;

    for (i = 0; i < 2; i++) {
        slot = replay->bucket[((uint64_t) home[i] * replay->buckets)
                              >> 32].slot;
        free = 0;

        for (n = 0; n < NGX_HTTP_PGW_REPLAY_SLOTS; n++) {

            if (slot[n].id == id && slot[n].dies_at) {
                return NGX_DONE;
            }

            if (slot[n].dies_at <= now) {
                dead = &slot[n];
                free++;
            }
        }

        if (free > most) {
            most = free;
            *to = dead;
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_pgw_replay_put(ngx_http_pgw_replay_t *replay,
    const u_char id[PJ_SHA256_BYTES], int64_t iat, int64_t dies_at, int64_t now)
{
    u_char                       input[sizeof(replay->secret)
                                       + PJ_SHA256_BYTES];
    ngx_http_pgw_replay_slot_t  *slot;

    struct {
        uint64_t                 id;
        uint32_t                 home[2];
        u_char                   rest[EVP_MAX_MD_SIZE - 16];
    } key;

    /* keyed, so that no client can choose its buckets */

    ngx_memcpy(input, replay->secret, sizeof(replay->secret));
    ngx_memcpy(input + sizeof(replay->secret), id, PJ_SHA256_BYTES);

    if (!EVP_Digest(input, sizeof(input), (u_char *) &key, NULL, EVP_sha256(),
                    NULL))
    {
        return NGX_ERROR;
    }

    /* times are kept in seconds since the zone was made */

    iat -= replay->born;
    dies_at -= replay->born;
    now -= replay->born;

    if (iat <= replay->forgotten || dies_at <= 0 || dies_at > UINT32_MAX) {
        return NGX_ABORT;
    }

    if (ngx_http_pgw_replay_find(replay, key.id, key.home, now < 0
                                 ? 0 : (uint32_t) ngx_min(now, UINT32_MAX),
                                 &slot)
        == NGX_DONE)
    {
        return NGX_DONE;
    }

    if (slot == NULL) {
        return NGX_DECLINED;
    }

    if (slot->iat > replay->forgotten) {
        ngx_http_pgw_replay_store(&replay->forgotten, slot->iat);
    }

    ngx_http_pgw_replay_store(&slot->dies_at, (uint32_t) dies_at);
    ngx_http_pgw_replay_store(&slot->iat, (uint32_t) iat);
    ngx_http_pgw_replay_store(&slot->id, key.id);

    return NGX_OK;
}


uint64_t
ngx_http_pgw_replay_live(const ngx_http_pgw_replay_t *replay, int64_t now)
{
    uint64_t    i, live = 0;
    ngx_uint_t  n;

    for (i = 0; i < replay->buckets; i++) {
        for (n = 0; n < NGX_HTTP_PGW_REPLAY_SLOTS; n++) {
            live += replay->born + replay->bucket[i].slot[n].dies_at > now
                    && replay->bucket[i].slot[n].dies_at;
        }
    }

    return live;
}
