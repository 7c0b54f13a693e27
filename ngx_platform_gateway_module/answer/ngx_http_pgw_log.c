
/*
 * The access log: $platform_access_json, a JSON object on one line, whatever
 * bytes the client sent, and variables for some of its members.  Requests are
 * counted here, too.
 */


#include "answer/answer.h"
#include "base/base.h"


/* Most lines of the log are shorter. */
#define NGX_HTTP_PGW_LOG_LINE    2048


/* The gateway's own members of the log; an empty string becomes null. */

typedef struct {
    ngx_str_t                request_id;
    ngx_str_t                correlation_id;
    ngx_str_t                trace_id;
    ngx_str_t                route_id;
    ngx_str_t                service_name;
    ngx_str_t                access;
    ngx_str_t                decision;
    ngx_str_t                reason;
    ngx_http_pgw_subject_t   subject;
} ngx_http_pgw_log_t;


static ngx_msec_t
ngx_http_pgw_log_duration(const ngx_http_request_t *r)
{
    int64_t            ms;
    const ngx_time_t  *tp = ngx_timeofday();

    ms = (int64_t) (tp->sec - r->start_sec) * 1000
         + (int64_t) tp->msec - (int64_t) r->start_msec;

    return (ngx_msec_t) ngx_max(ms, 0);
}


static const ngx_http_upstream_state_t *
ngx_http_pgw_log_upstream(const ngx_http_request_t *r)
{
    ngx_uint_t                        n;
    const ngx_array_t                *states = r->upstream_states;
    const ngx_http_upstream_state_t  *state;

    /* an entry without a peer ends the attempts of a location */

    for (n = states ? states->nelts : 0; n > 0; n--) {
        state = (ngx_http_upstream_state_t *) states->elts + n - 1;

        if (state->peer) {
            return state;
        }
    }

    return NULL;
}


ngx_int_t
ngx_http_pgw_log_handler(ngx_http_request_t *r)
{
    ngx_uint_t                        i;
    ngx_http_pgw_request_t           *gr;
    ngx_http_pgw_counters_t          *counters;
    ngx_http_pgw_decision_e           decision;
    const ngx_http_upstream_state_t  *upstream;

    counters = ngx_http_pgw_loc(r)->route->counters;

    if (counters == NULL || r != r->main || !ngx_http_pgw_srv(r)->any_enabled) {
        return NGX_OK;
    }

    gr = ngx_http_pgw_request_begin(r);
    if (gr == NULL) {
        return NGX_OK;
    }

    decision = ngx_http_pgw_request_decision(r, gr);
    (void) ngx_atomic_fetch_add(&counters->requests[decision], 1);

    if (decision >= NGX_HTTP_PGW_DECISION_DENY) {
        i = ngx_http_pgw_request_reason(r, gr);
        ngx_http_pgw_counters_inc(reasons[i].refusals[
                                     decision - NGX_HTTP_PGW_DECISION_DENY]);
    }

    ngx_http_pgw_counters_add(&counters->durations,
                              ngx_http_pgw_log_duration(r));

    upstream = ngx_http_pgw_log_upstream(r);
    i = upstream ? upstream->status / 100 : 0;

    if (i >= NGX_HTTP_PGW_CLASSES) {
        i = 0;      /* not a status of HTTP */
    }

    (void) ngx_atomic_fetch_add(&counters->upstream[i], 1);

    return NGX_OK;
}


