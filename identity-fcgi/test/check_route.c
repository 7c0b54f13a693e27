/* Tests of route.c. */

#include "fake_store.h"
#include "server/route.h"
#include "store/migrate.h"
#include "testing.h"

static struct worker worker;
static struct config cfg;
static struct keys keys;
static struct http_request req;
static struct http_response res;
static char headers[4096], body[65536];

/* What the database answers. */
static void tell_ping(enum store_result result, int version)
{
    memset(&db, 0, sizeof(db));
    tell(&db.ping, result);
    db.version = version;
}

static void setup(void)
{
    static char document[] = "{\"keys\":[]}";
    static int something;

    memset(&keys, 0, sizeof(keys));
    keys.signing = (pj_key_t *) (void *) &something; /* never looked into */
    keys.jwks = document;
    keys.jwks_len = strlen(document);
    memcpy(keys.etag, "\"abc\"", 6);
    memset(&cfg, 0, sizeof(cfg));
    cfg.app_name = (char *) "identity-service";
    cfg.app_env = (char *) "local";
    cfg.retry_after_max_s = 60;
    memset(&worker, 0, sizeof(worker));
    worker.cfg = &cfg;
    worker.keys = &keys;
    worker.req = &req;
    worker.res = &res;
    tell_ping(STORE_OK, (int) migrate_count);
}

static void ask(const char *method, const char *path)
{
    memset(&req, 0, sizeof(req));
    req.method = str(method);
    req.path = str(path);
    req.request_id = str("r");
    http_response_init(&res, headers, sizeof(headers) - 1, body,
                       sizeof(body) - 1);
}

static void run(const char *method, const char *path)
{
    ask(method, path);
    route_handle(route_find(req.path), &worker);
    res.headers.data[res.headers.len] = '\0';
    res.body.data[res.body.len] = '\0';
}

static bool has_header(const char *line)
{
    return strstr(res.headers.data, line) != NULL;
}

static const struct {
    const char *method;
    const char *path;
    int status;
    const char *allow;
} cases[] = {
    {"GET", "/healthz", 200, NULL},
    {"HEAD", "/healthz", 200, NULL},
    {"GET", "/readyz", 200, NULL},
    {"GET", "/internal/readyz", 200, NULL},
    {"GET", "/actuator/health", 200, NULL},
    {"GET", "/actuator/health/liveness", 200, NULL},
    {"GET", "/actuator/health/readiness", 200, NULL},
    {"GET", "/actuator/info", 200, NULL},
    {"GET", "/.well-known/jwks.json", 200, NULL},
    {"POST", "/healthz", 405, "Allow: GET, HEAD\r\n"},
    {"GET", "/api/auth/login", 405, "Allow: POST\r\n"},
    {"HEAD", "/api/auth/refresh", 405, "Allow: POST\r\n"},
    {"post", "/api/auth/refresh", 405, "Allow: POST\r\n"},
    {"", "/healthz", 405, "Allow: GET, HEAD\r\n"},
    {"GET", "/", 404, NULL},
    {"GET", "", 404, NULL},
    {"GET", "/healthz/", 404, NULL},
    {"GET", "/HEALTHZ", 404, NULL},
    {"POST", "/api/auth", 404, NULL},
    {"POST", "/api/auth/login2", 404, NULL},
};

TESTS (test_table, LENGTH(cases)) {
    run(cases[_i].method, cases[_i].path);
    ck_assert_msg(res.status == cases[_i].status, "%s %s: %d", cases[_i].method,
                  cases[_i].path, res.status);
    if (cases[_i].allow != NULL) {
        ck_assert(has_header(cases[_i].allow));
    }
    if (res.status != 200) {
        ck_assert(has_header("application/problem+json"));
        ck_assert(has_header("Cache-Control: no-store\r\n"));
    }
}

TEST (test_size_comes_after_path_and_method) {
    static const struct {
        const char *method, *path;
        int status;
    } order[] = {{"POST", "/nothing", 404},
                 {"GET", "/api/auth/login", 405},
                 {"POST", "/api/auth/login", 413}};

    for (size_t i = 0; i < sizeof(order) / sizeof(order[0]); i++) {
        ask(order[i].method, order[i].path);
        req.body_too_large = true;
        route_handle(route_find(req.path), &worker);
        ck_assert_int_eq(res.status, order[i].status);
    }
    ck_assert_str_eq(res.code, "REQUEST_TOO_LARGE");
}

/* Requests of users are refused if late; a login or refresh also if the client
 * has disconnected. */
static const struct {
    const char *method, *path;
    bool late, left; /* expected to be refused */
} in_vain[] = {
    {"POST", "/api/auth/refresh", true, true},
    {"POST", "/api/auth/login", true, true},
    {"POST", "/api/auth/logout-all", true, false},
    {"GET", "/api/auth/sessions", true, false},
    {"GET", "/healthz", false, false},
    {"GET", "/.well-known/jwks.json", false, false},
    {"POST", "/api/auth/nothing", false, false},
};

