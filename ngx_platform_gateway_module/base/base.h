
/*
 * The base of all rooms: names, headers, texts, counters, a request's state.
 */


#ifndef _NGX_HTTP_PGW_BASE_H_INCLUDED_
#define _NGX_HTTP_PGW_BASE_H_INCLUDED_


#include "ngx_http_pgw.h"


/* ngx_http_pgw_names.c */

/* Lower case for letters, digits as they are, '-' for any other byte. */

static ngx_inline u_char
ngx_http_pgw_names_fold(u_char c)
{
    c = ngx_tolower(c);

    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
}

/* Takes the next name off a list that commas separate, or whatever does; false
   at its end. */
#define ngx_http_pgw_names_next(rest, name)                                   \
    ngx_http_pgw_names_split(rest, ',', name)

ngx_uint_t ngx_http_pgw_names_split(ngx_str_t *rest, u_char separator,
    ngx_str_t *name);

/* Whether two names are the same but for their case. */
ngx_uint_t ngx_http_pgw_names_same(const ngx_str_t *a, const ngx_str_t *b);

/* Whether such a list has the name. */
ngx_uint_t ngx_http_pgw_names_has(const ngx_str_t *list,
    const ngx_str_t *name, ngx_uint_t any_case);

/* Whether name is not empty, and all letters, digits and these others. */
ngx_uint_t ngx_http_pgw_names_plain(const ngx_str_t *name, const char *others);

/* Whether h has that name, a literal. */

#define ngx_http_pgw_header_is(h, literal)                                    \
    ((h)->key.len == sizeof(literal) - 1                                      \
     && ngx_strncasecmp((h)->key.data, (u_char *) (literal),                  \
                        sizeof(literal) - 1) == 0)

/* The same of a request's h, with a lower-case literal: cheaper. */

#define ngx_http_pgw_header_in_is(h, literal)                                 \
    ((h)->key.len == sizeof(literal) - 1                                      \
     && ngx_memcmp((h)->lowcase_key, literal, sizeof(literal) - 1) == 0)

/* How many of a request's headers have that name, in lower case; *value is the
   last one's. */
ngx_uint_t ngx_http_pgw_names_find(const ngx_list_part_t *list,
    const char *name, ngx_str_t *value);

/* Walks a list of headers from { &list->part, 0 } on.  NULL at the end, and at
   once for a list that was never set up (HTTP/0.9). */

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

/* Whether these bytes are one or more labels with single dots between them. */
ngx_uint_t ngx_http_pgw_origin_is_labels(const u_char *p, const u_char *last);

/* Whether it is one of platform_gateway_cors_origins. */
ngx_uint_t ngx_http_pgw_origin_allowed(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_str_t *origin);

/*
 * Whether it is that of r itself: its host and port are those of Host.  Without
 * TLS here, a balancer may have ended it, so https will do as well as http.
 */
ngx_uint_t ngx_http_pgw_origin_same(const ngx_http_request_t *r,
    const ngx_str_t *origin);


/* ngx_http_pgw_trace.c */

/* Where the id of the trace is in a traceparent, and how long that is. */

#define NGX_HTTP_PGW_TRACE_ID      3
#define NGX_HTTP_PGW_TRACE_ID_LEN  32
#define NGX_HTTP_PGW_TRACE_LEN     55    /* of version 00 */

/* platform_gateway_trace */

typedef enum {
    NGX_HTTP_PGW_TRACE_PASS = 0,
    NGX_HTTP_PGW_TRACE_BEGIN,
    NGX_HTTP_PGW_TRACE_OFF
} ngx_http_pgw_trace_e;

extern ngx_conf_enum_t  ngx_http_pgw_trace_modes[];

/* Whether that is a traceparent of version 00, or begins as one and is of a
   later version. */
ngx_uint_t ngx_http_pgw_trace_valid(const ngx_str_t *value);


/*
 * Parts of shared memory zones.  A part is found again by its kind and a
 * name, so it lasts as long as its zone does: over reloads.  nginx keeps a zone
 * for the very module that made it: another build gets a new one.
 */


enum {
    NGX_HTTP_PGW_ZONE_KEYS = 0,
    NGX_HTTP_PGW_ZONE_REVOKED,
    NGX_HTTP_PGW_ZONE_COUNTERS,
    NGX_HTTP_PGW_ZONE_ROUTE,
    NGX_HTTP_PGW_ZONE_FETCHES,
    NGX_HTTP_PGW_ZONE_PAGES
};


