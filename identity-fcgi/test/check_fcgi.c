/*
 * Tests of fcgi_scan.c and fcgi.c.  The second half pins what fcgi.c relies on
 * inside libfcgi: fields of FCGX_Request that its header calls private.
 */

#include "fcgi.h"
#include "fcgi_scan.h"
#include "testing.h"

#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

static unsigned char bytes[200000];
static size_t len;

static void setup(void)
{
    len = 0;
    memset(bytes, 0, sizeof(bytes));
}

static void record(unsigned type, const void *content, size_t n, unsigned pad)
{
    const unsigned char head[8] = {1,
                                   (unsigned char) type,
                                   0,
                                   1,
                                   (unsigned char) (n >> 8),
                                   (unsigned char) n,
                                   (unsigned char) pad,
                                   0};

    memcpy(bytes + len, head, sizeof(head));
    if (n != 0) {
        memcpy(bytes + len + 8, content, n);
    }
    len += 8 + n + pad;
}

static void begin(unsigned role, unsigned flags)
{
    const unsigned char content[8] = {0, (unsigned char) role,
                                      (unsigned char) flags};

    record(1, content, sizeof(content), 0);
}

static void whole(unsigned flags, const char *body)
{
    begin(1, flags);
    record(4, "\x0e\x04REQUEST_METHODPOST", 20, 4);
    record(4, NULL, 0, 0);
    if (body != NULL) {
        record(5, body, strlen(body), 0);
    }
    record(5, NULL, 0, 0);
}

/* -- scan -----------------------------------------------------------------
 */

START_TEST (test_whole_request_is_ready_and_no_prefix_is) {
    whole(1, "{}");
    ck_assert_int_eq(fcgi_scan(bytes, len, false), FCGI_SCAN_READY);
    for (size_t n = 0; n < len; n++) {
        ck_assert_int_eq(fcgi_scan(bytes, n, false), FCGI_SCAN_MORE);
    }
}
END_TEST

START_TEST (test_large_body_is_ready_once_full) {
    static char body[50000];

    begin(1, 0);
    record(4,
           "\x01\x01"
           "ab",
           4, 0);
    record(4, NULL, 0, 0);
    record(5, body, sizeof(body), 0);
    ck_assert_int_eq(fcgi_scan(bytes, len, false), FCGI_SCAN_MORE);
    ck_assert_int_eq(fcgi_scan(bytes, len, true), FCGI_SCAN_READY);
}
END_TEST

START_TEST (test_parameters_must_fit) {
    static char params[60000];

    begin(1, 0);
    record(4, params, sizeof(params), 0);
    ck_assert_int_eq(fcgi_scan(bytes, len, false), FCGI_SCAN_MORE);
    ck_assert_int_eq(fcgi_scan(bytes, len, true), FCGI_SCAN_BAD);
}
END_TEST

START_TEST (test_garbage_is_bad) {
    static const char http[] = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

    ck_assert_int_eq(
        fcgi_scan((const unsigned char *) http, sizeof(http) - 1, false),
        FCGI_SCAN_BAD);
    ck_assert_int_eq(fcgi_scan((const unsigned char *) "G", 1, false),
                     FCGI_SCAN_BAD);
}
END_TEST

START_TEST (test_other_roles_are_bad) {
    begin(2, 0); /* authorizer */
    ck_assert_int_eq(fcgi_scan(bytes, len, false), FCGI_SCAN_BAD);
}
END_TEST

START_TEST (test_other_orders_are_bad) {
    begin(1, 0);
    record(5, NULL, 0, 0); /* body before parameters */
    ck_assert_int_eq(fcgi_scan(bytes, len, false), FCGI_SCAN_BAD);
    setup();
    begin(1, 0);
    begin(1, 0);
    ck_assert_int_eq(fcgi_scan(bytes, len, false), FCGI_SCAN_BAD);
    setup();
    whole(0, NULL);
    bytes[16 + 3] = 2; /* parameters of another request */
    ck_assert_int_eq(fcgi_scan(bytes, len, false), FCGI_SCAN_BAD);
}
END_TEST

