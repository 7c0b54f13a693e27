
/*
 * The request for an explanation.  It is for the operator alone, since an
 * explanation shows more of a token than a refusal shows to its bearer.
 */


#include "request/request.h"
#include "answer/answer.h"
#include "base/base.h"


#define NGX_HTTP_PGW_QUESTION_MAX       (64 * 1024)
#define NGX_HTTP_PGW_QUESTION_FAULTS    16            /* named at most */
#define NGX_HTTP_PGW_QUESTION_NAME_MAX  64            /* bytes */
#define NGX_HTTP_PGW_QUESTION_TIME_MAX  253402300799  /* the end of 9999 */


/* The faults of a question; detail is of the first one, or NULL. */

typedef struct {
    ngx_http_pgw_text_t   errors;   /* a JSON array without its end */
    ngx_uint_t            count;
    const char           *detail;
} ngx_http_pgw_question_faults_t;


/* Adds a fault.  name is that of the member, or NULL for the whole body; a long
   one is not repeated.  code may have further members after it. */

static void
ngx_http_pgw_question_fault(ngx_http_pgw_question_faults_t *faults,
    const pj_str_t *name, const char *code, const char *detail)
{
    size_t    i;
    u_char   *p, pointer[1 + 2 * NGX_HTTP_PGW_QUESTION_NAME_MAX];
    pj_str_t  written = { pointer, 0 };

    if (faults->count == NGX_HTTP_PGW_QUESTION_FAULTS) {
        return;
    }

    p = pointer;

    if (name && name->len <= NGX_HTTP_PGW_QUESTION_NAME_MAX) {
        *p++ = '/';

        for (i = 0; i < name->len; i++) {
            p = name->data[i] == '~' ? ngx_cpymem(p, "~0", 2)
                : name->data[i] == '/' ? ngx_cpymem(p, "~1", 2)
                : ngx_cpymem(p, name->data + i, 1);
        }
    }

    written.len = (size_t) (p - pointer);

    ngx_http_pgw_text_json(&faults->errors, faults->count
                           ? ",{\"pointer\":" : "[{\"pointer\":", &written);
    ngx_http_pgw_text_format(&faults->errors, ",\"code\":%s}", code);

    if (faults->count++ == 0) {
        faults->detail = detail;
    }
}


static void
ngx_http_pgw_question_read_time(ngx_http_pgw_question_t *q, const pj_json_t *m,
    ngx_http_pgw_question_faults_t *faults)
{
    if (m->type != PJ_JSON_NUMBER) {
        ngx_http_pgw_question_fault(faults, &m->name, "\"wrong_type\"",
                                    "the time is a number of seconds");

    } else if (pj_json_seconds(m, PJ_ROUND_DOWN, &q->at) != PJ_OK
               || q->at < 0 || q->at > NGX_HTTP_PGW_QUESTION_TIME_MAX)
    {
        ngx_http_pgw_question_fault(faults, &m->name,
            "\"out_of_range\",\"minimum\":0,\"maximum\":"
            ngx_value(NGX_HTTP_PGW_QUESTION_TIME_MAX),
            "the time is not before the year 10000");
    }
}


/* Reads {"path", "method", ..., "at"}; token and proof may be null. */

static void
ngx_http_pgw_question_read(ngx_http_pgw_question_t *q, const pj_json_t *root,
    ngx_http_pgw_question_faults_t *faults)
{
    size_t            i;
    const pj_json_t  *m;

    struct {
        const char   *name;
        ngx_str_t    *value;
    } members[] = {
        { "token", &q->token },
        { "proof", &q->proof },
        { "method", &q->method },
        { "path", &q->path },
        { "origin", &q->origin },
        { "headers", &q->headers },
        { "at", NULL },
        { NULL, NULL }
    };

    static const pj_str_t  path = { (const u_char *) "path", 4 };

    for (m = root->child; m; m = m->next) {

        for (i = 0; members[i].name; i++) {
            if (m->name.len == ngx_strlen(members[i].name)
                && ngx_memcmp(m->name.data, members[i].name, m->name.len) == 0)
            {
                break;
            }
        }

        if (members[i].name == NULL) {
            ngx_http_pgw_question_fault(faults, &m->name, "\"unknown\"",
                "the members are token, proof, method, path, origin, headers "
                "and at");

        } else if (members[i].value == NULL) {
            ngx_http_pgw_question_read_time(q, m, faults);

        } else if (m->type != PJ_JSON_STRING
                   && (m->type != PJ_JSON_NULL || i > 1))
        {
            ngx_http_pgw_question_fault(faults, &m->name, "\"wrong_type\"",
                                        "every member except at is a string");

        } else if (m->text.len) {
            members[i].value->len = m->text.len;
            members[i].value->data = (u_char *) m->text.data;
        }
    }

    m = pj_json_member(root, "path");

    if (m == NULL || (m->type == PJ_JSON_STRING && m->text.len == 0)) {
        ngx_http_pgw_question_fault(faults, &path,
            m ? "\"too_short\",\"minimum\":1" : "\"missing\"",
            "a path is required");
    }
}


static ngx_int_t
ngx_http_pgw_question_refuse(ngx_http_request_t *r,
    ngx_http_pgw_question_faults_t *faults)
{
    ngx_int_t  rc;

    ngx_http_pgw_text_format(&faults->errors, "]");

    if (faults->errors.failed) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_pgw_local_refuse(r, NGX_HTTP_PGW_REASON_BAD_REQUEST,
                                   "REQUEST_INVALID", faults->detail, 0);

    if (rc == NGX_HTTP_BAD_REQUEST) {
        ngx_http_pgw_request_writable(r)->errors =
                                     ngx_http_pgw_text_value(&faults->errors);
    }

    return rc;
}


static void
ngx_http_pgw_question_body(ngx_http_request_t *r)
{
    u_char                     *p;
    size_t                      size;
    pj_str_t                    body = { (const u_char *) "", 0 };
    pj_arena_t                  arena;
    const pj_json_t            *root;
    ngx_http_variable_value_t  *v;
    ngx_http_pgw_question_t     question = {
        .server = ngx_http_pgw_loc(r)->explain,
        .method = ngx_string("GET"),
        .at = ngx_time()
    };
    ngx_http_pgw_question_faults_t   faults = { .errors = { .request = r } };

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

    if (pj_json_parse(&arena, body, &root) != PJ_OK) {
        ngx_http_pgw_question_fault(&faults, NULL, "\"malformed\"",
                                    "the body is not JSON");

    } else if (root->type != PJ_JSON_OBJECT) {
        ngx_http_pgw_question_fault(&faults, NULL, "\"wrong_type\"",
                                    "the body is not a JSON object");

    } else {
        ngx_http_pgw_question_read(&question, root, &faults);
    }

    ngx_http_finalize_request(r, faults.count
                                 ? ngx_http_pgw_question_refuse(r, &faults)
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
