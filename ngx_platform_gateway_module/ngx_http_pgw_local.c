
/*
 * Content handlers of the gateway's own: liveness, readiness, the answer to a
 * path that no route serves, and explanations.  Those are for the operator
 * alone, since they tell more of a token than its bearer learns from a refusal.
 */


#include "ngx_http_pgw_local.h"
#include "ngx_http_pgw_conf.h"
#include "ngx_http_pgw_explain.h"
#include "ngx_http_pgw_headers.h"
#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_names.h"
#include "ngx_http_pgw_peek.h"
#include "ngx_http_pgw_request.h"
#include "ngx_http_pgw_revocations.h"
#include "ngx_http_pgw_text.h"


#define NGX_HTTP_PGW_EXPLAIN_MAX  (64 * 1024)


ngx_int_t
ngx_http_pgw_local_refuse(ngx_http_request_t *r, ngx_http_pgw_reason_e reason,
    const char *code, const char *detail, time_t retry_after)
{
    ngx_int_t                rc;
    ngx_http_pgw_request_t  *gr = ngx_http_pgw_request_own(r);

    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    gr->retry_after = retry_after;

    rc = ngx_http_pgw_request_refuse(r, gr, reason, detail);

    gr->code = code;

    return (rc == NGX_ERROR) ? NGX_HTTP_INTERNAL_SERVER_ERROR : rc;
}


static ngx_int_t
ngx_http_pgw_local_health_handler(ngx_http_request_t *r)
{
    ngx_http_pgw_text_t  text = { .request = r };

    if (!(r->method & (NGX_HTTP_GET|NGX_HTTP_HEAD))) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    ngx_http_pgw_text_format(&text,
                             "{\"status\":\"UP\",\"service\":\"gateway\"}");

    return ngx_http_pgw_text_send(&text, "application/json");
}


/* Ready: what the issuer without a block has is there, and so are the keys of
   at least one.  Its feed is not stale if that refuses requests.  An issuer
   with a block, down alone, makes nobody unready. */

static ngx_int_t
ngx_http_pgw_local_ready_handler(ngx_http_request_t *r)
{
    ngx_uint_t                  own;
    ngx_http_pgw_issuer_t      *first = ngx_http_pgw_main(r)->issuers;
    ngx_http_pgw_issuer_t      *issuer, *lacks = NULL;
    ngx_http_pgw_revocations_t  *rev = first->revocations;

    own = ngx_http_pgw_issuer_usable(first);

    for (issuer = first; issuer; issuer = own ? NULL : issuer->next) {

        if (ngx_http_pgw_issuer_usable(issuer)) {
            lacks = ngx_http_pgw_keys_get(issuer) ? NULL : issuer;

            if (lacks == NULL) {
                break;
            }
        }
    }

    if (lacks) {
        return ngx_http_pgw_local_refuse(r,
                   NGX_HTTP_PGW_REASON_KEYS_UNAVAILABLE, NULL,
                   "no key set has been loaded yet",
                   ngx_http_pgw_keys_retry_after(lacks));
    }

    if (rev && (rev->refuse ? ngx_http_pgw_revocations_stale(rev)
                : !ngx_http_pgw_revocations_whole(rev->zone)))
    {
        return ngx_http_pgw_local_refuse(r,
                   NGX_HTTP_PGW_REASON_REVOCATIONS_STALE, NULL,
                   ngx_http_pgw_revocations_whole(rev->zone)
                   ? "the feed of revocations is stale"
                   : "the revocations have not all been read yet", 1);
    }

    return ngx_http_pgw_local_health_handler(r);
}


static ngx_int_t
ngx_http_pgw_local_not_found_handler(ngx_http_request_t *r)
{
    return ngx_http_pgw_local_refuse(r, NGX_HTTP_PGW_REASON_ROUTE_NOT_FOUND,
                                     NULL, NULL, 0);
}


/* Reads {"path", "method", ..., "at"}; NULL, or what is wrong with it. */

