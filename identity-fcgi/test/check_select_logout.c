/* Select-branch and logout: order of checks, statements made, the cookie. */

#include "auth/handlers.h"
#include "base/log.h"
#include "handlers.h"

#include <unistd.h>

/* -- select-branch -- */

TEST (test_select) {
    struct session_view v = usable_session();

    v.selectable = true;
    v.scope = one_scope;
    view_is(v);
    send_bearer(issue('a', SESSION, JTI, 10, 900));
    send_body("{\"branchId\":\"" BRANCH "\"}");
    h_select_branch(&w);
    ck_answer(200, "AUTH_SELECT_BRANCH_SUCCESS", "read select ");
    ck_assert(body_has("\"accessToken\":\""));
    ck_assert(body_has("\"nextAction\":{\"type\":\"load_current_context\"}"));
    ck_assert(!body_has("refreshToken"));
    ck_assert(cookie_untouched());
}

TEST (test_select_token_comes_before_the_body) {
    send_body("{");
    req.content_type = PJ_STR("text/plain");
    h_select_branch(&w);
    ck_answer(401, "AUTH_ACCOUNT_TOKEN_REQUIRED", "");

    send_bearer(issue('a', SESSION, JTI, 10, 900));
    h_select_branch(&w);
    ck_answer(415, "MEDIA_TYPE_UNSUPPORTED", "");
    req.content_type = PJ_STR("application/json");
    h_select_branch(&w);
    ck_answer(400, "REQUEST_INVALID", "");
    send_body("{\"branchId\":7}");
    h_select_branch(&w);
    ck_answer(400, "REQUEST_INVALID", "");
}

static bool challenge_is(const char *want)
{
    char line[128];

    snprintf(line, sizeof(line), "\r\nWWW-Authenticate: %s\r\n", want);
    return strstr(headers(), line) != NULL;
}

/* RFC 6750 section 3.1: no error where no token was sent. */
TEST (test_select_challenges) {
    static const char none[] = "Bearer realm=\"platform\"";
    static const char bad[] =
        "Bearer realm=\"platform\", error=\"invalid_token\"";
    static const struct {
        const char *authorization;
        const char *challenge;
    } cases[] = {
        {"", none},        {"Basic YTpi", none}, {"Bearerx y", none},
        {"Bearer x", bad}, {"bearer x", bad},    {"Bearer ", bad},
        {"Bearer", bad},   {"Bearer a b", bad},
    };
    struct session_view v = usable_session();

    send_body("{\"branchId\":\"" BRANCH "\"}");
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        req.authorization = str(cases[i].authorization);
        h_select_branch(&w);
        ck_answer(401, "AUTH_ACCOUNT_TOKEN_REQUIRED", "");
        ck_assert_msg(challenge_is(cases[i].challenge), "%s: %s",
                      cases[i].authorization, headers());
    }
    v.session.active = false;
    view_is(v);
    send_bearer(issue('a', SESSION, JTI, 10, 900));
    h_select_branch(&w);
    ck_answer(401, "AUTH_SESSION_NOT_ACTIVE", "read ");
    ck_assert(challenge_is(bad));
}

TEST (test_select_takes_account_tokens_only) {
    send_body("{\"branchId\":\"" BRANCH "\"}");
    send_bearer(issue('b', SESSION, JTI, 10, 900));
    h_select_branch(&w);
    ck_answer(401, "AUTH_ACCOUNT_TOKEN_REQUIRED", "");
    send_bearer(issue('r', SESSION, JTI, 10, 900));
    h_select_branch(&w);
    ck_answer(401, "AUTH_ACCOUNT_TOKEN_REQUIRED", "");
    send_bearer(issue('a', SESSION, JTI, 1000, 900)); /* expired */
    h_select_branch(&w);
    ck_answer(401, "AUTH_ACCOUNT_TOKEN_REQUIRED", "");
}

TEST (test_select_refusals) {
    struct session_view v = usable_session();

    send_bearer(issue('a', SESSION, JTI, 10, 900));
    send_body("{\"branchId\":\"anything\"}");
    view_is(v);
    h_select_branch(&w);
    ck_answer(403, "AUTH_BRANCH_NOT_SELECTABLE", "read ");

    v.session.active = false;
    view_is(v);
    h_select_branch(&w);
    ck_answer(401, "AUTH_SESSION_NOT_ACTIVE", "read read ");

    tell(&db.read, STORE_NONE);
    db.read.turn = 0;
    h_select_branch(&w);
    ck_answer(401, "AUTH_SESSION_NOT_ACTIVE", "read read read ");
}

TEST (test_select_that_lost_to_a_logout) {
    struct session_view v = usable_session();

    v.selectable = true;
    v.scope = one_scope;
    view_is(v);
    v.session.active = false;
    view_is(v);
    tell(&db.select, STORE_NONE);
    send_bearer(issue('a', SESSION, JTI, 10, 900));
    send_body("{\"branchId\":\"" BRANCH "\"}");
    h_select_branch(&w);
    ck_answer(401, "AUTH_SESSION_NOT_ACTIVE", "read select select read ");
    ck_assert(!body_has("accessToken"));
}

