/* Functions that handlers share: refusals, callers, request bodies, answers. */

#include "auth/auth.h"

#include "auth/held.h"
#include "auth/password.h"
#include "auth/proof.h"
#include "auth/session.h"
#include "auth/token.h"
#include "base/log.h"
#include "store/store.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* A token with 200 branches is about 14 KiB, the rest less than 1 KiB. */
#define TOKEN_BUF_BYTES (TOKEN_MAX_BYTES + 4096)

/* -- refusals -- */

#define PLACE_US (1000000 / RETRIES_A_SECOND)
#define EXTENSION_MS 500

/* Refused clients get successive places in time, because clients that retry
 * after the same delay arrive together again.  This is the end of the last
 * place.  Threads may take the same place. */
static _Atomic int64_t last_place_us;

int64_t auth_retry_after_s(const struct config *cfg)
{
    int64_t now_us = metrics_now_us(), place_us = last_place_us, wait_s;

    place_us = (place_us > now_us ? place_us : now_us) + PLACE_US;
    wait_s = 1 + (place_us - now_us) / 1000000;
    if (wait_s > cfg->retry_after_max_s) {
        return 1 + now_us % cfg->retry_after_max_s; /* arbitrary */
    }
    last_place_us = place_us;
    return wait_s;
}

void auth_served(void)
{
    if (last_place_us > metrics_now_us()) {
        last_place_us -= PLACE_US;
    }
}

bool auth_refuse(struct worker *w, int status, const char *code,
                 const char *detail)
{
    char seconds[24];

    http_problem(w->res, w->req, status, code, detail,
                 status == 400 ? &w->faults : NULL);
    w->faults.count = 0;
    if (status == 401) {
        http_header(w->res, "WWW-Authenticate", "Login realm=\"platform\"");
    } else if (status == 503) {
        snprintf(seconds, sizeof(seconds), "%" PRId64,
                 auth_retry_after_s(w->cfg));
        http_header(w->res, "Retry-After", seconds);
    }
    return false;
}

/* Copies text, which may be NULL; "" if memory is short. */
static const char *copy(struct worker *w, const char *text)
{
    char *mem;
    size_t size;

    if (text == NULL) {
        return NULL;
    }
    size = strlen(text) + 1;
    mem = pj_arena_alloc(&w->arena, size);
    return mem != NULL ? memcpy(mem, text, size) : "";
}

bool auth_fault(struct worker *w, struct fault fault, const char *format, ...)
{
    struct faults *faults = &w->faults;
    va_list args;

    if (faults->count == 0) {
        va_start(args, format);
        vsnprintf(faults->detail, sizeof(faults->detail), format, args);
        va_end(args);
    }
    fault.pointer = copy(w, fault.pointer);
    fault.parameter = copy(w, fault.parameter);
    fault.header = copy(w, fault.header);
    fault_add(faults, fault);
    return false;
}

bool auth_faultless(struct worker *w)
{
    if (w->faults.no_memory) {
        return auth_failed(w, "the request needs too much memory");
    }
    return w->faults.count == 0 ||
           auth_refuse(w, 400, "REQUEST_INVALID", w->faults.detail);
}

/* An account counts as held until current waiters have timed out, and a second
 * longer. */
#define HELD_MS 1000

bool auth_database_unavailable(struct worker *w)
{
    if (w->store.locked) {
        held_add(pj_str(w->account), w->cfg->db_lock_timeout_ms + HELD_MS);
        return auth_busy(w);
    }
    return auth_refuse(w, 503, "DATABASE_UNAVAILABLE",
                       "The database does not answer; try again.");
}

bool auth_answered(struct worker *w, enum store_result result)
{
    return result == STORE_OK || result == STORE_NONE ||
           auth_database_unavailable(w);
}

void auth_extend(struct worker *w)
{
    int64_t least_ms = metrics_now_us() / 1000 + EXTENSION_MS;

    if (w->store.deadline_ms < least_ms) {
        w->store.deadline_ms = least_ms;
    }
}

bool auth_failed(struct worker *w, const char *what)
{
    log_event(LOG_ERROR_, "auth.failed", what, NULL, 0);
    return auth_refuse(w, 500, "INTERNAL_ERROR",
                       "The request could not be completed.");
}

/* -- callers -- */

bool auth_refuse_token(struct worker *w, const char *code, const char *detail)
{
    bool dpop;

    http_problem(w->res, w->req, 401, code, detail, NULL);
    http_header(w->res, "WWW-Authenticate",
                http_token(w->req->authorization, &dpop).data != NULL
                    ? "Bearer realm=\"platform\", error=\"invalid_token\""
                    : "Bearer realm=\"platform\"");
    return false;
}

