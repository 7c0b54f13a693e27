/* The program's settings: one table of names, parsers, defaults and rules. */

#include "base/config.h"

#include "base/config_parse.h"
#include "base/envfile.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

extern char **environ;

#define UNUSED_FIELD SIZE_MAX /* known, checked, read by others */
#define YEAR_S (365 * 86400LL)

/* What a value is; says how it is parsed and what the field's type is. */
enum kind {
    KIND_BOOL,    /* bool */
    KIND_INT,     /* int, min..max */
    KIND_INT64,   /* int64_t, min..max */
    KIND_SECONDS, /* int64_t, min..max in seconds */
    KIND_MS,      /* int64_t, min..max in milliseconds */
    KIND_WORD,    /* int: index of the value in words */
    KIND_TEXT,    /* char *, accepted by check */
    KIND_ORIGINS  /* cors_origins */
};

struct setting {
    const char *name;
    enum kind kind;
    size_t field;
    const char *local;     /* default where APP_ENV is local */
    const char *elsewhere; /* default anywhere else; NULL: unset */
    int64_t min, max;
    const char *const *words;
    bool (*check)(const char *text);
    const char *accepted; /* for the error line */
    bool secret;
};

#define FIELD(member) offsetof(struct config, member)

static const char *const same_site_words[] = {"Strict", "Lax", "None", NULL};
static const char *const reuse_words[] = {"reject", "revoke", NULL};
static const char *const level_words[] = {"debug", "info", "warn", "error",
                                          NULL};
static const char *const sslmode_words[] = {
    "disable", "allow", "prefer", "require", "verify-ca", "verify-full", NULL};

static bool is_label(const char *text)
{
    return parse_visible(text, 64);
}

static bool is_uri_string(const char *text)
{
    return parse_visible(text, 512);
}

static bool is_name_list(const char *text)
{
    return text[strspn(text, "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
                             "abcdefghijklmnopqrstuvwxyz0123456789-_ ,")] ==
           '\0';
}

static bool is_anything(const char *text)
{
    return strlen(text) <= 65536;
}

static bool is_sslmode(const char *text)
{
    for (size_t i = 0; sslmode_words[i] != NULL; i++) {
        if (strcmp(text, sslmode_words[i]) == 0) {
            return true;
        }
    }
    return false;
}

/* Rows of the table, by kind. */
#define BOOL(n, f, l, e)                                                      \
    {                                                                         \
        .name = n, .kind = KIND_BOOL, .field = FIELD(f), .local = l,          \
        .elsewhere = e, .accepted = "true, false, 1, 0, on, off"              \
    }
#define NUMBER(n, k, f, d, lo, hi, a)                                         \
    {                                                                         \
        .name = n, .kind = k, .field = FIELD(f), .local = d, .elsewhere = d,  \
        .min = lo, .max = hi, .accepted = a                                   \
    }
#define WORD(n, f, d, w, a)                                                   \
    {                                                                         \
        .name = n, .kind = KIND_WORD, .field = FIELD(f), .local = d,          \
        .elsewhere = d, .words = w, .accepted = a                             \
    }
#define TEXT(n, f, d, c, a)                                                   \
    {                                                                         \
        .name = n, .kind = KIND_TEXT, .field = FIELD(f), .local = d,          \
        .elsewhere = d, .check = c, .accepted = a                             \
    }
#define SECRET(n, f)                                                          \
    {                                                                         \
        .name = n, .kind = KIND_TEXT, .field = FIELD(f),                      \
        .check = is_anything, .accepted = "at most 65536 bytes",              \
        .secret = true                                                        \
    }
/* Read by nginx's templates, not by this program: checked all the same. */
#define FOREIGN(n, d, c, a)                                                   \
    {                                                                         \
        .name = n, .kind = KIND_TEXT, .field = UNUSED_FIELD, .local = d,      \
        .elsewhere = d, .check = c, .accepted = a                             \
    }

