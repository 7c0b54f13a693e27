/* Clients: accounts of type SYSTEM, with scopes, secrets and keys. */

#include "people/people_client.h"

#include "store/sql.h"

#include <string.h>

#define ITEM(structure, field)                                                 \
    PEOPLE_MEMBER("accountId", ID, structure, field account_id),               \
        PEOPLE_MEMBER("account", TEXT, structure, field account),              \
        PEOPLE_MEMBER("status", TEXT, structure, field status),                \
        PEOPLE_MEMBER("scopes", LIST, structure, field scopes)
#define NUMBERS(name, type, field)                                             \
    PEOPLE_MEMBER(name, type, struct client_item, field)

const struct people_member people_client_members[] = {
    ITEM(struct client_item, ), PEOPLE_MEMBERS_END};
/* In the order of the columns. */
const struct people_member people_client_list_members[] = {
    ITEM(struct client_item, ), NUMBERS("createdAt", TIME, created_us),
    NUMBERS("secrets", NUMBER, secrets), NUMBERS("keys", NUMBER, keys),
    PEOPLE_MEMBERS_END};

#define SCOPES                                                                 \
    "(SELECT string_agg(scope, ',' ORDER BY scope) FROM client_scopes s"       \
    "  WHERE s.account_id = a.account_id)"

/* -- the list -- */

static const struct db_statement client_list_sql = {
    "people_client_list",
    "SELECT account_id, account_name, status, " SCOPES ", created_at,"
    "       (SELECT count(*) FROM client_secrets s"
    "         WHERE s.account_id = a.account_id"
    "           AND (expires_at IS NULL OR expires_at > now())),"
    "       (SELECT count(*) FROM client_keys k"
    "         WHERE k.account_id = a.account_id)"
    "  FROM accounts a WHERE account_type = 'SYSTEM' AND status <> 'DELETED'"
    "   AND ($1::text IS NULL"
    "        OR account_name COLLATE \"C\" > lower($1 COLLATE \"C\"))"
    " ORDER BY account_name COLLATE \"C\" LIMIT $2",
    DB_SEARCHES};

enum people_outcome people_client_list(struct people *p,
                                       const struct client_query *query,
                                       struct people_rows *page)
{
    struct sql_query q = {0};

    db_params(&q.p, db_any(query->after), DB_INT(query->limit + 1));
    return people_list(p, &q, &client_list_sql, people_client_list_members,
                       sizeof(struct client_item), query->limit, page);
}

const char *people_client_cursor(struct people *p, const void *item)
{
    (void) p;
    return ((const struct client_item *) item)->account;
}

/* -- one -- */

static const struct db_statement client_scopes_sql = {
    "people_client_scopes",
    "SELECT " SCOPES " FROM accounts a WHERE account_id = $1", DB_READS};

/* Checks that the account is a client, and reads its scopes. */
static enum people_outcome read_client(struct people *p,
                                       const struct account_item *account,
                                       struct client_item *out)
{
    static const struct people_member members[] = {
        NUMBERS("scopes", TEXT, scopes), PEOPLE_MEMBERS_END};
    struct people_rows rows = {NULL};
    struct sql_query q = {0};
    enum people_outcome outcome;

    if (strcmp(account->type, "SYSTEM") != 0) {
        return people_refuse(p, PEOPLE_CONFLICT, NULL,
                             "\"%s\" is not a client: its type is %s",
                             account->name, account->type);
    }
    db_params(&q.p, DB_ID(account->account_id));
    outcome =
        people_list(p, &q, &client_scopes_sql, members, sizeof(*out), 1, &rows);
    if (outcome == PEOPLE_DONE) {
        *out = (struct client_item){
            .account_id = account->account_id,
            .account = account->name,
            .status = account->status,
            .scopes = ((const struct client_item *) rows.items)->scopes};
    }
    return outcome;
}

struct client_secret {
    const char *id;
    int64_t created_us, expires_us;
};
struct client_kid {
    const char *kid;
    int64_t created_us;
};

