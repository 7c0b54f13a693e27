/* A scripted store.  The linker uses these functions instead of the real
 * store. */

#ifndef FAKE_STORE_H_INCLUDED
#define FAKE_STORE_H_INCLUDED

#include "base/parse.h"
#include "store/store.h"
#include "store/store_session.h"

#include <check.h>
#include <stdio.h>
#include <string.h>

/* A fake uses few of its parameters. */
#pragma GCC diagnostic ignored "-Wunused-parameter"

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

#define MAX_TURNS 16

/* Results by turn; the last one repeats. */
struct script {
    enum store_result results[MAX_TURNS];
    int count;
    int turn;
};

static struct {
    char calls[256]; /* names of operations, each followed by a blank */
    struct account account;
    struct script find, attempt, read, rotate, rotated, retry, repeat, select,
        revoke, create, limit, choices, rehash, ping, revocations, own, end,
        account_read, change, describe;
    struct retry last;                    /* the rotation that retry finds */
    struct session_view views[MAX_TURNS]; /* what read gives, by turn */
    int view_count;
    bool idle_reads; /* a read does nothing meanwhile */
    bool moved;      /* something came between reading and rotating */
    bool changed;    /* the credential, though the answer was lost */
    char rotated_to[STORE_UUID];
    int64_t rotated_exp, grace_s;
    bool cleared, remembered, elsewhere, settled_success;
    struct session created;
    char created_with[256], rehashed_to[256];
    char revoked[512];
    size_t revoked_count;
    size_t branch_count;
    int version;
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

enum store_result store_account_find(struct store *st, pj_str_t name,
                                     struct account *out)
{
    called("find");
    *out = db.account;
    out->clock.now_us = NOW * INT64_C(1000000);
    return next(&db.find);
}

enum store_result store_account_rehash(struct store *st, const char *id,
                                       const char *from, const char *to)
{
    called("rehash");
    snprintf(db.rehashed_to, sizeof(db.rehashed_to), "%s", to);
    return next(&db.rehash);
}

enum store_result store_attempt_begin(struct store *st,
                                      const struct attempt *attempt,
                                      int max_failures, int64_t window_s,
                                      int64_t *retry_after_s)
{
    called("attempt");
    *retry_after_s = 77;
    return next(&db.attempt);
}

enum store_result store_attempt_settle(struct store *st,
                                       const struct attempt *attempt,
                                       bool success)
{
    called("settle");
    db.settled_success = success;
    return STORE_OK;
}

enum store_result store_session_choices(struct store *st, pj_arena_t *arena,
                                        const char *account_id,
                                        struct session_view *out)
{
    called("choices");
    memset(out, 0, sizeof(*out));
    if (db.branch_count == 1) {
        out->selectable = true;
        out->scope = one_scope;
    } else {
        out->branches = (struct branch_list){branch_items, db.branch_count};
    }
    return next(&db.choices);
}

enum store_result store_session_create(struct store *st,
                                       const struct session *s,
                                       const char *credential_hash)
{
    called("create");
    db.created = *s;
    snprintf(db.created_with, sizeof(db.created_with), "%s", credential_hash);
    return next(&db.create);
}

enum store_result store_session_limit(struct store *st, const struct session *s,
                                      int most, struct session_refs *done)
{
    ck_assert_str_eq(s->session_id, db.created.session_id);
    ck_assert_int_eq(most, 2);
    called("limit");
    memset(done, 0, sizeof(*done));
    done->count = db.limit.results[0] == STORE_OK;
    return next(&db.limit);
}

enum store_result store_session_read(struct store *st, pj_arena_t *arena,
                                     pj_str_t session_id,
                                     const pj_str_t *branch_id, bool list,
                                     struct meanwhile *meanwhile,
                                     struct session_view *out)
{
    int turn = db.read.turn;

    called("read");
    if (!db.idle_reads) {
        meanwhile_run(meanwhile);
    }
    *out = db.views[turn < db.view_count ? turn : db.view_count - 1];
    out->session.clock.now_us = NOW * INT64_C(1000000);
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

    return !db.moved && text_is(to->token->jti, s->jti) &&
           text_is(to->token->account_id, s->account_id) && s->active &&
           s->account_enabled && s->expires_at_s > to->now_s &&
           s->created_at_s >= to->opened_at_s &&
           (s->active_branch_id[0] == '\0' || v->selectable);
}

/* A read that may rotate; it uses the results and views of reads. */
enum store_result store_session_refresh(struct store *st, pj_arena_t *arena,
                                        const struct rotation *to, bool list,
                                        struct meanwhile *meanwhile,
                                        struct session_view *out, bool *rotated)
{
    int turn = db.read.turn;
    enum store_result result = next(&db.read);

