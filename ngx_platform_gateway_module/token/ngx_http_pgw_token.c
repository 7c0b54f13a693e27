
/*
 * The token of a request: finding it, verifying it with pj, and making the
 * headers for the upstream.  A policy is the settings of a location for it.
 */


#include "token/token.h"
#include "issuer/issuer.h"


/* Returns the length of the scheme if a value of Authorization has it, else 0.
   scheme is a literal. */

#define ngx_http_pgw_token_scheme(value, scheme)                              \
    ((value)->len >= sizeof(scheme) - 1                                       \
     && ngx_strncasecmp((value)->data, (u_char *) scheme, sizeof(scheme) - 1) \
        == 0                                                                  \
     && ((value)->len == sizeof(scheme) - 1                                   \
         || (value)->data[sizeof(scheme) - 1] == ' ')                         \
     ? sizeof(scheme) - 1 : 0)


ngx_http_pgw_reason_e
ngx_http_pgw_token_find(const ngx_str_t *value, ngx_uint_t *dpop,
    pj_str_t *token)
{
    size_t   len;
    u_char  *p, *last;

    len = value ? ngx_http_pgw_token_scheme(value, "Bearer") : 0;

    if (len) {
        *dpop = 0;

    } else if (*dpop && value) {
        len = ngx_http_pgw_token_scheme(value, "DPoP");
    }

    if (len == 0) {
        *dpop = 0;
        return NGX_HTTP_PGW_REASON_TOKEN_MISSING;
    }

    p = value->data + len;
    last = value->data + value->len;

    while (p < last && *p == ' ') {
        p++;
    }

    token->data = p;
    token->len = (size_t) (last - p);

    return token->len ? NGX_HTTP_PGW_REASON_NONE
                      : NGX_HTTP_PGW_REASON_TOKEN_SHAPE;
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


/* Selects the issuer by the name in the token, and reads the claims.  An
   unknown name is the first fault.  For an explanation, the claims are then
   read as claims of the issuer without a block, to find further faults. */

static pj_err_t
ngx_http_pgw_token_claims(ngx_http_pgw_keys_t *keys, pj_claims_t *claims,
    ngx_http_pgw_steps_t *steps)
{
    ngx_http_pgw_issuer_t  *issuer;

    issuer = ngx_http_pgw_issuer_find(keys->issuer, &claims->iss);

    if (issuer == NULL && claims->iss.len
        && (steps == NULL || keys->issuer->names.nelts == 0
            || pj_claims_read(claims) != PJ_OK))
    {
        return ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_POLICY,
                                       PJ_ERR_TOKEN_ISSUER);
    }

    if (issuer && issuer != keys->issuer) {
        ngx_http_pgw_keys_select(issuer, keys);
    }

    issuer = keys->issuer;

    return ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_CLAIMS,
                issuer->name.len || issuer->names.nelts == 0
                ? pj_claims_read_foreign(claims, &issuer->claims)
                : pj_claims_read(claims));
}


static pj_err_t
ngx_http_pgw_token_policy(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_issuer_t *issuer, const pj_claims_t *claims,
    ngx_http_pgw_steps_t *steps)
{
    u_char              thumbprint[PJ_SHA256_BYTES];
    const ngx_array_t  *issuers = ngx_http_pgw_issuer_accepted(issuer, conf);
    const ngx_array_t  *audiences = ngx_http_pgw_issuer_rule(issuer, conf,
                                                             audiences);

    static const pj_str_t  none = { NULL, 0 };

    const pj_policy_t  policy = {
        .issuers = issuers ? issuers->elts : &none,
        .issuer_count = issuers ? issuers->nelts : 1,
        .audiences = audiences ? audiences->elts : NULL,
        .audience_count = audiences ? audiences->nelts : 0,
        .now_s = steps ? steps->at : ngx_time(),
        .leeway_s = ngx_http_pgw_issuer_leeway(issuer, conf),
        .allow_confirmation = conf->allow_confirmation
                              || ngx_http_pgw_proof_binding(conf, claims,
                                                            thumbprint)
    };

    if (steps) {
        steps->found[NGX_HTTP_PGW_STAGE_POLICY] =
                        pj_claims_faults(claims, &policy) | PJ_FAULT(PJ_OK);
    }

    return ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_POLICY,
                                   pj_claims_check(claims, &policy));
}


