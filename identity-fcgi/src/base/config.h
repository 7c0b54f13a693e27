/* The program's settings. */

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
    /* Never filtered: audit lines ("audit":true), and the access log, which
     * PLATFORM_HTTP_ACCESS_LOG_ENABLED controls. */
    LOG_AUDIT_,
    LOG_ACCESS_
};

/* All settings.  The struct owns the strings.  Durations are in the unit of
 * their suffix. */
struct config {
    char *app_name;
    char *app_env;
    bool is_local; /* app_env is exactly "local" */
    char *listen;  /* path or host:port; NULL for descriptor 0 if it listens,
                      else CONFIG_DEFAULT_LISTEN */

    bool access_log;
    enum log_level log_level;
    char *audit_log;
    int64_t audit_keep_s;

    /* NULL for libpq's default. */
    char *db_host, *db_port, *db_name, *db_user, *db_password, *db_sslmode;
    int db_pool_size; /* at most worker_threads */
    bool db_migrate_on_start, db_seed_on_start, db_prepared;
    int64_t db_statement_timeout_ms, db_connect_timeout_ms, db_lock_timeout_ms;

    char *jwt_issuer;
    char *jwt_audience; /* of access tokens, or NULL */
    pj_typ_t jwt_typ;   /* of access tokens: PJ_TYP_JWT or PJ_TYP_AT */
    char *jwt_key_dir;  /* NULL to use the next four */
    char *jwt_key_id;   /* NULL if unset, like the next three */
    char *jwt_private_key_base64; /* wiped once the keys are loaded */
    char *jwt_public_key_base64, *jwt_additional_public_keys;
    int64_t access_ttl_s, refresh_ttl_s;

    char *cookie_name, *cookie_path;
    bool cookie_partitioned; /* only with Secure and SameSite=None */
    bool cookie_secure;
    enum same_site cookie_same_site;

    int64_t session_max_lifetime_s; /* 0 if unlimited */
    bool session_client;            /* sessions record address and agent */
    int max_sessions;               /* of one account; 0 if unlimited */
    enum reuse_policy refresh_reuse;
    int64_t refresh_retry_window_s; /* 0 to treat a retry as reuse */
    int64_t system_ttl_s;           /* of tokens for clients */
    /* Where clients get tokens: at this service only, at the gateway too, or
     * nowhere. */
    enum { SYSTEM_API_FACE, SYSTEM_API_GATEWAY, SYSTEM_API_OFF } system_api;
    int max_failures; /* 0 if unlimited */
    int64_t failure_window_s;
    int hash_concurrency;
    int64_t argon2_memory_kib, argon2_iterations;
    char *factor_keys; /* see base/factor_key.h, or NULL */
    enum { FACTOR_OPTIONAL, FACTOR_OF_OPERATORS, FACTOR_OF_ALL } require_factor;
    int credential_min;         /* minimum length in characters */
    char *credential_forbidden; /* path of a list of forbidden ones, or NULL */

    int worker_threads;
    int64_t request_timeout_ms, queue_timeout_ms;
    int64_t retry_after_max_s;
    int64_t sweep_interval_s; /* 0 for off */
    char *cors_origins;       /* separated by blanks, or NULL */
    /* The relying party of passkeys and its origins, separated by blanks.
     * NULL if passkeys are off. */
    char *webauthn_rp_id, *webauthn_origins;
    /* Origins at which clients reach this service, separated by blanks, or
     * NULL. */
    char *public_origins;
    /* Binds sessions to keys of clients (RFC 9449) never, if a login has a
     * proof, or always.  Off without public_origins. */
    enum { DPOP_OFF, DPOP_ACCEPT, DPOP_REQUIRE } dpop;

    char *warning; /* one line about an unknown variable, or NULL */
};

#define CONFIG_DEFAULT_LISTEN "run/identity.sock"

/* Reads the environment and env_file (may be NULL), which takes precedence.
 * Checks all rules except those for keys (keys_load()).  On failure *cfg is
 * empty and *e names the variable, the fault and the accepted values, but never
 * a secret value. */
PJ_MUST_CHECK bool config_load(struct config *cfg, const char *env_file,
                               struct error *e);

/* Returns the reason not to load local data into the database of cfg.  NULL if
 * APP_ENV is local and every host is this machine. */
PJ_MUST_CHECK const char *config_refuse_seed(const struct config *cfg);

/* Prints NAME=value for every setting.  Defaults are marked; secrets are shown
 * as set or unset.  False if env_file cannot be read. */
PJ_MUST_CHECK bool config_print(FILE *out, const char *env_file,
                                struct error *e);

/* Wipes only the text of the private key. */
void config_wipe_private_key(struct config *cfg);

/* Frees and wipes everything. */
void config_free(struct config *cfg);

/* Overwrites the variables that hold secrets in this process's environment. */
void config_scrub_environment(void);
