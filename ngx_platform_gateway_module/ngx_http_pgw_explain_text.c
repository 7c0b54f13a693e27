
/*
 * The explanation as JSON.  Of the token it tells the members that a check is
 * about, never the signature nor who the token is for.
 */


#include "ngx_http_pgw_explain.h"
#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_keys.h"


static const ngx_http_pgw_check_t *ngx_http_pgw_explain_failed(
    const ngx_http_pgw_explain_t *e);
static void ngx_http_pgw_explain_verdict(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e);
static void ngx_http_pgw_explain_literal(ngx_http_pgw_text_t *text,
    const char *literal);
static void ngx_http_pgw_explain_write_location(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e);
static void ngx_http_pgw_explain_levels(ngx_http_pgw_text_t *text,
    ngx_uint_t access);
static void ngx_http_pgw_explain_strings(ngx_http_pgw_text_t *text,
    const ngx_array_t *strings);
static void ngx_http_pgw_explain_write_token(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e);
static void ngx_http_pgw_explain_write_member(ngx_http_pgw_text_t *text,
    const char *name, const pj_json_t *value);
static void ngx_http_pgw_explain_write_keys(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e);
static void ngx_http_pgw_explain_checks(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e);
static void ngx_http_pgw_explain_headers(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e);


/* The longest value of a token's header that is told. */

#define NGX_HTTP_PGW_EXPLAIN_VALUE  255


/* Which errors of which stage are the fault that a check looks for. */

#define ngx_http_pgw_explain_but(faults)  (~(PJ_FAULT(PJ_OK) | (faults)))

static const struct {
    const char  *name;
    ngx_uint_t   stage;          /* NGX_HTTP_PGW_STAGES: of none */
    uint64_t     faults;
} ngx_http_pgw_explain_known[NGX_HTTP_PGW_CHECKS] = {

    [NGX_HTTP_PGW_CHECK_PATH] = { "path", NGX_HTTP_PGW_STAGES, 0 },
    [NGX_HTTP_PGW_CHECK_LOCATION] = { "location", NGX_HTTP_PGW_STAGES, 0 },
    [NGX_HTTP_PGW_CHECK_METHOD] = { "method", NGX_HTTP_PGW_STAGES, 0 },
    [NGX_HTTP_PGW_CHECK_BEARER] = { "bearer", NGX_HTTP_PGW_STAGES, 0 },
    [NGX_HTTP_PGW_CHECK_SIZE] =
        { "size", NGX_HTTP_PGW_STAGE_SPLIT,
          PJ_FAULT(PJ_ERR_TOKEN_SIZE) },
    [NGX_HTTP_PGW_CHECK_SHAPE] =
        { "shape", NGX_HTTP_PGW_STAGE_SPLIT,
          ngx_http_pgw_explain_but(0) },
    [NGX_HTTP_PGW_CHECK_HEADER] =
        { "header", NGX_HTTP_PGW_STAGE_HEADER,
          ngx_http_pgw_explain_but(PJ_FAULT(PJ_ERR_TOKEN_ALG)
                                   |PJ_FAULT(PJ_ERR_TOKEN_TYP)
                                   |PJ_FAULT(PJ_ERR_TOKEN_CRIT)
                                   |PJ_FAULT(PJ_ERR_TOKEN_KID)) },
    [NGX_HTTP_PGW_CHECK_ALG] =
        { "alg", NGX_HTTP_PGW_STAGE_HEADER,
          PJ_FAULT(PJ_ERR_TOKEN_ALG) },
    [NGX_HTTP_PGW_CHECK_TYP] =
        { "typ", NGX_HTTP_PGW_STAGE_HEADER,
          PJ_FAULT(PJ_ERR_TOKEN_TYP) },
    [NGX_HTTP_PGW_CHECK_CRIT] =
        { "crit", NGX_HTTP_PGW_STAGE_HEADER,
          PJ_FAULT(PJ_ERR_TOKEN_CRIT) },
    [NGX_HTTP_PGW_CHECK_KID] =
        { "kid", NGX_HTTP_PGW_STAGE_HEADER,
          PJ_FAULT(PJ_ERR_TOKEN_KID) },
    [NGX_HTTP_PGW_CHECK_PAYLOAD] =
        { "payload", NGX_HTTP_PGW_STAGE_PAYLOAD,
          ngx_http_pgw_explain_but(PJ_FAULT(PJ_ERR_TOKEN_KIND)
                                   |PJ_FAULT(PJ_ERR_TOKEN_CLAIMS)) },
    [NGX_HTTP_PGW_CHECK_KIND] =
        { "kind", NGX_HTTP_PGW_STAGE_PAYLOAD,
          PJ_FAULT(PJ_ERR_TOKEN_KIND) },
    [NGX_HTTP_PGW_CHECK_CLAIMS] =
        { "claims", NGX_HTTP_PGW_STAGE_PAYLOAD,
          PJ_FAULT(PJ_ERR_TOKEN_CLAIMS) },
    [NGX_HTTP_PGW_CHECK_ISSUER] =
        { "issuer", NGX_HTTP_PGW_STAGE_POLICY,
          PJ_FAULT(PJ_ERR_TOKEN_ISSUER) },
    [NGX_HTTP_PGW_CHECK_AUDIENCE] =
        { "audience", NGX_HTTP_PGW_STAGE_POLICY,
          PJ_FAULT(PJ_ERR_TOKEN_AUDIENCE) },
    [NGX_HTTP_PGW_CHECK_BOUND] =
        { "bound", NGX_HTTP_PGW_STAGE_POLICY,
          PJ_FAULT(PJ_ERR_TOKEN_BOUND) },
    [NGX_HTTP_PGW_CHECK_NOT_YET] =
        { "notBefore", NGX_HTTP_PGW_STAGE_POLICY,
          PJ_FAULT(PJ_ERR_TOKEN_NOT_YET) },
    [NGX_HTTP_PGW_CHECK_EXPIRY] =
        { "expiry", NGX_HTTP_PGW_STAGE_POLICY,
          PJ_FAULT(PJ_ERR_TOKEN_EXPIRED) },
    [NGX_HTTP_PGW_CHECK_KEY] =
        { "key", NGX_HTTP_PGW_STAGE_KEY,
          ngx_http_pgw_explain_but(0) },
    [NGX_HTTP_PGW_CHECK_SIGNATURE] =
        { "signature", NGX_HTTP_PGW_STAGE_SIGNATURE,
          ngx_http_pgw_explain_but(0) },
    [NGX_HTTP_PGW_CHECK_CONTEXT] = { "context", NGX_HTTP_PGW_STAGES, 0 }
};


