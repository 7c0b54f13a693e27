
/*
 * The checks of the token, as ngx_http_pgw_token_verify() and the
 * guard make them, with the same functions and in the same order; but one that
 * fails keeps only those from being made that need what it would have given.
 */


#include "ngx_http_pgw_explain.h"


static const char *ngx_http_pgw_explain_member(ngx_http_pgw_explain_t *e,
    const pj_json_t *m);
static void ngx_http_pgw_explain_result(ngx_http_pgw_explain_t *e,
    ngx_http_pgw_check_e check, pj_err_t err);
static ngx_uint_t ngx_http_pgw_explain_bearer(ngx_http_pgw_explain_t *e,
    pj_str_t *token);
static ngx_uint_t ngx_http_pgw_explain_header(ngx_http_pgw_explain_t *e,
    pj_arena_t *arena, const pj_jws_t *jws, pj_jws_header_t *header);
static ngx_uint_t ngx_http_pgw_explain_payload(ngx_http_pgw_explain_t *e,
    pj_arena_t *arena, const pj_jws_t *jws);
static void ngx_http_pgw_explain_claims(ngx_http_pgw_explain_t *e);
static void ngx_http_pgw_explain_key(ngx_http_pgw_explain_t *e,
    const pj_jws_t *jws, const pj_jws_header_t *header);


const char *
ngx_http_pgw_explain_read(ngx_http_pgw_explain_t *e, const ngx_str_t *body)
{
    void             *mem;
    size_t            size;
    pj_str_t          text;
    pj_arena_t        arena;
    const char       *err;
    const pj_json_t  *root, *m;

    size = pj_keyset_arena_bytes(body->len);

    mem = ngx_palloc(e->request->pool, size);
    if (mem == NULL) {
        return "the request is too large";
    }

    pj_arena_init(&arena, mem, size);

    text.data = body->data;
    text.len = body->len;

    if (pj_json_parse(&arena, text, &root) != PJ_OK
        || root->type != PJ_JSON_OBJECT)
    {
        return "the body is no JSON object";
    }

    for (m = root->child; m; m = m->next) {
        err = ngx_http_pgw_explain_member(e, m);
        if (err) {
            return err;
        }
    }

    return e->path.len ? NULL : "a path is required";
}


static const char *
ngx_http_pgw_explain_member(ngx_http_pgw_explain_t *e, const pj_json_t *m)
{
    ngx_uint_t  i;
    ngx_str_t  *value;

    struct {
        ngx_str_t    name;
        ngx_str_t   *value;
    } members[] = {
        { ngx_string("token"), &e->token },
        { ngx_string("method"), &e->method },
        { ngx_string("path"), &e->path }
    };

    if (m->name.len == sizeof("at") - 1
        && ngx_memcmp(m->name.data, "at", sizeof("at") - 1) == 0)
    {
        return pj_json_seconds(m, PJ_ROUND_DOWN, &e->at) == PJ_OK
               && e->at >= 0 && e->at < NGX_MAX_INT_T_VALUE - 300
               ? NULL : "the time is a number of seconds";
    }

    for (i = 0; i < sizeof(members) / sizeof(members[0]); i++) {

        if (m->name.len != members[i].name.len
            || ngx_memcmp(m->name.data, members[i].name.data, m->name.len)
               != 0)
        {
            continue;
        }

        value = members[i].value;

        if (m->type == PJ_JSON_NULL && value == &e->token) {
            return NULL;
        }

        if (m->type != PJ_JSON_STRING) {
            return "token, method and path are strings";
        }

        if (m->text.len) {
            value->data = (u_char *) m->text.data;
        }

        value->len = m->text.len;

        return NULL;
    }

    return "the members are token, method, path and at";
}


ngx_int_t
ngx_http_pgw_explain_token(ngx_http_pgw_explain_t *e)
{
    void            *mem;
    size_t           size;
    pj_err_t         err;
    pj_str_t         token;
    pj_jws_t         jws;
    pj_arena_t       arena;
    ngx_uint_t       kid;
    pj_jws_header_t  header;

    if (e->conf == NULL || e->redirect
        || !e->conf->enable || e->conf->access == 0)
    {
        return NGX_OK;
    }

    e->public = e->options || (e->conf->access & NGX_HTTP_PGW_PUBLIC) != 0;

    if (e->public || !ngx_http_pgw_explain_bearer(e, &token)) {
        return NGX_OK;
    }

    err = pj_jws_split(token, e->conf->token_max_size, &jws);

    ngx_http_pgw_explain_result(e, NGX_HTTP_PGW_CHECK_SIZE,
                                err == PJ_ERR_TOKEN_SIZE ? err : PJ_OK);

    if (err == PJ_ERR_TOKEN_SIZE) {
        return NGX_OK;
    }

    ngx_http_pgw_explain_result(e, NGX_HTTP_PGW_CHECK_SHAPE, err);
    if (err) {
        return NGX_OK;
    }

    /* the header is read twice */

    size = pj_token_arena_bytes(token.len)
           + pj_token_arena_bytes(jws.header.len);

    mem = ngx_palloc(e->request->pool, size);
    if (mem == NULL) {
        return NGX_ERROR;
    }

    pj_arena_init(&arena, mem, size);

    kid = ngx_http_pgw_explain_header(e, &arena, &jws, &header);

    if (ngx_http_pgw_explain_payload(e, &arena, &jws)) {
        ngx_http_pgw_explain_claims(e);
    }

    if (kid) {
        ngx_http_pgw_explain_key(e, &jws, &header);
    }

    return NGX_OK;
}