static const struct people_member secret_members[] = {
    PEOPLE_MEMBER("secretId", ID, struct client_secret, id),
    PEOPLE_MEMBER("createdAt", TIME, struct client_secret, created_us),
    PEOPLE_MEMBER("expiresAt", TIME, struct client_secret, expires_us),
    PEOPLE_MEMBERS_END};
static const struct people_member key_members[] = {
    PEOPLE_MEMBER("kid", TEXT, struct client_kid, kid),
    PEOPLE_MEMBER("createdAt", TIME, struct client_kid, created_us),
    PEOPLE_MEMBERS_END};

const struct people_member people_client_lists[] = {
    {"secrets", PEOPLE_ROWS, offsetof(struct client_whole, secrets),
     secret_members},
    {"keys", PEOPLE_ROWS, offsetof(struct client_whole, keys), key_members},
    PEOPLE_MEMBERS_END};

static const struct db_statement client_secrets_sql = {
    "people_client_secrets",
    "SELECT secret_id, created_at, expires_at FROM client_secrets"
    " WHERE account_id = $1 ORDER BY created_at, secret_id",
    DB_READS};
static const struct db_statement client_keys_sql = {
    "people_client_keys",
    "SELECT kid, created_at FROM client_keys WHERE account_id = $1"
    " ORDER BY kid",
    DB_READS};

enum people_outcome people_client_read(struct people *p, const char *ref,
                                       struct client_whole *out)
{
    struct sql_query secrets = {0}, keys = {0};
    struct account_item account;
    enum people_outcome outcome = people_account_find(p, ref, &account);

    if (outcome == PEOPLE_DONE) {
        outcome = read_client(p, &account, &out->item);
    }
    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    db_params(&secrets.p, DB_ID(account.account_id));
    db_params(&keys.p, DB_ID(account.account_id));
    outcome =
        people_list(p, &secrets, &client_secrets_sql, secret_members,
                    sizeof(struct client_secret), INT32_MAX, &out->secrets);
    return outcome == PEOPLE_DONE
               ? people_list(p, &keys, &client_keys_sql, key_members,
                             sizeof(struct client_kid), INT32_MAX, &out->keys)
               : outcome;
}

/* -- changes -- */

static enum people_outcome lock_client(struct people *p,
                                       struct client_change *c)
{
    struct account_item account;
    enum people_outcome outcome = people_account_lock(p, c->ref, &account);

    return outcome == PEOPLE_DONE ? read_client(p, &account, &c->client)
                                  : outcome;
}

static const struct db_statement client_allow_sql = {
    "people_client_allow",
    "INSERT INTO client_scopes (account_id, scope)"
    " SELECT $1, unnest(string_to_array($2, ',')) ON CONFLICT DO NOTHING",
    DB_WRITES};
static const struct db_statement client_disallow_sql = {
    "people_client_disallow",
    "DELETE FROM client_scopes"
    " WHERE account_id = $1 AND scope = ANY (string_to_array($2, ','))",
    DB_WRITES};

/* Changes the scopes of a client, and reads them again. */
static enum people_outcome change_scopes(struct people *p,
                                         const struct db_statement *sql,
                                         struct client_change *c)
{
    enum people_outcome outcome = lock_client(p, c);
    int64_t changed = 0;

    if (outcome == PEOPLE_DONE) {
        outcome = people_do(p, sql, &changed, DB_ID(c->client.account_id),
                            DB_TEXT(c->scopes));
    }
    c->changed = changed > 0;
    return outcome == PEOPLE_DONE ? lock_client(p, c) : outcome;
}

enum people_outcome people_client_allow(struct people *p,
                                        struct client_change *c)
{
    return change_scopes(p, &client_allow_sql, c);
}

enum people_outcome people_client_disallow(struct people *p,
                                           struct client_change *c)
{
    return change_scopes(p, &client_disallow_sql, c);
}

enum people_outcome people_client_add(struct people *p,
                                      const struct account_new *given,
                                      struct client_change *c)
{
    struct account_item account;
    enum people_outcome outcome = people_account_add(p, given, &account);

