/* Tests of config.c and config_text.c. */

#include "base/config.h"
#include "base/parse.h"
#include "testing.h"

#include <stdio.h>
#include <unistd.h>

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

static void refused(const char *start)
{
    ck_assert(!load());
    ck_assert_msg(strncmp(err.text, start, strlen(start)) == 0, "%s", err.text);
}

TEST (test_local_defaults) {
    ck_assert_msg(load(), "%s", err.text);
    ck_assert(cfg.is_local);
    ck_assert_str_eq(cfg.app_name, "identity-service");
    ck_assert_ptr_null(cfg.listen);
    ck_assert(cfg.access_log);
    ck_assert_int_eq(cfg.log_level, LOG_INFO_);
    ck_assert(cfg.db_migrate_on_start);
    ck_assert(cfg.db_seed_on_start);
    ck_assert(cfg.db_prepared);
    ck_assert_int_eq(cfg.db_statement_timeout_ms, 3000);
    ck_assert_int_eq(cfg.db_connect_timeout_ms, 2000);
    ck_assert_str_eq(cfg.jwt_issuer, "http://127.0.0.1:8081");
    ck_assert_int_eq(cfg.access_ttl_s, 900);
    ck_assert_int_eq(cfg.refresh_ttl_s, 30 * 86400);
    ck_assert_str_eq(cfg.cookie_name, "platform_refresh_token");
    ck_assert_str_eq(cfg.cookie_path, "/api/auth");
    ck_assert(!cfg.cookie_secure);
    ck_assert_int_eq(cfg.cookie_same_site, SAME_SITE_LAX);
    ck_assert_int_eq(cfg.session_max_lifetime_s, 90 * 86400);
    ck_assert_int_eq(cfg.refresh_reuse, REUSE_REJECT);
    ck_assert_int_eq(cfg.max_failures, 10);
    ck_assert_int_eq(cfg.max_sessions, 1000);
    ck_assert_int_eq(cfg.failure_window_s, 900);
    ck_assert_int_ge(cfg.hash_concurrency, 1);
    ck_assert_int_eq(cfg.argon2_memory_kib, 19456);
    ck_assert_int_eq(cfg.argon2_iterations, 2);
    ck_assert_int_eq(cfg.worker_threads, 16);
    ck_assert_int_eq(cfg.db_pool_size, 16);
    ck_assert_int_eq(cfg.request_timeout_ms, 5000);
    ck_assert_int_eq(cfg.sweep_interval_s, 600);
    ck_assert_ptr_null(cfg.warning);
}

TEST (test_elsewhere_defaults_are_the_safe_ones) {
    setenv("APP_ENV", "production", 1);
    ck_assert_msg(load(), "%s", err.text);
    ck_assert(!cfg.is_local);
    ck_assert(cfg.cookie_secure);
    ck_assert(!cfg.db_migrate_on_start);
    ck_assert(!cfg.db_seed_on_start);
    ck_assert_ptr_null(cfg.cors_origins);
}

TEST (test_no_app_env_is_not_local) {
    unsetenv("APP_ENV");
    ck_assert(load());
    ck_assert(!cfg.is_local);
    ck_assert(cfg.cookie_secure);
}

TEST (test_local_is_exact) {
    setenv("APP_ENV", "Local", 1);
    setenv("PLATFORM_AUTH_COOKIE_SECURE", "false", 1);
    refused("PLATFORM_AUTH_COOKIE_SECURE");
}

TEST (test_empty_value_is_unset) {
    setenv("PLATFORM_WORKER_THREADS", "", 1);
    ck_assert(load());
    ck_assert_int_eq(cfg.worker_threads, 16);
}

TEST (test_host_prefix_rules) {
    setenv("PLATFORM_AUTH_REFRESH_COOKIE_NAME", "__Host-rt", 1);
    setenv("PLATFORM_AUTH_COOKIE_SECURE", "true", 1);
    ck_assert(!load());
    setenv("PLATFORM_AUTH_COOKIE_PATH", "/", 1);
    ck_assert_msg(load(), "%s", err.text);
}

