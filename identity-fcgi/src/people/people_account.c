/* Accounts: finding and changing them. */

#include "people/people_account.h"

#include "people/people_session.h"
#include "store/sql.h"

#include <stdio.h>
#include <string.h>

/* In the order of the columns. */
const struct people_member people_account_members[] = {
    PEOPLE_ACCOUNT_ITEM(struct account_item, ), PEOPLE_MEMBERS_END};

#define COLUMNS "account_id, account_type, status, account_name, created_at"

/* -- the list -- */

#define OF_NAME                                                                \
    "   AND ($3::text IS NULL"                                                 \
    "        OR account_name COLLATE \"C\" ^@ lower($3 COLLATE \"C\"))"        \
    "   AND ($4::text IS NULL"                                                 \
    "        OR account_name COLLATE \"C\" > lower($4 COLLATE \"C\"))"         \
    " ORDER BY account_name COLLATE \"C\" LIMIT $5"

/* Each type and status has its own range of an index. */
static const struct db_statement account_list_sql = {
    "account_list",
    "SELECT a.* FROM unnest(CASE WHEN $1::text IS NULL"
    "   THEN ARRAY['CUSTOMER', 'OPERATOR', 'SYSTEM'] ELSE ARRAY[$1] END)"
    "   AS of_type"
    " CROSS JOIN unnest(CASE WHEN $2::text IS NULL"
    "   THEN ARRAY['ACTIVE', 'DISABLED'] ELSE ARRAY[$2] END) AS of_status"
    " CROSS JOIN LATERAL ("
    "   SELECT " COLUMNS " FROM accounts"
    "    WHERE account_type = of_type AND status = of_status" OF_NAME ") AS a"
    " ORDER BY account_name COLLATE \"C\" LIMIT $5",
    DB_SEARCHES};

static const struct db_statement account_list_of_sql = {
    "account_list_of",
    "SELECT a.account_id, account_type, a.status, account_name, a.created_at"
    "  FROM accounts a JOIN members m ON m.account_id = a.account_id"
    "   AND m.workspace_id = $6 AND m.status = 'ACTIVE'"
    " WHERE ($1::text IS NULL OR account_type = $1)"
    "   AND CASE WHEN $2::text IS NULL THEN a.status <> 'DELETED'"
    "            ELSE a.status = $2 END" OF_NAME,
    DB_SEARCHES};

enum people_outcome people_account_list(struct people *p,
                                        const struct account_query *query,
                                        struct people_rows *page)
{
    const char *after = query->after_name;
    bool of = query->workspace_id != NULL;
    struct sql_query q = {0};

    if (query->after != NULL) {
        enum people_outcome outcome =
            people_cursor_read(p, query->after, 1, &after);

        if (outcome != PEOPLE_DONE) {
            return outcome;
        }
    }
    db_params(&q.p, db_any(query->type), db_any(query->status),
              db_any(query->name), db_any(after), DB_INT(query->limit + 1));
    if (of) {
        db_params(&q.p, DB_ID(query->workspace_id));
    }
    return people_list(p, &q, of ? &account_list_of_sql : &account_list_sql,
                       people_account_members, sizeof(struct account_item),
                       query->limit, page);
}

const char *people_account_cursor(struct people *p, const void *item)
{
    const struct account_item *account = item;

    return people_cursor(p, &account->name, 1);
}

/* -- one account -- */

struct grant {
    const char *member_id, *workspace_id, *workspace_name;
    const char *branch_id, *branch_name, *roles;
};

static const struct people_member grant_columns[] = {
    PEOPLE_MEMBER("memberId", ID, struct grant, member_id),
    PEOPLE_MEMBER("workspaceId", ID, struct grant, workspace_id),
    PEOPLE_MEMBER("workspaceName", TEXT, struct grant, workspace_name),
    PEOPLE_MEMBER("branchId", ID, struct grant, branch_id),
    PEOPLE_MEMBER("branchName", TEXT, struct grant, branch_name),
    PEOPLE_MEMBER("roles", LIST, struct grant, roles),
    PEOPLE_MEMBERS_END};

