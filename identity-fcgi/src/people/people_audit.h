/* The audit: who changed what. */

#pragma once

#include "people/people.h"

struct audit_query {
    const char *account_id; /* whose changes, or NULL for any */
    const char *event;      /* or NULL */
    int64_t since_us;       /* from this time on; 0 for any */
    int64_t until_us;       /* before this time; 0 for any */
    int64_t after;          /* go on after this event; 0 for the newest */
    int64_t limit;          /* 1 to PEOPLE_PAGE_MAX */
};

/* A change, or an event that the service observed.  The ids are of what was
 * changed. */
struct audit_event {
    int64_t event_id;
    int64_t time_us;
    const char *event;
    const char *operator;      /* user or role, unless by_account_id is set */
    const char *by_account_id; /* account of the token that the request had */
    const char *by_token_id;   /* its jti */
    const char *account_id, *session_id;
    const char *tenant_id, *workspace_id, *branch_id, *member_id;
    const char *roles; /* separated by commas */
    const char *request_id, *address;
};

extern const struct people_member people_audit_members[];

/* PEOPLE_INVALID if the event query->after does not exist. */
enum people_outcome people_audit_list(struct people *p,
                                      const struct audit_query *query,
                                      struct people_rows *page);
/* The cursor after this event, or NULL. */
const char *people_audit_cursor(struct people *p, const void *event);
