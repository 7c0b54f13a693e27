/* What the store reads and writes: the domain's structs, and outcomes. */

#pragma once

#include <pj.h>

#define STORE_UUID 37        /* 36 characters and a NUL; "" where null */
#define STORE_MAX_LIST 1000  /* selectable branches of one account */
#define STORE_MAX_REVOKE 128 /* sessions revoked by one call */
#define STORE_MAX_OWN 100    /* sessions shown to their owner */
#define STORE_CURSOR 513     /* bytes, with the NUL */

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

/* Times by the database's clock, as it read the row. */
struct store_clock {
    int64_t now_us;
    int64_t valid_after_us; /* the account's last lockout; 0: none */
};

/* A row of auth_sessions, and the state of its account. */
struct session {
    char session_id[STORE_UUID];
    char account_id[STORE_UUID];
    char account_type[16];
    bool account_enabled;
    bool active; /* status ACTIVE, opened since the account was last locked
                    out; expiry is the caller's to compare */
    char jti[STORE_UUID];
    char workspace_id[STORE_UUID]; /* scope; all three set, or none */
    char member_id[STORE_UUID];
    char active_branch_id[STORE_UUID];
    int64_t created_at_s;
    int64_t expires_at_s;
    struct store_clock clock;
};

/* A session and what can be selected in it, read in one snapshot. */
struct session_view {
    struct session session;
    bool selectable;    /* the branch asked about is; scope is then filled */
    struct scope scope; /* of that branch */
    /* The selectable branches, sorted by workspace name, branch name and id: of
     * the scope's workspace, or without a scope of all. */
    struct branch_list branches;
};

struct account {
    char account_id[STORE_UUID];
    char account_type[16];
    bool enabled;
    char credential_hash[256]; /* PHC or crypt() string */
    struct store_clock clock;
};

/* Whose failed logins are counted. */
struct attempt {
    unsigned char account_hmac[32];
    char address[64]; /* as PostgreSQL's inet reads it */
};

/* Sessions that were revoked by one call. */
struct session_refs {
    struct {
        char session_id[STORE_UUID];
        char account_id[STORE_UUID];
    } items[STORE_MAX_REVOKE];
    size_t count;
};

/* Objects in JSON, as the statement writes them; in the caller's arena. */
struct store_list {
    const char **items;
    size_t count;
    bool more;
};

/* What gateways refuse: a session's tokens, or an account's older ones. */
struct revocations {
    struct store_list list; /* more: at once, after cursor */
    char cursor[STORE_CURSOR];
    char now[32]; /* seconds since 1970, with decimals */
};

enum store_result {
    STORE_OK,
    STORE_NONE,        /* no such row, or compare-and-swap matched none */
    STORE_UNAVAILABLE, /* no database, or it refused; nothing was changed */
    STORE_UNKNOWN      /* a write's answer was lost: it may or may not have
                          happened, and must not be sent again blindly */
};

struct db_pool;

/* One thread's way to the database. */
struct store {
    struct db_pool *pool; /* of all threads; its connections open when used */
    int64_t deadline_ms;  /* of CLOCK_MONOTONIC, for what is asked next */
    bool locked; /* the last statement ended since others held a row too long */
    /* For the session that it opens or refreshes; "": not to be kept. */
    char client_address[64];
    char client_agent[256];
    /* No access token that this request issues lives longer. */
    int64_t access_until_s;
};
