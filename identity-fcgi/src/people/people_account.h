/* Accounts. */

#pragma once

#include "people/people.h"

struct account_item {
    const char *account_id, *type, *status, *name;
    int64_t created_us;
};

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
    bool has_credential;
    struct people_rows memberships, grants; /* grants: of all memberships */
};

/* Those of an account_item, updatedAt, sessionsValidAfter, deletedAt,
 * hasCredential, memberships with grants */
extern const struct people_member people_account_whole_members[];

enum people_outcome people_account_read(struct people *p, const char *id,
                                        struct account_whole *out);

enum people_outcome people_account_find(struct people *p, const char *ref,
                                        struct account_item *out);

/* -- changing -- */

/* Finds an account by ref, an id or a name, and locks it.  Refuses one that the
 * caller may not change, and one that is deleted. */
enum people_outcome people_account_lock(struct people *p, const char *ref,
                                        struct account_item *out);

struct account_new {
    const char *name; /* normalised */
    const char *type;
    const char *hash; /* of its credential */
    /* A line of account import with its type and memberships. */
    const char *line;
};
enum people_outcome people_account_add(struct people *p,
                                       const struct account_new *given,
                                       struct account_item *out);

struct account_change {
    const char *ref;             /* id or name */
    const char *name, *status;   /* the new ones; NULL for no change */
    struct account_item account; /* as it is then */
    bool renamed, set_status;    /* what was changed */
    bool changed;                /* either of them */
    int64_t ended;               /* sessions */
};

/* Those of an account_item, changed, revokedSessions */
extern const struct people_member people_account_change_members[];

/* The sessions of a disabled account are over.  Their rows are marked by
 * people_session_mark(). */
enum people_outcome people_account_change(struct people *p,
                                          struct account_change *change);
