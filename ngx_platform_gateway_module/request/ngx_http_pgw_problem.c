
/*
 * RFC 9457 bodies: a header and a body filter that put
 * application/problem+json where nginx would send one of its built-in pages.
 *
 * nginx's special response alone sets r->err_status, and sends text/html of a
 * known length without validators.  r->err_status stays set when an error_page
 * leads to a location of the operator.  So the header is held back until the
 * first buffer of the body shows whether it is nginx's page.
 */


#include "request/request.h"
#include "base/base.h"


/* ctx->problem */
#define NGX_HTTP_PGW_PROBLEM_NONE     0
#define NGX_HTTP_PGW_PROBLEM_PENDING  1  /* header held back */
#define NGX_HTTP_PGW_PROBLEM_SENT     2  /* page is swallowed */


/* The built-in pages, by status.  494 to 497 arrive here as 400; 494 and 497
   are told apart, by their text.  No string needs escaping in JSON. */

typedef struct {
    ngx_uint_t   status;
    const char  *title;
    const char  *code;         /* NULL for the detail of the reason */
    const char  *detail;
} ngx_http_pgw_problem_page_t;

static const ngx_http_pgw_problem_page_t  ngx_http_pgw_problem_pages[] = {
    { 400, "Bad Request", NULL, NULL },
    { 401, "Unauthorized", "GATEWAY_UNAUTHORIZED",
      "the request needs credentials" },
    { 403, "Forbidden", "GATEWAY_FORBIDDEN", "the request is refused" },
    { 404, "Not Found", NULL, NULL },
    { 405, "Method Not Allowed", NULL, NULL },
    { 411, "Length Required", "GATEWAY_BAD_REQUEST",
      "the request needs a Content-Length" },
    { 413, "Content Too Large", NULL, NULL },
    { 414, "URI Too Long", NULL, NULL },
    { 421, "Misdirected Request", "GATEWAY_BAD_REQUEST",
      "the request is for another server" },
    { 429, "Too Many Requests", NULL, NULL },
    { NGX_HTTP_REQUEST_HEADER_TOO_LARGE, "Bad Request",
      "GATEWAY_HEADER_TOO_LARGE", "a request header is too large" },
    { NGX_HTTP_TO_HTTPS, "Bad Request", "GATEWAY_BAD_REQUEST",
      "The plain HTTP request was sent to HTTPS port" },
    { 500, "Internal Server Error", "GATEWAY_ERROR",
      "the gateway failed to answer" },
    { 501, "Not Implemented", "GATEWAY_ERROR",
      "the transfer coding of the request is not supported" },
    { 502, "Bad Gateway", "GATEWAY_UPSTREAM_UNAVAILABLE",
      "the service behind this path cannot be reached" },
    { 503, "Service Unavailable", "GATEWAY_UPSTREAM_UNAVAILABLE",
      "the service behind this path is not available" },
    { 504, "Gateway Timeout", "GATEWAY_UPSTREAM_TIMEOUT",
      "the service behind this path did not answer in time" },
    { 505, "HTTP Version Not Supported", "GATEWAY_ERROR",
      "the HTTP version of the request is not supported" },
    { 0, NULL, NULL, NULL }
};

static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;
static ngx_http_output_body_filter_pt    ngx_http_next_body_filter;


static const ngx_http_pgw_problem_page_t *
ngx_http_pgw_problem_find(ngx_uint_t status)
{
    const ngx_http_pgw_problem_page_t  *page = ngx_http_pgw_problem_pages;

    while (page->status && page->status != status) {
        page++;
    }

    return page->status ? page : NULL;
}


/* Returns Allow, also for a location without platform_gateway_methods. */

static const ngx_str_t *
ngx_http_pgw_problem_allow(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf)
{
    static const ngx_str_t  none = ngx_string("OPTIONS");
    static const ngx_str_t  files = ngx_string("GET, HEAD, OPTIONS");
    static const ngx_str_t  any =
        ngx_string("GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");

    /* nginx refuses these before it finds a location */

    return r->method & (NGX_HTTP_TRACE|NGX_HTTP_CONNECT) ? &any

           /* the location of an error_page has not refused the method */

           : conf->allow.len && !r->internal ? &conf->allow

           /* the upstream's Allow is lost with its response; of nginx's own
              content handlers, those for files refuse methods */

           : r->err_status == NGX_HTTP_NOT_ALLOWED
           ? (r->upstream ? &none : &files)
           : conf->access == 0 || conf->route_not_found ? &none
           : ngx_http_pgw_core(r)->handler ? &any : &files;
}


