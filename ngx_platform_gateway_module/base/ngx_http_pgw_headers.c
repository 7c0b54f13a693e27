
/*
 * The headers and ids of a request: the client's headers are filtered, and the
 * gateway's headers are added and removed.
 *
 * Elements of a header list must not move, because headers_in.* and (from nginx
 * 1.23) ->next point at them, and subrequests may share its parts.  So the list
 * is not edited: new parts refer to the runs of elements to keep, and added
 * headers have a part to themselves.
 */


#include "base/base.h"
#include "nginx/nginx.h"

#include <openssl/rand.h>


#define NGX_HTTP_PGW_ID_BYTES    16


static const ngx_http_pgw_claim_header_t  ngx_http_pgw_headers_traceparent = {
    .name = ngx_string("traceparent"), .lowcase = ngx_string("traceparent")
};


/* One pass over the headers of a request. */

typedef struct {
    ngx_list_t                      kept;
    const ngx_http_pgw_srv_conf_t  *conf;    /* names to strip */
    const ngx_table_elt_t          *hide;    /* Authorization, removed if not
                                                NULL */
    const ngx_http_pgw_loc_conf_t  *from;    /* other places of tokens to
                                                remove, or NULL */

    ngx_uint_t                      untraced;  /* remove trace headers */
    ngx_uint_t                      unproved;  /* remove DPoP */

    ngx_str_t                      *id[NGX_HTTP_PGW_IDS];   /* ids found */
    ngx_uint_t                      ids[NGX_HTTP_PGW_IDS];  /* their number */
} ngx_http_pgw_pass_t;


ngx_int_t
ngx_http_pgw_headers_value(ngx_http_variable_value_t *v, u_char *data,
    size_t len)
{
    v->data = data;
    v->len = (unsigned) len & 0xfffffff;
    v->valid = 1;
    v->no_cacheable = 0;
    v->not_found = (len == 0);

    return NGX_OK;
}


/* Returns the index of a name to strip (the ids first) that key is equal or
   similar to, because many upstreams treat X_Request_Id like X-Request-Id.
   Returns strip->nelts if none is. */

static ngx_inline ngx_uint_t
ngx_http_pgw_headers_strip(const ngx_http_pgw_srv_conf_t *conf,
    const ngx_str_t *key)
{
    size_t                              n;
    ngx_uint_t                          i;
    const ngx_http_pgw_claim_header_t  *name = conf->strip->elts;

    /* most names differ in length */

    if (key->len >= 64 || !(conf->strip_lengths >> key->len & 1)) {
        return conf->strip->nelts;
    }

    for (i = 0; i < conf->strip->nelts; i++) {

        if (key->len != name[i].lowcase.len) {
            continue;
        }

        for (n = 0; n < key->len; n++) {
            if (ngx_http_pgw_names_fold(key->data[n])
                != name[i].lowcase.data[n])
            {
                break;
            }
        }

        if (n == key->len) {
            break;
        }
    }

    return i;
}


ngx_uint_t
ngx_http_pgw_headers_stripped(const ngx_http_core_srv_conf_t *server,
    ngx_str_t *list, ngx_str_t *name)
{
    ngx_uint_t                          i;
    const ngx_http_pgw_srv_conf_t      *conf;
    const ngx_http_pgw_claim_header_t  *strip;

    conf = server->ctx->srv_conf[ngx_http_platform_gateway_module.ctx_index];
    strip = conf->strip->elts;

    while (conf->any_enabled && ngx_http_pgw_names_next(list, name)) {

        i = ngx_http_pgw_headers_strip(conf, name);

        /* an id is kept, a similar name is stripped */

        if (i < conf->strip->nelts
            && (i >= NGX_HTTP_PGW_IDS
                || !ngx_http_pgw_names_same(name, &strip[i].lowcase)))
        {
            return 1;
        }
    }

    return 0;
}


/* Returns 1 if h has to be removed, and records the ids. */

static ngx_uint_t
ngx_http_pgw_headers_matches(ngx_http_pgw_pass_t *pass, ngx_table_elt_t *h)
{
    ngx_uint_t                          i;
    const ngx_http_pgw_claim_header_t  *name = pass->conf->strip->elts;

    i = ngx_http_pgw_headers_strip(pass->conf, &h->key);

    /* a header with a similar name is not used as an id */

    if (i < NGX_HTTP_PGW_IDS
        && ngx_memcmp(h->lowcase_key, name[i].lowcase.data, h->key.len) == 0)
    {
        pass->id[i] = &h->value;
        pass->ids[i]++;
    }

    return i < pass->conf->strip->nelts
           || (pass->untraced
               && (ngx_http_pgw_header_in_is(h, "traceparent")
                   || ngx_http_pgw_header_in_is(h, "tracestate")));
}


