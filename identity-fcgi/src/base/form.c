/* Bodies of HTML forms: application/x-www-form-urlencoded. */

#include "base/form.h"

#include <string.h>
#include <web.h>

static int digit(unsigned char c)
{
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

bool form_decode(pj_arena_t *arena, pj_str_t text, pj_str_t *out)
{
    unsigned char *to = pj_arena_alloc(arena, text.len + 1);
    const unsigned char *p = to;
    bool valid = to != NULL;
    size_t len = 0;

    for (size_t i = 0; valid && i < text.len; i++) {
        unsigned char c = text.data[i];

        if (c == '%') {
            int high = i + 2 < text.len ? digit(text.data[i + 1]) : -1;
            int low = high >= 0 ? digit(text.data[i + 2]) : -1;

            valid = low >= 0;
            c = (unsigned char) (high * 16 + low);
            i += 2;
        } else if (c == '+') {
            c = ' ';
        }
        valid = valid && c != '\0';
        to[len++] = c;
    }
    while (valid && p < to + len) {
        p += pj_utf8_next(p, to + len, &valid);
    }
    *out = (pj_str_t){to, len};
    return valid;
}

pj_str_t form_get(const struct form *form, const char *name)
{
    for (size_t i = 0; i < form->count; i++) {
        if (pj_str_eq(form->parameters[i].name, pj_str(name))) {
            return form->parameters[i].value;
        }
    }
    return (pj_str_t){NULL, 0};
}

static bool has(const struct form *form, pj_str_t name)
{
    size_t i = 0;

    while (i < form->count && !pj_str_eq(form->parameters[i].name, name)) {
        i++;
    }
    return i < form->count;
}

const char *form_parse(struct form *form, pj_arena_t *arena, pj_str_t body)
{
    form->count = 0;
    while (body.len > 0) {
        pj_str_t value, pair = web_split(body, '&', &body);
        struct form_parameter decoded;

        if (!form_decode(arena, web_split(pair, '=', &value), &decoded.name) ||
            !form_decode(arena, value, &decoded.value)) {
            return "is not valid URL-encoded UTF-8";
        }
        if (decoded.value.len == 0) {
            continue;
        }
        if (has(form, decoded.name)) {
            return "has a parameter twice";
        }
        if (form->count == FORM_MAX) {
            return "has too many parameters";
        }
        form->parameters[form->count++] = decoded;
    }
    return NULL;
}
