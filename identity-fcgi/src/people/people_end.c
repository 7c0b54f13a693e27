/* What ends an account or helps its owner in again: deletion, lockout,
 * forgotten failures, reset codes. */

#include "people/people_end.h"

#include "people/people_session.h"
#include "store/sql.h"

#include <string.h>

#define HMAC(hmac) DB_VALUE(OID_BYTEA, .text = {(hmac), sizeof(hmac)})
#define HASH(hash) DB_VALUE(OID_BYTEA, .text = {(hash), 32})

/* -- failed logins -- */

struct failure {
    const char *address;
    int64_t failures, until_us;
};

static const struct people_member failure_members[] = {
    PEOPLE_MEMBER("address", TEXT, struct failure, address),
    PEOPLE_MEMBER("failures", NUMBER, struct failure, failures),
    PEOPLE_MEMBER("until", TIME, struct failure, until_us), PEOPLE_MEMBERS_END};

const struct people_member people_end_members[] = {
    {"failedLogins", PEOPLE_ROWS, offsetof(struct end_held, failed_logins),
     failure_members},
    PEOPLE_MEMBERS_END};

static const struct db_statement end_failures_sql = {
    "end_failures",
    "SELECT abbrev(address), failures::bigint, window_ends_at"
    "  FROM login_attempts WHERE account_hmac = $1",
    DB_READS};
static const struct db_statement end_forget_sql = {
    "end_forget", "DELETE FROM login_attempts WHERE account_hmac = $1",
    DB_WRITES};

static const struct db_statement end_forget_address_sql = {
    "end_forget_address",
    "DELETE FROM login_attempts WHERE account_hmac = '' AND address = $1",
    DB_WRITES};

#define FAILURES                                                               \
    PEOPLE_ACCOUNT_ITEM(struct end_failures, account.),                        \
        PEOPLE_MEMBER("clearedAddresses", NUMBER, struct end_failures,         \
                      cleared)
const struct people_member people_end_failures_members[] = {FAILURES,
                                                            PEOPLE_MEMBERS_END};
const struct people_member people_end_address_members[] = {
    FAILURES,
    PEOPLE_MEMBER("clearedAddressTotal", BOOL, struct end_failures,
                  address_reset),
    PEOPLE_MEMBERS_END};

static const struct db_statement end_factor_failures_sql = {
    "end_factor_failures", "DELETE FROM factor_failures WHERE account_id = $1",
    DB_WRITES};

/* Attempts of a client are counted under its id. */
static bool identify(const struct end_attempts *attempts,
                     const struct account_item *account, unsigned char *hmac)
{
    return attempts->identify(attempts->context,
                              strcmp(account->type, "SYSTEM") == 0
                                  ? account->account_id
                                  : account->name,
                              hmac);
}

/* Forgets the failed logins of the account. */
static enum people_outcome forget(struct people *p,
                                  const struct end_attempts *attempts,
                                  const struct account_item *account,
                                  int64_t *cleared)
{
    unsigned char hmac[32];

    if (attempts->identify == NULL) {
        return PEOPLE_DONE;
    }
    return identify(attempts, account, hmac)
               ? people_do(p, &end_forget_sql, cleared, HMAC(hmac))
               : PEOPLE_FAILED;
}

enum people_outcome people_end_failures(struct people *p,
                                        struct end_failures *e)
{
    enum people_outcome outcome = people_account_lock(p, e->ref, &e->account);
    int64_t found = 0;

    if (outcome == PEOPLE_DONE) {
        outcome = forget(p, &e->attempts, &e->account, &e->cleared);
    }
    if (outcome == PEOPLE_DONE) {
        outcome = people_do(p, &end_factor_failures_sql, NULL,
                            DB_ID(e->account.account_id));
    }
    if (outcome == PEOPLE_DONE && e->address != NULL) {
        outcome =
            people_do(p, &end_forget_address_sql, &found, db_any(e->address));
    }
    e->address_reset = found > 0;
    return outcome;
}

/* -- lockout -- */

const struct people_member people_end_sessions_members[] = {
    PEOPLE_ACCOUNT_ITEM(struct end_sessions, account.),
    PEOPLE_MEMBER("revokedSessions", NUMBER, struct end_sessions, ended),
    PEOPLE_MEMBERS_END};

enum people_outcome people_end_sessions(struct people *p,
                                        struct end_sessions *e)
{
    enum people_outcome outcome = people_account_lock(p, e->ref, &e->account);

