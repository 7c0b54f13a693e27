/* Clients, and the assertions that they have used. */

#include "store/store_client.h"

#include "store/sql.h"

#include <string.h>

#define SHA256_BYTES 32

/* Returns one row, with nulls if the client does not exist.  The subqueries use
 * the given id, so that they cost the same for an id that does not exist. */
static const struct db_statement client_find_sql = {
    "client_find",
    "SELECT a.account_id, a.account_type, a.status = 'ACTIVE', '', " SQL_CLOCK
    ","
    "       EXISTS (SELECT FROM client_secrets s WHERE s.account_id = $1"
    "                  AND s.secret_sha256 = $2"
    "                  AND (s.expires_at IS NULL OR s.expires_at > now())),"
    "       (SELECT string_agg(jwk, ',') FROM client_keys k"
    "         WHERE k.account_id = $1),"
    "       (SELECT string_agg(scope, ' ' ORDER BY scope) FROM client_scopes c"
    "         WHERE c.account_id = $1),"
    "       CASE WHEN $5 > 0 THEN login_attempt_wait($3, $4::text::inet, "
    "$5::int)"
    "            ELSE 0 END"
    "  FROM (VALUES (true)) AS one (row)"
    "  LEFT JOIN accounts a ON a.account_id = $1 AND a.account_type = 'SYSTEM'",
    false};

enum { CLOCK = 4, SECRET = 6, KEYS, SCOPES, WAIT };

enum store_result store_client_find(struct store *st, pj_arena_t *arena,
                                    pj_str_t client_id,
                                    const unsigned char *secret_sha256,
                                    const struct attempt *attempt,
                                    int max_failures, struct client *out)
{
    pj_str_t hmac = {attempt->account_hmac, sizeof(attempt->account_hmac)};
    struct sql_query q = {0};

    *out = (struct client){.keys = "", .scopes = ""};
    db_params(&q.p, DB_UUID(client_id),
              DB_VALUE(OID_BYTEA, .null = secret_sha256 == NULL,
                       .text = {secret_sha256, SHA256_BYTES}),
              DB_VALUE(OID_BYTEA, .text = hmac), DB_TEXT(attempt->address),
              DB_INT(max_failures));
    if (sql_run(&q, st, &client_find_sql, NULL)) {
        out->retry_after_s = db_int64(q.rows, 0, WAIT);
        if (db_is_null(q.rows, 0, 0)) {
            q.result = STORE_NONE;
        } else {
            sql_copy_account(q.rows, 3, CLOCK, &out->account);
            out->secret_matches = db_bool(q.rows, 0, SECRET);
            out->keys = sql_copy_string(arena, db_text(q.rows, 0, KEYS, NULL));
            out->scopes =
                sql_copy_string(arena, db_text(q.rows, 0, SCOPES, NULL));
            q.result = out->keys != NULL && out->scopes != NULL
                           ? STORE_OK
                           : STORE_UNAVAILABLE;
        }
    }
    return sql_end(&q);
}

static const struct db_statement client_assertion_sql = {
    "client_assertion",
    "INSERT INTO client_assertions (jti_sha256, dies_at) VALUES ($1, $2)"
    " ON CONFLICT DO NOTHING",
    true};

enum store_result store_client_use_assertion(struct store *st,
                                             const unsigned char *jti_sha256,
                                             int64_t dies_at_s)
{
    return sql_do(st, &client_assertion_sql,
                  DB_VALUE(OID_BYTEA, .text = {jti_sha256, SHA256_BYTES}),
                  DB_TIME(dies_at_s));
}
