/* Accounts. */

#pragma once

#include "people/people.h"

struct account_item {
    const char *account_id, *type, *status, *name;
    int64_t created_us;
};

/* The members of an account_item, at field ("" or "account.") of structure. */
#define PEOPLE_ACCOUNT_ITEM(structure, field)                                  \
    PEOPLE_MEMBER("accountId", ID, structure, field account_id),               \
        PEOPLE_MEMBER("type", TEXT, structure, field type),                    \
        PEOPLE_MEMBER("status", TEXT, structure, field status),                \
        PEOPLE_MEMBER("account", TEXT, structure, field name),                 \
        PEOPLE_MEMBER("createdAt", TIME, structure, field created_us)

/* accountId, type, status, account, createdAt */
extern const struct people_member people_account_members[];

/* -- finding -- */

struct account_query {
    const char *name; /* its beginning; this and the others may be NULL */
    const char *type, *status, *workspace_id;
    const char *after_name; /* go on after this name */
    const char *after;      /* the same as a cursor */
    int64_t limit;          /* 1 to PEOPLE_PAGE_MAX */
};

/* Lists accounts by name; deleted ones only with their status. */
enum people_outcome people_account_list(struct people *p,
                                        const struct account_query *query,
                                        struct people_rows *page);
/* The cursor after an account_item. */
const char *people_account_cursor(struct people *p, const void *item);

/* An account and what it may do.  The lists are in the arena. */
struct account_whole {
    struct account_item item;
    int64_t updated_us, valid_after_us, deleted_us;
    bool has_credential, factor_required;
    struct people_rows factors;             /* confirmed second factors */
    int64_t recovery_codes;                 /* unused ones */
    struct people_rows memberships, grants; /* grants: of all memberships */
};

/* Members: of account_item, updatedAt, sessionsValidAfter, deletedAt,
 * hasCredential, factorRequired, factors, recoveryCodesLeft, memberships with
 * grants */
extern const struct people_member people_account_whole_members[];
/* Its lists: memberships, the grants of all of them, factors */
extern const struct people_member people_account_lists[];
/* factors, recoveryCodesLeft */
extern const struct people_member people_account_factor_members[];

enum people_outcome people_account_read(struct people *p, const char *id,
                                        struct account_whole *out);

enum people_outcome people_account_find(struct people *p, const char *ref,
                                        struct account_item *out);

/* The times that a token of the account, which is locked, depends on. */
enum people_outcome people_account_clock(struct people *p, const char *id,
                                         struct store_clock *out);

/* -- changing -- */

/* Finds an account by ref, an id or a name, and locks it.  Refuses one that the
 * caller may not change, and one that is deleted. */
enum people_outcome people_account_lock(struct people *p, const char *ref,
                                        struct account_item *out);
/* The same, but it may be deleted. */
enum people_outcome people_account_lock_any(struct people *p, const char *ref,
                                            struct account_item *out);

/* PEOPLE_INVALID for a name that looks like an id. */
enum people_outcome people_account_check_name(struct people *p,
                                              const char *name);

struct account_new {
    const char *name; /* normalised */
    const char *type;
    const char *hash; /* of its credential */
    /* A line of account import with its type and memberships, or NULL. */
    const char *line;
};
enum people_outcome people_account_add(struct people *p,
                                       const struct account_new *given,
                                       struct account_item *out);

struct account_change {
    const char *ref;             /* id or name */
    const char *name, *status;   /* new values; NULL to keep the old */
    const char *hash;            /* of a new credential; or NULL */
    struct account_item account; /* as it is then */
    bool changed;
    const char *events[4]; /* what was changed; NULL after the last one */
    int64_t ended;         /* sessions */
};

/* Members: of account_item, changed, revokedSessions */
extern const struct people_member people_account_change_members[];

/* Ends the sessions of a disabled account, or those opened by an old
 * credential. Their rows are marked by people_session_mark(). */
enum people_outcome people_account_change(struct people *p,
                                          struct account_change *change);

/* -- importing -- */

struct account_imported {
    int64_t number;     /* of the line */
    const char *result; /* for people_account_result(), or why it was refused */
    bool refused;       /* before */
};

/* Makes accounts of the elements of a JSON array: their n (the line's number),
 * name, hash and line, or n and why.  An account is written completely or not
 * at all. */
enum people_outcome people_account_import(struct people *p, const char *batch,
                                          struct people_rows *out);
/* PEOPLE_EXISTS if the account was there already; else why it was refused. */
enum people_outcome people_account_result(struct people *p, const char *result);
