
/*
 * $platform_access_json, the entry of the access log: one JSON object on one
 * line, whatever bytes the client sent.
 *
 * Written at every request, so nothing is formatted here that can be known
 * earlier: what a location always says is made when the configuration is read,
 * the ids are known to need no escaping, the time is kept for the next entry of
 * the same second.
 */


#include "ngx_http_pgw_log.h"
#include "ngx_http_pgw_json.h"


/*
 * The members in their order, each with what ends the one before.  What may be
 * null has its quotes from log_put().
 */

#define NGX_HTTP_PGW_LOG_TIME         "{\"time\":\""
#define NGX_HTTP_PGW_LOG_REQUEST_ID   "\",\"requestId\":"
#define NGX_HTTP_PGW_LOG_CORRELATION  ",\"correlationId\":"
#define NGX_HTTP_PGW_LOG_CLIENT_IP    ",\"clientIp\":"
#define NGX_HTTP_PGW_LOG_METHOD       ",\"method\":"
#define NGX_HTTP_PGW_LOG_PATH         ",\"path\":"
#define NGX_HTTP_PGW_LOG_STATUS       ",\"status\":"
#define NGX_HTTP_PGW_LOG_BYTES        ",\"bytes\":"
#define NGX_HTTP_PGW_LOG_DURATION     ",\"durationMs\":"
#define NGX_HTTP_PGW_LOG_ROUTE_ID     ",\"routeId\":"
#define NGX_HTTP_PGW_LOG_SERVICE      ",\"serviceName\":"
#define NGX_HTTP_PGW_LOG_ACCESS       ",\"access\":"
#define NGX_HTTP_PGW_LOG_DECISION     ",\"decision\":"
#define NGX_HTTP_PGW_LOG_REASON       ",\"reason\":"
#define NGX_HTTP_PGW_LOG_ACCOUNT_ID   ",\"accountId\":"
#define NGX_HTTP_PGW_LOG_SESSION_ID   ",\"sessionId\":"
#define NGX_HTTP_PGW_LOG_WORKSPACE    ",\"workspaceId\":"
#define NGX_HTTP_PGW_LOG_ADDR         ",\"upstreamAddr\":"
#define NGX_HTTP_PGW_LOG_UP_STATUS    ",\"upstreamStatus\":"
#define NGX_HTTP_PGW_LOG_UP_DURATION  ",\"upstreamDurationMs\":"
#define NGX_HTTP_PGW_LOG_USER_AGENT   ",\"userAgent\":"

/* All of those but the two of the location. */

#define NGX_HTTP_PGW_LOG_NAMES_LEN                                            \
    (sizeof(NGX_HTTP_PGW_LOG_TIME                                             \
            NGX_HTTP_PGW_LOG_REQUEST_ID                                       \
            NGX_HTTP_PGW_LOG_CORRELATION                                      \
            NGX_HTTP_PGW_LOG_CLIENT_IP                                        \
            NGX_HTTP_PGW_LOG_METHOD                                           \
            NGX_HTTP_PGW_LOG_PATH                                             \
            NGX_HTTP_PGW_LOG_STATUS                                           \
            NGX_HTTP_PGW_LOG_BYTES                                            \
            NGX_HTTP_PGW_LOG_DURATION                                         \
            NGX_HTTP_PGW_LOG_ACCESS                                           \
            NGX_HTTP_PGW_LOG_DECISION                                         \
            NGX_HTTP_PGW_LOG_REASON                                           \
            NGX_HTTP_PGW_LOG_ACCOUNT_ID                                       \
            NGX_HTTP_PGW_LOG_SESSION_ID                                       \
            NGX_HTTP_PGW_LOG_WORKSPACE                                        \
            NGX_HTTP_PGW_LOG_ADDR                                             \
            NGX_HTTP_PGW_LOG_UP_STATUS                                        \
            NGX_HTTP_PGW_LOG_UP_DURATION                                      \
            NGX_HTTP_PGW_LOG_USER_AGENT) - 1)

/* "{", "}" and the quotes of the time; numbers. */

#define NGX_HTTP_PGW_LOG_TIME_LEN                                             \
    (sizeof("1970-01-01T00:00:00.000Z") - 1)

#define NGX_HTTP_PGW_LOG_NUMBERS     5


/* A string that may need escaping, or may not be there. */

typedef struct {
    const ngx_str_t                     *text;
    size_t                               len;      /* as it is written, without
                                                      quotes */
    ngx_uint_t                           plain;    /* written as it is */
} ngx_http_pgw_log_text_t;

