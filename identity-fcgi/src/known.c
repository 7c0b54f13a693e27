/* Tokens whose signature is known to hold. */

#include "known.h"

#include <openssl/evp.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define SLOTS 65536 /* 2 MiB */
#define DIGEST_BYTES 32

/* A digest stands in the slot that its first two bytes name. */
struct known {
    EVP_MD *sha256;
    pthread_mutex_t lock;
    unsigned char slots[SLOTS][DIGEST_BYTES];
};

struct known *known_new(void)
{
    struct known *k = malloc(sizeof(*k));

    if (k == NULL) {
        return NULL;
    }
    k->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    if (k->sha256 == NULL || pthread_mutex_init(&k->lock, NULL) != 0) {
        EVP_MD_free(k->sha256);
        free(k);
        return NULL;
    }
    /* What a slot is filled with belongs into another: it matches nothing.
     * And the memory is taken now, instead of bit by bit with each token. */
    memset(k->slots, 0xff, sizeof(k->slots));
    memset(k->slots[SLOTS - 1], 0, DIGEST_BYTES);
    return k;
}

void known_free(struct known *k)
{
    if (k != NULL) {
        pthread_mutex_destroy(&k->lock);
        EVP_MD_free(k->sha256);
        free(k);
    }
}

static bool digest_of(const struct known *k, pj_str_t token,
                      unsigned char digest[DIGEST_BYTES])
{
    return k != NULL && EVP_Digest(token.data, token.len, digest, NULL,
                                   k->sha256, NULL) == 1;
}

static unsigned char *slot_of(struct known *k, const unsigned char *digest)
{
    return k->slots[(digest[0] << 8 | digest[1]) % SLOTS];
}

void known_add(struct known *k, pj_str_t token)
{
    unsigned char digest[DIGEST_BYTES];

    if (digest_of(k, token, digest)) {
        pthread_mutex_lock(&k->lock);
        memcpy(slot_of(k, digest), digest, sizeof(digest));
        pthread_mutex_unlock(&k->lock);
    }
}

bool known_has(struct known *k, pj_str_t token)
{
    unsigned char digest[DIGEST_BYTES];
    bool has;

    if (!digest_of(k, token, digest)) {
        return false;
    }
    pthread_mutex_lock(&k->lock);
    has = memcmp(slot_of(k, digest), digest, sizeof(digest)) == 0;
    pthread_mutex_unlock(&k->lock);
    return has;
}
