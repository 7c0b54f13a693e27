/* Tests of config.c: values of single settings. */

#include "base/config.h"
#include "testing.h"

#include <stdio.h>

static struct config cfg;
static struct error err;

/* Starts from an environment that holds nothing but APP_ENV=local. */
static void setup(void)
{
    clearenv();
    setenv("APP_ENV", "local", 1);
    memset(&cfg, 0, sizeof(cfg));
    err.text[0] = '\0';
}

static void teardown(void)
{
    config_free(&cfg);
}

static bool load(void)
{
    return config_load(&cfg, NULL, &err);
}

/* name, value, whether it is accepted where APP_ENV is local. */
/* 32 bytes in base64. */
#define KEY32 "QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY="

static const struct {
    const char *name;
    const char *value;
    bool good;
} values[] = {
    {"PLATFORM_WORKER_THREADS", "1", true},
    {"PLATFORM_WORKER_THREADS", "256", true},
    {"PLATFORM_WORKER_THREADS", "0", false},
    {"PLATFORM_WORKER_THREADS", "257", false},
    {"PLATFORM_WORKER_THREADS", "-1", false},
    {"PLATFORM_WORKER_THREADS", " 4", false},
    {"PLATFORM_WORKER_THREADS", "4x", false},
    {"PLATFORM_WORKER_THREADS", "99999999999999999999", false},
    {"PLATFORM_HTTP_ACCESS_LOG_ENABLED", "ON", true},
    {"PLATFORM_HTTP_ACCESS_LOG_ENABLED", "yes", false},
    {"PLATFORM_JWT_ACCESS_TOKEN_TTL", "90", true},
    {"PLATFORM_JWT_ACCESS_TOKEN_TTL", "1.5h", true},
    {"PLATFORM_JWT_ACCESS_TOKEN_TTL", "1d", true},
    {"PLATFORM_JWT_ACCESS_TOKEN_TTL", "0", false},
    {"PLATFORM_JWT_ACCESS_TOKEN_TTL", "25h", false},
    {"PLATFORM_JWT_ACCESS_TOKEN_TTL", "0.5s", false},
    {"PLATFORM_JWT_ACCESS_TOKEN_TTL", "15min", false},
    {"PLATFORM_REQUEST_TIMEOUT", "0.5s", true},
    {"PLATFORM_REQUEST_TIMEOUT", "0.05s", false},
    {"PLATFORM_QUEUE_TIMEOUT", "0.1s", true},
    {"PLATFORM_QUEUE_TIMEOUT", "0", false},
    {"PLATFORM_RETRY_AFTER_MAX", "1s", true},
    {"PLATFORM_RETRY_AFTER_MAX", "0", false},
    {"PLATFORM_AUTH_SESSION_MAX_LIFETIME", "0", true},
    {"PLATFORM_AUTH_COOKIE_SAME_SITE", "strict", true},
    {"PLATFORM_AUTH_COOKIE_SAME_SITE", "Loose", false},
    {"PLATFORM_AUTH_COOKIE_SAME_SITE", "None", false},
    {"PLATFORM_AUTH_COOKIE_PARTITIONED", "false", true},
    {"PLATFORM_AUTH_COOKIE_PARTITIONED", "true", false},
    {"PLATFORM_AUTH_COOKIE_PARTITIONED", "yes", false},
    {"PLATFORM_AUTH_COOKIE_PATH", "/", true},
    {"PLATFORM_AUTH_COOKIE_PATH", "api", false},
    {"PLATFORM_AUTH_COOKIE_PATH", "/a;b", false},
    {"PLATFORM_AUTH_REFRESH_COOKIE_NAME", "rt", true},
    {"PLATFORM_AUTH_REFRESH_COOKIE_NAME", "r t", false},
    {"PLATFORM_AUTH_REFRESH_COOKIE_NAME", "r=t", false},
    {"PLATFORM_AUTH_REFRESH_COOKIE_NAME", "__Secure-rt", false},
    {"PLATFORM_AUTH_REFRESH_COOKIE_NAME", "__Host-rt", false},
    {"PLATFORM_AUTH_ARGON2_MEMORY_KIB", "19455", false},
    {"PLATFORM_AUTH_ARGON2_MEMORY_KIB", "262145", false},
    {"PLATFORM_AUTH_ARGON2_ITERATIONS", "1", false},
    {"PLATFORM_AUTH_REFRESH_RETRY_WINDOW", "0", true},
    {"PLATFORM_AUTH_REFRESH_RETRY_WINDOW", "1m", true},
    {"PLATFORM_AUTH_REFRESH_RETRY_WINDOW", "61s", false},
    {"PLATFORM_AUTH_REFRESH_RETRY_WINDOW", "0.5s", false},
    {"PLATFORM_AUTH_REFRESH_REUSE", "revoke", true},
    {"PLATFORM_AUTH_REFRESH_REUSE", "allow", false},
    {"PLATFORM_JWT_ISSUER", "urn:issuer", true},
    {"PLATFORM_JWT_ISSUER", "two words", false},
    {"PLATFORM_JWT_KEY_ID", "a,b", false},
    {"PLATFORM_JWT_KEY_ID", "a'b", false},
    {"PLATFORM_JWT_KEY_ID", "#a;b", true},
    {"PLATFORM_DB_PORT", "5432", true},
    {"PLATFORM_DB_PORT", "5432,,6432", true},
    {"PLATFORM_DB_PORT", "0", false},
    {"PLATFORM_DB_PORT", "tcp://10.0.0.1:5432", false},
    {"PLATFORM_DB_SSLMODE", "verify-full", true},
    {"PLATFORM_DB_SSLMODE", "on", false},
    {"PLATFORM_DB_HOST", "127.0.0.1,/run/x,::1,localhost", true},
    {"PLATFORM_DB_HOST", "db.example.com", false}, /* seeding is on */
    {"PLATFORM_DB_HOST", "127.0.0.1,db", false},
    {"PLATFORM_DB_HOST", "127.evil.com", false},
    {"PLATFORM_CORS_ALLOWED_HEADERS", "X-A, x_b X-C2", true},
    {"PLATFORM_CORS_ALLOWED_HEADERS", "*", false},
    {"PLATFORM_CORS_ALLOWED_HEADERS", "X-A; X-B", false},
    {"PLATFORM_CORS_ALLOWED_ORIGINS", "https://a.b http://c:81", true},
    {"PLATFORM_CORS_ALLOWED_ORIGINS", "https://*.example.com", true},
    {"PLATFORM_CORS_ALLOWED_ORIGINS", "*", false},
    {"PLATFORM_PUBLIC_ORIGINS", "https://a.b  http://[::1]:81", true},
    {"PLATFORM_PUBLIC_ORIGINS", "https://a.b/", false},
    {"PLATFORM_PUBLIC_ORIGINS", "https://*.a.b", false},
    {"PLATFORM_PUBLIC_ORIGINS", "https://a.b, https://c", false},
    {"PLATFORM_AUTH_DPOP", "Accept", true},
    {"PLATFORM_AUTH_DPOP", "on", false},
    {"PLATFORM_WEBAUTHN_ORIGINS", "https://a.test https://x.a.test:81", true},
    {"PLATFORM_WEBAUTHN_ORIGINS", "http://localhost:5173", true},
    {"PLATFORM_WEBAUTHN_ORIGINS", "http://a.test", false},
    {"PLATFORM_WEBAUTHN_ORIGINS", "https://a.test http://a.test", false},
    {"PLATFORM_WEBAUTHN_ORIGINS", "https://*.a.test", false},
    {"PLATFORM_WEBAUTHN_ORIGINS", "https://127.0.0.1", false},
    {"PLATFORM_WEBAUTHN_ORIGINS", "https://A.test", false},
    {"PLATFORM_WEBAUTHN_ORIGINS", "https://a.test/", false},
    {"PLATFORM_WEBAUTHN_ORIGINS", "http://localhost.test", false},
    {"PLATFORM_WEBAUTHN_ORIGINS", " ", false},
    {"PLATFORM_WEBAUTHN_RP_ID", "https://a.test", false},
    {"PLATFORM_WEBAUTHN_RP_ID", "a.test.", false},
    {"PLATFORM_WEBAUTHN_RP_ID", "A.test", false},
    {"PLATFORM_WEBAUTHN_RP_ID", "127.0.0.1", false},
    {"PLATFORM_WEBAUTHN_RP_ID", "a.test b.test", false},
    {"PLATFORM_CORS_ALLOWED_ORIGINS", "null", false},
    {"PLATFORM_CORS_ALLOWED_ORIGINS", "https://a.b/", false},
    {"PLATFORM_CORS_ALLOWED_ORIGINS", "https://A.b", true},
    {"PLATFORM_CORS_ALLOWED_ORIGINS", "https://a_b.c", true},
    {"PLATFORM_CORS_ALLOWED_ORIGINS", "https://*.com", false},
    {"PLATFORM_CORS_ALLOWED_ORIGINS", "https://a.", false},
    {"PLATFORM_CORS_ALLOWED_ORIGINS", "https://*.a.b:444", true},
    {"PLATFORM_CORS_ALLOWED_ORIGINS", "https://a..b", false},
    {"PLATFORM_CORS_ALLOWED_ORIGINS", "https://a*.b", false},
    {"PLATFORM_CORS_ALLOWED_ORIGINS", "https://a:0", false},
    {"PLATFORM_CORS_ALLOWED_ORIGINS", "ftp://a", false},
    {"IDENTITY_LISTEN", "run/identity.sock", true},
    {"IDENTITY_LISTEN", "127.0.0.1:9000", true},
    {"IDENTITY_LISTEN", "[::1]:9000", true},
    {"IDENTITY_LISTEN", "::1:9000", false},
    {"IDENTITY_LISTEN", "9000", false},
    {"IDENTITY_LISTEN", "localhost:0", false},
    {"HTTP_PORT", "8081", true},
    {"HTTP_PORT", "port", false},
    {"PLATFORM_LOGIN_RATE_LIMIT", "off", true},
    {"PLATFORM_LOGIN_RATE_LIMIT", "600r/m burst 5", true},
    {"PLATFORM_LOGIN_RATE_LIMIT", "10", false},
    {"PLATFORM_SYSTEM_RATE_LIMIT", "off", true},
    {"PLATFORM_SYSTEM_RATE_LIMIT", "fast", false},
    {"PLATFORM_SYSTEM_API", "gateway", true},
    {"PLATFORM_SYSTEM_API", "on", false},
    {"PLATFORM_TRUSTED_PROXIES", "10.0.0.0/8 ::1", true},
    {"PLATFORM_TRUSTED_PROXIES", "0.0.0.0/0", false},
    {"PLATFORM_TRUSTED_PROXIES", "::/0", false},
    {"PLATFORM_ENTITLEMENT_URL", "https://e.example", true},
    {"PLATFORM_ENTITLEMENT_URL", "https://e.example/x", false},
    {"PLATFORM_ENTITLEMENT_URL", "e.example", false},
    {"PLATFORM_ENTITLEMENT_URL", "http://a@b", false},
    {"PLATFORM_ENTITLEMENT_URL", "http:///x", false},
    {"PLATFORM_AUTH_REFRESH_COOKIE_NAME", "r]t", false},
    {"PLATFORM_AUTH_REFRESH_COOKIE_NAME", "r-t~", true},
    {"PLATFORM_JWT_ISSUER", "a\\b", false},
    {"PLATFORM_JWT_ISSUER", "[a-b]", true},
    {"IDENTITY_LISTEN", "unix:/a.sock", true},
    {"IDENTITY_LISTEN", "127.0.0.1:65536", false},
    {"HTTP_PORT", "65535", true},
    {"HTTP_PORT", "65536", false},
    {"HTTP_HOST", "[::1]", true},
    {"HTTP_HOST", "a/b", false},
    {"PLATFORM_LOGIN_RATE_LIMIT", "1000001r/s", false},
    {"PLATFORM_TRUSTED_PROXIES", "10.0.0.0/33", false},
    {"PLATFORM_LOG_LEVEL", "debug", true},
    {"PLATFORM_LOG_LEVEL", "verbose", false},
    {"APP_NAME", "identity-2", true},
    {"APP_NAME", "two words", false},
    {"APP_ENV", "local", true},
    {"APP_ENV", "two words", false},
    {"HTTP_HOST", "a b", false},
    {"PLATFORM_ASSERTION_KEY", "/etc/keys", true},
    {"PLATFORM_ASSERTION_KEY", "keys", false},
    {"PLATFORM_AUDIT_KEEP", "30d", true},
    {"PLATFORM_AUDIT_KEEP", "29d", false},
    {"PLATFORM_AUDIT_LOG", "/a.log", true},
    {"PLATFORM_AUDIT_LOG", "a.log", false},
    {"PLATFORM_AUTH_ARGON2_ITERATIONS", "3", true},
    {"PLATFORM_AUTH_ARGON2_MEMORY_KIB", "19456", true},
    {"PLATFORM_AUTH_COOKIE_SECURE", "on", true},
    {"PLATFORM_AUTH_COOKIE_SECURE", "ja", false},
    {"PLATFORM_AUTH_CREDENTIAL_FORBIDDEN", "/etc/list", true},
    {"PLATFORM_AUTH_CREDENTIAL_FORBIDDEN", "list", false},
    {"PLATFORM_AUTH_CREDENTIAL_MIN", "12", true},
    {"PLATFORM_AUTH_CREDENTIAL_MIN", "0", false},
    {"PLATFORM_AUTH_FACTOR_KEYS", "a=" KEY32, true},
    {"PLATFORM_AUTH_FACTOR_KEYS", "b=" KEY32 ",a=" KEY32, true},
    {"PLATFORM_AUTH_FACTOR_KEYS", "a=" KEY32 ",a=" KEY32, false},
    {"PLATFORM_AUTH_FACTOR_KEYS", "a=" KEY32 ",", false},
    {"PLATFORM_AUTH_FACTOR_KEYS", "=" KEY32, false},
    {"PLATFORM_AUTH_FACTOR_KEYS", KEY32, false},
    {"PLATFORM_AUTH_FACTOR_KEYS", "a=QUJD", false},
    {"PLATFORM_AUTH_FACTOR_KEYS", "a=" KEY32 "QUJD", false},
    {"PLATFORM_AUTH_FACTOR_KEYS", "a=!", false},
    {"PLATFORM_AUTH_REQUIRE_FACTOR", "off", true},
    {"PLATFORM_AUTH_REQUIRE_FACTOR", "some", false},
    {"PLATFORM_AUTH_FAILURE_WINDOW", "15m", true},
    {"PLATFORM_AUTH_FAILURE_WINDOW", "0", false},
    {"PLATFORM_AUTH_HASH_CONCURRENCY", "1", true},
    {"PLATFORM_AUTH_HASH_CONCURRENCY", "0", false},
    {"PLATFORM_AUTH_MAX_FAILURES", "0", true},
    {"PLATFORM_AUTH_MAX_FAILURES", "x", false},
    {"PLATFORM_AUTH_MAX_SESSIONS", "0", true},
    {"PLATFORM_AUTH_MAX_SESSIONS", "-1", false},
    {"PLATFORM_AUTH_SESSION_CLIENT", "off", true},
    {"PLATFORM_AUTH_SESSION_CLIENT", "maybe", false},
    {"PLATFORM_AUTH_SESSION_MAX_LIFETIME", "x", false},
    {"PLATFORM_DB_CONNECT_TIMEOUT", "1s", true},
    {"PLATFORM_DB_CONNECT_TIMEOUT", "1h", false},
    {"PLATFORM_DB_MIGRATE_ON_START", "1", true},
    {"PLATFORM_DB_MIGRATE_ON_START", "maybe", false},
    {"PLATFORM_DB_LOCK_TIMEOUT", "0.2s", true},
    {"PLATFORM_DB_LOCK_TIMEOUT", "0", false},
    {"PLATFORM_DB_POOL_SIZE", "4", true},
    {"PLATFORM_DB_POOL_SIZE", "many", false},
    {"PLATFORM_DB_PREPARED", "off", true},
    {"PLATFORM_DB_PREPARED", "maybe", false},
    {"PLATFORM_DB_SEED_ON_START", "0", true},
    {"PLATFORM_DB_SEED_ON_START", "x", false},
    {"PLATFORM_DB_STATEMENT_TIMEOUT", "0.5s", true},
    {"PLATFORM_DB_STATEMENT_TIMEOUT", "0", false},
    {"PLATFORM_HTTP_ACCESS_LOG_BUFFER", "Off", true},
    {"PLATFORM_HTTP_ACCESS_LOG_BUFFER", "64k", true},
    {"PLATFORM_HTTP_ACCESS_LOG_BUFFER", "64", false},
    {"PLATFORM_HTTP_ACCESS_LOG_ENABLED", "1", true},
    {"PLATFORM_HTTP_ACCESS_LOG_ENABLED", "TRUE", true},
    {"PLATFORM_HTTP_ACCESS_LOG_ENABLED", "Off", true},
    {"PLATFORM_HTTP_ACCESS_LOG_ENABLED", "0", true},
    {"PLATFORM_HTTP_ACCESS_LOG_ENABLED", "2", false},
    {"PLATFORM_HTTP_ACCESS_LOG_ENABLED", "t", false},
    {"PLATFORM_JWT_AUDIENCE", "orders", true},
    {"PLATFORM_JWT_AUDIENCE", "two words", false},
    {"PLATFORM_JWT_KEY_DIR", "/keys", true},
    {"PLATFORM_JWT_KEY_DIR", "keys", false},
    {"PLATFORM_JWT_KEY_ID", "a b", false},
    {"PLATFORM_JWT_KEY_ID", "a=b", false},
    {"PLATFORM_JWT_KEY_ID", "a\"b", false},
    {"PLATFORM_JWT_KEY_ID", "a\\b", false},
    {"PLATFORM_JWT_KEY_ID", "a\tb", false},
    {"PLATFORM_JWT_KEY_ID", "\xc3\xa9", false},
    {"PLATFORM_JWT_REFRESH_TOKEN_TTL", "30d", true},
    {"PLATFORM_JWT_REFRESH_TOKEN_TTL", "30 days", false},
    {"PLATFORM_JWT_SYSTEM_TOKEN_TTL", "1h", true},
    {"PLATFORM_JWT_SYSTEM_TOKEN_TTL", "61m", false},
    {"PLATFORM_JWT_TYP", "jwt", true},
    {"PLATFORM_JWT_TYP", "at-jwt", false},
    {"PLATFORM_REFRESH_RATE_LIMIT", "5r/s burst 5", true},
    {"PLATFORM_REFRESH_RATE_LIMIT", "0r/s", false},
    {"PLATFORM_REVOCATIONS_ENABLED", "off", true},
    {"PLATFORM_REVOCATIONS_ENABLED", "x", false},
    {"PLATFORM_REVOCATIONS_STALE", "refuse", true},
    {"PLATFORM_REVOCATIONS_STALE", "x", false},
    {"PLATFORM_SWEEP_INTERVAL", "0", true},
    {"PLATFORM_SWEEP_INTERVAL", "x", false},
};

