
/*
 * Used by all rooms: names, headers, texts, counters, the state of a request.
 */


#ifndef _NGX_HTTP_PGW_BASE_H_INCLUDED_
#define _NGX_HTTP_PGW_BASE_H_INCLUDED_


#include "ngx_http_pgw.h"
#include "nginx/nginx.h"


#define ngx_http_pgw_span(s)  ((pj_str_t) { (s)->data, (s)->len })


/* ngx_http_pgw_names.c */

/* Maps letters to lower case, and all but letters and digits to '-'. */

static ngx_inline u_char
ngx_http_pgw_names_fold(u_char c)
{
    c = ngx_tolower(c);

    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
}

/* Removes the first name from a list, which is separated by commas or by the
   separator.  Returns 0 at the end of the list. */
#define ngx_http_pgw_names_next(rest, name)                                   \
    ngx_http_pgw_names_split(rest, ',', name)

ngx_uint_t ngx_http_pgw_names_split(ngx_str_t *rest, u_char separator,
    ngx_str_t *name);

/* Compares two names and ignores case. */
ngx_uint_t ngx_http_pgw_names_same(const ngx_str_t *a, const ngx_str_t *b);

/* Returns 1 if a comma-separated list has the name. */
ngx_uint_t ngx_http_pgw_names_has(const ngx_str_t *list,
    const ngx_str_t *name, ngx_uint_t any_case);

/* Returns 1 if a parameter of a directive begins with a name and "=", and sets
   *value to the rest. */

static ngx_inline ngx_uint_t
ngx_http_pgw_names_parameter(const ngx_str_t *parameter, const char *name,
    ngx_str_t *value)
{
    size_t  len = ngx_strlen(name);

    if (parameter->len <= len || parameter->data[len] != '='
        || ngx_memcmp(parameter->data, name, len) != 0)
    {
        return 0;
    }

    value->data = parameter->data + len + 1;
    value->len = parameter->len - len - 1;

    return 1;
}

/* Adds an element to an array, which is created if it is not set.  Returns NULL
   if memory is short. */

static ngx_inline void *
ngx_http_pgw_names_push(ngx_conf_t *cf, ngx_array_t **array, size_t size)
{
    if (*array == NULL || *array == NGX_CONF_UNSET_PTR) {
        *array = ngx_array_create(cf->pool, 2, size);
    }

    return *array ? ngx_array_push(*array) : NULL;
}

/* Compares the name of a header with a literal. */

#define ngx_http_pgw_header_is(h, literal)                                    \
    ((h)->key.len == sizeof(literal) - 1                                      \
     && ngx_strncasecmp((h)->key.data, (u_char *) (literal),                  \
                        sizeof(literal) - 1) == 0)

/* Cheaper, for a request's header and a literal in lower case. */

#define ngx_http_pgw_header_in_is(h, literal)                                 \
    ((h)->key.len == sizeof(literal) - 1                                      \
     && ngx_memcmp((h)->lowcase_key, literal, sizeof(literal) - 1) == 0)

/* Counts the headers of a request with a name, in lower case.  *value is the
   value of the last. */
ngx_uint_t ngx_http_pgw_names_find(const ngx_list_part_t *list,
    const char *name, ngx_str_t *value);

/* Iterates over a list of headers, beginning with { &list->part, 0 }.  Returns
   NULL at the end.  The list may be zeroed, as in HTTP/0.9. */

typedef struct {
    const ngx_list_part_t       *part;
    ngx_uint_t                   i;
} ngx_http_pgw_walk_t;

static ngx_inline ngx_table_elt_t *
ngx_http_pgw_header_next(ngx_http_pgw_walk_t *walk)
{
    while (walk->part && walk->i >= walk->part->nelts) {
        walk->part = walk->part->next;
        walk->i = 0;
    }

    return walk->part ? (ngx_table_elt_t *) walk->part->elts + walk->i++ : NULL;
}


/* ngx_http_pgw_origin.c */

/* Returns 1 if platform_gateway_cors_origins allows the origin. */
ngx_uint_t ngx_http_pgw_origin_allowed(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_str_t *origin);

/* Returns 1 if a page has sent r, and its origin is not allowed. */
ngx_uint_t ngx_http_pgw_origin_foreign(const ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf);

/* Returns 1 if the origin is that of r. */
ngx_uint_t ngx_http_pgw_origin_same(const ngx_http_request_t *r,
    const ngx_str_t *origin);


