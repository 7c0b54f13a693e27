/*
 * For the tests of the auth handlers: a store that does as it is told, one
 * worker, one request, and tokens to send.
 */

#ifndef TEST_HANDLERS_H_INCLUDED
#define TEST_HANDLERS_H_INCLUDED

#include "auth/app.h"
#include "auth/password.h"
#include "auth/token.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define NOW 1700000000
#define ACCOUNT "11111111-1111-4111-8111-111111111111"
#define SESSION "22222222-2222-4222-8222-222222222222"
#define OTHER_SESSION "22222222-2222-4222-8222-222222222223"
#define JTI "33333333-3333-4333-8333-333333333333"
#define OTHER_JTI "33333333-3333-4333-8333-333333333334"
#define BRANCH "44444444-4444-4444-8444-444444444444"
#define WORKSPACE "55555555-5555-4555-8555-555555555555"
#define MEMBER "66666666-6666-4666-8666-666666666666"
#define TENANT "77777777-7777-4777-8777-777777777777"

/* -- a store that does as it is told -- */

#define MAX_TURNS 8

/* Results by turn; the last one repeats. */
struct script {
    enum store_result results[MAX_TURNS];
    int count;
    int turn;
};

static struct {
    char calls[256]; /* names of operations, each followed by a blank */
    struct account account;
    struct script find, attempt, read, rotate, rotated, select, revoke, create,
        limit, branches, scope, rehash;
    struct session_view views[MAX_TURNS]; /* what read gives, by turn */
    int view_count;
    bool idle_reads; /* a read does nothing meanwhile */
    bool moved;      /* something came between reading and rotating */
    char rotated_to[STORE_UUID];
    int64_t rotated_exp;
    bool cleared, remembered, settled_success;
    struct session created;
    char created_with[256], rehashed_to[256];
    char revoked[512];
    size_t branch_count;
} db;

static struct branch branch_items[3];
static const char *const branch_ids[] = {BRANCH};
static const char *const roles[] = {"CASHIER"};
static const struct scope one_scope = {WORKSPACE,  TENANT, MEMBER, BRANCH,
                                       branch_ids, 1,      roles,  1};

static inline void called(const char *name)
{
    size_t len = strlen(db.calls);

    snprintf(db.calls + len, sizeof(db.calls) - len, "%s ", name);
}

static inline enum store_result next(struct script *s)
{
    int turn = s->turn++;

    if (s->count == 0) {
        return STORE_OK;
    }
    return s->results[turn < s->count ? turn : s->count - 1];
}

static inline void tell(struct script *s, enum store_result result)
{
    s->results[s->count++] = result;
}

static inline enum store_result fake_find(struct store *st, pj_str_t name,
                                          const char *stand_in,
                                          struct account *out)
{
    (void) st;
    (void) name;
    ck_assert_uint_eq(strlen(stand_in), STORE_UUID - 1);
    called("find");
    *out = db.account;
    return next(&db.find);
}

static inline enum store_result fake_rehash(struct store *st, const char *id,
                                            const char *from, const char *to)
{
    (void) st;
    (void) id;
    (void) from;
    called("rehash");
    snprintf(db.rehashed_to, sizeof(db.rehashed_to), "%s", to);
    return next(&db.rehash);
}

static inline enum store_result
fake_attempt(struct store *st, const struct attempt *attempt, int max_failures,
             int64_t window_s, int64_t *retry_after_s)
{
    (void) st;
    (void) attempt;
    (void) max_failures;
    (void) window_s;
    called("attempt");
    *retry_after_s = 77;
    return next(&db.attempt);
}

static inline enum store_result
fake_settle(struct store *st, const struct attempt *attempt, bool success)
{
    (void) st;
    (void) attempt;
    called("settle");
    db.settled_success = success;
    return STORE_OK;
}

static inline enum store_result fake_branches(struct store *st,
                                              pj_arena_t *arena,
                                              const char *account_id,
                                              struct branch_list *out)
{
    (void) st;
    (void) arena;
    (void) account_id;
    called("branches");
    *out = (struct branch_list){branch_items, db.branch_count};
    return next(&db.branches);
}

static inline enum store_result fake_scope(struct store *st, pj_arena_t *arena,
                                           const char *account_id,
                                           const char *branch_id,
                                           struct scope *out)
{
    (void) st;
    (void) arena;
    (void) account_id;
    (void) branch_id;
    called("scope");
    *out = one_scope;
    return next(&db.scope);
}