/* RFC 9449 sections 5 and 7.1. */
static bool refuse_proof(struct worker *w, const char *code, const char *detail)
{
    http_problem(w->res, w->req, 401, code, detail, NULL);
    http_header(w->res, "WWW-Authenticate",
                "DPoP error=\"invalid_dpop_proof\", algs=\"" PJ_PROOF_ALGS
                "\"");
    return false;
}

static bool check_proof(struct worker *w, pj_str_t access_token,
                        const unsigned char *thumbprint)
{
    char detail[128];
    pj_str_t fault;
    pj_err_t err;

    if (w->req->dpop.data == NULL) {
        return refuse_proof(w, "AUTH_PROOF_REQUIRED",
                            "The request needs a DPoP proof.");
    }
    err = proof_verify(w->cfg, w->req, &w->arena, w->now_s, access_token,
                       thumbprint, w->jkt, &fault);
    if (err == PJ_ERR_PROOF || err == PJ_ERR_PROOF_TIME) {
        snprintf(detail, sizeof(detail), "The DPoP proof is not valid: %.*s.",
                 (int) fault.len, (const char *) fault.data);
        return refuse_proof(w, "AUTH_PROOF_INVALID", detail);
    }
    return !err || auth_failed(w, "cannot verify a proof");
}

bool auth_proof_offer(struct worker *w)
{
    return w->cfg->dpop == DPOP_OFF ||
           (w->cfg->dpop == DPOP_ACCEPT && w->req->dpop.data == NULL) ||
           check_proof(w, (pj_str_t){NULL, 0}, NULL);
}

bool auth_proof_read(struct worker *w)
{
    return w->jkt[0] != '\0' || w->req->dpop.data == NULL ||
           check_proof(w, (pj_str_t){NULL, 0}, NULL);
}

bool auth_proof_demand(struct worker *w, const pj_claims_t *claims,
                       pj_str_t access_token)
{
    unsigned char thumbprint[PJ_SHA256_BYTES];

    return !proof_is_bound(claims) ||
           (pj_claims_jkt(claims, thumbprint) &&
            check_proof(w, access_token, thumbprint));
}

/* Limits held accounts to half of the workers, so that the others serve the
 * remaining requests. */
bool auth_enter(struct worker *w, pj_str_t account_id)
{
    int max = w->cfg->worker_threads > 1 ? w->cfg->worker_threads / 2 : 1;

    if (w->account[0] != '\0' || account_id.len >= sizeof(w->account)) {
        return true;
    }
    memcpy(w->account, account_id.data, account_id.len);
    w->account[account_id.len] = '\0';
    return held_enter(account_id, max, &w->counted_held) || auth_busy(w);
}

void auth_leave(struct worker *w)
{
    if (w->counted_held) {
        held_leave();
    }
    w->counted_held = false;
    w->account[0] = '\0';
}

static bool accepts(enum auth_caller kind, pj_token_kind_t token)
{
    return kind == AUTH_CALLER_SYSTEM
               ? token == PJ_TOKEN_SYSTEM
               : token == PJ_TOKEN_ACCOUNT ||
                     (kind == AUTH_CALLER_ANY && token == PJ_TOKEN_BRANCH);
}

bool auth_caller(struct worker *w, enum auth_caller kind, pj_claims_t *claims)
{
    bool dpop;
    pj_str_t token = http_token(w->req->authorization, &dpop);

    if (token.len > 0 &&
        token_verify(w->cfg, w->keys, w->signer, &w->arena, token, w->now_s,
                     TOKEN_CHECK_ALL, claims) == PJ_OK &&
        accepts(kind, claims->kind)) {
        if (dpop == proof_is_bound(claims)) {
            return auth_proof_demand(w, claims, token) &&
                   auth_enter(w, claims->account_id);
        }
        if (!dpop) {
            return refuse_proof(w, "AUTH_PROOF_REQUIRED",
                                "The token is bound to a key: send it with the "
                                "scheme DPoP and a proof.");
        }
    }
    return kind != AUTH_CALLER_ACCOUNT
               ? auth_refuse_token(w, "AUTH_ACCESS_TOKEN_REQUIRED",
                                   "A valid access token is required.")
               : auth_refuse_token(w, "AUTH_ACCOUNT_TOKEN_REQUIRED",
                                   "A valid account access token is required.");
}

bool auth_caller_alive(struct worker *w, const pj_claims_t *claims,
                       enum store_result result, struct session_view *view)
{
    enum session_verdict verdict;

    if (!auth_answered(w, result)) {
        return false;
    }
    view->session.active &= result == STORE_OK;
    verdict = session_decide(view, claims->account_id, NULL, w->now_s,
                             w->cfg->session_max_lifetime_s);
    auth_set_ids(w, view->session.account_id, view->session.session_id);
    return verdict == SESSION_SCOPED || verdict == SESSION_NOT_SELECTABLE ||
           auth_refuse_token(w, AUTH_NOT_ACTIVE);
}

