
/*
 * Explanations: the decision on a described request, in JSON.  For a failed
 * check it shows the member of the token that failed, never the signature or
 * the subject.
 */


#include "request/request.h"
#include "token/token.h"
#include "revoked/revoked.h"
#include "issuer/issuer.h"
#include "base/base.h"
#include "nginx/nginx.h"


/* The checks in their order; the first failure decides.  A check of a stage of
   verification covers one error, or with PJ_OK all errors of the stage that no
   other check covers. */

static const struct {
    const char  *name;
    ngx_uint_t   stage;      /* NGX_HTTP_PGW_STAGES outside verification */
    pj_err_t     err;
    const char  *found;      /* name of the member to show, or NULL */
} ngx_http_pgw_explain_checks[] = {
    { "path", NGX_HTTP_PGW_STAGES, PJ_OK, NULL },
    { "cors", NGX_HTTP_PGW_STAGES, PJ_OK, NULL },
    { "location", NGX_HTTP_PGW_STAGES, PJ_OK, NULL },
    { "method", NGX_HTTP_PGW_STAGES, PJ_OK, NULL },
    { "bearer", NGX_HTTP_PGW_STAGES, PJ_OK, NULL },
    { "size", NGX_HTTP_PGW_STAGE_SPLIT, PJ_ERR_TOKEN_SIZE, NULL },
    { "shape", NGX_HTTP_PGW_STAGE_SPLIT, PJ_OK, NULL },
    { "header", NGX_HTTP_PGW_STAGE_HEADER, PJ_OK, NULL },
    { "alg", NGX_HTTP_PGW_STAGE_HEADER, PJ_ERR_TOKEN_ALG, "alg" },
    { "typ", NGX_HTTP_PGW_STAGE_HEADER, PJ_ERR_TOKEN_TYP, "typ" },
    { "crit", NGX_HTTP_PGW_STAGE_HEADER, PJ_ERR_TOKEN_CRIT, NULL },
    { "kid", NGX_HTTP_PGW_STAGE_HEADER, PJ_ERR_TOKEN_KID, "kid" },
    { "payload", NGX_HTTP_PGW_STAGE_PAYLOAD, PJ_OK, NULL },
    { "kind", NGX_HTTP_PGW_STAGE_CLAIMS, PJ_ERR_TOKEN_KIND, NULL },
    { "claims", NGX_HTTP_PGW_STAGE_CLAIMS, PJ_ERR_TOKEN_CLAIMS, NULL },
    { "issuer", NGX_HTTP_PGW_STAGE_POLICY, PJ_ERR_TOKEN_ISSUER, "iss" },
    { "audience", NGX_HTTP_PGW_STAGE_POLICY, PJ_ERR_TOKEN_AUDIENCE, NULL },
    { "bound", NGX_HTTP_PGW_STAGE_POLICY, PJ_ERR_TOKEN_BOUND, NULL },
    { "notBefore", NGX_HTTP_PGW_STAGE_POLICY, PJ_ERR_TOKEN_NOT_YET, NULL },
    { "expiry", NGX_HTTP_PGW_STAGE_POLICY, PJ_ERR_TOKEN_EXPIRED, NULL },
    { "key", NGX_HTTP_PGW_STAGE_KEY, PJ_OK, "kid" },
    { "signature", NGX_HTTP_PGW_STAGE_SIGNATURE, PJ_OK, NULL },
    { "session", NGX_HTTP_PGW_STAGES, PJ_OK, NULL },
    { "proof", NGX_HTTP_PGW_STAGES, PJ_OK, NULL },
    { "context", NGX_HTTP_PGW_STAGES, PJ_OK, NULL },
    { "require", NGX_HTTP_PGW_STAGES, PJ_OK, NULL },
    { "authentication", NGX_HTTP_PGW_STAGES, PJ_OK, NULL }
};

#define NGX_HTTP_PGW_CHECKS                                                   \
    (sizeof(ngx_http_pgw_explain_checks)                                      \
     / sizeof(ngx_http_pgw_explain_checks[0]))


