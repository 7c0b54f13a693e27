
/*
 * An issuer, and its names.
 */


#include "issuer/issuer.h"


const ngx_str_t *
ngx_http_pgw_issuer_label(const ngx_http_pgw_issuer_t *issuer)
{
    static const ngx_str_t  platform = ngx_string("platform");

    return issuer->name.len ? &issuer->name : &platform;
}


static ngx_int_t
ngx_http_pgw_issuer_cmp(const void *left, const void *right)
{
    const pj_str_t  *a = &((const ngx_http_pgw_name_t *) left)->iss;
    const pj_str_t  *b = &((const ngx_http_pgw_name_t *) right)->iss;

    return ngx_memn2cmp((u_char *) a->data, (u_char *) b->data, a->len, b->len);
}


ngx_http_pgw_issuer_t *
ngx_http_pgw_issuer_find(ngx_http_pgw_issuer_t *first, const pj_str_t *iss)
{
    ngx_uint_t                  i;
    ngx_http_pgw_issuer_t      *issuer;
    const ngx_http_pgw_name_t  *name;

    for (issuer = first; issuer; issuer = issuer->next) {
        name = issuer->names.elts;

        for (i = 0; i < issuer->names.nelts; i++) {
            if (pj_str_eq(name[i].iss, *iss)) {
                return issuer;
            }
        }
    }

    return NULL;
}


const pj_str_t *
ngx_http_pgw_issuer_nearest(ngx_http_pgw_issuer_t *issuer,
    const pj_str_t *iss)
{
    size_t                      max, same, end, differ, least = 0;
    ngx_uint_t                  i;
    const pj_str_t             *known, *nearest = NULL;
    const ngx_http_pgw_name_t  *name;

    if (ngx_http_pgw_issuer_find(issuer, iss)) {
        return NULL;
    }

    for ( /* void */ ; issuer; issuer = issuer->next) {
        name = issuer->names.elts;

        for (i = 0; i < issuer->names.nelts; i++) {
            known = &name[i].iss;
            max = ngx_min(known->len, iss->len);

            for (same = 0;
                 same < max && known->data[same] == iss->data[same];
                 same++)
            { /* void */ }

            for (end = 0;
                 same + end < max
                 && known->data[known->len - 1 - end]
                    == iss->data[iss->len - 1 - end];
                 end++)
            { /* void */ }

            differ = ngx_max(known->len, iss->len) - same - end;

            if (nearest == NULL || differ < least) {
                nearest = known;
                least = differ;
            }
        }
    }

    return nearest;
}


static ngx_int_t
ngx_http_pgw_issuer_add(ngx_http_pgw_issuer_t *issuer, const ngx_array_t *iss)
{
    ngx_uint_t            i;
    ngx_http_pgw_name_t  *name;

    for (i = 0; i < iss->nelts; i++) {

        name = ngx_array_push(&issuer->names);
        if (name == NULL) {
            return NGX_ERROR;
        }

        name->iss = ((pj_str_t *) iss->elts)[i];
    }

    return NGX_OK;
}


char *
ngx_http_pgw_issuer_names(ngx_conf_t *cf, ngx_http_pgw_issuer_t *issuer,
    const ngx_http_pgw_loc_conf_t *policies)
{
    ngx_int_t             rc;
    ngx_uint_t            i, n;
    ngx_array_t          *names = &issuer->names;
    ngx_http_pgw_name_t  *name;

    rc = ngx_array_init(names, cf->pool, 2, sizeof(ngx_http_pgw_name_t));

    if (rc == NGX_OK && issuer->name.len) {
        rc = ngx_http_pgw_issuer_add(issuer, issuer->issuers);
        policies = NULL;
    }

    while (rc == NGX_OK && policies) {
        rc = policies->issuers
             ? ngx_http_pgw_issuer_add(issuer, policies->issuers) : NGX_OK;
        policies = policies->policy_next;
    }

    if (rc != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    /* remove duplicates, since several policies may have a name */

    name = names->elts;
    ngx_sort(name, names->nelts, names->size, ngx_http_pgw_issuer_cmp);

    for (i = 0, n = 0; i < names->nelts; i++) {
        if (n == 0 || ngx_http_pgw_issuer_cmp(&name[i], &name[n - 1]) != 0) {
            name[n++] = name[i];
        }
    }

    names->nelts = n;

    return NGX_CONF_OK;
}


ngx_int_t
ngx_http_pgw_issuer_digest(const ngx_http_pgw_issuer_t *issuer, u_char *hex)
{
    ngx_str_t                   text;
    ngx_uint_t                  i;
    const ngx_http_pgw_name_t  *name = issuer->names.elts;

    for (i = 0; i < issuer->names.nelts; i++) {
        text.data = (u_char *) name[i].iss.data;
        text.len = name[i].iss.len;

        if (ngx_http_pgw_lease_digest(hex, &text, 1) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


const ngx_array_t *
ngx_http_pgw_issuer_accepted(const ngx_http_pgw_issuer_t *issuer,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t                     i, n;
    const ngx_http_pgw_trusted_t  *trusted;

    if (conf->trusted) {
        trusted = conf->trusted->elts;
        n = conf->trusted->nelts;

        for (i = 0; i < n && trusted[i].issuer != issuer; i++) { /* void */ }

        if (i == n) {
            return NULL;
        }
    }

    return ngx_http_pgw_issuer_rule(issuer, conf, issuers);
}


ngx_uint_t
ngx_http_pgw_issuer_opens(const ngx_http_pgw_issuer_t *issuer,
    const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t                   i, opens = 0;
    const ngx_http_pgw_opens_t  *level;

    for ( /* void */ ; issuer; issuer = issuer->next) {

        if (ngx_http_pgw_issuer_accepted(issuer, conf) == NULL) {
            continue;
        }

        opens |= issuer->name.len ? NGX_HTTP_PGW_TOKEN : NGX_HTTP_PGW_GUARDED;

        for (i = 0; conf->trusted && issuer->opens
                    && i < issuer->opens->nelts; i++)
        {
            level = (const ngx_http_pgw_opens_t *) issuer->opens->elts + i;
            opens |= level->access;
        }
    }

    return opens;
}
