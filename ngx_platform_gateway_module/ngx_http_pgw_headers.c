
/*
 * Request headers: what is stripped, added and taken back.
 *
 * Elements of a header list never move, since headers_in.* and (from nginx
 * 1.23) ->next point at them, and parts may be shared with subrequests.  So a
 * list is never edited: new parts are laid over the runs of elements to keep,
 * and what is added has a part of its own.
 */


#include "ngx_http_pgw_local.h"
#include "ngx_http_pgw_compat.h"


/* A bit per length of the names of the ids and of CORS. */

#define NGX_HTTP_PGW_OWN_LENGTHS                                              \
    ((uint64_t) 1 << (sizeof("X-Request-Id") - 1)                             \
     |(uint64_t) 1 << (sizeof("X-Correlation-Id") - 1)                        \
     |(uint64_t) 1 << (sizeof("Origin") - 1)                                  \
     |(uint64_t) 1 << (sizeof("Access-Control-Request-Method") - 1))


/* FastCGI and uwsgi: what a record holds, and what is not the client's. */
#define NGX_HTTP_PGW_RECORD_MAX    65535
#define NGX_HTTP_PGW_RECORD_SPARE  4096

/* A name or a value with its length. */
#define ngx_http_pgw_record_string(len)  ((len) + ((len) > 127 ? 4 : 2))


typedef struct {
    const ngx_http_pgw_srv_conf_t  *conf;
    ngx_uint_t                      ids_kept;
} ngx_http_pgw_strip_t;


static ngx_int_t ngx_http_pgw_headers_adopt(ngx_http_request_t *r,
    ngx_list_t *list);
static ngx_int_t ngx_http_pgw_headers_run(ngx_list_t *list,
    ngx_table_elt_t *elts, ngx_uint_t n);
static ngx_uint_t ngx_http_pgw_headers_alias(ngx_str_t *name,
    ngx_str_t *folded);
static ngx_uint_t ngx_http_pgw_headers_drop_unsafe(ngx_table_elt_t *h,
    const void *data);
static ngx_uint_t ngx_http_pgw_headers_drop_context(ngx_table_elt_t *h,
    const void *data);


static ngx_http_pgw_claim_header_t ngx_http_pgw_id_headers[] = {

    { ngx_null_string,
      ngx_string("X-Request-Id"), ngx_string("x-request-id"), 0 },

    { ngx_null_string,
      ngx_string("X-Correlation-Id"), ngx_string("x-correlation-id"), 0 }
};

#define ngx_http_pgw_request_id_header                                        \
    ngx_http_pgw_id_headers[0]
#define ngx_http_pgw_correlation_id_header                                    \
    ngx_http_pgw_id_headers[1]


void
ngx_http_pgw_headers_init(void)
{
    ngx_uint_t                    i;
    ngx_http_pgw_claim_header_t  *id;

    for (i = 0; i < 2; i++) {
        id = &ngx_http_pgw_id_headers[i];
        id->hash = ngx_hash_key(id->lowcase.data, id->lowcase.len);
    }
}


ngx_int_t
ngx_http_pgw_headers_prepare(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_srv_conf_t *conf)
{
    uint64_t                lengths;
    ngx_uint_t              i, n, unsafe;
    ngx_table_elt_t        *h, *add;
    ngx_http_pgw_strip_t    strip;
    const ngx_list_part_t  *part;

    add = ngx_palloc(r->pool, 2 * sizeof(ngx_table_elt_t));
    if (add == NULL) {
        return NGX_ERROR;
    }

    strip.conf = conf;
    strip.ids_kept = gr->ids_kept;

    /* most names are none of ours by their length alone */

    lengths = conf->strip_lengths | NGX_HTTP_PGW_OWN_LENGTHS;
    unsafe = 0;

    part = &r->headers_in.headers.part;
    i = 0;

    while ((h = ngx_http_pgw_header_next(&part, &i)) != NULL) {

        if (h->key.len < 64 && (lengths >> h->key.len & 1)) {
            ngx_http_pgw_cors_note(&gr->cors, h);
            unsafe |= ngx_http_pgw_headers_drop_unsafe(h, &strip);
        }
    }

    n = 0;

    if (!(gr->ids_kept & NGX_HTTP_PGW_REQUEST_ID)) {
        ngx_http_pgw_headers_set(&add[n++], &ngx_http_pgw_request_id_header,
                                 &gr->request_id);
    }

    if (!(gr->ids_kept & NGX_HTTP_PGW_CORRELATION_ID)) {
        ngx_http_pgw_headers_set(&add[n++],
                                 &ngx_http_pgw_correlation_id_header,
                                 &gr->correlation_id);
    }

    if (unsafe) {
        return ngx_http_pgw_headers_rebuild(r,
                                            ngx_http_pgw_headers_drop_unsafe,
                                            &strip, add, n);
    }

    return n ? ngx_http_pgw_headers_rebuild(r, NULL, NULL, add, n) : NGX_OK;
}


