/* Members of workspaces, and what they are granted there.  A change locks the
 * account's row first, so that changes of one account come one after the
 * other. */

#include "people/people_member.h"

#include "base/buf.h"
#include "people/people_account.h"
#include "people/people_place.h"
#include "store/sql.h"

#include <string.h>

#define MEMBER(name, type, field)                                              \
    PEOPLE_MEMBER(name, type, struct member, field)
/* In the order of the columns. */
#define MEMBER_MEMBERS                                                         \
    MEMBER("memberId", ID, member_id), MEMBER("accountId", ID, account_id),    \
        MEMBER("account", TEXT, account), MEMBER("status", TEXT, status),      \
        MEMBER("workspaceId", ID, workspace_id),                               \
        MEMBER("workspaceName", TEXT, workspace_name),                         \
        MEMBER("branches", NUMBER, branches),                                  \
        MEMBER("createdAt", TIME, created_us)

#define GRANT(name, type, field)                                               \
    PEOPLE_MEMBER(name, type, struct member_grant, field)
static const struct people_member grant_members[] = {
    GRANT("branchId", ID, branch_id),
    GRANT("branchName", TEXT, branch_name),
    GRANT("roles", LIST, roles),
    PEOPLE_MEMBERS_END,
};

const struct people_member people_member_members[] = {
    MEMBER_MEMBERS,
    PEOPLE_MEMBERS_END,
};
const struct people_member people_member_changed[] = {
    MEMBER_MEMBERS,
    {"grants", PEOPLE_ROWS, offsetof(struct member, grants), grant_members},
    MEMBER("revokedBranches", NUMBER, revoked),
    MEMBER("changed", BOOL, changed),
    PEOPLE_MEMBERS_END,
};

const struct people_member people_member_granted[] = {
    GRANT("accountId", ID, account_id),
    GRANT("memberId", ID, member_id),
    GRANT("workspaceId", ID, workspace_id),
    GRANT("workspaceName", TEXT, workspace_name),
    GRANT("branchId", ID, branch_id),
    GRANT("branchName", TEXT, branch_name),
    GRANT("granted", BOOL, granted),
    GRANT("roles", LIST, roles),
    GRANT("changed", BOOL, changed),
    PEOPLE_MEMBERS_END,
};

/* -- the account and its membership -- */

#define SELECT                                                                 \
    "SELECT m.member_id, m.account_id, a.account_name, m.status,"              \
    "       m.workspace_id, w.workspace_name,"                                 \
    "       (SELECT count(*) FROM branch_grants g"                             \
    "         WHERE g.member_id = m.member_id), m.created_at"                  \
    "  FROM members m JOIN accounts a ON a.account_id = m.account_id"          \
    "  JOIN workspaces w ON w.workspace_id = m.workspace_id"

static const struct db_statement member_sql = {
    "member_read", SELECT " WHERE m.account_id = $1 AND m.workspace_id = $2",
    false};
static const struct db_statement add_sql = {
    "member_add",
    "INSERT INTO members (account_id, workspace_id) VALUES ($1, $2)"
    " ON CONFLICT (account_id, workspace_id) DO UPDATE SET status = 'ACTIVE'",
    true};
static const struct db_statement end_sql = {
    "member_end", "UPDATE members SET status = 'INACTIVE' WHERE member_id = $1",
    true};
static const struct db_statement end_grants_sql = {
    "member_end_grants", "DELETE FROM branch_grants WHERE member_id = $1",
    true};

/* Reads the membership.  PEOPLE_NOT_FOUND if there is none, with the names of
 * the account and the workspace. */
static enum people_outcome read_member(struct people *p, struct member *out)
{
    struct people_rows rows = {NULL};
    struct sql_query q = {0};
    enum people_outcome outcome;

