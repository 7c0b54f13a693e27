/* Tests of fcgi.c: whole requests, pieces, garbage, deadlines. */

#include "fcgi_peer.h"

#include <pthread.h>
#include <stdio.h>

TEST (test_whole_request) {
    static const char want[] = "\1\6\0\1\0\x17\1\0"
                               "Status: 200 OK\r\n\r\nhello\0"
                               "\1\6\0\1\0\0\0\0"
                               "\1\3\0\1\0\x8\0\0\0\0\0\0\0\0\0\0";
    char text[512];

    for (unsigned keep = 0; keep < 2; keep++) {
        whole(keep, "{}");
        ck_assert_int_eq(end_of(len), FCGI_WHOLE);
        ck_assert_str_eq(param(0), "REQUEST_METHOD=POST");
        ck_assert_ptr_null(param(1));
        ck_assert_uint_eq(call.body.len, 2);
        ck_assert_mem_eq(call.body.data, "{}", 2);
        ck_assert(!call.body_too_large);
        answer();
        ck_assert_int_eq(recv(pair[0], text, sizeof(text), 0),
                         sizeof(want) - 1);
        ck_assert_mem_eq(text, want, sizeof(want) - 1);
    }
}

TEST (test_no_part_of_a_request_is_whole) {
    whole(0, "{}");
    for (size_t n = 0; n < len; n += 5) {
        teardown();
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        ex = fcgi_exchange_new(BODY_MAX);
        feed(n);
        ck_assert_int_eq(read_until(1000), FCGI_LATE);
        shutdown(pair[0], SHUT_WR);
        ck_assert_int_eq(read_until(SOON_US), FCGI_LEFT);
    }
}

TEST (test_peer_that_leaves) {
    whole(0, "{}");
    for (size_t n = 1; n < len; n += 5) {
        close(pair[0]);
        close(pair[1]);
        ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
        feed(n);
        shutdown(pair[0], SHUT_WR);
        ck_assert_int_eq(read_until(SOON_US), FCGI_INCOMPLETE);
    }
}

TEST (test_what_has_come_is_read_after_the_deadline) {
    whole(0, "{}");
    feed(len);
    ck_assert_int_eq(read_until(-1), FCGI_WHOLE);
}

static void *drip(void *arg)
{
    for (size_t i = 0; i < len; i++) {
        if (send(pair[0], bytes + i, 1, MSG_NOSIGNAL) != 1) {
            break;
        }
        usleep(5000);
    }
    return arg;
}

/* Each byte comes in time, the whole does not. */
TEST (test_one_deadline_for_all_of_it) {
    int64_t start = metrics_now_us();
    pthread_t thread;

    whole(0, "{}");
    ck_assert_int_eq(pthread_create(&thread, NULL, drip, NULL), 0);
    ck_assert_int_eq(read_until(SOON_US), FCGI_LATE);
    ck_assert_int_ge(metrics_now_us() - start, SOON_US);
    shutdown(pair[1], SHUT_RDWR);
    pthread_join(thread, NULL);
}

TEST (test_pieces_are_put_together) {
    pthread_t thread;

    whole(0, "{}");
    ck_assert_int_eq(pthread_create(&thread, NULL, drip, NULL), 0);
    ck_assert_int_eq(read_until(60 * 1000000), FCGI_WHOLE);
    pthread_join(thread, NULL);
    ck_assert_str_eq(param(0), "REQUEST_METHOD=POST");
    ck_assert_mem_eq(call.body.data, "{}", 2);
}

/* -- parameters -----------------------------------------------------------
 */

/* What comes of a request with these parameters. */
static enum fcgi_end params(const void *content, size_t n)
{
    len = 0;
    begin(1, 0);
    stream(4, content, n);
    stream(5, NULL, 0);
    return end_of(len);
}

TEST (test_names_and_values_of_all_lengths) {
    static const unsigned char content[] = "\0\0"
                                           "\0\1v"
                                           "\1\0n"
                                           "\x80\0\0\1\x80\0\0\2abc";
    char value[301] = "", want[310];
    unsigned char large[400] = "\1\x80\0\x01\x2cN";

    ck_assert_int_eq(params(content, sizeof(content) - 1), FCGI_WHOLE);
    ck_assert_str_eq(param(0), "=");
    ck_assert_str_eq(param(1), "=v");
    ck_assert_str_eq(param(2), "n=");
    ck_assert_str_eq(param(3), "a=bc");
    ck_assert_ptr_null(param(4));
    answer();
    memset(value, 'v', 300);
    memcpy(large + 6, value, 300);
    snprintf(want, sizeof(want), "N=%s", value);
    ck_assert_int_eq(params(large, 306), FCGI_WHOLE);
    ck_assert_str_eq(param(0), want);
    answer();
    ck_assert_int_eq(params(NULL, 0), FCGI_WHOLE);
    ck_assert_ptr_null(param(0));
}