bool auth_caller_session(struct worker *w, const pj_claims_t *claims,
                         const pj_str_t *branch_id, struct session_view *view)
{
    return auth_caller_alive(w, claims,
                             store_session_read(&w->store, &w->arena,
                                                claims->session_id, branch_id,
                                                false, NULL, view),
                             view);
}

/* -- new credentials -- */

static bool refuse_credential(struct worker *w, struct fault fault,
                              const char *detail)
{
    (void) auth_fault(w, fault, "%s", detail);
    return auth_refuse(w, 400, "AUTH_CREDENTIAL_NOT_ALLOWED", detail);
}

bool auth_credential_allowed(struct worker *w, const char *pointer,
                             pj_str_t credential)
{
    char detail[128];

    switch (password_check_new(w->cfg, credential, w->store.deadline_ms)) {
    case PASSWORD_FITS:
        return true;
    case PASSWORD_SHORT:
        snprintf(detail, sizeof(detail),
                 "A new credential has at least %d characters.",
                 w->cfg->credential_min);
        return refuse_credential(
            w,
            (struct fault){.code = FAULT_TOO_SHORT,
                           .pointer = pointer,
                           .minimum = w->cfg->credential_min},
            detail);
    case PASSWORD_FORBIDDEN:
        return refuse_credential(
            w, (struct fault){.code = FAULT_NOT_ALLOWED, .pointer = pointer},
            "This new credential is among those that are "
            "forbidden; choose another.");
    case PASSWORD_LATER:
        return auth_busy(w);
    default:
        snprintf(detail, sizeof(detail),
                 "the list of PLATFORM_AUTH_CREDENTIAL_FORBIDDEN cannot be "
                 "read: %m");
        return auth_failed(w, detail);
    }
}

/* -- tokens -- */

/* Signs a token into the free part of the arena and allocates it. */
static bool sign(struct worker *w, const struct token *token, pj_str_t *out)
{
    size_t left = (size_t) (w->arena.end - w->arena.pos);
    struct buf text;

    buf_init(&text, w->arena.pos,
             left < TOKEN_BUF_BYTES ? left : TOKEN_BUF_BYTES);
    if (!token_issue(w->cfg, w->signer, token, &text)) {
        return false;
    }
    w->arena.pos += text.len;
    *out = (pj_str_t){(const unsigned char *) text.data, text.len};
    return true;
}

bool auth_sign_refresh(struct worker *w, const struct session *s,
                       const char *jti, int64_t iat, int64_t exp, pj_str_t *out)
{
    const struct token token = {.kind = PJ_TOKEN_REFRESH,
                                .session = s,
                                .jti = jti,
                                .jkt = w->jkt,
                                .iat = iat,
                                .exp = exp};

    return sign(w, &token, out);
}

static int64_t access_expiry(const struct worker *w, const struct session *s)
{
    return session_expiry(w->now_s, w->cfg->access_ttl_s, s->created_at_s,
                          w->cfg->session_max_lifetime_s);
}

bool auth_sign_access(struct worker *w, struct auth_answer *a)
{
    struct store_clock clock = a->view->session.clock;
    struct token token = {.kind = PJ_TOKEN_BRANCH,
                          .session = &a->view->session,
                          .scope = &a->view->scope,
                          .jkt = w->jkt,
                          .exp = access_expiry(w, &a->view->session)};

    if (a->as_of_us != 0) {
        clock.now_us = a->as_of_us;
    }
    token.iat = session_issued_at(w->now_s, &clock);
    if (a->scoped && !sign(w, &token, &a->access_token)) {
        return false;
    }
    token.kind = PJ_TOKEN_ACCOUNT;
    return (a->scoped && !a->account_access) ||
           sign(w, &token, &a->account_token);
}

/* -- answers -- */

void auth_json(struct worker *w, struct jsonw *json)
{
    http_header(w->res, "Content-Type", "application/json");
    http_header(w->res, "Cache-Control", "no-store");
    jsonw_init(json, &w->res->body);
    jsonw_object(json, NULL);
}

void auth_success(struct worker *w, struct jsonw *json, const char *code,
                  const char *message)
{
    w->res->code = code;
    auth_json(w, json);
    jsonw_cstr(json, "code", code);
    jsonw_cstr(json, "message", message);
}

void auth_list(struct jsonw *json, const char *name,
               const struct store_list *list)
{
    jsonw_array(json, name);
    for (size_t i = 0; i < list->count; i++) {
        jsonw_json(json, NULL, list->items[i], strlen(list->items[i]));
    }
    jsonw_array_end(json);
}