    if (outcome != PEOPLE_DONE || e->session_id == NULL) {
        return outcome == PEOPLE_DONE ? people_session_lock_out(
                                            p, e->account.account_id, &e->ended)
                                      : outcome;
    }
    e->ended = 1;
    return people_session_end(p, e->account.account_id, e->session_id);
}

/* -- deletion -- */

static const struct db_statement end_account_sql = {
    "end_account",
    "UPDATE accounts SET status = 'DELETED', deleted_at = now(),"
    "       updated_at = now(), account_name = account_id::text,"
    "       credential_hash = $2"
    " WHERE account_id = $1",
    DB_WRITES};

static const struct db_statement end_members_sql = {
    "end_members",
    "WITH ended AS (UPDATE members SET status = 'INACTIVE'"
    "   WHERE account_id = $1 RETURNING member_id)"
    " DELETE FROM branch_grants USING ended"
    "  WHERE branch_grants.member_id = ended.member_id",
    DB_WRITES};

enum people_outcome people_end_hold(struct people *p, const char *ref,
                                    const struct end_attempts *attempts,
                                    struct end_held *out)
{
    enum people_outcome outcome = people_account_read(p, ref, &out->account);
    struct sql_query q = {0};
    unsigned char hmac[32];

    if (outcome != PEOPLE_DONE || attempts->identify == NULL) {
        return outcome;
    }
    if (!identify(attempts, &out->account.item, hmac)) {
        return PEOPLE_FAILED;
    }
    db_params(&q.p, HMAC(hmac));
    return people_list(p, &q, &end_failures_sql, failure_members,
                       sizeof(struct failure), PEOPLE_PAGE_MAX,
                       &out->failed_logins);
}

static enum people_outcome hold(struct people *p, struct end_delete *d)
{
    const struct session_query all = {.account_id = d->account.account_id,
                                      .all = true,
                                      .limit = PEOPLE_PAGE_MAX};
    enum people_outcome outcome =
        people_end_hold(p, d->account.account_id, &d->attempts, d->held);

    return outcome == PEOPLE_DONE ? people_session_list(p, &all, &d->sessions)
                                  : outcome;
}

enum people_outcome people_end_delete(struct people *p, struct end_delete *d)
{
    const char **id = &d->account.account_id;
    enum people_outcome outcome =
        people_account_lock_any(p, d->ref, &d->account);

    if (outcome == PEOPLE_DONE && d->held != NULL) {
        outcome = hold(p, d);
    }
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    d->again = strcmp(d->account.status, "DELETED") == 0;
    if (d->again) {
        return PEOPLE_DONE;
    }
    outcome =
        people_do(p, &end_account_sql, NULL, DB_ID(*id), DB_TEXT(d->hash));
    if (outcome == PEOPLE_DONE) {
        outcome = people_do(p, &end_members_sql, NULL, DB_ID(*id));
    }
    if (outcome == PEOPLE_DONE) {
        outcome = forget(p, &d->attempts, &d->account, NULL);
    }
    return outcome == PEOPLE_DONE ? people_session_lock_out(p, *id, &d->ended)
                                  : outcome;
}

/* -- reset codes -- */

const struct people_member people_end_reset_members[] = {
    PEOPLE_MEMBER("accountId", ID, struct end_reset, account.account_id),
    PEOPLE_MEMBER("resetCode", TEXT, struct end_reset, code),
    PEOPLE_MEMBER("expiresAt", TIME, struct end_reset, expires_us),
    PEOPLE_MEMBERS_END};

static const struct db_statement end_reset_sql = {
    "end_reset",
    "INSERT INTO reset_codes (account_id, code_sha256, expires_at)"
    " VALUES ($1, $2, $3)"
    " ON CONFLICT (account_id) DO UPDATE"
    " SET code_sha256 = excluded.code_sha256, tries = 0,"
    "     created_at = now(), expires_at = excluded.expires_at",
    DB_WRITES};

enum people_outcome people_end_reset(struct people *p, struct end_reset *r)
{
    enum people_outcome outcome = people_account_lock(p, r->ref, &r->account);

    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    if (strcmp(r->account.status, "ACTIVE") != 0) {
        return people_refuse(p, PEOPLE_CONFLICT, NULL,
                             "the account is disabled");
    }
    if (strcmp(r->account.type, "SYSTEM") == 0) {
        return people_refuse(p, PEOPLE_CONFLICT, NULL,
                             "this account is a client: it has no credential; "
                             "run client secret add");
    }
    return people_do(p, &end_reset_sql, NULL, DB_ID(r->account.account_id),
                     HASH(r->code_hash), DB_TIME_US(r->expires_us));
}
