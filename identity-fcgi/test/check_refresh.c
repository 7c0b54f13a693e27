/* Refresh: order of checks, statements made, retries, the cookie. */

#include "refresh.h"

TEST (test_refresh_scoped) {
    refresh(scoped_session());
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh ");
    ck_assert(body_has("\"accessToken\":\""));
    ck_assert(body_has("\"refreshToken\":\""));
    ck_assert(body_has("\"nextAction\":{\"type\":\"load_current_context\"}"));
    ck_assert(body_has("\"expiresIn\":900"));
    ck_assert(!body_has("accountAccessToken") && !body_has("branches"));
    ck_assert(body_has("\"accountId\":\"" ACCOUNT "\",\"sessionId\":\"" SESSION
                       "\",\"workspaceId\":\"" WORKSPACE
                       "\",\"activeBranchId\":\"" BRANCH "\""));
    ck_assert(!db.cleared && !db.remembered);
    ck_assert_int_eq(db.rotated_exp, NOW + 3600);
    ck_assert_ptr_nonnull(strstr(headers(), "Cache-Control: no-store\r\n"));
    ck_assert_ptr_nonnull(strstr(headers(), "Max-Age=3600;"));
}

TEST (test_refresh_unscoped) {
    view_is(usable_session());
    refresh_cookie(refresh_token(JTI));

    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh ");
    ck_assert(body_has("\"accountAccessToken\":\""));
    ck_assert(!body_has("\"accessToken\""));
    ck_assert(body_has("\"sessionId\":\"" SESSION "\"}"));
    ck_assert(body_has("\"branches\":[{\"branchId\":\"" BRANCH "\""));
    ck_assert(body_has("\"nextAction\":{\"type\":\"select_branch\"}"));
}

TEST (test_refresh_include_account_token) {
    view_is(scoped_session());
    req.body = join("{\"refreshToken\":\"", refresh_token(JTI),
                    "\",\"includeAccountToken\":true}");
    h_refresh(&w);

    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh ");
    ck_assert(body_has("\"accessToken\":\""));
    ck_assert(body_has("\"accountAccessToken\":\""));
    ck_assert(body_has("\"branches\":["));
    ck_assert(body_has("\"nextAction\":{\"type\":\"load_current_context\"}"));
}

TEST (test_refresh_scope_lost) {
    struct session_view v = scoped_session();

    v.selectable = false;
    refresh(v);
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh rotate ");
    ck_assert(db.cleared);
    ck_assert(body_has("\"nextAction\":{\"type\":\"select_branch\"}"));
}

TEST (test_refresh_expiry_is_capped) {
    struct session_view v = scoped_session();

    cfg.session_max_lifetime_s = 1500; /* 500 s are left */
    refresh(v);
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh rotate ");
    ck_assert_int_eq(db.rotated_exp, NOW + 500);
    ck_assert(body_has("\"expiresIn\":500"));
    ck_assert_ptr_nonnull(strstr(headers(), "Max-Age=500;"));
}

/* Refreshes with a token that was issued for old_ttl_s in a session that has
 * left_s to live, by these calls; how much of the arena that took. */
static size_t refresh_for(bool idle, int64_t old_ttl_s, int64_t left_s,
                          const char *calls)
{
    pj_claims_t claims;

    teardown();
    setup();
    db.idle_reads = idle;
    cfg.session_max_lifetime_s = 1000 + left_s;
    view_is(scoped_session());
    refresh_body(issue('r', SESSION, JTI, 10, old_ttl_s));

    ck_answer(200, "AUTH_REFRESH_SUCCESS", calls);
    claims = answered_token();
    ck_assert_int_eq(claims.exp, NOW + (left_s < 3600 ? left_s : 3600));
    ck_assert_int_eq(claims.exp, db.rotated_exp);
    ck_assert(claims.jti.len == 36 &&
              memcmp(claims.jti.data, db.rotated_to, 36) == 0);
    ck_assert(claims.session_id.len == 36 &&
              memcmp(claims.session_id.data, SESSION, 36) == 0);
    return (size_t) (w.arena.pos - arena);
}