    called("refresh");
    if (!db.idle_reads) {
        meanwhile_run(meanwhile);
    }
    *out = db.views[turn < db.view_count ? turn : db.view_count - 1];
    out->session.clock.now_us = NOW * INT64_C(1000000);
    *rotated = result != STORE_UNAVAILABLE && would_rotate(out, to);
    if (*rotated) {
        note_rotation(to->new_jti, to->expires_at_s, false, to->remember);
    }
    return result;
}

enum store_result store_session_rotate(struct store *st,
                                       const struct session *old,
                                       const struct rotation *to,
                                       bool clear_scope)
{
    if (strcmp(old->jti, db.rotated_to) == 0 &&
        strcmp(to->new_jti, db.rotated_to) != 0) {
        called("back");
        ck_assert_str_eq(to->new_jti, JTI);
        ck_assert(!clear_scope && !to->remember && to->retry_window_s == 0);
        return next(&db.rotate);
    }
    called("rotate");
    note_rotation(to->new_jti, to->expires_at_s, clear_scope, to->remember);
    return next(&db.rotate);
}

enum store_result store_session_retry(struct store *st,
                                      const pj_claims_t *token,
                                      int64_t window_s, struct retry *out)
{
    ck_assert(text_is(token->session_id, SESSION));
    called("retry");
    *out = db.last;
    if (db.last.jti[0] == '\0') {
        return STORE_NONE; /* none was made */
    }
    return next(&db.retry);
}

enum store_result store_session_repeat(struct store *st,
                                       const struct session *s, const char *jti,
                                       bool elsewhere, bool clear_scope)
{
    ck_assert_str_eq(jti, db.last.jti[0] ? db.last.jti : db.rotated_to);
    called("repeat");
    db.elsewhere = elsewhere;
    db.cleared = clear_scope;
    return next(&db.repeat);
}

enum store_result store_session_remembered(struct store *st,
                                           const char *session_id, pj_str_t jti,
                                           int64_t within_s)
{
    ck_assert_int_eq(within_s, db.grace_s != 0 ? db.grace_s : 60);
    called("rotated");
    return next(&db.rotated);
}

enum store_result store_session_step_up(struct store *st,
                                        const struct session *s)
{
    return STORE_UNAVAILABLE; /* tests of it have a database */
}

enum store_result store_session_select(struct store *st, const char *session_id,
                                       const struct scope *scope)
{
    called("select");
    return next(&db.select);
}

enum store_result store_audit_observe(struct store *st, const char *event,
                                      const char *session_id)
{
    (void) st;
    (void) event;
    (void) session_id;
    return STORE_OK;
}

enum store_result store_credential_reset(struct store *, pj_str_t,
                                         const unsigned char *, const char *,
                                         char *)
{
    return STORE_UNAVAILABLE; /* t/id_reset_credential.t has the rest */
}

enum store_result store_session_revoke(struct store *st, const pj_str_t *ids,
                                       size_t count, struct session_refs *done)
{
    enum store_result result = next(&db.revoke);

    called("revoke");
    ck_assert_uint_le(count, STORE_MAX_REVOKE);
    db.revoked_count = count;
    db.revoked[0] = '\0';
    for (size_t i = 0; i < count; i++) {
        size_t len = strlen(db.revoked);

        snprintf(db.revoked + len, sizeof(db.revoked) - len, "%.*s ",
                 (int) ids[i].len, (const char *) ids[i].data);
        snprintf(done->items[i].session_id, STORE_UUID, "%.*s",
                 (int) ids[i].len, (const char *) ids[i].data);
        snprintf(done->items[i].account_id, STORE_UUID, ACCOUNT);
    }
    done->count = result == STORE_OK ? count : 0;
    return result;
}

enum store_result store_session_describe(struct store *st, pj_arena_t *arena,
                                         pj_str_t session_id,
                                         pj_str_t branch_id,
                                         struct session_view *out,
                                         struct session_names *names)
{
    (void) st;
    (void) arena;
    ck_assert(pj_str_eq(session_id, PJ_STR(SESSION)));
    called("describe");
    *out = db.views[0];
    out->selectable = false;
    *names = branch_id.len > 0
                 ? (struct session_names){"somebody", "Corner Shop",
                                          "Main Street", "2023-11-14T22:13:20Z"}
                 : (struct session_names){"somebody", "", "",
                                          "2023-11-14T22:13:20Z"};
    return next(&db.describe);
}

enum store_result store_sessions_list(struct store *st, pj_arena_t *arena,
                                      const struct session *current,
                                      int64_t now_s, int64_t opened_at_s,
                                      int64_t expires_at_s,
                                      struct store_list *out)
{
    called("own");
    *out = (struct store_list){NULL, 0, false};
    return next(&db.own);
}

enum store_result store_sessions_end(struct store *st, const char *account_id,
                                     const char *except, int64_t *ended)
{
    ck_assert_str_eq(account_id, ACCOUNT);
    called("end");
    *ended += 3;
    return next(&db.end);
}

enum store_result store_account_read(struct store *st, const char *account_id,
                                     char *name, struct account *out)
{
    ck_assert_str_eq(account_id, ACCOUNT);
    called("account");
    snprintf(name, ACCOUNT_NAME_MAX + 1, "somebody");
    *out = db.account;
    if (db.changed && db.rehashed_to[0] != '\0') {
        snprintf(out->credential_hash, sizeof(out->credential_hash), "%s",
                 db.rehashed_to);
    }
    return next(&db.account_read);
}

enum store_result store_credential_change(struct store *st,
                                          const struct account *account,
                                          const char *new_hash,
                                          const char *except, int64_t *ended)
{
    called("change");
    snprintf(db.rehashed_to, sizeof(db.rehashed_to), "%s", new_hash);
    *ended += 2;
    return next(&db.change);
}

enum store_result store_revocations(struct store *st, pj_arena_t *arena,
                                    const char *cursor, struct revocations *out)
{
    static const char *items[] = {"{\"id\":\"" SESSION "\"}",
                                  "{\"subject\":\"" ACCOUNT "\"}"};

    called("revocations");
    snprintf(db.revoked, sizeof(db.revoked), "%s", cursor);
    *out = (struct revocations){{items, 2, true}, "next", "1700000000.999999"};
    return next(&db.revocations);
}

enum store_result store_ping(struct store *st, int *schema_version)
{
    *schema_version = db.version;
    return next(&db.ping);
}

void store_use(const struct store *st, int *size, int *used, bool *refused)
{
    *size = *used = 0;
    *refused = false;
}

#endif
