
/*
 * Forward-auth: another proxy describes a request of its client, in headers or
 * by the request itself, and the guard decides on it as on a request of our
 * own.  The response has the trusted headers, or is the refusal.
 */


#include "request/request.h"
#include "answer/answer.h"
#include "conf/conf.h"
#include "token/token.h"
#include "base/base.h"
#include "nginx/nginx.h"


#define NGX_HTTP_PGW_FORWARD_UPPER  "ABCDEFGHIJKLMNOPQRSTUVWXYZ"


/* Names of the headers for the method, the URI and the URL, of which only the
   path counts; indexed by conf->forward. */

static const char *const  ngx_http_pgw_forward_headers[][3] = {
    { "", "", "" },
    { "x-forwarded-method", "x-forwarded-uri", "" },
    { "x-original-method", "x-original-uri", "x-original-url" }
};


/* Leaves the path and the query of a URL.  Returns 0 if it has another scheme
   than http or https.  The host ends at the first byte that no host has. */

static ngx_uint_t
ngx_http_pgw_forward_url(ngx_str_t *url)
{
    u_char  *p;

    static const char  host[] = NGX_HTTP_PGW_FORWARD_UPPER
        "abcdefghijklmnopqrstuvwxyz0123456789-._:[]";

    p = ngx_strncmp(url->data, "http://", 7) == 0 ? url->data + 7
        : ngx_strncmp(url->data, "https://", 8) == 0 ? url->data + 8 : NULL;

    if (p == NULL) {
        return 0;
    }

    p += strspn((const char *) p, host);

    url->len -= (size_t) (p - url->data);
    url->data = p;

    return 1;
}


/* Removes the prefix of the location from the path as the client sent it: nginx
   has compared the decoded path.  A second call, after a wait, does the same.
   Returns NULL, or the fault. */

static const char *
ngx_http_pgw_forward_rest(ngx_http_request_t *r)
{
    size_t     len;
    ngx_str_t  prefix = ngx_http_pgw_core(r)->name;

    len = (size_t) (r->uri_end - r->uri_start);
    prefix.len -= (prefix.data[prefix.len - 1] == '/');

    if (len <= prefix.len
        || ngx_memcmp(r->uri_start, prefix.data, prefix.len) != 0
        || r->uri_start[prefix.len] != '/')
    {
        return "the path does not begin with that of the location";
    }

    r->unparsed_uri.data = r->uri_start + prefix.len;
    r->unparsed_uri.len = len - prefix.len;

    return NULL;
}


/* Reads the described request into r, for the log.  Returns NULL, or the fault.
   Refuses a header that is there twice, since the client may have sent one. */

static const char *
ngx_http_pgw_forward_read(ngx_http_request_t *r, ngx_uint_t forward)
{
    ngx_str_t               key, value[3];
    ngx_uint_t              i, n[3];
    const ngx_list_part_t  *sent = &r->headers_in.headers.part;

    static ngx_table_elt_t  upgrade;

    /* other proxies do not pass Upgrade of a WebSocket's handshake */

    if (ngx_http_pgw_names_find(sent, "sec-websocket-key", &key)) {
        r->headers_in.upgrade = &upgrade;
    }

    if (forward == NGX_HTTP_PGW_FORWARD_REQUEST) {
        return ngx_http_pgw_forward_rest(r);
    }

    for (i = 0; i < 3; i++) {
        n[i] = ngx_http_pgw_names_find(sent,
                   ngx_http_pgw_forward_headers[forward][i], &value[i]);
    }

    if (n[0] != 1 || n[1] + n[2] != 1) {
        return "the original method and URI must be sent, once each";
    }

    if (n[2] && !ngx_http_pgw_forward_url(&value[2])) {
        return "the original URL is not one of http or https";
    }

    r->method_name = value[0];
    r->unparsed_uri = value[n[1] ? 1 : 2];

    return r->method_name.len
           && strspn((const char *) r->method_name.data,
                     NGX_HTTP_PGW_FORWARD_UPPER "-_") == r->method_name.len
           ? NULL : "the original method is malformed";
}


/* Runs the checks of the phases in their order.  A preflight passes without a
   token, because the other proxy has to answer it. */

