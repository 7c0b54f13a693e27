/* Tests of metrics.c. */

#include "base/metrics.c" /* to begin each test with nothing counted */
#include "testing.h"

#include <pthread.h>
#include <stdio.h>

#define TEXT_MAX (1024 * 1024)

static char text[TEXT_MAX + 1];

static const char *endpoint(size_t number)
{
    static const char *const names[] = {"/a", "/b"};

    return number < 2 ? names[number] : "other";
}

static const char *render(const struct metrics_gauge *gauges, size_t count,
                          const char *kid)
{
    struct buf out;

    buf_init(&out, text, TEXT_MAX);
    metrics_render(&out, endpoint, gauges, count, kid,
                   kid != NULL ? strlen(kid) : 0);
    ck_assert(!out.overflow);
    text[out.len] = '\0';
    return text;
}

static bool has_line(const char *all, const char *line)
{
    size_t len = strlen(line);

    for (const char *p = all; (p = strstr(p, line)) != NULL; p++) {
        if ((p == all || p[-1] == '\n') && p[len] == '\n') {
            return true;
        }
    }
    return false;
}

/* The value of a series that is there. */
static uint64_t value_of(const char *series)
{
    const char *at = strstr(text, series);

    ck_assert_ptr_nonnull(at);
    return strtoull(at + strlen(series), NULL, 10);
}

static void setup(void)
{
    memset(&counted, 0, sizeof(counted));
    metrics_start();
}

TEST (test_counts_appear) {
    metrics_count(METRICS_ROTATIONS);
    metrics_add(METRICS_ROTATIONS, 4);
    metrics_add(METRICS_SWEPT_SESSIONS, 1000);
    render(NULL, 0, NULL);
    ck_assert(has_line(text, "identity_refresh_rotations_total 5"));
    ck_assert(has_line(
        text, "identity_swept_rows_total{table=\"auth_sessions\"} 1000"));
    ck_assert(has_line(text, "identity_refresh_stale_total 0"));
    ck_assert(
        has_line(text, "# TYPE identity_refresh_rotations_total counter"));
    ck_assert(has_line(text, "identity_refresh_retries_total 0"));
}

TEST (test_requests_by_endpoint_status_and_code) {
    for (int i = 0; i < 3; i++) {
        metrics_request(0, 200, NULL, 10);
    }
    metrics_request(1, 401, "AUTH_REFRESH_TOKEN_STALE", 10);
    render(NULL, 0, NULL);
    ck_assert(has_line(text, "identity_requests_total{endpoint=\"/a\","
                             "status=\"200\",code=\"\"} 3"));
    ck_assert(has_line(text, "identity_requests_total{endpoint=\"/b\","
                             "status=\"401\","
                             "code=\"AUTH_REFRESH_TOKEN_STALE\"} 1"));
    ck_assert_ptr_null(strstr(text, "\"404\""));
}

/* Whatever is thrown at it, the number of series has a bound. */
TEST (test_unknown_labels_are_one) {
    char code[32];

    for (int i = 0; i < 1000; i++) {
        snprintf(code, sizeof(code), "CODE_%d", i);
        metrics_request((size_t) i + 2, i, code, 1);
    }
    render(NULL, 0, NULL);
    ck_assert(has_line(text, "identity_requests_total{endpoint=\"other\","
                             "status=\"other\",code=\"other\"} 1"));
    ck_assert_ptr_null(strstr(text, "CODE_"));
    ck_assert(has_line(text, "identity_requests_total{endpoint=\"other\","
                             "status=\"other\",code=\"other\"} 939"));
}

TEST (test_histogram_bounds_are_inclusive) {
    metrics_time(METRICS_HASH, -5); /* a clock is a clock */
    metrics_time(METRICS_HASH, 1000);
    metrics_time(METRICS_HASH, 1001);
    metrics_time(METRICS_HASH, 10000000);
    metrics_time(METRICS_HASH, 10000001);
    render(NULL, 0, NULL);
#define NAME "identity_hash_duration_seconds"
    ck_assert(has_line(text, "# TYPE " NAME " histogram"));
    ck_assert(has_line(text, NAME "_bucket{le=\"0.001\"} 2"));
    ck_assert(has_line(text, NAME "_bucket{le=\"0.0025\"} 3"));
    ck_assert(has_line(text, NAME "_bucket{le=\"5\"} 3"));
    ck_assert(has_line(text, NAME "_bucket{le=\"10\"} 4"));
    ck_assert(has_line(text, NAME "_bucket{le=\"+Inf\"} 5"));
    ck_assert(has_line(text, NAME "_sum 20.002002"));
    ck_assert(has_line(text, NAME "_count 5"));
#undef NAME
}

