/* GET /api/auth/sessions, DELETE /api/auth/sessions/{id}, POST
 * /api/auth/logout, logout-others, logout-all: the caller's sessions. */

#include "auth/handlers.h"

#include "auth/body.h"
#include "auth/proof.h"
#include "auth/session.h"
#include "auth/token.h"
#include "store/store.h"

#include <string.h>

/* Reads the caller's session, which must be alive. */
static bool find_caller(struct worker *w, pj_claims_t *claims,
                        struct session_view *view)
{
    return auth_caller(w, AUTH_CALLER_ANY, claims) &&
           auth_caller_session(w, claims, NULL, view);
}

/* -- the list -- */

void h_sessions(struct worker *w)
{
    int64_t lifetime_s = w->cfg->session_max_lifetime_s;
    struct session_view view;
    const struct session *caller = &view.session;
    struct store_list list;
    pj_claims_t claims;
    struct jsonw json;

    if (!find_caller(w, &claims, &view) ||
        !auth_answered(w, store_sessions_list(
                              &w->store, &w->arena, caller, w->now_s,
                              lifetime_s > 0 ? w->now_s - lifetime_s : 0,
                              session_expiry(claims.iat, w->cfg->refresh_ttl_s,
                                             caller->created_at_s, lifetime_s),
                              &list))) {
        return;
    }
    auth_success(w, &json, "AUTH_SESSIONS_SUCCESS",
                 "These are the account's sessions.");
    auth_list(&json, "sessions", &list);
    jsonw_bool(&json, "more", list.more);
    jsonw_object_end(&json);
}

/* -- ending one -- */

/* Reads the session id, which must be alive and of the caller's account.  Other
 * sessions are reported as not found. */
static bool find_own(struct worker *w, const struct session *caller,
                     pj_str_t id, struct session_view *view)
{
    pj_str_t account_id = pj_str(caller->account_id);
    enum store_result result =
        store_session_read(&w->store, &w->arena, id, NULL, false, NULL, view);

    if (!auth_answered(w, result)) {
        return false;
    }
    view->session.active &= result == STORE_OK;
    return session_decide(view, account_id, NULL, w->now_s,
                          w->cfg->session_max_lifetime_s) !=
               SESSION_NOT_ACTIVE ||
           auth_refuse(w, 404, "RESOURCE_NOT_FOUND",
                       "The account has no such session.");
}

void h_sessions_end(struct worker *w)
{
    struct session_view view, ended;
    const struct session *caller = &view.session;
    struct session_refs done;
    pj_claims_t claims;
    struct jsonw json;

    if (!find_caller(w, &claims, &view) ||
        !find_own(w, caller, w->path_ids[0], &ended)) {
        return;
    }
    auth_actor(w, caller->account_id, &claims.jti, NULL, "auth.session.ended");
    if (!auth_answered(
            w, store_session_revoke(&w->store, &w->path_ids[0], 1, &done))) {
        return;
    }
    auth_record_revoked(w, &done, METRICS_SESSIONS_REVOKED_OWNER,
                        "auth.session.ended");
    auth_success(w, &json, "AUTH_END_SESSION_SUCCESS",
                 "The session was ended.");
    jsonw_object_end(&json);
    if (strcmp(ended.session.session_id, caller->session_id) == 0) {
        http_cookie_clear(w->res, w->cfg);
    }
}

/* -- ending the others, or all -- */

