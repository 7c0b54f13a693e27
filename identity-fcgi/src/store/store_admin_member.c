/* Members and what they are granted, as the operator changes it. */

#include "store/store_admin_sql.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct member_change {
    const char *account;
    const char *workspace;
    struct admin_member *out;
    int64_t *branches;
};

struct grant_change {
    const struct admin_grant *grant;
    bool take; /* away */
    struct admin_account account;
    struct admin_granted *granted; /* one a branch */
};

/* -- members -- */

static void set_status(struct admin_member *m, const char *status)
{
    m->changed = strcmp(m->status, status) != 0;
    snprintf(m->status, sizeof(m->status), "%s", status);
}

/* The account first, always: so no two commands wait for each other. */
static bool lock_both(struct admin *a, const struct member_change *c)
{
    memset(c->out, 0, sizeof(*c->out));
    return admin_lock_account(a, c->account, &c->out->account) &&
           admin_lock_workspace(a, c->workspace, &c->out->place);
}

/* Under the account's lock.  A status of "" is no membership. */
static bool find_member(struct admin *a, struct admin_member *m)
{
    struct db_params p = {0};
    struct db_rows *rows;

    store_param_uuid(&p, m->account.account_id);
    store_param_uuid(&p, m->place.workspace_id);
    if (!admin_query(a,
                     "SELECT member_id, status FROM members"
                     " WHERE account_id = $1 AND workspace_id = $2",
                     &p, &rows)) {
        return false;
    }
    m->status[0] = '\0';
    if (db_row_count(rows) > 0) {
        db_uuid(rows, 0, 0, m->member_id);
        store_copy_text(rows, 0, 1, m->status, sizeof(m->status));
    }
    db_rows_free(rows);
    return true;
}

static bool add(struct admin *a, void *arg)
{
    struct member_change *c = arg;
    struct db_params p = {0};
    struct db_rows *rows;

    if (!lock_both(a, c) || !find_member(a, c->out)) {
        return false;
    }
    set_status(c->out, "ACTIVE");
    if (!c->out->changed) {
        return true;
    }
    store_param_uuid(&p, c->out->account.account_id);
    store_param_uuid(&p, c->out->place.workspace_id);
    if (!admin_query(a,
                     "INSERT INTO members (account_id, workspace_id)"
                     " VALUES ($1, $2)"
                     " ON CONFLICT (account_id, workspace_id)"
                     " DO UPDATE SET status = 'ACTIVE'"
                     " RETURNING member_id",
                     &p, &rows)) {
        return false;
    }
    db_uuid(rows, 0, 0, c->out->member_id);
    db_rows_free(rows);
    return true;
}

bool admin_member_add(struct admin *a, const char *account,
                      const char *workspace, struct admin_member *out)
{
    struct member_change c = {account, workspace, out, NULL};

    return admin_transact(a, add, &c);
}

static bool end(struct admin *a, void *arg)
{
    struct member_change *c = arg;
    struct db_params p = {0};

    if (!lock_both(a, c) || !find_member(a, c->out)) {
        return false;
    }
    if (c->out->status[0] == '\0') {
        return admin_refuse(a, "\"%s\" is no member of \"%s\"",
                            c->out->account.name, c->out->place.workspace);
    }
    set_status(c->out, "INACTIVE");
    store_param_uuid(&p, c->out->member_id);
    return admin_execute(a,
                         "UPDATE members SET status = 'INACTIVE'"
                         " WHERE member_id = $1 AND status <> 'INACTIVE'",
                         &p, NULL) &&
           admin_execute(a, "DELETE FROM branch_grants WHERE member_id = $1",
                         &p, c->branches);
}

bool admin_member_end(struct admin *a, const char *account,
                      const char *workspace, struct admin_member *out,
                      int64_t *branches)
{
    struct member_change c = {account, workspace, out, branches};

    return admin_transact(a, end, &c);
}

/* -- grants -- */