ngx_int_t
ngx_http_pgw_headers_withdraw(ngx_http_request_t *r,
    const ngx_http_pgw_srv_conf_t *conf)
{
    ngx_uint_t              i, n;
    ngx_table_elt_t        *h, *add, *auth;
    const ngx_list_part_t  *part;

    add = NULL;
    n = 0;

    auth = r->headers_in.authorization;
    part = &r->headers_in.headers.part;
    i = 0;

    do {
        h = ngx_http_pgw_header_next(&part, &i);
    } while (h && !ngx_http_pgw_header_is(h, "authorization"));

    if (auth && h == NULL) {

        add = ngx_palloc(r->pool, sizeof(ngx_table_elt_t));
        if (add == NULL) {
            return NGX_ERROR;
        }

        *add = *auth;
        r->headers_in.authorization = add;
        n = 1;
    }

    /* what is left of these names after headers_prepare() is our own */

    return ngx_http_pgw_headers_rebuild(r, ngx_http_pgw_headers_drop_context,
                                        conf, add, n);
}


ngx_int_t
ngx_http_pgw_headers_rebuild(ngx_http_request_t *r, ngx_http_pgw_drop_pt drop,
    const void *data, ngx_table_elt_t *add, ngx_uint_t n)
{
    ngx_uint_t        i, start;
    ngx_list_t        list;
    ngx_table_elt_t  *h;
    ngx_list_part_t  *part;

    ngx_memzero(&list, sizeof(ngx_list_t));

    list.size = sizeof(ngx_table_elt_t);
    list.pool = r->pool;

    /* a request line that did not parse leaves the list all zeroes */

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        h = part->elts;
        start = 0;

        for (i = 0; drop && i < part->nelts; i++) {

            if (!drop(&h[i], data)) {
                continue;
            }

            if (ngx_http_pgw_headers_run(&list, &h[start], i - start)
                != NGX_OK)
            {
                return NGX_ERROR;
            }

            start = i + 1;
        }

        if (ngx_http_pgw_headers_run(&list, &h[start], part->nelts - start)
            != NGX_OK)
        {
            return NGX_ERROR;
        }
    }

    if (ngx_http_pgw_headers_run(&list, add, n) != NGX_OK) {
        return NGX_ERROR;
    }

    return ngx_http_pgw_headers_adopt(r, &list);
}


/* Makes list the headers of r. */

static ngx_int_t
ngx_http_pgw_headers_adopt(ngx_http_request_t *r, ngx_list_t *list)
{
    if (list->last == NULL) {
        return ngx_list_init(&r->headers_in.headers, r->pool, 4,
                             sizeof(ngx_table_elt_t));
    }

    /* a full last part: the next ngx_list_push() makes one of its own */

    list->nalloc = list->last->nelts;

    r->headers_in.headers = *list;

    if (list->part.next == NULL) {
        r->headers_in.headers.last = &r->headers_in.headers.part;
    }

    return NGX_OK;
}


/* Never appends an empty part: nginx's loops would read past it. */

static ngx_int_t
ngx_http_pgw_headers_run(ngx_list_t *list, ngx_table_elt_t *elts, ngx_uint_t n)
{
    ngx_list_part_t  *part;

    if (n == 0) {
        return NGX_OK;
    }

    if (list->last == NULL) {
        part = &list->part;

    } else {
        part = ngx_palloc(list->pool, sizeof(ngx_list_part_t));
        if (part == NULL) {
            return NGX_ERROR;
        }

        list->last->next = part;
    }

    part->elts = elts;
    part->nelts = n;
    part->next = NULL;

    list->last = part;

    return NGX_OK;
}


