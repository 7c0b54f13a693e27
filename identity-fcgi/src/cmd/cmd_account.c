/* account add, disable, enable, set-credential, unlock */

#include "cmd/cmd.h"

#include "auth/attempt.h"
#include "auth/password.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <string.h>

#define CREDENTIAL_MAX 1024 /* bytes, as login takes them */
#define LINE_END 2

const struct cmd_column cmd_account_columns[] = {
    {"account", "account", CMD_TEXT, 0},
    {"accountId", "id", CMD_TEXT, 0},
    {"type", "type", CMD_TEXT, 0},
    {"status", "status", CMD_TEXT, 0},
    {"changed", "changed", CMD_BOOL, 0},
    {"revokedSessions", "ended sessions", CMD_NUMBER, 0},
    {"clearedAddresses", "unlocked from", CMD_NUMBER, 0},
    {"clearedAddressTotal", "address reset", CMD_BOOL, 0},
    {.name = NULL},
};

static pj_str_t str(const char *text, size_t len)
{
    return (pj_str_t){(const unsigned char *) text, len};
}

/* -- credentials -- */

/*
 * Whether login would read c->secret as it is: a JSON string cannot carry
 * other bytes than UTF-8's, and no NUL.
 */
static bool can_be_sent(struct cmd *c)
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
    jsonw_string(&w, NULL, c->secret, c->secret_len);
    pj_arena_init(&arena, arena_mem, sizeof(arena_mem));
    ok = !out.overflow &&
         pj_json_parse(&arena, str(text, out.len), &root) == PJ_OK &&
         root->text.len == c->secret_len &&
         memcmp(root->text.data, c->secret, c->secret_len) == 0;
    OPENSSL_cleanse(text, sizeof(text));
    OPENSSL_cleanse(arena_mem, sizeof(arena_mem));
    return ok;
}

/* Puts the hash of c->secret in its place. */
static bool hash(struct cmd *c)
{
    char phc[PASSWORD_PHC_MAX];

    if (!password_setup(&c->cfg) ||
        !password_hash(str(c->secret, c->secret_len), 0, phc)) {
        return cmd_fail(c, CMD_FAILED, "the credential could not be hashed");
    }
    OPENSSL_cleanse(c->secret, sizeof(c->secret));
    memcpy(c->secret, phc, sizeof(phc));
    cmd_set(c, "hash", c->secret);
    return true;
}

/* Reads a credential and hashes it. */
static bool read_credential(struct cmd *c)
{
    if (!cmd_load(c) ||
        !cmd_read_secret(c, "credential", CREDENTIAL_MAX + LINE_END, true)) {
        return false;
    }
    if (c->secret_len > CREDENTIAL_MAX) {
        return cmd_fail(c, CMD_FAILED, "a credential is at most %d bytes",
                        CREDENTIAL_MAX);
    }
    if (!can_be_sent(c)) {
        return cmd_fail(c, CMD_FAILED,
                        "a credential is UTF-8 without NUL: nobody could "
                        "log in with this one");
    }
    return hash(c);
}

/* Hashes what nobody knows. */
static bool no_credential(struct cmd *c)
{
    c->secret_len = 32;
    if (RAND_bytes((unsigned char *) c->secret, (int) c->secret_len) != 1) {
        return cmd_fail(c, CMD_FAILED, "no randomness");
    }
    return cmd_load(c) && hash(c);
}

/* -- the commands -- */

static bool check_add(struct cmd *c)
{
    if (cmd_get(c, "type") == NULL) {
        cmd_set(c, "type", "CUSTOMER");
    }
    if (!cmd_is(c, "type", "CUSTOMER") && !cmd_is(c, "type", "OPERATOR") &&
        !cmd_is(c, "type", "SYSTEM")) {
        return cmd_fail(c, CMD_USAGE,
                        "--type is one of CUSTOMER, OPERATOR, SYSTEM");
    }
    return cmd_account_ref(c, c->operand) &&
           (cmd_get(c, "no-login") != NULL ? no_credential(c)
                                           : read_credential(c));
}

static bool add(struct cmd *c)
{
    if (cmd_is_uuid(c->account)) {
        /* Nobody could refer to it by name. */
        return cmd_fail(c, CMD_FAILED, "an account's name cannot be a UUID");
    }
    cmd_set(c, "ref", c->account);
    return cmd_sql(c, "INSERT INTO accounts"
                      " (account_name, account_type, credential_hash)"
                      " VALUES (:ref, :type, :hash)") &&
           cmd_lock_account(c);
}

