/* Members of workspaces, and what they are granted there. */

#pragma once

#include "people/people.h"

/* The roles of a member in a branch. */
struct member_grant {
    const char *branch_id, *branch_name;
    const char *roles; /* separated by commas */
    bool granted;
    /* Filled by people_member_grant() and people_member_revoke(). */
    const char *account_id, *member_id, *workspace_id, *workspace_name;
    bool ended; /* the membership */
    bool changed;
    const char *event; /* what was changed, or NULL */
    int64_t position;  /* in the wish, from 1 */
};

struct member {
    const char *member_id, *account_id, *account;
    const char *status; /* ACTIVE, INACTIVE */
    const char *workspace_id, *workspace_name;
    int64_t branches; /* granted ones */
    int64_t created_us;
    struct people_rows grants;  /* of a change's answer: struct member_grant */
    struct people_rows changes; /* the grants that were changed */
    int64_t revoked;            /* grants that ended */
    bool made, changed;
    const char *event; /* what was changed, or NULL */
};

struct member_change {
    const char *account, *workspace; /* ids or names */
    /* Exactly these grants from then on.  Without wished they stay. */
    bool wished;
    const struct member_grant *grants; /* branch_id and roles */
    size_t grant_count;
};

/* A change of one grant. */
struct grant_change {
    const char *account, *branch; /* ids or names */
    const char *workspace;        /* where to look for the branch, or NULL */
    const char *roles;            /* separated by commas; "" for none */
};

struct member_query {
    const char *workspace; /* only its members, an id or a name; or NULL */
    const char *account;   /* only its memberships, an id; or NULL */
    const char *status;    /* or NULL */
    const char *after;     /* go on after this member: its id, or the name of an
                              account; or NULL */
    const char *cursor;    /* the same as a cursor; or NULL */
    int64_t limit;         /* 1 to PEOPLE_PAGE_MAX */
};

/* Members of a member, of a change's answer, and of a grant that changes. */
extern const struct people_member people_member_members[],
    people_member_changed[], people_member_granted[];

/* Makes the account a member, or restores its membership. */
enum people_outcome people_member_put(struct people *p,
                                      const struct member_change *change,
                                      struct member *out);
/* Ends a membership with its grants. */
enum people_outcome people_member_end(struct people *p,
                                      const struct member_change *change,
                                      struct member *out);

/* Adds a grant of a branch with these roles. */
enum people_outcome people_member_grant(struct people *p,
                                        const struct grant_change *change,
                                        struct member_grant *out);
/* Takes these roles or, without roles, the branch. */
enum people_outcome people_member_revoke(struct people *p,
                                         const struct grant_change *change,
                                         struct member_grant *out);

/* Sorted by the names of workspace and account. */
enum people_outcome people_member_list(struct people *p,
                                       const struct member_query *query,
                                       struct people_rows *page);
/* The cursor after this member, or NULL. */
const char *people_member_cursor(struct people *p, const void *member);