/* Checks scheme "://" [ "*." ] host [ ":" port ], in lower case.  Returns NULL,
   or the fault. */
const char *ngx_http_pgw_origin_fault(const char *origin);


/* ngx_http_pgw_trace.c */

/* The id of the trace in a traceparent. */

#define NGX_HTTP_PGW_TRACE_ID      3     /* offset */
#define NGX_HTTP_PGW_TRACE_ID_LEN  32
#define NGX_HTTP_PGW_TRACE_LEN     55    /* of a traceparent, version 00 */

/* platform_gateway_trace */

typedef enum {
    NGX_HTTP_PGW_TRACE_PASS = 0,
    NGX_HTTP_PGW_TRACE_BEGIN,
    NGX_HTTP_PGW_TRACE_OFF
} ngx_http_pgw_trace_e;

extern ngx_conf_enum_t  ngx_http_pgw_trace_modes[];

/* Checks a traceparent.  A later version than 00 may be longer. */
ngx_uint_t ngx_http_pgw_trace_valid(const ngx_str_t *value);


/*
 * Parts of shared memory zones.  A part is found by its kind and name, so it
 * survives reloads, like its zone.  A different build of the module gets a new
 * zone, because nginx does not share zones between modules.
 */


enum {
    NGX_HTTP_PGW_ZONE_KEYS = 0,
    NGX_HTTP_PGW_ZONE_REVOKED,
    NGX_HTTP_PGW_ZONE_PROOFS,
    NGX_HTTP_PGW_ZONE_COUNTERS,
    NGX_HTTP_PGW_ZONE_ROUTE
};


/* The beginning of each part. */

typedef struct ngx_http_pgw_zone_part_s  ngx_http_pgw_zone_part_t;

struct ngx_http_pgw_zone_part_s {
    ngx_uint_t                 kind;
    ngx_http_pgw_zone_part_t  *next;
    size_t                     len;     /* of the name, which ends the part */
};


/*
 * Returns the part with the kind and name, zeroed if it is new, or NULL if the
 * zone is too small.  Readers need no lock, because only the master process
 * adds parts, and no process removes them.
 */
void *ngx_http_pgw_zone_part(ngx_shm_zone_t *shm_zone, ngx_uint_t kind,
    size_t size, const ngx_str_t *name);


/* ngx_http_pgw_text.c */

typedef struct {
    ngx_http_request_t          *request;      /* the rest is zero at first */
    u_char                      *start;
    u_char                      *last;
    u_char                      *end;
    ngx_uint_t                   failed;       /* out of memory */
    ngx_pool_t                  *pool;         /* NULL for the request's */
} ngx_http_pgw_text_t;

/* Formats like ngx_sprintf(). */
void ngx_http_pgw_text_format(ngx_http_pgw_text_t *text, const char *fmt, ...);

/* The text so far. */
#define ngx_http_pgw_text_value(text)                                         \
    ((ngx_str_t) { (size_t) ((text)->last - (text)->start), (text)->start })

/* Writes a number, and returns the end. */

static ngx_inline u_char *
ngx_http_pgw_text_digits(u_char *p, uint64_t n)
{
    u_char  digits[NGX_INT64_LEN], *first, *last;

    last = digits + sizeof(digits);
    first = last;

    do {
        *--first = (u_char) ('0' + n % 10);
        n /= 10;
    } while (n);

    return ngx_cpymem(p, first, (size_t) (last - first));
}

/* Makes room for len bytes at text->last.  Returns NULL if memory is short. */
u_char *ngx_http_pgw_text_grow(ngx_http_pgw_text_t *text, size_t len);

#define ngx_http_pgw_text_reserve(text, len)                                  \
    ((size_t) ((text)->end - (text)->last) >= (len)                           \
     ? (text)->last : ngx_http_pgw_text_grow(text, len))

/*
 * Append the literal before, then a JSON value: a string, a string that needs
 * no escaping, or a number.  s is an ngx_str_t or a pj_str_t.  The value is
 * null if s->data is NULL or n is negative.
 */
#define ngx_http_pgw_text_json(text, before, s)                               \
    ngx_http_pgw_text_string(text, before, ngx_strlen(before),                \
                             (pj_str_t) { (s)->data, (s)->len }, 0)
