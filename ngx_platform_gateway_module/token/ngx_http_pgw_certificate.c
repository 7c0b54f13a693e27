
/*
 * Tokens that are bound to the certificate of a client (RFC 8705).  Such a
 * token is accepted from a client that has proved possession of the
 * certificate's key to this nginx, or to a proxy that passes the certificate on
 * (RFC 9440).
 */


#include "token/token.h"
#include "base/base.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>


#define NGX_HTTP_PGW_CERTIFICATE_BEGIN  "-----BEGIN CERTIFICATE-----"

#define NGX_HTTP_PGW_CERTIFICATE_BASE64                                       \
    "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"


/* The hash of the certificate of a connection, in the pool of the connection.
   */

typedef struct {
    ngx_uint_t               there;    /* the client has shown one */
    u_char                   hash[PJ_SHA256_BYTES];
} ngx_http_pgw_certificate_t;


static char *
ngx_http_pgw_certificate_peer(ngx_conf_t *cf, ngx_http_pgw_srv_conf_t *conf,
    ngx_str_t *value)
{
    ngx_int_t    rc;
    ngx_cidr_t  *cidr;

    cidr = ngx_http_pgw_names_push(cf, &conf->certificate_peers,
                                   sizeof(ngx_cidr_t));
    if (cidr == NULL) {
        return NGX_CONF_ERROR;
    }

    ngx_memzero(cidr, sizeof(ngx_cidr_t));

#if (NGX_HAVE_UNIX_DOMAIN)

    if (ngx_strcmp(value->data, "unix:") == 0) {
        cidr->family = AF_UNIX;
        return NGX_CONF_OK;
    }

#endif

    rc = ngx_ptocidr(value, cidr);

    if (rc == NGX_ERROR || rc == NGX_DONE) {
        ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                           "invalid address \"%V\": say the address of a "
                           "proxy, or a network like 10.0.0.0/24", value);
        return NGX_CONF_ERROR;
    }

    if (value->len > 2
        && ngx_strcmp(value->data + value->len - 2, "/0") == 0)
    {
        return "trusts everybody";
    }

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_certificate_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_pgw_srv_conf_t  *sscf = conf;

    char        *rv = NGX_CONF_OK;
    ngx_str_t   *value = cf->args->elts;
    ngx_uint_t   i, named = cf->args->nelts > 2;

    if (sscf->certificate != NGX_CONF_UNSET_UINT) {
        return "is duplicate";
    }

    sscf->certificate = ngx_strcmp(value[1].data, "connection") == 0
                        ? NGX_HTTP_PGW_CERTIFICATE_CONNECTION
                        : ngx_strcmp(value[1].data, "header") == 0
                        ? NGX_HTTP_PGW_CERTIFICATE_HEADER
                        : NGX_HTTP_PGW_CERTIFICATE_OFF;

    if (named != (sscf->certificate == NGX_HTTP_PGW_CERTIFICATE_HEADER)
        || (sscf->certificate == NGX_HTTP_PGW_CERTIFICATE_OFF
            && ngx_strcmp(value[1].data, "off") != 0))
    {
        return "accepts \"off\", \"connection\", or \"header\" and the "
               "addresses of the proxies that set it";
    }

    for (i = 2; rv == NGX_CONF_OK && i < cf->args->nelts; i++) {
        rv = ngx_http_pgw_certificate_peer(cf, sscf, &value[i]);
    }

    return rv;
}


ngx_uint_t
ngx_http_pgw_certificate_peer_trusted(const ngx_http_request_t *r)
{
    const ngx_http_pgw_srv_conf_t  *sscf = ngx_http_pgw_srv(r);

    return sscf->certificate == NGX_HTTP_PGW_CERTIFICATE_HEADER
           && ngx_cidr_match(r->connection->sockaddr, sscf->certificate_peers)
              == NGX_OK;
}


static ngx_int_t
ngx_http_pgw_certificate_hash(const ngx_str_t *der, u_char *hash)
{
    return der->len
           && EVP_Digest(der->data, der->len, hash, NULL, EVP_sha256(), NULL)
           ? NGX_OK : NGX_DECLINED;
}


#if (NGX_HTTP_SSL)

/* Decodes the text that nginx has of a certificate: lines of base64 between two
   others.  Writes into pem. */

static ngx_int_t
ngx_http_pgw_certificate_decode(ngx_str_t *pem, ngx_str_t *der)
{
    u_char      *p, *to, *last;
    ngx_str_t    text;

    p = pem->data;
    last = p + pem->len;

    if (pem->len < sizeof(NGX_HTTP_PGW_CERTIFICATE_BEGIN) - 1
        || ngx_memcmp(p, NGX_HTTP_PGW_CERTIFICATE_BEGIN,
                      sizeof(NGX_HTTP_PGW_CERTIFICATE_BEGIN) - 1)
           != 0)
    {
        return NGX_DECLINED;
    }

    p += sizeof(NGX_HTTP_PGW_CERTIFICATE_BEGIN) - 1;
    text.data = p;

    for (to = p; p < last && *p != '-'; p++) {
        if (*p != '\n' && *p != '\r') {
            *to++ = *p;
        }
    }

    text.len = (size_t) (to - text.data);
    der->data = pem->data;

    return ngx_decode_base64(der, &text);
}


