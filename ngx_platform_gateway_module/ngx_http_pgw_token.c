
/*
 * The bearer token of a request: finding it, and asking pj whether it holds;
 * and policies: what makes a token good, and what of it goes upstream.
 */


#include "ngx_http_pgw.h"


/*
 * Verifying takes some 30 to 60 times the token's size, for an instant: kept
 * by the worker, since a long response would hold the request's own memory.
 */

static void    *ngx_http_pgw_token_memory;
static size_t   ngx_http_pgw_token_memory_size;


ngx_int_t
ngx_http_pgw_token_find(const ngx_str_t *value, pj_str_t *token)
{
    u_char  *p, *last;

    if (value == NULL
        || value->len < sizeof("Bearer") - 1
        || ngx_strncasecmp(value->data, (u_char *) "Bearer",
                           sizeof("Bearer") - 1)
           != 0)
    {
        return NGX_DECLINED;
    }

    p = value->data + sizeof("Bearer") - 1;
    last = value->data + value->len;

    if (p < last && *p != ' ') {
        return NGX_DECLINED;
    }

    while (p < last && *p == ' ') {
        p++;
    }

    if (p == last) {
        return NGX_ERROR;
    }

    token->data = p;
    token->len = (size_t) (last - p);

    return NGX_OK;
}


void
ngx_http_pgw_token_exit_process(void)
{
    if (ngx_http_pgw_token_memory) {
        ngx_free(ngx_http_pgw_token_memory);
    }

    ngx_http_pgw_token_memory = NULL;
    ngx_http_pgw_token_memory_size = 0;
}


static void *
ngx_http_pgw_token_scratch(size_t size, ngx_log_t *log)
{
    if (size <= ngx_http_pgw_token_memory_size) {
        return ngx_http_pgw_token_memory;
    }

    ngx_http_pgw_token_exit_process();

    ngx_http_pgw_token_memory = ngx_alloc(size, log);

    if (ngx_http_pgw_token_memory) {
        ngx_http_pgw_token_memory_size = size;
    }

    return ngx_http_pgw_token_memory;
}


static pj_err_t
ngx_http_pgw_token_note(ngx_http_pgw_steps_t *steps,
    ngx_http_pgw_stage_e stage, pj_err_t err)
{
    if (steps) {
        steps->found[stage] |= PJ_FAULT(err);
    }

    return err;
}


static pj_err_t
ngx_http_pgw_token_policy(const ngx_http_pgw_loc_conf_t *conf,
    const pj_claims_t *claims, ngx_http_pgw_steps_t *steps)
{
    pj_policy_t  policy;

    policy.issuers = conf->issuers->elts;
    policy.issuer_count = conf->issuers->nelts;
    policy.audiences = conf->audiences ? conf->audiences->elts : NULL;
    policy.audience_count = conf->audiences ? conf->audiences->nelts : 0;
    policy.now_s = steps ? steps->at : ngx_time();
    policy.leeway_s = conf->leeway;
    policy.allow_confirmation = (conf->allow_confirmation != 0);

    if (steps) {
        steps->found[NGX_HTTP_PGW_STAGE_POLICY] =
                                           pj_claims_faults(claims, &policy);
    }

    return ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_POLICY,
                                   pj_claims_check(claims, &policy));
}


/*
 * Cheap checks first: whatever can be refused without a key and without RSA
 * is.  Nothing of the claims is used before the signature has verified, but
 * for the time of issue of a token whose key is unknown.
 */

pj_err_t
ngx_http_pgw_token_verify(ngx_http_request_t *r,
    const ngx_http_pgw_loc_conf_t *conf, pj_str_t token,
    const pj_keyset_t *set, pj_claims_t *claims, ngx_http_pgw_steps_t *steps)
{
    void            *mem;
    size_t           size;
    pj_err_t         err, fault;
    pj_jws_t         jws;
    pj_arena_t       arena;
    pj_jws_header_t  header;
    const pj_key_t  *key;

    err = ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_SPLIT,
                              pj_jws_split(token, conf->token_max_size, &jws));
    if (err) {
        return err;
    }

    size = pj_token_arena_bytes(token.len);

    mem = ngx_http_pgw_token_scratch(size, r->connection->log);
    if (mem == NULL) {
        return PJ_ERR_NO_SPACE;
    }

    pj_arena_init(&arena, mem, size);

    err = ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_HEADER,
                                  pj_jws_header(&arena, &jws, &header));

    if (steps) {
        steps->header = header.root;

    } else if (err) {
        return err;
    }

    fault = ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_PAYLOAD,
                                    pj_claims_parse(&arena, &jws, claims));

    if (fault == PJ_OK) {
        fault = ngx_http_pgw_token_policy(conf, claims, steps);
    }

    /* a header at fault names no key */

    if (err || (fault && steps == NULL)) {
        return err ? err : fault;
    }

    key = set ? pj_keyset_find(set, header.kid) : NULL;

    err = ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_KEY,
                                  key ? PJ_OK : PJ_ERR_KID_UNKNOWN);

    if (key) {
        err = ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_SIGNATURE,
                                      pj_jws_verify(&jws, key));
    }

    return fault ? fault : err;
}


/*
 * Only a token that is older than what we know is called invalid: anybody can
 * make one that is not, and so that has a reason of its own.
 */

