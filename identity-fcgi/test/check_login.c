/* Login: order of checks, equal work, attempts, bodies. */

#include "auth/handlers.h"
#include "auth/hasher.h"
#include "handlers.h"
#include "memory_limit.h"
#include "metric.h"

/* In the place of hasher.c: what is lent to threads of low priority. */
static struct {
    int calls;
    size_t bytes; /* of the arena that the last of them took */
    bool none;    /* all places are taken */
} lent;

bool hasher_start(enum hasher_lane lane, int threads, int places)
{
    return lane < HASHER_LANES && threads > 0 && places > 0;
}

bool hasher_run(enum hasher_lane lane, int64_t until_ms, void (*fn)(void *arg),
                void *arg)
{
    unsigned char *before = w.arena.pos;

    ck_assert(lane < HASHER_LANES && until_ms > 0);
    lent.calls++;
    fn(arg);
    lent.bytes = (size_t) (w.arena.pos - before);
    return true;
}

struct hasher_use hasher_use(enum hasher_lane lane)
{
    return (struct hasher_use){.threads = 1,
                               .places = lane == HASHER_HASH && !lent.none};
}

static void send_login(const char *account, const char *credential)
{
    snprintf(text, sizeof(text), "{\"account\":\"%s\",\"credential\":\"%s\"}",
             account, credential);
    req.body = join("", text, "");
}

TEST (test_login_one_branch) {
    db.branch_count = 1;
    send_login("one@demo.test", "right");
    h_login(&w);
    ck_answer(200, "AUTH_LOGIN_SUCCESS", "attempt find choices create settle ");
    ck_assert(db.settled_success);
    ck_assert(body_has("\"nextAction\":{\"type\":\"load_current_context\"}"));
    ck_assert_str_eq(db.created.workspace_id, WORKSPACE);
    ck_assert_str_eq(db.created.member_id, MEMBER);
    ck_assert_str_eq(db.created.active_branch_id, BRANCH);
    ck_assert_int_eq(db.created.expires_at_s, NOW + 3600);
    ck_assert_ptr_nonnull(strstr(headers(), "Max-Age=3600;"));
}

/* Refreshes come first: a login's hash is not in their way, nor are its
 * signatures. */
TEST (test_login_signs_where_it_hashes) {
    unsigned char *before;

    db.branch_count = 1;
    send_login("one@demo.test", "right");
    lent.calls = 0;
    before = w.arena.pos;
    h_login(&w);
    ck_assert_int_eq(res.status, 200);
    ck_assert_int_eq(lent.calls, 2);
    ck_assert_uint_gt(lent.bytes, 1200); /* two tokens */
    ck_assert_uint_lt((size_t) (w.arena.pos - before) - lent.bytes, 300);

    http_response_init(&res, header_mem, sizeof(header_mem), body_mem,
                       sizeof(body_mem));
    w.signer = NULL;
    h_login(&w);
    ck_assert_int_eq(res.status, 500);
    ck_assert(cookie_untouched());
    ck_assert(!body_has("Token"));
}

TEST (test_login_no_and_several_branches) {
    send_login("none@demo.test", "right");
    h_login(&w);
    ck_answer(200, "AUTH_LOGIN_SUCCESS", "attempt find choices create settle ");
    ck_assert(body_has("\"branches\":[],"));
    ck_assert_str_eq(db.created.active_branch_id, "");

    db.branch_count = 3;
    h_login(&w);
    ck_assert_int_eq(res.status, 200);
    ck_assert(body_has("\"nextAction\":{\"type\":\"select_branch\"}"));
    ck_assert(!body_has("\"accessToken\""));
}