/* Signed while the database reads or after it: the token is the same, and is
 * signed twice only where the old one gave no idea of its expiry. */
TEST (test_refresh_signs_ahead) {
    const struct {
        int64_t old_ttl_s, left_s;
        const char *calls;
        bool twice;
    } cases[] = {
        /* the whole time before and after */
        {3600, 80000, "refresh ", false},
        /* just so */
        {3600, 3600, "refresh ", false},
        /* capped before and after */
        {510, 500, "read rotate ", false},
        /* capped for the first time */
        {3600, 3599, "refresh rotate ", true},
        /* once it was shorter */
        {600, 80000, "read rotate ", true},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        size_t once = refresh_for(true, cases[i].old_ttl_s, cases[i].left_s,
                                  cases[i].calls);
        size_t ahead = refresh_for(false, cases[i].old_ttl_s, cases[i].left_s,
                                   cases[i].calls);

        ck_assert_int_eq(ahead > once + 500, cases[i].twice);
        ck_assert(cases[i].twice || ahead == once);
    }
}

TEST (test_refresh_missing) {
    static const char *const bodies[] = {"", "{}", "{\"refreshToken\":null}",
                                         "{\"refreshToken\":\"\"}"};

    for (size_t i = 0; i < 4; i++) {
        send_body(bodies[i]);
        req.cookie = PJ_STR("rt=; other=x");
        h_refresh(&w);
        ck_answer(401, "AUTH_REFRESH_TOKEN_MISSING", "");
        ck_assert(cookie_untouched());
    }
}

TEST (test_refresh_origin_comes_before_conflict) {
    send_in_body("a");
    send_in_cookie("b");
    req.origin = PJ_STR("https://evil.test");
    h_refresh(&w);
    ck_answer(403, "AUTH_ORIGIN_NOT_ALLOWED", "");
    ck_assert(cookie_untouched());

    req.origin = PJ_STR("http://localhost:8081");
    h_refresh(&w);
    ck_answer(400, "AUTH_REFRESH_TOKEN_CONFLICT", "");
    ck_assert(cookie_untouched());
}

TEST (test_refresh_origin_is_of_no_matter_without_the_cookie) {
    view_is(scoped_session());
    req.origin = PJ_STR("https://evil.test");
    req.cookie = PJ_STR("other=x");
    refresh_body(refresh_token(JTI));
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh ");
}

TEST (test_refresh_two_cookies) {
    char *token = refresh_token(JTI);

    view_is(scoped_session());
    req.cookie = PJ_STR("rt=a; rt=b");
    h_refresh(&w);
    ck_answer(400, "AUTH_REFRESH_TOKEN_CONFLICT", "");

    snprintf(text, sizeof(text), "rt=%s; x=y; rt=%s", token, token);
    req.cookie = join("", text, "");
    h_refresh(&w);
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh ");
}

TEST (test_refresh_invalid_clears_only_its_own_cookie) {
    refresh_body("not.a.token");
    ck_answer(401, "AUTH_REFRESH_TOKEN_INVALID", "");
    ck_assert(cookie_untouched());

    req.body = PJ_STR("");
    refresh_cookie("not.a.token");
    ck_answer(401, "AUTH_REFRESH_TOKEN_INVALID", "");
    ck_assert(cookie_cleared());
}

/* It is good for whoever's clock is right: refused, but never thrown away. */
TEST (test_refresh_from_the_future_leaves_the_cookie) {
    refresh_cookie(issue('r', SESSION, JTI, -31, 3600));
    ck_answer(401, "AUTH_REFRESH_TOKEN_INVALID", "");
    ck_assert(cookie_untouched());

    view_is(scoped_session());
    refresh_cookie(issue('r', SESSION, JTI, -30, 3600));
    ck_assert_int_eq(res.status, 200);
}

