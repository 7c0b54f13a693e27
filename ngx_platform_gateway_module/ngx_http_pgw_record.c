
/*
 * FastCGI and uwsgi carry all headers and parameters of a request in one
 * record of 65,535 bytes at most.  nginx answers a request that is too large
 * for it with 500 and an alert, and any client can send one: so those are
 * refused here, as headers that are too large.
 */


#include "ngx_http_pgw.h"
#include "ngx_http_pgw_peek.h"


#define NGX_HTTP_PGW_RECORD_MAX  65535

/* What a variable may hold beside what the client sent: addresses, paths. */
#define NGX_HTTP_PGW_RECORD_VARIABLE  256


/* A "fastcgi_param" or "uwsgi_param". */

typedef struct {
    ngx_str_t                    key;
    ngx_uint_t                   header;       /* stands for a request header:
                                                  HTTP_... */
    ngx_http_complex_value_t     value;
} ngx_http_pgw_param_t;


struct ngx_http_pgw_record_s {
    ngx_array_t                  params;       /* ..._param_t */
    size_t                       fixed;        /* of all params: their names,
                                                  and their text without what
                                                  variables give */
    ngx_uint_t                   variables;    /* how many those are */
    size_t                       length[2];    /* bytes of a length: up to 127,
                                                  of more */
};


static ngx_int_t ngx_http_pgw_record_protocol(ngx_conf_t *cf,
    ngx_array_t **params);
static char *ngx_http_pgw_record_compile(ngx_conf_t *cf,
    ngx_http_pgw_record_t *record, ngx_http_upstream_param_t *source);
static size_t ngx_http_pgw_record_pair(const ngx_http_pgw_record_t *record,
    size_t name, size_t value);
static size_t ngx_http_pgw_record_headers(ngx_http_request_t *r,
    const ngx_http_pgw_record_t *record, ngx_uint_t all);
static ngx_uint_t ngx_http_pgw_record_replaces(
    const ngx_http_pgw_record_t *record, const ngx_str_t *name);
static ngx_int_t ngx_http_pgw_record_params(ngx_http_request_t *r,
    const ngx_http_pgw_record_t *record, size_t *len);


static const struct {
    ngx_str_t                    module;
    ngx_str_t                    param;
    size_t                       length[2];
} ngx_http_pgw_record_protocols[] = {
    { ngx_string("fastcgi"), ngx_string("fastcgi_param"), { 1, 4 } },
    { ngx_string("uwsgi"), ngx_string("uwsgi_param"), { 2, 2 } }
};

#define NGX_HTTP_PGW_RECORD_PROTOCOLS                                         \
    (sizeof(ngx_http_pgw_record_protocols)                                    \
     / sizeof(ngx_http_pgw_record_protocols[0]))


