/* Reading sessions and the branches that can be selected in them. */

#include "base/uuid.h"
#include "store/store_sql.h"

#include <string.h>

static const struct db_statement choices_sql = {
    "choices",
    "SELECT " STORE_BRANCH_COLUMNS(
        "count(*) OVER () = 1") "  FROM selectable_branches t WHERE "
                                "t.account_id = $1",
    false};

enum store_result store_choices(struct store *st, pj_arena_t *arena,
                                const char *account_id,
                                struct session_view *out)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    memset(out, 0, sizeof(*out));
    store_param_uuid(&p, account_id);
    result = store_run(st, &choices_sql, &p, NULL, &rows);
    if (result == STORE_OK && !store_copy_branches(arena, rows, false, out)) {
        result = STORE_UNAVAILABLE;
    }
    db_rows_free(rows);
    return result;
}

/*
 * A row of the session, then one for each branch that can be selected in it:
 * the other columns of each are null, which costs nothing to send.  The
 * branches are sorted here: for the few that most have, a row each costs the
 * server less than a sort and aggregates that make one row of them.
 */
#define SESSION                                                               \
    "WITH session AS MATERIALIZED ("                                          \
    "   SELECT s.account_id, a.account_type,"                                 \
    "          a.status = 'ACTIVE' AS account_enabled,"                       \
    "          s.status = 'ACTIVE'"                                           \
    "          AND s.created_at > a.sessions_valid_after AS active,"          \
    "          s.jti, s.workspace_id, s.member_id, s.active_branch_id,"       \
    "          s.created_at, s.expires_at, " STORE_CLOCK                      \
    "     FROM auth_sessions s"                                               \
    "     JOIN accounts a ON a.account_id = s.account_id"                     \
    "    WHERE s.session_id = $1)"
/* asked: the branch asked about.  everywhere: whether a session in a workspace
 * has the branches of the others too. */
#define SELECTABLE(asked, everywhere)                                         \
    ", selectable AS MATERIALIZED ("                                          \
    "   SELECT " STORE_BRANCH_COLUMNS(                                        \
        "t.branch_id = " asked) "     FROM session s"                         \
                                "     JOIN selectable_branches t ON "         \
                                "t.account_id = s.account_id"                 \
                                "      AND (" everywhere                      \
                                "s.workspace_id IS NULL"                      \
                                "           OR t.workspace_id = "             \
                                "s.workspace_id))"
#define ROWS(rotated)                                                         \
    " SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, session.*, " rotated   \
    "   FROM session"                                                         \
    " UNION ALL"                                                              \
    " SELECT selectable.*, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL,"   \
    "        NULL, NULL, NULL, NULL, NULL"                                    \
    "   FROM selectable"

static const struct db_statement session_read_sql = {
    "session_read",
    SESSION SELECTABLE("coalesce($2, s.active_branch_id)", "$3 OR ")
        ROWS("false"),
    false};

/*
 * The same, and the compare-and-swap.  The read is one snapshot.  If the row
 * has changed since, the update looks at what has become of it: it does
 * nothing, and the caller reads again, unless all that the decision used is as
 * it was.  A session never changes its account, so that is asked of the
 * snapshot: asked of the row, it would offer the planner an index that leads
 * to all sessions of the account.
 */
#define REFRESH                                                               \
    SESSION SELECTABLE(                                                       \
        "s.active_branch_id",                                                 \
        "") ", rotated AS (" STORE_ROTATE                                     \
            "    WHERE s.session_id = $1 AND s.status = 'ACTIVE'"             \
            "      AND s.expires_at >= $6 AND s.jti = $2 AND s.created_at "   \
            ">= $7"                                                           \
            "      AND EXISTS (SELECT FROM session"                           \
            "           WHERE account_enabled AND active AND account_id = $5" \
            "             AND (active_branch_id IS NULL OR EXISTS ("          \
            "                 SELECT FROM selectable WHERE roles IS NOT "     \
            "NULL))"                                                          \
            "             AND workspace_id IS NOT DISTINCT FROM "             \
            "s.workspace_id"                                                  \
            "             AND member_id IS NOT DISTINCT FROM s.member_id"     \
            "             AND active_branch_id"                               \
            "                 IS NOT DISTINCT FROM "                          \
            "s.active_branch_id)" STORE_BEFORE_FENCE(                         \
                "$8") "   RETURNING session_id)"
#define REFRESHED ROWS("EXISTS (SELECT FROM rotated)")

static const struct db_statement session_refresh_sql[2] = {
    {"session_refresh", REFRESH REFRESHED, true},
    {"session_refresh_remember",
     REFRESH "," STORE_FORGET ", remembered AS (" STORE_REMEMBER ")" REFRESHED,
     true}};

enum {
    ACCOUNT_ID = STORE_BRANCH_COLS,
    ACCOUNT_TYPE,
    ACCOUNT_ENABLED,
    ACTIVE,
    JTI,
    WORKSPACE_ID,
    MEMBER_ID,
    ACTIVE_BRANCH_ID,
    CREATED_AT,
    EXPIRES_AT,
    CLOCK_NOW,
    CLOCK_VALID_AFTER,
    ROTATED
};

