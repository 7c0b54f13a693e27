/* Workspaces of tenants, and branches of workspaces. */

#pragma once

#include "people/people.h"

enum place_kind { PLACE_WORKSPACE, PLACE_BRANCH };

/* A workspace, which is in a tenant, or a branch, which is in a workspace. */
struct place {
    const char *id, *name;
    const char *status; /* ACTIVE, INACTIVE */
    const char *in_id, *in_name;
    int64_t created_us;
    bool changed;
    const char *events[3]; /* what was changed; NULL after the last one */
};

struct place_change {
    /* An id or a name; of a new place NULL. */
    const char *place;
    /* An id or a name; NULL for a branch of any workspace, and for a workspace
     * of a new tenant. */
    const char *in;
    const char *new_tenant; /* name, or NULL */
    const char *name;       /* the new name, or NULL */
    const char *status;     /* the new status, or NULL */
};

struct place_query {
    const char *in;     /* only places there, an id or a name; or NULL */
    const char *name;   /* only names that begin with it, or NULL */
    const char *status; /* or NULL */
    const char *after;  /* go on after this place, an id or a name; or NULL */
    const char *cursor; /* the same as a cursor; or NULL */
    int64_t limit;      /* 1 to PEOPLE_PAGE_MAX */
};

/* Members of a place; the second array is that of a change's answer. */
extern const struct people_member people_place_members[][7],
    people_place_changed[][8];

/* Finds a place by id or name.  in is as in a change. */
enum people_outcome people_place_find(struct people *p, enum place_kind kind,
                                      const char *ref, const char *in,
                                      struct place *out);

enum people_outcome people_place_add(struct people *p, enum place_kind kind,
                                     const struct place_change *change,
                                     struct place *out);
enum people_outcome people_place_change(struct people *p, enum place_kind kind,
                                        const struct place_change *change,
                                        struct place *out);

/* Sorted by the names of tenant and workspace, or of workspace and branch. */
enum people_outcome people_place_list(struct people *p, enum place_kind kind,
                                      const struct place_query *query,
                                      struct people_rows *page);
/* The cursor after this place, or NULL. */
const char *people_place_cursor(struct people *p, const void *place);
/* Reads the parts of a cursor: two names and an id. */
enum people_outcome people_place_cursor_read(struct people *p, const char *text,
                                             const char *after[3]);
