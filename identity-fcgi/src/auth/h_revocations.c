/* GET /internal/revocations: the feed of revocations for gateways. */

#include "auth/handlers.h"

#include "store/store.h"

#include <string.h>

static void answer(struct worker *w, const struct revocations *r)
{
    struct jsonw json;

    auth_json(w, &json);
    /* Before the list, because gateways process entries while receiving. */
    jsonw_cstr(&json, "issuer", w->cfg->jwt_issuer);
    jsonw_cstr(&json, "cursor", r->cursor);
    jsonw_bool(&json, "more", r->list.more);
    jsonw_json(&json, "now", r->now, strlen(r->now));
    auth_list(&json, "revocations", &r->list);
    jsonw_object_end(&json);
}

void h_revocations(struct worker *w)
{
    static const char after[] = "after=";
    struct revocations found;
    const char *cursor = "";

    /* Values of the request's parameters are NUL-terminated. */
    if (w->req->query.len > 0) {
        cursor = (const char *) w->req->query.data;
        if (strncmp(cursor, after, sizeof(after) - 1) != 0) {
            (void) auth_invalid(
                w, (struct fault){.code = FAULT_MISSING, .parameter = "after"},
                "The query has to be after=CURSOR.");
            return;
        }
        cursor += sizeof(after) - 1;
    }
    switch (store_revocations(&w->store, &w->arena, cursor, &found)) {
    case STORE_OK:
        answer(w, &found);
        break;
    case STORE_NONE:
        (void) auth_invalid(
            w, (struct fault){.code = FAULT_UNKNOWN, .parameter = "after"},
            "This cursor is not of this database, or is too old: begin "
            "without one.");
        break;
    default:
        (void) auth_database_unavailable(w);
    }
}
