/* GET /internal/revocations: what gateways refuse, for them to read on. */

#include "auth/handlers.h"

#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* Seconds since 1970, to the microsecond. */
static void add_time(struct jsonw *json, const char *name, int64_t us)
{
    char text[32];
    int len = snprintf(text, sizeof(text), "%" PRId64 ".%06" PRId64,
                       us / 1000000, us % 1000000);

    jsonw_json(json, name, text, (size_t) len);
}

static void answer(struct worker *w, const struct revocations *list)
{
    struct jsonw json;

    auth_json(w, &json);
    /* Ahead of the list: gateways read an entry as soon as it is there. */
    jsonw_cstr(&json, "issuer", w->cfg->jwt_issuer);
    jsonw_cstr(&json, "cursor", list->cursor);
    jsonw_bool(&json, "more", list->more);
    add_time(&json, "now", list->now_us);
    jsonw_array(&json, "revocations");
    for (size_t i = 0; i < list->count; i++) {
        const struct revocation *r = &list->items[i];

        jsonw_object(&json, NULL);
        if (r->session_id[0] != '\0') {
            jsonw_cstr(&json, "id", r->session_id);
        } else {
            jsonw_cstr(&json, "subject", r->account_id);
            jsonw_int(&json, "issued_before", r->issued_before_s);
        }
        add_time(&json, "revoked_at", r->revoked_at_us);
        jsonw_int(&json, "dies_at", r->dies_at_us / 1000000 + 1);
        jsonw_object_end(&json);
    }
    jsonw_array_end(&json);
    jsonw_object_end(&json);
}

void h_revocations(struct worker *w)
{
    static const char after[] = "after=";
    struct revocations list;
    const char *cursor = "";

    /* A value of the request's parameters ends in a NUL. */
    if (w->req->query.len > 0) {
        cursor = (const char *) w->req->query.data;
        if (strncmp(cursor, after, sizeof(after) - 1) != 0) {
            (void) auth_invalid(w, "The query has to be after=CURSOR.");
            return;
        }
        cursor += sizeof(after) - 1;
    }
    switch (store_revocations(&w->store, &w->arena, cursor, &list)) {
    case STORE_OK:
        answer(w, &list);
        break;
    case STORE_NONE:
        (void) auth_invalid(w, "This cursor is not of this database, or is "
                               "too old: begin without one.");
        break;
    default:
        (void) auth_database_unavailable(w);
    }
}