enum {
    NGX_HTTP_PGW_LOG_T_REQUEST = 0,
    NGX_HTTP_PGW_LOG_T_CORRELATION,
    NGX_HTTP_PGW_LOG_T_CLIENT_IP,
    NGX_HTTP_PGW_LOG_T_ACCOUNT,
    NGX_HTTP_PGW_LOG_T_SESSION,
    NGX_HTTP_PGW_LOG_T_WORKSPACE,
    NGX_HTTP_PGW_LOG_T_METHOD,
    NGX_HTTP_PGW_LOG_T_PATH,
    NGX_HTTP_PGW_LOG_T_PEER,
    NGX_HTTP_PGW_LOG_T_USER_AGENT,
    NGX_HTTP_PGW_LOG_TEXTS
};


static size_t ngx_http_pgw_log_texts(const ngx_http_pgw_log_ctx_t *lc,
    ngx_str_t *path, const ngx_http_upstream_state_t *upstream,
    ngx_http_pgw_log_text_t *text);
static ngx_str_t ngx_http_pgw_log_path(ngx_http_request_t *r);
static u_char *ngx_http_pgw_log_head(u_char *p, ngx_http_request_t *r,
    const ngx_http_pgw_log_text_t *text);
static u_char *ngx_http_pgw_log_tail(u_char *p,
    const ngx_http_upstream_state_t *upstream,
    const ngx_http_pgw_log_text_t *text);
static u_char *ngx_http_pgw_log_put(u_char *p,
    const ngx_http_pgw_log_text_t *text);
static u_char *ngx_http_pgw_log_plain(u_char *p, const ngx_str_t *text);
static u_char *ngx_http_pgw_log_number(u_char *p, uint64_t n);
static u_char *ngx_http_pgw_log_time(u_char *p);


#define ngx_http_pgw_log_copy(p, literal)                                     \
    ngx_cpymem(p, literal, sizeof(literal) - 1)


ngx_int_t
ngx_http_pgw_log_json(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    size_t                            len;
    u_char                           *p;
    ngx_str_t                         path, decision, reason;
    const ngx_str_t                  *access;
    ngx_http_pgw_log_ctx_t            lc;
    const ngx_http_upstream_state_t  *upstream;

    ngx_http_pgw_log_text_t text[NGX_HTTP_PGW_LOG_TEXTS];

    (void) data;

    if (ngx_http_pgw_log_start(r, &lc) != NGX_OK) {
        return NGX_ERROR;
    }

    upstream = ngx_http_pgw_log_upstream(r);
    access = ngx_http_pgw_log_access(&lc);
    decision = ngx_http_pgw_log_decision(&lc);
    reason = ngx_http_pgw_log_reason(&lc);

    len = NGX_HTTP_PGW_LOG_NAMES_LEN
          + NGX_HTTP_PGW_LOG_TIME_LEN
          + NGX_HTTP_PGW_LOG_NUMBERS * NGX_INT64_LEN
          + ngx_http_pgw_log_texts(&lc, &path, upstream, text)
          + lc.conf->log_route.len
          + access->len + decision.len + reason.len + 3 * (sizeof("null") - 1)
          + sizeof("}") - 1;

    p = ngx_pnalloc(r->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    v->data = p;

    p = ngx_http_pgw_log_head(p, r, text);
    p = ngx_cpymem(p, lc.conf->log_route.data, lc.conf->log_route.len);

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_ACCESS);
    p = ngx_http_pgw_log_plain(p, access);
    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_DECISION);
    p = ngx_http_pgw_log_plain(p, &decision);
    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_REASON);
    p = ngx_http_pgw_log_plain(p, &reason);

    p = ngx_http_pgw_log_tail(p, upstream, text);

    v->len = (unsigned) (p - v->data) & 0xfffffff;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


/* Written once for each location. */

ngx_int_t
ngx_http_pgw_log_merge(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    size_t                   len;
    u_char                  *p;
    ngx_http_pgw_log_text_t  route, service;

    route.text = &conf->route_id;
    route.plain = ngx_http_pgw_json_plain(route.text);
    route.len = ngx_http_pgw_json_escape(NULL, route.text);

    service.text = &conf->service_name;
    service.plain = ngx_http_pgw_json_plain(service.text);
    service.len = ngx_http_pgw_json_escape(NULL, service.text);

    len = sizeof(NGX_HTTP_PGW_LOG_ROUTE_ID NGX_HTTP_PGW_LOG_SERVICE)
          + route.len + service.len + 2 * (sizeof("null") - 1);

    p = ngx_pnalloc(cf->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    conf->log_route.data = p;

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_ROUTE_ID);
    p = ngx_http_pgw_log_put(p, &route);
    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_SERVICE);
    p = ngx_http_pgw_log_put(p, &service);

    conf->log_route.len = (size_t) (p - conf->log_route.data);

    return NGX_OK;
}


