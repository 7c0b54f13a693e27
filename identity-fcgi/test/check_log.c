/* Tests of log.c: whole lines, one a write. */

#include "base/log.h"
#include "testing.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static int reader, saved_stderr;
static char text[65536];

/* Standard error becomes a pipe, where one read gives one write. */
static void setup(void)
{
    int ends[2];

    ck_assert_int_eq(pipe2(ends, O_DIRECT | O_NONBLOCK), 0);
    reader = ends[0];
    saved_stderr = dup(STDERR_FILENO);
    dup2(ends[1], STDERR_FILENO);
    close(ends[1]);
    log_setup("app", NULL, LOG_INFO_);
}

static void teardown(void)
{
    dup2(saved_stderr, STDERR_FILENO);
    close(saved_stderr);
    close(reader);
}

/* How many lines the next write had; 0 without one.  They are in text. */
static int next_write(void)
{
    ssize_t n = read(reader, text, sizeof(text) - 1);
    int lines = 0;

    text[n > 0 ? n : 0] = '\0';
    for (const char *p = text; *p != '\0'; p++) {
        lines += *p == '\n';
    }
    ck_assert(n <= 0 || text[n - 1] == '\n');
    return lines;
}

static void audit(const char *event)
{
    log_event(LOG_AUDIT_, event, NULL, NULL, 0);
}

TEST (test_each_line_is_one_write) {
    audit("one");
    ck_assert_int_eq(next_write(), 1);
    log_event(LOG_ACCESS_, "http.request", NULL, NULL, 0);
    ck_assert_int_eq(next_write(), 1);
    log_line(LOG_INFO_, "two", "text");
    ck_assert_int_eq(next_write(), 1);
    ck_assert_ptr_null(strstr(text, "requestId"));
}

TEST (test_lines_of_a_request_carry_its_ids) {
    log_bind("r", "c");
    audit("one");
    ck_assert_int_eq(next_write(), 1);
    ck_assert_ptr_nonnull(
        strstr(text, "\"requestId\":\"r\",\"correlationId\":\"c\""));
    log_unbind();
    audit("two");
    ck_assert_int_eq(next_write(), 1);
    ck_assert_ptr_null(strstr(text, "requestId"));
}

TEST (test_time_is_utc_with_milliseconds) {
    audit("one");
    ck_assert_int_eq(next_write(), 1);
    for (const char *p = text, *is = "{\"time\":\"nnnn-nn-nnTnn:nn:nn.nnnZ\"";
         *is != '\0'; p++, is++) {
        bool digit = *p >= '0' && *p <= '9';

        ck_assert_msg(*is == 'n' ? digit : *p == *is, "%s", text);
    }
}

/* Each of these bytes is escaped to six. */
TEST (test_a_line_that_grows_too_long_keeps_its_head) {
    char message[1000];

    memset(message, 1, sizeof(message) - 1);
    message[sizeof(message) - 1] = '\0';
    log_line(LOG_INFO_, "three", "%s", message);
    ck_assert_int_eq(next_write(), 1);
    ck_assert(strncmp(text, "{\"time\":", 8) == 0);
    ck_assert_ptr_nonnull(
        strstr(text, "\"event\":\"three\",\"truncated\":true}\n"));
}

static void fill(TCase *t)
{
    tcase_add_checked_fixture(t, setup, teardown);
}

int main(void)
{
    return run_case("log", fill);
}