/* Checks the header of the token by the rules of the issuer.  "kid" is optional
   for keys of a file only. */

static pj_err_t
ngx_http_pgw_token_header(const ngx_http_pgw_issuer_t *issuer,
    const pj_jws_t *jws, const pj_jws_header_t *header,
    ngx_http_pgw_steps_t *steps)
{
    ngx_uint_t         i;
    const ngx_array_t  *algs = issuer->algorithms;

    for (i = 0; algs && i < algs->nelts; i++) {
        if (((const pj_alg_t **) algs->elts)[i] == jws->alg) {
            break;
        }
    }

    return ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_HEADER,
                                   algs && i == algs->nelts ? PJ_ERR_TOKEN_ALG
                                   : issuer->at_jwt && !header->at_jwt
                                   ? PJ_ERR_TOKEN_TYP
                                   : header->kid.len == 0
                                     && issuer->from.location.len
                                   ? PJ_ERR_TOKEN_KID : PJ_OK);
}


static pj_err_t
ngx_http_pgw_token_signature(const ngx_http_pgw_keys_t *keys,
    const pj_jws_t *jws, const pj_jws_header_t *header,
    ngx_http_pgw_steps_t *steps)
{
    const pj_key_t  *key;

    key = keys->set ? pj_keyset_choose(keys->set, jws->alg, header->kid) : NULL;

    if (ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_KEY,
                                key ? PJ_OK : PJ_ERR_KID_UNKNOWN)
        != PJ_OK)
    {
        return PJ_ERR_KID_UNKNOWN;
    }

    return ngx_http_pgw_token_note(steps, NGX_HTTP_PGW_STAGE_SIGNATURE,
                                   pj_jws_verify(jws, key));
}


/*
 * Cheap checks come first, so that most bad tokens are refused without a key.
 * Claims are used only after the signature was verified, except for the time of
 * issue of a token with an unknown key.
 */

pj_err_t
ngx_http_pgw_token_verify(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, pj_str_t token,
    ngx_http_pgw_keys_t *keys, pj_claims_t *claims, ngx_http_pgw_steps_t *steps)
{
    void            *mem;
    pj_err_t         err, fault;
    pj_jws_t         jws;
    pj_arena_t       arena;
    pj_jws_header_t  header;

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
                                    pj_claims_decode(&arena, &jws, claims));

    if (fault == PJ_OK) {
        fault = ngx_http_pgw_token_claims(keys, claims, steps);
        err = err ? err : ngx_http_pgw_token_header(keys->issuer, &jws, &header,
                                                    steps);
    }

    if (fault == PJ_OK) {
        fault = ngx_http_pgw_token_policy(conf, keys->issuer, claims, steps);
    }

    /* the key is not searched after a bad header or without an issuer */

    if (err || (fault && (steps == NULL || keys->issuer->names.nelts == 0))) {
        return err ? err : fault;
    }

    err = ngx_http_pgw_token_signature(keys, &jws, &header, steps);

    return fault ? fault : err;
}


/*
 * A token with an unknown key is invalid if it was issued before the key set
 * was fetched.  The key of a later token may be missing in our set.  But
 * anybody can make such a token, so it has a reason of its own (kid_pending).
 */

ngx_http_pgw_reason_e
ngx_http_pgw_token_no_key(const ngx_http_pgw_keys_t *keys, int64_t iat)
{
    if (keys->set == NULL) {
        return NGX_HTTP_PGW_REASON_KEYS_UNAVAILABLE;
    }

    return iat >= keys->issuer->zone->fetched_at
           ? NGX_HTTP_PGW_REASON_KID_PENDING : NGX_HTTP_PGW_REASON_KID_UNKNOWN;
}


