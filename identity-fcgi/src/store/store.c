/* Access to the database: handle, accounts, failed logins, health, an owner's
 * sessions and credential, revocations. */

#include "store/store.h"

#include "base/parse.h"
#include "db/db_pool.h"
#include "store/sql.h"

#include <stdio.h>
#include <string.h>

bool store_open(struct store *st, const struct config *cfg)
{
    *st = (struct store){.pool = db_pool_new(cfg)};
    return st->pool != NULL;
}

void store_close(struct store *st)
{
    db_pool_free(st->pool);
}

void store_use(const struct store *st, int *size, int *used, bool *refused)
{
    db_pool_use(st->pool, size, used, refused);
}

/* -- accounts -- */

#define FACTOR ", a.second_factor, a.factor_required"

/* Reads the row of an account.  The columns of SQL_CLOCK and FACTOR start at
 * clock. */
static void copy_account(const struct db_rows *rows, int hash, int clock,
                         struct account *out)
{
    sql_copy_account(rows, hash, clock, out);
    out->second_factor = db_bool(rows, 0, clock + 2);
    out->factor_required = db_bool(rows, 0, clock + 3);
}

/* Returns one row.  s is the substitute for an account that does not exist: the
 * next account by id after an id derived from the name, or the first
 * account. */
static const struct db_statement account_find_sql = {
    "account_find",
    "SELECT a.account_id, a.account_type, a.status = 'ACTIVE',"
    "       a.credential_hash, s.credential_hash, " SQL_CLOCK FACTOR
    "  FROM (SELECT coalesce("
    "           (SELECT credential_hash FROM accounts WHERE account_id >= ("
    "               SELECT encode(substr(sha256(secret"
    "                   || convert_to($1, 'UTF8')), 1, 16), 'hex')::uuid"
    "                 FROM stand_in_secret ORDER BY made_at, secret LIMIT 1)"
    "             ORDER BY account_id LIMIT 1),"
    "           (SELECT credential_hash FROM accounts"
    "             ORDER BY account_id LIMIT 1)) AS credential_hash) AS s"
    "  LEFT JOIN accounts a ON a.account_name COLLATE \"C\" = $1",
    false};

enum store_result store_account_find(struct store *st, pj_str_t name,
                                     struct account *out)
{
    struct sql_query q = {0};

    db_params(&q.p, DB_VALUE(OID_TEXT, .text = name));
    if (sql_run(&q, st, &account_find_sql, NULL)) {
        bool known = !db_is_null(q.rows, 0, 0);

        q.result = known ? STORE_OK : STORE_NONE;
        copy_account(q.rows, known ? 3 : 4, 5, out);
    }
    return sql_end(&q);
}

static const struct db_statement credential_rehash_sql = {
    "credential_rehash",
    "UPDATE accounts SET credential_hash = $3, updated_at = now()"
    " WHERE account_id = $1 AND credential_hash = $2" SQL_ACTOR("$4"),
    true};

enum store_result store_account_rehash(struct store *st, const char *account_id,
                                       const char *old_hash,
                                       const char *new_hash)
{
    return sql_do(st, &credential_rehash_sql, DB_ID(account_id),
                  DB_TEXT(old_hash), DB_TEXT(new_hash),
                  DB_TEXT("{\"credential\":\"account.credential_rehashed\"}"));
}

/* -- attempts -- */

#define DB_ATTEMPT(a)                                                          \
    DB_VALUE(OID_BYTEA,                                                        \
             .text = {(a)->account_hmac, sizeof((a)->account_hmac)}),          \
        db_any((a)->address)

static const struct db_statement attempt_begin_sql = {
    "attempt_begin", "SELECT login_attempt_begin($1, $2, $3::integer, $4)",
    true};

enum store_result store_attempt_begin(struct store *st,
                                      const struct attempt *attempt,
                                      int max_failures, int64_t window_s,
                                      int64_t *retry_after_s)
{
    struct sql_query q = {0};

    db_params(&q.p, DB_ATTEMPT(attempt), DB_INT(max_failures),
              DB_INT(window_s));
    if (sql_run(&q, st, &attempt_begin_sql, NULL)) {
        *retry_after_s = db_int64(q.rows, 0, 0);
        q.result = *retry_after_s > 0 ? STORE_NONE : STORE_OK;
    }
    return sql_end(&q);
}

