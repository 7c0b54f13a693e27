/* The audit: who changed what. */

#include "people/people_audit.h"

#include "store/sql.h"

#include <stdio.h>

#define MEMBER(name, type, field)                                              \
    PEOPLE_MEMBER(name, type, struct audit_event, field)

/* In the order of the columns. */
const struct people_member people_audit_members[] = {
    MEMBER("eventId", NUMBER, event_id),
    MEMBER("time", TIME, time_us),
    MEMBER("event", TEXT, event),
    MEMBER("operator", TEXT, operator),
    MEMBER("byAccountId", ID, by_account_id),
    MEMBER("byTokenId", ID, by_token_id),
    MEMBER("accountId", ID, account_id),
    MEMBER("sessionId", ID, session_id),
    MEMBER("tenantId", ID, tenant_id),
    MEMBER("workspaceId", ID, workspace_id),
    MEMBER("branchId", ID, branch_id),
    MEMBER("memberId", ID, member_id),
    MEMBER("roles", LIST, roles),
    MEMBER("requestId", TEXT, request_id),
    MEMBER("address", TEXT, address),
    PEOPLE_MEMBERS_END,
};

static const struct db_statement audit_find_sql = {
    "audit_find", "SELECT event_at FROM audit_events WHERE event_id = $1",
    false};

static const struct db_statement audit_list_sql = {
    "audit_list",
    "SELECT event_id, event_at, event, operator, by_account,"
    "       by_jti, account_id, session_id, tenant_id,"
    "       workspace_id, branch_id, member_id,"
    "       array_to_string(roles, ','), request_id, address"
    "  FROM audit_events"
    " WHERE ($1::uuid IS NULL OR account_id = $1)"
    "   AND ($2::text IS NULL OR event = $2)"
    "   AND ($3::timestamptz IS NULL OR event_at >= $3)"
    "   AND ($4::timestamptz IS NULL OR event_at < $4)"
    "   AND ($5::timestamptz IS NULL OR (event_at, event_id) < ($5, $6))"
    " ORDER BY event_at DESC, event_id DESC LIMIT $7",
    DB_SEARCHES};

#define OPTIONAL_TIME(us, set)                                                 \
    DB_VALUE(OID_TIMESTAMPTZ, .null = !(set), .number = (us) -DB_EPOCH_US)

enum people_outcome people_audit_list(struct people *p,
                                      const struct audit_query *query,
                                      struct people_rows *page)
{
    struct sql_query found = {0}, q = {0};
    enum people_outcome outcome;
    int64_t after_us = 0;

    if (query->after != 0) {
        db_params(&found.p, DB_INT(query->after));
        outcome = people_run(p, &found, &audit_find_sql);
        if (outcome != PEOPLE_DONE) {
            return outcome;
        }
        if (db_row_count(found.rows) > 0) {
            after_us = db_time_us(found.rows, 0, 0);
        }
        (void) sql_end(&found);
        if (after_us == 0) {
            return people_refuse(p, PEOPLE_INVALID, "after",
                                 "there is no event with this id");
        }
    }
    db_params(&q.p, db_id_or_null(query->account_id), db_any(query->event),
              OPTIONAL_TIME(query->since_us, query->since_us != 0),
              OPTIONAL_TIME(query->until_us, query->until_us != 0),
              OPTIONAL_TIME(after_us, query->after != 0), DB_INT(query->after),
              DB_INT(query->limit + 1));
    return people_list(p, &q, &audit_list_sql, people_audit_members,
                       sizeof(struct audit_event), query->limit, page);
}

const char *people_audit_cursor(struct people *p, const void *event)
{
    size_t cap = sizeof("-9223372036854775808");
    char *out = pj_arena_alloc(p->arena, cap);

    if (out != NULL) {
        snprintf(out, cap, "%lld",
                 (long long) ((const struct audit_event *) event)->event_id);
    }
    return out;
}
