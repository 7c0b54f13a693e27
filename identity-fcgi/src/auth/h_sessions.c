/* GET /api/auth/sessions, DELETE /api/auth/sessions/{id}, POST
 * /api/auth/logout-others and /api/auth/logout-all: sessions of one's own. */

#include "auth/app.h"
#include "auth/session.h"
#include "base/log.h"
#include "base/metrics.h"

#include <string.h>

/* The caller's session, which has to be alive. */
static bool find_caller(struct worker *w, pj_claims_t *claims,
                        struct session_view *view)
{
    return auth_caller(w, AUTH_CALLER_ANY, claims) &&
           auth_caller_session(w, claims, NULL, view);
}

/* -- the list -- */

static void add_text(struct jsonw *json, const char *name, const char *text)
{
    if (text[0] != '\0') {
        jsonw_cstr(json, name, text);
    } else {
        jsonw_null(json, name);
    }
}

static void add_session(struct jsonw *json, const struct own_session *s,
                        bool current)
{
    jsonw_object(json, NULL);
    jsonw_cstr(json, "sessionId", s->session_id);
    jsonw_bool(json, "current", current);
    jsonw_cstr(json, "createdAt", s->created_at);
    jsonw_cstr(json, "usedAt", s->used_at);
    jsonw_cstr(json, "expiresAt", s->expires_at);
    add_text(json, "address", s->address);
    add_text(json, "agent", s->agent);
    add_text(json, "workspaceId", s->branch.workspace_id);
    add_text(json, "workspaceName", s->branch.workspace_name);
    add_text(json, "branchId", s->branch.branch_id);
    add_text(json, "branchName", s->branch.branch_name);
    jsonw_object_end(json);
}

void h_sessions(struct worker *w)
{
    int64_t lifetime_s = w->cfg->session_max_lifetime_s;
    struct session_view view;
    const struct session *own = &view.session;
    struct own_sessions list;
    pj_claims_t claims;
    struct jsonw json;

    if (!find_caller(w, &claims, &view)) {
        return;
    }
    if (store_sessions_own(&w->store, &w->arena, own, w->now_s,
                           lifetime_s > 0 ? w->now_s - lifetime_s : 0,
                           session_expiry(claims.iat, w->cfg->refresh_ttl_s,
                                          own->created_at_s, lifetime_s),
                           &list) != STORE_OK) {
        (void) auth_database_unavailable(w);
        return;
    }
    auth_success(w, &json, "AUTH_SESSIONS_SUCCESS",
                 "These are the account's sessions.");
    jsonw_array(&json, "sessions");
    for (size_t i = 0; i < list.count; i++) {
        add_session(&json, &list.items[i],
                    strcmp(list.items[i].session_id, own->session_id) == 0);
    }
    jsonw_array_end(&json);
    jsonw_bool(&json, "more", list.more);
    jsonw_object_end(&json);
}

/* -- ending one -- */

/* Whether it is the caller's own, and alive: all others are not there. */
static bool find_own(struct worker *w, const struct session *own, pj_str_t id,
                     struct session_view *view)
{
    pj_str_t account_id = {(const unsigned char *) own->account_id,
                           strlen(own->account_id)};
    enum store_result result =
        store_session_read(&w->store, &w->arena, id, NULL, false, NULL, view);

    if (result != STORE_OK && result != STORE_NONE) {
        return auth_database_unavailable(w);
    }
    view->session.active &= result == STORE_OK;
    return session_decide(view, account_id, NULL, w->now_s,
                          w->cfg->session_max_lifetime_s) !=
               SESSION_NOT_ACTIVE ||
           auth_refuse(w, 404, "RESOURCE_NOT_FOUND",
                       "The account has no such session.");
}

void h_session_end(struct worker *w)
{
    struct session_view view, ended;
    const struct session *own = &view.session;
    struct session_ref done;
    enum store_result result;
    pj_claims_t claims;
    struct jsonw json;
    size_t n;

    if (!find_caller(w, &claims, &view) ||
        !find_own(w, own, w->path_id, &ended)) {
        return;
    }
    result = store_session_revoke(&w->store, &w->path_id, 1, &done, &n);
    if (result != STORE_OK && result != STORE_NONE) {
        (void) auth_database_unavailable(w);
        return;
    }
    metrics_add(METRICS_SESSIONS_REVOKED_OWNER, n);
    if (n > 0) {
        auth_audit(w, "auth.session.ended", done.account_id, done.session_id);
    }
    auth_success(w, &json, "AUTH_END_SESSION_SUCCESS",
                 "The session was ended.");
    jsonw_object_end(&json);
    if (strcmp(ended.session.session_id, own->session_id) == 0) {
        http_cookie_clear(w->res, w->cfg);
    }
}

/* -- ending the others, or all -- */

void auth_audit_sessions(struct worker *w, const char *event,
                         const struct session *own, int64_t ended)
{
    log_event(LOG_AUDIT_, event, NULL,
              LOG_FIELDS(LOG_NUMBER("revokedSessions", ended),
                         log_text("clientIp", w->req->remote_addr.data),
                         log_text("accountId", own->account_id),
                         log_text("sessionId", own->session_id)));
}

static void end(struct worker *w, bool all, const char *code)
{
    struct session_view view;
    const struct session *own = &view.session;
    enum store_result result;
    int64_t ended = 0;
    pj_claims_t claims;
    struct jsonw json;

    if (!find_caller(w, &claims, &view)) {
        return;
    }
    result = store_sessions_end(&w->store, own->account_id,
                                all ? NULL : own->session_id, &ended);
    metrics_add(METRICS_SESSIONS_REVOKED_OWNER, (uint64_t) ended);
    if (result == STORE_OK || ended > 0) {
        auth_audit_sessions(w, all ? "auth.logout.all" : "auth.logout.others",
                            own, ended);
    }
    if (result != STORE_OK) {
        (void) auth_database_unavailable(w);
        return;
    }
    auth_success(w, &json, code, "The sessions were ended.");
    jsonw_int(&json, "endedSessions", ended);
    jsonw_object_end(&json);
    if (all) {
        http_cookie_clear(w->res, w->cfg);
    }
}

void h_logout_others(struct worker *w)
{
    end(w, false, "AUTH_LOGOUT_OTHERS_SUCCESS");
}

void h_logout_all(struct worker *w)
{
    end(w, true, "AUTH_LOGOUT_ALL_SUCCESS");
}