/* Adds the headers of the status: Allow, Retry-After, WWW-Authenticate (RFC
   9110, sections 10.2.1 and 10.2.3; RFC 6750, section 3). */

static ngx_int_t
ngx_http_pgw_problem_headers(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf)
{
    time_t                        retry_after;
    ngx_str_t                     value;
    ngx_uint_t                    ours;
    const ngx_str_t              *allow;
    const ngx_http_pgw_reason_t  *reason = ngx_http_pgw_request_refusal(gr);

    ours = (reason && reason->status == r->headers_out.status);

    if (r->err_status == NGX_HTTP_NOT_ALLOWED
        || (r->err_status == NGX_HTTP_NO_CONTENT
            && gr->reason == NGX_HTTP_PGW_REASON_OPTIONS))
    {
        allow = (ours && gr->allow.len)
                ? &gr->allow : ngx_http_pgw_problem_allow(r, conf);

        if (ngx_http_pgw_header_add(r, "Allow", allow) == NULL) {
            return NGX_ERROR;
        }
    }

    /* limit_req and limit_conn give no time; their unit is a second */

    retry_after = ours && gr->retry_after ? gr->retry_after
                  : r->err_status == NGX_HTTP_TOO_MANY_REQUESTS;

    if (retry_after) {
        value.data = ngx_pnalloc(r->pool, NGX_TIME_T_LEN);
        if (value.data == NULL) {
            return NGX_ERROR;
        }

        value.len = (size_t) (ngx_sprintf(value.data, "%T", retry_after)
                              - value.data);

        if (!ngx_http_pgw_header_add(r, "Retry-After", &value)) {
            return NGX_ERROR;
        }
    }

    if (gr->nonce.len && !ngx_http_pgw_header_add(r, "DPoP-Nonce", &gr->nonce))
    {
        return NGX_ERROR;
    }

    if (!ours || gr->challenge.len == 0 || r->headers_out.www_authenticate) {
        return NGX_OK;
    }

    r->headers_out.www_authenticate =
                 ngx_http_pgw_header_add(r, "WWW-Authenticate", &gr->challenge);

    return r->headers_out.www_authenticate ? NGX_OK : NGX_ERROR;
}