/* Role codes have no comma: one parameter holds them all. */
static void join_roles(const struct admin_grant *grant, char *out, size_t cap)
{
    size_t n = 0;

    out[0] = '\0';
    for (size_t i = 0; i < grant->role_count && n < cap; i++) {
        n += (size_t) snprintf(out + n, cap - n, "%s%s", i > 0 ? "," : "",
                               grant->roles[i]);
    }
}

/* Why ref names no branch of a membership of the account's. */
static bool refuse_branch(struct admin *a, const struct grant_change *c,
                          const char *ref)
{
    struct db_params p = {0};
    struct db_rows *rows;
    bool exists;

    admin_param_ref(&p, ref);
    if (!admin_query(a,
                     "SELECT FROM branches WHERE branch_id = $1"
                     "    OR branch_name COLLATE \"C\" = $2 LIMIT 1",
                     &p, &rows)) {
        return false;
    }
    exists = db_row_count(rows) > 0;
    db_rows_free(rows);
    if (exists) {
        return admin_refuse(a,
                            "the branch \"%s\" is in no workspace%s that "
                            "\"%s\" is a member of: member add comes first",
                            ref,
                            c->grant->workspace != NULL ? " of that name" : "",
                            c->account.name);
    }
    return admin_refuse(a, "there is no branch %s \"%s\"",
                        admin_is_uuid(ref) ? "with the id" : "called", ref);
}

/* The branch that ref names within the account's memberships. */
static bool find_branch(struct admin *a, const struct grant_change *c,
                        const char *ref, struct admin_granted *g)
{
    const char *workspace = c->grant->workspace;
    struct db_params p = {0};
    struct db_rows *rows;

    store_param_uuid(&p, c->account.account_id);
    admin_param_ref(&p, ref);
    admin_param_ref(&p, workspace != NULL ? workspace : "");
    db_param_bool(&p, workspace == NULL);
    if (!admin_query(a,
                     "SELECT b.branch_id, b.branch_name, m.member_id,"
                     "       m.status, w.workspace_id, w.workspace_name"
                     "  FROM members m"
                     "  JOIN workspaces w ON w.workspace_id = m.workspace_id"
                     "  JOIN branches b ON b.workspace_id = m.workspace_id"
                     " WHERE m.account_id = $1"
                     "   AND (b.branch_id = $2"
                     "        OR b.branch_name COLLATE \"C\" = $3)"
                     "   AND ($6 OR w.workspace_id = $4"
                     "        OR w.workspace_name COLLATE \"C\" = $5)"
                     " ORDER BY b.branch_id",
                     &p, &rows)) {
        return false;
    }
    if (db_row_count(rows) == 0) {
        db_rows_free(rows);
        return refuse_branch(a, c, ref);
    }
    if (!admin_one_row(a, "branch", ref, &rows)) {
        return false;
    }
    g->member.account = c->account;
    db_uuid(rows, 0, 0, g->branch_id);
    store_copy_text(rows, 0, 1, g->branch, sizeof(g->branch));
    db_uuid(rows, 0, 2, g->member.member_id);
    store_copy_text(rows, 0, 3, g->member.status, sizeof(g->member.status));
    db_uuid(rows, 0, 4, g->member.place.workspace_id);
    store_copy_text(rows, 0, 5, g->member.place.workspace,
                    sizeof(g->member.place.workspace));
    db_rows_free(rows);
    return true;
}

static bool give(struct admin *a, const char *roles, struct admin_granted *g)
{
    struct db_params branch = {0}, codes = {0};
    int64_t new_grants, new_roles;

    if (strcmp(g->member.status, "ACTIVE") != 0) {
        return admin_refuse(a,
                            "the membership of \"%s\" in \"%s\" has ended: "
                            "member add begins it again",
                            g->member.account.name, g->member.place.workspace);
    }
    store_param_uuid(&branch, g->member.member_id);
    store_param_uuid(&branch, g->branch_id);
    store_param_uuid(&branch, g->member.place.workspace_id);
    store_param_uuid(&codes, g->member.member_id);
    store_param_uuid(&codes, g->branch_id);
    admin_param_text(&codes, roles);
    if (!admin_execute(a,
                       "INSERT INTO branch_grants"
                       " (member_id, branch_id, workspace_id)"
                       " VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
                       &branch, &new_grants) ||
        !admin_execute(a,
                       "INSERT INTO member_roles"
                       " (member_id, branch_id, role_code)"
                       " SELECT $1, $2, code"
                       "   FROM unnest(string_to_array($3, ',')) AS code"
                       " ON CONFLICT DO NOTHING",
                       &codes, &new_roles)) {
        return false;
    }
    g->changed = new_grants + new_roles > 0;
    return true;
}