ngx_http_pgw_reason_e
ngx_http_pgw_token_no_key(const ngx_http_pgw_keys_t *keys,
    const pj_keyset_t *set, const pj_claims_t *claims)
{
    if (set == NULL) {
        return NGX_HTTP_PGW_REASON_KEYS_UNAVAILABLE;
    }

    return claims->iat >= ngx_http_pgw_keys_fetched_at(keys)
           ? NGX_HTTP_PGW_REASON_KID_PENDING : NGX_HTTP_PGW_REASON_KID_UNKNOWN;
}


ngx_uint_t
ngx_http_pgw_token_access(pj_token_kind_t kind)
{
    static const ngx_uint_t  levels[] = {
        [PJ_TOKEN_ACCOUNT] = NGX_HTTP_PGW_ACCOUNT,
        [PJ_TOKEN_BRANCH] = NGX_HTTP_PGW_BRANCH,
        [PJ_TOKEN_SYSTEM] = NGX_HTTP_PGW_SYSTEM,
        [PJ_TOKEN_REFRESH] = 0
    };

    return levels[kind];
}


/* Each part of a policy's text begins with its length, so none reads as two. */

static ngx_int_t
ngx_http_pgw_policy_add(ngx_array_t *text, const void *data, size_t len)
{
    u_char  *p;

    p = ngx_array_push_n(text, sizeof(len) + len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    ngx_memcpy(ngx_cpymem(p, &len, sizeof(len)), data, len);

    return NGX_OK;
}


/*
 * All of a policy, as bytes: locations of equal ones share a number, so that
 * what was found out about a token in one of them holds in the others.
 */

static ngx_array_t *
ngx_http_pgw_policy_text(ngx_conf_t *cf, const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_int_t                           rc;
    ngx_uint_t                          i, j, n;
    ngx_array_t                        *text;
    const pj_str_t                     *s;
    const ngx_http_pgw_claim_header_t  *ch;

    const intmax_t  numbers[] = {
        conf->leeway, (intmax_t) conf->token_max_size,
        conf->allow_confirmation
    };

    const ngx_array_t *const  lists[] = { conf->issuers, conf->audiences };

    text = ngx_array_create(cf->pool, 512, 1);
    if (text == NULL) {
        return NULL;
    }

    rc = ngx_http_pgw_policy_add(text, numbers, sizeof(numbers));

    for (i = 0; i < sizeof(lists) / sizeof(lists[0]); i++) {

        n = lists[i] ? lists[i]->nelts : 0;
        rc |= ngx_http_pgw_policy_add(text, &n, sizeof(n));

        for (j = 0; j < n; j++) {
            s = (const pj_str_t *) lists[i]->elts + j;
            rc |= ngx_http_pgw_policy_add(text, s->data, s->len);
        }
    }

    ch = conf->claim_headers->elts;

    for (i = 0; i < conf->claim_headers->nelts; i++) {
        rc |= ngx_http_pgw_policy_add(text, ch[i].claim.data, ch[i].claim.len);
        rc |= ngx_http_pgw_policy_add(text, ch[i].name.data, ch[i].name.len);
    }

    return (rc == NGX_OK) ? text : NULL;
}


char *
ngx_http_pgw_policy_intern(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    ngx_array_t               *text;
    ngx_http_pgw_loc_conf_t   *same;
    ngx_http_pgw_main_conf_t  *mcf;

    conf->policy = 0;

    if (conf->access == 0
        || (conf->access & NGX_HTTP_PGW_PUBLIC)
        || conf->issuers == NULL)
    {
        return NGX_CONF_OK;
    }

    text = ngx_http_pgw_policy_text(cf, conf);
    if (text == NULL) {
        return NGX_CONF_ERROR;
    }

    mcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_platform_gateway_module);

    for (same = mcf->policies; same; same = same->policy_next) {

        if (same->policy_text->nelts == text->nelts
            && ngx_memcmp(same->policy_text->elts, text->elts, text->nelts)
               == 0)
        {
            conf->policy = same->policy;
            return NGX_CONF_OK;
        }
    }

    conf->policy = mcf->policies ? mcf->policies->policy + 1 : 1;
    conf->policy_text = text;
    conf->policy_next = mcf->policies;
    mcf->policies = conf;

    return NGX_CONF_OK;
}


ngx_int_t
ngx_http_pgw_policy_issuers(const ngx_http_pgw_main_conf_t *mcf,
    ngx_array_t *issuers)
{
    ngx_int_t                       rc;
    ngx_str_t                      *s, issuer;
    ngx_uint_t                      i, n;
    const pj_str_t                 *name;
    const ngx_http_pgw_loc_conf_t  *conf;

    for (conf = mcf->policies; conf; conf = conf->policy_next) {

        name = conf->issuers->elts;

        for (i = 0; i < conf->issuers->nelts; i++) {

            issuer.data = (u_char *) name[i].data;
            issuer.len = name[i].len;

            s = issuers->elts;
            rc = 1;

            for (n = issuers->nelts; n; n--) {
                rc = ngx_memn2cmp(issuer.data, s[n - 1].data, issuer.len,
                                  s[n - 1].len);
                if (rc >= 0) {
                    break;
                }
            }

            if (n && rc == 0) {
                continue;
            }

            if (ngx_array_push(issuers) == NULL) {
                return NGX_ERROR;
            }

            s = (ngx_str_t *) issuers->elts + n;

            ngx_memmove(s + 1, s,
                        (issuers->nelts - 1 - n) * sizeof(ngx_str_t));
            *s = issuer;
        }
    }

    return NGX_OK;
}