static const struct db_statement attempt_settle_sql = {
    "attempt_settle", "SELECT login_attempt_settle($1, $2, $3)", true};

enum store_result store_attempt_settle(struct store *st,
                                       const struct attempt *attempt,
                                       bool success)
{
    return sql_do(st, &attempt_settle_sql, DB_ATTEMPT(attempt),
                  DB_BOOL(success));
}

/* -- health -- */

/* Checks privileges too, because grants made before a migration do not cover
 * the tables that it created. */
static const struct db_statement ping_sql = {
    "ping",
    "SELECT (SELECT coalesce(max(version), 0) FROM schema_migrations)::bigint,"
    "       (SELECT bool_and(has_function_privilege(p.oid, 'EXECUTE'))"
    "          FROM pg_proc p"
    "         WHERE p.proname LIKE 'login\\_attempt\\_%'"
    "           AND pg_function_is_visible(p.oid))"
    "       AND (SELECT bool_and(has_table_privilege(to_regclass(t), r))"
    "              FROM unnest(ARRAY['auth_sessions', 'rotated_tokens',"
    "                                'login_attempts']) t,"
    "                   unnest(ARRAY['SELECT', 'INSERT', 'UPDATE',"
    "                                'DELETE']) r)"
    "       AND has_table_privilege(to_regclass('session_revocations'),"
    "                               'SELECT')"
    "       AND (SELECT bool_and(has_table_privilege(to_regclass(t), 'SELECT'))"
    "              FROM unnest(ARRAY['stand_in_secret', 'client_scopes',"
    "                                'client_secrets', 'client_keys',"
    "                                'reset_codes']) t)"
    "       AND has_table_privilege(to_regclass('reset_misses'), 'UPDATE')"
    "       AND has_column_privilege(to_regclass('reset_codes'), 'tries',"
    "                                'UPDATE')"
    "       AND (SELECT bool_and(has_table_privilege(to_regclass(t), 'INSERT'))"
    "              FROM unnest(ARRAY['client_assertions', 'client_calls',"
    "                                'workspaces', 'branches', 'members',"
    "                                'branch_grants', 'reset_codes',"
    "                                'factors', 'recovery_codes',"
    "                                'factor_tokens', 'factor_failures',"
    "                                'passkey_users']) t)"
    "       AND has_column_privilege(to_regclass('accounts'), 'status',"
    "                                'UPDATE')"
    "       AND (SELECT bool_and(has_function_privilege(to_regprocedure(f),"
    "                                                   'EXECUTE'))"
    "              FROM unnest(ARRAY['session_revocation_mark()',"
    "                                'audit_months(bigint)',"
    "                                'audit_observe(text, uuid)']) f)",
    false};

static const struct db_statement migrated_sql = {
    "migrated", "SELECT to_regclass('schema_migrations') IS NOT NULL", false};

enum store_result store_ping(struct store *st, int *schema_version)
{
    struct sql_query q = {0};

    *schema_version = 0;
    if (sql_run(&q, st, &ping_sql, NULL)) {
        *schema_version = (int) db_int64(q.rows, 0, 0);
        q.result = db_bool(q.rows, 0, 1) ? STORE_OK : STORE_NONE;
    } else if (sql_run(&q, st, &migrated_sql, NULL) && db_bool(q.rows, 0, 0)) {
        q.result =
            STORE_UNAVAILABLE; /* otherwise the database was never migrated */
    }
    return sql_end(&q);
}

/* -- an owner's list of sessions -- */

#define ALIVE SQL_NOT_LOCKED_OUT("s")

/* Copies the texts of a column up to the first null, at most max of them.  Sets
 * more if there are further rows. */
static bool copy_list(pj_arena_t *arena, const struct db_rows *rows, int col,
                      size_t max, struct store_list *out)
{
    size_t rows_count = db_row_count(rows);
    size_t count = rows_count < max ? rows_count : max;

    out->more = rows_count > max;
    out->items = pj_arena_alloc(arena, (count + 1) * sizeof(*out->items));
    for (size_t i = 0; out->items != NULL && i < count; i++) {
        if (db_is_null(rows, i, col)) {
            break;
        }
        out->items[i] = sql_copy_string(arena, db_text(rows, i, col, NULL));
        if (out->items[i] == NULL) {
            return false;
        }
        out->count++;
    }
    return out->items != NULL;
}

