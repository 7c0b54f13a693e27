
/*
 * Issuers and their keys: the lease of a fetch, the fetch, the file of the last
 * set.
 */


#ifndef _NGX_HTTP_PGW_ISSUER_H_INCLUDED_
#define _NGX_HTTP_PGW_ISSUER_H_INCLUDED_


#include "ngx_http_pgw.h"
#include "base/base.h"


/*
 * Documents that one worker at a time fetches, through an internal location,
 * on behalf of all, and the right to do so.
 *
 * The right is a lease in shared memory, with a deadline and the number of the
 * process, so that a worker that dies while it holds the lease blocks nobody.
 */


#define NGX_HTTP_PGW_DIGEST     64    /* in hex */

/* A fetch may take as long as the time between two, and at least this. */
#define NGX_HTTP_PGW_TIMEOUT    5000  /* ms */

/*
 * In shared memory.  Written under the slab mutex only; the atomics are also
 * read without it.  Times in milliseconds are ngx_current_msec, a clock that
 * all processes of a host share.
 */

typedef struct {
    ngx_uint_t      assigned;     /* the last generation, a failed reload's
                                     too; the master process alone counts */
    ngx_uint_t      generation;   /* of the configuration whose workers may
                                     fetch */
    u_char          source[NGX_HTTP_PGW_DIGEST];  /* of that */

    ngx_atomic_t    number;       /* of the last fetch: one each */
    ngx_atomic_t    until;        /* ms; past: no fetch is in progress */
    ngx_pid_t       pid;          /* whose it is */
    ngx_msec_t      began;        /* that fetch, ... */
    time_t          began_at;     /* ... wall clock */
    ngx_atomic_t    next_try;     /* ms, no fetch before */
} ngx_http_pgw_lease_t;


/* The end of a fetch: document is what it brought, unless err says in a few
   words why there is none; status 0: there was no answer. */

typedef void (*ngx_http_pgw_fetched_pt)(void *data, const ngx_str_t *document,
    const char *err, ngx_uint_t status);

/* What is fetched, and from where. */

typedef struct ngx_http_pgw_fetch_s  ngx_http_pgw_fetch_t;

struct ngx_http_pgw_source_s {
    ngx_http_pgw_source_t           *next;       /* in mcf->sources */
    const char                      *name;       /* in messages, ... */
    const char                      *directive;  /* ... of nginx -t */
    size_t                           max;        /* bytes of a document */
    const char                      *too_small;  /* a location that holds less:
                                                    what it says */
    ngx_http_pgw_fetched_pt          handler;
    void                            *data;

    ngx_str_t                        location;   /* its URI; len 0: none */
    ngx_http_pgw_place_t             place;      /* where that was said */
    ngx_http_conf_ctx_t             *ctx;        /* the location's server */
    const ngx_http_core_loc_conf_t  *clcf;       /* the location */
    ngx_log_t                       *log;        /* that server's */
    ngx_msec_t                       timeout;    /* of a fetch */
    ngx_msec_t                       cooldown;   /* from one to the next */

    /* what the documents are good for and where they are, as a digest */
    u_char                           source[NGX_HTTP_PGW_DIGEST];

    ngx_atomic_t                    *counted;    /* shared: fetches by outcome;
                                                    NULL: nowhere */
    ngx_slab_pool_t                 *shpool;
    ngx_http_pgw_lease_t            *lease;
    ngx_uint_t                       generation;

    /* of one worker process */

    ngx_event_t                      begin;      /* posted: a fetch */
    ngx_uint_t                       number;     /* of our own fetch */
    ngx_str_t                        url;        /* what it is to get; len 0:
                                                    the location says it */
    ngx_uint_t                       fetching;   /* it is in progress */
    ngx_uint_t                       quiet;      /* the failure was logged */
    ngx_int_t                        watched;    /* responses that may end with
                                                    what it brings: if any, an
                                                    exiting worker fetches */
    ngx_http_pgw_fetch_t            *fetch;      /* made at its first */
};


/* Milliseconds from now to then; 0 when then has passed. */