static ngx_int_t
ngx_http_pgw_problem_send_header(ngx_http_request_t *r)
{
    ngx_http_pgw_request_t   *gr = ngx_http_pgw_request_begin(r);
    ngx_http_pgw_loc_conf_t  *conf = ngx_http_pgw_loc(r);

    if (gr == NULL
        || ngx_http_pgw_problem_headers(r, gr, conf) != NGX_OK
        || ngx_http_pgw_cors_headers(r, gr, conf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    /* the refusal of HTTP/0.9 needs a status line; if r->http_protocol is set,
       an upstream that answers in HTTP/0.9 has lowered the version */

    if (r->http_version < NGX_HTTP_VERSION_10 && r->http_protocol.len == 0) {
        r->http_version = NGX_HTTP_VERSION_10;
    }

    return ngx_http_next_header_filter(r);
}


/* Returns whether this may be the header of a built-in page. */

static ngx_uint_t
ngx_http_pgw_problem_possible(ngx_http_request_t *r)
{
    ngx_http_headers_out_t  *out = &r->headers_out;

    return r->err_status >= NGX_HTTP_BAD_REQUEST
           && out->status == r->err_status
           && out->content_length_n > 0
           && out->content_length == NULL
           && out->last_modified_time == -1
           && out->last_modified == NULL
           && out->etag == NULL
           && out->content_encoding == NULL
           && out->content_type_lowcase == NULL
           && out->content_type.len == sizeof("text/html") - 1
           && ngx_strncmp(out->content_type.data, "text/html",
                          sizeof("text/html") - 1)
              == 0
           && !r->header_only
           && ngx_http_pgw_problem_find(r->err_status) != NULL;
}


static ngx_int_t
ngx_http_pgw_problem_header_filter(ngx_http_request_t *r)
{
    ngx_http_pgw_ctx_t  *ctx;

    if (!ngx_http_pgw_loc(r)->enable || r != r->main) {
        return ngx_http_next_header_filter(r);
    }

    if (!ngx_http_pgw_problem_possible(r)) {
        return ngx_http_pgw_problem_send_header(r);
    }

    ctx = ngx_http_pgw_request_ctx(r);
    if (ctx == NULL) {
        return NGX_ERROR;
    }

    ctx->problem = NGX_HTTP_PGW_PROBLEM_PENDING;

    /* if a page of the operator follows, filters that need these have not seen
       the header yet */

    if (r->internal) {
        r->main_filter_need_in_memory = 1;
        r->filter_need_temporary = 1;
    }

    return NGX_OK;
}


/* Returns the entry of the built-in page that b begins, or NULL. */

static const ngx_http_pgw_problem_page_t *
ngx_http_pgw_problem_page(ngx_http_request_t *r, const ngx_buf_t *b)
{
    u_char      *p;
    ngx_uint_t   status;

    static const u_char  html[] = "<html>" CRLF;
    static const u_char  head[] = "<head>";     /* none in Angie since 1.12 */
    static const u_char  title[] = "<title>";
    static const u_char  end[] = "</center>" CRLF;

    /* nginx sends the closing tags in a second buffer, so a file with the same
       text is not mistaken for its page */

    if (!ngx_buf_in_memory(b)
        || b->last - b->pos < (ssize_t) (sizeof(html) + sizeof(head)
                                         + sizeof(title) + sizeof("000")
                                         + sizeof(end) - 4)
        || ngx_memcmp(b->pos, html, sizeof(html) - 1) != 0
        || ngx_memcmp(b->last - (sizeof(end) - 1), end, sizeof(end) - 1) != 0)
    {
        return NULL;
    }

    p = b->pos + sizeof(html) - 1;

    if (ngx_memcmp(p, head, sizeof(head) - 1) == 0) {
        p += sizeof(head) - 1;
    }

    if (ngx_memcmp(p, title, sizeof(title) - 1) != 0) {
        return NULL;
    }

    status = r->err_status;
    p += sizeof(title) - 1;

    if (ngx_atoi(p, 3) != (ngx_int_t) status || p[3] != ' ') {
        return NULL;
    }

    p += sizeof("000 ") - 1;

    /* compare only as many bytes as any title has */

    if (ngx_memcmp(p, "Request Hea", sizeof(end) - 1) == 0) {
        status = NGX_HTTP_REQUEST_HEADER_TOO_LARGE;

    } else if (ngx_memcmp(p, "The plain H", sizeof(end) - 1) == 0) {
        status = NGX_HTTP_TO_HTTPS;
    }

    return ngx_http_pgw_problem_find(status);
}


/* Returns the page of a wrong method instead of that of a large body, because
   nginx checks the size of a body before any handler runs. */

static const ngx_http_pgw_problem_page_t *
ngx_http_pgw_problem_precedence(ngx_http_request_t *r,
    ngx_http_pgw_request_t *gr, const ngx_http_pgw_problem_page_t *page)
{
    if (page->status != NGX_HTTP_REQUEST_ENTITY_TOO_LARGE
        || r->method == NGX_HTTP_OPTIONS
        || ngx_http_pgw_access_accepts(ngx_http_pgw_loc(r), r->method))
    {
        return page;
    }

    r->err_status = NGX_HTTP_NOT_ALLOWED;
    r->headers_out.status = NGX_HTTP_NOT_ALLOWED;

    (void) ngx_http_pgw_request_refuse(r, gr,
                                       NGX_HTTP_PGW_REASON_METHOD_FORBIDDEN,
                                       NULL);

    return ngx_http_pgw_problem_find(NGX_HTTP_NOT_ALLOWED);
}


/* Returns the body of the response, and sets its headers; NULL on an allocation
   failure. */

static ngx_buf_t *
ngx_http_pgw_problem_body(ngx_http_request_t *r,
    const ngx_http_pgw_problem_page_t *page)
{
    ngx_buf_t                    *b = ngx_calloc_buf(r->pool);
    const char                   *code, *detail;
    ngx_http_pgw_text_t           text = { .request = r };
    ngx_http_pgw_request_t       *gr = ngx_http_pgw_request_begin(r);
    const ngx_http_pgw_reason_t  *reason;

    if (gr == NULL || b == NULL
        || !ngx_http_pgw_header_add(r, "Cache-Control",
                                    ngx_http_pgw_header_text("no-store")))
    {
        return NULL;
    }

    page = ngx_http_pgw_problem_precedence(r, gr, page);
    reason = ngx_http_pgw_request_refusal(gr);
    code = page->code;
    detail = page->detail;

    if (reason && reason->status == page->status) {
        code = gr->code ? gr->code : reason->code;
        detail = gr->detail ? gr->detail : reason->detail;

    } else if (code == NULL) {
        reason = &ngx_http_pgw_reasons[
                     ngx_http_pgw_reason_of_status(page->status)];
        code = reason->code;
        detail = reason->detail;
    }

    ngx_http_pgw_text_literal(&text, "{\"type\":\"about:blank\",\"title\":",
                              page->title);
    ngx_http_pgw_text_number(&text, ",\"status\":", r->err_status);
    ngx_http_pgw_text_literal(&text, ",\"detail\":", detail);
    ngx_http_pgw_text_literal(&text, ",\"code\":", code);
    ngx_http_pgw_text_plain(&text, ",\"requestId\":", &gr->request_id);

    if (gr->errors.len && reason && reason->status == page->status) {
        ngx_http_pgw_text_format(&text, ",\"errors\":%V", &gr->errors);
    }

    if (ngx_http_pgw_text_reserve(&text, 1)) {
        *text.last++ = '}';
    }

    b->pos = text.start;
    b->last = text.last;
    b->memory = 1;
    b->last_buf = 1;
    b->last_in_chain = 1;

    r->headers_out.content_length_n = b->last - b->pos;
    ngx_str_set(&r->headers_out.content_type, "application/problem+json");
    r->headers_out.content_type_len = r->headers_out.content_type.len;

    return text.failed ? NULL : b;
}


static ngx_chain_t *
ngx_http_pgw_problem_swallow(ngx_chain_t *in)
{
    for ( /* void */ ; in; in = in->next) {
        in->buf->pos = in->buf->last;
        in->buf->file_pos = in->buf->file_last;
    }

    return NULL;
}


static ngx_int_t
ngx_http_pgw_problem_body_filter(ngx_http_request_t *r, ngx_chain_t *in)
{
    ngx_int_t                           rc;
    ngx_chain_t                         out;
    ngx_http_pgw_ctx_t                 *ctx = ngx_http_pgw_ctx(r);
    const ngx_http_pgw_problem_page_t  *page;

    if (ctx == NULL || ctx->problem == NGX_HTTP_PGW_PROBLEM_NONE || in == NULL)
    {
        return ngx_http_next_body_filter(r, in);
    }

    if (ctx->problem == NGX_HTTP_PGW_PROBLEM_SENT) {
        return ngx_http_next_body_filter(r, ngx_http_pgw_problem_swallow(in));
    }

    page = ngx_http_pgw_problem_page(r, in->buf);
    ctx->problem = page ? NGX_HTTP_PGW_PROBLEM_SENT
                        : NGX_HTTP_PGW_PROBLEM_NONE;

    if (page) {
        ngx_http_pgw_problem_swallow(in);

        out.buf = ngx_http_pgw_problem_body(r, page);
        out.next = NULL;

        if (out.buf == NULL) {
            return NGX_ERROR;
        }

        in = &out;
    }

    rc = ngx_http_pgw_problem_send_header(r);

    if (rc == NGX_ERROR || rc > NGX_OK) {
        return rc;
    }

    /* the sender of the body could not see that this is HEAD */

    if (r->header_only) {
        ctx->problem = NGX_HTTP_PGW_PROBLEM_SENT;
        in = ngx_http_pgw_problem_swallow(in);
    }

    return ngx_http_next_body_filter(r, in);
}


void
ngx_http_pgw_problem_init(void)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_pgw_problem_header_filter;

    ngx_http_next_body_filter = ngx_http_top_body_filter;
    ngx_http_top_body_filter = ngx_http_pgw_problem_body_filter;
}
