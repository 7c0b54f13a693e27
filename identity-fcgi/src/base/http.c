/* Requests from FastCGI parameters, CGI responses, and header values. */

#include "base/http.h"

#include "base/jsonw.h"
#include "base/uuid.h"

#include <inttypes.h>
#include <openssl/crypto.h>
#include <openssl/rand.h>
#include <openssl/sha.h>
#include <string.h>

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static pj_str_t skip(pj_str_t s, size_t n)
{
    return (pj_str_t){s.data + n, s.len - n};
}

static bool is_blank(unsigned char c)
{
    return c == ' ' || c == '\t';
}

static pj_str_t trim(pj_str_t s)
{
    while (s.len > 0 && is_blank(s.data[0])) {
        s = skip(s, 1);
    }
    while (s.len > 0 && is_blank(s.data[s.len - 1])) {
        s.len--;
    }
    return s;
}

/* Returns the part before the first sep; *rest is the part after it. */
static pj_str_t split(pj_str_t s, char sep, pj_str_t *rest)
{
    const unsigned char *at = s.len != 0 ? memchr(s.data, sep, s.len) : NULL;

    *rest = (pj_str_t){NULL, 0};
    if (at != NULL) {
        *rest = skip(s, (size_t) (at - s.data) + 1);
        s.len = (size_t) (at - s.data);
    }
    return s;
}

static bool begins(pj_str_t s, const char *text)
{
    size_t len = strlen(text);

    return s.len >= len && (len == 0 || memcmp(s.data, text, len) == 0);
}

static pj_str_t unquote(pj_str_t s)
{
    if (s.len >= 2 && s.data[0] == '"' && s.data[s.len - 1] == '"') {
        s = skip(s, 1);
        s.len--;
    }
    return s;
}

/* Returns true if s has only lower-case letters, digits and characters of
 * others; upper-case letters too if capitals is set. */
static bool has_only(pj_str_t s, const char *others, bool capitals)
{
    for (size_t i = 0; i < s.len; i++) {
        unsigned char c = s.data[i];

        if (!(c >= '0' && c <= '9') && !(c >= 'a' && c <= 'z') &&
            !(capitals && c >= 'A' && c <= 'Z') &&
            (c == '\0' || strchr(others, c) == NULL)) {
            return false;
        }
    }
    return true;
}

/* -- request -------------------------------------------------------------- */

#define PARAM(name, field)                                                     \
    name, sizeof(name) - 1, offsetof(struct http_request, field)

static const struct {
    const char *name;
    size_t len, field;
} request_params[] = {
    {PARAM("REQUEST_METHOD", method)},
    {PARAM("DOCUMENT_URI", path)},
    {PARAM("QUERY_STRING", query)},
    {PARAM("CONTENT_TYPE", content_type)},
    {PARAM("HTTP_AUTHORIZATION", authorization)},
    {PARAM("HTTP_COOKIE", cookie)},
    {PARAM("HTTP_ORIGIN", origin)},
    {PARAM("HTTP_HOST", host)},
    {PARAM("REQUEST_SCHEME", scheme)},
    {PARAM("HTTP_SEC_FETCH_SITE", sec_fetch_site)},
    {PARAM("HTTP_IF_MATCH", if_match)},
    {PARAM("HTTP_IF_NONE_MATCH", if_none_match)},
    {PARAM("REMOTE_ADDR", remote_addr)},
    {PARAM("HTTP_USER_AGENT", user_agent)},
    {PARAM("HTTP_X_REQUEST_ID", request_id)},
    {PARAM("HTTP_X_CORRELATION_ID", correlation_id)},
};

static bool id_is_valid(pj_str_t id)
{
    return id.len != 0 && id.len <= 128 && has_only(id, "._:-", true);
}