#define ngx_http_pgw_text_plain(text, before, s)                              \
    ngx_http_pgw_text_string(text, before, ngx_strlen(before),                \
                             (pj_str_t) { (s)->data, (s)->len }, 1)
#define ngx_http_pgw_text_number(text, before, n)                             \
    ngx_http_pgw_text_integer(text, before, ngx_strlen(before), (int64_t) (n))

/* Inline, because a line of the access log has eighteen strings. */

static ngx_inline void
ngx_http_pgw_text_string(ngx_http_pgw_text_t *text, const char *before,
    size_t len, pj_str_t s, ngx_uint_t plain)
{
    size_t   most;
    u_char  *p;

    /* an escaped byte takes up to six; a long text is measured instead */

    most = plain ? s.len
           : s.len < 128 ? 6 * s.len : pj_json_escape(NULL, s);

    p = ngx_http_pgw_text_reserve(text, len + most + sizeof("null"));
    if (p == NULL) {
        return;
    }

    p = ngx_cpymem(p, before, len);

    if (s.data == NULL) {
        text->last = ngx_cpymem(p, "null", 4);
        return;
    }

    *p++ = '"';
    p = plain || pj_json_plain(s) ? ngx_cpymem(p, s.data, s.len)
                                  : p + pj_json_escape((char *) p, s);
    *p++ = '"';

    text->last = p;
}

static ngx_inline void
ngx_http_pgw_text_integer(ngx_http_pgw_text_t *text, const char *before,
    size_t len, int64_t n)
{
    u_char  *p;

    p = ngx_http_pgw_text_reserve(text, len + NGX_INT64_LEN);
    if (p) {
        p = ngx_cpymem(p, before, len);
        text->last = n < 0 ? ngx_cpymem(p, "null", 4)
                           : ngx_http_pgw_text_digits(p, (uint64_t) n);
    }
}

/* Appends a C string that needs no escaping, or null. */

static ngx_inline void
ngx_http_pgw_text_literal(ngx_http_pgw_text_t *text, const char *before,
    const char *literal)
{
    const pj_str_t  s = { (const u_char *) literal,
                          literal ? ngx_strlen(literal) : 0 };

    ngx_http_pgw_text_plain(text, before, &s);
}

/* Appends s as an element of a JSON array. */
#define ngx_http_pgw_text_item(text, s)                                       \
    ngx_http_pgw_text_json(text, (text)->failed || (text)->last[-1] == '['    \
                           ? "" : ",", s)

/* Sends the text with status 200, not to be cached or with that Cache-Control.
   A content handler may return the result. */
#define ngx_http_pgw_text_send(text, type)                                    \
    ngx_http_pgw_text_send_cached(text, type,                                 \
                                  ngx_http_pgw_header_text("no-store"))
ngx_int_t ngx_http_pgw_text_send_cached(ngx_http_pgw_text_t *text,
    const char *type, const ngx_str_t *cache_control);


/* How, and how long ago, the user of a token has to have authenticated. */

struct ngx_http_pgw_authentication_s {
    ngx_http_pgw_rule_t          acr;          /* only values; none for any */
    time_t                       max_age;      /* s; 0 for any */
    ngx_str_t                    challenge;    /* ", acr_values=..." */
};


/* ngx_http_pgw_request.c */

typedef enum {
    NGX_HTTP_PGW_DECISION_NONE = 0,
    NGX_HTTP_PGW_DECISION_ALLOW,
    NGX_HTTP_PGW_DECISION_DENY,
    NGX_HTTP_PGW_DECISION_SHADOW,
    NGX_HTTP_PGW_DECISIONS
} ngx_http_pgw_decision_e;

extern const ngx_str_t  ngx_http_pgw_request_decisions[NGX_HTTP_PGW_DECISIONS];

/* $platform_client_network */
extern ngx_http_variable_t  ngx_http_pgw_request_variables[];

/* Returns the state of the main request.  The first call creates it, strips the
   headers and chooses the ids.  r may be a request whose line did not parse.
   Returns NULL if memory is short. */
ngx_http_pgw_request_t *ngx_http_pgw_request_begin(ngx_http_request_t *r);

/* Returns the state, or NULL before request_begin(). */
ngx_http_pgw_request_t *ngx_http_pgw_request_get(const ngx_http_request_t *r);

/* Returns the state to record a decision in: for a subrequest, a copy. */
ngx_http_pgw_request_t *ngx_http_pgw_request_writable(ngx_http_request_t *r);

