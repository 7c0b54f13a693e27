/* Request and response as the handlers see them. */

#pragma once

#include "base/buf.h"
#include "base/config.h"

#include <pj.h>

#define HTTP_BODY_MAX 16384 /* a larger body is 413 */

/* Absent headers have data == NULL; all point into the request's memory. */
struct http_request {
    pj_str_t method;
    pj_str_t path; /* decoded by nginx, no query */
    pj_str_t query;
    pj_str_t content_type, body;
    pj_str_t authorization, cookie;
    pj_str_t host, origin, sec_fetch_site;
    pj_str_t scheme; /* http or https, from nginx */
    pj_str_t if_match, if_none_match;
    pj_str_t remote_addr, user_agent;
    pj_str_t request_id; /* normalised by nginx; made here when it is not */
    pj_str_t correlation_id;
    bool body_too_large;
    char made_id[33]; /* room for an id of our own */
};

struct http_response {
    int status;
    struct buf headers; /* complete lines, each ending in CR LF */
    struct buf body;
    /* For logs and metrics: the code of the body and, where known, whom it was
     * about.  static or arena strings. */
    const char *code;
    char account_id[37];
    char session_id[37];
};

/* Fills *req from FastCGI parameters: NULL-terminated NAME=value strings,
 * which must outlive it.  (HTTP_HOST of the environment is a bind address.) */
void http_request_init(struct http_request *req, char *const *params,
                       pj_str_t body, bool body_too_large);

/* Copies text as UTF-8 into out, as much as fits whole. */
void http_text(char *out, size_t cap, pj_str_t text);

/* Empties *res over the caller's memory. */
void http_response_init(struct http_response *res, void *headers,
                        size_t headers_cap, void *body, size_t body_cap);

/* Writes the head as CGI wants it into head.  A response that overflowed
 * becomes a 500; the body of one to HEAD and of a 304 is dropped. */
void http_response_head(struct http_response *res,
                        const struct http_request *req, struct buf *head);

/* Appends "name: value"; CR and LF in value make the response a 500. */
void http_header(struct http_response *res, const char *name,
                 const char *value);

/* Turns *res into an RFC 9457 problem: drops body and headers but Set-Cookie.
 * Headers of the problem (Retry-After) are added after it. */
void http_problem(struct http_response *res, const struct http_request *req,
                  int status, const char *code, const char *detail);

enum http_cookie { HTTP_COOKIE_NONE, HTTP_COOKIE_ONE, HTTP_COOKIE_CONFLICT };

/* Finds the cookie called name (RFC 6265 section 4.2).  An empty value counts
 * as none; different values are a conflict. */
enum http_cookie http_cookie_find(pj_str_t cookie_header, const char *name,
                                  pj_str_t *value);

/* The next non-empty value of the cookie called name; *rest, at first the
 * whole header, moves on.  False at the end. */
bool http_cookie_next(pj_str_t *rest, const char *name, pj_str_t *value);

/* Appends Set-Cookie for the refresh token, or its clearing (Max-Age=0). */
void http_cookie_set(struct http_response *res, const struct config *cfg,
                     pj_str_t token, int64_t max_age_s);
#define http_cookie_clear(res, cfg)                                            \
    http_cookie_set(res, cfg, (pj_str_t){NULL, 0}, 0)

/* The token of "Authorization: Bearer x" (RFC 6750 2.1), else empty; without
 * data unless the scheme is Bearer. */
pj_str_t http_bearer(pj_str_t authorization);

/* Whether a request that carries the cookie may act on it: Origin listed or
 * the request's own, or no browser at all. */
bool http_origin_allowed(const struct config *cfg,
                         const struct http_request *req);

/* Whether the media type is application/json, charset utf-8 or none. */
bool http_is_json(pj_str_t content_type);

#define HTTP_ETAG_MAX 35 /* its quotes and the NUL included */

/* The strong entity tag of a document, by its bytes. */
void http_etag(char etag[HTTP_ETAG_MAX], const void *document, size_t len);

/* Whether the value of If-Match (strong, RFC 9110 section 13.1.1) or
 * If-None-Match (section 13.1.2) names etag, or is "*". */
bool http_etag_matches(pj_str_t value, const char *etag, bool strong);
