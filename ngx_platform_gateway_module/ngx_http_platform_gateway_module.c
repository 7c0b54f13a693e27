
/*
 * The platform gateway's table of contents: its hooks into nginx, its
 * directives, and how their values are inherited.
 */


#include "request/request.h"
#include "answer/answer.h"
#include "conf/conf.h"
#include "token/token.h"
#include "revoked/revoked.h"
#include "issuer/issuer.h"
#include "base/base.h"
#include "nginx/nginx.h"


#define NGX_HTTP_PGW_CORS_METHODS  "GET, HEAD, POST, PUT, PATCH, DELETE"

#define NGX_HTTP_PGW_CORS_NAMES                                               \
    "Authorization, Content-Type, X-Request-Id, X-Correlation-Id, "           \
    "traceparent, tracestate, Idempotency-Key, If-None-Match, DPoP"

#define NGX_HTTP_PGW_CORS_EXPOSED                                             \
    "X-Request-Id, X-Correlation-Id, Retry-After, WWW-Authenticate, ETag, "   \
    "DPoP-Nonce, Date"


/* Fields that a location inherits: name, nginx's macro that merges it, unset
   value, default.  Bit masks and strings are zeroes if unset.  claim_map is
   merged elsewhere. */

#define NGX_HTTP_PGW_VALUES(X)                                                \
    X(enable, value, NGX_CONF_UNSET, 0)                                       \
    X(issuers, ptr_value, NGX_CONF_UNSET_PTR, NULL)                           \
    X(audiences, ptr_value, NGX_CONF_UNSET_PTR, NULL)                         \
    X(trusted, ptr_value, NGX_CONF_UNSET_PTR, NULL)                           \
    X(required, ptr_value, NGX_CONF_UNSET_PTR, NULL)                          \
    X(authentication, ptr_value, NGX_CONF_UNSET_PTR, NULL)                    \
    X(single_headers, ptr_value, NGX_CONF_UNSET_PTR, NULL)                    \
    X(assertion, ptr_value, NGX_CONF_UNSET_PTR, NULL)                         \
    X(resource, ptr_value, NGX_CONF_UNSET_PTR, NULL)                          \
    X(leeway, sec_value, NGX_CONF_UNSET, 30)                                  \
    X(token_max_size, size_value, NGX_CONF_UNSET_SIZE, 16384)                 \
    X(token_from, ptr_value, NGX_CONF_UNSET_PTR, NULL)                        \
    X(close_at_expiry, value, NGX_CONF_UNSET, 0)                              \
    X(forward_authorization, value, NGX_CONF_UNSET, 1)                        \
    X(allow_confirmation, value, NGX_CONF_UNSET, 0)                           \
    X(proof_origins, ptr_value, NGX_CONF_UNSET_PTR, NULL)                     \
    X(bound, uint_value, NGX_CONF_UNSET_UINT, NGX_HTTP_PGW_BOUND_ACCEPT)      \
    X(forward_proof, value, NGX_CONF_UNSET, 0)                                \
    X(shadow, value, NGX_CONF_UNSET, 0)                                       \
    X(strict_path, value, NGX_CONF_UNSET, 0)                                  \
    X(strict_origin, value, NGX_CONF_UNSET, 0)                                \
    X(allow_return, value, NGX_CONF_UNSET, 0)                                 \
    X(allow_cache, value, NGX_CONF_UNSET, 0)                                  \
    X(cors_origins, ptr_value, NGX_CONF_UNSET_PTR, NULL)                      \
    X(cors_max_age, sec_value, NGX_CONF_UNSET, 600)

#define NGX_HTTP_PGW_ZEROES(X)                                                \
    X(access, bitmask_value, , 0)                                             \
    X(methods, bitmask_value, , 0)                                            \
    X(route_id, str_value, , "")                                              \
    X(challenge, str_value, , "Bearer realm=\"platform\"")                    \
    X(metadata, str_value, , "")                                              \
    X(document, str_value, , "")                                              \
    X(cors_methods, str_value, , NGX_HTTP_PGW_CORS_METHODS)                   \
    X(cors_headers, str_value, , NGX_HTTP_PGW_CORS_NAMES)                     \
    X(cors_exposed, str_value, , NGX_HTTP_PGW_CORS_EXPOSED)

