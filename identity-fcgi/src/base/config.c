/* The program's settings: one table of names, forms, defaults and rules. */

#include "base/config.h"

#include "base/config_forms.h"
#include "base/config_webauthn.h"
#include "base/factor_key.h"
#include "base/parse.h"

#include <openssl/crypto.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

extern char **environ;

/* The type of a value.  The size of a number is that of its member. */
enum kind {
    KIND_TEXT,    /* char *, checked by form or check */
    KIND_WORD,    /* enum: index in accepted; bool: true if the index is even */
    KIND_NUMBER,  /* in the range of accepted */
    KIND_SECONDS, /* a duration in that range, in seconds */
    KIND_MS       /* the same in milliseconds */
};

struct setting {
    const char *name;
    enum kind kind;
    size_t member, size;  /* in struct config; size 0 if only checked */
    const char *preset;   /* default value, or NULL (see derive()) */
    const char *accepted; /* for error messages; range or words of a kind */
    const char *form;     /* of a text, like max and check */
    size_t max;           /* bytes, 0 for 65536 */
    bool (*check)(const char *text);
    const char *between; /* separators of a list, or NULL for one value */
    const char *local;   /* default if APP_ENV is local, or NULL for preset */
    bool secret;
};

#define A_TEXT(limit)                                                          \
    "visible ASCII without quotes and backslashes, at most " #limit,           \
        .form = PARSE_VISIBLE "+", .max = limit
#define SHARED(x) A_##x, .form = FORM_##x

#define SETTING(k, n, m, p, a, ...)                                            \
    {                                                                          \
        .name = n, .kind = k, .member = offsetof(struct config, m),            \
        .size = sizeof(((struct config *) 0)->m), .preset = p, .accepted = a,  \
        __VA_ARGS__                                                            \
    }
/* Used by the nginx templates, and only checked by this program. */
#define FOREIGN(n, p, a, ...)                                                  \
    {                                                                          \
        .name = n, .preset = p, .accepted = a, __VA_ARGS__                     \
    }
#define TEXT(...) SETTING(KIND_TEXT, __VA_ARGS__)
#define SECRET(n, m) TEXT(n, m, NULL, "at most 65536 bytes", .secret = true)
#define BOOL(n, m, p, ...) SETTING(KIND_WORD, n, m, p, A_BOOL, __VA_ARGS__)
#define WORD(...) SETTING(KIND_WORD, __VA_ARGS__)
#define NUMBER(...) SETTING(KIND_NUMBER, __VA_ARGS__)
#define SECONDS(...) SETTING(KIND_SECONDS, __VA_ARGS__)
#define MS(...) SETTING(KIND_MS, __VA_ARGS__)