static ngx_int_t
ngx_http_pgw_forward_decide(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_int_t  rc;

    gr->required = &conf->levels;

    rc = ngx_http_pgw_access_method(r, gr, conf);

    return rc != NGX_DECLINED ? rc
           : conf->access ? ngx_http_pgw_guard(r, gr, conf)
           : ngx_http_pgw_guard_refuse(r, gr, conf,
                                       NGX_HTTP_PGW_REASON_ROUTE_NOT_FOUND,
                                       NULL);
}


/* Adds a header with the value of grant, or empty if grant is NULL or lacks the
   value.  Returns the element, or NULL if memory is short. */

static ngx_table_elt_t *
ngx_http_pgw_forward_header(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_grant_t *grant,
    const ngx_str_t *name)
{
    ngx_uint_t                          i;
    const ngx_str_t                    *value = ngx_http_pgw_header_text("");
    const ngx_http_pgw_claim_header_t  *ch = conf->claim_headers->elts;

    for (i = 0; grant && i < conf->claim_headers->nelts; i++) {

        if (ngx_http_pgw_names_same(&ch[i].name, name)
            && ngx_http_pgw_grant_headers(grant, conf)[i].data)
        {
            value = ngx_http_pgw_grant_headers(grant, conf) + i;
        }
    }

    return ngx_http_pgw_headers_push(r, (char *) name->data, name->len, value);
}


/*
 * Adds the trusted headers, and returns 204.  A header without a value is sent
 * empty, because Caddy 2.6 invents a value for a missing one.  So is the
 * assertion if the location has none, since the other proxy may pass on what
 * its client sent.
 *
 * For "request" the response is 200, the only status with which Envoy lets a
 * request pass.  Envoy keeps the client's headers that the response neither has
 * nor names as to be removed, so the response has all names that the described
 * server strips.
 */

static ngx_int_t
ngx_http_pgw_forward_pass(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *judge, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_grant_t *grant)
{
    ngx_str_t                           removed;
    ngx_uint_t                          i, all;
    const ngx_array_t                  *names;
    ngx_table_elt_t                    *h;
    ngx_http_pgw_text_t                 text = { .request = r };
    ngx_http_complex_value_t            body;
    const ngx_http_pgw_srv_conf_t      *sscf;
    const ngx_http_pgw_claim_header_t  *ch;

    all = (judge->forward == NGX_HTTP_PGW_FORWARD_REQUEST);
    sscf = judge->explain->ctx->srv_conf[
                                   ngx_http_platform_gateway_module.ctx_index];
    names = all ? sscf->strip : conf->claim_headers;
    ch = names->elts;

    /* a server's list begins with the names of the ids */

    for (i = all ? NGX_HTTP_PGW_IDS : 0; i < names->nelts; i++) {

        h = ngx_http_pgw_forward_header(r, conf, grant, &ch[i].name);
        if (h == NULL) {
            return NGX_HTTP_INTERNAL_SERVER_ERROR;
        }

        if (h->value.len == 0) {
            ngx_http_pgw_text_format(&text, text.last ? ", %V" : "%V",
                                     &ch[i].name);
        }
    }

    removed = ngx_http_pgw_text_value(&text);

    if (text.failed
        || (!all && conf->assertion == NULL && ngx_http_pgw_main(r)->signer->key
            && !ngx_http_pgw_forward_header(r, conf, NULL,
                                            &ngx_http_pgw_assertion_name))
        || !ngx_http_pgw_header_add(r, "Cache-Control",
                                    ngx_http_pgw_header_text("no-store"))
        || (all && removed.len
            && !ngx_http_pgw_header_add(r, "x-envoy-auth-headers-to-remove",
                                        &removed)))
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_memzero(&body, sizeof(ngx_http_complex_value_t));

    return all ? ngx_http_send_response(r, NGX_HTTP_OK, NULL, &body)
               : NGX_HTTP_NO_CONTENT;
}


/* Finds the configuration for the described request.  Returns the status of a
   refusal if nginx would redirect the path, if no location serves it, or if the
   gateway is off there. */

