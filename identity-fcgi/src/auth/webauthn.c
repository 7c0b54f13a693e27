/* Verifies what passkeys return.  libfido2 decodes authenticator data and
 * verifies signatures. */

#include "auth/webauthn.h"

#include "auth/webauthn_cbor.h"
#include "auth/webauthn_key.h"
#include "base/http.h"

#include <fido.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/sha.h>
#include <string.h>
#include <web.h>

/* Authenticator data (section 6.1). */
#define RP_ID_HASH_BYTES 32
#define FLAGS_AT 32
#define HEAD_BYTES 37          /* hash, flags and counter */
#define ID_AT 18               /* after the head: AAGUID and the id's length */
#define AUTH_DATA_MAX 4096     /* bytes */
#define ASSERTION_DATA_MAX 960 /* what libfido2 takes of Ed25519 */

#define FLAG_USER_PRESENT 0x01
#define FLAG_USER_VERIFIED 0x04
#define FLAG_BACKUP_ELIGIBLE 0x08
#define FLAG_BACKED_UP 0x10
#define FLAG_ATTESTED 0x40
#define FLAG_EXTENSIONS 0x80

#define WEBAUTHN_ERROR_NAME(code, name) name,

const char *webauthn_errname(enum webauthn_error err)
{
    static const char *const names[] = {"ok",
                                        WEBAUTHN_ERRORS(WEBAUTHN_ERROR_NAME)};

    return names[err];
}

static void log_nothing(const char *line)
{
    (void) line;
}

/* libfido2 wants it in each thread.  FIDO_DEBUG in the environment would have
 * it write what clients sent to stderr. */
static void init_library(void)
{
    fido_init(0);
    fido_set_log_handler(log_nothing);
}

/* -- client data (section 5.8.1) -- */

static bool is_challenge(pj_str_t text, pj_str_t challenge)
{
    char want[WEBAUTHN_CHALLENGE_BYTES * 2];
    size_t len;

    return challenge.len == WEBAUTHN_CHALLENGE_BYTES &&
           !pj_b64url_encode(want, sizeof(want), &len, challenge) &&
           text.len == len && CRYPTO_memcmp(text.data, want, len) == 0;
}

static enum webauthn_error check_client_data(const struct config *cfg,
                                             pj_arena_t *arena,
                                             const char *type,
                                             pj_str_t challenge, pj_str_t json)
{
    const pj_json_t *root, *cross;

    if (pj_json_parse(arena, json, &root) || root->type != PJ_JSON_OBJECT) {
        return WEBAUTHN_CLIENT_DATA;
    }
    if (!pj_str_eq(pj_json_string(root, "type"), pj_str(type))) {
        return WEBAUTHN_TYPE;
    }
    if (!is_challenge(pj_json_string(root, "challenge"), challenge)) {
        return WEBAUTHN_CHALLENGE;
    }
    if (!http_origin_listed(cfg->webauthn_origins,
                            pj_json_string(root, "origin"))) {
        return WEBAUTHN_ORIGIN;
    }
    cross = pj_json_member(root, "crossOrigin");
    if ((cross != NULL && (cross->type != PJ_JSON_BOOL || cross->boolean)) ||
        pj_json_member(root, "topOrigin") != NULL) {
        return WEBAUTHN_CROSS_ORIGIN;
    }
    return WEBAUTHN_OK;
}

/* -- authenticator data -- */

/* Returns true if the data has the parts that its flags announce and nothing
 * else, so that libfido2 may decode it. */
static bool is_whole(pj_str_t data, bool attested)
{
    unsigned char flags;
    size_t id_len;

    if (data.len < HEAD_BYTES || data.len > AUTH_DATA_MAX) {
        return false;
    }
    flags = data.data[FLAGS_AT];
    data = web_skip(data, HEAD_BYTES);
    if (attested != ((flags & FLAG_ATTESTED) != 0)) {
        return false;
    }
    if (attested) {
        if (data.len < ID_AT) {
            return false;
        }
        id_len = (size_t) (data.data[ID_AT - 2] << 8 | data.data[ID_AT - 1]);
        data = web_skip(data, ID_AT);
        if (data.len < id_len) {
            return false;
        }
        data = web_skip(data, id_len);
        if (!webauthn_cbor_skip(&data)) {
            return false;
        }
    }
    return ((flags & FLAG_EXTENSIONS) == 0 || webauthn_cbor_skip(&data)) &&
           data.len == 0;
}

