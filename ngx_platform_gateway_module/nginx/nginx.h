
/*
 * Structures of nginx that are not part of its module API.
 */


#ifndef _NGX_HTTP_PGW_NGINX_H_INCLUDED_
#define _NGX_HTTP_PGW_NGINX_H_INCLUDED_


#include "ngx_http_pgw.h"


/* ngx_http_pgw_peek.c */

/* What leads to a location: the location itself; in Angie there may be many. */

#if (angie_version >= 1010000)
#define NGX_HTTP_PGW_PEEK_LOC        ngx_http_core_loc_t
#define ngx_http_pgw_peek_conf(loc)  (loc)->conf
#else
#define NGX_HTTP_PGW_PEEK_LOC        ngx_http_core_loc_conf_t
#define ngx_http_pgw_peek_conf(loc)  (loc)
#endif

typedef NGX_HTTP_PGW_PEEK_LOC  ngx_http_pgw_peek_loc_t;


/* The field that a directive of any module (or of that one) sets in the
   location in ctx by that function (NULL: by any), or NULL. */
void *ngx_http_pgw_peek_field(ngx_conf_t *cf, const ngx_http_conf_ctx_t *ctx,
    const char *module, const char *directive,
    char *(*set)(ngx_conf_t *cf, ngx_command_t *cmd, void *conf));

/* The compiled code that the location or server in ctx has for the rewrite
   phase, or NULL.  Words that are a function's address mark instructions. */
const ngx_array_t *ngx_http_pgw_peek_rewrite_codes(ngx_conf_t *cf,
    const ngx_http_conf_ctx_t *ctx);

/* Whether it answers by itself in that phase: by "return", or by a "rewrite"
   that redirects. */
ngx_uint_t ngx_http_pgw_peek_rewrite_answers(ngx_conf_t *cf,
    const ngx_http_conf_ctx_t *ctx);

/* Whether its "allow" and "deny" end with "deny all", after no "allow all". */
ngx_uint_t ngx_http_pgw_peek_access_denies(ngx_conf_t *cf);

/* Whether its "proxy_pass" leads to https, or to an address made of variables,
   and nothing verifies whose certificate that server has. */
ngx_uint_t ngx_http_pgw_peek_unverified(ngx_conf_t *cf,
    const ngx_http_conf_ctx_t *ctx);

/* A module that may pass requests, and with them the trusted headers, on. */

typedef struct {
    ngx_str_t                    name;         /* "proxy" */
    const char                  *directive;    /* finds its upstream_conf */
    const char                  *param;        /* of its one record, or NULL */
} ngx_http_pgw_passer_t;

/*
 * The next such module for the location in ctx (*passer NULL: the first) and
 * its merged configuration there; NULL: no other.  The one that serves the
 * location has a fixed upstream; where none has, the address is made of
 * variables, and any of them may serve it.
 */
ngx_http_upstream_conf_t *ngx_http_pgw_peek_passer(ngx_conf_t *cf,
    const ngx_http_conf_ctx_t *ctx, const ngx_http_pgw_passer_t **passer);

/*
 * Sets *loc_conf, where the search begins (that of a server), to what serves
 * uri, as nginx finds it.  NGX_OK; NGX_DONE: nginx redirects to the path and
 * "/", which *loc_conf serves; NGX_DECLINED: no location matches, *loc_conf is
 * what it was; NGX_ERROR.
 */
ngx_int_t ngx_http_pgw_peek_find(ngx_str_t *uri, void ***loc_conf);

/* Reads a path as nginx reads that of a request line to server, into memory of
   r: decoded, without arguments.  NGX_DECLINED: it is not accepted. */
ngx_int_t ngx_http_pgw_peek_uri(const ngx_http_request_t *r,
    const ngx_http_core_srv_conf_t *server, const ngx_str_t *path,
    ngx_str_t *uri);


/* ngx_http_pgw_abi.c */

/* Refuses an nginx whose structures are laid out otherwise than those of the
   headers that this was compiled with: NGX_ERROR, and a line says which.  For
   preconfiguration, when nginx's own variables are there. */
ngx_int_t ngx_http_pgw_abi_check(ngx_conf_t *cf);

/* The same of what nginx makes of all locations, which are known by now: for
   postconfiguration.  locations: ngx_http_core_loc_conf_t *. */
ngx_int_t ngx_http_pgw_abi_locations(ngx_conf_t *cf,
    const ngx_array_t *locations);

/* The same of a zone, which nginx has just made: for its init. */
ngx_int_t ngx_http_pgw_abi_zone(const ngx_shm_zone_t *shm_zone);


#endif /* _NGX_HTTP_PGW_NGINX_H_INCLUDED_ */