typedef struct {
    ngx_http_request_t             *request;   /* for the explanation */
    ngx_http_pgw_keys_t             by;        /* issuer of the token */
    ngx_http_pgw_question_t        *asked;
    ngx_uint_t                      method;    /* its bit */

    ngx_http_core_loc_conf_t       *clcf;      /* location, or NULL */
    const ngx_http_pgw_loc_conf_t  *conf;      /* its settings, or NULL */
    ngx_uint_t                      redirect;  /* to the path and "/" */
    pj_str_t                        token;
    ngx_uint_t                      scheme;    /* 1: a scheme is given */
    ngx_uint_t                      dpop;      /* it is DPoP */
    const pj_json_t                *header;    /* unverified */
    pj_claims_t                     claims;    /* unverified */
    ngx_http_pgw_grant_t            grant;     /* if the claims are good */
    uint64_t                        missing;   /* bits of failed rules */
    ngx_uint_t                      admits;    /* reason if no check fails */
    ngx_uint_t                      refuses;   /* reason of the first failure */

    struct {
        ngx_uint_t                  made;      /* set if the check ran */
        ngx_uint_t                  reason;    /* 0 if it passed */
        const char                 *detail;
    } check[NGX_HTTP_PGW_CHECKS];
} ngx_http_pgw_explain_t;


/* Records a check; the calls come in order.  reason is 0 if it passed.  If
   detail is NULL, the reason has it. */

static void
ngx_http_pgw_explain_note(ngx_http_pgw_explain_t *e, const char *check,
    ngx_uint_t reason, const char *detail)
{
    ngx_uint_t  i;

    for (i = 0; ngx_strcmp(ngx_http_pgw_explain_checks[i].name, check); i++) {
        /* void */
    }

    e->check[i].made = 1;
    e->check[i].reason = reason;
    e->check[i].detail = detail ? detail : ngx_http_pgw_reasons[reason].detail;
    e->refuses = e->refuses ? e->refuses : reason;
}


static void
ngx_http_pgw_explain_location_checks(ngx_http_pgw_explain_t *e)
{
    const char  *detail;

    detail = e->clcf->internal ? "the location is internal"
             : e->conf->enable && e->conf->access == 0
             ? "the location states no platform_gateway_access"
             : e->conf->route_not_found
               && (e->conf->access & NGX_HTTP_PGW_PUBLIC)
             ? "no other location serves the path" : NULL;

    ngx_http_pgw_explain_note(e, "location", detail
                              ? NGX_HTTP_PGW_REASON_ROUTE_NOT_FOUND : 0,
                              detail);

    e->admits = !e->conf->enable || e->redirect ? 0
                : (e->conf->access & NGX_HTTP_PGW_PUBLIC)
                ? NGX_HTTP_PGW_REASON_PUBLIC : NGX_HTTP_PGW_REASON_VERIFIED;

    if (e->admits == 0 || detail) {
        return;
    }

    ngx_http_pgw_explain_note(e, "method",
                              ngx_http_pgw_access_accepts(e->conf, e->method)
                              ? 0 : NGX_HTTP_PGW_REASON_METHOD_FORBIDDEN,
                              "the location does not accept the method");
}


/* nginx itself answers an internal path, and a path that it redirects. */

static void
ngx_http_pgw_explain_route_checks(ngx_http_pgw_explain_t *e)
{
    const char             *detail;
    ngx_http_pgw_reason_e   reason;

    if (!e->conf->enable || e->clcf->internal || e->redirect) {
        ngx_http_pgw_explain_location_checks(e);
        return;
    }

    if (e->conf->strict_path && !ngx_http_pgw_path_plain(&e->asked->path)) {
        ngx_http_pgw_explain_note(e, "path",
                                  NGX_HTTP_PGW_REASON_PATH_AMBIGUOUS, NULL);
    }

    if (e->asked->origin.data) {
        reason = ngx_http_pgw_cors_explain(e->request->pool, e->conf, e->asked,
                                           &detail);
        ngx_http_pgw_explain_note(e, "cors", reason, detail);
    }

    if (e->method == NGX_HTTP_OPTIONS) {
        e->admits = NGX_HTTP_PGW_REASON_OPTIONS;

    } else {
        ngx_http_pgw_explain_location_checks(e);
    }
}


