/*
 * A browser with an authenticator in software.  Each part of what they return
 * is made from a template, so that a test can break any of it.
 *
 * A template is hex digits in lower case, blanks, and letters: H is the hash of
 * the id, F the flags, C the counter, G the AAGUID, L and I the credential id
 * and its length, K the COSE key, X, Y, N its coordinates or modulus, D the
 * authenticator data as a byte string.
 *
 * In client data ' is a double quote, $ the challenge, and ~ "create" or "get".
 */

#ifndef AUTHENTICATOR_H_INCLUDED
#define AUTHENTICATOR_H_INCLUDED

#include "auth/webauthn.h"
#include "testing.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/ec.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/rsa.h>
#include <openssl/sha.h>
#include <stdio.h>

#define CHALLENGE "0123456789abcdef0123456789abcdef"
#define CHALLENGE_TEXT "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
#define USER_HANDLE "a user's handle"

#define ES256 "a5 0102 0326 2001 215820 X 225820 Y"
#define EDDSA "a4 0101 0327 2006 215820 X"
#define RS256 "a4 0103 03390100 20590100 N 2143010001"

#define FMT "63666d74"
#define NONE "646e6f6e65"
#define ATT_STMT "6761747453746d74"
#define AUTH_DATA "686175746844617461"
#define OBJECT "a3" FMT NONE ATT_STMT "a0" AUTH_DATA "D"
#define REGISTERED "H F C G L I K"
#define ASSERTED "H F C"

#define CLIENT(members)                                                        \
    "{'type':'webauthn.~','challenge':'$','origin':'https://"                  \
    "example.org'" members "}"

#define UP 0x01
#define UV 0x04
#define BE 0x08
#define BS 0x10
#define AT 0x40
#define ED 0x80

struct bytes {
    unsigned char data[80000];
    size_t len;
};

/* What is made; what is 0 is as in a browser. */
struct make {
    const char *client, *auth, *object, *cose;
    const char *rp_id;
    unsigned char flags;
    uint32_t counter;
    size_t id_len;
};

struct authenticator {
    EVP_PKEY *key;
    const char *cose;
    unsigned char id[2048];
    size_t id_len;
    struct bytes client, auth, object, signature;
};

static inline pj_str_t of(const struct bytes *b)
{
    return (pj_str_t){b->data, b->len};
}

static inline void put(struct bytes *b, const void *data, size_t len)
{
    ck_assert_uint_le(b->len + len, sizeof(b->data));
    memcpy(b->data + b->len, data, len);
    b->len += len;
}

static inline void put_be(struct bytes *b, size_t value, unsigned bytes)
{
    while (bytes-- > 0) {
        unsigned char c = (unsigned char) (value >> 8 * bytes);

        put(b, &c, 1);
    }
}

/* A number of the key: its coordinate, or its modulus. */
static inline void put_number(struct bytes *b, EVP_PKEY *key, char which)
{
    const char *name = which == 'X'   ? OSSL_PKEY_PARAM_EC_PUB_X
                       : which == 'Y' ? OSSL_PKEY_PARAM_EC_PUB_Y
                                      : OSSL_PKEY_PARAM_RSA_N;
    unsigned char raw[1024];
    size_t len = sizeof(raw);
    BIGNUM *n = NULL;

    if (EVP_PKEY_base_id(key) == EVP_PKEY_ED25519) {
        ck_assert_int_eq(EVP_PKEY_get_raw_public_key(key, raw, &len), 1);
    } else {
        ck_assert_int_eq(EVP_PKEY_get_bn_param(key, name, &n), 1);
        len = which == 'N' ? (size_t) BN_num_bytes(n) : 32;
        ck_assert_int_eq(BN_bn2binpad(n, raw, (int) len), (int) len);
        BN_free(n);
    }
    put(b, raw, len);
}

static inline void expand(struct authenticator *a, const struct make *m,
                          const char *template, struct bytes *out)
{
    unsigned char hash[32], flags = m->flags;
    const char *rp_id = m->rp_id != NULL ? m->rp_id : "example.org";
    unsigned hex;

    for (const char *p = template; *p != '\0'; p++) {
        switch (*p) {
        case ' ':
            break;
        case 'H':
            SHA256((const unsigned char *) rp_id, strlen(rp_id), hash);
            put(out, hash, sizeof(hash));
            break;
        case 'F':
            put(out, &flags, 1);
            break;
        case 'C':
            put_be(out, m->counter, 4);
            break;
        case 'G':
            put(out, "an AAGUID of ours", 16);
            break;
        case 'L':
            put_be(out, a->id_len, 2);
            break;
        case 'I':
            put(out, a->id, a->id_len);
            break;
        case 'K':
            expand(a, m, m->cose != NULL ? m->cose : a->cose, out);
            break;
        case 'X':
        case 'Y':
        case 'N':
            put_number(out, a->key, *p);
            break;
        case 'D':
            put_be(out, 0x59, 1);
            put_be(out, a->auth.len, 2);
            put(out, a->auth.data, a->auth.len);
            break;
        default:
            ck_assert_int_eq(sscanf(p++, "%2x", &hex), 1);
            put_be(out, hex, 1);
        }
    }
}

static inline void expand_client(const char *template, const char *type,
                                 struct bytes *out)
{
    for (const char *p = template; *p != '\0'; p++) {
        char c = *p == '\'' ? '"' : *p;
        const char *text = c == '~' ? type : c == '$' ? CHALLENGE_TEXT : NULL;

        put(out, text != NULL ? text : &c, text != NULL ? strlen(text) : 1);
    }
}

