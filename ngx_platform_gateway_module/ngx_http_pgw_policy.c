
/*
 * Policies: what makes a token good, and what of it goes upstream.  Locations
 * that agree in all of that share one number, so that what was found out about
 * a token in one of them holds in the others.
 */


#include "ngx_http_pgw.h"


static ngx_uint_t ngx_http_pgw_policy_same(const ngx_http_pgw_loc_conf_t *a,
    const ngx_http_pgw_loc_conf_t *b);
static ngx_uint_t ngx_http_pgw_policy_same_strings(const ngx_array_t *a,
    const ngx_array_t *b);
static ngx_uint_t ngx_http_pgw_policy_same_map(const ngx_array_t *a,
    const ngx_array_t *b);
static int ngx_libc_cdecl ngx_http_pgw_policy_compare(const void *one,
    const void *two);


char *
ngx_http_pgw_policy_intern(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t                 i;
    ngx_http_pgw_loc_conf_t  **policy;
    ngx_http_pgw_main_conf_t  *mcf;

    conf->policy = 0;

    if (conf->access == 0
        || (conf->access & NGX_HTTP_PGW_PUBLIC)
        || conf->issuers == NULL)
    {
        return NGX_CONF_OK;
    }

    mcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_platform_gateway_module);

    if (mcf->policies == NULL) {
        mcf->policies = ngx_array_create(cf->pool, 4, sizeof(*policy));
        if (mcf->policies == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    policy = mcf->policies->elts;

    for (i = 0; i < mcf->policies->nelts; i++) {

        if (ngx_http_pgw_policy_same(policy[i], conf)) {
            conf->policy = i + 1;
            return NGX_CONF_OK;
        }
    }

    policy = ngx_array_push(mcf->policies);
    if (policy == NULL) {
        return NGX_CONF_ERROR;
    }

    *policy = conf;
    conf->policy = mcf->policies->nelts;

    return NGX_CONF_OK;
}


ngx_int_t
ngx_http_pgw_policy_issuers(const ngx_http_pgw_main_conf_t *mcf,
    ngx_array_t *issuers)
{
    pj_str_t                  *issuer;
    ngx_str_t                 *s;
    ngx_uint_t                 i, j, n;
    ngx_http_pgw_loc_conf_t  **policy;

    if (mcf->policies == NULL) {
        return NGX_OK;
    }

    policy = mcf->policies->elts;

    for (i = 0; i < mcf->policies->nelts; i++) {

        issuer = policy[i]->issuers->elts;

        for (j = 0; j < policy[i]->issuers->nelts; j++) {

            s = ngx_array_push(issuers);
            if (s == NULL) {
                return NGX_ERROR;
            }

            s->data = (u_char *) issuer[j].data;
            s->len = issuer[j].len;
        }
    }

    if (issuers->nelts == 0) {
        return NGX_OK;
    }

    s = issuers->elts;

    ngx_qsort(s, issuers->nelts, sizeof(ngx_str_t),
              ngx_http_pgw_policy_compare);

    n = 0;

    for (i = 1; i < issuers->nelts; i++) {
        if (ngx_http_pgw_policy_compare(&s[n], &s[i]) != 0) {
            s[++n] = s[i];
        }
    }

    issuers->nelts = n + 1;

    return NGX_OK;
}


static ngx_uint_t
ngx_http_pgw_policy_same(const ngx_http_pgw_loc_conf_t *a,
    const ngx_http_pgw_loc_conf_t *b)
{
    return a->leeway == b->leeway
           && a->token_max_size == b->token_max_size
           && a->allow_confirmation == b->allow_confirmation
           && ngx_http_pgw_policy_same_strings(a->issuers, b->issuers)
           && ngx_http_pgw_policy_same_strings(a->audiences, b->audiences)
           && ngx_http_pgw_policy_same_map(a->claim_headers, b->claim_headers);
}


static ngx_uint_t
ngx_http_pgw_policy_same_strings(const ngx_array_t *a, const ngx_array_t *b)
{
    ngx_uint_t       i;
    const pj_str_t  *x, *y;

    if (a == b) {
        return 1;
    }

    if (a == NULL || b == NULL || a->nelts != b->nelts) {
        return 0;
    }

    x = a->elts;
    y = b->elts;

    for (i = 0; i < a->nelts; i++) {
        if (x[i].len != y[i].len
            || ngx_memcmp(x[i].data, y[i].data, x[i].len) != 0)
        {
            return 0;
        }
    }

    return 1;
}


/* Names in another case are the same header, but not the same bytes. */

static ngx_uint_t
ngx_http_pgw_policy_same_map(const ngx_array_t *a, const ngx_array_t *b)
{
    ngx_uint_t                          i;
    const ngx_http_pgw_claim_header_t  *x, *y;

    if (a == b) {
        return 1;
    }

    if (a->nelts != b->nelts) {
        return 0;
    }

    x = a->elts;
    y = b->elts;

    for (i = 0; i < a->nelts; i++) {
        if (x[i].claim.len != y[i].claim.len
            || ngx_memcmp(x[i].claim.data, y[i].claim.data, x[i].claim.len)
               != 0
            || x[i].name.len != y[i].name.len
            || ngx_memcmp(x[i].name.data, y[i].name.data, x[i].name.len) != 0)
        {
            return 0;
        }
    }

    return 1;
}


static int ngx_libc_cdecl
ngx_http_pgw_policy_compare(const void *one, const void *two)
{
    int               rc;
    const ngx_str_t  *a = one;
    const ngx_str_t  *b = two;

    rc = ngx_memcmp(a->data, b->data, ngx_min(a->len, b->len));

    return rc ? rc : (a->len > b->len) - (a->len < b->len);
}
