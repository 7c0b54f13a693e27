
/*
 * A GET of an internal location without a client.
 *
 * A connection without a socket has a main request that does not run.  Its
 * in-memory subrequest is served by the location.  The main request is blocked,
 * so that nginx does not free it.  It is freed here, from an event, when no
 * handler of nginx uses it.
 */


#include "issuer/issuer.h"
#include "base/base.h"
#include "nginx/nginx.h"


#define NGX_HTTP_PGW_AIO_RETRY  100  /* ms */


struct ngx_http_pgw_fetch_s {
    ngx_http_pgw_source_t      *from;      /* NULL if not in progress */
    ngx_http_request_t         *request;   /* the main request */
    ngx_event_t                 event;     /* deadline, or end */

    ngx_uint_t                  addressed; /* the location has read the URL */
    ngx_uint_t                  finished;
    ngx_uint_t                  status;    /* 0 without an answer */
    ngx_str_t                   body;
    const char                 *err;       /* NULL if body is good */

    ngx_connection_t            connection;
    ngx_event_t                 read;
    ngx_event_t                 write;
    ngx_buf_t                   buffer;    /* empty */
    ngx_log_t                   log;
    ngx_http_log_ctx_t          log_ctx;
    ngx_http_connection_t       http_connection;
    ngx_http_post_subrequest_t  post;
    struct sockaddr             sockaddr;
};


static u_char *ngx_http_pgw_fetch_log(ngx_log_t *log, u_char *buf, size_t len);


/* Returns the fetch by the log of its connection, or NULL for a client's
   request. */

static ngx_inline ngx_http_pgw_fetch_t *
ngx_http_pgw_fetch_get(const ngx_log_t *log)
{
    return log->handler != ngx_http_pgw_fetch_log ? NULL
           : (ngx_http_pgw_fetch_t *) (void *)
             ((u_char *) log->data - offsetof(ngx_http_pgw_fetch_t, log_ctx));
}


static u_char *
ngx_http_pgw_fetch_log(ngx_log_t *log, u_char *buf, size_t len)
{
    u_char              *p;
    ngx_http_log_ctx_t  *ctx = log->data;

    p = ngx_snprintf(buf, len, "%s%s, platform gateway %s",
                     log->action ? " while " : "",
                     log->action ? log->action : "",
                     ngx_http_pgw_fetch_get(log)->from->name);

    return ctx->request ? ngx_http_pgw_log_request(log, p, buf + len) : p;
}


ngx_uint_t
ngx_http_pgw_fetch_owns(ngx_http_request_t *r)
{
    ngx_http_pgw_fetch_t      *fetch;
    ngx_http_core_loc_conf_t  *clcf;

    fetch = ngx_http_pgw_fetch_get(r->connection->log);

    if (fetch == NULL) {
        return 0;
    }

    /* X-Accel-Redirect or a rewrite may have led to another location; "if"
       blocks share the address of the name */

    clcf = ngx_http_pgw_core(r);

    return fetch->from->clcf->name.data == clcf->name.data;
}


ngx_uint_t
ngx_http_pgw_fetch_strayed(ngx_http_request_t *r)
{
    return ngx_http_pgw_fetch_get(r->connection->log)
           && !ngx_http_pgw_fetch_owns(r);
}


static ngx_int_t
ngx_http_pgw_fetch_url(ngx_http_request_t *r, ngx_http_variable_value_t *v,
    uintptr_t data)
{
    ngx_http_pgw_fetch_t  *fetch = ngx_http_pgw_fetch_get(r->connection->log);

    if (fetch == NULL || fetch->from == NULL || fetch->from->url.len == 0) {
        return ngx_http_pgw_headers_value(v, NULL, 0);
    }

    fetch->addressed = 1;

    return ngx_http_pgw_headers_value(v, fetch->from->url.data,
                                      fetch->from->url.len);
}


ngx_http_variable_t  ngx_http_pgw_fetch_variables[] = {
    { ngx_string("platform_fetch_url"), NULL, ngx_http_pgw_fetch_url, 0,
      NGX_HTTP_VAR_NOCACHEABLE, 0 },
      ngx_http_null_variable
};


/* What is wrong with the answer of sr, or NULL. */

