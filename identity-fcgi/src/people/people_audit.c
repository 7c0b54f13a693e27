/* The audit: who changed what. */

#include "people/people_audit.h"

#include "store/sql.h"

#define MEMBER(name, type, field)                                              \
    {                                                                          \
        name, PEOPLE_##type, offsetof(struct audit_event, field)               \
    }

/* In the order of the columns. */
const struct people_member people_audit_members[] = {
    MEMBER("eventId", NUMBER, event_id),
    MEMBER("time", TIME, time_us),
    MEMBER("event", TEXT, event),
    MEMBER("operator", TEXT, operator),
    MEMBER("byAccountId", TEXT, by_account_id),
    MEMBER("byTokenId", TEXT, by_token_id),
    MEMBER("accountId", TEXT, account_id),
    MEMBER("sessionId", TEXT, session_id),
    MEMBER("tenantId", TEXT, tenant_id),
    MEMBER("workspaceId", TEXT, workspace_id),
    MEMBER("branchId", TEXT, branch_id),
    MEMBER("memberId", TEXT, member_id),
    MEMBER("roles", LIST, roles),
    MEMBER("requestId", TEXT, request_id),
    MEMBER("address", TEXT, address),
    {NULL, PEOPLE_TEXT, 0},
};

static const struct db_statement audit_find_sql = {
    "audit_find", "SELECT event_at FROM audit_events WHERE event_id = $1",
    false};

static const struct db_statement audit_list_sql = {
    "audit_list",
    "SELECT event_id, event_at, event, operator, by_account::text,"
    "       by_jti::text, account_id::text, session_id::text, tenant_id::text,"
    "       workspace_id::text, branch_id::text, member_id::text,"
    "       array_to_string(roles, ','), request_id, address"
    "  FROM audit_events"
    " WHERE ($1::uuid IS NULL OR account_id = $1)"
    "   AND ($2::text IS NULL OR event = $2)"
    "   AND ($3::timestamptz IS NULL OR event_at >= $3)"
    "   AND ($4::timestamptz IS NULL OR event_at < $4)"
    "   AND ($5::timestamptz IS NULL OR (event_at, event_id) < ($5, $6))"
    " ORDER BY event_at DESC, event_id DESC LIMIT $7",
    false};

/* Reads the row into the fields of members, in their order. */
static bool copy(const struct db_rows *rows, size_t row,
                 const struct people_member *members, pj_arena_t *arena,
                 void *out)
{
    for (int col = 0; members[col].name != NULL; col++) {
        char *field = (char *) out + members[col].offset;

        if (members[col].type == PEOPLE_NUMBER) {
            *(int64_t *) (void *) field = db_int64(rows, row, col);
        } else if (members[col].type == PEOPLE_TIME) {
            *(int64_t *) (void *) field = db_time_us(rows, row, col);
        } else if (!db_is_null(rows, row, col)) {
            const char *text =
                sql_copy_string(arena, db_text(rows, row, col, NULL));

            if (text == NULL) {
                return false;
            }
            *(const char **) (void *) field = text;
        }
    }
    return true;
}

static bool copy_page(const struct db_rows *rows, int64_t limit,
                      pj_arena_t *arena, struct audit_page *page)
{
    struct audit_event *events;

    page->count = db_row_count(rows);
    page->more = page->count > (size_t) limit;
    page->count -= page->more;
    events = pj_arena_alloc(arena, (page->count + 1) * sizeof(*events));
    page->events = events;
    for (size_t i = 0; events != NULL && i < page->count; i++) {
        events[i] = (struct audit_event){.event_id = 0};
        if (!copy(rows, i, people_audit_members, arena, &events[i])) {
            return false;
        }
    }
    return events != NULL;
}

#define OPTIONAL_TIME(us, set)                                                 \
    DB_VALUE(OID_TIMESTAMPTZ, .null = !(set), .number = (us) -DB_EPOCH_US)

enum store_result people_audit_list(struct store *st, pj_arena_t *arena,
                                    const struct audit_query *query,
                                    struct audit_page *page)
{
    struct sql_query found = {0}, q = {0};
    enum store_result result;
    int64_t after_us = 0;

    *page = (struct audit_page){.events = NULL};
    if (query->after != 0) {
        db_params(&found.p, DB_INT(query->after));
        if (sql_run_one(&found, st, &audit_find_sql)) {
            after_us = db_time_us(found.rows, 0, 0);
        }
        result = sql_end(&found);
        if (result != STORE_OK) {
            return result;
        }
    }
    db_params(&q.p, db_id_or_null(query->account_id), db_any(query->event),
              OPTIONAL_TIME(query->since_us, query->since_us != 0),
              OPTIONAL_TIME(query->until_us, query->until_us != 0),
              OPTIONAL_TIME(after_us, query->after != 0), DB_INT(query->after),
              DB_INT(query->limit + 1));
    if (sql_run(&q, st, &audit_list_sql, NULL) &&
        !copy_page(q.rows, query->limit, arena, page)) {
        q.result = STORE_UNAVAILABLE;
    }
    return sql_end(&q);
}
