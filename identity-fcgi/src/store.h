/* Domain structs and the operations that move them in and out of SQL. */

#ifndef STORE_H_INCLUDED
#define STORE_H_INCLUDED

#include "config.h"

#include <pj.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define STORE_UUID 37          /* 36 characters and a NUL; "" where null */
#define STORE_MAX_BRANCHES 200 /* selectable branches of one member */
#define STORE_MAX_ROLES 32     /* roles of a member in one branch */

/* One selectable branch; strings in the caller's arena, NUL-terminated. */
struct branch {
    const char *branch_id;
    const char *branch_name;
    const char *workspace_id;
    const char *workspace_name;
};

struct branch_list {
    const struct branch *items;
    size_t count;
};

/* What a branch token says beyond the session. */
struct scope {
    const char *workspace_id;
    const char *tenant_id;
    const char *member_id;
    const char *active_branch_id;
    const char *const *branch_ids; /* selectable in this workspace */
    size_t branch_id_count;
    const char *const *roles;
    size_t role_count;
};

/* A row of auth_sessions with what its account says. */
struct session {
    char session_id[STORE_UUID];
    char account_id[STORE_UUID];
    char account_type[16];
    bool account_enabled;
    bool active; /* status ACTIVE; expiry is the caller's to compare */
    char jti[STORE_UUID];
    char workspace_id[STORE_UUID]; /* scope; all three set, or none */
    char member_id[STORE_UUID];
    char active_branch_id[STORE_UUID];
    int64_t created_at_s;
    int64_t expires_at_s;
};

struct account {
    char account_id[STORE_UUID];
    char account_type[16];
    bool enabled;
    char credential_hash[256]; /* PHC string */
};

enum store_result {
    STORE_OK,
    STORE_NONE,       /* no such row, or compare-and-swap matched none */
    STORE_UNAVAILABLE /* no database, or it did not answer in time */
};

struct store; /* one connection */

/*
 * The operations, as a table so that handlers can be tested without SQL.  All
 * but open and close may return STORE_UNAVAILABLE; then nothing was half done.
 */
struct store_ops {
    /* Finds an account by its normalised name. */
    enum store_result (*account_find)(struct store *st, pj_str_t name,
                                      struct account *out);
    /* All selectable branches of the account, sorted; workspace_id NULL: in
     * every workspace. */
    enum store_result (*branches)(struct store *st, pj_arena_t *arena,
                                  const char *account_id,
                                  const char *workspace_id,
                                  struct branch_list *out);
    /* The scope for one branch, STORE_NONE when it is not selectable. */
    enum store_result (*scope)(struct store *st, pj_arena_t *arena,
                               const char *account_id, const char *branch_id,
                               struct scope *out);
    /* Inserts s (session_id, account_id, jti, expires_at_s, scope columns). */
    enum store_result (*session_create)(struct store *st,
                                        const struct session *s);
    enum store_result (*session_find)(struct store *st, const char *session_id,
                                      struct session *out);
    /*
     * The compare-and-swap of a refresh: replaces jti and expires_at, and
     * clears the scope if clear_scope, where id, old->jti, ACTIVE and the
     * scope columns of old still hold.  STORE_NONE when no row matched.
     */
    enum store_result (*session_rotate)(struct store *st,
                                        const struct session *old,
                                        const char *new_jti,
                                        int64_t expires_at_s,
                                        bool clear_scope);
    /* Sets the scope of an ACTIVE session whose workspace is null or the
     * same. */
    enum store_result (*session_select)(struct store *st,
                                        const char *session_id,
                                        const struct scope *scope);
    /* ACTIVE -> REVOKED; STORE_NONE when it was not ACTIVE. */
    enum store_result (*session_revoke)(struct store *st,
                                        const char *session_id);
    /* Replaces the credential hash where it is still old_hash. */
    enum store_result (*credential_rehash)(struct store *st,
                                           const char *account_id,
                                           const char *old_hash,
                                           const char *new_hash);
    /* A round trip; *schema_version is the newest applied migration. */
    enum store_result (*ping)(struct store *st, int *schema_version);
};

extern const struct store_ops store_postgres;

/*
 * A connection for one thread: made here, connected at first use and again
 * after a failure.  NULL only when memory is short.
 */
struct store *store_open(const struct config *cfg);
void store_close(struct store *st);

/* The newest migration in this binary. */
int store_schema_version(void);

/*
 * Applies pending migrations under an advisory lock, and the local seed if
 * asked.  On failure one line in err and false.
 */
bool store_migrate(const struct config *cfg, bool seed, char *err,
                   size_t err_cap) __attribute__((warn_unused_result));

#endif
