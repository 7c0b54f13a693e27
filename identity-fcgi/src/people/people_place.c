/* Workspaces of tenants, and branches of workspaces.  Rows are locked from the
 * tenant down, so that changes cannot deadlock. */

#include "people/people_place.h"

#include "store/sql.h"

#include <string.h>

#define MEMBER(name, type, field) PEOPLE_MEMBER(name, type, struct place, field)
/* In the order of the columns. */
#define PLACE_MEMBERS(one, above)                                              \
    MEMBER(one "Id", ID, id), MEMBER(one "Name", TEXT, name),                  \
        MEMBER("status", TEXT, status), MEMBER(above "Id", ID, in_id),         \
        MEMBER(above "Name", TEXT, in_name),                                   \
        MEMBER("createdAt", TIME, created_us)
#define CHANGED MEMBER("changed", BOOL, changed)

const struct people_member people_place_members[][7] = {
    {PLACE_MEMBERS("workspace", "tenant"), PEOPLE_MEMBERS_END},
    {PLACE_MEMBERS("branch", "workspace"), PEOPLE_MEMBERS_END},
};
const struct people_member people_place_changed[][8] = {
    {PLACE_MEMBERS("workspace", "tenant"), CHANGED, PEOPLE_MEMBERS_END},
    {PLACE_MEMBERS("branch", "workspace"), CHANGED, PEOPLE_MEMBERS_END},
};

/* -- statements: table is for example "branches", one "branch" and above
 * "workspace" -- */

/* clang-format off */
#define SELECT(table, one, above)                                             \
    "SELECT p." one "_id, p." one "_name, p.status, p." above "_id,"          \
    "       a." above "_name, p.created_at"                                   \
    "  FROM " table " p JOIN " above "s a ON a." above "_id = p." above "_id"
/* By id, or by name. */
#define FIND(table, one, above, lock)                                         \
    {one "_find" lock, SELECT(table, one, above)                              \
     " WHERE (p." one "_id = $1 OR p." one "_name COLLATE \"C\" = $2)"        \
     "   AND ($3::uuid IS NULL OR p." above "_id = $3)"                       \
     " ORDER BY 1 LIMIT 3" lock, DB_SEARCHES}
#define LOCK " FOR NO KEY UPDATE OF p"
#define NAMESAKE(table, one, above)                                           \
    {one "_namesake", "SELECT FROM " table " WHERE " above "_id = $1"         \
     "   AND " one "_name COLLATE \"C\" = $2", false}
#define INSERT(table, one, above)                                             \
    {one "_add", "INSERT INTO " table " (" above "_id, " one "_name)"         \
     " VALUES ($1, $2) RETURNING " one "_id, " one "_name, status,"           \
     "           " above "_id, $3::text, created_at", true}
#define UPDATE(table, one)                                                    \
    {one "_change", "UPDATE " table " SET " one "_name = $2, status = $3"     \
     " WHERE " one "_id = $1", true}
/* $1 is the id of the place above, $2 instead its name.  With the id the name
 * of that place plays no part, and an index has the order of the others. */
#define LIST(table, one, above)                                               \
    {one "_list", SELECT(table, one, above)                                   \
     " WHERE ($1::uuid IS NULL OR p." above "_id = $1)"                       \
     "   AND ($2::text IS NULL OR a." above "_name COLLATE \"C\" = $2)"       \
     "   AND ($3::text IS NULL OR p.status = $3)"                             \
     "   AND ($4::text IS NULL OR p." one "_name COLLATE \"C\" ^@ $4)"        \
     "   AND ($7::uuid IS NULL OR $1 IS NULL"                                 \
     "        OR (p." one "_name COLLATE \"C\", p." one "_id)"                \
     "           > ($6::text, $7))"                                           \
     "   AND ($7 IS NULL OR $1 IS NOT NULL"                                   \
     "        OR (a." above "_name COLLATE \"C\" >= $5::text"                 \
     "            AND (a." above "_name COLLATE \"C\","                       \
     "                 p." one "_name COLLATE \"C\", p." one "_id)"           \
     "                > ($5, $6, $7)))"                                       \
     " ORDER BY CASE WHEN $1 IS NULL THEN a." above "_name END"               \
     "          COLLATE \"C\", p." one "_name COLLATE \"C\", p." one "_id"    \
     " LIMIT $8", DB_SEARCHES}
/* clang-format on */

