
/*
 * Issuers and their keys: leases, fetches, and the file of the last key set.
 */


#ifndef _NGX_HTTP_PGW_ISSUER_H_INCLUDED_
#define _NGX_HTTP_PGW_ISSUER_H_INCLUDED_


#include "ngx_http_pgw.h"
#include "base/base.h"


/* A name of an issuer: an exact value of "iss". */

typedef struct {
    pj_str_t                     iss;
    u_char                       seed[32];     /* for keys of revocations */
} ngx_http_pgw_name_t;


/* A parameter of platform_gateway_trusted. */

typedef struct {
    ngx_str_t                    name;
    ngx_http_pgw_issuer_t       *issuer;
} ngx_http_pgw_trusted_t;


/* ngx_http_pgw_lease.c */

/*
 * Documents are fetched through an internal location, by one worker for all
 * workers.  The worker holds a lease in shared memory.  The lease has a
 * deadline and the pid of the worker, so that it ends if the worker dies.
 */


/* Outcomes of fetches. */

typedef enum {
    NGX_HTTP_PGW_FETCH_NEW = 0,     /* a new key set */
    NGX_HTTP_PGW_FETCH_UNCHANGED,   /* equal to the present set */
    NGX_HTTP_PGW_FETCH_FAILED,
    NGX_HTTP_PGW_FETCH_SUPERSEDED,  /* ended after a reload or its lease */
    NGX_HTTP_PGW_FETCH_OUTCOMES
} ngx_http_pgw_fetch_e;


typedef enum {
    NGX_HTTP_PGW_FEED_READ = 0,     /* a page */
    NGX_HTTP_PGW_FEED_FAILED,
    NGX_HTTP_PGW_FEED_CURSOR,       /* cursor refused, begins again */
    NGX_HTTP_PGW_FEED_FULL,         /* the zone is full */
    NGX_HTTP_PGW_FEED_SUPERSEDED,
    NGX_HTTP_PGW_FEED_OUTCOMES
} ngx_http_pgw_feed_e;


#define NGX_HTTP_PGW_DIGEST     64    /* bytes, in hex */

/* The least timeout of a fetch.  Otherwise it is the cooldown. */
#define NGX_HTTP_PGW_TIMEOUT    5000  /* ms */

/*
 * A lease in shared memory.  It is written under the slab mutex; the atomics
 * are also read without it.  Times in ms are ngx_current_msec, whose clock is
 * the same for all processes.
 */

typedef struct {
    ngx_uint_t      assigned;     /* the last generation that the master process
                                     gave to a configuration, even if the reload
                                     failed */
    ngx_uint_t      generation;   /* of the configuration in force; only its
                                     workers may fetch */
    u_char          source[NGX_HTTP_PGW_DIGEST];  /* of that configuration */

    ngx_atomic_t    number;       /* of the last fetch */
    ngx_atomic_t    until;        /* deadline of the fetch, ms; past if no fetch
                                     is in progress */
    ngx_pid_t       pid;          /* of the worker that fetches */
    ngx_msec_t      began;        /* start of the fetch, ms */
    time_t          began_at;     /* start of the fetch, wall clock */
    ngx_atomic_t    next_try;     /* end of the cooldown, ms */

    ngx_atomic_t    outcomes[NGX_HTTP_PGW_FEED_OUTCOMES];  /* number of fetches
                                     by fetch_e or feed_e */
} ngx_http_pgw_lease_t;


/* Called at the end of a fetch.  err is NULL or a short description of the
   failure, and then document is not set.  status is 0 without an answer. */

typedef void (*ngx_http_pgw_fetched_pt)(void *data, const ngx_str_t *document,
    const char *err, ngx_uint_t status);

/* A source of documents. */

typedef struct ngx_http_pgw_fetch_s  ngx_http_pgw_fetch_t;

struct ngx_http_pgw_source_s {
    ngx_http_pgw_source_t           *next;       /* in mcf->sources */
    const char                      *name;       /* in the error log */
    const char                      *directive;  /* in messages of nginx -t */
    size_t                           max;        /* bytes of a document */
    const char                      *too_small;  /* message of nginx -t if the
                                                    location's buffer is below
                                                    max */
    ngx_http_pgw_fetched_pt          handler;
    void                            *data;

