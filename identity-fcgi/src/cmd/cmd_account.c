/*
 * account add, rename, delete, disable, enable, set-credential, unlock,
 * revoke-sessions; sessions revoke.
 *
 * A lockout is a single write to the account's row, however many sessions the
 * account has, because every statement that reads a session compares it.  The
 * rows of the ended sessions are marked afterwards in batches.
 */

#include "cmd/cmd.h"

#include "auth/password.h"
#include "auth/reset_code.h"
#include "base/uuid.h"
#include "cmd/cmd_lookup.h"
#include "cmd/cmd_out.h"
#include "cmd/cmd_secret.h"
#include "store/store_actor.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <string.h>
#include <time.h>

#define CREDENTIAL_MAX 1024 /* bytes, the limit of login */
#define LINE_END 2
#define FORBIDDEN "PLATFORM_AUTH_CREDENTIAL_FORBIDDEN"
#define BATCH_ACCOUNTS "500"
#define BATCH_SESSIONS 1000

/* -- credentials -- */

/* Says what is wrong with the credential of the failure.  False. */
static bool add_fault(struct cmd *c, const char *code, struct fault fault)
{
    c->code = code;
    fault.pointer = "/credential";
    fault_add(&c->faults, fault);
    return false;
}

#define NOT_ALLOWED "AUTH_CREDENTIAL_NOT_ALLOWED"

/* Checks c->secret by the rules for new credentials. */
static bool check_new_credential(struct cmd *c)
{
    switch (password_check_new(&c->cfg, pj_str(c->secret), 0)) {
    case PASSWORD_FITS:
        return true;
    case PASSWORD_SHORT:
        (void) cmd_fail(c, "a credential has at least %d characters",
                        c->cfg.credential_min);
        return add_fault(c, NOT_ALLOWED,
                         (struct fault){.code = FAULT_TOO_SHORT,
                                        .minimum = c->cfg.credential_min});
    case PASSWORD_FORBIDDEN:
        (void) cmd_fail(c, "this credential is one that " FORBIDDEN " lists");
        return add_fault(c, NOT_ALLOWED,
                         (struct fault){.code = FAULT_NOT_ALLOWED});
    default:
        return cmd_fail(c, FORBIDDEN ": cannot read %s: %m",
                        c->cfg.credential_forbidden);
    }
}

/* Replaces c->secret by its hash. */
static bool hash(struct cmd *c)
{
    char phc[PASSWORD_PHC_MAX];

    if (!password_hash(pj_str(c->secret), 0, phc)) {
        return cmd_fail(c, "the credential could not be hashed");
    }
    OPENSSL_cleanse(c->secret, sizeof(c->secret));
    memcpy(c->secret, phc, sizeof(phc));
    cmd_set(c, "hash", c->secret);
    return true;
}

/* Reads and hashes a credential, or uses a random one. */
static bool read_credential(struct cmd *c)
{
    const unsigned char *p = (const unsigned char *) c->secret, *end;
    bool valid;

    if (!cmd_load(c)) {
        return false;
    }
    if (!password_setup(&c->cfg)) {
        return cmd_fail(c, "the credential could not be hashed");
    }
    if (cmd_get(c, "no-login") != NULL) {
        cmd_set(c, "hash", password_nobody());
        return true;
    }
    if (!cmd_secret_read(c, "credential", CREDENTIAL_MAX + LINE_END, true)) {
        return false;
    }
    if (c->secret_len > CREDENTIAL_MAX) {
        (void) cmd_fail(c, "a credential is at most %d bytes", CREDENTIAL_MAX);
        return add_fault(
            c, "REQUEST_INVALID",
            (struct fault){.code = FAULT_TOO_LONG, .maximum = CREDENTIAL_MAX});
    }
    c->secret[c->secret_len] = '\0';
    end = p + c->secret_len;
    valid = strlen(c->secret) == c->secret_len;
    while (p < end && valid) {
        p += pj_utf8_next(p, end, &valid);
    }
    if (!valid) {
        (void) cmd_fail(c, "a credential is UTF-8 without NUL: nobody could "
                           "log in with this one");
        return add_fault(c, "REQUEST_INVALID",
                         (struct fault){.code = FAULT_MALFORMED});
    }
    return check_new_credential(c) && hash(c);
}

/* -- names -- */

static bool fold_new_name(struct cmd *c)
{
    if (!cmd_fold(c, cmd_get(c, "to"))) {
        return false;
    }
    cmd_set(c, "to", c->secret);
    cmd_set(c, "folded", c->secret);
    return true;
}

