/* Tokens between the calls of a login with a second factor or of a passkey. */

#include "store/store_factor_token.h"

#include "base/parse.h"
#include "store/sql.h"

#include <string.h>

#define DB_BYTES(there, data, size)                                            \
    DB_VALUE(OID_BYTEA, .null = !(there),                                      \
             .text = {(const unsigned char *) (data), (size)})

/* Changes with the credential and with each lockout of account a. */
#define STAMP                                                                  \
    "sha256(convert_to(a.credential_hash || ' '"                               \
    "                  || a.sessions_valid_after::text, 'UTF8'))"

static const char *const purposes[] = {
    [FACTOR_VERIFY] = "verify",     [FACTOR_ENROLL] = "enroll",
    [FACTOR_REGISTER] = "register", [FACTOR_PASSKEY_LOGIN] = "passkey_login",
    [FACTOR_STEP_UP] = "step_up",
};

#define OF_TOKEN(t)                                                            \
    DB_BYTES(true, (t)->sha256, STORE_SHA256), DB_TEXT(purposes[(t)->purpose])

/* -- adding -- */

/* The conditions for the account that the caller has read. */
#define AS_READ                                                                \
    "      AND a.credential_hash = coalesce($7, a.credential_hash)"            \
    "      AND ($8 IS NULL OR $8 = " SQL_VALID_AFTER("a") ")"

static const struct db_statement factor_token_add_sql = {
    "factor_token_add",
    "WITH owner AS MATERIALIZED ("
    "   SELECT a.account_id, " STAMP " AS stamp FROM accounts a"
    "    WHERE a.account_id = $3 AND a.status = 'ACTIVE'" AS_READ
    "      FOR SHARE)"
    " INSERT INTO factor_tokens (token_sha256, purpose, account_id,"
    "    session_id, challenge, stamp, expires_at)"
    " SELECT $1, $2, owner.account_id, $4, $5, stamp,"
    "        now() + make_interval(secs => $6)"
    "   FROM (SELECT) AS one LEFT JOIN owner ON true"
    "  WHERE $3 IS NULL OR owner.account_id IS NOT NULL",
    true};

enum store_result store_factor_token_add(struct store *st,
                                         const struct factor_token *t,
                                         int64_t ttl_s,
                                         const struct account *account)
{
    bool as_read = account != NULL;

    return sql_do(
        st, &factor_token_add_sql, OF_TOKEN(t), db_id_or_null(t->account_id),
        db_id_or_null(t->session_id),
        DB_BYTES(t->has_challenge, t->challenge, STORE_CHALLENGE),
        DB_INT(ttl_s),
        DB_VALUE(OID_TEXT, .null = !as_read,
                 .text = pj_str(as_read ? account->credential_hash : "")),
        DB_VALUE(OID_TIMESTAMPTZ, .null = !as_read,
                 .number = as_read ? account->clock.valid_after_us - DB_EPOCH_US
                                   : 0));
}

/* -- reading -- */

static void copy_token(const struct db_rows *rows, struct factor_token *t)
{
    size_t len;
    const char *challenge = db_text(rows, 0, 2, &len);

    db_uuid(rows, 0, 0, t->account_id);
    db_uuid(rows, 0, 1, t->session_id);
    t->has_challenge = len == STORE_CHALLENGE;
    if (t->has_challenge) {
        memcpy(t->challenge, challenge, STORE_CHALLENGE);
    }
}

/* The token of $1 and $2, unless it has expired or the state of its account has
 * changed: a login that had to get a factor adds none beside another one. */
#define LIVE                                                                   \
    "  FROM factor_tokens f"                                                   \
    "  LEFT JOIN accounts a ON a.account_id = f.account_id"                    \
    " WHERE f.token_sha256 = $1 AND f.purpose = $2 AND f.expires_at > now()"   \
    "   AND (f.account_id IS NULL"                                             \
    "        OR (a.status = 'ACTIVE' AND f.stamp = " STAMP                     \
    "            AND (f.purpose <> 'enroll' OR NOT a.second_factor)))"

static const struct db_statement factor_token_try_sql = {
    "factor_token_try",
    "WITH live AS MATERIALIZED ("
    "   SELECT f.account_id, f.session_id, f.challenge, f.token_sha256" LIVE
    "      AND f.tries < $3 FOR UPDATE OF f),"
    " tried AS ("
    "   UPDATE factor_tokens f SET tries = f.tries + $5::integer,"
    "          challenge = CASE WHEN NOT $4 THEN f.challenge END"
    "     FROM live WHERE f.token_sha256 = live.token_sha256 RETURNING 1)"
    " SELECT live.account_id, live.session_id, live.challenge,"
    "        a.account_type, a.account_name, a.credential_hash, " SQL_CLOCK
    ",       a.second_factor, a.factor_required"
    "   FROM live JOIN tried ON true"
    "   JOIN accounts a ON a.account_id = live.account_id",
    true};

enum store_result store_factor_token_try(struct store *st,
                                         struct factor_token *t, int tries,
                                         bool take, struct account *account,
                                         char *name)
{
    struct sql_query q = {0};

    db_params(&q.p, OF_TOKEN(t), DB_INT(STORE_FACTOR_TRIES), DB_BOOL(take),
              DB_INT(tries));
    if (sql_run_one(&q, st, &factor_token_try_sql)) {
        copy_token(q.rows, t);
        *account = (struct account){.enabled = true};
        memcpy(account->account_id, t->account_id, STORE_UUID);
        sql_copy_text(q.rows, 0, 3, account->account_type,
                      sizeof(account->account_type));
        sql_copy_text(q.rows, 0, 4, name, ACCOUNT_NAME_MAX + 1);
        sql_copy_text(q.rows, 0, 5, account->credential_hash,
                      sizeof(account->credential_hash));
        sql_copy_clock(q.rows, 6, &account->clock);
        account->second_factor = db_bool(q.rows, 0, 8);
        account->factor_required = db_bool(q.rows, 0, 9);
    }
    return sql_end(&q);
}

static const struct db_statement factor_token_take_sql = {
    "factor_token_take",
    "WITH live AS MATERIALIZED ("
    "   SELECT f.token_sha256" LIVE " FOR UPDATE OF f)"
    " DELETE FROM factor_tokens f USING live"
    "  WHERE f.token_sha256 = live.token_sha256"
    " RETURNING f.account_id, f.session_id, f.challenge",
    true};

enum store_result store_factor_token_take(struct store *st,
                                          struct factor_token *t)
{
    struct sql_query q = {0};

    db_params(&q.p, OF_TOKEN(t));
    if (sql_run_one(&q, st, &factor_token_take_sql)) {
        copy_token(q.rows, t);
    }
    return sql_end(&q);
}

static const struct db_statement factor_token_end_sql = {
    "factor_token_end", "DELETE FROM factor_tokens WHERE token_sha256 = $1",
    true};

enum store_result store_factor_token_end(struct store *st,
                                         const unsigned char *sha256)
{
    return sql_do(st, &factor_token_end_sql,
                  DB_BYTES(true, sha256, STORE_SHA256));
}
