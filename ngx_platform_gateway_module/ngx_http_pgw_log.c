
/*
 * The access log: $platform_access_json, one JSON object on one line whatever
 * bytes the client sent, and some of its members as variables of their own.
 *
 * Written at every request: the names are ready to be copied, the ids are known
 * to need no escaping, the time is kept for the next entry of the same second.
 */


#include "ngx_http_pgw_json.h"
#include "ngx_http_pgw_reason.h"


/* Any name has room there: so many bytes are copied, which needs no call. */
#define NGX_HTTP_PGW_LOG_NAME_LEN  24


/* The members in their order, after the time. */

typedef enum {
    NGX_HTTP_PGW_LOG_REQUEST_ID = 0,
    NGX_HTTP_PGW_LOG_CORRELATION_ID,
    NGX_HTTP_PGW_LOG_CLIENT_IP,
    NGX_HTTP_PGW_LOG_METHOD,
    NGX_HTTP_PGW_LOG_PATH,
    NGX_HTTP_PGW_LOG_STATUS,
    NGX_HTTP_PGW_LOG_BYTES,
    NGX_HTTP_PGW_LOG_DURATION,
    NGX_HTTP_PGW_LOG_ROUTE,
    NGX_HTTP_PGW_LOG_SERVICE,
    NGX_HTTP_PGW_LOG_ACCESS,
    NGX_HTTP_PGW_LOG_DECISION,
    NGX_HTTP_PGW_LOG_REASON,
    NGX_HTTP_PGW_LOG_ACCOUNT_ID,
    NGX_HTTP_PGW_LOG_SESSION_ID,
    NGX_HTTP_PGW_LOG_WORKSPACE_ID,
    NGX_HTTP_PGW_LOG_UPSTREAM_ADDR,
    NGX_HTTP_PGW_LOG_UPSTREAM_STATUS,
    NGX_HTTP_PGW_LOG_UPSTREAM_DURATION,
    NGX_HTTP_PGW_LOG_USER_AGENT,
    NGX_HTTP_PGW_LOG_MEMBERS
} ngx_http_pgw_log_member_e;


typedef struct {
    u_char      name[NGX_HTTP_PGW_LOG_NAME_LEN];  /* as it is written */
    size_t      len;
    ngx_str_t   variable;                         /* or empty */
    ngx_uint_t  is_number;
} ngx_http_pgw_log_member_t;


typedef struct {
    ngx_str_t   text;      /* lives as long as the request; empty: null */
    ngx_uint_t  plain;     /* known to need no escaping */
    int64_t     number;    /* negative: null */
} ngx_http_pgw_log_value_t;


static ngx_int_t ngx_http_pgw_log_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_pgw_log_json(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data);
static ngx_int_t ngx_http_pgw_log_fill(ngx_http_request_t *r,
    ngx_http_pgw_log_value_t *value);
static void ngx_http_pgw_log_fill_gateway(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_log_value_t *value);
static ngx_str_t ngx_http_pgw_log_literal(const char *text);
static ngx_str_t ngx_http_pgw_log_path(ngx_http_request_t *r);
static u_char *ngx_http_pgw_log_put(u_char *p,
    const ngx_http_pgw_log_value_t *value, ngx_uint_t is_number);
static u_char *ngx_http_pgw_log_digits(u_char *p, uint64_t n);
static u_char *ngx_http_pgw_log_time(u_char *p);


#define NGX_HTTP_PGW_LOG_TIME_LEN                                             \
    (sizeof("1970-01-01T00:00:00.000Z") - 1)

#define ngx_http_pgw_log_copy(p, literal)                                     \
    ngx_cpymem(p, literal, sizeof(literal) - 1)

