
/*
 * Directives, and the configurations that nginx -t refuses.
 */


#ifndef _NGX_HTTP_PGW_CONF_H_INCLUDED_
#define _NGX_HTTP_PGW_CONF_H_INCLUDED_


#include "ngx_http_pgw.h"


/* ngx_http_pgw_conf.c */

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


/* ngx_http_pgw_check.c */

/* What a location, before it is merged, states of its own that keeps somebody
   out: a directive's name.  NULL if it states nothing, or switches the gateway
   on or off itself. */
const char *ngx_http_pgw_check_stated(const ngx_http_pgw_loc_conf_t *conf);

/* Checks a merged location where the gateway is off, of which check_stated()
   returned that. */
char *ngx_http_pgw_check_off(ngx_conf_t *cf, const char *stated);

/* Checks a merged location where the gateway is on; notes in the main conf that
   keys are needed, and sets conf->one_record. */
char *ngx_http_pgw_check_location(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *prev, ngx_http_pgw_loc_conf_t *conf);


/*
 * platform_gateway_trust NAME { ... }: an issuer of its own.
 */


/* Reads a block, and adds its issuer to the end of mcf->issuers. */
ngx_http_pgw_set_t  ngx_http_pgw_trust_block;

/* A line of it, "platform_gateway_" before its name: of the issuer without a
   block. */
ngx_http_pgw_set_t  ngx_http_pgw_trust_own;

/* platform_gateway_trusted NAME ...; */
ngx_http_pgw_set_t  ngx_http_pgw_trust_names;

/*
 * Completes conf->trusted, the names that platform_gateway_trusted lists, by
 * their issuers; called when the location is merged, which is after all blocks.
 */
char *ngx_http_pgw_trust_merge(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_issuer_conf.c */

/* One with nothing set; NULL: out of memory. */
ngx_http_pgw_issuer_t *ngx_http_pgw_issuer_conf_new(ngx_conf_t *cf);

ngx_http_pgw_set_t  ngx_http_pgw_issuer_conf_zone;

/* These set an issuer_t. */
ngx_http_pgw_set_t  ngx_http_pgw_issuer_conf_file;
ngx_http_pgw_set_t  ngx_http_pgw_issuer_conf_location;

char *ngx_http_pgw_issuer_conf_cache_file(ngx_conf_t *cf, void *post,
    void *data);

/*
 * Called at postconfiguration, when every location is merged: defaults of what
 * is unset, zones, and the checks.
 */
char *ngx_http_pgw_issuer_conf_init(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);


/* ngx_http_pgw_feed_conf.c */

/* Sets an issuer_t. */
ngx_http_pgw_set_t  ngx_http_pgw_feed_conf_revocations;

ngx_http_pgw_set_t  ngx_http_pgw_feed_conf_stale;

/* Called when the names of the issuer are known: defaults, the zone, and the
   checks. */
char *ngx_http_pgw_feed_conf_init(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf, ngx_http_pgw_issuer_t *issuer);


/* ngx_http_pgw_fetch_conf.c */

/* Takes the location of cf, if it is internal, for that of the sources that
   name it and have none yet.  fetch_conf_check then searches as nginx does. */
void ngx_http_pgw_fetch_conf_claim(ngx_conf_t *cf);

/* Makes from one like as, with data for its handler and the place of cf, and
   adds it to the sources. */
void ngx_http_pgw_fetch_conf_add(ngx_conf_t *cf, ngx_http_pgw_source_t *from,
    const ngx_http_pgw_source_t *as, void *data);

/* Sets from->log. */
void ngx_http_pgw_fetch_conf_log(ngx_conf_t *cf, ngx_http_pgw_source_t *from);

/*
 * Checks the location of the server in from->ctx (NULL: the first that has an
 * internal one of that URI), and adds it to from->source, with where it leads.
 */
char *ngx_http_pgw_fetch_conf_check(ngx_conf_t *cf,
    ngx_http_pgw_source_t *from);


/* ngx_http_pgw_counters_conf.c */

/* Adds the zone of the counters, with the name and the size of the zone of
   keys.  Called at postconfiguration. */
char *ngx_http_pgw_counters_conf_init(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);


/* ngx_http_pgw_content.c */

/* Directives: set the content handler that cmd->post points to. */
ngx_http_pgw_set_t  ngx_http_pgw_content_directive;

/* Completes conf.  Refuses a location that explains unless it is closed to
   clients, and its server is exactly one. */
char *ngx_http_pgw_content_merge(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *prev, ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_resource.c */

/* Refuses what is no URL of a resource's metadata. */
char *ngx_http_pgw_resource_url(ngx_conf_t *cf, void *post, void *data);

/* platform_gateway_protected_resource URL [SCOPE ...]; its content handler. */
ngx_http_pgw_set_t  ngx_http_pgw_resource_directive;

/* Writes conf->document.  Refuses a document that would list no issuer. */
char *ngx_http_pgw_resource_merge(ngx_conf_t *cf,
    ngx_http_pgw_loc_conf_t *conf);

extern ngx_http_pgw_content_t  ngx_http_pgw_resource_content;


#endif /* _NGX_HTTP_PGW_CONF_H_INCLUDED_ */
