/* Reads any bytes as a key set.  Its keys can be published and read again. */

#include "fuzz.h"

static void round_trip(const pj_keyset_t *set)
{
    static char json[1 << 19];
    pj_keyset_t again = {.count = 0};
    pj_arena_t arena;
    unsigned char *mem;
    size_t len, size;

    FUZZ_ASSERT(pj_jwks_emit((const pj_key_t *const *) set->keys, set->count,
                             json, sizeof(json), &len) == PJ_OK);
    if (len > PJ_KEYSET_MAX_BYTES)
        return; /* escapes made it longer than the document was */
    size = pj_keyset_arena_bytes(len);
    mem = fuzz_alloc(size);
    pj_arena_init(&arena, mem, size);
    FUZZ_ASSERT(pj_keyset_parse(&again, &arena,
                                (pj_str_t){(unsigned char *) json, len}) ==
                PJ_OK);
    FUZZ_ASSERT(again.count == set->count && again.ignored == 0);
    for (size_t i = 0; i < set->count; i++)
        FUZZ_ASSERT(pj_key_match(set->keys[i], again.keys[i]) == PJ_OK);
    pj_keyset_clear(&again);
    free(mem);
}

/* As of a file: a key without an id is the only one of its type that it can be
 * chosen by. */
static void of_file(pj_arena_t arena, pj_str_t text, size_t named)
{
    pj_keyset_t set = {.count = 0};
    pj_err_t err = pj_keyset_parse_file(&set, &arena, text);

    FUZZ_ASSERT(err != PJ_ERR_NO_SPACE && err != PJ_ERR_CRYPTO);
    FUZZ_ASSERT((err == PJ_OK) == (set.count > 0));
    FUZZ_ASSERT(ERR_peek_error() == 0);
    FUZZ_ASSERT(set.count >= named);
    for (size_t i = 0; i < set.count; i++) {
        const pj_key_t *key =
            pj_keyset_choose(&set, set.keys[i]->alg, pj_key_id(set.keys[i]));

        FUZZ_ASSERT(key == set.keys[i] ||
                    (key == NULL && set.keys[i]->kid_len == 0));
    }
    pj_keyset_clear(&set);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    size_t size = pj_keyset_arena_bytes(len);
    unsigned char *mem = fuzz_alloc(size);
    pj_keyset_t set = {.count = 0};
    pj_arena_t arena;
    pj_err_t err;

    pj_arena_init(&arena, mem, size);
    err = pj_keyset_parse(&set, &arena, (pj_str_t){data, len});
    FUZZ_ASSERT(err != PJ_ERR_NO_SPACE && err != PJ_ERR_CRYPTO);
    FUZZ_ASSERT((err == PJ_OK) == (set.count > 0));
    FUZZ_ASSERT(ERR_peek_error() == 0);
    for (size_t i = 0; i < set.count; i++) {
        pj_str_t kid = pj_key_id(set.keys[i]);
        int bits;

        FUZZ_ASSERT(kid.len >= 1 && kid.len <= PJ_KID_MAX_BYTES);
        FUZZ_ASSERT(pj_keyset_find(&set, kid) == set.keys[i]);
        bits = EVP_PKEY_get_bits(set.keys[i]->pkey);
        FUZZ_ASSERT(EVP_PKEY_is_a(set.keys[i]->pkey, "RSA") != 1 ||
                    (bits >= PJ_RSA_MIN_BITS && bits <= PJ_RSA_MAX_BITS));
    }
    if (err == PJ_OK)
        round_trip(&set);
    pj_arena_init(&arena, mem, size);
    of_file(arena, (pj_str_t){data, len}, set.count);
    pj_keyset_clear(&set);
    free(mem);
    return 0;
}