#define A_DURATION "integer seconds or a number with s, m, h or d, "
#define A_VISIBLE "visible ASCII without quotes and backslashes, "

/* clang-format off */
static const struct setting settings[] = {
    TEXT("APP_ENV", app_env, NULL, is_label, A_VISIBLE "at most 64"),
    TEXT("APP_NAME", app_name, "identity-service", is_label,
         A_VISIBLE "at most 64"),
    FOREIGN("HTTP_HOST", "127.0.0.1", parse_host, "a host name or address"),
    FOREIGN("HTTP_PORT", "8081", parse_port, "1 to 65535"),
    TEXT("IDENTITY_LISTEN", listen, NULL, parse_listen,
         "the path of a socket (with a slash) or host:port"),
    NUMBER("PLATFORM_AUTH_ARGON2_ITERATIONS", KIND_INT64, argon2_iterations,
           "2", 2, 10, "2 to 10"),
    NUMBER("PLATFORM_AUTH_ARGON2_MEMORY_KIB", KIND_INT64, argon2_memory_kib,
           "19456", 19456, 262144, "19456 to 262144"),
    BOOL("PLATFORM_AUTH_COOKIE_PARTITIONED", cookie_partitioned, "false",
         "false"),
    TEXT("PLATFORM_AUTH_COOKIE_PATH", cookie_path, "/api/auth",
         parse_cookie_path, "a path that starts with / and has no ;"),
    WORD("PLATFORM_AUTH_COOKIE_SAME_SITE", cookie_same_site, "Lax",
         same_site_words, "Strict, Lax, None"),
    BOOL("PLATFORM_AUTH_COOKIE_SECURE", cookie_secure, "false", "true"),
    NUMBER("PLATFORM_AUTH_FAILURE_WINDOW", KIND_SECONDS, failure_window_s,
           "15m", 1, 30 * 86400, A_DURATION "1s to 30d"),
    NUMBER("PLATFORM_AUTH_HASH_CONCURRENCY", KIND_INT, hash_concurrency, NULL,
           1, 256, "1 to 256"),
    NUMBER("PLATFORM_AUTH_MAX_FAILURES", KIND_INT, max_failures, "10", 0,
           1000000, "0 (off) to 1000000"),
    NUMBER("PLATFORM_AUTH_MAX_SESSIONS", KIND_INT, max_sessions, "1000", 0,
           100000, "0 (no limit) to 100000"),
    TEXT("PLATFORM_AUTH_REFRESH_COOKIE_NAME", cookie_name,
         "platform_refresh_token", parse_token, "an RFC 6265 token"),
    WORD("PLATFORM_AUTH_REFRESH_REUSE", refresh_reuse, "reject", reuse_words,
         "reject, revoke"),
    NUMBER("PLATFORM_AUTH_SESSION_MAX_LIFETIME", KIND_SECONDS,
           session_max_lifetime_s, "90d", 0, 10 * YEAR_S,
           A_DURATION "0 (no cap) to 3650d"),
    FOREIGN("PLATFORM_CORS_ALLOWED_HEADERS", NULL, is_name_list,
            "header names, separated by spaces or commas"),
    {.name = "PLATFORM_CORS_ALLOWED_ORIGINS", .kind = KIND_ORIGINS,
     .field = FIELD(cors_origins), .local = "http://127.0.0.1:8080",
     .accepted = "origins as a browser sends them, separated by spaces; "
                 "https://*.example.com for all below a domain; never *"},
    NUMBER("PLATFORM_DB_CONNECT_TIMEOUT", KIND_MS, db_connect_timeout_ms,
           "2s", 100, 60000, A_DURATION "0.1s to 60s"),
    TEXT("PLATFORM_DB_HOST", db_host, NULL, is_anything, "libpq's host"),
    BOOL("PLATFORM_DB_MIGRATE_ON_START", db_migrate_on_start, "true",
         "false"),
    TEXT("PLATFORM_DB_NAME", db_name, NULL, is_anything, "libpq's dbname"),
    SECRET("PLATFORM_DB_PASSWORD", db_password),
    NUMBER("PLATFORM_DB_POOL_SIZE", KIND_INT, db_pool_size, NULL, 1, 256,
           "1 to 256"),
    TEXT("PLATFORM_DB_PORT", db_port, NULL, parse_port_list,
         "1 to 65535, or a comma-separated list as libpq's port"),
    BOOL("PLATFORM_DB_PREPARED", db_prepared, "true", "true"),
    BOOL("PLATFORM_DB_SEED_ON_START", db_seed_on_start, NULL, "false"),
    TEXT("PLATFORM_DB_SSLMODE", db_sslmode, NULL, is_sslmode,
         "disable, allow, prefer, require, verify-ca, verify-full"),
    NUMBER("PLATFORM_DB_STATEMENT_TIMEOUT", KIND_MS, db_statement_timeout_ms,
           "3s", 100, 60000, A_DURATION "0.1s to 60s"),
    TEXT("PLATFORM_DB_USER", db_user, NULL, is_anything, "libpq's user"),
    FOREIGN("PLATFORM_ENTITLEMENT_URL", "http://127.0.0.1:8082", parse_url,
            "an http or https URL"),
    BOOL("PLATFORM_HTTP_ACCESS_LOG_ENABLED", access_log, "true", "true"),
    NUMBER("PLATFORM_JWT_ACCESS_TOKEN_TTL", KIND_SECONDS, access_ttl_s, "15m",
           1, 86400, A_DURATION "1s to 1d"),
    TEXT("PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS", jwt_additional_public_keys,
         NULL, is_anything, "kid=base64,kid=base64"),
    TEXT("PLATFORM_JWT_AUDIENCE", jwt_audience, NULL, is_uri_string,
         A_VISIBLE "at most 512"),
    TEXT("PLATFORM_JWT_ISSUER", jwt_issuer, "http://127.0.0.1:8081",
         is_uri_string, A_VISIBLE "at most 512"),
    TEXT("PLATFORM_JWT_KEY_ID", jwt_key_id, NULL, parse_kid,
         PARSE_KID_ACCEPTED),
    SECRET("PLATFORM_JWT_PRIVATE_KEY_BASE64", jwt_private_key_base64),
    TEXT("PLATFORM_JWT_PUBLIC_KEY_BASE64", jwt_public_key_base64, NULL,
         is_anything, "base64 of PEM or DER"),
    NUMBER("PLATFORM_JWT_REFRESH_TOKEN_TTL", KIND_SECONDS, refresh_ttl_s,
           "30d", 1, 10 * YEAR_S, A_DURATION "1s to 3650d"),
    FOREIGN("PLATFORM_LOGIN_RATE_LIMIT", "10r/s burst 20", parse_rate,
            "off, or like 10r/s burst 20"),
    WORD("PLATFORM_LOG_LEVEL", log_level, "info", level_words,
         "debug, info, warn, error"),
    FOREIGN("PLATFORM_REFRESH_RATE_LIMIT", "50r/s burst 100", parse_rate,
            "off, or like 50r/s burst 100"),
    NUMBER("PLATFORM_REQUEST_TIMEOUT", KIND_MS, request_timeout_ms, "5s", 100,
           300000, A_DURATION "0.1s to 5m"),
    NUMBER("PLATFORM_SWEEP_INTERVAL", KIND_SECONDS, sweep_interval_s, "10m",
           0, 7 * 86400, A_DURATION "0 (off) to 7d"),
    FOREIGN("PLATFORM_TRUSTED_PROXIES", NULL, parse_cidr_list,
            "addresses and CIDRs; a prefix length of 0 is refused"),
    NUMBER("PLATFORM_WORKER_THREADS", KIND_INT, worker_threads, "16", 1, 256,
           "1 to 256"),
};
/* clang-format on */