TEST (test_same_site_none_needs_secure) {
    setenv("PLATFORM_AUTH_COOKIE_SAME_SITE", "None", 1);
    refused("PLATFORM_AUTH_COOKIE_SAME_SITE");
    setenv("PLATFORM_AUTH_COOKIE_SECURE", "true", 1);
    ck_assert_msg(load(), "%s", err.text);
}

TEST (test_retry_window_needs_the_client) {
    setenv("PLATFORM_AUTH_REFRESH_RETRY_WINDOW", "30s", 1);
    ck_assert_msg(load(), "%s", err.text);
    config_free(&cfg);
    setenv("PLATFORM_AUTH_SESSION_CLIENT", "false", 1);
    refused("PLATFORM_AUTH_REFRESH_RETRY_WINDOW: ");
    setenv("PLATFORM_AUTH_REFRESH_RETRY_WINDOW", "0", 1);
    ck_assert_msg(load(), "%s", err.text);
}

TEST (test_a_required_factor_needs_one_that_can_be_had) {
    setenv("PLATFORM_AUTH_REQUIRE_FACTOR", "OPERATOR", 1);
    refused("PLATFORM_AUTH_REQUIRE_FACTOR: ");
    setenv("PLATFORM_AUTH_FACTOR_KEYS",
           "a=QUJDREVGR0hJSktMTU5PUFFSU1RVVldYWVphYmNkZWY=", 1);
    ck_assert_msg(load(), "%s", err.text);
    ck_assert_int_eq(cfg.require_factor, FACTOR_OF_OPERATORS);
    config_free(&cfg);
    unsetenv("PLATFORM_AUTH_FACTOR_KEYS");
    setenv("PLATFORM_WEBAUTHN_ORIGINS", "https://a.example", 1);
    setenv("PLATFORM_AUTH_REQUIRE_FACTOR", "all", 1);
    ck_assert_msg(load(), "%s", err.text);
}

TEST (test_at_jwt_needs_an_audience) {
    ck_assert(load());
    ck_assert_int_eq(cfg.jwt_typ, PJ_TYP_JWT);
    config_free(&cfg);
    setenv("PLATFORM_JWT_TYP", "at+jwt", 1);
    refused("PLATFORM_JWT_TYP: ");
    setenv("PLATFORM_JWT_AUDIENCE", "api", 1);
    ck_assert_msg(load(), "%s", err.text);
    ck_assert_int_eq(cfg.jwt_typ, PJ_TYP_AT);
    config_free(&cfg);
    /* The audience of refresh tokens. */
    setenv("PLATFORM_JWT_ISSUER", "api", 1);
    refused("PLATFORM_JWT_AUDIENCE: ");
}

