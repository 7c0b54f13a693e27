/* Request and response as the handlers see them. */

#pragma once

#include "base/buf.h"
#include "base/config.h"
#include "base/fault.h"

#include <pj.h>
#include <web.h>

#define HTTP_BODY_MAX 65536 /* a larger body is 413 */

/* Absent headers have data == NULL; all point into the request's memory. */
struct http_request {
    pj_str_t method;
    pj_str_t path; /* decoded by nginx, no query */
    pj_str_t uri;  /* as the client sent it, with the query */
    pj_str_t query;
    pj_str_t content_type, body;
    pj_str_t authorization, cookie;
    pj_str_t dpop; /* not a proof unless there is one such header */
    pj_str_t host, origin, sec_fetch_site;
    pj_str_t scheme; /* http or https, from nginx */
    pj_str_t if_match, if_none_match, idempotency_key;
    pj_str_t remote_addr, user_agent;
    pj_str_t request_id; /* from nginx; made here if it is missing or invalid */
    pj_str_t correlation_id;
    bool body_too_large;
    char made_id[33]; /* memory for an id made here */
};

struct http_response {
    int status;
    struct buf headers; /* complete lines, each ending in CR LF */
    struct buf body;
    /* For logs and metrics: the code of the body, and the account and session,
     * if known. code is a static or arena string. */
    const char *code;
    char account_id[37];
    char session_id[37];
};

/* Fills *req from FastCGI parameters: NAME=value strings, NULL-terminated,
 * which must outlive it. (HTTP_HOST of the environment is a bind address.) */
void http_request_init(struct http_request *req, char *const *params,
                       pj_str_t body, bool body_too_large);

/* Copies text to out as valid UTF-8, truncated at a character boundary. */
void http_text(char *out, size_t cap, pj_str_t text);

/* Initialises *res with the caller's memory. */
void http_response_init(struct http_response *res, void *headers,
                        size_t headers_cap, void *body, size_t body_cap);

/* Writes the CGI header block to head.  A response that overflowed becomes a
 * 500.  The body is dropped for HEAD and for status 304. */
void http_response_head(struct http_response *res,
                        const struct http_request *req, struct buf *head);

/* Appends "name: value"; CR and LF in value make the response a 500. */
void http_header(struct http_response *res, const char *name,
                 const char *value);

/* Turns *res into an RFC 9457 problem.  Drops the body and all headers except
 * Set-Cookie, so further headers (Retry-After) must be added afterwards.
 * faults may be NULL. */
void http_problem(struct http_response *res, const struct http_request *req,
                  int status, const char *code, const char *detail,
                  const struct faults *faults);

enum http_cookie { HTTP_COOKIE_NONE, HTTP_COOKIE_ONE, HTTP_COOKIE_CONFLICT };

/* Finds the cookie called name (RFC 6265 section 4.2).  Empty values are
 * ignored; different values are a conflict. */
enum http_cookie http_cookie_find(pj_str_t cookie_header, const char *name,
                                  pj_str_t *value);

/* Returns the next non-empty value of the cookie called name and advances
 * *rest, initially the whole header.  False at the end. */
bool http_cookie_next(pj_str_t *rest, const char *name, pj_str_t *value);

/* Appends Set-Cookie with the refresh token, or to clear it (Max-Age=0). */
void http_cookie_set(struct http_response *res, const struct config *cfg,
                     pj_str_t token, int64_t max_age_s);
#define http_cookie_clear(res, cfg)                                            \
    http_cookie_set(res, cfg, (pj_str_t){NULL, 0}, 0)

/* Returns the token of "Authorization: Bearer x" (RFC 6750 section 2.1) or of
 * "DPoP x" (RFC 9449 section 7.1), or an empty span. data is NULL if the scheme
 * is another. */
pj_str_t http_token(pj_str_t authorization, bool *dpop);

/* Returns true if the origin, as browsers send it, is among origins, which are
 * separated by blanks (NULL for none) and may be patterns. */
bool http_origin_listed(const char *origins, pj_str_t origin);

/* Returns true if the request may use the cookie: its Origin is listed or its
 * own host, or it is not from a cross-site page of a browser. */
bool http_origin_allowed(const struct config *cfg,
                         const struct http_request *req);

/* Returns true if content_type is type, with charset utf-8 or without
 * charset. */
bool http_is_media(pj_str_t content_type, const char *type);
#define http_is_json(content_type)                                             \
    http_is_media(content_type, "application/json")

#define HTTP_ETAG_MAX 35 /* including quotes and NUL */

/* Writes the strong entity tag of a document, a hash of its bytes. */
void http_etag(char etag[HTTP_ETAG_MAX], const void *document, size_t len);

/* Returns true if value contains etag or is "*". value is of If-Match (strong,
 * RFC 9110 section 13.1.1) or If-None-Match (section 13.1.2). */
bool http_etag_matches(pj_str_t value, const char *etag, bool strong);
