/* What the calls of programs share: callers, queries, changes, answers. */

#include "auth/system.h"

#include "base/log.h"
#include "base/parse.h"
#include "base/uuid.h"
#include "store/store.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <web.h>

#define ROOM 65536 /* bytes of an answer for the largest item and the end */

/* -- callers -- */

static bool has_word(pj_str_t words, const char *word)
{
    while (words.len > 0) {
        if (pj_str_eq(web_split(words, ' ', &words), pj_str(word))) {
            return true;
        }
    }
    return false;
}

static bool refuse_scope(struct worker *w, const char *scope)
{
    char challenge[128];

    snprintf(challenge, sizeof(challenge),
             "Bearer realm=\"platform\", error=\"insufficient_scope\", "
             "scope=\"%s\"",
             scope);
    http_problem(w->res, w->req, 403, "AUTH_SCOPE_REQUIRED",
                 "The token lacks a scope that this call needs.", NULL);
    http_header(w->res, "WWW-Authenticate", challenge);
    return false;
}

bool system_caller(struct worker *w, const char *scope)
{
    char name[ACCOUNT_NAME_MAX + 1], id[STORE_UUID];
    struct account account;
    enum store_result result;
    pj_claims_t claims;

    if (w->cfg->system_api == SYSTEM_API_OFF) {
        return auth_refuse(w, 404, "RESOURCE_NOT_FOUND",
                           "Nothing is served at this path.");
    }
    if (!auth_caller(w, AUTH_CALLER_SYSTEM, &claims)) {
        return false;
    }
    snprintf(id, sizeof(id), "%.*s", (int) claims.account_id.len,
             (const char *) claims.account_id.data);
    result = store_account_read(&w->store, id, name, &account);
    if (!auth_answered(w, result)) {
        return false;
    }
    auth_set_ids(w, id, "");
    if (result != STORE_OK || !account.enabled ||
        claims.iat <= account.clock.valid_after_us / 1000000) {
        return auth_refuse_token(w, AUTH_NOT_ACTIVE);
    }
    w->scopes = pj_json_string(claims.root, "scope");
    w->may = has_word(w->scopes, "operators:write")
                 ? PEOPLE_CUSTOMER | PEOPLE_OPERATOR
                 : PEOPLE_CUSTOMER;
    w->jti = claims.jti;
    auth_actor(w, id, &claims.jti, NULL, NULL);
    return system_scope(w, scope);
}

bool system_scope(struct worker *w, const char *scope)
{
    return has_word(w->scopes, scope) || refuse_scope(w, scope);
}

/* -- queries -- */

#define NAME_MAX_BYTES 64 /* of a parameter's name in a fault */

static void add_unknown(struct worker *w, pj_str_t name)
{
    char text[NAME_MAX_BYTES + 1] = "";

    if (name.len <= NAME_MAX_BYTES) {
        snprintf(text, sizeof(text), "%.*s", (int) name.len,
                 (const char *) name.data);
    }
    auth_fault(w, (struct fault){.code = FAULT_UNKNOWN, .parameter = text},
               "The query has an unknown parameter.");
}

bool system_query(struct worker *w, const char *const *known,
                  struct form *query)
{
    const char *fault = form_parse(query, &w->arena, w->req->query);

    if (fault != NULL) {
        return auth_invalid(
            w, (struct fault){.code = FAULT_MALFORMED, .parameter = ""},
            "The query %s.", fault);
    }
    for (size_t i = 0; i < query->count; i++) {
        pj_str_t name = query->parameters[i].name;
        size_t n = 0;

        while (known[n] != NULL && !pj_str_eq(name, pj_str(known[n]))) {
            n++;
        }
        if (known[n] == NULL) {
            add_unknown(w, name);
        }
    }
    return true;
}

bool system_text(struct worker *w, const struct form *query, const char *name,
                 const char **out)
{
    pj_str_t value = form_get(query, name);
    char *copy = pj_arena_alloc(&w->arena, value.len + 1);

    *out = NULL;
    if (copy == NULL) {
        return auth_failed(w, "the request needs too much memory");
    }
    if (value.len > 0) {
        memcpy(copy, value.data, value.len);
        copy[value.len] = '\0';
        *out = copy;
    }
    return true;
}