TEST (test_refresh_takes_refresh_tokens_only) {
    refresh_body(issue('a', SESSION, JTI, 10, 3600));
    ck_answer(401, "AUTH_REFRESH_TOKEN_INVALID", "");
    ck_assert_ptr_nonnull(strstr(
        headers(), "\r\nWWW-Authenticate: Login realm=\"platform\"\r\n"));
    refresh_body(issue('b', SESSION, JTI, 10, 3600));
    ck_answer(401, "AUTH_REFRESH_TOKEN_INVALID", "");
}

TEST (test_refresh_expiry_has_no_leeway) {
    view_is(scoped_session());
    refresh_body(issue('r', SESSION, JTI, 100, 100));
    ck_answer(401, "AUTH_REFRESH_TOKEN_INVALID", "");
    refresh_body(issue('r', SESSION, JTI, 100, 101));
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "read rotate ");
}

TEST (test_refresh_no_such_session) {
    view_is(usable_session());
    tell(&db.read, STORE_NONE);
    refresh_cookie(refresh_token(JTI));
    ck_answer(401, "AUTH_SESSION_NOT_ACTIVE", "refresh ");
    ck_assert(cookie_cleared());
}

TEST (test_refresh_stale_token_of_a_revoked_session) {
    struct session_view v = usable_session();

    v.session.active = false;
    view_is(v);
    refresh_body(refresh_token(OTHER_JTI));
    ck_answer(401, "AUTH_SESSION_NOT_ACTIVE", "refresh ");
    ck_assert(cookie_untouched()); /* the token came in the body */
}

TEST (test_refresh_stale_leaves_the_cookie) {
    view_is(usable_session());
    refresh_cookie(refresh_token(OTHER_JTI));
    ck_answer(401, "AUTH_REFRESH_TOKEN_STALE", "refresh ");
    ck_assert(cookie_untouched());
}

TEST (test_refresh_disabled_account_ends_the_session) {
    struct session_view v = usable_session();

    v.session.account_enabled = false;
    view_is(v);
    refresh_cookie(refresh_token(JTI));
    ck_answer(401, "AUTH_SESSION_NOT_ACTIVE", "refresh revoke ");
    ck_assert_str_eq(db.revoked, SESSION " ");
    ck_assert(cookie_cleared());
}

/* -- refresh: races and losses -- */

TEST (test_refresh_goes_round_while_the_scope_moves) {
    view_is(usable_session());
    view_is(scoped_session());
    db.moved = true;
    tell(&db.rotate, STORE_NONE);
    tell(&db.rotate, STORE_OK);
    refresh_body(refresh_token(JTI));
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh rotate read rotate ");
    /* The answer is that of the second decision. */
    ck_assert(body_has("\"accessToken\":\""));
    ck_assert(!body_has("branches"));
}

TEST (test_refresh_gives_up_after_three_more_times) {
    view_is(usable_session());
    db.moved = true;
    tell(&db.rotate, STORE_NONE);
    refresh_cookie(refresh_token(JTI));
    ck_answer(503, "AUTH_BUSY",
              "refresh rotate read rotate read rotate read rotate ");
    ck_assert_ptr_nonnull(strstr(headers(), "Retry-After: 1\r\n"));
    ck_assert(cookie_untouched());
}

TEST (test_refresh_that_lost_the_race_is_stale) {
    struct session_view v = usable_session();

    view_is(v);
    snprintf(v.session.jti, STORE_UUID, OTHER_JTI);
    view_is(v);
    db.moved = true;
    tell(&db.rotate, STORE_NONE);
    refresh_cookie(refresh_token(JTI));
    ck_answer(401, "AUTH_REFRESH_TOKEN_STALE", "refresh rotate read ");
    ck_assert(cookie_untouched());
}