START_TEST (test_claimed_lengths_are_bounded) {
    begin(1, 0);
    record(4, "\xff\xff\xff\xfe\xff\xff\xff\xfe", 8, 0);
    ck_assert_int_eq(fcgi_scan(bytes, len, false), FCGI_SCAN_BAD);
}
END_TEST

START_TEST (test_long_lengths_across_records) {
    char value[300];

    memset(value, 'v', sizeof(value));
    begin(1, 0);
    record(4, "\x01\x80\x00", 3, 5);
    record(4,
           "\x01\x2c"
           "n",
           3, 5);
    record(4, value, sizeof(value), 4);
    record(4, NULL, 0, 0);
    record(5, NULL, 0, 0);
    ck_assert_int_eq(fcgi_scan(bytes, len, false), FCGI_SCAN_READY);
}
END_TEST

START_TEST (test_parameters_cut_short_are_bad) {
    begin(1, 0);
    record(4,
           "\x05\x05"
           "abc",
           5, 0);
    record(4, NULL, 0, 0);
    ck_assert_int_eq(fcgi_scan(bytes, len, false), FCGI_SCAN_BAD);
}
END_TEST

/* -- libfcgi --------------------------------------------------------------
 */

static struct fcgi_exchange *ex;
static int pair[2];
static struct fcgi_call call;
static const struct fcgi_reply reply = {
    {(const unsigned char *) "Status: 200 OK\r\n\r\n", 18},
    {(const unsigned char *) "hello", 5}};

static void open_pair(void)
{
    setup();
    ck_assert(fcgi_init());
    ex = fcgi_exchange_new(16);
    ck_assert_ptr_nonnull(ex);
    ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
}

static void close_pair(void)
{
    fcgi_exchange_free(ex);
    close(pair[0]);
    close(pair[1]);
}

static bool read_one(void)
{
    ck_assert_int_eq(send(pair[0], bytes, len, 0), (ssize_t) len);
    memset(&call, 0, sizeof(call));
    return fcgi_read(ex, pair[1], &call);
}

/* What the peer gets; 0 when nothing is there, -1 at the end of file. */
static ssize_t peer_gets(char *text, size_t cap)
{
    ssize_t n = recv(pair[0], text, cap, MSG_DONTWAIT);

    return n > 0 ? n : n == 0 ? -1 : 0;
}

static bool is_open(int fd)
{
    char byte;

    return recv(fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) < 0 && errno == EAGAIN;
}

START_TEST (test_kept_alive_connection_serves_again) {
    char text[512];

    for (int i = 0; i < 3; i++) {
        setup();
        whole(1, "{}");
        ck_assert(read_one());
        ck_assert_uint_eq(call.body.len, 2);
        ck_assert(!call.body_too_large);
        ck_assert_str_eq(call.params[1], "REQUEST_METHOD=POST");
        ck_assert(fcgi_answer(ex, &reply));
        ck_assert_int_gt(peer_gets(text, sizeof(text)), 0);
        ck_assert_ptr_nonnull(memmem(text, sizeof(text), "hello", 5));
        ck_assert(is_open(pair[1]));
    }
}
END_TEST

START_TEST (test_without_keep_conn_it_is_not_kept) {
    whole(0, NULL);
    ck_assert(read_one());
    ck_assert(!fcgi_answer(ex, &reply));
    /* libfcgi closed its own descriptor; ours is still ours to close. */
    ck_assert(is_open(pair[1]));
}
END_TEST

START_TEST (test_descriptors_do_not_leak) {
    int before = dup(pair[1]), after;

    close(before);
    for (int i = 0; i < 20; i++) {
        char text[512];

        setup();
        whole(i % 2 == 0, NULL);
        ck_assert(read_one());
        ck_assert(fcgi_answer(ex, &reply) == (i % 2 == 0));
        (void) peer_gets(text, sizeof(text));
    }
    after = dup(pair[1]);
    ck_assert_int_eq(before, after);
    close(after);
}
END_TEST