/* clang-format off */
static const struct setting settings[] = {
    TEXT("APP_ENV", app_env, NULL, A_TEXT(64)),
    TEXT("APP_NAME", app_name, "identity-service", A_TEXT(64)),
    FOREIGN("HTTP_HOST", "127.0.0.1", SHARED(HOST)),
    FOREIGN("HTTP_PORT", "8081", SHARED(PORT)),
    TEXT("IDENTITY_LISTEN", listen, NULL,
         "the path of a socket (with a slash) or host:port",
         .check = parse_listen),
    FOREIGN("PLATFORM_ASSERTION_KEY", NULL, SHARED(PATH)),
    SECONDS("PLATFORM_AUDIT_KEEP", audit_keep_s, "400d", "30d to 3650d"),
    TEXT("PLATFORM_AUDIT_LOG", audit_log, "stderr",
         "stderr, journal, or the absolute path of a file or log socket",
         .form = "stderr|journal|/.+", .max = 4095),
    NUMBER("PLATFORM_AUTH_ARGON2_ITERATIONS", argon2_iterations, "2",
           "2 to 10"),
    NUMBER("PLATFORM_AUTH_ARGON2_MEMORY_KIB", argon2_memory_kib, "19456",
           "19456 to 262144"),
    BOOL("PLATFORM_AUTH_COOKIE_PARTITIONED", cookie_partitioned, "false"),
    TEXT("PLATFORM_AUTH_COOKIE_PATH", cookie_path, "/api/auth",
         "a path that starts with / and has no ;",
         .form = "/[]!#-:<-[^-~]*", .max = 256),
    WORD("PLATFORM_AUTH_COOKIE_SAME_SITE", cookie_same_site, "Lax",
         "Strict, Lax, None"),
    BOOL("PLATFORM_AUTH_COOKIE_SECURE", cookie_secure, "true",
         .local = "false"),
    TEXT("PLATFORM_AUTH_CREDENTIAL_FORBIDDEN", credential_forbidden, NULL,
         "the absolute path of a file", .form = "/.*", .max = 4095),
    NUMBER("PLATFORM_AUTH_CREDENTIAL_MIN", credential_min, "8", "1 to 128"),
    WORD("PLATFORM_AUTH_DPOP", dpop, "accept", "off, accept, require"),
    TEXT("PLATFORM_AUTH_FACTOR_KEYS", factor_keys, NULL,
         "id=base64,id=base64, each of 32 bytes, at most 16",
         .check = factor_key_check, .secret = true),
    SECONDS("PLATFORM_AUTH_FAILURE_WINDOW", failure_window_s, "15m",
            "1s to 30d"),
    NUMBER("PLATFORM_AUTH_HASH_CONCURRENCY", hash_concurrency, NULL,
           "1 to 256"),
    NUMBER("PLATFORM_AUTH_MAX_FAILURES", max_failures, "10",
           "0 (off) to 1000000"),
    NUMBER("PLATFORM_AUTH_MAX_SESSIONS", max_sessions, "1000",
           "0 (no limit) to 100000"),
    TEXT("PLATFORM_AUTH_REFRESH_COOKIE_NAME", cookie_name,
         "platform_refresh_token", "an RFC 6265 token",
         .form = "[0-9A-Za-z!#$%&'*+.^_`|~-]+", .max = 128),
    SECONDS("PLATFORM_AUTH_REFRESH_RETRY_WINDOW", refresh_retry_window_s, "0",
            "0 (off) to 60s"),
    WORD("PLATFORM_AUTH_REFRESH_REUSE", refresh_reuse, "reject",
         "reject, revoke"),
    WORD("PLATFORM_AUTH_REQUIRE_FACTOR", require_factor, "off",
         "off, OPERATOR, all"),
    BOOL("PLATFORM_AUTH_SESSION_CLIENT", session_client, "true"),
    SECONDS("PLATFORM_AUTH_SESSION_MAX_LIFETIME", session_max_lifetime_s,
            "90d", "0 (no cap) to 3650d"),
    FOREIGN("PLATFORM_CORS_ALLOWED_HEADERS", NULL, SHARED(HEADER),
            .between = " \t,"),
    TEXT("PLATFORM_CORS_ALLOWED_ORIGINS", cors_origins, NULL, SHARED(ORIGIN),
         .between = " \t", .local = "http://127.0.0.1:8080"),
    MS("PLATFORM_DB_CONNECT_TIMEOUT", db_connect_timeout_ms, "2s",
       "0.1s to 60s"),
    TEXT("PLATFORM_DB_HOST", db_host, NULL, "libpq's host"),
    MS("PLATFORM_DB_LOCK_TIMEOUT", db_lock_timeout_ms, "0.5s", "0.01s to 60s"),
    BOOL("PLATFORM_DB_MIGRATE_ON_START", db_migrate_on_start, "false",
         .local = "true"),
    TEXT("PLATFORM_DB_NAME", db_name, NULL, "libpq's dbname"),
    SECRET("PLATFORM_DB_PASSWORD", db_password),
    NUMBER("PLATFORM_DB_POOL_SIZE", db_pool_size, NULL, "1 to 256"),
    TEXT("PLATFORM_DB_PORT", db_port, NULL,
         "1 to 65535, or a comma-separated list as libpq's port",
         .form = PORT "?(," PORT "?)*"),
    BOOL("PLATFORM_DB_PREPARED", db_prepared, "true"),
    BOOL("PLATFORM_DB_SEED_ON_START", db_seed_on_start, NULL),
    TEXT("PLATFORM_DB_SSLMODE", db_sslmode, NULL,
         "disable, allow, prefer, require, verify-ca, verify-full",
         .form = "disable|allow|prefer|require|verify-ca|verify-full"),
    MS("PLATFORM_DB_STATEMENT_TIMEOUT", db_statement_timeout_ms, "3s",
       "0.1s to 60s"),
    TEXT("PLATFORM_DB_USER", db_user, NULL, "libpq's user"),
    FOREIGN("PLATFORM_ENTITLEMENT_CONNECT_TIMEOUT", "2s", SHARED(TIME)),
    FOREIGN("PLATFORM_ENTITLEMENT_SERVERS", NULL, SHARED(ADDRESS),
            .between = " \t,"),
    FOREIGN("PLATFORM_ENTITLEMENT_TIMEOUT", "30s", SHARED(TIME)),
    FOREIGN("PLATFORM_ENTITLEMENT_URL", "http://127.0.0.1:8082", SHARED(SITE)),
    FOREIGN("PLATFORM_HTTP_ACCESS_LOG_BUFFER", "64k", SHARED(LOG_BUFFER)),
    BOOL("PLATFORM_HTTP_ACCESS_LOG_ENABLED", access_log, "true"),
    SECONDS("PLATFORM_JWT_ACCESS_TOKEN_TTL", access_ttl_s, "15m", "1s to 1d"),
    TEXT("PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS", jwt_additional_public_keys,
         NULL, "kid=base64,kid=base64"),
    TEXT("PLATFORM_JWT_AUDIENCE", jwt_audience, NULL, SHARED(URI)),
    TEXT("PLATFORM_JWT_ISSUER", jwt_issuer, "http://127.0.0.1:8081",
         SHARED(URI)),
    TEXT("PLATFORM_JWT_KEY_DIR", jwt_key_dir, NULL, "an absolute path",
         .form = "/.+", .max = 4000),
    TEXT("PLATFORM_JWT_KEY_ID", jwt_key_id, NULL, PARSE_KID_ACCEPTED,
         .check = parse_kid),
    SECRET("PLATFORM_JWT_PRIVATE_KEY_BASE64", jwt_private_key_base64),
    TEXT("PLATFORM_JWT_PUBLIC_KEY_BASE64", jwt_public_key_base64, NULL,
         "base64 of PEM or DER"),
    SECONDS("PLATFORM_JWT_REFRESH_TOKEN_TTL", refresh_ttl_s, "30d",
            "1s to 3650d"),
    SECONDS("PLATFORM_JWT_SYSTEM_TOKEN_TTL", system_ttl_s, "5m", "1s to 1h"),
    WORD("PLATFORM_JWT_TYP", jwt_typ, "JWT", "JWT, at+jwt"),
    FOREIGN("PLATFORM_LOGIN_RATE_LIMIT", "10r/s burst 20", SHARED(RATE)),
    WORD("PLATFORM_LOG_LEVEL", log_level, "info", "debug, info, warn, error"),
    TEXT("PLATFORM_PUBLIC_ORIGINS", public_origins, NULL, SHARED(PUBLIC),
         .between = " \t"),
    MS("PLATFORM_QUEUE_TIMEOUT", queue_timeout_ms, "2s", "0.1s to 5m"),
    FOREIGN("PLATFORM_REFRESH_RATE_LIMIT", "50r/s burst 100", SHARED(RATE)),
    MS("PLATFORM_REQUEST_TIMEOUT", request_timeout_ms, "5s", "0.1s to 5m"),
    SECONDS("PLATFORM_RETRY_AFTER_MAX", retry_after_max_s, "60s", "1s to 5m"),
    FOREIGN("PLATFORM_REVOCATIONS_ENABLED", "true", A_BOOL, .kind = KIND_WORD),
    FOREIGN("PLATFORM_REVOCATIONS_STALE", "pass", A_STALE,
            .kind = KIND_WORD),
    SECONDS("PLATFORM_SWEEP_INTERVAL", sweep_interval_s, "10m",
            "0 (off) to 7d"),
    WORD("PLATFORM_SYSTEM_API", system_api, "face", A_SYSTEM_API),
    FOREIGN("PLATFORM_SYSTEM_RATE_LIMIT", "100r/s burst 200", SHARED(RATE)),
    FOREIGN("PLATFORM_TRUSTED_PROXIES", NULL, SHARED(NETWORK),
            .between = " \t,"),
    TEXT("PLATFORM_WEBAUTHN_ORIGINS", webauthn_origins, NULL,
         "https://name or https://name:port, separated by spaces; "
         "http://localhost",
         .form = CONFIG_WEBAUTHN_ORIGIN, .between = " \t"),
    TEXT("PLATFORM_WEBAUTHN_RP_ID", webauthn_rp_id, NULL,
         "a domain name in lower case, or localhost",
         .form = CONFIG_WEBAUTHN_RP_ID, .max = 253),
    NUMBER("PLATFORM_WORKER_THREADS", worker_threads, "16", "1 to 256"),
    {.name = NULL}
};
/* clang-format on */