#define SETTING_COUNT (sizeof(settings) / sizeof(settings[0]))

/* Where values come from: the file wins over the process's environment; an
 * empty value is no value. */
static const char *lookup(const struct envfile *file, const char *name)
{
    const char *value = envfile_get(file, name);

    if (value == NULL) {
        value = getenv(name);
    }
    return value != NULL && *value != '\0' ? value : NULL;
}

static bool is_local(const struct envfile *file)
{
    const char *env = lookup(file, "APP_ENV");

    return env != NULL && strcmp(env, "local") == 0;
}

static const struct setting *find_setting(const char *name, size_t len)
{
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        if (strlen(settings[i].name) == len &&
            memcmp(settings[i].name, name, len) == 0) {
            return &settings[i];
        }
    }
    return NULL;
}

static void *field_of(struct config *cfg, const struct setting *s)
{
    return (char *) cfg + s->field;
}

/* -- one value ----------------------------------------------------------- */

static bool store_number(struct config *cfg, const struct setting *s,
                         const char *text)
{
    bool duration = s->kind == KIND_SECONDS || s->kind == KIND_MS;
    int64_t v;

    if (!(duration ? parse_duration(text, &v) : parse_int(text, &v))) {
        return false;
    }
    if (s->kind == KIND_SECONDS) {
        if (v % 1000 != 0) {
            return false;
        }
        v /= 1000;
    }
    if (v < s->min || v > s->max) {
        return false;
    }
    if (s->kind == KIND_INT) {
        *(int *) field_of(cfg, s) = (int) v;
    } else {
        *(int64_t *) field_of(cfg, s) = v;
    }
    return true;
}

