
/*
 * Directives and the zone of proofs of possession, and their checks by
 * nginx -t.
 */


#include "conf/conf.h"
#include "token/token.h"
#include "base/base.h"
#include "nginx/nginx.h"


#define NGX_HTTP_PGW_PROOF_MIN_ZONE    (32 * 1024)
#define NGX_HTTP_PGW_PROOF_WINDOW      60   /* s */
#define NGX_HTTP_PGW_PROOF_WINDOW_MIN  5


static char *
ngx_http_pgw_proof_conf_parameter(ngx_conf_t *cf, ngx_http_pgw_proof_t *proof,
    const ngx_str_t *value)
{
    ngx_str_t  text;

    if (ngx_http_pgw_names_parameter(value, "zone", &text)) {
        return ngx_http_pgw_conf_zone(cf, &text, "proofs:8m",
                                      NGX_HTTP_PGW_PROOF_MIN_ZONE,
                                      &proof->zone_name, &proof->zone_size);
    }

    if (ngx_http_pgw_names_parameter(value, "window", &text)) {
        proof->window = (time_t) ngx_parse_time(&text, 1);

        if (proof->window >= NGX_HTTP_PGW_PROOF_WINDOW_MIN
            && proof->window <= NGX_HTTP_PGW_REPLAY_WINDOW_MAX)
        {
            return NGX_CONF_OK;
        }

    } else if (ngx_http_pgw_names_parameter(value, "nonce", &text)) {
        proof->nonce = (ngx_strcmp(text.data, "on") == 0);

        if (proof->nonce || ngx_strcmp(text.data, "off") == 0) {
            return NGX_CONF_OK;
        }
    }

    ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                       "invalid parameter \"%V\": say \"zone=NAME:SIZE\", and "
                       "if need be \"window=TIME\" of 5s to 5m, \"nonce=on\"",
                       value);

    return NGX_CONF_ERROR;
}


/* platform_gateway_proof zone=NAME:SIZE [window=TIME] [nonce=on|off]; */

char *
ngx_http_pgw_proof_conf_directive(ngx_conf_t *cf, ngx_command_t *cmd,
    void *conf)
{
    ngx_http_pgw_main_conf_t  *mcf = conf;

    ngx_str_t             *value = cf->args->elts;
    ngx_uint_t             i;
    ngx_http_pgw_proof_t  *proof;

    if (mcf->proof) {
        return "is duplicate";
    }

    proof = ngx_pcalloc(cf->pool, sizeof(ngx_http_pgw_proof_t));
    if (proof == NULL) {
        return NGX_CONF_ERROR;
    }

    mcf->proof = proof;
    proof->window = NGX_HTTP_PGW_PROOF_WINDOW;
    ngx_http_pgw_conf_place(cf, &proof->place);

    for (i = 1; i < cf->args->nelts; i++) {
        if (ngx_http_pgw_proof_conf_parameter(cf, proof, &value[i])
            != NGX_CONF_OK)
        {
            return NGX_CONF_ERROR;
        }
    }

    return proof->zone_size ? NGX_CONF_OK : "needs \"zone=NAME:SIZE\"";
}


/* platform_gateway_proof_origin ORIGIN ... | off; */

