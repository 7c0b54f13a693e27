
/*
 * The proofs that were used, in shared memory: a table of fixed size, written
 * with the mutex of its zone held.
 *
 * Each id has two buckets, and goes into the emptier one, so that nearly all
 * slots can be used.  An entry stays where it is until a newer one takes its
 * slot, which happens only after its end.
 *
 * The table knows the times of issue of all entries that were overwritten, as
 * two ranges, and refuses proofs of these times.  So no proof is accepted
 * twice, whatever clocks, windows and workers do.  A worker may be killed
 * between any two stores: a range is extended before a slot is overwritten, and
 * a half-written entry is of a proof that was not accepted.
 *
 * The second range begins where the clock was last set forward, or went on
 * after a pause.  If the clock is set back behind that, the range is in the
 * future, and proofs of the present are accepted at once.
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

    replay->latest = now;
    replay->from = now - NGX_HTTP_PGW_REPLAY_WINDOW_MAX;
    replay->to = now;
    replay->bucket = mem;
    replay->buckets = ngx_min(size / sizeof(ngx_http_pgw_replay_bucket_t),
                              UINT32_MAX);

    return replay->buckets ? NGX_OK : NGX_ERROR;
}


/* Follows a clock that is set.  Each store leaves a state that is good. */

static void
ngx_http_pgw_replay_follow(ngx_http_pgw_replay_t *replay, int64_t now)
{
    int64_t  from = now - NGX_HTTP_PGW_REPLAY_WINDOW_MAX;

    if (from > replay->latest && from > replay->to) {

        /* no proof of the second range can come any more */

        ngx_http_pgw_replay_store(&replay->forgotten,
                                  ngx_max(replay->forgotten, replay->to));
        ngx_http_pgw_replay_store(&replay->from, from);

    } else if (now < replay->from && replay->latest >= replay->from) {

        /* an earlier zone may have had the proofs of this time */

        ngx_http_pgw_replay_store(&replay->forgotten,
                                  ngx_max(replay->forgotten, now));
    }

    replay->latest = now;
}


/* Returns 1 if the slot is empty, or its proof cannot come at this time. */

static ngx_uint_t
ngx_http_pgw_replay_free(const ngx_http_pgw_replay_t *replay,
    const ngx_http_pgw_replay_slot_t *slot, int64_t now)
{
    return slot->dies_at <= now
           || (now < replay->from && slot->iat >= replay->from);
}


/* Returns the emptier bucket's oldest free slot for a new entry: NULL if both
   buckets are full.  Returns NGX_DONE if one of them has the id. */

static ngx_int_t
ngx_http_pgw_replay_find(ngx_http_pgw_replay_t *replay, uint64_t id,
    const uint32_t home[2], int64_t now, ngx_http_pgw_replay_slot_t **to)
{
    ngx_uint_t                   i, n, free, most = 0;
    ngx_http_pgw_replay_slot_t  *slot, *oldest;

    *to = NULL;

    for (i = 0; i < 2; i++) {
        slot = replay->bucket[((uint64_t) home[i] * replay->buckets)
                              >> 32].slot;
        free = 0;
        oldest = NULL;

        for (n = 0; n < NGX_HTTP_PGW_REPLAY_SLOTS; n++) {

            if (slot[n].id == id && slot[n].dies_at) {
                return NGX_DONE;
            }

            if (ngx_http_pgw_replay_free(replay, &slot[n], now)) {
                free++;

                if (oldest == NULL || slot[n].iat < oldest->iat) {
                    oldest = &slot[n];
                }
            }
        }

        if (free > most) {
            most = free;
            *to = oldest;
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
    int64_t                     *end;
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

    ngx_http_pgw_replay_follow(replay, now);

    if (iat <= replay->forgotten || (iat >= replay->from && iat <= replay->to)
        || dies_at > UINT32_MAX)
    {
        return NGX_ABORT;
    }

    if (ngx_http_pgw_replay_find(replay, key.id, key.home, now, &slot)
        == NGX_DONE)
    {
        return NGX_DONE;
    }

    if (slot == NULL) {
        return NGX_DECLINED;
    }

    end = slot->iat < replay->from ? &replay->forgotten : &replay->to;

    if (slot->iat > *end) {
        ngx_http_pgw_replay_store(end, slot->iat);
    }

    ngx_http_pgw_replay_store(&slot->dies_at, (uint32_t) dies_at);
    ngx_http_pgw_replay_store(&slot->iat, (uint32_t) iat);
    ngx_http_pgw_replay_store(&slot->id, key.id);

    return NGX_OK;
}


int64_t
ngx_http_pgw_replay_pause(ngx_http_pgw_replay_t *replay, int64_t now)
{
    int64_t  end = replay->from <= now
                   ? ngx_max(replay->forgotten, replay->to) : replay->forgotten;

    if (end <= now || end == replay->told) {
        return 0;
    }

    replay->told = end;

    return end - now;
}


uint64_t
ngx_http_pgw_replay_live(const ngx_http_pgw_replay_t *replay, int64_t now)
{
    uint64_t    i, live = 0;
    ngx_uint_t  n;

    for (i = 0; i < replay->buckets; i++) {
        for (n = 0; n < NGX_HTTP_PGW_REPLAY_SLOTS; n++) {
            live += !ngx_http_pgw_replay_free(replay,
                                              &replay->bucket[i].slot[n], now);
        }
    }

    return live;
}
