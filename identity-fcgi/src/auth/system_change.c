/* Changes by programs: transactions, and repeats by an idempotency key. */

#include "auth/system_change.h"

#include "people/people_session.h"
#include "store/store_repeat.h"
#include "store/store_transaction.h"

#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#define TRIES 3 /* of a transaction, after deadlocks */
#define KEY_MAX 255

/* -- repeats -- */

static bool digest(const pj_str_t *parts, size_t count,
                   unsigned char out[STORE_DIGEST])
{
    EVP_MD_CTX *md = EVP_MD_CTX_new();
    bool ok = md != NULL && EVP_DigestInit_ex(md, EVP_sha256(), NULL) == 1;

    for (size_t i = 0; ok && i < count; i++) {
        uint64_t len = parts[i].len; /* so that all calls differ */

        ok = EVP_DigestUpdate(md, &len, sizeof(len)) == 1 &&
             EVP_DigestUpdate(md, parts[i].data, parts[i].len) == 1;
    }
    ok = ok && EVP_DigestFinal_ex(md, out, NULL) == 1;
    EVP_MD_CTX_free(md);
    return ok;
}

static bool is_key(pj_str_t key)
{
    if (key.len > KEY_MAX) {
        return false;
    }
    for (size_t i = 0; i < key.len; i++) {
        if (key.data[i] <= ' ' || key.data[i] > '~') {
            return false;
        }
    }
    return true;
}

/* Reads the call's key into *repeat, if it has one. */
static bool read_key(struct worker *w, struct store_repeat *repeat, bool *has)
{
    const struct http_request *req = w->req;
    const pj_str_t call[] = {req->method, req->path, req->query, req->body};

    *has =
        req->idempotency_key.len > 0 && pj_str_eq(req->method, PJ_STR("POST"));
    if (!*has) {
        return true;
    }
    if (!is_key(req->idempotency_key)) {
        return auth_invalid(w,
                            (struct fault){.code = FAULT_MALFORMED,
                                           .header = "Idempotency-Key"},
                            "The header Idempotency-Key must be 1 to 255 "
                            "visible ASCII characters.");
    }
    repeat->client_id = w->res->account_id;
    return (digest(&req->idempotency_key, 1, repeat->key) &&
            digest(call, sizeof(call) / sizeof(call[0]), repeat->call)) ||
           auth_failed(w, "a digest failed");
}

/* Answers as the first call was answered. */
static bool replay(struct worker *w, const struct store_repeat *repeat)
{
    if (repeat->erased) {
        return auth_refuse(w, 404, "RESOURCE_NOT_FOUND",
                           "What this call made was deleted.");
    }
    w->res->code = "SYSTEM_SUCCESS";
    w->res->status = (int) repeat->status;
    http_header(w->res, "Content-Type", "application/json");
    http_header(w->res, "Cache-Control", "no-store");
    http_header(w->res, "Idempotent-Replayed", "true");
    if (repeat->location != NULL) {
        http_header(w->res, "Location", repeat->location);
    }
    buf_addz(&w->res->body, repeat->body);
    return false;
}

/* Returns true if the call is to be carried out.  The database's failures are
 * answered after the transaction has ended: only then is their cause known. */
static bool claim(struct worker *w, struct store_repeat *repeat,
                  enum people_outcome *outcome)
{
    switch (store_repeat_claim(&w->store, &w->arena, repeat)) {
    case STORE_REPEAT_FIRST:
        return true;
    case STORE_REPEAT_KEPT:
        return (repeat->body == NULL && !repeat->erased) || replay(w, repeat);
    case STORE_REPEAT_OTHER:
        return auth_refuse(w, 422, "REQUEST_IDEMPOTENCY_MISMATCH",
                           "This Idempotency-Key was used for another call.");
    case STORE_REPEAT_RUNNING:
        return auth_refuse(w, 409, "REQUEST_IN_PROGRESS",
                           "The first call with this Idempotency-Key is still "
                           "being carried out.");
    default:
        *outcome = PEOPLE_FAILED;
        return false;
    }
}