/* With a new key, but with RSA always the same one. */
static inline void make_authenticator(struct authenticator *a, const char *cose)
{
    static EVP_PKEY *rsa;

    if (strcmp(cose, RS256) == 0 && rsa == NULL) {
        rsa = EVP_RSA_gen(2048);
    }
    if (a->key != rsa) {
        EVP_PKEY_free(a->key);
    }
    memset(a, 0, sizeof(*a));
    a->cose = cose;
    a->key = strcmp(cose, ES256) == 0 ? EVP_EC_gen("P-256")
             : strcmp(cose, EDDSA) == 0
                 ? EVP_PKEY_Q_keygen(NULL, NULL, "ED25519")
                 : rsa;
    ck_assert_ptr_nonnull(a->key);
    a->id_len = 32;
    memset(a->id, 'i', sizeof(a->id));
}

static inline void make_common(struct authenticator *a, const struct make *m,
                               const char *type, const char *auth)
{
    a->client.len = a->auth.len = a->object.len = a->signature.len = 0;
    a->id_len = m->id_len != 0 ? m->id_len : 32;
    expand_client(m->client != NULL ? m->client
                                    : CLIENT(",'crossOrigin':false"),
                  type, &a->client);
    expand(a, m, m->auth != NULL ? m->auth : auth, &a->auth);
}

static inline struct webauthn_registration
make_registration(struct authenticator *a, const struct make *made)
{
    struct make m = *made;

    m.flags = m.flags != 0 ? m.flags : UP | UV | AT;
    make_common(a, &m, "create", REGISTERED);
    expand(a, &m, m.object != NULL ? m.object : OBJECT, &a->object);
    return (struct webauthn_registration){.id = {a->id, a->id_len},
                                          .client_data = of(&a->client),
                                          .attestation = of(&a->object)};
}

static inline struct webauthn_assertion make_assertion(struct authenticator *a,
                                                       const struct make *made)
{
    static struct bytes message;
    struct make m = *made;
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    bool ed25519 = EVP_PKEY_base_id(a->key) == EVP_PKEY_ED25519;

    m.flags = m.flags != 0 ? m.flags : UP | UV;
    make_common(a, &m, "get", ASSERTED);
    message = a->auth;
    SHA256(a->client.data, a->client.len, message.data + message.len);
    message.len += 32;
    a->signature.len = sizeof(a->signature.data);
    ck_assert_int_eq(EVP_DigestSignInit(ctx, NULL,
                                        ed25519 ? NULL : EVP_sha256(), NULL,
                                        a->key),
                     1);
    ck_assert_int_eq(EVP_DigestSign(ctx, a->signature.data, &a->signature.len,
                                    message.data, message.len),
                     1);
    EVP_MD_CTX_free(ctx);
    return (struct webauthn_assertion){.id = {a->id, a->id_len},
                                       .client_data = of(&a->client),
                                       .auth_data = of(&a->auth),
                                       .signature = of(&a->signature),
                                       .user = str(USER_HANDLE)};
}

/* -- the relying party -- */

static char rp_id[] = "example.org",
            origins[] = "https://example.org https://app.example.org:8443";
static const struct config cfg = {.webauthn_rp_id = rp_id,
                                  .webauthn_origins = origins};
static unsigned char arena_mem[1024 * 1024];
static struct authenticator device;

static const char *const algs[] = {ES256, EDDSA, RS256};

/* For all of a test. */
static inline pj_arena_t *arena(void)
{
    static pj_arena_t a;

    if (a.pos == NULL) {
        pj_arena_init(&a, arena_mem, sizeof(arena_mem));
    }
    return &a;
}

static inline enum webauthn_error registered(struct webauthn_registration r,
                                             struct webauthn_credential *out)
{
    enum webauthn_error err =
        webauthn_register(&cfg, arena(), str(CHALLENGE), &r, out);

    out->user = str(USER_HANDLE);
    ck_assert_uint_eq(ERR_peek_error(), 0);
    return err;
}

static inline enum webauthn_error asserted(struct webauthn_assertion a,
                                           struct webauthn_credential *kept)
{
    static unsigned char mem[256 * 1024];
    enum webauthn_error err;
    pj_arena_t own; /* there may be thousands in a test */

    pj_arena_init(&own, mem, sizeof(mem));
    err = webauthn_assert(&cfg, &own, str(CHALLENGE), &a, false, kept);
    ck_assert_uint_eq(ERR_peek_error(), 0);
    return err;
}

#define REFUSED(call, want)                                                    \
    ck_assert_str_eq(webauthn_errname(call), webauthn_errname(want))
#define ACCEPTED(call) REFUSED(call, WEBAUTHN_OK)

/* A device of this algorithm, whose credential is kept. */
static inline struct webauthn_credential keep(const char *alg)
{
    struct webauthn_credential kept;

    make_authenticator(&device, alg);
    ACCEPTED(registered(make_registration(&device, &(struct make){0}), &kept));
    return kept;
}

/* Takes long, so once for all tests. */
static inline void make_rsa(void)
{
    make_authenticator(&device, RS256);
}

static inline void with_rsa(TCase *tc)
{
    tcase_add_unchecked_fixture(tc, make_rsa, NULL);
}

#endif