/* Returns the context of r, which the first call creates, or NULL if memory is
   short. */
ngx_http_pgw_ctx_t *ngx_http_pgw_request_ctx(ngx_http_request_t *r);

/* Return the reason and the decision for a request with the state gr, or 0
   before a decision. */
ngx_uint_t ngx_http_pgw_request_reason(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr);
ngx_http_pgw_decision_e ngx_http_pgw_request_decision(
    const ngx_http_request_t *r, const ngx_http_pgw_request_t *gr);

/* Returns the reason of a refusal, or NULL.  It applies to a response only if
   the status is equal, because a later location may answer with a different
   one. */
const ngx_http_pgw_reason_t *ngx_http_pgw_request_refusal(
    const ngx_http_pgw_request_t *gr);

/*
 * Refuses r for the reason.  gr is request_writable(r).  detail needs no
 * escaping in JSON and lives as long as r; NULL means the detail of the reason.
 * The reason sets WWW-Authenticate, the location Allow, and gr->retry_after
 * Retry-After.  gr->required must be set before a 403.  Returns the status,
 * which a phase handler returns, or NGX_ERROR if memory is short.
 */
ngx_int_t ngx_http_pgw_request_refuse(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, ngx_http_pgw_reason_e reason,
    const char *detail);

/* Installs the filter that adds the ids to responses. */
ngx_int_t ngx_http_pgw_request_init(ngx_conf_t *cf);


/*
 * Counters in shared memory.  All workers add to the same words by
 * ngx_atomic_fetch_add(), including workers of an older configuration.  A route
 * id keeps its counters as long as the zone exists, even while no configuration
 * names it.
 */


/* Buckets of a histogram; the last is unbounded. */
#define NGX_HTTP_PGW_DURATIONS  12

/* Classes of the upstream's status: 0 without an answer, 1 for 1xx, ... */
#define NGX_HTTP_PGW_CLASSES    6


typedef enum {
    NGX_HTTP_PGW_CACHE_HIT = 0,
    NGX_HTTP_PGW_CACHE_MISS,
    NGX_HTTP_PGW_CACHE_EVICTION,    /* removed to make room */
    NGX_HTTP_PGW_CACHE_EVENTS
} ngx_http_pgw_cache_e;


typedef struct {
    ngx_atomic_t              buckets[NGX_HTTP_PGW_DURATIONS];
    ngx_atomic_t              ms;   /* sum */
} ngx_http_pgw_histogram_t;


/* The counters of a route, in the zone. */

typedef struct {
    ngx_http_pgw_zone_part_t  part;  /* its name is the route's id */

    ngx_atomic_t              requests[NGX_HTTP_PGW_DECISIONS];
    ngx_http_pgw_histogram_t  durations;
    ngx_atomic_t              upstream[NGX_HTTP_PGW_CLASSES];
} ngx_http_pgw_counters_t;


/* The counters of a reason. */

typedef struct {
    ngx_atomic_t              refusals[2];    /* by decision, from DENY on */
    ngx_atomic_t              verifications;  /* of tokens */
} ngx_http_pgw_reasons_t;


/* The counters that routes share. */

struct ngx_http_pgw_shared_s {
    ngx_http_pgw_zone_part_t  part;

    ngx_http_pgw_reasons_t    reasons[NGX_HTTP_PGW_REASONS];
    ngx_atomic_t              cache[NGX_HTTP_PGW_CACHE_EVENTS];
    ngx_atomic_t              cached[NGX_MAX_PROCESSES];  /* tokens, by
                                                             ngx_process_slot */

    ngx_atomic_t              assertions;   /* signed */
    ngx_atomic_t              unchecked;    /* admitted with a stale feed */
    ngx_http_pgw_histogram_t  lag;  /* from a revocation to its effect */
};


/* A route id of the configuration. */

struct ngx_http_pgw_route_s {
    ngx_http_pgw_route_t     *next;
    ngx_str_t                 id;
    ngx_http_pgw_counters_t  *counters;  /* NULL if it is not counted */
};


/* The counters of this process: in shared memory, or private if no location
   shows them. */
extern ngx_http_pgw_shared_t  *ngx_http_pgw_counters;

/* Increment a member, and set the number of tokens in this worker's cache. */
#define ngx_http_pgw_counters_inc(member)                                     \
    ((void) ngx_atomic_fetch_add(&ngx_http_pgw_counters->member, 1))
