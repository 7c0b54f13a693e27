/* POST /api/auth/select-branch */

#include "auth/app.h"
#include "auth/auth.h"
#include "auth/session.h"
#include "auth/token.h"
#include "base/metrics.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#define CHALLENGE_TOKEN AUTH_CHALLENGE_BEARER ", error=\"invalid_token\""

/* Whether there is a token, such as it is (RFC 6750 section 3.1). */
static bool is_bearer(pj_str_t authorization)
{
    static const char scheme[] = "Bearer";
    size_t len = sizeof(scheme) - 1;

    return authorization.len >= len &&
           strncasecmp((const char *) authorization.data, scheme, len) == 0 &&
           (authorization.len == len || authorization.data[len] == ' ');
}

/* The token comes before the body: who may not ask is told nothing else. */
static bool verify(struct worker *w, const struct http_request *req,
                   struct http_response *res, pj_claims_t *claims)
{
    pj_str_t token = http_bearer(req->authorization);

    if (token.len > 0 &&
        token_verify(w->cfg, w->keys, &w->arena, token, w->now_s,
                     TOKEN_CHECK_ALL, claims) == PJ_OK &&
        claims->kind == PJ_TOKEN_ACCOUNT) {
        return true;
    }
    auth_unauthorized(req, res, "AUTH_ACCOUNT_TOKEN_REQUIRED",
                      "A valid account access token is required.",
                      is_bearer(req->authorization) ? CHALLENGE_TOKEN
                                                    : AUTH_CHALLENGE_BEARER);
    return false;
}

static bool read_body(struct worker *w, const struct http_request *req,
                      struct http_response *res, pj_str_t *branch_id)
{
    const pj_json_t *root;

    return auth_body(w, req, res, false, &root) == AUTH_BODY_OBJECT &&
           auth_member(req, res, root, "branchId", branch_id);
}

static void refuse_not_selectable(const struct http_request *req,
                                  struct http_response *res)
{
    http_problem(res, req, 403, "AUTH_BRANCH_NOT_SELECTABLE",
                 "This branch cannot be selected.");
}

/* Reads the session as it stands, with the branch asked for. */
static bool check(struct worker *w, const struct http_request *req,
                  struct http_response *res, const pj_claims_t *claims,
                  pj_str_t branch_id, struct session_view *view)
{
    switch (store_session_read(&w->store, &w->arena, claims->session_id,
                               &branch_id, false, NULL, view)) {
    case STORE_OK:
        break;
    case STORE_NONE:
        view->session.active = false;
        break;
    default:
        auth_database_unavailable(req, res);
        return false;
    }
    switch (session_select(view, claims->account_id, w->now_s,
                           w->cfg->session_max_lifetime_s)) {
    case SESSION_SCOPED:
        return true;
    case SESSION_NOT_SELECTABLE:
        refuse_not_selectable(req, res);
        break;
    default:
        auth_unauthorized(
            req, res, "AUTH_SESSION_NOT_ACTIVE",
            "The session does not exist, has ended or was revoked.",
            CHALLENGE_TOKEN);
        break;
    }
    auth_names(res, view->session.account_id, view->session.session_id);
    return false;
}

/* The token names the scope that is about to be written. */
static bool answer(struct worker *w, const struct http_request *req,
                   struct http_response *res, const struct session_view *view)
{
    struct auth_answer a = {.code = "AUTH_SELECT_BRANCH_SUCCESS",
                            .message = "The branch was selected.",
                            .session = &view->session,
                            .scope = &view->scope};

    return auth_answer(w, req, res, &a);
}

void h_select_branch(struct worker *w, const struct http_request *req,
                     struct http_response *res)
{
    struct session_view view = {0};
    pj_claims_t claims;
    pj_str_t branch_id;
    enum store_result result;

    if (req->body_too_large) {
        http_problem(res, req, 413, "REQUEST_TOO_LARGE",
                     "The request body is over 16 KiB.");
        return;
    }
    if (!verify(w, req, res, &claims) || !read_body(w, req, res, &branch_id)) {
        return;
    }
    if (!check(w, req, res, &claims, branch_id, &view) ||
        !answer(w, req, res, &view)) {
        return;
    }
    result =
        store_session_select(&w->store, view.session.session_id, &view.scope);
    if (result == STORE_UNKNOWN || result == STORE_NONE) {
        /* Selecting the same twice is selecting it once; and the first may
         * have been held off by a clock that was set (db_param_fence()). */
        result = store_session_select(&w->store, view.session.session_id,
                                      &view.scope);
    }
    if (result == STORE_OK) {
        metrics_count(METRICS_BRANCHES_SELECTED);
        auth_audit(req, "auth.branch.selected", view.session.account_id,
                   view.session.session_id);
        return;
    }
    if (result != STORE_NONE) {
        auth_database_unavailable(req, res);
        return;
    }
    /* Between reading and writing the session was revoked, or bound to another
     * workspace.  Reading it again tells which. */
    if (check(w, req, res, &claims, branch_id, &view)) {
        auth_busy(req, res);
    }
}