static void add_branches(struct jsonw *json, const struct branch_list *list)
{
    jsonw_array(json, "branches");
    for (size_t i = 0; i < list->count; i++) {
        const struct branch *b = &list->items[i];

        jsonw_object(json, NULL);
        jsonw_cstr(json, "branchId", b->branch_id);
        jsonw_cstr(json, "branchName", b->branch_name);
        jsonw_cstr(json, "workspaceId", b->workspace_id);
        jsonw_cstr(json, "workspaceName", b->workspace_name);
        jsonw_object_end(json);
    }
    jsonw_array_end(json);
}

static void add_text(struct jsonw *json, const char *name, pj_str_t text)
{
    if (text.len > 0) {
        jsonw_string(json, name, text.data, text.len);
    }
}

/* Writes the account and session of the tokens, because tabs of a browser share
 * a cookie and a refresh may answer for another session. */
static void add_owner(struct jsonw *json, const struct auth_answer *a)
{
    jsonw_cstr(json, "accountId", a->view->session.account_id);
    jsonw_cstr(json, "sessionId", a->view->session.session_id);
    if (a->scoped) {
        jsonw_cstr(json, "workspaceId", a->view->scope.workspace_id);
        jsonw_cstr(json, "activeBranchId", a->view->scope.active_branch_id);
    }
}

bool auth_answer(struct worker *w, struct auth_answer *a)
{
    const struct session *s = &a->view->session;
    struct http_response *res = w->res;
    struct jsonw json;

    if (a->access_token.len + a->account_token.len == 0 &&
        !auth_sign_access(w, a)) {
        return auth_failed(w, "cannot sign an access token");
    }
    buf_reset(&res->headers);
    buf_reset(&res->body);
    auth_success(w, &json, a->code, a->message);
    add_text(&json, "accessToken", a->access_token);
    add_text(&json, "accountAccessToken", a->account_token);
    add_text(&json, "refreshToken", a->refresh_token);
    jsonw_cstr(&json, "tokenType", w->jkt[0] != '\0' ? "DPoP" : "Bearer");
    jsonw_int(&json, "expiresIn", access_expiry(w, s) - w->now_s);
    if (!a->scoped || a->account_access) {
        add_branches(&json, &a->view->branches);
    }
    jsonw_object(&json, "nextAction");
    jsonw_cstr(&json, "type",
               a->scoped ? "load_current_context" : "select_branch");
    jsonw_object_end(&json);
    add_owner(&json, a);
    if (a->recovery_codes != NULL) {
        auth_list(&json, "recoveryCodes", a->recovery_codes);
    }
    jsonw_object_end(&json);
    if (res->body.overflow) {
        return auth_failed(w, "the answer does not fit its buffer");
    }
    res->status = 200;
    auth_set_ids(w, s->account_id, s->session_id);
    return true;
}

void auth_set_ids(struct worker *w, const char *account_id,
                  const char *session_id)
{
    (void) memccpy(w->res->account_id, account_id, '\0', STORE_UUID - 1);
    (void) memccpy(w->res->session_id, session_id, '\0', STORE_UUID - 1);
}

void auth_actor(struct worker *w, const char *account_id, const pj_str_t *jti,
                const char *credential, const char *session)
{
    struct jsonw json;
    struct buf out;

    buf_init(&out, w->store.actor, sizeof(w->store.actor) - 1);
    jsonw_init(&json, &out);
    jsonw_object(&json, NULL);
    add_text(&json, "account", pj_str(account_id));
    add_text(&json, "jti", jti != NULL ? *jti : (pj_str_t){NULL, 0});
    add_text(&json, "credential", pj_str(credential != NULL ? credential : ""));
    add_text(&json, "session", pj_str(session != NULL ? session : ""));
    add_text(&json, "requestId", w->req->request_id);
    add_text(&json, "address", w->req->remote_addr);
    jsonw_object_end(&json);
    w->store.actor[out.overflow ? 0 : out.len] = '\0';
}

void auth_audit(struct worker *w, const char *event, const char *account_id,
                const char *session_id)
{
    log_event(LOG_AUDIT_, event, NULL,
              LOG_FIELDS(log_text("clientIp", w->req->remote_addr.data),
                         log_text("accountId", account_id),
                         log_text("sessionId", session_id)));
}

void auth_record_revoked(struct worker *w, const struct session_refs *done,
                         enum metrics_counter counter, const char *event)
{
    metrics_add(counter, done->count);
    for (size_t i = 0; i < done->count; i++) {
        auth_audit(w, event, done->items[i].account_id,
                   done->items[i].session_id);
    }
}

void auth_audit_sessions(struct worker *w, const char *event,
                         const struct session *caller, int64_t ended)
{
    log_event(LOG_AUDIT_, event, NULL,
              LOG_FIELDS(LOG_NUMBER("revokedSessions", ended),
                         log_text("clientIp", w->req->remote_addr.data),
                         log_text("accountId", caller->account_id),
                         log_text("sessionId", caller->session_id)));
}