void http_request_init(struct http_request *req, char *const *params,
                       pj_str_t body, bool body_too_large)
{
    unsigned char raw[16] = {0};

    *req =
        (struct http_request){.body = body, .body_too_large = body_too_large};
    for (; *params != NULL; params++) {
        size_t len = strcspn(*params, "=");

        for (size_t i = 0; (*params)[len] != '\0' && i < COUNT(request_params);
             i++) {
            pj_str_t *field =
                (pj_str_t *) ((char *) req + request_params[i].field);

            /* Uses the first value: nginx's own parameters come before those
             * made from client headers. */
            if (len == request_params[i].len &&
                memcmp(*params, request_params[i].name, len) == 0 &&
                field->data == NULL && (*params)[len + 1] != '\0') {
                *field = pj_str(*params + len + 1);
            }
        }
    }
    /* Peers other than our nginx may send invalid ids or none. */
    if (!id_is_valid(req->request_id)) {
        (void) RAND_bytes(raw, sizeof(raw));
        (void) uuid_hex(req->made_id, raw, sizeof(raw));
        req->request_id = pj_str(req->made_id);
    }
    if (!id_is_valid(req->correlation_id)) {
        req->correlation_id = req->request_id;
    }
}

void http_text(char *out, size_t cap, pj_str_t text)
{
    size_t n = 0, len;

    for (size_t i = 0; i < text.len; i += len) {
        const unsigned char *p = text.data + i;
        bool valid;
        size_t size;

        len = pj_utf8_next(p, text.data + text.len, &valid);
        size = valid ? len : 3;
        if (size >= cap - n) {
            break;
        }
        memcpy(out + n, valid ? (const char *) p : "\xEF\xBF\xBD", size);
        n += size;
    }
    out[n] = '\0';
}

/* -- response ------------------------------------------------------------- */

void http_response_init(struct http_response *res, void *headers,
                        size_t headers_cap, void *body, size_t body_cap)
{
    memset(res, 0, sizeof(*res));
    res->status = 200;
    buf_init(&res->headers, headers, headers_cap);
    buf_init(&res->body, body, body_cap);
}

static const char *title_of(int status)
{
    static const char *const titles[] = {
        [200] = "OK",
        [304] = "Not Modified",
        [400] = "Bad Request",
        [401] = "Unauthorized",
        [403] = "Forbidden",
        [404] = "Not Found",
        [405] = "Method Not Allowed",
        [409] = "Conflict",
        [412] = "Precondition Failed",
        [413] = "Content Too Large",
        [415] = "Unsupported Media Type",
        [429] = "Too Many Requests",
        [500] = "Internal Server Error",
        [503] = "Service Unavailable",
    };
    const char *title = (size_t) status < COUNT(titles) ? titles[status] : NULL;

    return title != NULL ? title : "Unknown";
}

void http_header(struct http_response *res, const char *name, const char *value)
{
    if (strpbrk(value, "\r\n") != NULL) {
        res->headers.overflow = true; /* becomes a 500 */
        return;
    }
    buf_addf(&res->headers, "%s: %s\r\n", name, value);
}

/* Drops all header lines except Set-Cookie. */
static void keep_cookies(struct buf *headers)
{
    pj_str_t line, rest = {(unsigned char *) headers->data, headers->len};

    headers->len = 0;
    while (rest.len != 0) {
        line = split(rest, '\n', &rest);
        if (begins(line, "Set-Cookie:")) {
            memmove(headers->data + headers->len, line.data, line.len + 1);
            headers->len += line.len + 1;
        }
    }
}