static const char *
ngx_http_pgw_fetch_check(ngx_http_pgw_fetch_t *fetch, ngx_http_request_t *sr,
    ngx_int_t rc)
{
    ngx_uint_t  status;

    static u_char  text[sizeof("status ") + NGX_INT_T_LEN];

    if (!ngx_http_pgw_fetch_owns(sr)) {
        return "another location answered, by X-Accel-Redirect or a rewrite";
    }

    if (fetch->from->url.len && !fetch->addressed) {
        return "its location has no \"proxy_pass $platform_fetch_url;\", as "
               "discovery demands";
    }

    status = (rc >= NGX_HTTP_SPECIAL_RESPONSE) ? (ngx_uint_t) rc
                                               : sr->headers_out.status;
    fetch->status = status;

    if (status && status != NGX_HTTP_OK) {
        ngx_snprintf(text, sizeof(text), "status %ui%Z", status);
        return (const char *) text;
    }

    if (sr->out && sr->out->buf) {
        fetch->body.data = sr->out->buf->pos;
        fetch->body.len = (size_t) (sr->out->buf->last - sr->out->buf->pos);
    }

    /*
     * A response that is larger than the buffer makes a body filter fail, which
     * only connection->error shows: the part that came may even parse.
     */

    if (fetch->body.len > fetch->from->max
        || (sr->connection->error && fetch->body.len)
        || (sr->upstream
            && sr->upstream->headers_in.content_length_n
               > (off_t) fetch->from->max))
    {
        return "the document is too large";
    }

    if (rc != NGX_OK || status == 0 || sr->connection->error) {
        return "no response";
    }

    /* the parser finds other truncated documents */

    return sr->headers_out.content_encoding
           && sr->headers_out.content_encoding->hash
           ? "the document is compressed"
           : sr->headers_out.content_length_n >= 0
             && sr->headers_out.content_length_n != (off_t) fetch->body.len
           ? "the document is truncated" : NULL;
}


/*
 * Runs when the subrequest is finalized, successfully or not.  NGX_OK keeps
 * nginx from making an error page of a failure.
 */

static ngx_int_t
ngx_http_pgw_fetch_post(ngx_http_request_t *sr, void *data, ngx_int_t rc)
{
    ngx_http_pgw_fetch_t  *fetch = data;

    if (fetch->finished) {
        return NGX_OK;
    }

    /* a filter or a thread is not finished: nginx will call again */

    if (rc == NGX_AGAIN || sr->buffered) {
        return rc;
    }

    fetch->finished = 1;
    fetch->err = ngx_http_pgw_fetch_check(fetch, sr, rc);

    ngx_post_event(&fetch->event, &ngx_posted_events);

    return NGX_OK;
}


static void
ngx_http_pgw_fetch_free(ngx_http_pgw_fetch_t *fetch)
{
    ngx_uint_t    i;
    ngx_event_t  *events[] = { &fetch->event, &fetch->read, &fetch->write };

    if (fetch->request) {

        /* prevents nginx from setting an option of the socket */

        fetch->connection.timedout = 0;

        /* the cleanups end a subrequest that is in progress */

        ngx_http_free_request(fetch->request, 0);
    }

    for (i = 0; i < 3; i++) {

        if (events[i]->timer_set) {
            ngx_del_timer(events[i]);
        }

        if (events[i]->posted) {
            ngx_delete_posted_event(events[i]);
        }
    }

    fetch->from = NULL;
}


/* Called at the deadline, or at the end. */

static void
ngx_http_pgw_fetch_end(ngx_event_t *ev)
{
    ngx_http_pgw_fetch_t  *fetch = ev->data;

    ngx_http_pgw_source_t  *from;

    fetch->finished = 1;

    /* a thread of aio uses the request: wait for it */

    if (fetch->request->blocked > 1) {
        ngx_add_timer(ev, NGX_HTTP_PGW_AIO_RETRY);
        return;
    }

    from = fetch->from;
    from->handler(from->data, &fetch->body, fetch->err, fetch->status);

    ngx_http_pgw_fetch_free(fetch);
}


void
ngx_http_pgw_fetch_abort(const ngx_http_pgw_source_t *from)
{
    ngx_http_pgw_fetch_t  *fetch = from->fetch;

    if (fetch && fetch->from) {

        if (!fetch->finished) {
            fetch->err = "the worker process is exiting";
        }

        ngx_http_pgw_fetch_end(&fetch->event);
    }
}


/*
 * Makes a connection for upstreams, filters and variables.  It has no socket,
 * and is not in the worker's array.  Nothing is read from it or written to it.
 */