static const struct people_member grant_members[] = {
    PEOPLE_MEMBER("branchId", ID, struct grant, branch_id),
    PEOPLE_MEMBER("branchName", TEXT, struct grant, branch_name),
    PEOPLE_MEMBER("roles", LIST, struct grant, roles), PEOPLE_MEMBERS_END};

struct membership {
    const char *member_id, *status;
    int64_t created_us, branches;
    const char *workspace_id, *workspace_name, *account_id, *account;
    struct people_rows grants;
};

static const struct people_member membership_members[] = {
    PEOPLE_MEMBER("memberId", ID, struct membership, member_id),
    PEOPLE_MEMBER("status", TEXT, struct membership, status),
    PEOPLE_MEMBER("createdAt", TIME, struct membership, created_us),
    PEOPLE_MEMBER("branches", NUMBER, struct membership, branches),
    PEOPLE_MEMBER("workspaceId", ID, struct membership, workspace_id),
    PEOPLE_MEMBER("workspaceName", TEXT, struct membership, workspace_name),
    PEOPLE_MEMBER("accountId", ID, struct membership, account_id),
    PEOPLE_MEMBER("account", TEXT, struct membership, account),
    {"grants", PEOPLE_ROWS, offsetof(struct membership, grants), grant_members},
    PEOPLE_MEMBERS_END};

struct account_factor {
    const char *factor_id, *type, *name;
    int64_t created_us, used_us;
};

static const struct people_member factor_members[] = {
    PEOPLE_MEMBER("factorId", ID, struct account_factor, factor_id),
    PEOPLE_MEMBER("type", TEXT, struct account_factor, type),
    PEOPLE_MEMBER("name", TEXT, struct account_factor, name),
    PEOPLE_MEMBER("createdAt", TIME, struct account_factor, created_us),
    PEOPLE_MEMBER("usedAt", TIME, struct account_factor, used_us),
    PEOPLE_MEMBERS_END};

const struct people_member people_account_factor_members[] = {
    {"factors", PEOPLE_ROWS, offsetof(struct account_whole, factors),
     factor_members},
    PEOPLE_MEMBER("recoveryCodesLeft", NUMBER, struct account_whole,
                  recovery_codes),
    PEOPLE_MEMBERS_END};

const struct people_member people_account_whole_members[] = {
    PEOPLE_ACCOUNT_ITEM(struct account_whole, item.),
    PEOPLE_MEMBER("updatedAt", TIME, struct account_whole, updated_us),
    PEOPLE_MEMBER("sessionsValidAfter", TIME, struct account_whole,
                  valid_after_us),
    PEOPLE_MEMBER("deletedAt", TIME, struct account_whole, deleted_us),
    PEOPLE_MEMBER("hasCredential", BOOL, struct account_whole, has_credential),
    PEOPLE_MEMBER("factorRequired", BOOL, struct account_whole,
                  factor_required),
    PEOPLE_MEMBER("recoveryCodesLeft", NUMBER, struct account_whole,
                  recovery_codes),
    {"factors", PEOPLE_ROWS, offsetof(struct account_whole, factors),
     factor_members},
    {"memberships", PEOPLE_ROWS, offsetof(struct account_whole, memberships),
     membership_members},
    PEOPLE_MEMBERS_END};

const struct people_member people_account_lists[] = {
    {"memberships", PEOPLE_ROWS, offsetof(struct account_whole, memberships),
     membership_members},
    {"grants", PEOPLE_ROWS, offsetof(struct account_whole, grants),
     grant_columns},
    {"factors", PEOPLE_ROWS, offsetof(struct account_whole, factors),
     factor_members},
    PEOPLE_MEMBERS_END};

#define FIND(more)                                                             \
    "SELECT " COLUMNS more " FROM accounts"                                    \
    " WHERE account_id = $1 OR account_name COLLATE \"C\" = $2"