TEST (test_parameters_in_several_records) {
    len = 0;
    begin(1, 0);
    record(4, "\x01\x80\x00\x00\x02nvw", 8, 5);
    record(4, "\x01\x01nx", 4, 255);
    record(4, NULL, 0, 0);
    stream(5, NULL, 0);
    ck_assert_int_eq(end_of(len), FCGI_WHOLE);
    ck_assert_str_eq(param(0), "n=vw");
    ck_assert_str_eq(param(1), "n=x");
    answer();
    /* nginx splits none. */
    len = 0;
    begin(1, 0);
    record(4, "\x01\x02nv", 4, 0);
    record(4, "w", 1, 0);
    record(4, NULL, 0, 0);
    stream(5, NULL, 0);
    ck_assert_int_eq(end_of(len), FCGI_GARBAGE);
}

static const struct {
    const char *content;
    size_t n;
} bad_params[] = {
    {"\1", 1},
    {"\1\1", 2},
    {"\1\1a", 3},
    {"\2\1ab", 4},
    {"\x80\0\0", 3},
    {"\1\x80\0\0", 4},
    {"\x80\0\0\1\x80\0\0\1a", 9},
    {"\xff\xff\xff\xfe\xff\xff\xff\xfe", 8},
    {"\1\xff\xff\xff\xff", 5},
    {"\xff\xff\xff\xff\1", 5},
};

#define BAD_PARAMS ((int) (sizeof(bad_params) / sizeof(bad_params[0])))

TESTS (test_lengths_beyond_the_end, BAD_PARAMS) {
    ck_assert_int_eq(params(bad_params[_i].content, bad_params[_i].n),
                     FCGI_GARBAGE);
}

/* Sends all of bytes while the other end is read. */
static void *send_all(void *arg)
{
    size_t at = 0;
    ssize_t n;

    while (at < len &&
           (n = send(pair[0], bytes + at, len - at, MSG_NOSIGNAL)) > 0) {
        at += (size_t) n;
    }
    return arg;
}

static enum fcgi_end end_of_large(void)
{
    enum fcgi_end end;
    pthread_t thread;

    ck_assert_int_eq(pthread_create(&thread, NULL, send_all, NULL), 0);
    end = read_until(60 * 1000000);
    shutdown(pair[1], SHUT_RD);
    pthread_join(thread, NULL);
    return end;
}

TEST (test_most_parameters) {
    static unsigned char content[65536];
    size_t n = 0;

    while (n + 8 <= 65535) { /* each as short as one of nginx can be */
        memcpy(content + n, "\6\0HTTP_A", 8);
        n += 8;
    }
    len = 0;
    begin(1, 0);
    stream(4, content, n);
    stream(5, NULL, 0);
    ck_assert_int_eq(end_of_large(), FCGI_WHOLE);
    ck_assert_str_eq(param(8190), "HTTP_A=");
    ck_assert_ptr_null(param(8191));
}

TEST (test_parameters_of_more_than_a_record) {
    static unsigned char content[65536];

    for (size_t n = 0; n < sizeof(content); n += 4) {
        memcpy(content + n, "\1\1nv", 4);
    }
    len = 0;
    begin(1, 0);
    record(4, content, 65532, 0);
    record(4, content, 4, 0);
    record(4, NULL, 0, 0);
    stream(5, NULL, 0);
    ck_assert_int_eq(end_of_large(), FCGI_GARBAGE);
}

/* -- garbage --------------------------------------------------------------
 */

TEST (test_garbage) {
    memcpy(bytes, "GET / HTTP/1.0\r\n\r\n", 18);
    ck_assert_int_eq(end_of(18), FCGI_GARBAGE);
}

TEST (test_other_roles) {
    begin(2, 0); /* authorizer */
    ck_assert_int_eq(end_of(len), FCGI_GARBAGE);
}

static void body_before_parameters(void)
{
    begin(1, 0);
    stream(5, NULL, 0);
}

static void begun_twice(void)
{
    begin(1, 0);
    begin(1, 0);
}

static void given_up(void)
{
    begin(1, 0);
    record(2, NULL, 0, 0);
}

static void of_another_request(void)
{
    whole(0, "");
    bytes[8 + 8 + 3] = 2;
}

static void of_request_0(void)
{
    whole(0, "");
    bytes[3] = 0;
    for (size_t at = 8 + 8; at < len; at += 8) {
        ck_assert_uint_eq(bytes[at + 3], 1);
        bytes[at + 3] = 0;
        at += bytes[at + 5] + (size_t) bytes[at + 6];
    }
}

static void of_another_version(void)
{
    whole(0, "");
    bytes[8 + 8] = 2;
}

static void with_a_longer_beginning(void)
{
    record(1, "\0\1\0\0\0\0\0\0\0", 9, 0);
}

