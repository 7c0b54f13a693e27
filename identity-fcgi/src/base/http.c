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

/* -- request -------------------------------------------------------------- */

#define PARAM(name, field)                                                     \
    name, sizeof(name) - 1, offsetof(struct http_request, field)

static const struct {
    const char *name;
    size_t len, field;
} request_params[] = {
    {PARAM("REQUEST_METHOD", method)},
    {PARAM("DOCUMENT_URI", path)},
    {PARAM("REQUEST_URI", uri)},
    {PARAM("QUERY_STRING", query)},
    {PARAM("CONTENT_TYPE", content_type)},
    {PARAM("HTTP_AUTHORIZATION", authorization)},
    {PARAM("HTTP_COOKIE", cookie)},
    {PARAM("HTTP_DPOP", dpop)},
    {PARAM("HTTP_ORIGIN", origin)},
    {PARAM("HTTP_HOST", host)},
    {PARAM("REQUEST_SCHEME", scheme)},
    {PARAM("HTTP_SEC_FETCH_SITE", sec_fetch_site)},
    {PARAM("HTTP_IDEMPOTENCY_KEY", idempotency_key)},
    {PARAM("HTTP_IF_MATCH", if_match)},
    {PARAM("HTTP_IF_NONE_MATCH", if_none_match)},
    {PARAM("REMOTE_ADDR", remote_addr)},
    {PARAM("HTTP_USER_AGENT", user_agent)},
    {PARAM("HTTP_X_REQUEST_ID", request_id)},
    {PARAM("HTTP_X_CORRELATION_ID", correlation_id)},
};

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
            if (len != request_params[i].len ||
                memcmp(*params, request_params[i].name, len) != 0) {
                continue;
            }
            if (field->data == NULL && (*params)[len + 1] != '\0') {
                *field = pj_str(*params + len + 1);
            } else if (field == &req->dpop) {
                *field = PJ_STR(","); /* nginx before 1.23 joins nothing */
            }
        }
    }
    /* Peers other than our nginx may send invalid ids or none. */
    if (!web_id_valid(req->request_id)) {
        (void) RAND_bytes(raw, sizeof(raw));
        (void) uuid_hex(req->made_id, raw, sizeof(raw));
        req->request_id = pj_str(req->made_id);
    }
    if (!web_id_valid(req->correlation_id)) {
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
        [201] = "Created",
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
        [422] = "Unprocessable Content",
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
        line = web_split(rest, '\n', &rest);
        if (web_begins(line, "Set-Cookie:")) {
            memmove(headers->data + headers->len, line.data, line.len + 1);
            headers->len += line.len + 1;
        }
    }
}

void http_problem(struct http_response *res, const struct http_request *req,
                  int status, const char *code, const char *detail,
                  const struct faults *faults)
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
    if (faults != NULL && faults->count > 0) {
        fault_write(&w, faults);
    }
    jsonw_object_end(&w);
}

void http_response_head(struct http_response *res,
                        const struct http_request *req, struct buf *head)
{
    if (res->headers.overflow || res->body.overflow) {
        http_problem(res, req, 500, "INTERNAL_ERROR",
                     "The answer could not be written.", NULL);
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
        if (web_cookie(web_split(*rest, ';', rest), pj_str(name), value) &&
            value->len != 0) {
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

pj_str_t http_token(pj_str_t authorization, bool *dpop)
{
    pj_str_t token, scheme = web_split(web_trim(authorization), ' ', &token);

    token = web_trim(token);
    *dpop = pj_str_caseeq(scheme, PJ_STR("DPoP"));
    if (!*dpop && !pj_str_caseeq(scheme, PJ_STR("Bearer"))) {
        return (pj_str_t){NULL, 0};
    }
    return web_plain(token, "-._~+/=") ? token : (pj_str_t){scheme.data, 0};
}

bool http_origin_listed(const char *origins, pj_str_t origin)
{
    const char *p = origins != NULL ? origins : "";
    web_origin_t allowed;

    for (size_t len; *p != '\0'; p += len) {
        p += strspn(p, " \t");
        len = strcspn(p, " \t");
        web_origin_set(&allowed, (pj_str_t){(const unsigned char *) p, len});
        if (len != 0 && web_origin_match(&allowed, origin)) {
            return true;
        }
    }
    return false;
}

bool http_origin_allowed(const struct config *cfg,
                         const struct http_request *req)
{
    if (req->origin.len == 0) {
        return !pj_str_caseeq(req->sec_fetch_site, PJ_STR("cross-site"));
    }
    return !pj_str_caseeq(req->origin, PJ_STR("null")) &&
           (http_origin_listed(cfg->cors_origins, req->origin) ||
            web_origin_own(req->origin, req->host,
                           pj_str_eq(req->scheme, PJ_STR("https"))));
}

bool http_is_media(pj_str_t content_type, const char *type)
{
    pj_str_t rest, name, value;

    if (!pj_str_caseeq(web_trim(web_split(content_type, ';', &rest)),
                       pj_str(type))) {
        return false;
    }
    while (rest.len != 0) {
        name = web_split(web_split(rest, ';', &rest), '=', &value);
        if (pj_str_caseeq(web_trim(name), PJ_STR("charset")) &&
            !pj_str_caseeq(web_unquote(web_trim(value)), PJ_STR("utf-8"))) {
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
    pj_str_t tag, rest = web_trim(value);

    if (pj_str_eq(rest, PJ_STR("*"))) {
        return true;
    }
    while (rest.len != 0) {
        bool weak = web_begins(rest, "W/");

        if (memchr(" \t,", *rest.data, 3) != NULL) {
            rest = web_skip(rest, 1);
            continue;
        }
        /* A tag may contain commas; its quotes delimit it. */
        rest = web_skip(rest, weak ? 2 : 0);
        if (!web_begins(rest, "\"")) {
            return false;
        }
        tag = web_split(web_skip(rest, 1), '"', &rest);
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
