/* account add, disable, enable, set-credential, unlock, sessions,
 * revoke-sessions; sessions revoke */

#include "cmd/cmd.h"

#include "auth/attempt.h"
#include "auth/password.h"
#include "base/config_parse.h"
#include "cmd/cmd_input.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <string.h>
#include <time.h>

#define CREDENTIAL_MAX 1024 /* bytes, as login takes them */
#define LINE_END 2

static const char *const types[] = {"CUSTOMER", "OPERATOR", "SYSTEM"};

/* -- credentials -- */

/*
 * Whether login would read credential as it is: a JSON string cannot carry
 * other bytes than UTF-8's, and no NUL.
 */
static bool can_be_sent(const char *credential, size_t len)
{
    char text[6 * CREDENTIAL_MAX + 16];
    char arena_mem[64 * 1024]; /* the parser's tables are in it too */
    const pj_json_t *root;
    pj_arena_t arena;
    struct buf out;
    struct jsonw w;
    bool ok;

    buf_init(&out, text, sizeof(text));
    jsonw_init(&w, &out);
    jsonw_string(&w, NULL, credential, len);
    pj_arena_init(&arena, arena_mem, sizeof(arena_mem));
    ok = !out.overflow &&
         pj_json_parse(&arena,
                       (pj_str_t){(const unsigned char *) text, out.len},
                       &root) == PJ_OK &&
         root->text.len == len &&
         memcmp(root->text.data, credential, len) == 0;
    OPENSSL_cleanse(text, sizeof(text));
    OPENSSL_cleanse(arena_mem, sizeof(arena_mem));
    return ok;
}

static bool hash(struct cmd *c, const char *credential, size_t len,
                 char phc[PASSWORD_PHC_MAX])
{
    pj_str_t text = {(const unsigned char *) credential, len};

    if (!password_setup(&c->cfg) || !password_hash(text, 0, phc)) {
        (void) cmd_fail(c, CMD_FAILED, "the credential could not be hashed");
        return false;
    }
    return true;
}

/* Reads a credential and hashes it. */
static bool read_credential(struct cmd *c, char phc[PASSWORD_PHC_MAX])
{
    char credential[CREDENTIAL_MAX + LINE_END];
    char err[160];
    size_t len;
    bool ok = false;

    if (!cmd_read_secret("Credential", "Once more", credential,
                         sizeof(credential), &len, err, sizeof(err))) {
        (void) cmd_fail(c, CMD_FAILED, "no credential: %s", err);
        return false;
    }
    if (len > CREDENTIAL_MAX) {
        (void) cmd_fail(c, CMD_FAILED, "a credential is at most %d bytes",
                        CREDENTIAL_MAX);
    } else if (!can_be_sent(credential, len)) {
        (void) cmd_fail(c, CMD_FAILED,
                        "a credential is UTF-8 without NUL: nobody could "
                        "log in with this one");
    } else {
        ok = hash(c, credential, len, phc);
    }
    OPENSSL_cleanse(credential, sizeof(credential));
    return ok;
}

/* A hash of what nobody knows. */
static bool no_credential(struct cmd *c, char phc[PASSWORD_PHC_MAX])
{
    unsigned char random[32];
    bool ok;

    if (RAND_bytes(random, sizeof(random)) != 1) {
        (void) cmd_fail(c, CMD_FAILED, "no randomness");
        return false;
    }
    ok = hash(c, (const char *) random, sizeof(random), phc);
    OPENSSL_cleanse(random, sizeof(random));
    return ok;
}

/* -- results -- */

static bool account_ref(struct cmd *c, char out[STORE_ACCOUNT_NAME_MAX + 1])
{
    return cmd_account_ref(c, c->args.operand, out);
}

static void print_account(struct cmd *c, const struct admin_account *account)
{
    out_text(&c->out, "account", "account", 0, account->name);
    out_text(&c->out, "accountId", "id", 0, account->account_id);
    out_text(&c->out, "type", "type", 0, account->type);
    out_text(&c->out, "status", "status", 0, account->status);
}

static void audit(const char *event, const struct admin_account *account)
{
    cmd_audit(event, LOG_FIELDS(CMD_ID("accountId", account->account_id)),
              NULL, 0);
}

