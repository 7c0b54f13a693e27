/* Tests of changing the credential: the rules are checked for the new
 * credential only, and only after the current one. */

#include "auth/handlers.h"
#include "auth/hasher.h"
#include "auth/password.h"
#include "handlers.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#define REFUSED "read account attempt settle "

static void change(const char *current, const char *next)
{
    db.calls[0] = '\0';
    http_response_init(&res, header_mem, sizeof(header_mem), body_mem,
                       sizeof(body_mem));
    view_is(scoped_session());
    send_bearer(issue('b', SESSION, JTI, 10, 900));
    req.body =
        join("{\"credential\":\"", current,
             (const char *) join("\",\"newCredential\":\"", next, "\"}").data);
    h_change_credential(&w);
}

static void ck_changed(void)
{
    ck_answer(200, "AUTH_CHANGE_CREDENTIAL_SUCCESS",
              "read account attempt change end settle ");
    ck_assert(db.settled_success);
    ck_assert(body_has("\"endedSessions\":5"));
}

static void ck_not_allowed(void)
{
    ck_answer(400, "AUTH_CREDENTIAL_NOT_ALLOWED", REFUSED);
    ck_assert(!db.settled_success); /* and no failure either */
}

TEST (test_a_new_one_is_long_enough) {
    cfg.credential_min = 8;
    change("right", "seven\u00e9\u00e9");
    ck_not_allowed();
    ck_assert(body_has("at least 8 characters"));
    ck_assert(body_has("\"errors\":[{\"pointer\":\"/newCredential\","
                       "\"code\":\"too_short\",\"minimum\":8}]"));
    change("right", "x");
    ck_not_allowed();
    ck_assert_str_eq(db.rehashed_to, "");
    change("right", "eight\u00e9\u00e9\u00e9");
    ck_changed();
}

static enum password_new judge(const char *credential)
{
    return password_check_new(&cfg, str(credential), 0);
}

static char path[] = "/tmp/check_change_credential.XXXXXX";

/* Makes the file of the setting these bytes; the first time, a file. */
static void list_is(const void *lines, size_t len)
{
    int fd = cfg.credential_forbidden == NULL ? mkstemp(path)
                                              : open(path, O_WRONLY | O_TRUNC);

    if (cfg.credential_forbidden == NULL) {
        cfg.credential_forbidden = strdup(path);
    }
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq(write(fd, lines, len), (ssize_t) len);
    close(fd);
}

TEST (test_a_new_one_is_not_forbidden) {
    static const char list[] = "Password1\n\nTr0ub4dor&3\r\nright\nqwertyuiop";
    static const char *const forbidden[] = {"Password1", "pASSWORD1",
                                            "tr0ub4dor&3", "QWERTYUIOP"};
    static const char *const allowed[] = {"Password12", "Password", " ",
                                          "qwertyuiop\\n"};

    list_is(list, sizeof(list) - 1);
    for (size_t i = 0; i < 4; i++) {
        change("right", forbidden[i]);
        ck_not_allowed();
        ck_assert(body_has("forbidden"));
        ck_assert(body_has("\"errors\":[{\"pointer\":\"/newCredential\","
                           "\"code\":\"not_allowed\"}]"));
        change("right", allowed[i]);
        ck_changed();
    }
    unlink(path);
    change("right", "Password12");
    ck_answer(500, "INTERNAL_ERROR", REFUSED); /* and nothing is counted */
    ck_assert(!db.settled_success);
    ck_assert_int_eq(judge("x"), PASSWORD_UNREAD);
    ck_assert_int_eq(errno, ENOENT);
}

TEST (test_a_changed_list_counts_at_once) {
    list_is("one\n", 4);
    ck_assert_int_eq(judge("one"), PASSWORD_FORBIDDEN);
    ck_assert_int_eq(judge("three"), PASSWORD_FITS);
    list_is("three\n", 6);
    ck_assert_int_eq(judge("one"), PASSWORD_FITS);
    ck_assert_int_eq(judge("three"), PASSWORD_FORBIDDEN);
    unlink(path);
    ck_assert_int_eq(judge("one"), PASSWORD_UNREAD);
}