static ngx_int_t
ngx_http_pgw_log_fill(ngx_http_request_t *r, ngx_http_pgw_log_t *log)
{
    const char               *name;
    ngx_http_pgw_request_t   *gr;
    ngx_http_pgw_loc_conf_t  *conf = ngx_http_pgw_loc(r);
    ngx_http_pgw_decision_e   decision;
    const ngx_http_pgw_subject_t  *subject;

    ngx_memzero(log, sizeof(ngx_http_pgw_log_t));

    if (conf->route_id.len) {
        log->route_id = conf->route_id;
        log->service_name = conf->service_name;
    }

    if (!ngx_http_pgw_srv(r)->any_enabled) {
        return NGX_OK;
    }

    gr = ngx_http_pgw_request_begin(r);
    if (gr == NULL) {
        return NGX_ERROR;
    }

    log->request_id = gr->request_id;
    log->correlation_id = gr->correlation_id;
    log->trace_id = gr->trace_id;
    subject = (gr->reason || gr->named == NULL) ? gr->subject : gr->named;

    if (subject) {
        log->subject = *subject;
    }

    /* prefer the levels of the location whose guard decided */

    log->access = gr->required ? *gr->required : conf->levels;

    decision = ngx_http_pgw_request_decision(r, gr);

    if (decision != NGX_HTTP_PGW_DECISION_NONE) {
        log->decision = ngx_http_pgw_request_decisions[decision];
        name = ngx_http_pgw_reasons[ngx_http_pgw_request_reason(r, gr)].name;
        log->reason.data = (u_char *) name;
        log->reason.len = ngx_strlen(name);
    }

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

    return ngx_http_pgw_headers_value(v, text->data, text->len);
}


/* The current time, as in $time_iso8601, but in UTC and with milliseconds. */

static u_char *
ngx_http_pgw_log_time(u_char *p)
{
    ngx_tm_t     tm;
    ngx_time_t  *tp;

    static u_char   text[] = "{\"time\":\"2000-01-01T00:00:00.000Z\"";
    static u_char  *ms = text + sizeof(text) - sizeof("000Z\"");
    static time_t   cached;

    tp = ngx_timeofday();

    if (cached != tp->sec) {
        cached = tp->sec;
        ngx_gmtime(cached, &tm);
        (void) ngx_snprintf(text, (size_t) (ms - text),
                            "{\"time\":\"%04d-%02d-%02dT%02d:%02d:%02d.",
                            tm.ngx_tm_year, tm.ngx_tm_mon, tm.ngx_tm_mday,
                            tm.ngx_tm_hour, tm.ngx_tm_min, tm.ngx_tm_sec);
    }

    ms[0] = (u_char) ('0' + tp->msec / 100);
    ms[1] = (u_char) ('0' + tp->msec / 10 % 10);
    ms[2] = (u_char) ('0' + tp->msec % 10);

    return ngx_cpymem(p, text, sizeof(text) - 1);
}


static void
ngx_http_pgw_log_nginx(ngx_http_pgw_text_t *line, ngx_http_request_t *r)
{
    u_char     *query;
    ngx_str_t   path;

    /* method and path are null for a request line that did not parse; the
       query string may contain secrets, so it is not logged */

    path = r->unparsed_uri;
    query = path.len ? memchr(path.data, '?', path.len) : NULL;

    if (query) {
        path.len = (size_t) (query - path.data);
    }

    ngx_http_pgw_text_plain(line, ",\"clientIp\":", &r->connection->addr_text);
    ngx_http_pgw_text_json(line, ",\"method\":", &r->method_name);
    ngx_http_pgw_text_json(line, ",\"path\":", &path);

    /* the same values as $status and $bytes_sent */

    ngx_http_pgw_text_number(line, ",\"status\":",
                             r->err_status ? r->err_status
                                           : r->headers_out.status);
    ngx_http_pgw_text_number(line, ",\"bytes\":", r->connection->sent);
    ngx_http_pgw_text_number(line, ",\"durationMs\":",
                             ngx_http_pgw_log_duration(r));
}