TEST (test_refresh_that_lost_to_a_logout) {
    struct session_view v = usable_session();

    view_is(v);
    v.session.active = false;
    view_is(v);
    db.moved = true;
    tell(&db.rotate, STORE_NONE);
    refresh_body(refresh_token(JTI));
    ck_answer(401, "AUTH_SESSION_NOT_ACTIVE", "refresh rotate read ");
}

TEST (test_refresh_finds_out_that_its_write_happened) {
    struct session_view v = scoped_session();

    view_is(v);
    view_is(v); /* during which the database is away */
    snprintf(v.session.jti, STORE_UUID, "the new one");
    view_is(v);
    db.moved = true;
    tell(&db.read, STORE_OK);
    tell(&db.read, STORE_UNAVAILABLE);
    tell(&db.read, STORE_OK);
    tell(&db.rotate, STORE_UNKNOWN);
    tell(&db.repeat, STORE_UNAVAILABLE); /* it was a standby that showed it */
    tell(&db.repeat, STORE_OK);
    refresh_body(refresh_token(JTI));
    ck_answer(200, "AUTH_REFRESH_SUCCESS",
              "refresh rotate read read repeat read repeat ");
    ck_assert(body_has("\"accessToken\":\""));
    ck_assert_ptr_nonnull(strstr(headers(), "Max-Age=3600;"));
}

TEST (test_refresh_finds_out_that_its_write_did_not_happen) {
    view_is(scoped_session());
    db.moved = true;
    tell(&db.rotate, STORE_UNKNOWN);
    tell(&db.rotate, STORE_OK);
    refresh_body(refresh_token(JTI));
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh rotate read rotate ");
}

/* The first statement's answer is lost, which read and rotated at once. */
static void lose_the_first(struct session_view then)
{
    view_is(scoped_session());
    view_is(then);
    tell(&db.read, STORE_UNKNOWN);
    tell(&db.read, STORE_OK);
    refresh_cookie(refresh_token(JTI));
}

static struct session_view rotated_by_us(void)
{
    struct session_view v = scoped_session();

    snprintf(v.session.jti, STORE_UUID, "the new one");
    return v;
}

TEST (test_refresh_lost_at_once_had_happened) {
    cfg.refresh_reuse = REUSE_REVOKE;
    lose_the_first(rotated_by_us());
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh read repeat ");
    ck_assert(body_has("\"accessToken\":\""));
    ck_assert_ptr_nonnull(strstr(headers(), "Max-Age=3600;"));
    ck_assert(text_is(answered_token().jti, db.rotated_to));
}

TEST (test_refresh_lost_at_once_had_not_happened) {
    lose_the_first(scoped_session());
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh read rotate ");
    ck_assert(text_is(answered_token().jti, db.rotated_to));
}

TEST (test_refresh_lost_at_once_and_its_scope_since) {
    struct session_view v = rotated_by_us();

    cfg.refresh_reuse = REUSE_REVOKE;
    v.selectable = false;
    lose_the_first(v);
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh read repeat ");
    ck_assert(db.cleared);
    ck_assert(body_has("\"nextAction\":{\"type\":\"select_branch\"}"));
}

TEST (test_refresh_lost_at_once_to_another) {
    struct session_view v = scoped_session();

    snprintf(v.session.jti, STORE_UUID, OTHER_JTI);
    lose_the_first(v);
    ck_answer(401, "AUTH_REFRESH_TOKEN_STALE", "refresh read ");
    ck_assert(cookie_untouched());
}

TEST (test_refresh_lost_at_once_and_logged_out) {
    struct session_view v = rotated_by_us();

    v.session.active = false;
    lose_the_first(v);
    ck_answer(401, "AUTH_SESSION_NOT_ACTIVE", "refresh read ");
}

