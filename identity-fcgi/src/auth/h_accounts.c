/* /api/system/accounts, /api/system/accounts/{id}: finding, adding and changing
 * accounts */

#include "auth/handlers.h"

#include "auth/body.h"
#include "auth/password.h"
#include "auth/system_change.h"
#include "people/people_account.h"

#include <openssl/crypto.h>
#include <stdio.h>
#include <string.h>

#define MOST 10000 /* elements of an array; the database has its own limits */

/* -- the list -- */

struct list {
    struct account_query query;
    struct people_rows page;
};

static bool read_query(struct worker *w, struct account_query *q)
{
    static const char *const known[] = {
        "name", "type", "status", "workspaceId", "limit", "after", NULL};
    static const char *const types[] = {"CUSTOMER", "OPERATOR", "SYSTEM", NULL};
    static const char *const statuses[] = {"ACTIVE", "DISABLED", "DELETED",
                                           NULL};
    struct form query;

    q->limit = PEOPLE_PAGE;
    return system_query(w, known, &query) &&
           system_text(w, &query, "name", &q->name) &&
           system_word(w, &query, "type", types, &q->type) &&
           system_word(w, &query, "status", statuses, &q->status) &&
           system_uuid(w, &query, "workspaceId", &q->workspace_id) &&
           system_number(w, &query, "limit", PEOPLE_PAGE_MAX, &q->limit) &&
           system_text(w, &query, "after", &q->after);
}

static enum people_outcome list(struct people *p, void *state)
{
    struct list *l = state;

    return people_account_list(p, &l->query, &l->page);
}

static void answer_list(struct worker *w, const void *state)
{
    const struct list *l = state;
    struct jsonw json;

    system_success(w, &json, "These are the accounts.");
    system_list(w, &json, "accounts", people_account_members, &l->page,
                people_account_cursor);
    jsonw_object_end(&json);
}

void h_accounts(struct worker *w)
{
    struct list l = {.query = {.name = NULL}};

    if (system_caller(w, "people:read") && read_query(w, &l.query)) {
        (void) system_read(w, list, answer_list, &l);
    }
}

/* -- one -- */

struct one {
    const char *id;
    struct account_whole account;
};

static enum people_outcome read_one(struct people *p, void *state)
{
    struct one *one = state;

    return people_account_read(p, one->id, &one->account);
}

static void answer_one(struct worker *w, const void *state)
{
    const struct one *one = state;
    struct jsonw json;

    system_success(w, &json, "This is the account.");
    system_members(&json, people_account_whole_members, &one->account);
    jsonw_object_end(&json);
}

void h_accounts_read(struct worker *w)
{
    struct one one = {.id = NULL};
    struct form query;

    if (system_caller(w, "people:read") && system_path_id(w, 0, &one.id) &&
        system_query(w, (const char *const[]){NULL}, &query)) {
        (void) system_read(w, read_one, answer_one, &one);
    }
}

/* -- names -- */

static const char *copy_name(struct worker *w, pj_str_t name)
{
    char *copy = pj_arena_alloc(&w->arena, name.len + 1);

    if (copy == NULL) {
        w->faults.no_memory = true;
        return NULL;
    }
    memcpy(copy, name.data, name.len);
    copy[name.len] = '\0';
    return copy;
}

/* -- adding -- */

struct add {
    struct account_new given;
    struct account_item account;
    pj_str_t credential; /* data is NULL without one */
    const char *hash;
    char phc[PASSWORD_PHC_MAX];
};

static void copy_roles(const struct body *grant, struct jsonw *line)
{
    struct body roles, role;
    pj_str_t code;

    if (body_array(grant, "roles", BODY_NULLABLE, MOST, &roles)) {
        jsonw_array(line, "roles");
        while (body_next(&roles, &role)) {
            if (body_string(&role, NULL, BODY_REQUIRED, 1, 32, &code)) {
                jsonw_string(line, NULL, code.data, code.len);
            }
        }
        jsonw_array_end(line);
    }
}

/* An element of memberships or grants: the place that it names. */
static bool copy_place(struct body *element, const char *place,
                       const char *more, struct jsonw *line)
{
    pj_str_t ref;

    if (!body_object(element, NULL, BODY_REQUIRED, element)) {
        return false;
    }
    body_only(element, (const char *const[]){place, more, NULL});
    jsonw_object(line, NULL);
    if (body_string(element, place, BODY_REQUIRED, 1, 200, &ref)) {
        jsonw_string(line, place, ref.data, ref.len);
    }
    return true;
}

static void copy_memberships(const struct body *root, struct jsonw *line)
{
    struct body memberships, membership, grants, grant;

    if (!body_array(root, "memberships", BODY_NULLABLE, MOST, &memberships)) {
        return;
    }
    jsonw_array(line, "memberships");
    while (body_next(&memberships, &membership)) {
        if (!copy_place(&membership, "workspace", "grants", line)) {
            continue;
        }
        if (body_array(&membership, "grants", BODY_NULLABLE, MOST, &grants)) {
            jsonw_array(line, "grants");
            while (body_next(&grants, &grant)) {
                if (copy_place(&grant, "branch", "roles", line)) {
                    copy_roles(&grant, line);
                    jsonw_object_end(line);
                }
            }
            jsonw_array_end(line);
        }
        jsonw_object_end(line);
    }
    jsonw_array_end(line);
}