/* -- locking out -- */

/* The accounts :from to :to, or the locked account. */
#define IN_RANGE                                                               \
    "a.account_id BETWEEN coalesce(:from::uuid, :accountId)"                   \
    " AND coalesce(:to::uuid, :accountId)"

/* Locks out the accounts with a session that was not over at :since, or all.
 * The time is later than the last lockout and not before any existing session,
 * even if the clock was set back.  A row is selected instead of EXISTS, which
 * might read the whole table for all accounts. */
static bool lock_out(struct cmd *c)
{
    static const char sql[] =
        "UPDATE accounts a SET sessions_valid_after = greatest("
        "   clock_timestamp(), a.sessions_valid_after + interval '1 us',"
        "   (SELECT max(s.created_at) FROM auth_sessions s"
        "     WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'))"
        " WHERE " IN_RANGE "   AND (:since::timestamptz IS NULL OR ("
        "       SELECT true FROM auth_sessions s"
        "        WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'"
        "          AND s.created_at > a.sessions_valid_after"
        "          AND s.expires_at > :since LIMIT 1))"
        " RETURNING (SELECT true FROM auth_sessions s"
        "     WHERE s.account_id = a.account_id AND s.status = 'ACTIVE'"
        "     LIMIT 1) IS TRUE AS endsSessions";

    /* "sessions revoke" locks out many accounts without cmd_work(). */
    if ((c->spec->event == NULL && !store_actor_set(c->db, NULL)) ||
        !cmd_sql(c, sql)) {
        return false;
    }
    c->changed = c->changed || cmd_is(c, "endsSessions", "t");
    return true;
}

/* Marks at most :most rows of these accounts.  The inner limit and the order
 * prevent a join that reads the whole table. */
#define MARK(held)                                                             \
    "UPDATE auth_sessions"                                                     \
    "   SET status = 'REVOKED', revoked_at = greatest(now(), created_at)"      \
    " WHERE session_id = ANY (ARRAY("                                          \
    "   SELECT s.session_id FROM accounts a CROSS JOIN LATERAL ("              \
    "     SELECT session_id FROM auth_sessions"                                \
    "      WHERE account_id = a.account_id AND status = 'ACTIVE'"              \
    "        AND created_at <= a.sessions_valid_after"                         \
    "      ORDER BY created_at LIMIT :most FOR UPDATE " held ") AS s"          \
    "    WHERE " IN_RANGE " ORDER BY a.account_id LIMIT :most))"

static bool mark_rows(struct cmd *c)
{
    return cmd_sql(c, cmd_is(c, "most", "1") ? MARK("") : MARK("SKIP LOCKED"));
}

/* Skips locked rows, then waits for them one by one.  It never waits for a row
 * while holding another, so it cannot deadlock with other transactions that
 * revoke several sessions. */
static bool mark(struct cmd *c, int64_t *total)
{
    bool wait = false;

    do {
        cmd_setf(c, "most", "%d", wait ? 1 : BATCH_SESSIONS);
        if (!cmd_transact(c, mark_rows)) {
            return false;
        }
        *total += c->touched;
        wait = !wait && c->touched < BATCH_SESSIONS;
    } while (wait || c->touched > 0);
    return true;
}

/* Marks the rows of the sessions that the lockout has ended.  May take long. */
static bool mark_account(struct cmd *c)
{
    int64_t ended = cmd_get(c, "session") != NULL; /* the --session */

    if (cmd_is(c, "endsSessions", "t") && !mark(c, &ended)) {
        return cmd_fail(c,
                        "all sessions are over, but not all of their rows "
                        "were marked: run the same command to go on: %s",
                        c->line);
    }
    cmd_setn(c, "revokedSessions", ended);
    return true;
}

/* -- account delete -- */

static bool prepare(struct cmd *c)
{
    cmd_set(c, "no-login", "t");
    return cmd_keys(c) && read_credential(c);
}

/* Prints all data first; if that fails, nothing is deleted.  The reader may be
 * slow, so no row is locked yet. */
static bool print_account(struct cmd *c)
{
    return cmd_lookup_account(c) &&
           (cmd_out_close(c) ||
            cmd_fail(c, "%s; nothing was deleted", c->line));
}

static bool erase(struct cmd *c)
{
    return cmd_sql(c, "WITH ended AS (UPDATE members SET status = 'INACTIVE'"
                      "   WHERE account_id = :accountId RETURNING member_id),"
                      " forgotten AS (DELETE FROM login_attempts"
                      "   WHERE account_hmac = decode(:hmac, 'hex'))"
                      " DELETE FROM branch_grants USING ended"
                      "  WHERE branch_grants.member_id = ended.member_id") &&
           lock_out(c);
}

