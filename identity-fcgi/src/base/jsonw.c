/* A JSON writer that cannot emit anything but valid JSON. */

#include "base/jsonw.h"

#include <string.h>

void jsonw_init(struct jsonw *w, struct buf *out)
{
    w->out = out;
    w->depth = 0;
    memset(w->need_comma, 0, sizeof(w->need_comma));
}

/*
 * Length of the well-formed UTF-8 sequence at p (Unicode table 3-7), or 0:
 * overlong forms, surrogates and values past U+10FFFF are no sequences.
 */
static size_t utf8_sequence(const unsigned char *p, size_t left)
{
    unsigned char lo = 0x80, hi = 0xbf;
    size_t n;

    if (p[0] < 0x80) {
        return 1;
    }
    if (p[0] >= 0xc2 && p[0] <= 0xdf) {
        n = 2;
    } else if ((p[0] & 0xf0) == 0xe0) {
        n = 3;
        lo = p[0] == 0xe0 ? 0xa0 : lo;
        hi = p[0] == 0xed ? 0x9f : hi;
    } else if (p[0] >= 0xf0 && p[0] <= 0xf4) {
        n = 4;
        lo = p[0] == 0xf0 ? 0x90 : lo;
        hi = p[0] == 0xf4 ? 0x8f : hi;
    } else {
        return 0;
    }
    if (left < n || p[1] < lo || p[1] > hi) {
        return 0;
    }
    for (size_t i = 2; i < n; i++) {
        if ((p[i] & 0xc0) != 0x80) {
            return 0;
        }
    }
    return n;
}

static void add_escaped(struct buf *out, unsigned char c)
{
    static const char hex[] = "0123456789abcdef";

    switch (c) {
    case '"':
        buf_addz(out, "\\\"");
        return;
    case '\\':
        buf_addz(out, "\\\\");
        return;
    case '\n':
        buf_addz(out, "\\n");
        return;
    case '\r':
        buf_addz(out, "\\r");
        return;
    case '\t':
        buf_addz(out, "\\t");
        return;
    default:
        buf_addz(out, "\\u00");
        buf_addc(out, hex[c >> 4]);
        buf_addc(out, hex[c & 15]);
    }
}

static bool is_plain(unsigned char c)
{
    return c >= 0x20 && c < 0x7f && c != '"' && c != '\\';
}

/* Whether eight bytes are all plain: each term sets the top bit of one that is
 * not, and at most of others above it. */
static bool are_plain(const unsigned char *p)
{
    const uint64_t ones = 0x0101010101010101u;
    uint64_t x, quote, backslash;

    memcpy(&x, p, sizeof(x));
    quote = (x ^ ones * '"') - ones;
    backslash = (x ^ ones * '\\') - ones;
    return ((x | (x - ones * 0x20) | (x + ones) | quote | backslash) &
            ones * 0x80) == 0;
}

static const unsigned char *skip_plain(const unsigned char *p,
                                       const unsigned char *end)
{
    while (end - p >= 8 && are_plain(p)) {
        p += 8;
    }
    while (p < end && is_plain(*p)) {
        p++;
    }
    return p;
}

/* Nearly every string there is. */
static void add_quoted_plain(struct buf *out, const void *s, size_t len)
{
    char *to = buf_take(out, len + 2);

    if (to != NULL) {
        to[0] = '"';
        if (len != 0) {
            memcpy(to + 1, s, len);
        }
        to[len + 1] = '"';
    }
}

static void add_quoted(struct buf *out, const void *s, size_t len)
{
    const unsigned char *p = s;
    const unsigned char *end = p + len;
    const unsigned char *run = p;

    p = skip_plain(p, end);
    if (p == end) {
        add_quoted_plain(out, s, len);
        return;
    }
    buf_addc(out, '"');
    while (p < end) {
        size_t n = utf8_sequence(p, (size_t) (end - p));

        buf_add(out, run, (size_t) (p - run));
        if (n == 0) {
            buf_addz(out, "\xef\xbf\xbd"); /* U+FFFD */
            n = 1;
        } else if (n == 1) {
            add_escaped(out, *p);
        } else {
            buf_add(out, p, n);
        }
        run = p + n;
        p = skip_plain(run, end);
    }
    buf_add(out, run, (size_t) (end - run));
    buf_addc(out, '"');
}

/* The comma and the name that stand before a value.  Names are the program's
 * own and need no escaping. */
static void before_value(struct jsonw *w, const char *name)
{
    size_t comma = w->need_comma[w->depth];
    size_t len = name != NULL ? strlen(name) : 0;
    char *to = buf_take(w->out, comma + (name != NULL ? len + 3 : 0));

    w->need_comma[w->depth] = true;
    if (to == NULL) {
        return;
    }
    if (comma) {
        *to++ = ',';
    }
    if (name != NULL) {
        *to = '"';
        memcpy(to + 1, name, len);
        memcpy(to + 1 + len, "\":", 2);
    }
}

static void open_value(struct jsonw *w, const char *name, char c)
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

static void close_value(struct jsonw *w, char c)
{
    if (w->depth == 0) {
        w->out->overflow = true;
        return;
    }
    w->depth--;
    buf_addc(w->out, c);
}

void jsonw_object(struct jsonw *w, const char *name)
{
    open_value(w, name, '{');
}

void jsonw_object_end(struct jsonw *w)
{
    close_value(w, '}');
}

void jsonw_array(struct jsonw *w, const char *name)
{
    open_value(w, name, '[');
}

void jsonw_array_end(struct jsonw *w)
{
    close_value(w, ']');
}

void jsonw_string(struct jsonw *w, const char *name, const void *s, size_t len)
{
    before_value(w, name);
    add_quoted(w->out, s, len);
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

void jsonw_bool(struct jsonw *w, const char *name, bool v)
{
    before_value(w, name);
    buf_addz(w->out, v ? "true" : "false");
}

void jsonw_null(struct jsonw *w, const char *name)
{
    before_value(w, name);
    buf_addz(w->out, "null");
}

void jsonw_json(struct jsonw *w, const char *name, const char *json,
                size_t len)
{
    before_value(w, name);
    buf_add(w->out, json, len);
}
