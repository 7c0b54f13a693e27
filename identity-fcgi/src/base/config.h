/* The program's settings, and the texts they are read from. */

#ifndef CONFIG_H_INCLUDED
#define CONFIG_H_INCLUDED

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

enum same_site { SAME_SITE_STRICT, SAME_SITE_LAX, SAME_SITE_NONE };
enum reuse_policy { REUSE_REJECT, REUSE_REVOKE };
enum log_level { LOG_DEBUG_, LOG_INFO_, LOG_WARN_, LOG_ERROR_ };

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
    int64_t db_statement_timeout_ms, db_connect_timeout_ms;

    char *jwt_issuer;
    char *jwt_audience;           /* of access tokens; NULL: none */
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
    int64_t request_timeout_ms;
    int64_t sweep_interval_s; /* 0: off */
    char *cors_origins;       /* separated by blanks; NULL: none */

    char *warning; /* one line about names nobody reads, or NULL */
};

#define CONFIG_DEFAULT_LISTEN "run/identity.sock"

/* Reads the environment (env_file, if not NULL, wins over it) into *cfg and
 * checks every rule but those of the keys (keys_load()).  On failure *cfg is
 * empty and err has one line that names the variable, what is wrong and what
 * is accepted, never a secret's value. */
bool config_load(struct config *cfg, const char *env_file, char *err,
                 size_t err_cap) __attribute__((warn_unused_result));

/* Why local data may not be put into the database that cfg names; NULL where
 * APP_ENV is local and every host is this machine. */
const char *config_refuse_seed(const struct config *cfg)
    __attribute__((warn_unused_result));

/* Prints NAME=value for every setting, in the order of the table; a default
 * is marked, a secret shown as set or unset.  False with err when env_file
 * cannot be read. */
bool config_print(FILE *out, const char *env_file, char *err, size_t err_cap)
    __attribute__((warn_unused_result));

/* Wipes the private key's text; the rest of *cfg stays. */
void config_wipe_private_key(struct config *cfg);

/* Frees and wipes everything. */
void config_free(struct config *cfg);

/* Overwrites the variables that hold secrets in this process's environment. */
void config_scrub_environment(void);

/* -- the texts of settings (config_text.c) --------------------------------
 * Each tells whether text is of its form, and then fills *out. */

/* Integer seconds, or a number (with up to three decimals) followed by s, m,
 * h or d; in milliseconds. */
bool parse_duration(const char *text, int64_t *out_ms);

/* A number, or a duration, within range: "LOW to HIGH". */
bool parse_within(const char *text, const char *range, bool duration,
                  int64_t *out);

/* One of words ("one, two"), in any case; its place among them. */
bool parse_word(const char *text, const char *words, int64_t *out);

/* At most max bytes (0: 65536) that match an extended regular expression as a
 * whole (NULL: any bytes). */
bool parse_form(const char *text, const char *form, size_t max);

/* For forms: visible ASCII without the double quote and the backslash. */
#define PARSE_VISIBLE "[]!#-[^-~]"

/* The id of a key: one that PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS and an
 * unquoted line of an environment file can hold. */
#define PARSE_KID_ACCEPTED                                                    \
    "visible ASCII without quotes, backslashes, commas and equals signs, at " \
    "most 255"
bool parse_kid(const char *text);

/* host:port, [v6]:port, or (with a slash in it) a Unix socket's path, each
 * optionally as nginx writes it ("unix:"). */
bool parse_listen(const char *text);

/* A comma-separated list of hosts, as libpq takes them, all this machine. */
bool parse_loopback(const char *hosts);

#define ENVFILE_MAX_BYTES (1024 * 1024)

struct envfile {
    char **vars; /* NAME=value as in environ; they point into text */
    size_t count;
    char *text;
};

/* Reads a plain subset of systemd's EnvironmentFile=: lines NAME=value, blank
 * lines, comments after # or ; at the start of a line.  A value is bare, or
 * whole between double quotes, where \ before one of "\`$ stands for that
 * character, or between single quotes.  A later line wins over an earlier one
 * of that name.  What systemd would read in another way (a value of several
 * lines, a bare backslash) or only warn of is refused: one line in err,
 * without any value, and *file is empty. */
bool envfile_read(struct envfile *file, const char *path, char *err,
                  size_t err_cap) __attribute__((warn_unused_result));

/* The value of name, or NULL. */
const char *envfile_get(const struct envfile *file, const char *name);

/* Wipes and frees. */
void envfile_free(struct envfile *file);

#endif
