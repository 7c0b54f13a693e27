/* What owners see of their sessions and do to them, and their credentials. */

#include "base/account_name.h"
#include "store/store_sql.h"

#include <string.h>

/* -- the list -- */

#define ALIVE STORE_NOT_LOCKED_OUT("s")

/* The sessions $3 and $4 say to be alive, but $2, by the index of their age;
 * one more than are shown.  Of the one that asks nothing is told that a
 * refresh changes: who holds a stolen token could watch for the owner's. */
static const struct db_statement sessions_own_sql = {
    "sessions_own",
    "SELECT session_id, to_char(s.created_at AT TIME ZONE 'UTC', iso),"
    "       to_char(CASE WHEN current OR used_at IS NULL THEN s.created_at"
    "               ELSE used_at END AT TIME ZONE 'UTC', iso),"
    "       to_char(CASE WHEN current THEN $6 ELSE expires_at END"
    "               AT TIME ZONE 'UTC', iso),"
    "       CASE WHEN used_at IS NULL THEN login_address"
    "            ELSE used_address END,"
    "       CASE WHEN used_at IS NULL THEN login_agent ELSE used_agent END,"
    "       s.workspace_id::text, workspace_name,"
    "       s.active_branch_id::text, branch_name"
    "  FROM (VALUES ('YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"')) AS f (iso),"
    "       ((SELECT *, true AS current FROM auth_sessions"
    "          WHERE session_id = $2 AND account_id = $1)"
    "        UNION ALL"
    "        (SELECT *, false FROM auth_sessions s"
    "          WHERE account_id = $1 AND status = 'ACTIVE'"
    "            AND session_id <> $2 AND expires_at > $3"
    "            AND created_at >= $4" ALIVE
    "          ORDER BY created_at DESC LIMIT $5)) AS s"
    "  LEFT JOIN workspaces w ON w.workspace_id = s.workspace_id"
    "  LEFT JOIN branches b ON b.branch_id = s.active_branch_id"
    " ORDER BY current DESC, s.created_at DESC, session_id",
    false};

static bool copy_own(pj_arena_t *arena, const struct db_rows *rows,
                     struct own_sessions *out)
{
    size_t count = db_row_count(rows);

    out->more = count > STORE_MAX_OWN + 1;
    count -= out->more;
    out->items = pj_arena_alloc(arena, (count + 1) * sizeof(*out->items));
    for (; out->items != NULL && out->count < count; out->count++) {
        size_t row = out->count;
        struct own_session *s = &out->items[row];
        const char **texts[] = {&s->created_at,
                                &s->used_at,
                                &s->expires_at,
                                &s->address,
                                &s->agent,
                                &s->branch.workspace_id,
                                &s->branch.workspace_name,
                                &s->branch.branch_id,
                                &s->branch.branch_name};

        db_uuid(rows, row, 0, s->session_id);
        for (int i = 0; i < 9; i++) {
            *texts[i] = store_keep(arena, db_text(rows, row, i + 1, NULL));
            if (*texts[i] == NULL) {
                return false;
            }
        }
    }
    return out->items != NULL;
}

enum store_result store_sessions_own(struct store *st, pj_arena_t *arena,
                                     const struct session *current,
                                     int64_t now_s, int64_t opened_at_s,
                                     int64_t expires_at_s,
                                     struct own_sessions *out)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    memset(out, 0, sizeof(*out));
    store_param_uuid(&p, current->account_id);
    store_param_uuid(&p, current->session_id);
    db_param_time_us(&p, now_s * 1000000);
    db_param_time_us(&p, opened_at_s * 1000000);
    db_param_int64(&p, STORE_MAX_OWN + 1);
    db_param_time_us(&p, expires_at_s * 1000000);
    result = store_run(st, &sessions_own_sql, &p, NULL, &rows);
    if (result == STORE_OK && !copy_own(arena, rows, out)) {
        result = STORE_UNAVAILABLE;
    }
    db_rows_free(rows);
    return result;
}