void http_problem(struct http_response *res, const struct http_request *req,
                  int status, const char *code, const char *detail)
{
    struct jsonw w;

    if (res->headers.overflow) {
        buf_reset(&res->headers);
    }
    keep_cookies(&res->headers);
    buf_reset(&res->body);
    res->status = status;
    res->code = code;
    http_header(res, "Content-Type", "application/problem+json");
    http_header(res, "Cache-Control", "no-store");
    jsonw_init(&w, &res->body);
    jsonw_object(&w, NULL);
    jsonw_cstr(&w, "type", "about:blank");
    jsonw_cstr(&w, "title", title_of(status));
    jsonw_int(&w, "status", status);
    jsonw_cstr(&w, "detail", detail);
    jsonw_cstr(&w, "code", code);
    jsonw_string(&w, "requestId", req->request_id.data, req->request_id.len);
    jsonw_object_end(&w);
}

void http_response_head(struct http_response *res,
                        const struct http_request *req, struct buf *head)
{
    if (res->headers.overflow || res->body.overflow) {
        http_problem(res, req, 500, "INTERNAL_ERROR",
                     "The answer could not be written.");
    }
    buf_reset(head);
    buf_addf(head, "Status: %d %s\r\n", res->status, title_of(res->status));
    buf_add(head, res->headers.data, res->headers.len);
    buf_addz(head, "X-Request-Id: ");
    buf_add(head, req->request_id.data, req->request_id.len);
    buf_addz(head, "\r\nX-Correlation-Id: ");
    buf_add(head, req->correlation_id.data, req->correlation_id.len);
    if (res->status == 304) {
        buf_reset(&res->body);
    } else {
        buf_addz(head, "\r\nContent-Length: ");
        buf_addi(head, (int64_t) res->body.len);
    }
    buf_addz(head, "\r\n\r\n");
    if (pj_str_eq(req->method, PJ_STR("HEAD"))) {
        buf_reset(&res->body);
    }
}