/* Returns the value from the file, else from the environment.  An empty value
 * counts as unset. */
static const char *lookup(const struct parse_env *file, const char *name)
{
    const char *value = parse_env_get(file, name);

    if (value == NULL) {
        value = getenv(name);
    }
    return value != NULL && *value != '\0' ? value : NULL;
}

static const char *preset_of(const struct config *cfg, const struct setting *s)
{
    return cfg->is_local && s->local != NULL ? s->local : s->preset;
}

#define MEMBER(cfg, s) ((void *) ((char *) (cfg) + (s)->member))

/* Returns the part of text that is not accepted, or NULL. For a list that is
 * the first bad word, copied to word, or text if it contains no word. */
static const char *refused_part(const struct setting *s, const char *text,
                                char word[512])
{
    const char *rest = text;
    size_t len;

    if (s->check != NULL || s->between == NULL) {
        return (s->check != NULL ? s->check(text)
                                 : parse_form(text, s->form, s->max))
                   ? NULL
                   : text;
    }
    word[0] = '\0';
    for (; *(rest += strspn(rest, s->between)) != '\0'; rest += len) {
        len = strcspn(rest, s->between);
        (void) snprintf(word, 512, "%.*s", (int) len, rest);
        if (len >= 512 || !parse_form(word, s->form, 0)) {
            return word;
        }
    }
    return word[0] != '\0' ? NULL : text;
}

