
/*
 * Structures of nginx that are not part of its module API.
 */


#ifndef _NGX_HTTP_PGW_NGINX_H_INCLUDED_
#define _NGX_HTTP_PGW_NGINX_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Configurations and contexts of a request, and of a configuration line. */

#define ngx_http_pgw_main(r)                                                  \
    ((ngx_http_pgw_main_conf_t *)                                             \
     ngx_http_get_module_main_conf(r, ngx_http_platform_gateway_module))

#define ngx_http_pgw_srv(r)                                                   \
    ((ngx_http_pgw_srv_conf_t *)                                              \
     ngx_http_get_module_srv_conf(r, ngx_http_platform_gateway_module))

#define ngx_http_pgw_loc(r)                                                   \
    ((ngx_http_pgw_loc_conf_t *)                                              \
     ngx_http_get_module_loc_conf(r, ngx_http_platform_gateway_module))

#define ngx_http_pgw_ctx(r)                                                   \
    ((ngx_http_pgw_ctx_t *)                                                   \
     ngx_http_get_module_ctx(r, ngx_http_platform_gateway_module))

#define ngx_http_pgw_core(r)                                                  \
    ((ngx_http_core_loc_conf_t *)                                             \
     ngx_http_get_module_loc_conf(r, ngx_http_core_module))

#define ngx_http_pgw_conf_core(cf)                                            \
    ((ngx_http_core_loc_conf_t *)                                             \
     ngx_http_conf_get_module_loc_conf(cf, ngx_http_core_module))

#define ngx_http_pgw_conf_server(cf)                                          \
    ((ngx_http_core_srv_conf_t *)                                             \
     ngx_http_conf_get_module_srv_conf(cf, ngx_http_core_module))

#define ngx_http_pgw_conf_main(cf)                                            \
    ((ngx_http_pgw_main_conf_t *)                                             \
     ngx_http_conf_get_module_main_conf(cf, ngx_http_platform_gateway_module))

#define ngx_http_pgw_conf_nginx(cf)                                           \
    ((ngx_http_core_main_conf_t *)                                            \
     ngx_http_conf_get_module_main_conf(cf, ngx_http_core_module))


#if (nginx_version < 1022000)
#error nginx 1.22 or newer is needed
#endif


/* The location of an element in nginx's list of them.  In Angie several
   elements may have the same location. */

#if (angie_version)
#define ngx_http_pgw_queued_location(lq)                                      \
    ((lq)->exact ? (lq)->exact->conf : (lq)->inclusive->conf)
#else
#define ngx_http_pgw_queued_location(lq)                                      \
    ((lq)->exact ? (lq)->exact : (lq)->inclusive)
#endif


/* Makes nginx link headers with equal names again, after some were removed. */

#if (nginx_version >= 1023000)
#define ngx_http_pgw_headers_relink(r)  (r)->headers_in.multi_linked = 0
#else
#define ngx_http_pgw_headers_relink(r)
#endif


/* Appends the description of a log's request to a line of the error log. */

static ngx_inline u_char *
ngx_http_pgw_log_request(ngx_log_t *log, u_char *p, u_char *last)
{
    ngx_http_log_ctx_t  *ctx = log->data;

#if (angie_version >= 1012000)

    /* a log in JSON escapes our text, but not if the request adds members */

    return log->format.type == NGX_STR_ESCAPE_JSON
           ? p : ctx->request->log_handler(log, p, last, ctx);
#else
    return ctx->request->log_handler(ctx->request, ctx->current_request, p,
                                     (size_t) (last - p));
#endif
}


/* ngx_http_pgw_peek.c */

/* The first directive of that name that is set in locations, and its module.
   module and set narrow the search if they are not NULL.  Returns NULL if the
   directive is not found. */
ngx_command_t *ngx_http_pgw_peek_command(ngx_conf_t *cf, const char *module,
    const char *directive,
    char *(*set)(ngx_conf_t *cf, ngx_command_t *cmd, void *conf),
    ngx_module_t **found);

/* The field that such a directive sets in the location in ctx, or NULL. */
void *ngx_http_pgw_peek_field(ngx_conf_t *cf, const ngx_http_conf_ctx_t *ctx,
    const char *module, const char *directive,
    char *(*set)(ngx_conf_t *cf, ngx_command_t *cmd, void *conf));

/* The code of the location or server in ctx for the rewrite phase, or NULL.  An
   instruction begins with the address of its function. */
const ngx_array_t *ngx_http_pgw_peek_rewrite_codes(ngx_conf_t *cf,
    const ngx_http_conf_ctx_t *ctx);

/* Returns 1 if this code has a "return", or a "rewrite" that redirects. */
ngx_uint_t ngx_http_pgw_peek_rewrite_answers(ngx_conf_t *cf,
    const ngx_http_conf_ctx_t *ctx);

/* Returns 1 if the last access rule of the location in cf is "deny all", and no
   rule is "allow all". */
ngx_uint_t ngx_http_pgw_peek_access_denies(ngx_conf_t *cf);

/* Returns 1 if "proxy_pass" uses https, or an address made of variables, and
   does not verify the server's certificate. */
ngx_uint_t ngx_http_pgw_peek_unverified(ngx_conf_t *cf,
    const ngx_http_conf_ctx_t *ctx);

/* Returns 1 if the server of ctx asks its clients for certificates. */
ngx_uint_t ngx_http_pgw_peek_asks_certificate(ngx_conf_t *cf,
    const ngx_http_conf_ctx_t *ctx);

/* A module that passes requests to upstreams. */

typedef struct {
    ngx_str_t                    name;         /* "proxy" */
    const char                  *directive;    /* leads to upstream_conf */
    const char                  *param;        /* its directive for parameters
                                                  if they share one record with
                                                  the headers, else NULL */
} ngx_http_pgw_passer_t;

/*
 * Returns the upstream configuration of the next module that may serve the
 * location in ctx, NULL after the last; *passer is NULL for the first call.
 * A module that has a fixed upstream there serves it alone.  If none has, the
 * address may be made of variables, and each of the modules is returned.
 */
ngx_http_upstream_conf_t *ngx_http_pgw_peek_passer(ngx_conf_t *cf,
    const ngx_http_conf_ctx_t *ctx, const ngx_http_pgw_passer_t **passer);

/*
 * Finds the location of server for a path as in a request line, by nginx's own
 * search.  *loc_conf is its configuration, or that of the server if no location
 * matches.  Returns NGX_OK; NGX_DONE if nginx would redirect to the path with a
 * final "/", and *loc_conf is of the location of that path; NGX_DECLINED if
 * nginx would refuse the path; or NGX_ERROR.
 */
ngx_int_t ngx_http_pgw_peek_location(ngx_http_request_t *r,
    const ngx_http_core_srv_conf_t *server, ngx_str_t *path, void ***loc_conf);


/* ngx_http_pgw_abi.c */

/* Compares structures with the headers that the module was compiled with.
   Returns NGX_ERROR, and logs the first difference.  For preconfiguration, when
   nginx's own variables are defined. */
ngx_int_t ngx_http_pgw_abi_check(ngx_conf_t *cf);

/* Compares the code of the rewrite module, in postconfiguration. */
ngx_int_t ngx_http_pgw_abi_codes(ngx_conf_t *cf);

/* Compares the header of a zone that nginx has just created. */
ngx_int_t ngx_http_pgw_abi_zone(const ngx_shm_zone_t *shm_zone);


#endif /* _NGX_HTTP_PGW_NGINX_H_INCLUDED_ */