    db_params(&q.p, DB_ID(out->account_id), DB_ID(out->workspace_id));
    outcome = people_list(p, &q, &member_sql, people_member_members,
                          sizeof(*out), 1, &rows);
    if (outcome == PEOPLE_DONE && rows.count == 0) {
        return people_refuse(p, PEOPLE_NOT_FOUND, NULL,
                             "\"%s\" is not a member of \"%s\"", out->account,
                             out->workspace_name);
    }
    if (outcome == PEOPLE_DONE) {
        *out = *(const struct member *) rows.items;
    }
    return outcome;
}

static enum people_outcome find_member(struct people *p,
                                       const struct member_change *change,
                                       struct member *out)
{
    enum people_outcome outcome;
    struct place workspace;
    struct account_item account;

    *out = (struct member){NULL};
    outcome = people_account_lock(p, change->account, &account);
    if (outcome == PEOPLE_DONE) {
        outcome = people_place_find(p, PLACE_WORKSPACE, change->workspace, NULL,
                                    &workspace);
    }
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    out->account_id = account.account_id;
    out->account = account.name;
    out->workspace_id = workspace.id;
    out->workspace_name = workspace.name;
    return read_member(p, out);
}

/* -- exact grants -- */

static const struct people_member wish_members[] = {
    GRANT("branchId", ID, branch_id),
    GRANT("branchName", TEXT, branch_name),
    GRANT("roles", LIST, roles),
    GRANT("granted", BOOL, granted),
    GRANT("event", TEXT, event),
    GRANT("position", NUMBER, position),
    PEOPLE_MEMBERS_END,
};

/* Parameters: the member; the wanted branches, separated by commas; for each
 * branch its roles, separated by commas, with semicolons between branches; the
 * workspace. */
#define WISH "unnest(string_to_array($2, ','), string_to_array($3, ';'))"

/* The present and the wanted grants, which are the same if nothing is wanted.
 */
static const struct db_statement wish_sql = {
    "member_wish",
    "WITH had AS ("
    "  SELECT branch_id, ARRAY("
    "           SELECT role_code FROM member_roles r"
    "            WHERE r.member_id = g.member_id"
    "              AND r.branch_id = g.branch_id ORDER BY 1) AS roles"
    "    FROM branch_grants g WHERE member_id = $1),"
    " wished AS ("
    "  SELECT branch::uuid AS branch_id, ARRAY("
    "           SELECT DISTINCT role COLLATE \"C\""
    "             FROM unnest(string_to_array(given, ',')) AS role"
    "            ORDER BY 1) AS roles, position"
    "    FROM " WISH " WITH ORDINALITY AS t (branch, given, position)"
    "  UNION ALL SELECT *, 0 FROM had WHERE $2 IS NULL)"
    " SELECT coalesce(w.branch_id, h.branch_id), branch_name,"
    "        array_to_string(coalesce(w.roles, '{}'), ','),"
    "        w.branch_id IS NOT NULL,"
    "        CASE WHEN h.branch_id IS NULL OR NOT w.roles <@ h.roles"
    "             THEN 'member.granted'"
    "             WHEN w.branch_id IS NULL OR NOT h.roles <@ w.roles"
    "             THEN 'member.revoked' END,"
    "        coalesce(position, 0)"
    "   FROM wished w FULL JOIN had h ON h.branch_id = w.branch_id"
    "   LEFT JOIN branches b ON b.workspace_id = $4"
    "    AND b.branch_id = coalesce(w.branch_id, h.branch_id)"
    "  ORDER BY 1",
    false};

static const struct db_statement apply_sql[] = {
    {"member_wish_revoke",
     "DELETE FROM branch_grants WHERE member_id = $1"
     "   AND branch_id <> ALL (string_to_array($2, ',')::uuid[])",
     true},
    {"member_wish_grant",
     "INSERT INTO branch_grants (member_id, branch_id, workspace_id)"
     " SELECT $1, unnest(string_to_array($2, ',')::uuid[]), $4"
     " ON CONFLICT DO NOTHING",
     true},
    {"member_wish_revoke_roles",
     "DELETE FROM member_roles WHERE member_id = $1"
     "   AND (branch_id, role_code) NOT IN ("
     "       SELECT branch::uuid, unnest(string_to_array(roles, ','))"
     "         FROM " WISH " AS t (branch, roles))",
     true},
    {"member_wish_grant_roles",
     "INSERT INTO member_roles (member_id, branch_id, role_code)"
     " SELECT $1, branch::uuid, unnest(string_to_array(roles, ','))"
     "   FROM " WISH " AS t (branch, roles) ON CONFLICT DO NOTHING",
     true},
};

