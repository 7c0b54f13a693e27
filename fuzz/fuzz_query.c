/* Reads the query of a list, and its cursor.  The values are as given, within
 * their bounds.  An accepted cursor has just its parts, in UTF-8, and is the
 * same when written again. */

#include "fuzz.h"

#include "auth/system.h"

static unsigned char arena[WORKER_ARENA_BYTES];

static void cursor_check(const char *text)
{
    struct people p = {.line = ""};
    const char *parts[PEOPLE_CURSOR_PARTS];
    pj_arena_t a;

    for (size_t n = 1; n <= PEOPLE_CURSOR_PARTS; n++) {
        bool valid = true;

        pj_arena_init(&a, arena + sizeof(arena) / 2, sizeof(arena) / 2);
        p.arena = &a;
        if (people_cursor_read(&p, text, n, parts) != PEOPLE_DONE) {
            FUZZ_ASSERT(p.line[0] != '\0');
            continue;
        }
        for (size_t i = 0; i < n; i++) {
            const unsigned char *u = (const unsigned char *) parts[i];
            const unsigned char *end = u + strlen(parts[i]);

            while (u < end && valid)
                u += pj_utf8_next(u, end, &valid);
        }
        FUZZ_ASSERT(valid);
        FUZZ_ASSERT(strcmp(people_cursor(&p, parts, n), text) == 0);
    }
}

static void query_check(struct worker *w)
{
    static const char *const known[] = {
        "name", "type", "workspaceId", "limit", "after", "since", NULL};
    static const char *const types[] = {"CUSTOMER", "OPERATOR", NULL};
    const char *name, *type, *id, *after;
    int64_t limit = 100, since_us = 0;
    struct form query;

    if (!system_query(w, known, &query) ||
        !system_text(w, &query, "name", &name) ||
        !system_word(w, &query, "type", types, &type) ||
        !system_uuid(w, &query, "workspaceId", &id) ||
        !system_number(w, &query, "limit", 1000, &limit) ||
        !system_time(w, &query, "since", &since_us) ||
        !system_text(w, &query, "after", &after) || !auth_faultless(w)) {
        FUZZ_ASSERT(w->res->status == 400);
        return;
    }
    FUZZ_ASSERT(w->res->status == 200);
    FUZZ_ASSERT(limit >= 1 && limit <= 1000);
    FUZZ_ASSERT(type == NULL || strcmp(type, types[0]) == 0 ||
                strcmp(type, types[1]) == 0);
    FUZZ_ASSERT(id == NULL || strlen(id) == 36);
    FUZZ_ASSERT(name == NULL || name[0] != '\0');
    if (after != NULL)
        cursor_check(after);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static char head_mem[8192], body_mem[8192];
    static const struct config cfg = {.app_name = NULL};
    pj_str_t query = {data, len};
    struct http_request req = {.method = PJ_STR("GET"),
                               .query = query,
                               .request_id = PJ_STR("r"),
                               .correlation_id = PJ_STR("c")};
    struct http_response res;
    struct worker w = {.cfg = &cfg, .req = &req, .res = &res};
    char *text;

    if (len > HTTP_BODY_MAX)
        return 0;
    pj_arena_init(&w.arena, arena, sizeof(arena) / 2);
    http_response_init(&res, head_mem, sizeof(head_mem), body_mem,
                       sizeof(body_mem));
    query_check(&w);
    text = (char *) fuzz_alloc(len + 1);
    if (len > 0)
        memcpy(text, data, len);
    text[len] = '\0';
    cursor_check(text);
    free(text);
    return 0;
}