    ngx_str_t                        location;   /* URI; len 0 if not fetched */
    ngx_http_pgw_place_t             place;      /* of the directive */
    ngx_http_conf_ctx_t             *ctx;        /* the location's server */
    const ngx_http_core_loc_conf_t  *clcf;       /* the location */
    ngx_log_t                       *log;        /* the server's log */
    ngx_msec_t                       timeout;    /* of a fetch */
    ngx_msec_t                       cooldown;   /* between two fetches */
    u_char                           source[NGX_HTTP_PGW_DIGEST];
                                                 /* digest of the origin and use
                                                    of the documents */

    ngx_slab_pool_t                 *shpool;
    ngx_http_pgw_lease_t            *lease;
    ngx_uint_t                       generation;

    /* private to a worker process */

    ngx_event_t                      timer;      /* checks if a fetch is due */
    ngx_event_t                      begin;      /* begins a fetch */
    ngx_uint_t                       number;     /* of this worker's fetch */
    ngx_str_t                        url;        /* of a fetch; len 0 if the
                                                    location has it */
    ngx_uint_t                       fetching;   /* a fetch is in progress */
    ngx_uint_t                       quiet;      /* the failure is logged
                                                    already */
    ngx_int_t                        watched;    /* responses that a fetch may
                                                    end; an exiting worker
                                                    fetches only for them */
    ngx_http_pgw_fetch_t            *fetch;      /* NULL before the first */
};


/* Returns the time until then in ms, or 0 if it has passed. */

static ngx_inline ngx_msec_t
ngx_http_pgw_lease_left(ngx_msec_t then)
{
    ngx_msec_int_t  left;

    left = (ngx_msec_int_t) (then - ngx_current_msec);

    return left > 0 ? (ngx_msec_t) left : 0;
}


/* Counts the outcome of a fetch. */
#define ngx_http_pgw_lease_count(from, outcome)                               \
    (void) ngx_atomic_fetch_add(&(from)->lease->outcomes[outcome], 1)

/* Replaces a digest by HMAC-SHA-256 of a text with the digest as the key, for n
   texts.  The digest is in hex, without a zero byte. */
ngx_int_t ngx_http_pgw_lease_digest(u_char *hex, const ngx_str_t *text,
    ngx_uint_t n);

/* Returns 1 if a source is fetched through the location.  Locations are
   compared by the address of the name, which only "if" and limit_except blocks
   share. */
ngx_uint_t ngx_http_pgw_lease_fetches(const ngx_http_pgw_main_conf_t *mcf,
    const ngx_http_core_loc_conf_t *clcf);

/* Connects a source of a new configuration to its lease, in the master
   process. */
void ngx_http_pgw_lease_connect(ngx_http_pgw_source_t *from,
    const ngx_shm_zone_t *shm_zone, ngx_http_pgw_lease_t *lease);

/* Starts the timer of a source in a worker. */
void ngx_http_pgw_lease_start(ngx_http_pgw_source_t *from);

/*
 * These functions are called under the mutex.
 *
 * activate() puts a worker's configuration in force.  It returns NGX_DECLINED
 * if this or a newer configuration is in force already, and NGX_DONE if the
 * source has changed.
 *
 * acquire() begins a fetch by the event from->begin.  It returns NGX_AGAIN if a
 * fetch is in progress, and NGX_DECLINED during the cooldown or if this worker
 * must not fetch.
 *
 * renew() extends the deadline, release() ends the fetch.  They return
 * NGX_DECLINED if the lease has passed to another worker or a newer
 * configuration.
 */
ngx_int_t ngx_http_pgw_lease_activate(const ngx_http_pgw_source_t *from);
ngx_int_t ngx_http_pgw_lease_acquire(ngx_http_pgw_source_t *from);
ngx_int_t ngx_http_pgw_lease_renew(const ngx_http_pgw_source_t *from);
ngx_int_t ngx_http_pgw_lease_release(ngx_http_pgw_source_t *from);