#define ngx_http_pgw_log_text(member, name, variable)                         \
    [NGX_HTTP_PGW_LOG_##member] =                                             \
        { ",\"" name "\":", sizeof(name) + 3, ngx_string(variable), 0 }

#define ngx_http_pgw_log_number(member, name)                                 \
    [NGX_HTTP_PGW_LOG_##member] =                                             \
        { ",\"" name "\":", sizeof(name) + 3, ngx_null_string, 1 }


static ngx_http_pgw_log_member_t
    ngx_http_pgw_log_members[NGX_HTTP_PGW_LOG_MEMBERS] =
{
    ngx_http_pgw_log_text(REQUEST_ID, "requestId", "platform_request_id"),
    ngx_http_pgw_log_text(CORRELATION_ID, "correlationId",
                          "platform_correlation_id"),
    ngx_http_pgw_log_text(CLIENT_IP, "clientIp", ""),
    ngx_http_pgw_log_text(METHOD, "method", ""),
    ngx_http_pgw_log_text(PATH, "path", ""),
    ngx_http_pgw_log_number(STATUS, "status"),
    ngx_http_pgw_log_number(BYTES, "bytes"),
    ngx_http_pgw_log_number(DURATION, "durationMs"),
    ngx_http_pgw_log_text(ROUTE, "routeId", "platform_route_id"),
    ngx_http_pgw_log_text(SERVICE, "serviceName", "platform_service_name"),
    ngx_http_pgw_log_text(ACCESS, "access", "platform_access"),
    ngx_http_pgw_log_text(DECISION, "decision", "platform_decision"),
    ngx_http_pgw_log_text(REASON, "reason", "platform_reason"),
    ngx_http_pgw_log_text(ACCOUNT_ID, "accountId", ""),
    ngx_http_pgw_log_text(SESSION_ID, "sessionId", ""),
    ngx_http_pgw_log_text(WORKSPACE_ID, "workspaceId", ""),
    ngx_http_pgw_log_text(UPSTREAM_ADDR, "upstreamAddr", ""),
    ngx_http_pgw_log_number(UPSTREAM_STATUS, "upstreamStatus"),
    ngx_http_pgw_log_number(UPSTREAM_DURATION, "upstreamDurationMs"),
    ngx_http_pgw_log_text(USER_AGENT, "userAgent", "")
};


static ngx_str_t  ngx_http_pgw_log_json_name =
    ngx_string("platform_access_json");


/* By ngx_http_pgw_loc_conf_t.access: the bits above the lowest. */

static const ngx_str_t  ngx_http_pgw_log_levels[] = {
    ngx_null_string,
    ngx_string("public"),
    ngx_string("account"),
    ngx_string("public account"),
    ngx_string("branch"),
    ngx_string("public branch"),
    ngx_string("account branch"),
    ngx_string("public account branch"),
    ngx_string("system"),
    ngx_string("public system"),
    ngx_string("account system"),
    ngx_string("public account system"),
    ngx_string("branch system"),
    ngx_string("public branch system"),
    ngx_string("account branch system"),
    ngx_string("public account branch system")
};


ngx_int_t
ngx_http_pgw_log_add_variables(ngx_conf_t *cf)
{
    ngx_str_t            *name;
    ngx_uint_t            i;
    ngx_http_variable_t  *var;

    for (i = 0; i <= NGX_HTTP_PGW_LOG_MEMBERS; i++) {

        name = i < NGX_HTTP_PGW_LOG_MEMBERS
               ? &ngx_http_pgw_log_members[i].variable
               : &ngx_http_pgw_log_json_name;

        if (name->len == 0) {
            continue;
        }

        /* a decision changes while the request goes on */

        var = ngx_http_add_variable(cf, name, NGX_HTTP_VAR_NOCACHEABLE);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = i < NGX_HTTP_PGW_LOG_MEMBERS
                           ? ngx_http_pgw_log_variable : ngx_http_pgw_log_json;
        var->data = i;
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_pgw_log_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    ngx_http_pgw_log_value_t  value[NGX_HTTP_PGW_LOG_MEMBERS];

    if (ngx_http_pgw_log_fill(r, value) != NGX_OK) {
        return NGX_ERROR;
    }

    if (value[data].text.len == 0) {
        v->not_found = 1;
        return NGX_OK;
    }

    v->data = value[data].text.data;
    v->len = (unsigned) value[data].text.len & 0xfffffff;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_http_pgw_log_json(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    size_t                            len;
    u_char                           *p;
    ngx_str_t                        *text;
    ngx_uint_t                        i;
    ngx_http_pgw_log_value_t          value[NGX_HTTP_PGW_LOG_MEMBERS];
    const ngx_http_pgw_log_member_t  *member;

    (void) data;

    if (ngx_http_pgw_log_fill(r, value) != NGX_OK) {
        return NGX_ERROR;
    }

    member = ngx_http_pgw_log_members;

    /* a name, and a number, "null" or the quotes of a string, for each */

    len = sizeof("{\"time\":\"\"}") - 1 + NGX_HTTP_PGW_LOG_TIME_LEN
          + NGX_HTTP_PGW_LOG_MEMBERS
            * (NGX_HTTP_PGW_LOG_NAME_LEN + NGX_INT64_LEN);

    for (i = 0; i < NGX_HTTP_PGW_LOG_MEMBERS; i++) {

        text = &value[i].text;

        if (text->len == 0) {
            continue;
        }

        value[i].plain = value[i].plain || ngx_http_pgw_json_plain(text);

        len += value[i].plain ? text->len
                              : ngx_http_pgw_json_escape(NULL, text);
    }

    p = ngx_pnalloc(r->pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    v->data = p;

    p = ngx_http_pgw_log_copy(p, "{\"time\":\"");
    p = ngx_http_pgw_log_time(p);
    *p++ = '"';

    for (i = 0; i < NGX_HTTP_PGW_LOG_MEMBERS; i++) {
        ngx_memcpy(p, member[i].name, NGX_HTTP_PGW_LOG_NAME_LEN);
        p += member[i].len;
        p = ngx_http_pgw_log_put(p, &value[i], member[i].is_number);
    }

    *p++ = '}';

    v->len = (unsigned) (p - v->data) & 0xfffffff;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = 0;

    return NGX_OK;
}


static ngx_int_t
ngx_http_pgw_log_fill(ngx_http_request_t *r, ngx_http_pgw_log_value_t *value)
{
    ngx_http_pgw_request_t           *gr;
    ngx_http_pgw_srv_conf_t          *sscf;
    ngx_http_pgw_loc_conf_t          *conf;
    const ngx_http_upstream_state_t  *upstream;

    ngx_memzero(value, sizeof(ngx_http_pgw_log_value_t)
                       * NGX_HTTP_PGW_LOG_MEMBERS);

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);
    sscf = ngx_http_get_module_srv_conf(r, ngx_http_platform_gateway_module);

    value[NGX_HTTP_PGW_LOG_ROUTE].text = conf->route_id;
    value[NGX_HTTP_PGW_LOG_ROUTE].plain = conf->log_plain;
    value[NGX_HTTP_PGW_LOG_SERVICE].text = conf->service_name;
    value[NGX_HTTP_PGW_LOG_SERVICE].plain = conf->log_plain;

    if (sscf->any_enabled) {
        gr = ngx_http_pgw_request_get(r);
        if (gr == NULL) {
            return NGX_ERROR;
        }

        ngx_http_pgw_log_fill_gateway(r, gr, conf, value);
    }

    /* empty, as the path is, for a request line that did not parse; nginx
       lets capitals, "-" and "_" alone into it */

    value[NGX_HTTP_PGW_LOG_METHOD].text = r->method_name;
    value[NGX_HTTP_PGW_LOG_METHOD].plain = 1;
    value[NGX_HTTP_PGW_LOG_PATH].text = ngx_http_pgw_log_path(r);
    value[NGX_HTTP_PGW_LOG_CLIENT_IP].text = r->connection->addr_text;
    value[NGX_HTTP_PGW_LOG_CLIENT_IP].plain = 1;

    if (r->headers_in.user_agent) {
        value[NGX_HTTP_PGW_LOG_USER_AGENT].text =
                                           r->headers_in.user_agent->value;
    }

    /* as $status and $bytes_sent */

    value[NGX_HTTP_PGW_LOG_STATUS].number =
            (int64_t) (r->err_status ? r->err_status : r->headers_out.status);
    value[NGX_HTTP_PGW_LOG_BYTES].number = r->connection->sent;
    value[NGX_HTTP_PGW_LOG_DURATION].number =
                                       (int64_t) ngx_http_pgw_log_duration(r);

    value[NGX_HTTP_PGW_LOG_UPSTREAM_STATUS].number = -1;
    value[NGX_HTTP_PGW_LOG_UPSTREAM_DURATION].number = -1;

    upstream = ngx_http_pgw_log_upstream(r);

    if (upstream) {
        value[NGX_HTTP_PGW_LOG_UPSTREAM_ADDR].text = *upstream->peer;

        if (upstream->status) {
            value[NGX_HTTP_PGW_LOG_UPSTREAM_STATUS].number =
                                                 (int64_t) upstream->status;
        }

        /* (ngx_msec_t) -1 until it has answered */

        value[NGX_HTTP_PGW_LOG_UPSTREAM_DURATION].number =
                                          (int64_t) upstream->response_time;
    }

    return NGX_OK;
}


static void
ngx_http_pgw_log_fill_gateway(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_log_value_t *value)
{
    ngx_uint_t  i, access;

    /* the levels of the location that decided */

    access = gr->required ? gr->required : conf->access;

    value[NGX_HTTP_PGW_LOG_ACCESS].text =
                             ngx_http_pgw_log_levels[(access >> 1) & 0xf];
    value[NGX_HTTP_PGW_LOG_DECISION].text =
                   ngx_http_pgw_log_literal(ngx_http_pgw_decision(r, gr));
    value[NGX_HTTP_PGW_LOG_REASON].text = ngx_http_pgw_log_literal(
                   ngx_http_pgw_reasons[ngx_http_pgw_reason(r, gr)].name);

    /* ids were checked when they were chosen */

    value[NGX_HTTP_PGW_LOG_REQUEST_ID].text = gr->request_id;
    value[NGX_HTTP_PGW_LOG_REQUEST_ID].plain = 1;
    value[NGX_HTTP_PGW_LOG_CORRELATION_ID].text = gr->correlation_id;
    value[NGX_HTTP_PGW_LOG_CORRELATION_ID].plain = 1;

    value[NGX_HTTP_PGW_LOG_ACCOUNT_ID].text = gr->subject.account_id;
    value[NGX_HTTP_PGW_LOG_SESSION_ID].text = gr->subject.session_id;
    value[NGX_HTTP_PGW_LOG_WORKSPACE_ID].text = gr->subject.workspace_id;

    for (i = NGX_HTTP_PGW_LOG_ACCOUNT_ID;
         i <= NGX_HTTP_PGW_LOG_WORKSPACE_ID;
         i++)
    {
        value[i].plain = gr->subject.plain;
    }
}


static ngx_str_t
ngx_http_pgw_log_literal(const char *text)
{
    ngx_str_t  s;

    s.data = (u_char *) text;
    s.len = text ? ngx_strlen(text) : 0;

    return s;
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


static u_char *
ngx_http_pgw_log_put(u_char *p, const ngx_http_pgw_log_value_t *value,
    ngx_uint_t is_number)
{
    if (is_number && value->number >= 0) {
        return ngx_http_pgw_log_digits(p, (uint64_t) value->number);
    }

    if (value->text.len == 0) {
        return ngx_http_pgw_log_copy(p, "null");
    }

    *p++ = '"';

    if (value->plain) {
        p = ngx_cpymem(p, value->text.data, value->text.len);

    } else {
        p += ngx_http_pgw_json_escape(p, &value->text);
    }

    *p++ = '"';

    return p;
}


static u_char *
ngx_http_pgw_log_digits(u_char *p, uint64_t n)
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