/*
 * The checks that a stage makes come one after the other, and one that failed
 * is its last; those of the policy all are made.
 */

void
ngx_http_pgw_explain_steps(ngx_http_pgw_explain_t *e,
    const ngx_http_pgw_steps_t *steps)
{
    pj_err_t    err;
    uint64_t    found, faults;
    ngx_uint_t  i, stage, failed;

    failed = NGX_HTTP_PGW_STAGES;

    for (i = 0; i < NGX_HTTP_PGW_CHECKS; i++) {

        stage = ngx_http_pgw_explain_known[i].stage;
        found = (stage < NGX_HTTP_PGW_STAGES) ? steps->found[stage] : 0;

        if (found == 0 || stage == failed) {
            continue;
        }

        faults = found & ngx_http_pgw_explain_known[i].faults;

        if (faults == 0) {
            ngx_http_pgw_explain_pass(e, (ngx_http_pgw_check_e) i);
            continue;
        }

        for (err = PJ_OK; !(faults & PJ_FAULT(err)); err++) { /* void */ }

        ngx_http_pgw_explain_fail(e, (ngx_http_pgw_check_e) i,
                                  ngx_http_pgw_reason_of_token(err),
                                  pj_strerror(err));

        if (stage != NGX_HTTP_PGW_STAGE_POLICY) {
            failed = stage;
        }
    }
}


