/* GET /api/system/audit: who changed what */

#include "auth/handlers.h"
#include "auth/system.h"
#include "people/people_audit.h"

struct audit {
    struct audit_query query;
    struct people_rows page;
};

static bool read_query(struct worker *w, struct audit_query *q)
{
    static const char *const known[] = {"accountId", "event", "since", "until",
                                        "limit",     "after", NULL};
    struct form query;

    q->limit = PEOPLE_PAGE;
    return system_query(w, known, &query) &&
           system_uuid(w, &query, "accountId", &q->account_id) &&
           system_text(w, &query, "event", &q->event) &&
           system_time(w, &query, "since", &q->since_us) &&
           system_time(w, &query, "until", &q->until_us) &&
           system_number(w, &query, "limit", PEOPLE_PAGE_MAX, &q->limit) &&
           system_number(w, &query, "after", INT64_MAX, &q->after);
}

static enum people_outcome list(struct people *p, void *state)
{
    struct audit *audit = state;

    return people_audit_list(p, &audit->query, &audit->page);
}

static void answer(struct worker *w, const void *state)
{
    const struct audit *audit = state;
    struct jsonw json;

    system_success(w, &json, "These are the events.");
    system_list(w, &json, "events", people_audit_members, &audit->page,
                people_audit_cursor);
    jsonw_object_end(&json);
}

void h_system_audit(struct worker *w)
{
    struct audit audit = {.query = {.after = 0}};

    if (system_caller(w, "audit:read") && read_query(w, &audit.query)) {
        (void) system_read(w, list, answer, &audit);
    }
}