bool system_uuid(struct worker *w, const struct form *query, const char *name,
                 const char **out)
{
    unsigned char bytes[UUID_BYTES];

    if (!system_text(w, query, name, out)) {
        return false;
    }
    if (*out != NULL && !uuid_parse(bytes, pj_str(*out))) {
        auth_fault(w,
                   (struct fault){.code = FAULT_MALFORMED, .parameter = name},
                   "The parameter %s must be a UUID.", name);
    }
    return true;
}

bool system_word(struct worker *w, const struct form *query, const char *name,
                 const char *const *words, const char **out)
{
    if (!system_text(w, query, name, out)) {
        return false;
    }
    while (*out != NULL && *words != NULL && strcmp(*words, *out) != 0) {
        words++;
    }
    if (*out != NULL && *words == NULL) {
        auth_fault(w,
                   (struct fault){.code = FAULT_NOT_ALLOWED, .parameter = name},
                   "The parameter %s has an unknown value.", name);
    }
    return true;
}

bool system_number(struct worker *w, const struct form *query, const char *name,
                   int64_t most, int64_t *out)
{
    const char *text;

    if (!system_text(w, query, name, &text)) {
        return false;
    }
    if (text == NULL) {
        return true;
    }
    *out =
        parse_form(text, "[1-9][0-9]{0,17}", 0) ? strtoll(text, NULL, 10) : 0;
    if (*out < 1 || *out > most) {
        auth_fault(w,
                   (struct fault){.code = FAULT_OUT_OF_RANGE,
                                  .parameter = name,
                                  .minimum = 1,
                                  .maximum = most},
                   "The parameter %s must be 1 to %lld.", name,
                   (long long) most);
    }
    return true;
}

bool system_time(struct worker *w, const struct form *query, const char *name,
                 int64_t *out_us)
{
    const char *text;
    int64_t s = 0;

    if (!system_text(w, query, name, &text)) {
        return false;
    }
    if (text != NULL && !parse_time(text, &s)) {
        auth_fault(w,
                   (struct fault){.code = FAULT_MALFORMED, .parameter = name},
                   "The parameter %s must be a time in UTC, like "
                   "2026-11-21T10:15:00Z.",
                   name);
    }
    *out_us = s * 1000000;
    return true;
}

/* -- reading and changing -- */

bool system_path_id(struct worker *w, size_t n, const char **out)
{
    unsigned char bytes[UUID_BYTES];
    char *copy = pj_arena_alloc(&w->arena, STORE_UUID);

    *out = copy;
    if (copy == NULL) {
        return auth_failed(w, "the request needs too much memory");
    }
    if (!uuid_parse(bytes, w->path_ids[n])) {
        return auth_refuse(w, 404, "RESOURCE_NOT_FOUND",
                           "There is nothing with this id.");
    }
    uuid_write(copy, bytes);
    return true;
}

/* The member of the body or parameter of the query that was refused. */
static void add_refused(struct worker *w, const char *field, const char *line)
{
    struct fault fault = {.code = FAULT_NOT_ALLOWED};
    char pointer[64] = "";

    if (w->req->body.len == 0) {
        fault.parameter = field != NULL ? field : "";
    } else {
        if (field != NULL) {
            snprintf(pointer, sizeof(pointer), "/%s", field);
        }
        fault.pointer = pointer;
    }
    auth_fault(w, fault, "%s", line);
}

bool system_refuse(struct worker *w, const struct people *p,
                   enum people_outcome outcome)
{
    static const struct {
        int status;
        const char *code;
    } answers[] = {
        [PEOPLE_INVALID] = {400, "REQUEST_INVALID"},
        [PEOPLE_NOT_FOUND] = {404, "RESOURCE_NOT_FOUND"},
        [PEOPLE_EXISTS] = {409, "RESOURCE_EXISTS"},
        [PEOPLE_LIMIT] = {409, "RESOURCE_LIMIT_REACHED"},
        [PEOPLE_CONFLICT] = {409, "RESOURCE_CONFLICT"},
    };
    char detail[PEOPLE_LINE + 2];

    if (outcome == PEOPLE_FAILED) {
        return auth_database_unavailable(w);
    }
    if (outcome == PEOPLE_NOT_ALLOWED) {
        return refuse_scope(w, "operators:write");
    }
    snprintf(detail, sizeof(detail), "%s.", p->line);
    if (detail[0] >= 'a' && detail[0] <= 'z') {
        detail[0] = (char) (detail[0] - 'a' + 'A');
    }
    if (outcome == PEOPLE_INVALID) {
        add_refused(w, p->field, detail);
    }
    return auth_refuse(w, answers[outcome].status, answers[outcome].code,
                       detail);
}