static bool store_word(struct config *cfg, const struct setting *s,
                       const char *text)
{
    for (unsigned i = 0; s->words[i] != NULL; i++) {
        if (strcasecmp(s->words[i], text) == 0) {
            *(unsigned *) field_of(cfg, s) = i;
            return true;
        }
    }
    return false;
}

static bool store_text(struct config *cfg, const struct setting *s,
                       const char *text)
{
    if (!s->check(text)) {
        return false;
    }
    if (s->field == UNUSED_FIELD) {
        return true;
    }
    *(char **) field_of(cfg, s) = strdup(text);
    return *(char **) field_of(cfg, s) != NULL;
}

static bool store_origins(struct config *cfg, const char *text)
{
    size_t cap = strlen(text) / 2 + 2;

    cfg->cors_origins = calloc(cap, sizeof(char *));
    if (cfg->cors_origins == NULL) {
        return false;
    }
    for (;;) {
        size_t len;

        text += strspn(text, " \t");
        len = strcspn(text, " \t");
        if (len == 0) {
            return true;
        }
        if (!parse_origin(text, len, true)) {
            return false;
        }
        cfg->cors_origins[cfg->cors_origin_count] = strndup(text, len);
        if (cfg->cors_origins[cfg->cors_origin_count] == NULL) {
            return false;
        }
        fold_origin(cfg->cors_origins[cfg->cors_origin_count++]);
        text += len;
    }
}

static bool store_value(struct config *cfg, const struct setting *s,
                        const char *text)
{
    switch (s->kind) {
    case KIND_BOOL:
        return parse_bool(text, field_of(cfg, s));
    case KIND_INT:
    case KIND_INT64:
    case KIND_SECONDS:
    case KIND_MS:
        return store_number(cfg, s, text);
    case KIND_WORD:
        return store_word(cfg, s, text);
    case KIND_ORIGINS:
        return store_origins(cfg, text);
    case KIND_TEXT:
        break;
    }
    return store_text(cfg, s, text);
}

/* A value in an error line: short, and nothing that upsets a terminal. */
static void print_value(char *out, size_t cap, const struct setting *s,
                        const char *text)
{
    size_t n = 0;

    if (s->secret) {
        snprintf(out, cap, "the value");
        return;
    }
    out[n++] = '"';
    for (; *text != '\0' && n < cap - 5; text++) {
        out[n++] = *text >= ' ' && *text <= '~' ? *text : '?';
    }
    snprintf(out + n, cap - n, "%s\"", *text != '\0' ? "..." : "");
}

