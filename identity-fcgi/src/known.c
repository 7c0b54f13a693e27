/* Tokens whose signature is known to hold, and what refresh tokens say. */

#include "known.h"

#include "uuid.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 65536 /* 6 MiB */

/* iss sub iat exp jti account_id session_id token_type */
#define REFRESH_CLAIMS 8

/* A token stands in the slot that the first two bytes of its digest name. */
struct slot {
    unsigned char sha256[KNOWN_SHA256_BYTES];
    unsigned char account_id[UUID_BYTES]; /* sub is the same */
    unsigned char session_id[UUID_BYTES];
    unsigned char jti[UUID_BYTES];
    int64_t iat;
    int64_t exp; /* 0: but for the digest nothing is kept */
};

struct known {
    EVP_MD *sha256;
    char *issuer;
    pthread_mutex_t lock;
    struct slot slots[SLOTS];
};

struct known *known_new(const char *issuer)
{
    struct known *k = malloc(sizeof(*k));

    if (k == NULL) {
        return NULL;
    }
    k->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    k->issuer = issuer != NULL ? strdup(issuer) : NULL;
    if (k->sha256 == NULL || (issuer != NULL && k->issuer == NULL) ||
        pthread_mutex_init(&k->lock, NULL) != 0) {
        EVP_MD_free(k->sha256);
        free(k->issuer);
        free(k);
        return NULL;
    }
    /* What a slot is filled with belongs into another: it matches nothing.
     * And the memory is taken now, instead of bit by bit with each token. */
    memset(k->slots, 0xff, sizeof(k->slots));
    memset(&k->slots[SLOTS - 1], 0, sizeof(struct slot));
    return k;
}

void known_free(struct known *k)
{
    if (k != NULL) {
        pthread_mutex_destroy(&k->lock);
        EVP_MD_free(k->sha256);
        free(k->issuer);
        free(k);
    }
}

void known_name(const struct known *k, pj_str_t token, struct known_name *name)
{
    name->good = k != NULL && EVP_Digest(token.data, token.len, name->sha256,
                                         NULL, k->sha256, NULL) == 1;
}

static struct slot *slot_of(struct known *k, const unsigned char *sha256)
{
    return &k->slots[(sha256[0] << 8 | sha256[1]) % SLOTS];
}

/* -- claims -- */

static bool same(pj_str_t s, const char *text)
{
    return text != NULL && s.len == strlen(text) &&
           memcmp(s.data, text, s.len) == 0;
}

/* Keeps what claims say in slot; false where that is not all that they say. */
static bool pack(const struct known *k, const pj_claims_t *claims,
                 struct slot *slot)
{
    if (claims->kind != PJ_TOKEN_REFRESH || !same(claims->iss, k->issuer) ||
        (claims->root != NULL && claims->root->count != REFRESH_CLAIMS)) {
        return false;
    }
    slot->iat = claims->iat;
    slot->exp = claims->exp;
    return claims->exp > 0 &&
           uuid_read(slot->account_id, claims->account_id) &&
           uuid_read(slot->session_id, claims->session_id) &&
           uuid_read(slot->jti, claims->jti);
}

static pj_str_t uuid_text(char *text, const unsigned char *bytes)
{
    uuid_write(text, bytes);
    return (pj_str_t){(unsigned char *) text, UUID_LEN};
}

static bool unpack(const struct known *k, const struct slot *slot,
                   pj_arena_t *arena, pj_claims_t *claims)
{
    static const char type[] = "refresh";
    char *text = pj_arena_alloc(arena, 3 * UUID_LEN);

    if (text == NULL) {
        return false;
    }
    memset(claims, 0, sizeof(*claims));
    claims->kind = PJ_TOKEN_REFRESH;
    claims->iat = slot->iat;
    claims->exp = slot->exp;
    claims->iss.data = (const unsigned char *) k->issuer;
    claims->iss.len = strlen(k->issuer);
    claims->account_id = uuid_text(text, slot->account_id);
    claims->sub = claims->account_id;
    claims->session_id = uuid_text(text + UUID_LEN, slot->session_id);
    claims->jti = uuid_text(text + 2 * UUID_LEN, slot->jti);
    claims->token_type.data = (const unsigned char *) type;
    claims->token_type.len = sizeof(type) - 1;
    return true;
}

/* -- the table -- */

void known_add(struct known *k, const struct known_name *name,
               const pj_claims_t *claims)
{
    struct slot slot;

    if (!name->good) {
        return;
    }
    if (claims == NULL || !pack(k, claims, &slot)) {
        memset(&slot, 0, sizeof(slot));
    }
    memcpy(slot.sha256, name->sha256, sizeof(slot.sha256));
    pthread_mutex_lock(&k->lock);
    *slot_of(k, name->sha256) = slot;
    pthread_mutex_unlock(&k->lock);
}

enum known_state known_find(struct known *k, const struct known_name *name,
                            pj_arena_t *arena, pj_claims_t *claims)
{
    const struct slot *place;
    struct slot slot;
    bool found;

    if (!name->good) {
        return KNOWN_NOT;
    }
    place = slot_of(k, name->sha256);
    pthread_mutex_lock(&k->lock);
    found = memcmp(place->sha256, name->sha256, sizeof(slot.sha256)) == 0;
    if (found) {
        slot = *place;
    }
    pthread_mutex_unlock(&k->lock);
    if (!found) {
        return KNOWN_NOT;
    }
    return slot.exp != 0 && unpack(k, &slot, arena, claims) ? KNOWN_CLAIMS
                                                            : KNOWN_SIGNATURE;
}