/* Settings of passkeys, and what they are then. */
static const struct {
    const char *cors, *origins, *rp_id;
    const char *want_id, *want_origins, *refused;
} passkeys[] = {
    {NULL, NULL, NULL, NULL, NULL, NULL},
    {"https://a.test", NULL, NULL, "a.test", "https://a.test", NULL},
    {"https://a.test https://x.a.test:81 https://y.x.a.test", NULL, NULL,
     "a.test", "https://a.test https://x.a.test:81 https://y.x.a.test", NULL},
    {"https://x.a.test\thttps://a.test", NULL, NULL, "a.test",
     "https://x.a.test\thttps://a.test", NULL},
    {"http://localhost:5173 https://localhost", NULL, NULL, "localhost",
     "http://localhost:5173 https://localhost", NULL},
    /* More than one site, a pattern, no domain, not https: no passkeys. */
    {"https://a.test https://b.test", NULL, NULL, NULL, NULL, NULL},
    {"https://x.a.test https://y.a.test", NULL, NULL, NULL, NULL, NULL},
    {"https://a.test https://xa.test", NULL, NULL, NULL, NULL, NULL},
    {"https://a.test https://*.a.test", NULL, NULL, NULL, NULL, NULL},
    {"https://127.0.0.1", NULL, NULL, NULL, NULL, NULL},
    {"https://[::1]:8443", NULL, NULL, NULL, NULL, NULL},
    {"http://a.test", NULL, NULL, NULL, NULL, NULL},
    {"http://localhost https://a.test", NULL, NULL, NULL, NULL, NULL},
    {"https://A.test", NULL, NULL, NULL, NULL, NULL},
    {"https://a_b.test", NULL, NULL, NULL, NULL, NULL},
    /* Set, both or one. */
    {NULL, "https://x.a.test https://y.a.test", "a.test", "a.test",
     "https://x.a.test https://y.a.test", NULL},
    {"https://b.test", "https://x.a.test", NULL, "x.a.test", "https://x.a.test",
     NULL},
    {"https://x.a.test https://y.a.test", NULL, "a.test", "a.test",
     "https://x.a.test https://y.a.test", NULL},
    {NULL, "https://x.a.test", "a.test", "a.test", "https://x.a.test", NULL},
    {NULL, "https://x.a.test https://y.a.test", NULL, NULL, NULL,
     "PLATFORM_WEBAUTHN_RP_ID: is needed"},
    {NULL, NULL, "a.test", NULL, NULL, "PLATFORM_WEBAUTHN_ORIGINS: is needed"},
    {"https://a.test https://b.test", NULL, "a.test", NULL, NULL,
     "PLATFORM_WEBAUTHN_ORIGINS: is needed"},
    {"https://*.a.test", NULL, "a.test", NULL, NULL,
     "PLATFORM_WEBAUTHN_ORIGINS: is needed"},
    {NULL, "https://xa.test", "a.test", NULL, NULL,
     "PLATFORM_WEBAUTHN_ORIGINS: the host"},
    {NULL, "https://a.test", "x.a.test", NULL, NULL,
     "PLATFORM_WEBAUTHN_ORIGINS: the host"},
    {NULL, "https://a.test https://b.test", "a.test", NULL, NULL,
     "PLATFORM_WEBAUTHN_ORIGINS: the host"},
};

static void set_or_not(const char *name, const char *value)
{
    if (value != NULL) {
        setenv(name, value, 1);
    } else {
        unsetenv(name);
    }
}

TESTS (test_passkeys, LENGTH(passkeys)) {
    const char *want;

    set_or_not("PLATFORM_CORS_ALLOWED_ORIGINS", passkeys[_i].cors);
    set_or_not("PLATFORM_WEBAUTHN_ORIGINS", passkeys[_i].origins);
    set_or_not("PLATFORM_WEBAUTHN_RP_ID", passkeys[_i].rp_id);
    if (passkeys[_i].refused != NULL) {
        refused(passkeys[_i].refused);
        return;
    }
    ck_assert_msg(load(), "%s", err.text);
    want = passkeys[_i].want_id;
    ck_assert(want == NULL ? cfg.webauthn_rp_id == NULL
                           : strcmp(cfg.webauthn_rp_id, want) == 0);
    want = passkeys[_i].want_origins;
    ck_assert(want == NULL ? cfg.webauthn_origins == NULL
                           : strcmp(cfg.webauthn_origins, want) == 0);
}

TEST (test_proofs_need_origins) {
    setenv("PLATFORM_AUTH_DPOP", "require", 1);
    refused("PLATFORM_AUTH_DPOP: require needs PLATFORM_PUBLIC_ORIGINS");
    setenv("PLATFORM_PUBLIC_ORIGINS", "https://api.example.com", 1);
    ck_assert_msg(load(), "%s", err.text);
    ck_assert_int_eq(cfg.dpop, DPOP_REQUIRE);
    config_free(&cfg);
    unsetenv("PLATFORM_AUTH_DPOP");
    ck_assert_msg(load(), "%s", err.text);
    ck_assert_int_eq(cfg.dpop, DPOP_ACCEPT);
    config_free(&cfg);
    unsetenv("PLATFORM_PUBLIC_ORIGINS");
    ck_assert_msg(load(), "%s", err.text);
    ck_assert_int_eq(cfg.dpop, DPOP_OFF);
}