static const struct kind {
    const char *one, *above, *name; /* name is the member's */
    const char *added, *renamed, *activated, *deactivated;
    struct db_statement find, find_lock, namesake, insert, update, list;
} kinds[] = {
    {"workspace", "tenant", "workspaceName", "workspace.added",
     "workspace.renamed", "workspace.activated", "workspace.deactivated",
     FIND("workspaces", "workspace", "tenant", ""),
     FIND("workspaces", "workspace", "tenant", LOCK),
     NAMESAKE("workspaces", "workspace", "tenant"),
     INSERT("workspaces", "workspace", "tenant"),
     UPDATE("workspaces", "workspace"),
     LIST("workspaces", "workspace", "tenant")},
    {"branch", "workspace", "branchName", "branch.added", "branch.renamed",
     "branch.activated", "branch.deactivated",
     FIND("branches", "branch", "workspace", ""),
     FIND("branches", "branch", "workspace", LOCK),
     NAMESAKE("branches", "branch", "workspace"),
     INSERT("branches", "branch", "workspace"), UPDATE("branches", "branch"),
     LIST("branches", "branch", "workspace")},
};

/* -- tenants -- */

/* As a place of which only id and name are known. */
static const struct people_member tenant_members[] = {
    MEMBER("tenantId", ID, id),
    MEMBER("tenantName", TEXT, name),
    PEOPLE_MEMBERS_END,
};

static const struct db_statement tenant_find = {
    "tenant_find",
    "SELECT tenant_id, tenant_name FROM tenants"
    " WHERE tenant_id = $1 OR tenant_name COLLATE \"C\" = $2"
    " ORDER BY tenant_id LIMIT 3 FOR NO KEY UPDATE",
    DB_SEARCHES};

/* Names of tenants lack a unique index.  The lock (an arbitrary number) makes
 * search and insertion atomic. */
static const struct db_statement tenant_lock = {
    "tenant_lock", "SELECT pg_advisory_xact_lock(7236589412358)", true};
static const struct db_statement tenant_insert = {
    "tenant_add",
    "INSERT INTO tenants (tenant_name)"
    " SELECT $1::text WHERE NOT EXISTS ("
    "   SELECT FROM tenants WHERE tenant_name COLLATE \"C\" = $1)"
    " RETURNING tenant_id, tenant_name",
    true};

static enum people_outcome find_tenant(struct people *p, const char *ref,
                                       struct place *out)
{
    return people_find(p, &tenant_find, "tenant", ref, NULL, 0, tenant_members,
                       out);
}

static enum people_outcome add_tenant(struct people *p, const char *name,
                                      struct place *out)
{
    enum people_outcome outcome =
        people_execute(p, &tenant_lock, NULL, 0, NULL);
    struct people_rows rows = {NULL};
    struct sql_query q = {0};

    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    db_params(&q.p, DB_TEXT(name));
    outcome = people_list(p, &q, &tenant_insert, tenant_members,
                          sizeof(struct place), 1, &rows);
    if (outcome == PEOPLE_DONE && rows.count == 0) {
        return people_refuse(p, PEOPLE_EXISTS, "newTenant",
                             "a tenant called \"%s\" exists already", name);
    }
    if (outcome == PEOPLE_DONE) {
        *out = *(const struct place *) rows.items;
    }
    return outcome;
}

/* -- places -- */

static enum people_outcome find(struct people *p, enum place_kind kind,
                                const char *ref, const char *in, bool lock,
                                struct place *out)
{
    const struct kind *k = &kinds[kind];

    *out = (struct place){NULL};
    return people_find(p, lock ? &k->find_lock : &k->find, k->one, ref,
                       DB_VALUES(db_id_or_null(in)), people_place_members[kind],
                       out);
}

enum people_outcome people_place_find(struct people *p, enum place_kind kind,
                                      const char *ref, const char *in,
                                      struct place *out)
{
    enum people_outcome outcome;

    if (in != NULL && kind == PLACE_BRANCH) {
        outcome = find(p, PLACE_WORKSPACE, in, NULL, false, out);
        if (outcome != PEOPLE_DONE) {
            return outcome;
        }
        in = out->id;
    }
    return find(p, kind, ref, in, false, out);
}

/* Finds and locks the tenant or workspace to add a place to. */
static enum people_outcome find_above(struct people *p, enum place_kind kind,
                                      const struct place_change *change,
                                      struct place *above)
{
    enum people_outcome outcome;

    if (kind == PLACE_BRANCH) {
        return find(p, PLACE_WORKSPACE, change->in, NULL, true, above);
    }
    if (change->in == NULL) {
        return add_tenant(p, change->new_tenant, above);
    }
    outcome = find_tenant(p, change->in, above);
    if (outcome == PEOPLE_NOT_FOUND) { /* not in the path */
        p->field = "tenantId";
        outcome = PEOPLE_INVALID;
    }
    return outcome;
}

/* Refuses a name that another place has in the same tenant or workspace, which
 * is locked. */
static enum people_outcome refuse_namesake(struct people *p,
                                           enum place_kind kind,
                                           const struct place *above,
                                           const char *name)
{
    const struct kind *k = &kinds[kind];
    int64_t found = 0;
    enum people_outcome outcome =
        people_do(p, &k->namesake, &found, DB_ID(above->id), DB_TEXT(name));

    return outcome == PEOPLE_DONE && found > 0
               ? people_refuse(p, PEOPLE_EXISTS, k->name,
                               "a %s of this name exists already in \"%s\"",
                               k->one, above->name)
               : outcome;
}

