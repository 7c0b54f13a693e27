/* Authentication of OAuth clients (RFC 6749 section 2.3, RFC 7523). */

#include "auth/client.h"

#include "auth/auth_attempt.h"
#include "auth/client_key.h"
#include "auth/token.h"
#include "base/uuid.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#define ASSERTION_TYPE "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
#define JTI_MAX 255 /* bytes */

const char client_scopes[] =
    "people:read people:write places:read places:write credentials:write "
    "operators:write audit:read";

static bool sha256(const void *data, size_t len, unsigned char *out)
{
    return EVP_Digest(data, len, out, NULL, EVP_sha256(), NULL) == 1;
}

/* -- reading -- */

/* Reads "Basic base64(id:secret)", both form-encoded (RFC 6749 section 2.3.1).
 */
static bool read_basic(pj_arena_t *arena, pj_str_t base64,
                       struct client_proof *proof)
{
    unsigned char *text = pj_arena_alloc(arena, base64.len + 4);
    const unsigned char *colon;
    size_t len;

    if (text == NULL || pj_b64_decode(text, base64.len + 4, &len, base64)) {
        return false;
    }
    colon = memchr(text, ':', len);
    if (colon == NULL) {
        return false;
    }
    return form_decode(arena, (pj_str_t){text, (size_t) (colon - text)},
                       &proof->id) &&
           form_decode(arena,
                       (pj_str_t){colon + 1, (size_t) (text + len - colon - 1)},
                       &proof->secret);
}

const char *client_read(struct worker *w, const struct form *form,
                        struct client_proof *proof)
{
    static const char basic[] = "basic ";
    pj_str_t header = w->req->authorization, id = form_get(form, "client_id");
    pj_str_t secret = form_get(form, "client_secret");
    pj_str_t assertion = form_get(form, "client_assertion");
    pj_str_t type = form_get(form, "client_assertion_type");
    size_t len = sizeof(basic) - 1;

    *proof = (struct client_proof){
        .id = id, .secret = secret, .assertion = assertion};
    if ((header.len > 0) + (secret.len > 0) + (assertion.len > 0) > 1) {
        return "The client must authenticate in one way only.";
    }
    if ((type.len > 0) != (assertion.len > 0) ||
        (type.len > 0 && !pj_str_eq(type, PJ_STR(ASSERTION_TYPE)))) {
        return "The parameter client_assertion_type must be " ASSERTION_TYPE
               ", beside client_assertion.";
    }
    if (header.len > len &&
        strncasecmp((const char *) header.data, basic, len) == 0) {
        proof->basic = true;
        if (!read_basic(&w->arena,
                        (pj_str_t){header.data + len, header.len - len},
                        proof)) {
            return "The Authorization header is not valid Basic "
                   "authentication.";
        }
        if (id.len > 0 && !pj_str_eq(id, proof->id)) {
            return "The parameter client_id is of another client than the "
                   "Authorization header.";
        }
    }
    return NULL;
}

void client_token_url(const struct config *cfg, char *out, size_t cap)
{
    const char *issuer = cfg->jwt_issuer;
    size_t len = strlen(issuer);

    (void) snprintf(out, cap, "%.*s/api/auth/token",
                    (int) (len - (len > 0 && issuer[len - 1] == '/')), issuer);
}

/* -- assertions -- */

/* Reads what finds the client and its key.  The subject is the client if
 * client_id is absent.  jwk_begin stays NULL if the assertion is not
 * well-formed. */
static void read_assertion(pj_arena_t *arena, pj_str_t assertion, pj_jws_t *jws,
                           struct client_lookup *lookup)
{
    pj_jws_header_t header;
    pj_claims_t claims;

    if (pj_jws_split(assertion, TOKEN_MAX_BYTES, jws)) {
        return;
    }
    if (lookup->client_id.len == 0 && !pj_claims_decode(arena, jws, &claims)) {
        lookup->client_id = pj_json_string(claims.root, "sub");
    }
    if (!pj_jws_header(arena, jws, false, &header)) {
        lookup->jwk_begin = client_key_begin(jws);
        lookup->kid = header.kid;
    }
}

/* Checks the claims: RFC 7523 section 3.  iss and sub are the client. */
static bool check_claims(struct worker *w, pj_str_t client_id,
                         pj_claims_t *claims)
{
    const pj_names_t names = {.subject = "sub"};
    const pj_json_t *jti = pj_json_member(claims->root, "jti");
    char url[1024];
    pj_str_t audiences[] = {pj_str(w->cfg->jwt_issuer), {NULL, 0}};
    const pj_policy_t policy = {.issuers = &client_id,
                                .issuer_count = 1,
                                .audiences = audiences,
                                .audience_count = 2,
                                .now_s = w->now_s,
                                .leeway_s = TOKEN_LEEWAY_S};

    client_token_url(w->cfg, url, sizeof(url));
    audiences[1] = pj_str(url);
    return !pj_claims_read_foreign(claims, &names) &&
           !pj_claims_check(claims, &policy) &&
           pj_str_eq(claims->sub, client_id) && jti != NULL &&
           jti->type == PJ_JSON_STRING && jti->text.len > 0 &&
           jti->text.len <= JTI_MAX &&
           claims->exp <= w->now_s + CLIENT_ASSERTION_LIFE_S + TOKEN_LEEWAY_S;
}