static ngx_inline ngx_msec_t
ngx_http_pgw_lease_left(ngx_msec_t then)
{
    ngx_msec_int_t  left;

    left = (ngx_msec_int_t) (then - ngx_current_msec);

    return left > 0 ? (ngx_msec_t) left : 0;
}


/* Replaces hex, which has no NUL, by a digest (HMAC-SHA-256) of it and a text,
   n times. */
ngx_int_t ngx_http_pgw_lease_digest(u_char *hex, const ngx_str_t *text,
    ngx_uint_t n);

/* Whether a source is fetched through the location.  By the address of its
   name: its "if"s and its limit_except share it, no other location does. */
ngx_uint_t ngx_http_pgw_lease_fetches(const ngx_http_pgw_main_conf_t *mcf,
    const ngx_http_core_loc_conf_t *clcf);

/*
 * These are called with the mutex.
 *
 * activate: a worker's configuration is in force now.  NGX_DECLINED: this or a
 * newer one is already; NGX_DONE: it has another source.
 *
 * take: begins a fetch, by from->begin.  NGX_AGAIN: one is in progress;
 * NGX_DECLINED: not before the cooldown is over, or not by this worker.
 *
 * renew: it takes longer; release: it has ended.  NGX_DECLINED: the lease had
 * passed to others, or to a newer configuration.
 */
ngx_int_t ngx_http_pgw_lease_activate(const ngx_http_pgw_source_t *from);
ngx_int_t ngx_http_pgw_lease_acquire(ngx_http_pgw_source_t *from);
ngx_int_t ngx_http_pgw_lease_renew(const ngx_http_pgw_source_t *from);
ngx_int_t ngx_http_pgw_lease_release(ngx_http_pgw_source_t *from);


/* ngx_http_pgw_issuer.c */

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


/*
 * Names, audiences and leeway of an issuer's tokens in a location.  The issuer
 * of a block has them in its block.  Outside of blocks they are set per
 * location, so the issuer without a block has them in each location's
 * configuration.
 */

#define ngx_http_pgw_issuer_rule(issuer, conf, member)                        \
    ((issuer)->name.len ? (issuer)->member : (conf)->member)

#define ngx_http_pgw_issuer_leeway(issuer, conf)                              \
    ((issuer)->leeway == NGX_CONF_UNSET ? (conf)->leeway : (issuer)->leeway)

/* Whether the configuration names a source of its keys at all. */

#define ngx_http_pgw_issuer_usable(issuer)                                    \
    ((issuer)->from.location.len || (issuer)->file.len)


/* What the issuer without a block is called. */
extern ngx_str_t  ngx_http_pgw_issuer_default_name;

/* Returns the issuer of that list that has the name, or NULL. */
ngx_http_pgw_issuer_t *ngx_http_pgw_issuer_of(ngx_http_pgw_issuer_t *first,
    const pj_str_t *iss);

/* Returns the name in that list that differs from iss in the shortest part
   between a common beginning and a common end; NULL if iss is in the list. */
const pj_str_t *ngx_http_pgw_issuer_nearest(ngx_http_pgw_issuer_t *issuer,
    const pj_str_t *iss);

/* Returns the names of the issuer whose tokens a location accepts, or NULL. */
const ngx_array_t *ngx_http_pgw_issuer_accepted(
    const ngx_http_pgw_issuer_t *issuer, const ngx_http_pgw_loc_conf_t *conf);

/* Returns the access levels that tokens of a list of issuers can have in a
   location. */
ngx_uint_t ngx_http_pgw_issuer_opens(const ngx_http_pgw_issuer_t *issuer,
    const ngx_http_pgw_loc_conf_t *conf);

/* Sets issuer->names: of an issuer without a block, those of all policies. */
char *ngx_http_pgw_issuer_names(ngx_conf_t *cf, ngx_http_pgw_issuer_t *issuer,
    const ngx_http_pgw_loc_conf_t *policies);

/* Adds the names to a digest. */
ngx_int_t ngx_http_pgw_issuer_digest(const ngx_http_pgw_issuer_t *issuer,
    u_char *hex);