/* The end of what ends sessions.  They are over, and that is for the record
 * before the rows are marked, which may take its time. */
static int end_sessions(struct cmd *c, const char *event, bool tell_changed,
                        struct admin_account *account)
{
    if (account->changed || account->ends_sessions ||
        account->ended_sessions > 0) {
        audit(event, account);
    }
    if (!admin_sessions_end(c->admin, account)) {
        return cmd_fail(c, CMD_FAILED,
                        "all sessions are over, but not all of their rows "
                        "were marked, which the same command goes on with: %s",
                        admin_error(c->admin));
    }
    if (!cmd_out_open(c, false)) {
        return c->status;
    }
    print_account(c, account);
    if (tell_changed) {
        out_bool(&c->out, "changed", "changed", account->changed);
    }
    out_number(&c->out, "revokedSessions", "ended sessions",
               account->ended_sessions);
    return cmd_out_close(c);
}

/* -- commands -- */

static const char *find_type(const char *text)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++) {
        if (strcmp(text, types[i]) == 0) {
            return types[i];
        }
    }
    return NULL;
}

static int add(struct cmd *c)
{
    const char *given = cmd_args_value(&c->args, "type");
    const char *type = find_type(given != NULL ? given : "CUSTOMER");
    char name[STORE_ACCOUNT_NAME_MAX + 1], phc[PASSWORD_PHC_MAX];
    struct admin_account account;

    if (type == NULL) {
        return cmd_fail(c, CMD_USAGE,
                        "--type is one of CUSTOMER, OPERATOR, SYSTEM");
    }
    if (!account_ref(c, name) || !cmd_load(c) ||
        !(cmd_args_flag(&c->args, "no-login") ? no_credential(c, phc)
                                              : read_credential(c, phc)) ||
        !cmd_connect(c)) {
        return c->status;
    }
    if (!admin_account_add(c->admin, name, type, phc, &account)) {
        return cmd_fail_admin(c);
    }
    audit("account.added", &account);
    if (!cmd_out_open(c, false)) {
        return c->status;
    }
    print_account(c, &account);
    return cmd_out_close(c);
}

static int disable(struct cmd *c)
{
    char ref[STORE_ACCOUNT_NAME_MAX + 1];
    struct admin_account account;

    if (!account_ref(c, ref) || !cmd_connect(c)) {
        return c->status;
    }
    if (!admin_account_enable(c->admin, ref, false, &account)) {
        return cmd_fail_admin(c);
    }
    return end_sessions(c, "account.disabled", true, &account);
}

static int enable(struct cmd *c)
{
    char ref[STORE_ACCOUNT_NAME_MAX + 1];
    struct admin_account account;

    if (!account_ref(c, ref) || !cmd_connect(c)) {
        return c->status;
    }
    if (!admin_account_enable(c->admin, ref, true, &account)) {
        return cmd_fail_admin(c);
    }
    if (account.changed) {
        audit("account.enabled", &account);
    }
    if (!cmd_out_open(c, false)) {
        return c->status;
    }
    print_account(c, &account);
    out_bool(&c->out, "changed", "changed", account.changed);
    return cmd_out_close(c);
}

static int set_credential(struct cmd *c)
{
    char ref[STORE_ACCOUNT_NAME_MAX + 1], phc[PASSWORD_PHC_MAX];
    struct admin_account account;

    if (!account_ref(c, ref) || !cmd_load(c) || !read_credential(c, phc) ||
        !cmd_connect(c)) {
        return c->status;
    }
    if (!admin_account_credential(c->admin, ref, phc, &account)) {
        return cmd_fail_admin(c);
    }
    return end_sessions(c, "account.credential_set", false, &account);
}

static int revoke_sessions(struct cmd *c)
{
    const char *session_id = cmd_args_value(&c->args, "session");
    char ref[STORE_ACCOUNT_NAME_MAX + 1];
    struct admin_account account;

    if (session_id != NULL && !admin_is_uuid(session_id)) {
        return cmd_fail(c, CMD_USAGE, "--session is a UUID");
    }
    if (!account_ref(c, ref) || !cmd_connect(c)) {
        return c->status;
    }
    if (!admin_sessions_revoke(c->admin, ref, session_id, &account)) {
        return cmd_fail_admin(c);
    }
    if (session_id != NULL && account.ended_sessions == 0) {
        return cmd_fail(c, CMD_FAILED,
                        "the account has no active session with this id");
    }
    return end_sessions(c, "account.sessions_revoked", false, &account);
}