/* -- ending them -- */

#define BATCH 1000

/* Those of the account $1 but $2, in the order in which all do it who lock
 * several and wait. */
#define END(from)                                                             \
    "UPDATE auth_sessions"                                                    \
    "   SET status = 'REVOKED', revoked_at = greatest(now(), created_at)"     \
    " WHERE session_id = ANY (ARRAY("                                         \
    "   SELECT s.session_id FROM " from "auth_sessions s"                     \
    "    WHERE s.account_id = $1 AND s.status = 'ACTIVE'"                     \
    "      AND s.session_id IS DISTINCT FROM $2" ALIVE                        \
    "    ORDER BY s.created_at LIMIT $3 FOR UPDATE OF s))"

static const struct db_statement sessions_end_sql = {"sessions_end", END(""),
                                                     true};

enum store_result store_sessions_end(struct store *st, const char *account_id,
                                     const char *except, int64_t *ended)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;
    size_t n;

    store_param_uuid(&p, account_id);
    db_param_uuid_or_null(&p, except);
    db_param_int64(&p, BATCH);
    do {
        result = store_run(st, &sessions_end_sql, &p, NULL, &rows);
        if (result == STORE_UNKNOWN) { /* ending twice is ending once */
            result = store_run(st, &sessions_end_sql, &p, NULL, &rows);
        }
        n = result == STORE_OK ? db_affected(rows) : 0;
        *ended += (int64_t) n;
        db_rows_free(rows);
    } while (n == BATCH);
    return result;
}

/* -- the credential -- */

static const struct db_statement account_read_sql = {
    "account_read",
    "SELECT account_id, account_type, status = 'ACTIVE', credential_hash,"
    "       account_name, " STORE_CLOCK " FROM accounts a"
    " WHERE account_id = $1",
    false};

enum store_result store_account_read(struct store *st, const char *account_id,
                                     char *name, struct account *out)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    store_param_uuid(&p, account_id);
    result = store_run(st, &account_read_sql, &p, NULL, &rows);
    if (result == STORE_OK && db_row_count(rows) == 0) {
        result = STORE_NONE;
    }
    if (result == STORE_OK) {
        store_copy_account(rows, 3, 5, out);
        store_copy_text(rows, 0, 4, name, ACCOUNT_NAME_MAX + 1);
    }
    db_rows_free(rows);
    return result;
}

#define IN_TIME STORE_BEFORE_FENCE("$6")
#define END_OTHERS END("changed, ")

static const struct db_statement credential_change_sql = {
    "credential_change",
    "WITH changed AS ("
    "   UPDATE accounts SET credential_hash = $5, updated_at = now()"
    "    WHERE account_id = $1 AND credential_hash = $4"
    "      AND status = 'ACTIVE' AND EXISTS ("
    "          SELECT FROM auth_sessions s WHERE s.session_id = $2"
    "             AND s.status = 'ACTIVE'" ALIVE ")" IN_TIME "   RETURNING 1),"
    " ended AS (" END_OTHERS "   RETURNING 1)"
    " SELECT (SELECT count(*) FROM ended) FROM changed",
    true};

enum store_result store_credential_change(struct store *st,
                                          const char *account_id,
                                          const char *old_hash,
                                          const char *new_hash,
                                          const char *except, int64_t *ended)
{
    struct db_params p = {0};
    struct db_rows *rows;
    enum store_result result;

    store_param_uuid(&p, account_id);
    store_param_uuid(&p, except);
    db_param_int64(&p, BATCH);
    db_param_text(&p, old_hash, strlen(old_hash));
    db_param_text(&p, new_hash, strlen(new_hash));
    db_param_fence(&p);
    result = store_run(st, &credential_change_sql, &p, NULL, &rows);
    if (result == STORE_OK && db_row_count(rows) == 0) {
        result = STORE_NONE;
    }
    if (result == STORE_OK) {
        *ended += db_int64(rows, 0, 0);
    }
    db_rows_free(rows);
    return result;
}