char *
ngx_http_pgw_record_merge(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    ngx_int_t                   protocol;
    ngx_uint_t                  i;
    ngx_array_t                *source;
    ngx_http_pgw_record_t      *record;
    ngx_http_upstream_param_t  *param;

    protocol = ngx_http_pgw_record_protocol(cf, &source);

    if (protocol == NGX_DECLINED) {
        return NGX_CONF_OK;
    }

    record = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_record_t));
    if (record == NULL
        || ngx_array_init(&record->params, cf->pool, 16,
                          sizeof(ngx_http_pgw_param_t))
           != NGX_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_memcpy(record->length, ngx_http_pgw_record_protocols[protocol].length,
               sizeof(record->length));

    param = source ? source->elts : NULL;

    for (i = 0; source && i < source->nelts; i++) {
        if (ngx_http_pgw_record_compile(cf, record, &param[i]) != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    conf->record = record;

    return NGX_CONF_OK;
}


/*
 * The protocol of the location in cf and its params, NULL: none.  Where no
 * upstream is fixed, its address is made of variables, and params tell who it
 * is for.
 */

static ngx_int_t
ngx_http_pgw_record_protocol(ngx_conf_t *cf, ngx_array_t **params)
{
    ngx_uint_t                       i, known;
    ngx_array_t                    **source;
    ngx_http_core_loc_conf_t        *clcf;
    const ngx_http_upstream_conf_t  *u;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    for (i = 0; i < NGX_HTTP_PGW_RECORD_PROTOCOLS; i++) {

        u = ngx_http_pgw_peek_passes(cf,
                                      &ngx_http_pgw_record_protocols[i].module,
                                      &known);

        source = ngx_http_pgw_peek_field(cf,
                        (char *) ngx_http_pgw_record_protocols[i].param.data,
                        ngx_http_upstream_param_set_slot);

        *params = source ? *source : NULL;

        if ((u && u->upstream) || (!known && clcf->handler && *params)) {
            return (ngx_int_t) i;
        }
    }

    return NGX_DECLINED;
}


static char *
ngx_http_pgw_record_compile(ngx_conf_t *cf, ngx_http_pgw_record_t *record,
    ngx_http_upstream_param_t *source)
{
    ngx_http_pgw_param_t             *param;
    ngx_http_compile_complex_value_t  ccv;

    param = ngx_array_push(&record->params);
    if (param == NULL) {
        return NGX_CONF_ERROR;
    }

    param->key = source->key;
    param->header = (source->key.len > sizeof("HTTP_") - 1
                     && ngx_strncmp(source->key.data, "HTTP_",
                                    sizeof("HTTP_") - 1)
                        == 0);

    ngx_memzero(&param->value, sizeof(ngx_http_complex_value_t));
    ngx_memzero(&ccv, sizeof(ngx_http_compile_complex_value_t));

    ccv.cf = cf;
    ccv.value = &source->value;
    ccv.complex_value = &param->value;

    if (ngx_http_compile_complex_value(&ccv) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    record->fixed += ngx_http_pgw_record_pair(record, source->key.len,
                                              source->value.len);
    record->variables += ngx_http_script_variables_count(&source->value);

    return NGX_CONF_OK;
}


/*
 * Most requests are so small that they fit whatever is made of them.  Of the
 * others each parameter is looked at.
 */

ngx_int_t
ngx_http_pgw_record_check(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf)
{
    size_t                        len, some;
    ngx_int_t                     rc;
    ngx_http_pgw_request_t       *gr;
    const ngx_http_pgw_record_t  *record;

    record = conf->record;

    len = ngx_http_pgw_record_headers(r, record, 1);
    some = len + r->unparsed_uri.len + NGX_HTTP_PGW_RECORD_VARIABLE;

    if (record->fixed + len + record->variables * some
        <= NGX_HTTP_PGW_RECORD_MAX)
    {
        return NGX_DECLINED;
    }

    len = ngx_http_pgw_record_headers(r, record, 0);

    if (ngx_http_pgw_record_params(r, record, &len) != NGX_OK) {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
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


/* A name and a value with their lengths. */

static size_t
ngx_http_pgw_record_pair(const ngx_http_pgw_record_t *record, size_t name,
    size_t value)
{
    return record->length[name > 127] + name
           + record->length[value > 127] + value;
}


/* The headers: all, or without those for which a parameter stands. */

static size_t
ngx_http_pgw_record_headers(ngx_http_request_t *r,
    const ngx_http_pgw_record_t *record, ngx_uint_t all)
{
    size_t                  len;
    ngx_uint_t              i;
    ngx_table_elt_t        *h;
    const ngx_list_part_t  *part;

    len = 0;
    part = &r->headers_in.headers.part;
    i = 0;

    while ((h = ngx_http_pgw_header_next(&part, &i)) != NULL) {

        if (all || !ngx_http_pgw_record_replaces(record, &h->key)) {
            len += ngx_http_pgw_record_pair(record,
                                            sizeof("HTTP_") - 1 + h->key.len,
                                            h->value.len);
        }
    }

    return len;
}


static ngx_uint_t
ngx_http_pgw_record_replaces(const ngx_http_pgw_record_t *record,
    const ngx_str_t *name)
{
    size_t                       j;
    u_char                      *key;
    ngx_uint_t                   i;
    const ngx_http_pgw_param_t  *param;

    param = record->params.elts;

    for (i = 0; i < record->params.nelts; i++) {

        if (!param[i].header
            || param[i].key.len != sizeof("HTTP_") - 1 + name->len)
        {
            continue;
        }

        key = param[i].key.data + sizeof("HTTP_") - 1;

        for (j = 0; j < name->len; j++) {
            if (key[j] != (name->data[j] == '-' ? '_'
                                                : ngx_toupper(name->data[j])))
            {
                break;
            }
        }

        if (j == name->len) {
            return 1;
        }
    }

    return 0;
}


/*
 * Adds up the parameters.  Variables are looked at earlier than nginx itself
 * would, so what they are now is forgotten: the body, say, is not there yet.
 */

static ngx_int_t
ngx_http_pgw_record_params(ngx_http_request_t *r,
    const ngx_http_pgw_record_t *record, size_t *len)
{
    size_t                      size;
    ngx_int_t                   rc;
    ngx_str_t                   value;
    ngx_uint_t                  i;
    ngx_http_pgw_param_t       *param;
    ngx_http_variable_value_t  *saved;
    ngx_http_core_main_conf_t  *cmcf;

    cmcf = ngx_http_get_module_main_conf(r, ngx_http_core_module);

    size = cmcf->variables.nelts * sizeof(ngx_http_variable_value_t);

    saved = r->variables;
    r->variables = ngx_palloc(r->pool, size);

    if (r->variables == NULL) {
        r->variables = saved;
        return NGX_ERROR;
    }

    ngx_memcpy(r->variables, saved, size);

    rc = NGX_OK;
    param = record->params.elts;

    for (i = 0; i < record->params.nelts && rc == NGX_OK; i++) {

        rc = ngx_http_complex_value(r, &param[i].value, &value);

        if (rc == NGX_OK) {
            *len += ngx_http_pgw_record_pair(record, param[i].key.len,
                                             value.len);
        }
    }

    r->variables = saved;

    return rc;
}