static void
ngx_http_pgw_explain_result(ngx_http_pgw_explain_t *e,
    ngx_http_pgw_check_e check, pj_err_t err)
{
    if (err == PJ_OK) {
        ngx_http_pgw_explain_pass(e, check);
        return;
    }

    ngx_http_pgw_explain_fail(e, check, ngx_http_pgw_reason_of_token(err),
                              pj_strerror(err));
}


/* The token, or the value of an Authorization header that holds it. */

static ngx_uint_t
ngx_http_pgw_explain_bearer(ngx_http_pgw_explain_t *e, pj_str_t *token)
{
    u_char  *p, *last;

    p = e->token.data;
    last = p + e->token.len;

    if (e->token.len >= sizeof("Bearer") - 1
        && ngx_strncasecmp(p, (u_char *) "Bearer", sizeof("Bearer") - 1) == 0
        && (e->token.len == sizeof("Bearer") - 1
            || p[sizeof("Bearer") - 1] == ' '))
    {
        p += sizeof("Bearer") - 1;

        while (p < last && *p == ' ') {
            p++;
        }

    } else if (p == NULL || ngx_strlchr(p, last, ' ')) {
        ngx_http_pgw_explain_fail(e,
                              NGX_HTTP_PGW_CHECK_BEARER,
                              NGX_HTTP_PGW_REASON_TOKEN_MISSING,
                              p ? "the scheme is not Bearer"
                                : "a bearer token is required");
        return 0;
    }

    if (p == last) {
        ngx_http_pgw_explain_result(e, NGX_HTTP_PGW_CHECK_BEARER,
                                    PJ_ERR_TOKEN_SHAPE);
        return 0;
    }

    ngx_http_pgw_explain_pass(e, NGX_HTTP_PGW_CHECK_BEARER);

    token->data = p;
    token->len = (size_t) (last - p);

    return 1;
}


/* Whether the header is good, and so names a key. */

static ngx_uint_t
ngx_http_pgw_explain_header(ngx_http_pgw_explain_t *e, pj_arena_t *arena,
    const pj_jws_t *jws, pj_jws_header_t *header)
{
    size_t      len, cap;
    u_char     *p;
    pj_err_t    err;
    pj_str_t    json;
    ngx_uint_t  i;

    /* each of these is looked at once those before it are good */

    static const struct {
        ngx_http_pgw_check_e  check;
        pj_err_t                           err;
    } part[] = {
        { NGX_HTTP_PGW_CHECK_ALG, PJ_ERR_TOKEN_ALG },
        { NGX_HTTP_PGW_CHECK_TYP, PJ_ERR_TOKEN_TYP },
        { NGX_HTTP_PGW_CHECK_CRIT, PJ_ERR_TOKEN_CRIT },
        { NGX_HTTP_PGW_CHECK_KID, PJ_ERR_TOKEN_KID }
    };

    err = pj_jws_header(arena, jws, header);

    if (err != PJ_OK && err != PJ_ERR_TOKEN_ALG && err != PJ_ERR_TOKEN_TYP
        && err != PJ_ERR_TOKEN_CRIT && err != PJ_ERR_TOKEN_KID)
    {
        ngx_http_pgw_explain_result(e, NGX_HTTP_PGW_CHECK_HEADER, err);
        return 0;
    }

    ngx_http_pgw_explain_pass(e, NGX_HTTP_PGW_CHECK_HEADER);

    for (i = 0; i < sizeof(part) / sizeof(part[0]); i++) {

        ngx_http_pgw_explain_result(e, part[i].check,
                                    err == part[i].err ? err : PJ_OK);
        if (err == part[i].err) {
            break;
        }
    }

    /* once more, for what it says */

    cap = pj_b64url_decoded_max(jws->header.len);

    p = pj_arena_alloc(arena, cap);

    if (p && pj_b64url_decode(p, cap, &len, jws->header) == PJ_OK) {
        json.data = p;
        json.len = len;

        if (pj_json_parse(arena, json, &e->header) != PJ_OK) {
            e->header = NULL;
        }
    }

    return err == PJ_OK;
}


/* Whether there are claims that can be looked at. */