static ngx_int_t
ngx_http_pgw_forward_find(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_loc_conf_t **found)
{
    void                      **loc_conf;
    ngx_int_t                   rc;
    const char                 *fault;
    ngx_http_core_loc_conf_t   *clcf;

    fault = ngx_http_pgw_forward_read(r, conf->forward);
    rc = fault ? NGX_DECLINED
         : ngx_http_pgw_peek_location(r, conf->explain, &r->unparsed_uri,
                                      &loc_conf);

    if (rc == NGX_DECLINED) {
        return ngx_http_pgw_local_refuse(r, NGX_HTTP_PGW_REASON_BAD_REQUEST,
                   NULL, fault ? fault : "the original URI is malformed", 0);
    }

    if (rc == NGX_ERROR) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    clcf = loc_conf[ngx_http_core_module.ctx_index];
    *found = loc_conf[ngx_http_platform_gateway_module.ctx_index];

    return rc == NGX_DONE || loc_conf == conf->explain->ctx->loc_conf
           || clcf->internal || !(*found)->enable || (*found)->route_not_found
           ? ngx_http_pgw_local_refuse(r, NGX_HTTP_PGW_REASON_ROUTE_NOT_FOUND,
                                       NULL, NULL, 0) : NGX_OK;
}


/*
 * Runs again after a wait for keys.  While the guard decides, r has our
 * settings of the described location.  It keeps the settings of other modules,
 * whose error pages, logs and headers are not for this request.
 */

static ngx_int_t
ngx_http_pgw_forward_handler(ngx_http_request_t *r)
{
    void                    **own = r->loc_conf;
    ngx_int_t                 rc;
    ngx_uint_t                method = r->method;
    ngx_http_pgw_request_t   *gr = ngx_http_pgw_request_writable(r);
    ngx_http_pgw_loc_conf_t  *judge = ngx_http_pgw_loc(r), *conf = judge;

    /* the status of an error_page might admit the request */

    r->error_page = 1;

    /* in a subrequest, and after X-Accel-Redirect to an internal location, the
       headers come from the client */

    if (r != r->main) {
        return NGX_HTTP_FORBIDDEN;
    }

    if (ngx_http_pgw_core(r)->internal) {
        return NGX_HTTP_NOT_FOUND;
    }

    rc = ngx_http_pgw_forward_find(r, judge, &conf);
    if (rc != NGX_OK) {
        return rc;
    }

    r->loc_conf = ngx_palloc(r->pool, ngx_http_max_module * sizeof(void *));

    if (gr == NULL || r->loc_conf == NULL) {
        r->loc_conf = own;
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_memcpy(r->loc_conf, own, ngx_http_max_module * sizeof(void *));
    r->loc_conf[ngx_http_platform_gateway_module.ctx_index] = conf;

    /* the guard of this location has decided on another request */

    gr->shown = NULL;
    gr->method = r->method_name;
    ngx_http_set_ctx(r, NULL, ngx_http_platform_gateway_module);

    r->method = ngx_http_pgw_access_mask(&r->method_name);
    rc = ngx_http_pgw_forward_decide(r, gr, conf);
    r->method = method;

    if (rc == NGX_AGAIN) {
        r->loc_conf = own;
        r->main->count++;
        return NGX_DONE;
    }

    return rc == NGX_OK
           ? ngx_http_pgw_forward_pass(r, judge, conf,
                                       &ngx_http_pgw_ctx(r)->grant)
           : rc == NGX_DECLINED || rc == NGX_HTTP_NO_CONTENT
           ? ngx_http_pgw_forward_pass(r, judge, conf, NULL) : rc;
}


ngx_http_pgw_content_t  ngx_http_pgw_forward_content =
    { .handler = ngx_http_pgw_forward_handler, .methods = NGX_HTTP_GET,
      .server = 2 };


char *
ngx_http_pgw_forward_auth(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t                *value = cf->args->elts;
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    lcf->forward = ngx_strcmp(value[1].data, "forwarded") == 0
                   ? NGX_HTTP_PGW_FORWARD_FORWARDED
                   : ngx_strcmp(value[1].data, "original") == 0
                   ? NGX_HTTP_PGW_FORWARD_ORIGINAL
                   : ngx_strcmp(value[1].data, "request") == 0
                   ? NGX_HTTP_PGW_FORWARD_REQUEST : NGX_HTTP_PGW_FORWARD_OFF;

    return lcf->forward ? ngx_http_pgw_content_directive(cf, cmd, conf)
                        : "accepts \"forwarded\", \"original\" and "
                          "\"request\"";
}