/* Keeps the answer that is in w->res. */
static bool keep(struct worker *w, bool secret, struct store_repeat *repeat,
                 enum people_outcome *outcome)
{
    struct buf *body = &w->res->body;

    buf_addc(body, '\0');
    if (body->overflow) {
        return auth_failed(w, "the answer does not fit its buffer");
    }
    body->len--;
    repeat->status = w->res->status;
    repeat->location = w->location[0] != '\0' ? w->location : NULL;
    repeat->account_id = w->subject_id;
    repeat->body = secret ? NULL : body->data;
    if (store_repeat_keep(&w->store, repeat) != STORE_OK) {
        *outcome = PEOPLE_FAILED;
    }
    return *outcome == PEOPLE_DONE;
}

/* -- the transaction -- */

struct call {
    system_work_fn *work;
    system_answer_fn *answer;    /* or NULL */
    struct store_repeat *repeat; /* NULL without a key */
    bool secret;
};

static bool commit(struct worker *w)
{
    switch (store_transaction_commit(&w->store)) {
    case STORE_OK:
        return true;
    case STORE_UNKNOWN:
        return auth_refuse(w, 503, "DATABASE_UNAVAILABLE",
                           "The database did not say whether the change was "
                           "made: look, or repeat the call with its "
                           "Idempotency-Key.");
    default:
        return auth_database_unavailable(w);
    }
}

/* Carries out one attempt.  *again is set if another may succeed. */
static bool attempt(struct worker *w, const struct call *c, void *state,
                    bool *again)
{
    struct people p = {.store = &w->store, .arena = &w->arena, .may = w->may};
    enum people_outcome outcome = PEOPLE_DONE;
    bool ok = c->repeat == NULL || claim(w, c->repeat, &outcome);
    bool answered = false;

    if (ok) {
        outcome = c->work(&p, state);
        ok = outcome == PEOPLE_DONE;
    }
    if (ok && c->answer != NULL) {
        c->answer(w, state);
        answered = true;
        ok = c->repeat == NULL || keep(w, c->secret, c->repeat, &outcome);
    }
    if (ok) {
        return commit(w);
    }
    *again = store_transaction_rollback(&w->store) &&
             outcome == PEOPLE_FAILED && !answered;
    return outcome != PEOPLE_DONE && !*again && system_refuse(w, &p, outcome);
}

static bool run(struct worker *w, const struct call *c, void *state)
{
    bool again = true, ok = false;

    for (int i = 0; i < TRIES && again; i++) {
        again = false;
        if (!store_transaction_begin(&w->store)) {
            return auth_database_unavailable(w);
        }
        ok = attempt(w, c, state, &again);
    }
    return ok || (again && auth_database_unavailable(w));
}

bool system_change(struct worker *w, bool secret, system_work_fn *work,
                   system_answer_fn *answer, void *state)
{
    struct store_repeat repeat = {.status = 0};
    struct call call = {work, answer, &repeat, secret};
    bool has;

    if (!read_key(w, &repeat, &has) || !auth_faultless(w)) {
        return false;
    }
    if (!has) {
        call.repeat = NULL;
    }
    return run(w, &call, state);
}

bool system_change_more(struct worker *w, system_work_fn *work, void *state)
{
    return run(w, &(struct call){work, NULL, NULL, false}, state);
}

bool system_change_mark(struct worker *w, const char *account_id,
                        system_answer_fn *answer, const void *state)
{
    struct session_mark mark = {
        .from = account_id, .to = account_id, .more = true};
    bool ok = true;

    while (ok && mark.more) {
        ok = system_change_more(w, people_session_mark, &mark);
    }
    if (!ok && answer != NULL) {
        buf_reset(&w->res->headers);
        buf_reset(&w->res->body);
        w->res->status = 200;
        answer(w, state);
    }
    return ok || answer != NULL;
}