static void end(struct worker *w, bool all, const char *code)
{
    struct session_view view;
    const struct session *caller = &view.session;
    enum store_result result;
    int64_t ended = 0;
    pj_claims_t claims;
    struct jsonw json;

    if (!find_caller(w, &claims, &view)) {
        return;
    }
    auth_actor(w, caller->account_id, &claims.jti, NULL, NULL);
    result = store_sessions_end(&w->store, caller->account_id,
                                caller->session_id, &ended);
    if (result == STORE_OK && all) {
        result =
            store_sessions_end(&w->store, caller->account_id, NULL, &ended);
    }
    metrics_add(METRICS_SESSIONS_REVOKED_OWNER, (uint64_t) ended);
    if (result == STORE_OK || ended > 0) {
        auth_audit_sessions(w, all ? "auth.logout.all" : "auth.logout.others",
                            caller, ended);
    }
    if (result == STORE_NONE && !auth_caller_session(w, &claims, NULL, &view)) {
        return; /* ended concurrently by the same call in another session */
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

void h_sessions_logout_others(struct worker *w)
{
    end(w, false, "AUTH_LOGOUT_OTHERS_SUCCESS");
}

void h_sessions_logout_all(struct worker *w)
{
    end(w, true, "AUTH_LOGOUT_ALL_SUCCESS");
}

/* -- logout: ending the sessions of the request's tokens -- */

/* The distinct sessions of the request's tokens. */
struct named {
    pj_str_t ids[STORE_MAX_REVOKE];
    size_t count;
    pj_str_t account_id; /* of the last session */
    bool has_token;      /* the request has a token, valid or not */
    bool in_cookie;      /* the tokens that follow are in cookies */
    /* Of a cookie that was passed over; without a root there was none. */
    pj_claims_t foreign;
};

/* Returns true if the token is bound to another key than the request proves. */
static bool is_foreign(const struct worker *w, const pj_claims_t *claims)
{
    const pj_json_t *cnf = pj_json_member(claims->root, "cnf");

    return !pj_str_eq(pj_json_string(cnf, "jkt"), pj_str(w->jkt));
}

static void add_session(struct named *named, const pj_claims_t *claims)
{
    for (size_t i = 0; i < named->count; i++) {
        if (pj_str_eq(named->ids[i], claims->session_id)) {
            return;
        }
    }
    named->ids[named->count++] = claims->session_id;
    named->account_id = claims->account_id;
}

/* Adds the session of a token with a valid signature and issuer, even if the
 * token is expired, replaced or issued by a clock ahead of ours.  Ignores other
 * tokens.  False with a refusal for a bound token without its proof, because a
 * thief must not end the session.
 *
 * A cookie that is bound to another key is passed over: it is of an earlier
 * login, or somebody has planted it, and must not keep the client's own session
 * from ending. */
static bool name_session(struct worker *w, pj_str_t token, bool refresh,
                         struct named *named)
{
    pj_claims_t claims;

    named->has_token |= token.len > 0;
    if (token.len == 0 || named->count == STORE_MAX_REVOKE ||
        token_verify(w->cfg, w->keys, w->signer, &w->arena, token, w->now_s,
                     TOKEN_CHECK_LOGOUT, &claims) != PJ_OK ||
        (claims.kind == PJ_TOKEN_REFRESH) != refresh) {
        return true;
    }
    if (named->in_cookie && proof_is_bound(&claims)) {
        if (!auth_proof_read(w)) {
            return false;
        }
        if (is_foreign(w, &claims)) {
            named->foreign = claims;
            return true;
        }
    } else if (!auth_proof_demand(w, &claims,
                                  refresh ? (pj_str_t){NULL, 0} : token)) {
        return false;
    }
    add_session(named, &claims);
    return true;
}

/* Refuses a request that names no session, but one of another key: a success
 * would suggest that the session has ended. */
static bool names_own(struct worker *w, const struct named *named)
{
    return named->count > 0 || named->foreign.root == NULL ||
           auth_proof_demand(w, &named->foreign, (pj_str_t){NULL, 0});
}

static bool revoke(struct worker *w, const struct named *named)
{
    struct session_refs done = {.count = 0};

    if (named->count > 0 &&
        (!auth_enter(w, named->account_id) ||
         !auth_answered(w, store_session_revoke(&w->store, named->ids,
                                                named->count, &done)))) {
        return false;
    }
    auth_record_revoked(w, &done, METRICS_SESSIONS_REVOKED_LOGOUT,
                        "auth.logout");
    if (done.count > 0) { /* log the last one */
        auth_set_ids(w, done.items[done.count - 1].account_id,
                     done.items[done.count - 1].session_id);
    }
    return true;
}

/* A browser may withhold the cookie from a page of another site; the message
 * must not suggest to the page that a session has ended. */
static void answer(struct worker *w, bool has_token)
{
    struct jsonw json;

    auth_success(w, &json, "AUTH_LOGOUT_SUCCESS",
                 has_token
                     ? "Logout succeeded."
                     : "No session was ended: the request has no token, and "
                       "no cookie of an allowed origin.");
    jsonw_object_end(&json);
}

void h_sessions_logout(struct worker *w)
{
    struct named named = {.count = 0, .has_token = false};
    struct body root;
    pj_str_t token = {NULL, 0}, rest = w->req->cookie;
    bool own_page = http_origin_allowed(w->cfg, w->req), dpop;

    if (!body_read(w, true, &root)) {
        return;
    }
    body_string(&root, "refreshToken", BODY_NULLABLE, 0, 0, &token);
    if (!auth_faultless(w) ||
        !name_session(w, http_token(w->req->authorization, &dpop), false,
                      &named) ||
        !name_session(w, token, true, &named)) {
        return;
    }
    /* A cookie sent by a page of another site does not express the user's
     * intent.  It is neither used nor cleared. */
    named.in_cookie = true;
    while (own_page && http_cookie_next(&rest, w->cfg->cookie_name, &token)) {
        if (!name_session(w, token, true, &named)) {
            return;
        }
    }
    if (names_own(w, &named) && revoke(w, &named)) {
        answer(w, named.has_token);
        if (own_page) {
            http_cookie_clear(w->res, w->cfg);
        }
    }
}
