
#ifndef _NGX_HTTP_PGW_CONF_H_INCLUDED_
#define _NGX_HTTP_PGW_CONF_H_INCLUDED_


#include "ngx_http_pgw.h"


/* Methods by name, in the order in which Allow lists them. */
extern ngx_conf_bitmask_t  ngx_http_pgw_methods[];

/* Access levels by name; one has two. */
extern ngx_conf_bitmask_t  ngx_http_pgw_levels[];

ngx_http_pgw_set_t  ngx_http_pgw_conf_strings;  /* an array of pj_str_t */
ngx_http_pgw_set_t  ngx_http_pgw_conf_route;
ngx_http_pgw_set_t  ngx_http_pgw_conf_claim;
ngx_http_pgw_set_t  ngx_http_pgw_conf_strip;

/* Refuses the name of a claim that is a path. */
char *ngx_http_pgw_conf_path(ngx_conf_t *cf, const ngx_str_t *claim);

/* NAME:SIZE, of at least min bytes. */
char *ngx_http_pgw_conf_zone(ngx_conf_t *cf, const ngx_str_t *value,
    const char *example, ssize_t min, ngx_str_t *name, size_t *zone_size);

char *ngx_http_pgw_conf_leeway(ngx_conf_t *cf, void *post, void *data);
char *ngx_http_pgw_conf_realm(ngx_conf_t *cf, void *post, void *data);

/* The srv_conf_t, with the names that every server strips. */
void *ngx_http_pgw_conf_create_srv(ngx_conf_t *cf);
char *ngx_http_pgw_conf_merge_srv(ngx_conf_t *cf, void *parent, void *child);

/* Completes conf->methods; writes conf->levels, conf->scopes, conf->allow. */
char *ngx_http_pgw_conf_names(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf);

/* Merges the claim maps; the header names in conf's map are stripped too. */
char *ngx_http_pgw_conf_merge_claims(ngx_conf_t *cf,
    ngx_http_pgw_loc_conf_t *prev, ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_srv_conf_t *sscf);

/* Notes where cf is. */
void ngx_http_pgw_conf_place(ngx_conf_t *cf, ngx_http_pgw_place_t *place);

/* Logs "... in FILE:LINE", for checks at which nginx is past that line (at the
   end of http{}).  place NULL: that of the location in cf, whose name then
   begins the text.  Returns NGX_CONF_ERROR. */
char *ngx_http_pgw_conf_fail(ngx_conf_t *cf,
    const ngx_http_pgw_place_t *place, const char *format, ...);


#endif /* _NGX_HTTP_PGW_CONF_H_INCLUDED_ */