#define PGW_UNSET(field, merge, unset, value)  conf->field = unset;

#define PGW_MERGE(field, merge, unset, value)                                 \
    ngx_conf_merge_##merge(conf->field, prev->field, value)


static ngx_int_t
ngx_http_pgw_add_variables(ngx_conf_t *cf)
{
    ngx_uint_t            i;
    ngx_http_variable_t  *var, *v;

    ngx_http_variable_t  *tables[] = {
        ngx_http_pgw_request_variables, ngx_http_pgw_log_variables,
        ngx_http_pgw_subject_variables, ngx_http_pgw_fetch_variables, NULL
    };

    if (ngx_http_pgw_abi_check(cf) != NGX_OK) {
        return NGX_ERROR;
    }

    for (i = 0; tables[i]; i++) {
        for (v = tables[i]; v->name.len; v++) {

            var = ngx_http_add_variable(cf, &v->name, v->flags);
            if (var == NULL) {
                return NGX_ERROR;
            }

            var->get_handler = v->get_handler;
            var->data = v->data;
        }
    }

    return NGX_OK;
}


static ngx_int_t
ngx_http_pgw_init(ngx_conf_t *cf)
{
    ngx_http_pgw_main_conf_t  *mcf = ngx_http_pgw_conf_main(cf);

    if (ngx_http_pgw_abi_codes(cf) != NGX_OK
        || ngx_http_pgw_issuer_conf_init(cf, mcf) != NGX_CONF_OK
        || ngx_http_pgw_proof_conf_init(cf, mcf) != NGX_CONF_OK
        || ngx_http_pgw_request_init(cf) != NGX_OK
        || ngx_http_pgw_subject_init_conf(cf, mcf) != NGX_OK)
    {
        return NGX_ERROR;
    }

    return ngx_http_pgw_access_init(cf);
}


static void *
ngx_http_pgw_create_main_conf(ngx_conf_t *cf)
{
    ngx_http_pgw_main_conf_t  *mcf;

    mcf = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_main_conf_t));
    if (mcf == NULL) {
        return NULL;
    }

    mcf->key_wait = NGX_CONF_UNSET_MSEC;
    mcf->key_waiters = NGX_CONF_UNSET;
    mcf->cache = ngx_http_pgw_cache_create(cf);
    mcf->issuers = ngx_http_pgw_issuer_conf_new(cf);
    mcf->signer = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_signer_t));

    return mcf->cache && mcf->issuers && mcf->signer ? mcf : NULL;
}


static void *
ngx_http_pgw_create_loc_conf(ngx_conf_t *cf)
{
    ngx_http_pgw_loc_conf_t  *conf;

    conf = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_loc_conf_t));
    if (conf == NULL) {
        return NULL;
    }

    NGX_HTTP_PGW_VALUES(PGW_UNSET)
    conf->claim_map = NGX_CONF_UNSET_PTR;

    if (cf->conf_file) {
        ngx_http_pgw_conf_place(cf, &conf->place);
    }

    return conf;
}