/* Collects the strings; returns how much room they take at most. */

static size_t
ngx_http_pgw_log_texts(const ngx_http_pgw_log_ctx_t *lc, ngx_str_t *path,
    const ngx_http_upstream_state_t *upstream, ngx_http_pgw_log_text_t *text)
{
    size_t                         len;
    ngx_uint_t                     i, known;
    ngx_http_request_t            *r;
    const ngx_http_pgw_subject_t  *subject;

    static const ngx_str_t  none = ngx_null_string;

    r = lc->request;
    subject = lc->gr ? &lc->gr->subject : NULL;
    *path = ngx_http_pgw_log_path(r);

    text[NGX_HTTP_PGW_LOG_T_REQUEST].text =
                                     lc->gr ? &lc->gr->request_id : &none;
    text[NGX_HTTP_PGW_LOG_T_CORRELATION].text =
                                     lc->gr ? &lc->gr->correlation_id : &none;
    text[NGX_HTTP_PGW_LOG_T_ACCOUNT].text =
                                     subject ? &subject->account_id : &none;
    text[NGX_HTTP_PGW_LOG_T_SESSION].text =
                                     subject ? &subject->session_id : &none;
    text[NGX_HTTP_PGW_LOG_T_WORKSPACE].text =
                                     subject ? &subject->workspace_id : &none;
    text[NGX_HTTP_PGW_LOG_T_CLIENT_IP].text = &r->connection->addr_text;
    text[NGX_HTTP_PGW_LOG_T_METHOD].text = &r->method_name;
    text[NGX_HTTP_PGW_LOG_T_PATH].text = path;
    text[NGX_HTTP_PGW_LOG_T_PEER].text = upstream ? upstream->peer : &none;
    text[NGX_HTTP_PGW_LOG_T_USER_AGENT].text =
                                     r->headers_in.user_agent
                                     ? &r->headers_in.user_agent->value
                                     : &none;

    /* ids were checked when they were chosen, and nginx wrote the address */

    known = (subject && subject->plain)
            ? NGX_HTTP_PGW_LOG_T_WORKSPACE : NGX_HTTP_PGW_LOG_T_CLIENT_IP;

    len = 0;

    for (i = 0; i < NGX_HTTP_PGW_LOG_TEXTS; i++) {

        text[i].len = text[i].text->len;
        text[i].plain = i <= known
                        || text[i].len == 0
                        || ngx_http_pgw_json_plain(text[i].text);

        if (!text[i].plain) {
            text[i].len = ngx_http_pgw_json_escape(NULL, text[i].text);
        }

        len += text[i].len + sizeof("null") - 1;
    }

    return len;
}


const ngx_http_upstream_state_t *
ngx_http_pgw_log_upstream(const ngx_http_request_t *r)
{
    ngx_uint_t                  n;
    ngx_http_upstream_state_t  *state;

    if (r->upstream_states == NULL) {
        return NULL;
    }

    /* an entry without a peer separates the attempts of two locations */

    state = r->upstream_states->elts;

    for (n = r->upstream_states->nelts; n > 0; n--) {
        if (state[n - 1].peer) {
            return &state[n - 1];
        }
    }

    return NULL;
}


/* A query string may hold what no log should: it is never part of this. */

static ngx_str_t
ngx_http_pgw_log_path(ngx_http_request_t *r)
{
    u_char    *p;
    ngx_str_t  path;

    path = r->unparsed_uri;

    if (path.len) {
        p = memchr(path.data, '?', path.len);
        if (p) {
            path.len = (size_t) (p - path.data);
        }
    }

    return path;
}


/* As far as what the location always says. */

static u_char *
ngx_http_pgw_log_head(u_char *p, ngx_http_request_t *r,
    const ngx_http_pgw_log_text_t *text)
{
    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_TIME);
    p = ngx_http_pgw_log_time(p);

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_REQUEST_ID);
    p = ngx_http_pgw_log_plain(p, text[NGX_HTTP_PGW_LOG_T_REQUEST].text);

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_CORRELATION);
    p = ngx_http_pgw_log_plain(p, text[NGX_HTTP_PGW_LOG_T_CORRELATION].text);

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_CLIENT_IP);
    p = ngx_http_pgw_log_put(p, &text[NGX_HTTP_PGW_LOG_T_CLIENT_IP]);

    /* null, as the path is, for a request line that did not parse */

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_METHOD);
    p = ngx_http_pgw_log_put(p, &text[NGX_HTTP_PGW_LOG_T_METHOD]);

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_PATH);
    p = ngx_http_pgw_log_put(p, &text[NGX_HTTP_PGW_LOG_T_PATH]);

    /* as $status and $bytes_sent */

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_STATUS);
    p = ngx_http_pgw_log_number(p,
                                    r->err_status ? r->err_status
                                                  : r->headers_out.status);

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_BYTES);
    p = ngx_http_pgw_log_number(p, (uint64_t) r->connection->sent);

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_DURATION);

    return ngx_http_pgw_log_number(p, ngx_http_pgw_log_duration(r));
}


