/* Accounts and failed logins, as the operator changes them. */

#include "store/store_admin_sql.h"

#include <stdio.h>
#include <string.h>

/* -- what transactions are given -- */

struct account_change {
    const char *ref; /* or the new account's name */
    const char *type;
    const char *hash;
    bool enable;
    struct admin_account *out;
};

static void set_status(struct admin_account *out, const char *status)
{
    snprintf(out->status, sizeof(out->status), "%s", status);
}

/* -- accounts -- */

static bool find(struct admin *a, void *arg)
{
    struct account_change *c = arg;

    return admin_lock_account(a, c->ref, c->out);
}

bool admin_account_find(struct admin *a, const char *ref,
                        struct admin_account *out)
{
    struct account_change c = {.ref = ref, .out = out};

    return admin_transact(a, find, &c);
}

static bool add(struct admin *a, void *arg)
{
    struct account_change *c = arg;
    struct db_params p = {0};

    admin_param_text(&p, c->ref);
    admin_param_text(&p, c->type);
    admin_param_text(&p, c->hash);
    return admin_execute(a,
                         "INSERT INTO accounts"
                         " (account_name, account_type, credential_hash)"
                         " VALUES ($1, $2, $3)",
                         &p, NULL) &&
           admin_lock_account(a, c->ref, c->out);
}

bool admin_account_add(struct admin *a, const char *name, const char *type,
                       const char *hash, struct admin_account *out)
{
    struct account_change c = {
        .ref = name, .type = type, .hash = hash, .out = out};

    if (admin_is_uuid(name)) {
        /* Nobody could refer to it by name. */
        return admin_refuse(a, "an account's name cannot be a UUID");
    }
    if (!admin_transact(a, add, &c)) {
        return false;
    }
    out->changed = true;
    return true;
}

static bool enable_or_disable(struct admin *a, void *arg)
{
    struct account_change *c = arg;
    const char *status = c->enable ? "ACTIVE" : "DISABLED";
    struct db_params p = {0};

    if (!admin_lock_account(a, c->ref, c->out)) {
        return false;
    }
    store_param_uuid(&p, c->out->account_id);
    admin_param_text(&p, status);
    c->out->changed = strcmp(c->out->status, status) != 0;
    if (c->out->changed &&
        !admin_execute(a,
                       "UPDATE accounts SET status = $2, updated_at = now()"
                       " WHERE account_id = $1",
                       &p, NULL)) {
        return false;
    }
    set_status(c->out, status);
    return c->enable || admin_lock_out(a, c->out);
}

bool admin_account_enable(struct admin *a, const char *ref, bool enable,
                          struct admin_account *out)
{
    struct account_change c = {.ref = ref, .enable = enable, .out = out};

    return admin_transact(a, enable_or_disable, &c);
}

static bool set_credential(struct admin *a, void *arg)
{
    struct account_change *c = arg;
    struct db_params p = {0};

    if (!admin_lock_account(a, c->ref, c->out)) {
        return false;
    }
    store_param_uuid(&p, c->out->account_id);
    admin_param_text(&p, c->hash);
    c->out->changed = true;
    return admin_execute(a,
                         "UPDATE accounts"
                         "   SET credential_hash = $2, updated_at = now()"
                         " WHERE account_id = $1",
                         &p, NULL) &&
           admin_lock_out(a, c->out);
}

bool admin_account_credential(struct admin *a, const char *ref,
                              const char *hash, struct admin_account *out)
{
    struct account_change c = {.ref = ref, .hash = hash, .out = out};

    return admin_transact(a, set_credential, &c);
}

/* -- failed logins -- */

struct clearing {
    const struct attempt *attempt;
    bool by_address;
    int64_t *accounts, *addresses;
};

static bool clear(struct admin *a, void *arg)
{
    struct clearing *c = arg;
    struct db_params account = {0}, address = {0};

    *c->addresses = 0;
    db_param_bytes(&account, c->attempt->account_hmac,
                   sizeof(c->attempt->account_hmac));
    if (!admin_execute(a, "DELETE FROM login_attempts WHERE account_hmac = $1",
                       &account, c->accounts)) {
        return false;
    }
    db_param_inet(&address, c->attempt->address);
    return !c->by_address ||
           admin_execute(a,
                         "DELETE FROM login_attempts"
                         " WHERE account_hmac = '' AND address = $1",
                         &address, c->addresses);
}

bool admin_attempts_clear(struct admin *a, const struct attempt *attempt,
                          bool by_address, int64_t *accounts,
                          int64_t *addresses)
{
    struct clearing c = {attempt, by_address, accounts, addresses};

    return admin_transact(a, clear, &c);
}
