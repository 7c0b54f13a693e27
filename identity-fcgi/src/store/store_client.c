/* Clients, and the assertions that they have used. */

#include "store/store_client.h"

#include "store/sql.h"

#include <string.h>

#define SHA256_BYTES 32

/* Scopes of the client $1. */
#define SCOPES_OF_1                                                            \
    "(SELECT string_agg(scope, ' ' ORDER BY scope) FROM client_scopes c"       \
    "  WHERE c.account_id = $1)"

/* Seconds to wait after $5 failures of the client $3 from the address $4, or
 * after ten times as many of the address.  login_attempt_wait() has the same
 * text, but as a function it is planned at each call. */
#define WAIT_OF_3                                                              \
    "(SELECT coalesce(max(greatest(1, ceil(extract(epoch FROM"                 \
    "                         window_ends_at - now())))), 0)::bigint"          \
    "   FROM login_attempts"                                                   \
    "  WHERE address = $4::text::inet AND window_ends_at > now()"              \
    "    AND account_hmac IN ($3, '')"                                         \
    "    AND failures >= $5 * CASE WHEN account_hmac = '' THEN 10 ELSE 1 END)"

#define ACCOUNT                                                                \
    "(SELECT account_id, account_type, status, sessions_valid_after"           \
    "   FROM accounts"
#define FIRST "  ORDER BY account_id LIMIT 1)"

/* Returns one row.  The time must not tell whether the client exists.  So the
 * next account by id stands in for a missing one (after the last, the first).
 * A lookup by what the request presents finds no row unless the request is
 * right or knows a kid, and the scopes are read for the right secret only. */
static const struct db_statement client_find_sql = {
    "client_find",
    "SELECT a.account_id, a.account_type, a.status = 'ACTIVE', '', " SQL_CLOCK
    ", a.account_id = $1 AND a.account_type = 'SYSTEM', one.matches,"
    "       CASE WHEN $6 IS NULL THEN NULL WHEN $7 <> '' THEN"
    "           (SELECT jwk FROM client_keys k"
    "             WHERE k.account_id = $1 AND k.kid = $7)"
    "       ELSE (SELECT CASE WHEN count(*) = 1 THEN min(jwk) END"
    "               FROM client_keys k"
    "              WHERE k.account_id = $1 AND starts_with(jwk, $6)) END,"
    "       CASE WHEN one.matches THEN " SCOPES_OF_1 " END,"
    "       CASE WHEN $5 > 0 THEN " WAIT_OF_3 " ELSE 0 END"
    "  FROM (SELECT EXISTS (SELECT FROM client_secrets s"
    "                WHERE $2 IS NOT NULL AND s.account_id = $1"
    "                  AND s.secret_sha256 = $2"
    "                  AND (s.expires_at IS NULL OR s.expires_at > now()))"
    "               AS matches OFFSET 0) AS one"
    "  LEFT JOIN (" ACCOUNT " WHERE account_id >= $1" FIRST
    "             UNION ALL " ACCOUNT FIRST " LIMIT 1) AS a ON true",
    false};

enum { CLOCK = 4, KNOWN = 6, SECRET, KEY, SCOPES, WAIT };

static bool copy(pj_arena_t *arena, const char **out,
                 const struct db_rows *rows, int col)
{
    *out = sql_copy_string(arena, db_text(rows, 0, col, NULL));
    return *out != NULL;
}

enum store_result store_client_find(struct store *st, pj_arena_t *arena,
                                    const struct client_lookup *lookup,
                                    const struct attempt *attempt,
                                    int max_failures, struct client *out)
{
    pj_str_t hmac = {attempt->account_hmac, sizeof(attempt->account_hmac)};
    const unsigned char *hash = lookup->secret_sha256;
    const char *begin = lookup->jwk_begin;
    struct sql_query q = {0};

    *out = (struct client){.key = "", .scopes = ""};
    db_params(
        &q.p, DB_UUID(lookup->client_id),
        DB_VALUE(OID_BYTEA, .null = hash == NULL, .text = {hash, SHA256_BYTES}),
        DB_VALUE(OID_BYTEA, .text = hmac), DB_TEXT(attempt->address),
        DB_INT(max_failures),
        DB_VALUE(OID_TEXT, .null = begin == NULL,
                 .text = pj_str(begin != NULL ? begin : "")),
        DB_VALUE(OID_TEXT, .text = lookup->kid));
    if (sql_run(&q, st, &client_find_sql, NULL)) {
        out->retry_after_s = db_int64(q.rows, 0, WAIT);
        if (!db_bool(q.rows, 0, KNOWN)) {
            q.result = STORE_NONE;
        } else {
            sql_copy_account(q.rows, 3, CLOCK, &out->account);
            out->secret_matches = db_bool(q.rows, 0, SECRET);
            q.result = copy(arena, &out->key, q.rows, KEY) &&
                               copy(arena, &out->scopes, q.rows, SCOPES)
                           ? STORE_OK
                           : STORE_UNAVAILABLE;
        }
    }
    return sql_end(&q);
}

static const struct db_statement client_assertion_sql = {
    "client_assertion",
    "INSERT INTO client_assertions (jti_sha256, dies_at) VALUES ($2, $3)"
    " ON CONFLICT DO NOTHING RETURNING " SCOPES_OF_1,
    true};

enum store_result store_client_use_assertion(struct store *st,
                                             pj_arena_t *arena,
                                             const unsigned char *jti_sha256,
                                             int64_t dies_at_s,
                                             struct client *client)
{
    struct sql_query q = {0};

    db_params(&q.p, DB_ID(client->account.account_id),
              DB_VALUE(OID_BYTEA, .text = {jti_sha256, SHA256_BYTES}),
              DB_TIME(dies_at_s));
    if (sql_run_one(&q, st, &client_assertion_sql) &&
        !copy(arena, &client->scopes, q.rows, 0)) {
        q.result = STORE_UNAVAILABLE;
    }
    return sql_end(&q);
}