TEST (test_partitioned_needs_same_site_none) {
    setenv("PLATFORM_AUTH_COOKIE_PARTITIONED", "true", 1);
    setenv("PLATFORM_AUTH_COOKIE_SECURE", "true", 1);
    refused("PLATFORM_AUTH_COOKIE_PARTITIONED: ");
    setenv("PLATFORM_AUTH_COOKIE_SAME_SITE", "Strict", 1);
    ck_assert(!load());
    setenv("PLATFORM_AUTH_COOKIE_SAME_SITE", "None", 1);
    ck_assert_msg(load(), "%s", err.text);
    ck_assert(cfg.cookie_partitioned);
    config_free(&cfg);
    setenv("PLATFORM_AUTH_COOKIE_SECURE", "false", 1);
    ck_assert(!load());
}

TEST (test_seeding_is_local_only) {
    setenv("APP_ENV", "production", 1);
    setenv("PLATFORM_DB_MIGRATE_ON_START", "true", 1);
    ck_assert_msg(load(), "%s", err.text);
    config_free(&cfg);
    setenv("PLATFORM_DB_SEED_ON_START", "true", 1);
    refused("PLATFORM_DB_SEED_ON_START");
}

TEST (test_seeding_heeds_libpq_environment) {
    setenv("PGHOST", "db.example.com", 1);
    ck_assert(!load());
    unsetenv("PGHOST");
    setenv("PGHOSTADDR", "10.0.0.1", 1);
    ck_assert(!load());
    unsetenv("PGHOSTADDR");
    ck_assert_msg(load(), "%s", err.text);
}

TEST (test_seed_follows_migrate) {
    setenv("PLATFORM_DB_MIGRATE_ON_START", "false", 1);
    ck_assert(load());
    ck_assert(!cfg.db_seed_on_start);
    config_free(&cfg);
    setenv("PLATFORM_DB_SEED_ON_START", "true", 1);
    ck_assert(!load());
}

TEST (test_pool_is_never_larger_than_its_users) {
    setenv("PLATFORM_DB_POOL_SIZE", "3", 1);
    ck_assert(load());
    ck_assert_int_eq(cfg.db_pool_size, 3);
    ck_assert_int_eq(cfg.worker_threads, 16);
    config_free(&cfg);
    setenv("PLATFORM_DB_POOL_SIZE", "64", 1);
    ck_assert(load());
    ck_assert_int_eq(cfg.db_pool_size, 16);
}

TEST (test_typing_error_is_named) {
    setenv("PLATFORM_JWT_ISSER", "x", 1);
    refused("PLATFORM_JWT_ISSER");
    ck_assert_ptr_nonnull(strstr(err.text, "did you mean PLATFORM_JWT_ISSUER"));
}

TEST (test_unknown_name_is_warned_of) {
    setenv("PLATFORM_SERVICE_PORT", "tcp://10.0.0.1:80", 1);
    ck_assert_msg(load(), "%s", err.text);
    ck_assert_ptr_nonnull(cfg.warning);
    ck_assert_ptr_nonnull(strstr(cfg.warning, "PLATFORM_SERVICE_PORT"));
}

TEST (test_secret_value_is_never_printed) {
    char *long_value = malloc(70000);

    memset(long_value, 'S', 69999);
    long_value[69999] = '\0';
    setenv("PLATFORM_DB_PASSWORD", long_value, 1);
    free(long_value);
    refused("PLATFORM_DB_PASSWORD");
    ck_assert_ptr_null(strstr(err.text, "SSS"));
}

