
/*
 * The bearer token of a request: finding it, verifying it (by pj), and choosing
 * what of it goes upstream; and policies, the settings of a location for that.
 */


#include "ngx_http_pgw_token.h"
#include "ngx_http_pgw_keys.h"


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

    token->data = p;
    token->len = (size_t) (last - p);

    return token->len ? NGX_OK : NGX_ERROR;
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


/* The issuer that the token names judges it; that without a block has names and
   audiences of each location's own. */

static pj_err_t
ngx_http_pgw_token_policy(const ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_judge_t *by, const pj_claims_t *claims,
    ngx_http_pgw_steps_t *steps)
{
    pj_policy_t             policy;
    const ngx_array_t      *issuers, *audiences;
    ngx_http_pgw_issuer_t  *issuer;

    issuer = ngx_http_pgw_issuer_of(by->issuer, &claims->iss);

    if (issuer != by->issuer) {
        ngx_http_pgw_keys_judge(issuer, by);
    }

    issuers = issuer->issuers ? issuer->issuers : conf->issuers;
    audiences = issuer->issuers ? issuer->audiences : conf->audiences;

    policy.issuers = issuers->elts;
    policy.issuer_count = issuers->nelts;
    policy.audiences = audiences ? audiences->elts : NULL;
    policy.audience_count = audiences ? audiences->nelts : 0;
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


const pj_alg_t **
ngx_http_pgw_token_algorithms(void)
{
    static const pj_alg_t  *algorithms[2];

    algorithms[0] = pj_alg_find((pj_str_t) PJ_STR("RS256"));

    return algorithms;
}


/* Whether the issuer has tokens of that algorithm at all. */

static pj_err_t
ngx_http_pgw_token_algorithm(const ngx_http_pgw_issuer_t *issuer,
    const pj_alg_t *named, ngx_http_pgw_steps_t *steps)
{
    const pj_alg_t  **alg = issuer->algorithms;

    while (*alg && *alg != named) {
        alg++;
    }

    return ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_HEADER,
                                   *alg ? PJ_OK : PJ_ERR_TOKEN_ALG);
}


/*
 * Cheap checks come first: a token is refused without a key and without RSA
 * where that is possible.  No claim is used before the signature has been
 * verified, except the time of issue of a token whose key is unknown.
 */

pj_err_t
ngx_http_pgw_token_verify(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, pj_str_t token,
    ngx_http_pgw_judge_t *by, pj_claims_t *claims, ngx_http_pgw_steps_t *steps)
{
    void            *mem;
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

    mem = ngx_palloc(pool, pj_token_arena_bytes(token.len));
    if (mem == NULL) {
        return PJ_ERR_NO_SPACE;
    }

    pj_arena_init(&arena, mem, pj_token_arena_bytes(token.len));
    err = ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_HEADER,
                                  pj_jws_header(&arena, &jws, false, &header));

    if (steps) {
        steps->header = header.root;

    } else if (err) {
        return err;
    }

    fault = ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_PAYLOAD,
                                    pj_claims_parse(&arena, &jws, claims));

    if (fault == PJ_OK) {
        fault = ngx_http_pgw_token_policy(conf, by, claims, steps);
        err = err ? err : ngx_http_pgw_token_algorithm(by->issuer, jws.alg,
                                                       steps);
    }

    /* a bad header names no key to look for */

    if (err || (fault && steps == NULL)) {
        return err ? err : fault;
    }

    key = by->set ? pj_keyset_find(by->set, header.kid) : NULL;

    err = ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_KEY,
                                  key ? PJ_OK : PJ_ERR_KID_UNKNOWN);

    if (key) {
        err = ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_SIGNATURE,
                                      pj_jws_verify(&jws, key));
    }

    return fault ? fault : err;
}


/*
 * A token issued before our key set was fetched is invalid: its key would be in
 * the set.  The key of a newer one may be one that we do not have yet; but
 * anybody can make such a token, so this case is counted apart (kid_pending).
 */