/* Finds the location that would serve the request, before any rewrite. */

static ngx_int_t
ngx_http_pgw_explain_route(ngx_http_pgw_explain_t *e)
{
    void       **loc_conf;
    ngx_int_t    rc;

    rc = ngx_http_pgw_peek_location(e->request, e->asked->server,
                                    &e->asked->path, &loc_conf);

    ngx_http_pgw_explain_note(e, "path", rc == NGX_DECLINED
                              ? NGX_HTTP_PGW_REASON_BAD_REQUEST : 0,
                              "nginx does not accept this path");
    if (rc == NGX_DECLINED || rc == NGX_ERROR) {
        return rc;
    }

    e->redirect = (rc == NGX_DONE);
    e->clcf = loc_conf[ngx_http_core_module.ctx_index];
    e->conf = loc_conf[ngx_http_platform_gateway_module.ctx_index];

    ngx_http_pgw_explain_route_checks(e);

    return NGX_OK;
}


/* Records the checks of verification.  The first failure ends a stage, except
   that all checks of the policy run if the token's issuer is known. */

static void
ngx_http_pgw_explain_steps(ngx_http_pgw_explain_t *e,
    const ngx_http_pgw_steps_t *steps)
{
    pj_err_t    err;
    uint64_t    found, named[NGX_HTTP_PGW_STAGES + 1] = { 0 };
    ngx_uint_t  i, stage, failed, reason;

    for (i = 0; i < NGX_HTTP_PGW_CHECKS; i++) {
        named[ngx_http_pgw_explain_checks[i].stage] |=
                                  PJ_FAULT(ngx_http_pgw_explain_checks[i].err);
    }

    failed = NGX_HTTP_PGW_STAGES;

    for (i = 0; i < NGX_HTTP_PGW_CHECKS; i++) {

        stage = ngx_http_pgw_explain_checks[i].stage;

        if (stage == NGX_HTTP_PGW_STAGES || stage == failed
            || steps->found[stage] == 0)
        {
            continue;
        }

        err = ngx_http_pgw_explain_checks[i].err;
        found = steps->found[stage] & (err ? PJ_FAULT(err) : ~named[stage]);

        if (stage == NGX_HTTP_PGW_STAGE_POLICY && found == 0
            && !(steps->found[stage] & PJ_FAULT(PJ_OK)))
        {
            continue;
        }

        for (err = PJ_OK; found && !(found & PJ_FAULT(err)); err++) {
            /* void */
        }

        reason = !err ? 0
                 : err != PJ_ERR_KID_UNKNOWN ? ngx_http_pgw_reason_of_token(err)
                 : ngx_http_pgw_token_no_key(&e->by, e->claims.iat);

        ngx_http_pgw_explain_note(e, ngx_http_pgw_explain_checks[i].name,
                 reason,
                 reason == NGX_HTTP_PGW_REASON_KEYS_UNAVAILABLE
                 ? "there is no usable key set"
                 : reason == NGX_HTTP_PGW_REASON_KID_PENDING
                 ? "the key set is older than the token, a request would have "
                   "it fetched first" : pj_strerror(err));

        if (err && stage != NGX_HTTP_PGW_STAGE_POLICY) {
            failed = stage;
        }
    }
}


/* Records whether the proof holds, except that it may have been used.  A token
   without a scheme has the scheme that it needs. */

