/* The JSON of passkeys, as browsers have it. */

#include "auth/webauthn_json.h"

#include <string.h>

/* Bytes of what a browser returns.  An attestation object of "none" has little
 * more than the authenticator data. */
#define CLIENT_DATA_MAX 4096
#define ATTESTATION_MAX 6144
#define AUTH_DATA_MAX 4096
#define SIGNATURE_MAX 512
#define USER_MAX 64
#define TRANSPORTS_MAX 16 /* elements of the array */

/* Transports of a credential (section 5.8.4), a bit each in this order.  The
 * bits are kept in the database, so a new one goes to the end. */
static const char *const transports[] = {"ble", "hybrid",     "internal",
                                         "nfc", "smart-card", "usb"};

#define TRANSPORT_COUNT (sizeof(transports) / sizeof(transports[0]))

/* -- options -- */

static void write_bytes(struct jsonw *json, const char *name, pj_str_t bytes)
{
    char text[WEBAUTHN_ID_MAX * 4 / 3 + 4];
    size_t len = 0;

    if (!pj_b64url_encode(text, sizeof(text), &len, bytes)) {
        jsonw_string(json, name, text, len);
    }
}

static void write_credentials(struct jsonw *json, const char *name,
                              const struct webauthn_options *options)
{
    jsonw_array(json, name);
    for (size_t i = 0; i < options->count; i++) {
        const struct webauthn_credential *c = &options->known[i];

        jsonw_object(json, NULL);
        jsonw_cstr(json, "type", "public-key");
        write_bytes(json, "id", c->id);
        jsonw_array(json, "transports");
        for (size_t t = 0; t < TRANSPORT_COUNT; t++) {
            if ((c->transports & 1u << t) != 0) {
                jsonw_cstr(json, NULL, transports[t]);
            }
        }
        jsonw_array_end(json);
        jsonw_object_end(json);
    }
    jsonw_array_end(json);
}

/* The first algorithm is preferred. */
static void write_algorithms(struct jsonw *json)
{
    static const int algs[] = {-8, -7, -257}; /* EdDSA, ES256, RS256 */

    jsonw_array(json, "pubKeyCredParams");
    for (size_t i = 0; i < sizeof(algs) / sizeof(algs[0]); i++) {
        jsonw_object(json, NULL);
        jsonw_cstr(json, "type", "public-key");
        jsonw_int(json, "alg", algs[i]);
        jsonw_object_end(json);
    }
    jsonw_array_end(json);
}

void webauthn_json_creation(struct jsonw *json, const char *name,
                            const struct config *cfg,
                            const struct webauthn_options *options)
{
    jsonw_object(json, name);
    jsonw_object(json, "rp");
    jsonw_cstr(json, "id", cfg->webauthn_rp_id);
    jsonw_cstr(json, "name", cfg->webauthn_rp_id);
    jsonw_object_end(json);
    jsonw_object(json, "user");
    write_bytes(json, "id", options->user);
    jsonw_string(json, "name", options->account.data, options->account.len);
    jsonw_string(json, "displayName", options->account.data,
                 options->account.len);
    jsonw_object_end(json);
    write_bytes(json, "challenge", options->challenge);
    write_algorithms(json);
    jsonw_int(json, "timeout", WEBAUTHN_JSON_TIMEOUT_S * 1000);
    write_credentials(json, "excludeCredentials", options);
    jsonw_object(json, "authenticatorSelection");
    jsonw_cstr(json, "residentKey", "required");
    jsonw_bool(json, "requireResidentKey", true); /* for Level 1 */
    jsonw_cstr(json, "userVerification", "required");
    jsonw_object_end(json);
    jsonw_cstr(json, "attestation", "none");
    jsonw_object_end(json);
}

void webauthn_json_request(struct jsonw *json, const char *name,
                           const struct config *cfg,
                           const struct webauthn_options *options)
{
    jsonw_object(json, name);
    write_bytes(json, "challenge", options->challenge);
    jsonw_int(json, "timeout", WEBAUTHN_JSON_TIMEOUT_S * 1000);
    jsonw_cstr(json, "rpId", cfg->webauthn_rp_id);
    write_credentials(json, "allowCredentials", options);
    jsonw_cstr(json, "userVerification", "required");
    jsonw_object_end(json);
}

