/* POST /api/auth/passkeys/options, POST /api/auth/passkeys: registers a
 * passkey.  POST /api/auth/login/passkey-options, POST /api/auth/login/passkey:
 * a login by a passkey alone. */

#include "auth/handlers.h"

#include "auth/enrolment.h"
#include "auth/opening.h"
#include "auth/passkey.h"
#include "base/log.h"
#include "base/uuid.h"
#include "store/store_passkey.h"

#include <openssl/rand.h>
#include <string.h>

#define NAME_MAX_BYTES 64

/* -- the challenge for a registration -- */

static void answer_options(struct worker *w, const struct owner *owner,
                           const struct factor_token *t, const char *text,
                           pj_str_t user, const struct factor_list *list)
{
    struct webauthn_credential known[STORE_MAX_FACTORS] = {0};
    struct webauthn_options options = {
        .challenge = {t->challenge, sizeof(t->challenge)},
        .user = user,
        .account = pj_str(owner->name),
        .known = known};
    struct jsonw json;

    for (size_t i = 0; i < list->count; i++) {
        if (list->items[i].passkey && options.count < STORE_MAX_FACTORS) {
            known[options.count].id = list->items[i].credential_id;
            known[options.count++].transports = list->items[i].transports;
        }
    }
    auth_success(w, &json, "AUTH_PASSKEY_OPTIONS",
                 "The authenticator answers these options.");
    jsonw_cstr(&json, "challengeToken", text);
    jsonw_int(&json, "expiresIn", FACTOR_TOKEN_S);
    webauthn_json_creation(&json, "options", w->cfg, &options);
    jsonw_object_end(&json);
}

void h_passkeys_options(struct worker *w)
{
    struct factor_token t = {.purpose = FACTOR_REGISTER};
    unsigned char user[STORE_PASSKEY_USER];
    char text[FACTOR_TOKEN_CHARS + 1];
    struct factor_list list;
    enum store_result result;
    struct owner owner;
    struct body root;
    const char *id = owner.account.account_id;

    if (!passkey_offered(w) || !owner_find(w, &root, 0, &owner)) {
        return;
    }
    if (RAND_bytes(user, sizeof(user)) != 1) {
        (void) auth_failed(w, "no randomness");
        return;
    }
    memcpy(t.account_id, id, STORE_UUID);
    if (!owner.at_login) {
        memcpy(t.session_id, owner.view.session.session_id, STORE_UUID);
    }
    result = store_passkey_user(&w->store, id, user);
    if (result == STORE_OK) {
        result = store_factor_read(&w->store, &w->arena, id, false, &list);
    }
    if (result == STORE_OK) {
        result = factor_token_make(w, &t, true, &owner.account, text);
    }
    if (result == STORE_OK) {
        answer_options(w, &owner, &t, text, (pj_str_t){user, sizeof(user)},
                       &list);
    } else if (auth_answered(w, result)) {
        (void) auth_busy(w); /* the account changed concurrently */
    }
}

/* -- registering -- */

struct registering {
    struct owner owner;
    struct factor_token token;
    const char *name;
    struct webauthn_registration registration;
    struct passkey passkey;
};

static bool read_new(struct worker *w, struct registering *r)
{
    struct body root, credential;
    pj_str_t text = {NULL, 0};

    r->name = "Passkey";
    if (!owner_find(w, &root, 1, &r->owner)) {
        return false;
    }
    body_string(&root, "challengeToken", BODY_REQUIRED, 0, 0, &text);
    body_text(&root, "name", BODY_OPTIONAL, 1, NAME_MAX_BYTES, &r->name);
    if (body_object(&root, "credential", BODY_REQUIRED, &credential)) {
        webauthn_json_registration(&credential, &r->registration);
    }
    return auth_faultless(w) && passkey_challenge(w, text, &r->token);
}

/* The challenge is the owner's, in the same session or login. */
static bool is_own(const struct registering *r)
{
    const struct owner *o = &r->owner;

    return strcmp(r->token.account_id, o->account.account_id) == 0 &&
           strcmp(r->token.session_id,
                  o->at_login ? "" : o->view.session.session_id) == 0;
}