TESTS (test_requests_in_vain, LENGTH(in_vain)) {
    for (int i = 0; i < 4; i++) {
        bool refused;

        worker.late = (i & 1) != 0;
        worker.disconnected = (i & 2) != 0;
        refused = (worker.late && in_vain[_i].late) ||
                  (worker.disconnected && in_vain[_i].left);
        run(in_vain[_i].method, in_vain[_i].path);
        ck_assert_msg((res.status == 503) == refused, "%s, %d: %d",
                      in_vain[_i].path, i, res.status);
    }
}

/* The seconds that n refusals after each other are told, counted. */
static void count_seconds(int n, int64_t most, int seconds[16])
{
    cfg.retry_after_max_s = most;
    worker.late = true;
    for (int i = 0; i < n; i++) {
        const char *told;
        long s;

        run("POST", "/api/auth/refresh");
        told = strstr(res.headers.data, "Retry-After: ");
        ck_assert_ptr_nonnull(told);
        s = strtol(told + strlen("Retry-After: "), NULL, 10);
        ck_assert(s >= 1 && s <= most);
        seconds[s]++;
    }
}

TEST (test_those_refused_do_not_come_again_at_once) {
    int seconds[16] = {0}, sooner[16] = {0}, more[16] = {0};

    count_seconds(4 * RETRIES_A_SECOND, 9, seconds);
    ck_assert_int_le(seconds[1], 2 * RETRIES_A_SECOND);
    ck_assert_int_ge(seconds[2], RETRIES_A_SECOND / 2);
    ck_assert_int_eq(seconds[6], 0);
    for (int i = 0; i < 2 * RETRIES_A_SECOND; i++) {
        auth_served();
    }
    count_seconds(RETRIES_A_SECOND / 2, 9, sooner);
    ck_assert_int_eq(sooner[4] + sooner[5], 0);
    /* Beyond the maximum, the time is arbitrary. */
    count_seconds(1000, 2, more);
    ck_assert_int_ge(more[1], 350);
    ck_assert_int_ge(more[2], 350);
}

TEST (test_labels_are_bounded) {
    ck_assert_str_eq(route_label(route_find(str("/healthz"))), "/healthz");
    ck_assert_str_eq(route_label(route_find(str("/../etc/passwd"))), "other");
    ck_assert_str_eq(route_label(SIZE_MAX), "other");
}

TEST (test_health_body) {
    run("GET", "/healthz");
    ck_assert_str_eq(res.body.data,
                     "{\"status\":\"UP\",\"service\":\"identity-service\"}");
    tell_ping(STORE_UNAVAILABLE, 0);
    run("GET", "/healthz");
    ck_assert_int_eq(res.status, 200);
}

TEST (test_readiness_names_the_failed_check) {
    tell_ping(STORE_UNAVAILABLE, 0);
    run("GET", "/readyz");
    ck_assert_int_eq(res.status, 503);
    ck_assert_str_eq(res.code, "DATABASE_UNAVAILABLE");
    ck_assert(has_header("Retry-After: 1\r\n"));
    ck_assert_ptr_nonnull(strstr(res.body.data, "database"));

    tell_ping(STORE_OK, (int) migrate_count - 1);
    run("GET", "/readyz");
    ck_assert_int_eq(res.status, 503);
    ck_assert_ptr_nonnull(strstr(res.body.data, "migrations"));

    tell_ping(STORE_OK, (int) migrate_count + 1); /* a newer one is running */
    run("GET", "/readyz");
    ck_assert_int_eq(res.status, 200);

    tell_ping(STORE_NONE, (int) migrate_count);
    run("GET", "/readyz");
    ck_assert_int_eq(res.status, 503);
    ck_assert_ptr_nonnull(strstr(res.body.data, "rights"));
    tell_ping(STORE_NONE, 0); /* what is not there yet cannot be granted */
    run("GET", "/readyz");
    ck_assert_ptr_nonnull(strstr(res.body.data, "migrations"));

    keys.signing = NULL;
    run("GET", "/readyz");
    ck_assert_int_eq(res.status, 503);
    ck_assert_ptr_nonnull(strstr(res.body.data, "signing key"));
}

TEST (test_key_set_and_its_validators) {
    run("GET", "/.well-known/jwks.json");
    ck_assert(has_header("Cache-Control: public, max-age=300\r\n"));
    ck_assert(has_header("ETag: \"abc\"\r\n"));
    ck_assert_str_eq(res.body.data, "{\"keys\":[]}");

    ask("GET", "/.well-known/jwks.json");
    req.if_none_match = str("\"x\", W/\"abc\"");
    route_handle(route_find(req.path), &worker);
    ck_assert_int_eq(res.status, 304);
    ck_assert_uint_eq(res.body.len, 0);

    ask("GET", "/.well-known/jwks.json");
    req.if_none_match = str("\"abd\"");
    route_handle(route_find(req.path), &worker);
    ck_assert_int_eq(res.status, 200);
}