/* -- responses -- */

/* Reads base64url of min to max bytes into the arena. */
static bool read_bytes(const struct body *b, const char *name,
                       enum body_need need, size_t min, size_t max,
                       pj_str_t *out)
{
    unsigned char *mem;
    pj_str_t text;
    size_t len;

    if (!body_string(b, name, need, pj_b64url_encoded_len(min),
                     pj_b64url_encoded_len(max), &text)) {
        return false;
    }
    mem = pj_arena_alloc(&b->w->arena, text.len);
    if (mem == NULL) {
        b->w->faults.no_memory = true;
        return false;
    }
    if (pj_b64url_decode(mem, text.len, &len, text)) {
        return body_fault(b, name, (struct fault){.code = FAULT_MALFORMED},
                          "must be base64url without padding");
    }
    *out = (pj_str_t){mem, len};
    return true;
}

/* Reads the members that both responses have, and enters response. */
static bool read_credential(const struct body *b, pj_str_t *id,
                            pj_str_t *client_data, struct body *response)
{
    static const char *const types[] = {"public-key", NULL};
    const char *type;
    pj_str_t raw_id = {NULL, 0};

    body_word(b, "type", BODY_REQUIRED, types, &type);
    if (read_bytes(b, "id", BODY_REQUIRED, WEBAUTHN_ID_MIN, WEBAUTHN_ID_MAX,
                   id) &&
        read_bytes(b, "rawId", BODY_REQUIRED, WEBAUTHN_ID_MIN, WEBAUTHN_ID_MAX,
                   &raw_id) &&
        !pj_str_eq(*id, raw_id)) {
        body_fault(b, "rawId", (struct fault){.code = FAULT_NOT_ALLOWED},
                   "must equal id");
    }
    if (!body_object(b, "response", BODY_REQUIRED, response)) {
        return false;
    }
    read_bytes(response, "clientDataJSON", BODY_REQUIRED, 1, CLIENT_DATA_MAX,
               client_data);
    return true;
}

/* Unknown transports are left out: browsers may have new ones. */
static void read_transports(const struct body *response, unsigned *out)
{
    struct body list, element;
    pj_str_t word;

    *out = 0;
    if (!body_array(response, "transports", BODY_OPTIONAL, TRANSPORTS_MAX,
                    &list)) {
        return;
    }
    while (body_next(&list, &element)) {
        if (!body_string(&element, NULL, BODY_REQUIRED, 0, 64, &word)) {
            continue;
        }
        for (size_t t = 0; t < TRANSPORT_COUNT; t++) {
            if (pj_str_eq(word, pj_str(transports[t]))) {
                *out |= 1u << t;
            }
        }
    }
}

void webauthn_json_registration(const struct body *b,
                                struct webauthn_registration *out)
{
    struct body response;

    *out = (struct webauthn_registration){.transports = 0};
    if (!read_credential(b, &out->id, &out->client_data, &response)) {
        return;
    }
    read_bytes(&response, "attestationObject", BODY_REQUIRED, 1,
               ATTESTATION_MAX, &out->attestation);
    read_transports(&response, &out->transports);
}

void webauthn_json_assertion(const struct body *b,
                             struct webauthn_assertion *out)
{
    struct body response;

    *out = (struct webauthn_assertion){.user = {NULL, 0}};
    if (!read_credential(b, &out->id, &out->client_data, &response)) {
        return;
    }
    read_bytes(&response, "authenticatorData", BODY_REQUIRED, 1, AUTH_DATA_MAX,
               &out->auth_data);
    read_bytes(&response, "signature", BODY_REQUIRED, 1, SIGNATURE_MAX,
               &out->signature);
    read_bytes(&response, "userHandle", BODY_NULLABLE, 1, USER_MAX, &out->user);
}