static void
ngx_http_pgw_explain_proof(ngx_http_pgw_explain_t *e)
{
    pj_proof_t                     proof;
    const char                    *detail = NULL;
    ngx_http_pgw_reason_e          reason;

    const ngx_http_pgw_proof_of_t  of = {
        .value = &e->asked->proof,
        .method = ngx_http_pgw_span(&e->asked->method),
        .uri = &e->asked->path,
        .token = e->token,
        .thumbprint = e->grant.thumbprint,
        .now = e->asked->at
    };

    reason = ngx_http_pgw_proof_needed(e->conf, e->grant.bound,
                                       e->scheme ? e->dpop : e->grant.bound);

    if (reason == NGX_HTTP_PGW_REASON_NONE) {
        reason = e->asked->proof.data == NULL
                 ? NGX_HTTP_PGW_REASON_PROOF_MISSING
                 : ngx_http_pgw_proof_verify(e->request->pool, e->conf,
                                        ngx_http_pgw_main(e->request)->proof,
                                        &of, &proof, &detail);
    }

    ngx_http_pgw_explain_note(e, "proof",
                              reason == NGX_HTTP_PGW_REASON_VERIFIED
                              ? 0 : reason, detail);
}


/* Records whether these claims admit the request to the location.  Variables in
   rules have the values of the request for the explanation. */

static ngx_int_t
ngx_http_pgw_explain_admit(ngx_http_pgw_explain_t *e)
{
    const char                   *fault;
    const ngx_http_pgw_issuer_t  *issuer = e->by.issuer;

    if (issuer->revocations) {
        ngx_http_pgw_explain_note(e, "session",
           ngx_http_pgw_revocations_ask(issuer->revocations, &e->claims), NULL);
    }

    if (ngx_http_pgw_token_grant(e->request->pool, e->conf, issuer, &e->claims,
                                 &e->grant)
        != NGX_OK)
    {
        return NGX_ERROR;
    }

    if (e->conf->proof
        && e->grant.bound != NGX_HTTP_PGW_BINDING_CERTIFICATE)
    {
        ngx_http_pgw_explain_proof(e);
    }

    e->missing = e->grant.missing
                 ? ngx_http_pgw_require_lacking(e->request, e->conf, &e->grant)
                 : 0;

    ngx_http_pgw_explain_note(e, "context", (e->grant.access & e->conf->access)
                              ? 0 : NGX_HTTP_PGW_REASON_CONTEXT_FORBIDDEN,
                              NULL);

    if (e->conf->required) {
        ngx_http_pgw_explain_note(e, "require", e->missing
                                  ? NGX_HTTP_PGW_REASON_CLAIM_REQUIRED : 0,
                                  NULL);
    }

    if (e->conf->authentication) {
        fault = ngx_http_pgw_authentication_fault(e->conf->authentication,
                    ngx_http_pgw_authentication_time(e->conf->authentication,
                                                     issuer, e->claims.root),
                    e->asked->at, ngx_http_pgw_issuer_leeway(issuer, e->conf));

        ngx_http_pgw_explain_note(e, "authentication", fault
                                  ? NGX_HTTP_PGW_REASON_AUTHENTICATION_REQUIRED
                                  : 0, fault);
    }

    return NGX_OK;
}


/* Verifies the token as the guard would.  The question has the value of
   Authorization, or the token alone. */

static ngx_int_t
ngx_http_pgw_explain_verify(ngx_http_pgw_explain_t *e)
{
    pj_err_t                err;
    const ngx_str_t        *value = &e->asked->token;
    ngx_http_pgw_steps_t    steps = { .at = e->asked->at };
    ngx_http_pgw_reason_e   reason;

    e->dpop = e->conf->proof;
    reason = ngx_http_pgw_token_find(value, &e->dpop, &e->token);
    e->scheme = (reason == NGX_HTTP_PGW_REASON_NONE);

    if (reason == NGX_HTTP_PGW_REASON_TOKEN_MISSING && value->data
        && ngx_strlchr(value->data, value->data + value->len, ' ') == NULL)
    {
        reason = NGX_HTTP_PGW_REASON_NONE;
        e->token = (pj_str_t) { value->data, value->len };
    }

    ngx_http_pgw_explain_note(e, "bearer", reason,
                     reason == NGX_HTTP_PGW_REASON_TOKEN_SHAPE
                     ? pj_strerror(PJ_ERR_TOKEN_SHAPE)
                     : value->data ? "the scheme is not Bearer" : NULL);

    if (reason) {
        return NGX_OK;
    }

    /* an explanation starts no fetch */

    err = ngx_http_pgw_token_verify(e->request->pool, e->conf, e->token, &e->by,
                                    &e->claims, &steps);

    if (ngx_http_pgw_reason_of_token(err) == NGX_HTTP_PGW_REASON_TOKEN_INVALID)
    {
        return NGX_ERROR;
    }

    e->header = steps.header;
    ngx_http_pgw_explain_steps(e, &steps);

    return (steps.found[NGX_HTTP_PGW_STAGE_POLICY] & PJ_FAULT(PJ_OK))
           ? ngx_http_pgw_explain_admit(e) : NGX_OK;
}


