/* GET /api/system/audit: what programs may see and do of people and places */

#include "auth/handlers.h"

#include "base/form.h"
#include "base/parse.h"
#include "base/uuid.h"
#include "people/people_audit.h"
#include "store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <web.h>

#define ROOM 8192 /* bytes of an answer for the largest item and the end */

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
                 "The token lacks a scope that this call needs.");
    http_header(w->res, "WWW-Authenticate", challenge);
    return false;
}

/* Accepts a system token with this scope, of an account that is enabled and was
 * not locked out since the token was issued. */
static bool may(struct worker *w, const char *scope)
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
    return has_word(pj_json_string(claims.root, "scope"), scope) ||
           refuse_scope(w, scope);
}

/* -- queries -- */

static bool read_query(struct worker *w, const char *const *known,
                       struct form *query)
{
    const char *fault = form_parse(query, &w->arena, w->req->query);

    if (fault != NULL) {
        return auth_invalid(w, "The query %s.", fault);
    }
    for (size_t i = 0; i < query->count; i++) {
        size_t n = 0;

        while (known[n] != NULL &&
               !pj_str_eq(query->parameters[i].name, pj_str(known[n]))) {
            n++;
        }
        if (known[n] == NULL) {
            return auth_invalid(w, "The query has an unknown parameter.");
        }
    }
    return true;
}

/* Copies a parameter; *out is NULL if it is missing. */
static bool text_of(struct worker *w, const struct form *query,
                    const char *name, const char **out)
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

static bool id_of(struct worker *w, const struct form *query, const char *name,
                  const char **out)
{
    unsigned char bytes[UUID_BYTES];

    return text_of(w, query, name, out) &&
           (*out == NULL || uuid_parse(bytes, pj_str(*out)) ||
            auth_invalid(w, "The parameter %s must be a UUID.", name));
}

static bool number_of(struct worker *w, const struct form *query,
                      const char *name, int64_t most, int64_t *out)
{
    const char *text;

    if (!text_of(w, query, name, &text)) {
        return false;
    }
    if (text == NULL) {
        return true;
    }
    *out =
        parse_form(text, "[1-9][0-9]{0,17}", 0) ? strtoll(text, NULL, 10) : 0;
    return (*out >= 1 && *out <= most) ||
           auth_invalid(w, "The parameter %s must be 1 to %lld.", name,
                        (long long) most);
}

static bool time_of(struct worker *w, const struct form *query,
                    const char *name, int64_t *out_us)
{
    const char *text;
    int64_t s = 0;

    if (!text_of(w, query, name, &text)) {
        return false;
    }
    if (text != NULL && !parse_time(text, &s)) {
        return auth_invalid(w,
                            "The parameter %s must be a time in UTC, like "
                            "2026-11-21T10:15:00Z.",
                            name);
    }
    *out_us = s * 1000000;
    return true;
}

/* -- answers -- */

static void add_time(struct jsonw *json, const char *name, int64_t us)
{
    char text[sizeof("2026-11-21T10:15:00Z")];
    time_t s = (time_t) (us / 1000000);
    struct tm tm;

    if (gmtime_r(&s, &tm) == NULL ||
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) == 0) {
        jsonw_null(json, name);
    } else {
        jsonw_cstr(json, name, text);
    }
}

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

static void add_item(struct jsonw *json, const struct people_member *m,
                     const void *item)
{
    jsonw_object(json, NULL);
    for (; m->name != NULL; m++) {
        const void *field = (const char *) item + m->offset;
        const char *text = NULL;
        int64_t n;

        switch (m->type) {
        case PEOPLE_NUMBER:
            memcpy(&n, field, sizeof(n));
            jsonw_int(json, m->name, n);
            break;
        case PEOPLE_TIME:
            memcpy(&n, field, sizeof(n));
            add_time(json, m->name, n);
            break;
        case PEOPLE_LIST:
            memcpy(&text, field, sizeof(text));
            add_list(json, m->name, text);
            break;
        default:
            memcpy(&text, field, sizeof(text));
            if (text != NULL) {
                jsonw_cstr(json, m->name, text);
            } else {
                jsonw_null(json, m->name);
            }
        }
    }
    jsonw_object_end(json);
}

/* -- the audit -- */

static bool read_audit_query(struct worker *w, struct audit_query *q)
{
    static const char *const known[] = {"accountId", "event", "since", "until",
                                        "limit",     "after", NULL};
    struct form query;

    q->limit = PEOPLE_PAGE;
    return read_query(w, known, &query) &&
           id_of(w, &query, "accountId", &q->account_id) &&
           text_of(w, &query, "event", &q->event) &&
           time_of(w, &query, "since", &q->since_us) &&
           time_of(w, &query, "until", &q->until_us) &&
           number_of(w, &query, "limit", PEOPLE_PAGE_MAX, &q->limit) &&
           number_of(w, &query, "after", INT64_MAX, &q->after);
}

void h_system_audit(struct worker *w)
{
    struct audit_query query = {.after = 0};
    struct audit_page page;
    enum store_result result;
    struct jsonw json;
    size_t n = 0;

    if (!may(w, "audit:read") || !read_audit_query(w, &query)) {
        return;
    }
    result = people_audit_list(&w->store, &w->arena, &query, &page);
    if (result == STORE_NONE) {
        (void) auth_invalid(w,
                            "The parameter after is not the id of an event.");
        return;
    }
    if (result != STORE_OK) {
        (void) auth_database_unavailable(w);
        return;
    }
    auth_success(w, &json, "SYSTEM_SUCCESS", "These are the events.");
    jsonw_array(&json, "events");
    while (n < page.count && w->res->body.cap - w->res->body.len > ROOM) {
        add_item(&json, people_audit_members, &page.events[n++]);
    }
    jsonw_array_end(&json);
    if (page.more || n < page.count) {
        jsonw_int(&json, "next", page.events[n - 1].event_id);
    } else {
        jsonw_null(&json, "next");
    }
    jsonw_object_end(&json);
}