TESTS (test_value, LENGTH(values)) {
    setenv(values[_i].name, values[_i].value, 1);
    if (values[_i].good) {
        ck_assert_msg(load(), "%s=%s: %s", values[_i].name, values[_i].value,
                      err.text);
        return;
    }
    ck_assert_msg(!load(), "%s=%s was accepted", values[_i].name,
                  values[_i].value);
    ck_assert_ptr_null(strchr(err.text, '\n'));
    ck_assert_ptr_nonnull(strstr(err.text, "accepted"));
    if (strncmp(values[_i].name, "PLATFORM_DB_HOST", 16) != 0) {
        ck_assert_ptr_eq(strstr(err.text, values[_i].name), err.text);
    }
}

/* What keys.c and libpq judge, the gateway's templates, and check_config.c. */
static const char *const judged_elsewhere[] = {
    "PLATFORM_DB_NAME",
    "PLATFORM_DB_PASSWORD",
    "PLATFORM_DB_USER",
    "PLATFORM_ENTITLEMENT_CONNECT_TIMEOUT",
    "PLATFORM_ENTITLEMENT_SERVERS",
    "PLATFORM_ENTITLEMENT_TIMEOUT",
    "PLATFORM_JWT_ADDITIONAL_PUBLIC_KEYS",
    "PLATFORM_JWT_PRIVATE_KEY_BASE64",
    "PLATFORM_JWT_PUBLIC_KEY_BASE64",
    "PLATFORM_WEBAUTHN_RP_ID",
};

TEST (test_every_setting_has_its_values) {
    const size_t others =
        sizeof(judged_elsewhere) / sizeof(judged_elsewhere[0]);
    const size_t count = sizeof(values) / sizeof(values[0]);
    char *text = NULL, *line, *rest;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    ck_assert(config_print(out, NULL, &err));
    fclose(out);
    for (line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        unsigned seen = 0;

        line[strcspn(line, "=")] = '\0';
        for (size_t i = 0; i < count; i++) {
            if (strcmp(values[i].name, line) == 0) {
                seen |= values[i].good ? 1U : 2U;
            }
        }
        for (size_t i = 0; i < others; i++) {
            seen |= strcmp(judged_elsewhere[i], line) == 0 ? 3U : 0U;
        }
        ck_assert_msg(seen == 3, "%s: a good value and a bad one", line);
    }
    free(text);
}

static void fill(TCase *t)
{
    tcase_add_checked_fixture(t, setup, teardown);
}

int main(void)
{
    return run_case("config_values", fill);
}
