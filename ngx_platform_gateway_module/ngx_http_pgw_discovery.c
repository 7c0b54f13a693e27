
/*
 * OpenID Connect Discovery 1.0: where an issuer says that its keys are.
 *
 * Nothing of it is looked at but "issuer", which has to be the one that was
 * asked for, and "jwks_uri".  The address is kept beside the keys, in shared
 * memory, until a fetch from there fails.
 */


#include "ngx_http_pgw_discovery.h"
#include "ngx_http_pgw_fetch.h"
#include "ngx_http_pgw_headers.h"


#define NGX_HTTP_PGW_DISCOVERY_PATH  "/.well-known/openid-configuration"


/* Whether keys may come from there: nobody else can have written what is sent
   over TLS, or within this host. */

static ngx_uint_t
ngx_http_pgw_discovery_safe(const u_char *url, size_t len)
{
    size_t       i, n;
    const char  *prefix;

    static const char *const  prefixes[] = {
        "https://", "http://127.0.0.1", "http://[::1]", "http://localhost", NULL
    };

    for (i = 0; i < len; i++) {
        if (url[i] <= 0x20 || url[i] >= 0x7f || url[i] == '#') {
            return 0;
        }
    }

    for (i = 0; (prefix = prefixes[i]) != NULL; i++) {

        n = ngx_strlen(prefix);

        if (len > n && ngx_memcmp(url, prefix, n) == 0
            && (i ? url[n] == ':' || url[n] == '/'
                : url[n] != '/'
                  && ngx_strncasecmp((u_char *) url + n, (u_char *) "unix:", 5)
                     != 0))
        {
            return 1;
        }
    }

    return 0;
}


char *
ngx_http_pgw_discovery_init(ngx_conf_t *cf, ngx_http_pgw_issuer_t *issuer)
{
    u_char    *p;
    pj_str_t   iss = *(pj_str_t *) issuer->issuers->elts;

    if (issuer->from.location.len == 0) {
        return "needs \"key_location\", through which it is fetched";
    }

    if (!ngx_http_pgw_discovery_safe(iss.data, iss.len)) {
        return "needs an issuer that begins with \"https://\", or is of this "
               "host";
    }

    if (iss.data[iss.len - 1] == '/') {
        iss.len--;
    }

    p = ngx_pnalloc(cf->pool,
                    iss.len + sizeof(NGX_HTTP_PGW_DISCOVERY_PATH) - 1);
    if (p == NULL) {
        return NGX_CONF_ERROR;
    }

    issuer->discovery.data = p;
    p = ngx_cpymem(p, iss.data, iss.len);
    p = ngx_cpymem(p, NGX_HTTP_PGW_DISCOVERY_PATH,
                   sizeof(NGX_HTTP_PGW_DISCOVERY_PATH) - 1);
    issuer->discovery.len = (size_t) (p - issuer->discovery.data);

    return NGX_CONF_OK;
}


void
ngx_http_pgw_discovery_begin(ngx_http_pgw_issuer_t *issuer)
{
    ngx_str_t  *url = &issuer->from.url;

    *url = issuer->discovery;

    if (url->len && issuer->zone->jwks_uri_len) {
        url->len = issuer->zone->jwks_uri_len;
        url->data = issuer->zone->jwks_uri;
    }
}


/* Reads the metadata; NULL, or what is wrong with them. */

static const char *
ngx_http_pgw_discovery_read(ngx_http_pgw_issuer_t *issuer,
    const ngx_str_t *document)
{
    void                 *mem;
    size_t                size = pj_keyset_arena_bytes(document->len);
    pj_str_t              iss, uri;
    const char           *err;
    pj_arena_t            arena;
    const pj_json_t      *root;
    const pj_str_t       *own = issuer->issuers->elts;
    ngx_http_pgw_zone_t  *zone = issuer->zone;

    mem = ngx_alloc(size, issuer->from.log);
    if (mem == NULL) {
        return "out of memory";
    }

    pj_arena_init(&arena, mem, size);

    err = "the issuer's metadata are no JSON object";

    if (pj_json_parse(&arena, (pj_str_t) { document->data, document->len },
                      &root)
        == PJ_OK
        && root->type == PJ_JSON_OBJECT)
    {
        iss = pj_json_string(root, "issuer");
        uri = pj_json_string(root, "jwks_uri");

        err = iss.len != own->len
              || ngx_memcmp(iss.data, own->data, own->len) != 0
              ? "the issuer's metadata are another's"
              : uri.len == 0 || uri.len > sizeof(zone->jwks_uri)
                || !ngx_http_pgw_discovery_safe(uri.data, uri.len)
                || (own->data[4] == 's' && uri.data[4] != 's')
              ? "the issuer's metadata have no \"jwks_uri\" that begins with "
                "\"https://\", or is of this host" : NULL;

        if (err == NULL) {
            ngx_shmtx_lock(&issuer->from.shpool->mutex);

            /* unless a newer configuration has come, with another issuer */

            if (issuer->from.lease->number == issuer->from.number) {
                ngx_memcpy(zone->jwks_uri, uri.data, uri.len);
                zone->jwks_uri_len = uri.len;
            }

            ngx_shmtx_unlock(&issuer->from.shpool->mutex);
        }
    }

    ngx_free(mem);

    return err;
}


ngx_int_t
ngx_http_pgw_discovery_end(ngx_http_pgw_issuer_t *issuer,
    const ngx_str_t *document, const char **err)
{
    if (issuer->from.url.data != issuer->discovery.data) {
        return NGX_DECLINED;
    }

    if (*err == NULL) {
        *err = ngx_http_pgw_discovery_read(issuer, document);
    }

    if (*err || ngx_http_pgw_lease_renew(&issuer->from) != NGX_OK) {
        return NGX_DECLINED;
    }

    ngx_post_event(&issuer->from.begin, &ngx_posted_events);

    return NGX_OK;
}


static ngx_int_t
ngx_http_pgw_discovery_variable(ngx_http_request_t *r,
    ngx_http_variable_value_t *v, uintptr_t data)
{
    const ngx_str_t  *url = ngx_http_pgw_fetch_url(r);

    return url ? ngx_http_pgw_headers_value(v, url->data, url->len)
               : ngx_http_pgw_headers_value(v, NULL, 0);
}


ngx_http_variable_t  ngx_http_pgw_discovery_variables[] = {
    { ngx_string("platform_fetch_url"), NULL, ngx_http_pgw_discovery_variable,
      0, NGX_HTTP_VAR_NOCACHEABLE, 0 },
      ngx_http_null_variable
};
