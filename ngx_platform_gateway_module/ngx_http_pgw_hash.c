
/*
 * SipHash-1-3: a keyed hash, so that nobody who does not know the key can
 * choose tokens that meet in one chain.
 */


#include "ngx_http_pgw_cache.h"


#define ngx_http_pgw_hash_rotate(x, n)                                        \
    (((x) << (n)) | ((x) >> (64 - (n))))

#define ngx_http_pgw_hash_round(v)                                            \
    do {                                                                      \
        (v)[0] += (v)[1];                                                     \
        (v)[1] = ngx_http_pgw_hash_rotate((v)[1], 13) ^ (v)[0];               \
        (v)[0] = ngx_http_pgw_hash_rotate((v)[0], 32);                        \
        (v)[2] += (v)[3];                                                     \
        (v)[3] = ngx_http_pgw_hash_rotate((v)[3], 16) ^ (v)[2];               \
        (v)[0] += (v)[3];                                                     \
        (v)[3] = ngx_http_pgw_hash_rotate((v)[3], 21) ^ (v)[0];               \
        (v)[2] += (v)[1];                                                     \
        (v)[1] = ngx_http_pgw_hash_rotate((v)[1], 17) ^ (v)[2];               \
        (v)[2] = ngx_http_pgw_hash_rotate((v)[2], 32);                        \
    } while (0)


/* The order of bytes is the machine's: hashes never leave the process. */

uint64_t
ngx_http_pgw_hash(const uint64_t key[2], const u_char *data, size_t len)
{
    size_t    i;
    uint64_t  m, v[4];

    v[0] = key[0] ^ 0x736f6d6570736575ULL;
    v[1] = key[1] ^ 0x646f72616e646f6dULL;
    v[2] = key[0] ^ 0x6c7967656e657261ULL;
    v[3] = key[1] ^ 0x7465646279746573ULL;

    for (i = 0; i + sizeof(m) <= len; i += sizeof(m)) {
        ngx_memcpy(&m, data + i, sizeof(m));

        v[3] ^= m;
        ngx_http_pgw_hash_round(v);
        v[0] ^= m;
    }

    m = 0;
    ngx_memcpy(&m, data + i, len - i);
    m |= (uint64_t) len << 56;

    v[3] ^= m;
    ngx_http_pgw_hash_round(v);
    v[0] ^= m;

    v[2] ^= 0xff;
    ngx_http_pgw_hash_round(v);
    ngx_http_pgw_hash_round(v);
    ngx_http_pgw_hash_round(v);

    return v[0] ^ v[1] ^ v[2] ^ v[3];
}