/* ngx_http_pgw_issuer.c */

/* An access level that a claim opens. */

typedef struct {
    ngx_uint_t                       access;
    ngx_http_pgw_rule_t              rule;
} ngx_http_pgw_opens_t;


/* An issuer. */

#define NGX_HTTP_PGW_JWKS_URI_MAX  1024

struct ngx_http_pgw_issuer_s {
    ngx_http_pgw_issuer_t           *next;
    ngx_str_t                        name;       /* of the block; len 0 for the
                                                    issuer without a block */
    ngx_array_t                      names;      /* name_t, sorted */
    ngx_array_t                     *issuers;    /* pj_str_t; see issuer_rule */
    ngx_array_t                     *audiences;  /* pj_str_t; see issuer_rule */
    pj_names_t                       claims;     /* names of claims */
    time_t                           leeway;     /* s; NGX_CONF_UNSET for the
                                                    location's */
    const char                      *issued;     /* name of the claim with the
                                                    time of issue, for
                                                    revocations; NULL for
                                                    "iat" */
    const char                      *acr;        /* names of the claims of */
    const char                      *auth_time;  /* the authentication */
    ngx_uint_t                       at_jwt;     /* "typ" has to be at+jwt */
    ngx_array_t                     *opens;      /* opens_t, or NULL */
    ngx_array_t                     *algorithms; /* const pj_alg_t *; NULL for
                                                    all */
    ngx_msec_t                       ages[NGX_HTTP_PGW_AGES];
    ngx_msec_t                       wait;       /* of a request for keys, ms */
    ngx_str_t                        cache_file;
    ngx_http_pgw_revocations_t      *revocations;  /* NULL without a feed */

    ngx_http_pgw_source_t            from;       /* location of the keys */
    ngx_str_t                        file;       /* or their file */
    ngx_str_t                        document;   /* the file's, at the start */
    ngx_flag_t                       discover;
    ngx_str_t                        discovery;  /* URL of the metadata, or
                                                    empty */

    ngx_http_pgw_zone_t             *zone;       /* part of mcf->keys_zone */

    /* private to a worker process */

    ngx_uint_t                       working;    /* the process is a worker */
    pj_keyset_t                     *set;        /* or NULL */
    ngx_uint_t                       version;    /* of set, in the zone */
    ngx_msec_t                       fetched;    /* start of set's fetch, ms */

