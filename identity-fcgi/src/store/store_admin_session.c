/*
 * Sessions, as the operator ends and lists them.
 *
 * An account is locked out by one write to its row, however many sessions it
 * has: whoever reads a session compares.  The rows of those sessions are
 * marked afterwards, some at a time.
 */

#include "store/store_admin_sql.h"

#include <string.h>

#define BATCH_ACCOUNTS 500
#define BATCH_SESSIONS 1000

/* -- locking out -- */

/*
 * Of the accounts from $1 to $2 those with a session that was not over at $4,
 * or ($3) all.  The moment is no earlier than any session that is there, even
 * where the clock was set back.  A row is asked for where EXISTS would do:
 * that might read the whole table at once, for all accounts.
 */
static const char lock_out_sql[] =
    "UPDATE accounts a SET sessions_valid_after = greatest("
    "   clock_timestamp(), a.sessions_valid_after,"
    "   (SELECT max(s.created_at) FROM auth_sessions s"
    "     WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'))"
    " WHERE a.account_id BETWEEN $1 AND $2"
    "   AND ($3 OR (SELECT true FROM auth_sessions s"
    "         WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'"
    "           AND s.created_at > a.sessions_valid_after"
    "           AND s.expires_at > $4 LIMIT 1))"
    " RETURNING (SELECT true FROM auth_sessions s"
    "         WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'"
    "         LIMIT 1) IS TRUE";

bool admin_lock_out(struct admin *a, struct admin_account *account)
{
    struct db_params p = {0};
    struct db_rows *rows;

    store_param_uuid(&p, account->account_id);
    store_param_uuid(&p, account->account_id);
    db_param_bool(&p, true);
    db_param_time_us(&p, 0);
    if (!admin_query(a, lock_out_sql, &p, &rows)) {
        return false;
    }
    account->ends_sessions = db_bool(rows, 0, 0);
    db_rows_free(rows);
    return true;
}

/* -- marking rows -- */

/* Of the accounts from $1 to $2, at most $3 rows.  The limit within keeps the
 * join from becoming one that reads the whole table. */
#define MARK(held)                                                            \
    "UPDATE auth_sessions"                                                    \
    "   SET status = 'REVOKED', revoked_at = greatest(now(), created_at)"     \
    " WHERE session_id = ANY (ARRAY("                                         \
    "   SELECT s.session_id FROM accounts a CROSS JOIN LATERAL ("             \
    "     SELECT session_id FROM auth_sessions"                               \
    "      WHERE account_id = a.account_id AND status = 'ACTIVE'"             \
    "        AND created_at <= a.sessions_valid_after"                        \
    "      LIMIT $3 FOR UPDATE " held ") AS s"                                \
    "    WHERE a.account_id BETWEEN $1 AND $2 LIMIT $3))"

struct marking {
    const char *from, *to; /* accounts */
    bool wait;             /* for one row that somebody holds */
    int64_t marked;
};

static bool mark_some(struct admin *a, void *arg)
{
    struct marking *m = arg;
    struct db_params p = {0};

    store_param_uuid(&p, m->from);
    store_param_uuid(&p, m->to);
    db_param_int64(&p, m->wait ? 1 : BATCH_SESSIONS);
    return admin_execute(a, m->wait ? MARK("") : MARK("SKIP LOCKED"), &p,
                         &m->marked);
}

/*
 * Rows that somebody holds are passed over, and then waited for one by one:
 * nobody waits for a row while holding another, so there is no deadlock with
 * who revokes several, in whatever order.
 */
static bool mark(struct admin *a, const char *from, const char *to,
                 int64_t *total)
{
    struct marking m = {from, to, false, 0};

    do {
        if (!admin_transact(a, mark_some, &m)) {
            return false;
        }
        *total += m.marked;
        m.wait = !m.wait && m.marked < BATCH_SESSIONS;
    } while (m.wait || m.marked > 0);
    return true;
}

