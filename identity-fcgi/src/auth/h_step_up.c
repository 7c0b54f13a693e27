/* POST /api/auth/step-up, and step-up/passkey-options: authenticates again in
 * the caller's session. */

#include "auth/handlers.h"

#include "auth/auth_attempt.h"
#include "auth/body.h"
#include "auth/credential.h"
#include "auth/owner.h"
#include "auth/passkey.h"
#include "auth/password.h"
#include "auth/session.h"
#include "store/store_session.h"
#include "store/store_transaction.h"

#include <string.h>

struct step_up {
    pj_claims_t claims;
    struct session_view view;
    struct account account;
    char name[ACCOUNT_NAME_MAX + 1];
    const char *type;
    pj_str_t secret;           /* credential or code */
    struct factor_token token; /* of a passkey */
    struct webauthn_assertion assertion;
    struct auth_attempt attempt;
    struct factor_check check;
    struct factor_use use; /* unless by the credential */
};

static bool is_credential(const struct step_up *s)
{
    return s->type[0] == 'c';
}

static bool is_passkey(const struct step_up *s)
{
    return s->type[0] == 'p';
}

static void read_passkey(struct body *root, struct step_up *s,
                         pj_str_t *challenge)
{
    struct body credential;

    body_string(root, "challengeToken", BODY_REQUIRED, 0, 0, challenge);
    if (body_object(root, "credential", BODY_REQUIRED, &credential)) {
        webauthn_json_assertion(&credential, &s->assertion);
    }
}

static bool read_body(struct worker *w, struct step_up *s)
{
    static const char *const types[] = {"credential", "totp", "recovery",
                                        "passkey", NULL};
    pj_str_t challenge = {NULL, 0};
    struct body root;

    if (!body_read(w, false, &root)) {
        return false;
    }
    if (body_word(&root, "type", BODY_REQUIRED, types, &s->type)) {
        if (is_passkey(s)) {
            read_passkey(&root, s, &challenge);
        } else if (is_credential(s)) {
            body_credential(&root, "credential", BODY_REQUIRED, &s->secret);
        } else {
            body_string(&root, "code", BODY_REQUIRED, 0, 0, &s->secret);
        }
    }
    return auth_faultless(w) &&
           (!is_passkey(s) ||
            (passkey_offered(w) && passkey_challenge(w, challenge, &s->token)));
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
static bool credential_suffices(struct worker *w, const struct step_up *s)
{
    return !is_credential(s) || !s->account.second_factor ||
           factor_refuse_stale(w, &s->account);
}

static bool check_credential(struct worker *w, struct step_up *s)
{
    return credential_suffices(w, s) && (password_has_room() || auth_busy(w)) &&
           auth_attempt_begin(w, pj_str(s->name), "auth.credential.limited",
                              &s->attempt) &&
           credential_matches(w, &s->view.session, &s->account, s->secret);
}

/* The challenge of a passkey is of this session. */
static bool check_factor(struct worker *w, struct step_up *s)
{
    const char *id = s->account.account_id;

    if (is_passkey(s) &&
        strcmp(s->token.session_id, s->view.session.session_id) != 0) {
        return factor_token_refuse(w);
    }
    if (!factor_check_begin(w, id, &s->check)) {
        return false;
    }
    return is_passkey(s)
               ? passkey_check(w, &s->token, &s->assertion, id, NULL, &s->use)
               : factor_check_code(w, &s->check, s->type[0] == 'r', s->secret,
                                   &s->use);
}

/* Tells a session that has ended from an account that got a factor while its
 * credential was checked. */
static void refuse_late(struct worker *w, struct step_up *s)
{
    if (credential_owner(w, &s->view.session, s->name, &s->account) &&
        credential_suffices(w, s)) {
        (void) auth_refuse_token(w, AUTH_NOT_ACTIVE);
    }
}

/* Locks the account's row before the rows of its factors. */
static enum store_result write(struct worker *w, struct step_up *s)
{
    enum store_result result;

    if (!store_transaction_begin(&w->store)) {
        return STORE_UNAVAILABLE;
    }
    result = store_session_step_up(&w->store, &s->view.session);
    if (result == STORE_NONE) {
        refuse_late(w, s);
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
    session->authenticated_at_s = session_now(w->now_s, &session->clock);
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
    struct step_up s = {.token.purpose = FACTOR_STEP_UP};

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

/* -- the challenge for a passkey -- */

void h_step_up_options(struct worker *w)
{
    struct factor_token t = {.purpose = FACTOR_STEP_UP};
    char text[FACTOR_TOKEN_CHARS + 1];
    struct factor_list list;
    enum store_result result;
    struct owner owner;
    struct jsonw json;
    const char *id = owner.account.account_id;

    if (!passkey_offered(w) || !owner_session(w, &owner)) {
        return;
    }
    memcpy(t.account_id, id, STORE_UUID);
    memcpy(t.session_id, owner.view.session.session_id, STORE_UUID);
    result = store_factor_read(&w->store, &w->arena, id, false, &list);
    if (result == STORE_OK) {
        result = factor_token_make(w, &t, true, &owner.account, text);
    }
    if (result != STORE_OK) {
        if (auth_answered(w, result)) {
            (void) auth_busy(w); /* the account changed concurrently */
        }
        return;
    }
    auth_success(w, &json, "AUTH_PASSKEY_OPTIONS",
                 "The authenticator answers these options.");
    jsonw_cstr(&json, "challengeToken", text);
    jsonw_int(&json, "expiresIn", FACTOR_TOKEN_S);
    passkey_request(w, &json, "options", &t, &list);
    jsonw_object_end(&json);
}
