/* Tests of fcgi.c: answers, and what is left of them. */

#include "fcgi_peer.h"

#include <malloc.h>
#include <pthread.h>
#include <stdio.h>

/* -- answers --------------------------------------------------------------
 */

/* The STDOUT of an answer, and that it is whole. */
static size_t read_answer(unsigned char *to, size_t cap)
{
    size_t got = 0;

    for (;;) {
        unsigned char h[8], end[8], padding[255];
        size_t n;

        ck_assert_int_eq(recv(pair[0], h, 8, MSG_WAITALL), 8);
        n = (size_t) h[4] << 8 | h[5];
        if (h[1] == 3) {
            ck_assert_int_eq(recv(pair[0], end, 8, MSG_WAITALL), 8);
            return got;
        }
        ck_assert_uint_eq(h[1], 6);
        ck_assert_uint_le(got + n, cap);
        if (n != 0) {
            ck_assert_int_eq(recv(pair[0], to + got, n, MSG_WAITALL),
                             (ssize_t) n);
        }
        got += n;
        ck_assert_int_eq(recv(pair[0], padding, h[6], MSG_WAITALL), h[6]);
    }
}

static void *answer_large(void *arg)
{
    static enum fcgi_end end;

    end = fcgi_answer(ex, metrics_now_us() + 60 * 1000000, arg);
    return &end;
}

TEST (test_answers_of_all_lengths) {
    static const size_t lengths[] = {0,     1,     32743, 32744,  32745,
                                     32767, 32768, 65536, 1000000};
    static char sent[1000000];
    static unsigned char got[1000018];

    for (size_t i = 0; i < sizeof(sent); i++) {
        sent[i] = (char) (i % 251);
    }
    for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
        struct buf body = {.data = sent, .len = lengths[i]};
        struct fcgi_reply r = {&ok_head, &body};
        pthread_t thread;
        void *end;

        whole(0, "");
        ck_assert_int_eq(end_of(len), FCGI_WHOLE);
        ck_assert_int_eq(pthread_create(&thread, NULL, answer_large, &r), 0);
        ck_assert_uint_eq(read_answer(got, sizeof(got)), 18 + lengths[i]);
        pthread_join(thread, &end);
        ck_assert_int_eq(*(enum fcgi_end *) end, FCGI_WHOLE);
        ck_assert_mem_eq(got, ok_head.data, 18);
        ck_assert_mem_eq(got + 18, sent, lengths[i]);
    }
}

TEST (test_peer_that_does_not_read) {
    static char large[1000000];
    struct buf body = {.data = large, .len = sizeof(large)};
    const struct fcgi_reply r = {&ok_head, &body};

    whole(0, "");
    ck_assert_int_eq(end_of(len), FCGI_WHOLE);
    ck_assert_int_eq(fcgi_answer(ex, metrics_now_us() + SOON_US, &r),
                     FCGI_LATE);
}

TEST (test_answer_beyond_the_bound) {
    static char large[FCGI_ANSWER_MAX + 65536];
    struct buf body = {.data = large, .len = sizeof(large)};
    const struct fcgi_reply r = {&ok_head, &body};

    whole(0, "");
    ck_assert_int_eq(end_of(len), FCGI_WHOLE);
    ck_assert_int_eq(fcgi_answer(ex, metrics_now_us() + SOON_US, &r),
                     FCGI_LEFT);
    whole(0, "");
    ck_assert_int_eq(end_of(len), FCGI_WHOLE); /* as if nothing had been */
    answer();
}

TEST (test_peer_that_is_gone_before_its_answer) {
    whole(0, "");
    ck_assert_int_eq(end_of(len), FCGI_WHOLE);
    close(pair[0]);
    pair[0] = dup(pair[1]);
    ck_assert_int_eq(fcgi_answer(ex, metrics_now_us() + SOON_US, &reply),
                     FCGI_LEFT);
}

/* -- secrets --------------------------------------------------------------
 */

/* Returns true if a secret is in the exchange or in the memory file. */
static bool is_kept(void)
{
    char line[512];
    FILE *maps = fopen("/proc/self/maps", "r");
    bool kept = memmem(ex, malloc_usable_size(ex), "hunter", 6) != NULL;
    int files = 0;

    ck_assert_ptr_nonnull(maps);
    while (fgets(line, sizeof(line), maps) != NULL) {
        unsigned long from, to;

        if (strstr(line, "memfd:fcgi") != NULL &&
            sscanf(line, "%lx-%lx", &from, &to) == 2) {
            files++;
            kept |= memmem((void *) from, to - from, "hunter", 6) != NULL;
        }
    }
    fclose(maps);
    ck_assert_int_eq(files, 1);
    return kept;
}

/* Bodies hold credentials, parameters tokens. */
TEST (test_nothing_stays_in_memory) {
    static const unsigned char content[] = "\x0b\x07HTTP_COOKIEhunter1";
    struct buf body = {.data = (char *) "hunter3", .len = 7};
    const struct fcgi_reply r = {&ok_head, &body};

    len = 0;
    begin(1, 0);
    stream(4, content, sizeof(content) - 1);
    stream(5, "hunter2", 7);
    ck_assert_int_eq(end_of(len), FCGI_WHOLE);
    ck_assert_str_eq(param(0), "HTTP_COOKIE=hunter1");
    ck_assert_mem_eq(call.body.data, "hunter2", 7);
    ck_assert(is_kept());
    ck_assert_int_eq(fcgi_answer(ex, metrics_now_us() + SOON_US, &r),
                     FCGI_WHOLE);
    ck_assert(!is_kept());
    /* An incomplete request is wiped too. */
    ck_assert_int_eq(end_of(len - 8), FCGI_LATE);
    ck_assert(!is_kept());
}

/* The number of a descriptor that was closed may be another's by now. */
TEST (test_descriptors_of_others_stay) {
    int others[8];

    whole(0, "");
    ck_assert_int_eq(end_of(len), FCGI_WHOLE);
    answer();
    for (int i = 0; i < 8; i++) {
        others[i] = dup(0);
    }
    ck_assert_int_eq(end_of(8), FCGI_LATE);
    for (int i = 0; i < 8; i++) {
        ck_assert_int_eq(close(others[i]), 0);
    }
}

static void fill(TCase *t)
{
    tcase_add_checked_fixture(t, setup, teardown);
}

int main(void)
{
    return run_case("fcgi_answer", fill);
}