/* Fills out from the rows of a statement whose first parameter is the
 * session's id, and frees them. */
static enum store_result copy_view(enum store_result result,
                                   const struct db_params *p,
                                   struct db_rows *rows, pj_arena_t *arena,
                                   bool list, struct session_view *out)
{
    struct session *s = &out->session;

    memset(out, 0, sizeof(*out));
    uuid_write(s->session_id, (const unsigned char *) p->values[0]);
    if (result == STORE_OK && db_row_count(rows) == 0) {
        result = STORE_NONE;
    }
    if (result == STORE_OK) {
        db_uuid(rows, 0, ACCOUNT_ID, s->account_id);
        store_copy_text(rows, 0, ACCOUNT_TYPE, s->account_type,
                        sizeof(s->account_type));
        s->account_enabled = db_bool(rows, 0, ACCOUNT_ENABLED);
        s->active = db_bool(rows, 0, ACTIVE);
        db_uuid(rows, 0, JTI, s->jti);
        db_uuid(rows, 0, WORKSPACE_ID, s->workspace_id);
        db_uuid(rows, 0, MEMBER_ID, s->member_id);
        db_uuid(rows, 0, ACTIVE_BRANCH_ID, s->active_branch_id);
        s->created_at_s = db_time_us(rows, 0, CREATED_AT) / 1000000;
        s->expires_at_s = db_time_us(rows, 0, EXPIRES_AT) / 1000000;
        store_copy_clock(rows, CLOCK_NOW, &s->clock);
        out->rotated = db_bool(rows, 0, ROTATED);
        if (!store_copy_branches(arena, rows, list, out)) {
            /* What was done can no longer be told. */
            result = out->rotated ? STORE_UNKNOWN : STORE_UNAVAILABLE;
        }
    }
    db_rows_free(rows);
    return result;
}

/* Without a scope the list is of all workspaces, and a session in one has not
 * been shown the others. */
static bool look_everywhere(const struct session_view *view)
{
    return !view->selectable && view->session.workspace_id[0] != '\0';
}

/* A malformed branch id becomes the nil UUID, which no branch has. */
static void bind_branch(struct db_params *p, const pj_str_t *branch_id)
{
    if (branch_id == NULL) {
        db_param_uuid_or_null(p, NULL);
        return;
    }
    db_param_uuid(p, (const char *) branch_id->data, branch_id->len);
    if (p->bad_uuid) {
        p->bad_uuid = false;
        p->count--;
        store_param_uuid(p, "00000000-0000-0000-0000-000000000000");
    }
}

enum store_result store_session_read(struct store *st, pj_arena_t *arena,
                                     pj_str_t session_id,
                                     const pj_str_t *branch_id, bool list,
                                     struct meanwhile *meanwhile,
                                     struct session_view *out)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    db_param_uuid(&p, (const char *) session_id.data, session_id.len);
    if (p.bad_uuid) {
        memset(out, 0, sizeof(*out));
        return STORE_NONE;
    }
    bind_branch(&p, branch_id);
    db_param_bool(&p, false);
    result = store_run(st, &session_read_sql, &p, meanwhile, &rows);
    result = copy_view(result, &p, rows, arena, list, out);
    if (result == STORE_OK && look_everywhere(out)) {
        p.count--;
        db_param_bool(&p, true);
        result = store_run(st, &session_read_sql, &p, NULL, &rows);
        result = copy_view(result, &p, rows, arena, list, out);
    }
    return result;
}

enum store_result store_session_refresh(struct store *st, pj_arena_t *arena,
                                        const struct rotation *to, bool list,
                                        struct meanwhile *meanwhile,
                                        struct session_view *out)
{
    const pj_claims_t *token = to->token;
    unsigned char jti[UUID_BYTES];
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    db_param_uuid(&p, (const char *) token->session_id.data,
                  token->session_id.len);
    db_param_uuid(&p, (const char *) token->jti.data, token->jti.len);
    store_param_uuid(&p, to->new_jti);
    db_param_time_us(&p, to->expires_at_s * 1000000);
    db_param_uuid(&p, (const char *) token->account_id.data,
                  token->account_id.len);
    db_param_time_us(&p, (to->now_s + 1) * 1000000);
    db_param_time_us(&p, to->opened_at_s * 1000000);
    db_param_fence(&p);
    store_param_client(&p, st);
    store_param_retry(&p, token->jti, to);
    if (p.bad_uuid || !uuid_read(jti, token->jti)) {
        /* An id is malformed, or the jti is not written as we write it and so
         * is not the session's: there is nothing to rotate. */
        return store_session_read(st, arena, token->session_id, NULL, list,
                                  meanwhile, out);
    }
    result = store_run(st, &session_refresh_sql[to->remember], &p, meanwhile,
                       &rows);
    result = copy_view(result, &p, rows, arena, list, out);
    if (result == STORE_OK && !out->rotated && look_everywhere(out)) {
        return store_session_read(st, arena, token->session_id, NULL, list,
                                  NULL, out);
    }
    return result;
}