ngx_int_t
ngx_http_pgw_explain_send(const ngx_http_pgw_explain_t *e)
{
    ngx_http_pgw_text_t  text;

    ngx_http_pgw_text_init(&text, e->request);

    ngx_http_pgw_explain_verdict(&text, e);

    ngx_http_pgw_text_format(&text, ",\n\"method\":");
    ngx_http_pgw_text_json(&text, "", &e->method);
    ngx_http_pgw_text_format(&text, ",\"path\":");
    ngx_http_pgw_text_json(&text, "", &e->path);
    ngx_http_pgw_text_format(&text, ",\"at\":%L", (int64_t) e->at);

    ngx_http_pgw_explain_write_location(&text, e);
    ngx_http_pgw_explain_write_token(&text, e);
    ngx_http_pgw_explain_write_keys(&text, e);
    ngx_http_pgw_explain_checks(&text, e);
    ngx_http_pgw_explain_headers(&text, e);

    ngx_http_pgw_text_format(&text, "}\n");

    return ngx_http_pgw_text_send(&text, "application/json");
}


/* The check that decides; NULL: all is well. */

static const ngx_http_pgw_check_t *
ngx_http_pgw_explain_failed(const ngx_http_pgw_explain_t *e)
{
    ngx_uint_t  i;

    for (i = 0; i < NGX_HTTP_PGW_CHECKS; i++) {
        if (e->check[i].result == NGX_HTTP_PGW_FAILED) {
            return &e->check[i];
        }
    }

    return NULL;
}


/*
 * The decision, and what the client is answered: null where that is for an
 * upstream to say.  What nginx refuses itself stays refused in shadow mode.
 */

static void
ngx_http_pgw_explain_verdict(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e)
{
    ngx_uint_t                    status, shadow;
    const ngx_http_pgw_check_t   *failed;
    const ngx_http_pgw_reason_t  *reason;

    failed = ngx_http_pgw_explain_failed(e);

    shadow = (failed && e->conf && e->conf->shadow && !e->clcf->internal);

    reason = &ngx_http_pgw_reasons[
                 failed ? failed->reason
                 : e->redirect || !e->conf->enable ? NGX_HTTP_PGW_REASON_NONE
                 : e->options ? NGX_HTTP_PGW_REASON_OPTIONS
                 : e->public ? NGX_HTTP_PGW_REASON_PUBLIC
                 : NGX_HTTP_PGW_REASON_VERIFIED];

    status = shadow ? 0
             : failed == NULL && e->redirect ? NGX_HTTP_MOVED_PERMANENTLY
             : reason->status;

    ngx_http_pgw_text_format(text, "{\"decision\":");
    ngx_http_pgw_explain_literal(text, shadow ? "shadow"
                                       : failed ? "deny"
                                       : reason->name ? "allow" : NULL);

    ngx_http_pgw_text_format(text, ",\"reason\":");
    ngx_http_pgw_explain_literal(text, reason->name);

    if (status) {
        ngx_http_pgw_text_format(text, ",\"status\":%ui,\"code\":", status);
    } else {
        ngx_http_pgw_text_format(text, ",\"status\":null,\"code\":");
    }

    ngx_http_pgw_explain_literal(text, shadow ? NULL : reason->code);
}


static void
ngx_http_pgw_explain_literal(ngx_http_pgw_text_t *text, const char *literal)
{
    if (literal) {
        ngx_http_pgw_text_format(text, "\"%s\"", literal);
    } else {
        ngx_http_pgw_text_format(text, "null");
    }
}


static void
ngx_http_pgw_explain_write_location(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e)
{
    const char                     *match;
    const ngx_http_pgw_loc_conf_t  *conf;

    conf = e->conf;

    if (conf == NULL) {
        ngx_http_pgw_text_format(text, ",\n\"location\":null");
        return;
    }

    match = e->clcf->exact_match ? "exact" : "prefix";

#if (NGX_PCRE)
    match = e->clcf->regex ? "regex" : match;
#endif

    ngx_http_pgw_text_format(text, ",\n\"location\":{\"name\":");

    if (e->clcf->name.len) {
        ngx_http_pgw_text_json(text, "", &e->clcf->name);
        ngx_http_pgw_text_format(text, ",\"match\":\"%s\"", match);
    } else {
        ngx_http_pgw_text_format(text, "null,\"match\":null");
    }

    ngx_http_pgw_text_format(text, ",\"gateway\":%s,\"access\":",
                             conf->enable ? "true" : "false");
    ngx_http_pgw_explain_levels(text, conf->access);

    ngx_http_pgw_text_format(text, ",\"methods\":");
    ngx_http_pgw_text_json(text, "", &conf->allow);
    ngx_http_pgw_text_format(text, ",\"routeId\":");
    ngx_http_pgw_text_json(text, "", &conf->route_id);
    ngx_http_pgw_text_format(text, ",\"serviceName\":");
    ngx_http_pgw_text_json(text, "", &conf->service_name);
    ngx_http_pgw_text_format(text, ",\"issuers\":");
    ngx_http_pgw_explain_strings(text, conf->issuers);
    ngx_http_pgw_text_format(text, ",\"audiences\":");
    ngx_http_pgw_explain_strings(text, conf->audiences);

    ngx_http_pgw_text_format(text,
                                 ",\"leewaySeconds\":%T,\"tokenMaxSize\":%uz,"
                                 "\"shadow\":%s}",
                                 conf->leeway, conf->token_max_size,
                                 conf->shadow ? "true" : "false");
}


