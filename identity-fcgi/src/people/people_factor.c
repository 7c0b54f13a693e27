/* Second factors of accounts. */

#include "people/people_factor.h"

#include "store/sql.h"

#define SECRETS_PAGE 500

/* -- removing -- */

const struct people_member people_factor_removal_members[] = {
    PEOPLE_ACCOUNT_ITEM(struct factor_removal, account.),
    PEOPLE_MEMBER("removedFactors", NUMBER, struct factor_removal, removed),
    PEOPLE_MEMBERS_END};

static const struct db_statement factor_delete_sql = {
    "people_factor_delete",
    "DELETE FROM factors WHERE account_id = $1 AND confirmed_at IS NOT NULL"
    "   AND ($2 IS NULL OR factor_id = $2)",
    DB_WRITES};

enum people_outcome people_factor_remove(struct people *p,
                                         struct factor_removal *removal)
{
    enum people_outcome outcome =
        people_account_lock(p, removal->ref, &removal->account);

    if (outcome == PEOPLE_DONE) {
        outcome = people_do(p, &factor_delete_sql, &removal->removed,
                            DB_ID(removal->account.account_id),
                            db_id_or_null(removal->factor_id));
    }
    if (outcome == PEOPLE_DONE && removal->factor_id != NULL &&
        removal->removed == 0) {
        return people_refuse(p, PEOPLE_NOT_FOUND, NULL,
                             "the account has no such factor");
    }
    return outcome;
}

/* -- demanding -- */

const struct people_member people_factor_demand_members[] = {
    PEOPLE_ACCOUNT_ITEM(struct factor_demand, account.),
    PEOPLE_MEMBER("factorRequired", BOOL, struct factor_demand, required),
    PEOPLE_MEMBER("changed", BOOL, struct factor_demand, changed),
    PEOPLE_MEMBERS_END};

static const struct db_statement factor_demand_sql = {
    "people_factor_demand",
    "UPDATE accounts SET factor_required = $2, updated_at = now()"
    " WHERE account_id = $1 AND factor_required <> $2",
    DB_WRITES};

enum people_outcome people_factor_demand(struct people *p,
                                         struct factor_demand *demand)
{
    enum people_outcome outcome =
        people_account_lock(p, demand->ref, &demand->account);
    int64_t changed = 0;

    if (outcome == PEOPLE_DONE) {
        outcome = people_do(p, &factor_demand_sql, &changed,
                            DB_ID(demand->account.account_id),
                            DB_BOOL(demand->required));
        demand->changed = changed > 0;
    }
    return outcome;
}

/* -- encrypting anew -- */

static const struct people_member secret_members[] = {
    PEOPLE_MEMBER("factorId", ID, struct factor_secret_row, factor_id),
    PEOPLE_MEMBER("accountId", ID, struct factor_secret_row, account_id),
    PEOPLE_MEMBER("key", TEXT, struct factor_secret_row, key_id),
    PEOPLE_MEMBER("sealed", TEXT, struct factor_secret_row, sealed_hex),
    PEOPLE_MEMBERS_END};

static const struct db_statement factor_secrets_sql = {
    "people_factor_secrets",
    "SELECT factor_id, account_id, key_id, encode(secret, 'hex') FROM factors"
    " WHERE factor_type = 'totp' AND key_id <> $1"
    "   AND ($2 IS NULL OR factor_id > $2)"
    " ORDER BY factor_id LIMIT $3",
    DB_READS};

enum people_outcome people_factor_secrets(struct people *p, const char *key_id,
                                          const char *after,
                                          struct people_rows *page)
{
    struct sql_query q = {0};

    db_params(&q.p, DB_TEXT(key_id), db_id_or_null(after),
              DB_INT(SECRETS_PAGE + 1));
    return people_list(p, &q, &factor_secrets_sql, secret_members,
                       sizeof(struct factor_secret_row), SECRETS_PAGE, page);
}

static const struct db_statement factor_reseal_sql = {
    "people_factor_reseal",
    "UPDATE factors SET key_id = $2, secret = $3"
    " WHERE factor_id = $1 AND key_id = $4 AND encode(secret, 'hex') = $5",
    DB_WRITES};

enum people_outcome people_factor_reseal(struct people *p,
                                         const struct factor_secret_row *old,
                                         const char *key_id, pj_str_t sealed)
{
    return people_do(p, &factor_reseal_sql, NULL, DB_ID(old->factor_id),
                     DB_TEXT(key_id), DB_VALUE(OID_BYTEA, .text = sealed),
                     DB_TEXT(old->key_id), DB_TEXT(old->sealed_hex));
}
