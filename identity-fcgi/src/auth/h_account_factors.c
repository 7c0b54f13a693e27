/* /api/system/accounts/{id}/factors: the second factors of an account */

#include "auth/handlers.h"

#include "auth/system_change.h"
#include "people/people_factor.h"

/* -- the list -- */

static enum people_outcome list(struct people *p, void *state)
{
    struct account_whole *account = state;

    return people_account_read(p, account->item.account_id, account);
}

static void answer_list(struct worker *w, const void *state)
{
    const struct account_whole *account = state;
    struct jsonw json;

    system_success(w, &json, "These are the account's second factors.");
    system_members(&json, people_account_factor_members, account);
    jsonw_object_end(&json);
}

void h_account_factors(struct worker *w)
{
    struct account_whole account = {.has_credential = false};
    struct form query;

    if (system_caller(w, "people:read") &&
        system_path_id(w, 0, &account.item.account_id) &&
        system_query(w, (const char *const[]){NULL}, &query)) {
        (void) system_read(w, list, answer_list, &account);
    }
}

/* -- removing one -- */

static enum people_outcome end(struct people *p, void *state)
{
    return people_factor_remove(p, state);
}

static void answer_end(struct worker *w, const void *state)
{
    const struct factor_removal *removal = state;
    struct jsonw json;

    w->subject_id = removal->account.account_id;
    system_success(w, &json, "The factor was removed.");
    jsonw_cstr(&json, "accountId", removal->account.account_id);
    jsonw_cstr(&json, "factorId", removal->factor_id);
    jsonw_object_end(&json);
}

void h_account_factors_end(struct worker *w)
{
    struct factor_removal removal = {.removed = 0};

    if (system_caller(w, "credentials:write") &&
        system_path_id(w, 0, &removal.ref) &&
        system_path_id(w, 1, &removal.factor_id) &&
        system_change(w, false, end, answer_end, &removal)) {
        system_audit(w, &(struct system_event){
                            .event = "account.factor_removed",
                            .account_id = removal.account.account_id});
    }
}
