/* /api/system/workspaces, /api/system/branches: places of programs */

#include "auth/body.h"
#include "auth/handlers.h"
#include "auth/system_change.h"
#include "people/people_place.h"

#define NAME_MAX_BYTES 200

static const char *const statuses[] = {"ACTIVE", "INACTIVE", NULL};

struct places {
    enum place_kind kind;
    struct place_change change;
    struct place_query query;
    struct place place;
    struct people_rows page;
};

static const struct {
    const char *name, *list, *path, *added, *shown, *listed, *changed;
} words[] = {
    {"workspaceName", "workspaces", "workspaces", "The workspace was made.",
     "This is the workspace.", "These are the workspaces.",
     "The workspace is as asked."},
    {"branchName", "branches", "branches", "The branch was made.",
     "This is the branch.", "These are the branches.",
     "The branch is as asked."},
};

/* -- reading -- */

static enum people_outcome find(struct people *p, void *state)
{
    struct places *c = state;

    return people_place_find(p, c->kind, c->change.place, NULL, &c->place);
}

static void answer_found(struct worker *w, const void *state)
{
    const struct places *c = state;
    struct jsonw json;

    system_success(w, &json, words[c->kind].shown);
    system_members(&json, people_place_members[c->kind], &c->place);
    jsonw_object_end(&json);
}

static void show(struct worker *w, enum place_kind kind)
{
    struct places c = {.kind = kind};

    if (system_caller(w, "places:read") &&
        system_path_id(w, 0, &c.change.place)) {
        (void) system_read(w, find, answer_found, &c);
    }
}

static enum people_outcome list(struct people *p, void *state)
{
    struct places *c = state;

    return people_place_list(p, c->kind, &c->query, &c->page);
}

static void answer_list(struct worker *w, const void *state)
{
    const struct places *c = state;
    struct jsonw json;

    system_success(w, &json, words[c->kind].listed);
    system_list(w, &json, words[c->kind].list, people_place_members[c->kind],
                &c->page, people_place_cursor);
    jsonw_object_end(&json);
}

/* The parameter tenantId is the last one. */
static void list_places(struct worker *w, enum place_kind kind)
{
    static const char *const known[][6] = {
        {"name", "status", "limit", "after", "tenantId", NULL},
        {"name", "status", "limit", "after", NULL}};
    struct places c = {.kind = kind, .query = {.limit = PEOPLE_PAGE}};
    struct place_query *q = &c.query;
    struct form query;

    if (system_caller(w, "places:read") &&
        (kind == PLACE_WORKSPACE || system_path_id(w, 0, &q->in)) &&
        system_query(w, known[kind], &query) &&
        system_text(w, &query, "name", &q->name) &&
        system_word(w, &query, "status", statuses, &q->status) &&
        system_number(w, &query, "limit", PEOPLE_PAGE_MAX, &q->limit) &&
        system_text(w, &query, "after", &q->cursor) &&
        (kind == PLACE_BRANCH || system_uuid(w, &query, "tenantId", &q->in))) {
        (void) system_read(w, list, answer_list, &c);
    }
}

void h_places_list(struct worker *w)
{
    list_places(w, PLACE_WORKSPACE);
}

void h_places_show(struct worker *w)
{
    show(w, PLACE_WORKSPACE);
}

void h_places_branches(struct worker *w)
{
    list_places(w, PLACE_BRANCH);
}

void h_places_branch(struct worker *w)
{
    show(w, PLACE_BRANCH);
}

/* -- changing -- */

/* Writes an audit line for each event. */
static void audit(struct worker *w, const struct places *c)
{
    const struct place *place = &c->place;
    bool branch = c->kind == PLACE_BRANCH;

    for (const char *const *event = place->events; *event != NULL; event++) {
        bool tenant = event == place->events && event[1] != NULL &&
                      c->change.new_tenant != NULL;

        system_audit(
            w, &(struct system_event){.event = *event,
                                      .tenant_id = branch ? NULL : place->in_id,
                                      .workspace_id = tenant   ? NULL
                                                      : branch ? place->in_id
                                                               : place->id,
                                      .branch_id = branch ? place->id : NULL});
    }
}

