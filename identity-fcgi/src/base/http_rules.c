/* The readers of header values: cookies, bearer, origin, media type, etag. */

#include "base/http.h"

#include <openssl/crypto.h>
#include <string.h>
#include <strings.h>

static bool is_blank(unsigned char c)
{
    return c == ' ' || c == '\t';
}

static pj_str_t trim(pj_str_t s)
{
    while (s.len > 0 && is_blank(s.data[0])) {
        s.data++;
        s.len--;
    }
    while (s.len > 0 && is_blank(s.data[s.len - 1])) {
        s.len--;
    }
    return s;
}

/* What stands before the first sep; *rest is what stands behind it. */
static pj_str_t split(pj_str_t s, char sep, pj_str_t *rest)
{
    const unsigned char *at = s.len != 0 ? memchr(s.data, sep, s.len) : NULL;
    pj_str_t first = s;

    if (at == NULL) {
        rest->data = NULL;
        rest->len = 0;
        return first;
    }
    first.len = (size_t) (at - s.data);
    rest->data = at + 1;
    rest->len = s.len - first.len - 1;
    return first;
}

static bool equals(pj_str_t s, const char *text)
{
    size_t len = strlen(text);

    return s.len == len && (len == 0 || memcmp(s.data, text, len) == 0);
}

static bool equals_nocase(pj_str_t s, const char *text)
{
    size_t len = strlen(text);

    return s.len == len &&
           (len == 0 || strncasecmp((const char *) s.data, text, len) == 0);
}

static pj_str_t unquote(pj_str_t s)
{
    if (s.len >= 2 && s.data[0] == '"' && s.data[s.len - 1] == '"') {
        s.data++;
        s.len -= 2;
    }
    return s;
}

/* -- cookies --------------------------------------------------------------
 */

bool http_cookie_next(pj_str_t *rest, const char *name, pj_str_t *value)
{
    while (rest->len != 0) {
        pj_str_t pair = trim(split(*rest, ';', rest));

        if (!equals(trim(split(pair, '=', value)), name)) {
            continue;
        }
        *value = unquote(trim(*value));
        if (value->len != 0) {
            return true;
        }
    }
    return false;
}

enum http_cookie http_cookie_find(pj_str_t cookie_header, const char *name,
                                  pj_str_t *value)
{
    pj_str_t rest = cookie_header, other;

    if (!http_cookie_next(&rest, name, value)) {
        value->data = NULL;
        value->len = 0;
        return HTTP_COOKIE_NONE;
    }
    while (http_cookie_next(&rest, name, &other)) {
        if (other.len != value->len ||
            CRYPTO_memcmp(other.data, value->data, other.len) != 0) {
            return HTTP_COOKIE_CONFLICT;
        }
    }
    return HTTP_COOKIE_ONE;
}

void http_cookie_set(struct http_response *res, const struct config *cfg,
                     pj_str_t token, int64_t max_age_s)
{
    static const char *const same_site[] = {"Strict", "Lax", "None"};
    struct buf *out = &res->headers;

    buf_addz(out, "Set-Cookie: ");
    buf_addz(out, cfg->cookie_name);
    buf_addc(out, '=');
    buf_add(out, token.data, token.len);
    buf_addz(out, "; Path=");
    buf_addz(out, cfg->cookie_path);
    buf_addz(out, "; Max-Age=");
    buf_addi(out, max_age_s > 0 ? max_age_s : 0);
    buf_addz(out, "; HttpOnly");
    if (cfg->cookie_secure) {
        buf_addz(out, "; Secure");
    }
    buf_addz(out, "; SameSite=");
    buf_addz(out, same_site[cfg->cookie_same_site]);
    if (cfg->cookie_partitioned) {
        buf_addz(out, "; Partitioned");
    }
    buf_addz(out, "\r\n");
}

void http_cookie_clear(struct http_response *res, const struct config *cfg)
{
    http_cookie_set(res, cfg, (pj_str_t){NULL, 0}, 0);
}

/* -- Authorization --------------------------------------------------------
 */

