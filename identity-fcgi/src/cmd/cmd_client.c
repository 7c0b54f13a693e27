/* client add, allow, disallow, list, show; client secret add, remove; client
 * key add, remove */

#include "cmd/cmd.h"

#include "auth/client.h"
#include "auth/password.h"
#include "base/uuid.h"
#include "cmd/cmd_out.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define JWK_MAX_BYTES 4096

/* -- scopes -- */

/* Joins the options of this name, each a known scope, by commas. */
static bool read_scopes(struct cmd *c, const char *option)
{
    const char *scopes[CMD_MAX_SCOPES];
    size_t count = cmd_given(c, option, scopes, CMD_MAX_SCOPES);
    struct buf codes;

    if (count > CMD_MAX_SCOPES) {
        return cmd_misused(c, "--%s is given too often", option);
    }
    buf_init(&codes, c->secret, sizeof(c->secret));
    for (size_t i = 0; i < count; i++) {
        buf_addf(&codes, "%s%s", i > 0 ? "," : "", scopes[i]);
    }
    buf_addc(&codes, '\0');
    cmd_set(c, "codes", c->secret);
    return true;
}

static bool check_scopes(struct cmd *c)
{
    return read_scopes(c, "scope");
}

static bool check_add(struct cmd *c)
{
    if (!cmd_load(c)) {
        return false;
    }
    if (!password_setup(&c->cfg)) {
        return cmd_fail(c, "the credential could not be hashed");
    }
    cmd_set(c, "hash", password_nobody());
    return read_scopes(c, "allow");
}

static bool find_client(struct cmd *c)
{
    return cmd_is(c, "type", "SYSTEM") ||
           cmd_fail_as(c, "RESOURCE_CONFLICT",
                       "\"%s\" is not a client: its type is %s",
                       cmd_get(c, "account"), cmd_get(c, "type"));
}

/* Reads the scopes that the client has now. */
static bool read_now(struct cmd *c)
{
    return cmd_sql(c, "SELECT string_agg(scope, ',' ORDER BY scope) AS scopes"
                      "  FROM client_scopes WHERE account_id = :accountId");
}

static bool allow(struct cmd *c)
{
    if (!cmd_sql(c, "INSERT INTO client_scopes (account_id, scope)"
                    " SELECT :accountId::uuid,"
                    "        unnest(string_to_array(:codes, ','))"
                    " ON CONFLICT DO NOTHING")) {
        return false;
    }
    c->changed = c->touched > 0;
    return read_now(c);
}

/* A new account is a change, whatever its scopes. */
static bool allow_new(struct cmd *c)
{
    bool ok = allow(c);

    c->changed = true;
    return ok;
}

static bool disallow(struct cmd *c)
{
    if (!cmd_sql(c, "DELETE FROM client_scopes"
                    " WHERE account_id = :accountId"
                    "   AND scope = ANY (string_to_array(:codes, ','))")) {
        return false;
    }
    c->changed = c->touched > 0;
    return read_now(c);
}

/* -- secrets -- */

static bool check_secret(struct cmd *c)
{
    unsigned char hash[CLIENT_HASH_BYTES];
    const char *life = cmd_get(c, "expires-in");
    char hex[2 * sizeof(hash) + 1];
    int64_t ms = 0;

    if (life != NULL && !parse_duration(life, &ms)) {
        return cmd_misused(c, "--expires-in is a duration");
    }
    if (!cmd_load(c)) {
        return false;
    }
    if (!client_new_secret(c->secret, hash)) {
        return cmd_fail(c, "the secret could not be made");
    }
    (void) uuid_hex(hex, hash, sizeof(hash));
    cmd_setf(c, "secretHash", "%s", hex);
    cmd_set(c, "secret", c->secret);
    if (life != NULL) {
        cmd_setn(c, "expiresAt", (int64_t) time(NULL) + ms / 1000);
    }
    return true;
}

static bool print_secret(struct cmd *c)
{
    cmd_out_line(c, c->secret);
    return true;
}

static bool removed(struct cmd *c)
{
    return c->touched > 0 ||
           cmd_fail_as(
               c, "RESOURCE_NOT_FOUND", "the client has no %s with this id",
               strstr(c->spec->words, "key") != NULL ? "key" : "secret");
}

/* -- keys -- */

