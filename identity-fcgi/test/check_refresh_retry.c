/* Tests of refresh: retries that the store has found, and a token of another
 * session than the page expects. */

#include "refresh.h"

/* Its token was replaced by OTHER_JTI 20 s ago. */
static struct session_view retried(struct session_view v)
{
    snprintf(v.session.jti, STORE_UUID, OTHER_JTI);
    v.session.expires_at_s = NOW + 3580;
    cfg.refresh_retry_window_s = 30;
    db.last = (struct retry){.jti = OTHER_JTI,
                             .iat_s = NOW - 20,
                             .expires_at_s = NOW + 3580,
                             .address = "192.0.2.7",
                             .agent = "app/1"};
    snprintf(w.store.client_address, sizeof(w.store.client_address),
             "192.0.2.7");
    snprintf(w.store.client_agent, sizeof(w.store.client_agent), "app/1");
    return v;
}

static void ck_successor(void)
{
    pj_claims_t claims = answered_token();

    ck_assert(text_is(claims.jti, OTHER_JTI));
    ck_assert_int_eq(claims.iat, NOW - 20);
    ck_assert_int_eq(claims.exp, NOW + 3580);
    ck_assert_ptr_nonnull(strstr(headers(), "Max-Age=3580;"));
}

TEST (test_retry_gets_the_successor) {
    for (int idle = 0; idle < 2; idle++) {
        teardown();
        setup();
        db.idle_reads = idle;
        cfg.refresh_reuse = REUSE_REVOKE;
        refresh(retried(scoped_session()));
        ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh retry repeat ");
        ck_successor();
        ck_assert(!db.cleared && !db.elsewhere);
        ck_assert_str_eq(db.rotated_to, "");
        ck_assert(body_has("\"expiresIn\":900"));
    }
}

TEST (test_retry_of_a_session_that_is_over) {
    struct session_view v = retried(usable_session());

    v.session.expires_at_s = NOW;
    refresh(v);
    ck_answer(401, "AUTH_SESSION_NOT_ACTIVE", "refresh ");
}

TEST (test_retry_whose_scope_is_lost) {
    struct session_view v = retried(scoped_session());

    cfg.refresh_reuse = REUSE_REVOKE;
    v.selectable = false;
    refresh(v);
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh retry repeat ");
    ck_successor();
    ck_assert(db.cleared && !db.remembered);
    ck_assert_str_eq(db.rotated_to, "");
    ck_assert(body_has("\"nextAction\":{\"type\":\"select_branch\"}"));
}

/* The successor was signed already, and then went back in the meantime. */
TEST (test_retry_that_becomes_a_rotation) {
    view_is(retried(scoped_session()));
    view_is(scoped_session());
    db.idle_reads = true;
    tell(&db.repeat, STORE_NONE);
    refresh_body(refresh_token(JTI));
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh retry repeat read rotate ");
    ck_assert(text_is(answered_token().jti, db.rotated_to));
    ck_assert(!text_is(answered_token().jti, OTHER_JTI));
}

/* It is read again: which of the two was first decides, and not the retry. */
TEST (test_retry_that_races_a_logout) {
    struct session_view over = retried(scoped_session());

    cfg.refresh_reuse = REUSE_REVOKE;
    view_is(over);
    over.session.active = false;
    view_is(over);
    tell(&db.repeat, STORE_NONE);
    refresh_body(refresh_token(JTI));
    ck_answer(401, "AUTH_SESSION_NOT_ACTIVE", "refresh retry repeat read ");
}

TEST (test_retry_that_cannot_sign_takes_nothing_back) {
    view_is(retried(scoped_session()));
    send_in_body(refresh_token(JTI));
    w.signer = NULL;
    h_refresh(&w);
    ck_answer(500, "INTERNAL_ERROR", "refresh retry ");
}

TEST (test_retry_without_a_database) {
    tell(&db.retry, STORE_UNAVAILABLE);
    refresh(retried(scoped_session()));
    ck_answer(503, "DATABASE_UNAVAILABLE", "refresh retry ");

    teardown();
    setup();
    view_is(retried(scoped_session()));
    tell(&db.repeat, STORE_UNKNOWN);
    tell(&db.repeat, STORE_OK);
    refresh_body(refresh_token(JTI));
    ck_answer(200, "AUTH_REFRESH_SUCCESS",
              "refresh retry repeat read retry repeat ");
    ck_successor();
}

/* Whoever lost a race looks for a retry too, and where the end is near. */
TEST (test_retry_is_looked_for_by_every_attempt) {
    view_is(usable_session());
    view_is(retried(usable_session()));
    db.moved = true;
    tell(&db.rotate, STORE_NONE);
    refresh_body(refresh_token(JTI));
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh rotate read retry repeat ");
    ck_successor();

    teardown();
    setup();
    cfg.refresh_retry_window_s = 30;
    cfg.session_max_lifetime_s = 1500; /* 500 s are left */
    view_is(scoped_session());
    refresh_body(issue('r', SESSION, JTI, 10, 510));
    ck_answer(200, "AUTH_REFRESH_SUCCESS", "read rotate ");
    ck_assert_int_eq(answered_token().exp, NOW + 500);
}