START_TEST (test_garbage_fails_at_once_and_accepts_nothing) {
    memcpy(bytes, "GET / HTTP/1.0\r\n\r\n", 18);
    len = 18;
    ck_assert(!read_one());
}
END_TEST

START_TEST (test_peer_that_goes_away_fails) {
    begin(1, 1);
    record(4,
           "\x01\x01"
           "ab",
           4, 0);
    ck_assert_int_eq(send(pair[0], bytes, len, 0), (ssize_t) len);
    shutdown(pair[0], SHUT_WR);
    len = 0;
    ck_assert(!fcgi_read(ex, pair[1], &call));
}
END_TEST

START_TEST (test_shutdown_frees_a_blocked_read) {
    pid_t pid;

    whole(1, NULL);
    len -= 8; /* the end of the body never comes */
    ck_assert_int_eq(send(pair[0], bytes, len, 0), (ssize_t) len);
    pid = fork();
    if (pid == 0) {
        usleep(200000);
        shutdown(pair[1], SHUT_RDWR);
        _exit(0);
    }
    ck_assert(!fcgi_read(ex, pair[1], &call));
}
END_TEST

START_TEST (test_body_over_the_limit_is_drained) {
    char text[512];

    whole(1, "12345678901234567");
    ck_assert(read_one());
    ck_assert(call.body_too_large);
    ck_assert_uint_eq(call.body.len, 16);
    ck_assert(fcgi_answer(ex, &reply));
    (void) peer_gets(text, sizeof(text));
    setup();
    whole(1, "1234567890123456");
    ck_assert(read_one());
    ck_assert(!call.body_too_large);
    ck_assert_uint_eq(call.body.len, 16);
    ck_assert(fcgi_answer(ex, &reply));
}
END_TEST

START_TEST (test_body_shorter_than_announced_fails) {
    begin(1, 1);
    record(4,
           "\x0e\x01"
           "CONTENT_LENGTH"
           "9",
           17, 0);
    record(4, NULL, 0, 0);
    record(5, "{}", 2, 0);
    record(5, NULL, 0, 0);
    ck_assert(!read_one());
}
END_TEST

START_TEST (test_dead_peer_is_not_kept) {
    whole(1, NULL);
    ck_assert(read_one());
    close(pair[0]);
    pair[0] = -1;
    ck_assert(!fcgi_answer(ex, &reply));
}
END_TEST

static void fill(TCase *t)
{
    tcase_add_checked_fixture(t, open_pair, close_pair);
    tcase_add_test(t, test_whole_request_is_ready_and_no_prefix_is);
    tcase_add_test(t, test_large_body_is_ready_once_full);
    tcase_add_test(t, test_parameters_must_fit);
    tcase_add_test(t, test_garbage_is_bad);
    tcase_add_test(t, test_other_roles_are_bad);
    tcase_add_test(t, test_other_orders_are_bad);
    tcase_add_test(t, test_claimed_lengths_are_bounded);
    tcase_add_test(t, test_long_lengths_across_records);
    tcase_add_test(t, test_parameters_cut_short_are_bad);
    tcase_add_test(t, test_kept_alive_connection_serves_again);
    tcase_add_test(t, test_without_keep_conn_it_is_not_kept);
    tcase_add_test(t, test_descriptors_do_not_leak);
    tcase_add_test(t, test_garbage_fails_at_once_and_accepts_nothing);
    tcase_add_test(t, test_peer_that_goes_away_fails);
    tcase_add_test(t, test_shutdown_frees_a_blocked_read);
    tcase_add_test(t, test_body_over_the_limit_is_drained);
    tcase_add_test(t, test_body_shorter_than_announced_fails);
    tcase_add_test(t, test_dead_peer_is_not_kept);
}

int main(void)
{
    return run_case("fcgi", fill);
}
