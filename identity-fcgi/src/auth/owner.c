/* The owner of factors. */

#include "auth/owner.h"

#include "auth/credential.h"

bool owner_session(struct worker *w, struct owner *out)
{
    out->at_login = false;
    if (!auth_caller(w, AUTH_CALLER_ANY, &out->claims) ||
        !auth_caller_session(w, &out->claims, NULL, &out->view) ||
        !credential_owner(w, &out->view.session, out->name, &out->account)) {
        return false;
    }
    auth_actor(w, out->account.account_id, &out->claims.jti, NULL, NULL);
    return true;
}

static bool of_token(struct worker *w, pj_str_t text, int tries,
                     struct owner *out)
{
    enum store_result result;

    out->at_login = true;
    out->token.purpose = FACTOR_ENROLL;
    if (!factor_token_hash(text, &out->token)) {
        return auth_failed(w, "cannot hash a token");
    }
    result = store_factor_token_try(&w->store, &out->token, tries, false,
                                    &out->account, out->name);
    if (!auth_answered(w, result)) {
        return false;
    }
    if (result == STORE_NONE) {
        return factor_token_refuse(w);
    }
    auth_set_ids(w, out->account.account_id, "");
    auth_actor(w, out->account.account_id, NULL, NULL, NULL);
    return auth_enter(w, pj_str(out->account.account_id));
}

bool owner_find(struct worker *w, struct body *body, int tries,
                struct owner *out)
{
    pj_str_t text = {NULL, 0};

    if (body != NULL && w->req->authorization.len == 0) {
        if (!body_read(w, false, body)) {
            return false;
        }
        body_string(body, "factorToken", BODY_OPTIONAL, 0, 0, &text);
        if (text.len > 0) {
            return auth_proof_offer(w) && of_token(w, text, tries, out);
        }
    }
    return owner_session(w, out) &&
           factor_fresh(w, &out->view.session, &out->account) &&
           (body == NULL || body_read(w, true, body));
}
