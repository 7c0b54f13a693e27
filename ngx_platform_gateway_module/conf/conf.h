
/*
 * Directives, and the checks of nginx -t.
 */


#ifndef _NGX_HTTP_PGW_CONF_H_INCLUDED_
#define _NGX_HTTP_PGW_CONF_H_INCLUDED_


#include "ngx_http_pgw.h"


/* A content handler of the gateway. */

typedef struct {
    ngx_http_handler_pt          handler;
    ngx_uint_t                   methods;      /* bit mask, 0 for any */
    ngx_uint_t                   server;       /* number of the parameter with
                                                  the server's name, or 0 */
    unsigned                     not_found:1;  /* platform_gateway_not_found */
    unsigned                     metrics:1;    /* platform_gateway_metrics */
} ngx_http_pgw_content_t;


/* ngx_http_pgw_conf.c */

/* Methods by name, in the order in which Allow lists them. */
extern ngx_conf_bitmask_t  ngx_http_pgw_methods[];

/* Access levels by name; "branch" is also called "platform". */
extern ngx_conf_bitmask_t  ngx_http_pgw_levels[];

ngx_http_pgw_set_t  ngx_http_pgw_conf_strings;  /* an array of pj_str_t */
ngx_http_pgw_set_t  ngx_http_pgw_conf_route;
ngx_http_pgw_set_t  ngx_http_pgw_conf_claim;
ngx_http_pgw_set_t  ngx_http_pgw_conf_strip;

/* Refuses a claim name that looks like a path into an object. */
char *ngx_http_pgw_conf_path(ngx_conf_t *cf, const ngx_str_t *claim);

/* Parses NAME:SIZE.  min is the least size in bytes. */
char *ngx_http_pgw_conf_zone(ngx_conf_t *cf, const ngx_str_t *value,
    const char *example, ssize_t min, ngx_str_t *name, size_t *zone_size);

char *ngx_http_pgw_conf_leeway(ngx_conf_t *cf, void *post, void *data);
char *ngx_http_pgw_conf_realm(ngx_conf_t *cf, void *post, void *data);

/* Creates a srv_conf_t, with the header names that every server strips. */
void *ngx_http_pgw_conf_create_srv(ngx_conf_t *cf);
char *ngx_http_pgw_conf_merge_srv(ngx_conf_t *cf, void *parent, void *child);

/* Completes conf->methods, and writes conf->levels, conf->scopes and
   conf->allow. */
char *ngx_http_pgw_conf_names(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf);

/* Merges the claim maps, after the assertions.  The server strips the header
   names of the map. */
char *ngx_http_pgw_conf_merge_claims(ngx_conf_t *cf,
    ngx_http_pgw_loc_conf_t *prev, ngx_http_pgw_loc_conf_t *conf,
    ngx_http_pgw_srv_conf_t *sscf);

/* Stores the file and line that nginx is reading. */
void ngx_http_pgw_conf_place(ngx_conf_t *cf, ngx_http_pgw_place_t *place);

/* Logs "... in FILE:LINE" for a check that runs at the end of http{}.  If place
   is NULL, the text begins with the location in cf and has its place.  Returns
   NGX_CONF_ERROR. */
char *ngx_http_pgw_conf_fail(ngx_conf_t *cf,
    const ngx_http_pgw_place_t *place, const char *format, ...);


/* ngx_http_pgw_check.c */

/* The name of a directive of the location itself that restricts access.
   Returns NULL if it has none, or a "platform_gateway" of its own.  Called
   before the location is merged. */
const char *ngx_http_pgw_check_restriction(const ngx_http_pgw_loc_conf_t *conf);

/* Checks a merged location where the gateway is off.  restriction is the result
   of ngx_http_pgw_check_restriction(). */
char *ngx_http_pgw_check_off(ngx_conf_t *cf, const char *restriction);

/* Checks a merged location where the gateway is on.  Sets conf->one_record, and
   in the main conf the first guarded location. */