static enum people_outcome add(struct people *p, void *state)
{
    struct places *c = state;

    return people_place_add(p, c->kind, &c->change, &c->place);
}

static void answer_added(struct worker *w, const void *state)
{
    const struct places *c = state;
    struct jsonw json;

    system_created(w, &json, words[c->kind].added, NULL, "/api/system/%s/%s",
                   words[c->kind].path, c->place.id);
    system_members(&json, people_place_changed[c->kind], &c->place);
    jsonw_object_end(&json);
}

/* A workspace is of a tenant that exists, or of a new one. */
static void read_tenant(const struct body *root, struct place_change *change)
{
    bool given = body_uuid(root, "tenantId", BODY_OPTIONAL, &change->in);
    bool named = body_text(root, "newTenant", BODY_OPTIONAL, 1, NAME_MAX_BYTES,
                           &change->new_tenant);

    if (given && named) {
        body_fault(root, "newTenant", (struct fault){.code = FAULT_CONFLICT},
                   "must not be beside tenantId");
    } else if (pj_json_member(root->value, "tenantId") == NULL &&
               pj_json_member(root->value, "newTenant") == NULL) {
        body_fault(root, "tenantId", (struct fault){.code = FAULT_MISSING},
                   "or newTenant is missing");
    }
}

void h_places_add(struct worker *w)
{
    static const char *const known[] = {"workspaceName", "tenantId",
                                        "newTenant", NULL};
    struct places c = {.kind = PLACE_WORKSPACE};
    struct body root;

    if (!system_caller(w, "places:write") || !body_read(w, false, &root)) {
        return;
    }
    body_only(&root, known);
    body_text(&root, "workspaceName", BODY_REQUIRED, 1, NAME_MAX_BYTES,
              &c.change.name);
    read_tenant(&root, &c.change);
    if (auth_faultless(w) && system_change(w, false, add, answer_added, &c)) {
        audit(w, &c);
    }
}

void h_places_branch_add(struct worker *w)
{
    static const char *const known[] = {"branchName", NULL};
    struct places c = {.kind = PLACE_BRANCH};
    struct body root;

    if (!system_caller(w, "places:write") ||
        !system_path_id(w, 0, &c.change.in) || !body_read(w, false, &root)) {
        return;
    }
    body_only(&root, known);
    body_text(&root, "branchName", BODY_REQUIRED, 1, NAME_MAX_BYTES,
              &c.change.name);
    if (auth_faultless(w) && system_change(w, false, add, answer_added, &c)) {
        audit(w, &c);
    }
}

static enum people_outcome change(struct people *p, void *state)
{
    struct places *c = state;

    return people_place_change(p, c->kind, &c->change, &c->place);
}

static void answer_changed(struct worker *w, const void *state)
{
    const struct places *c = state;
    struct jsonw json;

    system_success(w, &json, words[c->kind].changed);
    system_members(&json, people_place_changed[c->kind], &c->place);
    jsonw_object_end(&json);
}

static void change_place(struct worker *w, enum place_kind kind)
{
    const char *const known[] = {words[kind].name, "status", NULL};
    struct places c = {.kind = kind};
    struct body root;

    if (!system_caller(w, "places:write") ||
        !system_path_id(w, 0, &c.change.place) || !body_read(w, false, &root)) {
        return;
    }
    body_only(&root, known);
    body_text(&root, words[kind].name, BODY_OPTIONAL, 1, NAME_MAX_BYTES,
              &c.change.name);
    body_word(&root, "status", BODY_OPTIONAL, statuses, &c.change.status);
    if (auth_faultless(w) &&
        system_change(w, false, change, answer_changed, &c)) {
        audit(w, &c);
    }
}

void h_places_change(struct worker *w)
{
    change_place(w, PLACE_WORKSPACE);
}

void h_places_branch_change(struct worker *w)
{
    change_place(w, PLACE_BRANCH);
}
