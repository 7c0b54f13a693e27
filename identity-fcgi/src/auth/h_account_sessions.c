/* /api/system/accounts/{id}/sessions: the sessions of an account */

#include "auth/handlers.h"

#include "auth/system_change.h"
#include "people/people_end.h"
#include "people/people_session.h"

#include <string.h>

struct session_page {
    struct session_query query;
    struct people_rows page;
};

static bool read_query(struct worker *w, struct session_query *q)
{
    static const char *const known[] = {"all", "limit", "after", NULL};
    static const char *const flags[] = {"true", "false", NULL};
    struct form query;
    const char *all;

    q->limit = PEOPLE_PAGE;
    if (!system_query(w, known, &query) ||
        !system_word(w, &query, "all", flags, &all) ||
        !system_number(w, &query, "limit", PEOPLE_PAGE_MAX, &q->limit) ||
        !system_text(w, &query, "after", &q->after)) {
        return false;
    }
    q->all = all != NULL && strcmp(all, "true") == 0;
    return true;
}

static enum people_outcome list(struct people *p, void *state)
{
    struct session_page *l = state;
    struct account_item account;
    enum people_outcome outcome =
        people_account_find(p, l->query.account_id, &account);

    return outcome == PEOPLE_DONE ? people_session_list(p, &l->query, &l->page)
                                  : outcome;
}

static void answer_list(struct worker *w, const void *state)
{
    const struct session_page *l = state;
    struct jsonw json;

    system_success(w, &json, "These are the account's sessions.");
    system_list(w, &json, "sessions", people_session_members, &l->page,
                people_session_cursor);
    jsonw_object_end(&json);
}

void h_account_sessions(struct worker *w)
{
    struct session_page l = {.query = {.limit = 0}};

    if (system_caller(w, "people:read") &&
        system_path_id(w, 0, &l.query.account_id) && read_query(w, &l.query)) {
        (void) system_read(w, list, answer_list, &l);
    }
}

/* -- ending one -- */

static enum people_outcome end(struct people *p, void *state)
{
    return people_end_sessions(p, state);
}

static void answer_end(struct worker *w, const void *state)
{
    const struct end_sessions *one = state;
    struct jsonw json;

    system_success(w, &json, "The session was ended.");
    jsonw_cstr(&json, "accountId", one->ref);
    jsonw_cstr(&json, "sessionId", one->session_id);
    jsonw_object_end(&json);
}

void h_account_sessions_end(struct worker *w)
{
    static const char event[] = "account.sessions_revoked";
    struct end_sessions one = {.ended = 0};

    if (!system_caller(w, "people:write") || !system_path_id(w, 0, &one.ref) ||
        !system_path_id(w, 1, &one.session_id)) {
        return;
    }
    auth_actor(w, w->res->account_id, &w->jti, NULL, event);
    if (system_change(w, false, end, answer_end, &one)) {
        system_audit(w, &(struct system_event){.event = event,
                                               .account_id = one.ref,
                                               .session_id = one.session_id});
    }
}
