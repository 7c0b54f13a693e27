/* POST /api/auth/token: tokens for programs (RFC 6749 section 4.4) */

#include "auth/handlers.h"

#include "auth/client.h"
#include "auth/proof.h"
#include "auth/session.h"
#include "auth/token.h"
#include "base/form.h"
#include "base/log.h"
#include "base/uuid.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define TOKEN_BYTES 4096

/* -- answers -- */

/* Answers as RFC 6749 section 5.2 has it. */
static void refuse(struct worker *w, int status, const char *error,
                   const char *code, const char *description)
{
    struct http_response *res = w->res;
    pj_str_t id = w->req->request_id;
    struct jsonw json;

    buf_reset(&res->headers);
    buf_reset(&res->body);
    res->status = status;
    res->code = code;
    auth_json(w, &json);
    jsonw_cstr(&json, "error", error);
    jsonw_cstr(&json, "error_description", description);
    jsonw_cstr(&json, "code", code);
    jsonw_string(&json, "requestId", id.data, id.len);
    jsonw_object_end(&json);
}

#define invalid_request(w, description)                                        \
    refuse(w, 400, "invalid_request", "REQUEST_INVALID", description)

static void add_retry_after(struct worker *w, int64_t seconds)
{
    char text[24];

    snprintf(text, sizeof(text), "%" PRId64, seconds);
    http_header(w->res, "Retry-After", text);
}

static void unavailable(struct worker *w)
{
    refuse(w, 503, "temporarily_unavailable", "DATABASE_UNAVAILABLE",
           "The database does not answer; try again.");
    add_retry_after(w, auth_retry_after_s(w->cfg));
}

static void failed(struct worker *w, const char *what)
{
    log_event(LOG_ERROR_, "auth.failed", what, NULL, 0);
    refuse(w, 500, "server_error", "INTERNAL_ERROR",
           "The request could not be completed.");
}

static void limited(struct worker *w, int64_t retry_after_s)
{
    refuse(w, 429, "temporarily_unavailable", "AUTH_TOO_MANY_ATTEMPTS",
           "Too many failed attempts; try again later.");
    add_retry_after(w, retry_after_s);
    auth_audit(w, "auth.token.limited", NULL, NULL);
}

static void invalid_client(struct worker *w, const struct client_proof *proof,
                           const char *account_id)
{
    refuse(w, 401, "invalid_client", "AUTH_CLIENT_INVALID",
           "The client is not known, or its secret or assertion is not right.");
    http_header(w->res, "WWW-Authenticate",
                proof->basic ? "Basic realm=\"platform\", charset=\"UTF-8\""
                             : "Login realm=\"platform\"");
    auth_audit(w, "auth.token.failed", account_id, NULL);
}

/* -- the request -- */

static bool read_form(struct worker *w, struct form *form)
{
    const char *fault;

    if (!http_is_media(w->req->content_type,
                       "application/x-www-form-urlencoded")) {
        invalid_request(
            w, "The body must be application/x-www-form-urlencoded in UTF-8.");
        return false;
    }
    fault = form_parse(form, &w->arena, w->req->body);
    if (fault != NULL) {
        char text[96];

        snprintf(text, sizeof(text), "The form %s.", fault);
        invalid_request(w, text);
        return false;
    }
    if (form_get(form, "grant_type").len == 0) {
        invalid_request(w, "The parameter grant_type is missing.");
        return false;
    }
    if (!pj_str_eq(form_get(form, "grant_type"),
                   PJ_STR("client_credentials"))) {
        refuse(w, 400, "unsupported_grant_type", "AUTH_GRANT_TYPE_UNSUPPORTED",
               "The grant_type must be client_credentials.");
        return false;
    }
    return true;
}

/* Binds the token to the key of the proof, if there is one (RFC 9449 section
 * 5). */
static bool offer_proof(struct worker *w)
{
    pj_str_t fault;
    pj_err_t err;

    if (w->cfg->dpop == DPOP_OFF || w->req->dpop.data == NULL) {
        return true;
    }
    err = proof_verify(w->cfg, w->req, &w->arena, w->now_s, (pj_str_t){NULL, 0},
                       NULL, w->jkt, &fault);
    if (err == PJ_ERR_PROOF || err == PJ_ERR_PROOF_TIME) {
        refuse(w, 400, "invalid_dpop_proof", "AUTH_PROOF_INVALID",
               "The DPoP proof is not valid.");
    } else if (err) {
        failed(w, "cannot verify a proof");
    }
    return !err;
}

/* Counts the failure; the answer is the same whether or not the client exists.
 */
static void fail(struct worker *w, const struct client_proof *proof,
                 const struct attempt *attempt, const struct client *client)
{
    int64_t retry_after_s = 1;
    enum store_result result = STORE_OK;
    const char *id = client->account.account_id;

    if (w->cfg->max_failures > 0) {
        result = store_attempt_begin(&w->store, attempt, w->cfg->max_failures,
                                     w->cfg->failure_window_s, &retry_after_s);
    }
    if (result == STORE_OK) {
        invalid_client(w, proof, id[0] != '\0' ? id : NULL);
    } else if (result == STORE_NONE) {
        limited(w, retry_after_s);
    } else {
        unavailable(w);
    }
}