bool admin_sessions_end(struct admin *a, struct admin_account *account)
{
    return !account->ends_sessions ||
           mark(a, account->account_id, account->account_id,
                &account->ended_sessions);
}

/* -- of one account -- */

struct revocation {
    const char *ref;
    const char *session_id;
    struct admin_account *out;
};

static bool revoke_one(struct admin *a, const struct revocation *r)
{
    struct db_params p = {0};

    store_param_uuid(&p, r->out->account_id);
    store_param_uuid(&p, r->session_id);
    return admin_execute(a,
                         "UPDATE auth_sessions s SET status = 'REVOKED',"
                         "       revoked_at = greatest(now(), created_at)"
                         " WHERE account_id = $1 AND session_id = $2"
                         "   AND status = 'ACTIVE'" STORE_NOT_LOCKED_OUT("s"),
                         &p, &r->out->ended_sessions);
}

static bool revoke_sessions(struct admin *a, void *arg)
{
    struct revocation *r = arg;

    return admin_lock_account(a, r->ref, r->out) &&
           (r->session_id != NULL ? revoke_one(a, r)
                                  : admin_lock_out(a, r->out));
}

bool admin_sessions_revoke(struct admin *a, const char *ref,
                           const char *session_id, struct admin_account *out)
{
    struct revocation r = {ref, session_id, out};

    return admin_transact(a, revoke_sessions, &r);
}

/* -- of all accounts -- */

struct walk {
    char from[STORE_UUID], to[STORE_UUID]; /* accounts; "" at the beginning */
    int64_t since_us;
    int64_t touched;
};

/* The next accounts in the order of their ids; from is "" after the last. */
static bool next_accounts(struct admin *a, void *arg)
{
    struct walk *w = arg;
    struct db_params p = {0};
    struct db_rows *rows;
    size_t n;

    db_param_uuid_or_null(&p, w->to);
    db_param_int64(&p, BATCH_ACCOUNTS);
    if (!admin_query(a,
                     "SELECT account_id FROM accounts"
                     " WHERE $1 IS NULL OR account_id > $1"
                     " ORDER BY account_id LIMIT $2",
                     &p, &rows)) {
        return false;
    }
    n = db_row_count(rows);
    w->from[0] = '\0';
    if (n > 0) {
        db_uuid(rows, 0, 0, w->from);
        db_uuid(rows, n - 1, 0, w->to);
    }
    db_rows_free(rows);
    return true;
}

static bool lock_out_some(struct admin *a, void *arg)
{
    struct walk *w = arg;
    struct db_params p = {0};

    store_param_uuid(&p, w->from);
    store_param_uuid(&p, w->to);
    db_param_bool(&p, false);
    db_param_time_us(&p, w->since_us);
    return admin_execute(a, lock_out_sql, &p, &w->touched);
}

static bool walk(struct admin *a, int64_t since_us,
                 struct admin_revocation *out)
{
    struct walk w = {.since_us = since_us};

    for (;;) {
        if (!admin_transact(a, next_accounts, &w)) {
            return false;
        }
        if (w.from[0] == '\0') {
            return true;
        }
        if (out->marking) {
            if (!mark(a, w.from, w.to, &out->sessions)) {
                return false;
            }
        } else if (!admin_transact(a, lock_out_some, &w)) {
            return false;
        } else {
            out->accounts += w.touched;
        }
    }
}

bool admin_sessions_revoke_since(struct admin *a, int64_t since_s,
                                 struct admin_revocation *out)
{
    memset(out, 0, sizeof(*out));
    if (!walk(a, since_s * 1000000, out)) {
        return false;
    }
    out->marking = true;
    return walk(a, since_s * 1000000, out);
}

/* -- listing -- */

struct session_list {
    const char *ref;
    bool all;
    int64_t limit;
    struct db_rows *rows; /* of the last try; freed by admin_sessions() */
};

