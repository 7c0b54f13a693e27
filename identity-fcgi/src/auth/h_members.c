/* /api/system/workspaces/{id}/members: members and their grants */

#include "auth/body.h"
#include "auth/handlers.h"
#include "auth/system_change.h"
#include "people/people_member.h"

#include <string.h>

#define GRANTS_MAX 1000 /* of a call; the database limits active ones */
#define ROLES_MAX 100   /* the same */

/* -- the list -- */

struct listing {
    struct member_query query;
    struct people_rows page;
};

static enum people_outcome list(struct people *p, void *state)
{
    struct listing *l = state;

    return people_member_list(p, &l->query, &l->page);
}

static void answer_list(struct worker *w, const void *state)
{
    const struct listing *l = state;
    struct jsonw json;

    system_success(w, &json, "These are the members.");
    system_list(w, &json, "members", people_member_members, &l->page,
                people_member_cursor);
    jsonw_object_end(&json);
}

void h_members(struct worker *w)
{
    static const char *const known[] = {"status", "limit", "after", NULL};
    static const char *const statuses[] = {"ACTIVE", "INACTIVE", NULL};
    struct listing l = {.query = {.limit = PEOPLE_PAGE}};
    struct member_query *q = &l.query;
    struct form query;

    if (system_caller(w, "people:read") &&
        system_path_id(w, 0, &q->workspace) && system_query(w, known, &query) &&
        system_word(w, &query, "status", statuses, &q->status) &&
        system_number(w, &query, "limit", PEOPLE_PAGE_MAX, &q->limit) &&
        system_text(w, &query, "after", &q->cursor)) {
        (void) system_read(w, list, answer_list, &l);
    }
}

/* -- changes -- */

struct member_call {
    struct member_change change;
    struct member member;
};

static void audit(struct worker *w, const struct member *m)
{
    const struct member_grant *grants = m->changes.items;
    struct system_event event = {.event = m->event,
                                 .account_id = m->account_id,
                                 .workspace_id = m->workspace_id,
                                 .member_id = m->member_id};

    if (m->event != NULL) {
        system_audit(w, &event);
    }
    for (size_t i = 0; i < m->changes.count; i++) {
        event.event = grants[i].event;
        event.branch_id = grants[i].branch_id;
        event.roles = grants[i].roles;
        system_audit(w, &event);
    }
}

static enum people_outcome put(struct people *p, void *state)
{
    struct member_call *c = state;

    return people_member_put(p, &c->change, &c->member);
}

static enum people_outcome end(struct people *p, void *state)
{
    struct member_call *c = state;

    return people_member_end(p, &c->change, &c->member);
}

static void answer(struct worker *w, const void *state)
{
    const struct member *m = &((const struct member_call *) state)->member;
    struct jsonw json;

    if (m->made) {
        system_created(w, &json, "The account is a member now.", m->account_id,
                       "/api/system/workspaces/%s/members/%s", m->workspace_id,
                       m->account_id);
    } else {
        system_success(w, &json, "The membership is as asked.");
    }
    system_members(&json, people_member_changed, m);
    jsonw_object_end(&json);
}

#define ROLE_LETTERS                                                           \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_.:-"

/* Reads the roles of a grant into text, separated by commas. */
static void read_roles(const struct body *grant, struct buf *text)
{
    const char *code = "";
    struct body roles, role;

    if (!body_array(grant, "roles", BODY_OPTIONAL, ROLES_MAX, &roles)) {
        return;
    }
    while (body_next(&roles, &role)) {
        if (body_text(&role, NULL, BODY_REQUIRED, 1, 32, &code) &&
            code[strspn(code, ROLE_LETTERS)] != '\0') {
            body_fault(&role, NULL, (struct fault){.code = FAULT_MALFORMED},
                       "must be of the characters A-Z a-z 0-9 _ . : -");
        }
        buf_addf(text, "%s%s", roles.index > 1 ? "," : "", code);
    }
}

/* Reads the member grants.  The faults are recorded. */
static void read_grants(struct worker *w, const struct body *root,
                        struct member_change *change)
{
    static const char *const known[] = {"branchId", "roles", NULL};
    struct body grants, item;
    struct member_grant *mem;
    struct buf text;

    if (!body_array(root, "grants", BODY_OPTIONAL, GRANTS_MAX, &grants)) {
        return;
    }
    mem = pj_arena_alloc(&w->arena, (grants.value->count + 1) * sizeof(*mem));
    buf_init(&text, pj_arena_alloc(&w->arena, HTTP_BODY_MAX), HTTP_BODY_MAX);
    if (mem == NULL || text.data == NULL) {
        w->faults.no_memory = true;
        return;
    }
    change->wished = true;
    change->grants = mem;
    while (body_next(&grants, &item)) {
        struct member_grant *grant = &mem[change->grant_count];

        if (!body_object(&item, NULL, BODY_REQUIRED, &item)) {
            continue;
        }
        body_only(&item, known);
        *grant = (struct member_grant){.roles = text.data + text.len};
        read_roles(&item, &text);
        buf_addc(&text, '\0');
        change->grant_count +=
            body_uuid(&item, "branchId", BODY_REQUIRED, &grant->branch_id);
    }
}

void h_members_put(struct worker *w)
{
    static const char *const known[] = {"grants", NULL};
    struct member_call c = {.change = {NULL}};
    struct body root;

    if (!system_caller(w, "people:write") ||
        !system_path_id(w, 0, &c.change.workspace) ||
        !system_path_id(w, 1, &c.change.account) ||
        !body_read(w, true, &root)) {
        return;
    }
    body_only(&root, known);
    read_grants(w, &root, &c.change);
    if (auth_faultless(w) && system_change(w, false, put, answer, &c)) {
        audit(w, &c.member);
    }
}

void h_members_end(struct worker *w)
{
    struct member_call c = {.change = {NULL}};

    if (system_caller(w, "people:write") &&
        system_path_id(w, 0, &c.change.workspace) &&
        system_path_id(w, 1, &c.change.account) &&
        system_change(w, false, end, answer, &c)) {
        audit(w, &c.member);
    }
}