static bool load_values(struct config *cfg, const struct envfile *file,
                        char *err, size_t err_cap)
{
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *s = &settings[i];
        const char *text = lookup(file, s->name);
        char shown[64];

        if (text == NULL) {
            text = cfg->is_local ? s->local : s->elsewhere;
        }
        if (text == NULL || store_value(cfg, s, text)) {
            continue;
        }
        print_value(shown, sizeof(shown), s, text);
        snprintf(err, err_cap, "%s: %s is not accepted; accepted: %s", s->name,
                 shown, s->accepted);
        return false;
    }
    return true;
}

/* -- rules that join settings ---------------------------------------------
 */

/* Defaults that follow from other settings or from the machine. */
static void derive(struct config *cfg, const struct envfile *file)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    /* One core is left to all that is not hashing: on a machine whose every
     * core hashes, a refresh takes several times as long, at whatever priority
     * the hashes run. */
    if (cfg->hash_concurrency == 0) {
        cfg->hash_concurrency = cores > 256 ? 256
                                : cores > 2 ? (int) cores - 1
                                            : 1;
    }
    if (cfg->db_pool_size == 0 || cfg->db_pool_size > cfg->worker_threads) {
        cfg->db_pool_size = cfg->worker_threads;
    }
    if (lookup(file, "PLATFORM_DB_SEED_ON_START") == NULL) {
        cfg->db_seed_on_start = cfg->is_local && cfg->db_migrate_on_start;
    }
}

static bool cookie_rules(const struct config *cfg, char *err, size_t err_cap)
{
    const char *wrong = NULL;

    if (!cfg->is_local && !cfg->cookie_secure) {
        wrong = "PLATFORM_AUTH_COOKIE_SECURE: false is accepted only where "
                "APP_ENV is local; accepted: true";
    } else if (cfg->cookie_same_site == SAME_SITE_NONE &&
               !cfg->cookie_secure) {
        wrong = "PLATFORM_AUTH_COOKIE_SAME_SITE: None needs "
                "PLATFORM_AUTH_COOKIE_SECURE=true; accepted: Strict, Lax";
    } else if (cfg->cookie_partitioned &&
               cfg->cookie_same_site != SAME_SITE_NONE) {
        wrong = "PLATFORM_AUTH_COOKIE_PARTITIONED: true needs "
                "PLATFORM_AUTH_COOKIE_SAME_SITE=None and "
                "PLATFORM_AUTH_COOKIE_SECURE=true; accepted: false";
    } else if (strncasecmp(cfg->cookie_name, "__Secure-", 9) == 0 &&
               !cfg->cookie_secure) {
        wrong = "PLATFORM_AUTH_REFRESH_COOKIE_NAME: __Secure- is accepted "
                "only with PLATFORM_AUTH_COOKIE_SECURE=true";
    } else if (strncasecmp(cfg->cookie_name, "__Host-", 7) == 0 &&
               (!cfg->cookie_secure || strcmp(cfg->cookie_path, "/") != 0)) {
        wrong = "PLATFORM_AUTH_REFRESH_COOKIE_NAME: __Host- is accepted only "
                "with PLATFORM_AUTH_COOKIE_SECURE=true and "
                "PLATFORM_AUTH_COOKIE_PATH=/";
    }
    if (wrong != NULL) {
        snprintf(err, err_cap, "%s", wrong);
    }
    return wrong == NULL;
}

static bool check_rules(const struct config *cfg, char *err, size_t err_cap)
{
    if (!cookie_rules(cfg, err, err_cap)) {
        return false;
    }
    if (!cfg->db_seed_on_start) {
        return true;
    }
    if (!cfg->db_migrate_on_start) {
        snprintf(err, err_cap,
                 "PLATFORM_DB_SEED_ON_START: true needs "
                 "PLATFORM_DB_MIGRATE_ON_START=true; accepted: false");
        return false;
    }
    return config_may_seed(cfg, err, err_cap);
}