TEST (test_histogram_of_an_endpoint) {
    metrics_request(1, 200, NULL, 2000000);
    render(NULL, 0, NULL);
#define NAME "identity_request_duration_seconds"
    ck_assert(has_line(text, NAME "_bucket{endpoint=\"/b\",le=\"1\"} 0"));
    ck_assert(has_line(text, NAME "_bucket{endpoint=\"/b\",le=\"+Inf\"} 1"));
    ck_assert(has_line(text, NAME "_sum{endpoint=\"/b\"} 2.000000"));
    ck_assert(has_line(text, NAME "_count{endpoint=\"/b\"} 1"));
    ck_assert_ptr_null(strstr(text, NAME "_count{endpoint=\"/a\"}"));
#undef NAME
}

TEST (test_gauges_and_the_key) {
    const struct metrics_gauge gauges[] = {{"a_thing", "What it is.", -7}};

    render(gauges, 1, "k\"1\\");
    ck_assert(has_line(text, "# HELP a_thing What it is."));
    ck_assert(has_line(text, "# TYPE a_thing gauge"));
    ck_assert(has_line(text, "a_thing -7"));
    ck_assert(
        has_line(text, "identity_signing_key_info{kid=\"k\\\"1\\\\\"} 1"));
    render(NULL, 0, NULL);
    ck_assert_ptr_null(strstr(text, "kid="));
}

TEST (test_every_counter_has_a_name) {
    for (int i = 0; i < METRICS_COUNTERS; i++) {
        metrics_add((enum metrics_counter) i, 1000000 + (uint64_t) i);
    }
    render(NULL, 0, NULL);
    ck_assert_ptr_null(strstr(text, "(null)"));
    for (int i = 0; i < METRICS_COUNTERS; i++) {
        char number[16];

        snprintf(number, sizeof(number), " %d\n", 1000000 + i);
        ck_assert_ptr_nonnull(strstr(text, number));
    }
}

/* A name's lines stand together, behind one HELP and one TYPE. */
TEST (test_names_stand_together) {
    char seen[64][64];
    size_t count = 0;

    render(NULL, 0, "k");
    for (char *p = text; (p = strstr(p, "# TYPE ")) != NULL;) {
        char *end;

        p += strlen("# TYPE ");
        end = strchr(p, ' ');
        ck_assert_uint_lt(count, 64);
        snprintf(seen[count], sizeof(seen[count]), "%.*s", (int) (end - p), p);
        for (size_t i = 0; i < count; i++) {
            ck_assert_str_ne(seen[i], seen[count]);
        }
        count++;
    }
    ck_assert_uint_gt(count, 20);
}

#define THREADS 8
#define ROUNDS 20000

static void *count_much(void *arg)
{
    for (int i = 0; i < ROUNDS; i++) {
        metrics_count(METRICS_DB_CONNECTS);
        metrics_request(0, 200, NULL, i);
    }
    return arg;
}

TEST (test_threads_lose_nothing_and_outlive_themselves) {
    pthread_t threads[THREADS];
    uint64_t before = 0;

    for (int i = 0; i < THREADS; i++) {
        ck_assert_int_eq(pthread_create(&threads[i], NULL, count_much, NULL),
                         0);
    }
    for (int i = 0; i < 200; i++) { /* reading meanwhile: never less */
        uint64_t now;

        render(NULL, 0, NULL);
        now = value_of("\nidentity_db_connects_total ");
        ck_assert_uint_ge(now, before);
        before = now;
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    render(NULL, 0, NULL);
    ck_assert_uint_eq(value_of("\nidentity_db_connects_total "),
                      THREADS * ROUNDS);
    ck_assert_uint_eq(value_of("identity_requests_total{endpoint=\"/a\","
                               "status=\"200\",code=\"\"} "),
                      THREADS * ROUNDS);
}

TEST (test_start) {
    render(NULL, 0, NULL);
    ck_assert_uint_gt(value_of("\nprocess_start_time_seconds "), 1700000000);
    ck_assert_ptr_null(strstr(text, "process_resident_memory_bytes 0\n"));
}

static void fill(TCase *t)
{
    tcase_add_checked_fixture(t, setup, NULL);
}

int main(void)
{
    return run_case("metrics", fill);
}