static char *
ngx_http_pgw_merge_loc_conf(ngx_conf_t *cf, void *parent, void *child)
{
    ngx_http_pgw_loc_conf_t  *prev = parent;
    ngx_http_pgw_loc_conf_t  *conf = child;
    ngx_http_pgw_srv_conf_t  *sscf;

    const char                *restriction;

    restriction = ngx_http_pgw_check_restriction(conf);

    sscf = ngx_http_conf_get_module_srv_conf(cf,
                                             ngx_http_platform_gateway_module);

    if (conf->route_id.data == NULL) {
        conf->service_name = prev->service_name;
    }

    NGX_HTTP_PGW_VALUES(PGW_MERGE)
    NGX_HTTP_PGW_ZEROES(PGW_MERGE)

    conf->route = ngx_http_pgw_counters_route(cf, &conf->route_id);

    /* headers are stripped before the location is known, so the server strips
       the names of all of its locations */

    if (conf->route == NULL
        || ngx_http_pgw_conf_merge_claims(cf, prev, conf, sscf) != NGX_CONF_OK
        || ngx_http_pgw_trust_merge(cf, conf) != NGX_CONF_OK
        || ngx_http_pgw_conf_names(cf, conf) != NGX_CONF_OK
        || ngx_http_pgw_content_merge(cf, prev, conf) != NGX_CONF_OK
        || ngx_http_pgw_resource_merge(cf, conf) != NGX_CONF_OK
        || ngx_http_pgw_subject_merge(cf, conf) != NGX_CONF_OK)
    {
        return NGX_CONF_ERROR;
    }

    ngx_http_pgw_fetch_conf_match(cf);

    if (!conf->enable) {
        return ngx_http_pgw_check_off(cf, restriction);
    }

    sscf->any_enabled = 1;
    conf->certificate = (sscf->certificate != NGX_HTTP_PGW_CERTIFICATE_OFF);

    return ngx_http_pgw_check_location(cf, prev, conf) == NGX_CONF_OK
           ? ngx_http_pgw_token_intern(cf, conf) : NGX_CONF_ERROR;
}


static ngx_int_t
ngx_http_pgw_init_process(ngx_cycle_t *cycle)
{
    ngx_http_pgw_issuer_t     *issuer;
    ngx_http_pgw_main_conf_t  *mcf;

    mcf = ngx_http_cycle_get_module_main_conf(cycle,
                                             ngx_http_platform_gateway_module);

    ngx_http_pgw_counters_init_process(mcf ? mcf->counters : NULL);

    if (mcf == NULL
        || (ngx_process != NGX_PROCESS_WORKER
            && ngx_process != NGX_PROCESS_SINGLE))
    {
        return NGX_OK;
    }

    for (issuer = mcf->issuers; issuer; issuer = issuer->next) {
        if (issuer->revocations) {
            ngx_http_pgw_poll_init_process(issuer->revocations);
        }

        ngx_http_pgw_keys_fetch_init_process(issuer);
    }

    return NGX_OK;
}


static void
ngx_http_pgw_exit_process(ngx_cycle_t *cycle)
{
    ngx_http_pgw_issuer_t     *issuer;
    ngx_http_pgw_main_conf_t  *mcf;

    mcf = ngx_http_cycle_get_module_main_conf(cycle,
                                             ngx_http_platform_gateway_module);

    for (issuer = mcf ? mcf->issuers : NULL; issuer; issuer = issuer->next) {
        if (issuer->revocations) {
            ngx_http_pgw_poll_abort(issuer->revocations);
        }

        ngx_http_pgw_keys_fetch_exit_process(issuer);
    }

    ngx_http_pgw_counters_cached(0);
}


/* The members of ngx_command_t after the name: context and number of values,
   function, structure and field that it sets, data of the function. */

#define PGW_EVERY  NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF

#define PGW_MAIN(args, set, field, post)                                      \
    NGX_HTTP_MAIN_CONF|NGX_CONF_##args, set, NGX_HTTP_MAIN_CONF_OFFSET,       \
    offsetof(ngx_http_pgw_main_conf_t, field), post

#define PGW_IN(where, args, set, field, post)                                 \
    where|NGX_CONF_##args, set, NGX_HTTP_LOC_CONF_OFFSET,                     \
    offsetof(ngx_http_pgw_loc_conf_t, field), post

#define PGW_ANY(args, set, field, post)                                       \
    PGW_IN(PGW_EVERY, args, set, field, post)

#define PGW_LOC(args, set, field, post)                                       \
    PGW_IN(NGX_HTTP_LOC_CONF, args, set, field, post)