/* Sets the parameters 2 and 3. */
static bool write_wish(struct people *p, const struct member_change *change,
                       const char *out[2])
{
    size_t cap = 1;
    struct buf branches, roles;
    char *mem;

    for (size_t i = 0; i < change->grant_count; i++) {
        cap += strlen(change->grants[i].roles) + STORE_UUID;
    }
    mem = pj_arena_alloc(p->arena, 2 * cap);
    if (mem == NULL) {
        return false;
    }
    buf_init(&branches, mem, cap);
    buf_init(&roles, mem + cap, cap);
    for (size_t i = 0; i < change->grant_count; i++) {
        buf_addf(&branches, "%s%s", i > 0 ? "," : "",
                 change->grants[i].branch_id);
        buf_addf(&roles, "%s%s", i > 0 ? ";" : "", change->grants[i].roles);
    }
    buf_addc(&branches, '\0');
    buf_addc(&roles, '\0');
    out[0] = mem;
    out[1] = mem + cap;
    return !branches.overflow && !roles.overflow;
}

static enum people_outcome
refuse_wish(struct people *p, const struct member_grant *grant, const char *why)
{
    char *field = pj_arena_alloc(p->arena, 64);
    struct buf text;

    if (field == NULL) {
        return PEOPLE_FAILED;
    }
    buf_init(&text, field, 64);
    buf_addf(&text, "grants/%zu/branchId", (size_t) grant->position - 1);
    buf_addc(&text, '\0');
    return people_refuse(p, PEOPLE_INVALID, field, "%s", why);
}

/* Divides the rows into the resulting grants and the changes. */
static enum people_outcome divide_wish(struct people *p,
                                       const struct people_rows *rows,
                                       struct member *out)
{
    const struct member_grant *all = rows->items;
    struct member_grant *mem =
        pj_arena_alloc(p->arena, 2 * (rows->count + 1) * sizeof(*mem));

    if (mem == NULL) {
        return PEOPLE_FAILED;
    }
    out->grants = (struct people_rows){mem, 0, sizeof(*mem), false};
    out->changes =
        (struct people_rows){mem + rows->count, 0, sizeof(*mem), false};
    for (size_t i = 0; i < rows->count; i++) {
        if (all[i].branch_name == NULL) {
            return refuse_wish(p, &all[i],
                               "there is no branch with this id in the "
                               "workspace");
        }
        if (i > 0 && strcmp(all[i].branch_id, all[i - 1].branch_id) == 0) {
            return refuse_wish(p, &all[i], "a branch is named twice");
        }
        if (all[i].granted) {
            mem[out->grants.count++] = all[i];
        }
        if (all[i].event != NULL) {
            mem[rows->count + out->changes.count++] = all[i];
        }
        out->revoked += !all[i].granted;
    }
    out->branches = (int64_t) out->grants.count;
    return PEOPLE_DONE;
}

static enum people_outcome set_grants(struct people *p,
                                      const struct member_change *change,
                                      struct member *out)
{
    const char *wish[] = {NULL, NULL};
    struct people_rows rows = {NULL};
    struct sql_query q = {0};
    enum people_outcome outcome;