/* ngx_http_pgw_fetch.c */

/* Whether r is a fetch's own request, in the fetch's own location: then no
   guard may refuse it. */
ngx_uint_t ngx_http_pgw_fetch_strayed(ngx_http_request_t *r);
ngx_uint_t ngx_http_pgw_fetch_owns(ngx_http_request_t *r);

/*
 * GETs from->location in its server, and calls the handler once with the
 * result; an answer of any other location does not count.  args NULL: none.
 * NGX_ERROR: out of memory, or this worker fetches that already: no call.
 */
ngx_int_t ngx_http_pgw_fetch_start(ngx_http_pgw_source_t *from,
    ngx_str_t *args);

/* $platform_fetch_url: from->url, for a request of that fetch alone. */
extern ngx_http_variable_t  ngx_http_pgw_fetch_variables[];

/* Ends the worker's fetch of it, if there is one. */
void ngx_http_pgw_fetch_abort(const ngx_http_pgw_source_t *from);


/* ngx_http_pgw_keys.c */

/*
 * In shared memory.  Written under the slab mutex only; the atomics are also
 * read without it.  A document is written into the slot that is not current;
 * then the one store of the version makes it current, so that a worker may die
 * at any point.
 */

struct ngx_http_pgw_zone_s {
    ngx_http_pgw_zone_part_t  part;  /* its name is the issuer's */
    ngx_http_pgw_lease_t  lease;  /* its source is that of the set */

    ngx_atomic_t    version;      /* of the set */
    ngx_atomic_t    ended;        /* fetches so far */
    ngx_atomic_t    brought;      /* lease of the last good one */
    ngx_atomic_t    fetched;      /* ms, its beginning */
    time_t          fetched_at;   /* the same, wall clock; 0: no set of this
                                     source yet */

    ngx_uint_t      refresh;      /* due whatever the age */

    size_t          jwks_uri_len; /* discovered; 0: not yet */
    u_char          jwks_uri[NGX_HTTP_PGW_JWKS_URI_MAX];

    size_t          len[2];       /* slot: version & 1; 0: none */
    u_char          document[2][PJ_KEYSET_MAX_BYTES];
};


/* The set on disk. */

typedef struct {
    u_char          magic[sizeof("platform-gateway-keys 1\nfetched ") - 1];
    u_char          fetched[20];
    u_char          source_is[sizeof("\nsource ") - 1];
    u_char          source[NGX_HTTP_PGW_DIGEST];
    u_char          digest_is[sizeof("\ndigest ") - 1];
    u_char          digest[NGX_HTTP_PGW_DIGEST];
    u_char          end[2];
    u_char          document[PJ_KEYSET_MAX_BYTES];
} ngx_http_pgw_disk_t;


/* What the zone held at one instant. */

typedef struct {
    ngx_uint_t           version;
    ngx_msec_t           fetched;
    time_t               fetched_at;
    ngx_str_t            document;  /* lies in disk; len 0: no set of ours */
    ngx_http_pgw_disk_t  disk;
} ngx_http_pgw_copy_t;


/* A worker's configuration is in force now; a set of another source is gone. */
void ngx_http_pgw_keys_activate(ngx_http_pgw_issuer_t *issuer);

/*
 * A document's age counts from the beginning of its fetch: it need not have
 * what the issuer changed since.  An UNCHANGED document is as fresh as a NEW
 * one.
 */
ngx_http_pgw_fetch_e ngx_http_pgw_keys_put(ngx_http_pgw_zone_t *zone,
    const ngx_str_t *document, ngx_msec_t fetched, time_t fetched_at);

/* Document, version and times, taken under one lock; valid until the next
   call. */
ngx_http_pgw_copy_t *ngx_http_pgw_keys_copy(ngx_http_pgw_issuer_t *issuer);

/*
 * Begins a fetch.  NGX_AGAIN: one is in progress; NGX_DECLINED: not before the
 * cooldown is over, or not by this worker.
 */
ngx_int_t ngx_http_pgw_keys_fetch(ngx_http_pgw_issuer_t *issuer);

