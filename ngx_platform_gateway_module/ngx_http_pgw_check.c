
/*
 * What nginx -t refuses: locations that would let in whom they should not, or
 * nobody at all.
 */


#include "ngx_http_pgw_keys.h"
#include "ngx_http_pgw_peek.h"


/*
 * What a client may send where its headers go on in one record of 64 KiB: the
 * rest is for parameters and trusted headers.
 */
#define NGX_HTTP_PGW_RECORD_HEAD  (56 * 1024)


static const char *ngx_http_pgw_check_guarded(ngx_conf_t *cf,
    ngx_http_pgw_loc_conf_t *conf);
static const char *ngx_http_pgw_check_buffers(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *conf);
static const char *ngx_http_pgw_check_record(ngx_conf_t *cf,
    ngx_http_pgw_loc_conf_t *conf);
static const char *ngx_http_pgw_check_passers(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *conf);
static const char *ngx_http_pgw_check_upstream(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_upstream_conf_t *u,
    const ngx_str_t *module);
static const char *ngx_http_pgw_check_say(ngx_conf_t *cf, const char *format,
    ...);


char *
ngx_http_pgw_check_location(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    const char                *err;
    ngx_http_core_loc_conf_t  *clcf;

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    err = NULL;

    if (conf->access == 0 && clcf->handler) {
        err = "has a content handler and no \"platform_gateway_access\": "
              "give it a level, \"public\" if anybody may enter";

    } else if (conf->access & NGX_HTTP_PGW_GUARDED) {
        err = ngx_http_pgw_check_guarded(cf, conf);
    }

    if (err == NULL) {
        err = ngx_http_pgw_check_record(cf, conf);
    }

    if (err == NULL) {
        return NGX_CONF_OK;
    }

    /* nginx is at the end of http{} by now: say where the block began */

    if (clcf->name.len) {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "platform_gateway: location \"%V\" %s in %V:%ui",
                      &clcf->name, err, &conf->conf_file, conf->conf_line);

    } else {
        ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                      "platform_gateway: the server %s in %V:%ui",
                      err, &conf->conf_file, conf->conf_line);
    }

    return NGX_CONF_ERROR;
}


char *
ngx_http_pgw_check_keys(ngx_conf_t *cf, const ngx_http_pgw_main_conf_t *mcf)
{
    const ngx_http_pgw_loc_conf_t  *conf;

    conf = mcf->guarded;

    if (conf == NULL || ngx_http_pgw_keys_usable(mcf->keys)) {
        return NGX_CONF_OK;
    }

    ngx_log_error(NGX_LOG_EMERG, cf->log, 0,
                  "platform_gateway: a guarded location needs keys to check "
                  "tokens with: add \"platform_gateway_key_location\" to a "
                  "server, or \"platform_gateway_key_file\" to http, for the "
                  "location in %V:%ui",
                  &conf->conf_file, conf->conf_line);

    return NGX_CONF_ERROR;
}


static const char *
ngx_http_pgw_check_guarded(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    const char                *err;
    ngx_http_core_loc_conf_t  *clcf;
    ngx_http_pgw_main_conf_t  *mcf;

    mcf = ngx_http_conf_get_module_main_conf(cf,
                                             ngx_http_platform_gateway_module);

    if (mcf->guarded == NULL) {
        mcf->guarded = conf;
    }

    if (conf->access & NGX_HTTP_PGW_PUBLIC) {
        return "is both \"public\" and guarded: "
               "\"public\" must stand alone in \"platform_gateway_access\"";
    }

    if (conf->issuers == NULL) {
        return "is guarded and has no issuer: add "
               "\"platform_gateway_issuer\", the \"iss\" of its tokens";
    }

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);

    /* a "return" of server{}, which has no name, leaves nothing to guard */

    if (clcf->name.len
        && !conf->allow_return
        && ngx_http_pgw_peek_rewrite_answers(cf))
    {
        return "is guarded, but its \"return\" or redirecting \"rewrite\" "
               "answers before the guard: move it to a public location, or "
               "say \"platform_gateway_allow_return on\"";
    }

    err = ngx_http_pgw_check_buffers(cf, conf);
    if (err) {
        return err;
    }

    /* nobody's token is looked at where the keys come from */

    if (clcf->handler == NULL
        || (clcf->internal && mcf->keys->location.len
            && ngx_strcmp(clcf->name.data, mcf->keys->location.data) == 0))
    {
        return NULL;
    }

    return ngx_http_pgw_check_passers(cf, conf);
}


/* nginx takes a header line into one buffer, or refuses the request. */

