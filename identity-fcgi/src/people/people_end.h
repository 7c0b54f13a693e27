/* What ends an account or helps its owner in again: deletion, lockout,
 * forgotten failures, reset codes. */

#pragma once

#include "people/people_account.h"

/* Failed logins are counted under an HMAC of the account's name. */
struct end_attempts {
    bool (*identify)(void *context, const char *name, unsigned char hmac[32]);
    void *context;
};

/* -- deletion -- */

struct end_delete {
    const char *ref; /* id or name */
    struct end_attempts attempts;
    const char *hash; /* of no credential */
    /* What was held; sessions are the newest ones. */
    struct account_whole held;
    struct people_rows failed_logins, sessions;
    bool again; /* it was deleted before */
};

/* failedLogins, beside the members of the account */
extern const struct people_member people_end_members[];

/* Erases name and credential, memberships and grants, and locks out.  The rows
 * of sessions are marked and erased afterwards (people_session.h). */
enum people_outcome people_end_delete(struct people *p, struct end_delete *d);

/* -- lockout, failed logins -- */

struct end_sessions {
    const char *ref;
    struct account_item account;
    int64_t ended;
};
extern const struct people_member people_end_sessions_members[];
enum people_outcome people_end_sessions(struct people *p,
                                        struct end_sessions *e);

struct end_failures {
    const char *ref;
    struct end_attempts attempts;
    struct account_item account;
    int64_t cleared; /* addresses */
};
extern const struct people_member people_end_failures_members[];
enum people_outcome people_end_failures(struct people *p,
                                        struct end_failures *e);

/* -- reset codes -- */

struct end_reset {
    const char *ref;
    const unsigned char *code_hash; /* SHA-256 */
    int64_t expires_us;
    const char *code;
    struct account_item account;
};
/* accountId, resetCode, expiresAt */
extern const struct people_member people_end_reset_members[];
/* Replaces the account's last code. */
enum people_outcome people_end_reset(struct people *p, struct end_reset *r);