static const struct db_statement account_find_sql = {
    "account_find_whole",
    FIND(", updated_at,"
         " nullif(least(sessions_valid_after, '9999-01-01Z'), '-infinity'),"
         " deleted_at, credential_hash NOT LIKE '$argon2id$%$" MODEL_NOBODY_SALT
         "$%', factor_required, (SELECT count(*) FROM recovery_codes c"
         "   WHERE c.account_id = accounts.account_id AND c.used_at IS NULL)"),
    DB_READS};

static const struct db_statement account_memberships_sql = {
    "account_memberships",
    "SELECT member_id, m.status, m.created_at,"
    "       (SELECT count(*) FROM branch_grants g"
    "         WHERE g.member_id = m.member_id),"
    "       workspace_id, workspace_name, account_id, account_name"
    "  FROM members m JOIN accounts USING (account_id)"
    "  JOIN workspaces USING (workspace_id) WHERE account_id = $1"
    " ORDER BY workspace_name COLLATE \"C\", member_id",
    DB_READS};

static const struct db_statement account_grants_sql = {
    "account_grants",
    "SELECT member_id, g.workspace_id, workspace_name, branch_id, branch_name,"
    "       (SELECT string_agg(role_code, ',' ORDER BY role_code)"
    "          FROM member_roles r WHERE r.member_id = g.member_id"
    "           AND r.branch_id = g.branch_id)"
    "  FROM members m JOIN branch_grants g USING (member_id)"
    "  JOIN branches b USING (branch_id)"
    "  JOIN workspaces w ON w.workspace_id = g.workspace_id"
    " WHERE account_id = $1 ORDER BY branch_id",
    DB_READS};

/* Gives a membership its own grants. */
static bool nest(struct people *p, const struct people_rows *all,
                 struct membership *m)
{
    const struct grant *grants = all->items;
    struct grant *own =
        pj_arena_alloc(p->arena, ((size_t) m->branches + 1) * sizeof(*own));

    m->grants = (struct people_rows){.items = own, .size = sizeof(*own)};
    for (size_t i = 0; own != NULL && i < all->count; i++) {
        if (strcmp(grants[i].member_id, m->member_id) == 0 &&
            m->grants.count < (size_t) m->branches) {
            own[m->grants.count++] = grants[i];
        }
    }
    return own != NULL;
}

static enum people_outcome read_memberships(struct people *p,
                                            struct account_whole *out)
{
    struct sql_query memberships = {0}, grants = {0};
    enum people_outcome outcome;
    struct membership *items;

    db_params(&memberships.p, DB_ID(out->item.account_id));
    db_params(&grants.p, DB_ID(out->item.account_id));
    outcome = people_list(p, &memberships, &account_memberships_sql,
                          membership_members, sizeof(struct membership),
                          INT32_MAX, &out->memberships);
    if (outcome == PEOPLE_DONE) {
        outcome = people_list(p, &grants, &account_grants_sql, grant_columns,
                              sizeof(struct grant), INT32_MAX, &out->grants);
    }
    items = (struct membership *) out->memberships.items;
    for (size_t i = 0; outcome == PEOPLE_DONE && i < out->memberships.count;
         i++) {
        if (!nest(p, &out->grants, &items[i])) {
            outcome = PEOPLE_FAILED;
        }
    }
    return outcome;
}

static const struct db_statement account_factors_sql = {
    "account_factors",
    "SELECT factor_id, factor_type, factor_name, created_at, used_at"
    "  FROM factors WHERE account_id = $1 AND confirmed_at IS NOT NULL"
    " ORDER BY created_at, factor_id",
    DB_READS};

static enum people_outcome read_factors(struct people *p,
                                        struct account_whole *out)
{
    struct sql_query q = {0};

    db_params(&q.p, DB_ID(out->item.account_id));
    return people_list(p, &q, &account_factors_sql, factor_members,
                       sizeof(struct account_factor), PEOPLE_PAGE_MAX,
                       &out->factors);
}

