/* Request ids, cookies and origins, as both halves read them. */

#include "web.h"

#include <string.h>

bool web_begins(pj_str_t s, const char *text)
{
    size_t len = strlen(text);

    return s.len >= len && memcmp(s.data, text, len) == 0;
}

pj_str_t web_trim(pj_str_t s)
{
    while (s.len > 0 && memchr(" \t", s.data[0], 2) != NULL)
        s = web_skip(s, 1);
    while (s.len > 0 && memchr(" \t", s.data[s.len - 1], 2) != NULL)
        s.len--;
    return s;
}

pj_str_t web_unquote(pj_str_t s)
{
    bool quoted = s.len >= 2 && s.data[0] == '"' && s.data[s.len - 1] == '"';

    return quoted ? (pj_str_t){s.data + 1, s.len - 2} : s;
}

pj_str_t web_split(pj_str_t s, char separator, pj_str_t *rest)
{
    const unsigned char *at =
        s.len != 0 ? memchr(s.data, separator, s.len) : NULL;

    *rest = (pj_str_t){NULL, 0};
    if (at != NULL) {
        *rest = web_skip(s, (size_t) (at - s.data) + 1);
        s.len = (size_t) (at - s.data);
    }
    return s;
}

bool web_plain(pj_str_t s, const char *others)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = s.data[i];

        if ((unsigned char) (c - '0') >= 10 &&
            (unsigned char) ((c | 0x20) - 'a') >= 26 &&
            (c == '\0' || strchr(others, c) == NULL))
            return false;
    }
    return s.len != 0;
}

bool web_id_valid(pj_str_t id)
{
    return id.len <= 128 && web_plain(id, "-.:_");
}

bool web_cookie(pj_str_t item, pj_str_t name, pj_str_t *value)
{
    pj_str_t found = web_trim(web_split(item, '=', value));

    *value = web_unquote(web_trim(*value));
    return value->data != NULL && pj_str_eq(found, name);
}

bool web_labels(pj_str_t host)
{
    do {
        if (!web_plain(web_split(host, '.', &host), "-_"))
            return false;
    } while (host.data != NULL);
    return true;
}

/* Returns the default port of the origin's scheme, or NULL. */
static const char *default_port(pj_str_t origin)
{
    pj_str_t rest, scheme = web_split(origin, ':', &rest);

    return pj_str_caseeq(scheme, PJ_STR("https"))  ? ":443"
           : pj_str_caseeq(scheme, PJ_STR("http")) ? ":80"
                                                   : NULL;
}

static pj_str_t without_port(pj_str_t s, const char *port)
{
    size_t len = strlen(port);

    if (s.len >= len && web_begins(web_skip(s, s.len - len), port))
        s.len -= len;
    else if (s.len > 0 && s.data[s.len - 1] == ':')
        s.len--;
    return s;
}

void web_origin_set(web_origin_t *allowed, pj_str_t text)
{
    const char *port = default_port(text);
    pj_str_t rest;

    text = port != NULL ? without_port(text, port) : text;
    allowed->text = text;
    allowed->prefix = web_split(text, '*', &rest).len;
    allowed->suffix = rest;
}

bool web_origin_match(const web_origin_t *allowed, pj_str_t origin)
{
    pj_str_t head = {allowed->text.data, allowed->prefix}, star;
    size_t rest = head.len + allowed->suffix.len;

    if (origin.len < rest || (allowed->suffix.len == 0 && origin.len > rest))
        return false;
    for (size_t i = 0; i < origin.len; i++) {
        if (origin.data[i] >= 'A' && origin.data[i] <= 'Z')
            return false;
    }
    star = (pj_str_t){origin.data + head.len, origin.len - rest};
    return pj_str_caseeq((pj_str_t){origin.data, head.len}, head) &&
           (allowed->suffix.len == 0 ||
            (web_labels(star) &&
             pj_str_caseeq(web_skip(origin, head.len + star.len),
                           allowed->suffix)));
}

bool web_origin_own(pj_str_t origin, pj_str_t host, bool tls)
{
    const char *port = default_port(origin);
    pj_str_t rest;

    (void) web_split(origin, ':', &rest);
    if (port == NULL || !web_begins(rest, "//") ||
        (tls && !web_begins(origin, "https")))
        return false;
    rest = without_port(web_skip(rest, 2), port);
    return rest.len != 0 && pj_str_caseeq(rest, without_port(host, port));
}
