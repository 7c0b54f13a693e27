/* Issues and verifies the four kinds of token. */

#include "auth/token.h"

#include "auth/proof.h"
#include "base/jsonw.h"

#include <string.h>

/* Large enough for 200 branch ids, 32 roles of 32 bytes and the longest
 * issuer. */
#define PAYLOAD_MAX_BYTES 16384

static void add_strings(struct jsonw *w, const char *name,
                        const char *const *items, size_t count)
{
    jsonw_array(w, name);
    for (size_t i = 0; i < count; i++) {
        jsonw_cstr(w, NULL, items[i]);
    }
    jsonw_array_end(w);
}

static void add_scope(struct jsonw *w, const struct scope *scope)
{
    jsonw_cstr(w, "workspace_id", scope->workspace_id);
    jsonw_cstr(w, "tenant_id", scope->tenant_id);
    jsonw_cstr(w, "member_id", scope->member_id);
    jsonw_cstr(w, "active_branch_id", scope->active_branch_id);
    add_strings(w, "branch_ids", scope->branch_ids, scope->branch_id_count);
    add_strings(w, "roles", scope->roles, scope->role_count);
}

/* client_id is required by RFC 9068; this service is the client of sessions. */
static void add_client(struct jsonw *w, const struct config *cfg,
                       const struct token *t)
{
    if (t->client_scope != NULL) {
        jsonw_cstr(w, "client_id", t->session->account_id);
    } else if (cfg->jwt_typ == PJ_TYP_AT) {
        jsonw_cstr(w, "client_id", cfg->app_name);
    }
    if (t->client_scope != NULL && t->client_scope[0] != '\0') {
        jsonw_cstr(w, "scope", t->client_scope);
    }
}

/* OpenID Connect Core section 2, RFC 8176. */
static void add_authentication(struct jsonw *w, const struct session *s)
{
    static const char *const names[] = {"pwd", "otp",  "hwk",
                                        "swk", "user", "mfa"};

    jsonw_int(w, "auth_time", s->authenticated_at_s);
    jsonw_array(w, "amr");
    for (unsigned i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        if ((s->amr >> i & 1) != 0) {
            jsonw_cstr(w, NULL, names[i]);
        }
    }
    jsonw_array_end(w);
    jsonw_cstr(w, "acr", (s->amr & AMR_MFA) != 0 ? "aal2" : "aal1");
}

static void write_claims(struct buf *out, const struct config *cfg,
                         const struct token *t, const char *jti)
{
    const struct session *s = t->session;
    pj_str_t type = pj_token_type(t->kind), scope = pj_token_scope(t->kind);
    struct jsonw w;

    jsonw_init(&w, out);
    jsonw_object(&w, NULL);
    jsonw_cstr(&w, "iss", cfg->jwt_issuer);
    jsonw_cstr(&w, "sub", s->account_id);
    jsonw_int(&w, "iat", t->iat);
    jsonw_int(&w, "exp", t->exp);
    jsonw_cstr(&w, "jti", jti);
    jsonw_cstr(&w, "account_id", s->account_id);
    jsonw_cstr(&w, "session_id", s->session_id);
    jsonw_string(&w, "token_type", type.data, type.len);
    if (t->kind == PJ_TOKEN_REFRESH) {
        /* Only for identity; libraries that check the audience refuse it. */
        jsonw_cstr(&w, "aud", cfg->jwt_issuer);
    } else {
        if (cfg->jwt_audience != NULL) {
            jsonw_cstr(&w, "aud", cfg->jwt_audience);
        }
        add_client(&w, cfg, t);
        jsonw_cstr(&w, "account_type", s->account_type);
        jsonw_cstr(&w, "typ", "access");
        jsonw_string(&w, "token_scope", scope.data, scope.len);
    }
    if (t->kind == PJ_TOKEN_ACCOUNT || t->kind == PJ_TOKEN_BRANCH) {
        add_authentication(&w, s);
    }
    if (t->kind == PJ_TOKEN_BRANCH) {
        add_scope(&w, t->scope);
    }
    if (t->jkt != NULL && t->jkt[0] != '\0') {
        jsonw_object(&w, "cnf");
        jsonw_cstr(&w, "jkt", t->jkt);
        jsonw_object_end(&w);
    }
    jsonw_object_end(&w);
}