static const char *
ngx_http_pgw_explain_read(ngx_http_pgw_question_t *q, const pj_json_t *root)
{
    size_t            i, known;
    const pj_json_t  *m;

    struct {
        const char   *name;
        ngx_str_t    *value;
    } members[] = {
        { "token", &q->token },
        { "method", &q->method },
        { "path", &q->path },
        { "origin", &q->origin },
        { "headers", &q->headers }
    };

    m = pj_json_member(root, "at");
    known = (m != NULL);

    if (m
        && (pj_json_seconds(m, PJ_ROUND_DOWN, &q->at) != PJ_OK
            || q->at < 0 || q->at >= NGX_MAX_INT_T_VALUE - 300))
    {
        return "the time is a number of seconds";
    }

    for (i = 0; i < sizeof(members) / sizeof(members[0]); i++) {

        m = pj_json_member(root, members[i].name);
        if (m == NULL) {
            continue;
        }

        known++;

        if (m->type != PJ_JSON_STRING && (m->type != PJ_JSON_NULL || i > 0)) {
            return "every member except at is a string";
        }

        members[i].value->len = m->text.len;

        if (m->text.len) {
            members[i].value->data = (u_char *) m->text.data;
        }
    }

    if (known != root->count) {
        return "the members are token, method, path, origin, headers and at";
    }

    return q->path.len ? NULL : "a path is required";
}


static void
ngx_http_pgw_explain_body(ngx_http_request_t *r)
{
    u_char                     *p;
    size_t                      size;
    pj_str_t                    body = { (const u_char *) "", 0 };
    pj_arena_t                  arena;
    const char                 *err;
    const pj_json_t            *root;
    ngx_http_variable_value_t  *v;
    ngx_http_pgw_question_t     question = {
        .server = ngx_http_pgw_loc(r)->explain,
        .method = ngx_string("GET"),
        .at = ngx_time()
    };

    static ngx_str_t  name = ngx_string("request_body");

    v = ngx_http_get_variable(r, &name, ngx_hash_key(name.data, name.len));

    if (v && !v->not_found) {
        body = (pj_str_t) { v->data, v->len };
    }

    size = pj_keyset_arena_bytes(body.len);
    p = ngx_palloc(r->pool, size);
    if (p == NULL || v == NULL
        || (v->not_found && r->headers_in.content_length_n > 0))
    {
        ngx_http_finalize_request(r, p && v
                                     ? NGX_HTTP_REQUEST_ENTITY_TOO_LARGE
                                     : NGX_HTTP_INTERNAL_SERVER_ERROR);
        return;
    }

    pj_arena_init(&arena, p, size);

    err = pj_json_parse(&arena, body, &root) != PJ_OK
          || root->type != PJ_JSON_OBJECT
          ? "the body is not a JSON object"
          : ngx_http_pgw_explain_read(&question, root);

    ngx_http_finalize_request(r,
           err ? ngx_http_pgw_local_refuse(r, NGX_HTTP_PGW_REASON_BAD_REQUEST,
                                           "REQUEST_INVALID", err, 0)
               : ngx_http_pgw_explain_answer(r, &question));
}


/* A token must not reach the disk, so a body that nginx would not hold in
   memory is refused.  A page may have its browser ask, from inside what "allow"
   lets in: all that a page can have sent by POST has one of two headers. */

static ngx_int_t
ngx_http_pgw_explain_handler(ngx_http_request_t *r)
{
    off_t                   length;
    ngx_int_t               rc;
    ngx_str_t               value;
    const ngx_list_part_t  *sent = &r->headers_in.headers.part;

    if (r->method != NGX_HTTP_POST || r != r->main) {
        return NGX_HTTP_NOT_ALLOWED;
    }

    if (ngx_http_pgw_names_find(sent, "origin", &value)
        || ngx_http_pgw_names_find(sent, "sec-fetch-site", &value))
    {
        return ngx_http_pgw_local_refuse(r,
                                     NGX_HTTP_PGW_REASON_ORIGIN_FORBIDDEN,
                                     NULL, "browsers get no explanation", 0);
    }

    length = r->headers_in.content_length_n;

    if (length < 0) {
        return NGX_HTTP_LENGTH_REQUIRED;
    }

    if (length > NGX_HTTP_PGW_EXPLAIN_MAX
        || length > (off_t) ngx_http_pgw_core(r)->client_body_buffer_size)
    {
        return NGX_HTTP_REQUEST_ENTITY_TOO_LARGE;
    }

    r->request_body_in_file_only = 0;

    rc = ngx_http_read_client_request_body(r, ngx_http_pgw_explain_body);

    return (rc >= NGX_HTTP_SPECIAL_RESPONSE) ? rc : NGX_DONE;
}


