/* account require-factor, remove-factor; factors rekey */

#include "cmd/cmd.h"

#include "auth/factor_secret.h"
#include "cmd/cmd_out.h"
#include "people/people_factor.h"

#include <openssl/crypto.h>
#include <string.h>

#define KEYS "PLATFORM_AUTH_FACTOR_KEYS"

/* Results, one per process. */
static struct factor_demand demand;
static struct factor_removal removal;

/* -- account require-factor -- */

static enum people_outcome require(struct cmd *c, struct people *p)
{
    bool required = cmd_option(c, "off") == NULL;
    enum people_outcome outcome;

    demand = (struct factor_demand){.ref = c->account, .required = required};
    outcome = people_factor_demand(p, &demand);
    cmd_show(c, people_factor_demand_members, &demand,
             !demand.changed ? NULL
             : required      ? "account.factor_required"
                             : "account.factor_optional");
    return outcome;
}

/* -- account remove-factor -- */

static bool check_removal(struct cmd *c)
{
    bool one = cmd_option(c, "factor") != NULL;

    return one != (cmd_option(c, "all") != NULL) ||
           cmd_misused(c, "give either --factor or --all");
}

static enum people_outcome remove_factor(struct cmd *c, struct people *p)
{
    enum people_outcome outcome;

    removal = (struct factor_removal){.ref = c->account,
                                      .factor_id = cmd_option(c, "factor")};
    outcome = people_factor_remove(p, &removal);
    cmd_show(c, people_factor_removal_members, &removal,
             removal.removed > 0 ? "account.factor_removed" : NULL);
    return outcome;
}

/* -- factors rekey -- */

struct rekey {
    const char *keys; /* the setting */
    struct factor_key to;
    char after[STORE_UUID]; /* the last factor of the page before, or "" */
    int64_t encrypted, unreadable;
    char lost[FACTOR_KEY_ID_MAX + 1]; /* a key that is missing */
    bool more;
};

/* Decrypts a secret and encrypts it with the first key.  False if it cannot be
 * decrypted. */
static bool reseal(const struct rekey *r, const struct factor_secret_row *row,
                   unsigned char sealed[FACTOR_SEALED_BYTES])
{
    unsigned char old[FACTOR_SEALED_BYTES], secret[FACTOR_SECRET_BYTES];
    struct factor_key from;
    size_t len = 0;
    bool ok = OPENSSL_hexstr2buf_ex(old, sizeof(old), &len, row->sealed_hex,
                                    '\0') == 1 &&
              factor_key_find(r->keys, row->key_id, &from) &&
              factor_secret_open(&from, row->account_id, row->factor_id,
                                 (pj_str_t){old, len}, secret) &&
              factor_secret_seal(&r->to, row->account_id, row->factor_id,
                                 secret, sealed);

    OPENSSL_cleanse(&from, sizeof(from));
    OPENSSL_cleanse(secret, sizeof(secret));
    return ok;
}

/* A page.  Counts only what its transaction commits: it may run again. */
static enum people_outcome rekey_page(struct people *p, void *state)
{
    struct rekey *r = state;
    struct rekey after = *r;
    struct people_rows page;
    enum people_outcome outcome = people_factor_secrets(
        p, r->to.id, r->after[0] != '\0' ? r->after : NULL, &page);
    const struct factor_secret_row *row = page.items;

    for (size_t i = 0; outcome == PEOPLE_DONE && i < page.count; i++, row++) {
        unsigned char sealed[FACTOR_SEALED_BYTES];

        if (reseal(r, row, sealed)) {
            outcome = people_factor_reseal(p, row, r->to.id,
                                           (pj_str_t){sealed, sizeof(sealed)});
            after.encrypted++;
        } else {
            after.unreadable++;
            (void) snprintf(after.lost, sizeof(after.lost), "%s", row->key_id);
        }
        (void) snprintf(after.after, sizeof(after.after), "%s", row->factor_id);
    }
    if (outcome == PEOPLE_DONE) {
        after.more = page.more;
        *r = after;
    }
    return outcome;
}

static bool rekey(struct cmd *c)
{
    struct rekey r = {.keys = c->cfg.factor_keys, .more = true};
    bool ok = factor_key_find(r.keys, NULL, &r.to);

    if (!ok) {
        return cmd_fail_settings(c, KEYS " is not set");
    }
    while (ok && r.more) {
        struct rekey before = r;

        ok = cmd_transact(c, rekey_page, &r);
        if (!ok) {
            r = before;
        }
    }
    OPENSSL_cleanse(&r.to.bytes, sizeof(r.to.bytes));
    cmd_setf(c, "key", "%s", r.to.id);
    cmd_setn(c, "encrypted", r.encrypted);
    cmd_setn(c, "unreadable", r.unreadable);
    if (r.encrypted > 0) {
        cmd_out_audit(c, "factors.rekeyed", NULL);
    }
    return ok &&
           (r.unreadable == 0 ||
            cmd_fail(c,
                     "secrets that cannot be decrypted: %lld (key %s), since "
                     "their key is not in " KEYS " or is another one; the "
                     "others are encrypted with the first key",
                     (long long) r.unreadable, r.lost));
}

/* -- the table -- */

/* clang-format off */
#define ACCOUNT "account", "accountId=id", "type", "status"

const struct cmd_spec cmd_factors[] = {
    {"account require-factor", "ACCOUNT", "demand a second factor at logins",
     "ACCOUNT is a name or an id.  If it has none, its next login has to get\n"
     "one.  Open sessions go on.\n",
     .options = {{"off", NULL, .help = "no longer demand one"}},
     .operate = require, .columns = {ACCOUNT, "factorRequired", "changed"}},
    {"account remove-factor", "ACCOUNT", "remove second factors",
     "ACCOUNT is a name or an id.  For a person who has lost a phone or a\n"
     "key; account show lists factors.  The recovery codes go with the last\n"
     "one.  Open sessions go on.\n",
     .options = {
         {"factor", "UUID", "remove this one", .valid = cmd_is_uuid,
          .accepted = "a UUID"},
         {"all", NULL, .help = "remove all"}},
     .check = check_removal, .operate = remove_factor,
     .columns = {ACCOUNT, "removedFactors"}},
    {"factors rekey", NULL, "encrypt TOTP secrets with the first key",
     "For a new key: add it to " KEYS " of all\n"
     "processes behind the old one, then put it first, each time with a\n"
     "restart; run this, then take the old key out.\n",
     .check = cmd_connect, .after = rekey,
     .columns = {"key", "encrypted", "unreadable"}},
    {.words = NULL},
};
/* clang-format on */