/* Counts are kept under an HMAC of the name that only holders of the signing
 * key can compute (attempt.c). */
static int unlock(struct cmd *c)
{
    const char *address = cmd_args_value(&c->args, "address");
    char ref[STORE_ACCOUNT_NAME_MAX + 1];
    unsigned char parsed[sizeof(struct in6_addr)];
    struct admin_account account;
    struct attempt attempt;
    int64_t pairs, addresses;
    pj_str_t name, from = {NULL, 0};

    if (address != NULL) {
        from = (pj_str_t){(const unsigned char *) address, strlen(address)};
        if (inet_pton(AF_INET, address, parsed) != 1 &&
            inet_pton(AF_INET6, address, parsed) != 1) {
            return cmd_fail(c, CMD_USAGE, "--address is an IP address");
        }
    }
    if (!account_ref(c, ref) || !cmd_keys(c) || !cmd_connect(c)) {
        return c->status;
    }
    if (!admin_account_find(c->admin, ref, &account)) {
        return cmd_fail_admin(c);
    }
    name =
        (pj_str_t){(const unsigned char *) account.name, strlen(account.name)};
    if (!attempt_identify(c->keys, name, from, &attempt)) {
        return cmd_fail(c, CMD_FAILED, "the account's HMAC failed");
    }
    if (!admin_attempts_clear(c->admin, &attempt, address != NULL, &pairs,
                              &addresses)) {
        return cmd_fail_admin(c);
    }
    cmd_audit("account.unlocked",
              LOG_FIELDS(CMD_ID("accountId", account.account_id)),
              (struct log_number[]){{"clearedAddresses", pairs}}, 1);
    if (!cmd_out_open(c, false)) {
        return c->status;
    }
    print_account(c, &account);
    out_number(&c->out, "clearedAddresses", "unlocked from", pairs);
    if (address != NULL) {
        out_bool(&c->out, "clearedAddressTotal", "address reset",
                 addresses > 0);
    }
    return cmd_out_close(c);
}

static void print_session(void *arg, const struct admin_session *s)
{
    struct out *o = arg;

    out_row(o);
    out_text(o, "sessionId", "session", STORE_UUID - 1, s->session_id);
    out_text(o, "status", "status", 7, s->status);
    out_time(o, "createdAt", "created", s->created_at_s);
    out_time(o, "expiresAt", "expires", s->expires_at_s);
    out_time(o, "revokedAt", NULL, s->revoked_at_s);
    out_text(o, "workspaceId", NULL, 0, s->workspace_id);
    out_text(o, "workspaceName", "workspace", 16, s->workspace);
    out_text(o, "branchId", NULL, 0, s->branch_id);
    out_text(o, "branchName", "branch", 0, s->branch);
    out_row_end(o);
}

static int sessions(struct cmd *c)
{
    const char *limit_text = cmd_args_value(&c->args, "limit");
    char ref[STORE_ACCOUNT_NAME_MAX + 1];
    int64_t limit = 100;

    if (limit_text != NULL &&
        (!parse_int(limit_text, &limit) || limit < 1 || limit > 100000)) {
        return cmd_fail(c, CMD_USAGE, "--limit is 1 to 100000");
    }
    if (!account_ref(c, ref) || !cmd_connect(c) || !cmd_out_open(c, true)) {
        return c->status;
    }
    if (!admin_sessions(c->admin, ref, cmd_args_flag(&c->args, "all"), limit,
                        print_session, &c->out)) {
        out_discard(&c->out);
        return cmd_fail_admin(c);
    }
    if (!c->out.begun) {
        out_line(&c->out, "no sessions");
    }
    return cmd_out_close(c);
}