/* If the answer cannot be written, the old token stays valid. */
TEST (test_refresh_that_cannot_sign_rotates_back) {
    view_is(scoped_session());
    send_in_body(refresh_token(JTI));
    w.signer = NULL;
    h_refresh(&w);
    ck_answer(500, "INTERNAL_ERROR", "refresh back ");
    ck_assert(!body_has("Token"));

    tell(&db.rotate, STORE_UNKNOWN);
    memset(db.rotated_to, 0, sizeof(db.rotated_to));
    h_refresh(&w);
    ck_answer(503, "DATABASE_UNAVAILABLE", "refresh back refresh back ");
    ck_assert(body_has("may or may not"));
}

/* Before anything was written there is nothing to take back. */
TEST (test_refresh_that_cannot_sign_writes_nothing) {
    db.moved = true;
    view_is(scoped_session());
    send_in_body(refresh_token(JTI));
    w.signer = NULL;
    h_refresh(&w);
    ck_answer(500, "INTERNAL_ERROR", "refresh ");
}

TEST (test_refresh_never_finds_out) {
    view_is(scoped_session());
    db.moved = true;
    tell(&db.read, STORE_OK);
    tell(&db.read, STORE_UNAVAILABLE);
    tell(&db.rotate, STORE_UNKNOWN);
    refresh_cookie(refresh_token(JTI));
    ck_assert_str_eq(res.code, "DATABASE_UNAVAILABLE");
    ck_assert_int_eq(res.status, 503);
    ck_assert(body_has("may or may not"));
    ck_assert(cookie_untouched());
    ck_assert(!body_has("Token"));
}

TEST (test_refresh_database_down) {
    view_is(scoped_session());
    tell(&db.read, STORE_UNAVAILABLE);
    refresh_cookie(refresh_token(JTI));
    ck_answer(503, "DATABASE_UNAVAILABLE", "refresh ");
    ck_assert_ptr_nonnull(strstr(headers(), "Retry-After: 1\r\n"));

    memset(&db.read, 0, sizeof(db.read));
    db.moved = true;
    tell(&db.rotate, STORE_UNAVAILABLE);
    h_refresh(&w);
    ck_answer(503, "DATABASE_UNAVAILABLE", "refresh refresh rotate ");
    ck_assert(cookie_untouched());
    ck_assert(!body_has("Token"));
}

/* -- refresh: reuse -- */

TEST (test_reuse_rejected_but_survived) {
    view_is(usable_session());
    refresh_body(issue('r', SESSION, OTHER_JTI, 1000, 3600));
    ck_answer(401, "AUTH_REFRESH_TOKEN_STALE", "refresh ");
}

TEST (test_reuse_of_an_old_token_revokes) {
    cfg.refresh_reuse = REUSE_REVOKE;
    view_is(usable_session());
    tell(&db.rotated, STORE_NONE);
    refresh_cookie(issue('r', SESSION, OTHER_JTI, 1000, 3600));
    ck_answer(401, "AUTH_REFRESH_TOKEN_STALE", "refresh rotated revoke ");
    ck_assert_str_eq(db.revoked, SESSION " ");
    ck_assert(cookie_untouched());
}

TEST (test_reuse_of_a_young_token_does_no_harm) {
    cfg.refresh_reuse = REUSE_REVOKE;
    view_is(usable_session());
    tell(&db.rotated, STORE_OK); /* rotated out within the minute */
    refresh_body(issue('r', SESSION, OTHER_JTI, 1000, 3600));
    ck_answer(401, "AUTH_REFRESH_TOKEN_STALE", "refresh rotated ");

    /* Issued within the minute: rotated out within it, too. */
    refresh_body(issue('r', SESSION, OTHER_JTI, 60, 3600));
    ck_answer(401, "AUTH_REFRESH_TOKEN_STALE", "refresh rotated refresh ");
}

TEST (test_reuse_policy_remembers_what_it_rotates) {
    cfg.refresh_reuse = REUSE_REVOKE;
    refresh(usable_session());
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh ");
    ck_assert(db.remembered);
}

int main(void)
{
    return run_tests("refresh");
}
