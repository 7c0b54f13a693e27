/* Decisions about a session. */

#include "auth/session.h"
#include "testing.h"

#include <stdio.h>

#define NOW 1000000
#define ACCOUNT PJ_STR("account-1")
#define NO_CAP 0

static const pj_str_t jti = PJ_STR("jti-1");

/* An active session of an enabled account, without a branch. */
static struct session_view usable(void)
{
    struct session_view v = {0};

    snprintf(v.session.account_id, STORE_UUID, "account-1");
    snprintf(v.session.jti, STORE_UUID, "jti-1");
    v.session.account_enabled = true;
    v.session.active = true;
    v.session.created_at_s = NOW - 100;
    v.session.expires_at_s = NOW + 100;
    return v;
}

static struct session_view scoped(bool selectable)
{
    struct session_view v = usable();

    snprintf(v.session.active_branch_id, STORE_UUID, "branch-1");
    v.selectable = selectable;
    return v;
}

static enum session_verdict refresh(const struct session_view *v)
{
    return session_decide(v, ACCOUNT, &jti, NOW, NO_CAP);
}

TEST (test_refresh_tells_the_three_ways_to_go_on) {
    struct session_view v = usable();

    ck_assert_int_eq(refresh(&v), SESSION_UNSCOPED);
    v = scoped(true);
    ck_assert_int_eq(refresh(&v), SESSION_SCOPED);
    v = scoped(false);
    ck_assert_int_eq(refresh(&v), SESSION_NOT_SELECTABLE);
}

TEST (test_refresh_state_comes_before_jti) {
    struct session_view v = usable();
    pj_str_t old = PJ_STR("jti-0");

    ck_assert_int_eq(session_decide(&v, ACCOUNT, &old, NOW, NO_CAP),
                     SESSION_STALE);
    v.session.active = false;
    ck_assert_int_eq(session_decide(&v, ACCOUNT, &old, NOW, NO_CAP),
                     SESSION_NOT_ACTIVE);
    ck_assert_int_eq(refresh(&v), SESSION_NOT_ACTIVE);
}

TEST (test_refresh_ends_exactly_at_expiry) {
    struct session_view v = usable();

    v.session.expires_at_s = NOW + 1;
    ck_assert_int_eq(refresh(&v), SESSION_UNSCOPED);
    v.session.expires_at_s = NOW;
    ck_assert_int_eq(refresh(&v), SESSION_NOT_ACTIVE);
}

TEST (test_refresh_ends_at_a_lowered_maximum_lifetime) {
    struct session_view v = usable(); /* created 100 s ago */

    ck_assert_int_eq(session_decide(&v, ACCOUNT, &jti, NOW, 101),
                     SESSION_UNSCOPED);
    ck_assert_int_eq(session_decide(&v, ACCOUNT, &jti, NOW, 100),
                     SESSION_NOT_ACTIVE);
}

TEST (test_refresh_of_another_account_finds_no_session) {
    struct session_view v = usable();

    ck_assert_int_eq(session_decide(&v, PJ_STR("account-2"), &jti, NOW, NO_CAP),
                     SESSION_NOT_ACTIVE);
    ck_assert_int_eq(
        session_decide(&v, PJ_STR("account-11"), &jti, NOW, NO_CAP),
        SESSION_NOT_ACTIVE);
    ck_assert_int_eq(session_decide(&v, PJ_STR(""), &jti, NOW, NO_CAP),
                     SESSION_NOT_ACTIVE);
}

TEST (test_refresh_of_a_disabled_account) {
    struct session_view v = scoped(false);

    v.session.account_enabled = false;
    ck_assert_int_eq(refresh(&v), SESSION_ACCOUNT_DISABLED);
    v.session.active = false; /* revoked already: nothing to do */
    ck_assert_int_eq(refresh(&v), SESSION_NOT_ACTIVE);
}