/* does nothing: the hash is found by the address of this function */

static void
ngx_http_pgw_certificate_cleanup(void *data)
{
}


/*
 * Hashes the certificate of the client once a connection, which has one at
 * most: nginx allows no renegotiation.  In a resumed session it is that of the
 * handshake in which the client proved possession, whichever server that was.
 * Returns NULL if memory is short.
 */

static const ngx_http_pgw_certificate_t *
ngx_http_pgw_certificate_shown(ngx_http_request_t *r)
{
    ngx_str_t                    pem, der;
    ngx_connection_t            *c = r->connection;
    ngx_pool_cleanup_t          *cln;
    ngx_http_pgw_certificate_t  *shown;

#if (NGX_HTTP_V3)

    /* a stream of QUIC has a pool of its own */

    c = c->quic ? c->quic->parent : c;

#endif

    for (cln = c->pool->cleanup; cln; cln = cln->next) {
        if (cln->handler == ngx_http_pgw_certificate_cleanup) {
            return cln->data;
        }
    }

    cln = ngx_pool_cleanup_add(c->pool, sizeof(ngx_http_pgw_certificate_t));

    if (cln == NULL
        || ngx_ssl_get_raw_certificate(c, r->pool, &pem) != NGX_OK)
    {
        return NULL;
    }

    shown = cln->data;
    shown->there = pem.len
                   && ngx_http_pgw_certificate_decode(&pem, &der) == NGX_OK
                   && ngx_http_pgw_certificate_hash(&der, shown->hash)
                      == NGX_OK;

    cln->handler = ngx_http_pgw_certificate_cleanup;

    return shown;
}

#endif


/* Reads Client-Cert (RFC 9440, section 2.2): base64 between colons, and no
   more, or a value that the proxy has added to the client's might count. */

static ngx_int_t
ngx_http_pgw_certificate_sent(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, u_char *hash)
{
    size_t     len;
    ngx_str_t  value, der;

    if (!gr->peer_trusted
        || ngx_http_pgw_names_find(&gr->sent, "client-cert", &value) != 1
        || value.len < 3 || value.data[0] != ':'
        || value.data[value.len - 1] != ':')
    {
        return NGX_DECLINED;
    }

    value.data++;
    value.len -= 2;

    len = strspn((const char *) value.data, NGX_HTTP_PGW_CERTIFICATE_BASE64);
    len += strspn((const char *) value.data + len, "=");

    if (len != value.len) {
        return NGX_DECLINED;
    }

    der.data = ngx_pnalloc(r->pool, ngx_base64_decoded_length(value.len));

    return der.data && ngx_decode_base64(&der, &value) == NGX_OK
           ? ngx_http_pgw_certificate_hash(&der, hash) : NGX_DECLINED;
}


/* Returns 1 if the client has shown the certificate with the thumbprint.  In
   forward-auth the connection is that of the other proxy.  Early data may come
   from somebody who has recorded it. */

static ngx_uint_t
ngx_http_pgw_certificate_holds(ngx_http_request_t *r,
    const ngx_http_pgw_request_t *gr, const u_char *thumbprint)
{
    u_char                             hash[PJ_SHA256_BYTES];
    const ngx_http_pgw_srv_conf_t     *sscf = ngx_http_pgw_srv(r);
#if (NGX_HTTP_SSL)
    const ngx_http_pgw_certificate_t  *shown;

    if (sscf->certificate == NGX_HTTP_PGW_CERTIFICATE_CONNECTION
        && r->connection->ssl && gr->method.len == 0)
    {
        if (!SSL_is_init_finished(r->connection->ssl->connection)) {
            return 0;
        }

        shown = ngx_http_pgw_certificate_shown(r);

        return shown && shown->there
               && CRYPTO_memcmp(shown->hash, thumbprint, PJ_SHA256_BYTES) == 0;
    }
#endif

    return sscf->certificate == NGX_HTTP_PGW_CERTIFICATE_HEADER
           && ngx_http_pgw_certificate_sent(r, gr, hash) == NGX_OK
           && CRYPTO_memcmp(hash, thumbprint, PJ_SHA256_BYTES) == 0;
}


ngx_http_pgw_reason_e
ngx_http_pgw_certificate_check(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_pgw_ctx_t *ctx)
{
    ngx_http_pgw_request_t  *gr = ngx_http_pgw_request_get(r);

    if (ctx->grant.bound != NGX_HTTP_PGW_BINDING_CERTIFICATE) {
        return ngx_http_pgw_proof_check(r, gr, conf, ctx);
    }

    return ctx->dpop ? NGX_HTTP_PGW_REASON_TOKEN_UNBOUND
           : ngx_http_pgw_certificate_holds(r, gr, ctx->grant.thumbprint)
           ? NGX_HTTP_PGW_REASON_VERIFIED
           : NGX_HTTP_PGW_REASON_TOKEN_CERTIFICATE;
}