enum people_outcome people_account_read(struct people *p, const char *id,
                                        struct account_whole *out)
{
    enum people_outcome outcome =
        people_find(p, &account_find_sql, "account", id, NULL, 0,
                    people_account_whole_members, out);

    if (outcome == PEOPLE_DONE) {
        outcome = read_factors(p, out);
    }

    return outcome == PEOPLE_DONE ? read_memberships(p, out) : outcome;
}

static const struct db_statement account_ref_sql = {"account_ref", FIND(""),
                                                    DB_READS};

enum people_outcome people_account_find(struct people *p, const char *ref,
                                        struct account_item *out)
{
    return people_find(p, &account_ref_sql, "account", ref, NULL, 0,
                       people_account_members, out);
}

static const struct db_statement account_clock_sql = {
    "account_clock",
    "SELECT clock_timestamp(), " SQL_VALID_AFTER("a") " FROM accounts a"
                                                      " WHERE account_id = $1",
    DB_READS};

enum people_outcome people_account_clock(struct people *p, const char *id,
                                         struct store_clock *out)
{
    struct sql_query q = {0};
    enum people_outcome outcome;

    db_params(&q.p, DB_ID(id));
    outcome = people_run(p, &q, &account_clock_sql);
    if (outcome == PEOPLE_DONE) {
        sql_copy_clock(q.rows, 0, out);
        (void) sql_end(&q);
    }
    return outcome;
}

/* -- changing -- */

static const struct db_statement account_lock_sql = {
    "account_lock", FIND("") " FOR NO KEY UPDATE", DB_WRITES};

enum people_outcome people_account_lock_any(struct people *p, const char *ref,
                                            struct account_item *out)
{
    enum people_outcome outcome =
        people_find(p, &account_lock_sql, "account", ref, NULL, 0,
                    people_account_members, out);

    return outcome == PEOPLE_DONE ? people_may(p, out->type) : outcome;
}

enum people_outcome people_account_lock(struct people *p, const char *ref,
                                        struct account_item *out)
{
    enum people_outcome outcome = people_account_lock_any(p, ref, out);

    if (outcome == PEOPLE_DONE && strcmp(out->status, "DELETED") == 0) {
        return people_refuse(p, PEOPLE_CONFLICT, NULL,
                             "this account is deleted");
    }
    return outcome;
}

enum people_outcome people_account_check_name(struct people *p,
                                              const char *name)
{
    return people_is_id(name) ? people_refuse(p, PEOPLE_INVALID, "account",
                                              "an account's name cannot be a "
                                              "UUID")
                              : PEOPLE_DONE;
}

/* -- adding -- */

static const struct db_statement account_add_sql = {
    "account_add", "SELECT import_account($1, $2, $3)", DB_WRITES};

/* result is that of import_account(): "made", "known", or a refusal, which is a
 * constraint's name or a sentence. */
enum people_outcome people_account_result(struct people *p, const char *result)
{
    enum people_outcome outcome;

    if (strcmp(result, "made") == 0) {
        return PEOPLE_DONE;
    }
    outcome = people_violated(p, strcmp(result, "known") == 0 ? "accounts_name"
                                                              : result);
    return outcome != PEOPLE_FAILED
               ? outcome
               : people_refuse(p, PEOPLE_INVALID, NULL, "%s", result);
}

enum people_outcome people_account_add(struct people *p,
                                       const struct account_new *given,
                                       struct account_item *out)
{
    enum people_outcome outcome = people_account_check_name(p, given->name);
    struct sql_query q = {0};
    char line[64];

    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    snprintf(line, sizeof(line), "{\"type\":\"%s\"}", given->type);
    db_params(&q.p, DB_TEXT(given->name), DB_TEXT(given->hash),
              DB_TEXT(given->line != NULL ? given->line : line));
    outcome = people_run(p, &q, &account_add_sql);
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    outcome = people_account_result(p, db_text(q.rows, 0, 0, NULL));
    (void) sql_end(&q);
    if (outcome != PEOPLE_DONE && outcome != PEOPLE_EXISTS &&
        (p->field == NULL || strcmp(p->field, "type") != 0)) {
        p->field = "memberships";
    }
    /* Also refuses a type that the caller may not make. */
    return outcome == PEOPLE_DONE ? people_account_lock(p, given->name, out)
                                  : outcome;
}