/* A part begins with it. */

typedef struct ngx_http_pgw_zone_part_s  ngx_http_pgw_zone_part_t;

struct ngx_http_pgw_zone_part_s {
    ngx_uint_t                 kind;
    ngx_http_pgw_zone_part_t  *next;
    size_t                     len;     /* of the name, which ends the part */
};


/*
 * The part of that kind and name, made of zeroes where there is none.  Called
 * by the master process alone, which never takes one away: readers need no
 * lock.  NULL: the zone is too small.
 */
void *ngx_http_pgw_zone_part(ngx_shm_zone_t *shm_zone, ngx_uint_t kind,
    size_t size, const ngx_str_t *name);


/* ngx_http_pgw_text.c */

typedef struct {
    ngx_http_request_t          *request;      /* the others begin as zeroes */
    u_char                      *start;
    u_char                      *last;
    u_char                      *end;
    ngx_uint_t                   failed;       /* out of memory */
    ngx_pool_t                  *pool;         /* NULL: that of request */
} ngx_http_pgw_text_t;

/* As ngx_sprintf(). */
void ngx_http_pgw_text_format(ngx_http_pgw_text_t *text, const char *fmt, ...);

/* What has been written. */
#define ngx_http_pgw_text_value(text)                                         \
    ((ngx_str_t) { (size_t) ((text)->last - (text)->start), (text)->start })

/* Writes n, and returns its end. */

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

/* Room for len bytes at text->last; NULL: there is none. */
u_char *ngx_http_pgw_text_grow(ngx_http_pgw_text_t *text, size_t len);

#define ngx_http_pgw_text_reserve(text, len)                                  \
    ((size_t) ((text)->end - (text)->last) >= (len)                           \
     ? (text)->last : ngx_http_pgw_text_grow(text, len))

/* What stands before, then s (an ngx_str_t or a pj_str_t) as a JSON string, one
   that needs no escaping, or n; null where s->data is NULL or n negative. */
#define ngx_http_pgw_text_json(text, before, s)                               \
    ngx_http_pgw_text_string(text, before, ngx_strlen(before),                \
                             (pj_str_t) { (s)->data, (s)->len }, 0)
#define ngx_http_pgw_text_plain(text, before, s)                              \
    ngx_http_pgw_text_string(text, before, ngx_strlen(before),                \
                             (pj_str_t) { (s)->data, (s)->len }, 1)
#define ngx_http_pgw_text_number(text, before, n)                             \
    ngx_http_pgw_text_integer(text, before, ngx_strlen(before), (int64_t) (n))

/* Inline: the log of a request has eighteen. */

