
/*
 * What is known of a request, made at first use and freed with it; its headers
 * and two ids: what is read, stripped, added and taken back; nginx's
 * $request_id, which is one of the ids; and the ids of a response.
 *
 * Elements of a header list never move, since headers_in.* and (from nginx
 * 1.23) ->next point at them, and parts may be shared with subrequests.  So a
 * list is never edited: new parts are laid over the runs of elements to keep,
 * and what is added has a part of its own.
 */


#include "ngx_http_pgw.h"

#include <openssl/rand.h>


#if (nginx_version < 1022000)
#error nginx 1.22 or newer is needed
#endif


#define NGX_HTTP_PGW_ID_MAX_LEN  128
#define NGX_HTTP_PGW_ID_BYTES    16


/* One pass over the headers of a request. */

typedef struct {
    ngx_list_t                      kept;
    const ngx_http_pgw_srv_conf_t  *conf;    /* says what to strip */
    const ngx_table_elt_t          *hide;    /* goes as well; NULL: none */

    /* what was seen of the ids */
    ngx_str_t                      *id[NGX_HTTP_PGW_IDS];
    ngx_uint_t                      ids[NGX_HTTP_PGW_IDS];
    ngx_http_pgw_cors_request_t     cors;
} ngx_http_pgw_pass_t;


static ngx_http_output_header_filter_pt  ngx_http_next_header_filter;

/* of nginx's $request_id, the value of which it keeps for the request */
static ngx_int_t  ngx_http_pgw_ids_index;


ngx_table_elt_t *
ngx_http_pgw_header_next(const ngx_list_part_t **part, ngx_uint_t *i)
{
    while (*part && *i >= (*part)->nelts) {
        *part = (*part)->next;
        *i = 0;
    }

    return *part ? (ngx_table_elt_t *) (*part)->elts + (*i)++ : NULL;
}


ngx_table_elt_t *
ngx_http_pgw_header_add(ngx_http_request_t *r, const char *name,
    const ngx_str_t *value)
{
    ngx_table_elt_t  *h;

    h = ngx_list_push(&r->headers_out.headers);
    if (h == NULL) {
        return NULL;
    }

    ngx_memzero(h, sizeof(ngx_table_elt_t));

    h->hash = 1;
    h->key.len = ngx_strlen(name);
    h->key.data = (u_char *) name;
    h->value = *value;

    return h;
}


u_char
ngx_http_pgw_headers_fold(u_char c)
{
    c = ngx_tolower(c);

    return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') ? c : '-';
}


/* Whether h goes; notes what it says. */

static ngx_uint_t
ngx_http_pgw_headers_look(ngx_http_pgw_pass_t *pass, ngx_table_elt_t *h)
{
    u_char                              folded[64];
    ngx_uint_t                          i;
    const ngx_http_pgw_srv_conf_t      *conf;
    const ngx_http_pgw_claim_header_t  *name;

    if (h == pass->hide) {
        return 1;
    }

    if (ngx_http_pgw_header_is(h, "origin")) {
        pass->cors.origin = &h->value;
        pass->cors.origins++;

    } else if (ngx_http_pgw_header_is(h, "access-control-request-method")) {
        pass->cors.method = &h->value;
        pass->cors.methods++;
    }

    /* most names are none of ours by their length alone */

    conf = pass->conf;

    if (h->key.len >= sizeof(folded)
        || !(conf->strip_lengths >> h->key.len & 1))
    {
        return 0;
    }

    for (i = 0; i < h->key.len; i++) {
        folded[i] = ngx_http_pgw_headers_fold(h->key.data[i]);
    }

    name = conf->strip->elts;

    for (i = 0; i < conf->strip->nelts; i++) {

        if (h->key.len != name[i].lowcase.len
            || ngx_memcmp(folded, name[i].lowcase.data, h->key.len) != 0)
        {
            continue;
        }

        /* what only looks like the name of an id is none */

        if (i < NGX_HTTP_PGW_IDS
            && ngx_strncasecmp(h->key.data, folded, h->key.len) == 0)
        {
            pass->id[i] = &h->value;
            pass->ids[i]++;
        }

        return 1;
    }

    return 0;
}