ngx_http_pgw_reason_e
ngx_http_pgw_token_no_key(const ngx_http_pgw_judge_t *by, int64_t iat)
{
    if (by->set == NULL) {
        return NGX_HTTP_PGW_REASON_KEYS_UNAVAILABLE;
    }

    return iat >= by->issuer->zone->fetched_at
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


/*
 * Percent-encodes '%', what is not visible ASCII and, within an element of an
 * array, ','.
 */

static u_char *
ngx_http_pgw_token_escape(u_char *dst, pj_str_t text, ngx_uint_t element)
{
    u_char  c;
    size_t  i;

    for (i = 0; i < text.len; i++) {

        c = text.data[i];

        if (c > 0x20 && c < 0x7f && c != '%' && !(element && c == ',')) {
            *dst++ = c;

        } else {
            dst = ngx_sprintf(dst, "%%%02Xd", c);
        }
    }

    return dst;
}


/*
 * The header value of a claim.  NGX_DECLINED: no such claim, or one that is no
 * text (null, an object, an array of anything but strings).
 */

static ngx_int_t
ngx_http_pgw_token_value(ngx_pool_t *pool, const pj_json_t *claim,
    ngx_str_t *value)
{
    size_t            len;
    u_char           *p;
    const pj_json_t  *item;

    static const ngx_str_t  no = ngx_string("false"), yes = ngx_string("true");

    if (claim == NULL
        || claim->type == PJ_JSON_NULL || claim->type == PJ_JSON_OBJECT)
    {
        return NGX_DECLINED;
    }

    if (claim->type == PJ_JSON_BOOL) {
        *value = claim->boolean ? yes : no;
        return NGX_OK;
    }

    /* ends in a NUL, as the header values do that nginx itself has read */

    len = 3 * claim->text.len + 1;

    for (item = claim->child; item; item = item->next) {

        if (item->type != PJ_JSON_STRING) {
            return NGX_DECLINED;
        }

        len += 3 * item->text.len + 1;
    }

    p = ngx_pnalloc(pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    value->data = p;

    if (claim->type != PJ_JSON_ARRAY) {
        p = ngx_http_pgw_token_escape(p, claim->text, 0);
    }

    for (item = claim->child; item; item = item->next) {
        p = ngx_http_pgw_token_escape(p, item->text, 1);

        if (item->next) {
            *p++ = ',';
        }
    }

    *p = '\0';
    value->len = (size_t) (p - value->data);

    return NGX_OK;
}


ngx_int_t
ngx_http_pgw_token_grant_copy(ngx_http_pgw_grant_t *to,
    const ngx_http_pgw_grant_t *from, void *mem)
{
    u_char      *p;
    ngx_str_t   *s;
    ngx_uint_t   i;

    if (mem == NULL) {
        return NGX_ERROR;
    }

    s = mem;
    p = (u_char *) &s[from->nstrings];

    for (i = 0; i < from->nstrings; i++) {
        s[i] = from->strings[i];

        if (s[i].data) {
            s[i].data = p;
            p = ngx_cpymem(p, from->strings[i].data, s[i].len);
            *p++ = '\0';
        }
    }

    *to = *from;

    to->strings = s;
    to->subject = (ngx_http_pgw_subject_t *) s;

    return NGX_OK;
}


ngx_int_t
ngx_http_pgw_token_grant(ngx_pool_t *pool, const ngx_http_pgw_loc_conf_t *conf,
    const pj_claims_t *claims, ngx_http_pgw_grant_t *grant)
{
    ngx_str_t                          *s;
    ngx_uint_t                          i;
    const pj_json_t                    *claim;
    const ngx_http_pgw_claim_header_t  *ch;

    const pj_str_t  ids[NGX_HTTP_PGW_GRANT_IDS] = {
        claims->account_id, claims->session_id, claims->workspace_id
    };

    grant->access = ngx_http_pgw_token_access(claims->kind);
    grant->nstrings = NGX_HTTP_PGW_GRANT_IDS + conf->claim_headers->nelts;
    grant->size = grant->nstrings * sizeof(ngx_str_t);

    s = ngx_pcalloc(pool, grant->size);
    if (s == NULL) {
        return NGX_ERROR;
    }

    grant->strings = s;
    ch = conf->claim_headers->elts;

    for (i = 0; i < grant->nstrings; i++, s++) {

        if (i >= NGX_HTTP_PGW_GRANT_IDS) {

            claim = pj_json_member(claims->root,
                                   (const char *) ch->claim.data);
            ch++;

            if (ngx_http_pgw_token_value(pool, claim, s) == NGX_ERROR) {
                return NGX_ERROR;
            }

        } else if (ids[i].len) {
            s->len = ids[i].len;
            s->data = (u_char *) ids[i].data;
        }

        grant->size += s->len + 1;
    }

    return NGX_OK;
}


static ngx_uint_t
ngx_http_pgw_policy_same(const ngx_array_t *a, const ngx_array_t *b)
{
    ngx_uint_t       i;
    const pj_str_t  *x, *y;

    if (a == b || a == NULL || b == NULL || a->nelts != b->nelts) {
        return a == b;
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


/*
 * Locations with equal settings share a policy number, so that a result cached
 * for a token in one of them holds in the others.  Claim maps are compared by
 * address: they are the same if they are inherited from the same place.
 */

char *
ngx_http_pgw_token_intern(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    ngx_http_pgw_loc_conf_t   *one;
    ngx_http_pgw_main_conf_t  *mcf;

    if (conf->access == 0
        || (conf->access & NGX_HTTP_PGW_PUBLIC)
        || conf->issuers == NULL)
    {
        return NGX_CONF_OK;
    }

    mcf = ngx_http_pgw_conf_main(cf);

    for (one = mcf->policies; one; one = one->policy_next) {

        if (one->leeway == conf->leeway
            && one->token_max_size == conf->token_max_size
            && one->allow_confirmation == conf->allow_confirmation
            && one->claim_headers == conf->claim_headers
            && ngx_http_pgw_policy_same(one->issuers, conf->issuers)
            && ngx_http_pgw_policy_same(one->audiences, conf->audiences))
        {
            conf->policy = one->policy;
            return NGX_CONF_OK;
        }
    }

    conf->policy = mcf->policies ? mcf->policies->policy + 1 : 1;
    conf->policy_next = mcf->policies;
    mcf->policies = conf;

    return NGX_CONF_OK;
}