/* Somebody else's is a reuse, however young, and ends the session if a reuse
 * does. */
TEST (test_retry_from_elsewhere) {
    static const struct {
        const char *address, *agent;
        unsigned before; /* the history */
        int status;
        bool elsewhere;
    } cases[] = {
        {"192.0.2.7", "app/1", 0xff, 200, false},
        {"192.0.2.250", "app/1", 0, 200, false},
        {"192.0.3.7", "app/1", 0, 200, true},
        {"192.0.2.7", "app/2", 0, 200, true},
        {"192.0.2.7", "", 0, 200, true},
        {"192.0.3.7", "app/2", 0, 401, false},
        {"192.0.3.7", "app/1", 0x02, 200, true},
        {"192.0.3.7", "app/1", 0x03, 200, true}, /* this one, again */
        {"192.0.3.7", "app/1", 0x82, 401, false},
        {"192.0.2.7", "app/2", 0x06, 401, false},
        {"192.0.2.7", "app/2", 0x83, 401, false},
    };

    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        int c = (int) (i / 2);
        bool ends = i % 2 == 1;

        teardown();
        setup();
        cfg.refresh_reuse = ends ? REUSE_REVOKE : REUSE_REJECT;
        view_is(retried(scoped_session()));
        db.last.moved_retries = cases[c].before;
        snprintf(w.store.client_address, sizeof(w.store.client_address), "%s",
                 cases[c].address);
        snprintf(w.store.client_agent, sizeof(w.store.client_agent), "%s",
                 cases[c].agent);
        refresh_body(refresh_token(JTI));
        ck_assert_msg(res.status == cases[c].status, "case %d: %d", c,
                      res.status);
        if (res.status == 200) {
            ck_answer(200, "AUTH_REFRESH_SUCCESS", "refresh retry repeat ");
            ck_successor();
        } else {
            ck_answer(401, "AUTH_REFRESH_TOKEN_STALE",
                      ends ? "refresh retry revoke " : "refresh retry ");
        }
        ck_assert_msg(db.elsewhere == cases[c].elsewhere, "case %d", c);
    }
}

TEST (test_retry_window_is_the_grace_of_a_reuse) {
    cfg.refresh_reuse = REUSE_REVOKE;
    cfg.refresh_retry_window_s = db.grace_s = 30;
    view_is(usable_session());
    tell(&db.rotated, STORE_NONE);
    refresh_body(issue('r', SESSION, OTHER_JTI, 30, 3600));
    ck_answer(401, "AUTH_REFRESH_TOKEN_STALE", "refresh retry ");
    refresh_body(issue('r', SESSION, OTHER_JTI, 31, 3600));
    ck_answer(401, "AUTH_REFRESH_TOKEN_STALE",
              "refresh retry refresh retry rotated revoke ");
}

/* A page sends the id of its session. */
TEST (test_refresh_of_another_session) {
    const struct {
        const char *named, *code;
        int status;
    } cases[] = {
        {"\"" SESSION "\"", "AUTH_REFRESH_SUCCESS", 200},
        {"\"" BRANCH "\"", "AUTH_SESSION_CHANGED", 409},
        {"\"" SESSION "x\"", "AUTH_SESSION_CHANGED", 409},
        {"\"\"", "AUTH_SESSION_CHANGED", 409},
        {"null", "REQUEST_INVALID", 400},
        {"1", "REQUEST_INVALID", 400},
    };

    for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
        const char *named = cases[i / 2].named;
        bool good = cases[i / 2].status == 200;

        teardown();
        setup();
        view_is(scoped_session());
        if (i % 2 == 0) {
            send_in_cookie(refresh_token(JTI));
            req.body = join("{\"sessionId\":", named, "}");
        } else {
            snprintf(text, sizeof(text), "{\"refreshToken\":\"%s\",%s",
                     refresh_token(JTI), "\"sessionId\":");
            req.body = join(text, named, "}");
        }
        h_refresh(&w);
        ck_answer(cases[i / 2].status, cases[i / 2].code,
                  good ? "refresh " : "");
        ck_assert(cookie_untouched() != good);
        ck_assert(cases[i / 2].status != 409 ||
                  body_has("\"title\":\"Conflict\""));
    }

    /* A fault of the token itself is reported first. */
    req.body = PJ_STR("{\"sessionId\":\"x\"}");
    send_in_cookie("not.a.token");
    h_refresh(&w);
    ck_answer(401, "AUTH_REFRESH_TOKEN_INVALID", "");
}

int main(void)
{
    return run_tests("refresh_retry");
}