static bool take(struct admin *a, const char *roles, struct admin_granted *g)
{
    struct db_params p = {0};
    int64_t gone;
    bool ok;

    store_param_uuid(&p, g->member.member_id);
    store_param_uuid(&p, g->branch_id);
    if (roles[0] == '\0') {
        ok = admin_execute(a,
                           "DELETE FROM branch_grants"
                           " WHERE member_id = $1 AND branch_id = $2",
                           &p, &gone);
    } else {
        admin_param_text(&p, roles);
        ok = admin_execute(a,
                           "DELETE FROM member_roles"
                           " WHERE member_id = $1 AND branch_id = $2"
                           "   AND role_code = ANY (string_to_array($3, ','))",
                           &p, &gone);
    }
    g->changed = ok && gone > 0;
    return ok;
}

/* What is granted in the branch now. */
static bool read_back(struct admin *a, struct admin_granted *g)
{
    struct db_params p = {0};
    struct db_rows *rows;

    store_param_uuid(&p, g->member.member_id);
    store_param_uuid(&p, g->branch_id);
    if (!admin_query(a,
                     "SELECT coalesce(string_agg(r.role_code, ','"
                     "                ORDER BY r.role_code), '')"
                     "  FROM branch_grants g"
                     "  LEFT JOIN member_roles r"
                     "    ON r.member_id = g.member_id"
                     "   AND r.branch_id = g.branch_id"
                     " WHERE g.member_id = $1 AND g.branch_id = $2"
                     " GROUP BY g.member_id",
                     &p, &rows)) {
        return false;
    }
    g->granted = db_row_count(rows) > 0;
    if (g->granted) {
        store_copy_text(rows, 0, 0, g->roles, sizeof(g->roles));
    }
    db_rows_free(rows);
    return true;
}

static bool change(struct admin *a, void *arg)
{
    struct grant_change *c = arg;
    char roles[ADMIN_MAX_ROLES * (ADMIN_ROLE_MAX + 1) + 1];

    memset(c->granted, 0, c->grant->branch_count * sizeof(*c->granted));
    join_roles(c->grant, roles, sizeof(roles));
    if (!admin_lock_account(a, c->grant->account, &c->account)) {
        return false;
    }
    for (size_t i = 0; i < c->grant->branch_count; i++) {
        struct admin_granted *g = &c->granted[i];

        if (!find_branch(a, c, c->grant->branches[i], g) ||
            !(c->take ? take(a, roles, g) : give(a, roles, g)) ||
            !read_back(a, g)) {
            return false;
        }
    }
    return true;
}

static bool run(struct admin *a, const struct admin_grant *grant, bool away,
                void (*each)(void *arg, const struct admin_granted *g),
                void *arg)
{
    struct grant_change c = {.grant = grant, .take = away};
    bool ok;

    c.granted = calloc(grant->branch_count, sizeof(*c.granted));
    if (c.granted == NULL) {
        return admin_refuse(a, "out of memory");
    }
    ok = admin_transact(a, change, &c);
    for (size_t i = 0; ok && i < grant->branch_count; i++) {
        each(arg, &c.granted[i]);
    }
    free(c.granted);
    return ok;
}

bool admin_member_grant(struct admin *a, const struct admin_grant *grant,
                        void (*each)(void *arg, const struct admin_granted *g),
                        void *arg)
{
    return run(a, grant, false, each, arg);
}

bool admin_member_revoke(struct admin *a, const struct admin_grant *grant,
                         void (*each)(void *arg,
                                      const struct admin_granted *g),
                         void *arg)
{
    return run(a, grant, true, each, arg);
}
