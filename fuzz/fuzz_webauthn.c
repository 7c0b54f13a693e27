/* What a browser returns of a passkey, of which the first byte says the part:
 * r, the authenticator data of a registration behind the hash; a, the same of
 * an assertion, which is signed; o, an attestation object; c, client data; j, a
 * JSON body.  Accepted data obey a second reader of the specification, what
 * libfido2 decodes is bounded, and a key is one that OpenSSL reads. */

#include "fuzz.h"

#include "auth/webauthn_cbor.h"
#include "auth/webauthn_json.h"

#include <cbor.h>
#include <openssl/sha.h>
#include <openssl/x509.h>

#define CHALLENGE "0123456789abcdef0123456789abcdef"
#define CHALLENGE_TEXT "MDEyMzQ1Njc4OWFiY2RlZjAxMjM0NTY3ODlhYmNkZWY"
#define ORIGIN "https://example.org"
#define CLIENT(type)                                                           \
    "{\"type\":\"webauthn." type "\",\"challenge\":\"" CHALLENGE_TEXT          \
    "\",\"origin\":\"" ORIGIN "\"}"
#define HEAD 37 /* bytes of authenticator data: hash, flags, counter */
#define USER "user"

static char rp_id[] = "example.org", origins[] = ORIGIN;
static struct config cfg = {.webauthn_rp_id = rp_id,
                            .webauthn_origins = origins};
static unsigned char arena_mem[WORKER_ARENA_BYTES];
static pj_arena_t arena;
static unsigned char hash[SHA256_DIGEST_LENGTH], key_der[64], made[80000];
static EVP_PKEY *key;
static struct webauthn_credential kept;

static void good_credential(void)
{
    unsigned char *end = key_der;

    kept = (struct webauthn_credential){
        .id = PJ_STR("0123456789abcdef"),
        .user = PJ_STR(USER),
        .key = {key_der, (size_t) i2d_PUBKEY(key, &end)}};
}

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
    (void) argc;
    (void) argv;
    SHA256((unsigned char *) rp_id, strlen(rp_id), hash);
    key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
    FUZZ_ASSERT(key != NULL);
    return 0;
}

/* The hash and what comes after it. */
static pj_str_t auth_data(pj_str_t rest)
{
    memcpy(made, hash, sizeof(hash));
    memcpy(made + sizeof(hash), rest.data, rest.len);
    return (pj_str_t){made, sizeof(hash) + rest.len};
}

/* The length of the item at data, by libcbor, or 0; bounded before. */
static size_t item(pj_str_t data)
{
    struct cbor_load_result result;
    pj_str_t rest = data;
    cbor_item_t *read;

    if (!webauthn_cbor_skip(&rest))
        return 0;
    read = cbor_load(data.data, data.len, &result);
    if (read == NULL)
        return 0; /* text that is not UTF-8 */
    FUZZ_ASSERT(result.read == data.len - rest.len);
    cbor_decref(&read);
    return result.read;
}

/* Returns true if the data has exactly the parts that its flags announce, and a
 * person was present. */
static bool is_right(pj_str_t d, bool registered)
{
    unsigned flags = d.len >= HEAD ? d.data[32] : 0;
    size_t at = HEAD, n;

    if (d.len < HEAD || memcmp(d.data, hash, sizeof(hash)) != 0 ||
        (flags & 5) != 5 || (flags & 24) == 16 || !(flags & 64) != !registered)
        return false;
    if (registered) {
        if (d.len < at + 18)
            return false;
        n = d.data[at + 16] * 256u + d.data[at + 17];
        at += 18 + n;
        if (n < 16 || n > 1023 || at >= d.len)
            return false;
        n = item((pj_str_t){d.data + at, d.len - at});
        at += n;
        if (n == 0)
            return false;
    }
    if (flags & 128) {
        if (at >= d.len || d.data[at] >> 5 != 5)
            return false;
        at += item((pj_str_t){d.data + at, d.len - at});
    }
    return at == d.len;
}

static void registration(pj_str_t object, pj_str_t id, pj_str_t data)
{
    struct webauthn_registration r = {.id = id,
                                      .client_data = PJ_STR(CLIENT("create")),
                                      .attestation = object};
    struct webauthn_credential out;
    enum webauthn_error err =
        webauthn_register(&cfg, &arena, PJ_STR(CHALLENGE), &r, &out);
    const unsigned char *der;
    EVP_PKEY *read;

    FUZZ_ASSERT(err != WEBAUTHN_INTERNAL && ERR_peek_error() == 0);
    if (err)
        return;
    FUZZ_ASSERT(data.data != NULL && is_right(data, true));
    der = out.key.data;
    read = d2i_PUBKEY(NULL, &der, (long) out.key.len);
    FUZZ_ASSERT(read != NULL && der == out.key.data + out.key.len);
    EVP_PKEY_free(read);
    FUZZ_ASSERT(out.id.len >= WEBAUTHN_ID_MIN && out.id.len <= WEBAUTHN_ID_MAX);
    FUZZ_ASSERT(!out.backed_up || out.backup_eligible);
}

/* The id that the data names, or another. */
static pj_str_t id_of(pj_str_t data)
{
    size_t len = data.len >= HEAD + 18
                     ? data.data[HEAD + 16] * 256u + data.data[HEAD + 17]
                     : 0;

    return data.len >= HEAD + 18 + len ? (pj_str_t){data.data + HEAD + 18, len}
                                       : PJ_STR("0123456789abcdef");
}