static void
ngx_http_pgw_explain_levels(ngx_http_pgw_text_t *text, ngx_uint_t access)
{
    ngx_uint_t   i;
    const char  *comma;

    static const struct {
        ngx_uint_t   bit;
        const char  *name;
    } levels[] = {
        { NGX_HTTP_PGW_PUBLIC, "public" },
        { NGX_HTTP_PGW_ACCOUNT, "account" },
        { NGX_HTTP_PGW_BRANCH, "branch" },
        { NGX_HTTP_PGW_SYSTEM, "system" }
    };

    comma = "";
    ngx_http_pgw_text_format(text, "[");

    for (i = 0; i < sizeof(levels) / sizeof(levels[0]); i++) {
        if (access & levels[i].bit) {
            ngx_http_pgw_text_format(text, "%s\"%s\"", comma, levels[i].name);
            comma = ",";
        }
    }

    ngx_http_pgw_text_format(text, "]");
}


static void
ngx_http_pgw_explain_strings(ngx_http_pgw_text_t *text,
    const ngx_array_t *strings)
{
    ngx_str_t        s;
    ngx_uint_t       i;
    const pj_str_t  *string;

    ngx_http_pgw_text_format(text, "[");

    for (i = 0; strings && i < strings->nelts; i++) {

        string = (const pj_str_t *) strings->elts + i;
        s.data = (u_char *) string->data;
        s.len = string->len;

        if (i) {
            ngx_http_pgw_text_format(text, ",");
        }

        ngx_http_pgw_text_json(text, "", &s);
    }

    ngx_http_pgw_text_format(text, "]");
}


static void
ngx_http_pgw_explain_write_token(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e)
{
    ngx_uint_t  i;

    static const char * const  header[] = { "alg", "typ", "kid" };
    static const char * const  claims[] = { "iss", "iat", "exp", "nbf",
                                            "token_type", "token_scope" };

    if (e->token.data == NULL) {
        ngx_http_pgw_text_format(text, ",\n\"token\":null");
        return;
    }

    ngx_http_pgw_text_format(text, ",\n\"token\":{\"bytes\":%uz",
                             e->token.len);

    for (i = 0; i < sizeof(header) / sizeof(header[0]); i++) {
        ngx_http_pgw_explain_write_member(text, header[i],
                                    pj_json_member(e->header, header[i]));
    }

    for (i = 0; i < sizeof(claims) / sizeof(claims[0]); i++) {
        ngx_http_pgw_explain_write_member(text, claims[i],
                                    pj_json_member(e->claims.root, claims[i]));
    }

    ngx_http_pgw_text_format(text, "}");
}


static void
ngx_http_pgw_explain_write_member(ngx_http_pgw_text_t *text, const char *name,
    const pj_json_t *value)
{
    ngx_str_t  s;

    if (value == NULL) {
        return;
    }

    s.data = (u_char *) value->text.data;
    s.len = ngx_min(value->text.len, NGX_HTTP_PGW_EXPLAIN_VALUE);

    ngx_http_pgw_text_format(text, ",\"%s\":", name);

    if (value->type == PJ_JSON_STRING && s.len) {
        ngx_http_pgw_text_json(text, "", &s);

    } else if (value->type == PJ_JSON_NUMBER && s.len == value->text.len) {
        ngx_http_pgw_text_format(text, "%V", &s);

    } else {
        ngx_http_pgw_text_format(text,
                         value->type == PJ_JSON_STRING ? "\"\"" : "null");
    }
}