/*
 * Ends it; document is NULL where it failed.  SUPERSEDED: the lease had passed
 * to others, or to a newer configuration, and nothing was changed.
 */
ngx_http_pgw_fetch_e ngx_http_pgw_keys_release(ngx_http_pgw_issuer_t *issuer,
    const ngx_str_t *document);

/*
 * Reads a regular file of at most max bytes.  Returns why it cannot be used, as
 * a text that lasts until the next call, or NULL.
 */
const char *ngx_http_pgw_keys_read(const ngx_str_t *name, void *buf,
    size_t max, size_t *len);

/* Warns of two keys of a set that have one "kid". */
void ngx_http_pgw_keys_warn_duplicate(const ngx_http_pgw_issuer_t *issuer,
    const pj_keyset_t *set, ngx_log_t *log);

/* What is wrong with the issuer's document, or NULL; then keys_free(*set). */
const char *ngx_http_pgw_keys_parse(const ngx_http_pgw_issuer_t *issuer,
    const ngx_str_t *document, pj_keyset_t **set);
void ngx_http_pgw_keys_free(pj_keyset_t *set);

/*
 * Brings this worker's parsed set up to date with the zone (one atomic read
 * when nothing changed) and returns it, or NULL while there is no usable set
 * or the last good one is past the hard age.  Valid until the event loop is
 * returned to.  Then issuer->version is that of the set.
 */
const pj_keyset_t *ngx_http_pgw_keys_get(ngx_http_pgw_issuer_t *issuer);

/* By that issuer, and the set that it has now. */
void ngx_http_pgw_keys_select(ngx_http_pgw_issuer_t *issuer,
    ngx_http_pgw_keys_t *keys);

/*
 * Parks r until the key set changes, a fetch ends or the wait is over; then
 * the phases of r run again.  NGX_AGAIN: parked.  NGX_OK: a good fetch that
 * began after r came has ended: a key that it did not bring does not exist.
 * NGX_DECLINED: no fetch is in progress or permitted, the waiters are full, or
 * r has waited for as long as it may: decide now.
 */
ngx_int_t ngx_http_pgw_keys_wait(ngx_http_request_t *r,
    ngx_http_pgw_issuer_t *issuer);

/* The members "trust" and "keySet" of an explanation. */
void ngx_http_pgw_keys_explain(ngx_http_pgw_text_t *text,
    ngx_http_pgw_issuer_t *issuer);

/* Seconds until a fetch is worth asking for again; at least 1. */
time_t ngx_http_pgw_keys_retry_after(const ngx_http_pgw_issuer_t *issuer);


/* ngx_http_pgw_disk.c */

/* A zone that nobody uses yet gets the set that was kept, if there is one. */
void ngx_http_pgw_disk_load(ngx_http_pgw_issuer_t *issuer);

/* Keeps what the zone holds by now: it may be newer than what we fetched. */
void ngx_http_pgw_disk_write(ngx_http_pgw_issuer_t *issuer);


/* ngx_http_pgw_keys_fetch.c */

/* Sets issuer->discovery, the address of its metadata (OpenID Connect Discovery
   1.0, section 4), once its names are known: NGX_CONF_ERROR, or what is wrong
   with the first. */
char *ngx_http_pgw_keys_fetch_discovery(ngx_conf_t *cf,
    ngx_http_pgw_issuer_t *issuer);

ngx_int_t ngx_http_pgw_keys_fetch_zone_init(ngx_shm_zone_t *shm_zone,
    void *data);

/* Starts and ends a worker's part in it. */
void ngx_http_pgw_keys_fetch_init_process(ngx_http_pgw_issuer_t *issuer);
void ngx_http_pgw_keys_fetch_exit_process(ngx_http_pgw_issuer_t *issuer);

/* The end of a fetch of the key set (data). */
void ngx_http_pgw_keys_fetch_fetched(void *data, const ngx_str_t *document,
    const char *err, ngx_uint_t status);


#endif /* _NGX_HTTP_PGW_ISSUER_H_INCLUDED_ */