static void registration_data(pj_str_t rest)
{
    static const char before[] = "\xa3"
                                 "cfmtdnonegattStmt\xa0hauthData\x5a";
    static unsigned char object[90000];
    pj_str_t data = auth_data(rest);
    size_t n = sizeof(before) - 1;

    memcpy(object, before, n);
    for (int i = 24; i >= 0; i -= 8)
        object[n++] = (unsigned char) (data.len >> i);
    memcpy(object + n, data.data, data.len);
    registration((pj_str_t){object, n + data.len}, id_of(data), data);
}

static void attestation(pj_str_t object)
{
    pj_str_t data;

    if (!webauthn_cbor_attestation(object, &data)) {
        registration(object, PJ_STR("0123456789abcdef"), (pj_str_t){NULL, 0});
        return;
    }
    FUZZ_ASSERT(item(object) == object.len);
    FUZZ_ASSERT(data.data >= object.data &&
                data.data + data.len <= object.data + object.len);
    registration(object, id_of(data), data);
}

static void assertion(pj_str_t rest)
{
    static unsigned char message[90000];
    pj_str_t data = auth_data(rest);
    struct webauthn_assertion a = {.id = PJ_STR("0123456789abcdef"),
                                   .client_data = PJ_STR(CLIENT("get")),
                                   .auth_data = data};
    unsigned char signature[64];
    size_t len = sizeof(signature);
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    enum webauthn_error err;
    bool right = is_right(data, false);

    memcpy(message, data.data, data.len);
    SHA256(a.client_data.data, a.client_data.len, message + data.len);
    FUZZ_ASSERT(EVP_DigestSignInit(ctx, NULL, NULL, NULL, key) == 1 &&
                EVP_DigestSign(ctx, signature, &len, message,
                               data.len + SHA256_DIGEST_LENGTH) == 1);
    EVP_MD_CTX_free(ctx);
    a.signature = (pj_str_t){signature, len};
    good_credential();
    kept.backup_eligible = data.len > 32 && (data.data[32] & 8) != 0;
    err = webauthn_assert(&cfg, &arena, PJ_STR(CHALLENGE), &a, false, &kept);
    FUZZ_ASSERT(err != WEBAUTHN_INTERNAL && ERR_peek_error() == 0);
    /* libfido2 refuses some extensions, and ours ends at its buffer. */
    FUZZ_ASSERT(err ? !right || data.len > HEAD : right);
    signature[0] ^= 1;
    FUZZ_ASSERT(webauthn_assert(&cfg, &arena, PJ_STR(CHALLENGE), &a, false,
                                &kept) != WEBAUTHN_OK);
}

static void client_data(pj_str_t json)
{
    struct webauthn_assertion a = {.client_data = json};
    const pj_json_t *root = NULL, *cross;
    enum webauthn_error err;
    bool right;

    good_credential();
    err = webauthn_assert(&cfg, &arena, PJ_STR(CHALLENGE), &a, false, &kept);
    right =
        pj_json_parse(&arena, json, &root) == PJ_OK &&
        pj_str_eq(pj_json_string(root, "type"), PJ_STR("webauthn.get")) &&
        pj_str_eq(pj_json_string(root, "challenge"), PJ_STR(CHALLENGE_TEXT)) &&
        pj_str_eq(pj_json_string(root, "origin"), PJ_STR(ORIGIN)) &&
        pj_json_member(root, "topOrigin") == NULL;
    cross = right ? pj_json_member(root, "crossOrigin") : NULL;
    right &= cross == NULL || (cross->type == PJ_JSON_BOOL && !cross->boolean);
    FUZZ_ASSERT(right ? err == WEBAUTHN_AUTH_DATA
                      : err >= WEBAUTHN_CLIENT_DATA &&
                            err <= WEBAUTHN_CROSS_ORIGIN);
}

static void body(pj_str_t json)
{
    static char head_mem[8192], body_mem[16384];
    struct http_request req = {.content_type = PJ_STR("application/json"),
                               .body = json,
                               .request_id = PJ_STR("r"),
                               .correlation_id = PJ_STR("c")};
    struct http_response res;
    struct worker w = {.cfg = &cfg, .req = &req, .res = &res};
    struct webauthn_registration r;
    struct webauthn_assertion a;
    struct body root;

    http_response_init(&res, head_mem, sizeof(head_mem), body_mem,
                       sizeof(body_mem));
    pj_arena_init(&w.arena, arena_mem, sizeof(arena_mem));
    if (!body_read(&w, false, &root))
        return;
    webauthn_json_registration(&root, &r);
    if (w.faults.count == 0)
        FUZZ_ASSERT(r.id.len >= WEBAUTHN_ID_MIN && r.client_data.len > 0 &&
                    r.attestation.len > 0 && r.transports < 64);
    memset(&w.faults, 0, sizeof(w.faults));
    webauthn_json_assertion(&root, &a);
    if (w.faults.count == 0)
        FUZZ_ASSERT(a.id.len <= WEBAUTHN_ID_MAX && a.client_data.len > 0 &&
                    a.auth_data.len > 0 && a.signature.len > 0 &&
                    a.user.len <= 64);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    pj_str_t rest = {data + 1, len - 1};

    if (len == 0 || len > HTTP_BODY_MAX)
        return 0;
    pj_arena_init(&arena, arena_mem, sizeof(arena_mem));
    switch (data[0]) {
    case 'r':
        registration_data(rest);
        break;
    case 'a':
        assertion(rest);
        break;
    case 'o':
        attestation(rest);
        break;
    case 'c':
        client_data(rest);
        break;
    case 'j':
        body(rest);
        break;
    default:
        break;
    }
    return 0;
}