/* Never appends an empty part: nginx's loops would read past it. */

static ngx_int_t
ngx_http_pgw_headers_run(ngx_list_t *list, ngx_table_elt_t *elts, ngx_uint_t n)
{
    ngx_list_part_t  *part;

    if (n == 0) {
        return NGX_OK;
    }

    part = &list->part;

    if (list->last) {
        part = ngx_palloc(list->pool, sizeof(ngx_list_part_t));
        if (part == NULL) {
            return NGX_ERROR;
        }

        list->last->next = part;
    }

    part->elts = elts;
    part->nelts = n;
    part->next = NULL;

    /* a full last part: the next ngx_list_push() makes one of its own */

    list->last = part;
    list->nalloc = n;

    return NGX_OK;
}


/* Lays pass->kept over what stays of the headers of r. */

static ngx_int_t
ngx_http_pgw_headers_sift(ngx_http_request_t *r, ngx_http_pgw_pass_t *pass)
{
    ngx_uint_t        i, start;
    ngx_table_elt_t  *h;
    ngx_list_part_t  *part;

    pass->kept.size = sizeof(ngx_table_elt_t);
    pass->kept.pool = r->pool;

    /* a request line that did not parse leaves the list all zeroes */

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        h = part->elts;
        start = 0;

        for (i = 0; i <= part->nelts; i++) {

            if (i < part->nelts && !ngx_http_pgw_headers_look(pass, &h[i])) {
                continue;
            }

            if (ngx_http_pgw_headers_run(&pass->kept, &h[start], i - start)
                != NGX_OK)
            {
                return NGX_ERROR;
            }

            start = i + 1;
        }
    }

    return NGX_OK;
}


/* The one id of its kind, if it is well formed; NULL: make one. */

static const ngx_str_t *
ngx_http_pgw_ids_given(const ngx_http_pgw_pass_t *pass, ngx_uint_t n)
{
    u_char            c;
    size_t            i;
    const ngx_str_t  *id;

    id = pass->id[n];

    if (pass->ids[n] != 1 || id->len == 0 || id->len > NGX_HTTP_PGW_ID_MAX_LEN)
    {
        return NULL;
    }

    for (i = 0; i < id->len; i++) {

        c = id->data[i];

        if (ngx_http_pgw_headers_fold(c) == '-' && memchr("-._:", c, 4) == NULL)
        {
            return NULL;
        }
    }

    return id;
}


static ngx_int_t
ngx_http_pgw_ids_make(ngx_http_request_t *r, ngx_str_t *id)
{
    /* of this worker: what is forked has used none yet */

    static u_char   random[NGX_HTTP_PGW_ID_BYTES * 64];
    static size_t   left;

    id->len = 2 * NGX_HTTP_PGW_ID_BYTES;
    id->data = ngx_pnalloc(r->pool, id->len);
    if (id->data == NULL) {
        return NGX_ERROR;
    }

    if (left == 0) {

        if (RAND_bytes(random, sizeof(random)) != 1) {
            ngx_log_error(NGX_LOG_ERR, r->connection->log, 0,
                          "no random bytes for a request id");
            return NGX_ERROR;
        }

        left = sizeof(random);
    }

    left -= NGX_HTTP_PGW_ID_BYTES;
    ngx_hex_dump(id->data, random + left, NGX_HTTP_PGW_ID_BYTES);

    return NGX_OK;
}


/* Chooses the ids: the client's, or new ones.  Keeps what was seen for CORS. */