/* Erases the clients of the next sessions after :erasedTime and :erasedId.  All
 * sessions have ended. */
static bool erase_some(struct cmd *c)
{
    return cmd_sql(
        c, "WITH page AS MATERIALIZED ("
           "   SELECT session_id, created_at FROM auth_sessions"
           "    WHERE account_id = :accountId AND status = 'REVOKED'"
           "      AND (:erasedTime::timestamptz IS NULL"
           "           OR (created_at >= :erasedTime"
           "               AND (created_at > :erasedTime"
           "                    OR session_id > :erasedId)))"
           "    ORDER BY created_at, session_id LIMIT 1000),"
           " erased AS ("
           "   UPDATE auth_sessions"
           "      SET used_address = NULL, used_agent = NULL,"
           "          login_address = NULL, login_agent = NULL"
           "    WHERE session_id = ANY (ARRAY(SELECT session_id FROM page))"
           "      AND num_nonnulls(used_address, used_agent, login_address,"
           "                       login_agent) > 0)"
           " SELECT created_at::text AS atTime, session_id AS atId FROM page"
           "  ORDER BY created_at DESC, session_id DESC LIMIT 1");
}

/* Uses a transaction for each page, so that progress is kept. */
static bool erase_clients(struct cmd *c)
{
    size_t kept = c->result_count;
    bool more = true;

    while (more) {
        if (!cmd_transact(c, erase_some)) {
            return false;
        }
        more = c->found > 0;
        if (more) {
            cmd_setf(c, "erasedTime", "%s", cmd_get(c, "atTime"));
            cmd_setf(c, "erasedId", "%s", cmd_get(c, "atId"));
        }
        cmd_keep(c, kept);
    }
    return true;
}

/* Runs after marking, because revoked sessions are no longer written to. */
static bool erase_sessions(struct cmd *c)
{
    return (mark_account(c) && erase_clients(c)) ||
           cmd_fail(c,
                    "the account is deleted, but not its sessions' addresses "
                    "and agents: repeat this with its id, %s: %s",
                    cmd_get(c, "accountId"), c->line);
}

/* -- account revoke-sessions -- */

static bool revoke(struct cmd *c)
{
    if (cmd_get(c, "session") == NULL) {
        c->changed = false;
        return lock_out(c);
    }
    return cmd_sql(c, "UPDATE auth_sessions s SET status = 'REVOKED',"
                      "       revoked_at = greatest(now(), s.created_at)"
                      "  FROM accounts a"
                      " WHERE a.account_id = :accountId"
                      "   AND s.account_id = :accountId"
                      "   AND s.session_id = :session AND s.status = 'ACTIVE'"
                      "   AND s.created_at > a.sessions_valid_after") &&
           (c->touched > 0 ||
            cmd_fail(c, "the account has no active session with this id"));
}

/* -- account reset-code -- */

static bool check_reset_code(struct cmd *c)
{
    const char *life = cmd_get(c, "ttl");
    unsigned char hash[RESET_CODE_BYTES];
    char hex[2 * sizeof(hash) + 1];
    int64_t ttl_ms = 3600 * 1000;

    if ((life != NULL && !parse_duration(life, &ttl_ms)) || !cmd_load(c)) {
        return life == NULL ? false : cmd_misused(c, "--ttl is a duration");
    }
    if (!reset_code_new(c->secret, hash)) {
        return cmd_fail(c, "the code could not be made");
    }
    (void) uuid_hex(hex, hash, sizeof(hash));
    cmd_setf(c, "codeHash", "%s", hex);
    cmd_set(c, "resetCode", c->secret);
    cmd_setn(c, "expiresAt", (int64_t) time(NULL) + ttl_ms / 1000);
    return true;
}

/* A code replaces the account's last one. */
static bool make_reset_code(struct cmd *c)
{
    if (!cmd_is(c, "status", "ACTIVE")) {
        return cmd_fail(c, "the account is disabled; run account enable first");
    }
    if (cmd_is(c, "type", "SYSTEM")) {
        return cmd_fail(c,
                        "this account is a client: it has no credential; run "
                        "client secret add");
    }
    return cmd_sql(c, "INSERT INTO reset_codes"
                      " (account_id, code_sha256, expires_at)"
                      " VALUES (:accountId, decode(:codeHash, 'hex'),"
                      "         to_timestamp(:expiresAt::bigint))"
                      " ON CONFLICT (account_id) DO UPDATE"
                      " SET code_sha256 = excluded.code_sha256, tries = 0,"
                      "     created_at = now(),"
                      "     expires_at = excluded.expires_at");
}

