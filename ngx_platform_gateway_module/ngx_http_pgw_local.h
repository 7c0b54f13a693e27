
/*
 * What the gateway writes and answers by itself: the access log, problems, its
 * content handlers, explanations, OPTIONS, and the CORS headers of all other
 * responses.
 */


#ifndef _NGX_HTTP_PGW_LOCAL_H_INCLUDED_
#define _NGX_HTTP_PGW_LOCAL_H_INCLUDED_


#include "ngx_http_pgw.h"


/* ngx_http_pgw_reason.c: what decisions mean, and refusing */

/* How and why r, the state of which is gr, was decided; 0: it was not. */
ngx_uint_t ngx_http_pgw_reason(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr);
ngx_http_pgw_decision_e ngx_http_pgw_decision(const ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr);

/* Our refusal that is being answered, or NULL.  It holds for a response of its
   status alone, since a later location may answer with another. */
const ngx_http_pgw_reason_t *ngx_http_pgw_refusal(
    const ngx_http_pgw_request_t *gr);

/* The reason that this result of a token's checks gives, and that for which
   nginx itself refuses with a status; 0: none. */
ngx_http_pgw_reason_e ngx_http_pgw_reason_of_token(pj_err_t err);
ngx_http_pgw_reason_e ngx_http_pgw_reason_of_status(ngx_uint_t status);

/*
 * Marks r as refused by us for that reason.  detail lives as long as r and
 * needs no escaping in JSON; NULL: the reason's own.  WWW-Authenticate follows
 * from the reason, Allow from the location, Retry-After from gr->retry_after.
 * gr->required must be set before a 403.  Returns the status, for the phase
 * handler to return in turn; NGX_ERROR when memory is short.  gr is
 * request_own(r).
 */
ngx_int_t ngx_http_pgw_reason_refuse(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, ngx_http_pgw_reason_e reason,
    const char *detail);


/* ngx_http_pgw_log.c: text written piece by piece, and the access log */

typedef struct {
    ngx_http_request_t          *request;      /* the others begin as zeroes */
    u_char                      *start;
    u_char                      *last;
    u_char                      *end;
    ngx_uint_t                   failed;       /* out of memory */
} ngx_http_pgw_text_t;

/* As ngx_sprintf(). */
void ngx_http_pgw_text_format(ngx_http_pgw_text_t *text, const char *fmt, ...);

/* Writes n, and returns its end. */
u_char *ngx_http_pgw_text_digits(u_char *p, uint64_t n);

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

/* Inline: the log of a request has seventeen. */

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

/* Answers 200 with the text, whatever body r has; what it returns, a content
   handler may, too. */
ngx_int_t ngx_http_pgw_text_send(ngx_http_pgw_text_t *text, const char *type);

extern ngx_http_variable_t  ngx_http_pgw_log_variables[];

/* The value of a variable; len 0: it is not found. */
ngx_int_t ngx_http_pgw_log_value(ngx_http_variable_value_t *v, u_char *data,
    size_t len);

/* How long the request has taken by now, and the last attempt at an upstream;
   NULL: there was none. */
ngx_msec_t ngx_http_pgw_log_duration(const ngx_http_request_t *r);
const ngx_http_upstream_state_t *ngx_http_pgw_log_upstream(
    const ngx_http_request_t *r);


/* ngx_http_pgw_problem.c: RFC 9457 bodies */

/* Puts the header and body filters before those of all other modules. */
void ngx_http_pgw_problem_init(void);


/* ngx_http_pgw_locate.c: which location serves a path */

/*
 * Sets *loc_conf, where the search begins (that of a server), to what serves
 * uri, as nginx finds it.  NGX_OK; NGX_DONE: nginx redirects to the path and
 * "/", which *loc_conf serves; NGX_DECLINED: no location matches, *loc_conf is
 * what it was; NGX_ERROR.  Captures go to r, NULL: nowhere.
 */
ngx_int_t ngx_http_pgw_locate(ngx_http_request_t *r, ngx_str_t *uri,
    void ***loc_conf);

