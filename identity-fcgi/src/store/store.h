/* Domain structs and the operations that move them in and out of SQL. */

#ifndef STORE_H_INCLUDED
#define STORE_H_INCLUDED

#include "base/config.h"
#include "base/meanwhile.h"

#include <pj.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

/* What the database said when it was asked, by its own clock. */
struct store_clock {
    int64_t now_us;
    int64_t valid_after_us; /* when the account was last locked out; 0: never
                             */
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
    /* The selectable branches, sorted by workspace name, branch name and
     * branch id: of the scope's workspace, or of all workspaces without a
     * scope. */
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
    char stand_in[STORE_UUID]; /* the HMAC's first half */
    char address[64];          /* as PostgreSQL's inet reads it */
};

struct session_ref {
    char session_id[STORE_UUID];
    char account_id[STORE_UUID];
};

/* A session as its owner is shown it; strings in the rows, "" where null. */
struct own_session {
    char session_id[STORE_UUID];
    const char *created_at, *used_at, *expires_at; /* ISO 8601, UTC */
    const char *address, *agent;
    struct branch branch;
};

struct own_sessions {
    struct own_session *items;
    size_t count;
    bool more;
};

/* What gateways refuse: a session's tokens, or an account's older ones. */
struct revocation {
    char session_id[STORE_UUID]; /* "": of an account */
    char account_id[STORE_UUID];
    int64_t issued_before_s;
    int64_t revoked_at_us, dies_at_us; /* none of the tokens lives then */
};

struct revocations {
    struct revocation *items;
    size_t count;
    bool more; /* at once, after cursor */
    char cursor[STORE_CURSOR];
    int64_t now_us;
};

enum store_result {
    STORE_OK,
    STORE_NONE,        /* no such row, or compare-and-swap matched none */
    STORE_UNAVAILABLE, /* no database, or it refused; nothing was changed */
    STORE_UNKNOWN      /* a write was sent and its answer lost: it may or may
                          not have happened, and must not be sent again blindly */
};

struct db_pool;

/* One thread's way to the database. */
struct store {
    struct db_pool *pool; /* of all threads; its connections open when used */
    int64_t deadline_ms;  /* of CLOCK_MONOTONIC, for what is asked next */
    /* For the session that it opens or refreshes; "": not to be kept. */
    char client_address[64];
    char client_agent[256];
    /* No access token that this request issues lives longer. */
    int64_t access_until_s;
};

/* Makes the pool, of db_pool_size connections, and a handle; copies of that
 * serve other threads.  False when memory is short. */
bool store_open(struct store *st, const struct config *cfg)
    __attribute__((warn_unused_result));
/* Ends the pool: once, when no thread uses it any more. */
void store_close(struct store *st);

/* How many database connections there may be, how many are in use, and whether
 * the database refuses new ones (the role, its password, or its own name). */
void store_use(const struct store *st, int *size, int *used, bool *refused);

/*
 * The operations.  Any may return STORE_UNAVAILABLE, those that write
 * STORE_UNKNOWN too.
 */

/*
 * Finds an account by its normalised name.  If there is none: STORE_NONE, and
 * out->credential_hash is that of the account chosen by the UUID stand_in (""
 * if there are no accounts), found by the same work, so that the cost of
 * verifying reveals nothing.
 */
enum store_result store_account_find(struct store *st, pj_str_t name,
                                     const char *stand_in,
                                     struct account *out);
/* Replaces the credential hash where it is still old_hash. */
enum store_result store_credential_rehash(struct store *st,
                                          const char *account_id,
                                          const char *old_hash,
                                          const char *new_hash);

/*
 * Counts a login as failed before it is tried.  STORE_NONE when the pair has
 * max_failures or the address ten times as many; nothing is counted then, and
 * *retry_after_s says when to try again.
 */
enum store_result store_attempt_begin(struct store *st,
                                      const struct attempt *attempt,
                                      int max_failures, int64_t window_s,
                                      int64_t *retry_after_s);
/* Takes the count back; success also forgets the pair's earlier ones. */
enum store_result store_attempt_settle(struct store *st,
                                       const struct attempt *attempt,
                                       bool success);

/* The branches that a new session of the account, of which only the id is
 * known, can select; selectable if there is exactly one. */
enum store_result store_choices(struct store *st, pj_arena_t *arena,
                                const char *account_id,
                                struct session_view *out);

/* Inserts s (its ids, jti, expiry and, if set, the scope columns), where its
 * account is enabled, still has that credential and was not locked out since
 * s->clock was read; else STORE_NONE.  created_at is the database's. */
enum store_result store_session_create(struct store *st,
                                       const struct session *s,
                                       const char *credential_hash);
/*
 * If the account of s has more than most active sessions, revokes the expired
 * and then the oldest of the others, some at a time, and puts them into done
 * (room for STORE_MAX_REVOKE); STORE_NONE if there are none.
 */
enum store_result store_session_limit(struct store *st,
                                      const struct session *s, int most,
                                      struct session_ref *done,
                                      size_t *done_count);
