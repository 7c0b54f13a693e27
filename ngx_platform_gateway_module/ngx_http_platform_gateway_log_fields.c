
/*
 * The fields of an access log entry, and where each comes from.
 */


#include "ngx_http_platform_gateway_log.h"
#include "ngx_http_platform_gateway_reason.h"


static ngx_int_t ngx_http_platform_gateway_log_state(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_conf(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_time(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_client_ip(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_method(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_path(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_status(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_bytes(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_duration(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_access(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_decision(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_reason(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_upstream_addr(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_upstream_status(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_upstream_duration(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static ngx_int_t ngx_http_platform_gateway_log_user_agent(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value);
static void ngx_http_platform_gateway_log_string(
    ngx_http_platform_gateway_log_value_t *value, const ngx_str_t *text);
static void ngx_http_platform_gateway_log_literal(
    ngx_http_platform_gateway_log_value_t *value, const char *text);
static ngx_int_t ngx_http_platform_gateway_log_number(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value, int64_t number);


#define ngx_http_platform_gateway_log_in_state(member)                        \
    ngx_http_platform_gateway_log_state,                                      \
    offsetof(ngx_http_platform_gateway_request_t, member)

#define ngx_http_platform_gateway_log_in_conf(member)                         \
    ngx_http_platform_gateway_log_conf,                                       \
    offsetof(ngx_http_platform_gateway_loc_conf_t, member)


const ngx_http_platform_gateway_log_field_t
    ngx_http_platform_gateway_log_fields[NGX_HTTP_PLATFORM_GATEWAY_LOG_FIELDS]
    =
{
    { ngx_string("time"), ngx_null_string,
      ngx_http_platform_gateway_log_time, 0 },

    { ngx_string("requestId"), ngx_string("platform_request_id"),
      ngx_http_platform_gateway_log_in_state(request_id) },

    { ngx_string("correlationId"), ngx_string("platform_correlation_id"),
      ngx_http_platform_gateway_log_in_state(correlation_id) },

    { ngx_string("clientIp"), ngx_null_string,
      ngx_http_platform_gateway_log_client_ip, 0 },

    { ngx_string("method"), ngx_null_string,
      ngx_http_platform_gateway_log_method, 0 },

    { ngx_string("path"), ngx_null_string,
      ngx_http_platform_gateway_log_path, 0 },

    { ngx_string("status"), ngx_null_string,
      ngx_http_platform_gateway_log_status, 0 },

    { ngx_string("bytes"), ngx_null_string,
      ngx_http_platform_gateway_log_bytes, 0 },

    { ngx_string("durationMs"), ngx_null_string,
      ngx_http_platform_gateway_log_duration, 0 },

    { ngx_string("routeId"), ngx_string("platform_route_id"),
      ngx_http_platform_gateway_log_in_conf(route_id) },

    { ngx_string("serviceName"), ngx_string("platform_service_name"),
      ngx_http_platform_gateway_log_in_conf(service_name) },

    { ngx_string("access"), ngx_string("platform_access"),
      ngx_http_platform_gateway_log_access, 0 },

    { ngx_string("decision"), ngx_string("platform_decision"),
      ngx_http_platform_gateway_log_decision, 0 },

    { ngx_string("reason"), ngx_string("platform_reason"),
      ngx_http_platform_gateway_log_reason, 0 },

    { ngx_string("accountId"), ngx_string("platform_account_id"),
      ngx_http_platform_gateway_log_in_state(account_id) },

    { ngx_string("sessionId"), ngx_string("platform_session_id"),
      ngx_http_platform_gateway_log_in_state(session_id) },

    { ngx_string("workspaceId"), ngx_string("platform_workspace_id"),
      ngx_http_platform_gateway_log_in_state(workspace_id) },

    { ngx_string("upstreamAddr"), ngx_null_string,
      ngx_http_platform_gateway_log_upstream_addr, 0 },

    { ngx_string("upstreamStatus"), ngx_null_string,
      ngx_http_platform_gateway_log_upstream_status, 0 },

    { ngx_string("upstreamDurationMs"), ngx_null_string,
      ngx_http_platform_gateway_log_upstream_duration, 0 },

    { ngx_string("userAgent"), ngx_null_string,
      ngx_http_platform_gateway_log_user_agent, 0 }
};


/* An ngx_str_t of the request's state. */

static ngx_int_t
ngx_http_platform_gateway_log_state(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    if (lc->gr) {
        ngx_http_platform_gateway_log_string(value,
            (const ngx_str_t *) ((const char *) lc->gr + lc->offset));
    }

    return NGX_OK;
}


/* An ngx_str_t of the location's configuration. */

static ngx_int_t
ngx_http_platform_gateway_log_conf(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    ngx_http_platform_gateway_log_string(value,
        (const ngx_str_t *) ((const char *) lc->conf + lc->offset));

    return NGX_OK;
}


/* The moment of writing, like nginx's own $time_iso8601, but in UTC. */

static ngx_int_t
ngx_http_platform_gateway_log_time(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    u_char      *p;
    ngx_tm_t     tm;
    ngx_time_t  *tp;

    p = ngx_pnalloc(lc->request->pool, sizeof("1970-01-01T00:00:00.000Z"));
    if (p == NULL) {
        return NGX_ERROR;
    }

    tp = ngx_timeofday();
    ngx_gmtime(tp->sec, &tm);

    value->text.data = p;
    value->text.len = (size_t)
        (ngx_sprintf(p, "%04d-%02d-%02dT%02d:%02d:%02d.%03MZ",
                     tm.ngx_tm_year, tm.ngx_tm_mon, tm.ngx_tm_mday,
                     tm.ngx_tm_hour, tm.ngx_tm_min, tm.ngx_tm_sec, tp->msec)
         - p);
    value->kind = NGX_HTTP_PLATFORM_GATEWAY_LOG_STRING;

    return NGX_OK;
}


static ngx_int_t
ngx_http_platform_gateway_log_client_ip(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    ngx_http_platform_gateway_log_string(value,
                                         &lc->request->connection->addr_text);

    return NGX_OK;
}


/* Null, as the path is, for a request line that did not parse. */

static ngx_int_t
ngx_http_platform_gateway_log_method(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    ngx_http_platform_gateway_log_string(value, &lc->request->method_name);

    return NGX_OK;
}


/* A query string may hold what no log should: it is never part of this. */

static ngx_int_t
ngx_http_platform_gateway_log_path(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    u_char     *p;
    ngx_str_t   path;

    path = lc->request->unparsed_uri;

    if (path.len) {
        p = ngx_strlchr(path.data, path.data + path.len, '?');
        if (p) {
            path.len = (size_t) (p - path.data);
        }
    }

    ngx_http_platform_gateway_log_string(value, &path);

    return NGX_OK;
}


/* As $status. */

static ngx_int_t
ngx_http_platform_gateway_log_status(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    ngx_http_request_t  *r;

    r = lc->request;

    return ngx_http_platform_gateway_log_number(lc, value,
               (int64_t) (r->err_status ? r->err_status
                                        : r->headers_out.status));
}


static ngx_int_t
ngx_http_platform_gateway_log_bytes(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    return ngx_http_platform_gateway_log_number(lc, value,
                                                lc->request->connection->sent);
}


static ngx_int_t
ngx_http_platform_gateway_log_duration(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    int64_t              ms;
    ngx_time_t          *tp;
    ngx_http_request_t  *r;

    r = lc->request;
    tp = ngx_timeofday();

    ms = (int64_t) (tp->sec - r->start_sec) * 1000
         + (int64_t) tp->msec - (int64_t) r->start_msec;

    return ngx_http_platform_gateway_log_number(lc, value, ngx_max(ms, 0));
}


/* "account branch": the levels of the location that decided. */

static ngx_int_t
ngx_http_platform_gateway_log_access(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    u_char      *p, *start;
    ngx_uint_t   i, access;

    static const struct {
        ngx_uint_t   bit;
        const char  *name;
    } levels[] = {
        { NGX_HTTP_PLATFORM_GATEWAY_PUBLIC, "public" },
        { NGX_HTTP_PLATFORM_GATEWAY_ACCOUNT, "account" },
        { NGX_HTTP_PLATFORM_GATEWAY_BRANCH, "branch" },
        { NGX_HTTP_PLATFORM_GATEWAY_SYSTEM, "system" }
    };

    access = (lc->gr && lc->gr->required) ? lc->gr->required
                                          : lc->conf->access;

    if (lc->gr == NULL || access == 0) {
        return NGX_OK;
    }

    start = ngx_pnalloc(lc->request->pool,
                        sizeof("public account branch system"));
    if (start == NULL) {
        return NGX_ERROR;
    }

    p = start;

    for (i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (access & levels[i].bit) {
            p = ngx_sprintf(p, "%s%s", p == start ? "" : " ", levels[i].name);
        }
    }

    value->text.data = start;
    value->text.len = (size_t) (p - start);
    value->kind = NGX_HTTP_PLATFORM_GATEWAY_LOG_STRING;

    return NGX_OK;
}


static ngx_int_t
ngx_http_platform_gateway_log_decision(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    if (lc->gr) {
        ngx_http_platform_gateway_log_literal(value,
                     ngx_http_platform_gateway_decision(lc->request, lc->gr));
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_platform_gateway_log_reason(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    ngx_uint_t  reason;

    if (lc->gr) {
        reason = ngx_http_platform_gateway_reason(lc->request, lc->gr);

        ngx_http_platform_gateway_log_literal(value,
                              ngx_http_platform_gateway_reasons[reason].name);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_platform_gateway_log_upstream_addr(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    if (lc->upstream) {
        ngx_http_platform_gateway_log_string(value, lc->upstream->peer);
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_platform_gateway_log_upstream_status(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    if (lc->upstream == NULL || lc->upstream->status == 0) {
        return NGX_OK;
    }

    return ngx_http_platform_gateway_log_number(lc, value,
                                             (int64_t) lc->upstream->status);
}


static ngx_int_t
ngx_http_platform_gateway_log_upstream_duration(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    if (lc->upstream == NULL
        || lc->upstream->response_time == (ngx_msec_t) -1)
    {
        return NGX_OK;
    }

    return ngx_http_platform_gateway_log_number(lc, value,
                                       (int64_t) lc->upstream->response_time);
}


static ngx_int_t
ngx_http_platform_gateway_log_user_agent(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value)
{
    if (lc->request->headers_in.user_agent) {
        ngx_http_platform_gateway_log_string(value,
                              &lc->request->headers_in.user_agent->value);
    }

    return NGX_OK;
}


static void
ngx_http_platform_gateway_log_string(
    ngx_http_platform_gateway_log_value_t *value, const ngx_str_t *text)
{
    if (text->len) {
        value->text = *text;
        value->kind = NGX_HTTP_PLATFORM_GATEWAY_LOG_STRING;
    }
}


static void
ngx_http_platform_gateway_log_literal(
    ngx_http_platform_gateway_log_value_t *value, const char *text)
{
    if (text) {
        value->text.data = (u_char *) text;
        value->text.len = ngx_strlen(text);
        value->kind = NGX_HTTP_PLATFORM_GATEWAY_LOG_STRING;
    }
}


static ngx_int_t
ngx_http_platform_gateway_log_number(
    const ngx_http_platform_gateway_log_ctx_t *lc,
    ngx_http_platform_gateway_log_value_t *value, int64_t number)
{
    u_char  *p;

    p = ngx_pnalloc(lc->request->pool, NGX_INT64_LEN);
    if (p == NULL) {
        return NGX_ERROR;
    }

    value->text.data = p;
    value->text.len = (size_t) (ngx_sprintf(p, "%L", number) - p);
    value->kind = NGX_HTTP_PLATFORM_GATEWAY_LOG_NUMBER;

    return NGX_OK;
}