static bool store_value(struct config *cfg, const struct setting *s,
                        const char *text)
{
    void *member = MEMBER(cfg, s);
    char word[512];
    int64_t v;

    if (s->kind == KIND_TEXT) {
        if (refused_part(s, text, word) != NULL) {
            return false;
        }
        return s->size == 0 || (*(char **) member = strdup(text)) != NULL;
    }
    if (s->kind == KIND_WORD
            ? !parse_word(text, s->accepted, &v)
            : !parse_within(text, s->accepted, s->kind >= KIND_SECONDS, &v) ||
                  (s->kind == KIND_SECONDS && v % 1000 != 0)) {
        return false;
    }
    if (s->size == sizeof(bool)) {
        *(bool *) member = v % 2 == 0;
    } else if (s->size == sizeof(int)) {
        *(int *) member = (int) v;
    } else if (s->size > 0) {
        *(int64_t *) member = s->kind == KIND_SECONDS ? v / 1000 : v;
    }
    return true;
}

/* Names the setting, its value (printable and truncated), and accepted
 * values. */
static void write_refusal(const struct setting *s, const char *text,
                          struct error *e)
{
    char shown[64] = "the value", *out = shown, word[512];
    const char *part = s->between != NULL ? refused_part(s, text, word) : NULL;

    if (!s->secret) {
        text = part != NULL ? part : text;
        *out++ = '"';
        for (; *text != '\0' && out < shown + sizeof(shown) - 5; text++) {
            *out++ = (char) (*text >= ' ' && *text <= '~' ? *text : '?');
        }
        (void) snprintf(out, 5, "%s\"", *text != '\0' ? "..." : "");
    }
    error_write(e, "%s: %s is not accepted; accepted: %s%s", s->name, shown,
                s->kind >= KIND_SECONDS
                    ? "integer seconds or a number with s, m, h or d, "
                    : "",
                s->accepted);
}

