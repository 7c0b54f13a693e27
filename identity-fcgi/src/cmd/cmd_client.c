/* client add, allow, disallow, list, show; client secret add, remove; client
 * key add, remove */

#include "cmd/cmd.h"

#include "auth/client.h"
#include "auth/password.h"
#include "cmd/cmd_out.h"
#include "people/people_client.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define JWK_MAX_BYTES 4096

/* Options and results, one per process. */
static struct client_change change;
static struct client_whole shown;

/* -- scopes -- */

static bool check_scopes(struct cmd *c)
{
    const char *option = cmd_option(c, "allow") != NULL ? "allow" : "scope";

    change.scopes = c->secret;
    return cmd_join(c, option, CMD_MAX_SCOPES, ',');
}

static bool check_add(struct cmd *c)
{
    return cmd_hashing(c) && check_scopes(c);
}

static enum people_outcome add(struct cmd *c, struct people *p)
{
    const struct account_new given = {
        .name = c->account, .type = "SYSTEM", .hash = password_nobody()};
    enum people_outcome outcome = people_client_add(p, &given, &change);

    p->field = NULL; /* no request has it */
    cmd_show(c, people_client_members, &change.client, "client.added");
    return outcome;
}

static enum people_outcome allow(struct cmd *c, struct people *p)
{
    bool take = strcmp(c->spec->words, "client disallow") == 0;
    enum people_outcome outcome;

    change.ref = c->account;
    outcome = take ? people_client_disallow(p, &change)
                   : people_client_allow(p, &change);
    cmd_show(c, people_client_members, &change.client,
             !change.changed ? NULL
             : take          ? "client.disallowed"
                             : "client.allowed");
    return outcome;
}

/* -- secrets -- */

static bool check_secret(struct cmd *c)
{
    static unsigned char hash[CLIENT_HASH_BYTES];
    const char *life = cmd_option(c, "expires-in");
    int64_t ms = 0;

    if (life != NULL && !parse_duration(life, &ms)) {
        return cmd_misused(c, "--expires-in is a duration");
    }
    if (!cmd_load(c)) {
        return false;
    }
    change.new_secret = c->secret;
    change.secret_hash = hash;
    if (life != NULL) {
        change.expires_us = ((int64_t) time(NULL) + ms / 1000) * 1000000;
    }
    return client_new_secret(c->secret, hash) ||
           cmd_fail(c, "the secret could not be made");
}

static enum people_outcome add_secret(struct cmd *c, struct people *p)
{
    change.ref = c->account;
    cmd_show(c, people_client_secret_members, &change, "client.secret_added");
    return people_client_add_secret(p, &change);
}

static enum people_outcome remove_secret(struct cmd *c, struct people *p)
{
    change.ref = c->account;
    change.secret_id = cmd_option(c, "id");
    cmd_show(c, people_client_members, &change.client, "client.secret_removed");
    return people_client_remove(p, &change);
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
        change.jwk = c->secret;
        change.kid = copy;
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

static enum people_outcome add_key(struct cmd *c, struct people *p)
{
    change.ref = c->account;
    cmd_show(c, people_client_key_members, &change, "client.key_added");
    return people_client_add_key(p, &change);
}

static enum people_outcome remove_key(struct cmd *c, struct people *p)
{
    change.ref = c->account;
    change.kid = cmd_option(c, "kid");
    cmd_show(c, people_client_key_members, &change, "client.key_removed");
    return people_client_remove(p, &change);
}

/* -- showing -- */

static enum people_outcome read_clients(const struct cmd *c, struct people *p,
                                        const char *cursor, int64_t limit,
                                        struct people_rows *rows)
{
    const struct client_query query = {
        .after = cursor != NULL ? cursor : cmd_option(c, "after"),
        .limit = limit};