static bool set_status(struct cmd *c)
{
    return cmd_lock_account(c) &&
           (!cmd_new_status(c) ||
            cmd_sql(c, "UPDATE accounts"
                       "   SET status = :status, updated_at = now()"
                       " WHERE account_id = :accountId")) &&
           (cmd_is(c, "status", "ACTIVE") || cmd_lock_out(c));
}

static bool set_credential(struct cmd *c)
{
    return cmd_lock_account(c) &&
           cmd_sql(c, "UPDATE accounts"
                      "   SET credential_hash = :hash, updated_at = now()"
                      " WHERE account_id = :accountId") &&
           cmd_lock_out(c);
}

static bool check_unlock(struct cmd *c)
{
    const char *address = cmd_get(c, "address");
    unsigned char parsed[sizeof(struct in6_addr)];

    if (address != NULL && inet_pton(AF_INET, address, parsed) != 1 &&
        inet_pton(AF_INET6, address, parsed) != 1) {
        return cmd_fail(c, CMD_USAGE, "--address is an IP address");
    }
    return cmd_keys(c, true);
}

/* Counts are kept under an HMAC of the name that only holders of the signing
 * key can compute (attempt.c). */
static bool unlock(struct cmd *c)
{
    const char *name, *address = cmd_get(c, "address");
    char hmac[2 * sizeof(((struct attempt *) NULL)->account_hmac) + 1];
    struct attempt attempt;

    if (!cmd_lock_account(c)) {
        return false;
    }
    name = cmd_get(c, "account");
    if (!attempt_identify(c->keys, str(name, strlen(name)),
                          str(address, address != NULL ? strlen(address) : 0),
                          &attempt)) {
        return cmd_fail(c, CMD_FAILED, "the account's HMAC failed");
    }
    for (size_t i = 0; i < sizeof(attempt.account_hmac); i++) {
        snprintf(hmac + 2 * i, 3, "%02x", attempt.account_hmac[i]);
    }
    cmd_setf(c, "hmac", "%s", hmac);
    if (!cmd_sql(c, "DELETE FROM login_attempts"
                    " WHERE account_hmac = decode(:hmac, 'hex')")) {
        return false;
    }
    cmd_setf(c, "clearedAddresses", "%lld", (long long) c->touched);
    if (address == NULL) {
        return true;
    }
    cmd_setf(c, "prefix", "%s", attempt.address);
    if (!cmd_sql(c, "DELETE FROM login_attempts"
                    " WHERE account_hmac = '' AND address = :prefix")) {
        return false;
    }
    cmd_set(c, "clearedAddressTotal", c->touched > 0 ? "t" : "f");
    return true;
}

/* -- the table -- */

#define CREDENTIAL_MORE                                                       \
    "The credential is one line on standard input; on a terminal it is "      \
    "asked\n"                                                                 \
    "for, without echo.  It is never an argument.\n"

/* clang-format off */
const struct cmd_spec cmd_accounts[] = {
    {"account add", "NAME", "make an account", CREDENTIAL_MORE,
     .options = {
         {"type", "TYPE", "CUSTOMER (default), OPERATOR or SYSTEM", 0},
         {"no-login", NULL, "nobody can log in until a credential is set", 0}},
     .check = check_add, .work = add,
     .event = "account.added", .columns = cmd_account_columns},
    {"account disable", "ACCOUNT", "refuse logins, end all sessions",
     CMD_ACCOUNT_MORE
     "Access tokens that are out work at the gateway until they expire.\n",
     .work = set_status, .status = "DISABLED", .event = "account.disabled",
     .after = cmd_locked_out, .columns = cmd_account_columns},
    {"account enable", "ACCOUNT", "allow logins again", CMD_ACCOUNT_MORE,
     .work = set_status, .status = "ACTIVE",
     .event = "account.enabled", .columns = cmd_account_columns},
    {"account set-credential", "ACCOUNT",
     "replace the credential, end all sessions",
     CMD_ACCOUNT_MORE CREDENTIAL_MORE,
     .check = read_credential, .work = set_credential,
     .event = "account.credential_set",
     .after = cmd_locked_out, .columns = cmd_account_columns},
    {"account unlock", "ACCOUNT", "forget failed logins", CMD_ACCOUNT_MORE
     "Needs the signing key, as what is counted is kept under an HMAC of "
     "it.\n",
     .options = {
         {"address", "IP", "also forget all that was counted for this address",
          0}},
     .check = check_unlock, .work = unlock,
     .event = "account.unlocked", .columns = cmd_account_columns},
    {.words = NULL},
};
/* clang-format on */
