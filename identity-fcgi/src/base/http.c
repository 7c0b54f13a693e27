/* Requests from FastCGI parameters, responses to CGI, problem+json. */

#include "base/http.h"

#include "base/jsonw.h"

#include <openssl/rand.h>
#include <string.h>

/* -- request --------------------------------------------------------------
 */

#define PARAM(name, field)                                                    \
    {                                                                         \
        name, sizeof(name) - 1, offsetof(struct http_request, field)          \
    }

static const struct {
    const char *name;
    size_t len;
    size_t field;
} request_params[] = {
    PARAM("REQUEST_METHOD", method),
    PARAM("DOCUMENT_URI", path),
    PARAM("CONTENT_TYPE", content_type),
    PARAM("HTTP_AUTHORIZATION", authorization),
    PARAM("HTTP_COOKIE", cookie),
    PARAM("HTTP_ORIGIN", origin),
    PARAM("HTTP_HOST", host),
    PARAM("REQUEST_SCHEME", scheme),
    PARAM("HTTP_SEC_FETCH_SITE", sec_fetch_site),
    PARAM("HTTP_IF_MATCH", if_match),
    PARAM("HTTP_IF_NONE_MATCH", if_none_match),
    PARAM("REMOTE_ADDR", remote_addr),
    PARAM("HTTP_USER_AGENT", user_agent),
    PARAM("HTTP_X_REQUEST_ID", request_id),
    PARAM("HTTP_X_CORRELATION_ID", correlation_id),
};

#define PARAM_COUNT (sizeof(request_params) / sizeof(request_params[0]))

static void take_param(struct http_request *req, const char *param)
{
    const char *eq = strchr(param, '=');
    size_t len = eq != NULL ? (size_t) (eq - param) : 0;

    for (size_t i = 0; i < PARAM_COUNT; i++) {
        pj_str_t *field;

        if (request_params[i].len != len ||
            memcmp(request_params[i].name, param, len) != 0) {
            continue;
        }
        field = (pj_str_t *) ((char *) req + request_params[i].field);
        /* The first one counts: nginx's own parameters precede those that it
         * makes of the client's headers. */
        if (field->data == NULL && eq[1] != '\0') {
            field->data = (const unsigned char *) eq + 1;
            field->len = strlen(eq + 1);
        }
        return;
    }
}