static bool print_reset_code(struct cmd *c)
{
    cmd_out_line(c, c->secret);
    return true;
}

/* -- account unlock -- */

static bool is_address(const char *text)
{
    unsigned char parsed[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, text, parsed) == 1 ||
           inet_pton(AF_INET6, text, parsed) == 1;
}

static bool unlock(struct cmd *c)
{
    const char *address = cmd_get(c, "address");

    if (!cmd_lookup_attempts(c) ||
        !cmd_sql(c, "DELETE FROM login_attempts"
                    " WHERE account_hmac = decode(:hmac, 'hex')")) {
        return false;
    }
    cmd_setn(c, "clearedAddresses", c->touched);
    if (address == NULL) {
        return true;
    }
    if (!cmd_sql(c, "DELETE FROM login_attempts"
                    " WHERE account_hmac = '' AND address = :prefix")) {
        return false;
    }
    cmd_set(c, "clearedAddressTotal", c->touched > 0 ? "t" : "f");
    return true;
}

/* -- sessions revoke -- */

static bool is_past_time(const char *text)
{
    char now[32];

    snprintf(now, sizeof(now), "%lld", (long long) time(NULL));
    cmd_out_time(now, now, sizeof(now));
    return cmd_is_time(text) && strcmp(text, now) <= 0; /* of equal length */
}

/* Reads the next accounts by id. */
static bool next_accounts(struct cmd *c)
{
    return cmd_sql(c, "SELECT account_id FROM accounts"
                      " WHERE :to::uuid IS NULL OR account_id > :to"
                      " ORDER BY account_id LIMIT " BATCH_ACCOUNTS);
}

/* Locks out all accounts with a session that was not over at :since, in
 * batches, and counts them.  With marking, marks the rows of their sessions
 * instead. */
static bool walk(struct cmd *c, bool marking, int64_t *count)
{
    cmd_set(c, "to", NULL);
    for (;;) {
        if (!cmd_transact(c, next_accounts)) {
            return false;
        }
        if (c->found == 0) {
            return true;
        }
        cmd_setf(c, "from", "%s", cmd_get(c, "account_id"));
        c->row = c->found - 1;
        cmd_setf(c, "to", "%s", cmd_get(c, "account_id"));
        if (!(marking ? mark(c, count) : cmd_transact(c, lock_out))) {
            return false;
        }
        *count += marking ? 0 : c->touched;
        cmd_keep(c, 0);
    }
}

static bool revoke_everybody(struct cmd *c)
{
    int64_t accounts = 0, sessions = 0;
    bool locked_out, ok;

    cmd_out_audit(c, "sessions.revoking", NULL);
    locked_out = walk(c, false, &accounts);
    ok = locked_out && walk(c, true, &sessions);
    cmd_setn(c, "accounts", accounts);
    cmd_setn(c, "revokedSessions", sessions);
    cmd_out_audit(c, "sessions.revoked", NULL);
    return ok || cmd_fail(c, "%s: run the same command to go on: %s",
                          locked_out ? "all those sessions are over, but not "
                                       "all of their rows were marked"
                                     : "not all of those sessions are over",
                          c->line);
}

/* -- the table -- */

/* clang-format off */
#define ACCOUNT \
    "account", "accountId=id", "type", "status", "changed", \
    "revokedSessions", "clearedAddresses", "clearedAddressTotal"
#define SET_STATUS \
    "UPDATE accounts SET status = :status, updated_at = now()" \
    " WHERE account_id = :accountId"
#define ACCOUNT_MORE "ACCOUNT is a name or an id.\n"
#define CREDENTIAL_MORE \
    "The credential is read from standard input, one line; on a terminal " \
    "you\nare asked for it, without echo.  It is never an argument.\n"