static inline enum store_result fake_create(struct store *st,
                                            const struct session *s,
                                            const char *credential_hash)
{
    (void) st;
    called("create");
    db.created = *s;
    snprintf(db.created_with, sizeof(db.created_with), "%s", credential_hash);
    return next(&db.create);
}

static inline enum store_result fake_limit(struct store *st,
                                           const struct session *s, int most,
                                           struct session_ref *done,
                                           size_t *done_count)
{
    (void) st;
    ck_assert_str_eq(s->session_id, db.created.session_id);
    ck_assert_int_eq(most, 2);
    called("limit");
    *done_count = 0;
    if (db.limit.results[0] == STORE_OK) {
        memset(&done[0], 0, sizeof(done[0]));
        *done_count = 1;
    }
    return next(&db.limit);
}

static inline enum store_result fake_read(struct store *st, pj_arena_t *arena,
                                          pj_str_t session_id,
                                          const pj_str_t *branch_id, bool list,
                                          struct meanwhile *meanwhile,
                                          struct session_view *out)
{
    int turn = db.read.turn;

    (void) st;
    (void) arena;
    (void) session_id;
    (void) branch_id;
    (void) list;
    called("read");
    if (!db.idle_reads) {
        (void) meanwhile_run(meanwhile);
    }
    *out = db.views[turn < db.view_count ? turn : db.view_count - 1];
    if (strcmp(out->session.jti, "the new one") == 0) {
        memcpy(out->session.jti, db.rotated_to, STORE_UUID);
    }
    return next(&db.read);
}

static inline void note_rotation(const char *new_jti, int64_t expires_at_s,
                                 bool clear_scope, bool remember)
{
    if (db.rotated_to[0] != '\0') {
        ck_assert_str_eq(db.rotated_to, new_jti); /* at most one rotation */
    }
    snprintf(db.rotated_to, sizeof(db.rotated_to), "%s", new_jti);
    db.rotated_exp = expires_at_s;
    db.cleared = clear_scope;
    db.remembered = remember;
}

