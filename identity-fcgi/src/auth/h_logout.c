/* POST /api/auth/logout */

#include "auth/app.h"
#include "auth/token.h"
#include "base/metrics.h"

#include <string.h>

/* The distinct sessions that the request's tokens name. */
struct named {
    pj_str_t ids[STORE_MAX_REVOKE];
    size_t count;
    bool asked; /* a token came, good or not */
};

/*
 * Notes the session of a token with a valid signature and issuer, even if it
 * is expired, rotated out or issued by a clock ahead of ours.  Other tokens
 * are ignored.
 */
static void name_session(struct worker *w, pj_str_t token, bool refresh,
                         struct named *named)
{
    pj_claims_t claims;

    named->asked |= token.len > 0;
    if (token.len == 0 || named->count == STORE_MAX_REVOKE ||
        token_verify(w->cfg, w->keys, w->signer, &w->arena, token, w->now_s,
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

static bool revoke(struct worker *w, const struct named *named)
{
    struct session_ref done[STORE_MAX_REVOKE];
    enum store_result result;
    size_t n = 0;

    if (named->count == 0) {
        return true;
    }
    result =
        store_session_revoke(&w->store, named->ids, named->count, done, &n);
    if (result != STORE_OK && result != STORE_NONE) {
        return auth_database_unavailable(w);
    }
    metrics_add(METRICS_SESSIONS_REVOKED_LOGOUT, n);
    for (size_t i = 0; i < n; i++) {
        auth_names(w, done[i].account_id, done[i].session_id);
        auth_audit(w, "auth.logout", done[i].account_id, done[i].session_id);
    }
    return true;
}

/* A browser that withholds the cookie, as it does from a page of another site,
 * must not make its page believe that a session has ended. */
static void answer(struct worker *w, bool asked)
{
    struct jsonw json;

    auth_success(w, &json, "AUTH_LOGOUT_SUCCESS",
                 asked ? "Logout succeeded."
                       : "No session was ended: the request has no token, and "
                         "no cookie of an allowed origin.");
    jsonw_object_end(&json);
}

void h_logout(struct worker *w)
{
    struct named named = {.count = 0, .asked = false};
    const pj_json_t *root;
    pj_str_t token, rest = w->req->cookie;
    bool own_page = http_origin_allowed(w->cfg, w->req);

    if (!auth_body(w, true, &root) ||
        !auth_member_refresh_token(w, root, &token)) {
        return;
    }
    name_session(w, http_bearer(w->req->authorization), false, &named);
    name_session(w, token, true, &named);
    /* A cookie sent on behalf of another site's page does not express the
     * user's wish: it is neither used nor cleared.  The other tokens are
     * used. */
    while (own_page && http_cookie_next(&rest, w->cfg->cookie_name, &token)) {
        name_session(w, token, true, &named);
    }
    if (revoke(w, &named)) {
        answer(w, named.asked);
        if (own_page) {
            http_cookie_clear(w->res, w->cfg);
        }
    }
}