/* Written as out_time() writes it; 0 where it is not. */
static int64_t parse_time(const char *text)
{
    static const char format[] = "%Y-%m-%dT%H:%M:%SZ";
    struct tm tm = {0};
    char again[32];
    time_t t;

    if (strptime(text, format, &tm) == NULL) {
        return 0;
    }
    t = timegm(&tm); /* which would take the 30th of February too */
    return strftime(again, sizeof(again), format, &tm) > 0 &&
                   strcmp(text, again) == 0
               ? (int64_t) t
               : 0;
}

static int revoke_since(struct cmd *c)
{
    const char *text = cmd_args_value(&c->args, "since");
    int64_t since_s = parse_time(text);
    struct admin_revocation done;
    bool ok;

    if (since_s <= 0 || since_s > (int64_t) time(NULL)) {
        return cmd_fail(c, CMD_USAGE,
                        "--since is a time in UTC that has been, like "
                        "2026-11-21T10:15:00Z");
    }
    if (!cmd_connect(c)) {
        return c->status;
    }
    cmd_audit("sessions.revoking", LOG_FIELDS(CMD_ID("since", text)), NULL, 0);
    ok = admin_sessions_revoke_since(c->admin, since_s, &done);
    cmd_audit("sessions.revoked", LOG_FIELDS(CMD_ID("since", text)),
              (struct log_number[]){{"accounts", done.accounts},
                                    {"revokedSessions", done.sessions}},
              2);
    if (!ok) {
        return cmd_fail(c, CMD_FAILED, "%s, give the same command again: %s",
                        done.marking ? "all those sessions are over, but not "
                                       "all of their rows were marked"
                                     : "not all of those sessions are over",
                        admin_error(c->admin));
    }
    if (!cmd_out_open(c, false)) {
        return c->status;
    }
    out_number(&c->out, "accounts", "accounts", done.accounts);
    out_number(&c->out, "revokedSessions", "ended sessions", done.sessions);
    return cmd_out_close(c);
}

#define ACCOUNT_MORE "ACCOUNT is a name or an id.\n"
#define CREDENTIAL_MORE                                                       \
    "The credential is one line on standard input; on a terminal it is "      \
    "asked\n"                                                                 \
    "for, without echo.  It is never an argument.\n"

/* clang-format off */
const struct cmd_spec cmd_account_specs[] = {
    {"account", "add", "NAME", "make an account",
     CREDENTIAL_MORE,
     {{"type", "TYPE", "CUSTOMER (default), OPERATOR or SYSTEM", false, false},
      {"no-login", NULL, "nobody can log in until a credential is set", false,
       false}},
     add},
    {"account", "disable", "ACCOUNT", "refuse logins, end all sessions",
     ACCOUNT_MORE
     "Access tokens that are out work at the gateway until they expire.\n",
     {{.name = NULL}}, disable},
    {"account", "enable", "ACCOUNT", "allow logins again",
     ACCOUNT_MORE, {{.name = NULL}}, enable},
    {"account", "set-credential", "ACCOUNT",
     "replace the credential, end all sessions",
     ACCOUNT_MORE CREDENTIAL_MORE, {{.name = NULL}}, set_credential},
    {"account", "unlock", "ACCOUNT", "forget failed logins",
     ACCOUNT_MORE
     "Needs the signing key, as what is counted is kept under an HMAC of it.\n",
     {{"address", "IP", "also forget all that was counted for this address",
       false, false}},
     unlock},
    {"account", "sessions", "ACCOUNT", "list sessions, newest first",
     ACCOUNT_MORE,
     {{"all", NULL, "ended ones too", false, false},
      {"limit", "N", "at most so many (100)", false, false}},
     sessions},
    {"account", "revoke-sessions", "ACCOUNT", "end sessions",
     ACCOUNT_MORE,
     {{"session", "UUID", "only this one", false, false}}, revoke_sessions},
    {"sessions", "revoke", NULL, "end everybody's sessions, after data loss",
     "For a database that may have lost its last commits (a failover, a\n"
     "crash): tokens that were logged out or replaced may work again, and\n"
     "which ones nobody can tell.  So every account with a session that was\n"
     "not over at TIME is logged out everywhere.  TIME is a moment before the\n"
     "first commit that may be lost; if in doubt, an earlier one.\n",
     {{"since", "TIME", "in UTC, like 2026-11-21T10:15:00Z", true, false}},
     revoke_since},
    {.group = NULL},
};
/* clang-format on */