/* -- rules across settings ------------------------------------------------ */

static void derive_passkeys(struct config *cfg)
{
    if (cfg->webauthn_rp_id == NULL) {
        cfg->webauthn_rp_id = config_webauthn_host(cfg->webauthn_origins != NULL
                                                       ? cfg->webauthn_origins
                                                       : cfg->cors_origins);
    }
    if (cfg->webauthn_origins == NULL && cfg->webauthn_rp_id != NULL &&
        cfg->cors_origins != NULL &&
        config_webauthn_may_use(cfg->cors_origins, cfg->webauthn_rp_id)) {
        cfg->webauthn_origins = strdup(cfg->cors_origins);
    }
}

static void derive(struct config *cfg, const struct parse_env *file)
{
    long cores = sysconf(_SC_NPROCESSORS_ONLN);

    /* Leaves one core free of hashing.  If every core hashes, a refresh takes
     * several times as long, even though hashing runs at low priority. */
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
    if (cfg->dpop == DPOP_ACCEPT && cfg->public_origins == NULL) {
        cfg->dpop = DPOP_OFF;
    }
    derive_passkeys(cfg);
}

const char *config_refuse_seed(const struct config *cfg)
{
    /* libpq reads these two variables itself. */
    const char *addr = getenv("PGHOSTADDR");
    const char *host = cfg->db_host != NULL ? cfg->db_host : getenv("PGHOST");

    if (!cfg->is_local) {
        return "PLATFORM_DB_SEED_ON_START: local data is accepted only "
               "where APP_ENV is local; accepted: false";
    }
    return (host == NULL || parse_loopback(host)) &&
                   (addr == NULL || parse_loopback(addr))
               ? NULL
               : "PLATFORM_DB_SEED_ON_START: local data goes only into a "
                 "database on a loopback address or a Unix socket; "
                 "accepted: false, or another PLATFORM_DB_HOST";
}

static const char *broken_passkeys(const struct config *cfg)
{
    if (cfg->webauthn_rp_id == NULL) {
        return cfg->webauthn_origins == NULL
                   ? NULL
                   : "PLATFORM_WEBAUTHN_RP_ID: is needed, since "
                     "PLATFORM_WEBAUTHN_ORIGINS have no common host; "
                     "accepted: a domain name that all have or are below";
    }
    if (cfg->webauthn_origins == NULL) {
        return "PLATFORM_WEBAUTHN_ORIGINS: is needed, since not all of "
               "PLATFORM_CORS_ALLOWED_ORIGINS are https with the host "
               "PLATFORM_WEBAUTHN_RP_ID or below it; accepted: origins that "
               "are";
    }
    return config_webauthn_may_use(cfg->webauthn_origins, cfg->webauthn_rp_id)
               ? NULL
               : "PLATFORM_WEBAUTHN_ORIGINS: the host of each origin must be "
                 "PLATFORM_WEBAUTHN_RP_ID or below it";
}