TEST (test_select) {
    struct session_view v = usable();

    v.selectable = true;
    ck_assert_int_eq(session_decide(&v, ACCOUNT, NULL, NOW, NO_CAP),
                     SESSION_SCOPED);
    v.selectable = false;
    ck_assert_int_eq(session_decide(&v, ACCOUNT, NULL, NOW, NO_CAP),
                     SESSION_NOT_SELECTABLE);
    v.session.active = false; /* its state comes before the branch's */
    ck_assert_int_eq(session_decide(&v, ACCOUNT, NULL, NOW, NO_CAP),
                     SESSION_NOT_ACTIVE);
}

TEST (test_expiry_never_passes_the_maximum_lifetime) {
    ck_assert_int_eq(session_expiry(NOW, 900, NOW - 100, NO_CAP), NOW + 900);
    ck_assert_int_eq(session_expiry(NOW, 900, NOW - 100, 2000), NOW + 900);
    ck_assert_int_eq(session_expiry(NOW, 900, NOW - 100, 1000), NOW + 900);
    ck_assert_int_eq(session_expiry(NOW, 900, NOW - 100, 999), NOW + 899);
}

/* Whoever's clock is ahead, what was issued before a lockout is of an earlier
 * second than what is issued after it. */
TEST (test_access_tokens_tell_the_lockout) {
    struct store_clock clock = {.now_us = NOW * INT64_C(1000000) + 999999};

    ck_assert_int_eq(session_issued_at(NOW, &clock), NOW);
    ck_assert_int_eq(session_issued_at(NOW + 20, &clock), NOW);
    ck_assert_int_eq(session_issued_at(NOW - 20, &clock), NOW - 20);
    clock.valid_after_us = NOW * INT64_C(1000000);
    ck_assert_int_eq(session_issued_at(NOW, &clock), NOW + 1);
    ck_assert_int_eq(session_issued_at(NOW - 20, &clock), NOW + 1);
    clock.valid_after_us -= 1;
    ck_assert_int_eq(session_issued_at(NOW, &clock), NOW);
    ck_assert_int_eq(session_issued_at(NOW - 20, &clock), NOW);
    clock.valid_after_us += INT64_C(3600000000);
    ck_assert_int_eq(session_issued_at(NOW, &clock), NOW + 1);
}

TEST (test_retry_is_from_the_same_network) {
    static const struct {
        const char *of, *by;
        bool same;
    } cases[] = {
        {"192.0.2.7", "192.0.2.255", true},
        {"192.0.2.7", "192.0.3.7", false},
        {"192.0.2.7", "192.1.2.7", false},
        {"192.0.2.7", "::ffff:192.0.2.9", true},
        {"::ffff:192.0.2.7", "::ffff:192.0.2.9", true},
        {"::ffff:192.0.2.7", "::ffff:192.0.3.7", false},
        {"::ffff:192.0.2.7", "192.0.3.7", false},
        {"2001:db8:7::1", "2001:db8:7:ffff::2", true},
        {"2001:db8:7::1", "2001:db8:8::1", false},
        {"2001:db8:7::1", "2001:db9:7::1", false},
        {"2001:db8:7::1", "192.0.2.7", false},
        {"unix:", "unix:", true},
        {"", "", true},
        {"unix:", "192.0.2.7", false},
        {"", "0.0.0.1", false},
        {"", "2001:db8:7::1", false},
    };

    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        for (int swapped = 0; swapped < 2; swapped++) {
            struct retry of = {.agent = "app"};

            snprintf(of.address, sizeof(of.address), "%s",
                     swapped ? cases[i].by : cases[i].of);
            ck_assert_msg((session_classify_retry(
                               &of, swapped ? cases[i].of : cases[i].by,
                               "app") == SESSION_RETRY_SAME) == cases[i].same,
                          "%s, %s", cases[i].of, cases[i].by);
        }
    }
}

int main(void)
{
    return run_case("session", NULL);
}