/* -- logout -- */

TEST (test_logout_of_nobody) {
    req.content_type = PJ_STR("");
    h_sessions_logout(&w);
    ck_answer(200, "AUTH_LOGOUT_SUCCESS", "");
    ck_assert(body_has("No session was ended"));
    ck_assert(cookie_cleared());
}

TEST (test_logout_revokes_every_distinct_session_once) {
    send_bearer(issue('b', SESSION, JTI, 10, 900));
    send_in_body(issue('r', SESSION, OTHER_JTI, 10, 900));
    send_in_cookie(issue('r', OTHER_SESSION, JTI, 10, 900));
    h_sessions_logout(&w);
    ck_answer(200, "AUTH_LOGOUT_SUCCESS", "revoke ");
    ck_assert_str_eq(db.revoked, SESSION " " OTHER_SESSION " ");
    ck_assert(cookie_cleared());
}

TEST (test_logout_with_an_expired_token) {
    send_in_cookie(issue('r', SESSION, JTI, 1000, 900));
    h_sessions_logout(&w);
    ck_answer(200, "AUTH_LOGOUT_SUCCESS", "revoke ");
    ck_assert_str_eq(db.revoked, SESSION " ");
}

/* The clock of who issued it is ahead, or ours was set back. */
TEST (test_logout_with_a_token_from_the_future) {
    send_bearer(issue('b', SESSION, JTI, -3600, 900));
    send_in_cookie(issue('r', OTHER_SESSION, JTI, -86400 * 365, 900));
    h_sessions_logout(&w);
    ck_answer(200, "AUTH_LOGOUT_SUCCESS", "revoke ");
    ck_assert_str_eq(db.revoked, SESSION " " OTHER_SESSION " ");
    ck_assert(cookie_cleared());
}

TEST (test_logout_ignores_what_is_unusable) {
    char *token = issue('r', SESSION, JTI, 10, 900);

    token[strlen(token) - 5] ^= 1;
    send_bearer("nonsense");
    send_in_body(token);
    send_in_cookie(issue('a', OTHER_SESSION, JTI, 10, 900));
    h_sessions_logout(&w);
    ck_answer(200, "AUTH_LOGOUT_SUCCESS", "");
    ck_assert(body_has("Logout succeeded."));
    ck_assert(cookie_cleared());
}

TEST (test_logout_differing_cookies_both_count) {
    char *a = issue('r', SESSION, JTI, 10, 900);
    char *b = issue('r', OTHER_SESSION, JTI, 10, 900);

    snprintf(text, sizeof(text), "rt=%s; rt=%s", a, b);
    req.cookie = join("", text, "");
    h_sessions_logout(&w);
    ck_answer(200, "AUTH_LOGOUT_SUCCESS", "revoke ");
    ck_assert_str_eq(db.revoked, SESSION " " OTHER_SESSION " ");
}

TEST (test_logout_ignores_the_cookie_of_another_origin) {
    req.origin = PJ_STR("https://evil.test");
    send_in_cookie(issue('r', SESSION, JTI, 10, 900));
    h_sessions_logout(&w);
    ck_answer(200, "AUTH_LOGOUT_SUCCESS", "");
    ck_assert(cookie_untouched());

    send_in_body(issue('r', OTHER_SESSION, JTI, 10, 900));
    h_sessions_logout(&w);
    ck_answer(200, "AUTH_LOGOUT_SUCCESS", "revoke ");
    ck_assert_str_eq(db.revoked, OTHER_SESSION " ");
    ck_assert(cookie_untouched());

    /* A page must not clear the cookie by making the browser withhold it: the
     * answer to a form may set cookies that the request did not carry. */
    req.body = req.cookie = PJ_STR("");
    h_sessions_logout(&w);
    ck_assert_int_eq(res.status, 200);
    ck_assert(cookie_untouched());
    req.origin = PJ_STR("http://localhost:8081");
    h_sessions_logout(&w);
    ck_assert(cookie_cleared());
}

/* A request names at most as many sessions as one statement ends. */
TEST (test_logout_of_many) {
    static char cookies[256 * 1024];
    char id[STORE_UUID];
    size_t len = 0;

    for (int i = 0; i <= STORE_MAX_REVOKE; i++) {
        pj_arena_init(&scratch, scratch_mem, sizeof(scratch_mem));
        snprintf(id, sizeof(id), "22222222-2222-4222-8222-%012d", i);
        len += (size_t) snprintf(cookies + len, sizeof(cookies) - len,
                                 "rt=%s; ", issue('r', id, JTI, 10, 900));
        ck_assert_uint_lt(len, sizeof(cookies));
    }
    req.cookie = str(cookies);
    h_sessions_logout(&w);
    ck_answer(200, "AUTH_LOGOUT_SUCCESS", "revoke ");
    ck_assert_uint_eq(db.revoked_count, STORE_MAX_REVOKE);
}

