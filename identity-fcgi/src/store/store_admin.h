/* The operator's changes to accounts, workspaces and grants, and sweeping. */

#ifndef STORE_ADMIN_H_INCLUDED
#define STORE_ADMIN_H_INCLUDED

#include "base/config.h"
#include "store/store.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ADMIN_NAME 201 /* bytes of a name and a NUL */
#define ADMIN_MAX_ROLES 32
#define ADMIN_ROLE_MAX 32 /* bytes */
#define ADMIN_MAX_BRANCHES 200

/*
 * One connection, for one command.  Each function below is one transaction:
 * false means that it changed nothing, or that this is not known, as
 * admin_error() then says in one line.
 *
 * A row is referred to by its UUID or its name: what has a UUID's form is
 * one.  A name that several rows have is refused.
 */
struct admin;

/* NULL with one line in err. */
struct admin *admin_open(const struct config *cfg, char *err, size_t err_cap);
void admin_close(struct admin *a);
const char *admin_error(const struct admin *a);

bool admin_is_uuid(const char *text);

/* -- accounts (names as account_name_fold() leaves them) -- */

struct admin_account {
    char account_id[STORE_UUID];
    char name[STORE_ACCOUNT_NAME_MAX + 1];
    char type[16];
    char status[16];
    bool changed;           /* its row is not as it was before */
    bool ends_sessions;     /* there are some for admin_sessions_end() */
    int64_t ended_sessions; /* whose rows were marked */
};

bool admin_account_find(struct admin *a, const char *ref,
                        struct admin_account *out);
bool admin_account_add(struct admin *a, const char *name, const char *type,
                       const char *hash, struct admin_account *out);
/* ACTIVE or DISABLED; the latter also ends every session. */
bool admin_account_enable(struct admin *a, const char *ref, bool enable,
                          struct admin_account *out);
/* Also ends every session. */
bool admin_account_credential(struct admin *a, const char *ref,
                              const char *hash, struct admin_account *out);
/* Ends every session, or the one with session_id unless NULL. */
bool admin_sessions_revoke(struct admin *a, const char *ref,
                           const char *session_id, struct admin_account *out);

/*
 * Marks the rows of the sessions that one of the three above ended, so many in
 * a transaction, and counts them in account->ended_sessions.  On false some
 * are not marked; they are over all the same, and to do it again goes on.
 */
bool admin_sessions_end(struct admin *a, struct admin_account *account);

struct admin_revocation {
    int64_t accounts; /* that had such sessions */
    int64_t sessions; /* whose rows were marked */
    bool marking;     /* all are over; what failed is the marking of rows */
};

/*
 * Ends every session of every account that has one which was not over at
 * since_s, some accounts in a transaction, and marks the rows then.  On false
 * out is what was done.
 */
bool admin_sessions_revoke_since(struct admin *a, int64_t since_s,
                                 struct admin_revocation *out);

/* Forgets the failed logins counted for attempt's account, and if by_address
 * those counted for attempt's address in all. */
bool admin_attempts_clear(struct admin *a, const struct attempt *attempt,
                          bool by_address, int64_t *accounts,
                          int64_t *addresses);

struct admin_session {
    char session_id[STORE_UUID];
    const char *status; /* ACTIVE, EXPIRED or REVOKED */
    int64_t created_at_s, expires_at_s;
    int64_t revoked_at_s;                                 /* 0: was not */
    char workspace_id[STORE_UUID], branch_id[STORE_UUID]; /* "" without one */
    char workspace[ADMIN_NAME], branch[ADMIN_NAME];
};

/* Calls each for the newest sessions of the account, at most limit: only the
 * usable ones, or all. */
bool admin_sessions(struct admin *a, const char *ref, bool all, int64_t limit,
                    void (*each)(void *arg, const struct admin_session *s),
                    void *arg);

/* -- workspaces, branches, members -- */

struct admin_place {
    char tenant_id[STORE_UUID], workspace_id[STORE_UUID];
    char branch_id[STORE_UUID];
    char tenant[ADMIN_NAME], workspace[ADMIN_NAME], branch[ADMIN_NAME];
    char status[16];
    bool tenant_added;
    bool changed;
};

/* In an existing tenant, or (new_tenant) in one that is made. */
bool admin_workspace_add(struct admin *a, const char *name, const char *tenant,
                         bool new_tenant, struct admin_place *out);
bool admin_workspace_activate(struct admin *a, const char *ref, bool active,
                              struct admin_place *out);
bool admin_branch_add(struct admin *a, const char *name, const char *workspace,
                      struct admin_place *out);
/* workspace may be NULL where ref is enough. */
bool admin_branch_activate(struct admin *a, const char *ref,
                           const char *workspace, bool active,
                           struct admin_place *out);

struct admin_member {
    char member_id[STORE_UUID];
    struct admin_account account;
    struct admin_place place; /* up to the workspace */
    char status[16];
    bool changed;
};

bool admin_member_add(struct admin *a, const char *account,
                      const char *workspace, struct admin_member *out);

/* What member grant and member revoke are about. */
struct admin_grant {
    const char *account;
    const char *workspace; /* NULL where the branches are enough */
    const char *const *branches;
    size_t branch_count;
    const char *const *roles;
    size_t role_count;
};

/* A branch with what is granted in it after the change. */
struct admin_granted {
    struct admin_member member;
    char branch_id[STORE_UUID];
    char branch[ADMIN_NAME];
    bool granted;
    char roles[ADMIN_MAX_ROLES * (ADMIN_ROLE_MAX + 1) + 1]; /* by commas */
    bool changed;
};

/*
 * Grants every branch with every role; what is granted already stays.
 * Calls each once per branch, after the transaction.  The limits of contract
 * and schema (200 branches a member, 1000 an account, 32 roles a branch)
 * refuse the whole.
 */
bool admin_member_grant(struct admin *a, const struct admin_grant *grant,
                        void (*each)(void *arg, const struct admin_granted *g),
                        void *arg);
/* Takes the roles away, or without any the branches. */
bool admin_member_revoke(struct admin *a, const struct admin_grant *grant,
                         void (*each)(void *arg,
                                      const struct admin_granted *g),
                         void *arg);
/* Takes every branch of the workspace away and ends the membership. */
bool admin_member_end(struct admin *a, const char *account,
                      const char *workspace, struct admin_member *out,
                      int64_t *branches);

#endif
