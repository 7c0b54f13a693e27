
/*
 * Header names in the configuration: the claim map, and the set of names that
 * no client may send.
 */


#include "ngx_http_pgw.h"


#define NGX_HTTP_PGW_NAME_MAX_LEN  63


static ngx_int_t ngx_http_pgw_names_check(ngx_conf_t *cf, ngx_str_t *name);
static ngx_uint_t ngx_http_pgw_names_same(ngx_str_t *a, ngx_str_t *b);
static ngx_int_t ngx_http_pgw_names_push(ngx_conf_t *cf, ngx_array_t *map,
    ngx_str_t *claim, ngx_str_t *name);
static ngx_int_t ngx_http_pgw_names_strip_add(ngx_conf_t *cf,
    ngx_http_pgw_srv_conf_t *conf, ngx_str_t *name);


static ngx_str_t  ngx_http_pgw_names_default[][2] = {
    { ngx_string("account_id"), ngx_string("X-Account-Id") },
    { ngx_string("account_type"), ngx_string("X-Account-Type") },
    { ngx_string("session_id"), ngx_string("X-Session-Id") },
    { ngx_string("token_type"), ngx_string("X-Token-Type") },
    { ngx_string("token_scope"), ngx_string("X-Token-Scope") },
    { ngx_string("workspace_id"), ngx_string("X-Workspace-Id") },
    { ngx_string("tenant_id"), ngx_string("X-Tenant-Id") },
    { ngx_string("member_id"), ngx_string("X-Member-Id") },
    { ngx_string("active_branch_id"), ngx_string("X-Active-Branch-Id") },
    { ngx_string("branch_ids"), ngx_string("X-Branch-Ids") },
    { ngx_string("roles"), ngx_string("X-Roles") },
    { ngx_null_string, ngx_null_string }
};


static ngx_str_t  ngx_http_pgw_names_ids[] = {
    ngx_string("X-Request-Id"),
    ngx_string("X-Correlation-Id"),
    ngx_null_string
};


char *
ngx_http_pgw_names_strip(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_srv_conf_t  *sscf = conf;

    ngx_str_t   *value, *name;
    ngx_uint_t   i;

    (void) cmd;

    if (sscf->strip_names == NULL) {
        sscf->strip_names = ngx_array_create(cf->pool, 4, sizeof(ngx_str_t));
        if (sscf->strip_names == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    value = cf->args->elts;

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_http_pgw_names_check(cf, &value[i]) != NGX_OK) {
            return NGX_CONF_ERROR;
        }

        name = ngx_array_push(sscf->strip_names);
        if (name == NULL) {
            return NGX_CONF_ERROR;
        }

        *name = value[i];
    }

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_names_claim(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    ngx_str_t                                 *value;
    ngx_uint_t                                 i;
    ngx_http_pgw_claim_header_t  *ch;

    (void) cmd;

    value = cf->args->elts;

    if (ngx_http_pgw_names_check(cf, &value[2]) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    if (lcf->claim_headers == NGX_CONF_UNSET_PTR) {
        lcf->claim_headers = ngx_array_create(cf->pool, 4,
                            sizeof(ngx_http_pgw_claim_header_t));
        if (lcf->claim_headers == NULL) {
            return NGX_CONF_ERROR;
        }
    }

    ch = lcf->claim_headers->elts;

    for (i = 0; i < lcf->claim_headers->nelts; i++) {
        if (ngx_http_pgw_names_same(&ch[i].name, &value[2])) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "duplicate header \"%V\"", &value[2]);
            return NGX_CONF_ERROR;
        }
    }

    return ngx_http_pgw_names_push(cf, lcf->claim_headers, &value[1],
                                   &value[2])
           == NGX_OK ? NGX_CONF_OK : NGX_CONF_ERROR;
}


ngx_array_t *
ngx_http_pgw_names_claim_defaults(ngx_conf_t *cf)
{
    ngx_str_t    (*p)[2];
    ngx_array_t   *map;

    map = ngx_array_create(cf->pool, 11, sizeof(ngx_http_pgw_claim_header_t));
    if (map == NULL) {
        return NULL;
    }

    for (p = ngx_http_pgw_names_default; (*p)[0].len; p++) {
        if (ngx_http_pgw_names_push(cf, map, &(*p)[0], &(*p)[1]) != NGX_OK) {
            return NULL;
        }
    }

    return map;
}


/*
 * The names of the default map are stripped whatever the map in use: a
 * service behind us may trust them all the same.
 */

