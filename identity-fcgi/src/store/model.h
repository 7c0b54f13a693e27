/* Structs that the store reads and writes, and its results. */

#pragma once

#include <pj.h>

#define STORE_UUID 37        /* 36 characters and a NUL; "" for null */
#define STORE_MAX_LIST 1000  /* selectable branches of one account */
#define STORE_MAX_REVOKE 128 /* sessions revoked by one call */
#define STORE_MAX_LISTED 100 /* sessions shown to their owner */
#define STORE_CURSOR 513     /* bytes including NUL */

/* Salt of the hashes that no credential fits, in base64. */
#define MODEL_NOBODY_SALT "bm9ib2R5LWNhbi1sb2dpbg"

/* A selectable branch.  The strings are in the caller's arena. */
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

/* The claims of a branch token that are not from the session. */
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

/* Times of the database's clock when a row was read. */
struct store_clock {
    int64_t now_us;
    int64_t valid_after_us; /* the account's last lockout, or 0 */
};

/* Authentication methods (RFC 8176): bits of auth_sessions.amr. */
enum amr {
    AMR_PWD = 1, /* the credential */
    AMR_OTP = 2, /* TOTP or recovery code */
    AMR_HWK = 4, /* a key that does not leave its device */
    AMR_SWK = 8,
    AMR_USER = 16, /* verified by the authenticator */
    AMR_MFA = 32   /* several factors */
};

/* A row of auth_sessions, and the state of its account. */
struct session {
    char session_id[STORE_UUID];
    char account_id[STORE_UUID];
    char account_type[16];
    bool account_enabled;
    bool active; /* status is ACTIVE and the account was not locked out since it
                    was opened; the caller checks expiry */
    char jti[STORE_UUID];
    char workspace_id[STORE_UUID]; /* scope: all three are set or empty */
    char member_id[STORE_UUID];
    char active_branch_id[STORE_UUID];
    int64_t created_at_s;
    int64_t expires_at_s;
    unsigned amr; /* bits of enum amr */
    int64_t authenticated_at_s;
    /* Only to open one: of the key that it is bound to, or "". */
    char key_thumbprint[PJ_THUMBPRINT_CHARS + 1];
    struct store_clock clock;
};

/* A session and its selectable branches, read in one snapshot. */
struct session_view {
    struct session session;
    bool selectable; /* the requested branch is selectable; scope is filled */
    struct scope scope;
    /* The selectable branches of the scope's workspace or, without a scope, of
     * all workspaces, sorted by workspace name, branch name and id. */
    struct branch_list branches;
};

/* Names to show, in the caller's arena. */
struct session_names {
    const char *account;
    const char *workspace, *branch; /* "" without a branch */
    const char *created_at;         /* of the session, as in the API */
};

struct account {
    char account_id[STORE_UUID];
    char account_type[16];
    bool enabled;
    char credential_hash[256]; /* PHC or crypt() string */
    bool second_factor;        /* it has one */
    bool factor_required;      /* by an operator */
    struct store_clock clock;
};

/* The account and address to count a failed login for. */
struct attempt {
    unsigned char account_hmac[32];
    char address[64]; /* in the form of PostgreSQL's inet */
};

struct session_refs {
    struct {
        char session_id[STORE_UUID];
        char account_id[STORE_UUID];
    } items[STORE_MAX_REVOKE];
    size_t count;
};

/* JSON objects as returned by a statement, in the caller's arena. */
struct store_list {
    const char **items;
    size_t count;
    bool more;
};

/* Revocations for gateways: of a session's tokens, or of the tokens that an
 * account had before a lockout. */
struct revocations {
    struct store_list list; /* more: ask again with cursor at once */
    char cursor[STORE_CURSOR];
    char now[32]; /* seconds since 1970 with decimals */
};

enum store_result {
    STORE_OK,
    STORE_NONE,        /* row not found, or compare-and-swap failed */
    STORE_UNAVAILABLE, /* the database failed, nothing was changed */
    STORE_UNKNOWN /* the answer to a write was lost, so its effect is unknown
                     and it must not simply be repeated */
};

struct db_pool;
struct db_script;

/* A thread's access to the database. */
struct store {
    struct db_pool *pool; /* shared by all threads; connects when needed */
    /* Instead, the transaction of a command, whose errors it has; or NULL. */
    struct db_script *script;
    int64_t deadline_ms; /* CLOCK_MONOTONIC, for the next statements */
    bool locked; /* the last statement failed waiting for a locked row */
    /* Client of the session that is opened or refreshed; "" to record none. */
    char client_address[64];
    char client_agent[256];
    /* Who makes the changes, for the audit: a JSON object, or "". */
    char actor[512];
    /* The latest expiry of access tokens issued by this request. */
    int64_t access_until_s;
};