static bool is_loopback(const char *host, size_t len)
{
    return len == 0 || host[0] == '/' || host[0] == '@' ||
           (len == 9 && memcmp(host, "localhost", 9) == 0) ||
           (len > 4 && memcmp(host, "127.", 4) == 0 &&
            strspn(host, "0123456789.") >= len) ||
           (len == 3 && memcmp(host, "::1", 3) == 0);
}

static bool all_loopback(const char *hosts)
{
    for (;;) {
        size_t len = strcspn(hosts, ",");

        if (!is_loopback(hosts, len)) {
            return false;
        }
        if (hosts[len] == '\0') {
            return true;
        }
        hosts += len + 1;
    }
}

bool config_may_seed(const struct config *cfg, char *err, size_t err_cap)
{
    /* libpq looks at these two by itself. */
    const char *addr = getenv("PGHOSTADDR");
    const char *host = cfg->db_host != NULL ? cfg->db_host : getenv("PGHOST");

    if (!cfg->is_local) {
        snprintf(err, err_cap,
                 "PLATFORM_DB_SEED_ON_START: local data is accepted only "
                 "where APP_ENV is local; accepted: false");
        return false;
    }
    if ((host != NULL && !all_loopback(host)) ||
        (addr != NULL && !all_loopback(addr))) {
        snprintf(err, err_cap,
                 "PLATFORM_DB_SEED_ON_START: local data goes only into a "
                 "database on a loopback address or a Unix socket; "
                 "accepted: false, or another PLATFORM_DB_HOST");
        return false;
    }
    return true;
}

/* -- names nobody reads ---------------------------------------------------
 */

#define NAME_MAX_BYTES 64

static size_t min3(size_t a, size_t b, size_t c)
{
    size_t least = a < b ? a : b;

    return least < c ? least : c;
}

/* Levenshtein distance of a[0..len) and b. */
static size_t distance(const char *a, size_t len, const char *b)
{
    size_t row[NAME_MAX_BYTES + 1];
    size_t b_len = strlen(b);

    for (size_t j = 0; j <= b_len; j++) {
        row[j] = j;
    }
    for (size_t i = 1; i <= len; i++) {
        size_t diagonal = row[0];

        row[0] = i;
        for (size_t j = 1; j <= b_len; j++) {
            size_t above = row[j];

            row[j] = min3(above + 1, row[j - 1] + 1,
                          diagonal + (a[i - 1] != b[j - 1]));
            diagonal = above;
        }
    }
    return row[b_len];
}

/*
 * A name one or two letters off a known one is a typing error whose setting
 * would silently keep its default: refused.  Any other unknown PLATFORM_ name
 * may belong to somebody else (an orchestrator, a newer version): warned of.
 */
static bool check_name(struct config *cfg, const char *name, size_t len,
                       char *err, size_t err_cap)
{
    char line[160];

    if (len < 9 || strncmp(name, "PLATFORM_", 9) != 0 ||
        find_setting(name, len) != NULL) {
        return true;
    }
    for (size_t i = 0; len <= NAME_MAX_BYTES && i < SETTING_COUNT; i++) {
        if (distance(name, len, settings[i].name) <= 2) {
            snprintf(err, err_cap, "%.*s: no such setting; did you mean %s?",
                     (int) len, name, settings[i].name);
            return false;
        }
    }
    if (cfg->warning == NULL) {
        snprintf(line, sizeof(line), "%.*s: no such setting, ignored",
                 len < 100 ? (int) len : 100, name);
        cfg->warning = strdup(line);
    }
    return true;
}

static bool check_names(struct config *cfg, const struct envfile *file,
                        char *err, size_t err_cap)
{
    for (size_t i = 0; i < file->count; i++) {
        const char *name = file->vars[i].name;

        if (!check_name(cfg, name, strlen(name), err, err_cap)) {
            return false;
        }
    }
    for (char **p = environ; p != NULL && *p != NULL; p++) {
        if (!check_name(cfg, *p, strcspn(*p, "="), err, err_cap)) {
            return false;
        }
    }
    return true;
}