ngx_int_t
ngx_http_pgw_names_merge(ngx_conf_t *cf, ngx_http_pgw_srv_conf_t *prev,
    ngx_http_pgw_srv_conf_t *conf)
{
    ngx_str_t    *name, (*p)[2];
    ngx_uint_t    i, n;
    ngx_array_t  *names;

    conf->strip = ngx_array_create(cf->pool, 16, sizeof(ngx_str_t));
    if (conf->strip == NULL) {
        return NGX_ERROR;
    }

    for (p = ngx_http_pgw_names_default; (*p)[0].len; p++) {
        if (ngx_http_pgw_names_strip_add(cf, conf, &(*p)[1]) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    for (i = 0; i < 2; i++) {

        names = i ? conf->strip_names : prev->strip_names;
        name = names ? names->elts : NULL;

        for (n = 0; names && n < names->nelts; n++) {
            if (ngx_http_pgw_names_strip_add(cf, conf, &name[n]) != NGX_OK) {
                return NGX_ERROR;
            }
        }
    }

    return NGX_OK;
}


ngx_int_t
ngx_http_pgw_names_add(ngx_conf_t *cf, ngx_http_pgw_srv_conf_t *conf,
    ngx_array_t *claim_headers)
{
    ngx_uint_t                    i;
    ngx_http_pgw_claim_header_t  *ch;

    ch = claim_headers->elts;

    for (i = 0; i < claim_headers->nelts; i++) {
        if (ngx_http_pgw_names_strip_add(cf, conf, &ch[i].name) != NGX_OK) {
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


/*
 * Names that nginx itself reads have a meaning before the gateway sees them,
 * and pointers into the list that stripping would leave behind.
 */

static ngx_int_t
ngx_http_pgw_names_check(ngx_conf_t *cf, ngx_str_t *name)
{
    size_t              i;
    ngx_str_t          *id;
    ngx_http_header_t  *h;

    if (name->len == 0 || name->len > NGX_HTTP_PGW_NAME_MAX_LEN) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "header name \"%V\" is not 1 to %d bytes long",
                           name, NGX_HTTP_PGW_NAME_MAX_LEN);
        return NGX_ERROR;
    }

    for (i = 0; i < name->len; i++) {
        if (name->data[i] != '-'
            && ngx_http_pgw_headers_fold(name->data[i]) == '-')
        {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "header name \"%V\" may hold letters, digits "
                               "and \"-\" only", name);
            return NGX_ERROR;
        }
    }

    for (h = ngx_http_headers_in; h->name.len; h++) {
        if (ngx_http_pgw_names_same(&h->name, name)) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "header \"%V\" has a meaning for nginx itself",
                               name);
            return NGX_ERROR;
        }
    }

    for (id = ngx_http_pgw_names_ids; id->len; id++) {
        if (ngx_http_pgw_names_same(id, name)) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "header \"%V\" is the gateway's own", name);
            return NGX_ERROR;
        }
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_http_pgw_names_same(ngx_str_t *a, ngx_str_t *b)
{
    return a->len == b->len
           && ngx_strncasecmp(a->data, b->data, a->len) == 0;
}


static ngx_int_t
ngx_http_pgw_names_push(ngx_conf_t *cf, ngx_array_t *map, ngx_str_t *claim,
    ngx_str_t *name)
{
    ngx_http_pgw_claim_header_t  *ch;

    ch = ngx_array_push(map);
    if (ch == NULL) {
        return NGX_ERROR;
    }

    ch->claim = *claim;
    ch->name = *name;

    ch->lowcase.len = name->len;
    ch->lowcase.data = ngx_pnalloc(cf->pool, name->len);
    if (ch->lowcase.data == NULL) {
        return NGX_ERROR;
    }

    ch->hash = ngx_hash_strlow(ch->lowcase.data, name->data, name->len);

    return NGX_OK;
}


static ngx_int_t
ngx_http_pgw_names_strip_add(ngx_conf_t *cf, ngx_http_pgw_srv_conf_t *conf,
    ngx_str_t *name)
{
    ngx_str_t  *folded;
    ngx_uint_t  i;

    folded = conf->strip->elts;

    for (i = 0; i < conf->strip->nelts; i++) {
        if (ngx_http_pgw_names_same(&folded[i], name)) {
            return NGX_OK;
        }
    }

    folded = ngx_array_push(conf->strip);
    if (folded == NULL) {
        return NGX_ERROR;
    }

    folded->len = name->len;
    folded->data = ngx_pnalloc(cf->pool, name->len);
    if (folded->data == NULL) {
        return NGX_ERROR;
    }

    for (i = 0; i < name->len; i++) {
        folded->data[i] = ngx_http_pgw_headers_fold(name->data[i]);
    }

    conf->strip_lengths |= (uint64_t) 1 << name->len;

    return NGX_OK;
}