ngx_uint_t
ngx_http_pgw_token_access(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_issuer_t *issuer, const pj_claims_t *claims)
{
    ngx_uint_t                   i, access;
    const ngx_http_pgw_opens_t  *opens;

    static const ngx_uint_t  levels[] = {
        [PJ_TOKEN_ACCOUNT] = NGX_HTTP_PGW_ACCOUNT|NGX_HTTP_PGW_TOKEN,
        [PJ_TOKEN_BRANCH] = NGX_HTTP_PGW_BRANCH|NGX_HTTP_PGW_TOKEN,
        [PJ_TOKEN_SYSTEM] = NGX_HTTP_PGW_SYSTEM|NGX_HTTP_PGW_TOKEN,
        [PJ_TOKEN_REFRESH] = 0,
        [PJ_TOKEN_FOREIGN] = NGX_HTTP_PGW_TOKEN
    };

    access = levels[claims->kind];

    /* other issuers open our levels only by "platform_gateway_trusted" */

    for (i = 0; conf->trusted && issuer->opens
                && i < issuer->opens->nelts; i++)
    {

        opens = (const ngx_http_pgw_opens_t *) issuer->opens->elts + i;

        if (ngx_http_pgw_claim_holds(&opens->rule, claims->root)) {
            access |= opens->access;
        }
    }

    return access;
}


/* Percent-encodes '%', bytes other than visible ASCII, and the separator, which
   is 0 if not used. */

static u_char *
ngx_http_pgw_token_escape(u_char *dst, pj_str_t text, u_char separator)
{
    u_char  c;
    size_t  i;

    for (i = 0; i < text.len; i++) {

        c = text.data[i];

        if (c > 0x20 && c < 0x7f && c != '%' && c != separator) {
            *dst++ = c;

        } else {
            dst = ngx_sprintf(dst, "%%%02Xd", c);
        }
    }

    return dst;
}


/*
 * Makes the value of a header from a claim.  Returns NGX_DECLINED if the claim
 * is absent, null, an object, or an array with elements other than strings.
 */