static bool id_is_valid(pj_str_t id)
{
    static const char punctuation[] = "._:-";

    if (id.len == 0 || id.len > HTTP_ID_MAX) {
        return false;
    }
    for (size_t i = 0; i < id.len; i++) {
        unsigned char c = id.data[i];
        bool alnum = (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') ||
                     (c >= 'a' && c <= 'z');

        if (!alnum && (c == '\0' || strchr(punctuation, c) == NULL)) {
            return false;
        }
    }
    return true;
}

/* The ids of a peer that is not our nginx: same rules, made when absent. */
static void settle_ids(struct http_request *req)
{
    static const char hex[] = "0123456789abcdef";
    unsigned char raw[16] = {0};

    if (!id_is_valid(req->request_id)) {
        (void) RAND_bytes(raw, sizeof(raw));
        for (size_t i = 0; i < sizeof(raw); i++) {
            req->made_id[2 * i] = hex[raw[i] >> 4];
            req->made_id[2 * i + 1] = hex[raw[i] & 15];
        }
        req->made_id[32] = '\0';
        req->request_id.data = (const unsigned char *) req->made_id;
        req->request_id.len = 32;
    }
    if (!id_is_valid(req->correlation_id)) {
        req->correlation_id = req->request_id;
    }
}

void http_request_init(struct http_request *req, char *const *params,
                       pj_str_t body, bool body_too_large)
{
    memset(req, 0, sizeof(*req));
    for (; *params != NULL; params++) {
        take_param(req, *params);
    }
    req->body = body;
    req->body_too_large = body_too_large;
    settle_ids(req);
}

/* -- response -------------------------------------------------------------
 */

void http_response_init(struct http_response *res, void *headers,
                        size_t headers_cap, void *body, size_t body_cap)
{
    memset(res, 0, sizeof(*res));
    res->status = 200;
    buf_init(&res->headers, headers, headers_cap);
    buf_init(&res->body, body, body_cap);
}

const char *http_status_title(int status)
{
    switch (status) {
    case 200:
        return "OK";
    case 204:
        return "No Content";
    case 304:
        return "Not Modified";
    case 400:
        return "Bad Request";
    case 401:
        return "Unauthorized";
    case 403:
        return "Forbidden";
    case 404:
        return "Not Found";
    case 405:
        return "Method Not Allowed";
    case 409:
        return "Conflict";
    case 412:
        return "Precondition Failed";
    case 413:
        return "Content Too Large";
    case 415:
        return "Unsupported Media Type";
    case 429:
        return "Too Many Requests";
    case 500:
        return "Internal Server Error";
    case 503:
        return "Service Unavailable";
    default:
        return "Unknown";
    }
}

void http_header(struct http_response *res, const char *name,
                 const char *value)
{
    if (strpbrk(value, "\r\n") != NULL) {
        res->headers.overflow = true; /* answered as a 500 */
        return;
    }
    buf_addz(&res->headers, name);
    buf_addz(&res->headers, ": ");
    buf_addz(&res->headers, value);
    buf_addz(&res->headers, "\r\n");
}

/* Drops every header line but Set-Cookie. */
static void keep_cookies(struct buf *headers)
{
    static const char name[] = "Set-Cookie:";
    char *from = headers->data, *end = headers->data + headers->len;
    char *to = headers->data;

    while (from < end) {
        char *eol = memchr(from, '\n', (size_t) (end - from));
        size_t len = (size_t) ((eol != NULL ? eol + 1 : end) - from);

        if (len >= sizeof(name) - 1 &&
            memcmp(from, name, sizeof(name) - 1) == 0) {
            memmove(to, from, len);
            to += len;
        }
        from += len;
    }
    headers->len = (size_t) (to - headers->data);
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
    jsonw_cstr(&w, "title", http_status_title(status));
    jsonw_int(&w, "status", status);
    jsonw_cstr(&w, "detail", detail);
    jsonw_cstr(&w, "code", code);
    jsonw_string(&w, "requestId", req->request_id.data, req->request_id.len);
    jsonw_object_end(&w);
}

static bool is_method(const struct http_request *req, const char *name)
{
    return req->method.len == strlen(name) &&
           memcmp(req->method.data, name, req->method.len) == 0;
}

static void add_id(struct buf *head, const char *name, pj_str_t id)
{
    buf_addz(head, name);
    buf_add(head, id.data, id.len);
    buf_addz(head, "\r\n");
}

void http_response_head(struct http_response *res,
                        const struct http_request *req, struct buf *head)
{
    if (res->headers.overflow || res->body.overflow) {
        http_problem(res, req, 500, "INTERNAL_ERROR",
                     "The answer could not be written.");
    }
    buf_reset(head);
    buf_addz(head, "Status: ");
    buf_addi(head, res->status);
    buf_addc(head, ' ');
    buf_addz(head, http_status_title(res->status));
    buf_addz(head, "\r\n");
    buf_add(head, res->headers.data, res->headers.len);
    add_id(head, "X-Request-Id: ", req->request_id);
    add_id(head, "X-Correlation-Id: ", req->correlation_id);
    if (res->status == 204 || res->status == 304) {
        buf_reset(&res->body);
    } else {
        buf_addz(head, "Content-Length: ");
        buf_addi(head, (int64_t) res->body.len);
        buf_addz(head, "\r\n");
    }
    buf_addz(head, "\r\n");
    if (is_method(req, "HEAD")) {
        buf_reset(&res->body);
    }
}