const struct cmd_spec cmd_accounts[] = {
    {"account add", "NAME", "create an account", CREDENTIAL_MORE,
     .options = {
         {"type", "TYPE", "CUSTOMER (default), OPERATOR or SYSTEM", CMD_TYPE},
         {"no-login", NULL,
          .help = "nobody can log in until a credential is set"}},
     .check = read_credential, .find = cmd_name_is_free,
     .sql = "INSERT INTO accounts"
            " (account_name, account_type, credential_hash)"
            " VALUES (:folded, coalesce(:type, 'CUSTOMER'), :hash)"
            " RETURNING account_id AS accountId, account_name AS account,"
            "           account_type AS type, status",
     .event = "account.added", .columns = {ACCOUNT}},
    {"account rename", "ACCOUNT", "give it another name", ACCOUNT_MORE
     "The id stays, and with it sessions and tokens.\n",
     .options = {{"to", "NAME", .help = "the new name", CMD_NEEDED}},
     .check = fold_new_name, .find = cmd_name_is_free, .to = "account",
     .sql = "UPDATE accounts SET account_name = :to, updated_at = now()"
            " WHERE account_id = :accountId",
     .event = "account.renamed", .columns = {ACCOUNT}},
    {"account delete", "ACCOUNT", "erase name and credential, for good",
     ACCOUNT_MORE
     "First prints all that is held about it, as account show does; if that\n"
     "cannot be written, nothing is deleted.  Its id, the ids of memberships\n"
     "and sessions stay for the record; the name is free.\n",
     .check = prepare, .keyless = true, .before = print_account,
     .status = "DELETED",
     .sql = "UPDATE accounts SET status = :status, deleted_at = now(),"
            "       updated_at = now(), account_name = account_id::text,"
            "       credential_hash = :hash"
            " WHERE account_id = :accountId",
     .work = erase, .event = "account.deleted", .after = erase_sessions,
     .columns = {ACCOUNT}},
    {"account disable", "ACCOUNT", "refuse logins and end all sessions",
     ACCOUNT_MORE
     "Within a second the gateway refuses access tokens already issued.\n",
     .status = "DISABLED", .sql = SET_STATUS, .work = lock_out,
     .event = "account.disabled", .after = mark_account, .columns = {ACCOUNT}},
    {"account enable", "ACCOUNT", "allow logins again", ACCOUNT_MORE,
     .status = "ACTIVE", .sql = SET_STATUS,
     .event = "account.enabled", .columns = {ACCOUNT}},
    {"account set-credential", "ACCOUNT",
     "replace the credential and end all sessions",
     ACCOUNT_MORE CREDENTIAL_MORE,
     .check = read_credential,
     .sql = "UPDATE accounts SET credential_hash = :hash, updated_at = now()"
            " WHERE account_id = :accountId",
     .work = lock_out,
     .event = "account.credential_set", .after = mark_account,
     .columns = {ACCOUNT}},
    {"account reset-code", "ACCOUNT", "make a code to set a credential with",
     ACCOUNT_MORE
     "The person gives it to POST /api/auth/reset-credential, once, with at\n"
     "most five tries.  It is shown once and replaces the account's last\n"
     "code.\n",
     .options = {
         {"ttl", "TIME", "its life, at most 1d (default 1h)", 0,
          .within = "5m to 1d", .accepted = "a duration, 5m to 1d"}},
     .check = check_reset_code, .work = make_reset_code,
     .event = "account.reset_code_made", .after = print_reset_code,
     .columns = {"accountId=", "resetCode=", "expiresAt="}},
    {"account unlock", "ACCOUNT", "forget failed logins", ACCOUNT_MORE
     "Needs the signing key: failed logins are counted under an HMAC that is\n"
     "made with it.\n",
     .options = {
         {"address", "IP", "also forget all that was counted for this address",
          0, is_address, .accepted = "an IP address"}},
     .check = cmd_keys, .work = unlock,
     .event = "account.unlocked", .columns = {ACCOUNT}},
    {"account revoke-sessions", "ACCOUNT", "end all sessions, or one",
     ACCOUNT_MORE,
     .options = {
         {"session", "UUID", "end only this one", .valid = cmd_is_uuid,
          .accepted = "a UUID"}},
     .work = revoke, .event = "account.sessions_revoked",
     .after = mark_account, .columns = {ACCOUNT}},
    {"sessions revoke", NULL, "end everybody's sessions after data loss",
     "For a database that may have lost its last commits (a failover, a\n"
     "crash): tokens that were logged out or replaced may work again, and\n"
     "nobody can tell which.  So every account with a session that was\n"
     "not over at TIME is logged out everywhere.  TIME is a moment before the\n"
     "first commit that may be lost; if in doubt, an earlier one.\n",
     .options = {
         {"since", "TIME", "in UTC, like 2026-11-21T10:15:00Z", CMD_NEEDED,
          is_past_time,
          .accepted = "a past time in UTC, like 2026-11-21T10:15:00Z"}},
     .check = cmd_connect, .after = revoke_everybody,
     .columns = {"accounts", "revokedSessions"}},
    {.words = NULL},
};
/* clang-format on */
