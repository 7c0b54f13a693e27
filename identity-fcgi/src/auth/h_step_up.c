/* POST /api/auth/step-up: authenticates again in the caller's session */

#include "auth/handlers.h"

#include "auth/body.h"
#include "auth/credential.h"
#include "auth/factor.h"
#include "auth/password.h"
#include "store/store_session.h"
#include "store/store_transaction.h"

struct step_up {
    pj_claims_t claims;
    struct session_view view;
    struct account account;
    char name[ACCOUNT_NAME_MAX + 1];
    const char *type;
    pj_str_t secret; /* credential or code */
    struct auth_attempt attempt;
    struct factor_check check;
    struct factor_use use; /* unless by the credential */
};

static bool is_credential(const struct step_up *s)
{
    return s->type[0] == 'c';
}

static bool read_body(struct worker *w, struct step_up *s)
{
    static const char *const types[] = {"credential", "totp", "recovery", NULL};
    struct body root;

    if (!body_read(w, false, &root)) {
        return false;
    }
    if (body_word(&root, "type", BODY_REQUIRED, types, &s->type)) {
        if (is_credential(s)) {
            body_credential(&root, "credential", BODY_REQUIRED, &s->secret);
        } else {
            body_string(&root, "code", BODY_REQUIRED, 0, 0, &s->secret);
        }
    }
    return auth_faultless(w);
}

/* The list of branches is for an answer without a branch. */
static bool find_session(struct worker *w, struct step_up *s)
{
    bool list = s->claims.kind == PJ_TOKEN_ACCOUNT;
    enum store_result result = store_session_read(
        &w->store, &w->arena, s->claims.session_id, NULL, list, NULL, &s->view);

    if (!auth_caller_alive(w, &s->claims, result, &s->view) ||
        !credential_owner(w, &s->view.session, s->name, &s->account)) {
        return false;
    }
    auth_actor(w, s->account.account_id, &s->claims.jti, NULL, NULL);
    return true;
}

/* An account with a second factor steps up by that: a credential that was
 * stolen together with a session is not enough. */
static bool check_credential(struct worker *w, struct step_up *s)
{
    if (s->account.second_factor) {
        return factor_refuse_stale(w, &s->account);
    }
    return (password_has_room() || auth_busy(w)) &&
           auth_attempt_begin(w, pj_str(s->name), "auth.credential.limited",
                              &s->attempt) &&
           credential_matches(w, &s->view.session, &s->account, s->secret);
}

static bool check_factor(struct worker *w, struct step_up *s)
{
    return factor_check_begin(w, s->account.account_id, &s->check) &&
           factor_check_code(w, &s->check, s->type[0] == 'r', s->secret,
                             &s->use);
}

/* Locks the account's row before those of its factors. */
static enum store_result write(struct worker *w, struct step_up *s)
{
    enum store_result result;

    if (!store_transaction_begin(&w->store)) {
        return STORE_UNAVAILABLE;
    }
    result = store_session_step_up(&w->store, &s->view.session);
    if (result == STORE_NONE) {
        (void) auth_refuse_token(w, AUTH_NOT_ACTIVE);
    } else if (result == STORE_OK && !is_credential(s)) {
        result = factor_use(w, &s->use);
        if (result == STORE_NONE) {
            (void) factor_refuse(w, s->account.account_id);
        }
    }
    if (result == STORE_OK) {
        return store_transaction_commit(&w->store);
    }
    (void) store_transaction_rollback(&w->store);
    return result;
}

static void answer(struct worker *w, struct step_up *s)
{
    struct session *session = &s->view.session;
    bool branch = s->claims.kind == PJ_TOKEN_BRANCH;
    struct auth_answer a = {.code = "AUTH_STEP_UP_SUCCESS",
                            .message = "The session was authenticated again.",
                            .view = &s->view,
                            .scoped = branch && s->view.selectable};

    session->amr = is_credential(s) ? AMR_PWD : session->amr | s->use.amr;
    session->authenticated_at_s = session->clock.now_us / 1000000;
    if (!auth_answer(w, &a)) {
        return;
    }
    switch (write(w, s)) {
    case STORE_OK:
        auth_audit(w, "auth.step_up.succeeded", session->account_id,
                   session->session_id);
        break;
    case STORE_NONE:
        break; /* refused */
    default:
        (void) auth_database_unavailable(w);
    }
}

void h_step_up(struct worker *w)
{
    struct step_up s = {.use.amr = 0};

    if (!auth_caller(w, AUTH_CALLER_ANY, &s.claims) || !read_body(w, &s) ||
        !find_session(w, &s)) {
        return;
    }
    if (is_credential(&s) ? check_credential(w, &s) : check_factor(w, &s)) {
        answer(w, &s);
    }
    auth_attempt_settle(w, &s.attempt);
    factor_check_settle(w, &s.check);
}
