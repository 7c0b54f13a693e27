/* What ends an account or helps its owner in again: deletion, lockout,
 * forgotten failures, reset codes. */

#pragma once

#include "people/people_account.h"

/* Failed logins are counted under an HMAC of the account's name, or of a
 * client's id. */
struct end_attempts {
    /* NULL without a key: failed logins are left out. */
    bool (*identify)(const void *context, const char *name,
                     unsigned char hmac[32]);
    const void *context;
};

/* -- deletion -- */

/* What is held about an account. */
struct end_held {
    struct account_whole account;
    struct people_rows failed_logins;
};
/* failedLogins, beside the members of the account */
extern const struct people_member people_end_members[];
enum people_outcome people_end_hold(struct people *p, const char *ref,
                                    const struct end_attempts *attempts,
                                    struct end_held *out);

struct end_delete {
    const char *ref; /* id or name */
    struct end_attempts attempts;
    const char *hash; /* matches nobody's credential */
    /* What was held, with the newest sessions; held may be NULL. */
    struct end_held *held;
    struct people_rows sessions;
    struct account_item account; /* as it was */
    bool again;                  /* it was deleted before */
    int64_t ended;               /* sessions */
};

/* Erases name and credential, memberships and grants, and locks out.  The rows
 * of sessions are marked and erased afterwards (people_session.h). */
enum people_outcome people_end_delete(struct people *p, struct end_delete *d);

/* -- lockout, failed logins -- */

struct end_sessions {
    const char *ref;
    const char *session_id; /* or NULL for all */
    struct account_item account;
    int64_t ended;
};
extern const struct people_member people_end_sessions_members[];
/* PEOPLE_NOT_FOUND unless session_id is that of an active one. */
enum people_outcome people_end_sessions(struct people *p,
                                        struct end_sessions *e);

struct end_failures {
    const char *ref;
    struct end_attempts attempts;
    const char *address; /* forget all failures from it too; or NULL */
    struct account_item account;
    int64_t cleared;    /* addresses */
    bool address_reset; /* there were failures from address */
};
/* The second one also has clearedAddressTotal. */
extern const struct people_member people_end_failures_members[],
    people_end_address_members[];
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