/* Writes the decision and the response; status and code are null if an upstream
   would answer.  Shadow mode does not admit requests that nginx refuses. */

static void
ngx_http_pgw_explain_verdict(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e)
{
    ngx_str_t                     scope = ngx_null_string;
    ngx_uint_t                    status, shadow;
    const ngx_http_pgw_reason_t  *reason;

    text->failed = e->conf
                   && ngx_http_pgw_require_challenge(e->request, e->conf,
                                                     (ngx_http_pgw_reason_e)
                                                     e->refuses, &e->grant,
                                                     &scope)
                      != NGX_OK;

    shadow = (e->refuses && e->conf && e->conf->shadow && !e->clcf->internal);
    reason = &ngx_http_pgw_reasons[e->refuses ? e->refuses : e->admits];
    status = shadow ? 0
             : e->redirect && !e->refuses ? NGX_HTTP_MOVED_PERMANENTLY
             : reason->status;

    ngx_http_pgw_text_literal(text, "{\"decision\":",
                                 shadow ? "shadow"
                                 : e->refuses ? "deny"
                                 : reason->name ? "allow" : NULL);
    ngx_http_pgw_text_literal(text, ",\"reason\":", reason->name);
    ngx_http_pgw_text_format(text, status ? ",\"status\":%ui"
                                          : ",\"status\":null", status);
    ngx_http_pgw_text_literal(text, ",\"code\":",
                                 shadow ? NULL : reason->code);
    ngx_http_pgw_text_json(text, ",\n\"method\":", &e->asked->method);
    ngx_http_pgw_text_json(text, ",\"path\":", &e->asked->path);
    ngx_http_pgw_text_number(text, ",\"at\":", e->asked->at);
    ngx_http_pgw_text_plain(text, ",\"scope\":", &scope);
}


/* Writes what the token has where check i failed: the value, the name of the
   failed claim, or its authentication. */

static void
ngx_http_pgw_explain_found(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e, ngx_uint_t i)
{
    pj_str_t                    s;
    ngx_uint_t                  reason = e->check[i].reason;
    const char                 *found = ngx_http_pgw_explain_checks[i].found;
    const pj_str_t             *nearest;
    const pj_json_t            *m;
    const ngx_http_pgw_rule_t  *rule;

    rule = e->missing ? (ngx_http_pgw_rule_t *) e->conf->required->elts
                        + __builtin_ctzll(e->missing) : NULL;

    m = found == NULL ? NULL
        : pj_json_member(ngx_http_pgw_explain_checks[i].stage
                         == NGX_HTTP_PGW_STAGE_POLICY
                         ? e->claims.root : e->header, found);

    s = m && m->type == PJ_JSON_STRING
        ? (pj_str_t) { m->text.data, ngx_min(m->text.len, PJ_KID_MAX_BYTES) }
        : reason == NGX_HTTP_PGW_REASON_TOKEN_CLAIMS ? e->claims.fault
        : rule && reason == NGX_HTTP_PGW_REASON_CLAIM_REQUIRED
        ? (pj_str_t) { rule->claim.text.data, rule->claim.text.len }
        : (pj_str_t) { NULL, 0 };

    if (s.len) {
        ngx_http_pgw_text_json(text, found ? ",\"found\":" : ",\"claim\":", &s);
    }

    nearest = reason == NGX_HTTP_PGW_REASON_TOKEN_ISSUER
              ? ngx_http_pgw_issuer_nearest(
                                       ngx_http_pgw_main(e->request)->issuers,
                                       &e->claims.iss) : NULL;
    if (nearest) {
        ngx_http_pgw_text_json(text, ",\"nearest\":", nearest);
    }

    if (reason == NGX_HTTP_PGW_REASON_AUTHENTICATION_REQUIRED) {
        ngx_http_pgw_authentication_found(text, e->by.issuer, e->claims.root);
    }
}


