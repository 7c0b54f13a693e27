/* Issues and verifies the four kinds of token. */

#include "auth/token.h"

#include "base/jsonw.h"

#include <string.h>

/* 200 branch ids, 32 roles of 32 bytes and the longest issuer leave room. */
#define PAYLOAD_MAX_BYTES 16384

static pj_str_t text_of(const char *s)
{
    return (pj_str_t){(const unsigned char *) s, strlen(s)};
}

/* The claims that every kind has. */
static void add_common(struct jsonw *w, const struct config *cfg,
                       const char *account_id, const char *session_id,
                       const char *jti, int64_t iat, int64_t exp)
{
    jsonw_object(w, NULL);
    jsonw_cstr(w, "iss", cfg->jwt_issuer);
    jsonw_cstr(w, "sub", account_id);
    jsonw_int(w, "iat", iat);
    jsonw_int(w, "exp", exp);
    jsonw_cstr(w, "jti", jti);
    jsonw_cstr(w, "account_id", account_id);
    jsonw_cstr(w, "session_id", session_id);
}

static void add_access(struct jsonw *w, const struct config *cfg,
                       const char *account_type, const char *token_type,
                       const char *token_scope)
{
    if (cfg->jwt_audience != NULL) {
        jsonw_cstr(w, "aud", cfg->jwt_audience);
    }
    jsonw_cstr(w, "account_type", account_type);
    jsonw_cstr(w, "typ", "access");
    jsonw_cstr(w, "token_type", token_type);
    jsonw_cstr(w, "token_scope", token_scope);
}

static void add_strings(struct jsonw *w, const char *name,
                        const char *const *items, size_t count)
{
    jsonw_array(w, name);
    for (size_t i = 0; i < count; i++) {
        jsonw_cstr(w, NULL, items[i]);
    }
    jsonw_array_end(w);
}

/* Ends the payload and appends its signed form to out. */
static bool sign(const pj_key_t *key, pj_typ_t typ, struct jsonw *w,
                 struct buf *out)
{
    pj_str_t payload;
    size_t len;

    jsonw_object_end(w);
    if (w->out->overflow || key == NULL) {
        return false;
    }
    payload.data = (const unsigned char *) w->out->data;
    payload.len = w->out->len;
    if (pj_jws_sign(key, typ, payload, out->data + out->len,
                    out->cap - out->len, &len)) {
        return false;
    }
    out->len += len;
    return true;
}

bool token_issue_refresh(const struct config *cfg, const pj_key_t *key,
                         const struct session *s, const char *jti, int64_t iat,
                         int64_t exp, struct buf *out)
{
    char mem[PAYLOAD_MAX_BYTES];
    struct buf payload;
    struct jsonw w;

    buf_init(&payload, mem, sizeof(mem));
    jsonw_init(&w, &payload);
    add_common(&w, cfg, s->account_id, s->session_id, jti, iat, exp);
    jsonw_cstr(&w, "token_type", "refresh");
    return sign(key, PJ_TYP_REFRESH, &w, out);
}

bool token_issue_account(const struct config *cfg, const pj_key_t *key,
                         const struct session *s, int64_t iat, int64_t exp,
                         struct buf *out)
{
    char mem[PAYLOAD_MAX_BYTES];
    char jti[UUID_LEN + 1];
    struct buf payload;
    struct jsonw w;

    if (!uuid_generate(jti)) {
        return false;
    }
    buf_init(&payload, mem, sizeof(mem));
    jsonw_init(&w, &payload);
    add_common(&w, cfg, s->account_id, s->session_id, jti, iat, exp);
    add_access(&w, cfg, s->account_type, "account", "ACCOUNT");
    return sign(key, PJ_TYP_JWT, &w, out);
}

bool token_issue_branch(const struct config *cfg, const pj_key_t *key,
                        const struct session *s, const struct scope *scope,
                        int64_t iat, int64_t exp, struct buf *out)
{
    char mem[PAYLOAD_MAX_BYTES];
    char jti[UUID_LEN + 1];
    struct buf payload;
    struct jsonw w;

    if (!uuid_generate(jti)) {
        return false;
    }
    buf_init(&payload, mem, sizeof(mem));
    jsonw_init(&w, &payload);
    add_common(&w, cfg, s->account_id, s->session_id, jti, iat, exp);
    add_access(&w, cfg, s->account_type, "workspace", "BRANCH");
    jsonw_cstr(&w, "workspace_id", scope->workspace_id);
    jsonw_cstr(&w, "tenant_id", scope->tenant_id);
    jsonw_cstr(&w, "member_id", scope->member_id);
    jsonw_cstr(&w, "active_branch_id", scope->active_branch_id);
    add_strings(&w, "branch_ids", scope->branch_ids, scope->branch_id_count);
    add_strings(&w, "roles", scope->roles, scope->role_count);
    return sign(key, PJ_TYP_JWT, &w, out);
}