/* -- one's own sessions -- */

static void end_session(struct session_view other)
{
    view_is(scoped_session());
    view_is(other);
    send_bearer(issue('b', SESSION, JTI, 10, 900));
    w.path_ids[0] = PJ_STR(OTHER_SESSION);
    h_sessions_end(&w);
}

TEST (test_end_of_a_session) {
    end_session(usable_session());
    ck_answer(200, "AUTH_END_SESSION_SUCCESS", "read read revoke ");
    ck_assert_str_eq(db.revoked, OTHER_SESSION " ");
}

TEST (test_end_of_no_session) {
    tell(&db.read, STORE_OK);
    tell(&db.read, STORE_NONE);
    end_session(usable_session());
    ck_answer(404, "RESOURCE_NOT_FOUND", "read read ");
}

TEST (test_end_of_somebody_elses_session) {
    struct session_view other = usable_session();

    snprintf(other.session.account_id, STORE_UUID, OTHER_SESSION);
    end_session(other);
    ck_answer(404, "RESOURCE_NOT_FOUND", "read read ");
}

/* -- whose the token is -- */

static void me(char kind, struct session_view of)
{
    view_is(of);
    send_bearer(issue(kind, SESSION, JTI, 10, 900));
    h_me(&w);
}

static const char whose[] =
    "\"accountId\":\"" ACCOUNT "\",\"account\":\"somebody\","
    "\"type\":\"CUSTOMER\",\"sessionId\":\"" SESSION "\","
    "\"createdAt\":\"2023-11-14T22:13:20Z\"";

/* The session has a branch, the token has none. */
TEST (test_me_by_an_account_token) {
    me('a', scoped_session());
    ck_answer(200, "AUTH_ME_SUCCESS", "describe ");
    ck_assert(body_has(whose));
    ck_assert(!body_has("workspace") && !body_has("branch"));
}

TEST (test_me_by_a_branch_token) {
    me('b', usable_session());
    ck_answer(200, "AUTH_ME_SUCCESS", "describe ");
    ck_assert(body_has(whose));
    ck_assert(body_has(",\"workspaceId\":\"" WORKSPACE "\","
                       "\"workspaceName\":\"Corner Shop\","
                       "\"branchId\":\"" BRANCH "\","
                       "\"branchName\":\"Main Street\","
                       "\"roles\":[\"CASHIER\"]}"));
}

TEST (test_me_refusals) {
    struct session_view view = usable_session();

    me('r', view);
    ck_answer(401, "AUTH_ACCESS_TOKEN_REQUIRED", "");
    view.session.active = false;
    db.view_count = 0;
    me('a', view);
    ck_answer(401, "AUTH_SESSION_NOT_ACTIVE", "describe ");
}

TEST (test_me_without_an_answer) {
    tell(&db.describe, STORE_UNAVAILABLE);
    me('a', usable_session());
    ck_answer(503, "DATABASE_UNAVAILABLE", "describe ");
}

/* Sessions that ended before the database failed are audited too. */
TEST (test_logout_others_in_part) {
    static const char path[] = "/tmp/check_select_logout.audit";
    char line[1024] = "";
    FILE *f;

    (void) unlink(path);
    ck_assert(log_audit_to(path));
    view_is(scoped_session());
    send_bearer(issue('b', SESSION, JTI, 10, 900));
    tell(&db.end, STORE_UNAVAILABLE);
    h_sessions_logout_others(&w);
    ck_answer(503, "DATABASE_UNAVAILABLE", "read end ");
    f = fopen(path, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_ptr_nonnull(fgets(line, sizeof(line), f));
    ck_assert_ptr_nonnull(strstr(line, "\"event\":\"auth.logout.others\""));
    ck_assert_ptr_nonnull(strstr(line, "\"revokedSessions\":3"));
    fclose(f);
    (void) unlink(path);
}

TEST (test_logout_failures_leave_the_cookie) {
    send_in_cookie(issue('r', SESSION, JTI, 10, 900));
    send_body("{\"refreshToken\":1}");
    h_sessions_logout(&w);
    ck_answer(400, "REQUEST_INVALID", "");
    ck_assert(cookie_untouched());

    req.body = PJ_STR("");
    tell(&db.revoke, STORE_UNAVAILABLE);
    h_sessions_logout(&w);
    ck_answer(503, "DATABASE_UNAVAILABLE", "revoke ");
    ck_assert(cookie_untouched());
}

TEST (test_logout_again_succeeds) {
    tell(&db.revoke, STORE_NONE);
    send_in_cookie(issue('r', SESSION, JTI, 10, 900));
    h_sessions_logout(&w);
    ck_answer(200, "AUTH_LOGOUT_SUCCESS", "revoke ");
    ck_assert(cookie_cleared());
}

int main(void)
{
    return run_tests("select and logout");
}
