/* account add, disable, enable, set-credential, unlock */

#include "cmd/cmd.h"

#include "auth/app.h"
#include "auth/password.h"

#include <arpa/inet.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <string.h>

#define CREDENTIAL_MAX 1024 /* bytes, as login takes them */
#define LINE_END 2

const struct out_column cmd_account_columns[] = {
    {"account", "account", OUT_TEXT, 0},
    {"accountId", "id", OUT_TEXT, 0},
    {"type", "type", OUT_TEXT, 0},
    {"status", "status", OUT_TEXT, 0},
    {"changed", "changed", OUT_BOOL, 0},
    {"revokedSessions", "ended sessions", OUT_NUMBER, 0},
    {"clearedAddresses", "unlocked from", OUT_NUMBER, 0},
    {"clearedAddressTotal", "address reset", OUT_BOOL, 0},
    {.name = NULL},
};

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

/* -- add -- */

static bool is_type(const char *text)
{
    return strcmp(text, "CUSTOMER") == 0 || strcmp(text, "OPERATOR") == 0 ||
           strcmp(text, "SYSTEM") == 0;
}

static bool add(struct cmd *c)
{
    return cmd_sql(c,
                   "INSERT INTO accounts"
                   " (account_name, account_type, credential_hash)"
                   " VALUES ($1, $2, $3)",
                   c->account, cmd_get(c, "newType"), cmd_get(c, "hash")) &&
           cmd_lock_account(c);
}

int cmd_account_add(struct cmd *c)
{
    const char *type = cmd_args_value(&c->args, "type");
    char phc[PASSWORD_PHC_MAX];

    type = type != NULL ? type : "CUSTOMER";
    if (!is_type(type)) {
        return cmd_fail(c, CMD_USAGE,
                        "--type is one of CUSTOMER, OPERATOR, SYSTEM");
    }
    if (!cmd_account_ref(c, c->args.operand) || !cmd_load(c) ||
        !(cmd_args_flag(&c->args, "no-login") ? no_credential(c, phc)
                                              : read_credential(c, phc)) ||
        !cmd_connect(c)) {
        return c->status;
    }
    if (cmd_is_uuid(c->account)) {
        /* Nobody could refer to it by name. */
        return cmd_fail(c, CMD_FAILED, "an account's name cannot be a UUID");
    }
    cmd_set_text(c, "newType", type);
    cmd_set_text(c, "hash", phc);
    if (!cmd_change(c, add)) {
        return c->status;
    }
    cmd_audit(c, c->spec->event, "accountId", NULL);
    return cmd_print(c, cmd_account_columns);
}

/* -- disable, enable, set-credential -- */

static bool set_status(struct cmd *c)
{
    return cmd_lock_account(c) &&
           (!cmd_new_status(c) ||
            cmd_sql(c,
                    "UPDATE accounts SET status = $2, updated_at = now()"
                    " WHERE account_id = $1",
                    cmd_get(c, "accountId"), c->spec->status)) &&
           (cmd_is(c, "status", "ACTIVE") || cmd_lock_out(c));
}

int cmd_account_status(struct cmd *c)
{
    bool changed;

    if (!cmd_account_ref(c, c->args.operand) || !cmd_change(c, set_status)) {
        return c->status;
    }
    changed = cmd_is(c, "changed", "t");
    if (!cmd_is(c, "status", "ACTIVE")) {
        if (!cmd_locked_out(c, changed)) {
            return c->status;
        }
    } else if (changed) {
        cmd_audit(c, c->spec->event, "accountId", NULL);
    }
    return cmd_print(c, cmd_account_columns);
}

static bool set_credential(struct cmd *c)
{
    return cmd_lock_account(c) &&
           cmd_sql(c,
                   "UPDATE accounts"
                   "   SET credential_hash = $2, updated_at = now()"
                   " WHERE account_id = $1",
                   cmd_get(c, "accountId"), cmd_get(c, "hash")) &&
           cmd_lock_out(c);
}

int cmd_account_set_credential(struct cmd *c)
{
    char phc[PASSWORD_PHC_MAX];

    if (!cmd_account_ref(c, c->args.operand) || !cmd_load(c) ||
        !read_credential(c, phc) || !cmd_connect(c)) {
        return c->status;
    }
    cmd_set_text(c, "hash", phc);
    if (!cmd_change(c, set_credential) || !cmd_locked_out(c, true)) {
        return c->status;
    }
    return cmd_print(c, cmd_account_columns);
}

/* -- unlock -- */

static pj_str_t str(const char *text)
{
    return (pj_str_t){(const unsigned char *) text,
                      text != NULL ? strlen(text) : 0};
}

/* Counts are kept under an HMAC of the name that only holders of the signing
 * key can compute (attempt.c). */
static bool unlock(struct cmd *c)
{
    const char *address = cmd_args_value(&c->args, "address");
    char hmac[2 * sizeof(((struct attempt *) NULL)->account_hmac) + 1];
    struct attempt attempt;

    if (!cmd_lock_account(c)) {
        return false;
    }
    if (!attempt_identify(c->keys, str(cmd_get(c, "account")), str(address),
                          &attempt)) {
        return cmd_refuse(c, "the account's HMAC failed");
    }
    for (size_t i = 0; i < sizeof(attempt.account_hmac); i++) {
        snprintf(hmac + 2 * i, 3, "%02x", attempt.account_hmac[i]);
    }
    if (!cmd_sql(c,
                 "DELETE FROM login_attempts"
                 " WHERE account_hmac = decode($1, 'hex')",
                 hmac)) {
        return false;
    }
    cmd_set_number(c, "clearedAddresses", c->touched);
    if (address == NULL) {
        return true;
    }
    if (!cmd_sql(c,
                 "DELETE FROM login_attempts"
                 " WHERE account_hmac = '' AND address = $1",
                 attempt.address)) {
        return false;
    }
    cmd_set_text(c, "clearedAddressTotal", c->touched > 0 ? "t" : "f");
    return true;
}

int cmd_account_unlock(struct cmd *c)
{
    const char *address = cmd_args_value(&c->args, "address");
    unsigned char parsed[sizeof(struct in6_addr)];

    if (address != NULL && inet_pton(AF_INET, address, parsed) != 1 &&
        inet_pton(AF_INET6, address, parsed) != 1) {
        return cmd_fail(c, CMD_USAGE, "--address is an IP address");
    }
    if (!cmd_account_ref(c, c->args.operand) || !cmd_keys(c) ||
        !cmd_change(c, unlock)) {
        return c->status;
    }
    cmd_audit(c, c->spec->event, "accountId", "clearedAddresses", NULL);
    return cmd_print(c, cmd_account_columns);
}
