/* Passkeys: factors that are public keys. */

#include "store/store_passkey.h"

#include "store/sql.h"

#include <string.h>

#define DB_SPAN(str) DB_VALUE(OID_BYTEA, .text = (str))

static const struct db_statement passkey_add_sql = {
    "passkey_add",
    "WITH owner AS MATERIALIZED ("
    "   SELECT account_id, second_factor FROM accounts"
    "    WHERE account_id = $1 AND status = 'ACTIVE' FOR NO KEY UPDATE)"
    " INSERT INTO factors (account_id, factor_id, factor_type, factor_name,"
    "    confirmed_at, credential_id, public_key, sign_count, transports,"
    "    may_sync, synced)"
    " SELECT account_id, $2, 'passkey', $5, now(), $6, $7, $8, $9::integer,"
    "        $10, $11 FROM owner"
    "  WHERE second_factor = $3"
    "    AND (SELECT count(*) FROM factors f WHERE f.account_id = $1"
    "            AND f.confirmed_at IS NOT NULL) < $4"
    " ON CONFLICT (credential_id) DO NOTHING",
    true};

enum store_result store_passkey_add(struct store *st,
                                    const struct account *account,
                                    const struct passkey *k, const char *name)
{
    enum store_result result = store_factor_lock(st, account->account_id);

    return result != STORE_OK
               ? result
               : sql_do(st, &passkey_add_sql, DB_ID(account->account_id),
                        DB_ID(k->factor_id), DB_BOOL(account->second_factor),
                        DB_INT(STORE_MAX_FACTORS), DB_TEXT(name),
                        DB_SPAN(k->credential_id), DB_SPAN(k->key),
                        DB_INT(k->sign_count), DB_INT(k->transports),
                        DB_BOOL(k->may_sync), DB_BOOL(k->synced));
}

static const struct db_statement passkey_find_sql = {
    "passkey_find",
    "SELECT a.account_id, a.account_type, true, a.credential_hash, " SQL_CLOCK
    ",      f.factor_id, f.public_key, u.handle, f.sign_count,"
    "       f.transports::bigint, f.may_sync, f.synced, a.factor_required"
    "  FROM factors f JOIN accounts a ON a.account_id = f.account_id"
    "  JOIN passkey_users u ON u.account_id = f.account_id"
    " WHERE f.credential_id = $1 AND f.confirmed_at IS NOT NULL"
    "   AND a.status = 'ACTIVE'",
    false};

enum { CLOCK = 4, FACTOR = 6, KEY, USER, COUNT, TRANSPORTS, MAY, SYNCED, MUST };

static bool copy(pj_arena_t *arena, const struct db_rows *rows,
                 struct passkey *out)
{
    pj_str_t user;

    db_uuid(rows, 0, FACTOR, out->factor_id);
    out->sign_count = db_int64(rows, 0, COUNT);
    out->transports = (unsigned) db_int64(rows, 0, TRANSPORTS);
    out->may_sync = db_bool(rows, 0, MAY);
    out->synced = db_bool(rows, 0, SYNCED);
    if (!sql_copy_bytes(arena, rows, 0, KEY, &out->key) ||
        !sql_copy_bytes(arena, rows, 0, USER, &user) ||
        user.len != STORE_PASSKEY_USER) {
        return false;
    }
    memcpy(out->user, user.data, user.len);
    return true;
}

enum store_result store_passkey_find(struct store *st, pj_arena_t *arena,
                                     pj_str_t credential_id,
                                     struct passkey *out,
                                     struct account *account)
{
    struct sql_query q = {0};

    *account = (struct account){.second_factor = true};
    *out = (struct passkey){.credential_id = credential_id};
    db_params(&q.p, DB_SPAN(credential_id));
    if (sql_run_one(&q, st, &passkey_find_sql)) {
        sql_copy_account(q.rows, 3, CLOCK, account);
        account->factor_required = db_bool(q.rows, 0, MUST);
        if (!copy(arena, q.rows, out)) {
            q.result = STORE_UNAVAILABLE;
        }
    }
    return sql_end(&q);
}

static const struct db_statement passkey_user_sql = {
    "passkey_user",
    "INSERT INTO passkey_users AS u (account_id, handle) VALUES ($1, $2)"
    " ON CONFLICT (account_id) DO UPDATE SET handle = u.handle"
    " RETURNING handle",
    true};

enum store_result store_passkey_user(struct store *st, const char *account_id,
                                     unsigned char handle[STORE_PASSKEY_USER])
{
    pj_str_t candidate = {handle, STORE_PASSKEY_USER};
    struct sql_query q = {0};
    const char *bytes;
    size_t len;

    db_params(&q.p, DB_ID(account_id), DB_SPAN(candidate));
    if (sql_run_one(&q, st, &passkey_user_sql)) {
        bytes = db_text(q.rows, 0, 0, &len);
        memcpy(handle, bytes,
               len < STORE_PASSKEY_USER ? len : STORE_PASSKEY_USER);
    }
    return sql_end(&q);
}

static const struct db_statement passkey_use_sql = {
    "passkey_use",
    "UPDATE factors SET sign_count = $2, synced = $3, used_at = now()"
    " WHERE factor_id = $1 AND confirmed_at IS NOT NULL"
    "   AND (sign_count < $2 OR (sign_count = 0 AND $2 = 0))",
    true};

enum store_result store_passkey_use(struct store *st, const char *factor_id,
                                    int64_t sign_count, bool synced)
{
    return sql_do(st, &passkey_use_sql, DB_ID(factor_id), DB_INT(sign_count),
                  DB_BOOL(synced));
}

static const struct db_statement passkey_count_fell_sql = {
    "passkey_count_fell",
    "UPDATE factors SET count_fell_at = now() WHERE factor_id = $1" SQL_ACTOR(
        "$2"),
    true};

enum store_result store_passkey_count_fell(struct store *st,
                                           const char *factor_id)
{
    return sql_do(st, &passkey_count_fell_sql, DB_ID(factor_id),
                  DB_TEXT(st->actor));
}