static void
ngx_http_pgw_log_end(ngx_http_pgw_text_t *line, ngx_http_request_t *r)
{
    ngx_str_t                         agent = ngx_null_string;
    const ngx_http_upstream_state_t  *upstream = ngx_http_pgw_log_upstream(r);

    if (upstream) {

        /* status and time are null until the upstream has answered */

        ngx_http_pgw_text_json(line, ",\"upstreamAddr\":", upstream->peer);
        ngx_http_pgw_text_number(line, ",\"upstreamStatus\":",
                                 upstream->status
                                 ? (int64_t) upstream->status : -1);
        ngx_http_pgw_text_number(line, ",\"upstreamDurationMs\":",
                                 (ngx_msec_int_t) upstream->response_time);
    } else {
        ngx_http_pgw_text_plain(line,
                     ",\"upstreamAddr\":null,\"upstreamStatus\":null,"
                     "\"upstreamDurationMs\":", &agent);
    }

    if (r->headers_in.user_agent && r->headers_in.user_agent->value.len) {
        agent = r->headers_in.user_agent->value;
    }

    ngx_http_pgw_text_json(line, ",\"userAgent\":", &agent);
}


static ngx_int_t
ngx_http_pgw_log_json(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    size_t               len;
    u_char              *p, room[NGX_HTTP_PGW_LOG_LINE];
    ngx_http_pgw_log_t   log;
    ngx_http_pgw_text_t  line = {
        .request = r, .start = room, .end = room + sizeof(room)
    };

    if (ngx_http_pgw_log_fill(r, &log) != NGX_OK) {
        return NGX_ERROR;
    }

    line.last = ngx_http_pgw_log_time(room);

    ngx_http_pgw_text_plain(&line, ",\"requestId\":", &log.request_id);
    ngx_http_pgw_text_plain(&line, ",\"correlationId\":", &log.correlation_id);
    ngx_http_pgw_text_plain(&line, ",\"traceId\":", &log.trace_id);

    ngx_http_pgw_log_nginx(&line, r);

    ngx_http_pgw_text_json(&line, ",\"routeId\":", &log.route_id);
    ngx_http_pgw_text_json(&line, ",\"serviceName\":", &log.service_name);
    ngx_http_pgw_text_plain(&line, ",\"access\":", &log.access);
    ngx_http_pgw_text_plain(&line, ",\"decision\":", &log.decision);
    ngx_http_pgw_text_plain(&line, ",\"reason\":", &log.reason);
    ngx_http_pgw_text_json(&line, ",\"accountId\":", &log.subject.account_id);
    ngx_http_pgw_text_json(&line, ",\"sessionId\":", &log.subject.session_id);
    ngx_http_pgw_text_json(&line, ",\"workspaceId\":",
                           &log.subject.workspace_id);

    ngx_http_pgw_log_end(&line, r);

    /* room is on the stack: the value is copied to the pool */

    len = (size_t) (line.last - line.start) + 1;
    p = ngx_http_pgw_text_reserve(&line, 1) ? ngx_pnalloc(r->pool, len) : NULL;

    if (p == NULL) {
        return NGX_ERROR;
    }

    *line.last = '}';
    ngx_memcpy(p, line.start, len);

    return ngx_http_pgw_headers_value(v, p, len);
}


/* Not cached, because a decision changes during the request. */

#define ngx_http_pgw_log_entry(member)                                        \
    { ngx_string("platform_" #member), NULL, ngx_http_pgw_log_variable,       \
      offsetof(ngx_http_pgw_log_t, member), NGX_HTTP_VAR_NOCACHEABLE, 0 }

ngx_http_variable_t  ngx_http_pgw_log_variables[] = {
    ngx_http_pgw_log_entry(request_id),
    ngx_http_pgw_log_entry(correlation_id),
    ngx_http_pgw_log_entry(trace_id),
    ngx_http_pgw_log_entry(route_id),
    ngx_http_pgw_log_entry(service_name),
    ngx_http_pgw_log_entry(access),
    ngx_http_pgw_log_entry(decision),
    ngx_http_pgw_log_entry(reason),
    { ngx_string("platform_access_json"), NULL, ngx_http_pgw_log_json, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },
      ngx_http_null_variable
};