static ngx_uint_t
ngx_http_pgw_explain_payload(ngx_http_pgw_explain_t *e, pj_arena_t *arena,
    const pj_jws_t *jws)
{
    pj_err_t  err;

    err = pj_claims_parse(arena, jws, &e->claims);

    if (err != PJ_OK && err != PJ_ERR_TOKEN_KIND && err != PJ_ERR_TOKEN_CLAIMS)
    {
        e->claims.root = NULL;
        ngx_http_pgw_explain_result(e, NGX_HTTP_PGW_CHECK_PAYLOAD, err);
        return 0;
    }

    ngx_http_pgw_explain_pass(e, NGX_HTTP_PGW_CHECK_PAYLOAD);

    if (e->claims.root->type == PJ_JSON_OBJECT) {
        ngx_http_pgw_explain_result(e, NGX_HTTP_PGW_CHECK_KIND,
                                    err == PJ_ERR_TOKEN_KIND ? err : PJ_OK);
    }

    if (err != PJ_ERR_TOKEN_KIND) {
        ngx_http_pgw_explain_result(e, NGX_HTTP_PGW_CHECK_CLAIMS, err);
    }

    return err == PJ_OK;
}


/*
 * pj tells the first of the faults: what was found is made good, and asked
 * about again.
 */

static void
ngx_http_pgw_explain_claims(ngx_http_pgw_explain_t *e)
{
    pj_err_t     err;
    ngx_uint_t   access;
    pj_policy_t  policy;

    policy.issuers = e->conf->issuers->elts;
    policy.issuer_count = e->conf->issuers->nelts;
    policy.audiences = e->conf->audiences ? e->conf->audiences->elts : NULL;
    policy.audience_count = e->conf->audiences ? e->conf->audiences->nelts : 0;
    policy.now_s = e->at;
    policy.leeway_s = e->conf->leeway;
    policy.allow_confirmation = (e->conf->allow_confirmation != 0);

    err = pj_claims_check(&e->claims, &policy);

    ngx_http_pgw_explain_result(e, NGX_HTTP_PGW_CHECK_ISSUER,
                                err == PJ_ERR_TOKEN_ISSUER ? err : PJ_OK);

    policy.issuers = &e->claims.iss;
    policy.issuer_count = 1;

    err = pj_claims_check(&e->claims, &policy);

    ngx_http_pgw_explain_result(e, NGX_HTTP_PGW_CHECK_AUDIENCE,
                                err == PJ_ERR_TOKEN_AUDIENCE ? err : PJ_OK);

    policy.audience_count = 0;

    err = pj_claims_check(&e->claims, &policy);

    ngx_http_pgw_explain_result(e, NGX_HTTP_PGW_CHECK_BOUND,
                                err == PJ_ERR_TOKEN_BOUND ? err : PJ_OK);

    policy.allow_confirmation = 1;

    err = pj_claims_check(&e->claims, &policy);

    ngx_http_pgw_explain_result(e, NGX_HTTP_PGW_CHECK_NOT_YET,
                                err == PJ_ERR_TOKEN_NOT_YET ? err : PJ_OK);

    if (err != PJ_ERR_TOKEN_NOT_YET) {
        ngx_http_pgw_explain_result(e, NGX_HTTP_PGW_CHECK_EXPIRY, err);
    }

    access = ngx_http_pgw_token_access(e->claims.kind);

    if (e->conf->access & access) {
        ngx_http_pgw_explain_pass(e, NGX_HTTP_PGW_CHECK_CONTEXT);
        return;
    }

    ngx_http_pgw_explain_fail(e, NGX_HTTP_PGW_CHECK_CONTEXT,
                              NGX_HTTP_PGW_REASON_CONTEXT_FORBIDDEN,
                              "the token is valid for another context");
}


/* The keys as they are now: no fetch is asked for. */

static void
ngx_http_pgw_explain_key(ngx_http_pgw_explain_t *e, const pj_jws_t *jws,
    const pj_jws_header_t *header)
{
    time_t                     fetched;
    const pj_key_t            *key;
    const pj_keyset_t         *set;
    ngx_http_pgw_main_conf_t  *mcf;

    mcf = ngx_http_get_module_main_conf(e->request,
                                        ngx_http_platform_gateway_module);

    fetched = ngx_http_pgw_keys_fetched_at(mcf->keys);
    set = ngx_http_pgw_keys_get(mcf->keys);
    key = set ? pj_keyset_find(set, header->kid) : NULL;

    if (key) {
        ngx_http_pgw_explain_pass(e, NGX_HTTP_PGW_CHECK_KEY);

        ngx_http_pgw_explain_result(e, NGX_HTTP_PGW_CHECK_SIGNATURE,
                                    pj_jws_verify(jws, key));
        return;
    }

    if (set == NULL || e->claims.iat >= fetched) {
        ngx_http_pgw_explain_fail(e,
                            NGX_HTTP_PGW_CHECK_KEY,
                            set
                            ? NGX_HTTP_PGW_REASON_KID_PENDING
                            : NGX_HTTP_PGW_REASON_KEYS_UNAVAILABLE,
                            set ? "the key set is older than the token, a "
                                  "request would have it fetched first"
                                : "there is no usable key set");
        return;
    }

    ngx_http_pgw_explain_result(e, NGX_HTTP_PGW_CHECK_KEY, PJ_ERR_KID_UNKNOWN);
}