    if (change->wished && !write_wish(p, change, wish)) {
        return PEOPLE_FAILED;
    }
    db_params(&q.p, DB_ID(out->member_id), db_any(wish[0]), db_any(wish[1]),
              DB_ID(out->workspace_id));
    outcome = people_list(p, &q, &wish_sql, wish_members,
                          sizeof(struct member_grant), INT32_MAX, &rows);
    if (outcome == PEOPLE_DONE) {
        outcome = divide_wish(p, &rows, out);
    }
    out->changed = out->changed || out->changes.count > 0;
    for (size_t i = 0; i < sizeof(apply_sql) / sizeof(apply_sql[0]) &&
                       outcome == PEOPLE_DONE && out->changes.count > 0;
         i++) {
        outcome = people_do(p, &apply_sql[i], NULL, DB_ID(out->member_id),
                            DB_TEXT(wish[0]), DB_TEXT(wish[1]),
                            DB_ID(out->workspace_id));
    }
    return outcome;
}

/* -- changes -- */

enum people_outcome people_member_put(struct people *p,
                                      const struct member_change *change,
                                      struct member *out)
{
    enum people_outcome outcome = find_member(p, change, out);
    bool made = outcome == PEOPLE_NOT_FOUND && out->account_id != NULL;
    bool changed =
        made || (outcome == PEOPLE_DONE && strcmp(out->status, "ACTIVE") != 0);

    if (changed) {
        outcome = people_do(p, &add_sql, NULL, DB_ID(out->account_id),
                            DB_ID(out->workspace_id));
        if (outcome == PEOPLE_DONE) {
            outcome = read_member(p, out);
        }
    }
    out->made = made;
    out->changed = changed;
    out->event = changed ? "member.added" : NULL;
    return outcome == PEOPLE_DONE ? set_grants(p, change, out) : outcome;
}

enum people_outcome people_member_end(struct people *p,
                                      const struct member_change *change,
                                      struct member *out)
{
    enum people_outcome outcome = find_member(p, change, out);

    if (outcome == PEOPLE_DONE) {
        outcome =
            people_do(p, &end_grants_sql, &out->revoked, DB_ID(out->member_id));
    }
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    out->branches = 0;
    out->changed = out->revoked > 0 || strcmp(out->status, "ACTIVE") == 0;
    out->status = "INACTIVE";
    out->event = out->changed ? "member.ended" : NULL;
    return people_do(p, &end_sql, NULL, DB_ID(out->member_id));
}

/* -- one grant -- */

static const struct people_member found_members[] = {
    GRANT("branchId", ID, branch_id),
    GRANT("branchName", TEXT, branch_name),
    GRANT("accountId", ID, account_id),
    GRANT("memberId", ID, member_id),
    GRANT("ended", BOOL, ended),
    GRANT("workspaceId", ID, workspace_id),
    GRANT("workspaceName", TEXT, workspace_name),
    PEOPLE_MEMBERS_END,
};

/* A branch in the account's workspaces. */
static const struct db_statement grantable_sql = {
    "member_grantable",
    "SELECT branch_id, branch_name, m.account_id, m.member_id,"
    "       m.status <> 'ACTIVE', workspace_id, workspace_name"
    "  FROM members m JOIN workspaces w USING (workspace_id)"
    "  JOIN branches b USING (workspace_id)"
    " WHERE (branch_id = $1 OR branch_name COLLATE \"C\" = $2)"
    "   AND m.account_id = $3"
    "   AND (coalesce($4, $5::text) IS NULL OR workspace_id = $4::uuid"
    "        OR workspace_name COLLATE \"C\" = $5)"
    " ORDER BY branch_id LIMIT 3",
    DB_SEARCHES};
static const struct db_statement any_branch_sql = {
    "member_any_branch",
    "SELECT FROM branches"
    " WHERE branch_id = $1 OR branch_name COLLATE \"C\" = $2 LIMIT 1",
    DB_SEARCHES};

static enum people_outcome find_grantable(struct people *p,
                                          const struct grant_change *change,
                                          const struct account_item *account,
                                          struct member_grant *out)
{
    const char *ref = change->branch, *in = change->workspace;
    bool in_id = in != NULL && people_is_id(in), id = people_is_id(ref);
    enum people_outcome outcome;
    int64_t any = 0;