static const char *
ngx_http_pgw_check_buffers(ngx_conf_t *cf, const ngx_http_pgw_loc_conf_t *conf)
{
    size_t                     need;
    ngx_http_core_srv_conf_t  *cscf;

    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    need = conf->token_max_size
           + sizeof("Authorization: Bearer " CRLF) - 1;

    if (cscf->large_client_header_buffers.size >= need) {
        return NULL;
    }

    return ngx_http_pgw_check_say(cf,
               "accepts tokens of %uz bytes (\"platform_gateway_token_max_"
               "size\"), which \"large_client_header_buffers\" of %uz bytes "
               "cannot hold: say \"large_client_header_buffers 2 %uzk\" in "
               "its server, or accept smaller tokens",
               conf->token_max_size, cscf->large_client_header_buffers.size,
               (conf->token_max_size + conf->token_max_size / 2 + 1023)
               / 1024);
}


/*
 * An address that is made of variables may be anybody's: that it is such a
 * protocol's is then likely where there are parameters for it.
 */

static const char *
ngx_http_pgw_check_record(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf)
{
    size_t                           head;
    ngx_uint_t                       i, known;
    ngx_array_t                    **params;
    ngx_http_core_loc_conf_t        *clcf;
    ngx_http_core_srv_conf_t        *cscf;
    const ngx_http_upstream_conf_t  *u;

    static const ngx_str_t  modules[] = {
        ngx_string("fastcgi"), ngx_string("uwsgi")
    };

    static const char * const  directives[] = {
        "fastcgi_param", "uwsgi_param"
    };

    clcf = ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module);
    cscf = ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module);

    head = cscf->client_header_buffer_size
           + (size_t) cscf->large_client_header_buffers.num
             * cscf->large_client_header_buffers.size;

    for (i = 0; i < 2; i++) {

        u = ngx_http_pgw_peek_passes(cf, &modules[i], &known);
        params = ngx_http_pgw_peek_field(cf, directives[i],
                                         ngx_http_upstream_param_set_slot);

        if (u && u->upstream) {
            conf->one_record = 1;

            if (head > NGX_HTTP_PGW_RECORD_HEAD) {
                return ngx_http_pgw_check_say(cf,
                           "uses \"%V_pass\", which carries a request's "
                           "headers in one record of 64k, and takes up to %uz "
                           "bytes of them: say "
                           "\"large_client_header_buffers 2 24k\" in its "
                           "server", &modules[i], head);
            }

        } else if (!known && clcf->handler && params && *params) {
            conf->one_record = 1;
        }
    }

    return NULL;
}


/*
 * The module that serves the location is one with an upstream.  Where none
 * has, its address is made of variables, and it may be any of them.
 */

static const char *
ngx_http_pgw_check_passers(ngx_conf_t *cf, const ngx_http_pgw_loc_conf_t *conf)
{
    ngx_uint_t                       i, known;
    const char                      *err;
    const ngx_http_upstream_conf_t  *u;

    static const ngx_str_t  modules[] = {
        ngx_string("proxy"),
        ngx_string("fastcgi"),
        ngx_string("scgi"),
        ngx_string("uwsgi")
    };

    for (i = 0; i < sizeof(modules) / sizeof(modules[0]); i++) {

        u = ngx_http_pgw_peek_passes(cf, &modules[i], &known);

        if (u == NULL || (known && u->upstream == NULL)) {
            continue;
        }

        err = ngx_http_pgw_check_upstream(cf, conf, u, &modules[i]);
        if (err) {
            return err;
        }
    }

    return NULL;
}


static const char *
ngx_http_pgw_check_upstream(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *conf, const ngx_http_upstream_conf_t *u,
    const ngx_str_t *module)
{
    if (u->pass_request_headers == 0) {
        return ngx_http_pgw_check_say(cf,
                   "is guarded, but \"%V_pass_request_headers off\" keeps the "
                   "trusted headers from its upstream: take it out of this "
                   "location", module);
    }

    if (conf->allow_cache) {
        return NULL;
    }

    if (u->store > 0
#if (NGX_HTTP_CACHE)
        || u->cache > 0
#endif
       )
    {
        return ngx_http_pgw_check_say(cf,
                   "is guarded, but \"%V_cache\" or \"%V_store\" keeps "
                   "what one client was sent for the next: switch it off "
                   "there, or, where its key tells clients apart or all may "
                   "see the same, say \"platform_gateway_allow_cache on\"",
                   module, module);
    }

    return NULL;
}


static const char *
ngx_http_pgw_check_say(ngx_conf_t *cf, const char *format, ...)
{
    u_char  *p;
    va_list  args;

    p = ngx_pnalloc(cf->pool, NGX_MAX_CONF_ERRSTR);
    if (p == NULL) {
        return "cannot be checked: no memory";
    }

    va_start(args, format);
    *ngx_vslprintf(p, p + NGX_MAX_CONF_ERRSTR - 1, format, args) = '\0';
    va_end(args);

    return (const char *) p;
}