ngx_msec_t
ngx_http_pgw_log_duration(const ngx_http_request_t *r)
{
    int64_t            ms;
    const ngx_time_t  *tp;

    tp = ngx_timeofday();

    ms = (int64_t) (tp->sec - r->start_sec) * 1000
         + (int64_t) tp->msec - (int64_t) r->start_msec;

    return (ngx_msec_t) ngx_max(ms, 0);
}


/* What follows the reason. */

static u_char *
ngx_http_pgw_log_tail(u_char *p, const ngx_http_upstream_state_t *upstream,
    const ngx_http_pgw_log_text_t *text)
{
    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_ACCOUNT_ID);
    p = ngx_http_pgw_log_put(p, &text[NGX_HTTP_PGW_LOG_T_ACCOUNT]);

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_SESSION_ID);
    p = ngx_http_pgw_log_put(p, &text[NGX_HTTP_PGW_LOG_T_SESSION]);

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_WORKSPACE);
    p = ngx_http_pgw_log_put(p, &text[NGX_HTTP_PGW_LOG_T_WORKSPACE]);

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_ADDR);
    p = ngx_http_pgw_log_put(p, &text[NGX_HTTP_PGW_LOG_T_PEER]);

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_UP_STATUS);
    p = (upstream && upstream->status)
        ? ngx_http_pgw_log_number(p, upstream->status)
        : ngx_http_pgw_log_copy(p, "null");

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_UP_DURATION);
    p = (upstream && upstream->response_time != (ngx_msec_t) -1)
        ? ngx_http_pgw_log_number(p, upstream->response_time)
        : ngx_http_pgw_log_copy(p, "null");

    p = ngx_http_pgw_log_copy(p, NGX_HTTP_PGW_LOG_USER_AGENT);
    p = ngx_http_pgw_log_put(p, &text[NGX_HTTP_PGW_LOG_T_USER_AGENT]);

    *p++ = '}';

    return p;
}


static u_char *
ngx_http_pgw_log_put(u_char *p, const ngx_http_pgw_log_text_t *text)
{
    if (text->plain) {
        return ngx_http_pgw_log_plain(p, text->text);
    }

    *p++ = '"';
    p += ngx_http_pgw_json_escape(p, text->text);
    *p++ = '"';

    return p;
}


/* What needs no escaping. */

static u_char *
ngx_http_pgw_log_plain(u_char *p, const ngx_str_t *text)
{
    if (text->len == 0) {
        return ngx_http_pgw_log_copy(p, "null");
    }

    *p++ = '"';
    p = ngx_cpymem(p, text->data, text->len);
    *p++ = '"';

    return p;
}


static u_char *
ngx_http_pgw_log_number(u_char *p, uint64_t n)
{
    u_char  *last, buf[NGX_INT64_LEN];

    last = buf + sizeof(buf);

    do {
        *--last = (u_char) ('0' + n % 10);
        n /= 10;
    } while (n);

    return ngx_cpymem(p, last, (size_t) (buf + sizeof(buf) - last));
}


/* The moment of writing, like nginx's own $time_iso8601, but in UTC. */

static u_char *
ngx_http_pgw_log_time(u_char *p)
{
    ngx_tm_t     tm;
    ngx_time_t  *tp;

    static time_t  sec = -1;
    static u_char  text[NGX_HTTP_PGW_LOG_TIME_LEN];

    tp = ngx_timeofday();

    if (tp->sec != sec) {
        ngx_gmtime(tp->sec, &tm);

        (void) ngx_snprintf(text, sizeof(text),
                            "%04d-%02d-%02dT%02d:%02d:%02d.000Z",
                            tm.ngx_tm_year, tm.ngx_tm_mon, tm.ngx_tm_mday,
                            tm.ngx_tm_hour, tm.ngx_tm_min, tm.ngx_tm_sec);
        sec = tp->sec;
    }

    p = ngx_cpymem(p, text, sizeof(text));

    p[-4] = (u_char) ('0' + tp->msec / 100);
    p[-3] = (u_char) ('0' + tp->msec / 10 % 10);
    p[-2] = (u_char) ('0' + tp->msec % 10);

    return p;
}