static enum webauthn_error check_auth_data(const struct config *cfg,
                                           pj_str_t data, bool attested)
{
    unsigned char hash[SHA256_DIGEST_LENGTH], flags;

    if (!is_whole(data, attested)) {
        return WEBAUTHN_AUTH_DATA;
    }
    if (SHA256((const unsigned char *) cfg->webauthn_rp_id,
               strlen(cfg->webauthn_rp_id), hash) == NULL ||
        CRYPTO_memcmp(data.data, hash, RP_ID_HASH_BYTES) != 0) {
        return WEBAUTHN_RP_ID;
    }
    flags = data.data[FLAGS_AT];
    if ((flags & FLAG_USER_PRESENT) == 0) {
        return WEBAUTHN_USER_PRESENT;
    }
    if ((flags & FLAG_USER_VERIFIED) == 0) {
        return WEBAUTHN_USER_VERIFIED;
    }
    if ((flags & FLAG_BACKED_UP) != 0 && (flags & FLAG_BACKUP_ELIGIBLE) == 0) {
        return WEBAUTHN_BACKUP;
    }
    return WEBAUTHN_OK;
}

/* -- registration -- */

/* Decodes checked data, whose key is for this algorithm.  NULL otherwise. */
static fido_cred_t *decode_as(int alg, pj_str_t data)
{
    fido_cred_t *cred = fido_cred_new();

    if (cred != NULL &&
        (fido_cred_set_type(cred, alg) != FIDO_OK ||
         fido_cred_set_authdata_raw(cred, data.data, data.len) != FIDO_OK)) {
        fido_cred_free(&cred);
    }
    return cred;
}

static enum webauthn_error
read_credential(pj_arena_t *arena, const struct webauthn_registration *r,
                pj_str_t data, struct webauthn_credential *out)
{
    static const int algs[] = {COSE_EDDSA, COSE_ES256, COSE_RS256};
    fido_cred_t *cred = NULL;
    enum webauthn_error err = WEBAUTHN_OK;
    pj_str_t id, raw;
    uint8_t flags;

    for (size_t i = 0; cred == NULL && i < sizeof(algs) / sizeof(algs[0]);
         i++) {
        cred = decode_as(algs[i], data);
    }
    if (cred == NULL) {
        return WEBAUTHN_KEY;
    }
    id = (pj_str_t){fido_cred_id_ptr(cred), fido_cred_id_len(cred)};
    raw = (pj_str_t){fido_cred_pubkey_ptr(cred), fido_cred_pubkey_len(cred)};
    flags = fido_cred_flags(cred);
    *out = (struct webauthn_credential){
        .id = r->id,
        .counter = fido_cred_sigcount(cred),
        .backup_eligible = (flags & FLAG_BACKUP_ELIGIBLE) != 0,
        .backed_up = (flags & FLAG_BACKED_UP) != 0,
        .transports = r->transports};
    if (id.len < WEBAUTHN_ID_MIN || id.len > WEBAUTHN_ID_MAX ||
        !pj_str_eq(id, r->id)) {
        err = WEBAUTHN_CREDENTIAL_ID;
    } else if (!webauthn_key_write(fido_cred_type(cred), raw, arena,
                                   &out->key)) {
        err = WEBAUTHN_KEY;
    }
    fido_cred_free(&cred);
    return err;
}

enum webauthn_error webauthn_register(const struct config *cfg,
                                      pj_arena_t *arena, pj_str_t challenge,
                                      const struct webauthn_registration *r,
                                      struct webauthn_credential *out)
{
    enum webauthn_error err = check_client_data(cfg, arena, "webauthn.create",
                                                challenge, r->client_data);
    pj_str_t data;

    if (!err && !webauthn_cbor_attestation(r->attestation, &data)) {
        err = WEBAUTHN_ATTESTATION;
    }
    if (!err) {
        err = check_auth_data(cfg, data, true);
    }
    if (!err) {
        ERR_set_mark();
        init_library();
        err = read_credential(arena, r, data, out);
        ERR_pop_to_mark();
    }
    return err;
}