/* Writes the line for the import.  JSON may be longer when it is written than
 * when it was read. */
static bool copy_line(struct worker *w, const struct body *root,
                      struct account_new *given)
{
    size_t cap = 6 * w->req->body.len + 128;
    char *mem = pj_arena_alloc(&w->arena, cap);
    struct jsonw line;
    struct buf out;

    if (mem == NULL) {
        return auth_failed(w, "the request needs too much memory");
    }
    buf_init(&out, mem, cap);
    jsonw_init(&line, &out);
    jsonw_object(&line, NULL);
    jsonw_cstr(&line, "type", given->type);
    copy_memberships(root, &line);
    jsonw_object_end(&line);
    buf_addc(&out, '\0');
    given->line = mem;
    return !out.overflow || auth_failed(w, "a line does not fit its buffer");
}

static void read_hash(const struct body *root, struct add *a)
{
    const char *wrong;
    struct stored stored;
    char rule[128];

    if (!body_text(root, "credentialHash", BODY_NULLABLE, 1,
                   PASSWORD_STORED_MAX, &a->hash)) {
        return;
    }
    wrong = password_parse(a->hash, &stored);
    if (wrong != NULL) {
        snprintf(rule, sizeof(rule), "is refused: %s", wrong);
        body_fault(root, "credentialHash",
                   (struct fault){.code = FAULT_NOT_ALLOWED}, rule);
    }
    if (a->credential.data != NULL) {
        body_fault(root, "credentialHash",
                   (struct fault){.code = FAULT_CONFLICT},
                   "and credential exclude each other");
    }
}

static bool read_new(struct worker *w, struct add *a)
{
    static const char *const known[] = {
        "account", "type", "credential", "credentialHash", "memberships", NULL};
    static const char *const types[] = {"CUSTOMER", "OPERATOR", NULL};
    struct body root;
    pj_str_t name;

    a->given.type = types[0];
    if (!body_read(w, false, &root)) {
        return false;
    }
    body_only(&root, known);
    if (body_account(&root, "account", BODY_REQUIRED, &name)) {
        a->given.name = copy_name(w, name);
    }
    body_word(&root, "type", BODY_NULLABLE, types, &a->given.type);
    body_credential(&root, "credential", BODY_NULLABLE, &a->credential);
    read_hash(&root, a);
    return copy_line(w, &root, &a->given) && auth_faultless(w);
}

/* The hash that the account gets. */
static bool hash_new(struct worker *w, struct add *a)
{
    a->given.hash = password_nobody();
    if (a->hash != NULL) {
        a->given.hash = a->hash;
        return system_scope(w, "credentials:write");
    }
    if (a->credential.data == NULL) {
        return true;
    }
    a->given.hash = a->phc;
    return auth_credential_allowed(w, "/credential", a->credential) &&
           (password_hash(a->credential, w->store.deadline_ms, a->phc) ||
            auth_busy(w));
}

static enum people_outcome add(struct people *p, void *state)
{
    struct add *a = state;

    return people_account_add(p, &a->given, &a->account);
}

static void answer_add(struct worker *w, const void *state)
{
    const struct add *a = state;
    struct jsonw json;

    system_created(w, &json, "The account was added.", a->account.account_id,
                   "/api/system/accounts/%s", a->account.account_id);
    system_members(&json, people_account_members, &a->account);
    jsonw_object_end(&json);
}

void h_accounts_add(struct worker *w)
{
    struct add a = {.hash = NULL};

    if (system_caller(w, "people:write") && read_new(w, &a) &&
        hash_new(w, &a) && system_change(w, false, add, answer_add, &a)) {
        system_audit(
            w, &(struct system_event){.event = "account.added",
                                      .account_id = a.account.account_id});
    }
    OPENSSL_cleanse(a.phc, sizeof(a.phc));
}

/* -- changing -- */

static bool read_change(struct worker *w, struct account_change *c)
{
    static const char *const statuses[] = {"ACTIVE", "DISABLED", NULL};
    struct body root;
    pj_str_t name;

    if (!body_read(w, false, &root)) {
        return false;
    }
    body_only(&root, (const char *const[]){"account", "status", NULL});
    if (body_account(&root, "account", BODY_OPTIONAL, &name)) {
        c->name = copy_name(w, name);
    }
    body_word(&root, "status", BODY_OPTIONAL, statuses, &c->status);
    return auth_faultless(w);
}

static enum people_outcome change(struct people *p, void *state)
{
    return people_account_change(p, state);
}

static void answer_change(struct worker *w, const void *state)
{
    struct jsonw json;

    system_success(w, &json, "The account is as it was asked to be.");
    system_members(&json, people_account_change_members, state);
    jsonw_object_end(&json);
}

static void finish_change(struct worker *w, const struct account_change *c)
{
    for (const char *const *event = c->events; *event != NULL; event++) {
        system_audit(
            w, &(struct system_event){.event = *event,
                                      .account_id = c->account.account_id});
    }
    if (c->status != NULL && strcmp(c->status, "DISABLED") == 0) {
        (void) system_change_mark(w, c->account.account_id, answer_change, c);
    }
}

void h_accounts_change(struct worker *w)
{
    struct account_change c = {.name = NULL};

    if (system_caller(w, "people:write") && system_path_id(w, 0, &c.ref) &&
        read_change(w, &c) &&
        system_change(w, false, change, answer_change, &c)) {
        finish_change(w, &c);
    }
}