static void
ngx_http_pgw_explain_write_keys(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e)
{
    time_t                     age;
    const pj_keyset_t         *set;
    ngx_http_pgw_keys_t       *keys;
    ngx_http_pgw_main_conf_t  *mcf;

    mcf = ngx_http_get_module_main_conf(e->request,
                                        ngx_http_platform_gateway_module);
    keys = mcf->keys;

    if (!ngx_http_pgw_keys_usable(keys)) {
        ngx_http_pgw_text_format(text, ",\n\"keySet\":null");
        return;
    }

    set = ngx_http_pgw_keys_get(keys);

    ngx_http_pgw_text_format(text,
                         ",\n\"keySet\":{\"version\":%ui,\"keys\":%uz,"
                         "\"ageSeconds\":",
                         keys->version,
                         set ? set->count : 0);

    if (keys->zone->fetched_at) {
        age = ngx_time() - keys->zone->fetched_at;
        ngx_http_pgw_text_format(text, "%T}", ngx_max(age, 0));

    } else {
        ngx_http_pgw_text_format(text, "null}");
    }
}


static void
ngx_http_pgw_explain_checks(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e)
{
    ngx_str_t                    fault;
    ngx_uint_t                   i;
    const ngx_http_pgw_check_t  *check;

    static const char * const  results[] = {
        [NGX_HTTP_PGW_SKIPPED] = "skipped",
        [NGX_HTTP_PGW_PASSED] = "passed",
        [NGX_HTTP_PGW_FAILED] = "failed" };

    ngx_http_pgw_text_format(text, ",\n\"checks\":[");

    for (i = 0; i < NGX_HTTP_PGW_CHECKS; i++) {

        check = &e->check[i];

        ngx_http_pgw_text_format(text,
                                 "%s\n{\"check\":\"%s\",\"result\":\"%s\"",
                                 i ? "," : "",
                                 ngx_http_pgw_explain_known[i].name,
                                 results[check->result]);

        if (check->result == NGX_HTTP_PGW_FAILED) {
            ngx_http_pgw_text_format(text,
                                     ",\"reason\":\"%s\",\"detail\":\"%s\"",
                                     ngx_http_pgw_reasons[check->reason].name,
                                     check->detail);

            if (i == NGX_HTTP_PGW_CHECK_CLAIMS && e->claims.fault.len) {
                fault.data = (u_char *) e->claims.fault.data;
                fault.len = e->claims.fault.len;

                ngx_http_pgw_text_format(text, ",\"claim\":");
                ngx_http_pgw_text_json(text, "", &fault);
            }
        }

        ngx_http_pgw_text_format(text, "}");
    }

    ngx_http_pgw_text_format(text, "]");
}


/* The names of the trusted headers that would go upstream. */

static void
ngx_http_pgw_explain_headers(ngx_http_pgw_text_t *text,
    const ngx_http_pgw_explain_t *e)
{
    ngx_str_t                     value;
    ngx_uint_t                    i;
    const char                   *comma;
    ngx_http_pgw_claim_header_t  *ch;

    ngx_http_pgw_text_format(text, ",\n\"headers\":[");

    if (ngx_http_pgw_explain_failed(e)
        || e->check[NGX_HTTP_PGW_CHECK_CONTEXT].result
           != NGX_HTTP_PGW_PASSED)
    {
        ngx_http_pgw_text_format(text, "]");
        return;
    }

    comma = "";
    ch = e->conf->claim_headers->elts;

    for (i = 0; i < e->conf->claim_headers->nelts; i++) {

        if (ngx_http_pgw_inject_value(e->request->pool,
                               pj_json_member(e->claims.root,
                                              (const char *) ch[i].claim.data),
                               &value)
            != NGX_OK)
        {
            continue;
        }

        ngx_http_pgw_text_format(text, "%s", comma);
        ngx_http_pgw_text_json(text, "", &ch[i].name);
        comma = ",";
    }

    ngx_http_pgw_text_format(text, "]");
}