/* -- assertion -- */

/* Verifies the signature of checked data. */
static enum webauthn_error verify(const struct config *cfg,
                                  const struct webauthn_assertion *a,
                                  pj_str_t der, uint32_t *counter)
{
    fido_assert_t *assert = fido_assert_new();
    struct webauthn_key key = {.alg = 0};
    enum webauthn_error err = WEBAUTHN_INTERNAL;
    int r;

    if (assert == NULL || !webauthn_key_read(der, &key) ||
        fido_assert_set_rp(assert, cfg->webauthn_rp_id) != FIDO_OK ||
        fido_assert_set_clientdata(assert, a->client_data.data,
                                   a->client_data.len) != FIDO_OK ||
        fido_assert_set_up(assert, FIDO_OPT_TRUE) != FIDO_OK ||
        fido_assert_set_uv(assert, FIDO_OPT_TRUE) != FIDO_OK ||
        fido_assert_set_count(assert, 1) != FIDO_OK) {
        goto done;
    }
    err = WEBAUTHN_AUTH_DATA;
    if (fido_assert_set_authdata_raw(assert, 0, a->auth_data.data,
                                     a->auth_data.len) != FIDO_OK) {
        goto done;
    }
    err = WEBAUTHN_SIGNATURE;
    if (fido_assert_set_sig(assert, 0, a->signature.data, a->signature.len) !=
        FIDO_OK) {
        goto done;
    }
    r = fido_assert_verify(assert, 0, key.alg, key.pk);
    if (r == FIDO_OK) {
        *counter = fido_assert_sigcount(assert, 0);
        err = WEBAUTHN_OK;
    } else if (r == FIDO_ERR_INVALID_PARAM) {
        err = WEBAUTHN_EXTENSION; /* all else of that code was checked */
    }

done:
    webauthn_key_free(&key);
    fido_assert_free(&assert);
    return err;
}

static bool is_user(const struct webauthn_assertion *a, bool nameless,
                    pj_str_t user)
{
    if (a->user.data == NULL) {
        return !nameless;
    }
    return a->user.len == user.len &&
           CRYPTO_memcmp(a->user.data, user.data, user.len) == 0;
}

/* Compares checked data with what is kept. */
static enum webauthn_error check_kept(const struct webauthn_assertion *a,
                                      bool nameless,
                                      const struct webauthn_credential *kept)
{
    unsigned char flags = a->auth_data.data[FLAGS_AT];

    if (!pj_str_eq(a->id, kept->id)) {
        return WEBAUTHN_CREDENTIAL_ID;
    }
    if (!is_user(a, nameless, kept->user)) {
        return WEBAUTHN_USER;
    }
    if (kept->backup_eligible != ((flags & FLAG_BACKUP_ELIGIBLE) != 0)) {
        return WEBAUTHN_BACKUP;
    }
    return WEBAUTHN_OK;
}

enum webauthn_error webauthn_assert(const struct config *cfg, pj_arena_t *arena,
                                    pj_str_t challenge,
                                    const struct webauthn_assertion *a,
                                    bool nameless,
                                    struct webauthn_credential *credential)
{
    enum webauthn_error err = check_client_data(cfg, arena, "webauthn.get",
                                                challenge, a->client_data);
    uint32_t counter = 0;

    if (!err && a->auth_data.len > ASSERTION_DATA_MAX) {
        err = WEBAUTHN_AUTH_DATA;
    }
    if (!err) {
        err = check_auth_data(cfg, a->auth_data, false);
    }
    if (!err) {
        err = check_kept(a, nameless, credential);
    }
    if (!err) {
        ERR_set_mark();
        init_library();
        err = verify(cfg, a, credential->key, &counter);
        ERR_pop_to_mark();
    }
    if (!err && (counter != 0 || credential->counter != 0) &&
        counter <= credential->counter) {
        err = WEBAUTHN_COUNTER;
    }
    if (!err) {
        credential->counter = counter;
        credential->backed_up =
            (a->auth_data.data[FLAGS_AT] & FLAG_BACKED_UP) != 0;
    }
    return err;
}
