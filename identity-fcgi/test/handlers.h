/*
 * For the tests of the auth handlers: a store that does as it is told, one
 * worker, one request, and tokens to send.
 */

#ifndef TEST_HANDLERS_H_INCLUDED
#define TEST_HANDLERS_H_INCLUDED

#include "auth/auth.h"
#include "auth/password.h"
#include "auth/token.h"
#include "fake_store.h"
#include "testing.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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
    ck_assert(keys_generate("test", pj_alg_find(PJ_STR("RS256")), &made));
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
    ck_assert_int_lt(db.view_count, MAX_TURNS);
    db.views[db.view_count++] = v;
}

static inline void setup(void)
{
    struct error err;

    memset(&cfg, 0, sizeof(cfg));
    cfg.jwt_issuer = strdup("http://issuer.test");
    cfg.jwt_key_id = strdup(made.kid);
    cfg.jwt_private_key_base64 = strdup(made.private_text);
    cfg.jwt_public_key_base64 = strdup(made.public_text);
    cfg.access_ttl_s = 900;
    cfg.retry_after_max_s = 60;
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

    keys = keys_load(&cfg, &err);
    ck_assert_msg(keys != NULL, "%s", err.text);
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
    w.req = &req;
    w.res = &res;
    w.keys = keys;
    w.signer = keys->signing;
    w.now_s = NOW;
    w.store.deadline_ms = monotonic_ms() + 400;
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

/* A token of the session that views[0] describes, issued ago_s ago. */
static inline char *issue(char kind, const char *session_id, const char *jti,
                          int64_t ago_s, int64_t ttl_s)
{
    struct session s = usable_session().session;
    const struct token token = {.kind = kind == 'r'   ? PJ_TOKEN_REFRESH
                                        : kind == 'a' ? PJ_TOKEN_ACCOUNT
                                                      : PJ_TOKEN_BRANCH,
                                .session = &s,
                                .scope = &one_scope,
                                .jti = kind == 'r' ? jti : NULL,
                                .iat = NOW - ago_s,
                                .exp = NOW - ago_s + ttl_s};
    char *mem = pj_arena_alloc(&scratch, 8192);
    struct buf out;

    ck_assert_ptr_nonnull(mem);
    buf_init(&out, mem, 8191);
    snprintf(s.session_id, STORE_UUID, "%s", session_id);
    ck_assert(token_issue(&cfg, keys->signing, &token, &out));
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

/* What the refresh token in the body says. */
static inline pj_claims_t answered_token(void)
{
    static const char before[] = "\"refreshToken\":\"";
    const char *at;
    pj_claims_t claims;
    pj_str_t token;

    memcpy(text, res.body.data, res.body.len);
    text[res.body.len] = '\0';
    at = strstr(text, before);
    ck_assert_ptr_nonnull(at);
    token.data = (const unsigned char *) at + strlen(before);
    token.len = strcspn(at + strlen(before), "\"");
    ck_assert_int_eq(token_verify(&cfg, keys, keys->signing, &scratch, token,
                                  NOW, TOKEN_CHECK_ALL, &claims),
                     PJ_OK);
    return claims;
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

#define ck_answer(want_status, want_code, want_calls)                          \
    do {                                                                       \
        ck_assert_str_eq(res.code, want_code);                                 \
        ck_assert_int_eq(res.status, want_status);                             \
        ck_assert(res.status != 401 ||                                         \
                  strstr(headers(), "WWW-Authenticate: ") != NULL);            \
        ck_assert_str_eq(db.calls, want_calls);                                \
    } while (0)

static inline void send_bearer(const char *token)
{
    req.authorization = join("Bearer ", token, "");
}

static inline void fill(TCase *t)
{
    tcase_add_unchecked_fixture(t, make_keys, NULL);
    tcase_add_checked_fixture(t, setup, teardown);
}

/* Runs each test with its own worker.  Returns the exit status. */
static inline int run_tests(const char *name)
{
    return run_case(name, fill);
}

#endif
