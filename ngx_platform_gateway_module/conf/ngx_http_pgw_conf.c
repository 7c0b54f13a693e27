
/*
 * Values of directives that nginx's own slots cannot read; the claim map, and
 * the header names that are stripped from requests.
 */


#include "conf/conf.h"
#include "token/token.h"
#include "base/base.h"
#include "nginx/nginx.h"


#define NGX_HTTP_PGW_NAME_MAX_LEN  63
#define NGX_HTTP_PGW_JOINED_MAX    128  /* all methods take 98 */


ngx_conf_bitmask_t  ngx_http_pgw_methods[] = {
    { ngx_string("GET"), NGX_HTTP_GET },
    { ngx_string("HEAD"), NGX_HTTP_HEAD },
    { ngx_string("POST"), NGX_HTTP_POST },
    { ngx_string("PUT"), NGX_HTTP_PUT },
    { ngx_string("PATCH"), NGX_HTTP_PATCH },
    { ngx_string("DELETE"), NGX_HTTP_DELETE },
    { ngx_string("MKCOL"), NGX_HTTP_MKCOL },
    { ngx_string("COPY"), NGX_HTTP_COPY },
    { ngx_string("MOVE"), NGX_HTTP_MOVE },
    { ngx_string("PROPFIND"), NGX_HTTP_PROPFIND },
    { ngx_string("PROPPATCH"), NGX_HTTP_PROPPATCH },
    { ngx_string("LOCK"), NGX_HTTP_LOCK },
    { ngx_string("UNLOCK"), NGX_HTTP_UNLOCK },
    { ngx_null_string, 0 }
};


ngx_conf_bitmask_t  ngx_http_pgw_levels[] = {
    { ngx_string("public"), NGX_HTTP_PGW_PUBLIC },
    { ngx_string("account"), NGX_HTTP_PGW_ACCOUNT },
    { ngx_string("branch"), NGX_HTTP_PGW_BRANCH },
    { ngx_string("platform"), NGX_HTTP_PGW_BRANCH },
    { ngx_string("system"), NGX_HTTP_PGW_SYSTEM },
    { ngx_string("token"), NGX_HTTP_PGW_TOKEN },
    { ngx_null_string, 0 }
};


/* Header names that clients must not send: the ids, and the default claim map,
   because a service may trust it whatever map is in use. */

static ngx_str_t  ngx_http_pgw_conf_reserved[][2] = {
    { ngx_null_string, ngx_string("X-Request-Id") },
    { ngx_null_string, ngx_string("X-Correlation-Id") },
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


void
ngx_http_pgw_conf_place(ngx_conf_t *cf, ngx_http_pgw_place_t *place)
{
    place->file = cf->conf_file->file.name;
    place->line = cf->conf_file->line;
}


char *
ngx_http_pgw_conf_fail(ngx_conf_t *cf, const ngx_http_pgw_place_t *place,
    const char *format, ...)
{
    u_char                    *last, text[NGX_MAX_CONF_ERRSTR];
    va_list                    args;
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_pgw_loc_conf_t   *conf;

    last = text;

    if (place == NULL) {
        clcf = ngx_http_pgw_conf_core(cf);
        conf = ngx_http_conf_get_module_loc_conf(cf,
                                             ngx_http_platform_gateway_module);
        place = &conf->place;

        last = ngx_snprintf(text, sizeof(text), clcf->name.len
                            ? "platform_gateway: location \"%V\" "
                            : "platform_gateway: the server ", &clcf->name);
    }

    va_start(args, format);
    last = ngx_vslprintf(last, text + sizeof(text), format, args);
    va_end(args);

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0, "%*s in %V:%ui",
                  (size_t) (last - text), text, &place->file, place->line);

    return NGX_CONF_ERROR;
}


/* Joins the names of the bits in mask, a separator after each.  Returns 0 if
   there is not enough memory. */

static ngx_uint_t
ngx_http_pgw_conf_join(ngx_conf_t *cf, const ngx_conf_bitmask_t *name,
    ngx_uint_t mask, const char *separator, ngx_str_t *text)
{
    u_char  *p = ngx_pnalloc(cf->pool, NGX_HTTP_PGW_JOINED_MAX);

    text->data = p;

    for ( /* void */ ; p && name->name.len; name++) {
        if (mask & name->mask) {
            p = ngx_sprintf(p, "%V%s", &name->name, separator);
            mask &= ~name->mask;      /* a level may have two names */
        }
    }

    text->len = (size_t) (p - text->data);

    return p != NULL;
}