enum people_outcome people_place_add(struct people *p, enum place_kind kind,
                                     const struct place_change *change,
                                     struct place *out)
{
    const struct kind *k = &kinds[kind];
    struct place above = {NULL};
    struct people_rows rows = {NULL};
    struct sql_query q = {0};
    enum people_outcome outcome = find_above(p, kind, change, &above);

    if (outcome == PEOPLE_DONE) {
        outcome = refuse_namesake(p, kind, &above, change->name);
    }
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    db_params(&q.p, DB_ID(above.id), DB_TEXT(change->name),
              DB_TEXT(above.name));
    outcome = people_list(p, &q, &k->insert, people_place_members[kind],
                          sizeof(*out), 1, &rows);
    if (outcome == PEOPLE_DONE) {
        *out = *(const struct place *) rows.items;
        out->changed = true;
        out->events[0] = k->added;
        if (change->new_tenant != NULL) {
            out->events[0] = "tenant.added";
            out->events[1] = k->added;
        }
    }
    return outcome;
}

/* Sets the name and status of a locked place. */
static enum people_outcome change_found(struct people *p, enum place_kind kind,
                                        const struct place_change *change,
                                        struct place *out)
{
    const struct kind *k = &kinds[kind];
    size_t n = 0;

    if (change->name != NULL && strcmp(change->name, out->name) != 0) {
        struct place above = {.id = out->in_id, .name = out->in_name};
        enum people_outcome outcome =
            refuse_namesake(p, kind, &above, change->name);

        if (outcome != PEOPLE_DONE) {
            return outcome;
        }
        out->name = change->name;
        out->events[n++] = k->renamed;
    }
    if (change->status != NULL && strcmp(change->status, out->status) != 0) {
        out->status = change->status;
        out->events[n++] =
            strcmp(out->status, "ACTIVE") == 0 ? k->activated : k->deactivated;
    }
    out->changed = n > 0;
    return n == 0 ? PEOPLE_DONE
                  : people_do(p, &k->update, NULL, DB_ID(out->id),
                              DB_TEXT(out->name), DB_TEXT(out->status));
}

enum people_outcome people_place_change(struct people *p, enum place_kind kind,
                                        const struct place_change *change,
                                        struct place *out)
{
    enum people_outcome outcome =
        people_place_find(p, kind, change->place, change->in, out);
    struct place above = {NULL};

    if (outcome == PEOPLE_DONE && change->name != NULL) {
        outcome = kind == PLACE_BRANCH
                      ? find(p, PLACE_WORKSPACE, out->in_id, NULL, true, &above)
                      : find_tenant(p, out->in_id, &above);
    }
    if (outcome == PEOPLE_DONE) {
        outcome = find(p, kind, out->id, NULL, true, out);
    }
    return outcome == PEOPLE_DONE ? change_found(p, kind, change, out)
                                  : outcome;
}

/* -- lists -- */

enum people_outcome people_place_list(struct people *p, enum place_kind kind,
                                      const struct place_query *query,
                                      struct people_rows *page)
{
    enum people_outcome outcome = PEOPLE_DONE;
    const char *after[3] = {NULL, NULL, NULL}, *in = query->in;
    struct place found;
    struct sql_query q = {0};
    bool by_id;

    if (kind == PLACE_BRANCH && in != NULL) {
        outcome = find(p, PLACE_WORKSPACE, in, NULL, false, &found);
        in = found.id;
    }
    if (outcome == PEOPLE_DONE && query->cursor != NULL) {
        outcome = people_place_cursor_read(p, query->cursor, after);
    } else if (outcome == PEOPLE_DONE && query->after != NULL) {
        outcome = find(p, kind, query->after, NULL, false, &found);
        after[0] = found.in_name;
        after[1] = found.name;
        after[2] = found.id;
    }
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    by_id = in != NULL && people_is_id(in);
    db_params(&q.p, db_id_or_null(by_id ? in : NULL), db_any(by_id ? NULL : in),
              db_any(query->status), db_any(query->name), db_any(after[0]),
              db_any(after[1]), db_id_or_null(after[2]),
              DB_INT(query->limit + 1));
    return people_list(p, &q, &kinds[kind].list, people_place_members[kind],
                       sizeof(struct place), query->limit, page);
}

const char *people_place_cursor(struct people *p, const void *place)
{
    const struct place *at = place;
    const char *parts[] = {at->in_name, at->name, at->id};

    return people_cursor(p, parts, 3);
}

enum people_outcome people_place_cursor_read(struct people *p, const char *text,
                                             const char *after[3])
{
    enum people_outcome outcome = people_cursor_read(p, text, 3, after);

    return outcome != PEOPLE_DONE || people_is_id(after[2])
               ? outcome
               : people_refuse(p, PEOPLE_INVALID, "after",
                               "the cursor is not one of this list");
}
