/* GET and POST /api/auth/factors, POST .../{id}/confirm, PATCH and DELETE
 * .../{id}, POST /api/auth/recovery-codes: the caller's second factors. */

#include "auth/handlers.h"

#include "auth/demand.h"
#include "auth/enrolment.h"
#include "auth/system.h"
#include "auth/totp.h"
#include "base/uuid.h"
#include "people/people_account.h"

#include <openssl/crypto.h>
#include <string.h>

#define NAME_MAX_BYTES 64
/* Of a name and twice a label, each byte as %XX. */
#define URI_MAX 3072

/* -- the list -- */

void h_factors(struct worker *w)
{
    struct people people = {.store = &w->store, .arena = &w->arena};
    struct account_whole account;
    struct owner owner;
    struct jsonw json;

    if (!owner_session(w, &owner)) {
        return;
    }
    if (people_account_read(&people, owner.account.account_id, &account) !=
        PEOPLE_DONE) {
        (void) auth_database_unavailable(w);
        return;
    }
    auth_success(w, &json, "AUTH_FACTORS_SUCCESS",
                 "These are the account's second factors.");
    system_members(&json, people_account_factor_members, &account);
    jsonw_object_end(&json);
}

/* -- adding -- */

struct adding {
    struct owner owner;
    const char *name;
    struct factor factor;
    unsigned char secret[FACTOR_SECRET_BYTES];
    unsigned char sealed[FACTOR_SEALED_BYTES];
    struct factor_key key;
};

static bool read_new(struct worker *w, struct adding *a)
{
    static const char *const types[] = {"totp", NULL};
    const char *type;
    struct body root;

    a->name = "Authenticator";
    if (!owner_find(w, &root, 0, &a->owner)) {
        return false;
    }
    body_word(&root, "type", BODY_REQUIRED, types, &type);
    body_text(&root, "name", BODY_OPTIONAL, 1, NAME_MAX_BYTES, &a->name);
    return auth_faultless(w);
}

static bool make(struct worker *w, struct adding *a)
{
    if (!factor_key_find(w->cfg->factor_keys, NULL, &a->key)) {
        return auth_refuse(w, 403, "AUTH_FACTOR_NOT_OFFERED",
                           "This service has no TOTP: "
                           "PLATFORM_AUTH_FACTOR_KEYS is not set.");
    }
    a->factor.key_id = a->key.id;
    a->factor.secret = (pj_str_t){a->sealed, sizeof(a->sealed)};
    return (uuid_generate(a->factor.factor_id) && totp_new(a->secret) &&
            factor_secret_seal(&a->key, a->owner.account.account_id,
                               a->factor.factor_id, a->secret, a->sealed)) ||
           auth_failed(w, "cannot make a TOTP secret");
}

