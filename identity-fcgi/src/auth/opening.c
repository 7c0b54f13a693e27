/* The end of a login: opens a session. */

#include "auth/opening.h"

#include "auth/hasher.h"
#include "auth/session.h"
#include "base/uuid.h"
#include "store/store_session.h"
#include "store/store_transaction.h"

#include <string.h>

/* Fills view's session as new, in the only selectable branch, if any. */
static bool new_session(struct worker *w, const struct opening *o,
                        struct session_view *view)
{
    const struct account *account = o->account;
    struct session *s = &view->session;

    memcpy(s->account_id, account->account_id, sizeof(s->account_id));
    memcpy(s->account_type, account->account_type, sizeof(s->account_type));
    s->clock = account->clock;
    s->amr = o->amr;
    s->authenticated_at_s = session_now(w->now_s, &account->clock);
    s->created_at_s = w->now_s;
    s->expires_at_s =
        session_expiry(w->now_s, w->cfg->refresh_ttl_s, s->created_at_s,
                       w->cfg->session_max_lifetime_s);
    if (view->selectable) {
        memcpy(s->workspace_id, view->scope.workspace_id, STORE_UUID);
        memcpy(s->member_id, view->scope.member_id, STORE_UUID);
        memcpy(s->active_branch_id, view->scope.active_branch_id, STORE_UUID);
    }
    memcpy(s->key_thumbprint, w->jkt, sizeof(s->key_thumbprint));
    return uuid_generate(s->session_id) && uuid_generate(s->jti);
}

/* Best effort; the next login ends the remaining ones. */
static void end_oldest(struct worker *w, const struct session *s)
{
    struct session_refs done;

    if (w->cfg->max_sessions > 0) {
        (void) store_session_limit(&w->store, s, w->cfg->max_sessions, &done);
        auth_record_revoked(w, &done, METRICS_SESSIONS_REVOKED_LIMIT,
                            "auth.session.over_limit");
    }
}

struct signing {
    struct worker *worker;
    struct auth_answer *answer;
    bool ok;
};

static void sign(void *arg)
{
    struct signing *s = arg;
    const struct session *session = &s->answer->view->session;

    s->ok =
        auth_sign_refresh(s->worker, session, session->jti, s->worker->now_s,
                          session->expires_at_s, &s->answer->refresh_token) &&
        auth_sign_access(s->worker, s->answer);
}

/* Signs in the hasher's threads, because a login signs more than a refresh
 * should wait for. */
static bool prepare(struct worker *w, const struct opening *o,
                    struct auth_answer *answer, struct session_view *view)
{
    struct signing signing = {w, answer, false};

    if (store_session_choices(&w->store, &w->arena, o->account->account_id,
                              view) != STORE_OK) {
        return auth_database_unavailable(w);
    }
    answer->scoped = view->selectable;
    if (!new_session(w, o, view)) {
        return auth_failed(w, "no randomness");
    }
    if (!hasher_run(HASHER_SIGN, w->store.deadline_ms, sign, &signing)) {
        return auth_busy(w);
    }
    return signing.ok ? auth_answer(w, answer)
                      : auth_failed(w, "cannot sign the tokens");
}

#define create_session(w, o, s)                                                \
    store_session_create(&(w)->store, s, (o)->account->credential_hash)

static enum store_result run_use(struct worker *w, const struct opening *o,
                                 bool *used)
{
    enum store_result result = o->use(w, o->state);

    *used = result == STORE_NONE;
    return result;
}

/* store_session_create() locks the account's row, which is locked before the
 * rows of its factors, like everywhere. */
static enum store_result create(struct worker *w, const struct opening *o,
                                const struct session *s, bool *used)
{
    enum store_result result;

    if (o->use == NULL) {
        return create_session(w, o, s);
    }
    if (!store_transaction_begin(&w->store)) {
        return STORE_UNAVAILABLE;
    }
    result = o->use_first ? run_use(w, o, used) : create_session(w, o, s);
    if (result == STORE_OK) {
        result = o->use_first ? create_session(w, o, s) : run_use(w, o, used);
    }
    if (result == STORE_OK) {
        return store_transaction_commit(&w->store);
    }
    (void) store_transaction_rollback(&w->store);
    return result;
}

enum opened opening_run(struct worker *w, const struct opening *o)
{
    struct session_view view;
    const struct session *s = &view.session;
    struct auth_answer answer = {.code = o->code,
                                 .message = o->message,
                                 .view = &view,
                                 .recovery_codes = o->recovery_codes};
    bool used = false;

    if (!prepare(w, o, &answer, &view)) {
        return OPENING_ENDED;
    }
    switch (create(w, o, s, &used)) {
    case STORE_OK:
        break;
    case STORE_NONE:
        /* The session of its tokens does not exist. */
        buf_reset(&w->res->headers);
        buf_reset(&w->res->body);
        return used ? OPENING_USED : OPENING_CHANGED;
    default:
        (void) auth_database_unavailable(w);
        return OPENING_ENDED;
    }
    end_oldest(w, s);
    http_cookie_set(w->res, w->cfg, answer.refresh_token,
                    s->expires_at_s - w->now_s);
    auth_audit(w, "auth.login.succeeded", s->account_id, s->session_id);
    return OPENING_ENDED;
}