/* -- the scope -- */

/* Returns the next word of *rest, separated by spaces; empty at the end. */
static pj_str_t next_word(pj_str_t *rest)
{
    pj_str_t word;
    size_t n = 0;

    while (rest->len > 0 && rest->data[0] == ' ') {
        rest->data++;
        rest->len--;
    }
    while (n < rest->len && rest->data[n] != ' ') {
        n++;
    }
    word = (pj_str_t){rest->data, n};
    rest->data += n;
    rest->len -= n;
    return word;
}

static bool contains(pj_str_t words, pj_str_t word)
{
    pj_str_t next;

    while ((next = next_word(&words)).len > 0) {
        if (pj_str_eq(next, word)) {
            return true;
        }
    }
    return false;
}

/* Grants the requested scopes, each once, or all allowed scopes if none is
 * requested.  False if a scope is not allowed. */
static bool grant(struct worker *w, pj_str_t requested, const char *allowed,
                  const char **granted)
{
    size_t cap = strlen(allowed) + 1;
    char *mem = pj_arena_alloc(&w->arena, cap);
    struct buf out;
    pj_str_t word;

    *granted = allowed;
    if (requested.len == 0) {
        return true;
    }
    if (mem == NULL) {
        return false;
    }
    buf_init(&out, mem, cap - 1);
    while ((word = next_word(&requested)).len > 0) {
        if (!contains(pj_str(allowed), word)) {
            return false;
        }
        if (!contains((pj_str_t){(unsigned char *) mem, out.len}, word)) {
            buf_addz(&out, out.len > 0 ? " " : "");
            buf_add(&out, word.data, word.len);
        }
    }
    mem[out.len] = '\0';
    *granted = mem;
    return true;
}

/* -- the token -- */

static void issue(struct worker *w, const struct client *client,
                  const char *scope)
{
    const struct account *account = &client->account;
    int64_t ttl_s = w->cfg->system_ttl_s;
    char mem[TOKEN_BYTES];
    struct session s = {0};
    struct token token = {.kind = PJ_TOKEN_SYSTEM,
                          .session = &s,
                          .client_scope = scope,
                          .jkt = w->jkt,
                          .exp = w->now_s + ttl_s};
    struct jsonw json;
    struct buf out;

    memcpy(s.account_id, account->account_id, sizeof(s.account_id));
    memcpy(s.account_type, account->account_type, sizeof(s.account_type));
    token.iat = session_issued_at(w->now_s, &account->clock);
    buf_init(&out, mem, sizeof(mem));
    if (!uuid_generate(s.session_id) ||
        !token_issue(w->cfg, w->signer, &token, &out)) {
        failed(w, "cannot sign a system token");
        return;
    }
    auth_json(w, &json);
    jsonw_string(&json, "access_token", mem, out.len);
    jsonw_cstr(&json, "token_type", w->jkt[0] != '\0' ? "DPoP" : "Bearer");
    jsonw_int(&json, "expires_in", ttl_s);
    if (scope[0] != '\0') {
        jsonw_cstr(&json, "scope", scope);
    }
    jsonw_object_end(&json);
    auth_set_ids(w, s.account_id, s.session_id);
    auth_audit(w, "auth.token.issued", s.account_id, s.session_id);
}

static enum metrics_counter outcome_of(const struct http_response *res)
{
    return res->status == 200   ? METRICS_TOKEN_SUCCEEDED
           : res->status == 401 ? METRICS_TOKEN_FAILED
           : res->status == 429 ? METRICS_TOKEN_LIMITED
           : res->status == 503 ? METRICS_TOKEN_UNAVAILABLE
           : res->status == 500 ? METRICS_TOKEN_ERROR
                                : METRICS_TOKEN_INVALID;
}

static void answer(struct worker *w)
{
    struct client_proof proof;
    struct attempt attempt;
    struct client client = {.key = "", .scopes = ""};
    struct form form;
    const char *fault, *scope;

    if (!read_form(w, &form)) {
        return;
    }
    fault = client_read(w, &form, &proof);
    if (fault != NULL) {
        invalid_request(w, fault);
        return;
    }
    if (!offer_proof(w)) {
        return;
    }
    switch (client_check(w, &proof, &attempt, &client)) {
    case CLIENT_OK:
        if (grant(w, form_get(&form, "scope"), client.scopes, &scope)) {
            issue(w, &client, scope);
        } else {
            refuse(w, 400, "invalid_scope", "AUTH_SCOPE_INVALID",
                   "A scope is unknown, or not allowed for this client.");
        }
        break;
    case CLIENT_WRONG:
        fail(w, &proof, &attempt, &client);
        break;
    case CLIENT_LIMITED:
        limited(w, client.retry_after_s);
        break;
    default:
        unavailable(w);
    }
}

void h_token(struct worker *w)
{
    if (w->cfg->system_api == SYSTEM_API_OFF) {
        (void) auth_refuse(w, 404, "RESOURCE_NOT_FOUND",
                           "Nothing is served at this path.");
        return;
    }
    answer(w);
    metrics_count(outcome_of(w->res));
}