/* $2 is the caller's session, $3 and $4 the conditions for being alive.  Finds
 * the others by the index on created_at.  The caller's own row shows the values
 * of its login.  The values of its last refresh would tell the holder of a
 * stolen token when the owner refreshes. */
static const struct db_statement sessions_own_sql = {
    "sessions_own",
    "SELECT (SELECT row_to_json(o) FROM (SELECT"
    "       session_id AS \"sessionId\", current,"
    "       to_char(s.created_at AT TIME ZONE 'UTC', iso) AS \"createdAt\","
    "       to_char(CASE WHEN current OR used_at IS NULL THEN s.created_at"
    "               ELSE used_at END AT TIME ZONE 'UTC', iso) AS \"usedAt\","
    "       to_char(CASE WHEN current THEN $6 ELSE expires_at END"
    "               AT TIME ZONE 'UTC', iso) AS \"expiresAt\","
    "       CASE WHEN current OR used_at IS NULL THEN login_address"
    "            ELSE used_address END AS address,"
    "       CASE WHEN current OR used_at IS NULL THEN login_agent"
    "            ELSE used_agent END AS agent,"
    "       s.workspace_id AS \"workspaceId\","
    "       workspace_name AS \"workspaceName\","
    "       s.active_branch_id AS \"branchId\","
    "       branch_name AS \"branchName\","
    "       key_thumbprint IS NOT NULL AS bound) AS o)"
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

enum store_result store_sessions_list(struct store *st, pj_arena_t *arena,
                                      const struct session *current,
                                      int64_t now_s, int64_t opened_at_s,
                                      int64_t expires_at_s,
                                      struct store_list *out)
{
    struct sql_query q = {0};

    memset(out, 0, sizeof(*out));
    db_params(&q.p, DB_ID(current->account_id), DB_ID(current->session_id),
              DB_TIME(now_s), DB_TIME(opened_at_s),
              DB_INT(STORE_MAX_LISTED + 1), DB_TIME(expires_at_s));
    if (sql_run(&q, st, &sessions_own_sql, NULL) &&
        !copy_list(arena, q.rows, 0, STORE_MAX_LISTED + 1, out)) {
        q.result = STORE_UNAVAILABLE;
    }
    return sql_end(&q);
}

/* -- ending them -- */

#define BATCH 1000

/* Locks the account $1, then its session $2, which must still be alive.  So if
 * two sessions end each other concurrently, one survives.  If more than $3
 * sessions are older than $2, a lockout as of `moment` ends them with a single
 * write to the account's row.  It spares the tokens of $2: their time of issue
 * is that of the request, which began at most five minutes before the session
 * was opened. */
#define LOCK_CALLER                                                            \
    "WITH owner AS MATERIALIZED ("                                             \
    "   SELECT sessions_valid_after FROM accounts"                             \
    "    WHERE account_id = $1 FOR NO KEY UPDATE),"                            \
    " own AS MATERIALIZED ("                                                   \
    "   SELECT s.session_id,"                                                  \
    "          date_trunc('second', s.created_at)"                             \
    "              - interval '5 minutes 1 us' AS moment"                      \
    "     FROM owner, auth_sessions s"                                         \
    "    WHERE s.session_id = $2 AND s.status = 'ACTIVE'"                      \
    "      AND s.created_at > owner.sessions_valid_after FOR UPDATE OF s),"    \
    " older AS MATERIALIZED ("                                                 \
    "   SELECT count(*) AS n, count(*) > $3 AS many FROM auth_sessions s"      \
    "    WHERE s.account_id = $1 AND s.status = 'ACTIVE'"                      \
    "      AND s.created_at > (SELECT sessions_valid_after FROM owner)"        \
    "      AND s.created_at <= (SELECT moment FROM own)),"

/* Ends the account's other sessions if the CTE `allowed` has a row.  All
 * statements lock several sessions in this order. */
#define END_OTHERS(allowed)                                                    \
    " ended AS ("                                                              \
    "   UPDATE auth_sessions"                                                  \
    "      SET status = 'REVOKED', revoked_at = greatest(now(), created_at)"   \
    "    WHERE session_id = ANY (ARRAY("                                       \
    "      SELECT s.session_id FROM auth_sessions s"                           \
    "       WHERE s.account_id = $1 AND s.status = 'ACTIVE'"                   \
    "         AND s.session_id IS DISTINCT FROM $2" ALIVE                      \
    "         AND EXISTS (SELECT FROM " allowed ")"                            \
    "         AND NOT (SELECT many FROM older)"                                \
    "       ORDER BY s.created_at LIMIT $3 FOR UPDATE OF s))"                  \
    "   RETURNING 1)"                                                          \
    " SELECT CASE WHEN many THEN n ELSE (SELECT count(*) FROM ended) END"      \
    "   FROM older, " allowed

static const struct db_statement sessions_end_sql = {
    "sessions_end",
    LOCK_CALLER
    " caller AS MATERIALIZED ("
    "   SELECT true FROM own UNION ALL"
    "   SELECT true FROM owner WHERE $2::uuid IS NULL),"
    " locked AS ("
    "   UPDATE accounts SET sessions_valid_after = (SELECT moment FROM own)"
    "    WHERE account_id = $1 AND (SELECT many FROM older)" SQL_ACTOR(
        "$4") "   RETURNING 1)," END_OTHERS("caller"),
    true};

enum store_result store_sessions_end(struct store *st, const char *account_id,
                                     const char *except, int64_t *ended)
{
    enum store_result result;
    int64_t n;

    do {
        struct sql_query q = {0};

        db_params(&q.p, DB_ID(account_id), db_id_or_null(except), DB_INT(BATCH),
                  DB_TEXT(st->actor));
        n = 0;
        if (sql_run_safe(&q, st, &sessions_end_sql)) {
            q.result = db_row_count(q.rows) > 0 ? STORE_OK : STORE_NONE;
            n = q.result == STORE_OK ? db_int64(q.rows, 0, 0) : 0;
        }
        *ended += n;
        result = sql_end(&q);
    } while (n >= BATCH);
    return result;
}

/* -- the credential -- */

static const struct db_statement account_read_sql = {
    "account_read",
    "SELECT account_id, account_type, status = 'ACTIVE', credential_hash,"
    "       account_name, " SQL_CLOCK FACTOR " FROM accounts a"
    " WHERE account_id = $1",
    false};

enum store_result store_account_read(struct store *st, const char *account_id,
                                     char *name, struct account *out)
{
    struct sql_query q = {0};

    db_params(&q.p, DB_ID(account_id));
    if (sql_run_one(&q, st, &account_read_sql)) {
        copy_account(q.rows, 3, 5, out);
        sql_copy_text(q.rows, 0, 4, name, ACCOUNT_NAME_MAX + 1);
    }
    return sql_end(&q);
}

static const struct db_statement credential_change_sql = {
    "credential_change",
    LOCK_CALLER
    " changed AS ("
    "   UPDATE accounts SET credential_hash = $5, updated_at = now(),"
    "          sessions_valid_after = CASE WHEN (SELECT many FROM older)"
    "              THEN (SELECT moment FROM own)"
    "              ELSE sessions_valid_after END"
    "    WHERE account_id = $1 AND credential_hash = $4"
    "      AND status = 'ACTIVE' AND (NOT second_factor OR $8)"
    "      AND EXISTS (SELECT FROM own)" SQL_BEFORE_FENCE("$6")
        SQL_ACTOR("$7") "   RETURNING 1)," END_OTHERS("changed"),
    true};

enum store_result store_credential_change(struct store *st,
                                          const struct account *account,
                                          const char *new_hash,
                                          const char *except, int64_t *ended)
{
    struct sql_query q = {0};

    db_params(&q.p, DB_ID(account->account_id), DB_ID(except), DB_INT(BATCH),
              DB_TEXT(account->credential_hash), DB_TEXT(new_hash), DB_FENCE,
              DB_TEXT(st->actor), DB_BOOL(account->second_factor));
    if (sql_run_one(&q, st, &credential_change_sql)) {
        *ended += db_int64(q.rows, 0, 0);
    }
    return sql_end(&q);
}

/* A code that can be used: neither used up nor expired. */
#define LIVE_CODE                                                              \
    "      AND r.tries < 5 AND r.expires_at > now()" SQL_BEFORE_FENCE("$5")
/* States that the account itself makes the change. */
#define BY_OWNER                                                               \
    SQL_ACTOR("($4::jsonb"                                                     \
              "   || jsonb_build_object('account', a.account_id))::text")

/* Locks the account before its code, as the command that makes codes does.  A
 * used code is one without tries left.  Without a live code, writes a row of
 * reset_misses, which costs the same. */
static const struct db_statement credential_reset_sql = {
    "credential_reset",
    "WITH owner AS MATERIALIZED ("
    "   SELECT account_id FROM accounts"
    "    WHERE account_name COLLATE \"C\" = $1 AND status = 'ACTIVE'"
    "      FOR NO KEY UPDATE),"
    " tried AS ("
    "   UPDATE reset_codes r"
    "      SET tries = CASE WHEN r.code_sha256 = $2 THEN 5 ELSE tries + 1 END"
    "     FROM owner"
    "    WHERE r.account_id = owner.account_id" LIVE_CODE
    "   RETURNING r.account_id, r.code_sha256 = $2 AS matches),"
    " missed AS ("
    "   INSERT INTO reset_misses AS m SELECT hashtext($1) & 1023, 1"
    "    WHERE NOT EXISTS (SELECT FROM tried)"
    "   ON CONFLICT (slot) DO UPDATE SET misses = m.misses + 1),"
    " changed AS ("
    "   UPDATE accounts a SET credential_hash = $3, updated_at = now(),"
    "          sessions_valid_after = greatest(clock_timestamp(),"
    "              a.sessions_valid_after + interval '1 us',"
    "              (SELECT max(s.created_at) FROM auth_sessions s"
    "                WHERE s.account_id = a.account_id"
    "                  AND s.status = 'ACTIVE'))"
    "    WHERE a.account_id IN (SELECT account_id FROM tried"
    "                            WHERE matches)" BY_OWNER
    "   RETURNING a.account_id)"
    " SELECT account_id FROM changed",
    true};

enum store_result store_credential_reset(struct store *st, pj_str_t name,
                                         const unsigned char *code_sha256,
                                         const char *new_hash, char *account_id)
{
    struct sql_query q = {0};

    db_params(&q.p, DB_VALUE(OID_TEXT, .text = name),
              DB_VALUE(OID_BYTEA, .text = {code_sha256, 32}), DB_TEXT(new_hash),
              DB_TEXT(st->actor), DB_FENCE);
    if (sql_run_one(&q, st, &credential_reset_sql)) {
        db_uuid(q.rows, 0, 0, account_id);
    }
    return sql_end(&q);
}

/* -- the audit -- */

static const struct db_statement audit_observe_sql = {
    "audit_observe",
    "SELECT audit_observe($1, $2) FROM ("
    "   SELECT set_config('platform.actor', $3, true)) AS actor",
    true};

enum store_result store_audit_observe(struct store *st, const char *event,
                                      const char *session_id)
{
    return sql_do(st, &audit_observe_sql, DB_TEXT(event), DB_ID(session_id),
                  DB_TEXT(st->actor));
}

/* -- revocations -- */

/* A cursor is a snapshot: its reader has received all rows visible in it.  The
 * form is MARK.NEXT.OPEN.  Transactions from NEXT on are not visible, and
 * neither are the lower ones listed in OPEN.  (A dump from another server may
 * contain rows with future transaction numbers; a reader without a cursor
 * receives them.) Between the pages of one poll, .XID.SEQ of the last row
 * follows, and the snapshot remains that of the first page.  If OPEN would be
 * too long, NEXT is a lower number, and some rows may be sent again. */
#define CURSOR_FORM                                                            \
    "[0-9a-f-]{36}\\.[0-9]{1,18}\\.([0-9]{1,18}(_[0-9]{1,18})*)?"              \
    "(\\.[0-9]{1,18}\\.[0-9]{1,18})?"

/* Returns a row for each revocation, or a row without one.  The cursor's
 * snapshot is that of the statement.  A cursor has room for 28 open
 * transactions. */
static const struct db_statement revocations_sql = {
    "revocations",
    "SELECT extract(epoch FROM clock_timestamp())::text,"
    "       $1 = '' OR coalesce(mark::text = was_mark"
    "           AND was_next <= pg_snapshot_xmax(snapshot), false),"
    "       CASE WHEN at_xid IS NULL"
    "            THEN concat_ws('.', mark, next, coalesce(open, ''))"
    "            ELSE concat_ws('.', was_mark, was_next, was_open) END,"
    "       r.xid || '.' || r.seq,"
    "       CASE WHEN r.xid IS NOT NULL THEN (SELECT"
    "           json_strip_nulls(row_to_json(e)) FROM (SELECT"
    "           r.session_id AS id, r.account_id AS subject, r.issued_before,"
    "           extract(epoch FROM r.revoked_at) AS revoked_at,"
    "           floor(extract(epoch FROM r.dies_at)) + 1 AS dies_at) AS e) END"
    "  FROM (SELECT split_part($1, '.', 1) AS was_mark,"
    "               nullif(split_part($1, '.', 2), '')::xid8 AS was_next,"
    "               split_part($1, '.', 3) AS was_open,"
    "               nullif(split_part($1, '.', 4), '')::xid8 AS at_xid,"
    "               nullif(split_part($1, '.', 5), '')::bigint AS at_seq) AS c"
    " CROSS JOIN (SELECT session_revocation_mark() AS mark,"
    "                    pg_current_snapshot() AS snapshot) AS s"
    " CROSS JOIN LATERAL ("
    "       SELECT coalesce((SELECT x FROM pg_snapshot_xip(snapshot) AS x"
    "                         ORDER BY x OFFSET 28 LIMIT 1),"
    "                       pg_snapshot_xmax(snapshot)) AS next,"
    "              CASE WHEN $1 = '' OR at_xid IS NOT NULL"
    "                   THEN '9223372036854775807'"
    "                   ELSE pg_snapshot_xmax(snapshot) END AS upto) AS n"
    " CROSS JOIN LATERAL ("
    "       SELECT string_agg(x::text, '_' ORDER BY x) AS open"
    "         FROM pg_snapshot_xip(snapshot) AS x WHERE x < next) AS o"
    "  LEFT JOIN LATERAL (SELECT * FROM ("
    "       (SELECT * FROM session_revocations"
    "         WHERE (xid, seq) > (coalesce(at_xid, was_next, '0'),"
    "                             coalesce(at_seq, 0))"
    "           AND xid < upto"
    "         ORDER BY xid, seq LIMIT $2)"
    "       UNION ALL"
    "       (SELECT * FROM session_revocations"
    "         WHERE at_xid IS NULL"
    "           AND xid = ANY (string_to_array(was_open, '_')::xid8[])"
    "         ORDER BY xid, seq LIMIT $2)) AS u"
    "       ORDER BY xid, seq LIMIT $2) AS r ON true"
    " ORDER BY r.xid, r.seq",
    false};

enum { NOW, KNOWN, BASE, AT, ENTRY };

static bool copy_revocations(pj_arena_t *arena, const struct db_rows *rows,
                             struct revocations *out)
{
    if (!copy_list(arena, rows, ENTRY, STORE_MAX_LIST, &out->list)) {
        return false;
    }
    snprintf(out->cursor, sizeof(out->cursor), "%s%s%s",
             db_text(rows, 0, BASE, NULL), out->list.more ? "." : "",
             out->list.more ? db_text(rows, STORE_MAX_LIST - 1, AT, NULL) : "");
    sql_copy_text(rows, 0, NOW, out->now, sizeof(out->now));
    return true;
}

enum store_result store_revocations(struct store *st, pj_arena_t *arena,
                                    const char *cursor, struct revocations *out)
{
    struct sql_query q = {0};

    memset(out, 0, sizeof(*out));
    if (cursor[0] != '\0' &&
        !parse_form(cursor, CURSOR_FORM, STORE_CURSOR - 1)) {
        return STORE_NONE;
    }
    db_params(&q.p, DB_TEXT(cursor), DB_INT(STORE_MAX_LIST + 1));
    if (sql_run(&q, st, &revocations_sql, NULL)) {
        q.result = !db_bool(q.rows, 0, KNOWN)              ? STORE_NONE
                   : !copy_revocations(arena, q.rows, out) ? STORE_UNAVAILABLE
                                                           : STORE_OK;
    }
    return sql_end(&q);
}