/* Returns the message for a broken rule across settings, or NULL. */
static const char *broken_rule(const struct config *cfg)
{
    const char *wrong = cfg->db_seed_on_start ? config_refuse_seed(cfg) : NULL;

    if (!cfg->is_local && !cfg->cookie_secure) {
        wrong = "PLATFORM_AUTH_COOKIE_SECURE: false is accepted only where "
                "APP_ENV is local; accepted: true";
    } else if (cfg->cookie_same_site == SAME_SITE_NONE && !cfg->cookie_secure) {
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
    } else if (cfg->refresh_retry_window_s > 0 && !cfg->session_client) {
        wrong = "PLATFORM_AUTH_REFRESH_RETRY_WINDOW: a retry is compared with "
                "the client that it repeats, which needs "
                "PLATFORM_AUTH_SESSION_CLIENT=true; accepted: 0";
    } else if (cfg->jwt_typ == PJ_TYP_AT && cfg->jwt_audience == NULL) {
        wrong = "PLATFORM_JWT_TYP: at+jwt (RFC 9068) needs "
                "PLATFORM_JWT_AUDIENCE; accepted: JWT";
    } else if (cfg->jwt_audience != NULL &&
               strcmp(cfg->jwt_audience, cfg->jwt_issuer) == 0) {
        wrong = "PLATFORM_JWT_AUDIENCE: PLATFORM_JWT_ISSUER is the audience of "
                "refresh tokens; accepted: any other";
    } else if (cfg->require_factor != FACTOR_OPTIONAL &&
               cfg->factor_keys == NULL && cfg->webauthn_rp_id == NULL) {
        wrong = "PLATFORM_AUTH_REQUIRE_FACTOR: a second factor needs "
                "PLATFORM_AUTH_FACTOR_KEYS or PLATFORM_WEBAUTHN_RP_ID; "
                "accepted: off";
    } else if (cfg->db_seed_on_start && !cfg->db_migrate_on_start) {
        wrong = "PLATFORM_DB_SEED_ON_START: true needs "
                "PLATFORM_DB_MIGRATE_ON_START=true; accepted: false";
    }
    if (wrong == NULL && cfg->dpop == DPOP_REQUIRE &&
        cfg->public_origins == NULL) {
        wrong = "PLATFORM_AUTH_DPOP: require needs PLATFORM_PUBLIC_ORIGINS, "
                "with which proofs are compared; accepted: off, accept";
    }
    return wrong != NULL ? wrong : broken_passkeys(cfg);
}

/* Returns true if the Levenshtein distance between a[0..len) and b is at most
 * edits. */
static bool is_near(const char *a, size_t len, const char *b, int edits)
{
    for (; len > 0 && *a == *b; a++, b++, len--) {
    }
    if (len == 0 && *b == '\0') {
        return true;
    }
    return edits > 0 && ((len > 0 && is_near(a + 1, len - 1, b, edits - 1)) ||
                         (*b != '\0' && is_near(a, len, b + 1, edits - 1)) ||
                         (len > 0 && *b != '\0' &&
                          is_near(a + 1, len - 1, b + 1, edits - 1)));
}

/* A name within two edits of a known name is probably a typing error, and the
 * setting would silently keep its default, so it is refused.  Other unknown
 * PLATFORM_ names may belong to an orchestrator or a newer version and cause a
 * warning. */
