/* Text of HTTP that both halves read alike.  Results point into arguments. */

#ifndef WEB_H_INCLUDED
#define WEB_H_INCLUDED

#include <pj.h>

/* Returns s without its first n bytes, which s must have. */
static inline pj_str_t web_skip(pj_str_t s, size_t n)
{
    return (pj_str_t){s.data + n, s.len - n};
}

bool web_begins(pj_str_t s, const char *text);

/* Removes spaces and tabs at both ends. */
pj_str_t web_trim(pj_str_t s);

/* Removes a pair of quotes. */
pj_str_t web_unquote(pj_str_t s);

/* Returns the part before the first separator.  *rest is the part after it; its
 * data is NULL if s lacks the separator. */
pj_str_t web_split(pj_str_t s, char separator, pj_str_t *rest);

/* Returns true if s is not empty and has only ASCII letters, digits and
 * characters of others. */
bool web_plain(pj_str_t s, const char *others);

/* Returns true if a client may choose this X-Request-Id or X-Correlation-Id: 1
 * to 128 letters, digits and "-.:_". */
bool web_id_valid(pj_str_t id);

/* Returns true if an item of Cookie (RFC 6265 section 4.2.1) is NAME=value.
 * *value is trimmed and unquoted, and may be empty. */
bool web_cookie(pj_str_t item, pj_str_t name, pj_str_t *value);

/* Returns true if host is labels of letters, digits, "-" and "_" with single
 * dots between them. */
bool web_labels(pj_str_t host);

/* An allowed origin, or a pattern: a prefix, "*" and a suffix. */
typedef struct {
    pj_str_t text;   /* without the scheme's default port */
    size_t prefix;   /* bytes of text before "*", or of all text */
    pj_str_t suffix; /* empty, or like ".example.com:8443" */
} web_origin_t;

/* Sets *allowed from a valid origin or pattern, in any letter case. */
void web_origin_set(web_origin_t *allowed, pj_str_t text);

/* Returns true if the origin is allowed, as browsers send it: in lower case and
 * without the default port (RFC 6454 section 6.2).  "*" matches labels. */
bool web_origin_match(const web_origin_t *allowed, pj_str_t origin);

/* Returns true if the origin has the host and port of a request with this Host.
 * Its scheme must be https with tls; else it may also be http, because a proxy
 * may have terminated TLS.  A missing port is the scheme's default port. */
bool web_origin_own(pj_str_t origin, pj_str_t host, bool tls);

#endif /* WEB_H_INCLUDED */
