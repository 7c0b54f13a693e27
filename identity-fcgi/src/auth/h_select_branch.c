/* POST /api/auth/select-branch */

#include "auth/app.h"
#include "auth/session.h"
#include "auth/token.h"
#include "base/metrics.h"

/* A token in Authorization would help (RFC 6750 section 3.1). */
static bool refuse_token(struct worker *w, const char *code,
                         const char *detail)
{
    http_problem(w->res, w->req, 401, code, detail);
    http_header(w->res, "WWW-Authenticate",
                http_bearer(w->req->authorization).data != NULL
                    ? "Bearer realm=\"platform\", error=\"invalid_token\""
                    : "Bearer realm=\"platform\"");
    return false;
}

/* The token comes before the body: a caller without one learns nothing about
 * its body. */
static bool verify(struct worker *w, pj_claims_t *claims)
{
    pj_str_t token = http_bearer(w->req->authorization);

    return (token.len > 0 &&
            token_verify(w->cfg, w->keys, &w->arena, token, w->now_s,
                         TOKEN_CHECK_ALL, claims) == PJ_OK &&
            claims->kind == PJ_TOKEN_ACCOUNT) ||
           refuse_token(w, "AUTH_ACCOUNT_TOKEN_REQUIRED",
                        "A valid account access token is required.");
}

/* Reads the session as it stands, with the branch asked for. */
static bool check(struct worker *w, const pj_claims_t *claims,
                  pj_str_t branch_id, struct session_view *view)
{
    enum store_result result =
        store_session_read(&w->store, &w->arena, claims->session_id,
                           &branch_id, false, NULL, view);
    enum session_verdict verdict;

    if (result != STORE_OK && result != STORE_NONE) {
        return auth_database_unavailable(w);
    }
    view->session.active &= result == STORE_OK;
    verdict = session_decide(view, claims->account_id, NULL, w->now_s,
                             w->cfg->session_max_lifetime_s);
    if (verdict == SESSION_SCOPED) {
        return true;
    }
    auth_names(w, view->session.account_id, view->session.session_id);
    return verdict == SESSION_NOT_SELECTABLE
               ? auth_refuse(w, 403, "AUTH_BRANCH_NOT_SELECTABLE",
                             "This branch cannot be selected.")
               : refuse_token(w, AUTH_NOT_ACTIVE);
}

void h_select_branch(struct worker *w)
{
    struct session_view view;
    /* The token names the scope that is about to be written. */
    struct auth_answer answer = {.code = "AUTH_SELECT_BRANCH_SUCCESS",
                                 .message = "The branch was selected.",
                                 .view = &view,
                                 .scoped = true};
    const char *session_id = view.session.session_id;
    pj_claims_t claims;
    const pj_json_t *root;
    pj_str_t branch_id;
    enum store_result result;

    if (!verify(w, &claims) || !auth_body(w, false, &root) ||
        !auth_member(w, root, "branchId", &branch_id) ||
        !check(w, &claims, branch_id, &view) || !auth_answer(w, &answer)) {
        return;
    }
    result = store_session_select(&w->store, session_id, &view.scope);
    if (result == STORE_UNKNOWN || result == STORE_NONE) {
        /* Selecting the same branch twice is harmless, and the first try may
         * have been held back by a clock that was set (db_param_fence()). */
        result = store_session_select(&w->store, session_id, &view.scope);
    }
    if (result == STORE_OK) {
        metrics_count(METRICS_BRANCHES_SELECTED);
        auth_audit(w, "auth.branch.selected", view.session.account_id,
                   session_id);
    } else if (result != STORE_NONE) {
        (void) auth_database_unavailable(w);
    } else if (check(w, &claims, branch_id, &view)) {
        /* Between reading and writing the session was revoked, or bound to
         * another workspace. */
        (void) auth_busy(w);
    }
}