TEST (test_scrub_overwrites_in_place) {
    const char *value;

    setenv("PLATFORM_DB_PASSWORD", "hunter2", 1);
    setenv("PLATFORM_JWT_PRIVATE_KEY_BASE64", "c2VjcmV0", 1);
    setenv("PLATFORM_DB_USER", "me", 1);
    value = getenv("PLATFORM_DB_PASSWORD");
    config_scrub_environment();
    ck_assert_ptr_null(getenv("PLATFORM_DB_PASSWORD"));
    ck_assert_ptr_null(getenv("PLATFORM_JWT_PRIVATE_KEY_BASE64"));
    ck_assert_str_eq(getenv("PLATFORM_DB_USER"), "me");
    ck_assert_uint_eq(strlen(value), 0);
}

TEST (test_print_shows_no_secret) {
    char *text = NULL;
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    setenv("PLATFORM_DB_PASSWORD", "hunter2", 1);
    setenv("PLATFORM_DB_USER", "me", 1);
    ck_assert(config_print(out, NULL, &err));
    fclose(out);
    ck_assert_ptr_null(strstr(text, "hunter2"));
    ck_assert_ptr_nonnull(strstr(text, "PLATFORM_DB_PASSWORD=(set)\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "PLATFORM_JWT_PRIVATE_KEY_BASE64=(unset)\n"));
    ck_assert_ptr_nonnull(strstr(text, "PLATFORM_DB_USER=me\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "PLATFORM_WORKER_THREADS=16 (default)\n"));
    free(text);
}

TEST (test_print_is_alphabetical) {
    char *text = NULL, *line, *rest;
    char last[128] = "";
    size_t len = 0;
    FILE *out = open_memstream(&text, &len);

    ck_assert(config_print(out, NULL, &err));
    fclose(out);
    for (line = strtok_r(text, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest)) {
        line[strcspn(line, "=")] = '\0';
        ck_assert_msg(strcmp(last, line) < 0, "%s before %s", last, line);
        snprintf(last, sizeof(last), "%s", line);
    }
    ck_assert_str_eq(last, "PLATFORM_WORKER_THREADS");
    free(text);
}

/* -- environment files ----------------------------------------------------
 */

static const struct {
    const char *text;
    const char *value; /* of A */
} good_files[] = {
    {"A=b", "b"},
    {"A=b\n", "b"},
    {"\n# A=no\n; A=no\n  A=b  \n", "b"},
    {"A= b c \t\n", "b c"},
    {"A=\" b \"\n", " b "},
    {"A=' b '\n", " b "},
    {"A='a\"b\\n'\n", "a\"b\\n"},
    {"A=\"a\\\"b\\\\c\\$d\\x\"\n", "a\"b\\c$d\\x"},
    {"A=\"\" \n", ""},
    {"A=a#b ; c\n", "a#b ; c"},
    {"A=a'b'\"c\"\n", "a'b'\"c\""}, /* quotes within are none */
    {"A=it's\n", "it's"},
    {"A = b\n", "b"},
    {"A\t=b\n", "b"},
    {"# B=1 \\\nA=b\n", "b"}, /* a comment ends with its line */
    {"A=1\nA=2\n", "2"},
    {"A=\n", ""},
    {"A=\nC=c\n", ""},
    {"A=b=c==\n", "b=c=="},
    {"A=b\r\n", "b"},
    {"A=\"b\"\r\nC=d\r\n", "b"},
    {"\r\nA=b \r\n", "b"},
};

static const struct {
    const char *text;
    const char *why;
} bad_files[] = {
    {"export A=b\n", "not of the form NAME=value"},
    {"A\n", "not of the form NAME=value"},
    {"A B=1\n", "not of the form NAME=value"},
    {"=b\n", "not of the form NAME=value"},
    {"1A=b\n", "not of the form NAME=value"},
    {"A=\"b\n", "a quote is not closed on its line"},
    {"A='b\n", "a quote is not closed on its line"},
    {"A=\"\n", "a quote is not closed on its line"},
    {"A=\"b\\\"\n", "a quote is not closed on its line"},
    {"A=\"two\nlines\"\n", "a quote is not closed on its line"},
    {"A='b'c\n", "text after the closing quote"},
    {"A=\"b\" \"c\"\n", "text after the closing quote"},
    {"A=a\\ b\n", "a backslash; quote the value to mean one"},
    {"A=one \\\ntwo\n", "a backslash; quote the value to mean one"},
};

static void write_env_file(char *path, const char *text, size_t len)
{
    int fd = mkstemp(path);

    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, text, len), (ssize_t) len);
    close(fd);
}

static bool read_env_file(struct parse_env *file, const char *text, size_t len)
{
    char path[] = "/tmp/check_config.XXXXXX";
    bool ok;

    write_env_file(path, text, len);
    ok = parse_env_read(file, path, &err);
    unlink(path);
    ck_assert(ok || strncmp(err.text, path, strlen(path)) == 0);
    return ok;
}

TESTS (test_env_file_syntax, LENGTH(good_files)) {
    const char *text = good_files[_i].text;
    struct parse_env file;

    ck_assert_msg(read_env_file(&file, text, strlen(text)), "%s", err.text);
    ck_assert_str_eq(parse_env_get(&file, "A"), good_files[_i].value);
    ck_assert_ptr_null(parse_env_get(&file, "B"));
    parse_env_free(&file);
}

TESTS (test_env_file_refusals, LENGTH(bad_files)) {
    const char *text = bad_files[_i].text;
    struct parse_env file;
    char want[100];

    snprintf(want, sizeof(want), ": line 1: %s", bad_files[_i].why);
    ck_assert_msg(!read_env_file(&file, text, strlen(text)), "%s", text);
    ck_assert_str_eq(strchr(err.text, ':'), want);
    ck_assert_ptr_null(file.vars);
}

TEST (test_env_file_says_which_line) {
    static const char nul[] = "A=b\n\n#\nB=\0c\n";
    struct parse_env file;

    ck_assert(!read_env_file(&file, nul, sizeof(nul) - 1));
    ck_assert_str_eq(strchr(err.text, ':'), ": line 4: a NUL byte");
    ck_assert(!read_env_file(&file, "A=b\n\n#\nB hunter2\n", 17));
    ck_assert_str_eq(strchr(err.text, ':'),
                     ": line 4: not of the form NAME=value");
}

TEST (test_env_file_is_bounded) {
    static char text[PARSE_ENV_MAX_BYTES];
    char path[] = "/tmp/check_config.XXXXXX";
    struct parse_env file;

    memset(text, '\n', sizeof(text));
    write_env_file(path, text, sizeof(text));
    ck_assert(!parse_env_read(&file, path, &err));
    ck_assert_ptr_nonnull(strstr(err.text, "cannot read: File too large"));
    ck_assert_int_eq(truncate(path, sizeof(text) - 1), 0);
    ck_assert_msg(parse_env_read(&file, path, &err), "%s", err.text);
    parse_env_free(&file);
    unlink(path);
    ck_assert(!parse_env_read(&file, "/tmp", &err));
    ck_assert_str_eq(err.text, "/tmp: cannot read: Is a directory");
}

TEST (test_env_file_wins_over_environment) {
    char path[] = "/tmp/check_config.XXXXXX";
    static const char text[] = "APP_ENV=staging\nPLATFORM_WORKER_THREADS=3\n";

    write_env_file(path, text, sizeof(text) - 1);
    setenv("PLATFORM_WORKER_THREADS", "5", 1);
    setenv("PLATFORM_DB_USER", "from-environment", 1);
    ck_assert_msg(config_load(&cfg, path, &err), "%s", err.text);
    unlink(path);
    ck_assert(!cfg.is_local);
    ck_assert_int_eq(cfg.worker_threads, 3);
    ck_assert_str_eq(cfg.db_user, "from-environment");
}

TEST (test_missing_env_file_is_named) {
    ck_assert(!config_load(&cfg, "/nonexistent/env", &err));
    ck_assert_ptr_nonnull(strstr(err.text, "/nonexistent/env"));
}

static void fill(TCase *t)
{
    tcase_add_checked_fixture(t, setup, teardown);
}

int main(void)
{
    return run_case("config", fill);
}