static inline bool text_is(pj_str_t s, const char *text)
{
    return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

/* As the statement has it. */
static inline bool would_rotate(const struct session_view *v,
                                const struct rotation *to)
{
    const struct session *s = &v->session;

    return !db.moved && text_is(to->jti, s->jti) &&
           text_is(to->account_id, s->account_id) && s->active &&
           s->account_enabled && s->expires_at_s > to->now_s &&
           s->created_at_s >= to->opened_at_s &&
           (s->active_branch_id[0] == '\0' || v->selectable);
}

/* A read that rotates; results and views are those of reads. */
static inline enum store_result
fake_refresh(struct store *st, pj_arena_t *arena, const struct rotation *to,
             bool list, struct meanwhile *meanwhile, struct session_view *out)
{
    int turn = db.read.turn;
    enum store_result result = next(&db.read);

    (void) st;
    (void) arena;
    (void) list;
    called("refresh");
    if (!db.idle_reads) {
        (void) meanwhile_run(meanwhile);
    }
    *out = db.views[turn < db.view_count ? turn : db.view_count - 1];
    if (result != STORE_UNAVAILABLE && would_rotate(out, to)) {
        out->rotated = true;
        note_rotation(to->new_jti, to->expires_at_s, false, to->remember);
    }
    return result;
}

static inline enum store_result
fake_rotate(struct store *st, const struct session *old, const char *new_jti,
            int64_t expires_at_s, bool clear_scope, bool remember)
{
    (void) st;
    if (strcmp(old->jti, db.rotated_to) == 0 &&
        strcmp(new_jti, db.rotated_to) != 0) {
        called("back");
        ck_assert_str_eq(new_jti, JTI);
        ck_assert(!clear_scope && !remember);
        return next(&db.rotate);
    }
    called("rotate");
    note_rotation(new_jti, expires_at_s, clear_scope, remember);
    return next(&db.rotate);
}

static inline enum store_result fake_rotated(struct store *st,
                                             const char *session_id,
                                             pj_str_t jti, int64_t within_s)
{
    (void) st;
    (void) session_id;
    (void) jti;
    ck_assert_int_eq(within_s, 60);
    called("rotated");
    return next(&db.rotated);
}

static inline enum store_result fake_select(struct store *st,
                                            const char *session_id,
                                            const struct scope *scope)
{
    (void) st;
    (void) session_id;
    (void) scope;
    called("select");
    return next(&db.select);
}

static inline enum store_result fake_revoke(struct store *st,
                                            const pj_str_t *ids, size_t count,
                                            struct session_ref *done,
                                            size_t *done_count)
{
    (void) st;
    called("revoke");
    db.revoked[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(db.revoked);

        snprintf(db.revoked + len, sizeof(db.revoked) - len, "%.*s ",
                 (int) ids[i].len, (const char *) ids[i].data);
        snprintf(done[i].session_id, STORE_UUID, "%.*s", (int) ids[i].len,
                 (const char *) ids[i].data);
        snprintf(done[i].account_id, STORE_UUID, ACCOUNT);
    }
    *done_count = count;
    return next(&db.revoke);
}

static const struct store_ops fake_ops = {
    .account_find = fake_find,
    .credential_rehash = fake_rehash,
    .attempt_begin = fake_attempt,
    .attempt_settle = fake_settle,
    .branches = fake_branches,
    .scope = fake_scope,
    .session_create = fake_create,
    .session_limit = fake_limit,
    .session_read = fake_read,
    .session_refresh = fake_refresh,
    .session_rotate = fake_rotate,
    .session_rotated = fake_rotated,
    .session_select = fake_select,
    .session_revoke = fake_revoke,
};

/* -- one worker, one request -- */

static inline int64_t monotonic_ms(void)
{
    struct timespec t;

    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t) t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static struct config cfg;
static struct worker w;
static struct http_request req;
static struct http_response res;
static struct keys *keys;
static unsigned char arena[1024 * 1024];
/* What tests make up and never free. */
static unsigned char scratch_mem[512 * 1024];
static pj_arena_t scratch;
static char header_mem[64 * 1024], body_mem[64 * 1024], text[64 * 1024];
static struct new_keys made;

static inline void make_keys(void)
{
    ck_assert(keys_generate("test", &made));
}

static inline struct session_view usable_session(void)
{
    struct session_view v = {0};

    snprintf(v.session.session_id, STORE_UUID, SESSION);
    snprintf(v.session.account_id, STORE_UUID, ACCOUNT);
    snprintf(v.session.account_type, sizeof(v.session.account_type),
             "CUSTOMER");
    snprintf(v.session.jti, STORE_UUID, JTI);
    v.session.account_enabled = true;
    v.session.active = true;
    v.session.created_at_s = NOW - 1000;
    v.session.expires_at_s = NOW + 1000;
    v.branches = (struct branch_list){branch_items, 2};
    return v;
}

static inline struct session_view scoped_session(void)
{
    struct session_view v = usable_session();

    snprintf(v.session.workspace_id, STORE_UUID, WORKSPACE);
    snprintf(v.session.member_id, STORE_UUID, MEMBER);
    snprintf(v.session.active_branch_id, STORE_UUID, BRANCH);
    v.selectable = true;
    v.scope = one_scope;
    return v;
}

static inline void view_is(struct session_view v)
{
    db.views[db.view_count++] = v;
}

static inline void setup(void)
{
    char err[256];

    memset(&cfg, 0, sizeof(cfg));
    cfg.jwt_issuer = strdup("http://issuer.test");
    cfg.jwt_key_id = strdup(made.kid);
    cfg.jwt_private_key_base64 = strdup(made.private_text);
    cfg.jwt_public_key_base64 = strdup(made.public_text);
    cfg.access_ttl_s = 900;
    cfg.refresh_ttl_s = 3600;
    cfg.cookie_name = strdup("rt");
    cfg.cookie_path = strdup("/api/auth");
    cfg.cookie_same_site = SAME_SITE_LAX;
    cfg.session_max_lifetime_s = 90000;
    cfg.max_failures = 10;
    cfg.failure_window_s = 900;
    cfg.hash_concurrency = 1;
    cfg.worker_threads = 2;
    cfg.argon2_memory_kib = 8;
    cfg.argon2_iterations = 1;
    ck_assert(password_setup(&cfg));

    keys = keys_load(&cfg, err, sizeof(err));
    ck_assert_msg(keys != NULL, "%s", err);
    memset(&db, 0, sizeof(db));
    for (int i = 0; i < 3; i++) {
        branch_items[i] =
            (struct branch){BRANCH, "Main Street", WORKSPACE, "Corner Shop"};
    }
    snprintf(db.account.account_id, STORE_UUID, ACCOUNT);
    snprintf(db.account.account_type, sizeof(db.account.account_type),
             "CUSTOMER");
    db.account.enabled = true;
    ck_assert(password_hash(PJ_STR("right"), 0, db.account.credential_hash));

    memset(&w, 0, sizeof(w));
    w.cfg = &cfg;
    w.store_ops = &fake_ops;
    w.keys = keys;
    w.signer = keys->signing;
    w.now_s = NOW;
    w.deadline_ms = monotonic_ms() + 400;
    pj_arena_init(&w.arena, arena, sizeof(arena));
    pj_arena_init(&scratch, scratch_mem, sizeof(scratch_mem));

    memset(&req, 0, sizeof(req));
    req.method = PJ_STR("POST");
    req.content_type = PJ_STR("application/json");
    req.host = PJ_STR("localhost:8081");
    req.scheme = PJ_STR("http");
    req.request_id = req.correlation_id = PJ_STR("id-1");
    req.remote_addr = PJ_STR("127.0.0.1");
    http_response_init(&res, header_mem, sizeof(header_mem), body_mem,
                       sizeof(body_mem));
}

static inline void teardown(void)
{
    keys_release(keys);
    config_free(&cfg);
}

static inline pj_str_t str(const char *s)
{
    return (pj_str_t){(const unsigned char *) s, strlen(s)};
}

/* A token of the session that views[0] describes, issued ago_s ago. */
static inline char *issue(char kind, const char *session_id, const char *jti,
                          int64_t ago_s, int64_t ttl_s)
{
    struct session s = usable_session().session;
    char *mem = pj_arena_alloc(&scratch, 8192);
    struct buf out;
    bool ok;

    ck_assert_ptr_nonnull(mem);
    buf_init(&out, mem, 8191);
    snprintf(s.session_id, STORE_UUID, "%s", session_id);
    if (kind == 'r') {
        ok = token_issue_refresh(&cfg, keys->signing, &s, jti, NOW - ago_s,
                                 NOW - ago_s + ttl_s, &out);
    } else if (kind == 'a') {
        ok = token_issue_account(&cfg, keys->signing, &s, NOW - ago_s,
                                 NOW - ago_s + ttl_s, &out);
    } else {
        ok = token_issue_branch(&cfg, keys->signing, &s, &one_scope,
                                NOW - ago_s, NOW - ago_s + ttl_s, &out);
    }
    ck_assert(ok);
    mem[out.len] = '\0';
    return mem;
}

static inline char *refresh_token(const char *jti)
{
    return issue('r', SESSION, jti, 10, 3600);
}

/* The three, one after the other. */
static inline pj_str_t join(const char *before, const char *value,
                            const char *after)
{
    size_t cap = strlen(before) + strlen(value) + strlen(after) + 1;
    char *out = pj_arena_alloc(&scratch, cap);

    ck_assert_ptr_nonnull(out);
    snprintf(out, cap, "%s%s%s", before, value, after);
    return str(out);
}

static inline void send_body(const char *json)
{
    req.body = str(json);
}

static inline void send_in_body(const char *token)
{
    req.body = join("{\"refreshToken\":\"", token, "\"}");
}

static inline void send_in_cookie(const char *token)
{
    req.cookie = join("rt=", token, "");
}

static inline const char *headers(void)
{
    snprintf(text, sizeof(text), "%.*s", (int) res.headers.len,
             res.headers.data);
    return text;
}

static inline bool body_has(const char *part)
{
    snprintf(text, sizeof(text), "%.*s", (int) res.body.len, res.body.data);
    return strstr(text, part) != NULL;
}

static inline bool cookie_cleared(void)
{
    return strstr(headers(), "Set-Cookie: rt=; ") != NULL &&
           strstr(headers(), "Max-Age=0;") != NULL;
}

static inline bool cookie_untouched(void)
{
    return strstr(headers(), "Set-Cookie") == NULL;
}

#define ck_answer(want_status, want_code, want_calls)                         \
    do {                                                                      \
        ck_assert_str_eq(res.code, want_code);                                \
        ck_assert_int_eq(res.status, want_status);                            \
        ck_assert(res.status != 401 ||                                        \
                  strstr(headers(), "WWW-Authenticate: ") != NULL);           \
        ck_assert_str_eq(db.calls, want_calls);                               \
    } while (0)

static inline void send_bearer(const char *token)
{
    req.authorization = join("Bearer ", token, "");
}

/* Runs every test with a worker of its own; what main() returns. */
static inline int run_tests(const char *name, const TTest *const *tests,
                            size_t count)
{
    Suite *suite = suite_create(name);
    TCase *tc = tcase_create(name);
    SRunner *runner = srunner_create(suite);
    int failed;

    tcase_add_unchecked_fixture(tc, make_keys, NULL);
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_set_timeout(tc, 60);
    for (size_t i = 0; i < count; i++) {
        tcase_add_test(tc, tests[i]);
    }
    suite_add_tcase(suite, tc);
    srunner_run_all(runner, CK_NORMAL);
    failed = srunner_ntests_failed(runner);
    srunner_free(runner);
    return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

#endif