/* -- the whole ------------------------------------------------------------
 */

bool config_load(struct config *cfg, const char *env_file, char *err,
                 size_t err_cap)
{
    struct envfile file = {0};
    bool ok = false;

    memset(cfg, 0, sizeof(*cfg));
    if (env_file != NULL && !envfile_read(&file, env_file, err, err_cap)) {
        return false;
    }
    cfg->is_local = is_local(&file);
    if (check_names(cfg, &file, err, err_cap) &&
        load_values(cfg, &file, err, err_cap)) {
        derive(cfg, &file);
        ok = check_rules(cfg, err, err_cap);
    }
    envfile_free(&file);
    if (!ok) {
        config_free(cfg);
    }
    return ok;
}

/* What config_load() would make of it, bad values left out. */
static void load_good_values(struct config *cfg, const struct envfile *file)
{
    memset(cfg, 0, sizeof(*cfg));
    cfg->is_local = is_local(file);
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *s = &settings[i];
        const char *text = lookup(file, s->name);

        if (text == NULL) {
            text = cfg->is_local ? s->local : s->elsewhere;
        }
        if (text != NULL) {
            (void) store_value(cfg, s, text);
        }
    }
    derive(cfg, file);
}

static void print_default(FILE *out, const struct config *cfg,
                          const struct setting *s)
{
    const char *text = cfg->is_local ? s->local : s->elsewhere;

    if (text != NULL) {
        fprintf(out, "%s=%s (default)\n", s->name, text);
    } else if (s->kind == KIND_INT) {
        fprintf(out, "%s=%d (default)\n", s->name,
                *(const int *) ((const char *) cfg + s->field));
    } else if (s->kind == KIND_BOOL) {
        bool value = *(const bool *) ((const char *) cfg + s->field);

        fprintf(out, "%s=%s (default)\n", s->name, value ? "true" : "false");
    } else {
        fprintf(out, "%s=(unset)\n", s->name);
    }
}

bool config_print(FILE *out, const char *env_file, char *err, size_t err_cap)
{
    struct envfile file = {0};
    struct config cfg;

    if (env_file != NULL && !envfile_read(&file, env_file, err, err_cap)) {
        return false;
    }
    load_good_values(&cfg, &file);
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *s = &settings[i];
        const char *value = lookup(&file, s->name);

        if (s->secret) {
            fprintf(out, "%s=(%s)\n", s->name,
                    value != NULL ? "set" : "unset");
        } else if (value != NULL) {
            fprintf(out, "%s=%s\n", s->name, value);
        } else {
            print_default(out, &cfg, s);
        }
    }
    config_free(&cfg);
    envfile_free(&file);
    return true;
}

static void wipe_free(char *text)
{
    if (text != NULL) {
        OPENSSL_cleanse(text, strlen(text));
        free(text);
    }
}

void config_wipe_private_key(struct config *cfg)
{
    wipe_free(cfg->jwt_private_key_base64);
    cfg->jwt_private_key_base64 = NULL;
}

void config_free(struct config *cfg)
{
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        const struct setting *s = &settings[i];

        if (s->kind == KIND_TEXT && s->field != UNUSED_FIELD) {
            wipe_free(*(char **) field_of(cfg, s));
        }
    }
    for (size_t i = 0; i < cfg->cors_origin_count; i++) {
        free(cfg->cors_origins[i]);
    }
    free(cfg->cors_origins);
    free(cfg->warning);
    memset(cfg, 0, sizeof(*cfg));
}

void config_scrub_environment(void)
{
    for (size_t i = 0; i < SETTING_COUNT; i++) {
        char *value = settings[i].secret ? getenv(settings[i].name) : NULL;

        /* getenv() points at the very bytes that /proc/PID/environ shows. */
        if (value != NULL) {
            OPENSSL_cleanse(value, strlen(value));
            unsetenv(settings[i].name);
        }
    }
}