/* -- importing -- */

static const struct people_member imported_members[] = {
    PEOPLE_MEMBER("number", NUMBER, struct account_imported, number),
    PEOPLE_MEMBER("result", TEXT, struct account_imported, result),
    PEOPLE_MEMBER("refused", BOOL, struct account_imported, refused),
    PEOPLE_MEMBERS_END};

static const struct db_statement account_import_sql = {
    "account_import",
    "SELECT (l->>'n')::bigint, CASE WHEN l ? 'why' THEN l->>'why'"
    "       ELSE import_account(l->>'name', l->>'hash', l->>'line') END,"
    "       l ? 'why'"
    "  FROM jsonb_array_elements($1::text::jsonb) AS b (l)",
    DB_WRITES};

enum people_outcome people_account_import(struct people *p, const char *batch,
                                          struct people_rows *out)
{
    struct sql_query q = {0};

    db_params(&q.p, DB_TEXT(batch));
    return people_list(p, &q, &account_import_sql, imported_members,
                       sizeof(struct account_imported), INT32_MAX, out);
}

/* -- name and status -- */

const struct people_member people_account_change_members[] = {
    PEOPLE_ACCOUNT_ITEM(struct account_change, account.),
    PEOPLE_MEMBER("changed", BOOL, struct account_change, changed),
    PEOPLE_MEMBER("revokedSessions", NUMBER, struct account_change, ended),
    PEOPLE_MEMBERS_END};

static const struct db_statement account_change_sql = {
    "account_change",
    "UPDATE accounts SET account_name = $2, status = $3, updated_at = now(),"
    "       credential_hash = coalesce($4, credential_hash)"
    " WHERE account_id = $1",
    DB_WRITES};

static void name_events(struct account_change *c, bool renamed, bool set_status)
{
    bool disabled = strcmp(c->account.status, "DISABLED") == 0;
    const char **next = c->events;

    memset(c->events, 0, sizeof(c->events));
    if (renamed) {
        *next++ = "account.renamed";
    }
    if (c->hash != NULL) {
        *next++ = "account.credential_set";
    }
    if (set_status || (c->status != NULL && c->ended > 0)) {
        *next = disabled ? "account.disabled" : "account.enabled";
    }
}

enum people_outcome people_account_change(struct people *p,
                                          struct account_change *c)
{
    struct account_item *account = &c->account;
    enum people_outcome outcome = people_account_lock(p, c->ref, account);
    bool renamed, set_status;

    if (outcome == PEOPLE_DONE && c->name != NULL) {
        outcome = people_account_check_name(p, c->name);
    }
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    renamed = c->name != NULL && strcmp(c->name, account->name) != 0;
    set_status = c->status != NULL && strcmp(c->status, account->status) != 0;
    account->name = renamed ? c->name : account->name;
    account->status = set_status ? c->status : account->status;
    c->changed = renamed || set_status || c->hash != NULL;
    c->ended = 0;
    if (c->changed) {
        outcome = people_do(p, &account_change_sql, NULL,
                            DB_ID(account->account_id), DB_TEXT(account->name),
                            DB_TEXT(account->status), db_any(c->hash));
    }
    if (outcome == PEOPLE_DONE &&
        (c->hash != NULL ||
         (c->status != NULL && strcmp(c->status, "DISABLED") == 0))) {
        outcome = people_session_lock_out(p, account->account_id, &c->ended);
    }
    name_events(c, renamed, set_status);
    return outcome;
}