/*
 * nginx answers what does not fit into a record with 500 and an alert.  The
 * buffers bound what a client sends, but short headers take more room in a
 * record than there, and parameters repeat the path, the query and the type.
 */

ngx_int_t
ngx_http_pgw_headers_fit(ngx_http_request_t *r)
{
    size_t                   len;
    ngx_int_t                rc;
    ngx_uint_t               i;
    ngx_table_elt_t         *h;
    const ngx_list_part_t   *part;
    ngx_http_pgw_request_t  *gr;

    len = NGX_HTTP_PGW_RECORD_SPARE
          + r->request_line.len + r->args.len + 3 * r->uri.len;

    if (r->headers_in.content_type) {
        len += r->headers_in.content_type->value.len;
    }

    part = &r->headers_in.headers.part;
    i = 0;

    while ((h = ngx_http_pgw_header_next(&part, &i)) != NULL) {
        len += ngx_http_pgw_record_string(sizeof("HTTP_") - 1 + h->key.len)
               + ngx_http_pgw_record_string(h->value.len);
    }

    if (len <= NGX_HTTP_PGW_RECORD_MAX) {
        return NGX_DECLINED;
    }

    gr = ngx_http_pgw_request_own(r);
    if (gr == NULL) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    rc = ngx_http_pgw_problem_refuse(r, gr, NGX_HTTP_PGW_REASON_BAD_REQUEST,
                                     "the request headers are too large "
                                     "for the service behind this path");
    gr->code = "GATEWAY_HEADER_TOO_LARGE";

    return rc;
}


u_char
ngx_http_pgw_headers_fold(u_char c)
{
    if (c >= 'A' && c <= 'Z') {
        return (u_char) (c | 0x20);
    }

    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) {
        return c;
    }

    return '-';
}


static ngx_uint_t
ngx_http_pgw_headers_alias(ngx_str_t *name, ngx_str_t *folded)
{
    size_t  i;

    if (name->len != folded->len) {
        return 0;
    }

    for (i = 0; i < name->len; i++) {
        if (ngx_http_pgw_headers_fold(name->data[i]) != folded->data[i]) {
            return 0;
        }
    }

    return 1;
}


static ngx_uint_t
ngx_http_pgw_headers_drop_unsafe(ngx_table_elt_t *h, const void *data)
{
    ngx_uint_t                          i;
    const ngx_http_pgw_strip_t         *strip = data;
    const ngx_http_pgw_claim_header_t  *id;

    for (i = 0; i < 2; i++) {

        id = &ngx_http_pgw_id_headers[i];

        if (h->key.len != id->lowcase.len) {
            continue;
        }

        if ((strip->ids_kept & ((ngx_uint_t) 1 << i))
            && ngx_http_pgw_header_same(h->key.data,
                                                     id->lowcase.data,
                                                     id->lowcase.len))
        {
            return 0;
        }

        if (ngx_http_pgw_headers_alias(&h->key, (ngx_str_t *) &id->lowcase)) {
            return 1;
        }
    }

    return ngx_http_pgw_headers_drop_context(h, strip->conf);
}


static ngx_uint_t
ngx_http_pgw_headers_drop_context(ngx_table_elt_t *h, const void *data)
{
    ngx_str_t                      *folded;
    ngx_uint_t                      i;
    const ngx_http_pgw_srv_conf_t  *conf = data;

    if (h->key.len >= 64 || !(conf->strip_lengths >> h->key.len & 1)) {
        return 0;
    }

    folded = conf->strip->elts;

    for (i = 0; i < conf->strip->nelts; i++) {
        if (ngx_http_pgw_headers_alias(&h->key, &folded[i])) {
            return 1;
        }
    }

    return 0;
}


/* hash and lowcase_key are what proxy and fastcgi look names up by */

void
ngx_http_pgw_headers_set(ngx_table_elt_t *h,
    const ngx_http_pgw_claim_header_t *name, ngx_str_t *value)
{
    h->key = name->name;
    h->value = *value;
    h->lowcase_key = name->lowcase.data;
    h->hash = name->hash;

    ngx_http_pgw_header_unchain(h);
}