#define ngx_http_pgw_counters_cached(tokens)                                  \
    (ngx_http_pgw_counters->cached[ngx_process_slot] = (tokens))


/* Adds a duration to a histogram. */
void ngx_http_pgw_counters_add(ngx_http_pgw_histogram_t *h, ngx_msec_t ms);

/* Returns the route with the id, which the first call creates, or NULL if
   memory is short. */
ngx_http_pgw_route_t *ngx_http_pgw_counters_route(ngx_conf_t *cf,
    const ngx_str_t *id);

/* Adds the zone of the counters.  Name and size follow the zone of keys.
   Called at postconfiguration. */
char *ngx_http_pgw_counters_init_conf(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);

/* Sets the counters of this process; shared may be NULL. */
void ngx_http_pgw_counters_init_process(ngx_http_pgw_shared_t *shared);


/* ngx_http_pgw_headers.c */

/*
 * Sets the headers of r in one pass: removes all context headers and headers
 * with similar names, sets the ids, and adds the headers of grant, which may be
 * NULL.  Authorization and DPoP are removed or kept as conf requires; without
 * conf Authorization is restored.  A token in another place is removed
 * permanently.
 *
 * The first call for a main request, with a new gr, ignores the location.  It
 * sets gr->sent and chooses the ids: the client's, if they are well-formed and
 * not repeated, or new ids.  It changes no header if the gateway is off in the
 * whole server.
 *
 * Elements and list parts that another request may share are not modified.
 */
ngx_int_t ngx_http_pgw_headers_make(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_grant_t *grant);

/* Returns 1 if the proof of a request is not for the upstream. */
#define ngx_http_pgw_headers_hide_proof(conf)                                 \
    ((conf)->proof && !(conf)->forward_proof)

/* Adds a response header.  name is a literal.  Returns NULL if memory is
   short. */
#define ngx_http_pgw_header_add(r, name, value)                               \
    ngx_http_pgw_headers_push(r, name, sizeof(name) - 1, value)

static ngx_inline ngx_table_elt_t *
ngx_http_pgw_headers_push(ngx_http_request_t *r, const char *name, size_t len,
    const ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NULL;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));

    h->hash = 1;
    h->key.len = len;
    h->key.data = (u_char *) name;
    h->value = *value;

    return h;
}

/* A literal as the value of a header, in an expression. */
#define ngx_http_pgw_header_text(literal)                                     \
    (&(const ngx_str_t) ngx_string(literal))

/* Sets the value of a variable, which is not found if len is 0. */
ngx_int_t ngx_http_pgw_headers_value(ngx_http_variable_value_t *v, u_char *data,
    size_t len);

/* Removes names from a comma-separated list, up to a name that the server
   strips.  Returns 0 at the end of the list.  The ids are not stripped. */
ngx_uint_t ngx_http_pgw_headers_stripped(
    const ngx_http_core_srv_conf_t *server, ngx_str_t *list, ngx_str_t *name);


/* ngx_http_pgw_source.c */


/* platform_gateway_token_from off | [cookie=NAME] [subprotocol[=PREFIX]]; */
ngx_http_pgw_set_t  ngx_http_pgw_source_directive;

/*
 * Searches the places of conf->token_from for the token of r.  reason is NONE
 * with *token from Authorization, or TOKEN_MISSING.  Returns NONE with *token,
 * or the reason to refuse r.  The result must not be cached with the token,
 * because it depends on the request.
 */
ngx_http_pgw_reason_e ngx_http_pgw_source_find(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_reason_e reason, pj_str_t *token);

/*
 * Removes a token from a request's header.  Returns NGX_DECLINED if h may be
 * forwarded as it is.  Returns NGX_OK with *rest, a copy without the token, or
 * with *rest unchanged if nothing else is in h.
 */
ngx_int_t ngx_http_pgw_source_hide(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_table_elt_t *h,
    ngx_table_elt_t **rest);


/* ngx_http_pgw_path.c */

/*
 * Returns 0 if servers may interpret the client's path in different ways:
 * because it contains ";", "\", "#", an empty segment, "." or "..", or an
 * escape of these, of "/", of a control character or of an escape.  The query
 * is ignored.
 */
ngx_uint_t ngx_http_pgw_path_plain(const ngx_str_t *path);


#endif /* _NGX_HTTP_PGW_BASE_H_INCLUDED_ */