static ngx_int_t
ngx_http_pgw_token_value(ngx_pool_t *pool, const pj_json_t *claim,
    ngx_str_t *value)
{
    size_t            len;
    u_char           *p;
    ngx_uint_t        array;
    const pj_json_t  *item, *first;

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

    array = (claim->type == PJ_JSON_ARRAY);
    first = array ? claim->child : claim;
    len = 1;

    for (item = first; item; item = array ? item->next : NULL) {

        if (array && item->type != PJ_JSON_STRING) {
            return NGX_DECLINED;
        }

        len += 3 * item->text.len + 1;
    }

    p = ngx_pnalloc(pool, len);
    if (p == NULL) {
        return NGX_ERROR;
    }

    value->data = p;

    for (item = first; item; item = array ? item->next : NULL) {

        if (item != first) {
            *p++ = ',';
        }

        p = ngx_http_pgw_token_escape(p, item->text, array ? ',' : 0);
    }

    /* a zero byte follows, as in values of headers that nginx has read */

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


/* Makes the text of an id.  An id of another issuer is "ISSUER/ID", and "/" in
   an id is escaped, so that the ids of different issuers are never equal.
   Other bytes are escaped because a variable may become a header or a part of a
   URL. */

static ngx_int_t
ngx_http_pgw_token_id(ngx_pool_t *pool, const ngx_str_t *issuer, pj_str_t id,
    ngx_str_t *s)
{
    u_char  *p;

    if (id.len == 0) {
        return NGX_DECLINED;
    }

    s->data = ngx_pnalloc(pool, issuer->len + 3 * id.len + sizeof("/"));
    if (s->data == NULL) {
        return NGX_ERROR;
    }

    p = ngx_sprintf(s->data, "%V%s", issuer, issuer->len ? "/" : "");
    p = ngx_http_pgw_token_escape(p, id, '/');
    *p = '\0';
    s->len = (size_t) (p - s->data);

    return NGX_OK;
}


/* Returns the claim of a header, or NULL. */

static const pj_json_t *
ngx_http_pgw_token_claim(const pj_claims_t *claims,
    const ngx_http_pgw_claim_header_t *ch)
{
    return ch->builtin && claims->kind == PJ_TOKEN_FOREIGN
           ? NULL : ngx_http_pgw_claim_find(claims->root, &ch->claim);
}


/* Makes the value of a header from its claim, or signs the assertion. */

static ngx_int_t
ngx_http_pgw_token_header_value(ngx_pool_t *pool,
    const ngx_http_pgw_loc_conf_t *conf, const pj_claims_t *claims,
    const ngx_http_pgw_claim_header_t *ch, ngx_http_pgw_grant_t *grant,
    ngx_str_t *value)
{
    return ch->claim.depth
           ? ngx_http_pgw_token_value(pool,
                                      ngx_http_pgw_token_claim(claims, ch),
                                      value)
           : ngx_http_pgw_assertion_sign(pool, conf, claims, grant, value);
}


ngx_int_t
ngx_http_pgw_token_grant(ngx_pool_t *pool, const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_issuer_t *issuer, const pj_claims_t *claims,
    ngx_http_pgw_grant_t *grant)
{
    ngx_int_t                           rc;
    ngx_str_t                          *s;
    ngx_uint_t                          i, texts, headers;
    const ngx_http_pgw_claim_header_t  *ch;

    const pj_str_t  ids[NGX_HTTP_PGW_GRANT_IDS] = {
        claims->account_id, claims->session_id, claims->workspace_id
    };

    grant->exp = claims->exp;
    grant->bound = ngx_http_pgw_proof_binding(conf, claims, grant->thumbprint);
    grant->access = ngx_http_pgw_token_access(conf, issuer, claims);
    grant->missing = ngx_http_pgw_claim_missing(conf->required, claims->root);
    grant->auth_time = ngx_http_pgw_authentication_time(conf->authentication,
                                                        issuer, claims->root);
    texts = NGX_HTTP_PGW_GRANT_IDS + conf->claims_read->nelts;
    headers = texts + ngx_http_pgw_require_texts(conf->required);
    grant->nstrings = headers + conf->claim_headers->nelts;
    grant->size = grant->nstrings * sizeof(ngx_str_t);

    s = ngx_pcalloc(pool, grant->size);
    if (s == NULL) {
        return NGX_ERROR;
    }

    grant->strings = s;
    grant->subject = (ngx_http_pgw_subject_t *) s;
    ch = conf->claim_headers->elts;

    for (i = 0; i < grant->nstrings; i++, s++) {

        rc = i < NGX_HTTP_PGW_GRANT_IDS
             ? ngx_http_pgw_token_id(pool, &issuer->name, ids[i], s)
             : i >= texts && i < headers
             ? ngx_http_pgw_require_text(pool, conf->required, i - texts,
                                         claims->root, s)
             : i < texts
             ? ngx_http_pgw_token_value(pool,
                   ngx_http_pgw_claim_named(claims->root, conf->claims_read,
                                            i - NGX_HTTP_PGW_GRANT_IDS), s)
             : ngx_http_pgw_token_header_value(pool, conf, claims,
                                               &ch[i - headers], grant, s);
        if (rc == NGX_ERROR) {
            return NGX_ERROR;
        }

        grant->size += s->len + 1;
    }

    return NGX_OK;
}


/*
 * Locations with equal settings share a policy number, and so the cached
 * results of tokens.  Lists are compared by address, which is equal if they are
 * inherited from the same place.  claim_headers stands for the assertion, too.
 */

char *
ngx_http_pgw_token_intern(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    ngx_http_pgw_loc_conf_t   *other;
    ngx_http_pgw_main_conf_t  *mcf = ngx_http_pgw_conf_main(cf);

    conf->claims_read = &mcf->claims_read;

    if (conf->access == 0
        || (conf->access & NGX_HTTP_PGW_PUBLIC)
        || ngx_http_pgw_issuer_opens(mcf->issuers, conf) == 0)
    {
        return NGX_CONF_OK;
    }

    conf->proof = (conf->proof_origins != NULL);

    for (other = mcf->policies; other; other = other->policy_next) {

        if (other->leeway == conf->leeway
            && other->token_max_size == conf->token_max_size
            && other->allow_confirmation == conf->allow_confirmation
            && other->proof == conf->proof
            && other->certificate == conf->certificate
            && other->claim_headers == conf->claim_headers
            && other->required == conf->required
            && other->authentication == conf->authentication
            && other->issuers == conf->issuers
            && other->audiences == conf->audiences
            && other->trusted == conf->trusted)
        {
            conf->policy = other->policy;
            return NGX_CONF_OK;
        }
    }

    conf->policy = mcf->policies ? mcf->policies->policy + 1 : 1;
    conf->policy_next = mcf->policies;
    mcf->policies = conf;

    return NGX_CONF_OK;
}