static ngx_connection_t *
ngx_http_pgw_fetch_connection(ngx_http_pgw_fetch_t *fetch)
{
    ngx_connection_t  *c = &fetch->connection;

    fetch->read.data = c;
    fetch->read.index = NGX_INVALID_INDEX;
    fetch->read.handler = ngx_http_empty_handler;
    fetch->read.log = &fetch->log;

    fetch->write = fetch->read;
    fetch->write.write = 1;
    fetch->write.ready = 1;

    /*
     * "active" prevents nginx from adding the events to epoll.  A
     * level-triggered method would remove an active and ready event.
     */

    fetch->read.active = 1;
    fetch->write.active = (ngx_event_flags & NGX_USE_CLEAR_EVENT) != 0;

    /* finalization skips keepalive and lingering */

    fetch->read.eof = 1;

    /* prevents options of the socket */

    c->fd = (ngx_socket_t) -1;
    c->tcp_nodelay = NGX_TCP_NODELAY_DISABLED;
    c->tcp_nopush = NGX_TCP_NOPUSH_DISABLED;
    c->sndlowat = 1;

    /* variables like $binary_remote_addr read both addresses */

    fetch->sockaddr.sa_family = AF_UNIX;

    c->sockaddr = &fetch->sockaddr;
    c->socklen = offsetof(struct sockaddr, sa_data);
    c->local_sockaddr = c->sockaddr;
    c->local_socklen = c->socklen;
    ngx_str_set(&c->addr_text, "unix:");

    c->read = &fetch->read;
    c->write = &fetch->write;
    c->buffer = &fetch->buffer;
    c->number = ngx_atomic_fetch_add(ngx_connection_counter, 1);
    c->start_time = ngx_current_msec;
    c->log_error = NGX_ERROR_INFO;
    c->log = &fetch->log;

    return c;
}


static ngx_int_t
ngx_http_pgw_fetch_request(ngx_http_pgw_fetch_t *fetch, ngx_str_t *args)
{
    ngx_str_t            uri = fetch->from->location;
    ngx_connection_t    *c = ngx_http_pgw_fetch_connection(fetch);
    ngx_http_request_t  *r, *sr;

    fetch->log = *fetch->from->log;
    fetch->log.connection = c->number;
    fetch->log.handler = ngx_http_pgw_fetch_log;
    fetch->log.data = &fetch->log_ctx;
    fetch->log_ctx.connection = c;

    fetch->http_connection.conf_ctx = fetch->from->ctx;
    c->data = &fetch->http_connection;

    r = ngx_http_create_request(c);
    if (r == NULL) {
        return NGX_ERROR;
    }

    /* ngx_http_create_request() has set the level of the server */

    if (fetch->from->quiet && fetch->log.log_level <= NGX_LOG_DEBUG) {
        fetch->log.log_level = ngx_min(fetch->log.log_level, NGX_LOG_CRIT);
    }

    fetch->request = r;
    c->data = r;
    c->pool = r->pool;

    r->blocked = 1;
    r->logged = 1;
    r->internal = 1;

    r->method = NGX_HTTP_GET;
    r->method_name = ngx_http_core_get_method;
    r->http_version = NGX_HTTP_VERSION_11;
    ngx_str_set(&r->http_protocol, "HTTP/1.1");
    r->uri = uri;
    r->unparsed_uri = uri;
    r->write_event_handler = ngx_http_request_empty_handler;

    if (ngx_list_init(&r->headers_in.headers, r->pool, 4,
                      sizeof(ngx_table_elt_t))
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    fetch->post.handler = ngx_http_pgw_fetch_post;
    fetch->post.data = fetch;

    return ngx_http_subrequest(r, &uri, args, &sr, &fetch->post,
                               NGX_HTTP_SUBREQUEST_IN_MEMORY);
}


ngx_int_t
ngx_http_pgw_fetch_start(ngx_http_pgw_source_t *from, ngx_str_t *args)
{
    ngx_http_pgw_fetch_t  *fetch;

    if (from->fetch == NULL) {
        from->fetch = ngx_pcalloc(ngx_cycle->pool, sizeof(*from->fetch));
    }

    fetch = from->fetch;

    if (fetch == NULL || fetch->from) {
        return NGX_ERROR;
    }

    ngx_memzero(fetch, sizeof(ngx_http_pgw_fetch_t));

    fetch->from = from;
    fetch->err = "timed out";
    fetch->event.handler = ngx_http_pgw_fetch_end;
    fetch->event.data = fetch;
    fetch->event.log = from->log;

    if (ngx_http_pgw_fetch_request(fetch, args) != NGX_OK) {
        ngx_http_pgw_fetch_free(fetch);
        return NGX_ERROR;
    }

    ngx_add_timer(&fetch->event, from->timeout);

    ngx_http_run_posted_requests(&fetch->connection);

    return NGX_OK;
}