TEST (test_the_list_is_bounded) {
    list_is("one\n", 4);
    ck_assert_int_eq(truncate(path, 256 << 20), 0);
    ck_assert_int_eq(judge("x"), PASSWORD_FITS);
    ck_assert_int_eq(truncate(path, (256 << 20) + 1), 0);
    ck_assert_int_eq(judge("x"), PASSWORD_UNREAD);
    ck_assert_int_eq(errno, EFBIG);
    unlink(path);
}

/* Every line of a list of a million is found, and nothing else. */
TEST (test_a_large_list) {
    enum { LINES = 1000000 };
    char *lines = malloc(LINES * 16), name[16];
    size_t len = 0;

    for (int i = 0; i < LINES; i++) {
        len += (size_t) snprintf(lines + len, 16, "Pass%d\n", i);
    }
    list_is(lines, len);
    for (int i = 0; i < 2 * LINES; i += LINES / 7) {
        snprintf(name, sizeof(name), "pASS%d", i);
        ck_assert_int_eq(judge(name),
                         i < LINES ? PASSWORD_FORBIDDEN : PASSWORD_FITS);
    }
    change("right", "pass999999");
    ck_not_allowed();
    change("right", "pass1000000");
    ck_changed();
    unlink(path);
    free(lines);
}

static void nap(void *arg)
{
    ck_assert_int_eq(judge("x"), PASSWORD_LATER);
    *(bool *) arg = true;
}

/* It is read by the threads that hash, as many at a time. */
TEST (test_the_list_waits_for_a_thread) {
    bool napped = false;

    cfg.worker_threads = cfg.hash_concurrency = 1;
    list_is("one\n", 4);
    ck_assert(password_start(&cfg, 0));
    ck_assert_int_eq(judge("one"), PASSWORD_FORBIDDEN);
    ck_assert(hasher_run(HASHER_HASH, INT64_MAX / 2, nap, &napped));
    ck_assert(napped);
    hasher_stop();
    unlink(path);
}

TEST (test_a_directory_is_no_list) {
    cfg.credential_forbidden = strdup("/tmp");
    ck_assert_int_eq(judge("x"), PASSWORD_UNREAD);
    ck_assert_int_eq(errno, EISDIR);
}

/* The session was read before: the account was disabled since. */
TEST (test_an_account_that_is_disabled) {
    db.account.enabled = false;
    change("right", "another one");
    ck_answer(401, "AUTH_SESSION_NOT_ACTIVE", "read account ");
    db.account.enabled = true;
    change("right", "another one");
    ck_changed();
}

/* Nothing is told of what is forbidden. */
TEST (test_the_current_one_comes_first) {
    cfg.credential_min = 8;
    change("wrong", "x");
    ck_answer(401, "AUTH_INVALID_CREDENTIALS", "read account attempt ");
}

/* If the answer to the write is lost, the credential is read again. */
TEST (test_a_lost_answer) {
    tell(&db.change, STORE_UNKNOWN);
    change("right", "another one");
    ck_answer(503, "DATABASE_UNAVAILABLE",
              "read account attempt change account settle ");
    db.rehashed_to[0] = '\0';
    db.changed = true;
    change("right", "another one");
    ck_answer(200, "AUTH_CHANGE_CREDENTIAL_SUCCESS",
              "read account attempt change account end settle ");
}

/* If a login with the old credential has ended the caller's session, all
 * sessions end. */
TEST (test_the_caller_is_ended_first) {
    tell(&db.end, STORE_NONE);
    tell(&db.end, STORE_OK);
    change("right", "another one");
    ck_answer(200, "AUTH_CHANGE_CREDENTIAL_SUCCESS",
              "read account attempt change end end settle ");
}

int main(void)
{
    return run_tests("change_credential");
}