/*
 * Reads a session, and about branch_id (NULL: its own active branch) whether
 * it is selectable in the session, all in one statement.  The list is filled
 * if asked for, and always when that branch is not selectable.  Both ids may
 * be any strings.  meanwhile, if not NULL, is run while the database works.
 */
enum store_result store_session_read(struct store *st, pj_arena_t *arena,
                                     pj_str_t session_id,
                                     const pj_str_t *branch_id, bool list,
                                     struct meanwhile *meanwhile,
                                     struct session_view *out);
/* Sets the scope of an ACTIVE session whose workspace is null or the same. */
enum store_result store_session_select(struct store *st,
                                       const char *session_id,
                                       const struct scope *scope);
/*
 * ACTIVE -> REVOKED for ids[0..count), count <= STORE_MAX_REVOKE.  done (room
 * for count) gets those that were ACTIVE.  Repeating it is safe.
 */
enum store_result store_session_revoke(struct store *st, const pj_str_t *ids,
                                       size_t count, struct session_ref *done,
                                       size_t *done_count);

/*
 * The account's sessions that are alive at now_s, opened after opened_at_s:
 * first the one called current, used when it was opened and said to expire at
 * expires_at_s; then the STORE_MAX_OWN newest of the others.
 */
enum store_result store_sessions_own(struct store *st, pj_arena_t *arena,
                                     const struct session *current,
                                     int64_t now_s, int64_t opened_at_s,
                                     int64_t expires_at_s,
                                     struct own_sessions *out);
/* ACTIVE -> REVOKED for all sessions of the account but, unless that is NULL,
 * the one called except; *ended is how many, also where it came only so far.
 * Repeating it is safe. */
enum store_result store_sessions_end(struct store *st, const char *account_id,
                                     const char *except, int64_t *ended);

/* Finds an account by its id, as store_account_find() does; name has room for
 * ACCOUNT_NAME_MAX bytes and a NUL. */
enum store_result store_account_read(struct store *st, const char *account_id,
                                     char *name, struct account *out);
/* Replaces the credential where it is still old_hash, the account enabled and
 * its session except alive, and at once ends all others.  STORE_NONE: one of
 * these is not so. */
enum store_result store_credential_change(struct store *st,
                                          const char *account_id,
                                          const char *old_hash,
                                          const char *new_hash,
                                          const char *except, int64_t *ended);

/*
 * What became known to the database after cursor ("": from the beginning), at
 * most STORE_MAX_LIST of it.  However late a transaction commits, none of its
 * revocations is missed.  STORE_NONE: the cursor is of another database, or
 * this one has crashed or lost its last transactions since.
 */
enum store_result store_revocations(struct store *st, pj_arena_t *arena,
                                    const char *cursor,
                                    struct revocations *out);

/*
 * A round trip; *schema_version is the newest applied migration.  STORE_NONE:
 * the database answers, but its role lacks rights that requests need.
 */
enum store_result store_ping(struct store *st, int *schema_version);

/* The newest migration in this binary. */
int store_schema_version(void);

/*
 * Applies pending migrations, one transaction each under an advisory lock, and
 * the local seed if asked (a local database only).  On failure one line in err
 * and false.
 */
bool store_migrate(const struct config *cfg, bool seed, char *err,
                   size_t err_cap) __attribute__((warn_unused_result));

/* -- deleting what ended long ago (store_sweep.c) -- */

/* How long ended sessions are kept for inquiries. */
#define SWEEP_KEEP_S (7 * 86400)

struct sweep_counts {
    int64_t sessions;
    int64_t attempts;
    int64_t rotated_tokens;
    int64_t revocations;
};

enum sweep_result {
    SWEEP_DONE,
    SWEEP_STOPPED, /* as the sweeper was told */
    SWEEP_BUSY,    /* another process is at it; nothing was done */
    SWEEP_FAILED   /* one line is in err; counts is what was done */
};

/*
 * Sweeps everything, with sessions that ended over keep_s ago, on connections
 * of its own and under an advisory lock that lets one process at a time sweep.
 */
enum sweep_result store_sweep(const struct config *cfg, int64_t keep_s,
                              struct sweep_counts *counts, char *err,
                              size_t err_cap);

/* How many revocations there were when this process last wanted to sweep; -1
 * before it did. */
int64_t sweep_revocations(void);

/* Which blocks of a table the part at cursor (wherever that is) is: from
 * *first on, *count of them, without wrapping.  Pure; for the test. */
void sweep_part(uint64_t blocks, uint64_t cursor, uint64_t *first,
                uint64_t *count);

/*
 * Starts a thread that first looks whether the database may lose commits and
 * then, unless that is 0, sweeps a part every sweep_interval_s.  NULL where no
 * thread could be made (a log line says so).  cfg must outlive it.
 */
struct sweeper *sweep_start(const struct config *cfg);

/* Tells it to stop after the batch in hand; returns at once.  NULL allowed. */
void sweep_stop(struct sweeper *s);

/*
 * Stops it, waits for the thread to end and frees s; false when it did not
 * within wait_ms (its database hangs): the process has to end by _exit() then.
 */
bool sweep_join(struct sweeper *s, int wait_ms)
    __attribute__((warn_unused_result));

#endif
