/* /api/system/accounts/{id}: DELETE, and POST to revoke-sessions, unlock and
 * reset-code */

#include "auth/handlers.h"

#include "auth/auth_attempt.h"
#include "auth/body.h"
#include "auth/password.h"
#include "auth/reset_code.h"
#include "auth/system_change.h"
#include "people/people_end.h"
#include "people/people_session.h"

#include <openssl/crypto.h>
#include <string.h>

static void log_change(struct worker *w, const char *event, const char *id)
{
    system_audit(w, &(struct system_event){.event = event, .account_id = id});
}

/* A call without members. */
static bool read_nothing(struct worker *w)
{
    struct body root;

    if (!body_read(w, true, &root)) {
        return false;
    }
    body_only(&root, (const char *const[]){NULL});
    return auth_faultless(w);
}

/* -- deleting -- */

static enum people_outcome end(struct people *p, void *state)
{
    return people_end_delete(p, state);
}

static void answer_delete(struct worker *w, const void *state)
{
    const struct end_delete *d = state;
    struct jsonw json;

    system_success(w, &json, "The account is deleted. This was held.");
    system_members(&json, people_account_whole_members, &d->held->account);
    system_members(&json, people_end_members, d->held);
    system_list(w, &json, "sessions", people_session_members, &d->sessions,
                people_session_cursor);
    jsonw_object_end(&json);
}

/* All sessions are over, so that nothing is written to their rows. */
static void erase(struct worker *w, const char *account_id)
{
    struct session_erase erase = {.account_id = account_id, .more = true};
    bool ok = system_change_mark(w, account_id, NULL, NULL);

    while (ok && erase.more) {
        ok = system_change_more(w, people_session_erase, &erase);
    }
}

void h_account_delete(struct worker *w)
{
    struct end_held held = {.failed_logins = {NULL}};
    struct end_delete d = {.attempts = {auth_attempt_hmac, w->keys},
                           .hash = password_nobody(),
                           .held = &held};
    const char *id;

    if (system_caller(w, "people:write") && system_path_id(w, 0, &id)) {
        d.ref = id;
        if (system_change(w, false, end, answer_delete, &d)) {
            if (!d.again) {
                log_change(w, "account.deleted", id);
            }
            erase(w, id);
        }
    }
}

/* -- ending sessions, forgetting failures -- */

static enum people_outcome revoke(struct people *p, void *state)
{
    return people_end_sessions(p, state);
}

static void answer_revoke(struct worker *w, const void *state)
{
    const struct end_sessions *e = state;
    struct jsonw json;

    w->subject_id = e->account.account_id;
    system_success(w, &json, "The sessions were ended.");
    system_members(&json, people_end_sessions_members, state);
    jsonw_object_end(&json);
}

void h_account_revoke_sessions(struct worker *w)
{
    struct end_sessions e = {.ended = 0};

    if (system_caller(w, "people:write") && system_path_id(w, 0, &e.ref) &&
        read_nothing(w) && system_change(w, false, revoke, answer_revoke, &e)) {
        if (e.ended > 0) {
            log_change(w, "account.sessions_revoked", e.account.account_id);
        }
        (void) system_change_mark(w, e.account.account_id, answer_revoke, &e);
    }
}

static enum people_outcome unlock(struct people *p, void *state)
{
    return people_end_failures(p, state);
}

static void answer_unlock(struct worker *w, const void *state)
{
    const struct end_failures *e = state;
    struct jsonw json;

    w->subject_id = e->account.account_id;
    system_success(w, &json, "Failed logins were forgotten.");
    system_members(&json, people_end_failures_members, state);
    jsonw_object_end(&json);
}

void h_account_unlock(struct worker *w)
{
    struct end_failures e = {.attempts = {auth_attempt_hmac, w->keys}};

    if (system_caller(w, "people:write") && system_path_id(w, 0, &e.ref) &&
        read_nothing(w) && system_change(w, false, unlock, answer_unlock, &e)) {
        log_change(w, "account.unlocked", e.account.account_id);
    }
}

/* -- reset codes -- */

static enum people_outcome reset(struct people *p, void *state)
{
    return people_end_reset(p, state);
}

static void answer_reset(struct worker *w, const void *state)
{
    const struct end_reset *r = state;
    struct jsonw json;

    system_created(w, &json, "The code replaces the account's last one.",
                   r->account.account_id, "/api/system/accounts/%s",
                   r->account.account_id);
    system_members(&json, people_end_reset_members, r);
    jsonw_object_end(&json);
}

static bool read_ttl(struct worker *w, int64_t *ttl_s)
{
    struct body root;

    if (!body_read(w, true, &root)) {
        return false;
    }
    body_only(&root, (const char *const[]){"ttl", NULL});
    body_integer(&root, "ttl", BODY_NULLABLE, 300, 86400, ttl_s);
    return auth_faultless(w);
}

void h_account_reset_code(struct worker *w)
{
    char code[RESET_CODE_CHARS + 1];
    unsigned char hash[RESET_CODE_BYTES];
    struct end_reset r = {.code = code, .code_hash = hash};
    int64_t ttl_s = 3600;

    if (!system_caller(w, "credentials:write") ||
        !system_path_id(w, 0, &r.ref) || !read_ttl(w, &ttl_s)) {
        return;
    }
    if (!reset_code_new(code, hash)) {
        (void) auth_failed(w, "a reset code could not be made");
        return;
    }
    r.expires_us = (w->now_s + ttl_s) * 1000000;
    if (system_change(w, true, reset, answer_reset, &r)) {
        log_change(w, "account.reset_code_made", r.account.account_id);
    }
    OPENSSL_cleanse(code, sizeof(code));
}