static ngx_inline void
ngx_http_pgw_text_string(ngx_http_pgw_text_t *text, const char *before,
    size_t len, pj_str_t s, ngx_uint_t plain)
{
    size_t   most;
    u_char  *p;

    /* a byte takes six at most, but that is too much room for a long text */

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

/* A C string that needs no escaping, or NULL. */

static ngx_inline void
ngx_http_pgw_text_literal(ngx_http_pgw_text_t *text, const char *before,
    const char *literal)
{
    const pj_str_t  s = { (const u_char *) literal,
                          literal ? ngx_strlen(literal) : 0 };

    ngx_http_pgw_text_plain(text, before, &s);
}

/* The same of s as the next element of a list. */
#define ngx_http_pgw_text_item(text, s)                                       \
    ngx_http_pgw_text_json(text, (text)->failed || (text)->last[-1] == '['    \
                           ? "" : ",", s)

/* Answers 200 with the text, whatever body r has; what it returns, a content
   handler may, too. */
ngx_int_t ngx_http_pgw_text_send(ngx_http_pgw_text_t *text, const char *type);


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

/* Makes the request-wide state of r's main request, unless it is there: strips
   its headers, and chooses its ids.  NULL when memory is short.  Works at any
   point in the life of r, a request line that did not parse included. */
ngx_http_pgw_request_t *ngx_http_pgw_request_begin(ngx_http_request_t *r);

/* That state, for whoever comes after POST_READ; NULL: it was not made. */
ngx_http_pgw_request_t *ngx_http_pgw_request_get(const ngx_http_request_t *r);

/* Where r notes what it decides and answers: that state, or for a subrequest a
   copy that is nobody else's. */
ngx_http_pgw_request_t *ngx_http_pgw_request_writable(ngx_http_request_t *r);

/* The context of this pass of r, made at first use; NULL: no memory. */
ngx_http_pgw_ctx_t *ngx_http_pgw_request_ctx(ngx_http_request_t *r);

/* How and why r, the state of which is gr, was decided; 0: it was not. */
ngx_uint_t ngx_http_pgw_request_reason(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr);
ngx_http_pgw_decision_e ngx_http_pgw_request_decision(
    const ngx_http_request_t *r, const ngx_http_pgw_request_t *gr);

/* Our refusal that is being answered, or NULL.  It holds for a response of its
   status alone, since a later location may answer with another. */
const ngx_http_pgw_reason_t *ngx_http_pgw_request_refusal(
    const ngx_http_pgw_request_t *gr);

/*
 * Marks r as refused by us for that reason.  detail lives as long as r and
 * needs no escaping in JSON; NULL: the reason's own.  WWW-Authenticate follows
 * from the reason, Allow from the location, Retry-After from gr->retry_after.
 * gr->required must be set before a 403.  Returns the status, for the phase
 * handler to return in turn; NGX_ERROR when memory is short.  gr is
 * request_writable(r).
 */
ngx_int_t ngx_http_pgw_request_refuse(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, ngx_http_pgw_reason_e reason,
    const char *detail);

/* Finds $request_id, to set it, and puts in the filter of responses' ids. */
ngx_int_t ngx_http_pgw_request_init(ngx_conf_t *cf);


/*
 * Counters, in shared memory.  All workers, those of an older configuration
 * too, add to the same words by ngx_atomic_fetch_add().  Each route id has its
 * counters once, for as long as the zone lives: a reload loses nothing, and a
 * route that one configuration drops and a later one names again goes on where
 * it stopped.
 */


/* Buckets of the histogram; the last one has no bound. */
#define NGX_HTTP_PGW_DURATIONS  12

/* The status of the upstream by hundreds; 0: it has not answered. */
#define NGX_HTTP_PGW_CLASSES    6


typedef enum {
    NGX_HTTP_PGW_FETCH_NEW = 0,     /* a new key set */
    NGX_HTTP_PGW_FETCH_UNCHANGED,   /* the one that is known */
    NGX_HTTP_PGW_FETCH_FAILED,
    NGX_HTTP_PGW_FETCH_SUPERSEDED,  /* by a reload, or too late */
    NGX_HTTP_PGW_FETCH_OUTCOMES
} ngx_http_pgw_fetch_e;


typedef enum {
    NGX_HTTP_PGW_FEED_READ = 0,     /* a page */
    NGX_HTTP_PGW_FEED_FAILED,
    NGX_HTTP_PGW_FEED_CURSOR,       /* refused: from the beginning again */
    NGX_HTTP_PGW_FEED_FULL,         /* no room for all of a page */
    NGX_HTTP_PGW_FEED_SUPERSEDED,
    NGX_HTTP_PGW_FEED_OUTCOMES
} ngx_http_pgw_feed_e;


typedef enum {
    NGX_HTTP_PGW_CACHE_HIT = 0,
    NGX_HTTP_PGW_CACHE_MISS,
    NGX_HTTP_PGW_CACHE_EVICTION,    /* for want of room */
    NGX_HTTP_PGW_CACHE_EVENTS
} ngx_http_pgw_cache_e;


typedef struct {
    ngx_atomic_t              buckets[NGX_HTTP_PGW_DURATIONS];
    ngx_atomic_t              ms;   /* of all together */
} ngx_http_pgw_histogram_t;


/* What is counted of a route; in the zone. */

typedef struct {
    ngx_http_pgw_zone_part_t  part;  /* its name is the route's id */

    ngx_atomic_t              requests[NGX_HTTP_PGW_DECISIONS];
    ngx_http_pgw_histogram_t  durations;
    ngx_atomic_t              upstream[NGX_HTTP_PGW_CLASSES];
} ngx_http_pgw_counters_t;


/* What is counted of a reason: by decision from DENY on; of tokens. */

typedef struct {
    ngx_atomic_t              refusals[2];
    ngx_atomic_t              verifications;
} ngx_http_pgw_reasons_t;


/*
 * Of all routes.  cached[] is indexed by a process's place in nginx's own
 * table, which no two live processes share.
 */

struct ngx_http_pgw_shared_s {
    ngx_http_pgw_zone_part_t  part;

    ngx_http_pgw_reasons_t    reasons[NGX_HTTP_PGW_REASONS];
    ngx_atomic_t              cache[NGX_HTTP_PGW_CACHE_EVENTS];
    ngx_atomic_t              cached[NGX_MAX_PROCESSES];

    ngx_atomic_t              unchecked;    /* let in with a stale feed */
    ngx_http_pgw_histogram_t  lag;  /* from a revocation to its effect */
};


/* A route id of the configuration. */

struct ngx_http_pgw_route_s {
    ngx_http_pgw_route_t     *next;
    ngx_str_t                 id;
    ngx_http_pgw_counters_t  *counters;  /* NULL: nothing is counted */
};


/* Where this process counts; for itself alone, where nothing shows it. */
extern ngx_http_pgw_shared_t  *ngx_http_pgw_counters;

/* One more of that member, and how many tokens our cache holds. */
#define ngx_http_pgw_counters_inc(member)                                     \
    ((void) ngx_atomic_fetch_add(&ngx_http_pgw_counters->member, 1))
#define ngx_http_pgw_counters_cached(tokens)                                  \
    (ngx_http_pgw_counters->cached[ngx_process_slot] = (tokens))

/* Counts a fetch by its outcome, fetch_e or feed_e; counted may be NULL. */
void ngx_http_pgw_counters_outcome(ngx_atomic_t *counted, ngx_uint_t outcome);

/* One more in a histogram. */
void ngx_http_pgw_counters_add(ngx_http_pgw_histogram_t *h, ngx_msec_t ms);

/* The route of that id, made at its first use; NULL: out of memory. */
ngx_http_pgw_route_t *ngx_http_pgw_counters_route(ngx_conf_t *cf,
    const ngx_str_t *id);

/* Sets where we count; NULL: for ourselves alone. */
void ngx_http_pgw_counters_init_process(ngx_http_pgw_shared_t *shared);


/* ngx_http_pgw_headers.c */

/*
 * Gives r the headers that are right for a location, in one pass: drops every
 * context header and each alias of one, sets the ids, and adds those of grant
 * (NULL: none); takes out Authorization where conf says so (NULL: puts it
 * back), and for good what the location of r takes a token from elsewhere.
 * With a new gr, of a main request, it does not look at the location: it
 * chooses the ids (the client's where they are well formed and sent once, else
 * new ones) and notes gr->sent.  Does no more where the gateway is off in the
 * whole server.
 *
 * Neither elements nor list parts that another request may share are written
 * to.
 */
ngx_int_t ngx_http_pgw_headers_make(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_grant_t *grant);

/* Adds a response header; name is a literal.  NULL when memory is short. */
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

/* A literal as such a value, within an expression. */
#define ngx_http_pgw_header_text(literal)                                     \
    (&(const ngx_str_t) ngx_string(literal))

/* The value of a variable; len 0: it is not found. */
ngx_int_t ngx_http_pgw_headers_value(ngx_http_variable_value_t *v, u_char *data,
    size_t len);

/* Takes names off a comma-separated list, up to one that server strips; false
   at its end.  An id is not stripped: it is checked and may be replaced. */
ngx_uint_t ngx_http_pgw_headers_stripped(
    const ngx_http_core_srv_conf_t *server, ngx_str_t *list, ngx_str_t *name);


/*
 * Where else than in Authorization a token may be.
 */


/* platform_gateway_token_from off | [cookie=NAME] [subprotocol[=PREFIX]]; */
ngx_http_pgw_set_t  ngx_http_pgw_source_directive;

/*
 * Looks for the token of r where conf->from says; gr is its request's, reason
 * NONE if Authorization has it, *token, else TOKEN_MISSING.  Returns NONE with
 * *token, or why there is none to judge: that is not what its verdict depends
 * on, so it has to be asked for each request.
 */
ngx_http_pgw_reason_e ngx_http_pgw_source_find(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_reason_e reason, pj_str_t *token);

/*
 * NGX_DECLINED: h, a header of a request, may go upstream as it is.  NGX_OK: it
 * has a token; *rest is a copy without, or as it was: nothing is left of it.
 */
ngx_int_t ngx_http_pgw_source_hide(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_table_elt_t *h,
    ngx_table_elt_t **rest);


/* ngx_http_pgw_path.c */

/*
 * Returns 0 if servers may read this path, as the client sent it, in different
 * ways: it has ";", "\", "#", an empty segment, "." or "..", or an escape of
 * one of these, of "/", of a control character or of another escape.  A query
 * after the path is not read.
 */
ngx_uint_t ngx_http_pgw_path_plain(const ngx_str_t *path);


#endif /* _NGX_HTTP_PGW_BASE_H_INCLUDED_ */