static void
ngx_http_pgw_explain_results(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e)
{
    ngx_uint_t  i, reason;

    for (i = 0; i < NGX_HTTP_PGW_CHECKS; i++) {

        reason = e->check[i].reason;

        ngx_http_pgw_text_format(text,
                                 "%s\n{\"check\":\"%s\",\"result\":\"%s\"",
                                 i ? "," : ",\n\"checks\":[",
                                 ngx_http_pgw_explain_checks[i].name,
                                 !e->check[i].made ? "skipped"
                                 : reason ? "failed" : "passed");

        if (reason) {
            ngx_http_pgw_text_format(text,
                                     ",\"reason\":\"%s\",\"detail\":\"%s\"",
                                     ngx_http_pgw_reasons[reason].name,
                                     e->check[i].detail);
            ngx_http_pgw_explain_found(text, e, i);
        }

        ngx_http_pgw_text_format(text, "}");
    }
}


/* Writes the names of the trusted headers for the upstream. */

static void
ngx_http_pgw_explain_headers(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e)
{
    ngx_uint_t                    i;
    ngx_http_pgw_claim_header_t  *ch = e->conf->claim_headers->elts;

    for (i = 0; i < e->conf->claim_headers->nelts; i++) {
        if (ngx_http_pgw_grant_headers(&e->grant, e->conf)[i].data) {
            ngx_http_pgw_text_item(text, &ch[i].name);
        }
    }
}


ngx_int_t
ngx_http_pgw_explain_answer(ngx_http_request_t *r,
    ngx_http_pgw_question_t *question)
{
    ngx_str_t                  name, headers;
    ngx_http_pgw_text_t        text = { .request = r };
    ngx_http_pgw_main_conf_t  *mcf = ngx_http_pgw_main(r);
    ngx_http_pgw_explain_t     e = { .request = r, .asked = question };

    e.method = ngx_http_pgw_access_mask(&question->method);
    ngx_http_pgw_keys_select(mcf->issuers, &e.by);

    if (ngx_http_pgw_explain_route(&e) == NGX_ERROR
        || (e.admits == NGX_HTTP_PGW_REASON_VERIFIED && e.conf->access
            && ngx_http_pgw_explain_verify(&e) != NGX_OK))
    {
        return NGX_HTTP_INTERNAL_SERVER_ERROR;
    }

    ngx_http_pgw_explain_verdict(&text, &e);
    ngx_http_pgw_describe_location(&text, e.clcf, e.conf);
    ngx_http_pgw_keys_explain(&text, e.by.issuer);
    ngx_http_pgw_explain_results(&text, &e);
    ngx_http_pgw_text_format(&text, "],\n\"stripped\":[");

    for (headers = question->headers;
         ngx_http_pgw_headers_stripped(question->server, &headers, &name); )
    {
        ngx_http_pgw_text_item(&text, &name);
    }

    ngx_http_pgw_text_format(&text, "],\n\"headers\":[");

    if (e.refuses == 0 && e.admits == NGX_HTTP_PGW_REASON_VERIFIED) {
        ngx_http_pgw_explain_headers(&text, &e);
    }

    ngx_http_pgw_text_format(&text, "]}\n");

    return ngx_http_pgw_text_send(&text, "application/json");
}