#define MEMBERS                                                                \
    "\"response_types_supported\":[],\"grant_types_supported\":[],"            \
    "\"subject_types_supported\":[\"public\"],"                                \
    "\"id_token_signing_alg_values_supported\":"

/* The jwks_uri of an issuer, or NULL if it is not a URL. */
static const struct {
    const char *issuer, *jwks_uri;
} issuers[] = {
    {"https://id.example", "https://id.example/.well-known/jwks.json"},
    {"https://id.example/", "https://id.example/.well-known/jwks.json"},
    {"http://[::1]:8081/a/b", "http://[::1]:8081/a/b/.well-known/jwks.json"},
    {"issuer", NULL},
    {"urn:example:issuer", NULL},
    {"ftp://id.example", NULL},
    {"xhttps://id.example", NULL},
    {"https:id.example", NULL},
    {"https://", NULL},
    {"https:///a", NULL},
    {"https://id.example?a", NULL},
    {"https://id.example/#a", NULL},
};

TESTS (test_metadata, LENGTH(issuers)) {
    static const char *const paths[] = {
        "/.well-known/openid-configuration",
        "/.well-known/oauth-authorization-server"};
    char want[1024];

    cfg.jwt_issuer = (char *) issuers[_i].issuer;
    for (size_t i = 0; i < 2; i++) {
        run("GET", paths[i]);
        if (issuers[_i].jwks_uri == NULL) {
            ck_assert_msg(res.status == 404, "%s", cfg.jwt_issuer);
            ck_assert_str_eq(res.code, "RESOURCE_NOT_FOUND");
            continue;
        }
        ck_assert_int_eq(res.status, 200);
        ck_assert(has_header("Content-Type: application/json\r\n"));
        ck_assert(has_header("Cache-Control: public, max-age=300\r\n"));
        snprintf(want, sizeof(want),
                 "{\"issuer\":\"%s\",\"jwks_uri\":\"%s\"," MEMBERS "[]}",
                 cfg.jwt_issuer, issuers[_i].jwks_uri);
        ck_assert_str_eq(res.body.data, want);
    }
}

/* The tag of the answer that is there. */
static pj_str_t etag(void)
{
    static char tag[HTTP_ETAG_MAX];
    const char *at = strstr(res.headers.data, "ETag: ");

    ck_assert_ptr_nonnull(at);
    ck_assert_int_eq(sscanf(at, "ETag: %34s", tag), 1);
    return str(tag);
}

TEST (test_metadata_follow_the_keys) {
    static const char *const algs[] = {"ES256", "EdDSA", "ES256", "RS256"};
    static const char path[] = "/.well-known/openid-configuration";
    pj_str_t first;
    char tag[64];

    for (size_t i = 0; i < 4; i++) {
        ck_assert_int_eq(pj_key_generate(&keys.verifying[i],
                                         pj_alg_find(str(algs[i])), str("k")),
                         PJ_OK);
    }
    cfg.jwt_issuer = (char *) "https://id.example";
    keys.published_count = 3; /* the last is for refresh tokens alone */
    run("GET", path);
    ck_assert_ptr_nonnull(
        strstr(res.body.data, MEMBERS "[\"ES256\",\"EdDSA\"]}"));
    first = etag();
    snprintf(tag, sizeof(tag), "%.*s", (int) first.len,
             (const char *) first.data);

    ask("GET", path);
    req.if_none_match = str(tag);
    route_handle(route_find(req.path), &worker);
    ck_assert_int_eq(res.status, 304);
    ck_assert_uint_eq(res.body.len, 0);

    ask("GET", path);
    req.if_match = str("\"abc\""); /* entity tag of the key set */
    route_handle(route_find(req.path), &worker);
    ck_assert_int_eq(res.status, 412);

    keys.published_count = 1;
    run("GET", path);
    ck_assert_ptr_nonnull(strstr(res.body.data, MEMBERS "[\"ES256\"]}"));
    ck_assert(!pj_str_eq(etag(), str(tag)));
    for (size_t i = 0; i < 4; i++) {
        pj_key_free(keys.verifying[i]);
    }
}

TEST (test_metrics_without_a_key) {
    keys.signing = NULL;
    run("GET", "/actuator/prometheus");
    ck_assert_int_eq(res.status, 200);
    ck_assert(has_header(
        "Content-Type: text/plain; version=0.0.4; charset=utf-8\r\n"));
    ck_assert_ptr_nonnull(strstr(res.body.data, "\nidentity_workers 0\n"));
    ck_assert_ptr_nonnull(strstr(res.body.data, "\nidentity_keys 0\n"));
    ck_assert_ptr_null(strstr(res.body.data, "kid=\""));
}

static void fill(TCase *t)
{
    tcase_add_checked_fixture(t, setup, NULL);
}

int main(void)
{
    return run_case("route", fill);
}