char *ngx_http_pgw_check_location(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *prev, ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_trust.c */

/* Reads a block, and adds its issuer to the end of mcf->issuers. */
ngx_http_pgw_set_t  ngx_http_pgw_trust_block;

/* Reads a directive of a block outside of blocks, where its name begins with
   "platform_gateway_": for the first issuer. */
ngx_http_pgw_set_t  ngx_http_pgw_trust_first;

/* platform_gateway_trusted NAME ...; */
ngx_http_pgw_set_t  ngx_http_pgw_trust_names;

/* Finds the issuers for the names in conf->trusted.  Called when the location
   is merged; all blocks have been read by then. */
char *ngx_http_pgw_trust_merge(ngx_conf_t *cf, ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_issuer_conf.c */

/* Creates an issuer without values, or returns NULL. */
ngx_http_pgw_issuer_t *ngx_http_pgw_issuer_conf_new(ngx_conf_t *cf);

ngx_http_pgw_set_t  ngx_http_pgw_issuer_conf_zone;

/* These set an issuer_t. */
ngx_http_pgw_set_t  ngx_http_pgw_issuer_conf_file;
ngx_http_pgw_set_t  ngx_http_pgw_issuer_conf_location;

char *ngx_http_pgw_issuer_conf_cache_file(ngx_conf_t *cf, void *post,
    void *data);

/* Sets defaults, creates zones and checks the issuers.  Called at
   postconfiguration, when every location is merged. */
char *ngx_http_pgw_issuer_conf_init(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);


/* ngx_http_pgw_feed_conf.c */

/* Sets an issuer_t. */
ngx_http_pgw_set_t  ngx_http_pgw_feed_conf_revocations;

ngx_http_pgw_set_t  ngx_http_pgw_feed_conf_stale;

/* Sets defaults, creates the zone and checks the feed.  Called after
   ngx_http_pgw_issuer_names(). */
char *ngx_http_pgw_feed_conf_init(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf, ngx_http_pgw_issuer_t *issuer);


/* ngx_http_pgw_proof_conf.c */

ngx_http_pgw_set_t  ngx_http_pgw_proof_conf_directive;
ngx_http_pgw_set_t  ngx_http_pgw_proof_conf_origins;

/* Checks a guarded location. */
char *ngx_http_pgw_proof_conf_check(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *conf);

/* Creates the zone of proofs.  Called after ngx_http_pgw_issuer_conf_init(). */
char *ngx_http_pgw_proof_conf_init(ngx_conf_t *cf,
    ngx_http_pgw_main_conf_t *mcf);


/* ngx_http_pgw_fetch_conf.c */

/* Makes the location of cf, if it is internal, the location of the sources that
   name it and have none yet. */
void ngx_http_pgw_fetch_conf_match(ngx_conf_t *cf);

/* Copies model to from, and adds from to the sources.  data is for its
   handler. */
void ngx_http_pgw_fetch_conf_add(ngx_conf_t *cf, ngx_http_pgw_source_t *from,
    const ngx_http_pgw_source_t *model, void *data);

/*
 * Checks the location of the source, if fetch_conf_match() has found it.  Adds
 * the location and its upstream to the digest from->source.
 */
char *ngx_http_pgw_fetch_conf_check(ngx_conf_t *cf,
    ngx_http_pgw_source_t *from);


/* ngx_http_pgw_content.c */

/* Sets the content handler that cmd->post points to. */
ngx_http_pgw_set_t  ngx_http_pgw_content_directive;

/* Sets the members of conf that a content handler needs.  Refuses a location of
   "platform_gateway_explain" that is open to clients, or whose server name is
   not the name of exactly one server. */
char *ngx_http_pgw_content_merge(ngx_conf_t *cf,
    const ngx_http_pgw_loc_conf_t *prev, ngx_http_pgw_loc_conf_t *conf);


/* ngx_http_pgw_signer.c */

/* platform_gateway_assertion_key FILE|DIRECTORY [issuer=NAME]; */
ngx_http_pgw_set_t  ngx_http_pgw_signer_directive;

/* Answers with the key set of assertions. */
extern ngx_http_pgw_content_t  ngx_http_pgw_signer_content;


/* ngx_http_pgw_resource.c */

/* Refuses a value that is not a URL, http:// or https://. */
char *ngx_http_pgw_resource_url(ngx_conf_t *cf, void *post, void *data);

/* platform_gateway_protected_resource URL [SCOPE ...]; */
ngx_http_pgw_set_t  ngx_http_pgw_resource_directive;

/* Writes conf->document.  Refuses a document that would list no issuer. */
char *ngx_http_pgw_resource_merge(ngx_conf_t *cf,
    ngx_http_pgw_loc_conf_t *conf);

extern ngx_http_pgw_content_t  ngx_http_pgw_resource_content;


#endif /* _NGX_HTTP_PGW_CONF_H_INCLUDED_ */
