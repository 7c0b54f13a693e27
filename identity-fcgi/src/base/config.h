/* The program's settings, and the texts they are read from. */

#pragma once

#include "base/error.h"

#include <pj.h>
#include <stdio.h>

enum same_site { SAME_SITE_STRICT, SAME_SITE_LAX, SAME_SITE_NONE };
enum reuse_policy { REUSE_REJECT, REUSE_REVOKE };
enum log_level {
    LOG_DEBUG_,
    LOG_INFO_,
    LOG_WARN_,
    LOG_ERROR_,
    /* Which nothing filters: a line for the record ("audit":true), and one of
     * the access log, which has a switch of its own. */
    LOG_AUDIT_,
    LOG_ACCESS_
};

/* Everything the program may be told.  Strings are owned by the struct.
 * Durations are in the unit of their suffix. */
struct config {
    char *app_name;
    char *app_env;
    bool is_local; /* app_env is exactly "local" */
    char *listen;  /* path or host:port; NULL: descriptor 0 where it is a
                      listener, else CONFIG_DEFAULT_LISTEN */

    bool access_log;
    enum log_level log_level;
    char *audit_log;

    /* NULL where unset: libpq's own default holds. */
    char *db_host, *db_port, *db_name, *db_user, *db_password, *db_sslmode;
    int db_pool_size; /* at most worker_threads */
    bool db_migrate_on_start, db_seed_on_start, db_prepared;
    int64_t db_statement_timeout_ms, db_connect_timeout_ms, db_lock_timeout_ms;

    char *jwt_issuer;
    char *jwt_audience;           /* of access tokens; NULL: none */
    pj_typ_t jwt_typ;             /* likewise: PJ_TYP_JWT or PJ_TYP_AT */
    char *jwt_key_dir;            /* NULL: the keys are the next four */
    char *jwt_key_id;             /* NULL where unset, as the next three */
    char *jwt_private_key_base64; /* wiped once the keys are loaded */
    char *jwt_public_key_base64, *jwt_additional_public_keys;
    int64_t access_ttl_s, refresh_ttl_s;

    char *cookie_name, *cookie_path;
    bool cookie_partitioned; /* only with Secure and SameSite=None */
    bool cookie_secure;
    enum same_site cookie_same_site;

    int64_t session_max_lifetime_s; /* 0: no cap */
    bool session_client;            /* sessions record who uses them */
    int max_sessions;               /* of one account; 0: no limit */
    enum reuse_policy refresh_reuse;
    int64_t refresh_retry_window_s; /* 0: a retry is a reuse */
    int max_failures;               /* 0: attempts are not limited */
    int64_t failure_window_s;
    int hash_concurrency;
    int64_t argon2_memory_kib, argon2_iterations;
    int credential_min;         /* characters of a new one */
    char *credential_forbidden; /* path of a list, or NULL */

    int worker_threads;
    int64_t request_timeout_ms, queue_timeout_ms;
    int64_t retry_after_max_s;
    int64_t sweep_interval_s; /* 0: off */
    char *cors_origins;       /* separated by blanks; NULL: none */

    char *warning; /* one line about names nobody reads, or NULL */
};

#define CONFIG_DEFAULT_LISTEN "run/identity.sock"

/* Reads the environment (env_file, if not NULL, wins) and checks every rule but
 * those of the keys (keys_load()).  On failure *cfg is empty and *e names the
 * variable, what is wrong and what is accepted, never a secret's value. */
PJ_MUST_CHECK bool config_load(struct config *cfg, const char *env_file,
                               struct error *e);

/* Why local data may not be put into the database that cfg names; NULL where
 * APP_ENV is local and every host is this machine. */
PJ_MUST_CHECK const char *config_refuse_seed(const struct config *cfg);

/* Prints NAME=value for every setting; a default is marked, a secret shown as
 * set or unset.  False when env_file cannot be read. */
PJ_MUST_CHECK bool config_print(FILE *out, const char *env_file,
                                struct error *e);

/* Wipes the private key's text; the rest of *cfg stays. */
void config_wipe_private_key(struct config *cfg);

/* Frees and wipes everything. */
void config_free(struct config *cfg);

/* Overwrites the variables that hold secrets in this process's environment. */
void config_scrub_environment(void);
