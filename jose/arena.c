/* The bump arena that all memory of parsing comes from. */

#include "pj_internal.h"

#include <stdalign.h>

void pj_arena_init(pj_arena_t *arena, void *mem, size_t len)
{
    arena->pos = mem;
    arena->end = mem == NULL ? NULL : arena->pos + len;
}

unsigned char *pj_arena_bytes(pj_arena_t *arena, size_t size)
{
    unsigned char *p = arena->pos;

    if (p == NULL || size > (size_t) (arena->end - p))
        return NULL;
    arena->pos = p + size;
    return p;
}

void *pj_arena_alloc(pj_arena_t *arena, size_t size)
{
    const size_t align = alignof(max_align_t);
    size_t pad = (size_t) (-(uintptr_t) arena->pos) & (align - 1);

    if (size > SIZE_MAX - pad)
        return NULL;

    unsigned char *p = pj_arena_bytes(arena, pad + size);
    return p == NULL ? NULL : p + pad;
}

pj_err_t pj_b64url_decode_arena(pj_arena_t *arena, pj_str_t src, pj_str_t *out)
{
    size_t cap = pj_b64url_decoded_max(src.len);
    unsigned char *dst = pj_arena_bytes(arena, cap);

    if (dst == NULL)
        return PJ_ERR_NO_SPACE;
    out->data = dst;
    return pj_b64url_decode(dst, cap, &out->len, src);
}

size_t pj_token_arena_bytes(size_t token_bytes)
{
    size_t decoded = pj_b64url_decoded_max(token_bytes);
    size_t trees = pj_json_arena_bytes(decoded, 2);

    return trees > SIZE_MAX - decoded ? SIZE_MAX : trees + decoded;
}

size_t pj_keyset_arena_bytes(size_t len)
{
    return pj_json_arena_bytes(len, 1);
}
