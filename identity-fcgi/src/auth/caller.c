/* Who asks: the access token of a request, and its session. */

#include "auth/app.h"
#include "auth/session.h"
#include "auth/token.h"

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

bool auth_caller(struct worker *w, enum auth_caller who, pj_claims_t *claims)
{
    pj_str_t token = http_bearer(w->req->authorization);

    if (token.len > 0 &&
        token_verify(w->cfg, w->keys, w->signer, &w->arena, token, w->now_s,
                     TOKEN_CHECK_ALL, claims) == PJ_OK &&
        (claims->kind == PJ_TOKEN_ACCOUNT ||
         (who == AUTH_CALLER_ANY && claims->kind == PJ_TOKEN_BRANCH))) {
        return true;
    }
    return who == AUTH_CALLER_ANY
               ? refuse_token(w, "AUTH_ACCESS_TOKEN_REQUIRED",
                              "A valid access token is required.")
               : refuse_token(w, "AUTH_ACCOUNT_TOKEN_REQUIRED",
                              "A valid account access token is required.");
}

bool auth_caller_session(struct worker *w, const pj_claims_t *claims,
                         const pj_str_t *branch_id, struct session_view *view)
{
    enum store_result result =
        store_session_read(&w->store, &w->arena, claims->session_id, branch_id,
                           false, NULL, view);
    enum session_verdict verdict;

    if (result != STORE_OK && result != STORE_NONE) {
        return auth_database_unavailable(w);
    }
    view->session.active &= result == STORE_OK;
    verdict = session_decide(view, claims->account_id, NULL, w->now_s,
                             w->cfg->session_max_lifetime_s);
    auth_names(w, view->session.account_id, view->session.session_id);
    return verdict == SESSION_SCOPED || verdict == SESSION_NOT_SELECTABLE ||
           refuse_token(w, AUTH_NOT_ACTIVE);
}