    ngx_msec_t                       due;        /* age for a new fetch, ms, a
                                                    little below the soft age */
    ngx_uint_t                       waiting;    /* requests that wait */
    ngx_err_t                        disk_err;   /* last error in the log */
    ngx_msec_t                       leave_at;   /* deadline of an exiting
                                                    worker's fetch, ms */
    u_char                           jwks_uri[NGX_HTTP_PGW_JWKS_URI_MAX];
                                                 /* of this worker's fetch */
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

/* 1 if the issuer has a source of keys. */

#define ngx_http_pgw_issuer_usable(issuer)                                    \
    ((issuer)->from.location.len || (issuer)->file.len)


/* Returns the name of the block, or "platform". */
const ngx_str_t *ngx_http_pgw_issuer_label(const ngx_http_pgw_issuer_t *issuer);

/* Returns the issuer with the name in a list, or NULL. */
ngx_http_pgw_issuer_t *ngx_http_pgw_issuer_find(ngx_http_pgw_issuer_t *first,
    const pj_str_t *iss);

/* Returns the most similar name in a list of issuers, or NULL if iss is in the
   list.  Only the part between a common beginning and a common end counts. */
const pj_str_t *ngx_http_pgw_issuer_nearest(ngx_http_pgw_issuer_t *issuer,
    const pj_str_t *iss);

/* Returns the names of the issuer whose tokens a location accepts, or NULL. */
const ngx_array_t *ngx_http_pgw_issuer_accepted(
    const ngx_http_pgw_issuer_t *issuer, const ngx_http_pgw_loc_conf_t *conf);

/* Returns the access levels that tokens of a list of issuers can have in a
   location. */
ngx_uint_t ngx_http_pgw_issuer_opens(const ngx_http_pgw_issuer_t *issuer,
    const ngx_http_pgw_loc_conf_t *conf);

/* Sets issuer->names.  The issuer without a block has the names of all
   policies. */
char *ngx_http_pgw_issuer_names(ngx_conf_t *cf, ngx_http_pgw_issuer_t *issuer,
    const ngx_http_pgw_loc_conf_t *policies);

/* Adds the names to a digest. */
ngx_int_t ngx_http_pgw_issuer_digest(const ngx_http_pgw_issuer_t *issuer,
    u_char *hex);


/* ngx_http_pgw_fetch.c */

/* fetch_owns() returns 1 if r is the request of a fetch and in its location, so
   that guards accept it.  fetch_strayed() returns 1 if it is in another. */
ngx_uint_t ngx_http_pgw_fetch_strayed(ngx_http_request_t *r);
ngx_uint_t ngx_http_pgw_fetch_owns(ngx_http_request_t *r);

/*
 * Requests from->location in its server, and calls the handler once with the
 * result.  The answer of another location is a failure.  args may be NULL.
 * Returns NGX_ERROR, without a call of the handler, if memory is short or a
 * fetch of this worker is in progress.
 */
ngx_int_t ngx_http_pgw_fetch_start(ngx_http_pgw_source_t *from,
    ngx_str_t *args);

/* $platform_fetch_url: from->url, in the request of a fetch. */
extern ngx_http_variable_t  ngx_http_pgw_fetch_variables[];

/* Ends the worker's fetch if it is in progress. */
void ngx_http_pgw_fetch_abort(const ngx_http_pgw_source_t *from);


/* ngx_http_pgw_keys.c */

/*
 * The keys of an issuer in shared memory.  They are written under the slab
 * mutex; the atomics are also read without it.  A document is written into the
 * slot that is not current.  Then a store of the version makes it current, so a
 * worker may die at any time.
 */

struct ngx_http_pgw_zone_s {
    ngx_http_pgw_zone_part_t  part;  /* with the name of the issuer */
    ngx_http_pgw_lease_t  lease;  /* with the source of the set */

    ngx_atomic_t    version;      /* of the set */
    ngx_atomic_t    ended;        /* number of fetches that have ended */
    ngx_atomic_t    brought;      /* lease number of the last good fetch */
    ngx_atomic_t    fetched;      /* start of the last good fetch, ms */
    time_t          fetched_at;   /* start of the last good fetch, wall clock; 0
                                     if the source has not delivered a set */

    ngx_uint_t      refresh;      /* fetch again at any age */

    size_t          jwks_uri_len; /* 0 before the discovery */
    u_char          jwks_uri[NGX_HTTP_PGW_JWKS_URI_MAX];