    *out = (struct member_grant){NULL};
    outcome = people_find(p, &grantable_sql, "branch", ref,
                          DB_VALUES(DB_ID(account->account_id),
                                    db_any(in_id ? in : NULL),
                                    db_any(in_id ? NULL : in)),
                          found_members, out);
    if (outcome != PEOPLE_NOT_FOUND) {
        return outcome;
    }
    outcome =
        people_do(p, &any_branch_sql, &any, db_id_or_null(id ? ref : NULL),
                  db_any(id ? NULL : ref));
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    return any == 0
               ? people_refuse(p, PEOPLE_NOT_FOUND, NULL,
                               "there is no branch %s \"%s\"",
                               id ? "with the id" : "called", ref)
               : people_refuse(p, PEOPLE_CONFLICT, NULL,
                               "the branch \"%s\" is in no workspace%s that "
                               "\"%s\" is a member of; run member add first",
                               ref, in != NULL ? " of that name" : "",
                               account->name);
}

/* Parameters of the next statements: the member, the branch, roles. */
static const struct db_statement grant_sql = {
    "member_grant",
    "INSERT INTO branch_grants (member_id, branch_id, workspace_id)"
    " SELECT $1, branch_id, workspace_id FROM branches WHERE branch_id = $2"
    " ON CONFLICT DO NOTHING",
    true};
static const struct db_statement grant_roles_sql = {
    "member_grant_roles",
    "INSERT INTO member_roles (member_id, branch_id, role_code)"
    " SELECT $1, $2, unnest(string_to_array($3, ',')) ON CONFLICT DO NOTHING",
    true};
static const struct db_statement revoke_sql = {
    "member_revoke",
    "DELETE FROM branch_grants WHERE member_id = $1 AND branch_id = $2", true};
static const struct db_statement revoke_roles_sql = {
    "member_revoke_roles",
    "DELETE FROM member_roles WHERE member_id = $1 AND branch_id = $2"
    "   AND role_code = ANY (string_to_array($3, ','))",
    true};

static const struct people_member now_members[] = {
    GRANT("granted", BOOL, granted),
    GRANT("roles", LIST, roles),
    PEOPLE_MEMBERS_END,
};
static const struct db_statement now_sql = {
    "member_granted_now",
    "SELECT count(*) > 0, string_agg(role_code, ',' ORDER BY role_code)"
    "  FROM branch_grants LEFT JOIN member_roles USING (member_id, branch_id)"
    " WHERE member_id = $1 AND branch_id = $2",
    false};

/* Runs the statements (the last is NULL) on the grant that change names, and
 * reads what is left. */
static enum people_outcome change_grant(struct people *p,
                                        const struct grant_change *change,
                                        const struct db_statement *const *sql,
                                        const char *event,
                                        struct member_grant *out)
{
    struct account_item account;
    struct sql_query q = {0};
    enum people_outcome outcome =
        people_account_lock(p, change->account, &account);

    if (outcome == PEOPLE_DONE) {
        outcome = find_grantable(p, change, &account, out);
    }
    if (outcome == PEOPLE_DONE && out->ended && sql[0] == &grant_sql) {
        return people_refuse(p, PEOPLE_CONFLICT, NULL,
                             "the membership of \"%s\" in \"%s\" has ended: "
                             "member add restores it",
                             account.name, out->workspace_name);
    }
    for (; outcome == PEOPLE_DONE && *sql != NULL; sql++) {
        int64_t rows = 0;

        outcome = people_do(p, *sql, &rows, DB_ID(out->member_id),
                            DB_ID(out->branch_id), DB_TEXT(change->roles));
        out->changed = out->changed || rows > 0;
    }
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    out->event = out->changed ? event : NULL;
    db_params(&q.p, DB_ID(out->member_id), DB_ID(out->branch_id));
    outcome = people_run(p, &q, &now_sql);
    if (outcome == PEOPLE_DONE) {
        outcome = people_copy(p, q.rows, 0, now_members, out) ? PEOPLE_DONE
                                                              : PEOPLE_FAILED;
        (void) sql_end(&q);
    }
    return outcome;
}