static bool verify(struct worker *w, struct registering *r)
{
    struct webauthn_credential c;
    pj_str_t challenge = {r->token.challenge, sizeof(r->token.challenge)};
    enum webauthn_error err =
        webauthn_register(w->cfg, &w->arena, challenge, &r->registration, &c);

    if (err == WEBAUTHN_INTERNAL) {
        return auth_failed(w, "a passkey could not be verified");
    }
    if (err != WEBAUTHN_OK) {
        (void) auth_fault(
            w,
            (struct fault){.code = FAULT_NOT_ALLOWED, .pointer = "/credential"},
            "The passkey is not accepted: %s.", webauthn_errname(err));
        return auth_refuse(w, 400, "AUTH_PASSKEY_INVALID", w->faults.detail);
    }
    r->passkey = (struct passkey){.credential_id = c.id,
                                  .key = c.key,
                                  .sign_count = c.counter,
                                  .transports = c.transports,
                                  .may_sync = c.backup_eligible,
                                  .synced = c.backed_up};
    return uuid_generate(r->passkey.factor_id) ||
           auth_failed(w, "no randomness");
}

static enum store_result add(struct worker *w, void *state)
{
    const struct registering *r = state;

    return store_passkey_add(&w->store, &r->owner.account, &r->passkey,
                             r->name);
}

static bool refuse_new(struct worker *w, void *state)
{
    const struct registering *r = state;
    struct account account;
    struct passkey found;
    enum store_result result = store_passkey_find(
        &w->store, &w->arena, r->passkey.credential_id, &found, &account);

    if (!auth_answered(w, result)) {
        return false;
    }
    return result == STORE_OK
               ? auth_refuse(w, 409, "RESOURCE_EXISTS",
                             "This passkey is registered already.")
               : factor_refuse_more(w, r->owner.account.account_id);
}

void h_passkeys_add(struct worker *w)
{
    struct registering r = {.token.purpose = FACTOR_REGISTER};

    if (!passkey_offered(w) || !read_new(w, &r)) {
        return;
    }
    if (!is_own(&r)) {
        (void) factor_token_refuse(w);
        return;
    }
    if (verify(w, &r)) {
        enrolment_finish(
            w, &(struct enrolment){.owner = &r.owner,
                                   .add = add,
                                   .refuse = refuse_new,
                                   .state = &r,
                                   .factor_id = r.passkey.factor_id,
                                   .amr = passkey_amr(r.passkey.may_sync),
                                   .status = 201,
                                   .code = "AUTH_FACTOR_ADDED",
                                   .message = "The passkey counts."});
    }
}

/* -- a login by a passkey alone -- */

void h_passkeys_login_options(struct worker *w)
{
    struct factor_token t = {.purpose = FACTOR_PASSKEY_LOGIN};
    char text[FACTOR_TOKEN_CHARS + 1];
    struct jsonw json;
    struct body root;

    if (!passkey_offered(w) || !body_read(w, true, &root)) {
        return;
    }
    if (factor_token_make(w, &t, true, NULL, text) != STORE_OK) {
        (void) auth_database_unavailable(w);
        return;
    }
    auth_success(w, &json, "AUTH_PASSKEY_OPTIONS",
                 "The authenticator answers these options.");
    jsonw_cstr(&json, "challengeToken", text);
    jsonw_int(&json, "expiresIn", FACTOR_TOKEN_S);
    passkey_request(w, &json, "options", &t, NULL);
    jsonw_object_end(&json);
}

struct passkey_login {
    struct factor_token token;
    struct webauthn_assertion assertion;
    struct account account;
    struct factor_use use;
};

static bool read_login(struct worker *w, struct passkey_login *l)
{
    struct body root, credential;
    pj_str_t text = {NULL, 0};

    if (!body_read(w, false, &root)) {
        return false;
    }
    body_string(&root, "challengeToken", BODY_REQUIRED, 0, 0, &text);
    if (body_object(&root, "credential", BODY_REQUIRED, &credential)) {
        webauthn_json_assertion(&credential, &l->assertion);
    }
    return auth_faultless(w) && auth_proof_offer(w) &&
           passkey_challenge(w, text, &l->token);
}

static enum store_result use(struct worker *w, void *state)
{
    const struct passkey_login *l = state;

    return factor_use(w, &l->use);
}

void h_passkeys_login(struct worker *w)
{
    struct passkey_login l = {.token.purpose = FACTOR_PASSKEY_LOGIN};

    if (!passkey_offered(w) || !read_login(w, &l) ||
        !passkey_check(w, &l.token, &l.assertion, NULL, &l.account, &l.use) ||
        !auth_enter(w, pj_str(l.account.account_id))) {
        return;
    }
    if (opening_run(w, &(struct opening){.account = &l.account,
                                         .amr = l.use.amr,
                                         .code = "AUTH_LOGIN_SUCCESS",
                                         .message = "Login succeeded.",
                                         .use = use,
                                         .state = &l}) != OPENING_ENDED) {
        (void) factor_refuse(w, l.account.account_id);
    }
}
