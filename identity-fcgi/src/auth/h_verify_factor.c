/* POST /api/auth/verify-factor: the second half of a login */

#include "auth/handlers.h"

#include "auth/body.h"
#include "auth/opening.h"
#include "auth/passkey.h"
#include "base/parse.h"

struct verification {
    struct factor_token token;
    struct account account;
    char name[ACCOUNT_NAME_MAX + 1];
    const char *type;
    pj_str_t code;
    struct webauthn_assertion assertion; /* of a passkey */
    struct factor_check check;
    struct factor_use use;
    bool ended; /* a concurrent call has used the token */
};

static bool is_passkey(const struct verification *v)
{
    return v->type[0] == 'p';
}

static bool read_body(struct worker *w, struct verification *v)
{
    static const char *const types[] = {"totp", "recovery", "passkey", NULL};
    struct body root, credential;
    pj_str_t text = {NULL, 0};

    if (!body_read(w, false, &root)) {
        return false;
    }
    body_string(&root, "factorToken", BODY_REQUIRED, 0, 0, &text);
    if (body_word(&root, "type", BODY_REQUIRED, types, &v->type)) {
        if (!is_passkey(v)) {
            body_string(&root, "code", BODY_REQUIRED, 0, 0, &v->code);
        } else if (body_object(&root, "credential", BODY_REQUIRED,
                               &credential)) {
            webauthn_json_assertion(&credential, &v->assertion);
        }
    }
    return auth_faultless(w) && (!is_passkey(v) || passkey_offered(w)) &&
           (factor_token_hash(text, &v->token) ||
            auth_failed(w, "cannot hash a token"));
}

/* Counts a try before anything is checked. */
static bool find_login(struct worker *w, struct verification *v)
{
    enum store_result result = store_factor_token_try(
        &w->store, &v->token, 1, is_passkey(v), &v->account, v->name);

    if (!auth_answered(w, result)) {
        return false;
    }
    if (result == STORE_NONE) {
        return factor_token_refuse(w);
    }
    auth_set_ids(w, v->account.account_id, "");
    auth_actor(w, v->account.account_id, NULL, NULL, NULL);
    return auth_enter(w, pj_str(v->account.account_id));
}

static bool check(struct worker *w, struct verification *v)
{
    const char *id = v->account.account_id;

    if (!factor_check_begin(w, id, &v->check)) {
        return false;
    }
    if (!is_passkey(v)) {
        return factor_check_code(w, &v->check, v->type[0] == 'r', v->code,
                                 &v->use);
    }
    return (v->token.has_challenge || factor_refuse(w, id)) &&
           passkey_check(w, &v->token, &v->assertion, id, NULL, &v->use);
}

/* Uses up token and factor. */
static enum store_result use(struct worker *w, void *state)
{
    struct verification *v = state;
    enum store_result result =
        store_factor_token_end(&w->store, v->token.sha256);

    v->ended = result == STORE_NONE;
    return result == STORE_OK ? factor_use(w, &v->use) : result;
}

static void log_in(struct worker *w, struct verification *v)
{
    const struct opening opening = {.account = &v->account,
                                    .amr = AMR_PWD | v->use.amr,
                                    .code = "AUTH_LOGIN_SUCCESS",
                                    .message = "Login succeeded.",
                                    .use = use,
                                    .state = v};

    switch (opening_run(w, &opening)) {
    case OPENING_CHANGED:
        (void) factor_token_refuse(w);
        break;
    case OPENING_USED:
        (void) (v->ended ? factor_token_refuse(w)
                         : factor_refuse(w, v->account.account_id));
        break;
    default:
        break;
    }
}

void h_verify_factor(struct worker *w)
{
    struct verification v = {.token.purpose = FACTOR_VERIFY};

    if (!read_body(w, &v) || !auth_proof_offer(w) || !find_login(w, &v)) {
        return;
    }
    if (check(w, &v)) {
        log_in(w, &v);
    }
    factor_check_settle(w, &v.check);
}