/* Finds the only public key of the text in standard input, PEM or JWK. */
static bool parse_key(struct cmd *c, pj_keyset_t *set)
{
    pj_str_t text = {(unsigned char *) c->secret, c->secret_len};
    pj_arena_t arena;
    pj_err_t err;
    char *whole;

    pj_arena_init(&arena, c->arena, sizeof(c->arena));
    whole = pj_arena_alloc(&arena, text.len + sizeof("{\"keys\":[]}"));
    if (whole != NULL && text.len > 0 && text.data[0] == '{' &&
        strstr(c->secret, "\"keys\"") == NULL) { /* one JWK, not a set */
        text.len =
            (size_t) snprintf(whole, text.len + sizeof("{\"keys\":[]}"),
                              "{\"keys\":[%.*s]}", (int) text.len, c->secret);
        text.data = (unsigned char *) whole;
    }
    err = pj_keyset_parse_file(set, &arena, text);
    if (err || set->count != 1) {
        err = err != PJ_OK ? err : set->last_ignored;
        return cmd_fail_as(c, "REQUEST_INVALID",
                           "not one public key in PEM or JWK: %s",
                           err ? pj_strerror(err) : "there is not exactly one");
    }
    return true;
}

/* Writes the key as a JWK with a kid: its own or its thumbprint. */
static bool write_key(struct cmd *c, const pj_key_t *key)
{
    char thumbprint[PJ_THUMBPRINT_CHARS + 1] = "", pem[4096];
    char jwks[JWK_MAX_BYTES + 16];
    pj_key_t *named = NULL;
    pj_str_t kid = pj_key_id(key);
    size_t len;
    pj_err_t err = PJ_OK;

    if (kid.len == 0) {
        err = pj_key_thumbprint(key, thumbprint);
        if (!err) {
            err = pj_key_pem(key, false, pem, sizeof(pem), &len);
        }
        kid = pj_str(thumbprint);
        if (!err) {
            err = pj_key_public(&named, (pj_str_t){(unsigned char *) pem, len},
                                kid);
        }
        key = named;
    }
    if (!err) {
        err = pj_jwks_emit(&key, 1, jwks, sizeof(jwks) - 1, &len);
    }
    if (!err) { /* without {"keys":[ and ]} */
        int n = snprintf(c->secret, sizeof(c->secret), "%.*s", (int) len - 11,
                         jwks + 9);
        char *copy = c->secret + n + 1;

        snprintf(copy, sizeof(c->secret) - (size_t) n - 1, "%.*s",
                 (int) kid.len, (const char *) kid.data);
        cmd_set(c, "jwk", c->secret);
        cmd_set(c, "kid", copy);
    }
    pj_key_free(named);
    return !err || cmd_fail_as(c, "REQUEST_INVALID",
                               "the key cannot be used: %s", pj_strerror(err));
}

static bool check_key(struct cmd *c)
{
    pj_keyset_t set = {.count = 0};
    bool ok;

    if (!cmd_load(c)) {
        return false;
    }
    c->secret_len = fread(c->secret, 1, sizeof(c->secret) - 1, stdin);
    c->secret[c->secret_len] = '\0';
    ok = parse_key(c, &set) && write_key(c, set.keys[0]);
    pj_keyset_clear(&set);
    return ok;
}

/* -- showing -- */

/* clang-format off */
#define AT(column, name) "extract(epoch FROM " column ") AS " name
static const struct cmd_spec parts[] = {
    {"secrets", .list = true,
     .sql = "SELECT secret_id AS secretId, " AT("created_at", "createdAt") ","
            AT("expires_at", "expiresAt") " FROM client_secrets"
            " WHERE account_id = :accountId ORDER BY created_at, secret_id",
     .columns = {"secretId", "createdAt", "expiresAt"}},
    {"keys", .list = true,
     .sql = "SELECT kid, " AT("created_at", "createdAt") " FROM client_keys"
            " WHERE account_id = :accountId ORDER BY kid",
     .columns = {"kid", "createdAt"}}};

static bool show_parts(struct cmd *c)
{
    (void) cmd_out_values(c);
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        if (!cmd_out_part(c, &parts[i])) {
            return false;
        }
    }
    return true;
}

/* -- the table -- */

#define CLIENT_COLUMNS \
    "account", "accountId=client id", "status", "scopes", "changed="
#define CLIENT_MORE "CLIENT is the name or id of an account of type SYSTEM.\n"
#define ENDS_MORE \
    "Tokens that the client has end: at the gateways within a second.\n"
#define SCOPE {"scope", "SCOPE", "a scope", CMD_NEEDED | CMD_MANY, CMD_SCOPE}