TEST (test_login_equal_work_for_every_refusal) {
    uint64_t before = metric("identity_hash_duration_seconds_count");
    size_t length;

    send_login("one@demo.test", "wrong");
    h_login(&w);
    ck_answer(401, "AUTH_INVALID_CREDENTIALS", "attempt find ");
    ck_assert_uint_eq(metric("identity_hash_duration_seconds_count"),
                      before + 1);
    length = res.body.len;

    db.calls[0] = '\0';
    db.account.enabled = false;
    send_login("disabled@demo.test", "right");
    h_login(&w);
    ck_answer(401, "AUTH_INVALID_CREDENTIALS", "attempt find ");
    ck_assert_uint_eq(metric("identity_hash_duration_seconds_count"),
                      before + 2);
    ck_assert_uint_eq(res.body.len, length);

    db.calls[0] = '\0';
    tell(&db.find, STORE_NONE);
    send_login("nobody@demo.test", "right");
    h_login(&w);
    ck_answer(401, "AUTH_INVALID_CREDENTIALS", "attempt find ");
    ck_assert_uint_eq(metric("identity_hash_duration_seconds_count"),
                      before + 3);
    ck_assert_uint_eq(res.body.len, length);
    ck_assert(cookie_untouched());
    ck_assert_ptr_nonnull(strstr(
        headers(), "\r\nWWW-Authenticate: Login realm=\"platform\"\r\n"));
}

TEST (test_login_over_the_limit_is_not_hashed) {
    uint64_t before = metric("identity_hash_duration_seconds_count");

    tell(&db.attempt, STORE_NONE);
    send_login("one@demo.test", "right");
    h_login(&w);
    ck_answer(429, "AUTH_TOO_MANY_ATTEMPTS", "attempt ");
    ck_assert_ptr_nonnull(strstr(headers(), "Retry-After: 77\r\n"));
    ck_assert_uint_eq(metric("identity_hash_duration_seconds_count"), before);
}

TEST (test_login_limits_off) {
    cfg.max_failures = 0;
    send_login("one@demo.test", "right");
    h_login(&w);
    ck_answer(200, "AUTH_LOGIN_SUCCESS", "find choices create ");
}

TEST (test_login_ends_the_oldest_sessions) {
    cfg.max_sessions = 2;
    send_login("one@demo.test", "right");
    h_login(&w);
    ck_answer(200, "AUTH_LOGIN_SUCCESS",
              "attempt find choices create limit settle ");
}

/* The session is there: what became of others changes nothing. */
TEST (test_login_succeeds_whatever_becomes_of_the_oldest) {
    cfg.max_sessions = 2;
    tell(&db.limit, STORE_UNKNOWN);
    send_login("one@demo.test", "right");
    h_login(&w);
    ck_answer(200, "AUTH_LOGIN_SUCCESS",
              "attempt find choices create limit settle ");
}

TEST (test_login_rehashes_weaker_credentials) {
    struct config stronger = cfg;

    stronger.argon2_memory_kib = 16;
    ck_assert(password_setup(&stronger));
    send_login("one@demo.test", "right");
    h_login(&w);
    ck_answer(200, "AUTH_LOGIN_SUCCESS",
              "attempt find rehash choices create settle ");
    ck_assert_str_eq(db.created_with, db.rehashed_to);
}

TEST (test_login_starts_over_when_its_account_changes) {
    send_login("one@demo.test", "right");
    tell(&db.create, STORE_NONE);
    tell(&db.create, STORE_OK);
    h_login(&w);
    ck_answer(200, "AUTH_LOGIN_SUCCESS",
              "attempt find choices create find choices create settle ");
    ck_assert(db.settled_success);
    ck_assert_str_eq(db.created_with, db.account.credential_hash);
    http_response_init(&res, header_mem, sizeof(header_mem), body_mem,
                       sizeof(body_mem));

    /* Set to another credential in between. */
    db.calls[0] = '\0';
    memset(&db.create, 0, sizeof(db.create));
    memset(&db.find, 0, sizeof(db.find));
    tell(&db.create, STORE_NONE);
    tell(&db.find, STORE_OK);
    tell(&db.find, STORE_NONE);
    h_login(&w);
    ck_answer(401, "AUTH_INVALID_CREDENTIALS",
              "attempt find choices create find ");
    ck_assert(cookie_untouched());
    ck_assert(!body_has("Token"));

    /* It never holds still. */
    db.calls[0] = '\0';
    memset(&db.find, 0, sizeof(db.find));
    h_login(&w);
    ck_answer(503, "AUTH_BUSY",
              "attempt find choices create find choices create find "
              "choices create settle ");
    ck_assert(!db.settled_success);
}