char *
ngx_http_pgw_conf_names(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    size_t  i;

    if (conf->access) {

        if (!ngx_http_pgw_conf_join(cf, ngx_http_pgw_levels, conf->access, " ",
                                    &conf->levels)
            || !ngx_http_pgw_conf_join(cf, ngx_http_pgw_levels, conf->access,
                                       " ", &conf->scopes))
        {
            return NGX_CONF_ERROR;
        }

        conf->levels.len--;
        conf->scopes.len--;

        for (i = 0; i < conf->scopes.len; i++) {
            conf->scopes.data[i] = ngx_toupper(conf->scopes.data[i]);
        }
    }

    if (conf->methods) {

        /* GET implies HEAD, as in limit_except; OPTIONS is always answered */

        if (conf->methods & NGX_HTTP_GET) {
            conf->methods |= NGX_HTTP_HEAD;
        }

        if (!ngx_http_pgw_conf_join(cf, ngx_http_pgw_methods, conf->methods,
                                    ", ", &conf->allow))
        {
            return NGX_CONF_ERROR;
        }

        ngx_memcpy(conf->allow.data + conf->allow.len, "OPTIONS", 7);
        conf->allow.len += 7;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_conf_route(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    u_char     *p;
    ngx_str_t  *value;

    if (lcf->route_id.data) {
        return "is duplicate";
    }

    value = cf->args->elts;

    if (value[1].len == 0) {
        return "has an empty id";
    }

    /* metrics escape the id as JSON does, which is wrong for control
       characters there */

    for (p = value[1].data; p < value[1].data + value[1].len; p++) {
        if (*p < 0x20 || *p == 0x7f) {
            return "has a control character in its id";
        }
    }

    lcf->route_id = value[1];

    if (cf->args->nelts == 3 && value[2].len) {
        lcf->service_name = value[2];
    }

    return NGX_CONF_OK;
}


/* Like ngx_conf_set_str_array_slot(), with elements of type pj_str_t. */

char *
ngx_http_pgw_conf_strings(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    pj_str_t    *s;
    ngx_str_t   *value = cf->args->elts;
    ngx_uint_t   i;

    for (i = 1; i < cf->args->nelts; i++) {

        if (value[i].len == 0) {
            return "has an empty value";
        }

        s = ngx_http_pgw_names_push(cf, (ngx_array_t **)
                                        ((char *) conf + cmd->offset),
                                    sizeof(pj_str_t));
        if (s == NULL) {
            return NGX_CONF_ERROR;
        }

        *s = (pj_str_t) { value[i].data, value[i].len };
    }

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_conf_zone(ngx_conf_t *cf, const ngx_str_t *value,
    const char *example, ssize_t min, ngx_str_t *name, size_t *zone_size)
{
    ssize_t    size;
    ngx_str_t  text;

    text.data = (u_char *) ngx_strchr(value->data, ':');
    name->data = value->data;
    name->len = text.data ? (size_t) (text.data++ - value->data) : 0;
    text.len = text.data ? value->len - name->len - 1 : 0;
    size = ngx_parse_size(&text);

    if (name->len == 0 || size < min) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid zone \"%V\": it is NAME:SIZE, like \"%s\", "
                           "of at least %zk", value, example, min / 1024);
        return NGX_CONF_ERROR;
    }

    *zone_size = (size_t) size;

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_conf_leeway(ngx_conf_t *cf, void *post, void *data)
{
    time_t  *leeway = data;

    return (*leeway > NGX_HTTP_PGW_LEEWAY_MAX) ? "is more than 300 seconds"
                                               : NGX_CONF_OK;
}


/* The realm becomes a quoted string in WWW-Authenticate. */

char *
ngx_http_pgw_conf_realm(ngx_conf_t *cf, void *post, void *data)
{
    ngx_str_t  *challenge = data, realm = *challenge;

    if (!pj_json_plain((pj_str_t) { realm.data, realm.len })) {
        return "must be printable ASCII without quotes and backslashes";
    }

    challenge->len = realm.len + sizeof("Bearer realm=\"\"") - 1;
    challenge->data = ngx_pnalloc(cf->pool, challenge->len);
    if (challenge->data == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_sprintf(challenge->data, "Bearer realm=\"%V\"", &realm);

    return NGX_CONF_OK;
}


/* Checks a header name that is to be stripped and set.  A header that nginx
   itself reads is refused: nginx acts on it before the gateway runs, and keeps
   a pointer to it. */

static ngx_int_t
ngx_http_pgw_conf_check_name(ngx_conf_t *cf, const ngx_str_t *name)
{
    ngx_uint_t          i;
    const char         *err;
    ngx_http_header_t  *h;

    err = name->len == 0 || name->len > NGX_HTTP_PGW_NAME_MAX_LEN
          ? "header name \"%V\" is not 1 to 63 bytes long"
          : !web_plain(ngx_http_pgw_span(name), "-")
          ? "header name \"%V\" may hold letters, digits and \"-\" only" : NULL;

    for (h = ngx_http_headers_in; err == NULL && h->name.len; h++) {
        if (ngx_http_pgw_names_same(&h->name, name)) {
            err = "header \"%V\" has a meaning for nginx itself";
        }
    }

    for (i = 0; err == NULL && i <= NGX_HTTP_PGW_IDS; i++) {
        if (ngx_http_pgw_names_same(i == NGX_HTTP_PGW_IDS
                                    ? &ngx_http_pgw_assertion_name
                                    : &ngx_http_pgw_conf_reserved[i][1], name))
        {
            err = "header \"%V\" is the gateway's own";
        }
    }

    if (err) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0, err, name);
    }

    return err ? NGX_ERROR : NGX_OK;
}


/* Adds a header to *map, with its claim unless that is NULL or empty.  Returns
   NGX_DECLINED if the map has the header already. */

static ngx_int_t
ngx_http_pgw_conf_map(ngx_conf_t *cf, ngx_array_t **map,
    const ngx_str_t *claim, const ngx_str_t *name, ngx_uint_t builtin)
{
    ngx_uint_t                    i, n;
    ngx_http_pgw_claim_header_t  *ch, *first;

    ch = ngx_http_pgw_names_push(cf, map, sizeof(*ch));
    if (ch == NULL) {
        return NGX_ERROR;
    }

    first = (*map)->elts;
    n = (*map)->nelts - 1;

    for (i = 0; i < n; i++) {
        if (ngx_http_pgw_names_same(&first[i].name, name)) {
            (*map)->nelts = n;
            return NGX_DECLINED;
        }
    }

    ch->builtin = builtin;
    ch->name = *name;

    ch->lowcase.len = name->len;
    ch->lowcase.data = ngx_pnalloc(cf->pool, name->len);
    if (ch->lowcase.data == NULL) {
        return NGX_ERROR;
    }

    ch->hash = ngx_hash_strlow(ch->lowcase.data, name->data, name->len);

    return claim == NULL || claim->len == 0
           || ngx_http_pgw_claim_place(cf, claim, &ch->claim) == NGX_CONF_OK
           ? NGX_OK : NGX_ERROR;
}


/* Adds a header name to the names that conf strips. */

static ngx_int_t
ngx_http_pgw_conf_strip_name(ngx_conf_t *cf, ngx_http_pgw_srv_conf_t *conf,
    const ngx_str_t *name)
{
    conf->strip_lengths |= (uint64_t) 1 << name->len;

    return ngx_http_pgw_conf_map(cf, &conf->strip, NULL, name, 0) == NGX_ERROR
           ? NGX_ERROR : NGX_OK;
}


static char *
ngx_http_pgw_conf_strip_map(ngx_conf_t *cf, ngx_http_pgw_srv_conf_t *conf,
    const ngx_array_t *map)
{
    ngx_uint_t                    i;
    ngx_http_pgw_claim_header_t  *ch = map->elts;

    for (i = 0; i < map->nelts; i++) {
        if (ngx_http_pgw_conf_strip_name(cf, conf, &ch[i].name) != NGX_OK) {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


/* Adds the reserved names from the n-th on. */

static ngx_int_t
ngx_http_pgw_conf_defaults(ngx_conf_t *cf, ngx_array_t **map, ngx_uint_t n)
{
    ngx_str_t  (*row)[2] = &ngx_http_pgw_conf_reserved[n];

    while ((*row)[1].len
           && ngx_http_pgw_conf_map(cf, map, &(*row)[0], &(*row)[1], 1)
              == NGX_OK)
    {
        row++;
    }

    return (*row)[1].len ? NGX_ERROR : NGX_OK;
}


/* The header of the assertion is stripped everywhere, because a service would
   accept an assertion that a client was able to get. */

void *
ngx_http_pgw_conf_create_srv(ngx_conf_t *cf)
{
    ngx_http_pgw_srv_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_srv_conf_t));

    if (conf) {
        conf->trace = NGX_CONF_UNSET_UINT;
        conf->certificate = NGX_CONF_UNSET_UINT;
    }

    return conf
           && ngx_http_pgw_conf_defaults(cf, &conf->strip, 0) == NGX_OK
           && ngx_http_pgw_conf_strip_name(cf, conf,
                                           &ngx_http_pgw_assertion_name)
              == NGX_OK ? conf : NULL;
}


char *
ngx_http_pgw_conf_merge_srv(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_pgw_srv_conf_t  *prev = parent;
    ngx_http_pgw_srv_conf_t  *conf = child;

    ngx_conf_merge_uint_value(conf->trace, prev->trace,
                              NGX_HTTP_PGW_TRACE_PASS);

    if (conf->certificate == NGX_CONF_UNSET_UINT) {
        conf->certificate_peers = prev->certificate_peers;
    }

    ngx_conf_merge_uint_value(conf->certificate, prev->certificate,
                              NGX_HTTP_PGW_CERTIFICATE_OFF);

    /* only a proxy sets them, and only the gateway reads them */

    if (conf->certificate
        && (ngx_http_pgw_conf_strip_name(cf, conf,
                               ngx_http_pgw_header_text("Client-Cert"))
            != NGX_OK
            || ngx_http_pgw_conf_strip_name(cf, conf,
                               ngx_http_pgw_header_text("Client-Cert-Chain"))
               != NGX_OK))
    {
        return NGX_CONF_ERROR;
    }

    return ngx_http_pgw_conf_strip_map(cf, conf, prev->strip);
}


char *
ngx_http_pgw_conf_strip(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_str_t   *value = cf->args->elts;
    ngx_uint_t   i;

    for (i = 1; i < cf->args->nelts; i++) {

        if (ngx_http_pgw_conf_check_name(cf, &value[i]) != NGX_OK
            || ngx_http_pgw_conf_strip_name(cf, conf, &value[i]) != NGX_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return NGX_CONF_OK;
}


/* Claims are found by their whole name.  A URI may have dots. */

char *
ngx_http_pgw_conf_path(ngx_conf_t *cf, const ngx_str_t *claim)
{
    if (ngx_strchr(claim->data, '.') == NULL
        || ngx_strchr(claim->data, ':') || ngx_strchr(claim->data, '/'))
    {
        return NGX_CONF_OK;
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "claim \"%V\" reads as a path into an object, and only "
                       "claims at the top level of a token can be used: have "
                       "the issuer put it there", claim);

    return NGX_CONF_ERROR;
}


char *
ngx_http_pgw_conf_claim(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    ngx_int_t   rc;
    ngx_str_t  *value;

    value = cf->args->elts;

    if (ngx_http_pgw_conf_check_name(cf, &value[2]) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    rc = ngx_http_pgw_conf_map(cf, &lcf->claim_map, &value[1], &value[2],
                               0);

    return rc == NGX_OK ? NGX_CONF_OK
           : rc == NGX_DECLINED ? "has a header that another claim has"
           : NGX_CONF_ERROR;
}


/* The default map is created once, in the outermost level that lacks one.
   Locations that inherit map and assertion share the list of both. */

char *
ngx_http_pgw_conf_merge_claims(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *prev,
    ngx_http_pgw_loc_conf_t *conf, ngx_http_pgw_srv_conf_t *sscf)
{
    ngx_uint_t  inherits;

    if ((prev->claim_map == NGX_CONF_UNSET_PTR
         && ngx_http_pgw_conf_defaults(cf, &prev->claim_map, NGX_HTTP_PGW_IDS)
            != NGX_OK)
        || (prev->claim_headers == NULL
            && ngx_http_pgw_assertion_headers(cf, prev) != NGX_OK))
    {
        return NGX_CONF_ERROR;
    }

    ngx_conf_merge_ptr_value(conf->claim_map, prev->claim_map, NULL);

    inherits = conf->claim_map == prev->claim_map
               && conf->assertion == prev->assertion;

    if (inherits) {
        conf->claim_headers = prev->claim_headers;

    } else if (ngx_http_pgw_assertion_headers(cf, conf) != NGX_OK) {
        return NGX_CONF_ERROR;
    }

    return ngx_http_pgw_conf_strip_map(cf, sscf, conf->claim_map);
}
