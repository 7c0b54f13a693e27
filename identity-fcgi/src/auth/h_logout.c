/* POST /api/auth/logout */

#include "auth/app.h"
#include "auth/auth.h"
#include "auth/token.h"
#include "base/jsonw.h"
#include "base/metrics.h"

#include <string.h>

/* The distinct sessions that the request's tokens name. */
struct named {
    pj_str_t ids[STORE_MAX_REVOKE];
    size_t count;
};

/*
 * Notes the session of a token with a valid signature and issuer: one that is
 * expired, rotated out or of a clock ahead of ours still names its session.
 * Anything else is ignored.
 */
static void name_session(struct worker *w, pj_str_t token, bool refresh,
                         struct named *named)
{
    pj_claims_t claims;

    if (token.len == 0 || named->count == STORE_MAX_REVOKE ||
        token_verify(w->cfg, w->keys, &w->arena, token, w->now_s,
                     TOKEN_CHECK_NOT_TIMES, &claims) != PJ_OK ||
        (claims.kind == PJ_TOKEN_REFRESH) != refresh) {
        return;
    }
    for (size_t i = 0; i < named->count; i++) {
        if (named->ids[i].len == claims.session_id.len &&
            memcmp(named->ids[i].data, claims.session_id.data,
                   claims.session_id.len) == 0) {
            return;
        }
    }
    named->ids[named->count++] = claims.session_id;
}

static bool read_body(struct worker *w, const struct http_request *req,
                      struct http_response *res, pj_str_t *token)
{
    const pj_json_t *root;

    *token = (pj_str_t){NULL, 0};
    switch (auth_body(w, req, res, true, &root)) {
    case AUTH_BODY_EMPTY:
        return true;
    case AUTH_BODY_REFUSED:
        return false;
    default:
        return auth_member_refresh_token(req, res, root, token);
    }
}

/* False, with res the answer, when the database did not answer. */
static bool revoke(struct worker *w, const struct http_request *req,
                   struct http_response *res, const struct named *named)
{
    struct session_ref done[STORE_MAX_REVOKE];
    size_t n = 0;
    enum store_result result;

    if (named->count == 0) {
        return true;
    }
    result =
        store_session_revoke(&w->store, named->ids, named->count, done, &n);
    if (result != STORE_OK && result != STORE_NONE) {
        auth_database_unavailable(req, res);
        return false;
    }
    metrics_add(METRICS_SESSIONS_REVOKED_LOGOUT, n);
    for (size_t i = 0; i < n; i++) {
        auth_names(res, done[i].account_id, done[i].session_id);
        auth_audit(req, "auth.logout", done[i].account_id, done[i].session_id);
    }
    return true;
}

static void answer(struct http_response *res)
{
    struct jsonw json;

    jsonw_init(&json, &res->body);
    jsonw_object(&json, NULL);
    jsonw_cstr(&json, "code", "AUTH_LOGOUT_SUCCESS");
    jsonw_cstr(&json, "message", "Logout succeeded.");
    jsonw_object_end(&json);

    res->status = 200;
    res->code = "AUTH_LOGOUT_SUCCESS";
    http_header(res, "Content-Type", "application/json");
    http_header(res, "Cache-Control", "no-store");
}

void h_logout(struct worker *w, const struct http_request *req,
              struct http_response *res)
{
    struct named named = {.count = 0};
    pj_str_t token, cookie;
    pj_str_t rest = req->cookie;
    bool own_page = http_origin_allowed(w->cfg, req);

    if (!read_body(w, req, res, &token)) {
        return;
    }
    name_session(w, http_bearer(req->authorization), false, &named);
    name_session(w, token, true, &named);
    /* A cookie that another site's page made the browser send is nobody's
     * wish, and neither is that it be cleared; the other tokens are. */
    while (own_page && http_cookie_next(&rest, w->cfg->cookie_name, &cookie)) {
        name_session(w, cookie, true, &named);
    }
    if (!revoke(w, req, res, &named)) {
        return;
    }
    answer(res);
    if (own_page) {
        http_cookie_clear(res, w->cfg);
    }
}