    size_t          len[2];       /* of a document; slot version & 1 is
                                     current */
    u_char          document[2][PJ_KEYSET_MAX_BYTES];
};


/* The file of the last set. */

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


/* A consistent copy of the zone. */

typedef struct {
    ngx_uint_t           version;
    ngx_msec_t           fetched;
    time_t               fetched_at;
    ngx_str_t            document;  /* in disk; len 0 without a set of the
                                     source */
    ngx_http_pgw_disk_t  disk;
} ngx_http_pgw_copy_t;


/* Puts a worker's configuration in force, and drops a set of another source. */
void ngx_http_pgw_keys_activate(ngx_http_pgw_issuer_t *issuer);

/*
 * Writes a document into the zone, and returns NEW or UNCHANGED.  fetched is
 * the start of the fetch, because the document may lack later changes.
 */
ngx_http_pgw_fetch_e ngx_http_pgw_keys_put(ngx_http_pgw_zone_t *zone,
    const ngx_str_t *document, ngx_msec_t fetched, time_t fetched_at);

/* Copies the zone under the mutex.  The copy is valid until the next call. */
ngx_http_pgw_copy_t *ngx_http_pgw_keys_copy(ngx_http_pgw_issuer_t *issuer);

/* Begins a fetch, with the result of lease_acquire(). */
ngx_int_t ngx_http_pgw_keys_fetch(ngx_http_pgw_issuer_t *issuer);

/*
 * Ends a fetch.  document is NULL if it failed.  Returns SUPERSEDED, and
 * changes nothing, if the lease has passed to another worker or a newer
 * configuration.
 */
ngx_http_pgw_fetch_e ngx_http_pgw_keys_release(ngx_http_pgw_issuer_t *issuer,
    const ngx_str_t *document);

/*
 * Reads a regular file of at most max bytes.  Returns NULL, or the description
 * of an error, which is valid until the next call.
 */
const char *ngx_http_pgw_keys_read(const ngx_str_t *name, void *buf,
    size_t max, size_t *len);

/* Warns if two keys of a set have the same "kid". */
void ngx_http_pgw_keys_warn_duplicate(const ngx_http_pgw_issuer_t *issuer,
    const pj_keyset_t *set, ngx_log_t *log);

/* Parses a document into a set to keys_free().  Returns NULL, or the
   description of an error. */
const char *ngx_http_pgw_keys_parse(const ngx_http_pgw_issuer_t *issuer,
    const ngx_str_t *document, pj_keyset_t **set);
void ngx_http_pgw_keys_free(pj_keyset_t *set);

/*
 * Returns this worker's set, after an update from the zone, and sets
 * issuer->version.  Returns NULL without a set, or if the set is past the hard
 * age.  The set is valid until the handler returns to the event loop.  Without
 * a change this costs one atomic read.
 */
const pj_keyset_t *ngx_http_pgw_keys_get(ngx_http_pgw_issuer_t *issuer);

/* Sets keys to the issuer and its present set. */
void ngx_http_pgw_keys_select(ngx_http_pgw_issuer_t *issuer,
    ngx_http_pgw_keys_t *keys);

/*
 * Makes r wait for a fetch, and returns NGX_AGAIN.  The phases of r run again
 * when the set changes, a fetch ends, or the time is over.  Returns NGX_OK if a
 * good fetch that began after r has ended, so that the key does not exist.
 * Returns NGX_DECLINED if r has to be decided now: a fetch is neither in
 * progress nor permitted, too many requests wait, or the time is over.
 */
ngx_int_t ngx_http_pgw_keys_wait(ngx_http_request_t *r,
    ngx_http_pgw_issuer_t *issuer);

/* Writes the members "trust" and "keySet" of an explanation. */
void ngx_http_pgw_keys_explain(ngx_http_pgw_text_t *text,
    ngx_http_pgw_issuer_t *issuer);

/* Returns the value of Retry-After, at least 1 second. */
time_t ngx_http_pgw_keys_retry_after(const ngx_http_pgw_issuer_t *issuer);


/* ngx_http_pgw_disk.c */

/* Loads the file into a new zone. */
void ngx_http_pgw_disk_load(ngx_http_pgw_issuer_t *issuer);

/* Writes the file from the zone, whose set may be newer than this worker's. */
void ngx_http_pgw_disk_write(ngx_http_pgw_issuer_t *issuer);


/* ngx_http_pgw_keys_fetch.c */

/* Sets issuer->discovery, the URL of the metadata (OpenID Connect Discovery
   1.0, section 4), from the first name.  Returns an error of a directive. */
char *ngx_http_pgw_keys_fetch_discovery(ngx_conf_t *cf,
    ngx_http_pgw_issuer_t *issuer);

ngx_int_t ngx_http_pgw_keys_fetch_zone_init(ngx_shm_zone_t *shm_zone,
    void *data);

/* Start and end the timer of a worker. */
void ngx_http_pgw_keys_fetch_init_process(ngx_http_pgw_issuer_t *issuer);
void ngx_http_pgw_keys_fetch_exit_process(ngx_http_pgw_issuer_t *issuer);

/* The source of an issuer's keys before its directives are read; its data is
   the issuer. */
extern const ngx_http_pgw_source_t  ngx_http_pgw_keys_fetch_source;


#endif /* _NGX_HTTP_PGW_ISSUER_H_INCLUDED_ */
