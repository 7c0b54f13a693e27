
#ifndef _NGX_HTTP_PGW_ISSUER_H_INCLUDED_
#define _NGX_HTTP_PGW_ISSUER_H_INCLUDED_


#include "ngx_http_pgw_lease.h"


/* A level that a claim opens, beside the one of its kind. */

typedef struct {
    ngx_uint_t                       access;
    ngx_http_pgw_rule_t              rule;
} ngx_http_pgw_opens_t;


/* All there is of one; nothing of it is shared with another. */

#define NGX_HTTP_PGW_JWKS_URI_MAX  1024

struct ngx_http_pgw_issuer_s {
    ngx_http_pgw_issuer_t           *next;
    ngx_str_t                        name;       /* of its block; len 0: none */
    ngx_array_t                      names;      /* ngx_http_pgw_name_t: all
                                                    "iss" that are its */
    ngx_array_t                     *issuers;    /* pj_str_t: the same, and */
    ngx_array_t                     *audiences;  /* "aud"; of the issuer without
                                                    a block NULL: the location
                                                    says it */
    pj_names_t                       claims;     /* with a block: whose, and */
    time_t                           leeway;     /* s; NGX_CONF_UNSET: that of
                                                    the location */
    const char                      *issued;     /* when, for revocations;
                                                    NULL: by "iat" */
    ngx_uint_t                       at_jwt;     /* typ has to be that */
    ngx_array_t                     *opens;      /* opens_t; NULL: none */
    ngx_array_t                     *algorithms; /* const pj_alg_t *: that its
                                                    tokens may name; NULL: all
                                                    there are */
    ngx_msec_t                       ages[NGX_HTTP_PGW_AGES];
    ngx_msec_t                       wait;       /* of one request */
    ngx_str_t                        cache_file;
    ngx_http_pgw_revocations_t      *revocations;  /* NULL: it has no feed */

    /* one of two sources of keys: the URI of a location, or a file */
    ngx_http_pgw_source_t            from;
    ngx_str_t                        file;
    ngx_str_t                        document;   /* of the file, at first */
    ngx_flag_t                       discover;
    ngx_str_t                        discovery;  /* its metadata's URL; len 0:
                                                    it is not asked for */

    ngx_http_pgw_zone_t             *zone;       /* part of mcf->keys_zone */

    /* of one worker process */

    ngx_uint_t                       working;    /* it is one */
    pj_keyset_t                     *set;        /* NULL: none */
    ngx_uint_t                       version;    /* of the zone, for set */
    ngx_msec_t                       fetched;    /* likewise */

    ngx_event_t                      timer;
    ngx_msec_t                       due;        /* ms, a little below the soft
                                                    age */
    ngx_uint_t                       waiting;    /* parked requests */
    ngx_err_t                        disk_err;   /* the last one said */
    ngx_msec_t                       leave_at;   /* when exiting: deadline of
                                                    the last fetch */
    u_char                           jwks_uri[NGX_HTTP_PGW_JWKS_URI_MAX];
                                                 /* of our own fetch */
};


/* How far its clock may be off, in a location with conf. */

#define ngx_http_pgw_issuer_leeway(issuer, conf)                              \
    ((issuer)->leeway == NGX_CONF_UNSET ? (conf)->leeway : (issuer)->leeway)

/* Whether the configuration names a source of its keys at all. */

#define ngx_http_pgw_issuer_usable(issuer)                                    \
    ((issuer)->from.location.len || (issuer)->file.len)


/* What the issuer without a block is called. */
extern ngx_str_t  ngx_http_pgw_issuer_own;

/* Returns the issuer of that list that has the name, or NULL. */
ngx_http_pgw_issuer_t *ngx_http_pgw_issuer_of(ngx_http_pgw_issuer_t *first,
    const pj_str_t *iss);

/* Returns the name in that list that differs from iss in the shortest part
   between a common beginning and a common end; NULL if iss is in the list. */
const pj_str_t *ngx_http_pgw_issuer_nearest(ngx_http_pgw_issuer_t *issuer,
    const pj_str_t *iss);

/* Whether a location with conf takes tokens of the issuer, and the levels that
   tokens of at least one of that list can open there. */
ngx_uint_t ngx_http_pgw_issuer_trusted(const ngx_http_pgw_loc_conf_t *conf,
    const ngx_http_pgw_issuer_t *issuer);
ngx_uint_t ngx_http_pgw_issuer_opens(const ngx_http_pgw_issuer_t *issuer,
    const ngx_http_pgw_loc_conf_t *conf);

/* Sets issuer->names: of an issuer without a block, those of all policies. */
char *ngx_http_pgw_issuer_names(ngx_conf_t *cf, ngx_http_pgw_issuer_t *issuer,
    const ngx_http_pgw_loc_conf_t *policies);

/* Adds the names to a digest. */
ngx_int_t ngx_http_pgw_issuer_digest(const ngx_http_pgw_issuer_t *issuer,
    u_char *hex);


#endif /* _NGX_HTTP_PGW_ISSUER_H_INCLUDED_ */