char *
ngx_http_pgw_proof_conf_origins(ngx_conf_t *cf, ngx_command_t *cmd, void *conf)
{
    ngx_http_pgw_loc_conf_t  *lcf = conf;

    u_char        *text;
    pj_str_t      *origin;
    ngx_str_t     *value = cf->args->elts;
    ngx_uint_t     i;
    const char    *fault;
    web_origin_t   normal;

    if (lcf->proof_origins != NGX_CONF_UNSET_PTR) {
        return "is duplicate";
    }

    if (cf->args->nelts == 2 && ngx_strcmp(value[1].data, "off") == 0) {
        lcf->proof_origins = NULL;
        return NGX_CONF_OK;
    }

    for (i = 1; i < cf->args->nelts; i++) {

        origin = ngx_http_pgw_names_push(cf, &lcf->proof_origins,
                                         sizeof(pj_str_t));
        text = ngx_pnalloc(cf->pool, value[i].len + 1);

        if (origin == NULL || text == NULL) {
            return NGX_CONF_ERROR;
        }

        ngx_strlow(text, value[i].data, value[i].len + 1);

        fault = ngx_strncmp(text, "http://", 7) != 0
                && ngx_strncmp(text, "https://", 8) != 0
                ? "it must be http://host or https://host, with a port if need "
                  "be"
                : ngx_strchr(text, '*') ? "each origin must be named"
                : ngx_http_pgw_origin_fault((const char *) text);

        if (fault) {
            ngx_conf_log_error(NGX_LOG_EMERG, cf, 0,
                               "invalid origin \"%V\" in \"%V\": %s",
                               &value[i], &cmd->name, fault);
            return NGX_CONF_ERROR;
        }

        web_origin_set(&normal, (pj_str_t) { text, value[i].len });
        *origin = normal.text;
    }

    return NGX_CONF_OK;
}


char *
ngx_http_pgw_proof_conf_check(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *conf)
{
    const char                *fault;
    ngx_http_pgw_main_conf_t  *mcf = ngx_http_pgw_conf_main(cf);
    ngx_http_pgw_srv_conf_t   *sscf;

    sscf = ngx_http_conf_get_module_srv_conf(cf,
                                             ngx_http_platform_gateway_module);

    fault = conf->proof_origins && mcf->proof == NULL
            ? "has \"platform_gateway_proof_origin\", and no proof is checked: "
              "add \"platform_gateway_proof\" to http,"
            : conf->proof_origins && conf->allow_confirmation
            ? "checks proofs (\"platform_gateway_proof_origin\"), while "
              "\"platform_gateway_allow_confirmation\" accepts tokens without "
              "them: leave one out, or say "
              "\"platform_gateway_proof_origin off\","
            : conf->proof_origins == NULL && sscf->certificate == 0
              && conf->bound == NGX_HTTP_PGW_BOUND_REQUIRE
            ? "requires bound tokens, and accepts none: add "
              "\"platform_gateway_proof_origin\", the scheme and host that its "
              "clients use,"
            : sscf->certificate && conf->allow_confirmation
            ? "checks certificates (\"platform_gateway_client_certificate\"), "
              "while \"platform_gateway_allow_confirmation\" accepts tokens "
              "without a check: leave one out,"
            : sscf->certificate == NGX_HTTP_PGW_CERTIFICATE_CONNECTION
              && !ngx_http_pgw_peek_asks_certificate(cf, cf->ctx)
            ? "accepts tokens by \"platform_gateway_client_certificate "
              "connection\", and its server asks no client for a certificate: "
              "say \"ssl_verify_client optional_no_ca\"," : NULL;

    return fault ? ngx_http_pgw_conf_fail(cf, NULL, fault) : NGX_CONF_OK;
}


char *
ngx_http_pgw_proof_conf_init(ngx_conf_t *cf, ngx_http_pgw_main_conf_t *mcf)
{
    ngx_shm_zone_t        *shm_zone;
    ngx_http_pgw_proof_t  *proof = mcf->proof;

    if (proof == NULL) {
        return NGX_CONF_OK;
    }

    shm_zone = ngx_shared_memory_add(cf, &proof->zone_name, proof->zone_size,
                                     &ngx_http_platform_gateway_module);
    if (shm_zone == NULL) {
        return NGX_CONF_ERROR;
    }

    if (shm_zone->init) {
        return ngx_http_pgw_conf_fail(cf, &proof->place,
                   "zone \"%V\" of \"platform_gateway_proof\" is also another "
                   "zone of the gateway: choose another name,",
                   &proof->zone_name);
    }

    shm_zone->init = ngx_http_pgw_proof_zone_init;
    shm_zone->data = proof;
    proof->shm_zone = shm_zone;

    return NGX_CONF_OK;
}