/* A login that was not decided is given back, and may come again. */
TEST (test_login_without_memory_is_no_failure) {
    snprintf(db.account.credential_hash, sizeof(db.account.credential_hash),
             "$argon2id$v=19$m=262144,t=1,p=1$AAAAAAAAAAAAAAAAAAAAAA$"
             "AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    send_login("one@demo.test", "right");
    if (!memory_limit(64)) {
        return;
    }
    h_login(&w);
    ck_answer(503, "AUTH_BUSY", "attempt find settle ");
    ck_assert(!db.settled_success);
    ck_assert_ptr_nonnull(strstr(headers(), "Retry-After: 1\r\n"));

    memory_limit(0);
    db.calls[0] = '\0';
    h_login(&w);
    ck_answer(401, "AUTH_INVALID_CREDENTIALS", "attempt find ");
}

/* A login that cannot be hashed does not use the database. */
TEST (test_login_without_a_place) {
    lent.none = true;
    send_login("one@demo.test", "right");
    h_login(&w);
    ck_answer(503, "AUTH_BUSY", "");

    lent.none = false;
    h_login(&w);
    ck_answer(200, "AUTH_LOGIN_SUCCESS", "attempt find choices create settle ");
}

TEST (test_login_database_down) {
    tell(&db.create, STORE_UNKNOWN);
    send_login("one@demo.test", "right");
    h_login(&w);
    ck_answer(503, "DATABASE_UNAVAILABLE",
              "attempt find choices create settle ");
    ck_assert(!db.settled_success);
    ck_assert(cookie_untouched());
    ck_assert(!body_has("Token"));

    db.calls[0] = '\0';
    tell(&db.attempt, STORE_UNAVAILABLE);
    h_login(&w);
    ck_answer(503, "DATABASE_UNAVAILABLE", "attempt ");

    db.calls[0] = '\0';
    memset(&db.attempt, 0, sizeof(db.attempt));
    tell(&db.find, STORE_UNAVAILABLE);
    h_login(&w);
    ck_answer(503, "DATABASE_UNAVAILABLE", "attempt find settle ");
    ck_assert(!db.settled_success);
}

static void refused_login(const char *body)
{
    send_body(body);
    h_login(&w);
    ck_assert_msg(strcmp(res.code, "REQUEST_INVALID") == 0 &&
                      db.calls[0] == '\0',
                  "%s: %s, calls %s", body, res.code, db.calls);
    ck_assert_int_eq(res.status, 400);
}

TEST (test_login_bodies) {
    refused_login("");
    refused_login("[]");
    refused_login("\"a\"");
    refused_login("{\"account\":\"a\"}");
    refused_login("{\"credential\":\"a\"}");
    refused_login("{\"account\":1,\"credential\":\"a\"}");
    refused_login("{\"account\":\"a\",\"credential\":null}");
    refused_login("{\"account\":\" \\t\\r\\n\",\"credential\":\"a\"}");
    refused_login("{\"account\":\"a\\tb\",\"credential\":\"a\"}");
    refused_login("{\"account\":\"a\\u0085b\",\"credential\":\"a\"}");
    refused_login("{\"account\":\"a\",\"credential\":\"\"}");
    refused_login("{\"account\":\"a\",\"account\":\"a\",\"credential\":\"b\"}");

    send_body("{\"account\":\" A\\u00c9 \\t\",\"credential\":\"right\","
              "\"more\":{}}");
    h_login(&w);
    ck_assert_int_eq(res.status, 200);
}

TEST (test_login_lengths) {
    static char name[330], secret[1030];

    memset(name, 'a', 320);
    memset(secret, 'b', 1024);
    send_login(name, secret);
    h_login(&w);
    ck_assert_int_eq(res.status, 401);

    name[320] = 'a';
    send_login(name, secret);
    h_login(&w);
    ck_assert_int_eq(res.status, 400);

    name[320] = '\0';
    secret[1024] = 'b';
    send_login(name, secret);
    h_login(&w);
    ck_assert_int_eq(res.status, 400);
}

TEST (test_login_type_comes_before_body) {
    send_body("{");
    req.content_type = PJ_STR("text/plain");
    h_login(&w);
    ck_answer(415, "MEDIA_TYPE_UNSUPPORTED", "");
    req.content_type = PJ_STR("application/json; charset=utf-8");
    h_login(&w);
    ck_answer(400, "REQUEST_INVALID", "");
}

int main(void)
{
    return run_tests("login");
}