static ngx_int_t
ngx_http_pgw_headers_note(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_pass_t *pass)
{
    const ngx_str_t            *id;
    ngx_http_variable_value_t  *v;

    gr->cors = pass->cors;

    id = ngx_http_pgw_ids_given(pass, 0);

    if (id) {
        gr->request_id = *id;

    } else if (ngx_http_pgw_ids_make(r, &gr->request_id) != NGX_OK) {
        return NGX_ERROR;
    }

    id = ngx_http_pgw_ids_given(pass, 1);

    gr->correlation_id = id ? *id : gr->request_id;

    if (pass->conf->any_enabled) {
        v = &r->variables[ngx_http_pgw_ids_index];

        *v = ngx_http_variable_null_value;
        v->data = gr->request_id.data;
        v->len = (unsigned) gr->request_id.len & 0xfffffff;
    }

    return NGX_OK;
}


/*
 * Fills h, which is zeroed (from 1.23 it has a ->next); hash and lowcase_key
 * are what proxy and fastcgi look names up by.
 */

static void
ngx_http_pgw_headers_set(ngx_table_elt_t *h,
    const ngx_http_pgw_claim_header_t *name, const ngx_str_t *value)
{
    h->key = name->name;
    h->value = *value;
    h->lowcase_key = name->lowcase.data;
    h->hash = name->hash;
}


/* The headers of r: what was kept, the ids, Authorization, those of grant. */

