/* Clients: accounts of type SYSTEM, with scopes, secrets and keys, by which
 * they get tokens.  Only commands change them. */

#pragma once

#include "people/people_account.h"

struct client_item {
    const char *account_id, *account, *status;
    const char *scopes; /* separated by commas */
    int64_t created_us, secrets, keys;
};
/* accountId, account, status, scopes; the list's also has createdAt, secrets,
 * keys, which are numbers */
extern const struct people_member people_client_members[],
    people_client_list_members[];

struct client_query {
    const char *after; /* go on after this name, or NULL */
    int64_t limit;     /* 1 to PEOPLE_PAGE_MAX */
};
/* Lists clients by name. */
enum people_outcome people_client_list(struct people *p,
                                       const struct client_query *query,
                                       struct people_rows *page);
/* The name of a client_item, to go on after it. */
const char *people_client_cursor(struct people *p, const void *item);

struct client_whole {
    struct client_item item;
    struct people_rows secrets, keys;
};
/* The lists of a client_whole. */
extern const struct people_member people_client_lists[];
enum people_outcome people_client_read(struct people *p, const char *ref,
                                       struct client_whole *out);

/* -- changes -- */

struct client_change {
    const char *ref;        /* id or name */
    const char *scopes;     /* to allow or disallow, separated by commas */
    const char *secret_id;  /* to remove */
    const char *kid, *jwk;  /* of a key to add; of one to remove only kid */
    const char *new_secret; /* to add: its text, */
    const unsigned char *secret_hash; /* and SHA-256 */
    int64_t expires_us;               /* of the secret, 0 for never */
    struct client_item client;        /* as it is then */
    bool changed;
};
/* accountId, secretId, secret, expiresAt; account, accountId, kid */
extern const struct people_member people_client_secret_members[],
    people_client_key_members[];

enum people_outcome people_client_add(struct people *p,
                                      const struct account_new *given,
                                      struct client_change *change);
enum people_outcome people_client_allow(struct people *p,
                                        struct client_change *change);
enum people_outcome people_client_disallow(struct people *p,
                                           struct client_change *change);
enum people_outcome people_client_add_secret(struct people *p,
                                             struct client_change *change);
enum people_outcome people_client_add_key(struct people *p,
                                          struct client_change *change);
/* Removes a secret or a key. */
enum people_outcome people_client_remove(struct people *p,
                                         struct client_change *change);