    if (outcome == PEOPLE_DONE) {
        c->ref = account.account_id;
        outcome = people_client_allow(p, c);
    }
    c->changed = true;
    return outcome;
}

const struct people_member people_client_secret_members[] = {
    PEOPLE_MEMBER("accountId", ID, struct client_change, client.account_id),
    PEOPLE_MEMBER("secretId", ID, struct client_change, secret_id),
    PEOPLE_MEMBER("secret", TEXT, struct client_change, new_secret),
    PEOPLE_MEMBER("expiresAt", TIME, struct client_change, expires_us),
    PEOPLE_MEMBERS_END};
const struct people_member people_client_key_members[] = {
    PEOPLE_MEMBER("account", TEXT, struct client_change, client.account),
    PEOPLE_MEMBER("accountId", ID, struct client_change, client.account_id),
    PEOPLE_MEMBER("kid", TEXT, struct client_change, kid), PEOPLE_MEMBERS_END};

static const struct db_statement client_add_secret_sql = {
    "people_client_add_secret",
    "INSERT INTO client_secrets (account_id, secret_sha256, expires_at)"
    " VALUES ($1, $2, $3) RETURNING secret_id",
    DB_WRITES};
static const struct db_statement client_add_key_sql = {
    "people_client_add_key",
    "INSERT INTO client_keys (account_id, kid, jwk) VALUES ($1, $2, $3)",
    DB_WRITES};
static const struct db_statement client_remove_secret_sql = {
    "people_client_remove_secret",
    "DELETE FROM client_secrets WHERE account_id = $1 AND secret_id = $2",
    DB_WRITES};
static const struct db_statement client_remove_key_sql = {
    "people_client_remove_key",
    "DELETE FROM client_keys WHERE account_id = $1 AND kid = $2", DB_WRITES};

enum people_outcome people_client_add_secret(struct people *p,
                                             struct client_change *c)
{
    static const struct people_member made[] = {
        PEOPLE_MEMBER("secretId", ID, struct client_change, secret_id),
        PEOPLE_MEMBERS_END};
    enum people_outcome outcome = lock_client(p, c);
    struct people_rows rows = {NULL};
    struct sql_query q = {0};

    if (outcome != PEOPLE_DONE) {
        return outcome;
    }
    db_params(&q.p, DB_ID(c->client.account_id),
              DB_VALUE(OID_BYTEA, .text = {c->secret_hash, 32}),
              DB_VALUE(OID_TIMESTAMPTZ, .null = c->expires_us == 0,
                       .number = c->expires_us - DB_EPOCH_US));
    outcome =
        people_list(p, &q, &client_add_secret_sql, made, sizeof(*c), 1, &rows);
    if (outcome == PEOPLE_DONE) {
        c->secret_id = ((const struct client_change *) rows.items)->secret_id;
    }
    return outcome;
}

enum people_outcome people_client_add_key(struct people *p,
                                          struct client_change *c)
{
    enum people_outcome outcome = lock_client(p, c);

    return outcome == PEOPLE_DONE ? people_do(p, &client_add_key_sql, NULL,
                                              DB_ID(c->client.account_id),
                                              DB_TEXT(c->kid), db_any(c->jwk))
                                  : outcome;
}

enum people_outcome people_client_remove(struct people *p,
                                         struct client_change *c)
{
    enum people_outcome outcome = lock_client(p, c);
    bool key = c->kid != NULL;
    int64_t removed = 0;

    if (outcome == PEOPLE_DONE) {
        outcome = people_do(
            p, key ? &client_remove_key_sql : &client_remove_secret_sql,
            &removed, DB_ID(c->client.account_id),
            key ? DB_TEXT(c->kid) : DB_ID(c->secret_id));
    }
    return outcome == PEOPLE_DONE && removed == 0
               ? people_refuse(p, PEOPLE_NOT_FOUND, NULL,
                               "the client has no %s with this id",
                               key ? "key" : "secret")
               : outcome;
}