/* Records the assertion as used.  The record is of the client's own jti. */
static enum client_verdict use(struct worker *w, struct client *client,
                               const pj_claims_t *claims)
{
    pj_str_t jti = pj_json_member(claims->root, "jti")->text;
    unsigned char hash[CLIENT_HASH_BYTES];
    char text[STORE_UUID + JTI_MAX];
    int len =
        snprintf(text, sizeof(text), "%s %.*s", client->account.account_id,
                 (int) jti.len, (const char *) jti.data);
    enum store_result result;

    if (!sha256(text, (size_t) len, hash)) {
        return CLIENT_UNAVAILABLE;
    }
    result = store_client_use_assertion(&w->store, &w->arena, hash,
                                        claims->exp + TOKEN_LEEWAY_S, client);
    return result == STORE_OK     ? CLIENT_OK
           : result == STORE_NONE ? CLIENT_WRONG
                                  : CLIENT_UNAVAILABLE;
}

/* -- checking -- */

/* Fills attempt.  A client is the same in capital letters. */
static bool identify(struct worker *w, pj_str_t id, struct attempt *attempt)
{
    unsigned char bytes[UUID_BYTES];
    char text[UUID_LEN + 1];

    if (uuid_parse(bytes, id)) {
        uuid_write(text, bytes);
        id = pj_str(text);
    }
    return auth_attempt_identify(w->keys, id, w->req->remote_addr, attempt);
}

/* Waits until the second of the client's last lockout is over, and returns
 * whether it was not.  A token of this second would count as one from before
 * the lockout; one dated a second later would outlive another lockout. */
static bool wait_out(const struct store_clock *clock)
{
    int64_t past_s = clock->now_us / 1000000 - clock->valid_after_us / 1000000;
    struct timespec t = {0, (999999 - clock->now_us % 1000000) * 1000};

    /* A lockout may be later than the statement that sees it. */
    if (clock->valid_after_us == 0 || past_s > 0 || past_s < -1) {
        return false;
    }
    nanosleep(&t, NULL);
    return true;
}

/* Verifies the assertion, if it was well-formed: by the same work whether the
 * client exists or not. */
static bool verify(struct worker *w, const struct client_lookup *lookup,
                   const struct attempt *attempt, const struct client *client,
                   const pj_jws_t *jws, pj_claims_t *claims)
{
    pj_str_t seed = {attempt->account_hmac, sizeof(attempt->account_hmac)};

    return lookup->jwk_begin != NULL &&
           client_key_verify(&w->arena, seed, client->key, jws) &&
           !pj_claims_decode(&w->arena, jws, claims) &&
           check_claims(w, lookup->client_id, claims);
}

enum client_verdict client_check(struct worker *w,
                                 const struct client_proof *proof,
                                 struct attempt *attempt, struct client *client)
{
    struct client_lookup lookup = {.client_id = proof->id};
    bool by_secret = proof->assertion.len == 0, ok;
    unsigned char hash[CLIENT_HASH_BYTES], *mem;
    enum store_result found;
    pj_claims_t claims;
    pj_jws_t jws;

    if (by_secret) {
        lookup.secret_sha256 = hash;
    } else {
        read_assertion(&w->arena, proof->assertion, &jws, &lookup);
    }
    if (!identify(w, lookup.client_id, attempt) ||
        !sha256(proof->secret.data, proof->secret.len, hash)) {
        return CLIENT_UNAVAILABLE;
    }
    mem = w->arena.pos;
    do {
        w->arena.pos = mem;
        found = store_client_find(&w->store, &w->arena, &lookup, attempt,
                                  w->cfg->max_failures, client);
        if (found != STORE_OK && found != STORE_NONE) {
            return CLIENT_UNAVAILABLE;
        }
        if (client->retry_after_s > 0) {
            return CLIENT_LIMITED;
        }
        ok = by_secret ? client->secret_matches
                       : verify(w, &lookup, attempt, client, &jws, &claims);
        if (found != STORE_OK || !ok || !client->account.enabled) {
            return CLIENT_WRONG;
        }
    } while (wait_out(&client->account.clock));
    return by_secret ? CLIENT_OK : use(w, client, &claims);
}

bool client_new_secret(char secret[CLIENT_SECRET_CHARS + 1],
                       unsigned char hash[CLIENT_HASH_BYTES])
{
    size_t prefix = sizeof(CLIENT_SECRET_PREFIX) - 1, len;
    unsigned char random[32];
    bool ok;

    memcpy(secret, CLIENT_SECRET_PREFIX, prefix);
    ok = RAND_priv_bytes(random, sizeof(random)) == 1 &&
         !pj_b64url_encode(secret + prefix, CLIENT_SECRET_CHARS + 1 - prefix,
                           &len, (pj_str_t){random, sizeof(random)});
    secret[CLIENT_SECRET_CHARS] = '\0';
    OPENSSL_cleanse(random, sizeof(random));
    return ok && sha256(secret, CLIENT_SECRET_CHARS, hash);
}