    return people_client_list(p, &query, rows);
}

static const struct cmd_pages clients = {read_clients, people_client_cursor,
                                         people_client_list_members};

static const struct cmd_spec parts[] = {/* people_client_lists */
                                        {"secrets", .part = true, .list = true,
                                         .columns = {"secretId", "createdAt",
                                                     "expiresAt"}},
                                        {"keys", .part = true, .list = true,
                                         .columns = {"kid", "createdAt"}}};

static enum people_outcome show(struct cmd *c, struct people *p)
{
    cmd_show(c, people_client_members, &shown.item, NULL);
    return people_client_read(p, c->account, &shown);
}

static bool show_parts(struct cmd *c)
{
    (void) cmd_out_values(c);
    for (size_t i = 0; people_client_lists[i].name != NULL; i++) {
        cmd_out_part(c, &parts[i], &people_client_lists[i], &shown);
    }
    return true;
}

/* -- the table -- */

#define CLIENT_COLUMNS "account", "accountId=client id", "status", "scopes"
#define CLIENT_MORE "CLIENT is the name or id of an account of type SYSTEM.\n"
#define ENDS_MORE                                                              \
    "Tokens that the client has end: at the gateways within a second.\n"
#define SCOPE                                                                  \
    {                                                                          \
        "scope", "SCOPE", "a scope", CMD_NEEDED | CMD_MANY, CMD_SCOPE          \
    }

const struct cmd_spec cmd_clients[] = {
    {"client add", "NAME", "create a client, which gets tokens by itself",
     "Its id is the client_id.  client secret add or client key add lets it\n"
     "authenticate at POST /api/auth/token.\n",
     .options = {{"allow", "SCOPE", "a scope that it may have",
                  CMD_NEEDED | CMD_MANY, CMD_SCOPE}},
     .check = check_add, .operate = add, .columns = {CLIENT_COLUMNS}},
    {"client allow", "CLIENT", "allow further scopes", CLIENT_MORE,
     .options = {SCOPE}, .check = check_scopes, .operate = allow,
     .columns = {CLIENT_COLUMNS}},
    {"client disallow", "CLIENT", "take scopes away", CLIENT_MORE ENDS_MORE,
     .options = {SCOPE}, .check = check_scopes, .operate = allow,
     .columns = {CLIENT_COLUMNS}},
    {"client list", NULL, "list clients by name", NULL,
     .options = {{"after", "NAME", .help = "go on after this name"},
                 {"limit", "N", "show at most N (default 100)",
                  .accepted = "1 to 100000", .form = "[1-9][0-9]{0,4}|100000"}},
     .pages = &clients, .list = true,
     .columns = {"accountId=client id", "status", "createdAt", "secrets",
                 "keys", "account", "scopes"}},
    {"client show", "CLIENT", "show its scopes, secrets and keys",
     CLIENT_MORE "Of a secret only the id is kept, and a hash.\n",
     .operate = show, .print = show_parts, .columns = {CLIENT_COLUMNS}},
    {"client secret add", "CLIENT", "make a secret, which is shown once",
     CLIENT_MORE
     "A client has at most two live secrets: add one, use it, remove the\n"
     "other.\n",
     .options = {{"expires-in", "TIME",
                  "its life (default: until it is removed)", 0,
                  .within = "1m to 3650d",
                  .accepted = "a duration, 1m to 3650d"}},
     .check = check_secret, .operate = add_secret, .after = cmd_out_secret},
    {"client secret remove", "CLIENT", "remove a secret", CLIENT_MORE ENDS_MORE,
     .options = {{"id", "UUID", "its id, as client show has it", CMD_NEEDED,
                  .valid = cmd_is_uuid, .accepted = "a UUID"}},
     .operate = remove_secret, .columns = {"account", "accountId=client id"}},
    {"client key add", "CLIENT", "add a public key, for signed assertions",
     CLIENT_MORE
     "The key is read from standard input: PEM or a JWK; RSA of 2048 bits or\n"
     "more, P-256 or Ed25519.  A client has at most four.\n",
     .check = check_key, .operate = add_key,
     .columns = {"account", "accountId=client id", "kid"}},
    {"client key remove", "CLIENT", "remove a public key",
     CLIENT_MORE ENDS_MORE,
     .options = {{"kid", "ID", "its key id", CMD_NEEDED}},
     .operate = remove_key,
     .columns = {"account", "accountId=client id", "kid"}},
    {.words = NULL},
};
/* clang-format on */
