
/*
 * The access log: $platform_access_json, one JSON object on one line whatever
 * bytes the client sent, and some of its members as variables of their own.
 *
 * Written at every request: most texts are known to need no escaping, and the
 * time is kept for the next entry of the same second.
 */


#include "ngx_http_pgw.h"


#define NGX_HTTP_PGW_LOG_TIME_LEN                                             \
    (sizeof("1970-01-01T00:00:00.000Z") - 1)


/* What the gateway says of a request; an empty text is null. */

typedef struct {
    ngx_str_t                request_id;
    ngx_str_t                correlation_id;
    ngx_str_t                route_id;
    ngx_str_t                service_name;
    ngx_str_t                access;
    ngx_str_t                decision;
    ngx_str_t                reason;
    ngx_http_pgw_subject_t   subject;
} ngx_http_pgw_log_t;


typedef struct {
    ngx_str_t                name;
    size_t                   offset;  /* in ngx_http_pgw_log_t */
} ngx_http_pgw_log_variable_t;


#define ngx_http_pgw_log_entry(member)                                        \
    { ngx_string("platform_" #member), offsetof(ngx_http_pgw_log_t, member) }

static ngx_http_pgw_log_variable_t  ngx_http_pgw_log_variables[] = {
    ngx_http_pgw_log_entry(request_id),
    ngx_http_pgw_log_entry(correlation_id),
    ngx_http_pgw_log_entry(route_id),
    ngx_http_pgw_log_entry(service_name),
    ngx_http_pgw_log_entry(access),
    ngx_http_pgw_log_entry(decision),
    ngx_http_pgw_log_entry(reason),
    { ngx_null_string, 0 }
};


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


static ngx_int_t
ngx_http_pgw_log_fill(ngx_http_request_t *r, ngx_http_pgw_log_t *log)
{
    ngx_uint_t                access;
    const char               *name;
    ngx_http_pgw_request_t   *gr;
    ngx_http_pgw_srv_conf_t  *sscf;
    ngx_http_pgw_loc_conf_t  *conf;
    ngx_http_pgw_decision_e   decision;

    ngx_memzero(log, sizeof(ngx_http_pgw_log_t));

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);
    sscf = ngx_http_get_module_srv_conf(r, ngx_http_platform_gateway_module);

    if (conf->route_id.len) {
        log->route_id = conf->route_id;
    }

    if (conf->service_name.len) {
        log->service_name = conf->service_name;
    }

    if (!sscf->any_enabled) {
        return NGX_OK;
    }

    gr = ngx_http_pgw_request_get(r);
    if (gr == NULL) {
        return NGX_ERROR;
    }

    log->request_id = gr->request_id;
    log->correlation_id = gr->correlation_id;
    log->subject = gr->subject;

    /* the levels of the location that decided */

    access = gr->required ? gr->required : conf->access;
    log->access = ngx_http_pgw_log_levels[(access >> 1) & 0xf];

    decision = ngx_http_pgw_decision(r, gr);

    if (decision != NGX_HTTP_PGW_DECISION_NONE) {
        log->decision = ngx_http_pgw_decisions[decision];
        name = ngx_http_pgw_reasons[ngx_http_pgw_reason(r, gr)].name;
        log->reason.data = (u_char *) name;
        log->reason.len = ngx_strlen(name);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_pgw_log_value(ngx_http_variable_value_t *v, u_char *data, size_t len)
{
    v->data = data;
    v->len = (unsigned) len & 0xfffffff;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = (len == 0);

    return NGX_OK;
}


static ngx_int_t
ngx_http_pgw_log_variable(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    ngx_str_t           *text;
    ngx_http_pgw_log_t   log;

    if (ngx_http_pgw_log_fill(r, &log) != NGX_OK) {
        return NGX_ERROR;
    }

    text = (ngx_str_t *) (void *) ((u_char *) &log + data);

    return ngx_http_pgw_log_value(v, text->data, text->len);
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


#define ngx_http_pgw_log_text(line, name, text, plain)                        \
    ngx_http_pgw_text_member(line,                                            \
        ngx_http_pgw_text_before(",\"" name "\":"), text, plain)

#define ngx_http_pgw_log_number(line, name, n)                                \
    ngx_http_pgw_log_digits(line,                                             \
        ngx_http_pgw_text_before(",\"" name "\":"), (int64_t) (n))


/* A negative number is null. */

static void
ngx_http_pgw_log_digits(ngx_http_pgw_text_t *line, const char *before,
    size_t len, int64_t n)
{
    u_char  *p, *digit, buf[NGX_INT64_LEN];

    p = ngx_http_pgw_text_reserve(line, NGX_HTTP_PGW_TEXT_BEFORE
                                        + NGX_INT64_LEN);
    if (p == NULL) {
        return;
    }

    ngx_memcpy(p, before, NGX_HTTP_PGW_TEXT_BEFORE);
    p += len;

    if (n < 0) {
        line->last = ngx_cpymem(p, "null", 4);
        return;
    }

    digit = buf + sizeof(buf);

    do {
        *--digit = (u_char) ('0' + n % 10);
        n /= 10;
    } while (n);

    line->last = ngx_cpymem(p, digit, (size_t) (buf + sizeof(buf) - digit));
}


static void
ngx_http_pgw_log_request(ngx_http_pgw_text_t *line, ngx_http_request_t *r)
{
    u_char    *query;
    ngx_str_t  path;

    /* a query string may hold what no log should */

    path = r->unparsed_uri;
    query = path.len ? memchr(path.data, '?', path.len) : NULL;

    if (query) {
        path.len = (size_t) (query - path.data);
    }

    /* the method is null, as the path is, for a request line that did not
       parse; nginx lets capitals, "-" and "_" alone into it */

    ngx_http_pgw_log_text(line, "clientIp", &r->connection->addr_text, 1);
    ngx_http_pgw_log_text(line, "method", &r->method_name, 1);
    ngx_http_pgw_log_text(line, "path", &path, 0);

    /* as $status and $bytes_sent */

    ngx_http_pgw_log_number(line, "status", r->err_status
                                     ? r->err_status : r->headers_out.status);
    ngx_http_pgw_log_number(line, "bytes", r->connection->sent);
    ngx_http_pgw_log_number(line, "durationMs", ngx_http_pgw_log_duration(r));
}


static void
ngx_http_pgw_log_answer(ngx_http_pgw_text_t *line, ngx_http_request_t *r)
{
    const ngx_str_t                  *agent;
    const ngx_http_upstream_state_t  *upstream;

    static ngx_str_t                        none = ngx_null_string;
    static const ngx_http_upstream_state_t  silent = {
        .response_time = (ngx_msec_t) -1, .peer = &none
    };

    upstream = ngx_http_pgw_log_upstream(r);
    upstream = upstream ? upstream : &silent;

    ngx_http_pgw_log_text(line, "upstreamAddr", upstream->peer, 0);

    /* both are null until it has answered; so the time is (ngx_msec_t) -1 */

    ngx_http_pgw_log_number(line, "upstreamStatus",
                            upstream->status ? (int64_t) upstream->status : -1);
    ngx_http_pgw_log_number(line, "upstreamDurationMs",
                            upstream->response_time);

    agent = r->headers_in.user_agent && r->headers_in.user_agent->value.len
            ? &r->headers_in.user_agent->value : &none;

    ngx_http_pgw_log_text(line, "userAgent", agent, 0);
}


static ngx_int_t
ngx_http_pgw_log_json(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    u_char                   *p;
    ngx_uint_t                plain;
    ngx_http_pgw_log_t        log;
    ngx_http_pgw_text_t       line;
    ngx_http_pgw_loc_conf_t  *conf;

    (void) data;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);

    ngx_http_pgw_text_init(&line, r);
    p = ngx_http_pgw_text_reserve(&line, sizeof("{\"time\":\"\"") - 1
                                         + NGX_HTTP_PGW_LOG_TIME_LEN);

    if (p == NULL || ngx_http_pgw_log_fill(r, &log) != NGX_OK) {
        return NGX_ERROR;
    }

    p = ngx_cpymem(p, "{\"time\":\"", sizeof("{\"time\":\"") - 1);
    p = ngx_http_pgw_log_time(p);
    *p++ = '"';
    line.last = p;

    /* ids were checked when they were chosen */

    ngx_http_pgw_log_text(&line, "requestId", &log.request_id, 1);
    ngx_http_pgw_log_text(&line, "correlationId", &log.correlation_id, 1);

    ngx_http_pgw_log_request(&line, r);

    plain = conf->log_plain;
    ngx_http_pgw_log_text(&line, "routeId", &log.route_id, plain);
    ngx_http_pgw_log_text(&line, "serviceName", &log.service_name, plain);
    ngx_http_pgw_log_text(&line, "access", &log.access, 1);
    ngx_http_pgw_log_text(&line, "decision", &log.decision, 1);
    ngx_http_pgw_log_text(&line, "reason", &log.reason, 1);

    plain = log.subject.plain;
    ngx_http_pgw_log_text(&line, "accountId", &log.subject.account_id, plain);
    ngx_http_pgw_log_text(&line, "sessionId", &log.subject.session_id, plain);
    ngx_http_pgw_log_text(&line, "workspaceId", &log.subject.workspace_id,
                          plain);

    ngx_http_pgw_log_answer(&line, r);

    p = ngx_http_pgw_text_reserve(&line, 1);
    if (p == NULL) {
        return NGX_ERROR;
    }

    *p++ = '}';

    return ngx_http_pgw_log_value(v, line.start, (size_t) (p - line.start));
}


ngx_int_t
ngx_http_pgw_log_add_variables(ngx_conf_t *cf)
{
    ngx_http_variable_t          *var;
    ngx_http_pgw_log_variable_t  *entry;

    static ngx_str_t  json = ngx_string("platform_access_json");

    /* a decision changes while the request goes on */

    for (entry = ngx_http_pgw_log_variables; entry->name.len; entry++) {

        var = ngx_http_add_variable(cf, &entry->name,
                                    NGX_HTTP_VAR_NOCACHEABLE);
        if (var == NULL) {
            return NGX_ERROR;
        }

        var->get_handler = ngx_http_pgw_log_variable;
        var->data = entry->offset;
    }

    var = ngx_http_add_variable(cf, &json, NGX_HTTP_VAR_NOCACHEABLE);
    if (var == NULL) {
        return NGX_ERROR;
    }

    var->get_handler = ngx_http_pgw_log_json;

    return NGX_OK;
}
