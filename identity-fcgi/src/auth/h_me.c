/* GET /api/auth/me: the owner of an access token. */

#include "auth/handlers.h"

#include "store/store_session.h"

/* Writes the token's branch, because services see it, even if the session has
 * moved to another branch since. */
static void add_scope(struct jsonw *json, const pj_claims_t *claims,
                      const struct session_names *names)
{
    jsonw_string(json, "workspaceId", claims->workspace_id.data,
                 claims->workspace_id.len);
    jsonw_cstr(json, "workspaceName", names->workspace);
    jsonw_string(json, "branchId", claims->active_branch_id.data,
                 claims->active_branch_id.len);
    jsonw_cstr(json, "branchName", names->branch);
    jsonw_array(json, "roles");
    for (const pj_json_t *role = claims->roles->child; role != NULL;
         role = role->next) {
        jsonw_string(json, NULL, role->text.data, role->text.len);
    }
    jsonw_array_end(json);
}

void h_me(struct worker *w)
{
    struct session_names names;
    struct session_view view;
    enum store_result result;
    pj_claims_t claims;
    struct jsonw json;

    if (!auth_caller(w, AUTH_CALLER_ANY, &claims)) {
        return;
    }
    result = store_session_describe(&w->store, &w->arena, claims.session_id,
                                    claims.active_branch_id, &view, &names);
    if (!auth_caller_alive(w, &claims, result, &view)) {
        return;
    }
    auth_success(w, &json, "AUTH_ME_SUCCESS", "The token is of this account.");
    jsonw_cstr(&json, "accountId", view.session.account_id);
    jsonw_cstr(&json, "account", names.account);
    jsonw_cstr(&json, "type", view.session.account_type);
    jsonw_cstr(&json, "sessionId", view.session.session_id);
    jsonw_cstr(&json, "createdAt", names.created_at);
    if (claims.kind == PJ_TOKEN_BRANCH) {
        add_scope(&json, &claims, &names);
    }
    jsonw_object_end(&json);
}
