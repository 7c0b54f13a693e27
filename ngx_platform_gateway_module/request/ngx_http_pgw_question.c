
/*
 * The request for an explanation.  It is for the operator alone, since an
 * explanation shows more of a token than a refusal shows to its bearer.
 */


#include "request/request.h"
#include "answer/answer.h"
#include "base/base.h"


#define NGX_HTTP_PGW_QUESTION_MAX  (64 * 1024)


/* Reads {"path", "method", ..., "at"}.  Returns NULL, or the fault. */

static const char *
ngx_http_pgw_question_read(ngx_http_pgw_question_t *q, const pj_json_t *root)
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
ngx_http_pgw_question_body(ngx_http_request_t *r)
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
          : ngx_http_pgw_question_read(&question, root);

    ngx_http_finalize_request(r,
           err ? ngx_http_pgw_local_refuse(r, NGX_HTTP_PGW_REASON_BAD_REQUEST,
                                           "REQUEST_INVALID", err, 0)
               : ngx_http_pgw_explain_answer(r, &question));
}


/* Refuses a body that does not fit into memory, since a token must not reach
   the disk.  Refuses browsers, since a foreign page could make the operator's
   browser send the request; each POST of a page has one of the two headers. */

static ngx_int_t
ngx_http_pgw_question_handler(ngx_http_request_t *r)
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

    if (length > NGX_HTTP_PGW_QUESTION_MAX
        || length > (off_t) ngx_http_pgw_core(r)->client_body_buffer_size)
    {
        return NGX_HTTP_REQUEST_ENTITY_TOO_LARGE;
    }

    r->request_body_in_file_only = 0;

    rc = ngx_http_read_client_request_body(r, ngx_http_pgw_question_body);

    return (rc >= NGX_HTTP_SPECIAL_RESPONSE) ? rc : NGX_DONE;
}


ngx_http_pgw_content_t  ngx_http_pgw_question_content =
    { .handler = ngx_http_pgw_question_handler, .methods = NGX_HTTP_POST,
      .server = 1 };