static bool is_token68(unsigned char c)
{
    return (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
           (c >= 'a' && c <= 'z') ||
           (c != '\0' && strchr("-._~+/=", c) != NULL);
}

pj_str_t http_bearer(pj_str_t authorization)
{
    const pj_str_t none = {NULL, 0};
    pj_str_t s = trim(authorization);

    if (s.len < 8 || strncasecmp((const char *) s.data, "Bearer", 6) != 0 ||
        s.data[6] != ' ') {
        return none;
    }
    s.data += 6;
    s.len -= 6;
    s = trim(s);
    for (size_t i = 0; i < s.len; i++) {
        if (!is_token68(s.data[i])) {
            return none;
        }
    }
    return s.len != 0 ? s : none;
}

/* -- Origin ---------------------------------------------------------------
 */

/* Whether origin stands below a pattern whose host begins with a "*." label:
 * one label more, or several. */
static bool matches_wildcard(pj_str_t origin, const char *pattern)
{
    const char *star = strchr(pattern, '*');
    size_t head = star != NULL ? (size_t) (star - pattern) : 0;
    size_t tail = star != NULL ? strlen(star + 1) : 0;
    size_t start = head;

    if (star == NULL || origin.len <= head + tail ||
        memcmp(origin.data, pattern, head) != 0 ||
        memcmp(origin.data + origin.len - tail, star + 1, tail) != 0) {
        return false;
    }
    for (size_t i = head; i < origin.len - tail; i++) {
        unsigned char c = origin.data[i];

        if (c == '.' && i == start) {
            return false; /* an empty label */
        }
        if (c == '.') {
            start = i + 1;
        } else if (c != '-' && c != '_' && !(c >= '0' && c <= '9') &&
                   !(c >= 'a' && c <= 'z')) {
            return false;
        }
    }
    return start < origin.len - tail;
}

static bool origin_listed(const struct config *cfg, pj_str_t origin)
{
    for (size_t i = 0; i < cfg->cors_origin_count; i++) {
        if (equals(origin, cfg->cors_origins[i]) ||
            matches_wildcard(origin, cfg->cors_origins[i])) {
            return true;
        }
    }
    return false;
}

/* Splits host[:port]; no port is an empty one. */
static pj_str_t split_port(pj_str_t s, pj_str_t *port)
{
    pj_str_t host = s;

    port->data = NULL;
    port->len = 0;
    for (size_t i = s.len; i-- > 0;) {
        if (s.data[i] == ']') {
            break;
        }
        if (s.data[i] == ':') {
            host.len = i;
            port->data = s.data + i + 1;
            port->len = s.len - i - 1;
            break;
        }
    }
    return host;
}

/*
 * Whether origin has the host and port that the request was sent to.  The
 * scheme is not compared: TLS may end before nginx.  So a port left out on
 * either side is the default of the origin's scheme.
 */
static bool origin_is_own(const struct http_request *req, pj_str_t origin)
{
    pj_str_t host, port, own_host, own_port, rest;
    const char *default_port;

    if (equals_nocase(split(origin, ':', &rest), "http")) {
        default_port = "80";
    } else if (equals_nocase(split(origin, ':', &rest), "https")) {
        default_port = "443";
    } else {
        return false;
    }
    if (rest.len < 3 || memcmp(rest.data, "//", 2) != 0) {
        return false;
    }
    rest.data += 2;
    rest.len -= 2;
    host = split_port(rest, &port);
    own_host = split_port(req->host, &own_port);
    if (port.len == 0) {
        port.data = (const unsigned char *) default_port;
        port.len = strlen(default_port);
    }
    if (own_port.len == 0) {
        own_port.data = (const unsigned char *) default_port;
        own_port.len = strlen(default_port);
    }
    return host.len != 0 && host.len == own_host.len &&
           strncasecmp((const char *) host.data, (const char *) own_host.data,
                       host.len) == 0 &&
           port.len == own_port.len &&
           memcmp(port.data, own_port.data, port.len) == 0;
}

bool http_origin_allowed(const struct config *cfg,
                         const struct http_request *req)
{
    if (req->origin.len == 0) {
        return !equals_nocase(req->sec_fetch_site, "cross-site");
    }
    if (equals_nocase(req->origin, "null")) {
        return false;
    }
    return origin_listed(cfg, req->origin) || origin_is_own(req, req->origin);
}

/* -- media type -----------------------------------------------------------
 */

bool http_is_json(pj_str_t content_type)
{
    pj_str_t rest;

    if (!equals_nocase(trim(split(content_type, ';', &rest)),
                       "application/json")) {
        return false;
    }
    while (rest.len != 0) {
        pj_str_t param = trim(split(rest, ';', &rest));
        pj_str_t value;
        pj_str_t name = trim(split(param, '=', &value));

        if (equals_nocase(name, "charset") &&
            !equals_nocase(unquote(trim(value)), "utf-8")) {
            return false;
        }
    }
    return true;
}

/* -- If-Match, If-None-Match ----------------------------------------------
 */

bool http_etag_matches(pj_str_t value, const char *etag, bool strong)
{
    pj_str_t rest = trim(value);

    if (equals(rest, "*")) {
        return true;
    }
    while (rest.len != 0) {
        const unsigned char *close;
        bool weak;
        pj_str_t tag;

        /* Commas may stand inside a tag, so tags are taken by their quotes. */
        while (rest.len != 0 && (is_blank(*rest.data) || *rest.data == ',')) {
            rest.data++;
            rest.len--;
        }
        weak = rest.len >= 2 && memcmp(rest.data, "W/", 2) == 0;
        if (weak) {
            rest.data += 2;
            rest.len -= 2;
        }
        if (rest.len < 2 || *rest.data != '"') {
            return false;
        }
        close = memchr(rest.data + 1, '"', rest.len - 1);
        if (close == NULL) {
            return false;
        }
        tag.data = rest.data;
        tag.len = (size_t) (close - rest.data) + 1;
        if (equals(tag, etag) && !(weak && strong)) {
            return true;
        }
        rest.data += tag.len;
        rest.len -= tag.len;
    }
    return false;
}
