/* POST /api/auth/select-branch */

#include "auth/handlers.h"

#include "auth/body.h"
#include "store/store_session.h"

static bool read_body(struct worker *w, pj_str_t *branch_id)
{
    struct body root;

    if (!body_read(w, false, &root)) {
        return false;
    }
    body_string(&root, "branchId", BODY_REQUIRED, 0, 0, branch_id);
    return auth_faultless(w);
}

static bool check(struct worker *w, const pj_claims_t *claims,
                  pj_str_t branch_id, struct session_view *view)
{
    return auth_caller_session(w, claims, &branch_id, view) &&
           (view->selectable ||
            auth_refuse(w, 403, "AUTH_BRANCH_NOT_SELECTABLE",
                        "This branch cannot be selected."));
}

void h_select_branch(struct worker *w)
{
    struct session_view view;
    /* The token contains the scope that is about to be written. */
    struct auth_answer answer = {.code = "AUTH_SELECT_BRANCH_SUCCESS",
                                 .message = "The branch was selected.",
                                 .view = &view,
                                 .scoped = true};
    const char *session_id = view.session.session_id;
    pj_claims_t claims;
    pj_str_t branch_id;
    enum store_result result;

    /* Checks the token before the body, so that anonymous clients learn
     * nothing. */
    if (!auth_caller(w, AUTH_CALLER_ACCOUNT, &claims) ||
        !read_body(w, &branch_id) || !check(w, &claims, branch_id, &view) ||
        !auth_answer(w, &answer)) {
        return;
    }
    result = store_session_select(&w->store, session_id, &view.scope);
    if (result == STORE_UNKNOWN || result == STORE_NONE) {
        /* Repeating the selection is harmless, and the first write may have
         * failed due to a change of the database's clock (DB_FENCE). */
        result = store_session_select(&w->store, session_id, &view.scope);
    }
    if (result == STORE_OK) {
        metrics_count(METRICS_BRANCHES_SELECTED);
        auth_audit(w, "auth.branch.selected", view.session.account_id,
                   session_id);
    } else if (result != STORE_NONE) {
        (void) auth_database_unavailable(w);
    } else if (check(w, &claims, branch_id, &view)) {
        /* Between read and write the session was revoked or bound to another
         * workspace. */
        (void) auth_busy(w);
    }
}