static ngx_int_t
ngx_http_pgw_headers_adopt(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_grant_t *grant, ngx_http_pgw_pass_t *pass)
{
    ngx_uint_t                          i, n;
    const ngx_str_t                    *value;
    ngx_table_elt_t                    *add;
    const ngx_http_pgw_claim_header_t  *name;

    n = NGX_HTTP_PGW_IDS + 1 + (grant ? grant->nstrings : 0);

    add = ngx_pcalloc(r->pool, n * sizeof(ngx_table_elt_t));
    if (add == NULL) {
        return NGX_ERROR;
    }

    name = pass->conf->strip->elts;

    ngx_http_pgw_headers_set(&add[0], &name[0], &gr->request_id);
    ngx_http_pgw_headers_set(&add[1], &name[1], &gr->correlation_id);

    n = NGX_HTTP_PGW_IDS;

    /* headers_in.authorization stays: another location may still need it */

    if (pass->hide && (conf == NULL || conf->forward_authorization)) {
        add[n] = *pass->hide;
        r->headers_in.authorization = &add[n++];
    }

    if (grant) {

        name = conf->claim_headers->elts;
        value = grant->strings + NGX_HTTP_PGW_GRANT_IDS;

        for (i = 0; i < conf->claim_headers->nelts; i++) {
            if (value[i].data) {
                ngx_http_pgw_headers_set(&add[n++], &name[i], &value[i]);
            }
        }
    }

    if (ngx_http_pgw_headers_run(&pass->kept, add, n) != NGX_OK) {
        return NGX_ERROR;
    }

    r->headers_in.headers = pass->kept;

    if (pass->kept.part.next == NULL) {
        r->headers_in.headers.last = &r->headers_in.headers.part;
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_pgw_headers_make(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_grant_t *grant)
{
    ngx_uint_t           first;
    ngx_http_pgw_pass_t  pass;

    ngx_memzero(&pass, sizeof(ngx_http_pgw_pass_t));

    pass.conf = ngx_http_get_module_srv_conf(r,
                                             ngx_http_platform_gateway_module);

    /* the first time Authorization stays where the client sent it */

    first = gr->request_id.data == NULL;
    pass.hide = first ? NULL : r->headers_in.authorization;

    if (ngx_http_pgw_headers_sift(r, &pass) != NGX_OK
        || (first && ngx_http_pgw_headers_note(r, gr, &pass) != NGX_OK))
    {
        return NGX_ERROR;
    }

    return pass.conf->any_enabled
           ? ngx_http_pgw_headers_adopt(r, gr, conf, grant, &pass) : NGX_OK;
}


/* nothing to clean up: the handler is what the state is found by */

static void
ngx_http_pgw_request_cleanup(void *data)
{
    (void) data;
}


ngx_http_pgw_request_t *
ngx_http_pgw_request_get(ngx_http_request_t *r)
{
    ngx_pool_cleanup_t      *cln;
    ngx_http_pgw_request_t  *gr;

    r = r->main;

    for (cln = r->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_http_pgw_request_cleanup) {
            return cln->data;
        }
    }

    cln = ngx_pool_cleanup_add(r->pool, sizeof(ngx_http_pgw_request_t));
    if (cln == NULL) {
        return NULL;
    }

    gr = cln->data;
    ngx_memzero(gr, sizeof(ngx_http_pgw_request_t));

    if (ngx_http_pgw_headers_make(r, gr, NULL, NULL) != NGX_OK) {
        return NULL;
    }

    cln->handler = ngx_http_pgw_request_cleanup;

    return gr;
}


ngx_http_pgw_request_t *
ngx_http_pgw_request_own(ngx_http_request_t *r)
{
    ngx_http_pgw_request_t  *gr, *own;

    gr = ngx_http_pgw_request_get(r);

    if (gr == NULL || r == r->main) {
        return gr;
    }

    own = ngx_palloc(r->pool, sizeof(ngx_http_pgw_request_t));
    if (own) {
        *own = *gr;
    }

    return own;
}


ngx_http_pgw_ctx_t *
ngx_http_pgw_ctx_get(ngx_http_request_t *r)
{
    ngx_http_pgw_ctx_t  *ctx;

    ctx = ngx_http_get_module_ctx(r, ngx_http_platform_gateway_module);

    if (ctx == NULL) {
        ctx = ngx_pcalloc(r->pool, sizeof(ngx_http_pgw_ctx_t));

        if (ctx) {
            ngx_http_set_ctx(r, ctx, ngx_http_platform_gateway_module);
        }
    }

    return ctx;
}


ngx_int_t
ngx_http_pgw_ids_add_variable(ngx_conf_t *cf)
{
    static ngx_str_t  name = ngx_string("request_id");

    ngx_http_pgw_ids_index = ngx_http_get_variable_index(cf, &name);

    return (ngx_http_pgw_ids_index == NGX_ERROR) ? NGX_ERROR : NGX_OK;
}


/*
 * The two ids, once each.  A filter further down may end this response and
 * start another (416 of the range filter), so ours are replaced too.
 */

static ngx_int_t
ngx_http_pgw_ids_header_filter(ngx_http_request_t *r)
{
    ngx_uint_t                i;
    ngx_table_elt_t          *h;
    const ngx_list_part_t    *part;
    ngx_http_pgw_request_t   *gr;
    ngx_http_pgw_loc_conf_t  *conf;

    conf = ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module);

    if (!conf->enable || r != r->main) {
        return ngx_http_next_header_filter(r);
    }

    gr = ngx_http_pgw_request_get(r);
    if (gr == NULL) {
        return NGX_ERROR;
    }

    part = &r->headers_out.headers.part;
    i = 0;

    while ((h = ngx_http_pgw_header_next(&part, &i)) != NULL) {

        if (ngx_http_pgw_header_is(h, "x-request-id")
            || ngx_http_pgw_header_is(h, "x-correlation-id"))
        {
            h->hash = 0;
        }
    }

    if (!ngx_http_pgw_header_add(r, "X-Request-Id", &gr->request_id)
        || !ngx_http_pgw_header_add(r, "X-Correlation-Id", &gr->correlation_id))
    {
        return NGX_ERROR;
    }

    return ngx_http_next_header_filter(r);
}


/*
 * Among the filters by the order in which modules are configured: before
 * nginx's add_header, so that ours replaces what that added.
 */

void
ngx_http_pgw_ids_init(void)
{
    ngx_http_next_header_filter = ngx_http_top_header_filter;
    ngx_http_top_header_filter = ngx_http_pgw_ids_header_filter;
}
