
/*
 * platform_gateway_single_header: headers that every server reads in one way.
 *
 * The value of a header that is there twice is the first, the last or both,
 * and "_" in its name may be read as "-".  What the gateway decides on by such
 * a header would not be what the upstream does.
 */


#include "request/request.h"
#include "base/base.h"


char *
ngx_http_pgw_single_directive(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    ngx_str_t   *value = cf->args->elts, *name;
    ngx_uint_t   i;

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {

        if (lcf->single_headers != NGX_CONF_UNSET_PTR) {
            return "is duplicate";
        }

        lcf->single_headers = NULL;
        return NGX_CONF_OK;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        if (value[i].len == 0 || !web_plain(ngx_http_pgw_span(&value[i]), "-"))
        {
            return "has a name that is not of letters, digits and \"-\"";
        }

        if (lcf->single_headers == NULL) {
            return "has names beside \"off\"";
        }

        name = ngx_http_pgw_names_push(cf, &lcf->single_headers,
                                       sizeof(ngx_str_t));
        if (name == NULL) {
            return NGX_CONF_ERROR;
        }

        *name = value[i];
        ngx_strlow(name->data, name->data, name->len);
    }

    return NGX_CONF_OK;
}


/* Returns 1 if servers may read the name of the header as this one. */

static ngx_uint_t
ngx_http_pgw_single_like(const ngx_table_elt_t *h, const ngx_str_t *name)
{
    size_t  i;

    for (i = 0; i < name->len && h->key.len == name->len; i++) {
        if (ngx_http_pgw_names_fold(h->key.data[i]) != name->data[i]) {
            return 0;
        }
    }

    return h->key.len == name->len;
}


static const char *
ngx_http_pgw_single_check(const ngx_http_request_t *r, const ngx_str_t *name)
{
    size_t                i;
    ngx_uint_t            found = 0;
    ngx_table_elt_t      *h;
    ngx_http_pgw_walk_t   walk = { &r->headers_in.headers.part, 0 };

    while ((h = ngx_http_pgw_header_next(&walk)) != NULL) {

        if (!ngx_http_pgw_single_like(h, name)) {
            continue;
        }

        if (found++) {
            return "a header that must not be repeated is there twice";
        }

        if (ngx_memcmp(h->lowcase_key, name->data, name->len) != 0) {
            return "the name of a header can be read in two ways";
        }

        for (i = 0; i < h->value.len; i++) {
            if (h->value.data[i] < 0x20 || h->value.data[i] > 0x7e) {
                return "a header has a byte that is not printable ASCII";
            }
        }
    }

    return NULL;
}


const char *
ngx_http_pgw_single_fault(const ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t        i;
    const char       *fault = NULL;
    const ngx_str_t  *name = conf->single_headers->elts;

    for (i = 0; fault == NULL && i < conf->single_headers->nelts; i++) {
        fault = ngx_http_pgw_single_check(r, &name[i]);
    }

    return fault;
}