/* NULL unless exactly one server has the name. */

static ngx_http_core_srv_conf_t *
ngx_http_pgw_explain_server(ngx_conf_t *cf, const ngx_str_t *name)
{
    ngx_uint_t                  i, n, all = 0;
    ngx_http_server_name_t     *sn;
    ngx_http_core_srv_conf_t  **cscfp, *found = NULL;
    ngx_http_core_main_conf_t  *cmcf = ngx_http_pgw_conf_nginx(cf);

    cscfp = cmcf->servers.elts;

    for (i = 0; i < cmcf->servers.nelts; i++) {
        sn = cscfp[i]->server_names.elts;
        n = cscfp[i]->server_names.nelts;

        while (n && !ngx_http_pgw_names_same(&sn[n - 1].name, name)) {
            n--;
        }

        if (n) {
            found = cscfp[i];
            all++;
        }
    }

    return all == 1 ? found : NULL;
}


char *
ngx_http_pgw_local_merge(ngx_conf_t *cf, const ngx_http_pgw_loc_conf_t *prev,
    ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t                 closed;
    const char                *fault;
    ngx_http_core_loc_conf_t  *clcf = ngx_http_pgw_conf_core(cf);

    /* the handler of a location runs in its "if" and "limit_except" as well */

    conf->handler = clcf->handler;

    if (clcf->noname) {
        conf->explain = prev->explain;
        conf->forward = prev->forward;
        conf->one_record = prev->one_record;
        conf->elsewhere = clcf->handler && clcf->handler != prev->handler;
    }

    if (conf->explain == NULL || (clcf->noname && !clcf->lmt_excpt)) {
        return NGX_CONF_OK;
    }

    if (conf->explain_name.len) {
        conf->explain = ngx_http_pgw_explain_server(cf, &conf->explain_name);
    }

    closed = clcf->internal || ngx_http_pgw_peek_access_denies(cf);

    fault = conf->explain == NULL
            ? "names the server \"%V\", and not exactly one server has that "
              "\"server_name\","
            : conf->forward
            ? (closed && conf->enable ? NULL
               : "has \"platform_gateway_forward_auth\": say "
                 "\"platform_gateway on\" in it, and \"allow 127.0.0.1; deny "
                 "all;\" with the address of the other proxy,")
            : closed
              || (conf->enable && !conf->shadow
                  && (conf->access & NGX_HTTP_PGW_GUARDED)) ? NULL
            : "has \"platform_gateway_explain\" and is open to anybody: say "
              "\"allow 127.0.0.1; deny all;\" or \"internal;\" in it, or guard "
              "it,";

    return fault ? ngx_http_pgw_conf_fail(cf, NULL, fault, &conf->explain_name)
                 : NGX_CONF_OK;
}


ngx_http_pgw_content_t  ngx_http_pgw_local_health =
    { ngx_http_pgw_local_health_handler, NGX_HTTP_GET, 0 };

ngx_http_pgw_content_t  ngx_http_pgw_local_ready =
    { ngx_http_pgw_local_ready_handler, NGX_HTTP_GET, 0 };

ngx_http_pgw_content_t  ngx_http_pgw_local_route_not_found =
    { ngx_http_pgw_local_not_found_handler, 0, 0 };

ngx_http_pgw_content_t  ngx_http_pgw_local_explain =
    { ngx_http_pgw_explain_handler, NGX_HTTP_POST, 1 };


char *
ngx_http_pgw_local_content(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t                     *value = cf->args->elts;
    ngx_http_pgw_loc_conf_t       *lcf = conf;
    ngx_http_core_loc_conf_t      *clcf = ngx_http_pgw_conf_core(cf);
    const ngx_http_pgw_content_t  *content = cmd->post;

    if (clcf->handler) {
        return "conflicts with another content handler of the location";
    }

    clcf->handler = content->handler;
    lcf->methods |= content->methods;
    lcf->route_not_found = (content == &ngx_http_pgw_local_route_not_found);

    if (content == &ngx_http_pgw_metrics_content) {
        ngx_http_pgw_conf_place(cf, &ngx_http_pgw_conf_main(cf)->metrics_place);
    }

    if (content->server) {
        lcf->explain = ngx_http_pgw_conf_server(cf);

        if (cf->args->nelts > content->server) {
            lcf->explain_name = value[content->server];
        }
    }

    return NGX_CONF_OK;
}