/* Appends n elements as a part, but never an empty part, which nginx overruns.
   */

static ngx_int_t
ngx_http_pgw_headers_append(ngx_list_t *list, ngx_table_elt_t *elts,
    ngx_uint_t n)
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

    /* the last part is full: the next ngx_list_push() adds a new one */

    list->last = part;
    list->nalloc = n;

    return NGX_OK;
}


/* Returns NGX_DECLINED if h is kept, or NGX_OK if it is removed or replaced by
   *rest. */

static ngx_int_t
ngx_http_pgw_headers_decide(ngx_pool_t *pool, ngx_http_pgw_pass_t *pass,
    ngx_uint_t strip, ngx_table_elt_t *h, ngx_table_elt_t **rest)
{
    return h == pass->hide
           || (pass->unproved && ngx_http_pgw_header_in_is(h, "dpop"))
           || (strip && ngx_http_pgw_headers_matches(pass, h))
           ? NGX_OK
           : pass->from ? ngx_http_pgw_source_hide(pool, pass->from, h, rest)
           : NGX_DECLINED;
}


/* Collects the headers to keep in pass->kept, without copying them.  Headers
   before the part that an earlier pass has added are stripped already; headers
   after it were added by other modules since. */

static ngx_int_t
ngx_http_pgw_headers_filter(ngx_http_request_t *r, ngx_http_pgw_pass_t *pass)
{
    ngx_int_t                           rc;
    ngx_uint_t                          i, start;
    ngx_table_elt_t                    *h, *rest;
    const ngx_list_part_t              *part, *added;
    const ngx_http_pgw_claim_header_t  *name = pass->conf->strip->elts;

    /* that part begins with an id whose name has the address of our string */

    for (added = &r->headers_in.headers.part; added; added = added->next) {
        h = added->elts;

        if (added->nelts && h->key.data == name->name.data) {
            break;
        }
    }

    pass->kept.size = sizeof(ngx_table_elt_t);
    pass->kept.pool = r->pool;

    /* the list is zeroed if the request line did not parse */

    for (part = &r->headers_in.headers.part; part; part = part->next) {

        if (part == added) {
            added = NULL;
            continue;
        }

        h = part->elts;

        for (start = 0; start <= part->nelts; start = i + 1) {

            rest = NULL;
            rc = NGX_DECLINED;

            for (i = start; i < part->nelts; i++) {
                rc = ngx_http_pgw_headers_decide(r->pool, pass, added == NULL,
                                                 &h[i], &rest);
                if (rc != NGX_DECLINED) {
                    break;
                }
            }

            if (rc == NGX_ERROR
                || ngx_http_pgw_headers_append(&pass->kept, &h[start],
                                               i - start)
                   != NGX_OK
                || ngx_http_pgw_headers_append(&pass->kept, rest, rest != NULL)
                   != NGX_OK)
            {
                return NGX_ERROR;
            }
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_pgw_ids_make(ngx_http_request_t *r, ngx_str_t *id)
{
    /* the master process uses no bytes, so that workers do not share them */

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


/* Records the client's headers, and reads or begins the trace.  A malformed or
   repeated traceparent is removed with its tracestate. */

static ngx_int_t
ngx_http_pgw_headers_trace(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    ngx_http_pgw_pass_t *pass)
{
    u_char     *p;
    ngx_str_t   id, parent;

    gr->sent = r->headers_in.headers.part;

    if (pass->conf->trace == NGX_HTTP_PGW_TRACE_OFF) {
        return NGX_OK;
    }

    if (ngx_http_pgw_names_find(&gr->sent, "traceparent", &parent) == 1
        && ngx_http_pgw_trace_valid(&parent))
    {
        gr->trace_id.len = NGX_HTTP_PGW_TRACE_ID_LEN;
        gr->trace_id.data = parent.data + NGX_HTTP_PGW_TRACE_ID;
        return NGX_OK;
    }

    pass->untraced = 1;

    if (pass->conf->trace != NGX_HTTP_PGW_TRACE_BEGIN) {
        return NGX_OK;
    }

    p = ngx_pnalloc(r->pool, NGX_HTTP_PGW_TRACE_LEN + 1);

    if (p == NULL
        || ngx_http_pgw_ids_make(r, &id) != NGX_OK
        || ngx_http_pgw_ids_make(r, &parent) != NGX_OK)
    {
        return NGX_ERROR;
    }

    parent.len /= 2;
    ngx_sprintf(p, "00-%V-%V-00%Z", &id, &parent);

    gr->trace_id = id;
    gr->traceparent.len = NGX_HTTP_PGW_TRACE_LEN;
    gr->traceparent.data = p;

    return NGX_OK;
}


/* Chooses the ids: the client's if they are well-formed and not repeated, or
   new ids. */

static ngx_int_t
ngx_http_pgw_headers_ids(ngx_http_request_t *r, ngx_http_pgw_request_t *gr,
    const ngx_http_pgw_pass_t *pass)
{
    ngx_uint_t        n;
    const ngx_str_t  *id[NGX_HTTP_PGW_IDS];

    for (n = 0; n < NGX_HTTP_PGW_IDS; n++) {
        id[n] = pass->ids[n] == 1
                && web_id_valid(ngx_http_pgw_span(pass->id[n]))
                ? pass->id[n] : NULL;
    }

    if (id[0]) {
        gr->request_id = *id[0];

    } else if (ngx_http_pgw_ids_make(r, &gr->request_id) != NGX_OK) {
        return NGX_ERROR;
    }

    gr->correlation_id = id[1] ? *id[1] : gr->request_id;

    return NGX_OK;
}


/* Fills h, which is zeroed, because nginx 1.23 has added ->next.  Proxy and
   fastcgi find headers by hash and lowcase_key. */

static void
ngx_http_pgw_headers_set(ngx_table_elt_t *h,
    const ngx_http_pgw_claim_header_t *name, const ngx_str_t *value)
{
    h->key = name->name;
    h->value = *value;
    h->lowcase_key = name->lowcase.data;
    h->hash = name->hash;
}


/* Replaces the headers of r by pass->kept, the ids, Authorization, traceparent,
   and the headers of grant. */

static ngx_int_t
ngx_http_pgw_headers_replace(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_grant_t *grant, ngx_http_pgw_pass_t *pass)
{
    ngx_uint_t                          i, n;
    const ngx_str_t                    *value;
    ngx_table_elt_t                    *add;
    const ngx_http_pgw_claim_header_t  *name;

    n = NGX_HTTP_PGW_IDS + 2 + (grant ? grant->nstrings : 0);

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

    if (gr->traceparent.len) {
        name = &ngx_http_pgw_headers_traceparent;
        ngx_http_pgw_headers_set(&add[n], name, &gr->traceparent);
        add[n++].hash = ngx_hash_key(name->name.data, name->name.len);
    }

    if (grant && conf) {

        name = conf->claim_headers->elts;
        value = ngx_http_pgw_grant_headers(grant, conf);

        for (i = 0; i < conf->claim_headers->nelts; i++) {
            if (value[i].data) {
                ngx_http_pgw_headers_set(&add[n++], &name[i], &value[i]);
            }
        }
    }

    if (ngx_http_pgw_headers_append(&pass->kept, add, n) != NGX_OK) {
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
    ngx_uint_t                      first;
    ngx_http_pgw_pass_t             pass = { 0 };
    const ngx_http_pgw_loc_conf_t  *lcf;

    pass.conf = ngx_http_pgw_srv(r);

    /* on the first pass the location is not known, and Authorization stays */

    first = gr->request_id.data == NULL;

    if (!first) {
        lcf = ngx_http_pgw_loc(r);
        pass.hide = r->headers_in.authorization;
        pass.from = lcf->enable && lcf->token_from ? lcf : NULL;
        pass.unproved = conf && ngx_http_pgw_headers_hide_proof(conf);
    }

    if ((first && ngx_http_pgw_headers_trace(r, gr, &pass) != NGX_OK)
        || ngx_http_pgw_headers_filter(r, &pass) != NGX_OK
        || (first && ngx_http_pgw_headers_ids(r, gr, &pass) != NGX_OK))
    {
        return NGX_ERROR;
    }

    ngx_http_pgw_headers_relink(r);

    return pass.conf->any_enabled
           ? ngx_http_pgw_headers_replace(r, gr, conf, grant, &pass) : NGX_OK;
}