const struct cmd_spec cmd_clients[] = {
    {"client add", "NAME", "create a client, which gets tokens by itself",
     "Its id is the client_id.  client secret add or client key add lets it\n"
     "authenticate at POST /api/auth/token.\n",
     .options = {
         {"allow", "SCOPE", "a scope that it may have", CMD_NEEDED | CMD_MANY,
          CMD_SCOPE}},
     .check = check_add, .find = cmd_name_is_free,
     .sql = "INSERT INTO accounts"
            " (account_name, account_type, credential_hash)"
            " VALUES (:folded, 'SYSTEM', :hash)"
            " RETURNING account_id AS accountId, account_name AS account,"
            "           account_type AS type, status",
     .work = allow_new, .event = "client.added", .columns = {CLIENT_COLUMNS}},
    {"client allow", "CLIENT", "allow further scopes", CLIENT_MORE,
     .options = {SCOPE}, .check = check_scopes, .find = find_client,
     .work = allow, .event = "client.allowed", .columns = {CLIENT_COLUMNS}},
    {"client disallow", "CLIENT", "take scopes away", CLIENT_MORE ENDS_MORE,
     .options = {SCOPE}, .check = check_scopes, .find = find_client,
     .work = disallow, .event = "client.disallowed",
     .columns = {CLIENT_COLUMNS}},
    {"client list", NULL, "list clients by name", NULL,
     .sql = "SELECT account_id AS accountId, account_name AS account, status,"
            "       (SELECT string_agg(scope, ',' ORDER BY scope)"
            "          FROM client_scopes s WHERE s.account_id = a.account_id)"
            "           AS scopes,"
            "       (SELECT count(*) FROM client_secrets s"
            "         WHERE s.account_id = a.account_id"
            "           AND (expires_at IS NULL OR expires_at > now()))"
            "           AS secrets,"
            "       (SELECT count(*) FROM client_keys k"
            "         WHERE k.account_id = a.account_id) AS keys,"
            AT("created_at", "createdAt")
            "  FROM accounts a WHERE account_type = 'SYSTEM'"
            "   AND status <> 'DELETED'"
            "   AND (:after::text IS NULL"
            "        OR account_name COLLATE \"C\""
            "           > lower(:after COLLATE \"C\"))"
            " ORDER BY account_name COLLATE \"C\""
            " LIMIT coalesce(:limit::int, 100)",
     .options = {
         {"after", "NAME", .help = "go on after this name"},
         {"limit", "N", "show at most N (default 100)",
          .accepted = "1 to 100000", .form = "[1-9][0-9]{0,4}|100000"}},
     .list = true,
     .columns = {"accountId=client id", "status", "createdAt", "secrets",
                 "keys", "account", "scopes"}},
    {"client show", "CLIENT", "show its scopes, secrets and keys",
     CLIENT_MORE "Of a secret only the id is kept, and a hash.\n",
     .find = find_client, .work = read_now, .print = show_parts,
     .columns = {CLIENT_COLUMNS}},
    {"client secret add", "CLIENT", "make a secret, which is shown once",
     CLIENT_MORE
     "A client has at most two live secrets: add one, use it, remove the\n"
     "other.\n",
     .options = {
         {"expires-in", "TIME", "its life (default: until it is removed)", 0,
          .within = "1m to 3650d", .accepted = "a duration, 1m to 3650d"}},
     .check = check_secret, .find = find_client,
     .sql = "INSERT INTO client_secrets (account_id, secret_sha256, expires_at)"
            " VALUES (:accountId, decode(:secretHash, 'hex'),"
            "         to_timestamp(:expiresAt::bigint))"
            " RETURNING secret_id AS secretId",
     .event = "client.secret_added", .after = print_secret,
     .columns = {"accountId=", "secretId=", "secret=", "expiresAt="}},
    {"client secret remove", "CLIENT", "remove a secret", CLIENT_MORE ENDS_MORE,
     .options = {
         {"id", "UUID", "its id, as client show has it", CMD_NEEDED,
          .valid = cmd_is_uuid, .accepted = "a UUID"}},
     .find = find_client,
     .sql = "DELETE FROM client_secrets"
            " WHERE account_id = :accountId AND secret_id = :id",
     .work = removed, .event = "client.secret_removed",
     .columns = {"account", "accountId=client id"}},
    {"client key add", "CLIENT", "add a public key, for signed assertions",
     CLIENT_MORE
     "The key is read from standard input: PEM or a JWK; RSA of 2048 bits or\n"
     "more, P-256 or Ed25519.  A client has at most four.\n",
     .check = check_key, .find = find_client,
     .sql = "INSERT INTO client_keys (account_id, kid, jwk)"
            " VALUES (:accountId, :kid, :jwk)",
     .event = "client.key_added",
     .columns = {"account", "accountId=client id", "kid"}},
    {"client key remove", "CLIENT", "remove a public key",
     CLIENT_MORE ENDS_MORE,
     .options = {{"kid", "ID", "its key id", CMD_NEEDED}}, .find = find_client,
     .sql = "DELETE FROM client_keys"
            " WHERE account_id = :accountId AND kid = :kid",
     .work = removed, .event = "client.key_removed",
     .columns = {"account", "accountId=client id", "kid"}},
    {.words = NULL},
};
/* clang-format on */
