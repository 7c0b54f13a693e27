/* A JSON writer; its output is valid unless it overflows. */

#include "base/jsonw.h"

#include <pj.h>
#include <string.h>
#include <time.h>

void jsonw_init(struct jsonw *w, struct buf *out)
{
    *w = (struct jsonw){.out = out};
}

static void before_value(struct jsonw *w, const char *name)
{
    if (w->need_comma[w->depth]) {
        buf_addc(w->out, ',');
    }
    w->need_comma[w->depth] = true;
    if (name != NULL) {
        buf_addc(w->out, '"');
        buf_addz(w->out, name);
        buf_add(w->out, "\":", 2);
    }
}

void jsonw_open(struct jsonw *w, const char *name, char c)
{
    before_value(w, name);
    buf_addc(w->out, c);
    if (w->depth + 1 == JSONW_MAX_DEPTH) {
        w->out->overflow = true;
        return;
    }
    w->depth++;
    w->need_comma[w->depth] = false;
}

void jsonw_close(struct jsonw *w, char c)
{
    if (w->depth == 0) {
        w->out->overflow = true;
        return;
    }
    w->depth--;
    buf_addc(w->out, c);
}

void jsonw_string(struct jsonw *w, const char *name, const void *s, size_t len)
{
    size_t size = pj_json_escape(NULL, (pj_str_t){s, len}) + 2;
    char *to;

    before_value(w, name);
    to = buf_take(w->out, size);
    if (to != NULL) {
        to[0] = to[size - 1] = '"';
        pj_json_escape(to + 1, (pj_str_t){s, len});
    }
}

void jsonw_cstr(struct jsonw *w, const char *name, const char *s)
{
    jsonw_string(w, name, s, strlen(s));
}

void jsonw_int(struct jsonw *w, const char *name, int64_t v)
{
    before_value(w, name);
    buf_addi(w->out, v);
}

void jsonw_json(struct jsonw *w, const char *name, const char *json, size_t len)
{
    before_value(w, name);
    buf_add(w->out, json, len);
}

void jsonw_time(struct jsonw *w, const char *name, int64_t us)
{
    char text[sizeof("2026-11-21T10:15:00Z")];
    time_t s = (time_t) (us / 1000000);
    struct tm tm;

    if (us == 0 || gmtime_r(&s, &tm) == NULL ||
        strftime(text, sizeof(text), "%Y-%m-%dT%H:%M:%SZ", &tm) == 0) {
        jsonw_null(w, name);
    } else {
        jsonw_cstr(w, name, text);
    }
}