bool http_cookie_next(pj_str_t *rest, const char *name, pj_str_t *value)
{
    while (rest->len != 0) {
        pj_str_t pair = split(*rest, ';', rest);

        if (!pj_str_eq(trim(split(pair, '=', value)), pj_str(name))) {
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
        *value = (pj_str_t){NULL, 0};
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

    buf_addf(out, "Set-Cookie: %s=", cfg->cookie_name);
    buf_add(out, token.data, token.len);
    buf_addf(
        out, "; Path=%s; Max-Age=%" PRId64 "; HttpOnly%s; SameSite=%s%s\r\n",
        cfg->cookie_path, max_age_s > 0 ? max_age_s : 0,
        cfg->cookie_secure ? "; Secure" : "", same_site[cfg->cookie_same_site],
        cfg->cookie_partitioned ? "; Partitioned" : "");
}

pj_str_t http_bearer(pj_str_t authorization)
{
    pj_str_t token, scheme = split(trim(authorization), ' ', &token);

    token = trim(token);
    if (!pj_str_caseeq(scheme, PJ_STR("Bearer"))) {
        return (pj_str_t){NULL, 0};
    }
    return has_only(token, "-._~+/=", true) && token.len != 0
               ? token
               : (pj_str_t){scheme.data, 0};
}

static pj_str_t without_port(pj_str_t host, const char *port)
{
    size_t len = strlen(port);

    if (host.len >= len && begins(skip(host, host.len - len), port)) {
        host.len -= len;
    } else if (host.len > 0 && host.data[host.len - 1] == ':') {
        host.len--;
    }
    return host;
}

/* Returns true if origin equals listed.  If the host of listed starts with a
 * "*." label, one or more labels may take its place. */
static bool matches(pj_str_t origin, pj_str_t listed)
{
    pj_str_t tail, label, head = split(listed, '*', &tail);

    if (tail.data == NULL) {
        return pj_str_caseeq(origin, listed);
    }
    if (origin.len <= head.len + tail.len ||
        !pj_str_caseeq((pj_str_t){origin.data, head.len}, head) ||
        !pj_str_caseeq(skip(origin, origin.len - tail.len), tail)) {
        return false;
    }
    /* The part that matches the star, including the first dot of tail. */
    origin = (pj_str_t){origin.data + head.len,
                        origin.len - head.len - tail.len + 1};
    while (origin.len != 0) {
        label = split(origin, '.', &origin);
        if (label.len == 0 || !has_only(label, "-_", false)) {
            return false;
        }
    }
    return true;
}

/* Browsers omit the default port of the scheme, so it is ignored in the
 * list. */
static bool origin_listed(const struct config *cfg, pj_str_t origin)
{
    const char *p = cfg->cors_origins != NULL ? cfg->cors_origins : "";

    if (!has_only(origin, "-_.:/[]", false)) {
        return false; /* never sent by browsers */
    }
    for (size_t len; *p != '\0'; p += len) {
        pj_str_t listed;

        p += strspn(p, " \t");
        len = strcspn(p, " \t");
        listed = (pj_str_t){(const unsigned char *) p, len};
        if (len != 0 &&
            matches(origin,
                    without_port(listed,
                                 begins(listed, "https") ? ":443" : ":80"))) {
            return true;
        }
    }
    return false;
}

/* Returns true if origin has the host and port of the request.  The scheme is
 * not compared, because a proxy before nginx may terminate TLS. A missing port
 * on either side is the default port of the origin's scheme. */
static bool origin_is_own(const struct http_request *req, pj_str_t origin)
{
    pj_str_t host, scheme = split(origin, ':', &host);
    const char *port = pj_str_caseeq(scheme, PJ_STR("http"))    ? ":80"
                       : pj_str_caseeq(scheme, PJ_STR("https")) ? ":443"
                                                                : NULL;

    if (port == NULL || !begins(host, "//")) {
        return false;
    }
    host = without_port(skip(host, 2), port);
    return host.len != 0 && pj_str_caseeq(host, without_port(req->host, port));
}

bool http_origin_allowed(const struct config *cfg,
                         const struct http_request *req)
{
    if (req->origin.len == 0) {
        return !pj_str_caseeq(req->sec_fetch_site, PJ_STR("cross-site"));
    }
    return !pj_str_caseeq(req->origin, PJ_STR("null")) &&
           (origin_listed(cfg, req->origin) || origin_is_own(req, req->origin));
}

bool http_is_json(pj_str_t content_type)
{
    pj_str_t rest, name, value;

    if (!pj_str_caseeq(trim(split(content_type, ';', &rest)),
                       PJ_STR("application/json"))) {
        return false;
    }
    while (rest.len != 0) {
        name = split(split(rest, ';', &rest), '=', &value);
        if (pj_str_caseeq(trim(name), PJ_STR("charset")) &&
            !pj_str_caseeq(unquote(trim(value)), PJ_STR("utf-8"))) {
            return false;
        }
    }
    return true;
}

void http_etag(char etag[HTTP_ETAG_MAX], const void *document, size_t len)
{
    unsigned char digest[SHA256_DIGEST_LENGTH];
    char *p = etag;

    SHA256(document, len, digest);
    *p++ = '"';
    memcpy(uuid_hex(p, digest, 16), "\"", 2);
}

bool http_etag_matches(pj_str_t value, const char *etag, bool strong)
{
    pj_str_t tag, rest = trim(value);

    if (pj_str_eq(rest, PJ_STR("*"))) {
        return true;
    }
    while (rest.len != 0) {
        bool weak = begins(rest, "W/");

        if (is_blank(*rest.data) || *rest.data == ',') {
            rest = skip(rest, 1);
            continue;
        }
        /* A tag may contain commas; its quotes delimit it. */
        rest = skip(rest, weak ? 2 : 0);
        if (!begins(rest, "\"")) {
            return false;
        }
        tag = split(skip(rest, 1), '"', &rest);
        if (rest.data == NULL) {
            return false; /* not closed */
        }
        tag = (pj_str_t){tag.data - 1, tag.len + 2};
        if (pj_str_eq(tag, pj_str(etag)) && !(weak && strong)) {
            return true;
        }
    }
    return false;
}