bool system_read(struct worker *w, system_work_fn *work,
                 system_answer_fn *answer, void *state)
{
    struct people p = {.store = &w->store, .arena = &w->arena, .may = w->may};
    enum people_outcome outcome;

    if (!auth_faultless(w)) {
        return false;
    }
    outcome = work(&p, state);
    if (outcome != PEOPLE_DONE) {
        return system_refuse(w, &p, outcome);
    }
    answer(w, state);
    return true;
}

void system_audit(struct worker *w, const struct system_event *event)
{
    log_event(LOG_AUDIT_, event->event, NULL,
              LOG_FIELDS(log_text("clientIp", w->req->remote_addr.data),
                         log_text("accountId", event->account_id),
                         log_text("sessionId", event->session_id),
                         log_text("tenantId", event->tenant_id),
                         log_text("workspaceId", event->workspace_id),
                         log_text("branchId", event->branch_id),
                         log_text("memberId", event->member_id),
                         log_text("roles", event->roles),
                         log_text("byAccountId", w->res->account_id)));
}

/* -- answers -- */

static void add_list(struct jsonw *json, const char *name, const char *list)
{
    pj_str_t rest = pj_str(list != NULL ? list : "");

    jsonw_array(json, name);
    while (rest.len > 0) {
        pj_str_t element = web_split(rest, ',', &rest);

        jsonw_string(json, NULL, element.data, element.len);
    }
    jsonw_array_end(json);
}

static void add_rows(struct jsonw *json, const struct people_member *m,
                     const struct people_rows *rows)
{
    jsonw_array(json, m->name);
    for (size_t i = 0; i < rows->count; i++) {
        system_item(json, NULL, m->of,
                    (const char *) rows->items + i * rows->size);
    }
    jsonw_array_end(json);
}

static void add_text(struct jsonw *json, const char *name, const char *text)
{
    if (text != NULL) {
        jsonw_cstr(json, name, text);
    } else {
        jsonw_null(json, name);
    }
}

void system_members(struct jsonw *json, const struct people_member *m,
                    const void *item)
{
    for (; m->name != NULL; m++) {
        const void *field = (const char *) item + m->offset;

        switch (m->type) {
        case PEOPLE_NUMBER:
            jsonw_int(json, m->name, *(const int64_t *) field);
            break;
        case PEOPLE_BOOL:
            jsonw_bool(json, m->name, *(const bool *) field);
            break;
        case PEOPLE_TIME:
            jsonw_time(json, m->name, *(const int64_t *) field);
            break;
        case PEOPLE_LIST:
            add_list(json, m->name, *(const char *const *) field);
            break;
        case PEOPLE_ROWS:
            add_rows(json, m, field);
            break;
        default:
            add_text(json, m->name, *(const char *const *) field);
        }
    }
}

void system_item(struct jsonw *json, const char *name,
                 const struct people_member *members, const void *item)
{
    jsonw_object(json, name);
    system_members(json, members, item);
    jsonw_object_end(json);
}

void system_list(struct worker *w, struct jsonw *json, const char *name,
                 const struct people_member *members,
                 const struct people_rows *rows,
                 const char *(*cursor)(struct people *p, const void *item))
{
    struct people p = {.arena = &w->arena};
    const char *items = rows->items, *next = NULL;
    size_t n = 0;

    jsonw_array(json, name);
    while (n < rows->count && w->res->body.cap - w->res->body.len > ROOM) {
        system_item(json, NULL, members, items + n++ * rows->size);
    }
    jsonw_array_end(json);
    if (n > 0 && (rows->more || n < rows->count)) {
        next = cursor(&p, items + (n - 1) * rows->size);
        w->res->body.overflow |= next == NULL;
    }
    add_text(json, "next", next);
}

void system_success(struct worker *w, struct jsonw *json, const char *message)
{
    auth_success(w, json, "SYSTEM_SUCCESS", message);
}

void system_created(struct worker *w, struct jsonw *json, const char *message,
                    const char *account_id, const char *location, ...)
{
    va_list args;

    va_start(args, location);
    vsnprintf(w->location, sizeof(w->location), location, args);
    va_end(args);
    w->subject_id = account_id;
    auth_success(w, json, "SYSTEM_SUCCESS", message);
    w->res->status = 201;
    http_header(w->res, "Location", w->location);
}