/* In which another request hides from who skips it. */
static void with_padding_behind_the_beginning(void)
{
    static const char hidden[] = "\1\4\0\1\0\4\0\0\1\1no"
                                 "\1\4\0\1\0\0\0\0"
                                 "\1\5\0\1\0\0\0";

    record(1, "\0\1\0\0\0\0\0\0", 8, sizeof(hidden));
    memcpy(bytes + 16, hidden, sizeof(hidden));
    stream(4, POST, sizeof(POST) - 1);
    stream(5, NULL, 0);
}

static void with_padding_behind_no_more(void)
{
    begin(1, 0);
    record(4, NULL, 0, 8);
    stream(5, NULL, 0);
}

static void management(void)
{
    record(9, NULL, 0, 0);
    bytes[3] = 0;
}

static void (*const disorders[])(void) = {body_before_parameters,
                                          begun_twice,
                                          given_up,
                                          of_another_request,
                                          of_request_0,
                                          of_another_version,
                                          management,
                                          with_a_longer_beginning,
                                          with_padding_behind_the_beginning,
                                          with_padding_behind_no_more};

#define DISORDERS ((int) (sizeof(disorders) / sizeof(disorders[0])))

TESTS (test_disorder, DISORDERS) {
    disorders[_i]();
    ck_assert_int_eq(end_of(len), FCGI_GARBAGE);
}

/* -- bodies ---------------------------------------------------------------
 */

TEST (test_body_at_the_limit) {
    whole(0, "1234567890123456");
    ck_assert_int_eq(end_of(len), FCGI_WHOLE);
    ck_assert(!call.body_too_large);
    ck_assert_uint_eq(call.body.len, BODY_MAX);
    ck_assert_mem_eq(call.body.data, "1234567890123456", BODY_MAX);
    answer();
    whole(0, "12345678901234567");
    ck_assert_int_eq(end_of(len), FCGI_WHOLE);
    ck_assert(call.body_too_large);
    ck_assert_uint_eq(call.body.len, BODY_MAX);
    answer();
}

/* Sends bytes, then stops sending; how many it could. */
static void *send_body(void *arg)
{
    static size_t sent;
    ssize_t n;

    sent = 0;
    while (sent < len &&
           (n = send(pair[0], bytes + sent, len - sent, MSG_NOSIGNAL)) > 0) {
        sent += (size_t) n;
    }
    shutdown(pair[0], SHUT_WR);
    (void) arg;
    return &sent;
}

/* Returns how much of a large body the peer can send before it has its
 * answer. */
static size_t sent_of(size_t n)
{
    static char large[1900000];
    int64_t start = metrics_now_us();
    pthread_t thread;
    char text[100];
    void *sent;

    memset(large, 'x', n);
    large[n] = '\0';
    whole(0, large);
    ck_assert_int_eq(pthread_create(&thread, NULL, send_body, NULL), 0);
    ck_assert_int_eq(read_until(60 * 1000000), FCGI_WHOLE);
    ck_assert(call.body_too_large);
    ck_assert_int_eq(fcgi_answer(ex, metrics_now_us() + 60 * 1000000, &reply),
                     FCGI_WHOLE);
    ck_assert_int_lt(metrics_now_us() - start, 30 * 1000000);
    shutdown(pair[1], SHUT_RD);
    pthread_join(thread, &sent);
    ck_assert_int_ge(recv(pair[0], text, sizeof(text), 0), 8 + 18);
    ck_assert_ptr_nonnull(memmem(text, 30, "200 OK", 6));
    return *(size_t *) sent;
}

TEST (test_body_over_the_limit_is_drained) {
    ck_assert_uint_eq(sent_of(900000), len);
}

TEST (test_endless_body) {
    ck_assert_uint_lt(sent_of(1800000), len);
}

/* A peer that stalls in it, or does not close, has no more than its time. */
TEST (test_large_body_that_stalls) {
    whole(0, "12345678901234567");
    feed(len - 4);
    ck_assert_int_eq(read_until(SOON_US), FCGI_WHOLE);
    ck_assert(call.body_too_large);
    answer();
}

TEST (test_body_shorter_than_announced) {
    static const char *const bodies[] = {"", "{}", "{ }", "{  }"};

    for (size_t i = 0; i < 4; i++) {
        len = 0;
        begin(1, 0);
        stream(4, "\x0e\1CONTENT_LENGTH3", 17);
        stream(5, bodies[i], strlen(bodies[i]));
        ck_assert_int_eq(end_of(len), i < 2 ? FCGI_INCOMPLETE : FCGI_WHOLE);
        if (i >= 2) {
            answer();
        }
    }
}

static void fill(TCase *t)
{
    tcase_add_checked_fixture(t, setup, teardown);
}

int main(void)
{
    return run_case("fcgi", fill);
}
