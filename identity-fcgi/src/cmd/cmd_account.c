/* account add, rename, delete, disable, enable, set-credential, reset-code,
 * unlock, revoke-sessions; sessions revoke */

#include "cmd/cmd.h"

#include "auth/auth_attempt.h"
#include "auth/password.h"
#include "auth/reset_code.h"
#include "cmd/cmd_lookup.h"
#include "cmd/cmd_out.h"
#include "cmd/cmd_secret.h"
#include "people/people_end.h"
#include "people/people_session.h"
#include "store/store_actor.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <string.h>
#include <time.h>

#define CREDENTIAL_MAX 1024 /* bytes, the limit of login */
#define LINE_END 2
#define FORBIDDEN "PLATFORM_AUTH_CREDENTIAL_FORBIDDEN"

/* Results, one per process. */
static struct account_item added;
static struct account_change change;
static struct end_sessions revoked;
static struct end_failures unlocked;
static struct end_reset reset;

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

    if (!cmd_hashing(c)) {
        return false;
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

/* A refusal names no member of the API's requests. */
static enum people_outcome refused(struct people *p,
                                   enum people_outcome outcome)
{
    p->field = NULL;
    return outcome;
}

/* -- adding and changing -- */

static enum people_outcome add(struct cmd *c, struct people *p)
{
    const char *type = cmd_option(c, "type");
    const struct account_new given = {.name = c->account,
                                      .type = type != NULL ? type : "CUSTOMER",
                                      .hash = cmd_get(c, "hash")};

    cmd_show(c, people_account_members, &added, "account.added");
    return refused(p, people_account_add(p, &given, &added));
}

static bool fold_new_name(struct cmd *c)
{
    return cmd_fold(c, cmd_option(c, "to"));
}

static enum people_outcome change_account(struct cmd *c, struct people *p)
{
    enum people_outcome outcome;

    change = (struct account_change){
        .ref = c->account,
        .name = cmd_option(c, "to") != NULL ? c->secret : NULL,
        .status = c->spec->status,
        .hash = cmd_get(c, "hash")};
    outcome = people_account_change(p, &change);
    cmd_show(c, people_account_members, &change.account, NULL);
    memcpy(c->events, change.events, sizeof(c->events));
    return refused(p, outcome);
}

/* -- ended sessions -- */

/* Marks the rows of sessions that ended by a lockout of these accounts.
 * May take long. */
static bool mark(struct cmd *c, const char *from, const char *to,
                 int64_t *marked)
{
    struct session_mark some = {.from = from, .to = to, .more = true};

    while (some.more) {
        if (!cmd_transact(c, people_session_mark, &some)) {
            return false;
        }
        *marked += some.marked;
    }
    return true;
}

/* The same for one account, which the result is about.  From then on the
 * members of the result are these. */
static bool finish(struct cmd *c, const char *account_id, int64_t ended,
                   const struct people_member *members, const void *item)
{
    int64_t marked = 0;

    c->members = members;
    c->item = item;
    return ended == 0 || mark(c, account_id, account_id, &marked) ||
           cmd_fail(c,
                    "all sessions are over, but not all of their rows were "
                    "marked: run the same command to go on: %s",
                    c->line);
}

static bool finish_change(struct cmd *c)
{
    return finish(c, change.account.account_id, change.ended,
                  people_account_change_members, &change);
}

#define REVOKED "account.sessions_revoked"

static enum people_outcome revoke(struct cmd *c, struct people *p)
{
    enum people_outcome outcome;

    revoked = (struct end_sessions){.ref = c->account,
                                    .session_id = cmd_option(c, "session")};
    if (revoked.session_id != NULL && !store_actor_set(c->db, REVOKED)) {
        return PEOPLE_FAILED;
    }
    outcome = people_end_sessions(p, &revoked);
    cmd_show(c, people_account_members, &revoked.account,
             revoked.ended > 0 ? REVOKED : NULL);
    return outcome;
}

static bool finish_revoke(struct cmd *c)
{
    return finish(c, revoked.account.account_id,
                  revoked.session_id == NULL ? revoked.ended : 0,
                  people_end_sessions_members, &revoked);
}

/* -- account delete -- */

static bool prepare(struct cmd *c)
{
    return cmd_keys(c) && cmd_hashing(c);
}

/* Prints all data first; if that fails, nothing is deleted.  The reader may be
 * slow, so no row is locked yet. */
static bool print_account(struct cmd *c)
{
    return cmd_lookup_account(c) &&
           (cmd_out_close(c) ||
            cmd_fail(c, "%s; nothing was deleted", c->line));
}

static enum people_outcome erase(struct cmd *c, struct people *p)
{
    struct end_delete d = {.ref = c->account,
                           .attempts = cmd_lookup_attempts(c),
                           .hash = password_nobody()};
    enum people_outcome outcome = people_end_delete(p, &d);

    change = (struct account_change){
        .account = d.account, .changed = !d.again, .ended = d.ended};
    change.account.status = "DELETED";
    cmd_show(c, people_account_members, &change.account,
             d.again ? NULL : "account.deleted");
    return outcome;
}

/* Runs after marking, because revoked sessions are no longer written to. */
static bool erase_sessions(struct cmd *c)
{
    const char *id = change.account.account_id;
    struct session_erase some = {.account_id = id, .more = true};
    int64_t marked = 0;
    bool ok = mark(c, id, id, &marked);

    while (ok && some.more) {
        ok = cmd_transact(c, people_session_erase, &some);
    }
    c->members = people_account_change_members;
    c->item = &change;
    return ok || cmd_fail(c,
                          "the account is deleted, but not its sessions' "
                          "addresses and agents: repeat this with its id, %s: "
                          "%s",
                          id, c->line);
}

/* -- account reset-code -- */

static bool check_reset_code(struct cmd *c)
{
    static unsigned char hash[RESET_CODE_BYTES];
    const char *life = cmd_option(c, "ttl");
    int64_t ttl_ms = 3600 * 1000;

    if ((life != NULL && !parse_duration(life, &ttl_ms)) || !cmd_load(c)) {
        return life == NULL ? false : cmd_misused(c, "--ttl is a duration");
    }
    reset = (struct end_reset){
        .ref = c->account,
        .code = c->secret,
        .code_hash = hash,
        .expires_us = ((int64_t) time(NULL) + ttl_ms / 1000) * 1000000};
    return reset_code_new(c->secret, hash) ||
           cmd_fail(c, "the code could not be made");
}

static enum people_outcome make_reset_code(struct cmd *c, struct people *p)
{
    enum people_outcome outcome = people_end_reset(p, &reset);

    if (outcome == PEOPLE_CONFLICT &&
        strcmp(reset.account.status, "DISABLED") == 0) {
        return people_refuse(p, outcome, NULL,
                             "the account is disabled; run account enable "
                             "first");
    }
    cmd_show(c, people_end_reset_members, &reset, "account.reset_code_made");
    return outcome;
}

/* -- account unlock -- */

static bool is_address(const char *text)
{
    unsigned char parsed[sizeof(struct in6_addr)];

    return inet_pton(AF_INET, text, parsed) == 1 ||
           inet_pton(AF_INET6, text, parsed) == 1;
}

static enum people_outcome unlock(struct cmd *c, struct people *p)
{
    const char *address = cmd_option(c, "address");
    static struct attempt from;

    unlocked = (struct end_failures){.ref = c->account,
                                     .attempts = cmd_lookup_attempts(c)};
    if (address != NULL) {
        if (!auth_attempt_identify(c->keys, PJ_STR(""), pj_str(address),
                                   &from)) {
            return PEOPLE_FAILED;
        }
        unlocked.address = from.address;
    }
    cmd_show(c,
             address != NULL ? people_end_address_members
                             : people_end_failures_members,
             &unlocked, "account.unlocked");
    return people_end_failures(p, &unlocked);
}

/* -- sessions revoke -- */

static bool is_past_time(const char *text)
{
    int64_t s;

    return parse_time(text, &s) && s <= (int64_t) time(NULL);
}

/* Locks out all accounts with a session that was not over at this time, and
 * counts them; or marks the rows of all sessions that are over. */
static bool walk(struct cmd *c, int64_t since_us, int64_t *count)
{
    struct session_step step = {.since_us = since_us};

    for (;;) {
        if (!cmd_transact(c, people_session_step, &step)) {
            return false;
        }
        if (!step.found) {
            return true;
        }
        *count += step.locked_out;
        if (since_us == 0 && !mark(c, step.from, step.to, count)) {
            return false;
        }
        memcpy(step.after, step.to, sizeof(step.after));
    }
}

static bool revoke_everybody(struct cmd *c)
{
    int64_t accounts = 0, sessions = 0, since_s = 0, since_us;
    bool locked_out, ok;

    cmd_out_audit(c, "sessions.revoking", NULL);
    (void) parse_time(cmd_option(c, "since"), &since_s);
    since_us = since_s > 0 ? since_s * 1000000 : 1; /* 0 is for marking */
    locked_out = walk(c, since_us, &accounts);
    ok = locked_out && walk(c, 0, &sessions);
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
#define ACCOUNT "account", "accountId=id", "type", "status"
#define ENDED "revokedSessions"
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
     .check = read_credential, .operate = add, .columns = {ACCOUNT}},
    {"account rename", "ACCOUNT", "give it another name", ACCOUNT_MORE
     "The id stays, and with it sessions and tokens.\n",
     .options = {{"to", "NAME", .help = "the new name", CMD_NEEDED}},
     .check = fold_new_name, .operate = change_account,
     .after = finish_change, .columns = {ACCOUNT, "changed"}},
    {"account delete", "ACCOUNT", "erase name and credential, for good",
     ACCOUNT_MORE
     "First prints all that is held about it, as account show does; if that\n"
     "cannot be written, nothing is deleted.  Its id, the ids of memberships\n"
     "and sessions stay for the record; the name is free.\n",
     .check = prepare, .keyless = true, .before = print_account,
     .operate = erase, .after = erase_sessions,
     .columns = {ACCOUNT, "changed", ENDED}},
    {"account disable", "ACCOUNT", "refuse logins and end all sessions",
     ACCOUNT_MORE
     "Within a second the gateway refuses access tokens already issued.\n",
     .status = "DISABLED", .operate = change_account,
     .after = finish_change, .columns = {ACCOUNT, "changed", ENDED}},
    {"account enable", "ACCOUNT", "allow logins again", ACCOUNT_MORE,
     .status = "ACTIVE", .operate = change_account, .after = finish_change,
     .columns = {ACCOUNT, "changed"}},
    {"account set-credential", "ACCOUNT",
     "replace the credential and end all sessions",
     ACCOUNT_MORE CREDENTIAL_MORE,
     .check = read_credential, .operate = change_account,
     .after = finish_change, .columns = {ACCOUNT, ENDED}},
    {"account reset-code", "ACCOUNT", "make a code to set a credential with",
     ACCOUNT_MORE
     "The person gives it to POST /api/auth/reset-credential, once, with at\n"
     "most five tries.  It is shown once and replaces the account's last\n"
     "code.\n",
     .options = {
         {"ttl", "TIME", "its life, at most 1d (default 1h)", 0,
          .within = "5m to 1d", .accepted = "a duration, 5m to 1d"}},
     .check = check_reset_code, .operate = make_reset_code,
     .after = cmd_out_secret},
    {"account unlock", "ACCOUNT", "forget failed logins", ACCOUNT_MORE
     "Needs the signing key: failed logins are counted under an HMAC that is\n"
     "made with it.\n",
     .options = {
         {"address", "IP", "also forget all that was counted for this address",
          0, is_address, .accepted = "an IP address"}},
     .check = cmd_keys, .operate = unlock,
     .columns = {ACCOUNT, "clearedAddresses", "clearedAddressTotal"}},
    {"account revoke-sessions", "ACCOUNT", "end all sessions, or one",
     ACCOUNT_MORE,
     .options = {
         {"session", "UUID", "end only this one", .valid = cmd_is_uuid,
          .accepted = "a UUID"}},
     .operate = revoke, .after = finish_revoke, .columns = {ACCOUNT, ENDED}},
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