bool token_issue(const struct config *cfg, const pj_key_t *key,
                 const struct token *t, struct buf *out)
{
    char mem[PAYLOAD_MAX_BYTES], new_jti[UUID_LEN + 1];
    struct buf payload;
    size_t len;

    if (key == NULL || (t->jti == NULL && !uuid_generate(new_jti))) {
        return false;
    }
    buf_init(&payload, mem, sizeof(mem));
    write_claims(&payload, cfg, t, t->jti != NULL ? t->jti : new_jti);
    if (payload.overflow ||
        pj_jws_sign(key,
                    t->kind == PJ_TOKEN_REFRESH ? PJ_TYP_REFRESH : cfg->jwt_typ,
                    (pj_str_t){(const unsigned char *) mem, payload.len},
                    out->data + out->len, out->cap - out->len, &len)) {
        return false;
    }
    out->len += len;
    return true;
}

/* Checks issuer and times of a token with a valid signature. */
static pj_err_t check_claims(const struct config *cfg,
                             const pj_claims_t *claims, int64_t now_s,
                             enum token_check check)
{
    unsigned char jkt[PJ_SHA256_BYTES];
    pj_str_t issuer = pj_str(cfg->jwt_issuer);
    pj_policy_t policy = {.issuers = &issuer,
                          .issuer_count = 1,
                          .now_s = now_s,
                          .leeway_s = TOKEN_LEEWAY_S,
                          .allow_confirmation = (cfg->dpop != DPOP_OFF ||
                                                 check == TOKEN_CHECK_LOGOUT) &&
                                                pj_claims_jkt(claims, jkt)};
    pj_err_t err;

    /* Refresh tokens of release 0.2 and earlier lack an audience. */
    if (claims->kind == PJ_TOKEN_REFRESH &&
        pj_json_member(claims->root, "aud") != NULL) {
        policy.audiences = &issuer;
        policy.audience_count = 1;
    }

    /* The leeway is for the clock of the issuing process; the expiry of a
     * refresh token has none. */
    err = pj_claims_check(claims, &policy);
    if (!err && claims->kind == PJ_TOKEN_REFRESH && now_s >= claims->exp) {
        err = PJ_ERR_TOKEN_EXPIRED;
    }
    /* Times are checked last, so everything else is valid. */
    if (check == TOKEN_CHECK_LOGOUT &&
        (err == PJ_ERR_TOKEN_EXPIRED || err == PJ_ERR_TOKEN_NOT_YET)) {
        err = PJ_OK;
    }
    if (!err && check == TOKEN_CHECK_ALL && cfg->dpop == DPOP_REQUIRE &&
        claims->kind != PJ_TOKEN_SYSTEM && !proof_is_bound(claims)) {
        err = PJ_ERR_PROOF;
    }
    return err;
}

pj_err_t token_verify(const struct config *cfg, const struct keys *keys,
                      const pj_key_t *signer, pj_arena_t *arena, pj_str_t token,
                      int64_t now_s, enum token_check check,
                      pj_claims_t *claims)
{
    const pj_key_t *key = NULL;
    pj_jws_header_t header;
    pj_jws_t jws;
    pj_err_t err = pj_jws_split(token, TOKEN_MAX_BYTES, &jws);

    if (!err) {
        err = pj_jws_header(arena, &jws, true, &header);
    }
    if (!err) {
        key = keys_find(keys, header.kid);
        err = key == NULL ? PJ_ERR_KID_UNKNOWN
              : key == keys->verifying[0] && signer != NULL
                  ? pj_jws_verify(&jws, signer)
                  : pj_jws_verify(&jws, key);
    }
    if (!err) {
        err = pj_claims_parse(arena, &jws, claims);
    }
    /* Access tokens have expired by the time their key leaves the key set. */
    if (!err && claims->kind != PJ_TOKEN_REFRESH &&
        !keys_is_published(keys, key)) {
        err = PJ_ERR_KID_UNKNOWN;
    }
    /* Only refresh tokens have this typ. */
    if (!err && header.refresh && claims->kind != PJ_TOKEN_REFRESH) {
        err = PJ_ERR_TOKEN_TYP;
    }
    return err ? err : check_claims(cfg, claims, now_s, check);
}