#define PGW_FLAG(field)                                                       \
    PGW_ANY(FLAG, ngx_conf_set_flag_slot, field, NULL)

/* a directive of the first issuer */
#define PGW_ISSUER(args)                                                      \
    PGW_MAIN(args, ngx_http_pgw_trust_first, issuers, NULL)

#define PGW_CONTENT(args, content)                                            \
    PGW_LOC(args, ngx_http_pgw_content_directive, handler,                    \
            &ngx_http_pgw_##content)

#define PGW_POST(check)  (&(ngx_conf_post_t) { check })

static ngx_conf_num_bounds_t  ngx_http_pgw_waiters_bounds =
    { ngx_conf_check_num_bounds, 0, 65535 };


static ngx_conf_enum_t  ngx_http_pgw_bound[] = {
    { ngx_string("accept"), NGX_HTTP_PGW_BOUND_ACCEPT },
    { ngx_string("require"), NGX_HTTP_PGW_BOUND_REQUIRE },
    { ngx_null_string, 0 }
};


static ngx_command_t  ngx_http_pgw_commands[] = {

    /* access; not allowed inside "if" */

    { ngx_string("platform_gateway"), PGW_FLAG(enable) },
    { ngx_string("platform_gateway_access"),
      PGW_ANY(1MORE, ngx_conf_set_bitmask_slot, access, &ngx_http_pgw_levels) },
    { ngx_string("platform_gateway_methods"),
      PGW_LOC(1MORE, ngx_conf_set_bitmask_slot, methods,
              &ngx_http_pgw_methods) },
    { ngx_string("platform_gateway_route"),
      PGW_IN(NGX_HTTP_SRV_CONF|NGX_HTTP_LOC_CONF, TAKE12,
             ngx_http_pgw_conf_route, route_id, NULL) },
    { ngx_string("platform_gateway_shadow"), PGW_FLAG(shadow) },
    { ngx_string("platform_gateway_strict_path"), PGW_FLAG(strict_path) },
    { ngx_string("platform_gateway_strict_origin"), PGW_FLAG(strict_origin) },
    { ngx_string("platform_gateway_single_header"),
      PGW_ANY(1MORE, ngx_http_pgw_single_directive, single_headers, NULL) },
    { ngx_string("platform_gateway_allow_return"),
      PGW_LOC(FLAG, ngx_conf_set_flag_slot, allow_return, NULL) },
    { ngx_string("platform_gateway_allow_cache"), PGW_FLAG(allow_cache) },

    /* sources of keys */

    { ngx_string("platform_gateway_zone"),
      PGW_MAIN(TAKE1, ngx_http_pgw_issuer_conf_zone, zone_name, NULL) },
    { ngx_string("platform_gateway_key_location"),
      NGX_HTTP_SRV_CONF|NGX_CONF_TAKE1,
      ngx_http_pgw_trust_first, NGX_HTTP_SRV_CONF_OFFSET, 0, NULL },
    { ngx_string("platform_gateway_key_file"), PGW_ISSUER(TAKE1) },
    { ngx_string("platform_gateway_key_cache_file"), PGW_ISSUER(TAKE1) },
    { ngx_string("platform_gateway_key_soft_age"), PGW_ISSUER(TAKE1) },
    { ngx_string("platform_gateway_key_hard_age"), PGW_ISSUER(TAKE1) },
    { ngx_string("platform_gateway_key_cooldown"), PGW_ISSUER(TAKE1) },
    { ngx_string("platform_gateway_key_wait"),
      PGW_MAIN(TAKE1, ngx_conf_set_msec_slot, key_wait, NULL) },
    { ngx_string("platform_gateway_key_waiters"),
      PGW_MAIN(TAKE1, ngx_conf_set_num_slot, key_waiters,
               &ngx_http_pgw_waiters_bounds) },

    /* ended sessions */

    { ngx_string("platform_gateway_revocations"), PGW_ISSUER(1MORE) },
    { ngx_string("platform_gateway_revocations_stale"),
      PGW_MAIN(TAKE12, ngx_http_pgw_feed_conf_stale, revocations_after, NULL) },

    /* policy of tokens */

    { ngx_string("platform_gateway_trust"),
      PGW_MAIN(BLOCK|NGX_CONF_TAKE1, ngx_http_pgw_trust_block, issuers, NULL) },
    { ngx_string("platform_gateway_trusted"),
      PGW_ANY(1MORE, ngx_http_pgw_trust_names, trusted, NULL) },
    { ngx_string("platform_gateway_issuer"),
      PGW_ANY(1MORE, ngx_http_pgw_conf_strings, issuers, NULL) },
    { ngx_string("platform_gateway_audience"),
      PGW_ANY(1MORE, ngx_http_pgw_conf_strings, audiences, NULL) },
    { ngx_string("platform_gateway_require"),
      PGW_ANY(1MORE, ngx_http_pgw_require_directive, required, NULL) },
    { ngx_string("platform_gateway_authentication"),
      PGW_ANY(TAKE12, ngx_http_pgw_authentication_directive, authentication,
              NULL) },
    { ngx_string("platform_gateway_leeway"),
      PGW_ANY(TAKE1, ngx_conf_set_sec_slot, leeway,
              PGW_POST(ngx_http_pgw_conf_leeway)) },
    { ngx_string("platform_gateway_token_max_size"),
      PGW_ANY(TAKE1, ngx_conf_set_size_slot, token_max_size, NULL) },
    { ngx_string("platform_gateway_token_from"),
      PGW_ANY(TAKE12, ngx_http_pgw_source_directive, token_from, NULL) },
    { ngx_string("platform_gateway_close_at_expiry"),
      PGW_FLAG(close_at_expiry) },
    { ngx_string("platform_gateway_allow_confirmation"),
      PGW_FLAG(allow_confirmation) },
    { ngx_string("platform_gateway_proof"),
      PGW_MAIN(1MORE, ngx_http_pgw_proof_conf_directive, proof, NULL) },
    { ngx_string("platform_gateway_proof_origin"),
      PGW_ANY(1MORE, ngx_http_pgw_proof_conf_origins, proof_origins, NULL) },
    { ngx_string("platform_gateway_bound"),
      PGW_ANY(TAKE1, ngx_conf_set_enum_slot, bound, &ngx_http_pgw_bound) },
    { ngx_string("platform_gateway_client_certificate"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_CONF_1MORE,
      ngx_http_pgw_certificate_directive, NGX_HTTP_SRV_CONF_OFFSET, 0, NULL },
    { ngx_string("platform_gateway_realm"),
      PGW_ANY(TAKE1, ngx_conf_set_str_slot, challenge,
              PGW_POST(ngx_http_pgw_conf_realm)) },
    { ngx_string("platform_gateway_resource_metadata"),
      PGW_ANY(TAKE1, ngx_conf_set_str_slot, metadata,
              PGW_POST(ngx_http_pgw_resource_url)) },
    { ngx_string("platform_gateway_token_cache"),
      PGW_MAIN(TAKE12, ngx_http_pgw_cache_directive, cache, NULL) },

    /* requests to upstreams */

    { ngx_string("platform_gateway_claim_header"),
      PGW_ANY(TAKE2, ngx_http_pgw_conf_claim, claim_map, NULL) },
    { ngx_string("platform_gateway_assertion_key"),
      PGW_MAIN(TAKE12, ngx_http_pgw_signer_directive, signer, NULL) },
    { ngx_string("platform_gateway_assertion"),
      PGW_ANY(TAKE12, ngx_http_pgw_assertion_directive, assertion, NULL) },
    { ngx_string("platform_gateway_strip_header"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_CONF_1MORE,
      ngx_http_pgw_conf_strip, NGX_HTTP_SRV_CONF_OFFSET, 0, NULL },
    { ngx_string("platform_gateway_forward_authorization"),
      PGW_FLAG(forward_authorization) },
    { ngx_string("platform_gateway_forward_proof"), PGW_FLAG(forward_proof) },
    { ngx_string("platform_gateway_trace"),
      NGX_HTTP_MAIN_CONF|NGX_HTTP_SRV_CONF|NGX_CONF_TAKE1,
      ngx_conf_set_enum_slot, NGX_HTTP_SRV_CONF_OFFSET,
      offsetof(ngx_http_pgw_srv_conf_t, trace), &ngx_http_pgw_trace_modes },

    /* CORS */

    { ngx_string("platform_gateway_cors_origins"),
      PGW_ANY(1MORE, ngx_http_pgw_cors_origins, cors_origins, NULL) },
    { ngx_string("platform_gateway_cors_methods"),
      PGW_ANY(1MORE, ngx_http_pgw_cors_list, cors_methods,
              NGX_HTTP_PGW_CORS_METHODS) },
    { ngx_string("platform_gateway_cors_headers"),
      PGW_ANY(1MORE, ngx_http_pgw_cors_list, cors_headers,
              NGX_HTTP_PGW_CORS_NAMES) },
    { ngx_string("platform_gateway_cors_expose_headers"),
      PGW_ANY(1MORE, ngx_http_pgw_cors_list, cors_exposed,
              NGX_HTTP_PGW_CORS_EXPOSED) },
    { ngx_string("platform_gateway_cors_max_age"),
      PGW_ANY(TAKE1, ngx_conf_set_sec_slot, cors_max_age, NULL) },

    /* content handlers */

    { ngx_string("platform_gateway_health"),
      PGW_CONTENT(NOARGS, local_health) },
    { ngx_string("platform_gateway_ready"),
      PGW_CONTENT(NOARGS, local_ready) },
    { ngx_string("platform_gateway_route_not_found"),
      PGW_CONTENT(NOARGS, local_route_not_found) },
    { ngx_string("platform_gateway_explain"),
      PGW_CONTENT(NOARGS|NGX_CONF_TAKE1, question_content) },
    { ngx_string("platform_gateway_forward_auth"),
      PGW_LOC(TAKE12, ngx_http_pgw_forward_auth, forward,
              &ngx_http_pgw_forward_content) },
    { ngx_string("platform_gateway_metrics"),
      PGW_CONTENT(NOARGS, metrics_content) },
    { ngx_string("platform_gateway_protected_resource"),
      PGW_LOC(1MORE, ngx_http_pgw_resource_directive, resource,
              &ngx_http_pgw_resource_content) },
    { ngx_string("platform_gateway_assertion_keys"),
      PGW_CONTENT(NOARGS, signer_content) },

      ngx_null_command
};


static ngx_http_module_t  ngx_http_pgw_module_ctx = {
    ngx_http_pgw_add_variables,            /* preconfiguration */
    ngx_http_pgw_init,                     /* postconfiguration */

    ngx_http_pgw_create_main_conf,         /* create main configuration */
    NULL,                                  /* init main configuration */

    ngx_http_pgw_conf_create_srv,          /* create server configuration */
    ngx_http_pgw_conf_merge_srv,           /* merge server configuration */

    ngx_http_pgw_create_loc_conf,          /* create location configuration */
    ngx_http_pgw_merge_loc_conf            /* merge location configuration */
};


ngx_module_t  ngx_http_platform_gateway_module = {
    NGX_MODULE_V1,
    &ngx_http_pgw_module_ctx,              /* module context */
    ngx_http_pgw_commands,                 /* module directives */
    NGX_HTTP_MODULE,                       /* module type */
    NULL,                                  /* init master */
    ngx_http_pgw_access_init_module,       /* init module */
    ngx_http_pgw_init_process,             /* init process */
    NULL,                                  /* init thread */
    NULL,                                  /* exit thread */
    ngx_http_pgw_exit_process,             /* exit process */
    NULL,                                  /* exit master */
    NGX_MODULE_V1_PADDING
};