/* Writes text percent-encoded. */
static void encode(struct buf *out, const char *text)
{
    for (; *text != '\0'; text++) {
        unsigned char c = (unsigned char) *text;

        if ((c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
            (c >= 'A' && c <= 'Z') || strchr("-._~", c) != NULL) {
            buf_addc(out, (char) c);
        } else {
            buf_addf(out, "%%%02X", c);
        }
    }
}

/* The host of the issuer, which authenticators show. */
static void write_label(const struct config *cfg, char out[256])
{
    const char *host = strstr(cfg->jwt_issuer, "://");
    struct buf label;

    host = host != NULL ? host + 3 : cfg->jwt_issuer;
    buf_init(&label, out, 255);
    buf_add(&label, host, strcspn(host, ":/"));
    out[label.len] = '\0';
}

/* The form that authenticators read as a QR code. */
static bool write_uri(const struct worker *w, const struct adding *a,
                      const char *secret, struct buf *out)
{
    char label[256];

    write_label(w->cfg, label);
    buf_addz(out, "otpauth://totp/");
    encode(out, label);
    buf_addc(out, ':');
    encode(out, a->owner.name);
    buf_addf(out, "?secret=%s&issuer=", secret);
    encode(out, label);
    buf_addz(out, "&algorithm=SHA1&digits=6&period=30");
    buf_addc(out, '\0');
    return !out->overflow;
}

static void answer_new(struct worker *w, const struct adding *a)
{
    char text[TOTP_BASE32], mem[URI_MAX];
    struct jsonw json;
    struct buf uri;

    buf_init(&uri, mem, sizeof(mem));
    if (!totp_base32(a->secret, text) || !write_uri(w, a, text, &uri)) {
        (void) auth_failed(w, "cannot write a TOTP secret");
        return;
    }
    auth_success(w, &json, "AUTH_FACTOR_ADDED",
                 "The factor counts once a code of it confirms it.");
    jsonw_cstr(&json, "factorId", a->factor.factor_id);
    jsonw_cstr(&json, "secret", text);
    jsonw_cstr(&json, "uri", mem);
    jsonw_time(&json, "expiresAt", (w->now_s + STORE_OPEN_FACTOR_S) * 1000000);
    jsonw_object_end(&json);
    w->res->status = 201;
    OPENSSL_cleanse(text, sizeof(text));
    OPENSSL_cleanse(mem, sizeof(mem));
}

void h_factors_add(struct worker *w)
{
    struct adding a;
    enum store_result result;

    if (read_new(w, &a) && make(w, &a)) {
        result = store_factor_add_totp(&w->store, &a.owner.account, &a.factor,
                                       a.name);
        if (result == STORE_OK) {
            answer_new(w, &a);
        } else if (auth_answered(w, result)) {
            (void) factor_refuse_more(w, a.owner.account.account_id);
        }
    }
    OPENSSL_cleanse(&a.key, sizeof(a.key));
    OPENSSL_cleanse(a.secret, sizeof(a.secret));
}

/* -- confirming -- */

struct confirming {
    struct owner owner;
    const struct factor *factor;
    int64_t step;
};

static bool read_code(struct worker *w, struct confirming *c)
{
    pj_str_t code = {NULL, 0};
    struct factor_list list;
    struct body root;

    if (!owner_find(w, &root, 1, &c->owner)) {
        return false;
    }
    body_string(&root, "code", BODY_REQUIRED, 0, 0, &code);
    return auth_faultless(w) &&
           auth_answered(w, store_factor_read(&w->store, &w->arena,
                                              c->owner.account.account_id, true,
                                              &list)) &&
           factor_open_step(w, &list, c->owner.account.account_id,
                            w->path_ids[0], code, &c->factor, &c->step) &&
           (c->step != 0 || factor_refuse(w, c->owner.account.account_id));
}

static enum store_result confirm(struct worker *w, void *state)
{
    const struct confirming *c = state;

    return store_factor_confirm(&w->store, &c->owner.account,
                                c->factor->factor_id, c->step);
}

static bool refuse_confirming(struct worker *w, void *state)
{
    const struct confirming *c = state;

    return c->owner.at_login
               ? factor_token_refuse(w)
               : factor_refuse_more(w, c->owner.account.account_id);
}

void h_factors_confirm(struct worker *w)
{
    struct confirming c;

    if (read_code(w, &c)) {
        enrolment_finish(w,
                         &(struct enrolment){.owner = &c.owner,
                                             .add = confirm,
                                             .refuse = refuse_confirming,
                                             .state = &c,
                                             .factor_id = c.factor->factor_id,
                                             .amr = AMR_OTP | AMR_MFA,
                                             .status = 200,
                                             .code = "AUTH_FACTOR_CONFIRMED",
                                             .message = "The factor counts."});
    }
}

/* -- renaming, removing -- */

#define refuse_unknown(w)                                                      \
    auth_refuse(w, 404, "RESOURCE_NOT_FOUND", "The account has no such factor.")

void h_factors_rename(struct worker *w)
{
    enum store_result result;
    const char *name = NULL;
    struct owner owner;
    struct jsonw json;
    struct body root;

    if (!owner_session(w, &owner) ||
        !factor_fresh(w, &owner.view.session, &owner.account) ||
        !body_read(w, false, &root)) {
        return;
    }
    body_text(&root, "name", BODY_REQUIRED, 1, NAME_MAX_BYTES, &name);
    if (!auth_faultless(w)) {
        return;
    }
    result = store_factor_rename(&w->store, owner.account.account_id,
                                 w->path_ids[0], name);
    if (!auth_answered(w, result)) {
        return;
    }
    if (result == STORE_NONE) {
        (void) refuse_unknown(w);
        return;
    }
    auth_success(w, &json, "AUTH_FACTOR_CHANGED", "The factor was renamed.");
    jsonw_object_end(&json);
}

static bool has(const struct factor_list *list, pj_str_t id)
{
    for (size_t i = 0; i < list->count; i++) {
        if (pj_str_eq(pj_str(list->items[i].factor_id), id)) {
            return true;
        }
    }
    return false;
}

/* Tells the last factor from one that does not exist. */
static bool refuse_removal(struct worker *w, const struct owner *owner)
{
    struct factor_list list;
    enum store_result result = store_factor_read(
        &w->store, &w->arena, owner->account.account_id, false, &list);

    if (!auth_answered(w, result)) {
        return false;
    }
    return has(&list, w->path_ids[0])
               ? auth_refuse(w, 409, "AUTH_FACTOR_LAST",
                             "This account has to have a second factor; add "
                             "another one first.")
               : refuse_unknown(w);
}

void h_factors_remove(struct worker *w)
{
    enum store_result result;
    struct owner owner;
    struct jsonw json;

    if (!owner_session(w, &owner) ||
        !factor_fresh(w, &owner.view.session, &owner.account)) {
        return;
    }
    result =
        store_factor_remove(&w->store, owner.account.account_id, w->path_ids[0],
                            demand_holds(w->cfg, &owner.account));
    if (!auth_answered(w, result)) {
        return;
    }
    if (result == STORE_NONE) {
        (void) refuse_removal(w, &owner);
        return;
    }
    auth_success(w, &json, "AUTH_FACTOR_REMOVED", "The factor was removed.");
    jsonw_object_end(&json);
}

/* -- recovery codes -- */

#define refuse_recovery(w)                                                     \
    auth_refuse(w, 409, "RESOURCE_CONFLICT",                                   \
                "The account has no second factor.")

/* The session is fresh for an account with a factor.  A first factor that is
 * added meanwhile comes with codes in the answer to that call. */
void h_factors_recovery(struct worker *w)
{
    struct factor_recovery made;
    enum store_result result;
    struct owner owner;
    struct jsonw json;

    if (!owner_session(w, &owner) ||
        !factor_fresh(w, &owner.view.session, &owner.account) ||
        !(owner.account.second_factor || refuse_recovery(w)) ||
        !factor_recovery_make(w, &made)) {
        return;
    }
    result = factor_recovery_keep(w, owner.account.account_id, &made);
    if (!auth_answered(w, result)) {
        return;
    }
    if (result == STORE_NONE) {
        (void) refuse_recovery(w);
        return;
    }
    auth_success(w, &json, "AUTH_RECOVERY_CODES_SUCCESS",
                 "These are the account's recovery codes from now on.");
    auth_list(&json, "recoveryCodes", &made.codes);
    jsonw_object_end(&json);
}
