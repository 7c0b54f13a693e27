/* The end of an enrolment. */

#include "auth/enrolment.h"

#include "auth/opening.h"
#include "auth/session.h"
#include "store/store_session.h"
#include "store/store_transaction.h"

struct finish {
    const struct enrolment *enrolment;
    bool first; /* recovery codes are made with the first factor */
    struct factor_recovery recovery;
};

/* In a transaction. */
static enum store_result add(struct worker *w, void *state)
{
    struct finish *f = state;
    const struct enrolment *e = f->enrolment;
    const struct owner *owner = e->owner;
    enum store_result result = e->add(w, e->state);

    if (result == STORE_OK && f->first) {
        result =
            factor_recovery_keep(w, owner->account.account_id, &f->recovery);
    }
    if (result == STORE_OK && owner->at_login) {
        result = store_factor_token_end(&w->store, owner->token.sha256);
    }
    return result;
}

/* -- in a session -- */

static enum store_result write(struct worker *w, struct finish *f)
{
    struct session *s = &f->enrolment->owner->view.session;
    enum store_result result;

    if (!store_transaction_begin(&w->store)) {
        return STORE_UNAVAILABLE;
    }
    result = add(w, f);
    if (result == STORE_OK) {
        s->amr |= f->enrolment->amr;
        s->authenticated_at_s = session_now(w->now_s, &s->clock);
        result = store_session_step_up(&w->store, s);
    }
    if (result == STORE_OK) {
        return store_transaction_commit(&w->store);
    }
    (void) store_transaction_rollback(&w->store);
    return result;
}

static void answer(struct worker *w, const struct finish *f)
{
    const struct enrolment *e = f->enrolment;
    struct jsonw json;

    auth_success(w, &json, e->code, e->message);
    jsonw_cstr(&json, "factorId", e->factor_id);
    if (f->first) {
        auth_list(&json, "recoveryCodes", &f->recovery.codes);
    }
    jsonw_object_end(&json);
    w->res->status = e->status;
}

/* -- at a login -- */

static void log_in(struct worker *w, struct finish *f)
{
    const struct enrolment *e = f->enrolment;
    const struct opening opening = {.account = &e->owner->account,
                                    .amr = AMR_PWD | e->amr,
                                    .code = "AUTH_LOGIN_SUCCESS",
                                    .message = "Login succeeded.",
                                    .use = add,
                                    .use_first = true,
                                    .state = f,
                                    .recovery_codes = &f->recovery.codes};

    switch (opening_run(w, &opening)) {
    case OPENING_CHANGED:
        (void) factor_token_refuse(w);
        break;
    case OPENING_USED:
        (void) e->refuse(w, e->state);
        break;
    default:
        break;
    }
}

void enrolment_finish(struct worker *w, const struct enrolment *e)
{
    struct finish f = {.enrolment = e,
                       .first = !e->owner->account.second_factor};

    if (f.first && !factor_recovery_make(w, &f.recovery)) {
        return;
    }
    if (e->owner->at_login) {
        log_in(w, &f);
        return;
    }
    switch (write(w, &f)) {
    case STORE_OK:
        answer(w, &f);
        break;
    case STORE_NONE:
        (void) e->refuse(w, e->state);
        break;
    default:
        (void) auth_database_unavailable(w);
    }
}