/* The newest of one status, as the index has them. */
#define NEWEST(status, and)                                                   \
    "(SELECT * FROM auth_sessions WHERE account_id = a.account_id"            \
    "    AND status = '" status "'" and                                       \
        "  ORDER BY created_at DESC LIMIT $3)"

static bool list_sessions(struct admin *a, void *arg)
{
    struct session_list *l = arg;
    struct admin_account account;
    struct db_params p = {0};

    if (!admin_lock_account(a, l->ref, &account)) {
        return false;
    }
    store_param_uuid(&p, account.account_id);
    db_param_bool(&p, l->all);
    db_param_int64(&p, l->limit);
    db_rows_free(l->rows);
    return admin_query(
        a,
        "SELECT s.session_id, s.revoked_at IS NOT NULL, "
        "s.expires_at <= now(),"
        "       floor(extract(epoch FROM "
        "s.created_at))::bigint,"
        "       floor(extract(epoch FROM "
        "s.expires_at))::bigint,"
        "       coalesce(floor(extract(epoch FROM "
        "s.revoked_at)), 0)::bigint,"
        "       s.workspace_id, s.active_branch_id,"
        "       coalesce(w.workspace_name, ''), "
        "coalesce(b.branch_name, '')"
        "  FROM (SELECT s.session_id, s.created_at, "
        "s.expires_at,"
        "               s.workspace_id, s.active_branch_id,"
        "               coalesce(s.revoked_at, CASE"
        "                 WHEN s.created_at <= "
        "a.sessions_valid_after"
        "                 THEN a.sessions_valid_after END) AS "
        "revoked_at"
        "          FROM accounts a JOIN LATERAL (" //
        NEWEST("ACTIVE",
               " AND ($2 OR (expires_at > now()"
               "      AND created_at > "
               "a.sessions_valid_after))") "           UNION "
                                           "ALL " NEWEST(
                                               "REVOK"
                                               "ED",
                                               " AND "
                                               "$2") "          ) AS s ON true"
                                                     "         WHERE "
                                                     "a.account_id = $1) AS s"
                                                     "  LEFT JOIN workspaces "
                                                     "w ON w.workspace_id = "
                                                     "s.workspace_id"
                                                     "  LEFT JOIN branches b "
                                                     "ON b.branch_id = "
                                                     "s.active_branch_id"
                                                     " ORDER BY s.created_at "
                                                     "DESC, s.session_id "
                                                     "LIMIT $3",
        &p, &l->rows);
}

static void copy_session(const struct db_rows *rows, size_t row,
                         struct admin_session *s)
{
    memset(s, 0, sizeof(*s));
    db_uuid(rows, row, 0, s->session_id);
    s->status = db_bool(rows, row, 1)   ? "REVOKED"
                : db_bool(rows, row, 2) ? "EXPIRED"
                                        : "ACTIVE";
    s->created_at_s = db_int64(rows, row, 3);
    s->expires_at_s = db_int64(rows, row, 4);
    s->revoked_at_s = db_int64(rows, row, 5);
    db_uuid(rows, row, 6, s->workspace_id);
    db_uuid(rows, row, 7, s->branch_id);
    store_copy_text(rows, row, 8, s->workspace, sizeof(s->workspace));
    store_copy_text(rows, row, 9, s->branch, sizeof(s->branch));
}

bool admin_sessions(struct admin *a, const char *ref, bool all, int64_t limit,
                    void (*each)(void *arg, const struct admin_session *s),
                    void *arg)
{
    struct session_list list = {ref, all, limit, NULL};
    bool ok = admin_transact(a, list_sessions, &list);

    for (size_t i = 0; ok && i < db_row_count(list.rows); i++) {
        struct admin_session s;

        copy_session(list.rows, i, &s);
        each(arg, &s);
    }
    db_rows_free(list.rows);
    return ok;
}
