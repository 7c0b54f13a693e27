/* Public, cacheable documents: the key set, and the metadata that leads from
 * the issuer to it. */

#include "auth/handlers.h"

#include "auth/client.h"
#include "base/parse.h"

#include <string.h>

#define KEY_SET "/.well-known/jwks.json"

static void publish(struct worker *w, const char *type, const char *etag,
                    pj_str_t document)
{
    if (w->req->if_match.len > 0 &&
        !http_etag_matches(w->req->if_match, etag, true)) {
        auth_refuse(w, 412, "PRECONDITION_FAILED",
                    "The document is not the one that If-Match names.");
        return;
    }
    http_header(w->res, "Cache-Control", "public, max-age=300");
    http_header(w->res, "ETag", etag);
    if (http_etag_matches(w->req->if_none_match, etag, false)) {
        w->res->status = 304;
        return;
    }
    http_header(w->res, "Content-Type", type);
    buf_add(&w->res->body, document.data, document.len);
}

void h_published_keys(struct worker *w)
{
    const struct keys *keys = w->keys;

    publish(w, "application/jwk-set+json", keys->etag,
            (pj_str_t){(const unsigned char *) keys->jwks, keys->jwks_len});
}

/* Lists each algorithm of the published keys once. */
static void add_algorithms(struct jsonw *json, const struct keys *keys)
{
    jsonw_array(json, "id_token_signing_alg_values_supported");
    for (size_t i = 0; i < keys->published_count; i++) {
        const pj_alg_t *alg = pj_key_alg(keys->verifying[i]);
        size_t before = 0;

        while (pj_key_alg(keys->verifying[before]) != alg) {
            before++;
        }
        if (before == i) {
            jsonw_cstr(json, NULL, pj_alg_name(alg));
        }
    }
    jsonw_array_end(json);
}

static void add_words(struct jsonw *json, const char *name, const char *words)
{
    jsonw_array(json, name);
    while (*words != '\0') {
        size_t len = strcspn(words, " ");

        jsonw_string(json, NULL, words, len);
        words += len + (words[len] == ' ');
    }
    jsonw_array_end(json);
}

/* The members that RFC 8414 and OpenID Connect Discovery 1.0 require.  Arrays
 * of what is not supported must be empty, because missing ones would mean the
 * default flows. */
static void add_metadata(struct jsonw *json, const struct worker *w,
                         const char *jwks_uri)
{
    bool clients = w->cfg->system_api == SYSTEM_API_GATEWAY;
    char url[1024];

    jsonw_object(json, NULL);
    jsonw_cstr(json, "issuer", w->cfg->jwt_issuer);
    jsonw_cstr(json, "jwks_uri", jwks_uri);
    jsonw_array(json, "response_types_supported");
    jsonw_array_end(json);
    add_words(json, "grant_types_supported",
              clients ? "client_credentials" : "");
    if (clients) {
        client_token_url(w->cfg, url, sizeof(url));
        jsonw_cstr(json, "token_endpoint", url);
        add_words(json, "token_endpoint_auth_methods_supported",
                  "client_secret_basic client_secret_post private_key_jwt");
        add_words(json, "token_endpoint_auth_signing_alg_values_supported",
                  "RS256 RS384 RS512 PS256 ES256 EdDSA Ed25519");
        add_words(json, "scopes_supported", client_scopes);
    }
    if (w->cfg->dpop != DPOP_OFF) {
        add_words(json, "dpop_signing_alg_values_supported", PJ_PROOF_ALGS);
    }
    jsonw_array(json, "subject_types_supported");
    jsonw_cstr(json, NULL, "public");
    jsonw_array_end(json);
    add_algorithms(json, w->keys);
    jsonw_object_end(json);
}

void h_published_metadata(struct worker *w)
{
    const char *issuer = w->cfg->jwt_issuer;
    size_t len = strlen(issuer);
    char uri[1024], text[4096], etag[HTTP_ETAG_MAX];
    struct buf document;
    struct jsonw json;

    if (!parse_form(issuer, "https?://[^/?#][^?#]*", 0)) {
        auth_refuse(w, 404, "RESOURCE_NOT_FOUND",
                    "The issuer is not a URL that metadata can be at.");
        return;
    }
    (void) snprintf(uri, sizeof(uri), "%.*s" KEY_SET,
                    (int) (len - (issuer[len - 1] == '/')), issuer);
    buf_init(&document, text, sizeof(text));
    jsonw_init(&json, &document);
    add_metadata(&json, w, uri);
    http_etag(etag, text, document.len);
    publish(w, "application/json", etag,
            (pj_str_t){(const unsigned char *) text, document.len});
}