/*
 * Reads a path as nginx reads that of a request line to server, into memory of
 * r: decoded, without arguments.  NGX_DECLINED: it is not accepted.
 */
ngx_int_t ngx_http_pgw_locate_uri(const ngx_http_request_t *r,
    const ngx_http_core_srv_conf_t *server, const ngx_str_t *path,
    ngx_str_t *uri);


/* ngx_http_pgw_local.c: content handlers of our own */

typedef struct {
    ngx_http_handler_pt          handler;
    ngx_uint_t                   methods;      /* that it takes, 0: any */
} ngx_http_pgw_content_t;

extern ngx_http_pgw_content_t  ngx_http_pgw_local_health;
extern ngx_http_pgw_content_t  ngx_http_pgw_local_ready;
extern ngx_http_pgw_content_t  ngx_http_pgw_local_route_not_found;
extern ngx_http_pgw_content_t  ngx_http_pgw_local_explain;

/* Refuses from a content handler; code NULL: that of the reason. */
ngx_int_t ngx_http_pgw_local_refuse(ngx_http_request_t *r,
    ngx_http_pgw_reason_e reason, const char *code, const char *detail,
    time_t retry_after);

/* Directives: set the content handler that cmd->post points to. */
ngx_http_pgw_set_t  ngx_http_pgw_local_content;

/* A location that explains must say who may ask, and of which server. */
char *ngx_http_pgw_local_merge(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *prev, ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_explain.c: what the gateway would do with a request */

typedef struct {
    ngx_http_core_srv_conf_t    *server;       /* that would be asked */
    ngx_str_t                    token;        /* data NULL: none */
    ngx_str_t                    method;
    ngx_str_t                    path;
    ngx_str_t                    origin;       /* of a page; data NULL: none */
    ngx_str_t                    headers;      /* that it sets: a list */
    int64_t                      at;           /* seconds */
} ngx_http_pgw_question_t;

ngx_int_t ngx_http_pgw_explain_answer(ngx_http_request_t *r,
    const ngx_http_pgw_question_t *question);

/* Of headers.c: the names among asked->headers that are stripped, as JSON
   strings with commas; an id is not, it is checked and may be replaced. */
void ngx_http_pgw_headers_explain(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_question_t *asked);


/* ngx_http_pgw_cors.c: OPTIONS, and the headers of all other responses */

ngx_int_t ngx_http_pgw_options_first_handler(ngx_http_request_t *r);
ngx_int_t ngx_http_pgw_options_last_handler(ngx_http_request_t *r);

/* Why the preflight for such a request would be refused, or NONE; *detail as
   reason_refuse() takes it. */
ngx_http_pgw_reason_e ngx_http_pgw_cors_ask(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_question_t *question, const char **detail);

/*
 * Answers OPTIONS; NGX_DECLINED for any other method, and in shadow mode for a
 * preflight that would be refused.
 */
ngx_int_t ngx_http_pgw_cors_options(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);

/*
 * Called from the header filter: takes out an upstream's CORS headers and adds
 * ours, on any response.
 */
ngx_int_t ngx_http_pgw_cors_headers(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_cors_conf.c: the cors_* directives */

/* Directive: ORIGIN ... | off; may be given several times. */
ngx_http_pgw_set_t  ngx_http_pgw_cors_origins;

/*
 * Directives: NAME ..., joined into the ngx_str_t at cmd->offset; "default"
 * among them stands for cmd->post, what holds without the directive.
 */
ngx_http_pgw_set_t  ngx_http_pgw_cors_list;

/* Takes the next name off a comma-separated list; false at its end. */
ngx_uint_t ngx_http_pgw_cors_next_name(ngx_str_t *rest, ngx_str_t *name);

/* Whether such a list has the name. */
ngx_uint_t ngx_http_pgw_cors_list_has(const ngx_str_t *list,
    const ngx_str_t *name, ngx_uint_t any_case);

/* Whether name has one byte or more, all letters, digits, '-' or '_'. */
ngx_uint_t ngx_http_pgw_cors_is_token(const ngx_str_t *name);


#endif /* _NGX_HTTP_PGW_LOCAL_H_INCLUDED_ */