static bool check_names(struct config *cfg, char **vars, struct error *e)
{
    for (; vars != NULL && *vars != NULL; vars++) {
        const char *name = *vars, *meant = NULL;
        size_t len = strcspn(name, "=");
        bool known = strncmp(name, "PLATFORM_", 9) != 0;

        for (const struct setting *s = settings; !known && s->name != NULL;
             s++) {
            known = is_near(name, len, s->name, 0);
            if (is_near(name, len, s->name, 2)) {
                meant = s->name;
            }
        }
        if (!known && meant != NULL) {
            return error_is(e, "%.*s: no such setting; did you mean %s?",
                            (int) len, name, meant);
        }
        if (!known && cfg->warning == NULL &&
            asprintf(&cfg->warning, "%.*s: no such setting, ignored",
                     len < 100 ? (int) len : 100, name) < 0) {
            cfg->warning = NULL;
        }
    }
    return true;
}

/* -- loading and printing ------------------------------------------------- */

/* Returns false with *e at the first bad value.  If e is NULL, skips it. */
static bool load_values(struct config *cfg, const struct parse_env *file,
                        struct error *e)
{
    const char *env = lookup(file, "APP_ENV");

    cfg->is_local = env != NULL && strcmp(env, "local") == 0;
    for (const struct setting *s = settings; s->name != NULL; s++) {
        const char *text = lookup(file, s->name);

        if (text == NULL) {
            text = preset_of(cfg, s);
        }
        if (text != NULL && !store_value(cfg, s, text) && e != NULL) {
            write_refusal(s, text, e);
            return false;
        }
    }
    derive(cfg, file);
    return true;
}

bool config_load(struct config *cfg, const char *env_file, struct error *e)
{
    struct parse_env file = {0};
    const char *broken;
    bool ok;

    memset(cfg, 0, sizeof(*cfg));
    if (env_file != NULL && !parse_env_read(&file, env_file, e)) {
        return false;
    }
    ok = check_names(cfg, file.vars, e) && check_names(cfg, environ, e) &&
         load_values(cfg, &file, e);
    if (ok && (broken = broken_rule(cfg)) != NULL) {
        ok = error_is(e, "%s", broken);
    }
    parse_env_free(&file);
    if (!ok) {
        config_free(cfg);
    }
    return ok;
}

bool config_print(FILE *out, const char *env_file, struct error *e)
{
    struct parse_env file = {0};
    struct config cfg = {0};

    if (env_file != NULL && !parse_env_read(&file, env_file, e)) {
        return false;
    }
    (void) load_values(&cfg, &file, NULL);
    for (const struct setting *s = settings; s->name != NULL; s++) {
        const char *value = lookup(&file, s->name);
        const char *mark = value == NULL ? " (default)" : "";
        void *member = MEMBER(&cfg, s);
        char number[12];

        if (s->secret) {
            fprintf(out, "%s=(%s)\n", s->name, *mark ? "unset" : "set");
            continue;
        }
        if (value == NULL) {
            value = preset_of(&cfg, s);
        }
        if (value == NULL && s->kind == KIND_NUMBER) {
            (void) snprintf(number, sizeof(number), "%d", *(int *) member);
            value = number;
        } else if (value == NULL && s->size == sizeof(bool)) {
            value = *(bool *) member ? "true" : "false";
        } else if (value == NULL && s->kind == KIND_TEXT && s->size != 0) {
            value = *(char **) member;
        }
        fprintf(out, "%s=%s%s\n", s->name, value != NULL ? value : "(unset)",
                value != NULL ? mark : "");
    }
    config_free(&cfg);
    parse_env_free(&file);
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
    for (const struct setting *s = settings; s->name != NULL; s++) {
        if (s->kind == KIND_TEXT && s->size != 0) {
            wipe_free(*(char **) MEMBER(cfg, s));
        }
    }
    free(cfg->warning);
    memset(cfg, 0, sizeof(*cfg));
}

void config_scrub_environment(void)
{
    for (const struct setting *s = settings; s->name != NULL; s++) {
        char *value = s->secret ? getenv(s->name) : NULL;

        /* getenv() returns the memory that /proc/PID/environ shows. */
        if (value != NULL) {
            OPENSSL_cleanse(value, strlen(value));
            unsetenv(s->name);
        }
    }
}