bool token_issue_system(const struct config *cfg, const pj_key_t *key,
                        const char *account_id, const char *account_type,
                        int64_t iat, int64_t exp, struct buf *out)
{
    char mem[PAYLOAD_MAX_BYTES];
    char jti[UUID_LEN + 1], session_id[UUID_LEN + 1];
    struct buf payload;
    struct jsonw w;

    if (!uuid_generate(jti) || !uuid_generate(session_id)) {
        return false;
    }
    buf_init(&payload, mem, sizeof(mem));
    jsonw_init(&w, &payload);
    add_common(&w, cfg, account_id, session_id, jti, iat, exp);
    add_access(&w, cfg, account_type, "system", "SYSTEM");
    return sign(key, PJ_TYP_JWT, &w, out);
}

/* Issuer and times of a token whose signature holds. */
static pj_err_t check_claims(const struct config *cfg,
                             const pj_claims_t *claims, int64_t now_s,
                             enum token_check check)
{
    pj_str_t issuer = text_of(cfg->jwt_issuer);
    pj_policy_t policy = {.issuers = &issuer,
                          .issuer_count = 1,
                          .now_s = now_s,
                          .leeway_s = TOKEN_LEEWAY_S};
    pj_err_t err;

    /* The leeway forgives the clock of the process that issued the token; a
     * refresh token gets none at its end. */
    err = pj_claims_check(claims, &policy);
    if (!err && claims->kind == PJ_TOKEN_REFRESH && now_s >= claims->exp) {
        err = PJ_ERR_TOKEN_EXPIRED;
    }
    /* Times are checked last: nothing else is wrong with such a token. */
    if (check == TOKEN_CHECK_NOT_TIMES &&
        (err == PJ_ERR_TOKEN_EXPIRED || err == PJ_ERR_TOKEN_NOT_YET)) {
        err = PJ_OK;
    }
    return err;
}

/* Whether the header is, byte for byte, one that our own tokens have. */
static bool has_own_header(const struct keys *keys, const pj_jws_t *jws,
                           pj_typ_t typ)
{
    pj_str_t own;

    if (keys->signing == NULL) {
        return false;
    }
    own = pj_key_header(keys->signing, typ);
    return own.len == jws->header.len &&
           memcmp(own.data, jws->header.data, own.len) == 0;
}

/* The key that the header asks for; *refresh: no other token than a refresh
 * token has such a header. */
static pj_err_t find_key(const struct keys *keys, pj_arena_t *arena,
                         const pj_jws_t *jws, const pj_key_t **key,
                         bool *refresh)
{
    pj_jws_header_t header;
    pj_err_t err;

    *refresh = has_own_header(keys, jws, PJ_TYP_REFRESH);
    if (*refresh || has_own_header(keys, jws, PJ_TYP_JWT)) {
        *key = keys->verifying[0];
        return PJ_OK;
    }
    err = pj_jws_header(arena, jws, true, &header);
    if (err) {
        return err;
    }
    *refresh = header.refresh;
    *key = keys_find(keys, header.kid);
    return *key != NULL ? PJ_OK : PJ_ERR_KID_UNKNOWN;
}

pj_err_t token_verify(const struct config *cfg, const struct keys *keys,
                      pj_arena_t *arena, pj_str_t token, int64_t now_s,
                      enum token_check check, pj_claims_t *claims)
{
    const pj_key_t *key;
    pj_jws_t jws;
    pj_err_t err;
    bool refresh;

    err = pj_jws_split(token, TOKEN_MAX_BYTES, &jws);
    if (!err) {
        err = find_key(keys, arena, &jws, &key, &refresh);
    }
    if (!err) {
        err = pj_jws_verify(&jws, key);
    }
    if (!err) {
        err = pj_claims_parse(arena, &jws, claims);
    }
    if (!err && refresh && claims->kind != PJ_TOKEN_REFRESH) {
        err = PJ_ERR_TOKEN_TYP;
    }
    return err ? err : check_claims(cfg, claims, now_s, check);
}