enum people_outcome people_member_grant(struct people *p,
                                        const struct grant_change *change,
                                        struct member_grant *out)
{
    static const struct db_statement *const sql[] = {&grant_sql,
                                                     &grant_roles_sql, NULL};

    return change_grant(p, change, sql, "member.granted", out);
}

enum people_outcome people_member_revoke(struct people *p,
                                         const struct grant_change *change,
                                         struct member_grant *out)
{
    static const struct db_statement *const branch[] = {&revoke_sql, NULL};
    static const struct db_statement *const roles[] = {&revoke_roles_sql, NULL};

    return change_grant(p, change, change->roles[0] != '\0' ? roles : branch,
                        "member.revoked", out);
}

/* -- lists -- */

/* With a workspace the name of the workspace plays no part, and the index on
 * the names of accounts has the order of the others. */
static const struct db_statement list_sql = {
    "member_list",
    SELECT " WHERE ($1::uuid IS NULL OR m.workspace_id = $1)"
           "   AND ($2::uuid IS NULL OR m.account_id = $2)"
           "   AND ($3::text IS NULL OR m.status = $3)"
           "   AND ($6::uuid IS NULL OR $1 IS NULL OR"
           "        (a.account_name COLLATE \"C\" >= $5::text AND"
           "         (a.account_name COLLATE \"C\", m.member_id) > ($5, $6)))"
           "   AND ($6 IS NULL OR $1 IS NOT NULL OR"
           "        (w.workspace_name COLLATE \"C\" >= $4::text AND"
           "         (w.workspace_name COLLATE \"C\","
           "          a.account_name COLLATE \"C\", m.member_id)"
           "         > ($4, $5, $6)))"
           " ORDER BY CASE WHEN $1 IS NULL THEN w.workspace_name END"
           "          COLLATE \"C\", a.account_name COLLATE \"C\", m.member_id"
           " LIMIT $7",
    DB_SEARCHES};

static const struct db_statement after_sql = {
    "member_after",
    SELECT " WHERE m.member_id = $1 OR a.account_name COLLATE \"C\" = $2"
           " ORDER BY 1 LIMIT 3",
    DB_SEARCHES};

enum people_outcome people_member_list(struct people *p,
                                       const struct member_query *query,
                                       struct people_rows *page)
{
    enum people_outcome outcome = PEOPLE_DONE;
    const char *after[3] = {NULL, NULL, NULL};
    struct place workspace = {NULL};
    struct member found;
    struct sql_query q = {0};

    if (query->workspace != NULL) {
        outcome = people_place_find(p, PLACE_WORKSPACE, query->workspace, NULL,
                                    &workspace);
    }
    if (outcome == PEOPLE_DONE && query->cursor != NULL) {
        outcome = people_place_cursor_read(p, query->cursor, after);
    } else if (outcome == PEOPLE_DONE && query->after != NULL) {
        outcome = people_find(p, &after_sql, "member", query->after, NULL, 0,
                              people_member_members, &found);
        after[0] = found.workspace_name;
        after[1] = found.account;
        after[2] = found.member_id;
    }
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    db_params(&q.p, db_id_or_null(workspace.id), db_id_or_null(query->account),
              db_any(query->status), db_any(after[0]), db_any(after[1]),
              db_id_or_null(after[2]), DB_INT(query->limit + 1));
    return people_list(p, &q, &list_sql, people_member_members,
                       sizeof(struct member), query->limit, page);
}

const char *people_member_cursor(struct people *p, const void *member)
{
    const struct member *at = member;
    const char *parts[] = {at->workspace_name, at->account, at->member_id};

    return people_cursor(p, parts, 3);
}
